"""Any data that pass validation give a finite model: no crash, no NaN, no warning, and the symmetries of the target."""

import numpy as np
import pytest
from fit_cases import (
    CLASSIFICATION_LOSSES,
    LOSSES,
    POLICIES,
    REGRESSION_LOSSES,
    assert_same_predictions,
    make_estimator,
)

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

LIGHT = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-300, 5e-324, 2.0**53, 2.0**63, -(2.0**63)]
INTEGER_TYPES = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]


@st.composite
def columns(draw, n):
    """Return one column of n values of any kind and whether it may be categorical."""
    kind = draw(
        st.sampled_from(["normal", "constant", "missing", "few", "special", "integers", "huge", "tiny", "close"])
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if kind == "constant":
        return np.full(n, draw(st.sampled_from(SPECIAL)))
    if kind == "missing":
        return np.full(n, np.nan)
    if kind == "few":
        return rng.integers(0, draw(st.integers(1, 300)), n).astype(float)
    if kind == "special":
        return rng.choice(SPECIAL, n)
    if kind == "integers":
        dtype = draw(st.sampled_from(INTEGER_TYPES))
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return rng.choice(np.array([low, high, low + 1, high - 1, 0, 1], dtype=dtype), n).astype(float)
    if kind == "close":
        return 1.0 + rng.integers(0, 5, n) * np.finfo(float).eps
    return rng.normal(size=n) * {"normal": 1.0, "huge": 1e300, "tiny": 1e-310}[kind]


@st.composite
def tables(draw, max_rows=60):
    """Return X of any shape with odd columns, and the categorical ones."""
    n = draw(st.integers(1, max_rows))
    n_features = draw(st.integers(1, 12))
    X = np.stack([draw(columns(n)) for _ in range(n_features)], axis=1)
    categorical = [k for k in range(n_features) if draw(st.booleans()) and not np.isinf(X[:, k]).any()]
    if draw(st.booleans()):
        with np.errstate(over="ignore"):
            X = X.astype(np.float32)
    X = np.asfortranarray(X) if draw(st.booleans()) else X
    return X, draw(st.sampled_from([None, categorical or None]))


@st.composite
def parameters(draw, loss):
    params = {
        "grow_policy": draw(st.sampled_from(POLICIES)),
        "max_depth": draw(st.integers(1, 8)),
        "n_estimators": draw(st.integers(1, 8)),
        "learning_rate": draw(st.sampled_from([1e-3, 0.1, 1.0])),
        "min_samples_leaf": draw(st.sampled_from([1e-3, 1, 2.5, 5])),
        "l2_regularization": draw(st.sampled_from([0.0, 1.0, 1e6])),
        "max_bins": draw(st.sampled_from([2, 16, 255])),
        "max_features": draw(st.sampled_from([0.3, 1.0, 1])),
        "subsample": draw(st.sampled_from([0.3, 1.0])),
        "leaf_estimation": draw(st.sampled_from(["gradient", "newton"])),
        "averaging": draw(st.sampled_from(["last", "mean"])),
        "random_state": draw(st.integers(0, 100)),
    }
    if draw(st.booleans()):
        params["posterior_sampling"] = False
    else:
        params["diffusion_temperature"] = draw(st.sampled_from([None, 0.01, 1.0, 1e6]))
    if draw(st.booleans()):
        params |= {
            "early_stopping": True,
            "averaging": "last",
            "validation_fraction": draw(st.sampled_from([0.3, None])),
        }
    return params


def fit_whatever(loss, X, y, weight, params, categorical):
    """Return the fitted model, or None where there is nothing to hold out."""
    try:
        return make_estimator(loss, categorical_features=categorical, **params).fit(X, y, weight)
    except ValueError as error:
        if "leaves no row to validate on" in str(error):
            return None
        raise


def check_model(model, X):
    raw = model._raw(X)
    assert np.isfinite(raw).all()
    assert np.isfinite(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)).all()
    assert model.apply(X).min() >= 0
    n_members = model.n_iter_ // 2
    if n_members:
        result = model.predict_uncertainty(X, n_members)
        assert np.isfinite(result.mean).all()
        assert np.isfinite(result.knowledge).all()
        assert (result.knowledge >= 0).all()
        if result.data is not None:
            assert np.isfinite(result.total).all()
    if model.n_iter_ > 0 and model.averaging == "last":
        np.testing.assert_array_equal(list(model._staged_raw(X))[-1], raw)
    importances = model.feature_importances_
    assert np.isfinite(importances).all()
    assert importances.sum() == pytest.approx(1) or not importances.any()


