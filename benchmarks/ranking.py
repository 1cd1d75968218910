"""NDCG@5 and fit time of SGLBRanker beside LightGBM, interleaved in one process on the same folds of queries.

    python benchmarks/ranking.py --csv rank.csv.gz --repeat 2
    python benchmarks/ranking.py --rows 200000 --repeat 1 --threads 2

The file has the columns relevance, qid and features (a column "part" is left out); without one, queries are made up:
relevances of five levels from a function of ten of forty columns and noise. Settings are matched: leaf-wise trees of 31
leaves with at least 20 rows, Newton leaves, the same penalty, share of columns and rate. "symmetric" is SGLBRanker with
its own kind of trees. Prints one line per loss: means over folds, differences to LightGBM with their standard errors,
and the median time of a fit.
"""

import argparse
import statistics
import time

import numpy as np
from sklearn.model_selection import GroupKFold

from skboost import SGLBRanker
from skboost.metrics import ndcg_score

LOSSES = ("lambdarank", "rank_xendcg")
LEAFWISE = {"grow_policy": "lossguide", "max_depth": None, "max_leaf_nodes": 31, "min_samples_leaf": 20}


def read(path):
    """Return (X, y, qid) of a file."""
    import pandas as pd

    frame = pd.read_csv(path)
    X = frame.drop(columns=["relevance", "qid", "part"], errors="ignore").to_numpy(float)
    return X, frame["relevance"].to_numpy(float), frame["qid"].to_numpy()


def made_up(n_rows, seed=0):
    """Return (X, y, qid) of queries of 5 to 200 rows."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 201, n_rows // 100 + 1)
    qid = np.repeat(np.arange(len(sizes)), sizes)[:n_rows]
    X = rng.normal(size=(len(qid), 40))
    signal = X[:, :5] @ rng.normal(size=5) + np.sin(2 * X[:, 5:10]).sum(axis=1) + 2 * rng.normal(size=len(qid))
    return X, np.digitize(signal, np.quantile(signal, [0.5, 0.75, 0.9, 0.97])).astype(float), qid


def fit_skboost(loss, a, seed, X, y, qid, **trees):
    model = SGLBRanker(
        loss=loss, n_estimators=a.trees, l2_regularization=a.l2, max_features=0.8, n_jobs=a.threads, random_state=seed,
        **trees,
    )  # fmt: skip
    return model.fit(X, y, qid=qid)


def fit_lightgbm(loss, a, seed, X, y, qid):
    import lightgbm

    params = {
        "objective": loss, "learning_rate": 0.1, "num_leaves": 31, "min_data_in_leaf": 20, "lambda_l2": a.l2,
        "feature_fraction": 0.8, "num_threads": a.threads, "seed": seed, "verbose": -1,
    }  # fmt: skip
    data = lightgbm.Dataset(X, y, group=np.unique(qid, return_counts=True)[1])
    return lightgbm.train(params, data, a.trees)


def methods(a):
    """Return the fits by name."""
    found = {
        "skboost": lambda *args: fit_skboost(*args, **LEAFWISE),
        "symmetric": lambda *args: fit_skboost(*args),
    }
    try:
        import lightgbm  # noqa: F401
    except ImportError:
        return found
    return {"lightgbm": fit_lightgbm, **found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv")
    parser.add_argument("--rows", type=int, default=50_000, help="rows of made-up queries")
    parser.add_argument("--repeat", type=int, default=2, help="repetitions of five folds")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--l2", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=LOSSES)
    a = parser.parse_args()
    X, y, qid = read(a.csv) if a.csv else made_up(a.rows)
    print(f"{len(y)} rows, {X.shape[1]} columns, {len(np.unique(qid))} queries, {a.trees} trees, {a.threads} threads")
    print("loss,method,NDCG@5,difference,standard error,seconds")
    for loss in a.losses:
        scores, seconds = {name: [] for name in methods(a)}, {name: [] for name in methods(a)}
        for seed in range(a.repeat):
            for train, test in GroupKFold(5, shuffle=True, random_state=seed).split(X, y, qid):
                rows = train[np.argsort(qid[train], kind="stable")]
                for name, fit in methods(a).items():
                    start = time.perf_counter()
                    model = fit(loss, a, seed, X[rows], y[rows], qid[rows])
                    seconds[name].append(time.perf_counter() - start)
                    scores[name].append(ndcg_score(y[test], model.predict(X[test]), qid=qid[test], k=5))
        first = np.array(next(iter(scores.values())))
        for name, found in scores.items():
            gap = np.array(found) - first
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            median = statistics.median(seconds[name])
            print(f"{loss},{name},{np.mean(found):.4f},{gap.mean():+.4f},{error:.4f},{median:.2f}", flush=True)


if __name__ == "__main__":
    main()
