from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


cdef extern from "rng.h" nogil:
    uint64_t skb_key(uint64_t seed, uint64_t stream, uint64_t iteration, uint64_t output) noexcept
    double skb_normal(uint64_t key, uint64_t counter) noexcept

cdef extern from "rows.h" nogil:
    int64_t skb_weight_sum(const uint32_t *idx, size_t m, const double *weight, double scale,
                           const uint32_t *copies) noexcept
    uint64_t skb_count_sum(const uint32_t *idx, size_t m, const uint32_t *weight) noexcept
    void skb_add_value(const uint32_t *idx, size_t m, double value, double *score) noexcept
    void skb_identity(uint32_t *idx, size_t r0, size_t r1) noexcept

cdef void add_noise(const float *grad, const float *metric, const uint32_t *h0, const uint32_t *h1,
                    const float *inv_root_weight, float sigma, uint64_t key, int n, float *out) noexcept nogil
cdef void scale_floats(float *a, float factor, int n) noexcept nogil
cdef void scale_doubles(double *a, double factor, int n) noexcept nogil
cdef float max_abs(const float *a, int n) noexcept nogil
cdef int64_t sum_abs(const float *a, const uint32_t *weight, float scale, int n) noexcept nogil
cdef void quantise(const float *a, const uint32_t *weight, const uint32_t *copies, bint integer, float scale,
                   int n, int32_t *out) noexcept nogil
cdef void pack_words(const int32_t *hi, const int32_t *lo, int words, int n, int64_t *out) noexcept nogil
cdef int64_t leaf_sum(const uint32_t *idx, size_t m, const float *value, float scale, const double *weight,
                      double weight_scale, const uint32_t *copies) noexcept nogil
cdef int64_t kept_sum(const uint32_t *idx, size_t m, const float *value, float scale, const double *copy_weight,
                      double weight_scale, const uint32_t *kept) noexcept nogil
cdef int64_t sum_words(const int64_t *a, int words, int n) noexcept nogil
