/* Merging and subtracting histograms. */

static SKB_TARGET void SKB_FN(skb_add_words)(int64_t *restrict into, const int64_t *restrict part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        into[i] += part[i];
}

static SKB_TARGET void SKB_FN(skb_subtract_words)(int64_t *restrict from, const int64_t *restrict part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        from[i] -= part[i];
}
