/* Passes over the cells of one feature under squared error. */
#include "cell_lanes.h"
#include <stddef.h>

/* out = (all - part) + shift * weight; part may be NULL. */
static SKB_TARGET void SKB_FN(skb_read_sums)(
    ptrdiff_t n, const double *restrict all, const double *restrict part, double shift, const double *restrict weight,
    double *restrict out)
{
    if (part)
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = (all[i] - part[i]) + shift * weight[i];
    else
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = all[i] + shift * weight[i];
}

/* Change of sum w r^2 when u is added to the model: sum of u (2 G + u W), G = start + change + shift * W. */
static SKB_TARGET double SKB_FN(skb_squares_change)(
    ptrdiff_t n, const double *restrict u, const double *restrict start, const double *restrict change, double shift,
    const double *restrict W)
{
    double lane[SKB_LANES] = {0};
    ptrdiff_t i = 0;
    for (; i + SKB_LANES <= n; i += SKB_LANES)
        for (int l = 0; l < SKB_LANES; l++) {
            double g = (start[i + l] + change[i + l]) + shift * W[i + l];
            lane[l] += u[i + l] * (2.0 * g + u[i + l] * W[i + l]);
        }
    for (int l = 0; i < n; i++, l++) {
        double g = (start[i] + change[i]) + shift * W[i];
        lane[l] += u[i] * (2.0 * g + u[i] * W[i]);
    }
    return skb_lane_sum(lane);
}
