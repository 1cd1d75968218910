"""What the regressor and the classifier share: fit as validate, run, store; predictions from the stored forest."""

import numbers
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from skboost._binning import BinMapper
from skboost._compat import Interval, RealNotInt, StrOptions
from skboost._early_stopping import EarlyStopping
from skboost._parallel import cap_threads, effective_n_threads
from skboost._random import STREAM_VALIDATION, resolve_seed
from skboost._reporting import ProgressReporter
from skboost._sampling import row_hashes, split_copies
from skboost._uncertainty import Uncertainty, member_schedule
from skboost._validation import (
    check_training_data,
    check_validation_data,
    check_X,
    resolve_interaction_cst,
    resolve_monotonic_cst,
)
from skboost.sglb._chain import Chain, Rows, TreeRules, held_out_variance, target_ranks
from skboost.sglb._monitor import LossScore, Monitor, ValidationRows, run
from skboost.sglb._schedule import check_dynamics, n_drawn_features, resolve_dynamics
from skboost.sglb._warm_start import check_same_chain, check_scores_known

SYMMETRIC_DEPTH = 16
LOSSGUIDE_LEAVES = 31
MOST_OUTPUTS = 255
# Below this many rows times trees a single thread predicts faster than several.
PREDICT_GRAIN = 200_000


