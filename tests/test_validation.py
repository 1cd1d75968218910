"""What users may pass and what they are told: frames, categories, weights, constraints, scikit-learn's own checks."""

import dataclasses
import datetime
import itertools

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import estimator_checks_generator

from skboost._binning import BinMapper
from skboost._categories import categorical_mask, level_names
from skboost._validation import (
    TrainingData,
    apply_class_weight,
    check_training_data,
    check_validation_data,
    check_X,
    resolve_interaction_cst,
    resolve_monotonic_cst,
)

NAN = np.nan


class Model(BaseEstimator):
    """An estimator that is all validation: a decision tree of scikit-learn on the codes."""

    def __init__(self, categorical_features="from_dtype"):
        self.categorical_features = categorical_features

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X, y, sample_weight=None):
        data = check_training_data(self, X, y, sample_weight)
        self.mapper_ = BinMapper().fit(data.X, data.sample_weight, data.is_categorical)
        if data.classes is not None:
            self.classes_ = data.classes
        codes = self.mapper_.transform_columns(data.X).T
        self.tree_ = self.tree(random_state=0).fit(codes, data.y, data.sample_weight)
        return self

    def _codes(self, X):
        X = check_X(self, X)
        return self.mapper_.transform_columns(X).T


class Regressor(RegressorMixin, Model):
    tree = DecisionTreeRegressor

    def predict(self, X):
        codes = self._codes(X)
        return self.tree_.predict(codes)


class Classifier(ClassifierMixin, Model):
    tree = DecisionTreeClassifier

    def predict(self, X):
        codes = self._codes(X)
        return self.classes_[self.tree_.predict(codes).astype(int)]


CHECKS = [pair for model in (Regressor(), Classifier()) for pair in estimator_checks_generator(model)]


@pytest.mark.parametrize(
    ("model", "check"), CHECKS, ids=[f"{type(model).__name__}-{check.func.__name__}" for model, check in CHECKS]
)
def test_scikit_learn_is_content(model, check):
    check(model)


def regression(X, sample_weight=None, categorical_features="from_dtype"):
    """Return (TrainingData, estimator) of a fit with y = 0, 1, ..."""
    estimator = Regressor(categorical_features)
    return check_training_data(estimator, X, np.arange(len(X)), sample_weight), estimator


# ---- frames ----------------------------------------------------------------------------------------------------------

COLUMNS = {
    "number": [1.5, NAN, np.inf, 4.0],
    "color": ["red", "blue", None, "green"],
    "flag": [True, False, True, True],
    "count": [3, 1, 2, None],
}
EXPECTED = [[1.5, 2, 1, 3], [NAN, 0, 0, 1], [np.inf, NAN, 1, 2], [4, 1, 1, NAN]]


def pandas_frame(categories=None):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(COLUMNS)
    frame["count"] = pd.array(COLUMNS["count"], dtype="Int64")
    frame["color"] = pd.Categorical(COLUMNS["color"], categories=categories)
    return frame


def polars_frame(kind="Categorical"):
    pl = pytest.importorskip("polars")
    if not hasattr(pl.DataFrame, "__dataframe__") and sklearn.__version__ < "1.9":
        pytest.skip("this scikit-learn reads no column names from this polars")
    dtype = pl.Categorical() if kind == "Categorical" else pl.Enum(["red", "unused", "green", "blue"])
    return pl.DataFrame(COLUMNS, strict=False).with_columns(pl.col("color").cast(dtype))