@pytest.mark.parametrize("loss", LOSSES)
@LIGHT
@given(data=st.data())
def test_any_table(loss, data):
    X, categorical = data.draw(tables())
    params = data.draw(parameters(loss))
    n = len(X)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    weight = data.draw(st.sampled_from([None, "whole", "fractional"]))
    if weight is not None:
        weight = rng.integers(1, 4, n) if weight == "whole" else rng.exponential(size=n) + 1e-3
    if loss in CLASSIFICATION_LOSSES:
        n_classes = 2 if loss == "binary" else 3
        if n < n_classes:
            return
        y = rng.permutation(np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]))
    elif loss == "poisson":
        y = rng.poisson(2.0, n).astype(float)
        y[0] += 1
    else:
        y = rng.normal(size=n)
    model = fit_whatever(loss, X, y, weight, params, categorical)
    if model is None:
        return
    check_model(model, X)
    other = rng.choice(SPECIAL, size=X.shape).astype(X.dtype) if X.dtype == np.float64 else X[::-1]
    check_model(model, other)


@pytest.mark.parametrize("scale", [1e-130, 1e-29, 1e-20, 1e-5, 1e5, 1e20, 1e29, 1e130])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", ["squared_error", "gaussian"])
def test_scales_of_the_target(loss, grow_policy, scale):
    if loss == "squared_error" and not 1e-30 < scale < 1e30:
        return  # refused, see below
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = 2 * X[:, 0] + 0.1 * rng.normal(size=80)
    model = make_estimator(loss, grow_policy=grow_policy, n_estimators=30).fit(X, y * scale)
    check_model(model, X)
    assert np.corrcoef(model.predict(X) / scale, y)[0, 1] > 0.8


@pytest.mark.parametrize(
    ("loss", "scale"),
    [(loss, scale) for loss in ("squared_error", "gaussian") for scale in (1e-300, 1e-200, 1e200, 1e300, 1.7e308)]
    + [("squared_error", scale) for scale in (1e-40, 1e-33, 1e33, 1e40, 1e140)],
)
def test_ranges_of_the_target_beyond_the_arithmetic_are_refused(loss, scale):
    y = np.tile([-1.0, 1.0, 0.5], 20) * scale
    X = np.arange(60.0)[:, None]
    with pytest.raises(ValueError, match=f"loss='{loss}' requires a y whose range.*change the unit of y"):
        make_estimator(loss).fit(X, y)
    if loss == "squared_error":
        check_model(make_estimator(loss).fit(X, np.full(60, scale)), X)
    elif scale > 1:
        with pytest.raises(ValueError, match="below 1e140"):
            make_estimator(loss).fit(X, np.full(60, scale))


