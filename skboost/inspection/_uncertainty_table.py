"""Rows of features from which the rows of a grid are made: some features vary, the others stay where they are put.

A grid has the type of the rows it is made from, a frame or an array. Values of categorical columns are taken from rows
that have them, so that a column keeps its type.
"""

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_array

from skboost._categories import CATEGORY_TYPES, dtype_names, is_frame
from skboost.inspection import _style

MAX_CATEGORIES = 30
# The grid goes this part of the range beyond the rows, for there uncertainty should be looked at.
MARGIN = 0.05


class GridAxis(NamedTuple):
    """One feature of a grid.

    Attributes
    ----------
    name : str
        Name of the feature.
    places : ndarray of shape (n_points,)
        Where the points stand: values of a numeric feature, 0, 1, ... for categories.
    labels : list of str or None
        Names of the categories; None for a numeric feature.
    observed : ndarray of shape (n_rows,)
        Places of the rows, NaN where they have none.
    """

    name: str
    places: np.ndarray
    labels: list | None
    observed: np.ndarray


class Table:
    """Rows of the features of a model.

    Parameters
    ----------
    estimator : estimator
        Fitted model; it may know names and categories.
    X : array-like or frame of shape (n_rows, n_features)
        Rows, usually those of the training.
    """

    def __init__(self, estimator, X):
        self.X = X if is_frame(X) or isinstance(X, np.ndarray) else np.array(X, dtype=object)
        if len(self.X.shape) != 2:
            check_array(X)  # raises
        self.n_rows, self.n_features = self.X.shape
        if self.n_rows == 0:
            raise ValueError("X must have at least one row.")
        expected = getattr(estimator, "n_features_in_", self.n_features)
        if self.n_features != expected:
            raise ValueError(f"X has {self.n_features} features, but the model was fitted with {expected}.")
        self.names = self._names(estimator)
        self.is_categorical = self._categorical(estimator)

    def _names(self, estimator):
        if is_frame(self.X):
            return list(self.X.columns)
        known = getattr(estimator, "feature_names_in_", None)
        return list(known) if known is not None else [f"feature {f}" for f in range(self.n_features)]

    def _categorical(self, estimator):
        """Return which columns are categorical: by their type, by their values, or because the model says so."""
        maps = getattr(getattr(estimator, "estimator_", estimator), "_category_maps", None)
        mask = np.zeros(self.n_features, dtype=bool)
        if maps is not None and len(maps) == self.n_features:
            mask |= [levels is not None for levels in maps]
        if is_frame(self.X):
            mask |= np.isin(dtype_names(self.X), [*CATEGORY_TYPES, "bool", "boolean", "Boolean"])
        for feature in np.flatnonzero(~mask):
            try:
                self.numbers(feature)
            except (TypeError, ValueError):
                mask[feature] = True
        return mask

    def _series(self, feature):
        if not is_frame(self.X):
            return self.X[:, feature]
        return self.X.iloc[:, feature] if hasattr(self.X, "iloc") else self.X.to_series(int(feature))

    def numbers(self, feature):
        """Return a numeric column as float64, missing values as NaN."""
        series = self._series(feature)
        if hasattr(self.X, "iloc"):
            return series.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(series, dtype=np.float64)

    def levels(self, feature):
        """Return the levels of a categorical column and, for each row, the position of its level or -1."""
        values = np.asarray(self._series(feature), dtype=object).tolist()
        levels = sorted({value for value in values if not _is_missing(value)}, key=_numbers_first)
        position = {level: k for k, level in enumerate(levels)}
        return levels, np.array([-1 if _is_missing(value) else position[value] for value in values], dtype=np.intp)

    def find(self, features, n_features, kind):
        """Return the positions of the features that vary."""
        if features is None and self.n_features == n_features:
            return list(range(n_features))
        need = f"kind={kind!r} needs {n_features} of the {self.n_features} features"
        if features is None:
            raise ValueError(f"features must be given: {need}, by name or position.")
        chosen = list(features) if isinstance(features, (list, tuple, np.ndarray)) else [features]
        positions = [self.position(feature, "features") for feature in chosen]
        if len(positions) != n_features or len(set(positions)) != n_features:
            raise ValueError(f"features must be different and {n_features} in number: {need}, got {features!r}.")
        return positions

    def position(self, feature, parameter):
        """Return the position of a feature given by name or position."""
        if isinstance(feature, str):
            if feature in self.names:
                return self.names.index(feature)
            raise ValueError(f"{parameter} names {feature!r}, which is none of the features {self.names[:20]}.")
        if isinstance(feature, (bool, np.bool_)) or not isinstance(feature, Integral):
            raise ValueError(f"{parameter} must hold names or positions of features, got {feature!r}.")
        if not 0 <= feature < self.n_features:
            raise ValueError(f"{parameter} has the position {feature}, X has {self.n_features} features.")
        return int(feature)

    def axis(self, feature, grid, n_points):
        """Return the axis of a feature; `grid` holds its values or is None for ``n_points`` of even distance."""
        name = str(self.names[feature])
        if self.is_categorical[feature]:
            return self._category_axis(feature, name)
        observed = self.numbers(feature)
        finite = observed[np.isfinite(observed)]
        if grid is None:
            if len(finite) == 0:
                raise ValueError(f"X has no finite value of the feature {name!r}: give its values as grid.")
            grid = np.linspace(*_style.padded(finite.min(), finite.max(), part=MARGIN), n_points)
        return GridAxis(name, grid, None, np.where(np.isfinite(observed), observed, np.nan))

    def _category_axis(self, feature, name):
        levels, codes = self.levels(feature)
        if not levels:
            raise ValueError(f"X has no category of the feature {name!r}.")
        counts = np.bincount(codes[codes >= 0], minlength=len(levels))
        shown = np.sort(np.argsort(-counts, kind="stable")[:MAX_CATEGORIES])
        place = np.full(len(levels) + 1, np.nan)  # the last is for the code -1
        place[shown] = np.arange(len(shown))
        if len(shown) < len(levels):
            name = f"{_style.shorten(name, 30)} ({len(levels) - len(shown)} rarer categories not shown)"
        return GridAxis(name, np.arange(len(shown), dtype=float), [str(levels[k]) for k in shown], place[codes])

    def rows(self, varying, fixed=None):
        """Return rows for a grid.

        Parameters
        ----------
        varying : dict of int to (GridAxis, ndarray of shape (n,))
            For each feature that varies its axis and, for each row to make, the number of the point on it.
        fixed : dict or None, default=None
            Values of other features, by name or position. Features in neither take their median, or their most
            frequent category.

        Returns
        -------
        ndarray or frame of shape (n, n_features)
            The rows, of the type of X.
        """
        fixed = self._fixed(varying, fixed)
        n = len(next(iter(varying.values()))[1])
        columns = []
        for feature in range(self.n_features):
            if feature in varying:
                axis, points = varying[feature]
                columns.append(self._varied(feature, axis, points))
            else:
                columns.append(self._constant(feature, n, fixed))
        if is_frame(self.X):
            return type(self.X)(dict(zip(self.names, columns, strict=True)))
        kind = np.float64 if all(np.asarray(column).dtype.kind in "fiub" for column in columns) else object
        return np.stack([np.asarray(column, dtype=kind) for column in columns], axis=1)

    def _fixed(self, varying, fixed):
        if fixed is None:
            return {}
        if not isinstance(fixed, dict):
            raise ValueError(f"fixed must be a dict of features to values or None, got {fixed!r}.")
        found = {self.position(feature, "fixed"): value for feature, value in fixed.items()}
        both = [self.names[feature] for feature in found if feature in varying]
        if both:
            raise ValueError(f"fixed must not hold the features that vary, features has {both}.")
        return found

    def _varied(self, feature, axis, points):
        if axis.labels is None:
            return axis.places[points]
        # A row of X for each category keeps the type of the column.
        first = np.array([np.flatnonzero(axis.observed == place)[0] for place in axis.places])
        return self._taken(feature, first[points])

    def _constant(self, feature, n, fixed):
        if not self.is_categorical[feature]:
            return np.full(n, self._number(feature, fixed))
        levels, codes = self.levels(feature)
        if feature in fixed:
            matches = [k for k, level in enumerate(levels) if level == fixed[feature]]
            if not matches:
                raise ValueError(
                    f"fixed gives {self.names[feature]!r} the value {fixed[feature]!r}, which no row of X has; "
                    f"its values are {levels[:20]}."
                )
            code = matches[0]
        else:
            code = int(np.argmax(np.bincount(codes[codes >= 0]))) if levels else -1
        return self._taken(feature, np.full(n, np.flatnonzero(codes == code)[0]))

    def _number(self, feature, fixed):
        if feature in fixed:
            try:
                return float(fixed[feature])
            except (TypeError, ValueError):
                raise ValueError(f"fixed must give {self.names[feature]!r} a number, got {fixed[feature]!r}.") from None
        column = self.numbers(feature)
        return np.nan if np.isnan(column).all() else float(np.nanmedian(column))

    def _taken(self, feature, index):
        series = self._series(feature)
        return series.iloc[index].reset_index(drop=True) if hasattr(self.X, "iloc") else series[index]


def check_grid(grid, default, n_axes):
    """Return (values or None, number of points) for each axis of a grid."""
    if grid is None:
        return [(None, default)] * n_axes
    if isinstance(grid, Integral) and not isinstance(grid, bool):
        if grid < 2:
            raise ValueError(f"grid must be at least 2 points, got {grid}.")
        return [(None, int(grid))] * n_axes
    parts = [grid] if n_axes == 1 else list(grid) if isinstance(grid, (list, tuple)) else []
    if len(parts) != n_axes:
        raise ValueError(f"grid must be a number of points, or values for each of the {n_axes} features, got {grid!r}.")
    return [(_grid_values(part), default) for part in parts]


def _grid_values(part):
    try:
        values = np.asarray(part, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all() or (np.diff(values) <= 0).any():
        raise ValueError(f"grid must hold at least two finite, increasing values of a feature, got {part!r}.")
    return values


def _numbers_first(level):
    return (False, float(level), "") if isinstance(level, Real) else (True, 0.0, str(level))


def _is_missing(value):
    """Return whether a value is None, NaN or NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True
