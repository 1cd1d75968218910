"""Boulevard boosting on arrays: trees that are averaged instead of added, so that the ensemble has a known limit.

Rows come in canonical order (sorted by content), so that sums in plain floating point do not depend on the order of the
user's rows. A tree's structure comes from the engine; its leaf values are means of residuals over the rows of this
round, made here, since structure and values may see different rows.
"""

from dataclasses import dataclass

import numpy as np

from skboost._engine.grower import Trainer
from skboost._engine.langevin import leaf_normals
from skboost._forest import ForestBuilder
from skboost._losses import SquaredError
from skboost._random import STREAM_BOULEVARD_DROPOUT, STREAM_BOULEVARD_HALVES, STREAM_BOULEVARD_WALK, STREAM_SUBSAMPLE
from skboost._sampling import draw_copies

NO_LIMIT = 2**30
DEPTHWISE, LOSSGUIDE = 1, 2
BYTE_LEAVES = 256
MOST_LEAVES = 65536


@dataclass(frozen=True)
class ChainRules:
    """How trees are grown and averaged; names as in the estimator.

    Attributes
    ----------
    n_slots : int
        Trees of one round; 1 for method="dropout".
    learning_rate, dropout : float
        1 and 0 for method="parallel".
    """

    method: str
    structure: str
    n_rounds: int
    n_slots: int
    learning_rate: float
    dropout: float
    subsample: float
    max_leaf_nodes: int | None
    max_depth: int | None
    min_samples_leaf: int
    l2_regularization: float

    @property
    def value_rate(self):
        """Chance that a row takes part in the leaf values of a tree."""
        return self.subsample * (0.5 if self.structure == "honest" else 1.0)

    @property
    def shrinkage(self):
        """The constant kappa beside the number of rows of a leaf in the limit."""
        return self.l2_regularization / self.value_rate

    @property
    def limit(self):
        """Return (c, s): the limit is ``intercept + s k(x)' (c I + K)^-1 (y - intercept)``."""
        if self.method == "parallel":
            return 1.0 / (self.n_slots - 1), self.n_slots / (self.n_slots - 1)
        kept = self.learning_rate * (1.0 - self.dropout)
        return 1.0 / kept, (1.0 + kept) / kept

    @property
    def tree_weight(self):
        """Return the factor of every tree in the prediction."""
        if self.method == "parallel":
            return 1.0 / self.n_rounds
        return (1.0 + self.learning_rate * (1.0 - self.dropout)) / self.n_rounds


@dataclass(frozen=True)
class ChainRows:
    """Training rows in canonical order.

    Attributes
    ----------
    codes_col, codes_row : uint8 arrays
        Codes column by column and row by row.
    n_bins, is_categorical : arrays over features
        Of the bin mapper.
    y : float64 array of shape (n_rows,)
    keys : uint64 array of shape (n_rows,)
        Keys of the contents, ascending.
    first : int64 array of shape (n_rows,)
        Number of each row among those of equal content.
    """

    codes_col: np.ndarray
    codes_row: np.ndarray
    n_bins: np.ndarray
    is_categorical: np.ndarray
    y: np.ndarray
    keys: np.ndarray
    first: np.ndarray

    @property
    def n_rows(self):
        """Number of rows."""
        return len(self.y)


@dataclass(frozen=True)
class ChainResult:
    """What a fit leaves.

    Attributes
    ----------
    forest : Forest
        Its base score is the intercept, its leaves hold the values of the trees, unscaled.
    leaves : uint8 or uint16 array of shape (n_trees, n_rows)
        Leaf of every training row in every tree.
    fitted : float64 array of shape (n_rows,)
        Predictions of the training rows.
    """

    forest: object
    leaves: np.ndarray
    fitted: np.ndarray


