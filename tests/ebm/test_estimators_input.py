"""Every bad input is refused before boosting with the name of what is wrong; every parameter does what it says."""

import numpy as np
import pytest
from fit_cases import EBM_LOSSES, make_data, make_ebm
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils._param_validation import InvalidParameterError

from skboost.ebm import EBMClassifier, EBMRegressor, _estimators_base

NAN, INF = float("nan"), float("inf")
ESTIMATORS = {"regressor": EBMRegressor, "classifier": EBMClassifier}


@pytest.fixture
def no_training(monkeypatch):
    """Make boosting an error of its own."""

    def boost(*args, **kwargs):
        raise AssertionError("boosted before everything was checked")

    monkeypatch.setattr(_estimators_base, "boost", boost)


# ---- bad data

X_GOOD, Y_GOOD = np.arange(12.0).reshape(6, 2), np.arange(6.0)
LABELS = np.array([0, 1] * 3)
BAD_DATA = [
    ((X_GOOD, [0, 1, 2, 3, 4, NAN]), {}, "NaN"),
    ((X_GOOD, [0, 1, 2, 3, 4, INF]), {}, "infinity"),
    ((X_GOOD, Y_GOOD[:5]), {}, "inconsistent numbers of samples"),
    ((X_GOOD, np.stack([Y_GOOD, Y_GOOD], axis=1)), {}, "1d array|1D"),
    ((X_GOOD[:, 0], Y_GOOD), {}, "2D array"),
    ((X_GOOD[None], Y_GOOD), {}, "dim 3"),
    ((X_GOOD[:0], Y_GOOD[:0]), {}, "0 sample"),
    ((X_GOOD[:, :0], Y_GOOD), {}, r"0 feature\(s\)"),
    ((X_GOOD, None), {}, "requires y to be passed"),
    ((X_GOOD * 1j, Y_GOOD), {}, "Complex data not supported"),
    ((np.array([["a", "b"]] * 6), Y_GOOD), {}, "convert string|dtype"),
    ((X_GOOD, ["a"] * 6), {}, "numeric|convert string|dtype"),
    ((X_GOOD, Y_GOOD), {"sample_weight": [1, 1, 1, 1, 1, -1]}, "Negative values"),
    ((X_GOOD, Y_GOOD), {"sample_weight": np.zeros(6)}, "sample_weight.*zero"),
    ((X_GOOD, Y_GOOD), {"sample_weight": [1, 1, 1, 1, 1, NAN]}, "NaN"),
    ((X_GOOD, Y_GOOD), {"sample_weight": np.ones(5)}, r"sample_weight.shape == \(5,\)"),
    ((X_GOOD, Y_GOOD), {"sample_weight": np.full(6, 1e140)}, "sample_weight must be 0 or lie between"),
    ((X_GOOD, Y_GOOD * 1e200), {}, "change the unit of y"),
    ((X_GOOD, Y_GOOD), {"bags": np.ones((6, 13), dtype=int)}, r"shape \(6, 14\), got \(6, 13\)"),
    ((X_GOOD, Y_GOOD), {"bags": np.ones(6, dtype=int)}, r"shape \(6, 14\), got \(6,\)"),
    ((X_GOOD, Y_GOOD), {"bags": np.full((6, 14), 128)}, "bags must lie between -127 and 127"),
    ((X_GOOD, Y_GOOD), {"bags": -np.ones((6, 14), dtype=int)}, "bags leaves no row to train on in the columns"),
    ((X_GOOD, Y_GOOD), {"init_score": np.zeros(5)}, r"init_score must have the shape \(6,\).*got \(5,\)"),
    ((X_GOOD, Y_GOOD), {"init_score": np.zeros((6, 2))}, r"init_score must have the shape \(6,\)"),
    ((X_GOOD, Y_GOOD), {"init_score": [0, 0, 0, 0, 0, NAN]}, "init_score contains NaN"),
    ((X_GOOD, Y_GOOD), {"init_score": [0, 0, 0, 0, 0, INF]}, "init_score contains infinity"),
]


