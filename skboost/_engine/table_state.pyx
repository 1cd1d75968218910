"""Back end of main effects for squared error that follows the sums over cells by rows of cross-tables.

A step that adds u to the cells of feature k changes the gradient sum of cell d by sum_s (u[s] - u[s+1]) S[k, s][d],
plus u of the last cell times the weight of d, with the prefix rows S of the cross-table: one row per change of u.
"""

from libc.math cimport NAN
from libc.stdint cimport int64_t, uint16_t
from libc.stdlib cimport calloc, free

from skboost._engine.crosstab cimport CrossTab
from skboost._engine.stage cimport BackEnd, sums_t
from skboost._engine.table_sums cimport (
    changes_of_step,
    sum_of_cells,
    table_sums_add,
    table_sums_catch_up,
    table_sums_release,
    table_sums_reserve,
)

import numpy as np

from skboost._engine import row_state
from skboost._engine.crosstab import costs

cdef extern from *:
    """
    #include "isa.h"
    #define SKB_IMPL "table_state_impl.h"
    #include "isa_expand.h"
    #include "table_rows.h"
    static void skb_d_read_sums(ptrdiff_t n, const double *all, const double *part, double shift, const double *weight,
                                double *out)
    { SKB_DISPATCH(skb_read_sums)(n, all, part, shift, weight, out); }
    static double skb_d_squares_change(ptrdiff_t n, const double *u, const double *start, const double *change,
                                       double shift, const double *W)
    { return SKB_DISPATCH(skb_squares_change)(n, u, start, change, shift, W); }
    """
    void skb_isa_init() noexcept nogil
    void skb_d_read_sums(Py_ssize_t n, const double *all, const double *part, double shift, const double *weight,
                         double *out) noexcept nogil
    double skb_d_squares_change(Py_ssize_t n, const double *u, const double *start, const double *change, double shift,
                                const double *W) noexcept nogil
    void skb_sum_cells(int64_t n, const uint16_t *cells, const double *weight, const double *value,
                       double *sums) noexcept nogil
    void skb_sum_cells_of_step(int64_t n, const uint16_t *cells, const double *weight, const uint16_t *step_cells,
                               const double *u, double *sums) noexcept nogil

skb_isa_init()

STEPS = 600            # steps per feature that tables of a bag are laid out for
VAL_ROW_TIME = 0.28    # of a step for a validation row, in the nanoseconds of crosstab

cdef enum:
    ROW_COST = 8       # of adding a row's step to a cell, in entries of table rows


class SquaredError:
    """The loss of `TableState`, as back ends on rows take it."""

    kind = 0
    n_outputs = 1
    params = ()


