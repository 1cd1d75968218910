"""Stock LightGBM and skboost compute the same bits from the same files.

Runs where LightGBM can be imported, or with the interpreters that ``SKBOOST_LIGHTGBM_PYTHON`` names, one for each
version of LightGBM, with the separator of paths between them.
"""

import functools
import importlib.util
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from test_lightgbm_losses import FAMILY, fitted_family
from test_lightgbm_terms import LOSSES as EBM_LOSSES
from test_lightgbm_terms import fitted as fitted_terms
from test_lightgbm_write import LOSSES, POLICIES, VARIANTS, edge_rows, fitted, table

from skboost import SGLBClassifier, SGLBRegressor
from skboost.lightgbm import dumps, loads

VARIABLE = "SKBOOST_LIGHTGBM_PYTHON"
if VARIABLE not in os.environ and importlib.util.find_spec("lightgbm") is None:
    pytest.skip(f"LightGBM is not installed and {VARIABLE} not set", allow_module_level=True)
PYTHONS = os.environ.get(VARIABLE, sys.executable).split(os.pathsep)

# LightGBM 3.3.5 asks for names that NumPy had then.
OLD_NAMES = """
import builtins, numpy
for name in ("bool", "int", "float", "object", "str", "complex"):
    vars(numpy).setdefault(name, getattr(builtins, name))
"""
PREDICT = """
import sys, lightgbm, numpy as np
X = np.load(sys.argv[1] + "/X.npy")
for index in range(int(sys.argv[2])):
    path = f"{sys.argv[1]}/{index}"
    booster = lightgbm.Booster(model_file=path + ".txt")
    shap = booster.predict(X, pred_contrib=True)
    raw, leaf = booster.predict(X, raw_score=True), booster.predict(X, pred_leaf=True)
    np.savez(path + ".npz", raw=raw, pred=booster.predict(X), leaf=leaf, shap=shap)
    open(path + ".again.txt", "w", newline="").write(booster.model_to_string(num_iteration=-1))
"""
FRAME = """
import json, sys, lightgbm, numpy as np, pandas as pd
def column(values, categories):
    if categories is None:
        return np.array(values, dtype=float)
    return pd.Categorical.from_codes(values, pd.Index(categories, dtype=object if categories[0] == "new" else float))
X = pd.DataFrame({name: column(*parts) for name, parts in json.load(open(sys.argv[1] + "/X.json")).items()})
np.save(sys.argv[1] + "/raw.npy", lightgbm.Booster(model_file=sys.argv[1] + "/model.txt").predict(X, raw_score=True))
"""
TRAIN = """
import sys, lightgbm, numpy as np
data = np.load(sys.argv[1] + "/data.npz")
params = dict(num_leaves=20, min_data_in_leaf=5, min_data_per_group=5, cat_smooth=1, verbose=-1, num_threads=1)
for index, extra in enumerate([{}, {"zero_as_missing": True}, {"linear_tree": True}, {"boosting": "dart"},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, {"use_missing": False}, {"extra_trees": True}]):
    train = lightgbm.Dataset(data["X"], data["y"], categorical_feature=[3], params=params | extra)
    booster = lightgbm.train(params | extra, train, 15)
    booster.save_model(f"{sys.argv[1]}/{index}.txt")
    np.save(f"{sys.argv[1]}/{index}.npy", booster.predict(data["Z"], raw_score=True))
print(index + 1)
"""


