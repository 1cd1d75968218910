"""Rows of one bag, gathered: the exact back end for every loss, main effects and pairs."""

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uintptr_t
from libc.string cimport memcpy, memset

from skboost._engine.interactions cimport MOST_PAIR_CELLS
from skboost._engine.losses cimport (
    LOSS_BINARY,
    LOSS_GIVEN,
    LOSS_MULTINOMIAL,
    LOSS_SQUARED,
    loss_from_object,
    loss_needs_metric,
)
from skboost._engine.row_passes cimport (
    NARROW,
    flush,
    histogram_size,
    keep_exponentials,
    row_apply,
    row_part_sums,
    row_refresh,
    row_state_t,
    row_sums,
    rows_t,
    skb_row_step_t,
    sum_rows,
    tile_rows,
)
from skboost._engine.stage cimport BackEnd

import numpy as np

# A histogram is crowded where two rows are in one cell with more than this chance.
CROWDED = 0.06

cdef enum:
    MAX_KEPT = 1 << 22    # gradients that are kept between passes

# Where the cells of a term come from: those of a feature, or of two through their coarse maps.
ctypedef struct source_t:
    const uint16_t *first
    const uint16_t *second        # NULL: a main effect
    const uint16_t *first_map
    const uint16_t *second_map
    int size1


cdef void gather_codes(const source_t *source, const Py_ssize_t *chosen, Py_ssize_t n, bint wide,
                       void *out) noexcept nogil:
    cdef uint16_t *narrow_codes = <uint16_t *>out
    cdef uint32_t *wide_codes = <uint32_t *>out
    cdef Py_ssize_t i
    cdef uint32_t code
    if source.second == NULL:
        for i in range(n):
            narrow_codes[i] = source.first[chosen[i]]
        return
    for i in range(n):
        code = source.first_map[source.first[chosen[i]]]
        code = code * source.size1 + source.second_map[source.second[chosen[i]]]
        if wide:
            wide_codes[i] = code
        else:
            narrow_codes[i] = <uint16_t>code


