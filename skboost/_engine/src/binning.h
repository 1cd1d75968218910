/* Values to codes. Compiled without finite-math flags: NaN is meaningful here. */
#ifndef SKB_BINNING_H
#define SKB_BINNING_H

#include <stddef.h>
#include <stdint.h>

static inline double skb_load(const char *x, int is_float32)
{
    return is_float32 ? (double)*(const float *)x : *(const double *)x;
}

/* Number of the 255 first cuts strictly below x: eight steps without a branch. NaN is below nothing. */
static inline unsigned skb_cuts_below(const double *cuts, double x)
{
    unsigned pos = 0;
    for (unsigned step = 128; step; step >>= 1)
        pos += cuts[pos + step - 1] < x ? step : 0;
    return pos;
}

static void skb_bin_numeric(const double *cuts, const char *x, ptrdiff_t stride, int is_float32, ptrdiff_t n, uint8_t *out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double value = skb_load(x + i * stride, is_float32);
        out[i] = (uint8_t)(value == value ? skb_cuts_below(cuts, value) + 1 : 0);
    }
}

static void skb_bin_categorical(const double *levels, const uint8_t *level_codes, ptrdiff_t n_levels, const char *x,
                                ptrdiff_t stride, int is_float32, ptrdiff_t n, uint8_t *out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double value = skb_load(x + i * stride, is_float32);
        ptrdiff_t low = 0, count = n_levels;
        while (count > 0) {
            ptrdiff_t half = count / 2;
            int below = levels[low + half] < value;
            low = below ? low + half + 1 : low;
            count = below ? count - half - 1 : half;
        }
        out[i] = low < n_levels && levels[low] == value ? level_codes[low] : 0;
    }
}

#endif
