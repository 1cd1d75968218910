"""Boulevard training of the additive regressor, and the intervals and tests that come with it."""

import inspect
import math
import numbers
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from sklearn.utils import Bunch, check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skboost import _uncertainty
from skboost._compat import Interval, StrOptions
from skboost._parallel import cap_threads, effective_n_threads
from skboost._random import resolve_seed
from skboost._sampling import canonical_rows, cell_hashes
from skboost._validation import check_X
from skboost.ebm._cells import CellMapper
from skboost.ebm._finishing import FittedTerms
from skboost.ebm._interactions import pair_strengths, rank_pairs, resolve_terms
from skboost.ebm._progress import Progress
from skboost.ebm._shapes import view
from skboost.ebm._stages import MAINS, PAIRS, Problem, Rows, Rules
from skboost.ebm._terms import TermBlock, centre, clear_empty, main_block, pair_block, purify, term_cells
from skboost.inference import _additive, _algebra, _intervals, _stage

# Parameters that say how the other kind of boosting is done; Boulevard has none of it, or a parameter of its own.
FOREIGN = {
    "max_bins": "boulevard_max_bins says how many cells there are",
    "max_interaction_bins": "boulevard_max_interaction_bins says how many cells there are",
    "monotonic_cst": "there is no theory for constrained terms",
    "missing": "missing values always have leaves of their own",
    "learning_rate": "boulevard_learning_rate is the factor on trees",
    "max_rounds": "boulevard_rounds is the number of trees",
    "max_leaves": "boulevard_max_leaves bounds the trees",
    "min_hessian": "there is no theory for it",
    "outer_bags": "one model is fitted to all rows, its spread is known",
    "validation_size": "all rows are trained on",
    "early_stopping_rounds": "a stopped average has another limit",
    "early_stopping_tolerance": "a stopped average has another limit",
    "smoothing_rounds": "boulevard_structure says how trees are cut",
    "interaction_smoothing_rounds": "boulevard_structure says how trees are cut",
    "greedy_ratio": "every round updates every term",
    "cyclic_progress": "every round updates every term",
    "min_cat_samples": "min_samples_leaf bounds the leaves of categories",
    "cat_smooth": "levels are sorted by plain means, or at random",
    "gain_scale": "terms do not compete",
    "trainer": "there is one way of training",
    "callback": "rounds have no validation loss to report",
}
OWN = (
    "boulevard_update",
    "boulevard_structure",
    "boulevard_rounds",
    "boulevard_subsample",
    "boulevard_learning_rate",
    "boulevard_max_leaves",
    "boulevard_max_bins",
    "boulevard_max_interaction_bins",
)
# A mean distance from the limit, in standard errors, beyond which more rounds are advised.
LARGEST_GAP = 0.1
# Averages of trees that know labels are about 0.4 from the limit of their own accord.
LARGEST_GAP_OF_AVERAGES = 1.0
DISPLAYED_ALPHA = 0.05

CONSTRAINTS = {
    "boulevard_update": [StrOptions(set(_stage.UPDATES))],
    "boulevard_structure": [StrOptions(set(_stage.STRUCTURES))],
    "boulevard_rounds": [Interval(numbers.Integral, 1, 2**20, closed="both")],
    "boulevard_subsample": [Interval(numbers.Real, 0, 1, closed="right")],
    "boulevard_learning_rate": [Interval(numbers.Real, 0, None, closed="neither")],
    "boulevard_max_leaves": [Interval(numbers.Integral, 2, _stage.MOST_LEAVES, closed="both")],
    "boulevard_max_bins": [Interval(numbers.Integral, 4, 65536, closed="both")],
    "boulevard_max_interaction_bins": [Interval(numbers.Integral, 4, 256, closed="both")],
}


