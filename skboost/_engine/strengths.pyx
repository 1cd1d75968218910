"""FAST: how much more of the loss a pair of features could explain, for many pairs, from one pass over rows each.

The strength of a pair is the largest gain of cutting both of its axes once, each of the four parts with its own value,
over the total weight. Numeric axes are cut in the order of their cells; the missing cell is tried at both ends when it
could be a leaf. Levels have no order, and one found on the same rows would flatter noise. So the rows are dealt to two
halves: each half's gains are measured in the order that the other half suggests, the leading pattern of its mean
gradients. Maxima over half the rows are larger by chance than over all; by how much is measured in code order, and
subtracted.
"""

from cython.parallel cimport parallel, prange
from libc.float cimport DBL_MIN
from libc.stdint cimport int32_t, uint8_t, uint16_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset

from skboost._engine.interactions cimport MOST_PAIR_CELLS, cross_gain, pair_options_t, pair_work_size
from skboost._engine.omp cimport skb_thread_num
from skboost._engine.stage cimport sums_t

import numpy as np

cdef extern from "pair_sums.h" nogil:
    ctypedef struct skb_gradients_t:
        Py_ssize_t n_rows
        int n_outputs
        const double *grad
        const double *hess
        const double *weight
    ctypedef struct skb_pair_axis_t:
        const uint16_t *cells
        const uint16_t *map
        int size
    int skb_record_size(const skb_gradients_t *r) noexcept
    void skb_pair_sums(const skb_gradients_t *r, const skb_pair_axis_t *p, const skb_pair_axis_t *q, int n_parts,
                       double *tables) noexcept

cdef enum:
    SMALL_TABLE = 512       # cells; rows of so few meet often, and are dealt to several tables
    SMALL_PARTS = 4
    LEADING_ROUNDS = 8      # of the power iteration

# Means with this much added to their weights have the order of the sums.
cdef double MOST_SMOOTH = 1e100

# Sums of the cells of a pair: G and H (n_outputs, n_cells), W (n_cells,); H is W where the rows have no second
# derivatives.
cdef struct table_t:
    double *G
    double *H
    double *W

cdef struct level_t:
    double key
    int cell

# Largest needs of any pair: cells, cells of an axis, records of rows, and work of cross_gain.
cdef struct sizes_t:
    Py_ssize_t cells, levels, records, work

# Memory of one thread, enough for any pair.
cdef struct scratch_t:
    double *memory
    double *rows            # records of all parts
    table_t whole
    table_t half[2]
    table_t sorted
    double *work            # of cross_gain
    double *pattern         # (n_outputs, cells of an axis)
    level_t *levels
    int *order[2]           # of numeric cells
    int *level_order[2]


cdef int parts_of(Py_ssize_t n_cells, bint halves) noexcept nogil:
    return SMALL_PARTS if n_cells <= SMALL_TABLE else 2 if halves else 1


cdef Py_ssize_t table_size(Py_ssize_t n_cells, int n_outputs) noexcept nogil:
    return (2 * n_outputs + 1) * n_cells


cdef void place_table(double **at, Py_ssize_t n_cells, int n_outputs, bint newton, table_t *out) noexcept nogil:
    out.G, out.W = at[0], at[0] + 2 * n_outputs * n_cells
    out.H = at[0] + n_outputs * n_cells if newton else out.W
    at[0] += table_size(n_cells, n_outputs)


cdef bint make_scratch(const skb_gradients_t *r, const sizes_t *needs, scratch_t *s) noexcept nogil:
    cdef Py_ssize_t size = needs.records + 4 * table_size(needs.cells, r.n_outputs) + needs.work
    cdef double *at
    cdef int i
    size += r.n_outputs * needs.levels
    size += needs.levels * <Py_ssize_t>(sizeof(level_t) + 4 * sizeof(int)) // <Py_ssize_t>sizeof(double) + 1
    s.memory = at = <double *>malloc(size * sizeof(double))
    if at == NULL:
        return False
    s.rows = at
    at += needs.records
    place_table(&at, needs.cells, r.n_outputs, r.hess != NULL, &s.whole)
    place_table(&at, needs.cells, r.n_outputs, r.hess != NULL, &s.sorted)
    for i in range(2):
        place_table(&at, needs.cells, r.n_outputs, r.hess != NULL, &s.half[i])
    s.work = at
    s.pattern = s.work + needs.work
    s.levels = <level_t *>(s.pattern + r.n_outputs * needs.levels)
    for i in range(2):
        s.order[i] = <int *>(s.levels + needs.levels) + i * needs.levels
        s.level_order[i] = <int *>(s.levels + needs.levels) + (2 + i) * needs.levels
    return True


