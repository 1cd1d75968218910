"""Back end of main effects for squared error that follows the sums over cells by rows of cross-tables.

A step that adds u to the cells of feature k changes the gradient sum of cell d by sum_s (u[s] - u[s+1]) S[k, s][d],
plus u of the last cell times the weight of d, with the prefix rows S of the cross-table: one row per change of u.
"""

from libc.math cimport NAN
from libc.stdint cimport int64_t, uint16_t
from libc.stdlib cimport calloc, free

from skboost._engine.crosstab cimport CrossTab
from skboost._engine.stage cimport sums_t
from skboost._engine.table_sums cimport table_sums_add, table_sums_catch_up, table_sums_release, table_sums_reserve

import numpy as np

cdef extern from *:
    """
    #include <stdint.h>
    #include "isa.h"
    #define SKB_IMPL "table_state_impl.h"
    #include "isa_expand.h"
    #include "table_rows.h"
    static void skb_d_read_sums(ptrdiff_t n, const double *start, const double *all, const double *other, double shift,
                                const double *weight, double *out)
    { SKB_DISPATCH(skb_read_sums)(n, start, all, other, shift, weight, out); }
    static double skb_d_sum(ptrdiff_t n, const double *x) { return SKB_DISPATCH(skb_sum)(n, x); }
    static double skb_d_squares_change(ptrdiff_t n, const double *u, const double *G, const double *W)
    { return SKB_DISPATCH(skb_squares_change)(n, u, G, W); }
    static int skb_d_changes(ptrdiff_t n, const double *u, int *out) { return SKB_DISPATCH(skb_changes)(n, u, out); }
    """
    void skb_isa_init() noexcept nogil
    void skb_d_read_sums(Py_ssize_t n, const double *start, const double *all, const double *other, double shift,
                         const double *weight, double *out) noexcept nogil
    double skb_d_sum(Py_ssize_t n, const double *x) noexcept nogil
    double skb_d_squares_change(Py_ssize_t n, const double *u, const double *G, const double *W) noexcept nogil
    int skb_d_changes(Py_ssize_t n, const double *u, int *out) noexcept nogil
    void skb_sum_cells(int64_t n, const uint16_t *cells, const double *weight, const double *value,
                       double *sums) noexcept nogil
    void skb_sum_cells_of_step(int64_t n, const uint16_t *cells, const double *weight, const uint16_t *step_cells,
                               const double *u, double *sums) noexcept nogil

skb_isa_init()

cdef enum:
    ROW_COST = 8    # of adding a row's step to a cell, in entries of table rows


