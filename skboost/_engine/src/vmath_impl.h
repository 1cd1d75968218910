/* Elementary functions of one double, free of branches so that loops over them vectorise.
 *
 * Part of the template mechanism of isa.h: include it at the top of a kernel file that isa_expand.h expands. The same
 * bits come out of every instruction set, because only IEEE operations are used and never contracted or reordered.
 * Arguments must be finite.
 */
#include <string.h>

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

/* exp(x), argument clamped to [-708, 709]. */
static inline SKB_TARGET double SKB_FN(skb_exp)(double x)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: the sum's low bits hold the rounded integer */
    double t, k, r, p;
    x = SKB_FN(skb_clamp)(x, -708.0, 709.0);
    t = x * 1.4426950408889634 + magic;
    k = t - magic;
    r = (x - k * 0x1.62e42fefa0000p-1) - k * 0x1.cf79abc9e3b3ap-40;
    p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return p * SKB_FN(skb_from_bits)((SKB_FN(skb_bits)(t) + 1023u) << 52);
}
