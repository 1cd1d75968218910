"""Averages over a normal latent value against closed forms, known answers and adaptive quadrature."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import gaussian_process as oracle

from skboost import _uncertainty
from skboost.gaussian_process import _averages
from skboost.gaussian_process._averages import binary_decomposition, normal_points, one_vs_rest_decomposition
from skboost.gaussian_process._links import LINKS, Logit, Probit

LN2 = np.log(2.0)
BOTH = pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))


def split(link, mean, variance):
    """Return E q, data, knowledge of one latent value."""
    result = binary_decomposition(link, np.array([mean]), np.array([variance]))
    assert result.total[0] == result.data[0] + result.knowledge[0]
    return result.mean[0, 1], result.data[0], result.knowledge[0]


@pytest.mark.parametrize(
    ("link", "mean", "variance", "expected"),
    [
        (Probit, 0.0, 1.0, (0.5, 0.5, LN2 - 0.5)),
        (Logit, 0.0, 1.0, (0.5, 0.599438219206, 0.093708961354)),
        (Probit, 1.0, 4.0, (0.672639576991, 0.289880677039, 0.342412872101)),
        (Logit, 1.0, 4.0, (0.647726438526, 0.432775983539, 0.216066729865)),
        (Probit, 2.0, 0.25, (0.963180864940, 0.138810855728, 0.018889101817)),
        (Logit, 2.0, 0.25, (0.870993463623, 0.371042105481, 0.013451694676)),
    ],
)
def test_known_answers(link, mean, variance, expected):
    assert_allclose(split(link, mean, variance), expected, rtol=0, atol=1e-12)


def test_very_wide_law():
    assert split(Probit, 0.0, 170.5636)[1] == pytest.approx(0.055006819099, abs=1e-10)
    assert split(Logit, 0.0, 170.5636)[1] == pytest.approx(0.099174206036, abs=1e-10)


@BOTH
@pytest.mark.parametrize("deviation", [0.05, 0.5, 0.999, 1.0, 1.7, 5.0, 30.0])
@pytest.mark.parametrize("mean", [-4.0, -0.3, 0.0, 2.0, 5.0])
def test_against_adaptive_quadrature(link, mean, deviation):
    # The quadrature of the twin is good to about 1e-11.
    assert_allclose(split(link, mean, deviation**2), oracle.averages(link.name, mean, deviation**2), rtol=0, atol=2e-11)


@BOTH
def test_both_rules_meet_at_deviation_one(link):
    mean = np.linspace(-6, 6, 25)
    below = binary_decomposition(link, mean, np.full(25, np.nextafter(1.0, 0.0) ** 2 - 1e-15))
    above = binary_decomposition(link, mean, np.ones(25))
    for one, other in zip(below, above, strict=True):
        assert_allclose(one, other, rtol=0, atol=1e-12)


@BOTH
def test_without_variance_nothing_is_left_to_know(link):
    mean = np.array([-300.0, -40.0, -2.0, 0.0, 0.3, 7.0, 40.0, 300.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = binary_decomposition(link, mean, np.zeros(8))
    assert_array_equal(result.knowledge, 0.0)
    assert_array_equal(result.mean[:, 1], link.probability(mean))
    assert_array_equal(result.mean[:, 0], link.probability(-mean))
    assert_allclose(result.data, link.entropy(mean), rtol=1e-13, atol=1e-300)


@BOTH
@pytest.mark.parametrize("deviation", [1e-6, 1e-4, 1e-2])
def test_small_variances(link, deviation):
    mean = np.array([-2.0, 0.0, 1.0])
    p, h = link.probability(mean), 1e-5
    slope = (link.probability(mean + h) - link.probability(mean - h)) / (2 * h)
    expected = deviation**2 * slope**2 / (2 * p * (1 - p))
    result = binary_decomposition(link, mean, np.full(3, deviation**2))
    # Series in the variance: the next term is smaller by about its size. Rounding is relative to the deviation.
    assert_allclose(result.knowledge, expected, rtol=max(3 * deviation**2, 1e-8))


@BOTH
def test_far_values_are_finite_and_bounded(link):
    mean, variance = (grid.ravel() for grid in np.meshgrid(np.linspace(-500, 500, 41), np.geomspace(1e-12, 1e8, 41)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = binary_decomposition(link, mean, variance)
        logs, scores = link.log_average(mean, variance), link.moderated(mean, variance)
    assert all(np.isfinite(part).all() for part in (*result, *logs, scores))
    assert (result.knowledge >= 0).all()
    assert (result.data >= 0).all()
    assert (result.total <= LN2 + 1e-12).all()
    assert_allclose(result.mean.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    assert_array_equal(np.sign(np.round(scores, 9)), np.sign(np.where(np.abs(np.round(scores, 9)) > 0, mean, 0)))


@BOTH
def test_blocks_change_nothing(link, monkeypatch):
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=50), rng.gamma(1.0, 1.0, size=50)
    whole = binary_decomposition(link, mean, variance)
    whole_many = one_vs_rest_decomposition(link, mean.reshape(10, 5), variance.reshape(10, 5))
    monkeypatch.setattr(_averages, "BLOCK_VALUES", 1)
    # Products of matrices of another shape may round in another way.
    for parts, blocks in (
        (whole, binary_decomposition(link, mean, variance)),
        (whole_many, one_vs_rest_decomposition(link, mean.reshape(10, 5), variance.reshape(10, 5))),
    ):
        for part, block in zip(parts, blocks, strict=True):
            assert_allclose(block, part, rtol=1e-13, atol=1e-15)


def test_normal_points_are_balanced():
    points = normal_points(7)
    assert points.shape == (256, 7)
    assert_allclose(points.mean(axis=0), 0.0, atol=1e-14)
    assert_allclose(points.var(axis=0), 1.0, atol=0.02)
    assert_allclose(np.corrcoef(points.T), np.eye(7), atol=0.06)
    assert_array_equal(points, normal_points(7))


@BOTH
def test_one_vs_rest_is_near_plain_sampling(link):
    rng = np.random.default_rng(0)
    means, variances = rng.normal(size=(4, 3)), rng.gamma(1.0, 1.0, size=(4, 3))
    f = means + np.sqrt(variances) * rng.standard_normal((10000, 4, 3))
    expected = _uncertainty.multinomial(link.log_probability(f))
    result = one_vs_rest_decomposition(link, means, variances)
    assert_allclose(result.mean, expected.mean, atol=0.012)
    assert_allclose(result.knowledge, expected.knowledge, atol=0.015)
    assert_allclose(result.data, expected.data, atol=0.015)
    assert_array_equal(result.total, result.data + result.knowledge)


def test_one_vs_rest_without_variance():
    means = np.array([[1.0, -1.0, 0.0], [-800.0, -900.0, -850.0]])
    result = one_vs_rest_decomposition(Logit, means, np.zeros((2, 3)))
    q = Logit.probability(means[0])
    assert_allclose(result.mean[0], q / q.sum(), rtol=1e-13)
    assert_allclose(result.mean[1], [1.0, np.exp(-100), np.exp(-50)], rtol=1e-12)
    assert_array_equal(result.knowledge, 0.0)
