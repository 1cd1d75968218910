"""The estimator: standard errors against dense formulas, laws, refusals, warnings, coverage of known truths."""

import pickle
import warnings

import numpy as np
import pytest
from oracles import boulevard_trees as oracle
from sklearn.base import clone

from skboost import BoulevardRegressor
from skboost import _parallel as parallel
from skboost.inference import _regressor

SMALL = {"n_estimators": 25, "random_state": 0, "max_leaf_nodes": 10}
PARALLEL = {"method": "parallel", "n_slots": 3, "n_estimators": 10}
SETTINGS = {
    "default": {},
    "greedy": {"structure": "greedy", "subsample": 1.0},
    "honest": {"structure": "honest", "learning_rate": 1.0, "l2_regularization": 0.7},
    "dropout": {"structure": "random", "dropout": 0.4, "l2_regularization": 1.0},
    "parallel": {**PARALLEL, "structure": "random"},
    "fixed intercept": {"intercept": 1.0, "structure": "random"},
    "calibrated": {"calibration_fraction": 0.3, "noise_variance": "held_out"},
}
pytestmark = pytest.mark.filterwarnings("ignore:With structure", "ignore:The predictions are")


def problem(seed=0, n=160):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(1)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = 3.0 + np.sin(2 * np.nan_to_num(X[:, 0])) + 0.5 * rng.normal(size=n)
    return X, y


def told(model, X):
    """Return every number that a model says."""
    kinds = ["confidence", "prediction", "reproduction"] + ["calibrated"] * (model.calibration_fraction is not None)
    numbers = [model.predict(X), model.standard_errors(X)]
    numbers += [model.predict_interval(X, 0.2, kind).ravel() for kind in kinds]
    state = [model.noise_variance_, model.estimate_variance_, *model.degrees_of_freedom_, model.limit_gap_]
    return np.concatenate([*numbers, state])


