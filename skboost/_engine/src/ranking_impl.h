/* Gradients and values of one query, whose n rows are the positions 0 .. n - 1 of arrays in a fixed order.
 *
 * `rows` leads from positions to the rows of the caller's arrays. Sums go in the order of positions, or of sorted
 * positions, in LANES interleaved parts: the same bits for every instruction set and every number of threads.
 */
#include "vmath_impl.h"

#ifndef SKB_RANKING_SCALAR
#define SKB_RANKING_SCALAR
#include <math.h>
#include <stddef.h>
#include "rng.h"
#include "sort.h"

#define SKB_LANES 8 /* a power of two; so many entries behind the last one may be read and written */
#define SKB_INSERTION_ROWS 48 /* up to here insertion sort beats the passes of the radix sort */
#define SKB_SCORE_MAX 1e100   /* raw scores are clamped to it, so that no difference overflows */
#define SKB_LEAST_REST 1e-10  /* least probability of the other rows of a query that XE-NDCG divides by */
#define SKB_INV_LN2 1.4426950408889634
#define SKB_FAR 600.0         /* exponents of pairs up to which exponentials of rows serve */
#define SKB_ROOM 12           /* columns of a skb_query_room */

/* Working arrays, longer than the longest query by the lanes. */
typedef struct {
    double *score, *gain, *power, *grad, *hess, *size, *pair, *curve;
    skb_columns sort;
} skb_query_room;

/* What all pairs of a query share, see skb_lambda_pairs. */
typedef struct {
    double sigmoid, scale, c0, c1;
} skb_pair_rule;

static skb_query_room skb_query_room_of(double *memory, ptrdiff_t length)
{
    double *column[SKB_ROOM];
    for (int i = 0; i < SKB_ROOM; i++)
        column[i] = memory + i * length;
    skb_query_room room = {
        column[0], column[1], column[2], column[3], column[4], column[5], column[6], column[7],
        {(skb_cell *)column[8], (skb_cell *)column[9], column[10], column[11]}};
    return room;
}

/* Bits that sort as minus the number does; both zeros are the same. */
static inline uint64_t skb_descending_bits(double x)
{
    union {
        double number;
        uint64_t bits;
    } u = {x};
    if (u.bits << 1 == 0)
        u.bits = 0;
    return u.bits >> 63 ? u.bits : ~u.bits & 0x7fffffffffffffffULL;
}

/* Sort positions by falling score, those of equal score in their order; return them, as doubles. */
static const double *skb_sort_query(ptrdiff_t n, const double *score, skb_query_room *room)
{
    skb_columns columns = room->sort;
    for (ptrdiff_t i = 0; i < n; i++) {
        columns.keys[i].key = skb_descending_bits(score[i]);
        columns.weights[i] = (double)i;
    }
    if (n <= SKB_INSERTION_ROWS)
        skb_insertion_sort(columns.keys, columns.weights, n);
    else
        skb_sort_keys(&columns, n);
    return columns.weights;
}

/* Sum of gains in falling order times discounts, over the first k. */
static double skb_ideal_dcg(
    ptrdiff_t n, const double *gain, const double *discount, ptrdiff_t k, skb_query_room *room)
{
    const double *order = skb_sort_query(n, gain, room);
    double sum = 0;
    for (ptrdiff_t i = 0; i < n && i < k; i++)
        sum += gain[(ptrdiff_t)order[i]] * discount[i];
    return sum;
}

/* Discounted gain of the first k places, the mean over all orders of rows with equal scores. */
static double skb_dcg(ptrdiff_t n, const ptrdiff_t *rows, const double *score, const double *gain,
                      const double *discount, ptrdiff_t k, skb_query_room *room)
{
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        room->score[i] = score[rows[i]];
    const double *order = skb_sort_query(n, room->score, room);
    for (ptrdiff_t start = 0, stop; start < n && start < k; start = stop) {
        double top = room->score[(ptrdiff_t)order[start]], gains = 0, discounts = 0;
        stop = start;
        do {
            gains += gain[(ptrdiff_t)order[stop]];
            discounts += stop < k ? discount[stop] : 0;
            stop++;
        } while (stop < n && room->score[(ptrdiff_t)order[stop]] == top);
        sum += stop - start > 1 ? gains / (double)(stop - start) * discounts : gains * discounts;
    }
    return sum;
}
#endif

/* Clamped raw scores of all positions. */
static inline SKB_TARGET void SKB_FN(skb_query_scores)(
    ptrdiff_t n, const ptrdiff_t *restrict rows, const double *restrict score, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = SKB_FN(skb_clamp)(score[rows[i]], -SKB_SCORE_MAX, SKB_SCORE_MAX);
}

