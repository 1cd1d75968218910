# Pairs of features: the search of 3-leaf trees on their cells, random cuts, and the best cross of FAST.
#
# A tree cuts one axis, then one of the two halves along the other axis. The low side of a cut holds the cells up to and
# including a (axis 0) or b (axis 1); the missing cell is the lowest one.

from libc.stdint cimport uint64_t

from skboost._engine.stage cimport sums_t, term_t

ctypedef struct pair_options_t:
    int n_outputs
    double min_samples_leaf   # least weight of a leaf
    double min_hessian        # least sum of second derivatives of a leaf, for every output
    double l2_regularization

cdef enum:
    MOST_PAIR_CELLS = 1 << 20

cdef enum:
    PAIR_WHOLE = 0            # no legal tree: one leaf over all cells
    PAIR_LOW_ROWS = 1         # axis 0 after a, then its low half along axis 1 after b
    PAIR_HIGH_ROWS = 2        # axis 0 after a, then its high half along axis 1 after b
    PAIR_LOW_COLUMNS = 3      # axis 1 after b, then its low half along axis 0 after a
    PAIR_HIGH_COLUMNS = 4     # axis 1 after b, then its high half along axis 0 after a
    PAIR_RANDOM = 5           # four cells; a or b is -1 where the axis has no boundary to draw

ctypedef struct pair_cut_t:
    int shape
    int a
    int b

# Number of doubles of the work array of search_pair and cross_gain.
cdef Py_ssize_t pair_work_size(int size0, int size1, int n_outputs) noexcept nogil

# Best of the 4 (size0 - 1) (size1 - 1) trees: u, of shape (n_outputs, n_cells), receives -G / (H + l2) of each cell's
# leaf (no learning rate; 0 where H is 0). Returns the gain, the sum over outputs and leaves of G^2 / (H + l2) less that
# of the whole; 0 and a constant u when no tree is legal and gains. Trees that part the cells with W > 0 alike are one
# tree, of which any cuts are drawn by key; so are ties of different parts, up to rounding. Sums are not multiplied by
# weights again: G, H, W are weighted already.
cdef double search_pair(const term_t *term, const sums_t *sums, const pair_options_t *options, uint64_t key,
                        double *work, double *u, pair_cut_t *cut) noexcept nogil

# One uniform cut per axis, keyed, four leaves without leaf minimum: boundaries between the missing cell (if it has
# weight, else the first value cell) and the last value cell.
cdef void random_pair(const term_t *term, const sums_t *sums, const pair_options_t *options, uint64_t key, double *u,
                      pair_cut_t *cut) noexcept nogil

# Largest gain of a cut of both axes into four legal leaves, each with its own value; 0 where none gains.
cdef double cross_gain(int size0, int size1, const sums_t *sums, const pair_options_t *options,
                       double *work) noexcept nogil
