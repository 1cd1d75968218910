"""Losses of a location on the scale of the target: mean, quantiles, expectile, and between mean and median."""

import copy
import math

import numpy as np

from skboost._engine import losses as engine
from skboost._losses._base import (
    LARGEST_TARGET,
    Loss,
    check_magnitude,
    check_spread,
    weighted_mean,
    weighted_quantile,
)

# Gradients are single precision, 1e-38 to 3e38, and noise may be a few orders larger or smaller.
LARGEST_SPREAD = 1e32
# A robust deviation of this many units of it leaves 95 % efficiency under normal noise (Huber 1964).
HUBER_POINT = 1.345
NORMAL_MAD = 1.4826
# Most steps towards a best constant.
MOST_STEPS = 200
# Largest number to be squared, as in the compiled losses.
ROOT_SAFE = 1e150


class LocationLoss(Loss):
    """Base of the losses whose prediction is on the scale of the target."""

    needs_noise_variance = True

    def check_domain(self, y, name="y"):
        check_magnitude(self.name, y, name, LARGEST_TARGET)

    def check_target(self, y, sample_weight=None):
        check_spread(self.name, y, LARGEST_SPREAD)


class SquaredError(LocationLoss):
    """Half the squared error; predictions are means."""

    name = "squared_error"
    kind = 0
    constant_hessian = True


class Quantile(LocationLoss):
    """Pinball loss of one or several levels; a prediction is the quantile of its level.

    Trees grow on the signs of residuals, and leaves take the quantile of their residuals, shrunk by the penalty.

    Parameters
    ----------
    levels : sequence of float
        Ascending levels in (0, 1), one output each.
    """

    name = "quantile"
    kind = 7
    constant_hessian = True
    renews_leaves = True
    factor = 1.0

    def __init__(self, levels=(0.5,)):
        self.levels = tuple(float(level) for level in levels)
        ascending = list(self.levels) == sorted(set(self.levels))
        if not self.levels or not ascending or not all(0 < level < 1 for level in self.levels):
            raise ValueError(f"quantile must hold ascending levels between 0 and 1, both excluded, got {levels!r}.")
        self.n_outputs = len(self.levels)
        self.params = (self.factor,)
        self.table = np.array([self.levels])

    def __repr__(self):
        return f"{type(self).__name__}(levels={self.levels!r})"

    def base_score(self, y, sample_weight=None):
        return np.array([weighted_quantile(y, level, sample_weight) for level in self.levels])

    def inverse_link(self, raw):
        """Return the predictions of the levels in ascending order, which quantiles have but trees may miss."""
        raw = np.asarray(raw, dtype=np.float64)
        return raw if self.n_outputs == 1 else np.sort(raw, axis=-1)

    def point(self, predictions):
        """Return the predictions of the level next to 1/2, the lower of two."""
        if self.n_outputs == 1:
            return predictions
        return predictions[..., int(np.argmin(np.abs(np.array(self.levels) - 0.5)))]

    def spread(self, y, score, base, sample_weight=None):
        return np.array([self._spread_of(k, y, score[k], base[k], sample_weight) for k in range(self.n_outputs)])

    def _spread_of(self, k, y, score, base, sample_weight):
        # A Laplace law of unequal sides has this variance of a fitted constant, times the number of rows.
        level = self.levels[k]
        residual = y - (base + score)
        loss = np.where(residual > 0, level * residual, (level - 1) * residual)
        return weighted_mean(loss, sample_weight) ** 2 / (level * (1 - level))

    def noise_scales(self, noise_variance):
        """Return the scales of row noise, on gradients that are signs, and of leaf noise, in units of the target."""
        levels = np.array(self.levels)
        scale = np.sqrt(np.broadcast_to(noise_variance, levels.shape).astype(np.float64))
        return self.factor * np.sqrt(levels * (1 - levels)), scale


class AbsoluteError(Quantile):
    """Absolute error; predictions are medians."""

    name = "absolute_error"
    factor = 2.0

    def __init__(self):
        super().__init__((0.5,))

    def __repr__(self):
        return f"{type(self).__name__}()"


class Huber(LocationLoss):
    """Squared error of residuals up to `delta`, a linear function of their size beyond.

    Parameters
    ----------
    delta : float or None
        Where it turns linear, in units of the target. None: 1.345 robust deviations (of the median absolute deviation)
        of the target, found by ``bind``.
    """

    name = "huber"
    kind = 8

    def __init__(self, delta=None):
        self.delta = delta
        self.params = (1.0 if delta is None else float(delta),)

    def __repr__(self):
        return f"{type(self).__name__}(delta={self.delta!r})"

    def bind(self, y, sample_weight=None):
        if self.delta is not None:
            return self
        bound = copy.copy(self)
        bound.params = (_robust_scale(y, sample_weight) * HUBER_POINT,)
        return bound

    def base_score(self, y, sample_weight=None):
        """Return the best constant, from the median on by steps that never overshoot."""
        y = self.to_internal(y)
        score, base = np.zeros((1, len(y))), np.array([weighted_quantile(y, 0.5, sample_weight)])
        for _ in range(MOST_STEPS):
            grad, _ = engine.gradients64(self, y, score, base, False)
            mean = weighted_mean(grad[0], sample_weight)
            moved = base - mean / self._inside(y, base[0], sample_weight)
            if abs(mean) <= 1e-12 * weighted_mean(np.abs(grad[0]), sample_weight) or moved[0] == base[0]:
                break
            base = moved
        return base

    def _inside(self, y, constant, sample_weight):
        """Return the mean over the rows of the curvature of the touching quadratics."""
        size = np.maximum(np.abs(y - constant) / self.params[0], 1.0)
        return weighted_mean(1.0 / size, sample_weight)

    def spread(self, y, score, base, sample_weight=None):
        return np.array([2.0 * self.mean_loss(y, score, base, sample_weight)])


