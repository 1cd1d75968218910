"""Search of main effects: trees on lines of cells, grown best first, and random cuts."""

from libc.float cimport DBL_MAX, DBL_MIN
from libc.math cimport INFINITY
from libc.stdint cimport uint64_t

from skboost._engine.lines cimport (
    LEFT,
    MISSING_LOW,
    MISSING_SEPARATE,
    RIGHT,
    bound_value_of,
    fill_term_cache,
    lay_line,
    leaf_score,
    leaf_score_of,
    leaf_t,
    leaf_value,
    leaf_value_of,
    line_size,
    line_t,
    score_cuts,
    term_cache_size,
    term_cache_t,
    term_options_t,
)
from skboost._engine.stage cimport sums_t, term_t

import math

import numpy as np

cdef extern from *:
    """
    #include "isa.h"
    #include "rng.h"
    #define SKB_IMPL "terms_impl.h"
    #include "isa_expand.h"
    static int skb_d_find_equal(int n, const double *score, double value, int *first)
    { return SKB_DISPATCH(skb_find_equal)(n, score, value, first); }
    static void skb_d_fill(int n, double value, double *out) { SKB_DISPATCH(skb_fill)(n, value, out); }
    """
    double skb_uniform(uint64_t key, uint64_t counter) nogil
    void skb_isa_init() nogil
    int skb_d_find_equal(int n, const double *score, double value, int *first) nogil
    void skb_d_fill(int n, double value, double *out) nogil

skb_isa_init()

cdef enum:
    TIE_DRAW = 0        # which of equal cuts
    LEAF_DOUBLES = 5    # room of a leaf_t


cdef Py_ssize_t term_work_size(int n_cells, int n_outputs) noexcept nogil:
    return line_size(n_cells, n_outputs) + LEAF_DOUBLES * (<Py_ssize_t>n_cells + 2)


# ------------------------------------------------------------------------------------------------ trees


cdef void find_cut(line_t *line, leaf_t *leaf, double lower, double upper) noexcept nogil:
    """Best legal cut of a leaf; gain 0 if there is none."""
    cdef int first[2]
    cdef int count[2]
    cdef int ties[2]
    cdef int at[2]
    cdef int side, chosen = 0
    cdef double top = 0.0, gain
    leaf.gain = 0.0
    for side in range(2):
        count[side] = ties[side] = at[side] = 0
        if (leaf.block and not line.side_allowed[side]) or (not leaf.block and side == RIGHT):
            continue
        first[side] = leaf.start if leaf.block and side == LEFT and line.alone[LEFT] else leaf.start + 1
        count[side] = max(0, leaf.end - first[side] + (1 if leaf.block and side == RIGHT and line.alone[RIGHT] else 0))
        if count[side]:
            top = max(top, score_cuts(line, leaf, side, first[side], count[side], lower, upper, line.scores[side]))
    gain = top - leaf_score_of(line, leaf)
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
    cdef int low = at - 1, high = at + 1, direction = line.term.monotone
    if direction < 0:
        low, high = high, low
    if direction and 0 <= low < n_leaves:
        lower = leaves[low].value
    if direction and 0 <= high < n_leaves:
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
        leaves[i].value = bound_value_of(line, &leaves[i])


cdef double grow_leaves(line_t *line, leaf_t *leaves, int *n_leaves) noexcept nogil:
    """Cut the leaf of largest gain until there are enough; returns the sum of the gains."""
    cdef int i, best, n = 1
    cdef double gain = 0.0
    whole_leaf(line, leaves)
    n_leaves[0] = 1
    if line.options.max_leaves < 2:
        return 0.0
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
            if line.term.monotone or i == best or i == best + 1:
                scan_leaf(line, leaves, n, i)
    n_leaves[0] = n
    return gain


cdef void whole_leaf(const line_t *line, leaf_t *leaf) noexcept nogil:
    leaf.start = 0
    leaf.end = line.length
    leaf.block = line.has_block


# ------------------------------------------------------------------------------------------------ updates


cdef double output_value(const line_t *line, const leaf_t *leaf, int k) noexcept nogil:
    return bound_value_of(line, leaf) if line.term.monotone else leaf_value_of(line, leaf, k)


cdef void write_numeric(const line_t *line, const leaf_t *leaves, int n_leaves, int k, double *out) noexcept nogil:
    """Values of one output. Without rows cell 0 takes the value of cell 1."""
    cdef Py_ssize_t n = line.term.n_cells
    cdef double value
    cdef int i
    for i in range(n_leaves):
        value = output_value(line, &leaves[i], k)
        skb_d_fill(leaves[i].end - leaves[i].start, value, out + 1 + leaves[i].start)
        if leaves[i].block:
            out[0] = value
    if not line.term.has_missing:
        out[0] = out[1] if n > 2 else 0.0
    elif line.options.missing == MISSING_SEPARATE:
        out[0] = leaf_value(line.sums.G[k * n], line.sums.H[k * n], line.options.l2_regularization)
    out[n - 1] = out[n - 2]