FRAMES = {
    "pandas": pandas_frame,
    "pandas, other order": lambda: pandas_frame(["red", "unused", "green", "blue"]),
    "polars": polars_frame,
    "polars enum": lambda: polars_frame("Enum"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames(name):
    frame = FRAMES[name]()
    data, estimator = regression(frame)
    np.testing.assert_array_equal(data.X, EXPECTED)
    assert data.X.dtype == np.float64
    assert data.is_categorical.tolist() == [0, 1, 0, 0]
    assert data.is_categorical.dtype == np.uint8
    assert [levels and level_names(levels) for levels in data.category_maps] == [
        None,
        ["blue", "green", "red"],
        None,
        None,
    ]
    assert data.feature_names.tolist() == list(COLUMNS)
    assert data.n_features == estimator.n_features_in_ == 4
    np.testing.assert_array_equal(check_X(estimator, frame[2:]), EXPECTED[2:])


@pytest.mark.parametrize(("fitted", "asked"), list(itertools.permutations(FRAMES, 2)))
def test_a_model_fitted_on_one_frame_reads_another(fitted, asked):
    _, estimator = regression(FRAMES[fitted]())
    np.testing.assert_array_equal(check_X(estimator, FRAMES[asked]()), EXPECTED)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("features", [["color"], [1], [False, True, False, False]])
def test_text_columns_named_categorical(library, features):
    module = pytest.importorskip(library)
    frame = module.DataFrame(COLUMNS) if library == "pandas" else module.DataFrame(COLUMNS, strict=False)
    data, estimator = regression(frame, categorical_features=features)
    np.testing.assert_array_equal(data.X, EXPECTED)
    np.testing.assert_array_equal(check_X(estimator, frame), EXPECTED)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_other_text_columns_are_refused_in_the_words_of_scikit_learn(library):
    frame = pytest.importorskip(library).DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    with pytest.raises(ValueError, match="could not convert string to float"):
        regression(frame)
    numbers = pytest.importorskip(library).DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    _, estimator = regression(numbers)
    with pytest.raises(ValueError, match="could not convert string to float"):
        check_X(estimator, frame)


def told_texts(X, categorical_features="from_dtype", sample_weight=None):
    """Return (TrainingData, estimator) of a fit that takes columns of texts as categories."""
    estimator = Regressor(categorical_features)
    return check_training_data(estimator, X, np.arange(len(X)), sample_weight, texts_are_categories=True), estimator


TEXT_COLUMNS = {
    "plain": lambda pd: pd.DataFrame(COLUMNS),
    "object": lambda pd: pd.DataFrame(COLUMNS).astype({"color": object}),
    "string": lambda pd: pd.DataFrame(COLUMNS).astype({"color": "string"}),
    "category": lambda pd: pd.DataFrame(COLUMNS).astype({"color": "category"}),
}


@pytest.mark.parametrize("kind", TEXT_COLUMNS)
def test_texts_of_pandas_are_categories_on_request(kind):
    frame = TEXT_COLUMNS[kind](pytest.importorskip("pandas"))
    data, estimator = told_texts(frame)
    np.testing.assert_array_equal(data.X, EXPECTED)
    assert data.is_categorical.tolist() == [0, 1, 0, 0]
    assert data.n_levels.tolist() == [0, 3, 0, 0]
    assert data.n_levels.dtype == np.int64
    np.testing.assert_array_equal(check_X(estimator, frame), EXPECTED)
    if kind != "category":
        with pytest.raises(ValueError, match="could not convert string to float"):
            regression(frame)
    with pytest.raises(ValueError, match=r"could not convert string to float|Cannot cast str"):
        told_texts(frame, categorical_features=None)


def test_texts_of_polars_are_categories_on_request():
    pl = pytest.importorskip("polars")
    polars_frame()  # skips where column names are not read
    frame = pl.DataFrame(COLUMNS, strict=False)
    data, estimator = told_texts(frame)
    np.testing.assert_array_equal(data.X, EXPECTED)
    np.testing.assert_array_equal(check_X(estimator, frame), EXPECTED)
    np.testing.assert_array_equal(check_X(estimator, TEXT_COLUMNS["object"](pytest.importorskip("pandas"))), EXPECTED)


def test_objects_that_are_numbers_stay_numbers():
    pd = pytest.importorskip("pandas")
    columns = {"n": [3, None, 1.5], "b": [True, None, False], "m": [None, None, NAN], "t": [1, "1", None]}
    frame = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in columns.items()})
    data, _ = told_texts(frame)
    assert data.is_categorical.tolist() == [0, 0, 0, 1]
    np.testing.assert_array_equal(data.X, [[3, 1, NAN, 0], [NAN, NAN, NAN, 1], [1.5, 0, NAN, NAN]])
    assert told_texts(frame[["n", "b"]])[0].category_maps == (None, None)


