"""One stage of the Boulevard explainable boosting machine: all terms are updated together, round after round.

A round fits one tree per term to the same residuals and averages it into the term's scores. What inference needs of a
stage are the structures of its trees, the leaf of every cell; the scores converge to a closed form of these and of the
labels (`skboost.inference._algebra`).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skboost._engine import boulevard_rows, boulevard_trees
from skboost._random import STREAM_BOULEVARD_CUTS, STREAM_BOULEVARD_ROWS

STRUCTURES = ("random", "honest", "greedy")
UPDATES = ("joint", "leave_one_out")
MOST_LEAVES = 32000
# Time of a row in a term, in entries of a table.
ROW_COST = 4
N_POWERS = 20


@dataclass(frozen=True)
class StageRules:
    """Parameters of a stage.

    Attributes
    ----------
    n_rounds : int
        Trees per term, B.
    learning_rate : float
        Factor lam on every tree, positive.
    subsample : float
        Share xi of the rows that each tree sees, in (0, 1].
    max_leaves : int
        Most leaves of a tree, besides those of missing values.
    min_samples_leaf : float
        Least number of drawn rows in a leaf.
    l2 : float
        Added to the denominator of leaf values.
    structure : {"random", "honest", "greedy"}
        Where cuts come from: from random numbers, from the labels of other rows, from the same labels.
    update : {"joint", "leave_one_out"}
        Whether a tree is fitted to the residuals of all terms, or of all terms but its own.
    """

    n_rounds: int
    learning_rate: float
    subsample: float
    max_leaves: int
    min_samples_leaf: float
    l2: float
    structure: str
    update: str

    @property
    def scale(self):
        """Factor s from the running average to the fit: (1 + lam) / lam for joint updates, else 1."""
        return (1 + self.learning_rate) / self.learning_rate if self.update == "joint" else 1.0

    @property
    def kappa(self):
        """What the kernel adds to the number of rows of a leaf: l2 / xi."""
        return self.l2 / self.subsample


@dataclass(frozen=True)
class StageCells:
    """The cells of the terms of a stage, and which of them the rows fall into.

    Attributes
    ----------
    codes : ndarray of shape (n_terms, n_rows)
        uint16 cell of every row in every term, counted within the term.
    shapes : ndarray of shape (n_terms, 2)
        int64 cells of the axes; the second is 1 for a main effect.
    ordered : ndarray of shape (n_terms, 2)
        uint8, 1 for axes of numbers.
    """

    codes: np.ndarray
    shapes: np.ndarray
    ordered: np.ndarray

    @cached_property
    def starts(self):
        """First cell of each term, and the number of all cells, int64."""
        return np.concatenate([[0], np.cumsum(self.shapes.prod(axis=1))]).astype(np.int64)

    @property
    def n_cells(self):
        """Number of cells of all terms."""
        return int(self.starts[-1])

    @property
    def blocks(self):
        """Slice of the cells of each term."""
        return [slice(first, last) for first, last in zip(self.starts[:-1], self.starts[1:], strict=True)]


@dataclass(frozen=True)
class StageRows:
    """Distinct rows in the order of their content.

    Attributes
    ----------
    keys : ndarray of shape (n_rows,)
        uint64 keys of the content, which draws depend on.
    copies : ndarray of shape (n_rows,)
        int64 number of equal rows.
    target : ndarray of shape (n_rows,)
        Labels less what earlier stages and the intercept predict.
    """

    keys: np.ndarray
    copies: np.ndarray
    target: np.ndarray

    @property
    def n_rows(self):
        """Number of rows, all copies counted."""
        return int(self.copies.sum())


def cell_sums(cells, rows, values):
    """Return the sum of values over the copies of the rows in every cell of every term."""
    weighted = rows.copies * values
    sizes = np.diff(cells.starts)
    sums = [np.bincount(code, weighted, size) for code, size in zip(cells.codes, sizes, strict=True)]
    return np.concatenate([np.empty(0), *sums])


def largest_eigenvalue(table, n_rows):
    """Return the largest eigenvalue of the sum of the projections on the terms, about 1 for independent features.

    It bounds that of the sum of their kernels, and is at most the number of terms.
    """
    counts = table.diagonal()
    root = np.sqrt(np.divide(1.0, counts, out=np.zeros_like(counts), where=counts > 0))
    # no eigenvector of anything: every direction is in it
    vector = np.cos(np.arange(1.0, len(counts) + 1)) * (counts > 0)
    norm = 0.0
    for _ in range(N_POWERS):
        scaled = root * vector
        vector = root * (boulevard_rows.times(table, scaled) - counts * ((counts * scaled).sum() / n_rows))
        norm = float(np.sqrt((vector * vector).sum()))
        if norm == 0:
            break
        vector /= norm
    return norm


def first_divisor(table, n_rows, rules):
    """Return how many trees that are zero the averages start with.

    None for independent features. Direction e of the fit is multiplied by ``1 - (1 + lam e) / b`` in round b (joint
    updates; lam (e - 1) for lam e otherwise), which would blow up the first rounds where many terms say the same.
    """
    e = largest_eigenvalue(table, n_rows)
    steps = rules.learning_rate * (e if rules.update == "joint" else e - 1)
    return int(max(0.0, (steps - 1) / 2 + 1e-6))


def boost(cells, rows, table, rules, seed, stage, n_threads=1, leaves=None):
    """Run all rounds of a stage.

    Parameters
    ----------
    cells : StageCells
        Terms.
    rows : StageRows
        Rows.
    table : ndarray of shape (n_cells, n_cells)
        Contingency table of the cells, as `skboost._engine.boulevard_rows.contingency` counts it.
    rules : StageRules
        Parameters.
    seed : int
        Key of all draws.
    stage : int
        Number of the stage, part of the key.
    n_threads : int, default=1
        Number of threads; no influence on the result.
    leaves : ndarray of shape (n_rounds, n_cells), default=None
        Structures to replay; None grows them.

    Returns
    -------
    leaves : ndarray of shape (n_rounds, n_cells)
        int16 leaf of each cell in the tree of each round, -1 for none.
    scores : ndarray of shape (n_cells,)
        Running averages of the trees times `rules.scale`.
    """
    weights, target_sums = table.diagonal().copy(), cell_sums(cells, rows, rows.target)
    halves = rules.structure == "honest" and leaves is None
    # Sums of all rows follow from the table; a pass over few rows is cheaper than one over a large table.
    by_table = rules.subsample == 1 and not halves and cells.n_cells**2 < ROW_COST * cells.codes.size
    grown = np.empty((rules.n_rounds, cells.n_cells), dtype=np.int16) if leaves is None else leaves
    scores = np.zeros(cells.n_cells)
    n_zeros = first_divisor(table, rows.n_rows, rules)
    # rounds of different stages have different keys
    first_key = stage << 32
    for number in range(rules.n_rounds):
        if by_table:
            counts = np.stack([weights, weights])
            sums = np.stack([target_sums - boulevard_rows.times(table, scores)] * 2)
        else:
            left = boulevard_rows.residuals(cells.codes, cells.starts, rows.target, scores, n_threads)
            counts, sums = boulevard_rows.sampled_sums(
                cells.codes,
                cells.starts,
                left,
                rows.keys,
                rows.copies,
                rules.subsample,
                halves,
                seed,
                STREAM_BOULEVARD_ROWS,
                first_key + number,
                n_threads,
            )
        if rules.update == "leave_one_out":
            sums += counts * scores
        if leaves is None:
            grown[number] = boulevard_trees.grow(
                rules.structure != "random",
                cells.starts,
                cells.shapes,
                cells.ordered,
                weights,
                counts[0],
                sums[0],
                rules.max_leaves,
                rules.min_samples_leaf,
                rules.l2,
                seed,
                STREAM_BOULEVARD_CUTS,
                first_key + number,
                n_threads,
            )
        divisor = number + 1 + n_zeros
        keep, step = 1 - 1 / divisor, rules.learning_rate / divisor
        boulevard_trees.update(grown[number], cells.starts, weights, counts[1], sums[1], rules.l2, keep, step, scores)
    return grown, rules.scale * scores
