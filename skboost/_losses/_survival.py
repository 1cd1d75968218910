"""Losses of times that may be censored: Cox's partial likelihood and accelerated failure times.

Targets are numbers of rows of a table, as ``number_targets`` makes them of (time, event) or (lower, upper).
"""

import copy
import math

import numpy as np
from scipy.special import expit, ndtr

from skboost._engine import losses as engine
from skboost._engine.survival import RiskSets
from skboost._losses._base import LOG_MEAN_MAX, Loss, weighted_mean

DISTRIBUTIONS = ("normal", "logistic", "extreme")
# Standard deviations of the noise on the log of time for which the compiled loss keeps its digits.
SMALLEST_SCALE, LARGEST_SCALE = 1e-4, 1e4
# Stands for a missing end of an interval of logs, as in the compiled loss.
OPEN = 1e100
# Share of the second derivative of an event that gradient steps divide by at least, however many rows are censored.
LEAST_SHARE = 0.25
# Doublings of the interval that holds the best constant, and steps in it.
MOST_DOUBLINGS = 64
MOST_STEPS = 200


class SurvivalLoss(Loss):
    """Base of the losses of times: predictions are exponentials of raw scores.

    Attributes
    ----------
    targets : ndarray of shape (n_targets, 2) or None
        Distinct targets, in lexicographic order; None before they are known.
    """

    log_link = True
    largest_score = LOG_MEAN_MAX

    def __init__(self, targets=None):
        self.targets = targets

    def with_targets(self, table):
        """Return the loss with its constants and another table of targets."""
        other = copy.copy(self)
        other.targets = table
        return other

    def user_target(self, y):
        return self.targets[np.asarray(y).astype(np.intp)]

    def inverse_link(self, raw):
        return np.exp(np.clip(raw, -LOG_MEAN_MAX, LOG_MEAN_MAX))

    def noise_scales(self, noise_variance):
        # Likelihoods: gradients of rows have the variance of the curvature.
        return np.array([math.sqrt(self.leaf_curvature)]), np.ones(1)

    def saturated(self, y):
        return np.full(len(y), -np.inf)

    @staticmethod
    def _present(y, sample_weight):
        return y if sample_weight is None else y[np.asarray(sample_weight) > 0]


class Cox(SurvivalLoss):
    """Cox's partial likelihood with Breslow's handling of ties; the raw score is the log of the relative risk.

    The terms of events depend on all rows at risk: the loss of a row is that among the rows it is asked with.
    """

    name = "cox"
    kind = 17
    rows_of = rows = None

    def check_domain(self, y, name="y"):
        if not self._events(y).any():
            raise ValueError(f"loss='cox' requires {name} with an event; all rows are censored.")

    def check_target(self, y, sample_weight=None):
        if len(y := self._present(y, sample_weight)):
            self.check_domain(y)

    def bind(self, y, sample_weight=None):
        # The mean second derivative where all rows are equal, but for the share that a row has in its own risk set.
        bound = copy.copy(self)
        bound.leaf_curvature = weighted_mean(self._events(y), sample_weight)
        return bound

    def base_score(self, y, sample_weight=None):
        return np.zeros(1)

    def risk_sets(self, y, sample_weight=None):
        """Return (risk sets of the rows, distinct times of the rows in ascending order)."""
        times, ranks = np.unique(self.user_target(y)[:, 0], return_inverse=True)
        return RiskSets(ranks.reshape(-1), self._events(y), sample_weight), times

    def for_rows(self, y, sample_weight=None):
        bound = copy.copy(self)
        bound.rows_of, bound.rows = y, self.risk_sets(y, sample_weight)[0]
        return bound

    def write_gradients(self, score, grad, hess, n_threads):
        """Write gradients, and second derivatives unless `hess` is None, of the rows that ``for_rows`` has seen."""
        self.rows.write_gradients(score[0], grad[0], None if hess is None else hess[0], n_threads)

    def mean_loss(self, y, score, base, sample_weight=None, n_threads=1):
        rows = self.rows if self.rows_of is y else self.risk_sets(y, sample_weight)[0]
        return weighted_mean(rows.values(np.ascontiguousarray(score[0] + base[0]), n_threads), sample_weight)

    def baseline(self, y, score, sample_weight=None, n_threads=1):
        """Return (times, Breslow's cumulative hazards there, raw score that they belong to)."""
        rows, times = self.risk_sets(y, sample_weight)
        hazard, top = rows.cumulative_hazard(np.ascontiguousarray(score, dtype=np.float64), n_threads)
        return times, hazard, top

    def _events(self, y):
        return np.ascontiguousarray(self.user_target(y)[:, 1])


