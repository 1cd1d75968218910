"""Every bad input is refused before training with the name of what is wrong; every parameter does what it says."""

import numpy as np
import pytest
from fit_cases import LOSSES, make_data, make_estimator
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from skboost import SGLBClassifier, SGLBRegressor
from skboost.sglb._chain import Chain

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def no_training(monkeypatch):
    """Make any iteration of a chain an error of its own."""

    def step(self, *args, **kwargs):
        raise AssertionError("trained before everything was checked")

    monkeypatch.setattr(Chain, "step", step)


# ---- bad data

X_GOOD, Y_GOOD = np.arange(12.0).reshape(6, 2), np.arange(6.0)
BAD_DATA = [
    ((X_GOOD, [0, 1, 2, 3, 4, NAN]), {}, "NaN"),
    ((X_GOOD, [0, 1, 2, 3, 4, INF]), {}, "infinity"),
    ((X_GOOD, Y_GOOD[:5]), {}, "inconsistent numbers of samples"),
    ((X_GOOD, np.zeros((6, 2, 2))), {}, "1d array|1D|dim 3"),
    ((X_GOOD, np.stack([Y_GOOD, np.full(6, NAN)], axis=1)), {}, "NaN"),
    ((X_GOOD, np.stack([Y_GOOD, Y_GOOD], axis=1)[:5]), {}, "inconsistent numbers of samples"),
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
    ((X_GOOD, Y_GOOD), {"sample_weight": [1, 1, 1, 1, 1, INF]}, "infinity"),
    ((X_GOOD, Y_GOOD), {"sample_weight": np.ones(5)}, r"sample_weight.shape == \(5,\)"),
    ((X_GOOD, Y_GOOD), {"sample_weight": np.ones((6, 1))}, "1D"),
]


@pytest.mark.parametrize(("data", "fit", "message"), BAD_DATA)
def test_bad_data(data, fit, message, no_training):
    model = SGLBRegressor()
    with pytest.raises(ValueError, match=message):
        model.fit(*data, **fit)
    with pytest.raises(NotFittedError):
        model.predict(X_GOOD)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0] * 6, "one class"),
        (["a"] * 6, "one class"),
        ([0, 1, 2, 3, 4, NAN], "NaN"),
        ([0.5, 0.1, 0.2, 0.3, 0.4, 0.5], "Unknown label type"),
        ([[0, 1]] * 6, "one class"),
        ([[0, 2], [1, 3]] * 3, "1d array|multi|shape"),
    ],
)
def test_bad_labels(y, message, no_training):
    with pytest.raises(ValueError, match=message):
        SGLBClassifier().fit(X_GOOD, y)


def test_one_class_of_positive_weight(no_training):
    with pytest.raises(ValueError, match="one class"):
        SGLBClassifier().fit(X_GOOD, [0, 0, 0, 0, 0, 1], sample_weight=[1, 1, 1, 1, 1, 0])


def test_too_many_classes(no_training):
    X, y = np.arange(1024.0)[:, None], np.repeat(np.arange(256), 4)
    with pytest.raises(ValueError, match="At most 255 classes are supported, y has 256"):
        SGLBClassifier().fit(X, y)


def test_255_classes():
    model = SGLBClassifier(n_estimators=2, min_samples_leaf=1, random_state=0)
    X, y = np.arange(1020.0)[:, None], np.repeat(np.arange(255), 4)
    proba = model.fit(X, y).predict_proba(X)
    assert proba.shape == (1020, 255)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.parametrize(("y", "message"), [([-1, 1, 2, 3, 4, 5], "requires y >= 0"), ([0] * 6, "all targets are 0")])
def test_bad_counts(y, message, no_training):
    with pytest.raises(ValueError, match=message):
        SGLBRegressor(loss="poisson").fit(X_GOOD, y)


def test_sparse_input_is_refused(no_training):
    from scipy import sparse

    for estimator in (SGLBRegressor(), SGLBClassifier()):
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            estimator.fit(sparse.csr_array(X_GOOD), [0, 1] * 3)


# ---- bad parameters

