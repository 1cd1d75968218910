/* Histogram kernels. An entry is `words` int64; a word carries two sums, the high half and the (signed) low half, so one
 * add updates both. Sums are integers: their order does not matter. `stride` is entries per feature and never a power of two,
 * because then the same bin of several features would share address bits and loads would wait for unrelated stores.
 */
#ifndef SKB_HIST_H
#define SKB_HIST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define SKB_PREFETCH(p) __builtin_prefetch(p)
#define SKB_INLINE inline __attribute__((always_inline))
#define SKB_NOINLINE __attribute__((noinline))  /* hot loops get their own register allocation */
#else
#define SKB_PREFETCH(p) ((void)0)
#define SKB_INLINE inline
#define SKB_NOINLINE
#endif

enum { SKB_PREFETCH_ROWS = 16, SKB_COLUMN_CHUNK = 16384, SKB_ROW_CHUNK = 2048, SKB_TILE = 32, SKB_WIDE_STRIDE = 264 };

#if defined(__GNUC__) || defined(__clang__)
typedef int64_t skb_pair_t __attribute__((vector_size(16)));
static SKB_INLINE void skb_add_pair(int64_t *e, skb_pair_t v)
{
    skb_pair_t u;
    memcpy(&u, e, sizeof u);
    u += v;
    memcpy(e, &u, sizeof u);
}
#else
typedef struct { int64_t a, b; } skb_pair_t;
static SKB_INLINE void skb_add_pair(int64_t *e, skb_pair_t v)
{
    e[0] += v.a;
    e[1] += v.b;
}
#endif

static inline int64_t skb_pack(int32_t hi, int32_t lo) { return (int64_t)((uint64_t)(int64_t)hi << 32) + lo; }
static inline int32_t skb_lo(int64_t v) { return (int32_t)(uint32_t)(uint64_t)v; }
static inline int32_t skb_hi(int64_t v) { return (int32_t)((v - skb_lo(v)) >> 32); }

static inline void skb_columns_1(const uint8_t *const *col, int nc, const int64_t *packed, size_t r0, size_t r1,
                                 int64_t *const *hist)
{
    if (nc == 4) {
        const uint8_t *a = col[0], *b = col[1], *c = col[2], *d = col[3];
        int64_t *restrict ha = hist[0], *restrict hb = hist[1], *restrict hc = hist[2], *restrict hd = hist[3];
        for (size_t r = r0; r < r1; r++) {
            int64_t v = packed[r];
            ha[a[r]] += v;
            hb[b[r]] += v;
            hc[c[r]] += v;
            hd[d[r]] += v;
        }
        return;
    }
    for (int j = 0; j < nc; j++)
        for (size_t r = r0; r < r1; r++)
            hist[j][col[j][r]] += packed[r];
}

static inline void skb_columns_w(const uint8_t *const *col, int nc, const int64_t *packed, int words, size_t r0,
                                 size_t r1, int64_t *const *hist)
{
    for (int j = 0; j < nc; j++) {
        const uint8_t *c = col[j];
        int64_t *h = hist[j];
        if (words == 2) {
            for (size_t r = r0; r < r1; r++) {
                int64_t *e = h + 2 * (size_t)c[r];
                e[0] += packed[2 * r];
                e[1] += packed[2 * r + 1];
            }
        } else {
            for (size_t r = r0; r < r1; r++) {
                int64_t *e = h + words * (size_t)c[r];
                const int64_t *v = packed + words * r;
                for (int w = 0; w < words; w++)
                    e[w] += v[w];
            }
        }
    }
}

