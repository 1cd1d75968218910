"""
Counts of claims
================

How many claims will a policy have? A Poisson law has one parameter, and its variance is its mean. Portfolios vary more,
as drivers differ in ways that no column shows: such counts are negative binomial. Both losses predict the distribution
of every policy.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from skboost import SGLBRegressor

# %%
# A portfolio
# -----------
#
# The mean depends on age and region. How unlike the drivers are depends on the kind of use: fleets share vehicles among
# drivers of all sorts.

rng = np.random.default_rng(0)
n = 6000
policies = pd.DataFrame(
    {
        "age": rng.uniform(18, 80, n).round(),
        "region": pd.Categorical(rng.choice(["coast", "city", "hills"], n)),
        "use": pd.Categorical(rng.choice(["private", "fleet"], n, p=[0.7, 0.3])),
    }
)
mean = np.exp(0.8 - 0.03 * (policies["age"] - 18) + 0.6 * (policies["region"] == "city"))
size = np.where(policies["use"] == "fleet", 0.5, 5.0)
claims = rng.poisson(rng.gamma(size, mean / size)).astype(float)

train, test = np.arange(n) < 4000, np.arange(n) >= 4000

# %%
# Two losses
# ----------
#
# Minus the mean log probability of the claims of new policies is the score that likelihoods are compared by; the
# continuous ranked probability score is in claims.

settings = {"n_estimators": 300, "learning_rate": 0.03, "max_depth": 3, "min_samples_leaf": 20, "random_state": 0}
models = {
    loss: SGLBRegressor(loss=loss, **settings).fit(policies[train], claims[train])
    for loss in ("poisson", "negative_binomial")
}
predicted = {loss: model.predict_distribution(policies[test]) for loss, model in models.items()}
scores = {
    loss: {
        "negative log-likelihood": -d.logpmf(claims[test]).mean(),
        "CRPS": d.crps(claims[test]).mean(),
        "share above the 99 % quantile": np.mean(claims[test] > d.quantile(0.99)),
    }
    for loss, d in predicted.items()
}
pd.DataFrame(scores).round(3)

# %%
# The means agree; what differs is the chance of many claims. Nearly three policies in a hundred exceed what the Poisson
# model promised of one in a hundred.
#
# Two policies
# ------------
#
# Two drivers of the same age and region have about the same expected number of claims. The negative binomial model has
# learned that a fleet has more policies without any claim and more with many.

two = pd.DataFrame({"age": [25.0, 25.0], "region": ["city", "city"], "use": ["private", "fleet"]})
two = two.astype({name: policies[name].dtype for name in ("region", "use")})
counts = np.arange(15)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
for i, ax in enumerate(axes):
    for shift, (loss, model) in zip((-0.2, 0.2), models.items(), strict=True):
        d = model.predict_distribution(two)[i]
        probability = np.exp(d.logpmf(counts[:, None]))[:, 0]
        ax.bar(counts + shift, probability, width=0.4, label=f"{loss}, mean {d.mean[0]:.1f}")
    ax.set(title=two["use"][i], xlabel="claims")
    ax.legend()
axes[0].set_ylabel("probability")
plt.show()

# %%
# Data and knowledge
# ------------------
#
# ``predict_uncertainty`` splits the variance of a new count: its mean under the law of each member is ``data``, the
# variance of the members' means is ``knowledge``. With members the predicted distribution is their mixture.

u = models["negative_binomial"].predict_uncertainty(two)
mixture = models["negative_binomial"].predict_distribution(two, n_members=10)
pd.DataFrame({"mean": u.mean, "data": u.data, "knowledge": u.knowledge, "total": u.total, "mixture": mixture.variance})
