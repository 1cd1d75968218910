/* Log losses of rows that keep exponentials of their scores: two classes exp(-f), more of them exp(f - t) of every class
 * with any t of the row. A step multiplies them, which saves an exponential per row, class and step; a hundred thousand
 * steps cost some 1e-14 of relative error. Kept values stay within SKB_ODDS_MIN and SKB_ODDS_MAX, so that none is stuck
 * at 0: scores beyond 690 are held there, where gradients are 0 or 1 to the last digit. Part of row_state_impl.h.
 */
#include "vmath_impl.h"

#ifndef SKB_ODDS_SCALAR
#define SKB_ODDS_SCALAR
#define SKB_ODDS_MIN 1e-300
#define SKB_ODDS_MAX 1e300

static inline double skb_odds(double x)
{
    x = x < SKB_ODDS_MIN ? SKB_ODDS_MIN : x;
    return x > SKB_ODDS_MAX ? SKB_ODDS_MAX : x;
}
#define SKB_ODDS8(x) SKB_MIN8(SKB_MAX8(x, least), most)
#endif

/* out = exp(sign x), which may be in place */
static SKB_TARGET void SKB_FN(skb_exp_all)(ptrdiff_t n, double sign, const double *x, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] = SKB_FN(skb_exp)(sign * x[i]);
}

static inline SKB_TARGET __attribute__((always_inline)) void SKB_FN(skb_scale_cuts)(
    int n_cuts, ptrdiff_t n, const uint16_t *restrict code, const skb_row_step_t *step, double *restrict x)
{
    SKB_X8 least = SKB_SET8(SKB_ODDS_MIN), most = SKB_SET8(SKB_ODDS_MAX);
    SKB_STEP8(step);
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8)
        SKB_STORE8(x + i, SKB_ODDS8(SKB_MUL8(SKB_LOAD8(x + i), SKB_STEP_OF8(n_cuts, code + i))));
    for (; i < n; i++)
        x[i] = skb_odds(x[i] * skb_step_value(step, code[i]));
}

/* Multiply by the values of a step. */
static SKB_TARGET void SKB_FN(skb_scale16)(
    ptrdiff_t n, const uint16_t *restrict code, const skb_row_step_t *step, double *restrict x)
{
    const double *restrict table = step->table;
    SKB_X8 least = SKB_SET8(SKB_ODDS_MIN), most = SKB_SET8(SKB_ODDS_MAX);
    ptrdiff_t i = 0;
    switch (step->n_cuts) {
    case 0: SKB_FN(skb_scale_cuts)(0, n, code, step, x); break;
    case 1: SKB_FN(skb_scale_cuts)(1, n, code, step, x); break;
    case 2: SKB_FN(skb_scale_cuts)(2, n, code, step, x); break;
    default:
        for (; i + 8 <= n; i += 8)
            SKB_STORE8(x + i, SKB_ODDS8(SKB_MUL8(SKB_LOAD8(x + i), SKB_TABLE8(table, code + i))));
        for (; i < n; i++)
            x[i] = skb_odds(x[i] * table[code[i]]);
    }
}

static SKB_TARGET void SKB_FN(skb_scale32)(
    ptrdiff_t n, const uint32_t *restrict code, const skb_row_step_t *step, double *restrict x)
{
    for (ptrdiff_t i = 0; i < n; i++)
        x[i] = skb_odds(x[i] * step->table[code[i]]);
}

/* p = 1 / (1 + x) and 1 - p = x p; for y in {0, 1} nothing cancels. */
static SKB_TARGET void SKB_FN(skb_binary_odds)(
    ptrdiff_t n, const double *restrict y, const double *restrict x, double *restrict grad, double *restrict hess)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double p = 1.0 / (1.0 + x[i]), q = x[i] * p;
        grad[i] = (1.0 - y[i]) * p - y[i] * q;
        hess[i] = p * q;
    }
}

/* room: n doubles */
static SKB_TARGET void SKB_FN(skb_class_odds)(
    ptrdiff_t n, int n_classes, const double *restrict y, const double *restrict x, ptrdiff_t stride,
    double *restrict room, double *restrict grad, double *restrict hess, ptrdiff_t grad_stride)
{
    for (ptrdiff_t i = 0; i < n; i++)
        room[i] = x[i];
    for (int k = 1; k < n_classes; k++)
        for (ptrdiff_t i = 0; i < n; i++)
            room[i] += x[k * stride + i];
    for (ptrdiff_t i = 0; i < n; i++)
        room[i] = 1.0 / room[i];
    for (int k = 0; k < n_classes; k++) {
        const double *restrict e = x + k * stride;
        double *restrict g = grad + k * grad_stride, *restrict h = hess + k * grad_stride;
        double label = (double)k;
        for (ptrdiff_t i = 0; i < n; i++) {
            double p = e[i] * room[i];
            g[i] = p - (y[i] == label ? 1.0 : 0.0);
            h[i] = p * (1.0 - p);
        }
    }
}
