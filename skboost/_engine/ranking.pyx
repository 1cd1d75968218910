"""Ranking: gradients and values of queries, sets of rows whose scores are compared with each other only.

The bits of all results depend neither on the number of threads nor on the instruction set. Whether they depend on the
order of the caller's rows is decided by the order of positions that `Queries` gets: rows of equal score keep it.
"""

from cython.parallel cimport parallel, prange
from libc.stdint cimport uint64_t

from skboost._engine.omp cimport skb_thread_num

import numpy as np

cdef extern from *:
    """
    #include <stddef.h>
    #include "isa.h"
    #define SKB_IMPL "ranking_impl.h"
    #include "isa_expand.h"

    static void skb_d_lambdarank(ptrdiff_t n, const ptrdiff_t *rows, const double *score, const double *gain,
                                 const double *discount, double inv_ideal, ptrdiff_t truncation, double sigmoid,
                                 int normalize, double *memory, ptrdiff_t length, float *grad, float *hess)
    {
        skb_query_room room = skb_query_room_of(memory, length);
        SKB_DISPATCH(skb_lambdarank)(n, rows, score, gain, discount, inv_ideal, truncation, sigmoid, normalize, &room,
                                     grad, hess);
    }

    static void skb_d_xendcg(ptrdiff_t n, const ptrdiff_t *rows, const double *score, const double *gain,
                             const double *u, double *memory, ptrdiff_t length, float *grad, float *hess)
    {
        skb_query_room room = skb_query_room_of(memory, length);
        SKB_DISPATCH(skb_xendcg)(n, rows, score, gain, u, &room, grad, hess);
    }

    static double skb_d_entropy(ptrdiff_t n, const ptrdiff_t *rows, const double *score, const double *gain,
                                double *memory, ptrdiff_t length)
    {
        skb_query_room room = skb_query_room_of(memory, length);
        return SKB_DISPATCH(skb_query_entropy)(n, rows, score, gain, &room);
    }

    static double skb_d_dcg(ptrdiff_t n, const ptrdiff_t *rows, const double *score, const double *gain,
                            const double *discount, ptrdiff_t k, double *memory, ptrdiff_t length)
    {
        skb_query_room room = skb_query_room_of(memory, length);
        return skb_dcg(n, rows, score, gain, discount, k, &room);
    }

    static double skb_d_ideal_dcg(ptrdiff_t n, const double *gain, const double *discount, ptrdiff_t k, double *memory,
                                  ptrdiff_t length)
    {
        skb_query_room room = skb_query_room_of(memory, length);
        return skb_ideal_dcg(n, gain, discount, k, &room);
    }

    static void skb_d_discounts(ptrdiff_t n, double *out) { SKB_DISPATCH(skb_discounts)(n, out); }
    static void skb_d_gains(ptrdiff_t n, const double *x, double *out)
    { SKB_DISPATCH(skb_exponential_gains)(n, x, out); }
    """
    const int SKB_ROOM, SKB_LANES
    void skb_isa_init() noexcept nogil
    uint64_t skb_key(uint64_t, uint64_t, uint64_t, uint64_t) noexcept nogil
    double skb_uniform(uint64_t, uint64_t) noexcept nogil
    void skb_d_lambdarank(Py_ssize_t, const Py_ssize_t *, const double *, const double *, const double *, double,
                          Py_ssize_t, double, int, double *, Py_ssize_t, float *, float *) noexcept nogil
    void skb_d_xendcg(Py_ssize_t, const Py_ssize_t *, const double *, const double *, const double *, double *,
                      Py_ssize_t, float *, float *) noexcept nogil
    double skb_d_entropy(Py_ssize_t, const Py_ssize_t *, const double *, const double *, double *,
                         Py_ssize_t) noexcept nogil
    double skb_d_dcg(Py_ssize_t, const Py_ssize_t *, const double *, const double *, const double *, Py_ssize_t,
                     double *, Py_ssize_t) noexcept nogil
    double skb_d_ideal_dcg(Py_ssize_t, const double *, const double *, Py_ssize_t, double *,
                           Py_ssize_t) noexcept nogil
    void skb_d_discounts(Py_ssize_t, double *) noexcept nogil
    void skb_d_gains(Py_ssize_t, const double *, double *) noexcept nogil

skb_isa_init()

cdef enum:
    CHUNK = 4               # queries per task
    ROWS_PER_THREAD = 512


