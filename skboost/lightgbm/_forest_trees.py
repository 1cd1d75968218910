"""From a forest over codes to trees over numbers, as LightGBM tests them."""

from dataclasses import dataclass

import numpy as np

from skboost.lightgbm._chain import NUMBERS
from skboost.lightgbm._trees import CATEGORICAL, DEFAULT_LEFT, MISSING_NAN, ZERO_BOUND

# Missing numbers have a side of their own at every node; LightGBM would read them as zeros otherwise.
NAN = MISSING_NAN << 2


@dataclass(frozen=True)
class NodeTest:
    """The test of a node in LightGBM's terms.

    Attributes
    ----------
    threshold : float
        Of a numeric column.
    decision : int
    categories : ndarray or None
        Ascending categories that go left, of a categorical column.
    swapped : bool
        Whether the children have changed places.
    """

    threshold: float
    decision: int
    categories: np.ndarray | None
    swapped: bool


@dataclass(frozen=True)
class Shape:
    """The nodes of a tree.

    Attributes
    ----------
    feature, left, right : lists of int
    tests : list of NodeTest
    gain : list of float
    leaves : list of int
        Leaf of the forest's tree that each leaf is.
    """

    feature: list
    left: list
    right: list
    tests: list
    gain: list
    leaves: list


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
        """Return the Shape of a tree.

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
        tests = [self._test(node) for node in range(first, end)]
        for node, test in enumerate(tests):
            if test.swapped:
                left[node], right[node] = right[node], left[node]
        return Shape(feature, left, right, tests, gain, list(range(len(feature) + 1)))

    def _symmetric(self, levels, table):
        """Return the shape of a symmetric tree; a level that parts no leaf of a branch is left out there."""
        shape, level_of = Shape([], [], [], [], [], []), []

        def grow(table, levels):
            # The lowest bit of an index is the first level.
            while len(table) > 1 and np.array_equal(table[::2], table[1::2]):
                table, levels = table[::2], levels[1:]
            if len(table) == 1:
                shape.leaves.append(int(table[0]))
                return ~(len(shape.leaves) - 1)
            node, test = len(shape.feature), self._test(levels[0])
            shape.feature.append(int(self.forest.feature[levels[0]]))
            shape.tests.append(test)
            level_of.append(levels[0])
            for children in (shape.left, shape.right):
                children.append(0)
            sides = (table[1::2], table[::2]) if test.swapped else (table[::2], table[1::2])
            shape.left[node], shape.right[node] = (grow(side, levels[1:]) for side in sides)
            return node

        grow(table, levels)
        # The gain of a level is that of its nodes together.
        shape.gain.extend(float(self.forest.gain[level]) / level_of.count(level) for level in level_of)
        return shape

    def _test(self, node):
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
        if 0 < abs(threshold) <= ZERO_BOUND:
            raise ValueError(
                f"Column {feature} is split at {threshold!r}: LightGBM takes numbers up to {ZERO_BOUND:g} for zeros; "
                "change the unit of the column."
            )
        return NodeTest(threshold, NAN | (DEFAULT_LEFT if goes_left[0] else 0), None, swapped)

    def _category_test(self, feature, goes_left):
        # LightGBM sends missing and unknown categories to the right.
        swapped = bool(goes_left[0])
        if swapped:
            goes_left = ~goes_left
        positions, codes = self.mapper.levels(feature)
        chosen = positions[goes_left[codes]].astype(np.int64)
        if self.coding == NUMBERS:
            chosen = self.category_maps[feature][0][chosen].astype(np.int64)
        return NodeTest(0.0, CATEGORICAL | NAN, chosen, swapped)