def run_chain(rows, rules, intercept, seed, n_threads, reporter=None):
    """Fit the trees.

    Parameters
    ----------
    rows : ChainRows
    rules : ChainRules
    intercept : float
    seed : int
    n_threads : int
        No influence on the result.
    reporter : ProgressReporter or None, default=None

    Returns
    -------
    ChainResult
    """
    grower = TreeGrower(rows, rules, seed, n_threads)
    average = _parallel_rounds if rules.method == "parallel" else _dropout_rounds
    total = average(grower, rules, rows.y - intercept, seed, reporter)
    forest = grower.builder.finish(intercept, np.ones(grower.n_trees))
    return ChainResult(forest, grower.leaves, intercept + rules.tree_weight * total)


def _dropout_rounds(grower, rules, target, seed, reporter):
    """Run BRAT-D; without dropout it is plain Boulevard. Return the sum of the trees."""
    total = np.zeros(len(target))
    for b in range(rules.n_rounds):
        offset = total.copy()
        for tree in _dropped(rules.dropout, b, seed):
            offset -= grower.predictions(tree)
        offset *= rules.learning_rate / max(b, 1)
        total += grower.grow(target - offset)
        if reporter is not None and reporter.due(b + 1):
            reporter.update(b + 1)
    return total


def _dropped(dropout, b, seed):
    """Return the earlier trees that round b leaves out of its offset."""
    if dropout == 0 or b == 0:
        return np.empty(0, dtype=np.int64)
    trees, ones = np.arange(b, dtype=np.uint64), np.ones(b, dtype=np.int64)
    return np.flatnonzero(
        draw_copies(dropout, seed, STREAM_BOULEVARD_DROPOUT, b, trees, np.zeros(b, dtype=np.int64), ones)
    )


def _parallel_rounds(grower, rules, target, seed, reporter):
    """Run BRAT-P: each slot fits what the means of the other slots leave. Return the sum of the trees of all slots."""
    sums = np.zeros((rules.n_slots, len(target)))
    for b in range(rules.n_rounds):
        means = sums / max(b, 1)
        for slot in range(rules.n_slots):
            others = means.sum(axis=0) - means[slot]
            tree = grower.grow(target - others)
            sums[slot] += tree
            if b == 0:
                means[slot] = tree  # the first round boosts the slots one after the other
        if reporter is not None and reporter.due(b + 1):
            reporter.update(b + 1)
    return sums.sum(axis=0)


