"""What makes the best split: exact enumeration, ties, minimums, categories, missing values, constraints."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles.grower import DEPTHWISE, LOSSGUIDE, SYMMETRIC, leaf_of_rows
from oracles.problems import make_problem, weight_arrays

every_policy = pytest.mark.parametrize("policy", [SYMMETRIC, DEPTHWISE, LOSSGUIDE])


def table(codes, y, n_bins=None, loss="squared", weights=None, **rules):
    """A problem on given codes (n_rows, n_features) whose gradients at the start are -y."""
    codes = np.array(codes, dtype=np.uint8)
    codes = codes[:, None] if codes.ndim == 1 else codes
    n_bins = codes.max(axis=0).astype(int) + 1 if n_bins is None else np.atleast_1d(n_bins)
    problem = make_problem(0, loss, len(codes), n_bins, **{"max_depth": 1, "l2": 0.0} | rules)
    problem.codes, problem.y, problem.weights = codes, np.array(y, dtype=np.float64), weights
    problem.base = np.zeros(problem.loss.n_outputs)
    return problem


def first_tree(problem, **step):
    return problem.trainer().grow(0, 0, **step)


def left_codes(tree, node=0):
    """Codes that a set sends left."""
    bits = np.unpackbits(tree["cat_sets"][tree["cat_set"][node]], bitorder="little")
    return set(np.flatnonzero(bits).tolist())


# ---------------------------------------------------------------- exact enumeration


def exact_score(y, rows, l2):
    total = sum((Fraction(float(v)) for v in y[rows]), Fraction(0))
    return total * total / (len(rows) + Fraction(l2))


def exact_gains(codes, y, n_bins, l2, min_rows):
    """Gains of all numeric tests of one column in rational arithmetic: {(threshold, missing right): gain}."""
    missing, gains = codes == 0, {}
    for threshold in range(1, n_bins):
        for right in (False, True):
            left = np.where(missing, not right, codes <= threshold)
            parts = np.flatnonzero(left), np.flatnonzero(~left)
            if min(map(len, parts)) >= max(1, min_rows):
                gains[threshold, right] = sum(exact_score(y, p, l2) for p in parts) - exact_score(y, range(len(y)), l2)
    return gains


@pytest.mark.parametrize("min_rows", [1, 9])
@pytest.mark.parametrize("l2", [0, 1, 64])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_numeric_split_is_the_best_of_all(min_rows, l2, missing, seed):
    rng = np.random.default_rng([seed, min_rows, l2])
    for n_bins in (2, 3, 5, 17, 40):
        codes = rng.integers(1, n_bins, 50)
        codes[rng.random(50) < missing] = 0
        y = rng.integers(-8, 9, 50) + (codes > n_bins // 2)
        gains = exact_gains(codes, y, n_bins, l2, min_rows)
        tree = first_tree(table(codes, y, n_bins, min_weight=min_rows, l2=l2))
        if not gains or max(gains.values()) <= 0:
            assert len(tree["feature"]) == 0
            continue
        found = int(tree["threshold"][0]), bool(tree["missing_right"][0])
        if missing == 0:
            gains |= {(t, False): g for (t, _), g in gains.items()}
        assert gains[found] == max(gains.values())
        assert_allclose(tree["gain"][0], float(gains[found]), rtol=1e-12)


def test_one_hot_split_is_the_best_single_category(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        codes, y = rng.integers(0, 5, 60), rng.integers(-9, 10, 60)
        tree = first_tree(table(codes, y, 5, categorical=[0]))
        gains = {c: exact_score(y, np.flatnonzero(codes == c), 0) + exact_score(y, np.flatnonzero(codes != c), 0)
                 for c in range(5)}  # fmt: skip
        assert gains[min(left_codes(tree) & set(range(5)))] == max(gains.values())
        assert len(left_codes(tree) & set(range(5))) == 1


def test_categories_in_the_order_of_their_means(seed):
    """With equal weights the order is that of the means, and the best set of all subsets is among its prefixes."""
    rng = np.random.default_rng(seed)
    for n_levels in (5, 6, 8):
        codes = np.repeat(np.arange(1, n_levels + 1), 6)
        y = rng.integers(-9, 10, len(codes))
        tree = first_tree(table(codes, y, n_levels + 1, categorical=[0]))
        best = max(
            exact_score(y, np.flatnonzero(np.isin(codes, c)), 0) + exact_score(y, np.flatnonzero(~np.isin(codes, c)), 0)
            for size in range(1, n_levels)
            for c in combinations(range(1, n_levels + 1), size)
        )
        assert_allclose(tree["gain"][0], float(best - exact_score(y, range(len(y)), 0)), rtol=1e-12)


def test_rare_categories_are_shrunk_in_the_order():
    """Key G / (D + 10): one row of gradient 3 comes after ten rows of gradient 1."""
    codes = [1] * 1 + [2] * 10 + [3] * 20 + [4] * 20 + [5] * 20
    y = [3.0] + [1.0] * 10 + [0.9] * 20 + [-1.0] * 20 + [-1.1] * 20
    tree = first_tree(table(codes, y, 6, categorical=[0], l2=0.0))
    assert left_codes(tree) & {1, 2, 3, 4, 5} in ({1, 2, 3}, {4, 5})
    assert_allclose(sorted(-np.array([3 / 11, 10 / 20, 18 / 30])), -np.array([18 / 30, 10 / 20, 3 / 11]))
    tree = first_tree(table(codes[:11] + codes[31:], y[:11] + y[31:], 6, categorical=[0], min_weight=10, max_depth=1))
    assert left_codes(tree) & {1, 2, 4, 5} in ({1, 2}, {4, 5}, {2}, {1, 4, 5})


# ---------------------------------------------------------------- ties


@every_policy
def test_equal_features_the_lower_wins(policy):
    rng = np.random.default_rng(0)
    codes, y = rng.integers(1, 20, 200), rng.normal(size=200)
    mirrored = 20 - codes
    for columns in ([codes, codes], [codes, mirrored], [mirrored, codes], [np.ones_like(codes), codes, mirrored]):
        tree = first_tree(table(np.stack(columns, axis=1), y, [20] * len(columns), policy=policy, max_depth=3))
        assert set(tree["feature"]) == {len(columns) - 2}


@every_policy
def test_bins_without_rows_the_lower_cut_wins(policy):
    codes, y = np.repeat([2, 9], 20), np.repeat([-1.0, 1.0], 20)
    tree = first_tree(table(codes, y, 12, policy=policy))
    assert tree["threshold"].tolist() == [2]


@every_policy
@pytest.mark.parametrize("levels", [3, 6])
def test_missing_left_wins_when_both_sides_are_alike(policy, levels):
    """Missing rows of mean 0 between two equal groups."""
    codes = np.repeat([0, 1, levels], [20, 30, 30])
    y = np.r_[np.tile([1.0, -1.0], 10), np.full(30, -2.0), np.full(30, 2.0)]
    tree = first_tree(table(codes, y, levels + 1, policy=policy))
    assert (tree["threshold"].tolist(), tree["missing_right"].tolist()) == ([1], [0])


@every_policy
def test_no_split_without_gain(policy):
    """Equal gradients: every split has the parent's score up to rounding, with no l2 and any weights."""
    rng = np.random.default_rng(0)
    for seed in range(20):
        weights = weight_arrays(rng.integers(1, 9, 333).astype(float), 1.0, True) if seed % 2 else None
        codes = rng.integers(1, 30, (333, 3))
        tree = first_tree(table(codes, np.full(333, 0.1), weights=weights, policy=policy, max_depth=4))
        assert len(tree["feature"]) == 0
        assert_allclose(tree["leaf_value"], [[0.01]])


