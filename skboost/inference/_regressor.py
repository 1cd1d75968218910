"""The public regressor: parameters, docstrings; a fit validates, runs a chain, finds its limit, stores."""

import numbers
import warnings

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skboost._binning import BinMapper
from skboost._compat import Interval, RealNotInt, StrOptions, check_parameters
from skboost._losses import SquaredError, weighted_mean
from skboost._parallel import cap_threads, effective_n_threads
from skboost._random import STREAM_CALIBRATION, resolve_seed
from skboost._reporting import ProgressReporter
from skboost._sampling import copy_numbers, row_hashes, split_copies
from skboost._validation import check_training_data, check_X, unchanged_on_failure
from skboost.inference._tree_chain import MOST_LEAVES, ChainRows, ChainRules, run_chain
from skboost.inference._tree_kernel import TreeKernel
from skboost.inference._tree_limit import (
    AUTO_EXACT_ROWS,
    DEFAULT_LANDMARKS,
    KINDS,
    MOST_EXACT_ROWS,
    TreeLimit,
    half_widths,
    residual_variance,
)

# Defaults of the two methods.
N_SLOTS = 4
LEARNING_RATE = 3.0
# Below the first share of the mean in the next round traces would be rounding; larger intercepts have no square.
LEAST_KEPT = 1e-3
LARGEST_INTERCEPT = 1e150
# Copies of rows that whole-number weights may stand for.
MOST_ROWS = 2**26
# Distance of the trees from their limit, in standard errors, above which bands are said to be unreliable.
LARGE_GAP = 0.1
# Rows whose leaves in all trees are in memory together.
APPLY_ROWS = 8192


