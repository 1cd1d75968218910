"""Losses on raw scores: gradients, second derivatives, values and order-free means.

A loss is any object with attributes `kind`, `n_outputs` and `params`. Raw scores are arrays of shape
(n_outputs, n_rows), to which `base`, of shape (n_outputs,), is added.
"""

from cython.parallel cimport parallel, prange
from libc.math cimport fabs
from libc.stdint cimport uint64_t

from skboost._engine.omp cimport skb_thread_num

import math

import numpy as np

cdef extern from *:
    """
    #include <stddef.h>
    #include "isa.h"
    typedef struct {
        int kind;
        int n_outputs;
        double param[4];
        const double *table;
        ptrdiff_t n_table;
        int table_width;
    } skb_loss_t;
    #define SKB_IMPL "losses_impl.h"
    #include "isa_expand.h"

    static void skb_loss_gradients(const void *loss, ptrdiff_t n, const double *y, const double *score,
                                   ptrdiff_t score_stride, const double *base, int hessian, float *grad, float *hess,
                                   ptrdiff_t grad_stride)
    {
        SKB_DISPATCH(skb_loss_gradients)((const skb_loss_t *)loss, n, y, score, score_stride, base, hessian, grad, hess,
                                         grad_stride);
    }

    static void skb_loss_gradients64(const void *loss, ptrdiff_t n, const double *y, const double *score,
                                     ptrdiff_t score_stride, const double *base, int hessian, double *grad,
                                     double *hess, ptrdiff_t grad_stride)
    {
        SKB_DISPATCH(skb_loss_gradients64)((const skb_loss_t *)loss, n, y, score, score_stride, base, hessian, grad,
                                           hess, grad_stride);
    }

    static void skb_coin_gradients(ptrdiff_t n, const float *coin, const double *fit, const float *precision,
                                   float *log_sd, float *grad)
    {
        SKB_DISPATCH(skb_gaussian_coins)(n, coin, fit, precision, log_sd, grad);
    }

    static void skb_loss_values(const void *loss, ptrdiff_t n, const double *y, const double *score,
                                ptrdiff_t score_stride, const double *base, double *out)
    {
        SKB_DISPATCH(skb_loss_values)((const skb_loss_t *)loss, n, y, score, score_stride, base, out);
    }

    static void skb_peaks(ptrdiff_t n, const double *value, const double *weight, double *value_peak,
                          double *weight_peak)
    {
        SKB_DISPATCH(skb_peaks)(n, value, weight, value_peak, weight_peak);
    }

    static void skb_elementary(int which, ptrdiff_t n, const double *x, double *out)
    {
        SKB_DISPATCH(skb_elementary)(which, n, x, out);
    }
    """
    void skb_isa_init() noexcept nogil
    void skb_loss_gradients(const void *, Py_ssize_t, const double *, const double *, Py_ssize_t, const double *, int,
                            float *, float *, Py_ssize_t) noexcept nogil
    void skb_loss_gradients64(const void *, Py_ssize_t, const double *, const double *, Py_ssize_t, const double *, int,
                              double *, double *, Py_ssize_t) noexcept nogil
    void skb_coin_gradients(Py_ssize_t, const float *, const double *, const float *, float *, float *) noexcept nogil
    void skb_loss_values(const void *, Py_ssize_t, const double *, const double *, Py_ssize_t, const double *,
                         double *) noexcept nogil
    void skb_peaks(Py_ssize_t, const double *, const double *, double *, double *) noexcept nogil
    void skb_fixed_sums(Py_ssize_t, const double *, const double *, double, double,
                        uint64_t *) noexcept nogil
    void skb_elementary(int, Py_ssize_t, const double *, double *) noexcept nogil

skb_isa_init()

cdef enum:
    BLOCK = 1024         # rows per task
    ROWS_PER_THREAD = 16384
    VALUE_BITS = 56      # grid of the values: 2^-56 of the power of two above the largest
    WEIGHT_BITS = 38     # grid of the weights; 56 + 38 bits leave room for 2^33 rows in a signed 128-bit sum
    LINE = 8             # doubles per cache line


