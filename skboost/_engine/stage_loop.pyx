"""Boosting of the terms of one stage of one bag: order of the terms, updates, early stopping, the kept model.

Sweeps with random cuts come first (smoothing). Then a cyclic sweep that measures the gain of every term, and applies
its updates only as often as `cyclic_progress` says, alternates with greedy steps: the term of the largest gain known is
searched and updated, and goes back with the gain it had before.
"""

from libc.math cimport INFINITY, NAN, isfinite, isnan
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from skboost._engine.interactions cimport pair_cut_t, pair_options_t, pair_work_size, random_pair, search_pair
from skboost._engine.lines cimport (
    MISSING_GAIN,
    MISSING_HIGH,
    MISSING_LOW,
    MISSING_SEPARATE,
    fill_term_cache,
    term_cache_size,
    term_cache_t,
    term_options_t,
)
from skboost._engine.stage cimport BackEnd, backend_t, sums_t, term_t
from skboost._engine.terms cimport cut_term, random_cuts, search_term, term_work_size

import math
import numbers

import numpy as np

cdef extern from *:
    """
    #include <stddef.h>
    #include <string.h>
    #include "isa.h"
    #include "rng.h"
    #include "stopping.h"
    #define SKB_IMPL "stage_impl.h"
    #include "isa_expand.h"
    static int skb_d_inspect(ptrdiff_t n, const double *u) { return SKB_DISPATCH(skb_inspect)(n, u); }
    static void skb_d_take_step(ptrdiff_t n, double rate, double *u, double *model)
    { SKB_DISPATCH(skb_take_step)(n, rate, u, model); }
    """
    void skb_isa_init() nogil
    int skb_d_inspect(Py_ssize_t n, const double *u) nogil
    void skb_d_take_step(Py_ssize_t n, double rate, double *u, double *model) nogil
    uint64_t skb_key(uint64_t seed, uint64_t stream, uint64_t iteration, uint64_t output) nogil
    double skb_uniform(uint64_t key, uint64_t counter) nogil
    ctypedef struct skb_stopping_t:
        int64_t length
        double tolerance
        double floor
        double best
        double older
    int skb_stopping_add(skb_stopping_t *s, int64_t step, double metric, int counts) nogil
    void skb_stopping_free(skb_stopping_t *s) nogil

skb_isa_init()

cdef enum:
    # streams of skboost._random
    STREAM_ORDER = 8
    STREAM_CUTS = 9
    STREAM_TIES = 11
    MAX_CELLS = 1 << 20    # of a term
    FLOOR_SHARE = 1000000  # the absolute tolerance is this part of the null metric

# Reasons to end a stage.
cdef enum:
    RUNNING = 0
    ROUNDS_USED = 1
    STOPPED_EARLY = 2
    NOTHING_TO_GAIN = 3    # no term has a gain and all updates are 0
    DIVERGED = 4           # an update is not finite
    OUT_OF_MEMORY = 5
    ENDED = 6              # by the caller

REASONS = ("running", "rounds", "early_stopping", "no_gain", "diverged", "memory", "ended")
MISSING_MODES = {"separate": MISSING_SEPARATE, "gain": MISSING_GAIN, "low": MISSING_LOW, "high": MISSING_HIGH}

# One applied step; cut is the first cell b with u[b] != u[b + 1], a * size1 + b of a pair's cuts, -1 without cuts.
ctypedef struct log_t:
    int32_t term
    int32_t cut
    double metric