class BaseSGLB(BaseEstimator):
    """Common part of the stochastic gradient Langevin boosting estimators."""

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        "n_estimators": [Interval(numbers.Integral, 1, None, closed="left")],
        "learning_rate": [Interval(numbers.Real, 0, 1, closed="right")],
        "grow_policy": [StrOptions({"symmetric", "depthwise", "lossguide"})],
        "max_depth": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left"), None],
        "min_samples_leaf": [Interval(numbers.Real, 0, None, closed="neither")],
        "l2_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "max_bins": [Interval(numbers.Integral, 2, 255, closed="both")],
        "max_features": [
            Interval(RealNotInt, 0, 1, closed="right"),
            Interval(numbers.Integral, 1, None, closed="left"),
        ],
        "subsample": [Interval(numbers.Real, 0, 1, closed="right")],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "monotonic_cst": ["array-like", dict, None],
        "interaction_cst": [list, tuple, StrOptions({"pairwise", "no_interactions"}), None],
        "posterior_sampling": ["boolean"],
        "langevin": ["boolean", None],
        "diffusion_temperature": [Interval(numbers.Real, 0, None, closed="left"), None],
        "model_shrink_rate": [Interval(numbers.Real, 0, None, closed="left"), None],
        "model_shrink_mode": [StrOptions({"constant", "decreasing"})],
        "leaf_estimation": [StrOptions({"gradient", "newton"})],
        "averaging": [StrOptions({"last", "mean"})],
        "early_stopping": ["boolean"],
        "validation_fraction": [
            Interval(RealNotInt, 0, 1, closed="neither"),
            Interval(numbers.Integral, 1, None, closed="left"),
            None,
        ],
        "n_iter_no_change": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "scoring": [str, callable, None],
        "warm_start": ["boolean"],
        "n_jobs": [numbers.Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # ---- parts that differ between regressor and classifier

    def _make_loss(self, data):
        raise NotImplementedError

    def _weights(self, data):
        """Return (weight in the loss, weight that the leaf minimum counts or None when it is the same)."""
        return data.sample_weight, None

    def _stage_model(self, loss, raw, classes):
        """Return an object with the prediction methods that scorers call, for raw scores of shape (n, n_outputs)."""
        raise NotImplementedError

    # ---- fit

    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None, sample_weight_val=None):
        """Fit the chain.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows. NaN is a missing value; infinities fall in the end bins.
        y : array-like of shape (n_samples,)
            Target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, at least 0. A whole-number weight acts exactly as so many copies of the row; rows of weight 0 are
            dropped first.
        X_val : array-like of shape (n_val, n_features), default=None
            Rows for early stopping instead of a part of X. Needs ``early_stopping=True``.
        y_val : array-like of shape (n_val,), default=None
            Their target.
        sample_weight_val : array-like of shape (n_val,), default=None
            Their weights.

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of its range, two parameters contradict each other, or the data are not usable.
            Nothing is fitted then.
        """
        self._validate_params()
        self._check_params_jointly()
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val go together: give both or neither.")
        if X_val is not None and not self.early_stopping:
            raise ValueError("X_val and y_val need early_stopping=True, got early_stopping=False.")
        if sample_weight_val is not None and X_val is None:
            raise ValueError("sample_weight_val needs X_val and y_val.")
        before = vars(self).copy()
        try:
            state = self._run(X, y, sample_weight, X_val, y_val, sample_weight_val)
        except BaseException:
            # Validation has written the columns and categories already: a failed fit leaves what was there before.
            vars(self).clear()
            vars(self).update(before)
            raise
        vars(self).update(state)
        return self

    def _run(self, X, y, sample_weight, X_val, y_val, sample_weight_val):
        """Return the fitted attributes."""
        known_maps = vars(self).get("_category_maps")
        data = check_training_data(self, X, y, sample_weight)
        loss = self._make_loss(data)
        if loss.n_outputs > MOST_OUTPUTS:
            raise ValueError(f"At most {MOST_OUTPUTS} classes are supported, y has {loss.n_outputs}.")
        given = None
        if X_val is not None:
            given = check_validation_data(self, X_val, y_val, sample_weight_val, data.classes)
        return self._fit_state(data, loss, given, known_maps)

    def _check_params_jointly(self):
        check_dynamics(self)
        if self.early_stopping and self.scoring != "loss":
            check_scoring(self, scoring=self.scoring)
        if self.grow_policy == "symmetric":
            if self.max_depth is None or self.max_depth > SYMMETRIC_DEPTH:
                raise ValueError(
                    f"grow_policy='symmetric' needs max_depth between 1 and {SYMMETRIC_DEPTH}, got {self.max_depth!r}."
                )
            if self.max_leaf_nodes is not None:
                raise ValueError(
                    f"max_leaf_nodes={self.max_leaf_nodes!r} does not go with grow_policy='symmetric'; use max_depth, "
                    "or grow_policy='depthwise' or 'lossguide'."
                )

    def _fit_state(self, data, loss, given, known_maps):
        """Return the fitted attributes; self is only read, so that an interrupted fit leaves no half-made model."""
        warm = self.warm_start and hasattr(self, "_forest")
        if warm and self.n_estimators < self.n_iter_:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be at least {self.n_iter_}, the iterations already fitted, "
                "when warm_start=True."
            )
        n_threads = cap_threads(effective_n_threads(self.n_jobs), data.X.size)
        seed = self._seed if warm else resolve_seed(self.random_state)
        weight, leaf_weight = self._weights(data)
        loss.check_target(data.y, weight)
        loss = loss.bind(data.y, weight)
        if weight is not None and (dropped := weight == 0).any():
            raise ValueError(f"class_weight must be above zero for every class; it is 0 for {int(dropped.sum())} rows.")
        mapper = BinMapper(self.max_bins).fit(data.X, data.sample_weight, data.is_categorical, n_threads)
        codes_col, codes_row = mapper.transform(data.X, n_threads)
        draws = self.subsample < 1 or self.early_stopping or resolve_dynamics(self, 1.0).noisy
        hashes = row_hashes(codes_row, data.n_features, n_threads) if draws else None
        target = loss.to_internal(data.y)
        rows = Rows(codes_col, codes_row, mapper.n_bins, mapper.is_categorical, target, weight, leaf_weight, hashes)
        validation = None
        if self.early_stopping:
            rows, validation = self._split_validation(rows, given, loss, mapper, data, seed, n_threads)
        rules = self._tree_rules(data, loss)
        dynamics = resolve_dynamics(self, rows.total_weight)
        noise_variance = self._resolve_noise_variance(rows, loss, rules, dynamics, seed, n_threads)
        base_score = loss.base_score(rows.y, rows.weight)
        sigma = dynamics.sigma(self.learning_rate, noise_variance)
        chain = Chain(rows, loss, base_score, rules, seed, n_threads, sigma)
        monitor = self._monitor(chain, loss, rows, data, validation, n_threads, self.n_iter_ if warm else 0)
        if warm:
            check_same_chain(self, known_maps, data, loss, mapper, chain)
            self._resume(chain, monitor, rows, n_threads)
        monitor.reporter.start(n_rows=len(rows.y), n_features=data.n_features, n_threads=n_threads)
        run(chain, dynamics, self.n_estimators, monitor)
        return self._collect(chain, monitor, data, mapper, loss, seed, dynamics, noise_variance)

    def _collect(self, chain, monitor, data, mapper, loss, seed, dynamics, noise_variance):
        forest = chain.finish()
        n_iter = forest.n_trees
        if monitor.stopping is not None:
            n_iter = max(1, monitor.stopping.best_iteration)
            if n_iter < forest.n_trees:
                forest = forest.truncate(n_iter)
        note = "stopped early" if n_iter < self.n_estimators else ""
        monitor.reporter.finish(n_iter, note)
        state = {
            "_forest": forest,
            "_mapper": mapper,
            "_loss": loss,
            "_seed": seed,
            "_mean_add": forest.mean_coefficients(),
            "n_iter_": n_iter,
            "train_score_": np.array(monitor.train_scores),
            "validation_score_": np.array(monitor.validation_scores),
            "noise_variance_": noise_variance,
            "diffusion_temperature_": dynamics.temperature,
            "shrink_factors_": forest.shrink_factors,
            "feature_importances_": forest.feature_importances(data.n_features),
        }
        if data.classes is not None:
            state["classes_"] = data.classes
        return state

    def _tree_rules(self, data, loss):
        monotone = resolve_monotonic_cst(self, self.monotonic_cst, data.is_categorical)
        if monotone.any() and loss.n_outputs > 1:
            raise ValueError(
                f"monotonic_cst needs a loss with one output, loss={loss.name!r} has {loss.n_outputs} here."
            )
        groups = resolve_interaction_cst(self.interaction_cst, data.n_features)
        table = None
        if groups is not None:
            table = np.zeros((len(groups), data.n_features), dtype=np.uint8)
            for row, group in zip(table, groups, strict=True):
                row[list(group)] = 1
        leaves = self.max_leaf_nodes
        if leaves is None and self.grow_policy == "lossguide":
            leaves = LOSSGUIDE_LEAVES
        return TreeRules(
            grow_policy=self.grow_policy,
            learning_rate=self.learning_rate,
            max_depth=self.max_depth,
            max_leaf_nodes=leaves,
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2_regularization,
            n_features=n_drawn_features(self.max_features, data.n_features),
            subsample=self.subsample,
            monotone=monotone if monotone.any() else None,
            groups=table,
            newton=self.leaf_estimation == "newton" and not loss.constant_hessian,
            curvature=loss.curvature if loss.name == "poisson" else 1.0,
        )

    def _resolve_noise_variance(self, rows, loss, rules, dynamics, seed, n_threads):
        wanted = getattr(self, "noise_variance", "auto")
        if loss.name != "squared_error" or not dynamics.noisy:
            if not isinstance(wanted, str):
                why = f"loss={loss.name!r}" if loss.name != "squared_error" else "noise off (langevin)"
                raise ValueError(
                    f"noise_variance={wanted!r} needs loss='squared_error' and noise; it does not go with {why}."
                )
            return 1.0
        if not isinstance(wanted, str):
            return float(wanted)
        if self.warm_start and hasattr(self, "_forest"):
            return self.noise_variance_
        return held_out_variance(rows, loss, rules, seed, n_threads)

    # ---- early stopping

    def _split_validation(self, rows, given, loss, mapper, data, seed, n_threads):
        """Return the training rows and (codes, internal target, target, weight) to validate on, or None."""
        if given is not None:
            loss.check_target(given.y, given.sample_weight)
            codes = mapper.transform_columns(given.X, n_threads)
            return rows, (codes, loss.to_internal(given.y), given.y, given.sample_weight)
        if self.validation_fraction is None:
            return rows, None
        classes = data.y if data.classes is not None else None
        train, held = split_copies(
            self.validation_fraction, seed, STREAM_VALIDATION, rows.hashes, target_ranks(data.y), data.sample_weight,
            classes,
        )
        if not held.any():
            raise ValueError(
                f"early_stopping=True with validation_fraction={self.validation_fraction!r} leaves no row to validate "
                f"on ({len(rows.y)} rows); set early_stopping=False, validation_fraction=None or pass X_val and y_val."
            )
        total = np.ones(len(rows.y)) if data.sample_weight is None else data.sample_weight
        factor = 1.0 if rows.weight is None else rows.weight / total
        picked = held > 0
        held_weight = (held * factor)[picked]
        validation = (
            np.ascontiguousarray(rows.codes_col[:, picked]), rows.y[picked], data.y[picked],
            None if np.all(held_weight == 1) else held_weight,
        )  # fmt: skip
        kept = train > 0
        reduced = rows.take(train * factor)
        if rows.leaf_weight is not None:
            reduced = Rows(**{**vars(reduced), "leaf_weight": train[kept]})
        if np.all(reduced.weight == 1):
            reduced = Rows(**{**vars(reduced), "weight": None})
        return reduced, validation

    def _monitor(self, chain, loss, rows, data, validation, n_threads, first_iter):
        reporter = ProgressReporter(type(self).__name__, self.n_estimators, self.verbose, first_iter=first_iter)
        # Without validation rows the training rows decide when to stop, by the chosen score.
        target = data.y if self.early_stopping and validation is None else None
        score_of = partial(self._score_function, loss, chain.base_score, data.classes, n_threads)
        train_score = score_of(rows.y, target, rows.weight)
        if not self.early_stopping:
            return Monitor(reporter, train_score)
        stopping = EarlyStopping(self.n_iter_no_change, self.tol)
        if validation is None:
            return Monitor(reporter, train_score, stopping=stopping)
        codes, internal, target, weight = validation
        score = score_of(internal, target, weight)
        return Monitor(reporter, train_score, ValidationRows(codes, loss.n_outputs, n_threads), score, stopping)

    def _score_function(self, loss, base_score, classes, n_threads, internal, target, weight):
        """Return the function raw scores -> score, higher is better; without a target it is minus the loss."""
        if target is None or (isinstance(self.scoring, str) and self.scoring == "loss"):
            return LossScore(loss, base_score, internal, weight, n_threads)
        scorer = check_scoring(self, scoring=self.scoring)
        y = target if classes is None else classes[target.astype(np.intp)]
        dummy = np.zeros((len(y), 1))
        kwargs = {} if weight is None else {"sample_weight": weight}

        def score(scores):
            return scorer(self._stage_model(loss, base_score + scores.T, classes), dummy, y, **kwargs)

        return score

    def _resume(self, chain, monitor, rows, n_threads):
        chain.resume(self._forest, rows.codes_col, n_threads)
        if monitor.validation is not None:
            monitor.validation.resume(self._forest)
        if monitor.stopping is not None:
            check_scores_known(self, monitor.validation)
            known = slice(self.n_iter_ + 1)
            monitor.resume(self.train_score_[known], self.validation_score_[known])

    # ---- prediction

    def _n_threads_predict(self, n_rows):
        return cap_threads(effective_n_threads(self.n_jobs), n_rows * self.n_iter_ // 4)

    def _source(self, X):
        check_is_fitted(self)
        X = check_X(self, X)
        return (X, self._mapper), self._n_threads_predict(X.shape[0])

    def _raw(self, X):
        """Raw scores of shape (n_samples, n_outputs) under the chosen averaging."""
        source, n_threads = self._source(X)
        return self._raw_state(source, self.n_iter_, n_threads)

    def _raw_state(self, source, n_iter, n_threads):
        """Raw scores of the model stopped after n_iter iterations."""
        if self.averaging == "last":
            return self._forest.margins(source, [n_iter], n_threads=n_threads)[0]
        add = self._mean_add
        if n_iter != self.n_iter_:
            add = self._forest.mean_coefficients(np.arange(n_iter - max(1, n_iter // 2) + 1, n_iter + 1))
        return self._forest.margins(source, mul=np.ones(self.n_iter_), add=add, n_threads=n_threads)

    def _staged_raw(self, X):
        source, n_threads = self._source(X)
        if self.averaging == "last":
            yield from self._forest.staged_margins(source, n_threads=n_threads)
            return
        for n_iter in range(1, self.n_iter_ + 1):
            yield self._raw_state(source, n_iter, n_threads)

    def _member_raw(self, X, n_members):
        """Return (counts, raw scores of the members of shape (n_members, n_samples, n_outputs))."""
        check_is_fitted(self)
        counts = member_schedule(self.n_iter_, n_members)
        source, n_threads = self._source(X)
        return counts, self._forest.margins(source, counts, n_threads=n_threads)

    def apply(self, X):
        """Return the leaf that each row falls into, for every iteration.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, `n_iter_`)
            Leaf numbers inside each tree, int32.
        """
        source, n_threads = self._source(X)
        return self._forest.apply(source, n_threads=n_threads)

    @staticmethod
    def _as_uncertainty(parts, counts):
        return Uncertainty(parts.mean, parts.knowledge, parts.data, parts.total, None, counts)


class StageRegressor(RegressorMixin, BaseEstimator):
    """Predictions of one stage for a scorer; what it is asked to predict is known already."""

    def __init__(self, prediction=None):
        self.prediction = prediction

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return self.prediction


class StageClassifier(ClassifierMixin, BaseEstimator):
    """Probabilities of one stage for a scorer."""

    def __init__(self, proba=None, raw=None, classes=None):
        self.proba, self.raw, self.classes = proba, raw, classes

    def __sklearn_is_fitted__(self):
        return True

    @property
    def classes_(self):
        return self.classes

    def predict(self, X):
        return self.classes[np.argmax(self.proba, axis=1)]

    def predict_proba(self, X):
        return self.proba

    def decision_function(self, X):
        return self.raw[:, 0] if self.raw.shape[1] == 1 else self.raw

