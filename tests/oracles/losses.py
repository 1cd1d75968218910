"""Losses from their definitions, one row at a time in the mind of the reader: no shared code with skboost.

`score` has shape (n_outputs, n_rows) and includes the base score. Every function returns float64.
"""

from fractions import Fraction

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax


def squared_error(y, score):
    residual = score[0] - y
    return residual**2 / 2, residual[None], np.ones_like(score)


def poisson(y, score):
    mu = np.exp(score)
    return mu[0] - y * score[0], mu - y, mu


def binary(y, score):
    p = expit(score)
    # -log P(y), through the sign of the margin of the true class.
    signed = np.where(y == 1, score[0], -score[0])
    grad = np.where(y == 1, -expit(-score[0]), expit(score[0]))
    return -log_expit(signed), grad[None], p * expit(-score)


def multinomial(y, score):
    p = softmax(score, axis=0)
    rows = np.arange(len(y))
    is_class = np.zeros_like(score)
    is_class[y.astype(int), rows] = 1
    return -log_softmax(score, axis=0)[y.astype(int), rows], p - is_class, p * (1 - p)


def gamma(y, score):
    ratio = y * np.exp(-score)
    return ratio[0] + score[0], 1 - ratio, ratio


def tweedie(y, score, power=1.5):
    mu = np.exp(score)
    value = mu ** (2 - power) / (2 - power) - y * mu ** (1 - power) / (1 - power)
    # d/df = mu d/dmu, twice.
    grad = mu * (mu ** (1 - power) - y * mu**-power)
    return value[0], grad, (2 - power) * mu ** (2 - power) - (1 - power) * y * mu ** (1 - power)


def gaussian(y, score):
    """Plain gradient and Fisher information."""
    mean, log_sd = score
    z = (y - mean) / np.exp(log_sd)
    value = log_sd + z**2 / 2
    grad = np.stack([-z / np.exp(log_sd), 1 - z**2])
    return value, grad, np.stack([np.exp(-2 * log_sd), np.full_like(mean, 2)])


def gaussian_natural(y, score):
    """Natural gradient and the Fisher diagonal."""
    value, grad, fisher = gaussian(y, score)
    return value, grad / fisher, fisher


ALL = {
    "squared_error": squared_error,
    "poisson": poisson,
    "binary": binary,
    "multinomial": multinomial,
    "gaussian": gaussian,
    "gamma": gamma,
    "tweedie": tweedie,
}


def weighted_mean(values, weights=None):
    """Return the weighted mean in rational arithmetic, rounded once."""
    weights = [1.0] * len(values) if weights is None else weights
    total = sum((Fraction(float(w)) for w in weights), Fraction(0))
    return float(sum((Fraction(float(w)) * Fraction(float(v)) for v, w in zip(values, weights, strict=True))) / total)


def base_score(loss, y, n_classes=None):
    """Return the best constant by its textbook formula for rows without weights."""
    if loss == "squared_error":
        return np.array([np.mean(y)])
    if loss in ("poisson", "gamma", "tweedie"):
        return np.array([np.log(np.mean(y))])
    if loss == "binary":
        return np.array([np.log(np.sum(y == 1) / np.sum(y == 0))])
    if loss == "multinomial":
        log_share = np.log([np.mean(y == k) for k in range(n_classes)])
        return log_share - log_share.mean()
    return np.array([np.mean(y), np.log(np.std(y))])
