"""
Missing values and unseen categories
====================================

Frames go into :class:`~skboost.SGLBClassifier` as they are: columns of a categorical type are split by sets of
categories, missing values have a bin of their own, and a category that training has not seen goes where missing values
go. The uncertainty of a prediction tells which of these rows the model knows too little about.
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
# C and D when cold. One thermometer in five is broken.


def machines(n, makes, seed):
    """Return a frame of ``n`` machines and whether they failed."""
    rng = np.random.default_rng(seed)
    make = rng.choice(makes, size=n)
    temperature = rng.normal(60, 15, size=n)
    age = rng.gamma(2.0, 3.0, size=n)
    direction = np.where(np.isin(make, ["A", "B"]), 1.0, -1.0)
    logit = direction * (temperature - 60) / 6 + (age - 6) / 4
    failed = rng.random(n) < 1 / (1 + np.exp(-logit))
    temperature[rng.random(n) < 0.2] = np.nan
    X = pd.DataFrame({"make": pd.Categorical(make), "temperature": temperature, "age": age})
    return X, np.where(failed, "failed", "ran")


X_train, y_train = machines(3000, ["A", "B", "C", "D"], seed=0)
X_test, y_test = machines(1000, ["A", "B", "C", "D"], seed=1)
X_new, y_new = machines(1000, ["E"], seed=2)
X_train.head()

# %%
# Nothing is encoded or imputed.

model = SGLBClassifier(n_estimators=300, random_state=0).fit(X_train, y_train)
print(f"log loss, known makes: {log_loss(y_test, model.predict_proba(X_test)):.3f}")
print(f"log loss, make E:      {log_loss(y_new, model.predict_proba(X_new)):.3f}")

# %%
# What the uncertainty says
# -------------------------
#
# Data uncertainty is high where the thermometer is broken: without the temperature the outcome is open, and more
# machines of this kind would not change that. Make E was never seen. No training row has a missing make either, so
# nothing told the trees where such rows belong: this is a question of knowledge, and where the model can say it, of
# support.

known, new = model.predict_uncertainty(X_test), model.predict_uncertainty(X_new)
broken = X_test["temperature"].isna().to_numpy()
groups = {
    "complete": (known, ~broken),
    "no temperature": (known, broken),
    "unseen make": (new, np.ones(len(X_new), dtype=bool)),
}
table = pd.DataFrame(
    {
        name: {
            "knowledge (nats)": u.knowledge[rows].mean(),
            "data (nats)": u.data[rows].mean(),
            "total (nats)": u.total[rows].mean(),
            "support": np.nan if u.support is None else u.support[rows].mean(),
        }
        for name, (u, rows) in groups.items()
    }
).T
print(table.round(4).to_string())

# %%

figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, column in zip(axes, ["knowledge (nats)", "data (nats)"], strict=True):
    ax.bar(table.index, table[column], color=["C0", "C1", "C3"])
    ax.set(title=column.removesuffix(" (nats)"), ylabel="mean over rows, nats")
plt.show()
