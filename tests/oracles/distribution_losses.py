"""Losses of predicted distributions from their densities, with SciPy's gamma functions; no shared code with skboost.

`score` has shape (2, n_rows) and includes the base score. Functions return (value, plain gradient, Fisher diagonal).
"""

import numpy as np
from scipy.special import gammaln, polygamma, psi


def laplace(y, score):
    median, log_scale = score
    size = np.abs(y - median) / np.exp(log_scale)
    grad = np.stack([np.sign(median - y) / np.exp(log_scale), 1 - size])
    return log_scale + size, grad, np.stack([np.exp(-2 * log_scale), np.ones_like(y)])


def gamma_distribution(y, score):
    log_mean, log_shape = score
    a, q = np.exp(log_shape), y / np.exp(log_mean)
    value = gammaln(a) - a * log_shape + a * (log_mean - np.log(y) + q)
    grad = np.stack([a * (1 - q), -a * (log_shape + 1 - psi(a) + np.log(q) - q)])
    # Less the constant of the normal density, as for the gaussian loss.
    return value - 0.5 * np.log(2 * np.pi), grad, np.stack([a, a**2 * polygamma(1, a) - a])


def negative_binomial(y, score):
    m, r = np.exp(score)
    value = gammaln(r) - gammaln(r + y) + (r + y) * np.log(r + m) - r * np.log(r) - y * np.log(m)
    grad = np.stack([r * (m - y) / (r + m), -r * (psi(y + r) - psi(r) + np.log(r / (r + m)) + (m - y) / (r + m))])
    return value, grad, np.stack([r * m / (r + m), size_information(m, r)])


def size_information(m, r):
    """Return the expected information on ln r: r^2 times the sum of P(Y > j) / (r + j)^2, less r m / (r + m)."""
    found = np.empty(np.shape(m))
    for i, (mean, size) in enumerate(zip(np.ravel(m), np.ravel(r), strict=True)):
        p, q = size / (size + mean), mean / (size + mean)
        # Terms of the series in q of the information; the first of these cancels.
        count = int(min(max(60, 15 / p), 1e5))
        k = np.arange(2, count)
        ratio = np.concatenate([[0.0], np.log(q) + 2 * np.log(k) - np.log(size + k) - np.log(k + 1)])
        terms = np.exp(np.log(size * q * q / (2 * (size + 1))) + np.cumsum(ratio))
        found.flat[i] = terms.sum()
    return found


ALL = {"laplace": laplace, "gamma_distribution": gamma_distribution, "negative_binomial": negative_binomial}
