"""Choose the defaults of the SGLB estimators by evidence.

Runs candidate settings over real data sets: in-domain loss (RMSE divided by the standard deviation of the target, or
log loss), and for data sets with a shift the ROC-AUC with which the knowledge uncertainty separates shifted rows from
in-domain test rows. A candidate's score is the mean of its mean rank by loss and its mean rank by AUC; the smallest
is best.

    python benchmarks/defaults.py --data FOLDER --out runs.json          # FOLDER holds load.py and the data
    python benchmarks/defaults.py --table runs.json                      # prints the tables of the documentation

`load.py` must offer ``load(name) -> (frame, target, meta)`` with ``meta["shifts"]`` a dict of pairs of row masks.
"""

import argparse
import itertools
import json
import sys
import time
from collections import defaultdict

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from skboost import SGLBClassifier, SGLBRegressor

# Data set, shift (None: in-domain loss only).
CASES = [
    ("concrete", None), ("energy", None), ("power_plant", None), ("kin8nm", None),
    ("california", "north"), ("bike_hour", "winter"), ("bike_hour", "weather"), ("wine_quality", "colour"),
    ("ames", "old"), ("telco_churn", "contract"), ("titanic", "class"), ("bank", "year2010"), ("elec2", "time"),
    ("elec2", "market"), ("adult", "age"), ("covtype_20k", "wilderness"), ("dry_bean", "bombay"),
]  # fmt: skip
MOST_ROWS = 5000
GRID = {
    "grow_policy": ["symmetric", "depthwise", "lossguide"],
    "diffusion_temperature": [1.0, 10.0, 30.0, 100.0, 300.0, "N"],
    "steps": [(0.05, 500), (0.1, 500), (0.1, 1000)],
    "leaf_estimation": ["gradient", "newton"],
    "min_samples_leaf": [1, 5, 20],
}


def candidates():
    """Yield the settings of the grid as dicts."""
    for values in itertools.product(*GRID.values()):
        yield dict(zip(GRID, values, strict=True))


def split(load, name, shift, seed):
    """Return the training, test and shifted part of one case."""
    X, y, meta = load(name)
    y = np.asarray(y)
    inside = np.ones(len(y), dtype=bool)
    shifted = np.zeros(len(y), dtype=bool)
    if shift is not None:
        inside, shifted = meta["shifts"][shift]
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero(inside))[: 2 * MOST_ROWS]
    if y.dtype.kind not in "OUb" and meta["task"] == "regression":
        y = y.astype(float)
    train, test = train_test_split(rows, test_size=0.25, random_state=seed)
    train = train[:MOST_ROWS]
    test = test[np.isin(y[test], y[train])] if meta["task"] != "regression" else test
    outside = rng.permutation(np.flatnonzero(shifted))[: len(test)]
    return X, y, meta["task"], train, test, outside


def evaluate(setting, X, y, task, train, test, outside, seed):
    """Return the results of one setting on one case, one per averaging."""
    learning_rate, n_estimators = setting["steps"]
    temperature = setting["diffusion_temperature"]
    params = {
        "grow_policy": setting["grow_policy"],
        "leaf_estimation": setting["leaf_estimation"],
        "min_samples_leaf": setting["min_samples_leaf"],
        "diffusion_temperature": float(len(train)) if temperature == "N" else temperature,
        "learning_rate": learning_rate,
        "n_estimators": n_estimators,
        "max_depth": None if setting["grow_policy"] == "lossguide" else 6,
        "random_state": seed,
        "n_jobs": 1,
    }
    started = time.perf_counter()
    estimator = (SGLBRegressor if task == "regression" else SGLBClassifier)(**params)
    estimator.fit(X.iloc[train], y[train])
    seconds = time.perf_counter() - started
    auc = None
    if len(outside):
        knowledge = [estimator.predict_uncertainty(X.iloc[part]).knowledge for part in (test, outside)]
        label = np.repeat([0, 1], [len(test), len(outside)])
        auc = roc_auc_score(label, np.concatenate(knowledge))
    for averaging in ("last", "mean"):
        estimator.set_params(averaging=averaging)
        if task == "regression":
            loss = np.sqrt(np.mean((estimator.predict(X.iloc[test]) - y[test]) ** 2)) / y[train].std()
        else:
            loss = log_loss(y[test], estimator.predict_proba(X.iloc[test]), labels=estimator.classes_)
        yield {**setting, "averaging": averaging, "loss": float(loss), "auc": auc, "seconds": seconds}