def check_boulevard_params(estimator):
    """Raise ValueError for parameters that do not go with the kind of boosting."""
    defaults = {name: p.default for name, p in inspect.signature(type(estimator).__init__).parameters.items()}
    changed = [name for name in defaults if name != "self" and _differs(getattr(estimator, name), defaults[name])]
    if not estimator.boulevard:
        if own := [name for name in OWN if name in changed]:
            raise ValueError(f"{own[0]}={getattr(estimator, own[0])!r} needs boulevard=True; it is boulevard=False.")
        return
    if estimator.loss != "squared_error":
        raise ValueError(
            f"boulevard=True needs loss='squared_error', it does not go with loss={estimator.loss!r}: the law of the "
            "fit is known for the identity link only."
        )
    if estimator.boulevard_update == "leave_one_out" and estimator.boulevard_learning_rate != 1:
        raise ValueError(
            f"boulevard_update='leave_one_out' needs boulevard_learning_rate=1, got "
            f"boulevard_learning_rate={estimator.boulevard_learning_rate!r}: any other one would multiply the terms. "
            "boulevard_update='joint' takes others."
        )
    if foreign := [name for name in FOREIGN if name in changed]:
        raise ValueError(
            f"{foreign[0]}={getattr(estimator, foreign[0])!r} does not go with boulevard=True: {FOREIGN[foreign[0]]}."
        )


def _differs(value, default):
    return value is not default and not (np.isscalar(value) and value == default)


