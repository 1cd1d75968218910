"""Explainable boosting machines as trees: every term is a tree, and all bits are kept."""

import numpy as np
import pytest
from test_lightgbm_write import edge_rows, table

from skboost import EBMClassifier, EBMRegressor
from skboost.lightgbm import dumps, loads

LOSSES = ("squared_error", "poisson", "gamma", "tweedie", "binary", "multiclass")


def fitted(loss="squared_error", X=None, y=None, **params):
    """Return a small model with main effects and pairs, categories among both."""
    default = {"interactions": [(0, 2), (1, 3), (2, 3)], "max_rounds": 30, "outer_bags": 2, "categorical_features": [3]}
    params = default | {"random_state": 0, "n_jobs": 1, "max_bins": 64} | params
    if X is None:
        X, y = table()
    if loss in ("binary", "multiclass"):
        if loss == "multiclass":
            params["interactions"] = 0
        labels = np.digitize(y, [0.3] if loss == "binary" else [-0.5, 0.5])
        return EBMClassifier(**params).fit(X, np.array(["c", "a", "b"])[labels])
    return EBMRegressor(loss=loss, **params).fit(X, y if loss == "squared_error" else np.exp(y / 2))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_model_comes_back_to_the_bit(loss):
    model, X = fitted(loss), edge_rows(table()[0])
    loaded = loads(dumps(model))
    raw = model._raw(X)
    assert np.ptp(raw) > 0
    np.testing.assert_array_equal(loaded.raw_scores(X).reshape(raw.shape), raw)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    if loss in ("binary", "multiclass"):
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.n_iter_ == len(model.term_names_)
    with pytest.raises(ValueError, match="no virtual ensemble"):
        loaded.predict_virtual_ensembles(X, 2)


def test_trees_are_the_terms_in_their_order():
    model, X = fitted(), edge_rows(table()[0])
    loaded = loads(dumps(model))
    leaves = loaded.apply(X)
    for term, scores in enumerate(model.eval_terms(X).T):
        tree = loaded._parsed.trees[term + 1]
        np.testing.assert_array_equal(tree.leaf_value[leaves[:, term + 1]], scores)
        assert set(tree.feature) <= set(model.term_features_[term])
        assert len(np.unique(tree.leaf_value)) == len(np.unique(scores)) or len(model.term_features_[term]) == 2


def test_unseen_and_missing_categories_have_leaves_of_their_own():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (400, 1)) * 1.0
    X[rng.random(400) < 0.3] = np.nan
    y = np.isnan(X[:, 0]) * 2.0 + rng.normal(size=400) * 0.1
    model = EBMRegressor(categorical_features=[0], outer_bags=2, max_rounds=50, random_state=0).fit(X, y)
    loaded = loads(dumps(model))
    rows = np.array([[0.0], [3.0], [4.0], [-1.0], [1e9], [np.nan]])
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    assert len(np.unique(loaded.apply(rows)[:, 1])) == 4


def test_gains_explain_the_variance_of_the_terms():
    model = fitted(interactions=0)
    loaded = loads(dumps(model))
    for tree, values, weights in zip(loaded._parsed.trees[1:], model.term_scores_, model.bin_weights_, strict=True):
        variance = weights @ (values - weights @ values / weights.sum()) ** 2
        np.testing.assert_allclose(tree.gain.sum(), variance, rtol=1e-4)
    assert loaded.feature_importances_.argmax() == model.term_importances("std").argmax()


def test_frames_with_texts():
    pd = pytest.importorskip("pandas")
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["text"] = np.array(["x", "y", "\u00fc", None], dtype=object)[np.arange(len(y)) % 4]
    model = EBMRegressor(interactions=[(0, 4)], max_rounds=20, outer_bags=2, random_state=0).fit(frame, y)
    loaded = loads(dumps(model))
    other = frame.assign(text=np.array(["x", "new", None], dtype=object)[np.arange(len(y)) % 3])
    for rows in (frame, other):
        np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


@pytest.mark.parametrize(
    "params",
    [
        {"missing": "gain"},
        {"missing": "low", "max_leaves": 4},
        {"missing": "high", "max_interaction_bins": 4},
        {"exclude": "mains", "interactions": [(0, 2)]},
        {"interactions": 0, "exclude": [0, 1, 2, 3]},
    ],
)
def test_all_kinds_of_cells(params):
    model, X = fitted(**{"max_rounds": 8, "outer_bags": 1} | params), edge_rows(table()[0])
    np.testing.assert_array_equal(loads(dumps(model)).predict(X), model.predict(X))


def test_edited_models():
    model = fitted()
    model.remove_features([1])
    model.scale_term(0, 0.5)
    X = np.delete(edge_rows(table()[0]), 1, axis=1)
    np.testing.assert_array_equal(loads(dumps(model)).predict(X), model.predict(X))


def test_a_cut_within_lightgbms_zero_is_refused():
    X = np.repeat([[0.0], [2e-36]], 100, axis=0)
    model = EBMRegressor(max_rounds=5, outer_bags=2, random_state=0).fit(X, np.repeat([0.0, 1], 100))
    with pytest.raises(ValueError, match="Column 0 is split at 1e-36"):
        dumps(model)


def test_a_cut_at_zero_parts_what_lies_below():
    X = np.repeat([[-1.0], [1.0]], 100, axis=0)
    model = EBMRegressor(max_rounds=5, outer_bags=2, random_state=0).fit(X, np.repeat([0.0, 1], 100))
    assert model.bins_[0][0] == [0]
    rows = np.array([[0.0], [-0.0], [-1e-34], [-5e-324], [5e-324]])
    np.testing.assert_array_equal(loads(dumps(model)).predict(rows), model.predict(rows))