# ---------------------------------------------------------------- the minimum


@every_policy
@pytest.mark.parametrize("newton", [False, True])
def test_minimum_is_reached_exactly_and_in_weight(policy, newton):
    codes, y = np.repeat([1, 2, 3], [4, 50, 46]), np.repeat([5.0, 0.1, -0.1], [4, 50, 46])
    for weight in (1, 3):
        weights = weight_arrays(np.full(100, float(weight)), 1.0, True) if weight > 1 else None
        for minimum, threshold in ((4 * weight, 1), (4 * weight + 1, 2)):
            problem = table(codes, y, 4, weights=weights, policy=policy, newton=newton, min_weight=minimum)
            assert first_tree(problem)["threshold"].tolist() == [threshold]


@every_policy
@pytest.mark.parametrize("newton", [False, True])
def test_minimum_counts_the_weights_it_is_given(policy, newton):
    """Class weights: 40 light rows are enough, although the loss hardly sees them."""
    codes, y = np.repeat([1, 2], [40, 60]), np.repeat([1.0, -1.0], [40, 60])
    weight = np.where(codes == 1, 0.01, 5.0)
    weights = weight_arrays(weight, 2.0**10, False, np.ones(100, dtype=np.uint32))
    for minimum, n_tests in ((40, 1), (41, 0)):
        problem = table(codes, y, 3, weights=weights, policy=policy, newton=newton, min_weight=minimum)
        assert len(first_tree(problem)["feature"]) == n_tests


