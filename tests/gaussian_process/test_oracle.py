"""One problem of 100 rows and one feature that other programs have solved: gpjax, JAX, scikit-learn, NumPy."""

import numpy as np
import pytest
from gp_problems import difference, fixed_kernel, learned_kernel, load_oracle, moments
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skboost import LaplaceGPClassifier
from skboost.gaussian_process._laplace import laplace
from skboost.gaussian_process._links import LINKS, Probit

LATENT = {"rtol": 1e-7, "atol": 1e-9}
ENTROPY = {"rtol": 0, "atol": 1e-9}
FLOOR = 1e-3


@pytest.fixture(scope="module")
def oracle():
    return load_oracle()


@pytest.fixture(scope="module")
def rows(oracle):
    return oracle["x"], oracle["y"], oracle["xtest"][:, None]


def check_predictions(model, X_test, oracle, prefix):
    mean, variance = model.latent_mean_and_variance(X_test)
    assert_allclose(mean, oracle[f"{prefix}_latent_mean_test"], **LATENT)
    assert_allclose(variance, oracle[f"{prefix}_latent_var_test"], **LATENT)
    assert_allclose(model.predict_proba(X_test)[:, 1], oracle[f"{prefix}_mean"], **LATENT)
    result = model.predict_uncertainty(X_test)
    for name in ("data", "knowledge", "total"):
        assert_allclose(getattr(result, name), oracle[f"{prefix}_{name}"], **ENTROPY, err_msg=name)


@pytest.mark.parametrize("link", LINKS)
def test_fixed_kernel(oracle, rows, link):
    X, y, X_test = rows
    model = LaplaceGPClassifier(fixed_kernel(oracle), link=link, optimizer=None).fit(X, y)
    assert model.log_marginal_likelihood_value_ == pytest.approx(oracle[f"fixed_{link}_lml"], abs=1e-9)
    assert_allclose(model.f_, oracle[f"fixed_{link}_f"], **LATENT)
    value, gradient = model.log_marginal_likelihood(oracle["fixed_theta"], eval_gradient=True)
    assert value == model.log_marginal_likelihood_value_
    assert_allclose(gradient, oracle[f"fixed_{link}_lml_grad"], rtol=0, atol=1e-10)
    # The step of 1e-5 leaves an error of 1e-9 in the differences.
    assert_allclose(gradient, difference(model.log_marginal_likelihood, oracle["fixed_theta"], 1e-5), rtol=0, atol=1e-8)
    check_predictions(model, X_test, oracle, f"fixed_{link}")


@pytest.mark.parametrize("link", LINKS)
def test_kernel_of_the_largest_evidence(oracle, rows, link):
    X, y, X_test = rows
    theta = oracle[f"evidence_{link}_theta"]
    model = LaplaceGPClassifier(learned_kernel(theta), link=link, optimizer=None).fit(X, y)
    assert model.log_marginal_likelihood_value_ == pytest.approx(oracle[f"evidence_{link}_lml"], abs=1e-9)
    # The stored theta is the optimum to about 1e-6.
    assert_allclose(model.log_marginal_likelihood(theta, eval_gradient=True)[1], 0.0, atol=1e-5)
    check_predictions(model, X_test, oracle, f"evidence_{link}")


@pytest.mark.filterwarnings("ignore:The chosen kernel has the prior variance")
@pytest.mark.parametrize("start", [(1.0, 1.0), (10.0, 0.1), (100.0, 0.3)])
@pytest.mark.parametrize("link", LINKS)
def test_search_finds_the_largest_evidence(oracle, rows, link, start):
    X, y, _ = rows
    model = LaplaceGPClassifier(ConstantKernel(start[0]) * RBF(start[1]), link=link).fit(X, y)
    assert_allclose(model.kernel_.theta, oracle[f"evidence_{link}_theta"], rtol=0, atol=1e-4)
    assert model.log_marginal_likelihood_value_ == pytest.approx(oracle[f"evidence_{link}_lml"], abs=1e-9)
    variance, length = np.exp(model.kernel_.theta)
    expected = (170.57, 0.255711) if link == "probit" else (679.53, 0.27984)
    assert_allclose((variance, length), expected, rtol=1e-4)


