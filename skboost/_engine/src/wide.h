/* Sums of products of whole numbers in 128 bits without sign, with and without a compiler that has such numbers. */
#ifndef SKB_WIDE_H
#define SKB_WIDE_H
#include <stdint.h>

typedef struct {
    uint64_t low, high;
} skb_wide;

static inline void skb_wide_add(skb_wide *sum, uint64_t low, uint64_t high)
{
    sum->low += low;
    sum->high += high + (sum->low < low);
}

/* sum += a * b for a, b < 2^53, shifted to the left by `shift` bits below 64. */
static inline void skb_wide_add_product(skb_wide *sum, uint64_t a, uint64_t b, int shift)
{
#if defined(__SIZEOF_INT128__) && !defined(SKB_NO_INT128)
    unsigned __int128 product = ((unsigned __int128)a * b) << shift;
    skb_wide_add(sum, (uint64_t)product, (uint64_t)(product >> 64));
#else
    uint64_t a1 = a >> 32, a0 = a & 0xffffffff, b1 = b >> 32, b0 = b & 0xffffffff;
    uint64_t outer[3] = {a0 * b0, a1 * b0 + a0 * b1, a1 * b1}; /* a1, b1 < 2^21: the middle sum fits */
    for (int k = 0; k < 3; k++) {
        int by = 32 * k + shift;
        uint64_t low = by < 64 ? outer[k] << by : 0;
        uint64_t high = by == 0 ? 0 : by < 64 ? outer[k] >> (64 - by) : outer[k] << (by - 64);
        skb_wide_add(sum, low, high);
    }
#endif
}

/* The nearest double of a sum below 2^127: it depends on the value alone, also after multiplication by 2^k. */
static inline double skb_wide_round(skb_wide sum)
{
    if (sum.high == 0)
        return (double)sum.low;
    int shift = __builtin_clzll(sum.high);
    uint64_t top = sum.high << shift | sum.low >> (64 - shift);
    uint64_t rest = sum.low << shift; /* only whether bits are lost counts */
    return (double)(top | (rest != 0)) * (double)(1ull << (64 - shift));
}
#endif
