"""Back end of main effects for losses whose second derivatives change, in epochs.

Within an epoch the second derivatives h stay as they are and the gradients are linear in the steps. A step that adds u
to the cells of feature k changes the gradient sum of cell d by sum_s (u[s] - u[s+1]) times the sum of h over the rows
of d with cell_k <= s, plus u of the last cell times H[d]. The sum of h is taken to be

    S[k, s][d] (H[d] / W[d]) rho(k, s),    rho(k, s) = (H / W of all rows with cell_k <= s) / (H / W of all rows),

with the prefix rows S of the table of weights: exact where h is a product of what the two features say. The cells of k
itself are exact. An epoch ends with a pass over the rows, after which all sums are exact again.

The gradients of several classes change by p_c (u_c - sum_j p_j u_j). There h is the probability p_c, and the steps are
less their mean under the mean probabilities of the leaf, in the cells of k under those of the cell.
"""

from libc.math cimport NAN, fabs
from libc.stdint cimport int64_t, uint16_t
from libc.string cimport memcpy, memset

from skboost._engine.crosstab cimport CrossTab
from skboost._engine.losses cimport (
    LOSS_GIVEN,
    LOSS_MULTINOMIAL,
    loss_from_object,
    loss_gradients64,
    loss_needs_metric,
    loss_values,
)
from skboost._engine.stage cimport sums_t
from skboost._engine.table_sums cimport (
    changes_of_step,
    sum_of_cells,
    table_sums_add,
    table_sums_catch_up,
    table_sums_catch_up_all,
    table_sums_clear,
    table_sums_release,
    table_sums_reserve,
)

import numpy as np

from skboost._engine import row_state

cdef extern from *:
    """
    #include "isa.h"
    #define SKB_IMPL "epoch_state_impl.h"
    #include "isa_expand.h"
    static void skb_d_add_cells(ptrdiff_t n, int n_features, const uint16_t *const *codes, const double *const *tables,
                                double *score)
    { SKB_DISPATCH(skb_add_cells)(n, n_features, codes, tables, score); }
    static void skb_d_weigh_rows(ptrdiff_t n, const double *weight, const double *x, double *out)
    { SKB_DISPATCH(skb_weigh_rows)(n, weight, x, out); }
    static void skb_d_sum_pairs(ptrdiff_t n, const uint16_t *code, const double *g, const double *h, ptrdiff_t stride,
                                double *copies)
    { SKB_DISPATCH(skb_sum_pairs)(n, code, g, h, stride, copies); }
    static void skb_d_join_copies(ptrdiff_t n, const double *even, const double *odd, double *G, double *H)
    { SKB_DISPATCH(skb_join_copies)(n, even, odd, G, H); }
    static void skb_d_read_tracked(ptrdiff_t n, const double *start, const double *ratio, const double *tracked,
                                   double shift, const double *slope, double *out)
    { SKB_DISPATCH(skb_read_tracked)(n, start, ratio, tracked, shift, slope, out); }
    static void skb_d_own_step(ptrdiff_t n, const double *u, const double *v, double shift, const double *slope,
                               double *G, double *model)
    { SKB_DISPATCH(skb_own_step)(n, u, v, shift, slope, G, model); }
    """
    void skb_isa_init() noexcept nogil
    void skb_d_add_cells(Py_ssize_t n, int n_features, const uint16_t **codes, const double **tables,
                         double *score) noexcept nogil
    void skb_d_weigh_rows(Py_ssize_t n, const double *weight, const double *x, double *out) noexcept nogil
    void skb_d_sum_pairs(Py_ssize_t n, const uint16_t *code, const double *g, const double *h, Py_ssize_t stride,
                         double *copies) noexcept nogil
    void skb_d_join_copies(Py_ssize_t n, const double *even, const double *odd, double *G, double *H) noexcept nogil
    void skb_d_read_tracked(Py_ssize_t n, const double *start, const double *ratio, const double *tracked, double shift,
                            const double *slope, double *out) noexcept nogil
    void skb_d_own_step(Py_ssize_t n, const double *u, const double *v, double shift, const double *slope, double *G,
                        double *model) noexcept nogil

