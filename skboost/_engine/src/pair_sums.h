/* Sums over rows of the cells of a pair. Of the rows with weight, number t adds to table t % n_parts, in row order;
 * records of a cell hold the weight, the gradients of all outputs and, if there are any, their second derivatives. */
#ifndef SKB_PAIR_SUMS_H
#define SKB_PAIR_SUMS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    ptrdiff_t n_rows;
    int n_outputs;
    const double *grad, *hess; /* (n_outputs, n_rows); hess may be NULL */
    const double *weight;      /* (n_rows,) NULL: 1 everywhere */
} skb_gradients_t;

/* Cells of one feature: map[cells[i]] of row i. */
typedef struct {
    const uint16_t *cells, *map;
    int size;
} skb_pair_axis_t;

static inline int skb_record_size(const skb_gradients_t *r) { return 1 + (r->hess ? 2 : 1) * r->n_outputs; }

/* `t` counts the rows with weight before row i; a row without adds zeros to any table. */
#define SKB_EACH_ROW(HAS_WEIGHT, ADD) \
    for (ptrdiff_t i = 0, t = 0; i < r->n_rows; i++) { \
        size_t cell = (size_t)p->map[p->cells[i]] * q->size + q->map[q->cells[i]]; \
        double *at = tables + ((t & (n_parts - 1)) * n_cells + cell) * record; \
        ADD \
        t += HAS_WEIGHT; \
    }

/* n_parts is a power of two. */
static void skb_pair_sums(const skb_gradients_t *r, const skb_pair_axis_t *p, const skb_pair_axis_t *q, int n_parts,
                          double *restrict tables)
{
    const double *restrict g = r->grad, *restrict h = r->hess, *restrict w = r->weight;
    size_t n_cells = (size_t)p->size * q->size;
    const int record = skb_record_size(r);
    if (r->n_outputs == 1 && !h && !w) {
        SKB_EACH_ROW(1, at[0] += 1.0; at[1] += g[i];)
    } else if (r->n_outputs == 1 && !h) {
        SKB_EACH_ROW(w[i] > 0.0, at[0] += w[i]; at[1] += w[i] * g[i];)
    } else if (r->n_outputs == 1) {
        SKB_EACH_ROW(v > 0.0, double v = w ? w[i] : 1.0; at[0] += v; at[1] += v * g[i]; at[2] += v * h[i];)
    } else {
        SKB_EACH_ROW(v > 0.0, double v = w ? w[i] : 1.0; at[0] += v;
                     for (int k = 0; k < r->n_outputs; k++) at[1 + k] += v * g[k * r->n_rows + i];
                     if (h) for (int k = 0; k < r->n_outputs; k++)
                         at[1 + r->n_outputs + k] += v * h[k * r->n_rows + i];)
    }
}
#undef SKB_EACH_ROW
#endif