cdef void write_nominal(const line_t *line, const leaf_t *leaves, int n_leaves, int k, double *out) noexcept nogil:
    """Values of one output. Levels without rows go with the pooled ones, or get the common value where none are."""
    cdef leaf_t whole
    cdef double value
    cdef int i, p, n = line.term.n_cells
    whole_leaf(line, &whole)
    value = leaf_value_of(line, &whole, k)
    for i in range(n_leaves):
        if leaves[i].block:
            value = leaf_value_of(line, &leaves[i], k)
    skb_d_fill(n - 1, value, out)
    for i in range(n_leaves):
        value = leaf_value_of(line, &leaves[i], k)
        for p in range(leaves[i].start, leaves[i].end):
            out[line.order[p]] = value
    out[n - 1] = out[n - 2]


cdef void write_whole(const line_t *line, int k, double *out) noexcept nogil:
    """One leaf over all cells."""
    cdef Py_ssize_t n = line.term.n_cells
    cdef double G = 0.0, H = 0.0
    cdef int b
    for b in range(n):
        G += line.sums.G[k * n + b]
        H += line.sums.H[k * n + b]
    skb_d_fill(<int>n, leaf_value(G, H, line.options.l2_regularization), out)


cdef double separate_gain(const line_t *line) noexcept nogil:
    """What the missing cell's own leaf gains; with l2 it may lose."""
    cdef double gain = 0.0, l2 = line.options.l2_regularization, G, H, G0, H0
    cdef Py_ssize_t at
    cdef int k
    for k in range(line.options.n_outputs):
        at = <Py_ssize_t>k * line.stride + line.length
        G, H = line.G[at], line.H[at]
        G0, H0 = line.block_G[k], line.block_H[k]
        gain += leaf_score(G, H, l2) + leaf_score(G0, H0, l2) - leaf_score(G + G0, H + H0, l2)
    return gain if -DBL_MAX <= gain <= DBL_MAX else 0.0


cdef double search_term(const term_t *term, const sums_t *sums, const term_options_t *options,
                        const term_cache_t *cache, uint64_t key, double *work, double *u) noexcept nogil:
    cdef leaf_t *leaves = <leaf_t *>(work + line_size(term.n_cells, options.n_outputs))
    cdef line_t line
    cdef double gain = 0.0
    cdef double *out
    cdef int k, n_leaves = 1
    lay_line(&line, term, sums, options, cache, key, work)
    if not term.nominal or line.length > 1:
        gain = grow_leaves(&line, leaves, &n_leaves)
    else:
        whole_leaf(&line, leaves)
    if not term.nominal and term.has_missing and options.missing == MISSING_SEPARATE:
        gain += separate_gain(&line)
    if not gain >= DBL_MIN:
        gain = 0.0
    for k in range(options.n_outputs):
        out = u + <Py_ssize_t>k * term.n_cells
        if gain == 0.0:
            write_whole(&line, k, out)
        elif term.nominal:
            write_nominal(&line, leaves, n_leaves, k, out)
        else:
            write_numeric(&line, leaves, n_leaves, k, out)
    return gain


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
    cdef int k, i, start, end, n = term.n_cells, parts = n_cuts + 1
    cdef double value, sum_G, sum_H, l2 = options.l2_regularization
    cdef bint whole = term.monotone != 0 and not follows(term, n_cuts, cuts, G, H, options)
    for k in range(options.n_outputs):
        sum_G = sum_H = 0.0
        for i in range(parts):
            sum_G += G[k * parts + i]
            sum_H += H[k * parts + i]
        start = 0
        for i in range(parts):
            value = leaf_value(sum_G, sum_H, l2) if whole else leaf_value(G[k * parts + i], H[k * parts + i], l2)
            end = cuts[i] + 1 if i < n_cuts else n
            skb_d_fill(end - start, value, u + <Py_ssize_t>k * n + start)
            start = end


cdef bint follows(const term_t *term, int n_cuts, const int *cuts, const double *G, const double *H,
                  const term_options_t *options) noexcept nogil:
    """Whether the parts follow the monotone direction; one of missing cells alone need not unless they are "low"."""
    cdef int i, first = 1 if n_cuts and cuts[0] == 0 and options.missing != MISSING_LOW else 0
    cdef double last, value
    last = leaf_value(G[first], H[first], options.l2_regularization)
    for i in range(first + 1, n_cuts + 1):
        value = leaf_value(G[i], H[i], options.l2_regularization)
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
        limits = (min_samples_leaf, min_hessian, l2_regularization, min_cat_samples, cat_smooth)
        if not all(0.0 <= limit < math.inf for limit in limits):
            raise ValueError(f"limits and regularisation must be finite and at least 0, got {limits}")
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
