"""Partition of the rows of a node by one test."""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

import numpy as np

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #include "isa.h"
    #ifdef SKB_X86_DISPATCH
    #include <immintrin.h>
    #endif
    #define SKB_IMPL "partition_impl.h"
    #include "isa_expand.h"
    static size_t skb_d_partition(const uint8_t *col, size_t before, size_t after, int contiguous, uint32_t *idx,
                                  size_t m, const uint8_t *left_codes, uint32_t *buffer)
    { return SKB_DISPATCH(skb_partition)(col, before, after, contiguous, idx, m, left_codes, buffer); }
    """
    void skb_isa_init() nogil
    size_t skb_d_partition(const uint8_t *col, size_t before, size_t after, int contiguous, uint32_t *idx, size_t m,
                           const uint8_t *left_codes, uint32_t *buffer) nogil

skb_isa_init()


cdef size_t partition_rows(const uint8_t *col, size_t before, size_t after, bint contiguous, uint32_t *idx, size_t m,
                           const uint8_t *left_codes, uint32_t *buffer) noexcept nogil:
    return skb_d_partition(col, before, after, contiguous, idx, m, left_codes, buffer)


cdef void numeric_codes(int bin, bint missing_right, uint8_t *left_codes) noexcept nogil:
    memset(left_codes, 0, 256)
    memset(left_codes, 1, bin + 1)
    left_codes[0] = not missing_right


cdef void set_codes(const uint8_t *left_set, uint8_t *left_codes) noexcept nogil:
    cdef int code
    for code in range(256):
        left_codes[code] = (left_set[code >> 3] >> (code & 7)) & 1


def partition(const uint8_t[:, ::1] codes_col, Py_ssize_t feature, uint32_t[::1] rows, const uint8_t[::1] left_codes):
    """Partition `rows` in place by a column, left rows first, both in their order; return how many go left."""
    cdef Py_ssize_t n_features = codes_col.shape[0]
    cdef Py_ssize_t n_rows = codes_col.shape[1]
    cdef uint32_t[::1] buffer = np.empty(rows.shape[0] + 1, dtype=np.uint32)
    if left_codes.shape[0] != 256 or not 0 <= feature < n_features:
        raise ValueError("left_codes needs 256 entries and feature must be a row of codes_col")
    if rows.shape[0] == 0:
        return 0
    if np.max(rows) >= n_rows or n_rows > 2**31 - 1:
        raise ValueError("rows lead out of the column")
    contiguous = bool(np.all(np.diff(rows) == 1))
    return skb_d_partition(&codes_col[feature, 0], feature * n_rows, (n_features - 1 - feature) * n_rows, contiguous,
                           &rows[0], rows.shape[0], &left_codes[0], &buffer[0])