cdef class Queries:
    """Rows in queries.

    Parameters
    ----------
    rows : intp ndarray of shape (n_rows,)
        A permutation: the rows in an order in which those of a query lie side by side.
    offsets : intp ndarray of shape (n_queries + 1,)
        Query q has the positions ``offsets[q]`` to ``offsets[q + 1] - 1`` of `rows`.
    gain : float64 ndarray of shape (n_rows,)
        Gains by position, finite and at least 0.
    """

    cdef readonly Py_ssize_t n_rows, n_queries, longest
    cdef const Py_ssize_t[::1] _rows, _offsets
    cdef const double[::1] _gain
    cdef double[::1] _discount

    def __init__(self, const Py_ssize_t[::1] rows, const Py_ssize_t[::1] offsets, const double[::1] gain):
        cdef Py_ssize_t q, i
        self.n_rows, self.n_queries, self.longest = rows.shape[0], offsets.shape[0] - 1, 0
        if self.n_queries < 0 or offsets[0] != 0 or offsets[self.n_queries] != self.n_rows:
            raise ValueError("offsets must rise from 0 to the number of rows")
        if gain.shape[0] != self.n_rows:
            raise ValueError(f"{self.n_rows} rows but {gain.shape[0]} gains")
        for q in range(self.n_queries):
            if offsets[q] > offsets[q + 1]:
                raise ValueError("offsets must rise from 0 to the number of rows")
            self.longest = max(self.longest, offsets[q + 1] - offsets[q])
        cdef unsigned char[::1] seen = np.zeros(self.n_rows, dtype=np.uint8)
        for i in range(self.n_rows):
            if not 0 <= rows[i] < self.n_rows or seen[rows[i]]:
                raise ValueError("rows must be a permutation")
            seen[rows[i]] = 1
        check_range(gain, 0, 1e300, "gains")
        self._rows, self._offsets, self._gain = rows, offsets, gain
        self._discount = np.empty(self.longest + SKB_LANES)
        skb_d_discounts(self._discount.shape[0], &self._discount[0])

    cdef int threads(self, int n_threads) noexcept:
        return <int>max(1, min(<Py_ssize_t>n_threads, self.n_rows // ROWS_PER_THREAD, self.n_queries))

    cdef check(self, const double[::1] score):
        if score.shape[0] != self.n_rows:
            raise ValueError(f"{self.n_rows} rows but {score.shape[0]} scores")

    cdef check_outputs(self, const double[::1] score, float[::1] grad, float[::1] hess):
        self.check(score)
        if grad.shape[0] != self.n_rows or (hess is not None and hess.shape[0] != self.n_rows):
            raise ValueError(f"gradients and second derivatives must have the length {self.n_rows}")

    def ideal_dcg(self, Py_ssize_t k, int n_threads=1):
        """Return the largest discounted gain of the first `k` places of every query."""
        cdef int threads = self.threads(n_threads)
        cdef Py_ssize_t q, at, n, length = self.longest + SKB_LANES
        cdef double[:, ::1] memory = np.empty((threads, SKB_ROOM * length))
        cdef double[::1] out
        out_array = np.zeros(self.n_queries)
        out = out_array
        with nogil, parallel(num_threads=threads):
            for q in prange(self.n_queries, schedule="dynamic", chunksize=CHUNK):
                at, n = self._offsets[q], self._offsets[q + 1] - self._offsets[q]
                if n:
                    out[q] = skb_d_ideal_dcg(n, &self._gain[at], &self._discount[0], k, &memory[skb_thread_num(), 0],
                                             length)
        return out_array

    def dcg(self, const double[::1] score, Py_ssize_t k, int n_threads=1):
        """Return the discounted gain of the first `k` places by falling score of every query.

        It is the mean over all orders of the rows that have equal scores.
        """
        cdef int threads = self.threads(n_threads)
        cdef Py_ssize_t q, at, n, length = self.longest + SKB_LANES
        cdef double[:, ::1] memory = np.empty((threads, SKB_ROOM * length))
        cdef double[::1] out
        self.check(score)
        out_array = np.zeros(self.n_queries)
        out = out_array
        with nogil, parallel(num_threads=threads):
            for q in prange(self.n_queries, schedule="dynamic", chunksize=CHUNK):
                at, n = self._offsets[q], self._offsets[q + 1] - self._offsets[q]
                if n:
                    out[q] = skb_d_dcg(n, &self._rows[at], &score[0], &self._gain[at], &self._discount[0], k,
                                       &memory[skb_thread_num(), 0], length)
        return out_array

    def lambdarank(self, const double[::1] score, const double[::1] inv_ideal, Py_ssize_t truncation, double sigmoid,
                   bint normalize, float[::1] grad, float[::1] hess, int n_threads=1):
        """Write the gradients of LambdaRank and, unless `hess` is None, its second derivatives.

        Parameters
        ----------
        score : float64 ndarray of shape (n_rows,)
            Raw scores, by row as `grad` and `hess`.
        inv_ideal : float64 ndarray of shape (n_queries,)
            Reciprocal of `ideal_dcg` at `truncation`; queries of 0 have gradients of 0.
        truncation : int
            Pairs need a member among so many first places.
        sigmoid : float
            Scale of the scores in the pairs' logistic function.
        normalize : bool
            Whether pairs are divided by the difference of their scores and queries by their total.
        grad, hess : float32 ndarray of shape (n_rows,)
            Receive the results.
        n_threads : int, default=1
            Most threads.
        """
        cdef int threads = self.threads(n_threads)
        cdef Py_ssize_t q, at, n, length = self.longest + SKB_LANES
        cdef double[:, ::1] memory = np.empty((threads, SKB_ROOM * length))
        cdef float *hess_out = NULL
        self.check_outputs(score, grad, hess)
        if inv_ideal.shape[0] != self.n_queries:
            raise ValueError(f"{self.n_queries} queries but {inv_ideal.shape[0]} values of inv_ideal")
        if self.n_rows == 0:
            return
        if hess is not None:
            hess_out = &hess[0]
        with nogil, parallel(num_threads=threads):
            for q in prange(self.n_queries, schedule="dynamic", chunksize=CHUNK):
                at, n = self._offsets[q], self._offsets[q + 1] - self._offsets[q]
                if n:
                    skb_d_lambdarank(n, &self._rows[at], &score[0], &self._gain[at], &self._discount[0], inv_ideal[q],
                                     truncation, sigmoid, normalize, &memory[skb_thread_num(), 0], length, &grad[0],
                                     hess_out)

    def xendcg(self, const double[::1] score, const double[::1] draws, float[::1] grad, float[::1] hess,
               int n_threads=1):
        """Write the gradients of XE-NDCG and, unless `hess` is None, its second derivatives.

        `draws` are the uniform random numbers by position; the rest is as in `lambdarank`.
        """
        cdef int threads = self.threads(n_threads)
        cdef Py_ssize_t q, at, n, length = self.longest + SKB_LANES
        cdef double[:, ::1] memory = np.empty((threads, SKB_ROOM * length))
        cdef float *hess_out = NULL
        self.check_outputs(score, grad, hess)
        if draws.shape[0] != self.n_rows:
            raise ValueError(f"{self.n_rows} rows but {draws.shape[0]} draws")
        if self.n_rows == 0:
            return
        if hess is not None:
            hess_out = &hess[0]
        with nogil, parallel(num_threads=threads):
            for q in prange(self.n_queries, schedule="dynamic", chunksize=CHUNK):
                at, n = self._offsets[q], self._offsets[q + 1] - self._offsets[q]
                if n:
                    skb_d_xendcg(n, &self._rows[at], &score[0], &self._gain[at], &draws[at],
                                 &memory[skb_thread_num(), 0], length, &grad[0], hess_out)

    def cross_entropy(self, const double[::1] score, int n_threads=1):
        """Return the XE-NDCG loss of every query with all draws replaced by their mean, 1/2; 0 for empty ones."""
        cdef int threads = self.threads(n_threads)
        cdef Py_ssize_t q, at, n, length = self.longest + SKB_LANES
        cdef double[:, ::1] memory = np.empty((threads, SKB_ROOM * length))
        cdef double[::1] out
        self.check(score)
        out_array = np.zeros(self.n_queries)
        out = out_array
        with nogil, parallel(num_threads=threads):
            for q in prange(self.n_queries, schedule="dynamic", chunksize=CHUNK):
                at, n = self._offsets[q], self._offsets[q + 1] - self._offsets[q]
                if n:
                    out[q] = skb_d_entropy(n, &self._rows[at], &score[0], &self._gain[at],
                                           &memory[skb_thread_num(), 0], length)
        return out_array


def uniforms(const uint64_t[::1] keys, uint64_t seed, uint64_t stream, uint64_t iteration):
    """Return one uniform random number in (0, 1) per key."""
    cdef Py_ssize_t i
    cdef uint64_t key = skb_key(seed, stream, iteration, 0)
    cdef double[::1] out
    out_array = np.empty(keys.shape[0])
    out = out_array
    with nogil:
        for i in range(keys.shape[0]):
            out[i] = skb_uniform(key, keys[i])
    return out_array


def exponential_gains(const double[::1] relevance):
    """Return ``2 ** relevance - 1``, exact for whole numbers; relevances must lie between 0 and 1000."""
    cdef Py_ssize_t n = relevance.shape[0]
    cdef double[::1] out
    check_range(relevance, 0, 1000, "relevances")
    out_array = np.empty(n)
    if n:
        out = out_array
        skb_d_gains(n, &relevance[0], &out[0])
    return out_array


cdef check_range(values, least, largest, name):
    # By NumPy, since this module is compiled as if NaN did not exist.
    if not np.all((np.asarray(values) >= least) & (np.asarray(values) <= largest)):
        raise ValueError(f"{name} must be finite and lie between {least:g} and {largest:g}")
