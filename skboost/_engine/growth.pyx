"""Growth of one tree: what every thread does, phase by phase.

Thread t owns the rows [row_begin[t], row_begin[t + 1]): their gradients, noise, packed sums, index segments and
scores. Histograms of large nodes are built over own rows and merged, those of small nodes over own features; all
threads scan their own features. Between the phases the last thread at a barrier takes the serial decisions (tree.pyx,
levels.pyx).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from skboost._engine.histogram cimport (
    add_words,
    hist_columns,
    hist_listed,
    hist_rows,
    hist_weights,
    subtract_words,
)
from skboost._engine.langevin cimport skb_count_sum
from skboost._engine.levels cimport decide_level
from skboost._engine.partition cimport numeric_codes, partition_rows, set_codes
from skboost._engine.renewal cimport renew_pass
from skboost._engine.rows cimport (
    choose_coarse,
    choose_units,
    gradient_pass,
    leaf_pass,
    leaf_values,
    list_leaves,
    pack_pass,
    sum_pass,
    update_pass,
)
from skboost._engine.split cimport (
    SKB_INVALID,
    add_gains,
    best_candidate,
    candidates_t,
    first_within_tie,
    prove_numeric,
    scan_numeric,
    skb_best_t,
    skb_category_order,
    skb_scan_categories,
)
from skboost._engine.prior cimport count_feature
from skboost._engine.tree cimport decide, decide_recounted, plan_children, start_root
from skboost._engine.types cimport (
    POLICY_SYMMETRIC,
    SKB_SPIN_MAX,
    feature_allowed,
    item_t,
    node_t,
    skb_barrier_arrive,
    skb_barrier_release,
    step_t,
    tree_t,
)


cdef void prepare_root(tree_t *s, step_t *p) noexcept nogil:
    cdef node_t *root = &s.nodes[0]
    cdef int words = s.scan.n_words
    cdef int w, t
    memset(root, 0, sizeof(node_t))
    root.left = root.right = root.level = root.feature = -1
    root.bounds[0] = -1e300
    root.bounds[1] = 1e300
    root.n_rows = s.n_rows
    s.n_nodes = 1
    for w in range(words):
        s.totals[w] = 0
        for t in range(s.n_threads):
            s.totals[w] += p.root_sums[t * words + w]
    root.weight = p.root_weight if s.scan.direct == 0 else <uint64_t>(<uint32_t>(<uint64_t>s.totals[0]))
    for w in range(s.n_groups):
        s.node_groups[w] = 1
    for t in range(s.n_threads):
        s.seg_start[t] = s.row_begin[t]
        s.seg_size[t] = s.row_begin[t + 1] - s.row_begin[t]
    start_root(s)


cdef void partition_batch(tree_t *s, int t) noexcept nogil:
    """Split own segments of the batch nodes."""
    cdef int i, node
    cdef size_t left, start, size, before, after
    cdef uint8_t left_codes[256]
    cdef bint contiguous
    cdef node_t *p
    cdef size_t T = s.n_threads
    for i in range(s.n_batch):
        node = s.batch[i]
        p = &s.nodes[node]
        start = s.seg_start[node * T + t]
        size = s.seg_size[node * T + t]
        before = <size_t>p.feature * s.n_rows
        after = <size_t>(s.n_features - 1 - p.feature) * s.n_rows
        contiguous = node == 0 and s.n_levels <= 1     # a later level meets the root's rows in another order
        if p.categorical:
            set_codes(p.left_set, left_codes)
        else:
            numeric_codes(p.bin, p.missing_right != 0, left_codes)
        left = partition_rows(s.codes_col + before, before, after, contiguous, s.index + start, size,
                              left_codes, s.buffer + s.row_begin[t])
        s.seg_start[p.left * T + t] = start
        s.seg_size[p.left * T + t] = left
        s.seg_start[p.right * T + t] = start + left
        s.seg_size[p.right * T + t] = size - left
        s.left_rows[i * T + t] = left
        if s.count_weight != NULL and not s.scan.direct:
            s.left_weight[i * T + t] = skb_count_sum(s.index + start, left, s.count_weight)


cdef inline bint all_features(const tree_t *s) noexcept nogil:
    return s.n_listed == s.n_features


cdef void build_rows(tree_t *s, int t) noexcept nogil:
    """Histograms of large nodes over own rows: thread 0 in the node's slot, the others in private ones."""
    cdef int i, j
    cdef item_t *item
    cdef int64_t *hist
    cdef int words = s.scan.n_words
    cdef size_t node
    for i in range(s.n_items):
        item = &s.items[i]
        if not item.by_rows:
            continue
        hist = s.nodes[item.node].hist if t == 0 else s.private_slots[item.private * (s.n_threads - 1) + t - 1]
        for j in range(s.n_listed):
            memset(hist + <size_t>s.features[j] * s.stride * words, 0,
                   <size_t>s.n_bins[s.features[j]] * words * sizeof(int64_t))
        node = <size_t>item.node * s.n_threads + t
        if item.node == 0 and not all_features(s):
            hist_columns(s.codes_col, s.n_rows, s.row_begin[t], s.row_begin[t + 1], s.packed, words, s.features,
                         s.n_listed, s.stride, hist)
        elif all_features(s):
            hist_rows(s.codes_row, s.row_stride, s.index + s.seg_start[node], s.seg_size[node], s.packed, words, 0,
                      s.n_features, s.stride, hist)
        else:
            hist_listed(s.codes_row, s.row_stride, s.index + s.seg_start[node], s.seg_size[node], s.packed, words,
                        s.features, s.n_listed, s.stride, hist)


