"""Laplace's method on arrays: known answers, dense formulas, line search, invariances."""

import warnings

import numpy as np
import pytest
from gp_problems import difference, learned_kernel, moments, two_features
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import gaussian_process as oracle
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skboost.gaussian_process._averages import binary_decomposition
from skboost.gaussian_process._ep import expectation_propagation
from skboost.gaussian_process._laplace import _density, laplace, laplace_gradient
from skboost.gaussian_process._links import LINKS, Logit, Probit

BOTH = pytest.mark.parametrize("link", LINKS.values(), ids=list(LINKS))


@pytest.mark.parametrize(
    ("link", "k", "f", "W", "evidence"),
    [
        (Probit, 1.0, 0.506054468989, 0.512182251168, -0.700695593014),
        (Probit, 4.0, 1.061516275419, 0.352130250931, -0.736109442320),
        (Probit, 100.0, 2.378450438078, 0.057135967513, -0.989083339987),
        (Logit, 1.0, 0.401058137542, 0.240210507853, -0.700655122890),
        (Logit, 4.0, 1.042596914001, 0.192711208182, -0.723587223984),
        (Logit, 100.0, 3.359275045365, 0.032464277571, -0.813632645256),
    ],
)
def test_one_row(link, k, f, W, evidence):
    posterior = laplace(np.array([[k]]), np.ones(1), 1.0, link)
    found = posterior.latent[0], posterior.precisions[0], posterior.log_evidence
    assert_allclose(found, (f, W, evidence), rtol=0, atol=1e-12)
    assert posterior.converged
    variance = moments(posterior, np.array([[k]]), k)[1][0]
    assert variance == pytest.approx(1.0 / (1.0 / k + posterior.precisions[0]), rel=1e-12)


