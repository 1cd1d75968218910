# Sums over cells that follow the model by multiples of rows of cross-tables, applied to a feature when it is visited.
#
# An update goes into a queue; the cells of a feature take all updates they missed in one pass. The order of additions
# to a cell is that of the updates, so lateness shows in no bit.

from libc.stdint cimport int64_t

from skboost._engine.crosstab cimport CrossTab, skb_crosstab

cdef enum:
    QUEUE = 16      # updates that may wait

ctypedef struct followed_t:
    const skb_crosstab *table
    double unit
    double *sums                # (n_outputs, n_cells)
    char *slots                 # (QUEUE, row_bytes), for rows between anchors; NULL when there are none
    const char *row[QUEUE]      # of the waiting updates

ctypedef struct table_sums_t:
    int n_features
    int n_outputs
    int n_tables
    bint skip_own               # an update of feature k leaves the cells of k alone
    int64_t n_cells             # padded, as all tables count them
    followed_t table[2]
    int64_t n_updates           # so far; update i waits at i % QUEUE
    int64_t *n_done             # of every feature
    int feature[QUEUE]
    double *coef                # (n_outputs, QUEUE)

# Zeroed sums over the cells of one or two tables of equal cells, which are built; the caller keeps them alive.
cdef int table_sums_reserve(table_sums_t *s, CrossTab first, CrossTab second, int n_outputs, bint skip_own) except -1
cdef void table_sums_release(table_sums_t *s) noexcept nogil

# Add coef[output] times the prefix row after `cell` of `feature` to the sums of every table.
cdef void table_sums_add(table_sums_t *s, int feature, int cell, const double *coef) noexcept nogil

# Bring the cells of one feature or of all up to date; forget all updates and set the sums to 0.
cdef void table_sums_catch_up(table_sums_t *s, int feature) noexcept nogil
cdef void table_sums_catch_up_all(table_sums_t *s) noexcept nogil
cdef void table_sums_clear(table_sums_t *s) noexcept nogil

# Sum in lanes that do not depend on the instruction set.
cdef double sum_of_cells(Py_ssize_t n, const double *x) noexcept nogil

# Cells b with u[b] != u[b + 1], ascending; out has room for n. Returns how many.
cdef int changes_of_step(int n, const double *u, int *out) noexcept nogil
