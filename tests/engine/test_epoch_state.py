"""Epochs of linear gradients, against gradients of rows."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from engine.test_table_state import run_stage
from numpy.testing import assert_allclose, assert_array_equal
from oracles import tables
from oracles.tables import SIZES, make_bag, random_step

from skboost._engine import crosstab, epoch_state, row_state

LOSSES = ["binary", "poisson", "gamma", "tweedie", "multinomial"]


def make_state(name, kind="ones", n=400, seed=0, tau=0.2, sweeps=20, saturated=None, **options):
    """Return (state, its rows, a generator of steps)."""
    cells, weight, train, valid = make_bag(kind, n, seed)
    y, score = tables.make_targets(name, n, seed)
    table = crosstab.CrossTab(cells, SIZES, weight, **options)
    state = epoch_state.EpochState(
        table, tables.Loss(name), y, score, train, valid, tau=tau, sweeps=sweeps, saturated=saturated
    )
    return state, tables.Rows(name, cells, SIZES, y, score, train, valid), np.random.default_rng(seed)


def assert_equal_sums(state, rows, rtol=1e-9):
    for k in range(len(SIZES)):
        for got, expected in zip(state.sums(k), rows.sums(k), strict=True):
            assert_allclose(got, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", ["ones", "whole", "fractional"])
@pytest.mark.parametrize("n", [7, 400, 2500])
def test_without_length_every_step_is_exact(name, kind, n, seed):
    state, rows, rng = make_state(name, kind, n, seed, tau=0.0)
    assert_allclose(state.refresh(), rows.metric(), rtol=1e-10)
    assert_equal_sums(state, rows)
    for step in range(15):
        term = rng.integers(len(SIZES))
        u = random_step(rng, SIZES[term], state.n_outputs, 0.1)
        assert_allclose(state.apply(term, u), rows.apply(term, u), rtol=1e-10)
        assert_equal_sums(state, rows)
        cuts = tables.some_cuts(rng, SIZES[term])
        for got, expected in zip(state.part_sums(term, cuts), rows.part_sums(term, cuts), strict=True):
            assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
        assert state.n_epochs == step + 1


@pytest.mark.parametrize("name", ["binary", "poisson", "multinomial"])
def test_stages_without_length_equal_those_on_rows(name, seed):
    cells, weight, train, valid = make_bag("whole", 1000, seed)
    y, score = tables.make_targets(name, 1000, seed)
    loss, axes = tables.Loss(name), [(k, -1) for k in range(len(SIZES))]
    options = {"smoothing_rounds": 5, "greedy_ratio": 3.0, "early_stopping_rounds": 10, "min_hessian": 1e-4}
    rows = run_stage(row_state.RowState(loss, cells, axes, SIZES, y, score, train, valid), **options)
    table = crosstab.CrossTab(cells, SIZES, weight)
    state = epoch_state.EpochState(table, loss, y, score, train, valid, tau=0.0, sweeps=20)
    stage = run_stage(state, **options)
    for got, expected in zip(stage.log[:2], rows.log[:2], strict=True):
        assert_array_equal(got, expected)
    assert_allclose(stage.log[2], rows.log[2], rtol=1e-9)
    assert_allclose(stage.tensors(), rows.tensors(), rtol=0, atol=1e-9)


def slopes_and_steps(rows, term, u):
    """Return what rows turn steps into gradients by, and a step for the other features and for its own one.

    Gradients of classes change by p_c (u_c - sum_j p_j u_j), with mean probabilities of the leaf or the cell for p_j.
    """
    _, grad, hess = rows.values()
    if rows.name != "multinomial":
        return rows.train * hess, u, u
    p = grad + (np.arange(3)[:, None] == rows.y)
    cell, size = rows.cells[term], SIZES[term]
    leaf = np.concatenate([[0], np.cumsum((np.diff(u) != 0).any(axis=0))])
    means = []
    for group, of_cells in (leaf[cell], leaf), (cell, np.arange(size)):
        W = np.maximum(np.bincount(group, rows.train, size), 1e-300)
        means.append(np.array([np.bincount(group, rows.train * row, size) / W for row in p])[:, of_cells])
    return rows.train * p, *(u - (u * mean).sum(axis=0) for mean in means)


def sums_of(cells, size, values):
    return np.array([np.bincount(cells, row, size) for row in values])


@pytest.mark.parametrize("name", LOSSES)
def test_within_an_epoch_the_own_feature_is_linear(name, seed):
    state, rows, rng = make_state(name, "whole", 2000, seed, tau=1e9)
    expected, H, _ = rows.sums(3)
    for _ in range(3):
        u = random_step(rng, SIZES[3], state.n_outputs, 0.1)
        slope, _, step = slopes_and_steps(rows, 3, u)
        expected = expected + sums_of(rows.cells[3], SIZES[3], slope) * step
        assert np.isnan(state.apply(3, u))
        assert_allclose(state.sums(3)[0], expected, rtol=1e-9, atol=1e-9)
        assert_allclose(state.sums(3)[1], H, rtol=1e-10)


@pytest.mark.parametrize("name", LOSSES)
def test_within_an_epoch_other_features_share_second_derivatives_by_weight(name, seed):
    """The sum of h over a cell's rows below a cut is what the weights and both margins of H say."""
    state, rows, rng = make_state(name, "whole", 2000, seed, tau=1e9)
    weight, cell, size = rows.train + rows.valid, rows.cells[2], SIZES[2]
    expected, W = rows.sums(2)[0], np.bincount(cell, weight, size)
    for term in (3, 1, 3):
        u = random_step(rng, SIZES[term], state.n_outputs, 0.1)
        slope, step, _ = slopes_and_steps(rows, term, u)
        H = sums_of(cell, size, slope)
        expected = expected + step[:, -1:] * H
        for s in range(SIZES[term] - 1):
            below = rows.cells[term] <= s
            rho = slope[:, below].sum(axis=1) / max(weight[below].sum(), 1e-300) / (slope.sum(axis=1) / weight.sum())
            share = np.bincount(cell[below], weight[below], size) / W
            expected = expected + (step[:, s] - step[:, s + 1])[:, None] * rho[:, None] * share * H
        assert np.isnan(state.apply(term, u))
        assert_allclose(state.sums(2)[0], expected, rtol=1e-9, atol=1e-9)


