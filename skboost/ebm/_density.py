"""Where the values of numeric columns lie: ranges and histograms for pictures of shapes."""

import math

import numpy as np

MOST_BINS = 256
FINE_BINS = 1024
SMALLEST_RANGE = 1e-300


def feature_bounds(X, is_categorical):
    """Return the smallest and largest finite value of each numeric column.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Training rows.
    is_categorical : ndarray of shape (n_features,)
        Categorical columns have no bounds.

    Returns
    -------
    ndarray of shape (n_features, 2)
        Bounds, NaN where there is no finite value.
    """
    bounds = np.full((X.shape[1], 2), np.nan)
    for feature in np.flatnonzero(np.asarray(is_categorical) == 0):
        column = np.ascontiguousarray(X[:, feature])
        low, high = column.min(), column.max()
        if not (np.isfinite(low) and np.isfinite(high)):
            column = column[np.isfinite(column)]
            low, high = (column.min(), column.max()) if column.size else (np.nan, np.nan)
        bounds[feature] = low, high
    return bounds


def histogram(values, weights):
    """Return edges and weights of a histogram of equal widths, its number of bins by Doane's rule.

    The rule is that of D. P. Doane, Aesthetic frequency classifications, The American Statistician 30, 1976, with the
    total weight as the number of rows.

    Parameters
    ----------
    values : ndarray of shape (n_samples,)
        Column; values that are not finite are left out.
    weights : ndarray of shape (n_samples,) or None
        Weights of the rows, on a grid on which sums are exact.

    Returns
    -------
    edges : ndarray of shape (n_bins + 1,)
        Edges of the bins; empty without a finite value.
    totals : ndarray of shape (n_bins,)
        Weights in the bins.
    """
    values = np.ascontiguousarray(values, dtype=np.float64)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if not (math.isfinite(low) and math.isfinite(high)):
        kept = np.isfinite(values)
        values, weights = values[kept], None if weights is None else weights[kept]
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if not values.size:
        return np.empty(0), np.empty(0)
    if high * 0.5 - low * 0.5 < SMALLEST_RANGE:
        return np.array([low, high]), np.array([float(values.size) if weights is None else weights.sum()])
    # Moments from fine bins: their sums are exact, so that no order of rows moves the number of bins.
    n_bins = _doane(_totals(values, weights, low, high, FINE_BINS))
    steps = np.arange(n_bins + 1) / n_bins
    return low * (1 - steps) + high * steps, _totals(values, weights, low, high, n_bins)


def _totals(values, weights, low, high, n_bins):
    # Halves, since the range itself may overflow.
    place = values * 0.5
    place -= low * 0.5
    place *= n_bins / (high * 0.5 - low * 0.5)
    place = place.astype(np.intp)
    np.minimum(place, n_bins - 1, out=place)
    return np.bincount(place, weights, n_bins).astype(np.float64)


def _doane(totals):
    """Number of bins for the histogram of fine bins."""
    n = max(float(totals.sum()), 1.0)
    share = totals / n
    centred = np.arange(len(totals)) - (share * np.arange(len(totals))).sum()
    square = centred * centred
    second, third = (share * square).sum(), (share * square * centred).sum()
    if n <= 3 or not second > 0:
        return max(1, math.ceil(math.log2(n) + 1))
    deviation = math.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
    bins = 1 + math.log2(n) + math.log2(1 + abs(third) / second**1.5 / deviation)
    return min(MOST_BINS, math.ceil(bins))
