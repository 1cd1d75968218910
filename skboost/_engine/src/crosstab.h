/* Cross-table of cells by prefix rows, and exact completion of rows between anchors.
 *
 * Prefix row (k, s) holds, for every cell d of every feature, the weight of the rows with cell_k <= s that lie in d.
 * All weights are whole multiples of one unit, so every sum is exact and no order of additions shows. The entries of a
 * feature take the fewest bytes that hold all its cells but a few: 1, 2, 4 (integers) or 8 (float64 of integer values).
 * Entries of the few, the wide cells, hold the lowest digits, and the rest of their sums stands at the end of the row.
 * Only some rows, the anchors, are kept; any other is its nearest anchor and the rows between, added or taken away.
 */
#ifndef SKB_CROSSTAB_H
#define SKB_CROSSTAB_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SKB_CELL_PAD 16 /* cells of a feature fill whole groups of this many */
#define SKB_LOOK_AHEAD 16
#define SKB_WIDE_MAX 4 /* wide cells of a feature */

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
    int *first_wide;       /* (n_features + 1,) wide cells of the features before */
    uint16_t *wide_cell;
    int64_t high_byte;     /* of a row: int32 sums of the wide cells, in units of 2^(8 width) */
    uint16_t *codes;       /* (n_rows, n_features) */
    double *times;         /* weights in units; NULL: all 1 */
    uint32_t **order;      /* per feature: rows by cell, then SKB_LOOK_AHEAD of any; NULL where nothing is completed */
    skb_boundary *boundary; /* (n_cells), after each cell */
    char *rows;
} skb_crosstab;

/* Sums of wide cells carry into the end of the row. */
static __attribute__((noinline, cold)) void skb_crosstab_carry(
    const skb_crosstab *t, char *into, int column, uint16_t cell, int32_t carry)
{
    int k = t->column[column], wide = t->first_wide[k];
    while (wide < t->first_wide[k + 1] && t->wide_cell[wide] != cell)
        wide++;
    if (wide < t->first_wide[k + 1])
        ((int32_t *)(into + t->high_byte))[wide] += carry;
}

/* Weight of a wide cell in a row. */
static inline double skb_crosstab_wide(const skb_crosstab *t, const char *row, int k, int wide)
{
    const char *block = row + t->first_byte[k];
    int64_t high = ((const int32_t *)(row + t->high_byte))[wide];
    uint16_t cell = t->wide_cell[wide];
    return t->width[k] == 1 ? (double)(high * 256 + ((const uint8_t *)block)[cell])
                            : (double)(high * 65536 + ((const uint16_t *)block)[cell]);
}

/* Add the rows to the features of the columns [begin, end); functions of their own, so that all they need stays in
 * registers. Weights are t->times or 1, times `sign`.
 */
#define SKB_ADD_ROWS(name, type, number, carries)                                                              \
    static __attribute__((noinline)) void name(const skb_crosstab *t, char *restrict into, int begin, int end, \
                                               const uint32_t *restrict rows, int64_t n, int sign)             \
    {                                                                                                          \
        const int64_t *restrict first = t->column_byte;                                                        \
        const uint16_t *restrict codes = t->codes;                                                             \
        const double *restrict times = t->times;                                                               \
        const int64_t stride = t->n_features;                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                      \
            const uint16_t *restrict code = codes + rows[i] * stride;                                          \
            number m = times ? (number)(times[rows[i]] * sign) : (number)sign;                                 \
            __builtin_prefetch(codes + rows[i + SKB_LOOK_AHEAD] * stride);                                     \
            for (int c = begin; c < end; c++) {                                                                \
                type *entry = (type *)(into + first[c]) + code[c];                                             \
                number sum = (number)*entry + m;                                                               \
                *entry = (type)sum;                                                                            \
                carries                                                                                        \
            }                                                                                                  \
        }                                                                                                      \
    }
#define SKB_CARRY(bits)                        \
    if (__builtin_expect(sum >> bits != 0, 0)) \
        skb_crosstab_carry(t, into, c, code[c], sum >> bits);
SKB_ADD_ROWS(skb_add_rows_1, uint8_t, int32_t, SKB_CARRY(8))
SKB_ADD_ROWS(skb_add_rows_2, uint16_t, int32_t, SKB_CARRY(16))
SKB_ADD_ROWS(skb_add_rows_4, int32_t, int32_t, )
SKB_ADD_ROWS(skb_add_rows_8, double, double, )
#undef SKB_ADD_ROWS
#undef SKB_CARRY

/* Add `sign` times the rows to a row of the table. */
static inline void skb_crosstab_add(const skb_crosstab *t, char *into, const uint32_t *rows, int64_t n, int sign)
{
    const int *end = t->width_end;
    if (end[0])
        skb_add_rows_1(t, into, 0, end[0], rows, n, sign);
    if (end[1] > end[0])
        skb_add_rows_2(t, into, end[0], end[1], rows, n, sign);
    if (end[2] > end[1])
        skb_add_rows_4(t, into, end[1], end[2], rows, n, sign);
    if (end[3] > end[2])
        skb_add_rows_8(t, into, end[2], end[3], rows, n, sign);
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
