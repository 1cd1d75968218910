"""Predicted deviations of the gaussian losses are corrected by what fitting leaves of coins."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skboost import SGLBRegressor
from skboost._losses import make_loss

PLAIN = {"loss": "gaussian", "posterior_sampling": False, "random_state": 0, "n_jobs": 1}


def table(n=300, n_features=4):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, n_features))
    return X, X[:, 0] + np.exp(0.5 * X[:, 1]) * rng.normal(size=n)


@pytest.mark.parametrize("leaf_estimation", ["gradient", "newton"])
@pytest.mark.parametrize("prior_split_rate", [0.0, 1.0])
def test_noise_that_is_fitted_is_not_lost(leaf_estimation, prior_split_rate):
    """Pure noise of deviation 1. Where splits are drawn, its deviation comes back; searched splits fit noise more."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 5)), rng.normal(size=400)
    params = {"n_estimators": 400, "max_depth": 6, "prior_split_rate": prior_split_rate, **PLAIN}
    fitted = SGLBRegressor(leaf_estimation=leaf_estimation, **params).fit(X, y).predict_distribution(X)
    residual, deviation = np.sqrt(np.mean((y - fitted.mean) ** 2)), np.sqrt(np.mean(fitted.variance))
    assert residual < 0.8
    if prior_split_rate:
        assert 0.85 < deviation < 1.1
    else:
        assert deviation > 1.5 * residual


@pytest.mark.parametrize("discrete", [False, True])
def test_one_leaf_has_the_deviation_of_its_rows(discrete):
    """Without splits only the mean is fitted: n - 1 degrees of freedom, up to what one draw of coins shows."""
    y = np.random.default_rng(0).normal(2.0, 3.0, 500)
    y = (y > 2).astype(float) if discrete else y
    found = SGLBRegressor(n_estimators=300, **PLAIN).fit(np.zeros((500, 1)), y).predict_distribution(np.zeros((1, 1)))
    assert_allclose(found.mean, y.mean(), rtol=1e-6)
    assert_allclose(found.scale, y.std(), rtol=0.02)


def test_repeated_measurements_are_no_evidence():
    """Rows that occur three times have the residuals of one row, and one coin."""
    X, y = table(150)
    rows = np.repeat(np.arange(150), 3)
    params = {**PLAIN, "n_estimators": 300, "max_depth": 3}
    fitted = SGLBRegressor(**params).fit(X[rows], y[rows]).predict_distribution(X)
    assert np.sqrt(np.mean(fitted.variance)) > 1.15 * np.sqrt(np.mean((y - fitted.mean) ** 2))


@pytest.mark.parametrize("loss", ["gaussian", "normal", "lognormal"])
def test_units_do_not_change_the_coins(loss):
    X, y = table(200)
    y, params = np.exp(y), {"n_estimators": 30, "random_state": 0, "n_jobs": 1}
    one = SGLBRegressor(loss=loss, **params).fit(X, y).predict_distribution(X)
    other = SGLBRegressor(loss=loss, **params).fit(X, 1024 * y).predict_distribution(X)
    factor = 1 if loss == "lognormal" else 1024
    assert_allclose(list(other.parameters.values())[1], factor * list(one.parameters.values())[1], rtol=1e-9)
    assert make_loss(loss).fits_coins


def test_other_losses_fit_no_coins():
    X, y = table(100)
    model = SGLBRegressor(loss="laplace", n_estimators=3, n_jobs=1).fit(X, y)
    assert not model._loss.fits_coins
    assert model._coin_values is None


CHAINS = {
    "constant": {},
    "cyclical": {"schedule": "cyclical", "cycle_length": 10, "gradient_scale_max": 4.0, "bootstrap_fraction": 0.5},
    "newton": {"leaf_estimation": "newton"},
    "drawn": {"grow_policy": "lossguide", "prior_split_rate": 0.3, "subsample": 0.7},
}


@pytest.mark.parametrize("name", CHAINS)
def test_warm_starts_go_on_with_the_fit_of_the_coins(name):
    X, y = table()
    params = {"loss": "gaussian", "random_state": 0, "n_jobs": 1, **CHAINS[name]}
    whole = SGLBRegressor(n_estimators=60, **params).fit(X, y)
    parts = SGLBRegressor(n_estimators=30, warm_start=True, **params).fit(X, y)
    assert len(parts._coin_values) == len(parts._forest.leaf_value)
    parts = pickle.loads(pickle.dumps(parts)).set_params(n_estimators=60).fit(X, y)
    assert_array_equal(parts._raw(X), whole._raw(X))
    assert_array_equal(parts._coin_values, whole._coin_values)
    assert np.isfinite(whole._raw(X)).all()


def test_a_fit_that_stopped_early_goes_on_where_it_stopped():
    X, y = table()
    params = {"loss": "gaussian", "random_state": 0, "n_jobs": 1, "early_stopping": True}
    short = SGLBRegressor(n_estimators=200, n_iter_no_change=3, warm_start=True, **params).fit(X, y)
    assert short.n_iter_ < 200
    assert len(short._coin_values) == len(short._forest.leaf_value)
    wanted = short.n_iter_ + 20
    short.set_params(n_estimators=wanted, n_iter_no_change=1000).fit(X, y)
    whole = SGLBRegressor(n_estimators=wanted, n_iter_no_change=1000, **params).fit(X, y)
    n = min(short.n_iter_, whole.n_iter_)
    states = [model._forest.truncate(n).margins((X, model._mapper)) for model in (short, whole)]
    assert_array_equal(*states)


def test_forests_hold_the_outputs_of_the_loss():
    X, y = table()
    model = SGLBRegressor(loss="gaussian", n_estimators=5, n_jobs=1).fit(X, y)
    assert model._forest.n_outputs == model._loss.n_outputs == 2
    assert model._raw(X).shape == (300, 2)
