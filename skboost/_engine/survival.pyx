"""Cox's partial likelihood with Breslow's handling of ties, on rows known by time rank, event and weight.

With R(t) the sum of w exp(f) over the rows of time t or later and d(t) the weight of the events at t, the loss is the
sum over events of w (ln R(t) - f). Its gradient with respect to one copy of row j is exp(f_j) r1(t_j) - event_j, where
r1(t) sums d / R over the event times up to t; the diagonal of the second derivatives is exp(f_j) r1 - exp(2 f_j) r2,
where r2 sums d / R^2. Both are of one copy: the engine multiplies them by the weight.
"""

from cython.parallel cimport prange
from libc.stdint cimport uint64_t

import math

import numpy as np

cdef extern from *:
    """
    #include <stddef.h>
    #include "isa.h"
    #define SKB_IMPL "cox_impl.h"
    #include "isa_expand.h"

    static void skb_d_cox_exp(ptrdiff_t n, const double *score, double top, double *out)
    {
        SKB_DISPATCH(skb_cox_exp)(n, score, top, out);
    }

    static void skb_d_cox_rows(ptrdiff_t n, const ptrdiff_t *time, const double *event, const double *e,
                               const double *sums, float *grad, float *hess)
    {
        SKB_DISPATCH(skb_cox_rows)(n, time, event, e, sums, grad, hess);
    }

    static void skb_d_cox_values(ptrdiff_t n, const ptrdiff_t *time, const double *event, const double *score,
                                 double top, const double *log_risk, double *out)
    {
        SKB_DISPATCH(skb_cox_values)(n, time, event, score, top, log_risk, out);
    }

    static void skb_d_cox_logs(ptrdiff_t n, const double *x, double *out) { SKB_DISPATCH(skb_cox_logs)(n, x, out); }
    """
    void skb_isa_init() noexcept nogil
    void skb_d_cox_exp(Py_ssize_t, const double *, double, double *) noexcept nogil
    void skb_d_cox_rows(Py_ssize_t, const Py_ssize_t *, const double *, const double *, const double *, float *,
                        float *) noexcept nogil
    void skb_d_cox_values(Py_ssize_t, const Py_ssize_t *, const double *, const double *, double, const double *,
                          double *) noexcept nogil
    void skb_d_cox_logs(Py_ssize_t, const double *, double *) noexcept nogil
    void skb_cox_risk_sums(Py_ssize_t, const Py_ssize_t *, const Py_ssize_t *, const uint64_t *, const double *,
                           const double *, double, double *, double *) noexcept nogil

skb_isa_init()

cdef enum:
    BLOCK = 4096         # rows per task
    ROWS_PER_THREAD = 16384
    WEIGHT_BITS = 52     # the weights of all rows sum to less than two to this power, in units of their grid


