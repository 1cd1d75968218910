"""Blocks of terms, weights of cells, centring, empty cells, means over bags, shapes."""

import numpy as np
import pytest

from skboost.ebm._density import feature_bounds, histogram
from skboost.ebm._shapes import Axis, TermShape, view
from skboost.ebm._terms import (
    TermBlock,
    bag_deviation,
    bag_mean,
    cell_weights,
    centre,
    centre_classes,
    clear_empty,
    main_block,
    pair_block,
    purify,
)

COARSE = [np.array([0, 1, 1, 2, 3], dtype=np.uint16), np.array([0, 1, 2, 3], dtype=np.uint16)]
N_CELLS = np.array([5, 4])


def random_rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, 4, n), rng.integers(1, 3, n)]).astype(np.uint16), rng.uniform(0.5, 2, n)


def test_views_share_the_memory_of_the_block():
    block = TermBlock(((0,), (0, 1)), ((5,), (3, 4)))
    assert block.sizes.tolist() == [5, 12]
    assert block.starts.tolist() == [0, 5, 17]
    flat = np.arange(2 * 17 * 3.0).reshape(2, 17, 3)
    first, second = block.views(flat, leading=1)
    assert first.shape == (2, 5, 3)
    assert second.shape == (2, 3, 4, 3)
    second[1, 2, 3, 0] = -1
    assert flat[1, 16, 0] == -1
    assert all(np.shares_memory(part, flat) for part in (first, second))


def test_blocks_of_features_and_pairs():
    assert main_block([1], N_CELLS) == TermBlock(((1,),), ((4,),))
    assert pair_block([(0, 1)], COARSE) == TermBlock(((0, 1),), ((4, 4),))
    assert pair_block([], COARSE).n_cells == 0


def test_weights_of_cells():
    cells, weight = random_rows()
    mains = cell_weights(main_block([0, 1], N_CELLS), cells, COARSE, weight)
    for cell in range(5):
        np.testing.assert_allclose(mains[cell], weight[cells[0] == cell].sum())
    pairs = cell_weights(pair_block([(0, 1)], COARSE), cells, COARSE, weight).reshape(4, 4)
    for a in range(4):
        for b in range(4):
            inside = (COARSE[0][cells[0]] == a) & (COARSE[1][cells[1]] == b)
            np.testing.assert_allclose(pairs[a, b], weight[inside].sum())


def test_centring_moves_means_to_the_intercepts():
    cells, weight = random_rows()
    block = main_block([0, 1], N_CELLS)
    weights = cell_weights(block, cells, COARSE, weight)
    scores, intercepts = np.random.default_rng(1).normal(size=(3, 9, 2)), np.zeros((3, 2))
    before = [intercepts[b] + scores[b, :5][cells[0]] + scores[b, 5:][cells[1]] for b in range(3)]
    centre(block, scores, weights, intercepts)
    for b in range(3):
        for tensor, w in zip(block.views(scores[b]), block.views(weights), strict=True):
            np.testing.assert_allclose(w @ tensor / w.sum(), 0, atol=1e-14)
        after = intercepts[b] + scores[b, :5][cells[0]] + scores[b, 5:][cells[1]]
        np.testing.assert_allclose(after, before[b], atol=1e-14)
    centre(TermBlock((), ()), np.zeros((3, 0, 2)), np.zeros(0), intercepts)


def test_a_term_that_is_constant_where_there_is_weight_becomes_zero():
    block = TermBlock(((0,), (1,)), ((4,), (3,)))
    weights = np.array([0, 0.1, 0.7, 0, 0, 0.3, 0])
    scores, intercepts = np.full((1, 7, 1), 1 / 3), np.zeros((1, 1))
    centre(block, scores, weights, intercepts)
    assert not scores.any()
    assert intercepts[0, 0] == 2 / 3


def test_slices_without_weight_become_zero():
    block = TermBlock(((0,), (0, 1)), ((4,), (3, 3)))
    weights = np.array([0, 1, 0, 2.0, 0, 0, 0, 1, 1, 0, 1, 0, 0])
    scores = np.ones((2, 13, 1))
    clear_empty(block, scores, weights)
    assert scores[0, :, 0].tolist() == [0, 1, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1, 0]
    np.testing.assert_array_equal(scores[0], scores[1])


