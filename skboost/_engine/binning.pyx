"""Thresholds of the columns of X, and the map from values to codes.

X is read in place: float32 or float64, any strides, read-only or not.
"""

from cython.parallel cimport parallel, prange
from libc.float cimport DBL_MAX
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import numpy as np

cdef extern from "binning.h" nogil:
    ctypedef union skb_cell:
        double number

    void skb_bin_numeric(
        const double *cuts, int n_cuts, const char *x, Py_ssize_t stride, int is_float32, Py_ssize_t n, uint8_t *out
    ) noexcept
    void skb_bin_categorical(
        const double *levels, const uint8_t *level_codes, Py_ssize_t n_levels, const char *x, Py_ssize_t stride,
        int is_float32, Py_ssize_t n, uint8_t *out
    ) noexcept
    void skb_scatter_rows(
        const uint8_t *columns, Py_ssize_t column_stride, int width, int n, uint8_t *rows, Py_ssize_t row_stride
    ) noexcept
    Py_ssize_t skb_gather_keys(
        const char *x, Py_ssize_t stride, int is_float32, Py_ssize_t n, const double *weights, double limit,
        skb_cell *keys, double *kept_weights
    ) noexcept
    ctypedef struct skb_columns:
        skb_cell *keys
        skb_cell *spare
        double *weights
        double *spare_weights
    void skb_sort_keys(skb_columns *columns, Py_ssize_t n) noexcept
    Py_ssize_t skb_run_lengths(skb_cell *keys, const double *weights, Py_ssize_t n, skb_cell *values) noexcept
    ctypedef struct skb_run:
        pass
    ctypedef struct skb_cut_rule:
        int max_bins
        int equals_up
    int skb_find_cuts(
        const skb_cell *values, const skb_cell *weights, Py_ssize_t m, const skb_cut_rule *rule, skb_run *runs,
        double *cuts
    ) noexcept
    void skb_bin_totals(
        const skb_cell *values, const skb_cell *weights, Py_ssize_t m, const double *cuts, int n_cuts, double *totals
    ) noexcept

ctypedef fused value_t:
    float
    double

cdef extern from *:
    """
    #if defined(__GLIBC__)
    #include <malloc.h>
    static void skb_trim(void) { malloc_trim(0); }
    #else
    static void skb_trim(void) {}
    #endif
    """
    void skb_trim() noexcept nogil

cdef enum:
    TABLE = 256         # cuts kept per feature
    BLOCK = 256         # rows mapped together
    TRIM_ROWS = 500000   # beyond this the freed buffers are given back to the system: the codes come next
    GROUP = 8           # columns gathered in one pass: neighbours in a C-ordered X share cache lines
    SEARCH_GRAIN = 200_000   # values per thread, about 0.7 ms: below it a thread costs more than it brings
    SORT_GRAIN = 150_000


# ---- cimported by the prediction kernels -----------------------------------------------------------------------------

cdef void bin_block(
    const feature_bins_t *table,
    const char *x,
    Py_ssize_t stride_bytes,
    bint is_float32,
    Py_ssize_t n,
    uint8_t *out,
) noexcept nogil:
    if table.categorical:
        skb_bin_categorical(table.levels, table.level_codes, table.n_levels, x, stride_bytes, is_float32, n, out)
    else:
        skb_bin_numeric(table.cuts, table.n_bins - 2, x, stride_bytes, is_float32, n, out)


cdef int fill_tables(
    feature_bins_t *tables,
    Py_ssize_t n_features,
    const double *cuts,
    const int32_t *n_bins,
    const uint8_t *is_categorical,
    const int64_t *level_offset,
    const double *level_values,
    const uint8_t *level_codes,
) noexcept nogil:
    cdef Py_ssize_t feature
    for feature in range(n_features):
        tables[feature].n_bins = n_bins[feature]
        tables[feature].categorical = is_categorical[feature]
        tables[feature].n_levels = <int> (level_offset[feature + 1] - level_offset[feature])
        tables[feature].cuts = cuts + TABLE * feature
        tables[feature].levels = level_values + level_offset[feature]
        tables[feature].level_codes = level_codes + level_offset[feature]
    return 0


# ---- values to codes -------------------------------------------------------------------------------------------------

