/* Passes over the cells of one feature: a sum, and where a step changes. */
#include "cell_lanes.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
