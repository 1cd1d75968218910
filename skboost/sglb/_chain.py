"""The boosting chain on arrays: rows in codes, one tree per iteration, early stopping. No estimator inside."""

import math
from dataclasses import dataclass, replace

import numpy as np

from skboost._binning import grid_weights
from skboost._engine.grower import Trainer
from skboost._engine.langevin import leaf_normals
from skboost._forest import ForestBuilder
from skboost._random import STREAM_COINS, STREAM_COLUMNS, STREAM_HOLDOUT, STREAM_SUBSAMPLE
from skboost._sampling import copy_numbers, draw_copies, group_weights, mean_coins, split_copies
from skboost.sglb._cycle import CopyMasks

POLICIES = {"symmetric": 0, "depthwise": 1, "lossguide": 2}
# Whole-number weights up to this sum are exact copies of rows; larger ones are rounded to a grid like fractional ones.
EXACT_WEIGHT = 2**26
GRID_WEIGHT = 2**29
# Chance that the cut of a drawn split is one of the prior cuts, which part gaps and what lies beyond the data.
PRIOR_SHARE = 0.5
NO_LIMIT = 2**30

# The noise variance of squared error comes from a fit of at most this many rows and trees, read every few trees.
NOISE_ROWS = 20_000
NOISE_TREES = 100
NOISE_STEP = 10
NOISE_HOLDOUT = 0.2


@dataclass(frozen=True)
class Rows:
    """Training rows.

    Attributes
    ----------
    codes_col, codes_row : uint8 arrays
        Codes column by column and row by row.
    n_bins, is_categorical : arrays over features
        Of the bin mapper.
    y : float64 array
        Internal target of the loss.
    weight : float64 array or None
        Weight in the loss, class weights included; None means ones.
    leaf_weight : float64 array or None
        What the leaf minimum counts, when it is not `weight`.
    hashes : uint64 array or None
        Hash of each row's codes; None when nothing is drawn.
    prior_bins : tuple of arrays or None
        Of the bin mapper.
    """

    codes_col: np.ndarray
    codes_row: np.ndarray
    n_bins: np.ndarray
    is_categorical: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    leaf_weight: np.ndarray | None
    hashes: np.ndarray | None
    prior_bins: tuple | None = None

    @property
    def total_weight(self):
        """Sum of the weights, exact."""
        return float(len(self.y)) if self.weight is None else float(grid_weights(self.weight).sum())

    def take(self, weight):
        """Return the rows of positive weight, with these weights."""
        kept = np.flatnonzero(weight)
        codes_row = np.ascontiguousarray(self.codes_row[kept])
        codes_col = np.ascontiguousarray(self.codes_col[:, kept])
        return replace(
            self, codes_col=codes_col, codes_row=codes_row, y=self.y[kept], weight=weight[kept], leaf_weight=None,
            hashes=None if self.hashes is None else self.hashes[kept],
        )  # fmt: skip


@dataclass(frozen=True)
class TreeRules:
    """How trees grow; names as in the estimators.

    Attributes
    ----------
    max_leaf_nodes, max_depth : int or None
        None means no limit.
    n_features : int or None
        Columns drawn per tree, None for all.
    monotone : int8 array or None
    groups : uint8 array of shape (n_groups, n_features) or None
    newton : bool
        Newton leaves; False for losses of constant second derivative, where both are the same.
    curvature : float
        Constant that multiplies the weights in the denominators of gradient leaves.
    prior_split_rate : float
        Chance that a split is drawn instead of searched.
    spread_ties : bool
        Whether a searched cut among cells without rows is drawn; False takes the lowest.
    """

    grow_policy: str
    learning_rate: float
    max_depth: int | None
    max_leaf_nodes: int | None
    min_samples_leaf: float
    l2_regularization: float
    n_features: int | None
    subsample: float
    monotone: np.ndarray | None
    groups: np.ndarray | None
    newton: bool
    curvature: float
    prior_split_rate: float = 0.0
    spread_ties: bool = False


def weights_for_trainer(rows):
    """Return the weights as the engine takes them (None for ones) and the grid units per unit of leaf weight."""
    if rows.weight is None:
        return None, 1.0
    scale, integer = _grid(rows.weight)
    packed = {"weight": rows.weight, "scale": scale, "integer": integer, "counts": None}
    if rows.leaf_weight is None:
        return {**packed, "units": _units(rows.weight, scale)}, scale
    count_scale, whole = _grid(rows.leaf_weight)
    counts = _units(rows.leaf_weight, count_scale)
    if whole and not integer:
        # Class weights make copies of a fractional weight: rounding the weight of one copy keeps sums linear in copies.
        return {**packed, "units": _units(rows.weight / counts, scale) * counts, "counts": counts, "copies": True}, 1.0
    return {**packed, "units": _units(rows.weight, scale), "counts": counts}, count_scale


