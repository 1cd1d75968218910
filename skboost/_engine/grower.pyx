"""The door of tree growth: the workspace of one fit, which grows a tree per call in one parallel region."""

from cython.parallel cimport parallel

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import numpy as np

from skboost._engine.export cimport export_tree
from skboost._engine.growth cimport worker
from skboost._engine.histogram cimport PREFETCHED
from skboost._engine.losses cimport (
    LOSS_GAUSSIAN,
    LOSS_GIVEN,
    LOSS_QUANTILE,
    check_targets,
    loss_from_object,
    loss_needs_metric,
)
from skboost._engine.memory cimport tree_release, tree_reserve
from skboost._engine.omp cimport skb_num_threads, skb_thread_num
from skboost._engine.types cimport BLOCK_ROWS, POLICY_SYMMETRIC, skb_barrier_init, step_t, tree_t

cdef enum:
    MAX_THREADS = 256


cdef void *allocated(size_t count, size_t size) except NULL:
    cdef void *block = calloc(max(count, <size_t>1), size)
    if block == NULL:
        raise MemoryError
    return block


cdef class Trainer:
    """Workspace of one fit: holds the rows' state and grows one tree per call.

    Parameters
    ----------
    codes_col, codes_row : uint8 arrays (n_features, n_rows) and (n_rows, padded n_features)
    n_bins, is_categorical : int32 and uint8 arrays (n_features,)
    loss : object with kind, n_outputs and params
        One of given gradients has write_gradients(score, grad, hess, n_threads): raw scores float64 (n_outputs, n_rows)
        without base, outputs float32 of the same shape, hess None unless Newton leaves need it.
    y : float64 array (n_rows,)
    base : float64 array (n_outputs,), added to every raw score
    rules : dict
        policy, max_depth, max_leaves, min_weight (grid units), l2, learning_rate, newton, curvature (default 1),
        monotone (int8 array or None), groups (uint8 array (n_groups, n_features) or None), prior_rate (default 0):
        chance that a split is drawn, spread_ties (default False): draw the cut among cells without rows, prior_bins
        (default None): uint8 (n_features, 128) and int32 (n_features,), last left bins of cuts that a drawn split takes
        with the chance prior_share.
    weights : dict or None
        weight (float64), units (uint32, weight on the integer grid), scale (grid units per weight), integer (bool),
        counts (uint32, what min_weight bounds, or None when that is units), copies (bool, absent: False): counts are
        copies of rows, of fractional weight; sums are then linear in them.
    noise : dict or None
        hash0, hash1 (uint32), inv_root_weight (float32): structure noise keyed by row content. row_scale, leaf_scale
        (float64 (n_outputs,), absent: ones): factors on sigma in the noise of rows and of leaves.
    n_threads : int
    coins : float32 array (n_rows,) or None
        Of the gaussian loss: mean coins of the copies of each row. One more row of `scores` fits them, in every tree as
        coin_value, which no split looks at.
    """

    cdef tree_t s
    cdef step_t p
    cdef readonly int n_threads
    cdef bint has_counts
    cdef list keep
    cdef object listwise
    cdef object given
    cdef readonly object scores
    cdef readonly int n_outputs

    def __cinit__(self):
        memset(&self.s, 0, sizeof(tree_t))
        memset(&self.p, 0, sizeof(step_t))

    def __dealloc__(self):
        cdef step_t *p = &self.p
        tree_release(&self.s)
        self.release_leaves()
        free(p.peak)
        free(p.sums)
        free(p.root_sums)
        free(p.coarse)
        free(p.inv_unit)
        free(p.leaf_scale)
        free(p.g_unit)
        free(p.h_unit)
        free(p.row_noise)
        free(p.leaf_noise)

    cdef void release_leaves(self) noexcept nogil:
        free(self.p.leaves)
        free(self.p.leaf_sums)
        free(self.p.leaf_value)
        free(self.p.leaf_weight)
        free(self.p.leaf_start)
        free(self.p.renewed)
        free(self.p.node_sums)
        self.p.leaf_start = NULL
        self.p.renewed = self.p.node_sums = NULL
        self.p.leaves = NULL
        self.p.leaf_sums = NULL
        self.p.leaf_value = self.p.leaf_weight = NULL

    def __init__(self, const uint8_t[:, ::1] codes_col, const uint8_t[:, ::1] codes_row, const int32_t[::1] n_bins,
                 const uint8_t[::1] is_categorical, loss, const double[::1] y, const double[::1] base, dict rules,
                 dict weights=None, dict noise=None, int n_threads=1, const float[::1] coins=None):
        cdef tree_t *s = &self.s
        cdef step_t *p = &self.p
        cdef Py_ssize_t n = codes_col.shape[1]
        cdef Py_ssize_t n_features = codes_col.shape[0]
        cdef int k
        if n < 1 or n_features < 1:
            raise ValueError("training needs at least one row and one feature")
        if codes_row.shape[0] != n or codes_row.shape[1] < n_features or y.shape[0] != n:
            raise ValueError("codes and y differ in shape")
        if n_bins.shape[0] != n_features or is_categorical.shape[0] != n_features:
            raise ValueError("n_bins and is_categorical need one entry per feature")
        if n > 2 ** 30:
            raise ValueError("more than 2**30 rows are not supported")     # sums of ones would leave half a word
        if np.min(n_bins) < 1 or np.max(n_bins) > 256:
            raise ValueError("n_bins must lie in [1, 256]")
        loss_from_object(loss, &p.loss)
        self.n_outputs = k = p.n_outputs = p.loss.n_outputs
        p.coin = NULL
        if coins is not None:
            if p.loss.kind != LOSS_GAUSSIAN or coins.shape[0] != n:
                raise ValueError("coins go with the gaussian loss and need one entry per row")
            p.coin = &coins[0]
            p.n_outputs += 1
        if base.shape[0] != k or not 1 <= k <= 255:
            raise ValueError("base needs one entry per output, at most 255")
        self.n_threads = max(1, min(n_threads, MAX_THREADS, <int>(n // BLOCK_ROWS) + 1))
        check_targets(&p.loss, y)
        self.listwise = loss if p.loss.kind == LOSS_GIVEN else None
        self.keep = [codes_col, codes_row, n_bins, is_categorical, y, base, loss, coins]
        p.renew = p.loss.kind == LOSS_QUANTILE
        p.levels = p.loss.table
        s.n_rows, s.n_features, s.row_stride = n, n_features, codes_row.shape[1]
        s.codes_col, s.codes_row = &codes_col[0, 0], &codes_row[0, 0]
        s.n_bins, s.is_categorical = &n_bins[0], &is_categorical[0]
        p.y, p.base = &y[0], &base[0]
        p.newton = rules["newton"]
        p.metric = not p.newton and loss_needs_metric(&p.loss)
        self.set_rules(rules)
        self.set_weights(weights)
        self.set_noise(noise)
        self.set_scan()
        self.allocate()

    cdef int set_rules(self, dict rules) except -1:
        cdef tree_t *s = &self.s
        cdef const int8_t[::1] monotone
        cdef const uint8_t[:, ::1] groups
        cdef const uint8_t[:, ::1] bins
        cdef const int32_t[::1] n_bins
        s.policy = rules["policy"]
        s.max_depth = rules["max_depth"]
        s.max_leaves = rules["max_leaves"]
        s.min_weight = rules["min_weight"]
        self.p.learning_rate = rules["learning_rate"]
        self.p.lambda_ = rules["l2"]
        self.p.curvature = rules.get("curvature", 1.0)
        s.prior_rate, s.spread_ties = rules.get("prior_rate", 0.0), rules.get("spread_ties", False)
        if rules.get("prior_bins") is not None:
            bins, n_bins = rules["prior_bins"]
            if bins.shape[0] != s.n_features or bins.shape[1] != 128 or n_bins.shape[0] != s.n_features:
                raise ValueError("prior_bins must have shape (n_features, 128) and (n_features,)")
            check_prior_bins(np.asarray(bins), np.asarray(n_bins), np.asarray(<const int32_t[:s.n_features]>s.n_bins))
            s.prior_bins, s.n_prior_bins, s.prior_share = &bins[0, 0], &n_bins[0], rules["prior_share"]
            self.keep += [bins, n_bins]
        if s.policy == POLICY_SYMMETRIC and s.max_depth > 16:
            raise ValueError("symmetric trees have at most 16 levels")
        if rules["monotone"] is not None:
            monotone = rules["monotone"]
            if monotone.shape[0] != s.n_features or self.p.n_outputs != 1:
                raise ValueError("monotone constraints need one entry per feature and a loss with one output")
            s.monotone = &monotone[0]
            s.scan.bounded = 1
            self.keep.append(monotone)
        if rules["groups"] is not None:
            groups = rules["groups"]
            if groups.shape[1] != s.n_features or groups.shape[0] < 1:
                raise ValueError("groups must have one column per feature")
            s.groups, s.n_groups = &groups[0, 0], groups.shape[0]
            self.keep.append(groups)
        return 0

    cdef int set_weights(self, dict weights) except -1:
        cdef const double[::1] weight
        cdef const uint32_t[::1] units
        cdef const uint32_t[::1] counts
        cdef tree_t *s = &self.s
        self.p.weight_scale = 1.0
        self.p.integer_weights = True
        self.p.count_ratio = 1.0
        self.p.root_weight = s.n_rows
        s.scan.direct = not self.p.newton
        if weights is None:
            return 0
        weight, units = weights["weight"], weights["units"]
        if weight.shape[0] != <Py_ssize_t>s.n_rows or units.shape[0] != <Py_ssize_t>s.n_rows:
            raise ValueError("weights need one entry per row")
        if int(np.sum(units, dtype=np.uint64)) > 2 ** 30:
            raise ValueError("the grid weights must sum to at most 2**30")
        self.p.weight, self.p.units, self.p.own_units = &weight[0], &units[0], &units[0]
        self.p.weight_scale = weights["scale"]
        self.p.integer_weights = weights["integer"]
        self.has_counts = weights["counts"] is not None
        counts = weights["counts"] if self.has_counts else units
        if counts.shape[0] != <Py_ssize_t>s.n_rows:
            raise ValueError("counts need one entry per row")
        s.count_weight = &counts[0]
        s.scan.direct = s.scan.direct and not self.has_counts
        self.p.root_weight = int(np.sum(counts, dtype=np.uint64))
        if not s.scan.direct:
            # Twice, because a row draw rounds units and counts.
            self.p.count_ratio = 2.0 * np.max(np.asarray(units) / np.maximum(np.asarray(counts), 1e-100))
        if weights.get("copies", False):
            if not self.has_counts or np.min(counts) < 1:
                raise ValueError("copies are the counts, at least 1")
            self.p.copies = self.p.tree_copies = s.count_weight
        self.keep += [weight, units, counts]
        return 0

    cdef int set_noise(self, dict noise) except -1:
        cdef const uint32_t[::1] hash0
        cdef const uint32_t[::1] hash1
        cdef const float[::1] inv
        cdef Py_ssize_t n = self.s.n_rows
        cdef int k
        ones = np.ones(self.n_outputs)
        scales = {} if noise is None else noise
        row_scale, leaf_scale = scales.get("row_scale", ones), scales.get("leaf_scale", ones)
        if len(row_scale) != self.n_outputs or len(leaf_scale) != self.n_outputs:
            raise ValueError("row_scale and leaf_scale need one entry per output")
        self.p.row_noise = <double *>allocated(self.n_outputs, sizeof(double))
        self.p.leaf_noise = <double *>allocated(self.n_outputs, sizeof(double))
        for k in range(self.n_outputs):
            self.p.row_noise[k], self.p.leaf_noise[k] = row_scale[k], leaf_scale[k]
        if noise is None:
            return 0
        hash0, hash1, inv = noise["hash0"], noise["hash1"], noise["inv_root_weight"]
        if hash0.shape[0] != n or hash1.shape[0] != n or inv.shape[0] != n:
            raise ValueError("the noise arrays need one entry per row")
        self.p.hash0, self.p.hash1, self.p.inv_root_weight = &hash0[0], &hash1[0], &inv[0]
        self.keep += [hash0, hash1, inv]
        return 0

    cdef int set_scan(self) except -1:
        cdef tree_t *s = &self.s
        cdef int k = self.n_outputs
        cdef int top = int(np.max(np.asarray(<const int32_t[:s.n_features]>s.n_bins)))
        s.scan.n_outputs = k
        s.scan.newton = self.p.newton
        s.scan.n_words = k if self.p.newton else 1 + k // 2
        s.scan.lambda_ = self.p.lambda_
        s.scan.min_low = <int32_t>max(<uint64_t>1, min(s.min_weight, <uint64_t>2147483647))
        s.scan.min_count = <uint32_t>max(<uint64_t>1, min(s.min_weight, <uint64_t>4294967295))
        s.stride = (top + 7) // 8 * 8 + 8
        if s.stride & (s.stride - 1) == 0:
            s.stride += 8
        s.slot_words = s.stride * s.n_features * s.scan.n_words
        s.batch_limit = max(1, min(256, (1 << 18) // s.n_features))
        s.slots_kept = <int>max(<size_t>8, (<size_t>1 << 28) // (s.slot_words * sizeof(int64_t)))
        return 0

    cdef int allocate(self) except -1:
        cdef tree_t *s = &self.s
        cdef step_t *p = &self.p
        cdef int k = p.n_outputs
        cdef Py_ssize_t n = s.n_rows
        cdef double[:, ::1] score
        cdef float[:, ::1] rows
        cdef int64_t[::1] packed
        cdef uint32_t[::1] index
        cdef double[::1] residuals
        s.n_threads = s.max_threads = self.n_threads
        p.peak = <float *>allocated(s.n_threads * 3 * k, sizeof(float))
        p.sums = <int64_t *>allocated(s.n_threads * 2 * k, sizeof(int64_t))
        p.root_sums = <int64_t *>allocated(s.n_threads * s.scan.n_words, sizeof(int64_t))
        p.coarse = <float *>allocated(2 * k, sizeof(float))
        p.inv_unit = <float *>allocated(2 * k, sizeof(float))
        p.leaf_scale = <float *>allocated(2 * k, sizeof(float))
        p.g_unit = <double *>allocated(k, sizeof(double))
        p.h_unit = <double *>allocated(k, sizeof(double))
        s.scan.g_unit, s.scan.h_unit = p.g_unit, p.h_unit
        self.scores = np.zeros((k, n))
        score = self.scores
        p.score = &score[0, 0]
        rows = np.empty((k, n), dtype=np.float32)
        p.grad = &rows[0, 0]
        self.keep.append(rows)
        self.given = [np.asarray(rows), None]
        if p.hash0 != NULL:
            rows = np.empty((self.n_outputs, n), dtype=np.float32)
            p.noisy_rows = &rows[0, 0]
            self.keep.append(rows)
        if p.newton or p.metric:
            rows = np.empty((self.n_outputs, n), dtype=np.float32)
            p.hess = &rows[0, 0]
            self.keep.append(rows)
            self.given[1] = np.asarray(rows)
        packed = np.empty(n * s.scan.n_words, dtype=np.int64)
        s.packed = &packed[0]
        index = np.zeros(n + PREFETCHED, dtype=np.uint32)
        s.index = &index[0]
        self.keep += [packed, index]
        index = np.empty(n, dtype=np.uint32)
        s.buffer = &index[0]
        self.keep.append(index)
        if p.renew:
            residuals = np.empty(n)
            index = np.empty(n, dtype=np.uint32)
            p.residuals, p.residual_units = &residuals[0], &index[0]
            self.keep += [residuals, index]
        if tree_reserve(s):
            raise MemoryError
        return 0

    def grow(self, uint64_t iteration, uint64_t seed, double shrink=1.0, double sigma=0.0, double gradient_scale=1.0,
             const int32_t[::1] features=None, const uint32_t[::1] units=None, const uint32_t[::1] counts=None,
             dict mask=None):
        """Shrink the scores, grow one tree on the gradients there, add it to the scores and return it as arrays.

        features are the columns the tree may use (ascending). units, counts replace the structure weights and the
        weights that min_weight bounds for this tree only (row sub-sampling); leaves always use all rows.

        With a mask only some copies of each row have gradients; the others keep their weights, second derivatives and
        noise. Its entries: kept (uint32, their numbers), copy_weight (float64, weight of one copy, None for ones),
        units (uint32, grid weights that they have in this structure), counts (uint32, their numbers in this structure
        when the weights have copies, else None).
        """
        cdef tree_t *s = &self.s
        cdef step_t *p = &self.p
        cdef const uint32_t *own_units = p.units
        cdef const uint32_t *own_counts = s.count_weight
        cdef uint64_t own_weight = p.root_weight
        cdef const int32_t[::1] listed
        if sigma > 0.0 and p.hash0 == NULL:
            raise ValueError("noise needs row hashes")
        if (counts is not None) != (units is not None and self.has_counts):
            raise ValueError("counts go with units when the weights have counts, and only then")
        listed = np.arange(s.n_features, dtype=np.int32) if features is None else features
        if listed.shape[0] < 1 or listed.shape[0] > s.n_features or listed[0] < 0 or (
                listed[listed.shape[0] - 1] >= s.n_features) or np.any(np.diff(listed) <= 0):
            raise ValueError("features must be ascending column numbers")
        s.features, s.n_listed = &listed[0], <int>listed.shape[0]
        p.iteration, p.seed, p.shrink, p.sigma, p.gradient_scale = iteration, seed, shrink, sigma, gradient_scale
        s.iteration, s.seed = iteration, seed
        p.noisy = p.noisy_rows if sigma > 0.0 else p.grad
        if units is not None:
            if units.shape[0] != <Py_ssize_t>s.n_rows or (counts is not None and counts.shape[0] != units.shape[0]):
                raise ValueError("units and counts need one entry per row")
            if int(np.sum(units, dtype=np.uint64)) > 2 ** 30:
                raise ValueError("the grid weights must sum to at most 2**30")
            p.units = &units[0]
            s.count_weight = p.units if counts is None else &counts[0]
            p.root_weight = int(np.sum(units if counts is None else counts, dtype=np.uint64))
            p.tree_copies = NULL if p.copies == NULL else s.count_weight
        if mask is not None and p.renew:
            raise ValueError("masks do not go with leaves that take quantiles of residuals")
        if self.listwise is not None:
            self.scores *= shrink
            p.shrink = 1.0
            self.listwise.write_gradients(self.scores, *self.given, self.n_threads)
        try:
            self.set_mask(mask)
            self.run()
            if s.failed:
                raise MemoryError("histograms of this tree do not fit into memory")
            return export_tree(s, p)
        finally:
            p.units, s.count_weight, p.root_weight, p.tree_copies = own_units, own_counts, own_weight, p.copies
            p.kept_units = p.kept_copies = p.kept = NULL
            p.copy_weight = NULL
            self.release_leaves()
            self.reset_tree()

    cdef int set_mask(self, dict mask) except -1:
        """Point at the arrays of a mask; the caller keeps them."""
        cdef const uint32_t[::1] kept
        cdef const uint32_t[::1] units
        cdef const uint32_t[::1] counts
        cdef const double[::1] copy_weight
        cdef float[:, ::1] rows
        cdef step_t *p = &self.p
        cdef Py_ssize_t n = self.s.n_rows
        if mask is None:
            return 0
        kept, units, copy_weight, counts = mask["kept"], mask["units"], mask["copy_weight"], mask["counts"]
        if (counts is None) != (p.copies == NULL):
            raise ValueError("counts of a mask go with copies of fractional weight, and only with these")
        if kept.shape[0] != n or units.shape[0] != n or (counts is not None and counts.shape[0] != n) or (
                copy_weight is not None and copy_weight.shape[0] != n):
            raise ValueError("the arrays of a mask need one entry per row")
        if np.any(np.asarray(units) > (np.uint32(1) if p.units == NULL else np.asarray(<const uint32_t[:n]>p.units))):
            raise ValueError("a mask keeps at most the structure weight of each row")
        if p.sigma > 0.0 and p.noise_rows == NULL:
            rows = np.empty((self.n_outputs, n), dtype=np.float32)
            p.noise_rows = &rows[0, 0]
            self.keep.append(rows)
        p.kept, p.kept_units = &kept[0], &units[0]
        p.kept_copies = NULL if counts is None else &counts[0]
        p.copy_weight = NULL if copy_weight is None else &copy_weight[0]
        return 0

    cdef int run(self) except -1:
        cdef tree_t *s = &self.s
        cdef step_t *p = &self.p
        cdef int wanted = self.n_threads
        cdef int t
        while True:
            s.n_threads = wanted
            for t in range(wanted + 1):
                s.row_begin[t] = s.n_rows * t // wanted // BLOCK_ROWS * BLOCK_ROWS if t < wanted else s.n_rows
            skb_barrier_init(&p.barrier, wanted)
            p.granted = wanted
            with nogil:
                if wanted == 1:
                    worker(s, p, 0)
                else:
                    with parallel(num_threads=wanted):
                        guarded_worker(s, p, skb_thread_num(), skb_num_threads())
            if p.granted == wanted:
                return 0
            wanted = p.granted     # OpenMP gave fewer threads, so no thread worked; the rows are dealt anew

    cdef void reset_tree(self) noexcept:
        """Give back the histogram slots of the finished tree."""
        cdef tree_t *s = &self.s
        cdef int i
        s.failed = 0
        s.n_free = s.n_slots
        for i in range(s.n_slots):
            s.free_slots[i] = s.slots[i]


def check_prior_bins(bins, n_prior, n_bins):
    """Raise ValueError unless every listed bin has another value bin to its right."""
    if n_prior.min() < 0 or n_prior.max() > 128:
        raise ValueError("prior_bins lists more than 128 bins of a feature")
    listed = np.arange(128) < n_prior[:, None]
    if ((bins < 1) | (bins > n_bins[:, None] - 2))[listed].any():
        raise ValueError("prior_bins holds a bin that is not left of another one")


cdef void guarded_worker(tree_t *s, step_t *p, int t, int granted) noexcept nogil:
    """Work only when every wanted thread is there: a missing one would never reach the barriers."""
    if granted == s.n_threads:
        worker(s, p, t)
    elif t == 0:
        p.granted = granted
