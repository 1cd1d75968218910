"""Cases of shifted data for shifts.py: the rows of the domain, the shifted rows, and shifts made inside a domain."""

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

# Shifts that the data carry, and controls: a random part of the same domain played as shifted.
SHIFTS = [
    "california/inland", "california/north", "bike_hour/winter", "bike_hour/weather", "wine_quality/colour",
    "telco_churn/contract", "titanic/class", "adult/age", "adult/country", "bank/year2010", "elec2/market",
    "elec2/time", "ames/old", "ames/year", "covtype_20k/wilderness", "dry_bean/bombay",
]  # fmt: skip
CONTROLS = ["california/control", "bike_hour/control", "adult/control", "covtype_20k/control"]
REGRESSION = {"california", "bike_hour", "wine_quality", "ames"}
# Shifts made of the training rows alone: the ends of the first principal component, and clusters by size.
PSEUDO_SHIFTS = ["pc1-low", "pc1-high", "cluster-1", "cluster-2", "cluster-3"]
N_CLUSTERS = 6
FEWEST_SHIFTED = 20
TEST_SHARE = 0.25


@dataclass
class Parts:
    """Training rows, and test rows of the domain followed by shifted rows; classes are 0, 1, ..., unseen ones -1."""

    task: str
    X_train: pd.DataFrame
    y_train: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    shifted: np.ndarray

    @property
    def n_classes(self):
        return int(self.y_train.max()) + 1


def task_of(case):
    """Return "regression" or "classification"."""
    return "regression" if case.split("/")[0] in REGRESSION else "classification"


def read(name, folder):
    """Return (X, y, masks by shift, names of X's columns in the conditions of each shift) of one data set."""
    spec = importlib.util.spec_from_file_location("load", Path(folder) / "load.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["load"] = module
    spec.loader.exec_module(module)
    X, y, facts = module.load(name)
    words = {shift: set(re.findall(r"\w+", " ".join(pair.values()))) for shift, pair in facts["shift"].items()}
    return X, np.asarray(y), facts["shifts"], {k: [c for c in X.columns if c in w] for k, w in words.items()}


def make_parts(case, seed, folder, *, max_rows, max_shifted, hide=False, pseudo=None):
    """Return the `Parts` of one case and seed.

    With `hide` the columns that define the shift are left out. With `pseudo` the parts are made of the training rows
    alone, so no row that a test of the case uses is looked at.
    """
    name, shift = case.split("/")
    X, y, masks, defining = read(name, folder)
    if hide:
        X = X.drop(columns=defining.get(shift, []))
    rng = np.random.default_rng(seed)
    if shift == "control":
        order = rng.permutation(len(y))
        n_shifted = min(max_shifted, len(y) // 5)
        outside, inside = order[:n_shifted], order[n_shifted:]
    else:
        inside, outside = (rng.permutation(np.flatnonzero(mask)) for mask in masks[shift])
    inside = inside[: max_rows or None]
    n_test = round(TEST_SHARE * len(inside))
    test, train = inside[:n_test], inside[n_test:]
    if pseudo is not None:
        away = pseudo_shift(X.iloc[train], pseudo, seed)
        inside, outside = rng.permutation(train[~away]), rng.permutation(train[away])
        n_test = round(TEST_SHARE * len(inside))
        test, train = inside[:n_test], inside[n_test:]
    return _assemble(task_of(case), X, y, train, test, outside[:max_shifted])


def _assemble(task, X, y, train, test, outside):
    if task == "classification":
        classes = np.unique(y[train])
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        y = np.where(classes[codes] == y, codes, -1)
        test = test[y[test] >= 0]  # a class of which only a test row is left cannot be scored
    else:
        y = (y - y[train].mean()) / y[train].std()
    if len(outside) < FEWEST_SHIFTED:
        raise ValueError(f"only {len(outside)} shifted rows")
    rows = np.concatenate([test, outside])
    shifted = np.arange(len(rows)) >= len(test)
    return Parts(task, X.iloc[train], y[train], X.iloc[rows], y[rows], shifted)


def pseudo_shift(X, pseudo, seed):
    """Return a mask of the rows of X that play the shifted ones."""
    codes = Encoder(X).transform(X)
    spread = codes.std(axis=0)
    codes = (codes[:, spread > 0] - codes[:, spread > 0].mean(axis=0)) / spread[spread > 0]
    kind, which = pseudo.split("-")
    if kind == "pc1":
        direction = np.linalg.eigh(codes.T @ codes)[1][:, -1]
        # The sign of an eigenvector is arbitrary.
        position = codes @ (direction * np.sign(direction[np.abs(direction).argmax()]))
        position = position if which == "high" else -position
        return position > np.quantile(position, 0.9)
    label = KMeans(N_CLUSTERS, n_init=4, random_state=seed).fit_predict(codes)
    sizes = np.bincount(label, minlength=N_CLUSTERS)
    able = [k for k in np.argsort(-sizes, kind="stable") if 2 * sizes[k] <= len(label)]
    return label == able[int(which) - 1]


class Encoder:
    """Numbers for methods that know neither categories nor missing values: codes, and the medians of a frame."""

    def __init__(self, X):
        self.medians = np.nanmedian(self._codes(X), axis=0)

    @staticmethod
    def _codes(X):
        columns = [X[c].cat.codes.replace(-1, np.nan) if X[c].dtype == "category" else X[c] for c in X.columns]
        return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])

    def transform(self, X):
        codes = self._codes(X)
        return np.where(np.isnan(codes), self.medians, codes)
