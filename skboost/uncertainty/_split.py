"""Hold rows out for calibration, chosen by their content, so that the order of the rows does not matter."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skboost._compat import check_sample_weight, take_rows
from skboost._engine.sampling import combine
from skboost._random import STREAM_CALIBRATION
from skboost._sampling import split_copies


class Part(NamedTuple):
    """Rows of a table with their weights, None for 1 each, and their positions in it."""

    X: object
    y: object
    sample_weight: np.ndarray | None
    rows: np.ndarray


def split(X, y, sample_weight, fraction, seed, *, stratified):
    """Hold a part of the rows out; a row of the whole-number weight w is w rows, of which some may be held out.

    Parameters
    ----------
    X : indexable of length n_samples
        Rows. Rows of numbers or texts are drawn by their content, others (sparse ones, or of more than two dimensions)
        by their position.
    y : array-like of shape (n_samples,)
        Target.
    sample_weight : array-like of shape (n_samples,) or None
        Weights, at least 0; rows of weight 0 are in neither part.
    fraction : float or int
        Share of the rows to hold out, or their number.
    seed : int
        Key of the draw.
    stratified : bool
        Hold out of every class in proportion; one row of each stays for training.

    Returns
    -------
    train, held : Part
        The two parts.

    Raises
    ------
    ValueError
        If no row can be held out.
    """
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    if stratified:
        check_classification_targets(y)
    weights = None if sample_weight is None else check_sample_weight(sample_weight, X)
    kept = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
    X, y = take_rows(X, kept), take_rows(y, kept)
    weights = None if weights is None else weights[kept]
    # By number, so that labels of any type have bits.
    label = np.unique(np.asarray(y), return_inverse=True)[1] if stratified else np.asarray(y, dtype=np.float64)
    if isinstance(fraction, (int, np.integer)) and fraction >= (len(kept) if weights is None else weights.sum()):
        raise ValueError(f"calibration_fraction={fraction} must be less than the number of rows, {len(kept)}.")
    train_weight, held_weight = split_copies(
        fraction, seed, STREAM_CALIBRATION, content_hashes(X), label, weights, label if stratified else None
    )
    if not held_weight.any():
        raise ValueError(
            f"calibration_fraction={fraction!r} can hold no row out of n_samples={len(kept)} and leave one"
            f"{' of each class' if stratified else ''} to train on; give more rows or calibration_fraction=None."
        )
    return tuple(_part(X, y, weight, weights is not None, kept) for weight in (train_weight, held_weight))


def _part(X, y, weight, weighted, kept):
    rows = np.flatnonzero(weight)
    return Part(take_rows(X, rows), take_rows(y, rows), weight[rows] if weighted else None, kept[rows])


def content_hashes(X):
    """Return a 64-bit hash of the content of each row, of its position if the rows are neither numbers nor texts."""
    table = X if hasattr(X, "shape") else np.asarray(X)
    n_rows = table.shape[0]
    if issparse(table) or len(table.shape) > 2:
        return np.arange(n_rows, dtype=np.uint64)
    hashes = np.zeros(n_rows, dtype=np.uint64)
    for column in _columns(table):
        hashes = combine(hashes, _bits(np.asarray(column)))
    return hashes


def _columns(table):
    if len(table.shape) == 1:
        return [table]
    if hasattr(table, "iloc"):
        return (table.iloc[:, j] for j in range(table.shape[1]))
    if hasattr(table, "get_columns"):  # polars
        return table.get_columns()
    return np.asarray(table).T


def _bits(column):
    """Return 64 bits per entry, equal for equal numbers (NaN too) or, of other columns, for equal texts."""
    try:
        numbers = np.asarray(column, dtype=np.float64) + 0.0  # -0 becomes 0
    except (TypeError, ValueError):
        # The rank among the texts of the column depends on no order.
        return np.unique(column.astype(str), return_inverse=True)[1].astype(np.uint64)
    return np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
