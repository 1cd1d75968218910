from skboost._engine.types cimport tree_t

cdef void decide_level(tree_t *s, bint counted) noexcept nogil
