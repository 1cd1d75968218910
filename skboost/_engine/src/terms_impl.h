/* Vector loops over the scores of cuts and the cells of an update. */
#include <stdint.h>

/* Number of scores that equal value; first receives the position of the first one. */
static SKB_TARGET int SKB_FN(skb_find_equal)(int n, const double *restrict score, double value, int *first)
{
    int found = 0;
    for (int start = 0; start < n; start += 64) {
        int end = start + 64 < n ? start + 64 : n;
        int64_t count = 0;
        for (int c = start; c < end; c++)
            count += score[c] == value;
        if (count && !found)
            for (*first = start; score[*first] != value;)
                ++*first;
        found += (int)count;
    }
    return found;
}

static SKB_TARGET void SKB_FN(skb_fill)(int n, double value, double *restrict out)
{
    for (int i = 0; i < n; i++)
        out[i] = value;
}
