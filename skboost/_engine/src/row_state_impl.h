/* Passes over a tile of rows: add a step to the scores, sum over cells.
 *
 * Sums over rows have SKB_LANES running sums, row i in lane i % SKB_LANES, whatever the instruction set; histograms have
 * a few copies, row i in copy i modulo their number. Tiles begin at multiples of SKB_LANES.
 */
#include "row_step.h"
#include "rows8.h"

#ifndef SKB_ROW_STATE_SCALAR
#define SKB_ROW_STATE_SCALAR

#define SKB_LANES 16
static double skb_lane_sum(const double *lane)
{
    double s[SKB_LANES];
    for (int k = 0; k < SKB_LANES; k++)
        s[k] = lane[k];
    for (int half = SKB_LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            s[k] += s[k + half];
    return s[0];
}

static inline double skb_step_value(const skb_row_step_t *s, unsigned code)
{
    if (s->n_cuts < 0)
        return s->table[code];
    double above = s->n_cuts == 2 ? skb_choose(code <= (unsigned)s->cut[1], s->value[1], s->value[2]) : s->value[1];
    return s->n_cuts ? skb_choose(code <= (unsigned)s->cut[0], s->value[0], above) : s->value[0];
}

/* A step in the registers of eight rows. */
#define SKB_STEP8(step)                                                                             \
    SKB_X8 v0 = SKB_SET8((step)->value[0]), v1 = SKB_SET8((step)->value[1]), v2 = SKB_SET8((step)->value[2]); \
    SKB_CUT8 c0 = SKB_SET_CUT8((step)->cut[0]), c1 = SKB_SET_CUT8((step)->cut[1])
#define SKB_STEP_OF8(n_cuts, code)                                                                  \
    ((n_cuts) == 0   ? v0                                                                           \
     : (n_cuts) == 1 ? SKB_CHOOSE8(SKB_UPTO8(code, c0), v0, v1)                                     \
                     : SKB_CHOOSE8(SKB_UPTO8(code, c0), v0, SKB_CHOOSE8(SKB_UPTO8(code, c1), v1, v2)))
#endif

/* ---------------------------------------------------------------------------------------------- steps */

/* Cells b of u, of shape (n_outputs, n), whose values differ from those of b + 1; returns their number, -1 where there
 * are more than SKB_MAX_CUTS. */
static SKB_TARGET int SKB_FN(skb_change_points)(int n, int n_outputs, const double *restrict u, int *restrict cuts)
{
    int found = 0;
    for (int k = 0; k < n_outputs; k++) {
        const double *restrict v = u + (size_t)k * n;
        for (int b = 0; b + 1 < n; b += 64) {
            int end = b + 64 < n - 1 ? b + 64 : n - 1;
            uint64_t differ = 0;
            for (int c = b; c < end; c++) {
                uint64_t x, y;
                memcpy(&x, v + c, sizeof x);
                memcpy(&y, v + c + 1, sizeof y);
                differ |= x ^ y;
            }
            if (!differ)
                continue;
            for (int c = b; c < end; c++) {
                if (v[c] == v[c + 1])
                    continue;
                int at = 0;
                while (at < found && cuts[at] < c)
                    at++;
                if (at < found && cuts[at] == c)
                    continue;
                if (found == SKB_MAX_CUTS)
                    return -1;
                for (int i = found; i > at; i--)
                    cuts[i] = cuts[i - 1];
                cuts[at] = c;
                found++;
            }
        }
    }
    return found;
}

static inline SKB_TARGET __attribute__((always_inline)) void SKB_FN(skb_add_cuts)(
    int n_cuts, ptrdiff_t n, const uint16_t *restrict code, const skb_row_step_t *step, double *restrict f)
{
    SKB_STEP8(step);
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8)
        SKB_STORE8(f + i, SKB_ADD8(SKB_LOAD8(f + i), SKB_STEP_OF8(n_cuts, code + i)));
    for (; i < n; i++)
        f[i] += skb_step_value(step, code[i]);
}

