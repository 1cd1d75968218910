"""Passes over the rows of a bag: sums over cells under the current model, steps of the model.

A step is applied to the validation rows at once and to the training rows with the next pass over them, which sums what
the next term needs in the same tiles of rows.
"""

from libc.math cimport NAN
from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memcpy, memset

from skboost._engine.losses cimport LOSS_SQUARED, loss_gradients64, loss_values
from skboost._engine.stage cimport sums_t

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
    static void skb_d_exp_all(ptrdiff_t n, double sign, const double *x, double *out)
    { SKB_DISPATCH(skb_exp_all)(n, sign, x, out); }
    static void skb_d_scale16(ptrdiff_t n, const uint16_t *code, const skb_row_step_t *step, double *x)
    { SKB_DISPATCH(skb_scale16)(n, code, step, x); }
    static void skb_d_scale32(ptrdiff_t n, const uint32_t *code, const skb_row_step_t *step, double *x)
    { SKB_DISPATCH(skb_scale32)(n, code, step, x); }
    static void skb_d_binary_odds(ptrdiff_t n, const double *y, const double *x, double *grad, double *hess)
    { SKB_DISPATCH(skb_binary_odds)(n, y, x, grad, hess); }
    static void skb_d_class_odds(ptrdiff_t n, int n_classes, const double *y, const double *x, ptrdiff_t stride,
                                 double *room, double *grad, double *hess, ptrdiff_t grad_stride)
    { SKB_DISPATCH(skb_class_odds)(n, n_classes, y, x, stride, room, grad, hess, grad_stride); }
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
    enum: SKB_MAX_CUTS
    double skb_lane_sum(const double *lane) nogil
    double skb_odds(double x) nogil
    void skb_isa_init() nogil
    void skb_d_add_step16(Py_ssize_t, const uint16_t *, const skb_row_step_t *, double *) nogil
    void skb_d_add_step32(Py_ssize_t, const uint32_t *, const skb_row_step_t *, double *) nogil
    void skb_d_exp_all(Py_ssize_t, double, const double *, double *) nogil
    void skb_d_scale16(Py_ssize_t, const uint16_t *, const skb_row_step_t *, double *) nogil
    void skb_d_scale32(Py_ssize_t, const uint32_t *, const skb_row_step_t *, double *) nogil
    void skb_d_binary_odds(Py_ssize_t, const double *, const double *, double *, double *) nogil
    void skb_d_class_odds(Py_ssize_t, int, const double *, const double *, Py_ssize_t, double *, double *, double *,
                          Py_ssize_t) nogil
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

cdef enum:
    TILE = 1024            # rows per pass, a multiple of the lanes
    COPIES = 4             # sums of a cell of a crowded histogram
    PAD = 8                # cells between copies: equal cells of two copies do not lie a multiple of 4 KiB apart
    TILE_VALUES = 65536    # gradients of all outputs of a tile
    MAX_COMPARED = 4       # more cuts are summed from a histogram


cdef Py_ssize_t tile_rows(int n_outputs) noexcept nogil:
    return max(<Py_ssize_t>SKB_LANES, min(<Py_ssize_t>TILE, TILE_VALUES // n_outputs // SKB_LANES * SKB_LANES))


cdef Py_ssize_t histogram_size(int n_cells, int n_outputs) noexcept nogil:
    # or the lanes of the parts between cuts
    return <Py_ssize_t>n_outputs * max(COPIES * (<Py_ssize_t>n_cells + PAD), 2 * SKB_LANES * (MAX_COMPARED + 1))


cdef void keep_exponentials(double *x, Py_ssize_t n, double odds) noexcept nogil:
    cdef Py_ssize_t i
    skb_d_exp_all(n, odds, x, x)
    for i in range(n):
        x[i] = skb_odds(x[i])


cdef double sum_rows(const double *x, Py_ssize_t n) noexcept nogil:
    cdef double lanes[SKB_LANES]
    memset(lanes, 0, sizeof(lanes))
    skb_d_sum_rows(n, x, lanes)
    return skb_lane_sum(lanes)


# ------------------------------------------------------------------------------------------------ steps


cdef void describe_step(row_state_t *s, int term, const double *u) noexcept nogil:
    """Keep a step of few different values as cuts, any other as a table."""
    cdef int n = s.n_cells[term], k, i, n_cuts = -1
    cdef int cuts[SKB_MAX_CUTS]
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
    if s.odds:
        describe_factors(s, n_cuts, n)


cdef void describe_factors(row_state_t *s, int n_cuts, Py_ssize_t n_cells) noexcept nogil:
    """The step as factors of the exponentials that the training rows keep."""
    cdef int k
    if n_cuts < 0:
        skb_d_exp_all(s.n_outputs * n_cells, s.odds, s.table, s.factor_table)
    for k in range(s.n_outputs):
        s.factors[k] = s.steps[k]
        s.factors[k].table = s.factor_table + k * n_cells
        skb_d_exp_all(max(n_cuts, 0) + 1, s.odds, s.steps[k].value, s.factors[k].value)


cdef void step_training(row_state_t *s, Py_ssize_t at, Py_ssize_t m) noexcept nogil:
    """Apply the last step to training rows at..at+m-1."""
    cdef int k
    cdef double *kept
    if not s.odds:
        add_step(s, &s.train, at, m)
        return
    for k in range(s.n_outputs):
        kept = s.train.score + k * s.train.n + at
        if s.n_cells[s.pending] > NARROW:
            skb_d_scale32(m, <const uint32_t *>s.train.codes[s.pending] + at, s.factors + k, kept)
        else:
            skb_d_scale16(m, <const uint16_t *>s.train.codes[s.pending] + at, s.factors + k, kept)


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
        step_training(s, 0, s.train.n)
        s.pending = -1
        s.known = False


# ------------------------------------------------------------------------------------------------ gradients


cdef void tile_gradients(row_state_t *s, Py_ssize_t at, Py_ssize_t m, double *grad, double *hess,
                         Py_ssize_t stride) noexcept nogil:
    """Weighted gradients of training rows at..at+m-1 of any loss but squared error."""
    cdef int k
    cdef const double *y = s.train.y + at
    cdef const double *score = s.train.score + at
    if s.odds < 0.0:
        skb_d_binary_odds(m, y, score, grad, hess)
    elif s.odds > 0.0:
        skb_d_class_odds(m, s.n_outputs, y, score, s.train.n, s.values, grad, hess, stride)
    else:
        loss_gradients64(&s.loss, m, y, score, s.train.n, s.base, grad, hess, stride)
    if s.train.weight != NULL:
        for k in range(s.n_outputs):
            skb_d_weigh(m, s.train.weight + at, grad + k * stride, grad + k * stride)
            skb_d_weigh(m, s.train.weight + at, hess + k * stride, hess + k * stride)


cdef Py_ssize_t prepare_tile(row_state_t *s, Py_ssize_t at, const double **grad, const double **hess,
                             Py_ssize_t *stride) noexcept nogil:
    """Bring one tile of training rows up to date; returns its rows. hess is not set for squared error."""
    cdef Py_ssize_t m = min(s.tile, s.train.n - at)
    if s.pending >= 0:
        step_training(s, at, m)
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
    if s.pending >= 0 or s.all_grad == NULL:
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
    s.known = s.loss.kind != LOSS_SQUARED and s.pending < 0 and s.all_grad != NULL
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
