"""Categorical columns: which they are, their levels, and the numbers that stand for the levels.

Categorical columns come as a dtype of a data frame or are named by ``categorical_features``; they become the position
of the value among the levels seen in training, NaN when missing or never seen. Levels are sorted, numbers first and in
numeric order, then texts in the order of their code points, so neither the order of categories in a frame nor the order
of rows matters. Truth values count as the numbers 0 and 1, values that are neither numbers nor texts as their text.
"""

import itertools
import numbers

import numpy as np
from sklearn.utils import check_array

# float32 stays, everything else becomes float64; NaN and infinities are allowed.
X_CHECKS = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}

# Names of column types of frames, as `dtype_names` gives them.
CATEGORY_TYPES = ["category", "Categorical", "Enum"]
TEXT_TYPES = ["string", "large_string", "string_view", "str", "String", "Utf8"]
OBJECT_TYPES = ["object", "Object"]


def level_names(levels):
    """Return the levels of a categorical column, an entry of ``category_maps``, in the order of their positions."""
    known_numbers, texts = levels
    return [int(number) if number.is_integer() else number for number in known_numbers.tolist()] + list(texts)


def is_frame(X):
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "shape")


def dtype_names(X):
    """Names of the column types of a frame without parameters, such as "category", "Enum" or "datetime64"."""
    return [str(dtype).split("[")[0].split("(")[0] for dtype in X.dtypes]


def categorical_mask(X, categorical_features, with_texts=False):
    """Find the categorical columns.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Training rows as passed by the user.
    categorical_features : "from_dtype", array-like of bool, int or str, or None
        "from_dtype": the columns of a frame whose type is categorical. Else a mask, column numbers or column names.
    with_texts : bool, default=False
        With "from_dtype", columns of texts are categorical too: those of a type for texts, and those of Python objects
        unless all of these are numbers or missing.

    Returns
    -------
    ndarray of shape (n_features,) or None
        bool mask; None when there are no categorical columns.
    """
    if categorical_features is None:
        return None
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        if not is_frame(X):
            return None
        names = dtype_names(X)
        mask = np.isin(names, CATEGORY_TYPES)
        if with_texts:
            for feature in np.flatnonzero(np.isin(names, TEXT_TYPES + OBJECT_TYPES)):
                mask[feature] = names[feature] in TEXT_TYPES or _holds_texts(take_column(X, feature))
        return mask if mask.any() else None
    shape = getattr(X, "shape", None) or np.shape(X)
    if len(shape) != 2:
        return None  # the validation of X has the right words for it
    mask = _chosen_columns(np.asarray(categorical_features), shape[1], list(X.columns) if is_frame(X) else None)
    return mask if mask.any() else None


def _holds_texts(column):
    return any(isinstance(_level(value), str) for value in np.asarray(column).tolist())


def take_column(X, feature):
    """Return a column of a frame or an array by its number."""
    return X.iloc[:, feature] if hasattr(X, "iloc") else X[:, int(feature)]


def _chosen_columns(chosen, n_features, names):
    """Mask of the columns named by an array of bool, int or str."""
    mask = np.zeros(n_features, dtype=bool)
    if chosen.size == 0:
        return mask
    if chosen.dtype.kind == "b":
        if chosen.shape != mask.shape:
            raise ValueError(f"categorical_features as a mask must have shape ({n_features},), got {chosen.shape}")
        return chosen
    if chosen.dtype.kind in "iu":
        if chosen.min() < 0 or chosen.max() >= n_features:
            raise ValueError(f"categorical_features as column numbers must lie in [0, {n_features - 1}], got {chosen}")
        mask[chosen] = True
        return mask
    if not all(isinstance(name, str) for name in chosen.ravel()):
        raise ValueError(f"categorical_features must be an array-like of bool, int or str, got {chosen!r}")
    if names is None:
        raise ValueError("categorical_features gives names, but X has no column names; pass a mask or column numbers.")
    unknown = [str(name) for name in chosen.ravel() if name not in names]
    if unknown:
        raise ValueError(f"categorical_features names columns that X does not have: {unknown}. X has {names}")
    mask[[names.index(name) for name in chosen.ravel()]] = True
    return mask


