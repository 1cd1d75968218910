/* Stable partition of row indices: left rows stay in place, right rows go through `buffer` and follow them. */
#ifndef SKB_PARTITION_H
#define SKB_PARTITION_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Numeric test on codes: left iff (uint8)(code - d) <= (uint8)(t - d); d = 0 sends missing left, d = 1 right. */
static size_t skb_partition_numeric(const uint8_t *col, uint32_t *idx, size_t m, int threshold, int missing_right,
                                    uint32_t *buffer)
{
    uint8_t d = (uint8_t)missing_right, t = (uint8_t)(threshold - missing_right);
    size_t nl = 0, nr = 0;
    for (size_t i = 0; i < m; i++) {
        uint32_t r = idx[i];
        size_t left = (uint8_t)(col[r] - d) <= t;
        idx[nl] = r;
        buffer[nr] = r;
        nl += left;
        nr += 1 - left;
    }
    memcpy(idx + nl, buffer, nr * sizeof(uint32_t));
    return nl;
}

static size_t skb_partition_set(const uint8_t *col, uint32_t *idx, size_t m, const uint8_t *left_set,
                                uint32_t *buffer)
{
    uint8_t table[256];
    for (int b = 0; b < 256; b++)
        table[b] = (left_set[b >> 3] >> (b & 7)) & 1;
    size_t nl = 0, nr = 0;
    for (size_t i = 0; i < m; i++) {
        uint32_t r = idx[i];
        size_t left = table[col[r]];
        idx[nl] = r;
        buffer[nr] = r;
        nl += left;
        nr += 1 - left;
    }
    memcpy(idx + nl, buffer, nr * sizeof(uint32_t));
    return nl;
}

#endif
