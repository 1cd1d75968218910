/* Kernels on 16-bit cells: values to cells, content hashes of rows. Included once per instruction set (isa.h). */

#ifdef SKB_AVX512
/* Like skb_search_cells, with 32 values at a time: three steps among seven cuts in a register, the others by gathering. */
SKB_TARGET static void SKB_FN(skb_search_wide)(const double *restrict table, int first_step, const double *restrict x,
                                               int n, uint16_t *restrict out)
{
    long long quarter = first_step / 4;
    __m512i numbers = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    __m512i places = _mm512_mullo_epi64(numbers, _mm512_set1_epi64(quarter));
    __m512d top = _mm512_i64gather_pd(places, table + quarter - 1, 8); /* the eighth is padding */
    for (int i = 0; i < n; i += 32) {
        __m512d value[4];
        __m512i below[4];
        __mmask8 inside[4];
        for (int k = 0; k < 4; k++) {
            int left = n - i - 8 * k;
            inside[k] = (__mmask8)(left >= 8 ? 0xff : left > 0 ? (1 << left) - 1 : 0);
            value[k] = _mm512_maskz_loadu_pd(inside[k], x + i + 8 * k);
            below[k] = _mm512_setzero_si512();
        }
        for (long long step = 4; step; step /= 2)
            for (int k = 0; k < 4; k++) {
                __m512i place = _mm512_add_epi64(below[k], _mm512_set1_epi64(step - 1));
                __mmask8 up = _mm512_cmp_pd_mask(_mm512_permutexvar_pd(place, top), value[k], _CMP_LE_OQ);
                below[k] = _mm512_mask_add_epi64(below[k], up, below[k], _mm512_set1_epi64(step));
            }
        for (int k = 0; k < 4; k++)
            below[k] = _mm512_mullo_epi64(below[k], _mm512_set1_epi64(quarter));
        for (long long step = quarter / 2; step; step /= 2)
            for (int k = 0; k < 4; k++) {
                __m512d cut = _mm512_i64gather_pd(below[k], table + step - 1, 8);
                __mmask8 up = _mm512_cmp_pd_mask(cut, value[k], _CMP_LE_OQ);
                below[k] = _mm512_mask_add_epi64(below[k], up, below[k], _mm512_set1_epi64(step));
            }
        for (int k = 0; k < 4; k++) {
            __mmask8 known = _mm512_cmp_pd_mask(value[k], value[k], _CMP_ORD_Q);
            __m512i cell = _mm512_maskz_add_epi64(known, below[k], _mm512_set1_epi64(1));
            _mm_mask_storeu_epi16(out + i + 8 * k, inside[k], _mm512_cvtepi64_epi16(cell));
        }
    }
}
#endif

/* One block, one search step for all values before the next step: the loads of different values overlap, and no step
 * branches. The table has 2 * first_step - 1 entries, cuts padded with NaN, which no value reaches, so that infinity is
 * above the cuts only. NaN gets cell 0, other values one plus the number of cuts that are at most the value. */
SKB_TARGET static void SKB_FN(skb_search_cells)(const double *restrict table, int first_step, const double *restrict x,
                                                int n, uint16_t *restrict out)
{
#ifdef SKB_AVX512
    if (first_step >= 4) {
        SKB_FN(skb_search_wide)(table, first_step, x, n, out);
        return;
    }
#endif
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
