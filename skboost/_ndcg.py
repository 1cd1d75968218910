"""The measure of rankings."""

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import assert_all_finite

from skboost import _compat
from skboost._losses import weighted_mean
from skboost._queries import (
    check_label_gain,
    check_places,
    check_relevance,
    query_ndcg,
    query_numbers,
    query_weights,
    relevance_gains,
)


def ndcg_score(y_true, y_score, *, qid=None, k=None, label_gain=None, sample_weight=None):
    """Return the normalised discounted cumulative gain, the mean over queries.

    Rows of a query are ordered by falling score. The discounted gain of the first k places is the sum of ``G(y) /
    log2(1 + place)`` with places from 1; it is divided by its largest possible value. 1 is a perfect order.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Relevance of each row, not negative.
    y_score : array-like of shape (n_samples,)
        Score of each row, the best one highest. Only scores of one query are compared.
    qid : array-like of shape (n_samples,), default=None
        Label of the query of each row, in any order. None: all rows are one query.
    k : int or None, default=None
        Number of first places that count. None: all.
    label_gain : array-like of shape (n_labels,), default=None
        Gain G of the relevances 0, 1, 2, ..., which must be whole numbers then. None: ``2 ** y - 1``, for relevances up
        to 30.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights, not negative. A query counts with the mean weight of its rows; rows of weight 0 are left out.

    Returns
    -------
    float
        Between 0 and 1. A query without gain counts 1, as any order of it is the best one.

    Raises
    ------
    ValueError
        If arrays differ in length, are empty or not finite, or a relevance has no gain.

    See Also
    --------
    SGLBRanker : Learns such an order.
    sklearn.metrics.ndcg_score : The same measure of matrices, with the relevance itself as the gain.

    Notes
    -----
    Rows of equal score come in random order and the result is the expectation over it, as in scikit-learn: it depends
    neither on the order of rows nor on how they would be sorted. (While SGLBRanker trains, rows of equal score are in
    one such order, drawn by their content.)

    In a search pass the queries on with metadata routing: ``make_scorer(ndcg_score).set_score_request(qid=True)``.

    References
    ----------
    .. [1] K. Järvelin and J. Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM Transactions on
       Information Systems 20(4), 2002.

    Examples
    --------
    >>> from skboost.metrics import ndcg_score
    >>> score = ndcg_score([2, 0, 1, 1, 0], [0.3, 0.2, 0.9, 0.8, 0.1], qid=["a", "a", "a", "b", "b"])
    >>> round(score, 4)
    0.8984
    """
    y_true, y_score = column_or_1d(y_true), column_or_1d(y_score)
    check_consistent_length(y_true, y_score, qid, sample_weight)
    for values, name in ((y_true, "y_true"), (y_score, "y_score")):
        assert_all_finite(values, input_name=name)
    if len(y_true) == 0:
        raise ValueError("ndcg_score needs at least one row.")
    check_places(k)
    label_gain = check_label_gain(label_gain)
    y_true, y_score = y_true.astype(np.float64), y_score.astype(np.float64)
    check_relevance(y_true, label_gain, "y_true")
    query = query_numbers(len(y_true), qid)
    if sample_weight is not None:
        sample_weight = _compat.check_sample_weight(sample_weight, y_true[:, None])
        kept = sample_weight > 0
        y_true, y_score, sample_weight = y_true[kept], y_score[kept], sample_weight[kept]
        query = query_numbers(len(y_true), query[kept])
    found = query_ndcg(query, relevance_gains(y_true, label_gain), y_score, k)
    return float(weighted_mean(found, query_weights(query, sample_weight)))
