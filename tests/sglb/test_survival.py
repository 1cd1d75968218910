"""Cox's partial likelihood and failure times in the estimator: forms of targets, laws, survival functions."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import survival as oracle
from scipy import optimize, stats
from sklearn.base import clone
from sklearn.metrics import make_scorer

from skboost import SGLBRegressor
from skboost._losses import AcceleratedFailureTime, Cox, number_targets
from skboost._sampling import row_hashes
from skboost.lightgbm import dumps, loads
from skboost.metrics import concordance_index
from skboost.sglb._chain import Chain, Rows, TreeRules

LAWS = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}
LOSSES = [
    {"loss": "cox"},
    {"loss": "aft", "scale": 0.5},
    {"loss": "aft", "distribution": "logistic", "scale": 0.3},
    {"loss": "aft", "distribution": "extreme", "scale": 0.7},
]
IDS = ["cox", "normal", "logistic", "extreme"]


def make_data(n=300, seed=0, n_times=None):
    """Return (X, structured target) with a third of the rows censored; `n_times` makes ties."""
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, 3))
    time = np.exp(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.5 * rng.normal(size=n))
    censored = rng.exponential(4 * np.median(time), size=n)
    event, time = time <= censored, np.minimum(time, censored)
    if n_times is not None:
        time = np.ceil(time * n_times / 4) * 4 / n_times
    return X, np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])


def make_model(n_estimators=20, random_state=0, **params):
    return SGLBRegressor(n_estimators=n_estimators, random_state=random_state, max_depth=3, n_jobs=1, **params)


def signed(y):
    return np.where(y["event"], y["time"], -y["time"])


def columns(y, loss):
    if loss == "cox":
        return np.c_[y["time"], y["event"]]
    return np.c_[y["time"], np.where(y["event"], y["time"], np.inf)]


def assert_same(model, other, X):
    assert_array_equal(model.predict(X), other.predict(X))
    assert_array_equal(model.predict_survival(X, [0.1, 1.0, 3.0]), other.predict_survival(X, [0.1, 1.0, 3.0]))


# ---- targets


@pytest.mark.parametrize("params", LOSSES, ids=IDS)
def test_all_forms_of_a_target_give_one_model(params):
    X, y = make_data()
    model = make_model(**params).fit(X, y)
    assert_same(model, make_model(**params).fit(X, columns(y, params["loss"])), X)
    assert_same(model, make_model(**params).fit(X, columns(y, params["loss"]).tolist()), X)
    if params["loss"] == "cox":
        assert_same(model, make_model(**params).fit(X, signed(y)), X)
    events = y.copy()
    events["event"] = True
    assert_same(make_model(**params).fit(X, events), make_model(**params).fit(X, y["time"]), X)


def test_intervals_are_used_as_such():
    X, y = make_data()
    time = y["time"]
    wide = make_model(loss="aft", scale=0.5).fit(X, np.c_[time / 2, time * 2])
    narrow = make_model(loss="aft", scale=0.5).fit(X, np.c_[time, time * (1 + 1e-9)])
    exact = make_model(loss="aft", scale=0.5).fit(X, time)
    assert_allclose(narrow.predict(X), exact.predict(X), rtol=1e-4)
    assert np.abs(np.log(wide.predict(X) / exact.predict(X))).max() > 0.05
    # Times that are known to be earlier only.
    left = make_model(loss="aft", scale=0.5).fit(X, np.c_[np.where(np.arange(300) % 2, time, 0.0), time])
    assert np.log(left.predict(X)).mean() < np.log(exact.predict(X)).mean() - 0.05


@pytest.mark.parametrize(
    ("params", "y", "message"),
    [
        ({"loss": "cox"}, -np.ones(40), "loss='cox' requires y with an event"),
        ({"loss": "cox"}, np.ones((40, 3)), r"loss='cox' requires y as .* got the shape \(40, 3\)"),
        ({"loss": "cox"}, np.full((40, 2), 2.0), "second column of y"),
        ({"loss": "cox"}, np.full(40, np.nan), "y contains NaN"),
        ({"loss": "cox"}, np.ones(39), "inconsistent numbers of samples"),
        ({"loss": "cox"}, None, "y cannot be None|requires y to be passed"),
        ({"loss": "aft"}, -np.ones(40), "loss='aft' requires times above 0"),
        ({"loss": "aft"}, np.ones((40, 2)) * [2.0, 1.0], "columns .lower, upper. of y"),
        ({"loss": "aft"}, np.ones((40, 2)) * [1.0, np.inf], "all rows are right-censored"),
        ({"loss": "aft"}, np.ones((40, 2)) * [0.0, 1.0], "all rows are left-censored"),
        ({"loss": "aft"}, np.ones((40, 2)) * [1.0, np.nan], "y contains NaN"),
        ({"loss": "aft"}, np.full(40, 1e200), "best constant lies between 1e-13 and 1e13; its log is 460"),
        ({"loss": "aft", "scale": 0.0}, np.ones(40), "scale"),
        ({"loss": "aft", "distribution": "gumbel"}, np.ones(40), "distribution"),
        ({"loss": "cox", "scale": 2.0}, np.ones(40), "scale=2.0 needs loss='aft'"),
        ({"distribution": "normal"}, np.ones(40), "distribution='normal' needs loss='aft'"),
        ({"loss": "cox", "noise_variance": 1.0}, np.ones(40), "noise_variance=1.0.*loss='cox'"),
    ],
)
def test_bad_targets_and_parameters_are_refused(params, y, message):
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match=message):
        make_model(**params).fit(X, y)


def test_censored_rows_of_weight_zero_are_not_events():
    X, y = make_data(60)
    with pytest.raises(ValueError, match="requires y with an event"):
        make_model(loss="cox").fit(X, y, sample_weight=(~y["event"]).astype(float))


# ---- laws


@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("params", LOSSES, ids=IDS)
def test_order_weights_and_threads(params, newton):
    X, y = make_data(200, n_times=40)
    rng = np.random.default_rng(0)
    weight, order = rng.integers(0, 4, 200), rng.permutation(200)
    params = {**params, "leaf_estimation": "newton" if newton else "gradient", "subsample": 0.8}
    model = make_model(**params).fit(X, y, sample_weight=weight)
    assert_same(model, make_model(**params).fit(X[order], y[order], sample_weight=weight[order]), X)
    copies = np.repeat(np.arange(200), weight)
    assert_same(model, make_model(**params).fit(X[copies], y[copies]), X)
    kept = weight > 0
    assert_same(model, make_model(**params).fit(X[kept], y[kept], sample_weight=weight[kept]), X)
    assert_same(model, make_model(**params).set_params(n_jobs=2).fit(X, y, sample_weight=weight), X)


@pytest.mark.parametrize("params", LOSSES, ids=IDS)
def test_clones_pickles_and_continued_fits_are_equal(params):
    X, y = make_data()
    model = make_model(**params).fit(X, y)
    assert_same(model, pickle.loads(pickle.dumps(model)), X)
    assert_same(model, clone(model).fit(X, y), X)
    warm = make_model(n_estimators=7, warm_start=True, **params).fit(X, y)
    assert_same(model, warm.set_params(n_estimators=20).fit(X, y), X)
    with pytest.raises(ValueError, match=r"changed: .*y"):
        warm.set_params(n_estimators=25).fit(X, y[::-1])
    for n_iter, stage in enumerate(model.staged_predict(X), start=1):
        if n_iter == 9:
            assert_array_equal(stage, make_model(n_estimators=9, **params).fit(X, y).predict(X))
    members = model.predict_virtual_ensembles(X, 4)
    assert_array_equal(members[-1], model.predict(X))


def test_units_of_time_have_no_influence_on_risks():
    X, y = make_data()
    other = y.copy()
    other["time"] = np.exp(0.3 * y["time"])
    assert_array_equal(make_model(loss="cox").fit(X, y).predict(X), make_model(loss="cox").fit(X, other).predict(X))


@pytest.mark.parametrize("change", [{"distribution": "logistic"}, {"distribution": "extreme"}, {"scale": 0.5}])
def test_constants_of_failure_times_change_the_model(change):
    X, y = make_data()
    model = make_model(loss="aft").fit(X, y)
    assert_array_equal(model.predict(X), make_model(loss="aft", distribution="normal", scale=1.0).fit(X, y).predict(X))
    assert np.abs(model.predict(X) - make_model(loss="aft", **change).fit(X, y).predict(X)).max() > 0.01


# ---- what is learned


@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("params", LOSSES, ids=IDS)
def test_models_find_the_order_of_times(params, newton):
    X, y = make_data(1500)
    how = {"leaf_estimation": "newton" if newton else "gradient", "posterior_sampling": False}
    model = make_model(100, **params, **how).fit(X[:1000], y[:1000])
    best = concordance_index(y[1000:], -(X[1000:, 0] + 0.5 * X[1000:, 1] ** 2))
    assert model.score(X[1000:], y[1000:]) > best - 0.03
    assert model.score(X[:1000], y[:1000]) > 0.85


def test_one_step_of_cox_is_the_gradient_of_the_partial_likelihood():
    X, y = make_data(50, n_times=10)
    x = (X[:, :1] > 0).astype(float)
    rate, penalty = 0.1, 2.0
    model = make_model(
        1, loss="cox", learning_rate=rate, l2_regularization=penalty, posterior_sampling=False, min_samples_leaf=1
    ).fit(x, y)
    _, grad, _ = oracle.cox(y["time"], y["event"].astype(float), np.zeros(50))
    share = y["event"].mean()
    for side in (0.0, 1.0):
        rows = x[:, 0] == side
        step = -rate * grad[rows].sum() / (share * rows.sum() + penalty)
        assert_allclose(np.log(model.predict([[side]])), step, rtol=1e-5)


@pytest.mark.parametrize("distribution", LAWS)
def test_constant_of_failure_times_minimises_the_likelihood(distribution, seed):
    rng = np.random.default_rng(seed)
    time, kind, weight = np.exp(3 + rng.normal(size=200)), rng.integers(0, 4, 200), rng.random(200)
    lower = np.where(kind == 1, 0.0, time)
    upper = np.choose(kind, [time, time, np.inf, 2 * time])
    numbers, table = number_targets(np.c_[lower, upper])
    loss = AcceleratedFailureTime(distribution, 0.8).with_targets(table)

    def mean(constant):
        return np.average(oracle.aft_value(lower, upper, constant, distribution, 0.8), weights=weight)

    best = optimize.minimize_scalar(mean, bracket=(0, 6), tol=1e-10)
    assert_allclose(loss.base_score(numbers, weight), best.x, atol=1e-6)
    got = loss.mean_loss(numbers, np.zeros((1, 200)), loss.base_score(numbers, weight), weight)
    assert_allclose(got, best.fun, rtol=1e-10)
    order = rng.permutation(200)
    assert_array_equal(loss.base_score(numbers[order], weight[order]), loss.base_score(numbers, weight))
    curvature = (mean(best.x + 1e-3) - 2 * mean(best.x) + mean(best.x - 1e-3)) / 1e-6
    assert_allclose(loss.bind(numbers, weight).leaf_curvature, max(curvature, 0.25 / 0.64), rtol=1e-3)


@pytest.mark.parametrize("shift", [1e-3, 1.0, 1e4])
def test_constant_of_censored_rows_alone(shift):
    # Right-censored at 1 and left-censored at `shift`: both probabilities are equal at the middle of the logs.
    loss = AcceleratedFailureTime("normal", 0.5).with_targets(np.array([[0.0, shift], [1.0, np.inf]]))
    assert_allclose(loss.base_score(np.array([0.0, 1.0])), np.log(shift) / 2, atol=1e-9)


def test_losses_refuse_constants_out_of_range():
    for arguments in (("gumbel", 1.0), ("normal", 0.0), ("normal", np.nan), ("normal", 1e5)):
        with pytest.raises(ValueError, match="loss='aft' requires"):
            AcceleratedFailureTime(*arguments)
    assert repr(AcceleratedFailureTime("logistic", 2)) == "AcceleratedFailureTime(distribution='logistic', scale=2.0)"


# ---- scores and early stopping


@pytest.mark.parametrize("params", LOSSES, ids=IDS)
def test_score_is_the_concordance_index(params):
    X, y = make_data()
    weight = np.random.default_rng(0).integers(0, 3, 300)
    model = make_model(**params).fit(X, y)
    sign = 1 if params["loss"] == "cox" else -1
    for w in (None, weight):
        assert model.score(X, y, w) == concordance_index(y, sign * model.predict(X), sample_weight=w)
        assert model.score(X, columns(y, params["loss"]), w) == model.score(X, y, w)


def test_score_of_other_losses_is_r_squared():
    X, y = make_data()
    assert make_model().fit(X, y["time"]).score(X, y["time"]) < 1
    assert_allclose(make_model().fit(X, y["time"]).score(X, np.full(300, 2.0)), 0.0)


@pytest.mark.parametrize("params", LOSSES, ids=IDS)
def test_early_stopping_scores_given_rows(params):
    X, y = make_data(400)
    train, held = slice(0, 250), slice(250, None)
    model = make_model(60, early_stopping=True, n_iter_no_change=5, **params)
    model.fit(X[train], y[train], X_val=X[held], y_val=y[held])
    raw = [np.zeros(150) + model._record.base_score[0]]
    raw += [np.log(prediction) for prediction in model.staged_predict(X[held])]
    if params["loss"] == "cox":
        values = [oracle.cox(y["time"][held], y["event"][held].astype(float), f)[0].mean() for f in raw]
    else:
        lower, upper = columns(y[held], "aft").T
        law = params.get("distribution", "normal"), params["scale"]
        values = [oracle.aft_value(lower, upper, f, *law).mean() for f in raw]
    assert_allclose(-model.validation_score_[: len(values)], values, rtol=1e-8)
    assert np.argmax(model.validation_score_) == model.n_iter_


@pytest.mark.parametrize(
    ("params", "scoring"),
    [(params, scoring) for params in LOSSES[:2] for scoring in ("loss", None)]
    # Scorers see (time, event), but intervals of failure times.
    + [(LOSSES[0], make_scorer(concordance_index))],
)
def test_early_stopping_on_rows_held_out(params, scoring):
    X, y = make_data(400)
    model = make_model(40, early_stopping=True, validation_fraction=0.3, scoring=scoring, **params).fit(X, y)
    assert 1 <= model.n_iter_ <= 40
    assert model.validation_score_.max() > model.validation_score_[0]
    if scoring != "loss":
        assert 0.5 == model.validation_score_[0] < model.validation_score_.max() <= 1
    order = np.random.default_rng(1).permutation(400)
    assert_same(model, clone(model).fit(X[order], y[order]), X)


def test_validation_rows_need_an_event():
    X, y = make_data()
    with pytest.raises(ValueError, match="loss='cox' requires y_val with an event"):
        make_model(loss="cox", early_stopping=True).fit(X, y, X_val=X, y_val=-np.ones(300))
    with pytest.raises(ValueError, match="loss='cox' requires times of at least 0 in y_val"):
        make_model(loss="cox", early_stopping=True).fit(X, y, X_val=X, y_val=np.ones((300, 2)) * [-1, 1])


# ---- survival functions


@pytest.mark.parametrize("averaging", ["last", "mean"])
def test_survival_of_cox_is_breslows(averaging):
    X, y = make_data(120, n_times=30)
    weight = np.random.default_rng(0).integers(1, 4, 120).astype(float)
    model = make_model(loss="cox").fit(X, y, sample_weight=weight).set_params(averaging=averaging)
    times = np.array([0.0, 0.01, 0.5, y["time"][3], 2.0, 1e6])
    score = np.log(model.predict(X))
    hazard = oracle.breslow(y["time"], y["event"], score, weight, times)
    assert_allclose(model.predict_survival(X, times), np.exp(-np.exp(score)[:, None] * hazard), rtol=1e-9)


@pytest.mark.parametrize("distribution", LAWS)
def test_survival_of_failure_times_is_that_of_the_noise(distribution):
    X, y = make_data()
    model = make_model(loss="aft", distribution=distribution, scale=0.4).fit(X, y)
    times = np.array([0.0, 1e-3, 0.5, 2.0, 1e5])
    with np.errstate(divide="ignore"):
        z = (np.log(times) - np.log(model.predict(X))[:, None]) / 0.4
    assert_allclose(model.predict_survival(X, times), LAWS[distribution].sf(z), rtol=1e-9, atol=1e-300)
    median = {"normal": 0.5, "logistic": 0.5, "extreme": np.exp(-1)}[distribution]
    own = [model.predict_survival(x[None], t[None])[0, 0] for x, t in zip(X[:5], model.predict(X[:5]), strict=True)]
    assert_allclose(own, median, rtol=1e-9)


@pytest.mark.parametrize("params", LOSSES, ids=IDS)
def test_survival_falls_from_one_and_is_calibrated(params):
    X, y = make_data(1200)
    y["event"] = True
    model = make_model(60, **params).fit(X[:800], y[:800])
    times = np.quantile(y["time"], [0.0, 0.2, 0.5, 0.8]) * [0, 1, 1, 1]
    survival = model.predict_survival(X, times)
    assert_array_equal(survival[:, 0], 1)
    assert (np.diff(survival, axis=1) <= 0).all()
    assert_allclose(survival.mean(axis=0), [1, 0.8, 0.5, 0.2], atol=0.08)


def test_survival_of_runaway_risks_stays_between_zero_and_one():
    X, y = make_data(60)
    model = make_model(50, loss="cox", learning_rate=1.0, l2_regularization=0.0, posterior_sampling=False).fit(X, y)
    survival = model.predict_survival(X, np.linspace(0, 50, 30))
    assert np.isfinite(survival).all()
    assert ((survival >= 0) & (survival <= 1)).all()


def test_survival_is_refused_where_it_has_no_meaning():
    X, y = make_data()
    with pytest.raises(ValueError, match="predict_survival needs loss='cox' or loss='aft', got loss='squared_error'"):
        make_model().fit(X, y["time"]).predict_survival(X, [1.0])
    model = make_model(loss="cox").fit(X, y)
    for times, message in (([-1.0], "at least 0"), ([np.nan], "NaN"), ([[1.0, 2.0]], "1d array")):
        with pytest.raises(ValueError, match=message):
            model.predict_survival(X, times)
    assert model.predict_survival(X, []).shape == (300, 0)


@pytest.mark.parametrize("params", LOSSES, ids=IDS)
def test_uncertainty_knows_no_spread_of_the_data(params):
    X, y = make_data()
    model = make_model(40, **params).fit(X, y)
    result = model.predict_uncertainty(X, 5)
    members = model.predict_virtual_ensembles(X, 5)
    assert result.data is None
    assert result.total is None
    trained = result.support == 1
    assert_allclose(result.mean[trained], members.mean(axis=0)[trained])
    assert_allclose(result.knowledge[trained], members.var(axis=0)[trained], rtol=1e-6, atol=1e-12)
    with pytest.raises(ValueError, match="return_variance"):
        model.predict_virtual_ensembles(X, 5, return_variance=True)


def test_newton_leaves_of_rows_that_learn_nothing():
    """Rows censored before the first event have neither gradient nor second derivative."""
    X = np.repeat([[0.0], [1.0]], 20, axis=0)
    y = np.r_[np.full(20, -1.0), np.linspace(2, 3, 20)]
    how = {"leaf_estimation": "newton", "l2_regularization": 0.0, "posterior_sampling": False}
    model = make_model(loss="cox", **how).fit(X, y)
    assert_allclose(model.predict(X), 1.0)


def test_cox_has_its_own_partial_likelihood_for_other_rows(seed):
    _, y = make_data(80, seed, n_times=12)
    numbers, table = number_targets(columns(y, "cox"))
    loss, score = Cox().with_targets(table), np.random.default_rng(seed).normal(size=80)
    bound = loss.bind(numbers).for_rows(numbers)
    assert_allclose(bound.leaf_curvature, y["event"].mean())
    for rows in (slice(None), slice(0, 50)):
        expected = oracle.cox(y["time"][rows], y["event"][rows].astype(float), score[rows])[0].mean()
        got = bound.mean_loss(numbers[rows], score[None, rows], np.zeros(1))
        assert_allclose(got, expected, rtol=1e-11)
        assert loss.mean_loss(numbers[rows], score[None, rows], np.zeros(1)) == got


# ---- the law of the chain


def test_posterior_of_one_leaf_of_failure_times():
    """Half of the rows are censored; the law of the chain is the posterior of the constant under a weak prior."""
    n, n_iter, eps, scale = 60, 12_000, 0.1, 0.7
    rng = np.random.default_rng(3)
    time = np.exp(1 + scale * rng.normal(size=n))
    lower, upper = time, np.where(np.arange(n) % 2, time, np.inf)
    numbers, table = number_targets(np.c_[lower, upper])
    loss = AcceleratedFailureTime("normal", scale).with_targets(table).bind(numbers)
    zeros = np.zeros((n, 1), dtype=np.uint8)
    rows = Rows(zeros.T.copy(), np.zeros((n, 8), np.uint8), np.ones(1, np.int32), np.zeros(1, np.uint8), numbers,
                None, None, row_hashes(np.zeros((n, 8), np.uint8), 1))  # fmt: skip
    rules = TreeRules(
        grow_policy="symmetric", learning_rate=eps, max_depth=1, max_leaf_nodes=None, min_samples_leaf=1.0,
        l2_regularization=0.0, n_features=None, subsample=1.0, monotone=None, groups=None, newton=False,
        curvature=loss.leaf_curvature,
    )  # fmt: skip
    base = loss.base_score(numbers)
    chain = Chain(rows, loss, base, rules, 0, 1, np.sqrt(2 / eps), noise_scales=loss.noise_scales(1.0))
    states = np.empty(n_iter)
    for t in range(n_iter):
        chain.step(1 - eps * 0.5 / n if t else 1.0)
        states[t] = chain.scores[0, 0]
    grid = np.linspace(-1, 1, 301)
    likelihood = [oracle.aft_value(lower, upper, base[0] + f, "normal", scale).sum() for f in grid]
    energy = np.array(likelihood) + 0.25 * loss.leaf_curvature * grid**2
    density = np.exp(energy.min() - energy)
    density /= density.sum()
    mean = density @ grid
    variance = density @ (grid - mean) ** 2
    # A state is worth eps / 2 independent ones.
    assert abs(states[200:].mean() - mean) < 5 * np.sqrt(variance * 2 / eps / n_iter)
    assert_allclose(states[200:].var(), variance, rtol=5 * np.sqrt(2 / eps / n_iter) + 0.03)


@pytest.mark.parametrize("params", LOSSES, ids=IDS)
def test_models_go_through_the_text_of_lightgbm(params):
    X, y = make_data()
    model = make_model(**params).fit(X, y)
    assert_array_equal(loads(dumps(model)).predict(X), model.predict(X))