def test_arrays_of_texts_are_no_categories_by_themselves():
    with pytest.raises(ValueError, match=r"could not convert string to float.*categorical_features"):
        told_texts(np.array([["a", 1.0], ["b", 2.0]], dtype=object))
    assert told_texts(np.array([["a", 1.0], ["b", 2.0]], dtype=object), [0])[0].n_levels.tolist() == [2, 0]


@pytest.mark.parametrize("name", FRAMES)
def test_unknown_levels_are_told_from_missing_ones(name):
    frame = FRAMES[name]()
    _, estimator = regression(frame[:2])  # red and blue
    np.testing.assert_array_equal(check_X(estimator, frame)[:, 1], [1, 0, NAN, NAN])
    np.testing.assert_array_equal(check_X(estimator, frame, unknown=np.inf)[:, 1], [1, 0, NAN, np.inf])


def test_unknown_levels_of_an_array():
    _, estimator = regression(np.array([[5.0, 0], [7.0, 1]], dtype=np.float32), categorical_features=[0])
    asked = np.array([[7, 0], [6, 0], [NAN, 0], [np.inf, 0]], dtype=np.float32)
    np.testing.assert_array_equal(check_X(estimator, asked, unknown=np.inf)[:, 0], [1, np.inf, NAN, np.inf])
    np.testing.assert_array_equal(check_X(estimator, asked)[:, 0], [1, NAN, NAN, NAN])


def test_nullable_columns_of_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "a": pd.array([1, pd.NA, 3], dtype="Int64"),
            "b": pd.array([1.5, pd.NA, NAN], dtype="Float64"),
            "c": pd.array([True, pd.NA, False], dtype="boolean"),
            "d": pd.Series([1, None, 2], dtype=object),
        }
    )
    expected = [[1, 1.5, 1, 1], [NAN, NAN, NAN, NAN], [3, NAN, 0, 2]]
    np.testing.assert_array_equal(regression(frame[["a", "b", "c"]])[0].X, np.array(expected)[:, :3])
    # As categories: the levels are the sorted values.
    data, _ = regression(frame, categorical_features=["a", "c", "d"])
    np.testing.assert_array_equal(data.X, [[0, 1.5, 1, 0], [NAN, NAN, NAN, NAN], [1, NAN, 0, 1]])
    assert level_names(data.category_maps[0]) == [1, 3]


def test_categories_of_any_kind_are_known_by_their_text():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": pd.cut([0.5, 1.5, 2.5, 0.2], [0, 1, 2, 3])})
    data, estimator = regression(frame)
    assert level_names(data.category_maps[0]) == ["(0, 1]", "(1, 2]", "(2, 3]"]
    np.testing.assert_array_equal(check_X(estimator, frame)[:, 0], [0, 1, 2, 0])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_dates_are_refused(library):
    dates = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[ms]")
    frame = pytest.importorskip(library).DataFrame({"when": dates, "x": [1.0, 2.0]})
    with pytest.raises(TypeError, match=r"dates or times.*\['when'\]"):
        regression(frame)
    with pytest.raises(TypeError, match="dates or times"):
        regression(dates[:, None])


def test_more_kinds_of_dates_are_refused():
    pd = pytest.importorskip("pandas")
    moments = pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"]))
    frame = pd.DataFrame({"a": moments.dt.tz_localize("UTC"), "b": moments.dt.to_period("M"), "c": moments.diff()})
    with pytest.raises(TypeError, match=r"\['a', 'b', 'c'\]"):
        regression(frame)
    pl = pytest.importorskip("polars")
    days = pl.DataFrame({"a": moments.tolist()}).select(pl.col("a").dt.date(), b=pl.col("a").dt.time(), c=1.0)
    with pytest.raises(TypeError, match=r"\['a', 'b'\]"):
        regression(days)


