"""Posterior deviations over the leaves of a booster on the data, in a gap between them, and beyond.

    python benchmarks/leaf_laplace.py

400 rows of one feature, uniform on [-2, -0.5] and [0.5, 2], labels with log-odds 1.5 sin(2.5 x). Prints the mean latent
deviation and the coverage of the true log-odds by 1.96 deviations, averaged over repetitions.
"""

import numpy as np
from scipy.special import expit

from skboost import LeafLaplaceUncertainty, SGLBClassifier

REGIONS = {"on the data": (0.5, 2.0), "in the gap": (0.0, 0.4), "outside": (2.15, 4.0)}
PLAIN = {"posterior_sampling": False}
CASES = {
    "plain boosting": (PLAIN, {}),
    "with support=True": (PLAIN, {"support": True}),
    "with prior_trees=100": (PLAIN, {"prior_trees": 100}),
    "posterior_sampling=True": ({}, {}),
}
REPETITIONS = 6


def log_odds(x):
    return 1.5 * np.sin(2.5 * x[:, 0])


def deviation_and_coverage(model, low, high):
    """Return both for a symmetric pair of regions."""
    x = np.linspace(low, high, 60)[:, None]
    x = np.vstack([x, -x])
    mean, variance = model.latent_mean_and_variance(x)
    deviation = np.sqrt(variance)
    return deviation.mean(), np.mean(np.abs(mean - log_odds(x)) < 1.96 * deviation)


def repetition(seed, booster, options):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-2.0, -0.5, 200), rng.uniform(0.5, 2.0, 200)])[:, None]
    y = rng.uniform(size=400) < expit(log_odds(x))
    fitted = SGLBClassifier(n_estimators=100, max_depth=3, random_state=seed, **booster).fit(x, y)
    model = LeafLaplaceUncertainty(fitted, random_state=seed, **options).fit(x, y)
    return [deviation_and_coverage(model, *ends) for ends in REGIONS.values()]


def main():
    print(f"{'':26s}" + "".join(f"{name:>16s}" for name in REGIONS))
    for name, case in CASES.items():
        found = np.mean([repetition(seed, *case) for seed in range(REPETITIONS)], axis=0)
        print(f"{name:26s}" + "".join(f"{sd:10.2f}, {share:.2f}" for sd, share in found))


if __name__ == "__main__":
    main()
