"""Search of main effects: the best cuts of a line of cells, and cuts drawn at random.

A numeric term is a line of value cells with the missing cell apart; a nominal one is the line of its heavier levels,
sorted by G / H, with the pooled light levels apart. What is apart (the block) joins one side of each cut; a leaf of the
growing tree is a part of the line, with or without the block.
"""

from libc.float cimport DBL_MAX, DBL_MIN
from libc.math cimport INFINITY
from libc.stdint cimport uint64_t

from skboost._engine.stage cimport sums_t, term_t

import numpy as np

cdef extern from *:
    """
    #include "isa.h"
    #include "rng.h"
    #define SKB_IMPL "terms_impl.h"
    #include "isa_expand.h"
    static void skb_d_line_sums(const double *x, int n, double *below)
    { SKB_DISPATCH(skb_line_sums)(x, n, below); }
    static double skb_d_known_scores(int n, const double *G, const double *left, const double *right, skb_sides_t g,
                                   double *score)
    { return SKB_DISPATCH(skb_known_scores)(n, G, left, right, g, score); }
    static void skb_d_heavy_cuts(int n, const double *W, skb_sides_t w, double least, double *score)
    { SKB_DISPATCH(skb_heavy_cuts)(n, W, w, least, score); }
    static void skb_d_add_cut_scores(int n, const double *G, const double *H, skb_sides_t g, skb_sides_t h,
                                     double least, double l2, double *score)
    { SKB_DISPATCH(skb_add_cut_scores)(n, G, H, g, h, least, l2, score); }
    static void skb_d_add_monotone_scores(int n, const double *G, const double *H, skb_sides_t g, skb_sides_t h,
                                          double least, double l2, double direction, double lower, double upper,
                                          double *score)
    { SKB_DISPATCH(skb_add_monotone_scores)(n, G, H, g, h, least, l2, direction, lower, upper, score); }
    static double skb_d_largest(int n, const double *score) { return SKB_DISPATCH(skb_largest)(n, score); }
    static int skb_d_find_equal(int n, const double *score, double value, int *first)
    { return SKB_DISPATCH(skb_find_equal)(n, score, value, first); }
    static void skb_d_fill(int n, double value, double *out) { SKB_DISPATCH(skb_fill)(n, value, out); }
    """
    ctypedef struct skb_sides_t:
        double start
        double end
        double add_left
        double add_right
    uint64_t skb_key(uint64_t seed, uint64_t stream, uint64_t iteration, uint64_t output) nogil
    double skb_uniform(uint64_t key, uint64_t counter) nogil
    void skb_isa_init() nogil
    void skb_d_line_sums(const double *x, int n, double *below) nogil
    double skb_d_known_scores(int n, const double *G, const double *left, const double *right, skb_sides_t g,
                              double *score) nogil
    void skb_d_heavy_cuts(int n, const double *W, skb_sides_t w, double least, double *score) nogil
    void skb_d_add_cut_scores(int n, const double *G, const double *H, skb_sides_t g, skb_sides_t h, double least,
                              double l2, double *score) nogil
    void skb_d_add_monotone_scores(int n, const double *G, const double *H, skb_sides_t g, skb_sides_t h,
                                   double least, double l2, double direction, double lower, double upper,
                                   double *score) nogil
    double skb_d_largest(int n, const double *score) nogil
    int skb_d_find_equal(int n, const double *score, double value, int *first) nogil
    void skb_d_fill(int n, double value, double *out) nogil

skb_isa_init()

cdef enum:
    LEFT = 0
    RIGHT = 1
    TIE_DRAW = 0        # which of equal cuts
    OUTPUT_DRAW = 1     # which output sorts the levels
    LEAF_DOUBLES = 5    # room of a leaf_t

ctypedef struct leaf_t:
    int start          # cells start..end-1 of the line
    int end
    int block          # whether the block belongs to it
    int cut            # best cut: cells start..cut-1 go left
    int block_side     # where the block goes then
    double gain        # 0: no legal cut gains
    double value       # of output 0

