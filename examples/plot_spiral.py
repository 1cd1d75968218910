"""
Where the classes end: knowledge on the spiral
==============================================

Three intertwined spirals. Away from the arms there are no data, and a model that knows what it does not know should say
so. Four ways to get members of an ensemble are compared: states of one chain, ends of its cycles without and with masks
of rows, and ten independent models.
"""

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm
from sklearn.metrics import log_loss, roc_auc_score

from skboost import SGLBClassifier, VirtualEnsembleUncertainty
from skboost.datasets import make_spiral

X, y = make_spiral(500, random_state=0)
X_test, y_test = make_spiral(500, random_state=1)

# %%
# All models have depth 6 and inverse temperature 10. A cycle is 40 iterations.

common = {"max_depth": 6, "diffusion_temperature": 10.0, "random_state": 0}
cycles = {"schedule": "cyclical", "cycle_length": 40, "learning_rate": 0.05}
models = {
    "one chain": SGLBClassifier(n_estimators=400, **common),
    "one chain, no support": SGLBClassifier(n_estimators=400, prior_split_rate=0, **common),
    "cycles": SGLBClassifier(n_estimators=400, **cycles, **common),
    "cycles and masks": SGLBClassifier(n_estimators=400, bootstrap_fraction=0.66, **cycles, **common),
    "ten models": VirtualEnsembleUncertainty(
        SGLBClassifier(n_estimators=200, **common), method="ensemble", n_members=10, random_state=0
    ),
}

# %%
# Rows are strange when they lie farther than 30 from every training row.

side = np.linspace(-600, 600, 80)
plane = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
distance = np.sqrt(((plane[:, None, :] - X[None, ::3]) ** 2).sum(axis=2)).min(axis=1)
strange = plane[distance > 30]

figure, axes = plt.subplots(2, 3, figsize=(11, 7.2), sharex=True, sharey=True, layout="constrained")
print("                         log loss   knowledge in    outside   ROC-AUC")
for ax, (name, model) in zip(axes.flat, models.items(), strict=False):
    model.fit(X, y)
    inside, outside = model.predict_uncertainty(X_test), model.predict_uncertainty(strange)
    is_strange = np.repeat([0, 1], [len(X_test), len(strange)])
    auc = roc_auc_score(is_strange, np.concatenate([inside.knowledge, outside.knowledge]))
    loss = log_loss(y_test, inside.mean)
    print(f"{name:24s} {loss:8.3f} {inside.knowledge.mean():14.4f} {outside.knowledge.mean():10.4f} {auc:9.2f}")
    knowledge = model.predict_uncertainty(plane).knowledge.reshape(80, 80)
    drawn = ax.pcolormesh(side, side, knowledge, norm=LogNorm(1e-3, 0.2), cmap="viridis", rasterized=True)
    ax.scatter(*X[::5].T, c=y[::5], s=3, cmap="Set1")
    ax.set(title=f"{name}\nAUC {auc:.2f}, log loss {loss:.3f}", aspect="equal")
figure.colorbar(drawn, ax=axes[:, :2], label="knowledge (nats)", location="left", shrink=0.6)

ax = axes.flat[-1]
found, seen = (models["one chain"].predict_uncertainty(rows).support for rows in (plane, X_test))
drawn = ax.pcolormesh(side, side, found.reshape(80, 80), cmap="viridis_r", vmin=0.97, vmax=1, rasterized=True)
ax.scatter(*X[::5].T, c=y[::5], s=3, cmap="Set1")
unsupported = 1 - np.concatenate([seen, found[distance > 30]])
auc = roc_auc_score(is_strange, unsupported)
ax.set(title=f"one chain: support\nAUC {auc:.2f}", aspect="equal")
figure.colorbar(drawn, ax=axes[:, 2], label="support", shrink=0.6)
plt.show()

# %%
# Members alone do not tell the plane from the arms: leaves reach from the edge of the data to infinity, and knowledge
# is high between the arms, where the classes meet. Leaves that no row has seen keep the variance of their prior, which
# lights up much of what lies around the spiral; how many there are is ``support``, the better question to ask when the
# matter is where a row comes from. Ten models cost ten fits; their disagreement grows where their edges differ.
