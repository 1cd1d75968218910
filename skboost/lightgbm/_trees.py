"""One tree of LightGBM: its arrays, the proof that they are a tree, and the way of rows through it."""

from dataclasses import dataclass

import numpy as np

CATEGORICAL = 1
DEFAULT_LEFT = 2
MISSING_NONE, MISSING_ZERO, MISSING_NAN = 0, 1, 2
# LightGBM's bound is a single-precision number.
ZERO_BOUND = float(np.float32(1e-35))
WORD_BITS = 32


@dataclass(frozen=True)
class LinearLeaves:
    """Linear models in the leaves.

    Attributes
    ----------
    constant : float64 array of shape (n_leaves,)
    offset : int64 array of shape (n_leaves + 1,)
        Range of each leaf in the other two.
    feature, coefficient : int64 and float64 arrays of shape (offset[-1],)
    """

    constant: np.ndarray
    offset: np.ndarray
    feature: np.ndarray
    coefficient: np.ndarray


@dataclass(frozen=True)
class Tree:
    """Arrays of a tree as LightGBM names them; a child below 0 is the leaf ``~child``.

    Attributes
    ----------
    feature, left, right : int64 arrays of shape (n_nodes,)
    threshold : float64 array of shape (n_nodes,)
        Rows with ``x <= threshold`` go left; at a categorical node the number of its set.
    decision : int64 array of shape (n_nodes,)
        Sum of CATEGORICAL, DEFAULT_LEFT and 4 times the missing type.
    gain : float64 array of shape (n_nodes,)
    leaf_value : float64 array of shape (n_leaves,)
    leaf_weight, leaf_count : float64 arrays of shape (n_leaves,)
        Sums of second derivatives and numbers of training rows; zeros where the file has none.
    boundaries : int64 array of shape (n_sets + 1,)
        Range of each set in `words`.
    words : int64 array
        Sets of categories; bit b of word w of a set is the category 32 w + b.
    linear : LinearLeaves or None
    """

    feature: np.ndarray
    threshold: np.ndarray
    decision: np.ndarray
    left: np.ndarray
    right: np.ndarray
    gain: np.ndarray
    leaf_value: np.ndarray
    leaf_weight: np.ndarray
    leaf_count: np.ndarray
    boundaries: np.ndarray
    words: np.ndarray
    linear: LinearLeaves | None = None

    def leaves(self, X):
        """Return the leaf of every row of X, float64 of shape (n_rows, n_features); int64 of shape (n_rows,)."""
        found = np.zeros(len(X), dtype=np.int64)
        if not len(self.feature):
            return found
        rows, nodes = np.arange(len(X)), found.copy()
        while len(rows):
            left = self._goes_left(X[rows, self.feature[nodes]], nodes)
            nodes = np.where(left, self.left[nodes], self.right[nodes])
            arrived = nodes < 0
            found[rows[arrived]] = ~nodes[arrived]
            rows, nodes = rows[~arrived], nodes[~arrived]
        return found

    def values(self, X, leaves):
        """Return what the tree adds to the raw score of every row, whose leaves are known."""
        values = self.leaf_value[leaves]
        if self.linear is None:
            return values
        for leaf in np.unique(leaves):
            part = slice(*self.linear.offset[leaf : leaf + 2])
            rows = np.flatnonzero(leaves == leaf)
            total, complete = np.full(len(rows), self.linear.constant[leaf]), np.ones(len(rows), dtype=bool)
            for feature, coefficient in zip(self.linear.feature[part], self.linear.coefficient[part], strict=True):
                x = X[rows, feature]
                complete &= ~np.isnan(x)
                total += coefficient * x
            values[rows[complete]] = total[complete]
        return values

    def _goes_left(self, x, nodes):
        decision = self.decision[nodes]
        missing, is_nan = decision >> 2, np.isnan(x)
        number = np.where(is_nan & (missing != MISSING_NAN), 0.0, x)
        default = (missing == MISSING_ZERO) & (np.abs(number) <= ZERO_BOUND) | (missing == MISSING_NAN) & is_nan
        left = np.where(default, decision & DEFAULT_LEFT != 0, number <= self.threshold[nodes])
        chosen = np.flatnonzero(decision & CATEGORICAL)
        if len(chosen):
            left[chosen] = self._in_set(x[chosen], self.threshold[nodes[chosen]].astype(np.int64))
        return left

    def _in_set(self, x, sets):
        category = np.trunc(x)
        first, n_words = self.boundaries[sets], np.diff(self.boundaries)[sets]
        # NaN compares false, and so stays outside like negative and unknown categories; -0.5 is category 0.
        inside = (category >= 0) & (category < n_words * WORD_BITS)
        category = np.where(inside, category, 0).astype(np.int64)
        inside[inside] = self.words[first[inside] + category[inside] // WORD_BITS] >> category[inside] % WORD_BITS & 1
        return inside


def check_children(left, right):
    """Raise ValueError unless every node but the first, and every leaf, is reached exactly once from node 0."""
    n_nodes = len(left)
    children = np.concatenate([left, right])
    counts = np.bincount(children + n_nodes + 1, minlength=2 * n_nodes + 1)
    leaves, nodes = counts[: n_nodes + 1], counts[n_nodes + 1 :]
    if nodes[0]:
        raise ValueError("node 0, the root, is the child of a node.")
    for what, found in (("leaf", leaves[::-1]), ("node", nodes[1:])):
        wrong = np.flatnonzero(found != 1)
        if len(wrong):
            number = wrong[0] + (what == "node")
            raise ValueError(f"{what} {number} is the child of {found[wrong[0]]} nodes instead of one.")
    # Every node has one parent now: what the root does not reach are rings.
    reached, stack = 0, [0]
    left, right = left.tolist(), right.tolist()
    while stack:
        node = stack.pop()
        reached += 1
        stack.extend(child for child in (left[node], right[node]) if child >= 0)
    if reached != n_nodes:
        raise ValueError(f"{n_nodes - reached} nodes are in a ring that the root does not reach.")
