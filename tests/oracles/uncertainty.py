"""Decompositions of one sample in 80-digit decimal arithmetic, from the definitions: total less data."""

from decimal import Decimal, localcontext


def _entropy(p):
    return -sum((q * q.ln() for q in p if q > 0), Decimal(0))


def _softmax(margins):
    top = max(margins)
    weights = [(Decimal(float(z)) - Decimal(float(top))).exp() for z in margins]
    return [w / sum(weights) for w in weights]


def classification(members):
    """Return (mean probabilities, knowledge, data, total) of one sample; `members` holds one list of margins each."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 80, -(10**9), 10**9
        probabilities = [_softmax(margins) for margins in members]
        count = len(members)
        mean = [sum(column) / count for column in zip(*probabilities, strict=True)]
        total = _entropy(mean)
        data = sum((_entropy(p) for p in probabilities), Decimal(0)) / count
        return [float(p) for p in mean], float(total - data), float(data), float(total)


def binary(members):
    """Return the same from the log-odds of class 1, one number per member."""
    return classification([[0.0, z] for z in members])


def regression(members):
    """Return (mean, knowledge) of one sample from its members' predictions."""
    with localcontext() as context:
        context.prec = 80
        values = [Decimal(float(v)) for v in members]
        mean = sum(values) / len(values)
        return float(mean), float(sum((v - mean) ** 2 for v in values) / len(values))


def gaussian(means, variances):
    """Return (mean, knowledge, data, total) of one sample."""
    mean, knowledge = regression(means)
    data = regression(variances)[0]
    return mean, knowledge, data, knowledge + data


def member_schedule(n_iter, n_members):
    """Return the counts by walking back from the end of the chain."""
    step = n_iter // (2 * n_members)
    counts = [n_iter]
    while len(counts) < n_members:
        counts.insert(0, counts[0] - step)
    return counts
