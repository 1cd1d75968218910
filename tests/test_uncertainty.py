"""Decompositions against known answers and an 80-digit twin; members and the record."""

import dataclasses
import math
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import uncertainty as oracle

from skboost import _uncertainty
from skboost._uncertainty import Uncertainty, member_schedule

LN2, LN3 = math.log(2), math.log(3)


def log_odds(p):
    return np.log(np.asarray(p)) - np.log1p(-np.asarray(p))


def one_hot(n_classes, size=1e4):
    """Return members that are each certain of another class, for one sample."""
    return np.where(np.eye(n_classes) == 1, size, -size)[:, None, :]


def check(result, mean=None, knowledge=None, data=None, total=None, atol=1e-6):
    """Compare the first sample."""
    for name, expected in {"mean": mean, "knowledge": knowledge, "data": data, "total": total}.items():
        if expected is not None:
            assert_allclose(getattr(result, name)[0], expected, rtol=0, atol=atol, err_msg=name)


def test_binary_by_hand():
    opposed = _uncertainty.binary(log_odds([[0.9], [0.1]]))
    check(opposed, mean=[0.5, 0.5], total=0.693147, data=0.325083, knowledge=0.368064)
    check(_uncertainty.binary([[1000.0], [-1000.0]]), mean=[0.5, 0.5], total=LN2, data=0, knowledge=LN2, atol=1e-15)
    check(_uncertainty.binary([[1000.0], [1000.0]]), mean=[0, 1], total=0, data=0, knowledge=0, atol=0)
    check(_uncertainty.binary(log_odds([[0.2], [0.6]])), total=0.673012, data=0.586707, knowledge=0.086305)


def test_multinomial_by_hand():
    check(_uncertainty.multinomial(one_hot(3)), mean=[1 / 3] * 3, total=LN3, data=0, knowledge=LN3, atol=1e-15)
    equal = np.log(np.tile([0.2, 0.3, 0.5], (5, 1, 1)))
    check(_uncertainty.multinomial(equal), mean=[0.2, 0.3, 0.5], data=1.029653)
    assert _uncertainty.multinomial(equal).knowledge[0] == 0
    three = np.log([[[0.7, 0.2, 0.1]], [[0.1, 0.8, 0.1]], [[0.3, 0.3, 0.4]]])
    check(_uncertainty.multinomial(three), total=1.052139, data=0.843250, knowledge=0.208889)
    certain = _uncertainty.multinomial(np.tile([1000.0, -1000.0], (2, 1, 1)))
    check(certain, mean=[1, 0], total=0, data=0, knowledge=0, atol=0)


def test_regression_by_hand():
    members = [[1.0], [2.0], [3.0], [4.0]]
    plain = _uncertainty.regression(members)
    check(plain, mean=2.5, knowledge=1.25, atol=0)
    assert plain.data is None
    assert plain.total is None
    with_spread = _uncertainty.gaussian(members, [[1.0], [1.0], [1.0], [5.0]])
    check(with_spread, mean=2.5, knowledge=1.25, data=2, total=3.25, atol=0)
    check(_uncertainty.gaussian([[1.0], [3.0]], [[0.5], [0.25]]), mean=2, knowledge=1, data=0.375, total=1.375, atol=0)


def test_tiny_knowledge_keeps_its_digits():
    """total - data returns 0 here."""
    margin = log_odds([[0.5 + 1e-9], [0.5 - 1e-9]])
    assert_allclose(_uncertainty.binary(margin).knowledge, 2e-18, rtol=1e-6)
    pair = np.stack([np.zeros_like(margin), margin], axis=-1)
    assert_allclose(_uncertainty.multinomial(pair).knowledge, 2e-18, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 50.0, 700.0])
@pytest.mark.parametrize("n_members", [1, 2, 10])
def test_classification_stays_within_its_bounds(scale, n_members, seed):
    rng = np.random.default_rng([seed, n_members])
    cases = {
        2: _uncertainty.binary(scale * rng.normal(size=(n_members, 300))),
        5: _uncertainty.multinomial(scale * rng.normal(size=(n_members, 300, 5))),
    }
    for n_classes, result in cases.items():
        assert (result.knowledge >= 0).all()
        assert (result.data >= 0).all()
        assert_array_equal(result.total, result.data + result.knowledge)
        assert (result.total <= math.log(n_classes) + 1e-12).all()
        assert_allclose(result.mean.sum(axis=1), 1, rtol=1e-14)
        assert_allclose(
            result.total,
            -np.sum(np.where(result.mean > 0, result.mean, 1) * safe_log(result.mean), axis=1),
            rtol=0,
            atol=1e-12,
        )
        if n_members == 1:
            assert_array_equal(result.knowledge, 0)


