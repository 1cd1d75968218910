"""What the additive estimators share: fit as validate, run, store; scores of rows from the stored terms."""

import numbers

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skboost._binning import grid_weights
from skboost._compat import Interval, RealNotInt, StrOptions, check_parameters
from skboost._parallel import cap_threads, effective_n_threads
from skboost._random import resolve_seed
from skboost._sampling import canonical_rows, cell_hashes
from skboost._validation import check_training_data, check_X, resolve_monotonic_cst, unchanged_on_failure
from skboost.ebm._bags import check_user_bags, check_validation_size, make_bags
from skboost.ebm._cells import CellMapper
from skboost.ebm._density import feature_bounds, histogram
from skboost.ebm._estimators_dict import DictMixin
from skboost.ebm._estimators_init_score import resolve_init_score
from skboost.ebm._estimators_state import link_of
from skboost.ebm._estimators_terms import TermsMixin
from skboost.ebm._finishing import finish
from skboost.ebm._interactions import number_of_pairs, resolve_terms
from skboost.ebm._progress import Progress
from skboost.ebm._stages import Problem, Rows, Rules, boost
from skboost.ebm._terms import bag_deviation, bag_mean, contributions, term_cells

MOST_OUTPUTS = 255
MOST_INTERACTION_BINS = 1024
MOST_ROUNDS = 2**30