skb_isa_init()

cdef enum:
    TILE = 1024        # rows per pass, even
    ROW_COST = 8       # of adding a row's step to a cell, in entries of table rows

cdef double DRIFT_MAX = 0.2    # of the sums at the end of an epoch, beyond which tau is halved


cdef class EpochState(BackEnd):
    """Main effects of one bag under any loss, by tables within epochs.

    Parameters
    ----------
    table : CrossTab
        Of all rows, one term per feature. Bags share it.
    loss : object
        With attributes `kind`, `n_outputs` and `params`.
    y : ndarray of shape (n_rows,), float64
        Targets.
    score : ndarray of shape (n_outputs, n_rows), float64
        Raw scores to start from.
    train_weight, val_weight : ndarray of shape (n_rows,), float64
        Weights of the rows in the bag's training and validation part; 0 leaves a row out.
    tau : float
        An epoch ends when its largest steps, over the outputs and cells, add up to more; 0 ends it with every step. It
        is halved whenever the sums at the end of an epoch are off by more than 0.2 of the largest one.
    sweeps : int
        An epoch has at most so many steps per feature.
    saturated : ndarray of shape (n_rows,), float64, optional
        Loss of the perfect prediction of every row; the validation metric is the excess over it.
    """

    def __cinit__(self, CrossTab table not None, loss, y, score, train_weight, val_weight, *, double tau, int sweeps,
                  saturated=None):
        cdef epoch_state_t *s = &self.state
        self.keep = [table]
        loss_from_object(loss, &s.loss)
        if loss_needs_metric(&s.loss) or s.loss.kind == LOSS_GIVEN:
            raise ValueError(f"loss kind {loss.kind} has no second derivatives to boost with")
        if not 0 <= tau < np.inf:
            raise ValueError(f"tau must be a finite number of at least 0, got {tau}")
        if not 0 < sweeps < 2 ** 31 / table.c.n_features:
            raise ValueError(f"sweeps must be positive, got {sweeps}")
        n_rows = table.cells.shape[1]
        self.n_outputs = s.n_outputs = s.loss.n_outputs
        y = row_state.checked("y", y, (n_rows,))
        score = row_state.checked("score", score, (self.n_outputs, n_rows))
        if s.loss.kind == LOSS_MULTINOMIAL and not np.isin(y, np.arange(self.n_outputs)).all():
            raise ValueError(f"y must hold class numbers below {self.n_outputs}")
        train_weight = row_state.checked_weight("train_weight", train_weight, n_rows)
        val_weight = row_state.checked_weight("val_weight", val_weight, n_rows)
        if not train_weight.any():
            raise ValueError("train_weight must be positive for some row")
        if saturated is not None and val_weight.any():
            saturated = row_state.checked("saturated", saturated, (n_rows,))
            s.saturated = float((saturated * val_weight).sum() / val_weight.sum())
        s.tau = tau
        s.max_steps = sweeps * table.c.n_features
        self.fill_rows(&s.train, table.cells, y, score, train_weight)
        self.fill_rows(&s.val, table.cells, y, score, val_weight)
        table_sums_reserve(&s.sums, table, None, s.n_outputs, True)
        self.allocate(table)
        self.term_sizes = np.stack([table.n_cells, np.ones_like(table.n_cells)], axis=1).astype(np.int32)
        self.term_sizes.setflags(write=False)
        with nogil:
            weigh_cells(s, &table.cells[0, 0], n_rows, &table.weight[0])
            start_epoch(s)
        self.c.sums = sums
        self.c.part_sums = part_sums
        self.c.apply = apply
        self.c.refresh = refresh
        self.c.self = s

    def __dealloc__(self):
        table_sums_release(&self.state.sums)

    cdef object fill_rows(self, epoch_rows_t *rows, cells, y, score, weight):
        """Gather the rows with weight."""
        chosen = np.flatnonzero(weight)
        weight, codes = weight[chosen], np.take(cells, chosen, axis=1)
        cdef const uint16_t[:, ::1] view = codes
        self.keep.append(codes)
        rows.n = len(chosen)
        rows.codes = &view[0, 0] if rows.n else NULL
        rows.y = self.doubles(y[chosen])
        rows.score = self.doubles(score[:, chosen])
        rows.weight = NULL if (weight == 1).all() else self.doubles(weight)
        rows.total = weight.sum()

    cdef int allocate(self, CrossTab table) except -1:
        """Memory of the cells and of the passes."""
        cdef epoch_state_t *s = &self.state
        cdef Py_ssize_t outputs = s.n_outputs, n = s.sums.n_cells, most = table.n_cells.max()
        cdef int[::1] ints = np.zeros(2 * most + table.c.n_features, dtype=np.intc)
        s.G = self.doubles(outputs * n)
        s.H = self.doubles(outputs * n)
        s.slope = s.H
        s.slope_below = self.doubles(outputs * n)
        s.ratio = self.doubles(outputs * n)
        s.mean_slope = self.doubles(outputs)
        s.W = self.doubles(n)
        s.W_below = self.doubles(n)
        s.all_W = self.doubles(n)
        s.all_below = self.doubles(n)
        s.shift = self.doubles(outputs)
        s.steps = self.doubles(outputs * n)
        if s.loss.kind == LOSS_MULTINOMIAL:
            s.slope = self.doubles(outputs * n)
            s.class_W = self.doubles(outputs * n)
            s.v = self.doubles(outputs * most)
            s.own_v = self.doubles(outputs * most)
        s.out_G = self.doubles(outputs * most)
        s.out_H = self.doubles(outputs * most)
        s.exact_G = self.doubles(outputs * n)
        s.tracked_G = self.doubles(outputs * n)
        s.copies = self.doubles(outputs * 4 * n)
        s.grad = self.doubles(outputs * TILE)
        s.hess = self.doubles(outputs * TILE)
        s.values = self.doubles(TILE)
        s.base = self.doubles(outputs)
        s.coef = self.doubles(outputs)
        self.keep.append(ints)
        s.changes = &ints[0]
        s.is_change = &ints[most]
        s.dirty = &ints[2 * most]
        return 0

    cdef double *doubles(self, values) except? NULL:
        """Memory that lives as long as this object: a copy of an array, or zeros of a length."""
        array = np.zeros(values) if isinstance(values, int) else np.array(values, dtype=np.float64, order="C")
        cdef double[::1] flat = array.reshape(-1)
        self.keep.append(array)
        return &flat[0] if flat.shape[0] else NULL

    @property
    def n_epochs(self):
        """Epochs that have ended."""
        return self.state.n_epochs

    @property
    def drift(self):
        """Error of the sums at the end of the last epoch, relative to the largest sum."""
        return self.state.drift

    @property
    def tau(self):
        """The length at which an epoch ends; halved where the sums were far off."""
        return self.state.tau