BAD_PARAMETERS = {
    "loss": ["unknown", None, "Poisson", 1],
    "quantile": [0, 1, -0.1, NAN, "0.5"],
    "delta": [0, -1, NAN, "1"],
    "power": [1, 2, 2.5, NAN, None, "1.5"],
    "distribution": ["gumbel", 1],
    "scale": [0, -1, 1e-5, 1e5, NAN, INF, "1"],
    "n_estimators": [0, -1, 1.5, "10", None],
    "learning_rate": [0, -0.1, 1.01, NAN, INF, "0.1", None],
    "grow_policy": ["unknown", None, 1],
    "max_depth": [0, -1, 1.5, "6"],
    "max_leaf_nodes": [1, 0, 2.5, "31"],
    "min_samples_leaf": [0, -1, NAN, "5", None],
    "l2_regularization": [-1e-9, NAN, "1", None],
    "max_bins": [1, 256, 0, 10.5, None, "255"],
    "max_features": [0, 0.0, -1, 1.5, NAN, None, "sqrt"],
    "subsample": [0, 0.0, 1.5, -0.5, NAN, None],
    "categorical_features": ["unknown", 1.5],
    "monotonic_cst": [1, "increasing"],
    "interaction_cst": ["unknown", 1],
    "posterior_sampling": [None, "yes", 2],
    "langevin": ["yes", 2],
    "diffusion_temperature": [-1, NAN, "1"],
    "model_shrink_rate": [-1, NAN, "1"],
    "model_shrink_mode": ["unknown", None],
    "leaf_estimation": ["unknown", None],
    "averaging": ["unknown", None],
    "prior_split_rate": [-0.1, 1.1, "auto", NAN],
    "n_prior_cuts": [-1, 129, 0.5, "auto"],
    "cut_margin": [-0.1, "auto", NAN],
    "noise_variance": [0, -1, "unknown", None, NAN],
    "schedule": ["unknown", None, 1],
    "cycle_length": [0, -1, 1.5, None, "50"],
    "gradient_scale_max": [0, -1.0, NAN, INF, None, "10"],
    "gradient_scale_min": [0, -1.0, NAN, INF, None, "1"],
    "exploration_fraction": [-0.1, 1.1, NAN, None, "0.8"],
    "bootstrap_fraction": [0.0, 1.0, 0, 1, -0.5, 1.5, NAN, "0.5"],
    "schedule_form": ["unknown", None, 1],
    "early_stopping": ["auto", None, 2],
    "validation_fraction": [0.0, 1.0, 1.5, -0.1, 0, -1, "0.1", NAN],
    "n_iter_no_change": [0, -1, 1.5, None],
    "tol": [-1, NAN, None],
    "scoring": [1, 0.5],
    "warm_start": ["yes", None, 2],
    "class_weight": ["unknown", 1, [1, 2]],
    "n_jobs": [1.5, "2"],
    "random_state": [-1, 1.5, "0"],
    "verbose": [-1, "loud"],
}
ESTIMATORS = {"regressor": SGLBRegressor, "classifier": SGLBClassifier}
NOT_OF_CLASSIFIERS = {"noise_variance", "quantile", "delta", "power", "distribution", "scale"}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_table_of_bad_values_has_every_parameter(kind):
    assert set(ESTIMATORS[kind]().get_params()) <= set(BAD_PARAMETERS)
    only_other = {"regressor": {"class_weight"}, "classifier": NOT_OF_CLASSIFIERS}[kind]
    assert set(BAD_PARAMETERS) - set(ESTIMATORS[kind]().get_params()) == only_other


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_bad_values(kind, name, no_training):
    make = ESTIMATORS[kind]
    if name not in make().get_params():
        return
    y = np.tile([0, 1], 3)
    for value in BAD_PARAMETERS[name]:
        with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter of {make.__name__} must be"):
            make(**{name: value}).fit(X_GOOD, y)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_no_jobs_means_nothing(kind, no_training):
    with pytest.raises(ValueError, match="n_jobs == 0"):
        ESTIMATORS[kind](n_jobs=0).fit(X_GOOD, [0, 1] * 3)


