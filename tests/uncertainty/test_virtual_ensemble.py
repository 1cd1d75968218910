"""Virtual and real ensembles around SGLB, scikit-learn's boosters and pipelines, against what the members say."""

import copy
import pickle

import numpy as np
import pytest
from joblib import parallel_backend
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_friedman1
from sklearn.ensemble import (
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state, get_tags

from skboost import (
    EBMRegressor,
    SGLBClassifier,
    SGLBRegressor,
    Uncertainty,
    VirtualEnsembleUncertainty,
    _uncertainty,
)
from skboost._uncertainty import member_schedule

FIELDS = ("mean", "knowledge", "data", "total", "support", "member_iterations")
SKLEARN_REGRESSORS = [
    GradientBoostingRegressor(n_estimators=25, subsample=0.5, random_state=0),
    HistGradientBoostingRegressor(max_iter=24, random_state=0),
    HistGradientBoostingRegressor(
        max_iter=60, early_stopping=True, n_iter_no_change=3, learning_rate=0.3, random_state=0
    ),
]
SKLEARN_CLASSIFIERS = [
    GradientBoostingClassifier(n_estimators=25, subsample=0.5, random_state=0),
    HistGradientBoostingClassifier(max_iter=24, random_state=0),
]


def regression_data(n=200):
    return make_friedman1(n, noise=0.5, random_state=0)


def classification_data(n_classes=3):
    X, y = load_iris(return_X_y=True)
    rows = y < n_classes
    return X[rows], np.array(["setosa", "versicolor", "virginica"])[y[rows]]


def assert_same_uncertainty(found, expected):
    for name in FIELDS:
        here, there = getattr(found, name), getattr(expected, name)
        if there is None:
            assert here is None, name
        else:
            assert_array_equal(here, there, err_msg=name)


# ---- virtual ensembles -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inner",
    [SGLBRegressor(n_estimators=30, random_state=0), SGLBRegressor(loss="gaussian", n_estimators=30, random_state=0),
     SGLBRegressor(loss="poisson", n_estimators=30, random_state=0), SGLBClassifier(n_estimators=30, random_state=0)],
)  # fmt: skip
def test_own_estimators_say_what_they_say_alone(inner):
    X, y = classification_data() if is_classifier(inner) else regression_data()
    y = y if is_classifier(inner) else np.abs(y)
    model = VirtualEnsembleUncertainty(inner, n_members=7).fit(X, y)
    alone = clone(inner).fit(X, y)
    expected = alone.predict_uncertainty(X, n_members=7)
    assert_same_uncertainty(model.predict_uncertainty(X), expected)
    assert_array_equal(model.score_samples(X), -expected.knowledge)
    if is_classifier(inner):
        assert_array_equal(model.predict_proba(X), expected.mean)
        assert_array_equal(model.predict(X), alone.classes_[expected.mean.argmax(axis=1)])
        assert model.score(X, y) == (model.predict(X) == y).mean()
    else:
        assert_array_equal(model.predict(X), expected.mean)
        assert_allclose(model.score(X, y), 1 - np.mean((y - expected.mean) ** 2) / np.var(y))
    weight = np.random.default_rng(0).uniform(size=len(y))
    assert model.score(X, y, weight) != model.score(X, y)


def test_default_is_a_regressor_of_ours():
    X, y = regression_data(60)
    model = VirtualEnsembleUncertainty(random_state=0).fit(X, y)
    assert isinstance(model.estimator_, SGLBRegressor)
    assert model.estimator is None
    assert model.predict_uncertainty(X).member_iterations.tolist() == list(range(550, 1001, 50))