TWO = np.array([[4.0, 1.5], [1.5, 3.0]]), np.array([1.0, -1.0]), np.array([[2.0, 0.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("link", "f", "evidence", "mean", "variance", "p", "data", "knowledge"),
    [
        (
            Probit, (0.818985994647, -0.698557750550), -1.692904930433, 0.306346587217, 3.313307796638,
            0.558633427942, (0.340337114000, 0.319885055355), (0.345918462807, 0.373262125205),
        ),
        (
            Logit, (0.748926547939, -0.589006000712), -1.611214164406, 0.285247534873, 3.474543020914,
            0.544910725871, (0.476093017954, 0.462008878449), (0.213014774187, 0.231138302111),
        ),
    ],
)  # fmt: skip
def test_two_rows(link, f, evidence, mean, variance, p, data, knowledge):
    K, s, K_cross = TWO
    posterior = laplace(K, s, 1.0, link)
    assert_allclose(posterior.latent, f, rtol=0, atol=1e-12)
    assert posterior.log_evidence == pytest.approx(evidence, abs=1e-12)
    mu, var = moments(posterior, K_cross, 4.0)
    assert_allclose(mu, (mean, 0.0), rtol=0, atol=1e-12)
    assert_allclose(var, (variance, 4.0), rtol=0, atol=1e-12)
    split = binary_decomposition(link, mu, var)
    assert_allclose(split.mean[:, 1], (p, 0.5), rtol=0, atol=1e-12)
    assert_allclose(split.data, data, rtol=0, atol=1e-12)
    assert_allclose(split.knowledge, knowledge, rtol=0, atol=1e-12)


def test_evidence_is_near_the_exact_one():
    K, s, _ = TWO
    exact = oracle.orthant_evidence(K, s)
    assert exact == pytest.approx(-1.631875, abs=1e-6)
    assert abs(laplace(K, s, 1.0, Probit).log_evidence - exact) < 0.07


@BOTH
def test_mode_is_the_maximum_of_the_joint_density(link):
    X, y = two_features(12)
    K, s = learned_kernel(np.log([3.0, 0.8]))(X) + 1e-3 * np.eye(12), 2.0 * y - 1
    inverse = np.linalg.inv(K)
    found = minimize(
        lambda f: 0.5 * f @ inverse @ f - oracle.log_likelihood(link.name, s, f).sum(), np.zeros(12), tol=1e-12
    )
    posterior = laplace(K, s, 1.0, link)
    assert_allclose(posterior.latent, found.x, atol=1e-4)
    assert_allclose(posterior.latent, K @ posterior.coefficients, rtol=1e-10, atol=1e-12)
    # Evidence from its definition, with the inverse and the determinant of the Hessian.
    hessian = inverse + np.diag(posterior.precisions)
    expected = -found.fun - 0.5 * (np.linalg.slogdet(K)[1] + np.linalg.slogdet(hessian)[1])
    assert posterior.log_evidence == pytest.approx(expected, abs=1e-8)


@BOTH
def test_covariance_of_the_latent_function_is_not_that_of_the_whitened_one(link):
    """The Hessian in w, where f = L w, is I + L'WL: its inverse becomes a covariance of f only between L and L'."""
    X, y = two_features(10)
    K, s = learned_kernel(np.log([3.0, 0.8]))(X) + 1e-2 * np.eye(10), 2.0 * y - 1
    posterior, L = laplace(K, s, 1.0, link), np.linalg.cholesky(K)
    w, h = np.linalg.solve(L, posterior.latent), 1e-5

    def gradient(w):
        return w - L.T @ link.derivatives(s, L @ w)[0]

    assert_allclose(gradient(w), 0.0, atol=1e-9)
    whitened = np.array([(gradient(w + step) - gradient(w - step)) / (2 * h) for step in h * np.eye(10)])
    assert_allclose(whitened, np.eye(10) + L.T @ (posterior.precisions[:, None] * L), atol=1e-8)
    V = posterior.reduction(K)
    covariance = K - V.T @ V
    assert_allclose(covariance, np.linalg.inv(np.linalg.inv(K) + np.diag(posterior.precisions)), atol=1e-11)
    assert_allclose(covariance, L @ np.linalg.solve(whitened, L.T), atol=1e-7)
    assert np.abs(covariance - np.linalg.inv(whitened)).max() > 0.1


@BOTH
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_of_the_evidence(link, weighted):
    X, y = two_features(40)
    s, weights = 2.0 * y - 1, np.random.default_rng(1).uniform(0.2, 3.0, 40) if weighted else 1.0
    kernel = ConstantKernel(2.0) * RBF([0.7, 1.3]) + ConstantKernel(0.5)
    K, dK = kernel(X, eval_gradient=True)
    gradient = laplace_gradient(laplace(K, s, weights, link), K, dK)
    expected = difference(
        lambda theta: laplace(kernel.clone_with_theta(theta)(X), s, weights, link).log_evidence, kernel.theta, 1e-5
    )
    assert_allclose(gradient, expected, rtol=0, atol=1e-8)


@BOTH
def test_line_search_for_large_variances(link):
    X, y = two_features(200)
    K, s = 1e6 * RBF(0.5)(X), 2.0 * y - 1
    steps = [laplace(K, s, 1.0, link, max_iter=n) for n in range(1, 9)]
    values = [_density(s, 1.0, link, step.start, step.latent) for step in steps]
    assert np.isfinite(values).all()
    assert (np.diff(values) >= -1e-9 * np.abs(values[:-1])).all()
    long = laplace(K, s, 1.0, link, max_iter=1000, tol=1e-15)
    short = laplace(K, s, 1.0, link)
    assert short.converged
    assert short.log_evidence == pytest.approx(long.log_evidence, abs=1e-5)


def test_undamped_steps_would_have_failed():
    """The case of the line search is a real one: full Newton steps from 0 lower the density."""
    X, y = two_features(200)
    K, s = 1e6 * RBF(0.5)(X), 2.0 * y - 1
    density = [_density(s, 1.0, Logit, np.zeros(200), np.zeros(200))]
    f = np.zeros(200)
    for _ in range(8):
        g, W, _ = Logit.derivatives(s, f)
        a = np.linalg.solve(np.eye(200) + W[:, None] * K, W * f + g)
        f = K @ a
        density.append(_density(s, 1.0, Logit, a, f))
    assert np.min(np.diff(density)) < -1.0


@BOTH
def test_few_steps_are_reported(link):
    X, y = two_features(30)
    posterior = laplace(10 * RBF(1.0)(X), 2.0 * y - 1, 1.0, link, max_iter=2)
    assert not posterior.converged
    assert posterior.n_iter == 2


@BOTH
def test_swapped_labels_mirror_the_posterior_exactly(link):
    X, y = two_features(30)
    K, s = 5 * RBF(1.0)(X), 2.0 * y - 1
    one, other = laplace(K, s, 1.0, link), laplace(K, -s, 1.0, link)
    assert_array_equal(other.latent, -one.latent)
    assert one.log_evidence == other.log_evidence


@BOTH
def test_order_of_rows(link):
    X, y = two_features(30)
    s, order = 2.0 * y - 1, np.random.default_rng(1).permutation(30)
    one, other = (laplace(5 * RBF(1.0)(X[rows]), s[rows], 1.0, link) for rows in (np.arange(30), order))
    assert_allclose(other.latent, one.latent[order], rtol=1e-11, atol=1e-12)
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-13)


@BOTH
def test_weights_are_copies_and_duplicates_need_no_jitter(link):
    X, y = two_features(25)
    s, weights = 2.0 * y - 1, np.random.default_rng(2).integers(1, 5, 25)
    rows = np.repeat(np.arange(25), weights)
    kernel = ConstantKernel(4.0) * RBF(0.9)
    K, dK = kernel(X, eval_gradient=True)
    K_copies, dK_copies = kernel(X[rows], eval_gradient=True)
    weighted, copies = laplace(K, s, weights.astype(float), link), laplace(K_copies, s[rows], 1.0, link)
    assert weighted.log_evidence == pytest.approx(copies.log_evidence, rel=1e-12)
    assert_allclose(weighted.latent[rows], copies.latent, rtol=1e-10, atol=1e-12)
    test = np.random.default_rng(3).normal(size=(20, 2))
    one = moments(weighted, kernel(X, test), 4.0)
    other = moments(copies, kernel(X[rows], test), 4.0)
    assert_allclose(one, other, rtol=0, atol=1e-11)
    assert_allclose(
        laplace_gradient(weighted, K, dK), laplace_gradient(copies, K_copies, dK_copies), rtol=0, atol=1e-11
    )


@BOTH
def test_a_start_changes_the_way_and_not_the_end(link):
    X, y = two_features(40)
    K, s = 9 * RBF(0.8)(X), 2.0 * y - 1
    cold = laplace(K, s, 1.0, link)
    warm = laplace(K, s, 1.0, link, start=laplace(8 * RBF(0.8)(X), s, 1.0, link).start)
    bad = laplace(K, s, 1.0, link, start=np.full(40, 1e3))
    assert warm.n_iter < cold.n_iter
    assert_array_equal(bad.latent, cold.latent)
    assert_allclose(warm.latent, cold.latent, rtol=1e-8, atol=1e-9)
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-10)


