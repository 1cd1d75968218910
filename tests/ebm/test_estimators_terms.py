"""Reading and editing of terms: shapes, importances, explanations, masks, monotone curves, removed features."""

import json

import numpy as np
import pytest
from fit_cases import CLASSIFICATION_LOSSES, EBM_LOSSES, assert_same_ebm, make_data, make_ebm
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression

from skboost.ebm import EBMClassifier, EBMRegressor

pd = pytest.importorskip("pandas")
PAIRS = [("a", "b"), ("c", "e")]


def frame(loss, seed=0, n=150):
    """Two plain columns, one with missing values, one of noise, one of colours."""
    X, y = make_data(loss, seed, n=n)
    X[:, [0, 1, 3]] = np.nan_to_num(X[:, [0, 1, 3]])
    data = pd.DataFrame(X, columns=list("abcd"))
    data["e"] = np.array(["red", "green", "blue"], dtype=object)[np.arange(n) % 3]
    return data, y


def fitted(loss="squared_error", **params):
    X, y = frame(loss)
    return make_ebm(loss, **{"interactions": PAIRS, **params}).fit(X, y), X, y


# ---- reading


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_shapes_are_the_terms(loss):
    model, X, _ = fitted(loss)
    shapes = model.shape_functions()
    assert [shape.name for shape in shapes] == model.term_names_ == ["a", "b", "c", "d", "e", "a & b", "c & e"]
    scores = model.eval_terms(X)
    for t, shape in enumerate(shapes):
        assert shape.features == model.term_features_[t]
        columns = [X.iloc[:, j].to_numpy() for j in shape.features]
        np.testing.assert_array_equal(shape.value(*columns), scores[:, t])
        assert shape.weights.shape == tuple(axis.n_cells for axis in shape.axes)
        assert shape.weights.sum() == len(X)
        assert (shape.classes is None) == (loss != "multiclass")
        assert sorted(shape.deviations.ravel()) == sorted(model.standard_deviations_[t].ravel())
        for axis, j in zip(shape.axes, shape.features, strict=True):
            assert axis.feature == j
            assert axis.name == X.columns[j]
            main = len(shape.axes) == 1
            if axis.kind == "numeric":
                np.testing.assert_array_equal(axis.edges, model.bins_[j][not main])
                assert (axis.lower, axis.upper) == (X.iloc[:, j].min(), X.iloc[:, j].max())
            else:
                assert axis.levels == (("blue",), ("green",), ("red",))
    assert model.shape("a & b").name == model.shape(5).name == model.shape(-2).name == "a & b"
    np.testing.assert_array_equal(model.shape("c").values[-1], model.term_scores_[2][0])


def test_a_shape_is_a_copy():
    model, X, _ = fitted()
    before = model.predict(X)
    for shape in model.shape_functions():
        shape.values[...] = 7
        shape.weights[...] = 7
        for axis in shape.axes:
            axis.edges[...] = 0
    np.testing.assert_array_equal(model.predict(X), before)


def test_rare_levels_share_a_cell_in_pairs():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"x": rng.normal(size=300), "c": rng.choice(list("abcdefgh"), 300, p=[0.3, 0.3, 0.2] + [0.04] * 5)}
    )
    model = make_ebm(interactions=[(0, 1)], max_interaction_bins=6).fit(X, X["x"])
    axis = model.shape("x & c").axes[1]
    assert axis.n_cells == 6
    assert axis.levels == (("a",), ("b",), ("c",), ("d", "e", "f", "g", "h"))
    assert axis.labels[3] == "d, e, f, g, h"
    assert model.shape("c").axes[0].n_cells == 10
    np.testing.assert_array_equal(model.shape("x & c").value(X["x"], X["c"]), model.eval_terms(X)[:, 2])
    assert model.bins_[1][1] == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 4, "f": 4, "g": 4, "h": 4}


