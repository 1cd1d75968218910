"""Accelerated failure times of the engine against SciPy's laws, in both tails and for all kinds of censoring."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import survival as oracle
from scipy import stats

from skboost._engine import losses
from skboost._losses import AcceleratedFailureTime

LAWS = list(oracle.LAWS)
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(120)


def make_rows(n, seed=0, spread=1.5):
    """Return (lower, upper, score) with events, right-, left- and interval-censored rows."""
    rng = np.random.default_rng([seed, n])
    time, kind = np.exp(rng.normal(size=n)), rng.integers(0, 4, n)
    lower = np.where(kind == 1, 0.0, time)
    upper = np.choose(kind, [time, time, np.inf, time * (1 + rng.uniform(0.05, 3, n))])
    return lower, upper, np.log(time) + rng.normal(0, spread, n)


def evaluate(lower, upper, score, distribution="normal", scale=1.0):
    """Return (values, gradients, second derivatives) in double precision."""
    targets = np.c_[np.broadcast_to(lower, np.shape(score)), np.broadcast_to(upper, np.shape(score))].astype(float)
    loss = AcceleratedFailureTime(distribution, scale).with_targets(targets)
    arguments = loss, np.arange(len(targets), dtype=float), np.asarray(score, dtype=float)[None], np.zeros(1)
    grad, hess = losses.gradients64(*arguments, True)
    return losses.values(*arguments), grad[0], hess[0]


def test_known_values():
    value, grad, hess = evaluate([2.0, 2.0, 1.0], [2.0, np.inf, 3.0], np.full(3, 0.5), scale=0.8)
    assert_allclose(value, [1.418087, 0.904833, 0.679512], atol=1e-6)
    assert_allclose(grad, [-0.301792, -1.197089, -0.065678], atol=1e-6)
    assert_allclose(hess, [1.5625, 1.071750, 1.332098], atol=1e-6)


@pytest.mark.parametrize("distribution", LAWS)
@pytest.mark.parametrize("scale", [0.4, 1.0, 2.5])
def test_all_kinds_of_censoring_match_the_laws_of_scipy(distribution, scale, seed):
    lower, upper, score = make_rows(300, seed)
    # Further out the quotients of the definition are 0 / 0 for the law whose tail is a double exponential.
    score = np.maximum(score, np.log(np.where(lower > 0, lower, upper)) - 2.5 * scale)
    value, grad, hess = evaluate(lower, upper, score, distribution, scale)
    assert_allclose(value, oracle.aft_value(lower, upper, score, distribution, scale), rtol=1e-9, atol=1e-10)
    expected_grad, expected_hess = oracle.aft_derivatives(lower, upper, score, distribution, scale)
    assert_allclose(grad, expected_grad, rtol=1e-6, atol=1e-8)
    assert_allclose(hess, expected_hess, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("distribution", LAWS)
def test_derivatives_are_central_differences(distribution, seed):
    """Richardson's extrapolation, whose error is of the fourth order in the step."""
    lower, upper, score = make_rows(300, seed)
    _, grad, hess = evaluate(lower, upper, score, distribution, 0.7)
    slopes, bends = [], []
    for step in (1e-3, 2e-3):
        up, down = (evaluate(lower, upper, score + sign * step, distribution, 0.7) for sign in (1, -1))
        slopes.append((up[0] - down[0]) / (2 * step))
        bends.append((up[1] - down[1]) / (2 * step))
    assert_allclose(grad, (4 * slopes[0] - slopes[1]) / 3, rtol=1e-8, atol=1e-9)
    assert_allclose(hess, (4 * bends[0] - bends[1]) / 3, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("distribution", LAWS)
def test_single_precision_rounds_the_double_one(distribution):
    lower, upper, score = make_rows(300)
    loss = AcceleratedFailureTime(distribution, 0.6).with_targets(np.c_[lower, upper])
    arguments = loss, np.arange(300.0), score[None], np.zeros(1)
    single, double = losses.gradients(*arguments, True), losses.gradients64(*arguments, True)
    for one, other in zip(single, double, strict=True):
        assert one.dtype == np.float32
        assert_array_equal(one, other.astype(np.float32))
    assert_array_equal(losses.gradients(*arguments, False)[0], single[0])


def test_normal_hazard_keeps_its_digits_in_both_tails():
    z = np.concatenate([np.linspace(-37, 37, 1500), np.geomspace(38, 1e8, 300)])
    expected = np.exp(stats.norm.logpdf(z) - stats.norm.logsf(z))
    far = z > 37
    expected[far] = z[far] + 1 / z[far] - 2 / z[far] ** 3 + 10 / z[far] ** 5 - 74 / z[far] ** 7
    value, grad, hess = evaluate(1.0, np.inf, -z)
    assert_allclose(-grad, expected, rtol=5e-12)
    assert_allclose(value, -stats.norm.logsf(z), rtol=2e-13, atol=1e-15)
    # The variance of a normal variate cut off at z is about 1 / z^2 for large z.
    assert_allclose(1 - hess[far], 1 / z[far] ** 2 - 6 / z[far] ** 4 + 50 / z[far] ** 6, atol=2e-8)
    for left, right in zip(evaluate(0.0, 1.0, z), (value, -grad, hess), strict=True):
        assert_array_equal(left, right)


@pytest.mark.parametrize("width", [1e-9, 1e-5, 0.01, 0.7, 1.3, 5.0, 40.0])
@pytest.mark.parametrize("centre", [0.0, 0.3, 2.0, 12.0, 300.0, 1e4])
def test_normal_intervals_by_quadrature(width, centre):
    """Probability, mean and variance of a normal variate on an interval, from its density over that of its near end."""
    low, high = centre - width / 2, centre + width / 2
    near = max(low, 0.0)
    # The density falls by exp(-40) within 40 / (near + 1) or so.
    parts = [(max(low, -9.0), 0.0), (0.0, min(high, 9.0))] if low < 0 else [(0.0, min(width, 40 / (near + 4)))]
    mass = mean = square = 0.0
    for a, b in parts:
        x = 0.5 * (a + b) + 0.5 * (b - a) * NODES
        from_centre = x - (centre if low < 0 else width / 2)
        density = 0.5 * (b - a) * NODE_WEIGHTS * np.exp(-x * (near + 0.5 * x))
        mass += density.sum()
        mean += (density * from_centre).sum()
        square += (density * from_centre**2).sum()
    mean, square = mean / mass, square / mass
    upper = math.exp(0.5 * width)
    value, grad, hess = evaluate(1 / upper, upper, np.array([-centre, centre]))
    exact = 2 * math.log(upper)
    assert_allclose(grad, [-(centre + mean), centre + mean], rtol=1e-9 if exact > 1e-8 else 1e-6, atol=1e-12)
    assert_allclose(hess, 1 - (square - mean**2), atol=2e-8 if centre > 1e3 else 1e-11)
    expected = 0.5 * near**2 + 0.5 * math.log(2 * math.pi) - math.log(mass)
    assert_allclose(value, expected, rtol=1e-11, atol=1e-6 if width < 1e-8 else 1e-10)


@pytest.mark.parametrize("distribution", LAWS)
def test_narrow_intervals_are_events(distribution):
    score = np.linspace(-8, 8, 101)
    event = evaluate(1.0, 1.0, score, distribution, 0.9)
    narrow = evaluate(1.0, 1.0 + 1e-7, score, distribution, 0.9)
    # A density is a probability over the length of its interval.
    assert_allclose(narrow[0] + math.log(1e-7), event[0], rtol=1e-4)
    assert_allclose(narrow[1], event[1], rtol=1e-4, atol=1e-6)
    assert_allclose(narrow[2], event[2], rtol=1e-4)


@pytest.mark.parametrize("distribution", LAWS)
def test_intervals_without_ends_know_nothing(distribution):
    value, grad, hess = evaluate(0.0, np.inf, np.linspace(-1e4, 1e4, 41), distribution, 0.5)
    for column in (value, grad, hess):
        assert_allclose(column, 0, atol=1e-200)


@pytest.mark.parametrize("distribution", LAWS)
@pytest.mark.parametrize("scale", [1e-4, 0.05, 1.0, 1e4])
def test_extreme_scores_stay_finite(distribution, scale):
    ends = [(2.0, 2.0), (2.0, np.inf), (0.0, 2.0), (1.0, 3.0), (1e-300, 1e300), (1e300, 1e300), (5e-324, 5e-324)]
    for size in (30.0, 745.0, 1e4):
        for sign in (-1, 1):
            for lower, upper in ends:
                value, grad, hess = evaluate(lower, upper, np.array([sign * size]), distribution, scale)
                assert np.isfinite([value, grad, hess]).all()
                assert hess >= 0
                targets = np.array([[lower, upper]])
                loss = AcceleratedFailureTime(distribution, scale).with_targets(targets)
                single = losses.gradients(loss, np.zeros(1), np.array([[sign * size]]), np.zeros(1), True)
                assert np.isfinite(single).all()


def test_large_hazards_continue_as_straight_lines():
    at = -np.array([30.0, 31.0, 40.0, 700.0, 1e4])
    for upper in (1.0, np.inf, 2.0):
        value, grad, _ = evaluate(1.0, upper, at, "extreme")
        assert_allclose(grad, grad[0], rtol=1e-12)
        assert_allclose(np.diff(value) / np.diff(at), grad[0], rtol=1e-11)


@pytest.mark.parametrize("params", [(), (0.0,), (3.0, 1.0), (0.5, 1.0), (0.0, 0.0), (0.0, math.inf), (0.0, -1.0)])
def test_unknown_laws_are_refused(params):
    loss = SimpleNamespace(kind=14, n_outputs=1, params=params, table=np.zeros((1, 3)))
    with pytest.raises(ValueError, match="unknown loss"):
        losses.values(loss, np.zeros(1), np.zeros((1, 1)), np.zeros(1))


def test_bad_tables_and_numbers_are_refused():
    narrow = SimpleNamespace(kind=14, n_outputs=1, params=(0.0, 1.0), table=np.zeros((1, 2)))
    with pytest.raises(ValueError, match="table"):
        losses.values(narrow, np.zeros(1), np.zeros((1, 1)), np.zeros(1))
    loss = AcceleratedFailureTime().with_targets(np.ones((2, 2)))
    for number in (-1.0, 2.0, math.nan):
        with pytest.raises(ValueError, match="numbers of the 2 rows"):
            losses.values(loss, np.array([number]), np.zeros((1, 1)), np.zeros(1))
