"""
A model as a text of LightGBM, and back
=======================================

Prediction servers, converters and TreeSHAP read the text models of LightGBM. :func:`skboost.lightgbm.dump` writes them,
:func:`skboost.lightgbm.load` reads them; neither needs LightGBM. What goes through such a file, and what is left of the
uncertainty on the other side?
"""

import numpy as np
from matplotlib import pyplot as plt

from skboost import EBMRegressor, LeafLaplaceUncertainty, SGLBRegressor
from skboost.inspection import UncertaintyDisplay
from skboost.lightgbm import dumps, loads

# %%
# A model
# -------
#
# Two numbers, one of them often missing, and a category. There are no rows with a first number between 4 and 6.


def table(n, seed):
    """Return ``n`` rows and their targets."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(0, 10, n), rng.normal(size=n), rng.integers(0, 4, n)])
    X[:, 0] = np.where((X[:, 0] > 4) & (X[:, 0] < 6), X[:, 0] / 2, X[:, 0])
    X[rng.random(n) < 0.2, 1] = np.nan
    y = np.sin(X[:, 0]) + 0.5 * np.nan_to_num(X[:, 1], nan=1.0) + 0.7 * (X[:, 2] == 2) + rng.normal(scale=0.2, size=n)
    return X, y


X, y = table(600, seed=0)
y -= y.mean()
model = SGLBRegressor(n_estimators=200, max_depth=4, categorical_features=[2], random_state=0).fit(X, y)
text = dumps(model)

# %%
# The text begins with what LightGBM has to know, then has one block for each tree: tests, children, leaves, and the
# number of training rows in each, which TreeSHAP needs.

lines = text.split("\n")
first = lines.index("Tree=0")
for line in [*lines[:first], *lines[first : first + 14]]:
    print(line if len(line) <= 100 else f"{line[:97]}...")

# %%
# And back
# --------
#
# The text also keeps what LightGBM has no words for, in one line among its parameters. So what comes back predicts the
# same bits, and has the same members and the same uncertainty.

loaded = loads(text)
print(loaded)
X_new, _ = table(1000, seed=1)
print("predictions", np.array_equal(loaded.predict(X_new), model.predict(X_new)))
print("members    ", np.array_equal(loaded.predict_virtual_ensembles(X_new), model.predict_virtual_ensembles(X_new)))
found, known = loaded.predict_uncertainty(X_new), model.predict_uncertainty(X_new)
print("knowledge  ", np.array_equal(found.knowledge, known.knowledge))
print("support    ", np.array_equal(found.support, known.support))

# %%
# LightGBM adds the leaves of the file, where the chain multiplies its state by a factor before each step; the two agree
# up to rounding. With ``averaging="mean"`` or without shrinkage they agree to the bit.

print(f"largest difference of raw scores {np.abs(loaded.raw_scores(X_new) - model.predict(X_new)).max():.1e}")

try:
    import lightgbm
except ImportError:
    pass  # nothing here needs it
else:
    assert np.array_equal(lightgbm.Booster(model_str=text).predict(X_new, raw_score=True), loaded.raw_scores(X_new))

# %%
# A model of which only the text is there
# ---------------------------------------
#
# Texts that LightGBM wrote have no such line. Their members are then the models of fewer trees, which tell how far
# boosting has converged and nothing else. :class:`~skboost.LeafLaplaceUncertainty` finds a posterior over the leaves of
# any such model, given training rows. Here the line is taken out of the text of a model without noise, as LightGBM's
# are; ``support=True`` restores the prior where there are no data.

plain = SGLBRegressor(n_estimators=200, max_depth=4, posterior_sampling=False, random_state=0).fit(X, y)
foreign = loads("\n".join(line for line in dumps(plain).split("\n") if not line.startswith("[skboost: ")))
print(f"{foreign}, support {foreign.predict_uncertainty(X_new).support}")
laplace = LeafLaplaceUncertainty(foreign, support=True, max_leaves=None).fit(X, y)

figure, axes = plt.subplots(1, 2, figsize=(11, 4))
for ax, shown, title in ((axes[0], foreign, "members of fewer trees"), (axes[1], laplace, "posterior over the leaves")):
    display = UncertaintyDisplay.from_estimator(shown, X, kind="band", features=0, y=y, ax=ax)
    display.ax_.set_title(title, loc="left")
plt.show()

# %%
# Terms are trees
# ---------------
#
# An additive model becomes the intercept and one tree for each term. The leaf of a row in the tree of a term is the
# contribution of the term: the leaves that ``apply`` or LightGBM's ``pred_leaf`` return explain the prediction, without
# TreeSHAP, and exactly.

machine = EBMRegressor(interactions=0, outer_bags=4, max_rounds=500, categorical_features=[2], random_state=0).fit(X, y)
terms = loads(dumps(machine))
print(f"{len(machine.term_names_)} terms, {terms.apply(X_new[:1]).shape[1]} trees")
print("sum of terms", np.array_equal(terms.raw_scores(X_new), machine.predict(X_new)))
