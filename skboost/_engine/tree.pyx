"""Serial decisions of a growing tree: its nodes, which histograms to build, which nodes to split next.

Every function here runs on one thread while the others wait at a barrier. The choice of the tests of symmetric trees
is in levels.pyx.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from skboost._engine.memory cimport give_slot, reserve_lists, reserve_nodes, reserve_private, take_slot
from skboost._engine.prior cimport draw_test, prior_drawn, spread_bin, weighs_enough
from skboost._engine.split cimport (
    SKB_INVALID,
    SKB_TIE,
    skb_best_t,
    skb_category_fill,
    skb_category_order,
    skb_category_set,
    skb_left_sums,
    skb_mass,
    skb_node_value,
    skb_score,
)
from skboost._engine.types cimport POLICY_LOSSGUIDE, POLICY_SYMMETRIC, item_t, level_t, node_t, tree_t

cdef extern from "hist.h" nogil:
    int32_t skb_lo(int64_t v)

cdef enum:
    SMALL_NODE = 3000      # rows per thread below which threads share a node by features


# ---------------------------------------------------------------- nodes

cdef void restrict_groups(tree_t *s, int parent, int child, int feature) noexcept nogil:
    cdef int group
    cdef uint8_t *source = s.node_groups + <size_t>parent * s.n_groups
    for group in range(s.n_groups):
        s.node_groups[<size_t>child * s.n_groups + group] = (
            source[group] and s.groups[<size_t>group * s.n_features + feature])


cdef void clear_node(tree_t *s, int node, int depth) noexcept nogil:
    cdef node_t *p = &s.nodes[node]
    memset(p, 0, sizeof(node_t))
    p.left = p.right = p.level = p.feature = -1
    p.depth = depth
    p.bounds[0] = -1e300
    p.bounds[1] = 1e300


cdef void start_root(tree_t *s) noexcept nogil:
    """Plan the root's histogram; its totals, weight and segments are already set."""
    cdef node_t *root = &s.nodes[0]
    s.n_leaves = 1
    s.n_batch = s.n_waiting = s.n_current = s.current_pos = s.n_levels = s.n_recount = 0
    s.n_items = s.n_scans = s.n_by_rows = 0
    root.score = skb_score(&s.scan, s.totals, root.bounds[0], root.bounds[1])
    if s.max_depth == 0 or s.max_leaves < 2 or root.weight < 2 * s.min_weight or s.n_listed == 0:
        return
    root.hist = take_slot(s)
    reserve_private(s, 1)
    s.items[0].node = 0
    s.items[0].sibling = -1
    s.items[0].by_rows = 1
    s.scans[0] = 0
    s.items[0].private = 0
    s.n_by_rows = s.n_items = s.n_scans = 1


cdef void create_children(tree_t *s, int node) noexcept nogil:
    """Append the two children of a node whose split is chosen, with totals, scores and bounds."""
    cdef int words = s.scan.n_words
    cdef int left = s.n_nodes
    cdef int right = left + 1
    cdef int w
    cdef double vl, vr
    cdef node_t *p
    reserve_nodes(s, right + 1)
    if s.failed:
        return
    p = &s.nodes[node]
    clear_node(s, left, p.depth + 1)
    clear_node(s, right, p.depth + 1)
    p.left = left
    p.right = right
    s.n_nodes = right + 1
    for w in range(words):
        s.totals[<size_t>left * words + w] = s.left_totals[<size_t>node * words + w]
        s.totals[<size_t>right * words + w] = s.totals[<size_t>node * words + w] - s.totals[<size_t>left * words + w]
    for w in range(2):
        s.nodes[left].bounds[w] = s.nodes[right].bounds[w] = p.bounds[w]
    if s.scan.bounded and s.monotone[p.feature]:
        vl = skb_node_value(&s.scan, s.totals + left, p.bounds[0], p.bounds[1])
        vr = skb_node_value(&s.scan, s.totals + right, p.bounds[0], p.bounds[1])
        w = s.monotone[p.feature] > 0
        s.nodes[left].bounds[w] = s.nodes[right].bounds[1 - w] = 0.5 * (vl + vr)
    if s.n_groups:
        restrict_groups(s, node, left, p.feature)
        restrict_groups(s, node, right, p.feature)


cdef void score_node(tree_t *s, int node) noexcept nogil:
    cdef node_t *p = &s.nodes[node]
    p.score = skb_score(&s.scan, s.totals + <size_t>node * s.scan.n_words, p.bounds[0], p.bounds[1])


# ---------------------------------------------------------------- after the partition

