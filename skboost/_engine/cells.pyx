"""Cells of the additive models: values to 16-bit cells, hashes of rows of cells, chosen rows.

Cell 0 holds missing values, the value cells follow, and the last cell of a column takes levels never seen in training.
X is read in place: float32 or float64, any strides, read-only or not.
"""

from cython.parallel cimport prange
from libc.math cimport NAN
from libc.stdint cimport int64_t, uint16_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

cdef extern from "cells.h" nogil:
    const int SKB_CELL_BLOCK
    ctypedef struct skb_cell_column:
        const double *table
        int first_step
        int n_levels

    void skb_isa_init()
    int skb_first_step(Py_ssize_t n_cuts) noexcept
    void skb_map_cells(
        const skb_cell_column *column, const char *x, Py_ssize_t stride, int is_float32, int n, uint16_t *out
    ) noexcept
    void skb_hash_rows(
        const uint16_t *cells, Py_ssize_t stride, Py_ssize_t n_features, int n, uint64_t *hash
    ) noexcept

skb_isa_init()

ctypedef fused value_t:
    float
    double

cdef enum:
    MOST_CELLS = 65536
    MAP_GRAIN = 100_000     # values per thread, about 0.4 ms: below it a thread costs more than it brings
    HASH_GRAIN = 500_000
    TAKE_GRAIN = 100_000
    TAKE_BLOCK = 8192       # rows gathered from one column after the other


