"""Same seed, same bits: threads, row order, instruction sets, refits, concurrent predictions, interrupted fits."""

import hashlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fit_cases import (
    LOSSES,
    POLICIES,
    assert_same_model,
    assert_same_predictions,
    differ,
    make_data,
    make_estimator,
    threads_of_trainers,
)
from skboost._engine.langevin import instruction_set
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import skboost._parallel
from skboost._engine import threads
from skboost.sglb._chain import Chain

DRAWS = {"subsample": 0.6, "max_features": 0.5, "early_stopping": True, "n_iter_no_change": 5}


@pytest.fixture
def many_threads(monkeypatch):
    """Let small work use as many threads as asked."""
    monkeypatch.setattr(skboost._parallel, "UPDATES_PER_THREAD", 1)


@pytest.mark.skipif(not threads.has_openmp(), reason="the engine was built without OpenMP")
@pytest.mark.parametrize("leaf_estimation", ["gradient", "newton"])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_number_of_threads(loss, grow_policy, leaf_estimation, seed, monkeypatch):
    """The engine gives each thread 1024 rows at least, so that five threads need more than 5000."""
    seen = threads_of_trainers(monkeypatch)
    X, y = make_data(loss, seed, n=6000, n_features=7)
    weight = np.random.default_rng(seed).exponential(size=6000)
    params = {"grow_policy": grow_policy, "leaf_estimation": leaf_estimation, "max_depth": 5, "n_estimators": 6}
    for sample_weight, draws, n_jobs in [(None, {}, 2), (weight, DRAWS, 5)]:
        one = make_estimator(loss, n_jobs=1, **params, **draws).fit(X, y, sample_weight)
        assert seen.pop() == 1
        other = make_estimator(loss, n_jobs=n_jobs, **params, **draws).fit(X, y, sample_weight)
        assert seen.pop() == n_jobs
        assert_same_model(one, other, X)


@pytest.mark.skipif(not threads.has_openmp(), reason="the engine was built without OpenMP")
@pytest.mark.parametrize("loss", ["squared_error", "gaussian"])
def test_number_of_threads_at_every_step_of_a_fit(loss, seed, monkeypatch):
    """So many rows that binning, hashes, row draws, scores and predictions are shared out too."""
    seen = threads_of_trainers(monkeypatch)
    X, y = make_data(loss, seed, n=220_000, n_features=6)
    weight = np.random.default_rng(seed).integers(1, 4, size=len(y))
    params = {"n_estimators": 2, "subsample": 0.5, "early_stopping": True, "noise_variance": 1.0}
    if loss == "gaussian":
        del params["noise_variance"]
    one, other = (make_estimator(loss, n_jobs=n_jobs, **params).fit(X, y, weight) for n_jobs in (1, 2))
    assert seen == [1, 2]
    assert_same_model(one, other, X)
    np.testing.assert_array_equal(one.validation_score_, other.validation_score_)


@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_order_of_rows(loss, grow_policy, seed, monkeypatch):
    seen = threads_of_trainers(monkeypatch)
    for n, n_threads in [(500, 1), (6000, 2)]:
        X, y = make_data(loss, seed, n=n)
        order = np.random.default_rng(seed).permutation(n)
        for draws in ({}, DRAWS):
            params = {"grow_policy": grow_policy, "n_jobs": 2, "n_estimators": 6, **draws}
            one = make_estimator(loss, **params).fit(X, y)
            assert seen.pop() == (n_threads if threads.has_openmp() else 1)
            other = make_estimator(loss, **params).fit(X[order], y[order])
            assert_same_predictions(one, other, X)


@pytest.mark.parametrize("loss", LOSSES)
def test_order_of_rows_with_equal_rows(loss, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(300, 2)).astype(float)
    y = make_data(loss, seed, n=300)[1]
    order = rng.permutation(300)
    for draws in ({}, DRAWS, {"early_stopping": True, "validation_fraction": None}):
        one, other = make_estimator(loss, **draws).fit(X, y), make_estimator(loss, **draws).fit(X[order], y[order])
        assert_same_predictions(one, other, X)


@pytest.mark.parametrize("loss", LOSSES)
def test_refit_and_clone(loss):
    X, y = make_data(loss)
    model = make_estimator(loss, **DRAWS)
    first = clone(model).fit(X, y)
    again = clone(model).fit(X[:50], y[:50]).fit(X, y)
    assert_same_model(first, again, X)
    assert_same_model(first, clone(first).fit(X, y), X)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_seed_matters(loss):
    X, y = make_data(loss)
    fits = [make_estimator(loss, random_state=seed).fit(X, y) for seed in (0, 1, 2**31)]
    fits += [make_estimator(loss, random_state=np.random.RandomState(seed)).fit(X, y) for seed in (0, 1)]
    assert all(differ(fits[i], fits[j], X) for i in range(5) for j in range(i))