@pytest.mark.parametrize("inner", SKLEARN_REGRESSORS)
def test_stages_of_regressors_are_members(inner):
    X, y = regression_data()
    model = VirtualEnsembleUncertainty(inner, n_members=4).fit(X, y)
    stages = np.stack([np.array(stage) for stage in clone(inner).fit(X, y).staged_predict(X)])
    counts = member_schedule(len(stages), 4)
    found = model.predict_uncertainty(X)
    assert_array_equal(found.member_iterations, counts)
    assert_allclose(found.mean, stages[counts - 1].mean(axis=0), rtol=1e-12)
    assert_allclose(found.knowledge, stages[counts - 1].var(axis=0), rtol=1e-9)
    assert found.data is None
    assert_array_equal(model.predict(X), found.mean)
    # The last stage is the model itself.
    assert_allclose(VirtualEnsembleUncertainty(inner, n_members=1).fit(X, y).predict(X), stages[-1], rtol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("inner", SKLEARN_CLASSIFIERS)
def test_stages_of_classifiers_are_members(inner, n_classes):
    X, y = classification_data(n_classes)
    model = VirtualEnsembleUncertainty(inner, n_members=4).fit(X, y)
    stages = np.stack([np.array(stage) for stage in clone(inner).fit(X, y).staged_predict_proba(X)])
    members = stages[member_schedule(len(stages), 4) - 1]
    found = model.predict_uncertainty(X)
    assert_same_uncertainty(found, Uncertainty(*_uncertainty.categorical(members), None, found.member_iterations))
    assert_allclose(found.mean, members.mean(axis=0), rtol=1e-12)
    assert_array_equal(model.classes_, np.unique(y))
    assert_array_equal(model.predict_proba(X), found.mean)


class OnlyMembers(RegressorMixin, BaseEstimator):
    """A regressor with members and without uncertainty of its own."""

    def fit(self, X, y):
        self.level_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.level_)

    def predict_virtual_ensembles(self, X, n_members=10):
        return self.level_ + np.arange(n_members)[:, None] * np.ones(len(X))


def test_any_estimator_with_members():
    model = VirtualEnsembleUncertainty(OnlyMembers(), n_members=3).fit(np.zeros((4, 1)), [1.0, 2.0, 3.0, 2.0])
    found = model.predict_uncertainty(np.zeros((2, 1)))
    assert_allclose(found.mean, 3)
    assert_allclose(found.knowledge, 2 / 3)
    assert found.member_iterations is None


def test_frozen_models_are_not_fitted_again():
    X, y = regression_data()
    fitted = make_pipeline(StandardScaler(), SGLBRegressor(n_estimators=40, random_state=0)).fit(X, y)
    model = VirtualEnsembleUncertainty(FrozenEstimator(fitted), calibration_fraction=0.5, random_state=0).fit(X, -y)
    expected = fitted[-1].predict_uncertainty(fitted[0].transform(X))
    assert_same_uncertainty(model.predict_uncertainty(X), expected)


# ---- real ensembles --------------------------------------------------------------------------------------------------


FOREST = RandomForestRegressor(n_estimators=5, random_state=3)


def members_by_hand(inner, X, y, n_members, seed, names=("random_state",)):
    generator = check_random_state(seed)
    members = []
    for _ in range(n_members):
        seeds = {name: generator.randint(np.iinfo(np.int32).max) for name in sorted(names)}
        members.append(clone(inner).set_params(**seeds).fit(X, y))
    return members


@pytest.mark.parametrize(
    ("inner", "names"),
    [
        (SGLBRegressor(n_estimators=15), ["random_state"]),
        (FOREST, ["random_state"]),
        (BaggingRegressor(RandomForestRegressor(2), n_estimators=3), ["random_state", "estimator__random_state"]),
        (make_pipeline(StandardScaler(), FOREST), ["randomforestregressor__random_state"]),
        (EBMRegressor(max_rounds=15, outer_bags=2, interactions=0), ["random_state"]),
    ],
)  # fmt: skip
def test_regressors_are_fitted_with_other_seeds(inner, names):
    X, y = regression_data()
    model = VirtualEnsembleUncertainty(inner, method="ensemble", n_members=4, random_state=5).fit(X, y)
    predictions = np.stack([member.predict(X) for member in members_by_hand(inner, X, y, 4, 5, names)])
    assert len(model.estimators_) == 4
    found = model.predict_uncertainty(X)
    assert_allclose(found.mean, predictions.mean(axis=0), rtol=1e-12)
    assert_allclose(found.knowledge, predictions.var(axis=0), rtol=1e-9)
    assert (found.knowledge > 0).any()
    assert found.data is found.total is found.member_iterations is None
    assert_array_equal(model.predict(X), found.mean)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("inner", [SGLBClassifier(n_estimators=15), RandomForestClassifier(n_estimators=5)])
