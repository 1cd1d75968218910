/* What a split search needs to know, and the scalar parts of it; the vector loops are in split_impl.h.
 *
 * A score is sum_k G_k^2 / (D_k + lambda) over both children; the gain of a split is its score minus the parent's.
 * Gradient trees: word 0 holds (G_0, weight), word 1 + j holds (G_{2j+1}, G_{2j+2}); one denominator for all outputs.
 * Newton trees with several outputs: word k holds (G_k, H_k).
 */
#ifndef SKB_SPLIT_H
#define SKB_SPLIT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hist.h"

#define SKB_INVALID (-1e308)
#define SKB_TIE 1e-10
#define SKB_CAT_SMOOTH 10.0
enum { SKB_BINS = 256, SKB_ONE_HOT = 4 };

typedef struct {
    int n_outputs, n_words;
    int newton;            /* 1: a denominator per output */
    int direct;            /* 1: the low half of word 0 is the weight that min_weight bounds */
    double lambda;
    const double *g_unit;  /* (n_outputs) value of one unit of each gradient sum */
    const double *h_unit;  /* (n_outputs) value of one unit of each denominator sum */
    int32_t min_low;       /* direct: least low sum of a child, at least 1 */
    double certain_low;    /* not direct: a low sum of at least this proves the minimum */
    uint32_t min_count;    /* not direct: least sum of the weight histogram */
    int bounded;           /* monotone constraints: scores use clipped values */
} skb_scan_t;

typedef struct {
    double score;
    int16_t bin;           /* numeric: last left bin; categorical: position in the category order */
    uint8_t missing_right;
    uint8_t certain;       /* the leaf minimum is proven */
} skb_best_t;

static inline int32_t skb_field_g(const skb_scan_t *c, const int64_t *words, int k)
{
    if (c->newton || k == 0)
        return skb_hi(words[k]);
    int64_t w = words[1 + (k - 1) / 2];
    return (k - 1) % 2 ? skb_lo(w) : skb_hi(w);
}

static inline int32_t skb_field_d(const skb_scan_t *c, const int64_t *words, int k)
{
    return skb_lo(words[c->newton ? k : 0]);
}

/* An output without second derivatives and penalty keeps its value: neither a step nor a gain. */
#define SKB_NO_STEP 1e150

static inline double skb_denominator(const skb_scan_t *c, const int64_t *words, int k)
{
    double d = skb_field_d(c, words, k) * c->h_unit[c->newton ? k : 0] + c->lambda;
    return d > 0.0 ? d : SKB_NO_STEP;
}

static inline double skb_clip(double v, double lo, double hi) { return v < lo ? lo : v > hi ? hi : v; }

/* Score of one node; with bounds the value is clipped to [lo, hi] first (one output). */
static double skb_score(const skb_scan_t *c, const int64_t *words, double lo, double hi)
{
    double s = 0.0;
    for (int k = 0; k < c->n_outputs; k++) {
        double g = skb_field_g(c, words, k) * c->g_unit[k], d = skb_denominator(c, words, k);
        if (c->bounded) {
            double v = skb_clip(-g / d, lo, hi);
            s -= 2.0 * g * v + d * v * v;
        } else {
            s += g * g / d;
        }
    }
    return s;
}

/* Unscaled leaf value of a node with one output, clipped to its bounds. */
static double skb_node_value(const skb_scan_t *c, const int64_t *words, double lo, double hi)
{
    double g = skb_field_g(c, words, 0) * c->g_unit[0];
    return skb_clip(-g / skb_denominator(c, words, 0), lo, hi);
}

/* Structure weight (newton: second derivatives of all outputs) of a sum of rows, in grid units. */
static inline int64_t skb_mass(const skb_scan_t *c, const int64_t *words)
{
    int64_t m = skb_lo(words[0]);
    for (int w = 1; c->newton && w < c->n_words; w++)
        m += skb_lo(words[w]);
    return m;
}

/* Do children with these masses honour the leaf minimum? counts are sums of the weight histogram or NULL. */
static inline int skb_heavy_enough(const skb_scan_t *c, int64_t left, int64_t right, const uint32_t *counts)
{
    if (c->direct)
        return left >= c->min_low && right >= c->min_low;
    if (left < 1 || right < 1)
        return 0;
    return !counts || (counts[0] >= c->min_count && counts[1] >= c->min_count);
}

static inline int skb_is_certain(const skb_scan_t *c, int64_t left, int64_t right)
{
    return c->direct || (skb_lo(left) >= c->certain_low && skb_lo(right) >= c->certain_low);
}

static inline int skb_in_set(const uint8_t *set, int code) { return (set[code >> 3] >> (code & 7)) & 1; }

