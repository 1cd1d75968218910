"""The rule that ends a fit, on scores written by hand."""

import math

import pytest

from skboost._early_stopping import EarlyStopping


def feed(scores, n_iter_no_change, tol=0.0):
    """Return the number of scores taken before the stop (None: never stopped) and the object."""
    stopping = EarlyStopping(n_iter_no_change, tol)
    for position, score in enumerate(scores):
        if stopping.update(score):
            assert stopping.stopped
            return position + 1, stopping
    assert not stopping.stopped
    return None, stopping


def test_growing_scores_never_stop():
    stop, stopping = feed([-5, -4, -3, -2, -1], n_iter_no_change=1)
    assert stop is None
    assert (stopping.best_iteration, stopping.best_score) == (4, -1)


def test_stop_after_the_given_number_of_scores_without_change():
    stop, stopping = feed([0, 1, 2, 1, 1, 1, 9], n_iter_no_change=3)
    assert stop == 6
    assert (stopping.best_iteration, stopping.best_score) == (2, 2)


def test_an_improvement_starts_the_count_again():
    stop, stopping = feed([0, 1, 0, 2, 0, 3, 0, 0], n_iter_no_change=2)
    assert stop == 8
    assert stopping.best_iteration == 5


def test_an_improvement_must_exceed_the_tolerance():
    assert feed([0, 1, 1.5, 1.5], n_iter_no_change=2, tol=0.5)[0] == 4
    assert feed([0, 1, 1.5, 1.625], n_iter_no_change=2, tol=0.5)[0] is None


def test_small_steps_add_up():
    assert feed([0.25 * k for k in range(20)], n_iter_no_change=3, tol=0.5)[0] is None
    assert feed([0.25 * k for k in range(20)], n_iter_no_change=2, tol=0.5)[0] == 3


def test_best_iteration_counts_steps_within_the_tolerance():
    _, stopping = feed([0, 1, 1.25, 1.5], n_iter_no_change=10, tol=0.5)
    assert (stopping.best_iteration, stopping.best_score) == (3, 1.5)


def test_the_earliest_of_equal_scores_is_best():
    assert feed([0, 2, 2, 2], n_iter_no_change=10)[1].best_iteration == 1


def test_equal_scores_stop():
    assert feed([1, 1, 1, 1], n_iter_no_change=3)[0] == 4


def test_the_first_score_is_no_failed_attempt():
    assert feed([1, 0], n_iter_no_change=2)[0] is None
    assert feed([1, 0, 0], n_iter_no_change=2)[0] == 3


def test_not_a_number_is_no_improvement():
    stop, stopping = feed([0, 1, math.nan, math.nan], n_iter_no_change=2)
    assert stop == 4
    assert stopping.best_iteration == 1
    assert feed([math.nan, math.nan, math.nan], n_iter_no_change=2)[0] == 3


def test_old_scores_fed_again_continue_as_if_uninterrupted():
    scores = [0, 3, 1, 2, 1, 0, 4]
    whole = EarlyStopping(4, 0.0)
    decisions = [whole.update(score) for score in scores]
    resumed = EarlyStopping(4, 0.0)
    for score in scores[:4]:
        resumed.update(score)
    assert [resumed.update(score) for score in scores[4:]] == decisions[4:]
    assert resumed.best_iteration == whole.best_iteration


@pytest.mark.parametrize("n_iter_no_change", [0, -1])
def test_patience_below_one_is_refused(n_iter_no_change):
    with pytest.raises(ValueError, match="n_iter_no_change"):
        EarlyStopping(n_iter_no_change, 0.0)


@pytest.mark.parametrize("tol", [-1e-9, math.nan])
def test_negative_tolerance_is_refused(tol):
    with pytest.raises(ValueError, match="tol"):
        EarlyStopping(5, tol)
