"""Passes over the rows for Boulevard boosting: contingency tables, residuals, sums over the cells of sampled rows.

Rows are distinct and stand for `copies` equal ones. Term t has the cells ``starts[t]:starts[t + 1]``, and row i falls
into the one at ``starts[t] + codes[t, i]``. Every sum runs in the order of the rows, in one thread.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np

# Products that wrap on purpose stay in C, where the overflow checks of the debug build do not see them.
cdef extern from *:
    """
    #include "rng.h"

    static inline uint64_t skb_copy_draw(uint64_t stream_key, uint64_t row_key, uint64_t copy)
    {
        return skb_mix64(skb_mix64(row_key ^ stream_key) + 0x9e3779b97f4a7c15ULL * (copy + 1));
    }
    """
    uint64_t skb_key(uint64_t seed, uint64_t stream, uint64_t iteration, uint64_t output) noexcept nogil
    uint64_t skb_copy_draw(uint64_t stream_key, uint64_t row_key, uint64_t copy) noexcept nogil

cdef enum:
    GRAIN = 100_000     # rows times terms per thread, about 0.1 ms: below it a thread costs more than it brings
    BLOCK = 4096        # rows of which residuals are computed together


cdef int useful_threads(Py_ssize_t work, int asked) noexcept nogil:
    return <int> max(1, min(asked, 1 + work // GRAIN))


cdef check_codes(const uint16_t[:, ::1] codes, const int64_t[::1] starts):
    """Raise ValueError unless every code has a cell."""
    sizes = np.diff(starts) if starts.shape[0] else np.empty(0)
    if starts.shape[0] == 0 or len(sizes) != codes.shape[0] or (sizes < 1).any() or starts[0] != 0:
        raise ValueError("starts does not give every term its cells")
    if codes.shape[1] and codes.shape[0] and (np.asarray(codes).max(axis=1) >= sizes).any():
        raise ValueError("codes lead out of the cells")


def contingency(
    const uint16_t[:, ::1] codes, const int64_t[::1] starts, const int64_t[::1] copies, int n_threads,
):
    """Return how many copies fall into each pair of cells, float64 of shape (n_cells, n_cells); counts are exact."""
    cdef Py_ssize_t n_terms = codes.shape[0], n = codes.shape[1], n_pairs = n_terms * (n_terms + 1) // 2, task
    cdef int failed = 0
    check_codes(codes, starts)
    if copies.shape[0] != n:
        raise ValueError("copies needs one entry per row")
    table = np.zeros((starts[n_terms], starts[n_terms]))
    if n == 0 or n_terms == 0:
        return table
    cdef double[:, ::1] out = table
    first, second = np.triu_indices(n_terms)
    cdef const int64_t[::1] left = first.astype(np.int64), right = second.astype(np.int64)
    n_threads = useful_threads(n * n_pairs, n_threads)
    for task in prange(n_pairs, nogil=True, num_threads=n_threads, schedule="dynamic"):
        failed += count_pair(codes, starts, copies, left[task], right[task], out)
    if failed:
        raise MemoryError
    return table


cdef int count_pair(
    const uint16_t[:, ::1] codes,
    const int64_t[::1] starts,
    const int64_t[::1] copies,
    Py_ssize_t t,
    Py_ssize_t u,
    double[:, ::1] out,
) noexcept nogil:
    """Count the block of two terms and its mirror; 1 without memory."""
    cdef Py_ssize_t n = codes.shape[1], i, a, b
    cdef Py_ssize_t size_t_ = starts[t + 1] - starts[t], size_u = starts[u + 1] - starts[u]
    cdef const uint16_t *p = &codes[t, 0]
    cdef const uint16_t *q = &codes[u, 0]
    cdef int64_t *table = <int64_t *> calloc(size_t_ * size_u, sizeof(int64_t))
    if table == NULL:
        return 1
    for i in range(n):
        table[p[i] * size_u + q[i]] += copies[i]
    for a in range(size_t_):
        for b in range(size_u):
            out[starts[t] + a, starts[u] + b] = <double> table[a * size_u + b]
            out[starts[u] + b, starts[t] + a] = <double> table[a * size_u + b]
    free(table)
    return 0


def times(const double[:, ::1] table, const double[::1] scores):
    """Return the product of a symmetric table and a vector, summed in the order of the cells on any machine."""
    cdef Py_ssize_t m = table.shape[0], a, b
    cdef double factor
    if table.shape[1] != m or scores.shape[0] != m:
        raise ValueError("table and scores differ in size")
    product = np.zeros(m)
    cdef double[::1] out = product
    with nogil:
        for a in range(m):
            factor = scores[a]
            if factor != 0.0:
                for b in range(m):
                    out[b] += factor * table[a, b]
    return product


def residuals(
    const uint16_t[:, ::1] codes,
    const int64_t[::1] starts,
    const double[::1] target,
    const double[::1] scores,
    int n_threads,
):
    """Return the target of every row less the scores of its cells."""
    cdef Py_ssize_t n_terms = codes.shape[0], n = codes.shape[1], block
    check_codes(codes, starts)
    if target.shape[0] != n or scores.shape[0] != starts[n_terms]:
        raise ValueError("target needs one entry per row and scores one per cell")
    left = np.array(target)
    if n == 0:
        return left
    cdef double[::1] out = left
    n_threads = useful_threads(n * n_terms, n_threads)
    for block in prange((n + BLOCK - 1) // BLOCK, nogil=True, num_threads=n_threads, schedule="static"):
        subtract(codes, starts, scores, block * BLOCK, min(n, (block + 1) * BLOCK), out)
    return left


cdef void subtract(
    const uint16_t[:, ::1] codes,
    const int64_t[::1] starts,
    const double[::1] scores,
    Py_ssize_t first,
    Py_ssize_t last,
    double[::1] out,
) noexcept nogil:
    cdef Py_ssize_t t, i
    cdef const uint16_t *code
    cdef const double *cell
    for t in range(codes.shape[0]):
        code, cell = &codes[t, 0], &scores[starts[t]]
        for i in range(first, last):
            out[i] -= cell[code[i]]


def sampled_sums(
    const uint16_t[:, ::1] codes,
    const int64_t[::1] starts,
    const double[::1] values,
    const uint64_t[::1] keys,
    const int64_t[::1] copies,
    double fraction,
    bint halves,
    uint64_t seed,
    uint64_t stream,
    uint64_t iteration,
    int n_threads,
):
    """Draw copies for every term by itself; return their numbers and sums of values in the cells.

    Each copy is drawn with probability `fraction`; where none is, the one of the smallest draw is taken. With `halves`
    every drawn copy goes to the first or the second half by a coin. Both arrays have the shape (2, n_cells); without
    `halves` the second part repeats the first.
    """
    cdef Py_ssize_t n_terms = codes.shape[0], n = codes.shape[1], t
    cdef uint64_t limit = 0 if fraction >= 1 else <uint64_t> int(fraction * 2.0**64)
    cdef bint everything = fraction >= 1
    check_codes(codes, starts)
    if values.shape[0] != n or keys.shape[0] != n or copies.shape[0] != n:
        raise ValueError("values, keys and copies need one entry per row")
    counts_array, sums_array = np.zeros((2, starts[n_terms])), np.zeros((2, starts[n_terms]))
    if n == 0:
        return counts_array, sums_array
    cdef double[:, ::1] counts = counts_array, sums = sums_array
    n_threads = useful_threads(n * n_terms, n_threads)
    for t in prange(n_terms, nogil=True, num_threads=n_threads, schedule="dynamic"):
        draw_term(&codes[t, 0], starts[t], values, keys, copies, everything, limit, halves,
                  skb_key(seed, stream, iteration, t), counts, sums)
    if not halves:
        counts_array[1], sums_array[1] = counts_array[0], sums_array[0]
    return counts_array, sums_array


cdef void draw_term(
    const uint16_t *code,
    Py_ssize_t start,
    const double[::1] values,
    const uint64_t[::1] keys,
    const int64_t[::1] copies,
    bint everything,
    uint64_t limit,
    bint halves,
    uint64_t stream_key,
    double[:, ::1] counts,
    double[:, ::1] sums,
) noexcept nogil:
    cdef Py_ssize_t i, cell, least_row = 0
    cdef int64_t copy, drawn
    cdef int64_t found[2]
    cdef uint64_t draw, least = ~(<uint64_t> 0)
    drawn = 0
    for i in range(values.shape[0]):
        found[0] = 0
        found[1] = 0
        if everything and not halves:
            found[0] = copies[i]
        else:
            for copy in range(copies[i]):
                draw = skb_copy_draw(stream_key, keys[i], copy)
                if draw < least:
                    least, least_row = draw, i
                # the coin is the lowest bit, on which the comparison does not depend
                if everything or draw < limit:
                    found[halves and draw & 1] += 1
        cell = start + code[i]
        counts[0, cell] += found[0]
        sums[0, cell] += found[0] * values[i]
        if halves:
            counts[1, cell] += found[1]
            sums[1, cell] += found[1] * values[i]
        drawn += found[0] + found[1]
    if drawn == 0:
        cell = start + code[least_row]
        counts[0, cell] += 1
        sums[0, cell] += values[least_row]