@pytest.mark.parametrize("solver", ["exact", "cg", "nystrom"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_standard_errors_are_those_of_the_dense_formula(setting, solver, seed):
    X, y = problem(seed)
    model = (
        BoulevardRegressor(**SMALL, design_adjustment=False, solver=solver).set_params(**SETTINGS[setting]).fit(X, y)
    )
    assert model.solver_ == solver
    if setting == "calibrated":
        assert model._limit.kernel.n_rows == 112
    else:
        train = model._forest.apply((X, model._mapper)).T
        other = model._forest.apply((X[:20] + 0.3, model._mapper)).T
        rules = model._rules
        K, k = oracle.kernel(train, train, rules.shrinkage), oracle.kernel(train, other, rules.shrinkage)
        W = oracle.hat_matrix(K, k, *rules.limit, model.intercept == "mean")
        wanted = np.sqrt(model.noise_variance_ * np.sum(W**2, axis=1))
        rtol = 1e-7 if solver == "nystrom" else 1e-10
        np.testing.assert_allclose(model.standard_errors(X[:20] + 0.3), wanted, rtol=rtol)
        if solver == "exact":
            P = oracle.hat_matrix(K, K, *rules.limit, model.intercept == "mean")
            df1, df2 = np.trace(P), np.sum(P**2)
            np.testing.assert_allclose(model.degrees_of_freedom_, (df1, df2), rtol=1e-10)
            rss = np.sum((y - model.predict(X)) ** 2)
            assert model.noise_variance_ == pytest.approx(rss / (160 - 2 * df1 + df2), rel=1e-10)
            gap = model.predict(X) - model.intercept_ - P @ (y - model.intercept_)
            assert model.limit_gap_ == pytest.approx(np.sqrt(np.sum(gap**2) / model.noise_variance_ / df2), rel=1e-8)


def test_every_value_a_leaf_is_analysis_of_variance():
    """Predictions are cell means, the noise variance is that within cells, standard errors are those of means."""
    rng = np.random.default_rng(1)
    x = np.repeat(np.arange(5), [4, 6, 8, 10, 12])
    y = rng.normal(size=40) + x
    model = BoulevardRegressor(
        structure="random", n_estimators=40, subsample=1.0, min_samples_leaf=1, max_leaf_nodes=None, learning_rate=1.0,
        random_state=3, design_adjustment=False,
    ).fit(x[:, None], y)  # fmt: skip
    assert len(model._forest.leaf_weight) == 40 * 5
    counts = np.bincount(x)
    means = np.bincount(x, y) / counts
    cells = np.arange(5)[:, None]
    variance = np.sum((y - means[x]) ** 2) / 35
    np.testing.assert_allclose(model.predict(cells), means, rtol=1e-12)
    assert model.noise_variance_ == pytest.approx(variance, rel=1e-10)
    np.testing.assert_allclose(model.degrees_of_freedom_, (5, 5), rtol=1e-12)
    np.testing.assert_allclose(model.standard_errors(cells), np.sqrt(variance / counts), rtol=1e-10)
    assert model.limit_gap_ < 1e-10


def test_intervals_are_around_the_prediction(seed):
    X, y = problem(seed)
    model = BoulevardRegressor(**SMALL, calibration_fraction=0.25).fit(X, y)
    mean, se = model.predict(X), model.standard_errors(X)
    widths = {}
    for kind in ("confidence", "prediction", "reproduction", "calibrated"):
        interval = model.predict_interval(X, 0.1, kind)
        np.testing.assert_allclose(interval.mean(axis=1), mean, rtol=1e-12)
        widths[kind] = 0.5 * np.diff(interval, axis=1)[:, 0]
    np.testing.assert_allclose(widths["confidence"], 1.6448536269514722 * se, rtol=1e-10)
    np.testing.assert_allclose(widths["reproduction"], np.sqrt(2) * widths["confidence"], rtol=1e-10)
    scale = np.sqrt(model.noise_variance_ + se**2)
    np.testing.assert_allclose(widths["prediction"], 1.6448536269514722 * scale, rtol=1e-10)
    ratio = widths["calibrated"] / scale
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-10)
    assert np.isclose(model._ratios, ratio[0], rtol=1e-10).any()
    np.testing.assert_array_equal(model.predict_interval(X), model.predict_interval(X, 0.05, "confidence"))


def test_held_out_variance_is_the_mean_squared_error_on_these_rows(seed):
    """With the calibration quantiles of a constant variance the held-out rows can be told apart by their ratios."""
    X, y = problem(seed)
    model = BoulevardRegressor(**SMALL, calibration_fraction=40, noise_variance="held_out").fit(X, y)
    assert len(model._ratios) == 40
    mean, se = model.predict(X), model.standard_errors(X)
    ratios = np.abs(y - mean) / np.sqrt(model.noise_variance_ + se**2)
    held = np.isclose(ratios[:, None], model._ratios, rtol=1e-9, atol=0).any(axis=1)
    assert held.sum() == 40
    assert model.noise_variance_ == pytest.approx(np.mean((y - mean)[held] ** 2), rel=1e-9)


def test_known_noise_variance():
    X, y = problem()
    params = {**SMALL, "design_adjustment": False}
    one, four = (BoulevardRegressor(**params, noise_variance=v).fit(X, y) for v in (1.0, 4.0))
    assert four.noise_variance_ == four.estimate_variance_ == 4.0
    np.testing.assert_allclose(four.standard_errors(X), 2 * one.standard_errors(X), rtol=1e-12)


def test_design_adjustment_widens():
    X, y = problem(n=400)
    y = y + 2 * np.nan_to_num(X[:, 1]) + 2 * np.nan_to_num(X[:, 2])
    params = {**SMALL, "structure": "random", "learning_rate": 1.0}
    plain = BoulevardRegressor(**params, design_adjustment=False).fit(X, y)
    model = BoulevardRegressor(**params).fit(X, y)
    assert model.noise_variance_ == plain.noise_variance_ == plain.estimate_variance_
    assert model.estimate_variance_ > 1.02 * plain.noise_variance_
    ratio = model.standard_errors(X) / plain.standard_errors(X)
    np.testing.assert_allclose(ratio, np.sqrt(model.estimate_variance_ / plain.noise_variance_), rtol=1e-10)


# ---- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "solver"), zip(SETTINGS, ["exact", "cg", "nystrom", "exact", "cg", "nystrom", "exact"], strict=True)
)
def test_same_bits_for_any_order_of_rows_and_threads(setting, solver, seed, monkeypatch):
    monkeypatch.setattr(parallel, "UPDATES_PER_THREAD", 1)
    X, y = problem(seed)
    X[5], y[5] = X[6], y[6]
    model = BoulevardRegressor(**SMALL, solver=solver, n_jobs=1).set_params(**{**SETTINGS[setting], "n_estimators": 9})
    wanted = told(model.fit(X, y), X)
    order = np.random.default_rng(seed).permutation(len(y))
    np.testing.assert_array_equal(told(clone(model).fit(X[order], y[order]), X), wanted)
    np.testing.assert_array_equal(told(clone(model).set_params(n_jobs=3).fit(X, y), X), wanted)
    np.testing.assert_array_equal(told(pickle.loads(pickle.dumps(model)), X), wanted)
    other = clone(model).set_params(random_state=1).fit(X, y)
    assert (told(other, X) != wanted).any()


