"""Predicted distributions: negative log-likelihood on new rows, beside NGBoost and CatBoost where these are installed.

    python benchmarks/distributions.py --data FOLDER --out runs.json      # FOLDER holds load.py and the data
    python benchmarks/distributions.py --out runs.json --table            # tables of what has been run

`load.py` must offer ``load(name, max_rows=...) -> (frame, target, meta)`` and ``uci_splits(meta, n_splits)``, the 90/10
splits of the published tables. Runs that the file holds already are not repeated.

All methods have 500 trees of depth 3 at a learning rate of 0.03 (NGBoost: its own 0.01), none is tuned to a table.
"members" is the equal mixture of the distributions of ten members of the virtual ensemble. Counts are scored by the log
probability of the count; the normal law by that of the unit interval around it.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from skboost import SGLBRegressor
from skboost.distributions import Normal

N_TREES, RATE, DEPTH = 500, 0.03, 3
# Name -> number of splits, rows at most.
REAL = {
    "yacht": (4, None),
    "energy": (3, None),
    "concrete": (3, None),
    "wine_red": (3, None),
    "kin8nm": (1, None),
    "power_plant": (1, None),
}
COUNTS = {"bike_hour": (1, 8000), "fremtpl2": (1, 40000)}
POSITIVE_LOSSES = ("lognormal", "gamma_distribution")
COUNT_LOSSES = ("poisson", "negative_binomial", "gaussian")
MEMBERS = 10
FLOOR = 1e-300


def log_probability(predicted, y, counts):
    if not counts or predicted.is_discrete:
        return predicted.logpdf(y)
    return np.log(np.maximum(predicted.cdf(y + 0.5) - predicted.cdf(y - 0.5), FLOOR))


def figures(predicted, y, counts):
    low, high = predicted.interval(0.9)
    return {
        "nll": float(-log_probability(predicted, y, counts).mean()),
        "crps": float(predicted.crps(y).mean()),
        "rmse": float(np.sqrt(np.mean((predicted.mean - y) ** 2))),
        "coverage": float(np.mean((low <= y) & (y <= high))),
    }


def ours(loss, leaf_estimation, train, test, counts):
    model = SGLBRegressor(
        loss=loss, n_estimators=N_TREES, learning_rate=RATE, max_depth=DEPTH, min_samples_leaf=10, n_jobs=1,
        leaf_estimation=leaf_estimation, random_state=0,
    )  # fmt: skip
    model.fit(*train)
    name = loss if leaf_estimation == "gradient" else f"{loss}, newton"
    yield name, figures(model.predict_distribution(test[0]), test[1], counts)
    yield f"{name}, members", figures(model.predict_distribution(test[0], n_members=MEMBERS), test[1], counts)


def ngboost(train, test, counts):
    try:
        from ngboost import NGBRegressor
    except ImportError:
        return
    model = NGBRegressor(n_estimators=N_TREES, verbose=False, random_state=0).fit(*train)
    found = model.pred_dist(test[0])
    yield "NGBoost", figures(Normal(found.loc, found.scale), test[1], counts)


def catboost(train, test, counts):
    try:
        from catboost import CatBoostRegressor
    except ImportError:
        return
    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty", iterations=N_TREES, learning_rate=RATE, depth=DEPTH, verbose=False,
        thread_count=1, random_seed=0, allow_writing_files=False,
    )  # fmt: skip
    mean, variance = model.fit(*train).predict(test[0]).T
    yield "CatBoost", figures(Normal(mean, np.sqrt(variance)), test[1], counts)


def methods(name, y):
    """Return functions (train, test, counts) -> (method, figures) for a table."""
    positive = POSITIVE_LOSSES if y.min() > 0 else ()
    losses = COUNT_LOSSES if name in COUNTS else ("gaussian", "laplace", *positive)

    def of(loss, leaf_estimation):
        return lambda train, test, counts: ours(loss, leaf_estimation, train, test, counts)

    kinds = ("gradient", "newton") if name in REAL else ("gradient",)
    return {
        **{f"{loss}/{kind}": of(loss, kind) for loss in losses for kind in kinds},
        "NGBoost": ngboost,
        "CatBoost": catboost,
    }


def numeric(name, max_rows):
    from load import load

    X, y, meta = load(name, max_rows=max_rows)
    if meta.get("exposure") is not None:
        X = X.assign(log_exposure=np.log(np.asarray(meta["exposure"], dtype=float)))
    for column in meta["categorical"]:
        X[column] = X[column].cat.codes
    return np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64), meta


def run(out):
    from load import uci_splits

    done = json.loads(out.read_text()) if out.exists() else []
    seen = {(r["data"], r["split"], r["run"]) for r in done}
    for name, (n_splits, max_rows) in {**REAL, **COUNTS}.items():
        X, y, meta = numeric(name, max_rows)
        for split, (train, test) in enumerate(
            uci_splits(meta if name in REAL and max_rows is None else len(y), n_splits)
        ):
            for key, method in methods(name, y).items():
                if (name, split, key) in seen:
                    continue
                start = time.perf_counter()
                for label, found in method((X[train], y[train]), (X[test], y[test]), name in COUNTS):
                    row = {"data": name, "split": split, "run": key, "method": label, **found}
                    done.append(row | {"seconds": time.perf_counter() - start})
                out.write_text(json.dumps(done, indent=0))


def table(done, names, score):
    """Print mean scores, and mean ranks over the tables that every method has."""
    methods = list(dict.fromkeys(r["method"] for r in done if r["data"] in names))
    means = {
        (name, method): np.mean([r[score] for r in done if (r["data"], r["method"]) == (name, method)] or [np.nan])
        for name in names
        for method in methods
    }
    ranked = score != "coverage"
    whole = [method for method in methods if ranked and all(np.isfinite(means[name, method]) for name in names)]
    ranks = {method: [] for method in whole}
    for name in names:
        for rank, method in enumerate(sorted(whole, key=lambda m: means[name, m]), start=1):
            ranks[method].append(rank)
    print(f"\n{score:36s}" + "".join(f"{name:>13s}" for name in names) + f"{'mean rank' if ranked else '':>11s}")
    for method in methods:
        cells = "".join(f"{means[name, method]:13.3f}" for name in names)
        print(f"{method:36s}{cells}" + (f"{np.mean(ranks[method]):11.2f}" if method in ranks else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of load.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        done = json.loads(args.out.read_text())
        for names in (REAL, COUNTS):
            for score in ("nll", "crps", "coverage"):
                table(done, [name for name in names if any(r["data"] == name for r in done)], score)
        return
    if not args.data:
        sys.exit("--data names the folder of load.py")
    sys.path.insert(0, os.path.abspath(args.data))
    run(args.out)


if __name__ == "__main__":
    main()
