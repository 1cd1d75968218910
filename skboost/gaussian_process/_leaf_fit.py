"""From rows to the posterior over leaf values: columns, patterns, prior scales, factor. No estimator inside."""

from dataclasses import dataclass, replace

import numpy as np

from skboost.gaussian_process._averages import row_blocks
from skboost.gaussian_process._leaf_models import LeafModel
from skboost.gaussian_process._leaf_posterior import (
    EvidenceProblem,
    LogitLikelihood,
    SquaredLikelihood,
    find_mode,
)
from skboost.gaussian_process._leaf_priors import Design, make_design, make_prior, used_columns
from skboost.gaussian_process._leaf_random_trees import RandomTrees
from skboost.gaussian_process._leaf_solvers import SOLVERS
from skboost.gaussian_process._leaf_support import LeafBoxes

# Dense matrices that are alive together in a factorization: the product, its sparse form of twice the size, the factor.
DENSE_COPIES = 4


@dataclass(frozen=True)
class LeafOptions:
    """Parameters of a fit, resolved as far as the model allows.

    Attributes
    ----------
    prior : str
    prior_scale : float or None
        None: by the evidence.
    noise_variance : float or None
        None: by the evidence; of the squared error only.
    at_mode : bool
        Whether the posterior is centred on its own mode instead of on the model.
    solver : str
    n_members : int
    support : bool
    prior_trees : int
    max_leaves : int or None
    seed : int
    """

    prior: str
    prior_scale: float | None
    noise_variance: float | None
    at_mode: bool
    solver: str
    n_members: int
    support: bool
    prior_trees: int
    max_leaves: int | None
    seed: int


class LeafColumns:
    """Columns of rows: those of the model, of random trees, and of the intercept of an additive model."""

    def __init__(self, model, trees):
        self.model, self.trees = model, trees
        self.sizes = model.sizes if trees is None else np.append(model.sizes, trees.sizes)
        self.n_columns = int(self.sizes.sum()) + model.additive

    def __call__(self, X):
        """Return the columns of rows, and the matrix of their numbers if random trees read it, else None."""
        parts, matrix = [self.model.columns(X)], None
        if self.trees is not None:
            matrix = self.model.matrix(X)
            parts.append(self.trees.columns(matrix) + np.int32(self.model.sizes.sum()))
        if self.model.additive:
            parts.append(np.full((len(parts[0]), 1), self.n_columns - 1, dtype=np.int32))
        return np.concatenate(parts, axis=1), matrix


@dataclass(frozen=True)
class LeafPosterior:
    """Normal law of the scores around their centre, one independent law per raw score.

    Attributes
    ----------
    model : LeafModel
    columns : LeafColumns
    design : Design
    solvers : list
        One per raw score.
    modes : ndarray of shape (n_used,) or None
        Whitened leaf values at the mode; None when centred on the model.
    tau : ndarray of shape (n_groups,)
        Prior scales.
    noise_variance : float or None
        None for the log loss.
    weights : ndarray of shape (n_columns,)
        Weight of the rows of the fit in each leaf.
    boxes : LeafBoxes or None
    box_variance : ndarray of shape (n_columns,) or None
        Prior variance that comes back outside the boxes.
    solver : str
        Name of the solver in use.
    seed : int
    """

    model: LeafModel
    columns: LeafColumns
    design: Design
    solvers: list
    modes: np.ndarray | None
    tau: np.ndarray
    noise_variance: float | None
    weights: np.ndarray
    boxes: LeafBoxes | None
    box_variance: np.ndarray | None
    solver: str
    seed: int

    @property
    def n_leaves(self):
        """Columns of the linear model."""
        return self.columns.n_columns

    @property
    def unit(self):
        """Variance that whitened laws are in units of."""
        return 1.0 if self.noise_variance is None else self.noise_variance

    def moments(self, X):
        """Return means and variances of the raw scores, shape (n_rows, n_outputs), and the support of rows."""
        columns, matrix = self.columns(X)
        extra, n_trees = self.design.spare_variance(columns), len(self.columns.sizes)
        if self.boxes is not None:
            matrix = self.model.matrix(X) if matrix is None else matrix
            own = columns[:, : len(self.model.sizes)]
            extra = extra + self.boxes.variance(own, matrix, self.box_variance)
        variance = np.empty((len(columns), len(self.solvers)))
        for rows in row_blocks(len(columns), columns.shape[1]):
            Z = self.design.whitened(columns[rows])
            variance[rows] = np.stack([solver.variance(Z) for solver in self.solvers], axis=1)
        variance += extra[:, None]
        seen = self.weights[columns[:, :n_trees]] > 0
        support = seen.sum(axis=1) / n_trees if n_trees else np.ones(len(columns))
        return self._mean(X, columns), variance * self.unit, support

    def mean(self, X):
        """Return the means of the raw scores, shape (n_rows, n_outputs)."""
        return self._mean(X, None if self.modes is None else self.columns(X)[0])

    def _mean(self, X, columns):
        if self.modes is None:
            return self.model.raw(X)
        out = np.empty((len(columns), 1))
        for rows in row_blocks(len(columns), columns.shape[1]):
            out[rows, 0] = self.model.base + self.design.whitened(columns[rows]) @ self.modes
        return out

    def members(self, X, n):
        """Return raw scores of functions drawn from the posterior, shape (n, n_rows, n_outputs)."""
        columns, _ = self.columns(X)
        Z, generator = self.design.whitened(columns), np.random.default_rng(self.seed)
        mean, spare = self._mean(X, columns), np.flatnonzero(self.design.spare)
        out = np.empty((n, *mean.shape))
        for k, solver in enumerate(self.solvers):
            out[..., k] = (Z @ solver.draws(n, generator)).T
            values = np.zeros((len(self.design.spare), n))
            values[spare] = np.sqrt(self.design.spare[spare, None]) * generator.standard_normal((n, len(spare))).T
            for leaves in columns.T:
                out[..., k] += values[leaves].T
        return mean + np.sqrt(self.unit) * out

    def centred_variances(self, term):
        """Return the variance of each cell of a term less the term's mean over the rows of the fit.

        Parameters
        ----------
        term : int
            Position of the term.

        Returns
        -------
        ndarray of shape (n_cells, n_outputs)
        """
        start = int(self.columns.sizes[:term].sum())
        cells = slice(start, start + int(self.columns.sizes[term]))
        position, share = self.design.position[cells], self.weights[cells] / self.weights[cells].sum()
        used = np.flatnonzero(position >= 0)
        units = np.zeros((len(self.design.scale), len(used)))
        units[position[used], np.arange(len(used))] = self.design.scale[position[used]]
        out = np.empty((len(share), len(self.solvers)))
        for k, solver in enumerate(self.solvers):
            covariance = np.diag(self.design.spare[cells])
            covariance[np.ix_(used, used)] += units.T @ solver.solve(units)
            with_mean = covariance @ share
            out[:, k] = np.diagonal(covariance) - 2.0 * with_mean + share @ with_mean
        return np.maximum(out, 0.0) * self.unit


