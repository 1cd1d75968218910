/* What gradients and values of the accelerated failure time losses share; losses_impl.h includes it once per
 * instruction set.
 *
 * A row is the interval (lower, upper) of the log of its time: both equal for an event, +-1e100 where there is no bound
 * (infinities do not go with the flags of this module). With z = (log time - f) / s the loss is minus the log of the
 * probability of the interval, or of the density of the time of an event. `mass` is what the loss holds besides z:
 * minus ln(s time) of an event, else ln(1 - exp(-(upper - lower) / s)), which is 0 for half-open intervals. Logistic
 * noise then needs no cases,
 *
 *     cdf(u) - cdf(l) = cdf(u) sf(l) (1 - exp(l - u)),
 *
 * nor does the extreme value one, sf(z) = exp(-e^z),
 *
 *     sf(l) - sf(u) = exp(-e^l) (1 - exp(-m)),  m = e^u - e^l = exp(u + mass), m = 0 for events.
 *
 * Normal noise has one path for events and half-open intervals, and one row by row for others.
 */
#ifndef SKB_SURVIVAL_SCALAR
#define SKB_SURVIVAL_SCALAR
enum { SKB_NORMAL, SKB_LOGISTIC, SKB_EXTREME };

#define SKB_AFT_TILE 64
#define SKB_AFT_FAR 1e99            /* beyond it an end is open */
#define SKB_AFT_LOG_MAX 30.0        /* largest log of a cumulative hazard inside exp */
#define SKB_AFT_NORMAL_MAX 1e4      /* beyond it the curvature of the normal tail is 1 to 1e-8, and lost in rounding */
#define SKB_AFT_SERIES 0.7          /* below it 1 - exp(-m) comes from the series of sinh */
#define SKB_HALF_LOG_2PI 0.91893853320467274178
#define SKB_ROOT_2PI_INVERSE 0.39894228040143267794

typedef struct {
    double lower[SKB_AFT_TILE], upper[SKB_AFT_TILE], mass[SKB_AFT_TILE];
} skb_aft_tile;

/* The rows of the table, (lower, upper, mass), that the targets name. */
static void skb_aft_gather(ptrdiff_t n, const double *y, const double *table, int width, skb_aft_tile *tile)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const double *row = table + (ptrdiff_t)y[i] * width;
        tile->lower[i] = row[0], tile->upper[i] = row[1], tile->mass[i] = row[2];
    }
}

static int skb_aft_is_interval(double lower, double upper)
{
    return lower < upper && lower > -SKB_AFT_FAR && upper < SKB_AFT_FAR;
}
#endif

/* Mills' ratio sf(x) / pdf(x) of the normal law for x >= 0, relative error below 1e-15: (x + 5) times it is a
 * polynomial of t = (x - 5) / (x + 5), its Chebyshev series cut after degree 24. */
static inline SKB_TARGET double SKB_FN(skb_mills)(double x)
{
    double inverse = 1.0 / (x + 5.0), t = (x - 5.0) * inverse, t2 = t * t, t4 = t2 * t2, t8 = t4 * t4;
    double p0 = (1.9280810471531576473 + -1.6678665951889600534 * t) +
                (1.2415470615738664215 + -0.78591107554654523977 * t) * t2;
    double p1 = (0.41364471573268377256 + -0.1732547340871504203 * t) +
                (0.052125502412278801994 + -0.0075032828206787589017 * t) * t2;
    double p2 = (-0.0019999619749843658549 + 0.0013658591609424360836 * t) +
                (-0.00014883305232339800747 + -0.00012473565818721080714 * t) * t2;
    double p3 = (0.0000418145858663246277 + 9.9747800855427325955e-6 * t) +
                (-6.9450331384916283562e-6 + -8.3606759801814068899e-7 * t) * t2;
    double p4 = (1.0936633523593941265e-6 + 9.6684283572163252728e-8 * t) +
                (-1.7641239689771902785e-7 + -1.7398124277679195e-8 * t) * t2;
    double p5 = (2.8172011975443030722e-8 + 3.1868668438665130658e-9 * t) +
                (-3.8441840649649204311e-9 + -3.3368504879231682086e-10 * t) * t2;
    double low = p0 + p1 * t4, mid = p2 + p3 * t4, high = (p4 + p5 * t4) + 3.1256054471604126054e-10 * t8;
    return (low + (mid + high * t8) * t8) * inverse;
}