cdef int loss_from_object(object loss, loss_t *out) except -1:
    cdef const double[:, ::1] table
    cdef int i
    params = tuple(loss.params)
    if not (is_known(loss.kind) and outputs_fit(loss.kind, loss.n_outputs) and params_fit(loss.kind, params)):
        raise ValueError(f"unknown loss: kind={loss.kind}, n_outputs={loss.n_outputs}, params={params}")
    out.kind = loss.kind
    out.n_outputs = loss.n_outputs
    for i in range(4):
        out.param[i] = params[i] if i < len(params) else 0.0
    out.table = NULL
    out.n_table = out.table_width = 0
    if needs_table(loss.kind):
        table = loss.table
        if table.shape[0] < 1 or table.shape[1] < table_columns(loss.kind, loss.n_outputs):
            raise ValueError(f"the table of the loss has shape {(table.shape[0], table.shape[1])}, too small")
        out.table, out.n_table, out.table_width = &table[0, 0], table.shape[0], <int>table.shape[1]
    return 0


cdef bint is_known(int kind) noexcept:
    return LOSS_SQUARED <= kind <= LOSS_GIVEN


cdef bint is_distribution(int kind) noexcept nogil:
    """Whether there are two outputs with a Fisher information."""
    return kind == LOSS_GAUSSIAN or LOSS_LAPLACE <= kind <= LOSS_NEGATIVE_BINOMIAL


cdef bint outputs_fit(int kind, int n_outputs) noexcept:
    if is_distribution(kind):
        return n_outputs == 2
    return n_outputs >= 1 if kind in (LOSS_MULTINOMIAL, LOSS_QUANTILE, LOSS_MULTI_LABEL, LOSS_MULTI_SQUARED,
                                      LOSS_GIVEN) else n_outputs == 1


cdef bint params_fit(int kind, tuple params) except -1:
    if len(params) > 4:
        return False
    if kind == LOSS_TWEEDIE:
        return len(params) and 1 < params[0] < 2
    if kind == LOSS_EXPECTILE:
        return len(params) and 0 < params[0] < 1
    if kind == LOSS_AFT:
        return len(params) > 1 and params[0] in (0, 1, 2) and 0 < params[1] < math.inf
    if kind in (LOSS_HUBER, LOSS_PSEUDO_HUBER, LOSS_QUANTILE):
        return len(params) and 0 < params[0] < math.inf
    return True


cdef bint needs_table(int kind) noexcept:
    return kind in (LOSS_QUANTILE, LOSS_AFT, LOSS_MULTI_LABEL, LOSS_MULTI_SQUARED)


cdef int table_columns(int kind, int n_outputs) noexcept:
    return 3 if kind == LOSS_AFT else n_outputs


cdef bint targets_are_numbers(const loss_t *loss) noexcept nogil:
    return loss.kind == LOSS_AFT or loss.kind == LOSS_MULTI_LABEL or loss.kind == LOSS_MULTI_SQUARED


cdef int check_targets(const loss_t *loss, const double[::1] y) except -1:
    if targets_are_numbers(loss):
        numbers = np.asarray(y)     # NumPy knows NaN, this module is compiled without
        if not np.all((numbers >= 0) & (numbers < loss.n_table)):
            raise ValueError(f"targets must be numbers of the {loss.n_table} rows of the table")
    return 0


cdef bint loss_needs_metric(const loss_t *loss) noexcept nogil:
    return is_distribution(loss.kind)


cdef double leaf_denominator(const loss_t *loss, int k, double G, double D) noexcept nogil:
    if loss.kind == LOSS_GAUSSIAN:
        return D - min(G, 0.5 * D) if k == 1 else D
    if loss.kind == LOSS_LAPLACE:
        return D - 0.5 * G if k == 1 else D
    if loss.kind == LOSS_GAMMA_SHAPE:
        return D + (0.5 * G if k == 1 else -0.5 * G)
    if loss.kind == LOSS_NEGATIVE_BINOMIAL:
        return D + 0.5 * fabs(G)
    return D


cdef void loss_gradients(const loss_t *loss, Py_ssize_t n, const double *y, const double *score,
                         Py_ssize_t score_stride, const double *base, bint hessian, float *grad, float *hess,
                         Py_ssize_t grad_stride) noexcept nogil:
    skb_loss_gradients(loss, n, y, score, score_stride, base, hessian, grad, hess, grad_stride)