cdef void finish_item(tree_t *s, int position, int t, int j0, int j1) noexcept nogil:
    """Own features [j0, j1) of one histogram: merge or build, then subtract from the sibling."""
    cdef item_t *item = &s.items[position]
    cdef int words = s.scan.n_words
    cdef int64_t *hist = s.nodes[item.node].hist
    cdef size_t at, size, segment
    cdef int j, u
    if not item.by_rows:
        for j in range(j0, j1):
            memset(hist + <size_t>s.features[j] * s.stride * words, 0,
                   <size_t>s.n_bins[s.features[j]] * words * sizeof(int64_t))
        for u in range(s.n_threads):
            segment = <size_t>item.node * s.n_threads + u
            if all_features(s):
                hist_rows(s.codes_row, s.row_stride, s.index + s.seg_start[segment], s.seg_size[segment], s.packed,
                          words, j0, j1, s.stride, hist)
            else:
                hist_listed(s.codes_row, s.row_stride, s.index + s.seg_start[segment], s.seg_size[segment],
                            s.packed, words, s.features + j0, j1 - j0, s.stride, hist)
    for j in range(j0, j1):
        at = <size_t>s.features[j] * s.stride * words
        size = <size_t>s.n_bins[s.features[j]] * words
        if item.by_rows:
            for u in range(s.n_threads - 1):
                add_words(hist + at, s.private_slots[item.private * (s.n_threads - 1) + u] + at, size)
        if item.sibling >= 0:
            subtract_words(s.nodes[item.sibling].hist + at, hist + at, size)


cdef void scan_one(tree_t *s, int position, int feature, const uint32_t *counts) noexcept nogil:
    """Best split of one node on one feature (trees with a test per node)."""
    cdef int node = s.scans[position]
    cdef node_t *p = &s.nodes[node]
    cdef int words = s.scan.n_words
    cdef int n_bins = s.n_bins[feature]
    cdef const int64_t *hist = p.hist + <size_t>feature * s.stride * words
    cdef const int64_t *total = s.totals + <size_t>node * words
    cdef skb_best_t *best = s.best + <size_t>position * s.n_features + feature
    cdef candidates_t found
    cdef uint8_t order[256]
    cdef bint missing = False
    cdef int w
    if not feature_allowed(s, node, feature):
        best.score = SKB_INVALID
        return
    if s.is_categorical[feature]:
        found.n_left = 0
        found.n_right = skb_category_order(&s.scan, hist, n_bins, order)
        skb_scan_categories(&s.scan, hist, counts, n_bins, order, found.n_right, total, p.bounds, found.right,
                            found.certain)
    else:
        for w in range(words):
            missing |= hist[w] != 0
        scan_numeric(&s.scan, hist, counts, n_bins, total, missing, s.monotone[feature] if s.scan.bounded else 0,
                     p.bounds, &found)
    best[0] = best_candidate(&s.scan, hist, counts, n_bins, total, s.is_categorical[feature], &found)


cdef void scan_level(tree_t *s, int feature, uint32_t *counts) noexcept nogil:
    """Sum the gains of all nodes of the level for every candidate of one feature, then take the best.

    With room for a weight histogram in counts, candidates that are too light for a node do not count there. Without it
    gains are upper bounds where the leaf minimum is not proven: no loss there, as the node may stay whole.
    """
    cdef int words = s.scan.n_words
    cdef int n_bins = s.n_bins[feature]
    cdef candidates_t *sums = &s.level_scores[feature]
    cdef candidates_t found
    cdef const int64_t *hist
    cdef node_t *p
    cdef bint bound = counts == NULL and not s.scan.direct
    cdef int i, w
    cdef uint8_t *order = s.orders + <size_t>feature * 256
    if s.n_levels == 0:
        hist = s.nodes[0].hist + <size_t>feature * s.stride * words
        if s.is_categorical[feature]:
            s.n_order[feature] = skb_category_order(&s.scan, hist, n_bins, order)
        s.has_missing[feature] = 0
        for w in range(words):
            s.has_missing[feature] |= hist[w] != 0
    sums.n_left = sums.n_right = 0
    for i in range(s.n_scans):
        p = &s.nodes[s.scans[i]]
        hist = p.hist + <size_t>feature * s.stride * words
        if not feature_allowed(s, 0, feature):
            break
        if counts != NULL:
            count_feature(s, s.scans[i], feature, counts)
        if s.is_categorical[feature]:
            found.n_left = 0
            found.n_right = s.n_order[feature]
            skb_scan_categories(&s.scan, hist, counts, n_bins, order, found.n_right,
                                s.totals + <size_t>s.scans[i] * words, p.bounds, found.right, found.certain)
        else:
            scan_numeric(&s.scan, hist, counts, n_bins, s.totals + <size_t>s.scans[i] * words, s.has_missing[feature],
                         s.monotone[feature] if s.scan.bounded else 0, p.bounds, &found)
            if bound:
                prove_numeric(&s.scan, hist, s.totals + <size_t>s.scans[i] * words, &found)
        if sums.n_right == 0 and sums.n_left == 0:
            sums.n_left = found.n_left
            sums.n_right = found.n_right
            memset(sums.left, 0, sizeof(sums.left))
            memset(sums.right, 0, sizeof(sums.right))
        add_gains(sums.left, found.left, found.n_left, p.score, found.certain_left if bound else NULL)
        add_gains(sums.right, found.right, found.n_right, p.score, found.certain if bound else NULL)
    s.best[feature] = first_within_tie(sums)


