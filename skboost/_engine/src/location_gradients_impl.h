/* Gradients of losses of a location: quantiles, expectiles, the two of Huber. loss_gradients_impl.h includes this file.
 *
 * The second derivatives of the two of Huber are those of the quadratic that touches the loss from above: a step by them
 * never overshoots. */

/* factor * (t (y - f) where y > f, else (1 - t)(f - y)); a tie has the gradient 0. */
static SKB_TARGET void SKB_GRAD(skb_quantile_gradients)(
    SKB_ROWS, double base, double level, double factor, SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    double above = factor * (1.0 - level), below = -factor * level;
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (base - y[i]) + score[i];
        grad[i] = (SKB_REAL)(r > 0.0 ? above : r < 0.0 ? below : 0.0);
    }
    if (hess)
        for (ptrdiff_t i = 0; i < n; i++)
            hess[i] = 1;
}

static SKB_TARGET void SKB_GRAD(skb_huber_gradients)(
    SKB_ROWS, double base, double delta, SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    for (ptrdiff_t i = 0; i < n; i++)
        grad[i] = (SKB_REAL)SKB_FN(skb_clamp)((base - y[i]) + score[i], -delta, delta);
    if (hess)
        for (ptrdiff_t i = 0; i < n; i++) {
            double size = fabs((base - y[i]) + score[i]);
            hess[i] = (SKB_REAL)(delta / (size > delta ? size : delta));
        }
}

static SKB_TARGET void SKB_GRAD(skb_pseudo_huber_gradients)(
    SKB_ROWS, double base, double delta, SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    double inverse = 1.0 / delta;
    if (hess) {
        for (ptrdiff_t i = 0; i < n; i++) {
            double r = (base - y[i]) + score[i];
            double u = SKB_FN(skb_clamp)(r * inverse, -SKB_ROOT_SAFE, SKB_ROOT_SAFE), q = 1.0 / sqrt(1.0 + u * u);
            grad[i] = (SKB_REAL)(r * q);
            hess[i] = (SKB_REAL)q;
        }
    } else {
        for (ptrdiff_t i = 0; i < n; i++) {
            double r = (base - y[i]) + score[i];
            double u = SKB_FN(skb_clamp)(r * inverse, -SKB_ROOT_SAFE, SKB_ROOT_SAFE);
            grad[i] = (SKB_REAL)(r / sqrt(1.0 + u * u));
        }
    }
}

static SKB_TARGET void SKB_GRAD(skb_expectile_gradients)(
    SKB_ROWS, double base, double level, SKB_REAL *restrict grad, SKB_REAL *restrict hess)
{
    double over = 1.0 - level;
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (base - y[i]) + score[i];
        grad[i] = (SKB_REAL)((r < 0.0 ? level : over) * r);
    }
    if (hess)
        for (ptrdiff_t i = 0; i < n; i++)
            hess[i] = (SKB_REAL)((base - y[i]) + score[i] < 0.0 ? level : over);
}
