"""From the cells that boosting fills to terms: weights, centring, purified pairs, means over bags, scores of rows.

Tensors of a stage lie one after another in one array, outputs last. Cells are in stored order: missing first, unseen
last. Everything here works on all bags; nothing copies all of them at once.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skboost.ebm._purification import Purifier

# Cells of all bags that are purified at once: few calls where pairs are small, little memory where they are large.
CELLS_TOGETHER = 2**20


@dataclass(frozen=True)
class TermBlock:
    """Terms of one stage and where their cells lie.

    Attributes
    ----------
    features : tuple of tuple of int
        Columns of each term.
    shapes : tuple of tuple of int
        Stored cells of each axis of each term.
    """

    features: tuple
    shapes: tuple

    def __len__(self):
        return len(self.features)

    @cached_property
    def sizes(self):
        """Number of cells of each term, int64."""
        return np.array([int(np.prod(shape)) for shape in self.shapes], dtype=np.int64)

    @cached_property
    def starts(self):
        """First cell of each term and the end of the last one, int64."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @property
    def n_cells(self):
        """Number of cells of all terms."""
        return int(self.starts[-1])

    def views(self, flat, *, leading=0):
        """Return one view per term of an array with all cells on one axis.

        Parameters
        ----------
        flat : ndarray
            `leading` axes, the axis of the cells, any further axes.
        leading : int, default=0
            Number of axes before that of the cells.

        Returns
        -------
        list of ndarray
            The axis of the cells becomes the axes of the term.
        """
        before, after = flat.shape[:leading], flat.shape[leading + 1 :]
        cut = (slice(None),) * leading
        return [
            flat[(*cut, slice(start, end))].reshape(*before, *shape, *after)
            for start, end, shape in zip(self.starts[:-1], self.starts[1:], self.shapes, strict=True)
        ]


def main_block(features, n_cells):
    """Return the block of main effects of some features.

    Parameters
    ----------
    features : sequence of int
        Columns.
    n_cells : ndarray of shape (n_features,)
        Stored cells of every column.

    Returns
    -------
    TermBlock
    """
    return TermBlock(tuple((int(j),) for j in features), tuple((int(n_cells[j]),) for j in features))


def pair_block(pairs, coarse):
    """Return the block of pairs.

    Parameters
    ----------
    pairs : sequence of tuple of int
        Pairs of columns.
    coarse : sequence of ndarray
        Map from the cells of each column to its cells in pairs.

    Returns
    -------
    TermBlock
    """
    shapes = tuple((int(coarse[j][-1]) + 1, int(coarse[k][-1]) + 1) for j, k in pairs)
    return TermBlock(tuple((int(j), int(k)) for j, k in pairs), shapes)


# ---- cells of rows ---------------------------------------------------------------------------------------------------


def term_cells(features, cells, coarse):
    """Return the index of each row into the tensor of a term.

    Parameters
    ----------
    features : tuple of int
        Columns of the term.
    cells : ndarray of shape (n_features, n_rows)
        Stored cells of the rows.
    coarse : sequence of ndarray
        Map from the cells of each column to its cells in pairs.

    Returns
    -------
    tuple of ndarray
        One array of positions per axis.
    """
    if len(features) == 1:
        return (cells[features[0]],)
    return tuple(coarse[j][cells[j]] for j in features)


def contributions(term_features, tensors, cells, coarse):
    """Yield the scores of the rows in each term, of shape (n_rows,) or (n_rows, n_classes).

    Parameters
    ----------
    term_features : sequence of tuple of int
        Columns of each term.
    tensors : sequence of ndarray
        Scores of each term.
    cells, coarse
        As for `term_cells`.

    Yields
    ------
    ndarray
        Scores of one term.
    """
    for features, tensor in zip(term_features, tensors, strict=True):
        yield tensor[term_cells(features, cells, coarse)]


def cell_weights(block, cells, coarse, weight):
    """Return the total weight of the rows in each cell of each term.

    Parameters
    ----------
    block : TermBlock
        The terms.
    cells, coarse
        As for `term_cells`.
    weight : ndarray of shape (n_rows,)
        Weights of the rows.

    Returns
    -------
    ndarray of shape (n_cells,)
        Sums in the order of the rows.
    """
    flat = np.empty(block.n_cells)
    for features, shape, start, size in zip(block.features, block.shapes, block.starts, block.sizes, strict=False):
        index = term_cells(features, cells, coarse)
        if len(features) == 2:
            index = (index[0].astype(np.intp) * shape[1] + index[1],)
        flat[start : start + size] = np.bincount(index[0], weight, size)
    return flat


# ---- after boosting --------------------------------------------------------------------------------------------------


