"""The limit of Boulevard boosting in cell space: label weights, covariances, traces.

With M cells in all terms, Z the indicators of the rows' cells and J the centring of rows, a stage of infinitely many
rounds is linear in the labels: shapes = W Z'J y. W follows from one M x M system of the kernel of the trees and the
table G = Z'JZ, exact whatever the number of rows; the covariance of the shapes is W G W' times the noise variance.
"""

import itertools

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from skboost._engine import boulevard_trees

# Arrays of M x M float64 that are alive at the same time, at most.
SQUARES = 7
# A system whose reciprocal condition number is below this has several solutions for all practical purposes.
LEAST_RCOND = 1e-12
# Residual degrees of freedom below which residuals say nothing of the noise; a single one is 1 but for rounding.
LEAST_DEGREES = 0.5


def bytes_needed(n_cells):
    """Return the memory that the systems of so many cells take, in bytes."""
    return SQUARES * 8 * int(n_cells) ** 2


def kernel_blocks(leaves, starts, counts, kappa):
    """Return the mean kernel of the trees of every term.

    Parameters
    ----------
    leaves : ndarray of shape (n_rounds, n_cells)
        int16 leaf of each cell, -1 for none.
    starts : ndarray of shape (n_terms + 1,)
        First cell of each term.
    counts : ndarray of shape (n_cells,)
        Rows in each cell.
    kappa : float
        Added to the number of rows of a leaf.

    Returns
    -------
    list of ndarray
        H of every term, of shape (n_cells_t, n_cells_t).
    """
    counts, pairs = np.ascontiguousarray(counts), itertools.pairwise(starts)
    return [boulevard_trees.kernel(np.ascontiguousarray(leaves[:, a:b]), counts[a:b], kappa) for a, b in pairs]


def centred_table(table, n_rows):
    """Return G = C - v v'/n for the contingency table C, v being the rows in every cell."""
    counts = table.diagonal()
    return table - np.multiply.outer(counts, counts / n_rows)


def stage_weights(blocks, starts, gram, counts, learning_rate, update):
    """Return the label weights of a stage.

    Parameters
    ----------
    blocks : list of ndarray
        Kernels of the terms.
    starts : ndarray of shape (n_terms + 1,)
        First cell of each term.
    gram : ndarray of shape (n_cells, n_cells)
        G of the cells of the stage.
    counts : ndarray of shape (n_cells,)
        Rows in each cell.
    learning_rate : float
        lam.
    update : {"joint", "leave_one_out"}
        Update rule.

    Returns
    -------
    ndarray of shape (n_cells, n_cells)
        W: the shapes are W times the sums of the centred labels in the cells.
    """
    kernel, system = np.zeros_like(gram), np.empty_like(gram)
    for block, first, last in zip(blocks, starts[:-1], starts[1:], strict=True):
        part, rows = slice(first, last), counts[first:last]
        centred = learning_rate * (block - (rows / rows.sum()) @ block)
        kernel[part, part] = centred
        np.matmul(centred, gram[part], out=system[part])
        if update == "leave_one_out":
            system[part, part] = 0.0
    system.flat[:: len(system) + 1] += 1.0
    solved = _solve(system, kernel)
    return solved * ((1 + learning_rate) / learning_rate) if update == "joint" else solved


def _solve(system, right):
    """Solve; the solution of least norm where there are several, as for terms that determine each other."""
    if not len(system):
        return right
    norm = np.abs(system).sum(axis=0).max()
    factors, pivots, failed = lapack.dgetrf(system)
    rcond = 0.0 if failed else lapack.dgecon(factors, norm)[0]
    if rcond < LEAST_RCOND:
        return linalg.lstsq(system, right, cond=LEAST_RCOND, check_finite=False)[0]
    return np.ascontiguousarray(lapack.dgetrs(factors, pivots, right)[0])


def stack_stages(first, second, gram):
    """Return the label weights of two stages, of which the second is fitted to the residuals of the first.

    Parameters
    ----------
    first : ndarray of shape (n_first, n_first)
        Label weights of the first stage.
    second : ndarray of shape (n_second, n_second)
        Those of the second one.
    gram : ndarray of shape (n_first + n_second, n_first + n_second)
        G of the cells of both.

    Returns
    -------
    ndarray of shape (n_first + n_second, n_first + n_second)
        Label weights of the cells of both.
    """
    m = len(first)
    weights = np.zeros_like(gram)
    weights[:m, :m] = first
    weights[m:, m:] = second
    weights[m:, :m] = -second @ (gram[m:, :m] @ first)
    return weights


def covariance(weights, gram):
    """Return V = W G W', the covariance of the shapes per unit of noise variance."""
    product = weights @ gram @ weights.T
    return (product + product.T) / 2


def degrees_of_freedom(weights, gram, cov):
    """Return the traces of P and of P P', P being the matrix from labels to fitted values, the mean included."""
    return 1.0 + float(np.einsum("ij,ji->", weights, gram)), 1.0 + float(np.einsum("ij,ij->", gram, cov))


def noise_variance(rss, n_rows, df1, df2):
    """Return the residual variance per residual degree of freedom.

    Parameters
    ----------
    rss : float
        Residual sum of squares.
    n_rows : int
        Number of rows.
    df1, df2 : float
        Traces of P and P P'.

    Returns
    -------
    float
        ``rss / (n - 2 df1 + df2)``.

    Raises
    ------
    ValueError
        If there is no residual degree of freedom.
    """
    left = n_rows - 2 * df1 + df2
    if not left > LEAST_DEGREES:
        raise ValueError(
            "Boulevard inference needs residual degrees of freedom to estimate the noise, but "
            f"n_samples={n_rows} leave {max(left, 0.0):.3g} of them: use fewer cells (boulevard_max_bins, "
            "interactions), larger leaves (min_samples_leaf), or more data."
        )
    return float(rss / left)


def adjusted_noise_variance(noise, fitted_variance, n_rows, df2, learning_rate, update):
    """Return the noise variance that shapes see.

    Under joint updates the residuals keep the share 1 / (1 + lam) of the signal, and what the other terms have of it
    acts on a term like noise.

    Parameters
    ----------
    noise : float
        Noise variance.
    fitted_variance : float
        Variance of the fitted values over the rows.
    n_rows : int
        Number of rows.
    df2 : float
        Trace of P P'.
    learning_rate : float
        lam.
    update : {"joint", "leave_one_out"}
        Update rule.

    Returns
    -------
    float
        The noise variance itself for leave-one-out updates.
    """
    if update != "joint":
        return noise
    signal = max(fitted_variance - noise * df2 / n_rows, 0.0)
    return noise + signal * (1 / (1 + learning_rate)) ** 2