@pytest.mark.parametrize("present", [(0, 1), (0,), (1,), ()])
def test_purified_terms_predict_the_same(present):
    cells, weight = random_rows()
    rng = np.random.default_rng(2)
    mains, pairs = main_block(present, N_CELLS), pair_block([(0, 1)], COARSE)
    scores, pair_scores = rng.normal(size=(2, mains.n_cells, 2)), rng.normal(size=(2, 16, 2))
    intercepts = rng.normal(size=(2, 2))
    anywhere = np.stack([np.repeat(np.arange(5), 4), np.tile(np.arange(4), 5)])

    def predict(bag):
        raw = intercepts[bag] + pair_scores[bag].reshape(4, 4, 2)[COARSE[0][anywhere[0]], COARSE[1][anywhere[1]]]
        for (feature,), tensor in zip(mains.features, mains.views(scores[bag]), strict=True):
            raw = raw + tensor[anywhere[feature]]
        return raw

    before = predict(0), predict(1)
    weights = cell_weights(pairs, cells, COARSE, weight)
    purify(pairs, pair_scores, weights, mains, scores, COARSE, intercepts)
    np.testing.assert_allclose([predict(0), predict(1)], before, atol=1e-13)
    pure = pair_scores.reshape(2, 4, 4, 2) * weights.reshape(4, 4)[:, :, None]
    assert (np.abs(pure.sum(axis=2)).max() < 1e-12) == (0 in present)
    assert (np.abs(pure.sum(axis=1)).max() < 1e-12) == (1 in present)


def test_classes_are_centred_only_where_there_are_several():
    scores = np.random.default_rng(3).normal(size=(2, 5, 3))
    one = scores[:, :, :1].copy()
    centre_classes(one)
    np.testing.assert_array_equal(one, scores[:, :, :1])
    spread = np.ptp(scores, axis=-1)
    centre_classes(scores)
    np.testing.assert_allclose(scores.sum(axis=-1), 0, atol=1e-15)
    np.testing.assert_allclose(np.ptp(scores, axis=-1), spread)


