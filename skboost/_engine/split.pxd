from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t


cdef extern from "split.h" nogil:
    const double SKB_INVALID
    const double SKB_TIE
    ctypedef struct skb_scan_t:
        int n_outputs
        int n_words
        int newton
        int direct
        double lambda_ "lambda"
        const double *g_unit
        const double *h_unit
        int32_t min_low
        double certain_low
        uint32_t min_count
        int bounded
    ctypedef struct skb_best_t:
        double score
        int16_t bin
        uint8_t missing_right
        uint8_t certain
    double skb_score(const skb_scan_t *c, const int64_t *words, double lo, double hi) noexcept
    double skb_node_value(const skb_scan_t *c, const int64_t *words, double lo, double hi) noexcept
    int64_t skb_mass(const skb_scan_t *c, const int64_t *words) noexcept
    bint skb_heavy_enough(const skb_scan_t *c, int64_t left, int64_t right, const uint32_t *counts) noexcept
    bint skb_is_certain(const skb_scan_t *c, int64_t left, int64_t right) noexcept
    void skb_left_sums(const int64_t *hist, int n_bins, int words, int bin, int missing_right, const uint8_t *set,
                       int64_t *out) noexcept
    bint skb_words_zero(const int64_t *e, int words) noexcept
    bint skb_in_set(const uint8_t *set, int code) noexcept
    int skb_category_order(const skb_scan_t *c, const int64_t *hist, int n_bins, uint8_t *order) noexcept
    void skb_category_set(const uint8_t *order, int n_bins, int position, uint8_t *set) noexcept
    void skb_category_fill(const int64_t *hist, int n_bins, int words, int left_heavier, uint8_t *set) noexcept
    void skb_scan_categories(const skb_scan_t *c, const int64_t *hist, const uint32_t *counts, int n_bins,
                             const uint8_t *order, int n_order, const int64_t *total, const double *bounds,
                             double *out, uint8_t *certain) noexcept

# Scores of all candidates of one feature in one node.
ctypedef struct candidates_t:
    int n_left                # candidates with the missing bin left (0 when it holds no rows)
    int n_right               # candidates with the missing bin right; categorical: positions in `order`
    double left[256]
    double right[256]
    uint8_t certain[256]      # of `right`: the leaf minimum is proven; numeric: only after prove_numeric
    uint8_t certain_left[256]

cdef void scan_numeric(const skb_scan_t *c, const int64_t *hist, const uint32_t *counts, int n_bins,
                       const int64_t *total, bint missing, int8_t monotone, const double *bounds,
                       candidates_t *out) noexcept nogil
cdef void prove_numeric(const skb_scan_t *c, const int64_t *hist, const int64_t *total,
                        candidates_t *out) noexcept nogil
cdef skb_best_t best_candidate(const skb_scan_t *c, const int64_t *hist, const uint32_t *counts, int n_bins,
                               const int64_t *total, bint categorical, const candidates_t *found) noexcept nogil
cdef skb_best_t first_within_tie(const candidates_t *found) noexcept nogil
cdef void add_gains(double *sums, const double *scores, int n, double before, const uint8_t *certain) noexcept nogil
