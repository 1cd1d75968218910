"""Split conformal prediction by counting, one row at a time, in exact fractions."""

from fractions import Fraction


def quantile(scores, alpha, weights=None):
    """Return the smallest score q such that scores up to q weigh at least (1 - alpha)(W + 1); None if there is none.

    `alpha` is text, such as "0.1", and exact.
    """
    weights = [1] * len(scores) if weights is None else weights
    weights = [Fraction(float(w)) for w in weights]
    wanted = (1 - Fraction(alpha)) * (sum(weights) + 1)
    for q in sorted(scores):
        if sum(w for s, w in zip(scores, weights, strict=True) if s <= q) >= wanted:
            return q
    return None


def covers(mean, scale, q, y):
    """Return whether the interval of each row holds its target."""
    return [m - q * s <= target <= m + q * s for m, s, target in zip(mean, scale, y, strict=True)]


def lac(probabilities):
    """Return for each row and class the probability that the class is wrong."""
    return [[1.0 - p for p in row] for row in probabilities]


def aps(probabilities):
    """Return for each row and class the probability of the classes that come before it, the likeliest first."""
    return [[sum(other for other in row if other > p) for p in row] for row in probabilities]
