"""Any data that pass validation give a finite additive model: no crash, no NaN, no warning; laws on odd tables."""

import warnings

import numpy as np
import pytest
from fit_cases import CLASSIFICATION_LOSSES, EBM_LOSSES, assert_same_ebm, make_ebm

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from test_fuzz_estimators import LIGHT, tables  # noqa: E402


@st.composite
def parameters(draw):
    return {
        "max_rounds": draw(st.integers(0, 12)),
        "outer_bags": draw(st.integers(1, 3)),
        "learning_rate": draw(st.sampled_from([1e-3, 0.1, 1.0])),
        "interactions": draw(st.sampled_from([0, 1, 3, "1x", 0.5])),
        "exclude": draw(st.sampled_from([None, "mains", [0]])),
        "max_bins": draw(st.sampled_from([4, 16, 1024])),
        "max_interaction_bins": draw(st.sampled_from([4, 64])),
        "missing": draw(st.sampled_from(["separate", "gain", "low", "high"])),
        "max_leaves": draw(st.integers(2, 5)),
        "min_samples_leaf": draw(st.sampled_from([0, 1, 4.5])),
        "l2_regularization": draw(st.sampled_from([0.0, 1.0, 1e6])),
        "validation_size": draw(st.sampled_from([0, 0.15, 0.5])),
        "early_stopping_rounds": draw(st.sampled_from([0, 1, 5])),
        "greedy_ratio": draw(st.sampled_from([0.0, 0.3, 10.0])),
        "cyclic_progress": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "smoothing_rounds": draw(st.integers(0, 4)),
        "interaction_smoothing_rounds": draw(st.integers(0, 2)),
        "min_cat_samples": draw(st.sampled_from([0, 10])),
        "cat_smooth": draw(st.sampled_from([0.0, 10.0])),
        "purify": draw(st.booleans()),
        "trainer": draw(st.sampled_from(["auto", "rows", "tables"])),
        "random_state": draw(st.integers(0, 100)),
    }


def target(loss, n, seed):
    rng = np.random.default_rng(seed)
    if loss == "multiclass":
        return rng.permutation(np.arange(n) % 3)
    if loss == "binary":
        return rng.permutation(np.arange(n) % 2)
    positive = np.exp(rng.normal(size=n) * rng.choice([0.0, 0.5, 3.0]))
    return {"squared_error": positive - 1, "poisson": np.floor(positive) + 1}.get(loss, positive)


@pytest.mark.parametrize("loss", EBM_LOSSES)
@settings(parent=LIGHT, max_examples=30)
@given(table=tables(), params=parameters(), seed=st.integers(0, 1000), weighted=st.booleans())
def test_every_fit_is_finite(loss, table, params, seed, weighted):
    X, categorical = table
    n = len(X)
    if loss in CLASSIFICATION_LOSSES and n < 3:
        return
    weight = np.random.default_rng(seed).integers(1, 4, n) if weighted else None
    y = target(loss, n, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make_ebm(loss, categorical_features=categorical, **params).fit(X, y, weight)
        raw = model._raw(X)
        assert np.isfinite(raw).all()
        assert np.isfinite(model._bagged_raw(X)).all()
        assert np.isfinite(model.predict_uncertainty(X).knowledge).all()
        terms = model.eval_terms(X).sum(axis=1).reshape(raw.shape) + model.intercept_
    np.testing.assert_allclose(terms, raw, atol=1e-9 * max(1, np.abs(raw).max()))
    assert_same_ebm(type(model).from_dict(model.to_dict()), model, X)


@pytest.mark.parametrize("loss", ["squared_error", "binary", "multiclass"])
@settings(parent=LIGHT, max_examples=15)
@given(table=tables(), params=parameters(), seed=st.integers(0, 1000))
def test_order_and_repetition_on_odd_tables(loss, table, params, seed):
    X, categorical = table
    n = len(X)
    if n < 3:
        return
    rng = np.random.default_rng(seed)
    weight, y = rng.integers(1, 4, n), target(loss, n, seed)
    rows = rng.permutation(np.repeat(np.arange(n), weight))
    model = make_ebm(loss, categorical_features=categorical, n_jobs=1, **params).fit(X, y, weight)
    copied = make_ebm(loss, categorical_features=categorical, n_jobs=2, **params).fit(X[rows], y[rows])
    assert_same_ebm(copied, model, X)
