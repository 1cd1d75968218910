"""Coverage and size of split conformal intervals and sets over random splits, beside MAPIE on the same splits.

    python benchmarks/conformal.py --repeat 200

Regression: Friedman's first function and the diabetes data; classification: blobs of four classes and breast cancer.
Each split trains on 60 % of the rows, calibrates on 20 % and tests on 20 %. MAPIE gets a model of the same kind and
another draw of as many calibration rows, with the absolute error (regression) or one less the probability of the label
(classification) as its score; its columns stay empty where it is not installed.
"""

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, make_blobs, make_friedman1
from sklearn.model_selection import train_test_split

from skboost import SGLBClassifier, SGLBRegressor, VirtualEnsembleUncertainty

SMALL = {"n_estimators": 60, "max_depth": 3, "n_jobs": 1}
DATA = {
    "friedman1": ("regression", lambda: make_friedman1(1500, noise=1.0, random_state=0)),
    "diabetes": ("regression", lambda: load_diabetes(return_X_y=True)),
    "blobs": ("classes", lambda: make_blobs(1500, centers=4, cluster_std=3.0, random_state=0)),
    "breast_cancer": ("classes", lambda: load_breast_cancer(return_X_y=True)),
}


def of_mapie(task, model, X_cal, y_cal, X_test, y_test, alpha):
    """Return (coverage, mean size) by MAPIE, NaN where it is not installed."""
    try:
        from mapie.classification import SplitConformalClassifier
        from mapie.regression import SplitConformalRegressor
    except ImportError:
        return np.nan, np.nan
    if task == "regression":
        mapie = SplitConformalRegressor(model, confidence_level=1 - alpha, prefit=True).conformalize(X_cal, y_cal)
        low, high = mapie.predict_interval(X_test)[1][:, :, 0].T
        return np.mean((low <= y_test) & (y_test <= high)), np.mean(high - low)
    mapie = SplitConformalClassifier(model, confidence_level=1 - alpha, prefit=True).conformalize(X_cal, y_cal)
    sets = mapie.predict_set(X_test)[1][:, :, 0]
    return np.mean(sets[np.arange(len(y_test)), y_test]), sets.sum(axis=1).mean()


def one_split(task, X, y, seed, score, alpha):
    """Return (coverage, mean size) of ours and of MAPIE."""
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    inner = (SGLBRegressor if task == "regression" else SGLBClassifier)(**SMALL)
    wrapped = VirtualEnsembleUncertainty(inner, calibration_fraction=0.25, conformity_score=score, random_state=seed)
    wrapped.fit(X_fit, y_fit)
    if task == "regression":
        low, high = wrapped.predict_interval(X_test, alpha=alpha).T
        ours = np.mean((low <= y_test) & (y_test <= high)), np.mean(high - low)
    else:
        sets = wrapped.predict_set(X_test, alpha=alpha)
        ours = np.mean(sets[np.arange(len(y_test)), y_test]), sets.sum(axis=1).mean()
    X_train, X_cal, y_train, y_cal = train_test_split(X_fit, y_fit, test_size=0.25, random_state=seed)
    model = inner.set_params(random_state=seed).fit(X_train, y_train)
    return (*ours, *of_mapie(task, model, X_cal, y_cal, X_test, y_test, alpha))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--alpha", type=float, default=0.1)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    print("data,score,coverage,standard error,mean size,coverage of MAPIE,mean size of MAPIE")
    for name in a.data:
        task, load = DATA[name]
        X, y = load()
        for score in ("constant", "knowledge") if task == "regression" else ("lac", "aps"):
            found = np.array([one_split(task, X, y, seed, score, a.alpha) for seed in range(a.repeat)])
            mean, error = found.mean(axis=0), found[:, 0].std(ddof=1) / np.sqrt(a.repeat)
            print(f"{name},{score},{mean[0]:.4f},{error:.4f},{mean[1]:.4g},{mean[2]:.4f},{mean[3]:.4g}", flush=True)


if __name__ == "__main__":
    main()
