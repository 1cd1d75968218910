/* Gradients and values of the losses, one function per loss; losses.pxd gives the formulas and the layout.
 *
 * Each function makes simple passes over rows that the compiler vectorises. Raw scores of outputs on a log scale are
 * clamped inside exp only, so that a chain that ran away finds back.
 */
#include "vmath_impl.h"

#ifndef SKB_LOSSES_SCALAR
#define SKB_LOSSES_SCALAR
#include <math.h>
#include <stddef.h>

/* As in losses.pxd. */
enum {
    SKB_SQUARED, SKB_POISSON, SKB_BINARY, SKB_MULTINOMIAL, SKB_GAUSSIAN, SKB_GAMMA, SKB_TWEEDIE,
    SKB_QUANTILE, SKB_HUBER, SKB_PSEUDO_HUBER, SKB_EXPECTILE,
    SKB_LAPLACE, SKB_GAMMA_SHAPE, SKB_NEGATIVE_BINOMIAL,
    SKB_AFT, SKB_MULTI_LABEL, SKB_MULTI_SQUARED, SKB_GIVEN
};

#define SKB_TILE 64            /* rows per pass of the multinomial loss */
#define SKB_KEPT 64            /* classes whose exponentials are kept between passes; those above are computed twice */
#define SKB_LOG_MEAN_MAX 30.0  /* |raw score| of the losses with a log link inside exp */
#define SKB_LOG_SD_MAX 20.0    /* |ln s| of the gaussian loss inside exp, in units of the standardised target */
#define SKB_ROOT_SAFE 1e150    /* bound of numbers to be squared */
#define SKB_FLOAT_SAFE 1e30    /* bound of the gaussian gradients, far from the end of float32 */

/* acc += product on 128 bits, two's complement, low word first; |a| <= 2^56, 0 <= b <= 2^38. */
static inline void skb_wide_add(uint64_t acc[2], int64_t high, uint64_t low)
{
    acc[0] += low;
    acc[1] += (uint64_t)high + (acc[0] < low);
}

static inline void skb_wide_add_product(uint64_t acc[2], int64_t a, int64_t b)
{
#if defined(__SIZEOF_INT128__) && !defined(SKB_NO_INT128)
    __int128 product = (__int128)a * b;
    skb_wide_add(acc, (int64_t)(product >> 64), (uint64_t)product);
#else
    int64_t a1 = a >> 28, a0 = a & 0xfffffff, b1 = b >> 19, b0 = b & 0x7ffff;
    skb_wide_add(acc, (a1 * b1) >> 17, (uint64_t)(a1 * b1) << 47);
    skb_wide_add(acc, (a1 * b0) >> 36, (uint64_t)(a1 * b0) << 28);
    skb_wide_add(acc, (a0 * b1) >> 45, (uint64_t)(a0 * b1) << 19);
    skb_wide_add(acc, 0, (uint64_t)(a0 * b0));
#endif
}

/* out[0:2] += sum of W V, out[2:4] += sum of W with the integers V = rint(value * value_scale) and
 * W = rint(weight * weight_scale), W = 1 without weights. Integer sums know no order. */
static void skb_fixed_sums(
    ptrdiff_t n, const double *value, const double *weight, double value_scale, double weight_scale, uint64_t out[4])
{
    uint64_t sum[2] = {out[0], out[1]}, total[2] = {out[2], out[3]};
    if (weight) {
        for (ptrdiff_t i = 0; i < n; i++) {
            int64_t w = llrint(weight[i] * weight_scale);
            if (w > 0) { /* the value of a row without weight may exceed the grid */
                skb_wide_add_product(sum, llrint(value[i] * value_scale), w);
                skb_wide_add(total, 0, (uint64_t)w);
            }
        }
    } else {
        for (ptrdiff_t i = 0; i < n; i++) {
            int64_t v = llrint(value[i] * value_scale);
            skb_wide_add(sum, v >> 63, (uint64_t)v);
        }
        skb_wide_add(total, 0, (uint64_t)n);
    }
    out[0] = sum[0], out[1] = sum[1], out[2] = total[0], out[3] = total[1];
}
#endif

#include "gamma_functions_impl.h"

/* y exp(-f), at least the smallest number whose logarithm is safe. */
static inline SKB_TARGET double SKB_FN(skb_ratio)(double y, double f)
{
    double q = y * SKB_FN(skb_exp)(-f);
    return q > 1e-300 ? q : 1e-300;
}

#define SKB_ROWS ptrdiff_t n, const double *restrict y, const double *restrict score
#define SKB_OUTPUTS ptrdiff_t score_stride, const double *restrict base