def test_random_state_instances_and_none():
    X, y = make_data("squared_error")
    one, other = (make_estimator(random_state=np.random.RandomState(7)).fit(X, y) for _ in range(2))
    assert_same_model(one, other, X)
    shared = np.random.RandomState(7)
    first, second = (make_estimator(random_state=shared).fit(X, y) for _ in range(2))
    assert_same_model(first, one, X)
    assert differ(first, second, X)
    free, free_again = (make_estimator(random_state=None).fit(X, y) for _ in range(2))
    assert differ(free, free_again, X)
    np.random.seed(3)  # noqa: NPY002 (the global generator is what random_state=None reads)
    seeded = make_estimator(random_state=None).fit(X, y)
    np.random.seed(3)  # noqa: NPY002
    assert_same_model(seeded, make_estimator(random_state=None).fit(X, y), X)


def test_fit_leaves_parameters_and_data_alone():
    for loss in LOSSES:
        X, y = make_data(loss)
        weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
        kept = X.copy(), y.copy(), weight.copy()
        for array in (X, y, weight):
            array.flags.writeable = False
        model = make_estimator(loss, categorical_features=[1], early_stopping=True)
        before = model.get_params()
        model.fit(X, y, weight)
        model.predict_uncertainty(X, 1)
        assert model.get_params() == before
        for array, copy in zip((X, y, weight), kept, strict=True):
            np.testing.assert_array_equal(array, copy)


def test_dtype_and_layout_of_x(seed):
    X, y = make_data("squared_error", seed)
    X = X.astype(np.float32)
    one = make_estimator().fit(X, y)
    for other in (
        X.astype(np.float64),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X[::-1][::-1],
        X.tolist(),
    ):
        assert_same_predictions(one, make_estimator().fit(other, y), X, other)


# ---- instruction sets

SCRIPT = """
import hashlib, sys
sys.path[:0] = {path!r}
import numpy as np
from fit_cases import LOSSES, POLICIES, make_data, make_estimator
from skboost._engine.langevin import instruction_set

masked = {{"schedule": "cyclical", "cycle_length": 4, "bootstrap_fraction": 0.5}}
digest = hashlib.sha256()
for loss in LOSSES:
    X, y = make_data(loss, 3, n=300, n_features=9)
    weight = np.random.default_rng(0).exponential(size=300)
    for grow_policy in POLICIES:
        for params in ({{}}, {{"leaf_estimation": "newton"}}, masked):
            for sample_weight in (None, weight):
                model = make_estimator(loss, grow_policy=grow_policy, subsample=0.7, diffusion_temperature=3.0,
                                       **params).fit(X, y, sample_weight)
                digest.update(model._raw(X).tobytes())
                digest.update(model.predict_uncertainty(X, 3).knowledge.tobytes())
print(instruction_set(), digest.hexdigest())
"""


EBM_SCRIPT = """
import hashlib, sys
sys.path[:0] = {path!r}
import numpy as np
from fit_cases import EBM_LOSSES, make_data, make_ebm
from skboost._engine.langevin import instruction_set

digest = hashlib.sha256()
for loss in EBM_LOSSES:
    X, y = make_data(loss, 3, n=400)
    X[:, 3] = np.random.default_rng(1).integers(0, 8, 400)
    weight = np.random.default_rng(0).exponential(size=400)
    for params in ({{}}, {{"max_leaves": 4, "missing": "gain"}}, {{"trainer": "tables"}}, {{"trainer": "rows"}}):
        for sample_weight in (None, weight):
            model = make_ebm(loss, categorical_features=[3], **params).fit(X, y, sample_weight)
            digest.update(model._bagged_raw(X).tobytes())
            for scores in model.term_scores_:
                digest.update(scores.tobytes())
print(instruction_set(), digest.hexdigest())
"""


def run_script(level, n_threads, script=SCRIPT):
    here = os.path.dirname(__file__)
    root = os.path.dirname(os.path.dirname(skboost.__file__))
    env = {**os.environ, "SKBOOST_ISA": str(level), "OMP_NUM_THREADS": str(n_threads)}
    script = script.format(path=[here, root])
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300, check=True
    )
    level, digest = done.stdout.split()
    return int(level), digest


