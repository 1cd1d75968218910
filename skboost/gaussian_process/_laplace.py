"""Laplace's method: the mode of the latent function by Newton's method, the evidence and its gradient.

Algorithms 3.1 and 5.1 of C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press
2006, with a line search: undamped Newton steps diverge for large prior variances. Row weights multiply the log
likelihood and its derivatives, so whole-number weights are copies of rows.
"""

import numpy as np
from scipy.linalg import cho_solve

from skboost.gaussian_process._posterior import Posterior, factorize

MOST_HALVINGS = 60


def laplace(K, signs, weights, link, *, max_iter=100, tol=1e-12, start=None):
    """Return the Laplace posterior for a fixed Gram matrix.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix of the training rows; may be singular.
    signs : ndarray of shape (n,)
        Labels, -1 or +1.
    weights : ndarray of shape (n,) or float
        Positive weights.
    link : Probit or Logit
        Log-concave link.
    max_iter : int, default=100
        Most Newton steps.
    tol : float, default=1e-12
        A full step that changes the log joint density by at most ``tol * max(1, |density|)`` is the last.
    start : ndarray of shape (n,) or None, default=None
        Dual coefficients to start from; 0 if None or if these are worse.

    Returns
    -------
    Posterior
        At the mode; ``start`` holds the dual coefficients.
    """
    a, f, density = _first_point(K, signs, weights, link, start)
    n_iter, converged = 0, False
    while not converged and n_iter < max_iter:
        n_iter += 1
        gradient, curvature, _ = _derivatives(signs, weights, link, f)
        factor, root = factorize(K, curvature), np.sqrt(curvature)
        b = curvature * f + gradient
        step = b - root * cho_solve((factor, True), root * (K @ b), check_finite=False) - a
        f_step = K @ step
        length = 1.0
        for _ in range(MOST_HALVINGS):
            new_a, new_f = a + length * step, f + length * f_step
            new_density = _density(signs, weights, link, new_a, new_f)
            close = abs(new_density - density) <= tol * max(1.0, abs(new_density))
            if new_density >= density or close:
                break
            length *= 0.5
        converged = bool(close and length == 1.0)
        a, f, density = new_a, K @ new_a, new_density
    return _posterior_at(K, signs, weights, link, a, f, n_iter, converged)


def _first_point(K, signs, weights, link, start):
    zero = np.zeros(len(K))
    best = zero, zero, _density(signs, weights, link, zero, zero)
    if start is not None:
        f = K @ start
        density = _density(signs, weights, link, start, f)
        if density > best[2]:
            best = start, f, density
    return best


def _posterior_at(K, signs, weights, link, a, f, n_iter, converged):
    """Return the posterior with everything taken at one iterate, the last."""
    gradient, curvature, third = _derivatives(signs, weights, link, f)
    factor = factorize(K, curvature)
    evidence = _density(signs, weights, link, a, f) - np.log(factor.diagonal()).sum()
    return Posterior(gradient, f, curvature, factor, float(evidence), n_iter, converged, a, third)


def _density(signs, weights, link, a, f):
    """Return the log joint density up to the constant of the prior."""
    return np.sum(weights * link.log_likelihood(signs, f)) - 0.5 * (a @ f)


def _derivatives(signs, weights, link, f):
    return [weights * derivative for derivative in link.derivatives(signs, f)]


def laplace_gradient(posterior, K, dK):
    """Return the gradient of the log evidence.

    Parameters
    ----------
    posterior : Posterior
        Converged, of `laplace` for K.
    K : ndarray of shape (n, n)
        Gram matrix.
    dK : ndarray of shape (n, n, p)
        Its derivatives.

    Returns
    -------
    ndarray of shape (p,)
        Explicit dependence, and that through the mode.
    """
    g, R = posterior.coefficients, posterior.precision_of_targets()
    V = posterior.reduction(K)
    variances = K.diagonal() - np.einsum("ij,ij->j", V, V)
    through_mode = 0.5 * variances * posterior.slopes
    # R K, and so K R, is a matrix product; only its action on one vector is needed.
    weighted = through_mode - R @ (K @ through_mode)
    moved = np.einsum("ijk,j->ik", dK, g)
    explicit = 0.5 * (g @ moved) - 0.5 * np.einsum("ij,ijk->k", R, dK)
    return explicit + weighted @ moved