def test_classifiers_are_fitted_with_other_seeds(inner, n_classes):
    X, y = classification_data(n_classes)
    model = VirtualEnsembleUncertainty(inner, method="ensemble", n_members=3, random_state=5).fit(X, y)
    probabilities = np.stack([member.predict_proba(X) for member in members_by_hand(inner, X, y, 3, 5)])
    found = model.predict_uncertainty(X)
    # All training rows have support, so a member alone adds nothing.
    support = np.ones(len(y)) if isinstance(inner, SGLBClassifier) else None
    assert_same_uncertainty(found, Uncertainty(*_uncertainty.categorical(probabilities), support))
    assert (found.knowledge > 0).any()
    assert_array_equal(model.predict(X), model.classes_[found.mean.argmax(axis=1)])


@pytest.mark.parametrize("steps", [[], [StandardScaler()]])
def test_predicted_variances_are_data_uncertainty(steps):
    X, y = regression_data()
    inner = make_pipeline(*steps, SGLBRegressor(loss="gaussian", n_estimators=15))
    model = VirtualEnsembleUncertainty(inner, method="ensemble", n_members=3, random_state=0).fit(X, y)
    found = model.predict_uncertainty(X)
    variances = [
        member[-1].predict_virtual_ensembles(member[:-1].transform(X) if steps else X, 1, return_variance=True)[1][0]
        for member in model.estimators_
    ]
    assert_allclose(found.data, np.mean(variances, axis=0), rtol=1e-12)
    assert_array_equal(found.total, found.data + found.knowledge)
    assert_array_equal(model.predict(X), found.mean)
    assert model.get_feature_names_out().tolist() == ["mean", "knowledge", "data", "total", "support"]


def test_what_members_know_alone_is_added():
    """Law of total variance, and chain rule of entropy: the total stays the entropy of the mean."""
    X, y = regression_data()
    far = np.concatenate([X[:20], np.full((3, 10), 1.5)])
    for inner in (SGLBRegressor(n_estimators=40), SGLBClassifier(n_estimators=40)):
        target = y > 14 if is_classifier(inner) else y
        model = VirtualEnsembleUncertainty(inner, method="ensemble", n_members=3, random_state=0).fit(X, target)
        alone = [member.predict_uncertainty(far, n_members=1) for member in model.estimators_]
        within = np.mean([part.knowledge for part in alone], axis=0)
        assert (within[20:] > 0).all()
        found = model.predict_uncertainty(far)
        assert_allclose(found.support, np.mean([part.support for part in alone], axis=0), rtol=1e-14)
        assert (found.support[20:] < 1).all()
        if is_classifier(inner):
            between = _uncertainty.categorical([member.predict_proba(far) for member in model.estimators_])
            assert_allclose(found.total, -(found.mean * np.log(found.mean)).sum(axis=1), rtol=1e-10)
            assert_array_equal(found.total, found.data + found.knowledge)
        else:
            between = _uncertainty.regression([member.predict(far) for member in model.estimators_])
        assert_allclose(found.knowledge, between.knowledge + within, rtol=1e-12)


