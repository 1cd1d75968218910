/* Passes over the cells of one feature. Element by element, or sums in fixed lanes: the same bits for all instruction
 * sets.
 */
#ifndef SKB_TABLE_STATE_SCALAR
#define SKB_TABLE_STATE_SCALAR
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SKB_LANES 32

static inline double skb_lane_sum(double *lane)
{
    for (int half = SKB_LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}
#endif

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

static SKB_TARGET double SKB_FN(skb_sum)(ptrdiff_t n, const double *restrict x)
{
    double lane[SKB_LANES] = {0};
    ptrdiff_t i = 0;
    for (; i + SKB_LANES <= n; i += SKB_LANES)
        for (int l = 0; l < SKB_LANES; l++)
            lane[l] += x[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i];
    return skb_lane_sum(lane);
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

/* Cells b with u[b] != u[b + 1], ascending; returns how many. Bits are compared 32 cells at a time first. */
static SKB_TARGET int SKB_FN(skb_changes)(ptrdiff_t n, const double *restrict u, int *restrict out)
{
    int count = 0;
    for (ptrdiff_t at = 0; at + 1 < n; at += SKB_LANES) {
        ptrdiff_t end = at + SKB_LANES < n - 1 ? at + SKB_LANES : n - 1;
        uint64_t differ = 0;
        for (ptrdiff_t b = at; b < end; b++) {
            uint64_t here, next;
            memcpy(&here, u + b, sizeof here);
            memcpy(&next, u + b + 1, sizeof next);
            differ |= here ^ next;
        }
        for (ptrdiff_t b = at; differ && b < end; b++) {
            out[count] = (int)b;
            count += u[b] != u[b + 1];
        }
    }
    return count;
}