ctypedef struct stage_t:
    backend_t backend
    int n_terms
    int n_outputs
    const term_t *terms
    const term_cache_t *caches
    term_options_t options
    pair_options_t pair_options
    double rate
    double gain_scale
    double cyclic_progress
    int64_t max_steps
    int64_t n_greedy               # greedy steps after every cyclic sweep
    int64_t smoothing              # sweeps with random cuts that are left
    bint shuffle
    bint keep_best
    uint64_t seed
    uint64_t stream_index          # 2 * bag + stage
    # progress
    int status
    int64_t position               # of the cyclic sweep, negative: greedy steps left
    int64_t sweep
    int64_t step                   # applied steps
    double credit                  # 1 or more: the next cyclic sweep applies its updates
    bint idle                      # all updates of this sweep were 0
    int *order
    int heap_size
    double *heap_gain
    int *heap_term
    # best update of a sweep that measured only
    bint cached
    double cached_gain
    int cached_term
    int cached_cut
    double *cached_u
    # current update
    double *u
    int cut
    double *work
    double *part_G
    double *part_H
    int *cuts
    # model
    double *model                  # per term (n_outputs, n_cells), terms one after the other
    double *best                   # (n_cells_total, n_outputs)
    int n_dirty                    # terms whose best is older than their model
    int *dirty
    char *is_dirty
    skb_stopping_t stopping
    bint validated                 # some metric was known
    double metric
    double best_metric
    int64_t best_step
    int64_t last_point             # step of the last known metric
    bint recording
    log_t *log
    int64_t log_room


# ------------------------------------------------------------------------------------------------ heap of gains


cdef inline bint goes_first(const stage_t *s, int a, int b) noexcept nogil:
    """Larger gain first, then lower term."""
    return (s.heap_gain[a] > s.heap_gain[b]
            or (s.heap_gain[a] == s.heap_gain[b] and s.heap_term[a] < s.heap_term[b]))


cdef inline void swap_entries(stage_t *s, int a, int b) noexcept nogil:
    cdef double gain = s.heap_gain[a]
    cdef int term = s.heap_term[a]
    s.heap_gain[a] = s.heap_gain[b]
    s.heap_term[a] = s.heap_term[b]
    s.heap_gain[b] = gain
    s.heap_term[b] = term


