"""What the kernels of prediction read: forests laid out for them, rows, and the tables that turn rows into codes."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from skboost._engine.binning cimport feature_bins_t, fill_tables

cdef extern from "forest_layout.h":
    ctypedef struct skb_visit_t:
        pass
    int skb_lay_out_tree(
        Py_ssize_t n_nodes, const int32_t *column, const int32_t *test, const int32_t *left, const int32_t *right,
        skb_visit_t *stack, uint8_t *seen, void *walk, void *masks, int32_t *leaf_index) noexcept nogil


cdef const int32_t *ints(const int32_t[::1] a) noexcept:
    return &a[0] if a.shape[0] else NULL


cdef const int64_t *longs(const int64_t[::1] a) noexcept:
    return &a[0] if a.shape[0] else NULL


cdef const double *doubles(const double[::1] a) noexcept:
    return &a[0] if a.shape[0] else NULL


cdef const uint8_t *bytes_of(const uint8_t[::1] a) noexcept:
    return &a[0] if a.shape[0] else NULL


cdef int open_plan(dict layout, plan_t *plan) except -1:
    plan.symmetric = layout["symmetric"]
    plan.n_outputs = layout["n_outputs"]
    plan.n_slots = layout["n_slots"]
    plan.n_columns = len(layout["features"])
    plan.n_trees = len(layout["node_offset"]) - 1
    plan.node_offset = longs(layout["node_offset"])
    plan.leaf_offset = longs(layout["leaf_offset"])
    plan.value_offset = longs(layout["value_offset"])
    plan.leaf_index = ints(layout["leaf_index"])
    plan.values = doubles(layout["values"])
    plan.sets = bytes_of(layout["sets"])
    plan.empty, plan.has_empty = NULL, NULL
    if layout["empty"] is not None:
        plan.empty, plan.has_empty = doubles(layout["empty"]), bytes_of(layout["has_empty"])
    plan.levels = plan.walk = plan.masks = NULL
    if plan.symmetric:
        plan.levels = ints(layout["levels"])
    else:
        plan.walk = ints(layout["walk"])
        plan.masks = ints(layout["masks"])
    return 0


cdef int open_codes(const uint8_t[:, :] codes, source_t *source) except -1:
    if codes.shape[1] > 1 and codes.strides[1] != 1:
        raise ValueError("The codes of a feature must lie side by side.")
    source.n_rows, source.code_stride = codes.shape[1], codes.strides[0]
    if codes.shape[0] and codes.shape[1]:
        source.codes = &codes[0, 0]
    return 0


cdef int open_numbers(object x, source_t *source) except -1:
    cdef const double[:, :] wide
    cdef const float[:, :] narrow
    source.is_float32 = x.dtype.itemsize == 4
    if source.is_float32:
        narrow = x
        source.n_rows, source.row_stride, source.feature_stride = narrow.shape[0], narrow.strides[0], narrow.strides[1]
        if narrow.shape[0] and narrow.shape[1]:
            source.x = <const char *> &narrow[0, 0]
    else:
        wide = x
        source.n_rows, source.row_stride, source.feature_stride = wide.shape[0], wide.strides[0], wide.strides[1]
        if wide.shape[0] and wide.shape[1]:
            source.x = <const char *> &wide[0, 0]
    return 0


cdef bytearray open_tables(tuple bins, const int32_t[::1] columns, Py_ssize_t n_features):
    """Search tables of the used columns only; the array of structs lives in the bytearray."""
    cdef const double[:, ::1] cuts = bins[0]
    cdef const int32_t[::1] n_bins = bins[1]
    cdef const uint8_t[::1] is_categorical = bins[2]
    cdef const int64_t[::1] level_offset = bins[3]
    cdef const double *levels = doubles(bins[4])
    cdef const uint8_t *level_codes = bytes_of(bins[5])
    cdef Py_ssize_t j, f, n_levels = min(len(bins[4]), len(bins[5]))
    cdef bytearray owner = bytearray(columns.shape[0] * sizeof(feature_bins_t))
    cdef feature_bins_t *tables = <feature_bins_t *> <char *> owner
    cdef Py_ssize_t known = cuts.shape[0]
    if cuts.shape[1] != 256 or not known == n_bins.shape[0] == is_categorical.shape[0] == level_offset.shape[0] - 1:
        raise ValueError("The tables of the features have the wrong shape.")
    if known < n_features:
        raise ValueError(f"The forest uses feature {n_features - 1}, the bin mapper has {known} features.")
    for j in range(columns.shape[0]):
        f = columns[j]
        if not is_categorical[f] and not 2 <= n_bins[f] <= 256:
            raise ValueError("The cuts of the features have the wrong number.")
        if not 0 <= level_offset[f] <= level_offset[f + 1] <= n_levels:
            raise ValueError("The levels of the features have the wrong offsets.")
        fill_tables(tables + j, 1, &cuts[f, 0], &n_bins[f], &is_categorical[f], &level_offset[f], levels, level_codes)
    return owner


cdef object open_source(object x, object bins, object columns, const plan_t *plan, source_t *source):
    """Fill source; the returned object owns the tables and must live as long as they are read."""
    cdef const int32_t[::1] used = columns
    cdef Py_ssize_t j, n_features = 0, n_given = x.shape[0 if bins is None else 1]
    cdef bytearray tables = None
    if used.shape[0] != plan.n_columns:
        raise ValueError(f"columns needs {plan.n_columns} entries.")
    for j in range(used.shape[0]):
        n_features = max(n_features, used[j] + 1)
        if used[j] < 0 or used[j] >= n_given:
            raise ValueError(f"The forest uses feature {used[j]}, the rows have {n_given} features.")
    memset(source, 0, sizeof(source_t))
    source.columns = ints(used)
    source.has_codes = bins is None
    if source.has_codes:
        open_codes(x, source)
    else:
        open_numbers(x, source)
        tables = open_tables(bins, used, n_features)
        source.tables = <const feature_bins_t *> <char *> tables
    return tables


def lay_out_trees(const int64_t[::1] node_offset, const int64_t[::1] leaf_offset, nodes, int32_t[:, ::1] walk,
                  int32_t[:, ::1] masks, int32_t[::1] leaf_index):
    """Number the nodes of general trees in preorder and their leaves from left to right.

    Parameters
    ----------
    node_offset, leaf_offset : int64 arrays of shape (n_trees + 1,)
        Ranges of each tree; every tree has one leaf more than nodes.
    nodes : tuple of int32 arrays
        Column, test, left and right of all nodes. A child >= 0 is a node of the tree, a child < 0 its leaf ``~child``.
    walk, masks : int32 arrays of shape (n_nodes, 4)
        OUT: nodes in preorder; column, test and children (walk) or slot and first leaf of the right subtree (masks).
    leaf_index : int32 array
        OUT: leaf of each position.

    Returns
    -------
    int
        Number of slots that the trees with at most 256 leaves need.

    Raises
    ------
    ValueError
        If a tree is not a binary tree that holds each of its nodes and leaves exactly once.
    """
    cdef const int32_t *column = ints(nodes[0])
    cdef const int32_t *test = ints(nodes[1])
    cdef const int32_t *left = ints(nodes[2])
    cdef const int32_t *right = ints(nodes[3])
    cdef int32_t *walk_out = &walk[0, 0] if walk.shape[0] else NULL
    cdef int32_t *masks_out = &masks[0, 0] if walk.shape[0] else NULL
    cdef Py_ssize_t t, first, largest = 0
    for t in range(node_offset.shape[0] - 1):
        largest = max(largest, node_offset[t + 1] - node_offset[t])
    cdef bytearray stack = bytearray((largest + 2) * sizeof(skb_visit_t)), seen = bytearray(2 * largest + 1)
    cdef int slots, n_slots = 2
    for t in range(node_offset.shape[0] - 1):
        first = node_offset[t]
        slots = skb_lay_out_tree(
            node_offset[t + 1] - first, column + first, test + first, left + first, right + first,
            <skb_visit_t *> <char *> stack, <uint8_t *> <char *> seen, <void *> (walk_out + 4 * first),
            <void *> (masks_out + 4 * first), &leaf_index[leaf_offset[t]])
        if slots < 0:
            raise ValueError(f"Tree {t} does not hold each of its nodes and leaves exactly once.")
        n_slots = max(n_slots, slots)
    return n_slots