class AcceleratedFailureTime(SurvivalLoss):
    """Likelihood of times T with ln T = f + scale z, z of a known distribution; times are known up to intervals.

    Parameters
    ----------
    distribution : {"normal", "logistic", "extreme"}
        Law of z; "extreme" is the law of the log of an exponential variate, which makes T a Weibull variate.
    scale : float
        Factor on z.
    targets : ndarray of shape (n_targets, 2), default=None
        Distinct (lower, upper) ends of times, equal ones for events, 0 and infinity for missing ends.
    """

    name = "aft"
    kind = 14

    def __init__(self, distribution="normal", scale=1.0, targets=None):
        if distribution not in DISTRIBUTIONS:
            raise ValueError(f"loss='aft' requires a distribution of {list(DISTRIBUTIONS)}, got {distribution!r}.")
        if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
            raise ValueError(
                f"loss='aft' requires a scale between {SMALLEST_SCALE:g} and {LARGEST_SCALE:g}, got {scale!r}."
            )
        self.distribution, self.scale = distribution, float(scale)
        self.params = (float(DISTRIBUTIONS.index(distribution)), self.scale)
        super().__init__(targets)
        self.table = None if targets is None else self._rows_of(targets)

    def __repr__(self):
        return f"{type(self).__name__}(distribution={self.distribution!r}, scale={self.scale!r})"

    def with_targets(self, table):
        other = super().with_targets(table)
        other.table = self._rows_of(table)
        return other

    def _rows_of(self, targets):
        """Return the rows that the engine looks up: both logs, and the log of what the likelihood holds besides z."""
        with np.errstate(divide="ignore"):
            lower, upper = np.log(targets).T
        event, half_open = lower == upper, np.isinf(lower) | np.isinf(upper)
        mass = np.zeros(len(targets))
        mass[event] = -(math.log(self.scale) + lower[event])
        inside = ~(event | half_open)
        mass[inside] = np.log(-np.expm1(-(upper[inside] - lower[inside]) / self.scale))
        return np.stack([np.maximum(lower, -OPEN), np.minimum(upper, OPEN), mass], axis=1)

    def user_target(self, y):
        rows = super().user_target(y)
        # Times that are all known may be compared with predictions.
        return rows[:, 0] if np.array_equal(self.targets[:, 0], self.targets[:, 1]) else rows

    def check_target(self, y, sample_weight=None):
        if len(y := self._present(y, sample_weight)) == 0:
            return
        lower, upper = self.targets[np.unique(y).astype(np.intp)].T
        for missing, side in ((upper == np.inf, "right"), (lower == 0, "left")):
            if missing.all():
                raise ValueError(f"loss='aft' requires y with an event; all rows are {side}-censored.")

    def bind(self, y, sample_weight=None):
        base = self.base_score(y, sample_weight)
        if not abs(base[0]) < LOG_MEAN_MAX:
            raise ValueError(
                f"loss='aft' requires times whose best constant lies between 1e-13 and 1e13; its log is {base[0]:g}. "
                "Change the unit of y."
            )
        bound = copy.copy(self)
        bound.leaf_curvature = max(self._slopes(y, base[0], sample_weight)[1], LEAST_SHARE / self.scale**2)
        return bound

    def base_score(self, y, sample_weight=None):
        """Return the best constant by Newton steps between bounds, halved where these go astray."""
        low, high = self._bounds(y, sample_weight)
        constant = 0.5 * (low + high)
        for count in range(MOST_STEPS):
            g, h, size = self._slopes(y, constant, sample_weight)
            if abs(g) <= 1e-12 * size:
                break
            low, high = (low, constant) if g > 0 else (constant, high)
            moved = constant - g / h if h > 0 else math.inf
            if not low < moved < high or count % 8 == 7:
                moved = 0.5 * (low + high)
            if not low < moved < high:
                break
            constant = moved
        return np.array([constant])

    def _bounds(self, y, sample_weight):
        """Return constants at which the mean gradient, which rises with the constant, is below and above 0."""
        ends = self.table[np.unique(self._present(y, sample_weight)).astype(np.intp), :2]
        ends = ends[np.abs(ends) < OPEN]
        low, high, step = float(ends.min()), float(ends.max()), self.scale
        for _ in range(MOST_DOUBLINGS):
            if self._slopes(y, low, sample_weight)[0] <= 0:
                break
            low, step = low - step, 2 * step
        for _ in range(MOST_DOUBLINGS):
            if self._slopes(y, high, sample_weight)[0] >= 0:
                break
            high, step = high + step, 2 * step
        return low, high

    def _slopes(self, y, constant, sample_weight):
        """Return the mean gradient, second derivative and size of the gradient at a constant score."""
        grad, hess = engine.gradients64(self, y, np.zeros((1, len(y))), np.array([constant]), True)
        return tuple(weighted_mean(column, sample_weight) for column in (grad[0], hess[0], np.abs(grad[0])))

    def survival(self, raw, times):
        """Return the probabilities of shape (n_samples, n_times) that times are larger than those given."""
        with np.errstate(divide="ignore"):
            z = (np.log(times) - np.asarray(raw, dtype=np.float64)[:, None]) / self.scale
        if self.distribution == "normal":
            return ndtr(-z)
        return expit(-z) if self.distribution == "logistic" else np.exp(-np.exp(np.minimum(z, LOG_MEAN_MAX)))
