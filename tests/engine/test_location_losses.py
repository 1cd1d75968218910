"""Compiled losses of a location and of tables of targets, against their definitions."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles import location
from oracles import losses as plain

from skboost._engine import losses, renewal

LEVELS = (0.1, 0.5, 0.8)
CASES = {
    "quantile": (7, 3, (1.0,), np.array([LEVELS])),
    "absolute_error": (7, 1, (2.0,), np.array([[0.5]])),
    "huber": (8, 1, (0.7,), None),
    "pseudo_huber": (9, 1, (0.7,), None),
    "expectile": (10, 1, (0.8,), None),
}


def engine_loss(name, **changes):
    kind, n_outputs, params, table = CASES[name]
    return SimpleNamespace(**{"kind": kind, "n_outputs": n_outputs, "params": params, "table": table, **changes})


def definition(name, y, score):
    if name == "quantile":
        return location.quantile(y, score, LEVELS)
    if name == "absolute_error":
        return location.quantile(y, score, (0.5,), 2.0)
    return getattr(location, name)(y, score, CASES[name][2][0])


def make_rows(name, n, seed=0):
    rng = np.random.default_rng([seed, n])
    loss = engine_loss(name)
    base = rng.normal(size=loss.n_outputs)
    score = rng.normal(0, 2, (loss.n_outputs, n))
    y = rng.normal(size=n)
    y[::7] = base[0] + score[0, ::7]
    return loss, y, score, base


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [1, 65, 1000])
def test_gradients_and_values_match_the_definition(name, n, seed):
    loss, y, score, base = make_rows(name, n, seed)
    # the order of the sums of the engine, so that ties are ties
    score = np.round(score * 64) / 64
    base, y = np.round(base * 64) / 64, np.round(y * 64) / 64
    value, grad, hess = definition(name, y, score + base[:, None])
    got_grad, got_hess = losses.gradients64(loss, y, score, base, True)
    assert_allclose(got_grad, grad, rtol=1e-13, atol=1e-15)
    assert_allclose(got_hess, hess, rtol=1e-13)
    assert_allclose(losses.values(loss, y, score, base), value, rtol=1e-12, atol=1e-14)
    single_grad, single_hess = losses.gradients(loss, y, score, base, True)
    assert_array_equal(got_grad.astype(np.float32), single_grad)
    assert_array_equal(got_hess.astype(np.float32), single_hess)
    assert_array_equal(losses.gradients(loss, y, score, base, False)[0], single_grad)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_central_differences(name, seed):
    loss, y, score, base = make_rows(name, 400, seed)
    step = 1e-5
    grad, _ = losses.gradients64(loss, y, score, base, True)
    for k in range(loss.n_outputs):
        shift = step * np.eye(loss.n_outputs)[k]
        up, down = (losses.values(loss, y, score, base + sign * shift) for sign in (1, -1))
        smooth = np.abs(y - base[k] - score[k]) > 2 * step
        assert_allclose(grad[k][smooth], ((up - down) / (2 * step))[smooth], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_swapping_sides_negates_gradients(name):
    loss, y, score, base = make_rows(name, 300)
    mirrored = engine_loss(name)
    if name == "quantile":
        mirrored.table = np.ascontiguousarray(1 - loss.table[:, ::-1])
        other = losses.gradients64(mirrored, -y, -score[::-1].copy(), -base[::-1].copy(), True)[0][::-1]
    else:
        mirrored.params = (1 - loss.params[0],) if name == "expectile" else loss.params
        other = losses.gradients64(mirrored, -y, -score, -base, True)[0]
    assert_allclose(other, -losses.gradients64(loss, y, score, base, True)[0], rtol=1e-15)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [745.0, 1e4, 1e100, 1e149])
def test_extreme_scores_give_numbers(name, size):
    loss = engine_loss(name)
    y, base = np.array([0.0, 1.0, -2.0]), np.zeros(loss.n_outputs)
    for sign in (-1.0, 1.0):
        score = np.full((loss.n_outputs, 3), sign * size)
        grad, hess = losses.gradients64(loss, y, score, base, True)
        assert np.isfinite(grad).all()
        assert np.isfinite(hess).all()
        assert (hess >= 0).all()
        assert not np.isnan(losses.values(loss, y, score, base)).any()


def test_expectile_of_one_half_is_half_the_squared_error(seed):
    loss, y, score, base = make_rows("expectile", 200, seed)
    loss.params = (0.5,)
    squared = SimpleNamespace(kind=0, n_outputs=1, params=())
    half = losses.values(squared, y, score, base) / 2
    assert_allclose(losses.values(loss, y, score, base), half, rtol=1e-14)


@pytest.mark.parametrize("kind", [15, 16])
@pytest.mark.parametrize("n", [1, 63, 200])
def test_losses_of_tables_are_sums_over_columns(kind, n, seed):
    rng = np.random.default_rng([seed, n])
    table = rng.integers(0, 2, (5, 3)).astype(float) if kind == 15 else rng.normal(size=(5, 3))
    y, score, base = rng.integers(0, 5, n).astype(float), rng.normal(size=(3, n)), rng.normal(size=3)
    loss = SimpleNamespace(kind=kind, n_outputs=3, params=(), table=table)
    one = plain.binary if kind == 15 else plain.squared_error
    parts = [one(table[y.astype(int), k], score[k : k + 1] + base[k]) for k in range(3)]
    grad, hess = losses.gradients64(loss, y, score, base, True)
    assert_allclose(grad, np.concatenate([part[1] for part in parts]), rtol=1e-12, atol=1e-14)
    assert_allclose(hess, np.concatenate([part[2] for part in parts]), rtol=1e-12)
    assert_allclose(losses.values(loss, y, score, base), sum(part[0] for part in parts), rtol=1e-12)


@pytest.mark.parametrize("bad", [-1.0, 5.0, np.nan, np.inf])
def test_numbers_outside_the_table_are_refused(bad):
    loss = SimpleNamespace(kind=16, n_outputs=2, params=(), table=np.zeros((5, 2)))
    with pytest.raises(ValueError, match="numbers of the 5 rows"):
        losses.values(loss, np.array([0.0, bad]), np.zeros((2, 2)), np.zeros(2))


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 7, "params": ()},
        {"kind": 7, "n_outputs": 4},
        {"kind": 8, "params": (0.0,)},
        {"kind": 8, "params": (-1.0,)},
        {"kind": 8, "n_outputs": 2, "params": (1.0,)},
        {"kind": 9, "params": (np.inf,)},
        {"kind": 10, "n_outputs": 1, "params": (1.0,)},
        {"kind": 16, "table": np.zeros((0, 3))},
        {"kind": 99},
    ],
)
def test_losses_that_make_no_sense_are_refused(changes):
    loss = engine_loss("quantile", **changes)
    with pytest.raises(ValueError, match=r"unknown loss|too small"):
        losses.values(loss, np.zeros(2), np.zeros((loss.n_outputs, 2)), np.zeros(loss.n_outputs))


def test_given_gradients_have_no_kernel():
    loss = SimpleNamespace(kind=17, n_outputs=1, params=())
    with pytest.raises(ValueError, match="given, not computed"):
        losses.gradients(loss, np.zeros(2), np.zeros((1, 2)), np.zeros(1), False)


# ---- weighted quantiles


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        ([0, 1, 2, 3], None, 1.5),
        ([0, 10, 20, 30, 100], None, 20),
        ([0, 10, 20, 30, 100], [7] * 5, 20),
        ([0, 10, 20, 30, 100], [1, 1, 1, 5, 1], 30),
        ([5], None, 5),
        ([3, 3, 3], [1, 2, 1], 3),
        ([9, 1, 2], [0, 1, 1], 1.5),
    ],
)
def test_known_medians(values, weights, expected):
    assert renewal.weighted_quantile(values, weights, 0.5) == expected


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4)), min_size=1, max_size=60),
    level=st.one_of(st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9]), st.floats(0.01, 0.99)),
)
def test_weighted_quantiles_are_those_of_repeated_rows(rows, level):
    values, weights = np.array(rows, dtype=float).T
    if not weights.any():
        return
    expected = location.weighted_quantile(values, weights.astype(int), level)
    assert renewal.weighted_quantile(values, weights.astype(np.uint32), level) == expected
    order = np.random.default_rng(0).permutation(len(values))
    assert renewal.weighted_quantile(values[order], weights[order].astype(np.uint32), level) == expected


@pytest.mark.parametrize("make", [np.arange, lambda n: -np.arange(n), np.zeros, lambda n: np.arange(n) % 7])
def test_no_order_makes_selection_slow(make):
    # quadratic time would be minutes
    values = np.asarray(make(300_000), dtype=float)
    assert renewal.weighted_quantile(values, None, 0.3) == np.quantile(values, 0.3, method="averaged_inverted_cdf")


@pytest.mark.parametrize(
    ("values", "weights", "level"), [([], None, 0.5), ([1], [0], 0.5), ([1], None, 0.0), ([1], [1, 2], 0.5)]
)
def test_quantiles_of_nothing_are_refused(values, weights, level):
    with pytest.raises(ValueError, match=r"quantile needs|weights"):
        renewal.weighted_quantile(values, weights, level)
