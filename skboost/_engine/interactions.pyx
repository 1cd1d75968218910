"""Pairs of features: the search of 3-leaf trees on their cells, random cuts, and the best cross of FAST.

Cells of a pair are a table of rows (cells of the first feature) and columns. Leaves are rectangles, whose sums are
differences of prefix sums; those of a tree that was chosen are summed anew, so that nothing is lost to cancellation.
Trees that part the cells with weight alike are one tree: rounding never chooses among them.
"""

from libc.float cimport DBL_MAX, DBL_MIN
from libc.math cimport frexp, isfinite, ldexp
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from skboost._engine.stage cimport sums_t, term_t

import numpy as np

cdef extern from *:
    """
    #include "isa.h"
    #include "rng.h"
    #include "pair_partition.h"
    #define SKB_IMPL "interactions_impl.h"
    #include "isa_expand.h"
    static void skb_d_pair_prefix(const double *x, int n0, int n1, int ld, double *P)
    { SKB_DISPATCH(skb_pair_prefix)(x, n0, n1, ld, P); }
    static void skb_d_pair_quadrants(const skb_pair_row_t *outputs, int n_outputs, int ld, double *scores)
    { SKB_DISPATCH(skb_pair_quadrants)(outputs, n_outputs, ld, scores); }
    static double skb_d_pair_trees(const skb_pair_row_t *output, const double *scores, int ld, double low, double high,
                                   const double *left, const double *right, double *trees)
    { return SKB_DISPATCH(skb_pair_trees)(output, scores, ld, low, high, left, right, trees); }
    static double skb_d_pair_crosses(const skb_pair_row_t *output, const double *scores, int ld)
    { return SKB_DISPATCH(skb_pair_crosses)(output, scores, ld); }
    static void skb_d_column_sums(const double *x, int from, int to, int n1, double *sum)
    { SKB_DISPATCH(skb_column_sums)(x, from, to, n1, sum); }
    static double skb_d_lane_sum(const double *x, int n) { return SKB_DISPATCH(skb_lane_sum)(x, n); }
    """
    ctypedef struct skb_equal_trees_t:
        pass
    ctypedef struct skb_pair_row_t:
        const double *W
        const double *W_all
        const double *G
        const double *G_all
        const double *H
        const double *H_all
        double least_weight
        double least
        double l2
    const double SKB_NO_PAIR
    const int SKB_PAIR_SHAPES
    void skb_find_equal_trees(const double *, int, int, int, int, int, skb_equal_trees_t *) noexcept nogil
    bint skb_has_tree(const skb_equal_trees_t *, int, int, int) noexcept nogil
    int64_t skb_count_trees(const skb_equal_trees_t *) noexcept nogil
    void skb_take_tree(const skb_equal_trees_t *, int64_t, int *, int *, int *) noexcept nogil
    uint64_t skb_key(uint64_t seed, uint64_t stream, uint64_t iteration, uint64_t output) noexcept nogil
    double skb_uniform(uint64_t key, uint64_t counter) noexcept nogil
    void skb_isa_init() noexcept nogil
    void skb_d_pair_prefix(const double *, int, int, int, double *) noexcept nogil
    void skb_d_pair_quadrants(const skb_pair_row_t *, int, int, double *) noexcept nogil
    double skb_d_pair_trees(const skb_pair_row_t *, const double *, int, double, double, const double *,
                            const double *, double *) noexcept nogil
    double skb_d_pair_crosses(const skb_pair_row_t *, const double *, int) noexcept nogil
    void skb_d_column_sums(const double *, int, int, int, double *) noexcept nogil
    double skb_d_lane_sum(const double *, int) noexcept nogil

skb_isa_init()

cdef enum:
    LANES = 8                   # columns are padded to a multiple of this

# Sums of prefix sums are exact to about this share of the whole; a lighter leaf could be made of rounding alone.
cdef double LEAST_SHARE = 2.0 ** -42
# Products of four denominators stay inside the range of doubles between these; other tables are scaled first.
cdef double SMALLEST_WHOLE = 1e-55
cdef double LARGEST_WHOLE = 1e70

# Scores closer than this share of the best, and gains closer than that of theirs, are equal but for rounding.
cdef double ROUNDING = 2.0 ** -40
cdef double ROUNDING_OF_GAIN = 2.0 ** -10