static SKB_TARGET void SKB_FN(skb_add_step16)(
    ptrdiff_t n, const uint16_t *restrict code, const skb_row_step_t *step, double *restrict f)
{
    const double *restrict table = step->table;
    ptrdiff_t i = 0;
    switch (step->n_cuts) {
    case 0: SKB_FN(skb_add_cuts)(0, n, code, step, f); break;
    case 1: SKB_FN(skb_add_cuts)(1, n, code, step, f); break;
    case 2: SKB_FN(skb_add_cuts)(2, n, code, step, f); break;
    default:
        for (; i + 8 <= n; i += 8)
            SKB_STORE8(f + i, SKB_ADD8(SKB_LOAD8(f + i), SKB_TABLE8(table, code + i)));
        for (; i < n; i++)
            f[i] += table[code[i]];
    }
}

static SKB_TARGET void SKB_FN(skb_add_step32)(
    ptrdiff_t n, const uint32_t *restrict code, const skb_row_step_t *step, double *restrict f)
{
    const double *restrict table = step->table;
    for (ptrdiff_t i = 0; i < n; i++)
        f[i] += table[code[i]];
}

/* ---------------------------------------------------------------------------------------------- sums */

/* out = w x */
static SKB_TARGET void SKB_FN(skb_weigh)(
    ptrdiff_t n, const double *restrict w, const double *x, double *out)
{
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8)
        SKB_STORE8(out + i, SKB_MUL8(SKB_LOAD8(w + i), SKB_LOAD8(x + i)));
    for (; i < n; i++)
        out[i] = w[i] * x[i];
}

static SKB_TARGET void SKB_FN(skb_sum_rows)(ptrdiff_t n, const double *restrict x, double *restrict lane)
{
    SKB_X8 lo = SKB_LOAD8(lane), hi = SKB_LOAD8(lane + 8);
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16) {
        lo = SKB_ADD8(lo, SKB_LOAD8(x + i));
        hi = SKB_ADD8(hi, SKB_LOAD8(x + i + 8));
    }
    SKB_STORE8(lane, lo);
    SKB_STORE8(lane + 8, hi);
    for (int k = 0; i + k < n; k++)
        lane[k] += x[i + k];
}

/* Sum of x over the rows of the cells first..last. */
static SKB_TARGET void SKB_FN(skb_sum_part)(
    ptrdiff_t n, const uint16_t *restrict code, int first, int last, const double *restrict x, double *restrict lane)
{
    SKB_X8 lo = SKB_LOAD8(lane), hi = SKB_LOAD8(lane + 8);
    SKB_CUT8 start = SKB_SET_CUT8(first), span = SKB_SET_CUT8(last - first);
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16) {
        lo = SKB_ADD_IF8(lo, SKB_WITHIN8(code + i, start, span), SKB_LOAD8(x + i));
        hi = SKB_ADD_IF8(hi, SKB_WITHIN8(code + i + 8, start, span), SKB_LOAD8(x + i + 8));
    }
    SKB_STORE8(lane, lo);
    SKB_STORE8(lane + 8, hi);
    for (int k = 0; i + k < n; k++)
        lane[k] += skb_keep(first <= code[i + k] && code[i + k] <= last, x[i + k]);
}