# The line of a term, its sums below each cut, and what is apart from it.
ctypedef struct line_t:
    const term_options_t *options
    int n_outputs
    int length
    int stride         # of the sums of the outputs
    double *G          # (n_outputs, stride)
    double *H
    const double *W    # (stride,)
    int has_block
    double *block_G    # (n_outputs,)
    double *block_H
    double block_W
    int side_allowed[2]
    int alone[2]       # whether the block alone may be that side of a cut
    int monotone
    const double *reciprocals    # or NULL: (4, cache_stride)
    int cache_stride
    double *scores[2]
    uint64_t key


cdef double leaf_value(double G, double H, double l2) noexcept nogil:
    return -(G / (H + l2)) if H >= DBL_MIN else 0.0


cdef double leaf_score(double G, double H, double l2) noexcept nogil:
    return G * G / (H + l2) if H >= DBL_MIN else 0.0


cdef Py_ssize_t term_work_size(int n_cells, int n_outputs) noexcept nogil:
    # sums below the cuts (G, H, W), scores of two sides, order of the levels, leaves; sums of the block
    return (<Py_ssize_t>n_cells + 2) * (2 * <Py_ssize_t>n_outputs + 4 + LEAF_DOUBLES) + 2 * <Py_ssize_t>n_outputs


cdef Py_ssize_t term_cache_size(int n_cells) noexcept nogil:
    return 5 * <Py_ssize_t>n_cells


cdef inline skb_sides_t sides_of(const double *below, int start, int end, double add_left,
                                 double add_right) noexcept nogil:
    cdef skb_sides_t out
    out.start = below[start]
    out.end = below[end]
    out.add_left = add_left
    out.add_right = add_right
    return out


# ------------------------------------------------------------------------------------------------ lines


cdef void place_block(line_t *line, const term_t *term) noexcept nogil:
    """Which sides of a cut the block may join."""
    cdef int missing = line.options.missing
    line.side_allowed[LEFT] = line.side_allowed[RIGHT] = line.has_block
    line.alone[LEFT] = line.alone[RIGHT] = False
    if term.nominal or not line.has_block:
        return
    if missing == MISSING_LOW or (missing == MISSING_GAIN and line.length == 1):
        line.side_allowed[RIGHT] = False
        line.alone[LEFT] = True
    elif missing == MISSING_HIGH:
        line.side_allowed[LEFT] = False
        line.alone[RIGHT] = True


cdef void numeric_line(line_t *line, const term_t *term, const sums_t *sums, const term_cache_t *cache,
                       double *W_room) noexcept nogil:
    cdef int k, n = term.n_cells
    line.length = n - 2
    line.has_block = term.has_missing and line.options.missing != MISSING_SEPARATE
    for k in range(line.n_outputs):
        skb_d_line_sums(sums.G + <Py_ssize_t>k * n + 1, line.length, line.G + <Py_ssize_t>k * line.stride)
        line.block_G[k] = sums.G[<Py_ssize_t>k * n]
        line.block_H[k] = sums.H[<Py_ssize_t>k * n]
    line.block_W = sums.W[0]
    if cache != NULL and cache.below != NULL:
        line.W = cache.below
        if sums.H == sums.W and line.n_outputs == 1:
            line.reciprocals = cache.reciprocals
            line.cache_stride = n
    else:
        skb_d_line_sums(sums.W + 1, line.length, W_room)
        line.W = W_room
    if sums.H == sums.W and line.n_outputs == 1:
        line.H = <double *>line.W
    else:
        for k in range(line.n_outputs):
            skb_d_line_sums(sums.H + <Py_ssize_t>k * n + 1, line.length, line.H + <Py_ssize_t>k * line.stride)


cdef void sift_down(int *order, const double *key, int at, int n) noexcept nogil:
    cdef int child, item = order[at]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and before(key, order[child], order[child + 1]):
            child += 1
        if not before(key, item, order[child]):
            break
        order[at] = order[child]
        at = child
    order[at] = item


cdef inline bint before(const double *key, int a, int b) noexcept nogil:
    return key[a] < key[b] or (key[a] == key[b] and a < b)


