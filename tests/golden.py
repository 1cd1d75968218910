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
    return X, {"value": noisy, "count": np.floor(np.exp(0.5 * noisy)), "class": np.digitize(noisy, [0.0, 1.0])}


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