/* Row maxima of the raw scores of all outputs. */
static SKB_TARGET void SKB_FN(skb_tile_max)(
    ptrdiff_t n, int n_outputs, const double *restrict score, SKB_OUTPUTS, double *restrict top)
{
    for (ptrdiff_t i = 0; i < n; i++)
        top[i] = base[0] + score[i];
    for (int k = 1; k < n_outputs; k++) {
        const double *restrict s = score + k * score_stride;
        double b = base[k];
        for (ptrdiff_t i = 0; i < n; i++) {
            double f = b + s[i];
            top[i] = f > top[i] ? f : top[i];
        }
    }
}

static SKB_TARGET void SKB_FN(skb_tile_exp)(
    ptrdiff_t n, const double *restrict score, double base, const double *restrict top, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = SKB_FN(skb_exp)((base + score[i]) - top[i]);
}

/* Column k of the rows of the table that the targets name. */
static SKB_TARGET void SKB_FN(skb_table_column)(
    const skb_loss_t *loss, ptrdiff_t n, const double *restrict y, int k, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = loss->table[(ptrdiff_t)y[i] * loss->table_width + k];
}

#include "survival_impl.h"

#define SKB_REAL float
#define SKB_GRAD(name) SKB_FN(name)
#include "loss_gradients_impl.h"
#undef SKB_REAL
#undef SKB_GRAD

#include "gaussian_coins_impl.h"

#define SKB_REAL double
#define SKB_GRAD(name) SKB_FN(SKB_CAT(name, 64))
#include "loss_gradients_impl.h"
#undef SKB_REAL
#undef SKB_GRAD

static SKB_TARGET void SKB_FN(skb_squared_values)(SKB_ROWS, double base, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (base - y[i]) + score[i];
        out[i] = 0.5 * (r * r);
    }
}

static SKB_TARGET void SKB_FN(skb_poisson_values)(SKB_ROWS, double base, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], c = SKB_FN(skb_clamp)(f, -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
        out[i] = SKB_FN(skb_exp)(c) * (1.0 + (f - c)) - y[i] * f;
    }
}

static SKB_TARGET void SKB_FN(skb_gamma_values)(SKB_ROWS, double base, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], c = SKB_FN(skb_clamp)(f, -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX);
        out[i] = y[i] * SKB_FN(skb_exp)(-c) * (1.0 - (f - c)) + f;
    }
}

static SKB_TARGET void SKB_FN(skb_tweedie_values)(SKB_ROWS, double base, double power, double *restrict out)
{
    double a = 1.0 - power, b = 2.0 - power;
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], c = SKB_FN(skb_clamp)(f, -SKB_LOG_MEAN_MAX, SKB_LOG_MEAN_MAX), d = f - c;
        double own = y[i] * SKB_FN(skb_exp)(a * c), mean = SKB_FN(skb_exp)(b * c);
        out[i] = mean * (1.0 / b + d) - own * (1.0 / a + d);
    }
}

static SKB_TARGET void SKB_FN(skb_binary_values)(SKB_ROWS, double base, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], t = SKB_FN(skb_exp)(f < 0.0 ? f : -f);
        out[i] = ((f > 0.0 ? f : 0.0) - y[i] * f) + SKB_FN(skb_log1p_unit)(t);
    }
}

static SKB_TARGET void SKB_FN(skb_multinomial_values)(SKB_ROWS, int n_outputs, SKB_OUTPUTS, double *restrict out)
{
    double e[SKB_TILE], top[SKB_TILE], sum[SKB_TILE], own[SKB_TILE];
    for (ptrdiff_t start = 0; start < n; start += SKB_TILE) {
        ptrdiff_t m = n - start < SKB_TILE ? n - start : SKB_TILE;
        const double *restrict label = y + start;
        SKB_FN(skb_tile_max)(m, n_outputs, score + start, score_stride, base, top);
        for (ptrdiff_t i = 0; i < m; i++)
            sum[i] = own[i] = 0.0;
        for (int k = 0; k < n_outputs; k++) {
            const double *restrict s = score + k * score_stride + start;
            double b = base[k], class_label = (double)k;
            SKB_FN(skb_tile_exp)(m, s, b, top, e);
            for (ptrdiff_t i = 0; i < m; i++) {
                sum[i] += e[i];
                own[i] = label[i] == class_label ? b + s[i] : own[i];
            }
        }
        for (ptrdiff_t i = 0; i < m; i++)
            out[start + i] = (top[i] - own[i]) + SKB_FN(skb_log)(sum[i]);
    }
}