def test_scikit_learn_agrees(oracle, rows):
    X, y, X_test = rows
    theta, kernel = oracle["fixed_theta"], fixed_kernel(oracle)
    theirs = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    ours = LaplaceGPClassifier(kernel, link="logit", optimizer=None).fit(X, y)
    value, gradient = ours.log_marginal_likelihood(theta, eval_gradient=True)
    their_value, their_gradient = theirs.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(their_value, abs=1e-9)
    assert_allclose(gradient, their_gradient, rtol=0, atol=1e-6)
    # Their probability is a fit of five error functions.
    assert_allclose(ours.predict_proba(X_test), theirs.predict_proba(X_test), rtol=0, atol=2e-4)
    assert_allclose(ours.latent_mean_and_variance(X_test)[0], _their_latent(theirs, X_test)[0], rtol=0, atol=1e-6)
    stored = learned_kernel(oracle["evidence_logit_theta"])
    ours = LaplaceGPClassifier(stored, link="logit", optimizer=None).fit(X, y)
    mean, variance = ours.latent_mean_and_variance(X_test)
    assert_allclose(mean, oracle["sklearn_logit_latent_mean_test"], rtol=1e-7, atol=1e-9)
    assert_allclose(variance, oracle["sklearn_logit_latent_var_test"], rtol=1e-7, atol=1e-9)


def _their_latent(model, X):
    """Return scikit-learn's latent moments, which have a public name since 1.7 only."""
    base = model.base_estimator_
    K = base.kernel_(base.X_train_, X)
    v = np.linalg.solve(base.L_, base.W_sr_[:, None] * K)
    return K.T @ (base.y_train_ - base.pi_), base.kernel_.diag(X) - np.sum(v * v, axis=0)


# The sites of the stored runs had moved less far than ours when they were stopped: log Z, where sites are stationary,
# is the same to 1e-9, predictions to these.
@pytest.mark.parametrize(("name", "atol"), [("fixed", 1e-6), ("evidence", 2e-4)])
def test_expectation_propagation(oracle, rows, name, atol):
    X, y, X_test = rows
    kernel = fixed_kernel(oracle) if name == "fixed" else learned_kernel(oracle["evidence_probit_theta"])
    model = LaplaceGPClassifier(kernel, approximation="ep", optimizer=None).fit(X, y)
    prefix = f"ep_{name}_probit"
    assert model.log_marginal_likelihood_value_ == pytest.approx(oracle[f"{prefix}_log_z"], abs=1e-9)
    mean, variance = model.latent_mean_and_variance(X_test)
    assert_allclose(mean, oracle[f"{prefix}_latent_mean_test"], rtol=0, atol=atol)
    assert_allclose(variance, oracle[f"{prefix}_latent_var_test"], rtol=0, atol=atol)
    assert_allclose(model.predict_proba(X_test)[:, 1], oracle[f"{prefix}_mean"], rtol=0, atol=atol / 10)


def test_search_with_expectation_propagation(rows):
    X, y, _ = rows
    model = LaplaceGPClassifier(ConstantKernel(200.0) * RBF(0.4), approximation="ep", warm_start=True).fit(X, y)
    variance, length = np.exp(model.kernel_.theta)
    assert (variance, length) == pytest.approx((350, 0.484), rel=2e-3)
    assert model.log_marginal_likelihood_value_ == pytest.approx(-11.0272, abs=5e-5)


def test_laplace_is_too_unsure_where_the_variance_is_large(oracle, rows):
    """At x = 0 sampling gives .999: Laplace's method .685, expectation propagation .997."""
    X, y, _ = rows
    kernel = learned_kernel(oracle["evidence_probit_theta"])
    p = {
        name: LaplaceGPClassifier(kernel, approximation=name, optimizer=None).fit(X, y).predict_proba([[0.0]])[0, 1]
        for name in ("laplace", "ep")
    }
    assert p["laplace"] == pytest.approx(0.685, abs=1e-3)
    assert p["ep"] == pytest.approx(0.997, abs=1e-3)


# ---- the notebook this problem comes from ----------------------------------------------------------------------------


class Floored:
    """Probit link with the notebook's floor under the probability of either class."""

    @staticmethod
    def log_likelihood(s, f):
        return np.log(FLOOR + (1 - 2 * FLOOR) * ndtr(s * f))

    @staticmethod
    def derivatives(s, f):
        z = s * f
        q, density = FLOOR + (1 - 2 * FLOOR) * ndtr(z), (1 - 2 * FLOOR) * norm.pdf(z)
        r = density / q
        return s * r, r * (z + r), s * r * ((z + r) * (z + 2 * r) - 1)


def shifted(link, offset):
    """Return a link whose latent value has a constant added: a prior mean."""

    class Shifted:
        @staticmethod
        def log_likelihood(s, f):
            return link.log_likelihood(s, f + offset)

        @staticmethod
        def derivatives(s, f):
            return link.derivatives(s, f + offset)

    return Shifted


