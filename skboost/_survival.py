"""Targets of survival studies in their usual forms, and how well risks order them."""

import warnings

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d

from skboost import _compat
from skboost._engine.concordance import pair_weights
from skboost._engine.survival import whole_weights

FORMS = "a structured array with one boolean field (event) and one field of times, or an array of shape (n_samples, 2)"


def event_times(y, who, name="y"):
    """Return (time, event) of right-censored targets.

    Parameters
    ----------
    y : array-like
        A structured array with one boolean field, true for an event, and one field of times; an array of shape
        (n_samples, 2) of times and events (0 or 1); or an array of shape (n_samples,) of times, the negative ones being
        minus the times of censored rows.
    who : str
        What asks, for messages.
    name : str, default="y"
        What messages call the target.

    Returns
    -------
    time : ndarray of shape (n_samples,)
        Finite times of at least 0, float64.
    event : ndarray of shape (n_samples,)
        Boolean, false for rows that are censored at their time.
    """
    y = _as_array(y, name)
    if y.dtype.names is not None:
        time, event = _fields(y, who, name)
    elif y.ndim == 2 and y.shape[1] == 2:
        y = _numbers(y, name)
        time, event = y[:, 0], y[:, 1]
        if not np.isin(event, (0.0, 1.0)).all():
            raise ValueError(
                f"{who} requires the second column of {name} to say whether there was an event, 0 or 1; columns are "
                "(time, event)."
            )
        event = event == 1
    elif y.ndim == 2 and y.shape[1] > 2:
        raise ValueError(f"{who} requires {name} as {FORMS} or (n_samples,), got the shape {y.shape}.")
    else:
        y = _numbers(column_or_1d(y, warn=True), name)
        time, event = np.abs(y), y >= 0
    if time.size and time.min() < 0:
        raise ValueError(f"{who} requires times of at least 0 in {name}; the smallest is {time.min():g}.")
    return np.ascontiguousarray(time), np.ascontiguousarray(event)


def time_intervals(y, who, name="y"):
    """Return (lower, upper) ends of the intervals that are known to hold the times.

    Parameters
    ----------
    y : array-like
        A structured array as of `event_times`; an array of shape (n_samples, 2) of both ends, equal ones for events, an
        upper end of infinity for right-censored and a lower one of 0 for left-censored rows; or an array of shape
        (n_samples,) of times, all of them events.
    who, name : str
        As of `event_times`.

    Returns
    -------
    lower, upper : ndarray of shape (n_samples,)
        float64 with ``0 <= lower <= upper`` and ``0 < upper``, `lower` finite.
    """
    y = _as_array(y, name)
    if y.dtype.names is not None:
        time, event = _fields(y, who, name)
        lower, upper = time, np.where(event, time, np.inf)
    elif y.ndim == 2 and y.shape[1] == 2:
        y = np.asarray(y, dtype=np.float64)
        assert_all_finite(y[:, 0], input_name=name)
        # NaN is refused, infinity means that nothing is known.
        assert_all_finite(np.where(y[:, 1] == np.inf, 0.0, y[:, 1]), input_name=name)
        lower, upper = y[:, 0], y[:, 1]
    elif y.ndim == 2 and y.shape[1] > 2:
        raise ValueError(f"{who} requires {name} as {FORMS} or (n_samples,), got the shape {y.shape}.")
    else:
        lower = upper = _numbers(column_or_1d(y, warn=True), name)
    if lower.size and (lower.min() < 0 or upper.min() <= 0):
        raise ValueError(
            f"{who} requires times above 0 in {name}, and lower ends of at least 0; the smallest is "
            f"{min(lower.min(), upper.min()):g}."
        )
    if np.any(lower > upper):
        raise ValueError(
            f"{who} requires the columns (lower, upper) of {name} in this order; some lower end is larger."
        )
    return np.ascontiguousarray(lower), np.ascontiguousarray(upper)


