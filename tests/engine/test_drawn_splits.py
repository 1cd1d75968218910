"""Splits that are drawn: their laws with known answers, leaves without rows, and cases that are rare in the fuzz."""

import numpy as np
import pytest
from engine.test_grower import (
    WEIGHTS,
    assert_identical,
    assert_true_to_rows,
    chain,
    compare_with_twin,
    every_policy,
    random_mask,
    random_prior,
)
from numpy.testing import assert_array_equal
from oracles.drawn_splits import SPREAD, Draws
from oracles.grower import DEPTHWISE, LOSSGUIDE, SYMMETRIC, leaf_of_rows
from oracles.problems import LOSSES, make_noise, make_problem
from scipy.stats import binom, chisquare


def prior_bins(n_features, cuts):
    """Cuts that do not follow the data as the engine takes them; cuts: {feature: last left bins}."""
    bins, count = np.zeros((n_features, 128), dtype=np.uint8), np.zeros(n_features, dtype=np.int32)
    for feature, values in cuts.items():
        bins[feature, : len(values)], count[feature] = values, len(values)
    return bins, count


def table(codes, y, **options):
    """Return a problem of squared error with these rows, the base 0 and no penalty unless asked for."""
    codes = np.array(codes, dtype=np.uint8)
    problem = make_problem(0, n=len(codes), n_bins=options.pop("n_bins"), **({"l2": 0.0} | options))
    problem.codes, problem.y, problem.base = codes, np.array(y, dtype=float), np.zeros(1)
    return problem


# ---------------------------------------------------------------- how often what is drawn


def stumps(problem, n=2000, **step):
    """Drawn tests of many trees of depth 1, one per row of arrays."""
    trainer = problem.trainer()
    trees = [trainer.grow(i, 5, shrink=0.0, **step) for i in range(n)]
    assert all(len(tree["feature"]) == 1 for tree in trees)
    return {key: np.concatenate([tree[key] for tree in trees]) for key in ("feature", "threshold", "missing_right")}


def assert_share(found, share):
    """A two-sided binomial test at 1 in 10,000."""
    low, high = binom.interval(1 - 1e-4, len(found), share)
    assert low <= np.sum(found) <= high


def assert_uniform(found, values):
    counts = np.bincount(found, minlength=max(values) + 1)
    assert counts.sum() == counts[list(values)].sum()
    assert chisquare(counts[list(values)]).pvalue > 1e-4


@every_policy
def test_features_cuts_and_sides_are_drawn_alike(policy):
    """Features with a value bin uniformly; the missing bin alone with 1 in 16, or 1 in the number of values."""
    problem = make_problem(1, n=40, n_bins=(12, 1, 40, 4, 2), policy=policy, max_depth=1, prior_rate=1.0)
    drawn = stumps(problem)
    assert_uniform(drawn["feature"], (0, 2, 3, 4))
    for feature, values in ((0, 11), (2, 39), (3, 3), (4, 1)):
        own = drawn["feature"] == feature
        cut, right = drawn["threshold"][own], drawn["missing_right"][own]
        alone = cut == values
        assert_share(alone, max(1 / 16, 1 / values))
        assert np.all(right[alone] == 1)
        if values > 2:
            assert_uniform(cut[~alone], range(1, values))
            assert_share(right[~alone], 0.5)


@every_policy
def test_only_listed_features_of_an_allowed_group_are_drawn(policy):
    groups = np.array([[1, 1, 0, 0], [0, 0, 0, 1]], dtype=np.uint8)
    problem = make_problem(1, n=40, policy=policy, max_depth=1, prior_rate=1.0, groups=groups)
    drawn = stumps(problem, 600, features=np.array([1, 2, 3], dtype=np.int32))
    assert_uniform(drawn["feature"], (1, 3))
    problem.rules.max_depth, trainer = 2, problem.trainer()
    for iteration in range(30):  # a group that is left is left for good
        assert set(trainer.grow(iteration, 5)["feature"].tolist()) in ({0}, {1}, {0, 1}, {3})


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_cuts_that_do_not_follow_the_data_are_preferred(share):
    bins = prior_bins(2, {0: [3, 8, 17]})
    problem = make_problem(
        1, n=40, n_bins=(21, 21), max_depth=1, prior_rate=1.0, prior_share=share, prior_bins=bins
    )  # fmt: skip
    drawn = stumps(problem, 3000)
    plain = drawn["threshold"][drawn["feature"] == 1]
    assert_uniform(plain[plain < 20], range(1, 20))
    cut = drawn["threshold"][drawn["feature"] == 0]
    preferred = np.isin(cut[cut < 20], [3, 8, 17])
    assert_share(preferred, share + (1 - share) * 3 / 19)
    assert_uniform(np.searchsorted([3, 8, 17], cut[cut < 20][preferred]), range(3))


