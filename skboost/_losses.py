"""Losses: domain of the target, optimal constant, link, and the calls of the compiled gradients.

Inside the engine raw scores are arrays of shape (n_outputs, n_rows). On the way out, in ``inverse_link``, they have any
leading axes and one trailing axis of length ``n_outputs``, left out when there is one output.

All constants are weighted means from exact integer sums: they depend on no order of rows, and integer weights give the
bits of repeated rows. A new loss is one class here with its kind in ``_engine/losses``, and one line in ``make_loss``.
"""

import copy
import itertools
import math

import numpy as np
from scipy.special import expit, log_expit, xlogy

from skboost._engine import losses as engine

# Beyond these raw scores the compiled losses stop in exp, and so do the links.
LOG_MEAN_MAX = 30.0
LOG_SD_MAX = 20.0
# Largest log-odds, and largest difference of the raw scores of two classes, that boosting can start from: probabilities
# of 1e-15, beyond which p (1 - p) is lost in the rounding of sums.
LOG_ODDS_MAX = 35.0
LARGEST_TARGET = 1e150
# Below this factor steps of the multinomial loss would no longer be stable at learning rates in use.
LEAST_CURVATURE = 1 / 16
# Share of a class without weight, as in LightGBM: its log stays finite.
MIN_SHARE = 1e-15


class Loss:
    """Base of all losses: one output on the scale of the target.

    Attributes
    ----------
    name : str
        Value of the estimators' parameter ``loss``.
    kind, n_outputs, params : int, int, tuple of float
        What the engine knows of the loss.
    constant_hessian : bool
        Whether the second derivative is 1 everywhere.
    leaf_curvature : float
        Constant that multiplies the weights in the denominators of gradient leaves. Steps are stable while the learning
        rate times second derivative over `leaf_curvature` is below 2. It is 1 but for the multinomial log loss and for
        "poisson", whose second derivative has no bound: there it is the value at the base score, once ``bind`` has seen
        it.
    needs_noise_variance : bool
        Whether the loss is a likelihood only after division by a variance, the estimators' ``noise_variance``.
    predicts_spread : bool
        Whether there is a ``mean_variance``.
    log_link : bool
        Whether predictions are exponentials of raw scores.
    largest_score : float
        Size of raw scores from which on the loss is flat, or no numbers are left.
    """

    name = ""
    kind = -1
    n_outputs = 1
    params = ()
    constant_hessian = False
    leaf_curvature = 1.0
    needs_noise_variance = False
    predicts_spread = False
    log_link = False
    largest_score = LARGEST_TARGET

    def __repr__(self):
        return f"{type(self).__name__}()"

    def check_domain(self, y, name="y"):
        """Raise ValueError where the loss has no finite value for a target; `name` is what the message calls it."""

    def check_target(self, y, sample_weight=None):
        """Raise ValueError where no model can be trained on the target."""

    def bind(self, y, sample_weight=None):
        """Return the loss adapted to the training target; only losses with data-dependent constants differ."""
        return self

    def strata(self, y):
        """Return groups of internal targets of which every training set needs a row, or None.

        Class numbers, or whether targets are above 0 where some are not: only the True ones are needed then.
        """
        return None

    def to_internal(self, y):
        """Return the target that the engine sees, float64 and contiguous."""
        return np.ascontiguousarray(y, dtype=np.float64)

    def base_score(self, y, sample_weight=None):
        """Return the raw scores, of shape (n_outputs,), of the constant that minimises the loss of internal targets."""
        return np.array([weighted_mean(y, sample_weight)])

    def inverse_link(self, raw):
        """Return predictions from raw scores."""
        return np.asarray(raw, dtype=np.float64)

    def saturated(self, y):
        """Return the least loss that any score gives each internal target: `mean_loss` less its mean is never negative.

        It is 0 but for the losses with a log link, and minus infinity for "gaussian".
        """
        return np.zeros(len(y))

    def gradients(self, y, score, base, *, hessian):
        """Return (gradient, second derivative or None), float32 of shape (n_outputs, n_rows), for internal targets."""
        return engine.gradients(self, y, score, base, hessian)

    def mean_loss(self, y, score, base, sample_weight=None, n_threads=1):
        """Return the weighted mean loss of internal targets; its bits depend on no order of rows."""
        return engine.weighted_mean_loss(self, y, score, base, sample_weight, n_threads)