/* All rows of [r0, r1) through the column copy. features: n_features indices into the columns; hist is by feature. */
static SKB_NOINLINE void skb_hist_columns(const uint8_t *codes_col, size_t n_rows, size_t r0, size_t r1, const int64_t *packed,
                             int words, const int32_t *features, int n_features, size_t stride, int64_t *hist)
{
    for (size_t c0 = r0; c0 < r1; c0 += SKB_COLUMN_CHUNK) {
        size_t c1 = c0 + SKB_COLUMN_CHUNK < r1 ? c0 + SKB_COLUMN_CHUNK : r1;
        for (int j = 0; j < n_features; j += 4) {
            int nc = n_features - j < 4 ? n_features - j : 4;
            const uint8_t *col[4];
            int64_t *h[4];
            for (int k = 0; k < nc; k++) {
                col[k] = codes_col + (size_t)features[j + k] * n_rows;
                h[k] = hist + (size_t)features[j + k] * stride * words;
            }
            if (words == 1)
                skb_columns_1(col, nc, packed, c0, c1, h);
            else
                skb_columns_w(col, nc, packed, words, c0, c1, h);
        }
    }
}

/* `stride` is a compile-time constant in the common case, so that every update is one load and one add to memory. */
static SKB_INLINE void skb_rows_1(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                                  const int64_t *packed, size_t f0, size_t f1, const size_t stride, int64_t *hist)
{
    size_t width = f1 - f0, far = width > 32 ? width - 1 : 0;
    hist += f0 * stride;
    codes_row += f0;
    for (size_t i = 0; i < m; i++) {
        size_t r = idx[i], ahead = idx[i + SKB_PREFETCH_ROWS];
        const uint8_t *c = codes_row + r * row_stride, *end = c + width;
        const uint8_t *next = codes_row + ahead * row_stride;
        int64_t v = packed[r], *h = hist;
        SKB_PREFETCH(next);
        SKB_PREFETCH(next + far);
        SKB_PREFETCH(packed + ahead);
        for (; c + 8 <= end; c += 8, h += 8 * stride) {
            h[c[0]] += v;
            h[stride + c[1]] += v;
            h[2 * stride + c[2]] += v;
            h[3 * stride + c[3]] += v;
            h[4 * stride + c[4]] += v;
            h[5 * stride + c[5]] += v;
            h[6 * stride + c[6]] += v;
            h[7 * stride + c[7]] += v;
        }
        if (c + 4 <= end) {
            h[c[0]] += v;
            h[stride + c[1]] += v;
            h[2 * stride + c[2]] += v;
            h[3 * stride + c[3]] += v;
            c += 4;
            h += 4 * stride;
        }
        for (; c < end; c++, h += stride)
            h[c[0]] += v;
    }
}

static SKB_INLINE void skb_rows_2(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                                  const int64_t *packed, size_t f0, size_t f1, const size_t stride, int64_t *hist)
{
    size_t width = f1 - f0, far = width > 32 ? width - 1 : 0;
    hist += 2 * f0 * stride;
    codes_row += f0;
    for (size_t i = 0; i < m; i++) {
        size_t r = idx[i], ahead = idx[i + SKB_PREFETCH_ROWS];
        const uint8_t *c = codes_row + r * row_stride, *end = c + width;
        const uint8_t *next = codes_row + ahead * row_stride;
        SKB_PREFETCH(next);
        SKB_PREFETCH(next + far);
        SKB_PREFETCH(packed + 2 * ahead);
        skb_pair_t v;
        memcpy(&v, packed + 2 * r, sizeof v);
        int64_t *h = hist;
        for (; c + 4 <= end; c += 4, h += 8 * stride) {
            skb_add_pair(h + 2 * (size_t)c[0], v);
            skb_add_pair(h + 2 * stride + 2 * (size_t)c[1], v);
            skb_add_pair(h + 4 * stride + 2 * (size_t)c[2], v);
            skb_add_pair(h + 6 * stride + 2 * (size_t)c[3], v);
        }
        for (; c < end; c++, h += 2 * stride)
            skb_add_pair(h + 2 * (size_t)c[0], v);
    }
}

static SKB_INLINE void skb_rows_w(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                                  const int64_t *packed, int words, int f0, int f1, size_t stride, int64_t *hist)
{
    for (size_t i = 0; i < m; i++) {
        size_t r = idx[i], ahead = idx[i + SKB_PREFETCH_ROWS];
        const uint8_t *c = codes_row + r * row_stride;
        SKB_PREFETCH(codes_row + ahead * row_stride + f0);
        SKB_PREFETCH(packed + words * ahead);
        const int64_t *v = packed + words * r;
        int64_t *h = hist + (size_t)f0 * stride * words;
        for (int f = f0; f < f1; f++, h += words * stride) {
            int64_t *e = h + words * (size_t)c[f];
            for (int w = 0; w < words; w++)
                e[w] += v[w];
        }
    }
}

