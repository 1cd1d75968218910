"""The loop of a stage: order of the terms, updates, early stopping, the kept model.

Sweeps with random cuts come first (smoothing). Then a cyclic sweep that measures the gain of every term, and applies
its updates only as often as `cyclic_progress` says, alternates with greedy steps: the term of the largest gain known is
searched and updated, and goes back with the gain it had before.
"""

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

from skboost._engine.interactions cimport pair_cut_t, random_pair, search_pair
from skboost._engine.stage cimport sums_t, term_t
from skboost._engine.terms cimport cut_term, random_cuts, search_term

cdef extern from *:
    """
    #include <stddef.h>
    #include <string.h>
    #include "isa.h"
    #include "rng.h"
    #define SKB_IMPL "stage_impl.h"
    #include "isa_expand.h"
    static int skb_d_inspect(ptrdiff_t n, const double *u) { return SKB_DISPATCH(skb_inspect)(n, u); }
    static void skb_d_take_step(ptrdiff_t n, double rate, double *u, double *model)
    { SKB_DISPATCH(skb_take_step)(n, rate, u, model); }
    """
    uint64_t skb_key(uint64_t seed, uint64_t stream, uint64_t iteration, uint64_t output) nogil
    double skb_uniform(uint64_t key, uint64_t counter) nogil
    void skb_isa_init() nogil
    int skb_d_inspect(Py_ssize_t n, const double *u) nogil
    void skb_d_take_step(Py_ssize_t n, double rate, double *u, double *model) nogil

skb_isa_init()

cdef enum:
    # streams of skboost._random
    STREAM_ORDER = 8
    STREAM_CUTS = 9
    STREAM_TIES = 11


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
    return s.idle and s.status == RUNNING


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
