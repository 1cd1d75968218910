"""Cox's partial likelihood of the engine against brute force, and its laws to the bit."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import survival as oracle
from skboost._engine.survival import RiskSets

import skboost

FLOAT_EPS = np.finfo(np.float32).eps


def ranks(time):
    return np.unique(time, return_inverse=True)[1].reshape(-1)


def derivatives(time, event, score, weight=None, n_threads=1):
    grad, hess = np.empty((2, len(time)), dtype=np.float32)
    RiskSets(ranks(time), event, weight).write_gradients(score, grad, hess, n_threads)
    return grad, hess


def make_rows(n, seed=0, n_times=None, spread=1.0):
    rng = np.random.default_rng([seed, n])
    time = rng.exponential(size=n) if n_times is None else rng.integers(0, n_times, n).astype(float)
    return time, rng.integers(0, 2, n).astype(float), rng.normal(0, spread, n)


def test_known_values():
    time, event = np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0, 1.0])
    score = np.array([0.0, 0.5, -0.5, 1.0])
    grad, hess = derivatives(time, event, score)
    assert_allclose(grad, [-0.832595, -0.392497, 0.223488, 1.001604], atol=1e-6)
    assert_allclose(hess, [0.139381, 0.421433, 0.198306, 0.495813], atol=1e-6)
    assert_allclose(RiskSets(ranks(time), event).values(score).sum(), 2.891469, atol=1e-6)
    assert_allclose(grad.sum(dtype=float), 0, atol=1e-6)


@pytest.mark.parametrize("n_times", [None, 1, 7, 40])
@pytest.mark.parametrize("n", [1, 2, 65, 300])
def test_brute_force_agrees_with_and_without_ties(n, n_times, seed):
    time, event, score = make_rows(n, seed, n_times)
    values, grad, hess = oracle.cox(time, event, score)
    got_grad, got_hess = derivatives(time, event, score)
    assert_allclose(got_grad, grad, rtol=FLOAT_EPS, atol=1e-7)
    assert_allclose(got_hess, hess, rtol=FLOAT_EPS, atol=1e-12)
    assert_allclose(RiskSets(ranks(time), event).values(score), values, rtol=1e-11, atol=1e-11)


def test_weights_enter_as_in_the_definition(seed):
    time, event, score = make_rows(200, seed, 50)
    weight = np.random.default_rng(seed).uniform(0.1, 3, 200)
    values, grad, hess = oracle.cox(time, event, score, weight)
    got_grad, got_hess = derivatives(time, event, score, weight)
    assert_allclose(got_grad, grad, rtol=FLOAT_EPS, atol=1e-7)
    assert_allclose(got_hess, hess, rtol=FLOAT_EPS, atol=1e-9)
    assert_allclose(RiskSets(ranks(time), event, weight).values(score), values, rtol=1e-11, atol=1e-11)


def test_gradients_are_central_differences(seed):
    time, event, score = make_rows(40, seed, 15)
    sets = RiskSets(ranks(time), event)
    grad, hess = derivatives(time, event, score)
    for j in range(40):
        up, down = (sets.values(score + sign * 1e-3 * np.eye(40)[j]).sum() for sign in (1, -1))
        assert_allclose(grad[j], (up - down) / 2e-3, rtol=1e-5, atol=1e-6)
        assert_allclose(hess[j], (up - 2 * sets.values(score).sum() + down) / 1e-6, rtol=1e-4, atol=1e-6)


def test_risk_sets_keep_nine_digits_of_small_hazards():
    """The last rows at risk have hazards 1e-13 times the first one."""
    n = 50
    time = np.arange(n, dtype=float)
    score = np.linspace(0, -30, n)
    values, grad, _ = oracle.cox(time, np.ones(n), score)
    assert_allclose(RiskSets(ranks(time), np.ones(n)).values(score), values, rtol=0, atol=2e-9)
    got, _ = derivatives(time, np.ones(n), score)
    assert_allclose(got, grad, rtol=FLOAT_EPS, atol=2e-7)


def test_a_shift_of_all_scores_changes_nothing_but_rounding():
    time, event, score = make_rows(100, 3, 20)
    for shift in (-1e4, -3.0, 700.0):
        got, moved = derivatives(time, event, score), derivatives(time, event, score + shift)
        assert_allclose(moved[0], got[0], rtol=1e-6, atol=1e-6)
        assert_allclose(moved[1], got[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [30.0, 745.0, 1e4])
def test_extreme_scores_stay_finite(size):
    time, event, _ = make_rows(200, 1, 30)
    score = size * np.random.default_rng(0).uniform(-1, 1, 200)
    grad, hess = derivatives(time, event, score)
    assert np.isfinite(grad).all()
    assert np.isfinite(hess).all()
    assert (hess >= 0).all()
    sets = RiskSets(ranks(time), event)
    assert np.isfinite(sets.values(score)).all()
    assert (sets.values(score) >= -1e-9).all()


@st.composite
def studies(draw):
    n = draw(st.integers(1, 25))
    numbers = st.integers(0, 2**31)
    rng = np.random.default_rng(draw(numbers))
    spread = draw(st.sampled_from([0.0, 1.0, 20.0, 300.0]))
    time = rng.integers(0, draw(st.integers(1, n)), n).astype(float)
    weight = rng.integers(draw(st.integers(0, 1)), draw(st.sampled_from([2, 5, 2**20])), n).astype(float)
    return time, rng.integers(0, 2, n).astype(float), rng.normal(0, spread, n), weight, rng


@settings(max_examples=60, deadline=None)
@given(studies())
def test_order_of_rows_has_no_influence_on_a_bit(study):
    time, event, score, weight, rng = study
    order = rng.permutation(len(time))
    fractional = weight * rng.random(len(time))
    for w in (None, weight, fractional):
        other = None if w is None else w[order]
        for one, moved in zip(
            derivatives(time, event, score, w), derivatives(time[order], event[order], score[order], other), strict=True
        ):
            assert_array_equal(one[order], moved)
        sets, moved = RiskSets(ranks(time), event, w), RiskSets(ranks(time[order]), event[order], other)
        assert_array_equal(sets.values(score)[order], moved.values(score[order]))
        assert_array_equal(sets.cumulative_hazard(score)[0], moved.cumulative_hazard(score[order])[0])


@settings(max_examples=60, deadline=None)
@given(studies())
def test_whole_weights_equal_repeated_rows_to_the_bit(study):
    time, event, score, weight, rng = study
    weight = np.minimum(weight, 7)
    copies = np.repeat(np.arange(len(time)), weight.astype(int))
    copies = rng.permutation(copies)
    grad, hess = derivatives(time, event, score, weight)
    # Ranks are those of all rows, so that times whose rows weigh nothing are among them.
    sets = RiskSets(ranks(time)[copies], event[copies])
    got, got_hess = np.empty((2, len(copies)), dtype=np.float32)
    sets.write_gradients(score[copies], got, got_hess)
    assert_array_equal(got, grad[copies])
    assert_array_equal(got_hess, hess[copies])
    assert_array_equal(sets.values(score[copies]), RiskSets(ranks(time), event, weight).values(score)[copies])


@settings(max_examples=30, deadline=None)
@given(studies(), st.sampled_from([2.0**-40, 0.125, 2.0**30]))
def test_scale_of_weights_has_no_influence_on_gradients(study, factor):
    time, event, score, weight, _ = study
    assert_array_equal(derivatives(time, event, score, weight * factor)[0], derivatives(time, event, score, weight)[0])


def test_rows_without_weight_do_not_exist():
    time, event, score = make_rows(60, 0, 10)
    more_time, more_event, _ = make_rows(20, 1, 10)
    weight = np.append(np.ones(60), np.zeros(20))
    # Their scores are the largest.
    grad, hess = derivatives(
        np.append(time, more_time), np.append(event, more_event), np.append(score, np.full(20, 500.0)), weight
    )
    alone = derivatives(time, event, score)
    assert_array_equal(grad[:60], alone[0])
    assert_array_equal(hess[:60], alone[1])


def test_threads_have_no_influence():
    time, event, score = make_rows(70_000, 0, 5000)
    one, two = derivatives(time, event, score), derivatives(time, event, score, None, 2)
    assert_array_equal(one[0], two[0])
    assert_array_equal(one[1], two[1])
    sets = RiskSets(ranks(time), event)
    assert_array_equal(sets.values(score, 1), sets.values(score, 2))


DIGEST = """
import hashlib, numpy as np
from skboost._engine import losses
from skboost._engine.survival import RiskSets
from skboost._losses import AcceleratedFailureTime
rng = np.random.default_rng(0)
sets = RiskSets(rng.integers(0, 300, 3000), rng.integers(0, 2, 3000).astype(float), rng.random(3000))
score = rng.normal(0, 5, 3000)
grad, hess = np.empty((2, 3000), dtype=np.float32)
sets.write_gradients(score, grad, hess)
found = grad.tobytes() + hess.tobytes() + sets.values(score).tobytes()
time, kind = rng.exponential(size=3000), rng.integers(0, 4, 3000)
targets = np.c_[np.where(kind == 1, 0, time), np.choose(kind, [time, time, np.inf, 1.5 * time])]
for law in ("normal", "logistic", "extreme"):
    rows = AcceleratedFailureTime(law, 0.7).with_targets(targets), np.arange(3000.0), score[None], np.zeros(1)
    found += losses.values(*rows).tobytes() + b"".join(part.tobytes() for part in losses.gradients64(*rows, True))