@pytest.mark.parametrize(("data", "fit", "message"), BAD_DATA)
def test_bad_data(data, fit, message, no_training):
    model = EBMRegressor()
    with pytest.raises(ValueError, match=message):
        model.fit(*data, **fit)
    with pytest.raises(NotFittedError):
        model.predict(X_GOOD)
    assert vars(model) == EBMRegressor().get_params()


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        ({"bags": np.ones((6, 14))}, "bags must hold integers"),
        ({"bags": np.ones((6, 14), dtype=bool)}, "bags must hold integers"),
        ({"init_score": LinearRegression}, "got the class LinearRegression"),
    ],
)
def test_data_of_the_wrong_type(fit, message, no_training):
    with pytest.raises(TypeError, match=message):
        EBMRegressor().fit(X_GOOD, Y_GOOD, **fit)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0] * 6, "one class"),
        (["a"] * 6, "one class"),
        ([0, 1, 2, 3, 4, NAN], "NaN"),
        ([0.5, 0.1, 0.2, 0.3, 0.4, 0.5], "Unknown label type"),
        ([[0, 1]] * 6, "1d array|multilabel|shape"),
    ],
)
def test_bad_labels(y, message, no_training):
    with pytest.raises(ValueError, match=message):
        EBMClassifier().fit(X_GOOD, y)


def test_one_class_of_positive_weight(no_training):
    with pytest.raises(ValueError, match="one class"):
        EBMClassifier().fit(X_GOOD, [0, 0, 0, 0, 0, 1], sample_weight=[1, 1, 1, 1, 1, 0])


def test_too_many_classes(no_training):
    X, y = np.arange(1024.0)[:, None], np.repeat(np.arange(256), 4)
    with pytest.raises(ValueError, match="At most 255 classes are supported, y has 256"):
        EBMClassifier().fit(X, y)


def test_a_bag_without_some_class(no_training):
    bags = np.where(LABELS[:, None] == 1, -1, 1) * np.ones((1, 14), dtype=int)
    with pytest.raises(ValueError, match="bags leaves no row of the class "):
        EBMClassifier().fit(X_GOOD, LABELS, bags=bags)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        ("poisson", [-1, 1, 2, 3, 4, 5], "loss='poisson' requires y >= 0; the smallest target is -1"),
        ("poisson", [0] * 6, "all targets are 0"),
        ("gamma", [0, 1, 2, 3, 4, 5], "loss='gamma' requires y > 0; the smallest target is 0"),
        ("tweedie", [-0.5, 1, 2, 3, 4, 5], "loss='tweedie' requires y >= 0"),
        ("tweedie", [0] * 6, "all targets are 0"),
    ],
)
def test_targets_outside_the_domain(loss, y, message, no_training):
    with pytest.raises(ValueError, match=message):
        EBMRegressor(loss=loss).fit(X_GOOD, y)


def test_weightless_rows_may_hold_anything():
    X, y = make_data("gamma")
    y[:5] = -1
    weight = np.ones(len(y))
    weight[:5] = 0
    assert (make_ebm("gamma").fit(X, y, weight).predict(X) > 0).all()


def test_sparse_lazy_and_temporal_input_is_refused(no_training):
    from scipy import sparse

    pd = pytest.importorskip("pandas")
    times = pd.DataFrame({"a": Y_GOOD, "when": pd.date_range("2020", periods=6)})
    for cls in ESTIMATORS.values():
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            cls().fit(sparse.csr_array(X_GOOD), LABELS)
        with pytest.raises(TypeError, match=r"dates or times.*when"):
            cls().fit(times, LABELS)


# ---- bad parameters

