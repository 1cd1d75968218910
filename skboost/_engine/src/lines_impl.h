/* Vector loops over lines of cells. All sums have a fixed order, so every instruction set gives the same bits.
 *
 * below[c] is the sum over the first c cells of a line. A cut c of the cells a..b-1 of a line has the sides
 * (below[c] - below[a]) + add_left and (below[b] - below[c]) + add_right.
 */
#include "rows8.h"

#ifndef SKB_LINES_SCALAR
#define SKB_LINES_SCALAR
#include <float.h>

#define SKB_NO_CUT -1.0 /* score of an illegal cut; legal ones are at least 0 */

typedef struct {
    double start, end; /* below[a], below[b] */
    double add_left, add_right;
} skb_sides_t;
#endif

/* below[0..n]: sums within eight cells, and what is below them. Cells of 0 never change a sum. */
static SKB_TARGET void SKB_FN(skb_line_sums)(const double *restrict x, int n, double *restrict below)
{
    double rest[8] = {0};
    SKB_X8 carry = SKB_SET8(0.0);
    int i = 0;
    below[0] = 0.0;
    for (; i < n; i += 8) {
        SKB_X8 s;
        if (i + 8 <= n) {
            s = SKB_LOAD8(x + i);
        } else {
            memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);
            s = SKB_LOAD8(rest);
        }
        s = SKB_SUMS8(s);
        if (i + 8 <= n) {
            SKB_STORE8(below + i + 1, SKB_ADD8(carry, s));
        } else {
            SKB_STORE8(rest, SKB_ADD8(carry, s));
            memcpy(below + i + 1, rest, (size_t)(n - i) * sizeof *x);
        }
        carry = SKB_ADD8(carry, SKB_LAST8(s));
    }
}

static SKB_TARGET double SKB_FN(skb_largest)(int n, const double *score)
{
    double lane[8], top = SKB_NO_CUT;
    SKB_X8 best = SKB_SET8(SKB_NO_CUT);
    int c = 0;
    for (; c + 8 <= n; c += 8)
        best = SKB_MAX8(best, SKB_LOAD8(score + c));
    SKB_STORE8(lane, best);
    for (int k = 0; k < 8; k++)
        top = lane[k] > top ? lane[k] : top;
    for (; c < n; c++)
        top = score[c] > top ? score[c] : top;
    return top;
}

/* G^2 / D of both sides with the reciprocals of the denominators at hand; returns the largest. */
static SKB_TARGET double SKB_FN(skb_known_scores)(
    int n, const double *restrict G, const double *restrict left, const double *restrict right, skb_sides_t g,
    double *restrict score)
{
    SKB_X8 start = SKB_SET8(g.start), end = SKB_SET8(g.end), best = SKB_SET8(SKB_NO_CUT);
    SKB_X8 add_left = SKB_SET8(g.add_left), add_right = SKB_SET8(g.add_right);
    double lane[8], top = SKB_NO_CUT;
    int c = 0;
    for (; c + 8 <= n; c += 8) {
        SKB_X8 below = SKB_LOAD8(G + c);
        SKB_X8 l = SKB_ADD8(SKB_SUB8(below, start), add_left), r = SKB_ADD8(SKB_SUB8(end, below), add_right);
        SKB_X8 s = SKB_ADD8(SKB_MUL8(SKB_MUL8(l, l), SKB_LOAD8(left + c)),
                            SKB_MUL8(SKB_MUL8(r, r), SKB_LOAD8(right + c)));
        SKB_STORE8(score + c, s);
        best = SKB_MAX8(best, s);
    }
    SKB_STORE8(lane, best);
    for (int k = 0; k < 8; k++)
        top = lane[k] > top ? lane[k] : top;
    for (; c < n; c++) {
        double l = (G[c] - g.start) + g.add_left, r = (g.end - G[c]) + g.add_right;
        score[c] = (l * l) * left[c] + (r * r) * right[c];
        top = score[c] > top ? score[c] : top;
    }
    return top;
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

static SKB_TARGET double SKB_FN(skb_sum_cells)(int n, const double *restrict x)
{
    double lane[8];
    SKB_X8 sum = SKB_SET8(0.0), odd = SKB_SET8(0.0);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        sum = SKB_ADD8(sum, SKB_LOAD8(x + i));
        odd = SKB_ADD8(odd, SKB_LOAD8(x + i + 8));
    }
    SKB_STORE8(lane, SKB_ADD8(sum, odd));
    for (int k = 0; i < n; i++, k++)
        lane[k % 8] += x[i];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

#include "rows8_end.h"
