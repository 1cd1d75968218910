/* Row loops around a tree: structure noise, magnitude sums, quantised packing. */

/* 32-bit finaliser (constants of the hash-prospector project). */
static inline SKB_TARGET uint32_t SKB_FN(skb_mix)(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x21f0aaadu;
    x ^= x >> 15;
    x *= 0xd35a2d97u;
    x ^= x >> 15;
    return x;
}

/* Box-Muller in single precision from two 32-bit hashes; |z| <= 5.8. */
static inline SKB_TARGET float SKB_FN(skb_gauss)(uint32_t a, uint32_t b)
{
    union { float f; uint32_t i; } u, m;
    u.f = ((float)(int32_t)(a >> 8) + 0.5f) * 0x1.0p-24f;
    int32_t e = (int32_t)((u.i + 0x004afb0du) >> 23) - 127;  /* mantissa in [0.7071, 1.4142) */
    m.i = u.i - ((uint32_t)e << 23);
    float t = m.f - 1.0f, z = t * t;
    float p = 7.0376836292e-2f;
    p = p * t - 1.1514610310e-1f;
    p = p * t + 1.1676998740e-1f;
    p = p * t - 1.2420140846e-1f;
    p = p * t + 1.4249322787e-1f;
    p = p * t - 1.6668057665e-1f;
    p = p * t + 2.0000714765e-1f;
    p = p * t - 2.4999993993e-1f;
    p = p * t + 3.3333331174e-1f;
    float log_u = (float)e * 0.69314718f + (t + z * (t * p - 0.5f));
    float v = (float)(int32_t)(b >> 8) * 0x1.0p-24f - 0.5f;
    float s = (v < 0.0f ? -v : v) - 0.25f;
    float x = 6.2831853f * s, w = x * x;
    float q = -2.3889859e-8f;
    q = q * w + 2.7525562e-6f;
    q = q * w - 1.9840874e-4f;
    q = q * w + 8.3333310e-3f;
    q = q * w - 1.6666667e-1f;
    float r2 = -2.0f * log_u;
    return sqrtf(r2 > 0.0f ? r2 : 0.0f) * (x + x * w * q);
}

static SKB_TARGET void SKB_FN(skb_add_noise)(const float *restrict grad, const float *restrict precision,
                                             const uint32_t *restrict h0, const uint32_t *restrict h1,
                                             const float *restrict inv_root_weight, float sigma, uint32_t k0,
                                             uint32_t k1, int n, float *restrict out)
{
    if (precision) {
        for (int i = 0; i < n; i++) {
            float z = SKB_FN(skb_gauss)(SKB_FN(skb_mix)(h0[i] + k0), SKB_FN(skb_mix)(h1[i] ^ k1));
            out[i] = grad[i] + sigma * (z * inv_root_weight[i] / sqrtf(precision[i]));
        }
    } else {
        for (int i = 0; i < n; i++) {
            float z = SKB_FN(skb_gauss)(SKB_FN(skb_mix)(h0[i] + k0), SKB_FN(skb_mix)(h1[i] ^ k1));
            out[i] = grad[i] + sigma * (z * inv_root_weight[i]);
        }
    }
}

static SKB_TARGET void SKB_FN(skb_normals)(const uint32_t *restrict h0, const uint32_t *restrict h1, uint32_t k0,
                                           uint32_t k1, int n, float *restrict out)
{
    for (int i = 0; i < n; i++)
        out[i] = SKB_FN(skb_gauss)(SKB_FN(skb_mix)(h0[i] + k0), SKB_FN(skb_mix)(h1[i] ^ k1));
}

static SKB_TARGET void SKB_FN(skb_scale_floats)(float *restrict a, float factor, int n)
{
    for (int i = 0; i < n; i++)
        a[i] *= factor;
}

static SKB_TARGET void SKB_FN(skb_scale_doubles)(double *restrict a, double factor, int n)
{
    for (int i = 0; i < n; i++)
        a[i] *= factor;
}

static SKB_TARGET float SKB_FN(skb_max_abs)(const float *a, int n)
{
    float m = 0.0f;
    for (int i = 0; i < n; i++) {
        float v = a[i] < 0.0f ? -a[i] : a[i];
        m = v > m ? v : m;
    }
    return m;
}

/* Sum of weight * rint(|a| * scale) as an exact integer; |a| * scale <= 2^30. */
static SKB_TARGET int64_t SKB_FN(skb_sum_abs)(const float *restrict a, const uint32_t *restrict weight, float scale,
                                              int n)
{
    int64_t s = 0;
    if (weight) {
        for (int i = 0; i < n; i++) {
            float v = a[i] < 0.0f ? -a[i] : a[i];
            s += (int64_t)(int32_t)rintf(v * scale) * (int64_t)weight[i];
        }
    } else {
        for (int i = 0; i < n; i++) {
            float v = a[i] < 0.0f ? -a[i] : a[i];
            s += (int32_t)rintf(v * scale);
        }
    }
    return s;
}

