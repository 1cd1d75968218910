# Boosting of additive terms: what a term is, and what the stage loop asks of a back end that holds the rows or tables.
#
# Cells of an axis: 0 is missing, then the value cells, the last one is the cell of unseen categories. A pair's cell is
# a * size1 + b. Gradients are dL/df; arrays of outputs come first: (n_outputs, n_cells).

ctypedef struct term_t:
    int n_axes             # 1: main effect, 2: pair
    int n_cells            # size0 * size1
    int size0
    int size1              # 1 for a main effect
    int first_cell         # of this term in the concatenated cells of all terms of the stage
    bint nominal           # main effect of a categorical feature
    int monotone           # -1, 0, 1; numeric main effects of one output only
    bint has_missing       # whether some training row lies in cell 0

# Sums over the training rows of the bag under the current model.
ctypedef struct sums_t:
    const double *G        # (n_outputs, n_cells) weighted gradients
    const double *H        # (n_outputs, n_cells) weighted second derivatives, the weights for squared error
    const double *W        # (n_cells,) weights, constant during a stage

ctypedef struct backend_t:
    void *self
    # Sums of a term, valid until the next call of any function here.
    void (*sums)(void *self, int term, sums_t *out) noexcept nogil
    # Sums over parts of the cells of a main effect: part i holds the cells (cuts[i-1], cuts[i]]; G and H have the
    # shape (n_outputs, n_cuts + 1).
    void (*part_sums)(void *self, int term, int n_cuts, const int *cuts, double *G, double *H) noexcept nogil
    # Add u, of shape (n_outputs, n_cells), to the model. Returns the validation metric after it, NaN where this back
    # end does not know it at this step or there are no validation rows. Cells without training weight hold the value
    # of a neighbour, so that u changes from cell to cell as rarely as can be.
    double (*apply)(void *self, int term, const double *u) noexcept nogil
    # Bring all sums up to date; returns the validation metric, NaN without validation rows.
    double (*refresh)(void *self) noexcept nogil


# Base of the Python objects that hold a back end. A subclass fills all of it in its constructor and keeps alive what
# c.self points to; whatever uses `c` keeps a reference to the object. One object serves one thread at a time.
cdef class BackEnd:
    cdef backend_t c
    cdef readonly int n_outputs
    cdef readonly object term_sizes    # int32 array (n_terms, 2): cells per axis of every term, 1 for a missing axis
    cdef int check_ready(self) except -1
    cdef int cells_of(self, int term) except -1
