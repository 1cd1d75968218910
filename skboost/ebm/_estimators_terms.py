"""What a fitted additive model tells of its terms, and how they are edited."""

import copy
import math
import numbers

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from skboost._categories import is_frame, level_names
from skboost.ebm import _editing
from skboost.ebm._estimators_state import bins_of
from skboost.ebm._shapes import Axis, TermShape, view
from skboost.ebm._terms import bag_deviation

IMPORTANCES = ("avg_weight", "min_max", "std")


class TermsMixin:
    """Reading and editing of the terms of a fitted model."""

    # ---- reading

    @property
    def standard_deviations_(self):
        """Standard deviation of the scores of every term over the bags.

        Returns
        -------
        list of ndarray
            Weighted population standard deviations, of the shapes of `term_scores_`; computed when first asked for.
            Standard errors for a model fitted with ``boulevard=True``.
        """
        check_is_fitted(self)
        if self._deviations is None:
            self._deviations = self._bag_deviations()
        return self._deviations

    def _bag_deviations(self):
        return [bag_deviation(scores, self.bag_weights_) for scores in self.bagged_scores_]

    @property
    def bins_(self):
        """Cells of every column.

        Returns
        -------
        list of list
            Two entries per column, for main effects and for pairs: ascending cuts, or a dict from categories to cells.
        """
        check_is_fitted(self)
        return [bins_of(self._mapper, feature, levels) for feature, levels in enumerate(self._category_maps)]

    def _feature_names(self):
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    @property
    def _class_labels(self):
        """Labels of the last axis of the scores, None where there is one score."""
        return self.classes_ if self._loss.n_outputs > 1 else None

    def _axis(self, feature, in_pair):
        lower, upper = self.feature_bounds_[feature]
        levels, edges = (), self._mapper.coarse_cuts(feature) if in_pair else self._mapper.cuts(feature)
        categorical = self._category_maps[feature] is not None
        if categorical:
            coarse = self._mapper.coarse(feature)
            cells = coarse[1:-1] if in_pair else np.arange(1, len(coarse) - 1)
            names = level_names(self._category_maps[feature])
            groups = [[] for _ in range(int(cells.max(initial=0)))]
            for name, cell in zip(names, cells, strict=False):
                groups[cell - 1].append(name)
            levels = tuple(tuple(group) for group in groups)
        kind = "categorical" if categorical else "numeric"
        name = self._feature_names()[feature]
        return Axis(feature, name, kind, edges.copy(), levels, float(lower), float(upper))

    def _shape(self, position):
        features = self.term_features_[position]
        axes = tuple(self._axis(feature, len(features) > 1) for feature in features)
        tensors = (self.term_scores_, self.standard_deviations_, self.bin_weights_)
        views = [view(tensor[position], len(features)) for tensor in tensors]
        names = tuple(axis.name for axis in axes)
        return TermShape(features, names, axes, *views, self._class_labels, self._shape_interval(position))

    def _shape_interval(self, position):
        """Return the confidence interval of a shape, None where its law is not known."""
        return None

    def shape_functions(self):
        """Return the shape functions of all terms.

        Returns
        -------
        list of TermShape
            In the order of `term_names_`.
        """
        check_is_fitted(self)
        return [self._shape(position) for position in range(len(self.term_features_))]

    def shape(self, term):
        """Return the shape function of one term.

        Parameters
        ----------
        term : int or str
            Position or name of the term.

        Returns
        -------
        TermShape
            Its axes and values.

        Raises
        ------
        ValueError
            If there is no such term.
        """
        check_is_fitted(self)
        return self._shape(_editing.resolve_item(term, self.term_names_, "term"))

    def term_importances(self, importance_type="avg_weight"):
        """Return how much every term contributes to the raw score.

        Parameters
        ----------
        importance_type : {"avg_weight", "min_max", "std"}, default="avg_weight"
            "avg_weight": mean absolute score over the training rows. "min_max": largest less smallest score over the
            cells with training rows. "std": standard deviation of the score over the training rows. With several
            classes the mean over the classes.

        Returns
        -------
        ndarray of shape (n_terms,)
            Importances in units of the raw score, at least 0.

        Raises
        ------
        ValueError
            If `importance_type` is another word.
        """
        check_is_fitted(self)
        if importance_type not in IMPORTANCES:
            raise ValueError(f"importance_type must be one of {list(IMPORTANCES)}, got {importance_type!r}.")
        found = [
            _importance(scores, weights, importance_type)
            for scores, weights in zip(self.term_scores_, self.bin_weights_, strict=True)
        ]
        return np.array(found, dtype=np.float64)

    def explain_global(self):
        """Return the whole model as plain lists and numbers.

        Returns
        -------
        dict
            "intercept", "link", "classes" (None for regression) and "terms": a list with a dict per term, "name",
            "features" (column numbers), "importance" (mean absolute score), "axes" (dicts with "name", "kind", "edges",
            "levels", "labels", "lower", "upper", the last two None where there is no number), "scores", "deviations"
            and "weights", nested lists in the order of the axes' labels.
        """
        check_is_fitted(self)
        terms = []
        for shape, importance in zip(self.shape_functions(), self.term_importances(), strict=True):
            axes = [
                {
                    "name": axis.name,
                    "kind": axis.kind,
                    "edges": axis.edges.tolist(),
                    "levels": [list(cell) for cell in axis.levels],
                    "labels": list(axis.labels),
                    "lower": None if math.isnan(axis.lower) else axis.lower,
                    "upper": None if math.isnan(axis.upper) else axis.upper,
                }
                for axis in shape.axes
            ]
            terms.append(
                {
                    "name": shape.name,
                    "features": list(shape.features),
                    "importance": float(importance),
                    "axes": axes,
                    "scores": shape.values.tolist(),
                    "deviations": shape.deviations.tolist(),
                    "weights": shape.weights.tolist(),
                }
            )
        classes = getattr(self, "classes_", None)
        return {
            "intercept": np.asarray(self.intercept_).tolist(),
            "link": self.link_,
            "classes": None if classes is None else classes.tolist(),
            "terms": terms,
        }

    def explain_local(self, X, y=None, *, init_score=None):
        """Return how the raw score of each row comes about, as plain lists and numbers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), default=None
            Targets, to stand beside the predictions.
        init_score : array-like of shape (n_samples,) or (n_samples, n_classes), or fitted estimator, default=None
            Raw scores that the terms add to, as in `predict`.

        Returns
        -------
        list of dict
            One dict per row: "names" of the terms, "values" of their features (a list for a pair), "scores" of the
            terms (a list per term with several classes), "intercept", "raw_score" (intercept, scores and `init_score`
            added up), "predicted" (the expected value or the class probabilities) and "actual" (None without y).

        Raises
        ------
        ValueError
            If X and y have different numbers of rows.
        """
        scores = self.eval_terms(X)
        if y is not None:
            y = column_or_1d(y, warn=True).tolist()
            if len(y) != len(scores):
                raise ValueError(f"X and y have different numbers of rows: {len(scores)} and {len(y)}.")
        columns = [_column(X, feature) for feature in range(self.n_features_in_)]
        intercept = np.asarray(self.intercept_).tolist()
        raw = self._one_or_many(self._raw(X, init_score)).tolist()
        predicted = getattr(self, "predict_proba", self.predict)(X, init_score=init_score).tolist()
        found = []
        for row in range(len(scores)):
            values = [[columns[feature][row] for feature in features] for features in self.term_features_]
            found.append(
                {
                    "names": list(self.term_names_),
                    "values": [value[0] if len(value) == 1 else value for value in values],
                    "scores": scores[row].tolist(),
                    "intercept": intercept,
                    "raw_score": raw[row],
                    "predicted": predicted[row],
                    "actual": None if y is None else y[row],
                }
            )
        return found

    # ---- editing

    def copy(self):
        """Return a copy that shares nothing with the model.

        Returns
        -------
        estimator
            Fitted as the model is.
        """
        return copy.deepcopy(self)

    def monotonize(self, term, increasing="auto"):
        """Replace the curve of a numeric feature by its weighted isotonic fit, in place.

        The curve of every bag is fitted too, in the same direction, so that uncertainties are those of monotone curves.
        The weighted means stay, and so do the cells of missing and unseen values. The mean of the bags' curves may
        then differ a little from the curve of the model.

        Parameters
        ----------
        term : int or str
            Position or name of a term of one numeric feature.
        increasing : bool or "auto", default="auto"
            Direction; "auto" takes the one that fits better.

        Returns
        -------
        estimator
            The model itself.

        Raises
        ------
        ValueError
            If the term is a pair or belongs to a categorical feature, if there are more than two classes, or if
            `increasing` is something else.
        """
        check_is_fitted(self)
        position = _editing.resolve_item(term, self.term_names_, "term")
        name, features = self.term_names_[position], self.term_features_[position]
        if not (isinstance(increasing, (bool, np.bool_)) or (isinstance(increasing, str) and increasing == "auto")):
            raise ValueError(f"increasing must be True, False or 'auto', got {increasing!r}.")
        if len(features) > 1:
            raise ValueError(f"The term {name!r} is a pair; only terms of one feature can be made monotone.")
        if self._category_maps[features[0]] is not None:
            raise ValueError(f"The feature {name!r} is categorical; its categories have no order.")
        if self._class_labels is not None:
            raise ValueError("monotonize needs a model with one score per row; this one has a score per class.")
        weights = self.bin_weights_[position][1:-1]
        scores, bagged = self.term_scores_[position], self.bagged_scores_[position]
        if not isinstance(increasing, (bool, np.bool_)):
            increasing = _editing.better_direction(scores[1:-1], weights)
        for curve in (scores, *bagged):
            curve[1:-1] = _editing.isotonic(curve[1:-1], weights, bool(increasing))
        self._deviations = None
        return self

    def remove_terms(self, terms):
        """Remove terms, in place; the others and the intercept stay as they are.

        Parameters
        ----------
        terms : int, str, array-like of int or str, or array-like of bool of shape (n_terms,)
            Positions or names of the terms to remove, or a mask that is True for them.

        Returns
        -------
        estimator
            The model itself.

        Raises
        ------
        ValueError
            If there is no such term.
        """
        check_is_fitted(self)
        removed = set(_editing.resolve_items(terms, self.term_names_, "term"))
        self._keep_terms([position for position in range(len(self.term_names_)) if position not in removed])
        return self

    def remove_features(self, features):
        """Remove features with all their terms, in place; the model then expects rows without these columns.

        Parameters
        ----------
        features : int, str, array-like of int or str, or array-like of bool of shape (n_features,)
            Column numbers or names, or a mask that is True for the columns to remove.

        Returns
        -------
        estimator
            The model itself.

        Raises
        ------
        ValueError
            If there is no such feature, or if none would be left.
        """
        check_is_fitted(self)
        removed = set(_editing.resolve_items(features, self._feature_names(), "feature"))
        if len(removed) == self.n_features_in_:
            raise ValueError("All features would be removed; a model needs one at least.")
        kept = [feature for feature in range(self.n_features_in_) if feature not in removed]
        terms = [t for t, used in enumerate(self.term_features_) if removed.isdisjoint(used)]
        mapper = self._mapper.take(kept)
        self._keep_terms(terms)
        place = {feature: position for position, feature in enumerate(kept)}
        self.term_features_ = [tuple(place[feature] for feature in used) for used in self.term_features_]
        self._mapper = mapper
        self._category_maps = tuple(self._category_maps[feature] for feature in kept)
        for name in ("feature_types_in_", "histogram_edges_", "histogram_weights_"):
            setattr(self, name, [getattr(self, name)[feature] for feature in kept])
        self.feature_bounds_ = self.feature_bounds_[kept]
        if hasattr(self, "feature_names_in_"):
            self.feature_names_in_ = self.feature_names_in_[kept]
        self.n_features_in_ = len(kept)
        # unnamed columns are counted anew
        names = self._feature_names()
        self.term_names_ = [" & ".join(names[feature] for feature in used) for used in self.term_features_]
        return self

    def scale_term(self, term, factor):
        """Multiply the scores of a term, in place, those of the bags too.

        Parameters
        ----------
        term : int or str
            Position or name of the term.
        factor : float
            Finite factor; 0 silences the term.

        Returns
        -------
        estimator
            The model itself.

        Raises
        ------
        ValueError
            If there is no such term or the factor is not finite.
        """
        check_is_fitted(self)
        position = _editing.resolve_item(term, self.term_names_, "term")
        is_number = isinstance(factor, numbers.Real) and not isinstance(factor, bool)
        if not is_number or not math.isfinite(factor):
            raise ValueError(f"factor must be a finite number, got {factor!r}.")
        self.term_scores_[position] *= factor
        self.bagged_scores_[position] *= factor
        self._deviations = None
        return self

    def sweep(self, *, features=False):
        """Remove the terms whose scores are all 0, in place; predictions stay.

        Parameters
        ----------
        features : bool, default=False
            Remove the features without terms too; the model then expects rows without these columns. One feature stays
            in any case.

        Returns
        -------
        estimator
            The model itself.
        """
        check_is_fitted(self)
        tensors = zip(self.term_scores_, self.bagged_scores_, strict=True)
        self._keep_terms([t for t, (scores, bagged) in enumerate(tensors) if scores.any() or bagged.any()])
        if features:
            used = set().union(*self.term_features_) or {0}
            self.remove_features([feature not in used for feature in range(self.n_features_in_)])
        return self

    def _keep_terms(self, positions):
        for name in ("term_features_", "term_names_", "term_scores_", "bagged_scores_", "bin_weights_"):
            setattr(self, name, [getattr(self, name)[position] for position in positions])
        if getattr(self, "_inference", None) is not None:
            self._inference = self._inference.take(positions)
        self._deviations = None


def _importance(scores, weights, importance_type):
    """Importance of one term; the mean over classes where the scores have one more dimension than the weights."""
    known = weights > 0
    scores, weights = scores[known], weights[known]
    # Sums of products, not matrix products: these depend on the processor.
    share = (weights / weights.sum()).reshape(-1, *[1] * (scores.ndim - 1))
    if importance_type == "min_max":
        return np.mean(scores.max(axis=0) - scores.min(axis=0))
    if importance_type == "std":
        offset = scores - (share * scores).sum(axis=0)
        return np.mean(np.sqrt((share * offset * offset).sum(axis=0)))
    return np.mean((share * np.abs(scores)).sum(axis=0))


def _column(X, feature):
    """Values of a column as a list of Python objects."""
    if hasattr(X, "iloc"):
        return X.iloc[:, feature].tolist()
    if is_frame(X):
        return X[:, feature].to_list()
    return np.asarray(X)[:, feature].tolist()
