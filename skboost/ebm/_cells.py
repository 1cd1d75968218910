"""From the columns of X to cells: the grid on which every term of an additive model is a table of values.

Column j has ``n_cells[j]`` cells. Cell 0 holds missing values (NaN), the value cells 1, 2, ... follow, and the last
cell is for levels never seen in training; it exists for every column and stays empty in numeric ones. Pairs of columns
use coarser cells, unions of these, so that a term of two columns can hand its main effects to the terms of one.
"""

import numbers

import numpy as np

from skboost import _storage
from skboost._binning import as_matrix, grid_weights, heaviest_levels
from skboost._engine import binning, cells

FORMAT_VERSION = 1
SMALLEST_MAX_BINS = 4
LARGEST_MAX_BINS = 65536
NUMERIC = -1
_DTYPES = {
    "n_levels": np.int64,
    "cut_values": np.float64,
    "cut_offset": np.int64,
    "coarse_cells": np.uint16,
    "cell_offset": np.int64,
}


class CellMapper:
    """Map the columns of a numeric matrix to cells of 16 bits, fine ones for main effects and coarse ones for pairs.

    Numeric columns: with no more distinct values than value cells there is a cut at the middle of every pair of
    neighbours. With more, cells of nearly equal weight: a value that alone weighs more than an even share has a cell of
    its own, the other cells are dealt to the runs of values between such values by weight. A value x falls in cell 1 +
    (number of cuts at most x), so a value equal to a cut goes up. Infinities are ordinary numbers at the ends. A column
    without values has one value cell. The coarse cells come from the same rule, applied to the value cells and their
    weights, so the cuts of a pair are some of the cuts of the main effect.

    Categorical columns hold positions 0, 1, ... of levels. Every level has a cell of its own (a column without levels
    has one value cell all the same); any other number, such as infinity, falls in the last cell. With more levels than
    coarse cells the heaviest (at equal weight those of smaller position) keep a coarse cell of their own and all others
    share the last value cell.

    Neither the order of the rows nor the number of threads has an influence, and rows of a whole-number weight w count
    exactly as w copies: all rows are used, and weights lie on a grid on which sums are exact.

    Parameters
    ----------
    max_bins : int, default=1024
        Largest number of cells of a numeric column, from 4 to 65536; the two cells at the ends are counted.
    max_interaction_bins : int, default=64
        Largest number of coarse cells of any column, counted alike.

    Attributes
    ----------
    n_levels : ndarray of shape (n_features,)
        Number of levels of the categorical columns, -1 for numeric ones, int64.
    cut_values : ndarray of shape (n_cuts,)
        Cuts of all numeric columns one after the other, ascending within a column, float64.
    cut_offset : ndarray of shape (n_features + 1,)
        Column j has the cuts ``cut_offset[j]:cut_offset[j + 1]``, int64.
    coarse_cells : ndarray of shape (n_cells.sum(),)
        Coarse cell of each cell of all columns one after the other, uint16.
    cell_offset : ndarray of shape (n_features + 1,)
        Column j has the cells ``cell_offset[j]:cell_offset[j + 1]``, int64.
    """

    def __init__(self, max_bins=1024, max_interaction_bins=64):
        self.max_bins = _check_max_bins("max_bins", max_bins)
        self.max_interaction_bins = _check_max_bins("max_interaction_bins", max_interaction_bins)

    def __getstate__(self):
        return {"format": FORMAT_VERSION, **vars(self)}

    def __setstate__(self, state):
        _storage.check_format(state, FORMAT_VERSION, "cell mapper")
        for name in ("max_bins", "max_interaction_bins"):
            value = state.get(name)
            in_range = isinstance(value, numbers.Integral) and SMALLEST_MAX_BINS <= value <= LARGEST_MAX_BINS
            _require(in_range, f"{name} is out of range")
            setattr(self, name, int(value))
        if state.keys() - {"format", "max_bins", "max_interaction_bins"}:
            for name, dtype in _DTYPES.items():
                setattr(self, name, _storage.stored_array("cell mapper", name, state.get(name), dtype))
            _check_tables(self)

    def fit(self, X, sample_weight=None, is_categorical=None, n_levels=None, n_threads=1):
        """Find the cuts of numeric columns and the coarse cells of all.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            float32 or float64 with any strides; read in place.
        sample_weight : ndarray of shape (n_samples,), default=None
            Positive weights: rows of weight zero must have been dropped. None means 1 everywhere.
        is_categorical : ndarray of shape (n_features,), default=None
            True where the column holds positions of levels. None: nowhere.
        n_levels : array-like of shape (n_features,), default=None
            Number of levels of the categorical columns; entries of numeric columns are not read. None: one more than
            the largest position.
        n_threads : int, default=1
            Number of threads; no influence on the result.

        Returns
        -------
        CellMapper
            The mapper itself.

        Raises
        ------
        ValueError
            If a categorical column has more than 65534 levels.
        """
        X = as_matrix(X)
        n_features = X.shape[1]
        weights = None if sample_weight is None else grid_weights(sample_weight)
        skip = np.zeros(n_features) if is_categorical is None else is_categorical
        skip = np.ascontiguousarray(skip, dtype=bool)
        if skip.shape != (n_features,):
            raise ValueError(f"is_categorical must have shape ({n_features},), got {skip.shape}")
        cuts, n_cuts, totals = binning.find_cells(X, weights, skip.view(np.uint8), self.max_bins - 2, n_threads)
        self.n_levels = np.full(n_features, NUMERIC)
        coarse = []
        for feature in range(n_features):
            if skip[feature]:
                n_known = None if n_levels is None else int(n_levels[feature])
                level_totals = _level_totals(feature, X[:, feature], weights, n_known)
                self.n_levels[feature] = len(level_totals)
                values = heaviest_levels(level_totals, self.max_interaction_bins - 2, np.uint16)
            else:
                values = _coarse_values(totals[feature, : n_cuts[feature] + 1], self.max_interaction_bins - 2)
            coarse.append(_with_ends(values))
        self._set_tables([row[:n] for row, n in zip(cuts, n_cuts, strict=True)], coarse)
        return self

    def transform(self, X, n_threads=1):
        """Map X to cells.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            float32 or float64 with any strides; read in place.
        n_threads : int, default=1
            Number of threads; no influence on the result.

        Returns
        -------
        ndarray of shape (n_features, n_samples)
            Cells, uint16, one contiguous row per column of X.
        """
        return cells.transform(as_matrix(X), self.cut_values, self.cut_offset, self.n_levels, n_threads)

    @property
    def n_features(self):
        """Number of columns seen in `fit`."""
        return len(self.n_levels)

    @property
    def is_categorical(self):
        """True for categorical columns, bool of shape (n_features,)."""
        return self.n_levels != NUMERIC

    @property
    def n_cells(self):
        """Number of cells of each column, int64 of shape (n_features,)."""
        return np.diff(self.cell_offset)

    @property
    def n_coarse(self):
        """Number of coarse cells of each column, int64 of shape (n_features,)."""
        return self.coarse_cells[self.cell_offset[1:] - 1].astype(np.int64) + 1

    def cuts(self, feature):
        """Return the ascending cuts of a column, float64 (none for a categorical one)."""
        return self.cut_values[slice(*self.cut_offset[feature : feature + 2])]

    def coarse(self, feature):
        """Return the coarse cell of each cell of a column, uint16 of shape (n_cells[feature],)."""
        return self.coarse_cells[slice(*self.cell_offset[feature : feature + 2])]

    def coarse_cuts(self, feature):
        """Return those cuts of a column that also separate coarse cells, float64."""
        cuts = self.cuts(feature)
        return cuts[np.diff(self.coarse(feature)[1:-1]) > 0] if len(cuts) else cuts

    def take(self, features):
        """Return the mapper of some of the columns.

        Parameters
        ----------
        features : sequence of int
            Columns to keep, in their new order.

        Returns
        -------
        CellMapper
            A mapper that shares no array with this one.
        """
        features = np.asarray(features, dtype=np.intp)
        mapper = CellMapper(self.max_bins, self.max_interaction_bins)
        mapper.n_levels = self.n_levels[features]
        mapper._set_tables([self.cuts(feature) for feature in features], [self.coarse(feature) for feature in features])
        return mapper

    def _set_tables(self, cuts, coarse):
        """Store the cuts and the coarse cells of the columns."""
        self.cut_values = np.concatenate([np.empty(0), *cuts])
        self.cut_offset = _offsets(cuts)
        self.coarse_cells = np.concatenate([np.empty(0, dtype=np.uint16), *coarse])
        self.cell_offset = _offsets(coarse)


