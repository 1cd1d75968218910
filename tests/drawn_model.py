"""An additive model built by hand, with the attributes of a fitted one that pictures are made from."""

import numpy as np
from sklearn.base import BaseEstimator

from skboost.ebm._shapes import Axis, TermShape


def numeric(name, edges, lower, upper, feature=0):
    return Axis(feature, name, "numeric", np.asarray(edges, dtype=float), (), lower, upper)


def categorical(name, levels, feature=0):
    return Axis(feature, name, "categorical", np.empty(0), tuple((level,) for level in levels), np.nan, np.nan)


def term(axes, values, deviations=None, weights=None, classes=None):
    """Return a term; cells in the order value cells, unseen, missing; without ``weights`` these two weigh nothing."""
    values = np.asarray(values, dtype=float)
    cells = tuple(axis.n_cells for axis in axes)
    assert values.shape[: len(axes)] == cells
    if weights is None:
        weights = np.zeros(cells)
        weights[(slice(None, -2),) * len(axes)] = 1.0
    return TermShape(
        features=tuple(axis.feature for axis in axes),
        names=tuple(axis.name for axis in axes),
        axes=tuple(axes),
        values=values,
        deviations=np.zeros_like(values) if deviations is None else np.asarray(deviations, dtype=float),
        weights=np.asarray(weights, dtype=float),
        classes=None if classes is None else np.asarray(classes),
    )


class DrawnModel(BaseEstimator):
    """The terms with what a fitted estimator has beside them."""

    def __init__(self, shapes, *, intercept=0.0, classes=None, link="identity", n_bags=4):
        self.shapes = shapes
        self.intercept_ = intercept
        self.link_ = link
        self.bag_weights_ = np.ones(n_bags)
        self.term_names_ = [shape.name for shape in shapes]
        self.term_features_ = [shape.features for shape in shapes]
        if classes is not None:
            self.classes_ = np.asarray(classes)

    def fit(self, X, y):
        raise NotImplementedError

    def __sklearn_is_fitted__(self):
        return True

    def shape_functions(self):
        return self.shapes

    def shape(self, term):
        assert 0 <= term < len(self.shapes)
        return self.shapes[term]

    def term_importances(self, importance_type="avg_weight"):
        assert importance_type in {"avg_weight", "min_max", "std"}
        return np.array([self._importance(shape) for shape in self.shapes])

    def _importance(self, shape):
        scores = np.abs(shape.values) if shape.classes is None else np.abs(shape.values).mean(axis=-1)
        return (scores * shape.weights).sum() / max(shape.weights.sum(), 1.0)

    def eval_terms(self, X):
        return np.stack([shape.value(*(X[:, f] for f in shape.features)) for shape in self.shapes], axis=1)

    def decision_function(self, X):
        return self.intercept_ + self.eval_terms(X).sum(axis=1)

    def predict(self, X):
        score = self.decision_function(X)
        if not hasattr(self, "classes_"):
            return np.exp(score) if self.link_ == "log" else score
        return self.classes_[(score > 0).astype(int) if score.ndim == 1 else score.argmax(axis=1)]

    def predict_proba(self, X):
        score = self.decision_function(X)
        score = np.stack([np.zeros_like(score), score], axis=1) if score.ndim == 1 else score
        odds = np.exp(score)
        return odds / odds.sum(axis=1, keepdims=True)