cdef void heap_push(stage_t *s, double gain, int term) noexcept nogil:
    cdef int at = s.heap_size
    s.heap_gain[at] = gain
    s.heap_term[at] = term
    s.heap_size += 1
    while at > 0 and goes_first(s, at, (at - 1) // 2):
        swap_entries(s, at, (at - 1) // 2)
        at = (at - 1) // 2


cdef int heap_pop(stage_t *s) noexcept nogil:
    cdef int term = s.heap_term[0], at = 0, child
    s.heap_size -= 1
    swap_entries(s, 0, s.heap_size)
    while True:
        child = 2 * at + 1
        if child >= s.heap_size:
            break
        if child + 1 < s.heap_size and goes_first(s, child + 1, child):
            child += 1
        if not goes_first(s, child, at):
            break
        swap_entries(s, at, child)
        at = child
    return term


# ------------------------------------------------------------------------------------------------ updates


cdef inline uint64_t step_key(const stage_t *s, uint64_t stream) noexcept nogil:
    return skb_key(s.seed, stream, s.stream_index, <uint64_t>s.step)


cdef void find_first_change(stage_t *s, const term_t *term) noexcept nogil:
    cdef int b, k, n = term.n_cells
    s.cut = -1
    if not s.recording:
        return
    for b in range(n - 1):
        for k in range(s.n_outputs):
            if s.u[<Py_ssize_t>k * n + b] != s.u[<Py_ssize_t>k * n + b + 1]:
                s.cut = b
                return


cdef void random_update(stage_t *s, int t) noexcept nogil:
    """Fill u from the sums between random cuts."""
    cdef const term_t *term = s.terms + t
    cdef pair_cut_t pair_cut
    cdef sums_t sums
    cdef uint64_t key = step_key(s, STREAM_CUTS)
    cdef int n_cuts
    if term.n_axes == 2:
        s.backend.sums(s.backend.self, t, &sums)
        random_pair(term, &sums, &s.pair_options, key, s.u, &pair_cut)
        s.cut = pair_cell(term, &pair_cut)
        return
    n_cuts = random_cuts(term, s.options.max_leaves, key, s.cuts)
    s.backend.part_sums(s.backend.self, t, n_cuts, s.cuts, s.part_G, s.part_H)
    cut_term(term, n_cuts, s.cuts, s.part_G, s.part_H, &s.options, s.u)
    find_first_change(s, term)


cdef double best_update(stage_t *s, int t) noexcept nogil:
    """Fill u from the best tree; returns its gain."""
    cdef const term_t *term = s.terms + t
    cdef pair_cut_t pair_cut
    cdef sums_t sums
    cdef uint64_t key = step_key(s, STREAM_TIES)
    cdef double gain
    s.backend.sums(s.backend.self, t, &sums)
    if term.n_axes == 2:
        gain = search_pair(term, &sums, &s.pair_options, key, s.work, s.u, &pair_cut)
        s.cut = pair_cell(term, &pair_cut)
        return gain
    gain = search_term(term, &sums, &s.options, s.caches + t, key, s.work, s.u)
    find_first_change(s, term)
    return gain * s.gain_scale if term.nominal else gain


cdef int pair_cell(const term_t *term, const pair_cut_t *cut) noexcept nogil:
    return cut.a * term.size1 + cut.b if cut.a >= 0 and cut.b >= 0 else -1


cdef void finish_update(stage_t *s, int t, double gain) noexcept nogil:
    """Note whether u changes anything; end the stage when it is not finite."""
    cdef int found = skb_d_inspect(<Py_ssize_t>s.n_outputs * s.terms[t].n_cells, s.u)
    if found & 2:
        s.status = DIVERGED
    elif found or gain > 0.0:
        s.idle = False


# ------------------------------------------------------------------------------------------------ model


cdef void note_metric(stage_t *s, double metric, bint smoothing) noexcept nogil:
    """Take a point; keep the model if it is the best one, stop if the last points were no better than older ones."""
    cdef int stop
    s.metric = metric
    if not isfinite(metric):
        return
    s.validated = True
    s.last_point = s.step
    if metric <= s.best_metric:
        s.best_metric = metric
        s.best_step = s.step
        if s.keep_best:
            keep_model(s)
    stop = skb_stopping_add(&s.stopping, s.step, metric, not smoothing)
    if stop < 0:
        s.status = OUT_OF_MEMORY
    elif stop > 0:
        s.status = STOPPED_EARLY


cdef void keep_model(stage_t *s) noexcept nogil:
    """Copy the terms that changed since the last copy."""
    cdef int i, k, b, n, outputs = s.n_outputs
    cdef Py_ssize_t at
    cdef const double *model
    cdef double *best
    for i in range(s.n_dirty):
        n = s.terms[s.dirty[i]].n_cells
        at = <Py_ssize_t>s.terms[s.dirty[i]].first_cell * outputs
        model = s.model + at
        best = s.best + at
        s.is_dirty[s.dirty[i]] = False
        if outputs == 1:
            memcpy(best, model, n * sizeof(double))
            continue
        for k in range(outputs):
            for b in range(n):
                best[<Py_ssize_t>b * outputs + k] = model[<Py_ssize_t>k * n + b]
    s.n_dirty = 0


cdef void log_step(stage_t *s, int t, double metric) noexcept nogil:
    cdef log_t *grown
    if s.step > s.log_room:
        grown = <log_t *>realloc(s.log, <size_t>max(2 * s.log_room, <int64_t>1024) * sizeof(log_t))
        if grown == NULL:
            s.status = OUT_OF_MEMORY
            return
        s.log = grown
        s.log_room = max(2 * s.log_room, <int64_t>1024)
    s.log[s.step - 1].term = t
    s.log[s.step - 1].cut = s.cut
    s.log[s.step - 1].metric = metric


cdef void apply_update(stage_t *s, int t) noexcept nogil:
    cdef const term_t *term = s.terms + t
    cdef double metric
    skb_d_take_step(<Py_ssize_t>s.n_outputs * term.n_cells, s.rate, s.u,
                    s.model + <Py_ssize_t>term.first_cell * s.n_outputs)
    if not s.is_dirty[t]:
        s.is_dirty[t] = True
        s.dirty[s.n_dirty] = t
        s.n_dirty += 1
    metric = s.backend.apply(s.backend.self, t, s.u)
    s.step += 1
    note_metric(s, metric, s.smoothing > 0)
    if s.recording:
        log_step(s, t, metric)


# ------------------------------------------------------------------------------------------------ loop


cdef void begin_sweep(stage_t *s) noexcept nogil:
    cdef uint64_t key = skb_key(s.seed, STREAM_ORDER, s.stream_index, <uint64_t>s.sweep)
    cdef int i, j, term
    s.heap_size = 0
    s.cached = False
    s.cached_gain = -1.0
    s.idle = True
    if s.shuffle and (s.sweep == 0 or s.n_greedy > 0):
        for i in range(s.n_terms - 1, 0, -1):
            j = min(<int>(skb_uniform(key, i) * (i + 1)), i)
            term = s.order[i]
            s.order[i] = s.order[j]
            s.order[j] = term
    s.sweep += 1


cdef bint nothing_to_gain(stage_t *s) noexcept nogil:
    """Whether the exact search finds only zeros; random cuts may have met zeros by chance."""
    cdef int t
    for t in range(s.n_terms):
        if s.idle:
            finish_update(s, t, best_update(s, t))
    return s.idle


cdef void end_sweep(stage_t *s) noexcept nogil:
    if s.idle and s.status == RUNNING and (s.smoothing == 0 or nothing_to_gain(s)):
        s.status = NOTHING_TO_GAIN
    if s.smoothing > 0:
        s.position = 0
        s.smoothing -= 1
        return
    s.position = -s.n_greedy
    if s.credit >= 1.0:
        s.credit -= 1.0
    s.credit += s.cyclic_progress


cdef void visit(stage_t *s) noexcept nogil:
    """Search one term, and apply its update unless the sweep only measures."""
    cdef bint greedy = s.position < 0, applies = True
    cdef double gain = 0.0
    cdef int t
    cdef size_t bytes
    if s.position == 0:
        begin_sweep(s)
    if greedy:
        t = heap_pop(s)
    else:
        t = s.order[s.position]
        applies = s.credit >= 1.0 or s.smoothing > 0
    bytes = <size_t>s.n_outputs * s.terms[t].n_cells * sizeof(double)
    if greedy and s.cached:
        # the sweep ended with this search
        memcpy(s.u, s.cached_u, bytes)
        s.cut = s.cached_cut
        gain = s.cached_gain
        s.cached = False
    elif s.smoothing > 0:
        random_update(s, t)
        finish_update(s, t, 0.0)
    else:
        gain = best_update(s, t)
        finish_update(s, t, gain)
    if s.status != RUNNING:
        return
    heap_push(s, gain, t)
    if applies:
        apply_update(s, t)
    elif gain > s.cached_gain or (gain == s.cached_gain and t < s.cached_term):
        s.cached = True
        s.cached_gain = gain
        s.cached_term = t
        s.cached_cut = s.cut
        memcpy(s.cached_u, s.u, bytes)
    s.position += 1
    if s.position == s.n_terms:
        end_sweep(s)


cdef void run_stage(stage_t *s, int64_t visits) noexcept nogil:
    while visits > 0 and s.status == RUNNING:
        if s.step >= s.max_steps:
            s.status = ROUNDS_USED
            break
        visit(s)
        visits -= 1
    if s.status != RUNNING and s.status != OUT_OF_MEMORY:
        end_stage(s)


cdef void end_stage(stage_t *s) noexcept nogil:
    """The last point, where the back end did not know it yet; without a best model the last one is kept."""
    cdef int status = s.status
    if s.last_point < s.step and status != DIVERGED:
        note_metric(s, s.backend.refresh(s.backend.self), False)
        s.status = status
    if not s.keep_best or not s.validated:
        keep_model(s)


# ------------------------------------------------------------------------------------------------ object


cdef class Stage:
    """Boosting of the terms of one stage on one bag.

    Parameters
    ----------
    backend : BackEnd
        Holds the bag. Nobody else may use it while the stage runs.
    term_sizes : array-like of shape (n_terms, 2), int
        Cells per axis, 1 as the second one of a main effect.
    term_nominal, term_monotone : array-like of shape (n_terms,), int
        Whether a main effect is categorical; 1 or -1 for numeric main effects of one output that must rise or fall.
    n_outputs : int
        Scores per row.
    learning_rate : float
        Factor of every update.
    max_rounds : int
        At most this many steps per term.
    max_leaves : int
        Of a main effect's tree; also the parts between random cuts of a main effect.
    min_samples_leaf, min_hessian, l2_regularization : float
        Least weight and least second derivative of a leaf; added to its second derivative.
    smoothing_rounds : int
        Sweeps with random cuts at the start.
    greedy_ratio : float
        Greedy steps per term after every cyclic sweep, at most max_rounds.
    cyclic_progress : float
        Share of the cyclic sweeps that apply their updates; all do without greedy steps.
    early_stopping_rounds : int
        Stop when the last so many steps per term were no better than the older ones; 0 runs all rounds and keeps the
        last model.
    early_stopping_tolerance : float
        Relative to the best metric. Not negative: a millionth of null_metric is added.
    missing : {"separate", "gain", "low", "high"}
        Where the missing cell of numeric terms goes.
    min_cat_samples, cat_smooth : float
        Levels of less weight are pooled; levels are sorted by G / (H + cat_smooth), G and H of one output that is drawn
        where there are several.
    gain_scale : float
        Factor of the gains of nominal terms.
    null_metric : float
        Validation metric of a model of constants; NaN: of the model as it is now.
    seed, bag, stage_number : int
        Keys of the random numbers; the seed is below 2**64.
    record : bool
        Whether to keep the log of steps.
    shuffle : bool
        Whether the order of the terms is drawn.
    out : ndarray of shape (n_cells_total, n_outputs), float64, optional
        Memory of the kept model, which may be part of a larger array.
    """
    cdef stage_t s
    cdef BackEnd backend
    cdef object keep
    cdef object best
    cdef bint busy

    def __cinit__(self):
        memset(&self.s, 0, sizeof(stage_t))
        self.s.status = ROUNDS_USED

    def __dealloc__(self):
        free(self.s.log)
        skb_stopping_free(&self.s.stopping)

    def __init__(self, BackEnd backend not None, term_sizes, term_nominal, term_monotone, *, n_outputs,
                 learning_rate, max_rounds, max_leaves=2, min_samples_leaf=0.0, min_hessian=0.0,
                 l2_regularization=0.0, smoothing_rounds=0, greedy_ratio=0.0, cyclic_progress=0.0,
                 early_stopping_rounds=0, early_stopping_tolerance=0.0, missing="separate", min_cat_samples=0.0,
                 cat_smooth=0.0, gain_scale=1.0, null_metric=math.nan, seed=0, bag=0, stage_number=0, record=False,
                 shuffle=True, out=None):
        cdef stage_t *s = &self.s
        if self.backend is not None:
            raise RuntimeError("a Stage is initialised once")
        self.keep = []
        sizes = checked_sizes(backend, term_sizes, n_outputs)
        n_terms = len(sizes)
        s.n_terms = n_terms
        s.n_outputs = n_outputs
        s.rate = number("learning_rate", learning_rate, low=0.0)
        rounds = integer("max_rounds", max_rounds, 0, 1 << 40)
        s.max_steps = rounds * n_terms
        s.smoothing = integer("smoothing_rounds", smoothing_rounds, 0, 1 << 40)
        s.gain_scale = number("gain_scale", gain_scale, low=0.0)
        greedy = greedy_ratio if greedy_ratio == math.inf else number("greedy_ratio", greedy_ratio, low=0.0)
        s.n_greedy = math.ceil(min(greedy, rounds) * n_terms)
        s.cyclic_progress = number("cyclic_progress", cyclic_progress, low=0.0, high=1.0) if s.n_greedy else 1.0
        s.credit = s.cyclic_progress
        s.shuffle = bool(shuffle)
        s.recording = bool(record)
        s.seed = integer("seed", seed, 0, (1 << 64) - 1)
        s.stream_index = 2 * integer("bag", bag, 0, 1 << 40) + integer("stage_number", stage_number, 0, 1)
        self.fill_options(sizes, max_leaves, missing, min_samples_leaf, min_hessian, l2_regularization,
                          min_cat_samples, cat_smooth)
        stop_rounds = integer("early_stopping_rounds", early_stopping_rounds, 0, 1 << 40)
        s.keep_best = stop_rounds > 0
        s.stopping.length = stop_rounds * n_terms
        s.stopping.tolerance = number("early_stopping_tolerance", early_stopping_tolerance)
        s.stopping.best = s.stopping.older = s.best_metric = INFINITY
        s.metric = NAN
        self.allocate(sizes, out)
        self.fill_terms(backend, sizes, term_nominal, term_monotone)
        if isnan(null_metric):
            null_metric = backend.c.refresh(backend.c.self)
        if early_stopping_tolerance >= 0 and isfinite(null_metric):
            s.stopping.floor = null_metric / FLOOR_SHARE
        s.backend = backend.c
        self.backend = backend
        s.status = RUNNING

    cdef int fill_options(self, sizes, max_leaves, missing, min_samples_leaf, min_hessian, l2_regularization,
                          min_cat_samples, cat_smooth) except -1:
        cdef stage_t *s = &self.s
        if missing not in MISSING_MODES:
            raise ValueError(f"missing must be one of {list(MISSING_MODES)}, got {missing!r}")
        s.options.n_outputs = s.pair_options.n_outputs = s.n_outputs
        s.options.max_leaves = min(integer("max_leaves", max_leaves, 1, 1 << 30), int(sizes.prod(axis=1).max()))
        s.options.missing = MISSING_MODES[missing]
        s.options.min_samples_leaf = number("min_samples_leaf", min_samples_leaf, low=0.0)
        s.options.min_hessian = number("min_hessian", min_hessian, low=0.0)
        s.options.l2_regularization = number("l2_regularization", l2_regularization, low=0.0)
        s.options.min_cat_samples = number("min_cat_samples", min_cat_samples, low=0.0)
        s.options.cat_smooth = number("cat_smooth", cat_smooth, low=0.0)
        s.pair_options.min_samples_leaf = s.options.min_samples_leaf
        s.pair_options.min_hessian = s.options.min_hessian
        s.pair_options.l2_regularization = s.options.l2_regularization
        return 0

    cdef int allocate(self, sizes, out) except -1:
        cdef stage_t *s = &self.s
        cells = sizes.prod(axis=1)
        cdef Py_ssize_t largest = cells.max(), total = cells.sum(), outputs = s.n_outputs, work = 0
        cdef double[:, ::1] best
        cdef int[:, ::1] ints = np.zeros((3, s.n_terms + 1), dtype=np.int32)
        cdef char[::1] flags = np.zeros(s.n_terms, dtype=np.int8)
        cdef int[::1] cuts = np.zeros(s.options.max_leaves, dtype=np.int32)
        if total > (1 << 31) - 1:
            raise ValueError(f"{total} cells are too many for one stage")
        for size0, size1 in sizes.tolist():
            if size1 == 1:
                work = max(work, term_work_size(size0, s.n_outputs))
            else:
                work = max(work, pair_work_size(size0, size1, s.n_outputs))
        if out is None:
            out = np.zeros((total, outputs))
        if not isinstance(out, np.ndarray) or out.dtype != np.float64 or out.shape != (total, outputs):
            raise ValueError(f"out must be a float64 array of shape {(total, outputs)}")
        best = out
        best[:, :] = 0.0
        self.best = out
        self.keep += [best, ints, flags, cuts]
        s.best = &best[0, 0]
        s.order, s.heap_term, s.dirty = &ints[0, 0], &ints[1, 0], &ints[2, 0]
        for t in range(s.n_terms):
            s.order[t] = t
        s.is_dirty = &flags[0]
        s.cuts = &cuts[0]
        s.heap_gain = self.doubles(s.n_terms + 1)
        s.model = self.doubles(total * outputs)
        s.u = self.doubles(largest * outputs)
        s.cached_u = self.doubles(largest * outputs)
        s.work = self.doubles(work)
        s.part_G = self.doubles(outputs * s.options.max_leaves)
        s.part_H = self.doubles(outputs * s.options.max_leaves)
        return 0

    cdef double *doubles(self, Py_ssize_t n) except NULL:
        cdef double[::1] room = np.zeros(max(n, 1))
        self.keep.append(room)
        return &room[0]

    cdef int fill_terms(self, BackEnd backend, sizes, nominal, monotone) except -1:
        """The terms, and what of them is constant."""
        cdef stage_t *s = &self.s
        cdef unsigned char[::1] terms = np.zeros(s.n_terms * sizeof(term_t), dtype=np.uint8)
        cdef unsigned char[::1] caches = np.zeros(s.n_terms * sizeof(term_cache_t), dtype=np.uint8)
        cdef term_t *term
        cdef term_cache_t *cache
        cdef sums_t sums
        cdef int t, first = 0
        nominal, monotone = np.asarray(nominal), np.asarray(monotone)
        if nominal.shape != (s.n_terms,) or monotone.shape != (s.n_terms,):
            raise ValueError(f"term_nominal and term_monotone must have {s.n_terms} entries")
        self.keep += [terms, caches]
        s.terms = <term_t *>&terms[0]
        s.caches = <term_cache_t *>&caches[0]
        for t in range(s.n_terms):
            term = <term_t *>s.terms + t
            cache = <term_cache_t *>s.caches + t
            term.size0, term.size1 = sizes[t]
            term.n_axes = 1 if term.size1 == 1 else 2
            term.n_cells = term.size0 * term.size1
            term.first_cell = first
            first += term.n_cells
            term.nominal = bool(nominal[t])
            term.monotone = integer("term_monotone", monotone[t], -1, 1)
            if term.monotone and (term.nominal or term.n_axes == 2 or s.n_outputs > 1):
                raise ValueError(f"term {t} is not a numeric main effect of one output: it cannot be monotone")
            backend.c.sums(backend.c.self, t, &sums)
            term.has_missing = sums.W[0] > 0.0
            if term.n_axes == 1 and not term.nominal:
                fill_term_cache(term, sums.W, &s.options, self.doubles(term_cache_size(term.n_cells)), cache)
        return 0

    def run(self, max_steps):
        """Go on for at most `max_steps` steps, visits that only measure gains included; return whether it is done.

        Other threads run meanwhile.
        """
        cdef int64_t visits = integer("max_steps", max_steps, 0, 1 << 62)
        if self.backend is None:
            raise ValueError("this Stage was not initialised")
        if self.busy:
            raise RuntimeError("another thread runs this Stage")
        self.busy = True
        try:
            with nogil:
                run_stage(&self.s, visits)
        finally:
            self.busy = False
        if self.s.status == OUT_OF_MEMORY:
            raise MemoryError("no memory for the log of a stage")
        return self.s.status != RUNNING

    def end(self):
        """End the stage here; the kept model is the one that a limit on the rounds would have left."""
        if self.backend is None:
            raise ValueError("this Stage was not initialised")
        if self.busy:
            raise RuntimeError("another thread runs this Stage")
        if self.s.status == RUNNING:
            self.s.status = ENDED
            with nogil:
                end_stage(&self.s)

    def tensors(self):
        """Return the kept model, of shape (n_cells_total, n_outputs): the terms' cells one after the other.

        While the stage runs, the best model so far.
        """
        return self.best

    @property
    def n_steps(self):
        """Steps applied."""
        return self.s.step

    @property
    def best_step(self):
        """Steps of the kept model."""
        return self.s.best_step if self.s.keep_best and self.s.validated else self.s.step

    @property
    def best_metric(self):
        """Lowest validation metric, NaN without one."""
        return self.s.best_metric if self.s.validated else math.nan

    @property
    def metric(self):
        """Last known validation metric, NaN without one."""
        return self.s.metric

    @property
    def reason(self):
        """Why the stage ended: "rounds", "early_stopping", "no_gain", "diverged", "ended"; "running" before."""
        return REASONS[self.s.status]

    @property
    def log(self):
        """Applied steps: (term, cut, metric), arrays of shape (n_steps,).

        The cut is the first cell b of a main effect that the step tells from b + 1, a * size1 + b for the cuts a and b
        of a pair, -1 without cuts.
        """
        cdef int64_t i, n = self.s.step if self.s.recording else 0
        cdef int[::1] term = np.empty(n, dtype=np.int32)
        cdef int[::1] cut = np.empty(n, dtype=np.int32)
        cdef double[::1] metric = np.empty(n)
        if not self.s.recording:
            raise ValueError("the log of a stage is kept with record=True only")
        for i in range(n):
            term[i] = self.s.log[i].term
            cut[i] = self.s.log[i].cut
            metric[i] = self.s.log[i].metric
        return np.asarray(term), np.asarray(cut), np.asarray(metric)


def stops_at(steps, metrics, length, tolerance, floor=0.0, n_smoothing=0):
    """Return the index of the point at which early stopping ends a stage, None if it does not.

    Points are (step, metric), steps ascending; those up to step `n_smoothing` do not count. The window has `length`
    steps.
    """
    cdef skb_stopping_t stopping
    cdef int64_t i
    cdef int64_t[::1] at = np.array(steps, dtype=np.int64)
    cdef double[::1] metric = np.array(metrics, dtype=np.float64)
    cdef int stop = 0
    if at.shape[0] != metric.shape[0]:
        raise ValueError(f"{at.shape[0]} steps but {metric.shape[0]} metrics")
    memset(&stopping, 0, sizeof(skb_stopping_t))
    stopping.length = integer("length", length, 0, 1 << 40)
    stopping.tolerance, stopping.floor = tolerance, floor
    stopping.best = stopping.older = INFINITY
    for i in range(at.shape[0]):
        stop = skb_stopping_add(&stopping, at[i], metric[i], at[i] > n_smoothing)
        if stop:
            break
    skb_stopping_free(&stopping)
    if stop < 0:
        raise MemoryError("no memory for the points of a window")
    return i if stop else None


def checked_sizes(BackEnd backend, term_sizes, n_outputs):
    if backend.c.self == NULL:
        raise ValueError("the back end was not initialised")
    sizes = np.array(term_sizes, dtype=np.int64, order="C")
    if sizes.ndim != 2 or sizes.shape[1] != 2 or not len(sizes) or not np.array_equal(sizes, backend.term_sizes):
        raise ValueError("term_sizes must be those of the back end")
    if (sizes < 1).any() or (sizes[:, 0] < 2).any() or sizes.prod(axis=1).max() > MAX_CELLS:
        raise ValueError(f"a term has 2 to {MAX_CELLS} cells")
    if n_outputs != backend.n_outputs:
        raise ValueError(f"n_outputs is {n_outputs}, but the back end has {backend.n_outputs}")
    return sizes


def number(name, value, low=-math.inf, high=math.inf):
    value = float(value)
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{name} must be a finite number from {low} to {high}, got {value}")
    return value


def integer(name, value, low, high):
    if not isinstance(value, numbers.Integral) or not low <= value <= high:
        raise ValueError(f"{name} must be an integer from {low} to {high}, got {value!r}")
    return int(value)
