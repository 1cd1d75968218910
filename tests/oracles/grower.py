"""One tree at a time, from the maths and slowly: no shared code with skboost but the normal draws and the gradients.

A node with gradient sums G_k and denominators D_k has the score sum_k G_k^2 / (D_k + lambda); a split is worth the
scores of its children less the parent's. Sums are integers (see oracles.histogram). A candidate counts when both
children hold at least the minimum of leaf weight and some structure weight (or second derivative). Of candidates within
1e-10 of the best the lowest bin wins, then missing left, then the lowest feature. With spread ties the cut is then
drawn among those that part the rows alike.

The split of a level, or node, may be drawn instead (oracles.drawn_splits). A child without rows is then welcome, any
other holds the minimum of leaf weight. A draw that splits no node of its level, or not its node, is forgotten.
"""

from dataclasses import dataclass, field

import numpy as np

from oracles.drawn_splits import PRIOR, SPREAD, Draws, drawn_test
from oracles.histogram import grid_of_rows, grid_of_sums, grid_of_two_sums, quantised
from skboost._engine import langevin, losses

SYMMETRIC, DEPTHWISE, LOSSGUIDE = 0, 1, 2
GAUSSIAN = 4
TIE = 1e-10
ONE_HOT = 4
CATEGORY_SMOOTHING = 10.0
STREAM_STRUCT, STREAM_LEAF = 1, 2
NO_LIMIT = 2**30


@dataclass
class Rules:
    """Growth rules; min_weight is in grid units of the leaf weights."""

    policy: int = DEPTHWISE
    max_depth: int = 6
    max_leaves: int = NO_LIMIT
    min_weight: int = 1
    l2: float = 1.0
    learning_rate: float = 0.1
    newton: bool = False
    curvature: float = 1.0
    monotone: np.ndarray | None = None
    groups: np.ndarray | None = None
    prior_rate: float = 0.0
    prior_share: float = 0.0
    prior_bins: tuple | None = None
    spread_ties: bool = False


@dataclass
class Test:
    """A test of rows: a numeric threshold with the side of the missing bin, or a set of codes that go left."""

    feature: int
    threshold: int = 0
    missing_right: bool = False
    left_codes: frozenset | None = None

    def goes_left(self, codes):
        column = codes[:, self.feature]
        if self.left_codes is not None:
            return np.isin(column, list(self.left_codes))
        return np.where(column == 0, not self.missing_right, column <= self.threshold)

    def bitset(self):
        bits = np.zeros(256, dtype=np.uint8)
        bits[list(self.left_codes)] = 1
        return np.packbits(bits, bitorder="little")


@dataclass
class Node:
    """A node with its rows; `test` and children are set once it is split."""

    rows: np.ndarray
    depth: int = 0
    low: float = -np.inf
    high: float = np.inf
    groups: np.ndarray | None = None
    test: Test | None = None
    gain: float = 0.0
    left: int = -1
    right: int = -1
    level: int = -1
    choice: tuple | None = field(default=None, repr=False)
    searched_gain: float = 0.0