cdef class TableState(BackEnd):
    """Main effects of one bag under squared error.

    Parameters
    ----------
    table : CrossTab
        Of all rows, one term per feature. Bags share it.
    y : float64 array of shape (n_rows,)
    offset : float64 array of shape (1, n_rows)
        The model at the start.
    train_weight, valid_weight : float64 arrays of shape (n_rows,)
        Weights of the bag's rows; valid_weight None: no validation rows. Where they do not add up to the weights of
        `table`, the bag has a table of its training rows too.
    max_bytes : int
        Most bytes of each table of the bag.
    """

    def __cinit__(self, CrossTab table not None, const double[::1] y not None, const double[:, ::1] offset not None,
                  const double[::1] train_weight not None, const double[::1] valid_weight=None, *,
                  max_bytes=2 ** 30):
        check_rows(table, 1, y, offset, train_weight, valid_weight)
        if valid_weight is not None and not np.any(valid_weight):
            valid_weight = None
        self.rows = (table, train_weight, valid_weight)
        self.reserve(table, train_weight, valid_weight, max_bytes)
        self.start(np.asarray(offset)[0] - np.asarray(y))
        self.n_outputs = 1
        self.term_sizes = term_sizes(table)
        self.c.sums = sums
        self.c.part_sums = part_sums
        self.c.apply = apply
        self.c.refresh = refresh
        self.c.self = &self.state

    def __dealloc__(self):
        table_sums_release(&self.state.sums)
        free_part(&self.state.train)
        free_part(&self.state.valid)
        free(self.state.changes)

    cdef int reserve(self, CrossTab table, const double[::1] train_weight, const double[::1] valid_weight,
                     max_bytes) except -1:
        """Make the tables of the bag and all arrays."""
        cdef table_state_t *s = &self.state
        cdef CrossTab first = table, second = None
        cdef int most_cells = <int>table.n_cells.max()
        s.of_all = adds_up(table.weight, train_weight, valid_weight)
        if not s.of_all:
            first = CrossTab(table.cells, table.n_cells, train_weight, max_bytes=max_bytes)
        if valid_weight is not None:
            second = CrossTab(table.cells, table.n_cells, valid_weight, max_bytes=max_bytes,
                              unit=table.unit if s.of_all else None)
        self.tables = (first, second)
        table_sums_reserve(&s.sums, first, second, 1, False)
        s.cells = &table.cells[0, 0] if table.cells.shape[1] else NULL
        s.n_rows = table.cells.shape[1]
        s.changes = <int *>calloc(most_cells, sizeof(int))
        if s.changes == NULL:
            raise MemoryError("no memory for the sums of a bag")
        reserve_part(&s.train, s.sums.n_cells, most_cells, train_weight)
        if second is not None:
            reserve_part(&s.valid, s.sums.n_cells, most_cells, valid_weight)
        return 0

    cdef int start(self, const double[::1] residual) except -1:
        """Sums of f - y at the start."""
        cdef table_state_t *s = &self.state
        cdef double[::1] squares
        if s.n_rows == 0:
            return 0
        with nogil:
            start_part(s, &s.train, &residual[0])
            if s.valid.start:
                start_part(s, &s.valid, &residual[0])
        if s.valid.start:
            weight = np.asarray(<const double[:s.n_rows]>s.valid.row_weight)
            with np.errstate(over="ignore"):
                squares = 0.5 * weight * np.square(residual)
            s.total = skb_d_sum(s.n_rows, s.valid.row_weight)
            s.loss = skb_d_sum(s.n_rows, &squares[0])
        return 0


# ---------------------------------------------------------------- functions of the back end

cdef void sums(void *self, int term, sums_t *out) noexcept nogil:
    cdef table_state_t *s = <table_state_t *>self
    table_sums_catch_up(&s.sums, term)
    out.G = read_train(s, term)
    out.W = s.train.weight + s.sums.table[0].table.first_cell[term]
    out.H = out.W


cdef void part_sums(void *self, int term, int n_cuts, const int *cuts, double *G, double *H) noexcept nogil:
    cdef table_state_t *s = <table_state_t *>self
    cdef int i, begin = 0, end
    cdef sums_t now
    sums(self, term, &now)
    for i in range(n_cuts + 1):
        end = cuts[i] + 1 if i < n_cuts else s.sums.table[0].table.size[term]
        G[i] = skb_d_sum(end - begin, now.G + begin)
        H[i] = skb_d_sum(end - begin, now.W + begin)
        begin = end


cdef double apply(void *self, int term, const double *u) noexcept nogil:
    cdef table_state_t *s = <table_state_t *>self
    cdef int i, cell, size = s.sums.table[0].table.size[term]
    cdef int n_changes = skb_d_changes(size, u, s.changes)
    cdef double coef
    if s.valid.start:
        add_loss(s, term, size, u)
    if <double>n_changes * s.sums.n_cells > <double>ROW_COST * s.n_rows * s.sums.n_features:
        apply_to_rows(s, &s.train, term, u)
        if s.valid.start:
            apply_to_rows(s, &s.valid, term, u)
        return metric(s)
    for i in range(n_changes):
        cell = s.changes[i]
        coef = u[cell] - u[cell + 1]
        table_sums_add(&s.sums, term, cell, &coef)
    s.shift += u[size - 1]
    return metric(s)


cdef double refresh(void *self) noexcept nogil:
    return metric(<table_state_t *>self)


cdef double metric(const table_state_t *s) noexcept nogil:
    return max((s.loss + s.loss_low) / s.total, 0.0) if s.valid.start else NAN


