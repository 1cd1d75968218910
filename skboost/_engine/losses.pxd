# Losses on raw scores, for blocks of consecutive rows.
#
# The raw score of output k of row i is base[k] + score[k * score_stride + i]; the outputs of row i lie at
# grad[k * grad_stride + i]. All values are unweighted. Scores and targets must be finite.

cdef enum:
    LOSS_SQUARED = 0      # (f - y)^2 / 2
    LOSS_POISSON = 1      # exp(f) - y f
    LOSS_BINARY = 2       # log(1 + exp(f)) - y f, y in {0, 1}
    LOSS_MULTINOMIAL = 3  # logsumexp(f) - f[y], y a class index
    LOSS_GAUSSIAN = 4     # outputs (mean, ln s): ln s + (y - mean)^2 / (2 s^2)
    LOSS_GAMMA = 5        # y exp(-f) + f, y > 0
    LOSS_TWEEDIE = 6      # exp((2 - p) f) / (2 - p) - y exp((1 - p) f) / (1 - p), param[0] = p in (1, 2)
    LOSS_QUANTILE = 7     # param[0] (t (y - f) where y > f, else (1 - t)(f - y)), t = table[output]
    LOSS_HUBER = 8        # r^2 / 2 where |r| <= d, else d (|r| - d / 2), r = f - y, param[0] = d
    LOSS_PSEUDO_HUBER = 9     # d^2 (sqrt(1 + (r / d)^2) - 1), param[0] = d
    LOSS_EXPECTILE = 10   # t r^2 / 2 where y > f, else (1 - t) r^2 / 2, param[0] = t
    LOSS_LAPLACE = 11            # outputs (median, ln b): ln b + |y - median| / b
    LOSS_GAMMA_SHAPE = 12        # outputs (ln m, ln a), y > 0 gamma distributed of mean m and variance m^2 / a
    # outputs (ln m, ln r), y >= 0 of mean m and variance m + m^2 / r; param: the least metrics of both outputs
    LOSS_NEGATIVE_BINOMIAL = 13
    LOSS_AFT = 14         # -ln likelihood of ln T = f + s z, param = (law of z, s), table as in survival_impl.h
    LOSS_MULTI_LABEL = 15     # sum of LOSS_BINARY over outputs, targets table[y, output]
    LOSS_MULTI_SQUARED = 16   # sum of LOSS_SQUARED over outputs, targets table[y, output]
    LOSS_GIVEN = 17       # gradients come from the loss object, for all rows at once

ctypedef struct loss_t:
    int kind
    int n_outputs
    double param[4]
    const double *table    # (n_table, table_width), of the Python object, or NULL
    Py_ssize_t n_table
    int table_width

# The struct of a Python object with attributes kind, n_outputs, params (at most four numbers) and, for the losses that
# need one, table (float64 in C order), which must outlive the struct.
cdef int loss_from_object(object loss, loss_t *out) except -1

# Raise ValueError where targets are numbers of rows of the table and some are none.
cdef int check_targets(const loss_t *loss, const double[::1] y) except -1

# True when "gradient" leaves need the per-row metric in hess (see loss_gradients).
cdef bint loss_needs_metric(const loss_t *loss) noexcept nogil

# Denominator of the step of a leaf, output k, from its gradient sum G and its denominator D (weight or second
# derivatives, plus lambda). The log deviation of the gaussian loss takes D - G, the mean of expected and observed
# information: the step then has the sign and the zero of the Fisher step but stays below one, where squared residuals
# far beyond the predicted variance would throw it about. G is above D / 2 only where coins say so.
cdef double leaf_denominator(const loss_t *loss, int k, double G, double D) noexcept nogil

# grad receives dL/df as float32, hess (when hessian) the second derivative: p(1 - p) for the multinomial loss, the
# diagonal of the Fisher information for the gaussian one. Without hessian hess is neither read nor written and may be
# NULL, except for losses with loss_needs_metric: there grad receives the natural gradient F^-1 g and hess the Fisher
# diagonal F; the row's noise has the variance 1 / F (in units of sigma^2).
cdef void loss_gradients(const loss_t *loss, Py_ssize_t n, const double *y, const double *score,
                         Py_ssize_t score_stride, const double *base, bint hessian, float *grad, float *hess,
                         Py_ssize_t grad_stride) noexcept nogil

# The same in double precision; hess NULL: no second derivatives. Losses with loss_needs_metric need hess and give the
# plain gradient.
cdef void loss_gradients64(const loss_t *loss, Py_ssize_t n, const double *y, const double *score,
                           Py_ssize_t score_stride, const double *base, double *grad, double *hess,
                           Py_ssize_t grad_stride) noexcept nogil

# The gradients of rows whose coins the output after mean and ln s fits (gaussian_coins_impl.h). fit are its raw scores;
# precision is hess of the mean with hessian, NULL without; log_sd is the gradient of ln s, which is corrected.
cdef void coin_gradients(Py_ssize_t n, const float *coin, const double *fit, const float *precision, float *log_sd,
                         float *grad) noexcept nogil

# out[i] receives the loss of row i, less terms that depend on y alone (and ln(2 pi) / 2 for the gaussian loss).
cdef void loss_values(const loss_t *loss, Py_ssize_t n, const double *y, const double *score, Py_ssize_t score_stride,
                      const double *base, double *out) noexcept nogil
