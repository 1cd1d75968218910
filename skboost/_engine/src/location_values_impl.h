/* Values of losses of a location; losses_impl.h includes this file. */

/* out += the loss of one level. */
static SKB_TARGET void SKB_FN(skb_quantile_values)(
    SKB_ROWS, double base, double level, double factor, double *restrict out)
{
    double above = factor * (1.0 - level), below = -factor * level;
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (base - y[i]) + score[i];
        out[i] += (r > 0.0 ? above : below) * r;
    }
}

static SKB_TARGET void SKB_FN(skb_huber_values)(SKB_ROWS, double base, double delta, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (base - y[i]) + score[i], c = SKB_FN(skb_clamp)(r, -delta, delta);
        out[i] = c * (r - 0.5 * c);
    }
}

static SKB_TARGET void SKB_FN(skb_pseudo_huber_values)(SKB_ROWS, double base, double delta, double *restrict out)
{
    double inverse = 1.0 / delta;
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (base - y[i]) + score[i];
        double u = SKB_FN(skb_clamp)(r * inverse, -SKB_ROOT_SAFE, SKB_ROOT_SAFE);
        /* delta^2 (sqrt(1 + u^2) - 1) without its cancellation */
        out[i] = r * (r / (1.0 + sqrt(1.0 + u * u)));
    }
}

static SKB_TARGET void SKB_FN(skb_expectile_values)(SKB_ROWS, double base, double level, double *restrict out)
{
    double over = 1.0 - level;
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = (base - y[i]) + score[i];
        out[i] = 0.5 * (r < 0.0 ? level : over) * r * r;
    }
}
