"""Explainable boosting machine from its description, slowly, in NumPy: no shared code with skboost.

Cells of an axis: 0 missing, 1..m values, the last one unseen categories. A term is an array of cells, one per row; a
pair's cell is a * size1 + b. Gradients are dL/df; scores and gradients have the shape (n_outputs, n_rows). Sums of
cells are stacked: rows G of every output, H of every output, W last.
"""

import itertools
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from oracles import losses
from oracles.chain import mix64, noise_key

TINY = np.finfo(float).tiny
STREAM_ORDER, STREAM_CUTS, STREAM_TIES = 8, 9, 11


@dataclass(frozen=True)
class Rules:
    """What shapes a stage."""

    learning_rate: float = 0.04
    max_rounds: int = 100
    max_leaves: int = 2
    min_samples_leaf: float = 4
    min_hessian: float = 0.0
    l2: float = 0.0
    missing: str = "separate"
    min_cat_samples: float = 10
    cat_smooth: float = 10.0
    gain_scale: float = 5.0
    smoothing_rounds: int = 0
    greedy_ratio: float = 0.0
    cyclic_progress: float = 0.0
    early_stopping_rounds: int = 0
    early_stopping_tolerance: float = 1e-5
    seed: int = 0
    bag: int = 0
    stage: int = 0
    shuffle: bool = True


@dataclass(frozen=True)
class Term:
    """`cells` holds the cell of every row; `shape` the number of cells per axis."""

    cells: np.ndarray
    shape: tuple
    nominal: bool = False
    monotone: int = 0

    def sums(self, grad, hess, weight):
        """Stacked sums of every cell, of shape (2 * n_outputs + 1, *shape)."""
        rows = [*(grad * weight), *(hess * weight), weight]
        return np.stack([np.bincount(self.cells, r, np.prod(self.shape)).reshape(self.shape) for r in rows])


def pair_of(first, second, coarse):
    """Return the pair of two main terms; `coarse` maps the main cells of each to cells of the pair's axis."""
    a, b = (np.asarray(m)[t.cells] for m, t in zip(coarse, (first, second), strict=True))
    sizes = tuple(int(np.max(m)) + 1 for m in coarse)
    return Term(a * sizes[1] + b, sizes)


# ---------------------------------------------------------------- values, gains, legality of stacked sums


def parts(sums):
    n_outputs = len(sums) // 2
    return sums[:n_outputs], sums[n_outputs:-1], sums[-1]


def value(sums, rules):
    G, H, _ = parts(sums)
    known = H >= TINY
    return np.where(known, -G / np.where(known, H + rules.l2, 1), 0)


def score(sums, rules):
    return np.sum(-value(sums, rules) * parts(sums)[0], axis=0)


def legal(sums, rules):
    _, H, W = parts(sums)
    return (rules.min_samples_leaf <= W) & np.all(max(rules.min_hessian, TINY) <= H, axis=0)


# ---------------------------------------------------------------- one update of a main effect


def split_gains(line, floating, parent, rules, monotone, bounds):
    """Gains of the cuts of a line of cells, one row per side that the floating group may join; illegal ones are 0."""
    left = np.cumsum(line, axis=1)[:, :-1]
    gains = []
    for group in [0 * floating] if not floating.any() else [floating, 0 * floating]:
        low = left + group[:, None]
        high = parent[:, None] - low
        ok = legal(low, rules) & legal(high, rules)
        gain = score(low, rules) + score(high, rules) - score(parent, rules)
        if monotone:
            v, w = (monotone * value(s, rules)[0] for s in (low, high))
            ok &= (bounds[0] <= v) & (v <= w) & (w <= bounds[1])
        gains.append(np.where(ok & (gain >= TINY), gain, 0))
    return np.array(gains)


