"""Serial decisions for the levels of a symmetric tree: one test for all nodes, a node it does not suit stays whole."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from skboost._engine.prior cimport draw_test, prior_drawn, spread_bin, weighs_enough
from skboost._engine.split cimport (
    SKB_TIE,
    skb_best_t,
    skb_category_set,
    skb_heavy_enough,
    skb_is_certain,
    skb_left_sums,
    skb_mass,
)
from skboost._engine.tree cimport (
    best_feature,
    breaks_order,
    open_node,
    release_unscanned,
    restrict_groups,
    split_gain,
)
from skboost._engine.types cimport level_t, node_t, tree_t

cdef extern from "hist.h" nogil:
    int32_t skb_lo(int64_t v)

cdef extern from "math.h" nogil:
    double fabs(double x)


cdef void describe_level(tree_t *s, level_t *level, int feature) noexcept nogil:
    cdef skb_best_t *best = &s.best[feature]
    level.feature = feature
    level.categorical = s.is_categorical[feature]
    level.missing_right = best.missing_right
    level.prior = False
    level.bin = best.bin if level.categorical else (
        spread_bin(s, s.scans, s.n_scans, feature, best.bin + 1, s.n_levels))
    memset(level.left_set, 0, 32)
    if level.categorical:
        skb_category_set(s.orders + <size_t>feature * 256, s.n_bins[feature], best.bin, level.left_set)


cdef bint level_splits(tree_t *s, const level_t *level, int node) noexcept nogil:
    """Apply the level's test to one node; False when a child would be too light or break a monotone constraint."""
    cdef node_t *p = &s.nodes[node]
    cdef int words = s.scan.n_words
    cdef const int64_t *hist = p.hist + <size_t>level.feature * s.stride * words
    cdef const int64_t *total = s.totals + <size_t>node * words
    cdef int64_t *left = s.left_totals + <size_t>node * words
    cdef int64_t right, mass
    if level.prior:
        if not weighs_enough(s, node, level):
            return False
    else:
        skb_left_sums(hist, s.n_bins[level.feature], words, level.bin, level.missing_right,
                      level.left_set if level.categorical else NULL, left)
        mass = skb_mass(&s.scan, left)
        if not skb_heavy_enough(&s.scan, mass, skb_mass(&s.scan, total) - mass, NULL):
            return False
    right = total[0] - left[0]     # constraints are for one output
    if breaks_order(s, p, level.feature, left, &right):
        return False
    p.prior = level.prior
    p.feature = level.feature
    p.bin = level.bin
    p.missing_right = level.missing_right
    p.categorical = level.categorical
    p.level = s.n_levels
    memcpy(p.left_set, level.left_set, 32)
    return True


cdef void fill_level(tree_t *s, level_t *level) noexcept nogil:
    """Where no row of the level decides (missing bin or category without rows), follow the heavier side."""
    cdef int64_t left = 0
    cdef int64_t total = 0
    cdef int words = s.scan.n_words
    cdef int i, node
    for i in range(s.n_batch):
        node = s.batch[i]
        left += skb_mass(&s.scan, s.left_totals + <size_t>node * words)
        total += skb_mass(&s.scan, s.totals + <size_t>node * words)
    if not level.categorical:
        if not s.has_missing[level.feature]:
            level.missing_right = 2 * left < total
        return
    if 2 * left >= total:
        add_unseen_codes(s, level)


cdef void add_unseen_codes(tree_t *s, level_t *level) noexcept nogil:
    """Put the codes without rows in this tree into the left set."""
    cdef const uint8_t *order = s.orders + <size_t>level.feature * 256
    cdef uint8_t seen[256]
    cdef int i
    memset(seen, 0, 256)
    for i in range(s.n_order[level.feature]):
        seen[order[i]] = 1
    for i in range(256):
        if not seen[i]:
            level.left_set[i >> 3] |= <uint8_t>(1 << (i & 7))


cdef bint level_proven(tree_t *s, const level_t *level) noexcept nogil:
    """True when the children of the level's test are heavy enough wherever level_splits would split."""
    cdef int words = s.scan.n_words
    cdef int i, node
    cdef int64_t mass
    cdef int64_t *left
    cdef const int64_t *total
    cdef const int64_t *hist
    for i in range(s.n_scans):
        node = s.scans[i]
        hist = s.nodes[node].hist + <size_t>level.feature * s.stride * words
        left = s.left_totals + <size_t>node * words
        total = s.totals + <size_t>node * words
        skb_left_sums(hist, s.n_bins[level.feature], words, level.bin, level.missing_right,
                      level.left_set if level.categorical else NULL, left)
        mass = skb_mass(&s.scan, left)
        if skb_heavy_enough(&s.scan, mass, skb_mass(&s.scan, total) - mass, NULL) and not (
                skb_is_certain(&s.scan, left[0], total[0] - left[0])):
            return False
    return True


cdef bint draw_level(tree_t *s, level_t *level) noexcept nogil:
    """Draw the test of the level; False when it is to be searched, or the drawn one splits no node."""
    cdef int i
    cdef bint any = False
    if not prior_drawn(s, s.n_levels) or not draw_test(s, 0, s.n_levels, level):
        return False
    for i in range(s.n_scans):
        if level_splits(s, level, s.scans[i]):
            any = True
            level.gain += split_gain(s, s.scans[i])
    level.gain = max(0.0, level.gain)
    return any


cdef void decide_level(tree_t *s, bint counted) noexcept nogil:
    """Choose the test of the next level and the nodes it splits; ask for weight histograms where it is not proven."""
    cdef level_t *level = &s.levels[s.n_levels]
    cdef double before = 0.0
    cdef int feature, i
    s.n_batch = s.n_recount = s.n_current = 0
    if s.failed:
        return
    if not counted:
        release_unscanned(s)
    if s.n_scans == 0:
        return
    if not counted and draw_level(s, level):
        split_level(s, level)
        return
    feature = best_feature(s, s.best)
    for i in range(s.n_scans):
        before += s.nodes[s.scans[i]].score
    if feature < 0 or s.best[feature].score <= SKB_TIE * fabs(before + s.best[feature].score):
        return
    describe_level(s, level, feature)
    if not (counted or s.scan.direct) and not level_proven(s, level):
        s.n_recount = 1
        return
    level.gain = s.best[feature].score
    split_level(s, level)


cdef void split_level(tree_t *s, level_t *level) noexcept nogil:
    """Open the nodes of the level that its test splits."""
    cdef int *swap = s.current
    cdef int i, node
    cdef bint suits
    s.current = s.scans
    s.scans = swap
    s.n_current = s.n_scans
    s.n_scans = 0
    for i in range(s.n_current):
        node = s.current[i]
        suits = s.nodes[node].level == s.n_levels if level.prior else level_splits(s, level, node)
        if suits and s.n_leaves < s.max_leaves and not s.failed:
            open_node(s, node)
        else:
            s.nodes[node].level = -1
    if s.n_batch == 0:
        return
    if not level.prior:
        fill_level(s, level)
    for i in range(s.n_batch):
        s.nodes[s.batch[i]].missing_right = level.missing_right
        memcpy(s.nodes[s.batch[i]].left_set, level.left_set, 32)
    if s.n_groups:
        restrict_groups(s, 0, 0, level.feature)
    s.n_levels += 1