print(hashlib.sha256(found).hexdigest())
"""


def test_instruction_sets_have_no_influence():
    folder = str(Path(skboost.__file__).parents[1])
    found = set()
    for level in "012":
        env = {**os.environ, "SKBOOST_ISA": level, "PYTHONPATH": folder}
        found.add(subprocess.run([sys.executable, "-c", DIGEST], env=env, capture_output=True, check=True).stdout)
    assert len(found) == 1


def test_breslow_hazard_follows_its_definition(seed):
    time, event, score = make_rows(80, seed, 20)
    weight = np.random.default_rng(seed).uniform(0.5, 2, 80)
    hazard, top = RiskSets(ranks(time), event, weight).cumulative_hazard(score)
    assert top == score.max()
    assert_allclose(hazard * math.exp(-top), oracle.breslow(time, event, score, weight, np.unique(time)), rtol=1e-11)


def test_no_event_gives_no_gradient():
    time, _, score = make_rows(10)
    grad, hess = derivatives(time, np.zeros(10), score)
    assert_array_equal(grad, 0)
    assert_array_equal(hess, 0)


def test_one_row_alone_has_nothing_to_learn():
    grad, hess = derivatives(np.ones(1), np.ones(1), np.array([12.0]))
    assert_array_equal(grad, 0)
    assert_array_equal(hess, 0)


def test_empty_study():
    sets = RiskSets(np.empty(0, dtype=np.intp), np.empty(0))
    assert sets.values(np.empty(0)).shape == (0,)
    assert sets.cumulative_hazard(np.empty(0))[0].shape == (0,)


@pytest.mark.parametrize(
    ("time", "event", "weight", "message"),
    [
        ([0, 1], [1.0], None, "one entry per row"),
        ([0, -1], [1.0, 0.0], None, "ranks"),
        ([0, 2**40], [1.0, 0.0], None, "ranks"),
        ([0, 1], [1.0, 2.0], None, "0 or 1"),
        ([0, 1], [1.0, math.nan], None, "0 or 1"),
        ([0, 1], [1.0, 0.0], [1.0, -1.0], "weights"),
        ([0, 1], [1.0, 0.0], [1.0, math.nan], "weights"),
    ],
)
def test_bad_rows_are_refused(time, event, weight, message):
    with pytest.raises(ValueError, match=message):
        RiskSets(time, event, weight)


def test_wrong_lengths_are_refused():
    sets = RiskSets([0, 1], [1.0, 0.0])
    out = np.empty(2, dtype=np.float32)
    for call in (
        lambda: sets.values(np.zeros(3)),
        lambda: sets.write_gradients(np.zeros(3), out, None),
        lambda: sets.write_gradients(np.zeros(2), out[:1].copy(), None),
        lambda: sets.write_gradients(np.zeros(2), out, out[:1].copy()),
    ):
        with pytest.raises(ValueError, match="entries"):
            call()
