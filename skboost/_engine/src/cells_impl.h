/* Kernels on 16-bit cells: values to cells, content hashes of rows. Included once per instruction set (isa.h). */

/* One block, one search step for all values before the next step: the loads of different values overlap, and no step
 * branches. The table has 2 * first_step - 1 entries, cuts padded with NaN, which no value reaches, so that infinity is
 * above the cuts only. NaN gets cell 0, other values one plus the number of cuts that are at most the value. */
SKB_TARGET static void SKB_FN(skb_search_cells)(const double *restrict table, int first_step, const double *restrict x,
                                                int n, uint16_t *restrict out)
{
    uint32_t below[SKB_CELL_BLOCK];
    uint32_t step = (uint32_t)first_step;
    for (int i = 0; i < n; i++)
        below[i] = table[step - 1] <= x[i] ? step : 0;
    for (step /= 2; step; step /= 2)
        for (int i = 0; i < n; i++)
            below[i] += table[below[i] + step - 1] <= x[i] ? step : 0;
    for (int i = 0; i < n; i++)
        out[i] = (uint16_t)(x[i] == x[i] ? below[i] + 1 : 0);
}

/* Level position p gets cell p + 1, NaN cell 0, every other number the cell behind the last level. */
SKB_TARGET static void SKB_FN(skb_level_cells)(int n_levels, const double *restrict x, int n, uint16_t *restrict out)
{
    double end = (double)n_levels;
    for (int i = 0; i < n; i++) {
        double value = x[i] >= 0 && x[i] < end ? x[i] : end;
        int32_t level = (int32_t)value;
        level = (double)level == value ? level : n_levels;
        out[i] = (uint16_t)(x[i] == x[i] ? level + 1 : 0);
    }
}

/* Hashes of a block of rows of a table whose columns lie stride cells apart. */
SKB_TARGET static void SKB_FN(skb_hash_cells)(const uint16_t *restrict cells, ptrdiff_t stride, ptrdiff_t n_features,
                                              int n, uint64_t *restrict hash)
{
    for (int i = 0; i < n; i++)
        hash[i] = SKB_GOLDEN;
    for (ptrdiff_t feature = 0; feature < n_features; feature += 4) {
        uint64_t word[SKB_CELL_BLOCK];
        int width = n_features - feature < 4 ? (int)(n_features - feature) : 4;
        const uint16_t *column = cells + feature * stride;
        for (int i = 0; i < n; i++)
            word[i] = column[i];
        for (int k = 1; k < width; k++)
            for (int i = 0; i < n; i++)
                word[i] |= (uint64_t)column[k * stride + i] << (16 * k);
        for (int i = 0; i < n; i++)
            hash[i] = skb_mix64(hash[i] ^ word[i]);
    }
}
