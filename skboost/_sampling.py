"""Row keys by content, and everything that draws rows: hold-outs, validation parts, bags, sub-samples.

Rows are drawn as copies: a row of the whole-number weight w is w copies. The draw of a copy is a function of (seed,
stream, iteration, codes of the row, y, copy number), and copies of equal codes and y are numbered through in any order,
as they are exchangeable. So a draw does not depend on the order of the rows, and weights equal repeated rows. A row of
fractional weight is a single copy; so is every row when the whole-number weights sum to more than 2**22.
"""

import numbers

import numpy as np

from skboost._binning import grid_weights
from skboost._engine import sampling

MOST_COPIES = 2**22


def row_hashes(codes_row, n_features, n_threads=1):
    """Return a 64-bit hash of the codes of every row.

    Parameters
    ----------
    codes_row : ndarray of shape (n_samples, n_features rounded up to a multiple of 8)
        uint8 codes row by row, padded with zeros.
    n_features : int
        Number of features.
    n_threads : int, default=1
        Number of threads; no influence on the result.

    Returns
    -------
    ndarray of shape (n_samples,)
        uint64 hashes; rows have the same hash when they have the same codes.
    """
    return sampling.row_hashes(codes_row, n_features, n_threads)


def group_weights(hashes, weights=None):
    """Return 1 / sqrt(W) for every row, W being the total weight of the rows of the same hash.

    Parameters
    ----------
    hashes : ndarray of shape (n_samples,)
        uint64 hashes.
    weights : ndarray of shape (n_samples,), default=None
        Weights, at least 0; None means 1 everywhere.

    Returns
    -------
    ndarray of shape (n_samples,)
        float32, 0 for rows of weight 0; independent of the order of the rows, since weights are summed on a grid.
    """
    totals = sampling.group_totals(hashes, None if weights is None else grid_weights(weights))[1]
    return np.divide(1.0, np.sqrt(totals), out=np.zeros(len(totals)), where=totals > 0).astype(np.float32)


def copy_numbers(hashes, y, weights=None):
    """Number the copies of every row.

    Parameters
    ----------
    hashes : ndarray of shape (n_samples,)
        uint64 hashes of the codes.
    y : ndarray of shape (n_samples,)
        Target or class index; the bits of its float64 value enter the key.
    weights : ndarray of shape (n_samples,), default=None
        Weights, at least 0; None means 1 everywhere.

    Returns
    -------
    keys : ndarray of shape (n_samples,)
        uint64 key of the content of each row. The weight is part of the content unless it is the number of copies.
    first : ndarray of shape (n_samples,)
        Number of the first copy of the row, int64; rows of equal key are numbered through from 0.
    n_copies : ndarray of shape (n_samples,)
        Number of copies of the row, int64, 0 at weight 0. One copy weighs ``weights / n_copies``.
    """
    keys = sampling.combine(hashes, _bits(y))
    n_copies = np.ones(len(keys), dtype=np.int64)
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        whole = weights == np.floor(weights)
        if weights[whole].sum() <= MOST_COPIES:
            n_copies[whole] = weights[whole]
        # Copies of different weight are not exchangeable.
        keys = np.where(weights == n_copies, keys, sampling.combine(keys, _bits(weights)))
    first = sampling.group_totals(keys, n_copies.astype(np.float64))[0]
    return keys, first.astype(np.int64), n_copies


def _bits(values):
    """Bits of float64 values, -0 written as 0."""
    return np.ascontiguousarray(np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)


def draw_copies(fraction, seed, stream, iteration, keys, first, n_copies, n_threads=1):
    """Draw each copy with probability `fraction`, independently, and count the drawn copies of each row.

    Parameters
    ----------
    fraction : float
        Probability, above 0 and at most 1.
    seed, stream, iteration : int
        Key of the draw.
    keys, first, n_copies : ndarray of shape (n_samples,)
        Result of `copy_numbers`.
    n_threads : int, default=1
        Number of threads; no influence on the result.

    Returns
    -------
    ndarray of shape (n_samples,)
        Number of drawn copies of each row, int32.
    """
    if fraction >= 1:
        return n_copies.astype(np.int32)
    return sampling.draw_copies(int(fraction * 2.0**64), seed, stream, iteration, keys, first, n_copies, n_threads)


def split_copies(fraction, seed, stream, hashes, y, weights=None, stratify=None):
    """Hold out an exact number of copies: those of the smallest keyed hash, within each class if stratified.

    Parameters
    ----------
    fraction : float or int
        Share of the copies to hold out, between 0 and 1 exclusive, or an int: their number. At least one copy is held
        out and at least one (of each class, if stratified) is kept; where this is impossible none is held out.
    seed, stream : int
        Key of the draw.
    hashes, y, weights
        As for `copy_numbers`.
    stratify : ndarray of shape (n_samples,), default=None
        Class labels. The number held out of each class is proportional to its number of copies, up to rounding.

    Returns
    -------
    train_weight : ndarray of shape (n_samples,)
        Weight of the copies kept, float64.
    holdout_weight : ndarray of shape (n_samples,)
        Weight of the copies held out, float64.
    """
    keys, first, n_copies = copy_numbers(hashes, y, weights)
    draws = sampling.copy_hashes(seed, stream, keys, first, n_copies)
    row_of_copy = np.repeat(np.arange(len(keys)), n_copies)
    if stratify is None:
        strata = [np.arange(len(draws))]
    else:
        label_of_copy = np.unique(np.asarray(stratify)[row_of_copy], return_inverse=True)[1]
        strata = [np.flatnonzero(label_of_copy == label) for label in range(label_of_copy.max(initial=-1) + 1)]
    held = np.zeros(len(draws), dtype=bool)
    for members, quota in zip(strata, _quotas(fraction, [draws[members] for members in strata]), strict=True):
        if quota:
            held[members] = draws[members] <= np.partition(draws[members], quota - 1)[quota - 1]
    n_held = np.bincount(row_of_copy[held], minlength=len(keys))
    weights = np.ones(len(keys)) if weights is None else np.asarray(weights, dtype=np.float64)
    divisor = np.maximum(n_copies, 1)  # a row of weight 0 has no copies
    return weights * (n_copies - n_held) / divisor, weights * n_held / divisor


def _quotas(fraction, strata):
    """Number of copies to hold out of each stratum, given the draws of its copies; one copy of each stratum stays."""
    sizes = [len(draws) for draws in strata]
    total = sum(sizes)
    wanted = int(fraction) if isinstance(fraction, numbers.Integral) else int(fraction * total + 0.5)
    wanted = min(max(wanted, 1), total - len(sizes))
    if wanted <= 0:
        return [0] * len(sizes)
    quotas = [wanted * size // total for size in sizes]
    # Largest remainders first; equal ones by content, so that neither labels nor their order matter.
    turns = sorted(range(len(sizes)), key=lambda k: (-(wanted * sizes[k] % total), strata[k].min()))
    left = wanted - sum(quotas)
    while left:
        for k in turns:
            if left and quotas[k] < sizes[k] - 1:
                quotas[k] += 1
                left -= 1
    return quotas
