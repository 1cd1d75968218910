"""Boulevard additive models: how often their intervals hold, and how long they take beside default fits.

    python benchmarks/boulevard.py coverage --replications 100
    python benchmarks/boulevard.py coverage --settings defaults joint --rows 4000 --correlation 0.5
    python benchmarks/boulevard.py speed --rows 100000 --jobs 2
    python benchmarks/boulevard.py peer --replications 30     (with hessboost installed)

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


HESSBOOST = {
    "booster": "ebm", "ebm_boulevard": True, "eta": 1.0, "subsample": 0.8, "max_leaves": 32, "max_bin": 64,
    "min_child_weight": 5, "lambda": 1.0, "nthread": 1,
}  # fmt: skip


def hessboost_fit(n_rows, seed, correlation, sigma, refit):
    """Return the coverages of the terms by hessboost's bands, and the seconds of its fit and bands."""
    import hessboost

    X, parts, y = draw(n_rows, seed, correlation, sigma)
    start = time.perf_counter()
    params = {**HESSBOOST, "seed": seed, "ebm_interactions": 0}
    data = hessboost.DMatrix(X, label=y)
    booster = hessboost.train(params, data, num_boost_round=300)
    if refit:
        X, parts, y = draw(n_rows, 10_000 + seed, correlation, sigma)
        data = hessboost.DMatrix(X, label=y)
        booster = hessboost.inference.honest_refit(booster, data)
    bands = hessboost.inference.EbmInference.fit(booster, data)
    terms = [bands.term_bands(t, alpha=0.05) for t in range(4)]
    seconds = time.perf_counter() - start
    truth = shapes_of(np.repeat(GRID[:, None], 4, axis=1)) - parts.mean(axis=1)[:, None]
    found = []
    for t, term in enumerate(terms):
        cell = np.searchsorted(np.asarray(term.shape.axes[0].edges, dtype=float), GRID, side="right")
        low, high = np.ravel(term.lower)[cell], np.ravel(term.upper)[cell]
        inside = (low < truth[t]) & (truth[t] < high)
        found.append(np.mean(np.delete(inside, 9) if t == 2 else inside))
    return [*found, seconds]


def peer(args):
    """Bands of hessboost and ours on the same tables, one after the other."""
    print("library, x0, x1, x2, x3, seconds of a fit with bands")
    ours, theirs, theirs_refit = [], [], []
    for seed in range(args.replications):
        start = time.perf_counter()
        one = one_fit({}, args.rows, seed, args.correlation, args.sigma)
        ours.append([*one[:4], time.perf_counter() - start])
        theirs.append(hessboost_fit(args.rows, seed, args.correlation, args.sigma, refit=False))
        theirs_refit.append(hessboost_fit(args.rows, seed, args.correlation, args.sigma, refit=True))
    for name, rows in (("skboost", ours), ("hessboost", theirs), ("hessboost, refit", theirs_refit)):
        *shares, seconds = np.mean(rows, axis=0)
        print(f'"{name}", ' + ", ".join(f"{100 * share:.1f}" for share in shares) + f", {seconds:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    covers = commands.add_parser("coverage")
    covers.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    for command in (covers, commands.add_parser("peer")):
        command.add_argument("--rows", type=int, default=1000)
        command.add_argument("--replications", type=int, default=100)
        command.add_argument("--correlation", type=float, default=0.0)
        command.add_argument("--sigma", type=float, default=0.5)
    fast = commands.add_parser("speed")
    fast.add_argument("--rows", type=int, default=100_000)
    fast.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    {"coverage": coverage, "speed": speed, "peer": peer}[args.command](args)


if __name__ == "__main__":
    main()
