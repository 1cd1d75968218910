"""What is gained by leaving the most uncertain rows to somebody else: retention curves and their areas.

Rows are kept in the order of their uncertainty, the surest first. Rows of equal uncertainty are kept in random order,
and the curves are expectations over it, so that results depend neither on the order of rows nor on how ties are broken,
and a row of weight 2 counts like two equal rows. The curves are exact between their points and so are the areas.
"""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_consistent_length, column_or_1d

from skboost import _compat


class Groups(NamedTuple):
    """Weight and weighted sums up to the end of each group of equal uncertainty, both divided by the total weight."""

    retention: np.ndarray
    value: np.ndarray


def retention_curve(error, uncertainty, *, sample_weight=None):
    """Return the error that is left when only the surest rows are kept.

    The rows that are not kept count with an error of 0, as if somebody who knows the truth answered them: the curve
    begins at 0, where nothing is kept, and ends at the mean error of all rows. A model whose uncertainty says nothing
    about its errors gives the straight line between. Divide by the retention for the mean error of the kept rows.

    Parameters
    ----------
    error : array-like of shape (n_samples,)
        Error of each row, not negative: squared error, zero-one loss, log loss.
    uncertainty : array-like of shape (n_samples,)
        Any number that is larger where the model is less sure.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, not negative. None: all are 1.

    Returns
    -------
    retention : ndarray of shape (n_points,)
        Share of the weight that is kept, from 0 to 1, at the end of each group of rows of equal uncertainty. The curve
        is straight between the points.
    retained_error : ndarray of shape (n_points,)
        Sum of the errors of the kept rows divided by the weight of all rows, in units of `error`.

    Raises
    ------
    ValueError
        If arrays differ in length, are empty or not finite, or an error or a weight is negative.

    See Also
    --------
    retention_auc : The area below.
    f1_retention_curve : Keeping acceptable rows instead of avoiding errors.

    References
    ----------
    .. [1] A. Malinin et al., "Shifts: A Dataset of Real Distributional Shift Across Multiple Large-Scale Tasks",
       NeurIPS 2021 Datasets and Benchmarks, arXiv:2107.07455.

    Examples
    --------
    >>> from skboost.metrics import retention_curve
    >>> retention, error = retention_curve([4.0, 0.0, 1.0, 3.0], [0.9, 0.1, 0.2, 0.3])
    >>> retention
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    >>> error
    array([0.  , 0.  , 0.25, 1.  , 2.  ])
    """
    error, uncertainty, weight = _check(error, uncertainty, sample_weight)
    return tuple(_groups(error, uncertainty, weight))


def retention_auc(error, uncertainty, *, sample_weight=None):
    """Return the area below the retention curve of the error; less is better.

    Parameters
    ----------
    error : array-like of shape (n_samples,)
        Error of each row, not negative.
    uncertainty : array-like of shape (n_samples,)
        Any number that is larger where the model is less sure.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, not negative. None: all are 1.

    Returns
    -------
    float
        Area, in units of `error`: half of the mean error if `uncertainty` says nothing. It falls with the errors as
        well as with a better order; `prediction_rejection_ratio` is about the order alone.

    Raises
    ------
    ValueError
        If arrays differ in length, are empty or not finite, or an error or a weight is negative.

    Notes
    -----
    Called R-AUC in the Shifts challenge [1]_, whose programs average the curve over the counts 0, 1, ..., n of kept
    rows. From that average A and the mean error e the area is ``A + (A - e / 2) / n``.

    References
    ----------
    .. [1] A. Malinin et al., "Shifts: A Dataset of Real Distributional Shift Across Multiple Large-Scale Tasks",
       NeurIPS 2021 Datasets and Benchmarks, arXiv:2107.07455.

    Examples
    --------
    >>> from skboost.metrics import retention_auc
    >>> retention_auc([4.0, 0.0, 1.0, 3.0], [0.9, 0.1, 0.2, 0.3])
    0.5625
    """
    error, uncertainty, weight = _check(error, uncertainty, sample_weight)
    return _area(_groups(error, uncertainty, weight))