# Add the records of one part to a table, or start it with them.
cdef void unpack(const skb_gradients_t *r, const double *rows, Py_ssize_t n_cells, bint add,
                 table_t *out) noexcept nogil:
    cdef int record = skb_record_size(r), C = r.n_outputs, k
    cdef Py_ssize_t i
    if not add:
        memset(out.W, 0, n_cells * sizeof(double))
        memset(out.G, 0, C * n_cells * sizeof(double))
        if r.hess:
            memset(out.H, 0, C * n_cells * sizeof(double))
    for i in range(n_cells):
        out.W[i] += rows[i * record]
    for k in range(C):
        for i in range(n_cells):
            out.G[k * n_cells + i] += rows[i * record + 1 + k]
        if r.hess:
            for i in range(n_cells):
                out.H[k * n_cells + i] += rows[i * record + 1 + C + k]


cdef void sum_rows(const skb_gradients_t *r, const skb_pair_axis_t *p, const skb_pair_axis_t *q, bint halves,
                   scratch_t *s) noexcept nogil:
    cdef Py_ssize_t n_cells = <Py_ssize_t>p.size * q.size, size = n_cells * skb_record_size(r)
    cdef int n_parts = parts_of(n_cells, halves), part
    memset(s.rows, 0, n_parts * size * sizeof(double))
    skb_pair_sums(r, p, q, n_parts, s.rows)
    for part in range(n_parts):
        unpack(r, s.rows + part * size, n_cells, part > 0, &s.whole)
        if halves:
            unpack(r, s.rows + part * size, n_cells, part > 1, &s.half[part & 1])


cdef double gain_of(const table_t *t, int size0, int size1, const pair_options_t *options,
                    double *work) noexcept nogil:
    cdef sums_t sums
    sums.G, sums.H, sums.W = t.G, t.H, t.W
    return cross_gain(size0, size1, &sums, options, work)


# Rows and columns of a table in a given order.
cdef void sort_cells(const double *x, int n0, int n1, const int *order0, const int *order1, double *out) noexcept nogil:
    cdef int a, b
    cdef const double *row
    for a in range(n0):
        row = x + <Py_ssize_t>order0[a] * n1
        for b in range(n1):
            out[<Py_ssize_t>a * n1 + b] = row[order1[b]]


cdef void sort_table(const table_t *t, int n0, int n1, int C, const int *order0, const int *order1,
                     table_t *out) noexcept nogil:
    cdef Py_ssize_t n_cells = <Py_ssize_t>n0 * n1
    cdef int k
    sort_cells(t.W, n0, n1, order0, order1, out.W)
    for k in range(C):
        sort_cells(t.G + k * n_cells, n0, n1, order0, order1, out.G + k * n_cells)
        if t.H != t.W:
            sort_cells(t.H + k * n_cells, n0, n1, order0, order1, out.H + k * n_cells)


cdef void cell_order(int n, bint missing_last, int *order) noexcept nogil:
    cdef int i
    for i in range(n):
        order[i] = i
    if missing_last:
        for i in range(n - 1):
            order[i] = i + 1
        order[n - 1] = 0


# Weight of the missing cell of an axis.
cdef double missing_weight(const double *W, int n, Py_ssize_t step) noexcept nogil:
    cdef double w = 0.0
    cdef int i
    for i in range(n):
        w += W[i * step]
    return w


# Best gain of a table whose axes are in the order of `levels0` and `levels1`; NULL: in the order of their cells, and
# where it `ends` so also with the missing cell last.
cdef double best_gain(const table_t *t, int n0, int n1, const int *levels0, const int *levels1, bint ends0, bint ends1,
                      const pair_options_t *options, scratch_t *s) noexcept nogil:
    cdef double best = 0.0
    cdef int i, j
    for i in range(2 if ends0 else 1):
        for j in range(2 if ends1 else 1):
            if not (i or j or levels0 or levels1):
                best = gain_of(t, n0, n1, options, s.work)
                continue
            cell_order(n0, i, s.order[0])
            cell_order(n1, j, s.order[1])
            sort_table(t, n0, n1, options.n_outputs, levels0 if levels0 else s.order[0],
                       levels1 if levels1 else s.order[1], &s.sorted)
            best = max(best, gain_of(&s.sorted, n0, n1, options, s.work))
    return best


