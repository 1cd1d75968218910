/* Loops over the rows of one leaf that have no vector form. */
#ifndef SKB_ROWS_H
#define SKB_ROWS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

static int64_t skb_weight_sum(const uint32_t *idx, size_t m, const double *weight, double scale,
                              const uint32_t *copies)
{
    int64_t s = 0;
    for (size_t i = 0; i < m; i++)
        if (copies)
            s += (int64_t)rint(weight[idx[i]] / copies[idx[i]] * scale) * copies[idx[i]];
        else
            s += (int64_t)rint(weight[idx[i]] * scale);
    return s;
}

static uint64_t skb_count_sum(const uint32_t *idx, size_t m, const uint32_t *weight)
{
    uint64_t s = 0;
    for (size_t i = 0; i < m; i++)
        s += weight[idx[i]];
    return s;
}

static void skb_add_value(const uint32_t *idx, size_t m, double value, double *score)
{
    for (size_t i = 0; i < m; i++)
        score[idx[i]] += value;
}

static void skb_identity(uint32_t *idx, size_t r0, size_t r1)
{
    for (size_t r = r0; r < r1; r++)
        idx[r] = (uint32_t)r;
}

#endif
