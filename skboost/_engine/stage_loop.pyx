"""Boosting of the terms of one stage of one bag, as an object that can be run in pieces."""

from libc.math cimport INFINITY, NAN, isfinite, isnan
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from skboost._engine.boosting cimport (
    ENDED,
    OUT_OF_MEMORY,
    ROUNDS_USED,
    RUNNING,
    end_stage,
    run_stage,
    skb_stopping_add,
    skb_stopping_free,
    skb_stopping_t,
    stage_t,
)
from skboost._engine.interactions cimport pair_work_size
from skboost._engine.lines cimport (
    MISSING_GAIN,
    MISSING_HIGH,
    MISSING_LOW,
    MISSING_SEPARATE,
    fill_term_cache,
    term_cache_size,
    term_cache_t,
)
from skboost._engine.stage cimport BackEnd, sums_t, term_t
from skboost._engine.terms cimport term_work_size

import math
import numbers

import numpy as np

cdef enum:
    MAX_CELLS = 1 << 20      # of a term
    MAX_CACHED = 1 << 19     # cells of all terms whose constant parts of the search are kept
    FLOOR_SHARE = 1000000    # the absolute tolerance is this part of the null metric

REASONS = ("running", "rounds", "early_stopping", "no_gain", "diverged", "memory", "ended")
MISSING_MODES = {"separate": MISSING_SEPARATE, "gain": MISSING_GAIN, "low": MISSING_LOW, "high": MISSING_HIGH}


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
            s.stopping.floor = max(null_metric, 0.0) / FLOOR_SHARE
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
        cdef int64_t total = sizes.prod(axis=1).sum()
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
            if term.nominal and term.n_axes == 2:
                raise ValueError(f"term {t} is a pair: only main effects are nominal")
            if term.monotone and (term.nominal or term.n_axes == 2 or s.n_outputs > 1):
                raise ValueError(f"term {t} is not a numeric main effect of one output: it cannot be monotone")
            with nogil:
                backend.c.sums(backend.c.self, t, &sums)
            term.has_missing = sums.W[0] > 0.0
            if term.n_axes == 1 and not term.nominal and total <= MAX_CACHED:
                fill_term_cache(term, sums.W, &s.options, self.doubles(term_cache_size(term.n_cells)), cache)
        return 0

    def run(self, max_steps):
        """Go on for at most `max_steps` steps, visits that only measure gains included; return whether it is done.

        Other threads run meanwhile.
        """
        cdef int64_t visits = integer("max_steps", max_steps, 0, 1 << 62)
        self.take()
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
        self.take()
        try:
            if self.s.status == RUNNING:
                self.s.status = ENDED
                with nogil:
                    end_stage(&self.s)
        finally:
            self.busy = False

    cdef int take(self) except -1:
        """Keep other threads out."""
        if self.backend is None:
            raise ValueError("this Stage was not initialised")
        if self.busy:
            raise RuntimeError("another thread runs this Stage")
        self.busy = True
        return 0

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