BAD_PARAMETERS = {
    "loss": ["unknown", None, "gaussian", 1],
    "interactions": [-1, 1.5, NAN, -0.5, True],
    "max_bins": [3, 0, 65537, 10.5, None, "255"],
    "max_interaction_bins": [3, 1025, 10.5, None],
    "exclude": ["a", 1, 0.5],
    "categorical_features": ["unknown", 1.5],
    "monotonic_cst": [1, "increasing"],
    "missing": ["left", None],
    "learning_rate": [0, -0.1, 1.01, NAN, INF, "0.1", None],
    "max_rounds": [-1, 1.5, "10", None],
    "max_leaves": [1, 0, 2.5, "3", None],
    "min_samples_leaf": [-1, NAN, "5", None],
    "min_hessian": [-1e-9, NAN, "1", None],
    "l2_regularization": [-1e-9, NAN, "1", None],
    "outer_bags": [0, -1, 1.5, None],
    "validation_size": [-0.1, NAN, "0.1", None],
    "early_stopping_rounds": [-1, 1.5, None],
    "early_stopping_tolerance": [NAN, INF, None, "0"],
    "smoothing_rounds": [-1, 0.5, None],
    "interaction_smoothing_rounds": [-1, 0.5, None],
    "greedy_ratio": [-1, NAN, INF, None],
    "cyclic_progress": [-0.1, 1.1, NAN, None],
    "min_cat_samples": [-1, NAN, None],
    "cat_smooth": [-1, NAN, None],
    "gain_scale": [0, -1, NAN, None],
    "purify": [None, "yes", 2],
    "power": [1, 2, 0.5, NAN, None],
    "trainer": ["unknown", None],
    "max_table_bytes": [0, -1, 1e9, None],
    "callback": [1, "print"],
    "n_jobs": [1.5, "2"],
    "random_state": [-1, 1.5, "0"],
    "verbose": [-1, "loud"],
    "boulevard": [None, "yes", 2],
    "boulevard_update": ["unknown", None],
    "boulevard_structure": ["unknown", None],
    "boulevard_rounds": [0, -1, 1.5, None],
    "boulevard_subsample": [0, 1.5, NAN, None],
    "boulevard_learning_rate": [0, -1, NAN, None],
    "boulevard_max_leaves": [1, 2.5, None],
    "boulevard_max_bins": [3, 65537, None],
    "boulevard_max_interaction_bins": [3, 257, None],
}
BOULEVARD = {name for name in BAD_PARAMETERS if name.startswith("boulevard_")}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_table_of_bad_values_has_every_parameter(kind):
    only_other = {"regressor": set(), "classifier": {"power", *BOULEVARD}}[kind]
    assert set(BAD_PARAMETERS) - only_other == set(ESTIMATORS[kind]().get_params())


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_bad_values(kind, name, no_training):
    make = ESTIMATORS[kind]
    if name not in make().get_params():
        return
    for value in BAD_PARAMETERS[name]:
        # What a term may be is checked where terms are resolved.
        message = name if name in ("interactions", "exclude") else f"The '{name}' parameter of {make.__name__} must be"
        with pytest.raises((InvalidParameterError, ValueError), match=message):
            make(**{name: value}).fit(X_GOOD, LABELS)


JOINTLY_BAD = [
    ({"monotonic_cst": [1]}, r"monotonic_cst has shape \(1,\)"),
    ({"monotonic_cst": [1, 2]}, "array-like of -1, 0 or 1"),
    ({"monotonic_cst": {"a": 1}}, "feature names"),
    ({"monotonic_cst": [1, 0], "categorical_features": [0]}, "Categorical features cannot have monotonic"),
    ({"categorical_features": [2]}, r"categorical_features.*\[0, 1\]"),
    ({"categorical_features": [True]}, r"categorical_features.*shape"),
    ({"categorical_features": ["a"]}, "categorical_features gives names"),
    ({"interactions": "3y"}, "interactions must be a number of pairs"),
    ({"interactions": [(0, 2)]}, "interactions: there is no feature 2, the model has 2"),
    ({"interactions": [("x0", "z")]}, "interactions: 'z' is not a feature; the features are"),
    ({"interactions": [(0, 0)]}, "interactions: a term has different features"),
    ({"interactions": [(0,)]}, "interactions must hold pairs"),
    ({"interactions": [0, 1]}, "interactions: a term is a tuple"),
    ({"interactions": [(0, 1.5)]}, "interactions names features by column number or name, got 1.5"),
    ({"interactions": [(0, 1)], "monotonic_cst": [1, 0]}, "interactions: the pair 'x0 & x1' has the monotone feature"),
    ({"interactions": [(0, 1)], "exclude": [(1, 0)]}, "interactions asks for the pair 'x0 & x1', which exclude leaves"),
    ({"exclude": [2]}, "exclude: there is no feature 2"),
    ({"exclude": ["z"]}, "exclude: 'z' is not a feature"),
    ({"exclude": [(0, 1, 0)]}, "exclude"),
    ({"validation_size": 1.5}, "validation_size must be 0, a share of the rows below 1 or a number of rows, got 1.5"),
    ({"validation_size": 6}, "validation_size=6 leaves no row"),
    ({"n_jobs": 0}, "n_jobs == 0"),
]


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(("params", "message"), JOINTLY_BAD)
def test_bad_pairs(kind, params, message, no_training):
    model = ESTIMATORS[kind](**params)
    with pytest.raises(ValueError, match=message):
        model.fit(X_GOOD, LABELS)
    assert vars(model) == model.get_params()


