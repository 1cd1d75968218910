"""Small fits whose predictions are stored; run this file to rewrite them, on purpose only.

    python tests/golden.py

A change that moves them belongs under "Changed models" in CHANGELOG.md.
"""

import json
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "data" / "golden.json"
N_SHOWN = 5


def rows(seed=0, n=240):
    """Return X with a missing value here and there and a categorical column, and three targets."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 4)), 3)
    X[:, 3] = rng.integers(0, 7, size=n)
    X[rng.random((n, 4)) < 0.05] = np.nan
    signal = np.nan_to_num(X[:, 0]) + np.sin(np.nan_to_num(X[:, 1])) + (np.nan_to_num(X[:, 3]) % 2)
    noisy = np.round(signal + 0.3 * rng.normal(size=n), 3)
    counts, classes = np.floor(np.exp(0.5 * noisy)), np.digitize(noisy, [0.0, 1.0])
    return X, {"value": noisy, "count": counts, "positive": counts + 0.5, "class": classes, "half": classes > 1}


def cases():
    """Yield (name, estimator, name of its target)."""
    from skboost import SGLBClassifier, SGLBRegressor

    common = {"n_estimators": 40, "random_state": 0, "categorical_features": [3]}
    for policy in ("symmetric", "depthwise", "lossguide"):
        for loss, target in (("squared_error", "value"), ("gaussian", "value"), ("poisson", "count")):
            yield f"{loss}, {policy}", SGLBRegressor(loss=loss, grow_policy=policy, **common), target
        yield f"log_loss, {policy}", SGLBClassifier(grow_policy=policy, **common), "class"
    yield "plain", SGLBRegressor(posterior_sampling=False, **common), "value"
    yield "newton", SGLBClassifier(leaf_estimation="newton", **common), "class"
    yield "mean", SGLBRegressor(averaging="mean", **common), "value"
    yield "drawn", SGLBRegressor(subsample=0.7, max_features=0.5, **common), "value"
    yield "exact posterior", SGLBRegressor(diffusion_temperature=1, min_samples_leaf=5, **common), "value"
    decreasing = {"model_shrink_rate": 0.1, "model_shrink_mode": "decreasing"}
    yield "decreasing", SGLBRegressor(posterior_sampling=False, langevin=True, **decreasing, **common), "value"
    cyclical = {"schedule": "cyclical", "cycle_length": 10, **common}
    yield "cyclical", SGLBRegressor(schedule_form="affine", averaging="mean", **cyclical), "value"
    yield "masked", SGLBClassifier(bootstrap_fraction=0.6, **cyclical), "class"
    yield from additive_cases()


def additive_cases():
    """The same of additive models; rows and tables, all losses, pairs, every way of missing values."""
    from skboost import EBMClassifier, EBMRegressor

    common = {"max_rounds": 60, "outer_bags": 3, "interactions": 2, "smoothing_rounds": 10, "learning_rate": 0.1}
    common |= {"random_state": 0, "categorical_features": [3], "max_bins": 64}
    targets = {"squared_error": "value", "poisson": "count", "gamma": "positive", "tweedie": "count"}
    for trainer in ("rows", "tables"):
        for loss, target in targets.items():
            yield f"additive, {loss}, {trainer}", EBMRegressor(loss=loss, trainer=trainer, **common), target
        yield f"additive, binary, {trainer}", EBMClassifier(trainer=trainer, **common), "half"
        yield f"additive, log_loss, {trainer}", EBMClassifier(trainer=trainer, **common), "class"
    for missing in ("gain", "low", "high"):
        yield f"additive, {missing}", EBMRegressor(missing=missing, max_leaves=3, **common), "value"
    monotone = {"monotonic_cst": [1, 0, 0, 0], "greedy_ratio": 0.0}
    yield "additive, monotone", EBMRegressor(**monotone, **common), "value"
    yield "additive, no validation", EBMClassifier(validation_size=0, purify=False, **common), "half"


def predictions():
    """Return name -> predictions and knowledge of the first rows."""
    X, targets = rows()
    found = {}
    for name, estimator, target in cases():
        estimator.fit(X, targets[target])
        shown = X[:N_SHOWN]
        predict = getattr(estimator, "predict_proba", estimator.predict)
        knowledge = estimator.predict_uncertainty(shown).knowledge
        found[name] = {"prediction": predict(shown).tolist(), "knowledge": knowledge.tolist()}
    return found


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(predictions(), indent=1) + "\n")
    print(f"wrote {FILE}")
