"""What the pictures ask of an additive model."""

from sklearn.utils.validation import check_is_fitted

from skboost.ebm._editing import resolve_item
from skboost.inspection import _style

SCORE_NAMES = {"identity": "score (units of the target)", "log": "score (log of the mean)"}


def check_additive(estimator):
    """Raise an error unless the estimator is a fitted additive model."""
    if isinstance(estimator, type) or not hasattr(estimator, "shape_functions"):
        kind = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(f"estimator must be a fitted EBMRegressor or EBMClassifier, got {kind}.")
    check_is_fitted(estimator)


def main_shape(estimator, term):
    """Return the shape of a main term of a fitted additive model."""
    check_additive(estimator)
    position = resolve_item(term, estimator.term_names_, "term")
    if len(estimator.term_features_[position]) != 1:
        raise ValueError(f"term {estimator.term_names_[position]!r} is a pair: draw it with InteractionDisplay.")
    return estimator.shape(position)


def pair_shape(estimator, term):
    """Return the shape of a pair given by position, name, or two names or numbers of features in any order."""
    check_additive(estimator)
    pairs = positions(estimator, 2)
    if isinstance(term, (tuple, list)):
        wanted = set(term)
        for position in pairs if len(term) == 2 else []:
            shape = estimator.shape(position)
            if wanted in (set(shape.features), set(shape.names)):
                return shape
        names = [estimator.term_names_[position] for position in pairs]
        raise ValueError(f"no pair of {term!r} in the model; its pairs are {_listed(names)}.")
    position = resolve_item(term, estimator.term_names_, "term")
    if position not in pairs:
        raise ValueError(f"term {estimator.term_names_[position]!r} is of one feature: draw it with ShapeDisplay.")
    return estimator.shape(position)


def positions(estimator, n_features):
    """Return the positions of the terms of one feature, or of the pairs."""
    return [t for t, features in enumerate(estimator.term_features_) if len(features) == n_features]


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
