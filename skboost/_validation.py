"""From what users pass to plain arrays: X, y, sample weights, categories, constraints.

Missing values are NaN, None or NA; infinities are ordinary numbers at the ends of the order. Categorical columns become
numbers in ``_categories``.
"""

import contextlib
import datetime
import itertools
import numbers
from dataclasses import dataclass

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_consistent_length, check_X_y, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, validate_data

from skboost import _compat
from skboost._binning import grid_weights
from skboost._categories import (
    OBJECT_TYPES,
    X_CHECKS,
    as_table,
    categorical_mask,
    drop_unused_levels,
    dtype_names,
    encode,
    is_frame,
    take_column,
)

# Column types of dates and times, in lower case and without parameters.
TEMPORAL = {"datetime64", "timedelta64", "period", "timestamp", "date32", "date64", "time32", "time64"}
TEMPORAL |= {"date", "datetime", "time", "duration"}
TEMPORAL_OBJECTS = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
# Weights beyond this range would leave the arithmetic of sums and quotients.
LARGEST_WEIGHT = 1e100


@dataclass(frozen=True)
class TrainingData:
    """Validated rows of positive weight.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        float32 or float64; categorical columns hold level positions.
    y : ndarray of shape (n_samples,)
        float64 target, or position of the class in `classes`.
    sample_weight : ndarray of shape (n_samples,) or None
        Positive float64 weights; None when all are 1.
    is_categorical : ndarray of shape (n_features,)
        1 for categorical columns, uint8.
    category_maps : tuple of length n_features
        None for a numeric column, else the pair (numbers, texts) of its levels: a float64 array and a tuple of str.
    feature_names : ndarray of shape (n_features,) or None
        Column names when all are strings.
    classes : ndarray of shape (n_classes,) or None
        Sorted class labels of a classifier.
    kept : ndarray of shape (n_passed,) or None
        True for the rows passed by the user that these are; None when no row was dropped.
    """

    X: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray | None
    is_categorical: np.ndarray
    category_maps: tuple
    feature_names: np.ndarray | None
    classes: np.ndarray | None
    kept: np.ndarray | None = None

    @property
    def n_features(self):
        """Number of columns of X."""
        return self.X.shape[1]

    @property
    def n_levels(self):
        """Number of levels of each categorical column, 0 for numeric ones, int64 of shape (n_features,)."""
        counts = [0 if levels is None else len(levels[0]) + len(levels[1]) for levels in self.category_maps]
        return np.array(counts, dtype=np.int64)


