"""Normal, log-normal, Laplace and gamma distributions."""

import numpy as np
from scipy.special import beta, betainc, gammainc, gammaincinv, ndtr, ndtri

from skboost.distributions._base import Distribution
from skboost.distributions._special import HALF_LOG_TWO_PI, log1p_less, stirling_rest

ROOT_PI = 1.7724538509055159
ROOT_TWO = 1.4142135623730951
# Relative difference of two Laplace scales below which their limit is used.
NEAR = 1e-4


def _normal_pdf(z):
    return np.exp(-0.5 * z * z - HALF_LOG_TWO_PI)


class Normal(Distribution):
    """Normal distributions.

    Parameters
    ----------
    loc : array-like
        Means.
    scale : array-like
        Standard deviations, above 0. Parameters broadcast against each other.

    Examples
    --------
    >>> from skboost.distributions import Normal
    >>> d = Normal([0.0, 1.0], 2.0)
    >>> d
    Normal(n=2; averages: loc=0.5, scale=2)
    >>> d.quantile(0.975).round(2)
    array([3.92, 4.92])
    """

    _names = ("loc", "scale")
    _positive = ("scale",)

    def __init__(self, loc, scale):
        super().__init__(loc, scale)

    @property
    def mean(self):
        """Expected values."""
        return self.loc

    @property
    def variance(self):
        """Variances."""
        return self.scale**2

    def _standard(self, y):
        return (y - self.loc) / self.scale

    def _cdf(self, y):
        return ndtr(self._standard(y))

    def _logpdf(self, y):
        return -0.5 * self._standard(y) ** 2 - np.log(self.scale) - HALF_LOG_TWO_PI

    def _quantile(self, p):
        return self.loc + self.scale * ndtri(p)

    def _distance_to(self, y):
        return self.scale * _folded_mean(self._standard(y))

    def _half_spread(self):
        return self.scale / ROOT_PI

    def _distance_between(self, other):
        scale = np.hypot(self.scale, other.scale)
        return scale * _folded_mean((self.loc - other.loc) / scale)

    def _sample(self, rng, shape):
        return rng.normal(self.loc, self.scale, shape)


def _folded_mean(z):
    """Return E|X - z| of a standard normal X."""
    return z * (2 * ndtr(z) - 1) + 2 * _normal_pdf(z)


class LogNormal(Distribution):
    """Distributions of positive numbers whose logarithms are normal.

    Parameters
    ----------
    mu, sigma : array-like
        Mean and standard deviation of ln y, the latter above 0. Parameters broadcast against each other.

    Examples
    --------
    >>> from skboost.distributions import LogNormal
    >>> d = LogNormal([0.3], 0.5)
    >>> d.mean.round(6), d.variance.round(6)
    (array([1.52959]), array([0.664519]))
    """

    _names = ("mu", "sigma")
    _positive = ("sigma",)

    def __init__(self, mu, sigma):
        super().__init__(mu, sigma)

    @property
    def mean(self):
        """Expected values, infinite beyond the largest number."""
        with np.errstate(over="ignore"):
            return np.exp(self.mu + 0.5 * self.sigma**2)

    @property
    def variance(self):
        """Variances, infinite beyond the largest number."""
        with np.errstate(over="ignore"):
            # exp(s^2) - 1 = exp(s^2 / 2) (2 sinh(s^2 / 2)): no overflow before the variance itself
            return np.exp(2 * self.mu + self.sigma**2) * np.expm1(self.sigma**2)

    def _standard(self, y):
        with np.errstate(divide="ignore"):
            return (np.log(np.where(y <= 0, 0.0, y)) - self.mu) / self.sigma

    def _cdf(self, y):
        return ndtr(self._standard(y))

    def _logpdf(self, y):
        log_y = np.log(np.where(y <= 0, 1.0, y))
        body = -0.5 * ((log_y - self.mu) / self.sigma) ** 2 - np.log(self.sigma) - HALF_LOG_TWO_PI - log_y
        return np.where(y <= 0, -np.inf, body)

    def _quantile(self, p):
        with np.errstate(over="ignore"):
            return np.exp(self.mu + self.sigma * ndtri(p))

    def _distance_to(self, y):
        z = self._standard(y)
        return y * (2 * ndtr(z) - 1) + self.mean * (1 - 2 * ndtr(z - self.sigma))

    def _half_spread(self):
        return self.mean * (2 * ndtr(self.sigma / ROOT_TWO) - 1)

    def _distance_between(self, other):
        scale = np.hypot(self.sigma, other.sigma)
        own = (self.mu - other.mu + self.sigma**2) / scale
        others = (other.mu - self.mu + other.sigma**2) / scale
        return self.mean * (2 * ndtr(own) - 1) + other.mean * (2 * ndtr(others) - 1)

    def _sample(self, rng, shape):
        return rng.lognormal(self.mu, self.sigma, shape)


