/* Elementary functions of one double, free of branches so that loops over them vectorise.
 *
 * Part of the template mechanism of isa.h: include it in a kernel file that isa_expand.h expands (several kernel files
 * of one module may include it). Every instruction set gives the same bits, because only IEEE operations occur and
 * they are neither contracted nor reordered. Arguments must be finite. Errors stay below 2 units in the last place.
 * Polynomials are summed in pairs (Estrin), a fifth faster than Horner's chain.
 */
#ifndef SKB_VMATH_SEEN
#define SKB_VMATH_SEEN
#include <stdint.h>
#include <string.h>
#define SKB_VMATH_IS_BASE_base 1
#define SKB_VMATH_IS_AVX2_avx2 1
#define SKB_VMATH_IS_AVX512_avx512 1
#endif

/* An include guard per instruction set: pasting the suffix gives 1 for the current set and an unknown name, 0, otherwise. */
#undef SKB_VMATH_SKIP
#if SKB_CAT(SKB_VMATH_IS_BASE, SKB_SUFFIX)
#ifdef SKB_VMATH_BASE
#define SKB_VMATH_SKIP
#endif
#define SKB_VMATH_BASE
#elif SKB_CAT(SKB_VMATH_IS_AVX2, SKB_SUFFIX)
#ifdef SKB_VMATH_AVX2
#define SKB_VMATH_SKIP
#endif
#define SKB_VMATH_AVX2
#elif SKB_CAT(SKB_VMATH_IS_AVX512, SKB_SUFFIX)
#ifdef SKB_VMATH_AVX512
#define SKB_VMATH_SKIP
#endif
#define SKB_VMATH_AVX512
#endif

#ifndef SKB_VMATH_SKIP

static inline SKB_TARGET uint64_t SKB_FN(skb_bits)(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline SKB_TARGET double SKB_FN(skb_from_bits)(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline SKB_TARGET double SKB_FN(skb_clamp)(double x, double lo, double hi)
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

/* exp(x), the argument clamped to [-708, 709].
 * x = k ln 2 + r, exp r = 1 + r + r^2 P(r) with P of degree 9 minimax on |r| <= ln 2 / 2 (relative error 3.6e-18). */
static inline SKB_TARGET double SKB_FN(skb_exp)(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: the low bits of a sum with it are the rounded integer */
    double t, k, r, r2, r4, low, mid, high;
    x = SKB_FN(skb_clamp)(x, -708.0, 709.0);
    t = x * 1.4426950408889634 + shift;
    k = t - shift;
    r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    r2 = r * r;
    r4 = r2 * r2;
    low = (5.0000000000000106273e-1 + 1.6666666666666412649e-1 * r) +
          (4.166666666653015516e-2 + 8.3333333334943990783e-3 * r) * r2;
    mid = (1.3888888943631086276e-3 + 1.9841269506688877509e-4 * r) +
          (2.4801493097827716773e-5 + 2.7557586290851579957e-6 * r) * r2;
    high = 2.7630248796191676483e-7 + 2.5000084437700939246e-8 * r;
    x = 1.0 + (r + (low + (mid + high * r4) * r4) * r2);
    return x * SKB_FN(skb_from_bits)((SKB_FN(skb_bits)(t) + 1023u) << 52);
}

/* log(x) for normal x > 0. x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); with s = f / (2 + f)
 * log(1 + f) = 2 atanh s = f - s (f - 2 s^2 P(s^2)), where the error of s counts little. */
static inline SKB_TARGET double SKB_FN(skb_log)(double x)
{
    const uint64_t root_half = 0x3fe6a09e667f3bcdu;
    uint64_t u = SKB_FN(skb_bits)(x) + ((1024ull << 52) - root_half), e = u >> 52;
    double k = SKB_FN(skb_from_bits)(e | 0x4330000000000000u) - (4503599627370496.0 + 1024.0);
    double f = SKB_FN(skb_from_bits)((u & 0x000fffffffffffffu) + root_half) - 1.0;
    double s = f / (2.0 + f), z = s * s, z2 = z * z;
    double low = (3.3333333333333672069e-1 + 1.9999999999707281718e-1 * z) +
                 (1.4285714371214850817e-1 + 1.111109928375659358e-1 * z) * z2;
    double high = (9.0917823405544785978e-2 + 7.6570200491244845207e-2 * z) + 7.3980333932796636779e-2 * z2;
    double p = low + high * (z2 * z2);
    return k * 0x1.62e42fee00000p-1 + ((f - s * (f - 2.0 * (z * p))) + k * 0x1.a39ef35793c76p-33);
}

/* log(1 + x) for x in [0, 1], accurate for tiny x, by the same formula. */
static inline SKB_TARGET double SKB_FN(skb_log1p_unit)(double x)
{
    double s = x / (2.0 + x), z = s * s, z2 = z * z, z4 = z2 * z2;
    double low = (3.3333333333333151779e-1 + 2.0000000000078677698e-1 * z) +
                 (1.4285714273918711032e-1 + 1.1111111985434237573e-1 * z) * z2;
    double mid = (9.0908719407372119773e-2 + 7.6932804551756030672e-2 * z) +
                 (6.6504799585580057574e-2 + 6.0530996798316230685e-2 * z) * z2;
    double high = 4.1697937999234272256e-2 + 8.5097807003594415897e-2 * z;
    double p = low + (mid + high * z4) * z4;
    return x - s * (x - 2.0 * (z * p));
}

#endif
