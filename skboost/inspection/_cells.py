"""Where the cells of a term lie on a picture, and what they weigh.

The cells of an axis are its value cells, then the cell of unseen categories, then that of missing values.
"""

from numbers import Real

import numpy as np

DENSITY_BINS = 40


def n_value_cells(shape, axis=0):
    """Return the number of value cells of an axis: all but unseen and missing."""
    return shape.values.shape[axis] - 2


def observed_range(axis):
    """Return the lowest and highest finite value to draw on a numeric axis."""
    low, high = float(axis.lower), float(axis.upper)
    edges = np.asarray(axis.edges, dtype=np.float64)
    edges = edges[np.isfinite(edges)]
    if len(edges):
        # Infinite values have been seen: show as much beyond the outermost cut as lies between the others on average.
        beyond = (edges[-1] - edges[0]) / max(len(edges) - 1, 1) or abs(edges[0]) or 1.0
        low = low if np.isfinite(low) else edges[0] - beyond
        high = high if np.isfinite(high) else edges[-1] + beyond
    elif not np.isfinite([low, high]).all():
        # One cell and no finite value: any range does.
        finite = [value for value in (low, high) if np.isfinite(value)]
        low = high = finite[0] if finite else 0.0
    if low == high:
        width = abs(low) * 0.05 or 0.5
        low, high = low - width, high + width
    return low, high


def cell_borders(axis, limits):
    """Return the borders of the value cells between the limits of the picture, increasing."""
    return np.concatenate([[limits[0]], np.clip(np.asarray(axis.edges, dtype=np.float64), *limits), [limits[1]]])


def covered_range(axis, weights, coverage):
    """Return the range that holds a share of the weight, as much left out below as above.

    Parameters
    ----------
    axis : Axis
        Numeric axis.
    weights : ndarray of shape (n_value_cells,)
        Weight of each value cell, spread evenly over the cell.
    coverage : float
        Share in (0, 1]; 1 is the whole observed range.

    Returns
    -------
    tuple of float
        Lower and upper limit.
    """
    low, high = observed_range(axis)
    total = weights.sum()
    if coverage >= 1.0 or not total > 0:
        return low, high
    borders = cell_borders(axis, (low, high))
    reached = np.concatenate([[0.0], np.cumsum(weights)]) / total
    outside = (1.0 - coverage) / 2.0
    left, right = np.interp([outside, 1.0 - outside], reached, borders)
    return (left, right) if left < right else (low, high)


def check_coverage(coverage):
    """Return ``coverage`` as a float, or raise ValueError."""
    if isinstance(coverage, bool) or not isinstance(coverage, Real) or not 0.0 < coverage <= 1.0:
        raise ValueError(f"coverage must be a number in the range (0, 1], got {coverage!r}.")
    return float(coverage)


def density(axis, weights, limits):
    """Return borders and heights of bars of equal width that show where the weight lies.

    The weight of a cell is spread evenly over the cell.

    Parameters
    ----------
    axis : Axis
        Numeric axis.
    weights : ndarray of shape (n_value_cells,)
        Weight of each value cell.
    limits : tuple of float
        Range of the picture.

    Returns
    -------
    tuple of ndarray
        Borders and heights of the bars.
    """
    borders = cell_borders(axis, observed_range(axis))
    bars = np.linspace(*limits, min(DENSITY_BINS, max(len(weights), 5)) + 1)
    reached = np.concatenate([[0.0], np.cumsum(weights)])
    return bars, np.diff(np.interp(bars, borders, reached))


def marginal_weights(shape, axis):
    """Return the weight of every cell along one axis of a term."""
    others = tuple(other for other in range(len(shape.axes)) if other != axis)
    return np.asarray(shape.weights, dtype=np.float64).sum(axis=others)
