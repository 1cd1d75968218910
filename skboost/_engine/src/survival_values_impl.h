/* Values of the accelerated failure time losses: minus log likelihoods of times; survival_impl.h gives the formulas. */

static inline SKB_TARGET double SKB_FN(skb_softplus)(double x)
{
    return (x > 0.0 ? x : 0.0) + SKB_FN(skb_log1p_unit)(SKB_FN(skb_exp)(x < 0.0 ? x : -x));
}

static SKB_TARGET void SKB_FN(skb_aft_logistic_values)(
    ptrdiff_t n, const skb_aft_tile *restrict tile, const double *restrict score, double base, double inverse,
    double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], l = (tile->lower[i] - f) * inverse, u = (tile->upper[i] - f) * inverse;
        out[i] = (SKB_FN(skb_softplus)(-u) + SKB_FN(skb_softplus)(l)) - tile->mass[i];
    }
}

static SKB_TARGET void SKB_FN(skb_aft_extreme_values)(
    ptrdiff_t n, const skb_aft_tile *restrict tile, const double *restrict score, double base, double inverse,
    double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], l = (tile->lower[i] - f) * inverse, u = (tile->upper[i] - f) * inverse;
        double log_m = u + tile->mass[i], top = l > SKB_AFT_LOG_MAX ? SKB_AFT_LOG_MAX : l;
        double a = SKB_FN(skb_exp)(top) * (1.0 + (l - top));
        double m = SKB_FN(skb_exp)(log_m > SKB_AFT_LOG_MAX ? SKB_AFT_LOG_MAX : log_m);
        int event = tile->lower[i] == tile->upper[i], small = m < SKB_AFT_SERIES;
        /* -log(1 - exp(-m)) = -log m + x - log sinhc(x) with x = m / 2; events are the limit m = 0 */
        double x = small && !event ? 0.5 * m : 0.0, sinhc = SKB_FN(skb_sinhc_less_one)(x * x);
        double few = (x - log_m) - SKB_FN(skb_log1p_unit)(sinhc);
        double many = -SKB_FN(skb_log)(1.0 - SKB_FN(skb_exp)(small ? -1.0 : -m));
        out[i] = a + (event || small ? few : many);
    }
}

static SKB_TARGET void SKB_FN(skb_aft_normal_values)(
    ptrdiff_t n, const skb_aft_tile *restrict tile, const double *restrict score, double base, double inverse,
    double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], l = (tile->lower[i] - f) * inverse, u = (tile->upper[i] - f) * inverse;
        int right = tile->upper[i] > SKB_AFT_FAR, event = tile->lower[i] == tile->upper[i];
        double y = right ? l : -u, size = y < 0.0 ? -y : y, mills = SKB_FN(skb_mills)(size);
        double half = 0.5 * (size * size), bell = half + SKB_HALF_LOG_2PI;
        double pdf = SKB_ROOT_2PI_INVERSE * SKB_FN(skb_exp)(-half);
        double tail = -SKB_FN(skb_log)(y < 0.0 ? 1.0 - pdf * mills : mills);
        out[i] = event ? bell - tile->mass[i] : (y < 0.0 ? tail : tail + bell);
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        if (!skb_aft_is_interval(tile->lower[i], tile->upper[i]))
            continue;
        double f = base + score[i], l = (tile->lower[i] - f) * inverse, u = (tile->upper[i] - f) * inverse, found[3];
        SKB_FN(skb_normal_interval)(0.5 * (l + u), (tile->upper[i] - tile->lower[i]) * inverse, found);
        out[i] = found[2];
    }
}

static SKB_TARGET void SKB_FN(skb_aft_values)(
    SKB_ROWS, const double *table, int width, double base, int distribution, double scale, double *out)
{
    skb_aft_tile tile;
    double inverse = 1.0 / scale;
    for (ptrdiff_t start = 0; start < n; start += SKB_AFT_TILE) {
        ptrdiff_t m = n - start < SKB_AFT_TILE ? n - start : SKB_AFT_TILE;
        skb_aft_gather(m, y + start, table, width, &tile);
        switch (distribution) {
        case SKB_NORMAL: SKB_FN(skb_aft_normal_values)(m, &tile, score + start, base, inverse, out + start); break;
        case SKB_LOGISTIC: SKB_FN(skb_aft_logistic_values)(m, &tile, score + start, base, inverse, out + start); break;
        case SKB_EXTREME: SKB_FN(skb_aft_extreme_values)(m, &tile, score + start, base, inverse, out + start); break;
        }
    }
}