static SKB_NOINLINE void skb_rows_1_wide(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                                         const int64_t *packed, size_t f0, size_t f1, int64_t *hist)
{
    skb_rows_1(codes_row, row_stride, idx, m, packed, f0, f1, SKB_WIDE_STRIDE, hist);
}

static SKB_NOINLINE void skb_rows_2_wide(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                                         const int64_t *packed, size_t f0, size_t f1, int64_t *hist)
{
    skb_rows_2(codes_row, row_stride, idx, m, packed, f0, f1, SKB_WIDE_STRIDE, hist);
}

static SKB_NOINLINE void skb_rows_any(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                                      const int64_t *packed, int words, int f0, int f1, size_t stride, int64_t *hist)
{
    if (words == 1)
        skb_rows_1(codes_row, row_stride, idx, m, packed, f0, f1, stride, hist);
    else if (words == 2)
        skb_rows_2(codes_row, row_stride, idx, m, packed, f0, f1, stride, hist);
    else
        skb_rows_w(codes_row, row_stride, idx, m, packed, words, f0, f1, stride, hist);
}

/* The rows idx[0..m) through the row copy, features [f0, f1). idx must be readable SKB_PREFETCH_ROWS entries further. */
static void skb_hist_rows(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                          const int64_t *packed, int words, int f0, int f1, size_t stride, int64_t *hist)
{
    int tile = f1 - f0 > 2 * SKB_TILE ? SKB_TILE : f1 - f0;
    size_t chunk = f1 - f0 > tile ? SKB_ROW_CHUNK : m;
    for (size_t i = 0; i < m; i += chunk) {
        size_t len = m - i < chunk ? m - i : chunk;
        for (int f = f0; f < f1; f += tile) {
            int end = f + tile < f1 ? f + tile : f1;
            if (words == 1 && stride == SKB_WIDE_STRIDE)
                skb_rows_1_wide(codes_row, row_stride, idx + i, len, packed, f, end, hist);
            else if (words == 2 && stride == SKB_WIDE_STRIDE)
                skb_rows_2_wide(codes_row, row_stride, idx + i, len, packed, f, end, hist);
            else
                skb_rows_any(codes_row, row_stride, idx + i, len, packed, words, f, end, stride, hist);
        }
    }
}

/* The same for a list of features that is not a range (columns drawn per tree). */
static void skb_hist_listed(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                            const int64_t *packed, int words, const int32_t *features, int n_features, size_t stride,
                            int64_t *hist)
{
    for (size_t i = 0; i < m; i++) {
        size_t r = idx[i], ahead = idx[i + SKB_PREFETCH_ROWS];
        const uint8_t *c = codes_row + r * row_stride;
        SKB_PREFETCH(codes_row + ahead * row_stride + features[0]);
        SKB_PREFETCH(packed + words * ahead);
        for (int j = 0; j < n_features; j++) {
            size_t f = features[j];
            int64_t *e = hist + (f * stride + c[f]) * words;
            for (int w = 0; w < words; w++)
                e[w] += packed[words * r + w];
        }
    }
}

/* Row weights alone, for nodes whose leaf minimum cannot be proven from the packed sums. weight NULL = ones. */
static void skb_hist_weights(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                             const uint32_t *weight, const int32_t *features, int n_features, size_t stride,
                             uint32_t *hist)
{
    for (size_t i = 0; i < m; i++) {
        size_t r = idx[i];
        const uint8_t *c = codes_row + r * row_stride;
        uint32_t v = weight ? weight[r] : 1;
        for (int j = 0; j < n_features; j++)
            hist[(size_t)features[j] * stride + c[features[j]]] += v;
    }
}

#endif
