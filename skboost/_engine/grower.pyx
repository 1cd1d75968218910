"""Growth of one tree with all threads in one parallel region.

Thread t owns the rows [row_begin[t], row_begin[t + 1]): their gradients, noise, packed sums, index segments and scores.
Histograms of large nodes are built over own rows and merged, those of small nodes over own features; all threads scan
their own features. Between the phases the last thread at a barrier takes the serial decisions (tree.pyx).
"""

from cython.parallel cimport parallel

from libc.math cimport frexp, ldexp, sqrt
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import numpy as np

from skboost._engine.langevin cimport (
    add_noise,
    leaf_sum,
    max_abs,
    pack_words,
    quantise,
    scale_doubles,
    scale_floats,
    skb_add_value,
    skb_count_sum,
    skb_identity,
    skb_key,
    skb_normal,
    skb_weight_sum,
    sum_abs,
)
from skboost._engine.losses cimport leaf_denominator, loss_from_object, loss_gradients, loss_needs_metric, loss_t
from skboost._engine.omp cimport skb_num_threads, skb_thread_num
from skboost._engine.partition cimport numeric_codes, partition_rows, set_codes
from skboost._engine.split cimport (
    SKB_INVALID,
    best_candidate,
    candidates_t,
    first_within_tie,
    prove_numeric,
    scan_numeric,
    skb_best_t,
    skb_category_order,
    skb_scan_categories,
)
from skboost._engine.tree cimport (
    decide,
    decide_recounted,
    feature_allowed,
    plan_children,
    start_root,
    tree_release,
    tree_reserve,
)
from skboost._engine.types cimport BLOCK_ROWS, POLICY_SYMMETRIC, item_t, level_t, node_t, tree_t

cdef extern from "barrier.h" nogil:
    const int SKB_SPIN_MAX
    ctypedef struct skb_barrier_t:
        int n_threads
    void skb_barrier_init(skb_barrier_t *b, int n_threads) noexcept
    int skb_barrier_arrive(skb_barrier_t *b, int *spin) noexcept
    void skb_barrier_release(skb_barrier_t *b) noexcept

cdef extern from "hist.h" nogil:
    void skb_hist_columns(const uint8_t *codes_col, size_t n_rows, size_t r0, size_t r1, const int64_t *packed,
                          int words, const int32_t *features, int n_features, size_t stride, int64_t *hist) noexcept
    void skb_hist_rows(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                       const int64_t *packed, int words, int f0, int f1, size_t stride, int64_t *hist) noexcept
    void skb_hist_listed(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                         const int64_t *packed, int words, const int32_t *features, int n_features, size_t stride,
                         int64_t *hist) noexcept
    void skb_hist_weights(const uint8_t *codes_row, size_t row_stride, const uint32_t *idx, size_t m,
                          const uint32_t *weight, const int32_t *features, int n_features, size_t stride,
                          uint32_t *hist) noexcept
    void skb_hist_add(int64_t *into, const int64_t *part, size_t n) noexcept
    void skb_hist_subtract(int64_t *into, const int64_t *part, size_t n) noexcept
    const int SKB_PREFETCH_ROWS

cdef enum:
    MAX_THREADS = 256
    STREAM_STRUCT = 1
    STREAM_LEAF = 2

# Everything about the rows and the step, beside the tree.
ctypedef struct step_t:
    loss_t loss
    int n_outputs
    bint newton            # a hessian per row and output
    bint metric            # a Fisher metric per row and output (in hess): noise of variance 1 / F
    const double *y
    const double *base
    double *score          # (n_outputs, n_rows)
    float *grad            # (n_outputs, n_rows) noise-free
    float *noisy           # (n_outputs, n_rows), grad itself without noise
    float *noisy_rows      # memory of noisy, or NULL
    float *hess            # (n_outputs, n_rows) or NULL
    const double *weight   # (n_rows) or NULL
    double weight_scale    # weight * weight_scale are grid units
    bint integer_weights
    const uint32_t *units  # structure weights in grid units, or NULL
    const uint32_t *hash0
    const uint32_t *hash1
    const float *inv_root_weight
    double shrink
    double gradient_scale
    double sigma
    double learning_rate
    double lambda_
    double curvature       # of gradient leaves: D = curvature * W + lambda
    double count_ratio     # largest quotient of a row's structure weight and its leaf-minimum weight
    uint64_t root_weight   # sum of the leaf-minimum weights, when the histogram does not hold it
    int granted            # threads that OpenMP gave
    uint64_t seed
    uint64_t iteration
    # per thread and output, reduced by the last thread
    float *peak            # (thread, 3 * n_outputs): noisy, clean, hess
    int64_t *sums          # (thread, 2 * n_outputs): noisy, hess
    int64_t *root_sums     # (thread, n_words)
    float *coarse          # (2 * n_outputs)
    float *inv_unit        # (2 * n_outputs)
    float *leaf_scale      # (2 * n_outputs)
    double *g_unit
    double *h_unit
    # leaves
    int n_leaves
    int *leaves
    int64_t *leaf_sums     # (thread, leaf, 2 * n_outputs + 1)
    double *leaf_value     # (leaf, n_outputs)
    double *leaf_weight
    skb_barrier_t barrier