cdef double weigh_cells(const void *codes, bint wide, Py_ssize_t n, const double *weight, int n_cells, double *W,
                        int32_t *counts) noexcept nogil:
    """Sum the weights of the cells; returns the chance that two rows are in one cell."""
    cdef Py_ssize_t i
    cdef uint32_t code
    cdef double pairs = 0.0
    memset(counts, 0, n_cells * sizeof(int32_t))
    for i in range(n):
        code = (<const uint32_t *>codes)[i] if wide else (<const uint16_t *>codes)[i]
        W[code] += weight[i] if weight != NULL else 1.0
        counts[code] += 1
    for i in range(n_cells):
        pairs += <double>counts[i] * counts[i]
    return pairs / (<double>n * n)


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
        if self.keep is not None:
            # a stage may still point to what this would free
            raise RuntimeError("a RowState is initialised once")
        memset(s, 0, sizeof(row_state_t))
        self.c.self = NULL
        self.keep = []
        loss_from_object(loss, &s.loss)
        if loss_needs_metric(&s.loss) or s.loss.kind == LOSS_GIVEN:
            raise ValueError(f"loss kind {loss.kind} has no second derivatives to boost with")
        self.n_outputs = s.n_outputs = s.loss.n_outputs
        cells = np.asarray(cells)
        if cells.ndim != 2 or cells.dtype != np.uint16 or cells.shape[0] < 1:
            raise ValueError("cells must be uint16 of shape (n_features, n_rows)")
        cells = np.ascontiguousarray(cells)
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
        sizes.setflags(write=False)
        s.odds = -1.0 if s.loss.kind == LOSS_BINARY else 1.0 if s.loss.kind == LOSS_MULTINOMIAL else 0.0
        self.fill_rows(&s.train, y, score, train_weight, s.odds)
        self.fill_rows(&s.valid, y, score, val_weight)
        self.fill_cells(cells, axes, maps, np.flatnonzero(train_weight), np.flatnonzero(val_weight))
        self.allocate()
        if saturated is not None and s.valid.n:
            saturated = checked("saturated", saturated, (n_rows,)) * val_weight
            s.saturated = sum_rows(self.doubles(saturated), n_rows) / s.valid.total
        self.c.self = s
        self.c.sums = row_sums
        self.c.part_sums = row_part_sums
        self.c.apply = row_apply
        self.c.refresh = row_refresh

    cdef int fill_rows(self, rows_t *rows, y, score, weight, double odds=0.0) except -1:
        """Gather targets, scores and weights of the rows with weight."""
        chosen = np.flatnonzero(weight)
        y, score, weight = y[chosen], np.ascontiguousarray(score[:, chosen]), weight[chosen]
        rows.n = len(chosen)
        if self.state.loss.kind == LOSS_SQUARED:
            score -= y
        else:
            rows.y = self.doubles(y)
        if odds and len(score) > 1:
            score -= score.max(axis=0)
        rows.score = self.doubles(score)
        if odds:
            keep_exponentials(rows.score, score.size, odds)
        rows.weight = self.doubles(weight)
        rows.total = sum_rows(rows.weight, rows.n)
        if (weight == 1).all():
            rows.weight = NULL
            self.keep.pop()
        return 0

    cdef int fill_cells(self, cells, axes, maps, train, valid) except -1:
        """Gather the cells of every term, and sum the weights of the training rows in them."""
        cdef row_state_t *s = &self.state
        cdef const int[::1] sizes = np.ascontiguousarray(self.term_sizes.prod(axis=1), dtype=np.int32)
        cdef Py_ssize_t n_terms = sizes.shape[0], t
        cdef const Py_ssize_t[::1] train_rows = train
        cdef const Py_ssize_t[::1] valid_rows = valid
        cdef double[::1] W = np.zeros(np.sum(sizes, dtype=np.int64))
        cdef int32_t[::1] counts = np.empty(np.max(sizes), dtype=np.int32)
        cdef char[::1] crowded = np.zeros(n_terms, dtype=np.int8)
        cdef uint8_t[::1] sources = np.zeros(n_terms * sizeof(source_t), dtype=np.uint8)
        cdef source_t *source = <source_t *>&sources[0]
        cdef double least = CROWDED
        cdef bint wide
        self.keep += [sizes, W, crowded]
        s.n_cells = &sizes[0]
        s.crowded = &crowded[0]
        starts = np.cumsum(np.r_[0, sizes[:n_terms - 1]]) * sizeof(double)
        s.W = <double **>self.pointers(<uintptr_t>&W[0] + starts.astype(np.uintp))
        self.allocate_codes(&s.train, sizes)
        self.allocate_codes(&s.valid, sizes)
        for t, (j, k) in enumerate(axes):
            source[t].first = feature_cells(cells, j)
            if k >= 0:
                source[t].second = feature_cells(cells, k)
                source[t].first_map, source[t].second_map = feature_cells(maps[j], 0), feature_cells(maps[k], 0)
                source[t].size1 = self.term_sizes[t, 1]
        with nogil:
            for t in range(n_terms):
                wide = sizes[t] > NARROW
                gather_codes(source + t, &train_rows[0], s.train.n, wide, s.train.codes[t])
                if s.valid.n:
                    gather_codes(source + t, &valid_rows[0], s.valid.n, wide, s.valid.codes[t])
                crowded[t] = weigh_cells(s.train.codes[t], wide, s.train.n, s.train.weight, sizes[t], s.W[t],
                                         &counts[0]) > least
        return 0

    cdef int allocate_codes(self, rows_t *rows, sizes) except -1:
        """Room of the cells of every term, those of four bytes first."""
        wide = np.asarray(sizes) > NARROW
        length = np.where(wide, 4, 2) * rows.n
        order = np.argsort(~wide, kind="stable")
        starts = np.empty(len(length), dtype=np.uintp)
        starts[order] = np.cumsum(np.r_[0, length[order]])[:len(length)]
        cdef uint8_t[::1] room = np.empty(max(1, length.sum()), dtype=np.uint8)
        self.keep.append(room)
        rows.codes = <void **>self.pointers(<uintptr_t>&room[0] + starts)
        return 0

    cdef int allocate(self) except -1:
        """Memory of the passes."""
        cdef row_state_t *s = &self.state
        cdef Py_ssize_t outputs = self.n_outputs, n = s.train.n, largest = self.term_sizes.prod(axis=1).max()
        cdef uint8_t[::1] steps = np.zeros(2 * outputs * sizeof(skb_row_step_t), dtype=np.uint8)
        s.tile = tile_rows(s.n_outputs)
        s.hist = self.doubles(histogram_size(<int>largest, s.n_outputs))
        s.G = self.doubles(outputs * largest)
        s.table = self.doubles(outputs * largest)
        s.grad = self.doubles(outputs * s.tile)
        s.values = self.doubles(s.tile)
        s.base = self.doubles(outputs)
        if s.loss.kind != LOSS_SQUARED:
            s.H = self.doubles(outputs * largest)
            s.hess = self.doubles(outputs * s.tile)
            if outputs * n <= MAX_KEPT:
                s.all_grad = self.doubles(outputs * n)
                s.all_hess = self.doubles(outputs * n)
        self.keep.append(steps)
        s.steps = <skb_row_step_t *>&steps[0]
        s.factors = s.steps + outputs
        if s.odds:
            s.factor_table = self.doubles(outputs * largest)
        s.pending = -1
        return 0

    cdef double *doubles(self, values) except? NULL:
        """Memory that lives as long as this object: an array of our own, or zeros of a length."""
        cdef double[::1] flat = np.zeros(values) if isinstance(values, int) else values.reshape(-1)
        self.keep.append(flat)
        return &flat[0] if flat.shape[0] else NULL

    cdef void *pointers(self, addresses) except NULL:
        cdef uintptr_t[::1] out = addresses
        self.keep.append(out)
        return &out[0]

    def scores(self):
        """Return the raw scores of the training rows, of shape (n_outputs, n).

        Squared error: score - y. Several classes: up to a common shift of a row.
        """
        cdef row_state_t *s = &self.state
        cdef double[:, ::1] out
        self.check_ready()
        flush(s)
        out = np.empty((self.n_outputs, s.train.n))
        memcpy(&out[0, 0], s.train.score, out.size * sizeof(double))
        scores = np.asarray(out)
        return s.odds * np.log(scores) if s.odds else scores


cdef const uint16_t *feature_cells(array, Py_ssize_t j) except NULL:
    """Cells of a feature of a two-dimensional array, or a map; the caller keeps the array for as long."""
    cdef const uint16_t[:, ::1] rows = array if array.ndim == 2 else array[None]
    return &rows[j, 0]


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
        maps[j] = np.ascontiguousarray(coarse[j])
        if maps[j].dtype != np.uint16 or maps[j].shape != (n_cells[j],) or maps[j].max() != maps[j][n_cells[j] - 1]:
            raise ValueError(
                f"coarse[{j}] must be uint16 of shape ({n_cells[j]},), its last entry the number of the last cell"
            )
    for j, k in axes:
        if k >= 0 and axis_cells(maps, j) * axis_cells(maps, k) > MOST_PAIR_CELLS:
            raise ValueError(f"the pair {(j, k)} has more than {MOST_PAIR_CELLS} cells")
    return maps


def axis_cells(maps, j):
    return int(maps[j].max()) + 1
