"""Whole fits: same bits for any threads, order and repetition of rows; interrupted fits; callbacks; scores."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fit_cases import CLASSIFICATION_LOSSES, EBM_LOSSES, assert_same_ebm, ebm_parts, make_data, make_ebm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.validation import check_is_fitted

import skboost
from skboost.ebm import EBMClassifier, EBMRegressor, _progress

SETTINGS = {
    "plain": {},
    "rows": {"trainer": "rows"},
    "tables": {"trainer": "tables"},
    "all rows": {"validation_size": 0, "max_rounds": 15},
    "a number of rows": {"validation_size": 20, "max_leaves": 3},
    "cyclic": {"greedy_ratio": 0.0, "smoothing_rounds": 0},
    "given pairs": {"interactions": [(0, 1), (2, 1)], "purify": False},
    "no mains": {"exclude": "mains", "interactions": 3},
    "gain": {"missing": "gain", "cyclic_progress": 0.5},
}


def with_levels(X, seed=0):
    """X with its last column made of a few levels."""
    X = X.copy()
    X[:, -1] = np.random.default_rng(seed).integers(0, 6, len(X))
    return X


def case(loss, seed=0, **kwargs):
    X, y = make_data(loss, seed, **kwargs)
    return with_levels(X, seed), y


def make(loss, **params):
    return make_ebm(loss, **{"categorical_features": [3], **params})


# ---- laws


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_number_of_threads_and_order_of_rows(loss, setting, seed):
    X, y = case(loss, seed, n=150)
    order = np.random.default_rng(seed).permutation(len(y))
    model = make(loss, n_jobs=1, **SETTINGS[setting]).fit(X, y)
    for n_jobs in (2, 3):
        assert_same_ebm(make(loss, n_jobs=n_jobs, **SETTINGS[setting]).fit(X[order], y[order]), model, X)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_weights_are_copies_and_zeros_are_absent(loss, setting, seed):
    X, y = case(loss, seed, n=100)
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 4, len(y))
    for label in np.unique(y)[:3]:
        weight[np.flatnonzero(y == label)[0]] += 2  # no class vanishes
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    model = make(loss, **SETTINGS[setting])
    assert_same_ebm(clone(model).fit(X, y, weight), clone(model).fit(X[rows], y[rows]), X)


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_fractional_weights_in_any_order(loss, seed):
    X, y = case(loss, seed)
    rng = np.random.default_rng(seed)
    weight = rng.exponential(size=len(y)) * 10 ** rng.uniform(-2, 2, len(y))
    order = rng.permutation(len(y))
    one, other = make(loss).fit(X, y, weight), make(loss).fit(X[order], y[order], weight[order])
    assert_same_ebm(one, other, X)
    assert not np.array_equal(one._raw(X), make(loss).fit(X, y)._raw(X))


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_refit_clone_and_seed(loss):
    X, y = case(loss)
    model = make(loss)
    first, again = clone(model).fit(X, y), clone(model).fit(X[:60, :], y[:60]).fit(X, y)
    assert_same_ebm(first, again, X)
    assert_same_ebm(clone(first).fit(X, y), first, X)
    assert not np.array_equal(make(loss, random_state=1).fit(X, y)._raw(X), first._raw(X))


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_dtype_and_layout_of_x(loss):
    X, y = case(loss)
    X = X.astype(np.float32)
    model = make(loss).fit(X, y)
    for other in (X.astype(np.float64), np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.tolist()):
        assert_same_ebm(make(loss).fit(other, y), model, X, other)


def test_strided_targets_are_taken():
    X, y = case("squared_error")
    both = np.stack([y, -y], axis=1)
    assert_same_ebm(
        make("squared_error", validation_size=0).fit(X, both[:, 0]),
        make("squared_error", validation_size=0).fit(X, y),
        X,
    )


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_fit_leaves_parameters_and_data_alone(loss):
    X, y = case(loss)
    weight, bags = np.arange(len(y)) % 3.0 + 1, np.where(np.arange(3 * len(y)).reshape(-1, 3) % 5, 1, -1)
    init = np.zeros((len(y), 3)) if loss == "multiclass" else np.zeros(len(y))
    arrays = X, y, weight, bags, init
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    model = make(loss)
    before = model.get_params()
    model.fit(X, y, weight, bags=bags, init_score=init)
    model.predict(X, init_score=init)
    assert model.get_params() == before
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_fits_and_predictions_from_many_python_threads():
    cases = [(loss, setting) for loss in EBM_LOSSES for setting in ("plain", "cyclic")]

    def work(pair):
        X, y = case(pair[0])
        return make(pair[0], n_jobs=2, **SETTINGS[pair[1]]).fit(X, y)._bagged_raw(X)

    alone = [work(pair) for pair in cases]
    with ThreadPoolExecutor(6) as pool:
        for expected, found in zip(alone, pool.map(work, cases), strict=True):
            np.testing.assert_array_equal(found, expected)


# ---- scores


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_all_predictions_agree(loss):
    X, y = case(loss)
    model = make(loss).fit(X, y)
    raw = model._raw(X)
    np.testing.assert_allclose(model.eval_terms(X).sum(axis=1).reshape(raw.shape) + model.intercept_, raw, atol=1e-12)
    members = model._bagged_raw(X)
    assert members.shape == (3, *raw.shape)
    np.testing.assert_allclose(np.average(members, axis=0, weights=model.bag_weights_), raw, atol=1e-12)
    spread = model.predict_with_uncertainty(X)
    assert spread.shape == ((len(y), 3, 2) if loss == "multiclass" else (len(y), 2))
    np.testing.assert_allclose(spread[..., 0].reshape(raw.shape), raw, atol=1e-12)
    np.testing.assert_allclose(spread[..., 1].reshape(raw.shape), members.std(axis=0), atol=1e-9)
    told = model.predict_uncertainty(X)
    if loss in CLASSIFICATION_LOSSES:
        proba = model.predict_proba(X)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba)
        np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
        decision = model.decision_function(X)
        assert decision.shape == ((len(y), 3) if loss == "multiclass" else (len(y),))
        np.testing.assert_array_equal(told.total, told.data + told.knowledge)
        assert told.mean.shape == proba.shape
        assert model.intercept_.shape == ((3,) if loss == "multiclass" else (1,))
    else:
        assert isinstance(model.intercept_, float)
        assert told.data is None
        link = np.log if model.link_ == "log" else np.asarray
        np.testing.assert_allclose(link(model.predict(X)), raw[:, 0], atol=1e-12)
        scale = np.exp if model.link_ == "log" else np.asarray
        np.testing.assert_allclose(told.knowledge, scale(members[:, :, 0]).var(axis=0), rtol=1e-9)
    assert (told.knowledge >= 0).all()


def test_scores_of_classes_sum_to_zero():
    X, y = case("multiclass")
    model = make("multiclass").fit(X, y)
    for tensors in (model.term_scores_, model.bagged_scores_, [model.intercept_, model.bagged_intercept_]):
        for tensor in tensors:
            np.testing.assert_allclose(tensor.sum(axis=-1), 0, atol=1e-12)


@pytest.mark.parametrize("loss", ["binary", "multiclass", "squared_error"])
def test_one_bag_has_no_spread(loss):
    X, y = case(loss)
    model = make(loss, outer_bags=1).fit(X, y)
    assert not model.predict_uncertainty(X).knowledge.any()
    assert not any(deviation.any() for deviation in model.standard_deviations_)


def test_frames_with_texts_and_unknown_levels():
    pd = pytest.importorskip("pandas")
    X, y = make_data("squared_error", n=200, missing=0)
    colour = np.array(["red", "green", "blue"], dtype=object)[np.arange(200) % 3]
    y = y + 3 * (colour == "red")
    frame = pd.DataFrame({"a": X[:, 0], "colour": colour})
    frame.loc[:9, "colour"] = None
    model = make_ebm(interactions=[("a", "colour")]).fit(frame, y)
    assert model.feature_types_in_ == ["continuous", "nominal"]
    assert model.bins_[1][0] == {"blue": 1, "green": 2, "red": 3}
    odd = pd.DataFrame({"a": [0.0] * 4, "colour": ["red", "green", None, "violet"]})
    scores = model.eval_terms(odd)[:, 1]
    np.testing.assert_array_equal(scores, model.term_scores_[1][[3, 2, 0, 4]])
    assert scores[0] > 1 > scores[1]
    assert scores[3] == 0
    assert model.shape("colour").value("violet") == 0
    with pytest.raises(ValueError, match="feature names"):
        model.predict(odd[["colour", "a"]])


# ---- initial scores


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_initial_scores_are_added(loss):
    X, y = case(loss)
    rng = np.random.default_rng(0)
    init = rng.normal(size=(len(y), 3)) if loss == "multiclass" else rng.normal(size=len(y))
    model = make(loss).fit(X, y, init_score=init)
    with_init = model._raw(X, init)
    np.testing.assert_allclose(with_init - model._raw(X), init.reshape(with_init.shape), atol=1e-12)
    assert not np.array_equal(model._raw(X), make(loss).fit(X, y)._raw(X))
    # Initial scores are part of the content that draws are keyed by, so the bags are given here.
    bags = rng.choice([-1, 1, 1, 1], size=(len(y), 3))
    constant = np.full_like(init, 0.75)
    plain, shifted = (make(loss, interactions=0).fit(X, y, bags=bags, init_score=scores) for scores in (None, constant))
    expected = plain._raw(X) + 0.75 * (loss == "multiclass")
    np.testing.assert_allclose(shifted._raw(X, constant), expected, atol=1e-9)
    order = rng.permutation(len(y))
    assert_same_ebm(make(loss).fit(X[order], y[order], init_score=init[order]), model, X)
    weight = (rng.random(len(y)) < 0.8).astype(float)
    kept = weight > 0
    assert_same_ebm(
        make(loss).fit(X, y, weight, init_score=init), make(loss).fit(X[kept], y[kept], init_score=init[kept]), X
    )


def test_initial_scores_of_models():
    X, y = case("squared_error", missing=0)
    linear = LinearRegression().fit(X, y)
    one, other = (
        make("squared_error").fit(X, y, init_score=linear),
        make("squared_error").fit(X, y, init_score=linear.predict(X)),
    )
    assert_same_ebm(one, other, X)
    np.testing.assert_array_equal(one.predict(X, init_score=linear), other.predict(X, init_score=linear.predict(X)))
    counts = case("poisson", missing=0)[1]
    first = make("poisson").fit(X, counts)
    second = make("poisson").fit(X, counts, init_score=first)
    np.testing.assert_allclose(
        second.predict(X, init_score=first), second.predict(X, init_score=np.log(first.predict(X))), rtol=1e-12
    )
    for loss in CLASSIFICATION_LOSSES:
        labels = case(loss, missing=0)[1]
        logistic = LogisticRegression().fit(X, labels)
        model = make(loss).fit(X, labels, init_score=logistic)
        proba = logistic.predict_proba(X)
        scores = np.log(proba) if loss == "multiclass" else np.log(proba[:, 1] / proba[:, 0])
        np.testing.assert_allclose(
            model.predict_proba(X, init_score=logistic), model.predict_proba(X, init_score=scores)
        )


# ---- bags of the user


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_given_bags(loss):
    X, y = case(loss)
    bags = np.random.default_rng(1).choice([-1, 1, 1, 1, 2, 0], size=(len(y), 3))
    model = make(loss).fit(X, y, bags=bags)
    np.testing.assert_array_equal(model.bag_weights_, np.maximum(bags, 0).sum(axis=0))
    order = np.random.default_rng(2).permutation(len(y))
    assert_same_ebm(make(loss).fit(X[order], y[order], bags=bags[order]), model, X)
    same = np.repeat(bags[:, :1], 3, axis=1)
    whole = make(loss, validation_size=0, smoothing_rounds=0, interaction_smoothing_rounds=0, interactions=0)
    whole.fit(X, y, bags=np.abs(np.sign(same)) * 1)
    np.testing.assert_array_equal(whole.bag_weights_, np.full(3, np.count_nonzero(same[:, 0])))


def test_bags_follow_dropped_rows():
    X, y = case("squared_error")
    bags = np.random.default_rng(1).choice([-1, 1], size=(len(y), 3))
    weight = np.ones(len(y))
    weight[::4] = 0
    one = make("squared_error").fit(X, y, weight, bags=bags)
    assert_same_ebm(make("squared_error").fit(X[weight > 0], y[weight > 0], bags=bags[weight > 0]), one, X)


# ---- failed and interrupted fits, callbacks, progress


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupted_fit_leaves_what_was_there(n_jobs):
    X, y = case("multiclass")

    def interrupt(bag, stage, step, metric):
        if (bag, step) == (1, 7):
            raise KeyboardInterrupt

    model = make("multiclass", n_jobs=n_jobs, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    for method in (model.predict, model.eval_terms, model.predict_uncertainty, model.explain_local):
        with pytest.raises(NotFittedError):
            method(X)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    fitted = make("multiclass", n_jobs=n_jobs).fit(X, y)
    expected = make("multiclass").fit(X, y)
    fitted.set_params(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.set_params(categorical_features=None).fit(X[:, :3], y)
    assert_same_ebm(fitted, expected, X)
    assert threading.active_count() < 20


def test_an_error_in_one_bag_stops_the_others():
    X, y = case("squared_error", n=400)
    seen = []

    def fail(bag, stage, step, metric):
        seen.append(bag)
        if bag == 0 and step == 20:
            raise RuntimeError("a mistake of the user")

    endless = {"early_stopping_rounds": 0, "max_rounds": 1_000_000, "interactions": 0, "outer_bags": 4}
    with pytest.raises(RuntimeError, match="a mistake of the user"):
        make("squared_error", n_jobs=2, callback=fail, **endless).fit(X, y)
    assert set(seen) <= {0, 1}


def test_a_signal_of_the_user_ends_a_long_fit():
    """As Ctrl-C does: the main thread gets the exception while the bags run without the interpreter."""
    import _thread

    X, y = case("squared_error", n=400)
    # A shell that runs the tests in the background has the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for n_jobs in (1, 2):
            endless = {"early_stopping_rounds": 0, "max_rounds": 100_000_000, "interactions": 0, "n_jobs": n_jobs}
            threading.Timer(0.3, _thread.interrupt_main).start()
            started = time.perf_counter()
            with pytest.raises(KeyboardInterrupt):
                make("squared_error", **endless).fit(X, y)
            assert time.perf_counter() - started < 20
    finally:
        signal.signal(signal.SIGINT, before)


def test_callbacks_see_every_step_of_every_bag():
    X, y = case("binary")
    seen = {}

    def record(bag, stage, step, metric):
        seen.setdefault((bag, stage), []).append((step, metric))

    model = make("binary", n_jobs=2, trainer="rows", callback=record).fit(X, y)
    assert set(seen) == set(itertools.product(range(3), range(2)))
    for (bag, stage), found in seen.items():
        steps, metrics = zip(*found, strict=True)
        assert list(steps) == list(range(1, len(steps) + 1))
        assert np.isfinite(metrics).all()
        best = np.flatnonzero(metrics == np.min(metrics))[-1] + 1
        assert model.best_iteration_[stage, bag] == best
    assert_same_ebm(make("binary", trainer="rows").fit(X, y), model, X)


@pytest.mark.parametrize("validation_size", [0, 0.2])
def test_a_callback_may_end_stages(validation_size):
    X, y = case("squared_error")
    steps = {}

    def limit(bag, stage, step, metric):
        steps[bag, stage] = step
        return step >= 10 + bag

    model = make("squared_error", callback=limit, validation_size=validation_size, early_stopping_rounds=0).fit(X, y)
    assert steps == {(bag, stage): 10 + bag for bag in range(3) for stage in range(2)}
    np.testing.assert_array_equal(model.best_iteration_, [[10, 11, 12]] * 2)
    assert any(scores.any() for scores in model.term_scores_)


def test_progress_is_printed(capsys):
    X, y = case("squared_error")
    make("squared_error").fit(X, y)
    assert capsys.readouterr().out == ""
    make("squared_error", verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("[EBMRegressor] start, main effects, 3 bags, n_rows=120, n_terms=4, trainer=rows")
    assert lines[1].startswith("[EBMRegressor] end, main effects")
    assert lines[2].startswith("[EBMRegressor] start, pairs, 3 bags, n_rows=120, n_terms=2")
    make("squared_error", verbose=2).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    done = [line for line in lines if line.endswith("done")]
    assert len(done) == 6
    assert "main effects, bag " in done[0]
    assert "validation loss " in done[0]


def test_lines_in_between_come_once_a_second(capsys):
    ticks = iter([0.0, 0.0, 0.5, 0.9, 1.1, 1.2, 1.9])
    reporter = _progress.BagReporter("Name", 2, verbose=2, clock=lambda: next(ticks))
    reporter.start_stage("pairs", n_rows=5)
    for step in (10, 20, 30, 40):
        reporter.update(0, step, float("nan"), False)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["[Name] start, pairs, 2 bags, n_rows=5", "[Name] pairs, bag 1/2, step 30, elapsed 1.20 s"]


# ---- memory


RESIDENT = """
import sys
sys.path[:0] = {path!r}
import gc
import numpy as np
from fit_cases import EBM_LOSSES, make_data, make_ebm