# ---- making ----------------------------------------------------------------------------------------------------------


def _check_max_bins(name, value):
    if not SMALLEST_MAX_BINS <= value <= LARGEST_MAX_BINS:
        raise ValueError(f"{name} must lie between {SMALLEST_MAX_BINS} and {LARGEST_MAX_BINS}, got {value}")
    return value


def _level_totals(feature, positions, weights, n_levels):
    """Weight of each level of a column of positions."""
    known = np.isfinite(positions)
    levels = positions[known].astype(np.intp)
    if n_levels is None:
        n_levels = int(levels.max(initial=-1)) + 1
    if n_levels > LARGEST_MAX_BINS - 2:
        raise ValueError(
            f"The categorical feature {feature} has {n_levels} categories, but at most {LARGEST_MAX_BINS - 2} are "
            "possible: merge rare ones, or leave it out of categorical_features if it is a number."
        )
    if levels.size and not 0 <= levels.min() <= levels.max() < n_levels:
        raise ValueError(f"the categorical feature {feature} holds positions outside [0, {n_levels})")
    return np.bincount(levels, None if weights is None else weights[known], n_levels).astype(np.float64)


def _coarse_values(totals, max_bins):
    """Coarse value cell of each value cell, by the rule for cuts with the cells as values."""
    if len(totals) <= max_bins:
        return np.arange(1, len(totals) + 1, dtype=np.uint16)
    places = np.arange(len(totals), dtype=np.float64)
    cuts = binning.cuts_of_totals(places, totals, max_bins)
    return (1 + np.searchsorted(cuts, places, side="right")).astype(np.uint16)