static inline SKB_TARGET double SKB_FN(skb_lanes_total)(const double *lane)
{
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static SKB_TARGET double SKB_FN(skb_lane_sum)(ptrdiff_t n, const double *restrict x)
{
    double lane[SKB_LANES] = {0};
    ptrdiff_t i = 0;
    for (; i + SKB_LANES <= n; i += SKB_LANES)
        for (int l = 0; l < SKB_LANES; l++)
            lane[l] += x[i + l];
    for (int l = 0; i + l < n; l++)
        lane[l] += x[i + l];
    return SKB_FN(skb_lanes_total)(lane);
}

/* log2(1 + x) / x for x > 0. */
static inline SKB_TARGET double SKB_FN(skb_log2p1_ratio)(double x)
{
    double log = x < 1.0 ? SKB_FN(skb_log1p_unit)(x) : SKB_FN(skb_log)(1.0 + x);
    return log * SKB_INV_LN2 / x;
}

/* Pairs of one row, of score f0, gain g0 and discount d0, with m rows that are sorted behind it.
 *
 * The row with more gain takes lambda = -s delta rho and the other one its opposite, where D >= 0 is the difference of
 * the scores, delta = |difference of gains| * difference of discounts * (1 / ideal) / c, c = c0 + c1 D and
 * rho = 1 / (1 + exp(s D')) with D' = D if the first row has more gain and -D otherwise. With e = exp(-s D) rho is
 * e / (1 + e) or 1 / (1 + e). `curve` holds e and receives the second derivative of both rows, `pair` receives what the
 * first row takes; `size` collects its magnitude. */
static SKB_TARGET __attribute__((noinline)) void SKB_FN(skb_lambda_pairs)(
    ptrdiff_t m, double f0, double g0, double d0, const skb_pair_rule *rule, const double *restrict f,
    const double *restrict gain, const double *restrict discount, double *restrict pair, double *restrict curve,
    double *restrict grad, double *restrict hess, double *restrict size)
{
    double s = rule->sigmoid, scale = rule->scale, c0 = rule->c0, c1 = rule->c1;
    for (ptrdiff_t j = 0; j < m / SKB_LANES * SKB_LANES; j++) {
        double more = g0 - gain[j], e = curve[j], c = c0 + c1 * (f0 - f[j]), inverse = 1.0 / ((1.0 + e) * c);
        double delta = scale * (d0 - discount[j]) * more * inverse;
        double lambda = -(more > 0 ? e : 1.0) * delta;
        double eta = s * fabs(delta) * e * (c * inverse);
        pair[j] = lambda;
        curve[j] = eta;
        grad[j] -= lambda;
        hess[j] += eta;
        size[j] += fabs(lambda);
    }
}

/* exp(-s D) of the pairs of row i: products of `power`, exp(s (f - f[0])), unless the scores lie too far apart. */
static SKB_TARGET void SKB_FN(skb_pair_powers)(ptrdiff_t m, double f0, double power0, double s, int far,
                                               const double *restrict f, const double *restrict power,
                                               double *restrict out)
{
    double inverse = 1.0 / power0;
    if (far)
        for (ptrdiff_t j = 0; j < m; j++)
            out[j] = SKB_FN(skb_exp)(s * (f[j] - f0));
    else
        for (ptrdiff_t j = 0; j < m; j++)
            out[j] = power[j] * inverse;
}

/* LambdaRank: pairs with at least one member among the first `truncation` places. */
static SKB_TARGET void SKB_FN(skb_lambdarank)(ptrdiff_t n, const ptrdiff_t *rows, const double *score,
                                              const double *gain, const double *discount, double inv_ideal,
                                              ptrdiff_t truncation, double sigmoid, int normalize,
                                              skb_query_room *room, float *grad, float *hess)
{
    double *f = room->score, *g = room->gain, *dg = room->grad, *dh = room->hess;
    if (n < 2 || inv_ideal == 0) {
        for (ptrdiff_t i = 0; i < n; i++) {
            grad[rows[i]] = 0;
            if (hess)
                hess[rows[i]] = 0;
        }
        return;
    }
    SKB_FN(skb_query_scores)(n, rows, score, room->pair);
    const double *order = skb_sort_query(n, room->pair, room);
    for (ptrdiff_t i = 0; i < n; i++) {
        f[i] = room->pair[(ptrdiff_t)order[i]];
        g[i] = gain[(ptrdiff_t)order[i]];
        dg[i] = dh[i] = 0;
    }
    for (ptrdiff_t i = n; i < n + SKB_LANES; i++) {
        f[i] = f[n - 1];
        g[i] = dg[i] = dh[i] = 0;
    }
    for (ptrdiff_t i = 0; i < n + SKB_LANES; i++) {
        room->power[i] = SKB_FN(skb_exp)(sigmoid * (f[i] - f[0]));
        room->size[i] = 0;
    }
    int spread = normalize && f[0] != f[n - 1], far = sigmoid * (f[0] - f[n - 1]) > SKB_FAR;
    skb_pair_rule rule = {sigmoid, sigmoid * inv_ideal, spread ? 0.01 : 1.0, spread ? 1.0 : 0.0};
    for (ptrdiff_t i = 0, j = 1; i < truncation && i < n - 1; i++, j++) {
        ptrdiff_t m = (n - j + SKB_LANES - 1) / SKB_LANES * SKB_LANES;
        SKB_FN(skb_pair_powers)(m, f[i], room->power[i], sigmoid, far, f + j, room->power + j, room->curve);
        SKB_FN(skb_lambda_pairs)(m, f[i], g[i], discount[i], &rule, f + j, g + j, discount + j, room->pair, room->curve,
                                 dg + j, dh + j, room->size + j);
        dg[i] += SKB_FN(skb_lane_sum)(n - j, room->pair);
        dh[i] += SKB_FN(skb_lane_sum)(n - j, room->curve);
    }
    double total = 2.0 * SKB_FN(skb_lane_sum)(n, room->size);
    double factor = normalize && total > 0 ? SKB_FN(skb_log2p1_ratio)(total) : 1.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        ptrdiff_t row = rows[(ptrdiff_t)order[i]];
        grad[row] = (float)(dg[i] * factor);
        if (hess)
            hess[row] = (float)(dh[i] * factor);
    }
}