static SKB_TARGET void SKB_FN(skb_gaussian_values)(
    SKB_ROWS, const double *restrict log_sd, const double *restrict base, double *restrict out)
{
    double b0 = base[0], b1 = base[1];
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (b0 - y[i]) + score[i], v = b1 + log_sd[i];
        double c = SKB_FN(skb_clamp)(v, -SKB_LOG_SD_MAX, SKB_LOG_SD_MAX);
        out[i] = v + (0.5 * (r * r)) * SKB_FN(skb_exp)(-2.0 * c);
    }
}

#include "location_values_impl.h"
#include "table_values_impl.h"
#include "survival_values_impl.h"
#include "distribution_values_impl.h"

static SKB_TARGET void SKB_FN(skb_loss_values)(const skb_loss_t *loss, SKB_ROWS, SKB_OUTPUTS, double *out)
{
    switch (loss->kind) {
    case SKB_SQUARED: SKB_FN(skb_squared_values)(n, y, score, base[0], out); break;
    case SKB_POISSON: SKB_FN(skb_poisson_values)(n, y, score, base[0], out); break;
    case SKB_GAMMA: SKB_FN(skb_gamma_values)(n, y, score, base[0], out); break;
    case SKB_TWEEDIE: SKB_FN(skb_tweedie_values)(n, y, score, base[0], loss->param[0], out); break;
    case SKB_BINARY: SKB_FN(skb_binary_values)(n, y, score, base[0], out); break;
    case SKB_MULTINOMIAL:
        SKB_FN(skb_multinomial_values)(n, y, score, loss->n_outputs, score_stride, base, out);
        break;
    case SKB_GAUSSIAN: SKB_FN(skb_gaussian_values)(n, y, score, score + score_stride, base, out); break;
    case SKB_QUANTILE:
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = 0.0;
        for (int k = 0; k < loss->n_outputs; k++)
            SKB_FN(skb_quantile_values)(n, y, score + k * score_stride, base[k], loss->table[k], loss->param[0], out);
        break;
    case SKB_HUBER: SKB_FN(skb_huber_values)(n, y, score, base[0], loss->param[0], out); break;
    case SKB_PSEUDO_HUBER: SKB_FN(skb_pseudo_huber_values)(n, y, score, base[0], loss->param[0], out); break;
    case SKB_EXPECTILE: SKB_FN(skb_expectile_values)(n, y, score, base[0], loss->param[0], out); break;
    case SKB_AFT:
        SKB_FN(skb_aft_values)
        (n, y, score, loss->table, loss->table_width, base[0], (int)loss->param[0], loss->param[1], out);
        break;
    case SKB_MULTI_LABEL:
    case SKB_MULTI_SQUARED: SKB_FN(skb_table_values)(loss, n, y, score, score_stride, base, out); break;
    case SKB_LAPLACE: SKB_FN(skb_laplace_values)(n, y, score, score + score_stride, base, out); break;
    case SKB_GAMMA_SHAPE: SKB_FN(skb_gamma_shape_values)(n, y, score, score + score_stride, base, out); break;
    case SKB_NEGATIVE_BINOMIAL:
        SKB_FN(skb_negative_binomial_values)(n, y, score, score + score_stride, base, out);
        break;
    }
}

/* Largest |value| over rows of positive weight, and the largest weight (1 without weights). */
static SKB_TARGET void SKB_FN(skb_peaks)(
    ptrdiff_t n, const double *restrict value, const double *restrict weight, double *restrict value_peak,
    double *restrict weight_peak)
{
    double peak = *value_peak, top = *weight_peak;
    if (weight) {
        for (ptrdiff_t i = 0; i < n; i++) {
            double v = fabs(value[i]), w = weight[i];
            v = w > 0.0 ? v : 0.0;
            peak = v > peak ? v : peak;
            top = w > top ? w : top;
        }
    } else {
        top = 1.0;
        for (ptrdiff_t i = 0; i < n; i++) {
            double v = fabs(value[i]);
            peak = v > peak ? v : peak;
        }
    }
    *value_peak = peak;
    *weight_peak = top;
}

/* Elementary functions of arrays: 0 exp, 1 log, 2 log1p on [0, 1]. */
static SKB_TARGET void SKB_FN(skb_elementary)(int which, ptrdiff_t n, const double *restrict x, double *restrict out)
{
    if (which == 0)
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = SKB_FN(skb_exp)(x[i]);
    else if (which == 1)
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = SKB_FN(skb_log)(x[i]);
    else
        for (ptrdiff_t i = 0; i < n; i++)
            out[i] = SKB_FN(skb_log1p_unit)(x[i]);
}

#undef SKB_ROWS
#undef SKB_OUTPUTS
