"""What happens to the rows before and after the structure of a tree is found.

A `*_pass` function is run by every thread on its own rows; the others take what the passes of all threads left and
are run by the last thread at a barrier.
"""

from libc.math cimport frexp, ldexp, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport malloc
from libc.string cimport memset

from skboost._engine.langevin cimport (
    add_noise,
    kept_sum,
    leaf_sum,
    max_abs,
    pack_words,
    quantise,
    scale_doubles,
    scale_floats,
    skb_add_value,
    skb_identity,
    skb_key,
    skb_normal,
    skb_weight_sum,
    sum_abs,
    sum_words,
)
from skboost._engine.losses cimport LOSS_GIVEN, coin_gradients, leaf_denominator, loss_gradients
from skboost._engine.renewal cimport renewed_bounds
from skboost._engine.types cimport BLOCK_ROWS, step_t, tree_t

cdef enum:
    STREAM_STRUCT = 1
    STREAM_LEAF = 2


# ---------------------------------------------------------------- before the tree

cdef void noisy_block(step_t *p, size_t n, size_t b, int k, int m) noexcept nogil:
    """Gradients of a block of rows plus their structure noise, which is also stored where some copies are its alone."""
    cdef float *grad = p.grad + k * n + b
    cdef float *noisy = p.noisy + k * n + b
    cdef float *noise = noisy
    cdef const float *metric = p.hess + k * n + b if p.metric else NULL
    cdef int i
    if p.kept_units != NULL:
        noise = p.noise_rows + k * n + b
        memset(noise, 0, m * sizeof(float))
    add_noise(noise if p.kept_units != NULL else grad, metric, p.hash0 + b, p.hash1 + b, p.inv_root_weight + b,
              <float>(p.sigma * p.row_noise[k]), skb_key(p.seed, STREAM_STRUCT, p.iteration, k), m, noise)
    if p.kept_units != NULL:
        for i in range(m):
            noisy[i] = grad[i] + noise[i]


cdef void gradient_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    """Shrink the scores, take gradients and add the structure noise, block by block over own rows."""
    cdef size_t n = s.n_rows
    cdef size_t b = s.row_begin[t]
    cdef float *peak = p.peak + t * 3 * p.n_outputs
    cdef int k, m, outputs = p.loss.n_outputs
    cdef float v
    memset(peak, 0, 3 * p.n_outputs * sizeof(float))
    while b < s.row_begin[t + 1]:
        m = <int>min(<size_t>BLOCK_ROWS, s.row_begin[t + 1] - b)
        if p.shrink != 1.0:
            for k in range(p.n_outputs):
                scale_doubles(p.score + k * n + b, p.shrink, m)
        if p.loss.kind != LOSS_GIVEN:
            loss_gradients(&p.loss, m, p.y + b, p.score + b, n, p.base, p.newton, p.grad + b,
                           NULL if p.hess == NULL else p.hess + b, n)
        if p.coin != NULL:
            coin_gradients(m, p.coin + b, p.score + outputs * n + b, p.hess + b if p.newton else NULL,
                           p.grad + n + b, p.grad + outputs * n + b)
        for k in range(p.n_outputs):
            if p.gradient_scale != 1.0:
                scale_floats(p.grad + k * n + b, <float>p.gradient_scale, m)
            if p.sigma > 0.0 and k < outputs:
                noisy_block(p, n, b, k, m)
                v = max_abs(p.noisy + k * n + b, m)
                peak[3 * k] = max(peak[3 * k], v)
                if p.kept_units != NULL:
                    v = max_abs(p.noise_rows + k * n + b, m)
                    peak[3 * k] = max(peak[3 * k], v)
            v = max_abs(p.grad + k * n + b, m)
            peak[3 * k + 1] = max(peak[3 * k + 1], v)
            if p.hess != NULL and k < outputs:
                v = max_abs(p.hess + k * n + b, m)
                peak[3 * k + 2] = max(peak[3 * k + 2], v)
        b += m


cdef float power_scale(double top, int bits) noexcept nogil:
    """Return the power of two that brings values up to `top` below 2**bits."""
    cdef int e
    if not top > 0.0:
        return 1.0
    frexp(top, &e)
    return <float>ldexp(1.0, max(-120, min(120, bits - e)))


