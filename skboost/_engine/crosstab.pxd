# Cross-table of the cells of all features by prefix rows: src/crosstab.h.

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t

cdef extern from "crosstab.h" nogil:
    enum:
        SKB_CELL_PAD
        SKB_WIDE_MAX    # wide cells of a feature
    ctypedef struct skb_boundary:
        uint32_t anchor
        uint32_t begin
        int32_t count
    ctypedef struct skb_crosstab:
        int n_features
        int64_t n_rows
        int64_t n_cells             # padded
        int64_t row_bytes
        int64_t n_anchors
        int *size
        int *width
        int64_t *first_cell
        int64_t *first_byte
        int *first_wide
        uint16_t *wide_cell
        uint16_t *codes
        double *times
        uint32_t **order
        skb_boundary *boundary
        char *rows
    # Weight of one of the wide cells of a feature, first_wide[k]..first_wide[k + 1] - 1, whose entries do not hold it.
    double skb_crosstab_wide(const skb_crosstab *t, const char *row, int feature, int wide) noexcept
    # The row of the prefix that ends after a cell; fills `slot`, of row_bytes, where the table has no such row.
    const char *skb_crosstab_row(const skb_crosstab *t, int feature, int cell, char *slot) noexcept

# Read-only once `build` has returned, so that threads may share it. n_cells, the sizes, widths and places in `c` are
# known before.
cdef class CrossTab:
    cdef skb_crosstab c
    cdef const uint16_t[:, ::1] cells
    cdef const double[::1] weight        # of every row of cells
    cdef readonly object n_cells         # int64 array (n_features,)
    cdef readonly double unit            # weights are whole multiples of it
    cdef readonly object spacing         # most rows between anchors
    cdef readonly bint complete          # every boundary is an anchor
    cdef tuple pending                   # arguments of count, None once that is done
    cdef object lock

    cdef double[::1] weigh(self, int k, const int64_t[::1] kept, const double[::1] weight)
    cdef int lay_out(self, const int64_t[::1] kept, const double[::1] times) except -1
    cdef int count(self, const int64_t[::1] kept, const double[::1] times, max_bytes, int n_threads) except -1
    cdef int64_t place(self, const int64_t[:, ::1] ends, skb_boundary *boundary, int64_t *between) except -1