# Prefix sums of a pair and what the scan over its rows keeps, all in the caller's work array.
cdef struct scan_t:
    int n0, n1, ld, n_outputs
    double scale                # power of two that G, H, l2 and the minimums were multiplied by
    skb_pair_row_t *outputs     # (n_outputs,) with the last rows of prefix sums; the current row is set by at_row
    const double *W             # (n0, ld) NULL where H bounds the leaves alone
    double *G                   # (n_outputs, n0, ld)
    double *H
    double *scores              # (4, ld) of the quadrants
    double *trees               # (4, ld)
    double *left                # (ld,) of the halves of the columns
    double *right
    double *low                 # (n0,) of the halves of the rows
    double *high
    double *best                # (n0,) largest score of a tree at each row
    double whole                # score of one leaf over all cells


cdef inline int padded(int n) noexcept nogil:
    return (n + LANES - 1) & ~(LANES - 1)


cdef Py_ssize_t pair_work_size(int size0, int size1, int n_outputs) noexcept nogil:
    cdef Py_ssize_t ld = padded(size1)
    return (2 * n_outputs + 1) * size0 * ld + 10 * ld + 3 * size0 + LANES + (
        n_outputs * <Py_ssize_t>sizeof(skb_pair_row_t) + 7) // 8


cdef void lay_out(int n0, int n1, int n_outputs, double *work, scan_t *out) noexcept nogil:
    cdef Py_ssize_t table
    cdef double *at = <double *>((<uintptr_t>work + 63) & ~<uintptr_t>63)
    out.n0, out.n1, out.ld, out.n_outputs = n0, n1, padded(n1), n_outputs
    table = <Py_ssize_t>n0 * out.ld
    out.G = at
    out.H = out.G + n_outputs * table
    out.W = out.H + n_outputs * table
    out.scores = out.H + (n_outputs + 1) * table
    out.trees = out.scores + 4 * out.ld
    out.left = out.trees + 4 * out.ld
    out.right = out.left + out.ld
    out.low = out.right + out.ld
    out.high = out.low + n0
    out.best = out.high + n0
    out.outputs = <skb_pair_row_t *>(out.best + n0)


cdef void scale_tables(scan_t *s, double scale) noexcept nogil:
    cdef Py_ssize_t i, n = <Py_ssize_t>s.n_outputs * s.n0 * s.ld
    s.scale = scale
    for i in range(n):
        s.G[i] *= scale
        s.H[i] *= scale


# Prefix sums of all tables. Returns False where there is nothing to search: no weight, or sums beyond all bounds.
cdef bint prepare(const sums_t *sums, const pair_options_t *options, scan_t *s) noexcept nogil:
    cdef Py_ssize_t cells = <Py_ssize_t>s.n0 * s.n1, table = <Py_ssize_t>s.n0 * s.ld, last = table - s.ld
    cdef int k
    cdef double h, largest = 0.0, smallest = DBL_MAX, weight = 0.0, least_weight = options.min_samples_leaf
    cdef skb_pair_row_t *o
    if s.n_outputs == 1 and sums.H == sums.W:
        s.W = NULL
    else:
        skb_d_pair_prefix(sums.W, s.n0, s.n1, s.ld, <double *>s.W)
        weight = s.W[table - 1]
        least_weight = max(least_weight, weight * LEAST_SHARE)
    for k in range(s.n_outputs):
        skb_d_pair_prefix(sums.G + k * cells, s.n0, s.n1, s.ld, s.G + k * table)
        skb_d_pair_prefix(sums.H + k * cells, s.n0, s.n1, s.ld, s.H + k * table)
        h = s.H[(k + 1) * table - 1]
        if not (h >= DBL_MIN and isfinite(h + options.l2_regularization) and isfinite(s.G[(k + 1) * table - 1])):
            return False
        largest, smallest = max(largest, h + options.l2_regularization), min(smallest, h + options.l2_regularization)
    s.scale = 1.0
    if smallest < SMALLEST_WHOLE or largest > LARGEST_WHOLE:
        scale_tables(s, ldexp(1.0, max(-1000, min(1000, -exponent(largest)))))
    for k in range(s.n_outputs):
        o = &s.outputs[k]
        o.W_all = s.W + last if s.W else NULL
        o.G_all, o.H_all = s.G + k * table + last, s.H + k * table + last
        h = s.H[(k + 1) * table - 1]
        o.least_weight = least_weight
        o.least = max(max(options.min_hessian, DBL_MIN) * s.scale, h * LEAST_SHARE)
        if not s.W:
            o.least = max(o.least, options.min_samples_leaf * s.scale)
        o.l2 = options.l2_regularization * s.scale
    return True


cdef inline int exponent(double x) noexcept nogil:
    cdef int e
    frexp(x, &e)
    return e