class Twin:
    """Grows trees like `skboost._engine.grower.Trainer`; arguments as there, codes of shape (n_rows, n_features)."""

    def __init__(self, codes, n_bins, categorical, loss, y, base, rules, weights=None, noise=None, coins=None):
        self.codes, self.n_bins, self.categorical = codes, n_bins, categorical
        self.loss, self.y, self.base, self.rules = loss, y, base, rules
        self.weights, self.noise, self.coins = weights, noise, coins
        ones = np.ones(loss.n_outputs)
        self.row_scale, self.leaf_scale = ((noise or {}).get(name, ones) for name in ("row_scale", "leaf_scale"))
        self.scores = np.zeros((loss.n_outputs + (coins is not None), len(y)))
        n = len(y)
        self.scale = 1.0 if weights is None else weights["scale"]
        self.integer = True if weights is None else weights["integer"]
        self.units = np.ones(n, dtype=np.int64) if weights is None else weights["units"].astype(np.int64)
        self.counts = self.units if weights is None or weights["counts"] is None else weights["counts"].astype(np.int64)

    # ------------------------------------------------------------ one iteration

    def grow(
        self, iteration, seed, shrink=1.0, sigma=0.0, gradient_scale=1.0, features=None, units=None, counts=None,
        mask=None,
    ):  # fmt: skip
        """Return the tree as the arrays that Trainer.grow returns."""
        self.iteration, self.seed, self.sigma = iteration, seed, sigma
        self.features = range(self.codes.shape[1]) if features is None else [int(f) for f in features]
        own = self.units, self.counts
        if units is not None:
            self.units = units.astype(np.int64)
            self.counts = self.units if counts is None else counts.astype(np.int64)
        self.scores *= shrink
        scores = self.scores[: self.loss.n_outputs]
        grad, hess = losses.gradients(self.loss, self.y, scores, self.base, self.rules.newton)
        if self.coins is not None:
            grad = self.with_coins(grad, hess)
        self.grad, self.hess, self.gradient_scale = grad * np.float32(gradient_scale), hess, gradient_scale
        self.mask = mask
        self.quantise(self.with_noise(self.grad))
        self.nodes = [Node(np.arange(len(self.y)))]
        if self.rules.groups is not None:
            self.nodes[0].groups = np.ones(len(self.rules.groups), dtype=bool)
        self.levels = []
        {SYMMETRIC: self.grow_symmetric, DEPTHWISE: self.grow_depthwise, LOSSGUIDE: self.grow_lossguide}[
            self.rules.policy
        ]()
        tree = self.export()
        self.units, self.counts = own
        return tree

    def with_coins(self, grad, hess):
        """Gradients of mean, log deviation and fit of the coins: mean squares of what is left of these replace 1."""
        left = self.scores[2] - self.coins
        square = left**2 + 1 - self.coins.astype(np.float64) ** 2
        log_sd = grad[1] + (square - 1) * (1.0 if self.rules.newton else 0.5)
        left = left.astype(np.float32) * (hess[0] if self.rules.newton else 1)
        return np.stack([grad[0], log_sd, left]).astype(np.float32)

    def with_noise(self, grad):
        """Gradients with structure noise: sigma / sqrt(W of the group of equal rows) times one draw per row content."""
        if self.sigma == 0:
            return grad
        noisy = np.empty_like(grad)
        for k in range(self.loss.n_outputs):
            draw = np.empty(len(self.y), dtype=np.float32)
            langevin.row_normals(
                self.noise["hash0"], self.noise["hash1"], self.seed, STREAM_STRUCT, self.iteration, k, draw
            )
            draw = draw * self.noise["inv_root_weight"]
            if self.has_metric():
                draw = draw / np.sqrt(self.hess[k])
            noisy[k] = grad[k] + np.float32(self.sigma * self.row_scale[k]) * draw
        return noisy

    def has_metric(self):
        """Whether rows have a Fisher information F each: their noise then has the variance sigma^2 / F."""
        return self.loss.kind == GAUSSIAN and not self.rules.newton

    def quantise(self, noisy):
        """Integer gradient and denominator of every row, and the value of one unit of each sum."""
        outputs = range(self.loss.n_outputs)
        per_weight = 1.0 / self.scale
        if self.mask is None:
            scales = [grid_of_sums(noisy[k], self.units) for k in outputs]
            self.G = np.stack([quantised(noisy[k], scales[k], self.units, self.integer) for k in outputs])
        else:
            kept = self.mask["units"].astype(np.int64)
            other, noise = self.units - kept, self.with_noise(np.zeros_like(self.grad))
            scales = [grid_of_two_sums(noisy[k], kept, noise[k], other) for k in outputs]
            G = [quantised(noisy[k], scales[k], kept, self.integer) for k in outputs]
            self.G = np.stack([G[k] + quantised(noise[k], scales[k], other, self.integer) for k in outputs])
        self.g_unit = np.array([per_weight / s for s in scales])
        if self.rules.newton:
            scales = [grid_of_sums(self.hess[k], self.units) for k in outputs]
            self.D = np.stack([quantised(self.hess[k], scales[k], self.units, self.integer) for k in outputs])
            self.d_unit = np.array([per_weight / s for s in scales])
        else:
            self.D = self.units[None].astype(np.int64)
            self.d_unit = np.array([per_weight * self.rules.curvature])

    # ------------------------------------------------------------ scores

    def sums(self, rows):
        """Gradient sums, denominator sums and leaf weight of some rows, all integers."""
        return self.G[:, rows].sum(axis=1), self.D[:, rows].sum(axis=1), int(self.counts[rows].sum())

    def real(self, G, D):
        g, d = G * self.g_unit, D * self.d_unit + self.rules.l2
        return g, np.broadcast_to(d, g.shape)

    def value(self, G, D, node):
        """Unscaled value of a node, within its bounds; an output without a denominator stays where it is."""
        g, d = self.real(G, D)
        return np.clip(np.divide(-g, d, out=np.zeros_like(g), where=d > 0), node.low, node.high)

    def score(self, G, D, node):
        g, d = self.real(G, D)
        if self.rules.monotone is None:
            return float(np.sum(np.divide(g * g, d, out=np.zeros_like(g), where=d > 0)))
        v = self.value(G, D, node)
        return float(np.sum(-2 * g * v - d * v * v))

    def pair_score(self, node, feature, left, total):
        """Score of two children, or None when the candidate is not admissible. left, total: (G, D, weight)."""
        right = tuple(t - x for t, x in zip(total, left, strict=True))
        if min(left[2], right[2]) < self.rules.min_weight or min(left[1].sum(), right[1].sum()) < 1:
            return None
        if self.breaks_order(node, feature, left, right):
            return None
        return self.score(*left[:2], node) + self.score(*right[:2], node)

    def breaks_order(self, node, feature, left, right):
        sign = 0 if self.rules.monotone is None else self.rules.monotone[feature]
        return sign and sign * self.value(*left[:2], node)[0] > sign * self.value(*right[:2], node)[0]

    # ------------------------------------------------------------ candidates

    def by_code(self, node, feature):
        """Sums of the node's rows per code of the feature: G (k, bins), D (k or 1, bins), weight (bins)."""
        column, bins = self.codes[node.rows, feature], self.n_bins[feature]
        G = np.zeros((len(self.G), bins), dtype=np.int64)
        D = np.zeros((len(self.D), bins), dtype=np.int64)
        C = np.zeros(bins, dtype=np.int64)
        np.add.at(G, (slice(None), column), self.G[:, node.rows])
        np.add.at(D, (slice(None), column), self.D[:, node.rows])
        np.add.at(C, column, self.counts[node.rows])
        return G, D, C

    def has_sums(self, node, feature):
        """Codes of the feature whose sums are not all zero in the node."""
        G, D, _ = self.by_code(node, feature)
        return np.any(G != 0, axis=0) | np.any(D != 0, axis=0)

    def category_order(self, node, feature):
        """Codes with sums in the order in which they are added to the left side."""
        G, D, _ = self.by_code(node, feature)
        present = np.flatnonzero(self.has_sums(node, feature))
        if self.n_bins[feature] - 1 <= ONE_HOT or len(present) == 0:
            return present.tolist()
        g, d = G[:, present] * self.g_unit[:, None], D[:, present] * self.d_unit[:, None] + self.rules.l2
        d = np.where(d > 0, d, np.inf) + CATEGORY_SMOOTHING
        output = int(np.argmax(np.sum(g * g / d, axis=1)))
        key = (g / d)[output]
        return present[np.argsort(key, kind="stable")].tolist()

    def candidates(self, node, feature, missing, order):
        """Yield (test, sums of the left side) in order of preference among equals."""
        G, D, C = self.by_code(node, feature)

        def sums(codes):
            return G[:, codes].sum(axis=1), D[:, codes].sum(axis=1), int(C[codes].sum())

        if self.categorical[feature]:
            one_hot = self.n_bins[feature] - 1 <= ONE_HOT
            for i in range(len(order)):
                codes = [order[i]] if one_hot else order[: i + 1]
                yield Test(feature, left_codes=frozenset(codes)), sums(codes)
            return
        for last in range(1, self.n_bins[feature]):
            below = list(range(1, last + 1))
            if missing and last < self.n_bins[feature] - 1:
                yield Test(feature, last, False), sums([0, *below])
            if missing or last < self.n_bins[feature] - 1:
                yield Test(feature, last, True), sums(below)

    @staticmethod
    def first_of_best(found):
        """First of (score, ...) within a tie of the largest score; its score becomes the largest."""
        found = [f for f in found if f is not None and f[0] is not None]
        if not found:
            return None
        top = max(f[0] for f in found)
        return next((top, *f[1:]) for f in found if f[0] >= top - TIE * abs(top))

    def allowed(self, node, feature):
        return self.rules.groups is None or bool(np.any(node.groups & (self.rules.groups[:, feature] != 0)))

    def best_split(self, node, number):
        """Return (gain, test, left sums) or None."""
        total = self.sums(node.rows)
        per_feature = []
        for feature in self.features:
            if not self.allowed(node, feature):
                continue
            missing = self.has_sums(node, feature)[0]
            order = self.category_order(node, feature) if self.categorical[feature] else None
            found = [
                (self.pair_score(node, feature, left, total), test, left)
                for test, left in self.candidates(node, feature, missing, order)
            ]
            per_feature.append(self.first_of_best(found))
        best = self.first_of_best(per_feature)
        if best is None:
            return None
        gain = best[0] - self.score(*total[:2], node)
        if gain <= TIE * abs(best[0]):
            return None
        test = self.spread([node], best[1], number)
        return gain, self.complete(node, test, best[2], total), best[2]

    def spread(self, nodes, test, number):
        """Draw the cut among those that part the rows of all nodes alike."""
        if not self.rules.spread_ties or test.left_codes is not None:
            return test
        weight = sum(self.by_code(node, test.feature)[2] for node in nodes)
        filled = [b for b in range(test.threshold + 1, len(weight)) if weight[b] > 0]
        cuts = range(test.threshold, min([*filled, len(weight)]))
        cut = Draws(self.seed, self.iteration, number).one_of(SPREAD, cuts)
        return Test(test.feature, cut, test.missing_right)

    def complete(self, node, test, left, total):
        """Send codes without sums in the node to the heavier side, left when both weigh the same."""
        heavier_left = 2 * left[1].sum() >= total[1].sum()
        sums = self.has_sums(node, test.feature)
        if test.left_codes is None:
            return test if sums[0] else Test(test.feature, test.threshold, not heavier_left)
        empty = [c for c in range(256) if c >= len(sums) or not sums[c]]
        return Test(test.feature, left_codes=test.left_codes | frozenset(empty if heavier_left else []))

    # ------------------------------------------------------------ drawn splits

    def draw(self, group_node, number):
        """Return the drawn test of a level or node, or None when its split is searched."""
        draws = Draws(self.seed, self.iteration, number)
        if not draws.chance(PRIOR, self.rules.prior_rate):
            return None
        features = [f for f in self.features if self.allowed(group_node, f)]
        drawn = drawn_test(draws, features, self.n_bins, self.categorical, self.rules)
        return None if drawn is None else Test(*drawn)

    def apply_drawn(self, node, test):
        """Return (gain, left sums) of a drawn test, or None when a child is too light or the values break the order."""
        goes_left = test.goes_left(self.codes[node.rows])
        sides = node.rows[goes_left], node.rows[~goes_left]
        left, right = (self.sums(rows) for rows in sides)
        if any(len(r) > 0 and x[2] < self.rules.min_weight for r, x in zip(sides, (left, right), strict=True)):
            return None
        if self.breaks_order(node, test.feature, left, right):
            return None
        scores = [self.score(*x[:2], node) for x in (left, right, self.sums(node.rows))]
        return scores[0] + scores[1] - scores[2], left

    def drawn_split(self, node, number):
        """Return (gain, test, left sums) or None."""
        test = self.draw(node, number)
        found = None if test is None else self.apply_drawn(node, test)
        return None if found is None else (max(0.0, found[0]), test, found[1])

    def drawn_level(self, scanned):
        """Return (sum of gains, test) or None."""
        test = self.draw(self.nodes[0], len(self.levels))
        if test is None:
            return None
        found = [f for f in (self.apply_drawn(self.nodes[i], test) for i in scanned) if f is not None]
        return (max(0.0, sum(gain for gain, _ in found)), test) if found else None

    # ------------------------------------------------------------ growth

    def can_split(self, node):
        """One row can be drawn apart from nothing, and a row of weight 2 is two rows."""
        weight, several = self.counts[node.rows].sum(), len(node.rows) > 1 or self.rules.prior_rate > 0
        return several and weight >= 2 * self.rules.min_weight and node.depth < self.rules.max_depth

    def split(self, index, test, gain, left_sums):
        """Give a node its test and append its children."""
        node = self.nodes[index]
        goes_left = test.goes_left(self.codes[node.rows])
        children = [Node(node.rows[side], node.depth + 1, node.low, node.high) for side in (goes_left, ~goes_left)]
        sign = 0 if self.rules.monotone is None else self.rules.monotone[test.feature]
        if sign:
            total = self.sums(node.rows)
            right = tuple(t - x for t, x in zip(total[:2], left_sums[:2], strict=True))
            values = self.value(*left_sums[:2], node), self.value(*right, node)
            middle = 0.5 * (values[0][0] + values[1][0])
            lower, upper = children if sign > 0 else children[::-1]
            lower.high = upper.low = middle
        for child in children:
            if self.rules.groups is not None:
                child.groups = node.groups & (self.rules.groups[:, test.feature] != 0)
        node.test, node.gain = test, gain
        node.left, node.right = len(self.nodes), len(self.nodes) + 1
        self.nodes += children
        return [node.left, node.right]

    def consider(self, indices):
        """Choose the splits of nodes; return those that have one. A drawn one does not move its node in the queue."""
        for i in indices:
            node = self.nodes[i]
            if not self.can_split(node):
                continue
            best = self.best_split(node, i)
            node.searched_gain = 0.0 if best is None else best[0]
            node.choice = self.drawn_split(node, i) or best
        return [i for i in indices if self.nodes[i].choice is not None]

    def split_chosen(self, index):
        gain, test, left = self.nodes[index].choice
        return self.split(index, test, gain, left)

    def grow_depthwise(self):
        leaves, level = 1, self.consider([0]) if self.rules.max_leaves > 1 else []
        while level:
            while len(level) > self.rules.max_leaves - leaves:
                gains = [self.nodes[i].searched_gain for i in level]
                level.pop(max(i for i, g in enumerate(gains) if g == min(gains)))
            leaves += len(level)
            level = self.consider([child for i in level for child in self.split_chosen(i)])

    def grow_lossguide(self):
        leaves, waiting = 1, self.consider([0])
        while waiting and leaves < self.rules.max_leaves:
            index = max(waiting, key=lambda i: (self.nodes[i].searched_gain, -i))
            waiting.remove(index)
            leaves += 1
            waiting += self.consider(self.split_chosen(index))

    # ------------------------------------------------------------ symmetric trees

    def grow_symmetric(self):
        scanned = [0] if self.can_split(self.nodes[0]) else []
        root = self.nodes[0]
        self.missing = {f: self.has_sums(root, f)[0] for f in self.features}
        self.order = {f: self.category_order(root, f) for f in self.features if self.categorical[f]}
        leaves = 1
        while scanned and len(self.levels) < self.rules.max_depth and leaves < self.rules.max_leaves:
            drawn = self.drawn_level(scanned)
            gain, test = drawn or self.best_level(scanned) or (0.0, None)
            if test is None:
                return
            sums = {i: self.level_sums(i, test, drawn is not None) for i in scanned}
            opened = [i for i in scanned if sums[i][1]][: self.rules.max_leaves - leaves]
            if not opened:
                return
            if drawn is None:
                test = self.complete_level(test, opened)
            following = []
            for i in scanned:
                left, _, light = sums[i]
                if i in opened and not light:
                    following += [c for c in self.split(i, test, 0.0, left) if self.can_split(self.nodes[c])]
                    self.nodes[i].level = len(self.levels)
                    leaves += 1
                else:
                    following.append(i)
            if root.groups is not None:
                root.groups = root.groups & (self.rules.groups[:, test.feature] != 0)
            self.levels.append((test, gain))
            scanned = following

    def best_level(self, scanned):
        """Return (sum of gains, test) of the best test for all nodes together, or None."""
        per_feature = []
        scores = {i: self.score(*self.sums(self.nodes[i].rows)[:2], self.nodes[i]) for i in scanned}
        for feature in self.features:
            if not self.allowed(self.nodes[0], feature):
                continue
            gains, tests = None, None
            for i in scanned:
                node, total = self.nodes[i], self.sums(self.nodes[i].rows)
                pairs = list(self.candidates(node, feature, self.missing[feature], self.order.get(feature)))
                found = [self.pair_score(node, feature, left, total) for _, left in pairs]
                step = np.array([0.0 if f is None else f - scores[i] for f in found])
                gains = step if gains is None else gains + step
                tests = [test for test, _ in pairs]
            per_feature.append(self.first_of_best(list(zip(gains.tolist(), tests, strict=True))))
        best = self.first_of_best(per_feature)
        if best is None or best[0] <= TIE * abs(sum(scores.values()) + best[0]):
            return None
        return best[0], self.spread([self.nodes[i] for i in scanned], best[1], len(self.levels))

    def level_sums(self, index, test, drawn=False):
        """Return (left sums, whether the test may split the node, whether a child is too light)."""
        node = self.nodes[index]
        if drawn:
            found = self.apply_drawn(node, test)
            return (None, False, False) if found is None else (found[1], True, False)
        total = self.sums(node.rows)
        left = self.sums(node.rows[test.goes_left(self.codes[node.rows])])
        right = tuple(t - x for t, x in zip(total, left, strict=True))
        light = min(left[2], right[2]) < self.rules.min_weight
        direct = self.counts is self.units and not self.rules.newton
        valid = min(left[1].sum(), right[1].sum()) >= 1 and not (direct and light)
        return left, valid and not self.breaks_order(node, test.feature, left, right), light

    def complete_level(self, test, opened):
        """Codes that no row of the root has follow the heavier side of the nodes that the level opens."""
        left = sum(int(self.level_sums(i, test)[0][1].sum()) for i in opened)
        heavier_left = 2 * left >= sum(int(self.sums(self.nodes[i].rows)[1].sum()) for i in opened)
        if test.left_codes is None:
            return test if self.missing[test.feature] else Test(test.feature, test.threshold, not heavier_left)
        empty = set(range(256)) - set(self.order[test.feature])
        return Test(test.feature, left_codes=test.left_codes | (empty if heavier_left else set()))

    # ------------------------------------------------------------ leaves

    def leaf_values(self, leaves):
        """Values -lr (G + sigma sqrt(D) xi) / D of noise-free sums over all rows, and the weights of the leaves."""
        outputs, rules = len(self.scores), self.rules
        weight = np.ones(len(self.y)) if self.weights is None else self.weights["weight"] * self.scale
        values, weights = np.zeros((len(leaves), outputs)), np.zeros(len(leaves))
        for k in range(outputs):
            draws = np.empty(len(leaves))
            langevin.leaf_normals(self.seed, STREAM_LEAF, self.iteration, k, draws)
            for i, node in enumerate(leaves):
                coin = k == self.loss.n_outputs
                W = self.leaf_weight(node.rows)
                G = self.fine_gradient(k, node.rows, weight)
                H = self.fine_sum(self.hess[0 if coin else k], node.rows, weight) if self.hess is not None else 0.0
                D = (H if rules.newton else rules.curvature * W) + rules.l2
                if self.loss.kind == GAUSSIAN and k == 1:
                    D -= min(G / self.gradient_scale, 0.5 * D)  # mean of expected and observed information
                weights[i] = W
                if W <= 0:
                    values[i, k] = rules.learning_rate * max(node.low, min(node.high, 0.0))
                if W <= 0 or D <= 0:
                    continue
                if self.sigma > 0 and not coin:
                    resolution = 0.5 / self.scale / grid_of_rows(self.hess[k]) if self.has_metric() else 0.0
                    metric = W / max(H, resolution) if self.has_metric() else 1.0
                    G += self.sigma * self.leaf_scale[k] * np.sqrt(D * metric) * draws[i]
                value = -G / D
                if rules.monotone is not None:
                    value = max(node.low, min(node.high, value))
                values[i, k] = rules.learning_rate * value
        return values, weights

    def fine_gradient(self, k, rows, weight):
        if self.mask is None:
            return self.fine_sum(self.grad[k], rows, weight)
        one = self.mask["copy_weight"]
        one = (np.ones(len(self.y)) if one is None else one) * self.scale
        scale = grid_of_rows(self.grad[k])
        whole = np.rint(self.grad[k][rows].astype(np.float64) * scale)
        of_copy = np.rint(whole * one[rows]).astype(np.int64)
        return int((of_copy * self.mask["kept"][rows].astype(np.int64)).sum()) / self.scale / scale

    def fine_sum(self, values, rows, weight):
        scale = grid_of_rows(values)
        whole = np.rint(values[rows].astype(np.float64) * scale)
        return int(np.rint(whole * weight[rows]).astype(np.int64).sum()) / self.scale / scale

    def leaf_weight(self, rows):
        if self.weights is None:
            return float(len(rows))
        fine = self.scale * 2.0**30
        return int(np.rint(self.weights["weight"][rows] * fine).astype(np.int64).sum()) / fine

    # ------------------------------------------------------------ arrays

    def export(self):
        inner = [n for n in self.nodes if n.test is not None]
        leaves = [n for n in self.nodes if n.test is None]
        number = {id(n): i for i, n in enumerate(inner)} | {id(n): ~i for i, n in enumerate(leaves)}
        tests = [t for t, _ in self.levels] if self.rules.policy == SYMMETRIC else [n.test for n in inner]
        gains = [g for _, g in self.levels] if self.rules.policy == SYMMETRIC else [n.gain for n in inner]
        tree = export_tests(tests, gains)
        if self.rules.policy == SYMMETRIC:
            tree["table"] = np.array([~number[id(self.walk(code))] for code in range(1 << len(tests))], dtype=np.int32)
        else:
            tree["left"] = np.array([number[id(self.nodes[n.left])] for n in inner], dtype=np.int32)
            tree["right"] = np.array([number[id(self.nodes[n.right])] for n in inner], dtype=np.int32)
        tree["leaf_value"], tree["leaf_weight"] = self.leaf_values(leaves)
        for node, value in zip(leaves, tree["leaf_value"], strict=True):
            self.scores[:, node.rows] += value[:, None]
        if self.coins is not None:
            tree["coin_value"], tree["leaf_value"] = tree["leaf_value"][:, 2], tree["leaf_value"][:, :2]
        return tree

    def walk(self, code):
        """Leaf of a symmetric tree whose level tests have the outcomes `code` (bit set: right)."""
        node = self.nodes[0]
        for level in range(len(self.levels)):
            if node.level == level:
                node = self.nodes[node.right if code >> level & 1 else node.left]
        return node