@pytest.mark.parametrize("setting", SETTINGS)
def test_weights_are_copies_and_zero_is_absence(setting, seed):
    X, y = problem(seed)
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 4, len(y))
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    model = BoulevardRegressor(**SMALL).set_params(**SETTINGS[setting])
    weighted, repeated = clone(model).fit(X, y, weight), clone(model).fit(X[rows], y[rows])
    np.testing.assert_array_equal(told(weighted, X), told(repeated, X))


def test_unit_of_the_target(seed):
    X, y = problem(seed)
    one, other = BoulevardRegressor(**SMALL).fit(X, y), BoulevardRegressor(**SMALL).fit(X, 1024 * y)
    np.testing.assert_allclose(other.predict(X), 1024 * one.predict(X), rtol=1e-12)
    np.testing.assert_allclose(other.standard_errors(X), 1024 * one.standard_errors(X), rtol=1e-10)


def test_categories_and_frames():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": pd.Categorical(rng.choice(list("xyz"), 200))})
    y = X["b"].cat.codes.to_numpy() * 2.0 + 0.1 * rng.normal(size=200)
    for structure in ("random", "honest", "greedy"):
        model = BoulevardRegressor(**{**SMALL, "n_estimators": 100}, structure=structure).fit(X, y)
        assert model.score(X, y) > 0.9
        assert np.isfinite(model.standard_errors(X)).all()
    assert list(model.feature_names_in_) == ["a", "b"]


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = problem()
    model = BoulevardRegressor(**SMALL).fit(X, y)
    wanted = model.predict(X)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X[:, :2], y, np.full(len(y), 0.5))
    np.testing.assert_array_equal(model.predict(X), wanted)


# ---- refusals and warnings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({"method": "parallel", "learning_rate": 0.5}, ["method", "learning_rate"]),
        ({"method": "parallel", "dropout": 0.1}, ["method", "dropout"]),
        ({"n_slots": 3}, ["n_slots", "method"]),
        ({"method": "parallel", "n_slots": 1}, ["n_slots"]),
        ({"noise_variance": "held_out"}, ["noise_variance", "calibration_fraction"]),
        ({"noise_variance": 0.0}, ["noise_variance"]),
        ({"noise_variance": np.inf}, ["noise_variance"]),
        ({"noise_variance": np.nan}, ["noise_variance"]),
        ({"intercept": np.inf}, ["intercept"]),
        ({"n_landmarks": 3}, ["n_landmarks", "solver"]),
        ({"dropout": 1.0}, ["dropout"]),
        ({"learning_rate": 0.0}, ["learning_rate"]),
        ({"learning_rate": 6.0}, ["learning_rate"]),
        ({"learning_rate": 1e-300}, ["learning_rate", "dropout"]),
        ({"learning_rate": 0.01, "dropout": 0.95}, ["learning_rate", "dropout"]),
        ({"intercept": 1e200}, ["intercept"]),
        ({"calibration_fraction": 160}, ["calibration_fraction", "n_samples=160"]),
        ({"calibration_fraction": 10**9}, ["calibration_fraction", "n_samples=160"]),
        ({"structure": "refit"}, ["structure"]),
        ({"n_estimators": 0}, ["n_estimators"]),
    ],
)
def test_parameters_that_are_refused(params, names):
    X, y = problem()
    with pytest.raises(ValueError, match=names[0]) as caught:
        BoulevardRegressor(**params).fit(X, y)
    assert all(name in str(caught.value) for name in names)


@pytest.mark.parametrize("weight", [0.5, np.array([1.0, 1.5] * 80), 1e9])
def test_weights_that_are_refused(weight):
    X, y = problem()
    with pytest.raises(ValueError, match="sample_weight must hold whole numbers"):
        BoulevardRegressor(**SMALL).fit(X, y, np.broadcast_to(weight, 160))


def test_no_degrees_of_freedom():
    x, y = np.arange(6.0)[:, None], np.arange(6.0)
    params = {"min_samples_leaf": 1, "max_leaf_nodes": None, "subsample": 1.0, "structure": "random"}
    with pytest.raises(ValueError, match=r"noise_variance='auto'.*min_samples_leaf"):
        BoulevardRegressor(**params, random_state=0).fit(x, y)
    model = BoulevardRegressor(**params, random_state=0, noise_variance=2.0, design_adjustment=False).fit(x, y)
    np.testing.assert_allclose(model.standard_errors(x), np.sqrt(2), rtol=1e-6)


def test_a_part_of_a_degree_of_freedom_is_none():
    x = np.random.default_rng(0).uniform(size=(60, 2))
    params = {"min_samples_leaf": 1, "max_leaf_nodes": None, "subsample": 1.0, "n_estimators": 30, "random_state": 0}
    with pytest.raises(ValueError, match="No degrees of freedom are left"):
        BoulevardRegressor(**params).fit(x, x[:, 0])


