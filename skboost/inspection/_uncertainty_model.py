"""What pictures of uncertainty ask of a model: its record, the quantity to draw, names and units."""

import inspect

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost.inspection import _style

QUANTITIES = ("knowledge", "data", "total", "support")
NO_SPREAD = "the model predicts no spread; use quantity='knowledge', or a model with loss='gaussian'"
NO_SUPPORT = "this model cannot say what share of it has seen data at a row; use quantity='knowledge'"
WHY_NONE = {"data": NO_SPREAD, "total": NO_SPREAD, "support": NO_SUPPORT}


def check_uncertain(estimator):
    """Raise an error unless the estimator is fitted and predicts uncertainty."""
    if isinstance(estimator, type) or not hasattr(estimator, "predict_uncertainty"):
        kind = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(
            f"estimator must be a fitted model with the method predict_uncertainty, got {kind}. Of a pipeline pass the "
            "last step, and rows that the steps before have transformed."
        )
    check_is_fitted(estimator)
    if (n_outputs := getattr(estimator, "n_outputs_", 1)) > 1:
        raise ValueError(f"Pictures show one target or label, {type(estimator).__name__} was fitted with {n_outputs}.")


def members_argument(estimator, n_members):
    """Return the keywords that ask for a number of members, none for None."""
    if n_members is None:
        return {}
    if "n_members" not in inspect.signature(estimator.predict_uncertainty).parameters:
        raise ValueError(
            f"n_members must be None for {type(estimator).__name__}: its predict_uncertainty does not take a number."
        )
    return {"n_members": n_members}


def has_members(estimator):
    """Return whether the predictions of the members can be had."""
    return hasattr(estimator, "predict_virtual_ensembles")


def column_of(uncertainty, quantity):
    """Return a quantity of the record by its name, or raise ValueError where it is None."""
    column = getattr(uncertainty, quantity)
    if column is None:
        raise ValueError(f"quantity={quantity!r} does not exist here: {WHY_NONE[quantity]}.")
    return np.asarray(column, dtype=np.float64)


def check_quantity(quantity, allowed=QUANTITIES):
    """Raise ValueError unless the name is one of those allowed."""
    if not isinstance(quantity, str) or quantity not in allowed:
        raise ValueError(f"quantity must be one of {allowed}, got {quantity!r}.")


def quantity_name(quantity, is_classifier, target=None):
    """Return a quantity with its unit, for an axis."""
    if quantity == "support":
        return "support (share of the model)"
    return f"{quantity} (nats)" if is_classifier else in_units(f"{quantity}: variance", target, squared=True)


def in_units(what, target, *, squared=False):
    """Return what is measured with its unit; ``target`` is the name of the target or None."""
    unit = "squared units" if squared else "units"
    if target is None:
        return f"{what} ({unit} of the target)"
    return f"{what} of {target}" + (", squared units" if squared else "")


def name_of(y):
    """Return the name of a column of targets, shortened, or None."""
    name = getattr(y, "name", None)
    return None if name is None or str(name) == "" else _style.shorten(name)


def chosen_class(classes, class_label):
    """Return the position of the class to draw; the second of two by default."""
    if classes is None:
        if class_label is not None:
            raise ValueError(f"class_label must be None for a regressor, got {class_label!r}.")
        return None
    labels = np.asarray(classes).tolist()
    if class_label is None:
        if len(labels) == 2:
            return 1
        raise ValueError(f"class_label must be given with more than two classes: one of {labels}.")
    if class_label not in labels:
        raise ValueError(f"class_label must be one of {labels}, got {class_label!r}.")
    return labels.index(class_label)


def least_support(support):
    """Return the lower end of a scale of support: it seldom falls far below 1."""
    low = float(np.min(support))
    return low if low < 1.0 else 0.0


def class_words(classes):
    """Return labels of classes for a legend; many of them must be short."""
    return _style.shorten_all(list(classes), 12 if len(classes) > 4 else _style.LONGEST)


def class_positions(y, classes):
    """Return the position of each label among the classes."""
    labels = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
    values = np.asarray(y).ravel().tolist()
    unknown = sorted({str(value) for value in values if value not in labels})
    if unknown:
        raise ValueError(f"y has labels that the model does not know: {unknown[:5]}; its classes are {list(labels)}.")
    return np.array([labels[value] for value in values], dtype=np.intp)


def check_length(y, n_rows):
    """Raise ValueError unless there is one target per row."""
    shape = np.shape(y)
    if len(shape) != 1 or shape[0] != n_rows:
        raise ValueError(f"y must hold one target per row of X, shape ({n_rows},), got shape {shape}.")


def targets(y, n_rows, classes):
    """Return targets as numbers, those of a classifier as positions of classes; None for None."""
    if y is None:
        return None
    check_length(y, n_rows)
    if classes is not None:
        return class_positions(y, classes)
    y = np.asarray(y, dtype=np.float64)
    if not np.isfinite(y).all():
        raise ValueError("y must be finite.")
    return y
