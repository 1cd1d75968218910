/* Vector loops of the search of pairs.
 *
 * A table of n0 rows and n1 columns has its columns padded to ld, a multiple of 8. P[a, b] is the sum over the rows up
 * to a and the columns up to b; padded columns repeat the last one, so that nothing is on the right of a cut there. A
 * cut (a, b) has the quadrants 0: low rows and columns, 1: low rows, 2: low columns, 3: the rest. Sums have a fixed
 * order and all else is elementwise, so every instruction set gives the same bits.
 */
#ifndef SKB_INTERACTIONS_SCALAR
#define SKB_INTERACTIONS_SCALAR
#include <stddef.h>
#include <stdint.h>

#define SKB_NO_PAIR -1e300 /* score of an illegal leaf: sums of a few are finite, legal scores are at least 0 */

/* Bytes of a vector. */
#define SKB_BYTES_base 16
#define SKB_BYTES_avx2 32
#define SKB_BYTES_avx512 64

/* The lanes of running sums and of column sums are the same for every instruction set. */
typedef double skb_v8d __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t skb_v8i __attribute__((vector_size(64), aligned(8), may_alias));
typedef double skb_v2d __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t skb_v2i __attribute__((vector_size(16), aligned(8), may_alias));

/* One output of a pair under the cuts after row a. */
typedef struct {
    const double *W;        /* prefix sums of the weights up to row a, NULL where H bounds the leaves alone */
    const double *W_all;    /* the last row of these: sums over all rows */
    const double *G, *G_all, *H, *H_all;
    double least_weight, least, l2;
} skb_pair_row_t;
#endif

typedef double SKB_FN(skb_vd) __attribute__((vector_size(SKB_FN(SKB_BYTES)), aligned(8), may_alias));
typedef int64_t SKB_FN(skb_vi) __attribute__((vector_size(SKB_FN(SKB_BYTES)), aligned(8), may_alias));
#define SKB_V SKB_FN(skb_vd)
#define SKB_I SKB_FN(skb_vi)
#define SKB_LANES (SKB_FN(SKB_BYTES) / 8)
#define SKB_INLINE static inline __attribute__((always_inline)) SKB_TARGET
#define SKB_LOAD(p) (*(const SKB_V *)(p))

/* out = running sums of 8 numbers, each plus carry; returns the last. Neighbours are added first, then those two and
 * four apart. */
#ifdef SKB_AVX512
SKB_INLINE double SKB_FN(skb_running_8)(const double *x, double carry, double *out)
{
    const skb_v8d zero = {0};
    skb_v8d v = *(const skb_v8d *)x;
    v += __builtin_shuffle(zero, v, (skb_v8i){0, 8, 9, 10, 11, 12, 13, 14});
    v += __builtin_shuffle(zero, v, (skb_v8i){0, 0, 8, 9, 10, 11, 12, 13});
    v += __builtin_shuffle(zero, v, (skb_v8i){0, 0, 0, 0, 8, 9, 10, 11});
    v += carry;
    *(skb_v8d *)out = v;
    return v[7];
}
#else
SKB_INLINE double SKB_FN(skb_running_8)(const double *x, double carry, double *out)
{
    const skb_v2d zero = {0};
    const skb_v2i odd = {1, 2};
    const skb_v2d *from = (const skb_v2d *)x;
    skb_v2d s = from[0], t = from[1], u = from[2], v = from[3], *to = (skb_v2d *)out;
    v += __builtin_shuffle(u, v, odd);
    u += __builtin_shuffle(t, u, odd);
    t += __builtin_shuffle(s, t, odd);
    s += __builtin_shuffle(zero, s, odd);
    v += u;
    u += t;
    t += s;
    to[0] = s + carry;
    to[1] = t + carry;
    to[2] = (u + s) + carry;
    to[3] = v = (v + t) + carry;
    return v[1];
}
#endif