cdef void finish_and_scan(tree_t *s, int t) noexcept nogil:
    """Own features of all planned histograms, then the split search on them."""
    cdef int j0 = <int>(<int64_t>s.n_listed * t / s.n_threads)
    cdef int j1 = <int>(<int64_t>s.n_listed * (t + 1) / s.n_threads)
    cdef int i, j
    if s.failed:
        return
    for i in range(s.n_items):
        finish_item(s, i, t, j0, j1)
    for j in range(j0, j1):
        if s.policy == POLICY_SYMMETRIC:
            if s.n_scans:
                scan_level(s, s.features[j], NULL)
        else:
            for i in range(s.n_scans):
                scan_one(s, i, s.features[j], NULL)


cdef void recount(tree_t *s, int t) noexcept nogil:
    """Search again, own features, where the best split is not proven, with exact weight histograms."""
    cdef int j0 = <int>(<int64_t>s.n_listed * t / s.n_threads)
    cdef int j1 = <int>(<int64_t>s.n_listed * (t + 1) / s.n_threads)
    cdef uint32_t *counts = s.count_scratch + <size_t>t * s.n_features * s.stride
    cdef int i, j, u
    cdef size_t segment
    if s.policy == POLICY_SYMMETRIC:
        for j in range(j0, j1):
            scan_level(s, s.features[j], counts)
        return
    for i in range(s.n_recount):
        for j in range(j0, j1):
            memset(counts + <size_t>s.features[j] * s.stride, 0, s.n_bins[s.features[j]] * sizeof(uint32_t))
        for u in range(s.n_threads):
            segment = <size_t>s.scans[s.recount[i]] * s.n_threads + u
            hist_weights(s.codes_row, s.row_stride, s.index + s.seg_start[segment], s.seg_size[segment],
                         s.count_weight, s.features + j0, j1 - j0, s.stride, counts)
        for j in range(j0, j1):
            scan_one(s, s.recount[i], s.features[j], counts + <size_t>s.features[j] * s.stride)


# ---------------------------------------------------------------- the worker

cdef void worker(tree_t *s, step_t *p, int t) noexcept nogil:
    """What every thread does for one tree."""
    cdef int spin = SKB_SPIN_MAX
    gradient_pass(s, p, t)
    if skb_barrier_arrive(&p.barrier, &spin):
        choose_coarse(s, p)
        skb_barrier_release(&p.barrier)
    sum_pass(s, p, t)
    if skb_barrier_arrive(&p.barrier, &spin):
        choose_units(s, p)
        skb_barrier_release(&p.barrier)
    pack_pass(s, p, t)
    if skb_barrier_arrive(&p.barrier, &spin):
        prepare_root(s, p)
        skb_barrier_release(&p.barrier)
    while True:
        if s.n_by_rows and not s.failed:
            build_rows(s, t)
            if skb_barrier_arrive(&p.barrier, &spin):
                skb_barrier_release(&p.barrier)
        finish_and_scan(s, t)
        if skb_barrier_arrive(&p.barrier, &spin):
            if s.policy == POLICY_SYMMETRIC:
                decide_level(s, False)
            else:
                decide(s)
            skb_barrier_release(&p.barrier)
        if s.n_recount:
            recount(s, t)
            if skb_barrier_arrive(&p.barrier, &spin):
                if s.policy == POLICY_SYMMETRIC:
                    decide_level(s, True)
                else:
                    decide_recounted(s)
                skb_barrier_release(&p.barrier)
        if s.n_batch == 0 or s.failed:
            break
        partition_batch(s, t)
        if skb_barrier_arrive(&p.barrier, &spin):
            plan_children(s)
            skb_barrier_release(&p.barrier)
    if skb_barrier_arrive(&p.barrier, &spin):
        list_leaves(s, p)
        skb_barrier_release(&p.barrier)
    if s.failed:
        return
    leaf_pass(s, p, t)
    if p.renew:
        renew_pass(s, p, t)
    if skb_barrier_arrive(&p.barrier, &spin):
        leaf_values(s, p)
        skb_barrier_release(&p.barrier)
    update_pass(s, p, t)
