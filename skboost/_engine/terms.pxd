# Search of main effects: the best cuts of a line of cells, and cuts drawn at random.

from libc.stdint cimport uint64_t

from skboost._engine.stage cimport sums_t, term_t

cdef enum:
    MISSING_SEPARATE = 0    # a leaf of its own, without leaf minimum
    MISSING_GAIN = 1        # on the side that gains most
    MISSING_LOW = 2         # first cell of the line
    MISSING_HIGH = 3        # last cell of the line

ctypedef struct term_options_t:
    int n_outputs
    int max_leaves
    int missing
    double min_samples_leaf    # least weight of a leaf
    double min_hessian         # least sum of second derivatives of a leaf, for every output
    double l2_regularization
    double min_cat_samples     # levels of less weight are pooled
    double cat_smooth          # added to H where levels are sorted by G / H

# What never changes during a stage, for numeric terms: sums of W below each cut of the line of value cells, and, where
# H is W, 1 / (W + l2) of both sides of each cut of the whole line, 0 where the cut is illegal.
ctypedef struct term_cache_t:
    double *below              # (n_cells,) NULL: nothing cached
    double *reciprocals        # (4, n_cells) missing cell left: left side, right side; missing cell right: the same

# Number of doubles of the work array of search_term, and of the two arrays of a cache.
cdef Py_ssize_t term_work_size(int n_cells, int n_outputs) noexcept nogil
cdef Py_ssize_t term_cache_size(int n_cells) noexcept nogil

# Fill the cache of a numeric main effect from its weights; memory holds term_cache_size doubles.
cdef void fill_term_cache(const term_t *term, const double *W, const term_options_t *options, double *memory,
                          term_cache_t *cache) noexcept nogil

# Best tree of at most max_leaves leaves, grown best first: u, of shape (n_outputs, n_cells), receives -G / (H + l2) of
# each cell's leaf, 0 where H is below the smallest normal double. Returns the gain, the sum over leaves and outputs of
# G^2 / (H + l2) less that of the whole; 0 and a constant u when no cut is legal and gains. A draw of key chooses
# between equal cuts. cache may be NULL.
cdef double search_term(const term_t *term, const sums_t *sums, const term_options_t *options,
                        const term_cache_t *cache, uint64_t key, double *work, double *u) noexcept nogil

# Draw max_leaves - 1 distinct boundaries between cells that may hold rows, or all there are; returns their number.
# Cut b lies above cell b; cuts ascend.
cdef int random_cuts(const term_t *term, int max_leaves, uint64_t key, int *cuts) noexcept nogil

# u of the parts between cuts from their sums, of shape (n_outputs, n_cuts + 1); no leaf minimum. One leaf over
# everything where the values break the term's monotone direction.
cdef void cut_term(const term_t *term, int n_cuts, const int *cuts, const double *G, const double *H,
                   const term_options_t *options, double *u) noexcept nogil

# -G / (H + l2), 0 where H is below the smallest normal double.
cdef double leaf_value(double G, double H, double l2) noexcept nogil
