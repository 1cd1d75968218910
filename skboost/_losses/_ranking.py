"""Losses of rankings: their gradients compare the rows of a query with each other.

The internal target of a row is its number in a table with the columns (number of the query, relevance). `for_chain` and
`for_rows` return the loss with its queries sorted: rows of a query by their content, so that neither the order of rows
nor the labels of queries decide between equal scores.
"""

import copy

import numpy as np

from skboost._engine import ranking as engine
from skboost._losses._base import Loss, weighted_mean
from skboost._queries import (
    check_label_gain,
    check_relevance,
    content_keys,
    query_ndcg,
    query_weights,
    relevance_gains,
    sort_queries,
)
from skboost._random import STREAM_RANKING

# Pairs grow with the product of rows and truncation; a longer query is a forgotten qid.
MOST_ROWS = 10_000
LEAST_CURVATURE = 1e-6


class RankingLoss(Loss):
    """Base of the losses of rankings.

    Parameters
    ----------
    table : ndarray of shape (n_distinct, 2)
        Distinct pairs of a query's number and a relevance, in lexicographic order.
    label_gain : array-like of shape (n_labels,), default=None
        Gains of the relevances 0, 1, 2, ...; None: ``2 ** relevance - 1``.

    Attributes
    ----------
    leaf_curvature : float
        Mean second derivative at equal scores, once ``bind`` has seen the target.
    """

    kind = 17
    uncertainty = None
    needs_content = True
    largest_score = 1e100

    def __init__(self, table, label_gain=None):
        self.table = np.ascontiguousarray(table, dtype=np.float64)
        self.label_gain = check_label_gain(label_gain)

    def columns(self, y):
        """Return (number of the query, relevance) of internal targets; queries are numbered from 0 without gaps."""
        at = np.asarray(y).astype(np.intp)
        used = np.zeros(len(self.table), dtype=bool)
        used[at] = True
        # Queries rise along the table: a new one begins wherever that of the last used entry differs.
        number = np.zeros(len(self.table), dtype=np.intp)
        number[used] = np.cumsum(np.diff(self.table[used, 0], prepend=-1.0) != 0) - 1
        return number[at], self.table[at, 1]

    def check_domain(self, y, name="y"):
        check_relevance(self.columns(y)[1], self.label_gain, name)

    def check_target(self, y, sample_weight=None):
        self.check_domain(y)
        longest = int(np.bincount(self.columns(y)[0]).max(initial=0))
        if longest > MOST_ROWS:
            raise ValueError(
                f"loss={self.name!r} takes queries of at most {MOST_ROWS} rows, got {longest}; qid or group say which "
                "rows are compared with each other."
            )

    def bind(self, y, sample_weight=None):
        bound, ranked = copy.copy(self), self.for_rows(y, sample_weight)
        grad, hess = np.zeros((2, 1, len(y)), dtype=np.float32)
        ranked.write_gradients(np.zeros((1, len(y))), grad, hess, 1)
        bound.leaf_curvature = max(weighted_mean(hess[0], sample_weight), LEAST_CURVATURE)
        return bound

    def base_score(self, y, sample_weight=None):
        return np.zeros(1)

    def with_targets(self, table):
        other = copy.copy(self)
        other.table = np.ascontiguousarray(table, dtype=np.float64)
        return other

    def user_target(self, y):
        return self.columns(y)[1]

    def for_rows(self, y, sample_weight=None):
        return self.for_chain(y, sample_weight, None, 0)

    def for_chain(self, y, sample_weight, hashes, seed):
        ranked = copy.copy(self)
        ranked.rows = RankedRows(self, y, sample_weight, hashes, seed)
        return ranked

    def mean_ndcg(self, y, score, sample_weight=None, k=None, n_threads=1):
        """Return the weighted mean of the normalised discounted gain of internal targets."""
        query, relevance = self.columns(y)
        found = query_ndcg(query, relevance_gains(relevance, self.label_gain), score[0], k, n_threads)
        return weighted_mean(found, query_weights(query, sample_weight))


