"""Solvers of ``u = (c I + K)^-1 k``: dense, by conjugate gradients, and with a kernel of low rank.

All offer `solve`, columns of right-hand sides of shape (n_rows, n_columns) to solutions; `smoother_traces` returns the
trace and the squared Frobenius norm of ``(c I + K)^-1 K`` where these are known.
"""

import warnings

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, eigvalsh
from scipy.linalg.lapack import dpotri
from sklearn.exceptions import ConvergenceWarning

from skboost.inference._tree_kernel import TreeKernel

# Relative residual at which conjugate gradients end, and the iterations that no kernel of trees comes near.
TOLERANCE = 1e-10
MOST_ITERATIONS = 1000
# Relative size of the pivot at which landmarks say nothing new.
DROP = 1e-10


class ExactSolver:
    """Dense inverse: ``n^3`` multiplications once, ``n^2`` for each right-hand side, ``8 n^2`` bytes kept.

    The eigenvalues of the matrix lie between c and c + 1, so that its inverse loses no digits.
    """

    def __init__(self, kernel, c):
        self.c = c
        matrix = kernel.matrix()
        matrix[np.diag_indices_from(matrix)] += c
        factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        inverse, _ = dpotri(factor, lower=True, overwrite_c=True)
        for i in range(len(inverse)):
            inverse[i, i + 1 :] = inverse[i + 1 :, i]
        self.inverse = inverse

    def solve(self, columns):
        """Return ``(c I + K)^-1 columns``."""
        return self.inverse @ columns

    def smoother_traces(self):
        """Return trace and squared norm of ``I - c (c I + K)^-1``."""
        n, trace = len(self.inverse), self.inverse.trace()
        return n - self.c * trace, n - 2.0 * self.c * trace + self.c**2 * float(np.sum(self.inverse**2))


class GradientSolver:
    """Conjugate gradients: ``2 n T`` additions for T trees in each of about ten iterations, whatever n is."""

    def __init__(self, kernel, c):
        self.kernel, self.c = kernel, c
        self.n_iterations = 0

    def solve(self, columns):
        """Return ``(c I + K)^-1 columns``; a column does not depend on those beside it."""
        R = np.array(columns, dtype=np.float64, order="C")
        X = np.zeros_like(R)
        P = R.copy()
        rho = _squares(R)
        limit = TOLERANCE**2 * rho
        for count in range(MOST_ITERATIONS):
            active = rho > limit
            if not active.any():
                self.n_iterations = count
                return X
            AP = self.c * P + self.kernel.product(P)
            curvature = np.einsum("ij,ij->j", P, AP)
            alpha = np.where(active, rho / np.where(active, curvature, 1.0), 0.0)
            X += alpha * P
            R -= alpha * AP
            after = np.where(active, _squares(R), rho)
            P *= np.where(active, after / np.where(active, rho, 1.0), 0.0)
            P += R
            rho = after
        warnings.warn(
            f"Conjugate gradients did not converge in {MOST_ITERATIONS} iterations.", ConvergenceWarning, stacklevel=2
        )
        return X

    @staticmethod
    def smoother_traces():
        """Return None: they would take a solution for each row."""
        return None


class NystromSolver:
    """Kernel ``F F'`` of some rows as landmarks: ``n r^2`` multiplications once, ``2 n r`` for each right-hand side."""

    def __init__(self, kernel, c, n_landmarks, generator):
        self.c = c
        chosen = np.sort(generator.permutation(kernel.n_rows)[:n_landmarks])
        self.factor = nystrom_factor(kernel, chosen)
        self.gram = self.factor.T @ self.factor
        inner = self.gram.copy()
        inner[np.diag_indices_from(inner)] += c
        self.inner = cho_factor(inner, lower=True)

    def solve(self, columns):
        """Return ``(c I + F F')^-1 columns`` by Woodbury's identity."""
        return (columns - self.factor @ cho_solve(self.inner, self.factor.T @ columns)) / self.c

    def smoother_traces(self):
        """Return trace and squared norm from the eigenvalues of ``F' F``."""
        e = np.maximum(eigvalsh(self.gram), 0.0)
        return float(np.sum(e / (self.c + e))), float(np.sum((e / (self.c + e)) ** 2))


def nystrom_factor(kernel: TreeKernel, landmarks):
    """Return F of shape (n_rows, rank) with ``F F'`` the best kernel that knows only the columns of the landmarks."""
    columns = kernel.columns(landmarks)
    lower, kept = pivoted_cholesky(columns[landmarks], DROP)
    factor = np.linalg.solve(lower, columns[:, kept].T).T
    return np.ascontiguousarray(factor)


def pivoted_cholesky(matrix, drop):
    """Return the factor L and the pivots, in order, with ``L L' = matrix[pivots, pivots]``.

    Pivots end when what is left of the diagonal is below `drop` times its largest entry.
    """
    n = len(matrix)
    diagonal = np.diagonal(matrix).copy()
    rows = np.zeros((n, n))
    pivots = []
    limit = drop * diagonal.max()
    for k in range(n):
        pivot = int(np.argmax(diagonal))
        if diagonal[pivot] <= limit:
            break
        pivots.append(pivot)
        column = matrix[:, pivot] - rows[:, :k] @ rows[pivot, :k]
        rows[:, k] = column / np.sqrt(diagonal[pivot])
        diagonal -= rows[:, k] ** 2
        diagonal[pivots] = -np.inf
    return rows[np.ix_(pivots, range(len(pivots)))], np.array(pivots)


def _squares(columns):
    return np.einsum("ij,ij->j", columns, columns)
