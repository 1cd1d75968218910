"""Models of LightGBM are read as LightGBM reads them, to the bit."""

import pickle

import numpy as np
import pytest
from lightgbm_files import ORACLES, model_text, oracle, probabilities_or_values, stored_json
from sklearn.base import is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence, permutation_importance

from skboost.lightgbm import LoadedClassifier, LoadedRegressor, load, loads

NUMBERS = {None: np.nan, "inf": np.inf, "-inf": -np.inf}


def test_the_stored_models_are_there():
    assert len(ORACLES) == 38


@pytest.mark.parametrize("name", ORACLES)
def test_stored_models_give_the_bits_of_lightgbm(name):
    text, known = oracle(name)
    model = loads(text)
    np.testing.assert_array_equal(model.raw_scores(known["X"]), known["raw"])
    leaf = model.apply(known["X"])
    assert leaf.dtype == np.int32
    np.testing.assert_array_equal(leaf, known["leaf"].reshape(leaf.shape))
    if "pred" in known:
        found = probabilities_or_values(model, known["X"])
        np.testing.assert_allclose(found, known["pred"], rtol=2e-15, atol=0)


@pytest.mark.parametrize("name", ORACLES)
def test_importances_are_shares_of_the_gains_in_the_file(name):
    text, _ = oracle(name)
    model = loads(text)
    gain = np.zeros(model.n_features_in_)
    lines = [line.partition("=") for line in text.split("\n")]
    features = [value.split() for key, _, value in lines if key == "split_feature"]
    gains = [value.split() for key, _, value in lines if key == "split_gain"]
    for tree_features, tree_gains in zip(features, gains, strict=True):
        for feature, value in zip(tree_features, tree_gains, strict=True):
            gain[int(feature)] += float(value)
    expected = gain / gain.sum() if gain.sum() else gain
    np.testing.assert_allclose(model.feature_importances_, expected, rtol=1e-12)


@pytest.mark.parametrize("case", stored_json("handmade.json"), ids=lambda case: case["name"])
def test_handmade_models_give_the_bits_of_lightgbm(case):
    X = np.array([[NUMBERS.get(x, x) for x in row] for row in case["X"]], dtype=float)
    model = loads(case["model"])
    np.testing.assert_array_equal(model.raw_scores(X), case["raw"])
    np.testing.assert_allclose(probabilities_or_values(model, X), case["pred"], rtol=2e-15, atol=0)
    np.testing.assert_array_equal(loads(case["model"].replace("\n", "\r\n")).raw_scores(X), case["raw"])


def test_a_model_of_scikit_learn_gives_its_bits():
    text, known = oracle("from_sklearn_hgb")
    np.testing.assert_array_equal(loads(text).raw_scores(known["X"]), known["raw"])


@pytest.mark.parametrize("threshold", [5e-37, -5e-37])
def test_numbers_close_to_zero_are_zeros(threshold):
    model = loads(model_text({"threshold": repr(threshold)}))
    X = np.array([[0.0, 0], [1e-36, 0], [-1e-36, 0], [1e-34, 0], [-1e-34, 0]])
    zero = 1.25 if threshold > 0 else -2.5
    np.testing.assert_array_equal(model.raw_scores(X), [zero, zero, zero, -2.5, 1.25])


def test_load_reads_a_file(tmp_path):
    text, known = oracle("lgb470/multiclass3")
    path = tmp_path / "model.txt"
    path.write_bytes(text.encode())
    np.testing.assert_array_equal(load(path).raw_scores(known["X"]), known["raw"])
    np.testing.assert_array_equal(load(str(path)).raw_scores(known["X"]), known["raw"])
    np.testing.assert_array_equal(loads(text.encode()).raw_scores(known["X"]), known["raw"])


