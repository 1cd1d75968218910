"""Saved models are the same models: pickle, joblib with memory maps, copies, other processes; and they are small."""

import copy
import hashlib
import io
import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
from fit_cases import (
    EBM_LOSSES,
    LOSSES,
    POLICIES,
    assert_same_ebm,
    assert_same_model,
    make_data,
    make_ebm,
    make_estimator,
)

import skboost
from skboost import SGLBRegressor

PARAMS = {"categorical_features": [3], "max_features": 0.75}


def fitted(loss, **params):
    X, y = make_data(loss, n=150)
    X[:, 3] = np.round(2 * X[:, 3])
    return make_estimator(loss, **{**PARAMS, **params}).fit(X, y), X, y


@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_pickle_and_copies(loss, grow_policy):
    model, X, _ = fitted(loss, grow_policy=grow_policy)
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        assert_same_model(pickle.loads(pickle.dumps(model, protocol)), model, X)
    assert_same_model(copy.deepcopy(model), model, X)
    assert_same_model(copy.copy(model), model, X)
    assert_same_model(pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(model)))), model, X)


@pytest.mark.parametrize("loss", LOSSES)
def test_unfitted_estimators_are_saved_too(loss):
    model, X, y = fitted(loss)
    empty = pickle.loads(pickle.dumps(make_estimator(loss, **PARAMS)))
    assert_same_model(empty.fit(X, y), model, X)


@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_joblib_with_memory_maps(loss, grow_policy, tmp_path):
    model, X, _ = fitted(loss, grow_policy=grow_policy)
    path = tmp_path / "model.joblib"
    joblib.dump(model, path)
    assert_same_model(joblib.load(path), model, X)
    mapped = joblib.load(path, mmap_mode="r")
    assert isinstance(mapped._forest.leaf_value, np.memmap) or isinstance(mapped._forest.leaf_value.base, np.memmap)
    assert_same_model(mapped, model, X)
    assert_same_model(pickle.loads(pickle.dumps(mapped)), model, X)
    joblib.dump(model, tmp_path / "small.joblib", compress=3)
    assert_same_model(joblib.load(tmp_path / "small.joblib"), model, X)


@pytest.mark.parametrize("loss", LOSSES)
def test_warm_start_goes_on_after_loading(loss, tmp_path):
    model, X, y = fitted(loss, warm_start=True, n_estimators=6)
    joblib.dump(model, tmp_path / "model.joblib")
    for loaded in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib", mmap_mode="r")):
        loaded.set_params(n_estimators=12).fit(X, y)
        assert_same_model(loaded, fitted(loss)[0], X)
    assert model.n_iter_ == 6


SCRIPT = """
import hashlib, pickle, sys
sys.path[:0] = {path!r}
with open({file!r}, "rb") as file:
    models, X = pickle.load(file)
for model in models:
    digest = hashlib.sha256()
    members = model.predict_virtual_ensembles(X, 3)
    for array in (model._raw(X), model.apply(X), members, model.predict_uncertainty(X).knowledge):
        digest.update(array.tobytes())
    print(digest.hexdigest())
"""


def test_a_fresh_process_predicts_the_same_bits(tmp_path):
    models = [fitted(loss, grow_policy=policy, n_estimators=20)[0] for loss in LOSSES for policy in POLICIES]
    X = fitted("squared_error")[1]
    file = tmp_path / "models.pickle"
    file.write_bytes(pickle.dumps((models, X)))
    root = os.path.dirname(os.path.dirname(skboost.__file__))
    script = SCRIPT.format(path=[root], file=str(file))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    expected = []
    for model in models:
        digest = hashlib.sha256()
        members = model.predict_virtual_ensembles(X, 3)
        for array in (model._raw(X), model.apply(X), members, model.predict_uncertainty(X).knowledge):
            digest.update(array.tobytes())
        expected.append(digest.hexdigest())
    assert done.stdout.split() == expected


