"""Losses of a location, weighted quantiles and renewed leaves from their definitions; no shared code with skboost."""

import numpy as np


def quantile(y, score, levels, factor=1.0):
    """Return (value, grad, hess); a tie has the gradient 0."""
    value, grad = np.zeros(len(y)), np.empty_like(score)
    for k, level in enumerate(levels):
        above = y > score[k]
        value += factor * np.where(above, level * (y - score[k]), (1 - level) * (score[k] - y))
        grad[k] = factor * np.select([above, y < score[k]], [-level, 1 - level], 0.0)
    return value, grad, np.ones_like(score)


def huber(y, score, delta):
    size = np.abs(score[0] - y)
    value = np.where(size <= delta, size**2 / 2, delta * (size - delta / 2))
    grad = np.sign(score[0] - y) * np.minimum(size, delta)
    return value, grad[None], (delta / np.maximum(size, delta))[None]


def pseudo_huber(y, score, delta):
    r = score[0] - y
    root = np.sqrt(1 + (r / delta) ** 2)
    return delta**2 * (root - 1), (r / root)[None], (1 / root)[None]


def expectile(y, score, level):
    r = score[0] - y
    weight = np.where(y > score[0], level, 1 - level)
    return weight * r**2 / 2, (weight * r)[None], weight[None]


def weighted_quantile(values, weights, level):
    """Averaged inverted distribution function by repeating every value; weights are small whole numbers."""
    repeated = np.sort(np.repeat(values, weights))
    return np.quantile(repeated, level, method="averaged_inverted_cdf")
