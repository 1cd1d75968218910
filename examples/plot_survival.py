"""
Times until an event
====================

Survival curves from censored times by two losses, beside the truth, and what the models do not know. The formulas are
in :doc:`/user_guide/survival`.
"""

import numpy as np
from matplotlib import pyplot as plt

from skboost import SGLBRegressor

# %%
# Patients who leave the study
# ----------------------------
#
# Times until relapse follow a Weibull law whose hazard depends on age and dose: both kinds of models are right here.
# Everybody leaves the study at some time, so that only for two thirds of the patients the relapse is seen.

rng = np.random.default_rng(0)
n = 2000
X = np.column_stack([rng.uniform(30, 80, n), rng.uniform(0, 10, n)])


def log_hazard(X):
    return 0.04 * (X[:, 0] - 55) - 1.5 * np.tanh(X[:, 1] - 4)


SHAPE = 1.5
relapse = 20 * np.exp(-log_hazard(X) / SHAPE) * rng.weibull(SHAPE, n)
end = rng.uniform(5, 90, n)
y = np.array(
    list(zip(relapse <= end, np.minimum(relapse, end), strict=True)), dtype=[("relapse", bool), ("months", float)]
)
print(f"relapses seen: {y['relapse'].mean():.0%}")

# %%
# Two models
# ----------
#
# Cox's model leaves the course of the hazard open. The other one assumes extreme value noise, which is true for Weibull
# times, with the scale ``1 / SHAPE``. The score of both is the concordance index: of two patients, how often is it the
# one of the higher risk who relapses first?

train, test = slice(0, 1500), slice(1500, None)
settings = {"n_estimators": 300, "learning_rate": 0.03, "max_depth": 3, "min_samples_leaf": 20, "random_state": 0}
cox = SGLBRegressor(loss="cox", **settings).fit(X[train], y[train])
aft = SGLBRegressor(loss="aft", distribution="extreme", scale=1 / SHAPE, **settings).fit(X[train], y[train])
for name, model in (("Cox", cox), ("failure times", aft)):
    print(f"{name:14s} concordance {model.score(X[test], y[test]):.3f}")

# %%
# Survival curves
# ---------------
#
# Three patients of the same age and of different doses. Cox's curves are steps, one at each relapse of the training
# rows, and end where the data end. Dotted: the truth.

patients = np.array([[55.0, 1.0], [55.0, 4.0], [55.0, 8.0]])
months = np.linspace(0, 90, 400)
truth = np.exp(-np.exp(log_hazard(patients))[:, None] * (months / 20) ** SHAPE)

figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
for ax, model, title in zip(axes, (cox, aft), ("Cox", "accelerated failure times"), strict=True):
    for k, curve in enumerate(model.predict_survival(patients, months)):
        ax.step(months, curve, color=f"C{k}", label=f"dose {patients[k, 1]:g}")
        ax.plot(months, truth[k], color=f"C{k}", linestyle=":")
    ax.set(title=title, xlabel="months")
axes[0].set(ylabel="share without relapse", ylim=(0, 1))
axes[0].legend()
plt.show()

# %%
# What is not known
# -----------------
#
# ``knowledge`` is the variance of the members' times. It is drawn as one standard deviation to both sides,
# along the dose at the age of 55.

dose = np.column_stack([np.full(200, 55.0), np.linspace(0, 10, 200)])
uncertainty = aft.predict_uncertainty(dose)
deviation = np.sqrt(uncertainty.knowledge)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(dose[:, 1], uncertainty.mean, label="predicted time")
ax.fill_between(dose[:, 1], uncertainty.mean - deviation, uncertainty.mean + deviation, alpha=0.3, label="knowledge")
ax.plot(dose[:, 1], 20 * np.exp(-log_hazard(dose) / SHAPE), "k:", label="truth")
ax.set(xlabel="dose", ylabel="months")
ax.legend()
plt.show()
