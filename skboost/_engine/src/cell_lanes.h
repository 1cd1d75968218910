/* Sums over cells in fixed lanes: the same bits for all instruction sets. */
#ifndef SKB_CELL_LANES_H
#define SKB_CELL_LANES_H

#define SKB_LANES 32

static inline double skb_lane_sum(double *lane)
{
    for (int half = SKB_LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

#endif
