/* Counter-based random numbers: every draw is a function of a key and a counter, never of thread or call order. */
#ifndef SKB_RNG_H
#define SKB_RNG_H

#include <math.h>
#include <stdint.h>

/* splitmix64 finaliser. */
static inline uint64_t skb_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    x ^= x >> 31;
    return x;
}

static inline uint64_t skb_key(uint64_t seed, uint64_t stream, uint64_t iteration, uint64_t output)
{
    uint64_t k = skb_mix64(seed + 0x9e3779b97f4a7c15ULL * (stream + 1));
    k = skb_mix64(k ^ (iteration * 0xd1342543de82ef95ULL + 0x2545f4914f6cdd1dULL));
    return skb_mix64(k + output * 0x9e3779b97f4a7c15ULL);
}

/* Uniform in (0, 1), 53 bits. */
static inline double skb_uniform(uint64_t key, uint64_t counter)
{
    uint64_t bits = skb_mix64(key ^ skb_mix64(counter + 0x632be59bd9b4e019ULL));
    return ((double)(bits >> 11) + 0.5) * 0x1.0p-53;
}

/* log and cosine in double by polynomials: libm differs between versions in the last bit. */
static inline double skb_log_unit(double u)
{
    union { double d; uint64_t i; } v = {u};
    int e = (int)(v.i >> 52) - 1023;
    v.i = (v.i & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL;
    double m = v.d;
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e += 1;
    }
    double s = (m - 1.0) / (m + 1.0), z = s * s, p = 1.0 / 23.0;
    for (int k = 21; k >= 1; k -= 2)
        p = p * z + 1.0 / k;
    return 2.0 * s * p + e * 0.6931471805599453;
}

static inline double skb_cos_turn(double v)
{
    double s = (v < 0.5 ? 0.5 - v : v - 0.5) - 0.25;
    double x = 6.283185307179586 * s, z = x * x, p = 1.0;
    for (int k = 21; k >= 3; k -= 2)
        p = 1.0 - p * z / (k * (k - 1));
    return x * p;
}

/* One standard normal per (key, counter): Box-Muller. Used where draws are few (one per leaf and output). */
static inline double skb_normal(uint64_t key, uint64_t counter)
{
    double u = skb_uniform(key, 2 * counter), v = skb_uniform(key, 2 * counter + 1);
    return sqrt(-2.0 * skb_log_unit(u)) * skb_cos_turn(v);
}

#endif
