/* Weighted quantile by selection, expected linear time. */
#ifndef SKB_SELECT_H
#define SKB_SELECT_H
#include <stdint.h>

static inline void skb_swap_pairs(double *x, uint32_t *w, ptrdiff_t i, ptrdiff_t j)
{
    double a = x[i];
    uint32_t b = w[i];
    x[i] = x[j], w[i] = w[j];
    x[j] = a, w[j] = b;
}

static inline double skb_median_of_three(double a, double b, double c)
{
    double low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* Averaged inverted distribution function at the level: the smallest x whose cumulative weight reaches level * total,
 * or the mean of it and the next larger x where it is reached exactly. x and w, of n >= 1 rows, are reordered. Rows
 * without weight do not count; without any weight the answer is 0. The answer depends on no order of the rows. */
static double skb_weighted_quantile(double *x, uint32_t *w, ptrdiff_t n, double level)
{
    ptrdiff_t low = 0, high = 0;
    uint64_t total = 0, below = 0, state = 0x9e3779b97f4a7c15u;
    double next = 0.0;
    int has_next = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        if (w[i]) {
            total += w[i];
            skb_swap_pairs(x, w, i, high++);
        }
    double wanted = level * (double)total;
    while (low < high) {
        /* random places: no order of the input makes it slow */
        ptrdiff_t size = high - low, at[3];
        for (int i = 0; i < 3; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            at[i] = low + (ptrdiff_t)((state >> 33) % (uint64_t)size);
        }
        double pivot = skb_median_of_three(x[at[0]], x[at[1]], x[at[2]]);
        ptrdiff_t less = low, i = low, more = high;
        uint64_t less_weight = 0, equal_weight = 0;
        while (i < more) {
            if (x[i] < pivot) {
                less_weight += w[i];
                skb_swap_pairs(x, w, i++, less++);
            } else if (x[i] > pivot) {
                skb_swap_pairs(x, w, i, --more);
            } else {
                equal_weight += w[i++];
            }
        }
        if (less > low && (double)(below + less_weight) >= wanted) {
            next = pivot, has_next = 1;
            high = less;
            continue;
        }
        below += less_weight + equal_weight;
        if ((double)below < wanted && more < high) {
            low = more;
            continue;
        }
        if ((double)below > wanted)
            return pivot;
        for (i = more; i < high; i++)
            if (!has_next || x[i] < next)
                next = x[i], has_next = 1;
        return has_next ? 0.5 * pivot + 0.5 * next : pivot;
    }
    return 0.0;
}
#endif
