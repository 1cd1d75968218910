/* Sums over the cells of one feature, row by row. */
#ifndef SKB_TABLE_ROWS_H
#define SKB_TABLE_ROWS_H

#include <stdint.h>

/* sums[cell] += weight * value; value NULL: 1. */
static void skb_sum_cells(int64_t n, const uint16_t *cells, const double *weight, const double *value, double *sums)
{
    if (value)
        for (int64_t i = 0; i < n; i++)
            sums[cells[i]] += weight[i] * value[i];
    else
        for (int64_t i = 0; i < n; i++)
            sums[cells[i]] += weight[i];
}

/* sums[cell] += weight * u[cell of the step's feature]. */
static void skb_sum_cells_of_step(
    int64_t n, const uint16_t *cells, const double *weight, const uint16_t *step_cells, const double *u, double *sums)
{
    for (int64_t i = 0; i < n; i++)
        sums[cells[i]] += weight[i] * u[step_cells[i]];
}

#endif
