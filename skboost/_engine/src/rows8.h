/* Eight rows (or cells) at a time for kernel files of isa.h: SKB_X8 holds a double of each, SKB_M8 which are chosen.
 *
 * Include it inside a kernel file, before the kernels, and rows8_end.h after them. Every instruction set computes the
 * same IEEE operations: a row that is not chosen adds +0.0 to a sum that is never -0.0. SKB_UPTO8 chooses the codes up to
 * a cut, SKB_WITHIN8 the `span + 1` codes from `first` on. SKB_SUMS8(x) are the sums of the
 * values up to each place: the lower half of each block of two, four, eight is added to the upper one, so that a value 0
 * never changes the sum, and sums of values above 0 never fall. SKB_LAST8(x) is the last value in all places.
 */
#ifndef SKB_ROWS8_SCALAR
#define SKB_ROWS8_SCALAR
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef SKB_X86_DISPATCH
#include <immintrin.h>
#endif
#define SKB_ROWS8_IS_AVX2_avx2 1
typedef double skb_v2d __attribute__((vector_size(16)));
typedef int64_t skb_v2q __attribute__((vector_size(16)));
typedef uint16_t skb_v8h __attribute__((vector_size(16)));
#if defined(__clang__) || __GNUC__ >= 12
#define SKB_SPREAD(m, i, j) __builtin_shufflevector(m, m, i, i, i, i, j, j, j, j)
#else
#define SKB_SPREAD(m, i, j) __builtin_shuffle(m, (skb_v8h){i, i, i, i, j, j, j, j})
#endif

/* One row, without a branch: x or 0.0, a or b. */
static inline double skb_keep(int yes, double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    u &= -(uint64_t)yes;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline double skb_choose(int yes, double a, double b)
{
    uint64_t u, v, m = -(uint64_t)yes;
    memcpy(&u, &a, sizeof u);
    memcpy(&v, &b, sizeof v);
    u = (u & m) | (v & ~m);
    memcpy(&a, &u, sizeof a);
    return a;
}
#endif

#if defined(SKB_AVX512)

#define SKB_X8 __m512d
#define SKB_M8 __mmask8
#define SKB_CUT8 __m128i
#define SKB_LOAD8(p) _mm512_loadu_pd(p)
#define SKB_STORE8(p, x) _mm512_storeu_pd(p, x)
#define SKB_SET8(v) _mm512_set1_pd(v)
#define SKB_ADD8(a, b) _mm512_add_pd(a, b)
#define SKB_MUL8(a, b) _mm512_mul_pd(a, b)
#define SKB_SET_CUT8(c) _mm_set1_epi16((short)(c))
#define SKB_UPTO8(code, cut) _mm_cmple_epu16_mask(_mm_loadu_si128((const __m128i *)(code)), cut)
#define SKB_WITHIN8(code, first, span) \
    _mm_cmple_epu16_mask(_mm_sub_epi16(_mm_loadu_si128((const __m128i *)(code)), first), span)
#define SKB_ADD_IF8(acc, m, x) _mm512_mask_add_pd(acc, m, acc, x)
#define SKB_ADD_UNLESS8(acc, m, x) _mm512_mask_add_pd(acc, (__mmask8)~(m), acc, x)
#define SKB_CHOOSE8(m, a, b) _mm512_mask_blend_pd(m, b, a)
#define SKB_MAX8(a, b) _mm512_max_pd(a, b)
#define SKB_MIN8(a, b) _mm512_min_pd(a, b)
#define SKB_SUB8(a, b) _mm512_sub_pd(a, b)
#define SKB_SUMS8(x) skb_sums8_avx512(x)
#define SKB_LAST8(x) _mm512_permutexvar_pd(_mm512_set1_epi64(7), x)
#define SKB_TABLE8(table, code) \
    _mm512_i32gather_pd(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(code))), table, 8)

static inline SKB_TARGET __m512d skb_sums8_avx512(__m512d x)
{
    x = _mm512_mask_add_pd(x, 0xaa, x, _mm512_movedup_pd(x));
    x = _mm512_mask_add_pd(x, 0xcc, x, _mm512_permutex_pd(x, 0x55));
    return _mm512_mask_add_pd(x, 0xf0, x, _mm512_permutexvar_pd(_mm512_set1_epi64(3), x));
}

#elif SKB_CAT(SKB_ROWS8_IS_AVX2, SKB_SUFFIX)

