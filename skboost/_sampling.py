"""Row keys by content, and everything that draws rows: hold-outs, validation parts, bags, sub-samples.

Rows are drawn as copies: a row of the whole-number weight w is w copies. The draw of a copy is a function of (seed,
stream, iteration, codes of the row, y, copy number), and copies of equal codes and y are numbered through in any order,
as they are exchangeable. So a draw does not depend on the order of the rows, and weights equal repeated rows. A row of
fractional weight is a single copy; so is every row when the whole-number weights sum to more than 2**22.
"""

import numbers
from dataclasses import dataclass

import numpy as np

from skboost._binning import grid_weights
from skboost._engine import cells, sampling

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


def cell_hashes(codes, n_threads=1):
    """Return a 64-bit hash of the cells of every row.

    Parameters
    ----------
    codes : ndarray of shape (n_features, n_samples)
        uint16 cells, one contiguous row per feature.
    n_threads : int, default=1
        Number of threads; no influence on the result.

    Returns
    -------
    ndarray of shape (n_samples,)
        uint64 hashes; rows have the same hash when they have the same cells.
    """
    return cells.row_hashes(codes, n_threads)


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
    keys, n_copies = _content_keys(hashes, y, weights)
    first = sampling.group_totals(keys, n_copies.astype(np.float64))[0]
    return keys, first.astype(np.int64), n_copies


def _content_keys(hashes, y, weights):
    keys = sampling.combine(hashes, _bits(y))
    n_copies = np.ones(len(keys), dtype=np.int64)
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        whole = weights == np.floor(weights)
        if weights[whole].sum() <= MOST_COPIES:
            n_copies[whole] = weights[whole]
        # Copies of different weight are not exchangeable.
        keys = np.where(weights == n_copies, keys, sampling.combine(keys, _bits(weights)))
    return keys, n_copies


@dataclass(frozen=True)
class CanonicalRows:
    """The distinct rows of a table in the order of their keys, which does not depend on the order of the table.

    Attributes
    ----------
    keys : ndarray of shape (n_rows,)
        Ascending uint64 keys of the contents.
    order : ndarray of shape (n_samples,)
        Rows of the table, those of equal content together, int64.
    start : ndarray of shape (n_rows + 1,)
        Canonical row i stands for the rows ``order[start[i]:start[i + 1]]`` of the table, int64.
    n_copies : ndarray of shape (n_rows,)
        Number of copies of each row, int64.
    copy_weight : ndarray of shape (n_rows,)
        Weight of one copy, float64, on a grid on which all sums of weights of copies are exact.
    """

    keys: np.ndarray
    order: np.ndarray
    start: np.ndarray
    n_copies: np.ndarray
    copy_weight: np.ndarray

    @property
    def rows(self):
        """One row of the table for each canonical row, int64."""
        return self.order[self.start[:-1]]

    @property
    def weight(self):
        """Weight of each canonical row, float64."""
        return self.copy_weight * self.n_copies

    def take(self, codes, n_threads=1):
        """Return the cells of the canonical rows, given those of the table, both uint16 and one row per feature."""
        return cells.take_rows(codes, self.rows, n_threads)

    @property
    def canonical(self):
        """Canonical row of each row of the table, int64."""
        canonical = np.empty_like(self.order)
        canonical[self.order] = np.repeat(np.arange(len(self.keys)), np.diff(self.start))
        return canonical


def canonical_rows(hashes, y, weights=None, extra=(), repeats=1):
    """Sort the rows of a table by content and merge equal ones.

    Parameters
    ----------
    hashes : ndarray of shape (n_samples,)
        uint64 hashes of the cells.
    y : ndarray of shape (n_samples,)
        Target or class index.
    weights : ndarray of shape (n_samples,), default=None
        Positive weights; None means 1 everywhere. A row of the whole-number weight w is w copies, a row of fractional
        weight is one copy that is equal to those of the same weight only.
    extra : sequence of ndarray of shape (n_samples,) or (n_samples, n_columns)
        Further numbers that belong to the content of a row.
    repeats : int, default=1
        How often a copy may enter a sum of weights.

    Returns
    -------
    CanonicalRows
        Independent of the order of the rows, but for `order`, and of whether a row is repeated or has a weight.
    """
    for array in extra:
        columns = np.asarray(array)
        for column in columns.reshape(len(columns), -1).T:
            hashes = sampling.combine(hashes, _bits(column))
    if weights is not None:
        weights = grid_weights(weights, repeats)
    keys, n_copies = _content_keys(hashes, y, weights)
    order, start = sampling.group_rows(keys)
    rows = order[start[:-1]]
    copy_weight = np.ones(len(rows)) if weights is None else weights[rows] / n_copies[rows]
    n_copies = np.diff(start) if weights is None else np.add.reduceat(n_copies[order], start[:-1])
    return CanonicalRows(keys[rows], order, start, n_copies, copy_weight)


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