JOINTLY_BAD = [
    ({"max_depth": None}, "max_depth.*16|16.*max_depth"),
    ({"max_depth": 17}, "max_depth between 1 and 16, got 17"),
    ({"max_leaf_nodes": 8}, "max_leaf_nodes=8 .*symmetric"),
    ({"model_shrink_rate": 0.1}, "posterior_sampling=True.*model_shrink_rate must be None, got 0.1"),
    ({"model_shrink_rate": 0.0}, "posterior_sampling=True.*model_shrink_rate"),
    ({"model_shrink_mode": "decreasing"}, "posterior_sampling=True.*model_shrink_mode='constant'"),
    ({"langevin": False}, "posterior_sampling=True.*langevin"),
    ({"posterior_sampling": False, "diffusion_temperature": 1.0}, "diffusion_temperature=1.0 needs noise"),
    ({"posterior_sampling": False, "langevin": False, "diffusion_temperature": 0.0}, "diffusion_temperature=0.0"),
    ({"posterior_sampling": False, "model_shrink_mode": "decreasing"}, r"model_shrink_rate in \(0, 1\), got None"),
    (
        {"posterior_sampling": False, "model_shrink_mode": "decreasing", "model_shrink_rate": 1.0},
        r"model_shrink_rate in \(0, 1\), got 1.0",
    ),
    ({"posterior_sampling": False, "model_shrink_rate": 10.0}, "model_shrink_rate \\* learning_rate must be below 1"),
    ({"monotonic_cst": [1]}, r"monotonic_cst has shape \(1,\)"),
    ({"monotonic_cst": [1, 2]}, "array-like of -1, 0 or 1"),
    ({"monotonic_cst": {"a": 1}}, "feature names"),
    ({"monotonic_cst": [1, 0], "categorical_features": [0]}, "Categorical features cannot have monotonic"),
    ({"interaction_cst": [{0, 2}]}, r"interaction_cst must hold column numbers in \[0, 1\]"),
    ({"categorical_features": [2]}, r"categorical_features.*\[0, 1\]"),
    ({"categorical_features": [True]}, r"categorical_features.*shape"),
    ({"categorical_features": ["a"]}, "categorical_features gives names"),
    ({"early_stopping": True, "scoring": "unknown"}, "unknown"),
    ({"cycle_length": 20}, "cycle_length=20 needs schedule='cyclical', got schedule='constant'"),
    ({"gradient_scale_max": 2.0}, "gradient_scale_max=2.0 needs schedule='cyclical', got schedule='constant'"),
    ({"gradient_scale_min": 0.5}, "gradient_scale_min=0.5 needs schedule='cyclical', got schedule='constant'"),
    ({"exploration_fraction": 0.5}, "exploration_fraction=0.5 needs schedule='cyclical', got schedule='constant'"),
    ({"bootstrap_fraction": 0.5}, "bootstrap_fraction=0.5 needs schedule='cyclical', got schedule='constant'"),
    ({"schedule_form": "affine"}, "schedule_form='affine' needs schedule='cyclical', got schedule='constant'"),
    (
        {"schedule": "cyclical", "gradient_scale_min": 11.0},
        "gradient_scale_max=10.0 must be at least gradient_scale_min=11.0",
    ),
    ({"schedule": "cyclical", "exploration_fraction": 0.5}, "exploration_fraction=0.5 .*needs bootstrap_fraction"),
    (
        {"schedule": "cyclical", "n_estimators": 49, "early_stopping": True},
        "early_stopping=True .*n_estimators must be at least cycle_length=50, got 49",
    ),
    (
        {"schedule": "cyclical", "gradient_scale_max": 20.0, "leaf_estimation": "newton"},
        "gradient_scale_max=20 times learning_rate=0.1 times the curvature 1 .* is 2; from 2 on the chain does not",
    ),
]


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(("params", "message"), JOINTLY_BAD)
def test_bad_pairs(kind, params, message, no_training):
    with pytest.raises(ValueError, match=message):
        ESTIMATORS[kind](**params).fit(X_GOOD, [0, 1] * 3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "poisson", "noise_variance": 1.0}, "noise_variance=1.0.*loss='poisson'"),
        ({"loss": "gaussian", "noise_variance": 1.0}, "noise_variance=1.0.*loss='gaussian'"),
        ({"posterior_sampling": False, "noise_variance": 1.0}, "noise_variance=1.0.*noise"),
        ({"diffusion_temperature": 0.0, "noise_variance": 1.0}, "noise_variance=1.0.*noise"),
        ({"loss": "gaussian", "monotonic_cst": [1, 0]}, "monotonic_cst needs a loss with one output, loss='gaussian'"),
    ],
)
def test_bad_pairs_of_the_regressor(params, message, no_training):
    with pytest.raises(ValueError, match=message):
        SGLBRegressor(**params).fit(X_GOOD, [0, 1] * 3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"monotonic_cst": [1, 0]}, "monotonic_cst needs a loss with one output"),
        ({"class_weight": {0: 1, 1: 1, 7: 2}}, r"\[?7|class"),
        ({"class_weight": {0: -1}}, "class_weight must be at least zero"),
        ({"class_weight": {0: 0}}, r"class_weight must be above zero for every class; it is 0 for \[0\]"),
        ({"class_weight": {0: NAN}}, "class_weight must be finite"),
        ({"class_weight": {0: INF}}, "class_weight must be finite"),
        ({"class_weight": {0: 1e300}}, "class_weight must be finite"),
        ({"class_weight": {0: 1e-300}}, "class_weight must be above zero"),
    ],
)
def test_bad_pairs_of_the_classifier(params, message, no_training):
    with pytest.raises(ValueError, match=message):
        SGLBClassifier(**params).fit(X_GOOD, [0, 1, 2] * 2)