typedef struct {
    __m256d lo, hi;
} skb_x8_avx2;
typedef struct {
    __m256d lo, hi;
} skb_m8_avx2;
#define SKB_X8 skb_x8_avx2
#define SKB_M8 skb_m8_avx2
#define SKB_CUT8 __m128i
#define SKB_LOAD8(p) ((SKB_X8){_mm256_loadu_pd(p), _mm256_loadu_pd((p) + 4)})
#define SKB_STORE8(p, x) (_mm256_storeu_pd(p, (x).lo), _mm256_storeu_pd((p) + 4, (x).hi))
#define SKB_SET8(v) ((SKB_X8){_mm256_set1_pd(v), _mm256_set1_pd(v)})
#define SKB_ADD8(a, b) ((SKB_X8){_mm256_add_pd((a).lo, (b).lo), _mm256_add_pd((a).hi, (b).hi)})
#define SKB_MUL8(a, b) ((SKB_X8){_mm256_mul_pd((a).lo, (b).lo), _mm256_mul_pd((a).hi, (b).hi)})
#define SKB_SET_CUT8(c) _mm_set1_epi16((short)(c))
#define SKB_UPTO8(code, cut) skb_upto8_avx2(_mm_loadu_si128((const __m128i *)(code)), cut)
#define SKB_WITHIN8(code, first, span) \
    skb_upto8_avx2(_mm_sub_epi16(_mm_loadu_si128((const __m128i *)(code)), first), span)
#define SKB_ADD_UNLESS8(acc, m, x)                                         \
    ((SKB_X8){_mm256_add_pd((acc).lo, _mm256_andnot_pd((m).lo, (x).lo)),   \
              _mm256_add_pd((acc).hi, _mm256_andnot_pd((m).hi, (x).hi))})
#define SKB_ADD_IF8(acc, m, x)                                             \
    ((SKB_X8){_mm256_add_pd((acc).lo, _mm256_and_pd((m).lo, (x).lo)),      \
              _mm256_add_pd((acc).hi, _mm256_and_pd((m).hi, (x).hi))})
#define SKB_CHOOSE8(m, a, b) \
    ((SKB_X8){_mm256_blendv_pd((b).lo, (a).lo, (m).lo), _mm256_blendv_pd((b).hi, (a).hi, (m).hi)})
#define SKB_TABLE8(table, code)                                                                     \
    ((SKB_X8){_mm256_set_pd((table)[(code)[3]], (table)[(code)[2]], (table)[(code)[1]], (table)[(code)[0]]), \
              _mm256_set_pd((table)[(code)[7]], (table)[(code)[6]], (table)[(code)[5]], (table)[(code)[4]])})
#define SKB_MAX8(a, b) skb_max8_avx2(a, b)
#define SKB_MIN8(a, b) skb_min8_avx2(a, b)
#define SKB_SUB8(a, b) ((SKB_X8){_mm256_sub_pd((a).lo, (b).lo), _mm256_sub_pd((a).hi, (b).hi)})
#define SKB_SUMS8(x) skb_sums8_avx2(x)
#define SKB_LAST8(x) \
    ((SKB_X8){_mm256_permute4x64_pd((x).hi, 0xff), _mm256_permute4x64_pd((x).hi, 0xff)})
static inline SKB_TARGET SKB_X8 skb_max8_avx2(SKB_X8 a, SKB_X8 b)
{
    return (SKB_X8){_mm256_max_pd(a.lo, b.lo), _mm256_max_pd(a.hi, b.hi)};
}
static inline SKB_TARGET SKB_X8 skb_min8_avx2(SKB_X8 a, SKB_X8 b)
{
    return (SKB_X8){_mm256_min_pd(a.lo, b.lo), _mm256_min_pd(a.hi, b.hi)};
}
static inline SKB_TARGET __m256d skb_sums4_avx2(__m256d x)
{
    const __m256d zero = _mm256_setzero_pd();
    x = _mm256_add_pd(x, _mm256_blend_pd(zero, _mm256_movedup_pd(x), 0xa));
    return _mm256_add_pd(x, _mm256_blend_pd(zero, _mm256_permute4x64_pd(x, 0x55), 0xc));
}
static inline SKB_TARGET SKB_X8 skb_sums8_avx2(SKB_X8 x)
{
    x.lo = skb_sums4_avx2(x.lo);
    x.hi = _mm256_add_pd(skb_sums4_avx2(x.hi), _mm256_permute4x64_pd(x.lo, 0xff));
    return x;
}
static inline SKB_TARGET SKB_M8 skb_upto8_avx2(__m128i code, __m128i cut)
{
    __m128i m = _mm_cmpeq_epi16(_mm_min_epu16(code, cut), code);
    return (SKB_M8){_mm256_castsi256_pd(_mm256_cvtepi16_epi64(m)),
                    _mm256_castsi256_pd(_mm256_cvtepi16_epi64(_mm_unpackhi_epi64(m, m)))};
}

#else

typedef struct {
    skb_v2d a, b, c, d;
} skb_x8_base;
typedef struct {
    skb_v2q a, b, c, d;
} skb_m8_base;
#define SKB_X8 skb_x8_base
#define SKB_M8 skb_m8_base
#define SKB_CUT8 skb_v8h
#define SKB_LOAD8(p) skb_load8_base(p)
#define SKB_STORE8(p, x) skb_store8_base(p, x)
#define SKB_SET8(v) ((SKB_X8){{v, v}, {v, v}, {v, v}, {v, v}})
#define SKB_ADD8(p, q) ((SKB_X8){(p).a + (q).a, (p).b + (q).b, (p).c + (q).c, (p).d + (q).d})
#define SKB_MUL8(p, q) ((SKB_X8){(p).a * (q).a, (p).b * (q).b, (p).c * (q).c, (p).d * (q).d})
#define SKB_SET_CUT8(c) \
    ((skb_v8h){(uint16_t)(c), (uint16_t)(c), (uint16_t)(c), (uint16_t)(c), (uint16_t)(c), (uint16_t)(c), \
               (uint16_t)(c), (uint16_t)(c)})
