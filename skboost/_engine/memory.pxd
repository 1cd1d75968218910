from libc.stdint cimport int64_t

from skboost._engine.types cimport tree_t

# All of these set tree.failed when memory runs out.
cdef int tree_reserve(tree_t *s) noexcept nogil
cdef void tree_release(tree_t *s) noexcept nogil
cdef void reserve_nodes(tree_t *s, int count) noexcept nogil
cdef void reserve_lists(tree_t *s, int count) noexcept nogil
cdef void reserve_private(tree_t *s, int count) noexcept nogil
cdef int64_t *take_slot(tree_t *s) noexcept nogil
cdef void give_slot(tree_t *s, int node) noexcept nogil
