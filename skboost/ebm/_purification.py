"""Purification of pairs: what a pair says of one feature alone goes to that feature's own term.

A pair is pure when its weighted row and column sums are zero. Its main effects solve the normal equations of the
weighted two-way layout, the functional ANOVA of B. Lengerich, S. Tan, C.-H. Chang, G. Hooker and R. Caruana, Purifying
interaction effects with the functional ANOVA, AISTATS 2020, arXiv:1911.04974. They are solved directly: alternating
sweeps converge slowly where the two features are correlated.
"""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
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
                mean = weight @ effect / weight.sum()
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
        meet = self._share @ weights.T
        np.fill_diagonal(meet, 0.0)
        meet = 0.5 * (meet + meet.T)
        # Rows that no chain of cells connects have no common scale; one row of each connected part is held at 0.
        self._n_parts, self._row_part = connected_components(meet > 0, directed=False)
        order = np.argsort(-self._row_weight, kind="stable")
        pinned = order[np.unique(self._row_part[order], return_index=True)[1]]
        self._free = np.setdiff1d(np.flatnonzero(self._row_weight > 0), pinned)
        # Sums of positive terms: the diagonal keeps its digits however close two rows are.
        system = np.diag(meet.sum(axis=1)) - meet
        self._system = system[np.ix_(self._free, self._free)]
        try:
            self._factor = cho_factor(self._system)
        except LinAlgError:
            self._factor = None  # weights so unequal that rounding made the system indefinite
        column_part = self._row_part[np.argmax(weights, axis=0)]
        self._column_part = np.where(self._column_weight > 0, column_part, self._n_parts)

    def solve(self, row_sums, column_sums):
        """Return the effects of rows and columns with the given weighted sums."""
        rows = np.zeros_like(row_sums)
        if self._free.size:
            right = (row_sums - self._share @ column_sums)[self._free]
            if self._factor is None:
                rows[self._free] = np.linalg.lstsq(self._system, right, rcond=None)[0]
            else:
                rows[self._free] = cho_solve(self._factor, right)
        columns = _ratio(column_sums - self._weights.T @ rows, self._column_weight)
        return self._share_levels(rows, columns)

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


def _part_means(effect, weight, part, n_parts):
    totals = np.zeros((n_parts, effect.shape[1]))
    np.add.at(totals, part, weight[:, None] * effect)
    return _ratio(totals, np.bincount(part, weight, n_parts))


def _ratio(sums, weight):
    """Quotient along the first axis, 0 where the weight is 0."""
    return np.divide(sums, weight[:, None], out=np.zeros_like(sums), where=weight[:, None] > 0)