@pytest.mark.parametrize("scale", [1e-10, 1e-5, 1e5, 1e10])
@pytest.mark.parametrize("grow_policy", POLICIES)
def test_scales_of_counts(grow_policy, scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.exp(X[:, 0])
    model = make_estimator("poisson", grow_policy=grow_policy, n_estimators=30).fit(X, y * scale)
    check_model(model, X)
    if scale > 1:
        # Few events say nothing of the columns; many do.
        assert np.corrcoef(np.log(model.predict(X)), X[:, 0])[0, 1] > 0.8


@pytest.mark.parametrize(
    "params",
    [
        {"noise_variance": 1e300},
        {"noise_variance": 1e-300},
        {"diffusion_temperature": 1e-300},
        {"diffusion_temperature": 1e300},
        {"learning_rate": 1e-300},
        {"l2_regularization": 1e300},
        {"l2_regularization": 1e-300},
        {"min_samples_leaf": 1e-300},
        {"min_samples_leaf": 1e300},
        {"max_depth": 10**12, "grow_policy": "depthwise"},
        {"max_leaf_nodes": 10**12, "grow_policy": "lossguide"},
        {"max_features": 10**12},
        {"subsample": 1e-300},
        {"posterior_sampling": False, "model_shrink_rate": 9.999999},
    ],
    ids=str,
)
def test_extreme_parameters(params):
    """A finite model or a ValueError, never numbers that are not finite."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=80)
    try:
        model = make_estimator(**params).fit(X, y)
    except ValueError:
        return
    check_model(model, X)


@pytest.mark.parametrize("offset", [1e5, 1e10, -1e15])
@pytest.mark.parametrize("loss", ["squared_error", "gaussian"])
def test_offsets_of_the_target(loss, offset):
    """Half of the digits of y may be lost in an offset, the signal stays."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = 64 * X[:, 0] + offset
    told = make_estimator(loss, n_estimators=50).fit(X, y).predict(X) - offset
    assert np.corrcoef(told, X[:, 0])[0, 1] > 0.9


@LIGHT
@given(seed=st.integers(0, 2**32 - 1), power=st.integers(-60, 60), policy=st.sampled_from(POLICIES))
def test_powers_of_two_scale_bitwise(seed, power, policy):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 3))
    y = X[:, 0] + rng.normal(size=50)
    params = {"grow_policy": policy, "subsample": 0.7, "early_stopping": bool(seed % 2), "tol": 0.0}
    for loss in ("squared_error", "gaussian"):
        one, other = (make_estimator(loss, **params).fit(X, y * scale) for scale in (1.0, 2.0**power))
        np.testing.assert_array_equal(other.predict(X), one.predict(X) * 2.0**power)


@LIGHT
@given(seed=st.integers(0, 2**32 - 1), shift=st.sampled_from([1.0, -3.0, 1000.0]), policy=st.sampled_from(POLICIES))
def test_a_constant_added_to_the_target_is_added_to_the_prediction(seed, shift, policy):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 3))
    y = np.round(X[:, 0] + rng.normal(size=50), 3) * 1000 / 1024
    for loss in ("squared_error", "gaussian"):
        one, other = (make_estimator(loss, grow_policy=policy).fit(X, y + c) for c in (0.0, shift))
        np.testing.assert_allclose(other.predict(X), one.predict(X) + shift, rtol=1e-3, atol=2e-3)


@LIGHT
@given(seed=st.integers(0, 2**32 - 1), policy=st.sampled_from(POLICIES), loss=st.sampled_from(LOSSES))
def test_increasing_maps_of_columns_change_nothing(seed, policy, loss):
    from fit_cases import make_data

    X, y = make_data(loss, seed % 1000, n=60)
    params = {"grow_policy": policy, "n_prior_cuts": 0}  # prior cuts lie evenly on the scale that is given
    one = make_estimator(loss, **params).fit(X, y)
    mapped = X.copy()
    mapped[:, 0] = np.exp(X[:, 0])
    mapped[:, 1] = X[:, 1] ** 3
    mapped[:, 2] = 1e10 * X[:, 2] - 5e9
    assert_same_predictions(one, make_estimator(loss, **params).fit(mapped, y), X, mapped)


