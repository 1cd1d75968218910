"""Histograms of packed gradient sums."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

import numpy as np

cdef extern from *:
    """
    #include "isa.h"
    #include "hist.h"
    #define SKB_IMPL "hist_impl.h"
    #include "isa_expand.h"
    static void skb_d_add_words(int64_t *into, const int64_t *part, size_t n)
    { SKB_DISPATCH(skb_add_words)(into, part, n); }
    static void skb_d_subtract_words(int64_t *from, const int64_t *part, size_t n)
    { SKB_DISPATCH(skb_subtract_words)(from, part, n); }
    """
    void skb_isa_init() nogil
    void skb_d_add_words(int64_t *into, const int64_t *part, size_t n) nogil
    void skb_d_subtract_words(int64_t *into, const int64_t *part, size_t n) nogil
    void skb_hist_columns(const uint8_t *codes_col, size_t n_rows, size_t r0, size_t r1, const int64_t *packed,
                          int words, const int32_t *features, int n_features, size_t stride, int64_t *hist) nogil
    void skb_hist_rows(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                       const int64_t *packed, int words, int f0, int f1, size_t stride, int64_t *hist) nogil
    void skb_hist_listed(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                         const int64_t *packed, int words, const int32_t *features, int n_features, size_t stride,
                         int64_t *hist) nogil
    void skb_hist_weights(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                          const uint32_t *weight, const int32_t *features, int n_features, size_t stride,
                          uint32_t *hist) nogil
    int64_t skb_pack(int32_t hi, int32_t lo) nogil
    int32_t skb_hi(int64_t v) nogil
    int32_t skb_lo(int64_t v) nogil
    const int SKB_PREFETCH_ROWS

skb_isa_init()


cdef void hist_columns(const uint8_t *codes_col, size_t n_rows, size_t r0, size_t r1, const int64_t *packed,
                       int n_words, const int32_t *features, int n_features, size_t stride,
                       int64_t *hist) noexcept nogil:
    skb_hist_columns(codes_col, n_rows, r0, r1, packed, n_words, features, n_features, stride, hist)


cdef void hist_rows(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m, const int64_t *packed,
                    int n_words, int f0, int f1, size_t stride, int64_t *hist) noexcept nogil:
    skb_hist_rows(codes_row, row_stride, idx, m, packed, n_words, f0, f1, stride, hist)


cdef void hist_listed(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m, const int64_t *packed,
                      int n_words, const int32_t *features, int n_features, size_t stride,
                      int64_t *hist) noexcept nogil:
    skb_hist_listed(codes_row, row_stride, idx, m, packed, n_words, features, n_features, stride, hist)


cdef void hist_weights(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                       const uint32_t *weight, const int32_t *features, int n_features, size_t stride,
                       uint32_t *hist) noexcept nogil:
    skb_hist_weights(codes_row, row_stride, idx, m, weight, features, n_features, stride, hist)


cdef void add_words(int64_t *into, const int64_t *part, size_t n) noexcept nogil:
    skb_d_add_words(into, part, n)


cdef void subtract_words(int64_t *into, const int64_t *part, size_t n) noexcept nogil:
    skb_d_subtract_words(into, part, n)


# ---------------------------------------------------------------- doors

cdef int check(Py_ssize_t n_rows, const uint32_t[::1] rows, const int32_t[::1] features, Py_ssize_t n_features,
               codes_fit) except -1:
    """Raise unless rows and features lie in their ranges and every code has an entry."""
    if rows.shape[0] and np.max(rows) >= n_rows:
        raise ValueError("rows lead out of the codes")
    if features.shape[0] and (np.min(features) < 0 or np.max(features) >= n_features):
        raise ValueError("features lead out of the codes")
    if not codes_fit:
        raise ValueError("codes lead out of the histogram")
    return 0


def build(const uint8_t[:, ::1] codes, const uint32_t[::1] rows, const int64_t[:, ::1] packed,
          const int32_t[::1] features, int64_t[:, :, ::1] hist, bint listed=True):
    """Add the packed words (n_rows, n_words) of `rows` to hist (n_features, stride, n_words), for the features.

    codes are row by row. Unless listed, the features must be a range.
    """
    cdef uint32_t[::1] padded = np.append(np.asarray(rows), np.zeros(SKB_PREFETCH_ROWS,
                                                                     dtype=np.uint32)).astype(np.uint32)
    cdef int n_words = <int>packed.shape[1]
    check(codes.shape[0], rows, features, min(codes.shape[1], hist.shape[0]), np.max(codes) < hist.shape[1])
    if packed.shape[0] != codes.shape[0] or hist.shape[2] != n_words:
        raise ValueError("codes, packed and hist differ in shape")
    if features.shape[0] == 0 or rows.shape[0] == 0:
        return
    if listed:
        skb_hist_listed(&codes[0, 0], codes.shape[1], &padded[0], rows.shape[0], &packed[0, 0], n_words, &features[0],
                        <int>features.shape[0], hist.shape[1], &hist[0, 0, 0])
        return
    if features[features.shape[0] - 1] - features[0] != features.shape[0] - 1:
        raise ValueError("features must be a range")
    skb_hist_rows(&codes[0, 0], codes.shape[1], &padded[0], rows.shape[0], &packed[0, 0], n_words, features[0],
                  features[features.shape[0] - 1] + 1, hist.shape[1], &hist[0, 0, 0])


def build_columns(const uint8_t[:, ::1] codes_col, Py_ssize_t first, Py_ssize_t last, const int64_t[:, ::1] packed,
                  const int32_t[::1] features, int64_t[:, :, ::1] hist):
    """Add the packed words of the rows [first, last) to hist, for the features; codes are column by column."""
    check(codes_col.shape[1], np.arange(first, last, dtype=np.uint32), features,
          min(codes_col.shape[0], hist.shape[0]), np.max(codes_col) < hist.shape[1])
    if packed.shape[0] != codes_col.shape[1] or hist.shape[2] != packed.shape[1]:
        raise ValueError("codes, packed and hist differ in shape")
    if features.shape[0] and last > first:
        skb_hist_columns(&codes_col[0, 0], codes_col.shape[1], first, last, &packed[0, 0], <int>packed.shape[1],
                         &features[0], <int>features.shape[0], hist.shape[1], &hist[0, 0, 0])


def build_weights(const uint8_t[:, ::1] codes, const uint32_t[::1] rows, const uint32_t[::1] weight,
                  const int32_t[::1] features, uint32_t[:, ::1] hist):
    """Add the weights (None: ones) of `rows` to hist (n_features, stride), for the features; codes are row by row."""
    check(codes.shape[0], rows, features, min(codes.shape[1], hist.shape[0]), np.max(codes) < hist.shape[1])
    if weight is not None and weight.shape[0] != codes.shape[0]:
        raise ValueError("weight needs one entry per row")
    if features.shape[0] and rows.shape[0]:
        skb_hist_weights(&codes[0, 0], codes.shape[1], &rows[0], rows.shape[0], NULL if weight is None else &weight[0],
                         &features[0], <int>features.shape[0], hist.shape[1], &hist[0, 0])


def merge(int64_t[::1] into, const int64_t[::1] part, bint subtract=False):
    """Add `part` to `into`, or subtract it."""
    if into.shape[0] != part.shape[0]:
        raise ValueError("into and part differ in length")
    if into.shape[0] and subtract:
        skb_d_subtract_words(&into[0], &part[0], into.shape[0])
    elif into.shape[0]:
        skb_d_add_words(&into[0], &part[0], into.shape[0])


def pack(int32_t high, int32_t low):
    """Return the word that holds both numbers."""
    return skb_pack(high, low)


def unpack(int64_t word):
    """Return (high, low) of a word."""
    return skb_hi(word), skb_lo(word)