def grow_line(sums, order, floating, rules, monotone, draw):
    """Split the line of cells best first; returns the leaves as lists of cells, and the gain."""
    leaves, total = [(list(order), list(floating))], 0.0
    while len(leaves) < rules.max_leaves:
        values = [monotone * value(sums[:, c + f].sum(axis=1), rules)[0] for c, f in leaves]
        values = [-np.inf, *values, np.inf]
        gains = [
            split_gains(
                sums[:, c],
                sums[:, f].sum(axis=1),
                sums[:, c + f].sum(axis=1),
                rules,
                monotone,
                (values[i], values[i + 2]),
            )
            for i, (c, f) in enumerate(leaves)
        ]
        best = max(g.max(initial=0) for g in gains)
        if best == 0:
            break
        ties = [(i, *at) for i, g in enumerate(gains) for at in np.argwhere(g == best)]
        leaf, side, cut = ties[draw(len(ties))]
        cells, group = leaves[leaf]
        leaves[leaf : leaf + 1] = [
            (cells[: cut + 1], group if side == 0 else []),
            (cells[cut + 1 :], group if side == 1 else []),
        ]
        total += best
    return [cells + group for cells, group in leaves], total


def line_of(sums, rules, nominal):
    """Return (order, floating group, cells that form a leaf of their own)."""
    W = sums[-1]
    values = list(range(1, len(W) - 1))
    if nominal:
        # Missing is a level like any other; rare levels go together.
        rare = [c for c in [0, *values] if W[c] < max(rules.min_cat_samples, TINY)]
        G, H, _ = parts(sums)
        common = {0, *values} - set(rare)
        return sorted(common, key=lambda c: G[0, c] / (H[0, c] + rules.cat_smooth)), rare, []
    if W[0] == 0:
        return values, [], []
    if rules.missing == "separate":
        return values, [], [0]
    if rules.missing == "high":
        return [*values, 0], [], []
    if rules.missing == "low" or len(values) == 1:
        return [0, *values], [], []
    return values, [0], []


def search_main(sums, rules, nominal=False, monotone=0, draw=lambda n: 0):
    """Return (update without learning rate, gain) of the best tree on one axis."""
    order, floating, alone = line_of(sums, rules, nominal)
    everything = sums.sum(axis=1)
    leaves, gain = [order + floating], 0.0
    if len(order) > 1:
        leaves, gain = grow_line(sums, order, floating, rules, monotone, draw)
    if alone:
        leaves = [*leaves, alone]
        gain = sum(score(sums[:, c].sum(axis=1), rules) for c in leaves) - score(everything, rules)
    update = np.repeat(value(everything, rules)[:, None], sums.shape[1], axis=1)
    if gain < TINY:
        return update, 0.0
    for cells in leaves:
        update[:, cells] = value(sums[:, cells].sum(axis=1), rules)[:, None]
    # Cells without rows follow a neighbour.
    update[:, -1] = update[:, -2]
    if sums[-1, 0] == 0 and not nominal:
        update[:, 0] = update[:, 1]
    return update, gain


def cut_main(sums, cuts, rules):
    """Update of a line cut after the given cells, without looking at gains."""
    update = np.zeros_like(parts(sums)[0])
    for cells in np.split(np.arange(sums.shape[1]), np.add(cuts, 1)):
        update[:, cells] = value(sums[:, cells].sum(axis=1), rules)[:, None]
    return update


# ---------------------------------------------------------------- one update of a pair


def three_leaves(sums, rules):
    """Yield (gains over b, first, a, half): cut axis `first` before cell a, then the named half before cell b + 1."""
    everything = score(sums.sum(axis=(1, 2)), rules)
    for first in (0, 1):
        grid = sums if first == 0 else sums.swapaxes(1, 2)
        for a in range(1, grid.shape[1]):
            sides = [grid[:, :a].sum(axis=1), grid[:, a:].sum(axis=1)]
            for half in (0, 1):
                left = np.cumsum(sides[half], axis=1)[:, :-1]
                right, whole = sides[half].sum(axis=1)[:, None] - left, sides[1 - half].sum(axis=1)[:, None]
                gain = sum(score(s, rules) for s in (left, right, whole)) - everything
                ok = legal(left, rules) & legal(right, rules) & legal(whole, rules)
                yield np.where(ok & (gain >= TINY), gain, 0), first, a, half