def transform(
    const value_t[:, :] X,
    const double[:, ::1] cuts,
    const int32_t[::1] n_bins,
    const uint8_t[::1] is_categorical,
    const int64_t[::1] level_offset,
    const double[::1] level_values,
    const uint8_t[::1] level_codes,
    int n_threads,
    bint with_rows,
):
    """Return (codes_col, codes_row) of X, or (codes_col, None) without rows."""
    cdef Py_ssize_t n = X.shape[0], n_features = X.shape[1], n_blocks = (n + BLOCK - 1) // BLOCK
    cdef Py_ssize_t block, row_bytes = (n_features + 7) // 8 * 8
    if cuts.shape[0] != n_features or cuts.shape[1] != TABLE or level_offset.shape[0] != n_features + 1:
        raise ValueError("the tables of the mapper do not match the columns of X")
    columns_array = np.empty((n_features, n), dtype=np.uint8)
    rows_array = np.empty((n, row_bytes), dtype=np.uint8) if with_rows else None
    if n == 0 or n_features == 0:
        return columns_array, rows_array
    cdef uint8_t[:, ::1] columns = columns_array
    cdef uint8_t[:, ::1] rows = rows_array
    cdef feature_bins_t *tables = <feature_bins_t *> malloc(n_features * sizeof(feature_bins_t))
    if tables == NULL:
        raise MemoryError
    cdef const char *x = <const char *> &X[0, 0]
    cdef Py_ssize_t row_stride = X.strides[0], column_stride = X.strides[1]
    cdef uint8_t *columns_out = &columns[0, 0]
    cdef uint8_t *rows_out = &rows[0, 0] if with_rows else NULL
    cdef const double *values = &level_values[0] if level_values.shape[0] else NULL
    cdef const uint8_t *codes = &level_codes[0] if level_codes.shape[0] else NULL
    n_threads = _useful_threads(n * n_features, SEARCH_GRAIN, n_threads)
    with nogil:
        fill_tables(
            tables, n_features, &cuts[0, 0], &n_bins[0], &is_categorical[0], &level_offset[0], values, codes
        )
        for block in prange(n_blocks, num_threads=n_threads, schedule="static"):
            _transform_block(
                tables, x, row_stride, column_stride, value_t is float, block * BLOCK, n, n_features,
                columns_out, rows_out, row_bytes,
            )
        free(tables)
    return columns_array, rows_array


cdef void _transform_block(
    const feature_bins_t *tables,
    const char *x,
    Py_ssize_t row_stride,
    Py_ssize_t column_stride,
    bint is_float32,
    Py_ssize_t start,
    Py_ssize_t n,
    Py_ssize_t n_features,
    uint8_t *columns,               # OUT (n_features, n)
    uint8_t *rows,                  # OUT (n, row_bytes) or NULL
    Py_ssize_t row_bytes,
) noexcept nogil:
    cdef Py_ssize_t size = min(BLOCK, n - start), first, feature, width
    for first in range(0, n_features, 8):
        width = min(8, n_features - first)
        for feature in range(first, first + width):
            bin_block(
                &tables[feature], x + start * row_stride + feature * column_stride, row_stride, is_float32, size,
                columns + feature * n + start,
            )
        if rows != NULL:
            skb_scatter_rows(
                columns + first * n + start, n, <int> width, <int> size, rows + start * row_bytes + first, row_bytes
            )


# ---- thresholds ------------------------------------------------------------------------------------------------------

cdef struct cut_job_t:
    const char *x                   # first value of X, with its strides in bytes
    Py_ssize_t row_stride
    Py_ssize_t column_stride
    bint is_float32
    Py_ssize_t n
    Py_ssize_t n_features
    const double *weights           # (n,) or NULL when every row weighs 1
    const uint8_t *skip             # (n_features,)
    skb_cut_rule rule
    Py_ssize_t width                # row length of cuts and totals
    double *cuts                    # OUT (n_features, width), untouched behind the last cut
    int32_t *n_cuts                 # OUT (n_features,)
    double *totals                  # OUT (n_features, width) weight of each bin, or NULL
    double *ranges                  # OUT (n_features, 2) smallest and largest finite value, or NULL