def test_products_of_features_are_followed_exactly():
    """Poisson means that are products on a full grid of cells: first-order gradients of all features are exact."""
    grid = np.indices((3, 40, 17)).reshape(3, -1)
    cells = np.array([*grid, np.zeros_like(grid[0])], dtype=np.uint16)
    sizes, n = [3, 40, 17, 2], grid.shape[1]
    rng = np.random.default_rng(0)
    score = sum(rng.normal(size=size)[c] for size, c in zip(sizes, cells, strict=True))[None]
    y, train = rng.poisson(1.0, n).astype(float), np.ones(n)
    table = crosstab.CrossTab(cells, sizes, train)
    state = epoch_state.EpochState(table, tables.Loss("poisson"), y, score, train, np.zeros(n), tau=1e9, sweeps=20)
    grad = np.exp(score) - y
    for term in (0, 1, 2, 1):
        u = random_step(rng, sizes[term], scale=0.1)
        state.apply(term, u)
        grad += np.exp(score) * u[:, cells[term]]
    for k, size in enumerate(sizes):
        assert_allclose(state.sums(k)[0][0], np.bincount(cells[k], grad[0], size), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("name", LOSSES)
def test_an_epoch_ends_exact(name, seed):
    state, rows, rng = make_state(name, "fractional", 3000, seed, tau=1e9, sweeps=3)
    for step in range(6 * len(SIZES)):
        term = rng.integers(len(SIZES))
        u = random_step(rng, SIZES[term], state.n_outputs, 0.01)
        known, expected = state.apply(term, u), rows.apply(term, u)
        if (step + 1) % (3 * len(SIZES)) == 0:
            assert_allclose(known, expected, rtol=1e-10)
            assert_equal_sums(state, rows)
            assert 0 < state.drift < 0.2
        else:
            assert np.isnan(known)
    assert state.n_epochs == 2


def test_an_epoch_ends_by_its_length():
    state, rows, _ = make_state("binary", tau=0.5)
    for size in (0.1, -0.2, 0.15):
        u = np.array([[size, size / 2, 0.0]])
        assert np.isnan(state.apply(0, u))
        rows.apply(0, u)
    u = np.array([[0.0, 0.06, 0.0]])
    assert_allclose(state.apply(0, u), rows.apply(0, u), rtol=1e-12)
    assert state.n_epochs == 1
    assert np.isnan(state.apply(0, u))


def test_refresh_ends_an_epoch_and_does_nothing_without_steps():
    state, rows, _ = make_state("binary")
    start = state.refresh()
    assert state.n_epochs == 0
    state.apply(0, np.array([[0.1, 0.0, 0.0]]))
    rows.apply(0, np.array([[0.1, 0.0, 0.0]]))
    after = state.refresh()
    assert after == state.refresh() != start
    assert state.n_epochs == 1
    assert_equal_sums(state, rows)


def test_tau_is_halved_where_the_sums_are_far_off():
    state, rows, _ = make_state("poisson", tau=3.0)
    for term in (1, 2, 1):
        u = np.where(np.arange(SIZES[term]) < SIZES[term] // 2, 2.0, -0.1)[None]
        known, expected = state.apply(term, u), rows.apply(term, u)
        if not np.isnan(known):
            break
    assert state.drift > 0.2
    assert state.tau == 1.5
    assert_allclose(known, expected, rtol=1e-10)


def test_steps_of_many_changes_are_taken_row_by_row():
    """A categorical feature of many levels: the epoch ends, since tables would cost more."""
    rng = np.random.default_rng(0)
    n, sizes = 300, [200, 2]
    cells = np.array([rng.integers(0, size, n) for size in sizes], dtype=np.uint16)
    y, score = tables.make_targets("binary", n)
    table = crosstab.CrossTab(cells, sizes, np.ones(n))
    valid = (rng.random(n) < 0.3).astype(float)
    state = epoch_state.EpochState(table, tables.Loss("binary"), y, score, 1 - valid, valid, tau=1e9, sweeps=9)
    rows = tables.Rows("binary", cells, sizes, y, score, 1 - valid, valid)
    few, many = np.where(np.arange(200) < 9, 0.1, 0.0)[None], 0.1 * rng.normal(size=(1, 200))
    assert np.isnan(state.apply(0, few))
    rows.apply(0, few)
    assert_allclose(state.apply(0, many), rows.apply(0, many), rtol=1e-12)
    assert_allclose(state.sums(1)[0], rows.sums(1)[0], rtol=1e-10, atol=1e-12)


def test_the_metric_is_the_excess_over_perfect_predictions():
    plain, _, _ = make_state("poisson")
    saturated = np.random.default_rng(0).normal(size=400)
    state, rows, _ = make_state("poisson", saturated=saturated)
    assert_allclose(state.refresh(), plain.refresh() - np.average(saturated, weights=rows.valid), rtol=1e-12)


def test_without_validation_rows_there_is_no_metric():
    cells, weight, _, _ = make_bag()
    y, score = tables.make_targets("binary", 400)
    table = crosstab.CrossTab(cells, SIZES, weight)
    state = epoch_state.EpochState(
        table, tables.Loss("binary"), y, score, weight, np.zeros(400), tau=0.0, sweeps=1, saturated=np.ones(400)
    )
    assert np.isnan(state.refresh())
    assert np.isnan(state.apply(0, np.ones((1, 3))))


@pytest.mark.parametrize("name", ["binary", "multinomial"])
def test_no_bit_depends_on_the_anchors(name):
    runs = []
    for options in {"spacing": 1}, {"spacing": 100}, {"spacing": 10**12}, {}:
        state, _, rng = make_state(name, "fractional", **options)
        runs.append(tables.trace(state, rng, scale=0.02))
    assert len(set(runs)) == 1


def test_threads_share_a_table():
    cells, weight, train, valid = make_bag(n=3000)
    table = crosstab.CrossTab(cells, SIZES, weight, spacing=500)
    y, score = tables.make_targets("multinomial", 3000)

    def run(i):
        loss = tables.Loss("multinomial")
        state = epoch_state.EpochState(table, loss, y, score, train, valid, tau=0.2, sweeps=20)
        found[i] = tables.trace(state, np.random.default_rng(0), scale=0.02)

    found = {}
    runners = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    assert len(found) == 4
    assert len(set(found.values())) == 1


def digest():
    return [tables.trace(*make_state(name, "whole", 1500)[::2], scale=0.02) for name in LOSSES]


def test_bits_do_not_depend_on_the_instruction_set():
    found = set()
    for level in "012":
        code = f"import sys; sys.path[:0] = {sys.path!r}; from engine import test_epoch_state as t; print(t.digest())"
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "SKBOOST_ISA": level},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(run.stdout)
    assert found == {f"{digest()}\n"}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"y": np.zeros(399)}, "y must have shape"),
        ({"y": np.full(400, np.nan)}, "y holds"),
        ({"score": np.zeros((2, 400))}, "score must have shape"),
        ({"score": np.full((1, 400), np.inf)}, "score holds"),
        ({"train_weight": np.full(400, -1.0)}, "train_weight holds"),
        ({"train_weight": np.zeros(400)}, "train_weight must be positive"),
        ({"val_weight": np.ones(401)}, "val_weight must have shape"),
        ({"saturated": np.ones(401)}, "saturated must have shape"),
        ({"tau": -0.1}, "tau"),
        ({"tau": np.nan}, "tau"),
        ({"tau": np.inf}, "tau"),
        ({"sweeps": 0}, "sweeps"),
        ({"sweeps": 2**30}, "sweeps"),
    ],
)
def test_bad_arguments(change, match):
    cells, weight, train, valid = make_bag()
    arguments = {
        "y": np.zeros(400),
        "score": np.zeros((1, 400)),
        "train_weight": train,
        "val_weight": valid,
        "tau": 0.1,
        "sweeps": 20,
        **change,
    }
    table = crosstab.CrossTab(cells, SIZES, weight)
    with pytest.raises(ValueError, match=match):
        epoch_state.EpochState(table, tables.Loss("binary"), **arguments)
    with pytest.raises(TypeError):
        epoch_state.EpochState(None, tables.Loss("binary"), **{**arguments, **change})


@pytest.mark.parametrize("label", [-1.0, 3.0, 0.5, 1e300])
def test_labels_that_are_no_classes_are_refused(label):
    cells, weight, train, valid = make_bag()
    y, score = tables.make_targets("multinomial", 400)
    y[7] = label
    with pytest.raises(ValueError, match="class numbers below 3"):
        epoch_state.EpochState(
            crosstab.CrossTab(cells, SIZES, weight), tables.Loss("multinomial"), y, score, train, valid, tau=0, sweeps=1
        )


def test_losses_without_second_derivatives_are_refused():
    cells, weight, train, valid = make_bag()
    table = crosstab.CrossTab(cells, SIZES, weight)
    gaussian = type("Gaussian", (), {"kind": 4, "n_outputs": 2, "params": ()})
    with pytest.raises(ValueError, match="second derivatives"):
        epoch_state.EpochState(table, gaussian, np.zeros(400), np.zeros((2, 400)), train, valid, tau=0.1, sweeps=2)