# ------------------------------------------------------------------------------------------------ rows


cdef inline int64_t first_cell(const epoch_state_t *s, int k) noexcept nogil:
    return s.sums.table[0].table.first_cell[k]


cdef inline int size_of(const epoch_state_t *s, int k) noexcept nogil:
    return s.sums.table[0].table.size[k]


cdef void weigh_cells(epoch_state_t *s, const uint16_t *cells, Py_ssize_t n_rows, const double *weight) noexcept nogil:
    """Weights of the cells, each and up to it: of all rows, of the training rows, of those of a class."""
    cdef int k
    cdef Py_ssize_t i
    cdef int64_t at, cell
    cdef double own
    for k in range(s.sums.n_features):
        at = first_cell(s, k)
        for i in range(n_rows):
            s.all_W[at + cells[k * n_rows + i]] += weight[i]
        for i in range(s.train.n):
            cell = at + s.train.codes[k * s.train.n + i]
            own = s.train.weight[i] if s.train.weight else 1.0
            s.W[cell] += own
            if s.class_W:
                s.class_W[<int64_t>s.train.y[i] * s.sums.n_cells + cell] += own
        add_up(size_of(s, k), s.all_W + at, s.all_below + at)
        add_up(size_of(s, k), s.W + at, s.W_below + at)


