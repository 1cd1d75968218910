"""Products with the indicators of the leaves of many trees, without the matrix: sums over leaves, and back to rows.

Row i of tree t lies in leaf ``codes[t, i]`` of the ``offset[t + 1] - offset[t]`` leaves of that tree. Every sum is made
by one thread in the order of the rows, or of the trees, so that the number of threads has no influence.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint8_t, uint16_t

import numpy as np

ctypedef fused code_t:
    uint8_t
    uint16_t

cdef enum:
    BLOCK = 256            # rows whose columns stay in the first cache while trees go by
    GRAIN = 200_000        # additions per thread, about 0.1 ms: below it a thread costs more than it brings


def leaf_sums(const code_t[:, ::1] codes, const int64_t[::1] offset, const double[:, ::1] columns, int n_threads=1):
    """Return the sums of each column over the rows of each leaf.

    Parameters
    ----------
    codes : uint8 or uint16 array of shape (n_trees, n_rows)
    offset : int64 array of shape (n_trees + 1,)
    columns : float64 array of shape (n_rows, n_columns)
    n_threads : int, default=1
        Upper limit; no influence on the result.

    Returns
    -------
    float64 array of shape (n_leaves, n_columns)
    """
    cdef Py_ssize_t n = codes.shape[1], k = columns.shape[1], part, parts
    check(np.asarray(codes), np.asarray(offset))
    if columns.shape[0] != n:
        raise ValueError("columns need one row per row of the codes")
    cdef double[:, ::1] out = np.zeros((offset[offset.shape[0] - 1], k))
    parts = useful_threads(codes.shape[0] * n * k, min(<Py_ssize_t>n_threads, codes.shape[0]))
    if n and k and codes.shape[0]:
        for part in prange(parts, nogil=True, num_threads=<int>parts, schedule="static"):
            sum_trees(codes, &offset[0], &columns[0, 0], k, codes.shape[0] * part // parts,
                      codes.shape[0] * (part + 1) // parts, &out[0, 0])
    return np.asarray(out)


def leaf_values(const code_t[:, ::1] codes, const int64_t[::1] offset, const double[:, ::1] values, int n_threads=1):
    """Return for each row the sum, over the trees, of the values of its leaves.

    Parameters
    ----------
    codes : uint8 or uint16 array of shape (n_trees, n_rows)
    offset : int64 array of shape (n_trees + 1,)
    values : float64 array of shape (n_leaves, n_columns)
    n_threads : int, default=1
        Upper limit; no influence on the result.

    Returns
    -------
    float64 array of shape (n_rows, n_columns)
    """
    cdef Py_ssize_t n = codes.shape[1], k = values.shape[1], part, parts
    check(np.asarray(codes), np.asarray(offset))
    if values.shape[0] != offset[offset.shape[0] - 1]:
        raise ValueError("values need one row per leaf")
    cdef double[:, ::1] out = np.zeros((n, k))
    parts = useful_threads(codes.shape[0] * n * k, min(<Py_ssize_t>n_threads, n))
    if n and k and codes.shape[0]:
        for part in prange(parts, nogil=True, num_threads=<int>parts, schedule="static"):
            add_values(codes, &offset[0], &values[0, 0], k, n * part // parts, n * (part + 1) // parts, &out[0, 0])
    return np.asarray(out)


cdef Py_ssize_t useful_threads(Py_ssize_t work, Py_ssize_t asked) noexcept nogil:
    return max(<Py_ssize_t>1, min(asked, 1 + work // GRAIN))


def check(codes, offset):
    """Raise ValueError unless every code lies inside its tree."""
    if offset.ndim != 1 or len(offset) != len(codes) + 1 or offset[0] != 0 or (np.diff(offset) < 1).any():
        raise ValueError("offset must ascend from 0, with one entry more than there are trees")
    if codes.size and (codes.max(axis=1) >= np.diff(offset)).any():
        raise ValueError("codes lead out of the leaves of their tree")


cdef void sum_trees(const code_t[:, ::1] codes, const int64_t *offset, const double *columns, Py_ssize_t k,
                    Py_ssize_t begin, Py_ssize_t end, double *out) noexcept nogil:
    cdef Py_ssize_t n = codes.shape[1], first, last, t, i, j, block
    cdef const double *row
    cdef double *leaf
    for block in range((n + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        last = min(n, first + BLOCK)
        for t in range(begin, end):
            for i in range(first, last):
                row = columns + i * k
                leaf = out + (offset[t] + codes[t, i]) * k
                for j in range(k):
                    leaf[j] += row[j]


cdef void add_values(const code_t[:, ::1] codes, const int64_t *offset, const double *values, Py_ssize_t k,
                     Py_ssize_t begin, Py_ssize_t end, double *out) noexcept nogil:
    cdef Py_ssize_t first, last, t, i, j, block
    cdef const double *leaf
    cdef double *row
    for block in range((end - begin + BLOCK - 1) // BLOCK):
        first = begin + block * BLOCK
        last = min(end, first + BLOCK)
        for t in range(codes.shape[0]):
            for i in range(first, last):
                row = out + i * k
                leaf = values + (offset[t] + codes[t, i]) * k
                for j in range(k):
                    row[j] += leaf[j]
