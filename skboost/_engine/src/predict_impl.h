/* From codes to leaves to sums, for one block of at most 256 rows and one tree at a time.
 *
 * codes   column after column, SKB_BLOCK bytes each (block kernels) or `stride` bytes each (walks)
 * node    as forest_layout.h says
 * groups  64-row groups in the block; rows behind the last one are computed and never read
 *
 * A row goes right at a numeric node when (uint8)(code - d) > (uint8)(threshold - d), at a categorical node when its
 * code is not in the set. Integers decide the leaf and one float64 multiply and add follow, so every variant returns
 * the same bits.
 */
#ifndef SKB_PREDICT_COMMON
#define SKB_PREDICT_COMMON
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "forest_layout.h"

#define SKB_BLOCK 256
#define SKB_GROUP 64
#define SKB_LANES 8
#define SKB_IS_avx2 1
#define SKB_IS_avx512 2
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define SKB_LOW_BYTE(j) (7 - (j))
#else
#define SKB_LOW_BYTE(j) (j)
#endif
#ifdef SKB_X86_DISPATCH
#include <immintrin.h>
#endif

static inline int skb_goes_right(int32_t test, const uint8_t *sets, unsigned code)
{
    if (test >= 0)
        return (uint8_t)(code - (unsigned)(test >> 8)) > (uint8_t)test;
    return !((sets[(size_t)~test * 32 + (code >> 3)] >> (code & 7)) & 1);
}

/* Leaf positions of n rows through the nodes. Rows go down in bunches, since each step of one row waits for memory. */
static void skb_walk(const skb_walk_node_t *nodes, ptrdiff_t n_nodes, const uint8_t *sets, const uint8_t *codes,
                     ptrdiff_t stride, ptrdiff_t n, int32_t *out)
{
    ptrdiff_t r = 0;
    int32_t root = n_nodes ? 0 : ~0;
    for (; r + SKB_LANES <= n; r += SKB_LANES) {
        int32_t at[SKB_LANES], open = root;
        for (int j = 0; j < SKB_LANES; j++)
            at[j] = root;
        while (open >= 0) {
            open = -1;
            for (int j = 0; j < SKB_LANES; j++) {
                const skb_walk_node_t *node = nodes + (at[j] < 0 ? 0 : at[j]);
                int32_t next = node->child[skb_goes_right(node->test, sets, codes[node->column * stride + r + j])];
                at[j] = at[j] < 0 ? at[j] : next;
                open &= at[j];
            }
        }
        for (int j = 0; j < SKB_LANES; j++)
            out[r + j] = ~at[j];
    }
    for (; r < n; r++) {
        int32_t at = root;
        while (at >= 0) {
            const skb_walk_node_t *node = nodes + at;
            at = node->child[skb_goes_right(node->test, sets, codes[node->column * stride + r])];
        }
        out[r] = ~at;
    }
}

static void skb_walk_levels(const skb_level_t *levels, int depth, const uint8_t *sets, const uint8_t *codes,
                            ptrdiff_t stride, ptrdiff_t n, int32_t *out)
{
    for (ptrdiff_t r = 0; r < n; r++) {
        int32_t index = 0;
        for (int l = 0; l < depth; l++)
            index |= skb_goes_right(levels[l].test, sets, codes[levels[l].column * stride + r]) << l;
        out[r] = index;
    }
}

static void skb_add_words(const int32_t *restrict index, const double *restrict values, ptrdiff_t n, double mul,
                          double add, double *restrict acc)
{
    for (ptrdiff_t r = 0; r < n; r++)
        acc[r] = acc[r] * mul + add * values[index[r]];
}
#endif

#define SKB_LEVEL SKB_CAT(SKB_IS, SKB_SUFFIX)

/* Column of zeros (code in the set, left) and ones (right), which the numeric test with threshold 0 and d 0 reads. */
static SKB_TARGET void SKB_FN(skb_set_column)(const uint8_t *restrict set, const uint8_t *restrict column, int groups,
                                              uint8_t *restrict out)
{
#if SKB_LEVEL == 2
    const __m512i low = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)set));
    const __m512i high = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(set + 16)));
    const __m512i bits = _mm512_set1_epi64((int64_t)0x8040201008040201);
    const __m512i seven = _mm512_set1_epi8(7), fifteen = _mm512_set1_epi8(15), one = _mm512_set1_epi8(1);
    for (int g = 0; g < groups; g++) {
        __m512i code = _mm512_loadu_si512(column + g * SKB_GROUP);
        __m512i byte = _mm512_and_si512(_mm512_srli_epi16(code, 3), fifteen);
        __m512i word = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(low, byte), _mm512_movepi8_mask(code), high, byte);
        __m512i bit = _mm512_shuffle_epi8(bits, _mm512_and_si512(code, seven));
        _mm512_storeu_si512(out + g * SKB_GROUP, _mm512_maskz_mov_epi8(_mm512_testn_epi8_mask(word, bit), one));
    }
