"""Gaussian process classification from the definitions: 60-digit probit, dense formulas with inverses, quadrature."""

import itertools
import math
from decimal import Decimal, getcontext, localcontext

import numpy as np
from scipy import integrate
from scipy.stats import multivariate_normal, norm

DIGITS = 60


def probit(z):
    """Return r = phi/Phi, r (z + r) and r ((z + r)(z + 2r) - 1) as floats."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = DIGITS + 30, -(10**15), 10**15
        z = Decimal(float(z))
        density = (-z * z / 2).exp() / (2 * _pi()).sqrt()
        r = 1 / _mills(-z) if z < -3 else density / (1 - density * _mills(z)) if z > 3 else density / _near(z, density)
        return float(r), float(r * (z + r)), float(r * ((z + r) * (z + 2 * r) - 1))


def _mills(q):
    """Return (1 - Phi(q)) / phi(q) for q of at least 3 by its continued fraction."""
    value = q
    for k in range(600 if q < 100 else 100, 0, -1):
        value = q + k / value
    return 1 / value


def _near(z, density):
    """Return Phi(z) by its series."""
    term = total = z
    for k in range(1, 400):
        term *= z * z / (2 * k + 1)
        total += term
    return Decimal("0.5") + density * total


def _pi():
    """Return pi by Machin's formula."""

    def arctan_of_inverse(n):
        power, total, k = Decimal(1) / n, Decimal(0), 0
        while abs(power) > Decimal(10) ** -(getcontext().prec + 5):
            total += (-1) ** k * power / (2 * k + 1)
            power, k = power / (n * n), k + 1
        return total

    return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))


def log_likelihood(link, s, f):
    """Return the log likelihood of signs s, one number per row."""
    return norm.logcdf(s * f) if link == "probit" else -np.logaddexp(0.0, -s * f)


def orthant_evidence(K, s):
    """Return the exact log evidence of the probit link: the probability of an orthant."""
    covariance = (np.eye(len(K)) + K) * np.outer(s, s)
    return math.log(multivariate_normal(np.zeros(len(K)), covariance).cdf(np.zeros(len(K))))


def averages(link, mean, variance):
    """Return E q, data, knowledge by adaptive quadrature over the latent value."""
    sd = math.sqrt(variance)
    q = norm.cdf if link == "probit" else lambda f: 0.5 * (1.0 + np.tanh(0.5 * f))

    def entropy(f):
        p = float(q(-abs(f)))
        return -p * math.log(p) - (1 - p) * math.log1p(-p) if p > 0 else 0.0

    def average(function):
        low, high = mean - 12 * sd, mean + 12 * sd
        inner = [point for point in (-5.0, 0.0, 5.0, mean) if low < point < high]
        ends = [low, *sorted(set(inner)), high]
        parts = [
            integrate.quad(lambda f: function(f) * norm.pdf(f, mean, sd), a, b, epsabs=1e-13, epsrel=1e-13, limit=200)
            for a, b in itertools.pairwise(ends)
        ]
        return sum(part[0] for part in parts)

    p, data = average(q), average(entropy)
    total = -p * math.log(p) - (1 - p) * math.log1p(-p)
    return p, data, total - data
