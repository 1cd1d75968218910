"""
Missing values, rare and unseen categories
==========================================

Frames go into :class:`~skboost.SGLBClassifier` as they are: columns of a categorical type are split by sets of
categories, missing values have a bin of their own, and a category that training has not seen goes where missing values
go. Which of these rows does the uncertainty point out, and which not?
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.metrics import log_loss

from skboost import SGLBClassifier

# %%
# Machines and their failures
# ---------------------------
#
# Failures depend on the temperature and on the make of the machine, and the two interact: makes A and B fail when hot,
# all others when cold. One thermometer in five is broken. One machine in a hundred is of make D; make E comes later.


def machines(makes, shares, n, seed):
    """Return a frame of ``n`` machines and whether they failed."""
    rng = np.random.default_rng(seed)
    make = rng.choice(makes, size=n, p=shares)
    temperature = rng.normal(60, 15, size=n)
    age = rng.gamma(2.0, 3.0, size=n)
    direction = np.where(np.isin(make, ["A", "B"]), 1.0, -1.0)
    logit = direction * (temperature - 60) / 6 + (age - 6) / 4
    failed = rng.random(n) < 1 / (1 + np.exp(-logit))
    temperature[rng.random(n) < 0.2] = np.nan
    X = pd.DataFrame({"make": pd.Categorical(make), "temperature": temperature, "age": age})
    return X, np.where(failed, "failed", "ran")


X_train, y_train = machines(["A", "B", "C", "D"], [0.33, 0.33, 0.33, 0.01], n=3000, seed=0)
print(X_train.head().to_string())
print(X_train["make"].value_counts().to_string())

# %%
# Nothing is encoded or imputed.

model = SGLBClassifier(random_state=0).fit(X_train, y_train)

# %%
# What the uncertainty says
# -------------------------

tests = {
    "A, B, C": machines(["A", "B", "C"], None, n=2000, seed=1),
    "D (rare)": machines(["D"], None, n=2000, seed=2),
    "E (unseen)": machines(["E"], None, n=2000, seed=3),
}
rows = {}
for name, (X, y) in tests.items():
    u = model.predict_uncertainty(X)
    broken = X["temperature"].isna().to_numpy()
    for part, chosen in (("", ~broken), (", no temperature", broken)):
        rows[name + part] = {
            "log loss": log_loss(y[chosen], model.predict_proba(X[chosen])),
            "knowledge": u.knowledge[chosen].mean(),
            "data": u.data[chosen].mean(),
            "total": u.total[chosen].mean(),
            "support": u.support[chosen].mean(),
        }
table = pd.DataFrame(rows).T
print(table.round(4).to_string())

# %%
# *A broken thermometer* raises the data part: without the temperature the outcome is open, and more machines of this
# kind would not change that.
#
# *A rare make* raises the knowledge part. A few dozen rows leave open how make D behaves, and the members disagree.
# This is what more rows would settle.
#
# *An unseen make* raises it far more. No training row has a missing make, so that rows of make E fall into leaves that
# no data have seen wherever a drawn split sets missing makes apart. Such leaves keep the variance of their prior, which
# counts as knowledge, and ``support`` is below 1. The log loss shows that the model is right to doubt itself: where the
# searched splits send make E is an accident.
#
# ``support`` is 1 on every training row; a few parts in a thousand below are a strong sign already.

for name, (X, _) in tests.items():
    support = model.predict_uncertainty(X).support
    print(f"{name:12s} rows with full support: {(support == 1).mean():.0%}, lowest support {support.min():.3f}")

# %%

whole = table[~table.index.str.contains("no temperature")]
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for ax, column in zip(axes, ["knowledge", "data", "log loss"], strict=True):
    ax.bar(whole.index, whole[column], color=["C0", "C1", "C3"])
    ax.set(title=column, ylabel="mean over rows, nats")
plt.show()
