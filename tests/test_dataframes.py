"""Arrays, pandas and polars frames of the same content give the same model, categories and missing values too."""

import itertools

import numpy as np
import pytest
from fit_cases import LOSSES, POLICIES, assert_same_predictions, make_data, make_estimator, make_target

from skboost.ebm._estimators import EBMRegressor

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NAMES = list("abcd")


def numeric_frames(X):
    yield pd.DataFrame(X, columns=NAMES)
    yield pd.DataFrame(X, columns=NAMES).astype("Float64")
    yield pd.DataFrame({name: pd.Series(column) for name, column in zip(NAMES, X.T, strict=True)})
    yield pl.DataFrame(X, schema=NAMES)
    yield pl.DataFrame(X, schema=NAMES).fill_nan(None)


@pytest.mark.parametrize("loss", LOSSES)
def test_numbers(loss):
    X, y = make_data(loss)
    plain = make_estimator(loss).fit(X, y)
    for frame in numeric_frames(X):
        model = make_estimator(loss).fit(frame, y)
        assert model.feature_names_in_.tolist() == NAMES
        assert_same_predictions(plain, model, X, frame)
    for target in (pd.Series(y), pl.Series(y), y.tolist()):
        assert_same_predictions(plain, make_estimator(loss).fit(X, target), X)


@pytest.mark.parametrize("kind", ["Int64", "int16", "uint8", "boolean", "bool", "float32", "Float32"])
def test_other_numeric_types(kind):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2 if kind.startswith("bool") else 50, size=(100, 2)).astype(float)
    y = values.sum(axis=1)
    nullable = kind[0].isupper() or kind == "boolean"
    if nullable:
        values[rng.random(values.shape) < 0.2] = np.nan
    frame = pd.DataFrame({name: pd.array(values[:, k], dtype="Float64") for k, name in enumerate("xy")})
    frame = frame.astype(kind) if nullable else pd.DataFrame(values, columns=list("xy")).astype(kind)
    y = np.nan_to_num(y)
    assert_same_predictions(make_estimator().fit(values, y), make_estimator().fit(frame, y), values, frame)


# ---- categories

COLOURS = ["red", "green", "blue", "white"]