def test_every_order_of_categories_is_drawn():
    """Of 5 values: the missing one alone with 1/5, else 1 to 4 values go left, and any of them alike."""
    problem = make_problem(1, n=40, n_bins=(6,), categorical=[0], max_depth=1, prior_rate=1.0)
    trainer = problem.trainer()
    sets = np.stack([trainer.grow(i, 5)["cat_sets"][0] for i in range(4000)])
    bits = np.unpackbits(sets, axis=1, bitorder="little")
    assert not bits[:, 6:].any()
    size = bits[:, 1:6].sum(axis=1)
    assert_share(size == 5, 1 / 5)
    assert not bits[size == 5, 0].any()
    assert_uniform(size[size < 5], range(1, 5))
    assert_share(bits[size < 5, 0], 0.5)
    for k in range(1, 5):
        for value in range(1, 6):
            assert_share(bits[size == k, value], k / 5)


def test_a_share_of_the_levels_and_nodes_is_drawn():
    """A feature that no search would choose is found in half of the drawn stumps."""
    codes = np.array([[1 + i % 2, 1 + i // 2 % 2] for i in range(40)])
    problem = table(codes, codes[:, 0], n_bins=(3, 3), max_depth=1, prior_rate=0.3)
    for problem.rules.policy in (SYMMETRIC, DEPTHWISE, LOSSGUIDE):
        trees = [problem.trainer().grow(i, 5) for i in range(1500)]
        assert_share(np.array([tree["feature"][0] == 1 for tree in trees]), 0.15)


@every_policy
def test_gradients_have_no_influence_on_draws(policy):
    """Deeper trees that open one leaf at a time number their nodes by gains."""
    problem = make_problem(2, n=400, policy=policy, max_depth=1 if policy == LOSSGUIDE else 3, prior_rate=1.0)
    other = problem.take(np.arange(400))
    other.y = problem.y[::-1] ** 3
    one, two = problem.trainer(), other.trainer()
    for iteration in range(5):
        trees = one.grow(iteration, 9), two.grow(iteration, 9)
        for key in ("feature", "threshold", "missing_right"):
            assert_array_equal(trees[0][key], trees[1][key])
        assert not np.array_equal(trees[0]["leaf_value"], trees[1]["leaf_value"])


# ---------------------------------------------------------------- leaves without rows


@every_policy
@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("sigma", [0.0, 3.0])
def test_leaves_without_rows_are_worth_nothing(policy, newton, sigma):
    """Also with noise, which they do not take."""
    codes = np.full((30, 1), 5)
    problem = table(codes, np.arange(30), n_bins=(10,), policy=policy, max_depth=3, prior_rate=1.0, newton=newton)
    problem.noise = make_noise(problem.codes, None)
    trainer, seen = problem.trainer(), 0
    for iteration in range(20):
        tree = trainer.grow(iteration, 1, sigma=sigma)
        empty = tree["leaf_weight"] == 0
        seen += empty.sum()
        assert empty.sum() == len(empty) - 1
        assert_array_equal(tree["leaf_value"][empty], 0.0)
        assert_array_equal(tree["gain"], 0.0)
    assert seen >= 20


def test_a_leaf_without_rows_stays_within_its_bounds():
    """Values 1, 2 | 9 of an increasing feature have the means 10 and 30, so 20 lies between: 0 is below it.

    A second cut leaves a child without rows on either side of the first.
    """
    codes, y = np.array([[1], [2], [9]] * 10), np.array([10.0, 10.0, 30.0] * 10)
    problem = table(
        codes, y, n_bins=(11,), max_depth=2, prior_rate=1.0, monotone=np.array([1], dtype=np.int8), learning_rate=0.5
    )
    trainer, clipped = problem.trainer(), 0
    for iteration in range(200):
        trainer.scores[...] = 0
        tree = trainer.grow(iteration, 1)
        first = tree["threshold"][0]
        if not 2 <= first < 9:
            continue
        for code, leaf in enumerate(leaf_of_rows(tree, np.arange(1, 11)[:, None]), 1):
            if tree["leaf_weight"][leaf] == 0:
                assert tree["leaf_value"][leaf, 0] == (0.0 if code <= first else 0.5 * 20.0)
                clipped += code > first
    assert clipped > 10


@every_policy
def test_rows_that_the_tree_does_not_see_are_no_empty_child(policy):
    """No test parts code 1, drawn, from code 2, not drawn, though the sums of the latter are nothing.

    Where one would, the split is searched, which finds the other feature.
    """
    codes = np.array([[1 + (i >= 20), 1 + i % 2] for i in range(40)])
    problem = table(codes, codes[:, 1], n_bins=(3, 3), policy=policy, max_depth=1, prior_rate=1.0)
    units = (codes[:, 0] == 1).astype(np.uint32)
    seen, whole = stumps(problem, 60, units=units), stumps(problem, 60)
    parted = (seen["feature"] == 0) & (seen["threshold"] == 1)
    parted_whole = (whole["feature"] == 0) & (whole["threshold"] == 1)
    assert not parted.any()
    assert parted_whole.sum() > 5
    assert_array_equal(seen["feature"][parted_whole], 1)
    assert_array_equal(seen["threshold"][~parted_whole], whole["threshold"][~parted_whole])


@pytest.mark.parametrize("policy", [SYMMETRIC, DEPTHWISE])
def test_a_draw_that_does_not_suit_is_searched(policy):
    """Of two features one has 3 rows of its second value, below the minimum of 4: its draws give way to the other."""
    codes = np.array([[1, 1 + i % 2] for i in range(20)] + [[2, 1]] * 3)
    y = codes[:, 1] + 0.01 * np.arange(23)
    for newton in (False, True):
        problem = table(
            codes, y, n_bins=(3, 3), policy=policy, max_depth=1, prior_rate=1.0, min_weight=4, newton=newton, l2=1.0
        )
        trees = [problem.trainer().grow(i, 1) for i in range(60)]
        light = [tree for tree in trees if tree["feature"][0] == 0 and tree["threshold"][0] == 1]
        assert not light
        assert all(tree["leaf_weight"].min() == 0 or tree["leaf_weight"].min() >= 4 for tree in trees)


# ---------------------------------------------------------------- ties among cells without rows


@every_policy
@pytest.mark.parametrize("newton", [False, True])
def test_cuts_in_a_gap_are_spread(policy, newton):
    """Rows at 3 and 8: any of the cuts 3 to 7 parts them, and each is drawn by the keyed uniform."""
    problem = table(np.repeat([[3], [8]], 20, axis=0), np.repeat([0, 1], 20), n_bins=(12,), policy=policy, max_depth=1,
                    newton=newton, spread_ties=True)  # fmt: skip
    cuts = stumps(problem, 1000)["threshold"]
    assert_uniform(cuts, range(3, 8))
    assert_array_equal(cuts, [Draws(5, i, 0).one_of(SPREAD, range(3, 8)) for i in range(1000)])
    problem.rules.spread_ties = False
    assert_array_equal(stumps(problem, 20)["threshold"], 3)


def test_cuts_of_a_level_are_spread_over_the_gap_of_all_its_nodes():
    """The second feature has rows at 2 and 9 in one node, at 4 and 7 in the other: cuts 4 to 6 part both alike."""
    codes = np.repeat([[1, 2], [1, 9], [2, 4], [2, 7]], 10, axis=0)
    y = np.repeat([0.0, 1.0, 100.0, 101.0], 10)
    problem = table(codes, y, n_bins=(3, 12), policy=SYMMETRIC, max_depth=2, spread_ties=True)
    trees = [problem.trainer().grow(i, 5) for i in range(400)]
    assert {tuple(tree["feature"]) for tree in trees} == {(0, 1)}
    cuts = np.array([tree["threshold"][1] for tree in trees])
    assert_uniform(cuts, range(4, 7))
    assert_array_equal(cuts, [Draws(5, i, 1).one_of(SPREAD, range(4, 7)) for i in range(400)])
    problem.rules.policy = DEPTHWISE
    trees = [problem.trainer().grow(i, 5) for i in range(400)]
    assert_uniform(np.array([tree["threshold"][1] for tree in trees]), range(2, 9))
    assert_uniform(np.array([tree["threshold"][2] for tree in trees]), range(4, 7))


def test_rows_whose_sums_round_to_nothing_are_no_gap():
    """A classifier that is sure of a row leaves it neither gradient nor second derivative; its cell is not empty."""
    codes = np.repeat([[2], [5], [9]], [20, 5, 20], axis=0)
    problem = make_problem(0, "binary", n=45, n_bins=(12,), max_depth=1, newton=True, spread_ties=True, l2=1.0)
    problem.codes, problem.y, problem.base = codes.astype(np.uint8), np.repeat([0.0, 1.0], [20, 25]), np.zeros(1)
    trainer = problem.trainer()
    for iteration in range(60):
        trainer.scores[0] = np.repeat([0.0, 60.0, 0.0], [20, 5, 20])
        assert trainer.grow(iteration, 5)["threshold"][0] in range(2, 5)


# ---------------------------------------------------------------- against the twin, where the fuzz comes seldom


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("prior_rate", [0.3, 1.0])
def test_drawn_levels_with_few_leaves(weights, prior_rate, seed):
    """Nodes that a drawn level suits and that max_leaves leaves whole."""
    for max_leaves in (2, 3, 5, 6):
        problem = make_problem(
            seed, n=60, weights=weights, policy=SYMMETRIC, max_depth=4, max_leaves=max_leaves, prior_rate=prior_rate,
            min_weight=1024 if weights == "fractional" else 1,
        )  # fmt: skip
        if weights != "class":
            compare_with_twin(problem, [{}] * 5, seed)
        trainer = problem.trainer()
        for iteration in range(10):
            before = trainer.scores.copy()
            assert_true_to_rows(problem, trainer, trainer.grow(iteration, seed), before)


@every_policy
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("rows", ["all", "some", "masked"])
def test_leaf_minimums_that_bind(policy, loss, newton, rows, seed):
    """Weights that the sums do not prove, rows that the tree does not see, and few leaves."""
    rng = np.random.default_rng([seed, policy])
    for weights in ("integer", "class"):
        problem = make_problem(
            seed, loss, 60, (9, 4, 30, 12), weights=weights, policy=policy, newton=newton, max_depth=4, min_weight=25,
            max_leaves=2**30 if policy == SYMMETRIC else 6, prior_rate=0.6, spread_ties=True, categorical=[1],
        )  # fmt: skip
        steps = [{} for _ in range(4)]
        for step in steps if rows != "all" else ():
            kept = rng.random(60) < 0.5
            step["units"] = np.where(kept, problem.weights["units"], 0).astype(np.uint32)
            if weights == "class":
                step["counts"] = np.where(kept, problem.weights["counts"], 0).astype(np.uint32)
            if rows == "masked":
                step["mask"] = random_mask(rng, problem, step)
        compare_with_twin(problem, steps, seed)


# ---------------------------------------------------------------- laws, bit for bit


def drawn_problem(policy, loss, newton, weights, n, seed=11):
    """Splits of all kinds, half of them drawn."""
    n_bins, categorical = (200, 4, 30, 256, 60), np.array([1, 2])
    rules = random_prior(np.random.default_rng(seed), n_bins, categorical) | {"prior_rate": 0.5, "spread_ties": True}
    unit = 1024 if weights == "fractional" else 1
    return make_problem(
        seed, loss, n, n_bins, categorical, weights, True, policy=policy, newton=newton, max_depth=6,
        min_weight=5 * unit, max_leaves=40 if policy == LOSSGUIDE else 2**30, **rules,
    )  # fmt: skip


CASES = pytest.mark.parametrize(
    ("loss", "newton", "weights"),
    [("squared", False, None), ("binary", True, "fractional"), ("gaussian", False, "class"),
     ("multinomial", True, None)],
)  # fmt: skip


@every_policy
@CASES
def test_threads_do_not_matter(policy, loss, newton, weights):
    problem = drawn_problem(policy, loss, newton, weights, 6000)
    trees, scores = chain(problem, 3, sigma=0.3, shrink=0.95)
    assert any(np.any(tree["leaf_weight"] == 0) for tree in trees)
    for n_threads in (2, 5):
        others, other_scores = chain(problem, 3, n_threads, sigma=0.3, shrink=0.95)
        assert_identical(trees, others)
        assert_array_equal(scores, other_scores)


@every_policy
@CASES
def test_row_order_does_not_matter(policy, loss, newton, weights):
    problem = drawn_problem(policy, loss, newton, weights, 500)
    order = np.random.default_rng(0).permutation(500)
    trees, scores = chain(problem, sigma=0.4, shrink=0.9)
    others, other_scores = chain(problem.take(order), sigma=0.4, shrink=0.9)
    assert_identical(trees, others)
    assert_array_equal(scores[:, order], other_scores)


@every_policy
def test_drawn_copies_of_a_weighted_row_are_drawn_rows(policy, seed):
    """Sub-sampling: a row of weight 2 of which no copy is drawn is a row all the same."""
    rng = np.random.default_rng([seed, 5])
    weighted = make_problem(
        seed, n=80, weights="integer", policy=policy, max_depth=4, max_leaves=8, min_weight=3, prior_rate=0.5,
        spread_ties=True,
    )  # fmt: skip
    rows = np.repeat(np.arange(80), weighted.weights["weight"].astype(int))
    repeated = weighted.take(rows)
    repeated.weights = None
    one, many = weighted.trainer(), repeated.trainer()
    for iteration in range(6):
        drawn = (rng.random(len(rows)) < 0.3).astype(np.uint32)
        units = np.bincount(rows, drawn, 80).astype(np.uint32)
        assert_identical([one.grow(iteration, 0, units=units)], [many.grow(iteration, 0, units=drawn)])
    assert_array_equal(one.scores[:, rows], many.scores)
