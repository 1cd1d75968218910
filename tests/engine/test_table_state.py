"""Sums that follow the model by rows of tables, against sums over rows."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import tables
from oracles.tables import SIZES, make_bag, random_step

from skboost._engine import crosstab, row_state, stage_loop, table_state

PLANS = ["shared", "own", "own tables"]


def make_state(kind="ones", n=400, seed=0, plan="shared", max_bytes=2**30, **options):
    """Return (state, its rows, a generator of steps)."""
    cells, weight, train, valid = make_bag(kind, n, seed)
    y, score = tables.make_targets("squared_error", n, seed)
    table = crosstab.CrossTab(cells, SIZES, weight, **options)
    state = table_state.TableState(table, y, score, train, valid, plan=plan, max_bytes=max_bytes)
    rows = tables.Rows("squared_error", cells, SIZES, y, score, train, valid)
    return state, rows, np.random.default_rng(seed)


@pytest.mark.parametrize("kind", ["ones", "whole", "fractional"])
@pytest.mark.parametrize("n", [5, 400, 5000])
@pytest.mark.parametrize("plan", PLANS)
def test_sums_and_metric_at_every_step(plan, kind, n, seed):
    state, rows, rng = make_state(kind, n, seed, plan)
    assert_allclose(state.refresh(), rows.metric(), rtol=1e-12)
    for _ in range(150):
        term = rng.integers(len(SIZES))
        for k in [term, rng.integers(len(SIZES))]:
            sums = state.sums(k)
            for got, expected in zip(sums, rows.sums(k), strict=True):
                assert_allclose(got, expected, rtol=1e-11, atol=1e-11 * n)
            assert not sums[0][0, sums[2] == 0].any()
        cuts = tables.some_cuts(rng, SIZES[term])
        for got, expected in zip(state.part_sums(term, cuts), rows.part_sums(term, cuts), strict=True):
            assert_allclose(got, expected, rtol=1e-11, atol=1e-11 * n)
        u = random_step(rng, SIZES[term])
        assert_allclose(state.apply(term, u), rows.apply(term, u), rtol=1e-10, atol=1e-11)
    assert_allclose(state.refresh(), rows.metric(), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", ["ones", "fractional"])
@pytest.mark.parametrize("plan", PLANS)
def test_no_bit_depends_on_the_anchors(plan, kind):
    runs = []
    for options in {"spacing": 1}, {"spacing": 100}, {"spacing": 10**12}, {"max_bytes": 20000}, {"max_bytes": 0}:
        state, _, rng = make_state(kind, plan=plan, **options)
        runs.append(tables.trace(state, rng))
    assert len(set(runs)) == 1


def test_sums_do_not_depend_on_when_they_are_asked_for():
    """Updates wait in a queue; one state is asked after every step, the other one at the end only."""
    (often, _, rng), (late, _, _) = make_state(), make_state()
    for _ in range(100):
        term = rng.integers(len(SIZES))
        u = random_step(rng, SIZES[term])
        for k in range(len(SIZES)):
            often.sums(k)
        assert_array_equal(often.apply(term, u), late.apply(term, u))
    for k in range(len(SIZES)):
        assert_array_equal(often.sums(k)[0], late.sums(k)[0])


def test_equal_features_have_equal_sums_to_the_bit():
    """So that ties between them remain ties."""
    cells, weight, train, valid = make_bag("whole")
    cells[1] = cells[3] // 2
    cells = np.array([*cells, cells[1]])
    sizes = [*SIZES, SIZES[1]]
    y, score = tables.make_targets("squared_error", 400)
    state = table_state.TableState(crosstab.CrossTab(cells, sizes, weight), y, score, train, valid)
    rng = np.random.default_rng(0)
    for _ in range(100):
        term = rng.integers(len(sizes))
        state.apply(term, random_step(rng, sizes[term]))
        for a, b in zip(state.sums(1), state.sums(6), strict=True):
            assert_array_equal(a, b)


@pytest.mark.parametrize("with_valid", [True, False])
@pytest.mark.parametrize("plan", ["auto", "own", "own tables"])
def test_bags_with_multiplicities_have_tables_of_their_own(plan, with_valid, seed):
    cells, weight, _, _ = make_bag("ones", seed=seed)
    rng = np.random.default_rng(seed)
    times = rng.integers(-2, 4, 400)
    train, valid = np.maximum(times, 0.0), with_valid * np.maximum(-times, 0.0)
    y, score = tables.make_targets("squared_error", 400, seed)
    table = crosstab.CrossTab(cells, SIZES, weight)
    state = table_state.TableState(table, y, score, train, valid, plan=plan)
    assert state.tables[0] is not table
    rows = tables.Rows("squared_error", cells, SIZES, y, score, train, valid)
    with pytest.raises(ValueError, match="add up"):
        table_state.TableState(table, y, score, train, valid, plan="shared")
    for _ in range(50):
        term = rng.integers(len(SIZES))
        assert_allclose(state.sums(term)[0], rows.sums(term)[0], atol=1e-10)
        u = random_step(rng, SIZES[term])
        assert_allclose(state.apply(term, u), rows.apply(term, u), rtol=1e-10, atol=1e-11)


def test_without_validation_rows_there_is_no_metric():
    cells, weight, _, _ = make_bag()
    for plan in "auto", *PLANS:
        table = crosstab.CrossTab(cells, SIZES, weight)
        state = table_state.TableState(table, np.ones(400), np.zeros((1, 400)), weight, np.zeros(400), plan=plan)
        assert np.isnan(state.refresh())
        assert np.isnan(state.apply(0, np.ones((1, 3))))
        assert_array_equal(state.sums(0)[0], [np.zeros(3)])
        assert plan != "auto" or state.tables == (table, None)


@pytest.mark.parametrize("plan", PLANS)
def test_the_metric_reaches_zero_without_losing_its_sign(plan):
    """A validation loss that falls by many orders is followed to rounding errors of its start, and is not negative."""
    cells, weight, train, valid = make_bag(sizes=(6,))
    y = 1e3 * np.arange(6.0)[cells[0]]
    table = crosstab.CrossTab(cells, [6], weight)
    state = table_state.TableState(table, y, np.zeros((1, 400)), train, valid, plan=plan)
    start = state.refresh()
    for _ in range(60):
        u = 0.5 * (-state.sums(0)[0] / np.maximum(state.sums(0)[2], 1))
        end = state.apply(0, u)
    assert 0 <= end <= 1e-15 * start


@pytest.mark.parametrize("plan", PLANS)
def test_a_validation_target_out_of_scale_leaves_training_sums_alone(plan):
    cells, weight, train, valid = make_bag()
    y, score = tables.make_targets("squared_error", 400)
    wild = np.where(train > 0, y, 1e100)
    table = crosstab.CrossTab(cells, SIZES, weight)
    states = [table_state.TableState(table, t, score, train, valid, plan=plan) for t in (y, wild)]
    rng = np.random.default_rng(1)
    for _ in range(20):
        term = rng.integers(len(SIZES))
        u = random_step(rng, SIZES[term])
        for state in states:
            state.apply(term, u)
        assert_array_equal(states[0].sums(term)[0], states[1].sums(term)[0])


def test_the_plan_follows_the_cost():
    """Few validation rows beside many cells: one by one. Many of them: by tables, shared where that is possible."""
    rng = np.random.default_rng(0)

    def tables_of(n, sizes, train_times=1):
        cells = np.array([rng.integers(0, size, n) for size in sizes], dtype=np.uint16)
        valid = (rng.random(n) < 0.2).astype(float)
        table = crosstab.CrossTab(cells, sizes, np.ones(n))
        state = table_state.TableState(table, np.zeros(n), np.zeros((1, n)), train_times * (1 - valid), valid)
        return state.tables[0] is table, state.tables[1] is not None

    assert tables_of(1000, [300, 300]) == (False, False)
    assert tables_of(50000, [10, 10]) == (True, True)
    assert tables_of(50000, [10, 10], 2) == (False, True)


def run_stage(backend, **options):
    n_terms = len(backend.term_sizes)
    stage = stage_loop.Stage(
        backend,
        backend.term_sizes,
        [1, *[0] * (n_terms - 1)],
        [0] * n_terms,
        n_outputs=backend.n_outputs,
        learning_rate=0.1,
        max_rounds=60,
        min_samples_leaf=2,
        min_cat_samples=2,
        record=True,
        **options,
    )
    while not stage.run(1000):
        pass
    return stage


@pytest.mark.parametrize("kind", ["ones", "whole", "fractional"])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"missing": "gain", "max_leaves": 4},
        {"smoothing_rounds": 20, "greedy_ratio": 5.0, "early_stopping_rounds": 5, "early_stopping_tolerance": 1e-5},
    ],
)
def test_stages_equal_those_on_rows(kind, plan, options, seed):
    cells, weight, train, valid = make_bag(kind, 1000, seed)
    rng = np.random.default_rng(seed)
    y = np.sin(cells[3] / 10.0) + 0.3 * rng.normal(size=1000) + (cells[0] == 1)
    score = np.zeros((1, 1000))
    axes = [(k, -1) for k in range(len(SIZES))]
    loss = tables.Loss("squared_error")
    rows = run_stage(row_state.RowState(loss, cells, axes, SIZES, y, score, train, valid), **options)
    table = crosstab.CrossTab(cells, SIZES, weight, spacing=30)
    stage = run_stage(table_state.TableState(table, y, score, train, valid, plan=plan), **options)
    assert stage.n_steps == rows.n_steps
    assert stage.best_step == rows.best_step
    for got, expected in zip(stage.log[:2], rows.log[:2], strict=True):
        assert_array_equal(got, expected)
    assert_allclose(stage.log[2], rows.log[2], rtol=1e-10)
    assert_allclose(stage.tensors(), rows.tensors(), rtol=0, atol=1e-10)


def test_threads_share_a_table():
    cells, weight, train, valid = make_bag(n=3000)
    table = crosstab.CrossTab(cells, SIZES, weight, spacing=500)
    y, score = tables.make_targets("squared_error", 3000)

    def run(i):
        found[i] = tables.trace(table_state.TableState(table, y, score, train, valid), np.random.default_rng(0))

    found = {}
    runners = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    assert len(found) == 4
    assert len(set(found.values())) == 1


def digest():
    found = [make_state(kind, 1000, plan=plan) for kind in ("ones", "fractional") for plan in PLANS]
    return [tables.trace(state, rng) for state, _, rng in found]


def test_bits_do_not_depend_on_the_instruction_set():
    found = set()
    for level in "012":
        code = f"import sys; sys.path[:0] = {sys.path!r}; from engine import test_table_state as t; print(t.digest())"
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
        ({"score": np.zeros(400)}, "score must have shape"),
        ({"score": np.full((1, 400), np.inf)}, "score holds"),
        ({"train_weight": np.ones(399)}, "train_weight must have shape"),
        ({"train_weight": np.full(400, -1.0)}, "train_weight holds"),
        ({"train_weight": np.full(400, np.inf)}, "train_weight holds"),
        ({"train_weight": np.zeros(400)}, "train_weight must be positive"),
        ({"val_weight": np.ones(401)}, "val_weight must have shape"),
        ({"val_weight": np.full(400, np.nan)}, "val_weight holds"),
        ({"plan": "rows"}, "plan"),
    ],
)
def test_bad_arguments(change, match):
    cells, weight, train, valid = make_bag()
    arguments = {
        "y": np.zeros(400),
        "score": np.zeros((1, 400)),
        "train_weight": train,
        "val_weight": valid,
        **change,
    }
    with pytest.raises(ValueError, match=match):
        table_state.TableState(crosstab.CrossTab(cells, SIZES, weight), **arguments)
    with pytest.raises(TypeError):
        table_state.TableState(None, np.zeros(400), np.zeros((1, 400)), train, valid)


def test_bad_calls():
    state, _, _ = make_state()
    with pytest.raises(IndexError):
        state.sums(6)
    with pytest.raises(IndexError):
        state.apply(-1, np.zeros((1, 3)))
    with pytest.raises(ValueError, match="reshape"):
        state.apply(0, np.zeros((1, 4)))
    with pytest.raises(ValueError, match="cuts"):
        state.part_sums(0, [2])