class BoulevardRegressor(RegressorMixin, BaseEstimator):
    """Gradient boosting whose predictions have standard errors.

    Boulevard boosting averages its trees instead of adding them up. With many trees the average tends to a ridge
    regression whose kernel the trees define: linear in the labels, so that its variance is known, and with it intervals
    for the mean, for new labels and for the same model on another sample. Squared error only.

    Parameters
    ----------
    method : {"dropout", "parallel"}, default="dropout"
        "dropout": each tree is fitted to what the mean of the earlier ones leaves, of which each is left out with the
        probability `dropout`. "parallel": `n_slots` means side by side, each fitted to what the others leave.
    n_estimators : int, default=500
        Rounds; with "parallel" a round grows `n_slots` trees. The distance from the limit falls like one over the root
        of it, see `limit_gap_`.
    learning_rate : float or None, default=None
        Weight lam of the mean in the next round, above 0 and at most 5. A larger one retains more of the signal and
        needs more rounds. None: 3 for "dropout"; "parallel" has 1. Times ``1 - dropout`` it must be at least 0.001.
    dropout : float, default=0.0
        Probability that a tree is left out of a round, below 1; must be 0 for "parallel".
    n_slots : int or None, default=None
        Slots of "parallel", at least 2; None: 4. Must be None for "dropout".
    structure : {"random", "honest", "greedy"}, default="random"
        Where splits come from. "random": from random functions of X, no label involved, as the theory wants; every
        feature is split alike. "honest": splits search one half of the rows, leaf values are means of the other half.
        "greedy": both from the same rows; standard errors are then lower bounds, and asking for them warns.
    subsample : float, default=0.8
        Share of the rows drawn for each tree.
    max_leaf_nodes : int or None, default=128
        Leaves of a tree, at most 65536; None: no limit.
    max_depth : int or None, default=None
        Depth of a tree; None: no limit.
    min_samples_leaf : int, default=5
        Rows, of those that choose the splits, in every leaf.
    l2_regularization : float, default=0.0
        Added to the number of rows in the denominator of leaf values.
    max_bins : int, default=255
        Bins of a feature; missing values have one more.
    categorical_features : array-like or "from_dtype" or None, default="from_dtype"
        Categorical columns: a mask, positions or names; "from_dtype": the columns of a categorical type of a frame.
    intercept : float or "mean", default="mean"
        What the trees start from. A number, at most 1e150 in size, is taken as known before the labels.
    noise_variance : float, "auto" or "held_out", default="auto"
        Variance of a label. "auto": the residual sum of squares over its degrees of freedom, ``n - 2 df1 + df2``.
        "held_out": the mean squared error on the rows held out, which contains the errors of the fit.
    design_adjustment : bool, default=True
        Whether standard errors count the signal that varies within leaves as noise, see Notes.
    calibration_fraction : float, int or None, default=None
        Share of the rows, or their number, that no tree sees, for intervals of kind "calibrated".
    solver : {"auto", "exact", "cg", "nystrom"}, default="auto"
        How the kernel system of n rows and T trees is solved. "exact": the inverse, ``n^3`` multiplications at fit and
        ``16 n^2`` bytes, refused above 16384 rows. "cg": conjugate gradients, exact as well and with ``n T`` bytes,
        about ``20 n T`` additions for each prediction's error. "nystrom": a kernel of `n_landmarks` rows, approximate.
        "auto": "exact" up to 2048 rows, "cg" above.
    n_landmarks : int or None, default=None
        Landmarks of "nystrom"; None: 512. Must be None for other solvers.
    n_jobs : int or None, default=None
        Threads, no influence on the result. None: as many as OpenMP would take.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws.
    verbose : int, default=0
        1 prints the start and the end of a fit, 2 also rounds in between.

    Attributes
    ----------
    intercept_ : float
        What the trees start from.
    noise_variance_ : float
        Variance of a label.
    estimate_variance_ : float
        Variance of what leaves average: `noise_variance_`, with `design_adjustment` more.
    degrees_of_freedom_ : tuple of float
        Traces df1 of the hat matrix P and df2 of ``P P'``; with solver="cg" estimates from 16 random vectors.
    limit_gap_ : float
        Root mean square distance of the fitted values from their limit, in standard errors. Small if `n_estimators` is
        large enough; not so with "honest" and "greedy" structures, which depend on the labels.
    n_iter_ : int
        Rounds.
    solver_ : {"exact", "cg", "nystrom"}
        Solver in use.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns; only when all are strings.

    See Also
    --------
    VirtualEnsembleUncertainty : Uncertainty of any booster, and conformal intervals.
    LeafLaplaceUncertainty : Posterior over the leaf values of a fitted booster.

    Notes
    -----
    With K the mean over the trees of ``1 / (n_l + kappa)`` where two rows share a leaf of n_l training rows,
    ``kappa = l2_regularization / (share of the rows in leaf values)``, predictions tend to
    ``intercept + s k(x)' (c I + K)^-1 (y - intercept)`` with ``c = 1 / (lam q)``, ``s = (1 + lam q) / (lam q)``,
    ``q = 1 - dropout`` for "dropout", and ``c = 1 / (k - 1)``, ``s = k / (k - 1)`` for k slots. The standard error is
    the root of `estimate_variance_` times the length of the vector of weights of the labels.

    What intervals assume: labels are a function of X plus independent noise of one variance (normal noise for kind
    "prediction"); splits know no label; there are enough rounds. Confidence intervals are pointwise and cover the mean
    of the fit, which differs from the function by the smoothing bias: a direction of eigenvalue e of K is shrunk by
    ``(1 + lam q) e / (1 + lam q e)``. More leaves, smaller ones, and a larger learning rate reduce it.

    At the limit the trees still see the share ``1 / s`` of what the limit removes from the labels. Where that signal
    varies within a leaf, rows that happen to be there move its mean as noise does: with the rows given a bias, over new
    rows a variance. `design_adjustment` adds its mean within leaves, less what noise alone would show, to the noise of
    standard errors, but not to the noise of a new label.

    References
    ----------
    .. [1] Y. Zhou and G. Hooker, "Boulevard: Regularized Stochastic Gradient Boosted Trees and Their Limiting
       Distribution", Journal of Machine Learning Research 23(183), 2022.
    .. [2] H. Fang, K. Tan and G. Hooker, "Statistical Inference for Gradient Boosting Regression", NeurIPS 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import BoulevardRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 1))
    >>> y = np.sin(6 * X[:, 0]) + rng.normal(scale=0.2, size=300)
    >>> model = BoulevardRegressor(n_estimators=200, calibration_fraction=0.3, random_state=0).fit(X, y)
    >>> model.predict_interval([[0.5]]).shape
    (1, 2)
    >>> low, high = model.predict_interval(X, alpha=0.1, kind="calibrated").T
    >>> bool(0.8 < np.mean((low <= y) & (y <= high)) < 1.0)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        "method": [StrOptions({"dropout", "parallel"})],
        "n_estimators": [Interval(numbers.Integral, 1, None, closed="left")],
        "learning_rate": [Interval(numbers.Real, 0, 5, closed="right"), None],
        "dropout": [Interval(numbers.Real, 0, 1, closed="left")],
        "n_slots": [Interval(numbers.Integral, 2, None, closed="left"), None],
        "structure": [StrOptions({"greedy", "honest", "random"})],
        "subsample": [Interval(numbers.Real, 0, 1, closed="right")],
        "max_leaf_nodes": [Interval(numbers.Integral, 2, MOST_LEAVES, closed="both"), None],
        "max_depth": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "min_samples_leaf": [Interval(numbers.Integral, 1, None, closed="left")],
        "l2_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "max_bins": [Interval(numbers.Integral, 2, 255, closed="both")],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "intercept": [Interval(numbers.Real, None, None, closed="neither"), StrOptions({"mean"})],
        "noise_variance": [Interval(numbers.Real, 0, None, closed="neither"), StrOptions({"auto", "held_out"})],
        "design_adjustment": ["boolean"],
        "calibration_fraction": [
            Interval(RealNotInt, 0, 1, closed="neither"),
            Interval(numbers.Integral, 1, None, closed="left"),
            None,
        ],
        "solver": [StrOptions({"auto", "exact", "cg", "nystrom"})],
        "n_landmarks": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "n_jobs": [numbers.Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        method="dropout",
        n_estimators=500,
        learning_rate=None,
        dropout=0.0,
        n_slots=None,
        structure="random",
        subsample=0.8,
        max_leaf_nodes=128,
        max_depth=None,
        min_samples_leaf=5,
        l2_regularization=0.0,
        max_bins=255,
        categorical_features="from_dtype",
        intercept="mean",
        noise_variance="auto",
        design_adjustment=True,
        calibration_fraction=None,
        solver="auto",
        n_landmarks=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.method = method
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.n_slots = n_slots
        self.structure = structure
        self.subsample = subsample
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.intercept = intercept
        self.noise_variance = noise_variance
        self.design_adjustment = design_adjustment
        self.calibration_fraction = calibration_fraction
        self.solver = solver
        self.n_landmarks = n_landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # ---- fit ---------------------------------------------------------------------------------------------------------

    def fit(self, X, y, sample_weight=None):
        """Fit the trees, and find the noise variance and the degrees of freedom.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows. NaN is a missing value; infinities fall in the end bins.
        y : array-like of shape (n_samples,)
            Target.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers, at least 0: a row of weight w stands for w independent observations of the same values. There
            is no theory for other weights, which are refused.

        Returns
        -------
        BoulevardRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of its range, two parameters contradict each other, the data are not usable, or no
            degrees of freedom are left for the noise. Nothing is fitted then.
        """
        check_parameters(self)
        self._check_params_jointly()
        with unchanged_on_failure(self):
            state = self._run(X, y, sample_weight)
        vars(self).update(state)
        return self

    def _check_params_jointly(self):
        if self.method == "parallel":
            if self.learning_rate not in (None, 1):
                raise ValueError(f"method='parallel' needs learning_rate=1, got learning_rate={self.learning_rate!r}.")
            if self.dropout:
                raise ValueError(f"method='parallel' needs dropout=0, got dropout={self.dropout!r}.")
        elif self.n_slots is not None:
            raise ValueError(f"n_slots={self.n_slots} needs method='parallel', got method={self.method!r}.")
        if not isinstance(self.intercept, str) and abs(self.intercept) > LARGEST_INTERCEPT:
            raise ValueError(f"intercept must be at most {LARGEST_INTERCEPT:g} in size, got {self.intercept!r}.")
        kept = (self.learning_rate or LEARNING_RATE) * (1.0 - self.dropout)
        if kept < LEAST_KEPT:
            raise ValueError(
                f"learning_rate={self.learning_rate!r} times 1 - dropout, dropout={self.dropout!r}, must be at least "
                f"{LEAST_KEPT:g}."
            )
        if self.noise_variance == "held_out" and self.calibration_fraction is None:
            raise ValueError("noise_variance='held_out' needs calibration_fraction, got calibration_fraction=None.")
        if self.n_landmarks is not None and self.solver != "nystrom":
            raise ValueError(f"n_landmarks={self.n_landmarks} needs solver='nystrom', got solver={self.solver!r}.")

    def _make_rules(self):
        parallel = self.method == "parallel"
        return ChainRules(
            method=self.method, structure=self.structure, n_rounds=self.n_estimators,
            n_slots=(self.n_slots or N_SLOTS) if parallel else 1,
            learning_rate=1.0 if parallel else float(self.learning_rate or LEARNING_RATE),
            dropout=float(self.dropout), subsample=float(self.subsample), max_leaf_nodes=self.max_leaf_nodes,
            max_depth=self.max_depth, min_samples_leaf=int(self.min_samples_leaf),
            l2_regularization=float(self.l2_regularization),
        )  # fmt: skip

    def _run(self, X, y, sample_weight):
        """Return the fitted attributes."""
        data = check_training_data(self, X, y, sample_weight)
        copies = _whole_copies(data.sample_weight)
        SquaredError().check_target(data.y, copies)
        n_threads = cap_threads(effective_n_threads(self.n_jobs), data.X.size)
        seed = resolve_seed(self.random_state)
        held, order = self._held_out(data, copies, seed, n_threads)
        train = np.ones(len(data.y), dtype=np.int64) if copies is None else copies
        if held is not None:
            train = train - held
        kept = train > 0
        mapper = BinMapper(self.max_bins)
        mapper.fit(data.X[kept], train[kept].astype(np.float64), data.is_categorical, n_threads)
        rows = canonical_rows(mapper, data.X[kept], data.y[kept], train[kept], n_threads)
        self._check_size(rows.n_rows)
        rules = self._make_rules()
        intercept = float(weighted_mean(rows.y)) if self.intercept == "mean" else float(self.intercept)
        reporter = ProgressReporter(type(self).__name__, self.n_estimators, self.verbose)
        reporter.start(n_rows=rows.n_rows, n_features=data.n_features, n_threads=n_threads)
        result = run_chain(rows, rules, intercept, seed, n_threads, reporter)
        state = {"_forest": result.forest, "_mapper": mapper, "n_iter_": self.n_estimators, "intercept_": intercept}
        limit = self._make_limit(result, rules, seed)
        held_rows = None if held is None else _repeated(data, held, order)
        state |= self._noise(rows, result, limit, rules, mapper, held_rows, n_threads)
        reporter.finish()
        return {**state, "_limit": limit, "_rules": rules, "solver_": limit.solver}

    def _held_out(self, data, copies, seed, n_threads):
        """Return how many copies of each row are held out, int64, and the rows by content; (None, None) for none."""
        if self.calibration_fraction is None:
            return None, None
        n_copies = len(data.y) if copies is None else int(copies.sum())
        if isinstance(self.calibration_fraction, numbers.Integral) and self.calibration_fraction >= n_copies:
            raise ValueError(
                f"calibration_fraction={self.calibration_fraction} holds out all rows; it must be less than "
                f"n_samples={n_copies}."
            )
        weight = None if copies is None else copies.astype(np.float64)
        # The final bins must not know the rows held out; these only tell rows apart.
        mapper = BinMapper(self.max_bins).fit(data.X, weight, data.is_categorical, n_threads)
        hashes = row_hashes(mapper.transform(data.X, n_threads)[1], data.n_features, n_threads)
        ranks = np.unique(data.y, return_inverse=True)[1]
        held = split_copies(self.calibration_fraction, seed, STREAM_CALIBRATION, hashes, ranks, weight)[1]
        if not held.any():
            raise ValueError(f"calibration_fraction={self.calibration_fraction!r} needs more rows than n_samples=1.")
        order = np.argsort(copy_numbers(hashes, ranks)[0], kind="stable")
        return np.rint(held).astype(np.int64), order

    def _check_size(self, n_rows):
        if self.solver == "exact" and n_rows > MOST_EXACT_ROWS:
            raise ValueError(
                f"solver='exact' would need two matrices of {8 * n_rows**2 / 2**30:.1f} GB each for {n_rows} rows, "
                f"more than the {MOST_EXACT_ROWS} that it takes; use solver='cg' or 'nystrom'."
            )

    def _make_limit(self, result, rules, seed):
        forest = result.forest
        # Products cap their threads by their own work.
        n_threads = effective_n_threads(self.n_jobs)
        kernel = TreeKernel.of(result.leaves, forest.leaf_weight, forest.leaf_offset, rules.shrinkage, n_threads)
        solver = self.solver
        if solver == "auto":
            solver = "exact" if kernel.n_rows <= AUTO_EXACT_ROWS else "cg"
        n_landmarks = min(self.n_landmarks or DEFAULT_LANDMARKS, kernel.n_rows)
        return TreeLimit(kernel, *rules.limit, self.intercept == "mean", solver, n_landmarks, seed)

    def _noise(self, rows, result, limit, rules, mapper, held, n_threads):
        """Return noise variance, degrees of freedom, distance from the limit, and the ratios of held-out rows."""
        df1, df2 = limit.degrees_of_freedom()
        if held is not None:
            source = (held[0], mapper)
            residual = np.abs(held[1] - _raw(result.forest, rules, source, n_threads))
            norms = _squared_norms(limit, result.forest, source, n_threads)
        base = float(result.forest.base_score[0])
        target, fit = rows.y - base, result.fitted - base
        if self.noise_variance == "auto":
            variance = residual_variance(rows.y, result.fitted, (df1, df2))
        elif self.noise_variance == "held_out":
            variance = float(np.mean(residual**2))
        else:
            variance = float(self.noise_variance)
        estimate = limit.estimate_variance(target - fit / limit.s, variance) if self.design_adjustment else variance
        # The mean squared standard error of the fitted values is this variance times df2 / n.
        gap, typical = fit - limit.fitted(target), estimate * df2
        state = {
            "noise_variance_": variance,
            "estimate_variance_": estimate,
            "degrees_of_freedom_": (df1, df2),
            "limit_gap_": float(np.sqrt(np.sum(gap**2) / typical)) if typical > 0 else 0.0,
            "_ratios": None,
        }
        if held is not None:
            scale = np.sqrt(variance + estimate * norms)
            state["_ratios"] = np.sort(np.divide(residual, scale, out=np.zeros(len(scale)), where=residual > 0))
        return state

    # ---- predictions -------------------------------------------------------------------------------------------------

    def _source(self, X):
        """Return the rows as a forest takes them, and the number of threads."""
        check_is_fitted(self)
        X = check_X(self, X)
        return (X, self._mapper), cap_threads(effective_n_threads(self.n_jobs), X.size)

    def predict(self, X):
        """Predict the mean of the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions, in units of the target.
        """
        source, n_threads = self._source(X)
        return _raw(self._forest, self._rules, source, n_threads)

    def standard_errors(self, X):
        """Return the standard errors of the predictions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Standard deviations, over new labels of the training rows, of the limit's predictions, in units of the
            target.

        Warns
        -----
        UserWarning
            If they are lower bounds (structure="greedy"), or the trees are too few for their limit.
        """
        source, n_threads = self._source(X)
        return np.sqrt(self._variance(source, n_threads))

    def predict_interval(self, X, alpha=0.05, kind="confidence"):
        """Return intervals of nominal coverage ``1 - alpha``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        alpha : float, default=0.05
            Allowed share of misses, between 0 and 1 exclusive.
        kind : {"confidence", "prediction", "reproduction", "calibrated"}, default="confidence"
            What the interval is for. "confidence": the mean of the predictions over new labels, which is the true mean
            but for the smoothing bias. "prediction": a new label with normal noise. "reproduction": the prediction of
            the same procedure on a new sample. "calibrated": a new label whatever the noise, the prediction interval
            widened or narrowed until it covers held-out rows; needs `calibration_fraction`.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper ends, in units of the target.

        Raises
        ------
        ValueError
            If `alpha` or `kind` is out of its range, or, with "calibrated", if no or too few rows were held out.

        Warns
        -----
        UserWarning
            As :meth:`standard_errors`.
        """
        source, n_threads = self._source(X)
        alpha = _check_alpha(alpha)
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, got {kind!r}.")
        if kind == "calibrated" and self._ratios is None:
            raise ValueError("kind='calibrated' needs a fit with calibration_fraction, got calibration_fraction=None.")
        half = half_widths(kind, alpha, self.noise_variance_, self._variance(source, n_threads), self._ratios)
        mean = _raw(self._forest, self._rules, source, n_threads)
        return np.stack([mean - half, mean + half], axis=1)

    def _variance(self, source, n_threads):
        """Return the variances of the predictions, after the warnings that go with them."""
        if self._rules.structure == "greedy":
            warnings.warn(
                "With structure='greedy' the labels chose the leaves that average them: standard errors are lower "
                "bounds. Use structure='honest' or 'random'.",
                UserWarning,
                stacklevel=3,
            )
        elif self._rules.structure == "random" and self.limit_gap_ > LARGE_GAP:
            warnings.warn(
                f"The predictions are {self.limit_gap_:.2g} standard errors from their limit on average: increase "
                f"n_estimators={self.n_iter_}.",
                UserWarning,
                stacklevel=3,
            )
        return self.estimate_variance_ * _squared_norms(self._limit, self._forest, source, n_threads)


def _raw(forest, rules, source, n_threads):
    """Return the predictions of a forest."""
    add = np.full(forest.n_trees, rules.tree_weight)
    return forest.margins(source, add=add, n_threads=n_threads)[:, 0]


def _squared_norms(limit, forest, source, n_threads):
    """Return the squared norms of the weights of the labels, the leaves of a block of rows at a time."""
    X, mapper = source
    out = np.empty(len(X))
    for start in range(0, len(X), APPLY_ROWS):
        rows = slice(start, start + APPLY_ROWS)
        out[rows] = limit.squared_norms(forest.apply((X[rows], mapper), n_threads=n_threads))
    return out


# ---- rows ------------------------------------------------------------------------------------------------------------


def _whole_copies(sample_weight):
    """Return whole-number weights as int64, None for ones."""
    if sample_weight is None:
        return None
    if not np.all(sample_weight == np.floor(sample_weight)) or sample_weight.sum() > MOST_ROWS:
        raise ValueError(
            "sample_weight must hold whole numbers, each the number of independent observations that a row stands for, "
            f"of a sum of at most {MOST_ROWS}; the theory has no place for other weights."
        )
    return sample_weight.astype(np.int64)


def canonical_rows(mapper, X, y, copies, n_threads):
    """Return the copies of the rows, sorted by content, so that nothing depends on the order of the user's rows."""
    codes_col, codes_row = mapper.transform(X, n_threads)
    hashes = row_hashes(codes_row, X.shape[1], n_threads)
    ranks = np.unique(y, return_inverse=True)[1]
    keys = copy_numbers(hashes, ranks)[0]
    order = np.argsort(keys, kind="stable")
    order = np.repeat(order, copies[order])
    keys = keys[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    first = np.arange(len(keys)) - np.repeat(starts, np.diff(np.r_[starts, len(keys)]))
    return ChainRows(
        np.ascontiguousarray(codes_col[:, order]), np.ascontiguousarray(codes_row[order]), mapper.n_bins,
        mapper.is_categorical, y[order], keys, first,
    )  # fmt: skip


def _repeated(data, held, order):
    """Return X and y of the copies held out, in an order by content."""
    part = np.repeat(order, held[order])
    return data.X[part], data.y[part]


def _check_alpha(alpha):
    if isinstance(alpha, (bool, np.bool_)) or not isinstance(alpha, numbers.Real) or not 0 < alpha < 1:
        raise ValueError(f"alpha must be a float in the range (0, 1), got {alpha!r}.")
    return float(alpha)
