from libc.stdint cimport uint32_t

from skboost._engine.types cimport level_t, tree_t

cdef bint prior_drawn(const tree_t *s, int index) noexcept nogil
cdef bint draw_test(const tree_t *s, int group_node, int index, level_t *test) noexcept nogil
cdef int spread_bin(tree_t *s, const int *nodes, int n_nodes, int feature, int bin, int index) noexcept nogil
cdef bint weighs_enough(tree_t *s, int node, const level_t *test) noexcept nogil
cdef void count_feature(tree_t *s, int node, int feature, uint32_t *counts) noexcept nogil