cdef class RiskSets:
    """Rows of a survival study in the order of their times, sorted once.

    Parameters
    ----------
    time : intp array of shape (n_rows,)
        Ranks of the times among the distinct ones, from 0; ranks without rows are allowed.
    event : float64 array of shape (n_rows,)
        1 for an event, 0 for a row censored at its time.
    weight : float64 array of shape (n_rows,) or None
        Weights, at least 0, in any unit; None means ones. They are rounded to a grid of 2^-51 of their size times the
        number of rows, so that whole numbers stay exact, and a weight above 0 stays above 0.

    Results do not depend on the order of rows or on numbers of threads, and a row of whole-number weight w gives those
    of w rows, bit for bit. Rows of weight 0 have no influence on others.
    """

    cdef readonly Py_ssize_t n_rows, n_times
    cdef const Py_ssize_t[::1] time
    cdef const double[::1] event
    cdef Py_ssize_t[::1] start, order
    cdef uint64_t[::1] units
    cdef double[::1] d
    cdef double unit
    cdef object present

    def __init__(self, time, event, weight=None):
        time = np.ascontiguousarray(time, dtype=np.intp)
        event = np.ascontiguousarray(event, dtype=np.float64)
        n = len(time)
        if time.shape != (n,) or event.shape != (n,) or (weight is not None and np.shape(weight) != (n,)):
            raise ValueError("time, event and weight need one entry per row")
        if n and (time.min() < 0 or time.max() > 2 * n + 2**20):
            raise ValueError("times must be given by their ranks")
        if not np.isin(event, (0.0, 1.0)).all():
            raise ValueError("event must be 0 or 1")
        self.n_rows, self.n_times = n, int(time.max()) + 1 if n else 0
        self.time, self.event = time, event
        order = np.argsort(time, kind="stable")
        start = np.zeros(self.n_times + 1, dtype=np.intp)
        np.cumsum(np.bincount(time, minlength=self.n_times), out=start[1:])
        units, self.unit = whole_weights(weight, n)
        # Sums of whole numbers below 2^53: exact in any order.
        d = np.bincount(time, units * event, minlength=self.n_times)
        self.order, self.start = order, start
        self.units = units[order].astype(np.uint64)
        self.d = d * self.unit
        self.present = None if weight is None or units.all() else units > 0

    cdef double top(self, const double[::1] score) except? -1.0:
        """Largest score of a row with weight."""
        if score.shape[0] != self.n_rows:
            raise ValueError(f"score needs {self.n_rows} entries, got {score.shape[0]}")
        values = np.asarray(score) if self.present is None else np.asarray(score)[self.present]
        return float(values.max()) if len(values) else 0.0

    cdef sums(self, const double[::1] score, double top, int n_threads):
        """Return exp(f - top) of the rows, R of the times, and r1 and r2 of the times in turn."""
        cdef double[::1] e = np.empty(self.n_rows), risk = np.empty(self.n_times), sums = np.empty(2 * self.n_times)
        cdef Py_ssize_t n = self.n_rows, n_blocks = (n + BLOCK - 1) // BLOCK, block, at
        if n:
            for block in prange(n_blocks, schedule="static", num_threads=useful_threads(n, n_threads), nogil=True):
                at = block * BLOCK
                skb_d_cox_exp(min(n - at, <Py_ssize_t>BLOCK), &score[at], top, &e[at])
            with nogil:
                skb_cox_risk_sums(self.n_times, &self.start[0], &self.order[0], &self.units[0], &self.d[0], &e[0],
                                  self.unit, &risk[0], &sums[0])
        return e, risk, sums

    def write_gradients(self, const double[::1] score, float[::1] grad, hess, int n_threads=1):
        """Write the gradient, and where `hess` is not None the diagonal second derivative, of one copy of every row.

        Second derivatives are at least 0; where a row of weight below 1 is most of its risk set the floor acts.
        """
        cdef double[::1] e, sums
        cdef float[::1] second
        cdef float *hess_out = NULL
        cdef Py_ssize_t n = self.n_rows, n_blocks = (n + BLOCK - 1) // BLOCK, block, at
        if grad.shape[0] != n or (hess is not None and len(hess) != n):
            raise ValueError(f"grad and hess need {n} entries")
        if n == 0:
            return
        e, _, sums = self.sums(score, self.top(score), n_threads)
        if hess is not None:
            second = hess
            hess_out = &second[0]
        for block in prange(n_blocks, schedule="static", num_threads=useful_threads(n, n_threads), nogil=True):
            at = block * BLOCK
            skb_d_cox_rows(min(n - at, <Py_ssize_t>BLOCK), &self.time[at], &self.event[at], &e[at], &sums[0], &grad[at],
                           hess_out + at if hess_out else NULL)

    def values(self, const double[::1] score, int n_threads=1):
        """Return the terms of the loss, ln R - f for events and 0 for others, float64 of shape (n_rows,)."""
        cdef double top = self.top(score)
        cdef double[::1] out, risk, logs
        cdef Py_ssize_t n = self.n_rows
        out_array = np.zeros(n)
        if n:
            _, risk, _ = self.sums(score, top, n_threads)
            out, logs = out_array, np.empty(self.n_times)
            with nogil:
                skb_d_cox_logs(self.n_times, &risk[0], &logs[0])
                skb_d_cox_values(n, &self.time[0], &self.event[0], &score[0], top, &logs[0], &out[0])
        return out_array

    def cumulative_hazard(self, const double[::1] score, int n_threads=1):
        """Return (Breslow's cumulative hazard at each time rank where f is the largest score of all, that score).

        The hazard of another f is that times exp(f - largest): where f is 0 it may be no number.
        """
        cdef double top = self.top(score)
        _, _, sums = self.sums(score, top, n_threads)
        return np.asarray(sums)[::2].copy(), top


def whole_weights(weight, Py_ssize_t n):
    """Return (weights as whole numbers, float64, whose sum is exact; their unit, a power of two).

    The unit is about n times the largest weight over 2^52, so that whole numbers stay exact, and a positive weight
    never becomes zero. None stands for ones.
    """
    if weight is None:
        return np.ones(n), 1.0
    weight = np.asarray(weight, dtype=np.float64)
    if n == 0:
        return weight, 1.0
    if not (np.isfinite(weight).all() and weight.min() >= 0):
        raise ValueError("weights must be finite and at least 0")
    # n times the largest one bounds the sum and, unlike the sum itself, does not depend on the order of the rows.
    n_present = int(np.count_nonzero(weight))
    bits = max(int(np.frexp(weight.max())[1]) + n_present.bit_length() - WEIGHT_BITS, -1000)
    unit = math.ldexp(1.0, bits)
    return np.maximum(np.rint(weight / unit), weight > 0), unit


cdef int useful_threads(Py_ssize_t n, int n_threads) noexcept nogil:
    return <int>max(1, min(<Py_ssize_t>n_threads, n // ROWS_PER_THREAD))