class BoulevardMixin:
    """Boulevard training and inference of `EBMRegressor`."""

    # ---- fit

    def _fit_state(self, data, loss, init, user_bags):
        if not self.boulevard:
            return super()._fit_state(data, loss, init, user_bags)
        if init is not None:
            raise ValueError("init_score does not go with boulevard=True: inference covers all that is fitted.")
        if user_bags is not None:
            raise ValueError("bags does not go with boulevard=True: one model is fitted to all rows.")
        if data.sample_weight is not None and (data.sample_weight != np.floor(data.sample_weight)).any():
            raise ValueError(
                "sample_weight must be whole numbers with boulevard=True, which count equal rows: the law of the fit "
                "is known for independent rows of equal variance only."
            )
        return _Training(self, data, loss).state()

    def honest_refit(self, X, y):
        """Fit the leaf values anew to other rows, in place; the cuts of all trees and the pairs stay.

        The new rows must be independent of those of `fit`. Whatever the cuts have learned from the labels of `fit` is
        then known before the labels that the leaves average, as the intervals assume. Use it after fits with
        ``boulevard_structure="greedy"`` or with pairs chosen from the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Target.

        Returns
        -------
        estimator
            The model itself.

        Raises
        ------
        ValueError
            If the model was not fitted with ``boulevard=True`` or its terms have been edited, or if the rows leave no
            residual degrees of freedom.
        """
        fit = self._inference_of_all_terms("honest_refit")
        X, y = check_X(self, X, unknown=np.inf), column_or_1d(y, warn=True)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
        self._loss.check_target(y, None)
        levels = [levels is not None for levels in self._category_maps]
        data = SimpleNamespace(X=X, y=y, sample_weight=None, is_categorical=np.array(levels), category_maps=None)
        vars(self).update(_Training(self, data, self._loss, fit).refitted())
        return self

    # ---- what is known of the fit

    def _inference_fit(self, what):
        """Return the record of a Boulevard fit, or raise ValueError."""
        check_is_fitted(self)
        fit = getattr(self, "_inference", None)
        if fit is None:
            raise ValueError(
                f"{what} needs a model fitted with boulevard=True; a model read from a dictionary keeps its terms only."
            )
        return fit

    def _inference_of_all_terms(self, what):
        fit = self._inference_fit(what)
        if (
            not fit.complete
            or self.intercept_ != fit.intercept
            or not all(self._untouched(fit, t) for t in range(len(self.term_scores_)))
        ):
            raise ValueError(f"{what}: the terms have been edited since they were fitted, their law is not known.")
        return fit

    def _untouched(self, fit, position):
        return np.array_equal(self.term_scores_[position].ravel(), fit.shapes[fit.block(position)])

    def _attribute(self, name, what):
        fit = getattr(self, "_inference", None)
        if fit is None:
            raise AttributeError(f"{type(self).__name__} has {name!r} only when fitted with boulevard=True.")
        return what(fit)

    @property
    def noise_variance_(self):
        """Variance of the labels around the additive function, per residual degree of freedom.

        Returns
        -------
        float
            In units of the target squared; only with ``boulevard=True``.
        """
        return self._attribute("noise_variance_", lambda fit: fit.noise)

    @property
    def adjusted_noise_variance_(self):
        """Noise variance that the terms see: with joint updates larger, by what other terms leak into a term.

        Returns
        -------
        float
            In units of the target squared; only with ``boulevard=True``.
        """
        return self._attribute("adjusted_noise_variance_", lambda fit: fit.adjusted)

    @property
    def degrees_of_freedom_(self):
        """Traces of P and of P P', P being the matrix from labels to fitted values.

        Returns
        -------
        tuple of float
            Effective number of parameters, and the sum of the variances of the fitted values per unit of noise; only
            with ``boulevard=True``.
        """
        return self._attribute("degrees_of_freedom_", lambda fit: (fit.df1, fit.df2))

    @property
    def intercept_standard_error_(self):
        """Standard error of the intercept.

        Returns
        -------
        float
            Only with ``boulevard=True``.
        """
        return self._attribute("intercept_standard_error_", lambda fit: math.sqrt(fit.noise / fit.n_rows))

    @property
    def boulevard_gap_(self):
        """Mean distance of the boosted scores from their limit, which the terms are, in standard errors.

        Returns
        -------
        float
            Only with ``boulevard=True``.
        """
        return self._attribute("boulevard_gap_", lambda fit: fit.gap)

    @property
    def standard_errors_(self):
        """Standard errors of the scores of every term.

        Returns
        -------
        list of ndarray
            Of the shapes of `term_scores_`, 0 for terms edited since; only with ``boulevard=True``.
        """
        return self._attribute("standard_errors_", self._standard_errors)

    def _standard_errors(self, fit):
        found = []
        for position, scores in enumerate(self.term_scores_):
            variance = fit.adjusted * fit.cov.diagonal()[fit.block(position)]
            errors = np.sqrt(np.maximum(variance, 0.0)) if self._untouched(fit, position) else np.zeros(scores.size)
            found.append(errors.reshape(scores.shape))
        return found

    def _bag_deviations(self):
        fit = getattr(self, "_inference", None)
        return super()._bag_deviations() if fit is None else self._standard_errors(fit)

    def _shape_interval(self, position):
        fit = getattr(self, "_inference", None)
        if fit is None or not self._untouched(fit, position):
            return None
        scores = self.term_scores_[position]
        half = _intervals.normal_quantile(DISPLAYED_ALPHA) * self.standard_deviations_[position]
        return np.stack([view(scores - half, scores.ndim), view(scores + half, scores.ndim)])

    # ---- intervals and tests

    def shape_intervals(self, alpha=0.05, kind="pointwise"):
        """Return confidence intervals for the shape functions.

        They are for the shapes centred on the training rows, and stand around the expected fit: what smoothing takes
        from the shapes is not in them.

        Parameters
        ----------
        alpha : float, default=0.05
            Share of misses that is allowed, in (0, 1).
        kind : {"pointwise", "simultaneous"}, default="pointwise"
            Whether misses are counted cell by cell, or as terms that leave their band in some cell.

        Returns
        -------
        list of ndarray of shape (2, \\*n_cells)
            Lower and upper ends for every term, cells in the order of `term_scores_`.

        Raises
        ------
        ValueError
            If the model was not fitted with ``boulevard=True``, if its terms have been edited, or if a parameter is out
            of its range.
        """
        fit, alpha = self._inference_of_all_terms("shape_intervals"), _intervals.check_alpha(alpha)
        if kind not in _intervals.SHAPE_KINDS:
            raise ValueError(f"kind must be one of {_intervals.SHAPE_KINDS}, got {kind!r}.")
        found = []
        for position, (scores, errors) in enumerate(zip(self.term_scores_, self._standard_errors(fit), strict=True)):
            factor = _intervals.normal_quantile(alpha)
            if kind == "simultaneous":
                block = fit.block(position)
                used = np.flatnonzero(fit.counts[block] > 0) + block.start
                factor = _intervals.simultaneous_quantile(fit.cov[np.ix_(used, used)], alpha, position)
            found.append(np.stack([scores - factor * errors, scores + factor * errors]))
        return found

    def _row_variances(self, fit, X):
        """Variances of the predictions of rows, without the noise of a label."""
        cells, coarse = self._cells(X), self._coarse()
        terms = zip(self.term_features_, self.term_scores_, strict=True)
        codes = [_flat_cells(features, scores.shape, cells, coarse) for features, scores in terms]
        return fit.adjusted * _intervals.row_variances(fit.cov, fit.starts, codes, fit.n_rows)

    def predict_interval(self, X, alpha=0.05, kind="confidence", *, calibration=None):
        """Return intervals for the regression function or for new labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        alpha : float, default=0.05
            Share of misses that is allowed, in (0, 1).
        kind : {"confidence", "prediction", "reproduction"}, default="confidence"
            "confidence": for the expected label. "prediction": for a new label, with normal noise. "reproduction": for
            the prediction of the same procedure on new training rows.
        calibration : tuple of (X, y) or None, default=None
            Rows that were not trained on, for ``kind="prediction"``: all widths are multiplied by one factor, the
            quantile of their residuals in half widths, so that the coverage does not need normal noise. Infinite
            intervals where there are too few rows.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If the model was not fitted with ``boulevard=True``, if its terms have been edited, or if a parameter is out
            of its range.
        """
        fit, alpha = self._inference_of_all_terms("predict_interval"), _intervals.check_alpha(alpha)
        if kind not in _intervals.PREDICTION_KINDS:
            raise ValueError(f"kind must be one of {_intervals.PREDICTION_KINDS}, got {kind!r}.")
        if calibration is not None and kind != "prediction":
            raise ValueError(f"calibration needs kind='prediction', it does not go with kind={kind!r}.")
        half = self._half_widths(fit, X, alpha, kind)
        if calibration is not None:
            half = half * self._conformal_factor(fit, calibration, alpha)
        centre_ = self._raw(X)[:, 0]
        return np.stack([centre_ - half, centre_ + half], axis=1)

    def _half_widths(self, fit, X, alpha, kind):
        variance = self._row_variances(fit, X)
        if kind == "prediction":
            variance = fit.noise + variance
        elif kind == "reproduction":
            variance = 2 * variance
        return _intervals.normal_quantile(alpha) * np.sqrt(variance)

    def _conformal_factor(self, fit, calibration, alpha):
        X, y = calibration
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=np.float64, input_name="y of calibration")
        half = self._half_widths(fit, X, alpha, "prediction")
        check_consistent_length(half, y)
        if not (half > 0).all():
            raise ValueError("calibration needs a positive noise variance; that of the fit is 0.")
        return _intervals.conformal_factor(np.abs(y - self._raw(X)[:, 0]) / half, alpha)

    def term_tests(self):
        """Test for every term whether it is zero.

        The statistic is the mean square of the term over the training rows, divided so that it is nearly chi-square
        with `dof` degrees of freedom where the term has no effect.

        Returns
        -------
        Bunch
            Arrays of shape (n_terms,): "term" (names), "statistic", "dof" and "pvalue".

        Raises
        ------
        ValueError
            If the model was not fitted with ``boulevard=True`` or its terms have been edited.
        """
        fit = self._inference_of_all_terms("term_tests")
        found = np.array(
            [
                _intervals.mean_square_test(fit.shapes[part], fit.adjusted * fit.cov[part, part], fit.counts[part])
                for part in map(fit.block, range(len(self.term_names_)))
            ]
        ).reshape(-1, 3)
        names = np.array(self.term_names_, dtype=object)
        return Bunch(term=names, statistic=found[:, 0], dof=found[:, 1], pvalue=found[:, 2])

    def _boulevard_uncertainty(self, X, init_score):
        fit = self._inference_of_all_terms("predict_uncertainty")
        knowledge = self._row_variances(fit, X)
        data = np.full(len(knowledge), fit.noise)
        return _uncertainty.Uncertainty(self._raw(X, init_score)[:, 0], knowledge, data, data + knowledge)

    def predict_with_uncertainty(self, X, *, init_score=None):
        """Return the raw score with its spread over the bags.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        init_score : array-like of shape (n_samples,) or fitted estimator, default=None
            What `fit` was given, for these rows.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Mean and population standard deviation over the bags, weighted as the terms are; the standard error for a
            model fitted with ``boulevard=True``. `predict_uncertainty` works on the scale of predictions, where every
            bag counts the same.
        """
        check_is_fitted(self)
        if self._inference is None:
            return super().predict_with_uncertainty(X, init_score=init_score)
        fit = self._inference_of_all_terms("predict_with_uncertainty")
        return np.stack([self._raw(X, init_score)[:, 0], np.sqrt(self._row_variances(fit, X))], axis=1)