def _as_array(y, name):
    if y is None:
        raise ValueError(f"{name} is needed, got None.")
    y = np.asarray(y)
    if y.ndim == 0 or y.ndim > 2 or (y.dtype.names is not None and y.ndim != 1):
        raise ValueError(f"{name} should be a 1d or 2d array, got an array of shape {y.shape} instead.")
    return y


def _numbers(y, name):
    y = np.asarray(y, dtype=np.float64) if y.dtype.kind in "OUS" else y.astype(np.float64)
    assert_all_finite(y, input_name=name)
    return y


def _fields(y, who, name):
    names = y.dtype.names
    events = [field for field in names if y.dtype[field].kind == "b"]
    times = [field for field in names if y.dtype[field].kind in "fiu"]
    if len(names) != 2 or len(events) != 1 or len(times) != 1:
        raise ValueError(f"{who} requires {name} as {FORMS}; the fields are {y.dtype}.")
    return _numbers(y[times[0]], name), y[events[0]]


def concordance_index(y, risk, *, sample_weight=None):
    """Return Harrell's concordance index of risks and right-censored times.

    A pair of rows is comparable when one is known to end first: its event is earlier than the time of the other row, or
    at the same time as the other one is censored. The index is the share of comparable pairs in which the row of the
    higher risk ends first; equal risks count one half. 1 is a perfect order, 0.5 none.

    Parameters
    ----------
    y : structured array of shape (n_samples,), or array-like of shape (n_samples, 2) or (n_samples,)
        One boolean field, true for an event, and one field of times, in any order (what ``Surv`` of scikit-survival
        makes); or columns (time, event); or times, those of censored rows with a minus sign. Times are at least 0.
    risk : array-like of shape (n_samples,)
        Any number that is larger for rows that should end earlier. For predicted times take their negatives.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, at least 0; a pair has the product of both. None: all are 1. Whole numbers act as copies.

    Returns
    -------
    float
        Between 0 and 1; NaN, with a warning, when no pair is comparable. The result does not depend on the order of
        the rows. Time is ``O(n log n)``.

    Raises
    ------
    ValueError
        If arrays differ in length or are not finite, or the target has another form or negative times.

    References
    ----------
    F. E. Harrell, R. M. Califf, D. B. Pryor, K. L. Lee and R. A. Rosati, "Evaluating the yield of medical tests",
    Journal of the American Medical Association 247(18), 1982.

    Examples
    --------
    >>> from skboost.metrics import concordance_index
    >>> time_and_event = [[1.0, 1], [2.0, 0], [3.0, 1]]
    >>> concordance_index(time_and_event, [0.9, 0.1, 0.5])
    1.0
    >>> concordance_index(time_and_event, [0.1, 0.9, 0.5])
    0.0
    """
    time, event = event_times(y, "concordance_index")
    return interval_concordance(time, np.where(event, time, np.inf), risk, sample_weight)


def interval_concordance(lower, upper, risk, sample_weight=None):
    """Return the concordance index of risks and intervals that hold the times.

    Row i ends first when its upper end is below the lower end of row j, or equal to it while row j is no event there.
    With right-censored rows it is Harrell's index.
    """
    risk = column_or_1d(risk)
    check_consistent_length(lower, risk, sample_weight)
    assert_all_finite(risk, input_name="risk")
    if sample_weight is not None:
        sample_weight = _compat.check_sample_weight(sample_weight, risk)
    units, _ = whole_weights(sample_weight, len(risk))
    # Both ends in one order: the moment, and then what lies after it.
    distinct, ranks = np.unique(np.concatenate([lower, upper]), return_inverse=True)
    begin, end = 2 * ranks.reshape(2, len(risk))
    begin = begin + (lower < upper)
    end = np.where(upper < np.inf, end, 2 * len(distinct))
    concordant, tied, comparable = pair_weights(begin, end, risk, units)
    if comparable == 0:
        warnings.warn(
            "The concordance index is not defined without comparable pairs; it is NaN.",
            UndefinedMetricWarning,
            stacklevel=3,
        )
        return float("nan")
    return (2 * concordant + tied) / (2 * comparable)
