"""Whole fit of an explainable boosting machine: bags, both stages, ranking of pairs, what follows boosting.

Built on oracles.ebm, with the same layout: tensors are (n_outputs, *cells). Rows of weight zero take no part.
"""

import itertools
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np
from scipy.optimize import brentq

from oracles import losses
from oracles.chain import mix64, noise_key
from oracles.ebm import Term, cut_main, cut_pair, pair_of, random_cuts, search_main, search_pair, strength

STREAM_ORDER, STREAM_CUTS, STREAM_TIES = 8, 9, 11


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


def perfect(loss, y):
    """Loss of a prediction that equals the target."""
    if loss not in ("poisson", "gamma", "tweedie"):
        return np.zeros(len(y))
    # The mean is the target; a target of 0 is reached in the limit.
    score = np.log(np.where(y > 0, y, 1))
    return np.where(y > 0, gradients(loss, y, score[None])[0], 0)


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
        """Mean loss of the validation rows over that of the perfect prediction."""
        if not self.val.any():
            return np.nan
        excess = gradients(self.loss, self.y, self.scores)[0] - perfect(self.loss, self.y)
        return np.average(excess, weights=self.val)

    def sums(self, t):
        _, grad, hess = gradients(self.loss, self.y, self.scores)
        return self.terms[t].sums(grad, hess, self.train)

    def grow(self, t, random, step):
        """Return (update, gain)."""
        term, sums, rules = self.terms[t], self.sums(t), self.rules
        if random:
            return self.random_update(term, sums, step), 0.0
        if len(term.shape) == 2:
            return search_pair(sums, rules, self.draw(step))
        update, gain = search_main(sums, rules, term.nominal, term.monotone, self.draw(step))
        return update, gain * (rules.gain_scale if term.nominal else 1)

    def random_update(self, term, sums, step):
        key = self.key(STREAM_CUTS, step)
        if len(term.shape) == 1:
            cuts = random_cuts(sums, self.rules.max_leaves, lambda counter: uniform(key, counter))
            return cut_main(sums, cuts, self.rules, term.monotone)
        cuts = []
        for axis in (0, 1):
            found = random_cuts(sums.sum(axis=2 - axis), 2, lambda counter: uniform(key, axis + counter))  # noqa: B023
            cuts.append(found[0] if found else None)
        return cut_pair(sums, cuts, self.rules)

    def key(self, stream, output):
        return noise_key(self.rules.seed, stream, 2 * self.rules.bag + self.rules.stage, output)

    def draw(self, step):
        key = self.key(STREAM_TIES, step)
        return lambda counter, n: int(uniform(key, counter) * n)

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
        self.kept = kept if rules.early_stopping_rounds and kept else self.tensors
        return self.kept


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


# ---------------------------------------------------------------- fits


@dataclass
class Fit:
    """`bagged[t]` is (n_bags, n_outputs, *cells of the term); `intercepts` (n_bags, n_outputs)."""

    terms: list
    features: list
    bagged: list
    intercepts: np.ndarray
    stages: list
    bag_weights: np.ndarray

    def mean(self, t):
        return np.average(self.bagged[t], axis=0, weights=self.bag_weights)

    def deviation(self, t):
        square = (self.bagged[t] - self.mean(t)) ** 2
        return np.sqrt(np.average(square, axis=0, weights=self.bag_weights))

    @property
    def intercept(self):
        return np.average(self.intercepts, axis=0, weights=self.bag_weights)

    def scores(self):
        """Raw scores of the rows, (n_outputs, n_rows)."""
        return self.intercept[:, None] + sum(
            self.mean(t).reshape(len(self.intercept), -1)[:, term.cells] for t, term in enumerate(self.terms)
        )


def start(loss, y, weight, n_outputs):
    """Link of the weighted mean; for classes the logarithms of the shares."""
    if loss == "multinomial":
        return np.log([np.average(y == k, weights=weight) for k in range(n_outputs)])
    mean = np.average(y, weights=weight)
    link = {"squared_error": lambda m: m, "binary": lambda m: np.log(m / (1 - m))}.get(loss, np.log)
    return np.array([link(mean)])


def rank_pairs(mains, coarse, fits, loss, y, rules, count):
    """Return the pairs of lowest mean rank over the bags; `fits` holds (scores, training weights) of each."""
    pairs = list(itertools.combinations(range(len(mains)), 2))
    ranks = np.zeros(len(pairs))
    for scores, weight in fits:
        _, grad, hess = gradients(loss, y, scores)
        found = [
            strength(pair_of(mains[a], mains[b], (coarse[a], coarse[b])).sums(grad, hess, weight), rules)
            for a, b in pairs
        ]
        ranks[np.argsort(-np.array(found), kind="stable")] += np.arange(len(pairs))
    return [pairs[i] for i in np.argsort(ranks, kind="stable")[:count]]


