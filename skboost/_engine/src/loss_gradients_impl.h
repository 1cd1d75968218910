/* Gradients of the losses for outputs of type SKB_REAL; losses_impl.h includes this file for float and for double.
 *
 * All arithmetic is double. SKB_GRAD(name) names the function of the output type.
 */

static SKB_TARGET void SKB_GRAD(skb_squared_gradients)(
    SKB_ROWS, double base, SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    /* A common shift of y and base cancels before the score is added. */
    for (ptrdiff_t i = 0; i < n; i++)
        grad[i] = (SKB_REAL)((base - y[i]) + score[i]);
    if (hess)
        for (ptrdiff_t i = 0; i < n; i++)
            hess[i] = 1;
}

static SKB_TARGET void SKB_GRAD(skb_poisson_gradients)(
    SKB_ROWS, double base, SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    if (hess) {
        for (ptrdiff_t i = 0; i < n; i++) {
            double mu = SKB_FN(skb_exp)(SKB_FN(skb_clamp)(base + score[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX));
            grad[i] = (SKB_REAL)(mu - y[i]);
            hess[i] = (SKB_REAL)mu;
        }
    } else {
        for (ptrdiff_t i = 0; i < n; i++) {
            double mu = SKB_FN(skb_exp)(SKB_FN(skb_clamp)(base + score[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX));
            grad[i] = (SKB_REAL)(mu - y[i]);
        }
    }
}

static SKB_TARGET void SKB_GRAD(skb_gamma_gradients)(
    SKB_ROWS, double base, SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    if (hess) {
        for (ptrdiff_t i = 0; i < n; i++) {
            double f = SKB_FN(skb_clamp)(base + score[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
            double q = y[i] * SKB_FN(skb_exp)(-f);
            grad[i] = (SKB_REAL)(1.0 - q);
            hess[i] = (SKB_REAL)q;
        }
    } else {
        for (ptrdiff_t i = 0; i < n; i++) {
            double f = SKB_FN(skb_clamp)(base + score[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
            double q = y[i] * SKB_FN(skb_exp)(-f);
            grad[i] = (SKB_REAL)(1.0 - q);
        }
    }
}

static SKB_TARGET void SKB_GRAD(skb_tweedie_gradients)(
    SKB_ROWS, double base, double power, SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    double a = 1.0 - power, b = 2.0 - power;
    if (hess) {
        for (ptrdiff_t i = 0; i < n; i++) {
            double f = SKB_FN(skb_clamp)(base + score[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
            double own = y[i] * SKB_FN(skb_exp)(a * f), mean = SKB_FN(skb_exp)(b * f);
            grad[i] = (SKB_REAL)(mean - own);
            hess[i] = (SKB_REAL)(b * mean - a * own);
        }
    } else {
        for (ptrdiff_t i = 0; i < n; i++) {
            double f = SKB_FN(skb_clamp)(base + score[i], -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
            grad[i] = (SKB_REAL)(SKB_FN(skb_exp)(b * f) - y[i] * SKB_FN(skb_exp)(a * f));
        }
    }
}

/* p - y = ((1 - y) u - y d) / (1 + t) with t = exp(-|f|) and (u, d) = (1, t) or (t, 1): nothing cancels for y in
 * {0, 1}, and swapping the labels negates the gradient exactly. */
static SKB_TARGET void SKB_GRAD(skb_binary_gradients)(
    SKB_ROWS, double base, SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    if (hess) {
        for (ptrdiff_t i = 0; i < n; i++) {
            double f = base + score[i], t = SKB_FN(skb_exp)(f < 0.0 ? f : -f), q = 1.0 / (1.0 + t);
            double up = f < 0.0 ? t : 1.0, down = f < 0.0 ? 1.0 : t;
            grad[i] = (SKB_REAL)(((1.0 - y[i]) * up - y[i] * down) * q);
            hess[i] = (SKB_REAL)((t * q) * q);
        }
    } else {
        for (ptrdiff_t i = 0; i < n; i++) {
            double f = base + score[i], t = SKB_FN(skb_exp)(f < 0.0 ? f : -f), q = 1.0 / (1.0 + t);
            double up = f < 0.0 ? t : 1.0, down = f < 0.0 ? 1.0 : t;
            grad[i] = (SKB_REAL)(((1.0 - y[i]) * up - y[i] * down) * q);
        }
    }
}

static SKB_TARGET void SKB_GRAD(skb_tile_class)(
    ptrdiff_t n, const double *restrict y, double label, const double *restrict e, const double *restrict inverse,
    SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    if (hess) {
        for (ptrdiff_t i = 0; i < n; i++) {
            double p = e[i] * inverse[i];
            grad[i] = (SKB_REAL)(p - (y[i] == label ? 1.0 : 0.0));
            hess[i] = (SKB_REAL)(p * (1.0 - p));
        }
    } else {
        for (ptrdiff_t i = 0; i < n; i++)
            grad[i] = (SKB_REAL)(e[i] * inverse[i] - (y[i] == label ? 1.0 : 0.0));
    }
}

static SKB_TARGET void SKB_GRAD(skb_multinomial_gradients)(
    SKB_ROWS, int n_outputs, SKB_OUTPUTS, SKB_REAL *restrict grad, SKB_REAL *restrict hess, ptrdiff_t grad_stride)
{
    double kept[SKB_KEPT * SKB_TILE], again[SKB_TILE], top[SKB_TILE], sum[SKB_TILE];
    for (ptrdiff_t start = 0; start < n; start += SKB_TILE) {
        ptrdiff_t m = n - start < SKB_TILE ? n - start : SKB_TILE;
        const double *s = score + start;
        SKB_FN(skb_tile_max)(m, n_outputs, s, score_stride, base, top);
        for (ptrdiff_t i = 0; i < m; i++)
            sum[i] = 0.0;
        for (int k = 0; k < n_outputs; k++) {
            double *e = k < SKB_KEPT ? kept + k * SKB_TILE : again;
            SKB_FN(skb_tile_exp)(m, s + k * score_stride, base[k], top, e);
            for (ptrdiff_t i = 0; i < m; i++)
                sum[i] += e[i];
        }
        for (ptrdiff_t i = 0; i < m; i++)
            sum[i] = 1.0 / sum[i];
        for (int k = 0; k < n_outputs; k++) {
            double *e = k < SKB_KEPT ? kept + k * SKB_TILE : again;
            ptrdiff_t at = k * grad_stride + start;
            if (k >= SKB_KEPT)
                SKB_FN(skb_tile_exp)(m, s + k * score_stride, base[k], top, e);
            SKB_GRAD(skb_tile_class)(m, y + start, (double)k, e, sum, grad + at, hess ? hess + at : NULL);
        }
    }
}

/* Plain gradient and Fisher information. */
static SKB_TARGET void SKB_GRAD(skb_gaussian_gradients)(
    SKB_ROWS, const double *restrict log_sd, const double *restrict base, SKB_REAL *restrict grad0,
    SKB_REAL *restrict grad1, SKB_REAL *restrict hess0, SKB_REAL *restrict hess1)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (b0 - y[i]) + score[i];
        double v = SKB_FN(skb_clamp)(b1 + log_sd[i], -SKB_LOG_SD_MAX, SKB_LOG_SD_MAX);
        double precision = SKB_FN(skb_exp)(-2.0 * v);
        grad0[i] = (SKB_REAL)SKB_FN(skb_clamp)(r * precision, -SKB_FLOAT_SAFE, SKB_FLOAT_SAFE);
        grad1[i] = (SKB_REAL)SKB_FN(skb_clamp)(1.0 - (r * r) * precision, -SKB_FLOAT_SAFE, SKB_FLOAT_SAFE);
        hess0[i] = (SKB_REAL)precision;
    }
    for (ptrdiff_t i = 0; i < n; i++)
        hess1[i] = 2;
}

/* Natural gradient F^-1 g and the Fisher diagonal F. */
static SKB_TARGET void SKB_GRAD(skb_gaussian_natural)(
    SKB_ROWS, const double *restrict log_sd, const double *restrict base, SKB_REAL *restrict grad0,
    SKB_REAL *restrict grad1, SKB_REAL *restrict hess0, SKB_REAL *restrict hess1)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (b0 - y[i]) + score[i];
        double v = SKB_FN(skb_clamp)(b1 + log_sd[i], -SKB_LOG_SD_MAX, SKB_LOG_SD_MAX);
        double precision = SKB_FN(skb_exp)(-2.0 * v);
        double g = 0.5 - 0.5 * ((r * r) * precision);
        grad0[i] = (SKB_REAL)SKB_FN(skb_clamp)(r, -SKB_FLOAT_SAFE, SKB_FLOAT_SAFE);
        grad1[i] = (SKB_REAL)SKB_FN(skb_clamp)(g, -SKB_FLOAT_SAFE, SKB_FLOAT_SAFE);
        hess0[i] = (SKB_REAL)precision;
    }
    for (ptrdiff_t i = 0; i < n; i++)
        hess1[i] = 2;
}

#include "location_gradients_impl.h"
#include "table_gradients_impl.h"
#include "survival_gradients_impl.h"
#include "distribution_gradients_impl.h"

static SKB_TARGET void SKB_GRAD(skb_loss_gradients)(
    const skb_loss_t *loss, SKB_ROWS, SKB_OUTPUTS, int hessian, SKB_REAL *grad, SKB_REAL *hess, ptrdiff_t grad_stride)
{
    SKB_REAL *second = hessian ? hess : NULL;
    switch (loss->kind) {
    case SKB_SQUARED: SKB_GRAD(skb_squared_gradients)(n, y, score, base[0], grad, second); break;
    case SKB_POISSON: SKB_GRAD(skb_poisson_gradients)(n, y, score, base[0], grad, second); break;
    case SKB_GAMMA: SKB_GRAD(skb_gamma_gradients)(n, y, score, base[0], grad, second); break;
    case SKB_TWEEDIE: SKB_GRAD(skb_tweedie_gradients)(n, y, score, base[0], loss->param[0], grad, second); break;
    case SKB_BINARY: SKB_GRAD(skb_binary_gradients)(n, y, score, base[0], grad, second); break;
    case SKB_MULTINOMIAL:
        SKB_GRAD(skb_multinomial_gradients)
        (n, y, score, loss->n_outputs, score_stride, base, grad, second, grad_stride);
        break;
    case SKB_GAUSSIAN:
        (hessian ? SKB_GRAD(skb_gaussian_gradients) : SKB_GRAD(skb_gaussian_natural))(
            n, y, score, score + score_stride, base, grad, grad + grad_stride, hess, hess + grad_stride);
        break;
    case SKB_QUANTILE:
        for (int k = 0; k < loss->n_outputs; k++)
            SKB_GRAD(skb_quantile_gradients)
        (n, y, score + k * score_stride, base[k], loss->table[k], loss->param[0], grad + k * grad_stride,
         second ? second + k * grad_stride : NULL);
        break;
    case SKB_HUBER: SKB_GRAD(skb_huber_gradients)(n, y, score, base[0], loss->param[0], grad, second); break;
    case SKB_PSEUDO_HUBER:
        SKB_GRAD(skb_pseudo_huber_gradients)(n, y, score, base[0], loss->param[0], grad, second);
        break;
    case SKB_EXPECTILE: SKB_GRAD(skb_expectile_gradients)(n, y, score, base[0], loss->param[0], grad, second); break;
    case SKB_AFT:
        SKB_GRAD(skb_aft_gradients)
        (n, y, score, loss->table, loss->table_width, base[0], (int)loss->param[0], loss->param[1], grad, second);
        break;
    case SKB_MULTI_LABEL:
    case SKB_MULTI_SQUARED:
        SKB_GRAD(skb_table_gradients)(loss, n, y, score, score_stride, base, grad, second, grad_stride);
        break;
    case SKB_LAPLACE:
        (hessian ? SKB_GRAD(skb_laplace_gradients) : SKB_GRAD(skb_laplace_natural))(
            n, y, score, score + score_stride, base, grad, grad + grad_stride, hess, hess + grad_stride);
        break;
    case SKB_GAMMA_SHAPE:
        (hessian ? SKB_GRAD(skb_gamma_shape_gradients) : SKB_GRAD(skb_gamma_shape_natural))(
            n, y, score, score + score_stride, base, grad, grad + grad_stride, hess, hess + grad_stride);
        break;
    case SKB_NEGATIVE_BINOMIAL:
        if (hessian)
            SKB_GRAD(skb_negative_binomial_gradients)
            (n, y, score, score + score_stride, base, grad, grad + grad_stride, hess, hess + grad_stride);
        else
            SKB_GRAD(skb_negative_binomial_natural)
            (n, y, score, loss->param, score + score_stride, base, grad, grad + grad_stride, hess,
             hess + grad_stride);
        break;
    }
}