# ---------------------------------------------------------------- rows before the tree

cdef void gradient_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    """Shrink the scores, take gradients and add the structure noise, block by block over own rows."""
    cdef size_t n = s.n_rows
    cdef size_t b = s.row_begin[t]
    cdef float *peak = p.peak + t * 3 * p.n_outputs
    cdef int k, m
    cdef float v
    memset(peak, 0, 3 * p.n_outputs * sizeof(float))
    while b < s.row_begin[t + 1]:
        m = <int>min(<size_t>BLOCK_ROWS, s.row_begin[t + 1] - b)
        if p.shrink != 1.0:
            for k in range(p.n_outputs):
                scale_doubles(p.score + k * n + b, p.shrink, m)
        loss_gradients(&p.loss, m, p.y + b, p.score + b, n, p.base, p.newton, p.grad + b,
                       NULL if p.hess == NULL else p.hess + b, n)
        for k in range(p.n_outputs):
            if p.gradient_scale != 1.0:
                scale_floats(p.grad + k * n + b, <float>p.gradient_scale, m)
            if p.sigma > 0.0:
                add_noise(p.grad + k * n + b, p.hess + k * n + b if p.metric else NULL, p.hash0 + b, p.hash1 + b,
                          p.inv_root_weight + b, <float>p.sigma, skb_key(p.seed, STREAM_STRUCT, p.iteration, k), m,
                          p.noisy + k * n + b)
                v = max_abs(p.noisy + k * n + b, m)
                peak[3 * k] = max(peak[3 * k], v)
            v = max_abs(p.grad + k * n + b, m)
            peak[3 * k + 1] = max(peak[3 * k + 1], v)
            if p.hess != NULL:
                v = max_abs(p.hess + k * n + b, m)
                peak[3 * k + 2] = max(peak[3 * k + 2], v)
        b += m


cdef float power_scale(double top, int bits) noexcept nogil:
    """Return the power of two that brings values up to `top` below 2**bits."""
    cdef int e
    if not top > 0.0:
        return 1.0
    frexp(top, &e)
    return <float>ldexp(1.0, max(-120, min(120, bits - e)))


cdef void choose_coarse(tree_t *s, step_t *p) noexcept nogil:
    cdef int k, t
    cdef float noisy, clean, hess
    for k in range(p.n_outputs):
        noisy = clean = hess = 0.0
        for t in range(s.n_threads):
            noisy = max(noisy, p.peak[(t * p.n_outputs + k) * 3])
            clean = max(clean, p.peak[(t * p.n_outputs + k) * 3 + 1])
            hess = max(hess, p.peak[(t * p.n_outputs + k) * 3 + 2])
        if p.sigma <= 0.0:
            noisy = clean
        p.coarse[2 * k] = power_scale(noisy, 30)
        p.coarse[2 * k + 1] = power_scale(hess, 30)
        p.leaf_scale[2 * k] = power_scale(clean, 30)
        p.leaf_scale[2 * k + 1] = p.coarse[2 * k + 1]
        p.peak[3 * k + 2] = hess


cdef void sum_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    """Exact sums of magnitudes over own rows; they fix the grid of the packed sums."""
    cdef size_t n = s.n_rows
    cdef size_t b = s.row_begin[t]
    cdef int64_t *sums = p.sums + t * 2 * p.n_outputs
    cdef const uint32_t *w
    cdef int k, m
    memset(sums, 0, 2 * p.n_outputs * sizeof(int64_t))
    while b < s.row_begin[t + 1]:
        m = <int>min(<size_t>BLOCK_ROWS, s.row_begin[t + 1] - b)
        w = NULL if p.units == NULL else p.units + b
        for k in range(p.n_outputs):
            sums[2 * k] += sum_abs(p.noisy + k * n + b, w, p.coarse[2 * k], m)
            if p.newton:
                sums[2 * k + 1] += sum_abs(p.hess + k * n + b, w, p.coarse[2 * k + 1], m)
        b += m


cdef void choose_units(tree_t *s, step_t *p) noexcept nogil:
    """Grids on which no sum over rows can overflow 31 bits."""
    cdef double per_weight = 1.0 / p.weight_scale
    cdef double highest = 0.0
    cdef int k, t
    cdef int64_t g, h
    for k in range(p.n_outputs):
        g = h = 0
        for t in range(s.n_threads):
            g += p.sums[(t * p.n_outputs + k) * 2]
            h += p.sums[(t * p.n_outputs + k) * 2 + 1]
        p.inv_unit[2 * k] = power_scale(<double>g / p.coarse[2 * k], 30)
        p.g_unit[k] = per_weight / p.inv_unit[2 * k]
        p.h_unit[k] = per_weight * p.curvature
        if p.newton:
            p.inv_unit[2 * k + 1] = power_scale(<double>h / p.coarse[2 * k + 1], 30)
            p.h_unit[k] = per_weight / p.inv_unit[2 * k + 1]
    if not s.scan.direct:
        # No row adds more than this per unit of leaf-minimum weight, so a sum this large proves the minimum.
        highest = p.peak[2] * p.inv_unit[1] + 1.0 if p.newton else 1.0
        s.scan.certain_low = highest * s.min_weight * p.count_ratio


