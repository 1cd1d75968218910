"""Models as dictionaries: exact round trips through JSON, and refusal of everything that does not fit together."""

import copy
import json
import warnings

import numpy as np
import pytest
from fit_cases import CLASSIFICATION_LOSSES, EBM_LOSSES, assert_same_ebm, make_data, make_ebm

from skboost.ebm import EBMClassifier, EBMRegressor

CLASSES = {"int": [3, -1], "str": ["no", "yes"], "bool": [False, True], "float": [0.0, 1.0]}


def fitted(loss="squared_error", **params):
    X, y = make_data(loss)
    X[:, 3] = np.round(X[:, 3])
    params = {"categorical_features": [3], "interactions": [(0, 1), (2, 3)], **params}
    return make_ebm(loss, **params).fit(X, y), X


def through_json(model):
    return type(model).from_dict(json.loads(json.dumps(model.to_dict(), allow_nan=False)))


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_round_trip_is_exact(loss):
    model, X = fitted(loss)
    for again in (through_json(model), type(model).from_dict(model.to_dict())):
        odd = np.vstack([X, [[np.nan, np.inf, -np.inf, 99]]])
        assert_same_ebm(again, model, odd)
        assert type(again.intercept_) is type(model.intercept_)
        np.testing.assert_array_equal(again.predict(odd), model.predict(odd))
        for one, other in zip(again.bins_, model.bins_, strict=True):
            np.testing.assert_equal(one, other)
        for name in ("histogram_edges_", "histogram_weights_", "feature_bounds_"):
            np.testing.assert_equal(getattr(again, name), getattr(model, name))
        assert again.feature_types_in_ == model.feature_types_in_
        assert again.to_dict() == model.to_dict()
        assert vars(again).keys() == vars(model).keys()


def test_edited_and_empty_models_come_back():
    model, X = fitted()
    model.scale_term(0, 1 / 3).monotonize(1).remove_terms([2])
    assert_same_ebm(through_json(model), model, X)
    model.remove_terms([True] * len(model.term_names_))
    assert_same_ebm(through_json(model), model, X)
    again = through_json(model)
    assert again.fit(X, np.arange(len(X))) is again


@pytest.mark.parametrize("kind", CLASSES)
def test_class_labels_keep_their_type(kind):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.array(CLASSES[kind])[(X[:, 0] > 0).astype(int)]
    for labels in (y, y.astype(object)) if kind == "str" else (y,):
        model = make_ebm("binary", interactions=0).fit(X, labels)
        again = through_json(model)
        assert again.classes_.dtype == model.classes_.dtype
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_frames_and_texts():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=80), "c": rng.choice(["x", "ü", "x & y", ""], 80)})
    X["m"] = pd.Categorical(rng.choice([1, 2.5, "b", np.inf], 80))
    model = make_ebm(interactions=[("a", "c")]).fit(X, X["a"])
    again = through_json(model)
    assert_same_ebm(again, model, X)
    assert again.feature_names_in_.tolist() == ["a", "c", "m"]
    assert again.feature_names_in_.dtype == model.feature_names_in_.dtype
    with pytest.raises(ValueError, match="feature names"):
        again.predict(X[["c", "a", "m"]])


def test_parameters_come_back():
    model, _ = fitted(monotonic_cst=np.array([0, 0, 0, 0]), random_state=np.random.RandomState(0), n_jobs=2)
    told = model.to_dict()["params"]
    assert told["random_state"] is None
    assert told["monotonic_cst"] == [0, 0, 0, 0]
    again = through_json(model)
    assert again.get_params()["max_bins"] == model.max_bins
    assert again.get_params()["interactions"] == [[0, 1], [2, 3]]
    model.set_params(callback=print)
    assert model.to_dict()["params"]["callback"] is None


def test_the_other_estimator_and_other_formats_are_refused():
    model, _ = fitted()
    told = model.to_dict()
    with pytest.raises(ValueError, match="holds an 'EBMRegressor', not an EBMClassifier"):
        EBMClassifier.from_dict(told)
    for change in ({"format": "other"}, {"version": 2}, {"version": None}):
        with pytest.raises(ValueError, match=r"this skboost reads 'skboost\.ebm', version 1"):
            EBMRegressor.from_dict({**told, **change})
    for other in (None, [], "text", 3):
        with pytest.raises(ValueError, match="Malformed model dictionary: it is a"):
            EBMRegressor.from_dict(other)


def leaves(value, path=()):
    """Yield the path of every dict entry and of the first entries of every list."""
    if isinstance(value, dict):
        for key in value:
            yield (*path, key)
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for position in range(min(len(value), 2)):
            yield (*path, position)
            yield from leaves(value[position], (*path, position))


def changed(told, path, change):
    told = copy.deepcopy(told)
    place = told
    for step in path[:-1]:
        place = place[step]
    change(place, path[-1])
    return told


def put(value):
    def change(place, key):
        place[key] = value

    return change


