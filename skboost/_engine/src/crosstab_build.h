/* Construction of a cross-table. */
#ifndef SKB_CROSSTAB_BUILD_H
#define SKB_CROSSTAB_BUILD_H

#include "crosstab.h"
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

/* Large tables are read row by row at random: huge pages spare the address translation. */
static void *skb_table_alloc(size_t bytes)
{
#if defined(__linux__)
    if (bytes >= ((size_t)1 << 22)) {
        void *p = NULL;
        if (posix_memalign(&p, (size_t)1 << 21, bytes))
            return NULL;
        (void)madvise(p, bytes, MADV_HUGEPAGE);
        return p;
    }
#endif
    return malloc(bytes ? bytes : 1);
}

/* Free what the count of the rows has allocated. */
static void skb_crosstab_clear(skb_crosstab *t)
{
    free(t->codes);
    free(t->times);
    free(t->rows);
    t->codes = NULL;
    t->times = NULL;
    t->rows = NULL;
    for (int k = 0; t->order && k < t->n_features; k++) {
        free(t->order[k]);
        t->order[k] = NULL;
    }
}

static void skb_crosstab_release(skb_crosstab *t)
{
    skb_crosstab_clear(t);
    free(t->size);
    free(t->width);
    free(t->first_cell);
    free(t->first_byte);
    free(t->column);
    free(t->column_byte);
    free(t->first_wide);
    free(t->wide_cell);
    free(t->order);
    free(t->boundary);
    memset(t, 0, sizeof *t);
}

static int skb_crosstab_reserve(skb_crosstab *t, int n_features, int64_t n_cells, int64_t n_rows)
{
    size_t k = (size_t)n_features;
    t->n_features = n_features;
    t->n_cells = n_cells;
    t->n_rows = n_rows;
    t->size = (int *)calloc(k, sizeof(int));
    t->width = (int *)calloc(k, sizeof(int));
    t->first_cell = (int64_t *)calloc(k, sizeof(int64_t));
    t->first_byte = (int64_t *)calloc(k, sizeof(int64_t));
    t->column = (int *)calloc(k, sizeof(int));
    t->column_byte = (int64_t *)calloc(k, sizeof(int64_t));
    t->first_wide = (int *)calloc(k + 1, sizeof(int));
    t->wide_cell = (uint16_t *)calloc(k * SKB_WIDE_MAX, sizeof(uint16_t));
    t->order = (uint32_t **)calloc(k, sizeof(uint32_t *));
    t->boundary = (skb_boundary *)calloc((size_t)n_cells, sizeof(skb_boundary));
    return t->size && t->width && t->first_cell && t->first_byte && t->column && t->column_byte && t->first_wide &&
                   t->wide_cell && t->order && t->boundary
               ? 0
               : -1;
}

