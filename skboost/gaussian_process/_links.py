"""Links between a latent value and the probability of a class: likelihood, derivatives, and Gaussian averages.

Labels are signs s in {-1, +1}, and the likelihood of a row is ``q(s f)``. Derivatives are those of ``log q(s f)`` in f:
the first, minus the second (W, never negative, as both links are log-concave), and the third.
"""

import math

import numpy as np
from scipy.special import entr, erfcx, expit, log_expit, log_ndtr, ndtr

from skboost.gaussian_process._averages import hermite_average, hermite_nodes

# Beyond this z the hazard of the normal law is 0 in double precision against any z.
LARGEST_Z = 37.0
# Below this z the difference z + r has lost half its digits, and its series has them all.
SERIES_BELOW = -50.0


class Probit:
    """``q(f) = Phi(f)``, the normal distribution function."""

    name = "probit"
    # Variance of the law whose distribution function the link is.
    variance = 1.0
    # Ends and number of points of the trapezoid over a bump such as the entropy of q(t).
    grid = 10.0, 61

    @staticmethod
    def log_likelihood(s, f):
        """Return ``log q(s f)``."""
        return log_ndtr(s * f)

    @staticmethod
    def derivatives(s, f):
        """Return first, minus second, and third derivative of ``log q(s f)``."""
        z = s * f
        r, z_plus_r = hazard(z)
        z = np.minimum(z, LARGEST_Z)
        third = r * (z_plus_r * (z + 2.0 * r) - 1.0)
        low = z < SERIES_BELOW
        if np.any(low):
            q = -z[low]
            u = 1.0 / (q * q)
            third[low] = 2.0 * u / q * (1.0 - u * (12.0 - 150.0 * u))
        return s * r, r * z_plus_r, s * third

    @staticmethod
    def probability(f):
        """Return ``q(f)``."""
        return ndtr(f)

    @staticmethod
    def log_probability(f):
        """Return ``log q(f)``."""
        return log_ndtr(f)

    @staticmethod
    def entropy(f):
        """Return the entropy of the label given f, in nats."""
        return entr(ndtr(f)) + entr(ndtr(-f))

    @staticmethod
    def average(mean, variance):
        """Return E q(-f) and E q(f) of normal f, exact."""
        score = Probit.moderated(mean, variance)
        return ndtr(-score), ndtr(score)

    @staticmethod
    def log_average(mean, variance):
        """Return the logarithms of `average`, finite."""
        score = Probit.moderated(mean, variance)
        return log_ndtr(-score), log_ndtr(score)

    @staticmethod
    def moderated(mean, variance):
        """Return the latent value whose probability is E q(f) of normal f."""
        return mean / np.sqrt(1.0 + variance)


class Logit:
    """``q(f) = 1 / (1 + exp(-f))``, the logistic function."""

    name = "logit"
    variance = np.pi**2 / 3.0
    grid = 40.0, 161

    @staticmethod
    def log_likelihood(s, f):
        """Return ``log q(s f)``."""
        return log_expit(s * f)

    @staticmethod
    def derivatives(s, f):
        """Return first, minus second, and third derivative of ``log q(s f)``."""
        one, zero = expit(f), expit(-f)
        curvature = one * zero
        return s * expit(-s * f), curvature, -curvature * (zero - one)

    @staticmethod
    def probability(f):
        """Return ``q(f)``."""
        return expit(f)

    @staticmethod
    def log_probability(f):
        """Return ``log q(f)``."""
        return log_expit(f)

    @staticmethod
    def entropy(f):
        """Return the entropy of the label given f, in nats."""
        size = np.abs(f)
        return np.log1p(np.exp(-size)) + size * expit(-size)

    @staticmethod
    def average(mean, variance):
        """Return E q(-f) and E q(f) of normal f, to about 1e-13."""
        zero, one = np.empty_like(mean), np.empty_like(mean)
        deviation = np.sqrt(variance)
        narrow = deviation < 1.0
        if narrow.any():
            f = hermite_nodes(mean[narrow], deviation[narrow])
            # Offsets from the middle: exact without variance.
            for out, sign in ((zero, -1.0), (one, 1.0)):
                middle = expit(sign * mean[narrow])
                out[narrow] = middle + hermite_average(expit(sign * f) - middle[:, None])
        if not narrow.all():
            wide = ~narrow
            end, n = Logit.grid
            t = np.linspace(-end, end, n)
            # E q(f) = P(T < f) for logistic T: an integral over the bump of its density, as wide as it always is.
            density = expit(t) * expit(-t)
            z = (mean[wide, None] - t) / deviation[wide, None]
            above, below = ndtr(z) @ density, ndtr(-z) @ density
            zero[wide], one[wide] = below / (above + below), above / (above + below)
        return zero, one

    @staticmethod
    def log_average(mean, variance):
        """Return the logarithms of `average`, finite."""
        return tuple(np.log(np.maximum(q, np.finfo(np.float64).tiny)) for q in Logit.average(mean, variance))

    @staticmethod
    def moderated(mean, variance):
        """Return the latent value whose probability is E q(f) of normal f."""
        zero, one = Logit.log_average(mean, variance)
        return one - zero


LINKS = {link.name: link for link in (Probit, Logit)}


def hazard(z):
    """Return ``r = phi(z) / Phi(z)`` and ``z + r``, which is positive and cancels for very negative z.

    Parameters
    ----------
    z : ndarray
        Any finite numbers.

    Returns
    -------
    r, z_plus_r : ndarray
        Of the shape of z.
    """
    r = math.sqrt(2.0 / math.pi) / erfcx(-z / math.sqrt(2.0))
    z_plus_r = z + r
    low = z < SERIES_BELOW
    if np.any(low):
        q = -z[low]
        u = 1.0 / (q * q)
        z_plus_r[low] = (1.0 - u * (2.0 - u * (10.0 - 74.0 * u))) / q
    return np.where(z > LARGEST_Z, 0.0, r), z_plus_r