cdef void loss_gradients64(const loss_t *loss, Py_ssize_t n, const double *y, const double *score,
                           Py_ssize_t score_stride, const double *base, double *grad, double *hess,
                           Py_ssize_t grad_stride) noexcept nogil:
    skb_loss_gradients64(loss, n, y, score, score_stride, base, hess != NULL, grad, hess, grad_stride)


cdef void coin_gradients(Py_ssize_t n, const float *coin, const double *fit, const float *precision, float *log_sd,
                         float *grad) noexcept nogil:
    skb_coin_gradients(n, coin, fit, precision, log_sd, grad)


cdef void loss_values(const loss_t *loss, Py_ssize_t n, const double *y, const double *score, Py_ssize_t score_stride,
                      const double *base, double *out) noexcept nogil:
    skb_loss_values(loss, n, y, score, score_stride, base, out)


def gradients(loss, const double[::1] y, const double[:, ::1] score, const double[::1] base, bint hessian):
    """Return (grad, hess), float32 of shape (n_outputs, n_rows); hess is None where losses.pxd leaves it unused."""
    cdef loss_t c_loss
    cdef Py_ssize_t n = y.shape[0]
    cdef float[:, ::1] grad, hess
    cdef float *hess_out = NULL
    check_shapes(loss, y, score, base)
    loss_from_object(loss, &c_loss)
    check_kernel(&c_loss, y)
    grad_array = np.empty((c_loss.n_outputs, n), dtype=np.float32)
    hess_array = np.empty((c_loss.n_outputs, n), dtype=np.float32) if hessian or loss_needs_metric(&c_loss) else None
    if n:
        grad = grad_array
        if hess_array is not None:
            hess = hess_array
            hess_out = &hess[0, 0]
        with nogil:
            loss_gradients(&c_loss, n, &y[0], &score[0, 0], n, &base[0], hessian, &grad[0, 0], hess_out, n)
    return grad_array, hess_array


def gradients64(loss, const double[::1] y, const double[:, ::1] score, const double[::1] base, bint hessian):
    """Return (grad, hess) as `gradients` does, in float64."""
    cdef loss_t c_loss
    cdef Py_ssize_t n = y.shape[0]
    cdef double[:, ::1] grad, hess
    cdef double *hess_out = NULL
    check_shapes(loss, y, score, base)
    loss_from_object(loss, &c_loss)
    check_kernel(&c_loss, y)
    if not hessian and loss_needs_metric(&c_loss):
        raise ValueError("this loss gives double precision gradients only together with second derivatives")
    grad_array = np.empty((c_loss.n_outputs, n))
    hess_array = np.empty((c_loss.n_outputs, n)) if hessian else None
    if n:
        grad = grad_array
        if hess_array is not None:
            hess = hess_array
            hess_out = &hess[0, 0]
        with nogil:
            loss_gradients64(&c_loss, n, &y[0], &score[0, 0], n, &base[0], &grad[0, 0], hess_out, n)
    return grad_array, hess_array


def values(loss, const double[::1] y, const double[:, ::1] score, const double[::1] base, int n_threads=1):
    """Return the loss of every row, less terms that depend on y alone, as float64 of shape (n_rows,)."""
    cdef loss_t c_loss
    cdef Py_ssize_t n = y.shape[0], n_blocks = (n + BLOCK - 1) // BLOCK, block, at
    cdef double[::1] out
    check_shapes(loss, y, score, base)
    loss_from_object(loss, &c_loss)
    check_kernel(&c_loss, y)
    out_array = np.empty(n)
    if n:
        out = out_array
        for block in prange(n_blocks, schedule="static", num_threads=useful_threads(n, n_threads), nogil=True):
            at = block * BLOCK
            loss_values(&c_loss, min(n - at, <Py_ssize_t>BLOCK), &y[at], &score[0, at], n, &base[0], &out[at])
    return out_array


def weighted_mean_loss(loss, const double[::1] y, const double[:, ::1] score, const double[::1] base, weights,
                       int n_threads):
    """Return the weighted mean of `values`; the bits depend on no order of rows and on no number of threads.

    `weights` is None or a float64 array of shape (n_rows,); integer weights give the bits of repeated rows.
    """
    return weighted_mean(values(loss, y, score, base, n_threads), weights, n_threads)


