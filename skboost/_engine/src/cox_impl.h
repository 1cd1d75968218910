/* Cox's partial likelihood with Breslow's ties: risk-set sums in fixed point, everything else row by row.
 *
 * exp(f - max f) is rounded to a grid of 2^-73 and multiplied by whole-number weights whose sum is below 2^53, so the
 * sums of risk sets fit in 128 bits and know no order of rows. They are rounded once, to doubles, and so depend on
 * their value alone: a row of weight 2 is two rows. Differences from max f stop at -50, where two units of the grid are
 * left; at -30 the rounding is below 1e-9.
 */
#include "vmath_impl.h"

#ifndef SKB_COX_SCALAR
#define SKB_COX_SCALAR
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "wide.h"

#define SKB_COX_LEAST (-50.0)
#define SKB_COX_GRID_BITS 73
#define SKB_COX_FLOAT_MAX 1e30
#define SKB_COX_AHEAD 16

/* Risk sets from the last time to the first, then the sums of d / R and d / R^2 over the event times up to each time.
 * Rows order[start[t]:start[t + 1]] are those of time t with whole-number weights `units` in the same order, each times
 * `unit`; d[t] is the weight of the events. Sum k of time t lies at sums[2 t + k]. */
static void skb_cox_risk_sums(
    ptrdiff_t n_times, const ptrdiff_t *start, const ptrdiff_t *order, const uint64_t *units, const double *d,
    const double *e, double unit, double *risk, double *sums)
{
    skb_wide sum = {0, 0};
    double to_risk = unit * ldexp(1.0, -SKB_COX_GRID_BITS), first = 0.0, second = 0.0;
    for (ptrdiff_t t = n_times - 1; t >= 0; t--) {
        for (ptrdiff_t k = start[t + 1] - 1; k >= start[t]; k--) {
            if (k >= SKB_COX_AHEAD)
                __builtin_prefetch(e + order[k - SKB_COX_AHEAD]);
            double scaled = e[order[k]] * 0x1p36;
            uint64_t whole = (uint64_t)scaled, rest = (uint64_t)((scaled - (double)whole) * 0x1p37);
            skb_wide_add_product(&sum, units[k], whole, 37);
            skb_wide_add_product(&sum, units[k], rest, 0);
        }
        risk[t] = skb_wide_round(sum) * to_risk;
    }
    for (ptrdiff_t t = 0; t < n_times; t++) {
        if (d[t] > 0.0) {
            double step = d[t] / risk[t];
            first += step;
            second += step / risk[t];
        }
        sums[2 * t] = first;
        sums[2 * t + 1] = second;
    }
}
#endif

/* out = exp(f - top) on the grid: adding 2^-21 to what is smaller rounds it there, larger numbers lie on it. */
static SKB_TARGET void SKB_FN(skb_cox_exp)(ptrdiff_t n, const double *restrict score, double top, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double e = SKB_FN(skb_exp)(SKB_FN(skb_clamp)(score[i] - top, SKB_COX_LEAST, 0.0)), shifted = e + 0x1p-21;
        out[i] = e < 0x1p-21 ? shifted - 0x1p-21 : e;
    }
}

/* Gradient and second derivative of one copy of each row; hess may be NULL. */
static SKB_TARGET void SKB_FN(skb_cox_rows)(
    ptrdiff_t n, const ptrdiff_t *restrict time, const double *restrict event, const double *restrict e,
    const double *restrict sums, float *restrict grad, float *restrict hess)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double first = e[i] * sums[2 * time[i]], g = first - event[i];
        grad[i] = (float)(g > SKB_COX_FLOAT_MAX ? SKB_COX_FLOAT_MAX : g);
        if (hess)
            hess[i] = (float)SKB_FN(skb_clamp)(first - (e[i] * e[i]) * sums[2 * time[i] + 1], 0.0, SKB_COX_FLOAT_MAX);
    }
}

/* Terms of the partial likelihood: ln R - f for events, relative to top. */
static SKB_TARGET void SKB_FN(skb_cox_values)(
    ptrdiff_t n, const ptrdiff_t *restrict time, const double *restrict event, const double *restrict score, double top,
    const double *restrict log_risk, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = event[i] > 0.0 ? log_risk[time[i]] - (score[i] - top) : 0.0;
}

static SKB_TARGET void SKB_FN(skb_cox_logs)(ptrdiff_t n, const double *restrict x, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = SKB_FN(skb_log)(x[i] > 0.0 ? x[i] : 1.0);
}