@pytest.mark.parametrize("script", [SCRIPT, EBM_SCRIPT], ids=["boosting of trees", "additive models"])
def test_instruction_sets_and_openmp_threads_in_fresh_processes(script):
    found = [run_script(level, n_threads, script) for level, n_threads in [(0, 1), (1, 4), (2, 2)]]
    levels, digests = zip(*found, strict=True)
    assert levels[0] == 0
    assert levels[1] == min(levels[2], 1)
    assert levels[2] >= instruction_set()
    assert len(set(digests)) == 1


# ---- concurrency


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_predictions_from_many_python_threads(loss, n_jobs, many_threads):
    X, y = make_data(loss, n=400)
    model = make_estimator(loss, n_jobs=n_jobs, averaging="mean").fit(X, y)
    parts = [X[k::8] for k in range(8)]
    alone = [digest_of(model, part) for part in parts]
    start = threading.Barrier(8)

    def work(part):
        start.wait()
        return [digest_of(model, part) for _ in range(20)]

    with ThreadPoolExecutor(8) as pool:
        for expected, found in zip(alone, pool.map(work, parts), strict=True):
            assert set(found) == {expected}


def digest_of(model, X):
    digest = hashlib.sha256()
    for array in (model._raw(X), model.apply(X), model.predict_virtual_ensembles(X, 3), *model.staged_predict(X)):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def test_fits_from_many_python_threads(many_threads):
    cases = [(loss, policy) for loss in LOSSES for policy in POLICIES][:8]

    def fit(case):
        X, y = make_data(case[0], n=300)
        return make_estimator(case[0], grow_policy=case[1], n_jobs=2).fit(X, y)._raw(X)

    alone = [fit(case) for case in cases]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            for expected, found in zip(alone, pool.map(fit, cases), strict=True):
                np.testing.assert_array_equal(expected, found)


# ---- interrupted fits


def interrupt_at(monkeypatch, iteration, error=KeyboardInterrupt):
    step = Chain.step

    def interrupted(self, *args, **kwargs):
        if self.n_iter == iteration and self.sigma > 0:
            raise error
        return step(self, *args, **kwargs)

    monkeypatch.setattr(Chain, "step", interrupted)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("params", [{}, {"early_stopping": True}])
def test_an_interrupted_fit_leaves_the_estimator_unfitted(loss, params, monkeypatch):
    X, y = make_data(loss)
    model = make_estimator(loss, **params)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    for method in (model.predict, model.apply, model.predict_uncertainty, model.predict_virtual_ensembles):
        with pytest.raises(NotFittedError):
            method(X)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        next(iter(model.staged_predict(X)))
    assert_same_model(model.fit(X, y), make_estimator(loss, **params).fit(X, y), X)


@pytest.mark.parametrize("warm_start", [False, True])
def test_an_interrupted_refit_leaves_the_old_model_or_none(warm_start, monkeypatch):
    """Never a mixture: what the estimator predicts is what it predicted before, or it says that it is not fitted."""
    X, y = make_data("multiclass")
    model = make_estimator("multiclass", warm_start=warm_start).fit(X, y)
    before = model.predict_proba(X)
    model.set_params(n_estimators=20)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 15)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    assert model.n_iter_ == 12
    np.testing.assert_array_equal(model.predict_proba(X), before)
    if warm_start:
        assert_same_model(model.fit(X, y), make_estimator("multiclass", n_estimators=20).fit(X, y), X)


def test_a_failed_refit_on_other_columns_leaves_no_mixture(monkeypatch):
    """The old model has four columns; a refit on two that fails must not leave it claiming two."""
    X, y = make_data("squared_error")
    model = make_estimator().fit(X, y)
    before = model.predict(X)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[:, :2], y)
    try:
        after = model.predict(X)
    except NotFittedError:
        return
    np.testing.assert_array_equal(after, before)


def test_a_failed_refit_on_other_categories_leaves_no_mixture(monkeypatch):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"c": pd.Categorical(["a", "b"] * 40), "x": np.arange(80.0)})
    other = pd.DataFrame({"c": pd.Categorical(["0", "a"] * 40), "x": np.arange(80.0)})
    y = np.tile([0.0, 5.0], 40)
    model = make_estimator().fit(frame, y)
    before = model.predict(frame)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        with pytest.raises(KeyboardInterrupt):
            model.fit(other, y)
    try:
        after = model.predict(frame)
    except NotFittedError:
        return
    np.testing.assert_array_equal(after, before)
