/* Stable partition of row indices: left rows stay in place, right rows go through `buffer` and follow them.
 *
 * A numeric test on codes sends left iff (uint8)(code - d) <= (uint8)(t - d); d = 0 sends missing left, d = 1 right.
 * `before` and `after` are the readable bytes around the column; the vector form loads four bytes per code. `contiguous` says
 * that the rows are idx[0], idx[0] + 1, ...
 */

static SKB_TARGET size_t SKB_FN(skb_partition_tail)(const uint8_t *col, uint32_t *idx, size_t from, size_t m,
                                                    const uint8_t *left_codes, uint32_t *buffer, size_t nl, size_t nr)
{
    for (size_t i = from; i < m; i++) {
        uint32_t r = idx[i];
        size_t left = left_codes[col[r]];
        idx[nl] = r;
        buffer[nr] = r;
        nl += left;
        nr += 1 - left;
    }
    memcpy(idx + nl, buffer, nr * sizeof(uint32_t));
    return nl;
}

#ifdef SKB_AVX512
/* A store of 16 entries at nl or nr never passes entry i + 16, because nl, nr <= i: what it spills was read already. */
static SKB_TARGET size_t SKB_FN(skb_partition)(const uint8_t *col, size_t before, size_t after, int contiguous,
                                               uint32_t *idx, size_t m, const uint8_t *left_codes,
                                               uint32_t *buffer)
{
    size_t nl = 0, nr = 0, i = 0;
    int high = before >= 3;
    if (high || after >= 3) {
        uint32_t bits[8];
        for (int w = 0; w < 8; w++) {
            bits[w] = 0;
            for (int b = 0; b < 32; b++)
                bits[w] |= (uint32_t)left_codes[32 * w + b] << b;
        }
        __m512i set = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)bits));
        const uint8_t *base = high ? col - 3 : col;
        __m512i low_byte = _mm512_set1_epi32(255), low_bits = _mm512_set1_epi32(31), one = _mm512_set1_epi32(1);
        __m128i down = _mm_cvtsi32_si128(high ? 24 : 0);
        size_t first = m ? idx[0] : 0;
        for (; i + 16 <= m; i += 16) {
            __m512i rows = _mm512_loadu_si512(idx + i);
            __m512i code;
            if (contiguous) {
                code = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(col + first + i)));
            } else {
                code = _mm512_i32gather_epi32(rows, base, 1);
                code = _mm512_and_si512(_mm512_srl_epi32(code, down), low_byte);
            }
            __m512i word = _mm512_permutexvar_epi32(_mm512_srli_epi32(code, 5), set);
            word = _mm512_srlv_epi32(word, _mm512_and_si512(code, low_bits));
            __mmask16 left = _mm512_test_epi32_mask(word, one);
            _mm512_storeu_si512(idx + nl, _mm512_maskz_compress_epi32(left, rows));
            _mm512_storeu_si512(buffer + nr, _mm512_maskz_compress_epi32((__mmask16)~left, rows));
            size_t count = (size_t)__builtin_popcount(left);
            nl += count;
            nr += 16 - count;
        }
    }
    return SKB_FN(skb_partition_tail)(col, idx, i, m, left_codes, buffer, nl, nr);
}
#else
static SKB_TARGET size_t SKB_FN(skb_partition)(const uint8_t *col, size_t before, size_t after, int contiguous,
                                               uint32_t *idx, size_t m, const uint8_t *left_codes,
                                               uint32_t *buffer)
{
    (void)before;
    (void)after;
    (void)contiguous;
    return SKB_FN(skb_partition_tail)(col, idx, 0, m, left_codes, buffer, 0, 0);
}
#endif
