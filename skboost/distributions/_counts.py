"""Poisson and negative binomial distributions, and what distributions of counts have in common."""

import numpy as np
from scipy.special import gammaincc, i0e, i1e

from skboost.distributions._base import Distribution
from skboost.distributions._special import negative_binomial_cdf, negative_binomial_logpmf, poisson_logpmf

# Step and ends of the trapezoidal rule in ln x of the mean difference of two negative binomial draws: an error of
# exp(-pi^2 / step) of it, and of the exponential of minus the reach.
STEP = 0.2
REACH = 32.0
# Rows whose nodes are held together.
BLOCK_ROWS = 1024
# Quantiles are looked for up to here.
LARGEST_COUNT = 1e300


class CountDistribution(Distribution):
    """Base of the distributions of counts 0, 1, 2, ..."""

    is_discrete = True

    def logpmf(self, y):
        """Return the logarithm of the probability of y.

        Parameters
        ----------
        y : array-like
            Values that broadcast against the rows.

        Returns
        -------
        ndarray
            Logarithms in nats, minus infinity where y is no count. The same as `logpdf`.
        """
        return self.logpdf(y)

    def _logpdf(self, y):
        possible = (y >= 0) & (y == np.floor(y)) & np.isfinite(y)
        return np.where(possible, self._logpmf(np.where(possible, y, 0.0)), np.where(np.isnan(y), np.nan, -np.inf))

    def _cdf(self, y):
        inside = self._count_cdf(np.floor(np.clip(y, -1.0, 1e300)))
        return np.where(y == np.inf, 1.0, np.where(np.isnan(y), np.nan, inside))

    def _logpmf(self, k):
        """Return the log probability of whole numbers of at least 0."""
        raise NotImplementedError

    def _count_cdf(self, k):
        """Return the probability of at most k, whole and at least -1."""
        raise NotImplementedError

    def _quantile(self, p):
        low = np.full(np.broadcast_shapes(p.shape, self.mean.shape), -1.0)
        guess = np.ceil(self.mean + 2 * self.std + 2)
        return count_quantile(self._count_cdf, p, low, np.broadcast_to(guess, low.shape).copy())


def count_quantile(cdf, p, low, high):
    """Return the smallest counts of cumulative probability p by bisection; that of `low` is below p where p > 0.

    `high` is doubled until its probability is large enough; probability 1 has an infinite quantile.
    """
    inside = np.broadcast_to((p > 0) & (p < 1), low.shape)
    low, high = np.where(inside, low, -1.0), np.where(inside, high, 0.0)
    while (short := inside & (cdf(high) < p) & (high < LARGEST_COUNT)).any():
        low = np.where(short, high, low)
        high = np.where(short, 2 * high + 2, high)
    while True:
        middle = np.floor(0.5 * (low + high))
        # Beyond 2^53 neighbouring numbers are further apart than 1.
        wide = (middle > low) & (middle < high)
        if not wide.any():
            break
        enough = cdf(middle) >= p
        high = np.where(wide & enough, middle, high)
        low = np.where(wide & ~enough, middle, low)
    return np.where(p == 1, np.inf, high)


class Poisson(CountDistribution):
    """Poisson distributions of counts.

    Parameters
    ----------
    mean : array-like
        Expected values, above 0, which are the variances too.

    Examples
    --------
    >>> from skboost.distributions import Poisson
    >>> d = Poisson([1.0, 3.0])
    >>> d.quantile(0.9), d.cdf(1).round(3)
    (array([2., 5.]), array([0.736, 0.199]))
    """

    _names = ("mean",)
    _positive = ("mean",)

    def __init__(self, mean):
        super().__init__(mean)

    @property
    def mean(self):
        """Expected values."""
        return self._values[0]

    @property
    def variance(self):
        """Variances."""
        return self.mean

    def _count_cdf(self, k):
        return np.where(k < 0, 0.0, gammaincc(np.maximum(k, 0.0) + 1, self.mean))

    def _logpmf(self, k):
        return poisson_logpmf(k, self.mean)

    def _distance_to(self, y):
        # E[X [X <= y]] = m P(X <= y - 1)
        return y * (2 * self._cdf(y) - 1) + self.mean * (1 - 2 * self._cdf(y - 1))

    def _half_spread(self):
        return self.mean * (i0e(2 * self.mean) + i1e(2 * self.mean))

    def _sample(self, rng, shape):
        return rng.poisson(self.mean, shape).astype(np.float64)


class NegativeBinomial(CountDistribution):
    """Negative binomial distributions: counts of a Poisson law whose mean is gamma distributed.

    Parameters
    ----------
    mean : array-like
        Expected values m, above 0.
    size : array-like
        Sizes r, above 0, not necessarily whole: the variance is m + m^2 / r, so a large size is nearly Poisson.
        Parameters broadcast against each other.

    Examples
    --------
    >>> from skboost.distributions import NegativeBinomial
    >>> d = NegativeBinomial(2.0, [0.5, 100.0])
    >>> d.variance, d.quantile(0.9)
    (array([10.  ,  2.04]), array([6., 4.]))
    """

    _names = ("mean", "size")
    _positive = ("mean", "size")

    def __init__(self, mean, size):
        super().__init__(mean, size)

    @property
    def mean(self):
        """Expected values."""
        return self._values[0]

    @property
    def variance(self):
        """Variances."""
        return self.mean + self.mean**2 / self.size

    def _chance(self, k, more=0):
        """Return the probability of at most k with a size that is larger by a whole number, at the same odds."""
        total = self.size + self.mean
        return negative_binomial_cdf(k, self.size + more, self.mean / total, self.size / total)

    def _count_cdf(self, k):
        return self._chance(k)

    def _logpmf(self, k):
        return negative_binomial_logpmf(k, self.mean, self.size)

    def _distance_to(self, y):
        # E[X [X <= y]] = m P(X' <= y - 1), X' of size r + 1
        before = np.floor(np.clip(y, -1.0, 1e300)) - 1
        return y * (2 * self._cdf(y) - 1) + self.mean * (1 - 2 * self._chance(before, 1))

    def _half_spread(self):
        """Return E|X - X'| / 2, an integral over the squared absolute values of the characteristic function.

        It is the integral of 1 - (1 + 4 v / (r (1 + x^2)))^-r, over 2 pi, with v the variance and x = cot(t / 2) > 0.
        """
        variance, size = np.ravel(self.variance), np.ravel(self.size)
        found = np.empty_like(variance)
        for start in range(0, len(found), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            v, r = variance[rows, None], size[rows, None]
            last = REACH + 0.5 * np.log1p(4 * v.max())
            x = np.exp(STEP * np.arange(-np.ceil(REACH / STEP), np.ceil(last / STEP) + 1))
            integrand = -np.expm1(-r * np.log1p(4 * v / (r * (1 + x * x)))) * x
            found[rows] = integrand.sum(axis=1)
        return (STEP / (2 * np.pi) * found).reshape(self.variance.shape)

    def _sample(self, rng, shape):
        return rng.poisson(rng.gamma(self.size, self.mean / self.size, shape)).astype(np.float64)