def safe_log(p):
    return np.log(np.where(p > 0, p, 1))


@pytest.mark.parametrize("scale", [1e-6, 0.1, 3.0, 60.0])
def test_classification_matches_eighty_digits(scale, seed):
    rng = np.random.default_rng(seed)
    margins = scale * rng.normal(size=(4, 3, 3)) + rng.normal(size=(3, 3))
    result = _uncertainty.multinomial(margins)
    log_odds_of_one = margins[:, :, 0]
    two = _uncertainty.binary(log_odds_of_one)
    for i in range(3):
        for got, expected in (
            (result, oracle.classification(margins[:, i].tolist())),
            (two, oracle.binary(log_odds_of_one[:, i].tolist())),
        ):
            assert_allclose(got.mean[i], expected[0], rtol=1e-12, atol=1e-300)
            # Nearly equal members: u = (p - mean) / mean has few digits left.
            assert_allclose(got.knowledge[i], expected[1], rtol=1e-8 if scale < 1e-3 else 1e-11)
            assert_allclose(got.data[i], expected[2], rtol=1e-12, atol=1e-15)
            assert_allclose(got.total[i], expected[3], rtol=1e-12, atol=1e-15)


def test_probabilities_by_hand():
    check(_uncertainty.categorical([[[0.1, 0.9]], [[0.9, 0.1]]]), total=0.693147, data=0.325083, knowledge=0.368064)
    check(_uncertainty.categorical(np.eye(3)[:, None]), mean=[1 / 3] * 3, total=LN3, data=0, knowledge=LN3, atol=1e-15)
    never_two = _uncertainty.categorical([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]])
    check(never_two, mean=[0.5, 0.5, 0], total=LN2, data=0, knowledge=LN2, atol=1e-15)
    equal = _uncertainty.categorical(np.tile([0.2, 0.3, 0.5], (5, 1, 1)))
    check(equal, mean=[0.2, 0.3, 0.5], data=1.029653)
    assert_array_equal(equal.knowledge, 0)
    tiny = _uncertainty.categorical([[[0.5 - 1e-9, 0.5 + 1e-9]], [[0.5 + 1e-9, 0.5 - 1e-9]]])
    assert_allclose(tiny.knowledge, 2e-18, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 50.0, 700.0])
def test_probabilities_give_what_their_margins_give(scale, seed):
    margins = scale * np.random.default_rng(seed).normal(size=(6, 200, 4))
    p = softmax(margins)
    given = p.copy()
    found, expected = _uncertainty.categorical(p), _uncertainty.multinomial(margins)
    assert_array_equal(p, given)
    assert_allclose(found.mean, expected.mean, rtol=1e-12)
    # The rounding of a probability near 1/4 is 3e-17; its square enters knowledge.
    assert_allclose(found.knowledge, expected.knowledge, rtol=1e-6 if scale < 1e-3 else 1e-10, atol=1e-30)
    assert_allclose(found.data, expected.data, rtol=1e-12, atol=1e-14)
    assert (found.knowledge >= 0).all()
    assert (found.data >= 0).all()
    assert_array_equal(found.total, found.data + found.knowledge)


def test_single_precision_probabilities_keep_the_identity(seed):
    p = np.random.default_rng(seed).dirichlet(np.full(200, 0.1), size=(5, 40)).astype(np.float32)
    found = _uncertainty.categorical(p)
    assert (found.knowledge > 0).all()
    entropy = -np.sum(found.mean * safe_log(found.mean), axis=1)
    assert_allclose(found.total, entropy, rtol=1e-12)


@pytest.mark.parametrize(("p", "message"), [
    ([[0.5, 0.6]], "no probabilities"), ([[1.5, -0.5]], "no probabilities"), ([[np.nan, 0.5]], "not finite"),
])  # fmt: skip
def test_rows_that_are_no_probabilities_are_refused(p, message):
    with pytest.raises(ValueError, match=message):
        _uncertainty.categorical([[[0.5, 0.5]], p])


