from skboost._engine.types cimport step_t, tree_t

cdef void worker(tree_t *s, step_t *p, int t) noexcept nogil
