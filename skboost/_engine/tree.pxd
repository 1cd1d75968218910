from libc.stdint cimport int64_t

from skboost._engine.split cimport skb_best_t
from skboost._engine.types cimport node_t, tree_t


cdef inline bint feature_allowed(const tree_t *s, int node, int feature) noexcept nogil:
    """True when some interaction group that holds all features above this node also holds `feature`."""
    cdef int group
    if s.n_groups == 0:
        return True
    for group in range(s.n_groups):
        if s.node_groups[<size_t>node * s.n_groups + group] and s.groups[<size_t>group * s.n_features + feature]:
            return True
    return False


cdef void start_root(tree_t *s) noexcept nogil
cdef void plan_children(tree_t *s) noexcept nogil
cdef void decide(tree_t *s) noexcept nogil
cdef void decide_recounted(tree_t *s) noexcept nogil
cdef void restrict_groups(tree_t *s, int parent, int child, int feature) noexcept nogil
cdef int best_feature(tree_t *s, const skb_best_t *best) noexcept nogil
cdef void release_unscanned(tree_t *s) noexcept nogil
cdef void open_node(tree_t *s, int node) noexcept nogil
cdef bint breaks_order(const tree_t *s, const node_t *p, int feature, const int64_t *left,
                       const int64_t *right) noexcept nogil
