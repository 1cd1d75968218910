"""Uncertainty from members: which states of a chain are members, and what part of their spread is knowledge.

Decompositions run over blocks of rows, so temporaries stay in cache, and add members and classes one after another, so
the result of a row depends on no other row. The split is that of A. Malinin, L. Prokhorenkova and A. Ustimenko,
Uncertainty in Gradient Boosting via Ensembles, arXiv 2006.10562, section 3; but knowledge is a sum of terms that cannot
be negative, where a difference of two entropies would lose all digits of a small value.
"""

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

# Values of all members in one block of rows: 1 MB.
BLOCK_VALUES = 1 << 17
# Below this |u| phi(u) comes from its series, free of cancellation.
SERIES_BELOW = 1e-3
# phi(-1) = 1 comes out of the plain formula at this argument, where log1p is finite.
NEAREST_TO_MINUS_ONE = -1.0 + 2.0**-53
# Sums of probabilities in single precision over many classes stay within this of 1.
SUM_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class Uncertainty:
    """Predictions with their uncertainty, split by cause.

    Returned by every ``predict_uncertainty``. Regression reports variances in units of y squared, classification
    entropies in nats. ``total`` equals ``data + knowledge`` exactly.

    Parameters
    ----------
    mean : ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_outputs)
        Mean of the members' predictions; probabilities for classification.
    knowledge : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        What the model does not know: the variance of the members' means, or the mutual information between label and
        member. Never negative, 0 where all members agree.
    data : ndarray of shape (n_samples,) or None
        Noise that no amount of data removes: the mean of the members' variances or entropies. None when the loss
        predicts no spread.
    total : ndarray of shape (n_samples,) or None
        Sum of ``data`` and ``knowledge``, None with ``data``.
    support : ndarray of shape (n_samples,) or None, default=None
        Share of the model that has seen data at the sample: of the trees whose leaf holds training rows. 1 on training
        rows. None where the model cannot say.
    member_iterations : ndarray of shape (n_members,) or None, default=None
        Number of iterations behind each member of a virtual ensemble, None when members are separate models.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import Uncertainty
    >>> knowledge, data = np.array([0.25, 1.0]), np.array([0.5, 0.5])
    >>> result = Uncertainty(np.array([2.0, 3.0]), knowledge, data, data + knowledge)
    >>> result
    Uncertainty(n_samples=2; averages: knowledge=0.625, data=0.5, total=1.125)
    >>> result.total
    array([0.75, 1.5 ])
    """

    mean: np.ndarray
    knowledge: np.ndarray
    data: np.ndarray | None
    total: np.ndarray | None
    support: np.ndarray | None = None
    member_iterations: np.ndarray | None = None

    def __repr__(self):
        parts = [f"n_samples={len(self.mean)}"]
        if self.mean.ndim == 2:
            parts.append(f"{'n_outputs' if self.knowledge.ndim == 2 else 'n_classes'}={self.mean.shape[1]}")
        if self.member_iterations is not None:
            parts.append(f"n_members={len(self.member_iterations)}")
        averages = [f"{name}={column.mean():.4g}" for name, column in self._columns() if name != "mean" and len(column)]
        summary = f"; averages: {', '.join(averages)}" if averages else ""
        return f"{type(self).__name__}({', '.join(parts)}{summary})"

    def to_frame(self):
        """Return a pandas data frame with one row per sample.

        Columns are ``mean``, ``knowledge``, and those of ``data``, ``total`` and ``support`` that are not None. One
        with a column per class or output becomes ``mean_0``, ``mean_1``, ...

        Returns
        -------
        pandas.DataFrame
            The columns above, in this order.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Uncertainty.to_frame needs pandas; install it or read the attributes.") from error
        columns = {}
        for name, column in self._columns():
            columns |= {name: column} if column.ndim == 1 else {f"{name}_{k}": of for k, of in enumerate(column.T)}
        return pd.DataFrame(columns)

    def _columns(self):
        for name in ("mean", "knowledge", "data", "total", "support"):
            column = getattr(self, name)
            if column is not None:
                yield name, column


class Decomposition(NamedTuple):
    """What the members say of each sample; the first fields of `Uncertainty`."""

    mean: np.ndarray
    knowledge: np.ndarray
    data: np.ndarray | None
    total: np.ndarray | None


def check_n_members(n_members):
    """Return ``n_members`` as an int, or raise ValueError."""
    if isinstance(n_members, (bool, np.bool_)) or not isinstance(n_members, Integral) or n_members < 1:
        raise ValueError(f"n_members must be an integer in the range [1, inf), got {n_members!r}.")
    return int(n_members)


def member_schedule(n_iter, n_members):
    """Return the iteration counts of the members of a virtual ensemble.

    Members are prefixes of one chain, evenly spaced over its second half; the last is the whole chain.

    Parameters
    ----------
    n_iter : int
        Iterations of the model.
    n_members : int
        Number of members, at least 1 and at most ``n_iter // 2``.

    Returns
    -------
    ndarray of shape (n_members,)
        Increasing counts, int64.

    Raises
    ------
    ValueError
        If ``n_members`` is not an integer of at least 1, or the model has fewer than ``2 * n_members`` iterations.

    Examples
    --------
    >>> from skboost._uncertainty import member_schedule
    >>> member_schedule(100, 5)
    array([ 60,  70,  80,  90, 100])
    """
    n_members = check_n_members(n_members)
    period = n_iter // (2 * n_members)
    if period == 0:
        raise ValueError(f"n_members={n_members} needs at least {2 * n_members} iterations, the model has {n_iter}.")
    return n_iter - period * np.arange(n_members - 1, -1, -1, dtype=np.int64)


def cycle_ends(n_iter, cycle_length):
    """Return the iteration counts at the ends of the complete cycles of a cyclical chain, int64."""
    # min: a cycle may be longer than the largest int64
    return np.arange(1, n_iter // cycle_length + 1, dtype=np.int64) * min(cycle_length, n_iter)


def cycle_member_schedule(n_iter, cycle_length, n_members=None):
    """Return the iteration counts of the members of a cyclical chain: the states at the ends of complete cycles.

    Parameters
    ----------
    n_iter : int
        Iterations of the model.
    cycle_length : int
        Iterations of a cycle.
    n_members : int, default=None
        Number of members, the last ones of all; None takes all.

    Returns
    -------
    ndarray of shape (n_members,)
        Increasing counts, int64.

    Raises
    ------
    ValueError
        If ``n_members`` is neither None nor an integer of at least 1, or the model has fewer complete cycles.

    Warns
    -----
    UserWarning
        If the model has a single complete cycle: one member knows no spread.

    Examples
    --------
    >>> from skboost._uncertainty import cycle_member_schedule
    >>> cycle_member_schedule(120, 50)
    array([ 50, 100])
    """
    wanted = None if n_members is None else check_n_members(n_members)
    ends = cycle_ends(n_iter, cycle_length)
    if not len(ends):
        raise ValueError(
            "The members of a cyclical schedule are the ends of complete cycles, but the model has "
            f"{n_iter} iterations and cycle_length={cycle_length}; fit more iterations or shorten cycle_length."
        )
    if wanted is not None and wanted > len(ends):
        raise ValueError(
            f"n_members={wanted} needs {wanted} complete cycles of cycle_length={cycle_length}, that is "
            f"{wanted * cycle_length} iterations; the model has {len(ends)} in {n_iter}. Reduce n_members."
        )
    if len(ends) < 2:
        warnings.warn(
            f"The model has a single complete cycle of cycle_length={cycle_length} in {n_iter} iterations, so there is "
            "one member and its knowledge uncertainty is 0; fit two cycles or more.",
            UserWarning,
            stacklevel=5,
        )
    return ends if wanted is None else ends[-wanted:]


def regression(members):
    """Decompose predictions that carry no spread of their own.

    Parameters
    ----------
    members : array-like of shape (n_members, n_samples) or (n_members, n_samples, n_outputs)
        Predictions on the scale of the target.

    Returns
    -------
    Decomposition
        Mean and population variance over members; ``data`` and ``total`` are None.
    """
    if np.ndim(members) == 3:
        members = np.asarray(members, dtype=np.float64)
        flat = regression(members.reshape(len(members), -1))
        return Decomposition(
            flat.mean.reshape(members.shape[1:]), flat.knowledge.reshape(members.shape[1:]), None, None
        )
    members = _as_members(members, 2)
    mean, knowledge = np.empty(members.shape[1]), np.empty(members.shape[1])
    for rows in _blocks(members.shape[1], len(members)):
        block = _finite(members[:, rows])
        # Offsets from the first member: exact for equal members, and a large common level costs no digits.
        offset = block - block[0]
        offset_mean = _mean(offset)
        mean[rows] = block[0] + offset_mean
        offset -= offset_mean
        offset *= offset
        knowledge[rows] = _mean(offset)
    return Decomposition(mean, knowledge, None, None)


def gaussian(means, variances):
    """Decompose predicted distributions given by their means and variances.

    Parameters
    ----------
    means, variances : array-like of shape (n_members, n_samples)
        On the scale of the target and of its square.

    Returns
    -------
    Decomposition
        ``knowledge`` is the variance of the means, ``data`` the mean of the variances.
    """
    variances = _as_members(variances, 2)
    if variances.shape != np.shape(means):
        raise ValueError(f"means have shape {np.shape(means)} but variances {variances.shape}.")
    mean, knowledge, _, _ = regression(means)
    data = np.empty_like(mean)
    for rows in _blocks(len(data), len(variances)):
        data[rows] = _mean(_finite(variances[:, rows]))
    return Decomposition(mean, knowledge, data, data + knowledge)


def binary(margins):
    """Decompose the log-odds of two classes.

    Parameters
    ----------
    margins : array-like of shape (n_members, n_samples)
        Log-odds of class 1.

    Returns
    -------
    Decomposition
        ``mean`` has shape (n_samples, 2); entropies in nats.
    """
    margins = _as_members(margins, 2)
    n = margins.shape[1]
    mean, knowledge, data = np.empty((n, 2)), np.empty(n), np.empty(n)
    for rows in _blocks(n, len(margins)):
        z = _finite(margins[:, rows])
        size = np.abs(z)
        rare = np.exp(-size)  # odds of the less likely class
        entropy = np.log1p(rare)
        likely = 1.0 / (1.0 + rare)
        rare *= likely
        size *= rare
        entropy += size
        data[rows] = _mean(entropy)
        positive = z > 0
        p = np.where(positive, likely, rare), np.where(positive, rare, likely)
        one, zero = (_class_knowledge(p_class) for p_class in p)
        mean[rows, 1], mean[rows, 0] = one[0], zero[0]
        knowledge[rows] = one[1] + zero[1]
    return Decomposition(mean, knowledge, data, data + knowledge)


def multinomial(margins):
    """Decompose the raw scores of several classes.

    Parameters
    ----------
    margins : array-like of shape (n_members, n_samples, n_classes)
        Raw scores; a shift common to all classes of a member changes nothing.

    Returns
    -------
    Decomposition
        ``mean`` has shape (n_samples, n_classes); entropies in nats.
    """
    margins = _as_members(margins, 3)
    n_members, n, n_classes = margins.shape
    mean, knowledge, data = np.empty((n, n_classes)), np.empty(n), np.empty(n)
    for rows in _blocks(n, n_members * n_classes):
        log_p = _finite(np.ascontiguousarray(margins[:, rows].transpose(2, 0, 1)))  # classes first
        log_p -= log_p.max(axis=0)
        p = np.exp(log_p)
        normaliser = _sum(p)
        p /= normaliser
        log_p -= np.log(normaliser)
        log_p *= p
        data[rows] = _mean(0.0 - _sum(log_p))
        block_knowledge = np.zeros(p.shape[2])
        for k in range(n_classes):
            mean[rows, k], class_knowledge = _class_knowledge(p[k])
            block_knowledge += class_knowledge
        knowledge[rows] = block_knowledge
    return Decomposition(mean, knowledge, data, data + knowledge)


def categorical(probabilities):
    """Decompose class probabilities, for models that give no raw scores.

    Parameters
    ----------
    probabilities : array-like of shape (n_members, n_samples, n_classes)
        At least 0, summing to 1 over the classes.

    Returns
    -------
    Decomposition
        ``mean`` has shape (n_samples, n_classes); entropies in nats. Where the probability of a class is 0 in some
        members or in all, its terms have their limits.
    """
    probabilities = _as_members(probabilities, 3)
    n_members, n, n_classes = probabilities.shape
    mean, knowledge, data = np.empty((n, n_classes)), np.zeros(n), np.empty(n)
    for rows in _blocks(n, n_members * n_classes):
        p = _finite(np.array(probabilities[:, rows].transpose(2, 0, 1), order="C"))  # a copy, classes first
        if p.size and (p.min() < 0 or np.abs(_sum(p) - 1.0).max() > SUM_TOLERANCE):
            raise ValueError("Members contain rows that are no probabilities: negative, or with a sum other than 1.")
        data[rows] = _mean(0.0 - _sum(xlogy(p, p)))
        for k in range(n_classes):
            mean[rows, k], class_knowledge = _class_knowledge(p[k])
            knowledge[rows] += class_knowledge
    # A probability of 1 up to rounding may exceed it, and its entropy be below 0.
    np.maximum(data, 0.0, out=data)
    return Decomposition(mean, knowledge, data, data + knowledge)


def _class_knowledge(p):
    """Return (mean over members, contribution to the knowledge) of one class's probabilities; overwrites them.

    The contribution is mean_m pbar phi(u) with u = (p_m - pbar) / pbar and phi(u) = (1 + u) log1p(u) - u >= 0.
    """
    first = p[0].copy()
    p -= first
    mean = first + _mean(p)
    p += first - mean
    p /= np.where(mean > 0, mean, 1.0)
    knowledge = _mean(_phi(p))
    knowledge *= mean
    return mean, knowledge


def _phi(u):
    out = np.maximum(u, NEAREST_TO_MINUS_ONE)
    np.log1p(out, out=out)
    scaled = u + 1.0
    out *= scaled
    out -= u
    small = np.abs(u) < SERIES_BELOW
    if small.any():
        v = u[small]
        out[small] = v * v * (1 / 2 - v * (1 / 6 - v * (1 / 12 - v * (1 / 20))))
    return out


def _as_members(values, ndim):
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != ndim or len(values) == 0:
        raise ValueError(f"members must be an array of {ndim} dimensions with at least one member, got {values.shape}.")
    return values


def _blocks(n_rows, values_per_row):
    step = max(1, BLOCK_VALUES // values_per_row)
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def _finite(block):
    if not np.isfinite(block).all():
        raise ValueError("Members contain values that are not finite; the model has diverged or overflowed.")
    return block


def _sum(values):
    """Sum over the first axis in its order, whatever the shape and layout."""
    total = values[0].copy()
    for value in values[1:]:
        total += value
    return total


def _mean(values):
    total = _sum(values)
    total /= len(values)
    return total
