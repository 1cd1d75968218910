"""Whole-number weights are repeated rows, weight zero is absence: equality of bits, noise on, rows in any order."""

import numpy as np
import pytest
from fit_cases import (
    LOSSES,
    POLICIES,
    assert_same_predictions,
    make_data,
    make_estimator,
    make_target,
    predictions,
    threads_of_trainers,
)
from sklearn.base import clone

from skboost._engine import threads

MASKED = {"schedule": "cyclical", "cycle_length": 4, "bootstrap_fraction": 0.5}
SETTINGS = {
    "plain": {},
    "newton": {"leaf_estimation": "newton"},
    "drawn": {"subsample": 0.6, "max_features": 0.5},
    "noise free": {"posterior_sampling": False},
    "hot": {"diffusion_temperature": 1.0, "averaging": "mean"},
    "stopping": {"early_stopping": True, "n_iter_no_change": 3, "validation_fraction": 0.3},
    "stopping by number": {"early_stopping": True, "n_iter_no_change": 3, "validation_fraction": 20, "subsample": 0.6},
    "stopping on training rows": {"early_stopping": True, "n_iter_no_change": 3, "validation_fraction": None},
    "stopping by score": {"early_stopping": True, "n_iter_no_change": 3, "scoring": None},
    "few bins": {"max_bins": 4, "min_samples_leaf": 7},
    "cyclical": {**MASKED, "bootstrap_fraction": None, "averaging": "mean"},
    "masked": MASKED,
    "masked newton": {**MASKED, "leaf_estimation": "newton"},
    "masked and drawn": {**MASKED, "subsample": 0.6, "schedule_form": "affine"},
    "masked without noise": {**MASKED, "posterior_sampling": False, "bootstrap_fraction": 0.1},
    "masked, stopping": {**MASKED, "early_stopping": True, "n_iter_no_change": 2, "validation_fraction": 0.3},
}
N_SEEDS = 3


def weighted_case(loss, seed, *, coarse=False, n=60):
    """Return (X, y, weights 0 to 4) and the same as shuffled repeated rows."""
    X, y = make_data(loss, seed, n=n)
    rng = np.random.default_rng([seed, 1])
    if coarse:
        X = np.round(X)
    weight = rng.integers(0, 5, n)
    for label in np.unique(y)[:3]:
        weight[np.flatnonzero(y == label)[0]] += 1  # no class vanishes
    rows = rng.permutation(np.repeat(np.arange(n), weight))
    return X, y, weight, rows


def assert_weights_are_copies(model, X, y, weight, rows):
    weighted = clone(model).fit(X, y, weight)
    repeated = clone(model).fit(X[rows], y[rows])
    assert_same_predictions(weighted, repeated, X)
    np.testing.assert_array_equal(weighted._forest.leaf_weight, repeated._forest.leaf_weight)
    # scikit-learn's scores are plain sums in the order of the rows.
    rounding = 0 if model.scoring == "loss" else 1e-13
    np.testing.assert_allclose(weighted.validation_score_, repeated.validation_score_, rtol=0, atol=rounding)
    np.testing.assert_allclose(weighted.train_score_, repeated.train_score_, rtol=0, atol=rounding)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_copies(loss, setting, seed):
    for case in range(N_SEEDS):
        grow_policy = POLICIES[case % 3]
        model = make_estimator(loss, grow_policy=grow_policy, random_state=seed + case, **SETTINGS[setting])
        for coarse in (False, True):
            assert_weights_are_copies(model, *weighted_case(loss, 100 * seed + case, coarse=coarse))


@pytest.mark.parametrize("setting", ["plain", "masked"])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_copies_with_several_threads_and_many_values(loss, grow_policy, setting, seed, monkeypatch):
    seen = threads_of_trainers(monkeypatch)
    model = make_estimator(loss, grow_policy=grow_policy, n_jobs=3, n_estimators=5, **SETTINGS[setting])
    for n, n_threads in [(700, 1), (6000, 3)]:
        X, y = make_data(loss, seed, n=n)
        X = X + np.random.default_rng(seed).normal(size=X.shape)  # more values than bins
        weight = np.random.default_rng(seed).integers(0, 4, n)
        weight[:40] = 1
        seen.clear()
        assert_weights_are_copies(model, X, y, weight, np.repeat(np.arange(n), weight))
        assert max(seen) >= (n_threads if threads.has_openmp() else 1)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_copies_with_categories(loss, seed):
    rng = np.random.default_rng(seed)
    X = np.stack([rng.integers(0, 12, 120), rng.integers(0, 300, 120), rng.normal(size=120)], axis=1).astype(float)
    y = make_target(loss, rng, np.sin(X[:, 0]))
    X[rng.random(X.shape) < 0.1] = np.nan
    weight = rng.integers(0, 5, 120)
    weight[:20] = 2
    rows = rng.permutation(np.repeat(np.arange(120), weight))
    for max_bins in (255, 6):
        for grow_policy in POLICIES:
            model = make_estimator(loss, categorical_features=[0, 1], grow_policy=grow_policy, max_bins=max_bins)
            assert_weights_are_copies(model, X, y, weight, rows)