@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_importances(loss):
    model, X, _ = fitted(loss)
    scores = model.eval_terms(X).reshape(len(X), 7, -1)
    np.testing.assert_allclose(model.term_importances(), np.abs(scores).mean(axis=0).mean(axis=-1))
    np.testing.assert_allclose(model.term_importances("std"), scores.std(axis=0).mean(axis=-1), atol=1e-12)
    np.testing.assert_allclose(model.term_importances("min_max"), np.ptp(scores, axis=0).mean(axis=-1))
    weight = np.arange(len(X)) % 3 + 1.0
    weighted = make_ebm(loss, interactions=PAIRS).fit(X, frame(loss)[1], weight)
    scores = np.abs(weighted.eval_terms(X).reshape(len(X), 7, -1)).mean(axis=-1)
    np.testing.assert_allclose(weighted.term_importances(), np.average(scores, axis=0, weights=weight))
    with pytest.raises(ValueError, match="importance_type must be one of"):
        model.term_importances("gain")


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_global_explanation_is_plain_and_complete(loss):
    model, _, _ = fitted(loss)
    told = model.explain_global()
    assert json.loads(json.dumps(told)) == told
    assert [term["name"] for term in told["terms"]] == model.term_names_
    for term, shape in zip(told["terms"], model.shape_functions(), strict=True):
        np.testing.assert_array_equal(term["scores"], shape.values)
        np.testing.assert_array_equal(term["deviations"], shape.deviations)
        np.testing.assert_array_equal(term["weights"], shape.weights)
        assert [axis["labels"] for axis in term["axes"]] == [list(axis.labels) for axis in shape.axes]
    np.testing.assert_array_equal(told["intercept"], model.intercept_)
    assert told["link"] == model.link_
    assert (told["classes"] is not None) == (loss in CLASSIFICATION_LOSSES)


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_local_explanations_add_up(loss):
    model, X, y = fitted(loss)
    told = model.explain_local(X[:20], y[:20])
    raw = model._raw(X[:20])
    assert len(told) == 20
    for row, explanation in enumerate(told):
        json.dumps(explanation)
        total = np.sum(explanation["scores"], axis=0) + explanation["intercept"]
        np.testing.assert_allclose(total, raw[row] if loss == "multiclass" else raw[row, 0], atol=1e-12)
        np.testing.assert_allclose(explanation["raw_score"], np.squeeze(total), atol=1e-12)
        assert explanation["names"] == model.term_names_
        assert explanation["actual"] == y[row]
        assert explanation["values"][0] == X.iloc[row, 0]
        assert explanation["values"][5] == [X.iloc[row, 0], X.iloc[row, 1]]
        assert explanation["values"][4] == X.iloc[row, 4]
    predicted = [explanation["predicted"] for explanation in told]
    np.testing.assert_array_equal(predicted, getattr(model, "predict_proba", model.predict)(X[:20]))
    assert model.explain_local(X[:1])[0]["actual"] is None
    with pytest.raises(ValueError, match="X and y have different numbers of rows: 20 and 3"):
        model.explain_local(X[:20], y[:3])


def test_columns_of_an_array_have_numbers_for_names():
    X, y = make_data("squared_error")
    model = make_ebm(interactions=[(1, 0)]).fit(X, y)
    assert model.term_names_ == ["x0", "x1", "x2", "x3", "x0 & x1"]
    assert not hasattr(model, "feature_names_in_")
    assert model.explain_local(X[:1])[0]["values"][1] == X[0, 1]


# ---- editing


@pytest.mark.parametrize("loss", ["squared_error", "binary", "multiclass"])
def test_a_silenced_term_is_a_removed_term(loss):
    model, X, _ = fitted(loss)
    before = model._raw(X)
    for term in ("b", "a & b"):
        position = model.term_names_.index(term)
        part = model.eval_terms(X)[:, position].reshape(before.shape)
        silent = model.copy().scale_term(term, 0)
        removed = model.copy().remove_terms(term)
        np.testing.assert_array_equal(silent._raw(X), removed._raw(X))
        np.testing.assert_array_equal(silent._bagged_raw(X), removed._bagged_raw(X))
        np.testing.assert_allclose(removed._raw(X), before - part, atol=1e-12)
        assert term not in removed.term_names_
        assert {len(getattr(removed, name)) for name in ("term_scores_", "bagged_scores_", "bin_weights_")} == {6}
        assert len(removed.standard_deviations_) == 6
    np.testing.assert_array_equal(model._raw(X), before)


@pytest.mark.parametrize(
    "mask", [[True, False, False, True, False, False, True], [False] * 7, [False] * 6 + [True], [True] * 7]
)
def test_masks_remove_exactly_what_they_mark(mask):
    model, X, _ = fitted()
    names = list(model.term_names_)
    for given in (mask, np.array(mask), np.flatnonzero(mask), [n for n, gone in zip(names, mask, strict=True) if gone]):
        edited = model.copy().remove_terms(given)
        assert edited.term_names_ == [name for name, gone in zip(names, mask, strict=True) if not gone]
        assert edited.predict(X).shape == (len(X),)