/* Exponentials of scores less their maximum; returns the maximum. */
static SKB_TARGET double SKB_FN(skb_exponentials)(ptrdiff_t n, const double *restrict f, double *restrict out)
{
    double top = f[0];
    for (ptrdiff_t i = 1; i < n; i++)
        top = f[i] > top ? f[i] : top;
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = SKB_FN(skb_exp)(f[i] - top);
    return top;
}

/* XE-NDCG with the softmax r of the scores and the target shares P of gain + 1 - u. */
static SKB_TARGET void SKB_FN(skb_xendcg)(ptrdiff_t n, const ptrdiff_t *rows, const double *score, const double *gain,
                                          const double *u, skb_query_room *room, float *grad, float *hess)
{
    double *restrict r = room->score, *restrict rest = room->gain, *restrict g = room->grad, *restrict t = room->hess;
    double *restrict a = room->pair, *restrict b = room->curve;
    if (n < 2) {
        for (ptrdiff_t i = 0; i < n; i++) {
            grad[rows[i]] = 0;
            if (hess)
                hess[rows[i]] = 0;
        }
        return;
    }
    SKB_FN(skb_query_scores)(n, rows, score, a);
    SKB_FN(skb_exponentials)(n, a, r);
    for (ptrdiff_t i = 0; i < n; i++)
        b[i] = gain[i] + (1.0 - u[i]);
    double sum = SKB_FN(skb_lane_sum)(n, r), shares = SKB_FN(skb_lane_sum)(n, b);
    for (ptrdiff_t i = 0; i < n; i++) {
        r[i] /= sum;
        g[i] = r[i] - b[i] / shares;
        rest[i] = 1.0 - r[i] > SKB_LEAST_REST ? 1.0 - r[i] : SKB_LEAST_REST;
        a[i] = g[i] / rest[i];
    }
    double first = SKB_FN(skb_lane_sum)(n, a);
    for (ptrdiff_t i = 0; i < n; i++) {
        t[i] = r[i] * (first - a[i]);
        b[i] = t[i] / rest[i];
    }
    double second = SKB_FN(skb_lane_sum)(n, b);
    for (ptrdiff_t i = 0; i < n; i++)
        g[i] += t[i] + r[i] * (second - b[i]);
    for (ptrdiff_t i = 0; i < n; i++)
        grad[rows[i]] = (float)g[i];
    if (hess)
        for (ptrdiff_t i = 0; i < n; i++)
            hess[rows[i]] = (float)(r[i] * (1.0 - r[i]));
}

/* Cross entropy of the shares of gain + 1 / 2, the mean of gain + 1 - u, and the softmax of the scores. */
static SKB_TARGET double SKB_FN(skb_query_entropy)(
    ptrdiff_t n, const ptrdiff_t *rows, const double *score, const double *gain, skb_query_room *room)
{
    double *f = room->score, *r = room->grad, *share = room->pair, *product = room->curve;
    SKB_FN(skb_query_scores)(n, rows, score, f);
    double top = SKB_FN(skb_exponentials)(n, f, r);
    for (ptrdiff_t i = 0; i < n; i++) {
        share[i] = gain[i] + 0.5;
        product[i] = share[i] * (top - f[i]);
    }
    return SKB_FN(skb_log)(SKB_FN(skb_lane_sum)(n, r)) +
           SKB_FN(skb_lane_sum)(n, product) / SKB_FN(skb_lane_sum)(n, share);
}

/* 1 / log2(2 + i). */
static SKB_TARGET void SKB_FN(skb_discounts)(ptrdiff_t n, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = 1.0 / (SKB_FN(skb_log)(2.0 + (double)i) * SKB_INV_LN2);
}

/* 2^x - 1, exact for whole numbers below 1024. */
static SKB_TARGET void SKB_FN(skb_exponential_gains)(ptrdiff_t n, const double *restrict x, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double whole = floor(x[i] + 0.5);
        out[i] = ldexp(SKB_FN(skb_exp)((x[i] - whole) * 0.6931471805599453), (int)whole) - 1.0;
    }
}