cdef void add_up(int n, const double *x, double *below) noexcept nogil:
    cdef int b
    cdef double total = 0.0
    for b in range(n):
        total += x[b]
        below[b] = total


cdef void add_steps(epoch_state_t *s, epoch_rows_t *rows, Py_ssize_t at, Py_ssize_t m) noexcept nogil:
    """Add all steps of the epoch to the scores of rows at..at+m-1."""
    cdef const uint16_t *codes[4]
    cdef const double *tables[4]
    cdef int c, k, found
    cdef double *score
    for c in range(s.n_outputs):
        score = rows.score + c * rows.n + at
        found = 0
        for k in range(s.sums.n_features):
            if s.dirty[k]:
                codes[found] = rows.codes + k * rows.n + at
                tables[found] = s.steps + c * s.sums.n_cells + first_cell(s, k)
                found += 1
            if found == 4 or (found and k == s.sums.n_features - 1):
                skb_d_add_cells(m, found, codes, tables, score)
                found = 0


cdef void pass_train(epoch_state_t *s) noexcept nogil:
    """Bring the scores of the training rows up to date and sum their gradients over all cells."""
    cdef epoch_rows_t *rows = &s.train
    cdef Py_ssize_t at = 0, m, n_cells = s.sums.n_cells
    cdef int c, k
    memset(s.copies, 0, s.n_outputs * 4 * n_cells * sizeof(double))
    while at < rows.n:
        m = min(<Py_ssize_t>TILE, rows.n - at)
        add_steps(s, rows, at, m)
        loss_gradients64(&s.loss, m, rows.y + at, rows.score + at, rows.n, s.base, s.grad, s.hess, TILE)
        for c in range(s.n_outputs):
            if rows.weight:
                skb_d_weigh_rows(m, rows.weight + at, s.grad + c * TILE, s.grad + c * TILE)
                skb_d_weigh_rows(m, rows.weight + at, s.hess + c * TILE, s.hess + c * TILE)
            for k in range(s.sums.n_features):
                skb_d_sum_pairs(m, rows.codes + k * rows.n + at, s.grad + c * TILE, s.hess + c * TILE, n_cells,
                                s.copies + 2 * (2 * c * n_cells + first_cell(s, k)))
        at += m
    for c in range(s.n_outputs):
        skb_d_join_copies(n_cells, s.copies + 4 * c * n_cells, s.copies + (4 * c + 2) * n_cells,
                          s.exact_G + c * n_cells, s.H + c * n_cells)


cdef double pass_val(epoch_state_t *s) noexcept nogil:
    """Bring the scores of the validation rows up to date; returns their metric."""
    cdef epoch_rows_t *rows = &s.val
    cdef Py_ssize_t at = 0, m
    cdef double total = 0.0
    while at < rows.n:
        m = min(<Py_ssize_t>TILE, rows.n - at)
        add_steps(s, rows, at, m)
        loss_values(&s.loss, m, rows.y + at, rows.score + at, rows.n, s.base, s.values)
        if rows.weight:
            skb_d_weigh_rows(m, rows.weight + at, s.values, s.values)
        total += sum_of_cells(m, s.values)
        at += m
    return total / rows.total - s.saturated if rows.n else NAN


# ------------------------------------------------------------------------------------------------ epochs