@pytest.mark.parametrize("texts_are_categories", [False, True])
@pytest.mark.parametrize("categorical", ["from_dtype", ["b"]])
def test_dates_among_python_objects_are_refused(categorical, texts_are_categories):
    pd = pytest.importorskip("pandas")
    day = datetime.date(2020, 1, 2)
    moments = [day, datetime.datetime(2020, 1, 2), datetime.time(3), datetime.timedelta(1), np.datetime64("2020-01-02")]
    moments += [np.timedelta64(1, "D"), pd.Timestamp(0), pd.Timedelta(1), pd.Period("2020-01", "M")]
    for moment in moments:
        values = np.empty(4, dtype=object)
        values[:] = ["late", None, moment, 1.0]
        estimator = Regressor(categorical_features=categorical)
        given = [np.arange(4), None, texts_are_categories]
        with pytest.raises(TypeError, match=r"columns of dates or times.*\['b'\]"):
            check_training_data(estimator, pd.DataFrame({"a": range(4), "b": values}), *given)
        estimator.categorical_features = [0]
        with pytest.raises(TypeError, match="holds dates or times"):
            check_training_data(estimator, values[:, None], *given)


def test_missing_times_among_texts_are_missing():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": pd.Series(["x", pd.NaT, "y"], dtype=object)})
    data = check_training_data(Regressor(), frame, np.arange(3), texts_are_categories=True)
    np.testing.assert_array_equal(data.X[:, 0], [0, np.nan, 1])


@pytest.mark.parametrize("categorical", ["from_dtype", ["c"]])
def test_complex_columns_are_refused(categorical):
    """Beside any other columns, also in prediction; conversion by way of objects or nullable types drops the rest."""
    pd = pytest.importorskip("pandas")
    plain = pd.DataFrame({"a": [1.0, 2.0, 3.0], "c": [1.0, 2.0, 4.0]})
    others = {"none": {}, "nullable": {"b": pd.array([1, None, 2], dtype="Int64")}, "text": {"b": list("xyz")}}
    others["category"] = {"b": pd.Categorical(list("xyx"))}
    for other in others.values():
        for values in ([1j, 2.0, 3.0], pd.Series([1j, 2.0, None], dtype=object), np.array([1, 2, 3j], "complex64")):
            frame = plain.assign(c=values, **other)
            with pytest.raises(ValueError, match="Complex data not supported"):
                check_training_data(Regressor(categorical_features=categorical), frame, np.arange(3), None, True)
    estimator = Regressor(categorical_features=categorical)
    check_training_data(estimator, plain, np.arange(3))
    with pytest.raises(ValueError, match="Complex data not supported"):
        check_X(estimator, plain.assign(c=plain["c"] * 1j))
    estimator.categorical_features = [0]
    for array in (np.array([[1j], [2], [3]]), np.array([[1j], [2], [3]], dtype=object)):
        with pytest.raises(ValueError, match="Complex data not supported"):
            check_training_data(estimator, array, np.arange(3))


def test_lazy_frames_are_refused():
    lazy = pytest.importorskip("polars").LazyFrame({"a": [1.0, 2.0]})
    with pytest.raises(TypeError, match="collect"):
        check_training_data(Regressor(), lazy, [1, 2])
    _, estimator = regression(np.zeros((2, 1)))
    with pytest.raises(TypeError, match="collect"):
        check_X(estimator, lazy)


def test_columns_are_checked_at_prediction():
    pd = pytest.importorskip("pandas")
    _, estimator = regression(pandas_frame())
    with pytest.raises(ValueError, match="feature names should match"):
        check_X(estimator, pandas_frame().rename(columns={"color": "colour"}))
    with pytest.raises(ValueError, match="feature names should match"):
        check_X(estimator, pandas_frame()[["color", "number", "flag", "count"]])
    _, plain = regression(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="X has 3 features, but Regressor is expecting 2"):
        check_X(plain, np.zeros((3, 3)))
    assert pd.DataFrame(check_X(plain, np.zeros((3, 2)))).shape == (3, 2)


# ---- arrays ----------------------------------------------------------------------------------------------------------


def test_float32_stays_and_the_rest_becomes_float64():
    single = np.array([[1, 2], [NAN, -np.inf]], dtype=np.float32)
    data, estimator = regression(single)
    assert data.X is single
    assert check_X(estimator, single) is single
    for X in (single.astype(np.float16), np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]], np.eye(2, dtype=bool)):
        assert regression(X)[0].X.dtype == np.float64
    mixed = np.array([[1, None], ["2", NAN]], dtype=object)
    np.testing.assert_array_equal(regression(mixed)[0].X, [[1, NAN], [2, NAN]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, object])
