"""Retention curves have the values of their definitions, and neither ties nor the order of rows matter."""

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from sklearn.exceptions import UndefinedMetricWarning

from skboost.metrics import (
    f1_retention_auc,
    f1_retention_curve,
    prediction_rejection_ratio,
    retention_auc,
    retention_curve,
)

ERROR = np.array([4.0, 0.0, 1.0, 3.0])
ORDER = np.array([0.9, 0.1, 0.2, 0.3])

# Few values, so that ties are common.
rows = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 1.0, 2.0, 7.0]), st.sampled_from([0.0, 1e-9, 0.5, 3.0]), st.integers(0, 3)),
    min_size=1,
    max_size=12,
).filter(lambda table: any(weight > 0 for _, _, weight in table))


def columns(table):
    error, uncertainty, weight = (np.array(column, dtype=float) for column in zip(*table, strict=True))
    return error, uncertainty, weight


def mean_over_orders(error, uncertainty, curve):
    """Average a curve of the kept rows over all orders in which equal uncertainties can be kept."""
    found = []
    for order in itertools.permutations(range(len(error))):
        sorted_uncertainty = uncertainty[list(order)]
        if (np.diff(sorted_uncertainty) >= 0).all():
            found.append(curve(error[list(order)]))
    return np.mean(found, axis=0)