def prediction_rejection_ratio(error, uncertainty, *, sample_weight=None):
    """Return how much of the gain of rejecting by the true errors is reached by rejecting by uncertainty.

    Parameters
    ----------
    error : array-like of shape (n_samples,)
        Error of each row, not negative.
    uncertainty : array-like of shape (n_samples,)
        Any number that is larger where the model is less sure.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, not negative. None: all are 1.

    Returns
    -------
    float
        ``(random - model) / (random - oracle)`` of the areas below the retention curves: 1 if the rows are in the order
        of their errors, 0 if `uncertainty` says nothing, -1 at worst. NaN with an ``UndefinedMetricWarning`` if all
        errors are equal, for then no order is better than another.

    Raises
    ------
    ValueError
        If arrays differ in length, are empty or not finite, or an error or a weight is negative.

    See Also
    --------
    retention_auc : The area that also falls with the errors.

    References
    ----------
    .. [1] A. Malinin, A. Ragni, K. Knill and M. Gales, "Incorporating Uncertainty into Deep Learning for Spoken
       Language Assessment", ACL 2017.
    .. [2] A. Malinin, L. Prokhorenkova and A. Ustimenko, "Uncertainty in Gradient Boosting via Ensembles", ICLR 2021,
       arXiv:2006.10562.

    Examples
    --------
    >>> from skboost.metrics import prediction_rejection_ratio
    >>> prediction_rejection_ratio([4.0, 0.0, 1.0, 3.0], [0.9, 0.1, 0.2, 0.3])
    1.0
    >>> prediction_rejection_ratio([4.0, 0.0, 1.0, 3.0], [1.0, 1.0, 1.0, 1.0])
    0.0
    """
    error, uncertainty, weight = _check(error, uncertainty, sample_weight)
    used = error[weight > 0]
    if (used == used[0]).all():
        warnings.warn(
            "The prediction rejection ratio is not defined when all errors are equal; NaN is returned.",
            UndefinedMetricWarning,
            stacklevel=2,
        )
        return float("nan")
    model, oracle = (_groups(error, order, weight) for order in (uncertainty, error))
    random = 0.5 * model.value[-1]
    return float((random - _area(model)) / (random - _area(oracle)))


def f1_retention_curve(error, uncertainty, *, threshold, sample_weight=None):
    """Return how well the kept rows are the acceptable ones, as an F1 score.

    A row is acceptable if its error is at most the threshold. Among the kept rows the share of acceptable ones is the
    precision; among the acceptable rows the share of kept ones is the recall.

    Parameters
    ----------
    error : array-like of shape (n_samples,)
        Error of each row, not negative.
    uncertainty : array-like of shape (n_samples,)
        Any number that is larger where the model is less sure.
    threshold : float
        Largest acceptable error, in units of `error`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, not negative. None: all are 1.

    Returns
    -------
    retention : ndarray of shape (n_points,)
        Share of the weight that is kept, from 0 to 1, at the end of each group of rows of equal uncertainty.
    f1 : ndarray of shape (n_points,)
        Harmonic mean of precision and recall, in [0, 1]; 0 throughout if no row is acceptable.

    Raises
    ------
    ValueError
        If arrays differ in length, are empty or not finite, an error or a weight is negative, or the threshold is not
        a number.

    References
    ----------
    .. [1] A. Malinin et al., "Shifts: A Dataset of Real Distributional Shift Across Multiple Large-Scale Tasks",
       NeurIPS 2021 Datasets and Benchmarks, arXiv:2107.07455.

    Examples
    --------
    >>> from skboost.metrics import f1_retention_curve
    >>> retention, f1 = f1_retention_curve([4.0, 0.0, 1.0, 3.0], [0.9, 0.1, 0.2, 0.3], threshold=1.0)
    >>> f1.round(3)
    array([0.   , 0.667, 1.   , 0.8  , 0.667])
    """
    kept, share = _acceptable(error, uncertainty, threshold, sample_weight)
    if share == 0:
        return kept.retention, np.zeros_like(kept.retention)
    return kept.retention, 2.0 * kept.value / (kept.retention + share)


