"""Memory of a growing tree: node table, work lists, histogram slots."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc

from skboost._engine.split cimport candidates_t, skb_best_t
from skboost._engine.types cimport POLICY_SYMMETRIC, item_t, level_t, node_t, tree_t


cdef void *grown(void *old, size_t count, size_t size, tree_t *s) noexcept nogil:
    cdef void *new = realloc(old, count * size)
    if new == NULL:
        s.failed = 1
        return old
    return new


cdef void reserve_nodes(tree_t *s, int count) noexcept nogil:
    cdef int words = s.scan.n_words
    cdef int n = s.node_capacity
    if count <= n:
        return
    n = 2 * count + 64
    s.nodes = <node_t *>grown(s.nodes, n, sizeof(node_t), s)
    s.totals = <int64_t *>grown(s.totals, <size_t>n * words, sizeof(int64_t), s)
    s.left_totals = <int64_t *>grown(s.left_totals, <size_t>n * words, sizeof(int64_t), s)
    s.seg_start = <size_t *>grown(s.seg_start, <size_t>n * s.max_threads, sizeof(size_t), s)
    s.seg_size = <size_t *>grown(s.seg_size, <size_t>n * s.max_threads, sizeof(size_t), s)
    if s.n_groups:
        s.node_groups = <uint8_t *>grown(s.node_groups, <size_t>n * s.n_groups, 1, s)
    if not s.failed:
        s.node_capacity = n


cdef void reserve_lists(tree_t *s, int count) noexcept nogil:
    """Room for `count` entries in every work list."""
    cdef int n
    if count <= s.list_capacity:
        return
    n = 2 * count + 64
    s.batch = <int *>grown(s.batch, n, sizeof(int), s)
    s.items = <item_t *>grown(s.items, n, sizeof(item_t), s)
    s.scans = <int *>grown(s.scans, n, sizeof(int), s)
    s.recount = <int *>grown(s.recount, n, sizeof(int), s)
    s.current = <int *>grown(s.current, n, sizeof(int), s)
    s.waiting = <int *>grown(s.waiting, n, sizeof(int), s)
    s.left_rows = <size_t *>grown(s.left_rows, <size_t>n * s.max_threads, sizeof(size_t), s)
    s.left_weight = <uint64_t *>grown(s.left_weight, <size_t>n * s.max_threads, sizeof(uint64_t), s)
    if not s.failed:
        s.list_capacity = n


cdef void reserve_private(tree_t *s, int count) noexcept nogil:
    cdef int i
    cdef int n = count * (s.n_threads - 1)
    if n <= s.private_capacity:
        return
    s.private_slots = <int64_t **>grown(s.private_slots, n, sizeof(int64_t *), s)
    if s.failed:
        return
    for i in range(s.private_capacity, n):
        s.private_slots[i] = <int64_t *>malloc(s.slot_words * sizeof(int64_t))
        if s.private_slots[i] == NULL:
            s.failed = 1
            return
        s.private_capacity = i + 1


cdef int64_t *take_slot(tree_t *s) noexcept nogil:
    cdef int64_t *slot
    if s.n_free:
        s.n_free -= 1
        return s.free_slots[s.n_free]
    if s.n_slots == s.slot_capacity:
        s.slots = <int64_t **>grown(s.slots, 2 * s.slot_capacity + 16, sizeof(int64_t *), s)
        s.free_slots = <int64_t **>grown(s.free_slots, 2 * s.slot_capacity + 16, sizeof(int64_t *), s)
        if s.failed:
            return NULL
        s.slot_capacity = 2 * s.slot_capacity + 16
    slot = <int64_t *>malloc(s.slot_words * sizeof(int64_t))
    if slot == NULL:
        s.failed = 1
        return NULL
    s.slots[s.n_slots] = slot
    s.n_slots += 1
    return slot


cdef void give_slot(tree_t *s, int node) noexcept nogil:
    if s.nodes[node].hist != NULL:
        s.free_slots[s.n_free] = s.nodes[node].hist
        s.n_free += 1
        s.nodes[node].hist = NULL


cdef int tree_reserve(tree_t *s) noexcept nogil:
    """Allocate what does not depend on the tree; return 0, or -1 when memory ran out."""
    reserve_nodes(s, 64)
    reserve_lists(s, 2 * s.batch_limit)
    s.count_scratch = NULL
    if not s.scan.direct:
        s.count_scratch = <uint32_t *>malloc(s.max_threads * s.n_features * s.stride * sizeof(uint32_t))
        s.failed |= s.count_scratch == NULL
    if s.policy == POLICY_SYMMETRIC:
        s.level_scores = <candidates_t *>malloc(s.n_features * sizeof(candidates_t))
        s.orders = <uint8_t *>malloc(<size_t>s.n_features * 256)
        s.n_order = <int *>calloc(s.n_features, sizeof(int))
        s.has_missing = <uint8_t *>calloc(s.n_features, 1)
        s.levels = <level_t *>malloc((s.max_depth + 1) * sizeof(level_t))
        s.best = <skb_best_t *>malloc(s.n_features * sizeof(skb_best_t))
        s.failed |= (s.level_scores == NULL or s.orders == NULL or s.n_order == NULL or s.has_missing == NULL
                     or s.levels == NULL)
    else:
        s.best = <skb_best_t *>malloc(<size_t>2 * s.batch_limit * s.n_features * sizeof(skb_best_t))
    s.failed |= s.best == NULL
    return -1 if s.failed else 0


cdef void tree_release(tree_t *s) noexcept nogil:
    cdef int i
    for i in range(s.n_slots):
        free(s.slots[i])
    for i in range(s.private_capacity):
        free(s.private_slots[i])
    free(s.slots)
    free(s.free_slots)
    free(s.private_slots)
    free(s.nodes)
    free(s.totals)
    free(s.left_totals)
    free(s.seg_start)
    free(s.seg_size)
    free(s.node_groups)
    free(s.batch)
    free(s.items)
    free(s.scans)
    free(s.recount)
    free(s.current)
    free(s.waiting)
    free(s.left_rows)
    free(s.left_weight)
    free(s.count_scratch)
    free(s.level_scores)
    free(s.orders)
    free(s.n_order)
    free(s.has_missing)
    free(s.levels)
    free(s.best)
