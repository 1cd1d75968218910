# The loop of a stage: order of the terms, updates, early stopping, the kept model.

from libc.stdint cimport int32_t, int64_t, uint64_t

from skboost._engine.interactions cimport pair_options_t
from skboost._engine.lines cimport term_cache_t, term_options_t
from skboost._engine.stage cimport backend_t, term_t

cdef extern from "stopping.h":
    ctypedef struct skb_stopping_t:
        int64_t length
        double tolerance
        double floor
        double best
        double older
    int skb_stopping_add(skb_stopping_t *s, int64_t step, double metric, int counts) nogil
    void skb_stopping_free(skb_stopping_t *s) nogil

# Why a stage ended.
cdef enum:
    RUNNING = 0
    ROUNDS_USED = 1
    STOPPED_EARLY = 2
    NOTHING_TO_GAIN = 3    # no term has a gain and all updates are 0
    DIVERGED = 4           # an update is not finite
    OUT_OF_MEMORY = 5
    ENDED = 6              # by the caller

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

# Go on for at most so many visits of a term; s.status tells whether the stage is at its end.
cdef void run_stage(stage_t *s, int64_t visits) noexcept nogil

# What is left to do once s.status says that the stage is over.
cdef void end_stage(stage_t *s) noexcept nogil
