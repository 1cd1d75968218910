from skboost._engine.types cimport tree_t

cdef int tree_reserve(tree_t *s) noexcept nogil
cdef void tree_release(tree_t *s) noexcept nogil
cdef void start_root(tree_t *s) noexcept nogil
cdef void plan_children(tree_t *s) noexcept nogil
cdef void decide(tree_t *s) noexcept nogil
cdef void decide_recounted(tree_t *s) noexcept nogil
cdef bint feature_allowed(const tree_t *s, int node, int feature) noexcept nogil
