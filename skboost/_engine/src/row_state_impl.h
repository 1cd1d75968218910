/* Passes over a tile of rows: add a step to the scores, sum over cells.
 *
 * Sums over rows have SKB_LANES running sums, row i in lane i % SKB_LANES (histograms: copy i % SKB_COPIES), whatever
 * the instruction set. Tiles begin at multiples of SKB_LANES.
 */
#ifndef SKB_ROW_STATE_SCALAR
#define SKB_ROW_STATE_SCALAR
#include <stddef.h>
#include <stdint.h>

#define SKB_LANES 16
#define SKB_COPIES 4

/* What a step adds to one output: value[j] up to cut[j], value[n_cuts] above; n_cuts < 0: table[cell]. */
typedef struct {
    int n_cuts;
    int cut[2];
    double value[3];
    const double *table;
} skb_row_step_t;

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
#endif

static SKB_TARGET void SKB_FN(skb_add_step16)(
    ptrdiff_t n, const uint16_t *restrict code, const skb_row_step_t *step, double *restrict f)
{
    double v0 = step->value[0], v1 = step->value[1], v2 = step->value[2];
    uint16_t c0 = (uint16_t)step->cut[0], c1 = (uint16_t)step->cut[1];
    const double *restrict table = step->table;
    switch (step->n_cuts) {
    case 0:
        for (ptrdiff_t i = 0; i < n; i++)
            f[i] += v0;
        break;
    case 1:
        for (ptrdiff_t i = 0; i < n; i++)
            f[i] += code[i] <= c0 ? v0 : v1;
        break;
    case 2:
        for (ptrdiff_t i = 0; i < n; i++)
            f[i] += code[i] <= c0 ? v0 : code[i] <= c1 ? v1 : v2;
        break;
    default:
        for (ptrdiff_t i = 0; i < n; i++)
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

/* out = w x */
static SKB_TARGET void SKB_FN(skb_weigh)(
    ptrdiff_t n, const double *restrict w, const double *restrict x, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = w[i] * x[i];
}

static SKB_TARGET void SKB_FN(skb_sum_rows)(ptrdiff_t n, const double *restrict x, double *restrict lane)
{
    ptrdiff_t i = 0;
    for (; i + SKB_LANES <= n; i += SKB_LANES)
        for (int k = 0; k < SKB_LANES; k++)
            lane[k] += x[i + k];
    for (int k = 0; i + k < n; k++)
        lane[k] += x[i + k];
}

/* Sum of x over the rows of cells up to the cut. */
static SKB_TARGET void SKB_FN(skb_sum_below)(
    ptrdiff_t n, const uint16_t *restrict code, int cut, const double *restrict x, double *restrict lane)
{
    uint16_t c = (uint16_t)cut;
    ptrdiff_t i = 0;
    for (; i + SKB_LANES <= n; i += SKB_LANES)
        for (int k = 0; k < SKB_LANES; k++)
            lane[k] += code[i + k] <= c ? x[i + k] : 0.0;
    for (int k = 0; i + k < n; k++)
        lane[k] += code[i + k] <= c ? x[i + k] : 0.0;
}

/* Sum of w x^2, w NULL: of x^2. */
static SKB_TARGET void SKB_FN(skb_sum_squares)(
    ptrdiff_t n, const double *restrict x, const double *restrict w, double *restrict lane)
{
    ptrdiff_t i = 0;
    if (w) {
        for (; i + SKB_LANES <= n; i += SKB_LANES)
            for (int k = 0; k < SKB_LANES; k++)
                lane[k] += w[i + k] * (x[i + k] * x[i + k]);
        for (int k = 0; i + k < n; k++)
            lane[k] += w[i + k] * (x[i + k] * x[i + k]);
    } else {
        for (; i + SKB_LANES <= n; i += SKB_LANES)
            for (int k = 0; k < SKB_LANES; k++)
                lane[k] += x[i + k] * x[i + k];
        for (int k = 0; i + k < n; k++)
            lane[k] += x[i + k] * x[i + k];
    }
}

/* hist[SKB_COPIES * cell + copy] += x; the copies keep rows of one cell from waiting for each other. */
#define SKB_SCATTER(name, code_t)                                                                             \
    static SKB_TARGET void SKB_FN(name)(                                                                       \
        ptrdiff_t n, const code_t *restrict code, const double *restrict x, double *restrict hist)            \
    {                                                                                                         \
        ptrdiff_t i = 0;                                                                                      \
        for (; i + SKB_COPIES <= n; i += SKB_COPIES)                                                          \
            for (int k = 0; k < SKB_COPIES; k++)                                                              \
                hist[SKB_COPIES * (size_t)code[i + k] + k] += x[i + k];                                       \
        for (int k = 0; i + k < n; k++)                                                                       \
            hist[SKB_COPIES * (size_t)code[i + k] + k] += x[i + k];                                           \
    }
SKB_SCATTER(skb_scatter16, uint16_t)
SKB_SCATTER(skb_scatter32, uint32_t)
#undef SKB_SCATTER

static SKB_TARGET void SKB_FN(skb_join_copies)(int n, const double *restrict hist, double *restrict out)
{
    for (int b = 0; b < n; b++)
        out[b] = (hist[4 * b] + hist[4 * b + 1]) + (hist[4 * b + 2] + hist[4 * b + 3]);
}
