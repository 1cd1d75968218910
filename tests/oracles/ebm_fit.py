"""Whole fit of an explainable boosting machine: bags, both stages, ranking of pairs, what follows boosting.

Built on oracles.ebm, with the same layout: tensors are (n_outputs, *cells). Rows of weight zero take no part.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from oracles.ebm import Stage, Term, gradients, pair_of, purify, strength


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
