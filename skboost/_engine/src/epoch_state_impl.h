/* Passes over tiles of rows for all features, and over the cells of one feature; rows are added in their order. */
#ifndef SKB_EPOCH_STATE_SCALAR
#define SKB_EPOCH_STATE_SCALAR
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef double skb_pair __attribute__((vector_size(16)));
#endif

/* score += table[code] of each of up to four features, one after the other. */
static SKB_TARGET void SKB_FN(skb_add_cells)(
    ptrdiff_t n, int n_features, const uint16_t *const *codes, const double *const *tables, double *restrict score)
{
    const uint16_t *restrict c0 = codes[0], *restrict c1 = codes[1], *restrict c2 = codes[2], *restrict c3 = codes[3];
    const double *restrict t0 = tables[0], *restrict t1 = tables[1], *restrict t2 = tables[2], *restrict t3 = tables[3];
    switch (n_features) {
    case 1:
        for (ptrdiff_t i = 0; i < n; i++)
            score[i] += t0[c0[i]];
        break;
    case 2:
        for (ptrdiff_t i = 0; i < n; i++)
            score[i] = (score[i] + t0[c0[i]]) + t1[c1[i]];
        break;
    case 3:
        for (ptrdiff_t i = 0; i < n; i++)
            score[i] = ((score[i] + t0[c0[i]]) + t1[c1[i]]) + t2[c2[i]];
        break;
    default:
        for (ptrdiff_t i = 0; i < n; i++)
            score[i] = (((score[i] + t0[c0[i]]) + t1[c1[i]]) + t2[c2[i]]) + t3[c3[i]];
    }
}

/* out = weight * x */
static SKB_TARGET void SKB_FN(skb_weigh_rows)(
    ptrdiff_t n, const double *restrict weight, const double *x, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = weight[i] * x[i];
}

/* Sums of (g, h) by cell: even rows into the first copy, odd ones into the second, `stride` pairs further. */
static SKB_TARGET void SKB_FN(skb_sum_pairs)(
    ptrdiff_t n, const uint16_t *restrict code, const double *restrict g, const double *restrict h, ptrdiff_t stride,
    double *copies)
{
    skb_pair *restrict even = (skb_pair *)copies, *restrict odd = (skb_pair *)copies + stride;
    ptrdiff_t i = 0;
    for (; i + 2 <= n; i += 2) {
        even[code[i]] += (skb_pair){g[i], h[i]};
        odd[code[i + 1]] += (skb_pair){g[i + 1], h[i + 1]};
    }
    if (i < n)
        even[code[i]] += (skb_pair){g[i], h[i]};
}

static SKB_TARGET void SKB_FN(skb_join_copies)(
    ptrdiff_t n, const double *restrict even, const double *restrict odd, double *restrict G, double *restrict H)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        G[i] = even[2 * i] + odd[2 * i];
        H[i] = even[2 * i + 1] + odd[2 * i + 1];
    }
}

/* out = start + ratio * tracked + shift * slope */
static SKB_TARGET void SKB_FN(skb_read_tracked)(
    ptrdiff_t n, const double *restrict start, const double *restrict ratio, const double *restrict tracked,
    double shift, const double *restrict slope, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = (start[i] + ratio[i] * tracked[i]) + shift * slope[i];
}

/* A step in the cells of its own feature: G += (v - shift) * slope, model += u. */
static SKB_TARGET void SKB_FN(skb_own_step)(
    ptrdiff_t n, const double *u, const double *v, double shift, const double *restrict slope, double *restrict G,
    double *restrict model)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        G[i] += (v[i] - shift) * slope[i];
        model[i] += u[i];
    }
}