def _grid(weight):
    """Return (grid units per unit of weight, whether whole-number weights stay exact)."""
    exact = grid_weights(weight)
    total = float(exact.sum())
    if np.all(exact == np.floor(exact)) and total <= EXACT_WEIGHT:
        return 1.0, True
    return math.ldexp(1.0, math.frexp(GRID_WEIGHT)[1] - 1 - math.frexp(total)[1]), False


def _units(weight, scale):
    return np.maximum(np.rint(weight * scale), 1.0).astype(np.uint32)


class Chain:
    """A chain of trees that can be continued.

    Parameters
    ----------
    rows : Rows
    loss : Loss
        Bound to the training target.
    base_score : ndarray of shape (n_outputs,)
    rules : TreeRules
    seed : int
    n_threads : int
    sigma : float, default=0.0
        Standard deviation of the Langevin noise on the gradient of one row.
    cycle : Cycle or None, default=None
        Cyclical schedule; its masks need hashes of the rows.
    noise_scales : tuple of two arrays of shape (n_outputs,), default=None
        Factors on `sigma` in the noise of rows and of leaves.
    """

    def __init__(self, rows, loss, base_score, rules, seed, n_threads, sigma=0.0, cycle=None, noise_scales=None):
        loss = loss.for_chain(rows.y, rows.weight, rows.hashes, seed)
        self.rules, self.seed, self.sigma, self.loss = rules, seed, sigma, loss
        self.base_score = np.ascontiguousarray(base_score, dtype=np.float64)
        self.n_features = len(rows.n_bins)
        weights, units_per_weight = weights_for_trainer(rows)
        noise = None
        if sigma > 0:
            noise = {
                "hash0": rows.hashes.astype(np.uint32),
                "hash1": (rows.hashes >> np.uint64(32)).astype(np.uint32),
                "inv_root_weight": group_weights(rows.hashes, rows.weight),
            }
            if noise_scales is not None:
                noise["row_scale"], noise["leaf_scale"] = noise_scales
        self._trainer = Trainer(
            rows.codes_col, rows.codes_row, rows.n_bins, rows.is_categorical, loss, rows.y, self.base_score,
            _engine_rules(rules, units_per_weight, rows.prior_bins), weights, noise, n_threads, _coins(rows, loss),
        )  # fmt: skip
        self.cycle = cycle
        self._draw = _RowDraw(rows, weights, rules.subsample, seed, n_threads) if rules.subsample < 1 else None
        masked = cycle is not None and cycle.bootstrap is not None
        self._masks = _copy_masks(rows, weights, loss, cycle.bootstrap, seed) if masked else None
        self.builder = ForestBuilder("symmetric" if rules.grow_policy == "symmetric" else "general", loss.n_outputs)
        self.shrink_factors = []
        self._coin_values = []

    @property
    def n_iter(self):
        """Number of trees so far."""
        return len(self.shrink_factors)

    @property
    def scores(self):
        """Raw scores of the training rows less the base score, shape (n_outputs, n_rows)."""
        return self._trainer.scores[: self._trainer.n_outputs]

    @property
    def coin_values(self):
        """What each leaf adds to the fit of coins, shape (n_leaves,); None for losses that fit none."""
        return np.concatenate(self._coin_values) if self._coin_values else None

    def resume(self, forest, codes_col, n_threads, coin_values=None):
        """Start from the trees of a forest that this chain made earlier on the same rows, and their `coin_values`."""
        acc = np.zeros((codes_col.shape[1], forest.n_outputs))
        forest.accumulate(codes_col, acc, n_threads=n_threads)
        self.scores[...] = acc.T
        if coin_values is not None:
            fit = np.zeros((codes_col.shape[1], 1))
            forest.with_values(coin_values).accumulate(codes_col, fit, n_threads=n_threads)
            self._trainer.scores[-1] = fit[:, 0]
            self._coin_values = [coin_values]
        self.builder = ForestBuilder.from_forest(forest)
        self.shrink_factors = list(forest.shrink_factors)

    def step(self, shrink=1.0, gradient_scale=1.0):
        """Grow one tree; the scale of its gradients is multiplied by that of the cycle."""
        iteration = self.n_iter
        units, counts = (None, None) if self._draw is None else self._draw(iteration)
        if self.cycle is not None:
            gradient_scale *= self.cycle.gradient_scale(iteration)
        if self.loss.needs_content:
            self.loss.rows.iteration = iteration
        tree = self._trainer.grow(
            iteration, self.seed, shrink, self.sigma, gradient_scale, self._columns(iteration), units, counts,
            self._mask(iteration),
        )  # fmt: skip
        if self.loss.fits_coins:
            self._coin_values.append(tree.pop("coin_value"))
        self.builder.append(tree)
        self.shrink_factors.append(shrink)

    def finish(self):
        """Return the forest of all trees so far."""
        return self.builder.finish(self.base_score, np.array(self.shrink_factors))

    def _mask(self, iteration):
        if self._masks is None or not self.cycle.masked(iteration):
            return None
        return self._masks(iteration // self.cycle.length, iteration, self.rules.subsample)

    def _columns(self, iteration):
        wanted = self.rules.n_features
        if wanted is None or wanted >= self.n_features:
            return None
        draws = np.empty(self.n_features)
        leaf_normals(self.seed, STREAM_COLUMNS, iteration, 0, draws)
        return np.sort(np.argsort(draws, kind="stable")[:wanted]).astype(np.int32)


def _engine_rules(rules, units_per_weight, prior_bins):
    min_weight = math.ceil(rules.min_samples_leaf * units_per_weight * (1 - 1e-12))
    return {
        "policy": POLICIES[rules.grow_policy],
        "max_depth": NO_LIMIT if rules.max_depth is None else min(rules.max_depth, NO_LIMIT),
        "max_leaves": NO_LIMIT if rules.max_leaf_nodes is None else min(rules.max_leaf_nodes, NO_LIMIT),
        "min_weight": min(min_weight, 2**32 - 1),
        "l2": rules.l2_regularization,
        "learning_rate": rules.learning_rate,
        "newton": rules.newton,
        "curvature": rules.curvature,
        "monotone": rules.monotone,
        "groups": rules.groups,
        "prior_rate": rules.prior_split_rate,
        "spread_ties": rules.spread_ties,
        "prior_bins": prior_bins,
        "prior_share": PRIOR_SHARE,
    }


class _RowDraw:
    """Structure weights of the rows that a tree sees: each copy of a row with probability `fraction`."""

    def __init__(self, rows, weights, fraction, seed, n_threads):
        self.fraction, self.seed, self.n_threads, self.weights = fraction, seed, n_threads, weights
        self.keys, self.first, self.n_copies = _row_copies(rows)

    def __call__(self, iteration):
        drawn = draw_copies(
            self.fraction, self.seed, STREAM_SUBSAMPLE, iteration, self.keys, self.first, self.n_copies, self.n_threads
        )
        if self.weights is None:
            return drawn.astype(np.uint32), None
        share = drawn / self.n_copies
        counts = self.weights["counts"]
        units = np.rint(self.weights["units"] * share).astype(np.uint32)
        return units, None if counts is None else np.rint(counts * share).astype(np.uint32)


def _row_copies(rows):
    """Return keys, first and n_copies of the copies that draws of rows take."""
    counted = rows.weight if rows.leaf_weight is None else rows.leaf_weight
    return copy_numbers(rows.hashes, target_ranks(rows.y), counted)


def _coins(rows, loss):
    if not loss.fits_coins:
        return None
    # Keyed by content alone: boosting without noise depends on no seed.
    counted = rows.weight if rows.leaf_weight is None else rows.leaf_weight
    return mean_coins(0, STREAM_COINS, rows.hashes, target_ranks(rows.y), counted)


def _copy_masks(rows, weights, loss, fraction, seed):
    units = counts = None
    if weights is not None:
        units, counts = weights["units"], weights["counts"] if weights.get("copies", False) else None
    classes = rows.y if loss.name == "log_loss" else None
    return CopyMasks(fraction, seed, _row_copies(rows), classes, rows.weight, units, counts)


def target_ranks(y):
    """Return the positions of the targets among the distinct ones.

    Draws are keyed by these, so that neither the unit nor the origin of the target has an influence on them.
    """
    return np.unique(y, return_inverse=True)[1]


# ---- noise variance of squared error ---------------------------------------------------------------------------------


def held_out_variance(rows, loss, rules, seed, n_threads):
    """Return the residual variance of every output on held-out rows of a short fit without noise.

    At most `NOISE_ROWS` copies of rows take part; a fifth of them, drawn by content, is held out. The variances are
    those of the smallest sum along the path of the fit. Where no row can be held out they are those of the target.
    """
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    ranks = target_ranks(rows.y)
    n_copies = copy_numbers(rows.hashes, ranks, rows.weight)[2].sum()
    if n_copies > NOISE_ROWS:
        weight = split_copies(NOISE_ROWS, seed, STREAM_SUBSAMPLE, rows.hashes, ranks, weight)[1]
    part = rows.take(weight)
    train, held = split_copies(NOISE_HOLDOUT, seed, STREAM_HOLDOUT, part.hashes, ranks[weight > 0], part.weight)
    base = loss.base_score(rows.y, rows.weight)
    if not held.any():
        return loss.spread(rows.y, np.zeros((loss.n_outputs, len(rows.y))), base, rows.weight)
    train_rows, held_rows = part.take(train), part.take(held)
    rules = replace(rules, learning_rate=0.1, subsample=1.0, prior_split_rate=0.0, spread_ties=False)
    chain = Chain(train_rows, loss, base, rules, seed, n_threads)
    score = np.zeros((len(held_rows.y), loss.n_outputs))
    best, done = np.array([math.inf]), 0
    while True:
        found = loss.spread(held_rows.y, np.ascontiguousarray(score.T), base, held_rows.weight)
        best = min(best, found, key=sum)
        if done == NOISE_TREES:
            return best
        for _ in range(NOISE_STEP):
            chain.step()
        chain.finish().accumulate(held_rows.codes_col, score, done, done + NOISE_STEP, n_threads=n_threads)
        done += NOISE_STEP
