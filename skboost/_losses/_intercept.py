"""Constants added to raw scores that minimise the mean loss."""

import itertools
import math

import numpy as np

from skboost._engine import losses as engine
from skboost._losses._base import MIN_SHARE, weighted_mean


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
