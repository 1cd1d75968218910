"""
A classifier that says where it has seen data
=============================================

:class:`~skboost.LaplaceGPClassifier` puts a Gaussian process behind the probability of a class. Where there are data
its latent function is pinned down; in a gap and beyond the ends it opens to the prior. Which uncertain prediction is
noise, and which is ignorance?
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss

from skboost import LaplaceGPClassifier
from skboost.inspection import LatentDisplay

# %%
# Labels with overlap, and a gap
# ------------------------------
#
# One feature. The labels follow a wave; between 0 and 0.8 nothing was measured.


def true_probability(x):
    """Probability of class 1."""
    return 1 / (1 + np.exp(-2.5 * np.sin(4 * x)))


rng = np.random.default_rng(0)
x = rng.uniform(-1.5, 1.5, size=220)
x = x[(x < 0) | (x > 0.8)]
y = (rng.random(len(x)) < true_probability(x)).astype(int)

# %%
# The hyper-parameters maximise the evidence within bounds. Bounds are part of the model: here the latent function has a
# variance of at most 20, and bends over distances between 0.1 and 2.

kernel = ConstantKernel(1.0, (0.1, 20.0)) * RBF(0.5, (0.1, 2.0))
model = LaplaceGPClassifier(kernel).fit(x[:, None], y)
print(f"kernel: {model.kernel_}, log evidence: {model.log_marginal_likelihood_value_:.2f}")

LatentDisplay.from_estimator(model)
plt.show()

# %%
# Above is the latent function, below the probability that it gives. The line below is the average over the posterior,
# what ``predict_proba`` returns; the bands are the range of the probability itself.
#
# Two kinds of doubt
# ------------------

places = {"classes overlap": -0.78, "gap": 0.4, "far away": 4.0, "clear case": -0.4}
u = model.predict_uncertainty(np.array([*places.values()])[:, None])
deviation = model.latent_mean_and_variance(np.array([*places.values()])[:, None])[1] ** 0.5
table = u.to_frame().drop(columns=["mean_0"]).rename(columns={"mean_1": "probability"})
table.insert(0, "latent deviation", deviation)
table.index = [f"{name} (x = {value:g})" for name, value in places.items()]
with pd.option_context("display.width", 120):
    print(table.round(3).to_string())

# %%
# Where the classes overlap, the entropy is in ``data``: more rows would not help. In the gap and far away much of
# it is in ``knowledge``, and rows measured there would be worth most. In the gap the model is even wrong: the wave goes
# up there, to a probability of 0.92, and nothing in the data says so.

grid = np.linspace(-2.5, 2.5, 400)
u = model.predict_uncertainty(grid[:, None])
figure, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
ax.stackplot(grid, u.data, u.knowledge, labels=["data", "knowledge"], colors=["C1", "C0"], alpha=0.7)
ax.plot(x, np.full(len(x), -0.03), "|", color="k", alpha=0.5)
ax.set(xlabel="x", ylabel="entropy, nats")
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
plt.show()

# %%
# Laplace's method and expectation propagation
# --------------------------------------------
#
# Laplace's method looks at the mode of a skewed posterior and is not sure enough, the more the larger the variance of
# the kernel. Expectation propagation matches means and variances instead. On labels without noise and with a wide prior
# the difference is large. (The kernels are given, so that both methods get the same.)

x_few, x_test = rng.uniform(-1.5, 1.5, size=60), rng.uniform(-1.5, 1.5, size=1000)
y_few, y_test = np.sin(4 * x_few) > 0, np.sin(4 * x_test) > 0
rows = []
for variance in (1.0, 10.0, 100.0):
    for approximation in ("laplace", "ep"):
        fixed = LaplaceGPClassifier(variance * RBF(0.3), approximation=approximation, optimizer=None)
        fixed.fit(x_few[:, None], y_few)
        loss = log_loss(y_test, fixed.predict_proba(x_test[:, None]))
        rows.append([variance, approximation, fixed.log_marginal_likelihood_value_, loss])
print(pd.DataFrame(rows, columns=["variance", "approximation", "log evidence", "test log loss"]).round(3).to_string())