cdef void pack_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    """Quantise own rows into histogram words; sum the root; set the index to the identity."""
    cdef size_t n = s.n_rows
    cdef size_t b = s.row_begin[t]
    cdef int words = s.scan.n_words
    cdef int64_t *root = p.root_sums + t * words
    cdef const uint32_t *w
    cdef int32_t hi[BLOCK_ROWS]
    cdef int32_t lo[BLOCK_ROWS]
    cdef int word, k, m
    cdef size_t i
    skb_identity(s.index, b, s.row_begin[t + 1])
    memset(root, 0, words * sizeof(int64_t))
    while b < s.row_begin[t + 1]:
        m = <int>min(<size_t>BLOCK_ROWS, s.row_begin[t + 1] - b)
        w = NULL if p.units == NULL else p.units + b
        for word in range(words):
            k = word if p.newton or word == 0 else 2 * word - 1
            quantise(p.noisy + k * n + b, w, p.integer_weights, p.inv_unit[2 * k], m, hi)
            if p.newton:
                quantise(p.hess + k * n + b, w, p.integer_weights, p.inv_unit[2 * k + 1], m, lo)
            elif word == 0:
                for i in range(<size_t>m):
                    lo[i] = 1 if w == NULL else <int32_t>w[i]
            elif k + 1 < p.n_outputs:
                quantise(p.noisy + (k + 1) * n + b, w, p.integer_weights, p.inv_unit[2 * k + 2], m, lo)
            else:
                memset(lo, 0, m * sizeof(int32_t))
            pack_words(hi, lo, words, m, s.packed + b * words + word)
            for i in range(<size_t>m):
                root[word] += s.packed[(b + i) * words + word]
        b += m


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


# ---------------------------------------------------------------- growth