def environment():
    """Return the environment of other interpreters, which are not to import this skboost."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def run_with(python, code, *arguments):
    """Run code in an interpreter with LightGBM, and return what it prints."""
    command = [python, "-c", OLD_NAMES + code, *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=PYTHONS)
def run(request):
    """Return `run_with` an interpreter."""
    return functools.partial(run_with, request.param)


def predictions_of(run, folder, models, X):
    """Write models, let LightGBM predict, and yield the text and what LightGBM says of each."""
    np.save(folder / "X.npy", X)
    for index, model in enumerate(models):
        (folder / f"{index}.txt").write_bytes(dumps(model).encode())
    run(PREDICT, folder, len(models))
    for index in range(len(models)):
        with np.load(folder / f"{index}.npz") as known:
            yield folder / f"{index}.txt", dict(known)


def assert_contributions(known, X):
    """Check that TreeSHAP adds up to the raw scores."""
    contributions = known["shap"].reshape(len(X), -1, X.shape[1] + 1).sum(axis=2)
    np.testing.assert_allclose(contributions, known["raw"].reshape(len(X), -1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_written_models(run, loss, tmp_path):
    X = edge_rows(table()[0])
    models = [
        fitted(loss, grow_policy=policy, **VARIANTS[name]) for policy, name in itertools.product(POLICIES, VARIANTS)
    ]
    for model, (path, known) in zip(models, predictions_of(run, tmp_path, models, X), strict=True):
        loaded = loads(path.read_bytes())
        np.testing.assert_array_equal(loaded.raw_scores(X), known["raw"])
        np.testing.assert_array_equal(loaded.apply(X), known["leaf"])
        if model.averaging == "mean" or (not model.posterior_sampling and model.model_shrink_rate is None):
            np.testing.assert_array_equal(known["raw"], model._raw(X).reshape(known["raw"].shape))
        else:
            np.testing.assert_allclose(known["raw"], model._raw(X).reshape(known["raw"].shape), rtol=0, atol=1e-13)
        predicted = loaded.predict_proba(X) if loss in ("binary", "multiclass") else loaded.predict(X)
        if loss != "gaussian":
            np.testing.assert_allclose(predicted[:, 1] if loss == "binary" else predicted, known["pred"], rtol=1e-12)
        assert_contributions(known, X)
        # LightGBM keeps trees and description when it saves the model again.
        again = loads(path.with_suffix(".again.txt").read_bytes())
        np.testing.assert_array_equal(again.predict(X), loaded.predict(X))
        one, other = again.predict_uncertainty(X, 2), model.predict_uncertainty(X, 2)
        np.testing.assert_array_equal(one.knowledge, other.knowledge)
        np.testing.assert_array_equal(one.support, other.support)


STOPPED = {"early_stopping": True, "n_iter_no_change": 3, "learning_rate": 0.9, "n_estimators": 60}
STOPPED |= {"averaging": "last", "posterior_sampling": False}
TRAINED = {
    "no categories": {"categorical_features": None},
    "newton": {"leaf_estimation": "newton"},
    "rows and columns": {"subsample": 0.5, "max_features": 0.5},
    "monotonic": {"monotonic_cst": [0, 0, 1, 0]},
    "interactions": {"interaction_cst": [{0, 1}, {2, 3}]},
    "few bins": {"max_bins": 4},
    "deep": {"max_depth": 9, "min_samples_leaf": 1},
    "stopped": STOPPED,
    "no prior splits": {"prior_split_rate": 0},
    "temperature": {"diffusion_temperature": 100.0},
    "bootstrap": {"schedule": "cyclical", "cycle_length": 5, "bootstrap_fraction": 0.5},
    "one tree": {"n_estimators": 1},
}


def test_written_models_of_all_parameters(run, tmp_path):
    X = edge_rows(table()[0])
    models = [fitted(**{"averaging": "mean", "n_estimators": 10} | params) for params in TRAINED.values()]
    for model, (_, known) in zip(models, predictions_of(run, tmp_path, models, X), strict=True):
        np.testing.assert_array_equal(known["raw"], model._raw(X)[:, 0])
        assert_contributions(known, X)


def test_written_models_with_weights(run, tmp_path):
    X, y = table()
    weight = np.linspace(0.0, 2.0, len(y))
    params = {"n_estimators": 10, "averaging": "mean", "categorical_features": [3], "random_state": 0}
    regressor = SGLBRegressor(**params).fit(X, y, weight)
    classifier = SGLBClassifier(class_weight="balanced", **params).fit(X, y > 0.9)
    for model, (_, known) in zip(
        (regressor, classifier), predictions_of(run, tmp_path, (regressor, classifier), X), strict=True
    ):
        np.testing.assert_array_equal(known["raw"], model._raw(X)[:, 0])
        assert_contributions(known, X)


def test_written_models_of_the_family_of_losses(run, tmp_path):
    X = edge_rows(table()[0])
    models = [fitted_family(name, averaging="mean", n_estimators=10) for name in FAMILY]
    for name, model, (_, known) in zip(FAMILY, models, predictions_of(run, tmp_path, models, X), strict=True):
        np.testing.assert_array_equal(known["raw"], model._raw(X).reshape(known["raw"].shape))
        if FAMILY[name][1] is not None:
            wanted = model.predict_proba(X) if name == "several labels" else model.predict(X)
            np.testing.assert_allclose(known["pred"], wanted, rtol=1e-12)
        assert_contributions(known, X)


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_written_terms(run, loss, tmp_path):
    X = edge_rows(table()[0])
    models = [fitted_terms(loss), fitted_terms(loss, interactions=0, categorical_features=None, max_bins=12)]
    for model, (_, known) in zip(models, predictions_of(run, tmp_path, models, X), strict=True):
        raw = model._raw(X)
        np.testing.assert_array_equal(raw, known["raw"].reshape(raw.shape))
        assert_contributions(known, X)


def test_frames_with_categories(run, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = table()
    frame = pd.DataFrame(X, columns=["a b", "c:d", "e", "f"])
    frame["f"] = frame["f"].astype("category")
    frame["text"] = pd.Categorical(np.array(["x", "y", "\u00fc", None], dtype=object)[np.arange(len(y)) % 4])
    model = SGLBRegressor(n_estimators=20, averaging="mean", random_state=0).fit(frame, y + (frame["text"] == "y"))
    frame["text"] = frame["text"].cat.set_categories(["new", "y", "\u00fc"])
    (tmp_path / "model.txt").write_bytes(dumps(model).encode())
    # As plain lists, since the other pandas may be of another version.
    columns = {
        name: (column.cat.codes.tolist(), column.cat.categories.tolist())
        if column.dtype == "category"
        else (column.tolist(), None)
        for name, column in frame.items()
    }
    (tmp_path / "X.json").write_text(json.dumps(columns))
    run(FRAME, tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "raw.npy"), model.predict(frame))


def test_models_trained_by_lightgbm(run, tmp_path):
    X, y = table(600)
    Z = edge_rows(X)
    Z[:, 1] = np.where(np.arange(len(Z)) % 5, Z[:, 1], 1e-36)
    np.savez(tmp_path / "data.npz", X=X, y=y, Z=Z)
    n_models = int(run(TRAIN, tmp_path).split()[-1])
    for index in range(n_models):
        model = loads((tmp_path / f"{index}.txt").read_bytes())
        np.testing.assert_array_equal(model.raw_scores(Z), np.load(tmp_path / f"{index}.npy"))
