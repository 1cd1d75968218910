"""Values to codes, thresholds, and hashes of code rows."""

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "binning.h" nogil:
    void skb_bin_numeric(
        const double *cuts, const char *x, Py_ssize_t stride, int is_float32, Py_ssize_t n, uint8_t *out
    ) noexcept
    void skb_bin_categorical(
        const double *levels, const uint8_t *level_codes, Py_ssize_t n_levels, const char *x, Py_ssize_t stride,
        int is_float32, Py_ssize_t n, uint8_t *out
    ) noexcept


cdef void bin_block(
    const feature_bins_t *table,
    const char *x,
    Py_ssize_t stride_bytes,
    bint is_float32,
    Py_ssize_t n,
    uint8_t *out,
) noexcept nogil:
    if table.categorical:
        skb_bin_categorical(table.levels, table.level_codes, table.n_levels, x, stride_bytes, is_float32, n, out)
    else:
        skb_bin_numeric(table.cuts, x, stride_bytes, is_float32, n, out)


cdef int fill_tables(
    feature_bins_t *tables,
    Py_ssize_t n_features,
    const double *cuts,
    const int32_t *n_bins,
    const uint8_t *is_categorical,
    const int64_t *level_offset,
    const double *level_values,
    const uint8_t *level_codes,
) noexcept nogil:
    cdef Py_ssize_t feature
    for feature in range(n_features):
        tables[feature].n_bins = n_bins[feature]
        tables[feature].categorical = is_categorical[feature]
        tables[feature].n_levels = <int> (level_offset[feature + 1] - level_offset[feature])
        tables[feature].cuts = cuts + 256 * feature
        tables[feature].levels = level_values + level_offset[feature]
        tables[feature].level_codes = level_codes + level_offset[feature]
    return 0
