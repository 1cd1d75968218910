from skboost._engine.types cimport step_t, tree_t

cdef void gradient_pass(tree_t *s, step_t *p, int t) noexcept nogil
cdef void choose_coarse(tree_t *s, step_t *p) noexcept nogil
cdef void sum_pass(tree_t *s, step_t *p, int t) noexcept nogil
cdef void choose_units(tree_t *s, step_t *p) noexcept nogil
cdef void pack_pass(tree_t *s, step_t *p, int t) noexcept nogil
cdef void list_leaves(tree_t *s, step_t *p) noexcept nogil
cdef void leaf_pass(tree_t *s, step_t *p, int t) noexcept nogil
cdef void leaf_values(tree_t *s, step_t *p) noexcept nogil
cdef void update_pass(tree_t *s, step_t *p, int t) noexcept nogil
