"""Coverage of the intervals of BoulevardRegressor on data of known truth.

    python benchmarks/boulevard_trees.py [--samples 10] [--rows 1000] [--rounds 300] [--cases smooth_1d additive_3d]

For each setting as many independent samples are drawn and fitted, with the same 200 places to predict at, inside the
data. Columns, in per cent at a nominal 95:

new label      prediction intervals that hold a new label
reproduction   reproduction intervals of one sample that hold the prediction of another
own mean       confidence intervals that hold the mean of all fits
truth          confidence intervals that hold the true function

then, in units of the target, the root mean square of the bias, the mean standard deviation over samples, and the mean
standard error; last the estimated noise variance (the truth is 0.25). The first two coverages need no truth.

    python benchmarks/boulevard_trees.py --solvers [--rows 2000] [--rounds 300]

prints the processor time of one fit with each solver, that of a standard error, and the largest relative difference of
standard errors from those of solver="exact" (additive_3d).
"""

import argparse
import time
import warnings

import numpy as np

from skboost import BoulevardRegressor

NOISE = 0.5
N_PLACES = 200
Z = 1.959963984540054


def smooth_1d(X):
    """Return a period of a sine."""
    return np.sin(2 * np.pi * X[:, 0])


def additive_3d(X):
    """Return the sum of a sine, a parabola and a line."""
    return smooth_1d(X) + 2 * (X[:, 1] - 0.5) ** 2 + 1.5 * X[:, 2]


def interaction_5d(X):
    """Return a quarter of Friedman's first function."""
    return 2.5 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 5 * (X[:, 2] - 0.5) ** 2 + 2.5 * X[:, 3] + 1.25 * X[:, 4]


CASES = {"smooth_1d": (1, smooth_1d), "additive_3d": (3, additive_3d), "interaction_5d": (5, interaction_5d)}
SETTINGS = {
    "random": {},
    "random, lam=1": {"learning_rate": 1.0},
    "random, not adjusted": {"design_adjustment": False},
    "random, parallel": {"method": "parallel"},
    "honest": {"structure": "honest"},
    "greedy": {"structure": "greedy"},
}


def measure(case, params, n_samples, n_rows, n_rounds):
    """Return the figures of one line."""
    n_features, truth = CASES[case]
    places = np.random.default_rng(99).uniform(0.03, 0.97, size=(N_PLACES, n_features))
    target = truth(places)
    rounds = n_rounds // 4 if params.get("method") == "parallel" else n_rounds
    fits, errors, noise, labels = [], [], [], []
    for sample in range(n_samples):
        rng = np.random.default_rng([sample, n_rows])
        X = rng.uniform(size=(n_rows, n_features))
        y = truth(X) + NOISE * rng.normal(size=n_rows)
        model = BoulevardRegressor(n_estimators=rounds, random_state=sample, n_jobs=1, **params).fit(X, y)
        fits.append(model.predict(places))
        errors.append(model.standard_errors(places))
        noise.append(model.noise_variance_)
        low, high = model.predict_interval(places, kind="prediction").T
        new = target + NOISE * rng.normal(size=N_PLACES)
        labels.append(np.mean((low <= new) & (new <= high)))
    fits, errors = np.array(fits), np.array(errors)
    pairs = [(i, j) for i in range(n_samples) for j in range(n_samples) if i != j]
    again = [np.mean(np.abs(fits[i] - fits[j]) <= Z * np.sqrt(2) * errors[i]) for i, j in pairs]
    mean = fits.mean(axis=0)
    # The mean of all fits contains the fit itself.
    own = np.abs(fits - mean) <= Z * errors * np.sqrt(1 - 1 / n_samples)
    return {
        "new label": 100 * np.mean(labels),
        "reproduction": 100 * np.mean(again),
        "own mean": 100 * np.mean(own),
        "truth": 100 * np.mean(np.abs(fits - target) <= Z * errors),
        "bias": np.sqrt(np.mean((mean - target) ** 2)),
        "deviation": np.mean(fits.std(axis=0, ddof=1)),
        "error": np.mean(errors),
        "noise": np.mean(noise),
    }


def compare_solvers(n_rows, n_rounds):
    """Print a line for each solver."""
    rng = np.random.default_rng(0)
    X, places = rng.uniform(size=(n_rows, 3)), rng.uniform(size=(N_PLACES, 3))
    y = additive_3d(X) + NOISE * rng.normal(size=n_rows)
    exact = None
    for solver in ("exact", "cg", "nystrom"):
        start = time.process_time()
        # Another noise variance would hide what the solver does to a single standard error.
        params = {"solver": solver, "noise_variance": NOISE**2, "design_adjustment": False}
        model = BoulevardRegressor(n_estimators=n_rounds, random_state=0, n_jobs=1, **params).fit(X, y)
        fitted = time.process_time()
        errors = model.standard_errors(places)
        end = time.process_time()
        exact = errors if exact is None else exact
        off = np.abs(errors / exact - 1).max()
        print(f"{solver:8s} fit {fitted - start:.2f} s  row {1e3 * (end - fitted) / N_PLACES:.2f} ms  off {off:.1e}")


def main():
    """Print a line for each case and setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--solvers", action="store_true")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    if args.solvers:
        compare_solvers(args.rows, args.rounds)
        return
    for case in args.cases:
        for name in args.settings:
            found = measure(case, SETTINGS[name], args.samples, args.rows, args.rounds)
            text = "  ".join(
                f"{key} {value:.1f}" if value > 2 else f"{key} {value:.3f}" for key, value in found.items()
            )
            print(f"{case:15s} {name:21s} {text}", flush=True)


if __name__ == "__main__":
    main()