cdef void at_row(scan_t *s, int a) noexcept nogil:
    cdef Py_ssize_t table = <Py_ssize_t>s.n0 * s.ld, row = <Py_ssize_t>a * s.ld
    cdef int k
    for k in range(s.n_outputs):
        s.outputs[k].G, s.outputs[k].H = s.G + k * table + row, s.H + k * table + row
        s.outputs[k].W = s.W + row if s.W else NULL


# Scores of a leaf with the sums w, g, h, of the rest, and of both together; SKB_NO_PAIR where they are illegal.
cdef inline double leaf_score(const skb_pair_row_t *o, double w, double g, double h) noexcept nogil:
    if h < o.least or (o.W_all != NULL and w < o.least_weight):
        return SKB_NO_PAIR
    return g * g / (h + o.l2)


# Scores of the halves of the rows and of the columns, and of the whole.
cdef void score_halves(scan_t *s) noexcept nogil:
    cdef Py_ssize_t table = <Py_ssize_t>s.n0 * s.ld, at
    cdef int k, i, last = s.ld - 1
    cdef double g, h, w = 0.0, part = 0.0
    cdef const skb_pair_row_t *o
    s.whole = 0.0
    for i in range(s.n0):
        s.low[i] = s.high[i] = 0.0
    for i in range(s.ld):
        s.left[i] = s.right[i] = 0.0
    for k in range(s.n_outputs):
        o = &s.outputs[k]
        g, h = o.G_all[last], o.H_all[last]
        w = o.W_all[last] if o.W_all else 0.0
        s.whole += g * g / (h + o.l2)
        for i in range(s.n0):
            at = <Py_ssize_t>i * s.ld + last
            part = s.W[at] if s.W else 0.0
            s.low[i] += leaf_score(o, part, s.G[k * table + at], s.H[k * table + at])
            s.high[i] += leaf_score(o, w - part, g - s.G[k * table + at], h - s.H[k * table + at])
        for i in range(s.ld):
            part = o.W_all[i] if o.W_all else 0.0
            s.left[i] += leaf_score(o, part, o.G_all[i], o.H_all[i])
            s.right[i] += leaf_score(o, w - part, g - o.G_all[i], h - o.H_all[i])


# Scores of all trees at row a, into s.trees unless not kept; returns the largest.
cdef double score_row(scan_t *s, int a, bint keep) noexcept nogil:
    at_row(s, a)
    if s.n_outputs > 1:
        skb_d_pair_quadrants(s.outputs, s.n_outputs, s.ld, s.scores)
    return skb_d_pair_trees(s.outputs, s.scores if s.n_outputs > 1 else NULL, s.ld, s.low[a], s.high[a], s.left,
                            s.right, s.trees if keep else NULL)


# Choose among the trees whose score is at least `least`, all as good as the best but for rounding. Those that part the
# weight alike count as one, of the rank that a draw gives to their first; among them another draw decides.
cdef void draw_tree(scan_t *s, double least, const double *W, uint64_t key, pair_cut_t *cut) noexcept nogil:
    cdef skb_equal_trees_t found, chosen
    cdef int a, b, shape
    cdef bint any_found = False
    cdef double rank, highest = 0.0
    cdef int64_t n
    for a in range(s.n0 - 1):
        if not s.best[a] >= least:
            continue
        score_row(s, a, True)
        for shape in range(SKB_PAIR_SHAPES):
            for b in range(s.n1 - 1):
                if not s.trees[shape * s.ld + b] >= least or (any_found and skb_has_tree(&found, shape, a, b)):
                    continue
                skb_find_equal_trees(W, s.n0, s.n1, shape, a, b, &found)
                any_found = True
                rank = skb_uniform(key, 1 + first_tree(&found, s.n0, s.n1))
                if rank > highest:
                    highest, chosen = rank, found
    if not any_found:
        return
    n = skb_count_trees(&chosen)
    skb_take_tree(&chosen, min(<int64_t>(skb_uniform(key, 0) * <double>n), n - 1), &shape, &cut.a, &cut.b)
    cut.shape = PAIR_LOW_ROWS + shape


# Place of the first of equal trees among all trees.
cdef uint64_t first_tree(const skb_equal_trees_t *trees, int n0, int n1) noexcept nogil:
    cdef int shape, a, b
    skb_take_tree(trees, 0, &shape, &a, &b)
    return (<uint64_t>shape * n0 + a) * n1 + b