def export_tests(tests, gains):
    categorical = [t for t in tests if t.left_codes is not None]
    position = iter(range(len(categorical)))
    return {
        "feature": np.array([t.feature for t in tests], dtype=np.int32),
        "threshold": np.array([t.threshold if t.left_codes is None else 0 for t in tests], dtype=np.uint8),
        "missing_right": np.array([t.left_codes is None and t.missing_right for t in tests], dtype=np.uint8),
        "cat_set": np.array([-1 if t.left_codes is None else next(position) for t in tests], dtype=np.int32),
        "cat_sets": np.array([t.bitset() for t in categorical], dtype=np.uint8).reshape(-1, 32),
        "gain": np.array(gains, dtype=np.float64),
    }


def leaf_of_rows(tree, codes):
    """Return the leaf number of every row of codes (n_rows, n_features), by the format of the contract alone."""
    n_tests = len(tree["feature"])
    left = np.stack([goes_left(tree, i, codes) for i in range(n_tests)]) if n_tests else np.empty((0, len(codes)))
    if "table" in tree:
        index = np.zeros(len(codes), dtype=int)
        for level in range(n_tests):
            index |= (~left[level]).astype(int) << level
        return tree["table"][index]
    out = np.zeros(len(codes), dtype=int)
    for row in range(len(codes)):
        node = 0 if n_tests else ~0
        while node >= 0:
            node = tree["left" if left[node, row] else "right"][node]
        out[row] = ~node
    return out


def goes_left(tree, i, codes):
    column = codes[:, tree["feature"][i]].astype(int)
    if tree["cat_set"][i] >= 0:
        bits = np.unpackbits(tree["cat_sets"][tree["cat_set"][i]], bitorder="little")
        return bits[column].astype(bool)
    missing_left = not tree["missing_right"][i]
    return np.where(column == 0, missing_left, column <= int(tree["threshold"][i]))