/* P from the cells x (n0, n1). */
static SKB_TARGET void SKB_FN(skb_pair_prefix)(const double *restrict x, int n0, int n1, int ld, double *restrict P)
{
    for (int a = 0; a < n0; a++) {
        const double *restrict from = x + (size_t)a * n1;
        double *restrict to = P + (size_t)a * ld, s = 0.0;
        int b = 0;
        for (; b + 8 <= n1; b += 8)
            s = SKB_FN(skb_running_8)(from + b, s, to + b);
        for (; b < ld; b++)
            to[b] = s += b < n1 ? from[b] : 0.0;
    }
    for (int a = 1; a < n0; a++) {
        double *restrict row = P + (size_t)a * ld;
        const double *above = row - ld;
        for (int b = 0; b < ld; b++)
            row[b] += above[b];
    }
}

SKB_INLINE SKB_V SKB_FN(skb_pair_select)(SKB_I mask, SKB_V yes, SKB_V no)
{
    return (SKB_V)(((SKB_I)yes & mask) | ((SKB_I)no & ~mask));
}

/* Scores G^2 / (H + l2) of the quadrants of the cuts after columns b, b + 1, ...; those of illegal leaves mean nothing.
 * One division serves all four. */
SKB_INLINE void SKB_FN(skb_quadrant_scores)(const skb_pair_row_t *o, int ld, int b, SKB_V *v, SKB_I *ok)
{
    const SKB_V none = {0};
    SKB_V g = none + o->G[ld - 1], h = none + o->H[ld - 1], l2 = none + o->l2, least = none + o->least;
    SKB_V g_rest = none + (o->G_all[ld - 1] - o->G[ld - 1]), h_rest = none + (o->H_all[ld - 1] - o->H[ld - 1]);
    SKB_V g0 = SKB_LOAD(o->G + b), g1 = g - g0, g2 = SKB_LOAD(o->G_all + b) - g0, g3 = g_rest - g2;
    SKB_V h0 = SKB_LOAD(o->H + b), h1 = h - h0, h2 = SKB_LOAD(o->H_all + b) - h0, h3 = h_rest - h2;
    ok[0] = h0 >= least, ok[1] = h1 >= least, ok[2] = h2 >= least, ok[3] = h3 >= least;
    /* The denominator of an illegal leaf must not spoil the common one. */
    SKB_V d0 = SKB_FN(skb_pair_select)(ok[0], h0, least) + l2, d1 = SKB_FN(skb_pair_select)(ok[1], h1, least) + l2;
    SKB_V d2 = SKB_FN(skb_pair_select)(ok[2], h2, least) + l2, d3 = SKB_FN(skb_pair_select)(ok[3], h3, least) + l2;
    SKB_V low = d0 * d1, high = d2 * d3, r = 1.0 / (low * high), r_low = r * high, r_high = r * low;
    v[0] = (g0 * g0) * (r_low * d1);
    v[1] = (g1 * g1) * (r_low * d0);
    v[2] = (g2 * g2) * (r_high * d3);
    v[3] = (g3 * g3) * (r_high * d2);
}

SKB_INLINE void SKB_FN(skb_quadrant_weights)(const skb_pair_row_t *o, int ld, int b, SKB_I *ok)
{
    const SKB_V none = {0};
    SKB_V w = none + o->W[ld - 1], w_rest = none + (o->W_all[ld - 1] - o->W[ld - 1]), least = none + o->least_weight;
    SKB_V w0 = SKB_LOAD(o->W + b), w1 = w - w0, w2 = SKB_LOAD(o->W_all + b) - w0, w3 = w_rest - w2;
    ok[0] &= w0 >= least;
    ok[1] &= w1 >= least;
    ok[2] &= w2 >= least;
    ok[3] &= w3 >= least;
}

/* Scores of the quadrants of one output, SKB_NO_PAIR where the leaf is illegal. */
SKB_INLINE void SKB_FN(skb_legal_scores)(const skb_pair_row_t *o, int ld, int b, SKB_V *v)
{
    const SKB_V none = (SKB_V){0} + SKB_NO_PAIR;
    SKB_I ok[4];
    SKB_FN(skb_quadrant_scores)(o, ld, b, v, ok);
    if (o->W)
        SKB_FN(skb_quadrant_weights)(o, ld, b, ok);
    for (int q = 0; q < 4; q++)
        v[q] = SKB_FN(skb_pair_select)(ok[q], v[q], none);
}