def fit(mains, coarse, loss, y, weight, bags, rules, pair_rules=None, pairs=(), n_outputs=1, purified=True):
    """Fit; `bags` is a list of (training weights, validation weights), `pairs` a number or a list of pairs.

    Pairs are boosted in the order of the list, or best first; the fit lists them by features.
    """
    runs = []
    for b, (train, val) in enumerate(bags):
        first = start(loss, y, train, n_outputs)
        scores = np.repeat(first[:, None], len(y), axis=1)
        stage = Stage(mains, loss, y, scores, train, val, replace(rules, bag=b, stage=0))
        tensors = stage.run()
        scores = scores + sum(a[:, t.cells] for a, t in zip(tensors, mains, strict=True))
        runs.append((first, stage, tensors, scores))
    if isinstance(pairs, int):
        fits = [(run[3], train) for run, (train, _) in zip(runs, bags, strict=True)]
        pairs = rank_pairs(mains, coarse, fits, loss, y, rules, pairs)
    terms = [*mains, *(pair_of(mains[a], mains[b], (coarse[a], coarse[b])) for a, b in pairs)]
    bagged, stages = [], []
    for b, ((train, val), (first, stage, tensors, scores)) in enumerate(zip(bags, runs, strict=True)):
        stages.append([stage])
        if pairs:
            second = Stage(
                terms[len(mains) :],
                loss,
                y,
                scores,
                train,
                val,
                replace(pair_rules or rules, bag=b, stage=1),
                stage.null_metric,
            )
            tensors = [*tensors, *second.run()]
            stages[-1].append(second)
        bagged.append(finish(tensors, first, terms, coarse, pairs, weight, purified))
    features = [(j,) for j in range(len(mains))] + [tuple(p) for p in pairs]
    order = sorted(range(len(terms)), key=lambda t: (len(features[t]), features[t]))
    model = Fit(
        [terms[t] for t in order],
        [features[t] for t in order],
        [np.stack([b[0][t] for b in bagged]) for t in order],
        np.stack([b[1] for b in bagged]),
        stages,
        np.array([train.sum() for train, _ in bags]),
    )
    model.intercepts = model.intercepts + correction(loss, y, weight, model)
    return model


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


def finish(tensors, intercept, terms, coarse, pairs, weight, purified):
    """Pure pairs, centred terms, zero where an axis has no rows; what is taken away goes to the intercept."""
    tensors, intercept = [np.array(t) for t in tensors], np.array(intercept)
    weights = [np.bincount(t.cells, weight, np.prod(t.shape)).reshape(t.shape) for t in terms]
    n_mains = len(tensors) - len(pairs)
    for t, (pair, tensor) in enumerate(zip(pairs, tensors[n_mains:], strict=True), start=n_mains):
        clear_empty(tensor, weights[t])
        for k in range(len(tensor)) if purified else ():
            tensor[k], *effects = purify(tensor[k], weights[t])
            for j, effect in zip(pair, effects, strict=True):
                tensors[j][k] += effect[coarse[j]]
    for tensor, w in zip(tensors, weights, strict=True):
        for k in range(len(tensor)):
            mean = np.sum(tensor[k] * w) / w.sum()
            tensor[k] -= mean
            intercept[k] += mean
        clear_empty(tensor, w)
    return tensors, intercept


def clear_empty(tensor, weights):
    """Set the missing and the unseen slices to zero where they hold no weight."""
    for axis in range(weights.ndim):
        for end in (0, weights.shape[axis] - 1):
            if np.take(weights, end, axis).sum() == 0:
                np.moveaxis(tensor, axis + 1, 0)[end] = 0


def correction(loss, y, weight, model):
    """What the intercepts need for a mean gradient of zero over all rows."""
    scores = model.scores()

    def mean_gradient(shift):
        return np.average(gradients(loss, y, scores + shift[:, None])[1], axis=1, weights=weight)

    if len(scores) == 1:
        return np.array([brentq(lambda s: mean_gradient(np.array([s]))[0], -5, 5, xtol=1e-15, rtol=1e-15)])
    shift = np.zeros(len(scores))
    for _ in range(200):
        # Each class in turn: its mean probability over that of the label.
        share = np.array([np.average(y == k, weights=weight) for k in range(len(scores))])
        shift -= np.log1p(mean_gradient(shift) / share)
    return shift - shift.mean()


def cells_of_columns(X, cuts, nominal=None):
    """Return main terms of the columns of X for the given cuts; level positions for the nominal ones."""
    terms = []
    for j, edges in enumerate(cuts):
        x = X[:, j]
        if nominal is not None and nominal[j]:
            codes, size = np.where(np.isnan(x), 0, x + 1).astype(int), edges + 2
        else:
            codes, size = np.where(np.isnan(x), 0, 1 + np.searchsorted(edges, x, side="right")), len(edges) + 3
        terms.append(Term(codes, (size,), bool(nominal is not None and nominal[j])))
    return terms
