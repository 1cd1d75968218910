"""Functions that stay exact where gamma functions of large arguments would cancel."""

import numpy as np
from scipy.special import betainc, betaincc, gammaln

HALF_LOG_TWO_PI = 0.9189385332046727
SERIES_FROM = 16.0
# Range of d / (2 + d) in which log1p(d) - d comes from its series.
SERIES_BELOW = 0.1


def stirling_rest(x):
    """Return ln Gamma(x) less (x - 1/2) ln x - x + ln(2 pi) / 2, for x > 0."""
    x = np.asarray(x, dtype=np.float64)
    small = np.minimum(x, SERIES_FROM)
    direct = gammaln(small) - ((small - 0.5) * np.log(small) - small + HALF_LOG_TWO_PI)
    z = 1 / np.maximum(x, SERIES_FROM)
    series = z * (1 / 12 - z**2 * (1 / 360 - z**2 * (1 / 1260 - z**2 * (1 / 1680 - z**2 / 1188))))
    return np.where(x < SERIES_FROM, direct, series)


def log1p_less(d):
    """Return ln(1 + d) - d, to full relative precision, for d > -1."""
    d = np.asarray(d, dtype=np.float64)
    s = d / (2 + d)
    inside = np.abs(s) < SERIES_BELOW
    t = np.where(inside, s, 0.0)
    # 2 atanh(s) - 2 s, to the power 21 of s
    tail = 0.0
    for k in range(21, 1, -2):
        tail = t * t * (1 / k + tail)
    with np.errstate(divide="ignore"):
        direct = np.log1p(d) - d
    return np.where(inside, 2 * t * tail - s * d, direct)


def poisson_logpmf(k, mean):
    """Return the logarithm of the Poisson probabilities of counts k >= 0; real numbers take gamma functions."""
    positive = np.where(k > 0, k, 1.0)
    body = positive * log1p_less((mean - positive) / positive)
    body -= 0.5 * np.log(positive) + HALF_LOG_TWO_PI + stirling_rest(positive)
    return np.where(k > 0, body, -mean)


def negative_binomial_logpmf(k, mean, size):
    """Return the logarithm of the negative binomial probabilities of counts k >= 0: Poisson plus what is beyond it."""
    d = np.where(k > 0, k - mean, 0.0) / (size + mean)
    beyond = (size + mean) * ((1 + d) * log1p_less(d) + d * d)
    body = poisson_logpmf(k, mean) + beyond - 0.5 * np.log1p(k / size) - stirling_rest(size) + stirling_rest(size + k)
    # No failure: the general form takes differences of the mean, and has no number where the size vanishes beside it.
    return np.where(k > 0, body, -size * np.log1p(mean / size))


def negative_binomial_cdf(k, size, failure, success):
    """Return the probability of at most k failures before `size` successes, for whole k >= -1."""
    k1 = np.maximum(k, 0.0) + 1
    # The smaller of the two chances has all its digits.
    value = np.where(success < failure, betainc(size, k1, success), betaincc(k1, size, failure))
    return np.where(k < 0, 0.0, value)
