"""Splits that are drawn instead of searched, so that cells without rows get leaves of their own.

A draw is keyed by the seed, the iteration and the number of the level or of the node: neither gradients nor threads
have an influence. A drawn split may leave a child without rows; any other child obeys the leaf minimum.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from skboost._engine.histogram cimport hist_weights
from skboost._engine.split cimport skb_in_set, skb_is_certain, skb_left_sums, skb_mass, skb_words_zero
from skboost._engine.types cimport feature_allowed, level_t, tree_t

cdef extern from "rng.h" nogil:
    uint64_t skb_key(uint64_t seed, uint64_t stream, uint64_t iteration, uint64_t output)
    double skb_uniform(uint64_t key, uint64_t counter)

cdef enum:
    STREAM_PRIOR = 12      # of skboost._random
    PRIOR_BINS = 128       # most cuts of a feature that do not follow the data

# Counters of the draws of one level or node.
cdef enum:
    DRAW_PRIOR = 0
    DRAW_FEATURE = 1
    DRAW_ALONE = 2
    DRAW_CUT = 3
    DRAW_MISSING = 4
    DRAW_SPREAD = 5
    DRAW_KIND = 6
    DRAW_ORDER = 16

# The missing bin is split off alone at least this often: one cut among many would hardly ever do it.
cdef double ALONE = 0.0625


cdef inline double uniform(const tree_t *s, int index, int draw) noexcept nogil:
    return skb_uniform(skb_key(s.seed, STREAM_PRIOR, s.iteration, index), draw)


cdef inline int one_of(double u, int n) noexcept nogil:
    return min(<int>(u * n), n - 1)


cdef bint prior_drawn(const tree_t *s, int index) noexcept nogil:
    """Whether the split of this level, or node, is drawn."""
    return s.prior_rate > 0.0 and uniform(s, index, DRAW_PRIOR) < s.prior_rate


cdef int draw_feature(const tree_t *s, int group_node, int index) noexcept nogil:
    """One of the features that have a value bin and may be used, or -1."""
    cdef int j, n = 0, wanted
    for j in range(s.n_listed):
        n += s.n_bins[s.features[j]] > 1 and feature_allowed(s, group_node, s.features[j])
    if n == 0:
        return -1
    wanted = one_of(uniform(s, index, DRAW_FEATURE), n)
    for j in range(s.n_listed):
        if s.n_bins[s.features[j]] > 1 and feature_allowed(s, group_node, s.features[j]):
            if wanted == 0:
                return s.features[j]
            wanted -= 1
    return -1


cdef bint draw_test(const tree_t *s, int group_node, int index, level_t *test) noexcept nogil:
    """Draw a feature and a cut; False when no feature may be used.

    Numeric: one of the cuts, or of those that do not follow the data. Categories: the first ones of a drawn order, at
    least one on each side. The missing bin goes to a drawn side, or alone to the right.
    """
    cdef int feature = draw_feature(s, group_node, index), values, n_left
    cdef bint alone
    if feature < 0:
        return False
    values = s.n_bins[feature] - 1
    alone = values == 1 or uniform(s, index, DRAW_ALONE) < max(ALONE, 1.0 / values)
    n_left = values if alone else draw_cut(s, feature, index)
    test.feature = feature
    test.prior = True
    test.gain = 0.0
    test.categorical = s.is_categorical[feature]
    test.missing_right = alone or uniform(s, index, DRAW_MISSING) < 0.5
    test.bin = n_left
    memset(test.left_set, 0, 32)
    if test.categorical:
        draw_set(s, index, values, n_left, not test.missing_right, test.left_set)
    return True


cdef int draw_cut(const tree_t *s, int feature, int index) noexcept nogil:
    """Last left bin of a cut; one that does not follow the data parts gaps, and what lies beyond, far more often."""
    cdef double u = uniform(s, index, DRAW_CUT)
    if s.prior_bins != NULL and s.n_prior_bins[feature] and uniform(s, index, DRAW_KIND) < s.prior_share:
        return s.prior_bins[<size_t>feature * PRIOR_BINS + one_of(u, s.n_prior_bins[feature])]
    return 1 + one_of(u, s.n_bins[feature] - 2)


cdef void draw_set(const tree_t *s, int index, int values, int n_left, bint missing_left, uint8_t *set) noexcept nogil:
    """The first codes of a drawn order of 1, 2, ..., values."""
    cdef uint8_t order[256]
    cdef uint8_t code
    cdef int i, j
    for i in range(values):
        order[i] = <uint8_t>(i + 1)
    for i in range(values - 1, 0, -1):
        j = one_of(uniform(s, index, DRAW_ORDER + i), i + 1)
        code = order[i]
        order[i] = order[j]
        order[j] = code
    for i in range(n_left):
        set[order[i] >> 3] |= <uint8_t>(1 << (order[i] & 7))
    if missing_left:
        set[0] |= 1


cdef int spread_bin(tree_t *s, const int *nodes, int n_nodes, int feature, int bin, int index) noexcept nogil:
    """Last left bin of a searched cut: one of those that part the rows of all these nodes alike."""
    cdef int end = bin + 1, i
    if not s.spread_ties:
        return bin
    while end < s.n_bins[feature] and empty_bin(s, nodes, n_nodes, feature, end):
        end += 1
    if end - bin > 1 and not s.scan.direct:
        # the sums of rows may be zeros, or round to them
        for i in range(n_nodes):
            end = last_uncounted(s, nodes[i], feature, bin, end)
    return bin + one_of(uniform(s, index, DRAW_SPREAD), end - bin)


cdef bint empty_bin(const tree_t *s, const int *nodes, int n_nodes, int feature, int bin) noexcept nogil:
    cdef size_t at = (<size_t>feature * s.stride + bin) * s.scan.n_words
    cdef int i
    for i in range(n_nodes):
        if not skb_words_zero(s.nodes[nodes[i]].hist + at, s.scan.n_words):
            return False
    return True


cdef int last_uncounted(tree_t *s, int node, int feature, int bin, int end) noexcept nogil:
    cdef uint32_t counts[256]
    cdef int b
    count_feature(s, node, feature, counts)
    for b in range(bin + 1, end):
        if counts[b]:
            return b
    return end


cdef bint weighs_enough(tree_t *s, int node, const level_t *test) noexcept nogil:
    """Sum the left child of a drawn test; whether each child has no rows or at least the minimum weight."""
    cdef const int64_t *hist = s.nodes[node].hist + <size_t>test.feature * s.stride * s.scan.n_words
    cdef const int64_t *total = s.totals + <size_t>node * s.scan.n_words
    cdef int64_t *left = s.left_totals + <size_t>node * s.scan.n_words
    cdef uint64_t weight[2]
    cdef uint64_t rows[2]
    skb_left_sums(hist, s.n_bins[test.feature], s.scan.n_words, test.bin, test.missing_right,
                  test.left_set if test.categorical else NULL, left)
    if s.scan.direct:
        weight[0] = <uint64_t>skb_mass(&s.scan, left)
        weight[1] = <uint64_t>skb_mass(&s.scan, total) - weight[0]
    elif skb_is_certain(&s.scan, left[0], total[0] - left[0]):
        return True
    else:
        weigh_children(s, node, test, s.count_weight, weight)
    rows[0], rows[1] = weight[0], weight[1]
    if s.count_weight != NULL and (weight[0] == 0 or weight[1] == 0):
        weigh_children(s, node, test, NULL, rows)      # rows that this tree does not see are rows, too
    return ((rows[0] == 0 or weight[0] >= s.min_weight) and (rows[1] == 0 or weight[1] >= s.min_weight))


cdef void weigh_children(tree_t *s, int node, const level_t *test, const uint32_t *weights,
                         uint64_t *sums) noexcept nogil:
    """Sum weights (NULL: ones) of the rows that a test sends left and right."""
    cdef uint32_t counts[256]
    cdef int b
    sums[0] = sums[1] = 0
    sum_by_code(s, node, test.feature, weights, counts)
    for b in range(s.n_bins[test.feature]):
        sums[not goes_left(test, b)] += counts[b]


cdef inline bint goes_left(const level_t *test, int code) noexcept nogil:
    if test.categorical:
        return skb_in_set(test.left_set, code)
    return not test.missing_right if code == 0 else code <= test.bin


cdef void count_feature(tree_t *s, int node, int feature, uint32_t *counts) noexcept nogil:
    """Histogram of the leaf-minimum weights of one node on one feature."""
    sum_by_code(s, node, feature, s.count_weight, counts)


cdef void sum_by_code(tree_t *s, int node, int feature, const uint32_t *weights, uint32_t *counts) noexcept nogil:
    cdef int32_t listed = feature
    cdef size_t segment
    cdef int u
    memset(counts, 0, s.n_bins[feature] * sizeof(uint32_t))
    for u in range(s.n_threads):
        segment = <size_t>node * s.n_threads + u
        hist_weights(s.codes_row, s.row_stride, s.index + s.seg_start[segment], s.seg_size[segment], weights,
                     &listed, 1, 0, counts)