@dataclass(frozen=True)
class JointPosterior:
    """Posteriors of raw scores that do not share their trees, as one `LeafPosterior` centred on the model.

    Attributes
    ----------
    model : LeafModel
    parts : list of LeafPosterior
        One per raw score.
    """

    model: LeafModel
    parts: list

    modes = noise_variance = None

    @property
    def n_leaves(self):
        """Columns of all linear models."""
        return sum(part.n_leaves for part in self.parts)

    @property
    def tau(self):
        """Prior scales, which are those of all parts."""
        return self.parts[0].tau

    @property
    def solver(self):
        """Name of the solver of the first part; "sample" is that of all."""
        return self.parts[0].solver

    @property
    def solvers(self):
        """Solvers, one per raw score."""
        return [solver for part in self.parts for solver in part.solvers]

    def moments(self, X):
        """Return what `LeafPosterior.moments` does; the support is the mean over the scores."""
        _, variances, supports = zip(*(part.moments(X) for part in self.parts), strict=True)
        return self.model.raw(X), np.concatenate(variances, axis=1), np.mean(supports, axis=0)

    def mean(self, X):
        """Return the means of the raw scores, shape (n_rows, n_outputs)."""
        return self.model.raw(X)

    def members(self, X, n):
        """Return raw scores of functions drawn from the posterior, shape (n, n_rows, n_outputs)."""
        return np.concatenate([part.members(X, n) for part in self.parts], axis=2)


