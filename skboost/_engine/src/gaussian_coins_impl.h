/* What fitting takes from residuals, measured on coins; losses_impl.h includes this file.
 *
 * Trees fit their own training targets, so squared residuals are smaller than the noise. Every copy of a row has a coin,
 * 1 or -1; one more output fits them through the same leaves by the same steps as the mean. Coins are noise of variance
 * 1: what is left of their squares, e^2, is what fitting leaves of a squared residual whose expectation is s^2. So e^2
 * takes the place of 1 in the gradient of ln s. A row has the mean coin c of its copies, of which the fit h leaves
 * e^2 = h^2 - 2 h c + 1 on average.
 */
static SKB_TARGET void SKB_FN(skb_gaussian_coins)(
    ptrdiff_t n, const float *restrict coin, const double *restrict fit, const float *restrict precision,
    float *restrict log_sd, float *restrict grad)
{
    double share = precision ? 1.0 : 0.5;
    for (ptrdiff_t i = 0; i < n; i++) {
        double c = coin[i], h = fit[i], g = (double)log_sd[i] + share * (h * (h - 2.0 * c));
        log_sd[i] = (float)SKB_FN(skb_clamp)(g, -SKB_FLOAT_SAFE, SKB_FLOAT_SAFE);
        grad[i] = (float)SKB_FN(skb_clamp)(h - c, -SKB_FLOAT_SAFE, SKB_FLOAT_SAFE);
    }
    if (precision)
        for (ptrdiff_t i = 0; i < n; i++) {
            double g = (double)grad[i] * (double)precision[i];
            grad[i] = (float)SKB_FN(skb_clamp)(g, -SKB_FLOAT_SAFE, SKB_FLOAT_SAFE);
        }
}