#elif SKB_LEVEL == 1
    const __m256i low = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)set));
    const __m256i high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(set + 16)));
    const __m256i bits = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i seven = _mm256_set1_epi8(7), fifteen = _mm256_set1_epi8(15);
    for (int r = 0; r < groups * SKB_GROUP; r += 32) {
        __m256i code = _mm256_loadu_si256((const __m256i *)(column + r));
        __m256i byte = _mm256_and_si256(_mm256_srli_epi16(code, 3), fifteen);
        __m256i word = _mm256_blendv_epi8(_mm256_shuffle_epi8(low, byte), _mm256_shuffle_epi8(high, byte), code);
        __m256i bit = _mm256_shuffle_epi8(bits, _mm256_and_si256(code, seven));
        __m256i out_of_set = _mm256_cmpeq_epi8(_mm256_and_si256(word, bit), _mm256_setzero_si256());
        _mm256_storeu_si256((__m256i *)(out + r), out_of_set);
    }
#else
    /* Bits spread to bytes, then eight answers per store: stores of single bytes stall the vector loads behind them. */
    static const uint8_t bit_of_byte[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint8_t goes_right[256];
    uint64_t bits;
    memcpy(&bits, bit_of_byte, 8);
    for (int b = 0; b < 32; b++) {
        uint64_t word = ~(((ones * set[b] & bits) + ones * 127) >> 7) & ones;
        memcpy(goes_right + 8 * b, &word, 8);
    }
    for (int r = 0; r < groups * SKB_GROUP; r += 8) {
        uint64_t word = 0;
        for (int j = 7; j >= 0; j--)
            word = word << 8 | goes_right[column[r + SKB_LOW_BYTE(j)]];
        memcpy(out + r, &word, 8);
    }
#endif
}

/* The column and the numeric test (threshold - d, d) of a node; a categorical node is translated into `spare` first. */
static inline SKB_TARGET const uint8_t *SKB_FN(skb_node_column)(
    int32_t column, int32_t *test, const uint8_t *sets, const uint8_t *codes, int groups, uint8_t *spare)
{
    const uint8_t *found = codes + (size_t)column * SKB_BLOCK;
    if (*test >= 0)
        return found;
    SKB_FN(skb_set_column)(sets + (size_t)~*test * 32, found, groups, spare);
    *test = 0;
    return spare;
}

#if SKB_LEVEL == 2
/* One bit per row and slot. N is a constant at each call, so that the leaf numbers stay in registers. */
static inline __attribute__((always_inline)) SKB_TARGET void skb_masks_bits(
    const skb_mask_node_t *nodes, ptrdiff_t n_nodes, const uint8_t *sets, const uint8_t *codes,
    uint64_t *restrict slots, uint8_t *restrict spare, uint8_t *restrict leaf, const int N)
{
    __m512i ids[4];
    for (int g = 0; g < N; g++) {
        ids[g] = _mm512_setzero_si512();
        slots[g] = ~(uint64_t)0;
    }
    for (ptrdiff_t i = 0; i < n_nodes; i++) {
        int32_t test = nodes[i].test, slot = nodes[i].slot;
        const uint8_t *column = skb_node_column_avx512(nodes[i].column, &test, sets, codes, N, spare);
        const __m512i threshold = _mm512_set1_epi8((char)test), d = _mm512_set1_epi8((char)(test >> 8));
        const __m512i first_right = _mm512_set1_epi8((char)nodes[i].first_right);
        const uint64_t *reach = slots + (size_t)slot * N;
        uint64_t *left = slots + (size_t)((slot | 1) + 1) * N, *right = left + N;
        for (int g = 0; g < N; g++) {
            __m512i code = _mm512_sub_epi8(_mm512_loadu_si512(column + g * SKB_GROUP), d);
            uint64_t above = _cvtmask64_u64(_mm512_cmpgt_epu8_mask(code, threshold));
            uint64_t here = reach[g], goes = here & above;
            left[g] = here & ~above;
            right[g] = goes;
            ids[g] = _mm512_mask_mov_epi8(ids[g], _cvtu64_mask64(goes), first_right);
        }
    }
    for (int g = 0; g < N; g++)
        _mm512_storeu_si512(leaf + g * SKB_GROUP, ids[g]);
}
#elif SKB_LEVEL == 1
/* One byte per row and slot, 128 rows, so that the leaf numbers stay in registers. */
static SKB_TARGET void skb_masks_bytes(
    const skb_mask_node_t *nodes, ptrdiff_t n_nodes, const uint8_t *sets, const uint8_t *codes, uint8_t *restrict slots,
    uint8_t *restrict spare, uint8_t *restrict leaf)
{
    __m256i ids[4];
    for (int g = 0; g < 4; g++) {
        ids[g] = _mm256_setzero_si256();
        _mm256_storeu_si256((__m256i *)slots + g, _mm256_set1_epi8(-1));
    }
    for (ptrdiff_t i = 0; i < n_nodes; i++) {
        int32_t test = nodes[i].test, slot = nodes[i].slot;
        const uint8_t *column = skb_node_column_avx2(nodes[i].column, &test, sets, codes, 2, spare);
        const __m256i threshold = _mm256_set1_epi8((char)test), d = _mm256_set1_epi8((char)(test >> 8));
        const __m256i first_right = _mm256_set1_epi8((char)nodes[i].first_right);
        const __m256i *reach = (const __m256i *)slots + (size_t)slot * 4;
        __m256i *left = (__m256i *)slots + (size_t)((slot | 1) + 1) * 4, *right = left + 4;
        for (int g = 0; g < 4; g++) {
            __m256i code = _mm256_sub_epi8(_mm256_loadu_si256((const __m256i *)column + g), d);
            __m256i below = _mm256_cmpeq_epi8(_mm256_min_epu8(code, threshold), code);
            __m256i here = _mm256_loadu_si256(reach + g), goes = _mm256_andnot_si256(below, here);
            _mm256_storeu_si256(left + g, _mm256_and_si256(here, below));
            _mm256_storeu_si256(right + g, goes);
            ids[g] = _mm256_max_epu8(ids[g], _mm256_and_si256(goes, first_right));
        }
    }
    for (int g = 0; g < 4; g++)
        _mm256_storeu_si256((__m256i *)leaf + g, ids[g]);
}
#endif

