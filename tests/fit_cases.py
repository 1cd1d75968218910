"""Small fits for the tests of whole estimators: one name per loss, targets, and comparison of models bit for bit."""

import numpy as np

from skboost import SGLBClassifier, SGLBRegressor, _parallel
from skboost.sglb import _chain

REGRESSION_LOSSES = ("squared_error", "gaussian", "poisson")
CLASSIFICATION_LOSSES = ("binary", "multiclass")
LOSSES = REGRESSION_LOSSES + CLASSIFICATION_LOSSES
POLICIES = ("symmetric", "depthwise", "lossguide")
EBM_LOSSES = ("squared_error", "poisson", "gamma", "tweedie", "binary", "multiclass")


def make_estimator(loss="squared_error", **params):
    """Return an estimator for one of LOSSES; small and with a fixed seed unless told otherwise."""
    params = {"n_estimators": 12, "min_samples_leaf": 2, "max_depth": 4, "random_state": 0, **params}
    if loss in CLASSIFICATION_LOSSES:
        return SGLBClassifier(**params)
    return SGLBRegressor(loss=loss, **params)


def make_ebm(loss="squared_error", **params):
    """Return an additive estimator for one of EBM_LOSSES; small, with pairs and a fixed seed unless told otherwise."""
    from skboost.ebm import EBMClassifier, EBMRegressor

    small = {"max_rounds": 40, "outer_bags": 3, "interactions": 2, "smoothing_rounds": 5, "early_stopping_rounds": 5}
    params = {**small, "interaction_smoothing_rounds": 3, "max_bins": 32, "random_state": 0, **params}
    params = {"learning_rate": 0.1, "min_samples_leaf": 2, **params}
    return EBMClassifier(**params) if loss in CLASSIFICATION_LOSSES else EBMRegressor(loss=loss, **params)


def make_target(loss, rng, signal):
    """Return a target for one of LOSSES or EBM_LOSSES that follows the signal."""
    noise = rng.normal(size=len(signal))
    if loss in ("gamma", "tweedie"):
        positive = np.exp(np.clip(signal, -3, 3) + 0.5 * noise)
        return positive if loss == "gamma" else positive * (rng.random(len(signal)) < 0.8)
    if loss == "poisson":
        return rng.poisson(np.exp(np.clip(signal, -3, 3))).astype(float)
    if loss == "binary":
        return np.array(["no", "yes"])[(signal + noise > 0).astype(int)]
    if loss == "multiclass":
        return np.array([30, 10, 20])[np.digitize(signal + noise, [-0.5, 0.5])]
    return signal + 0.5 * noise


def make_data(loss, seed=0, n=120, n_features=4, *, missing=0.1):
    """Return X with missing values and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).round(2)
    y = make_target(loss, rng, X[:, 0] + np.sin(3 * X[:, 1]))
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def threads_of_trainers(monkeypatch):
    """Let small work use as many threads as asked; return the list of the thread counts of the chains made since."""
    seen = []

    class Spy(_chain.Trainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            seen.append(self.n_threads)

    monkeypatch.setattr(_parallel, "UPDATES_PER_THREAD", 1)
    monkeypatch.setattr(_chain, "Trainer", Spy)
    return seen


def predictions(model, X):
    """Return every number that the model says of X, by name."""
    told = {"predict": model.predict(X), "raw": model._raw(X), "apply": model.apply(X)}
    if model.n_iter_ >= (2 * model.cycle_length if model.schedule == "cyclical" else 4):
        told["members"] = model.predict_virtual_ensembles(X, n_members=2)
        told["knowledge"] = model.predict_uncertainty(X, n_members=2).knowledge
    if hasattr(model, "predict_proba"):
        told["proba"] = model.predict_proba(X)
    return told


def ebm_parts(model, X):
    """Return every number of an additive model and of what it says of X, by name."""
    told = {"raw": model._raw(X), "members": model._bagged_raw(X), "terms": model.eval_terms(X)}
    told |= {"predict": model.predict(X), "knowledge": model.predict_uncertainty(X).knowledge}
    names = ["intercept_", "bagged_intercept_", "bag_weights_", "best_iteration_", "feature_bounds_"]
    told |= {name: np.asarray(getattr(model, name)) for name in names}
    for name in ("term_scores_", "bagged_scores_", "bin_weights_", "standard_deviations_"):
        tensors = zip(model.term_names_, getattr(model, name), strict=True)
        told |= {f"{name} of {term}": tensor for term, tensor in tensors}
    return told


def assert_same_ebm(one, other, X, X_other=None):
    """Assert that two additive models are the same, bit for bit, and finite."""
    parts, other_parts = ebm_parts(one, X), ebm_parts(other, X if X_other is None else X_other)
    assert parts.keys() == other_parts.keys()
    assert np.isfinite(parts["raw"]).all()
    for name, values in parts.items():
        np.testing.assert_array_equal(values, other_parts[name], err_msg=name)


def assert_same_predictions(one, other, X, X_other=None):
    """Assert that two models predict the same bits, and that these are finite."""
    told, told_other = predictions(one, X), predictions(other, X if X_other is None else X_other)
    assert told.keys() == told_other.keys()
    assert np.isfinite(told["raw"]).all()
    for name, values in told.items():
        np.testing.assert_array_equal(values, told_other[name], err_msg=name)


def assert_same_model(one, other, X):
    """Assert that two models have the same trees, factors and predictions, bit for bit."""
    assert one.n_iter_ == other.n_iter_
    arrays, arrays_other = (model._forest.to_dict()["arrays"] for model in (one, other))
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, arrays_other[name], err_msg=name)
    assert one.noise_variance_ == other.noise_variance_
    assert_same_predictions(one, other, X)


def differ(one, other, X):
    """Return whether the raw scores of two models differ somewhere."""
    raw, raw_other = one._raw(X), other._raw(X)
    return raw.shape != raw_other.shape or not np.array_equal(raw, raw_other)