/* q = rint(a * scale), times the weight: after rounding for integer weights, before it for fractional ones; with copies, rows
 * of several copies of a fractional weight, before it for one copy and after it for their number. */
static SKB_TARGET void SKB_FN(skb_quantise)(const float *restrict a, const uint32_t *restrict weight,
                                            const uint32_t *restrict copies, int integer, float scale, int n,
                                            int32_t *restrict out)
{
    if (!weight) {
        for (int i = 0; i < n; i++)
            out[i] = (int32_t)rintf(a[i] * scale);
    } else if (integer) {
        for (int i = 0; i < n; i++)
            /* a row that is not drawn may lie beyond the grid of those that are */
            out[i] = weight[i] ? (int32_t)rintf(a[i] * scale) * (int32_t)weight[i] : 0;
    } else if (copies) {
        for (int i = 0; i < n; i++) {
            double c = copies[i], one = c > 0.0 ? (double)weight[i] / c : 0.0;
            out[i] = (int32_t)(rint((double)a[i] * (double)scale * one) * c);
        }
    } else {
        for (int i = 0; i < n; i++)
            out[i] = (int32_t)rint((double)a[i] * (double)scale * (double)(int32_t)weight[i]);
    }
}

static SKB_TARGET void SKB_FN(skb_pack_words)(const int32_t *restrict hi, const int32_t *restrict lo, int words, int n,
                                              int64_t *restrict out)
{
    if (words == 1) {
        for (int i = 0; i < n; i++)
            out[i] = (int64_t)((uint64_t)(int64_t)hi[i] << 32) + lo[i];
    } else {
        for (int i = 0; i < n; i++)
            out[(size_t)i * words] = (int64_t)((uint64_t)(int64_t)hi[i] << 32) + lo[i];
    }
}

static inline SKB_TARGET double SKB_FN(skb_one)(const double *weight, const uint32_t *copies, size_t row)
{
    return copies ? weight[row] / copies[row] : weight[row];
}

/* Sum over the rows of a leaf of rint(rint(value * scale) * weight); |value * scale| <= 2^30. weight * weight_scale is a whole
 * number when weights are. With copies (NULL: one) the rounded quantity is that of one copy: the sum is linear in copies. */
static SKB_TARGET int64_t SKB_FN(skb_leaf_sum)(const uint32_t *idx, size_t m, const float *value, float scale,
                                               const double *weight, double weight_scale, const uint32_t *copies)
{
    int64_t s = 0;
    size_t i = 0;
    if (weight) {
        for (; i < m; i++)
            s += (int64_t)rint(rintf(value[idx[i]] * scale) * (SKB_FN(skb_one)(weight, copies, idx[i]) * weight_scale)) *
                 (copies ? copies[idx[i]] : 1);
        return s;
    }
#ifdef SKB_AVX512
    __m512i sums = _mm512_setzero_si512();
    __m512 factor = _mm512_set1_ps(scale);
    for (; i + 16 <= m; i += 16) {
        __m512 v = _mm512_i32gather_ps(_mm512_loadu_si512(idx + i), value, 4);
        __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(v, factor));
        sums = _mm512_add_epi64(sums, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(q)));
        sums = _mm512_add_epi64(sums, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(q, 1)));
    }
    s = _mm512_reduce_add_epi64(sums);
#endif
    for (; i < m; i++)
        s += (int32_t)rintf(value[idx[i]] * scale);
    return s;
}

/* The same where only some copies of a row count: kept is their number, one the weight of a copy (NULL: 1). */
static SKB_TARGET int64_t SKB_FN(skb_kept_sum)(const uint32_t *idx, size_t m, const float *value, float scale,
                                               const double *one, double weight_scale, const uint32_t *kept)
{
    int64_t s = 0;
    if (one) {
        for (size_t i = 0; i < m; i++)
            s += (int64_t)rint(rintf(value[idx[i]] * scale) * (one[idx[i]] * weight_scale)) * kept[idx[i]];
    } else {
        for (size_t i = 0; i < m; i++)
            s += (int64_t)(int32_t)rintf(value[idx[i]] * scale) * kept[idx[i]];
    }
    return s;
}

static SKB_TARGET int64_t SKB_FN(skb_sum_words)(const int64_t *a, int words, int n)
{
    int64_t s = 0;
    if (words == 1) {
        for (int i = 0; i < n; i++)
            s += a[i];
        return s;
    }
    for (int i = 0; i < n; i++)
        s += a[(size_t)i * words];
    return s;
}