def run(load, out, seeds, shard, n_shards):
    results = []
    for seed in range(seeds):
        for name, shift in CASES:
            parts = split(load, name, shift, seed)
            for number, setting in enumerate(candidates()):
                if number % n_shards != shard:
                    continue
                if parts[2] == "regression" and setting["leaf_estimation"] == "newton":
                    continue  # the same as gradient for squared error
                known = {"case": f"{name}/{shift}", "seed": seed}
                results.extend({**known, **result} for result in evaluate(setting, *parts, seed))
            print(f"seed {seed}: {name}/{shift}", flush=True)
            with open(out, "w") as file:
                json.dump(results, file)


def key_of(result):
    learning_rate, n_estimators = result["steps"]
    return (
        result["grow_policy"], result["diffusion_temperature"], learning_rate, n_estimators, result["leaf_estimation"],
        result["min_samples_leaf"], result["averaging"],
    )  # fmt: skip


def collect(paths):
    """Return candidate -> case -> list of (loss, auc)."""
    table = defaultdict(lambda: defaultdict(list))
    for path in paths:
        with open(path) as file:
            for result in json.load(file):
                keys = [key_of(result)]
                if "newton" not in keys[0] and result["case"].split("/")[0] in REGRESSION:
                    keys.append(tuple("newton" if part == "gradient" else part for part in keys[0]))
                for key in keys:
                    table[key][result["case"]].append((result["loss"], result["auc"]))
    return table


REGRESSION = {"concrete", "energy", "power_plant", "kin8nm", "california", "bike_hour", "wine_quality", "ames"}


def mean_ranks(table):
    """Return candidate -> (mean rank by loss, mean rank by AUC, mean relative loss, mean AUC)."""
    keys = list(table)
    cases = sorted({case for key in keys for case in table[key]})
    loss_ranks, auc_ranks, relative, aucs = [], [], [], []
    for case in cases:
        loss = np.array([np.mean([value[0] for value in table[key][case]]) for key in keys])
        loss_ranks.append(rankdata(loss) / len(keys))
        relative.append(loss / loss.min())
        if table[keys[0]][case][0][1] is not None:
            auc = np.array([np.mean([value[1] for value in table[key][case]]) for key in keys])
            auc_ranks.append(rankdata(-auc) / len(keys))
            aucs.append(auc)
    columns = (np.mean(part, axis=0) for part in (loss_ranks, auc_ranks, relative, aucs))
    return {key: values for key, *values in zip(keys, *columns, strict=True)}


def print_tables(paths, rows):
    ranks = mean_ranks(collect(paths))
    ordered = sorted(ranks, key=lambda key: ranks[key][0] + ranks[key][1])
    print("| grow_policy | T | learning_rate | n_estimators | leaves | min_samples_leaf | averaging "
          "| loss rank | AUC rank | mean rank | loss / best | AUC |")  # fmt: skip
    print("|" + "---|" * 12)
    for key in ordered[:rows]:
        loss_rank, auc_rank, relative, auc = ranks[key]
        figures = (loss_rank, auc_rank, (loss_rank + auc_rank) / 2, relative, auc)
        print("| " + " | ".join([*map(str, key), *(f"{figure:.3f}" for figure in figures)]) + " |")
    names = ["grow_policy", "T", "learning_rate", "n_estimators", "leaves", "min_samples_leaf", "averaging"]
    for position, name in enumerate(names):
        print(f"\n| {name} | mean rank of its best candidate | loss rank, AUC rank there | mean over all candidates |")
        print("|---|---|---|---|")
        for value in dict.fromkeys(key[position] for key in ranks):
            own = [key for key in ranks if key[position] == value]
            best = min(own, key=lambda key: ranks[key][0] + ranks[key][1])
            average = np.mean([(ranks[key][0] + ranks[key][1]) / 2 for key in own])
            by_loss, by_auc = ranks[best][:2]
            print(f"| {value} | {(by_loss + by_auc) / 2:.3f} | {by_loss:.3f}, {by_auc:.3f} | {average:.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of load.py")
    parser.add_argument("--out", default="defaults.json")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--shard", type=int, default=0, help="which part of the candidates to run")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--table", nargs="+", help="result files to print instead of running")
    parser.add_argument("--rows", type=int, default=15)
    args = parser.parse_args()
    if args.table:
        print_tables(args.table, args.rows)
        return
    sys.path.insert(0, args.data)
    from load import load

    run(load, args.out, args.seeds, args.shard, args.shards)


if __name__ == "__main__":
    main()
