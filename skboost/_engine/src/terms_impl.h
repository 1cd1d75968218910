/* Vector loops of the search of main effects. All sums have a fixed order, so every instruction set gives the same bits.
 *
 * below[c] is the sum over the first c cells of a line. A cut c of the cells a..b-1 of a line has the sides
 * (below[c] - below[a]) + add_left and (below[b] - below[c]) + add_right.
 */
#ifndef SKB_TERMS_SCALAR
#define SKB_TERMS_SCALAR
#include <float.h>
#include <stddef.h>
#include <stdint.h>

#define SKB_CHAINS 8   /* independent running sums of skb_line_sums */
#define SKB_NO_CUT -1.0 /* score of an illegal cut; legal ones are at least 0 */

typedef double skb_v8d __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t skb_v8i __attribute__((vector_size(64), aligned(8), may_alias));

typedef struct {
    double start, end;           /* below[a], below[b] */
    double add_left, add_right;
} skb_sides_t;
#endif

/* below[0..n]: the line is cut into SKB_CHAINS parts whose running sums do not wait for each other. */
static SKB_TARGET void SKB_FN(skb_line_sums)(const double *restrict x, int n, double *restrict below)
{
    int part = n / SKB_CHAINS;
    double s[SKB_CHAINS] = {0};
    for (int i = 0; i < part; i++)
        for (int k = 0; k < SKB_CHAINS; k++) {
            s[k] += x[k * part + i];
            below[k * part + i + 1] = s[k];
        }
    double carry = s[0];
    for (int k = 1; k < SKB_CHAINS; k++) {
        double *restrict b = below + k * part + 1;
        for (int i = 0; i < part; i++)
            b[i] += carry;
        carry += s[k];
    }
    for (int i = SKB_CHAINS * part; i < n; i++) {
        carry += x[i];
        below[i + 1] = carry;
    }
    below[0] = 0.0;
}

/* G^2 D^-1 of both sides with the reciprocals of the denominators at hand. */
static SKB_TARGET void SKB_FN(skb_known_scores)(
    int n, const double *restrict G, const double *restrict left, const double *restrict right, skb_sides_t g,
    double *restrict score)
{
    for (int c = 0; c < n; c++) {
        double gl = (G[c] - g.start) + g.add_left, gr = (g.end - G[c]) + g.add_right;
        score[c] = (gl * gl) * left[c] + (gr * gr) * right[c];
    }
}

/* SKB_NO_CUT where a side is too light, else 0. */
static SKB_TARGET void SKB_FN(skb_heavy_cuts)(
    int n, const double *restrict W, skb_sides_t w, double least, double *restrict score)
{
    for (int c = 0; c < n; c++) {
        double wl = (W[c] - w.start) + w.add_left, wr = (w.end - W[c]) + w.add_right;
        int ok = (wl >= least) & (wr >= least);
        score[c] = ok ? 0.0 : SKB_NO_CUT;
    }
}

/* Add the scores of one output; a cut is illegal from then on where a side has too small an H. */
static SKB_TARGET void SKB_FN(skb_add_cut_scores)(
    int n, const double *restrict G, const double *restrict H, skb_sides_t g, skb_sides_t h, double least, double l2,
    double *restrict score)
{
    for (int c = 0; c < n; c++) {
        double gl = (G[c] - g.start) + g.add_left, gr = (g.end - G[c]) + g.add_right;
        double hl = (H[c] - h.start) + h.add_left, hr = (h.end - H[c]) + h.add_right;
        double dl = hl + l2, dr = hr + l2;
        double s = score[c] + ((gl * gl) * dr + (gr * gr) * dl) / (dl * dr);
        int ok = (hl >= least) & (hr >= least) & (score[c] >= 0.0) & (s <= DBL_MAX);
        score[c] = ok ? s : SKB_NO_CUT;
    }
}

/* The same for one output under a monotone direction (1 or -1): leaf values must follow it and lie within bounds. */
static SKB_TARGET void SKB_FN(skb_add_monotone_scores)(
    int n, const double *restrict G, const double *restrict H, skb_sides_t g, skb_sides_t h, double least, double l2,
    double direction, double lower, double upper, double *restrict score)
{
    for (int c = 0; c < n; c++) {
        double gl = (G[c] - g.start) + g.add_left, gr = (g.end - G[c]) + g.add_right;
        double hl = (H[c] - h.start) + h.add_left, hr = (h.end - H[c]) + h.add_right;
        double vl = -(gl / (hl + l2)), vr = -(gr / (hr + l2));
        double s = score[c] - (gl * vl + gr * vr);
        int ok = (hl >= least) & (hr >= least) & (score[c] >= 0.0) & (s <= DBL_MAX) &
                 (direction * vl <= direction * vr) & (vl >= lower) & (vl <= upper) & (vr >= lower) & (vr <= upper);
        score[c] = ok ? s : SKB_NO_CUT;
    }
}

static SKB_TARGET double SKB_FN(skb_largest)(int n, const double *score)
{
    double lane[8], top = SKB_NO_CUT;
    skb_v8d best = {top, top, top, top, top, top, top, top};
    int c = 0;
    for (; c + 8 <= n; c += 8) {
        skb_v8d s = *(const skb_v8d *)(score + c);
        skb_v8i more = s > best;
        best = (skb_v8d)(((skb_v8i)s & more) | ((skb_v8i)best & ~more));
    }
    *(skb_v8d *)lane = best;
    for (int k = 0; k < 8; k++)
        top = lane[k] > top ? lane[k] : top;
    for (; c < n; c++)
        top = score[c] > top ? score[c] : top;
    return top;
}

static SKB_TARGET int SKB_FN(skb_count_equal)(int n, const double *restrict score, double value)
{
    int64_t count = 0;
    for (int c = 0; c < n; c++)
        count += score[c] == value;
    return (int)count;
}
