"""Queries of ranking: which rows belong together, their gains, and how good an order of them is.

Nothing here depends on the order of rows: queries are numbered by their sorted labels, and rows of a query come in the
order of what they are.
"""

import numbers

import numpy as np
from sklearn.utils import column_or_1d

from skboost._engine import ranking as engine
from skboost._engine import sampling

# The default gains of relevances above this would drown all others.
LARGEST_RELEVANCE = 30


def query_numbers(n_rows, qid=None, group=None):
    """Return the number of the query of every row.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    qid : array-like of shape (n_rows,), default=None
        Labels of the queries, in any order; queries are numbered by the sorted labels.
    group : array-like of int, default=None
        Numbers of rows of queries that lie one after another. With neither `qid` nor `group` all rows are one query.

    Returns
    -------
    ndarray of shape (n_rows,)
        Numbers from 0, intp.
    """
    if qid is not None and group is not None:
        raise ValueError("qid and group both say which rows belong together: give one of them.")
    if group is not None:
        return _numbers_of_groups(n_rows, group)
    if qid is None:
        return np.zeros(n_rows, dtype=np.intp)
    qid = column_or_1d(qid)
    if len(qid) != n_rows:
        raise ValueError(f"qid has {len(qid)} labels for {n_rows} rows.")
    if qid.dtype.kind == "f" and not np.isfinite(qid).all():
        raise ValueError("qid contains NaN or infinity.")
    try:
        return np.unique(qid, return_inverse=True)[1].astype(np.intp, copy=False)
    except TypeError:
        raise ValueError("qid must hold labels that can be sorted: numbers or texts, without missing ones.") from None


def _numbers_of_groups(n_rows, group):
    sizes = column_or_1d(group)
    if sizes.dtype.kind not in "iuf" or not (np.all(sizes >= 1) and np.all(sizes == np.floor(sizes))):
        raise ValueError("group must hold the numbers of rows of consecutive queries, whole numbers of at least 1.")
    if sizes.sum() != n_rows:
        raise ValueError(f"group sums to {sizes.sum():g} for {n_rows} rows.")
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.intp))


def check_relevance(relevance, label_gain=None, name="y"):
    """Raise ValueError unless relevances are finite, at least 0, and have a gain; `name` is what messages call them."""
    relevance = np.asarray(relevance, dtype=np.float64)
    smallest, largest = relevance.min(initial=np.inf), relevance.max(initial=0.0)
    if not (smallest >= 0 and np.isfinite(largest)):
        raise ValueError(f"Ranking requires {name} >= 0, finite relevances; the smallest is {smallest:g}.")
    if label_gain is None:
        if largest > LARGEST_RELEVANCE:
            raise ValueError(
                f"The gains 2 ** y - 1 require {name} of at most {LARGEST_RELEVANCE}, got {largest:g}; give label_gain."
            )
    elif largest >= len(label_gain) or not np.all(relevance == np.floor(relevance)):
        raise ValueError(
            f"label_gain of length {len(label_gain)} requires {name} of whole numbers from 0 to {len(label_gain) - 1}."
        )


def check_label_gain(label_gain):
    """Return the gains by label as float64, or None."""
    if label_gain is None:
        return None
    gains = np.asarray(label_gain)
    if gains.ndim != 1 or gains.size == 0 or gains.dtype.kind not in "iuf":
        raise ValueError(f"label_gain must be a sequence of numbers, got {label_gain!r}.")
    gains = gains.astype(np.float64)
    if not (np.all(gains >= 0) and np.all(gains <= 1e100) and np.all(np.diff(gains) >= 0)):
        raise ValueError(f"label_gain must hold finite gains of at least 0 that do not fall, got {label_gain!r}.")
    return gains


def relevance_gains(relevance, label_gain=None):
    """Return the gains of checked relevances: ``2 ** relevance - 1``, or looked up in `label_gain`."""
    relevance = np.ascontiguousarray(relevance, dtype=np.float64)
    return engine.exponential_gains(relevance) if label_gain is None else label_gain[relevance.astype(np.intp)]


def sort_queries(query, gain, *keys):
    """Return (Queries, rows): rows of a query sorted by `keys`, the first of which counts most, or by gain."""
    rows = np.lexsort((*reversed(keys or (gain,)), query))
    ends = np.cumsum(np.bincount(query)) if len(query) else []
    offsets = np.concatenate([[0], ends]).astype(np.intp)
    return engine.Queries(rows, offsets, np.ascontiguousarray(gain[rows])), rows


def query_weights(query, sample_weight):
    """Return the weight of every query, the mean of those of its rows, or None without weights."""
    if sample_weight is None:
        return None
    # Sums in the order of sorted weights: free of the order of rows.
    rows = np.lexsort((sample_weight, query))
    counts = np.bincount(query)
    return np.bincount(query[rows], sample_weight[rows]) / np.maximum(counts, 1)


def query_ndcg(query, gain, score, k=None, n_threads=1):
    """Return the normalised discounted gain of every query, 1 where there is no gain.

    Parameters
    ----------
    query : intp ndarray of shape (n_rows,)
        Numbers of the queries, all from 0 on in use.
    gain, score : float64 ndarray of shape (n_rows,)
        Gains and scores. The result is the mean over all orders of rows with equal scores.
    k : int or None, default=None
        Places that count, None for all.
    n_threads : int, default=1
        Most threads.

    Returns
    -------
    ndarray of shape (n_queries,)
    """
    queries, _ = sort_queries(query, gain)
    places = queries.longest if k is None else min(int(k), queries.longest)
    ideal = queries.ideal_dcg(places, n_threads)
    dcg = queries.dcg(np.ascontiguousarray(score, dtype=np.float64), places, n_threads)
    return np.divide(dcg, ideal, out=np.ones(len(ideal)), where=ideal > 0)


def check_places(k):
    """Raise ValueError unless `k` is None or a whole number of at least 1."""
    if k is not None and not (isinstance(k, numbers.Integral) and not isinstance(k, bool) and k >= 1):
        raise ValueError(f"k must be None or a whole number of at least 1, got {k!r}.")


def query_keys(query, relevance, hashes):
    """Return a key of every query that depends on the codes and relevances of its rows alone, not on its label."""
    order = np.argsort(query, kind="stable")
    starts = np.flatnonzero(np.diff(query[order], prepend=-1))
    # Sums of unsigned numbers wrap around; they know no order.
    return np.add.reduceat(_row_keys(relevance, hashes)[order], starts) if len(order) else np.empty(0, np.uint64)


def content_keys(query, relevance, hashes):
    """Return keys of rows by codes, relevance, their query's key, and the number among equal rows so far."""
    keys = sampling.combine(_row_keys(relevance, hashes), query_keys(query, relevance, hashes)[query])
    return sampling.combine(keys, sampling.group_totals(keys, None)[0].astype(np.uint64))


def _row_keys(relevance, hashes):
    return sampling.combine(hashes, (relevance + 0.0).view(np.uint64))