/* sinh(x) / x for |x| <= 0.35, less 1. */
static inline SKB_TARGET double SKB_FN(skb_sinhc_less_one)(double x2)
{
    double low = 1.0 / 6 + x2 * (1.0 / 120), mid = 1.0 / 5040 + x2 * (1.0 / 362880);
    return x2 * (low + (x2 * x2) * (mid + (x2 * x2) * (1.0 / 39916800)));
}

/* cosh(x) - sinh(x) / x for |x| <= 0.35. */
static inline SKB_TARGET double SKB_FN(skb_cosh_less_sinhc)(double x2)
{
    double low = 2.0 / 6 + x2 * (4.0 / 120), mid = 6.0 / 5040 + x2 * (8.0 / 362880);
    return x2 * (low + (x2 * x2) * (mid + (x2 * x2) * (10.0 / 39916800)));
}

/* Normal variate on the interval of width d about c, both ends known: its mean, 1 less its variance, and minus the log
 * of the probability of the interval. */
static SKB_TARGET void SKB_FN(skb_normal_interval)(double c, double d, double out[3])
{
    const double node[3] = {0.2386191860831969086, 0.6612093864662645137, 0.9324695142031520278};
    const double share[3] = {0.4679139345726910474, 0.3607615730481386076, 0.1713244923791703450};
    double sign = c < 0.0 ? -1.0 : 1.0, mean, rest, value;
    c *= sign;
    double l = c - 0.5 * d, u = c + 0.5 * d;
    if (d * (c > 1.0 ? c : 1.0) <= 1.0) {
        /* Gauss and Legendre's rule of six points: the density hardly changes on the interval */
        double s0 = 0.0, s1 = 0.0, s2 = 0.0;
        for (int k = 0; k < 3; k++) {
            double x = 0.5 * d * node[k];
            double right = share[k] * SKB_FN(skb_exp)(-x * (c + 0.5 * x));
            double left = share[k] * SKB_FN(skb_exp)(x * (c - 0.5 * x));
            s0 += right + left;
            s1 += (right - left) * x;
            s2 += (right + left) * (x * x);
        }
        double shift = s1 / s0;
        mean = c + shift;
        rest = 1.0 - (s2 / s0 - shift * shift);
        value = 0.5 * (c * c) + SKB_HALF_LOG_2PI - SKB_FN(skb_log)(d) - SKB_FN(skb_log)(0.5 * s0);
    } else if (l >= 0.0) {
        double ratio = SKB_FN(skb_exp)(-d * c), share_of_density = SKB_FN(skb_mills)(l) - ratio * SKB_FN(skb_mills)(u);
        mean = (1.0 - ratio) / share_of_density;
        rest = l > SKB_AFT_NORMAL_MAX ? 1.0 : mean * mean - (l - u * ratio) / share_of_density;
        value = 0.5 * (l * l) + SKB_HALF_LOG_2PI - SKB_FN(skb_log)(share_of_density);
    } else {
        double low = SKB_ROOT_2PI_INVERSE * SKB_FN(skb_exp)(-0.5 * (l * l));
        double high = SKB_ROOT_2PI_INVERSE * SKB_FN(skb_exp)(-0.5 * (u * u));
        double inside = (1.0 - low * SKB_FN(skb_mills)(-l)) - high * SKB_FN(skb_mills)(u);
        mean = (low - high) / inside;
        rest = mean * mean - (l * low - u * high) / inside;
        value = -SKB_FN(skb_log)(inside);
    }
    out[0] = sign * SKB_FN(skb_clamp)(mean, l, u);
    out[1] = SKB_FN(skb_clamp)(rest, 0.0, 1.0);
    out[2] = value;
}
