"""Splits that are drawn instead of searched, in Python integers: no shared code with skboost."""

from oracles.chain import noise_key, uniform

STREAM_PRIOR = 12
PRIOR, FEATURE, ALONE, CUT, MISSING, SPREAD, KIND, ORDER = 0, 1, 2, 3, 4, 5, 6, 16
LEAST_ALONE = 1 / 16


class Draws:
    """Uniform draws of one level, or node: functions of the seed, the iteration and its number alone."""

    def __init__(self, seed, iteration, number):
        self.key = noise_key(seed, STREAM_PRIOR, iteration, number)

    def chance(self, what, probability):
        return uniform(self.key, what) < probability

    def one_of(self, what, options):
        return options[min(int(uniform(self.key, what) * len(options)), len(options) - 1)]

    def shuffled(self, items):
        """Fisher-Yates from the last place down to the second."""
        items = list(items)
        for last in range(len(items) - 1, 0, -1):
            other = self.one_of(ORDER + last, range(last + 1))
            items[last], items[other] = items[other], items[last]
        return items


def drawn_test(draws, features, n_bins, categorical, rules):
    """Return (feature, threshold, missing_right, left_codes or None), or None without a feature of a value bin."""
    features = [f for f in features if n_bins[f] > 1]
    if not features:
        return None
    feature = draws.one_of(FEATURE, features)
    values = range(1, int(n_bins[feature]))
    alone = len(values) == 1 or draws.chance(ALONE, max(LEAST_ALONE, 1 / len(values)))
    n_left = len(values) if alone else drawn_cut(draws, feature, values[:-1], rules)
    missing_right = alone or draws.chance(MISSING, 0.5)
    if not categorical[feature]:
        return feature, n_left, missing_right, None
    codes = frozenset(draws.shuffled(values)[:n_left])
    return feature, 0, missing_right, codes if missing_right else codes | {0}


def drawn_cut(draws, feature, cuts, rules):
    """Last left value: one of the cuts that do not follow the data with the chance prior_share, else any."""
    if rules.prior_bins is not None:
        bins, n_bins = rules.prior_bins
        if n_bins[feature] and draws.chance(KIND, rules.prior_share):
            return int(draws.one_of(CUT, bins[feature, : n_bins[feature]]))
    return draws.one_of(CUT, cuts)