def test_terms_of_three_features(no_training):
    X = np.arange(18.0).reshape(6, 3)
    with pytest.raises(ValueError, match=r"interactions: the term \(0, 1, 2\) has 3 features; terms have at most two"):
        EBMRegressor(interactions=[(0, 1, 2)]).fit(X, Y_GOOD)


def test_bad_pairs_of_one_estimator(no_training):
    with pytest.raises(ValueError, match=r"power=1.7 needs loss='tweedie'; it does not go with loss='poisson'"):
        EBMRegressor(loss="poisson", power=1.7).fit(X_GOOD, Y_GOOD)
    with pytest.raises(ValueError, match="monotonic_cst needs one score per row, there are 3 classes"):
        EBMClassifier(monotonic_cst=[1, 0]).fit(X_GOOD, [0, 1, 2] * 2)
    with pytest.raises(ValueError, match="leaves no row of some class to train on"):
        EBMClassifier(validation_size=5).fit(X_GOOD, LABELS)


def test_initial_models_that_do_not_fit(no_training):
    labels = np.array(list("ababab"))
    classifier = LogisticRegression().fit(X_GOOD, labels)
    with pytest.raises(ValueError, match=r"must know the classes \['c', 'd'\], it has \['a', 'b'\]"):
        EBMClassifier().fit(X_GOOD, np.where(labels == "a", "c", "d"), init_score=classifier)
    with pytest.raises(ValueError, match="must know the classes"):
        EBMClassifier().fit(X_GOOD, labels, init_score=LinearRegression().fit(X_GOOD, Y_GOOD))
    with pytest.raises(NotFittedError):
        EBMRegressor().fit(X_GOOD, Y_GOOD, init_score=LinearRegression())
    negative = LinearRegression().fit(X_GOOD, -Y_GOOD)
    with pytest.raises(ValueError, match="predicts values that are not positive"):
        EBMRegressor(loss="poisson").fit(X_GOOD, Y_GOOD, init_score=negative)
    with pytest.raises(ValueError, match=r"init_score must have the shape \(6, 3\)"):
        EBMClassifier().fit(X_GOOD, [0, 1, 2] * 2, init_score=np.zeros(6))


# ---- bad requests to a fitted model


def methods_of(model):
    names = ["predict", "eval_terms", "predict_uncertainty", "predict_with_uncertainty", "explain_local"]
    if is_classifier(model):
        names += ["predict_proba", "predict_log_proba", "decision_function"]
    return [getattr(model, name) for name in names]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_wrong_columns(kind):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X_GOOD, columns=["a", "b"])
    small = {"max_rounds": 5, "outer_bags": 2}
    model = ESTIMATORS[kind](**small).fit(frame, LABELS)
    for method in methods_of(model):
        for bad, message in [
            (frame[["b", "a"]], "must be in the same order"),
            (frame.rename(columns={"b": "c"}), "unseen at fit time"),
            (frame[["a"]], "missing|1 features"),
            (frame.assign(c=1.0), "unseen at fit time"),
            (frame[:0], "0 sample"),
        ]:
            with pytest.raises(ValueError, match=message):
                method(bad)
    plain = ESTIMATORS[kind](**small).fit(X_GOOD, LABELS)
    for method in methods_of(plain):
        for bad in (X_GOOD[:, :1], np.ones((2, 3)), X_GOOD[0], X_GOOD[:0]):
            with pytest.raises(ValueError, match=r"features|2D array|0 sample"):
                method(bad)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_bad_initial_scores_of_predictions(kind):
    model = ESTIMATORS[kind](max_rounds=5, outer_bags=2).fit(X_GOOD, LABELS)
    for bad in (np.zeros(5), np.zeros((6, 2)), [NAN] * 6):
        with pytest.raises(ValueError, match="init_score"):
            model.predict(X_GOOD, init_score=bad)
        with pytest.raises(ValueError, match="init_score"):
            model.predict_uncertainty(X_GOOD, init_score=bad)