cdef void choose_coarse(tree_t *s, step_t *p) noexcept nogil:
    cdef int k, t
    cdef float noisy, clean, hess
    for k in range(p.n_outputs):
        noisy = clean = hess = 0.0
        for t in range(s.n_threads):
            noisy = max(noisy, p.peak[(t * p.n_outputs + k) * 3])
            clean = max(clean, p.peak[(t * p.n_outputs + k) * 3 + 1])
            hess = max(hess, p.peak[(t * p.n_outputs + k) * 3 + 2])
        if p.sigma <= 0.0:
            noisy = clean
        p.coarse[2 * k] = power_scale(noisy, 30)
        p.coarse[2 * k + 1] = power_scale(hess, 30)
        p.leaf_scale[2 * k] = power_scale(clean, 30)
        p.leaf_scale[2 * k + 1] = p.coarse[2 * k + 1]
        p.peak[3 * k + 2] = hess


cdef void other_copies(step_t *p, size_t b, int m, uint32_t *units, uint32_t *copies) noexcept nogil:
    """Structure weights, and numbers where there are copies, of the copies of a block whose gradients do not count."""
    cdef int i
    for i in range(m):
        units[i] = (1 if p.units == NULL else p.units[b + i]) - p.kept_units[b + i]
    if p.tree_copies != NULL:
        for i in range(m):
            copies[i] = p.tree_copies[b + i] - p.kept_copies[b + i]


cdef int64_t gradient_magnitudes(step_t *p, size_t n, size_t b, int k, int m) noexcept nogil:
    cdef uint32_t units[BLOCK_ROWS]
    cdef uint32_t copies[BLOCK_ROWS]
    cdef float scale = p.coarse[2 * k]
    cdef int64_t total
    if p.kept_units == NULL:
        return sum_abs(p.noisy + k * n + b, NULL if p.units == NULL else p.units + b, scale, m)
    total = sum_abs(p.noisy + k * n + b, p.kept_units + b, scale, m)
    if p.sigma > 0.0:
        other_copies(p, b, m, units, copies)
        total += sum_abs(p.noise_rows + k * n + b, units, scale, m)
    return total


cdef void quantised_gradients(step_t *p, size_t n, size_t b, int k, int m, int32_t *out) noexcept nogil:
    """Whole numbers that a block adds to the gradient sums; copies whose gradients do not count add their noise."""
    cdef uint32_t units[BLOCK_ROWS]
    cdef uint32_t copies[BLOCK_ROWS]
    cdef int32_t noise[BLOCK_ROWS]
    cdef float *noisy = p.noisy + k * n + b
    cdef float scale = p.inv_unit[2 * k]
    cdef int i
    if p.kept_units == NULL:
        quantise(noisy, NULL if p.units == NULL else p.units + b, NULL if p.tree_copies == NULL else p.tree_copies + b,
                 p.integer_weights, scale, m, out)
        return
    quantise(noisy, p.kept_units + b, NULL if p.tree_copies == NULL else p.kept_copies + b, p.integer_weights, scale, m,
             out)
    if p.sigma > 0.0:
        other_copies(p, b, m, units, copies)
        quantise(p.noise_rows + k * n + b, units, NULL if p.tree_copies == NULL else copies, p.integer_weights, scale,
                 m, noise)
        for i in range(m):
            out[i] += noise[i]


cdef void sum_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    """Exact sums of magnitudes over own rows; they fix the grid of the packed sums."""
    cdef size_t n = s.n_rows
    cdef size_t b = s.row_begin[t]
    cdef int64_t *sums = p.sums + t * 2 * p.n_outputs
    cdef const uint32_t *w
    cdef int k, m
    memset(sums, 0, 2 * p.n_outputs * sizeof(int64_t))
    while b < s.row_begin[t + 1]:
        m = <int>min(<size_t>BLOCK_ROWS, s.row_begin[t + 1] - b)
        w = NULL if p.units == NULL else p.units + b
        for k in range(p.loss.n_outputs):
            sums[2 * k] += gradient_magnitudes(p, n, b, k, m)
            if p.newton:
                sums[2 * k + 1] += sum_abs(p.hess + k * n + b, w, p.coarse[2 * k + 1], m)
        b += m


