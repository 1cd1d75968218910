"""Squared error: rows and tables give the same models, pairs included, though their sums are rounded differently."""

import numpy as np
import pytest

from skboost import EBMRegressor


def both(X, y, weight=None, **params):
    """Return the models on rows and on tables."""
    params = {"max_rounds": 30, "smoothing_rounds": 5, "interaction_smoothing_rounds": 5, "random_state": 0} | params
    return [EBMRegressor(trainer=name, **params).fit(X, y, sample_weight=weight) for name in ("rows", "tables")]


def assert_same_models(rows, tables, X):
    assert tables.term_features_ == rows.term_features_
    assert max(map(len, rows.term_features_)) == 2
    np.testing.assert_allclose(tables.predict(X), rows.predict(X), atol=1e-10, rtol=0)
    for found, wanted in zip(tables.bagged_scores_, rows.bagged_scores_, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-10, rtol=0)


def test_few_rows_in_many_cells():
    """Most cells of the pairs are empty, so that many cuts part the rows alike."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=400) * 0.1
    models = both(X, y, interactions=3, max_rounds=60, outer_bags=3)
    assert_same_models(*models, X)


def drawn_problem(number):
    """Columns of few or many values, with gaps and levels, and parameters."""
    rng = np.random.default_rng([7, number])
    n, n_features = int(rng.integers(40, 300)), int(rng.integers(2, 6))
    X = rng.normal(size=(n, n_features))
    coarse = rng.random(n_features) < 0.4
    X[:, coarse] = np.round(X[:, coarse] * 2)
    params = {
        "interactions": int(rng.integers(1, 3)),
        "outer_bags": int(rng.integers(1, 3)),
        "max_leaves": int(rng.integers(2, 4)),
        "min_samples_leaf": int(rng.choice([1, 4, 9])),
        "greedy_ratio": float(rng.choice([0.0, 2.0])),
        "max_interaction_bins": int(rng.choice([8, 32, 64])),
        "learning_rate": float(rng.choice([0.04, 0.2])),
    }
    signal = X[:, 0] * X[:, 1] + np.sin(X[:, 0])
    if number % 3 == 0:
        levels = rng.integers(0, 9, n)
        X[:, 1] = levels
        signal = signal + np.where(levels % 2, X[:, 0], 0)
        params["categorical_features"] = [1]
    if number % 4 == 1:
        X[rng.random(X.shape) < 0.1] = np.nan
    weight = rng.integers(1, 5, n) / 2.0 if number % 5 == 2 else None
    return X, signal + 0.3 * rng.normal(size=n), weight, params


@pytest.mark.parametrize("number", range(30))
def test_small_problems(number):
    X, y, weight, params = drawn_problem(number)
    assert_same_models(*both(X, y, weight, **params), X)
