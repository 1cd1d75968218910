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
    uint32_t **order;      /* per feature: rows by cell, then SKB_LOOK_AHEAD of any; NULL where all boundaries are anchors */
    skb_boundary *boundary; /* (n_cells), after each cell */
    char *rows;
} skb_crosstab;

/* Add the rows to `count` features, whose columns of codes start at `codes`; times NULL: `sign` each. Functions of their
 * own, so that all they need stays in registers.
 */
#define SKB_ADD_CELLS(name, type, number)                                                                             \
    static __attribute__((noinline)) void name(char *restrict into, const int64_t *restrict first, int count,         \
                                               const uint16_t *restrict codes, int64_t stride,                        \
                                               const uint32_t *restrict rows, int64_t n, const double *restrict times, \
                                               int sign)                                                              \
    {                                                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            const uint16_t *restrict code = codes + rows[i] * stride;                                                 \
            number m = times ? (number)(times[rows[i]] * sign) : (number)sign;                                        \
            __builtin_prefetch(codes + rows[i + SKB_LOOK_AHEAD] * stride);                                            \
            for (int c = 0; c < count; c++) {                                                                         \
                type *entry = (type *)(into + first[c]) + code[c];                                                    \
                *entry = (type)(*entry + m);                                                                          \
            }                                                                                                         \
        }                                                                                                             \
    }
SKB_ADD_CELLS(skb_add_cells_1, uint8_t, int32_t)
SKB_ADD_CELLS(skb_add_cells_2, uint16_t, int32_t)
SKB_ADD_CELLS(skb_add_cells_4, int32_t, int32_t)
SKB_ADD_CELLS(skb_add_cells_8, double, double)
#undef SKB_ADD_CELLS

/* Add `sign` times the rows to a row of the table. */
static inline void skb_crosstab_add(const skb_crosstab *t, char *into, const uint32_t *rows, int64_t n, int sign)
{
    static void (*const add[4])(char *, const int64_t *, int, const uint16_t *, int64_t, const uint32_t *, int64_t,
                                const double *, int) = {
        skb_add_cells_1, skb_add_cells_2, skb_add_cells_4, skb_add_cells_8};
    for (int k = 0, begin = 0; k < 4; begin = t->width_end[k++])
        if (t->width_end[k] > begin)
            add[k](into, t->column_byte + begin, t->width_end[k] - begin, t->codes + begin, t->n_features, rows, n,
                   t->times, sign);
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
