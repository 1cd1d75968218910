"""Sums over cells that follow the model by multiples of rows of cross-tables; see table_sums.pxd."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from skboost._engine.crosstab cimport (
    SKB_CELL_PAD,
    SKB_WIDE_MAX,
    CrossTab,
    skb_crosstab,
    skb_crosstab_row,
    skb_crosstab_wide,
)

cdef extern from *:
    """
    #include "isa.h"
    #define SKB_IMPL "crosstab_impl.h"
    #include "isa_expand.h"
    #define SKB_IMPL "cells_of_step_impl.h"
    #include "isa_expand.h"
    static double skb_d_sum(ptrdiff_t n, const double *x) { return SKB_DISPATCH(skb_sum)(n, x); }
    static int skb_d_changes(ptrdiff_t n, const double *u, int *out) { return SKB_DISPATCH(skb_changes)(n, u, out); }
    static void skb_d_add_multiples(int width, ptrdiff_t n, int n_rows, const char *const *rows, const double *coef,
                                    double *sum)
    { SKB_DISPATCH(skb_add_multiples)(width, n, n_rows, rows, coef, sum); }
    """
    void skb_isa_init() noexcept nogil
    double skb_d_sum(Py_ssize_t n, const double *x) noexcept nogil
    int skb_d_changes(Py_ssize_t n, const double *u, int *out) noexcept nogil
    void skb_d_add_multiples(int width, Py_ssize_t n, int n_rows, const char **rows, const double *coef,
                             double *sum) noexcept nogil

skb_isa_init()


cdef int table_sums_reserve(table_sums_t *s, CrossTab first, CrossTab second, int n_outputs, bint skip_own) except -1:
    cdef int t
    cdef CrossTab table
    memset(s, 0, sizeof(table_sums_t))
    s.n_features = first.c.n_features
    s.n_outputs = n_outputs
    s.skip_own = skip_own
    s.n_cells = first.c.n_cells
    s.n_done = <int64_t *>calloc(s.n_features, sizeof(int64_t))
    s.coef = <double *>calloc(n_outputs * QUEUE, sizeof(double))
    if s.n_done == NULL or s.coef == NULL:
        raise MemoryError("no memory for sums over cells")
    for t in range(1 if second is None else 2):
        table = second if t else first
        table.build()
        s.n_tables = t + 1
        s.table[t].table = &table.c
        s.table[t].unit = table.unit
        s.table[t].sums = <double *>calloc(n_outputs * s.n_cells, sizeof(double))
        if not table.complete:
            s.table[t].slots = <char *>malloc(QUEUE * table.c.row_bytes)
        if s.table[t].sums == NULL or (s.table[t].slots == NULL and not table.complete):
            raise MemoryError("no memory for sums over cells")
    return 0


cdef void table_sums_release(table_sums_t *s) noexcept nogil:
    cdef int t
    free(s.n_done)
    free(s.coef)
    for t in range(2):
        free(s.table[t].sums)
        free(s.table[t].slots)
    memset(s, 0, sizeof(table_sums_t))


cdef void table_sums_add(table_sums_t *s, int feature, int cell, const double *coef) noexcept nogil:
    cdef int t, c, k, at
    cdef followed_t *f
    for k in range(s.n_features):
        if s.n_updates - s.n_done[k] == QUEUE:
            table_sums_catch_up_all(s)
            break
    at = <int>(s.n_updates % QUEUE)
    s.feature[at] = feature
    for c in range(s.n_outputs):
        s.coef[c * QUEUE + at] = coef[c]
    for t in range(s.n_tables):
        f = &s.table[t]
        f.row[at] = skb_crosstab_row(f.table, feature, cell,
                                     f.slots + at * f.table.row_bytes if f.slots else NULL)
    s.n_updates += 1


cdef void table_sums_catch_up(table_sums_t *s, int feature) noexcept nogil:
    cdef int t, c, at, n
    cdef int64_t i
    cdef followed_t *f
    cdef const char *rows[QUEUE]
    cdef double coef[QUEUE]
    for t in range(s.n_tables):
        f = &s.table[t]
        for c in range(s.n_outputs):
            n = 0
            for i in range(s.n_done[feature], s.n_updates):
                at = <int>(i % QUEUE)
                if s.skip_own and s.feature[at] == feature:
                    continue
                rows[n] = f.row[at]
                coef[n] = s.coef[c * QUEUE + at] * f.unit
                n += 1
            add_multiples(f.table, feature, n, rows, coef, f.sums + c * s.n_cells + f.table.first_cell[feature])
    s.n_done[feature] = s.n_updates


cdef void add_multiples(const skb_crosstab *t, int k, int n, const char **rows, const double *coef,
                        double *sums) noexcept nogil:
    """Add coef[i] times the entries of feature k in rows[i] to the sums of its cells, one i after the other."""
    cdef int64_t block = (t.size[k] + SKB_CELL_PAD - 1) // SKB_CELL_PAD * SKB_CELL_PAD
    cdef int i, j, first = t.first_wide[k], n_wide = t.first_wide[k + 1] - t.first_wide[k]
    cdef double wide[SKB_WIDE_MAX]
    cdef const char *blocks[QUEUE]
    for j in range(n_wide):
        wide[j] = sums[t.wide_cell[first + j]]
        for i in range(n):
            wide[j] += coef[i] * skb_crosstab_wide(t, rows[i], k, first + j)
    for i in range(n):
        blocks[i] = rows[i] + t.first_byte[k]
    skb_d_add_multiples(t.width[k], block, n, blocks, coef, sums)
    for j in range(n_wide):
        sums[t.wide_cell[first + j]] = wide[j]


cdef void table_sums_catch_up_all(table_sums_t *s) noexcept nogil:
    cdef int k
    for k in range(s.n_features):
        table_sums_catch_up(s, k)


cdef void table_sums_clear(table_sums_t *s) noexcept nogil:
    cdef int t, k
    for t in range(s.n_tables):
        memset(s.table[t].sums, 0, s.n_outputs * s.n_cells * sizeof(double))
    for k in range(s.n_features):
        s.n_done[k] = s.n_updates


cdef double sum_of_cells(Py_ssize_t n, const double *x) noexcept nogil:
    return skb_d_sum(n, x)


cdef int changes_of_step(int n, const double *u, int *out) noexcept nogil:
    return skb_d_changes(n, u, out)
