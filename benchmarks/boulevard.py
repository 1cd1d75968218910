"""Boulevard additive models: how often their intervals hold, and how long they take beside default fits.

    python benchmarks/boulevard.py coverage --replications 100
    python benchmarks/boulevard.py coverage --settings defaults joint --rows 4000 --correlation 0.5
    python benchmarks/boulevard.py speed --rows 100000 --jobs 2

coverage: y = sin(2 pi x0) + 2 (x1 - 1/2)^2 + 1[x2 > 1/2] + noise of standard deviation ``--sigma``, x3 without effect,
features uniform, with a Gaussian copula of the given correlation. 95 % intervals of each term at 19 points (18 for x2,
whose jump is left out), of the target centred on the training rows; "f" of the regression function and "label" of new
labels at 500 new rows; "null" how often the test of x3 rejects at 5 %; "width" the mean standard error of a shape.
Seeds are 0, 1, ...; the standard error of a coverage of 95 % is about 0.7 points with 100 replications.

speed: ten uniform features, the same function, seconds of wall and processor time of a fit with its bands.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.stats import norm

from skboost import EBMRegressor

GRID = np.linspace(0.05, 0.95, 19)
JOINT = {"boulevard_update": "joint"}
SETTINGS = {
    "defaults": {},
    "32 leaves": {"boulevard_max_leaves": 32},
    "fine cells": {"boulevard_max_bins": 128, "boulevard_max_leaves": 112},
    "joint": JOINT,
    "joint, rate 3": {**JOINT, "boulevard_learning_rate": 3.0},
    "honest": {"boulevard_structure": "honest"},
    "greedy": {"boulevard_structure": "greedy"},
    "greedy, refit": {"boulevard_structure": "greedy", "refit": True},
}


def shapes_of(X):
    return np.stack([np.sin(2 * np.pi * X[:, 0]), 2 * (X[:, 1] - 0.5) ** 2, X[:, 2] > 0.5, 0 * X[:, 3]])


def draw(n_rows, seed, correlation, sigma):
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.full((4, 4), correlation) + (1 - correlation) * np.eye(4))
    X = norm.cdf(rng.normal(size=(n_rows, 4)) @ root.T)
    parts = shapes_of(X)
    return X, parts, parts.sum(axis=0) + sigma * rng.normal(size=n_rows)


def one_fit(params, n_rows, seed, correlation, sigma):
    """Return coverages of the terms, of f, of labels, the rejection of the null term, and the mean width."""
    params = dict(params)
    refit = params.pop("refit", False)
    X, parts, y = draw(n_rows, seed, correlation, sigma)
    model = EBMRegressor(boulevard=True, interactions=0, random_state=seed, n_jobs=1, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, y)
        if refit:
            X, parts, y = draw(n_rows, 10_000 + seed, correlation, sigma)
            model.honest_refit(X, y)
    truth = shapes_of(np.repeat(GRID[:, None], 4, axis=1)) - parts.mean(axis=1)[:, None]
    found, widths = [], []
    for t, shape in enumerate(model.shape_functions()):
        low, high = shape.interval[:, shape.cell(GRID)]
        inside = (low < truth[t]) & (truth[t] < high)
        found.append(np.mean(np.delete(inside, 9) if t == 2 else inside))
        widths.append(shape.deviations[shape.cell(GRID)].mean())
    X, parts, y = draw(500, 20_000 + seed, correlation, sigma)
    for kind, values in (("confidence", parts.sum(axis=0)), ("prediction", y)):
        low, high = model.predict_interval(X, kind=kind).T
        found.append(np.mean((low < values) & (values < high)))
    found.append(model.term_tests().pvalue[3] < 0.05)
    return [*found, np.mean(widths)]


def coverage(args):
    print("setting, x0, x1, x2, x3, f, label, null, width")
    for name in args.settings:
        fits = [
            one_fit(SETTINGS[name], args.rows, seed, args.correlation, args.sigma) for seed in range(args.replications)
        ]
        *shares, width = np.mean(fits, axis=0)
        print(f'"{name}", ' + ", ".join(f"{100 * share:.1f}" for share in shares) + f", {width:.3f}", flush=True)


def speed(args):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(args.rows, 10))
    y = shapes_of(X).sum(axis=0) + 0.5 * rng.normal(size=args.rows)
    cases = {
        "bands, no pairs": {"boulevard": True, "interactions": 0},
        "bands, no pairs, subsample 0.8": {"boulevard": True, "interactions": 0, "boulevard_subsample": 0.8},
        "bands, 10 pairs": {"boulevard": True},
        "default, no pairs": {"interactions": 0},
        "default, 10 pairs": {},
    }
    print("fit, wall seconds, processor seconds")
    for name, params in cases.items():
        wall, processor = time.perf_counter(), time.process_time()
        model = EBMRegressor(random_state=0, n_jobs=args.jobs, **params).fit(X, y)
        if "boulevard" in params:
            model.shape_intervals()
            model.term_tests()
        print(f'"{name}", {time.perf_counter() - wall:.1f}, {time.process_time() - processor:.1f}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    covers = commands.add_parser("coverage")
    covers.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    covers.add_argument("--rows", type=int, default=1000)
    covers.add_argument("--replications", type=int, default=100)
    covers.add_argument("--correlation", type=float, default=0.0)
    covers.add_argument("--sigma", type=float, default=0.5)
    fast = commands.add_parser("speed")
    fast.add_argument("--rows", type=int, default=100_000)
    fast.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    coverage(args) if args.command == "coverage" else speed(args)


if __name__ == "__main__":
    main()
