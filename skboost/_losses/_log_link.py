"""Losses of positive means with a log link."""

import copy
import math

import numpy as np
from scipy.special import xlogy

from skboost import distributions
from skboost._losses._base import LARGEST_TARGET, LOG_MEAN_MAX, Loss, check_magnitude, weighted_mean

# Dispersion of targets that a model meets exactly.
LEAST_DISPERSION = 1e-12


class LogLinkLoss(Loss):
    """Base of the losses of positive means with a log link, where the mean of a target is the best constant.

    Attributes
    ----------
    zero_allowed : bool
        Whether a target may be 0.
    power : float
        Power of the mean that the variance of a target follows.
    """

    zero_allowed = True
    power = 1.0
    log_link = True
    largest_score = LOG_MEAN_MAX

    def check_domain(self, y, name="y"):
        sign = ">=" if self.zero_allowed else ">"
        smallest = float(np.min(y, initial=np.inf))
        if smallest < 0 or (smallest == 0 and not self.zero_allowed):
            raise ValueError(f"loss={self.name!r} requires {name} {sign} 0; the smallest target is {smallest:g}.")
        check_magnitude(self.name, y, name, LARGEST_TARGET)

    def check_target(self, y, sample_weight=None):
        y = np.asarray(y, dtype=np.float64)
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight, dtype=np.float64)
            y, sample_weight = y[sample_weight > 0], sample_weight[sample_weight > 0]
        if y.size == 0:
            return
        self.check_domain(y)
        if y.max() == 0:
            raise ValueError(f"loss={self.name!r} requires y >= 0 and sum(y) > 0; all targets are 0.")
        mean = weighted_mean(y, sample_weight)
        if not math.exp(-LOG_MEAN_MAX) < mean < math.exp(LOG_MEAN_MAX):
            raise ValueError(f"loss={self.name!r} requires a weighted mean of y between 1e-13 and 1e13, got {mean:g}.")

    def strata(self, y):
        return None if np.min(y, initial=np.inf) > 0 else np.asarray(y) > 0

    def base_score(self, y, sample_weight=None):
        return np.array([math.log(weighted_mean(y, sample_weight))])

    def spread(self, y, score, base, sample_weight=None):
        """Return the dispersion by Pearson's estimate: the variance of targets over their mean to the power."""
        mean = self.inverse_link(base[0] + score[0])
        found = weighted_mean(np.square((y - mean) / mean ** (0.5 * self.power)), sample_weight)
        return np.array([max(found, LEAST_DISPERSION)])

    def noise_scales(self, noise_variance):
        # Gradients of rows have the variance of the dispersion times the curvature.
        scale = math.sqrt(noise_variance)
        return np.array([scale * math.sqrt(self.leaf_curvature)]), np.array([scale])

    def inverse_link(self, raw):
        return np.exp(np.clip(raw, -LOG_MEAN_MAX, LOG_MEAN_MAX))


class Poisson(LogLinkLoss):
    """Poisson likelihood of counts or rates with a log link."""

    name = "poisson"
    kind = 1
    predicts_distribution = True
    offsets_of_log = True
    variance_has_mean = True

    def bind(self, y, sample_weight=None):
        bound = copy.copy(self)
        bound.leaf_curvature = weighted_mean(y, sample_weight)
        return bound

    def distribution(self, raw):
        return distributions.Poisson(self.inverse_link(np.asarray(raw, dtype=np.float64)[..., 0]))

    def saturated(self, y):
        return np.asarray(y, dtype=np.float64) - xlogy(y, y)


class Gamma(LogLinkLoss):
    """Gamma likelihood of positive targets whose deviation is proportional to their mean, with a log link."""

    name = "gamma"
    kind = 5
    zero_allowed = False
    power = 2.0
    needs_noise_variance = True

    def saturated(self, y):
        return 1.0 + np.log(y)


class Tweedie(LogLinkLoss):
    """Tweedie likelihood of targets that are positive or exactly 0, with a log link.

    The variance of a target is proportional to its mean to the `power`, which lies between 1 (Poisson) and 2 (gamma),
    both excluded.
    """

    name = "tweedie"
    kind = 6
    needs_noise_variance = True

    def __init__(self, power=1.5):
        if not 1 < power < 2:
            raise ValueError(f"loss='tweedie' requires a power between 1 and 2, both excluded, got {power!r}.")
        self.power = float(power)
        self.params = (self.power,)

    def __repr__(self):
        return f"{type(self).__name__}(power={self.power!r})"

    def bind(self, y, sample_weight=None):
        bound = copy.copy(self)
        bound.leaf_curvature = weighted_mean(y, sample_weight) ** (2 - self.power)
        return bound

    def saturated(self, y):
        factor = 1 / (self.power - 1) + 1 / (2 - self.power)
        return factor * np.power(np.asarray(y, dtype=np.float64), 2 - self.power)
