"""Solvers for ``G = P + Z'WZ``: posterior variances, steps, determinants and draws.

Z holds the whitened indicators, P is the identity unless the prior is a random walk. "cholesky" factors G, "dual" the
matrix ``I + W^1/2 Z Z' W^1/2`` over the rows, and "sample" solves for draws by conjugate gradients.
"""

import warnings

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from skboost.gaussian_process._averages import row_blocks

# Relative residual of conjugate gradients: for draws, whose own error is larger, and for steps of Newton's method.
DRAW_TOLERANCE = 1e-4
STEP_TOLERANCE = 1e-10
MOST_ITERATIONS = 2000


class CholeskySolver:
    """Dense Cholesky factor of G: ``L^3 / 3`` multiplications for L columns, and ``L^2`` for the variance of a row."""

    def __init__(self, Z, weight, penalty=None, gram=None):
        A = csr_array(Z.multiply(np.sqrt(weight)[:, None]))
        G = (A.T @ A).toarray()
        if penalty is None:
            G[np.diag_indices_from(G)] += 1.0
        else:
            G += penalty.toarray()
        self.factor = cholesky(G, lower=True, overwrite_a=True, check_finite=False)

    @staticmethod
    def gram(Z):
        """Return None: nothing is shared by all weights."""
        return None

    def solve(self, r):
        """Return ``G^-1 r``."""
        return cho_solve((self.factor, True), r, check_finite=False)

    def log_det(self):
        """Return ``log det G``."""
        return 2.0 * float(np.log(np.diagonal(self.factor)).sum())

    def variance(self, Z):
        """Return ``diag(Z G^-1 Z')`` of rows."""
        out = np.empty(Z.shape[0])
        for rows in row_blocks(len(out), max(1, Z.shape[1])):
            V = solve_triangular(self.factor, Z[rows].toarray().T, lower=True, check_finite=False)
            out[rows] = np.einsum("ij,ij->j", V, V)
        return out

    def draws(self, n, generator):
        """Return draws of the normal law of covariance ``G^-1``, shape (n_used, n)."""
        e = generator.standard_normal((n, len(self.factor))).T
        return solve_triangular(self.factor, e, lower=True, trans="T", check_finite=False)


class DualSolver:
    """Dense Cholesky factor over the rows: ``n^3 / 3`` for n rows, and ``n^2`` for the variance of a row."""

    def __init__(self, Z, weight, penalty=None, gram=None):
        root = np.sqrt(weight)
        self.A = csr_array(Z.multiply(root[:, None]))
        B = root[:, None] * (self.gram(Z) if gram is None else gram) * root
        B[np.diag_indices_from(B)] += 1.0
        self.factor = cholesky(B, lower=True, overwrite_a=True, check_finite=False)

    @staticmethod
    def gram(Z):
        """Return ``Z Z'``, which all weights share."""
        return (Z @ Z.T).toarray()

    def solve(self, r):
        """Return ``G^-1 r``."""
        return r - self.A.T @ cho_solve((self.factor, True), self.A @ r, check_finite=False)

    def log_det(self):
        """Return ``log det G``, which is that of the matrix over the rows."""
        return 2.0 * float(np.log(np.diagonal(self.factor)).sum())

    def variance(self, Z):
        """Return ``diag(Z G^-1 Z')`` of rows."""
        out = np.empty(Z.shape[0])
        for rows in row_blocks(len(out), len(self.factor)):
            block = Z[rows]
            V = solve_triangular(self.factor, (self.A @ block.T).toarray(), lower=True, check_finite=False)
            out[rows] = block.multiply(block).sum(axis=1) - np.einsum("ij,ij->j", V, V)
        return np.maximum(out, 0.0)

    def draws(self, n, generator):
        """Return draws of the normal law of covariance ``G^-1``: prior draws, corrected by their misfit to noise."""
        e1 = generator.standard_normal((n, self.A.shape[1])).T
        e2 = generator.standard_normal((n, self.A.shape[0])).T
        return e1 - self.A.T @ cho_solve((self.factor, True), self.A @ e1 + e2, check_finite=False)


class SampleSolver:
    """Conjugate gradients: ``2 n T`` multiplications per draw and iteration for T trees, whatever L and n are."""

    def __init__(self, Z, weight, penalty=None, gram=None):
        self.A = csr_array(Z.multiply(np.sqrt(weight)[:, None]))
        self.A_t = csr_array(self.A.T)
        self.jacobi = 1.0 / (1.0 + self.A.multiply(self.A).sum(axis=0))
        self.members = None

    @staticmethod
    def gram(Z):
        """Return None: nothing is shared by all weights."""
        return None

    def solve(self, r, tolerance=STEP_TOLERANCE):
        """Return ``G^-1 r`` for one right-hand side, or for each column of several."""
        R = r.reshape(len(r), -1).copy()
        X = np.zeros_like(R)
        M = self.jacobi[:, None]
        P = M * R
        rho = np.einsum("ij,ij->j", R, P)
        limit = tolerance**2 * np.einsum("ij,ij->j", R, R)
        for _ in range(MOST_ITERATIONS):
            active = np.einsum("ij,ij->j", R, R) > limit
            if not active.any():
                return X.reshape(r.shape)
            GP = P + self.A_t @ (self.A @ P)
            # A column that is done takes steps of length 0, so that it does not depend on the others.
            alpha = np.where(active, rho / np.where(active, np.einsum("ij,ij->j", P, GP), 1.0), 0.0)
            X += alpha * P
            R -= alpha * GP
            MR = M * R
            rho_next = np.einsum("ij,ij->j", R, MR)
            P = MR + np.where(active, rho_next / np.where(active, rho, 1.0), 0.0) * P
            rho = rho_next
        warnings.warn(
            f"Conjugate gradients did not converge in {MOST_ITERATIONS} iterations; a larger prior_scale makes the "
            "problem easier.",
            ConvergenceWarning,
            stacklevel=2,
        )
        return X.reshape(r.shape)

    def draw_members(self, n, generator):
        """Draw members once for all; `variance` and `draws` use them."""
        e1 = generator.standard_normal((n, self.A.shape[1])).T
        e2 = generator.standard_normal((n, self.A.shape[0])).T
        self.members = self.solve(e1 + self.A_t @ e2, DRAW_TOLERANCE)

    def variance(self, Z):
        """Return the mean square of the members at rows, whose relative standard error is ``sqrt(2 / n)``."""
        return np.concatenate([
            np.mean((Z[rows] @ self.members) ** 2, axis=1)
            for rows in row_blocks(Z.shape[0], self.members.shape[1])
        ])  # fmt: skip

    def draws(self, n, generator):
        """Return the first members."""
        return self.members[:, :n]


SOLVERS = {"cholesky": CholeskySolver, "dual": DualSolver, "sample": SampleSolver}
