"""A grown tree as NumPy arrays."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from skboost._engine.types cimport POLICY_SYMMETRIC, level_t, node_t, step_t, tree_t


cdef dict export_tree(const tree_t *s, const step_t *p):
    """Return the finished tree as the arrays that a forest collects; with coins, coin_value is the fit of these."""
    cdef int k = p.n_outputs
    value = np.empty((p.n_leaves, k))
    weight = np.empty(p.n_leaves)
    cdef double[:, ::1] value_view = value
    cdef double[::1] weight_view = weight
    cdef int i, j
    for i in range(p.n_leaves):
        weight_view[i] = p.leaf_weight[i]
        for j in range(k):
            value_view[i, j] = p.leaf_value[i * k + j]
    tree = export_levels(s) if s.policy == POLICY_SYMMETRIC else export_nodes(s)
    tree["leaf_value"] = value
    if p.coin != NULL:
        tree["leaf_value"] = np.ascontiguousarray(value[:, :p.loss.n_outputs])
        tree["coin_value"] = value[:, p.loss.n_outputs].copy()
    tree["leaf_weight"] = weight
    return tree


cdef int[::1] numbering(const tree_t *s):
    """Number of every node among the leaves (as ~number) or among the inner nodes."""
    cdef int[::1] number = np.zeros(s.n_nodes, dtype=np.intc)
    cdef int inner = 0
    cdef int leaf = 0
    cdef int i
    for i in range(s.n_nodes):
        if s.nodes[i].dead:
            continue
        if s.nodes[i].left < 0:
            number[i] = ~leaf
            leaf += 1
        else:
            number[i] = inner
            inner += 1
    return number


cdef dict export_nodes(const tree_t *s):
    cdef int[::1] number = numbering(s)
    cdef int m = s.n_leaves - 1
    cdef int i
    cdef int at = 0
    cdef const node_t *q
    cdef level_t *tests = <level_t *>malloc(max(m, 1) * sizeof(level_t))
    if tests == NULL:
        raise MemoryError
    left, right = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    cdef int32_t[::1] left_view = left
    cdef int32_t[::1] right_view = right
    for i in range(s.n_nodes):
        q = &s.nodes[i]
        if q.left < 0:
            continue
        tests[at].feature, tests[at].bin = q.feature, q.bin
        tests[at].gain = q.prior_gain if q.prior else q.gain
        tests[at].missing_right, tests[at].categorical = q.missing_right, q.categorical
        memcpy(tests[at].left_set, q.left_set, 32)
        left_view[at], right_view[at] = number[q.left], number[q.right]
        at += 1
    try:
        return {**export_tests(tests, m), "left": left, "right": right}
    finally:
        free(tests)


cdef dict export_levels(const tree_t *s):
    cdef int[::1] number = numbering(s)
    cdef int depth = s.n_levels
    cdef int i, node
    cdef int64_t code
    table = np.empty(1 << depth, dtype=np.int32)
    cdef int32_t[::1] table_view = table
    for code in range(1 << depth):
        node = 0
        for i in range(depth):
            if s.nodes[node].level == i:
                node = s.nodes[node].right if (code >> i) & 1 else s.nodes[node].left
        table_view[code] = ~number[node]
    return {**export_tests(s.levels, depth), "table": table}


cdef dict export_tests(const level_t *tests, int m):
    """Arrays of m tests; those of categories have a row in cat_sets."""
    cdef int i, b
    cdef int n_sets = 0
    tree = {
        "feature": np.empty(m, dtype=np.int32),
        "threshold": np.empty(m, dtype=np.uint8),
        "missing_right": np.empty(m, dtype=np.uint8),
        "cat_set": np.empty(m, dtype=np.int32),
        "gain": np.empty(m),
    }
    sets = np.empty((m, 32), dtype=np.uint8)
    cdef int32_t[::1] feature = tree["feature"]
    cdef uint8_t[::1] threshold = tree["threshold"]
    cdef uint8_t[::1] missing_right = tree["missing_right"]
    cdef int32_t[::1] cat_set = tree["cat_set"]
    cdef double[::1] gain = tree["gain"]
    cdef uint8_t[:, ::1] sets_view = sets
    for i in range(m):
        feature[i], gain[i] = tests[i].feature, tests[i].gain
        threshold[i] = 0 if tests[i].categorical else <uint8_t>tests[i].bin
        missing_right[i] = 0 if tests[i].categorical else tests[i].missing_right != 0
        cat_set[i] = n_sets if tests[i].categorical else -1
        if tests[i].categorical:
            for b in range(32):
                sets_view[n_sets, b] = tests[i].left_set[b]
            n_sets += 1
    tree["cat_sets"] = sets[:n_sets]
    return tree
