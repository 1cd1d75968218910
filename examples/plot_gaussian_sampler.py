"""
Cycles: leaving a mode and coming back
======================================

A Langevin chain follows the gradient of a log density and adds noise. With small steps it samples the mode it found
first and never sees the others. Large steps leave modes but sample none of them well. A cyclical schedule does both in
turn: every cycle starts with gradients scaled up, and ends with the plain chain, whose last state is kept.

The target has 25 modes. What counts is how many of them the kept states visit.
"""

import numpy as np
from matplotlib import pyplot as plt

from skboost.datasets import GaussianGrid

grid = GaussianGrid()
n_steps, n_cycles, step = 50_000, 30, 0.01
cycle_length = n_steps // n_cycles

# %%
# One step moves by the scaled gradient and by noise that is not scaled: a larger scale is a longer and a colder step,
# exactly as in ``SGLBRegressor(schedule="cyclical")``, where the gradients are those of the loss.


def run_chains(scale_max, n_chains=10, seed=0):
    """Return the states at the ends of the cycles, of shape (n_chains, n_cycles, 2)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-10, 10, size=(n_chains, 2))
    kept = []
    for t in range(n_cycles * cycle_length):
        wave = 0.5 * (1 + np.cos(np.pi * (t % cycle_length) / cycle_length))
        scale = max(scale_max * wave, 1.0)
        x = x + step * scale * grid.gradient(x) + np.sqrt(2 * step) * rng.normal(size=x.shape)
        if t % cycle_length == cycle_length - 1:
            kept.append(x)
    return np.stack(kept, axis=1)


def modes_visited(states):
    """Return the number of modes that have a state within three standard deviations."""
    distance = np.linalg.norm(states[:, None, :] - grid.means, axis=2)
    return len(set(distance.argmin(axis=1)[distance.min(axis=1) < 3 * np.sqrt(grid.variance)]))


runs = {"constant scale 1": run_chains(1.0), "scale 10 to 1 in cycles": run_chains(10.0)}
for name, states in runs.items():
    counts = [modes_visited(chain) for chain in states]
    print(f"{name:24s} 30 states visit {np.median(counts):.0f} of 25 modes (median), {min(counts)} to {max(counts)}")

# %%
# The kept states of one chain each, over the contours of the density.

side = np.linspace(-6, 6, 200)
plane = np.stack(np.meshgrid(side, side), axis=-1)
density = np.exp(grid.log_density(plane.reshape(-1, 2))).reshape(200, 200)
figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), sharex=True, sharey=True, layout="constrained")
for ax, (name, states) in zip(axes, runs.items(), strict=True):
    ax.contour(side, side, density, levels=6, cmap="Greys", linewidths=0.8)
    ax.plot(*states[0].T, "o", color="C1", markersize=6, markeredgecolor="black", alpha=0.8)
    ax.set(title=f"{name}: {modes_visited(states[0])} modes", aspect="equal", xlim=(-6, 6), ylim=(-6, 6))
plt.show()

# %%
# The scale matters: modes are left where the largest step is unstable inside one, here above
# ``2 * variance / step = 6``. Boosting has no such wells by itself; whether cycles help there is a question of
# evidence, see :doc:`plot_spiral` and :doc:`/measured/shifts`.
