"""Main effects of one bag as plain rows, summed afresh whenever they are asked for, and cases to compare with."""

import hashlib

import numpy as np

from oracles import losses

SIZES = np.array([3, 40, 17, 60, 2, 2])
KINDS = {
    "squared_error": (0, 1, ()),
    "poisson": (1, 1, ()),
    "binary": (2, 1, ()),
    "multinomial": (3, 3, ()),
    "gamma": (5, 1, ()),
    "tweedie": (6, 1, (1.5,)),
}


class Loss:
    """A loss as the engine takes it."""

    def __init__(self, name):
        self.name = name
        self.kind, self.n_outputs, self.params = KINDS[name]


def make_bag(kind="ones", n=400, seed=0, sizes=SIZES):
    """Return (cells, all weights, training weights, validation weights); some cells hold no training rows."""
    rng = np.random.default_rng([seed, n])
    cells = np.array([rng.integers(0, size, n) for size in sizes], dtype=np.uint16)
    weight = {
        "ones": np.ones(n),
        "whole": rng.integers(1, 5, n).astype(float),
        "fractional": rng.exponential(size=n),
    }[kind]
    valid = np.where(rng.random(n) < 0.2, weight, 0)
    if kind == "whole":
        valid = rng.binomial(weight.astype(int), 0.2).astype(float)
    if len(sizes) > 3:
        valid[cells[3] < 4] = weight[cells[3] < 4]
    return cells, weight, weight - valid, valid


def make_targets(name, n, seed=0):
    """Return (targets, scores to start from)."""
    rng = np.random.default_rng([seed, n, 1])
    score = rng.normal(0, 0.5, (KINDS[name][1], n))
    y = {
        "squared_error": lambda: rng.normal(size=n),
        "poisson": lambda: rng.poisson(np.exp(score[0])),
        "binary": lambda: rng.random(n) < 0.4,
        "multinomial": lambda: rng.integers(0, 3, n),
        "gamma": lambda: rng.gamma(2, np.exp(score[0]) / 2),
        "tweedie": lambda: np.where(rng.random(n) < 0.4, 0, rng.gamma(2, np.exp(score[0]) / 2)),
    }[name]()
    return y.astype(float), score


def random_step(rng, size, n_outputs=1, scale=1.0):
    """Return u, of shape (n_outputs, size), with few changes or one value per cell."""
    if rng.random() < 0.2:
        return scale * rng.normal(size=(n_outputs, size))
    ends = np.sort(rng.integers(0, size, rng.integers(0, 4)))
    return scale * rng.normal(size=(n_outputs, len(ends) + 1))[:, np.searchsorted(ends, np.arange(size))]


class Rows:
    """The model on rows."""

    def __init__(self, name, cells, sizes, y, score, train, valid):
        self.name, self.cells, self.sizes, self.y, self.train, self.valid = name, cells, sizes, y, train, valid
        self.score = np.array(score)

    def values(self):
        return losses.ALL[self.name](self.y, self.score)

    def sums(self, term):
        """Return (G, H, W) as a back end does."""
        cell, size = self.cells[term], self.sizes[term]
        _, grad, hess = self.values()
        G, H = (np.array([np.bincount(cell, self.train * row, size) for row in rows]) for rows in (grad, hess))
        return G, H, np.bincount(cell, self.train, size)

    def part_sums(self, term, cuts):
        G, H, _ = self.sums(term)
        starts = [0, *(np.asarray(cuts, dtype=int) + 1)]
        return np.add.reduceat(G, starts, axis=1), np.add.reduceat(H, starts, axis=1)

    def metric(self):
        """Mean loss of the validation rows, for squared error twice that, the mean square."""
        if not self.valid.any():
            return np.nan
        return (1 + (self.name == "squared_error")) * np.average(self.values()[0], weights=self.valid)

    def apply(self, term, u):
        self.score += u[:, self.cells[term]]
        return self.metric()


def some_cuts(rng, size):
    return np.unique(rng.integers(0, size - 1, rng.integers(0, 4)))


def trace(state, rng, n_steps=200, scale=1.0):
    """Return a digest of everything a sequence of random steps gives."""
    digest = hashlib.sha256()
    sizes = state.term_sizes[:, 0]
    for _ in range(n_steps):
        term, other = rng.integers(len(sizes), size=2)
        for array in (*state.sums(term), *state.part_sums(other, some_cuts(rng, sizes[other]))):
            digest.update(array.tobytes())
        u = random_step(rng, sizes[term], state.n_outputs, scale)
        digest.update(np.float64(state.apply(term, u)).tobytes())
    return digest.hexdigest()