/* Sum of the left child's words for a numeric test (set NULL) or a set. */
static void skb_left_sums(const int64_t *hist, int n_bins, int words, int bin, int missing_right, const uint8_t *set,
                          int64_t *out)
{
    memset(out, 0, words * sizeof(int64_t));
    for (int b = 0; b < n_bins; b++) {
        int left = set ? skb_in_set(set, b) : b == 0 ? !missing_right : b <= bin;
        if (left)
            for (int w = 0; w < words; w++)
                out[w] += hist[(size_t)b * words + w];
    }
}

static int skb_words_zero(const int64_t *e, int words)
{
    int64_t any = 0;
    for (int w = 0; w < words; w++)
        any |= e[w];
    return any == 0;
}

/* Order of the categories of one node: codes with rows, by mean gradient of the output that varies most. */
static int skb_category_order(const skb_scan_t *c, const int64_t *hist, int n_bins, uint8_t *order)
{
    double key[SKB_BINS], spread = -1.0;
    int n = 0, best = 0;
    for (int b = 0; b < n_bins; b++)
        if (!skb_words_zero(hist + (size_t)b * c->n_words, c->n_words))
            order[n++] = (uint8_t)b;
    for (int k = 0; k < c->n_outputs && c->n_outputs > 1; k++) {
        double s = 0.0;
        for (int i = 0; i < n; i++) {
            const int64_t *e = hist + (size_t)order[i] * c->n_words;
            double g = skb_field_g(c, e, k) * c->g_unit[k];
            s += g * g / (skb_denominator(c, e, k) + SKB_CAT_SMOOTH);
        }
        if (s > spread) {
            spread = s;
            best = k;
        }
    }
    for (int i = 0; i < n; i++) {
        const int64_t *e = hist + (size_t)order[i] * c->n_words;
        key[order[i]] = skb_field_g(c, e, best) * c->g_unit[best] / (skb_denominator(c, e, best) + SKB_CAT_SMOOTH);
    }
    if (n_bins - 1 <= SKB_ONE_HOT)
        return n;
    for (int i = 1; i < n; i++) {  /* insertion sort: stable, at most 256 entries */
        uint8_t code = order[i];
        int j = i;
        for (; j > 0 && key[order[j - 1]] > key[code]; j--)
            order[j] = order[j - 1];
        order[j] = code;
    }
    return n;
}

/* The set of codes that candidate `position` sends left. */
static void skb_category_set(const uint8_t *order, int n_bins, int position, uint8_t *set)
{
    memset(set, 0, 32);
    for (int i = n_bins - 1 <= SKB_ONE_HOT ? position : 0; i <= position; i++)
        set[order[i] >> 3] |= (uint8_t)(1 << (order[i] & 7));
}

/* Codes without rows in the node follow the heavier child. */
static void skb_category_fill(const int64_t *hist, int n_bins, int words, int left_heavier, uint8_t *set)
{
    if (!left_heavier)
        return;
    for (int b = 0; b < 256; b++)
        if (b >= n_bins || skb_words_zero(hist + (size_t)b * words, words))
            set[b >> 3] |= (uint8_t)(1 << (b & 7));
}

/* Scores of every candidate of a categorical feature: out[position], certain[position]. */
static void skb_scan_categories(const skb_scan_t *c, const int64_t *hist, const uint32_t *counts, int n_bins,
                                const uint8_t *order, int n_order, const int64_t *total, const double *bounds,
                                double *out, uint8_t *certain)
{
    int64_t left[512], right[512];
    uint32_t both[2] = {0, 0}, all = 0;
    int words = c->n_words, one_hot = n_bins - 1 <= SKB_ONE_HOT;
    memset(left, 0, words * sizeof(int64_t));
    for (int b = 0; counts && b < n_bins; b++)
        all += counts[b];
    for (int p = 0; p < n_order; p++) {
        const int64_t *e = hist + (size_t)order[p] * words;
        for (int w = 0; w < words; w++) {
            left[w] = one_hot ? e[w] : left[w] + e[w];
            right[w] = total[w] - left[w];
        }
        if (counts) {
            both[0] = one_hot ? counts[order[p]] : both[0] + counts[order[p]];
            both[1] = all - both[0];
        }
        out[p] = SKB_INVALID;
        certain[p] = (uint8_t)(counts != NULL || skb_is_certain(c, left[0], right[0]));
        if (skb_heavy_enough(c, skb_mass(c, left), skb_mass(c, right), counts ? both : NULL))
            out[p] = skb_score(c, left, bounds[0], bounds[1]) + skb_score(c, right, bounds[0], bounds[1]);
    }
}

#endif