@pytest.mark.parametrize("loss", LOSSES)
def test_single_rows_and_wide_tables(loss):
    rng = np.random.default_rng(0)
    for n, n_features in [(1, 1), (1, 30), (2, 300), (5, 1000)]:
        if loss in CLASSIFICATION_LOSSES and n < 3:
            continue
        X = rng.normal(size=(n, n_features))
        y = np.arange(n) % (2 if loss == "binary" else 3) + (0 if loss in CLASSIFICATION_LOSSES else 1.0)
        for policy in POLICIES:
            model = make_estimator(loss, grow_policy=policy, min_samples_leaf=1).fit(X, y)
            check_model(model, X)
            if n == 1:
                np.testing.assert_allclose(model.predict(X), y, atol=3)


@pytest.mark.parametrize("n_categories", [1, 2, 3, 8, 9, 63, 64, 65, 127, 128, 254, 255, 256, 257, 300])
@pytest.mark.parametrize("grow_policy", POLICIES)
def test_numbers_of_categories(n_categories, grow_policy):
    rng = np.random.default_rng(n_categories)
    codes = np.concatenate([np.arange(n_categories), rng.integers(0, n_categories, 3 * n_categories)]).astype(float)
    effect = rng.normal(size=n_categories)
    y = effect[codes.astype(int)]
    X = np.stack([codes, rng.normal(size=len(codes))], axis=1)
    params = {"posterior_sampling": False, "learning_rate": 1.0, "l2_regularization": 0.0, "min_samples_leaf": 1}
    model = make_estimator(categorical_features=[0], grow_policy=grow_policy, n_estimators=40, **params).fit(X, y)
    check_model(model, X)
    told = model.predict(X)
    assert np.mean((told - y) ** 2) <= 0.5 * y.var() + 1e-9
    unknown = X.copy()
    unknown[:, 0] = 1e9
    check_model(model, unknown)


@pytest.mark.parametrize("loss", LOSSES)
def test_constant_columns_and_targets(loss):
    X = np.zeros((40, 3))
    X[:, 1] = np.nan
    X[:, 2] = np.inf
    y = np.arange(40) % (2 if loss == "binary" else 3)
    check_model(make_estimator(loss).fit(X, y), X)
    if loss in REGRESSION_LOSSES:
        for value in (1.0, 1e-3, 12345.678):
            X_any = np.random.default_rng(0).normal(size=(40, 3))
            model = make_estimator(loss, n_estimators=20).fit(X_any, np.full(40, value))
            check_model(model, X_any)
            if loss == "squared_error":
                np.testing.assert_array_equal(model.predict(X_any), value)
                assert not model.predict_uncertainty(X_any, 5).knowledge.any()


def test_constant_zero_target():
    X = np.random.default_rng(0).normal(size=(40, 3))
    for loss in ("squared_error", "gaussian"):
        model = make_estimator(loss, n_estimators=20).fit(X, np.zeros(40))
        check_model(model, X)
        assert np.abs(model.predict(X)).max() < 1e-3


def test_infinities_are_ordinary_ends():
    X = np.array([-np.inf, -1.0, 0.0, 1.0, np.inf] * 10)[:, None]
    y = np.nan_to_num(X[:, 0], posinf=5, neginf=-5)
    params = {"posterior_sampling": False, "learning_rate": 1.0, "l2_regularization": 0.0, "n_estimators": 3}
    for grow_policy in POLICIES:
        model = make_estimator(grow_policy=grow_policy, **params).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y, atol=1e-4)
        np.testing.assert_allclose(model.predict([[1e308], [-1e308]]), [5, -5], atol=1e-4)


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_extremes_of_integers(dtype):
    info = np.iinfo(dtype)
    X = np.array([info.min, info.max] * 20, dtype=dtype)[:, None]
    y = np.tile([0.0, 1.0], 20)
    params = {"posterior_sampling": False, "learning_rate": 1.0, "l2_regularization": 0.0, "n_estimators": 1}
    np.testing.assert_allclose(make_estimator(**params).fit(X, y).predict(X), y, atol=1e-6)
    for loss in LOSSES:
        target = y if loss != "multiclass" else np.arange(40) % 3
        check_model(make_estimator(loss).fit(X, target.astype(np.int64)), X)
