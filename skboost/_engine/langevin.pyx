"""Noise and packing of the rows around one tree."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <math.h>
    #include <stddef.h>
    #include <stdint.h>
    #include "isa.h"
    #ifdef SKB_X86_DISPATCH
    #include <immintrin.h>
    #endif
    #define SKB_IMPL "langevin_impl.h"
    #include "isa_expand.h"
    static void skb_d_add_noise(const float *g, const float *metric, const uint32_t *h0, const uint32_t *h1,
                                const float *inv, float sigma, uint32_t k0, uint32_t k1, int n, float *out)
    { SKB_DISPATCH(skb_add_noise)(g, metric, h0, h1, inv, sigma, k0, k1, n, out); }
    static void skb_d_normals(const uint32_t *h0, const uint32_t *h1, uint32_t k0, uint32_t k1, int n, float *out)
    { SKB_DISPATCH(skb_normals)(h0, h1, k0, k1, n, out); }
    static void skb_d_scale_floats(float *a, float f, int n) { SKB_DISPATCH(skb_scale_floats)(a, f, n); }
    static void skb_d_scale_doubles(double *a, double f, int n) { SKB_DISPATCH(skb_scale_doubles)(a, f, n); }
    static float skb_d_max_abs(const float *a, int n) { return SKB_DISPATCH(skb_max_abs)(a, n); }
    static int64_t skb_d_sum_abs(const float *a, const uint32_t *w, float scale, int n)
    { return SKB_DISPATCH(skb_sum_abs)(a, w, scale, n); }
    static void skb_d_quantise(const float *a, const uint32_t *w, const uint32_t *copies, int integer, float scale,
                               int n, int32_t *out)
    { SKB_DISPATCH(skb_quantise)(a, w, copies, integer, scale, n, out); }
    static void skb_d_pack_words(const int32_t *hi, const int32_t *lo, int words, int n, int64_t *out)
    { SKB_DISPATCH(skb_pack_words)(hi, lo, words, n, out); }
    static int64_t skb_d_sum_words(const int64_t *a, int words, int n)
    { return SKB_DISPATCH(skb_sum_words)(a, words, n); }
    static int64_t skb_d_leaf_sum(const uint32_t *idx, size_t m, const float *v, float scale, const double *w,
                                  double w_scale, const uint32_t *copies)
    { return SKB_DISPATCH(skb_leaf_sum)(idx, m, v, scale, w, w_scale, copies); }
    static int64_t skb_d_kept_sum(const uint32_t *idx, size_t m, const float *v, float scale, const double *one,
                                  double w_scale, const uint32_t *kept)
    { return SKB_DISPATCH(skb_kept_sum)(idx, m, v, scale, one, w_scale, kept); }
    """
    void skb_isa_init() nogil
    int skb_isa() nogil
    void skb_d_add_noise(const float *g, const float *metric, const uint32_t *h0, const uint32_t *h1,
                         const float *inv, float sigma, uint32_t k0, uint32_t k1, int n, float *out) nogil
    void skb_d_normals(const uint32_t *h0, const uint32_t *h1, uint32_t k0, uint32_t k1, int n, float *out) nogil
    void skb_d_scale_floats(float *a, float f, int n) nogil
    void skb_d_scale_doubles(double *a, double f, int n) nogil
    float skb_d_max_abs(const float *a, int n) nogil
    int64_t skb_d_sum_abs(const float *a, const uint32_t *w, float scale, int n) nogil
    void skb_d_quantise(const float *a, const uint32_t *w, const uint32_t *copies, int integer, float scale, int n,
                        int32_t *out) nogil
    void skb_d_pack_words(const int32_t *hi, const int32_t *lo, int words, int n, int64_t *out) nogil
    int64_t skb_d_sum_words(const int64_t *a, int words, int n) nogil
    int64_t skb_d_leaf_sum(const uint32_t *idx, size_t m, const float *v, float scale, const double *w,
                           double w_scale, const uint32_t *copies) nogil
    int64_t skb_d_kept_sum(const uint32_t *idx, size_t m, const float *v, float scale, const double *one,
                           double w_scale, const uint32_t *kept) nogil

skb_isa_init()


def instruction_set():
    """Return the level of the vector kernels in use: 0 baseline, 1 AVX2, 2 AVX-512."""
    return skb_isa()


cdef void add_noise(const float *grad, const float *metric, const uint32_t *h0, const uint32_t *h1,
                    const float *inv_root_weight, float sigma, uint64_t key, int n, float *out) noexcept nogil:
    skb_d_add_noise(grad, metric, h0, h1, inv_root_weight, sigma, <uint32_t>key, <uint32_t>(key >> 32), n, out)


cdef void scale_floats(float *a, float factor, int n) noexcept nogil:
    skb_d_scale_floats(a, factor, n)


cdef void scale_doubles(double *a, double factor, int n) noexcept nogil:
    skb_d_scale_doubles(a, factor, n)


cdef float max_abs(const float *a, int n) noexcept nogil:
    return skb_d_max_abs(a, n)


cdef int64_t sum_abs(const float *a, const uint32_t *weight, float scale, int n) noexcept nogil:
    return skb_d_sum_abs(a, weight, scale, n)


cdef void quantise(const float *a, const uint32_t *weight, const uint32_t *copies, bint integer, float scale,
                   int n, int32_t *out) noexcept nogil:
    skb_d_quantise(a, weight, copies, integer, scale, n, out)


cdef void pack_words(const int32_t *hi, const int32_t *lo, int words, int n, int64_t *out) noexcept nogil:
    skb_d_pack_words(hi, lo, words, n, out)


cdef int64_t sum_words(const int64_t *a, int words, int n) noexcept nogil:
    return skb_d_sum_words(a, words, n)


cdef int64_t leaf_sum(const uint32_t *idx, size_t m, const float *value, float scale, const double *weight,
                      double weight_scale, const uint32_t *copies) noexcept nogil:
    return skb_d_leaf_sum(idx, m, value, scale, weight, weight_scale, copies)


cdef int64_t kept_sum(const uint32_t *idx, size_t m, const float *value, float scale, const double *copy_weight,
                      double weight_scale, const uint32_t *kept) noexcept nogil:
    return skb_d_kept_sum(idx, m, value, scale, copy_weight, weight_scale, kept)


def row_normals(const uint32_t[::1] h0, const uint32_t[::1] h1, uint64_t seed, int stream, int iteration, int output,
                float[::1] out):
    """Write the structure noise draws (standard normal) of the rows with hash halves h0, h1."""
    cdef uint64_t key = skb_key(seed, stream, iteration, output)
    if h0.shape[0] != h1.shape[0] or h0.shape[0] != out.shape[0]:
        raise ValueError("h0, h1 and out differ in length")
    if out.shape[0]:
        skb_d_normals(&h0[0], &h1[0], <uint32_t>key, <uint32_t>(key >> 32), <int>out.shape[0], &out[0])


def leaf_normals(uint64_t seed, int stream, int iteration, int output, double[::1] out):
    """Write the leaf noise draws (standard normal) of leaves 0, 1, ..."""
    cdef uint64_t key = skb_key(seed, stream, iteration, output)
    cdef Py_ssize_t leaf
    for leaf in range(out.shape[0]):
        out[leaf] = skb_normal(key, leaf)
