"""From a forest over codes to trees over numbers, as LightGBM tests them."""

import numpy as np

from skboost.lightgbm._chain import LAST_STATE, MEAN_STATE, NUMBERS, Chain, coding_of
from skboost.lightgbm._text import NodeTest, Shape, Trees, constant
from skboost.lightgbm._trees import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, ZERO_BOUND

# Missing numbers have a side of their own at every node; LightGBM would read them as zeros otherwise.
NAN = MISSING_NAN << 2


def forest_rounds(estimator):
    """Return what the text of a fitted SGLB estimator is made of.

    Parameters
    ----------
    estimator : SGLBRegressor or SGLBClassifier

    Returns
    -------
    chain : Chain
    cuts : list of ndarray
        Cuts of each column.
    rounds : list of Trees
        One for each iteration; the last one holds the base scores, which the model adds last too.

    Raises
    ------
    ValueError
        If LightGBM has no test for one of the splits.
    """
    forest, mapper = estimator._forest, estimator._mapper
    mean = estimator._check_averaging() == "mean"
    coefficients = estimator._mean_add if mean else forest.mean_coefficients([forest.n_trees])
    maps, names = estimator._category_maps, getattr(estimator, "feature_names_in_", None)
    coding = coding_of(maps, names)
    translator = Translator(forest, mapper, maps, coding)
    rounds, leaf_values, empty_leaves = [], [], []
    for tree, coefficient in enumerate(coefficients):
        shape, leaves = translator.shape(tree)
        rows = forest.leaf_offset[tree] + np.array(leaves)
        values = forest.leaf_value[rows]
        rounds.append(Trees(shape, coefficient * values, forest.leaf_weight[rows]))
        empty_leaves.append(np.flatnonzero(rounds[-1].weights == 0))
        leaf_values += [None] * forest.n_outputs if coefficient == 1 else list(values.T)
    rounds.append(constant(forest.base_score, rounds[0].weights.sum() if rounds else 1))
    record, noise = estimator._record, estimator.noise_variance_
    cycle = record.cycle
    chain = Chain(
        predicts=MEAN_STATE if mean else LAST_STATE,
        loss=estimator._loss,
        classes=getattr(estimator, "classes_", None),
        feature_names=names,
        category_maps=maps,
        coding=coding,
        shrink_factors=forest.shrink_factors,
        coefficients=coefficients,
        cycle_length=None if cycle is None else cycle.length,
        leaf_values=leaf_values,
        empty_leaves=empty_leaves,
        empty_variance=float(estimator._empty_variance),
        empty_scale=None if record.noise_scales is None else noise,
        noise_variance=float(noise) if record.dynamics.noisy and np.ndim(noise) == 0 else None,
        class_weighted=getattr(estimator, "class_weight", None) is not None,
    )
    return chain, [mapper.thresholds(feature) for feature in range(mapper.n_features)], rounds


def check_not_zero(feature, cut):
    """Raise ValueError for a cut that LightGBM cannot tell from zero."""
    if 0 < abs(cut) <= ZERO_BOUND:
        raise ValueError(
            f"Column {feature} is split at {float(cut)!r}: LightGBM takes numbers up to {ZERO_BOUND:g} for zeros; "
            "change the unit of the column."
        )


