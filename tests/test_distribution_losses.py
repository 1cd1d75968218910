"""Losses of whole distributions in Python: domains, best constants, links, units, moments."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize
from scipy.special import psi

from skboost import _losses, distributions
from skboost._losses._distributions import best_log_size, shape_of_gap

FAMILIES = {
    "normal": distributions.Normal,
    "lognormal": distributions.LogNormal,
    "laplace": distributions.Laplace,
    "gamma_distribution": distributions.Gamma,
    "negative_binomial": distributions.NegativeBinomial,
    "poisson_distribution": distributions.Poisson,
}
COUNTS = ["negative_binomial", "poisson_distribution"]


def make_target(name, n, seed=0):
    rng = np.random.default_rng([seed, n])
    mean = rng.gamma(2.0, 1.5, n)
    if name in COUNTS:
        return rng.poisson(mean).astype(float)
    return mean + 1e-3 if name in ("lognormal", "gamma_distribution") else rng.laplace(3.0, 5.0, n)


def bound_loss(name, y, sample_weight=None):
    loss = _losses.make_loss(name).bind(y, sample_weight)
    return loss, loss.to_internal(y)


@pytest.mark.parametrize("name", FAMILIES)
def test_base_score_minimises_the_mean_loss(name, seed):
    y, weight = make_target(name, 300, seed), np.random.default_rng(seed).random(300)
    loss, target = bound_loss(name, y, weight)
    base, score = loss.base_score(target, weight), np.zeros((loss.n_outputs, 300))
    best = loss.mean_loss(target, score, base, weight)
    for k in range(loss.n_outputs):
        for step in (-0.01, 0.01):
            moved = base.copy()
            moved[k] += step
            assert loss.mean_loss(target, score, moved, weight) >= best - 1e-12


@pytest.mark.parametrize("name", FAMILIES)
def test_mean_loss_is_the_negative_log_likelihood(name, seed):
    """Up to a constant of the target."""
    y = make_target(name, 200, seed)
    loss, target = bound_loss(name, y)
    base, differences = loss.base_score(target), []
    for shift in (np.zeros(loss.n_outputs), np.full(loss.n_outputs, 0.4), np.linspace(-0.3, 0.3, loss.n_outputs)):
        score = np.repeat((base + shift)[:, None], 200, axis=1)
        predicted = loss.distribution(score.T)
        assert type(predicted) is FAMILIES[name]
        nll = -predicted.logpdf(y).mean()
        differences.append(loss.mean_loss(target, score, np.zeros(loss.n_outputs)) - nll)
    assert_allclose(differences, differences[0], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", FAMILIES)
def test_constants_know_no_order_and_take_weights_as_repetitions(name, seed):
    y, rng = make_target(name, 150, seed), np.random.default_rng(seed)
    weight, order = rng.integers(1, 5, 150).astype(float), rng.permutation(150)
    states = []
    for rows, w in ((y, weight), (y[order], weight[order]), (np.repeat(y, weight.astype(int)), None)):
        loss, target = bound_loss(name, rows, w)
        states.append((repr(loss), loss.base_score(target, w).tolist()))
    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("name", FAMILIES)
def test_predictions_are_means_and_survive_pickling(name):
    y = make_target(name, 100)
    loss, target = bound_loss(name, y)
    raw = loss.base_score(target) + np.random.default_rng(0).normal(0, 0.3, (4, 7, loss.n_outputs))
    point = loss.inverse_link(raw[..., 0] if loss.n_outputs == 1 else raw)
    mean, variance = loss.mean_variance(raw)
    assert_array_equal(point, mean)
    assert_array_equal(variance, loss.distribution(raw).variance)
    assert_array_equal(pickle.loads(pickle.dumps(loss)).mean_variance(raw), (mean, variance))
    assert loss.offset_unit(raw).shape == (4, 7)
    assert loss.same_as(bound_loss(name, y)[0])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("size", [25.0, 1e3, 1e300])
def test_extreme_scores_have_finite_moments(name, size):
    loss, _ = bound_loss(name, make_target(name, 50))
    signs = np.array(np.meshgrid([-1.0, 1.0], [-1.0, 1.0])).reshape(2, -1).T[:, : loss.n_outputs]
    raw = size * signs
    if name in ("normal", "laplace"):
        raw[:, 0] = np.clip(raw[:, 0], -1e100, 1e100)
    for moment in (*loss.mean_variance(raw), loss.offset_unit(raw)):
        assert np.isfinite(moment).all()


@pytest.mark.parametrize("name", ["normal", "laplace"])
@pytest.mark.parametrize("factor", [2.0**-300, 0.25, 2.0**40])
def test_units_that_are_powers_of_two_change_nothing(name, factor):
    y = make_target(name, 200)
    (loss, target), (scaled, scaled_target) = bound_loss(name, y), bound_loss(name, factor * y)
    assert_array_equal(target, scaled_target)
    raw = np.random.default_rng(0).normal(size=(5, 2))
    assert_array_equal(scaled.inverse_link(raw), factor * loss.inverse_link(raw))
    assert_array_equal(scaled.distribution(raw).std, factor * loss.distribution(raw).std)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("level", [1e-6, 1.0, 7.5e3])
def test_constant_targets_have_a_small_positive_spread(name, level):
    y = np.full(20, level)
    loss, target = bound_loss(name, y)
    loss.check_target(y)
    raw = np.repeat(loss.base_score(target)[None], 3, axis=0)
    mean, variance = loss.mean_variance(raw)
    assert_allclose(mean, level, rtol=1e-9)
    assert (variance > 0).all()
    if name not in COUNTS:
        assert (variance < 1e-8 * level**2).all()


def test_shapes_solve_their_equation(seed):
    for gap in (1e-9, 1e-4, 0.1, 1.0, 8.0, 300.0):
        shape = shape_of_gap(gap)
        assert_allclose(np.log(shape) - psi(shape), gap, rtol=1e-9 if gap > 1e-6 else 1e-5)
    assert shape_of_gap(0.0) == shape_of_gap(-1e-17) == 1e10


@pytest.mark.parametrize(("mean", "size"), [(0.05, 0.3), (2.0, 0.1), (2.0, 5.0), (300.0, 20.0)])
def test_sizes_are_the_likeliest(mean, size, seed):
    rng = np.random.default_rng([seed, 7])
    y = rng.poisson(rng.gamma(size, mean / size, 3000)).astype(float)
    found = best_log_size(y, y.mean())

    def negative(log_size):
        return -distributions.NegativeBinomial(y.mean(), np.exp(log_size)).logpdf(y).mean()

    best = optimize.minimize_scalar(negative, bounds=(found - 3, found + 3), method="bounded", options={"xatol": 1e-6})
    assert negative(found) <= best.fun + 1e-12


def test_counts_that_are_not_overdispersed_start_near_poisson():
    loss, target = bound_loss("negative_binomial", np.tile([1.0, 2.0, 3.0], 10))
    log_mean, log_size = loss.base_score(target)
    assert_allclose([np.exp(log_mean), np.exp(log_mean - log_size)], [2.0, 1e-3])


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("lognormal", [0.0, 1.0], "requires y > 0; the smallest target is 0"),
        ("lognormal", [1.0, 1e120], r"requires \|y\| below 1e100"),
        ("lognormal", [1.0, 1e-120], "requires y above 1e-100"),
        ("gamma_distribution", [0.0, 1.0], "requires y > 0; the smallest target is 0"),
        ("negative_binomial", [-1.0, 1.0], "requires y >= 0; the smallest target is -1"),
        ("negative_binomial", [0.0, 0.0], "all targets are 0"),
        ("negative_binomial", [1.0, 1e145], r"requires \|y\| below 1e140"),
        ("poisson_distribution", [-1.0, 1.0], "loss='poisson_distribution' requires y >= 0"),
        ("laplace", [0.0, 1e145], "requires a y whose range"),
    ],
)
def test_targets_outside_the_domain_are_refused_by_name(name, y, message):
    with pytest.raises(ValueError, match=message):
        _losses.make_loss(name).check_target(np.array(y))


def test_losses_without_a_distribution_say_so():
    with pytest.raises(NotImplementedError, match="loss='squared_error' predicts no distribution"):
        _losses.make_loss("squared_error").distribution(np.zeros((3, 1)))