def test_two_classes_as_softmax_equal_the_binary_form(seed):
    margin = np.random.default_rng(seed).normal(0, 3, (6, 40))
    as_softmax = _uncertainty.multinomial(np.stack([np.zeros_like(margin), margin], axis=-1))
    for ours, other in zip(_uncertainty.binary(margin), as_softmax, strict=True):
        assert_allclose(ours, other, rtol=1e-10, atol=1e-15)


def test_shift_of_all_classes_changes_nothing(seed):
    margins = np.random.default_rng(seed).normal(0, 2, (5, 30, 4))
    for shift in (1e3, -1e3):
        for here, there in zip(
            _uncertainty.multinomial(margins), _uncertainty.multinomial(margins + shift), strict=True
        ):
            assert_allclose(here, there, rtol=0, atol=1e-12)


def test_swapping_the_classes_swaps_the_means_only(seed):
    margin = np.random.default_rng(seed).normal(0, 4, (5, 30))
    here, there = _uncertainty.binary(margin), _uncertainty.binary(-margin)
    assert_array_equal(here.mean, there.mean[:, ::-1])
    assert_array_equal(here.data, there.data)
    assert_allclose(here.knowledge, there.knowledge, rtol=1e-14)


def test_regression_matches_eighty_digits(seed):
    rng = np.random.default_rng(seed)
    means, variances = rng.normal(1e6, 1.0, (7, 20)), rng.random((7, 20))
    plain, spread = _uncertainty.regression(means), _uncertainty.gaussian(means, variances)
    for i in range(20):
        mean, knowledge, data, total = oracle.gaussian(means[:, i], variances[:, i])
        assert_allclose([plain.mean[i], plain.knowledge[i]], [mean, knowledge], rtol=1e-13)
        assert_allclose([spread.data[i], spread.total[i]], [data, total], rtol=1e-13)
    assert_array_equal(spread.mean, plain.mean)
    assert_array_equal(spread.knowledge, plain.knowledge)
    assert_array_equal(spread.total, spread.data + spread.knowledge)


def test_regression_follows_units_and_ignores_levels(seed):
    members = np.round(np.random.default_rng(seed).normal(size=(5, 50)) * 2**20) / 2**20
    plain = _uncertainty.regression(members)
    assert_array_equal(_uncertainty.regression(1024 * members).knowledge, 1024.0**2 * plain.knowledge)
    assert_array_equal(_uncertainty.regression(2.0**30 + members).knowledge, plain.knowledge)


def test_equal_members_know_everything():
    row = np.random.default_rng(0).normal(size=(1, 100))
    for n_members in (1, 3, 10):
        same = np.repeat(row, n_members, axis=0)
        assert_array_equal(_uncertainty.regression(same).knowledge, 0)
        assert_array_equal(_uncertainty.regression(same).mean, row[0])
        assert_array_equal(_uncertainty.binary(same).knowledge, 0)
        assert_array_equal(_uncertainty.multinomial(np.stack([same, -same, same / 2], axis=-1)).knowledge, 0)


DECOMPOSITIONS = {
    "regression": lambda z: _uncertainty.regression(z[..., 0]),
    "gaussian": lambda z: _uncertainty.gaussian(z[..., 0], np.exp(z[..., 1])),
    "binary": lambda z: _uncertainty.binary(z[..., 0]),
    "multinomial": _uncertainty.multinomial,
}


