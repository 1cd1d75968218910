/* Vector loops of the numeric split search: prefix sums in integers, scores in double, one division per candidate. */

static SKB_TARGET void SKB_FN(skb_prefix)(const int64_t *hist, int words, int n, int64_t *restrict out)
{
    int64_t s = 0;
    for (int b = 0; b < n; b++) {
        s += hist[(size_t)b * words];
        out[b] = s;
    }
}

static SKB_TARGET void SKB_FN(skb_scores_one)(const int64_t *restrict prefix, int n, int64_t add, int64_t total,
                                              int32_t min_low, double gu, double hu, double lambda,
                                              double *restrict out)
{
    int32_t tlo = skb_lo(total), thi = skb_hi(total);
    for (int b = 0; b < n; b++) {
        int64_t v = prefix[b] + add;
        int32_t lo = (int32_t)v, hi = (int32_t)((v - lo) >> 32);
        int32_t rlo = tlo - lo;
        double gl = hi * gu, gr = (thi - hi) * gu;
        double dl = lo * hu + lambda, dr = rlo * hu + lambda;
        double s = (gl * gl * dr + gr * gr * dl) / (dl * dr);
        int ok = (lo >= min_low) & (rlo >= min_low);
        out[b] = ok ? s : SKB_INVALID;
    }
}

static SKB_TARGET void SKB_FN(skb_low_sides)(const int64_t *restrict prefix, int n, int64_t add, int64_t total,
                                             double hu, double lambda, double *restrict dl, double *restrict dr)
{
    int32_t tlo = skb_lo(total);
    for (int b = 0; b < n; b++) {
        int32_t lo = (int32_t)(prefix[b] + add);
        double l = lo * hu + lambda, r = (tlo - lo) * hu + lambda;
        dl[b] = l > 0.0 ? l : SKB_NO_STEP;
        dr[b] = r > 0.0 ? r : SKB_NO_STEP;
    }
}

static SKB_TARGET void SKB_FN(skb_add_scores)(const int64_t *restrict prefix, int n, int64_t add, int64_t total,
                                              int half, double gu, const double *restrict dl,
                                              const double *restrict dr, double *restrict out)
{
    int32_t tg = half ? skb_lo(total) : skb_hi(total);
    for (int b = 0; b < n; b++) {
        int64_t v = prefix[b] + add;
        int32_t lo = (int32_t)v, hi = (int32_t)((v - lo) >> 32);
        int32_t g = half ? lo : hi;
        double gl = g * gu, gr = (tg - g) * gu;
        out[b] += (gl * gl * dr[b] + gr * gr * dl[b]) / (dl[b] * dr[b]);
    }
}

static SKB_TARGET void SKB_FN(skb_mask_low)(const int64_t *restrict prefix, int n, int64_t add, int64_t total,
                                            int32_t min_low, double *restrict out)
{
    int32_t tlo = skb_lo(total);
    for (int b = 0; b < n; b++) {
        int32_t lo = (int32_t)(prefix[b] + add), rlo = tlo - lo;
        int ok = (lo >= min_low) & (rlo >= min_low);
        out[b] = ok ? out[b] : SKB_INVALID;
    }
}

static SKB_TARGET void SKB_FN(skb_mask_mass)(const skb_scan_t *c, const int64_t *values, int n, const int64_t *add,
                                             const int64_t *total, double *out)
{
    int64_t left = skb_mass(c, add), all = skb_mass(c, total);
    for (int b = 0; b < n; b++) {
        left += skb_mass(c, values + (size_t)b * c->n_words);
        if (left < 1 || all - left < 1)
            out[b] = SKB_INVALID;
    }
}

static SKB_TARGET double SKB_FN(skb_max)(const double *a, int n)
{
    double m = SKB_INVALID;
    for (int b = 0; b < n; b++)
        m = a[b] > m ? a[b] : m;
    return m;
}

/* Scores of the candidates "bins 1..b left" for one missing direction (add = the missing entry or zeros). */
static SKB_TARGET void SKB_FN(skb_scan_side)(const skb_scan_t *c, const int64_t *values, int n, const int64_t *add,
                                             const int64_t *total, double *out)
{
    int64_t prefix[SKB_BINS];
    double dl[SKB_BINS], dr[SKB_BINS];
    int32_t least = c->direct ? c->min_low : 1;
    SKB_FN(skb_prefix)(values, c->n_words, n, prefix);
    if (c->n_outputs == 1) {
        SKB_FN(skb_scores_one)(prefix, n, add[0], total[0], least, c->g_unit[0], c->h_unit[0], c->lambda, out);
        return;
    }
    for (int b = 0; b < n; b++)
        out[b] = 0.0;
    SKB_FN(skb_low_sides)(prefix, n, add[0], total[0], c->h_unit[0], c->lambda, dl, dr);
    SKB_FN(skb_add_scores)(prefix, n, add[0], total[0], 0, c->g_unit[0], dl, dr, out);
    for (int w = 1; w < c->n_words; w++) {
        SKB_FN(skb_prefix)(values + w, c->n_words, n, prefix);
        if (c->newton) {
            SKB_FN(skb_low_sides)(prefix, n, add[w], total[w], c->h_unit[w], c->lambda, dl, dr);
            SKB_FN(skb_add_scores)(prefix, n, add[w], total[w], 0, c->g_unit[w], dl, dr, out);
        } else {
            SKB_FN(skb_add_scores)(prefix, n, add[w], total[w], 0, c->g_unit[2 * w - 1], dl, dr, out);
            if (2 * w < c->n_outputs)
                SKB_FN(skb_add_scores)(prefix, n, add[w], total[w], 1, c->g_unit[2 * w], dl, dr, out);
        }
    }
    if (c->newton) {
        SKB_FN(skb_mask_mass)(c, values, n, add, total, out);
        return;
    }
    SKB_FN(skb_prefix)(values, c->n_words, n, prefix);
    SKB_FN(skb_mask_low)(prefix, n, add[0], total[0], least, out);
}

/* Add to the sums of a level what a node would gain by each candidate: nothing where it is not to be had (a node may stay
 * whole), and, where the leaf minimum is not proven (certain NULL: proven everywhere), no loss. */
static SKB_TARGET void SKB_FN(skb_add_gains)(double *restrict sums, const double *restrict scores, int n, double before,
                                             const uint8_t *restrict certain)
{
    if (!certain) {
        for (int b = 0; b < n; b++)
            sums[b] += scores[b] > SKB_INVALID ? scores[b] - before : 0.0;
        return;
    }
    for (int b = 0; b < n; b++) {
        double gain = scores[b] > SKB_INVALID ? scores[b] - before : 0.0;
        sums[b] += certain[b] || gain > 0.0 ? gain : 0.0;
    }
}
