"""How many new targets lie within one and two standard deviations of `total`, by table size, with loss="gaussian".

    python benchmarks/coverage.py

Eight uniform columns, a smooth mean, a spread that depends on one column; a normal target lies within one standard
deviation with probability 68 %, within two with 95 %.
"""

import numpy as np

from skboost import SGLBRegressor

SMALL_TREES = {"max_depth": 2, "min_samples_leaf": 20, "learning_rate": 0.02, "n_estimators": 300}
N_TEST = 20_000


def draw(n_rows, seed):
    """Return X and y."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n_rows, 8))
    mean = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    return X, mean + np.exp(X[:, 4] - 1) * rng.normal(size=n_rows)


def main():
    X_new, y_new = draw(N_TEST, seed=1)
    print("| rows | defaults | small trees | small trees, T = 1 |")
    print("|---|---|---|---|")
    for n_rows in (500, 2_000, 10_000, 50_000):
        X, y = draw(n_rows, seed=0)
        cells = []
        for params in ({}, SMALL_TREES, {**SMALL_TREES, "diffusion_temperature": 1}):
            result = SGLBRegressor(loss="gaussian", random_state=0, **params).fit(X, y).predict_uncertainty(X_new)
            distance = np.abs(y_new - result.mean) / np.sqrt(result.total)
            cells.append(f"{np.mean(distance < 1):.0%} / {np.mean(distance < 2):.0%}")
        print(f"| {n_rows} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