# Gain of the best tree, and the tree; 0 and PAIR_WHOLE where none is legal and gains.
cdef double best_tree(const sums_t *sums, const pair_options_t *options, uint64_t key, scan_t *s,
                      pair_cut_t *cut) noexcept nogil:
    cdef double top = SKB_NO_PAIR, more, gain
    cdef int a
    cut.shape, cut.a, cut.b = PAIR_WHOLE, -1, -1
    if s.n0 < 2 or s.n1 < 2 or not prepare(sums, options, s):
        return 0.0
    score_halves(s)
    for a in range(s.n0 - 1):
        s.best[a] = score_row(s, a, False)
        top = max(top, s.best[a])
    more = top - s.whole
    gain = more / s.scale
    if not 0.0 < gain <= DBL_MAX:
        return 0.0
    draw_tree(s, top - min(top * ROUNDING, more * ROUNDING_OF_GAIN), sums.W, key, cut)
    return gain


cdef double cross_gain(int size0, int size1, const sums_t *sums, const pair_options_t *options,
                       double *work) noexcept nogil:
    cdef scan_t s
    cdef double top = SKB_NO_PAIR, whole = 0.0, gain
    cdef const skb_pair_row_t *o
    cdef int a, k
    lay_out(size0, size1, options.n_outputs, work, &s)
    if size0 < 2 or size1 < 2 or not prepare(sums, options, &s):
        return 0.0
    for k in range(s.n_outputs):
        o = &s.outputs[k]
        whole += o.G_all[s.ld - 1] * o.G_all[s.ld - 1] / (o.H_all[s.ld - 1] + o.l2)
    for a in range(size0 - 1):
        at_row(&s, a)
        if s.n_outputs > 1:
            skb_d_pair_quadrants(s.outputs, s.n_outputs, s.ld, s.scores)
        top = max(top, skb_d_pair_crosses(s.outputs, s.scores if s.n_outputs > 1 else NULL, s.ld))
    gain = (top - whole) / s.scale
    return gain if 0.0 < gain <= DBL_MAX else 0.0


# Sums of the four quadrants of the cells x; scratch holds n1 numbers. a = -1 or b = -1: all rows or columns are high.
cdef void quadrant_sums(const double *x, int n0, int n1, int a, int b, double *scratch, double *out) noexcept nogil:
    skb_d_column_sums(x, 0, a + 1, n1, scratch)
    out[0], out[1] = skb_d_lane_sum(scratch, b + 1), skb_d_lane_sum(scratch + b + 1, n1 - b - 1)
    skb_d_column_sums(x, a + 1, n0, n1, scratch)
    out[2], out[3] = skb_d_lane_sum(scratch, b + 1), skb_d_lane_sum(scratch + b + 1, n1 - b - 1)


cdef inline void join(double *x, int i, int j) noexcept nogil:
    x[i] = x[j] = x[i] + x[j]


# Give the quadrants that are one leaf its sum.
cdef void join_leaves(int shape, double *x) noexcept nogil:
    if shape == PAIR_LOW_ROWS:
        join(x, 2, 3)
    elif shape == PAIR_HIGH_ROWS:
        join(x, 0, 1)
    elif shape == PAIR_LOW_COLUMNS:
        join(x, 1, 3)
    elif shape == PAIR_HIGH_COLUMNS:
        join(x, 0, 2)


cdef void fill_cells(int n0, int n1, int a, int b, const double *value, double *u) noexcept nogil:
    cdef int i
    cdef double *first
    for i in range(n0):
        if i == 0 or i == a + 1:
            first = u + <Py_ssize_t>i * n1
            fill_row(n1, b, value + (0 if i <= a else 2), first)
        else:
            memcpy(u + <Py_ssize_t>i * n1, first, n1 * sizeof(double))


cdef inline void fill_row(int n1, int b, const double *value, double *row) noexcept nogil:
    cdef int i
    for i in range(b + 1):
        row[i] = value[0]
    for i in range(b + 1, n1):
        row[i] = value[1]


# u of a tree or of random cuts; PAIR_WHOLE has a = b = -1, one quadrant.
cdef void fill_update(const term_t *term, const sums_t *sums, const pair_options_t *options, const pair_cut_t *cut,
                      double *u) noexcept nogil:
    cdef Py_ssize_t cells = <Py_ssize_t>term.size0 * term.size1
    cdef int k, q
    cdef double G[4]
    cdef double H[4]
    cdef double value[4]
    cdef double *own
    for k in range(options.n_outputs):
        own = u + k * cells
        quadrant_sums(sums.G + k * cells, term.size0, term.size1, cut.a, cut.b, own, G)
        quadrant_sums(sums.H + k * cells, term.size0, term.size1, cut.a, cut.b, own, H)
        join_leaves(cut.shape, G)
        join_leaves(cut.shape, H)
        for q in range(4):
            value[q] = -G[q] / (H[q] + options.l2_regularization) if H[q] >= DBL_MIN else 0.0
        fill_cells(term.size0, term.size1, cut.a, cut.b, value, own)


