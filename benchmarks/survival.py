"""Cox's partial likelihood and accelerated failure times beside XGBoost: concordance on held-out rows and fit time.

    python benchmarks/survival.py [--data gbsg2 kidney synthetic] [--rows 20000] [--repeat 5] [--threads 2]

gbsg2 (breast cancer, 686 patients) and kidney (transplants, 863 patients) come with lifelines; synthetic data have ten
columns, 40 % censored rows, and times in whole days, so that there are ties. Each split trains on 70 % of the rows.
Both libraries grow trees level by level with the same number of trees, depth, learning rate, penalty and Newton leaves,
on the same rows, in turns and in one process; "(default)" has the other parameters of ``SGLBRegressor`` at their
defaults: symmetric trees, gradient leaves and posterior sampling. Differences are to XGBoost, errors are those of them.
Concordance is that of :func:`skboost.metrics.concordance_index` for all. The environment needs both libraries.
"""

import argparse
import statistics
import time

import numpy as np

from skboost import SGLBRegressor
from skboost.metrics import concordance_index

SMALL = {"trees": 150, "depth": 3, "rate": 0.05}
LARGE = {"trees": 200, "depth": 6, "rate": 0.1}


def synthetic(rows):
    """Return (X, time, event) of Weibull times whose log hazard is not linear."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(rows, 10))
    risk = 2 * np.sin(3 * X[:, 0]) + 3 * X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + X[:, 4]
    latent = 300 * np.exp(-0.7 * risk) * rng.weibull(1.5, size=rows)
    censored = rng.exponential(500, size=rows)
    return X, np.ceil(np.minimum(latent, censored)), latent <= censored


def of_lifelines(name):
    import pandas as pd
    from lifelines import datasets

    frame, time_of, event_of = {
        "gbsg2": (datasets.load_gbsg2, "time", "cens"),
        "kidney": (datasets.load_kidney_transplant, "time", "death"),
    }[name]
    frame = frame()
    X = pd.get_dummies(frame.drop(columns=[time_of, event_of]), drop_first=True).to_numpy(dtype=float)
    return X, frame[time_of].to_numpy(dtype=float), frame[event_of].to_numpy() == 1


def fit_ours(loss, train, settings, threads, plain=True):
    X, time_, event = train
    options = {"scale": settings["scale"]} if loss == "aft" else {}
    if plain:
        options |= {"grow_policy": "depthwise", "leaf_estimation": "newton", "posterior_sampling": False}
    model = SGLBRegressor(
        loss=loss, n_estimators=settings["trees"], learning_rate=settings["rate"], max_depth=settings["depth"],
        l2_regularization=1.0, n_jobs=threads, random_state=0, **options,
    )  # fmt: skip
    y = np.array(list(zip(event, time_, strict=True)), dtype=[("event", bool), ("time", float)])
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    return seconds, lambda X: model.predict(X) if loss == "cox" else -model.predict(X)


def fit_xgboost(loss, train, settings, threads):
    import xgboost as xgb

    X, time_, event = train
    start = time.perf_counter()
    matrix = xgb.DMatrix(X)
    if loss == "cox":
        matrix.set_label(np.where(event, time_, -time_))
        options = {"objective": "survival:cox"}
    else:
        matrix.set_float_info("label_lower_bound", time_)
        matrix.set_float_info("label_upper_bound", np.where(event, time_, np.inf))
        options = {"objective": "survival:aft", "aft_loss_distribution": "normal"}
        options["aft_loss_distribution_scale"] = settings["scale"]
    options |= {"max_depth": settings["depth"], "eta": settings["rate"], "lambda": 1.0, "tree_method": "hist"}
    booster = xgb.train({**options, "nthread": threads, "seed": 0}, matrix, settings["trees"])
    seconds = time.perf_counter() - start
    sign = 1 if loss == "cox" else -1
    return seconds, lambda X: sign * booster.predict(xgb.DMatrix(X), output_margin=True)


def run(name, data, loss, settings, repeat, threads):
    X = data[0]
    makers = {
        "skboost": lambda train: fit_ours(loss, train, settings, threads),
        "XGBoost": lambda train: fit_xgboost(loss, train, settings, threads),
        "skboost (default)": lambda train: fit_ours(loss, train, settings, threads, plain=False),
    }
    found = {library: [] for library in makers}
    for seed in range(repeat):
        order = np.random.default_rng(seed).permutation(len(X))
        cut = int(0.7 * len(X))
        train, test = ([column[part] for column in data] for part in (order[:cut], order[cut:]))
        for library, fit in makers.items():
            seconds, risk = fit(train)
            y = np.c_[test[1], test[2]]
            found[library].append((seconds, concordance_index(y, risk(test[0]))))
    base = statistics.median(seconds for seconds, _ in found["skboost"])
    theirs = np.array([index for _, index in found["XGBoost"]])
    for library, runs in found.items():
        seconds, index = statistics.median(s for s, _ in runs), np.array([c for _, c in runs])
        error = (index - theirs).std(ddof=1) / np.sqrt(repeat) if repeat > 1 else np.nan
        print(
            f"   {name}, {loss}, {library}, {index.mean():.4f}, {(index - theirs).mean():+.4f}, {error:.4f}, "
            f"{seconds:.3f}, {seconds / base:.2f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["gbsg2", "kidney", "synthetic"])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="of failure times, for both")
    args = parser.parse_args()
    print("   data, loss, library, concordance, difference, error, seconds, ratio")
    for name in args.data:
        data = synthetic(args.rows) if name == "synthetic" else of_lifelines(name)
        settings = {**(LARGE if name == "synthetic" else SMALL), "scale": args.scale}
        for loss in ("cox", "aft"):
            run(name, data, loss, settings, args.repeat, args.threads)


if __name__ == "__main__":
    main()