/* scores (4, ld) of the quadrants, summed over outputs[0..n_outputs-1]. */
static SKB_TARGET void SKB_FN(skb_pair_quadrants)(
    const skb_pair_row_t *outputs, int n_outputs, int ld, double *restrict scores)
{
    for (int k = 0; k < n_outputs; k++)
        for (int b = 0; b < ld; b += SKB_LANES) {
            SKB_V v[4];
            SKB_FN(skb_legal_scores)(outputs + k, ld, b, v);
            for (int q = 0; q < 4; q++) {
                double *at = scores + q * ld + b;
                if (k)
                    v[q] += SKB_LOAD(at);
                *(SKB_V *)at = v[q];
            }
        }
}

/* The largest lane; NaN is never larger. */
SKB_INLINE double SKB_FN(skb_largest_lane)(SKB_V x)
{
    double m = SKB_NO_PAIR;
    for (int k = 0; k < SKB_LANES; k++)
        m = x[k] > m ? x[k] : m;
    return m;
}

SKB_INLINE SKB_V SKB_FN(skb_larger)(SKB_V x, SKB_V best) { return SKB_FN(skb_pair_select)(x > best, x, best); }

/* The largest score of the four trees at all cuts after row a. scores: of the quadrants, NULL for one output, where they
 * are computed on the fly; low and high: of the halves of the rows; left and right: of the halves of the columns. trees
 * (4, ld), unless NULL, receives all scores in the order of interactions.pxd. */
static SKB_TARGET double SKB_FN(skb_pair_trees)(
    const skb_pair_row_t *output, const double *scores, int ld, double low, double high, const double *left,
    const double *right, double *trees)
{
    const SKB_V none = {0};
    SKB_V best = none + SKB_NO_PAIR;
    for (int b = 0; b < ld; b += SKB_LANES) {
        SKB_V v[4], t[4];
        if (scores)
            for (int q = 0; q < 4; q++)
                v[q] = SKB_LOAD(scores + q * ld + b);
        else
            SKB_FN(skb_legal_scores)(output, ld, b, v);
        t[0] = (v[0] + v[1]) + high;
        t[1] = (v[2] + v[3]) + low;
        t[2] = (v[0] + v[2]) + SKB_LOAD(right + b);
        t[3] = (v[1] + v[3]) + SKB_LOAD(left + b);
        for (int q = 0; q < 4; q++) {
            best = SKB_FN(skb_larger)(t[q], best);
            if (trees)
                *(SKB_V *)(trees + q * ld + b) = t[q];
        }
    }
    return SKB_FN(skb_largest_lane)(best);
}

/* The largest sum of the four quadrants over the cuts after row a. */
static SKB_TARGET double SKB_FN(skb_pair_crosses)(const skb_pair_row_t *output, const double *scores, int ld)
{
    SKB_V best = (SKB_V){0} + SKB_NO_PAIR;
    for (int b = 0; b < ld; b += SKB_LANES) {
        SKB_V v[4];
        if (scores)
            for (int q = 0; q < 4; q++)
                v[q] = SKB_LOAD(scores + q * ld + b);
        else
            SKB_FN(skb_legal_scores)(output, ld, b, v);
        best = SKB_FN(skb_larger)((v[0] + v[1]) + (v[2] + v[3]), best);
    }
    return SKB_FN(skb_largest_lane)(best);
}

/* Sums of the rows from..to-1 of x (n0, n1) into the columns of sum (n1). */
static SKB_TARGET void SKB_FN(skb_column_sums)(const double *restrict x, int from, int to, int n1, double *restrict sum)
{
    for (int b = 0; b < n1; b++)
        sum[b] = 0.0;
    for (int a = from; a < to; a++)
        for (int b = 0; b < n1; b++)
            sum[b] += x[(size_t)a * n1 + b];
}

/* The sum of n numbers, number i in lane i % 8. */
static SKB_TARGET double SKB_FN(skb_lane_sum)(const double *restrict x, int n)
{
    double s[8] = {0};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] += x[i + k];
    for (int k = 0; i + k < n; k++)
        s[k] += x[i + k];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

#undef SKB_V
#undef SKB_I
#undef SKB_LANES
#undef SKB_INLINE
#undef SKB_LOAD