# ---- odd data that is fine


def odd_columns(n, seed=0):
    """All missing, one value, all infinite, two values, one row apart, huge and tiny numbers."""
    rng = np.random.default_rng(seed)
    columns = [np.full(n, NAN), np.full(n, 3.0), np.full(n, INF), rng.integers(0, 2, n), np.arange(n) == 0]
    columns += [rng.normal(size=n) * 1e300, rng.normal(size=n) * 1e-300, np.where(rng.random(n) < 0.5, NAN, 1.0)]
    return np.stack([np.asarray(column, dtype=float) for column in columns], axis=1)


@pytest.mark.parametrize("trainer", ["auto", "rows"])
@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_odd_columns(loss, trainer):
    y = make_data(loss, n=120)[1]
    X = odd_columns(120)
    model = make_ebm(loss, interactions=[(0, 3), (1, 2), (4, 7)], trainer=trainer).fit(X, y)
    for term in (0, 1, 2, model.term_names_.index("x1 & x2")):
        assert not model.term_scores_[term].any()
        assert not model.bagged_scores_[term].any()
    odd = np.array([[NAN] * 8, [INF] * 8, [-INF] * 8, [0.0] * 8, [1e308] * 8])
    assert np.isfinite(model._raw(odd)).all()
    assert np.isfinite(model._raw(X)).all()
    model.explain_global()


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "gamma", "tweedie"])
def test_constant_targets(loss):
    X = make_data(loss)[0]
    model = make_ebm(loss).fit(X, np.full(len(X), 2.5))
    assert not any(scores.any() for scores in model.term_scores_)
    np.testing.assert_allclose(model.predict(X), 2.5, rtol=1e-12)
    assert not model.predict_uncertainty(X).knowledge.any()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_rows(n):
    X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(float(n))
    model = EBMRegressor(max_rounds=5, outer_bags=2, min_samples_leaf=0, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    np.testing.assert_allclose(model.predict(X).mean(), y.mean())
    if n > 1:
        labels = np.arange(n) % 2
        assert EBMClassifier(max_rounds=5, outer_bags=2, random_state=0).fit(X, labels).predict(X).shape == (n,)


def test_one_column_and_rare_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 1))
    y = np.where(np.arange(50) == 7, "rare", np.where(X[:, 0] > 0, "up", "down"))
    model = make_ebm("multiclass", interactions=5).fit(X, y)
    assert model.term_names_ == ["x0"]
    assert model.predict_proba(X).shape == (50, 3)


# ---- parameters do what they say


def parts(model, X):
    return np.concatenate([model._raw(X).ravel(), *(scores.ravel() for scores in model.bagged_scores_)])


EFFECTS = {
    "interactions": 1,
    "max_bins": 8,
    "max_interaction_bins": 6,
    "exclude": [1],
    "categorical_features": None,
    "monotonic_cst": [1, 0, 0, 0],
    "missing": "low",
    "learning_rate": 0.03,
    "max_rounds": 4,
    "max_leaves": 3,
    "min_samples_leaf": 30,
    "min_hessian": 40.0,
    "l2_regularization": 20.0,
    "outer_bags": 4,
    "validation_size": 0.4,
    "early_stopping_rounds": 1,
    "early_stopping_tolerance": 0.1,
    "smoothing_rounds": 0,
    "interaction_smoothing_rounds": 0,
    "greedy_ratio": 0.0,
    "cyclic_progress": 1.0,
    "min_cat_samples": 60,
    "cat_smooth": 1000.0,
    "gain_scale": 1e-3,
    "purify": False,
    "random_state": 1,
}
NO_EFFECT_ON_THE_MODEL = {"loss", "power", "trainer", "max_table_bytes", "callback", "n_jobs", "verbose"}


