"""Expectation propagation on arrays: known answers, its fixed point from the definition, exact orthants."""

import math

import numpy as np
import pytest
from gp_problems import difference, learned_kernel, moments, two_features
from numpy.testing import assert_allclose
from oracles import gaussian_process as oracle
from scipy.integrate import quad
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skboost.gaussian_process import _ep
from skboost.gaussian_process._ep import ep_gradient, expectation_propagation
from skboost.gaussian_process._laplace import laplace
from skboost.gaussian_process._links import Probit


@pytest.mark.parametrize("k", [1e-3, 1.0, 4.0, 1e4])
def test_one_row_is_exact(k):
    posterior = expectation_propagation(np.array([[k]]), np.ones(1))
    assert posterior.log_evidence == pytest.approx(np.log(0.5), abs=1e-13)
    assert posterior.latent[0] == pytest.approx(k / np.sqrt(1 + k) * np.sqrt(2 / np.pi), rel=1e-11)
    # The variance of Phi(f) N(f; 0, k).
    assert moments(posterior, np.array([[k]]), k)[1][0] == pytest.approx(k - 2 / np.pi * k * k / (1 + k), rel=1e-9)


def test_one_row_by_number():
    assert expectation_propagation(np.array([[4.0]]), np.ones(1)).latent[0] == pytest.approx(1.427299292922, abs=1e-11)


def test_two_rows_are_nearer_to_the_orthant_than_laplace():
    K, s = np.array([[4.0, 1.5], [1.5, 3.0]]), np.array([1.0, -1.0])
    exact = oracle.orthant_evidence(K, s)
    error = abs(expectation_propagation(K, s).log_evidence - exact)
    assert error < 2e-3
    assert error < 0.05 * abs(laplace(K, s, 1.0, Probit).log_evidence - exact)


def tilted(f, power, sign, mean, variance):
    """Return ``f^power`` times likelihood and normal density."""
    density = math.exp(-0.5 * (f - mean) ** 2 / variance) / math.sqrt(2 * math.pi * variance)
    return f**power * ndtr(sign * f) * density


def test_moments_match_at_the_fixed_point():
    """Every row: the posterior without its site, times its likelihood, has the moments of the posterior."""
    X, y = two_features(15)
    K, s = 20 * RBF(0.8)(X), 2.0 * y - 1
    posterior = expectation_propagation(K, s)
    assert posterior.converged
    tau, nu = posterior.start
    covariance = np.linalg.inv(np.linalg.inv(K + 1e-10 * np.eye(15)) + np.diag(tau))
    mean = covariance @ nu
    assert_allclose(posterior.latent, mean, rtol=1e-5, atol=1e-6)
    for i in range(15):
        v = 1.0 / (1.0 / covariance[i, i] - tau[i])
        m = v * (mean[i] / covariance[i, i] - nu[i])
        ends = m - 12 * np.sqrt(v), m + 12 * np.sqrt(v)
        powers = [quad(tilted, *ends, args=(p, s[i], m, v), epsabs=1e-12, limit=200)[0] for p in range(3)]
        first, second = powers[1] / powers[0], powers[2] / powers[0]
        assert mean[i] == pytest.approx(first, rel=1e-5, abs=1e-5)
        assert covariance[i, i] == pytest.approx(second - first**2, rel=1e-5)


def test_gradient_of_the_evidence():
    X, y = two_features(40)
    s, kernel = 2.0 * y - 1, ConstantKernel(2.0) * RBF([0.7, 1.3]) + ConstantKernel(0.5)
    gradient = ep_gradient(expectation_propagation(kernel(X), s), kernel(X, eval_gradient=True)[1])
    expected = difference(
        lambda theta: expectation_propagation(kernel.clone_with_theta(theta)(X), s).log_evidence, kernel.theta, 1e-4
    )
    assert_allclose(gradient, expected, rtol=0, atol=2e-7)


@pytest.mark.parametrize("block", [1, 7, 64])
def test_order_of_rows_and_size_of_blocks(block, monkeypatch):
    X, y = two_features(30)
    kernel, s = learned_kernel(np.log([30.0, 0.7])), 2.0 * y - 1
    expected = expectation_propagation(kernel(X), s)
    monkeypatch.setattr(_ep, "BLOCK", block)
    order = np.random.default_rng(1).permutation(30)
    other = expectation_propagation(kernel(X[order]), s[order])
    assert other.log_evidence == pytest.approx(expected.log_evidence, abs=1e-11)
    assert_allclose(other.latent, expected.latent[order], rtol=0, atol=1e-7)


@pytest.mark.parametrize("block", [1, 7, 64])
def test_sites_are_updated_one_after_another(block, monkeypatch):
    """Two sweeps against the plain algorithm, which changes the whole covariance after every site."""
    X, y = two_features(30)
    K, s = 30 * RBF(0.7)(X), 2.0 * y - 1
    tau, nu, covariance = np.zeros(30), np.zeros(30), K.copy()
    for i in [*range(30), *range(30)]:
        mean, variance = covariance[i] @ nu, covariance[i, i]
        v = 1.0 / (1.0 / variance - tau[i])
        m = v * (mean / variance - nu[i])
        z = s[i] * m / np.sqrt(1 + v)
        r = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi) / ndtr(z)
        new_mean = m + s[i] * v * r / np.sqrt(1 + v)
        new_variance = v - v * v * r * (z + r) / (1 + v)
        new_tau = 1.0 / new_variance - 1.0 / v
        change = new_tau - tau[i]
        tau[i], nu[i] = new_tau, new_mean / new_variance - m / v
        covariance -= change / (1 + change * variance) * np.outer(covariance[i], covariance[i])
    monkeypatch.setattr(_ep, "BLOCK", block)
    found = expectation_propagation(K, s, max_iter=2).start
    assert_allclose(found[0], tau, rtol=1e-8, atol=1e-10)
    assert_allclose(found[1], nu, rtol=1e-8, atol=1e-10)


def test_swapped_labels_mirror_the_posterior():
    X, y = two_features(30)
    K, s = 5 * RBF(1.0)(X), 2.0 * y - 1
    one, other = expectation_propagation(K, s), expectation_propagation(K, -s)
    assert_allclose(other.latent, -one.latent, rtol=1e-13)
    assert other.log_evidence == pytest.approx(one.log_evidence, rel=1e-14)


def test_duplicate_rows_a_start_and_too_few_sweeps():
    X, y = two_features(30)
    X[15:], y[15:] = X[:15], y[:15]
    K, s = 50 * RBF(1.0)(X), 2.0 * y - 1
    cold = expectation_propagation(K, s)
    assert cold.converged
    assert_allclose(cold.latent[15:], cold.latent[:15], rtol=1e-8)
    warm = expectation_propagation(K, s, start=cold.start)
    assert warm.n_iter < cold.n_iter
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-11)
    assert not expectation_propagation(K, s, max_iter=2).converged


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e6, 1e10])
def test_extreme_kernels(scale):
    X, y = two_features(20)
    posterior = expectation_propagation(scale * RBF(0.5)(X), 2.0 * y - 1)
    assert np.isfinite(posterior.log_evidence)
    assert np.isfinite(posterior.latent).all()
    assert (posterior.precisions >= 0).all()
