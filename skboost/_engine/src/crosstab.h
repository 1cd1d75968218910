/* Cross-table of cells by prefix rows, and exact completion of rows between anchors.
 *
 * Prefix row (k, s) holds, for every cell d of every feature, the weight of the rows with cell_k <= s that lie in d. All
 * weights are whole multiples of one unit, so every sum is exact and no order of additions shows. The entries of a
 * feature take the fewest bytes that hold its heaviest cell: 1, 2, 4 (integers) or 8 (float64 with integer values).
 * Only some rows, the anchors, are kept; any other is its nearest anchor and the rows between, added or taken away.
 */
#ifndef SKB_CROSSTAB_H
#define SKB_CROSSTAB_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SKB_CELL_PAD 16 /* cells of a feature fill whole groups of this many */
#define SKB_LOOK_AHEAD 16

typedef struct {
    uint32_t anchor; /* row of the table */
    uint32_t begin;  /* the rows order[begin : begin + |count|] lie between the anchor and the boundary */
    int32_t count;   /* positive: to be added, negative: to be taken away */
} skb_boundary;

typedef struct {
    int n_features;
    int64_t n_rows;        /* of positive weight */
    int64_t n_cells;       /* of all features, padded */
    int64_t row_bytes;
    int64_t n_anchors;     /* rows of the table; 0 is the empty prefix, 1 the whole */
    int *size;             /* cells per feature */
    int *width;            /* bytes per entry */
    int64_t *first_cell;   /* of a feature among all padded cells */
    int64_t *first_byte;   /* of a feature in a row of the table */
    int *column;           /* features in the order of the columns of codes: by width */
    int64_t *column_byte;  /* first_byte in the order of columns */
    int width_end[4];      /* ends of the columns of 1, 2, 4, 8 bytes */
    uint16_t *codes;       /* (n_rows, n_features) */
    double *times;         /* weights in units; NULL: all 1 */
    uint32_t **order;      /* per feature: rows by cell; NULL where all boundaries are anchors */
    skb_boundary *boundary; /* (n_cells), after each cell */
    char *rows;
} skb_crosstab;

#define SKB_ADD_CELLS(type, from, to, m)                            \
    for (int c = (from); c < (to); c++) {                           \
        type *entry = (type *)(into + first[c]) + code[c];          \
        *entry = (type)(*entry + (m));                              \
    }

/* Add `sign` times the rows to a row of the table. */
static inline void skb_crosstab_add(const skb_crosstab *t, char *restrict into, const uint32_t *restrict rows,
                                    int64_t n, int sign)
{
    const int end1 = t->width_end[0], end2 = t->width_end[1], end4 = t->width_end[2], end8 = t->width_end[3];
    const int width = t->n_features;
    const int64_t *restrict first = t->column_byte;
    const uint16_t *restrict codes = t->codes;
    const double *restrict weight = t->times;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t *restrict code = codes + (int64_t)rows[i] * width;
        double times = weight ? weight[rows[i]] * sign : sign;
        int32_t m = end4 ? (int32_t)times : 0;
        if (i + SKB_LOOK_AHEAD < n)
            __builtin_prefetch(codes + (int64_t)rows[i + SKB_LOOK_AHEAD] * width);
        SKB_ADD_CELLS(uint8_t, 0, end1, m)
        SKB_ADD_CELLS(uint16_t, end1, end2, m)
        SKB_ADD_CELLS(int32_t, end2, end4, m)
        SKB_ADD_CELLS(double, end4, end8, times)
    }
}

/* Row of the prefix that ends after cell s of feature k: a row of the table, or `slot`, filled. */
static inline const char *skb_crosstab_row(const skb_crosstab *t, int k, int s, char *slot)
{
    const skb_boundary *b = t->boundary + t->first_cell[k] + s;
    const char *row = t->rows + (int64_t)b->anchor * t->row_bytes;
    if (b->count == 0)
        return row;
    memcpy(slot, row, (size_t)t->row_bytes);
    skb_crosstab_add(t, slot, t->order[k] + b->begin, b->count < 0 ? -b->count : b->count, b->count < 0 ? -1 : 1);
    return slot;
}

#endif