def test_a_curve_by_hand():
    retention, error = retention_curve(ERROR, ORDER)
    np.testing.assert_array_equal(retention, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_array_equal(error, [0, 0, 0.25, 1, 2])
    # Trapezes of width 1/4: (0 + 0.125 + 0.625 + 1.5) / 4.
    assert retention_auc(ERROR, ORDER) == 0.5625


def test_uncertainty_that_says_nothing_gives_the_straight_line():
    retention, error = retention_curve(ERROR, np.ones(4))
    np.testing.assert_array_equal(retention, [0, 1])
    np.testing.assert_array_equal(error, [0, 2])
    assert retention_auc(ERROR, np.ones(4)) == 1.0
    assert prediction_rejection_ratio(ERROR, np.ones(4)) == 0.0


def test_the_ratio_is_one_for_the_oracle_and_minus_one_for_its_reverse():
    assert prediction_rejection_ratio(ERROR, ERROR) == 1.0
    assert prediction_rejection_ratio(ERROR, -ERROR) == -1.0
    # Areas by hand: random 1, oracle 0.5625, and (0 + 0.375 + 0.875 + 1.5) / 4 = 0.6875 for the order 0, 3, 1, 4.
    assert prediction_rejection_ratio(ERROR, [4, 1, 3, 2]) == pytest.approx(0.3125 / 0.4375)


@pytest.mark.parametrize(("n_wrong", "n"), [(1, 10), (3, 10), (50, 100)])
def test_area_of_the_oracle_in_closed_form(n_wrong, n):
    # The wrong rows come last: a triangle whose sides are their share.
    wrong = np.arange(n) < n_wrong
    assert retention_auc(wrong.astype(float), wrong) == pytest.approx(0.5 * (n_wrong / n) ** 2)


def test_area_of_a_continuum_in_closed_form():
    # Errors u on (0, 1) kept in their order: the curve is r^2 / 2 and the area 1 / 6.
    n = 2000
    error = (np.arange(n) + 0.5) / n
    assert retention_auc(error, error) == pytest.approx(1 / 6, rel=1e-6)


def test_the_average_over_counts_is_reached_as_documented():
    rng = np.random.default_rng(0)
    error, uncertainty = rng.exponential(size=31), rng.permutation(31)
    average = np.append(0.0, np.cumsum(error[np.argsort(uncertainty)]) / 31).mean()
    area = average + (average - error.mean() / 2) / 31
    assert retention_auc(error, uncertainty) == pytest.approx(area, rel=1e-12)


@pytest.mark.parametrize("seed_", range(5))
def test_ties_are_the_mean_over_all_their_orders(seed_):
    rng = np.random.default_rng(seed_)
    error, uncertainty = rng.exponential(size=6), rng.integers(0, 3, 6).astype(float)
    curve = mean_over_orders(error, uncertainty, lambda e: np.append(0.0, np.cumsum(e) / 6))
    retention, values = retention_curve(error, uncertainty)
    np.testing.assert_allclose(np.interp(np.arange(7) / 6, retention, values), curve, atol=1e-14)

    def f1(e):
        good = e <= 0.5
        kept = np.arange(1, 7)
        return np.append(0.0, 2 * np.cumsum(good) / (kept + good.sum()))

    retention, values = f1_retention_curve(error, uncertainty, threshold=0.5)
    expected = mean_over_orders(error, uncertainty, f1)
    np.testing.assert_allclose(values, expected[np.rint(retention * 6).astype(int)], atol=1e-14)


def test_f1_by_hand():
    retention, f1 = f1_retention_curve(ERROR, ORDER, threshold=1.0)
    # Of two acceptable rows 1, 2, 2, 2 are among the 1, 2, 3, 4 kept ones.
    np.testing.assert_allclose(f1, [0, 2 / 3, 1, 4 / 5, 2 / 3])
    np.testing.assert_array_equal(retention, [0, 0.25, 0.5, 0.75, 1])


def test_area_below_f1_in_closed_form():
    # Everything acceptable: F1 = 2 r / (r + 1), whose integral is 2 - 2 ln 2, and ties change nothing.
    for uncertainty in (ORDER, np.ones(4)):
        assert f1_retention_auc(ERROR, uncertainty, threshold=4.0) == pytest.approx(2 - 2 * math.log(2), rel=1e-14)
    # Half acceptable and kept first: 2 r / (r + 1/2) up to 1/2, then 1 / (r + 1/2).
    exact = 2 * (0.5 - 0.5 * math.log(2)) + math.log(1.5)
    assert f1_retention_auc(ERROR, ORDER, threshold=1.0) == pytest.approx(exact, rel=1e-14)


def test_area_below_f1_is_that_of_straight_lines_for_many_rows():
    rng = np.random.default_rng(1)
    uncertainty = rng.random(4000)
    error = rng.exponential(size=4000) * uncertainty
    retention, f1 = f1_retention_curve(error, uncertainty, threshold=0.3)
    area = 0.5 * np.dot(np.diff(retention), f1[1:] + f1[:-1])
    assert f1_retention_auc(error, uncertainty, threshold=0.3) == pytest.approx(area, abs=1e-5)


def test_nothing_acceptable():
    _, f1 = f1_retention_curve(ERROR, ORDER, threshold=-1.0)
    np.testing.assert_array_equal(f1, 0.0)
    assert f1_retention_auc(ERROR, ORDER, threshold=-1.0) == 0.0


def test_a_vanishing_weight_has_no_part_in_the_area_below_f1():
    auc = f1_retention_auc([1.0, 2.0, 3.0], [1, 2, 3], threshold=1.0, sample_weight=[1.0, 1e-30, 1.0])
    assert auc == pytest.approx(f1_retention_auc([1.0, 3.0], [1, 3], threshold=1.0), rel=1e-14)


@given(rows)
def test_area_below_f1_is_the_integral_of_the_mean_curve(table):
    error, uncertainty, weight = columns(table)
    share = weight[error <= 1.0].sum() / weight.sum()
    auc = f1_retention_auc(error, uncertainty, threshold=1.0, sample_weight=weight)
    if share == 0:
        assert auc == 0
        return
    retention, kept = retention_curve((error <= 1.0).astype(float), uncertainty, sample_weight=weight)
    total = sum(
        quad(lambda r: 2 * np.interp(r, retention, kept) / (r + share), a, b)[0]
        for a, b in itertools.pairwise(retention)
    )
    assert auc == pytest.approx(total, rel=1e-9, abs=1e-12)


@given(rows)
def test_weights_are_repetitions(table):
    error, uncertainty, weight = columns(table)
    repeated = [np.repeat(column, weight.astype(int)) for column in (error, uncertainty)]
    for curve in (retention_curve, lambda *args, **kw: f1_retention_curve(*args, threshold=1.0, **kw)):
        weighted = curve(error, uncertainty, sample_weight=weight)
        for ours, theirs in zip(weighted, curve(*repeated), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    for auc in (retention_auc, lambda *args, **kw: f1_retention_auc(*args, threshold=1.0, **kw)):
        assert auc(error, uncertainty, sample_weight=weight) == pytest.approx(auc(*repeated), rel=1e-12, abs=1e-15)


@given(rows, st.randoms())
def test_neither_order_of_rows_nor_scale_of_the_uncertainty_matters(table, random):
    shuffled = list(table)
    random.shuffle(shuffled)
    (error, uncertainty, weight), (error_2, uncertainty_2, weight_2) = columns(table), columns(shuffled)
    ours = retention_auc(error, uncertainty, sample_weight=weight)
    assert ours == pytest.approx(retention_auc(error_2, 10 * uncertainty_2 - 5, sample_weight=weight_2), rel=1e-12)


@given(rows)
def test_the_oracle_is_best_and_the_ratio_within_one(table):
    error, uncertainty, weight = columns(table)
    best = retention_auc(error, error, sample_weight=weight)
    assert best <= retention_auc(error, uncertainty, sample_weight=weight) * (1 + 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        ratio = prediction_rejection_ratio(error, uncertainty, sample_weight=weight)
    if len(set(error[weight > 0])) == 1:
        assert math.isnan(ratio)
    else:
        assert -1 - 1e-9 <= ratio <= 1 + 1e-9


def test_equal_errors_have_no_ratio():
    with pytest.warns(UndefinedMetricWarning, match="all errors are equal"):
        assert math.isnan(prediction_rejection_ratio([2.0, 2.0], [0.0, 1.0]))


FUNCTIONS = [
    retention_curve,
    retention_auc,
    prediction_rejection_ratio,
    lambda *args, **kw: f1_retention_curve(*args, threshold=1.0, **kw),
    lambda *args, **kw: f1_retention_auc(*args, threshold=1.0, **kw),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("error", "uncertainty", "weight", "message"),
    [
        ([1.0, -1.0], [0.0, 1.0], None, "error must not be negative"),
        ([1.0, np.nan], [0.0, 1.0], None, "error must be finite"),
        ([1.0, 2.0], [0.0, np.inf], None, "uncertainty must be finite"),
        ([1.0, 2.0], [0.0], None, "inconsistent numbers of samples"),
        ([], [], None, "error must have at least one row"),
        ([[1.0, 2.0]], [0.0, 1.0], None, "1d array"),
        ([1.0, 2.0], [0.0, 1.0], [1.0, -1.0], "(?i)negative"),
        ([1.0, 2.0], [0.0, 1.0], [0.0, 0.0], "sample_weight"),
        ([1.0, 2.0], [0.0, 1.0], [1.0], "sample_weight"),
    ],
)
def test_wrong_columns_are_refused(function, error, uncertainty, weight, message):
    with pytest.raises(ValueError, match=message):
        function(error, uncertainty, sample_weight=weight)


def test_a_threshold_must_be_a_number():
    with pytest.raises(ValueError, match="threshold must be a number"):
        f1_retention_auc(ERROR, ORDER, threshold=np.nan)
