"""
Categories and missing values in an additive model
==================================================

:class:`~skboost.EBMClassifier` takes frames as they are. Every category has a value of its own, and so have missing
values: the pictures show both. Data made for the purpose, whose truth is known: passengers of a shipwreck.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.metrics import log_loss

from skboost import EBMClassifier
from skboost.inspection import InteractionDisplay, LocalExplanationDisplay, ShapeDisplay, plot_summary

# %%
# Passengers
# ----------
#
# Women, children and passengers of the upper decks survive more often. In the third class and the crew, being a woman
# helps less: cabin and sex interact. The age of one passenger in five is not known, and not at random: it was asked of
# survivors more often. So whether it is missing says something. The fare has a long tail.


def passengers(n, seed):
    """Return a frame of ``n`` passengers and whether they survived."""
    rng = np.random.default_rng(seed)
    cabin = rng.choice(["1st", "2nd", "3rd", "crew"], size=n, p=[0.16, 0.14, 0.35, 0.35])
    sex = np.where(rng.random(n) < np.where(cabin == "crew", 0.04, 0.38), "female", "male")
    age = np.clip(rng.normal(31, 13, size=n), 0.5, 78).round(1)
    fare = pd.Series(cabin).map({"1st": 60.0, "2nd": 15.0, "3rd": 8.0, "crew": 1.0}) * np.exp(rng.normal(0, 0.6, n))
    port = rng.choice(["Belfast", "Cherbourg", "Queenstown", "Southampton"], size=n, p=[0.01, 0.2, 0.09, 0.7])
    deck = {"1st": 0.9, "2nd": 0.0, "3rd": -0.6, "crew": -0.3}
    logit = -1.2 + pd.Series(cabin).map(deck) + 1.5 * (age < 12)
    logit += np.where(sex == "female", np.where(np.isin(cabin, ["3rd", "crew"]), 1.2, 2.8), 0.0)
    survived = rng.random(n) < 1 / (1 + np.exp(-logit))
    age[rng.random(n) < np.where(survived, 0.1, 0.25)] = np.nan
    frame = pd.DataFrame({"cabin": cabin, "sex": sex, "age": age, "fare": fare.round(2), "port": port})
    return frame.astype({"cabin": "category", "sex": "category"}), np.where(survived, "survived", "died")


X, y = passengers(2200, seed=0)
X_test, y_test = passengers(20000, seed=1)
print(X.head().to_string())

# %%
# Columns of strings are categories without being told; nothing is encoded or imputed.

model = EBMClassifier(interactions=1, random_state=0).fit(X, y)
print(dict(zip(X.columns, model.feature_types_in_, strict=True)))
print(f"log loss on new passengers {log_loss(y_test, model.predict_proba(X_test)):.4f}")

# %%
# The whole model, in log-odds of survival: 1 multiplies the odds by 2.7.

plot_summary(model, coverage=0.98, title="Who survived")
plt.show()

# %%
# Missing values
# --------------
#
# The point on the right is what a missing age adds to the score. It lies below the curve: the model has found that ages
# were asked of survivors. For the prediction this is sound. Whoever reads it as "an unknown age is dangerous" is wrong.

ShapeDisplay.from_estimator(model, "age")
plt.show()

# %%
# Categories
# ----------
#
# The whiskers are wide where there are few passengers. A port that no passenger came from scores zero, as on average.

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for ax, feature in zip(axes, ["cabin", "port"], strict=True):
    ShapeDisplay.from_estimator(model, feature, common_range=True, ax=ax)
plt.show()

# %%
# Cabin and sex
# -------------
#
# One pair was asked for, and the right one was found. Purified, it says by how much women of the third class did worse,
# and those of the first better, than the two main effects together would have it.

print(model.term_names_[-1])
InteractionDisplay.from_estimator(model, ("cabin", "sex"))
plt.show()

# %%
# One passenger, whose age is unknown and whose port the model has never met.

stranger = pd.DataFrame({"cabin": ["3rd"], "sex": ["female"], "age": [np.nan], "fare": [7.9], "port": ["New York"]})
LocalExplanationDisplay.from_estimator(model, stranger)
plt.show()
