"""
Bands that hold the truth
=========================

With ``boulevard=True`` an :class:`~skboost.EBMRegressor` knows the law of its curves. Here the truth is known too, so
that the bands can be checked. Three features have an effect, the fourth has none, and all of them are correlated.
"""

import numpy as np
from matplotlib import pyplot as plt
from scipy.stats import norm

from skboost import EBMRegressor
from skboost.inspection import ShapeDisplay

effects = [
    lambda x: np.sin(2 * np.pi * x),
    lambda x: 2 * (x - 0.5) ** 2,
    lambda x: 1.0 * (x > 0.5),
    lambda x: 0 * x,
]


def draw(n_rows, seed):
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.full((4, 4), 0.5) + 0.5 * np.eye(4))
    X = norm.cdf(rng.normal(size=(n_rows, 4)) @ root.T)
    f = sum(effect(x) for effect, x in zip(effects, X.T, strict=True))
    return X, f, f + 0.5 * rng.normal(size=n_rows)


X, f, y = draw(1000, seed=0)
model = EBMRegressor(boulevard=True, interactions=0, random_state=0).fit(X, y)
print(f"noise variance {model.noise_variance_:.3f}, the truth is 0.25")

# %%
# Curves with their 95 % intervals
# --------------------------------
#
# The dashed line is the truth, centred on the training rows as the curves are. About one cell in twenty misses it.

figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
grid = np.linspace(0.01, 0.99, 400)
for term, (effect, ax) in enumerate(zip(effects, axes.ravel(), strict=True)):
    display = ShapeDisplay.from_estimator(model, term, ax=ax, show_density=False)
    display.ax_.plot(grid, effect(grid) - effect(X[:, term]).mean(), "k--", linewidth=1)
plt.show()

# %%
# How often are the intervals right?
# ----------------------------------
#
# Thirty tables, each fitted anew.

points = np.linspace(0.05, 0.95, 19)
found, rejected = np.zeros(4), np.zeros(4)
for seed in range(1, 31):
    Xs, _, ys = draw(1000, seed)
    fit = EBMRegressor(boulevard=True, interactions=0, boulevard_rounds=100, random_state=seed).fit(Xs, ys)
    rejected += fit.term_tests().pvalue < 0.05
    for term, shape in enumerate(fit.shape_functions()):
        low, high = shape.interval[:, shape.cell(points)]
        truth = effects[term](points) - effects[term](Xs[:, term]).mean()
        found[term] += np.mean((low < truth) & (truth < high)) / 30
for name, share, count in zip(model.term_names_, found, rejected, strict=True):
    print(f"{name}: intervals hold the truth {share:.1%} of the time; found to have an effect in {count:.0f} of 30")

# %%
# Intervals for predictions
# -------------------------
#
# Of the expected label, and of a new label.

Xn, fn, yn = draw(2000, seed=100)
for kind, values in (("confidence", fn), ("prediction", yn)):
    low, high = model.predict_interval(Xn, kind=kind).T
    print(f"{kind}: mean width {np.mean(high - low):.2f}, hits {np.mean((low < values) & (values < high)):.1%}")