cdef int compare_levels(const void *x, const void *y) noexcept nogil:
    cdef const level_t *p = <const level_t *>x
    cdef const level_t *q = <const level_t *>y
    if p.key != q.key:
        return -1 if p.key < q.key else 1
    return p.cell - q.cell


# Signs of a first pattern: the lower and the upper half of the weight of the other axis, in the output that
# varies most.
cdef void first_pattern(const table_t *t, int C, int n, int m, Py_ssize_t step, Py_ssize_t other, double smooth,
                        double *v) noexcept nogil:
    cdef Py_ssize_t n_cells = <Py_ssize_t>n * m, at
    cdef double largest = -1.0, size, total = 0.0, below = 0.0, w
    cdef int k, i, j, output = 0
    for k in range(C):
        size = 0.0
        for at in range(n_cells):
            w = t.H[k * n_cells + at] if t.H != t.W else t.W[at]
            if w + smooth > 0:
                size += t.G[k * n_cells + at] * t.G[k * n_cells + at] / (w + smooth)
        if size > largest:
            largest, output = size, k
    for at in range(n_cells):
        total += t.W[at]
    memset(v, 0, C * m * sizeof(double))
    for j in range(m):
        w = 0.0
        for i in range(n):
            w += t.W[i * step + j * other]
        below += w
        v[output * m + j] = -1.0 if 2.0 * below <= total else 1.0


# Order of the n levels of an axis (`step` apart in a table) by the leading pattern of its mean gradients: u v' with a
# number per level and one per output and cell of the other axis, `other` apart.
cdef void leading_order(const table_t *t, int C, int n, int m, Py_ssize_t step, Py_ssize_t other, double smooth,
                        scratch_t *s, int *order) noexcept nogil:
    cdef Py_ssize_t n_cells = <Py_ssize_t>n * m, at
    cdef double *v = s.pattern
    cdef double g, h, length
    cdef int round_, i, j, k
    cdef const double *H
    first_pattern(t, C, n, m, step, other, smooth, v)
    for round_ in range(LEADING_ROUNDS):
        for i in range(n):
            g, h = 0.0, smooth
            for k in range(C):
                H = t.H + k * n_cells if t.H != t.W else t.W
                for j in range(m):
                    at = i * step + j * other
                    g += t.G[k * n_cells + at] * v[k * m + j]
                    h += H[at] * (v[k * m + j] * v[k * m + j])
            s.levels[i].key = g / h if h > 0 else 0.0
            s.levels[i].cell = i
        if round_ == LEADING_ROUNDS - 1:
            break
        length = 0.0
        for k in range(C):
            H = t.H + k * n_cells if t.H != t.W else t.W
            for j in range(m):
                g, h = 0.0, smooth
                for i in range(n):
                    at = i * step + j * other
                    g += t.G[k * n_cells + at] * s.levels[i].key
                    h += H[at] * (s.levels[i].key * s.levels[i].key)
                v[k * m + j] = g / h if h > 0 else 0.0
                length = max(length, abs(v[k * m + j]))
        if not DBL_MIN <= length:
            break
        for j in range(C * m):
            v[j] /= length
    qsort(s.levels, n, sizeof(level_t), &compare_levels)
    for i in range(n):
        order[i] = s.levels[i].cell