cdef const double *read_train(table_state_t *s, int term) noexcept nogil:
    """Gradient sums of an up-to-date feature."""
    cdef int64_t at = s.sums.table[0].table.first_cell[term]
    skb_d_read_sums(s.sums.table[0].table.size[term], s.train.start + at, s.sums.table[0].sums + at,
                    s.sums.table[1].sums + at if s.of_all and s.valid.start else NULL, s.shift, s.train.weight + at,
                    s.train.now)
    return s.train.now


cdef void add_loss(table_state_t *s, int term, int size, const double *u) noexcept nogil:
    """Follow the sum of squares of the validation rows through the step u, with its rounding error."""
    cdef int64_t at = s.sums.table[0].table.first_cell[term]
    cdef double change, loss, back
    table_sums_catch_up(&s.sums, term)
    skb_d_read_sums(size, s.valid.start + at, s.sums.table[1].sums + at, NULL, s.shift, s.valid.weight + at,
                    s.valid.now)
    change = skb_d_squares_change(size, u, s.valid.now, s.valid.weight + at)
    loss = s.loss + change
    back = loss - s.loss
    s.loss_low += (s.loss - (loss - back)) + (change - back)
    s.loss = loss


cdef void apply_to_rows(table_state_t *s, part_t *part, int term, const double *u) noexcept nogil:
    """Add a step with many changes row by row."""
    cdef int k
    for k in range(s.sums.n_features):
        skb_sum_cells_of_step(s.n_rows, s.cells + k * s.n_rows, part.row_weight, s.cells + term * s.n_rows, u,
                              part.start + s.sums.table[0].table.first_cell[k])


cdef void start_part(table_state_t *s, part_t *part, const double *residual) noexcept nogil:
    cdef int k
    cdef int64_t at
    for k in range(s.sums.n_features):
        at = s.sums.table[0].table.first_cell[k]
        skb_sum_cells(s.n_rows, s.cells + k * s.n_rows, part.row_weight, NULL, part.weight + at)
        skb_sum_cells(s.n_rows, s.cells + k * s.n_rows, part.row_weight, residual, part.start + at)


# ---------------------------------------------------------------- memory and arguments

cdef int reserve_part(part_t *part, int64_t n_cells, int most_cells, const double[::1] row_weight) except -1:
    part.row_weight = &row_weight[0] if row_weight.shape[0] else NULL
    part.start = <double *>calloc(n_cells, sizeof(double))
    part.weight = <double *>calloc(n_cells, sizeof(double))
    part.now = <double *>calloc(most_cells, sizeof(double))
    if part.start == NULL or part.weight == NULL or part.now == NULL:
        raise MemoryError("no memory for the sums of a bag")
    return 0


cdef void free_part(part_t *part) noexcept nogil:
    free(part.start)
    free(part.weight)
    free(part.now)


cdef bint adds_up(all_rows, train_weight, valid_weight):
    """Whether the parts of every row make up its weight."""
    parts = np.asarray(train_weight) if valid_weight is None else np.add(train_weight, valid_weight)
    return bool((np.abs(parts - all_rows) <= 1e-12 * np.asarray(all_rows)).all())


cdef term_sizes(CrossTab table):
    return np.stack([table.n_cells, np.ones_like(table.n_cells)], axis=1).astype(np.int32)


cdef int check_rows(CrossTab table, int n_outputs, const double[::1] y, const double[:, ::1] offset,
                    const double[::1] train_weight, const double[::1] valid_weight) except -1:
    """Raise unless all arrays fit the rows of the table and hold numbers."""
    cdef Py_ssize_t n = table.cells.shape[1]
    if offset.shape[0] != n_outputs or offset.shape[1] != n or y.shape[0] != n:
        raise ValueError(f"y needs the shape {(n,)} and offset {(n_outputs, n)}")
    for name, weight in ("train_weight", train_weight), ("valid_weight", valid_weight):
        if weight is None:
            continue
        if weight.shape[0] != n:
            raise ValueError(f"{name} needs {n} entries, got {weight.shape[0]}")
        if not (np.isfinite(weight).all() and np.greater_equal(weight, 0).all()):
            raise ValueError(f"{name} must be finite and not negative")
    for name, values in ("y", y), ("offset", offset):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite")
    return 0
