"""Mixtures over members: closed forms, sums and integrals, and agreement with a single member."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import distributions as oracle
from scipy import stats

from skboost.distributions import Gamma, Laplace, LogNormal, Mixture, NegativeBinomial, Normal, Poisson


def components(name, n_members=4, n_rows=3, seed=0):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, n_members, n_rows))
    return {
        "normal": lambda: Normal(first, np.exp(second)),
        "lognormal": lambda: LogNormal(first, np.exp(0.5 * second)),
        "laplace": lambda: Laplace(first, np.exp(second)),
        "gamma": lambda: Gamma(np.exp(first), np.exp(second)),
        "poisson": lambda: Poisson(np.exp(2 * first)),
        "negative_binomial": lambda: NegativeBinomial(np.exp(2 * first), np.exp(second)),
    }[name]()


FAMILIES = ["normal", "lognormal", "laplace", "gamma", "poisson", "negative_binomial"]
COUNTS = ["poisson", "negative_binomial"]
CONTINUOUS = FAMILIES[:4]


def test_known_answer():
    d = Mixture(Normal([[1.0], [3.0]], np.sqrt([[0.5], [0.25]])))
    assert_allclose([d.mean[0], d.knowledge[0], d.variance[0]], [2, 1, 1.375], rtol=1e-15)


@pytest.mark.parametrize("name", FAMILIES)
def test_functions_are_means_over_members(name):
    each = components(name)
    d = Mixture(each)
    y = np.array([0.4, 2.0, 1.0]) if name in CONTINUOUS else np.array([0.0, 2.0, 1.0])
    assert_allclose(d.mean, each.mean.mean(axis=0), rtol=1e-14)
    second = (each.variance + each.mean**2).mean(axis=0)
    assert_allclose(d.variance, second - d.mean**2, rtol=1e-10)
    assert_allclose(d.cdf(y), each.cdf(y).mean(axis=0), rtol=1e-14)
    assert_allclose(d.logpdf(y), np.log(np.exp(each.logpdf(y)).mean(axis=0)), rtol=1e-12)
    if name in COUNTS:
        assert_array_equal(d.logpmf(y), d.logpdf(y))


@pytest.mark.parametrize("name", FAMILIES)
def test_equal_members_are_one_member(name):
    one = components(name, 1)
    alone, single = Mixture(one), type(one)(*(value[0] for value in one.parameters.values()))
    doubled = Mixture(type(one)(*(np.repeat(value, 3, axis=0) for value in one.parameters.values())))
    y, p = np.array([0.4, 2.0, 1.0]), [0.03, 0.5, 0.9]
    for mixture in (alone, doubled):
        assert_allclose(mixture.mean, single.mean, rtol=1e-14)
        assert_allclose(mixture.variance, single.variance, rtol=1e-12)
        assert_allclose(mixture.quantile(p), single.quantile(p), rtol=1e-9)
        assert_allclose(mixture.crps(y), single.crps(y), rtol=1e-9)
        assert_allclose(mixture.logpdf(y), single.logpdf(y), rtol=1e-12)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_crps_is_the_integral_of_its_definition(name):
    d, y = Mixture(components(name)), np.array([-0.3, 0.8, 2.5])
    expected = [oracle.crps_by_integration(d[i], y[i]) for i in range(3)]
    assert_allclose(d.crps(y), expected, rtol=1e-6)


@pytest.mark.parametrize("name", COUNTS)
def test_crps_of_counts_is_the_sum_of_its_definition(name):
    d = Mixture(components(name))
    k, y = np.arange(3000.0)[:, None], np.array([0.0, 3.0, 11.0])
    assert_allclose(d.crps(y), ((d.cdf(k) - (k >= y)) ** 2).sum(axis=0), rtol=1e-9)


def test_crps_of_counts_that_reach_far():
    """Poisson laws of large means are nearly normal; the counts are then looked at in strides."""
    mean = np.array([[1e9, 4e9], [1.001e9, 1e9]])
    counts, normal = Mixture(Poisson(mean)), Mixture(Normal(mean, np.sqrt(mean)))
    y = np.array([1.0004e9, 2e9])
    assert_allclose(counts.crps(y), normal.crps(y), rtol=2e-4)


@pytest.mark.parametrize("change", [0.0, 1e-9, 0.9e-4, 1.1e-4, 1e-2])
def test_near_and_far_scales_of_laplace_members(change):
    a, b = Laplace(0.0, 1.3), Laplace(0.7, 1.3 * (1 + change))

    def apart(x):
        return a.cdf(x) * (1 - b.cdf(x)) + b.cdf(x) * (1 - a.cdf(x))

    expected = oracle.integral(apart, [-50, -20, -5, 0, 0.7, 5, 20, 50])
    assert_allclose(a._distance_between(b), expected, rtol=1e-8)


@settings(max_examples=30)
@given(st.sampled_from(FAMILIES), st.integers(0, 10), st.floats(1e-6, 1 - 1e-6))
def test_quantiles_invert_the_distribution_function(name, seed, p):
    d = Mixture(components(name, seed=seed))
    x = d.quantile(p)
    if name in CONTINUOUS:
        assert_allclose(d.cdf(x), p, rtol=1e-7, atol=1e-12)
    else:
        assert (d.cdf(x) >= p).all()
        assert ((d.cdf(x - 1) < p) | (x == 0)).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_ends_of_the_support(name):
    d = Mixture(components(name))
    assert_array_equal(d.quantile(1), np.inf)
    assert_array_equal(d.quantile(0), -np.inf if name in ("normal", "laplace") else 0.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_follow_the_mixture(name):
    d = Mixture(components(name))
    draws = d.sample(3000, random_state=1)
    assert draws.shape == (3000, 3)
    assert_array_equal(draws, d.sample(3000, random_state=1))
    u = np.random.default_rng(0).random(draws.shape)
    low = d.cdf(draws - 1) if name in COUNTS else d.cdf(draws)
    transformed = low + u * (d.cdf(draws) - low)
    assert all(stats.kstest(column, "uniform").pvalue > 1e-4 for column in transformed.T)


def test_rows_names_and_copies():
    d = Mixture(components("gamma"))
    assert repr(d) == "Mixture(n=3, n_members=4, family=Gamma)"
    assert [len(d), len(d[1:]), len(d[0]), d.n_members] == [3, 2, 1, 4]
    assert d.parameters["shape"].shape == (4, 3)
    assert_array_equal(pickle.loads(pickle.dumps(d)).crps(1.0), d.crps(1.0))
    assert_array_equal(d[[2, 0]].crps(1.0), d.crps(1.0)[[2, 0]])


def test_wrong_components_are_refused():
    with pytest.raises(ValueError, match=r"shape \(n_members, n_rows\)"):
        Mixture(Normal([0.0], 1.0))
    with pytest.raises(TypeError, match="one family, got list"):
        Mixture([Normal(0.0, 1.0)])


@pytest.mark.parametrize("size", [1e-3, 0.02, 0.5, 3.0])
def test_score_of_equal_members_is_that_of_one_where_wide_counts_crowd_near_zero(size):
    one = NegativeBinomial(1e5, size)
    mixture = Mixture(NegativeBinomial([[1e5], [1e5]], [[size], [size]]))
    assert_allclose(mixture.crps([0.0, 1e5]), one.crps([0.0, 1e5]), rtol=0, atol=1.0)
