from libc.stdint cimport int64_t

from skboost._engine.split cimport skb_best_t
from skboost._engine.types cimport node_t, tree_t

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
cdef double split_gain(const tree_t *s, int node) noexcept nogil