cdef int _useful_threads(Py_ssize_t work, Py_ssize_t grain, int asked) noexcept nogil:
    return <int> max(1, min(asked, 1 + work // grain))


# ---- values to cells -------------------------------------------------------------------------------------------------


def transform(
    const value_t[:, :] X,
    const double[::1] cuts,
    const int64_t[::1] cut_offset,
    const int64_t[::1] n_levels,
    int n_threads,
):
    """Return the cells of X, uint16 of shape (n_features, n_rows).

    Column j is numeric if ``n_levels[j]`` is -1, with the ascending cuts ``cuts[cut_offset[j]:cut_offset[j + 1]]``,
    else it holds positions of that many levels.
    """
    cdef Py_ssize_t n = X.shape[0], n_features = X.shape[1], block
    cdef Py_ssize_t n_blocks = (n + SKB_CELL_BLOCK - 1) // SKB_CELL_BLOCK
    _check_tables(cuts.shape[0], np.asarray(cut_offset), np.asarray(n_levels), n_features)
    cells_array = np.empty((n_features, n), dtype=np.uint16)
    if n == 0 or n_features == 0:
        return cells_array
    cdef uint16_t[:, ::1] cells = cells_array
    cdef skb_cell_column *columns = <skb_cell_column *> malloc(n_features * sizeof(skb_cell_column))
    cdef double *tables = _pad_cuts(cuts, cut_offset, n_levels, columns)
    cdef const char *x = <const char *> &X[0, 0]
    cdef Py_ssize_t row_stride = X.strides[0], column_stride = X.strides[1]
    cdef uint16_t *out = &cells[0, 0]
    if tables == NULL:
        free(columns)
        raise MemoryError
    n_threads = _useful_threads(n * n_features, MAP_GRAIN, n_threads)
    for block in prange(n_blocks, nogil=True, num_threads=n_threads, schedule="static"):
        _map_block(
            columns, x + block * SKB_CELL_BLOCK * row_stride, row_stride, column_stride, value_t is float,
            block * SKB_CELL_BLOCK, n, n_features, out,
        )
    free(tables)
    free(columns)
    return cells_array


def _check_tables(Py_ssize_t n_cuts, cut_offset, n_levels, Py_ssize_t n_features):
    """Raise ValueError unless the tables describe columns whose cells fit 16 bits."""
    if len(cut_offset) != n_features + 1 or len(n_levels) != n_features:
        raise ValueError("the tables of the mapper do not match the columns of X")
    lengths = np.diff(cut_offset)
    in_range = ((lengths >= 0) & (lengths < MOST_CELLS - 2)).all()
    if cut_offset[0] != 0 or cut_offset[n_features] != n_cuts or not in_range:
        raise ValueError("cut_offset does not divide the cuts")
    if (n_levels < -1).any() or (n_levels > MOST_CELLS - 2).any():
        raise ValueError("n_levels is out of range")


cdef double *_pad_cuts(
    const double[::1] cuts, const int64_t[::1] cut_offset, const int64_t[::1] n_levels, skb_cell_column *columns
) noexcept:
    """Describe the columns; returns the memory of their tables of cuts, NULL when there is none."""
    cdef Py_ssize_t feature, k, size = 1, n_features = n_levels.shape[0], n_cuts
    cdef double *tables
    cdef double *table
    if columns == NULL:
        return NULL
    for feature in range(n_features):
        n_cuts = cut_offset[feature + 1] - cut_offset[feature]
        columns[feature].n_levels = <int> n_levels[feature]
        columns[feature].first_step = skb_first_step(n_cuts) if n_levels[feature] < 0 else 0
        size += 2 * columns[feature].first_step
    tables = table = <double *> malloc(size * sizeof(double))
    if tables == NULL:
        return NULL
    for feature in range(n_features):
        columns[feature].table = table
        n_cuts = cut_offset[feature + 1] - cut_offset[feature]
        for k in range(2 * columns[feature].first_step):
            table[k] = cuts[cut_offset[feature] + k] if k < n_cuts else NAN
        table += 2 * columns[feature].first_step
    return tables


cdef void _map_block(
    const skb_cell_column *columns,
    const char *x,
    Py_ssize_t row_stride,
    Py_ssize_t column_stride,
    bint is_float32,
    Py_ssize_t start,
    Py_ssize_t n,
    Py_ssize_t n_features,
    uint16_t *out,                  # OUT (n_features, n)
) noexcept nogil:
    cdef Py_ssize_t feature
    cdef int size = <int> min(<Py_ssize_t> SKB_CELL_BLOCK, n - start)
    for feature in range(n_features):
        skb_map_cells(
            &columns[feature], x + feature * column_stride, row_stride, is_float32, size, out + feature * n + start
        )


# ---- rows ------------------------------------------------------------------------------------------------------------


def row_hashes(const uint16_t[:, ::1] cells, int n_threads):
    """Return a 64-bit hash of the cells of every row, uint64 of shape (n_rows,)."""
    cdef Py_ssize_t n_features = cells.shape[0], n = cells.shape[1], block
    cdef Py_ssize_t n_blocks = (n + SKB_CELL_BLOCK - 1) // SKB_CELL_BLOCK
    hashes_array = np.zeros(n, dtype=np.uint64)
    if n == 0 or n_features == 0:
        return hashes_array
    cdef uint64_t[::1] hashes = hashes_array
    cdef const uint16_t *source = &cells[0, 0]
    cdef uint64_t *out = &hashes[0]
    n_threads = _useful_threads(n * n_features, HASH_GRAIN, n_threads)
    for block in prange(n_blocks, nogil=True, num_threads=n_threads, schedule="static"):
        skb_hash_rows(
            source + block * SKB_CELL_BLOCK, n, n_features,
            <int> min(<Py_ssize_t> SKB_CELL_BLOCK, n - block * SKB_CELL_BLOCK), out + block * SKB_CELL_BLOCK,
        )
    return hashes_array


def take_rows(const uint16_t[:, ::1] cells, const int64_t[::1] rows, int n_threads):
    """Return ``cells[:, rows]`` as a C-ordered array."""
    cdef Py_ssize_t n_features = cells.shape[0], n = cells.shape[1], m = rows.shape[0], task
    cdef Py_ssize_t n_blocks = (m + TAKE_BLOCK - 1) // TAKE_BLOCK
    taken_array = np.empty((n_features, m), dtype=np.uint16)
    if m == 0 or n_features == 0:
        return taken_array
    if np.min(rows) < 0 or np.max(rows) >= n:
        raise ValueError("rows lead out of the cells")
    cdef uint16_t[:, ::1] taken = taken_array
    n_threads = _useful_threads(m * n_features, TAKE_GRAIN, n_threads)
    for task in prange(n_blocks * n_features, nogil=True, num_threads=n_threads, schedule="static"):
        _take_block(
            &cells[task % n_features, 0], &rows[0], task // n_features * TAKE_BLOCK, m, &taken[task % n_features, 0]
        )
    return taken_array


cdef void _take_block(
    const uint16_t *column, const int64_t *rows, Py_ssize_t start, Py_ssize_t m, uint16_t *out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(start, min(m, start + TAKE_BLOCK)):
        out[i] = column[rows[i]]
