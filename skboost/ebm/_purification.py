"""Purification of pairs: what a pair says of one feature alone goes to that feature's own term.

A pair is pure when its weighted row and column sums are zero. Its main effects solve the normal equations of the
weighted two-way layout, the functional ANOVA of B. Lengerich, S. Tan, C.-H. Chang, G. Hooker and R. Caruana, Purifying
interaction effects with the functional ANOVA, AISTATS 2020, arXiv:1911.04974. They are solved directly: alternating
sweeps converge slowly where the two features are correlated.

Nothing here calls BLAS or LAPACK, whose order of sums depends on the processor and on the number of threads.
"""

import numpy as np
from scipy.sparse.csgraph import connected_components

# The second pass removes the rounding of the first.
N_PASSES = 2


class Purifier:
    """Split pair tensors into a pure part, main effects and a constant; the weights are factorised once.

    Cells, rows and columns without weight keep what the whole tensor says there: ``tensor == pure + rows + columns +
    constant`` holds in every cell, and the effect of a row or column without weight is 0.

    Parameters
    ----------
    weights : ndarray of shape (n_rows, n_columns)
        Weights of the cells, at least 0, with a positive sum.
    rows, columns : bool, default=True
        Whether there is a place for the main effect of the axis; without one it stays in the pair.
    """

    def __init__(self, weights, rows=True, columns=True):
        self._weights = np.asarray(weights, dtype=np.float64)
        self._row_weight, self._column_weight = self._weights.sum(axis=1), self._weights.sum(axis=0)
        self._rows, self._columns = rows, columns
        self._layout = None
        if rows and columns:
            wide = self._weights.shape[0] <= self._weights.shape[1]
            self._layout = _TwoWay(self._weights if wide else self._weights.T)
            self._transposed = not wide

    def __call__(self, tensor):
        """Purify tensors.

        Parameters
        ----------
        tensor : ndarray of shape (n_rows, n_columns, n_tensors)
            Tensors of the same weights.

        Returns
        -------
        pure : ndarray of shape (n_rows, n_columns, n_tensors)
            The pairs.
        rows : ndarray of shape (n_rows, n_tensors)
            Main effects of the rows with weighted mean 0.
        columns : ndarray of shape (n_columns, n_tensors)
            Main effects of the columns with weighted mean 0.
        constant : ndarray of shape (n_tensors,)
            Weighted means.
        """
        constant = np.zeros(tensor.shape[2])
        rows, columns = np.zeros(tensor.shape[::2]), np.zeros(tensor.shape[1:])
        pure = tensor
        for _ in range(N_PASSES):
            row_part, column_part = self._main_effects(pure * self._weights[:, :, None])
            rows += row_part
            columns += column_part
            for effect, weight in ((rows, self._row_weight), (columns, self._column_weight)):
                mean = (weight[:, None] * effect).sum(axis=0) / weight.sum()
                effect[weight > 0] -= mean
                constant += mean
            pure = tensor - (rows[:, None] + columns[None] + constant)
        return pure, rows, columns, constant

    def _main_effects(self, weighted):
        """Main effects of weighted tensors; 0 where there is no weight or no place for them."""
        row_sums, column_sums = weighted.sum(axis=1), weighted.sum(axis=0)
        if self._layout is not None:
            if self._transposed:
                return self._layout.solve(column_sums, row_sums)[::-1]
            return self._layout.solve(row_sums, column_sums)
        row_part = _ratio(row_sums, self._row_weight) if self._rows else np.zeros_like(row_sums)
        column_part = _ratio(column_sums, self._column_weight) if self._columns else np.zeros_like(column_sums)
        return row_part, column_part


