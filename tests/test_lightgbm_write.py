"""Models that are written for LightGBM: what it will compute, and what comes back."""

import itertools
import pickle

import numpy as np
import pytest
from lightgbm_files import probabilities_or_values
from oracles import predict as oracle
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from skboost import SGLBClassifier, SGLBRegressor
from skboost._forest import ForestBuilder
from skboost.lightgbm import dump, dumps, load, loads

POLICIES = ("symmetric", "depthwise", "lossguide")
LOSSES = ("squared_error", "gaussian", "poisson", "binary", "multiclass")
VARIANTS = {
    "default": {},
    "plain": {"posterior_sampling": False},
    "mean": {"averaging": "mean"},
    "decreasing": {"model_shrink_rate": 0.5, "model_shrink_mode": "decreasing", "posterior_sampling": False},
    "cyclical": {"schedule": "cyclical", "cycle_length": 6},
    "cyclical mean": {"schedule": "cyclical", "cycle_length": 7, "averaging": "mean"},
}
EXACT = ("plain", "mean", "cyclical mean")


def table(n=300, seed=0):
    """Return rows with missing numbers, a column of one decimal, a categorical one, and a target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 1] = X[:, 1].round(1)
    X[:, 3] = 7 * rng.integers(0, 9, n)
    # No number of column 2 is missing.
    X[np.ix_(rng.random(n) < 0.2, [0])] = np.nan
    X[np.ix_(rng.random(n) < 0.1, [1, 3])] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.sin(2 * X[:, 2]) + np.isin(X[:, 3], [7, 21, 35]) + 0.3 * rng.normal(size=n)
    return X, y


def edge_rows(X):
    edges = [[np.nan, -1, 0, np.inf], [np.nan, 0.1, -np.inf, 1e300], [0.5, np.nan], [np.nan, 0, 7, 8, 500, -7, np.inf]]
    return np.concatenate([X, np.array(list(itertools.product(*edges)))])


def fitted(loss="squared_error", X=None, y=None, **params):
    params = {"n_estimators": 20, "max_depth": 4, "random_state": 0, "categorical_features": [3], "n_jobs": 1} | params
    if X is None:
        X, y = table()
    if loss in ("binary", "multiclass"):
        labels = np.digitize(y, [0.3] if loss == "binary" else [-0.5, 0.5])
        return SGLBClassifier(**params).fit(X, np.array(["c", "a", "b"])[labels])
    return SGLBRegressor(loss=loss, **params).fit(X, np.exp(y / 2) if loss == "poisson" else y)


def squeezed(raw):
    return raw[:, 0] if raw.shape[1] == 1 else raw


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_model_comes_back_to_the_bit(policy, loss, variant):
    model = fitted(loss, grow_policy=policy, **VARIANTS[variant])
    X = edge_rows(table()[0])
    loaded = loads(dumps(model))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    if loss in ("binary", "multiclass"):
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    n_members = 2 if "cyclical" in variant else 10
    members = loaded.predict_virtual_ensembles(X, n_members)
    np.testing.assert_array_equal(members, model.predict_virtual_ensembles(X, n_members))
    assert np.ptp(members, axis=0).max() > 0
    assert loaded.n_iter_ == model.n_iter_
    assert loaded.parameters_ == {}
    np.testing.assert_allclose(loaded.feature_importances_, model.feature_importances_, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("loss", LOSSES)
def test_sums_over_the_file_are_the_raw_scores(loss, variant):
    model = fitted(loss, **VARIANTS[variant])
    X = edge_rows(table()[0])
    found, wanted = loads(dumps(model)).raw_scores(X), squeezed(model._raw(X))
    # In one pass over folded leaves the engine gives the same bits, whether they are those of the recurrence or not.
    forest, source = model._forest, model._source(X)[0]
    add = model._mean_add if "mean" in variant else forest.mean_coefficients([model.n_iter_])
    np.testing.assert_array_equal(found, squeezed(forest.margins(source, mul=np.ones(model.n_iter_), add=add)))
    if variant in EXACT:
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14 * np.abs(wanted).max())


def test_folded_leaves_have_the_known_coefficients():
    params = {"posterior_sampling": False, "n_estimators": 4, "learning_rate": 0.1}
    model = fitted(model_shrink_rate=0.3, **params)
    np.testing.assert_allclose(model.shrink_factors_[1:], 0.97)
    blocks = leaf_values(dumps(model))
    forest = model._forest
    for tree, coefficient in enumerate([0.912673, 0.9409, 0.97, 1.0]):
        leaves = forest.leaf_value[slice(*forest.leaf_offset[tree : tree + 2]), 0]
        np.testing.assert_allclose(np.sort(blocks[tree]), np.sort(coefficient * leaves), rtol=1e-12)
    np.testing.assert_array_equal(blocks[4], forest.base_score)


def leaf_values(text):
    lines = [line.partition("=")[2] for line in text.split("\n") if line.startswith("leaf_value=")]
    return [np.array(line.split(), dtype=float) for line in lines]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_text_is_what_lightgbm_expects(loss):
    model = fitted(loss)
    text = dumps(model)
    lines = text.split("\n")
    fields = dict(line.split("=", 1) for line in lines[: lines.index("")] if "=" in line)
    objective = {
        "squared_error": "regression", "poisson": "poisson", "binary": "binary sigmoid:1",
        "multiclass": "multiclass num_class:3",
    }  # fmt: skip
    assert fields.get("objective") == objective.get(loss)
    sizes = np.array(fields["tree_sizes"].split(), dtype=int)
    start = text.index("Tree=0")
    assert start + sizes.sum() == text.index("end of trees")
    for index, at in enumerate(start + np.cumsum([0, *sizes[:-1]])):
        assert text[at:].startswith(f"Tree={index}\n")
    n_outputs = int(fields["num_class"])
    assert len(sizes) == (model.n_iter_ + 1) * n_outputs
    assert fields["feature_infos"].split()[3] == "-1:0:7:14:21:28:35:42:49:56"
    assert text.isascii()
    for key, line in (line.split("=", 1) for line in lines if line.partition("=")[1]):
        if key == "decision_type":
            assert set(line.split()) <= {"8", "9", "10"}
        if key in ("leaf_count", "internal_count"):
            assert all(int(count) >= 1 for count in line.split())
        if key == "leaf_weight":
            assert sum(map(float, line.split())) == 300
    assert dumps(model) == text


def test_inner_nodes_have_the_sums_of_their_leaves():
    trees = dumps(fitted(grow_policy="lossguide", prior_split_rate=0)).split("Tree=")[1:-1]
    for block in trees:
        fields = {key: value.split() for key, _, value in (line.partition("=") for line in block.split("\n"))}
        count = [int(x) for x in fields["internal_count"]]
        leaves = [int(x) for x in fields["leaf_count"]]
        weight = [float(x) for x in fields["leaf_value"]]
        assert count[0] == sum(leaves) == 300
        total = np.dot(leaves, weight) / 300
        np.testing.assert_allclose(float(fields["internal_value"][0]), total, rtol=1e-4, atol=1e-6)
        for node, children in enumerate(zip(fields["left_child"], fields["right_child"], strict=True)):
            assert count[node] == sum(leaves[~int(c)] if int(c) < 0 else count[int(c)] for c in children)


def test_fractional_weights_keep_their_proportions():
    X, y = table()
    model = SGLBRegressor(n_estimators=4, random_state=0).fit(X, y, np.linspace(0.1, 0.9, len(y)))
    block = dumps(model).split("Tree=")[1]
    fields = {key: value.split() for key, _, value in (line.partition("=") for line in block.split("\n"))}
    count, weight = (np.array(fields[key], dtype=float) for key in ("leaf_count", "leaf_weight"))
    np.testing.assert_allclose(count / count.sum(), weight / weight.sum(), atol=1e-8)
    assert count.sum() < 2**31


# ---- splits


@pytest.mark.parametrize("kind", ["general", "symmetric"])
def test_any_split_becomes_a_test_of_numbers(kind, seed):
    """Random thresholds, missing sides and sets: those that send all or only the missing left are among them."""
    rng = np.random.default_rng(seed)
    X, y = table()
    X[:, 0] = rng.integers(0, 50, len(X))
    X = np.column_stack([X, rng.integers(0, 400, len(X)) * 1.0])
    model = SGLBRegressor(n_estimators=2, max_bins=20, categorical_features=[0, 3], random_state=0).fit(X, y)
    sizes = rng.choice([1, 2, 8, 31, 100], 12)
    trees = [oracle.random_tree(rng, kind, int(size), X.shape[1], 1, 0.5) for size in sizes]
    builder = ForestBuilder(kind, 1)
    for tree in trees:
        tree["threshold"] = rng.integers(0, 24, len(tree["threshold"]))
        tree["cat_set"] = np.where(np.isin(tree["feature"], [0, 3]), tree["cat_set"], -1)
        builder.append(tree)
    model._forest = builder.finish(rng.normal(size=1), rng.uniform(0.8, 1.0, len(trees)))
    model.n_iter_ = len(trees)
    rows = oracle_rows(rng, X)
    loaded = loads(dumps(model))
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(
        loaded.predict_virtual_ensembles(rows, 5), model.predict_virtual_ensembles(rows, n_members=5)
    )


def oracle_rows(rng, X):
    """Return rows of the table mixed by column, with missing and infinite numbers and unknown categories."""
    rows = np.column_stack([rng.choice(column, 400) for column in X.T])
    kind = rng.random(rows.shape)
    rows[kind < 0.1] = np.nan
    rows[(kind > 0.1) & (kind < 0.13)] = np.inf
    rows[(kind > 0.13) & (kind < 0.16)] = -np.inf
    rows[(kind > 0.16) & (kind < 0.2)] = 1234.0
    return rows


def test_a_split_within_lightgbms_zero_is_refused():
    X = np.repeat([[0.0], [2e-36]], 50, axis=0)
    model = SGLBRegressor(n_estimators=4, max_depth=1, prior_split_rate=0, random_state=0).fit(X, np.repeat([0, 1], 50))
    with pytest.raises(ValueError, match="Column 0 is split at 1e-36: LightGBM takes numbers up to 1e-35 for zeros"):
        dumps(model)


# ---- columns, categories, labels


def test_single_precision_rows():
    X, y = table()
    model = fitted(X=X.astype(np.float32), y=y)
    rows = edge_rows(X)
    rows[np.abs(rows) > 1e30] = 1e30
    rows = rows.astype(np.float32)
    loaded = loads(dumps(model))
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


def test_categories_of_frames(tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = table()
    frame = pd.DataFrame(X, columns=["a b", "c:d", "a_b", "\u00e9"])
    frame["text"] = pd.Categorical(np.array(["x", "y", "\u00fc", None], dtype=object)[np.arange(len(y)) % 4])
    frame["\u00e9"] = frame["\u00e9"].astype("category")
    model = SGLBRegressor(n_estimators=20, random_state=0).fit(frame, y + (frame["text"] == "y"))
    path = tmp_path / "model.txt"
    dump(model, path)
    lines = path.read_bytes().decode().split("\n")
    assert "feature_names=a_b c_d a_b_2 \u00e9 text" in lines
    assert lines[-2] == 'pandas_categorical:[[0, 7, 14, 21, 28, 35, 42, 49, 56], ["x", "y", "\\u00fc"]]'
    loaded = load(path)
    assert loaded.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    other = frame.iloc[:50].copy()
    other["text"] = pd.Categorical(["x", "new"] * 25)
    np.testing.assert_array_equal(loaded.predict(other), model.predict(other))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a b": "z"}))


@pytest.mark.parametrize("levels", [[-1, 0, 4], [0.5, 1, 2], [0, 1, 70_000]])
def test_categories_that_lightgbm_cannot_take_are_numbered(levels):
    X, y = table()
    X[:, 3] = np.array(levels)[np.arange(len(y)) % 3]
    model = fitted(X=X, y=y + X[:, 3] * (X[:, 3] < 10))
    text = dumps(model)
    assert text.endswith(f"pandas_categorical:[{levels}]\n")
    np.testing.assert_array_equal(loads(text).predict(edge_rows(X)), model.predict(edge_rows(X)))


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        [False, True],
        [-1, 1],
        [1.0, 2.0],
        np.array([0, 300], dtype=np.int16),
        np.array(["a", "b"], object),
    ],
    ids=str,
)
def test_labels_come_back(labels):
    X, y = table()
    target = np.asarray(labels)[(y > 0).astype(int)]
    model = SGLBClassifier(n_estimators=4, random_state=0).fit(X, target)
    loaded = loads(dumps(model))
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_labels_that_are_neither_texts_nor_numbers_are_refused():
    X, y = table()
    model = SGLBClassifier(n_estimators=2, random_state=0).fit(X, np.array(["a", "b"])[(y > 0).astype(int)])
    for labels in (np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), np.array([b"a", b"b"], object)):
        model.classes_ = labels
        with pytest.raises(ValueError, match="Class labels must be texts or numbers"):
            dumps(model)


def test_a_model_that_stopped_early():
    model = fitted(
        early_stopping=True, n_iter_no_change=3, n_estimators=60, learning_rate=0.9, posterior_sampling=False
    )
    assert model.n_iter_ < 60
    X = edge_rows(table()[0])
    np.testing.assert_array_equal(loads(dumps(model)).predict(X), model.predict(X))


def test_a_model_without_trees():
    X, y = np.zeros((40, 2)), np.arange(40.0)
    params = {"early_stopping": True, "validation_fraction": None, "posterior_sampling": False, "n_estimators": 3}
    model = SGLBRegressor(n_iter_no_change=1, random_state=0, **params).fit(X, y)
    model._forest, model.n_iter_ = model._forest.truncate(0), 0
    loaded = loads(dumps(model))
    assert loaded.n_iter_ == 0
    np.testing.assert_array_equal(loaded.predict(X), model._forest.base_score[0])


def test_variances_come_back():
    model = fitted("gaussian")
    X = edge_rows(table()[0])
    loaded = loads(dumps(model))
    found = loaded.predict_virtual_ensembles(X, 5, return_variance=True)
    for part, wanted in zip(found, model.predict_virtual_ensembles(X, 5, return_variance=True), strict=True):
        np.testing.assert_array_equal(part, wanted)
    with pytest.raises(ValueError, match="return_variance=True needs a model with loss='gaussian'"):
        loads(dumps(fitted())).predict_virtual_ensembles(X, 5, return_variance=True)


def test_members_are_as_many_as_the_model_has():
    loaded = loads(dumps(fitted("binary", n_estimators=18, schedule="cyclical", cycle_length=6)))
    X = table()[0][:5]
    assert loaded.predict_virtual_ensembles(X).shape == (3, 5, 2)
    loaded = pickle.loads(pickle.dumps(loads(dumps(fitted("multiclass")))))
    assert loaded.predict_virtual_ensembles(X).shape == (10, 5, 3)
    assert probabilities_or_values(loaded, X).shape == (5, 3)
    with pytest.raises(ValueError, match="n_members"):
        loaded.predict_virtual_ensembles(X, 11)


# ---- refusals


def test_other_estimators_are_refused():
    with pytest.raises(TypeError, match="got LinearRegression"):
        dumps(LinearRegression())
    with pytest.raises(NotFittedError):
        dumps(SGLBRegressor())
    model = fitted().set_params(averaging="median")
    with pytest.raises(ValueError, match="averaging"):
        dumps(model)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[skboost: {", "[skboost: {{", "it is malformed"),
        ("[skboost: {", "[skboost: " + "[" * 100_000 + "{", "it is malformed"),
        ('"format":1', '"format":2', "reads its format 1"),
        ('"loss":"squared_error"', '"loss":"gaussian"', "has not these parameters"),
        ('"loss":"squared_error"', '"loss":"log_loss"', "needs classes"),
        ('"squared_error","loss_options":{}', '"tweedie","loss_options":{"power":3}', "cannot be made"),
        ('"squared_error","loss_options":{}', '"tweedie","loss_options":{"power":"a"}', "cannot be made"),
        ('"squared_error","loss_options":{}', '"tweedie","loss_options":{"power":[1.5]}', "cannot be made"),
        ('"squared_error","loss_options":{}', '"tweedie","loss_options":{"power":{}}', "power are no numb"),
        ('"loss_options":{}', '"loss_options":{"power":1}', "has not these parameters"),
        ('"loss_options":{}', '"loss_options":[]', "has not these parameters"),
        ('"squared_error","loss_options":{},"loss_state":{}',
         '"gaussian","loss_options":{},"loss_state":{"centre":0,"scale":0}', "scale is not positive"),
        ('"squared_error","loss_options":{},"loss_state":{}',
         '"gaussian","loss_options":{},"loss_state":{"centre":"a","scale":1}', "parameters that are no numbers"),
        ('"class_weighted":false', '"class_weighted":0', "neither true nor false"),
        ('"noise_variance":', '"noise_variance":-', "noise_variance is not positive"),
        ('"empty_variance":', '"empty_variance":-', "empty_variance is below 0"),
        ('"empty_leaves":[', '"empty_leaves":[[],', "empty_leaves are no lists"),
        ('"empty_leaves":[[', '"empty_leaves":[[99', "no leaves of their trees"),
        ('"empty_leaves":[[', '"empty_leaves":[[true', "no leaves of their trees"),
        ('"loss":"squared_error"', '"loss":"poisson"', "not the objective of the file"),
        ('"loss":"squared_error"', '"loss":["poisson"]', "its loss is unknown"),
        ('"classes":null', '"classes":[0,1]', "label_type is unknown"),
        ('"classes":null,"label_type":null', '"classes":[0,1],"label_type":"i8"', "a classifier needs"),
        ('"classes":null,"label_type":null', '"classes":[0,1.5],"label_type":"i8"', "not of their type"),
        ('"classes":null,"label_type":null', '"classes":[0,300],"label_type":"i1"', "it is malformed"),
        ('"classes":null,"label_type":null', '"classes":[0,"a"],"label_type":"i1"', "a class is no number"),
        ('"feature_names":null', '"feature_names":["a"]', "feature_names are no texts"),
        ('"levels":[null,', '"levels":[', "levels are no lists"),
        ('"levels":[null,', '"levels":[[[0,1],["a"]],', "texts have no numbers"),
        ('"levels":[null,', '"levels":[[[NaN],[]],', "a level is no number"),
        ('"coding":"numbers"', '"coding":"other"', "its coding is unknown"),
        ('"predicts":"last"', '"predicts":"first"', "what it predicts is unknown"),
        ('"predicts":"last"', '"predicts":"terms"', "leaf_values are no lists"),
        ('"shrink_factors":[', '"shrink_factors":[1,', "shrink_factors are no numbers, or not as many"),
        ('"coefficients":[', '"coefficients":[1e999,', "coefficients are no numbers, or not as many"),
        ('"cycle_length":null', '"cycle_length":0', "cycle_length is no positive number"),
        ('"cycle_length":null', '"cycle_length":' + "9" * 5000, "it is malformed"),
        ('"leaf_values":[', '"leaf_values":[null,', "leaf_values are no lists"),
        ('"leaf_values":[[', '"leaf_values":[[1,', "the leaves of Tree=0 are not those"),
        ('"leaf_values":[[', '"leaf_values":[["a",', "leaf_values are no numbers"),
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_descriptions_that_do_not_fit_are_refused(old, new, message):
    text = dumps(fitted(n_estimators=4))
    assert text.count(old) == 1
    line = text[: text.index("[skboost")].count("\n") + 1
    with pytest.raises(ValueError, match=f"^Line {line}: .*{message}"):
        loads(text.replace(old, new))


def test_changed_trees_are_refused():
    text = dumps(fitted(n_estimators=4, posterior_sampling=True))
    start, end = text.index("tree_sizes="), text.index("\nTree=0")
    text = text[:start] + text[end:]
    first, last = text.index("Tree=3"), text.index("Tree=4")
    fewer = text[:first] + text[last:].replace("Tree=4", "Tree=3")
    with pytest.raises(ValueError, match="does not describe the model"):
        loads(fewer)
    at = text.index("leaf_value=") + len("leaf_value=")
    with pytest.raises(ValueError, match="the leaves of Tree=0 are not those that were written"):
        loads(text[:at] + "0.25 " + text[text.index(" ", at) + 1 :])
    more = text[:last] + text[text.index("Tree=0") : text.index("Tree=1")].replace("Tree=0", "Tree=4")
    more += text[last:].replace("Tree=4", "Tree=5")
    with pytest.raises(ValueError, match="leaf_values are no lists, one a tree"):
        loads(more)