/* A step of at most two cuts, then the sums of the rows up to one cut and above it, weighted unless w is NULL. */
static inline SKB_TARGET __attribute__((always_inline)) void SKB_FN(skb_step_and_sum)(
    int n_cuts, ptrdiff_t n, const uint16_t *restrict stepped, const skb_row_step_t *step,
    const uint16_t *restrict code, int cut, const double *restrict w, double *restrict f, double *restrict below,
    double *restrict above)
{
    SKB_X8 below0 = SKB_LOAD8(below), below1 = SKB_LOAD8(below + 8);
    SKB_X8 above0 = SKB_LOAD8(above), above1 = SKB_LOAD8(above + 8);
    SKB_CUT8 c = SKB_SET_CUT8(cut);
    SKB_STEP8(step);
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16) {
        SKB_X8 f0 = SKB_ADD8(SKB_LOAD8(f + i), SKB_STEP_OF8(n_cuts, stepped + i));
        SKB_X8 f1 = SKB_ADD8(SKB_LOAD8(f + i + 8), SKB_STEP_OF8(n_cuts, stepped + i + 8));
        SKB_STORE8(f + i, f0);
        SKB_STORE8(f + i + 8, f1);
        if (w) {
            f0 = SKB_MUL8(SKB_LOAD8(w + i), f0);
            f1 = SKB_MUL8(SKB_LOAD8(w + i + 8), f1);
        }
        SKB_M8 m0 = SKB_UPTO8(code + i, c), m1 = SKB_UPTO8(code + i + 8, c);
        below0 = SKB_ADD_IF8(below0, m0, f0);
        below1 = SKB_ADD_IF8(below1, m1, f1);
        above0 = SKB_ADD_UNLESS8(above0, m0, f0);
        above1 = SKB_ADD_UNLESS8(above1, m1, f1);
    }
    SKB_STORE8(below, below0);
    SKB_STORE8(below + 8, below1);
    SKB_STORE8(above, above0);
    SKB_STORE8(above + 8, above1);
    for (int k = 0; i + k < n; k++) {
        f[i + k] += skb_step_value(step, stepped[i + k]);
        double x = w ? w[i + k] * f[i + k] : f[i + k];
        below[k] += skb_keep(code[i + k] <= cut, x);
        above[k] += skb_keep(code[i + k] > cut, x);
    }
}

static SKB_TARGET void SKB_FN(skb_step_and_parts)(
    ptrdiff_t n, const uint16_t *stepped, const skb_row_step_t *step, const uint16_t *code, int cut, const double *w,
    double *f, double *below, double *above)
{
#define SKB_CASE(n_cuts, w) SKB_FN(skb_step_and_sum)(n_cuts, n, stepped, step, code, cut, w, f, below, above)
    switch (step->n_cuts) {
    case 0: w ? SKB_CASE(0, w) : SKB_CASE(0, NULL); break;
    case 1: w ? SKB_CASE(1, w) : SKB_CASE(1, NULL); break;
    default: w ? SKB_CASE(2, w) : SKB_CASE(2, NULL);
    }
#undef SKB_CASE
}

/* A step of at most two cuts, then the sum of squares, weighted unless w is NULL. */
static inline SKB_TARGET __attribute__((always_inline)) void SKB_FN(skb_step_and_square)(
    int n_cuts, ptrdiff_t n, const uint16_t *restrict code, const skb_row_step_t *step, const double *restrict w,
    double *restrict f, double *restrict lane)
{
    SKB_X8 lo = SKB_LOAD8(lane), hi = SKB_LOAD8(lane + 8);
    SKB_STEP8(step);
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16) {
        SKB_X8 f0 = SKB_ADD8(SKB_LOAD8(f + i), SKB_STEP_OF8(n_cuts, code + i));
        SKB_X8 f1 = SKB_ADD8(SKB_LOAD8(f + i + 8), SKB_STEP_OF8(n_cuts, code + i + 8));
        SKB_STORE8(f + i, f0);
        SKB_STORE8(f + i + 8, f1);
        f0 = SKB_MUL8(f0, f0);
        f1 = SKB_MUL8(f1, f1);
        lo = SKB_ADD8(lo, w ? SKB_MUL8(SKB_LOAD8(w + i), f0) : f0);
        hi = SKB_ADD8(hi, w ? SKB_MUL8(SKB_LOAD8(w + i + 8), f1) : f1);
    }
    SKB_STORE8(lane, lo);
    SKB_STORE8(lane + 8, hi);
    for (int k = 0; i + k < n; k++) {
        f[i + k] += skb_step_value(step, code[i + k]);
        double s = f[i + k] * f[i + k];
        lane[k] += w ? w[i + k] * s : s;
    }
}