@pytest.mark.parametrize("grow_policy", POLICIES)
def test_size_of_pickles(grow_policy):
    """What defines the trees and the thresholds; neither what is derived from them nor data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 8))
    y = np.sin(X).sum(axis=1)
    model = SGLBRegressor(n_estimators=100, grow_policy=grow_policy, random_state=0).fit(X, y)
    defining = sum(array.nbytes for array in model._forest.to_dict()["arrays"].values())
    thresholds = 8 * 256 * 8
    assert len(pickle.dumps(model)) < defining + thresholds + 10_000
    # At most 64 leaves, 63 nodes or 64 table entries per tree.
    assert defining < 100 * (64 * 16 + 63 * 26 + 100)


@pytest.mark.parametrize("grow_policy", POLICIES)
def test_tampered_models_are_refused(grow_policy):
    """What leads out of an array raises, on loading or, where trees, thresholds and rows meet, on predicting."""
    model, X, _ = fitted("squared_error", grow_policy=grow_policy)
    tampered = copy.deepcopy(model)
    tampered._forest.node_offset = tampered._forest.node_offset + 1000
    text = pickle.dumps(tampered)
    with pytest.raises(ValueError, match="Malformed forest"):
        pickle.loads(text)
    tampered = copy.deepcopy(model)
    tampered._forest.feature = tampered._forest.feature + np.int32(100)
    loaded = pickle.loads(pickle.dumps(tampered))
    for predict in (loaded.predict, loaded.apply):
        with pytest.raises(ValueError, match="The forest uses feature"):
            predict(X)


def test_state_holds_arrays_and_plain_values_only():
    """What a pickle needs beyond NumPy is skboost's own few classes."""
    model, _, _ = fitted("multiclass")
    text = pickle.dumps(model)
    wanted = set()

    class Reader(pickle.Unpickler):
        def find_class(self, module, name):
            wanted.add(module.split(".")[0])
            return super().find_class(module, name)

    Reader(io.BytesIO(text)).load()
    assert wanted <= {"skboost", "numpy", "builtins", "copyreg", "_codecs"}
    assert "skboost" in wanted


# ---- additive models


def fitted_ebm(loss, **params):
    X, y = make_data(loss, n=150)
    X[:, 3] = np.round(2 * X[:, 3])
    return make_ebm(loss, **{"categorical_features": [3], **params}).fit(X, y), X, y


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_additive_models_are_saved(loss, tmp_path):
    model, X, y = fitted_ebm(loss)
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        assert_same_ebm(pickle.loads(pickle.dumps(model, protocol)), model, X)
    assert_same_ebm(copy.deepcopy(model), model, X)
    assert_same_ebm(copy.copy(model), model, X)
    path = tmp_path / "model.joblib"
    joblib.dump(model, path)
    mapped = joblib.load(path, mmap_mode="r")
    assert_same_ebm(mapped, model, X)
    assert_same_ebm(pickle.loads(pickle.dumps(mapped)), model, X)
    empty = pickle.loads(pickle.dumps(make_ebm(loss, categorical_features=[3])))
    assert_same_ebm(empty.fit(X, y), model, X)


def test_pickles_of_additive_models_are_small():
    """Scores of every bag, their means and the weights; neither deviations, which follow, nor data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 8))
    model = make_ebm("squared_error", max_bins=256).fit(X, np.sin(X).sum(axis=1))
    n_cells = sum(weights.size for weights in model.bin_weights_)
    assert model.standard_deviations_[0].any()
    assert len(pickle.dumps(model)) < 8 * n_cells * (3 + 2) + 8 * 256 * 8 * 4 + 20_000


def test_state_of_additive_models_holds_arrays_and_plain_values_only():
    text = pickle.dumps(fitted_ebm("multiclass")[0])
    wanted = set()

    class Reader(pickle.Unpickler):
        def find_class(self, module, name):
            wanted.add(module.split(".")[0])
            return super().find_class(module, name)

    Reader(io.BytesIO(text)).load()
    assert wanted <= {"skboost", "numpy", "builtins", "copyreg", "_codecs"}


@pytest.mark.parametrize("name", ["cut_values", "coarse_cells", "cell_offset"])
def test_tampered_additive_models_are_refused(name):
    model, _, _ = fitted_ebm("squared_error")
    setattr(model._mapper, name, getattr(model._mapper, name)[::-1].copy())
    text = pickle.dumps(model)
    with pytest.raises(ValueError, match="Malformed cell mapper"):
        pickle.loads(text)


EBM_SCRIPT = """
import hashlib, pickle, sys
sys.path[:0] = {path!r}
with open({file!r}, "rb") as file:
    models, X = pickle.load(file)
for model in models:
    digest = hashlib.sha256()
    for array in (model._raw(X), model._bagged_raw(X), model.predict_uncertainty(X).knowledge):
        digest.update(array.tobytes())
    print(digest.hexdigest())
"""


def test_a_fresh_process_predicts_the_same_bits_with_additive_models(tmp_path):
    models = [fitted_ebm(loss)[0] for loss in EBM_LOSSES]
    X = fitted_ebm("squared_error")[1]
    file = tmp_path / "models.pickle"
    file.write_bytes(pickle.dumps((models, X)))
    root = os.path.dirname(os.path.dirname(skboost.__file__))
    script = EBM_SCRIPT.format(path=[root], file=str(file))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    expected = []
    for model in models:
        digest = hashlib.sha256()
        for array in (model._raw(X), model._bagged_raw(X), model.predict_uncertainty(X).knowledge):
            digest.update(array.tobytes())
        expected.append(digest.hexdigest())
    assert done.stdout.split() == expected