@every_policy
@pytest.mark.parametrize("loss", ["binary", "multinomial"])
def test_leaves_keep_the_minimum_when_second_derivatives_vanish(policy, loss, seed):
    """Sums of second derivatives prove little there; the leaves hold what their rows weigh."""
    problem = make_problem(seed, loss, 400, (60, 8, 256), policy=policy, newton=True, max_depth=6, max_leaves=2**30,
                           min_weight=30, weights="class", l2=1.0)  # fmt: skip
    trainer = problem.trainer()
    trainer.scores[...] = np.random.default_rng(seed).normal(0, 20, trainer.scores.shape)
    sizes = []
    for iteration in range(4):
        leaf = leaf_of_rows(trainer.grow(iteration, 0), problem.codes)
        sizes += np.bincount(leaf, problem.weights["counts"]).tolist()
    assert 30 <= min(sizes) < 60


def test_a_level_is_chosen_among_tests_that_split(seed):
    """Symmetric Newton trees: the strongest test has too light a child; another one takes its place, once."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(2, 40, 300), rng.integers(1, 5, 300)], axis=1)
    codes[:8, 0] = 1
    y = (rng.random(300) < 0.1 + 0.05 * codes[:, 1]).astype(float)
    y[:8] = 1
    problem = table(codes, y, [40, 5], "binary", policy=SYMMETRIC, newton=True, min_weight=20, max_depth=5, l2=1.0)
    problem.base = np.array([-2.0])
    tree = first_tree(problem)
    assert np.all(tree["leaf_weight"] >= 20)
    entries = np.arange(len(tree["table"]))
    for level in range(len(tree["feature"])):
        assert not np.array_equal(tree["table"], tree["table"][entries ^ 1 << level])


def test_nodes_that_a_level_cannot_split_stay_whole():
    """Depth 2: the second test has too few rows on one side of the left node."""
    codes = np.array([[1, 1]] * 12 + [[1, 2]] * 2 + [[2, 1]] * 12 + [[2, 2]] * 12)
    y = np.r_[np.full(14, -4.0), np.full(12, 3.0), np.full(12, 5.0)] + np.r_[np.zeros(12), np.full(26, 0.01)]
    tree = first_tree(table(codes, y, [3, 3], policy=SYMMETRIC, min_weight=5, max_depth=2))
    assert tree["feature"].tolist() == [0, 1]
    assert tree["table"][0b00] == tree["table"][0b10]
    assert len(set(tree["table"].tolist())) == 3
    assert sorted(tree["leaf_weight"].tolist()) == [12, 12, 14]


# ---------------------------------------------------------------- codes that no row of the node has


@every_policy
def test_missing_without_rows_follows_the_heavier_side(policy):
    """In weight, not in rows; left when both weigh the same."""
    codes, y = np.repeat([1, 2], [30, 10]), np.repeat([-1.0, 1.0], [30, 10])
    for light, right in ((1.0, False), (2.0, False), (3.0, False), (4.0, True), (9.0, True)):
        weights = weight_arrays(np.where(codes == 2, light, 1.0), 1.0, True)
        tree = first_tree(table(codes, y, 3, weights=weights, policy=policy))
        assert tree["missing_right"].tolist() == [right]


@every_policy
@pytest.mark.parametrize("levels", [4, 7])
def test_categories_without_rows_follow_the_heavier_side(policy, levels):
    codes, y = np.repeat([1, 2], [30, 10]), np.repeat([-1.0, 1.0], [30, 10])
    for light in (1.0, 2.0, 3.0, 4.0, 9.0):
        weights = weight_arrays(np.where(codes == 2, light, 1.0), 1.0, True)
        left = left_codes(first_tree(table(codes, y, levels + 1, weights=weights, policy=policy, categorical=[0])))
        side = left & {1, 2}
        weight = {1: 30.0, 2: 10.0 * light}
        heavier_left = 2 * weight[min(side)] >= sum(weight.values())
        assert left - {1, 2} == (set(range(256)) - {1, 2} if heavier_left else set())


# ---------------------------------------------------------------- classes are alike


@every_policy
@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("l2", [0.0, 1.0])
def test_classes_are_alike(policy, newton, l2, seed):
    """Permuting the classes permutes the values, also where one class is as good as impossible."""
    problem = make_problem(seed, "multinomial", 300, (20, 20, 9), policy=policy, newton=newton, l2=l2, max_depth=4,
                           max_leaves=9, min_weight=5)  # fmt: skip
    scores = np.random.default_rng(seed).normal(0, 30, (3, 300))
    trees = []
    for order in ([0, 1, 2], [2, 0, 1]):
        permuted = problem.take(np.arange(300))
        permuted.y = np.argsort(order)[problem.y.astype(int)].astype(float)
        permuted.base = problem.base[order]
        trainer = permuted.trainer()
        trainer.scores[...] = scores[order]
        trees.append(trainer.grow(0, 0))
        assert np.all(np.isfinite(trees[-1]["leaf_value"]))
        assert np.all(trees[-1]["gain"] < 1e20)
    for key in ("feature", "threshold", "missing_right", "leaf_weight"):
        assert_array_equal(trees[0][key], trees[1][key])
    assert_allclose(trees[0]["leaf_value"][:, [2, 0, 1]], trees[1]["leaf_value"], rtol=1e-9)


def test_two_sure_classes_are_told_apart_when_a_third_is_impossible():
    codes, y = np.repeat([1, 2], 50), np.repeat([1.0, 2.0], 50)
    problem = table(codes, y, 3, "multinomial", newton=True, l2=1.0)
    trainer = problem.trainer()
    trainer.scores[0] = -100.0
    tree = trainer.grow(0, 0)
    assert tree["threshold"].tolist() == [1]
    assert_array_equal(tree["leaf_value"][:, 0], 0)
    assert_allclose(np.abs(tree["leaf_value"][:, 1:]), 0.1 * 25 / 13.5)


# ---------------------------------------------------------------- constraints


@every_policy
@pytest.mark.parametrize("loss", ["squared", "binary"])
@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("sign", [-1, 1])
def test_scores_are_monotone(policy, loss, newton, sign, seed):
    """Along the constrained feature, everything else fixed, missing rows aside; with noise, too."""
    problem = make_problem(seed, loss, 400, (30, 12, 9), policy=policy, newton=newton, max_depth=5, max_leaves=12,
                           min_weight=4, noise=True, learning_rate=0.5,
                           monotone=np.array([sign, 0, 0], dtype=np.int8))  # fmt: skip
    if loss == "squared":
        problem.y += sign * 0.05 * problem.codes[:, 0]
    trainer = problem.trainer()
    used = 0
    probe = np.random.default_rng(seed).integers(0, 9, (30, 3)).astype(np.uint8)
    grid = np.repeat(probe, 29, axis=0)
    grid[:, 0] = np.tile(np.arange(1, 30), 30)
    for iteration in range(5):
        tree = trainer.grow(iteration, seed, sigma=0.5 * (iteration % 2))
        used += int(np.sum(tree["feature"] == 0))
        values = tree["leaf_value"][leaf_of_rows(tree, grid), 0].reshape(30, 29)
        assert np.all(sign * np.diff(values, axis=1) >= 0)
    assert used > 0


@every_policy
def test_a_path_stays_within_a_group(policy, seed):
    groups = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 1, 0]], dtype=np.uint8)
    problem = make_problem(seed, n=400, n_bins=(9,) * 5, policy=policy, max_depth=4, max_leaves=12, groups=groups)
    problem.y += problem.codes[:, 4] - 4.5
    members = [set(np.flatnonzero(g).tolist()) for g in groups]
    trainer = problem.trainer()
    for iteration in range(5):
        tree = trainer.grow(iteration, 0)
        if policy == SYMMETRIC:
            paths = [set(tree["feature"].tolist())]
        else:
            paths = [set()] + [None] * len(tree["feature"])
            for i, feature in enumerate(tree["feature"].tolist()):
                paths[i] = paths[i] | {feature}
                for child in (tree["left"][i], tree["right"][i]):
                    if child >= 0:
                        paths[child] = paths[i]
            paths = [p for p in paths if p]
        assert all(any(p <= m for m in members) for p in paths)
        assert len(tree["feature"]) > 1


@every_policy
def test_columns_that_were_not_drawn_are_not_used(policy):
    problem = make_problem(3, n=300, n_bins=(9, 30, 5, 9, 256, 4), policy=policy, max_depth=4, max_leaves=12)
    trainer = problem.trainer()
    for features in ([2], [0, 5], [1, 3, 4], [0, 1, 2, 3, 4, 5]):
        tree = trainer.grow(0, 0, features=np.array(features, dtype=np.int32))
        assert set(tree["feature"].tolist()) <= set(features)
        assert len(tree["feature"])


@pytest.mark.parametrize("max_leaves", [1, 2, 3, 5, 6, 7, 13])
@every_policy
def test_number_of_leaves(policy, max_leaves):
    problem = make_problem(0, n=400, n_bins=(30, 30, 30), policy=policy, max_depth=6, max_leaves=max_leaves)
    n_leaves = len(first_tree(problem)["leaf_value"])
    assert n_leaves <= max_leaves if policy == SYMMETRIC else n_leaves == max_leaves


@pytest.mark.parametrize("depth", [0, 1, 3, 16])
@every_policy
def test_depth(policy, depth):
    codes = np.arange(1, 201)
    tree = first_tree(table(codes, codes.astype(float) ** 3, 201, policy=policy, max_depth=depth, min_weight=1))
    if policy == SYMMETRIC:
        assert len(tree["feature"]) <= depth
    assert len(tree["leaf_value"]) <= 2**depth
    if depth in (0, 1):
        assert len(tree["leaf_value"]) == 2**depth


def test_symmetric_trees_end_at_16_levels():
    deep = table([1, 2], [0.0, 1.0], 3, policy=SYMMETRIC)
    deep.rules.max_depth = 17
    with pytest.raises(ValueError, match="16 levels"):
        deep.trainer()
