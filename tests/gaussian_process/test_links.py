"""Links against 60-digit arithmetic and their own differences."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import gaussian_process as oracle

from skboost.gaussian_process import _ep
from skboost.gaussian_process._links import LINKS, Logit, Probit

BOTH = pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))
ONE = np.ones(1)


@pytest.mark.parametrize("z", [-1e6, -1e3, -200.0, -50.1, -50.0, -49.9, -12.0, -3.1, -1.0, 0.0, 0.7, 3.0, 8.0, 30.0])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_probit_derivatives_have_their_digits(z, sign):
    first, second, third = (part[0] for part in Probit.derivatives(sign * ONE, np.array([sign * z])))
    r, curvature, slope = oracle.probit(z)
    assert_allclose(first, sign * r, rtol=3e-13)
    assert_allclose(second, curvature, rtol=2e-11)
    # The closed form of the third loses digits down to -50, where the series takes over.
    assert_allclose(third, sign * slope, rtol=1e-6 if -60 < z < -12 else 1e-9, atol=1e-300)


@BOTH
def test_derivatives_are_those_of_the_log_likelihood(link):
    f, h = np.linspace(-6, 6, 61), 1e-4
    for sign in (-1.0, 1.0):
        s = np.full_like(f, sign)
        first, second, third = link.derivatives(s, f)
        up, down = link.derivatives(s, f + h), link.derivatives(s, f - h)
        assert_allclose(
            (link.log_likelihood(s, f + h) - link.log_likelihood(s, f - h)) / (2 * h), first, rtol=0, atol=1e-7
        )
        assert_allclose((up[0] - down[0]) / (2 * h), -second, rtol=0, atol=1e-7)
        assert_allclose((down[1] - up[1]) / (2 * h), third, rtol=0, atol=1e-7)


@BOTH
def test_swapping_the_label_swaps_signs_exactly(link):
    f = np.linspace(-60, 60, 241)
    s = np.ones_like(f)
    first, second, third = link.derivatives(s, f)
    swapped = link.derivatives(-s, -f)
    assert_array_equal(swapped[0], -first)
    assert_array_equal(swapped[1], second)
    assert_array_equal(swapped[2], -third)


@BOTH
def test_extreme_latent_values(link):
    f = np.array([-1e150, -1e6, -40.0, 40.0, 1e6, 1e150])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second, third = link.derivatives(np.ones(6), f)
    assert np.isfinite([first, second, third]).all()
    assert (second >= 0).all()
    if link is Probit:
        assert_allclose(second[:2], 1.0, rtol=1e-11)
        assert_array_equal(second[3:], 0.0)
        assert second[1] < 1.0


@BOTH
def test_probabilities_and_entropies(link):
    f = np.linspace(-30, 30, 121)
    p = link.probability(f)
    assert_allclose(p + link.probability(-f), 1.0, rtol=1e-15)
    assert_allclose(link.log_probability(f[f > -8]), np.log(p[f > -8]), rtol=1e-12, atol=1e-15)
    middle = p[np.abs(f) < 4]
    plain = -middle * np.log(middle) - (1 - middle) * np.log1p(-middle)
    assert_allclose(link.entropy(f)[np.abs(f) < 4], plain, rtol=1e-11)
    assert_array_equal(link.entropy(f), link.entropy(-f))
    assert link.entropy(np.zeros(1))[0] == pytest.approx(np.log(2), abs=1e-15)


def test_probit_is_the_normal_law_and_logit_the_logistic():
    f = np.array([-2.0, 0.5, 3.0])
    assert_allclose(Probit.log_likelihood(np.ones(3), f), oracle.log_likelihood("probit", 1.0, f), rtol=1e-14)
    assert_allclose(Logit.log_likelihood(-np.ones(3), f), oracle.log_likelihood("logit", -1.0, f), rtol=1e-14)


@pytest.mark.parametrize("z", [-1e5, -60.0, -49.0, -3.0, 0.0, 2.0, 36.9, 38.0, 1e5])
def test_hazard_of_one_number(z):
    r, z_plus_r = _ep._hazard(z)
    r_array, z_plus_r_array = _ep.hazard(np.array([z]))
    assert (r, z_plus_r) == (r_array[0], z_plus_r_array[0])
