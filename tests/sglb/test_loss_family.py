"""What the estimators do with losses beyond squared error and log loss: renewed leaves, several outputs, refusals."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import location
from sklearn.datasets import make_multilabel_classification

from skboost import SGLBClassifier, SGLBRegressor

PLAIN = {"posterior_sampling": False, "random_state": 0}
LOSSES = {
    "absolute_error": {},
    "quantile": {"quantile": 0.8},
    "quantiles": {"loss": "quantile", "quantile": [0.1, 0.5, 0.9]},
    "huber": {"delta": 0.5},
    "pseudo_huber": {"leaf_estimation": "newton"},
    "expectile": {"quantile": 0.7},
    "gamma": {},
    "tweedie": {"power": 1.3},
    "several": {"loss": "squared_error"},
}


def make_model(name, **changes):
    return SGLBRegressor(**{"loss": name, "n_estimators": 40, "random_state": 0} | LOSSES[name] | changes)


def make_data(name, n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 3)), 1)
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_t(3, n)
    if name in ("gamma", "tweedie"):
        y = np.exp(y / 2)
    if name == "tweedie":
        y[rng.random(n) < 0.3] = 0
    return X, np.column_stack([y, 100 * X[:, 0] + rng.normal(size=n)]) if name == "several" else y


# ---- laws


@pytest.mark.parametrize("name", LOSSES)
def test_same_bits_for_any_threads_row_order_and_pickle(name):
    X, y = make_data(name, 3000)
    model = make_model(name, n_estimators=15).fit(X, y)
    order = np.random.default_rng(1).permutation(len(X))
    other = make_model(name, n_estimators=15, n_jobs=2).fit(X[order], y[order])
    for got in (other, pickle.loads(pickle.dumps(model))):
        assert_array_equal(got.predict(X), model.predict(X))
        assert_array_equal(got.predict_uncertainty(X, 4).knowledge, model.predict_uncertainty(X, 4).knowledge)


@pytest.mark.parametrize("policy", ["symmetric", "lossguide"])
@pytest.mark.parametrize("name", LOSSES)
def test_weights_are_repetitions_and_zero_is_absence(name, policy):
    X, y = make_data(name)
    weight = np.random.default_rng(2).integers(0, 4, len(X))
    weighted = make_model(name, grow_policy=policy).fit(X, y, sample_weight=weight)
    repeated = make_model(name, grow_policy=policy).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight, axis=0))
    assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert_array_equal(weighted.noise_variance_, repeated.noise_variance_)


@pytest.mark.parametrize("name", LOSSES)
def test_members_are_prefixes(name):
    X, y = make_data(name)
    model = make_model(name).fit(X, y)
    members = model.predict_virtual_ensembles(X, 4)
    short = make_model(name, n_estimators=25).fit(X, y)
    if name in ("gamma", "tweedie", "huber", "pseudo_huber", "expectile"):
        assert_array_equal(short.noise_variance_, model.noise_variance_)
    assert_array_equal(members[0], short.predict(X))
    continued = make_model(name, n_estimators=25, warm_start=True).fit(X, y)
    assert_array_equal(continued.set_params(n_estimators=40).fit(X, y).predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["absolute_error", "quantile", "huber", "pseudo_huber", "expectile"])
def test_units_of_the_target_scale_predictions(name):
    X, y = make_data(name)
    model = make_model(name).fit(X, y)
    options = {"delta": 2.0} if name == "huber" else {}
    scaled = make_model(name, **options).fit(X, 4 * y)
    assert_allclose(scaled.predict(X), 4 * model.predict(X), rtol=1e-6)
    assert_allclose(scaled.predict_uncertainty(X).knowledge, 16 * model.predict_uncertainty(X).knowledge, rtol=1e-4)


# ---- renewed leaves


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_one_leaf_with_rate_one_is_the_weighted_quantile(level):
    rng = np.random.default_rng(0)
    y, weight = rng.normal(size=60), rng.integers(1, 4, 60)
    model = SGLBRegressor(
        loss="quantile",
        quantile=level,
        n_estimators=1,
        learning_rate=1,
        l2_regularization=0,
        min_samples_leaf=1e6,
        **PLAIN,
    )
    X = np.arange(60.0)[:, None]
    got = model.fit(X, y, sample_weight=weight).predict(X)
    assert_allclose(got, location.weighted_quantile(y, weight, level), rtol=1e-12)


@pytest.mark.parametrize("policy", ["symmetric", "depthwise", "lossguide"])
def test_leaves_are_shrunk_medians_of_their_residuals(policy):
    X, y = make_data("absolute_error")
    params = {"grow_policy": policy, "max_depth": 3, "l2_regularization": 2.0, "learning_rate": 0.3, **PLAIN}
    model = SGLBRegressor(loss="absolute_error", n_estimators=2, **params).fit(X, y)
    before = np.full(len(y), np.median(y))
    for t, after in enumerate(model.staged_predict(X)):
        leaf = model.apply(X)[:, t]
        for number in np.unique(leaf):
            rows = leaf == number
            step = 0.3 * np.median((y - before)[rows]) * rows.sum() / (rows.sum() + 2.0)
            assert_allclose((after - before)[rows], step, rtol=1e-9, atol=1e-12)
        before = after


def test_fewer_rows_above_than_a_signs_only_model_would_leave():
    X, y = make_data("quantile", 2000)
    model = SGLBRegressor(loss="quantile", quantile=0.9, n_estimators=200, max_depth=3, **PLAIN).fit(X, y)
    assert 0.87 < np.mean(y <= model.predict(X)) < 0.93


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("policy", ["symmetric", "depthwise", "lossguide"])
@pytest.mark.parametrize(("loss", "level"), [("absolute_error", None), ("quantile", 0.8)])
def test_monotone_constraints_hold_for_renewed_leaves(loss, level, policy, noisy):
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(400, 2))
    y = np.sin(8 * X[:, 0]) + X[:, 1] + rng.normal(size=400)
    model = SGLBRegressor(
        loss=loss, quantile=level, n_estimators=60, grow_policy=policy, monotonic_cst=[1, -1], posterior_sampling=noisy,
        random_state=0,
    )  # fmt: skip
    model.fit(X, y)
    grid = np.linspace(-0.2, 1.2, 500)
    for fixed in (0.1, 0.5, 0.9):
        assert (np.diff(model.predict(np.column_stack([grid, np.full(500, fixed)]))) >= 0).all()
        assert (np.diff(model.predict(np.column_stack([np.full(500, fixed), grid]))) <= 0).all()
    rises = model.predict([[0.95, 0.5]]) - model.predict([[0.05, 0.5]])
    assert rises > 0.05


def test_noise_reaches_renewed_leaves_with_the_variance_of_the_formula():
    # One leaf: the chain is an autoregression around the median, of the variance of a step over 1 - (1 - rate)^2.
    rng = np.random.default_rng(4)
    y = rng.laplace(size=400)
    X = np.zeros((400, 1))
    rate, temperature = 0.1, 1.0
    model = SGLBRegressor(
        loss="absolute_error", n_estimators=6000, learning_rate=rate, l2_regularization=0, diffusion_temperature=1.0,
        prior_split_rate=0, n_prior_cuts=0, random_state=0,
    )  # fmt: skip
    model.fit(X, y)
    states = np.array([value[0] for value in model.staged_predict(X[:1])])[500:]
    v = model.noise_variance_
    step = rate**2 * 2 * v / (rate * temperature * 400)
    expected = step / (1 - (1 - rate) ** 2)
    assert_allclose(states.var(), expected, rtol=0.2)
    assert abs(states.mean() - np.median(y)) < 4 * np.sqrt(expected * 20 / len(states))


@pytest.mark.parametrize(("loss", "level"), [("absolute_error", None), ("quantile", 0.2)])
def test_noise_variance_of_quantiles_is_that_of_a_laplace_law_of_unequal_sides(loss, level):
    rng = np.random.default_rng(7)
    t, scale = level or 0.5, 3.0
    # sides of rates t and 1 - t over the scale meet at the level t
    side = rng.random(10_000) < t
    y = np.where(side, -rng.exponential(scale / (1 - t), 10_000), rng.exponential(scale / t, 10_000))
    model = SGLBRegressor(loss=loss, quantile=level, n_estimators=2, random_state=0).fit(np.zeros((10_000, 1)), y)
    assert_allclose(model.noise_variance_, scale**2 / (t * (1 - t)), rtol=0.1)


# ---- several quantiles


def test_quantiles_never_cross_and_predict_shows_the_middle_one():
    X, y = make_data("quantiles", 800)
    model = make_model("quantiles", n_estimators=150).fit(X, y)
    quantiles = model.predict_quantiles(X)
    assert quantiles.shape == (800, 3)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert_array_equal(quantiles[:, 1], model.predict(X))
    shares = (y[:, None] <= quantiles).mean(axis=0)
    assert_allclose(shares, [0.1, 0.5, 0.9], atol=0.05)
    assert model.predict_uncertainty(X).knowledge.shape == (800,)


def test_one_quantile_of_several_is_that_of_one_with_the_same_trees():
    rng = np.random.default_rng(5)
    X, y = np.zeros((200, 1)), rng.normal(size=200)
    both = SGLBRegressor(loss="quantile", quantile=[0.2, 0.7], n_estimators=30, **PLAIN).fit(X, y).predict_quantiles(X)
    for k, level in enumerate((0.2, 0.7)):
        one = SGLBRegressor(loss="quantile", quantile=level, n_estimators=30, **PLAIN).fit(X, y).predict_quantiles(X)
        assert_array_equal(one[:, 0], both[:, k])


# ---- several targets


def test_targets_of_other_units_and_noise_keep_their_own_scale():
    X, y = make_data("several", 1000)
    model = make_model("several", n_estimators=150).fit(X, y)
    result = model.predict_uncertainty(X)
    assert model.predict(X).shape == result.mean.shape == result.knowledge.shape == (1000, 2)
    assert model.predict_virtual_ensembles(X, 5).shape == (5, 1000, 2)
    assert model.score(X, y) > 0.7
    scaled = make_model("several", n_estimators=150).fit(X, y * [1, 1024])
    assert_array_equal(scaled.predict(X), model.predict(X) * [1, 1024])
    assert_array_equal(scaled.predict_uncertainty(X).knowledge, result.knowledge * [1, 1024**2])
    assert list(result.to_frame().columns)[:4] == ["mean_0", "mean_1", "knowledge_0", "knowledge_1"]


def test_the_order_of_targets_is_of_no_matter_without_noise():
    X, y = make_data("several", 1000)
    one, other = (SGLBRegressor(n_estimators=20, **PLAIN).fit(X, Y).predict(X) for Y in (y, y[:, ::-1]))
    assert_allclose(other[:, ::-1], one, rtol=1e-6, atol=1e-6)


def test_equal_targets_are_one_target():
    X, y = make_data("absolute_error")
    double = SGLBRegressor(n_estimators=20, **PLAIN).fit(X, np.column_stack([y, y])).predict(X)
    assert_array_equal(double[:, 0], double[:, 1])
    assert_allclose(double[:, 0], SGLBRegressor(n_estimators=20, **PLAIN).fit(X, y).predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scoring", ["loss", "r2", "neg_mean_absolute_error"])
def test_several_targets_stop_early_on_given_and_held_out_rows(scoring):
    X, y = make_data("several", 600)
    params = {"early_stopping": True, "scoring": scoring, "n_estimators": 30}
    held = make_model("several", **params).fit(X, y)
    given = make_model("several", **params).fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
    for model in (held, given):
        assert 1 <= model.n_iter_ <= 30
        assert len(model.validation_score_)
    with pytest.raises(ValueError, match="columns of y"):
        make_model("several", **params).fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:, 0])


# ---- several labels


def test_labels_are_binary_problems_of_their_own():
    X, labels = make_multilabel_classification(500, n_features=6, n_classes=3, random_state=0)
    model = SGLBClassifier(n_estimators=80, random_state=0).fit(X, labels)
    result = model.predict_uncertainty(X)
    for shape in (model.predict(X).shape, model.predict_proba(X).shape, result.mean.shape, result.knowledge.shape):
        assert shape == (500, 3)
    assert_array_equal(result.total, result.data + result.knowledge)
    assert (result.knowledge >= 0).all()
    assert model.score(X, labels) > 0.5
    assert_array_equal(model.predict(X), model.predict_proba(X) > 0.5)
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)
    members = model.predict_virtual_ensembles(X, 4)
    assert members.shape == (4, 500, 3)
    assert_array_equal(model.classes_, [0, 1, 2])


def test_equal_labels_are_two_classes():
    X, labels = make_multilabel_classification(300, n_features=6, n_classes=2, random_state=1)
    y = labels[:, 0]
    double = SGLBClassifier(n_estimators=20, **PLAIN).fit(X, np.column_stack([y, y])).predict_proba(X)
    single = SGLBClassifier(n_estimators=20, **PLAIN).fit(X, y).predict_proba(X)
    assert_array_equal(double[:, 0], double[:, 1])
    assert_allclose(double[:, 0], single[:, 1], rtol=1e-5)


def test_labels_stop_early_and_take_sparse_targets():
    from scipy import sparse

    X, labels = make_multilabel_classification(400, n_features=6, n_classes=3, random_state=0)
    params = {"n_estimators": 30, "early_stopping": True, "random_state": 0}
    dense = SGLBClassifier(**params).fit(X, labels)
    assert_array_equal(
        SGLBClassifier(**params).fit(X, sparse.csr_array(labels)).predict_proba(X), dense.predict_proba(X)
    )
    given = SGLBClassifier(scoring="f1_macro", **params).fit(X[:300], labels[:300], X_val=X[300:], y_val=labels[300:])
    assert len(given.validation_score_)
    with pytest.raises(ValueError, match="class_weight='balanced' does not go with y of several labels"):
        SGLBClassifier(class_weight="balanced").fit(X, labels)


# ---- options and refusals


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"quantile": 0.3}, "quantile=0.3 needs loss='quantile' or 'expectile'; .*loss='squared_error'"),
        ({"delta": 1.0, "loss": "poisson"}, "delta=1.0 needs loss='huber' or 'pseudo_huber'; .*loss='poisson'"),
        ({"power": 1.2, "loss": "gamma"}, "power=1.2 needs loss='tweedie'; .*loss='gamma'"),
        ({"loss": "expectile", "quantile": [0.1, 0.2]}, "loss='expectile' takes one number as quantile"),
        ({"loss": "quantile", "quantile": [0.5, 0.1]}, "ascending levels"),
        ({"loss": "quantile", "quantile": [0.0, 0.1]}, "ascending levels"),
        ({"loss": "quantile", "quantile": []}, "ascending levels"),
        ({"loss": "quantile", "quantile": [[0.1, 0.9]]}, "a number or a list of numbers"),
        (
            {"loss": "quantile", "leaf_estimation": "newton"},
            "leaf_estimation='newton' does not go with loss='quantile'",
        ),
        (
            {"loss": "absolute_error", "schedule": "cyclical", "bootstrap_fraction": 0.5},
            "bootstrap_fraction=0.5 does not go with loss='absolute_error'",
        ),
        (
            {"loss": "quantile", "quantile": [0.1, 0.9], "monotonic_cst": [1, 0, 0]},
            "monotonic_cst needs a loss with one",
        ),
        ({"loss": "huber", "noise_variance": 1.0, "posterior_sampling": False}, "noise_variance=1.0 needs noise"),
    ],
)
def test_options_of_other_losses_are_refused(params, message):
    X, y = make_data("absolute_error")
    with pytest.raises(ValueError, match=message):
        SGLBRegressor(n_estimators=2, **params).fit(X, np.abs(y) + 1)


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie", "absolute_error", "gaussian"])
def test_only_squared_error_takes_several_targets(loss):
    X, y = make_data("several")
    with pytest.raises(ValueError, match=r"1d array|1D"):
        SGLBRegressor(loss=loss).fit(X, np.abs(y))


def test_quantiles_of_other_losses_are_refused():
    X, y = make_data("absolute_error")
    model = SGLBRegressor(n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match="predict_quantiles needs loss='quantile', got loss='squared_error'"):
        model.predict_quantiles(X)


@pytest.mark.parametrize(("loss", "y"), [("gamma", [0.0, 1, 2]), ("tweedie", [-1.0, 1, 2]), ("tweedie", [0.0, 0, 0])])
def test_domains(loss, y):
    with pytest.raises(ValueError, match=f"loss='{loss}' requires"):
        SGLBRegressor(loss=loss).fit(np.zeros((3, 1)), y)


# ---- how noise is scaled


@pytest.mark.parametrize("name", ["gamma", "tweedie"])
def test_noise_variance_of_log_links_is_the_dispersion(name):
    rng = np.random.default_rng(6)
    X = rng.uniform(size=(4000, 2))
    mean = np.exp(X[:, 0])
    if name == "gamma":
        shape = 5.0
        y, dispersion = mean * rng.gamma(shape, 1 / shape, 4000), 1 / shape
    else:
        # compound Poisson: dispersion mean^(2 - p) / (rate (2 - p))
        power, dispersion = 1.5, 1.0
        rate = mean ** (2 - power) / (dispersion * (2 - power))
        alpha = (2 - power) / (power - 1)
        scale = dispersion * (power - 1) * mean ** (power - 1)
        y = np.array([rng.gamma(alpha * n) if n else 0.0 for n in rng.poisson(rate)]) * scale
    model = SGLBRegressor(loss=name, n_estimators=20, random_state=0).fit(X, y)
    assert_allclose(model.noise_variance_, dispersion, rtol=0.15)
