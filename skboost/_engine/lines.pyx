"""Lines of cells that trees of main effects cut, and the scores of their cuts."""

from libc.float cimport DBL_MIN
from libc.stdint cimport uint64_t

from skboost._engine.stage cimport sums_t, term_t

cdef extern from *:
    """
    #include "isa.h"
    #include "rng.h"
    #define SKB_IMPL "lines_impl.h"
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
    static double skb_d_sum_cells(int n, const double *x) { return SKB_DISPATCH(skb_sum_cells)(n, x); }
    """
    ctypedef struct skb_sides_t:
        double start
        double end
        double add_left
        double add_right
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
    double skb_d_sum_cells(int n, const double *x) nogil

skb_isa_init()

cdef enum:
    OUTPUT_DRAW = 1    # which output sorts the levels
    SHORT = 32         # levels that are sorted by insertion


cdef Py_ssize_t line_size(int n_cells, int n_outputs) noexcept nogil:
    # sums below the cuts (G, H, W), scores of two sides, order of the levels; sums of the block
    return (<Py_ssize_t>n_cells + 2) * (2 * <Py_ssize_t>n_outputs + 4) + 2 * <Py_ssize_t>n_outputs


cdef Py_ssize_t term_cache_size(int n_cells) noexcept nogil:
    return 5 * <Py_ssize_t>n_cells


cdef void fill_term_cache(const term_t *term, const double *W, const term_options_t *options, double *memory,
                          term_cache_t *cache) noexcept nogil:
    cdef int c, side, n = term.n_cells, length = term.n_cells - 2
    cdef double least = max(options.min_samples_leaf, max(options.min_hessian, DBL_MIN)), block, left, right
    cdef double *reciprocals = memory + n
    block = W[0] if term.has_missing and options.missing != MISSING_SEPARATE else 0.0
    cache.below = memory
    cache.reciprocals = reciprocals
    skb_d_line_sums(W + 1, length, memory)
    for side in range(2):
        for c in range(length + 1):
            left = (memory[c] - memory[0]) + (block if side == LEFT else 0.0)
            right = (memory[length] - memory[c]) + (block if side == RIGHT else 0.0)
            if left < least or right < least:
                reciprocals[(2 * side) * n + c] = reciprocals[(2 * side + 1) * n + c] = 0.0
            else:
                reciprocals[(2 * side) * n + c] = 1.0 / (left + options.l2_regularization)
                reciprocals[(2 * side + 1) * n + c] = 1.0 / (right + options.l2_regularization)


# ------------------------------------------------------------------------------------------------ order


cdef inline bint before(const double *key, int a, int b) noexcept nogil:
    return key[a] < key[b] or (key[a] == key[b] and a < b)


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


cdef void sort_by_key(int *order, const double *key, int n) noexcept nogil:
    """Sort cell numbers by (key, number)."""
    cdef int i, j, item
    if n <= SHORT:
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


# ------------------------------------------------------------------------------------------------ lines


cdef void lay_line(line_t *line, const term_t *term, const sums_t *sums, const term_options_t *options,
                   const term_cache_t *cache, uint64_t key, double *memory) noexcept nogil:
    cdef Py_ssize_t stride = term.n_cells + 2, outputs = options.n_outputs
    cdef double *W_room = memory + 2 * outputs * stride
    line.term = term
    line.sums = sums
    line.options = options
    line.key = key
    line.stride = <int>stride
    line.G = memory
    line.H = memory + outputs * stride
    line.scores[LEFT] = W_room + stride
    line.scores[RIGHT] = W_room + 2 * stride
    line.order = <int *>(W_room + 3 * stride)
    line.block_G = W_room + 4 * stride
    line.block_H = line.block_G + outputs
    line.reciprocals = NULL
    if term.nominal:
        nominal_line(line, W_room)
    else:
        numeric_line(line, cache, W_room)


