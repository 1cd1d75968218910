"""Ranking losses and the measure from their definitions, pair by pair: no shared code with skboost.

Every function takes the rows of one query in the order that breaks ties of scores.
"""

import itertools

import numpy as np


def discount(place):
    return 1 / np.log2(2 + place)


def dcg(gain_by_place, k=None):
    return sum(g * discount(i) for i, g in enumerate(gain_by_place[:k]))


def ideal_dcg(gain, k=None):
    return dcg(sorted(gain, reverse=True), k)


def by_score(score):
    """Return the rows by falling score; Python's sort is stable."""
    return sorted(range(len(score)), key=lambda row: -score[row])


def lambdarank(gain, score, *, truncation=30, sigmoid=1.0, normalize=True):
    """Return (gradients, second derivatives)."""
    n = len(gain)
    grad, hess, total = np.zeros(n), np.zeros(n), 0.0
    ideal = ideal_dcg(gain, truncation)
    if ideal == 0:
        return grad, hess
    order = by_score(score)
    divided = normalize and score[order[0]] != score[order[-1]]
    for i, j in ((first, second) for first in range(min(truncation, n)) for second in range(first + 1, n)):
        if gain[order[i]] == gain[order[j]]:
            continue
        high, low = sorted((order[i], order[j]), key=lambda row: -gain[row])
        difference = score[high] - score[low]
        delta = (gain[high] - gain[low]) * abs(discount(i) - discount(j)) / ideal
        if divided:
            delta /= 0.01 + abs(difference)
        rho = 1 / (1 + np.exp(sigmoid * difference))
        lam, eta = -sigmoid * delta * rho, sigmoid**2 * delta * rho * (1 - rho)
        grad[high] += lam
        grad[low] -= lam
        hess[high] += eta
        hess[low] += eta
        total -= 2 * lam
    factor = np.log2(1 + total) / total if normalize and total > 0 else 1.0
    return grad * factor, hess * factor


def softmax(score):
    e = np.exp(score - np.max(score))
    return e / e.sum()


def xendcg(gain, score, draws):
    """Return (gradients, second derivatives) of the third-order expansion of the cross entropy."""
    if len(gain) < 2:
        return np.zeros(len(gain)), np.zeros(len(gain))
    r, phi = softmax(score), gain + 1 - draws
    share = phi / phi.sum()
    a = (r - share) / (1 - r)
    t = r * (a.sum() - a)
    b = t / (1 - r)
    return (r - share) + t + r * (b.sum() - b), r * (1 - r)


def cross_entropy(gain, score):
    share = (gain + 0.5) / (gain + 0.5).sum()
    return -(share * np.log(softmax(score))).sum()


def mean_dcg(gain, score, k=None):
    """Return the mean of the discounted gain over all orders by falling score."""
    orders = itertools.permutations(range(len(score)))
    falling = (order for order in orders if all(score[a] >= score[b] for a, b in itertools.pairwise(order)))
    return np.mean([dcg([gain[row] for row in order], k) for order in falling])


def per_query(query, function, *columns):
    """Return the results of all queries put together; `function` gives one array or a tuple of arrays per query."""
    query = np.asarray(query)
    out = None
    for label in np.unique(query):
        here = query == label
        parts = function(*(np.asarray(column)[here] for column in columns))
        out = [np.zeros(len(query)) for _ in parts] if out is None else out
        for whole, part in zip(out, parts, strict=True):
            whole[here] = part
    return out


def lcg_draws(n, query, seed=5):
    """Return the first draws of the generator that LightGBM keeps for every query."""
    state, draws = seed + query, []
    for _ in range(n):
        state = (214013 * state + 2531011) & 0xFFFFFFFF
        draws.append(((state >> 16) & 0x7FFF) / 32768)
    return np.array(draws)