def test_the_least_share_of_the_mean_has_the_traces_of_the_dense_formula():
    X, y = problem(n=80)
    model = BoulevardRegressor(**SMALL, learning_rate=1e-3, design_adjustment=False).fit(X, y)
    leaves = model._forest.apply((X, model._mapper)).T
    K, (c, s) = oracle.kernel(leaves, leaves, model._rules.shrinkage), model._rules.limit
    centre = np.eye(80) - 1 / 80
    hat = s * np.linalg.solve(c * np.eye(80) + K, K) @ centre + 1 / 80
    np.testing.assert_allclose(model.degrees_of_freedom_, [np.trace(hat), (hat**2).sum()], rtol=1e-8)


def test_leaves_larger_than_any_table():
    X, y = problem(n=40)
    model = BoulevardRegressor(**SMALL, min_samples_leaf=2**70).fit(X, y)
    assert model.degrees_of_freedom_ == pytest.approx((1, 1), abs=1e-9)


def test_exact_solver_states_its_memory(monkeypatch):
    monkeypatch.setattr(_regressor, "MOST_EXACT_ROWS", 100)
    with pytest.raises(ValueError, match=r"solver='exact' would need .* GB .* 160 rows"):
        BoulevardRegressor(solver="exact").fit(*problem())


def test_auto_is_exact_for_few_rows_only(monkeypatch):
    X, y = problem()
    assert BoulevardRegressor(**SMALL).fit(X, y).solver_ == "exact"
    monkeypatch.setattr(_regressor, "AUTO_EXACT_ROWS", 100)
    assert BoulevardRegressor(**SMALL).fit(X, y).solver_ == "cg"


@pytest.mark.parametrize("alpha", [0, 1, -0.1, True, "0.1", None, np.nan])
def test_alpha_out_of_range(alpha):
    X, y = problem()
    model = BoulevardRegressor(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match="alpha must be a float"):
        model.predict_interval(X, alpha)


def test_intervals_that_the_fit_does_not_give():
    X, y = problem()
    model = BoulevardRegressor(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match="kind must be one of"):
        model.predict_interval(X, kind="tolerance")
    with pytest.raises(ValueError, match=r"kind='calibrated' needs .* calibration_fraction"):
        model.predict_interval(X, kind="calibrated")
    model.set_params(calibration_fraction=9).fit(X, y)
    with pytest.raises(ValueError, match="too small for 9 held-out rows"):
        model.predict_interval(X, 0.05, kind="calibrated")


@pytest.mark.filterwarnings("error")
def test_warnings():
    X, y = problem()
    greedy = BoulevardRegressor(**SMALL, structure="greedy").fit(X, y)
    greedy.predict(X)
    with pytest.warns(UserWarning, match="lower bounds"):
        greedy.standard_errors(X)
    with pytest.warns(UserWarning, match="lower bounds"):
        greedy.predict_interval(X)
    few = BoulevardRegressor(**{**SMALL, "n_estimators": 3}, structure="random", learning_rate=1.0).fit(X, y)
    assert few.limit_gap_ > 0.1
    with pytest.warns(UserWarning, match="increase n_estimators=3"):
        few.predict_interval(X)
    many = few.set_params(n_estimators=300).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        many.predict_interval(X)


# ---- coverage --------------------------------------------------------------------------------------------------------


def test_random_structures_cover_their_mean_over_labels(seed):
    """Rows and structures stay, labels change: the limit is linear, and intervals of known noise hold it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(200, 1))
    signal = np.sin(2 * np.pi * X[:, 0])
    params = {**SMALL, "n_estimators": 100, "structure": "random", "subsample": 1.0, "noise_variance": 0.25}
    model = BoulevardRegressor(**params, design_adjustment=False).fit(X, signal)
    grid = np.linspace(0.02, 0.98, 25)[:, None]
    mean, inside, variances = model.predict(grid), [], []
    for _ in range(20):
        y = signal + 0.5 * rng.normal(size=200)
        fit = clone(model).fit(X, y)
        interval = fit.predict_interval(grid, 0.1)
        inside.append((interval[:, 0] < mean) & (mean < interval[:, 1]))
        variances.append((fit.predict(grid) - mean) ** 2 / fit.standard_errors(grid) ** 2)
    assert 0.75 < np.mean(inside) < 0.99
    assert 0.5 < np.mean(variances) < 1.7


def test_calibrated_intervals_cover_skewed_noise(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(1600, 1))
    y = X[:, 0] + rng.exponential(size=1600) ** 2
    model = BoulevardRegressor(**SMALL, calibration_fraction=0.5).fit(X[:600], y[:600])
    interval = model.predict_interval(X[600:], 0.1, "calibrated")
    covered = np.mean((interval[:, 0] <= y[600:]) & (y[600:] <= interval[:, 1]))
    assert 0.84 < covered < 0.96