@pytest.fixture(scope="module")
def seed_problem(oracle, rows):
    """Return Gram matrix with jitter, covariances with the test rows, prior variance and prior mean."""
    X, _, X_test = rows
    variance = float(oracle["seed_kernel_variance"])
    kernel = RBF(float(oracle["seed_kernel_lengthscale"]))
    K = variance * kernel(X) + 1e-6 * np.eye(len(X))
    return K, variance * kernel(X, X_test), variance, float(oracle["seed_mean_constant"])


@pytest.mark.parametrize(("name", "link"), [("newton_eps", Floored), ("newton_probit", Probit)])
def test_mode_at_the_kernel_of_the_notebook(oracle, rows, seed_problem, name, link):
    K, K_cross, variance, offset = seed_problem
    posterior = laplace(K, 2.0 * rows[1] - 1, 1.0, shifted(link, offset))
    assert_allclose(posterior.latent + offset, oracle[f"{name}_f"], **LATENT)
    assert_allclose(posterior.precisions, oracle[f"{name}_W"], **LATENT)
    assert posterior.log_evidence == pytest.approx(oracle[f"{name}_lml"], abs=1e-9)
    mean, var = moments(posterior, K_cross, variance)
    assert_allclose(mean + offset, oracle[f"{name}_latent_mean_test"], **LATENT)
    # Variances fall to 1e-3 of the prior's: rounding is relative to the latter.
    assert_allclose(var, oracle[f"{name}_latent_var_test"], rtol=1e-7, atol=1e-9)


def test_right_projection_of_the_latent_values_of_the_notebook(oracle, rows, seed_problem):
    K, K_cross, variance, offset = seed_problem
    f = oracle["seed_latent_f"]
    assert_allclose(offset + np.linalg.cholesky(K) @ oracle["seed_latent_whitened"], f, rtol=0, atol=1e-8)
    # The stored test variances carry the notebook's jitter of 1e-6 on the prior.
    W = Floored.derivatives(2.0 * rows[1] - 1, f)[1]
    V = np.linalg.solve(np.linalg.cholesky(K + np.diag(1 / W)), K_cross)
    assert_allclose(variance + 1e-6 - np.sum(V * V, axis=0), oracle["laplace_latent_var_test"], rtol=1e-6, atol=1e-8)


def test_the_notebook_takes_the_whitened_hessian_for_a_covariance(oracle, rows, seed_problem):
    K, K_cross, variance, offset = seed_problem
    wrong = oracle["seed_laplace_latent_var_test"]
    posterior = laplace(K, 2.0 * rows[1] - 1, 1.0, shifted(Floored, offset))
    _, right = moments(posterior, K_cross, variance)
    assert wrong.max() > 50
    assert right.max() < 1.3
    assert np.abs(oracle["seed_laplace_mean"] - oracle["newton_eps_mean"]).max() > 0.2
    # Their number comes out of ours once the factor of the Gram matrix is left out on both sides.
    L = np.linalg.cholesky(K)
    W = Floored.derivatives(2.0 * rows[1] - 1, oracle["seed_latent_f"])[1]
    whitened = np.eye(len(K)) + L.T @ (W[:, None] * L)
    A = np.linalg.solve(K, K_cross)
    mistaken = variance + 1e-6 - np.sum(A * K_cross, axis=0) + np.sum(A * np.linalg.solve(whitened, A), axis=0)
    assert_allclose(mistaken, wrong, rtol=1e-4)


def test_joint_density_over_latent_values_and_variance_has_no_maximum(rows):
    """Four times the variance and half the whitened values are the same function, with a smaller penalty."""
    X, y, _ = rows
    s, w = 2.0 * y - 1, np.random.default_rng(0).standard_normal(len(X))
    values = []
    for factor in (1.0, 4.0, 16.0, 64.0, 256.0):
        L = np.linalg.cholesky(factor * RBF(0.2)(X) + factor * 1e-6 * np.eye(len(X)))
        scaled = w / np.sqrt(factor)
        values.append(log_ndtr(s * (L @ scaled)).sum() - 0.5 * scaled @ scaled)
    assert (np.diff(values) > 0).all()
    # The evidence pays for a wide prior: it falls without end.
    evidences = [laplace(v * RBF(0.2)(X), s, 1.0, Probit).log_evidence for v in (1e3, 1e4, 1e5, 1e6)]
    assert (np.diff(evidences) < 0).all()