def drop(place, key):
    del place[key]


HOSTILE = [drop, *map(put, [None, "text", -1, 1e400, float("nan"), 10**400, [], {}, [[]], True, 3.5, 2**40, "inf"])]


@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_no_damaged_dictionary_crashes(loss):
    """Whatever is changed, either the model is refused with a message or it predicts numbers of the right shape."""
    model, X = fitted(loss, outer_bags=2, max_bins=8, max_interaction_bins=6)
    told, cls = model.to_dict(), type(model)
    n_refused = 0
    for path in leaves(told):
        for change in HOSTILE:
            damaged = changed(told, path, change)
            try:
                again = cls.from_dict(damaged)
            except ValueError:
                n_refused += 1
                continue
            with np.errstate(over="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of columns that have names, or have none
                assert again.predict(X).shape == (len(X),)
                again.eval_terms(X)
                again.shape_functions()
    assert n_refused > 1000


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("terms", 0, "features"), [0, 1, 2], "a term of the features"),
        (("terms", 0, "features"), [4], "a term of the features"),
        (("terms", 1, "features"), [0], "a term of the features"),
        (("terms", 4, "features"), [1, 0], "a term of the features"),
        (("terms", 0, "scores"), [0.0, 1.0], "'scores' of the term 'x0' has the shape"),
        (("terms", 0, "weights"), [-1.0], "'weights' of the term 'x0' has the shape"),
        (("bag_weights",), [0.0, 1.0, 1.0], "'bag_weights' are not positive"),
        (("bag_weights",), [], "'bag_weights' are not positive"),
        (("intercept",), [0.0, 1.0], "'intercept' has the shape"),
        (("features", 0, "cuts"), [2.0, 1.0], "Malformed cell mapper"),
        (("features", 0, "pair_cells"), [0, 9, 9, 1], "Malformed cell mapper"),
        (("features", 3, "levels", "numbers"), [1.0, 0.0], "do not ascend"),
        (("features", 3, "levels", "texts"), [1], "no text"),
        (("features", 0, "kind"), "ordinal", "the kind of the feature 'x0' is 'ordinal'"),
        (("features",), [], "it has no features"),
        (("params", "max_bins"), 2, "max_bins"),
        (("params", "n_estimators"), 2, "unknown parameters"),
        (("link",), "log", "the link is 'log', not 'identity'"),
        (("classes",), {"dtype": "<i8", "labels": [0, 1]}, "classes do not go with this estimator"),
    ],
)
def test_what_does_not_fit_is_named(path, value, message):
    model, _ = fitted()
    with pytest.raises(ValueError, match=message):
        EBMRegressor.from_dict(changed(model.to_dict(), path, put(value)))


REFUSED = {
    "n_jobs": [0, 1.5, "2"],
    "validation_size": [1.5, -1, None, True],
    "interactions": ["3y", -1, 1.5, True],
    "exclude": [1, 0.5, "all"],
    "power": [1.7, 2.5, None],
    "max_rounds": [-1, 2.5],
    "learning_rate": [0, "inf"],
    "random_state": [-1, "0"],
    "verbose": [-1],
}


@pytest.mark.parametrize("loss", ["squared_error", "binary"])
def test_parameters_that_no_fit_takes_are_refused(loss):
    """Also those that are fine on their own, or whose range only the fit knows."""
    model, _ = fitted(loss)
    told = model.to_dict()
    for name in set(told["params"]) & set(REFUSED):
        for value in REFUSED[name]:
            with pytest.raises(ValueError, match=name):
                type(model).from_dict({**told, "params": {**told["params"], name: value}})


@pytest.mark.parametrize(
    "classes",
    [
        None,
        {"dtype": "<i8", "labels": [1]},
        {"dtype": "<i8", "labels": [2, 1]},
        {"dtype": "<i8", "labels": [1, 1]},
        {"dtype": "<i8", "labels": [1, "a"]},
        {"dtype": "<U1", "labels": ["aa", "b"]},
        {"dtype": "|V8", "labels": [1, 2]},
        {"dtype": "nonsense", "labels": [1, 2]},
        {"dtype": "|O", "labels": [[1], [2]]},
        {"dtype": "<M8[D]", "labels": [1, 2]},
    ],
)
def test_classes_that_are_none_are_refused(classes):
    model, _ = fitted("binary")
    with pytest.raises(ValueError, match="class"):
        EBMClassifier.from_dict({**model.to_dict(), "classes": classes})


@pytest.mark.parametrize("loss", CLASSIFICATION_LOSSES)
def test_number_of_classes_must_match(loss):
    model, _ = fitted(loss)
    told = model.to_dict()
    told["classes"]["labels"] = told["classes"]["labels"][:2] if loss == "multiclass" else ["a", "b", "c"]
    told["classes"]["dtype"] = "<i8" if loss == "multiclass" else "<U3"
    with pytest.raises(ValueError, match="has the shape"):
        EBMClassifier.from_dict(told)
