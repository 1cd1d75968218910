"""Best split of one feature in one node."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t

cdef extern from *:
    """
    #include "isa.h"
    #include "split.h"
    #define SKB_IMPL "split_impl.h"
    #include "isa_expand.h"
    static void skb_d_scan_side(const skb_scan_t *c, const int64_t *v, int n, const int64_t *add, const int64_t *total,
                                double *out)
    { SKB_DISPATCH(skb_scan_side)(c, v, n, add, total, out); }
    static double skb_d_max(const double *a, int n) { return SKB_DISPATCH(skb_max)(a, n); }
    static void skb_d_add_gains(double *sums, const double *scores, int n, double before, const uint8_t *certain)
    { SKB_DISPATCH(skb_add_gains)(sums, scores, n, before, certain); }
    """
    void skb_isa_init() nogil
    void skb_d_scan_side(const skb_scan_t *c, const int64_t *v, int n, const int64_t *add, const int64_t *total,
                         double *out) nogil
    double skb_d_max(const double *a, int n) nogil
    void skb_d_add_gains(double *sums, const double *scores, int n, double before, const uint8_t *certain) nogil

skb_isa_init()

cdef extern from "hist.h" nogil:
    int32_t skb_lo(int64_t v)


cdef void scan_numeric(const skb_scan_t *c, const int64_t *hist, const uint32_t *counts, int n_bins,
                       const int64_t *total, bint missing, int8_t monotone, const double *bounds,
                       candidates_t *out) noexcept nogil:
    """Score "bins 1..b go left" for both places of the missing bin (one place when it is known to be empty)."""
    cdef int64_t zeros[256]
    cdef int w
    out.n_left = n_bins - 2 if missing else 0
    out.n_right = n_bins - 1 if missing else n_bins - 2
    if out.n_left < 0:
        out.n_left = 0
    if out.n_right < 0:
        out.n_right = 0
    if c.bounded:
        score_bounded(c, hist, n_bins, total, monotone, bounds, True, out.n_left, out.left)
        score_bounded(c, hist, n_bins, total, monotone, bounds, False, out.n_right, out.right)
    else:
        for w in range(c.n_words):
            zeros[w] = 0
        if out.n_left:
            skb_d_scan_side(c, hist + c.n_words, out.n_left, hist, total, out.left)
        if out.n_right:
            skb_d_scan_side(c, hist + c.n_words, out.n_right, zeros, total, out.right)
    if counts != NULL:
        mask_by_weight(c, counts, n_bins, True, out.n_left, out.left)
        mask_by_weight(c, counts, n_bins, False, out.n_right, out.right)


cdef void score_bounded(const skb_scan_t *c, const int64_t *hist, int n_bins, const int64_t *total, int8_t monotone,
                        const double *bounds, bint missing_left, int n, double *out) noexcept nogil:
    """Scores with values clipped to the node's bounds, and in the order that a monotone constraint asks for."""
    cdef int64_t left = hist[0] if missing_left else 0
    cdef int64_t right
    cdef double vl, vr
    cdef int i
    for i in range(n):
        left += hist[i + 1]
        right = total[0] - left
        out[i] = SKB_INVALID
        if not skb_heavy_enough(c, skb_lo(left), skb_lo(right), NULL):
            continue
        vl = skb_node_value(c, &left, bounds[0], bounds[1])
        vr = skb_node_value(c, &right, bounds[0], bounds[1])
        if (monotone > 0 and vl > vr) or (monotone < 0 and vl < vr):
            continue
        out[i] = skb_score(c, &left, bounds[0], bounds[1]) + skb_score(c, &right, bounds[0], bounds[1])


cdef void mask_by_weight(const skb_scan_t *c, const uint32_t *counts, int n_bins, bint missing_left, int n,
                         double *out) noexcept nogil:
    cdef uint32_t total = 0
    cdef uint32_t left = counts[0] if missing_left else 0
    cdef int i
    for i in range(n_bins):
        total += counts[i]
    for i in range(n):
        left += counts[i + 1]
        if left < c.min_count or total - left < c.min_count:
            out[i] = SKB_INVALID


cdef void prove_numeric(const skb_scan_t *c, const int64_t *hist, const int64_t *total,
                        candidates_t *out) noexcept nogil:
    """Which numeric candidates are heavy enough whatever the weights."""
    cdef int64_t left = hist[0]
    cdef int i
    for i in range(out.n_left):
        left += hist[<size_t>(i + 1) * c.n_words]
        out.certain_left[i] = skb_is_certain(c, left, total[0] - left)
    left = 0
    for i in range(out.n_right):
        left += hist[<size_t>(i + 1) * c.n_words]
        out.certain[i] = skb_is_certain(c, left, total[0] - left)


cdef skb_best_t first_within_tie(const candidates_t *found) noexcept nogil:
    """Return the best candidate; among ties the lowest bin, then missing left."""
    cdef skb_best_t best
    cdef double left = skb_d_max(found.left, found.n_left)
    cdef double right = skb_d_max(found.right, found.n_right)
    cdef double top = left if left > right else right
    cdef double enough = top - SKB_TIE * (top if top > 0 else -top)
    cdef int i
    best.score = SKB_INVALID
    best.bin = -1
    best.missing_right = 1
    best.certain = 1
    if top <= SKB_INVALID:
        return best
    best.score = top
    for i in range(256):
        if i < found.n_left and found.left[i] >= enough:
            best.missing_right = 0
            break
        if i < found.n_right and found.right[i] >= enough:
            break
    best.bin = i
    return best


cdef skb_best_t best_candidate(const skb_scan_t *c, const int64_t *hist, const uint32_t *counts, int n_bins,
                               const int64_t *total, bint categorical, const candidates_t *found) noexcept nogil:
    """Return the best candidate of a feature (bin: last left bin, or position in the category order)."""
    cdef skb_best_t best = first_within_tie(found)
    cdef int64_t left = 0
    cdef int b
    if best.bin < 0:
        return best
    if categorical:
        best.certain = found.certain[best.bin]
        return best
    best.bin += 1
    if not c.direct and counts == NULL:
        left = 0 if best.missing_right else hist[0]
        for b in range(1, best.bin + 1):
            left += hist[<size_t>b * c.n_words]
        best.certain = skb_is_certain(c, left, total[0] - left)
    return best


cdef void add_gains(double *sums, const double *scores, int n, double before, const uint8_t *certain) noexcept nogil:
    skb_d_add_gains(sums, scores, n, before, certain)