def search_pair(sums, rules, draw=lambda n: 0):
    """Return (update without learning rate, gain) of the best tree of three leaves."""
    found = list(three_leaves(sums, rules))
    best = max((g.max() for g, *_ in found), default=0.0)
    update = np.empty_like(parts(sums)[0])
    update[:] = value(sums.sum(axis=(1, 2)), rules)[:, None, None]
    if best == 0:
        return update, 0.0
    ties = [(first, a, half, b + 1) for g, first, a, half in found for b in np.flatnonzero(g == best)]
    first, a, half, b = ties[draw(len(ties))]
    cells = np.indices(sums.shape[1:])
    low = cells[first] < a
    inside = low if half == 0 else ~low
    below = cells[1 - first] < b
    for leaf in (~inside, inside & below, inside & ~below):
        update[:, leaf] = value(sums[:, leaf].sum(axis=1), rules)[:, None]
    return update, best


def cut_pair(sums, cuts, rules):
    """Update of four quadrants, each axis cut after one cell (or not at all)."""
    update = np.empty_like(parts(sums)[0])
    axes = [np.split(np.arange(n), [] if c is None else [c + 1]) for n, c in zip(sums.shape[1:], cuts, strict=True)]
    for rows, columns in itertools.product(*axes):
        at = np.ix_(rows, columns)
        update[:, at[0], at[1]] = value(sums[:, at[0], at[1]].sum(axis=(1, 2)), rules)[:, None, None]
    return update


def strength(sums, rules):
    """FAST: the best gain of four quadrants over no cut, per unit of weight."""
    corner = sums.cumsum(axis=1).cumsum(axis=2)
    total = corner[:, -1, -1]
    low, left, top = corner[:, :-1, :-1], corner[:, :-1, -1:], corner[:, -1:, :-1]
    quadrants = [low, left - low, top - low, total[:, None, None] - left - top + low]
    ok = np.logical_and.reduce([legal(q, rules) for q in quadrants])
    gain = sum(score(q, rules) for q in quadrants) - score(total, rules)
    return np.where(ok, gain, 0).max(initial=0) / total[-1]


# ---------------------------------------------------------------- keyed random numbers


def uniform(key, counter):
    bits = mix64(key ^ mix64((counter + 0x632BE59BD9B4E019) % 2**64))
    return ((bits >> 11) + 0.5) / 2**53


def shuffle(order, key):
    """Fisher and Yates, from the end, in place."""
    for i in range(len(order) - 1, 0, -1):
        j = int(uniform(key, i) * (i + 1))
        order[i], order[j] = order[j], order[i]


# ---------------------------------------------------------------- stages


def gradients(loss, y, scores):
    """Return (value per row, gradient, second derivative)."""
    return losses.ALL[loss](y, scores)