def fit_posterior(model, X, y, weight, options):
    """Return the LeafPosterior of a model given rows.

    Parameters
    ----------
    model : LeafModel
        Fitted booster.
    X : array-like of shape (n_rows, n_features)
        Rows of positive weight, as the booster takes them.
    y : ndarray of shape (n_rows,)
        Targets, or positions of classes.
    weight : ndarray of shape (n_rows,)
        Weights.
    options : LeafOptions
        Options.

    Returns
    -------
    LeafPosterior

    Raises
    ------
    ValueError
        If an exact solver would need more than `max_leaves` columns or rows, or the evidence has no exact solver.
    """
    if model.parts is not None:
        return _fit_parts(model, X, y, weight, options)
    generator = np.random.default_rng(options.seed)
    trees = None
    if options.prior_trees:
        trees = RandomTrees.draw(options.prior_trees, model.matrix(X), model.is_ordered, generator)
    to_columns = LeafColumns(model, trees)
    columns, matrix = to_columns(X)
    if len(columns) == 0 or columns.shape[1] == 0:
        raise ValueError("There is nothing to fit: no rows, or no trees.")
    by_term = model.additive and options.prior_scale is None
    prior = make_prior(model, to_columns.sizes, options.prior, _leaf_weights(to_columns, columns, weight), by_term)
    used = used_columns(columns, to_columns.n_columns, prior)
    # In the order of their content, so that neither copies nor the order of rows matter.
    patterns, pattern = np.unique(columns, axis=0, return_inverse=True)
    pattern = pattern.ravel()
    solver = choose_solver(options, len(used), len(patterns), by_term)
    likelihood, base = _likelihood(model, y, weight, pattern, len(patterns))
    exact = "cholesky" if solver == "sample" else solver
    problem = EvidenceProblem(likelihood, base, patterns, prior, used, exact, options.noise_variance)
    tau = problem.best_scales() if options.prior_scale is None else np.full(prior.n_groups, options.prior_scale)
    design = make_design(prior, tau, used)
    Z, penalty, kind = design.whitened(patterns), prior.whitened(tau, design.scale), SOLVERS[solver]
    t = density = None
    if options.at_mode or not (model.classifier or options.noise_variance is not None):
        t, _, density, at_mode = find_mode(likelihood, base, Z, penalty, kind)
    if options.at_mode:
        solvers = [at_mode]
    else:
        rows = model.curvatures(X, weight)
        gram = kind.gram(Z)
        solvers = [kind(Z, np.bincount(pattern, row, len(patterns)), penalty, gram) for row in rows]
    if solver == "sample":
        for one in solvers:
            one.draw_members(options.n_members, generator)
    weights = np.bincount(columns.ravel(), np.repeat(weight, columns.shape[1]), to_columns.n_columns)
    boxes = box_variance = None
    if options.support:
        matrix = model.matrix(X) if matrix is None else matrix
        boxes = LeafBoxes.of(model, columns[:, : len(model.sizes)], matrix)
        box_variance = np.where(weights > 0, 1.0 / prior.precisions(tau), 0.0)
    return LeafPosterior(
        model, to_columns, design, solvers, t if options.at_mode else None, tau,
        None if model.classifier else problem.variance_at(density), weights, boxes, box_variance, solver, options.seed,
    )  # fmt: skip


def choose_solver(options, n_leaves, n_rows, by_term):
    """Return the name of the solver: the exact one of the smaller side if it is small enough, else "sample".

    Parameters
    ----------
    options : LeafOptions
        Options.
    n_leaves, n_rows : int
        Leaves in use, and rows that differ in their leaves.
    by_term : bool
        Whether there is one prior scale for each term, to be chosen.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the asked solver is exact and too large, or one is needed and both are.
    """
    limit = np.inf if options.max_leaves is None else options.max_leaves
    solver, sizes = options.solver, {"cholesky": n_leaves, "dual": n_rows}
    only_leaves = by_term or options.prior == "random_walk"
    if solver == "auto":
        solver = "cholesky" if only_leaves or n_leaves <= n_rows else "dual"
        if sizes[solver] > limit and not only_leaves and options.prior_scale is not None:
            solver = "sample"
    if solver in sizes and sizes[solver] > limit:
        what = "leaves in use" if solver == "cholesky" else "rows that differ in their leaves"
        gigabytes = DENSE_COPIES * 8.0 * sizes[solver] ** 2 / 1e9
        raise ValueError(
            f"solver={solver!r} needs time in proportion to n^3; got n={sizes[solver]} {what} > "
            f"max_leaves={options.max_leaves} (about {gigabytes:.3g} GB). Raise max_leaves, use fewer trees (n_trees), "
            "or solver='sample' with prior='sglb' or 'constant' and a number as prior_scale."
        )
    return solver


def _fit_parts(model, X, y, weight, options):
    """Return the posteriors of models of one score each, with seeds of their own, and one solver if that samples."""
    seeds = np.random.SeedSequence(options.seed).generate_state(len(model.parts), np.uint64)
    each = [replace(options, seed=int(seed)) for seed in seeds]
    found = [fit_posterior(part, X, y, weight, one) for part, one in zip(model.parts, each, strict=True)]
    solvers = {posterior.solver for posterior in found}
    if len(solvers) > 1 and "sample" in solvers:
        each = [replace(one, solver="sample") for one in each]
        found = [fit_posterior(part, X, y, weight, one) for part, one in zip(model.parts, each, strict=True)]
    return JointPosterior(model, found)


def _leaf_weights(to_columns, columns, weight):
    """Return the training weights of the model's leaves, and by the rows of the fit those that it does not know."""
    n_own = int(to_columns.model.sizes.sum())
    n_all = int(to_columns.sizes.sum())
    own = to_columns.model.weights
    if n_all == n_own and own is not None:
        return own
    leaves = columns[:, : len(to_columns.sizes)]
    totals = np.bincount(leaves.ravel(), np.repeat(weight, leaves.shape[1]), n_all)
    return totals if own is None else np.append(own, totals[n_own:])


def _likelihood(model, y, weight, pattern, n_patterns):
    """Return the likelihood by pattern and the score that its leaves add to; of several classes None."""
    if model.n_outputs > 1 or model.one_of_several:
        return None, 0.0
    total = np.bincount(pattern, weight, n_patterns)
    if model.classifier:
        return LogitLikelihood(total, np.bincount(pattern, weight * y, n_patterns)), float(model.base[0])
    residual = y - model.base[0]
    target = np.bincount(pattern, weight * residual, n_patterns)
    return SquaredLikelihood(total, target, float(weight @ residual**2)), 0.0
