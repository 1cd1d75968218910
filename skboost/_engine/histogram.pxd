from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

# Histograms of `n_words` int64 per entry and `stride` entries per feature; sums are added to what hist holds. idx
# must be readable PREFETCHED entries beyond m.
cdef enum:
    PREFETCHED = 16

# All rows [r0, r1) through the column copy, for the listed features.
cdef void hist_columns(const uint8_t *codes_col, size_t n_rows, size_t r0, size_t r1, const int64_t *packed,
                       int n_words, const int32_t *features, int n_features, size_t stride,
                       int64_t *hist) noexcept nogil
# The rows idx[0..m) through the row copy, for the features [f0, f1) or for the listed ones.
cdef void hist_rows(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m, const int64_t *packed,
                    int n_words, int f0, int f1, size_t stride, int64_t *hist) noexcept nogil
cdef void hist_listed(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m, const int64_t *packed,
                      int n_words, const int32_t *features, int n_features, size_t stride, int64_t *hist) noexcept nogil
# Row weights alone; weight NULL: ones.
cdef void hist_weights(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                       const uint32_t *weight, const int32_t *features, int n_features, size_t stride,
                       uint32_t *hist) noexcept nogil
cdef void add_words(int64_t *into, const int64_t *part, size_t n) noexcept nogil
cdef void subtract_words(int64_t *into, const int64_t *part, size_t n) noexcept nogil
