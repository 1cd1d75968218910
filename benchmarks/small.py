"""Two short comparisons: binning beside LightGBM's data set, and the prediction of one row beside scikit-learn.

    python benchmarks/small.py

Medians (binning) and minima (one row) of runs that take turns. Binning is skipped where LightGBM is not installed.
"""

import statistics
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from skboost import SGLBRegressor
from skboost._binning import BinMapper

THREADS = 2


def seconds(call):
    """Return the wall time of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def binning():
    try:
        import lightgbm
    except ImportError:
        print("binning: LightGBM is not installed")
        return
    X = np.random.default_rng(0).normal(size=(200_000, 28))
    params = {"verbosity": -1, "num_threads": THREADS, "max_bin": 255}
    ours, theirs = [], []
    for _ in range(7):
        ours.append(seconds(lambda: BinMapper(255).fit(X, n_threads=THREADS).transform(X, n_threads=THREADS)))
        theirs.append(seconds(lambda: lightgbm.Dataset(X, np.zeros(len(X)), params=params).construct()))
    print(f"binning 200000 x 28: {statistics.median(ours):.3f} s, LightGBM {statistics.median(theirs):.3f} s")


def one_row():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5_000, 20))
    y = X[:, 0] + rng.normal(size=5_000)
    for n_trees in (100, 1000):
        ours = SGLBRegressor(n_estimators=n_trees, random_state=0).fit(X, y)
        theirs = HistGradientBoostingRegressor(max_iter=n_trees).fit(X, y)
        times = [[], []]
        for _ in range(100):
            for model, found in zip((ours, theirs), times, strict=True):
                found.append(seconds(lambda model=model: model.predict(X[:1])))
        print(f"one row, {n_trees} trees: {min(times[0]) * 1e6:.0f} us, scikit-learn {min(times[1]) * 1e6:.0f} us")


if __name__ == "__main__":
    binning()
    one_row()