@contextlib.contextmanager
def unchanged_on_failure(estimator):
    """Leave an estimator as it was when a fit fails: validation writes columns and categories early on."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


# ---- rows and targets ------------------------------------------------------------------------------------------------


def check_training_data(estimator, X, y, sample_weight=None, texts_are_categories=False):
    """Validate the arguments of `fit`.

    Sets ``n_features_in_``, ``feature_names_in_`` (for string column names) and ``_category_maps`` on the estimator;
    the last one is what `check_X` encodes categories with. Rows of weight zero are dropped before levels or classes are
    looked at.

    Parameters
    ----------
    estimator : estimator
        Its ``categorical_features``, if it has such a parameter, says which columns are categorical.
    X : array-like of shape (n_samples, n_features)
        Numbers, or a pandas or polars data frame.
    y : array-like of shape (n_samples,)
        Target, class labels for a classifier.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights, at least 0.
    texts_are_categories : bool, default=False
        With ``categorical_features="from_dtype"``, columns of texts of a frame are categorical too.

    Returns
    -------
    TrainingData
        The validated rows.
    """
    _refuse_unsupported(X)
    classifier = is_classifier(estimator)
    mask = categorical_mask(X, getattr(estimator, "categorical_features", None), texts_are_categories)
    if mask is None:
        with _advice_on_strings():
            X, y = validate_data(estimator, X, y, y_numeric=not classifier, **X_CHECKS)
        mask, maps = np.zeros(X.shape[1], dtype=bool), (None,) * X.shape[1]
    else:
        X = as_table(estimator, X)
        validate_data(estimator, X, y, skip_check_array=True)
        X, maps = encode(estimator, X, np.flatnonzero(mask), [None] * len(mask))
        X, y = check_X_y(X, y, y_numeric=not classifier, estimator=estimator, **X_CHECKS)
    X, y, sample_weight, kept = _drop_weightless(X, y, sample_weight)
    if any(levels is not None for levels in maps):
        X, maps = drop_unused_levels(X, maps)
    estimator._category_maps = maps
    classes, y = _encode_classes(y) if classifier else (None, y)
    names = getattr(estimator, "feature_names_in_", None)
    y = np.ascontiguousarray(y, dtype=np.float64)
    return TrainingData(X, y, sample_weight, mask.astype(np.uint8), maps, names, classes, kept)


@contextlib.contextmanager
def _advice_on_strings():
    """Say what to do about columns of strings where scikit-learn only says that they are no numbers."""
    try:
        yield
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        raise ValueError(
            f"{error}. Columns of strings are categories only when they say so: convert them, as in "
            'X.astype({"name": "category"}), or name them in categorical_features.'
        ) from error


def check_X(estimator, X, unknown=np.nan):
    """Validate X for a prediction and encode its categorical columns as in training.

    Parameters
    ----------
    estimator : estimator
        Fitted through `check_training_data`.
    X : array-like of shape (n_samples, n_features)
        Rows to predict.
    unknown : float, default=NaN
        Stands for levels never seen in training; NaN makes them missing values.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        float32 or float64.
    """
    check_is_fitted(estimator)
    _refuse_unsupported(X)
    maps = estimator._category_maps
    categorical = [feature for feature, levels in enumerate(maps) if levels is not None]
    if not categorical:
        return validate_data(estimator, X, reset=False, **X_CHECKS)
    X = as_table(estimator, X)
    validate_data(estimator, X, reset=False, skip_check_array=True)
    return encode(estimator, X, np.array(categorical), list(maps), unknown)[0]


def check_validation_data(estimator, X, y, sample_weight=None, classes=None):
    """Validate a validation set given by the user; the estimator has seen `check_training_data`.

    Parameters
    ----------
    estimator : estimator
        Whose columns and categories hold.
    X : array-like of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,)
        Target.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights, at least 0.
    classes : ndarray of shape (n_classes,), default=None
        Class labels of the training set, for a classifier.

    Returns
    -------
    TrainingData
        The validated rows of positive weight.
    """
    X, y = check_X(estimator, X), column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    assert_all_finite(y, input_name="y_val")
    X, y, sample_weight, kept = _drop_weightless(X, y, sample_weight)
    if classes is not None:
        unknown = np.setdiff1d(y, classes)
        if unknown.size:
            raise ValueError(f"y_val contains classes that are not in y: {unknown.tolist()}")
        y = np.searchsorted(classes, y)
    maps = estimator._category_maps
    is_categorical = np.array([levels is not None for levels in maps], dtype=np.uint8)
    names = getattr(estimator, "feature_names_in_", None)
    y = np.ascontiguousarray(y, dtype=np.float64)
    return TrainingData(X, y, sample_weight, is_categorical, maps, names, classes, kept)


def _drop_weightless(X, y, sample_weight):
    if sample_weight is None:
        return X, y, None, None
    sample_weight = _compat.check_sample_weight(sample_weight, X)
    kept = sample_weight > 0
    if sample_weight.max() > LARGEST_WEIGHT or sample_weight[kept].min() < 1 / LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight must be 0 or lie between {1 / LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g}, got values between "
            f"{sample_weight[kept].min():g} and {sample_weight.max():g}."
        )
    if kept.all():
        kept = None
    else:
        X, y, sample_weight = X[kept], y[kept], sample_weight[kept]
    return X, y, None if np.all(sample_weight == 1) else sample_weight, kept


def n_target_columns(y):
    """Return the number of columns of a target that is not validated yet, 0 where it is no table."""
    try:
        shape = getattr(y, "shape", None) or np.asarray(y).shape
    except ValueError:
        return 0
    return shape[1] if len(shape) == 2 else 0


def _encode_classes(y):
    check_classification_targets(y)
    classes, y = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"A classifier needs at least two classes, but y has one class only: {classes.tolist()[0]!r}")
    return classes, y


def apply_class_weight(class_weight, y, classes, sample_weight=None):
    """Multiply sample weights by class weights.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weight of each class label. "balanced": inversely proportional to the summed sample weight of the class.
    y : ndarray of shape (n_samples,)
        Positions in `classes`.
    classes : ndarray of shape (n_classes,)
        Class labels.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive weights; None means 1 everywhere.

    Returns
    -------
    ndarray of shape (n_samples,) or None
        Products, 0 where the weight of a class is 0; None when all are 1. Class weights are rounded to single
        precision, so products with whole numbers are exact and weights go on being equal to repeated rows.
    """
    if class_weight is None:
        return sample_weight
    y = y.astype(np.intp)
    if isinstance(class_weight, str) and class_weight == "balanced":
        # scikit-learn's rule counts rows; here a row of weight 2 is two rows.
        totals = np.bincount(y, None if sample_weight is None else grid_weights(sample_weight), len(classes))
        factors = totals.sum() / (len(classes) * totals)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes[y])
    with np.errstate(over="ignore"):
        factors = factors.astype(np.float32).astype(np.float64)
    if not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be finite in single precision, got {class_weight!r}")
    if not (np.all(factors >= 0) and np.any(factors > 0)):
        raise ValueError(f"class_weight must be at least zero, and above zero for some class, got {class_weight!r}")
    return factors[y] if sample_weight is None else factors[y] * sample_weight


def _refuse_unsupported(X):
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a lazy frame without data; pass X.collect() instead.")
    if is_frame(X):
        kinds = [_column_kinds(X, feature, dtype) for feature, dtype in enumerate(dtype_names(X))]
        bad = [name for name, found in zip(X.columns, kinds, strict=True) if "temporal" in found]
        if bad:
            raise TypeError(
                f"X has columns of dates or times, which have no meaning as numbers: {bad}. Convert them first."
            )
    else:
        kinds = [_array_kinds(X)]
        if "temporal" in kinds[0]:
            raise TypeError("X holds dates or times, which have no meaning as numbers. Convert them first.")
    if any("complex" in found for found in kinds):
        raise ValueError(f"Complex data not supported\n{X}\n")


def _column_kinds(X, feature, dtype):
    """Which of "temporal" and "complex" a column of a frame holds, by its type or by its Python objects."""
    if dtype in OBJECT_TYPES:
        return _object_kinds(take_column(X, feature))
    if dtype.lower() in TEMPORAL:
        return {"temporal"}
    return {"complex"} if dtype.startswith("complex") else set()


def _array_kinds(X):
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind == "O" and isinstance(X, np.ndarray):
        return _object_kinds(X)
    return {"m": {"temporal"}, "M": {"temporal"}, "c": {"complex"}}.get(kind, set())


def _object_kinds(values):
    kinds = set()
    for found in set(map(type, np.asarray(values, dtype=object).ravel().tolist())):
        if found.__name__ == "Period" or (issubclass(found, TEMPORAL_OBJECTS) and found.__name__ != "NaTType"):
            kinds.add("temporal")
        elif issubclass(found, numbers.Complex) and not issubclass(found, numbers.Real):
            kinds.add("complex")
    return kinds


# ---- constraints -----------------------------------------------------------------------------------------------------


def resolve_monotonic_cst(estimator, monotonic_cst, is_categorical):
    """Return monotonic constraints as an array.

    Parameters
    ----------
    estimator : estimator
        With ``n_features_in_`` and, for string column names, ``feature_names_in_``.
    monotonic_cst : array-like of int, dict of str to int, or None
        1 for increasing, -1 for decreasing, 0 for no constraint; a dict gives them by column name.
    is_categorical : ndarray of shape (n_features,)
        Categorical columns, which allow no constraint.

    Returns
    -------
    ndarray of shape (n_features,)
        int8 constraints.
    """
    constraints = _compat.check_monotonic_cst(estimator, monotonic_cst)
    bad = np.flatnonzero((constraints != 0) & (np.asarray(is_categorical) != 0))
    if bad.size:
        raise ValueError(f"Categorical features cannot have monotonic constraints, but features {bad.tolist()} have.")
    return constraints


def resolve_interaction_cst(interaction_cst, n_features):
    """Return the groups of features that may interact.

    Parameters
    ----------
    interaction_cst : {"pairwise", "no_interactions"}, sequence of collections of int, or None
        Groups of column numbers; columns in none of them form one more group. "no_interactions": every column alone;
        "pairwise": every pair.
    n_features : int
        Number of columns.

    Returns
    -------
    list of set of int, or None
        The groups; None when all features may interact.
    """
    if interaction_cst is None:
        return None
    if isinstance(interaction_cst, str):
        sizes = {"no_interactions": 1, "pairwise": 2}
        if interaction_cst not in sizes:
            raise ValueError(f"interaction_cst as a string must be one of {sorted(sizes)}, got {interaction_cst!r}")
        interaction_cst = itertools.combinations(range(n_features), min(sizes[interaction_cst], n_features))
    try:
        groups = [set(group) for group in interaction_cst]
    except TypeError:
        raise ValueError(
            f"interaction_cst must be a sequence of collections of column numbers, got {interaction_cst!r}"
        ) from None
    for group in groups:
        if not all(_is_column(member, n_features) for member in group):
            raise ValueError(
                f"interaction_cst must hold column numbers in [0, {n_features - 1}], got the group {group!r}"
            )
    rest = set(range(n_features)).difference(*groups)
    return [*groups, rest] if rest else groups


def _is_column(member, n_features):
    return isinstance(member, numbers.Integral) and not isinstance(member, bool) and 0 <= member < n_features
