# Back end of main effects for losses whose second derivatives change: tables within an epoch, rows between epochs.

from libc.stdint cimport uint16_t

from skboost._engine.crosstab cimport CrossTab
from skboost._engine.losses cimport loss_t
from skboost._engine.stage cimport BackEnd
from skboost._engine.table_sums cimport table_sums_t

ctypedef struct epoch_rows_t:
    Py_ssize_t n
    const uint16_t *codes      # (n_features, n)
    const double *y
    const double *weight       # NULL: all 1
    double *score              # (n_outputs, n)
    double total               # of the weights

ctypedef struct epoch_state_t:
    loss_t loss
    int n_outputs
    table_sums_t sums          # of the table of all rows, weighted by second derivatives when they are read
    epoch_rows_t train
    epoch_rows_t val
    double saturated
    double metric              # at the start of the epoch
    # of every cell at the start of the epoch, (n_outputs, n_cells); G also takes the steps of the cell's own feature
    double *G
    double *H
    double *slope              # change of G by a step: H, or for several classes the sum of probabilities
    double *slope_below        # sums of slope over the cells of the feature up to this one
    double *ratio              # slope over the weight of all rows, 0 without weight
    double *mean_slope         # (n_outputs,) the same of all cells together
    # (n_cells,), of the training rows or all rows
    double *W
    double *W_below            # sums up to this cell
    double *all_W
    double *all_below
    double *class_W            # (n_outputs, n_cells) weight of the training rows of each class, NULL for other losses
    # since the start of the epoch
    double *shift              # (n_outputs,)
    double *steps              # (n_outputs, n_cells) sum of the steps, not yet added to the rows
    int *dirty                 # features that have steps
    double length              # sum of the largest |step|
    int n_steps
    bint tracked               # whether the sums followed all steps
    int n_epochs               # that have ended
    double drift               # of the last one: largest error of a sum over the largest sum
    # an epoch ends when its length exceeds tau or it has max_steps
    double tau
    int max_steps
    # work
    double *v                  # (n_outputs, cells of a feature) a step as the classes share it
    double *own_v
    double *out_G              # (n_outputs, cells of a feature)
    double *out_H
    double *exact_G            # (n_outputs, n_cells)
    double *tracked_G
    double *copies             # (n_outputs, 2, n_cells, 2)
    double *grad
    double *hess
    double *values
    double *base
    double *coef
    int *changes
    int *is_change

cdef class EpochState(BackEnd):
    cdef epoch_state_t state
    cdef list keep

    cdef object fill_rows(self, epoch_rows_t *rows, cells, y, score, weight)
    cdef int allocate(self, CrossTab table) except -1
    cdef double *doubles(self, values) except? NULL