def test_factors_scale_scores_and_spread():
    model, X, _ = fitted()
    terms, spread = model.eval_terms(X), model.standard_deviations_[0].copy()
    returned = model.scale_term("a", -2.5)
    assert returned is model
    np.testing.assert_array_equal(model.eval_terms(X)[:, 0], -2.5 * terms[:, 0])
    np.testing.assert_allclose(model.standard_deviations_[0], 2.5 * spread, rtol=1e-12)
    for factor in (np.nan, np.inf, "2", None, True, [1.0]):
        with pytest.raises(ValueError, match="factor must be a finite number"):
            model.scale_term("a", factor)


@pytest.mark.parametrize("increasing", [True, False, "auto"])
def test_monotone_curves_are_isotonic_fits(increasing):
    model, X, _ = fitted()
    others = model.eval_terms(X)
    position = 2  # has missing values
    scores, weights = model.term_scores_[position].copy(), model.bin_weights_[position]
    bagged = model.bagged_scores_[position].copy()
    assert model.monotonize("c", increasing) is model
    direction = (
        increasing
        if increasing != "auto"
        else bool(model.term_scores_[position][-2] >= model.term_scores_[position][1])
    )
    cells = np.arange(len(scores) - 2)
    isotonic = IsotonicRegression(increasing=direction)
    for before, after in [
        (scores, model.term_scores_[position]),
        *zip(bagged, model.bagged_scores_[position], strict=True),
    ]:
        expected = isotonic.fit(cells, before[1:-1], weights[1:-1]).predict(cells)
        np.testing.assert_allclose(after[1:-1], expected, atol=1e-13)
        np.testing.assert_array_equal(after[[0, -1]], before[[0, -1]])
        np.testing.assert_allclose(weights @ after, weights @ before, atol=1e-9)
    now = model.eval_terms(X)
    np.testing.assert_array_equal(np.delete(now, position, axis=1), np.delete(others, position, axis=1))
    assert not np.array_equal(now[:, position], others[:, position])
    assert (model.predict_uncertainty(X).knowledge >= 0).all()


def test_a_monotone_curve_stays_as_it_is():
    X = np.linspace(-1, 1, 300)[:, None]
    model = make_ebm(interactions=0, max_bins=12, max_rounds=300).fit(X, 5 * X[:, 0])
    before = model.term_scores_[0].copy()
    assert (np.diff(before[1:-1]) > 0).all()
    model.monotonize(0)
    np.testing.assert_array_equal(model.term_scores_[0], before)


@pytest.mark.parametrize(
    ("loss", "arguments", "message"),
    [
        ("squared_error", ("a & b",), "is a pair"),
        ("squared_error", ("e",), "is categorical"),
        ("squared_error", ("zzz",), "no term 'zzz'"),
        ("squared_error", (99,), "no term 99"),
        ("squared_error", ("a", "up"), "increasing must be True, False or 'auto'"),
        ("squared_error", ("a", None), "increasing must be True, False or 'auto'"),
        ("squared_error", ("a", 1), "increasing must be True, False or 'auto'"),
        ("multiclass", ("a",), "one score per row"),
    ],
)
def test_what_cannot_be_monotone_is_refused(loss, arguments, message):
    model, X, _ = fitted(loss)
    before = model._raw(X)
    with pytest.raises(ValueError, match=message):
        model.monotonize(*arguments)
    np.testing.assert_array_equal(model._raw(X), before)


@pytest.mark.parametrize("removed", [["b"], [1], [-4, "d"], ["e"], [False, True, False, False, True], []])
def test_removed_features_are_not_asked_for(removed):
    model, X, _ = fitted()
    silent = model.copy()
    gone = np.zeros(5, dtype=bool)
    for item in removed if not removed or not isinstance(removed[0], bool) else np.flatnonzero(removed):
        gone[X.columns.get_loc(item) if isinstance(item, str) else item] = True
    dead = [t for t, features in enumerate(model.term_features_) if gone[list(features)].any()]
    silent.remove_terms(dead)
    model.remove_features(removed)
    kept = X.loc[:, ~gone]
    assert model.n_features_in_ == kept.shape[1]
    assert model.feature_names_in_.tolist() == list(kept.columns)
    assert model.term_names_ == silent.term_names_
    np.testing.assert_array_equal(model.predict(kept), silent.predict(X))
    np.testing.assert_array_equal(model._bagged_raw(kept), silent._bagged_raw(X))
    assert [shape.name for shape in model.shape_functions()] == model.term_names_
    for name in ("bins_", "histogram_edges_", "histogram_weights_", "feature_types_in_", "feature_bounds_"):
        assert len(getattr(model, name)) == kept.shape[1]
    assert_same_ebm(EBMRegressor.from_dict(model.to_dict()), model, kept)
    if gone.any():
        with pytest.raises(ValueError, match="feature"):
            model.predict(X)