cdef void numeric_line(line_t *line, const term_cache_t *cache, double *W_room) noexcept nogil:
    cdef const sums_t *sums = line.sums
    cdef int k, n = line.term.n_cells, missing = line.options.missing
    cdef bint second = sums.H != sums.W or line.options.n_outputs > 1
    line.length = n - 2
    line.has_block = line.term.has_missing and missing != MISSING_SEPARATE
    line.block_W = sums.W[0]
    for k in range(line.options.n_outputs):
        skb_d_line_sums(sums.G + <Py_ssize_t>k * n + 1, line.length, line.G + <Py_ssize_t>k * line.stride)
        if second:
            skb_d_line_sums(sums.H + <Py_ssize_t>k * n + 1, line.length, line.H + <Py_ssize_t>k * line.stride)
        line.block_G[k] = sums.G[<Py_ssize_t>k * n]
        line.block_H[k] = sums.H[<Py_ssize_t>k * n]
    if cache != NULL and cache.below != NULL:
        line.W = cache.below
        line.reciprocals = NULL if second or line.term.monotone else cache.reciprocals
    else:
        skb_d_line_sums(sums.W + 1, line.length, W_room)
        line.W = W_room
    if not second:
        line.H = <double *>line.W
    line.alone[LEFT] = missing == MISSING_LOW or (missing == MISSING_GAIN and line.length == 1)
    line.alone[RIGHT] = missing == MISSING_HIGH
    line.side_allowed[LEFT] = not line.alone[RIGHT]
    line.side_allowed[RIGHT] = not line.alone[LEFT]


cdef void nominal_line(line_t *line, double *W_room) noexcept nogil:
    """Sort the levels of enough weight; the others with weight are the block."""
    cdef const term_options_t *options = line.options
    cdef const double *W = line.sums.W
    cdef const double *G
    cdef const double *H
    cdef double *keys = line.scores[LEFT]
    cdef int b, k, n = line.term.n_cells, sorted_by = 0
    if options.n_outputs > 1:
        sorted_by = min(<int>(skb_uniform(line.key, OUTPUT_DRAW) * options.n_outputs), options.n_outputs - 1)
    G = line.sums.G + <Py_ssize_t>sorted_by * n
    H = line.sums.H + <Py_ssize_t>sorted_by * n
    for k in range(options.n_outputs):
        line.block_G[k] = line.block_H[k] = 0.0
    line.block_W = 0.0
    line.length = 0
    line.has_block = False
    for b in range(n - 1):
        if W[b] >= options.min_cat_samples and W[b] > 0.0:
            line.order[line.length] = b
            line.length += 1
            # the denominator is 0 only where H is and nothing is added
            keys[b] = G[b] / (H[b] + options.cat_smooth) if H[b] + options.cat_smooth > 0.0 else 0.0
        elif W[b] > 0.0:
            line.has_block = True
            line.block_W += W[b]
            for k in range(options.n_outputs):
                line.block_G[k] += line.sums.G[<Py_ssize_t>k * n + b]
                line.block_H[k] += line.sums.H[<Py_ssize_t>k * n + b]
    sort_by_key(line.order, keys, line.length)
    for k in range(options.n_outputs):
        gather_line(line, line.sums.G + <Py_ssize_t>k * n, line.G + <Py_ssize_t>k * line.stride)
        gather_line(line, line.sums.H + <Py_ssize_t>k * n, line.H + <Py_ssize_t>k * line.stride)
    gather_line(line, W, W_room)
    line.W = W_room
    line.alone[LEFT] = line.alone[RIGHT] = False
    line.side_allowed[LEFT] = line.side_allowed[RIGHT] = True


cdef void gather_line(const line_t *line, const double *values, double *below) noexcept nogil:
    cdef double *room = line.scores[LEFT]
    cdef int i
    for i in range(line.length):
        room[i] = values[line.order[i]]
    skb_d_line_sums(room, line.length, below)


# ------------------------------------------------------------------------------------------------ leaves


