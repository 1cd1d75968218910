"""What leaves without training rows add to the uncertainty that members show.

The step of such a leaf keeps its prior: a normal variate of known variance. So the raw score of a row is that of a
member plus a normal offset of variance V. Decompositions here are over members and offsets together; where V is 0 they
are those over the members, bit for bit.
"""

import numpy as np
from scipy.special import ndtri

from skboost import _uncertainty
from skboost._engine.langevin import leaf_normals
from skboost._uncertainty import Decomposition

# Offsets of a score: the middle quantiles of as many equal parts of the normal law, scaled to variance 1.
N_QUANTILES = 16
# Offset vectors of several scores: drawn once for all, each with its negative, every score scaled to variance 1.
N_VECTORS = 32
# Rows whose offsets are looked at together.
BLOCK_ROWS = 4096
# Largest exponent of a mean with log link that stays finite.
LARGEST_EXPONENT = 700.0


def decompose(loss, raw, variance, scale=None):
    """Decompose the raw scores of the members of a chain.

    Parameters
    ----------
    loss : Loss
        That of the chain.
    raw : ndarray of shape (n_members, n_samples, n_outputs)
        Raw scores.
    variance : ndarray of shape (n_samples,)
        Variance of the offsets of raw scores.
    scale : float, ndarray of shape (n_outputs,) or None, default=None
        Unit of `variance` in squared units of what ``predict`` shows; None is 1.

    Returns
    -------
    Decomposition
        Entropies of classes or labels, else variances.

    Raises
    ------
    ValueError
        If the loss has no decomposition.
    """
    if loss.uncertainty is None:
        raise ValueError(f"predict_uncertainty has no decomposition for loss={loss.name!r}.")
    if loss.uncertainty == "labels":
        return _labels(raw, variance)
    if loss.uncertainty == "classes":
        return binary(raw[..., 0], variance) if loss.n_outputs == 1 else multinomial(raw, variance)
    if loss.predicts_spread:
        return _of_distributions(loss, raw, variance)
    if scale is not None:
        scale = np.asarray(scale, dtype=np.float64)
        variance = loss.point(variance[:, None] * scale) if scale.ndim else variance * scale
    predictions = loss.point(loss.inverse_link(raw[..., 0] if loss.n_outputs == 1 else raw))
    return log_link(predictions, variance) if loss.log_link else regression(predictions, variance)


def _of_distributions(loss, raw, variance):
    """Decompose members that predict distributions; noise on a mean is measured in units that differ between rows."""
    moments, variance = loss.mean_variance(raw), variance.copy()
    touched = np.flatnonzero(variance)
    variance[touched] *= loss.offset_unit(raw[:, touched]).mean(axis=0)
    if loss.offsets_of_log:
        return distribution_of_log(*moments, variance, has_mean=loss.variance_has_mean)
    return distribution(*moments, variance)


def _labels(raw, variance):
    """Decompose the log-odds of several labels, each for itself."""
    labels = [binary(raw[..., k], variance) for k in range(raw.shape[-1])]
    mean = np.stack([parts.mean[:, 1] for parts in labels], axis=1)
    return Decomposition(mean, *(np.stack([part[i] for part in labels], axis=1) for i in range(1, 4)))


def regression(members, variance):
    """Decompose predictions whose link is the identity.

    Parameters
    ----------
    members : array-like of shape (n_members, n_samples)
        Predictions.
    variance : ndarray of shape (n_samples,)
        Variance of the offsets, in squared units of the predictions.

    Returns
    -------
    Decomposition
        As of ``skboost._uncertainty.regression``.
    """
    parts = _uncertainty.regression(members)
    return parts._replace(knowledge=parts.knowledge + variance)


def log_link(means, variance):
    """Decompose predictions whose link is the log, offsets being added to their logs.

    Parameters
    ----------
    means : array-like of shape (n_members, n_samples)
        Predictions, above 0.
    variance : ndarray of shape (n_samples,)
        Variance of the offsets.

    Returns
    -------
    Decomposition
        Mean and variance over members and log-normal factors, in closed form; ``data`` and ``total`` are None.
    """
    means = np.asarray(means, dtype=np.float64)
    parts = _uncertainty.regression(means)
    touched = np.flatnonzero(variance > 0)
    if not len(touched):
        return parts
    mean, knowledge = parts.mean, parts.knowledge.copy()
    v = variance[touched]
    largest = np.log(means[:, touched].max(axis=0))
    # beyond the largest number there is nothing to tell apart
    v = np.minimum(v, LARGEST_EXPONENT / 2 - np.maximum(largest, 0))
    mean[touched] *= np.exp(v / 2)
    # E[exp(z)]^2 = exp(v), E[exp(2 z)] = exp(2 v), without their difference where v is small
    knowledge[touched] = np.exp(2 * v) * knowledge[touched] + np.expm1(v) * mean[touched] ** 2
    return Decomposition(mean, np.maximum(knowledge, parts.knowledge), None, None)