/* Leaf positions of a tree of at most 256 leaves. Nodes in preorder, leaves numbered from left to right: the leaf of a
 * row is the largest first leaf of a right subtree it entered. A node reads who reaches it from its slot and writes the
 * two slots of the next depth. */
static SKB_TARGET void SKB_FN(skb_masks)(
    const skb_mask_node_t *nodes, ptrdiff_t n_nodes, const uint8_t *sets, const uint8_t *codes, int groups,
    uint8_t *restrict slots, uint8_t *restrict spare, uint8_t *restrict leaf)
{
#if SKB_LEVEL == 2
    if (groups == 4)
        skb_masks_bits(nodes, n_nodes, sets, codes, (uint64_t *)slots, spare, leaf, 4);
    else
        for (int g = 0; g < groups; g++)
            skb_masks_bits(nodes, n_nodes, sets, codes + g * SKB_GROUP, (uint64_t *)slots, spare,
                           leaf + g * SKB_GROUP, 1);
#elif SKB_LEVEL == 1
    for (int r = 0; r < groups * SKB_GROUP; r += 128)
        skb_masks_bytes(nodes, n_nodes, sets, codes + r, slots, spare, leaf + r);
#else
    memset(slots, 255, SKB_BLOCK);
    memset(leaf, 0, SKB_BLOCK);
    for (ptrdiff_t i = 0; i < n_nodes; i++) {
        int32_t test = nodes[i].test, slot = nodes[i].slot;
        const uint8_t *column = SKB_FN(skb_node_column)(nodes[i].column, &test, sets, codes, groups, spare);
        const uint8_t threshold = (uint8_t)test, d = (uint8_t)(test >> 8), first_right = (uint8_t)nodes[i].first_right;
        const uint8_t *restrict reach = slots + (size_t)slot * SKB_BLOCK;
        uint8_t *restrict left = slots + (size_t)((slot | 1) + 1) * SKB_BLOCK, *restrict right = left + SKB_BLOCK;
        for (int r = 0; r < groups * SKB_GROUP; r++) {
            uint8_t above = (uint8_t)(column[r] - d) > threshold ? 255 : 0;
            uint8_t goes = reach[r] & above, number = goes & first_right;
            right[r] = goes;
            left[r] = reach[r] & (uint8_t)~above;
            leaf[r] = leaf[r] > number ? leaf[r] : number;
        }
    }
#endif
}

