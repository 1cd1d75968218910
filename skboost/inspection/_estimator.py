"""What the pictures ask of an additive model."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost.inspection import _style

SCORE_NAMES = {"identity": "score (units of the target)", "log": "score (log of the mean)"}


def fitted_shapes(estimator):
    """Return the terms of a fitted additive model, or raise an error that says what was passed instead."""
    check_additive(estimator)
    return estimator.shape_functions()


def check_additive(estimator):
    """Raise an error unless the estimator is a fitted additive model."""
    if isinstance(estimator, type) or not hasattr(estimator, "shape_functions"):
        kind = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(f"estimator must be a fitted EBMRegressor or EBMClassifier, got {kind}.")
    check_is_fitted(estimator)


def find_term(shapes, term):
    """Return the shape of a term given by its index or its name."""
    names = [shape.name for shape in shapes]
    if isinstance(term, str):
        if term in names:
            return shapes[names.index(term)]
        raise ValueError(f"term {term!r} does not exist; the terms are {_listed(names)}.")
    if isinstance(term, (bool, np.bool_)) or not isinstance(term, (int, np.integer)):
        raise TypeError(f"term must be the index or the name of a term, got {term!r}.")
    if not -len(names) <= term < len(names):
        raise ValueError(f"term {term} does not exist: the model has {len(names)} terms, counted from 0.")
    return shapes[term]


def main_shape(shapes, term):
    shape = find_term(shapes, term)
    if len(shape.axes) != 1:
        raise ValueError(f"term {shape.name!r} is a pair: draw it with InteractionDisplay.")
    return shape


def pair_shape(shapes, term):
    """Return the shape of a pair given by index, name, or two names or indices of features in any order."""
    if isinstance(term, (tuple, list)):
        wanted = set(term)
        for shape in shapes:
            if len(shape.axes) == 2 and wanted in (set(shape.features), set(shape.names)) and len(term) == 2:
                return shape
        pairs = [shape.name for shape in shapes if len(shape.axes) == 2]
        raise ValueError(f"no pair of {term!r} in the model; its pairs are {_listed(pairs)}.")
    shape = find_term(shapes, term)
    if len(shape.axes) != 2:
        raise ValueError(f"term {shape.name!r} is of one feature: draw it with ShapeDisplay.")
    return shape


def class_labels(estimator):
    """Return the class labels as a list, None for a regressor."""
    labels = getattr(estimator, "classes_", None)
    return None if labels is None else list(labels)


def score_name(estimator):
    """Return the name of the scale on which terms add up."""
    labels = class_labels(estimator)
    if labels is None:
        return SCORE_NAMES.get(getattr(estimator, "link_", None), "score")
    if len(labels) == 2:
        return f"score (log-odds of {_style.shorten(labels[1])})"
    return "score (log-probability up to a constant)"


def _listed(names):
    """Return names for an error message, the first twenty of them."""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return (", ".join(map(repr, names[:20])) or "none") + more
