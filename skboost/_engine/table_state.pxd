# Back end of main effects for squared error: a step costs the number of cells, whatever the number of rows.

from libc.stdint cimport int64_t, uint16_t

from skboost._engine.crosstab cimport CrossTab
from skboost._engine.stage cimport BackEnd, backend_t
from skboost._engine.table_sums cimport table_sums_t

ctypedef struct table_state_t:
    table_sums_t sums           # of table 0: training rows or all rows; of table 1: validation rows
    bint of_all                 # table 0 holds all rows: the training rows are those less the ones of table 1
    const uint16_t *cells       # (n_features, n_rows)
    int64_t n_rows
    double shift                # added to all rows, not yet to the sums
    int *changes                # work, an entry per cell of a feature
    # training rows; their sums at the start are part of the sums of table 0
    const double *train_weight  # (n_rows,)
    double *W                   # (n_cells,)
    double *G                   # work
    # validation rows by table 1, NULL where there is none
    const double *val_weight    # (n_rows,)
    double *val_W               # (n_cells,)
    double *val_G               # (n_cells,) sums of w (f - y) at the start; also takes the steps that go row by row
    double squares              # sum of w (f - y)^2
    double squares_low          # its rounding error so far
    double total                # of val_weight
    # validation rows by row; self is NULL where there are none
    backend_t val_rows

cdef class TableState(BackEnd):
    cdef table_state_t state
    cdef readonly tuple tables      # of table 0 and table 1, None where there is none
    cdef readonly BackEnd val_rows  # validation rows, None where table 1 holds them or there are none
    cdef tuple rows                 # kept alive

    cdef int reserve(self, CrossTab table, const double[::1] train_weight, const double[::1] val_weight,
                     max_bytes, plan) except -1
    cdef int start(self, const double[::1] residual) except -1
