"""Purification: closed forms, exact margins, predictions kept in every cell, empty and disconnected parts."""

import numpy as np
import pytest

from skboost.ebm._purification import Purifier


def weighted_margins(pure, weights):
    weighted = pure * weights[:, :, None]
    return np.abs(weighted.sum(axis=0)).max(), np.abs(weighted.sum(axis=1)).max()


def rebuilt(parts):
    pure, rows, columns, constant = parts
    return pure + rows[:, None] + columns[None] + constant


def test_two_by_two_has_a_closed_form():
    """The pure part of a 2 x 2 table is one number: +q, -q, -q, +q scaled by the weights of the cells."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        f, w = rng.normal(size=(2, 2)), rng.uniform(0.1, 5, size=(2, 2))
        pure = Purifier(w)(f[:, :, None])[0][:, :, 0]
        common = f[0, 0] - f[0, 1] - f[1, 0] + f[1, 1]
        first = common / (1 + w[0, 0] / w[0, 1] + w[0, 0] / w[1, 0] + w[0, 0] / w[1, 1])
        np.testing.assert_allclose(pure[0, 0], first, rtol=1e-12)
        np.testing.assert_allclose(pure * w, first * w[0, 0] * np.array([[1, -1], [-1, 1]]), rtol=1e-11)


def correlated_weights(correlation, n=20_000, bins=62):
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)
    y = correlation * x + np.sqrt(1 - correlation**2) * rng.normal(size=n)
    cuts = np.arange(1, bins) / bins
    a, b = (np.searchsorted(np.quantile(v, cuts), v) for v in (x, y))
    return np.bincount(a * bins + b, minlength=bins * bins).reshape(bins, bins).astype(float)


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99, 0.9999])
def test_margins_vanish_and_the_tensor_is_rebuilt(correlation):
    weights = correlated_weights(correlation)
    tensor = np.random.default_rng(2).normal(size=(*weights.shape, 3))
    parts = Purifier(weights)(tensor)
    assert max(weighted_margins(parts[0], weights)) < 1e-10
    np.testing.assert_allclose(rebuilt(parts), tensor, rtol=0, atol=1e-13)
    for effect, weight in ((parts[1], weights.sum(axis=1)), (parts[2], weights.sum(axis=0))):
        np.testing.assert_allclose(weight @ effect / weight.sum(), 0, atol=1e-14)


def test_direct_solution_is_the_limit_of_sweeps():
    weights = correlated_weights(0.5, bins=8)
    tensor = np.random.default_rng(3).normal(size=(8, 8))
    swept = tensor.copy()
    for _ in range(2000):
        swept -= (swept * weights).sum(axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
        swept -= (swept * weights).sum(axis=0) / weights.sum(axis=0)
    found = Purifier(weights)(tensor[:, :, None])[0][:, :, 0]
    np.testing.assert_allclose(found[weights > 0], swept[weights > 0], atol=1e-10)


def test_purifying_again_changes_nothing():
    weights = correlated_weights(0.9, bins=20)
    purifier = Purifier(weights)
    once = purifier(np.random.default_rng(4).normal(size=(20, 20, 2)))[0]
    again, rows, columns, constant = purifier(once)
    np.testing.assert_allclose(again, once, atol=1e-12)
    for part in (rows, columns, constant):
        np.testing.assert_allclose(part, 0, atol=1e-12)


def test_an_additive_tensor_has_no_pure_part():
    weights = correlated_weights(0.3, bins=12)
    rng = np.random.default_rng(5)
    tensor = rng.normal(size=(12, 1, 4)) + rng.normal(size=(1, 12, 4)) + 3
    np.testing.assert_allclose(Purifier(weights)(tensor)[0], 0, atol=1e-12)


def test_rows_and_columns_without_weight_have_no_effect_and_keep_their_values():
    rng = np.random.default_rng(6)
    weights = rng.integers(0, 3, size=(7, 9)).astype(float)
    weights[[0, 6]] = 0
    weights[:, [2, 8]] = 0
    tensor = rng.normal(size=(7, 9, 3))
    parts = Purifier(weights)(tensor)
    assert not parts[1][[0, 6]].any()
    assert not parts[2][[2, 8]].any()
    assert max(weighted_margins(parts[0], weights)) < 1e-13
    np.testing.assert_allclose(rebuilt(parts), tensor, atol=1e-14)


def test_parts_that_no_cell_connects():
    """Rows 0-2 meet columns 0-1 only, rows 3-4 columns 2-4: each part has a level of its own."""
    weights = np.zeros((5, 5))
    weights[:3, :2], weights[3:, 2:] = 2.0, 3.0
    tensor = np.random.default_rng(7).normal(size=(5, 5, 2))
    parts = Purifier(weights)(tensor)
    assert max(weighted_margins(parts[0], weights)) < 1e-13
    np.testing.assert_allclose(rebuilt(parts), tensor, atol=1e-14)
    diagonal = Purifier(np.diag([1.0, 2, 3, 4, 5]))(tensor)
    np.testing.assert_allclose(np.diagonal(diagonal[0]), 0, atol=1e-14)
    np.testing.assert_allclose(diagonal[1], diagonal[2], atol=1e-14)


def test_neither_axis_is_special():
    rng = np.random.default_rng(8)
    weights = rng.integers(0, 4, size=(6, 11)).astype(float)
    tensor = rng.normal(size=(6, 11, 2))
    parts, turned = Purifier(weights)(tensor), Purifier(weights.T)(tensor.transpose(1, 0, 2))
    np.testing.assert_allclose(turned[0].transpose(1, 0, 2), parts[0], atol=1e-13)
    np.testing.assert_allclose(turned[1], parts[2], atol=1e-13)


@pytest.mark.parametrize(("rows", "columns"), [(True, False), (False, True), (False, False)])
def test_an_axis_without_a_term_keeps_its_main_effect(rows, columns):
    rng = np.random.default_rng(9)
    weights = rng.integers(0, 4, size=(5, 6)).astype(float)
    weights[1] = 0
    tensor = rng.normal(size=(5, 6, 2))
    parts = Purifier(weights, rows, columns)(tensor)
    over_columns, over_rows = weighted_margins(parts[0], weights)
    assert (over_rows < 1e-13) == rows
    assert (over_columns < 1e-13) == columns
    np.testing.assert_allclose(rebuilt(parts), tensor, atol=1e-14)
    assert parts[1].any() == rows
    assert parts[2].any() == columns


@pytest.mark.parametrize(("decades", "tolerance"), [(5, 1e-12), (100, 1e-10)])
def test_weights_of_very_different_size(decades, tolerance):
    """However unequal the weights, the tensor is rebuilt and margins vanish."""
    weights = 10.0 ** np.random.default_rng(10).uniform(-decades, decades, size=(6, 9))
    tensor = np.random.default_rng(11).normal(size=(6, 9, 3))
    pure, rows, columns, _ = parts = Purifier(weights)(tensor)
    scale = max(np.abs(rows).max(), np.abs(columns).max())
    np.testing.assert_allclose(rebuilt(parts), tensor, atol=1e-13 * scale)
    weighted = pure * weights[:, :, None]
    assert np.abs(weighted.sum(axis=0) / weights.sum(axis=0)[:, None]).max() <= tolerance * scale
    assert np.abs(weighted.sum(axis=1) / weights.sum(axis=1)[:, None]).max() <= tolerance * scale
