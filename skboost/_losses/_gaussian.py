"""Normal distribution with predicted mean and standard deviation."""

import math

import numpy as np

from skboost import distributions
from skboost._losses._base import LOG_SD_MAX, Loss, check_magnitude, check_spread, mean_and_deviation


class Gaussian(Loss):
    """Negative log-likelihood of a normal distribution; the outputs are its mean and the log of its standard deviation.

    Raw scores live on the standardised target (y - centre) / scale. The scale is a power of two just below the standard
    deviation, so multiplying the target by a power of two multiplies the predictions by it, bit for bit. Predicted
    standard deviations are clamped to 2e-9 and 5e8 times the scale, where the log standard deviation is -20 and 20.

    Residuals of training are smaller than the noise. So the gradient of the log standard deviation compares their
    squares not with 1 but with what is left of the squares of coins that the same leaves fit by the same steps.
    """

    name = "gaussian"
    kind = 4
    n_outputs = 2
    fits_coins = True
    predicts_spread = True
    predicts_distribution = True
    uncertainty = "distribution"

    def __init__(self, centre=0.0, scale=1.0):
        self.centre = centre
        self.scale = scale

    def __repr__(self):
        return f"{type(self).__name__}(centre={self.centre!r}, scale={self.scale!r})"

    def check_domain(self, y, name="y"):
        check_magnitude(self.name, y, name, 1e140)

    def check_target(self, y, sample_weight=None):
        # Predicted variances, up to (5e8 scale)^2, are finite.
        check_spread(self.name, y, 1e140)
        self.check_domain(y)

    def bind(self, y, sample_weight=None):
        centre, deviation = self._centre_and_deviation(y, sample_weight)
        size = float(np.abs(y).max(initial=0.0))
        if deviation <= 4 * np.finfo(np.float64).eps * size:
            # A constant target up to rounding.
            deviation = 2.0**-26 * (size or 1.0)
        return type(self)(centre, math.ldexp(1.0, math.frexp(deviation)[1] - 1))

    def _centre_and_deviation(self, y, sample_weight):
        return mean_and_deviation(y, sample_weight)

    def to_internal(self, y):
        return (np.ascontiguousarray(y, dtype=np.float64) - self.centre) / self.scale

    def base_score(self, y, sample_weight=None):
        centre, deviation = self._centre_and_deviation(y, sample_weight)
        return np.array([centre, math.log(deviation) if deviation > 2.0**-20 else 0.0])

    def inverse_link(self, raw):
        return self.mean_variance(raw)[0]

    def saturated(self, y):
        return np.full(len(y), -np.inf)

    def _location_scale(self, raw):
        raw = np.asarray(raw, dtype=np.float64)
        deviation = np.exp(np.clip(raw[..., 1], -LOG_SD_MAX, LOG_SD_MAX)) * self.scale
        return self.centre + self.scale * raw[..., 0], deviation

    def distribution(self, raw):
        return distributions.Normal(*self._location_scale(raw))

    def offset_unit(self, raw):
        return self._location_scale(raw)[1] ** 2
