"""Claim counts, claim sizes and pure premiums beside LightGBM with the same settings: deviance and fit time.

    python benchmarks/claims.py --data-folder DIR [--rows 678013] [--trees 200] [--repeat 3]

DIR holds load.py and fremtpl2.csv.gz (French motor third-party liability, 678,013 policies). Counts are capped at 4,
exposures at 1 and amounts at 100,000, as is usual. Splits of categories have no penalty of their own in skboost, so
LightGBM's are set to those of other splits. Fits of the libraries alternate, in processes of their own.
"""

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

TASKS = ("frequency", "severity", "premium")
POWER = 1.5


def load_task(folder, task, rows, seed=0):
    """Return (X, y, weight) of training and of test rows."""
    spec = importlib.util.spec_from_file_location("load", Path(folder, "load.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    X, counts, meta = module.load("fremtpl2")
    counts = np.minimum(counts.to_numpy(dtype=float), 4)
    exposure = np.minimum(meta["extra"]["Exposure"].to_numpy(dtype=float), 1)
    amount = np.minimum(meta["extra"]["ClaimAmount"].to_numpy(dtype=float), 100_000)
    if task == "frequency":
        y, weight, kept = counts / exposure, exposure, np.ones(len(X), dtype=bool)
    elif task == "severity":
        kept = (amount > 0) & (counts > 0)
        y, weight = amount / np.maximum(counts, 1), counts
    else:
        y, weight, kept = amount / exposure, exposure, np.ones(len(X), dtype=bool)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(kept))[:rows]
    cut = int(0.7 * len(order))
    return [(X.iloc[part], y[part], weight[part]) for part in (order[:cut], order[cut:])]


def deviance(task, y, mean, weight):
    from sklearn.metrics import mean_tweedie_deviance

    power = {"frequency": 1, "severity": 2, "premium": POWER}[task]
    return mean_tweedie_deviance(y, mean, sample_weight=weight, power=power)


def make_model(library, task, trees):
    if library == "skboost":
        from skboost import SGLBRegressor

        loss = {"frequency": "poisson", "severity": "gamma", "premium": "tweedie"}[task]
        return SGLBRegressor(
            loss=loss, n_estimators=trees, learning_rate=0.1, grow_policy="lossguide", max_leaf_nodes=15,
            max_depth=None, min_samples_leaf=100, l2_regularization=1.0, leaf_estimation="newton",
            posterior_sampling=False, n_jobs=2, random_state=0,
        )  # fmt: skip
    from lightgbm import LGBMRegressor

    options = {"tweedie_variance_power": POWER} if task == "premium" else {}
    objective = {"frequency": "poisson", "severity": "gamma", "premium": "tweedie"}[task]
    return LGBMRegressor(
        objective=objective, n_estimators=trees, learning_rate=0.1, num_leaves=15, min_child_samples=100,
        reg_lambda=1.0, cat_l2=1.0, cat_smooth=1.0, n_jobs=2, verbose=-1, **options,
    )  # fmt: skip


def run_one(library, task, folder, rows, trees):
    train, test = load_task(folder, task, rows)
    model = make_model(library, task, trees)
    start = time.perf_counter()
    model.fit(train[0], train[1], sample_weight=train[2])
    seconds = time.perf_counter() - start
    mean = np.maximum(model.predict(test[0]), 1e-12)
    return {"seconds": seconds, "deviance": deviance(task, test[1], mean, test[2])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-folder", required=True)
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter that has LightGBM")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run_one(args.one, args.tasks[0], args.data_folder, args.rows, args.trees)))
        return
    for task in args.tasks:
        found = {"skboost": [], "lightgbm": []}
        for _ in range(args.repeat):
            for library, results in found.items():
                python = sys.executable if library == "skboost" else args.peer_python
                command = [python, __file__, "--one", library, "--tasks", task, "--data-folder", args.data_folder]
                command += ["--rows", str(args.rows), "--trees", str(args.trees)]
                results.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        seconds = {name: statistics.median(run["seconds"] for run in runs) for name, runs in found.items()}
        scores = {name: runs[0]["deviance"] for name, runs in found.items()}
        change = 100 * (scores["skboost"] / scores["lightgbm"] - 1)
        print(
            f"{task:10s} deviance {scores['skboost']:.5f} / {scores['lightgbm']:.5f} ({change:+.2f} %)  "
            f"seconds {seconds['skboost']:.2f} / {seconds['lightgbm']:.2f} (ratio "
            f"{seconds['lightgbm'] / seconds['skboost']:.2f})"
        )


if __name__ == "__main__":
    main()