@BOTH
def test_extreme_kernels_end_without_warnings(link):
    s = np.array([1.0, -1.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scale in (0.0, 1e-300, 1e-10, 1e10):
            posterior = laplace(scale * np.ones((3, 3)), s, 1.0, link)
            assert np.isfinite(posterior.log_evidence)
    assert laplace(np.zeros((3, 3)), s, 1.0, link).log_evidence == pytest.approx(-3 * np.log(2), rel=1e-15)


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_any_small_problem(data):
    n = data.draw(st.integers(1, 8))
    # A coarse grid: equal rows with equal and with opposite labels are common.
    X = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), dtype=float)[:, None]
    s = np.array(data.draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n)))
    kernel = 10.0 ** data.draw(st.floats(-6, 8)) * RBF(10.0 ** data.draw(st.floats(-2, 3)))
    link = data.draw(st.sampled_from([Probit, Logit]))
    K, test = kernel(X), np.linspace(-5, 5, 11)[:, None]
    posteriors = [laplace(K, s, 1.0, link)]
    if link is Probit:
        posteriors.append(expectation_propagation(K, s, max_iter=500))
    for posterior in posteriors:
        assert posterior.converged
        prior = kernel.diag(test)
        mean, variance = moments(posterior, kernel(X, test), prior)
        assert np.isfinite(mean).all()
        assert (variance <= prior).all()
        assert (variance >= -1e-9 * prior).all()
        assert (posterior.precisions >= 0).all()
        # A probability of labels.
        assert posterior.log_evidence < 0
