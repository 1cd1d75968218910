"""What the regressor and the classifier share: fit as validate, run, store; predictions from the stored forest."""

import numbers
import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_is_fitted

from skboost._binning import MOST_PRIOR_CUTS, BinMapper
from skboost._compat import Interval, RealNotInt, StrOptions, check_parameters
from skboost._early_stopping import EarlyStopping
from skboost._losses import Loss
from skboost._parallel import cap_threads, effective_n_threads
from skboost._random import STREAM_VALIDATION, resolve_seed
from skboost._reporting import ProgressReporter
from skboost._sampling import row_hashes, split_copies
from skboost._uncertainty import Uncertainty, cycle_ends, cycle_member_schedule, member_schedule
from skboost._validation import (
    TrainingData,
    check_training_data,
    check_validation_data,
    check_X,
    resolve_interaction_cst,
    resolve_monotonic_cst,
    unchanged_on_failure,
)
from skboost.sglb._chain import Chain, Rows, TreeRules, held_out_variance, target_ranks
from skboost.sglb._cycle import check_cycle, check_step, resolve_cycle
from skboost.sglb._monitor import LossScore, Monitor, ValidationRows, run
from skboost.sglb._schedule import check_dynamics, n_drawn_features, resolve_dynamics, resolve_prior
from skboost.sglb._warm_start import (
    ChainRecord,
    check_same_chain,
    check_scores_known,
    rows_fingerprint,
    validation_fingerprint,
)

SYMMETRIC_DEPTH = 16
LOSSGUIDE_LEAVES = 31
MOST_OUTPUTS = 255
# A mean weight below this makes rows count for much less than rows.
LIGHT_ROWS = 0.1
# Members of the virtual ensemble of a constant schedule when no number is given.
N_MEMBERS = 10


@dataclass(frozen=True)
class FitTask:
    """Data of one fit, ready for a chain.

    Attributes
    ----------
    data : TrainingData
    loss : Loss
        Bound to the target.
    mapper : BinMapper
    rows : Rows
        Training rows without those held out.
    validation : tuple or None
        (codes by column, internal target, target, weight) of the rows that early stopping scores; None for `rows`.
    seed, n_threads : int
    held_out : bool
        Whether `validation` was held out of the training rows.
    validation_loss : Loss or None
        The loss that knows the targets of `validation` when these were given; None for `loss`.
    """

    data: TrainingData
    loss: Loss
    mapper: BinMapper
    rows: Rows
    validation: tuple | None
    seed: int
    n_threads: int
    held_out: bool = False
    validation_loss: Loss | None = None