def _with_ends(values):
    """Cells of missing values and unseen levels around value cells, of which there is at least one."""
    values = values if len(values) else np.ones(1, dtype=np.uint16)
    return np.concatenate([[0], values, [values.max() + 1]]).astype(np.uint16)


def _offsets(parts):
    """Where each part starts, and where the last one ends, when they are one array."""
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)


# ---- stored mappers --------------------------------------------------------------------------------------------------


def _require(condition, message):
    if not condition:
        raise ValueError(f"Malformed cell mapper: {message}.")


def _check_tables(mapper):
    """Raise ValueError unless the tables have the shapes and the order that the kernels rely on."""
    n_levels, cuts, cut_offset, coarse, cell_offset = (getattr(mapper, name) for name in _DTYPES)
    n_features = n_levels.size
    _require(n_levels.shape == (n_features,), "n_levels has the wrong shape")
    _require(((n_levels >= NUMERIC) & (n_levels <= LARGEST_MAX_BINS - 2)).all(), "n_levels is out of range")
    n_cuts = _check_offsets("cut_offset", cut_offset, n_features, cuts)
    n_cells = _check_offsets("cell_offset", cell_offset, n_features, coarse)
    numeric = n_levels == NUMERIC
    _require(((n_cuts <= mapper.max_bins - 3) & (numeric | (n_cuts == 0))).all(), "a column has too many cuts")
    expected = np.where(numeric, n_cuts + 3, np.maximum(n_levels, 1) + 2)
    _require(np.array_equal(n_cells, expected), "the coarse cells are not those of the cells")
    feature = np.repeat(np.arange(n_features), n_cuts)
    follows = (cuts[1:] > cuts[:-1]) | (feature[1:] != feature[:-1])
    _require(np.isfinite(cuts).all() and follows.all(), "the cuts do not ascend")
    for feature in range(n_features):
        _check_coarse(mapper.coarse(feature).astype(np.int64), numeric[feature], mapper.max_interaction_bins)


def _check_offsets(name, offset, n_features, array):
    right = offset.shape == (n_features + 1,) and array.shape == (array.size,)
    right = right and offset[0] == 0 and offset[-1] == array.size and (np.diff(offset) >= 0).all()
    _require(right, f"{name} does not divide its array")
    return np.diff(offset)


def _check_coarse(coarse, numeric, max_bins):
    """Coarse cells: missing first, unseen last, every one in between taken, in order for numeric columns."""
    values = coarse[1:-1]
    last = coarse[-1]
    _require(coarse[0] == 0 and 2 <= last < max_bins, "the coarse cells at the ends are wrong")
    _require(np.array_equal(np.unique(values), np.arange(1, last)), "the coarse cells have gaps")
    _require(not numeric or (np.diff(values) >= 0).all(), "the coarse cells do not ascend")