def f1_retention_auc(error, uncertainty, *, threshold, sample_weight=None):
    """Return the area below the F1-retention curve; more is better.

    Parameters
    ----------
    error : array-like of shape (n_samples,)
        Error of each row, not negative.
    uncertainty : array-like of shape (n_samples,)
        Any number that is larger where the model is less sure.
    threshold : float
        Largest acceptable error, in units of `error`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, not negative. None: all are 1.

    Returns
    -------
    float
        Area in [0, 1), 0 if no row is acceptable. Called F1-AUC in the Shifts challenge [1]_, whose programs join the
        points by straight lines; the two differ by terms of order one over the number of rows.

    Raises
    ------
    ValueError
        If arrays differ in length, are empty or not finite, an error or a weight is negative, or the threshold is not
        a number.

    References
    ----------
    .. [1] A. Malinin et al., "Shifts: A Dataset of Real Distributional Shift Across Multiple Large-Scale Tasks",
       NeurIPS 2021 Datasets and Benchmarks, arXiv:2107.07455.

    Examples
    --------
    >>> from skboost.metrics import f1_retention_auc
    >>> round(f1_retention_auc([4.0, 0.0, 1.0, 3.0], [0.9, 0.1, 0.2, 0.3], threshold=1.0), 4)
    0.7123
    """
    kept, share = _acceptable(error, uncertainty, threshold, sample_weight)
    if share == 0:
        return 0.0
    # Between two points the kept acceptable weight is a + b r, and 2 (a + b r) / (r + share) has this integral.
    start, step = kept.retention[:-1], np.diff(kept.retention)
    # A weight that vanishes beside the others makes no step.
    b = np.divide(np.diff(kept.value), step, out=np.zeros_like(step), where=step > 0)
    a = kept.value[:-1] - b * start
    return float(np.sum(2.0 * (b * step + (a - b * share) * np.log1p(step / (start + share)))))


def _check(error, uncertainty, sample_weight):
    """Return errors, uncertainties and weights as float64 columns of equal length."""
    columns = []
    for name, column in (("error", error), ("uncertainty", uncertainty)):
        column = np.asarray(column_or_1d(column), dtype=np.float64)
        if len(column) == 0:
            raise ValueError(f"{name} must have at least one row.")
        if not np.isfinite(column).all():
            raise ValueError(f"{name} must be finite.")
        columns.append(column)
    check_consistent_length(*columns)
    if (columns[0] < 0).any():
        raise ValueError("error must not be negative.")
    return *columns, _compat.check_sample_weight(sample_weight, columns[0])


def _groups(value, uncertainty, weight):
    """Return the running sums of weight and weighted value over groups of equal uncertainty, the surest first."""
    used = weight > 0
    _, group = np.unique(uncertainty[used], return_inverse=True)
    retention = np.cumsum(np.bincount(group, weight[used]))
    sums = np.cumsum(np.bincount(group, weight[used] * value[used]))
    total = retention[-1]
    return Groups(np.append(0.0, retention / total), np.append(0.0, sums / total))


def _area(groups):
    return float(0.5 * np.dot(np.diff(groups.retention), groups.value[1:] + groups.value[:-1]))


def _acceptable(error, uncertainty, threshold, sample_weight):
    """Return the running sums of the acceptable weight and its share of all."""
    error, uncertainty, weight = _check(error, uncertainty, sample_weight)
    threshold = float(threshold)
    if np.isnan(threshold):
        raise ValueError("threshold must be a number, got nan.")
    kept = _groups((error <= threshold).astype(np.float64), uncertainty, weight)
    return kept, kept.value[-1]