class SquaredError(Loss):
    """Half the squared error; predictions are means."""

    name = "squared_error"
    kind = 0
    constant_hessian = True
    needs_noise_variance = True

    def check_domain(self, y, name="y"):
        _check_magnitude(self.name, y, name, LARGEST_TARGET)

    def check_target(self, y, sample_weight=None):
        # Gradients are single precision, 1e-38 to 3e38, and noise may be a few orders larger or smaller.
        _check_spread(self.name, y, 1e32)


class LogLinkLoss(Loss):
    """Base of the losses of positive means with a log link, where the mean of a target is the best constant.

    Attributes
    ----------
    zero_allowed : bool
        Whether a target may be 0.
    """

    zero_allowed = True
    log_link = True
    largest_score = LOG_MEAN_MAX

    def check_domain(self, y, name="y"):
        sign = ">=" if self.zero_allowed else ">"
        smallest = float(np.min(y, initial=np.inf))
        if smallest < 0 or (smallest == 0 and not self.zero_allowed):
            raise ValueError(f"loss={self.name!r} requires {name} {sign} 0; the smallest target is {smallest:g}.")
        _check_magnitude(self.name, y, name, LARGEST_TARGET)

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

    def inverse_link(self, raw):
        return np.exp(np.clip(raw, -LOG_MEAN_MAX, LOG_MEAN_MAX))


class Poisson(LogLinkLoss):
    """Poisson likelihood of counts or rates with a log link."""

    name = "poisson"
    kind = 1

    def bind(self, y, sample_weight=None):
        bound = copy.copy(self)
        bound.leaf_curvature = weighted_mean(y, sample_weight)
        return bound

    def saturated(self, y):
        return np.asarray(y, dtype=np.float64) - xlogy(y, y)


class Gamma(LogLinkLoss):
    """Gamma likelihood of positive targets whose deviation is proportional to their mean, with a log link."""

    name = "gamma"
    kind = 5
    zero_allowed = False

    def saturated(self, y):
        return 1.0 + np.log(y)


class Tweedie(LogLinkLoss):
    """Tweedie likelihood of targets that are positive or exactly 0, with a log link.

    The variance of a target is proportional to its mean to the `power`, which lies between 1 (Poisson) and 2 (gamma),
    both excluded.
    """

    name = "tweedie"
    kind = 6

    def __init__(self, power=1.5):
        if not 1 < power < 2:
            raise ValueError(f"loss='tweedie' requires a power between 1 and 2, both excluded, got {power!r}.")
        self.power = float(power)
        self.params = (self.power,)

    def __repr__(self):
        return f"{type(self).__name__}(power={self.power!r})"

    def saturated(self, y):
        factor = 1 / (self.power - 1) + 1 / (2 - self.power)
        return factor * np.power(np.asarray(y, dtype=np.float64), 2 - self.power)


class BinaryLogLoss(Loss):
    """Log loss of two classes; the raw score is the log-odds of class 1, predictions are both probabilities."""

    name = "log_loss"
    kind = 2
    largest_score = LOG_ODDS_MAX

    def strata(self, y):
        return y

    def base_score(self, y, sample_weight=None):
        # Two logarithms rather than that of the odds: swapping the labels negates the base score exactly.
        if sample_weight is None:
            ones = np.count_nonzero(y) / len(y)
            zeros = (len(y) - np.count_nonzero(y)) / len(y)
        else:
            ones = weighted_mean(y, sample_weight)
            zeros = weighted_mean(1.0 - np.asarray(y, dtype=np.float64), sample_weight)
        return np.array([math.log(max(ones, MIN_SHARE)) - math.log(max(zeros, MIN_SHARE))])

    def inverse_link(self, raw):
        raw = np.asarray(raw, dtype=np.float64)
        return np.stack([expit(-raw), expit(raw)], axis=-1)

    def log_inverse_link(self, raw):
        """Return the logarithms of the predictions, finite also where these round to 0."""
        raw = np.asarray(raw, dtype=np.float64)
        return np.stack([log_expit(-raw), log_expit(raw)], axis=-1)