cdef void choose_units(tree_t *s, step_t *p) noexcept nogil:
    """Grids on which no sum over rows can overflow 31 bits."""
    cdef double per_weight = 1.0 / p.weight_scale
    cdef double highest = 0.0
    cdef int k, t
    cdef int64_t g, h
    for k in range(p.loss.n_outputs):
        g = h = 0
        for t in range(s.n_threads):
            g += p.sums[(t * p.n_outputs + k) * 2]
            h += p.sums[(t * p.n_outputs + k) * 2 + 1]
        p.inv_unit[2 * k] = power_scale(<double>g / p.coarse[2 * k], 30)
        p.g_unit[k] = per_weight / p.inv_unit[2 * k]
        p.h_unit[k] = per_weight * p.curvature
        if p.newton:
            p.inv_unit[2 * k + 1] = power_scale(<double>h / p.coarse[2 * k + 1], 30)
            p.h_unit[k] = per_weight / p.inv_unit[2 * k + 1]
    if not s.scan.direct:
        # No row adds more than this per unit of leaf-minimum weight, so a sum this large proves the minimum.
        highest = p.peak[2] * p.inv_unit[1] + 1.0 if p.newton else 1.0
        s.scan.certain_low = highest * s.min_weight * p.count_ratio


cdef void pack_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    """Quantise own rows into histogram words; sum the root; set the index to the identity."""
    cdef size_t n = s.n_rows
    cdef size_t b = s.row_begin[t]
    cdef int words = s.scan.n_words
    cdef int64_t *root = p.root_sums + t * words
    cdef const uint32_t *w
    cdef const uint32_t *c
    cdef int32_t hi[BLOCK_ROWS]
    cdef int32_t lo[BLOCK_ROWS]
    cdef int word, k, m
    cdef size_t i
    skb_identity(s.index, b, s.row_begin[t + 1])
    memset(root, 0, words * sizeof(int64_t))
    while b < s.row_begin[t + 1]:
        m = <int>min(<size_t>BLOCK_ROWS, s.row_begin[t + 1] - b)
        w = NULL if p.units == NULL else p.units + b
        c = NULL if p.tree_copies == NULL else p.tree_copies + b
        for word in range(words):
            k = word if p.newton or word == 0 else 2 * word - 1
            quantised_gradients(p, n, b, k, m, hi)
            if p.newton:
                quantise(p.hess + k * n + b, w, c, p.integer_weights, p.inv_unit[2 * k + 1], m, lo)
            elif word == 0:
                for i in range(<size_t>m):
                    lo[i] = 1 if w == NULL else <int32_t>w[i]
            elif k + 1 < p.loss.n_outputs:
                quantised_gradients(p, n, b, k + 1, m, lo)
            else:
                memset(lo, 0, m * sizeof(int32_t))
            pack_words(hi, lo, words, m, s.packed + b * words + word)
            root[word] += sum_words(s.packed + b * words + word, words, m)
        b += m


# ---------------------------------------------------------------- leaves

cdef void list_leaves(tree_t *s, step_t *p) noexcept nogil:
    cdef int i, t
    cdef size_t at = 0
    p.n_leaves = 0
    p.leaves = <int *>malloc(s.n_nodes * sizeof(int))
    if p.leaves != NULL:
        for i in range(s.n_nodes):
            if s.nodes[i].left < 0 and not s.nodes[i].dead:
                p.leaves[p.n_leaves] = i
                p.n_leaves += 1
    p.leaf_sums = <int64_t *>malloc(<size_t>s.n_threads * p.n_leaves * (2 * p.n_outputs + 1) * sizeof(int64_t))
    p.leaf_value = <double *>malloc(<size_t>p.n_leaves * p.n_outputs * sizeof(double))
    p.leaf_weight = <double *>malloc(p.n_leaves * sizeof(double))
    if p.leaves == NULL or p.leaf_sums == NULL or p.leaf_value == NULL or p.leaf_weight == NULL:
        s.failed = 1
        return
    if not p.renew:
        return
    p.leaf_start = <size_t *>malloc(p.n_leaves * sizeof(size_t))
    p.renewed = <double *>malloc(<size_t>p.n_leaves * p.n_outputs * sizeof(double))
    p.node_sums = <double *>malloc(2 * <size_t>s.n_nodes * sizeof(double))
    if p.leaf_start == NULL or p.renewed == NULL or p.node_sums == NULL:
        s.failed = 1
        return
    for i in range(p.n_leaves):
        p.leaf_start[i] = at
        for t in range(s.n_threads):
            at += s.seg_size[<size_t>p.leaves[i] * s.n_threads + t]