cdef double search_pair(const term_t *term, const sums_t *sums, const pair_options_t *options, uint64_t key,
                        double *work, double *u, pair_cut_t *cut) noexcept nogil:
    cdef scan_t scan
    cdef double gain
    lay_out(term.size0, term.size1, options.n_outputs, work, &scan)
    gain = best_tree(sums, options, key, &scan, cut)
    fill_update(term, sums, options, cut, u)
    return gain


cdef int drawn_boundary(int first, int last, double uniform) noexcept nogil:
    cdef int n = last - first
    return first + min(<int>(uniform * n), n - 1) if n > 0 else -1


cdef void random_pair(const term_t *term, const sums_t *sums, const pair_options_t *options, uint64_t key, double *u,
                      pair_cut_t *cut) noexcept nogil:
    cdef int a, b, n0 = term.size0, n1 = term.size1
    cdef bint low_row = False, low_column = False
    for b in range(n1):
        low_row = low_row or sums.W[b] > 0
    for a in range(n0):
        low_column = low_column or sums.W[<Py_ssize_t>a * n1] > 0
    cut.shape = PAIR_RANDOM
    # The last cell, of unseen categories, never holds rows.
    cut.a = drawn_boundary(0 if low_row else 1, n0 - 2, skb_uniform(key, 0))
    cut.b = drawn_boundary(0 if low_column else 1, n1 - 2, skb_uniform(key, 1))
    fill_update(term, sums, options, cut, u)


SHAPES = ("whole", "low rows", "high rows", "low columns", "high columns", "random")


def search(const double[:, :, ::1] G, const double[:, :, ::1] H, W, *, double min_samples_leaf=0.0,
           double min_hessian=0.0, double l2_regularization=0.0, uint64_t key=0, bint random=False):
    """Return (u, gain, (shape, a, b)) of the best tree on a pair, or of random cuts (whose gain is 0).

    G and H have the shape (n_outputs, size0, size1), W (size0, size1); None stands for the same sums as H, of one
    output. u has the shape of G.
    """
    cdef const double[:, ::1] weights
    cdef term_t term
    cdef sums_t sums
    cdef pair_options_t options
    cdef pair_cut_t cut
    cdef double gain = 0.0
    cdef double *work
    cdef double[:, :, ::1] u
    shape = (G.shape[0], G.shape[1], G.shape[2])
    if (H.shape[0], H.shape[1], H.shape[2]) != shape or min(shape) < 1 or shape[1] * shape[2] > MOST_PAIR_CELLS:
        raise ValueError(
            f"G and H must have one shape (n_outputs, size0, size1) of at most 2**20 cells, got {shape} and "
            f"{(H.shape[0], H.shape[1], H.shape[2])}"
        )
    if W is None:
        if shape[0] > 1:
            raise ValueError("several outputs need weights of their own")
    else:
        weights = W
        if (weights.shape[0], weights.shape[1]) != shape[1:]:
            raise ValueError(f"W must have the shape {shape[1:]}, got {(weights.shape[0], weights.shape[1])}")
    if not (min_samples_leaf >= 0 and min_hessian >= 0 and l2_regularization >= 0):
        raise ValueError("min_samples_leaf, min_hessian and l2_regularization must be at least 0")
    term.n_axes, term.size0, term.size1 = 2, <int>G.shape[1], <int>G.shape[2]
    term.n_cells = term.size0 * term.size1
    options.n_outputs, options.l2_regularization = <int>G.shape[0], l2_regularization
    options.min_samples_leaf, options.min_hessian = min_samples_leaf, min_hessian
    sums.G, sums.H = &G[0, 0, 0], &H[0, 0, 0]
    sums.W = sums.H if W is None else &weights[0, 0]
    u_array = np.empty(shape)
    u = u_array
    work = <double *>malloc(pair_work_size(term.size0, term.size1, options.n_outputs) * sizeof(double))
    if work == NULL:
        raise MemoryError
    with nogil:
        if random:
            random_pair(&term, &sums, &options, key, &u[0, 0, 0], &cut)
        else:
            gain = search_pair(&term, &sums, &options, key, work, &u[0, 0, 0], &cut)
    free(work)
    return u_array, gain, (SHAPES[cut.shape], cut.a, cut.b)
