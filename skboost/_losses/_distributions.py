"""Likelihoods of whole distributions: Laplace, log-normal, gamma, negative binomial and Poisson."""

import math

import numpy as np
from scipy.special import polygamma, psi

from skboost import distributions
from skboost._engine import losses as engine
from skboost._losses._base import LOG_MEAN_MAX, check_magnitude, weighted_mean, weighted_quantile
from skboost._losses._gaussian import Gaussian
from skboost._losses._log_link import LogLinkLoss, Poisson

# Targets of "lognormal" lie between 1 over this and this, and these are the largest mean and standard deviation of ln y
# that it predicts, so that means and variances are finite.
LARGEST_POSITIVE = 1e100
LOG_LOCATION_MAX = 250.0
LOG_DEVIATION_MAX = 10.0
# Shapes that boosting starts from: a relative deviation of 1e-5.
LARGEST_SHAPE = 1e10
# Sizes that boosting starts from: a variance of a thousandth above that of Poisson.
LEAST_EXCESS = 1e-3
MOST_STEPS = 60
# Largest target whose square is a number, in the likelihood of counts.
LARGEST_COUNT = 1e140


class Normal(Gaussian):
    """The "gaussian" loss under the name of its distribution."""

    name = "normal"


class LogNormal(Gaussian):
    """The "gaussian" loss of ln y, for positive targets with a long tail; predictions are expected values of y.

    Predicted means of ln y are clamped to -250 and 250, and predicted standard deviations to at most 10.
    """

    name = "lognormal"
    offsets_of_log = True

    def check_domain(self, y, name="y"):
        smallest = float(np.min(y, initial=np.inf))
        if smallest <= 0:
            raise ValueError(f"loss={self.name!r} requires {name} > 0; the smallest target is {smallest:g}.")
        if smallest < 1 / LARGEST_POSITIVE:
            raise ValueError(
                f"loss={self.name!r} requires {name} above 1e-100, got {smallest:g}; change the unit of y."
            )
        check_magnitude(self.name, y, name, LARGEST_POSITIVE)

    def check_target(self, y, sample_weight=None):
        self.check_domain(y)

    def bind(self, y, sample_weight=None):
        return super().bind(np.log(y), sample_weight)

    def to_internal(self, y):
        return super().to_internal(np.log(y))

    def distribution(self, raw):
        location, deviation = self._location_scale(raw)
        location = np.clip(location, -LOG_LOCATION_MAX, LOG_LOCATION_MAX)
        return distributions.LogNormal(location, np.minimum(deviation, LOG_DEVIATION_MAX))

    def offset_unit(self, raw):
        return self.distribution(raw).sigma ** 2


class Laplace(Gaussian):
    """Negative log-likelihood of a Laplace distribution; the outputs are its median and the log of its scale.

    Raw scores live on (y - centre) / scale, with the median of the target as the centre and the power of two just below
    its mean absolute deviation as the scale. Predicted scales are clamped as the deviations of "gaussian" are.
    """

    name = "laplace"
    kind = 11
    fits_coins = False

    def _centre_and_deviation(self, y, sample_weight):
        median = weighted_quantile(y, 0.5, sample_weight)
        return median, weighted_mean(np.abs(y - median), sample_weight)

    def distribution(self, raw):
        return distributions.Laplace(*self._location_scale(raw))

    def offset_unit(self, raw):
        return self.distribution(raw).scale ** 2


class PositiveDistribution(LogLinkLoss):
    """Base of the distributions with two outputs, the first of which is the log of the mean."""

    n_outputs = 2
    predicts_spread = True
    predicts_distribution = True
    offsets_of_log = True
    uncertainty = "distribution"

    def inverse_link(self, raw):
        return super().inverse_link(np.asarray(raw, dtype=np.float64)[..., 0])

    def saturated(self, y):
        return np.full(len(y), -np.inf)

    def noise_scales(self, noise_variance):
        # Natural gradients bring the scales of their rows along.
        return None

    def _parameters(self, raw):
        return np.moveaxis(np.exp(np.clip(raw, -LOG_MEAN_MAX, LOG_MEAN_MAX)), -1, 0)