cdef inline double leaf_sum(const double *below, const leaf_t *leaf, double block) noexcept nogil:
    return (below[leaf.end] - below[leaf.start]) + (block if leaf.block else 0.0)


cdef inline skb_sides_t sides_of(const double *below, const leaf_t *leaf, int side, double block) noexcept nogil:
    cdef skb_sides_t out
    out.start = below[leaf.start]
    out.end = below[leaf.end]
    out.add_left = block if leaf.block and side == LEFT else 0.0
    out.add_right = block if leaf.block and side == RIGHT else 0.0
    return out


cdef double leaf_score_of(const line_t *line, const leaf_t *leaf) noexcept nogil:
    cdef double score = 0.0
    cdef Py_ssize_t at
    cdef int k
    for k in range(line.options.n_outputs):
        at = <Py_ssize_t>k * line.stride
        score += leaf_score(leaf_sum(line.G + at, leaf, line.block_G[k]), leaf_sum(line.H + at, leaf, line.block_H[k]),
                            line.options.l2_regularization)
    return score


cdef double bound_value_of(const line_t *line, const leaf_t *leaf) noexcept nogil:
    """Value of output 0 from the sums by which monotone cuts were judged."""
    return leaf_value(leaf_sum(line.G, leaf, line.block_G[0]), leaf_sum(line.H, leaf, line.block_H[0]),
                      line.options.l2_regularization)


cdef double leaf_value_of(const line_t *line, const leaf_t *leaf, int k) noexcept nogil:
    cdef Py_ssize_t at = <Py_ssize_t>k * line.term.n_cells
    cdef const double *G = line.sums.G + at
    cdef const double *H = line.sums.H + at
    cdef double sum_G = 0.0, sum_H = 0.0
    cdef int i
    if line.term.nominal:
        for i in range(leaf.start, leaf.end):
            sum_G += G[line.order[i]]
            sum_H += H[line.order[i]]
    else:
        sum_G = skb_d_sum_cells(leaf.end - leaf.start, G + 1 + leaf.start)
        sum_H = skb_d_sum_cells(leaf.end - leaf.start, H + 1 + leaf.start)
    if leaf.block:
        sum_G += line.block_G[k]
        sum_H += line.block_H[k]
    return leaf_value(sum_G, sum_H, line.options.l2_regularization)


cdef double score_cuts(const line_t *line, const leaf_t *leaf, int side, int first, int n, double lower, double upper,
                       double *score) noexcept nogil:
    cdef const term_options_t *options = line.options
    cdef double least = max(options.min_hessian, DBL_MIN), l2 = options.l2_regularization
    cdef const double *known
    cdef skb_sides_t g, h
    cdef Py_ssize_t at
    cdef int k
    # The whole line only: once the block is a leaf of its own the cells of the line are not the whole.
    if (line.reciprocals != NULL and leaf.start == 0 and leaf.end == line.length and leaf.block == line.has_block):
        known = line.reciprocals + <Py_ssize_t>(2 * side) * line.term.n_cells + first
        return skb_d_known_scores(n, line.G + first, known, known + line.term.n_cells,
                                  sides_of(line.G, leaf, side, line.block_G[0]), score)
    skb_d_heavy_cuts(n, line.W + first, sides_of(line.W, leaf, side, line.block_W), options.min_samples_leaf, score)
    for k in range(options.n_outputs):
        at = <Py_ssize_t>k * line.stride
        g = sides_of(line.G + at, leaf, side, line.block_G[k])
        h = sides_of(line.H + at, leaf, side, line.block_H[k])
        if line.term.monotone:
            skb_d_add_monotone_scores(n, line.G + at + first, line.H + at + first, g, h, least, l2, line.term.monotone,
                                      lower, upper, score)
        else:
            skb_d_add_cut_scores(n, line.G + at + first, line.H + at + first, g, h, least, l2, score)
    return skb_d_largest(n, score)
