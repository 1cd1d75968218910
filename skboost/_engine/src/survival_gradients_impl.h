/* Gradients of the accelerated failure time losses for outputs of type SKB_REAL; survival_impl.h gives the formulas. */

static SKB_TARGET void SKB_GRAD(skb_aft_logistic_gradients)(
    ptrdiff_t n, const skb_aft_tile *restrict tile, const double *restrict score, double base, double inverse,
    SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    double square = inverse * inverse;
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], l = (tile->lower[i] - f) * inverse, u = (tile->upper[i] - f) * inverse;
        double tl = SKB_FN(skb_exp)(l < 0.0 ? l : -l), tu = SKB_FN(skb_exp)(u < 0.0 ? u : -u);
        double ql = 1.0 / (1.0 + tl), qu = 1.0 / (1.0 + tu);
        double cdf = (l < 0.0 ? tl : 1.0) * ql, sf = (u < 0.0 ? 1.0 : tu) * qu;
        grad[i] = (SKB_REAL)((sf - cdf) * inverse);
        hess[i] = (SKB_REAL)(((tl * ql) * ql + (tu * qu) * qu) * square);
    }
}

/* With B = m / (e^m - 1) the first derivative is (B - e^l) / s and the second one (e^l + B (B + m - 1)) / s^2. Where m
 * is small, x = m / 2, B = exp(-x) / sinhc(x) and B + m - 1 = x coth x - 1 + x. */
static SKB_TARGET void SKB_GRAD(skb_aft_extreme_gradients)(
    ptrdiff_t n, const skb_aft_tile *restrict tile, const double *restrict score, double base, double inverse,
    SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    double square = inverse * inverse;
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], l = (tile->lower[i] - f) * inverse, u = (tile->upper[i] - f) * inverse;
        double log_m = u + tile->mass[i];
        double a = SKB_FN(skb_exp)(l > SKB_AFT_LOG_MAX ? SKB_AFT_LOG_MAX : l);
        double m = SKB_FN(skb_exp)(log_m > SKB_AFT_LOG_MAX ? SKB_AFT_LOG_MAX : log_m);
        m = tile->lower[i] < tile->upper[i] ? m : 0.0;
        int small = m < SKB_AFT_SERIES;
        double x = small ? 0.5 * m : 0.0, x2 = x * x, sinhc = 1.0 + SKB_FN(skb_sinhc_less_one)(x2);
        double e = SKB_FN(skb_exp)(small ? -x : -m);
        double b = small ? e / sinhc : m * e / (1.0 - (small ? 0.5 : e));
        double c = small ? SKB_FN(skb_cosh_less_sinhc)(x2) / sinhc + x : (b + m) - 1.0;
        grad[i] = (SKB_REAL)((b - a) * inverse);
        hess[i] = (SKB_REAL)((a + b * c) * square);
    }
}

static SKB_TARGET void SKB_GRAD(skb_aft_normal_gradients)(
    ptrdiff_t n, const skb_aft_tile *restrict tile, const double *restrict score, double base, double inverse,
    SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    double square = inverse * inverse;
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], l = (tile->lower[i] - f) * inverse, u = (tile->upper[i] - f) * inverse;
        int right = tile->upper[i] > SKB_AFT_FAR, event = tile->lower[i] == tile->upper[i];
        double y = right ? l : -u, size = y < 0.0 ? -y : y, mills = SKB_FN(skb_mills)(size);
        double pdf = SKB_ROOT_2PI_INVERSE * SKB_FN(skb_exp)(-0.5 * (size * size));
        double hazard = y < 0.0 ? pdf / (1.0 - pdf * mills) : 1.0 / mills;
        double curvature = y > SKB_AFT_NORMAL_MAX ? 1.0 : SKB_FN(skb_clamp)(hazard * (hazard - y), 0.0, 1.0);
        double g = event ? -u : (right ? -hazard : hazard);
        grad[i] = (SKB_REAL)SKB_FN(skb_clamp)(g * inverse, -SKB_FLOAT_SAFE, SKB_FLOAT_SAFE);
        hess[i] = (SKB_REAL)((event ? 1.0 : curvature) * square);
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        if (!skb_aft_is_interval(tile->lower[i], tile->upper[i]))
            continue;
        double f = base + score[i], l = (tile->lower[i] - f) * inverse, u = (tile->upper[i] - f) * inverse, out[3];
        SKB_FN(skb_normal_interval)(0.5 * (l + u), (tile->upper[i] - tile->lower[i]) * inverse, out);
        grad[i] = (SKB_REAL)SKB_FN(skb_clamp)(-out[0] * inverse, -SKB_FLOAT_SAFE, SKB_FLOAT_SAFE);
        hess[i] = (SKB_REAL)(out[1] * square);
    }
}

static SKB_TARGET void SKB_GRAD(skb_aft_gradients)(
    SKB_ROWS, const double *table, int width, double base, int distribution, double scale, SKB_REAL *restrict grad,
    SKB_REAL *restrict hess)
{
    skb_aft_tile tile;
    SKB_REAL unused[SKB_AFT_TILE];
    double inverse = 1.0 / scale;
    for (ptrdiff_t start = 0; start < n; start += SKB_AFT_TILE) {
        ptrdiff_t m = n - start < SKB_AFT_TILE ? n - start : SKB_AFT_TILE;
        SKB_REAL *second = hess ? hess + start : unused;
        skb_aft_gather(m, y + start, table, width, &tile);
        switch (distribution) {
        case SKB_NORMAL:
            SKB_GRAD(skb_aft_normal_gradients)(m, &tile, score + start, base, inverse, grad + start, second);
            break;
        case SKB_LOGISTIC:
            SKB_GRAD(skb_aft_logistic_gradients)(m, &tile, score + start, base, inverse, grad + start, second);
            break;
        case SKB_EXTREME:
            SKB_GRAD(skb_aft_extreme_gradients)(m, &tile, score + start, base, inverse, grad + start, second);
            break;
        }
    }
}
