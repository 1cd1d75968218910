"""Rows of one bag, gathered: the exact back end for every loss, main effects and pairs.

A step is applied to the validation rows at once and to the training rows with the next pass over them, which sums what
the next term needs in the same tiles of rows.
"""

from libc.math cimport NAN
from libc.stdint cimport uint16_t, uint32_t, uintptr_t
from libc.string cimport memcpy, memset

from skboost._engine.losses cimport (
    LOSS_SQUARED,
    loss_from_object,
    loss_gradients64,
    loss_needs_metric,
    loss_t,
    loss_values,
)
from skboost._engine.stage cimport BackEnd, sums_t

import numpy as np

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include "isa.h"
    #define SKB_IMPL "row_state_impl.h"
    #include "isa_expand.h"
    static void skb_d_add_step16(ptrdiff_t n, const uint16_t *code, const skb_row_step_t *step, double *f)
    { SKB_DISPATCH(skb_add_step16)(n, code, step, f); }
    static void skb_d_add_step32(ptrdiff_t n, const uint32_t *code, const skb_row_step_t *step, double *f)
    { SKB_DISPATCH(skb_add_step32)(n, code, step, f); }
    static void skb_d_weigh(ptrdiff_t n, const double *w, const double *x, double *out)
    { SKB_DISPATCH(skb_weigh)(n, w, x, out); }
    static void skb_d_sum_rows(ptrdiff_t n, const double *x, double *lane)
    { SKB_DISPATCH(skb_sum_rows)(n, x, lane); }
    static void skb_d_sum_part(ptrdiff_t n, const uint16_t *code, int first, int last, const double *x, double *lane)
    { SKB_DISPATCH(skb_sum_part)(n, code, first, last, x, lane); }
    static int skb_d_change_points(int n, int n_outputs, const double *u, int *cuts)
    { return SKB_DISPATCH(skb_change_points)(n, n_outputs, u, cuts); }
    static void skb_d_step_and_parts(ptrdiff_t n, const uint16_t *stepped, const skb_row_step_t *step,
                                     const uint16_t *code, int cut, const double *w, double *f, double *below,
                                     double *above)
    { SKB_DISPATCH(skb_step_and_parts)(n, stepped, step, code, cut, w, f, below, above); }
    static void skb_d_step_and_squares(ptrdiff_t n, const uint16_t *code, const skb_row_step_t *step, const double *w,
                                       double *f, double *lane)
    { SKB_DISPATCH(skb_step_and_squares)(n, code, step, w, f, lane); }
    static void skb_d_scatter16(ptrdiff_t n, const uint16_t *code, const double *x, int spread, ptrdiff_t stride,
                                double *hist)
    { SKB_DISPATCH(skb_scatter16)(n, code, x, spread, stride, hist); }
    static void skb_d_scatter32(ptrdiff_t n, const uint32_t *code, const double *x, int spread, ptrdiff_t stride,
                                double *hist)
    { SKB_DISPATCH(skb_scatter32)(n, code, x, spread, stride, hist); }
    static void skb_d_scatter_pairs16(ptrdiff_t n, const uint16_t *code, const double *g, const double *h, int spread,
                                      ptrdiff_t stride, double *hist)
    { SKB_DISPATCH(skb_scatter_pairs16)(n, code, g, h, spread, stride, hist); }
    static void skb_d_scatter_pairs32(ptrdiff_t n, const uint32_t *code, const double *g, const double *h, int spread,
                                      ptrdiff_t stride, double *hist)
    { SKB_DISPATCH(skb_scatter_pairs32)(n, code, g, h, spread, stride, hist); }
    static void skb_d_join_copies(int n, const double *hist, int spread, ptrdiff_t stride, double *out)
    { SKB_DISPATCH(skb_join_copies)(n, hist, spread, stride, out); }
    static void skb_d_join_pairs(int n, const double *hist, int spread, ptrdiff_t stride, double *G, double *H)
    { SKB_DISPATCH(skb_join_pairs)(n, hist, spread, stride, G, H); }
    """
    enum: SKB_LANES
    enum: MAX_CUTS "SKB_MAX_CUTS"
    ctypedef struct skb_row_step_t:
        int n_cuts
        int *cut
        double *value
        const double *table
    double skb_lane_sum(const double *lane) nogil
    void skb_isa_init() nogil
    void skb_d_add_step16(Py_ssize_t, const uint16_t *, const skb_row_step_t *, double *) nogil
    void skb_d_add_step32(Py_ssize_t, const uint32_t *, const skb_row_step_t *, double *) nogil
    void skb_d_weigh(Py_ssize_t, const double *, const double *, double *) nogil
    void skb_d_sum_rows(Py_ssize_t, const double *, double *) nogil
    void skb_d_sum_part(Py_ssize_t, const uint16_t *, int, int, const double *, double *) nogil
    int skb_d_change_points(int, int, const double *, int *) nogil
    void skb_d_step_and_parts(Py_ssize_t, const uint16_t *, const skb_row_step_t *, const uint16_t *, int,
                              const double *, double *, double *, double *) nogil
    void skb_d_step_and_squares(Py_ssize_t, const uint16_t *, const skb_row_step_t *, const double *, double *,
                                double *) nogil
    void skb_d_scatter16(Py_ssize_t, const uint16_t *, const double *, int, Py_ssize_t, double *) nogil
    void skb_d_scatter32(Py_ssize_t, const uint32_t *, const double *, int, Py_ssize_t, double *) nogil
    void skb_d_scatter_pairs16(Py_ssize_t, const uint16_t *, const double *, const double *, int, Py_ssize_t,
                               double *) nogil
    void skb_d_scatter_pairs32(Py_ssize_t, const uint32_t *, const double *, const double *, int, Py_ssize_t,
                               double *) nogil
    void skb_d_join_copies(int, const double *, int, Py_ssize_t, double *) nogil
    void skb_d_join_pairs(int, const double *, int, Py_ssize_t, double *, double *) nogil

skb_isa_init()

# A histogram is crowded where two rows are in one cell with more than this chance.
CROWDED = 0.06

cdef enum:
    TILE = 1024            # rows per pass, a multiple of the lanes
    COPIES = 4             # sums of a cell of a crowded histogram
    PAD = 8                # cells between copies: equal cells of two copies do not lie a multiple of 4 KiB apart
    TILE_VALUES = 65536    # gradients of all outputs of a tile
    MAX_COMPARED = 4       # more cuts are summed from a histogram
    NARROW = 65536         # cells that 16 bits tell apart
    MAX_PAIR_CELLS = 1 << 20

ctypedef struct rows_t:
    Py_ssize_t n
    double *score          # (n_outputs, n); squared error: score - y
    const double *y
    const double *weight   # NULL: all 1
    double total           # of the weights
    void **codes           # per term: (n,) uint16, uint32 where there are more than NARROW cells

ctypedef struct row_state_t:
    loss_t loss
    int n_outputs
    Py_ssize_t tile
    const int *n_cells     # per term
    double **W             # per term: (n_cells,)
    rows_t train
    rows_t valid
    double saturated       # mean loss of perfect predictions of the validation rows
    double *G              # sums of the last term asked for
    double *H
    double *hist           # its histogram
    const char *crowded    # per term: whether rows that follow each other often share a cell
    int pending            # term of a step not yet added to the training rows, or -1
    skb_row_step_t *steps  # per output
    skb_row_step_t still   # adds 0
    double *table          # (n_outputs, n_cells)
    bint known             # whether the gradients of the training rows are in all_grad and all_hess
    double *all_grad       # (n_outputs, n), weighted
    double *all_hess
    double *grad           # (n_outputs, tile)
    double *hess
    double *values         # (tile,)
    double *base           # zeros


# ------------------------------------------------------------------------------------------------ steps


cdef void describe_step(row_state_t *s, int term, const double *u) noexcept nogil:
    """Keep a step of few different values as cuts, any other as a table."""
    cdef int n = s.n_cells[term], k, i, n_cuts = -1
    cdef int cuts[MAX_CUTS]
    cdef skb_row_step_t *step
    if n <= NARROW:
        n_cuts = skb_d_change_points(n, s.n_outputs, u, cuts)
    if n_cuts < 0:
        memcpy(s.table, u, <size_t>s.n_outputs * n * sizeof(double))
    for k in range(s.n_outputs):
        step = s.steps + k
        step.n_cuts = n_cuts
        step.table = s.table + <Py_ssize_t>k * n
        for i in range(n_cuts):
            step.cut[i] = cuts[i]
            step.value[i] = u[<Py_ssize_t>k * n + cuts[i]]
        step.value[max(n_cuts, 0)] = u[<Py_ssize_t>k * n + n - 1]


cdef void add_step(row_state_t *s, const rows_t *rows, Py_ssize_t at, Py_ssize_t m) noexcept nogil:
    """Add the last step to rows at..at+m-1."""
    cdef int k
    cdef double *score
    for k in range(s.n_outputs):
        score = rows.score + k * rows.n + at
        if s.n_cells[s.pending] > NARROW:
            skb_d_add_step32(m, <const uint32_t *>rows.codes[s.pending] + at, s.steps + k, score)
        else:
            skb_d_add_step16(m, <const uint16_t *>rows.codes[s.pending] + at, s.steps + k, score)


cdef void flush(row_state_t *s) noexcept nogil:
    if s.pending >= 0:
        add_step(s, &s.train, 0, s.train.n)
        s.pending = -1
        s.known = False


# ------------------------------------------------------------------------------------------------ gradients


cdef void tile_gradients(row_state_t *s, Py_ssize_t at, Py_ssize_t m, double *grad, double *hess,
                         Py_ssize_t stride) noexcept nogil:
    """Weighted gradients of training rows at..at+m-1 of any loss but squared error."""
    cdef int k
    loss_gradients64(&s.loss, m, s.train.y + at, s.train.score + at, s.train.n, s.base, grad, hess, stride)
    if s.train.weight != NULL:
        for k in range(s.n_outputs):
            skb_d_weigh(m, s.train.weight + at, grad + k * stride, grad + k * stride)
            skb_d_weigh(m, s.train.weight + at, hess + k * stride, hess + k * stride)


cdef Py_ssize_t prepare_tile(row_state_t *s, Py_ssize_t at, const double **grad, const double **hess,
                             Py_ssize_t *stride) noexcept nogil:
    """Bring one tile of training rows up to date; returns its rows. hess is not set for squared error."""
    cdef Py_ssize_t m = min(s.tile, s.train.n - at)
    if s.pending >= 0:
        add_step(s, &s.train, at, m)
    stride[0] = s.train.n
    if s.loss.kind == LOSS_SQUARED:
        grad[0] = s.train.score + at
        if s.train.weight != NULL:
            skb_d_weigh(m, s.train.weight + at, s.train.score + at, s.grad)
            grad[0] = s.grad
        return m
    if s.known:
        grad[0] = s.all_grad + at
        hess[0] = s.all_hess + at
        return m
    if s.pending >= 0:
        stride[0] = s.tile
        tile_gradients(s, at, m, s.grad, s.hess, s.tile)
        grad[0] = s.grad
        hess[0] = s.hess
    else:
        # No step between passes: the next ones find the gradients here.
        tile_gradients(s, at, m, s.all_grad + at, s.all_hess + at, s.train.n)
        grad[0] = s.all_grad + at
        hess[0] = s.all_hess + at
    return m


cdef void end_pass(row_state_t *s) noexcept nogil:
    s.known = s.loss.kind != LOSS_SQUARED and s.pending < 0
    s.pending = -1


# ------------------------------------------------------------------------------------------------ sums


cdef void scatter(row_state_t *s, int term, Py_ssize_t at, Py_ssize_t m, const double *grad, const double *hess,
                  double *hist) noexcept nogil:
    """Add rows to a histogram: of grad, or of pairs where hess is not NULL."""
    cdef Py_ssize_t stride = s.n_cells[term] + PAD
    cdef const uint16_t *narrow = <const uint16_t *>s.train.codes[term] + at
    cdef const uint32_t *wide = <const uint32_t *>s.train.codes[term] + at
    cdef int spread = s.crowded[term]
    if s.n_cells[term] <= NARROW:
        if hess == NULL:
            skb_d_scatter16(m, narrow, grad, spread, stride, hist)
        else:
            skb_d_scatter_pairs16(m, narrow, grad, hess, spread, stride, hist)
    elif hess == NULL:
        skb_d_scatter32(m, wide, grad, spread, stride, hist)
    else:
        skb_d_scatter_pairs32(m, wide, grad, hess, spread, stride, hist)


cdef void row_sums(void *self, int term, sums_t *out) noexcept nogil:
    cdef row_state_t *s = <row_state_t *>self
    cdef Py_ssize_t n = s.n_cells[term], at = 0, m, tile_stride, stride = n + PAD, room
    cdef const double *grad
    cdef const double *hess = NULL
    cdef bint newton = s.loss.kind != LOSS_SQUARED
    cdef int k, spread = s.crowded[term]
    room = (COPIES if spread else COPIES // 2 if newton else 1) * stride
    memset(s.hist, 0, s.n_outputs * room * sizeof(double))
    while at < s.train.n:
        m = prepare_tile(s, at, &grad, &hess, &tile_stride)
        for k in range(s.n_outputs):
            scatter(s, term, at, m, grad + k * tile_stride, hess + k * tile_stride if newton else NULL,
                    s.hist + k * room)
        at += m
    end_pass(s)
    for k in range(s.n_outputs):
        if newton:
            skb_d_join_pairs(<int>n, s.hist + k * room, spread, stride, s.G + k * n, s.H + k * n)
        else:
            skb_d_join_copies(<int>n, s.hist + k * room, spread, stride, s.G + k * n)
    out.G = s.G
    out.W = s.W[term]
    out.H = s.H if newton else s.W[term]


cdef void parts_from_cells(row_state_t *s, int term, int n_cuts, const int *cuts, double *G, double *H) noexcept nogil:
    cdef sums_t sums
    cdef int k, i, b, n = s.n_cells[term], last
    cdef double g, h
    row_sums(s, term, &sums)
    for k in range(s.n_outputs):
        b = 0
        for i in range(n_cuts + 1):
            g = h = 0.0
            last = cuts[i] if i < n_cuts else n - 1
            while b <= last:
                g += sums.G[<Py_ssize_t>k * n + b]
                h += sums.H[<Py_ssize_t>k * n + b]
                b += 1
            G[k * (n_cuts + 1) + i] = g
            H[k * (n_cuts + 1) + i] = h


cdef inline int first_cell(const int *cuts, int i) noexcept nogil:
    return cuts[i - 1] + 1 if i else 0


cdef inline int last_cell(const row_state_t *s, int term, int n_cuts, const int *cuts, int i) noexcept nogil:
    return cuts[i] if i < n_cuts else s.n_cells[term] - 1


cdef void row_part_sums(void *self, int term, int n_cuts, const int *cuts, double *G, double *H) noexcept nogil:
    cdef row_state_t *s = <row_state_t *>self
    cdef Py_ssize_t at = 0, m, stride
    cdef const double *grad
    cdef const double *hess
    cdef bint newton = s.loss.kind != LOSS_SQUARED
    cdef int k, i, parts = n_cuts + 1
    # sums in lanes of each part, output and kind of sum
    cdef double *G_lanes = s.hist
    cdef double *H_lanes = s.hist + s.n_outputs * parts * SKB_LANES
    if n_cuts > MAX_COMPARED or s.n_cells[term] > NARROW:
        parts_from_cells(s, term, n_cuts, cuts, G, H)
        return
    memset(s.hist, 0, 2 * s.n_outputs * parts * SKB_LANES * sizeof(double))
    if not newton and n_cuts == 1 and (s.pending < 0 or s.steps[0].n_cuts >= 0):
        # the common case in one go
        skb_d_step_and_parts(
            s.train.n, <const uint16_t *>s.train.codes[max(s.pending, 0)], s.steps if s.pending >= 0 else &s.still,
            <const uint16_t *>s.train.codes[term], cuts[0], s.train.weight, s.train.score, G_lanes,
            G_lanes + SKB_LANES)
        at = s.train.n
    while at < s.train.n:
        m = prepare_tile(s, at, &grad, &hess, &stride)
        for k in range(s.n_outputs):
            sum_parts(s, term, at, m, n_cuts, cuts, grad + k * stride, G_lanes + k * parts * SKB_LANES)
            if newton:
                sum_parts(s, term, at, m, n_cuts, cuts, hess + k * stride, H_lanes + k * parts * SKB_LANES)
        at += m
    end_pass(s)
    if not newton:
        for i in range(parts):
            skb_d_sum_rows(last_cell(s, term, n_cuts, cuts, i) + 1 - first_cell(cuts, i),
                           s.W[term] + first_cell(cuts, i), H_lanes + i * SKB_LANES)
    for i in range(s.n_outputs * parts):
        G[i] = skb_lane_sum(G_lanes + i * SKB_LANES)
        H[i] = skb_lane_sum(H_lanes + i * SKB_LANES)


cdef void sum_parts(const row_state_t *s, int term, Py_ssize_t at, Py_ssize_t m, int n_cuts, const int *cuts,
                    const double *x, double *lanes) noexcept nogil:
    cdef const uint16_t *code = <const uint16_t *>s.train.codes[term] + at
    cdef int i
    for i in range(n_cuts + 1):
        skb_d_sum_part(m, code, first_cell(cuts, i), last_cell(s, term, n_cuts, cuts, i), x, lanes + i * SKB_LANES)


# ------------------------------------------------------------------------------------------------ validation


cdef double validation_metric(row_state_t *s, bint step) noexcept nogil:
    """Mean loss of the validation rows (squared error: mean square), the last step added to them if `step`."""
    cdef rows_t *rows = &s.valid
    cdef double lanes[SKB_LANES]
    cdef Py_ssize_t at = 0, m
    cdef bint fused
    memset(lanes, 0, sizeof(lanes))
    while at < rows.n:
        m = min(s.tile, rows.n - at)
        fused = step and s.loss.kind == LOSS_SQUARED and s.steps[0].n_cuts >= 0
        if step and not fused:
            add_step(s, rows, at, m)
        if s.loss.kind == LOSS_SQUARED:
            skb_d_step_and_squares(m, <const uint16_t *>rows.codes[max(s.pending, 0)] + at,
                                   s.steps if fused else &s.still,
                                   rows.weight + at if rows.weight != NULL else NULL, rows.score + at, lanes)
        else:
            loss_values(&s.loss, m, rows.y + at, rows.score + at, rows.n, s.base, s.values)
            if rows.weight != NULL:
                skb_d_weigh(m, rows.weight + at, s.values, s.values)
            skb_d_sum_rows(m, s.values, lanes)
        at += m
    if rows.n == 0:
        return NAN
    return skb_lane_sum(lanes) / rows.total - s.saturated


cdef double row_apply(void *self, int term, const double *u) noexcept nogil:
    cdef row_state_t *s = <row_state_t *>self
    flush(s)
    describe_step(s, term, u)
    s.pending = term
    s.known = False
    return validation_metric(s, True)


cdef double row_refresh(void *self) noexcept nogil:
    cdef row_state_t *s = <row_state_t *>self
    flush(s)
    return validation_metric(s, False)


# ------------------------------------------------------------------------------------------------ object


cdef class RowState(BackEnd):
    """Rows of one bag.

    Parameters
    ----------
    loss : object
        With attributes `kind`, `n_outputs` and `params`.
    cells : ndarray of shape (n_features, n_rows), uint16
        Cell of every row on every feature.
    term_axes : array-like of shape (n_terms, 2), int
        Features of every term, -1 as the second one of a main effect.
    n_cells : array-like of shape (n_features,), int
        Cells of every feature.
    y : ndarray of shape (n_rows,), float64
        Targets.
    score : ndarray of shape (n_outputs, n_rows), float64
        Raw scores to start from.
    train_weight, val_weight : ndarray of shape (n_rows,), float64
        Weights of the rows in the bag's training and validation part; 0 leaves a row out.
    coarse : list of ndarray, optional
        Per feature: uint16 map from its cells to the cells of an axis of a pair, of which the last one is that of the
        last cell. Features of no pair may have None.
    saturated : ndarray of shape (n_rows,), float64, optional
        Loss of the perfect prediction of every row; the validation metric is the excess over it.
    """
    cdef row_state_t state
    cdef object keep

    def __init__(self, loss, cells, term_axes, n_cells, y, score, train_weight, val_weight, *, coarse=None,
                 saturated=None):
        cdef row_state_t *s = &self.state
        memset(s, 0, sizeof(row_state_t))
        self.c.self = NULL
        self.keep = []
        loss_from_object(loss, &s.loss)
        if loss_needs_metric(&s.loss):
            raise ValueError(f"loss kind {loss.kind} has no second derivatives to boost with")
        self.n_outputs = s.n_outputs = s.loss.n_outputs
        cells = np.asarray(cells)
        if cells.ndim != 2 or cells.dtype != np.uint16 or cells.shape[0] < 1:
            raise ValueError("cells must be uint16 of shape (n_features, n_rows)")
        n_rows = cells.shape[1]
        n_cells = checked_cell_counts(cells, n_cells)
        y = checked("y", y, (n_rows,))
        score = checked("score", score, (self.n_outputs, n_rows))
        train_weight = checked_weight("train_weight", train_weight, n_rows)
        val_weight = checked_weight("val_weight", val_weight, n_rows)
        axes = checked_axes(term_axes, len(n_cells))
        maps = checked_maps(coarse, axes, n_cells)
        if not (train_weight > 0).any():
            raise ValueError("train_weight must be positive for some row")
        self.term_sizes = sizes = np.ones((len(axes), 2), dtype=np.int32)
        for t, (j, k) in enumerate(axes):
            sizes[t] = (n_cells[j], 1) if k < 0 else (axis_cells(maps, j), axis_cells(maps, k))
        codes, weight = self.fill_rows(&s.train, cells, axes, maps, y, score, train_weight)
        self.fill_rows(&s.valid, cells, axes, maps, y, score, val_weight)
        if saturated is not None and s.valid.n:
            saturated = checked("saturated", saturated, (n_rows,))
            s.saturated = float((saturated * val_weight).sum() / val_weight.sum())
        self.fill_cells(codes, weight)
        self.allocate()
        self.c.self = s
        self.c.sums = row_sums
        self.c.part_sums = row_part_sums
        self.c.apply = row_apply
        self.c.refresh = row_refresh

    cdef fill_rows(self, rows_t *rows, cells, axes, maps, y, score, weight):
        """Gather the rows with weight; returns their codes per term and their weights."""
        chosen = np.flatnonzero(weight)
        weight = weight[chosen]
        y, score = y[chosen], np.ascontiguousarray(score[:, chosen])
        if self.state.loss.kind == LOSS_SQUARED:
            score -= y
        rows.n = len(chosen)
        rows.y = self.doubles(y)
        rows.score = self.doubles(score)
        rows.total = weight.sum()
        rows.weight = NULL if (weight == 1).all() else self.doubles(weight)
        codes = [term_codes(cells, chosen, maps, j, k) for j, k in axes]
        rows.codes = <void **>self.pointers(codes)
        return codes, weight

    cdef int fill_cells(self, codes, weight) except -1:
        """Number of cells and weights of every term."""
        cdef row_state_t *s = &self.state
        sizes = np.ascontiguousarray(self.term_sizes.prod(axis=1), dtype=np.int32)
        cdef const int[::1] n_cells = sizes
        self.keep.append(sizes)
        s.n_cells = &n_cells[0]
        weights = [np.bincount(codes[t], weight, minlength=size) for t, size in enumerate(sizes)]
        counts = [np.bincount(code) / len(code) for code in codes]
        cdef const char[::1] crowded = np.array([share @ share > CROWDED for share in counts], dtype=np.int8)
        self.keep.append(crowded)
        s.crowded = &crowded[0]
        s.W = <double **>self.pointers(weights)
        return 0

    cdef int allocate(self) except -1:
        """Memory of the passes."""
        cdef row_state_t *s = &self.state
        cdef Py_ssize_t outputs = self.n_outputs, n = s.train.n, largest = self.term_sizes.prod(axis=1).max()
        cdef bint newton = s.loss.kind != LOSS_SQUARED
        cdef unsigned char[::1] steps = np.zeros(outputs * sizeof(skb_row_step_t), dtype=np.uint8)
        s.tile = max(<Py_ssize_t>SKB_LANES, min(<Py_ssize_t>TILE, TILE_VALUES // outputs // SKB_LANES * SKB_LANES))
        s.hist = self.doubles(outputs * max(COPIES * (largest + PAD), 2 * SKB_LANES * (MAX_COMPARED + 1)))
        s.G = self.doubles(outputs * largest)
        s.table = self.doubles(outputs * largest)
        s.grad = self.doubles(outputs * s.tile)
        s.values = self.doubles(s.tile)
        s.base = self.doubles(outputs)
        if newton:
            s.H = self.doubles(outputs * largest)
            s.hess = self.doubles(outputs * s.tile)
            s.all_grad = self.doubles(outputs * n)
            s.all_hess = self.doubles(outputs * n)
        self.keep.append(steps)
        s.steps = <skb_row_step_t *>&steps[0]
        s.pending = -1
        return 0

    cdef double *doubles(self, values) except? NULL:
        """Memory that lives as long as this object: a copy of an array, or zeros of a length."""
        array = np.zeros(values) if isinstance(values, int) else np.array(values, dtype=np.float64, order="C")
        cdef double[::1] flat = array.reshape(-1)
        self.keep.append(array)
        return &flat[0] if flat.shape[0] else NULL

    cdef void *pointers(self, arrays) except NULL:
        """Addresses of arrays, which are kept."""
        cdef uintptr_t[::1] out = np.array([array.ctypes.data for array in arrays], dtype=np.uintp)
        self.keep.append((out, arrays))
        return &out[0]

    def scores(self):
        """Return the raw scores of the training rows, of shape (n_outputs, n); squared error: score - y."""
        cdef row_state_t *s = &self.state
        cdef double[:, ::1] out
        self.check_ready()
        flush(s)
        out = np.empty((self.n_outputs, s.train.n))
        memcpy(&out[0, 0], s.train.score, out.size * sizeof(double))
        return np.asarray(out)


# ------------------------------------------------------------------------------------------------ checks


def checked(name, values, shape):
    values = np.ascontiguousarray(values, dtype=np.float64)
    if values.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds values that are not finite")
    return values


def checked_weight(name, weight, n_rows):
    weight = checked(name, weight, (n_rows,))
    if (weight < 0).any():
        raise ValueError(f"{name} holds negative values")
    return weight


def checked_cell_counts(cells, n_cells):
    n_cells = [int(n) for n in n_cells]
    if len(n_cells) != len(cells):
        raise ValueError(f"n_cells has {len(n_cells)} entries for {len(cells)} features")
    for j, n in enumerate(n_cells):
        if not 2 <= n <= 65536 or (cells.shape[1] and cells[j].max() >= n):
            raise ValueError(f"feature {j} holds cells beyond its {n} cells, of which there are 2 to 65536")
    return n_cells


def checked_axes(term_axes, n_features):
    axes = [(int(j), int(k)) for j, k in term_axes]
    if not axes:
        raise ValueError("term_axes must name at least one term")
    for j, k in axes:
        if not (0 <= j < n_features and -1 <= k < n_features and j != k):
            raise ValueError(f"term_axes holds {(j, k)}, not one or two of {n_features} features")
    return axes


def checked_maps(coarse, axes, n_cells):
    """Return {feature: its coarse map} of the features that occur in pairs."""
    maps = {}
    for j in {feature for pair in axes if pair[1] >= 0 for feature in pair}:
        if coarse is None or coarse[j] is None:
            raise ValueError(f"coarse has no map for feature {j}, which is part of a pair")
        maps[j] = np.asarray(coarse[j])
        if maps[j].dtype != np.uint16 or maps[j].shape != (n_cells[j],) or maps[j].max() != maps[j][n_cells[j] - 1]:
            raise ValueError(
                f"coarse[{j}] must be uint16 of shape ({n_cells[j]},), its last entry the number of the last cell"
            )
    for j, k in axes:
        if k >= 0 and axis_cells(maps, j) * axis_cells(maps, k) > MAX_PAIR_CELLS:
            raise ValueError(f"the pair {(j, k)} has more than {MAX_PAIR_CELLS} cells")
    return maps


def axis_cells(maps, j):
    return int(maps[j].max()) + 1


def term_codes(cells, chosen, maps, j, k):
    """Return the cell of every chosen row on a term."""
    if k < 0:
        return cells[j, chosen]
    size1 = axis_cells(maps, k)
    wide = axis_cells(maps, j) * size1 > NARROW
    code = maps[j].astype(np.uint32 if wide else np.uint16)[cells[j, chosen]]
    code *= code.dtype.type(size1)
    code += maps[k][cells[k, chosen]]
    return code