cdef class TableState(BackEnd):
    """Main effects of one bag under squared error.

    Parameters
    ----------
    table : CrossTab
        Of all rows, one term per feature. Bags share it.
    y : ndarray of shape (n_rows,), float64
        Targets.
    score : ndarray of shape (1, n_rows), float64
        Scores to start from.
    train_weight, val_weight : ndarray of shape (n_rows,), float64
        Weights of the rows in the bag's training and validation part; 0 leaves a row out.
    max_bytes : int
        Most bytes of each table of the bag.
    plan : {"auto", "shared", "own", "own tables"}
        "shared": from `table` and a table of the validation rows. "own": from a table of the training rows, the
        validation rows one by one. "own tables": from one table of the training and one of the validation rows. "auto":
        what is expected to be fastest, never "shared" where the weights do not add up to those of `table`.
    """

    def __cinit__(self, CrossTab table not None, y, score, train_weight, val_weight, *, max_bytes=2 ** 30,
                  plan="auto"):
        n_rows = table.cells.shape[1]
        y = row_state.checked("y", y, (n_rows,))
        score = row_state.checked("score", score, (1, n_rows))
        train_weight = row_state.checked_weight("train_weight", train_weight, n_rows)
        val_weight = row_state.checked_weight("val_weight", val_weight, n_rows)
        if not train_weight.any():
            raise ValueError("train_weight must be positive for some row")
        plan = self.choose(table, train_weight, val_weight, plan)
        self.reserve(table, train_weight, val_weight, max_bytes, plan)
        self.start(score[0] - y)
        if plan == "own" and val_weight.any():
            self.val_rows = rows_of(table, y, score, val_weight)
            self.state.val_rows = self.val_rows.c
        self.n_outputs = 1
        self.term_sizes = term_sizes(table)
        self.term_sizes.setflags(write=False)
        self.c.sums = sums
        self.c.part_sums = part_sums
        self.c.apply = apply
        self.c.refresh = refresh
        self.c.self = &self.state

    def __dealloc__(self):
        table_sums_release(&self.state.sums)
        free(self.state.changes)
        free(self.state.W)
        free(self.state.G)
        free(self.state.val_W)
        free(self.state.val_G)

    @staticmethod
    def choose(CrossTab table, train_weight, val_weight, plan):
        """Return the plan, "auto" replaced."""
        shared = adds_up(table.weight, train_weight, val_weight)
        if plan not in ("auto", "shared", "own", "own tables"):
            raise ValueError(f"plan must be one of auto, shared, own, own tables, got {plan!r}")
        if plan == "shared" and not shared:
            raise ValueError("train_weight and val_weight do not add up to the weights of the table")
        if plan != "auto":
            return plan
        n_train, n_val, n_features = np.count_nonzero(train_weight), np.count_nonzero(val_weight), len(table.n_cells)
        steps = STEPS * n_features
        of_table = {n: costs(n, n_features, table.c.n_cells, table.c.row_bytes, steps) for n in (n_train, n_val)}
        by_row, by_table = VAL_ROW_TIME * n_val, 1.3 * of_table[n_val].step + of_table[n_val].build / steps
        own = of_table[n_train].build / steps + min(by_row, by_table)
        if shared and (n_val == 0 or by_table < own):
            return "shared"
        return "own" if by_row < by_table else "own tables"

    cdef int reserve(self, CrossTab table, const double[::1] train_weight, const double[::1] val_weight, max_bytes,
                     plan) except -1:
        """Make the tables of the bag and all arrays."""
        cdef table_state_t *s = &self.state
        cdef CrossTab first = table, second = None
        cdef int most_cells = <int>table.n_cells.max()
        options = {"max_bytes": max_bytes, "n_steps": STEPS * len(table.n_cells)}
        s.of_all = plan == "shared"
        if not s.of_all:
            first = CrossTab(table.cells, table.n_cells, train_weight, **options)
        if plan != "own" and np.any(val_weight):
            second = CrossTab(table.cells, table.n_cells, val_weight, unit=table.unit if s.of_all else None, **options)
        self.tables = (first, second)
        self.rows = (table, train_weight, val_weight)
        table_sums_reserve(&s.sums, first, second, 1, False)
        s.cells = &table.cells[0, 0]
        s.n_rows = table.cells.shape[1]
        s.train_weight = &train_weight[0]
        s.changes = <int *>calloc(most_cells, sizeof(int))
        s.W = <double *>calloc(s.sums.n_cells, sizeof(double))
        s.G = <double *>calloc(most_cells, sizeof(double))
        if second is not None:
            s.val_weight = &val_weight[0]
            s.val_W = <double *>calloc(s.sums.n_cells, sizeof(double))
            s.val_G = <double *>calloc(s.sums.n_cells, sizeof(double))
        if (s.changes == NULL or s.W == NULL or s.G == NULL
                or (second is not None and (s.val_W == NULL or s.val_G == NULL))):
            raise MemoryError("no memory for the sums of a bag")
        return 0

    cdef int start(self, const double[::1] residual) except -1:
        """Weights of the cells, and sums of f - y at the start."""
        cdef table_state_t *s = &self.state
        cdef double[::1] squares
        with nogil:
            start_cells(s, s.train_weight, &residual[0], s.W, s.sums.table[0].sums)
            if s.val_weight:
                start_cells(s, s.val_weight, &residual[0], s.val_W, s.val_G)
        if s.val_weight:
            with np.errstate(over="ignore"):
                squares = self.rows[2] * np.square(residual)
            s.total = sum_of_cells(s.n_rows, s.val_weight)
            s.squares = sum_of_cells(s.n_rows, &squares[0])
        return 0


# ------------------------------------------------------------------------------------------------ back end


cdef void sums(void *self, int term, sums_t *out) noexcept nogil:
    cdef table_state_t *s = <table_state_t *>self
    cdef int64_t at = s.sums.table[0].table.first_cell[term]
    table_sums_catch_up(&s.sums, term)
    skb_d_read_sums(s.sums.table[0].table.size[term], s.sums.table[0].sums + at,
                    s.sums.table[1].sums + at if s.of_all and s.val_weight else NULL, s.shift, s.W + at, s.G)
    out.G = s.G
    out.W = s.W + at
    out.H = out.W