def find_cuts(
    const value_t[:, :] X,
    weights,
    const uint8_t[::1] skip,
    int max_bins,
    int n_threads,
):
    """Return (cuts, n_cuts, ranges): ascending cuts of each column in a table padded with +inf, none where skip is set.

    ranges (n_features, 2) holds the smallest and the largest finite value of each column, NaN where there is none.

    weights is None or a float64 array on a grid (grid_weights), so that all sums are exact. A value equal to a cut
    belongs to the bin below it.
    """
    cdef Py_ssize_t n_features = X.shape[1]
    if not 2 <= max_bins < TABLE:
        raise ValueError("max_bins is out of range")
    cuts_array = np.full((n_features, TABLE), np.inf)
    n_cuts_array = np.zeros(n_features, dtype=np.int32)
    ranges_array = np.full((n_features, 2), np.nan)
    if X.shape[0] == 0 or n_features == 0:
        return cuts_array, n_cuts_array, ranges_array
    cdef double[:, ::1] cuts = cuts_array
    cdef double[:, ::1] ranges = ranges_array
    cdef int32_t[::1] n_cuts = n_cuts_array
    cdef cut_job_t job = _describe(<const char *> &X[0, 0], X.shape, X.strides, value_t is float, weights, skip)
    job.rule.max_bins, job.rule.equals_up = max_bins, False
    job.width, job.cuts, job.n_cuts, job.ranges = TABLE, &cuts[0, 0], &n_cuts[0], &ranges[0, 0]
    _run(&job, n_threads)
    return cuts_array, n_cuts_array, ranges_array


def find_cells(
    const value_t[:, :] X,
    weights,
    const uint8_t[::1] skip,
    int max_bins,
    int n_threads,
):
    """Return (cuts, n_cuts, totals) as `find_cuts`, but a value equal to a cut belongs to the bin above it.

    max_bins may be any number from 2. The rows of cuts (padded with +inf) and of totals, the weights of the bins, are
    as wide as is needed.
    """
    cdef Py_ssize_t n_features = X.shape[1], width = max(1, min(<Py_ssize_t> max_bins, X.shape[0]))
    if max_bins < 2:
        raise ValueError("max_bins is out of range")
    cuts_array = np.full((n_features, width), np.inf)
    totals_array = np.zeros((n_features, width))
    n_cuts_array = np.zeros(n_features, dtype=np.int32)
    if X.shape[0] == 0 or n_features == 0:
        return cuts_array, n_cuts_array, totals_array
    cdef double[:, ::1] cuts = cuts_array, totals = totals_array
    cdef int32_t[::1] n_cuts = n_cuts_array
    cdef cut_job_t job = _describe(<const char *> &X[0, 0], X.shape, X.strides, value_t is float, weights, skip)
    job.rule.max_bins, job.rule.equals_up = max_bins, True
    job.width, job.cuts, job.n_cuts, job.totals = width, &cuts[0, 0], &n_cuts[0], &totals[0, 0]
    _run(&job, n_threads)
    return cuts_array, n_cuts_array, totals_array


def cuts_of_totals(const double[::1] values, const double[::1] totals, int max_bins):
    """Return the ascending cuts between ascending distinct values of known weight, equal values going up."""
    cdef Py_ssize_t m = values.shape[0]
    cdef skb_cut_rule rule
    cdef int n_cuts
    if max_bins < 2 or totals.shape[0] != m or m > 1 << 30:
        raise ValueError("max_bins is out of range, or values and totals differ in length")
    if m == 0:
        return np.empty(0)
    ascends = np.isfinite(values).all() and (np.diff(values) > 0).all()
    if not (ascends and np.isfinite(totals).all() and np.min(totals) > 0):
        raise ValueError("values must ascend and totals must be above 0")
    cuts_array = np.empty(min(<Py_ssize_t> max_bins, m))
    cdef double[::1] cuts = cuts_array
    rule.max_bins, rule.equals_up = max_bins, True
    cdef skb_run *runs = <skb_run *> malloc(_most_runs(&rule, m) * sizeof(skb_run))
    if runs == NULL:
        raise MemoryError
    with nogil:
        n_cuts = skb_find_cuts(<const skb_cell *> &values[0], <const skb_cell *> &totals[0], m, &rule, runs, &cuts[0])
        free(runs)
    return cuts_array[:n_cuts].copy()