class MultinomialLogLoss(Loss):
    """Log loss of three or more classes; one raw score per class, predictions are softmax probabilities.

    The base score is centred: log shares of the classes less their mean. With many classes the second derivatives
    p (1 - p) are small, and gradient steps of the weights alone would be too short: their denominators are scaled by
    twice the value at equal shares.
    """

    name = "log_loss"
    kind = 3
    largest_score = LOG_ODDS_MAX

    def __init__(self, n_classes):
        self.n_outputs = n_classes
        share = 1 / n_classes
        self.leaf_curvature = max(2 * share * (1 - share), LEAST_CURVATURE)

    def __repr__(self):
        return f"{type(self).__name__}(n_classes={self.n_outputs})"

    def strata(self, y):
        return y

    def base_score(self, y, sample_weight=None):
        weight = class_weights(np.asarray(y), sample_weight, self.n_outputs)
        log_share = np.log(np.maximum(weight / weight.sum(), MIN_SHARE))
        return log_share - log_share.mean()

    def inverse_link(self, raw):
        raw = np.asarray(raw, dtype=np.float64)
        p = np.exp(raw - raw.max(axis=-1, keepdims=True))
        p /= _sum_of_classes(p)
        return p

    def log_inverse_link(self, raw):
        """Return the logarithms of the predictions, finite also where these round to 0."""
        raw = np.asarray(raw, dtype=np.float64)
        log_p = raw - raw.max(axis=-1, keepdims=True)
        log_p -= np.log(_sum_of_classes(np.exp(log_p)))
        return log_p


class Gaussian(Loss):
    """Negative log-likelihood of a normal distribution; the outputs are its mean and the log of its standard deviation.

    Raw scores live on the standardised target (y - centre) / scale. The scale is a power of two just below the standard
    deviation, so multiplying the target by a power of two multiplies the predictions by it, bit for bit. Predicted
    standard deviations are clamped to 2e-9 and 5e8 times the scale, where the log standard deviation is -20 and 20.
    """

    name = "gaussian"
    kind = 4
    n_outputs = 2
    predicts_spread = True

    def __init__(self, centre=0.0, scale=1.0):
        self.centre = centre
        self.scale = scale

    def __repr__(self):
        return f"{type(self).__name__}(centre={self.centre!r}, scale={self.scale!r})"

    def check_domain(self, y, name="y"):
        _check_magnitude(self.name, y, name, 1e140)

    def check_target(self, y, sample_weight=None):
        # Predicted variances, up to (5e8 scale)^2, are finite.
        _check_spread(self.name, y, 1e140)
        self.check_domain(y)

    def bind(self, y, sample_weight=None):
        centre, deviation = mean_and_deviation(y, sample_weight)
        size = float(np.abs(y).max(initial=0.0))
        if deviation <= 4 * np.finfo(np.float64).eps * size:
            # A constant target up to rounding.
            deviation = 2.0**-26 * (size or 1.0)
        return Gaussian(centre, math.ldexp(1.0, math.frexp(deviation)[1] - 1))

    def to_internal(self, y):
        return (np.ascontiguousarray(y, dtype=np.float64) - self.centre) / self.scale

    def base_score(self, y, sample_weight=None):
        mean, deviation = mean_and_deviation(y, sample_weight)
        return np.array([mean, math.log(deviation) if deviation > 2.0**-20 else 0.0])

    def inverse_link(self, raw):
        return self.mean_variance(raw)[0]

    def saturated(self, y):
        return np.full(len(y), -np.inf)

    def mean_variance(self, raw):
        """Return (mean, variance) of the predicted distributions in units of the target."""
        raw = np.asarray(raw, dtype=np.float64)
        deviation = np.exp(np.clip(raw[..., 1], -LOG_SD_MAX, LOG_SD_MAX)) * self.scale
        return self.centre + self.scale * raw[..., 0], deviation * deviation


def _sum_of_classes(p):
    # Accumulation adds in class order whatever the memory layout; a plain sum does not.
    return np.add.accumulate(p, axis=-1)[..., -1:]


def _check_magnitude(loss, y, name, largest):
    if (size := float(np.abs(y).max(initial=0.0))) > largest:
        limit = f"{largest:g}".replace("+", "")
        raise ValueError(f"loss={loss!r} requires |{name}| below {limit}, got {size:g}; change the unit of y.")


def _check_spread(name, y, largest):
    """Raise ValueError unless the targets are equal or their range lies between 1 / largest and largest."""
    y = np.asarray(y, dtype=np.float64)
    if y.size == 0:
        return
    # Halves, since the range itself may overflow.
    spread = 0.5 * float(y.max()) - 0.5 * float(y.min())
    if spread > 0 and not 1 / largest < spread < largest:
        raise ValueError(
            f"loss={name!r} requires a y whose range (maximum less minimum) is 0 or between {2 / largest:g} and "
            f"{2 * largest:g}, got {2 * spread:g}; change the unit of y."
        )