def test_the_table_of_effects_has_every_parameter():
    assert set(EFFECTS) | NO_EFFECT_ON_THE_MODEL | BOULEVARD | {"boulevard"} == set(EBMRegressor().get_params())


BOULEVARD_EFFECTS = {
    "boulevard_update": "joint",
    "boulevard_structure": "honest",
    "boulevard_rounds": 7,
    "boulevard_subsample": 0.5,
    "boulevard_learning_rate": 0.5,
    "boulevard_max_leaves": 4,
    "boulevard_max_bins": 8,
    "boulevard_max_interaction_bins": 5,
}


@pytest.mark.parametrize("name", BOULEVARD_EFFECTS)
def test_parameters_of_boulevard_change_the_model(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    params = {"boulevard": True, "boulevard_rounds": 20, "interactions": [(0, 1)], "random_state": 0}
    if name == "boulevard_learning_rate":
        params["boulevard_update"] = "joint"  # the other updates have one rate only
    one, other = (EBMRegressor(**options).fit(X, y) for options in (params, {**params, name: BOULEVARD_EFFECTS[name]}))
    assert set(BOULEVARD_EFFECTS) == BOULEVARD
    assert not np.array_equal(one.predict(X), other.predict(X))


@pytest.mark.parametrize("name", EFFECTS)
def test_parameters_change_the_model(name):
    X, y = make_data("squared_error", n=200)
    X[:, 3] = np.random.default_rng(1).integers(0, 9, 200)
    y = y + X[:, 3] % 3
    params = {"categorical_features": [3], "trainer": "rows"}
    one, other = make_ebm(**params).fit(X, y), make_ebm(**{**params, name: EFFECTS[name]}).fit(X, y)
    found, found_other = parts(one, X), parts(other, X)
    assert found.shape != found_other.shape or not np.array_equal(found, found_other)


def test_losses_and_power_change_the_model():
    X, y = make_data("gamma", n=200)
    fits = [make_ebm(loss).fit(X, y)._raw(X) for loss in ("squared_error", "poisson", "gamma", "tweedie")]
    fits.append(make_ebm("tweedie", power=1.2).fit(X, y)._raw(X))
    assert all(not np.array_equal(fits[i], fits[j]) for i in range(5) for j in range(i))


def test_excluded_terms_are_absent():
    X, y = make_data("squared_error")
    model = make_ebm(interactions=10, exclude=["x1", (0, 2)]).fit(X, y)
    assert model.term_names_ == ["x0", "x2", "x3", "x0 & x1", "x0 & x3", "x1 & x2", "x1 & x3", "x2 & x3"]
    model = make_ebm(interactions=[(0, 1)], exclude="mains").fit(X, y)
    assert model.term_names_ == ["x0 & x1"]
    model = make_ebm(interactions=0, exclude="mains").fit(X, y)
    assert model.term_names_ == []
    np.testing.assert_allclose(model.predict(X), y.mean())
    assert model.predict_uncertainty(X).knowledge.shape == (len(y),)


def test_constrained_curves_are_monotone_in_every_bag():
    X, y = make_data("binary", n=300, missing=0.1)
    model = make_ebm("binary", monotonic_cst=[1, -1, 0, 0], interactions=5, max_leaves=3).fit(X, y)
    for sign, scores in zip((1, -1), model.bagged_scores_[:2], strict=True):
        assert (sign * np.diff(scores[:, 1:-1], axis=1) >= 0).all()
    assert all(min(features) > 1 for features in model.term_features_ if len(features) == 2)


def test_automatic_interactions_are_at_most_all():
    X, y = make_data("squared_error")
    for interactions in (6, 100, "10x", 0.999):
        model = make_ebm(interactions=interactions).fit(X, y)
        n_pairs = sum(len(features) == 2 for features in model.term_features_)
        assert n_pairs == (4 if interactions == 0.999 else 6)
