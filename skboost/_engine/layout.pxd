# Forests and rows as pointers, for the kernels of prediction.
from libc.stdint cimport int32_t, int64_t, uint8_t

from skboost._engine.binning cimport feature_bins_t


# Pointers into the arrays of a layout.
cdef struct plan_t:
    bint symmetric
    int n_outputs
    Py_ssize_t n_trees, n_columns, n_slots
    const int64_t *node_offset     # general: nodes, symmetric: levels
    const int64_t *leaf_offset     # into leaf_index
    const int64_t *value_offset    # into values, times n_outputs
    const int32_t *walk            # general: skb_walk_node_t
    const int32_t *masks           # general: skb_mask_node_t
    const int32_t *levels          # symmetric: skb_level_t
    const int32_t *leaf_index      # leaf of a position (general) or of a pattern of bits (symmetric)
    const double *values           # (n_outputs, entries) for each tree
    const double *empty            # 1 where a value belongs to a leaf without training rows, or NULL: to none
    const uint8_t *has_empty       # trees with such a leaf
    const uint8_t *sets


# Rows as numbers or as codes; column j of the plan is feature columns[j].
cdef struct source_t:
    Py_ssize_t n_rows
    const int32_t *columns
    bint has_codes, is_float32
    const char *x
    Py_ssize_t row_stride, feature_stride
    const feature_bins_t *tables
    const uint8_t *codes
    Py_ssize_t code_stride


# Fill plan from a layout, a dict of arrays that must outlive it. Its indices are not looked at.
cdef int open_plan(dict layout, plan_t *plan) except -1

# Fill source with the rows x, which must outlive it: codes when bins is None, else numbers with the arrays of a
# BinMapper. The returned object owns the search tables and must live as long as they are read. Raises ValueError where
# the rows, the mapper and the plan do not go together.
cdef object open_source(object x, object bins, object columns, const plan_t *plan, source_t *source)