def test_numbers_as_categories(dtype):
    X = np.array([[5, 0.5], [-3, 1.5], [9, 2.5], [5, 3.5]]).astype(dtype)
    data, estimator = regression(X, categorical_features=[0])
    np.testing.assert_array_equal(data.X[:, 0], [1, 0, 2, 1])
    np.testing.assert_array_equal(data.X[:, 1], X[:, 1].astype(float))
    assert level_names(data.category_maps[0]) == [-3, 5, 9]
    assert data.X.dtype == (np.float32 if dtype is np.float32 else np.float64)
    np.testing.assert_array_equal(check_X(estimator, [[9, 1], [4, 1]])[:, 0], [2, NAN])
    assert data.X.flags.writeable
    np.testing.assert_array_equal(X[:, 0].astype(float), [5, -3, 9, 5])


def test_mixed_levels_of_an_object_array():
    X = np.array([["b", 1.0], [2, 2.0], [None, 3.0], ["a", 4.0], [True, 5.0], [0.5, 6.0], [NAN, 7.0]], dtype=object)
    data, estimator = regression(X, categorical_features=[0])
    assert level_names(data.category_maps[0]) == [0.5, 1, 2, "a", "b"]
    np.testing.assert_array_equal(data.X[:, 0], [4, 2, NAN, 3, 1, 0, NAN])
    np.testing.assert_array_equal(check_X(estimator, [["c", 0], ["a", 0], [1, 0]])[:, 0], [NAN, 3, 1])


def test_wrong_shapes_with_categories_are_refused_in_the_words_of_scikit_learn():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ValueError, match="Reshape your data"):
        regression(np.zeros(3), categorical_features=[0])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        check_training_data(Regressor([0]), sparse.csr_array(np.eye(3)), [1, 2, 3])
    _, estimator = regression(np.zeros((3, 2)), categorical_features=[0])
    with pytest.raises(ValueError, match="X has 1 features"):
        check_X(estimator, np.zeros((3, 1)))
    with pytest.raises(ValueError, match="Reshape your data"):
        check_X(estimator, np.zeros(2))
    with pytest.raises(ValueError, match="could not convert string to float"):
        check_X(estimator, [[1, "a"]])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([True, False], r"mask must have shape \(4,\)"),
        ([4], r"in \[0, 3\]"),
        ([-1], r"in \[0, 3\]"),
        (["hue"], r"does not have: \['hue'\]"),
        ([0.5], "bool, int or str"),
        (["color", 1], "bool, int or str|does not have"),
    ],
)
def test_wrong_categorical_features(features, message):
    with pytest.raises(ValueError, match=message):
        regression(pandas_frame(), categorical_features=features)


def test_names_need_a_frame():
    with pytest.raises(ValueError, match="no column names"):
        regression(np.zeros((2, 2)), categorical_features=["a"])


def test_no_categories():
    X = np.zeros((2, 2))
    for features in (None, "from_dtype", [], [False, False]):
        assert categorical_mask(X, features) is None
        assert regression(X, categorical_features=features)[0].category_maps == (None, None)
    with pytest.raises(ValueError, match=r"could not convert string to float|Cannot cast str"):
        regression(pandas_frame(), categorical_features=None)


# ---- targets and weights ---------------------------------------------------------------------------------------------


def test_regression_target():
    X = np.zeros((3, 1))
    data = check_training_data(Regressor(), X, np.array([1, 2, 3], dtype=np.float32))
    assert data.y.dtype == np.float64
    for bad in ([1, NAN, 2], [1, np.inf, 2]):
        with pytest.raises(ValueError, match=r"Input y contains"):
            check_training_data(Regressor(), X, bad)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        assert check_training_data(Regressor(), X, [[1], [2], [3]]).y.shape == (3,)
    with pytest.raises(ValueError, match="requires y to be passed"):
        check_training_data(Regressor(), X, None)


@pytest.mark.parametrize("categorical_features", [None, [0]])
def test_one_row(categorical_features):
    data = check_training_data(Regressor(categorical_features), [[7.0, 2.0]], [1.0])
    assert data.X.shape == (1, 2)