class RankedRows:
    """Rows sorted into queries, for one chain or one sequence of scores.

    Parameters
    ----------
    loss : RankingLoss
    y : ndarray of shape (n_rows,)
        Internal targets.
    sample_weight : ndarray of shape (n_rows,) or None
    hashes : uint64 ndarray of shape (n_rows,) or None
        Hashes of the codes of the rows; None leaves the order of equal scores to relevance and weight.
    seed : int

    Attributes
    ----------
    y : ndarray of shape (n_rows,)
    queries : Queries
    weight : ndarray of shape (n_queries,) or None
    keys : uint64 ndarray of shape (n_rows,)
        Content of the rows by position: codes, relevance, the rows of the query, number among equal ones.
    iteration : int
        Of the chain.
    """

    def __init__(self, loss, y, sample_weight, hashes, seed):
        self.y, self.seed, self.iteration = y, seed, 0
        query, relevance = loss.columns(y)
        gain = relevance_gains(relevance, loss.label_gain)
        hashes = np.zeros(len(y), dtype=np.uint64) if hashes is None else hashes
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.queries, order = sort_queries(query, gain, hashes, gain, weight)
        self.weight = query_weights(query, sample_weight)
        self.keys = content_keys(query[order], relevance[order], hashes[order])

    def draws(self):
        """Return the uniform random numbers of this iteration by position."""
        return engine.uniforms(self.keys, self.seed, STREAM_RANKING, self.iteration)


class LambdaRank(RankingLoss):
    """LambdaRank: logistic loss of pairs, weighted by what swapping the two would change of the NDCG.

    Parameters
    ----------
    table, label_gain
        See RankingLoss.
    truncation : int, default=30
        First places of which each pair has one; the NDCG is that of as many places.
    sigmoid : float, default=1.0
        Scale of the scores in the logistic function.
    normalize : bool, default=True
        Divide pairs by the difference of their scores, and scale the gradients of a query with their total S to
        ``log2(1 + S)``.
    """

    name = "lambdarank"

    def __init__(self, table, label_gain=None, truncation=30, sigmoid=1.0, normalize=True):
        super().__init__(table, label_gain)
        self.truncation, self.sigmoid, self.normalize = int(truncation), float(sigmoid), bool(normalize)

    def __repr__(self):
        return (
            f"{type(self).__name__}(truncation={self.truncation}, sigmoid={self.sigmoid!r}, normalize={self.normalize})"
        )

    def for_chain(self, y, sample_weight, hashes, seed):
        ranked = super().for_chain(y, sample_weight, hashes, seed)
        ideal = ranked.rows.queries.ideal_dcg(self.truncation)
        ranked.rows.ideal = ideal
        ranked.rows.inv_ideal = np.divide(1.0, ideal, out=np.zeros(len(ideal)), where=ideal > 0)
        return ranked

    def write_gradients(self, score, grad, hess, n_threads):
        """Write gradients and, unless `hess` is None, second derivatives, of shape (1, n_rows)."""
        self.rows.queries.lambdarank(
            score[0], self.rows.inv_ideal, self.truncation, self.sigmoid, self.normalize, grad[0],
            None if hess is None else hess[0], n_threads,
        )  # fmt: skip

    def mean_loss(self, y, score, base, sample_weight=None, n_threads=1):
        """Return 1 less the NDCG of the first places, of which LambdaRank lowers no other loss."""
        rows = getattr(self, "rows", None)
        if rows is None or rows.y is not y:
            return 1.0 - self.mean_ndcg(y, score, sample_weight, self.truncation, n_threads)
        dcg = rows.queries.dcg(np.ascontiguousarray(score[0]), self.truncation, n_threads)
        ndcg = np.divide(dcg, rows.ideal, out=np.ones(len(dcg)), where=rows.ideal > 0)
        return 1.0 - weighted_mean(ndcg, rows.weight)


class XeNDCG(RankingLoss):
    """XE-NDCG: cross entropy of the softmax of a query's scores and its randomly perturbed shares of the gain."""

    name = "rank_xendcg"

    def write_gradients(self, score, grad, hess, n_threads):
        """Write gradients and, unless `hess` is None, second derivatives, of shape (1, n_rows)."""
        self.rows.queries.xendcg(
            score[0], self.rows.draws(), grad[0], None if hess is None else hess[0], n_threads
        )  # fmt: skip

    def mean_loss(self, y, score, base, sample_weight=None, n_threads=1):
        """Return the mean over queries of the cross entropy with the perturbations replaced by their mean."""
        rows = getattr(self, "rows", None)
        if rows is None or rows.y is not y:
            rows = self.for_rows(y, sample_weight).rows
        found = rows.queries.cross_entropy(np.ascontiguousarray(score[0]), n_threads)
        return weighted_mean(found, rows.weight)


RANKING = {loss.name: loss for loss in (LambdaRank, XeNDCG)}