cdef void sort_by_key(int *order, const double *key, int n) noexcept nogil:
    """Heap sort of cell numbers by (key, number); insertion sort of short lists."""
    cdef int i, j, item
    if n <= 32:
        for i in range(1, n):
            item = order[i]
            j = i
            while j > 0 and before(key, item, order[j - 1]):
                order[j] = order[j - 1]
                j -= 1
            order[j] = item
        return
    for i in range(n // 2 - 1, -1, -1):
        sift_down(order, key, i, n)
    for i in range(n - 1, 0, -1):
        item = order[0]
        order[0] = order[i]
        order[i] = item
        sift_down(order, key, 0, i)


cdef void nominal_line(line_t *line, const term_t *term, const sums_t *sums, int *order, double *room,
                       double *W_room) noexcept nogil:
    """Sort the levels of enough weight; the others with weight are the block."""
    cdef const term_options_t *options = line.options
    cdef int b, k, n = term.n_cells, length = 0, sort_output = 0
    cdef const double *G
    cdef const double *H
    if line.n_outputs > 1:
        sort_output = min(<int>(skb_uniform(line.key, OUTPUT_DRAW) * line.n_outputs), line.n_outputs - 1)
    G = sums.G + <Py_ssize_t>sort_output * n
    H = sums.H + <Py_ssize_t>sort_output * n
    for k in range(line.n_outputs):
        line.block_G[k] = line.block_H[k] = 0.0
    line.block_W = 0.0
    line.has_block = False
    for b in range(n - 1):
        if sums.W[b] <= 0.0:
            continue
        if sums.W[b] >= options.min_cat_samples:
            order[length] = b
            # H + smooth is 0 only where H is and nothing is added
            room[b] = G[b] / (H[b] + options.cat_smooth) if H[b] + options.cat_smooth > 0.0 else 0.0
            length += 1
            continue
        line.has_block = True
        line.block_W += sums.W[b]
        for k in range(line.n_outputs):
            line.block_G[k] += sums.G[<Py_ssize_t>k * n + b]
            line.block_H[k] += sums.H[<Py_ssize_t>k * n + b]
    sort_by_key(order, room, length)
    line.length = length
    for k in range(line.n_outputs):
        gather_line(sums.G + <Py_ssize_t>k * n, order, length, room, line.G + <Py_ssize_t>k * line.stride)
        gather_line(sums.H + <Py_ssize_t>k * n, order, length, room, line.H + <Py_ssize_t>k * line.stride)
    gather_line(sums.W, order, length, room, W_room)
    line.W = W_room


cdef void gather_line(const double *values, const int *order, int n, double *room, double *below) noexcept nogil:
    cdef int i
    for i in range(n):
        room[i] = values[order[i]]
    skb_d_line_sums(room, n, below)


# ------------------------------------------------------------------------------------------------ leaves


cdef inline double part_sum(const double *below, int start, int end, int block, double block_sum) noexcept nogil:
    return (below[end] - below[start]) + (block_sum if block else 0.0)


cdef double score_of(const line_t *line, int start, int end, int block) noexcept nogil:
    """Sum over the outputs of G^2 / (H + l2) of a part of the line."""
    cdef double score = 0.0
    cdef Py_ssize_t at
    cdef int k
    for k in range(line.n_outputs):
        at = <Py_ssize_t>k * line.stride
        score += leaf_score(part_sum(line.G + at, start, end, block, line.block_G[k]),
                            part_sum(line.H + at, start, end, block, line.block_H[k]), line.options.l2_regularization)
    return score


cdef double value_of(const line_t *line, int k, int start, int end, int block) noexcept nogil:
    cdef Py_ssize_t at = <Py_ssize_t>k * line.stride
    return leaf_value(part_sum(line.G + at, start, end, block, line.block_G[k]),
                      part_sum(line.H + at, start, end, block, line.block_H[k]), line.options.l2_regularization)


cdef double score_cuts(const line_t *line, const leaf_t *leaf, int side, int first, int n, double lower, double upper,
                       double *score) noexcept nogil:
    """Scores of the cuts first..first+n-1 of a leaf, its block if any on one side; returns the largest."""
    cdef const term_options_t *options = line.options
    cdef double least = max(options.min_hessian, DBL_MIN)
    cdef double on_left = 1.0 if leaf.block and side == LEFT else 0.0
    cdef double on_right = 1.0 if leaf.block and side == RIGHT else 0.0
    cdef skb_sides_t g, h
    cdef Py_ssize_t at
    cdef int k
    # The whole line only: once the block is a leaf of its own the cells of the line are not the whole.
    if (line.reciprocals != NULL and leaf.start == 0 and leaf.end == line.length and leaf.block == line.has_block
            and not line.monotone):
        g = sides_of(line.G, leaf.start, leaf.end, on_left * line.block_G[0], on_right * line.block_G[0])
        at = <Py_ssize_t>(2 * side) * line.cache_stride + first
        return skb_d_known_scores(n, line.G + first, line.reciprocals + at,
                                  line.reciprocals + at + line.cache_stride, g, score)
    skb_d_heavy_cuts(n, line.W + first,
                     sides_of(line.W, leaf.start, leaf.end, on_left * line.block_W, on_right * line.block_W),
                     options.min_samples_leaf, score)
    for k in range(line.n_outputs):
        at = <Py_ssize_t>k * line.stride
        g = sides_of(line.G + at, leaf.start, leaf.end, on_left * line.block_G[k], on_right * line.block_G[k])
        h = sides_of(line.H + at, leaf.start, leaf.end, on_left * line.block_H[k], on_right * line.block_H[k])
        if line.monotone:
            skb_d_add_monotone_scores(n, line.G + at + first, line.H + at + first, g, h, least,
                                      options.l2_regularization, line.monotone, lower, upper, score)
        else:
            skb_d_add_cut_scores(n, line.G + at + first, line.H + at + first, g, h, least, options.l2_regularization,
                                 score)
    return skb_d_largest(n, score)


cdef void find_cut(line_t *line, leaf_t *leaf, double lower, double upper) noexcept nogil:
    """Best legal cut of a leaf; gain 0 if there is none."""
    cdef int first[2]
    cdef int count[2]
    cdef int ties[2]
    cdef int at[2]
    cdef int side, chosen = 0
    cdef double top = 0.0, largest, gain
    leaf.gain = 0.0
    for side in range(2):
        count[side] = ties[side] = at[side] = 0
        if (leaf.block and not line.side_allowed[side]) or (not leaf.block and side == RIGHT):
            continue
        first[side] = leaf.start if leaf.block and side == LEFT and line.alone[LEFT] else leaf.start + 1
        count[side] = max(0, leaf.end - first[side] + (1 if leaf.block and side == RIGHT and line.alone[RIGHT] else 0))
        if count[side]:
            largest = score_cuts(line, leaf, side, first[side], count[side], lower, upper, line.scores[side])
            top = max(top, largest)
    gain = top - score_of(line, leaf.start, leaf.end, leaf.block)
    if not DBL_MIN <= gain <= DBL_MAX:
        return
    for side in range(2):
        ties[side] = skb_d_find_equal(count[side], line.scores[side], top, &at[side])
    if ties[LEFT] + ties[RIGHT] > 1:
        chosen = min(<int>(skb_uniform(line.key, TIE_DRAW) * (ties[LEFT] + ties[RIGHT])), ties[LEFT] + ties[RIGHT] - 1)
    side = LEFT if chosen < ties[LEFT] else RIGHT
    if side == RIGHT:
        chosen -= ties[LEFT]
    while chosen > 0:
        at[side] += 1
        if line.scores[side][at[side]] == top:
            chosen -= 1
    leaf.cut = first[side] + at[side]
    leaf.block_side = side
    leaf.gain = gain


cdef void scan_leaf(line_t *line, leaf_t *leaves, int n_leaves, int at) noexcept nogil:
    """Best cut of a leaf within what its neighbours leave to a monotone term."""
    cdef double lower = -INFINITY, upper = INFINITY
    cdef int low = at - 1, high = at + 1
    if line.monotone < 0:
        low, high = high, low
    if line.monotone and 0 <= low < n_leaves:
        lower = leaves[low].value
    if line.monotone and 0 <= high < n_leaves:
        upper = leaves[high].value
    find_cut(line, &leaves[at], lower, upper)


cdef void split_leaf(line_t *line, leaf_t *leaves, int n_leaves, int at) noexcept nogil:
    """Replace a leaf by its two sides; the later leaves move up."""
    cdef leaf_t leaf = leaves[at]
    cdef int i
    for i in range(n_leaves, at + 1, -1):
        leaves[i] = leaves[i - 1]
    leaves[at].end = leaf.cut
    leaves[at].block = leaf.block and leaf.block_side == LEFT
    leaves[at + 1].start = leaf.cut
    leaves[at + 1].end = leaf.end
    leaves[at + 1].block = leaf.block and leaf.block_side == RIGHT
    for i in range(at, at + 2):
        leaves[i].value = value_of(line, 0, leaves[i].start, leaves[i].end, leaves[i].block)


cdef double grow_leaves(line_t *line, leaf_t *leaves, int *n_leaves) noexcept nogil:
    """Cut the leaf of largest gain until there are enough; returns the sum of the gains."""
    cdef int i, best, n = 1
    cdef double gain = 0.0
    leaves[0].start = 0
    leaves[0].end = line.length
    leaves[0].block = line.has_block
    scan_leaf(line, leaves, n, 0)
    while n < line.options.max_leaves:
        best = 0
        for i in range(1, n):
            if leaves[i].gain > leaves[best].gain:
                best = i
        if not leaves[best].gain > 0.0:
            break
        gain += leaves[best].gain
        split_leaf(line, leaves, n, best)
        n += 1
        if n == line.options.max_leaves:
            break
        for i in range(n):
            # A cut moves the bounds of the neighbours of a monotone term.
            if line.monotone or i == best or i == best + 1:
                scan_leaf(line, leaves, n, i)
    n_leaves[0] = n
    return gain


# ------------------------------------------------------------------------------------------------ updates


cdef void write_numeric(const line_t *line, const term_t *term, const sums_t *sums, const leaf_t *leaves,
                        int n_leaves, int k, double *out) noexcept nogil:
    """Values of one output. Without rows cell 0 takes the value of cell 1."""
    cdef int i
    cdef double value
    for i in range(n_leaves):
        value = value_of(line, k, leaves[i].start, leaves[i].end, leaves[i].block)
        skb_d_fill(leaves[i].end - leaves[i].start, value, out + 1 + leaves[i].start)
        if leaves[i].block:
            out[0] = value
    if not term.has_missing:
        out[0] = out[1] if term.n_cells > 2 else 0.0
    elif line.options.missing == MISSING_SEPARATE:
        out[0] = leaf_value(sums.G[<Py_ssize_t>k * term.n_cells], sums.H[<Py_ssize_t>k * term.n_cells],
                            line.options.l2_regularization)
    out[term.n_cells - 1] = out[term.n_cells - 2]


cdef void write_nominal(const line_t *line, const term_t *term, const leaf_t *leaves, int n_leaves, const int *order,
                        int k, double *out) noexcept nogil:
    """Values of one output. Levels without rows go with the pooled ones, or get the common value where none are."""
    cdef int i, p, b
    cdef double value = value_of(line, k, 0, line.length, line.has_block)
    for i in range(n_leaves):
        if leaves[i].block:
            value = value_of(line, k, leaves[i].start, leaves[i].end, True)
    for b in range(term.n_cells - 1):
        out[b] = value
    for i in range(n_leaves):
        value = value_of(line, k, leaves[i].start, leaves[i].end, leaves[i].block)
        for p in range(leaves[i].start, leaves[i].end):
            out[order[p]] = value
    out[term.n_cells - 1] = out[term.n_cells - 2]


cdef void whole_update(const line_t *line, const term_t *term, const sums_t *sums, double *u) noexcept nogil:
    """One leaf over all cells."""
    cdef int k, b, n = term.n_cells
    cdef bint apart = not term.nominal and term.has_missing and not line.has_block
    cdef double G, H, value
    for k in range(line.n_outputs):
        G = part_sum(line.G + <Py_ssize_t>k * line.stride, 0, line.length, line.has_block, line.block_G[k])
        H = part_sum(line.H + <Py_ssize_t>k * line.stride, 0, line.length, line.has_block, line.block_H[k])
        if apart:
            G += sums.G[<Py_ssize_t>k * n]
            H += sums.H[<Py_ssize_t>k * n]
        value = leaf_value(G, H, line.options.l2_regularization)
        for b in range(n):
            u[<Py_ssize_t>k * n + b] = value


cdef double separate_gain(const line_t *line, const term_t *term, const sums_t *sums) noexcept nogil:
    """What the missing cell's own leaf gains; with l2 it may lose."""
    cdef double gain = 0.0, l2 = line.options.l2_regularization, G, H
    cdef Py_ssize_t at
    cdef int k
    for k in range(line.n_outputs):
        at = <Py_ssize_t>k * term.n_cells
        G = line.G[<Py_ssize_t>k * line.stride + line.length]
        H = line.H[<Py_ssize_t>k * line.stride + line.length]
        gain += (leaf_score(G, H, l2) + leaf_score(sums.G[at], sums.H[at], l2)
                 - leaf_score(G + sums.G[at], H + sums.H[at], l2))
    return gain if -DBL_MAX <= gain <= DBL_MAX else 0.0


cdef double search_term(const term_t *term, const sums_t *sums, const term_options_t *options,
                        const term_cache_t *cache, uint64_t key, double *work, double *u) noexcept nogil:
    cdef Py_ssize_t stride = term.n_cells + 2, outputs = options.n_outputs
    cdef line_t line
    cdef double gain
    cdef int k, n_leaves
    cdef double *W_room = work + 2 * outputs * stride
    cdef int *order = <int *>(work + (2 * outputs + 3) * stride)
    cdef leaf_t *leaves = <leaf_t *>(work + (2 * outputs + 4) * stride)
    line.options = options
    line.n_outputs = options.n_outputs
    line.stride = <int>stride
    line.G = work
    line.H = work + outputs * stride
    line.scores[LEFT] = W_room + stride
    line.scores[RIGHT] = W_room + 2 * stride
    line.block_G = work + (2 * outputs + 4 + LEAF_DOUBLES) * stride
    line.block_H = line.block_G + outputs
    line.reciprocals = NULL
    line.key = key
    line.monotone = term.monotone
    if term.nominal:
        nominal_line(&line, term, sums, order, line.scores[LEFT], W_room)
    else:
        numeric_line(&line, term, sums, cache, W_room)
    place_block(&line, term)
    n_leaves = 1
    gain = 0.0
    if not term.nominal or line.length > 1:
        gain = grow_leaves(&line, leaves, &n_leaves)
    if not term.nominal and term.has_missing and options.missing == MISSING_SEPARATE:
        gain += separate_gain(&line, term, sums)
    if not gain >= DBL_MIN:
        whole_update(&line, term, sums, u)
        return 0.0
    for k in range(options.n_outputs):
        if term.nominal:
            write_nominal(&line, term, leaves, n_leaves, order, k, u + <Py_ssize_t>k * term.n_cells)
        else:
            write_numeric(&line, term, sums, leaves, n_leaves, k, u + <Py_ssize_t>k * term.n_cells)
    return gain


cdef void fill_term_cache(const term_t *term, const double *W, const term_options_t *options, double *memory,
                          term_cache_t *cache) noexcept nogil:
    cdef int c, side, n = term.n_cells, length = term.n_cells - 2
    cdef double least = max(options.min_samples_leaf, max(options.min_hessian, DBL_MIN)), block, left, right
    cdef double *reciprocals = memory + n
    cdef int has_block = term.has_missing and options.missing != MISSING_SEPARATE
    cache.below = memory
    cache.reciprocals = reciprocals
    skb_d_line_sums(W + 1, length, memory)
    for side in range(2):
        for c in range(length + 1):
            block = W[0] if has_block else 0.0
            left = (memory[c] - memory[0]) + (block if side == LEFT else 0.0)
            right = (memory[length] - memory[c]) + (block if side == RIGHT else 0.0)
            if left < least or right < least:
                reciprocals[(2 * side) * n + c] = reciprocals[(2 * side + 1) * n + c] = 0.0
            else:
                reciprocals[(2 * side) * n + c] = 1.0 / (left + options.l2_regularization)
                reciprocals[(2 * side + 1) * n + c] = 1.0 / (right + options.l2_regularization)


# ------------------------------------------------------------------------------------------------ random cuts


cdef int random_cuts(const term_t *term, int max_leaves, uint64_t key, int *cuts) noexcept nogil:
    cdef int first = 0 if term.has_missing else 1, last = term.n_cells - 2
    cdef int n = last - first, wanted = max_leaves - 1, found = 0, b
    if n <= 0:
        return 0
    if wanted == 1:
        cuts[0] = first + min(<int>(skb_uniform(key, 0) * n), n - 1)
        return 1
    wanted = min(wanted, n)
    for b in range(n):
        # each of the remaining boundaries with the share of those still wanted
        if skb_uniform(key, b) * (n - b) < wanted - found:
            cuts[found] = first + b
            found += 1
            if found == wanted:
                break
    return found


cdef void cut_term(const term_t *term, int n_cuts, const int *cuts, const double *G, const double *H,
                   const term_options_t *options, double *u) noexcept nogil:
    cdef int k, i, b, end, n = term.n_cells, parts = n_cuts + 1
    cdef double value, sum_G, sum_H, l2 = options.l2_regularization
    cdef bint whole = term.monotone != 0 and not follows(term, n_cuts, cuts, G, H, l2, options.missing)
    for k in range(options.n_outputs):
        sum_G = sum_H = 0.0
        for i in range(parts):
            sum_G += G[k * parts + i]
            sum_H += H[k * parts + i]
        b = 0
        for i in range(parts):
            value = leaf_value(sum_G, sum_H, l2) if whole else leaf_value(G[k * parts + i], H[k * parts + i], l2)
            end = cuts[i] + 1 if i < n_cuts else n
            skb_d_fill(end - b, value, u + <Py_ssize_t>k * n + b)
            b = end


cdef bint follows(const term_t *term, int n_cuts, const int *cuts, const double *G, const double *H,
                  double l2, int missing) noexcept nogil:
    """Whether the parts follow the monotone direction; one of missing cells alone need not unless they are "low"."""
    cdef int i, first = 1 if n_cuts and cuts[0] == 0 and missing != MISSING_LOW else 0
    cdef double last, value
    last = leaf_value(G[first], H[first], l2)
    for i in range(first + 1, n_cuts + 1):
        value = leaf_value(G[i], H[i], l2)
        if term.monotone * value < term.monotone * last:
            return False
        last = value
    return True


# ------------------------------------------------------------------------------------------------ for tests


cdef class _Sums:
    """Checked sums of one term, and the structs that the functions above take."""
    cdef term_t term
    cdef sums_t sums
    cdef term_options_t options
    cdef object keep

    def __init__(self, G, H, W, nominal, monotone, max_leaves, missing, min_samples_leaf, min_hessian,
                 l2_regularization, min_cat_samples, cat_smooth):
        cdef const double[:, ::1] g = np.ascontiguousarray(G, dtype=np.float64)
        cdef const double[:, ::1] h
        cdef const double[::1] w = np.ascontiguousarray(W, dtype=np.float64)
        if g.shape[0] < 1 or g.shape[1] < 2 or g.shape[1] > 1 << 24 or w.shape[0] != g.shape[1]:
            raise ValueError(f"G must have shape (n_outputs, n_cells), W (n_cells,): got {np.shape(G)}, {np.shape(W)}")
        if monotone not in (-1, 0, 1) or (monotone and (nominal or g.shape[0] > 1)):
            raise ValueError("monotone must be 0, or 1 or -1 for a numeric term of one output")
        if max_leaves < 1 or missing not in range(4):
            raise ValueError(f"max_leaves must be at least 1 and missing in 0..3, got {max_leaves}, {missing}")
        self.sums.G = &g[0, 0]
        self.sums.W = &w[0]
        if H is None:
            if g.shape[0] > 1:
                raise ValueError("H may be left out for one output only")
            self.sums.H = &w[0]
            h = None
        else:
            h = np.ascontiguousarray(H, dtype=np.float64)
            if h.shape[0] != g.shape[0] or h.shape[1] != g.shape[1]:
                raise ValueError(f"H must have the shape of G, got {np.shape(H)} and {np.shape(G)}")
            self.sums.H = &h[0, 0]
        self.keep = (g, h, w)
        self.term.n_axes = self.term.size1 = 1
        self.term.n_cells = self.term.size0 = <int>g.shape[1]
        self.term.first_cell = 0
        self.term.nominal = nominal
        self.term.monotone = monotone
        self.term.has_missing = w[0] > 0.0
        self.options.n_outputs = <int>g.shape[0]
        self.options.max_leaves = min(max_leaves, self.term.n_cells)
        self.options.missing = missing
        self.options.min_samples_leaf = min_samples_leaf
        self.options.min_hessian = min_hessian
        self.options.l2_regularization = l2_regularization
        self.options.min_cat_samples = min_cat_samples
        self.options.cat_smooth = cat_smooth


def search(G, H, W, *, nominal=False, monotone=0, max_leaves=2, missing=MISSING_SEPARATE, min_samples_leaf=0.0,
           min_hessian=0.0, l2_regularization=0.0, min_cat_samples=0.0, cat_smooth=0.0, uint64_t key=0, cached=False,
           int repeat=1):
    """Return (u, gain) of search_term; H is None where it is W. `repeat` searches again, for measurements."""
    cdef _Sums given = _Sums(G, H, W, nominal, monotone, max_leaves, missing, min_samples_leaf, min_hessian,
                             l2_regularization, min_cat_samples, cat_smooth)
    cdef double[:, ::1] u = np.empty((given.options.n_outputs, given.term.n_cells))
    cdef double[::1] work = np.empty(term_work_size(given.term.n_cells, given.options.n_outputs))
    cdef double[::1] memory = np.empty(term_cache_size(given.term.n_cells))
    cdef term_cache_t cache
    cdef double gain = 0.0
    cdef int _i
    cache.below = NULL
    if cached:
        fill_term_cache(&given.term, given.sums.W, &given.options, &memory[0], &cache)
    with nogil:
        for _i in range(repeat):
            gain = search_term(&given.term, &given.sums, &given.options, &cache, key, &work[0], &u[0, 0])
    return np.asarray(u), gain


def random_update(G, H, W, *, nominal=False, monotone=0, max_leaves=2, l2_regularization=0.0, uint64_t key=0):
    """Return (cuts, u) of random_cuts and cut_term on the sums of cells."""
    cdef _Sums given = _Sums(G, H, W, nominal, monotone, max_leaves, MISSING_LOW, 0.0, 0.0, l2_regularization, 0.0, 0.0)
    cdef int[::1] cuts = np.empty(given.options.max_leaves, dtype=np.int32)
    cdef double[:, ::1] u = np.empty((given.options.n_outputs, given.term.n_cells))
    cdef int n_cuts = random_cuts(&given.term, given.options.max_leaves, key, &cuts[0])
    cdef double[:, ::1] part_G, part_H
    starts = np.r_[0, np.asarray(cuts[:n_cuts]) + 1]
    part_G = np.add.reduceat(np.asarray(given.keep[0]), starts, axis=1)
    second = np.asarray(given.keep[2])[None] if H is None else np.asarray(given.keep[1])
    part_H = np.add.reduceat(second, starts, axis=1)
    cut_term(&given.term, n_cuts, &cuts[0], &part_G[0, 0], &part_H[0, 0], &given.options, &u[0, 0])
    return np.asarray(cuts[:n_cuts]), np.asarray(u)
