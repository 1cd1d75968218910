"""Leaves that take a quantile of their residuals.

Trees for absolute errors and quantiles grow on the signs of residuals; a gradient step of signs would have the right
direction but no length.
"""

from libc.stdint cimport uint32_t

import numpy as np

from skboost._engine.types cimport node_t, step_t, tree_t

cdef extern from *:
    """
    #include <stddef.h>
    #include "select.h"
    """
    double skb_weighted_quantile(double *, uint32_t *, Py_ssize_t, double) noexcept nogil


cdef void renew_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    """Quantiles of the residuals y - f of all outputs, thread t for leaves t, t + n_threads, ..."""
    cdef size_t T = s.n_threads, segment, at, j
    cdef const uint32_t *idx
    cdef double *x
    cdef uint32_t *w
    cdef Py_ssize_t m
    cdef int i = t, k, u
    while i < p.n_leaves:
        x, w = p.residuals + p.leaf_start[i], p.residual_units + p.leaf_start[i]
        for k in range(p.n_outputs):
            m = 0
            for u in range(s.n_threads):
                segment = <size_t>p.leaves[i] * T + u
                idx = s.index + s.seg_start[segment]
                for j in range(s.seg_size[segment]):
                    at = idx[j]
                    x[m] = -((p.base[k] - p.y[at]) + p.score[k * s.n_rows + at])
                    w[m] = 1 if p.own_units == NULL else p.own_units[at]
                    m += 1
            p.renewed[<size_t>i * p.n_outputs + k] = skb_weighted_quantile(x, w, m, p.levels[k]) if m else 0.0
        i += s.n_threads


cdef void renewed_bounds(tree_t *s, step_t *p) noexcept nogil:
    """Let a constrained split divide the values at the middle between the mean values of its two sides.

    The steps of leaves are their quantiles shrunk by the penalty. Nodes come after their parents, so sums go up in one
    pass, and bounds down in another. p.node_sums has two entries per node.
    """
    cdef node_t *node
    cdef double *sums = p.node_sums
    cdef double middle, W
    cdef int i, j, w
    for i in range(2 * s.n_nodes):
        sums[i] = 0.0
    for i in range(p.n_leaves):
        W = p.leaf_weight[i]
        if W > 0.0:
            sums[2 * p.leaves[i]] = W * (p.gradient_scale * p.renewed[i] * W / (W + p.lambda_))
            sums[2 * p.leaves[i] + 1] = W
    for i in range(s.n_nodes - 1, -1, -1):
        node = &s.nodes[i]
        if node.dead or node.left < 0:
            continue
        for j in range(2):
            sums[2 * i + j] = sums[2 * node.left + j] + sums[2 * node.right + j]
    for i in range(s.n_nodes):
        node = &s.nodes[i]
        if i == 0:
            node.bounds[0], node.bounds[1] = -1e300, 1e300
        if node.dead or node.left < 0:
            continue
        for w in range(2):
            s.nodes[node.left].bounds[w] = s.nodes[node.right].bounds[w] = node.bounds[w]
        if s.monotone[node.feature]:
            middle = 0.5 * (mean_value(sums, node, node.left) + mean_value(sums, node, node.right))
            w = s.monotone[node.feature] > 0
            s.nodes[node.left].bounds[w] = s.nodes[node.right].bounds[1 - w] = middle


cdef double mean_value(const double *sums, const node_t *parent, int child) noexcept nogil:
    """Mean value of the leaves below a child within the bounds of its parent; 0 without rows."""
    cdef double value = sums[2 * child] / sums[2 * child + 1] if sums[2 * child + 1] > 0.0 else 0.0
    return max(parent.bounds[0], min(parent.bounds[1], value))


def weighted_quantile(values, units, double level):
    """Return the averaged inverted distribution function of values with whole-number weights (None: ones)."""
    cdef double[::1] x = np.array(values, dtype=np.float64)
    cdef uint32_t[::1] w = np.ones(x.shape[0], dtype=np.uint32) if units is None else np.array(units, dtype=np.uint32)
    if w.shape[0] != x.shape[0]:
        raise ValueError(f"{x.shape[0]} values but {w.shape[0]} weights")
    if not (x.shape[0] and 0 < level < 1 and np.any(w)):
        raise ValueError("a quantile needs a level in (0, 1) and some weight")
    return skb_weighted_quantile(&x[0], &w[0], x.shape[0], level)