def weighted_mean(const double[::1] value, weights, int n_threads=1):
    """Return sum(w v) / sum(w) as a correctly rounded quotient of exact integer sums; nan without weight.

    Values are rounded to a grid of 2^-56 and weights to one of 2^-38 of their largest magnitude before they are
    multiplied, so integer weights below 2^38 are exact and equal repeated rows.
    """
    cdef const double[::1] w
    cdef const double *weight = NULL
    cdef Py_ssize_t n = value.shape[0], n_blocks = (n + BLOCK - 1) // BLOCK, block, at, rows
    cdef int threads = useful_threads(n, n_threads)
    cdef double[:, ::1] peaks = np.zeros((threads, LINE))
    cdef uint64_t[:, ::1] sums = np.zeros((threads, LINE), dtype=np.uint64)
    cdef double *peak
    cdef double value_scale, weight_scale
    if weights is not None:
        w = weights
        if w.shape[0] != n:
            raise ValueError(f"{n} values but {w.shape[0]} weights")
        if n:
            weight = &w[0]
    if n == 0:
        return math.nan
    with nogil, parallel(num_threads=threads):
        for block in prange(n_blocks, schedule="static"):
            at = block * BLOCK
            rows = min(n - at, <Py_ssize_t>BLOCK)
            peak = &peaks[skb_thread_num(), 0]
            skb_peaks(rows, &value[at], weight + at if weight else NULL, peak, peak + 1)
    value_bits, weight_bits = grid_bits(np.asarray(peaks))
    if value_bits is None:
        return math.inf
    value_scale, weight_scale = math.ldexp(1.0, value_bits), math.ldexp(1.0, weight_bits)
    with nogil, parallel(num_threads=threads):
        for block in prange(n_blocks, schedule="static"):
            at = block * BLOCK
            rows = min(n - at, <Py_ssize_t>BLOCK)
            skb_fixed_sums(rows, &value[at], weight + at if weight else NULL, value_scale, weight_scale,
                           &sums[skb_thread_num(), 0])
    return fixed_quotient(np.asarray(sums), value_bits)


cdef grid_bits(peaks):
    """Return the binary logarithms of the two grid scales; (None, None) where a value is not finite."""
    value_peak, weight_peak = float(peaks[:, 0].max()), float(peaks[:, 1].max())
    if not (math.isfinite(value_peak) and math.isfinite(weight_peak)):
        return None, None
    # ldexp overflows beyond 2^1023; values that small vanish.
    return (min(VALUE_BITS - math.frexp(value_peak)[1], 1000), min(WEIGHT_BITS - math.frexp(weight_peak)[1], 1000))


cdef fixed_quotient(sums, value_bits):
    words = [sum(int(word) << 64 * (i & 1) for word in sums[:, i]) for i in range(4)]
    total = (words[0] + words[1]) & ((1 << 128) - 1)
    total -= (total >> 127) << 128
    weight = words[2] + words[3]
    if weight == 0:
        return math.nan
    return total / (weight << value_bits) if value_bits >= 0 else (total << -value_bits) / weight


cdef int useful_threads(Py_ssize_t n, int n_threads) noexcept nogil:
    return <int>max(1, min(<Py_ssize_t>n_threads, n // ROWS_PER_THREAD))


cdef int check_kernel(const loss_t *loss, const double[::1] y) except -1:
    if loss.kind == LOSS_GIVEN:
        raise ValueError("the gradients of this loss are given, not computed row by row")
    return check_targets(loss, y)


cdef check_shapes(loss, const double[::1] y, const double[:, ::1] score, const double[::1] base):
    if score.shape[0] != loss.n_outputs or base.shape[0] != loss.n_outputs or score.shape[1] != y.shape[0]:
        raise ValueError(
            f"score must have shape {(loss.n_outputs, y.shape[0])} and base {(loss.n_outputs,)}, "
            f"got {(score.shape[0], score.shape[1])} and {(base.shape[0],)}"
        )


def elementary(name, const double[::1] x):
    """Apply "exp", "log" or "log1p" (on [0, 1]) of the vector kernels to every element."""
    cdef int which = ("exp", "log", "log1p").index(name)
    cdef double[::1] out
    out_array = np.empty(x.shape[0])
    if x.shape[0]:
        out = out_array
        with nogil:
            skb_elementary(which, x.shape[0], &x[0], &out[0])
    return out_array
