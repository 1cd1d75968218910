"""Uncertainty of loaded models: the bits of the model that was written, and convergence of models that were not."""

from dataclasses import replace

import numpy as np
import pytest
from lightgbm_files import model_text, oracle
from sklearn.base import clone
from test_lightgbm_terms import fitted as fitted_terms
from test_lightgbm_write import LOSSES, POLICIES, VARIANTS, edge_rows, fitted, table

from skboost import SGLBRegressor
from skboost.inspection import UncertaintyDisplay
from skboost.lightgbm import dumps, loads

FIELDS = ("mean", "knowledge", "data", "total", "support", "member_iterations")


def assert_same(found, wanted):
    for name in FIELDS:
        one, other = getattr(found, name), getattr(wanted, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_array_equal(one, other, err_msg=name)


# ---- models that skboost wrote


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("policy", POLICIES)
def test_uncertainty_comes_back_to_the_bit(policy, loss, variant):
    model = fitted(loss, grow_policy=policy, **VARIANTS[variant])
    X = edge_rows(table()[0])
    X[::7] *= 3
    wanted = model.predict_uncertainty(X, n_members=2)
    assert_same(loads(dumps(model)).predict_uncertainty(X, n_members=2), wanted)
    assert wanted.knowledge.max() > 0
    if "posterior_sampling" not in VARIANTS[variant]:
        assert wanted.support.min() < 1


def test_default_members_are_those_of_the_estimator():
    for params in ({}, {"schedule": "cyclical", "cycle_length": 5}):
        model = fitted(**params)
        X = table()[0]
        assert_same(loads(dumps(model)).predict_uncertainty(X), model.predict_uncertainty(X))


def test_variance_of_empty_leaves_shrinks_with_the_model():
    """Two trees with an empty leaf each: the variance of the first is multiplied by the square of the second factor."""
    params = {"posterior_sampling": False, "langevin": True, "learning_rate": 0.5, "model_shrink_rate": 0.5}
    model = fitted(n_estimators=2, max_depth=2, **params)
    loaded = loads(dumps(model))
    chain = loaded._chain
    leaves = loaded.apply(table()[0])
    empties = [np.array([leaves[0, 0]]), np.array([leaves[0, 1]])]
    loaded._chain = replace(chain, empty_leaves=empties, empty_variance=2.0)
    _, _, variance, support = loaded._members(table()[0], 1)
    in_first, in_second = leaves[:, 0] == leaves[0, 0], leaves[:, 1] == leaves[0, 1]
    factor = chain.shrink_factors[1]
    assert factor == 0.75
    np.testing.assert_allclose(variance, 2.0 * (in_first * factor**2 + in_second))
    np.testing.assert_array_equal(support, 1 - (in_first * 1.0 + in_second) / 2)


def test_explainable_boosting_machines_have_no_uncertainty():
    with pytest.raises(ValueError, match="its bags are not in the file"):
        loads(dumps(fitted_terms())).predict_uncertainty(table()[0])


# ---- models that LightGBM trained


def test_knowledge_of_regression_is_the_variance_of_the_members():
    text, known = oracle("lgb470/regression_nan")
    model = loads(text)
    found = model.predict_uncertainty(known["X"], n_members=3)
    members = model.predict_virtual_ensembles(known["X"], n_members=3)
    np.testing.assert_allclose(found.mean, members.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found.knowledge, members.var(axis=0), rtol=1e-9, atol=1e-15)
    assert found.data is found.total is found.support is None
    np.testing.assert_array_equal(found.member_iterations, [8, 10, 12])


@pytest.mark.parametrize("name", ["binary_categorical", "binary_sigmoid2", "rf_binary", "multiclass3"])
def test_entropies_are_those_of_the_members(name):
    text, known = oracle(f"lgb470/{name}")
    model = loads(text)
    found = model.predict_uncertainty(known["X"], n_members=2)
    p = model.predict_virtual_ensembles(known["X"], n_members=2)
    np.testing.assert_allclose(found.mean, p.mean(axis=0), rtol=1e-12)
    data, total = -(p * np.log(p)).sum(axis=2).mean(axis=0), -(found.mean * np.log(found.mean)).sum(axis=1)
    np.testing.assert_allclose(found.data, data, rtol=1e-10)
    np.testing.assert_allclose(found.total, total, rtol=1e-10)
    assert (found.knowledge >= 0).all()
    assert found.knowledge.max() > 0
    assert found.support is None


@pytest.mark.parametrize("name", ["poisson", "l2_sqrt", "cross_entropy", "lambdarank", "rf_regression", "dart"])
def test_variances_are_on_the_scale_of_predictions(name):
    text, known = oracle(f"lgb470/{name}")
    model = loads(text)
    members = model.predict_virtual_ensembles(known["X"], n_members=2)
    found = model.predict_uncertainty(known["X"], n_members=2)
    np.testing.assert_allclose(found.knowledge, members.var(axis=0), rtol=1e-9, atol=1e-15)


def test_outputs_without_a_common_uncertainty_are_refused():
    model = loads(oracle("lgb470/multiclassova3")[0])
    with pytest.raises(ValueError, match="objective=multiclassova have no common uncertainty"):
        model.predict_uncertainty(np.zeros((1, model.n_features_in_)), n_members=1)
    two = model_text(*[{}] * 4, header={"num_class": "2", "num_tree_per_iteration": "2", "objective": None})
    with pytest.raises(ValueError, match="objective=custom have no common uncertainty: they are 2 predictions"):
        loads(two).predict_uncertainty(np.zeros((1, 2)), n_members=1)


def test_members_of_a_converged_model_agree():
    """Prefixes measure convergence: trees that add nothing make a sure model, whatever it has seen."""
    zero = {"leaf_value": "0 0"}
    found = loads(model_text({}, *[zero] * 19)).predict_uncertainty([[1e9, 0.0]])
    assert found.knowledge[0] == 0


# ---- what takes them


@pytest.mark.parametrize("kind", ["band", "map", "histogram", "retention", "members"])
@pytest.mark.parametrize("name", ["written", "cyclical", "labels", "lgb335/binary_categorical", "lgb470/dart"])
def test_displays_take_loaded_models(kind, name):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    params = {"schedule": "cyclical", "cycle_length": 5} if name == "cyclical" else {}
    own = {"written": "squared_error", "cyclical": "squared_error", "labels": "binary"}
    if name in own:
        model, X = loads(dumps(fitted(own[name], **params))), np.nan_to_num(table()[0])
    else:
        text, known = oracle(name)
        model, X = loads(text), np.nan_to_num(known["X"][:200]).clip(-100, 100)
    y = model.predict(X)
    options = {
        "band": {"features": 2},
        "map": {"features": (1, 2), "grid": 6},
        "retention": {"y": y},
        "members": {"y": y[:3]},
    }
    options = options.get(kind, {}) | ({} if kind == "members" else {"n_members": 2})
    if name == "labels" and kind == "members":
        options |= {"class_label": "c"}
    rows = {"inside": X, "outside": 3 * X} if kind == "histogram" else X[:3] if kind == "members" else X
    display = UncertaintyDisplay.from_estimator(model, rows, kind=kind, **options)
    assert display.ax_.has_data()
    plt.close(display.figure_)


def test_a_clone_is_the_model():
    model = loads(dumps(fitted()))
    assert clone(model) is model


def test_schedule_is_that_of_the_chain():
    assert loads(dumps(fitted())).schedule == "constant"
    assert loads(dumps(fitted(schedule="cyclical", cycle_length=6))).schedule == "cyclical"
    assert loads(model_text({})).schedule == "constant"


def test_frames_with_categories():
    pd = pytest.importorskip("pandas")
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcd")).astype({"d": "category"})
    model = SGLBRegressor(n_estimators=20, random_state=0).fit(frame, y)
    frame["d"] = frame["d"].cat.set_categories([7.0, 8.0])
    assert_same(loads(dumps(model)).predict_uncertainty(frame), model.predict_uncertainty(frame))
