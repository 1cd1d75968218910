"""Inside scikit-learn: pipelines, searches, calibration, inspection, clones."""

import warnings

import numpy as np
import pytest
from fit_cases import (
    CLASSIFICATION_LOSSES,
    EBM_LOSSES,
    LOSSES,
    REGRESSION_LOSSES,
    assert_same_ebm,
    assert_same_model,
    make_data,
    make_ebm,
    make_estimator,
)
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import BaggingRegressor, StackingClassifier, VotingRegressor
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, cross_validate
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler


@pytest.mark.parametrize("loss", LOSSES)
def test_pipeline(loss):
    X, y = make_data(loss)
    pipeline = make_pipeline(StandardScaler(), make_estimator(loss)).fit(X, y)
    scaled = StandardScaler().fit(X)
    alone = make_estimator(loss).fit(scaled.transform(X), y)
    np.testing.assert_array_equal(pipeline.predict(X), alone.predict(scaled.transform(X)))
    assert pipeline.score(X, y) == alone.score(scaled.transform(X), y)
    np.testing.assert_array_equal(
        pipeline[-1].predict_uncertainty(pipeline[:-1].transform(X), 3).knowledge,
        alone.predict_uncertainty(scaled.transform(X), 3).knowledge,
    )


@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_column_transformer(loss):
    pd = pytest.importorskip("pandas")
    X, y = make_data(loss)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(X[:, 0] > 0, "up", "down"))
    encode = ColumnTransformer(
        [("text", OrdinalEncoder(), make_column_selector(dtype_exclude="number"))], remainder="passthrough"
    )
    # The encoder puts the text column first.
    pipeline = make_pipeline(encode, make_estimator(loss, categorical_features=[0])).fit(frame, y)
    assert pipeline.predict(frame).shape == (len(y),)
    named = make_pipeline(clone(encode), make_estimator(loss, categorical_features=["text__e"]))
    named.set_output(transform="pandas").fit(frame, y)
    np.testing.assert_array_equal(named.predict(frame), pipeline.predict(frame))
    assert named[-1].feature_names_in_.tolist() == named[:-1].get_feature_names_out().tolist()


def test_set_output_with_polars():
    pytest.importorskip("polars")
    X, y = make_data("squared_error")
    plain = make_pipeline(StandardScaler(), make_estimator()).fit(X, y)
    polars = make_pipeline(StandardScaler(), make_estimator()).set_output(transform="polars").fit(X, y)
    np.testing.assert_array_equal(plain.predict(X), polars.predict(X))


@pytest.mark.parametrize("loss", ["squared_error", "binary"])
def test_grid_search(loss):
    X, y = make_data(loss, n=150)
    grid = {
        "learning_rate": [0.05, 0.3],
        "grow_policy": ["symmetric", "lossguide"],
        "diffusion_temperature": [None, 1.0],
    }
    searches = [
        GridSearchCV(make_estimator(loss, n_estimators=5), grid, cv=3, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)
    ]
    np.testing.assert_array_equal(*[search.cv_results_["mean_test_score"] for search in searches])
    assert len(np.unique(searches[0].cv_results_["mean_test_score"])) > 2
    assert_same_model(searches[0].best_estimator_, searches[1].best_estimator_, X)
    expected = make_estimator(loss, n_estimators=5, **searches[0].best_params_).fit(X, y)
    assert_same_model(searches[0].best_estimator_, expected, X)


@pytest.mark.parametrize("loss", LOSSES)
def test_cross_validation(loss):
    X, y = make_data(loss, n=300)
    model = make_estimator(loss, n_estimators=40)
    scores = cross_val_score(model, X, y, cv=3)
    assert (scores > (0.2 if loss in REGRESSION_LOSSES else 0.5)).all()
    weight = np.random.default_rng(0).uniform(0.5, 2, 300)
    found = cross_validate(model, X, y, cv=3, params={"sample_weight": weight}, return_estimator=True)
    assert (found["test_score"] != scores).any()
    assert cross_val_predict(model, X, y, cv=3).shape == y.shape