@pytest.mark.parametrize("labels", [["b", "a", "c"], [3, -1, 7], [True, False, True], ["x", "y", "x"]])
def test_class_labels(labels):
    data = check_training_data(Classifier(), np.zeros((3, 1)), labels)
    assert data.y.dtype == np.float64
    assert data.classes[data.y.astype(int)].tolist() == list(labels)
    assert data.classes.tolist() == sorted(set(labels))


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="one class only: 'a'"):
        check_training_data(Classifier(), np.zeros((2, 1)), ["a", "a"])
    with pytest.raises(ValueError, match="one class only"):
        check_training_data(Classifier(), np.zeros((3, 1)), ["a", "b", "a"], [1, 0, 1])
    with pytest.raises(ValueError, match="Unknown label type"):
        check_training_data(Classifier(), np.zeros((3, 1)), [0.1, 0.2, 0.3])


def test_rows_of_weight_zero_are_gone_before_anything_else():
    frame = pandas_frame()
    data, estimator = regression(frame, [2, 0, 1, 1])
    np.testing.assert_array_equal(data.X[:, [0, 2, 3]], np.array(EXPECTED)[[0, 2, 3]][:, [0, 2, 3]])
    assert level_names(data.category_maps[1]) == ["green", "red"]
    np.testing.assert_array_equal(data.X[:, 1], [1, NAN, 0])
    assert data.y.tolist() == [0, 2, 3]
    assert data.sample_weight.tolist() == [2, 1, 1]
    np.testing.assert_array_equal(check_X(estimator, frame)[:, 1], [1, NAN, NAN, 0])
    without, _ = regression(frame.iloc[[0, 2, 3]])
    np.testing.assert_array_equal(data.X, without.X)
    assert data.kept.tolist() == [True, False, True, True]
    assert without.kept is None
    assert regression(frame, [2, 1, 1, 1])[0].kept is None


def test_weights_of_one_are_none():
    X = np.zeros((3, 1))
    for weight in (None, [1, 1, 1], 1, [1, 0, 1]):
        assert regression(X, weight)[0].sample_weight is None
    assert regression(X, 2.5)[0].sample_weight.tolist() == [2.5] * 3
    assert regression(X, np.array([1, 2, 3], dtype=np.float32))[0].sample_weight.dtype == np.float64


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([0, 0, 0], "sample_weight.*zero"),
        (0, "sample_weight.*zero"),
        ([1, -1, 1], "Negative values"),
        ([1, NAN, 1], "NaN"),
        ([1, 1], r"shape == \(2,\), expected \(3,\)"),
        ([[1], [1], [1]], "1D"),
    ],
)
@pytest.mark.parametrize("categorical_features", [None, [0]])
def test_wrong_weights(weight, message, categorical_features):
    with pytest.raises(ValueError, match=message):
        regression(np.zeros((3, 1)), weight, categorical_features)


def test_the_record_is_frozen():
    data, _ = regression(np.zeros((2, 1)))
    assert isinstance(data, TrainingData)
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.X = None


def test_validation_set():
    estimator = Classifier()
    training = check_training_data(estimator, pandas_frame(), ["a", "b", "c", "a"])
    data = check_validation_data(estimator, pandas_frame()[1:], ["c", "c", "a"], [1, 0, 2], training.classes)
    np.testing.assert_array_equal(data.X, np.array(EXPECTED)[[1, 3]])
    assert data.y.tolist() == [2, 0]
    assert data.sample_weight.tolist() == [1, 2]
    assert data.kept.tolist() == [True, False, True]
    with pytest.raises(ValueError, match=r"y_val contains classes that are not in y: \['d'\]"):
        check_validation_data(estimator, pandas_frame(), list("abcd"), None, training.classes)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        check_validation_data(estimator, pandas_frame(), ["a"], None, training.classes)
    _, regressor = regression(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="Input y_val contains NaN"):
        check_validation_data(regressor, np.zeros((2, 1)), [1, NAN])


# ---- class weights ---------------------------------------------------------------------------------------------------


