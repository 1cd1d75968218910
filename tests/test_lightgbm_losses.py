"""Models of the wider family of losses are written, and come back to the bit."""

import numpy as np
import pytest
from test_lightgbm_uncertainty import assert_same
from test_lightgbm_write import edge_rows, table

from skboost import SGLBClassifier, SGLBRegressor
from skboost.lightgbm import dumps, loads

FAMILY = {
    "absolute_error": ({}, "regression_l1"),
    "huber": ({}, "huber"),
    "pseudo_huber": ({"delta": 0.5}, None),
    "quantile": ({"quantile": 0.8}, "quantile"),
    "quantiles": ({"loss": "quantile", "quantile": [0.1, 0.5, 0.9]}, None),
    "expectile": ({"quantile": 0.8}, None),
    "gamma": ({}, "gamma"),
    "tweedie": ({"power": 1.3}, "tweedie"),
    "normal": ({}, None),
    "lognormal": ({}, None),
    "laplace": ({}, None),
    "gamma_distribution": ({}, None),
    "poisson_distribution": ({}, None),
    "negative_binomial": ({}, None),
    "several targets": ({"loss": "squared_error"}, None),
    "several labels": ({}, "multiclassova num_class:3 sigmoid:1"),
}


def fitted_family(name, **params):
    """Return a small model with one of the losses of the family."""
    X, y = table()
    params = {"n_estimators": 20, "max_depth": 4, "random_state": 0, "categorical_features": [3], "n_jobs": 1} | params
    if name == "several labels":
        return SGLBClassifier(**params).fit(X, np.column_stack([y > 0, y > 1, X[:, 2] > 0]).astype(int))
    if name == "several targets":
        return SGLBRegressor(**params).fit(X, np.column_stack([y, 100 + 40 * X[:, 2]]))
    target = 30 * y
    if name in ("gamma", "tweedie", "lognormal", "gamma_distribution"):
        target = np.exp(y / 2)
    elif name in ("poisson_distribution", "negative_binomial"):
        target = np.floor(np.exp(y / 2) * 2)
    return SGLBRegressor(**{"loss": name} | FAMILY[name][0] | params).fit(X, target)


@pytest.mark.parametrize("averaging", ["last", "mean"])
@pytest.mark.parametrize("name", FAMILY)
def test_models_come_back_to_the_bit(name, averaging):
    model, X = fitted_family(name, averaging=averaging), edge_rows(table()[0])
    X[::7] *= 3
    text = dumps(model)
    loaded = loads(text)
    lines = [line for line in text.split("\n") if line.startswith("objective=")]
    assert lines == ([] if FAMILY[name][1] is None else [f"objective={FAMILY[name][1]}"])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    if name == "several labels":
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        assert loaded.predict(X).shape == (len(X), 3)
    members = model.predict_virtual_ensembles(X, 4)
    np.testing.assert_array_equal(loaded.predict_virtual_ensembles(X, 4), members)
    wanted = model.predict_uncertainty(X, 4)
    assert_same(loaded.predict_uncertainty(X, 4), wanted)
    assert wanted.support.min() < 1
    raw = model._raw(X)
    np.testing.assert_allclose(loaded.raw_scores(X).reshape(raw.shape), raw, rtol=0, atol=1e-13 * np.abs(raw).max())


@pytest.mark.parametrize("name", ["quantile", "quantiles"])
def test_quantiles_come_back(name):
    model, X = fitted_family(name), edge_rows(table()[0])
    found = loads(dumps(model)).predict_quantiles(X)
    np.testing.assert_array_equal(found, model.predict_quantiles(X))
    assert (np.diff(found, axis=1) >= 0).all()
    with pytest.raises(ValueError, match="predict_quantiles needs a model that skboost wrote with loss='quantile'"):
        loads(dumps(fitted_family("huber"))).predict_quantiles(X)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"centre":[', '"centre":[0,', "centre has not the shape of the outputs"),
        ('"scale":[', '"scale":[-', "scale is not positive"),
        ('"loss":"several_targets"', '"loss":"gaussian"', "centre has not the shape"),
        ('"empty_scale":[', '"empty_scale":[0,', "empty_scale are no numbers, or not as many"),
        ('"empty_scale":[', '"empty_scale":[-', "empty_scale is below 0"),
    ],
)
def test_descriptions_of_several_targets_are_checked(old, new, message):
    text = dumps(fitted_family("several targets", n_estimators=2))
    assert text.count(old) == 1
    with pytest.raises(ValueError, match=message):
        loads(text.replace(old, new))