cdef bint splittable(const tree_t *s, int node) noexcept nogil:
    cdef const node_t *p = &s.nodes[node]
    # one row can be split off from nothing; then a row of weight 2 must be treated as two rows are
    return (p.n_rows > 1 or s.prior_rate > 0.0) and p.weight >= 2 * s.min_weight and p.depth < s.max_depth


cdef void measure_children(tree_t *s, int position, int node) noexcept nogil:
    """Row counts and leaf-minimum weights of the two children."""
    cdef node_t *p = &s.nodes[node]
    cdef node_t *left = &s.nodes[p.left]
    cdef node_t *right = &s.nodes[p.right]
    cdef size_t rows = 0
    cdef uint64_t weight = 0
    cdef int t
    for t in range(s.n_threads):
        rows += s.left_rows[<size_t>position * s.n_threads + t]
        weight += s.left_weight[<size_t>position * s.n_threads + t]
    left.n_rows = rows
    right.n_rows = p.n_rows - rows
    if s.scan.direct:
        weight = <uint64_t>skb_lo(s.totals[<size_t>p.left * s.scan.n_words])
    elif s.count_weight == NULL:
        weight = rows
    left.weight = weight
    right.weight = p.weight - weight


cdef void plan_item(tree_t *s, int node, int sibling) noexcept nogil:
    cdef item_t *item = &s.items[s.n_items]
    item.node = node
    item.sibling = sibling
    item.by_rows = s.n_threads > 1 and s.nodes[node].n_rows > <size_t>SMALL_NODE * s.n_threads
    item.private = s.n_by_rows
    s.n_by_rows += item.by_rows
    s.n_items += 1


cdef void plan_pair(tree_t *s, int node) noexcept nogil:
    """Decide which histograms of two new children to build."""
    cdef node_t *p = &s.nodes[node]
    cdef int small = p.left
    cdef int large = p.right
    cdef bint small_wanted, large_wanted
    if s.nodes[small].n_rows > s.nodes[large].n_rows:
        small, large = large, small
    small_wanted = splittable(s, small)
    large_wanted = splittable(s, large)
    if p.hist != NULL and large_wanted:
        s.nodes[small].hist = take_slot(s)
        s.nodes[large].hist = p.hist
        p.hist = NULL
        plan_item(s, small, large)
    else:
        give_slot(s, node)
        if small_wanted:
            s.nodes[small].hist = take_slot(s)
            plan_item(s, small, -1)
        if large_wanted:
            s.nodes[large].hist = take_slot(s)
            plan_item(s, large, -1)
    plan_scan(s, p.left)      # in this order whatever the row counts: it numbers the nodes, and the leaf noise by that
    plan_scan(s, p.right)


cdef void plan_scan(tree_t *s, int node) noexcept nogil:
    if splittable(s, node):
        s.scans[s.n_scans] = node
        s.n_scans += 1
        score_node(s, node)


cdef void take_back(tree_t *s, int node) noexcept nogil:
    """Undo the split of a node of a symmetric tree: its rows stay together for this level."""
    cdef node_t *p = &s.nodes[node]
    s.nodes[p.left].dead = s.nodes[p.right].dead = 1
    p.left = p.right = p.level = -1
    s.n_leaves -= 1


cdef void plan_children(tree_t *s) noexcept nogil:
    """After the partition of the batch: measure the children, plan histograms and scans."""
    cdef int i, node
    cdef node_t *p
    s.n_items = s.n_scans = s.n_by_rows = 0
    if s.policy == POLICY_SYMMETRIC:
        reserve_lists(s, 2 * (s.n_batch + s.n_current) + 2)
    if s.failed:
        return
    for i in range(s.n_batch):
        node = s.batch[i]
        measure_children(s, i, node)
        p = &s.nodes[node]
        # a split of a node of its own is proven, and so is a drawn one
        if s.policy == POLICY_SYMMETRIC and not p.prior and (
                min(s.nodes[p.left].weight, s.nodes[p.right].weight) < s.min_weight):
            take_back(s, node)
    if s.policy == POLICY_SYMMETRIC:
        plan_level(s)
    elif s.n_leaves < s.max_leaves:
        for i in range(s.n_batch):
            plan_pair(s, s.batch[i])
    reserve_private(s, s.n_by_rows)


cdef void plan_level(tree_t *s) noexcept nogil:
    """Symmetric: the next level scans the new children and the nodes that this level left whole."""
    cdef int i, node
    if s.n_levels >= s.max_depth or s.n_leaves >= s.max_leaves:
        return
    for i in range(s.n_current):
        node = s.current[i]
        if s.nodes[node].left >= 0:
            plan_pair(s, node)
        else:
            s.scans[s.n_scans] = node
            s.n_scans += 1


