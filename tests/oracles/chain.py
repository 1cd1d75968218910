"""Laws of Langevin boosting on fixed trees, and the recurrence of the shrunk scores: no shared code with skboost."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LeafLaw:
    """Stationary law of one leaf under squared loss, an autoregression of order one.

    Attributes
    ----------
    weight, target : float
        Weight sum W of the leaf and its weighted mean target, less the base score.
    learning_rate, temperature, shrink_rate, l2 : float
        eps, T (inverse temperature per row), gamma and lambda.
    """

    weight: float
    target: float
    learning_rate: float
    temperature: float
    shrink_rate: float
    l2: float = 0.0

    @property
    def shrink(self):
        return 1.0 - self.shrink_rate * self.learning_rate

    @property
    def sigma(self):
        """Standard deviation of the noise on the gradient of one row."""
        return np.sqrt(2.0 / (self.learning_rate * self.temperature))

    @property
    def correlation(self):
        """Of two states one iteration apart: shrink first, then a step along the gradient at the shrunk state."""
        return self.shrink * (1.0 - self.learning_rate * self.weight / (self.weight + self.l2))

    @property
    def mean(self):
        step = self.learning_rate * self.weight / (self.weight + self.l2)
        return step * self.target / (1.0 - self.correlation)

    @property
    def variance(self):
        noise = self.learning_rate**2 * self.sigma**2 / (self.weight + self.l2)
        return noise / (1.0 - self.correlation**2)


def replay(trees, shrinks, leaf_of_rows, codes, n_outputs=1):
    """Scores after every iteration: F <- F * s_t + value of the leaf, in float64, first to last."""
    scores = np.zeros((n_outputs, len(codes)))
    history = []
    for tree, shrink in zip(trees, shrinks, strict=True):
        scores = scores * shrink + tree["leaf_value"][leaf_of_rows(tree, codes)].T
        history.append(scores.copy())
    return history


def autocorrelation(series):
    """Correlation of a series with itself one step later."""
    centred = series - series.mean()
    return float(np.sum(centred[1:] * centred[:-1]) / np.sum(centred**2))


# ---------------------------------------------------------------- draws, in Python integers and double precision


def mix32(x):
    for shift, factor in ((16, 0x21F0AAAD), (15, 0xD35A2D97)):
        x = (x ^ (x >> shift)) * factor % 2**32
    return x ^ (x >> 15)


def mix64(x):
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> shift)) * factor % 2**64
    return x ^ (x >> 31)


def noise_key(seed, stream, iteration, output):
    golden = 0x9E3779B97F4A7C15
    key = mix64((seed + golden * (stream + 1)) % 2**64)
    key = mix64(key ^ (iteration * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) % 2**64)
    return mix64((key + output * golden) % 2**64)


def box_muller(u, v):
    return np.sqrt(-2 * np.log(u)) * np.sin(2 * np.pi * (abs(v - 0.5) - 0.25))


def row_normal(hash0, hash1, key):
    """Draw of a row from 24 bits of either mixed half of its hash; the uniform is rounded to single precision."""
    a, b = mix32((hash0 + key) % 2**32), mix32(hash1 ^ (key >> 32))
    return box_muller(float(np.float32((a >> 8) + 0.5)) / 2**24, (b >> 8) / 2**24)


def uniform(key, counter):
    """Draw of 53 bits in (0, 1]: the sum with a half is rounded to double precision."""
    bits = mix64(key ^ mix64((counter + 0x632BE59BD9B4E019) % 2**64))
    return (float(bits >> 11) + 0.5) / 2**53


def leaf_normal(leaf, key):
    return box_muller(uniform(key, 2 * leaf), uniform(key, 2 * leaf + 1))


# ---------------------------------------------------------------- cyclical schedules

GOLDEN = 0x9E3779B97F4A7C15
STREAM_MASK, STREAM_SUBSAMPLE, STREAM_COINS = 3, 4, 13


def gradient_scale(iteration, length, high, low, form):
    """Factor on the gradients: a cosine from high to 0, cut at low, or from high to low."""
    r = (iteration % length) / length
    cosine = (1 + np.cos(np.pi * r)) / 2
    return max(high * cosine, low) if form == "clamp" else low + (high - low) * cosine


def content_key(codes, rank):
    """Key of a row: its codes in words of eight bytes, then the bits of the rank of its target."""
    key = GOLDEN
    for start in range(0, len(codes), 8):
        key = mix64(key ^ sum(int(c) << (8 * i) for i, c in enumerate(codes[start : start + 8])))
    bits = int(np.float64(rank).view(np.uint64))
    return mix64(key ^ mix64((bits + GOLDEN) % 2**64))


@dataclass(frozen=True)
class Copies:
    """Rows written out as copies: `row` of each copy, and its key and number among the copies of equal key."""

    row: list
    key: list
    number: list

    @classmethod
    def of(cls, codes, ranks, n_copies):
        seen, row, key, number = {}, [], [], []
        for i, (row_codes, rank) in enumerate(zip(codes, ranks, strict=True)):
            content = content_key(row_codes, rank)
            for _ in range(int(n_copies[i])):
                row.append(i)
                key.append(content)
                number.append(seen.get(content, 0))
                seen[content] = number[-1] + 1
        return cls(row, key, number)

    def hashes(self, seed, stream, iteration):
        stream_key = noise_key(seed, stream, iteration, 0)
        pairs = zip(self.key, self.number, strict=True)
        return [mix64((mix64(key ^ stream_key) + GOLDEN * (number + 1)) % 2**64) for key, number in pairs]

    def kept(self, fraction, seed, cycle, labels):
        """Which copies keep their gradients in a cycle; labels of the rows, equal ones for regression."""
        hashes = self.hashes(seed, STREAM_MASK, cycle)
        kept = [h < int(fraction * 2**64) for h in hashes]
        for label in set(labels):
            members = [i for i, row in enumerate(self.row) if labels[row] == label]
            if not any(kept[i] for i in members):
                kept[min(members, key=hashes.__getitem__)] = True
        return kept

    def drawn(self, fraction, seed, iteration):
        return [h < int(fraction * 2**64) for h in self.hashes(seed, STREAM_SUBSAMPLE, iteration)]

    def coins(self, codes):
        """Mean coins, 1 or -1, of the copies of every content; the first one where the codes have one content."""
        tosses, contents, key_of_row = {}, {}, dict(zip(self.row, self.key, strict=True))
        for key, draw in zip(self.key, self.hashes(0, STREAM_COINS, 0), strict=True):
            tosses.setdefault(key, []).append(1.0 if draw < 2**63 else -1.0)
        for row, key in key_of_row.items():
            contents.setdefault(bytes(codes[row]), set()).add(key)
        several = [len(contents[bytes(row)]) > 1 for row in codes]
        own = [tosses[key_of_row[i]] for i in range(len(codes))]
        means = [np.mean(t) if s else t[0] for t, s in zip(own, several, strict=True)]
        return np.array(means, dtype=np.float32)

    def count(self, flags, n_rows):
        return np.bincount([row for row, flag in zip(self.row, flags, strict=True) if flag], minlength=n_rows)


class CyclicalTwin:
    """A cyclical chain with masks on a `oracles.grower.Twin`, whole-number weights or none.

    Parameters
    ----------
    twin : Twin
    n_copies, ranks, labels : sequences over rows
        Copies, rank of the target, class (equal ones for regression).
    schedule : dict
        length, high, low, form, exploration, bootstrap (None: no masks), subsample (1: all rows).
    """

    def __init__(self, twin, n_copies, ranks, labels, schedule):
        self.twin, self.labels, self.schedule = twin, labels, schedule
        self.n_copies = np.asarray(n_copies)
        self.copies = Copies.of(twin.codes, ranks, n_copies)

    def grow(self, iteration, seed, shrink, sigma):
        s = self.schedule
        scale = float(np.float32(gradient_scale(iteration, s["length"], s["high"], s["low"], s["form"])))
        drawn, step = [True] * len(self.copies.row), {}
        if s["subsample"] < 1:
            drawn = self.copies.drawn(s["subsample"], seed, iteration)
            step["units"] = self.copies.count(drawn, len(self.n_copies))
        if s["bootstrap"] is not None and (iteration % s["length"]) / s["length"] < s["exploration"]:
            step["mask"] = self.mask(
                self.copies.kept(s["bootstrap"], seed, iteration // s["length"], self.labels), drawn
            )
        return self.twin.grow(iteration, seed, shrink=shrink, sigma=sigma, gradient_scale=scale, **step)

    def mask(self, kept, drawn):
        n = len(self.n_copies)
        both = [k and d for k, d in zip(kept, drawn, strict=True)]
        return {"kept": self.copies.count(kept, n), "units": self.copies.count(both, n), "copy_weight": None}
