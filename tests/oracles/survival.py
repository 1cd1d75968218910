"""Survival losses from their definitions: Cox's partial likelihood by brute force, failure times by SciPy's laws.

No shared code with skboost. Everything is float64 and of one copy of a row.
"""

import numpy as np
from scipy import stats


def cox(time, event, score, weight=None):
    """Return (values, gradient, diagonal second derivative) with Breslow's ties, comparing every row with every other.

    The value of a row is its term of minus the log partial likelihood; derivatives are those of the weighted sum of
    terms with respect to the score of one copy of the row, the other copies left alone.
    """
    weight = np.ones(len(time)) if weight is None else weight
    at_risk = time[None, :] >= time[:, None]
    hazard = np.exp(score - score[weight > 0].max())
    risk = (at_risk * (weight * hazard)[None, :]).sum(axis=1)
    values, first, second = np.zeros(len(time)), np.zeros(len(time)), np.zeros(len(time))
    for i in np.flatnonzero((event == 1) & (weight > 0)):
        values[i] = np.log(risk[i]) - (score[i] - score[weight > 0].max())
        share = at_risk[i] * hazard / risk[i]
        first += weight[i] * share
        second += weight[i] * share * (1 - share)
    return values, first - event, np.maximum(second, 0)


def breslow(time, event, score, weight, at):
    """Return the cumulative baseline hazard at some times."""
    weight = np.ones(len(time)) if weight is None else weight
    total = np.zeros(len(at))
    for i in np.flatnonzero(event == 1):
        total += (at >= time[i]) * weight[i] / np.sum(weight * np.exp(score) * (time >= time[i]))
    return total


LAWS = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}


def aft_value(lower, upper, score, distribution, scale):
    """Return minus the log likelihoods of times between `lower` and `upper`, events where both are equal."""
    law = LAWS[distribution]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (np.log(lower) - score) / scale, (np.log(upper) - score) / scale
        event = lower == upper
        density = -(law.logpdf(high) - np.log(scale * upper))
        # The tail in which both probabilities are small keeps the digits of their difference.
        right_side = low + high > 0
        big = np.where(right_side, law.logsf(low), law.logcdf(high))
        small = np.where(right_side, law.logsf(high), law.logcdf(low))
        interval = -(big + np.log1p(-np.exp(small - big)))
    return np.where(event, density, interval)


def _slope_of_pdf(law, z):
    """Derivative of the density, z finite."""
    pdf = law.pdf(z)
    return (
        pdf * {"norm": lambda: -z, "logistic": lambda: -np.tanh(z / 2), "gumbel_l": lambda: 1 - np.exp(z)}[law.name]()
    )


def aft_derivatives(lower, upper, score, distribution, scale):
    """Return (gradient, second derivative) by the textbook quotients; valid where no density underflows."""
    law = LAWS[distribution]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (np.log(lower) - score) / scale, (np.log(upper) - score) / scale
        event = lower == upper
        ends = {}
        for name, z in (("low", low), ("high", high)):
            inside = np.where(np.isfinite(z), z, 0.0)
            ends[name] = [np.where(np.isfinite(z), f(inside), 0.0) for f in (law.pdf, lambda v: _slope_of_pdf(law, v))]
        mass = law.cdf(high) - law.cdf(low)
        mass = np.where(low > 0, law.sf(low) - law.sf(high), mass)
        first = (ends["high"][0] - ends["low"][0]) / mass
        second = first**2 - (ends["high"][1] - ends["low"][1]) / mass
        z = np.where(event, low, 0.0)
        step = 1e-5
        slope = -_slope_of_pdf(law, z) / law.pdf(z)
        bend = -(_log_slope(law, z + step) - _log_slope(law, z - step)) / (2 * step)
    return np.where(event, -slope, first) / scale, np.where(event, bend, second) / scale**2


def _log_slope(law, z):
    return _slope_of_pdf(law, z) / law.pdf(z)


def concordance(time, event, risk):
    """Return Harrell's index by looking at every pair."""
    better = pairs = 0.0
    for i in range(len(time)):
        for j in range(len(time)):
            if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                pairs += 1
                better += 1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0
    return better / pairs