# ---------------------------------------------------------------- after the scan

cdef int best_feature(tree_t *s, const skb_best_t *best) noexcept nogil:
    """Return the first feature whose best score is within a tie of the largest, or -1."""
    cdef double top = SKB_INVALID
    cdef double enough
    cdef int j
    for j in range(s.n_listed):
        if best[s.features[j]].score > top:
            top = best[s.features[j]].score
    if top <= SKB_INVALID:
        return -1
    enough = top - SKB_TIE * (top if top > 0 else -top)
    for j in range(s.n_listed):
        if best[s.features[j]].score >= enough:
            return s.features[j]
    return -1


cdef void set_split(tree_t *s, int node, int feature, const skb_best_t *best) noexcept nogil:
    """Record the winning test of a node and the sums of its left child."""
    cdef node_t *p = &s.nodes[node]
    cdef int words = s.scan.n_words
    cdef int n_bins = s.n_bins[feature]
    cdef const int64_t *hist = p.hist + <size_t>feature * s.stride * words
    cdef int64_t *left = s.left_totals + <size_t>node * words
    cdef uint8_t order[256]
    cdef bint missing = False
    cdef bint left_heavier
    cdef int w
    p.feature = feature
    p.categorical = s.is_categorical[feature]
    p.bin = best.bin if p.categorical else spread_bin(s, &node, 1, feature, best.bin, node)
    p.missing_right = best.missing_right
    if p.categorical:
        skb_category_order(&s.scan, hist, n_bins, order)
        skb_category_set(order, n_bins, best.bin, p.left_set)
        skb_left_sums(hist, n_bins, words, 0, 0, p.left_set, left)
        left_heavier = 2 * skb_mass(&s.scan, left) >= skb_mass(&s.scan, s.totals + <size_t>node * words)
        skb_category_fill(hist, n_bins, words, left_heavier, p.left_set)
        return
    skb_left_sums(hist, n_bins, words, p.bin, p.missing_right, NULL, left)
    for w in range(words):
        missing |= hist[w] != 0
    if not missing:     # nothing decides: missing (rows without structure weight, too) follows the heavier child
        p.missing_right = 2 * skb_mass(&s.scan, left) < skb_mass(&s.scan, s.totals + <size_t>node * words)


cdef bint set_drawn(tree_t *s, int node) noexcept nogil:
    """Record a drawn test of a node and the sums of its left child; False when it does not suit the node."""
    cdef node_t *p = &s.nodes[node]
    cdef int words = s.scan.n_words
    cdef int64_t *left = s.left_totals + <size_t>node * words
    cdef int64_t right
    cdef level_t test
    if not draw_test(s, node, node, &test) or not weighs_enough(s, node, &test):
        return False
    right = s.totals[<size_t>node * words] - left[0]     # constraints are for one output
    if breaks_order(s, p, test.feature, left, &right):
        return False
    p.prior = True
    p.feature, p.bin, p.missing_right, p.categorical = test.feature, test.bin, test.missing_right, test.categorical
    memcpy(p.left_set, test.left_set, 32)
    p.prior_gain = max(0.0, split_gain(s, node))
    return True


cdef double split_gain(const tree_t *s, int node) noexcept nogil:
    """Gain of a node's split, whose left sums are known."""
    cdef const node_t *p = &s.nodes[node]
    cdef int words = s.scan.n_words
    cdef const int64_t *left = s.left_totals + <size_t>node * words
    cdef int64_t right[256]
    cdef int w
    for w in range(words):
        right[w] = s.totals[<size_t>node * words + w] - left[w]
    return (skb_score(&s.scan, left, p.bounds[0], p.bounds[1])
            + skb_score(&s.scan, right, p.bounds[0], p.bounds[1]) - p.score)


cdef bint breaks_order(const tree_t *s, const node_t *p, int feature, const int64_t *left,
                       const int64_t *right) noexcept nogil:
    """Whether two children would break the monotone constraint of a feature."""
    cdef double vl, vr
    if not s.scan.bounded or not s.monotone[feature]:
        return False
    vl = skb_node_value(&s.scan, left, p.bounds[0], p.bounds[1])
    vr = skb_node_value(&s.scan, right, p.bounds[0], p.bounds[1])
    return vl > vr if s.monotone[feature] > 0 else vl < vr