# Gain of a pair, not divided by the weight. levels: whether the axis holds levels.
cdef double pair_gain(const skb_gradients_t *r, const skb_pair_axis_t *p, const skb_pair_axis_t *q, bint levels0,
                      bint levels1, const pair_options_t *options, double smooth, scratch_t *s) noexcept nogil:
    cdef int n0 = p.size, n1 = q.size, i
    cdef bint ends0, ends1
    cdef double gain, least = max(options.min_samples_leaf, DBL_MIN)
    cdef const int *order0 = s.level_order[0] if levels0 else NULL
    cdef const int *order1 = s.level_order[1] if levels1 else NULL
    cdef pair_options_t of_half = options[0]
    sum_rows(r, p, q, levels0 or levels1, s)
    ends0 = not levels0 and missing_weight(s.whole.W, n1, 1) >= least
    ends1 = not levels1 and missing_weight(s.whole.W, n0, n1) >= least
    gain = best_gain(&s.whole, n0, n1, NULL, NULL, ends0, ends1, options, s)
    if not (levels0 or levels1):
        return gain
    of_half.min_samples_leaf, of_half.min_hessian = 0.5 * options.min_samples_leaf, 0.5 * options.min_hessian
    for i in range(2):
        if levels0:
            leading_order(&s.half[1 - i], r.n_outputs, n0, n1, n1, 1, smooth, s, s.level_order[0])
        if levels1:
            leading_order(&s.half[1 - i], r.n_outputs, n1, n0, 1, n1, smooth, s, s.level_order[1])
        gain += best_gain(&s.half[i], n0, n1, order0, order1, ends0, ends1, &of_half, s)
        gain -= best_gain(&s.half[i], n0, n1, NULL, NULL, ends0, ends1, &of_half, s)
    return max(gain, 0.0)


# Largest needs of all pairs; raises for pairs that cannot be.
cdef sizes_t needs_of(const skb_gradients_t *r, const int32_t[:, ::1] pairs, const int32_t[::1] n_coarse,
                      const uint8_t[::1] nominal):
    cdef sizes_t needs
    cdef Py_ssize_t i, n_cells
    cdef int j, k
    needs.cells = needs.levels = needs.records = needs.work = 0
    for i in range(pairs.shape[0]):
        j, k = pairs[i, 0], pairs[i, 1]
        if not (0 <= j < n_coarse.shape[0] and 0 <= k < n_coarse.shape[0] and j != k):
            raise ValueError(f"pair {(j, k)} does not name two of {n_coarse.shape[0]} features")
        n_cells = <Py_ssize_t>n_coarse[j] * n_coarse[k]
        if n_cells > MOST_PAIR_CELLS:
            raise ValueError(f"pair {(j, k)} has {n_cells} cells, more than 2**20")
        needs.cells, needs.levels = max(needs.cells, n_cells), max(needs.levels, n_coarse[j], n_coarse[k])
        needs.records = max(needs.records, parts_of(n_cells, nominal[j] or nominal[k]) * n_cells * skb_record_size(r))
        needs.work = max(needs.work, pair_work_size(n_coarse[j], n_coarse[k], r.n_outputs))
    return needs