def test_means_and_deviations_over_bags():
    rng = np.random.default_rng(4)
    scores, weights = rng.normal(size=(5, 4, 3)), rng.uniform(1, 3, 5)
    mean = np.average(scores, axis=0, weights=weights)
    np.testing.assert_allclose(bag_mean(scores, weights), mean)
    deviation = np.sqrt(np.average((scores - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(bag_deviation(scores, weights), deviation)
    np.testing.assert_array_equal(bag_mean(scores[:1], weights[:1]), scores[0])
    assert not bag_deviation(np.repeat(scores[:1], 5, axis=0) + 1e9, weights).any()


# ---- shapes


def numeric(**changes):
    values = {"feature": 0, "name": "x", "kind": "numeric", "edges": np.array([1.0, 2.5]), "levels": ()}
    return Axis(**{**values, "lower": 0.0, "upper": 3.0, **changes})


def categorical():
    return Axis(1, "c", "categorical", np.empty(0), ((0.0, 2.0), ("a",), ("b", "d")), np.nan, np.nan)


def test_cells_of_a_numeric_axis():
    axis = numeric()
    assert axis.n_cells == 5
    assert axis.labels == ("< 1", "[1, 2.5)", ">= 2.5", "other", "missing")
    assert [axis.cell(x) for x in (-np.inf, 0.999, 1, 2.4, 2.5, np.inf, np.nan, None)] == [0, 0, 1, 1, 2, 2, 4, 4]
    assert isinstance(axis.cell(1), int)
    np.testing.assert_array_equal(axis.cell([[0, 1], [3, np.nan]]), [[0, 1], [2, 4]])
    assert numeric(edges=np.empty(0)).labels == ("all values", "other", "missing")
    assert "n_cells=5" in repr(axis)


def test_cells_of_a_categorical_axis():
    axis = categorical()
    assert axis.n_cells == 5
    assert axis.labels == ("0.0, 2.0", "a", "b, d", "other", "missing")
    assert [axis.cell(x) for x in (0, 2.0, "a", "d", 1, "x", None, np.nan)] == [0, 0, 1, 2, 3, 3, 4, 4]
    np.testing.assert_array_equal(axis.cell(np.array(["a", "b", None], dtype=object)), [1, 2, 4])
    assert axis.cell(True) == 3
    assert axis.cell(False) == 0


def test_values_of_shapes():
    values = np.array([10.0, 20, 30, 0, 5])
    shape = TermShape((0,), ("x",), (numeric(),), values, values * 0, values * 0 + 1)
    assert shape.name == "x"
    assert shape.value(1.7) == 20.0
    assert isinstance(shape.value(1.7), float)
    np.testing.assert_array_equal(shape.value([0, 9, np.nan]), [10, 30, 5])
    pair = TermShape(
        (0, 1), ("x", "c"), (numeric(), categorical()), np.arange(25.0).reshape(5, 5), None, np.ones((5, 5))
    )
    assert pair.name == "x & c"
    assert pair.cell(1, "a") == (1, 1)
    assert pair.value(1, "a") == 6.0
    np.testing.assert_array_equal(pair.value([1, np.nan], ["a", None]), [6, 24])
    for wrong in ((), (1,), (1, 2, 3)):
        with pytest.raises(TypeError, match="has 2 features"):
            pair.value(*wrong)
    classes = TermShape(
        (0,), ("x",), (numeric(),), np.arange(15.0).reshape(5, 3), None, np.ones(5), np.array(list("abc"))
    )
    np.testing.assert_array_equal(classes.value(0), [0, 1, 2])
    np.testing.assert_array_equal(classes.value([0, 1]), [[0, 1, 2], [3, 4, 5]])


def test_the_view_puts_missing_last():
    np.testing.assert_array_equal(view(np.arange(4), 1), [1, 2, 3, 0])
    tensor = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(view(tensor, 2), tensor[[1, 2, 0]][:, [1, 2, 3, 0]])
    np.testing.assert_array_equal(view(np.arange(6).reshape(3, 2), 1), [[2, 3], [4, 5], [0, 1]])
    one = np.arange(3)
    assert not np.shares_memory(view(one, 1), one)


# ---- densities


def test_bounds_are_those_of_finite_values():
    X = np.array([[1.0, np.nan, 3], [np.inf, np.nan, 2], [-2, np.nan, 1], [np.nan, np.nan, 0]])
    found = feature_bounds(X, np.array([0, 0, 1]))
    np.testing.assert_array_equal(found, [[-2, 1], [np.nan, np.nan], [np.nan, np.nan]])


@pytest.mark.parametrize("n", [30, 500, 20_000])
@pytest.mark.parametrize("draw", ["normal", "lognormal", "uniform"])
def test_histograms_follow_the_rule_of_doane(n, draw):
    x = getattr(np.random.default_rng(n), draw)(size=n)
    edges, totals = histogram(x, None)
    assert abs(len(totals) - (len(np.histogram_bin_edges(x, "doane")) - 1)) <= 1
    assert totals.sum() == n
    assert (edges[0], edges[-1]) == (x.min(), x.max())
    expected = np.histogram(x, edges)[0]
    assert np.abs(totals - expected).sum() <= 2  # a value at an edge may fall on either side


def test_histograms_of_weights_and_odd_columns():
    x = np.array([0.0, 1, 1, 4, np.nan, np.inf])
    edges, totals = histogram(x, np.array([1.0, 2, 1, 3, 5, 5]))
    repeated = histogram(np.repeat(x, [1, 2, 1, 3, 5, 5]), None)
    np.testing.assert_array_equal(edges, repeated[0])
    np.testing.assert_array_equal(totals, repeated[1])
    assert totals.sum() == 7
    assert [part.size for part in histogram(np.array([np.nan]), None)] == [0, 0]
    assert histogram(np.array([2.0, 2.0]), None)[1].tolist() == [2]
    for extreme in ([-1e308, 1e308, 3.0], [0.0, 5e-324], [1e-310, 2e-310, 0.0]):
        edges, totals = histogram(np.array(extreme), None)
        assert np.isfinite(edges).all()
        assert totals.sum() == len(extreme)