def resident():
    gc.collect()
    with open("/proc/self/status") as status:
        return max(int(line.split()[1]) for line in status if line.startswith({field!r})) / 1024
"""
LOOP = """
cases = [(loss, *make_data(loss, n=400)) for loss in EBM_LOSSES]
for round in range(30):
    for loss, X, y in cases:
        make_ebm(loss, trainer=["rows", "tables"][round % 2], n_jobs=2).fit(X, y).predict_uncertainty(X)
    if round in (9, 29):
        print(resident())
"""
WIDE = """
from skboost import EBMRegressor
X = np.random.default_rng(0).normal(size=(500, 5000))
before = resident()
EBMRegressor(interactions=0, max_rounds=3, smoothing_rounds=1, random_state=0, n_jobs=2).fit(X, X[:, 0])
print(before, resident(), X.nbytes / 2**20)
"""


def run_measured(code, field):
    """Run a script in a fresh process; return the numbers that it prints."""
    here = os.path.dirname(os.path.dirname(__file__))
    root = os.path.dirname(os.path.dirname(skboost.__file__))
    script = RESIDENT.format(path=[here, root], field=field) + code
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    return [float(word) for word in done.stdout.split()]


linux = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from the proc file system")


@linux
def test_fits_in_a_loop_keep_memory_flat():
    """Resident memory of 120 fits after 60: 8 MB more would be 70 KB per fit, less than the rows of its three bags."""
    after_10, after_30 = run_measured(LOOP, "VmRSS")
    assert after_30 < after_10 + 8


@linux
def test_many_columns_take_no_more_than_twenty_times_the_data():
    before, peak, data = run_measured(WIDE, "VmHWM")
    assert peak - before < 20 * data


def test_no_warnings():
    for loss in EBM_LOSSES:
        X, y = case(loss)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = make(loss).fit(X, y)
            model.predict_uncertainty(X)
            model.explain_global()


def test_diverging_updates_are_told():
    """From initial scores far off the target the steps of a log link run away; what the warning advises holds them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y, far = np.exp(X[:, 0]), -30 * np.sign(X[:, 0])
    plain = {"interactions": 0, "outer_bags": 2, "smoothing_rounds": 0, "validation_size": 0, "random_state": 0}
    model = EBMRegressor(loss="poisson", max_rounds=20, learning_rate=1.0, **plain)
    with pytest.warns(RuntimeWarning, match=r"main effects of bag [01] diverged.*Use min_hessian") as told:
        model.fit(X, y, init_score=far)
    assert len(told) == 2
    assert max(np.abs(scores).max() for scores in model.bagged_scores_) > 1e6
    assert np.isfinite(model.predict(X, init_score=far)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(min_hessian=1.0, learning_rate=0.05).fit(X, y, init_score=far)
    assert max(np.abs(scores).max() for scores in model.bagged_scores_) < 30


def test_estimators_of_both_kinds_have_their_tags():
    assert EBMRegressor().__sklearn_tags__().input_tags.allow_nan
    assert not EBMRegressor().__sklearn_tags__().target_tags.positive_only
    assert EBMRegressor(loss="gamma").__sklearn_tags__().target_tags.positive_only
    assert EBMClassifier().__sklearn_tags__().classifier_tags.multi_class


def test_parts_are_all_compared():
    """The comparison of models in these tests sees a change of any single score."""
    X, y = case("squared_error")
    model = make("squared_error").fit(X, y)
    changed = model.copy()
    changed.bagged_scores_[1][0, 2] += 1e-15
    assert any(
        not np.array_equal(a, b)
        for a, b in zip(ebm_parts(model, X).values(), ebm_parts(changed, X).values(), strict=True)
    )