cdef void partition_batch(tree_t *s, int t) noexcept nogil:
    """Split own segments of the batch nodes."""
    cdef int i, node
    cdef size_t left, start, size, before, after
    cdef uint8_t left_codes[256]
    cdef node_t *p
    cdef size_t T = s.n_threads
    for i in range(s.n_batch):
        node = s.batch[i]
        p = &s.nodes[node]
        start = s.seg_start[node * T + t]
        size = s.seg_size[node * T + t]
        before = <size_t>p.feature * s.n_rows
        after = <size_t>(s.n_features - 1 - p.feature) * s.n_rows
        if p.categorical:
            set_codes(p.left_set, left_codes)
        else:
            numeric_codes(p.bin, p.missing_right != 0, left_codes)
        left = partition_rows(s.codes_col + before, before, after, s.index + start, size, left_codes,
                              s.buffer + s.row_begin[t])
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
        hist = s.nodes[item.node].hist if t == 0 else s.private_slots[i * (s.n_threads - 1) + t - 1]
        for j in range(s.n_listed):
            memset(hist + <size_t>s.features[j] * s.stride * words, 0,
                   <size_t>s.n_bins[s.features[j]] * words * sizeof(int64_t))
        node = <size_t>item.node * s.n_threads + t
        if item.node == 0 and not all_features(s):
            skb_hist_columns(s.codes_col, s.n_rows, s.row_begin[t], s.row_begin[t + 1], s.packed, words, s.features,
                             s.n_listed, s.stride, hist)
        elif all_features(s):
            skb_hist_rows(s.codes_row, s.row_stride, s.index + s.seg_start[node], s.seg_size[node], s.packed, words, 0,
                          s.n_features, s.stride, hist)
        else:
            skb_hist_listed(s.codes_row, s.row_stride, s.index + s.seg_start[node], s.seg_size[node], s.packed, words,
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
                skb_hist_rows(s.codes_row, s.row_stride, s.index + s.seg_start[segment], s.seg_size[segment], s.packed,
                              words, j0, j1, s.stride, hist)
            else:
                skb_hist_listed(s.codes_row, s.row_stride, s.index + s.seg_start[segment], s.seg_size[segment],
                                s.packed, words, s.features + j0, j1 - j0, s.stride, hist)
    for j in range(j0, j1):
        at = <size_t>s.features[j] * s.stride * words
        size = <size_t>s.n_bins[s.features[j]] * words
        if item.by_rows:
            for u in range(s.n_threads - 1):
                skb_hist_add(hist + at, s.private_slots[position * (s.n_threads - 1) + u] + at, size)
        if item.sibling >= 0:
            skb_hist_subtract(s.nodes[item.sibling].hist + at, hist + at, size)


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


cdef inline void add_gains(double *sums, const double *scores, int n, double before,
                           const uint8_t *certain) noexcept nogil:
    cdef double gain
    cdef int b
    for b in range(n):
        gain = scores[b] - before if scores[b] > SKB_INVALID else 0.0
        sums[b] += gain if certain == NULL or certain[b] or gain > 0.0 else 0.0


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


cdef void count_feature(tree_t *s, int node, int feature, uint32_t *counts) noexcept nogil:
    """Histogram of the leaf-minimum weights of one node on one feature."""
    cdef int32_t listed = feature
    cdef size_t segment
    cdef int u
    memset(counts, 0, s.n_bins[feature] * sizeof(uint32_t))
    for u in range(s.n_threads):
        segment = <size_t>node * s.n_threads + u
        skb_hist_weights(s.codes_row, s.row_stride, s.index + s.seg_start[segment], s.seg_size[segment], s.count_weight,
                         &listed, 1, 0, counts)


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
            skb_hist_weights(s.codes_row, s.row_stride, s.index + s.seg_start[segment], s.seg_size[segment],
                             s.count_weight, s.features + j0, j1 - j0, s.stride, counts)
        for j in range(j0, j1):
            scan_one(s, s.recount[i], s.features[j], counts + <size_t>s.features[j] * s.stride)


# ---------------------------------------------------------------- leaves

cdef void list_leaves(tree_t *s, step_t *p) noexcept nogil:
    cdef int i
    p.n_leaves = 0
    p.leaves = <int *>malloc(s.n_nodes * sizeof(int))
    if p.leaves != NULL:
        for i in range(s.n_nodes):
            if s.nodes[i].left < 0 and not s.nodes[i].dead:
                p.leaves[p.n_leaves] = i
                p.n_leaves += 1
    p.leaf_sums = <int64_t *>malloc(<size_t>s.n_threads * p.n_leaves * (2 * p.n_outputs + 1) * sizeof(int64_t))
    p.leaf_value = <double *>malloc(<size_t>p.n_leaves * p.n_outputs * sizeof(double))
    p.leaf_weight = <double *>malloc(p.n_leaves * sizeof(double))
    if p.leaves == NULL or p.leaf_sums == NULL or p.leaf_value == NULL or p.leaf_weight == NULL:
        s.failed = 1


cdef void leaf_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    """Exact sums of the noise-free gradients over own rows of every leaf."""
    cdef int width = 2 * p.n_outputs + 1
    cdef int64_t *sums
    cdef const uint32_t *idx
    cdef size_t segment, m
    cdef int i, k
    for i in range(p.n_leaves):
        segment = <size_t>p.leaves[i] * s.n_threads + t
        idx = s.index + s.seg_start[segment]
        m = s.seg_size[segment]
        sums = p.leaf_sums + (<size_t>t * p.n_leaves + i) * width
        for k in range(p.n_outputs):
            sums[2 * k] = leaf_sum(idx, m, p.grad + k * s.n_rows, p.leaf_scale[2 * k], p.weight, p.weight_scale)
            sums[2 * k + 1] = 0
            if p.hess != NULL:
                sums[2 * k + 1] = leaf_sum(idx, m, p.hess + k * s.n_rows, p.leaf_scale[2 * k + 1], p.weight,
                                           p.weight_scale)
        if p.weight == NULL:
            sums[width - 1] = m
        else:
            sums[width - 1] = skb_weight_sum(idx, m, p.weight, p.weight_scale * 1073741824.0)


cdef void leaf_values(tree_t *s, step_t *p) noexcept nogil:
    """Step of every leaf: -eps (G + sigma sqrt(D) xi) / D with D = W + lambda, or H + lambda for Newton leaves."""
    cdef int width = 2 * p.n_outputs + 1
    cdef double unit = 1.0 / p.weight_scale
    cdef double W, G, H, D, metric, value
    cdef int64_t total
    cdef int i, k, t
    for i in range(p.n_leaves):
        total = 0
        for t in range(s.n_threads):
            total += p.leaf_sums[(<size_t>t * p.n_leaves + i) * width + width - 1]
        W = <double>total if p.weight == NULL else <double>total * unit / 1073741824.0
        p.leaf_weight[i] = W
        for k in range(p.n_outputs):
            total = 0
            for t in range(s.n_threads):
                total += p.leaf_sums[(<size_t>t * p.n_leaves + i) * width + 2 * k]
            G = <double>total * unit / p.leaf_scale[2 * k]
            total = 0
            for t in range(s.n_threads):
                total += p.leaf_sums[(<size_t>t * p.n_leaves + i) * width + 2 * k + 1]
            H = <double>total * unit / p.leaf_scale[2 * k + 1]
            metric = W / max(H, 0.5 * unit / p.leaf_scale[2 * k + 1]) if p.metric else 1.0
            D = (H if p.newton else p.curvature * W) + p.lambda_
            D = leaf_denominator(&p.loss, k, G / p.gradient_scale, D)
            value = 0.0
            if W > 0.0 and D > 0.0:
                if p.sigma > 0.0:
                    G += p.sigma * sqrt(D * metric) * skb_normal(skb_key(p.seed, STREAM_LEAF, p.iteration, k), i)
                value = -G / D
                if s.scan.bounded:
                    value = max(s.nodes[p.leaves[i]].bounds[0], min(s.nodes[p.leaves[i]].bounds[1], value))
                value *= p.learning_rate
            p.leaf_value[<size_t>i * p.n_outputs + k] = value


cdef void update_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    cdef size_t segment
    cdef int i, k
    for i in range(p.n_leaves):
        segment = <size_t>p.leaves[i] * s.n_threads + t
        for k in range(p.n_outputs):
            skb_add_value(s.index + s.seg_start[segment], s.seg_size[segment],
                          p.leaf_value[<size_t>i * p.n_outputs + k], p.score + k * s.n_rows)


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
        if s.any_by_rows and not s.failed:
            build_rows(s, t)
            if skb_barrier_arrive(&p.barrier, &spin):
                skb_barrier_release(&p.barrier)
        finish_and_scan(s, t)
        if skb_barrier_arrive(&p.barrier, &spin):
            decide(s)
            skb_barrier_release(&p.barrier)
        if s.n_recount:
            recount(s, t)
            if skb_barrier_arrive(&p.barrier, &spin):
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
    if skb_barrier_arrive(&p.barrier, &spin):
        leaf_values(s, p)
        skb_barrier_release(&p.barrier)
    update_pass(s, p, t)


# ---------------------------------------------------------------- the door

cdef void *allocated(size_t count, size_t size) except NULL:
    cdef void *block = calloc(max(count, <size_t>1), size)
    if block == NULL:
        raise MemoryError
    return block


cdef class Trainer:
    """Workspace of one fit: holds the rows' state and grows one tree per call.

    Parameters
    ----------
    codes_col, codes_row : uint8 arrays (n_features, n_rows) and (n_rows, padded n_features)
    n_bins, is_categorical : int32 and uint8 arrays (n_features,)
    loss : object with kind, n_outputs and params
    y : float64 array (n_rows,)
    base : float64 array (n_outputs,), added to every raw score
    rules : dict
        policy, max_depth, max_leaves, min_weight (grid units), l2, learning_rate, newton, curvature (default 1),
        monotone (int8 array or None), groups (uint8 array (n_groups, n_features) or None).
    weights : dict or None
        weight (float64), units (uint32, weight on the integer grid), scale (grid units per weight), integer (bool),
        counts (uint32, what min_weight bounds, or None when that is units).
    noise : dict or None
        hash0, hash1 (uint32), inv_root_weight (float32): structure noise keyed by row content.
    n_threads : int
    """

    cdef tree_t s
    cdef step_t p
    cdef int n_threads
    cdef bint has_counts
    cdef list keep
    cdef readonly object scores
    cdef readonly int n_outputs

    def __cinit__(self):
        memset(&self.s, 0, sizeof(tree_t))
        memset(&self.p, 0, sizeof(step_t))

    def __dealloc__(self):
        cdef step_t *p = &self.p
        tree_release(&self.s)
        self.release_leaves()
        free(p.peak)
        free(p.sums)
        free(p.root_sums)
        free(p.coarse)
        free(p.inv_unit)
        free(p.leaf_scale)
        free(p.g_unit)
        free(p.h_unit)

    cdef void release_leaves(self) noexcept nogil:
        free(self.p.leaves)
        free(self.p.leaf_sums)
        free(self.p.leaf_value)
        free(self.p.leaf_weight)
        self.p.leaves = NULL
        self.p.leaf_sums = NULL
        self.p.leaf_value = self.p.leaf_weight = NULL

    def __init__(self, const uint8_t[:, ::1] codes_col, const uint8_t[:, ::1] codes_row, const int32_t[::1] n_bins,
                 const uint8_t[::1] is_categorical, loss, const double[::1] y, const double[::1] base, dict rules,
                 dict weights=None, dict noise=None, int n_threads=1):
        cdef tree_t *s = &self.s
        cdef step_t *p = &self.p
        cdef Py_ssize_t n = codes_col.shape[1]
        cdef Py_ssize_t n_features = codes_col.shape[0]
        cdef int k
        if n < 1 or n_features < 1:
            raise ValueError("training needs at least one row and one feature")
        if codes_row.shape[0] != n or codes_row.shape[1] < n_features or y.shape[0] != n:
            raise ValueError("codes and y differ in shape")
        if n_bins.shape[0] != n_features or is_categorical.shape[0] != n_features:
            raise ValueError("n_bins and is_categorical need one entry per feature")
        if n > 2 ** 30:
            raise ValueError("more than 2**30 rows are not supported")     # sums of ones would leave half a word
        if np.min(n_bins) < 1 or np.max(n_bins) > 256:
            raise ValueError("n_bins must lie in [1, 256]")
        loss_from_object(loss, &p.loss)
        self.n_outputs = k = p.n_outputs = p.loss.n_outputs
        if base.shape[0] != k or not 1 <= k <= 255:
            raise ValueError("base needs one entry per output, at most 255")
        self.n_threads = max(1, min(n_threads, MAX_THREADS, <int>(n // BLOCK_ROWS) + 1))
        self.keep = [codes_col, codes_row, n_bins, is_categorical, y, base]
        s.n_rows, s.n_features, s.row_stride = n, n_features, codes_row.shape[1]
        s.codes_col, s.codes_row = &codes_col[0, 0], &codes_row[0, 0]
        s.n_bins, s.is_categorical = &n_bins[0], &is_categorical[0]
        p.y, p.base = &y[0], &base[0]
        p.newton = rules["newton"]
        p.metric = not p.newton and loss_needs_metric(&p.loss)
        self.set_rules(rules)
        self.set_weights(weights)
        self.set_noise(noise)
        self.set_scan()
        self.allocate()

    cdef int set_rules(self, dict rules) except -1:
        cdef tree_t *s = &self.s
        cdef const int8_t[::1] monotone
        cdef const uint8_t[:, ::1] groups
        s.policy = rules["policy"]
        s.max_depth = rules["max_depth"]
        s.max_leaves = rules["max_leaves"]
        s.min_weight = rules["min_weight"]
        self.p.learning_rate = rules["learning_rate"]
        self.p.lambda_ = rules["l2"]
        self.p.curvature = rules.get("curvature", 1.0)
        if s.policy == POLICY_SYMMETRIC and s.max_depth > 16:
            raise ValueError("symmetric trees have at most 16 levels")
        if rules["monotone"] is not None:
            monotone = rules["monotone"]
            if monotone.shape[0] != s.n_features or self.p.n_outputs != 1:
                raise ValueError("monotone constraints need one entry per feature and a loss with one output")
            s.monotone = &monotone[0]
            s.scan.bounded = 1
            self.keep.append(monotone)
        if rules["groups"] is not None:
            groups = rules["groups"]
            if groups.shape[1] != s.n_features or groups.shape[0] < 1:
                raise ValueError("groups must have one column per feature")
            s.groups, s.n_groups = &groups[0, 0], groups.shape[0]
            self.keep.append(groups)
        return 0

    cdef int set_weights(self, dict weights) except -1:
        cdef const double[::1] weight
        cdef const uint32_t[::1] units
        cdef const uint32_t[::1] counts
        cdef tree_t *s = &self.s
        self.p.weight_scale = 1.0
        self.p.integer_weights = True
        self.p.count_ratio = 1.0
        self.p.root_weight = s.n_rows
        s.scan.direct = not self.p.newton
        if weights is None:
            return 0
        weight, units = weights["weight"], weights["units"]
        if weight.shape[0] != <Py_ssize_t>s.n_rows or units.shape[0] != <Py_ssize_t>s.n_rows:
            raise ValueError("weights need one entry per row")
        if int(np.sum(units, dtype=np.uint64)) > 2 ** 30:
            raise ValueError("the grid weights must sum to at most 2**30")
        self.p.weight, self.p.units = &weight[0], &units[0]
        self.p.weight_scale = weights["scale"]
        self.p.integer_weights = weights["integer"]
        self.has_counts = weights["counts"] is not None
        counts = weights["counts"] if self.has_counts else units
        if counts.shape[0] != <Py_ssize_t>s.n_rows:
            raise ValueError("counts need one entry per row")
        s.count_weight = &counts[0]
        s.scan.direct = s.scan.direct and not self.has_counts
        self.p.root_weight = int(np.sum(counts, dtype=np.uint64))
        if not s.scan.direct:
            # Half as much again for units that a row draw rounds.
            self.p.count_ratio = 1.5 * np.max(np.asarray(units) / np.maximum(np.asarray(counts), 1e-100))
        self.keep += [weight, units, counts]
        return 0

    cdef int set_noise(self, dict noise) except -1:
        cdef const uint32_t[::1] hash0
        cdef const uint32_t[::1] hash1
        cdef const float[::1] inv
        cdef Py_ssize_t n = self.s.n_rows
        if noise is None:
            return 0
        hash0, hash1, inv = noise["hash0"], noise["hash1"], noise["inv_root_weight"]
        if hash0.shape[0] != n or hash1.shape[0] != n or inv.shape[0] != n:
            raise ValueError("the noise arrays need one entry per row")
        self.p.hash0, self.p.hash1, self.p.inv_root_weight = &hash0[0], &hash1[0], &inv[0]
        self.keep += [hash0, hash1, inv]
        return 0

    cdef int set_scan(self) except -1:
        cdef tree_t *s = &self.s
        cdef int k = self.p.n_outputs
        cdef int top = int(np.max(np.asarray(<const int32_t[:s.n_features]>s.n_bins)))
        s.scan.n_outputs = k
        s.scan.newton = self.p.newton
        s.scan.n_words = k if self.p.newton else 1 + k // 2
        s.scan.lambda_ = self.p.lambda_
        s.scan.min_low = <int32_t>max(<uint64_t>1, min(s.min_weight, <uint64_t>2147483647))
        s.scan.min_count = <uint32_t>max(<uint64_t>1, min(s.min_weight, <uint64_t>4294967295))
        s.stride = (top + 7) // 8 * 8 + 8
        if s.stride & (s.stride - 1) == 0:
            s.stride += 8
        s.slot_words = s.stride * s.n_features * s.scan.n_words
        s.batch_limit = max(1, min(256, (1 << 18) // s.n_features))
        s.slots_kept = <int>max(<size_t>8, (<size_t>1 << 28) // (s.slot_words * sizeof(int64_t)))
        return 0

    cdef int allocate(self) except -1:
        cdef tree_t *s = &self.s
        cdef step_t *p = &self.p
        cdef int k = p.n_outputs
        cdef Py_ssize_t n = s.n_rows
        cdef double[:, ::1] score
        cdef float[:, ::1] rows
        cdef int64_t[::1] packed
        cdef uint32_t[::1] index
        s.n_threads = s.max_threads = self.n_threads
        p.peak = <float *>allocated(s.n_threads * 3 * k, sizeof(float))
        p.sums = <int64_t *>allocated(s.n_threads * 2 * k, sizeof(int64_t))
        p.root_sums = <int64_t *>allocated(s.n_threads * s.scan.n_words, sizeof(int64_t))
        p.coarse = <float *>allocated(2 * k, sizeof(float))
        p.inv_unit = <float *>allocated(2 * k, sizeof(float))
        p.leaf_scale = <float *>allocated(2 * k, sizeof(float))
        p.g_unit = <double *>allocated(k, sizeof(double))
        p.h_unit = <double *>allocated(k, sizeof(double))
        s.scan.g_unit, s.scan.h_unit = p.g_unit, p.h_unit
        self.scores = np.zeros((k, n))
        score = self.scores
        p.score = &score[0, 0]
        rows = np.empty((k, n), dtype=np.float32)
        p.grad = &rows[0, 0]
        self.keep.append(rows)
        if p.hash0 != NULL:
            rows = np.empty((k, n), dtype=np.float32)
            p.noisy_rows = &rows[0, 0]
            self.keep.append(rows)
        if p.newton or p.metric:
            rows = np.empty((k, n), dtype=np.float32)
            p.hess = &rows[0, 0]
            self.keep.append(rows)
        packed = np.empty(n * s.scan.n_words, dtype=np.int64)
        s.packed = &packed[0]
        index = np.zeros(n + SKB_PREFETCH_ROWS, dtype=np.uint32)
        s.index = &index[0]
        self.keep += [packed, index]
        index = np.empty(n, dtype=np.uint32)
        s.buffer = &index[0]
        self.keep.append(index)
        if tree_reserve(s):
            raise MemoryError
        return 0

    def grow(self, uint64_t iteration, uint64_t seed, double shrink=1.0, double sigma=0.0, double gradient_scale=1.0,
             const int32_t[::1] features=None, const uint32_t[::1] units=None, const uint32_t[::1] counts=None):
        """Shrink the scores, grow one tree on the gradients there, add it to the scores and return it as arrays.

        features are the columns the tree may use (ascending). units, counts replace the structure weights and the
        weights that min_weight bounds for this tree only (row sub-sampling); leaves always use all rows.
        """
        cdef tree_t *s = &self.s
        cdef step_t *p = &self.p
        cdef const uint32_t *own_units = p.units
        cdef const uint32_t *own_counts = s.count_weight
        cdef uint64_t own_weight = p.root_weight
        cdef const int32_t[::1] listed
        if sigma > 0.0 and p.hash0 == NULL:
            raise ValueError("noise needs row hashes")
        if (counts is not None) != (units is not None and self.has_counts):
            raise ValueError("counts go with units when the weights have counts, and only then")
        listed = np.arange(s.n_features, dtype=np.int32) if features is None else features
        if listed.shape[0] < 1 or listed.shape[0] > s.n_features or listed[0] < 0 or (
                listed[listed.shape[0] - 1] >= s.n_features) or np.any(np.diff(listed) <= 0):
            raise ValueError("features must be ascending column numbers")
        s.features, s.n_listed = &listed[0], <int>listed.shape[0]
        p.iteration, p.seed, p.shrink, p.sigma, p.gradient_scale = iteration, seed, shrink, sigma, gradient_scale
        p.noisy = p.noisy_rows if sigma > 0.0 else p.grad
        if units is not None:
            if units.shape[0] != <Py_ssize_t>s.n_rows or (counts is not None and counts.shape[0] != units.shape[0]):
                raise ValueError("units and counts need one entry per row")
            if int(np.sum(units, dtype=np.uint64)) > 2 ** 30:
                raise ValueError("the grid weights must sum to at most 2**30")
            p.units = &units[0]
            s.count_weight = p.units if counts is None else &counts[0]
            p.root_weight = int(np.sum(units if counts is None else counts, dtype=np.uint64))
        try:
            self.run()
            if s.failed:
                raise MemoryError("histograms of this tree do not fit into memory")
            return self.export()
        finally:
            p.units, s.count_weight, p.root_weight = own_units, own_counts, own_weight
            self.release_leaves()
            self.reset_tree()

    cdef int run(self) except -1:
        cdef tree_t *s = &self.s
        cdef step_t *p = &self.p
        cdef int wanted = self.n_threads
        cdef int t
        while True:
            s.n_threads = wanted
            for t in range(wanted + 1):
                s.row_begin[t] = s.n_rows * t // wanted // BLOCK_ROWS * BLOCK_ROWS if t < wanted else s.n_rows
            skb_barrier_init(&p.barrier, wanted)
            p.granted = wanted
            with nogil:
                if wanted == 1:
                    worker(s, p, 0)
                else:
                    with parallel(num_threads=wanted):
                        guarded_worker(s, p, skb_thread_num(), skb_num_threads())
            if p.granted == wanted:
                return 0
            wanted = p.granted     # OpenMP gave fewer threads, so no thread worked; the rows are dealt anew

    cdef void reset_tree(self) noexcept:
        """Give back the histogram slots of the finished tree."""
        cdef tree_t *s = &self.s
        cdef int i
        s.failed = 0
        s.n_free = s.n_slots
        for i in range(s.n_slots):
            s.free_slots[i] = s.slots[i]

    cdef dict export(self):
        cdef tree_t *s = &self.s
        cdef step_t *p = &self.p
        cdef int k = p.n_outputs
        value = np.empty((p.n_leaves, k))
        weight = np.empty(p.n_leaves)
        cdef double[:, ::1] value_view = value
        cdef double[::1] weight_view = weight
        cdef int i, j
        for i in range(p.n_leaves):
            weight_view[i] = p.leaf_weight[i]
            for j in range(k):
                value_view[i, j] = p.leaf_value[i * k + j]
        tree = self.export_levels() if s.policy == POLICY_SYMMETRIC else self.export_nodes()
        tree["leaf_value"] = value
        tree["leaf_weight"] = weight
        return tree

    cdef int[::1] numbering(self):
        """Number of every node among the leaves (as ~number) or among the inner nodes."""
        cdef tree_t *s = &self.s
        cdef int[::1] number = np.zeros(s.n_nodes, dtype=np.intc)
        cdef int inner = 0
        cdef int leaf = 0
        cdef int i
        for i in range(s.n_nodes):
            if s.nodes[i].dead:
                continue
            if s.nodes[i].left < 0:
                number[i] = ~leaf
                leaf += 1
            else:
                number[i] = inner
                inner += 1
        return number

    cdef dict export_nodes(self):
        cdef tree_t *s = &self.s
        cdef int[::1] number = self.numbering()
        cdef int m = s.n_leaves - 1
        cdef int i, b
        cdef int at = 0
        cdef int n_sets = 0
        cdef node_t *q
        tree = empty_tests(m)
        left, right = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
        cdef int32_t[::1] left_view = left
        cdef int32_t[::1] right_view = right
        cdef int32_t[::1] feature = tree["feature"]
        cdef uint8_t[::1] threshold = tree["threshold"]
        cdef uint8_t[::1] missing_right = tree["missing_right"]
        cdef int32_t[::1] cat_set = tree["cat_set"]
        cdef double[::1] gain = tree["gain"]
        cdef uint8_t[:, ::1] sets = tree["cat_sets"]
        for i in range(s.n_nodes):
            q = &s.nodes[i]
            if q.left < 0:
                continue
            feature[at], gain[at] = q.feature, q.gain
            threshold[at] = 0 if q.categorical else <uint8_t>q.bin
            missing_right[at] = 0 if q.categorical else q.missing_right != 0
            cat_set[at] = n_sets if q.categorical else -1
            if q.categorical:
                for b in range(32):
                    sets[n_sets, b] = q.left_set[b]
                n_sets += 1
            left_view[at], right_view[at] = number[q.left], number[q.right]
            at += 1
        tree["cat_sets"] = tree["cat_sets"][:n_sets]
        tree["left"], tree["right"] = left, right
        return tree

    cdef dict export_levels(self):
        cdef tree_t *s = &self.s
        cdef int[::1] number = self.numbering()
        cdef int depth = s.n_levels
        cdef int i, b, node
        cdef int n_sets = 0
        cdef int64_t code
        cdef level_t *q
        tree = empty_tests(depth)
        table = np.empty(1 << depth, dtype=np.int32)
        cdef int32_t[::1] table_view = table
        cdef int32_t[::1] feature = tree["feature"]
        cdef uint8_t[::1] threshold = tree["threshold"]
        cdef uint8_t[::1] missing_right = tree["missing_right"]
        cdef int32_t[::1] cat_set = tree["cat_set"]
        cdef double[::1] gain = tree["gain"]
        cdef uint8_t[:, ::1] sets = tree["cat_sets"]
        for i in range(depth):
            q = &s.levels[i]
            feature[i], gain[i] = q.feature, q.gain
            threshold[i] = 0 if q.categorical else <uint8_t>q.bin
            missing_right[i] = 0 if q.categorical else q.missing_right != 0
            cat_set[i] = n_sets if q.categorical else -1
            if q.categorical:
                for b in range(32):
                    sets[n_sets, b] = q.left_set[b]
                n_sets += 1
        for code in range(1 << depth):
            node = 0
            for i in range(depth):
                if s.nodes[node].level == i:
                    node = s.nodes[node].right if (code >> i) & 1 else s.nodes[node].left
            table_view[code] = ~number[node]
        tree["cat_sets"] = tree["cat_sets"][:n_sets]
        tree["table"] = table
        return tree


cdef dict empty_tests(int m):
    return {
        "feature": np.empty(m, dtype=np.int32),
        "threshold": np.empty(m, dtype=np.uint8),
        "missing_right": np.empty(m, dtype=np.uint8),
        "cat_set": np.empty(m, dtype=np.int32),
        "gain": np.empty(m),
        "cat_sets": np.empty((m, 32), dtype=np.uint8),
    }


cdef void guarded_worker(tree_t *s, step_t *p, int t, int granted) noexcept nogil:
    """Work only when every wanted thread is there: a missing one would never reach the barriers."""
    if granted == s.n_threads:
        worker(s, p, t)
    elif t == 0:
        p.granted = granted
