"""Recursions against a row-by-row replay, fixed points against the limit, and structures that know no label."""

from dataclasses import replace

import numpy as np
import pytest
from oracles import boulevard_trees as oracle

from skboost._binning import BinMapper
from skboost.inference._regressor import canonical_rows
from skboost.inference._tree_chain import ChainRules, leaf_means, run_chain
from skboost.inference._tree_kernel import TreeKernel
from skboost.inference._tree_limit import TreeLimit

RULES = ChainRules(
    method="dropout", structure="random", n_rounds=30, n_slots=1, learning_rate=0.7, dropout=0.0, subsample=1.0,
    max_leaf_nodes=12, max_depth=None, min_samples_leaf=5, l2_regularization=0.5,
)  # fmt: skip
PARALLEL = replace(RULES, method="parallel", n_slots=3, learning_rate=1.0, n_rounds=10)


def problem(seed, n=200, n_features=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:, 2] = rng.integers(0, 5, n)
    y = 2.0 + np.sin(2 * np.nan_to_num(X[:, 0])) + 0.3 * X[:, 2] + 0.5 * rng.normal(size=n)
    return make_rows(X, y, np.array([0, 0, 1], dtype=np.uint8))


def make_rows(X, y, is_categorical=None):
    mapper = BinMapper().fit(X, None, is_categorical)
    return canonical_rows(mapper, X, y, np.ones(len(y), dtype=np.int64), 1)


def limit_of(result, rules, mean_intercept=True):
    forest = result.forest
    kernel = TreeKernel.of(result.leaves, forest.leaf_weight, forest.leaf_offset, rules.shrinkage)
    return TreeLimit(kernel, *rules.limit, mean_intercept, "exact", None, 0)


@pytest.mark.parametrize("structure", ["random", "greedy"])
@pytest.mark.parametrize("rules", [RULES, PARALLEL], ids=["dropout", "parallel"])
def test_fit_is_the_replayed_recursion(rules, structure, seed):
    rows = problem(seed)
    result = run_chain(rows, replace(rules, structure=structure), 1.5, seed, 1)
    leaves = result.leaves.astype(int)
    if rules.method == "parallel":
        wanted = oracle.parallel_fit(leaves, rows.y - 1.5, 3, 0.5)
    else:
        wanted = oracle.dropout_fit(leaves, rows.y - 1.5, 0.7, 0.5)
    np.testing.assert_allclose(result.fitted, 1.5 + wanted, rtol=0, atol=1e-12)
    add = np.full(30, rules.tree_weight)
    np.testing.assert_allclose(result.forest.margins(rows.codes_col, add=add)[:, 0], result.fitted, rtol=0, atol=1e-12)
    counts = [
        np.bincount(leaf, minlength=size) for leaf, size in zip(leaves, np.diff(result.forest.leaf_offset), strict=True)
    ]
    np.testing.assert_array_equal(result.forest.leaf_weight, np.concatenate(counts))
    assert np.diff(result.forest.leaf_offset).min() > 4


FIXED = {
    "plain": replace(RULES, learning_rate=1.0, l2_regularization=0.0),
    "small rate": replace(RULES, learning_rate=0.4),
    "dropout": replace(RULES, learning_rate=1.0, dropout=0.4),
    "row draws": replace(RULES, subsample=0.7),
    "two slots": replace(PARALLEL, n_slots=2),
    "four slots": replace(PARALLEL, n_slots=4),
    "slots and row draws": replace(PARALLEL, n_slots=4, subsample=0.7),
}