cdef void settle_node(tree_t *s, int position, int node, bint counted) noexcept nogil:
    """Best of one scanned node over features; ask for a weight histogram where it is not proven.

    Where the split is drawn, what the best one would gain is still the node's place in the queue.
    """
    cdef skb_best_t *best = s.best + <size_t>position * s.n_features
    cdef node_t *p = &s.nodes[node]
    cdef int feature = best_feature(s, best)
    cdef double gain
    p.gain = 0.0
    if feature >= 0:
        if not counted and not best[feature].certain:
            s.recount[s.n_recount] = position
            s.n_recount += 1
            return
        gain = best[feature].score - p.score
        if gain > SKB_TIE * (best[feature].score if best[feature].score > 0 else -best[feature].score):
            p.gain = gain
    if prior_drawn(s, node) and set_drawn(s, node):
        queue_node(s, node)
    elif p.gain > 0.0:
        set_split(s, node, feature, &best[feature])
        queue_node(s, node)
    else:
        give_slot(s, node)


cdef void queue_node(tree_t *s, int node) noexcept nogil:
    if s.n_slots - s.n_free > s.slots_kept:
        give_slot(s, node)
    s.waiting[s.n_waiting] = node
    s.n_waiting += 1


cdef void release_unscanned(tree_t *s) noexcept nogil:
    """Free the slots of small children that were built only for the subtraction."""
    cdef int i, node
    for i in range(s.n_items):
        node = s.items[i].node
        if s.items[i].sibling >= 0 and not splittable(s, node):
            give_slot(s, node)


cdef void decide(tree_t *s) noexcept nogil:
    """After a scan: settle the scanned nodes and choose the next batch."""
    cdef int i
    s.n_batch = s.n_recount = 0
    if s.failed:
        return
    reserve_lists(s, s.n_waiting + s.n_scans + 1)
    if s.failed:
        return
    release_unscanned(s)
    for i in range(s.n_scans):
        settle_node(s, i, s.scans[i], s.scan.direct)
    if s.n_recount == 0:
        choose_batch(s)


cdef void decide_recounted(tree_t *s) noexcept nogil:
    """After the weight histograms of the unproven nodes."""
    cdef int i
    for i in range(s.n_recount):
        settle_node(s, s.recount[i], s.scans[s.recount[i]], True)
    s.n_recount = 0
    choose_batch(s)


cdef void open_node(tree_t *s, int node) noexcept nogil:
    s.batch[s.n_batch] = node
    s.n_batch += 1
    s.n_leaves += 1
    create_children(s, node)


cdef void choose_batch(tree_t *s) noexcept nogil:
    cdef int i
    cdef int best = -1
    cdef int *swap
    s.n_batch = 0
    if s.policy == POLICY_LOSSGUIDE:
        if s.n_leaves >= s.max_leaves:
            return
        for i in range(s.n_waiting):
            if best < 0 or s.nodes[s.waiting[i]].gain > s.nodes[s.waiting[best]].gain or (
                    s.nodes[s.waiting[i]].gain == s.nodes[s.waiting[best]].gain and s.waiting[i] < s.waiting[best]):
                best = i
        if best >= 0:
            i = s.waiting[best]
            s.n_waiting -= 1
            s.waiting[best] = s.waiting[s.n_waiting]
            open_node(s, i)
        return
    if s.current_pos == s.n_current:
        swap = s.current
        s.current = s.waiting
        s.waiting = swap
        s.n_current = s.n_waiting
        s.n_waiting = s.current_pos = 0
        sort_nodes(s.current, s.n_current)
        keep_best(s, s.max_leaves - s.n_leaves)
    while s.current_pos < s.n_current and s.n_batch < s.batch_limit and not s.failed:
        open_node(s, s.current[s.current_pos])
        s.current_pos += 1


cdef void sort_nodes(int *nodes, int n) noexcept nogil:
    """Ascending; nearly sorted on entry, as nodes come in order but for those that were recounted."""
    cdef int i, j, node
    for i in range(1, n):
        node = nodes[i]
        j = i
        while j > 0 and nodes[j - 1] > node:
            nodes[j] = nodes[j - 1]
            j -= 1
        nodes[j] = node


cdef void keep_best(tree_t *s, int budget) noexcept nogil:
    """Depthwise with few leaves left: keep the `budget` nodes of the level with the largest gains, in node order."""
    cdef int i, worst
    while s.n_current > budget:
        worst = 0
        for i in range(1, s.n_current):
            if s.nodes[s.current[i]].gain <= s.nodes[s.current[worst]].gain:
                worst = i
        give_slot(s, s.current[worst])
        s.n_current -= 1
        for i in range(worst, s.n_current):
            s.current[i] = s.current[i + 1]
