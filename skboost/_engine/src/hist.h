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
#else
#define SKB_PREFETCH(p) ((void)0)
#endif

enum { SKB_PREFETCH_ROWS = 16, SKB_COLUMN_CHUNK = 16384, SKB_ROW_CHUNK = 2048, SKB_TILE = 32 };

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
static void skb_hist_columns(const uint8_t *codes_col, size_t n_rows, size_t r0, size_t r1, const int64_t *packed,
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

static inline void skb_rows_1(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                              const int64_t *packed, int f0, int f1, size_t stride, int64_t *hist)
{
    int far = f1 - f0 > 32;
    for (size_t i = 0; i < m; i++) {
        size_t r = idx[i], ahead = idx[i + SKB_PREFETCH_ROWS];
        const uint8_t *c = codes_row + r * row_stride;
        const uint8_t *next = codes_row + ahead * row_stride + f0;
        SKB_PREFETCH(next);
        if (far)
            SKB_PREFETCH(next + (f1 - f0) - 1);
        SKB_PREFETCH(packed + ahead);
        int64_t v = packed[r];
        int64_t *h = hist + (size_t)f0 * stride;
        int f = f0;
        for (; f + 4 <= f1; f += 4, h += 4 * stride) {
            h[c[f]] += v;
            h[stride + c[f + 1]] += v;
            h[2 * stride + c[f + 2]] += v;
            h[3 * stride + c[f + 3]] += v;
        }
        for (; f < f1; f++, h += stride)
            h[c[f]] += v;
    }
}

static inline void skb_rows_w(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                              const int64_t *packed, int words, int f0, int f1, size_t stride, int64_t *hist)
{
    for (size_t i = 0; i < m; i++) {
        size_t r = idx[i], ahead = idx[i + SKB_PREFETCH_ROWS];
        const uint8_t *c = codes_row + r * row_stride;
        SKB_PREFETCH(codes_row + ahead * row_stride + f0);
        SKB_PREFETCH(packed + words * ahead);
        const int64_t *v = packed + words * r;
        int64_t *h = hist + (size_t)f0 * stride * words;
        if (words == 2) {
            int64_t v0 = v[0], v1 = v[1];
            for (int f = f0; f < f1; f++, h += 2 * stride) {
                int64_t *e = h + 2 * (size_t)c[f];
                e[0] += v0;
                e[1] += v1;
            }
        } else {
            for (int f = f0; f < f1; f++, h += words * stride) {
                int64_t *e = h + words * (size_t)c[f];
                for (int w = 0; w < words; w++)
                    e[w] += v[w];
            }
        }
    }
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
            if (words == 1)
                skb_rows_1(codes_row, row_stride, idx + i, len, packed, f, end, stride, hist);
            else
                skb_rows_w(codes_row, row_stride, idx + i, len, packed, words, f, end, stride, hist);
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

static inline void skb_hist_add(int64_t *restrict into, const int64_t *restrict part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        into[i] += part[i];
}

static inline void skb_hist_subtract(int64_t *restrict from, const int64_t *restrict part, size_t n)
{
    for (size_t i = 0; i < n; i++)
        from[i] -= part[i];
}

#endif
