from skboost._engine.types cimport step_t, tree_t

# Quantiles of the residuals of every leaf; threads take leaves in turn.
cdef void renew_pass(tree_t *s, step_t *p, int t) noexcept nogil

# Bounds of the nodes' values from renewed leaves, instead of those from gradients, for monotone constraints.
cdef void renewed_bounds(tree_t *s, step_t *p) noexcept nogil
