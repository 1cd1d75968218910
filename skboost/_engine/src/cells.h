/* Values to 16-bit cells, in which a value equal to a cut goes up. NaN is meaningful here: no finite-math flags. */
#ifndef SKB_CELLS_H
#define SKB_CELLS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "isa.h"
#include "rng.h"
#ifdef SKB_X86_DISPATCH
#include <immintrin.h>
#endif

#define SKB_CELL_BLOCK 256 /* rows handled together: the block stays in the first-level cache */
#ifndef SKB_GOLDEN
#define SKB_GOLDEN 0x9e3779b97f4a7c15ULL
#endif

#define SKB_IMPL "cells_impl.h"
#include "isa_expand.h"

/* One column of the map. Numeric: a table of 2 * first_step - 1 cuts; categorical: first_step is 0. */
typedef struct {
    const double *table;
    int first_step;
    int n_levels;
} skb_cell_column;

static int skb_first_step(ptrdiff_t n_cuts)
{
    int step = 1;
    while (2 * (ptrdiff_t)step - 1 < n_cuts)
        step *= 2;
    return step;
}

/* Cells of at most SKB_CELL_BLOCK values that lie stride bytes apart. */
static void skb_map_cells(const skb_cell_column *column, const char *x, ptrdiff_t stride, int is_float32, int n,
                          uint16_t *out)
{
    double block[SKB_CELL_BLOCK];
    if (is_float32)
        for (int i = 0; i < n; i++)
            block[i] = (double)*(const float *)(x + i * stride);
    else
        for (int i = 0; i < n; i++)
            block[i] = *(const double *)(x + i * stride);
    if (column->first_step)
        SKB_DISPATCH(skb_search_cells)(column->table, column->first_step, block, n, out);
    else
        SKB_DISPATCH(skb_level_cells)(column->n_levels, block, n, out);
}

static void skb_hash_rows(const uint16_t *cells, ptrdiff_t stride, ptrdiff_t n_features, int n, uint64_t *hash)
{
    SKB_DISPATCH(skb_hash_cells)(cells, stride, n_features, n, hash);
}

#endif
