"""Losses of rankings on internal targets: gradients by content, means over queries, and what they refuse."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import ranking as oracle

from skboost._losses import LambdaRank, XeNDCG, number_targets
from skboost.metrics import ndcg_score

KINDS = [LambdaRank, XeNDCG]


def judged(seed=0, n=200, n_queries=12):
    """Return (query, relevance, hashes, score) with equal rows, some of them in one query."""
    rng = np.random.default_rng(seed)
    query = rng.integers(0, n_queries, n)
    relevance = rng.integers(0, 4, n).astype(float)
    content = rng.integers(0, n // 4, n)
    hashes = rng.integers(0, 2**63, n // 4).astype(np.uint64)[content]
    return query, relevance, hashes, np.round(rng.normal(size=n // 4), 1)[content]


def gradients(cls, query, relevance, hashes, score, weight=None, iteration=0, seed=7, **options):
    y, table = number_targets(np.column_stack([query, relevance]))
    ranked = cls(table, **options).for_chain(y, weight, hashes, seed)
    ranked.rows.iteration = iteration
    grad, hess = np.full((2, 1, len(y)), np.nan, dtype=np.float32)
    ranked.write_gradients(score[None], grad, hess, 1)
    return grad[0], hess[0]


def by_content(query, hashes, relevance, *outputs):
    """Return outputs in an order that the order of rows has no part in."""
    order = np.lexsort((*outputs, relevance, hashes, query))
    return [out[order] for out in (query, hashes, relevance, *outputs)]


@pytest.mark.parametrize("cls", KINDS)
def test_gradients_do_not_depend_on_the_order_of_rows(cls, seed):
    query, relevance, hashes, score = judged(seed)
    order = np.random.default_rng(seed).permutation(len(query))
    before = gradients(cls, query, relevance, hashes, score)
    after = gradients(cls, *(column[order] for column in (query, relevance, hashes, score)))
    for one, other in zip(
        by_content(query, hashes, relevance, *before),
        by_content(query[order], hashes[order], relevance[order], *after),
        strict=True,
    ):
        assert_array_equal(one, other)


@pytest.mark.parametrize("cls", KINDS)
def test_gradients_do_not_depend_on_the_labels_of_queries(cls):
    query, relevance, hashes, score = judged()
    renamed = np.random.default_rng(1).permutation(100)[query]
    for one, other in zip(
        gradients(cls, query, relevance, hashes, score), gradients(cls, renamed, relevance, hashes, score), strict=True
    ):
        assert_array_equal(one, other)


def test_equal_scores_are_ordered_by_hash_then_relevance():
    query, relevance = np.zeros(5, dtype=int), np.array([1.0, 0.0, 3.0, 2.0, 0.0])
    hashes = np.array([5, 9, 1, 5, 5], dtype=np.uint64)
    found = gradients(LambdaRank, query, relevance, hashes, np.zeros(5))
    order = [2, 4, 0, 3, 1]
    expected = oracle.lambdarank(2 ** relevance[order] - 1, np.zeros(5))
    for ours, theirs in zip(found, expected, strict=True):
        assert_allclose(ours[order], theirs, rtol=1e-6)


def test_options_are_those_of_the_definition():
    query, relevance, hashes, score = judged()
    score = score + 1e-3 * np.arange(len(score))
    gain = np.array([0.0, 1.0, 1.5, 9.0])
    found = gradients(
        LambdaRank, query, relevance, hashes, score, label_gain=gain, truncation=2, sigmoid=0.5, normalize=False
    )
    expected = oracle.per_query(
        query,
        lambda g, s: oracle.lambdarank(g, s, truncation=2, sigmoid=0.5, normalize=False),
        gain[relevance.astype(int)],
        score,
    )
    for ours, theirs in zip(found, expected, strict=True):
        assert_allclose(ours, theirs, atol=1e-6)


def test_random_numbers_follow_seed_iteration_and_content():
    query, relevance, hashes, score = judged()
    first = gradients(XeNDCG, query, relevance, hashes, score)[0]
    assert_array_equal(gradients(XeNDCG, query, relevance, hashes, score)[0], first)
    for change in ({"seed": 8}, {"iteration": 1}):
        assert np.mean(gradients(XeNDCG, query, relevance, hashes, score, **change)[0] != first) > 0.9
    # Equal rows of one query, and the same rows in another query, have numbers of their own.
    query, relevance = np.repeat([0, 1], 4), np.tile([1.0, 1.0, 0.0, 2.0], 2)
    hashes = np.array([3, 3, 4, 5, 3, 3, 4, 6], dtype=np.uint64)
    y, table = number_targets(np.column_stack([query, relevance]))
    draws = XeNDCG(table).for_chain(y, None, hashes, 0).rows.draws()
    assert len(np.unique(draws)) == 8


def test_random_numbers_average_to_the_cross_entropy():
    query, relevance, hashes, score = judged(n=60, n_queries=3)
    mean = np.mean([gradients(XeNDCG, query, relevance, hashes, score, iteration=t)[0] for t in range(3000)], axis=0)
    expected = oracle.per_query(query, lambda g, s: oracle.xendcg(g, s, np.full(len(g), 0.5)), 2**relevance - 1, score)[
        0
    ]
    assert_allclose(mean, expected, atol=0.004)


@pytest.mark.parametrize("bound", [False, True])
def test_the_loss_of_lambdarank_is_one_less_the_gain(bound):
    query, relevance, _, score = judged()
    y, table = number_targets(np.column_stack([query, relevance]))
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    for w in (None, weight):
        loss = LambdaRank(table, truncation=3)
        loss = loss.for_rows(y, w) if bound else loss
        expected = 1 - ndcg_score(relevance, score, qid=query, k=3, sample_weight=w)
        assert_allclose(loss.mean_loss(y, score[None], np.zeros(1), w), expected, rtol=1e-12)
    assert_allclose(
        loss.mean_ndcg(y, score[None], weight), ndcg_score(relevance, score, qid=query, sample_weight=weight)
    )


@pytest.mark.parametrize("bound", [False, True])
def test_the_loss_of_xendcg_is_the_mean_cross_entropy(bound):
    query, relevance, _, score = judged()
    y, table = number_targets(np.column_stack([query, relevance]))
    loss = XeNDCG(table).for_rows(y) if bound else XeNDCG(table)
    expected = [oracle.cross_entropy(2 ** relevance[query == q] - 1, score[query == q]) for q in np.unique(query)]
    assert_allclose(loss.mean_loss(y, score[None], np.zeros(1)), np.mean(expected), rtol=1e-12)


@pytest.mark.parametrize("cls", KINDS)
def test_means_do_not_depend_on_the_order_of_rows(cls, seed):
    query, relevance, _, score = judged(seed)
    y, table = number_targets(np.column_stack([query, relevance]))
    weight = relevance + 0.1
    order = np.random.default_rng(seed).permutation(len(y))
    before = cls(table).mean_loss(y, score[None], np.zeros(1), weight)
    assert cls(table).mean_loss(y[order], score[None, order].copy(), np.zeros(1), weight[order], 2) == before


@pytest.mark.parametrize("cls", KINDS)
def test_curvature_is_the_mean_second_derivative_at_equal_scores(cls):
    query, relevance, _, _ = judged()
    y, table = number_targets(np.column_stack([query, relevance]))
    loss = cls(table).bind(y)
    hess = gradients(cls, query, relevance, np.zeros(len(y), np.uint64), np.zeros(len(y)))[1]
    assert_allclose(loss.leaf_curvature, hess.astype(float).mean(), rtol=1e-12)
    assert loss.same_as(copy.deepcopy(loss))
    assert not loss.same_as(cls(table, label_gain=np.arange(4.0)).bind(y))
    assert_array_equal(loss.base_score(y), [0.0])
    assert_array_equal(loss.user_target(y), relevance)


def test_long_queries_and_relevances_without_gain_are_refused():
    y = np.zeros(10_001)
    with pytest.raises(ValueError, match="at most 10000 rows, got 10001; qid or group"):
        LambdaRank(np.zeros((1, 2))).check_target(y)
    LambdaRank(np.zeros((1, 2))).check_target(y[:-1])
    with pytest.raises(ValueError, match="at most 30"):
        LambdaRank(np.array([[0.0, 31.0]])).check_target(np.zeros(1))
    # Targets that no row has are not looked at.
    LambdaRank(np.array([[0.0, 1.0], [0.0, 31.0]])).check_target(np.zeros(1))
    with pytest.raises(ValueError, match="y_val"):
        XeNDCG(np.array([[0.0, -1.0]])).check_domain(np.zeros(1), "y_val")
