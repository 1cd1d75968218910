"""One fit or ten: what members of one fit and of ten fits know, and what intervals the scores give.

    python benchmarks/members.py

Friedman's first function, 1000 training rows, noise of variance 1; strange rows are uniform on [1, 1.5] in all ten
columns, outside of the training range. Means of three data sets.
"""

import time

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.metrics import roc_auc_score

from skboost import SGLBRegressor, VirtualEnsembleUncertainty
from skboost.datasets import make_heteroscedastic

BOOSTERS = {
    "SGLBRegressor(n_estimators=500)": SGLBRegressor(n_estimators=500),
    "GradientBoostingRegressor(subsample=0.5)": GradientBoostingRegressor(subsample=0.5),
    "HistGradientBoostingRegressor(max_features=0.5)": HistGradientBoostingRegressor(max_features=0.5),
}
SMALL_TREES = {"max_depth": 2, "min_samples_leaf": 20, "learning_rate": 0.02, "n_estimators": 300}


def knowledge_of(model, seed):
    """Return seconds, mean squared error of the mean, mean knowledge, and the area under the curve for strange rows."""
    X, y = make_friedman1(1000, noise=1.0, random_state=seed)
    X_new, truth = make_friedman1(1000, noise=0.0, random_state=100 + seed)
    strange = np.random.default_rng(seed).uniform(1, 1.5, (500, 10))
    start = time.perf_counter()
    model.set_params(random_state=seed).fit(X, y)
    seconds = time.perf_counter() - start
    known, unknown = -model.score_samples(X_new), -model.score_samples(strange)
    is_strange = np.repeat([0, 1], [len(known), len(unknown)])
    area = roc_auc_score(is_strange, np.concatenate([known, unknown]))
    return seconds, np.mean((model.predict(X_new) - truth) ** 2), known.mean(), area


def noisy_friedman(n_samples, random_state):
    """Return Friedman's first function with noise of variance 1."""
    return make_friedman1(n_samples, noise=1.0, random_state=random_state)


def interval_of(make_data, conformity_score, seed):
    """Return coverage and mean width of 90 % intervals and their interval score (Gneiting and Raftery, 2007)."""
    X, y = make_data(3500, random_state=seed)
    model = VirtualEnsembleUncertainty(
        SGLBRegressor(loss="gaussian", **SMALL_TREES), calibration_fraction=0.25, conformity_score=conformity_score,
        random_state=seed,
    ).fit(X[:1500], y[:1500])  # fmt: skip
    lower, upper = model.predict_interval(X[1500:], alpha=0.1).T
    below, above = np.maximum(lower - y[1500:], 0), np.maximum(y[1500:] - upper, 0)
    width = np.mean(upper - lower)
    return np.mean((below == 0) & (above == 0)), width, width + np.mean(below + above) / 0.05


def main():
    print("| estimator | method | seconds | squared error | knowledge | AUC |\n|---|---|---|---|---|---|")
    for name, booster in BOOSTERS.items():
        for method in ("virtual", "ensemble"):
            model = VirtualEnsembleUncertainty(booster, method=method)
            cells = np.mean([knowledge_of(model, seed) for seed in range(3)], axis=0)
            print(f"| {name} | {method} |", " | ".join(f"{cell:.3g}" for cell in cells), "|", flush=True)
    print("\n| data | score | coverage | width | interval score |\n|---|---|---|---|---|")
    for make_data in (make_heteroscedastic, noisy_friedman):
        for conformity_score in ("constant", "knowledge", "total"):
            cells = np.mean([interval_of(make_data, conformity_score, seed) for seed in range(3)], axis=0)
            print(f"| {make_data.__name__} | {conformity_score} |", " | ".join(f"{cell:.3g}" for cell in cells), "|")


if __name__ == "__main__":
    main()
