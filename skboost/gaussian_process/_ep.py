"""Expectation propagation for the probit link: every row's likelihood becomes the normal one of matching moments.

Algorithms 3.5, 3.6 and 5.2 of C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT
Press 2006. Sites are updated one after another; the covariance follows in blocks, so that the work is matrix products.
"""

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, solve_triangular
from scipy.special import erfcx, log_ndtr

from skboost.gaussian_process._links import LARGEST_Z, SERIES_BELOW, hazard
from skboost.gaussian_process._posterior import NOT_POSITIVE, Posterior, factorize

BLOCK = 64


def expectation_propagation(K, signs, *, max_iter=100, tol=1e-9, start=None):
    """Return the Gaussian that expectation propagation fits to the posterior.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix of the training rows; may be singular.
    signs : ndarray of shape (n,)
        Labels, -1 or +1.
    max_iter : int, default=100
        Most sweeps over the rows.
    tol : float, default=1e-9
        A sweep that moves no site by more than this part of the largest is the last.
    start : tuple of ndarray or None, default=None
        Sites to start from: precisions and precisions times means; 0 if None.

    Returns
    -------
    Posterior
        ``precisions`` are those of the sites, ``start`` the sites.
    """
    n = len(K)
    tau, nu = (np.zeros(n), np.zeros(n)) if start is None else (start[0].copy(), start[1].copy())
    n_iter, converged = 0, False
    while not converged and n_iter < max_iter:
        n_iter += 1
        old_tau, old_nu = tau.copy(), nu.copy()
        _, covariance = _refresh(K, tau)
        _sweep(covariance, signs, tau, nu)
        converged = bool(_moved(old_tau, tau) <= tol and _moved(old_nu, nu) <= tol)
    factor, covariance = _refresh(K, tau)
    root = np.sqrt(tau)
    coefficients = nu - root * cho_solve((factor, True), root * (K @ nu), check_finite=False)
    evidence = _log_evidence(signs, tau, nu, covariance, factor)
    return Posterior(coefficients, K @ coefficients, tau, factor, evidence, n_iter, converged, (tau, nu))


def _moved(old, new):
    return np.max(np.abs(new - old)) / max(np.max(np.abs(new)), np.finfo(float).tiny)


def _refresh(K, tau):
    """Return the factor of B and the posterior covariance of the training rows."""
    factor = factorize(K, tau)
    V = solve_triangular(factor, np.sqrt(tau)[:, None] * K, lower=True, overwrite_b=True, check_finite=False)
    return factor, K - V.T @ V


def _sweep(covariance, signs, tau, nu):
    """Update every site once, in order; overwrites the sites, and the covariance, of which only later rows follow."""
    n = len(tau)
    for first in range(0, n, BLOCK):
        rows = slice(first, min(first + BLOCK, n))
        columns = covariance[rows].T.copy()
        inner, mean = columns[rows].copy(), columns.T @ nu
        before = tau[rows].copy()
        for j in range(len(before)):
            i = first + j
            d_tau, d_nu = _update(inner[j, j], mean[j], signs[i], tau[i], nu[i])
            tau[i] += d_tau
            nu[i] += d_nu
            # A site of changed precision and shift is a change of rank one.
            gain = inner[:, j] / (1.0 + d_tau * inner[j, j])
            mean += gain * (d_nu - d_tau * mean[j])
            inner -= d_tau * np.outer(gain, inner[j])
        change = tau[rows] - before
        kept = np.eye(len(change)) + columns[rows] * change
        later = slice(rows.stop, n)
        covariance[later] -= columns[later] @ (change[:, None] * np.linalg.solve(kept, columns.T))


def _update(variance, mean, sign, tau, nu):
    """Return the change of a site from the moments of its row."""
    cavity_variance, cavity_mean = _cavity(variance, mean, tau, nu)
    if not cavity_variance > -1.0:
        raise LinAlgError(f"A row without its own label has a negative variance: {NOT_POSITIVE}.")
    scale = math.sqrt(1.0 + cavity_variance)
    r, z_plus_r = _hazard(sign * cavity_mean / scale)
    curvature = r * z_plus_r / (1.0 + cavity_variance)
    slope = sign * r / scale
    new_tau = curvature / (1.0 - cavity_variance * curvature)
    new_nu = slope + new_tau * (cavity_mean + cavity_variance * slope)
    return new_tau - tau, new_nu - nu


def _hazard(z):
    """Return what `hazard` returns for one number, without the cost of arrays."""
    if z < SERIES_BELOW:
        return tuple(part.item() for part in hazard(np.array([z])))
    r = math.sqrt(2.0 / math.pi) / erfcx(-z / math.sqrt(2.0)) if z <= LARGEST_Z else 0.0
    return r, z + r


def _cavity(variance, mean, tau, nu):
    """Return variance and mean of the posterior without a row's own site."""
    rest = 1.0 - variance * tau
    return variance / rest, (mean - variance * nu) / rest


def _log_evidence(signs, tau, nu, covariance, factor):
    """Return log Z; the terms are grouped so that a site without precision divides by nothing."""
    mean, variance = covariance @ nu, covariance.diagonal()
    cavity_variance, cavity_mean = _cavity(variance, mean, tau, nu)
    both = 1.0 + tau * cavity_variance
    z = signs * cavity_mean / np.sqrt(1.0 + cavity_variance)
    determinants = 0.5 * np.log(both).sum() - np.log(factor.diagonal()).sum()
    sites = 0.5 * (nu @ mean) - 0.5 * np.sum(nu * nu * cavity_variance / both)
    cross = 0.5 * np.sum(cavity_mean * (tau * cavity_mean - 2.0 * nu) / both)
    return float(log_ndtr(z).sum() + determinants + sites + cross)


def ep_gradient(posterior, dK):
    """Return the gradient of log Z; at the fixed point the sites contribute nothing to it.

    Parameters
    ----------
    posterior : Posterior
        Converged, of `expectation_propagation`.
    dK : ndarray of shape (n, n, p)
        Derivatives of the Gram matrix.

    Returns
    -------
    ndarray of shape (p,)
        Derivatives of log Z.
    """
    b = posterior.coefficients
    inner = np.outer(b, b) - posterior.precision_of_targets()
    return 0.5 * np.einsum("ij,ijk->k", inner, dK)
