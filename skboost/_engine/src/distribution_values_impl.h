/* Values of the distributional losses; losses_impl.h includes this file.
 *
 * Outputs on a log scale continue as straight lines beyond their clamps, with the slope that they have there.
 */

#define SKB_TWO_OUTPUTS const double *restrict second, const double *restrict base, double *restrict out

static SKB_TARGET void SKB_FN(skb_laplace_values)(SKB_ROWS, SKB_TWO_OUTPUTS)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (b0 - y[i]) + score[i], v = b1 + second[i];
        double c = SKB_FN(skb_clamp)(v, -SKB_LOG_SD_MAX, SKB_LOG_SD_MAX), z = fabs(r) * SKB_FN(skb_exp)(-c);
        out[i] = v + z * (1.0 - (v - c));
    }
}

/* -ln a / 2 + R(a) + a (q - 1 - ln q), q = y / m: the density in y less ln y and ln(2 pi) / 2. */
static SKB_TARGET void SKB_FN(skb_gamma_shape_values)(SKB_ROWS, SKB_TWO_OUTPUTS)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = b0 + score[i], v = b1 + second[i];
        double c0 = SKB_FN(skb_clamp)(f, -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
        double c1 = SKB_FN(skb_clamp)(v, -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
        double a = SKB_FN(skb_exp)(c1), q = SKB_FN(skb_ratio)(y[i], c0), less = SKB_FN(skb_log_less)(q - 1.0, q);
        double slope0 = a * (1.0 - q), slope1 = -a * (SKB_FN(skb_digamma_gap)(a) + less);
        double inside = (SKB_FN(skb_stirling_rest)(a) - 0.5 * c1) - a * less;
        out[i] = inside + (slope0 * (f - c0) + slope1 * (v - c1));
    }
}

/* The Poisson loss m - y ln m plus what a finite r adds, which vanishes without cancellation as r grows. */
static SKB_TARGET void SKB_FN(skb_negative_binomial_values)(SKB_ROWS, SKB_TWO_OUTPUTS)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = b0 + score[i], v = b1 + second[i];
        double c0 = SKB_FN(skb_clamp)(f, -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
        double c1 = SKB_FN(skb_clamp)(v, -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
        double m = SKB_FN(skb_exp)(c0), r = SKB_FN(skb_exp)(c1), total = r + m, more = r + y[i];
        double d = (y[i] - m) / total, w = more / total, less = SKB_FN(skb_log_less)(d, w);
        double rests = SKB_FN(skb_stirling_rest)(r) - SKB_FN(skb_stirling_rest)(more);
        double gap = SKB_FN(skb_digamma_gap)(r) - SKB_FN(skb_digamma_gap)(more);
        /* ln(1 + y / r) loses its digits where y / r is small, and counts for nothing there */
        double half = 0.5 * (SKB_FN(skb_log)(more) - c1);
        double inside = ((m - y[i] * c0) + (half + rests)) - total * (w * less + d * d);
        out[i] = inside - r * (d * (f - c0) + (gap + less) * (v - c1));
    }
}

#undef SKB_TWO_OUTPUTS