cdef void part_sums(void *self, int term, int n_cuts, const int *cuts, double *G, double *H) noexcept nogil:
    cdef table_state_t *s = <table_state_t *>self
    cdef int i, begin = 0, end
    cdef sums_t now
    sums(self, term, &now)
    for i in range(n_cuts + 1):
        end = cuts[i] + 1 if i < n_cuts else s.sums.table[0].table.size[term]
        G[i] = sum_of_cells(end - begin, now.G + begin)
        H[i] = sum_of_cells(end - begin, now.W + begin)
        begin = end


cdef double apply(void *self, int term, const double *u) noexcept nogil:
    cdef table_state_t *s = <table_state_t *>self
    cdef int i, cell, size = s.sums.table[0].table.size[term]
    cdef int n_changes = changes_of_step(size, u, s.changes)
    cdef double coef, known = NAN
    if s.val_rows.self:
        known = s.val_rows.apply(s.val_rows.self, term, u)
    elif s.val_weight:
        known = follow_squares(s, term, size, u)
    if <double>n_changes * s.sums.n_cells > <double>ROW_COST * s.n_rows * s.sums.n_features:
        add_to_rows(s, s.train_weight, term, u, s.sums.table[0].sums)
        if s.val_weight:
            add_to_rows(s, s.val_weight, term, u, s.val_G)
        return known
    for i in range(n_changes):
        cell = s.changes[i]
        coef = u[cell] - u[cell + 1]
        table_sums_add(&s.sums, term, cell, &coef)
    s.shift += u[size - 1]
    return known


cdef double refresh(void *self) noexcept nogil:
    cdef table_state_t *s = <table_state_t *>self
    if s.val_rows.self:
        return s.val_rows.refresh(s.val_rows.self)
    return mean_square(s) if s.val_weight else NAN


cdef double mean_square(const table_state_t *s) noexcept nogil:
    return max((s.squares + s.squares_low) / s.total, 0.0)


cdef double follow_squares(table_state_t *s, int term, int size, const double *u) noexcept nogil:
    """Add the change by the step u to the sum of squares of the validation rows, and keep the rounding error."""
    cdef int64_t at = s.sums.table[0].table.first_cell[term]
    cdef double change, after, back
    table_sums_catch_up(&s.sums, term)
    change = skb_d_squares_change(size, u, s.val_G + at, s.sums.table[1].sums + at, s.shift, s.val_W + at)
    after = s.squares + change
    back = after - s.squares
    s.squares_low += (s.squares - (after - back)) + (change - back)
    s.squares = after
    return mean_square(s)


cdef void add_to_rows(table_state_t *s, const double *weight, int term, const double *u, double *G) noexcept nogil:
    """Add a step of many changes row by row."""
    cdef int k
    for k in range(s.sums.n_features):
        skb_sum_cells_of_step(s.n_rows, s.cells + k * s.n_rows, weight, s.cells + term * s.n_rows, u,
                              G + s.sums.table[0].table.first_cell[k])


cdef void start_cells(table_state_t *s, const double *weight, const double *residual, double *W,
                      double *G) noexcept nogil:
    cdef int k
    cdef int64_t at
    for k in range(s.sums.n_features):
        at = s.sums.table[0].table.first_cell[k]
        skb_sum_cells(s.n_rows, s.cells + k * s.n_rows, weight, NULL, W + at)
        skb_sum_cells(s.n_rows, s.cells + k * s.n_rows, weight, residual, G + at)


# ------------------------------------------------------------------------------------------------ parts


cdef bint adds_up(all_rows, train_weight, val_weight):
    """Whether the parts of every row make up its weight."""
    return bool((np.abs(train_weight + val_weight - all_rows) <= 1e-12 * np.asarray(all_rows)).all())


cdef term_sizes(CrossTab table):
    return np.stack([table.n_cells, np.ones_like(table.n_cells)], axis=1).astype(np.int32)


cdef rows_of(CrossTab table, y, score, val_weight):
    """Return the validation rows as a back end, which wants a training row too: any."""
    one = np.zeros_like(y)
    one[0] = 1.0
    axes = [(k, -1) for k in range(len(table.n_cells))]
    return row_state.RowState(SquaredError, np.asarray(table.cells), axes, table.n_cells, y, score, one, val_weight)