cdef void leaf_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    """Exact sums of the noise-free gradients over own rows of every leaf."""
    cdef int width = 2 * p.n_outputs + 1
    cdef int64_t *sums
    cdef const uint32_t *idx
    cdef size_t segment, m
    cdef int i, k
    for i in range(p.n_leaves):
        segment = <size_t>p.leaves[i] * s.n_threads + t
        idx = s.index + s.seg_start[segment]
        m = s.seg_size[segment]
        sums = p.leaf_sums + (<size_t>t * p.n_leaves + i) * width
        for k in range(p.n_outputs):
            if p.kept == NULL:
                sums[2 * k] = leaf_sum(idx, m, p.grad + k * s.n_rows, p.leaf_scale[2 * k], p.weight, p.weight_scale,
                                       p.copies)
            else:
                sums[2 * k] = kept_sum(idx, m, p.grad + k * s.n_rows, p.leaf_scale[2 * k], p.copy_weight,
                                       p.weight_scale, p.kept)
            sums[2 * k + 1] = 0
            if p.hess != NULL and k < p.loss.n_outputs:
                sums[2 * k + 1] = leaf_sum(idx, m, p.hess + k * s.n_rows, p.leaf_scale[2 * k + 1], p.weight,
                                           p.weight_scale, p.copies)
        if p.weight == NULL:
            sums[width - 1] = m
        else:
            sums[width - 1] = skb_weight_sum(idx, m, p.weight, p.weight_scale * 1073741824.0, p.copies)


cdef void leaf_values(tree_t *s, step_t *p) noexcept nogil:
    """Step of every leaf: -eps (G + sigma sqrt(D) xi) / D with D = W + lambda, or H + lambda for Newton leaves.

    Coins are fitted as the first output is, without noise. Renewed leaves have -W times a quantile of their residuals
    in the place of G. A leaf without rows has no gradient and takes no noise: its step is the mean of its prior, 0
    within its bounds.
    """
    cdef int width = 2 * p.n_outputs + 1
    cdef double unit = 1.0 / p.weight_scale
    cdef double W, G, H, D, metric, value
    cdef int64_t total
    cdef int i, k, t, h
    for i in range(p.n_leaves):
        total = 0
        for t in range(s.n_threads):
            total += p.leaf_sums[(<size_t>t * p.n_leaves + i) * width + width - 1]
        p.leaf_weight[i] = <double>total if p.weight == NULL else <double>total * unit / 1073741824.0
    if p.renew and s.scan.bounded:
        renewed_bounds(s, p)
    for i in range(p.n_leaves):
        W = p.leaf_weight[i]
        for k in range(p.n_outputs):
            h = k if k < p.loss.n_outputs else 0
            total = 0
            for t in range(s.n_threads):
                total += p.leaf_sums[(<size_t>t * p.n_leaves + i) * width + 2 * k]
            G = <double>total * unit / p.leaf_scale[2 * k]
            total = 0
            for t in range(s.n_threads):
                total += p.leaf_sums[(<size_t>t * p.n_leaves + i) * width + 2 * h + 1]
            H = <double>total * unit / p.leaf_scale[2 * h + 1]
            metric = W / max(H, 0.5 * unit / p.leaf_scale[2 * h + 1]) if p.metric else 1.0
            D = (H if p.newton else p.curvature * W) + p.lambda_
            D = leaf_denominator(&p.loss, h, G / p.gradient_scale, D)
            value = 0.0
            if W > 0.0 and D > 0.0:
                if p.renew:
                    G = -(p.gradient_scale * p.renewed[<size_t>i * p.n_outputs + k] * W)
                if p.sigma > 0.0 and k < p.loss.n_outputs:
                    G += p.sigma * p.leaf_noise[k] * sqrt(D * metric) * skb_normal(
                        skb_key(p.seed, STREAM_LEAF, p.iteration, k), i)
                value = -G / D
            if s.scan.bounded:  # no step is a step too: 0 may lie outside
                value = max(s.nodes[p.leaves[i]].bounds[0], min(s.nodes[p.leaves[i]].bounds[1], value))
            p.leaf_value[<size_t>i * p.n_outputs + k] = p.learning_rate * value


cdef void update_pass(tree_t *s, step_t *p, int t) noexcept nogil:
    cdef size_t segment
    cdef int i, k
    for i in range(p.n_leaves):
        segment = <size_t>p.leaves[i] * s.n_threads + t
        for k in range(p.n_outputs):
            skb_add_value(s.index + s.seg_start[segment], s.seg_size[segment],
                          p.leaf_value[<size_t>i * p.n_outputs + k], p.score + k * s.n_rows)
