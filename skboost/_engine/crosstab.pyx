"""Cross-table of the cells of all features, as prefix rows kept at anchors.

For n rows, K features, D cells in all, and rows of the table of R bytes, in nanoseconds of one core:

- construction: ROW_TIME n K^2 + BYTE_TIME R for every anchor, of which there are about n K / spacing;
- a step that reads one row: ENTRY_TIME D, and COMPLETION_TIME K for each of spacing / 4 rows between anchors (mean).
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint16_t
from libc.stdlib cimport free
from libc.string cimport memset

import math
import threading
from typing import NamedTuple

import numpy as np

cdef extern from "crosstab_build.h" nogil:
    void *skb_table_alloc(size_t n_bytes) noexcept
    int skb_crosstab_reserve(skb_crosstab *t, int n_features, int64_t n_cells, int64_t n_rows) noexcept
    void skb_crosstab_clear(skb_crosstab *t) noexcept
    void skb_crosstab_release(skb_crosstab *t) noexcept
    void skb_weigh_cells(const uint16_t *column, const int64_t *kept, const double *weight, int64_t n, int size,
                         double *out) noexcept
    void skb_crosstab_widths(skb_crosstab *t, int k, const double *weight) noexcept
    void skb_crosstab_layout(skb_crosstab *t) noexcept
    int skb_crosstab_gather(skb_crosstab *t, const uint16_t *cells, int64_t stride, const int64_t *kept,
                            const double *times) noexcept
    void skb_crosstab_ends(const skb_crosstab *t, int k, const uint16_t *column, const int64_t *kept,
                           int64_t *ends) noexcept
    int64_t skb_crosstab_anchors(const int64_t *ends, int size, int64_t n_rows, int64_t spacing, int64_t next_row,
                                 skb_boundary *boundary, int64_t *n_between) noexcept
    int skb_crosstab_fill(skb_crosstab *t, int k, const uint16_t *column, const int64_t *kept, const int64_t *ends,
                          int keep_order) noexcept

# Measured beside each other on a busy machine, where a step of the row-wise back end takes 1.0 per row (0.4 with random
# cuts; 3.5 and 3 for the log loss) and an epoch's pass over the rows 2.0 n K: ratios are what counts.
ROW_TIME = 2.2
BYTE_TIME = 0.25
ENTRY_TIME = 0.25
COMPLETION_TIME = 2.0

UNIT_SLACK = 2.0 ** -46   # a weight is a multiple of a unit up to this relative error
GRID_BITS = 51            # of the heaviest cell; the rest is room for the rounding of its rows
CELLS_MAX = 2 ** 16
ROWS_MAX = 2 ** 31 - 2


class Costs(NamedTuple):
    """Most rows between anchors, and the nanoseconds that go with them."""

    spacing: int
    build: float
    step: float


def costs(n_rows, n_features, n_cells, row_bytes, n_steps):
    """Return the best spacing of anchors for so many steps, and its costs."""
    anchor, gap = BYTE_TIME * row_bytes, COMPLETION_TIME * n_features / 4
    spacing = max(1, math.ceil(math.sqrt(n_rows * n_features * anchor / (gap * max(1, n_steps)))))
    n_anchors = min(n_cells, n_rows * n_features / spacing)
    # Where cells hold more rows than the spacing, every boundary is an anchor.
    rows_between = 0 if n_rows * n_features > spacing * n_cells else spacing
    return Costs(spacing, ROW_TIME * n_rows * n_features**2 + n_anchors * anchor,
                 ENTRY_TIME * n_cells + rows_between * gap)


def weight_unit(weight, n_copies=None):
    """Return a number of which the weights of all copies are whole multiples, or None where none is found.

    `weight` is that of all copies of a row, `n_copies` their number (None: one each). Tried are the smallest weight of
    a copy and powers of two down to 2^-20 of it.
    """
    weight = np.asarray(weight, dtype=np.float64)
    kept = weight > 0
    copy = weight[kept] if n_copies is None else weight[kept] / np.asarray(n_copies)[kept]
    if not copy.size:
        return 1.0
    smallest, total = float(copy.min()), float(weight.sum())
    power = math.ldexp(0.5, math.frexp(smallest)[1])
    for unit in (smallest, *(math.ldexp(power, -bits) for bits in range(0, 21, 5))):
        if total / 2.0 ** 52 < unit and is_multiple(copy, unit):
            return unit
    return None


cdef bint is_multiple(weight, double unit):
    return bool((np.abs(np.rint(weight / unit) * unit - weight) <= UNIT_SLACK * weight).all())


cdef class CrossTab:
    """Weights of the rows with cell_k <= s in every cell, for all features k and cells s.

    Nothing is counted before `build`, which back ends call when they read the table.

    Parameters
    ----------
    cells : uint16 array of shape (n_features, n_rows), C order
    n_cells : sequence of int
        Cells of every feature.
    weight : float64 array of shape (n_rows,)
        Rows of weight zero are left out.
    unit : float or None
        Weights are rounded to whole multiples of it. None: `weight_unit`, or a grid so fine that the heaviest cell
        takes 2^51 steps.
    n_copies : int array of shape (n_rows,) or None
        Copies that a row stands for: parts of a row with fewer copies have multiples of `unit` as weights then.
    spacing : int or None
        Most rows between anchors: the more, the smaller the table. No sum depends on it. None: by `costs`.
    n_steps : int
        Rows of the table that will be read.
    max_bytes : int
        The spacing grows until the anchors take no more, or none is left.
    n_threads : int
        Threads that build; the table does not depend on it.
    """

    def __cinit__(self, const uint16_t[:, ::1] cells not None, n_cells, const double[::1] weight not None, *,
                  unit=None, n_copies=None, spacing=None, n_steps=100_000, max_bytes=2 ** 30, int n_threads=1):
        self.n_cells = checked_sizes(cells, n_cells)
        self.n_cells.setflags(write=False)
        weights = np.asarray(weight)
        if weights.shape[0] != cells.shape[1]:
            raise ValueError(f"weight needs {cells.shape[1]} entries, got {weights.shape[0]}")
        if not ((weights >= 0).all() and weights.sum() < np.inf):
            raise ValueError("weight must not be negative and have a finite sum")
        if n_copies is not None and (np.shape(n_copies) != weights.shape or np.min(n_copies, initial=1) < 1):
            raise ValueError("n_copies needs one positive entry per row")
        if spacing is not None and spacing < 1:
            raise ValueError(f"spacing must be positive, got {spacing}")
        if unit is not None and not (unit > 0 and math.isfinite(unit)):
            raise ValueError(f"unit must be positive and finite, got {unit}")
        self.cells, self.weight = cells, weight
        kept = np.flatnonzero(weights)
        self.unit = unit or weight_unit(weights, n_copies) or self.grid(kept, weights[kept])
        times = np.rint(weights / self.unit)
        if np.abs(times * self.unit - weights).sum() > 1e-9 * weights.sum():
            raise ValueError(f"weight has entries that are no multiples of unit={self.unit}")
        kept = np.flatnonzero(times)
        if kept.size > ROWS_MAX:
            raise ValueError(f"a cross-table takes at most {ROWS_MAX} rows")
        self.lay_out(kept, times[kept])
        self.spacing = spacing or costs(len(kept), len(self.n_cells), self.c.n_cells, self.c.row_bytes, n_steps).spacing
        self.pending = (kept, times[kept], max_bytes, max(1, min(n_threads, len(self.n_cells))))
        self.lock = threading.Lock()

    def __dealloc__(self):
        skb_crosstab_release(&self.c)

    def build(self):
        """Count the rows unless that has been done; returns self. Threads may call this at once."""
        with self.lock:
            if self.pending is not None:
                kept, times, max_bytes, n_threads = self.pending
                self.count(kept, times, max_bytes, n_threads)
                self.pending = None
        return self

    @property
    def n_bytes(self):
        """Bytes of the anchors, 0 before `build`."""
        return self.c.n_anchors * self.c.row_bytes

    @property
    def widths(self):
        """Bytes of an entry, per feature."""
        return [self.c.width[k] for k in range(self.c.n_features)]

    def grid(self, kept, weights):
        """Return the power of two that is 2^-51 of the heaviest cell's weight, rounded up."""
        heaviest = max(np.max(self.weigh(k, kept, weights)) for k in range(len(self.n_cells)))
        return math.ldexp(1.0, math.frexp(heaviest)[1] - GRID_BITS)

    def prefix(self, int feature, int cell):
        """Return the row after `cell` of a feature: float64 arrays of weights, one per feature."""
        cdef int k, wide
        cdef const char *row
        cdef char[::1] slot = bytearray(self.c.row_bytes)
        self.build()
        if not (0 <= feature < self.c.n_features and 0 <= cell < self.n_cells[feature]):
            raise ValueError(f"no cell {cell} of feature {feature}")
        row = skb_crosstab_row(&self.c, feature, cell, &slot[0])
        entries = bytes(row[:self.c.row_bytes])
        types = {1: np.uint8, 2: np.uint16, 4: np.int32, 8: np.float64}
        out = []
        for k in range(self.c.n_features):
            weights = np.frombuffer(entries, types[self.c.width[k]], self.c.size[k], self.c.first_byte[k]).astype(float)
            for wide in range(self.c.first_wide[k], self.c.first_wide[k + 1]):
                weights[self.c.wide_cell[wide]] = skb_crosstab_wide(&self.c, row, k, wide)
            out.append(weights * self.unit)
        return out

    cdef double[::1] weigh(self, int k, const int64_t[::1] kept, const double[::1] weight):
        """Return the weights of the cells of a feature, of the rows `kept` with these weights."""
        cdef int size = self.n_cells[k]
        cdef double[::1] out = np.zeros(size)
        if kept.shape[0]:
            with nogil:
                skb_weigh_cells(&self.cells[k, 0], &kept[0], &weight[0], kept.shape[0], size, &out[0])
        return out

    cdef int lay_out(self, const int64_t[::1] kept, const double[::1] times) except -1:
        """Choose the widths of the entries."""
        cdef const double[::1] cell_weights
        cdef int k, n_features = <int>self.cells.shape[0]
        cdef int64_t first = 0
        padded = -(-self.n_cells // SKB_CELL_PAD) * SKB_CELL_PAD
        if skb_crosstab_reserve(&self.c, n_features, padded.sum(), kept.shape[0]):
            raise MemoryError("no memory for a cross-table")
        for k in range(n_features):
            self.c.size[k] = self.n_cells[k]
            self.c.first_cell[k] = first
            first += padded[k]
            cell_weights = self.weigh(k, kept, times)
            skb_crosstab_widths(&self.c, k, &cell_weights[0])
        skb_crosstab_layout(&self.c)
        return 0

    cdef int count(self, const int64_t[::1] kept, const double[::1] times, max_bytes, int n_threads) except -1:
        """Place the anchors within max_bytes and write them."""
        cdef int k, n_features = self.c.n_features, failed = 0
        cdef int64_t[:, ::1] ends = np.zeros((n_features, int(self.n_cells.max())), dtype=np.int64)
        cdef int64_t[::1] between = np.zeros(n_features, dtype=np.int64)
        cdef const int64_t *rows = &kept[0] if kept.shape[0] else NULL
        cdef const double *weights = &times[0] if kept.shape[0] and (np.asarray(times) != 1).any() else NULL
        skb_crosstab_clear(&self.c)
        if rows:
            with nogil:
                failed = skb_crosstab_gather(&self.c, &self.cells[0, 0], self.cells.shape[1], rows, weights)
            if failed:
                raise MemoryError("no memory for a cross-table")
            for k in prange(n_features, num_threads=n_threads, schedule="static", nogil=True):
                skb_crosstab_ends(&self.c, k, &self.cells[k, 0], rows, &ends[k, 0])
        while self.place(ends, NULL, NULL) and self.n_bytes > max_bytes:
            self.spacing *= 2
        self.place(ends, self.c.boundary, &between[0])
        self.complete = not np.any(between)
        self.c.rows = <char *>skb_table_alloc(self.n_bytes)
        if self.c.rows == NULL:
            raise MemoryError(f"no memory for a cross-table of {self.n_bytes} bytes")
        if rows:
            for k in prange(n_features, num_threads=n_threads, schedule="dynamic", nogil=True):
                failed += skb_crosstab_fill(&self.c, k, &self.cells[k, 0], rows, &ends[k, 0], between[k] > 0)
        else:
            memset(self.c.rows, 0, self.n_bytes)
        if failed:
            raise MemoryError("no memory for a cross-table")
        if self.complete:
            free(self.c.codes)
            free(self.c.times)
            self.c.codes = NULL
            self.c.times = NULL
        return 0

    cdef int64_t place(self, const int64_t[:, ::1] ends, skb_boundary *boundary, int64_t *between) except -1:
        """Set the number of anchors; with boundary, also where they are. Return how many lie at boundaries."""
        cdef int k
        cdef int64_t next_row = 2
        for k in range(self.c.n_features):
            next_row += skb_crosstab_anchors(
                &ends[k, 0], self.c.size[k], self.c.n_rows, min(self.spacing, ROWS_MAX), next_row,
                boundary + self.c.first_cell[k] if boundary else NULL, between + k if between else NULL)
        self.c.n_anchors = next_row
        return next_row - 2


cdef checked_sizes(const uint16_t[:, ::1] cells, n_cells):
    """Return n_cells as int64 array; raise unless every code has a cell."""
    sizes = np.asarray(n_cells)
    if sizes.shape != (cells.shape[0],) or not sizes.size or not np.issubdtype(sizes.dtype, np.integer):
        raise ValueError(f"n_cells needs {cells.shape[0]} integers, at least one")
    if sizes.min() < 2 or sizes.max() > CELLS_MAX:
        raise ValueError(f"n_cells must lie between 2 and {CELLS_MAX}")
    if cells.shape[1] and (np.asarray(cells).max(axis=1) >= sizes).any():
        raise ValueError("cells has codes beyond n_cells")
    return sizes.astype(np.int64)