@pytest.mark.parametrize("case", FIXED)
def test_random_structures_converge_to_the_limit(case, seed):
    """Distances in mean standard errors for a noise variance of 1; they fall at least like the root of the rounds."""
    rows = problem(seed)
    distances = []
    for n_rounds in (40, 480):
        rules = replace(FIXED[case], n_rounds=n_rounds // FIXED[case].n_slots)
        result = run_chain(rows, rules, rows.y.mean(), seed, 1)
        limit = limit_of(result, rules)
        gap = result.fitted - rows.y.mean() - limit.fitted(rows.y - rows.y.mean())
        distances.append(np.sqrt(np.sum(gap**2) / limit.degrees_of_freedom()[1]))
    assert distances[1] < 0.08
    assert distances[1] < 0.6 * distances[0]


def test_greedy_structures_with_row_draws_do_not_converge(seed):
    rows = problem(seed)
    rules = replace(RULES, structure="greedy", subsample=0.5, n_rounds=200)
    result = run_chain(rows, rules, rows.y.mean(), seed, 1)
    limit = limit_of(result, rules)
    gap = result.fitted - rows.y.mean() - limit.fitted(rows.y - rows.y.mean())
    assert np.sqrt(np.sum(gap**2) / limit.degrees_of_freedom()[1]) > 0.15


@pytest.mark.parametrize("learning_rate", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("l2", [0.0, 3.0])
def test_every_value_a_leaf_has_known_answers(learning_rate, l2):
    """Cell means, shrunk towards the mean: ``K`` is a projection onto cells, times ``e = 8 / (8 + l2)``."""
    rng = np.random.default_rng(0)
    X = np.repeat(np.arange(6.0), 8)[:, None]
    rows = make_rows(X, rng.normal(size=48))
    mean = rows.y.mean()
    rules = replace(
        RULES, learning_rate=learning_rate, l2_regularization=l2, max_leaf_nodes=None, min_samples_leaf=1, n_rounds=60
    )
    result = run_chain(rows, rules, mean, 0, 1)
    assert len(result.forest.leaf_weight) == 60 * 6
    e = 8 / (8 + l2)
    a = (1 + learning_rate) * e / (1 + learning_rate * e)
    cell = rows.codes_col[0]
    means = np.bincount(cell, rows.y)[cell] / 8
    limit = limit_of(result, rules)
    np.testing.assert_allclose(limit.fitted(rows.y - mean), a * (means - mean), rtol=0, atol=1e-13)
    np.testing.assert_allclose(result.fitted, mean + a * (means - mean), rtol=0, atol=1e-2)
    norms = limit.squared_norms(result.leaves.T)
    np.testing.assert_allclose(norms, a**2 * (1 / 8 - 1 / 48) + 1 / 48, rtol=1e-12)
    np.testing.assert_allclose(limit.degrees_of_freedom(), (1 + 5 * a, 1 + 5 * a**2), rtol=1e-12)
    if learning_rate == 1.0 and l2 == 0.0:
        two = run_chain(rows, replace(rules, n_rounds=2), mean, 0, 1)
        np.testing.assert_allclose(two.fitted, means, rtol=0, atol=1e-15)


def test_random_structures_know_no_label(seed):
    rows = problem(seed)
    other = replace(rows, y=np.random.default_rng(seed).permutation(rows.y) * 1e6)
    one, two = run_chain(rows, RULES, 0.0, seed, 1), run_chain(other, RULES, 7.0, seed, 1)
    np.testing.assert_array_equal(one.leaves, two.leaves)
    greedy = replace(RULES, structure="greedy")
    assert (run_chain(rows, greedy, 0.0, seed, 1).leaves != run_chain(other, greedy, 7.0, seed, 1).leaves).any()
    assert (one.leaves[0] != one.leaves[1]).any()


def test_random_structures_split_every_feature_and_obey_the_leaf_minimum(seed):
    rows = problem(seed)
    result = run_chain(rows, replace(RULES, min_samples_leaf=9), 0.0, seed, 1)
    assert set(result.forest.feature) == {0, 1, 2}
    assert result.forest.leaf_weight.min() >= 9


def test_honest_values_come_from_the_other_half(seed):
    """Labels of pure noise: means of rows that did not choose the leaves vary as means of so many rows do."""
    sizes = {}
    for structure in ("greedy", "honest"):
        rng = np.random.default_rng(seed)
        rules = replace(RULES, structure=structure, l2_regularization=0.0, n_rounds=1, max_leaf_nodes=12)
        excess = []
        for number in range(40):
            rows = make_rows(rng.normal(size=(400, 2)), rng.normal(size=400))
            forest = run_chain(rows, rules, 0.0, 100 * seed + number, 1).forest
            used = forest.leaf_weight * rules.value_rate
            excess.append(np.average(forest.leaf_value[:, 0] ** 2 * used, weights=used))
        sizes[structure] = np.mean(excess)
    assert 0.7 < sizes["honest"] < 1.5
    assert sizes["greedy"] > 1.5 * sizes["honest"]


def test_dropout_leaves_trees_out(seed):
    rows = problem(seed)
    full = run_chain(rows, RULES, 0.0, seed, 1)
    dropped = run_chain(rows, replace(RULES, dropout=0.5), 0.0, seed, 1)
    np.testing.assert_array_equal(full.leaves, dropped.leaves)
    np.testing.assert_array_equal(full.forest.leaf_value[:12], dropped.forest.leaf_value[:12])
    assert (full.forest.leaf_value != dropped.forest.leaf_value).any()


def test_leaves_are_those_of_a_walk(seed):
    """Leaves of equal values, as of constant labels, cannot be told apart by their values."""
    rows = problem(seed)
    for rules in (RULES, replace(RULES, structure="greedy"), replace(RULES, structure="honest", subsample=0.7)):
        for y in (rows.y, np.sign(rows.codes_col[2] - 2.0)):
            result = run_chain(replace(rows, y=y), rules, 0.0, seed, 1)
            np.testing.assert_array_equal(result.leaves, result.forest.apply(rows.codes_col).T)


def test_leaf_means():
    leaf, residual = np.array([0, 0, 1, 2]), np.array([1.0, 2.0, 5.0, 7.0])
    np.testing.assert_array_equal(leaf_means(leaf, residual, None, 4, 0.0), [1.5, 5, 7, 0])
    np.testing.assert_array_equal(leaf_means(leaf, residual, np.array([1, 0, 0, 1], bool), 4, 1.0), [0.5, 0, 3.5, 0])
