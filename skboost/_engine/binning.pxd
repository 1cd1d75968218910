# Feature tables and the value -> code search, shared by training and prediction.
from libc.stdint cimport int32_t, int64_t, uint8_t


# Borrowed pointers into the arrays of a BinMapper; the arrays must outlive the struct.
cdef struct feature_bins_t:
    int n_bins                    # largest code + 1, the missing code included
    int categorical               # 1: exact lookup in levels, 0: search in cuts
    int n_levels                  # length of levels and level_codes
    const double *cuts            # 256 ascending entries, padded with +inf; code = 1 + number of cuts strictly below x
    const double *levels          # known category values, strictly ascending
    const uint8_t *level_codes    # code of each level; a value that is no level gets code 0


# Write the codes of n values that lie stride_bytes apart to out (contiguous). NaN -> 0. A float32 value is widened to
# double and meets double cuts, so training and prediction agree whatever the type of X.
cdef void bin_block(
    const feature_bins_t *table,
    const char *x,
    Py_ssize_t stride_bytes,
    bint is_float32,
    Py_ssize_t n,
    uint8_t *out,
) noexcept nogil


# Fill one struct per feature from the arrays of a BinMapper: cuts (n_features, 256), n_bins and is_categorical
# (n_features,), level_offset (n_features + 1,) into level_values and level_codes. Returns 0.
cdef int fill_tables(
    feature_bins_t *tables,
    Py_ssize_t n_features,
    const double *cuts,
    const int32_t *n_bins,
    const uint8_t *is_categorical,
    const int64_t *level_offset,
    const double *level_values,
    const uint8_t *level_codes,
) noexcept nogil