def centre(block, scores, weights, intercepts):
    """Move the weighted mean of every term to the intercept of its bag, in place.

    Parameters
    ----------
    block : TermBlock
        The terms.
    scores : ndarray of shape (n_bags, n_cells, n_outputs)
        Scores of every bag.
    weights : ndarray of shape (n_cells,)
        Weights of the cells.
    intercepts : ndarray of shape (n_bags, n_outputs)
        Intercepts of the bags.
    """
    if not len(block):
        return
    starts = block.starts[:-1]
    totals = np.add.reduceat(weights, starts)
    heaviest = starts + [int(np.argmax(tensor)) for tensor in block.views(weights)]
    for bag_scores, intercept in zip(scores, intercepts, strict=True):
        for output in range(scores.shape[2]):
            column = bag_scores[:, output]
            # Offsets from one cell of each term: a term that is constant where there is weight becomes exactly 0.
            level = column[heaviest]
            column -= np.repeat(level, block.sizes)
            means = np.add.reduceat(weights * column, starts) / totals
            column -= np.repeat(means, block.sizes)
            intercept[output] += (level + means).sum()


def clear_empty(block, scores, weights):
    """Set the slices of every axis that hold no training weight to 0, in place.

    These are the missing cells of columns without missing values, the unseen cells, and the value cell of a column
    without values.

    Parameters
    ----------
    block : TermBlock
        The terms.
    scores : ndarray of shape (n_bags, n_cells, n_outputs)
        Scores of every bag.
    weights : ndarray of shape (n_cells,)
        Weights of the cells.
    """
    for tensor, weight in zip(block.views(scores, leading=1), block.views(weights), strict=True):
        for axis in range(weight.ndim):
            others = tuple(other for other in range(weight.ndim) if other != axis)
            empty = np.flatnonzero(~weight.any(axis=others)) if others else np.flatnonzero(weight == 0)
            tensor[(*(slice(None),) * (axis + 1), empty)] = 0.0


def purify(pairs, pair_scores, pair_weights, mains, main_scores, coarse, intercepts):
    """Make every pair pure in every bag, in place; its main effects go to the main terms, predictions stay.

    Parameters
    ----------
    pairs : TermBlock
        Pairs.
    pair_scores : ndarray of shape (n_bags, n_pair_cells, n_outputs)
        Their scores.
    pair_weights : ndarray of shape (n_pair_cells,)
        Weights of their cells.
    mains : TermBlock
        Main effects; those of a pair's features may be absent, then their part stays in the pair.
    main_scores : ndarray of shape (n_bags, n_cells, n_outputs)
        Scores of the main effects.
    coarse : sequence of ndarray
        Map from the cells of each column to its cells in pairs.
    intercepts : ndarray of shape (n_bags, n_outputs)
        Intercepts of the bags.
    """
    place = dict(zip((j for (j,) in mains.features), mains.views(main_scores, leading=1), strict=True))
    views = zip(pairs.features, pairs.views(pair_scores, leading=1), pairs.views(pair_weights), strict=True)
    for (j, k), tensor, weights in views:
        purifier = Purifier(weights, j in place, k in place)
        n_together = max(1, CELLS_TOGETHER // tensor[0].size)
        for first in range(0, len(tensor), n_together):
            bags = slice(first, first + n_together)
            tensor[bags], rows, columns, constant = _purify_bags(purifier, tensor[bags])
            intercepts[bags] += constant
            if j in place:
                place[j][bags] += rows[:, coarse[j]]
            if k in place:
                place[k][bags] += columns[:, coarse[k]]


def _purify_bags(purifier, tensor):
    """Purify the tensors of some bags at once; bags come first in all four parts."""
    n_bags, n_outputs = len(tensor), tensor.shape[-1]
    parts = purifier(np.moveaxis(tensor, 0, 2).reshape(*tensor.shape[1:3], n_bags * n_outputs))
    return [np.moveaxis(part.reshape(*part.shape[:-1], n_bags, n_outputs), -2, 0) for part in parts]


def centre_classes(scores):
    """Subtract the mean over the outputs where there are several, in place; probabilities do not depend on it."""
    if scores.shape[-1] > 1:
        for bag_scores in scores:
            bag_scores -= bag_scores.mean(axis=-1, keepdims=True)


# ---- means over bags -------------------------------------------------------------------------------------------------


def bag_mean(scores, bag_weights):
    """Return the weighted mean over the bags.

    Parameters
    ----------
    scores : ndarray of shape (n_bags, ...)
        Scores of every bag.
    bag_weights : ndarray of shape (n_bags,)
        Weights of the bags.

    Returns
    -------
    ndarray
        Mean over the first axis, added up in the order of the bags.
    """
    share = bag_weights / bag_weights.sum()
    mean = share[0] * scores[0]
    for factor, bag_scores in zip(share[1:], scores[1:], strict=True):
        mean += factor * bag_scores
    return mean


def bag_deviation(scores, bag_weights):
    """Return the weighted population standard deviation over the bags; the arguments are those of `bag_mean`."""
    # Offsets from the first bag: equal bags have deviation 0 exactly.
    offset_mean = bag_mean(scores - scores[0], bag_weights)
    return np.sqrt(bag_mean((scores - scores[0] - offset_mean) ** 2, bag_weights))
