"""Losses: domain of the target, optimal constant, link, and the calls of the compiled gradients.

Inside the engine raw scores are arrays of shape (n_outputs, n_rows). On the way out, in ``inverse_link``, they have any
leading axes and one trailing axis of length ``n_outputs``, left out when there is one output.

All constants are weighted means from exact integer sums: they depend on no order of rows, and integer weights give the
bits of repeated rows.
"""

import math

import numpy as np

from skboost._engine import losses as engine
from skboost._engine import renewal

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
    n_targets : int
        Number of columns of y.
    constant_hessian : bool
        Whether the second derivative is 1 everywhere.
    leaf_curvature : float
        Constant that multiplies the weights in the denominators of gradient leaves. Steps are stable while the learning
        rate times second derivative over `leaf_curvature` is below 2. It is 1 but for the multinomial log loss and for
        "poisson" and "tweedie", whose second derivatives have no bound: there it is the mean at the base score, once
        ``bind`` has seen it.
    needs_noise_variance : bool
        Whether the loss is a likelihood only after division by a variance or dispersion, the estimators'
        ``noise_variance``.
    predicts_spread : bool
        Whether uncertainties have a part of the data, from ``mean_variance``.
    predicts_distribution : bool
        Whether there is a ``distribution``.
    variance_has_mean : bool
        Whether the mean is a part of the predicted variance, as of counts; the rest is proportional to its square.
    offsets_of_log : bool
        Whether offsets of the first raw score multiply the mean, as with a log link.
    log_link : bool
        Whether predictions are exponentials of raw scores.
    largest_score : float
        Size of raw scores from which on the loss is flat, or no numbers are left.
    renews_leaves : bool
        Whether leaves take a quantile of their residuals instead of a gradient step.
    uncertainty : {"regression", "distribution", "classes", "labels", None}
        How members are decomposed; None where the loss allows none.
    needs_content : bool
        Whether gradients depend on hashes of the rows.
    fits_coins : bool
        Whether the engine corrects predicted deviations by what fitting leaves of coins, 1 or -1, of the rows.
    table : ndarray or None
        What the engine looks up: targets of several columns by their number, or the levels of quantiles.
    """

    name = ""
    kind = -1
    n_outputs = 1
    n_targets = 1
    params = ()
    constant_hessian = False
    leaf_curvature = 1.0
    needs_noise_variance = False
    predicts_spread = False
    predicts_distribution = False
    variance_has_mean = False
    offsets_of_log = False
    log_link = False
    largest_score = LARGEST_TARGET
    renews_leaves = False
    uncertainty = "regression"
    needs_content = False
    fits_coins = False
    table = None

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

    def distribution(self, raw):
        """Return the predicted distributions; the losses that are likelihoods of one have it.

        Raises
        ------
        NotImplementedError
            By the others.
        """
        raise NotImplementedError(f"loss={self.name!r} predicts no distribution.")

    def mean_variance(self, raw):
        """Return (mean, variance) of the predicted distributions in units of the target."""
        predicted = self.distribution(raw)
        return predicted.mean, predicted.variance

    def offset_unit(self, raw):
        """Return the variances of offsets of predicted means, or of their logs, whose raw scores have variance 1."""
        return np.ones(np.shape(raw)[:-1])

    def saturated(self, y):
        """Return the least loss that any score gives each internal target: `mean_loss` less its mean is never negative.

        It is 0 but for the losses with a log link, and minus infinity for "gaussian".
        """
        return np.zeros(len(y))

    def for_rows(self, y, sample_weight=None):
        """Return the loss for a chain that is trained on these rows; only losses that look at all rows at once differ.

        Such a loss, of engine kind "given", has ``write_gradients(score, grad, hess, n_threads)``.
        """
        return self

    def for_chain(self, y, sample_weight, hashes, seed):
        """Return the same for losses whose gradients depend on hashes of the rows, or on random numbers, too.

        With these, ``rows.iteration`` is set before every call of ``write_gradients``.
        """
        return self.for_rows(y, sample_weight)

    def with_targets(self, table):
        """Return the loss with its constants and another table of targets, of losses that number their targets."""
        raise NotImplementedError

    def user_target(self, y):
        """Return targets as the user passed them from validated ones, which may be numbers of a table."""
        return y

    def point(self, predictions):
        """Return what ``predict`` shows of predictions of shape (..., n_outputs) or (...)."""
        return predictions

    def same_as(self, other):
        """Return whether another loss has the same name and constants."""
        mine, theirs = vars(self), vars(other)
        if self.name != other.name or mine.keys() != theirs.keys():
            return False
        return all(np.array_equal(mine[key], theirs[key]) for key in mine)

    def spread(self, y, score, base, sample_weight=None):
        """Return the noise variance of every output that residuals show, for losses that need one."""
        return np.array([2.0 * self.mean_loss(y, score, base, sample_weight)])

    def noise_scales(self, noise_variance):
        """Return factors, one per output, on the noise of rows and of leaves, None when both are its deviation."""
        return None

    def gradients(self, y, score, base, *, hessian):
        """Return (gradient, second derivative or None), float32 of shape (n_outputs, n_rows), for internal targets."""
        return engine.gradients(self, y, score, base, hessian)

    def mean_loss(self, y, score, base, sample_weight=None, n_threads=1):
        """Return the weighted mean loss of internal targets; its bits depend on no order of rows."""
        return engine.weighted_mean_loss(self, y, score, base, sample_weight, n_threads)


def check_magnitude(loss, y, name, largest):
    if (size := float(np.abs(y).max(initial=0.0))) > largest:
        limit = f"{largest:g}".replace("+", "")
        raise ValueError(f"loss={loss!r} requires |{name}| below {limit}, got {size:g}; change the unit of y.")


def check_spread(name, y, largest):
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


def weighted_quantile(values, level, sample_weight=None):
    """Return the averaged inverted distribution function of the values at a level.

    It is the smallest value whose cumulative weight reaches the level, or the mean of it and the next one where it is
    reached exactly: invariant to the scale of the weights, and equal to repeated rows for whole-number weights.
    """
    units = None
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=np.float64)
        exact = np.all(weight == np.floor(weight)) and weight.max() < 2**32
        scale = 1.0 if exact else math.ldexp(1.0, 31 - math.frexp(float(weight.max()))[1])
        units = np.rint(weight * scale).astype(np.uint32)
    return renewal.weighted_quantile(values, units, level)


def number_targets(targets):
    """Return (number of the target of each row, distinct targets in lexicographic order) of a table of targets."""
    targets = np.asarray(targets, dtype=np.float64) + 0.0
    # Sorting column by column takes a tenth of the time of np.unique along rows.
    order = np.lexsort(targets.T[::-1])
    ascending = targets[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (ascending[1:] != ascending[:-1]).any(axis=1)
    numbers = np.empty(len(order))
    numbers[order] = np.cumsum(is_new) - 1
    return numbers, np.ascontiguousarray(ascending[is_new])