class TreeGrower:
    """Grows one tree after the other, each on the residuals that it is given.

    Parameters
    ----------
    rows : ChainRows
    rules : ChainRules
    seed, n_threads : int
    """

    def __init__(self, rows, rules, seed, n_threads):
        self.rows, self.rules, self.seed, self.n_threads = rows, rules, seed, n_threads
        self.builder = ForestBuilder("general", 1)
        self.values = []
        self._target = np.zeros(rows.n_rows)
        self._trainer = Trainer(
            rows.codes_col, rows.codes_row, rows.n_bins, rows.is_categorical, SquaredError(), self._target, np.zeros(1),
            _engine_rules(rules), None, None, n_threads,
        )  # fmt: skip
        most = rows.n_rows if rules.max_leaf_nodes is None else rules.max_leaf_nodes
        self._leaves = np.empty(
            (rules.n_rounds * rules.n_slots, rows.n_rows), dtype=np.uint8 if most <= BYTE_LEAVES else np.uint16
        )

    @property
    def n_trees(self):
        """Number of trees so far."""
        return len(self.values)

    @property
    def leaves(self):
        """Leaf of every row in every tree so far."""
        return self._leaves[: self.n_trees]

    def predictions(self, tree):
        """Return the values that a tree gives the rows."""
        return self.values[tree][self._leaves[tree]]

    def grow(self, residual):
        """Grow a tree on residuals and return its values at the rows."""
        number = self.n_trees
        structure, used = self._draw(number)
        response = self._walk(number) if self.rules.structure == "random" else residual
        # From scores of 0 the engine fits its target, and leaves the value of each row's leaf in the scores.
        self._target[:] = response
        self._trainer.scores[:] = 0.0
        tree = self._trainer.grow(number, self.seed, units=structure)
        leaf = self._leaf_of_rows(tree)
        n_leaves = len(tree["leaf_weight"])
        if n_leaves > MOST_LEAVES:
            raise ValueError(f"Trees of more than {MOST_LEAVES} leaves are not supported: set max_leaf_nodes.")
        tree["leaf_value"] = leaf_means(leaf, residual, used, n_leaves, self.rules.l2_regularization)
        tree["leaf_weight"] = np.bincount(leaf, minlength=n_leaves).astype(np.float64)
        self.builder.append(tree)
        self.values.append(tree["leaf_value"])
        self._leaves[number] = leaf
        return tree["leaf_value"][leaf]

    def _leaf_of_rows(self, tree):
        """Return the leaf of every row: by the engine's leaf values where these differ, else by a walk."""
        values = tree["leaf_value"].ravel()
        order = np.argsort(values)
        ascending = values[order]
        if (np.diff(ascending) > 0).all():
            return order[np.searchsorted(ascending, self._trainer.scores[0])]
        shape = ForestBuilder("general", 1)
        shape.append(tree)
        return shape.tree().apply(self.rows.codes_col, n_threads=self.n_threads)[:, 0]

    def _draw(self, number):
        """Return the units of the structure (None for all rows) and the rows of the values (None for all)."""
        rows, rules = self.rows, self.rules
        ones = np.ones(rows.n_rows, dtype=np.int64)
        key = rows.keys, rows.first, ones, self.n_threads
        sampled = None
        if rules.subsample < 1:
            sampled = draw_copies(rules.subsample, self.seed, STREAM_SUBSAMPLE, number, *key) > 0
        if rules.structure != "honest":
            return (None if sampled is None else sampled.astype(np.uint32)), sampled
        half = draw_copies(0.5, self.seed, STREAM_BOULEVARD_HALVES, number, *key) > 0
        structure, values = (half, ~half) if sampled is None else (half & sampled, ~half & sampled)
        return structure.astype(np.uint32), values

    def _walk(self, number):
        """Return a random function of the codes: a random walk over the bins of each feature, of random size."""
        n_bins = self.rows.n_bins
        draws = np.empty(int(n_bins.sum()) + len(n_bins))
        leaf_normals(self.seed, STREAM_BOULEVARD_WALK, number, 0, draws)
        response, start = np.zeros(self.rows.n_rows), len(n_bins)
        for feature, size in enumerate(n_bins.tolist()):
            table = draws[start : start + size]
            start += size
            if not self.rows.is_categorical[feature]:
                # Steps of a walk; the missing bin stays where its own draw puts it, at the scale of the whole walk.
                table[1:] = np.cumsum(table[1:])
                table[0] *= np.sqrt(size)
                table = table / np.sqrt(size)
            response += draws[feature] * table[self.rows.codes_col[feature]]
        return response


def leaf_means(leaf, residual, used, n_leaves, l2):
    """Return the regularised mean residual of the used rows of each leaf, 0 where there is none."""
    if used is not None:
        leaf, residual = leaf[used], residual[used]
    sums = np.bincount(leaf, weights=residual, minlength=n_leaves)
    counts = np.bincount(leaf, minlength=n_leaves) + l2
    return np.divide(sums, counts, out=np.zeros(n_leaves), where=counts > 0)


def _engine_rules(rules):
    best_first = rules.max_leaf_nodes is not None
    return {
        "policy": LOSSGUIDE if best_first else DEPTHWISE,
        "max_depth": NO_LIMIT if rules.max_depth is None else min(rules.max_depth, NO_LIMIT),
        "max_leaves": rules.max_leaf_nodes if best_first else NO_LIMIT,
        "min_weight": min(rules.min_samples_leaf, NO_LIMIT),
        "l2": 0.0 if rules.structure == "random" else rules.l2_regularization,
        "learning_rate": 1.0,
        "newton": False,
        "monotone": None,
        "groups": None,
    }
