/* Gamma functions of positive doubles in forms that keep their digits for large arguments, free of branches.
 *
 * Stirling's leading terms are left out, so that the likelihoods built from these are differences that do not cancel.
 * Below 8 the argument is moved up by 8: with t = x (x + 7) the eight factors x, ..., x + 7 pair up to t, t + 6, t + 10
 * and t + 12. Part of the template mechanism of isa.h.
 */
#define SKB_SHIFT 8.0

/* ln(w) - d with w = 1 + d > 0 given apart from d; all digits where d is small. */
static inline SKB_TARGET double SKB_FN(skb_log_less)(double d, double w)
{
    double s = d / (1.0 + w), near = SKB_FN(skb_clamp)(s, -0.17, 0.17), z = near * near, z2 = z * z, z4 = z2 * z2;
    double low = (3.3333333333333672069e-1 + 1.9999999999707281718e-1 * z) +
                 (1.4285714371214850817e-1 + 1.111109928375659358e-1 * z) * z2;
    double high = (9.0917823405544785978e-2 + 7.6570200491244845207e-2 * z) + 7.3980333932796636779e-2 * z2;
    double series = 2.0 * near * (z * (low + high * z4)) - s * d;
    double direct = SKB_FN(skb_log)(w) - d;
    return s == near ? series : direct;
}

/* ln(x) - psi(x) > 0, about 1 / (2 x). */
static inline SKB_TARGET double SKB_FN(skb_digamma_gap)(double x)
{
    double moved = x < SKB_SHIFT ? x + SKB_SHIFT : x, below = x < SKB_SHIFT ? x : SKB_SHIFT;
    double z = 1.0 / moved, u = z * z;
    double even = 1.0 / 240 - u * (1.0 / 132 - u * (691.0 / 32760 - u * (1.0 / 12)));
    double series = 0.5 * z + u * (1.0 / 12 - u * (1.0 / 120 - u * (1.0 / 252 - u * even)));
    double t = below * (below + 7.0);
    double pairs = (2.0 * t + 6.0) / (t * (t + 6.0)) + (2.0 * t + 22.0) / ((t + 10.0) * (t + 12.0));
    double rest = (2.0 * below + 7.0) * pairs + SKB_FN(skb_log)(below * z);
    return x < SKB_SHIFT ? series + rest : series;
}

/* x^2 psi'(x) - x, between 1 at 0 and 1/2 at infinity: the information on the logarithm of a gamma shape. */
static inline SKB_TARGET double SKB_FN(skb_shape_information)(double x)
{
    double moved = x < SKB_SHIFT ? x + SKB_SHIFT : x, below = x < SKB_SHIFT ? x : SKB_SHIFT;
    double z = 1.0 / moved, u = z * z;
    double odd = 1.0 / 30 - u * (5.0 / 66 - u * (691.0 / 2730 - u * (7.0 / 6)));
    double series = 1.0 / 6 - u * (1.0 / 30 - u * (1.0 / 42 - u * odd));
    double t = below * (below + 7.0), sum = 2.0 * below + 7.0;
    double i0 = 1.0 / t, i1 = 1.0 / (t + 6.0), i2 = 1.0 / (t + 10.0), i3 = 1.0 / (t + 12.0);
    double squares = sum * sum * ((i0 * i0 + i1 * i1) + (i2 * i2 + i3 * i3)) - 2.0 * ((i0 + i1) + (i2 + i3));
    double trigamma = z + u * (0.5 + z * series);
    return x < SKB_SHIFT ? below * (below * (trigamma + squares)) - below : 0.5 + z * series;
}

/* ln Gamma(x) less (x - 1/2) ln x - x + ln(2 pi) / 2, about 1 / (12 x). */
static inline SKB_TARGET double SKB_FN(skb_stirling_rest)(double x)
{
    double moved = x < SKB_SHIFT ? x + SKB_SHIFT : x, below = x < SKB_SHIFT ? x : SKB_SHIFT;
    double z = 1.0 / moved, u = z * z;
    double odd = 1.0 / 1680 - u * (1.0 / 1188 - u * (691.0 / 360360 - u * (1.0 / 156)));
    double series = z * (1.0 / 12 - u * (1.0 / 360 - u * (1.0 / 1260 - u * odd)));
    double t = below * (below + 7.0), top = below + SKB_SHIFT, p2 = top * top, p4 = p2 * p2;
    double product = (t * (t + 6.0)) * ((t + 10.0) * (t + 12.0));
    double rest = (SKB_FN(skb_log)(p4 * p4 / product) - SKB_SHIFT) - (below - 0.5) * SKB_FN(skb_log)(below * z);
    return x < SKB_SHIFT ? series + rest : series;
}

/* Expected information on ln r of a negative binomial row of mean m = r q / (1 - q): r times the integral over u of
 * -(ln(1 - q x) + q x) / x, x = 1 - u^(1 / r), by Gauss's rule of six nodes; within 2 %, below 1 as that of a shape. */
static inline SKB_TARGET double SKB_FN(skb_size_information)(double r, double q, double p)
{
    static const double log_node[6] = {-3.3883233221881066, -1.7755202021841745, -0.9657688143393257,
                                       -0.4791499810214893, -0.1856012973883337, -0.03434845452025293};
    static const double weight[6] = {0.08566224618958514, 0.18038078652406936, 0.23395696728634552,
                                     0.23395696728634552, 0.18038078652406936, 0.08566224618958514};
    double inverse = 1.0 / r, sum = 0.0;
    for (int i = 0; i < 6; i++) {
        double e = SKB_FN(skb_exp)(log_node[i] * inverse), x = 1.0 - e;
        sum -= weight[i] * SKB_FN(skb_log_less)(-q * x, p + q * e) / (x + 1e-300);
    }
    return r * sum;
}

#undef SKB_SHIFT
