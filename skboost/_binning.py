"""Thresholds and categories of the columns of X, and the map from values to one-byte codes.

Code 0 means missing (NaN) or a category never seen in training; codes 1, 2, ... are the value bins.
"""

import numbers

import numpy as np

from skboost import _storage
from skboost._engine import binning

FORMAT_VERSION = 1
TABLE_SIZE = 256
LARGEST_MAX_BINS = 255
MOST_PRIOR_CUTS = 128
_DTYPES = {
    "cuts": np.float64,
    "n_bins": np.int32,
    "is_categorical": np.uint8,
    "level_offset": np.int64,
    "level_values": np.float64,
    "level_codes": np.uint8,
}


def grid_weights(weights, repeats=1):
    """Round weights to a power-of-two grid on which every sum of them is exact.

    Its unit is at most n * max(weights) * 2**-51. Whole numbers stay as they are, up to sums of about 2e15; zero stays
    zero, and a positive weight never becomes zero.

    Parameters
    ----------
    weights : ndarray of shape (n_samples,)
        Finite weights, at least 0.
    repeats : int, default=1
        How often a weight may enter a sum; the unit grows with it.

    Returns
    -------
    ndarray of shape (n_samples,)
        float64 weights whose sum, in any order and over any subset, has no rounding error.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.size == 0:
        return weights
    # n * max bounds every sum and, unlike the sum itself, does not depend on the order of the rows.
    exponent = np.frexp(weights.max())[1] + np.frexp(float(weights.size) * repeats)[1]
    unit = np.ldexp(1.0, max(int(exponent) - 53, -1074))
    return np.maximum(np.rint(weights / unit), weights > 0) * unit


def as_matrix(X):
    """Return X as float32 or float64, native and aligned, as the kernels read it; a copy only where it is not."""
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}")
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    return np.require(X, dtype=dtype, requirements="A")


class BinMapper:
    """Map the columns of a numeric matrix to codes of one byte.

    Numeric columns: with at most `max_bins` distinct values there is a cut at the middle of every pair of neighbours.
    With more, bins of nearly equal weight: a value that alone weighs more than an even share has a bin of its own, the
    other bins are dealt to the runs of values between such values by weight. A value x gets code 1 + (number of cuts
    strictly below x), so ``x <= cuts[i]`` is the same as ``code <= i + 1``. NaN gets code 0. Infinities are ordinary
    numbers at the ends: they fall in the first and last bin, and count as the largest finite numbers when cuts are
    placed.

    Categorical columns hold numbers that name categories. Known categories get the codes 1, 2, ... in the order of
    their numbers, NaN and unknown ones 0. With more than `max_bins` categories, the `max_bins` - 1 heaviest (at equal
    weight those of smaller number) keep a code of their own and all others seen in training share the code `max_bins`.

    Prior cuts are spread evenly over the range of the finite values, widened on both sides; they part what the data do
    not: gaps, and what lies beyond. The end cuts lie at the ends of the widened range. A column of one value has a cut
    on either side of it. To make room, at most 255 - `n_prior_cuts` bins come from the data.

    Neither the order of the rows nor the number of threads has an influence, and rows of a whole-number weight w count
    exactly as w copies: all rows are used, and weights lie on a grid on which sums are exact.

    Parameters
    ----------
    max_bins : int, default=255
        Largest number of value bins of a column, from 2 to 255; the bin of missing values comes on top.
    n_prior_cuts : int, default=0
        Number of cuts that do not follow the data, from 0 to 128.
    cut_margin : float, default=0.5
        How far prior cuts reach beyond the range of the data on each side, in units of the range.

    Attributes
    ----------
    cuts : ndarray of shape (n_features, 256)
        Ascending cuts of the numeric columns, float64, padded with +inf.
    n_bins : ndarray of shape (n_features,)
        Largest code of the column plus one, int32: the bin of missing values is counted. A numeric column has at least
        2.
    is_categorical : ndarray of shape (n_features,)
        1 for categorical columns, uint8.
    level_offset : ndarray of shape (n_features + 1,)
        Column f has the levels ``level_offset[f]:level_offset[f + 1]``, int64.
    level_values : ndarray of shape (n_levels,)
        Category numbers, ascending within a column, float64.
    level_codes : ndarray of shape (n_levels,)
        Code of each level, uint8.
    prior_bins : tuple of ndarray or None
        Codes left of the prior cuts, uint8 of shape (n_features, 128), and their number for each column, int32; None
        without prior cuts. Known after `fit` only, not stored.
    """

    def __init__(self, max_bins=255, n_prior_cuts=0, cut_margin=0.5):
        if not 2 <= max_bins <= LARGEST_MAX_BINS:
            raise ValueError(f"max_bins must lie between 2 and {LARGEST_MAX_BINS}, got {max_bins}")
        if not (0 <= n_prior_cuts <= MOST_PRIOR_CUTS and 0 <= cut_margin < np.inf):
            raise ValueError(f"n_prior_cuts must lie between 0 and {MOST_PRIOR_CUTS} and cut_margin be at least 0")
        self.max_bins = max_bins
        self.n_prior_cuts = n_prior_cuts
        self.cut_margin = cut_margin

    def __getstate__(self):
        state = {"format": FORMAT_VERSION, **vars(self)}
        state.pop("prior_bins", None)
        return state

    def __setstate__(self, state):
        _storage.check_format(state, FORMAT_VERSION, "bin mapper")
        self.max_bins = state.get("max_bins")
        in_range = isinstance(self.max_bins, numbers.Integral) and 2 <= self.max_bins <= LARGEST_MAX_BINS
        _require(in_range, "max_bins is out of range")
        self.max_bins = int(self.max_bins)
        self.n_prior_cuts, self.cut_margin = state.get("n_prior_cuts"), state.get("cut_margin")
        in_range = isinstance(self.n_prior_cuts, numbers.Integral) and 0 <= self.n_prior_cuts <= MOST_PRIOR_CUTS
        in_range = in_range and isinstance(self.cut_margin, numbers.Real) and 0 <= self.cut_margin < np.inf
        _require(in_range, "n_prior_cuts or cut_margin is out of range")
        if state.keys() - {"format", "max_bins", "n_prior_cuts", "cut_margin"}:
            for name, dtype in _DTYPES.items():
                setattr(self, name, _storage.stored_array("bin mapper", name, state.get(name), dtype))
            _check_tables(self)

    def fit(self, X, sample_weight=None, is_categorical=None, n_threads=1):
        """Find the cuts of numeric columns and the levels of categorical ones.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            float32 or float64 with any strides; read in place.
        sample_weight : ndarray of shape (n_samples,), default=None
            Positive weights: rows of weight zero must have been dropped. None means 1 everywhere.
        is_categorical : ndarray of shape (n_features,), default=None
            True where the column holds category numbers. None: nowhere.
        n_threads : int, default=1
            Number of threads; no influence on the result.

        Returns
        -------
        BinMapper
            The mapper itself.
        """
        X = as_matrix(X)
        n_features = X.shape[1]
        weights = None if sample_weight is None else grid_weights(sample_weight)
        if is_categorical is None:
            is_categorical = np.zeros(n_features)
        self.is_categorical = np.ascontiguousarray(is_categorical, dtype=bool).astype(np.uint8)
        n_from_data = min(self.max_bins, LARGEST_MAX_BINS - self.n_prior_cuts)
        self.cuts, n_cuts, ranges = binning.find_cuts(X, weights, self.is_categorical, n_from_data, n_threads)
        self._add_prior_cuts(n_cuts, ranges)
        self.n_bins = n_cuts + np.int32(2)
        self._fit_levels(X, weights)
        return self

    def _add_prior_cuts(self, n_cuts, ranges):
        """Merge the prior cuts of every numeric column into its cuts."""
        self.prior_bins = None
        if not self.n_prior_cuts:
            return
        bins = np.zeros((self.n_features, MOST_PRIOR_CUTS), dtype=np.uint8)
        n_bins = np.zeros(self.n_features, dtype=np.int32)
        for feature in np.flatnonzero(~np.isnan(ranges[:, 0])):
            prior = prior_cuts(*ranges[feature], self.n_prior_cuts, self.cut_margin)
            merged = np.union1d(self.cuts[feature, : n_cuts[feature]], prior)
            n_cuts[feature], n_bins[feature] = len(merged), len(prior)
            self.cuts[feature, : len(merged)] = merged
            bins[feature, : len(prior)] = np.searchsorted(merged, prior) + 1
        self.prior_bins = bins, n_bins

    def _fit_levels(self, X, weights):
        values, codes = [np.empty(0)], [np.empty(0, dtype=np.uint8)]
        n_levels = np.zeros(self.n_features, dtype=np.int64)
        for feature in np.flatnonzero(self.is_categorical):
            levels, totals = binning.distinct_values(X[:, feature], weights)
            values.append(levels)
            codes.append(heaviest_levels(totals, self.max_bins, np.uint8))
            n_levels[feature] = len(levels)
            self.n_bins[feature] = int(codes[-1].max(initial=0)) + 1
        self.level_offset = np.concatenate([[0], np.cumsum(n_levels)])
        self.level_values = np.concatenate(values)
        self.level_codes = np.concatenate(codes)

    @property
    def n_features(self):
        """Number of columns seen in `fit`."""
        return len(self.is_categorical)

    @property
    def tables(self):
        """Arrays in the order in which the kernels take them."""
        return tuple(getattr(self, name) for name in _DTYPES)

    def transform(self, X, n_threads=1):
        """Map X to codes, column by column and row by row.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            float32 or float64 with any strides; read in place.
        n_threads : int, default=1
            Number of threads; no influence on the result.

        Returns
        -------
        codes_col : ndarray of shape (n_features, n_samples)
            Codes, one contiguous column per feature.
        codes_row : ndarray of shape (n_samples, n_features rounded up to a multiple of 8)
            The same codes row by row, padded with zeros.
        """
        return binning.transform(as_matrix(X), *self.tables, n_threads, True)

    def transform_columns(self, X, n_threads=1):
        """Map X to codes, column by column only.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            float32 or float64 with any strides; read in place.
        n_threads : int, default=1
            Number of threads; no influence on the result.

        Returns
        -------
        ndarray of shape (n_features, n_samples)
            Codes, one contiguous column per feature.
        """
        return binning.transform(as_matrix(X), *self.tables, n_threads, False)[0]

    def thresholds(self, feature):
        """Return the cuts of a numeric column without the padding (empty for a categorical one)."""
        return self.cuts[feature, : 0 if self.is_categorical[feature] else self.n_bins[feature] - 2]

    def levels(self, feature):
        """Return the category numbers of a column and their codes (both empty for a numeric one)."""
        part = slice(*self.level_offset[feature : feature + 2])
        return self.level_values[part], self.level_codes[part]


def prior_cuts(low, high, n_cuts, margin):
    """Return cuts spread evenly from below the smallest to above the largest value of a column.

    Parameters
    ----------
    low, high : float
        Smallest and largest finite value.
    n_cuts : int
        Number of cuts, at least 1.
    margin : float
        How far they reach on each side, in units of the range.

    Returns
    -------
    ndarray of shape (n_cuts,)
        Ascending finite cuts; the two next to the value where `low` and `high` are the same.
    """
    if low == high:
        cuts = np.array([np.nextafter(low, -np.inf), low])
        return cuts[np.isfinite(cuts)]
    if n_cuts == 1:
        return np.array([low / 2 + high / 2])
    with np.errstate(over="ignore"):
        # halves, because the range of finite numbers may be infinite
        reach = 2 * np.float64(margin) * (np.float64(high) / 2 - low / 2)
        first, last = np.nan_to_num([low - reach, high + reach])
    part = np.arange(n_cuts) / (n_cuts - 1)
    return np.unique(first * (1 - part) + last * part)


def heaviest_levels(totals, max_bins, dtype):
    """Number the levels of a categorical column.

    Parameters
    ----------
    totals : ndarray of shape (n_levels,)
        Weight of each level.
    max_bins : int
        Largest number to give.
    dtype : dtype
        Of the result.

    Returns
    -------
    ndarray of shape (n_levels,)
        1, 2, ... in the order of the levels. With more than `max_bins` levels the heaviest `max_bins` - 1, at equal
        weight the first ones, have a number of their own and all others the last one together.
    """
    if len(totals) <= max_bins:
        return np.arange(1, len(totals) + 1, dtype=dtype)
    heaviest = np.sort(np.lexsort((np.arange(len(totals)), -totals))[: max_bins - 1])
    codes = np.full(len(totals), max_bins, dtype=dtype)
    codes[heaviest] = np.arange(1, max_bins, dtype=dtype)
    return codes


def _require(condition, message):
    if not condition:
        raise ValueError(f"Malformed bin mapper: {message}.")


def _check_tables(mapper):
    """Raise ValueError unless the tables have the shapes and the order that the kernels rely on."""
    cuts, n_bins, is_categorical, level_offset, level_values, level_codes = mapper.tables
    n_features = is_categorical.size
    _require(is_categorical.shape == n_bins.shape == (n_features,), "n_bins and is_categorical differ in shape")
    _require(cuts.shape == (n_features, TABLE_SIZE), "cuts has the wrong shape")
    _require(level_offset.shape == (n_features + 1,), "level_offset has the wrong shape")
    _require(level_values.shape == level_codes.shape == (level_codes.size,), "the levels and their codes do not match")
    numeric = is_categorical == 0
    _require(is_categorical.max(initial=0) <= 1, "is_categorical is neither 0 nor 1")
    n_more = max(mapper.n_prior_cuts, 2) if mapper.n_prior_cuts else 0  # a column of one value has two prior cuts
    most = np.where(numeric, min(LARGEST_MAX_BINS, mapper.max_bins + n_more), mapper.max_bins)
    in_range = (n_bins >= 1 + numeric) & (n_bins <= most + 1)
    _require(in_range.all(), "n_bins is out of range")
    is_cut = np.arange(TABLE_SIZE) < np.where(numeric, n_bins - 2, 0)[:, np.newaxis]
    padded = np.array_equal(np.isfinite(cuts), is_cut) and (is_cut | (cuts == np.inf)).all()
    _require(padded, "the finite cuts are not those before the last bin")
    _require((~is_cut[:, 1:] | (cuts[:, 1:] > cuts[:, :-1])).all(), "the cuts do not ascend")
    ascends = level_offset[0] == 0 and level_offset[-1] == len(level_codes)
    ascends = ascends and (level_offset[1:] >= level_offset[:-1]).all()
    n_levels = np.diff(level_offset)
    _require(ascends and not n_levels[numeric].any(), "level_offset does not divide the levels of categorical columns")
    feature = np.repeat(np.arange(n_features), n_levels)
    _require(((level_codes >= 1) & (level_codes < n_bins[feature])).all(), "a level has a code that is no bin")
    follows = (level_values[1:] > level_values[:-1]) | (feature[1:] != feature[:-1])
    _require(follows.all() and not np.isnan(level_values).any(), "the levels do not ascend")