def make_loss(name, n_classes=None, power=1.5):
    """Return the loss of a name.

    Parameters
    ----------
    name : {"squared_error", "gaussian", "poisson", "gamma", "tweedie", "log_loss"}
        Value of the estimators' parameter ``loss``.
    n_classes : int, default=None
        Number of classes, at least 2; for "log_loss" only.
    power : float, default=1.5
        Power of the mean that the variance of "tweedie" follows, above 1 and below 2; other losses have no use for it.

    Returns
    -------
    Loss
    """
    if name == "log_loss":
        if n_classes is None or n_classes < 2:
            raise ValueError(f"loss='log_loss' needs at least 2 classes, got {n_classes}.")
        return BinaryLogLoss() if n_classes == 2 else MultinomialLogLoss(n_classes)
    regression = {loss.name: loss for loss in (SquaredError, Gaussian, Poisson, Gamma, Tweedie)}
    if name not in regression:
        raise ValueError(f"loss must be one of {[*regression, 'log_loss']}, got {name!r}.")
    if n_classes is not None:
        raise ValueError(f"loss={name!r} knows no classes.")
    return Tweedie(power) if name == "tweedie" else regression[name]()


def fit_intercept(loss, y, offset=None, sample_weight=None):
    """Return the constants that minimise the weighted mean loss when they are added to raw scores.

    Parameters
    ----------
    loss : Loss
        Any loss but "gaussian".
    y : ndarray of shape (n_rows,)
        Internal targets.
    offset : ndarray of shape (n_outputs, n_rows), default=None
        Raw scores of the rows, any finite numbers; None stands for zeros.
    sample_weight : ndarray of shape (n_rows,), default=None
        Weights of the rows, at least 0.

    Returns
    -------
    ndarray of shape (n_outputs,)
        There the mean gradient is below 1e-12 of the mean absolute gradient, or as small as rounding allows. All sums
        are exact, so the bits depend on no order of rows. The constants of the multinomial loss sum to 0.
    """
    if offset is None:
        return loss.base_score(y, sample_weight)
    offset = np.ascontiguousarray(offset, dtype=np.float64)
    if loss.constant_hessian:
        return np.array([weighted_mean(y - offset[0], sample_weight)])
    find = _newton_of_classes if loss.n_outputs > 1 else _newton
    return find(loss, y, offset, sample_weight)


# Most steps for the constants of classes, and the longest first one; about 6 steps do where no offset is large.
MOST_STEPS = 500
FIRST_RADIUS = 4.0
# From this step on every second one halves the bounds of a constant, so that their number is bounded.
HALVING_FROM = 20


def _is_solved(loss, mean_gradient, mean_size):
    # The best constant of a class without rows lies at infinity.
    return abs(mean_gradient) <= max(1e-12 * mean_size, 1.5 * MIN_SHARE if loss.name == "log_loss" else 0.0)


def _newton(loss, y, offset, sample_weight):
    """Return the root of the mean gradient by Newton steps between bounds of the root, halved where these go astray."""
    base = loss.base_score(y, sample_weight)[0]
    present = offset[0] if sample_weight is None else offset[0][np.asarray(sample_weight) > 0]
    # The mean gradient rises with every raw score, and it is 0 where all of them are the base score.
    low, high = base - present.max(), base - present.min()
    constant = min(max(base, low), high)
    for count in itertools.count():
        grad, hess = engine.gradients64(loss, y, offset, np.array([constant]), True)
        g, h = weighted_mean(grad[0], sample_weight), weighted_mean(hess[0], sample_weight)
        if _is_solved(loss, g, weighted_mean(np.abs(grad[0]), sample_weight)):
            break
        low, high = (low, constant) if g > 0 else (constant, high)
        moved = constant - g / h if h > 0 else math.inf
        if not low < moved < high or (count >= HALVING_FROM and count % 2):
            moved = 0.5 * low + 0.5 * high
        if not low < moved < high:
            break
        constant = moved
    return np.array([constant])