def test_class_weights():
    classes, y = np.array(["a", "b"]), np.array([0.0, 1.0, 1.0, 1.0])
    assert apply_class_weight(None, y, classes) is None
    assert apply_class_weight({"a": 3, "b": 0}, y, classes).tolist() == [3, 0, 0, 0]
    assert apply_class_weight({"a": 3}, y, classes, np.array([2.0, 1.0, 1.0, 5.0])).tolist() == [6, 1, 1, 5]
    np.testing.assert_allclose(apply_class_weight("balanced", y, classes), [2, 2 / 3, 2 / 3, 2 / 3], rtol=1e-7)


def test_balanced_weights_treat_weights_as_repetition():
    rng = np.random.default_rng(0)
    y, weights = rng.integers(0, 3, 50), rng.integers(1, 9, 50)
    weighted = apply_class_weight("balanced", y.astype(float), np.arange(3), weights.astype(float))
    repeated = apply_class_weight("balanced", np.repeat(y, weights).astype(float), np.arange(3))
    np.testing.assert_array_equal(weighted, np.repeat(weighted / weights, weights)[np.cumsum(weights) - 1] * weights)
    np.testing.assert_array_equal(np.add.reduceat(repeated, np.cumsum(weights) - weights), weighted)


@pytest.mark.parametrize("class_weight", [{"a": -1}, {"a": 0, "b": 0}])
def test_wrong_class_weights(class_weight):
    with pytest.raises(ValueError, match="class_weight must be at least zero"):
        apply_class_weight(class_weight, np.array([0.0, 1.0]), np.array(["a", "b"]))


# ---- constraints -----------------------------------------------------------------------------------------------------


def test_monotonic_constraints():
    data, estimator = regression(pandas_frame())
    assert resolve_monotonic_cst(estimator, None, data.is_categorical).tolist() == [0, 0, 0, 0]
    by_name = resolve_monotonic_cst(estimator, {"number": 1, "count": -1}, data.is_categorical)
    assert by_name.tolist() == [1, 0, 0, -1]
    assert by_name.dtype == np.int8
    assert resolve_monotonic_cst(estimator, [1, 0, 0, -1], data.is_categorical).tolist() == [1, 0, 0, -1]
    for bad, message in [
        ({"nothing": 1}, "unexpected feature names"),
        ({"number": 2}, "must be either"),
        ([1, 0], "monotonic_cst has shape"),
        ([1, 0, 0, 3], "array-like of -1, 0 or 1"),
        ([0, 1, 0, 0], r"Categorical features cannot have monotonic constraints, but features \[1\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            resolve_monotonic_cst(estimator, bad, data.is_categorical)
    plain = regression(np.zeros((2, 2)))[1]
    with pytest.raises(ValueError, match="was not fitted on data with feature names"):
        resolve_monotonic_cst(plain, {"a": 1}, [0, 0])


def test_interaction_constraints():
    assert resolve_interaction_cst(None, 3) is None
    assert resolve_interaction_cst("no_interactions", 3) == [{0}, {1}, {2}]
    assert resolve_interaction_cst("pairwise", 3) == [{0, 1}, {0, 2}, {1, 2}]
    assert resolve_interaction_cst("pairwise", 1) == [{0}]
    assert resolve_interaction_cst([(0, 1), [1, 2]], 5) == [{0, 1}, {1, 2}, {3, 4}]
    assert resolve_interaction_cst([{0, 1, 2}], 3) == [{0, 1, 2}]
    for bad, message in [
        ("all", "one of"),
        ([0, 1], "sequence of collections"),
        ([{0, 3}], r"\[0, 2\], got the group"),
        ([{-1}], r"\[0, 2\]"),
        ([{"a"}], r"\[0, 2\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            resolve_interaction_cst(bad, 3)


# ---- whole estimators ------------------------------------------------------------------------------------------------


def test_category_order_does_not_matter():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    color, size = rng.choice(["red", "green", "blue"], 60), rng.normal(size=60)
    y = rng.normal(size=60) + (color == "red")
    predictions = []
    for categories in itertools.permutations(["red", "green", "blue"]):
        frame = pd.DataFrame({"color": pd.Categorical(color, categories=categories), "size": size})
        predictions.append(Regressor().fit(frame, y).predict(frame))
    assert all(np.array_equal(predictions[0], other) for other in predictions[1:])