class BaseSGLB(BaseEstimator):
    """Common part of the stochastic gradient Langevin boosting estimators."""

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        "n_estimators": [Interval(numbers.Integral, 1, None, closed="left")],
        "learning_rate": [Interval(numbers.Real, 1e-10, 1, closed="both")],
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
        "schedule": [StrOptions({"constant", "cyclical"})],
        "cycle_length": [Interval(numbers.Integral, 1, None, closed="left")],
        "gradient_scale_max": [Interval(numbers.Real, 0, 1e6, closed="right")],
        "gradient_scale_min": [Interval(numbers.Real, 1e-6, 1e6, closed="both")],
        "exploration_fraction": [Interval(numbers.Real, 0, 1, closed="both")],
        "bootstrap_fraction": [Interval(RealNotInt, 0, 1, closed="neither"), None],
        "schedule_form": [StrOptions({"clamp", "affine"})],
        "prior_split_rate": [Interval(numbers.Real, 0, 1, closed="both"), None],
        "n_prior_cuts": [Interval(numbers.Integral, 0, MOST_PRIOR_CUTS, closed="both"), None],
        "cut_margin": [Interval(numbers.Real, 0, None, closed="left"), None],
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

    def _make_loss(self, data, table):
        raise NotImplementedError

    def _number_target(self, y, name="y"):
        """Return (target of one column, None), or (numbers of the rows of a table of targets, this table)."""
        return y, None

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
        y : array-like of shape (n_samples,) or (n_samples, n_columns), or structured array of shape (n_samples,)
            Target. Which losses take several columns, and how times may be given, is said in the user guide.
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
        check_parameters(self)
        self._check_params_jointly()
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val go together: give both or neither.")
        if X_val is not None and not self.early_stopping:
            raise ValueError("X_val and y_val need early_stopping=True, got early_stopping=False.")
        if sample_weight_val is not None and X_val is None:
            raise ValueError("sample_weight_val needs X_val and y_val.")
        with unchanged_on_failure(self):
            state = self._run(X, y, sample_weight, X_val, y_val, sample_weight_val)
        vars(self).update(state)
        return self

    def _run(self, X, y, sample_weight, X_val, y_val, sample_weight_val):
        """Return the fitted attributes."""
        y, table = self._number_target(y)
        data = check_training_data(self, X, y, sample_weight)
        loss = self._make_loss(data, table)
        if table is not None:
            data = replace(data, classes=None)
        if loss.n_outputs > MOST_OUTPUTS:
            raise ValueError(f"At most {MOST_OUTPUTS} classes are supported, y has {loss.n_outputs}.")
        given = None
        if X_val is not None:
            y_val, table_val = self._number_target(y_val, "y_val")
            if (table is None) != (table_val is None) or (table is not None and table.shape[1] != table_val.shape[1]):
                raise ValueError("y_val must have the columns of y.")
            given = check_validation_data(self, X_val, y_val, sample_weight_val, data.classes), table_val
        return self._fit_state(data, loss, given)

    def _check_params_jointly(self):
        check_dynamics(self)
        resolve_prior(self)
        check_cycle(self)
        if self.early_stopping and self.averaging == "mean":
            raise ValueError(
                "averaging='mean' does not go with early_stopping=True, which scores the last state of the chain; use "
                "averaging='last' or early_stopping=False."
            )
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

    def _fit_state(self, data, loss, given):
        """Return the fitted attributes; self is only read, so that an interrupted fit leaves no half-made model."""
        warm = self.warm_start and hasattr(self, "_forest")
        if warm and self.n_estimators < self.n_iter_:
            raise ValueError(
                f"n_estimators={self.n_estimators} must be at least {self.n_iter_}, the iterations already fitted, "
                "when warm_start=True."
            )
        task = self._prepare(data, loss, given, warm)
        record = self._record_of(task, warm)
        if warm:
            check_same_chain(self._record, record)
        chain = Chain(
            task.rows, task.loss, record.base_score, record.rules, task.seed, task.n_threads, record.sigma,
            record.cycle, record.noise_scales,
        )  # fmt: skip
        monitor = self._monitor(chain, task, self.n_iter_ if warm else 0)
        if warm:
            self._resume(chain, monitor, task)
        monitor.reporter.start(n_rows=len(task.rows.y), n_features=data.n_features, n_threads=task.n_threads)
        run(chain, record.dynamics, self._last_iteration(), monitor)
        return self._collect(chain, monitor, task, record)

    def _prepare(self, data, loss, given, warm):
        """Return the FitTask: target and weights checked, columns in codes, rows held out."""
        n_threads = cap_threads(effective_n_threads(self.n_jobs), data.X.size)
        weight, leaf_weight = self._weights(data)
        loss.check_target(data.y, weight)
        loss = loss.bind(data.y, weight)
        prior = resolve_prior(self)
        mapper = BinMapper(self.max_bins, prior.n_cuts, prior.margin)
        mapper.fit(data.X, data.sample_weight, data.is_categorical, n_threads)
        codes_col, codes_row = mapper.transform(data.X, n_threads)
        draws = self.subsample < 1 or self.early_stopping or self.langevin or self.posterior_sampling
        draws = draws or self.bootstrap_fraction is not None or loss.needs_content or loss.fits_coins
        hashes = row_hashes(codes_row, data.n_features, n_threads) if draws else None
        target = loss.to_internal(data.y)
        rows = Rows(
            codes_col, codes_row, mapper.n_bins, mapper.is_categorical, target, weight, leaf_weight, hashes,
            mapper.prior_bins,
        )  # fmt: skip
        task = FitTask(data, loss, mapper, rows, None, self._resolve_seed(warm), n_threads)
        return self._split_validation(task, given) if self.early_stopping else task

    def _resolve_seed(self, warm):
        if warm and not isinstance(self.random_state, numbers.Integral):
            # An instance or None would give another seed with every call.
            return self._record.seed
        return resolve_seed(self.random_state)

    def _record_of(self, task, warm):
        """Return all that the chain is made from, as numbers."""
        rules = self._tree_rules(task.data, task.loss)
        cycle = resolve_cycle(self)
        if cycle is not None:
            check_step(cycle, rules, task.loss)
        dynamics = resolve_dynamics(self, task.rows.total_weight)
        if self.posterior_sampling:
            warn_of_light_rows(task.rows)
        noise_variance, measured = self._resolve_noise_variance(task, rules, dynamics, warm)
        return ChainRecord(
            loss=task.loss,
            base_score=task.loss.base_score(task.rows.y, task.rows.weight),
            classes=task.data.classes,
            max_bins=self.max_bins,
            tables=task.mapper.tables,
            category_maps=task.data.category_maps,
            rules=rules,
            dynamics=dynamics,
            cycle=cycle,
            noise_variance=noise_variance,
            noise_measured=measured,
            seed=task.seed,
            rows=rows_fingerprint(task.rows),
            validation=None if task.validation is None else self._validation_print(task),
            held_out=self.validation_fraction if task.held_out else None,
            scoring=(self.scoring,) if self.early_stopping else None,
        )

    @staticmethod
    def _validation_print(task):
        codes, internal, _, weight = task.validation
        return validation_fingerprint(codes, internal, weight, (task.validation_loss or task.loss).table)

    def _collect(self, chain, monitor, task, record):
        forest = chain.finish()
        n_iter = forest.n_trees
        if monitor.stopping is not None:
            n_iter = monitor.best_n_iter
            if n_iter < forest.n_trees:
                forest = forest.truncate(n_iter)
        coin_values = chain.coin_values
        note = "stopped early" if n_iter < self._last_iteration() else ""
        monitor.reporter.finish(n_iter, note)
        state = {
            "_forest": forest,
            "_coin_values": None if coin_values is None else coin_values[: forest.leaf_offset[-1]],
            "_mapper": task.mapper,
            "_loss": task.loss,
            "_record": record,
            "_mean_add": forest.mean_coefficients(_averaged_states(n_iter, record.cycle)),
            "_empty_variance": record.empty_variance,
            "n_iter_": n_iter,
            "n_outputs_": task.loss.n_targets,
            "train_score_": np.array(monitor.train_scores),
            "validation_score_": np.array(monitor.validation_scores),
            "noise_variance_": record.noise_variance,
            "diffusion_temperature_": record.dynamics.temperature,
            "shrink_factors_": forest.shrink_factors,
            "feature_importances_": forest.feature_importances(task.data.n_features),
        }
        if task.data.classes is not None:
            state["classes_"] = task.data.classes
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
        prior = resolve_prior(self)
        return TreeRules(
            grow_policy=self.grow_policy,
            learning_rate=float(self.learning_rate),
            max_depth=self.max_depth,
            max_leaf_nodes=leaves,
            min_samples_leaf=float(self.min_samples_leaf),
            l2_regularization=float(self.l2_regularization),
            n_features=n_drawn_features(self.max_features, data.n_features),
            subsample=float(self.subsample),
            monotone=monotone if monotone.any() else None,
            groups=table,
            newton=self.leaf_estimation == "newton" and not loss.constant_hessian,
            curvature=loss.leaf_curvature,
            prior_split_rate=prior.split_rate,
            spread_ties=prior.active,
        )

    def _resolve_noise_variance(self, task, rules, dynamics, warm):
        """Return (noise variance, whether it is measured)."""
        wanted = getattr(self, "noise_variance", "auto")
        if not (task.loss.needs_noise_variance and dynamics.noisy):
            if not isinstance(wanted, str):
                why = "noise off (langevin)" if task.loss.needs_noise_variance else f"loss={task.loss.name!r}"
                raise ValueError(
                    f"noise_variance={wanted!r} needs noise and a loss on the scale of y; it does not go with {why}."
                )
            return 1.0, False
        if not isinstance(wanted, str):
            return float(wanted), False
        if warm and self._record.noise_measured:
            return self._record.noise_variance, True
        found = held_out_variance(task.rows, task.loss, rules, task.seed, task.n_threads)
        return float(found[0]) if len(found) == 1 else found, True

    # ---- early stopping

    def _split_validation(self, task, given):
        """Return the task with the rows that early stopping scores, given or held out of the training rows."""
        if given is not None:
            given, table = given
            loss = task.loss if table is None else task.loss.with_targets(table)
            loss.check_domain(given.y, "y_val")
            codes = task.mapper.transform_columns(given.X, task.n_threads)
            validation = codes, loss.to_internal(given.y), given.y, given.sample_weight
            return replace(task, validation=validation, validation_loss=loss)
        if self.validation_fraction is None:
            return task
        data, rows = task.data, task.rows
        train, held = self._draw_validation(task)
        if not held.any():
            raise ValueError(
                f"early_stopping=True with validation_fraction={self.validation_fraction!r} leaves no row to validate "
                f"on ({len(rows.y)} rows); set early_stopping=False, validation_fraction=None or pass X_val and y_val."
            )
        total = np.ones(len(rows.y)) if data.sample_weight is None else data.sample_weight
        factor = 1.0 if rows.weight is None else rows.weight / total
        picked = held > 0
        codes = np.ascontiguousarray(rows.codes_col[:, picked])
        validation = codes, rows.y[picked], data.y[picked], _none_if_ones((held * factor)[picked])
        reduced = rows.take(train * factor)
        leaf_weight = None if rows.leaf_weight is None else train[train > 0]
        reduced = replace(reduced, weight=_none_if_ones(reduced.weight), leaf_weight=leaf_weight)
        return replace(task, rows=reduced, validation=validation, held_out=True)

    def _draw_validation(self, task):
        """Return the weights of the rows that are trained on and of those that are held out."""
        data, rows, fraction = task.data, task.rows, self.validation_fraction
        if isinstance(fraction, numbers.Integral) and fraction >= rows.total_weight:
            raise ValueError(
                f"early_stopping=True with validation_fraction={fraction} needs more rows, got {rows.total_weight:g}."
            )
        return split_copies(
            fraction if isinstance(fraction, numbers.Integral) else float(fraction),
            task.seed, STREAM_VALIDATION, rows.hashes, target_ranks(data.y), data.sample_weight,
            None if data.classes is None else data.y,
        )  # fmt: skip

    def _monitor(self, chain, task, first_iter):
        reporter = ProgressReporter(type(self).__name__, self._last_iteration(), self.verbose, first_iter=first_iter)
        period = self._scored_every()
        # Without validation rows the training rows decide when to stop, by the chosen score.
        target = task.data.y if self.early_stopping and task.validation is None else None
        score_of = partial(self._score_function, chain.base_score, task.data.classes, task.n_threads)
        train_score = score_of(task.loss, task.rows.y, target, task.rows.weight)
        if not self.early_stopping:
            return Monitor(reporter, train_score)
        stopping = EarlyStopping(self.n_iter_no_change, self.tol)
        if task.validation is None:
            return Monitor(reporter, train_score, stopping=stopping, period=period)
        codes, internal, target, weight = task.validation
        score = score_of(task.validation_loss or task.loss, internal, target, weight)
        rows = ValidationRows(codes, task.loss.n_outputs, task.n_threads)
        return Monitor(reporter, train_score, rows, score, stopping, period)

    def _scored_every(self):
        """Return the iterations between the models that early stopping scores: every one, or the ends of cycles."""
        return self.cycle_length if self.schedule == "cyclical" else 1

    def _last_iteration(self):
        """Return how many iterations are fitted unless it stops early; what follows the last scored model is not."""
        return self.n_estimators - (self.n_estimators % self._scored_every() if self.early_stopping else 0)

    def _score_function(self, base_score, classes, n_threads, loss, internal, target, weight):
        """Return the function raw scores -> score, higher is better; without a target it is minus the loss."""
        if target is None or (isinstance(self.scoring, str) and self.scoring == "loss"):
            return LossScore(loss, base_score, internal, weight, n_threads)
        scorer = check_scoring(self, scoring=self.scoring)
        y = loss.user_target(target) if classes is None else classes[target.astype(np.intp)]
        dummy = np.zeros((len(y), 1))
        kwargs = {} if weight is None else {"sample_weight": weight}

        def score(scores):
            return scorer(self._stage_model(loss, base_score + scores.T, classes), dummy, y, **kwargs)

        return score

    def _resume(self, chain, monitor, task):
        chain.resume(self._forest, task.rows.codes_col, task.n_threads, self._coin_values)
        if monitor.validation is not None:
            monitor.validation.resume(self._forest)
        if monitor.stopping is not None:
            check_scores_known(self, monitor)
            known = slice(self.n_iter_ // monitor.period + 1)
            monitor.resume(self.train_score_[known], self.validation_score_[known])

    # ---- prediction

    def _n_threads_predict(self, n_rows):
        return cap_threads(effective_n_threads(self.n_jobs), n_rows * self.n_iter_ // 4)

    def _source(self, X):
        check_is_fitted(self)
        X = check_X(self, X)
        return (X, self._mapper), self._n_threads_predict(X.shape[0])

    def _check_averaging(self):
        """Return `averaging`, a switch of predictions that may be set after the fit."""
        if self.averaging not in ("last", "mean"):
            raise ValueError(
                f"The 'averaging' parameter of {type(self).__name__} must be 'last' or 'mean', got {self.averaging!r}."
            )
        return self.averaging

    def _raw(self, X):
        """Raw scores of shape (n_samples, n_outputs) under the chosen averaging."""
        source, n_threads = self._source(X)
        if self._check_averaging() == "last":
            return self._forest.margins(source, n_threads=n_threads)
        return self._forest.margins(source, mul=np.ones(self.n_iter_), add=self._mean_add, n_threads=n_threads)

    def _staged_raw(self, X):
        (X, mapper), n_threads = self._source(X)
        if self._check_averaging() == "last":
            yield from self._forest.staged_margins((X, mapper), n_threads=n_threads)
            return
        codes = mapper.transform_columns(X, n_threads)
        if self._record.cycle is not None:
            yield from self._staged_cycle_mean(codes, self._record.cycle.length, n_threads)
            return
        # Prefix sums of the states up to both ends of the window; the second pass saves keeping half of the states.
        states, left_out = (self._forest.staged_margins(codes, n_threads=n_threads) for _ in range(2))
        total, before, n_before = 0.0, 0.0, 0
        for n_iter, state in enumerate(states, start=1):
            total = total + state
            window = max(1, n_iter // 2)
            while n_before < n_iter - window:
                before = before + next(left_out)
                n_before += 1
            yield (total - before) / window

    def _staged_cycle_mean(self, codes, cycle_length, n_threads):
        """Yield the mean over the ends of the complete cycles so far, each state itself before the first of them."""
        total = 0.0
        for n_iter, state in enumerate(self._forest.staged_margins(codes, n_threads=n_threads), start=1):
            n_cycles, rest = divmod(n_iter, cycle_length)
            if rest == 0:
                total = total + state
            yield total / n_cycles if n_cycles else state

    def _member_counts(self, n_members):
        """Return the iteration counts of the members; None means all ends of cycles, or ten of a constant schedule."""
        if self._record.cycle is not None:
            return cycle_member_schedule(self.n_iter_, self._record.cycle.length, n_members)
        return member_schedule(self.n_iter_, N_MEMBERS if n_members is None else n_members)

    def _member_raw(self, X, n_members):
        """Return (counts, raw scores of the members of shape (n_members, n_samples, n_outputs))."""
        check_is_fitted(self)
        counts = self._member_counts(n_members)
        source, n_threads = self._source(X)
        return counts, self._forest.margins(source, counts, n_threads=n_threads)

    def _member_support(self, X, n_members):
        """Return (counts, raw scores of the members, variance from leaves without training rows, support)."""
        check_is_fitted(self)
        counts = self._member_counts(n_members)
        source, n_threads = self._source(X)
        return counts, *self._forest.support(source, counts, self._empty_variance, n_threads=n_threads)

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
    def _as_uncertainty(parts, support, counts):
        return Uncertainty(parts.mean, parts.knowledge, parts.data, parts.total, support, counts)


def _averaged_states(n_iter, cycle):
    """Return the counts of the states that averaging="mean" averages, None for the second half of the chain."""
    if cycle is None:
        return None
    ends = cycle_ends(n_iter, cycle.length)
    return ends if len(ends) else np.array([n_iter])


def _none_if_ones(weight):
    return None if np.all(weight == 1) else weight


def warn_of_light_rows(rows):
    """Warn when sample weights that mean numbers of rows sum to far fewer rows than there are."""
    n_rows, total = len(rows.y), rows.total_weight
    if total < LIGHT_ROWS * n_rows:
        warnings.warn(
            f"The sample weights of {n_rows} rows sum to {total:g}. Posterior sampling takes them as numbers of rows, "
            "so the data count for little; multiply sample_weight so that its mean is about 1.",
            UserWarning,
            stacklevel=5,
        )


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
        return np.arange(self.raw.shape[1]) if self.classes is None else self.classes

    def predict(self, X):
        if self.classes is None:
            return (self.raw > 0).astype(np.intp)
        return self.classes[np.argmax(self.proba, axis=1)]

    def predict_proba(self, X):
        return self.proba

    def decision_function(self, X):
        return self.raw[:, 0] if self.raw.shape[1] == 1 else self.raw
