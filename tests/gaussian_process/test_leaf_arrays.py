"""Leaf posteriors on arrays: closed forms, primal against dual, draws, evidence against dense formulas, the law."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from scipy.special import expit, log_expit

from skboost.gaussian_process._leaf_models import walk_precision
from skboost.gaussian_process._leaf_posterior import (
    EvidenceProblem,
    LogitLikelihood,
    SquaredLikelihood,
    find_mode,
)
from skboost.gaussian_process._leaf_priors import LeafPrior, make_design
from skboost.gaussian_process._leaf_random_trees import RandomTrees
from skboost.gaussian_process._leaf_solvers import SOLVERS, SampleSolver

EXACT = pytest.mark.parametrize("solver", ["cholesky", "dual"])


def indicators(columns, n_columns):
    """Return the dense 0/1 matrix of the columns of rows."""
    Phi = np.zeros((len(columns), n_columns))
    np.put_along_axis(Phi, columns, 1.0, axis=1)
    return Phi


def diagonal_prior(values, group=None):
    values = np.asarray(values, dtype=np.float64)
    group = np.zeros(len(values), dtype=np.intp) if group is None else group
    return LeafPrior(values, values, group, np.zeros(len(values)), int(group.max()) + 1)


def random_columns(rng, n_rows, sizes):
    starts = np.cumsum([0, *sizes])[:-1]
    return np.stack(
        [rng.integers(size, size=n_rows) + start for size, start in zip(sizes, starts, strict=True)], axis=1
    )


def variance_of(columns, weight, precision, solver, rows=None):
    """Return the posterior variances of rows of columns, through the design and the solver."""
    prior = diagonal_prior(precision)
    design = make_design(prior, np.ones(1), np.arange(len(precision)))
    Z = design.whitened(columns)
    return SOLVERS[solver](Z, weight).variance(Z if rows is None else design.whitened(rows))


# ---- closed forms ----------------------------------------------------------------------------------------------------


@EXACT
def test_one_tree(solver):
    columns = np.array([[0], [0], [1], [1], [1]])
    weight = np.array([0.2, 0.25, 0.1, 0.24, 0.05])
    found = variance_of(columns, weight, [0.3, 0.5], solver, np.array([[0], [1]]))
    assert_allclose(found, [4.0 / 3.0, 1.123595505618], rtol=1e-12)


@EXACT
def test_copies_of_one_tree_share_what_they_know(solver):
    columns = np.array([[0, 1, 2, 3]] * 2)
    found = variance_of(columns, np.array([0.2, 0.25]), [0.3] * 4, solver)
    assert_allclose(found, 1.904761904762, rtol=1e-12)
    diagonal = 4 / (0.45 + 0.3)
    assert abs(found[0] - diagonal) > 3.0


@EXACT
def test_variance_is_that_of_the_dense_formula(solver):
    rng = np.random.default_rng(0)
    sizes, n = [3, 5, 4], 30
    columns = random_columns(rng, n, sizes)
    weight, precision = rng.uniform(0.05, 0.25, n), rng.uniform(0.1, 3.0, sum(sizes))
    Phi = indicators(columns, sum(sizes))
    wanted = np.diag(Phi @ np.linalg.inv(Phi.T @ (weight[:, None] * Phi) + np.diag(precision)) @ Phi.T)
    assert_allclose(variance_of(columns, weight, precision, solver), wanted, rtol=1e-11)


@pytest.mark.parametrize("n_leaves", [3, 40])
def test_primal_and_dual_agree(n_leaves):
    rng = np.random.default_rng(n_leaves)
    sizes = [n_leaves] * 6
    columns, rows = random_columns(rng, 50, sizes), random_columns(rng, 20, sizes)
    precision, weight = rng.uniform(0.01, 3.0, sum(sizes)), rng.uniform(0.01, 0.25, 50)
    found = [variance_of(columns, weight, precision, solver, rows) for solver in ("cholesky", "dual")]
    assert_allclose(*found, rtol=1e-10)
    Z = make_design(diagonal_prior(precision), np.ones(1), np.arange(sum(sizes))).whitened(columns)
    primal, dual = (SOLVERS[solver](Z, weight) for solver in ("cholesky", "dual"))
    assert_allclose(primal.log_det(), dual.log_det(), rtol=0, atol=1e-9)
    r = rng.normal(size=sum(sizes))
    assert_allclose(primal.solve(r), dual.solve(r), rtol=1e-9, atol=1e-12)
    assert_allclose(SampleSolver(Z, weight).solve(r), primal.solve(r), rtol=1e-7, atol=1e-8)


def test_a_column_without_rows_keeps_its_prior_variance():
    prior = diagonal_prior([2.0, 0.25, 4.0])
    design = make_design(prior, np.array([0.5]), np.array([0, 2]))
    assert_allclose(design.spare_variance(np.array([[0, 1], [0, 2]])), [8.0, 0.0])
    Z = design.whitened(np.array([[0, 1], [0, 2]]))
    assert_allclose(Z.toarray(), [[1.0, 0.0], [1.0, 0.5**0.5]])


# ---- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", list(SOLVERS))
def test_draws_have_the_posterior_covariance(solver):
    rng = np.random.default_rng(1)
    sizes, S = [4, 6, 5], 2000
    columns = random_columns(rng, 25, sizes)
    design = make_design(diagonal_prior(rng.uniform(0.2, 2.0, sum(sizes))), np.ones(1), np.arange(sum(sizes)))
    Z, weight = design.whitened(columns), rng.uniform(0.1, 1.0, 25)
    exact = SOLVERS["cholesky"](Z, weight).variance(Z)
    found = SOLVERS[solver](Z, weight)
    if solver == "sample":
        found.draw_members(S, np.random.default_rng(3))
        ratio = found.variance(Z) / exact
        again = SampleSolver(Z, weight)
        again.draw_members(S, np.random.default_rng(3))
        assert np.array_equal(found.members, again.members)
    else:
        ratio = np.mean((Z @ found.draws(S, np.random.default_rng(3))) ** 2, axis=1) / exact
    assert np.abs(ratio - 1.0).max() < 4.0 * np.sqrt(2.0 / S)


def test_draws_of_one_member_do_not_depend_on_the_others():
    rng = np.random.default_rng(2)
    Z = csr_array(rng.normal(size=(20, 12)))
    R = rng.normal(size=(12, 5))
    solver = SampleSolver(Z, np.ones(20))
    together = solver.solve(R, 1e-6)
    alone = np.stack([solver.solve(r, 1e-6) for r in R.T], axis=1)
    assert_allclose(together, alone, rtol=0, atol=1e-12)


# ---- stationary law of the chain -------------------------------------------------------------------------------------


def test_law_of_langevin_boosting_with_fixed_trees():
    """States of the chain with trees drawn at random have the covariance of the posterior: the source of the prior."""
    rng = np.random.default_rng(0)
    N, n_trees, eps, beta, gamma = 24, 6, 0.02, 24.0, 0.1
    columns = random_columns(rng, N, [4] * n_trees)
    counts = np.bincount(columns.ravel(), minlength=4 * n_trees)
    Phi = indicators(columns, 4 * n_trees)
    step = [indicators(columns[:, [t]], 4 * n_trees) for t in range(n_trees)]
    means = [S / np.maximum(counts, 1) for S in step]  # leaf values from gradients of rows
    n_chains, F, total, n_kept = 400, np.zeros((N, 400)), np.zeros((N, N)), 0
    for iteration in range(6000):
        # Gradients of the rows' losses, with noise that becomes N / (eps beta) 2 per row after the mean over a leaf.
        noisy = -F + rng.normal(size=F.shape) * np.sqrt(2.0 * N / (eps * beta))
        t = rng.integers(n_trees)
        F = (1.0 - gamma * eps) * F + eps * (step[t] @ (means[t].T @ noisy))
        if iteration >= 1500 and iteration % 15 == 0:
            total += F @ F.T
            n_kept += n_chains
    # Every step moves one tree out of six: the other trees' shares are in p_s.
    tau = beta * gamma
    Lambda = np.diag(tau * n_trees * counts / N)
    occupied = counts > 0
    H = (beta / N) * Phi.T @ Phi + Lambda
    wanted = Phi[:, occupied] @ np.linalg.inv(H[np.ix_(occupied, occupied)]) @ Phi[:, occupied].T
    assert np.linalg.norm(total / n_kept - wanted) < 0.05 * np.linalg.norm(wanted)


# ---- mode and evidence -----------------------------------------------------------------------------------------------


def evidence_problem(kind, solver, rng, noise_variance=None, prior=None):
    sizes, n = [4, 5], 40
    columns = random_columns(rng, n, sizes)
    f = rng.normal(size=9)[columns].sum(axis=1)
    weight = rng.integers(1, 4, n).astype(np.float64)
    if kind == "log_loss":
        likelihood, base = LogitLikelihood(weight, np.floor(weight * expit(2 * f))), 0.3
    else:
        y = f + rng.normal(scale=0.3, size=n)
        likelihood, base = SquaredLikelihood(weight, weight * y, float(weight @ y**2)), 0.0
    prior = diagonal_prior(rng.uniform(0.5, 2.0, 9)) if prior is None else prior
    return EvidenceProblem(likelihood, base, columns, prior, np.arange(9), solver, noise_variance)


def term_priors(rng):
    by_term = np.repeat([0, 1], [4, 5])
    blocks, values = zip(*(walk_precision([(n, True)]) for n in (4, 5)), strict=True)
    walk = np.zeros((9, 9))
    walk[:4, :4], walk[4:, 4:] = (block.toarray() for block in blocks)
    ridge = np.full(9, 1e-3)
    return {
        "diagonal": diagonal_prior(rng.uniform(0.5, 2.0, 9), by_term),
        "walk": LeafPrior(np.diag(walk), np.concatenate(values), by_term, ridge, 2, csr_array(walk)),
    }


def dense_precision(prior, tau):
    walk = np.diag(prior.diagonal) if prior.walk is None else prior.walk.toarray()
    return tau[prior.group][:, None] * walk + np.diag(prior.ridge)


@EXACT
@pytest.mark.parametrize("noise_variance", [None, 0.2])
def test_evidence_of_the_squared_error_is_the_normal_density(solver, noise_variance):
    problem = evidence_problem("squared_error", solver, np.random.default_rng(0), noise_variance)
    weight = problem.likelihood.weight
    Phi = np.repeat(indicators(problem.columns, 9), weight.astype(int), axis=0)
    # Repeated rows of one pattern: any targets with the same sums do.
    y = np.repeat(problem.likelihood.target / weight, weight.astype(int))
    Lambda = dense_precision(problem.prior, np.array([0.7]))
    K = np.eye(len(y)) + Phi @ np.linalg.inv(Lambda) @ Phi.T
    v = noise_variance if noise_variance is not None else y @ np.linalg.solve(K, y) / len(y)
    sign, log_det = np.linalg.slogdet(2.0 * np.pi * v * K)
    assert sign == 1
    assert problem.log_evidence(np.log(0.7)) == pytest.approx(
        -0.5 * (log_det + y @ np.linalg.solve(K, y) / v), rel=1e-11
    )


@EXACT
def test_mode_and_evidence_of_the_log_loss(solver):
    problem = evidence_problem("log_loss", solver, np.random.default_rng(1))
    tau = np.array([0.6])
    design, like = make_design(problem.prior, tau, problem.used), problem.likelihood
    t, f, density, _ = find_mode(like, problem.base, design.whitened(problem.columns), None, SOLVERS[solver])
    Phi, Lambda = indicators(problem.columns, 9), dense_precision(problem.prior, tau)
    theta = design.scale * t
    gradient = Phi.T @ (like.ones * expit(-f) - (like.weight - like.ones) * expit(f)) - Lambda @ theta
    assert np.abs(gradient).max() < 1e-6
    assert_allclose(f, 0.3 + Phi @ theta, rtol=1e-12)
    joint = like.ones @ log_expit(f) + (like.weight - like.ones) @ log_expit(-f) - 0.5 * theta @ Lambda @ theta
    assert density == pytest.approx(joint, rel=1e-12)
    H = Phi.T @ ((like.weight * expit(f) * expit(-f))[:, None] * Phi) + Lambda
    wanted = joint - 0.5 * (np.linalg.slogdet(H)[1] - np.linalg.slogdet(Lambda)[1])
    assert problem.log_evidence(np.log(tau)) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("prior", ["diagonal", "walk"])
@pytest.mark.parametrize("kind", ["squared_error", "log_loss"])
def test_gradient_of_the_evidence(kind, prior):
    rng = np.random.default_rng(2)
    problem = evidence_problem(kind, "cholesky", rng, prior=term_priors(rng)[prior])
    at, h = np.array([0.4, -0.8]), 1e-5
    value, gradient = problem.log_evidence(at, gradient=True)
    assert value == pytest.approx(problem.log_evidence(at), rel=1e-14)
    steps = h * np.eye(2)
    central = [(problem.log_evidence(at + step) - problem.log_evidence(at - step)) / (2 * h) for step in steps]
    assert_allclose(gradient, central, rtol=1e-6, atol=1e-7)


def test_evidence_of_a_walk_is_that_of_the_dense_precision():
    rng = np.random.default_rng(3)
    problem = evidence_problem("squared_error", "cholesky", rng, 0.1, prior=term_priors(rng)["walk"])
    tau = np.array([2.0, 0.3])
    Phi = np.sqrt(problem.likelihood.weight)[:, None] * indicators(problem.columns, 9)
    y = problem.likelihood.target / np.sqrt(problem.likelihood.weight)
    K = np.eye(len(y)) + Phi @ np.linalg.inv(dense_precision(problem.prior, tau)) @ Phi.T
    rest = problem.likelihood.square - y @ y
    quadratic = (y @ np.linalg.solve(K, y) + rest) / 0.1
    n = problem.likelihood.weight.sum()
    wanted = -0.5 * (n * np.log(2 * np.pi * 0.1) + np.linalg.slogdet(K)[1] + quadratic)
    assert problem.log_evidence(np.log(tau)) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("kind", ["squared_error", "log_loss"])
def test_best_scale_is_a_maximum(kind):
    problem = evidence_problem(kind, "cholesky", np.random.default_rng(4))
    best = np.log(problem.best_scales())
    assert problem.log_evidence(best) >= max(problem.log_evidence(best + step) for step in (-0.1, 0.1))


def test_line_search_survives_a_vague_prior():
    likelihood = LogitLikelihood(np.ones(3), np.array([1.0, 1.0, 0.0]))
    design = make_design(diagonal_prior([1e-6, 1e-6]), np.ones(1), np.arange(2))
    Z = design.whitened(np.array([[0], [0], [1]]))
    _, f, density, _ = find_mode(likelihood, -20.0, Z, None, SOLVERS["cholesky"])
    assert np.isfinite(density)
    assert f[0] > 5.0 > -5.0 > f[2]


# ---- random walk, random trees ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "axes", [[(7, True)], [(3, True)], [(5, False)], [(6, True), (4, False)], [(5, True), (7, True)]]
)
def test_eigenvalues_of_the_walk(axes):
    precision, eigenvalues = walk_precision(axes)
    dense = precision.toarray()
    assert_allclose(np.sort(eigenvalues), np.linalg.eigvalsh(dense), atol=1e-12)


def test_walk_along_an_axis_is_the_sum_of_squared_steps():
    precision, _ = walk_precision([(6, True)])
    theta = np.array([2.0, 1.0, 4.0, 4.5, 4.0, -1.0])
    steps = np.diff(theta[1:-1])
    assert theta @ (precision @ theta) == pytest.approx(4.0 + 1.0 + steps @ steps)


def test_random_trees_are_drawn_over_the_widened_range():
    X = np.stack([np.linspace(-1.0, 3.0, 50), np.full(50, 7.0), np.linspace(0.0, 1.0, 50)], axis=1)
    X[0, 0] = np.nan
    trees = RandomTrees.draw(200, X, np.array([True, True, False]), np.random.default_rng(0))
    assert set(np.unique(trees.features)) == {0}
    low, span = np.nanmin(X[:, 0]), np.nanmax(X[:, 0]) - np.nanmin(X[:, 0])
    borders = (np.unique(trees.borders) - low) / span
    assert len(borders) == 32
    assert_allclose(borders, -0.25 + 1.5 * np.arange(1, 33) / 33, atol=1e-12)
    columns = trees.columns(X)
    above = X[:, trees.features] > trees.borders
    assert np.array_equal(columns - 16 * np.arange(200), (above * 2 ** np.arange(4)).sum(axis=2))
    with pytest.raises(ValueError, match="prior_trees=2 needs a numeric column"):
        RandomTrees.draw(2, X[:, 1:], np.array([True, False]), np.random.default_rng(0))