def mean_coins(seed, stream, hashes, y, weights=None):
    """Toss fair coins, 1 or -1, for the copies of rows, and return the mean coin of the codes and target of each row.

    Each copy has a coin of its own, unless all rows of these codes have one target: such copies toss a single coin, for
    repeated measurements repeat their noise.

    Parameters
    ----------
    seed, stream : int
        Key of the draw.
    hashes, y, weights
        As for `copy_numbers`, weights above 0. A fractional weight has no part in the key, so that only the proportions
        of weights matter.

    Returns
    -------
    ndarray of shape (n_samples,)
        float32; equal for rows of equal codes and target.
    """
    keys, n_copies = sampling.combine(hashes, _bits(y)), _content_keys(hashes, y, weights)[1]
    amounts = n_copies.astype(np.float64)
    first, of_content = sampling.group_totals(keys, amounts)
    of_codes = sampling.group_totals(hashes, amounts)[1]
    key = 0.5, seed, stream, 0
    single = draw_copies(*key, keys, np.zeros(len(keys), dtype=np.int64), np.ones_like(n_copies))
    heads = draw_copies(*key, keys, first.astype(np.int64), n_copies)
    # Rows without an amount would have no group.
    n_heads = sampling.group_totals(keys, amounts + heads)[1] - of_content
    share = np.where(of_codes == of_content, single, n_heads / of_content)
    return (2.0 * share - 1.0).astype(np.float32)


def split_copies(fraction, seed, stream, hashes, y, weights=None, stratify=None, iteration=0):
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
    iteration : int, default=0
        Further part of the key of the draw.

    Returns
    -------
    train_weight : ndarray of shape (n_samples,)
        Weight of the copies kept, float64.
    holdout_weight : ndarray of shape (n_samples,)
        Weight of the copies held out, float64.
    """
    keys, first, n_copies = copy_numbers(hashes, y, weights)
    total = int(n_copies.sum())
    wanted = int(fraction) if isinstance(fraction, numbers.Integral) else int(fraction * total + 0.5)
    n_held = HoldOut(max(wanted, 1), keys, first, n_copies, stratify).draw(seed, stream, iteration)
    weights = np.ones(len(keys)) if weights is None else np.asarray(weights, dtype=np.float64)
    divisor = np.maximum(n_copies, 1)  # a row of weight 0 has no copies
    return weights * (n_copies - n_held) / divisor, weights * n_held / divisor


class HoldOut:
    """Draws of a fixed number of copies, without replacement; one copy of each class always stays.

    Parameters
    ----------
    wanted : int
        Number of copies to hold out; fewer where one copy of each class could not stay.
    keys, first, n_copies : ndarray of shape (n_samples,)
        Result of `copy_numbers`.
    stratify : ndarray of shape (n_samples,), default=None
        Class labels. The number held out of each class is proportional to its number of copies, up to rounding.
    """

    def __init__(self, wanted, keys, first, n_copies, stratify=None):
        self.copies = keys, first, n_copies
        one_each = len(keys) and n_copies.min() == n_copies.max() == 1
        self.row_of_copy = None if one_each else np.repeat(np.arange(len(keys)), n_copies)
        self.strata = None
        sizes = [int(n_copies.sum())]
        if stratify is not None:
            labels = np.asarray(stratify) if one_each else np.asarray(stratify)[self.row_of_copy]
            _, labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)
            labels = labels.astype(np.min_scalar_type(len(sizes)))  # a short type is sorted digit by digit
            self.strata = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
        self.sizes = [int(size) for size in sizes]
        self.wanted = min(wanted, sum(self.sizes) - len(self.sizes))

    def draw(self, seed, stream, iteration=0):
        """Return how many copies of each row are held out, int64; the arguments are the key of the draw."""
        keys, first, n_copies = self.copies
        if self.wanted <= 0:
            return np.zeros(len(keys), dtype=np.int64)
        draws = sampling.copy_hashes(seed, stream, iteration, keys, first, n_copies)
        if self.strata is None:
            held = _smallest(draws, self.wanted)
        else:
            held = np.zeros(len(draws), dtype=bool)
            parts = [draws[members] for members in self.strata]
            for members, part, quota in zip(self.strata, parts, self._quotas(parts), strict=True):
                held[members] = _smallest(part, quota)
        if self.row_of_copy is None:
            return held.astype(np.int64)
        return np.bincount(self.row_of_copy[held], minlength=len(keys))

    def _quotas(self, parts):
        """Number of copies to hold out of each class, given the draws of its copies; one copy of each class stays."""
        wanted, sizes = self.wanted, self.sizes
        total = sum(sizes)
        quotas = [wanted * size // total for size in sizes]
        # Largest remainders first; equal ones by content, so that neither labels nor their order matter.
        turns = sorted(range(len(sizes)), key=lambda k: (-(wanted * sizes[k] % total), parts[k].min()))
        left = wanted - sum(quotas)
        while left:
            for k in turns:
                if left and quotas[k] < sizes[k] - 1:
                    quotas[k] += 1
                    left -= 1
        return quotas


def _smallest(draws, quota):
    """Mask of the `quota` smallest draws."""
    if not quota:
        return np.zeros(len(draws), dtype=bool)
    return draws <= np.partition(draws, quota - 1)[quota - 1]