/* Bits of at most 8 levels of a symmetric tree: bit l is set when the row goes right at level l. */
static SKB_TARGET void SKB_FN(skb_level_bits)(
    const skb_level_t *levels, int depth, const uint8_t *sets, const uint8_t *codes, int groups,
    uint8_t *restrict spare, uint8_t *restrict index)
{
#if SKB_LEVEL == 2
    __m512i bits[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int l = 0; l < depth; l++) {
        int32_t test = levels[l].test;
        const uint8_t *column = skb_node_column_avx512(levels[l].column, &test, sets, codes, groups, spare);
        const __m512i threshold = _mm512_set1_epi8((char)test), d = _mm512_set1_epi8((char)(test >> 8));
        const __m512i bit = _mm512_set1_epi8((char)(1 << l));
        for (int g = 0; g < 4; g++) {
            __m512i code = _mm512_sub_epi8(_mm512_loadu_si512(column + g * SKB_GROUP), d);
            __mmask64 above = _mm512_cmpgt_epu8_mask(code, threshold);
            bits[g] = _mm512_or_si512(bits[g], _mm512_maskz_mov_epi8(above, bit));
        }
    }
    for (int g = 0; g < 4; g++)
        _mm512_storeu_si512(index + g * SKB_GROUP, bits[g]);
#else
    memset(index, 0, SKB_BLOCK);
    for (int l = 0; l < depth; l++) {
        int32_t test = levels[l].test;
        const uint8_t *column = SKB_FN(skb_node_column)(levels[l].column, &test, sets, codes, groups, spare);
        const uint8_t threshold = (uint8_t)test, d = (uint8_t)(test >> 8), bit = (uint8_t)(1 << l);
        for (int r = 0; r < groups * SKB_GROUP; r++) {
            uint8_t above = (uint8_t)(column[r] - d) > threshold ? 255 : 0;
            index[r] = index[r] | (above & bit);
        }
    }
#endif
}

#if SKB_LEVEL == 2
/* Value tables of 8 * N entries live in N registers; the bits of the index choose. */
static inline __attribute__((always_inline)) SKB_TARGET void skb_add_registers(
    const uint8_t *restrict index, const double *restrict values, int n_values, int groups, double mul, double add,
    double *restrict acc, const int N)
{
    const __m512d factor = _mm512_set1_pd(mul), scale = _mm512_set1_pd(add);
    const __m512i bit4 = _mm512_set1_epi64(16), bit5 = _mm512_set1_epi64(32);
    __m512d part[8];
    for (int j = 0; j < N; j++) {
        int left = n_values - 8 * j;
        __mmask8 valid = (__mmask8)(left >= 8 ? 255 : left > 0 ? (1 << left) - 1 : 0);
        part[j] = _mm512_mul_pd(scale, _mm512_maskz_loadu_pd(valid, values + 8 * j));
    }
    for (int r = 0; r < groups * SKB_GROUP; r += 8) {
        __m512i at = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(index + r)));
        __m512d value = _mm512_permutex2var_pd(part[0], at, part[1]);
        if (N > 2) {
            __mmask8 upper = _mm512_test_epi64_mask(at, bit4);
            value = _mm512_mask_mov_pd(value, upper, _mm512_permutex2var_pd(part[2], at, part[3]));
            if (N > 4) {
                __m512d high = _mm512_mask_mov_pd(_mm512_permutex2var_pd(part[4], at, part[5]), upper,
                                                  _mm512_permutex2var_pd(part[6], at, part[7]));
                value = _mm512_mask_mov_pd(value, _mm512_test_epi64_mask(at, bit5), high);
            }
        }
        _mm512_storeu_pd(acc + r, _mm512_add_pd(_mm512_mul_pd(_mm512_loadu_pd(acc + r), factor), value));
    }
}
#endif

/* acc = acc * mul + add * values[index] for every row of the groups. */
static SKB_TARGET void SKB_FN(skb_add_bytes)(const uint8_t *restrict index, const double *restrict values, int n_values,
                                             int groups, double mul, double add, double *restrict acc)
{
#if SKB_LEVEL == 2
    if (n_values <= 16) {
        skb_add_registers(index, values, n_values, groups, mul, add, acc, 2);
        return;
    }
    if (n_values <= 32) {
        skb_add_registers(index, values, n_values, groups, mul, add, acc, 4);
        return;
    }
    if (n_values <= 64) {
        skb_add_registers(index, values, n_values, groups, mul, add, acc, 8);
        return;
    }
#elif SKB_LEVEL == 1
    const __m256d factor = _mm256_set1_pd(mul), scale = _mm256_set1_pd(add);
    (void)n_values;
    /* Loads of single values are as fast as the gathers of most processors, and far faster than those of some. */
    for (int r = 0; r < groups * SKB_GROUP; r += 4) {
        const uint8_t *at = index + r;
        __m256d value = _mm256_set_pd(values[at[3]], values[at[2]], values[at[1]], values[at[0]]);
        __m256d sum = _mm256_mul_pd(_mm256_loadu_pd(acc + r), factor);
        _mm256_storeu_pd(acc + r, _mm256_add_pd(sum, _mm256_mul_pd(scale, value)));
    }
    return;
#else
    (void)n_values;
#endif
    for (int r = 0; r < groups * SKB_GROUP; r++)
        acc[r] = acc[r] * mul + add * values[index[r]];
}

#undef SKB_LEVEL
