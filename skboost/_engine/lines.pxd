# Lines: the cells of a main effect in the order in which a tree cuts them.
#
# A numeric term is the line of its value cells, a nominal one that of its heavier levels sorted by G / H. The missing
# cell of a numeric term and the pooled light levels of a nominal one are apart: the block, which joins one side of each
# cut. A leaf of a tree is a part of the line with or without the block.

from libc.float cimport DBL_MIN
from libc.stdint cimport uint64_t

from skboost._engine.stage cimport sums_t, term_t

cdef enum:
    MISSING_SEPARATE = 0    # a leaf of its own, without leaf minimum
    MISSING_GAIN = 1        # on the side that gains most
    MISSING_LOW = 2         # first cell of the line
    MISSING_HIGH = 3        # last cell of the line

cdef enum:
    LEFT = 0
    RIGHT = 1

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

ctypedef struct leaf_t:
    int start          # cells start..end-1 of the line
    int end
    int block          # whether the block belongs to it
    int cut            # best cut: cells start..cut-1 go left
    int block_side     # where the block goes then
    double gain        # 0: no legal cut gains
    double value       # of output 0

ctypedef struct line_t:
    const term_t *term
    const sums_t *sums
    const term_options_t *options
    uint64_t key       # of the draws
    int length
    int *order         # cell at every place of a nominal line
    # sums below each cut, of shape (n_outputs, stride); W has no outputs
    int stride
    double *G
    double *H
    const double *W
    int has_block
    double *block_G    # (n_outputs,)
    double *block_H
    double block_W
    int side_allowed[2]          # sides of a cut that the block may join
    int alone[2]                 # whether the block alone may be that side
    const double *reciprocals    # or NULL: of the cache
    double *scores[2]            # of the cuts, with the block on either side

# Doubles of the memory of a line, and of a cache.
cdef Py_ssize_t line_size(int n_cells, int n_outputs) noexcept nogil
cdef Py_ssize_t term_cache_size(int n_cells) noexcept nogil

# Fill the cache of a numeric main effect from its weights; memory holds term_cache_size doubles.
cdef void fill_term_cache(const term_t *term, const double *W, const term_options_t *options, double *memory,
                          term_cache_t *cache) noexcept nogil

# Lay out the line of a term; memory holds line_size doubles. cache may be NULL.
cdef void lay_line(line_t *line, const term_t *term, const sums_t *sums, const term_options_t *options,
                   const term_cache_t *cache, uint64_t key, double *memory) noexcept nogil

# Scores of the cuts first..first+n-1 of a leaf, its block if any on one side: the sum over sides and outputs of
# G^2 / (H + l2), below 0 where a cut is illegal. The values of a monotone term lie between lower and upper. Returns the
# largest score.
cdef double score_cuts(const line_t *line, const leaf_t *leaf, int side, int first, int n, double lower, double upper,
                       double *score) noexcept nogil

# The same sum of one leaf, and its values; those of leaf_value_of are summed cell by cell, so that small sums beside
# large ones keep their digits.
cdef double leaf_score_of(const line_t *line, const leaf_t *leaf) noexcept nogil
cdef double bound_value_of(const line_t *line, const leaf_t *leaf) noexcept nogil
cdef double leaf_value_of(const line_t *line, const leaf_t *leaf, int k) noexcept nogil


# -G / (H + l2) and G^2 / (H + l2), 0 where H is below the smallest normal double.
cdef inline double leaf_value(double G, double H, double l2) noexcept nogil:
    return -(G / (H + l2)) if H >= DBL_MIN else 0.0


cdef inline double leaf_score(double G, double H, double l2) noexcept nogil:
    return G * G / (H + l2) if H >= DBL_MIN else 0.0
