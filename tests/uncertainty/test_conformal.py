"""Quantiles, intervals and sets against counting by hand, and MAPIE where it is installed."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import conformal as oracle

from skboost import Uncertainty
from skboost.uncertainty import _conformal
from skboost.uncertainty._conformal import Calibration, check_alpha, class_scores, intervals, least_rows

ALPHAS = ["0.5", "0.3", "0.29", "0.25", "0.2", "0.1", "0.07", "0.05"]


def quantile_or_none(calibration, alpha):
    try:
        return calibration.quantile(float(alpha))
    except ValueError:
        return None


def test_quantile_by_hand():
    nine = Calibration.of(np.arange(9.0, 0, -1))
    assert nine.quantile(0.1) == 9  # ceil(10 * 0.9) = 9, the last
    assert nine.quantile(0.2) == 8
    assert nine.quantile(0.5) == 5
    assert nine.quantile(0.95) == 1
    assert Calibration.of(np.array([3.0])).quantile(0.5) == 3


@pytest.mark.parametrize("alpha", ALPHAS)
def test_quantile_is_the_order_statistic(alpha, seed):
    rng = np.random.default_rng(seed)
    for n in [*range(1, 40), 99, 100, 199]:
        scores = rng.integers(0, 30, n).astype(float)  # ties
        expected = oracle.quantile(scores, alpha)
        assert quantile_or_none(Calibration.of(scores), alpha) == expected
        assert (expected is not None) == (n >= least_rows(float(alpha)))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_share_of_covered_rows_is_exact(alpha):
    """Of n + 1 distinct scores, each in turn being the new row, exactly ceil((n + 1)(1 - alpha)) are covered."""
    for n in (least_rows(float(alpha)), 24, 47):
        scores = np.random.default_rng(n).permutation(np.arange(n + 1.0))
        covered = sum(s <= Calibration.of(np.delete(scores, i)).quantile(float(alpha)) for i, s in enumerate(scores))
        numerator = round(float(alpha) * 100)
        assert covered == math.ceil((n + 1) * (100 - numerator) / 100)


def test_whole_weights_are_copies(seed):
    rng = np.random.default_rng(seed)
    scores, weights = rng.normal(size=30), rng.integers(1, 5, 30)
    weighted, repeated = Calibration.of(scores, weights.astype(float)), Calibration.of(np.repeat(scores, weights))
    for alpha in ALPHAS:
        assert weighted.quantile(float(alpha)) == repeated.quantile(float(alpha))
    assert weighted.total_weight == repeated.total_weight == weights.sum()


@pytest.mark.parametrize("alpha", ALPHAS)
def test_fractional_weights(alpha, seed):
    rng = np.random.default_rng(seed)
    scores, weights = rng.normal(size=30), rng.uniform(0, 2, 30)
    assert quantile_or_none(Calibration.of(scores, weights), alpha) == oracle.quantile(scores, alpha, weights)


def test_too_little_data():
    for alpha, least in ((0.1, 9), (0.05, 19), (0.01, 99), (0.5, 1), (0.9, 1), (0.3, 3), (1 / 3, 2)):
        assert least_rows(alpha) == least
        Calibration.of(np.zeros(least)).quantile(alpha)
        if least > 1:
            with pytest.raises(
                ValueError, match=f"alpha={alpha:g}: need at least {least} held-out rows, got {least - 1}"
            ):
                Calibration.of(np.zeros(least - 1)).quantile(alpha)
    with pytest.raises(ValueError, match=r"need at least 9 held-out rows, got 8\.5"):
        Calibration.of(np.zeros(17), np.full(17, 0.5)).quantile(0.1)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, np.nan, np.inf, "0.1", None, True, [0.1]])
def test_alpha_is_a_share(alpha):
    with pytest.raises(ValueError, match=r"alpha must be a float in the range \(0, 1\), got"):
        check_alpha(alpha)
    assert check_alpha(np.float32(0.25)) == 0.25


def test_intervals():
    found = intervals(np.array([1.0, -2.0]), np.array([0.5, 2.0]), 3.0)
    assert_array_equal(found, [[-0.5, 2.5], [-8, 4]])


def test_scales():
    result = Uncertainty(np.zeros(2), np.array([0.0, 3.0]), np.array([4.0, 1.0]), np.array([4.0, 4.0]))
    assert_array_equal(_conformal.scales("total", result, None), [2, 2])
    assert_array_equal(_conformal.scales("knowledge", result, 1.0), [1, 2])
    assert_array_equal(_conformal.scales("constant", result, None), [1, 1])
    certain = Uncertainty(np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1))
    with pytest.raises(ValueError, match="conformity_score='total' needs a positive total uncertainty"):
        _conformal.scales("total", certain, None)


def test_class_scores_by_hand():
    p = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.0, 1.0, 0.0]])
    assert_allclose(class_scores(p, "lac"), 1 - p, rtol=0)
    assert_allclose(class_scores(p, "aps"), [[0, 0.5, 0.8], [0, 0, 0.8], [1, 0, 1]], rtol=1e-15)


@pytest.mark.parametrize("kind", ["lac", "aps"])
def test_class_scores_match_counting(kind, seed):
    p = np.random.default_rng(seed).dirichlet(np.full(6, 0.5), size=50)
    expected = getattr(oracle, kind)(p.tolist())
    assert_allclose(class_scores(p, kind), expected, rtol=1e-13)
    order = np.random.default_rng(seed).permutation(6)
    assert_allclose(class_scores(p[:, order], kind), class_scores(p, kind)[:, order], rtol=1e-13)
    rows = np.random.default_rng(seed).permutation(50)[:7]
    assert_array_equal(class_scores(p[rows], kind), class_scores(p, kind)[rows])


def test_adaptive_sets_always_hold_the_likeliest_class():
    p = np.random.default_rng(0).dirichlet(np.ones(4), size=100)
    sets = class_scores(p, "aps") <= 0.0
    assert_array_equal(sets, p == p.max(axis=1, keepdims=True))


def test_sets_grow_with_the_quantile(seed):
    p = np.random.default_rng(seed).dirichlet(np.ones(4), size=60)
    for kind in ("lac", "aps"):
        scores = class_scores(p, kind)
        sizes = [(scores <= q).sum(axis=1) for q in (0.2, 0.5, 0.9, 1.0)]
        assert all((small <= large).all() for small, large in itertools.pairwise(sizes))
        assert (sizes[-1] == 4).all()


@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_intervals_of_mapie(alpha):
    regression = pytest.importorskip("mapie.regression")
    from sklearn.linear_model import LinearRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=300)
    model = LinearRegression().fit(X[:100], y[:100])
    peer = regression.SplitConformalRegressor(model, confidence_level=1 - alpha, prefit=True).conformalize(
        X[100:200], y[100:200]
    )
    expected = peer.predict_interval(X[200:])[1][:, :, 0]
    one = np.ones(100)
    calibration = Calibration.of(_conformal.residual_scores(y[100:200], model.predict(X[100:200]), one))
    assert_allclose(intervals(model.predict(X[200:]), one, calibration.quantile(alpha)), expected, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_sets_of_mapie(alpha):
    classification = pytest.importorskip("mapie.classification")
    from sklearn.datasets import load_iris
    from sklearn.naive_bayes import GaussianNB

    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order, :2], y[order]
    model = GaussianNB().fit(X[:50], y[:50])
    peer = classification.SplitConformalClassifier(
        model, confidence_level=1 - alpha, conformity_score="lac", prefit=True
    )
    expected = peer.conformalize(X[50:110], y[50:110]).predict_set(X[110:])[1][:, :, 0]
    scores = _conformal.true_scores(class_scores(model.predict_proba(X[50:110]), "lac"), y[50:110])
    found = class_scores(model.predict_proba(X[110:]), "lac") <= Calibration.of(scores).quantile(alpha)
    assert_array_equal(found, expected)
    assert 0 < found.mean() < 1