cdef void start_epoch(epoch_state_t *s) noexcept nogil:
    """Exact sums and metric, and what the steps of an epoch need of them."""
    cdef int c, k
    cdef int64_t at, i, n = s.sums.n_cells
    pass_train(s)
    s.metric = pass_val(s)
    memcpy(s.G, s.exact_G, s.n_outputs * n * sizeof(double))
    for c in range(s.n_outputs):
        if s.class_W:
            # the gradient is the probability, less 1 for the rows of the class
            for i in range(c * n, (c + 1) * n):
                s.slope[i] = s.G[i] + s.class_W[i]
        for i in range(n):
            s.ratio[c * n + i] = s.slope[c * n + i] / s.all_W[i] if s.all_W[i] > 0.0 else 0.0
        for k in range(s.sums.n_features):
            at = first_cell(s, k)
            add_up(size_of(s, k), s.slope + c * n + at, s.slope_below + c * n + at)
        s.mean_slope[c] = s.slope_below[c * n + size_of(s, 0) - 1] / s.all_below[size_of(s, 0) - 1]
        s.shift[c] = 0.0
    memset(s.steps, 0, s.n_outputs * n * sizeof(double))
    memset(s.dirty, 0, s.sums.n_features * sizeof(int))
    table_sums_clear(&s.sums)
    s.length = 0.0
    s.n_steps = 0
    s.tracked = True


cdef void read_sums(epoch_state_t *s, int term, int c, double *out) noexcept nogil:
    cdef int64_t at = c * s.sums.n_cells + first_cell(s, term)
    skb_d_read_tracked(size_of(s, term), s.G + at, s.ratio + at, s.sums.table[0].sums + at, s.shift[c],
                       s.slope + at, out)


cdef double end_epoch(epoch_state_t *s) noexcept nogil:
    """Exact sums again, with half of tau where those of the tables were far off; returns the validation metric."""
    cdef int c, k
    cdef int64_t i
    cdef double off = 0.0, most = 0.0
    cdef bint tracked = s.tracked and s.tau > 0.0
    if s.n_steps == 0:
        return s.metric
    if tracked:
        table_sums_catch_up_all(&s.sums)
        for c in range(s.n_outputs):
            for k in range(s.sums.n_features):
                read_sums(s, k, c, s.tracked_G + c * s.sums.n_cells + first_cell(s, k))
    start_epoch(s)
    s.n_epochs += 1
    if tracked:
        for i in range(s.n_outputs * s.sums.n_cells):
            off = max(off, fabs(s.tracked_G[i] - s.G[i]))
            most = max(most, fabs(s.G[i]))
        s.drift = off / most if most > 0.0 else 0.0
        if off > DRIFT_MAX * most:
            s.tau *= 0.5
    return s.metric


# ------------------------------------------------------------------------------------------------ back end


cdef void sums(void *self, int term, sums_t *out) noexcept nogil:
    cdef epoch_state_t *s = <epoch_state_t *>self
    cdef int c, size = size_of(s, term)
    cdef int64_t at = first_cell(s, term)
    table_sums_catch_up(&s.sums, term)
    for c in range(s.n_outputs):
        read_sums(s, term, c, s.out_G + c * size)
        memcpy(s.out_H + c * size, s.H + c * s.sums.n_cells + at, size * sizeof(double))
    out.G = s.out_G
    out.H = s.out_H
    out.W = s.W + at


cdef void part_sums(void *self, int term, int n_cuts, const int *cuts, double *G, double *H) noexcept nogil:
    cdef epoch_state_t *s = <epoch_state_t *>self
    cdef int c, i, begin, end, size = size_of(s, term)
    cdef sums_t now
    sums(self, term, &now)
    for c in range(s.n_outputs):
        begin = 0
        for i in range(n_cuts + 1):
            end = cuts[i] + 1 if i < n_cuts else size
            G[c * (n_cuts + 1) + i] = sum_of_cells(end - begin, now.G + c * size + begin)
            H[c * (n_cuts + 1) + i] = sum_of_cells(end - begin, now.H + c * size + begin)
            begin = end


