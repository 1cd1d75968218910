"""
Which uncertainty should I use?
===============================

Seven answers to "how sure is this prediction?" on one table, in one figure and in numbers. The truth is known, so that
every answer can be checked. :doc:`/user_guide/which_uncertainty` says what the numbers mean for a choice.

The table has 400 rows, a gap in the first feature and a second feature that adds to the target.
"""

from contextlib import suppress

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from skboost import (
    BoulevardRegressor,
    EBMRegressor,
    LeafLaplaceUncertainty,
    SGLBRegressor,
    VirtualEnsembleUncertainty,
)

SIGMA = 0.3


def truth(X):
    return np.sin(X[:, 0]) + 0.5 * X[:, 1]


def draw(n_rows, seed, gap=True):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 10, n_rows), rng.uniform(-1, 1, n_rows)])
    if gap:
        inside = (X[:, 0] > 4) & (X[:, 0] < 6)
        X[inside, 0] = rng.choice([0, 6], inside.sum()) + rng.uniform(0, 4, inside.sum())
    return X, truth(X) + SIGMA * rng.normal(size=n_rows)


X, y = draw(400, seed=0)

# %%
# Seven models
# ------------
#
# Small trees, as there are few rows. ``diffusion_temperature=1`` makes the Langevin chains sample the exact posterior.

trees = {"max_depth": 3, "min_samples_leaf": 10, "learning_rate": 0.05, "n_estimators": 400, "random_state": 0}
chain = SGLBRegressor(diffusion_temperature=1, averaging="mean", **trees)
gaussian = SGLBRegressor(loss="gaussian", diffusion_temperature=1, averaging="mean", **trees)
models = {
    "virtual ensemble": gaussian,
    "real ensemble": VirtualEnsembleUncertainty(gaussian, method="ensemble", n_members=10, random_state=0),
    "outer bags": EBMRegressor(interactions=0, outer_bags=14, random_state=0),
    "Boulevard curves": EBMRegressor(boulevard=True, interactions=0, random_state=0),
    "Boulevard trees": BoulevardRegressor(n_estimators=300, random_state=0),
    "Laplace over leaves": LeafLaplaceUncertainty(chain),
    "conformal": VirtualEnsembleUncertainty(chain, calibration_fraction=0.25, random_state=0),
}
for model in models.values():
    if isinstance(model, LeafLaplaceUncertainty):
        model.estimator.fit(X, y)
    model.fit(X, y)

# %%
# Two intervals are asked of each: one for the curve, and one for a new target. Not every model has both.


def curve_interval(model, X):
    """Of the truth, 95 %."""
    if hasattr(model, "predict_interval") and not isinstance(model, VirtualEnsembleUncertainty):
        with suppress(ValueError):
            return model.predict_interval(X, alpha=0.05, kind="confidence").T
    result = model.predict_uncertainty(X)
    half = 1.96 * np.sqrt(result.knowledge)
    return result.mean - half, result.mean + half


def target_interval(model, X):
    """Of a new target, 95 %; None where the model has none."""
    if isinstance(model, VirtualEnsembleUncertainty) and model.calibration_fraction:
        return model.predict_interval(X, alpha=0.05).T
    if hasattr(model, "predict_interval") and not isinstance(model, VirtualEnsembleUncertainty):
        with suppress(ValueError):
            return model.predict_interval(X, alpha=0.05, kind="prediction").T
    result = model.predict_uncertainty(X)
    if result.total is None:
        return None
    half = 1.96 * np.sqrt(result.total)
    return result.mean - half, result.mean + half


# %%
# The figure
# ----------
#
# Dark: 95 % for the curve. Light: 95 % for a new target. Dashed: the truth. Nothing was measured between 4 and 6.

grid = np.column_stack([np.linspace(-1.5, 11.5, 500), np.zeros(500)])
figure, axes = plt.subplots(2, 4, figsize=(15, 7), sharex=True, sharey=True, layout="constrained")
for (name, model), ax in zip(models.items(), axes.ravel(), strict=False):
    if (wide := target_interval(model, grid)) is not None:
        ax.fill_between(grid[:, 0], *wide, color="C0", alpha=0.2, linewidth=0)
    if name != "conformal":
        ax.fill_between(grid[:, 0], *curve_interval(model, grid), color="C0", alpha=0.6, linewidth=0)
    ax.plot(grid[:, 0], model.predict(grid), color="C1", linewidth=1)
    ax.plot(grid[:, 0], truth(grid), "k--", linewidth=0.8)
    ax.plot(X[:, 0], y - 0.5 * X[:, 1], ".", color="0.4", markersize=2)
    ax.set(title=name, ylim=(-2.5, 2.5))
axes[1, 3].set_axis_off()
plt.show()

# %%
# The numbers
# -----------
#
# Share of the truth and of new targets that the intervals hold where there are data, and how much wider the interval of
# the curve is inside the gap and beyond the data than where there are data.

X_new, y_new = draw(4000, seed=1)
places = {"in the gap": np.array([[5.0, 0.0]]), "beyond": np.array([[11.5, 0.0]])}
table = {}
for name, model in models.items():
    row = {"RMSE to the truth": np.sqrt(np.mean((model.predict(X_new) - truth(X_new)) ** 2))}
    low, high = curve_interval(model, X_new)
    if name != "conformal":
        row["truth held"] = np.mean((low < truth(X_new)) & (truth(X_new) < high))
        for place, at in places.items():
            bottom, top = curve_interval(model, at)
            row[f"wider {place}"] = (top - bottom)[0] / np.median(high - low)
    if (wide := target_interval(model, X_new)) is not None:
        row["targets held"] = np.mean((wide[0] < y_new) & (y_new < wide[1]))
        row["width"] = np.mean(wide[1] - wide[0])
    table[name] = row
columns = ["RMSE to the truth", "truth held", "wider in the gap", "wider beyond", "targets held", "width"]
print(pd.DataFrame(table).T[columns].round(2).to_string(na_rep="-"))
