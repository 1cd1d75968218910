"""The loop of a stage against its twin, where it stops, what it keeps, and that it can be left and resumed anywhere."""

import hashlib
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import ebm, ebm_fit

import skboost
from skboost._engine import row_state, stage, stage_loop

KINDS = {"squared_error": (0, 1), "poisson": (1, 1), "binary": (2, 1), "multinomial": (3, 3)}
SIZES = (9, 14, 7, 3)
COARSE = [np.r_[0, 1 + np.arange(size - 2) // 2, 1 + (size - 1) // 2].astype(np.uint16) for size in SIZES]
MAINS = [(0, -1), (1, -1), (2, -1), (3, -1)]
PAIRS = [(0, 1), (2, 1), (3, 0)]
RULES = ("max_rounds", "max_leaves", "min_samples_leaf", "min_hessian", "smoothing_rounds", "greedy_ratio")
RULES += ("cyclic_progress", "early_stopping_rounds", "early_stopping_tolerance", "missing", "min_cat_samples")
RULES += ("cat_smooth", "gain_scale", "seed", "bag", "shuffle", "learning_rate")


def make_rows(loss="squared_error", n=400, seed=0, weights=False, held=0.25):
    """Return a namespace of the rows of a bag; the effects of features 0 and 1 interact."""
    rng = np.random.default_rng([seed, n])
    cells = np.stack([rng.integers(0, size - 1, n) for size in SIZES]).astype(np.uint16)
    signal = sum(rng.normal(size=size)[cell] for cell, size in zip(cells, SIZES, strict=True))
    signal += (cells[0] > 4) * (cells[1] > 6) * 2.0
    n_outputs = KINDS[loss][1]
    targets = {
        "squared_error": lambda: signal + rng.normal(size=n),
        "poisson": lambda: rng.poisson(np.exp(0.3 * signal)),
        "binary": lambda: signal + rng.logistic(size=n) > 0,
        "multinomial": lambda: np.digitize(signal + rng.logistic(size=n), [-1, 1]),
    }
    weight = rng.integers(1, 4, n) * 1.0 if weights else np.ones(n)
    val = rng.random(n) < held
    return SimpleNamespace(
        loss=loss,
        cells=cells,
        y=targets[loss]().astype(float),
        score=np.zeros((n_outputs, n)),
        train=weight * ~val,
        val=weight * val,
    )


def make_back_end(rows, axes=MAINS):
    kind, n_outputs = KINDS[rows.loss]
    loss = SimpleNamespace(kind=kind, n_outputs=n_outputs, params=())
    perfect = ebm_fit.perfect(rows.loss, rows.y)
    return row_state.RowState(
        loss, rows.cells, axes, SIZES, rows.y, rows.score, rows.train, rows.val, coarse=COARSE, saturated=perfect
    )


def make_stage(rows, axes=MAINS, nominal=(0, 0, 0, 0), monotone=(0, 0, 0, 0), back_end=None, **given):
    """A stage with the rules of the twin, by its names."""
    rules = ebm.Rules(**{name: value for name, value in given.items() if name not in ("record", "out", "null_metric")})
    back_end = make_back_end(rows, axes) if back_end is None else back_end
    n_outputs = KINDS[rows.loss][1]
    options = {name: getattr(rules, name) for name in RULES} | {
        "l2_regularization": rules.l2,
        "stage_number": rules.stage,
        "n_outputs": n_outputs,
        "record": True,
    }
    options["learning_rate"] *= (n_outputs - 1) / n_outputs if n_outputs > 1 else 1
    options |= {name: given[name] for name in ("record", "out", "null_metric") if name in given}
    zeros = [0] * len(axes)
    if axes is not MAINS:
        nominal, monotone = zeros, zeros
    return stage_loop.Stage(back_end, back_end.term_sizes, nominal, monotone, **options)


def make_twin(rows, axes=MAINS, nominal=(0, 0, 0, 0), monotone=(0, 0, 0, 0), null_metric=None, **given):
    mains = [
        ebm.Term(cell.astype(int), (size,), bool(named), direction)
        for cell, size, named, direction in zip(rows.cells, SIZES, nominal, monotone, strict=True)
    ]
    terms = mains
    if axes is not MAINS:
        terms = [ebm.pair_of(mains[j], mains[k], (COARSE[j], COARSE[k])) for j, k in axes]
    rules = ebm.Rules(**given)
    return ebm_fit.Stage(terms, rows.loss, rows.y, rows.score, rows.train, rows.val, rules, null_metric)


def metrics_of(twin):
    """Squared error: the mean square, not half of it."""
    return np.array(twin.metrics) * (2 if twin.loss == "squared_error" else 1)


def finish(loop, chunk=1000):
    while not loop.run(chunk):
        pass
    return loop


def flat(tensors):
    return np.concatenate([t.reshape(len(t), -1).T for t in tensors])


def first_change(update):
    """First cell of a main effect that the update tells from the next one by more than rounding, -1 without one."""
    changes = np.flatnonzero((np.abs(np.diff(update, axis=1)) > 1e-10 * np.abs(update).max()).any(axis=0))
    return changes[0] if len(changes) else -1


CASES = {
    "defaults": {},
    "greedy": {"greedy_ratio": 3.0, "early_stopping_rounds": 15, "learning_rate": 0.2},
    "greedy, some cyclic": {"greedy_ratio": 1.2, "cyclic_progress": 0.4, "early_stopping_rounds": 20},
    "greedy, all cyclic": {"greedy_ratio": 0.5, "cyclic_progress": 1.0},
    "endless greed": {"greedy_ratio": math.inf, "max_rounds": 20},
    "smoothing": {"smoothing_rounds": 8, "greedy_ratio": 2.0, "early_stopping_rounds": 10, "learning_rate": 0.3},
    "smoothing only": {"smoothing_rounds": 100, "max_rounds": 30},
    "more leaves": {"max_leaves": 4, "smoothing_rounds": 3, "l2": 2.0},
    "missing low": {"missing": "low", "max_leaves": 3},
    "missing high": {"missing": "high", "max_leaves": 3},
    "missing gains": {"missing": "gain"},
    "levels": {"nominal": (1, 0, 1, 0), "min_cat_samples": 45, "greedy_ratio": 2.0, "gain_scale": 7.0},
    "monotone": {"monotone": (1, -1, 0, 0), "smoothing_rounds": 4, "max_leaves": 3},
    "never stops": {"early_stopping_rounds": 3, "early_stopping_tolerance": -0.5, "max_rounds": 40},
    "order kept": {"shuffle": False, "greedy_ratio": 2.0},
    "another bag": {"bag": 3, "stage": 1, "seed": 2**63 + 5, "smoothing_rounds": 2},
    "unstable": {"learning_rate": 1.0, "early_stopping_rounds": 5, "smoothing_rounds": 2, "greedy_ratio": 10.0},
}


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_main_effects_match_the_twin(case, loss, weights, seed):
    if "monotone" in CASES[case] and loss == "multinomial":
        pytest.skip("directions are for one output")
    rows = make_rows(loss, seed=seed, weights=weights)
    loop, twin = make_stage(rows, **CASES[case]), make_twin(rows, **CASES[case])
    finish(loop)
    twin.run()
    terms, cuts, metrics = loop.log
    assert terms.tolist() == [t for t, _ in twin.log]
    assert_allclose(metrics, metrics_of(twin), rtol=1e-10)
    assert_allclose(loop.tensors(), flat(twin.kept), rtol=1e-9, atol=1e-10)
    assert cuts.tolist() == [first_change(update) for _, update in twin.log]
    assert loop.n_steps == len(twin.log)
    assert loop.best_metric == metrics.min()


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize(
    "rules",
    [
        {"greedy_ratio": 2.0, "early_stopping_rounds": 10, "learning_rate": 0.3, "stage": 1},
        {"smoothing_rounds": 5, "max_rounds": 12, "min_samples_leaf": 11, "l2": 1.0},
    ],
)
def test_pairs_match_the_twin(loss, rules, seed):
    rows = make_rows(loss, seed=seed)
    rules = {"max_rounds": 30} | rules
    loop, twin = make_stage(rows, PAIRS, **rules), make_twin(rows, PAIRS, **rules)
    finish(loop)
    twin.run()
    assert loop.log[0].tolist() == [t for t, _ in twin.log]
    assert_allclose(loop.log[2], metrics_of(twin), rtol=1e-10)
    assert_allclose(loop.tensors(), flat(twin.kept), rtol=1e-9, atol=1e-10)


def test_mains_and_pairs_in_one_stage():
    rows = make_rows()
    axes = MAINS[:2] + PAIRS[:2]
    loop = finish(make_stage(rows, axes, max_rounds=20, greedy_ratio=2.0))
    assert set(loop.log[0]) == {0, 1, 2, 3}
    assert loop.tensors().shape == (9 + 14 + 6 * 8 + 5 * 8, 1)


# ---------------------------------------------------------------- leaving and resuming, numbers


@pytest.mark.parametrize("axes", [MAINS, PAIRS], ids=["mains", "pairs"])
def test_any_cutting_of_the_run_gives_the_same_bits(axes):
    rows = make_rows("binary")
    rules = {"max_rounds": 25, "smoothing_rounds": 3, "greedy_ratio": 2.0, "early_stopping_rounds": 8}
    whole = finish(make_stage(rows, axes, **rules), 10**9)
    for chunk in (1, 2, 7):
        loop = make_stage(rows, axes, **rules)
        steps = 0
        while not loop.run(chunk):
            assert steps <= loop.n_steps <= steps + chunk
            steps = loop.n_steps
        assert_array_equal(loop.tensors(), whole.tensors())
        for a, b in zip(loop.log, whole.log, strict=True):
            assert_array_equal(a, b)
    assert whole.run(5)
    assert whole.reason in ("rounds", "early_stopping")


@pytest.mark.parametrize("stop_rounds", [0, 50])
def test_the_caller_may_end_it(stop_rounds):
    """With the model that as many rounds would have left."""
    rows = make_rows()
    rules = {"early_stopping_rounds": stop_rounds, "learning_rate": 0.7, "smoothing_rounds": 2}
    loop, short = make_stage(rows, max_rounds=1000, **rules), finish(make_stage(rows, max_rounds=30, **rules))
    assert not loop.run(120)
    loop.end()
    loop.end()
    assert (loop.reason, loop.n_steps) == ("ended", 120)
    assert_array_equal(loop.tensors(), short.tensors())
    assert loop.run(10)
    assert loop.n_steps == 120


def test_what_is_known_while_it_runs():
    rows = make_rows()
    loop = make_stage(rows, max_rounds=50, early_stopping_rounds=50, smoothing_rounds=2)
    assert (loop.n_steps, loop.best_step, loop.reason) == (0, 0, "running")
    assert np.isnan([loop.metric, loop.best_metric]).all()
    assert not loop.tensors().any()
    for steps in range(1, 30):
        assert not loop.run(1)
        assert loop.n_steps == steps
        metrics = loop.log[2]
        assert loop.metric == metrics[-1]
        assert loop.best_metric == metrics.min()
        assert loop.best_step == len(metrics) - np.argmin(metrics[::-1])
        mean_square = np.average((rows.y - predict(loop, rows)) ** 2, weights=rows.val)
        assert_allclose(mean_square, loop.best_metric, rtol=1e-11)
    assert not loop.run(0)


def predict(loop, rows):
    """Scores of one output by the kept model."""
    parts = np.split(loop.tensors()[:, 0], np.cumsum(SIZES)[:-1])
    return sum(part[cell] for part, cell in zip(parts, rows.cells, strict=True))


def test_random_numbers_are_keyed():
    rows = make_rows()
    base = finish(make_stage(rows, max_rounds=4, smoothing_rounds=4)).log
    for change in ({"seed": 1}, {"bag": 1}, {"stage": 1}):
        other = finish(make_stage(rows, max_rounds=4, smoothing_rounds=4, **change)).log
        assert (base[1] != other[1]).sum() > 4
    again = finish(make_stage(rows, max_rounds=4, smoothing_rounds=4)).log
    assert_array_equal(base[1], again[1])
    # max_rounds does not move the numbers
    longer = finish(make_stage(rows, max_rounds=9, smoothing_rounds=4)).log
    assert_array_equal(base[1], longer[1][: len(base[1])])


# ---------------------------------------------------------------- stopping, the kept model


def window_twin(steps, metrics, length, tolerance, floor, n_smoothing):
    best = older = np.inf
    for i, (step, metric) in enumerate(zip(steps, metrics, strict=True)):
        allowance = tolerance * min(abs(best), abs(older))
        allowance = (allowance if np.isfinite(allowance) else 0) + floor
        best = min(best, metric)
        if step <= n_smoothing or not length:
            continue
        counted = [(s, m) for s, m in zip(steps[: i + 1], metrics, strict=False) if s > n_smoothing]
        older = min([m for s, m in counted if s <= step - length], default=np.inf)
        if older - allowance <= min(m for s, m in counted if s > step - length):
            return i
    return None


@pytest.mark.parametrize("tolerance", [0.0, 0.01, -0.02])
@pytest.mark.parametrize("floor", [0.0, 0.05])
@pytest.mark.parametrize("length", [0, 1, 2, 5, 30])
def test_windows_over_points(tolerance, floor, length, seed):
    """Points may be far apart, and as many as there are steps."""
    rng = np.random.default_rng([seed, length])
    stopped = 0
    for case in range(60):
        n = rng.integers(1, 80)
        steps = np.cumsum(rng.integers(1, 1 + (1 if case % 3 else 12), n))
        metrics = np.exp(-np.arange(n) / 10) + 0.1 * rng.random(n)
        if case % 2:
            metrics = metrics.round(2)
        given = length, tolerance, floor, int(rng.choice([0, 5]))
        found = stage_loop.stops_at(steps, metrics, *given)
        assert found == window_twin(steps.tolist(), metrics.tolist(), *given)
        stopped += found is not None
    assert stopped or length in (0, 30)


def test_windows_of_a_known_sequence():
    metrics = [5.0, 4.0, 3.0, 3.0, 3.5, 2.999, 3.2, 3.2, 3.2]
    steps = range(1, 10)
    # 2.999 holds the window open until the last three steps are no better than it
    assert stage_loop.stops_at(steps, metrics, 3, 0.0) == 8
    # the third 3 already is one that the last two did not beat
    assert stage_loop.stops_at(steps, metrics, 2, 0.0) == 4
    assert stage_loop.stops_at(steps, metrics, 3, 0.01) == 5
    assert stage_loop.stops_at(steps, metrics, 3, 0.0, floor=0.01) == 5
    assert stage_loop.stops_at(steps, metrics, 3, -0.01) == 8
    assert stage_loop.stops_at(steps, metrics, 3, 0.0, n_smoothing=9) is None
    assert stage_loop.stops_at(steps, metrics, 0, 0.0) is None


@pytest.mark.parametrize("rules", [{}, {"smoothing_rounds": 40}, {"greedy_ratio": 5.0}])
def test_the_best_step_is_kept(rules, seed):
    """Later ones of equal metric win, steps with random cuts count, rounds beyond the stop change nothing."""
    rows = make_rows(seed=seed)
    rules = {"max_rounds": 3000, "early_stopping_rounds": 20, "learning_rate": 0.5} | rules
    loop = finish(make_stage(rows, **rules))
    metrics = loop.log[2]
    assert loop.reason == "early_stopping"
    assert loop.best_step == len(metrics) - np.argmin(metrics[::-1])
    mean_square = np.average((rows.y - predict(loop, rows)) ** 2, weights=rows.val)
    assert_allclose(mean_square, metrics.min(), rtol=1e-11)
    longer = finish(make_stage(rows, **rules | {"max_rounds": 10**6}))
    assert_array_equal(longer.tensors(), loop.tensors())
    patient = finish(make_stage(rows, **rules | {"early_stopping_tolerance": -0.05}))
    assert patient.n_steps > loop.n_steps


def test_without_validation_the_last_model_is_kept():
    rows = make_rows(held=0.0)
    loop = finish(make_stage(rows, max_rounds=15, early_stopping_rounds=5, smoothing_rounds=2))
    assert (loop.n_steps, loop.best_step, loop.reason) == (60, 60, "rounds")
    assert np.isnan([loop.metric, loop.best_metric]).all()
    shorter = finish(make_stage(rows, max_rounds=14, early_stopping_rounds=5, smoothing_rounds=2))
    assert not np.array_equal(shorter.tensors(), loop.tensors())
    back_end = make_back_end(rows)
    loop = finish(make_stage(rows, back_end=back_end, max_rounds=15))
    assert_allclose(back_end.scores()[0], predict(loop, rows) - rows.y, atol=1e-12)


def test_no_early_stopping_keeps_the_last_model():
    rows = make_rows(n=120)
    rows.y[:] = np.random.default_rng(0).normal(size=120)
    back_end = make_back_end(rows)
    loop = finish(make_stage(rows, back_end=back_end, max_rounds=60, early_stopping_rounds=0, min_samples_leaf=1))
    assert loop.best_step == loop.n_steps == 240
    chosen = rows.train > 0
    assert_allclose(back_end.scores()[0], (predict(loop, rows) - rows.y)[chosen], atol=1e-12)
    assert loop.best_metric < loop.metric


def test_separable_validation_rows_stop():
    """The absolute part of the tolerance ends what improves for ever by more than the relative part."""
    rows = make_rows("binary", n=600)
    rows.y[:] = rows.cells[0] > 4
    rules = {"max_rounds": 10**5, "early_stopping_rounds": 10, "learning_rate": 0.5, "min_hessian": 1e-8}
    loop = finish(make_stage(rows, **rules))
    assert loop.reason == "early_stopping"
    assert loop.best_metric < 1e-3
    few = finish(make_stage(rows, **rules, null_metric=1000.0))
    assert few.n_steps < loop.n_steps
    assert few.best_metric > loop.best_metric


@pytest.mark.parametrize("rules", [{}, {"smoothing_rounds": 500}, {"greedy_ratio": 10.0}])
def test_nothing_to_learn_ends_at_once(rules):
    rows = make_rows()
    rows.y[:] = 0.0
    loop = finish(make_stage(rows, max_rounds=10**6, **rules))
    assert loop.reason == "no_gain"
    assert loop.n_steps <= 4
    assert not loop.tensors().any()


def test_zeros_of_random_cuts_are_no_reason_to_end():
    """The two cells of a feature cancel in every random part but not in the best tree of the other."""
    cells = np.array([[1, 1, 1, 1], [1, 2, 1, 2]], dtype=np.uint16)
    loss = SimpleNamespace(kind=0, n_outputs=1, params=())
    back_end = row_state.RowState(
        loss, cells, [(0, -1)], [3, 4], [1.0, -1.0, 1.0, -1.0], np.zeros((1, 4)), np.ones(4), np.zeros(4)
    )
    options = {"n_outputs": 1, "learning_rate": 1.0, "max_rounds": 3}
    loop = finish(stage_loop.Stage(back_end, [(3, 1)], [0], [0], smoothing_rounds=2, **options))
    assert (loop.reason, loop.n_steps) == ("no_gain", 1)
    back_end = row_state.RowState(
        loss, cells, [(1, -1)], [3, 4], [1.0, -1.0, 1.0, -1.0], np.zeros((1, 4)), np.ones(4), np.zeros(4)
    )
    loop = finish(stage_loop.Stage(back_end, [(4, 1)], [0], [0], smoothing_rounds=2, max_leaves=1, **options))
    assert loop.n_steps == 1
    assert loop.reason == "no_gain"


@pytest.mark.parametrize("rules", [{}, {"smoothing_rounds": 2}, {"greedy_ratio": 1.0}])
def test_numbers_beyond_all_bounds_end_the_stage(rules):
    rows = make_rows()
    rows.y *= 1e308 / np.abs(rows.y).max()
    loop = finish(make_stage(rows, max_rounds=10, **rules))
    assert (loop.reason, loop.n_steps) == ("diverged", 0)
    assert np.isfinite(loop.tensors()).all()


def test_log_of_pairs_and_of_constants():
    rows = make_rows()
    loop = finish(make_stage(rows, PAIRS, max_rounds=3, smoothing_rounds=1))
    sizes = [(int(COARSE[j][-1]) + 1, int(COARSE[k][-1]) + 1) for j, k in PAIRS]
    for term, cut in zip(*loop.log[:2], strict=True):
        assert 0 <= cut // sizes[term][1] < sizes[term][0] - 1
        assert 0 <= cut % sizes[term][1] < sizes[term][1] - 1
    loop = finish(make_stage(rows, max_rounds=3, min_samples_leaf=1000, missing="low"))
    assert (loop.log[1] == -1).all()
    with pytest.raises(ValueError, match="record=True"):
        make_stage(rows, record=False).log  # noqa: B018


# ---------------------------------------------------------------- memory of the caller, threads


def test_the_kept_model_lives_where_the_caller_wants():
    rows = make_rows()
    everything = np.full((3, sum(SIZES), 1), 7.0)
    loop = finish(make_stage(rows, max_rounds=5, out=everything[1]))
    assert loop.tensors() is not None
    assert_array_equal(everything[1], finish(make_stage(rows, max_rounds=5)).tensors())
    assert (everything[[0, 2]] == 7.0).all()


def test_bags_in_threads():
    rules = {"max_rounds": 60, "smoothing_rounds": 5, "greedy_ratio": 2.0}
    rows = [make_rows("binary", 1500, seed=s) for s in range(4)]
    alone = [finish(make_stage(r, **rules)).tensors() for r in rows]
    loops = [make_stage(r, **rules) for r in rows]
    threads = [threading.Thread(target=finish, args=(loop, 13)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for loop, wanted in zip(loops, alone, strict=True):
        assert_array_equal(loop.tensors(), wanted)


def test_one_thread_at_a_time():
    """A second one is refused, whoever comes first."""
    loop = make_stage(make_rows(n=4000), max_rounds=4000, record=False)
    refused = []

    def work():
        try:
            finish(loop, 10**9)
        except RuntimeError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loop.reason == "rounds"
    assert all("another thread" in message for message in refused)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_rounds": -1}, "max_rounds must be an integer"),
        ({"max_rounds": 1.5}, "max_rounds must be an integer"),
        ({"max_leaves": 0}, "max_leaves must be an integer"),
        ({"learning_rate": -0.1}, "learning_rate must be"),
        ({"learning_rate": math.nan}, "learning_rate must be"),
        ({"min_samples_leaf": -1}, "min_samples_leaf must be"),
        ({"min_hessian": math.inf}, "min_hessian must be"),
        ({"l2": -1}, "l2_regularization must be"),
        ({"smoothing_rounds": -1}, "smoothing_rounds must be"),
        ({"greedy_ratio": -1.0}, "greedy_ratio must be"),
        ({"greedy_ratio": math.nan}, "greedy_ratio must be"),
        ({"cyclic_progress": 1.5, "greedy_ratio": 1.0}, "cyclic_progress must be"),
        ({"early_stopping_rounds": -1}, "early_stopping_rounds must be"),
        ({"early_stopping_tolerance": math.inf}, "early_stopping_tolerance must be"),
        ({"missing": "left"}, "missing must be one of"),
        ({"min_cat_samples": -1}, "min_cat_samples must be"),
        ({"cat_smooth": -1}, "cat_smooth must be"),
        ({"gain_scale": -1}, "gain_scale must be"),
        ({"seed": -1}, "seed must be"),
        ({"seed": 2**64}, "seed must be"),
        ({"bag": -1}, "bag must be"),
        ({"stage": 2}, "stage_number must be"),
        ({"nominal": (1, 0)}, "must have 4 entries"),
        ({"monotone": (2, 0, 0, 0)}, "term_monotone must be"),
        ({"monotone": (1, 0, 0, 0), "nominal": (1, 0, 0, 0)}, "cannot be monotone"),
        ({"out": np.zeros((32, 1))}, "out must be"),
        ({"out": np.zeros((33, 1), dtype=np.float32)}, "out must be"),
        ({"out": [0.0]}, "out must be"),
    ],
)
def test_arguments_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        make_stage(make_rows(), **change)


def test_back_ends_are_checked():
    rows = make_rows()
    options = {"n_outputs": 1, "learning_rate": 0.1, "max_rounds": 3}
    sizes = [(size, 1) for size in SIZES]
    good = make_back_end(rows)
    for wrong in (sizes[:3], [(9, 1)] * 4, [9, 14, 7, 3], []):
        with pytest.raises(ValueError, match="term_sizes"):
            stage_loop.Stage(good, wrong, [0] * 4, [0] * 4, **options)
    with pytest.raises(ValueError, match="n_outputs is 2"):
        stage_loop.Stage(good, sizes, [0] * 4, [0] * 4, **options | {"n_outputs": 2})
    with pytest.raises(ValueError, match="was not initialised"):
        stage_loop.Stage(stage.BackEnd(), sizes, [0] * 4, [0] * 4, **options)
    for nothing in (None, 3):
        with pytest.raises(TypeError):
            stage_loop.Stage(nothing, sizes, [0] * 4, [0] * 4, **options)
    bare = stage_loop.Stage.__new__(stage_loop.Stage)
    for call in (lambda: bare.run(1), bare.end):
        with pytest.raises(ValueError, match="was not initialised"):
            call()
    with pytest.raises(ValueError, match="max_steps"):
        make_stage(rows).run(-1)
    pairs = make_back_end(rows, PAIRS)
    for nominal, monotone, message in (([1, 0, 0], [0] * 3, "only main effects"), ([0] * 3, [0, 1, 0], "monotone")):
        with pytest.raises(ValueError, match=message):
            stage_loop.Stage(pairs, pairs.term_sizes, nominal, monotone, **options)
    loop = make_stage(rows)
    with pytest.raises(RuntimeError, match="once"):
        loop.__init__(good, sizes, [0] * 4, [0] * 4, **options)
    with pytest.raises(ValueError, match="cannot be monotone"):
        stage_loop.Stage(
            make_back_end(make_rows("multinomial")), sizes, [0] * 4, [1, 0, 0, 0], **options | {"n_outputs": 3}
        )


# ---------------------------------------------------------------- instruction sets

DIGEST = """
import hashlib
import test_stage as t
digest = hashlib.sha256()
for loss in t.KINDS:
    for axes in (t.MAINS, t.PAIRS):
        loop = t.make_stage(t.make_rows(loss, 900, weights=True), axes, max_rounds=15, greedy_ratio=2.0,
                            smoothing_rounds=3, max_leaves=3)
        t.finish(loop)
        digest.update(loop.tensors().tobytes() + b"".join(part.tobytes() for part in loop.log))
print(digest.hexdigest())
"""


def digest_at(level):
    roots = [str(Path(skboost.__file__).parents[1]), str(Path(__file__).parent), str(Path(__file__).parents[1])]
    environment = os.environ | {"SKBOOST_ISA": level, "PYTHONPATH": os.pathsep.join(roots)}
    command = [sys.executable, "-c", DIGEST]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_bits_do_not_depend_on_the_instruction_set():
    found = digest_at("2")
    assert len(found.strip()) == len(hashlib.sha256().hexdigest())
    assert digest_at("0") == found
    assert digest_at("1") == found