class SeesSomeClasses(ClassifierMixin, BaseEstimator):
    """A classifier that leaves out the class its seed names."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        classes = np.unique(y)
        self.classes_ = np.delete(classes, self.random_state % len(classes))
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


def test_members_that_know_other_classes_are_aligned():
    X, y = np.zeros((6, 1)), np.array(["a", "b", "c"] * 2)
    model = VirtualEnsembleUncertainty(SeesSomeClasses(), method="ensemble", n_members=30, random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    left_out = [np.setdiff1d(["a", "b", "c"], member.classes_)[0] for member in model.estimators_]
    shares = np.array([left_out.count(label) for label in "abc"]) / 30
    assert (shares > 0).all()
    found = model.predict_uncertainty(X[:1])
    assert_allclose(found.mean[0], (1 - shares) / 2, rtol=1e-12)
    assert_allclose(found.data, np.log(2), rtol=1e-12)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_the_backend_does_not_change_the_members(backend):
    X, y = regression_data()
    inner = HistGradientBoostingRegressor(max_iter=5, max_features=0.4)
    one = VirtualEnsembleUncertainty(inner, method="ensemble", n_members=3, random_state=1)
    expected = clone(one).fit(X, y).predict_uncertainty(X)
    with parallel_backend(backend):
        assert_same_uncertainty(clone(one).set_params(n_jobs=2).fit(X, y).predict_uncertainty(X), expected)


def test_dask_fits_the_members():
    distributed = pytest.importorskip("distributed")
    X, y = regression_data()
    model = VirtualEnsembleUncertainty(SGLBRegressor(n_estimators=5), method="ensemble", n_members=4, random_state=1)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        distributed.get_task_stream(client) as stream,
        parallel_backend("dask"),
    ):
        found = clone(model).fit(X, y)
    assert len(stream.data) == 4
    assert_same_uncertainty(found.predict_uncertainty(X), model.fit(X, y).predict_uncertainty(X))


# ---- seeds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["virtual", "ensemble"])
def test_same_seed_same_bits(method):
    X, y = regression_data()
    model = VirtualEnsembleUncertainty(
        SGLBRegressor(n_estimators=20), method=method, n_members=3, calibration_fraction=0.3, random_state=0
    ).fit(X, y)
    expected = model.predict_uncertainty(X)
    for other in (clone(model).fit(X, y), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_same_uncertainty(other.predict_uncertainty(X), expected)
        assert_array_equal(other.predict_interval(X), model.predict_interval(X))
    order = np.random.default_rng(0).permutation(len(y))
    assert_same_uncertainty(clone(model).fit(X[order], y[order]).predict_uncertainty(X), expected)
    assert_array_equal(clone(model).fit(X[order], y[order]).predict_interval(X), model.predict_interval(X))
    other_seed = clone(model).set_params(random_state=1).fit(X, y)
    assert (other_seed.predict(X) != model.predict(X)).any()


def test_virtual_keeps_the_seed_of_the_estimator_unless_it_has_one():
    X, y = regression_data()
    inner = SGLBRegressor(n_estimators=20, random_state=7)
    alone = clone(inner).fit(X, y)
    assert_array_equal(VirtualEnsembleUncertainty(inner, n_members=1).fit(X, y).predict(X), alone.predict(X))
    seeded = VirtualEnsembleUncertainty(inner, n_members=1, random_state=7).fit(X, y)
    assert (seeded.predict(X) != alone.predict(X)).any()
    assert seeded.estimator_.random_state == np.random.RandomState(7).randint(np.iinfo(np.int32).max)
    assert inner.random_state == 7


def test_random_state_instance_goes_on():
    X, y = regression_data()
    generator = np.random.RandomState(0)
    model = VirtualEnsembleUncertainty(SGLBRegressor(n_estimators=4), method="ensemble", n_members=2)
    model.set_params(random_state=generator)
    first, second = model.fit(X, y).predict(X), model.fit(X, y).predict(X)
    assert (first != second).any()


# ---- pipelines, frames, searches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("final", [SGLBRegressor(n_estimators=20), GradientBoostingRegressor(n_estimators=20)])
def test_virtual_ensemble_of_a_pipeline(final):
    X, y = regression_data()
    inner = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(with_mean=False), final))
    model = VirtualEnsembleUncertainty(inner, n_members=3, random_state=0).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    scaled = StandardScaler(with_mean=False).fit_transform(scaled)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    alone = VirtualEnsembleUncertainty(clone(final).set_params(random_state=seed), n_members=3).fit(scaled, y)
    assert_same_uncertainty(model.predict_uncertainty(X), alone.predict_uncertainty(scaled))
    assert model.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("method", ["virtual", "ensemble"])
def test_names_of_columns_are_respected(method):
    pd = pytest.importorskip("pandas")
    X, y = regression_data()
    names = [f"f{i}" for i in range(10)]
    frame = pd.DataFrame(X, columns=names)
    inner = make_pipeline(StandardScaler().set_output(transform="pandas"), SGLBRegressor(n_estimators=20))
    model = VirtualEnsembleUncertainty(inner, method=method, n_members=2, calibration_fraction=0.2, random_state=0)
    model.fit(frame, y)
    assert model.feature_names_in_.tolist() == names
    fitted = model.estimator_ if method == "virtual" else model.estimators_[0]
    assert fitted[-1].feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="feature names"):
        model.predict_uncertainty(frame[names[::-1]])
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        model.get_feature_names_out(names[::-1])
    assert_array_equal(model.get_feature_names_out(names), model.get_feature_names_out())
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")


def test_transform_has_the_parts_as_columns():
    pytest.importorskip("pandas")
    X, y = classification_data()
    model = VirtualEnsembleUncertainty(SGLBClassifier(n_estimators=20), random_state=0).fit(X, y)
    parts = model.predict_uncertainty(X)
    names = ["mean_setosa", "mean_versicolor", "mean_virginica", "knowledge", "data", "total", "support"]
    assert model.get_feature_names_out().tolist() == names
    columns = [parts.mean, parts.knowledge, parts.data, parts.total, parts.support]
    assert_array_equal(model.transform(X), np.column_stack(columns))
    frame = model.set_output(transform="pandas").transform(X)
    assert frame.columns.tolist() == names
    X, y = regression_data()
    plain = VirtualEnsembleUncertainty(GradientBoostingRegressor(n_estimators=20), random_state=0).fit(X, y)
    assert plain.get_feature_names_out().tolist() == ["mean", "knowledge"]
    assert_array_equal(plain.transform(X), np.column_stack([plain.predict(X), -plain.score_samples(X)]))
    assert_array_equal(clone(plain).fit_transform(X, y), plain.transform(X))


def test_uncertainties_reach_the_next_step():
    X, y = regression_data()
    first = VirtualEnsembleUncertainty(SGLBRegressor(n_estimators=20, loss="gaussian"), random_state=0)
    pipeline = make_pipeline(first, LinearRegression()).fit(X, y)
    assert pipeline[-1].n_features_in_ == 5
    assert pipeline.score(X, y) > 0.5
    assert pipeline[:-1].get_feature_names_out().tolist() == ["mean", "knowledge", "data", "total", "support"]


def test_grid_search_reaches_inside():
    X, y = regression_data()
    model = VirtualEnsembleUncertainty(SGLBRegressor(n_estimators=10), n_members=2, random_state=0)
    grid = {"estimator__learning_rate": [0.01, 0.3], "method": ["virtual", "ensemble"], "n_members": [2, 5]}
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 8
    assert search.best_estimator_.estimator.learning_rate == search.best_params_["estimator__learning_rate"]


# ---- sample weights and routing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["virtual", "ensemble"])
@pytest.mark.parametrize("calibration_fraction", [None, 0.3])
def test_whole_weights_are_repeated_rows(method, calibration_fraction):
    X, y = regression_data(60)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    inner = make_pipeline(StandardScaler(with_mean=False, with_std=False), SGLBRegressor(n_estimators=20))
    model = VirtualEnsembleUncertainty(
        inner, method=method, n_members=2, calibration_fraction=calibration_fraction, random_state=0
    )
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert (weighted.predict(X) != clone(model).fit(X, y).predict(X)).any()
    if calibration_fraction:
        assert_array_equal(weighted.predict_interval(X), repeated.predict_interval(X))
        assert weighted.n_calibration_ == repeated.n_calibration_ == int(0.3 * weight.sum() + 0.5)


def test_weights_need_an_estimator_that_takes_them():
    X, y = regression_data(60)

    class NoWeights(OnlyMembers):
        pass

    with pytest.raises(ValueError, match="sample_weight was passed, but fit of estimator=NoWeights takes no weights"):
        VirtualEnsembleUncertainty(NoWeights()).fit(X, y, sample_weight=np.ones(60))


def test_fit_params_go_to_the_estimator():
    X, y = regression_data()
    inner = SGLBRegressor(n_estimators=20, early_stopping=True, n_iter_no_change=100, random_state=0)
    model = VirtualEnsembleUncertainty(inner, n_members=3).fit(X, y, X_val=X[:50], y_val=y[:50])
    alone = clone(inner).fit(X, y, X_val=X[:50], y_val=y[:50])
    assert_array_equal(model.estimator_.validation_score_, alone.validation_score_)


class TakesGroups(OnlyMembers):
    """Remembers the groups that `fit` was given."""

    def fit(self, X, y, sample_weight=None, groups=None):
        self.groups_ = groups
        self.weight_ = sample_weight
        return super().fit(X, y)


def test_fit_params_are_divided_with_the_rows():
    X, y = regression_data(50)
    groups = np.arange(50)
    model = VirtualEnsembleUncertainty(TakesGroups(), calibration_fraction=0.3, random_state=0)
    model.fit(X, y, groups=groups)
    trained = model.estimator_.groups_
    assert len(trained) == 35
    assert_allclose(model.estimator_.level_, y[trained].mean(), rtol=1e-12)


@pytest.mark.parametrize("calibration_fraction", [None, 0.3])
def test_metadata_routing(calibration_fraction):
    import sklearn
    from sklearn.exceptions import UnsetMetadataPassedError

    X, y = regression_data(50)
    weight = np.arange(1.0, 51)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = TakesGroups()
        model = VirtualEnsembleUncertainty(inner, calibration_fraction=calibration_fraction, random_state=0)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            model.fit(X, y, sample_weight=weight)
        inner.set_fit_request(sample_weight=True, groups=True)
        model.fit(X, y, sample_weight=weight, groups=np.arange(50))
        assert len(model.estimator_.groups_) == (50 if calibration_fraction is None else len(model.estimator_.weight_))
        inner.set_fit_request(sample_weight=False, groups=False)
        model.fit(X, y, sample_weight=weight)
        assert model.estimator_.weight_ is None
        model.fit(X, y)
        inner.set_fit_request(sample_weight=True)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(model, X, y, cv=2, params={"sample_weight": weight}, return_estimator=True)
        assert all(fold.estimator_.weight_ is not None for fold in found["estimator"])


# ---- being an estimator ----------------------------------------------------------------------------------------------


def test_kind_and_tags_follow_the_estimator():
    assert is_regressor(VirtualEnsembleUncertainty())
    assert is_classifier(VirtualEnsembleUncertainty(make_pipeline(StandardScaler(), SGLBClassifier())))
    assert get_tags(VirtualEnsembleUncertainty()).input_tags.allow_nan
    forest = VirtualEnsembleUncertainty(RandomForestRegressor(), method="ensemble")
    assert get_tags(forest).input_tags.sparse
    assert not get_tags(forest).target_tags.multi_output
    assert get_tags(VirtualEnsembleUncertainty(SGLBRegressor(loss="poisson"))).target_tags.positive_only
    for model, present, absent in (
        (VirtualEnsembleUncertainty(), "predict_interval", ("predict_proba", "predict_set")),
        (VirtualEnsembleUncertainty(SGLBClassifier()), "predict_set", ("predict_interval",)),
    ):
        assert hasattr(model, present)
        assert not any(hasattr(model, name) for name in absent)


def test_unfitted():
    X = np.zeros((3, 2))
    for inner in (SGLBRegressor(), SGLBClassifier()):
        model = VirtualEnsembleUncertainty(inner)
        names = ["predict", "predict_uncertainty", "transform", "score_samples"]
        for name in [*names, "predict_proba", "predict_set"] if is_classifier(inner) else [*names, "predict_interval"]:
            with pytest.raises(NotFittedError):
                getattr(model, name)(X)
        with pytest.raises(NotFittedError):
            model.get_feature_names_out()


def test_second_fit_forgets_the_first_and_a_failed_one_changes_nothing():
    X, y = classification_data()
    model = VirtualEnsembleUncertainty(SGLBClassifier(n_estimators=20), calibration_fraction=0.3, random_state=0)
    model.fit(X, y)
    before = vars(model).copy()
    model.set_params(n_members=11)
    with pytest.raises(ValueError, match="n_members=11 needs at least 22 iterations, the model has 20"):
        model.fit(X, y)
    assert {name: value for name, value in vars(model).items() if name != "n_members"} == {
        name: value for name, value in before.items() if name != "n_members"
    }
    X, y = regression_data()
    model.set_params(estimator=SGLBRegressor(n_estimators=4), method="ensemble", n_members=2, calibration_fraction=None)
    model.fit(X, y)
    for name in ("estimator_", "classes_", "conformity_score_", "n_calibration_"):
        assert not hasattr(model, name)


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_members": 0}, "'n_members' parameter"),
        ({"n_members": 2.0}, "'n_members' parameter"),
        ({"method": "bagging"}, "'method' parameter"),
        ({"calibration_fraction": 0.0}, "'calibration_fraction' parameter"),
        ({"calibration_fraction": 1.0}, "'calibration_fraction' parameter"),
        ({"conformity_score": "width"}, "'conformity_score' parameter"),
        ({"estimator": "forest"}, "'estimator' parameter"),
        ({"n_jobs": 2}, "n_jobs=2 needs method='ensemble'"),
        ({"n_members": 51}, "n_members=51 needs at least 102 iterations, the model has 100"),
        ({"conformity_score": "constant"}, "conformity_score='constant' needs calibration_fraction"),
        (
            {"conformity_score": "lac", "calibration_fraction": 0.5},
            "conformity_score='lac' does not go with .* regressor",
        ),
        (
            {"conformity_score": "total", "calibration_fraction": 0.5},
            "conformity_score='total' needs an estimator that predi",
        ),
        ({"calibration_fraction": 60}, "calibration_fraction=60 must be less than the number of rows, 60"),
        ({"estimator": RandomForestRegressor()}, "RandomForestRegressor has no virtual ensemble for method='virtual'"),
        ({"estimator": EBMRegressor()}, "Use method='ensemble'"),
        (
            {"estimator": KNeighborsRegressor(), "method": "ensemble"},
            "KNeighborsRegressor has no parameter random_state",
        ),
        ({"estimator": KMeans()}, "estimator must be a regressor or a classifier, got KMeans"),
        ({"estimator": RidgeClassifier(), "method": "ensemble"}, "RidgeClassifier has no predict_proba"),
    ],
)
def test_a_bad_parameter_is_named(params, message):
    X, y = regression_data(60)
    params = {"estimator": SGLBRegressor(n_estimators=100), "random_state": 0, **params}
    with pytest.raises(ValueError, match=message):
        VirtualEnsembleUncertainty(**params).fit(X, y)


def test_a_classifier_takes_no_score_of_regression():
    X, y = classification_data()
    model = VirtualEnsembleUncertainty(SGLBClassifier(), calibration_fraction=0.2, conformity_score="total")
    with pytest.raises(ValueError, match="conformity_score='total' does not go with an estimator that is a classifier"):
        model.fit(X, y)


class Uncounted(OnlyMembers):
    """A staged booster that does not say how many stages it has."""

    predict_virtual_ensembles = property()

    def staged_predict(self, X):
        yield self.predict(X)


def test_the_number_of_stages_must_be_known():
    with pytest.raises(ValueError, match="does not know the number of iterations of Uncounted"):
        VirtualEnsembleUncertainty(Uncounted()).fit(np.zeros((3, 1)), np.arange(3.0))


def test_targets():
    X = np.zeros((4, 1))
    with pytest.raises(ValueError, match=r"y must have one column, got shape \(4, 2\)"):
        VirtualEnsembleUncertainty().fit(X, np.zeros((4, 2)))
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        VirtualEnsembleUncertainty().fit(X, None)