class BaseEBM(TermsMixin, DictMixin, BaseEstimator):
    """Common part of the explainable boosting machines."""

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        "interactions": [
            Interval(numbers.Integral, 0, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            "array-like",
            str,
            None,
        ],
        "max_bins": [Interval(numbers.Integral, 4, 65536, closed="both")],
        "max_interaction_bins": [Interval(numbers.Integral, 4, MOST_INTERACTION_BINS, closed="both")],
        "exclude": ["array-like", StrOptions({"mains"}), None],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "monotonic_cst": ["array-like", dict, None],
        "missing": [StrOptions({"separate", "gain", "low", "high"})],
        "learning_rate": [Interval(numbers.Real, 0, 1, closed="right")],
        "max_rounds": [Interval(numbers.Integral, 0, MOST_ROUNDS, closed="both")],
        "max_leaves": [Interval(numbers.Integral, 2, MOST_ROUNDS, closed="both")],
        "min_samples_leaf": [Interval(numbers.Real, 0, None, closed="left")],
        "min_hessian": [Interval(numbers.Real, 0, None, closed="left")],
        "l2_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "outer_bags": [Interval(numbers.Integral, 1, None, closed="left")],
        "validation_size": [Interval(numbers.Real, 0, None, closed="left")],
        "early_stopping_rounds": [Interval(numbers.Integral, 0, MOST_ROUNDS, closed="both")],
        "early_stopping_tolerance": [Interval(numbers.Real, None, None, closed="neither")],
        "smoothing_rounds": [Interval(numbers.Integral, 0, MOST_ROUNDS, closed="both")],
        "interaction_smoothing_rounds": [Interval(numbers.Integral, 0, MOST_ROUNDS, closed="both")],
        "greedy_ratio": [Interval(numbers.Real, 0, None, closed="left")],
        "cyclic_progress": [Interval(numbers.Real, 0, 1, closed="both")],
        "min_cat_samples": [Interval(numbers.Real, 0, None, closed="left")],
        "cat_smooth": [Interval(numbers.Real, 0, None, closed="left")],
        "gain_scale": [Interval(numbers.Real, 0, None, closed="neither")],
        "purify": ["boolean"],
        "trainer": [StrOptions({"auto", "tables", "rows"})],
        "boulevard": ["boolean"],
        "max_table_bytes": [Interval(numbers.Integral, 1, None, closed="left")],
        "callback": [callable, None],
        "n_jobs": [numbers.Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self):
        # inside a callback validation has set columns already, but there are no terms yet
        return hasattr(self, "_mapper")

    def __getstate__(self):
        state = super().__getstate__()
        if "_deviations" in state:
            state = {**state, "_deviations": None}  # follows from the rest
        return state

    # ---- parts that differ between regressor and classifier

    def _make_loss(self, classes):
        raise NotImplementedError

    @staticmethod
    def _public_intercept(intercept):
        """Return `intercept_` for an array of shape (n_outputs,)."""
        raise NotImplementedError

    def _check_params(self):
        """Raise ValueError for parameters that no data go with."""
        check_parameters(self)
        effective_n_threads(self.n_jobs)
        check_validation_size(self.validation_size)
        if isinstance(self.interactions, (str, numbers.Real)):
            number_of_pairs(self.interactions, 1)
        self._check_params_jointly()

    def _check_params_jointly(self):
        """Raise ValueError for parameters that contradict each other."""

    # ---- fit

    def fit(self, X, y, sample_weight=None, *, bags=None, init_score=None):
        """Fit the terms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows. NaN is a missing value; infinities fall in the end cells.
        y : array-like of shape (n_samples,)
            Target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, at least 0. A whole-number weight acts exactly as so many copies of the row; rows of weight 0 are
            dropped first.
        bags : array-like of int of shape (n_samples, outer_bags), default=None
            What each bag does with each row: k trains on it k times, -k validates on it k times, 0 leaves it out. None
            draws validation rows by `validation_size`.
        init_score : array-like of shape (n_samples,) or (n_samples, n_classes), or fitted estimator, default=None
            Raw scores to start from, or a model whose predictions they are. Predictions need it again. At most 1e150 in
            size with an identity link, 30 with a log link (means of 1e-13 to 1e13), 35 with a logit link (probabilities
            of 1e-15); with three or more classes 35 bounds the differences from the largest score of the row, and 1e6
            that score.

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
        self._check_params()
        with unchanged_on_failure(self):
            state = self._run(X, y, sample_weight, bags, init_score)
        vars(self).update(state)
        return self

    def _run(self, X, y, sample_weight, bags, init_score):
        """Return the fitted attributes."""
        data = check_training_data(self, X, y, sample_weight, texts_are_categories=True)
        loss = self._make_loss(data.classes)
        if loss.n_outputs > MOST_OUTPUTS:
            raise ValueError(f"At most {MOST_OUTPUTS} classes are supported, y has {loss.n_outputs}.")
        loss.check_domain(data.y)
        loss.check_target(data.y, data.sample_weight)
        n_given = len(data.y) if data.kept is None else len(data.kept)
        init = resolve_init_score(init_score, X, n_given, loss.n_outputs, link_of(loss), data.classes)
        user_bags = None if bags is None else check_user_bags(bags, n_given, self.outer_bags)
        if data.kept is not None:
            init = None if init is None else init[:, data.kept]
            user_bags = None if user_bags is None else user_bags[data.kept]
        return self._fit_state(data, loss, init, user_bags)

    def _fit_state(self, data, loss, init, user_bags):
        """Return the fitted attributes; self is only read, so that an interrupted fit leaves no half-made model."""
        seed, n_threads = resolve_seed(self.random_state), effective_n_threads(self.n_jobs)
        n_binning = cap_threads(n_threads, data.X.size)
        monotone = resolve_monotonic_cst(self, self.monotonic_cst, data.is_categorical)
        if monotone.any() and loss.n_outputs > 1:
            raise ValueError(f"monotonic_cst needs one score per row, there are {loss.n_outputs} classes.")
        mapper = CellMapper(self.max_bins, self.max_interaction_bins)
        mapper.fit(data.X, data.sample_weight, data.is_categorical, data.n_levels, n_binning)
        plan = resolve_terms(self.interactions, self.exclude, self._feature_names(), monotone)
        cells = mapper.transform(data.X, n_binning)
        rows, bags = self._rows_and_bags(data, loss, cells, init, user_bags, seed, n_binning)
        problem = Problem(loss, rows, mapper, monotone, bags, Rules.of(self), seed)
        progress = Progress(type(self).__name__, self.outer_bags, self.verbose, self.callback)
        boosted = boost(problem, plan, n_threads, progress)
        return self._collect(data, problem, boosted, finish(boosted, problem, self.purify))

    def _rows_and_bags(self, data, loss, cells, init, user_bags, seed, n_threads):
        """Return the distinct rows in the order of their content, and the bags."""
        extra = [array for array in (None if init is None else init.T, user_bags) if array is not None]
        repeats = 1 if user_bags is None else max(1, int(np.abs(user_bags.astype(np.int16)).max()))
        distinct = canonical_rows(cell_hashes(cells, n_threads), data.y, data.sample_weight, extra, repeats)
        chosen = distinct.rows
        rows = Rows(
            cells=distinct.take(cells, n_threads),
            y=loss.to_internal(data.y[chosen]),
            weight=distinct.weight,
            n_copies=distinct.n_copies,
            init=None if init is None else np.ascontiguousarray(init[:, chosen]),
        )
        user_bags = None if user_bags is None else user_bags[chosen]
        return rows, make_bags(
            distinct, self.outer_bags, self.validation_size, seed, loss.strata(rows.y), user_bags, data.classes
        )

    def _collect(self, data, problem, boosted, fitted):
        mapper, loss, names = problem.mapper, problem.loss, self._feature_names()
        weights = None if data.sample_weight is None else grid_weights(data.sample_weight)
        histograms = [
            None if levels is not None else histogram(data.X[:, j], weights)
            for j, levels in enumerate(data.category_maps)
        ]
        one_output = loss.n_outputs == 1
        state = {
            "_mapper": mapper,
            "_loss": loss,
            "_deviations": None,
            "_inference": None,
            "term_features_": list(fitted.features),
            "term_names_": [" & ".join(names[j] for j in features) for features in fitted.features],
            "term_scores_": fitted.scores,
            "bagged_scores_": fitted.bagged_scores,
            "bin_weights_": fitted.weights,
            "intercept_": self._public_intercept(fitted.intercept),
            "bagged_intercept_": fitted.bagged_intercept[:, 0] if one_output else fitted.bagged_intercept,
            "bag_weights_": boosted.bag_weights,
            "best_iteration_": boosted.best_iteration,
            "feature_types_in_": ["continuous" if levels is None else "nominal" for levels in data.category_maps],
            "feature_bounds_": feature_bounds(data.X, data.is_categorical),
            "histogram_edges_": [None if found is None else found[0] for found in histograms],
            "histogram_weights_": [None if found is None else found[1] for found in histograms],
            "link_": link_of(loss),
        }
        if data.classes is not None:
            state["classes_"] = data.classes
        return state

    # ---- scores of rows

    def _cells(self, X):
        check_is_fitted(self)
        X = check_X(self, X, unknown=np.inf)
        return self._mapper.transform(X, cap_threads(effective_n_threads(self.n_jobs), X.size))

    def _coarse(self):
        """Maps to the cells in pairs, of the features that are in some."""
        used = {feature for features in self.term_features_ if len(features) > 1 for feature in features}
        return {feature: self._mapper.coarse(feature) for feature in used}

    def _init(self, init_score, X, n_rows):
        classes = getattr(self, "classes_", None)
        init = resolve_init_score(init_score, X, n_rows, self._loss.n_outputs, self.link_, classes)
        return 0.0 if init is None else init.T

    def _raw(self, X, init_score=None):
        """Raw scores of shape (n_samples, n_outputs)."""
        cells = self._cells(X)
        raw = np.empty((cells.shape[1], self._loss.n_outputs))
        raw[:] = self.intercept_
        for part in contributions(self.term_features_, self.term_scores_, cells, self._coarse()):
            raw += part.reshape(raw.shape)
        raw += self._init(init_score, X, len(raw))
        return raw

    def _one_or_many(self, raw):
        """Raw scores without the axis of outputs where there is one output."""
        return raw[..., 0] if self._loss.n_outputs == 1 else raw

    def _bagged_raw(self, X, init_score=None):
        """Raw scores of every bag, of shape (n_bags, n_samples, n_outputs)."""
        cells, coarse = self._cells(X), self._coarse()
        n_bags = len(self.bag_weights_)
        raw = np.empty((n_bags, cells.shape[1], self._loss.n_outputs))
        raw[:] = self.bagged_intercept_.reshape(n_bags, 1, -1)
        for features, tensor in zip(self.term_features_, self.bagged_scores_, strict=True):
            raw += tensor[(slice(None), *term_cells(features, cells, coarse))].reshape(raw.shape)
        raw += self._init(init_score, X, raw.shape[1])
        return raw

    def eval_terms(self, X):
        """Return the scores of all terms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_terms) or (n_samples, n_terms, n_classes)
            Contributions to the raw score; with `intercept_` they add up to it.
        """
        cells = self._cells(X)
        one_output = self._loss.n_outputs == 1
        shape = (cells.shape[1], len(self.term_features_))
        scores = np.empty(shape if one_output else (*shape, self._loss.n_outputs))
        for t, part in enumerate(contributions(self.term_features_, self.term_scores_, cells, self._coarse())):
            scores[:, t] = part
        return scores

    def predict_with_uncertainty(self, X, *, init_score=None):
        """Return the raw score with its spread over the bags.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        init_score : array-like of shape (n_samples,) or (n_samples, n_classes), or fitted estimator, default=None
            What `fit` was given, for these rows.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, n_classes, 2)
            Mean and population standard deviation over the bags, weighted as the terms are. `predict_uncertainty`
            works on the scale of predictions, where every bag counts the same.
        """
        raw = self._bagged_raw(X, init_score)
        result = np.stack([bag_mean(raw, self.bag_weights_), bag_deviation(raw, self.bag_weights_)], axis=-1)
        return result[:, 0] if self._loss.n_outputs == 1 else result
