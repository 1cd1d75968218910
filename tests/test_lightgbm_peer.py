"""Stock LightGBM and skboost compute the same bits from the same files.

Runs where LightGBM can be imported, or with the interpreter that ``SKBOOST_LIGHTGBM_PYTHON`` names.
"""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
from test_lightgbm_terms import LOSSES as EBM_LOSSES
from test_lightgbm_terms import fitted as fitted_terms
from test_lightgbm_write import LOSSES, VARIANTS, edge_rows, fitted, table

from skboost import SGLBRegressor
from skboost.lightgbm import dumps, loads

VARIABLE = "SKBOOST_LIGHTGBM_PYTHON"
if VARIABLE not in os.environ and importlib.util.find_spec("lightgbm") is None:
    pytest.skip(f"LightGBM is not installed and {VARIABLE} not set", allow_module_level=True)

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
import sys, lightgbm, numpy as np, pandas as pd
X = pd.read_pickle(sys.argv[1] + "/X.pkl")
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


def run(code, *arguments):
    python = os.environ.get(VARIABLE, sys.executable)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [python, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("loss", LOSSES)
def test_written_models(loss, tmp_path):
    X = edge_rows(table()[0])
    np.save(tmp_path / "X.npy", X)
    policies = ("symmetric", "depthwise", "lossguide")
    models = [fitted(loss, grow_policy=policies[i % 3], **VARIANTS[name]) for i, name in enumerate(VARIANTS)]
    for index, model in enumerate(models):
        (tmp_path / f"{index}.txt").write_bytes(dumps(model).encode())
    run(PREDICT, tmp_path, len(models))
    for index in range(len(models)):
        text = (tmp_path / f"{index}.txt").read_bytes().decode()
        loaded, known = loads(text), np.load(tmp_path / f"{index}.npz")
        np.testing.assert_array_equal(loaded.raw_scores(X), known["raw"])
        np.testing.assert_array_equal(loaded.apply(X), known["leaf"])
        if loss in ("binary", "multiclass"):
            proba = loaded.predict_proba(X)
            np.testing.assert_allclose(proba[:, 1] if loss == "binary" else proba, known["pred"], rtol=1e-12)
        contributions = known["shap"].reshape(len(X), -1, X.shape[1] + 1).sum(axis=2)
        np.testing.assert_allclose(contributions, known["raw"].reshape(len(X), -1), atol=1e-9)
        # LightGBM keeps trees and description when it saves the model again.
        again = loads((tmp_path / f"{index}.again.txt").read_bytes())
        np.testing.assert_array_equal(again.predict(X), loaded.predict(X))
        np.testing.assert_array_equal(again.predict_virtual_ensembles(X, 2), loaded.predict_virtual_ensembles(X, 2))


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_written_terms(loss, tmp_path):
    model, X = fitted_terms(loss), edge_rows(table()[0])
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "0.txt").write_bytes(dumps(model).encode())
    run(PREDICT, tmp_path, 1)
    known = np.load(tmp_path / "0.npz")
    raw = model._raw(X)
    np.testing.assert_array_equal(raw, known["raw"].reshape(raw.shape))
    contributions = known["shap"].reshape(len(X), -1, X.shape[1] + 1).sum(axis=2)
    np.testing.assert_allclose(contributions, raw, atol=1e-9)


def test_frames_with_categories(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = table()
    frame = pd.DataFrame(X, columns=["a b", "c:d", "e", "f"])
    frame["f"] = frame["f"].astype("category")
    frame["text"] = pd.Categorical(np.array(["x", "y", "\u00fc", None], dtype=object)[np.arange(len(y)) % 4])
    model = SGLBRegressor(n_estimators=20, averaging="mean", random_state=0).fit(frame, y + (frame["text"] == "y"))
    frame["text"] = frame["text"].cat.set_categories(["new", "y", "\u00fc"])
    (tmp_path / "model.txt").write_bytes(dumps(model).encode())
    frame.to_pickle(tmp_path / "X.pkl")
    run(FRAME, tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "raw.npy"), model.predict(frame))


def test_models_trained_by_lightgbm(tmp_path):
    X, y = table(600)
    Z = edge_rows(X)
    Z[:, 1] = np.where(np.arange(len(Z)) % 5, Z[:, 1], 1e-36)
    np.savez(tmp_path / "data.npz", X=X, y=y, Z=Z)
    n_models = int(run(TRAIN, tmp_path).split()[-1])
    for index in range(n_models):
        model = loads((tmp_path / f"{index}.txt").read_bytes())
        np.testing.assert_array_equal(model.raw_scores(Z), np.load(tmp_path / f"{index}.npy"))
