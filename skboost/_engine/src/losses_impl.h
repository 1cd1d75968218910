/* Gradients and values of the losses, one function per loss; see losses.pxd for the meaning of the arrays. */
#include "vmath_impl.h"
#include <math.h>

#define SKB_TILE 64
#define SKB_KEEP 128

static SKB_TARGET void SKB_FN(skb_squared_gradients)(
    ptrdiff_t n, const double *restrict y, const double *restrict score, double base, int hessian, float *restrict grad,
    float *restrict hess)
{
    for (ptrdiff_t i = 0; i < n; i++)
        grad[i] = (float)((base - y[i]) + score[i]);
    if (hessian)
        for (ptrdiff_t i = 0; i < n; i++)
            hess[i] = 1.0f;
}

static SKB_TARGET void SKB_FN(skb_poisson_gradients)(
    ptrdiff_t n, const double *restrict y, const double *restrict score, double base, int hessian, float *restrict grad,
    float *restrict hess)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double mu = SKB_FN(skb_exp)(SKB_FN(skb_clamp)(base + score[i], -30.0, 30.0));
        grad[i] = (float)(mu - y[i]);
        if (hessian)
            hess[i] = (float)mu;
    }
}

static SKB_TARGET void SKB_FN(skb_binary_gradients)(
    ptrdiff_t n, const double *restrict y, const double *restrict score, double base, int hessian, float *restrict grad,
    float *restrict hess)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base + score[i], t = SKB_FN(skb_exp)(f < 0 ? f : -f), q = 1.0 / (1.0 + t);
        double up = f < 0 ? t : 1.0, down = f < 0 ? 1.0 : t;
        grad[i] = (float)(((1.0 - y[i]) * up - y[i] * down) * q);
        if (hessian)
            hess[i] = (float)((t * q) * q);
    }
}

static SKB_TARGET void SKB_FN(skb_multinomial_gradients)(
    ptrdiff_t n, int n_outputs, const double *restrict y, const double *restrict score, ptrdiff_t score_stride,
    const double *restrict base, int hessian, float *restrict grad, float *restrict hess, ptrdiff_t grad_stride)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double top = base[0] + score[i], sum = 0.0;
        for (int k = 1; k < n_outputs; k++) {
            double f = base[k] + score[k * score_stride + i];
            top = f > top ? f : top;
        }
        for (int k = 0; k < n_outputs; k++)
            sum += SKB_FN(skb_exp)(base[k] + score[k * score_stride + i] - top);
        for (int k = 0; k < n_outputs; k++) {
            double p = SKB_FN(skb_exp)(base[k] + score[k * score_stride + i] - top) / sum;
            grad[k * grad_stride + i] = (float)(p - (y[i] == (double)k ? 1.0 : 0.0));
            if (hessian)
                hess[k * grad_stride + i] = (float)(p * (1.0 - p));
        }
    }
}

static SKB_TARGET void SKB_FN(skb_gaussian_gradients)(
    ptrdiff_t n, const double *restrict y, const double *restrict score, ptrdiff_t score_stride,
    const double *restrict base, int hessian, float *restrict grad, float *restrict hess, ptrdiff_t grad_stride)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (base[0] - y[i]) + score[i];
        double v = SKB_FN(skb_clamp)(base[1] + score[score_stride + i], -20.0, 20.0);
        double precision = SKB_FN(skb_exp)(-2.0 * v), z = 1.0 - (r * r) * precision;
        grad[i] = (float)(hessian ? r * precision : r);
        hess[i] = (float)(hessian ? precision : 1.0 / precision);
        grad[grad_stride + i] = (float)(hessian ? z : 0.5 * z);
        hess[grad_stride + i] = hessian ? 2.0f : 0.5f;
    }
}

static SKB_TARGET void SKB_FN(skb_loss_gradients)(
    const skb_loss_t *loss, ptrdiff_t n, const double *y, const double *score, ptrdiff_t score_stride,
    const double *base, int hessian, float *grad, float *hess, ptrdiff_t grad_stride)
{
    switch (loss->kind) {
    case 0: SKB_FN(skb_squared_gradients)(n, y, score, base[0], hessian, grad, hess); break;
    case 1: SKB_FN(skb_poisson_gradients)(n, y, score, base[0], hessian, grad, hess); break;
    case 2: SKB_FN(skb_binary_gradients)(n, y, score, base[0], hessian, grad, hess); break;
    case 3:
        SKB_FN(skb_multinomial_gradients)
        (n, loss->n_outputs, y, score, score_stride, base, hessian, grad, hess, grad_stride);
        break;
    case 4: SKB_FN(skb_gaussian_gradients)(n, y, score, score_stride, base, hessian, grad, hess, grad_stride); break;
    }
}

static SKB_TARGET void SKB_FN(skb_loss_values)(
    const skb_loss_t *loss, ptrdiff_t n, const double *y, const double *score, ptrdiff_t score_stride,
    const double *base, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double f = base[0] + score[i];
        if (loss->kind == 0) {
            f = (base[0] - y[i]) + score[i];
            out[i] = 0.5 * (f * f);
        } else if (loss->kind == 1) {
            out[i] = SKB_FN(skb_exp)(f) - y[i] * f;
        } else if (loss->kind == 2) {
            out[i] = ((f > 0 ? f : 0.0) - y[i] * f) + log1p(SKB_FN(skb_exp)(f < 0 ? f : -f));
        } else if (loss->kind == 3) {
            double top = f, sum = 0.0;
            for (int k = 1; k < loss->n_outputs; k++) {
                double g = base[k] + score[k * score_stride + i];
                top = g > top ? g : top;
            }
            for (int k = 0; k < loss->n_outputs; k++)
                sum += SKB_FN(skb_exp)(base[k] + score[k * score_stride + i] - top);
            ptrdiff_t c = (ptrdiff_t)y[i];
            out[i] = (top - (base[c] + score[c * score_stride + i])) + log(sum);
        } else {
            double r = (base[0] - y[i]) + score[i], v = base[1] + score[score_stride + i];
            out[i] = v + 0.5 * (r * r) * SKB_FN(skb_exp)(-2.0 * v);
        }
    }
}
#undef SKB_TILE
#undef SKB_KEEP