def as_table(estimator, X):
    """X itself if it is a frame or an array, else as an object array: numbers among texts stay numbers."""
    if is_frame(X):
        return X
    table = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if table.ndim != 2:
        check_array(X, estimator=estimator, input_name="X", **X_CHECKS)  # raises
    return table


def encode(estimator, X, categorical, maps, unknown=np.nan):
    """Numeric matrix of X with level positions in the categorical columns; levels are made where maps has None."""
    numeric = np.setdiff1d(np.arange(X.shape[1]), categorical)
    values = np.empty((X.shape[0], 0))
    if numeric.size:
        part = X.iloc[:, numeric] if hasattr(X, "iloc") else X[:, numeric.tolist()]
        values = check_array(part, estimator=estimator, input_name="X", **X_CHECKS)
    matrix = np.empty(X.shape, dtype=values.dtype, order="F")
    matrix[:, numeric] = values
    for feature in categorical:
        distinct, codes = _factorize(take_column(X, feature))
        if maps[feature] is None:
            maps[feature] = _make_levels(distinct)
        # Code -1, missing, takes the last entry.
        matrix[:, feature] = np.append(_positions(distinct, maps[feature], unknown), np.nan)[codes]
    return matrix, tuple(maps)


def _factorize(column):
    """Distinct values of a column, each as a float, a str or None for missing, and which of them each row has."""
    kind = str(getattr(column, "dtype", "")).split("(")[0]
    if kind == "category":
        return [_level(value) for value in column.cat.categories], column.cat.codes.to_numpy()
    if kind in ("Categorical", "Enum"):
        physical = np.asarray(column.to_physical().to_numpy(), dtype=np.float64)
        _, first, codes = np.unique(physical, return_index=True, return_inverse=True)
        return [_level(column[int(row)]) for row in first], codes
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        distinct, codes = np.unique(values, return_inverse=True)
    else:
        values = values.tolist()
        number = {value: position for position, value in enumerate(dict.fromkeys(values))}
        distinct, codes = number, np.fromiter(map(number.__getitem__, values), dtype=np.intp, count=len(values))
    return [_level(value) for value in distinct], codes


def _level(value):
    """Value of a category as a float or str, None when it is missing."""
    if isinstance(value, (numbers.Real, np.bool_)):
        value = float(value) + 0.0
        return None if np.isnan(value) else value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return str(value)


def _make_levels(distinct):
    known_numbers = np.unique([value for value in distinct if isinstance(value, float)])
    return known_numbers.astype(np.float64), tuple(sorted({value for value in distinct if isinstance(value, str)}))


def _positions(distinct, levels, unknown):
    """Position of each distinct value among the levels, NaN for missing ones and `unknown` for those of no level."""
    position = {level: at for at, level in enumerate([*levels[0].tolist(), *levels[1]])} | {None: np.nan}
    return np.array([position.get(value, unknown) for value in distinct], dtype=np.float64)


def drop_unused_levels(X, maps):
    """Keep the levels that occur in X: others were only declared, or seen in rows of weight zero."""
    maps = list(maps)
    for feature in [f for f, levels in enumerate(maps) if levels is not None]:
        column, (known_numbers, texts) = X[:, feature], maps[feature]
        known = ~np.isnan(column)
        used = np.bincount(column[known].astype(np.intp), minlength=len(known_numbers) + len(texts)) > 0
        if used.all():
            continue
        column[known] = (np.cumsum(used) - 1)[column[known].astype(np.intp)]
        n_numbers = len(known_numbers)
        maps[feature] = known_numbers[used[:n_numbers]], tuple(itertools.compress(texts, used[n_numbers:]))
    return X, tuple(maps)