class PseudoHuber(Huber):
    """Smooth form of the loss of Huber, ``delta^2 (sqrt(1 + (r / delta)^2) - 1)``."""

    name = "pseudo_huber"
    kind = 9

    def _inside(self, y, constant, sample_weight):
        size = np.minimum(np.abs(y - constant) / self.params[0], ROOT_SAFE)
        return weighted_mean(1.0 / np.sqrt(1.0 + size * size), sample_weight)


class Expectile(LocationLoss):
    """Squared error with the weight `level` above the prediction and ``1 - level`` below it.

    Parameters
    ----------
    level : float
        In (0, 1); 0.5 gives the mean.
    """

    name = "expectile"
    kind = 10

    def __init__(self, level=0.5):
        if not 0 < level < 1:
            raise ValueError(f"loss='expectile' requires quantile between 0 and 1, both excluded, got {level!r}.")
        self.level = float(level)
        self.params = (self.level,)

    def __repr__(self):
        return f"{type(self).__name__}(level={self.level!r})"

    def base_score(self, y, sample_weight=None):
        """Return the fixed point of the mean with the weights of the sides, from exact sums of each side."""
        y = np.asarray(y, dtype=np.float64)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        value = weighted_mean(y, sample_weight)
        for _ in range(MOST_STEPS):
            sums = []
            for side, factor in ((y > value, self.level), (y <= value, 1 - self.level)):
                if side.any():
                    mass = factor * math.fsum(weight[side])
                    sums.append((mass, weighted_mean(y[side], weight[side])))
            before, value = value, math.fsum(m * v for m, v in sums) / math.fsum(m for m, _ in sums)
            if value == before:
                break
        return np.array([value])

    def spread(self, y, score, base, sample_weight=None):
        # Weights t and 1 - t of a normal law average to 1/2; with them the level 0.5 is squared error.
        return np.array([4.0 * self.mean_loss(y, score, base, sample_weight)])


class MultiSquaredError(LocationLoss):
    """Half the squared error of several targets at once, one output each.

    The internal target of a row is its number in `table`, whose columns are standardised: less `centre`, over `scale`,
    a power of two just below the standard deviation, so that no unit outweighs the others in the choice of splits.

    Parameters
    ----------
    table : ndarray of shape (n_distinct, n_outputs)
        Distinct targets in lexicographic order.
    """

    name = "squared_error"
    kind = 16
    constant_hessian = True

    def __init__(self, targets):
        self.targets = np.ascontiguousarray(targets, dtype=np.float64)
        self.n_outputs = self.n_targets = self.targets.shape[1]
        self.centre, self.scale = np.zeros(self.n_outputs), np.ones(self.n_outputs)
        self.table = self.targets

    def __repr__(self):
        return f"{type(self).__name__}(n_outputs={self.n_outputs})"

    def check_domain(self, y, name="y"):
        check_magnitude(self.name, self.targets, name, LARGEST_TARGET)

    def check_target(self, y, sample_weight=None):
        for column in self.targets.T:
            check_spread(self.name, column, LARGEST_SPREAD)

    def bind(self, y, sample_weight=None):
        bound = copy.copy(self)
        bound.centre, deviation = np.empty(self.n_outputs), np.empty(self.n_outputs)
        for k, column in enumerate(self.targets.T):
            values = column[y.astype(np.intp)]
            bound.centre[k] = weighted_mean(values, sample_weight)
            deviation[k] = math.sqrt(weighted_mean(np.square(values - bound.centre[k]), sample_weight))
        deviation[deviation == 0] = 1.0
        bound.scale = np.array([math.ldexp(1.0, math.frexp(d)[1] - 1) for d in deviation])
        bound.table = np.ascontiguousarray((self.targets - bound.centre) / bound.scale)
        return bound

    def base_score(self, y, sample_weight=None):
        rows = y.astype(np.intp)
        return np.array([weighted_mean(column[rows], sample_weight) for column in self.table.T])

    def inverse_link(self, raw):
        return self.centre + self.scale * np.asarray(raw, dtype=np.float64)

    def spread(self, y, score, base, sample_weight=None):
        rows = y.astype(np.intp)
        residuals = [column[rows] - (b + s) for column, b, s in zip(self.table.T, base, score, strict=True)]
        return np.array([weighted_mean(np.square(r), sample_weight) for r in residuals]) * self.scale**2

    def noise_scales(self, noise_variance):
        scale = np.sqrt(np.broadcast_to(noise_variance, self.scale.shape).astype(np.float64)) / self.scale
        return scale, scale

    def with_targets(self, table):
        other = copy.copy(self)
        other.targets = table
        other.table = np.ascontiguousarray((table - self.centre) / self.scale)
        return other

    def user_target(self, y):
        return self.targets[y.astype(np.intp)]


def _robust_scale(y, sample_weight):
    """Return a scale of the target that outliers leave alone, above 0 also for targets that are mostly equal."""
    y = np.asarray(y, dtype=np.float64)
    size = np.abs(y - weighted_quantile(y, 0.5, sample_weight))
    scale = NORMAL_MAD * weighted_quantile(size, 0.5, sample_weight)
    if scale > 0:
        return scale
    mean = weighted_mean(size, sample_weight)
    return mean if mean > 0 else 1.0