def test_prefix_members_are_the_models_of_fewer_trees():
    for name in ("lgb470/regression_nan", "lgb470/multiclass3", "lgb470/rf_regression", "lgb470/binary_categorical"):
        text, known = oracle(name)
        model = loads(text)
        members = model.predict_virtual_ensembles(known["X"], n_members=2)
        assert len(members) == 2
        for count, member in zip([model.n_iter_ - model.n_iter_ // 4, model.n_iter_], members, strict=True):
            shorter = loads(first_iterations(text, count))
            assert shorter.n_iter_ == count
            expected = shorter.predict_proba if is_classifier(model) else shorter.predict
            np.testing.assert_array_equal(member, expected(known["X"]))


def first_iterations(text, count):
    n_outputs = int(text.partition("num_tree_per_iteration=")[2].partition("\n")[0])
    head, _, rest = text.partition(f"Tree={count * n_outputs}\n")
    head = "\n".join(line for line in head.split("\n") if not line.startswith("tree_sizes="))
    return head + "end of trees" + rest.partition("end of trees")[2] if rest else head


def test_too_many_members_are_refused():
    model = loads(oracle("lgb470/poisson")[0])
    with pytest.raises(ValueError, match="n_members"):
        model.predict_virtual_ensembles(np.zeros((1, 5)), n_members=4)
    with pytest.raises(ValueError, match="n_members"):
        model.predict_virtual_ensembles(np.zeros((1, 5)))


def test_methods_of_a_random_forest():
    text, known = oracle("lgb470/rf_binary")
    model = loads(text)
    np.testing.assert_array_equal(model.decision_function(known["X"]), known["raw"] / model.n_iter_)
    np.testing.assert_array_equal(model.predict(known["X"]), model.predict_proba(known["X"])[:, 1] > 0.5)


def test_classifier_follows_scikit_learn():
    text, known = oracle("lgb470/multiclass3")
    model = loads(text)
    assert isinstance(model, LoadedClassifier)
    assert is_classifier(model)
    proba = model.predict_proba(known["X"])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(known["X"]), model.classes_[np.argmax(proba, axis=1)])
    np.testing.assert_array_equal(model.decision_function(known["X"]), known["raw"])
    assert 0 <= model.score(known["X"], np.zeros(len(known["X"]))) <= 1


def test_regressor_follows_scikit_learn():
    text, known = oracle("lgb335/regression_nan")
    model = loads(text)
    assert isinstance(model, LoadedRegressor)
    assert is_regressor(model)
    assert (model.objective_, model.n_iter_, model.n_features_in_) == ("regression", 12, 5)
    assert model.parameters_["boosting"] == "gbdt"
    assert model.feature_names_ == [f"Column_{i}" for i in range(5)]
    assert model.score(known["X"], known["raw"], np.isfinite(known["raw"])) == 1
    with pytest.raises(ValueError, match="has 4 features"):
        model.predict(known["X"][:, :4])
    with pytest.raises(NotImplementedError, match="cannot be fitted"):
        model.fit(known["X"], known["raw"])
    with pytest.raises(NotFittedError):
        LoadedRegressor().predict(known["X"])


def test_pickle_and_single_precision_change_nothing():
    text, known = oracle("lgb470/linear_tree")
    with np.errstate(over="ignore"):
        X = known["X"].astype(np.float32)
    model = loads(text)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).raw_scores(X), model.raw_scores(X))
    np.testing.assert_array_equal(model.raw_scores(X), model.raw_scores(X.astype(np.float64)))
    assert X.dtype == np.float32


def test_rows_are_not_written_to():
    X = np.array([[1e-36, 1e-36]])
    loads(model_text({})).predict(X)
    assert (X == 1e-36).all()


@pytest.mark.parametrize("version", ["lgb335", "lgb470"])
def test_categories_of_a_frame_are_looked_up(version):
    pd = pytest.importorskip("pandas")
    text, known = oracle(f"{version}/pandas_categorical")
    color = pd.Categorical([value if isinstance(value, str) else None for value in known["color"].tolist()])
    X = pd.DataFrame({"color": color, "size": pd.Categorical(known["size"]), "w": known["w"]})
    model = loads(text)
    np.testing.assert_array_equal(model.raw_scores(X), known["raw"])
    with pytest.raises(ValueError, match="1 categorical columns, the model was trained with 2"):
        model.predict(X.astype({"size": float}))


def test_frames_of_mixed_categories_and_missing_numbers():
    pd = pytest.importorskip("pandas")
    tree = {"num_cat": "1", "threshold": "0", "decision_type": "1", "cat_boundaries": "0 1"}
    text = model_text(*(tree | {"cat_threshold": str(2**code), "leaf_value": f"{10**code} 0"} for code in range(4)))
    model = loads(text + '\npandas_categorical:[["b", 2, "a", 1.5]]\n')
    values = ["a", 1.5, "b", 2, None, "c"]
    frame = pd.DataFrame({"x": pd.Categorical(values), "y": pd.array([1, None] * 3, dtype="Int64")})
    np.testing.assert_array_equal(model.predict(frame), [100, 1000, 1, 10, 0, 0])
    assert loads(model_text({"split_feature": "1"})).predict(frame.assign(x=0.0))[1] == -2.5
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"x": ["a", "b", None], "y": [0.0, 1.0, None]}, schema_overrides={"x": polars.Categorical})
    np.testing.assert_array_equal(model.predict(frame), [100, 1, 0])


def test_scikit_learn_takes_loaded_models_for_estimators():
    text, known = oracle("lgb470/binary_categorical")
    X, model = known["X"][:200], loads(text)
    y = (known["pred"][:200] > np.median(known["pred"][:200])).astype(int)
    calibrated = CalibratedClassifierCV(FrozenEstimator(model)).fit(X, y)
    assert calibrated.score(X, y) > 0.9
    importance = permutation_importance(model, X, model.predict(X), n_repeats=2, random_state=0).importances_mean
    assert (importance >= 0).all()
    assert importance.max() > 0.1
    regressor, known = loads(oracle("lgb470/regression_none")[0]), oracle("lgb470/regression_none")[1]
    curve = partial_dependence(regressor, known["X"][:100], [0], grid_resolution=5)["average"]
    assert np.ptp(curve) > 0.1


def test_a_custom_model_of_several_outputs_returns_them_all():
    model = loads(model_text({}, {"leaf_value": "3 4"}, header=dict.fromkeys(["num_class", "num_tree_per_iteration"], 2)
                  | {"objective": None}))  # fmt: skip
    np.testing.assert_array_equal(model.predict([[0.0, 0], [1, 0]]), [[1.25, 3], [-2.5, 4]])
    assert model.objective_ == "custom"
