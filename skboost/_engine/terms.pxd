# Search of main effects: the best tree on a line of cells, and random cuts of it.

from libc.stdint cimport uint64_t

from skboost._engine.lines cimport term_cache_t, term_options_t
from skboost._engine.stage cimport sums_t, term_t

# Number of doubles of the work array of search_term.
cdef Py_ssize_t term_work_size(int n_cells, int n_outputs) noexcept nogil

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
