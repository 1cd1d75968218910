/* Gradients of the distributional losses for outputs of type SKB_REAL; loss_gradients_impl.h includes this file.
 *
 * Functions with `natural` write the gradient over the metric and the metric: the Fisher information of the row, or a
 * floor where it is larger. The others write the plain gradient and the Fisher information.
 */

/* What a row adds to its outputs' gradients, and its metrics. */
#define SKB_PUT(k, g, metric) \
    do { \
        grad##k[i] = (SKB_REAL)SKB_FN(skb_clamp)(g, -SKB_FLOAT_SAFE, SKB_FLOAT_SAFE); \
        hess##k[i] = (SKB_REAL)(metric); \
    } while (0)

#define SKB_TWO_OUTPUTS \
    const double *restrict second, const double *restrict base, SKB_REAL *restrict grad0, SKB_REAL *restrict grad1, \
        SKB_REAL *restrict hess0, SKB_REAL *restrict hess1

static SKB_TARGET void SKB_GRAD(skb_laplace_gradients)(SKB_ROWS, SKB_TWO_OUTPUTS)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (b0 - y[i]) + score[i];
        double inverse = SKB_FN(skb_exp)(-SKB_FN(skb_clamp)(b1 + second[i], -SKB_LOG_SD_MAX, SKB_LOG_SD_MAX));
        double sign = (r > 0.0 ? 1.0 : 0.0) - (r < 0.0 ? 1.0 : 0.0);
        SKB_PUT(0, sign * inverse, inverse * inverse);
        SKB_PUT(1, 1.0 - fabs(r) * inverse, 1.0);
    }
}

static SKB_TARGET void SKB_GRAD(skb_laplace_natural)(SKB_ROWS, SKB_TWO_OUTPUTS)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (b0 - y[i]) + score[i];
        double v = SKB_FN(skb_clamp)(b1 + second[i], -SKB_LOG_SD_MAX, SKB_LOG_SD_MAX);
        double inverse = SKB_FN(skb_exp)(-v), sign = (r > 0.0 ? 1.0 : 0.0) - (r < 0.0 ? 1.0 : 0.0);
        SKB_PUT(0, sign * SKB_FN(skb_exp)(v), inverse * inverse);
        SKB_PUT(1, 1.0 - fabs(r) * inverse, 1.0);
    }
}

static SKB_TARGET void SKB_GRAD(skb_gamma_shape_gradients)(SKB_ROWS, SKB_TWO_OUTPUTS)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = SKB_FN(skb_clamp)(b0 + score[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
        double a = SKB_FN(skb_exp)(SKB_FN(skb_clamp)(b1 + second[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX));
        double q = SKB_FN(skb_ratio)(y[i], f), gap = SKB_FN(skb_digamma_gap)(a);
        SKB_PUT(0, a * (1.0 - q), a);
        SKB_PUT(1, -a * (gap + SKB_FN(skb_log_less)(q - 1.0, q)), SKB_FN(skb_shape_information)(a));
    }
}

static SKB_TARGET void SKB_GRAD(skb_gamma_shape_natural)(SKB_ROWS, SKB_TWO_OUTPUTS)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = SKB_FN(skb_clamp)(b0 + score[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
        double a = SKB_FN(skb_exp)(SKB_FN(skb_clamp)(b1 + second[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX));
        double q = SKB_FN(skb_ratio)(y[i], f), gap = SKB_FN(skb_digamma_gap)(a);
        double metric = SKB_FN(skb_shape_information)(a);
        SKB_PUT(0, 1.0 - q, a);
        SKB_PUT(1, -a * (gap + SKB_FN(skb_log_less)(q - 1.0, q)) / metric, metric);
    }
}

static SKB_TARGET void SKB_GRAD(skb_negative_binomial_gradients)(SKB_ROWS, SKB_TWO_OUTPUTS)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double m = SKB_FN(skb_exp)(SKB_FN(skb_clamp)(b0 + score[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX));
        double r = SKB_FN(skb_exp)(SKB_FN(skb_clamp)(b1 + second[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX));
        double share = 1.0 / (r + m), d = (y[i] - m) * share, w = (y[i] + r) * share;
        double gap = SKB_FN(skb_digamma_gap)(r) - SKB_FN(skb_digamma_gap)(r + y[i]);
        SKB_PUT(0, -r * d, r * (m * share));
        SKB_PUT(1, -r * (gap + SKB_FN(skb_log_less)(d, w)), SKB_FN(skb_size_information)(r, m * share, r * share));
    }
}

static SKB_TARGET void SKB_GRAD(skb_negative_binomial_natural)(
    SKB_ROWS, const double *restrict floors, SKB_TWO_OUTPUTS)
{
    double b0 = base[0], b1 = base[1], floor0 = floors[0], floor1 = floors[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double m = SKB_FN(skb_exp)(SKB_FN(skb_clamp)(b0 + score[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX));
        double r = SKB_FN(skb_exp)(SKB_FN(skb_clamp)(b1 + second[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX));
        double share = 1.0 / (r + m), d = (y[i] - m) * share, w = (y[i] + r) * share;
        double gap = SKB_FN(skb_digamma_gap)(r) - SKB_FN(skb_digamma_gap)(r + y[i]);
        double metric0 = r * (m * share), metric1 = SKB_FN(skb_size_information)(r, m * share, r * share);
        metric0 = metric0 > floor0 ? metric0 : floor0;
        metric1 = metric1 > floor1 ? metric1 : floor1;
        SKB_PUT(0, -r * d / metric0, metric0);
        SKB_PUT(1, -r * (gap + SKB_FN(skb_log_less)(d, w)) / metric1, metric1);
    }
}

#undef SKB_PUT
#undef SKB_TWO_OUTPUTS