class GammaDistribution(PositiveDistribution):
    """Gamma likelihood with a shape of its own for every row; the outputs are the logs of the mean and of the shape."""

    name = "gamma_distribution"
    kind = 12
    zero_allowed = False

    def base_score(self, y, sample_weight=None):
        mean = weighted_mean(y, sample_weight)
        gap = math.log(mean) - weighted_mean(np.log(y), sample_weight)
        return np.array([math.log(mean), math.log(shape_of_gap(gap))])

    def distribution(self, raw):
        return distributions.Gamma(*self._parameters(raw))

    def offset_unit(self, raw):
        return 1 / self.distribution(raw).shape


class NegativeBinomial(PositiveDistribution):
    """Negative binomial likelihood; the outputs are the logs of the mean m and of the size r, the variance m + m^2 / r.

    Information on r is tiny where counts are rare or nearly Poisson. The metric of a row is therefore at least the
    information at the base score, in both outputs: rows of less information count for less, as in a likelihood.
    """

    name = "negative_binomial"
    kind = 13
    variance_has_mean = True

    def __init__(self, least_metrics=(0.0, 0.0)):
        self.params = tuple(float(metric) for metric in least_metrics)

    def __repr__(self):
        return f"{type(self).__name__}(least_metrics={self.params!r})"

    def check_domain(self, y, name="y"):
        super().check_domain(y, name)
        check_magnitude(self.name, y, name, LARGEST_COUNT)

    def bind(self, y, sample_weight=None):
        base = self.base_score(y, sample_weight)
        metric = engine.gradients64(self, np.ones(1), np.zeros((2, 1)), base, True)[1]
        return type(self)(metric[:, 0])

    def base_score(self, y, sample_weight=None):
        mean = weighted_mean(y, sample_weight)
        return np.array([math.log(mean), best_log_size(y, mean, sample_weight)])

    def distribution(self, raw):
        return distributions.NegativeBinomial(*self._parameters(raw))

    def offset_unit(self, raw):
        predicted = self.distribution(raw)
        information = predicted.mean * predicted.size / (predicted.mean + predicted.size)
        return 1 / np.maximum(information, self.params[0])


class PoissonDistribution(Poisson):
    """The "poisson" loss with the variance of the counts, which is their mean, as data uncertainty."""

    name = "poisson_distribution"
    predicts_spread = True
    uncertainty = "distribution"


def shape_of_gap(gap):
    """Return the shape a of gamma distributions with ln a - psi(a) = gap, at most `LARGEST_SHAPE`."""
    if gap <= 0.5 / LARGEST_SHAPE:
        return LARGEST_SHAPE
    shape = (3 - gap + math.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(4):
        # Newton steps of 1 / a, in which the gap is nearly linear.
        error = math.log(shape) - float(psi(shape)) - gap
        shape = 1 / (1 / shape - error / (shape**2 * float(polygamma(1, shape)) - shape))
    return min(shape, LARGEST_SHAPE)


def best_log_size(y, mean, sample_weight=None):
    """Return ln r of the likeliest negative binomial law of a given mean, by Fisher's steps between bounds.

    A variance of less than a thousandth above the mean is not looked for.
    """
    y, log_mean = np.ascontiguousarray(y, dtype=np.float64), math.log(mean)
    low, high = -LOG_MEAN_MAX, min(log_mean - math.log(LEAST_EXCESS), LOG_MEAN_MAX)
    loss, score = NegativeBinomial(), np.zeros((2, len(y)))

    def slope(at):
        grad, information = engine.gradients64(loss, y, score, np.array([log_mean, at]), True)
        return weighted_mean(grad[1], sample_weight), float(information[1, 0])

    if slope(high)[0] <= 0:
        return high
    square = weighted_mean(np.square(y - mean), sample_weight)
    at = min(max(2 * log_mean - math.log(max(square - mean, LEAST_EXCESS * mean)), low), high)
    for _ in range(MOST_STEPS):
        g, information = slope(at)
        low, high = (low, at) if g > 0 else (at, high)
        moved = at - g / information if information > 0 else low
        if not low < moved < high:
            moved = 0.5 * (low + high)
        if abs(moved - at) < 1e-13 * max(1.0, abs(at)) or not low < moved < high:
            break
        at = moved
    return at
