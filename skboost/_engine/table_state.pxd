# Back end of main effects for squared error: a step costs the number of cells, whatever the number of rows.

from libc.stdint cimport int64_t, uint16_t

from skboost._engine.crosstab cimport CrossTab
from skboost._engine.stage cimport BackEnd
from skboost._engine.table_sums cimport table_sums_t

# Sums over the cells under the model at the start, and what they weigh.
ctypedef struct part_t:
    const double *row_weight    # of all rows
    double *start               # (n_cells,) sums of w (f - y); also takes the steps that go row by row
    double *weight              # (n_cells,)
    double *now                 # (n_cells of a feature,) work

ctypedef struct table_state_t:
    table_sums_t sums           # of table 0, which holds the training rows or all rows, and of the validation rows
    bint of_all                 # table 0 holds all rows: the training rows are all but the validation rows
    const uint16_t *cells       # (n_features, n_rows)
    int64_t n_rows
    part_t train
    part_t valid                # arrays are NULL without validation rows
    double shift                # added to all rows, not yet to the sums
    double loss                 # sum of w (f - y)^2 / 2 over the validation rows
    double loss_low             # its rounding error so far
    double total                # weight of the validation rows
    int *changes                # work

cdef class TableState(BackEnd):
    cdef table_state_t state
    cdef readonly tuple tables      # (of table 0, of the validation rows or None)
    cdef tuple rows                 # kept alive: arrays that the state points to

    cdef int reserve(self, CrossTab table, const double[::1] train_weight, const double[::1] valid_weight,
                     max_bytes) except -1
    cdef int start(self, const double[::1] residual) except -1
