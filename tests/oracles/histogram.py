"""Quantised gradients and histograms from their definition, in Python and NumPy integers: no shared code with skboost.

Every quantity of a row is rounded to a power-of-two grid before it meets the row's weight, so all sums are integers.
"""

import math

import numpy as np

SUM_BITS = 30


def scale_below(top, bits=SUM_BITS):
    """Return the largest power of two that keeps `top` below 2**bits (1 for 0)."""
    if not top > 0:
        return 1.0
    exponent = bits - math.frexp(top)[1]
    return math.ldexp(1.0, max(-120, min(120, exponent)))


def grid_of_rows(values):
    """Return the scale that puts single values below 2**30: the fine grid of leaf sums."""
    return scale_below(float(np.max(np.abs(values.astype(np.float64)), initial=0.0)))


def grid_of_sums(values, units):
    """Return the scale on which the sum of all |units * value| stays below 2**30, measured on the fine grid."""
    fine = grid_of_rows(values)
    whole = np.rint(np.abs(values.astype(np.float64)) * fine).astype(np.int64)
    total = sum(int(v) * int(u) for v, u in zip(whole, units, strict=True))
    return scale_below(total / fine)


def grid_of_two_sums(one, units_one, two, units_two):
    """Return the scale on which the sum of all |units_one * one| + |units_two * two| stays below 2**30."""
    values = np.concatenate([one, two])
    return grid_of_sums(values, np.concatenate([units_one, units_two]))


def quantised(values, scale, units, integer):
    """Return integers: round(value * scale) * unit, or round(value * scale * unit) for fractional weights."""
    scaled = values.astype(np.float64) * scale
    units = np.asarray(units, dtype=np.int64)
    if integer:
        return np.rint(scaled).astype(np.int64) * units
    return np.rint(scaled * units).astype(np.int64)


def histogram(codes, values, n_bins):
    """Return the integer sums of `values` of every code."""
    sums = np.zeros(n_bins, dtype=np.int64)
    for code, value in zip(codes.tolist(), values.tolist(), strict=True):
        sums[code] += value
    return sums


def histograms(codes, values, n_bins):
    """Return `histogram` of every column of codes (n_rows, n_features), padded to the largest number of bins."""
    out = np.zeros((codes.shape[1], max(n_bins)), dtype=np.int64)
    for feature, size in enumerate(n_bins):
        out[feature, :size] = histogram(codes[:, feature], values, size)
    return out
