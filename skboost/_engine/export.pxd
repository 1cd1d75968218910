from skboost._engine.types cimport step_t, tree_t

cdef dict export_tree(const tree_t *s, const step_t *p)