class Translator:
    """Translates the trees of a forest.

    Parameters
    ----------
    forest : Forest
    mapper : BinMapper
        That the forest was trained with.
    category_maps : tuple of length n_features
        As of ``skboost._validation.TrainingData``.
    coding : {"numbers", "positions"}
        What stands for a category in the file.
    """

    def __init__(self, forest, mapper, category_maps, coding):
        self.forest = forest
        self.mapper = mapper
        self.category_maps = category_maps
        self.coding = coding
        self._tests = {}

    def shape(self, tree):
        """Return the Shape of a tree, and which leaf of the tree each of its leaves is.

        Raises
        ------
        ValueError
            If LightGBM has no such test.
        """
        first, end = (int(offset) for offset in self.forest.node_offset[tree : tree + 2])
        if self.forest.kind == "symmetric":
            start, stop = (int(offset) for offset in self.forest.table_offset[tree : tree + 2])
            return self._symmetric(range(first, end), self.forest.table[start:stop])
        feature, gain = self.forest.feature[first:end].tolist(), self.forest.gain[first:end].tolist()
        left, right = self.forest.left[first:end].tolist(), self.forest.right[first:end].tolist()
        tests = []
        for node in range(end - first):
            test, swapped = self._test(first + node)
            tests.append(test)
            if swapped:
                left[node], right[node] = right[node], left[node]
        return Shape(feature, left, right, tests, gain), list(range(len(feature) + 1))

    def _symmetric(self, levels, table):
        """Return the shape of a symmetric tree; a level that parts no leaf of a branch is left out there."""
        shape, leaves, level_of = Shape([], [], [], [], []), [], []

        def grow(table, levels):
            # The lowest bit of an index is the first level.
            while len(table) > 1 and np.array_equal(table[::2], table[1::2]):
                table, levels = table[::2], levels[1:]
            if len(table) == 1:
                leaves.append(int(table[0]))
                return ~(len(leaves) - 1)
            node, (test, swapped) = len(shape.feature), self._test(levels[0])
            shape.feature.append(int(self.forest.feature[levels[0]]))
            shape.tests.append(test)
            level_of.append(levels[0])
            for children in (shape.left, shape.right):
                children.append(0)
            sides = (table[1::2], table[::2]) if swapped else (table[::2], table[1::2])
            shape.left[node], shape.right[node] = (grow(side, levels[1:]) for side in sides)
            return node

        grow(table, levels)
        # The gain of a level is that of its nodes together.
        shape.gain.extend(float(self.forest.gain[level]) / level_of.count(level) for level in level_of)
        return shape, leaves

    def _test(self, node):
        """Return the NodeTest of a node, and whether its children change places."""
        forest = self.forest
        key = tuple(
            int(array[node]) for array in (forest.feature, forest.threshold, forest.missing_right, forest.cat_set)
        )
        if key not in self._tests:
            goes_left = self._codes_left(*key)
            make = self._category_test if self.mapper.is_categorical[key[0]] else self._numeric_test
            self._tests[key] = make(key[0], goes_left)
        return self._tests[key]

    def _codes_left(self, feature, threshold, missing_right, cat_set):
        """Return which codes of the column go left, bool; code 0 is missing."""
        codes = np.arange(self.mapper.n_bins[feature])
        if cat_set >= 0:
            return self.forest.cat_sets[cat_set][codes >> 3] >> (codes & 7) & 1 == 1
        return (codes - missing_right) % 256 <= (threshold - missing_right) % 256

    def _numeric_test(self, feature, goes_left):
        swapped = not goes_left[1:].any()
        if swapped:
            goes_left = ~goes_left
        n_left = np.count_nonzero(goes_left[1:])
        if not goes_left[1 : n_left + 1].all():
            raise ValueError(f"A split of column {feature} sends no interval to the left: LightGBM has no such test.")
        cuts = self.mapper.thresholds(feature)
        threshold = float(cuts[n_left - 1]) if n_left <= len(cuts) else np.inf
        check_not_zero(feature, threshold)
        return NodeTest(threshold, NAN | (DEFAULT_LEFT if goes_left[0] else 0), None), swapped

    def _category_test(self, feature, goes_left):
        # LightGBM sends missing and unknown categories to the right.
        swapped = bool(goes_left[0])
        if swapped:
            goes_left = ~goes_left
        positions, codes = self.mapper.levels(feature)
        chosen = positions[goes_left[codes]].astype(np.int64)
        if self.coding == NUMBERS:
            chosen = self.category_maps[feature][0][chosen].astype(np.int64)
        return NodeTest(0.0, CATEGORICAL | NAN, chosen), swapped
