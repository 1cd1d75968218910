"""The Gaussian that stands for the posterior of a latent function, whoever found it.

Laplace's method and expectation propagation both replace the likelihood of row i by a normal one of precision ``p_i``.
With ``B = I + P^1/2 K P^1/2`` everything follows from the Cholesky factor of B, whose eigenvalues are at least 1; the
Gram matrix K is never inverted, may be singular and needs no jitter. (C. E. Rasmussen and C. K. I. Williams, *Gaussian
Processes for Machine Learning*, MIT Press 2006, chapter 3.)
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

NOT_POSITIVE = "the kernel is not positive semi-definite, or so large that rounding makes it look so"


@dataclass(frozen=True, eq=False)
class Posterior:
    """Gaussian posterior of the latent function at the training rows.

    Attributes
    ----------
    coefficients : ndarray of shape (n,)
        Dual coefficients: the latent mean at x is the sum of ``coefficients * k(x_i, x)``.
    latent : ndarray of shape (n,)
        Latent mean at the training rows.
    precisions : ndarray of shape (n,)
        Precision of each row's likelihood in its normal stand-in, at least 0.
    factor : ndarray of shape (n, n)
        Lower Cholesky factor of B.
    log_evidence : float
        Approximate log marginal likelihood.
    n_iter : int
        Newton iterations, or sweeps.
    converged : bool
        Whether they ended before their limit.
    start : object
        From where a problem close by may start.
    slopes : ndarray of shape (n,) or None, default=None
        Third derivatives of the log likelihood at the mode, Laplace's method only.
    """

    coefficients: np.ndarray
    latent: np.ndarray
    precisions: np.ndarray
    factor: np.ndarray
    log_evidence: float
    n_iter: int
    converged: bool
    start: object
    slopes: np.ndarray | None = None

    def mean(self, K_cross):
        """Return the latent mean, shape (m,), from covariances of shape (n, m) with the training rows."""
        return K_cross.T @ self.coefficients

    def reduction(self, K_cross):
        """Return the matrix V, shape (n, m), whose product V'V is what the data take off the prior covariance."""
        return solve_triangular(
            self.factor, np.sqrt(self.precisions)[:, None] * K_cross, lower=True, overwrite_b=True, check_finite=False
        )

    def precision_of_targets(self):
        """Return ``(K + P^-1)^-1`` without inverting either, shape (n, n)."""
        root = np.sqrt(self.precisions)
        return root[:, None] * cho_solve((self.factor, True), np.diag(root), overwrite_b=True, check_finite=False)


def factorize(K, precisions):
    """Return the lower Cholesky factor of ``I + P^1/2 K P^1/2``; LinAlgError says so if there is none."""
    root = np.sqrt(precisions)
    B = K * root
    B *= root[:, None]
    B[np.diag_indices_from(B)] += 1.0
    try:
        return cholesky(B, lower=True, overwrite_a=True, check_finite=True)
    except LinAlgError as error:
        raise LinAlgError(f"{error}: {NOT_POSITIVE}.") from error