def test_columns_without_names_are_counted_anew():
    X = np.random.default_rng(0).normal(size=(150, 4))
    model = make_ebm(interactions=[(1, 3)]).fit(X, X[:, 1] * X[:, 3])
    model.remove_features("x0")
    assert model.term_names_ == ["x0", "x1", "x2", "x0 & x2"]
    assert [shape.name for shape in model.shape_functions()] == model.term_names_
    assert EBMRegressor.from_dict(model.to_dict()).term_names_ == model.term_names_


def test_a_name_of_several_terms_is_refused():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 3)), columns=["a", "b", "a & b"])
    model = make_ebm(interactions=[(0, 1)]).fit(X, X["a"])
    with pytest.raises(ValueError, match="'a & b' is the name of several terms"):
        model.scale_term("a & b", 2.0)
    model.scale_term(3, 2.0)


def test_one_feature_stays():
    model, _, _ = fitted()
    with pytest.raises(ValueError, match="All features would be removed"):
        model.remove_features([True] * 5)
    with pytest.raises(ValueError, match="no feature 'z'"):
        model.remove_features("z")
    assert model.n_features_in_ == 5


def test_sweeping_removes_what_is_zero():
    X, y = frame("squared_error")
    X["f"] = 1.0
    X["g"] = np.nan
    model = make_ebm(interactions=[("a", "b"), ("f", "g")]).fit(X, y)
    before = model.predict(X)
    swept = model.copy().sweep()
    assert swept.term_names_ == ["a", "b", "c", "d", "e", "a & b"]
    np.testing.assert_array_equal(swept.predict(X), before)
    swept = model.copy().scale_term("d", 0).remove_terms(["b", "a & b"]).sweep(features=True)
    assert swept.feature_names_in_.tolist() == ["a", "c", "e"]
    np.testing.assert_array_equal(
        swept.predict(X[["a", "c", "e"]]), model.copy().remove_terms(["b", "d", "a & b"]).predict(X)
    )
    empty = model.copy().remove_terms([True] * len(model.term_names_)).sweep(features=True)
    assert empty.feature_names_in_.tolist() == ["a"]
    assert (empty.predict(X[["a"]]) == model.intercept_).all()
    assert empty.term_importances().shape == (0,)
    assert empty.explain_global()["terms"] == []


def test_copies_are_independent():
    model, X, _ = fitted()
    before = model.predict(X)
    twin = model.copy()
    assert_same_ebm(twin, model, X)
    twin.scale_term(0, 3).monotonize("b").remove_terms("c")
    twin.term_scores_[0][...] = 9
    np.testing.assert_array_equal(model.predict(X), before)


def test_scores_changed_by_hand_are_what_predicts():
    model, X, _ = fitted()
    model.term_scores_[0][:] = 0
    model.intercept_ = 10.0
    expected = 10 + model.eval_terms(X).sum(axis=1)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-12)
    assert not model.eval_terms(X)[:, 0].any()


@pytest.mark.parametrize("cls", [EBMRegressor, EBMClassifier])
def test_nothing_works_before_the_fit(cls):
    model = cls()
    for name, arguments in {
        "shape_functions": (),
        "shape": (0,),
        "term_importances": (),
        "explain_global": (),
        "explain_local": ([[0]],),
        "eval_terms": ([[0]],),
        "predict": ([[0]],),
        "predict_uncertainty": ([[0]],),
        "predict_with_uncertainty": ([[0]],),
        "monotonize": (0,),
        "remove_terms": (0,),
        "remove_features": (0,),
        "scale_term": (0, 1),
        "sweep": (),
        "to_dict": (),
    }.items():
        with pytest.raises(NotFittedError):
            getattr(model, name)(*arguments)
    with pytest.raises(NotFittedError):
        _ = model.standard_deviations_
    assert not hasattr(model, "standard_deviations_")