cdef cut_job_t _describe(
    const char *x, const Py_ssize_t *shape, const Py_ssize_t *strides, bint is_float32, weights, const uint8_t[::1] skip
) except *:
    """A job with all its inputs, outputs still NULL; X has a row and a column."""
    cdef cut_job_t job
    memset(&job, 0, sizeof(job))
    if shape[0] >= 1 << 32:
        raise ValueError("more than 2**32 - 1 rows are not supported")
    if skip.shape[0] != shape[1]:
        raise ValueError("skip and the columns of X differ in number")
    job.x, job.is_float32 = x, is_float32
    job.n, job.n_features = shape[0], shape[1]
    job.row_stride, job.column_stride = strides[0], strides[1]
    job.weights, job.skip = _pointer(weights, job.n), &skip[0]
    return job


cdef int _run(const cut_job_t *job, int n_threads) except -1:
    """Fill the outputs of a job, groups of columns in parallel."""
    cdef int threads = _useful_threads(job.n * job.n_features, SORT_GRAIN, n_threads), failed = 0
    cdef Py_ssize_t group = _group_size(job.n, job.n_features, threads), first
    cdef Py_ssize_t n_groups = (job.n_features + group - 1) // group
    cdef sort_buffers_t *buffers = NULL
    with nogil, parallel(num_threads=<int> min(threads, n_groups)):
        buffers = _allocate(job.n, group, job.weights != NULL, _most_runs(&job.rule, job.n))
        for first in prange(n_groups, schedule="dynamic", chunksize=1):
            if buffers == NULL:
                failed += 1
            else:
                _cuts_of_group(job, first * group, min(job.n_features, (first + 1) * group), buffers)
        _release(buffers)
    if job.n > TRIM_ROWS:
        skb_trim()
    if failed:
        raise MemoryError
    return 0


cdef Py_ssize_t _most_runs(const skb_cut_rule *rule, Py_ssize_t m) noexcept nogil:
    """Runs of light values: none when every value has a bin of its own."""
    return rule.max_bins if m > rule.max_bins else 1


def distinct_values(const value_t[:] x, weights):
    """Return the ascending distinct values of a column, NaN left out, and the weight of each."""
    cdef Py_ssize_t n = x.shape[0], kept, m
    if n == 0:
        return np.empty(0), np.empty(0)
    if n >= 1 << 32:
        raise ValueError("more than 2**32 - 1 rows are not supported")
    values_array, totals_array = np.empty(n), np.empty(n)
    cdef const double *w = _pointer(weights, n)
    cdef double[::1] values = values_array, totals = totals_array
    cdef sort_buffers_t *buffers = _allocate(n, 1, w != NULL, 1)
    if buffers == NULL:
        raise MemoryError
    with nogil:
        kept = skb_gather_keys(
            <const char *> &x[0], x.strides[0], value_t is float, n, w, INFINITY, buffers.keys, buffers.weights
        )
        m = _sorted_runs(buffers.keys, buffers.weights, kept, buffers)
        for kept in range(m):
            values[kept] = buffers.values[kept].number
            totals[kept] = buffers.totals[kept].number
        _release(buffers)
    return values_array[:m].copy(), totals_array[:m].copy()


