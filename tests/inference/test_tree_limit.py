"""Kernel, solvers, weights, traces and intervals against dense formulas."""

import math
import pickle

import numpy as np
import pytest
from oracles import boulevard_trees as oracle
from scipy.stats import norm

from skboost.inference import _tree_limit, _tree_solvers
from skboost.inference._tree_kernel import TreeKernel
from skboost.inference._tree_limit import TreeLimit, calibrated_quantile, half_widths, residual_variance
from skboost.inference._tree_solvers import ExactSolver, GradientSolver, NystromSolver, pivoted_cholesky

KAPPA = 1.25


def random_leaves(seed, n_rows=150, n_trees=30, n_others=40):
    """Return leaves of training rows and of others, and the offsets; some leaves have no training row."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 15, n_trees)
    train = np.stack([rng.integers(0, size - (size > 5), n_rows) for size in sizes]).astype(np.uint8)
    others = np.stack([rng.integers(0, size, n_others) for size in sizes])
    return train, others, np.r_[0, np.cumsum(sizes)]


def tree_kernel(seed, kappa=KAPPA, **sizes):
    train, others, offset = random_leaves(seed, **sizes)
    rows = np.concatenate([np.bincount(leaf, minlength=k) for leaf, k in zip(train, np.diff(offset), strict=True)])
    return TreeKernel.of(train, rows.astype(float), offset, kappa), train.astype(int), others


def test_kernel_is_the_dense_one(seed):
    kernel, train, others = tree_kernel(seed)
    K = oracle.kernel(train, train, KAPPA)
    np.testing.assert_allclose(kernel.matrix(), K, rtol=0, atol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(), np.diagonal(K), rtol=0, atol=1e-14)
    np.testing.assert_allclose(kernel.cross(others), oracle.kernel(train, others, KAPPA).T, rtol=0, atol=1e-14)
    columns = np.random.default_rng(seed).normal(size=(150, 4))
    np.testing.assert_allclose(kernel.product(columns), K @ columns, rtol=0, atol=1e-13)
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] > -1e-12
    assert eigenvalues[-1] <= 1


@pytest.mark.parametrize("c", [1 / 3, 1.0, 4.0])
def test_solvers_are_the_dense_one(c, seed):
    kernel, train, others = tree_kernel(seed)
    k = oracle.kernel(train, others, KAPPA).T
    A = c * np.eye(150) + oracle.kernel(train, train, KAPPA)
    u = np.linalg.solve(A, k)
    smoother = np.linalg.solve(A, A - c * np.eye(150))
    traces = np.trace(smoother), np.sum(smoother**2)
    exact, gradient = ExactSolver(kernel, c), GradientSolver(kernel, c)
    nystrom = NystromSolver(kernel, c, 150, np.random.default_rng(0))
    np.testing.assert_allclose(exact.solve(k), u, rtol=0, atol=1e-13)
    np.testing.assert_allclose(gradient.solve(k), u, rtol=0, atol=1e-10)
    np.testing.assert_allclose(nystrom.solve(k), u, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(exact.smoother_traces(), traces, rtol=1e-11)
    np.testing.assert_allclose(nystrom.smoother_traces(), traces, rtol=1e-7)
    assert gradient.smoother_traces() is None


@pytest.mark.parametrize("kept", [1.0, 0.5, 0.1])
def test_conjugate_gradients_need_few_iterations(kept, seed, monkeypatch):
    monkeypatch.setattr(_tree_solvers, "TOLERANCE", 1e-12)
    kernel, _, others = tree_kernel(seed, kappa=0.0, n_rows=1000, n_trees=60)
    solver = GradientSolver(kernel, 1 / kept)
    solver.solve(kernel.cross(others))
    assert 2 <= solver.n_iterations <= 14


def test_conjugate_gradients_stop_at_zero_and_warn_when_they_do_not_stop(monkeypatch):
    kernel, _, _ = tree_kernel(0)
    solver = GradientSolver(kernel, 1.0)
    np.testing.assert_array_equal(solver.solve(np.zeros((150, 2))), np.zeros((150, 2)))
    monkeypatch.setattr(_tree_solvers, "MOST_ITERATIONS", 2)
    with pytest.warns(UserWarning, match="did not converge"):
        solver.solve(np.random.default_rng(0).normal(size=(150, 1)))


def test_few_landmarks_are_an_approximation(seed):
    kernel, _, others = tree_kernel(seed, n_rows=300)
    k = kernel.cross(others)
    exact = ExactSolver(kernel, 1.0).solve(k)
    error = [
        np.abs(NystromSolver(kernel, 1.0, r, np.random.default_rng(1)).solve(k) - exact).max() for r in (30, 150, 300)
    ]
    assert error[0] > error[1] > error[2]
    assert error[2] < 1e-9


def test_pivoted_cholesky_stops_at_the_rank(seed):
    B = np.random.default_rng(seed).normal(size=(20, 6))
    lower, pivots = pivoted_cholesky(B @ B.T, 1e-10)
    assert len(pivots) == len(set(pivots)) == 6
    np.testing.assert_allclose(np.triu(lower, 1), 0, atol=1e-12)
    np.testing.assert_allclose(lower @ lower.T, (B @ B.T)[np.ix_(pivots, pivots)], atol=1e-10)


# ---- limit -----------------------------------------------------------------------------------------------------------

LIMITS = {
    "plain": (1.0, 2.0),
    "dropout": (1 / 0.35, 1.35 / 0.35),
    "four slots": (1 / 3, 4 / 3),
    "two slots": (1.0, 2.0),
}


@pytest.mark.parametrize("solver", ["exact", "cg", "nystrom"])
@pytest.mark.parametrize("mean_intercept", [True, False])
@pytest.mark.parametrize("case", LIMITS)
def test_weights_are_those_of_the_dense_formula(case, mean_intercept, solver, seed, monkeypatch):
    monkeypatch.setattr(_tree_limit, "N_PROBES", 500)
    c, s = LIMITS[case]
    kernel, train, others = tree_kernel(seed)
    K, k = oracle.kernel(train, train, KAPPA), oracle.kernel(train, others, KAPPA)
    W = oracle.hat_matrix(K, k, c, s, mean_intercept)
    limit = TreeLimit(kernel, c, s, mean_intercept, solver, 150, 0)
    np.testing.assert_allclose(limit.weights(others.T), W.T, rtol=0, atol=1e-8 if solver == "nystrom" else 1e-10)
    norms = limit.squared_norms(others.T)
    np.testing.assert_allclose(norms, np.sum(W**2, axis=1), rtol=1e-7 if solver == "nystrom" else 1e-10)
    P = oracle.hat_matrix(K, K, c, s, mean_intercept)
    rtol = {"exact": 1e-11, "nystrom": 1e-6, "cg": 0.1}[solver]
    np.testing.assert_allclose(limit.degrees_of_freedom(), (np.trace(P), np.sum(P**2)), rtol=rtol)
    y = np.random.default_rng(seed).normal(size=150)
    y -= y.mean()
    np.testing.assert_allclose(limit.fitted(y), P @ y, rtol=0, atol=1e-9)


@pytest.mark.parametrize("mean_intercept", [True, False])
def test_variance_of_what_leaves_average(mean_intercept, seed, monkeypatch):
    """Without noise it is the variance within leaves; of noise alone it is, on average, that of the noise."""
    monkeypatch.setattr(_tree_limit, "N_PROBES", 500)
    kernel, train, _ = tree_kernel(seed, kappa=0.0)
    K = oracle.kernel(train, train, 0.0)
    P = oracle.hat_matrix(K, K, 1.0, 2.0, mean_intercept)
    limit = TreeLimit(kernel, 1.0, 2.0, mean_intercept, "exact", None, 0)
    rng = np.random.default_rng(seed)
    y = rng.normal(size=150)
    r = y - y.mean() * mean_intercept
    r = r - 0.5 * (P @ y - y.mean() * mean_intercept)
    within = [np.sum((r - oracle.smoother(leaf, 0.0) @ r) ** 2) for leaf in train]
    assert limit.estimate_variance(r, 0.0) == pytest.approx(np.mean(within) / (150 - np.trace(K)), rel=1e-10)
    J = np.eye(150) - mean_intercept / 150
    E = J - 0.5 * (P - np.ones((150, 150)) / 150 * mean_intercept)
    expected = np.trace(E.T @ (np.eye(150) - K) @ E) / (150 - np.trace(K))
    found = limit.estimate_variance(3 * r, 2.0)
    wanted = 2.0 + max(9 * np.mean(within) / (150 - np.trace(K)) - 2.0 * expected, 0.0)
    assert found == pytest.approx(wanted, rel=0.02)
    assert limit.estimate_variance(0 * r, 2.0) == 2.0


@pytest.mark.parametrize("kept", [0.2, 1.0, 3.0])
def test_bounds_of_the_norm(kept, seed):
    kernel, _, others = tree_kernel(seed)
    s = (1 + kept) / kept
    size = np.linalg.norm(TreeLimit(kernel, 1 / kept, s, False, "exact", None, 0).weights(others.T), axis=0)
    of_kernel = np.linalg.norm(kernel.cross(others), axis=0)
    assert np.all(of_kernel <= size * (1 + 1e-12))
    assert np.all(size <= (1 + kept) * of_kernel * (1 + 1e-12))


def test_a_pickled_limit_leaves_the_inverse_behind(seed):
    kernel, _, others = tree_kernel(seed)
    limit = TreeLimit(kernel, 1.0, 2.0, True, "exact", None, 0)
    norms = limit.squared_norms(others.T)
    stored = pickle.dumps(limit)
    assert len(stored) < 30_000 < limit._solver.inverse.nbytes
    np.testing.assert_array_equal(pickle.loads(stored).squared_norms(others.T), norms)


# ---- noise and intervals ---------------------------------------------------------------------------------------------


def test_residual_variance_of_a_projection_is_that_of_least_squares(seed):
    rng = np.random.default_rng(seed)
    B, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    fitted = B @ np.linalg.lstsq(B, y, rcond=None)[0]
    assert residual_variance(y, fitted, (5.0, 5.0)) == pytest.approx(np.sum((y - fitted) ** 2) / 35, rel=1e-12)
    with pytest.raises(ValueError, match="noise_variance='auto'"):
        residual_variance(y, fitted, (40.0, 40.0))


def test_half_widths():
    variance = np.array([0.0, 1.0])
    z = norm.ppf(0.95)
    np.testing.assert_allclose(half_widths("confidence", 0.1, 4.0, variance), [0, z])
    np.testing.assert_allclose(half_widths("reproduction", 0.1, 4.0, variance), [0, z * math.sqrt(2)])
    np.testing.assert_allclose(half_widths("prediction", 0.1, 4.0, variance), [z * 2, z * math.sqrt(5)])
    ratios = np.arange(1.0, 20.0)
    np.testing.assert_allclose(half_widths("calibrated", 0.1, 4.0, variance, ratios), [18 * 2, 18 * math.sqrt(5)])


@pytest.mark.parametrize(
    ("n", "alpha", "rank"), [(19, 0.05, 19), (19, 0.1, 18), (9, 0.1, 9), (99, 0.05, 95), (1, 0.5, 1)]
)
def test_rank_of_the_calibrated_quantile(n, alpha, rank):
    assert calibrated_quantile(np.arange(1.0, n + 1), alpha) == rank


def test_too_few_rows_to_calibrate():
    with pytest.raises(ValueError, match=r"alpha=0\.05 is too small for 18 held-out rows"):
        calibrated_quantile(np.arange(18.0), 0.05)