#define SKB_UPTO8(code, cut) skb_mask8_base((skb_v8h)(skb_codes8_base(code) <= (cut)))
#define SKB_WITHIN8(code, first, span) skb_mask8_base((skb_v8h)((skb_v8h)(skb_codes8_base(code) - (first)) <= (span)))
#define SKB_AND2(m, x) ((skb_v2d)((m) & (skb_v2q)(x)))
#define SKB_OR2(m, p, q) ((skb_v2d)(((m) & (skb_v2q)(p)) | (~(m) & (skb_v2q)(q))))
#define SKB_ADD_IF8(acc, m, x)                                                         \
    ((SKB_X8){(acc).a + SKB_AND2((m).a, (x).a), (acc).b + SKB_AND2((m).b, (x).b),      \
              (acc).c + SKB_AND2((m).c, (x).c), (acc).d + SKB_AND2((m).d, (x).d)})
#define SKB_ADD_UNLESS8(acc, m, x)                                                     \
    ((SKB_X8){(acc).a + SKB_AND2(~(m).a, (x).a), (acc).b + SKB_AND2(~(m).b, (x).b),    \
              (acc).c + SKB_AND2(~(m).c, (x).c), (acc).d + SKB_AND2(~(m).d, (x).d)})
#define SKB_CHOOSE8(m, p, q)                                                           \
    ((SKB_X8){SKB_OR2((m).a, (p).a, (q).a), SKB_OR2((m).b, (p).b, (q).b),              \
              SKB_OR2((m).c, (p).c, (q).c), SKB_OR2((m).d, (p).d, (q).d)})
#define SKB_TABLE8(table, code)                                                        \
    ((SKB_X8){{(table)[(code)[0]], (table)[(code)[1]]}, {(table)[(code)[2]], (table)[(code)[3]]}, \
              {(table)[(code)[4]], (table)[(code)[5]]}, {(table)[(code)[6]], (table)[(code)[7]]}})
#define SKB_MAX2(p, q) SKB_OR2((skb_v2q)((p) > (q)), p, q)
#define SKB_MIN2(p, q) SKB_OR2((skb_v2q)((p) < (q)), p, q)
#define SKB_MAX8(p, q) skb_max8_base(p, q)
#define SKB_MIN8(p, q) skb_min8_base(p, q)
#define SKB_SUB8(p, q) ((SKB_X8){(p).a - (q).a, (p).b - (q).b, (p).c - (q).c, (p).d - (q).d})
#define SKB_SUMS8(x) skb_sums8_base(x)
#define SKB_LAST8(x) SKB_SET8((x).d[1])
static inline SKB_X8 skb_max8_base(SKB_X8 p, SKB_X8 q)
{
    return (SKB_X8){SKB_MAX2(p.a, q.a), SKB_MAX2(p.b, q.b), SKB_MAX2(p.c, q.c), SKB_MAX2(p.d, q.d)};
}
static inline SKB_X8 skb_min8_base(SKB_X8 p, SKB_X8 q)
{
    return (SKB_X8){SKB_MIN2(p.a, q.a), SKB_MIN2(p.b, q.b), SKB_MIN2(p.c, q.c), SKB_MIN2(p.d, q.d)};
}
static inline skb_v2d skb_sums2_base(skb_v2d x) { return (skb_v2d){x[0], x[1] + x[0]}; }
static inline SKB_X8 skb_sums8_base(SKB_X8 x)
{
    x.a = skb_sums2_base(x.a);
    x.b = skb_sums2_base(x.b) + (skb_v2d){x.a[1], x.a[1]};
    x.c = skb_sums2_base(x.c);
    x.d = skb_sums2_base(x.d) + (skb_v2d){x.c[1], x.c[1]};
    x.c += (skb_v2d){x.b[1], x.b[1]};
    x.d += (skb_v2d){x.b[1], x.b[1]};
    return x;
}
static inline SKB_X8 skb_load8_base(const double *p)
{
    SKB_X8 x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline void skb_store8_base(double *p, SKB_X8 x) { memcpy(p, &x, sizeof x); }
static inline SKB_CUT8 skb_codes8_base(const uint16_t *code)
{
    SKB_CUT8 c;
    memcpy(&c, code, sizeof c);
    return c;
}
/* Every one of the eight masks of 16 bits becomes one of 64. */
static inline SKB_M8 skb_mask8_base(SKB_CUT8 m)
{
    return (SKB_M8){(skb_v2q)SKB_SPREAD(m, 0, 1), (skb_v2q)SKB_SPREAD(m, 2, 3), (skb_v2q)SKB_SPREAD(m, 4, 5),
                    (skb_v2q)SKB_SPREAD(m, 6, 7)};
}

#endif