cdef int _useful_threads(Py_ssize_t work, Py_ssize_t grain, int asked) noexcept nogil:
    return <int> max(1, min(asked, 1 + work // grain))


cdef const double *_pointer(weights, Py_ssize_t n) except? NULL:
    if weights is None:
        return NULL
    cdef const double[::1] view = weights
    if view.shape[0] != n:
        raise ValueError("weights and X differ in length")
    return &view[0]


cdef Py_ssize_t _group_size(Py_ssize_t n, Py_ssize_t n_features, int n_threads):
    """Columns gathered in one pass: few enough for the buffers to stay small and for every thread to have a share."""
    cdef Py_ssize_t widest = min(GROUP, max(1, (1 << 22) // n))
    cdef Py_ssize_t n_groups = max(min(n_threads, n_features), (n_features + widest - 1) // widest)
    return (n_features + n_groups - 1) // n_groups


cdef struct sort_buffers_t:
    skb_cell *keys                  # (group, n): the columns gathered together
    skb_cell *spare                 # (n,)
    double *weights                 # (group, n) and (n,), or NULL when every row weighs 1
    double *spare_weights
    const skb_cell *values          # (m,): result of the last _sorted_runs, inside the buffers above
    const skb_cell *totals
    skb_run *runs                   # room for the runs of light values


cdef sort_buffers_t *_allocate(Py_ssize_t n, Py_ssize_t group, bint weighted, Py_ssize_t n_runs) noexcept nogil:
    cdef sort_buffers_t *buffers = <sort_buffers_t *> calloc(1, sizeof(sort_buffers_t))
    if buffers == NULL:
        return NULL
    buffers.keys = <skb_cell *> malloc(group * n * sizeof(skb_cell))
    buffers.spare = <skb_cell *> malloc(n * sizeof(skb_cell))
    buffers.runs = <skb_run *> malloc(n_runs * sizeof(skb_run))
    if weighted:
        buffers.weights = <double *> malloc(group * n * sizeof(double))
        buffers.spare_weights = <double *> malloc(n * sizeof(double))
    if (
        buffers.keys == NULL or buffers.spare == NULL or buffers.runs == NULL
        or (weighted and (buffers.weights == NULL or buffers.spare_weights == NULL))
    ):
        _release(buffers)
        return NULL
    return buffers


cdef void _release(sort_buffers_t *buffers) noexcept nogil:
    if buffers != NULL:
        free(buffers.keys)
        free(buffers.spare)
        free(buffers.runs)
        free(buffers.weights)
        free(buffers.spare_weights)
        free(buffers)


cdef Py_ssize_t _sorted_runs(
    skb_cell *keys, double *weights, Py_ssize_t n, sort_buffers_t *buffers,
) noexcept nogil:
    """Sort gathered keys and leave their distinct values and weights in the buffers; returns how many."""
    cdef skb_columns columns
    columns.keys, columns.spare = keys, buffers.spare
    columns.weights, columns.spare_weights = weights, buffers.spare_weights
    skb_sort_keys(&columns, n)
    buffers.values = columns.spare
    buffers.totals = columns.keys
    return skb_run_lengths(columns.keys, columns.weights, n, columns.spare)


cdef void _cuts_of_group(
    const cut_job_t *job, Py_ssize_t first, Py_ssize_t last, sort_buffers_t *buffers
) noexcept nogil:
    cdef Py_ssize_t kept[GROUP]
    cdef Py_ssize_t block, start, size, k, n = job.n
    cdef bint weighted = job.weights != NULL
    for k in range(last - first):
        kept[k] = 0
    for block in range((n + BLOCK - 1) // BLOCK):
        start = block * BLOCK
        size = min(BLOCK, n - start)
        for k in range(last - first):
            if not job.skip[first + k]:
                kept[k] += skb_gather_keys(
                    job.x + start * job.row_stride + (first + k) * job.column_stride, job.row_stride, job.is_float32,
                    size, job.weights + start if weighted else NULL, DBL_MAX, buffers.keys + k * n + kept[k],
                    buffers.weights + k * n + kept[k] if weighted else NULL,
                )
    for k in range(last - first):
        _cuts_of_column(job, first + k, k, kept[k], buffers)


cdef void _cuts_of_column(
    const cut_job_t *job, Py_ssize_t feature, Py_ssize_t k, Py_ssize_t kept, sort_buffers_t *buffers
) noexcept nogil:
    """Cuts of the column whose `kept` known values have been gathered as number k of the buffers."""
    cdef double *weights = buffers.weights + k * job.n if job.weights != NULL else NULL
    cdef Py_ssize_t m = _sorted_runs(buffers.keys + k * job.n, weights, kept, buffers)
    cdef double *cuts = job.cuts + feature * job.width
    job.n_cuts[feature] = skb_find_cuts(buffers.values, buffers.totals, m, &job.rule, buffers.runs, cuts)
    if job.ranges != NULL:
        _find_range(buffers.values, m, job.ranges + 2 * feature)
    if job.totals != NULL:
        skb_bin_totals(
            buffers.values, buffers.totals, m, cuts, job.n_cuts[feature], job.totals + feature * job.width
        )


cdef void _find_range(const skb_cell *values, Py_ssize_t m, double *out) noexcept nogil:
    """Smallest and largest of ascending values, without those that stand for infinities."""
    cdef Py_ssize_t first = 1 if m and values[0].number == -DBL_MAX else 0
    cdef Py_ssize_t end = m - 1 if m and values[m - 1].number == DBL_MAX else m
    if first < end:
        out[0] = values[first].number
        out[1] = values[end - 1].number
