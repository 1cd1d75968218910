# Passes over the rows of a bag, gathered: sums over cells under the current model, steps of the model.

from skboost._engine.losses cimport loss_t
from skboost._engine.stage cimport sums_t

cdef enum:
    NARROW = 65536         # cells that 16 bits tell apart

cdef extern from "row_step.h":
    ctypedef struct skb_row_step_t:
        int n_cuts
        int *cut
        double *value
        const double *table

ctypedef struct rows_t:
    Py_ssize_t n
    double *score          # (n_outputs, n); squared error: score - y; training rows of log losses: exponentials
    const double *y
    const double *weight   # NULL: all 1
    double total           # of the weights
    void **codes           # per term: (n,) uint16, uint32 where there are more than NARROW cells

ctypedef struct row_state_t:
    loss_t loss
    double odds            # log losses keep exp(odds * score) of training rows: -1 for two classes, 1 for more, else 0
    int n_outputs
    Py_ssize_t tile
    const int *n_cells     # per term
    double **W             # per term: (n_cells,)
    rows_t train
    rows_t valid
    double saturated       # mean loss of perfect predictions of the validation rows
    double *G              # sums of the last term asked for
    double *H
    double *hist           # its histogram
    const char *crowded    # per term: whether rows that follow each other often share a cell
    int pending            # term of a step not yet added to the training rows, or -1
    skb_row_step_t *steps  # per output
    skb_row_step_t still   # adds 0
    double *table          # (n_outputs, n_cells)
    skb_row_step_t *factors    # the step as factors of exponentials
    double *factor_table
    bint known             # whether the gradients of the training rows are in all_grad and all_hess
    double *all_grad       # (n_outputs, n), weighted; NULL: they are not kept
    double *all_hess
    double *grad           # (n_outputs, tile)
    double *hess
    double *values         # (tile,)
    double *base           # zeros

# Size of a tile of rows, and of the memory of histograms, in doubles.
cdef Py_ssize_t tile_rows(int n_outputs) noexcept nogil
cdef Py_ssize_t histogram_size(int n_cells, int n_outputs) noexcept nogil

# x = exp(odds * x) within what is kept.
cdef void keep_exponentials(double *x, Py_ssize_t n, double odds) noexcept nogil

# Sum of n doubles in a fixed order.
cdef double sum_rows(const double *x, Py_ssize_t n) noexcept nogil

# Add a step that still waits to the training rows.
cdef void flush(row_state_t *s) noexcept nogil

# The functions of backend_t; self is a row_state_t.
cdef void row_sums(void *self, int term, sums_t *out) noexcept nogil
cdef void row_part_sums(void *self, int term, int n_cuts, const int *cuts, double *G, double *H) noexcept nogil
cdef double row_apply(void *self, int term, const double *u) noexcept nogil
cdef double row_refresh(void *self) noexcept nogil