class Stage:
    """Boosting of a list of terms for one bag."""

    def __init__(self, terms, loss, y, scores, train, val, rules, null_metric=None):
        self.terms, self.loss, self.y, self.rules = terms, loss, y, rules
        self.scores, self.train, self.val = np.array(scores, dtype=float), train, val
        self.tensors = [np.zeros((len(scores), *t.shape)) for t in terms]
        n = len(scores)
        self.rate = rules.learning_rate * ((n - 1) / n if n > 1 else 1)
        self.log, self.metrics = [], []
        self.null_metric = self.metric() if null_metric is None else null_metric

    def metric(self):
        """Mean loss of the validation rows; twice that for squared error, the mean square."""
        if not self.val.any():
            return np.nan
        values = gradients(self.loss, self.y, self.scores)[0]
        return np.average(values, weights=self.val) * (2 if self.loss == "squared_error" else 1)

    def sums(self, t):
        _, grad, hess = gradients(self.loss, self.y, self.scores)
        return self.terms[t].sums(grad, hess, self.train)

    def grow(self, t, random, step):
        """Return (update, gain)."""
        term, sums, rules = self.terms[t], self.sums(t), self.rules
        if random:
            return self.cut(term, sums, step), 0.0
        if len(term.shape) == 2:
            return search_pair(sums, rules, self.tie(step))
        update, gain = search_main(sums, rules, term.nominal, term.monotone, self.tie(step))
        return update, gain * (rules.gain_scale if term.nominal else 1)

    def key(self, stream, iteration):
        return noise_key(self.rules.seed, stream, 2 * self.rules.bag + self.rules.stage, iteration)

    def tie(self, step):
        return lambda n: int(uniform(self.key(STREAM_TIES, step), 0) * n)

    def apply(self, t, update):
        update = self.rate * update
        self.tensors[t] += update
        self.scores += update.reshape(len(update), -1)[:, self.terms[t].cells]

    def run(self):
        """Boost until the rounds are used up or early stopping; returns the tensors of the best step."""
        rules, n_terms = self.rules, len(self.terms)
        greedy = int(np.ceil(min(rules.greedy_ratio, rules.max_rounds) * n_terms))
        progress = rules.cyclic_progress if greedy else 1.0
        credit, smoothing, state, sweep = progress, rules.smoothing_rounds, 0, 0
        order, heap, cached, best = list(range(n_terms)), [], None, None
        window = Window(rules.early_stopping_rounds * n_terms, rules.early_stopping_tolerance, self.null_metric)
        kept, lowest = None, np.inf
        while len(self.log) < rules.max_rounds * n_terms:
            if state == 0:
                heap, cached, best = [], None, None
                if rules.shuffle and (sweep == 0 or greedy):
                    shuffle(order, self.key(STREAM_ORDER, sweep))
                sweep += 1
            if state >= 0:
                t, apply = order[state], credit >= 1 or smoothing > 0
            else:
                t, apply = heappop(heap)[1], True
            if cached is not None and state < 0:
                (update, key), cached = (cached, best), None
            else:
                update, gain = self.grow(t, smoothing > 0, len(self.log))
                key = (-gain, t)
                if not apply and (best is None or key < best):
                    cached, best = update, key
            heappush(heap, key)
            if apply:
                self.apply(t, update)
                self.log.append((t, update))
                self.metrics.append(self.metric())
                if self.metrics[-1] <= lowest:
                    lowest, kept = self.metrics[-1], [a.copy() for a in self.tensors]
                if window.stops(self.metrics[-1], smoothing > 0):
                    break
            state += 1
            if state == n_terms:
                if smoothing:
                    state, smoothing = 0, smoothing - 1
                else:
                    state, credit = -greedy, credit - (credit >= 1) + progress
        return kept if rules.early_stopping_rounds and kept else self.tensors


class Window:
    """Early stopping: the last `length` metrics did not beat everything older by the tolerance."""

    def __init__(self, length, tolerance, null_metric):
        self.length, self.tolerance = length, tolerance
        self.floor = 1e-6 * null_metric if tolerance >= 0 and np.isfinite(null_metric) else 0.0
        self.recent, self.older, self.best = [], np.inf, np.inf

    def stops(self, metric, smoothing):
        allowance = self.tolerance * min(abs(self.best), abs(self.older))
        allowance = (allowance if np.isfinite(allowance) else 0.0) + self.floor
        self.best = min(self.best, metric)
        if not self.length or smoothing or np.isnan(metric):
            return False
        self.recent.append(metric)
        if len(self.recent) > self.length:
            self.older = min(self.older, self.recent.pop(0))
        return self.older - allowance <= min(self.recent)


# ---------------------------------------------------------------- after boosting


def purify(tensor, weights):
    """Return (pure tensor, row effects, column effects) by alternating weighted centring, to the last digits."""
    pure, rows, columns = np.array(tensor, dtype=float), np.zeros(len(tensor)), np.zeros(tensor.shape[1])
    for _ in range(100_000):
        move = [0.0, 0.0]
        for axis, effects in ((0, rows), (1, columns)):
            share = weights.sum(axis=1 - axis)
            mean = np.divide((pure * weights).sum(axis=1 - axis), share, out=np.zeros(len(share)), where=share > 0)
            effects += mean
            pure -= mean[:, None] if axis == 0 else mean
            move[axis] = np.abs(mean).max()
        if max(move) <= 1e-15 * np.abs(tensor).max():
            break
    return pure, rows, columns