def softmax(z):
    """Return probabilities that depend on no other row; NumPy's sums depend on the layout."""
    p = np.exp(np.ascontiguousarray(z) - z.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return np.asfortranarray(p) if np.isfortran(z) else p


ROW_WISE = {**DECOMPOSITIONS, "categorical": lambda z: _uncertainty.categorical(softmax(z))}


@pytest.mark.parametrize("name", ROW_WISE)
def test_a_row_knows_nothing_of_the_others(name, monkeypatch, seed):
    decompose = ROW_WISE[name]
    margins = np.random.default_rng(seed).normal(0, 3, (11, 200, 9))
    whole = decompose(margins)
    singles = [decompose(margins[:, [i]]) for i in range(40)]
    order = np.random.default_rng(1).permutation(200)
    shuffled = decompose(np.asfortranarray(margins[:, order]))
    monkeypatch.setattr(_uncertainty, "BLOCK_VALUES", 1000)
    small_blocks = decompose(margins)
    for k, column in enumerate(whole):
        if column is not None:
            assert_array_equal(np.concatenate([single[k] for single in singles]), column[:40])
            assert_array_equal(shuffled[k], column[order])
            assert_array_equal(small_blocks[k], column)


@pytest.mark.parametrize("name", DECOMPOSITIONS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(name, bad):
    margins = np.zeros((3, 5, 2))
    margins[1, 2, 0] = bad
    with pytest.raises(ValueError, match="not finite"):
        DECOMPOSITIONS[name](margins)


def test_wrong_shapes_are_refused():
    for function, shape in (
        (_uncertainty.regression, (3,)),
        (_uncertainty.binary, (0, 3)),
        (_uncertainty.multinomial, (2, 3)),
    ):
        with pytest.raises(ValueError, match="members must be an array"):
            function(np.zeros(shape))
    with pytest.raises(ValueError, match="means have shape"):
        _uncertainty.gaussian(np.zeros((2, 3)), np.zeros((2, 4)))


def test_no_rows():
    assert _uncertainty.regression(np.zeros((3, 0))).mean.shape == (0,)
    assert _uncertainty.binary(np.zeros((3, 0))).mean.shape == (0, 2)
    assert _uncertainty.multinomial(np.zeros((3, 0, 4))).mean.shape == (0, 4)


@pytest.mark.parametrize(
    ("n_iter", "n_members", "expected"),
    [
        (100, 10, range(55, 101, 5)),
        (60, 10, range(33, 61, 3)),
        (21, 10, range(12, 22)),
        (20, 10, range(11, 21)),
        (2, 1, [2]),
        (7, np.int32(2), [6, 7]),
    ],
)
def test_members_are_spread_over_the_second_half(n_iter, n_members, expected):
    schedule = member_schedule(n_iter, n_members)
    assert schedule.dtype == np.int64
    assert schedule.tolist() == list(expected) == oracle.member_schedule(n_iter, n_members)


@pytest.mark.parametrize("n_members", [0, -1, 1.5, 2.0, True, np.True_, "3", None])
def test_numbers_of_members_are_positive_integers(n_members):
    with pytest.raises(ValueError, match=r"n_members must be an integer in the range \[1, inf\), got"):
        member_schedule(100, n_members)


@pytest.mark.parametrize(("n_iter", "n_members"), [(19, 10), (1, 1), (100, 10**9)])
def test_more_members_than_half_the_iterations_are_refused(n_iter, n_members):
    message = f"n_members={n_members} needs at least {2 * n_members} iterations, the model has {n_iter}"
    with pytest.raises(ValueError, match=message):
        member_schedule(n_iter, n_members)


def classification_result():
    parts = _uncertainty.binary([[0.0, 1.0], [2.0, 1.0]])
    return Uncertainty(*parts, support=np.array([1.0, 0.5]), member_iterations=np.array([3, 4]))


def test_record_is_frozen_and_survives_pickling():
    result = classification_result()
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.mean = None
    again = pickle.loads(pickle.dumps(result))
    for field in dataclasses.fields(Uncertainty):
        assert_array_equal(getattr(again, field.name), getattr(result, field.name))
    names = [field.name for field in dataclasses.fields(Uncertainty)]
    assert names == ["mean", "knowledge", "data", "total", "support", "member_iterations"]


def test_repr_is_short():
    text = repr(classification_result())
    assert text.startswith("Uncertainty(n_samples=2, n_classes=2, n_members=2; averages: knowledge=0.0447")
    assert len(text) < 130
    assert repr(Uncertainty(np.array([1.0]), np.array([0.5]), None, None)) == (
        "Uncertainty(n_samples=1; averages: knowledge=0.5)"
    )
    assert repr(Uncertainty(np.empty(0), np.empty(0), None, None)) == "Uncertainty(n_samples=0)"


def test_frame_has_a_row_per_sample():
    pytest.importorskip("pandas")
    result = classification_result()
    frame = result.to_frame()
    assert list(frame.columns) == ["mean_0", "mean_1", "knowledge", "data", "total", "support"]
    assert_array_equal(frame["total"], result.total)
    assert_array_equal(frame[["mean_0", "mean_1"]], result.mean)
    plain = Uncertainty(np.array([1.0, 2.0]), np.array([0.5, 0.25]), None, None).to_frame()
    assert list(plain.columns) == ["mean", "knowledge"]
    assert len(plain) == 2


def test_frame_without_pandas_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas"):
        classification_result().to_frame()