def colour_table(seed=0, n=150, missing=0.15):
    """Return colours (None where missing), sizes and a target that needs both."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(COLOURS, n).astype(object)
    colour[rng.random(n) < missing] = None
    size = rng.normal(size=n).round(2)
    signal = np.array([{"red": 2.0, "white": -2.0}.get(c, 0.5) for c in colour]) + size
    return colour, size, rng, signal


def colour_frames(colour, size):
    for order in itertools.permutations(COLOURS):
        yield pd.DataFrame({"colour": pd.Categorical(colour, categories=order), "size": size})
    yield pd.DataFrame({"colour": pd.Categorical(colour, categories=["unused", *COLOURS], ordered=True), "size": size})
    columns = {"colour": list(colour), "size": size}
    yield pl.DataFrame(columns, schema_overrides={"colour": pl.Categorical})
    yield pl.DataFrame(columns, schema_overrides={"colour": pl.Enum(COLOURS)})
    yield pl.DataFrame(columns, schema_overrides={"colour": pl.Enum(COLOURS[::-1])})


def colour_tables_with_names(colour, size):
    """Tables whose categorical column must be named."""
    yield pd.DataFrame({"colour": colour, "size": size})
    yield pd.DataFrame({"colour": pd.array(list(colour), dtype="string"), "size": size})
    yield pd.DataFrame({"colour": pd.array(list(colour), dtype="str"), "size": size})
    yield pl.DataFrame({"colour": list(colour), "size": size})


@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_categories(loss, grow_policy):
    colour, size, rng, signal = colour_table()
    y = make_target(loss, rng, signal)
    numbers = {name: float(k) for k, name in enumerate(sorted(COLOURS))} | {None: np.nan}
    table = np.stack([[numbers[c] for c in colour], size], axis=1)
    plain = make_estimator(loss, categorical_features=[0], grow_policy=grow_policy).fit(table, y)
    assert (plain._forest.cat_set >= 0).any()
    for frame in colour_frames(colour, size):
        model = make_estimator(loss, grow_policy=grow_policy).fit(frame, y)
        assert_same_predictions(plain, model, table, frame)
    for frame in colour_tables_with_names(colour, size):
        for chosen in (["colour"], [0], [True, False], np.array([True, False])):
            model = make_estimator(loss, categorical_features=chosen, grow_policy=grow_policy).fit(frame, y)
            assert_same_predictions(plain, model, table, frame)
    objects = np.array([list(row) for row in zip(colour, size, strict=True)], dtype=object)
    for rows in (objects, objects.tolist()):
        model = make_estimator(loss, categorical_features=[0], grow_policy=grow_policy).fit(rows, y)
        assert_same_predictions(plain, model, table, rows)


def test_a_model_predicts_from_any_kind_of_frame():
    colour, size, rng, signal = colour_table()
    y = make_target("squared_error", rng, signal)
    frames = [*colour_frames(colour, size), *colour_tables_with_names(colour, size)]
    for trained in (frames[0], frames[-5], frames[-1]):
        model = make_estimator(categorical_features=["colour"]).fit(trained, y)
        told = [model.predict(frame) for frame in frames]
        assert all(np.array_equal(told[0], other) for other in told[1:])


def test_unknown_and_missing_categories_are_alike_and_nothing_else():
    colour, size, rng, signal = colour_table()
    y = make_target("squared_error", rng, signal)
    frame = pd.DataFrame({"colour": pd.Categorical(colour), "size": size})
    model = make_estimator(n_estimators=40).fit(frame, y)

    def told(values, dtype=None):
        column = pd.Categorical(values) if dtype is None else pd.array(values, dtype=dtype)
        return model.predict(pd.DataFrame({"colour": column, "size": [0.0] * len(values)}))

    missing = told([None, None])
    np.testing.assert_array_equal(told(["purple", "black"]), missing)
    np.testing.assert_array_equal(told(["purple", None]), missing)
    np.testing.assert_array_equal(told(["purple", None], "string"), missing)
    assert len(np.unique(told([*COLOURS, None]))) >= 4


def test_unseen_categories_without_missing_ones_in_training():
    colour, size, rng, signal = colour_table(missing=0)
    y = make_target("squared_error", rng, signal)
    frame = pd.DataFrame({"colour": pd.Categorical(colour), "size": size})
    for grow_policy in POLICIES:
        model = make_estimator(grow_policy=grow_policy, n_estimators=40).fit(frame, y)
        told = model.predict(pd.DataFrame({"colour": pd.Categorical(["purple", None]), "size": [0.0, 0.0]}))
        assert told[0] == told[1]
        assert np.isfinite(told).all()


@pytest.mark.parametrize("grow_policy", POLICIES)
def test_more_categories_than_bins(grow_policy):
    rng = np.random.default_rng(0)
    names = np.array([f"c{k:03}" for k in range(400)])
    effect = rng.normal(size=400)
    share = 1 / np.arange(1, 401)
    which = np.concatenate([np.arange(400), rng.choice(400, 2600, p=share / share.sum())])
    y = effect[which] + 0.1 * rng.normal(size=3000)
    frame = pd.DataFrame({"c": pd.Categorical(names[which])})
    model = make_estimator(n_estimators=30, grow_policy=grow_policy, learning_rate=0.3, max_depth=8).fit(frame, y)
    assert model.score(frame, y) > 0.3
    other = pd.DataFrame({"c": pd.Categorical(names[which], categories=names[::-1])})
    assert_same_predictions(model, make_estimator(**model_params(model)).fit(other, y), frame, other)
    codes = which.astype(float)[:, None]
    plain = make_estimator(**model_params(model) | {"categorical_features": [0]}).fit(codes, y)
    assert_same_predictions(model, plain, frame, codes)
    # The rare ones are one category.
    heaviest = np.sort(np.lexsort((np.arange(400), -np.bincount(which)))[:254])
    rare = np.setdiff1d(np.arange(400), heaviest)
    assert len(np.unique(model.predict(pd.DataFrame({"c": pd.Categorical(names[rare])})))) == 1
    assert len(np.unique(model.predict(pd.DataFrame({"c": pd.Categorical(names[heaviest])})))) > 10


def model_params(model):
    params = model.get_params()
    return {name: params[name] for name in ("n_estimators", "grow_policy", "learning_rate", "max_depth")}


@pytest.mark.parametrize("max_bins", [2, 3, 255])
def test_few_bins_for_many_categories(max_bins):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 40, size=(300, 1)).astype(float)
    y = np.sin(codes[:, 0]) + 0.1 * rng.normal(size=300)
    model = make_estimator(categorical_features=[0], max_bins=max_bins, n_estimators=30).fit(codes, y)
    assert len(np.unique(model.predict(np.arange(40.0)[:, None]))) <= min(max_bins, 40)
    assert np.isfinite(model.predict([[99.0], [np.nan], [-1.0], [np.inf]])).all()


def test_numbers_as_categories_are_not_ordered():
    """Every second category is high: a numeric column needs many splits, one set of categories is enough."""
    codes = np.repeat(np.arange(20.0), 10)[:, None]
    y = codes[:, 0] % 2
    params = {"n_estimators": 1, "max_depth": 1, "posterior_sampling": False, "learning_rate": 1.0}
    params["l2_regularization"] = 0.0
    for grow_policy in POLICIES:
        sets = make_estimator(categorical_features=[0], grow_policy=grow_policy, **params).fit(codes, y)
        np.testing.assert_allclose(sets.predict(codes), y, atol=1e-6)
        cuts = make_estimator(grow_policy=grow_policy, **params).fit(codes, y)
        assert cuts.score(codes, y) < 0.2


def test_relabelled_categories_in_the_same_order_change_nothing():
    colour, size, rng, signal = colour_table()
    y = make_target("squared_error", rng, signal)
    one = pd.DataFrame({"colour": pd.Categorical(colour), "size": size})
    renamed = {name: f"x{k}" for k, name in enumerate(sorted(COLOURS))} | {None: None}
    other = pd.DataFrame({"colour": pd.Categorical([renamed[c] for c in colour]), "size": size})
    assert_same_predictions(make_estimator().fit(one, y), make_estimator().fit(other, y), one, other)


def test_named_and_typed_columns_may_be_mixed():
    colour, size, rng, signal = colour_table()
    y = make_target("squared_error", rng, signal)
    frame = pd.DataFrame({"colour": pd.Categorical(colour), "size": size})
    with_none = make_estimator(categorical_features=None)
    with pytest.raises(ValueError, match=r"could not convert string to float"):
        with_none.fit(frame, y)
    integer = frame.assign(colour=[0.0 if c is None else float(len(c)) for c in colour])
    by_name = make_estimator(categorical_features=["colour"]).fit(integer, y)
    by_type = make_estimator().fit(integer.assign(colour=pd.Categorical(integer["colour"])), y)
    assert_same_predictions(by_name, by_type, integer, integer.assign(colour=pd.Categorical(integer["colour"])))


def test_unfit_column_types_are_refused():
    y = np.arange(4.0)
    dates = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=4)})
    for frame in (dates, pl.from_pandas(dates) if hasattr(pl, "from_pandas") and _has_arrow() else dates):
        with pytest.raises(TypeError, match="dates or times"):
            make_estimator().fit(frame, y)
    with pytest.raises(TypeError, match="lazy frame"):
        make_estimator().fit(pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}).lazy(), y)
    with pytest.raises(ValueError, match=r"could not convert string to float"):
        make_estimator().fit(pd.DataFrame({"x": list("abcd")}), y)


def _has_arrow():
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def test_column_names_that_are_not_texts():
    X, y = make_data("squared_error")
    model = make_estimator().fit(pd.DataFrame(X), y)
    assert not hasattr(model, "feature_names_in_")
    assert_same_predictions(make_estimator().fit(X, y), model, X)


def test_validation_rows_as_frames():
    colour, size, rng, signal = colour_table()
    y = make_target("binary", rng, signal)
    params = {"early_stopping": True, "n_iter_no_change": 3}
    frames = list(colour_frames(colour, size))
    one = make_estimator("binary", **params).fit(frames[0][:100], y[:100], X_val=frames[0][100:], y_val=y[100:])
    polars = frames[-3]
    other = make_estimator("binary", **params).fit(polars[:100], y[:100], X_val=polars[100:], y_val=pl.Series(y[100:]))
    np.testing.assert_array_equal(one.validation_score_, other.validation_score_)
    assert_same_predictions(one, other, frames[0], polars)


def test_results_as_frames():
    for loss in LOSSES:
        X, y = make_data(loss)
        result = make_estimator(loss).fit(X, y).predict_uncertainty(X, 3)
        frame = result.to_frame()
        assert len(frame) == len(y)
        np.testing.assert_array_equal(frame["knowledge"], result.knowledge)
        assert ("data" in frame) == (result.data is not None)


def test_columns_of_strings_are_refused_with_advice():
    X = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "colour": list("rgrg")})
    with pytest.raises(ValueError, match=r"could not convert string to float.*categorical_features"):
        make_estimator("squared_error", n_estimators=2).fit(X, [1.0, 2.0, 3.0, 4.0])
    make_estimator("squared_error", n_estimators=2, categorical_features=["colour"]).fit(X, [1.0, 2.0, 3.0, 4.0])


# ---- additive models -------------------------------------------------------------------------------------------------


def additive(**params):
    params = {"outer_bags": 2, "max_rounds": 30, "smoothing_rounds": 5, "interactions": 0, "random_state": 0} | params
    return EBMRegressor(**params)


def text_table():
    colour, size, rng, signal = colour_table()
    return colour, size, make_target("squared_error", rng, signal)


def test_additive_models_take_texts_as_categories():
    colour, size, y = text_table()
    frames = [*itertools.islice(colour_frames(colour, size), 22, None), *colour_tables_with_names(colour, size)]
    models = [additive().fit(frame, y) for frame in frames]
    expected = models[0].predict(frames[0])
    for model in models:
        assert model.feature_types_in_ == ["nominal", "continuous"]
        for frame in frames:
            np.testing.assert_array_equal(model.predict(frame), expected)
    with pytest.raises(ValueError, match="could not convert string to float"):
        additive(categorical_features=None).fit(frames[-1], y)


def test_additive_models_tell_unknown_levels_from_missing_ones():
    colour, size, y = text_table()
    frame = pd.DataFrame({"colour": pd.Series(colour, dtype=object), "size": size})
    assert any(value is None for value in colour)
    model = additive().fit(frame, y)
    asked = pd.DataFrame({"colour": pd.Series(["purple", None, "red"], dtype=object), "size": [0.0] * 3})
    unknown, missing, red = model.eval_terms(asked)[:, 0]
    assert unknown == 0
    assert missing == model.term_scores_[0][0] != 0
    assert red == model.term_scores_[0][1 + sorted(COLOURS).index("red")]


def test_columns_of_additive_models_are_checked():
    colour, size, y = text_table()
    frame = pd.DataFrame({"colour": pd.Series(colour, dtype=object), "size": size})
    model = additive().fit(frame, y)
    for wrong in (frame[["size", "colour"]], frame.rename(columns={"size": "length"})):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(wrong)
    with pytest.raises(TypeError, match="dates or times"):
        additive().fit(frame.assign(when=pd.Timestamp("2020-01-01")), y)


@pytest.mark.parametrize("column", [np.nan, 7.0])
def test_additive_models_ignore_columns_without_information(column):
    _, size, y = text_table()
    model = additive().fit(np.column_stack([size, np.full(len(size), column)]), y)
    assert len(model.term_scores_[1]) == 3
    told = model.eval_terms([[0.0, 3.0], [0.0, np.nan], [0.0, np.inf]])[:, 1]
    np.testing.assert_allclose(told, 0, atol=1e-12)