class Laplace(Distribution):
    """Laplace (double exponential) distributions.

    Parameters
    ----------
    loc : array-like
        Means, which are the medians too.
    scale : array-like
        Mean absolute deviations, above 0. Parameters broadcast against each other.

    Examples
    --------
    >>> from skboost.distributions import Laplace
    >>> Laplace([0.0, 5.0], 2.0).variance
    array([8., 8.])
    """

    _names = ("loc", "scale")
    _positive = ("scale",)

    def __init__(self, loc, scale):
        super().__init__(loc, scale)

    @property
    def mean(self):
        """Expected values."""
        return self.loc

    @property
    def variance(self):
        """Variances."""
        return 2 * self.scale**2

    def _standard(self, y):
        return (y - self.loc) / self.scale

    def _cdf(self, y):
        z = self._standard(y)
        tail = 0.5 * np.exp(-np.abs(z))
        return np.where(z < 0, tail, 1 - tail)

    def _logpdf(self, y):
        return -np.abs(self._standard(y)) - np.log(2 * self.scale)

    def _quantile(self, p):
        with np.errstate(divide="ignore"):
            size = np.log(2 * np.minimum(p, 1 - p))
        return self.loc + self.scale * np.where(p < 0.5, size, -size)

    def _distance_to(self, y):
        z = np.abs(self._standard(y))
        return self.scale * (z + np.exp(-z))

    def _half_spread(self):
        return 0.75 * self.scale

    def _distance_between(self, other):
        gap, a, b = np.abs(self.loc - other.loc), self.scale, other.scale
        middle = 0.5 * (a + b)
        near = np.abs(a - b) < NEAR * middle
        # Quotient of differences of s^3 exp(-gap / s), and its limit for equal scales.
        step = np.where(near, 1.0, a - b)
        quotient = (a**3 * np.exp(-gap / a) - b**3 * np.exp(-gap / b)) / step
        limit = middle * np.exp(-gap / middle) * (3 * middle + gap)
        return gap + np.where(near, limit, quotient) / (a + b)

    def _sample(self, rng, shape):
        return rng.laplace(self.loc, self.scale, shape)


class Gamma(Distribution):
    """Gamma distributions of positive numbers.

    Parameters
    ----------
    mean : array-like
        Expected values m, above 0.
    shape : array-like
        Shapes a, above 0: the variance is m^2 / a. Parameters broadcast against each other.

    Examples
    --------
    >>> from skboost.distributions import Gamma
    >>> d = Gamma(1.5, 3.0)
    >>> -d.logpdf(2.0).round(6), d.variance
    (array([1.227411]), array([0.75]))
    """

    _names = ("mean", "shape")
    _positive = ("mean", "shape")

    def __init__(self, mean, shape):
        super().__init__(mean, shape)

    @property
    def mean(self):
        """Expected values."""
        return self._values[0]

    @property
    def variance(self):
        """Variances."""
        return self.mean**2 / self.shape

    def _chance(self, y, more=0):
        """Return the cumulative probability with a shape that is larger by a whole number, at the same scale."""
        ratio = self.shape * np.maximum(y, 0.0) / self.mean
        return gammainc(self.shape + more, ratio)

    def _cdf(self, y):
        return self._chance(y)

    def _logpdf(self, y):
        positive = np.where(y <= 0, self.mean, y)
        body = self.shape * log1p_less((positive - self.mean) / self.mean) - np.log(positive)
        body += 0.5 * np.log(self.shape) - HALF_LOG_TWO_PI - stirling_rest(self.shape)
        return np.where(y <= 0, -np.inf, body)

    def _quantile(self, p):
        return gammaincinv(self.shape, p) * self.mean / self.shape

    def _distance_to(self, y):
        return y * (2 * self._chance(y) - 1) + self.mean * (1 - 2 * self._chance(y, 1))

    def _half_spread(self):
        return self.mean / self.shape / beta(0.5, self.shape)

    def _distance_between(self, other):
        own, others = self.mean / self.shape, other.mean / other.shape
        total = own + others
        # Chances that one exceeds the other when the larger one is drawn by its size.
        above = 1 - betainc(self.shape + 1, other.shape, others / total)
        below = 1 - betainc(other.shape + 1, self.shape, own / total)
        return self.mean * (2 * above - 1) + other.mean * (2 * below - 1)

    def _sample(self, rng, shape):
        return rng.gamma(self.shape, self.mean / self.shape, shape)