def test_early_stopping_without_rows_to_hold_out(no_training):
    for fraction in (0.1, 1, 5):
        with pytest.raises(ValueError, match="early_stopping=True with validation_fraction"):
            SGLBClassifier(early_stopping=True, validation_fraction=fraction).fit([[0.0], [1.0]], [0, 1])


# ---- bad requests to a fitted model


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_members", [0, -1, 1.5, True, False, "3", NAN, np.float64(2), [2]])
def test_bad_numbers_of_members(loss, n_members):
    X, y = make_data(loss, n=40)
    model = make_estimator(loss).fit(X, y)
    for method in (model.predict_virtual_ensembles, model.predict_uncertainty):
        with pytest.raises(ValueError, match="n_members must be an integer in the range"):
            method(X, n_members)


@pytest.mark.parametrize("loss", LOSSES)
def test_too_many_members(loss):
    X, y = make_data(loss, n=40)
    model = make_estimator(loss, n_estimators=9).fit(X, y)
    assert len(model.predict_virtual_ensembles(X, np.int64(4))) == 4
    for n_members in (5, 10**9):
        for method in (model.predict_virtual_ensembles, model.predict_uncertainty):
            with pytest.raises(ValueError, match=f"n_members={n_members} needs at least {2 * n_members} iterations.*9"):
                method(X, n_members)


def methods_of(model):
    names = ["predict", "apply", "predict_virtual_ensembles", "predict_uncertainty", "staged_predict"]
    if isinstance(model, SGLBClassifier):
        names += ["predict_proba", "predict_log_proba", "decision_function"]
        names += ["staged_predict_proba", "staged_decision_function"]
    for name in names:
        method = getattr(model, name)
        yield (lambda X, method=method: list(method(X))) if name.startswith("staged") else method


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_unfitted(kind):
    for method in methods_of(ESTIMATORS[kind]()):
        with pytest.raises(NotFittedError):
            method(X_GOOD)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_wrong_columns(kind):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X_GOOD, columns=["a", "b"])
    model = ESTIMATORS[kind](n_estimators=20).fit(frame, [0, 1] * 3)
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
    plain = ESTIMATORS[kind](n_estimators=20).fit(X_GOOD, [0, 1] * 3)
    for method in methods_of(plain):
        for bad in (X_GOOD[:, :1], np.ones((2, 3)), X_GOOD[0], X_GOOD[:0]):
            with pytest.raises(ValueError, match=r"features|2D array|0 sample"):
                method(bad)


# ---------------------------------------------------------------- weights that are not numbers of rows


def test_weights_too_light_for_the_shrinkage_are_refused():
    X, y = make_data("squared_error")
    with pytest.raises(ValueError, match="sample_weight sums to"):
        make_estimator("squared_error").fit(X, y, sample_weight=np.full(len(y), 1e-6))
    plain = make_estimator("squared_error", posterior_sampling=False, min_samples_leaf=1e-6, l2_regularization=0.0)
    assert np.isfinite(plain.fit(X, y, sample_weight=np.full(len(y), 1e-6)).predict(X)).all()


def test_light_weights_warn():
    X, y = make_data("squared_error")
    with pytest.warns(UserWarning, match="sample weights of"):
        make_estimator("squared_error").fit(X, y, sample_weight=np.full(len(y), 0.05))


@pytest.mark.parametrize("size", [1e140, 1e-140])
def test_weights_beyond_the_arithmetic_are_refused(size):
    X, y = make_data("squared_error")
    with pytest.raises(ValueError, match="sample_weight must be 0 or lie between"):
        make_estimator("squared_error").fit(X, y, sample_weight=np.full(len(y), size))


def test_a_validation_part_must_leave_rows_to_train_on():
    X, y = make_data("squared_error")
    with pytest.raises(ValueError, match=r"validation_fraction=.* needs more rows"):
        make_estimator("squared_error", early_stopping=True, validation_fraction=len(y)).fit(X, y)


def test_a_score_that_is_not_a_number_is_refused():
    X, y = make_data("squared_error")
    with pytest.raises(ValueError, match="scoring returned NaN"):
        make_estimator("squared_error", early_stopping=True, scoring=lambda *_: np.nan).fit(X, y)
