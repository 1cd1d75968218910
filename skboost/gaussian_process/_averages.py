"""Averages over a normal latent value, and the split of the entropy of its label into knowledge and data.

A narrow law is averaged by Gauss-Hermite quadrature. Under a wide one the entropy of the label is a bump narrower than
the law, which quadrature in units of the law would miss; there a trapezoid goes over the bump itself.
"""

import numpy as np
from scipy.special import entr, ndtri
from scipy.stats import qmc

from skboost import _uncertainty
from skboost._uncertainty import Decomposition

N_HERMITE = 32
# Members of the decomposition with three or more classes; a power of 2.
N_MEMBERS = 256
# Rows times nodes, or rows times members and classes, at a time.
BLOCK_VALUES = 1 << 20

_NODES, _WEIGHTS = np.polynomial.hermite.hermgauss(N_HERMITE)
_NODES = _NODES * np.sqrt(2.0)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def hermite_nodes(mean, deviation):
    """Return the nodes of normal laws, shape (n, N_HERMITE)."""
    return mean[:, None] + deviation[:, None] * _NODES


def hermite_average(values):
    """Return the averages of values at the nodes, shape (n,)."""
    return values @ _WEIGHTS


def binary_decomposition(link, mean, variance):
    """Split the entropy of a label given by a normal latent value.

    ``data`` is the expected entropy of the label given the latent value, ``total`` the entropy of the mean probability,
    ``knowledge`` their difference: the mutual information of label and latent value [1]_.

    Parameters
    ----------
    link : Probit or Logit
        Link.
    mean, variance : ndarray of shape (n,)
        Moments of the latent value.

    Returns
    -------
    Decomposition
        ``mean`` has shape (n, 2); the others are in nats, to about 1e-12.

    References
    ----------
    .. [1] N. Houlsby, F. Huszar, Z. Ghahramani and M. Lengyel, "Bayesian Active Learning for Classification and
       Preference Learning", arXiv:1112.5745.
    """
    mean, deviation = np.asarray(mean, dtype=np.float64), np.sqrt(np.asarray(variance, dtype=np.float64))
    n = len(mean)
    probability, knowledge, data = np.empty((n, 2)), np.empty(n), np.empty(n)
    for rows in row_blocks(n, link.grid[1]):
        mu, s = mean[rows], deviation[rows]
        zero, one = link.average(mu, s * s)
        known, given = np.empty_like(mu), np.empty_like(mu)
        narrow = s < 1.0
        for chosen, split in ((narrow, _narrow), (~narrow, _wide)):
            if chosen.any():
                known[chosen], given[chosen] = split(link, mu[chosen], s[chosen], zero[chosen], one[chosen])
        probability[rows, 0], probability[rows, 1] = zero, one
        knowledge[rows], data[rows] = known, given
    return Decomposition(probability, knowledge, data, data + knowledge)


def _narrow(link, mean, deviation, zero, one):
    """Return knowledge and data by quadrature; knowledge is a sum of terms that cannot be negative."""
    f = hermite_nodes(mean, deviation)
    knowledge = np.zeros(len(mean))
    for average, sign in ((zero, -1.0), (one, 1.0)):
        u = (link.probability(sign * f) - average[:, None]) / np.where(average > 0, average, 1.0)[:, None]
        knowledge += average * hermite_average(_uncertainty._phi(u))
    return knowledge, hermite_average(link.entropy(f))


def _wide(link, mean, deviation, zero, one):
    """Return knowledge and data by the trapezoid over the bump of the entropy."""
    end, n = link.grid
    t = np.linspace(-end, end, n)
    z = (t - mean[:, None]) / deviation[:, None]
    density = np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * deviation[:, None])
    data = density @ link.entropy(t) * (t[1] - t[0])
    return np.maximum(entr(zero) + entr(one) - data, 0.0), data


def one_vs_rest_decomposition(link, means, variances):
    """Split the entropy of a label given by one independent normal latent value per class.

    Members are quasi-random draws of all latent values at once, the same for every row, each with its one-vs-rest
    probabilities scaled to the sum 1.

    Parameters
    ----------
    link : Probit or Logit
        Link.
    means, variances : ndarray of shape (n, n_classes)
        Moments of the latent values.

    Returns
    -------
    Decomposition
        ``mean`` has shape (n, n_classes).
    """
    n, n_classes = means.shape
    deviations = np.sqrt(variances)
    draws = normal_points(n_classes)
    parts = []
    for rows in row_blocks(n, N_MEMBERS * n_classes):
        f = means[rows] + deviations[rows] * draws[:, None, :]
        parts.append(_uncertainty.multinomial(link.log_probability(f)))
    return Decomposition(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def normal_points(n_dims):
    """Return N_MEMBERS quasi-random normal vectors: Sobol points in the middle of their cells, so no draw is needed."""
    return ndtri(qmc.Sobol(n_dims, scramble=False).random(N_MEMBERS) + 0.5 / N_MEMBERS)


def row_blocks(n, values_per_row):
    """Return slices of so many rows that a block has about BLOCK_VALUES values."""
    step = max(1, BLOCK_VALUES // values_per_row)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