/* Weights of the cells of a feature. */
static void skb_weigh_cells(
    const uint16_t *column, const int64_t *kept, const double *weight, int64_t n, int size, double *out)
{
    memset(out, 0, (size_t)size * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[column[kept[i]]] += weight[i];
}

/* Bytes of the entries of feature k from the weights of its cells, and its wide cells after those of the features
 * before. */
static void skb_crosstab_widths(skb_crosstab *t, int k, const double *weight)
{
    int over[3] = {0, 0, 0}, bits[3] = {8, 16, 31};
    int choice = 0, n = t->first_wide[k];
    for (int s = 0; s < t->size[k]; s++)
        for (int i = 0; i < 3; i++)
            over[i] += weight[s] >= (double)((int64_t)1 << bits[i]);
    while (choice < 3 && over[choice] > (choice < 2 && !over[2] ? SKB_WIDE_MAX : 0))
        choice++;
    t->width[k] = 1 << choice;
    for (int s = 0; choice < 2 && s < t->size[k]; s++)
        if (weight[s] >= (double)((int64_t)1 << bits[choice]))
            t->wide_cell[n++] = (uint16_t)s;
    t->first_wide[k + 1] = n;
}

/* Order of the columns of codes and places of the features in a row, from `width`. */
static void skb_crosstab_layout(skb_crosstab *t)
{
    int n = 0, class_of = 0;
    int64_t at = 0;
    for (int width = 1; width <= 8; width *= 2, class_of++) {
        for (int k = 0; k < t->n_features; k++)
            if (t->width[k] == width)
                t->column[n++] = k;
        t->width_end[class_of] = n;
    }
    for (int k = 0; k < t->n_features; k++) {
        int64_t bytes = ((int64_t)t->size[k] + SKB_CELL_PAD - 1) / SKB_CELL_PAD * SKB_CELL_PAD * t->width[k];
        t->first_byte[k] = at;
        at += (bytes + 63) / 64 * 64;
    }
    t->high_byte = at;
    t->row_bytes = at + (t->first_wide[t->n_features] * (int64_t)sizeof(int32_t) + 63) / 64 * 64;
    for (int c = 0; c < n; c++)
        t->column_byte[c] = t->first_byte[t->column[c]];
}

/* Columns of the kept rows, as rows, and their weights, NULL: all 1; `cells` is (n_features, stride). Returns -1
 * without memory. */
static int skb_crosstab_gather(
    skb_crosstab *t, const uint16_t *cells, int64_t stride, const int64_t *kept, const double *times)
{
    int64_t n = t->n_rows;
    int width = t->n_features;
    t->codes = (uint16_t *)malloc((size_t)n * (size_t)width * sizeof(uint16_t));
    t->times = times ? (double *)malloc((size_t)n * sizeof(double)) : NULL;
    if (!t->codes || (times && !t->times))
        return -1;
    if (times)
        memcpy(t->times, times, (size_t)n * sizeof(double));
    for (int64_t start = 0; start < n; start += 256) {
        int64_t end = start + 256 < n ? start + 256 : n;
        for (int c = 0; c < width; c++) {
            const uint16_t *from = cells + (int64_t)t->column[c] * stride;
            for (int64_t i = start; i < end; i++)
                t->codes[i * width + c] = from[kept[i]];
        }
    }
    return 0;
}

/* ends[s] is the number of rows with cells <= s. */
static void skb_crosstab_ends(const skb_crosstab *t, int k, const uint16_t *column, const int64_t *kept, int64_t *ends)
{
    memset(ends, 0, (size_t)t->size[k] * sizeof *ends);
    for (int64_t i = 0; i < t->n_rows; i++)
        ends[column[kept[i]]]++;
    for (int s = 1; s < t->size[k]; s++)
        ends[s] += ends[s - 1];
}

/* Anchors of feature k such that no boundary between two is further than spacing / 2 rows from the nearer. Row numbers
 * count from `next`; returns how many there are. With boundary NULL only counts; *n_between receives the number of
 * boundaries that are not anchors themselves. */
static int64_t skb_crosstab_anchors(const int64_t *ends, int size, int64_t n_rows, int64_t spacing, int64_t next,
                                    skb_boundary *boundary, int64_t *n_between)
{
    int64_t first = next, last_end = 0, between = 0;
    uint32_t last = 0;
    int open = 0; /* boundaries since the last anchor whose nearest is not known yet */
    for (int s = 0; s < size; s++) {
        int64_t here = ends[s], ahead = s + 1 < size ? ends[s + 1] : n_rows;
        int whole = here == n_rows, same = here == last_end;
        int keep = !whole && !same && ahead - last_end > spacing;
        if (boundary && (whole || keep)) {
            uint32_t id = whole ? 1 : (uint32_t)next;
            for (int q = s - open; q < s; q++)
                if (ends[q] != last_end && here - ends[q] < ends[q] - last_end) {
                    boundary[q].anchor = id;
                    boundary[q].begin = (uint32_t)ends[q];
                    boundary[q].count = -(int32_t)(here - ends[q]);
                }
        }
        if (boundary) {
            boundary[s].anchor = whole ? 1 : keep ? (uint32_t)next : last;
            boundary[s].begin = (uint32_t)last_end;
            boundary[s].count = whole || keep ? 0 : (int32_t)(here - last_end);
        }
        if (whole || keep) {
            last = whole ? 1 : (uint32_t)next;
            last_end = here;
            next += keep;
            open = 0;
        } else {
            open++;
            between += !same;
        }
    }
    if (n_between)
        *n_between += between;
    return next - first;
}

/* Write the anchors of a feature, walking through its rows by cell; `row` is work space and holds the whole at last. */
static void skb_crosstab_write(const skb_crosstab *t, int k, const uint32_t *order, const int64_t *ends, char *row)
{
    const skb_boundary *boundary = t->boundary + t->first_cell[k];
    int64_t at = 0;
    uint32_t written = 1;
    memset(row, 0, (size_t)t->row_bytes);
    for (int s = 0; s < t->size[k]; s++) {
        skb_crosstab_add(t, row, order + at, ends[s] - at, 1);
        at = ends[s];
        if (boundary[s].count == 0 && boundary[s].anchor > written) {
            written = boundary[s].anchor;
            memcpy(t->rows + (int64_t)written * t->row_bytes, row, (size_t)t->row_bytes);
        }
    }
    if (k == 0) {
        memset(t->rows, 0, (size_t)t->row_bytes);
        memcpy(t->rows + t->row_bytes, row, (size_t)t->row_bytes);
    }
}

/* Anchors of a feature, and its order of rows where that is needed later. Returns -1 without memory. */
static int skb_crosstab_fill(
    skb_crosstab *t, int k, const uint16_t *column, const int64_t *kept, const int64_t *ends, int keep_order)
{
    int size = t->size[k];
    uint32_t *order = (uint32_t *)calloc((size_t)t->n_rows + SKB_LOOK_AHEAD, sizeof *order);
    int64_t *next = (int64_t *)calloc((size_t)size, sizeof *next);
    char *row = (char *)malloc((size_t)t->row_bytes);
    int failed = !order || !next || !row;
    if (!failed) {
        memcpy(next + 1, ends, (size_t)(size - 1) * sizeof *next);
        for (int64_t i = 0; i < t->n_rows; i++)
            order[next[column[kept[i]]]++] = (uint32_t)i;
        skb_crosstab_write(t, k, order, ends, row);
    }
    free(row);
    free(next);
    if (failed || !keep_order)
        free(order);
    else
        t->order[k] = order;
    return failed ? -1 : 0;
}

#endif
