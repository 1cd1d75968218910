"""The stored models of LightGBM, and small texts of models."""

import json
import os
from pathlib import Path

import numpy as np

FOLDER = Path(os.environ.get("SKBOOST_LIGHTGBM_ORACLE", Path(__file__).parent / "data" / "lightgbm"))
ORACLES = sorted(f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("lgb*/*.txt"))
STUMP = {
    "num_leaves": "2", "num_cat": "0", "split_feature": "0", "split_gain": "1", "threshold": "0.5",
    "decision_type": "8", "left_child": "-1", "right_child": "-2", "leaf_value": "1.25 -2.5", "shrinkage": "1",
}  # fmt: skip
HEADER = {
    "version": "v4", "num_class": "1", "num_tree_per_iteration": "1", "label_index": "0", "max_feature_idx": "1",
    "objective": "regression", "feature_names": "f0 f1", "feature_infos": "none none",
}  # fmt: skip


def oracle(name):
    """Return the text of a model and its arrays, rows under "X"."""
    with np.load(FOLDER / f"{name}.npz") as file:
        arrays = {key: file[key] for key in file.files}
    arrays.setdefault("X", arrays.get("X_codes"))
    return (FOLDER / f"{name}.txt").read_bytes().decode(), arrays


def stored_json(name):
    """Return the list of one of the JSON files."""
    return json.loads((FOLDER / name).read_text())


def model_text(*trees, header=None, tail=""):
    """Return a model with trees like a stump but for the given fields; a value None leaves a line out."""
    lines = ["tree", *_lines(HEADER | (header or {})), ""]
    for index, tree in enumerate(trees):
        lines += [f"Tree={index}", *_lines(STUMP | tree), "", ""]
    return "\n".join([*lines, "end of trees", tail])


def _lines(fields):
    return [f"{key}={value}" for key, value in fields.items() if value is not None]


def probabilities_or_values(model, X):
    """Return what LightGBM's ``predict`` returns: probabilities of class 1 of two classes, of all of more."""
    if not hasattr(model, "predict_proba"):
        return model.predict(X)
    found = model.predict_proba(X)
    return found[:, 1] if found.shape[1] == 2 else found