cdef double apply(void *self, int term, const double *u) noexcept nogil:
    cdef epoch_state_t *s = <epoch_state_t *>self
    cdef int c, i, size = size_of(s, term), n_changes = find_changes(s, size, u)
    cdef int64_t at
    cdef double last
    cdef const double *v = u
    cdef const double *own_v = u
    if <double>n_changes * s.sums.n_cells * s.n_outputs > <double>ROW_COST * s.train.n * s.sums.n_features:
        s.tracked = False
    if s.class_W:
        share_step(s, term, size, n_changes, u)
        v = s.v
        own_v = s.own_v
    for i in range(n_changes if s.tracked and s.tau > 0.0 else 0):
        add_change(s, term, size, s.changes[i], v)
    for c in range(s.n_outputs):
        at = c * s.sums.n_cells + first_cell(s, term)
        last = v[c * size + size - 1]
        skb_d_own_step(size, u + c * size, own_v + c * size, last, s.slope + at, s.G + at, s.steps + at)
        s.shift[c] += last
    s.dirty[term] = True
    s.n_steps += 1
    s.length += largest_step(s, size, n_changes, u)
    if s.length > s.tau or s.n_steps >= s.max_steps or not s.tracked:
        return end_epoch(s)
    return NAN


cdef double refresh(void *self) noexcept nogil:
    return end_epoch(<epoch_state_t *>self)


cdef int find_changes(epoch_state_t *s, int size, const double *u) noexcept nogil:
    """Cells b at which some output of u differs from that of b + 1, ascending; returns how many."""
    cdef int c, i, b, found = changes_of_step(size, u, s.changes)
    if s.n_outputs == 1:
        return found
    memset(s.is_change, 0, size * sizeof(int))
    for c in range(s.n_outputs):
        found = changes_of_step(size, u + c * size, s.changes)
        for i in range(found):
            s.is_change[s.changes[i]] = True
    found = 0
    for b in range(size):
        if s.is_change[b]:
            s.changes[found] = b
            found += 1
    return found


cdef double largest_step(epoch_state_t *s, int size, int n_changes, const double *u) noexcept nogil:
    cdef int c, i
    cdef double most = 0.0
    for c in range(s.n_outputs):
        for i in range(n_changes):
            most = max(most, fabs(u[c * size + s.changes[i]]))
        most = max(most, fabs(u[c * size + size - 1]))
    return most


cdef void share_step(epoch_state_t *s, int term, int size, int n_changes, const double *u) noexcept nogil:
    """Steps less their mean under the probabilities: v of the leaves between changes, own_v of the cells."""
    cdef int c, i, b, begin = 0, end
    cdef int64_t at = first_cell(s, term)
    cdef double W, mean
    for i in range(n_changes + 1):
        end = s.changes[i] if i < n_changes else size - 1
        W = s.W_below[at + end] - (s.W_below[at + begin - 1] if begin else 0.0)
        mean = 0.0
        for c in range(s.n_outputs if W > 0.0 else 0):
            mean += u[c * size + end] * (
                s.slope_below[c * s.sums.n_cells + at + end]
                - (s.slope_below[c * s.sums.n_cells + at + begin - 1] if begin else 0.0)) / W
        for c in range(s.n_outputs):
            for b in range(begin, end + 1):
                s.v[c * size + b] = u[c * size + b] - mean
        begin = end + 1
    for b in range(size):
        mean = 0.0
        for c in range(s.n_outputs if s.W[at + b] > 0.0 else 0):
            mean += u[c * size + b] * s.slope[c * s.sums.n_cells + at + b] / s.W[at + b]
        for c in range(s.n_outputs):
            s.own_v[c * size + b] = u[c * size + b] - mean


cdef void add_change(epoch_state_t *s, int term, int size, int cell, const double *v) noexcept nogil:
    cdef int c
    cdef int64_t at = first_cell(s, term) + cell
    cdef double below = s.all_below[at], step
    if below <= 0.0:
        return
    for c in range(s.n_outputs):
        step = v[c * size + cell] - v[c * size + cell + 1]
        s.coef[c] = 0.0
        if s.mean_slope[c] > 0.0:
            s.coef[c] = step * (s.slope_below[c * s.sums.n_cells + at] / below / s.mean_slope[c])
    table_sums_add(&s.sums, term, cell, s.coef)
