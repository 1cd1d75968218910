"""Updates of an explainable boosting machine from its description, slowly, in NumPy: no shared code with skboost.

Cells of an axis: 0 missing, 1..m values, the last one unseen categories. A term is an array of cells, one per row; a
pair's cell is a * size1 + b. Gradients are dL/df; scores and gradients have the shape (n_outputs, n_rows). Sums of
cells are stacked: rows G of every output, H of every output, W last.
"""

import itertools
from dataclasses import dataclass

import numpy as np

TINY = np.finfo(float).tiny


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
    """Split the line of cells, the leaf of largest gain first; returns the leaves as lists of cells."""
    leaves = [(list(order), list(floating))]
    while len(leaves) < rules.max_leaves:
        values = [monotone * value(sums[:, c + f].sum(axis=1), rules)[0] for c, f in leaves]
        values = [-np.inf, *values, np.inf]
        gains = []
        for i, (c, f) in enumerate(leaves):
            group, whole = sums[:, f].sum(axis=1), sums[:, c + f].sum(axis=1)
            gains.append(split_gains(sums[:, c], group, whole, rules, monotone, (values[i], values[i + 2])))
        tops = [g.max(initial=0) for g in gains]
        leaf = int(np.argmax(tops))
        if tops[leaf] == 0:
            break
        ties = np.argwhere(gains[leaf] == tops[leaf])
        side, cut = ties[draw(0, len(ties))]
        cells, group = leaves[leaf]
        leaves[leaf : leaf + 1] = [
            (cells[: cut + 1], group if side == 0 else []),
            (cells[cut + 1 :], group if side == 1 else []),
        ]
    return [cells + group for cells, group in leaves]


def line_of(sums, rules, nominal, draw):
    """Return (order, floating group, cells that form a leaf of their own)."""
    W = sums[-1]
    values = list(range(1, len(W) - 1))
    if nominal:
        # Missing is a level like any other; rare levels go together; one output sorts the others.
        levels = [c for c in [0, *values] if W[c] > 0]
        rare = [c for c in levels if W[c] < rules.min_cat_samples]
        G, H, _ = parts(sums)
        k = draw(1, len(G)) if len(G) > 1 else 0
        common = [c for c in levels if c not in rare]
        return sorted(common, key=lambda c: G[k, c] / (H[k, c] + rules.cat_smooth)), rare, []
    if W[0] == 0:
        return values, [], []
    if rules.missing == "separate":
        return values, [], [0]
    if rules.missing == "high":
        return [*values, 0], [], []
    if rules.missing == "low" or len(values) == 1:
        return [0, *values], [], []
    return values, [0], []


def first_of(counter, n):
    """A draw without chance."""
    return 0


def search_main(sums, rules, nominal=False, monotone=0, draw=first_of):
    """Return (update without learning rate, gain) of the best tree on one axis.

    `draw(counter, n)` is a number below n: counter 0 settles ties, 1 chooses the output that sorts levels.
    """
    order, floating, alone = line_of(sums, rules, nominal, draw)
    everything = sums.sum(axis=1)
    leaves = [order + floating]
    if len(order) > 1:
        leaves = grow_line(sums, order, floating, rules, monotone, draw)
    leaves += [alone] if alone else []
    gain = sum(score(sums[:, c].sum(axis=1), rules) for c in leaves) - score(everything, rules)
    update = np.repeat(value(everything, rules)[:, None], sums.shape[1], axis=1)
    if len(leaves) == 1 or gain < TINY:
        return update, 0.0
    for cells in leaves:
        update[:, cells] = value(sums[:, cells].sum(axis=1), rules)[:, None]
    # Cells without rows follow the rare levels, or a neighbour.
    if nominal and floating:
        update[:, sums[-1] == 0] = update[:, floating[:1]]
    elif not nominal and sums[-1, 0] == 0:
        update[:, 0] = update[:, 1]
    update[:, -1] = update[:, -2]
    return update, gain


def random_cuts(sums, max_leaves, uniforms):
    """Distinct boundaries between the cells that may hold rows; `uniforms(counter)` is a number in (0, 1)."""
    first, last = (0 if sums[-1, 0] > 0 else 1), sums.shape[1] - 2
    n, wanted = last - first, min(max_leaves - 1, last - first)
    if wanted <= 1:
        return [first + int(uniforms(0) * n)] * wanted
    cuts = []
    for b in range(n):
        # Each of the remaining boundaries with the share of those still wanted.
        if uniforms(b) * (n - b) < wanted - len(cuts):
            cuts.append(first + b)
    return cuts


def cut_main(sums, cuts, rules, monotone=0):
    """Update of a line cut after the given cells, whatever the gains; one leaf where a monotone direction is broken."""
    update = np.zeros_like(parts(sums)[0])
    for cells in np.split(np.arange(sums.shape[1]), np.add(cuts, 1)):
        update[:, cells] = value(sums[:, cells].sum(axis=1), rules)[:, None]
    # Missing values in a part of their own are free unless they are the low end of the line.
    steps = np.diff(update[0, 1 if rules.missing != "low" and cuts[:1] == [0] else 0 :])
    if np.any(monotone * steps < 0):
        update[:] = value(sums.sum(axis=1), rules)[:, None]
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


def search_pair(sums, rules, draw=first_of):
    """Return (update without learning rate, gain) of the best tree of three leaves.

    Trees that part the weight alike are one: `draw` ranks the different ones that tie but for rounding, by counter 1 +
    the place of the first of equals among all trees; counter 0 draws one of these equals.
    """
    found = list(three_leaves(sums, rules))
    best = max((g.max() for g, *_ in found), default=0.0)
    update = np.empty_like(parts(sums)[0])
    everything = sums.sum(axis=(1, 2))
    update[:] = value(everything, rules)[:, None, None]
    if best == 0:
        return update, 0.0
    least = best - min(2.0**-40 * (best + score(everything, rules)), 2.0**-10 * best)
    equal = {}
    for g, first, a, half in found:
        for b in np.flatnonzero(g >= least) + 1:
            leaf = tree_leaves(sums.shape[1:], first, a, half, b)
            seen = leaf[sums[-1] > 0]
            _, where, names = np.unique(seen, return_index=True, return_inverse=True)
            cuts = (a, b) if first == 0 else (b, a)
            place = np.ravel_multi_index((2 * first + half, cuts[0] - 1, cuts[1] - 1), (4, *sums.shape[1:]))
            equal.setdefault(tuple(np.argsort(np.argsort(where))[names]), []).append((int(place), leaf))
    classes = [sorted(trees, key=lambda t: t[0]) for trees in equal.values()]
    classes.sort(key=lambda trees: trees[0][0])
    chosen = max(classes, key=lambda trees: draw(1 + trees[0][0], 2**53))
    _, leaves = chosen[draw(0, len(chosen))]
    for i in range(3):
        update[:, leaves == i] = value(sums[:, leaves == i].sum(axis=1), rules)[:, None]
    return update, best


def tree_leaves(shape, first, a, half, b):
    """Leaf of every cell: 0 outside the half that is cut, 1 and 2 inside."""
    cells = np.indices(shape)
    inside = (cells[first] < a) == (half == 0)
    return np.where(inside, np.where(cells[1 - first] < b, 1, 2), 0)


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
