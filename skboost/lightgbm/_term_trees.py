"""From the terms of an explainable boosting machine to trees: one for each term and output."""

from dataclasses import dataclass

import numpy as np

from skboost.ebm._shapes import view
from skboost.lightgbm._chain import NUMBERS, TERMS, Chain, coding_of
from skboost.lightgbm._forest_trees import NAN, check_not_zero
from skboost.lightgbm._text import NodeTest, Shape, Trees, constant
from skboost.lightgbm._trees import CATEGORICAL


@dataclass(frozen=True)
class CellTests:
    """How the cells of an axis, in the order of ``skboost.ebm.Axis``, are told apart.

    Attributes
    ----------
    feature : int
    edges : ndarray of shape (n_value_cells - 1,)
        Of a numeric axis; a value equal to an edge lies above it.
    groups : list of ndarray, or None
        Categories in each value cell, as the file names them, of a categorical axis.
    """

    feature: int
    edges: np.ndarray
    groups: list | None

    @property
    def reachable(self):
        """Cells that rows can be in: a numeric axis has none of unseen values."""
        if self.groups is not None:
            return np.arange(len(self.groups) + 2)
        return np.append(np.arange(len(self.edges) + 1), len(self.edges) + 2)

    def halves(self, cells):
        """Return the NodeTest that parts two cells or more, and the cells on both sides; missing values go first."""
        n_values = len(self.edges) + 1 if self.groups is None else len(self.groups)
        if cells[-1] == n_values + 1:
            return NodeTest(np.inf, NAN, None), cells[:-1], cells[-1:]
        left, right = np.split(cells, [len(cells) // 2])
        if self.groups is None:
            edge = self.edges[right[0] - 1]
            check_not_zero(self.feature, edge)
            return NodeTest(float(np.nextafter(edge, -np.inf)), NAN, None), left, right
        # Unseen categories are in no set and go to the right, where their cell is.
        chosen = np.sort(np.concatenate([self.groups[cell] for cell in left]))
        return NodeTest(0.0, CATEGORICAL | NAN, chosen), left, right


def term_rounds(estimator):
    """Return what the text of a fitted explainable boosting machine is made of.

    Parameters
    ----------
    estimator : EBMRegressor or EBMClassifier

    Returns
    -------
    chain : Chain
    cuts : list of ndarray
        Cuts of each column.
    rounds : list of Trees
        The intercept, which the model adds first too, then one for each term.

    Raises
    ------
    ValueError
        If a cut is too close to zero for LightGBM.
    """
    maps, names = estimator._category_maps, getattr(estimator, "feature_names_in_", None)
    coding, loss = coding_of(maps, names), estimator._loss
    rounds = []
    for features, scores, weights in zip(
        estimator.term_features_, estimator.term_scores_, estimator.bin_weights_, strict=True
    ):
        axes = [_cell_tests(estimator._mapper, maps, coding, feature, len(features) > 1) for feature in features]
        values = view(scores, len(axes)).reshape(*weights.shape, loss.n_outputs)
        rounds.append(_grow(axes, values, view(weights, len(axes))))
    total = rounds[0].weights.sum() if rounds else 1
    rounds.insert(0, constant(np.atleast_1d(estimator.intercept_), total))
    none = np.empty(0)
    chain = Chain(
        predicts=TERMS,
        loss=loss,
        classes=getattr(estimator, "classes_", None),
        feature_names=names,
        category_maps=maps,
        coding=coding,
        shrink_factors=none,
        coefficients=none,
        cycle_length=None,
        leaf_values=[],
        empty_leaves=[],
    )
    return chain, [estimator._mapper.cuts(feature) for feature in range(len(maps))], rounds


def _cell_tests(mapper, maps, coding, feature, in_pair):
    edges = mapper.coarse_cuts(feature) if in_pair else mapper.cuts(feature)
    if maps[feature] is None:
        return CellTests(feature, edges, None)
    known, texts = maps[feature]
    n_levels = len(known) + len(texts)
    cells = mapper.coarse(feature)[1 : n_levels + 1] if in_pair else np.arange(1, n_levels + 1)
    codes = known.astype(np.int64) if coding == NUMBERS else np.arange(n_levels)
    return CellTests(feature, edges, [codes[cells == cell] for cell in range(1, int(cells.max(initial=0)) + 1)])


def _grow(axes, values, weights):
    """Return the Trees of a tensor, values of shape (n_cells, ..., n_outputs); equal cells share a leaf."""
    shape, leaf_values, leaf_weights = Shape([], [], [], [], []), [], []

    def grow(cells):
        """Return the child for a block of cells, its weight and the weighted mean of its values."""
        block, weight = values[np.ix_(*cells)].reshape(-1, values.shape[-1]), weights[np.ix_(*cells)].ravel()
        total = weight.sum()
        mean = weight @ block / total if total > 0 else block.mean(axis=0)
        if (block == block[0]).all():
            leaf_values.append(block[0])
            leaf_weights.append(total)
            return ~(len(leaf_values) - 1), total, mean
        axis = next(axis for axis, found in enumerate(cells) if len(found) > 1)
        test, *sides = axes[axis].halves(cells[axis])
        node = len(shape.feature)
        shape.feature.append(axes[axis].feature)
        shape.tests.append(test)
        for filled_below in (shape.left, shape.right, shape.gain):
            filled_below.append(0)
        grown = [grow([*cells[:axis], side, *cells[axis + 1 :]]) for side in sides]
        (shape.left[node], first, low), (shape.right[node], second, high) = grown
        # The part of the weighted variance of the term that the split explains.
        shape.gain[node] = float(first * second / total * ((high - low) ** 2).sum()) if total > 0 else 0.0
        return node, total, mean

    grow([axis.reachable for axis in axes])
    return Trees(shape, np.array(leaf_values), np.array(leaf_weights))