def _newton_of_classes(loss, y, offset, sample_weight):
    """Return the roots of the mean gradients of all classes by damped Newton steps of bounded length.

    The mean gradient over `radius` is added to the second derivatives, so that no step is longer than the radius,
    however flat the loss is. Radii grow while steps succeed; near the root the addition vanishes with the gradient.
    """
    constant, radius = loss.base_score(y, sample_weight), FIRST_RADIUS
    here = _Point(loss, y, offset, constant, sample_weight)
    hessian = None
    for _ in range(MOST_STEPS):
        if here.is_solved:
            break
        if hessian is None:
            hessian = _hessian_of_classes(y, here.grad, sample_weight)
        damped = hessian + (here.length / radius) * np.eye(loss.n_outputs)
        step = _solve(damped, -here.mean)
        if np.abs(step).max() <= 1e-17 or np.array_equal(constant + step, constant):
            break
        there = _Point(loss, y, offset, constant + step, sample_weight)
        if there.is_better(here, -math.fsum(here.mean * step)):
            constant, here, hessian, radius = constant + step, there, None, 2 * radius
        else:
            radius = 0.25 * min(radius, float(np.abs(step).max()))
    return constant - constant.mean()


class _Point:
    """Mean loss and mean gradients of all classes at some constants."""

    def __init__(self, loss, y, offset, constant, sample_weight):
        self.grad, _ = engine.gradients64(loss, y, offset, constant, False)
        self.mean = np.array([weighted_mean(of_class, sample_weight) for of_class in self.grad])
        self.length = math.sqrt(math.fsum(self.mean * self.mean))
        self.value = loss.mean_loss(y, offset, constant, sample_weight)
        sizes = [weighted_mean(np.abs(of_class), sample_weight) for of_class in self.grad]
        self.is_solved = all(_is_solved(loss, *of_class) for of_class in zip(self.mean, sizes, strict=True))

    def is_better(self, before, slope):
        """Return whether the step from `before` succeeded; `slope` is what its start lets one expect of it."""
        if slope > 1e-12 * (1 + before.value):
            return before.value - self.value >= 0.1 * slope
        # The loss no longer shows so small a gain, the gradient does.
        return slope > 0 and self.length < before.length


def _hessian_of_classes(y, grad, sample_weight):
    n_classes = len(grad)
    p = grad.copy()
    p[y.astype(np.intp), np.arange(len(y))] += 1.0
    hessian = np.empty((n_classes, n_classes))
    for j in range(n_classes):
        for k in range(j + 1):
            hessian[j, k] = hessian[k, j] = -weighted_mean(p[j] * p[k], sample_weight)
    np.fill_diagonal(hessian, 0.0)
    np.fill_diagonal(hessian, -hessian.sum(axis=1))
    # It does not see a shift of all classes; adding one gives the step of mean 0.
    return hessian + hessian.trace() / n_classes**2


def _solve(matrix, right):
    """Solve a positive definite system by elimination in a fixed order: the same bits with any BLAS."""
    n = len(right)
    table = np.column_stack([matrix, right])
    least = np.finfo(np.float64).eps * np.diagonal(matrix)
    for k in range(n):
        table[k, k] = max(table[k, k], least[k])
        table[k + 1 :] -= (table[k + 1 :, k] / table[k, k])[:, None] * table[k]
    solution = np.zeros(n)
    for k in reversed(range(n)):
        solution[k] = (table[k, n] - math.fsum(table[k, :n][k + 1 :] * solution[k + 1 :])) / table[k, k]
    return solution


def weighted_mean(values, sample_weight=None):
    """Return the weighted mean from exact integer sums."""
    values = np.ascontiguousarray(values, dtype=np.float64)
    if sample_weight is not None:
        sample_weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
    return engine.weighted_mean(values, sample_weight)


def mean_and_deviation(y, sample_weight=None):
    """Return the weighted mean and population standard deviation."""
    y = np.asarray(y, dtype=np.float64)
    mean = weighted_mean(y, sample_weight)
    return mean, math.sqrt(weighted_mean(np.square(y - mean), sample_weight))


def class_weights(y, sample_weight, n_classes):
    """Return the total weight of every class, exact for integer weights and free of order for all."""
    codes = y.astype(np.intp)
    if sample_weight is None or len(codes) == 0:
        return np.bincount(codes, minlength=n_classes).astype(np.float64)
    # On a grid this coarse no sum of the rows needs more than 53 bits.
    weight = np.asarray(sample_weight, dtype=np.float64)
    bits = 53 - math.frexp(float(weight.max()) * len(weight))[1]
    on_grid = np.rint(np.ldexp(weight, bits))
    return np.ldexp(np.bincount(codes, weights=on_grid, minlength=n_classes), -bits)