class _TwoWay:
    """Normal equations of a two-way layout, reduced to the effects of the rows."""

    def __init__(self, weights):
        self._row_weight, self._column_weight = weights.sum(axis=1), weights.sum(axis=0)
        self._weights = weights
        self._share = np.zeros_like(weights)  # of each cell in its column
        np.divide(weights, self._column_weight, out=self._share, where=self._column_weight > 0)
        meet = _meetings(self._share, weights)
        # Rows that no chain of cells connects have no common scale: each connected part has a level of its own.
        self._n_parts, self._row_part = connected_components(meet > 0, directed=False)
        self._elimination = _Elimination(meet, np.argsort(self._row_weight, kind="stable"))
        column_part = self._row_part[np.argmax(weights, axis=0)]
        self._column_part = np.where(self._column_weight > 0, column_part, self._n_parts)

    def solve(self, row_sums, column_sums):
        """Return the effects of rows and columns with the given weighted sums."""
        rows = self._elimination.solve(row_sums - (self._share[:, :, None] * column_sums).sum(axis=1))
        column_rest = column_sums - (self._weights[:, :, None] * rows[:, None]).sum(axis=0)
        return self._share_levels(rows, _ratio(column_rest, self._column_weight))

    def _share_levels(self, rows, columns):
        """Give rows and columns of each connected part the same mean, so that neither axis is special."""
        n_tensors = rows.shape[1]
        row_means, column_means = (
            _part_means(effect, weight, part, self._n_parts + 1)
            for effect, weight, part in (
                (rows, self._row_weight, self._row_part),
                (columns, self._column_weight, self._column_part),
            )
        )
        shift = 0.5 * (column_means - row_means)
        shift[self._n_parts :] = 0.0
        rows = np.where((self._row_weight > 0)[:, None], rows + shift[self._row_part], 0.0)
        columns = np.where((self._column_weight > 0)[:, None], columns - shift[self._column_part], 0.0)
        return rows.reshape(-1, n_tensors), columns.reshape(-1, n_tensors)


class _Elimination:
    """Solver of ``(diag(meet.sum(axis=1)) - meet) x = right`` for a symmetric `meet` of numbers of at least 0.

    Rows are eliminated one after another: what a row shared with others is spread over the pairs of them. Diagonals are
    sums of what is left, so that positive numbers are only added, multiplied and divided and keep their digits, however
    close two rows or unequal their weights are: the elimination of W. K. Grassmann, M. I. Taksar and D. P. Heyman,
    Regenerative analysis and steady state distributions for Markov chains, Operations Research 33, 1985.

    Parameters
    ----------
    meet : ndarray of shape (n, n)
        Off-diagonal elements with the opposite sign; the diagonal is not read.
    order : ndarray of shape (n,)
        Order of elimination; the last row of each connected part is held at 0.
    """

    def __init__(self, meet, order):
        n = len(order)
        meet = meet[np.ix_(order, order)]
        self._order, self._pivots, self._spread = order, np.zeros(n), np.zeros((n, n))
        rest = np.zeros((n, n))  # of each row, when its turn has come
        for k in range(n):
            rest[k, k + 1 :] = meet[k, k + 1 :] + (self._spread[:k, k, None] * rest[:k, k + 1 :]).sum(axis=0)
            self._pivots[k] = pivot = rest[k].sum()
            if pivot > 0:
                self._spread[k] = rest[k] / pivot

    def solve(self, right):
        """Return the solutions for right sides of shape (n, n_tensors), each connected part of which sums to 0."""
        right, solution = right[self._order], np.zeros_like(right)
        for k, spread in enumerate(self._spread):
            right[k + 1 :] += spread[k + 1 :, None] * right[k]
        solved = _ratio(right, self._pivots)
        for k in reversed(range(len(solved))):
            solved[k] += (self._spread[k, k + 1 :, None] * solved[k + 1 :]).sum(axis=0)
        solution[self._order] = solved
        return solution


def _meetings(share, weights):
    """Return ``share @ weights.T``, which is symmetric, in sums of one order whatever the processor."""
    n_rows, n_columns = weights.shape
    meet, products = np.zeros((n_rows, n_rows)), np.empty((n_rows, n_columns))
    for row in range(n_rows):
        used = np.flatnonzero(weights[row])
        if 4 * len(used) < n_columns:
            meet[row, row:] = (share[row, used] * weights[row:, used]).sum(axis=1)
        else:
            meet[row, row:] = np.multiply(share[row], weights[row:], out=products[row:]).sum(axis=1)
    return meet + np.triu(meet, 1).T


def _part_means(effect, weight, part, n_parts):
    totals = np.zeros((n_parts, effect.shape[1]))
    np.add.at(totals, part, weight[:, None] * effect)
    return _ratio(totals, np.bincount(part, weight, n_parts))


def _ratio(sums, weight):
    """Quotient along the first axis, 0 where the weight is 0."""
    return np.divide(sums, weight[:, None], out=np.zeros_like(sums), where=weight[:, None] > 0)