static SKB_TARGET void SKB_FN(skb_step_and_squares)(
    ptrdiff_t n, const uint16_t *code, const skb_row_step_t *step, const double *w, double *f, double *lane)
{
    switch (step->n_cuts) {
    case 0: SKB_FN(skb_step_and_square)(0, n, code, step, w, f, lane); break;
    case 1: SKB_FN(skb_step_and_square)(1, n, code, step, w, f, lane); break;
    default: SKB_FN(skb_step_and_square)(2, n, code, step, w, f, lane);
    }
}

/* ---------------------------------------------------------------------------------------------- histograms */

/* hist[cell] += x. With `spread` there are four copies, of rows k, k + 4, ...: rows of one cell that follow each other
 * then do not wait for each other. */
#define SKB_SCATTER(name, code_t)                                                                             \
    static SKB_TARGET void SKB_FN(name)(ptrdiff_t n, const code_t *restrict code, const double *restrict x,    \
                                        int spread, ptrdiff_t stride, double *hist)                            \
    {                                                                                                         \
        double *h1 = hist + (spread ? stride : 0), *h2 = hist + (spread ? 2 * stride : 0);                     \
        double *h3 = hist + (spread ? 3 * stride : 0);                                                         \
        ptrdiff_t i = 0;                                                                                      \
        for (; i + 4 <= n; i += 4) {                                                                          \
            hist[code[i]] += x[i];                                                                            \
            h1[code[i + 1]] += x[i + 1];                                                                      \
            h2[code[i + 2]] += x[i + 2];                                                                      \
            h3[code[i + 3]] += x[i + 3];                                                                      \
        }                                                                                                     \
        for (int k = 0; i + k < n; k++)                                                                       \
            hist[(spread ? k * stride : 0) + code[i + k]] += x[i + k];                                        \
    }
SKB_SCATTER(skb_scatter16, uint16_t)
SKB_SCATTER(skb_scatter32, uint32_t)
#undef SKB_SCATTER

/* The same of pairs (g, h), two sums per cell; two copies. */
#define SKB_SCATTER(name, code_t)                                                                             \
    static SKB_TARGET void SKB_FN(name)(ptrdiff_t n, const code_t *restrict code, const double *restrict g,    \
                                        const double *restrict h, int spread, ptrdiff_t stride, double *hist) \
    {                                                                                                         \
        skb_v2d *h0 = (skb_v2d *)hist, *h1 = h0 + (spread ? stride : 0);                                       \
        ptrdiff_t i = 0;                                                                                      \
        for (; i + 2 <= n; i += 2) {                                                                          \
            h0[code[i]] += (skb_v2d){g[i], h[i]};                                                             \
            h1[code[i + 1]] += (skb_v2d){g[i + 1], h[i + 1]};                                                 \
        }                                                                                                     \
        if (i < n)                                                                                            \
            h0[code[i]] += (skb_v2d){g[i], h[i]};                                                             \
    }
SKB_SCATTER(skb_scatter_pairs16, uint16_t)
SKB_SCATTER(skb_scatter_pairs32, uint32_t)
#undef SKB_SCATTER

static SKB_TARGET void SKB_FN(skb_join_copies)(int n, const double *restrict hist, int spread, ptrdiff_t stride,
                                               double *restrict out)
{
    const double *restrict h1 = hist + stride, *restrict h2 = hist + 2 * stride, *restrict h3 = hist + 3 * stride;
    if (!spread) {
        memcpy(out, hist, (size_t)n * sizeof *out);
        return;
    }
    for (int b = 0; b < n; b++)
        out[b] = (hist[b] + h1[b]) + (h2[b] + h3[b]);
}

static SKB_TARGET void SKB_FN(skb_join_pairs)(int n, const double *restrict hist, int spread, ptrdiff_t stride,
                                              double *restrict G, double *restrict H)
{
    const double *restrict second = hist + 2 * stride;
    for (int b = 0; b < n; b++) {
        G[b] = hist[2 * b];
        H[b] = hist[2 * b + 1];
    }
    if (spread)
        for (int b = 0; b < n; b++) {
            G[b] += second[2 * b];
            H[b] += second[2 * b + 1];
        }
}

#include "odds_impl.h"
#include "rows8_end.h"