@pytest.mark.parametrize("class_weight", [{30: 2.5, 10: 0.25, 20: 7}, {30: 2.5, 10: 0.3, 20: 7}, "balanced"])
@pytest.mark.parametrize(
    "setting",
    ["plain", "newton", "drawn", "stopping", "stopping by number", "masked", "masked newton", "masked and drawn"],
)
def test_weights_are_copies_with_class_weights(class_weight, setting, seed):
    model = make_estimator("multiclass", class_weight=class_weight, **SETTINGS[setting])
    for case in range(N_SEEDS):
        assert_weights_are_copies(model, *weighted_case("multiclass", 100 * seed + case))


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_of_weight_zero_are_absent(loss, seed):
    X, y = make_data(loss, seed)
    rng = np.random.default_rng(seed)
    kept = rng.random(len(y)) < 0.5
    X_odd, y_odd = X.copy(), y.copy()
    X_odd[~kept] = rng.normal(1e9, 1e9, size=X_odd[~kept].shape)
    if loss in ("binary", "multiclass"):
        y_odd = y_odd.astype(object) if loss == "binary" else y_odd
        y_odd[np.flatnonzero(~kept)[:3]] = "maybe" if loss == "binary" else -1
    else:
        y_odd[~kept] = 1e12
    fractions = rng.uniform(0.1, 3, kept.sum())
    for inside in (1.0, 2.0, fractions):
        weight = np.zeros(len(y))
        weight[kept] = inside
        for setting in ("plain", "drawn", "stopping"):
            model = make_estimator(loss, **SETTINGS[setting])
            assert_same_predictions(
                clone(model).fit(X_odd, y_odd, weight), clone(model).fit(X[kept], y[kept], weight[kept]), X
            )


def test_zero_weights_hide_targets_that_a_loss_refuses():
    X, y = make_data("poisson")
    bad = y.copy()
    bad[:5] = -3
    weight = np.ones(len(y))
    weight[:5] = 0
    one, other = make_estimator("poisson").fit(X, bad, weight), make_estimator("poisson").fit(X[5:], y[5:])
    assert_same_predictions(one, other, X)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_one_are_no_weights(loss):
    X, y = make_data(loss)
    model = make_estimator(loss, early_stopping=True)
    plain = clone(model).fit(X, y)
    for weight in (np.ones(len(y)), np.ones(len(y), dtype=np.float32), [1] * len(y), 1.0):
        assert_same_predictions(clone(model).fit(X, y, weight), plain, X)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [2.0**-20, 0.1, 3.0, 1e6])
def test_fractional_weights_keep_their_proportions(loss, scale):
    """Without noise, leaf minimum and lambda only proportions matter, up to a grid and rounding."""
    X, y = make_data(loss)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    params = {"posterior_sampling": False, "l2_regularization": 0.0, "min_samples_leaf": 1e-9, "n_estimators": 5}
    one = make_estimator(loss, **params).fit(X, y, weight)
    other = make_estimator(loss, **params).fit(X, y, weight * scale)
    np.testing.assert_allclose(other._raw(X), one._raw(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_row_order_of_fractional_weights(loss, seed):
    X, y = make_data(loss, seed)
    rng = np.random.default_rng(seed)
    weight = rng.exponential(size=len(y)) * 10 ** rng.uniform(-3, 3, len(y))
    order = rng.permutation(len(y))
    for setting in ("plain", "newton", "drawn", "stopping"):
        model = make_estimator(loss, **SETTINGS[setting])
        assert_same_predictions(clone(model).fit(X, y, weight), clone(model).fit(X[order], y[order], weight[order]), X)


@pytest.mark.parametrize("setting", ["plain", "drawn", "stopping"])
def test_weights_change_the_model(setting):
    X, y = make_data("squared_error")
    weight = np.random.default_rng(0).integers(1, 5, len(y))
    model = make_estimator(**SETTINGS[setting])
    one, other = clone(model).fit(X, y), clone(model).fit(X, y, weight)
    assert not np.array_equal(predictions(one, X)["raw"], predictions(other, X)["raw"])


def test_huge_whole_weights():
    """Beyond 2**26 copies weights lie on a grid; the fit is close to that of the proportions."""
    X, y = make_data("squared_error")
    weight = np.random.default_rng(0).integers(1, 5, len(y)).astype(float)
    params = {"posterior_sampling": False, "l2_regularization": 0.0, "min_samples_leaf": 1e-9, "n_estimators": 3}
    small = make_estimator(**params).fit(X, y, weight)
    large = make_estimator(**params).fit(X, y, weight * 2.0**40)
    np.testing.assert_allclose(large.predict(X), small.predict(X), rtol=1e-4, atol=1e-4)
