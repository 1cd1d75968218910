"""Predicted distributions against SciPy's, against numeric integration and sums, and their inverse properties."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import distributions as oracle
from scipy import special, stats

from skboost.distributions import Gamma, Laplace, LogNormal, Mixture, NegativeBinomial, Normal, Poisson
from skboost.distributions._special import log1p_less, stirling_rest

# Two distributions of each family and the same of SciPy.
FAMILIES = {
    "normal": (Normal([0.5, -3.0], [2.0, 0.1]), stats.norm([0.5, -3.0], [2.0, 0.1])),
    "lognormal": (LogNormal([0.3, -1.0], [0.5, 1.2]), stats.lognorm([0.5, 1.2], scale=np.exp([0.3, -1.0]))),
    "laplace": (Laplace([0.5, -3.0], [2.0, 0.1]), stats.laplace([0.5, -3.0], [2.0, 0.1])),
    "gamma": (Gamma([1.5, 20.0], [3.0, 0.4]), stats.gamma([3.0, 0.4], scale=np.array([0.5, 50.0]))),
    "poisson": (Poisson([0.3, 40.0]), stats.poisson([0.3, 40.0])),
    "negative_binomial": (
        NegativeBinomial([2.0, 7.0], [0.5, 20.0]),
        stats.nbinom([0.5, 20.0], np.array([0.5 / 2.5, 20 / 27])),
    ),
}
COUNTS = ["poisson", "negative_binomial"]
CONTINUOUS = [name for name in FAMILIES if name not in COUNTS]
LEVELS = np.array([1e-6, 0.01, 0.2, 0.5, 0.77, 0.99, 1 - 1e-6])


@pytest.mark.parametrize("name", FAMILIES)
def test_moments_and_functions_are_those_of_scipy(name):
    ours, other = FAMILIES[name]
    assert_allclose(ours.mean, other.mean(), rtol=1e-14)
    assert_allclose(ours.variance, other.var(), rtol=1e-12)
    assert_allclose(ours.std, other.std(), rtol=1e-12)
    assert_allclose(ours.median, other.median(), rtol=1e-12)
    assert_allclose(ours.quantile(LEVELS), other.ppf(LEVELS[:, None]), rtol=1e-11)
    y = np.linspace(-4, 45, 98)[:, None]
    assert_allclose(ours.cdf(y), other.cdf(y), rtol=1e-10, atol=1e-15)
    if name in COUNTS:
        y = np.arange(-2, 90.0)[:, None]
        assert_allclose(ours.logpmf(y), other.logpmf(y), rtol=1e-11)
        assert_array_equal(ours.logpdf(y), ours.logpmf(y))
        assert_array_equal(ours.logpdf([0.5, np.inf]), -np.inf)
    else:
        assert_allclose(ours.logpdf(y), other.logpdf(y), rtol=1e-11)


def test_known_answers():
    assert_allclose(-Normal(0.3, np.exp(0.2)).logpdf(1.0), 1.283167, atol=1e-6)
    assert_allclose(-Gamma(1.5, 3.0).logpdf(2.0), 1.227411, atol=1e-6)
    d = LogNormal(0.3, 0.5)
    assert_allclose([d.mean[0], d.variance[0]], [1.529590, 0.664519], atol=1e-6)
    # A standard normal scored at its centre.
    assert_allclose(Normal(0.0, 1.0).crps(0.0), (np.sqrt(2) - 1) / np.sqrt(np.pi), rtol=1e-15)


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("y", [-5.0, -0.2, 0.0, 0.4, 1.7, 30.0])
def test_crps_is_the_integral_of_its_definition(name, y):
    ours, _ = FAMILIES[name]
    for i, score in enumerate(ours.crps(y)):
        assert_allclose(score, oracle.crps_by_integration(ours[i], y), rtol=1e-8)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("y", [-2.0, 0.0, 0.5, 3.0, 55.25])
def test_crps_of_counts_is_the_sum_of_its_definition(name, y):
    ours, _ = FAMILIES[name]
    # F is constant between the points, which include y.
    points = np.union1d(np.arange(-3.0, 1500.0), [y])
    below = ours.cdf(points[:-1, None])
    expected = (np.diff(points)[:, None] * (below - (points[:-1, None] >= y)) ** 2).sum(axis=0)
    assert_allclose(ours.crps(y), expected, rtol=1e-10)


@pytest.mark.parametrize("mean", [1e-3, 0.7, 5.0])
@pytest.mark.parametrize("size", [0.05, 0.6, 3.0, 40.0])
def test_mean_difference_of_negative_binomials_has_the_known_closed_form(mean, size):
    p = size / (size + mean)
    closed = mean / p * special.hyp2f1(size + 1, 0.5, 2.0, -4 * (1 - p) / p**2)
    assert_allclose(NegativeBinomial(mean, size)._half_spread(), closed, rtol=1e-10)


@pytest.mark.parametrize("mean", [0.05, 3.0, 1e3, 1e6])
def test_negative_binomial_of_large_size_is_poisson(mean):
    nearly, limit = NegativeBinomial(mean, 1e13), Poisson(mean)
    y = np.floor(mean + np.sqrt(mean) * np.array([-1, 0, 1, 4]))[:, None].clip(0)
    assert_allclose(nearly.logpmf(y), limit.logpmf(y), rtol=1e-6)
    assert_allclose(nearly.cdf(y), limit.cdf(y), rtol=1e-7)
    assert_allclose(nearly.crps(y), limit.crps(y), rtol=1e-6)
    # The difference of the log probabilities is ((y - m)^2 - y) / (2 r) to first order, with all its digits.
    wide = NegativeBinomial(mean, 1e10)
    found = wide.logpmf(y) - limit.logpmf(y)
    assert_allclose(found, ((y - mean) ** 2 - y) / 2e10, rtol=0.01, atol=1e-14 * (1 + mean))


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_scores_follow_the_unit(unit):
    y = np.array([0.7, 2.0])
    for family in (Normal, Laplace, Gamma):
        second = 3.0 if family is Gamma else 3.0 * unit
        scaled, plain = family(unit * np.array([1.0, 2.0]), second), family([1.0, 2.0], 3.0)
        assert_allclose(scaled.crps(unit * y), unit * plain.crps(y), rtol=1e-12)


positive = st.floats(-9, 9).map(np.exp)
probability = st.floats(1e-9, 1 - 1e-9)


@given(st.sampled_from(CONTINUOUS), positive, st.floats(-2.5, 3).map(np.exp), probability)
def test_continuous_quantiles_invert_the_distribution_function(name, first, second, p):
    family = type(FAMILIES[name][0])
    d = family(np.log(first), min(second, 3.0)) if name == "lognormal" else family(first, second)
    x = d.quantile(p)
    assert_allclose(d.cdf(x), p, rtol=1e-7, atol=1e-12)
    assert d.quantile(p / 2) <= x <= d.quantile(0.5 + p / 2)


@given(st.sampled_from(COUNTS), st.floats(-9, 14).map(np.exp), positive, probability)
def test_quantiles_of_counts_are_the_smallest_that_suffice(name, mean, size, p):
    d = Poisson(mean) if name == "poisson" else NegativeBinomial(mean, size)
    k = d.quantile(p)
    assert k >= 0
    assert k == np.floor(k)
    assert d.cdf(k) >= p
    assert k == 0 or d.cdf(k - 1) < p


@pytest.mark.parametrize(("mean", "size"), [(1e13, 1e-3), (1e17, 2.0), (1e13, 1e13), (1e40, 0.5)])
def test_quantiles_of_counts_too_large_for_steps_of_one_are_those_of_the_gamma_limit(mean, size):
    levels = np.array([0.01, 0.5, 0.95, 0.9999])
    limit = stats.gamma(size, scale=mean / size).ppf(levels)
    limit = limit if size < 1e6 else stats.norm(mean, np.sqrt(2 * mean)).ppf(levels)
    assert_allclose(NegativeBinomial(mean, size).quantile(levels)[:, 0], np.maximum(limit, 0), rtol=1e-6, atol=1)
    mixture = Mixture(NegativeBinomial([[mean], [mean]], [[size], [size]]))
    assert_allclose(mixture.quantile(levels), NegativeBinomial(mean, size).quantile(levels), rtol=1e-14)
    assert np.isfinite(mixture.crps(mean))


@pytest.mark.parametrize("name", FAMILIES)
def test_quantiles_of_0_and_1_are_the_ends_of_the_support(name):
    ours, _ = FAMILIES[name]
    lowest = -np.inf if name in ("normal", "laplace") else 0.0
    assert_array_equal(ours.quantile([0, 1]), [[lowest] * 2, [np.inf] * 2])
    assert ours.quantile([[0.1, 0.2, 0.3]]).shape == (1, 3, 2)


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_follow_the_distribution(name):
    ours, _ = FAMILIES[name]
    draws = ours.sample(4000, random_state=0)
    assert draws.shape == (4000, 2)
    assert_array_equal(draws, ours.sample(4000, random_state=0))
    assert ours.sample(0).shape == (0, 2)
    for i in range(2):
        # Randomised, so that the transform of counts is uniform too.
        one, u = ours[i], np.random.default_rng(i).random(4000)
        below = one.cdf(draws[:, i] - 1) if name in COUNTS else 0.0
        transformed = below + u * (one.cdf(draws[:, i]) - below) if name in COUNTS else one.cdf(draws[:, i])
        assert stats.kstest(transformed, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("name", FAMILIES)
def test_central_intervals_hold_their_probability(name):
    ours, _ = FAMILIES[name]
    low, high = ours.interval(0.9)
    assert_allclose([low, high], ours.quantile([0.05, 0.95]), rtol=1e-13)
    held = ours.cdf(high) - ours.cdf(low - 1 if name in COUNTS else low)
    assert (held >= 0.9 - 1e-12).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_can_be_taken(name):
    ours, _ = FAMILIES[name]
    assert len(ours) == 2
    assert len(ours[1]) == len(ours[:1]) == len(ours[np.array([False, True])]) == 1
    assert type(ours[1]) is type(ours)
    assert_array_equal(ours[[1, 0, 1]].mean, ours.mean[[1, 0, 1]])
    assert_array_equal(ours[-1].crps(0.3), ours.crps(0.3)[-1:])


@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_are_named_read_only_and_survive_copies(name):
    ours, _ = FAMILIES[name]
    for parameter, values in ours.parameters.items():
        assert_array_equal(getattr(ours, parameter), values)
        assert parameter in dir(ours)
        assert f"{parameter}=" in repr(ours)
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0
    for other in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours), type(ours)(**ours.parameters)):
        assert_array_equal(other.logpdf(1.0), ours.logpdf(1.0))
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = ours.colour


def test_no_rows():
    none = Gamma([], [])
    assert len(none) == 0
    assert repr(none) == "Gamma(n=0)"
    assert none.crps(np.empty(0)).shape == none.mean.shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Normal(0.0, 0.0), "scale above 0"),
        (lambda: Gamma(1.0, -1.0), "shape above 0"),
        (lambda: Poisson([1.0, np.nan]), "finite numbers as mean"),
        (lambda: Normal(0.0, 1.0).quantile(1.5), r"p must lie in \[0, 1\]"),
        (lambda: Normal(0.0, 1.0).quantile(np.nan), r"p must lie in \[0, 1\]"),
        (lambda: Normal(0.0, 1.0).interval(90), "confidence must be a number"),
        (lambda: Normal(0.0, 1.0).sample(-1), "n_samples must be at least 0"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", FAMILIES)
def test_missing_observations_stay_missing(name):
    ours, _ = FAMILIES[name]
    for function in (ours.cdf, ours.logpdf, ours.crps):
        assert np.isnan(function([np.nan, 1.0])).tolist() == [True, False]


@pytest.mark.parametrize("size", [1e-13, 1e-3, 2.0, 1e13])
@pytest.mark.parametrize("mean", [1e-13, 3.0, 1e4, 1e13])
def test_probability_of_no_count_is_a_power_of_the_odds(mean, size):
    assert_allclose(NegativeBinomial(mean, size).logpmf(0), -size * np.log1p(mean / size), rtol=1e-13)


def test_rests_keep_their_digits():
    """Against series and against SciPy where nothing cancels."""
    x = np.array([1e-10, 0.3, 1.0, 15.9, 16.1, 1e3, 1e12])
    exact = special.gammaln(x) - ((x - 0.5) * np.log(x) - x + 0.5 * np.log(2 * np.pi))
    assert_allclose(stirling_rest(x)[:5], exact[:5], rtol=1e-11)
    assert_allclose(stirling_rest(x)[5:], 1 / (12 * x[5:]) - 1 / (360 * x[5:] ** 3), rtol=1e-12)
    d = np.array([-1e-9, 1e-9, 1e-4])
    assert_allclose(log1p_less(d), -(d**2) / 2 + d**3 / 3 - d**4 / 4 + d**5 / 5, rtol=1e-13)
    d = np.array([-0.999, -0.3, -0.181, -0.179, 0.219, 0.223, 5.0, 1e10])
    assert_allclose(log1p_less(d), np.log1p(d) - d, rtol=1e-13)
