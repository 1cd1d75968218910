"""Compare chains on two leaves with their exact stationary law.

    python benchmarks/law.py

Squared error, one binary column of 100 rows a side, 20,000 states after 1,000 of burn-in. The leaf value is an
autoregressive process with rho = s (1 - eps a), a = W / D, D = W + lambda, whose variance is eps^2 sigma^2 / (D (1 -
rho^2)).
"""

import itertools

import numpy as np

from skboost import SGLBRegressor

SETTINGS = [
    # learning rate, T, lambda, weight of every row
    (0.1, 1.0, 0.0, 1.0),
    (0.1, 1.0, 50.0, 1.0),
    (0.1, 200.0, 0.0, 1.0),
    (0.5, 1.0, 0.0, 1.0),
    (0.1, 1.0, 0.0, 4.0),
    (0.1, 1.0, 50.0, 4.0),
]
ROWS, SHRINK_RATE, BURN_IN, STATES = 100, 0.005, 1_000, 20_000


def chain(learning_rate, temperature, l2, weight, seed=0):
    """Return the states of both leaves, shape (STATES, 2)."""
    X = np.repeat([[0.0], [1.0]], ROWS, axis=0)
    y = np.repeat([-1.0, 1.0], ROWS)
    model = SGLBRegressor(
        n_estimators=BURN_IN + STATES,
        learning_rate=learning_rate,
        max_depth=1,
        l2_regularization=l2,
        noise_variance=1.0,
        posterior_sampling=False,
        langevin=True,
        diffusion_temperature=temperature,
        model_shrink_rate=SHRINK_RATE,
        random_state=seed,
    )
    model.fit(X, y, sample_weight=np.full(2 * ROWS, weight))
    return np.array(list(itertools.islice(model.staged_predict([[0.0], [1.0]]), BURN_IN, None)))


def law(learning_rate, temperature, l2, weight):
    """Return mean (of the leaf with target 1) and variance of the exact law."""
    W = ROWS * weight
    D = W + l2
    rho = (1 - SHRINK_RATE * learning_rate) * (1 - learning_rate * W / D)
    mean = learning_rate * W / D / (1 - rho)
    return mean, learning_rate**2 * 2 / (learning_rate * temperature) / (D * (1 - rho**2))


def main():
    print("| learning rate | T | lambda | weight | mean, law | mean, chain | variance, law | variance, two leaves |")
    print("|" + "---|" * 8)
    for setting in SETTINGS:
        states = chain(*setting)
        mean, variance = law(*setting)
        found = " and ".join(f"{value:.4g}" for value in states.var(axis=0))
        average = (states[:, 1].mean() - states[:, 0].mean()) / 2
        cells = [*(f"{value:g}" for value in setting), f"{mean:.5f}", f"{average:.5f}", f"{variance:.4g}", found]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