def test_cross_validated_probabilities():
    X, y = make_data("multiclass")
    proba = cross_val_predict(make_estimator("multiclass"), X, y, cv=3, method="predict_proba")
    assert proba.shape == (len(y), 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.parametrize("loss", CLASSIFICATION_LOSSES)
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration(loss, method):
    X, y = make_data(loss, n=200)
    weight = np.random.default_rng(0).uniform(0.5, 2, 200)
    model = CalibratedClassifierCV(make_estimator(loss), method=method, cv=3)
    for sample_weight in (None, weight):
        model.fit(X, y, sample_weight=sample_weight)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        assert model.score(X, y) > 0.5


def test_ensembles_of_ensembles():
    X, y = make_data("squared_error")
    assert VotingRegressor([("a", make_estimator()), ("b", make_estimator("gaussian"))]).fit(X, y).score(X, y) > 0.2
    assert BaggingRegressor(make_estimator(), n_estimators=3, random_state=0).fit(X, y).score(X, y) > 0.2
    assert MultiOutputRegressor(make_estimator()).fit(X, np.stack([y, -y], axis=1)).predict(X).shape == (len(y), 2)
    log = TransformedTargetRegressor(make_estimator(), func=np.log, inverse_func=np.exp).fit(X, np.exp(y))
    np.testing.assert_allclose(np.log(log.predict(X)), make_estimator().fit(X, y).predict(X), rtol=1e-5, atol=1e-5)
    X, y = make_data("multiclass")
    stack = StackingClassifier([("a", make_estimator("multiclass"))], LogisticRegression(), cv=3)
    assert stack.fit(X, y).score(X, y) > 0.5


@pytest.mark.parametrize("loss", LOSSES)
def test_clone(loss):
    X, y = make_data(loss)
    model = make_estimator(loss, interaction_cst=[{0, 1}], categorical_features=[3])
    copy = clone(model.fit(X, y))
    assert not hasattr(copy, "n_iter_")
    assert copy.get_params() == model.get_params()
    assert_same_model(copy.fit(X, y), model, X)
    assert is_classifier(model) == (loss in CLASSIFICATION_LOSSES)
    assert is_regressor(model) == (loss in REGRESSION_LOSSES)


@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_permutation_importance(loss):
    X, y = make_data(loss, n=250)
    model = make_estimator(loss, n_estimators=40).fit(X, y)
    for n_jobs in (1, 2):
        found = permutation_importance(model, X, y, n_repeats=3, random_state=0, n_jobs=n_jobs).importances_mean
        assert found[:2].min() > found[2:].max()


@pytest.mark.parametrize("loss", LOSSES)
def test_partial_dependence(loss):
    X, y = make_data(loss, missing=0)
    model = make_estimator(loss, monotonic_cst=None).fit(X, y)
    found = partial_dependence(model, X, [0], grid_resolution=7, kind="both")
    n_curves = 3 if loss == "multiclass" else 1
    assert found["average"].shape == (n_curves, 7)
    assert np.isfinite(found["individual"]).all()
    grid = found["grid_values"][0]
    rows = X.copy()
    rows[:, 0] = grid[3]
    told = model.predict_proba(rows)[:, -1] if loss in CLASSIFICATION_LOSSES else model.predict(rows)
    np.testing.assert_allclose(found["average"][-1, 3], told.mean(), rtol=1e-12)


def test_metadata_routing():
    from sklearn import config_context

    X, y = make_data("squared_error")
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    with config_context(enable_metadata_routing=True):
        model = make_estimator().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipeline.fit(X, y, sample_weight=weight)
    alone = make_estimator().fit(StandardScaler().fit_transform(X), y, weight)
    np.testing.assert_array_equal(pipeline[-1]._raw(pipeline[:-1].transform(X)), alone._raw(pipeline[:-1].transform(X)))


def test_html_and_text_representations():
    for loss in LOSSES:
        model = make_estimator(loss)
        assert type(model).__name__ in repr(model)
        assert type(model).__name__ in model._repr_html_()


def test_warnings_are_not_given():
    for loss in LOSSES:
        X, y = make_data(loss)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = make_estimator(loss, early_stopping=True).fit(X, y)
            model.predict(X)
            model.predict_uncertainty(X, 1)


# ---- additive models


@pytest.mark.parametrize("loss", EBM_LOSSES)
def test_additive_models_in_pipelines_and_searches(loss):
    X, y = make_data(loss, n=150)
    pipeline = make_pipeline(StandardScaler(), make_ebm(loss)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    assert_same_ebm(pipeline[-1], make_ebm(loss).fit(scaled, y), scaled)
    grid = {"max_leaves": [2, 3], "interactions": [0, 2]}
    searches = [GridSearchCV(make_ebm(loss, max_rounds=10), grid, cv=3, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)]
    np.testing.assert_array_equal(*[search.cv_results_["mean_test_score"] for search in searches])
    assert len(np.unique(searches[0].cv_results_["mean_test_score"])) > 1
    assert_same_ebm(*[search.best_estimator_ for search in searches], X)


def test_additive_models_know_the_names_of_columns():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("polars")
    X, y = make_data("squared_error", missing=0)
    frame = pd.DataFrame(X, columns=list("abcd"))
    pipeline = make_pipeline(StandardScaler(), make_ebm(interactions=[("a", "c")])).set_output(transform="pandas")
    assert pipeline.fit(frame, y)[-1].term_names_ == ["a", "b", "c", "d", "a & c"]
    polars = make_pipeline(StandardScaler(), make_ebm(interactions=[(0, 2)])).set_output(transform="polars").fit(X, y)
    np.testing.assert_array_equal(polars.predict(X), pipeline.predict(frame))
    mixed = frame.assign(e=np.where(X[:, 0] > 0, "up", "down"))
    model = make_ebm(interactions=[("d", "e")]).fit(mixed, y)
    assert model.feature_types_in_[-1] == "nominal"
    assert cross_val_score(model, mixed, y, cv=3).shape == (3,)


@pytest.mark.parametrize("loss", ["squared_error", "binary"])
def test_additive_models_with_weights_and_metadata(loss):
    from sklearn import config_context

    X, y = make_data(loss, n=150)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    init = np.random.default_rng(1).normal(size=len(y))
    with config_context(enable_metadata_routing=True):
        model = make_ebm(loss).set_fit_request(sample_weight=True, init_score=True).set_predict_request(init_score=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        pipeline.fit(X, y, sample_weight=weight, init_score=init)
        found = pipeline.predict(X, init_score=init)
    scaled = StandardScaler().fit_transform(X)
    alone = make_ebm(loss).fit(scaled, y, weight, init_score=init)
    np.testing.assert_array_equal(found, alone.predict(scaled, init_score=init))


def test_additive_models_inside_other_estimators():
    X, y = make_data("squared_error", missing=0)
    pair = VotingRegressor([("a", make_ebm()), ("b", make_ebm(interactions=0))]).fit(X, y)
    np.testing.assert_allclose(pair.predict(X), np.mean([model.predict(X) for model in pair.estimators_], axis=0))
    assert BaggingRegressor(make_ebm(), n_estimators=2, random_state=0).fit(X, y).score(X, y) > 0.2
    assert MultiOutputRegressor(make_ebm()).fit(X, np.stack([y, -y], axis=1)).predict(X).shape == (len(y), 2)
    # The logarithm of the exponential differs in last bits, which key the draws.
    log = TransformedTargetRegressor(make_ebm(), func=np.log, inverse_func=np.exp).fit(X, np.exp(y))
    assert np.corrcoef(np.log(log.predict(X)), make_ebm().fit(X, y).predict(X))[0, 1] > 0.95
    residual = make_ebm().fit(X, y, init_score=make_estimator().fit(X, y))
    assert residual.score(X, y - make_estimator().fit(X, y).predict(X)) < 1
    X, y = make_data("multiclass", n=200)
    calibrated = CalibratedClassifierCV(make_ebm("multiclass"), cv=3).fit(X, y)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    stack = StackingClassifier([("a", make_ebm("multiclass"))], LogisticRegression(), cv=3)
    assert stack.fit(X, y).score(X, y) > 0.5


def test_partial_dependence_of_an_additive_model_is_its_curve():
    X, y = make_data("squared_error", n=300, missing=0)
    model = make_ebm(interactions=0).fit(X, y)
    found = partial_dependence(model, X, [1], grid_resolution=9, kind="average")
    curve = model.shape(1).value(found["grid_values"][0])
    np.testing.assert_allclose(found["average"][0] - found["average"][0, 0], curve - curve[0], atol=1e-12)
    importances = permutation_importance(model, X, y, n_repeats=3, random_state=0).importances_mean
    assert importances[:2].min() > importances[2:].max()


def test_representations_of_additive_models():
    for loss in EBM_LOSSES:
        model = make_ebm(loss)
        assert type(model).__name__ in repr(model)
        assert type(model).__name__ in model._repr_html_()
        assert is_classifier(model) == (loss in CLASSIFICATION_LOSSES)
        assert is_regressor(model) == (loss not in CLASSIFICATION_LOSSES)