def strengths(const uint16_t[:, ::1] cells, coarse, pairs, is_categorical, const double[:, ::1] grad, hess=None,
              weight=None, *, double min_samples_leaf=0.0, double min_hessian=0.0, double l2_regularization=0.0,
              double cat_smooth=0.0, int n_threads=1):
    """Return the strengths of pairs, float64 of shape (n_pairs,): gains over the total weight, 0 where nothing gains.

    Row i lies in the cells ``coarse[j][cells[j, i]]``: `cells` has the shape (n_features, n_rows), and `coarse` is a
    list of uint16 maps. `grad` and `hess`, of shape (n_outputs, n_rows), are of one unit of weight; hess None stands
    for ones (of one output), weight None too. The two halves of the rows that levels need are every second row of
    those with weight.
    """
    cdef Py_ssize_t n_pairs, i, j
    cdef skb_gradients_t r
    cdef pair_options_t options
    cdef sizes_t needs
    cdef const double[:, ::1] second
    cdef const double[::1] w
    cdef const uint16_t[::1] maps
    cdef const uint8_t[::1] nominal
    cdef const int32_t[::1] n_coarse
    cdef const int32_t[:, ::1] chosen
    cdef skb_pair_axis_t *axes = NULL
    cdef scratch_t *scratch = NULL
    cdef double[::1] out
    cdef double total
    cdef bint failed = False
    cdef int threads
    maps_array, starts, n_coarse_array = check_maps(cells, coarse)
    maps, n_coarse = maps_array, n_coarse_array
    nominal = np.ascontiguousarray(is_categorical, dtype=bool).view(np.uint8)
    pair_array = np.ascontiguousarray(pairs, dtype=np.int32).reshape(-1, 2)
    chosen, n_pairs = pair_array, len(pair_array)
    if nominal.shape[0] != cells.shape[0]:
        raise ValueError(f"is_categorical must have shape ({cells.shape[0]},), got ({nominal.shape[0]},)")
    check_rows("grad", grad, cells.shape[1])
    r.n_rows, r.n_outputs, r.hess, r.weight = cells.shape[1], <int>grad.shape[0], NULL, NULL
    if hess is not None:
        second = hess
        check_rows("hess", second, cells.shape[1])
        if second.shape[0] != grad.shape[0]:
            raise ValueError(f"grad has {grad.shape[0]} outputs, hess {second.shape[0]}")
    elif grad.shape[0] > 1:
        raise ValueError("several outputs need second derivatives")
    if weight is not None:
        w = weight
        if w.shape[0] != cells.shape[1]:
            raise ValueError(f"weight must have shape ({cells.shape[1]},), got ({w.shape[0]},)")
    if not (min_samples_leaf >= 0 and min_hessian >= 0 and l2_regularization >= 0 and cat_smooth >= 0):
        raise ValueError("min_samples_leaf, min_hessian, l2_regularization and cat_smooth must be at least 0")
    options.n_outputs, options.l2_regularization = r.n_outputs, l2_regularization
    options.min_samples_leaf, options.min_hessian = min_samples_leaf, min_hessian
    out_array = np.zeros(n_pairs)
    total = float(r.n_rows if weight is None else np.sum(weight))
    if n_pairs == 0 or r.n_rows == 0 or not total > 0:
        return out_array
    out, r.grad = out_array, &grad[0, 0]
    if hess is not None:
        r.hess = &second[0, 0]
    if weight is not None:
        r.weight = &w[0]
    needs = needs_of(&r, chosen, n_coarse, nominal)
    threads = <int>max(1, min(<Py_ssize_t>n_threads, n_pairs))
    axes = <skb_pair_axis_t *>malloc(cells.shape[0] * sizeof(skb_pair_axis_t))
    scratch = <scratch_t *>malloc(threads * sizeof(scratch_t))
    try:
        if axes == NULL or scratch == NULL:
            raise MemoryError
        for i in range(cells.shape[0]):
            j = starts[i]
            axes[i].cells, axes[i].map, axes[i].size = &cells[i, 0], &maps[j], n_coarse[i]
        for i in range(threads):
            scratch[i].memory = NULL
        for i in range(threads):
            failed = failed or not make_scratch(&r, &needs, &scratch[i])
        if not failed:
            with nogil, parallel(num_threads=threads):
                for i in prange(n_pairs, schedule="dynamic"):
                    out[i] = pair_gain(&r, &axes[chosen[i, 0]], &axes[chosen[i, 1]], nominal[chosen[i, 0]],
                                       nominal[chosen[i, 1]], &options, min(cat_smooth, MOST_SMOOTH),
                                       &scratch[skb_thread_num()]) / total
        for i in range(threads):
            free(scratch[i].memory)
        if failed:
            raise MemoryError
    finally:
        free(axes)
        free(scratch)
    return out_array


cdef check_rows(name, const double[:, ::1] array, Py_ssize_t n_rows):
    if array.shape[0] < 1 or array.shape[1] != n_rows:
        raise ValueError(f"{name} must have shape (n_outputs, {n_rows}), got {(array.shape[0], array.shape[1])}")


cdef check_maps(const uint16_t[:, ::1] cells, coarse):
    """Return (all maps in one array, their starts, numbers of coarse cells)."""
    maps = [np.ascontiguousarray(of_feature, dtype=np.uint16) for of_feature in coarse]
    if len(maps) != cells.shape[0]:
        raise ValueError(f"{cells.shape[0]} features but {len(maps)} maps")
    if cells.shape[0] == 0:
        return np.zeros(1, dtype=np.uint16), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    sizes = np.array([of_feature.size for of_feature in maps])
    largest = np.asarray(cells).max(axis=1, initial=0)
    if sizes.min() < 1 or (largest >= sizes).any():
        raise ValueError("cells go beyond the maps of their features")
    n_coarse = np.array([int(of_feature.max()) + 1 for of_feature in maps], dtype=np.int32)
    return np.concatenate(maps), np.cumsum(sizes) - sizes, n_coarse
