"""TreeSHAP through written models: contributions add up, and those of additive models are their terms.

Runs where LightGBM can be imported, or with the interpreters that ``SKBOOST_LIGHTGBM_PYTHON`` names; the parts with the
shap package where these have it.
"""

import subprocess

import numpy as np
import pytest
from test_lightgbm_peer import PYTHONS, environment, run_with
from test_lightgbm_peer import run as run  # a fixture
from test_lightgbm_terms import fitted as fitted_terms
from test_lightgbm_write import edge_rows, fitted, table

from skboost.lightgbm import dumps, loads

# The package keeps leaves in single precision where it is given background rows.
SINGLE = 1e-6
CONTRIBUTIONS = """
import sys, lightgbm, numpy as np
X = np.load(sys.argv[1] + "/X.npy")
booster = lightgbm.Booster(model_file=sys.argv[1] + "/model.txt")
np.save(sys.argv[1] + "/shap.npy", booster.predict(X, pred_contrib=True))
"""
EXPLAIN = """
import sys, lightgbm, shap, numpy as np
X = np.load(sys.argv[1] + "/X.npy")
booster = lightgbm.Booster(model_file=sys.argv[1] + "/model.txt")
by_path = shap.TreeExplainer(booster)
given = shap.TreeExplainer(booster, X[:50], feature_perturbation="interventional")
np.savez(sys.argv[1] + "/shap.npz", by_path=by_path.shap_values(X), start=by_path.expected_value,
         given=given.shap_values(X, check_additivity=False), given_start=given.expected_value)
"""


@pytest.fixture(scope="module")
def shap_python():
    """Return an interpreter that can import LightGBM and shap."""
    for python in PYTHONS:
        code = "import shap, lightgbm; assert int(lightgbm.__version__[0]) >= 4"
        if not subprocess.run([python, "-c", code], env=environment(), capture_output=True).returncode:
            return python
    return pytest.skip("shap is not installed")


def write(folder, model, X):
    np.save(folder / "X.npy", X)
    (folder / "model.txt").write_bytes(dumps(model).encode())


def numeric_table():
    X, y = table()
    return np.nan_to_num(X), y


def term_columns(model, X):
    """Return what each column adds in a model of main effects, in the order of the columns."""
    columns = np.zeros(X.shape)
    for (feature,), scores in zip(model.term_features_, model.eval_terms(X).T, strict=True):
        columns[:, feature] = scores
    return columns


def test_contributions_of_main_effects_are_the_terms(run, tmp_path):
    """A tree for each term, so that there is nothing to share out: the term less its mean over the training rows."""
    X = table()[0]
    model = fitted_terms(interactions=0)
    write(tmp_path, model, edge_rows(X))
    run(CONTRIBUTIONS, tmp_path)
    found = np.load(tmp_path / "shap.npy")
    means = np.zeros(X.shape[1])
    for (feature,), scores, weights in zip(model.term_features_, model.term_scores_, model.bin_weights_, strict=True):
        means[feature] = weights @ scores / weights.sum()
    wanted = term_columns(model, edge_rows(X)) - means
    # Cells without rows count for one row in the file, since TreeSHAP divides by the counts.
    offset = found[:, :-1] - wanted
    np.testing.assert_allclose(offset, np.broadcast_to(offset[:1], offset.shape), rtol=0, atol=1e-12)
    np.testing.assert_allclose(offset[0], 0, atol=0.05)
    np.testing.assert_allclose(found.sum(axis=1), model._raw(edge_rows(X))[:, 0], rtol=0, atol=1e-12)


def test_contributions_of_pairs_are_shared_by_their_columns(run, tmp_path):
    X = table()[0]
    model = fitted_terms(interactions=[(0, 2)])
    write(tmp_path, model, X)
    run(CONTRIBUTIONS, tmp_path)
    found, terms = np.load(tmp_path / "shap.npy"), model.eval_terms(X)
    (pair,) = (t for t, features in enumerate(model.term_features_) if len(features) == 2)
    mains = np.column_stack([terms[:, [t]] for t in range(len(model.term_features_)) if t != pair])
    rest = found[:, [0, 2]].sum(axis=1) - mains[:, [0, 2]].sum(axis=1) - terms[:, pair]
    np.testing.assert_allclose(rest, rest[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", ["squared_error", "binary"])
def test_the_shap_package_explains_a_chain(shap_python, loss, tmp_path):
    X, y = numeric_table()
    model = fitted(loss, X, y, categorical_features=None, grow_policy="lossguide")
    write(tmp_path, model, X)
    run_with(shap_python, EXPLAIN, tmp_path)
    raw = loads((tmp_path / "model.txt").read_bytes()).raw_scores(X)
    with np.load(tmp_path / "shap.npz") as found:
        for values, start, error in (("by_path", "start", 1e-12), ("given", "given_start", SINGLE)):
            np.testing.assert_allclose(found[values].sum(axis=-1) + found[start], raw, rtol=0, atol=error)
    np.testing.assert_allclose(raw, model._raw(X)[:, 0], rtol=0, atol=1e-12)


def test_the_shap_package_returns_the_terms_of_main_effects(shap_python, tmp_path):
    """Interventional values of an additive model: a term less its mean over the background rows."""
    X, y = numeric_table()
    model = fitted_terms("squared_error", X, y, interactions=0, categorical_features=None)
    write(tmp_path, model, X)
    run_with(shap_python, EXPLAIN, tmp_path)
    terms = term_columns(model, X)
    with np.load(tmp_path / "shap.npz") as found:
        np.testing.assert_allclose(found["given"], terms - terms[:50].mean(axis=0), rtol=0, atol=SINGLE)