def _flat_cells(features, shape, cells, coarse):
    """Cells of the rows in a term, counted within the term."""
    index = term_cells(features, cells, coarse)
    return index[0] if len(features) == 1 else np.ravel_multi_index(index, shape)


class _Training:
    """One fit, or one refit of the structures of another fit."""

    def __init__(self, estimator, data, loss, earlier=None):
        self.estimator, self.data, self.loss, self.earlier = estimator, data, loss, earlier
        self.seed = resolve_seed(estimator.random_state)
        self.n_threads = effective_n_threads(estimator.n_jobs)
        self.n_binning = cap_threads(self.n_threads, data.X.size)
        self.mapper = estimator._mapper if earlier is not None else self._fit_mapper()
        # The structures of a refit have the rules they were grown by, whatever set_params has changed since.
        self.rules = self._rules() if earlier is None else earlier.rules
        self.purify = bool(estimator.purify) if earlier is None else earlier.purified
        self.coarse = [self.mapper.coarse(feature) for feature in range(self.mapper.n_features)]
        self.progress = Progress(type(estimator).__name__, 1, estimator.verbose)

    def _fit_mapper(self):
        estimator, data = self.estimator, self.data
        mapper = CellMapper(estimator.boulevard_max_bins, estimator.boulevard_max_interaction_bins)
        return mapper.fit(data.X, data.sample_weight, data.is_categorical, data.n_levels, self.n_binning)

    def _rules(self):
        estimator = self.estimator
        return _stage.StageRules(
            estimator.boulevard_rounds,
            float(estimator.boulevard_learning_rate),
            float(estimator.boulevard_subsample),
            estimator.boulevard_max_leaves,
            float(estimator.min_samples_leaf),
            float(estimator.l2_regularization),
            estimator.boulevard_structure,
            estimator.boulevard_update,
        )

    # ---- the two uses

    def state(self):
        """Return the fitted attributes of a new fit."""
        estimator = self.estimator
        plan = resolve_terms(
            estimator.interactions, estimator.exclude, estimator._feature_names(), np.zeros(self.mapper.n_features)
        )
        self._check_memory(plan)
        self._take_rows()
        mains = main_block(plan.mains, self.mapper.n_cells)
        stages = [self._fit(mains, self.rows, MAINS)]
        left = _additive.residual_rows(self.rows, stages[0])
        pairs = pair_block(self._choose_pairs(plan, left), self.coarse)
        if len(pairs):
            stages.append(self._fit(pairs, left, PAIRS))
        fit = self._combine(stages, mains, pairs)
        self._warn(fit)
        return self._state(fit, mains, pairs)

    def refitted(self):
        """Return the attributes that a refit changes."""
        self._take_rows()
        features = self.estimator.term_features_
        mains = main_block([j for (j, *other) in features if not other], self.mapper.n_cells)
        pairs = pair_block([term for term in features if len(term) > 1], self.coarse)
        stages = [self._fit(mains, self.rows, MAINS, self.earlier.leaves[0])]
        if len(pairs):
            left = _additive.residual_rows(self.rows, stages[0])
            stages.append(self._fit(pairs, left, PAIRS, self.earlier.leaves[1]))
        fit = self._combine(stages, mains, pairs)
        self._warn_of_empty_cells(fit, mains)
        return self._terms_state(fit, mains, pairs)

    # ---- steps

    def _check_memory(self, plan):
        sizes = [int(self.mapper.n_cells[j]) for j in plan.mains]
        coarse = self.mapper.n_coarse
        sizes += [int(coarse[j] * coarse[k]) for j, k in plan.pairs]
        candidates = sorted((int(coarse[j] * coarse[k]) for j, k in plan.candidates), reverse=True)
        n_cells = sum(sizes) + sum(candidates[: plan.n_automatic])
        needed = _algebra.bytes_needed(n_cells)
        if needed > self.estimator.max_table_bytes:
            raise ValueError(
                f"boulevard=True solves systems of up to {n_cells} cells, which takes {needed} bytes; max_table_bytes "
                f"allows {self.estimator.max_table_bytes}. Use fewer interactions, a smaller boulevard_max_bins or "
                "boulevard_max_interaction_bins, or a larger max_table_bytes."
            )

    def _take_rows(self):
        data, cells = self.data, self.mapper.transform(self.data.X, self.n_binning)
        distinct = canonical_rows(cell_hashes(cells, self.n_binning), data.y, data.sample_weight)
        self.cells = distinct.take(cells, self.n_binning)
        self.y = self.loss.to_internal(data.y[distinct.rows])
        self.weight = distinct.weight
        self.mean = float(self.loss.base_score(self.y, self.weight)[0])
        copies = np.rint(distinct.weight).astype(np.int64)
        self.rows = _stage.StageRows(distinct.keys, copies, self.y - self.mean)

    def _stage_cells(self, block):
        codes = np.empty((len(block), self.cells.shape[1]), dtype=np.uint16)
        shapes = np.ones((len(block), 2), dtype=np.int64)
        ordered = np.ones((len(block), 2), dtype=np.uint8)
        for t, (features, shape) in enumerate(zip(block.features, block.shapes, strict=True)):
            codes[t] = _flat_cells(features, shape, self.cells, self.coarse)
            shapes[t, : len(shape)] = shape
            ordered[t, : len(features)] = ~self.mapper.is_categorical[list(features)]
        return _stage.StageCells(codes, shapes, ordered)

    def _fit(self, block, rows, number, leaves=None):
        self.progress.start(number, n_rows=rows.n_rows, n_terms=len(block), n_threads=self.n_threads)
        cells = self._stage_cells(block)
        fit = _additive.fit_stage(cells, rows, self.rules, self.seed, number, self.n_threads, leaves)
        self.progress.finish(0, self.rules.n_rounds)
        return fit

    def _choose_pairs(self, plan, left):
        """Return the pairs of the plan, or the strongest ones by the residuals of the main effects."""
        if not plan.n_automatic:
            return plan.pairs
        rows = Rows(self.cells, self.y, self.weight, self.rows.copies, None)
        free = np.zeros(self.mapper.n_features, dtype=np.int8)
        problem = Problem(self.loss, rows, self.mapper, free, None, Rules.of(self.estimator), self.seed)
        found = pair_strengths(problem, plan.candidates, (self.y - left.target)[None], self.weight)
        return rank_pairs(plan.candidates, found[None], plan.n_automatic)

    def _combine(self, stages, mains, pairs):
        def transform(weights):
            return self._transform(weights, counts, mains, pairs)

        counts = np.concatenate(
            [np.bincount(code, self.weight, size) for stage in stages for code, size in _codes_and_sizes(stage.cells)]
            or [np.empty(0)]
        )
        fit = _additive.combine(stages, self.rows, self.rules, transform, self.n_threads)
        return replace(fit, intercept=self.mean, purified=self.purify)

    def _transform(self, weights, counts, mains, pairs):
        """Purify pairs and clear cells without rows, in all columns of the label weights at once."""
        m = mains.n_cells
        columns = np.ascontiguousarray(weights.T)[:, :, None]
        main_part, pair_part = columns[:, :m], columns[:, m:]
        # purification works in place, on parts that are arrays of their own
        main_part, pair_part = np.ascontiguousarray(main_part), np.ascontiguousarray(pair_part)
        constants = np.zeros((len(columns), 1))
        clear_empty(mains, main_part, counts[:m])
        clear_empty(pairs, pair_part, counts[m:])
        if self.purify and len(pairs):
            purify(pairs, pair_part, counts[m:], mains, main_part, self.coarse, constants)
            centre(mains, main_part, counts[:m], constants)
            clear_empty(mains, main_part, counts[:m])
        return np.ascontiguousarray(np.concatenate([main_part, pair_part], axis=1)[:, :, 0].T)

    # ---- results

    def _state(self, fit, mains, pairs):
        counts = TermBlock(mains.features + pairs.features, mains.shapes + pairs.shapes)
        rounds = self.rules.n_rounds
        boosted = SimpleNamespace(
            bag_weights=np.array([float(fit.n_rows)]),
            best_iteration=np.array([[rounds if len(mains) else 0], [rounds if len(pairs) else 0]], dtype=np.int64),
        )
        scores = counts.views(fit.shapes.copy())
        intercept = np.array([self.mean])
        fitted = FittedTerms(
            list(counts.features),
            scores,
            [tensor[None].copy() for tensor in scores],
            counts.views(fit.counts.copy()),
            intercept,
            intercept[None].copy(),
        )
        problem = SimpleNamespace(mapper=self.mapper, loss=self.loss)
        return {**self.estimator._collect(self.data, problem, boosted, fitted), "_inference": fit}

    def _terms_state(self, fit, mains, pairs):
        """What a refit replaces."""
        block = TermBlock(mains.features + pairs.features, mains.shapes + pairs.shapes)
        scores = block.views(fit.shapes.copy())
        return {
            "term_scores_": scores,
            "bagged_scores_": [tensor[None].copy() for tensor in scores],
            "bin_weights_": block.views(fit.counts.copy()),
            "intercept_": self.mean,
            "bagged_intercept_": np.array([self.mean]),
            "bag_weights_": np.array([float(fit.n_rows)]),
            "_deviations": None,
            "_inference": fit,
        }

    def _warn(self, fit):
        if self.rules.structure == "greedy":
            warnings.warn(
                "boulevard_structure='greedy' cuts by the labels that the leaves average: standard errors and "
                "intervals are lower bounds. Use 'random', or honest_refit with other rows.",
                UserWarning,
                stacklevel=5,
            )
        elif self.rules.structure == "random" and self.rules.update == "joint" and fit.gap > LARGEST_GAP:
            warnings.warn(
                f"After boulevard_rounds={self.rules.n_rounds} the boosted terms are {fit.gap:.2g} standard errors "
                "from their limit, on average. The terms of the model are the limit; use more rounds.",
                UserWarning,
                stacklevel=5,
            )
        if self.rules.structure != "random" and fit.gap > LARGEST_GAP_OF_AVERAGES:
            warnings.warn(
                f"After boulevard_rounds={self.rules.n_rounds} the terms are {fit.gap:.2g} standard errors from the "
                "limit that intervals and tests are of, on average: features that determine each other take very many "
                "rounds. Use boulevard_structure='random', whose terms are the limit.",
                UserWarning,
                stacklevel=5,
            )

    def _warn_of_empty_cells(self, fit, mains):
        earlier = self.earlier.counts[: mains.n_cells] > 0
        n_empty = int((earlier & (fit.counts[: mains.n_cells] == 0)).sum())
        if n_empty:
            warnings.warn(
                f"{n_empty} cells of main effects hold none of the new rows; their scores are those of the leaves they "
                "share with others, or 0.",
                UserWarning,
                stacklevel=3,
            )


def _codes_and_sizes(cells):
    return zip(cells.codes, np.diff(cells.starts), strict=True)