def distribution(means, variances, variance):
    """Decompose predicted distributions whose means are on the scale of the raw scores.

    Parameters
    ----------
    means, variances : array-like of shape (n_members, n_samples)
        As of ``skboost._uncertainty.gaussian``.
    variance : ndarray of shape (n_samples,)
        Variance of the offsets of the means, in squared units of the target.

    Returns
    -------
    Decomposition
        As of ``skboost._uncertainty.gaussian``.
    """
    parts = _uncertainty.gaussian(means, variances)
    knowledge = parts.knowledge + variance
    return parts._replace(knowledge=knowledge, total=parts.data + knowledge)


def distribution_of_log(means, variances, variance, *, has_mean):
    """Decompose predicted distributions of positive targets, offsets being added to the logs of their means.

    Parameters
    ----------
    means, variances : array-like of shape (n_members, n_samples)
        Of the members.
    variance : ndarray of shape (n_samples,)
        Variance of the offsets.
    has_mean : bool
        Whether the mean is a part of the predicted variance, whose rest grows with the square of the mean.

    Returns
    -------
    Decomposition
        `mean` and `knowledge` as of `log_link`, `data` the mean of the variances over members and offsets.
    """
    parts = log_link(means, variance)
    spread = _uncertainty.gaussian(means, variances)
    data, touched = spread.data, np.flatnonzero(variance > 0)
    if len(touched):
        largest = np.log(np.asarray(variances)[:, touched].max(axis=0))
        v = np.minimum(variance[touched], (LARGEST_EXPONENT - np.maximum(largest, 0)) / 2)
        linear = spread.mean[touched] if has_mean else 0.0
        data[touched] = linear * np.exp(v / 2) + (data[touched] - linear) * np.exp(2 * v)
    return Decomposition(parts.mean, parts.knowledge, data, data + parts.knowledge)


def binary(margins, variance):
    """Decompose the log-odds of two classes.

    Parameters
    ----------
    margins : array-like of shape (n_members, n_samples)
        Log-odds of class 1.
    variance : ndarray of shape (n_samples,)
        Variance of the offsets.

    Returns
    -------
    Decomposition
        As of ``skboost._uncertainty.binary``; `mean` includes the offsets.
    """
    quantiles = ndtri((np.arange(N_QUANTILES) + 0.5) / N_QUANTILES)
    return _with_offsets(_uncertainty.binary, margins, variance, _of_variance_one(quantiles))


def multinomial(margins, variance):
    """Decompose the raw scores of several classes, whose offsets are independent.

    Parameters
    ----------
    margins : array-like of shape (n_members, n_samples, n_classes)
        Raw scores.
    variance : ndarray of shape (n_samples,)
        Variance of the offsets of every class.

    Returns
    -------
    Decomposition
        As of ``skboost._uncertainty.multinomial``; `mean` includes the offsets.
    """
    vectors = np.empty((np.shape(margins)[2], N_VECTORS // 2))
    for k, row in enumerate(vectors):
        leaf_normals(0, 0, 0, k, row)
    offsets = np.stack([_of_variance_one(np.concatenate([row, -row])) for row in vectors], axis=1)
    return _with_offsets(_uncertainty.multinomial, margins, variance, offsets)


def _of_variance_one(values):
    total = 0.0
    for value in values.tolist():  # in order: NumPy sums in vectors, as wide as the processor has them
        total += value * value
    return values / np.sqrt(total / len(values))


def _with_offsets(decompose, margins, variance, offsets):
    """Decompose the margins of all members with all offsets; offsets are (n,) or (n, n_classes)."""
    margins = np.asarray(margins, dtype=np.float64)
    parts = decompose(margins)
    touched = np.flatnonzero(variance > 0)
    for start in range(0, len(touched), BLOCK_ROWS):
        rows = touched[start : start + BLOCK_ROWS]
        deviation = np.sqrt(variance[rows])
        if offsets.ndim == 1:
            moved = margins[:, None, rows] + offsets[:, None] * deviation
        else:
            moved = margins[:, None, rows] + offsets[:, None, :] * deviation[:, None]
        found = decompose(moved.reshape(-1, *moved.shape[2:]))
        for whole, part in zip(parts, found, strict=True):
            whole[rows] = part
    return parts
