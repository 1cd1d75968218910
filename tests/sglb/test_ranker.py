"""SGLBRanker: queries in any order of rows, weights, early stopping by whole queries, searches, and refusals."""

import os
import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from skboost import SGLBClassifier, SGLBRanker, VirtualEnsembleUncertainty
from skboost.metrics import ndcg_score

LOSSES = ["lambdarank", "rank_xendcg"]
VARIANTS = [
    {"loss": "lambdarank"},
    {"loss": "rank_xendcg"},
    {"loss": "lambdarank", "posterior_sampling": True, "subsample": 0.7, "leaf_estimation": "gradient"},
    {"loss": "rank_xendcg", "langevin": True, "grow_policy": "lossguide", "max_depth": None, "max_features": 0.5},
    {"loss": "lambdarank", "early_stopping": True, "validation_fraction": 0.3, "grow_policy": "depthwise"},
    {"loss": "rank_xendcg", "schedule": "cyclical", "cycle_length": 5, "gradient_scale_max": 3.0},
]


def problem(seed=0, n=400, n_queries=30, repeats=True):
    """Return (X, y, qid) with rows that occur several times, in one query and in several."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    if repeats:
        X = np.round(X)
    y = np.clip(np.round(X[:, 0] + 0.3 * X[:, 1] + 0.7 * rng.normal(size=n) + 1), 0, 4)
    return X, y, rng.integers(0, n_queries, n)


def ranker(**params):
    return SGLBRanker(**{"n_estimators": 20, "random_state": 0, "n_jobs": 1, **params})


# ---- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", VARIANTS, ids=str)
def test_the_order_of_rows_and_threads_are_irrelevant(params, seed):
    X, y, qid = problem(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    weight = np.random.default_rng(seed).integers(1, 4, len(y)) / 2
    before = ranker(**params).fit(X, y, weight, qid=qid)
    after = ranker(**params, n_jobs=2).fit(X[order], y[order], weight[order], qid=qid[order])
    assert_array_equal(before.predict(X), after.predict(X))
    assert before.n_iter_ == after.n_iter_
    assert_array_equal(before.validation_score_, after.validation_score_)
    assert np.ptp(before.predict(X)) > 0


@pytest.mark.parametrize("params", VARIANTS, ids=str)
def test_copies_of_the_estimator_are_equal(params):
    X, y, qid = problem()
    model = ranker(**params).fit(X, y, qid=qid)
    for other in (pickle.loads(pickle.dumps(model)), clone(model).fit(X, y, qid=qid)):
        assert_array_equal(other.predict(X), model.predict(X))


@pytest.mark.parametrize("params", VARIANTS, ids=str)
def test_rows_without_weight_are_not_there(params):
    X, y, qid = problem()
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    kept = weight > 0
    # Rows without weight may be what no other row may be.
    y_bad = np.where(kept, y, 77.0)
    before = ranker(**params).fit(X, y_bad, weight, qid=qid)
    after = ranker(**params).fit(X[kept], y[kept], weight[kept], qid=qid[kept])
    assert_array_equal(before.predict(X), after.predict(X))


@pytest.mark.parametrize("loss", LOSSES)
def test_labels_of_queries_are_irrelevant(loss):
    X, y, qid = problem()
    names = np.array([f"query {i}" for i in np.random.default_rng(0).permutation(1000)])[qid]
    order = np.argsort(qid, kind="stable")
    group = np.unique(qid, return_counts=True)[1]
    first = ranker(loss=loss).fit(X, y, qid=qid).predict(X)
    for model in (
        ranker(loss=loss).fit(X, y, qid=names),
        ranker(loss=loss).fit(X, y, qid=names.astype(object)),
        ranker(loss=loss).fit(X[order], y[order], group=group),
    ):
        assert_array_equal(model.predict(X), first)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_queries_all_rows_are_one(loss):
    X, y, _ = problem()
    assert_array_equal(
        ranker(loss=loss).fit(X, y).predict(X), ranker(loss=loss).fit(X, y, qid=np.full(len(y), 3)).predict(X)
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_queries_of_one_row_contribute_nothing(loss):
    # Values repeat, so that the columns have the same bins with and without the queries of one row.
    X, y, qid = problem()
    lonely = np.arange(20)
    X_more = np.vstack([X, X[lonely]])
    y_more, qid_more = np.append(y, 4 - y[lonely]), np.append(qid, 1000 + lonely)
    # They count as rows of a leaf all the same: no minimum here.
    params = {"loss": loss, "min_samples_leaf": 1e-9}
    found = ranker(**params).fit(X_more, y_more, qid=qid_more)
    assert_array_equal(found.predict(X), ranker(**params).fit(X, y, qid=qid).predict(X))


def test_nothing_is_learnt_without_pairs():
    X, y, _ = problem()
    for qid, relevance in ((np.arange(len(y)), y), (np.zeros(len(y)), np.ones(len(y)))):
        model = ranker().fit(X, relevance, qid=qid)
        assert_array_equal(model.predict(X), 0)
        assert model.score(X, relevance, qid=qid) == 1.0


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_multiply_gradients(loss):
    X, y, qid = problem()
    weight = np.random.default_rng(2).uniform(0.5, 2, len(y))
    plain = {"loss": loss, "l2_regularization": 0.0, "min_samples_leaf": 1e-9}
    once, twice = (ranker(**plain).fit(X, y, w, qid=qid).predict(X) for w in (weight, 2 * weight))
    assert_allclose(once, twice, rtol=1e-3, atol=1e-3)
    assert np.abs(once - ranker(**plain).fit(X, y, qid=qid).predict(X)).max() > 0.01


@pytest.mark.parametrize("params", VARIANTS[:4] + VARIANTS[5:], ids=str)
def test_a_warm_start_goes_on_where_the_chain_stopped(params):
    X, y, qid = problem()
    model = ranker(**{**params, "n_estimators": 10}, warm_start=True).fit(X, y, qid=qid)
    model.set_params(n_estimators=20).fit(X, y, qid=qid)
    assert_array_equal(model.predict(X), ranker(**params).fit(X, y, qid=qid).predict(X))
    with pytest.raises(ValueError, match="changed: y"):
        model.fit(X, y, qid=np.zeros(len(y)))


# ---- what it learns --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf_estimation", ["newton", "gradient"])
@pytest.mark.parametrize("loss", LOSSES)
def test_scores_order_rows_that_were_not_seen(loss, leaf_estimation):
    X, y, qid = problem(0, 1500, 60, repeats=False)
    X_test, y_test, qid_test = problem(1, 1500, 60, repeats=False)
    model = ranker(loss=loss, leaf_estimation=leaf_estimation, n_estimators=40, max_depth=3).fit(X, y, qid=qid)
    best = ndcg_score(y_test, X_test[:, 0] + 0.3 * X_test[:, 1], qid=qid_test, k=5)
    found = ndcg_score(y_test, model.predict(X_test), qid=qid_test, k=5)
    assert found > best - 0.04
    assert best > ndcg_score(y_test, np.zeros(1500), qid=qid_test, k=5) + 0.3


def test_only_what_differs_within_queries_is_learnt():
    X, _, qid = problem(0, 600, 40, repeats=False)
    offset = np.random.default_rng(3).normal(size=40)[qid]
    y = np.clip(np.round(X[:, 0] + 1.5), 0, 4)
    model = ranker().fit(np.column_stack([X, offset]), y, qid=qid)
    assert model.feature_importances_[3] < 0.1
    assert model.feature_importances_[0] > 0.8


@pytest.mark.parametrize("loss", LOSSES)
def test_gains_decide_what_counts(loss):
    # Label 1 is found by the first column, label 2 by the second; only one of them has a gain.
    X, _, qid = problem(0, 600, 40, repeats=False)
    y = np.where(X[:, 1] > 1, 2.0, np.where(X[:, 0] > 1, 1.0, 0.0))
    flat = ranker(loss=loss, label_gain=[0, 5, 5]).fit(X, y, qid=qid)
    steep = ranker(loss=loss, label_gain=[0, 0, 5]).fit(X, y, qid=qid)
    assert flat.feature_importances_[0] > 0.2 > 0.1 > steep.feature_importances_[0]
    assert steep.score(X, y, qid) == ndcg_score(y, steep.predict(X), qid=qid, label_gain=[0, 0, 5])


def test_scores_follow_monotonic_constraints():
    X, y, qid = problem()
    model = ranker(monotonic_cst=[1, 0, -1]).fit(X, y, qid=qid)
    grid = np.linspace(-3, 3, 50)
    for column, sign in ((0, 1), (2, -1)):
        rows = np.zeros((50, 3))
        rows[:, column] = grid
        assert (sign * np.diff(model.predict(rows)) >= 0).all()


def test_staged_scores_end_with_the_scores():
    X, y, qid = problem()
    model = ranker().fit(X, y, qid=qid)
    stages = list(model.staged_predict(X))
    assert len(stages) == 20
    assert_array_equal(stages[-1], model.predict(X))
    assert_array_equal(stages[9], ranker(n_estimators=10).fit(X, y, qid=qid).predict(X))


def test_members_are_earlier_states():
    X, y, qid = problem()
    model = ranker(posterior_sampling=True).fit(X, y, qid=qid)
    members = model.predict_virtual_ensembles(X, 4)
    assert members.shape == (4, len(y))
    assert_array_equal(members[-1], model.predict(X))
    with pytest.raises(ValueError, match="no decomposition for loss='lambdarank'"):
        model.predict_uncertainty(X)
    with pytest.raises(ValueError, match="SGLBRanker"):
        VirtualEnsembleUncertainty(ranker()).fit(X, y)


# ---- early stopping --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.25, 8])
def test_whole_queries_are_held_out(fraction):
    X, y, qid = problem()
    model = ranker(early_stopping=True, validation_fraction=fraction)
    seen = {}
    original = model._split_validation

    def spy(task, given):
        seen["before"], seen["after"] = task, original(task, given)
        return seen["after"]

    model._split_validation = spy
    model.fit(X, y, qid=qid)
    loss = seen["after"].loss
    parts = seen["after"].rows.y, seen["after"].validation[1]
    train, held = (set(loss.table[rows.astype(int), 0]) for rows in parts)
    assert not train & held
    assert len(held) == 8
    assert len(train) == 22


@pytest.mark.parametrize("scoring", ["loss", None])
@pytest.mark.parametrize("loss", LOSSES)
def test_validation_scores_are_those_of_given_rows(loss, scoring):
    X, y, qid = problem(0)
    X_val, y_val, qid_val = problem(1, 150, 9)
    weight = np.random.default_rng(0).uniform(0.5, 2, 150)
    model = ranker(loss=loss, early_stopping=True, scoring=scoring, truncation_level=30, n_iter_no_change=20)
    model.fit(X, y, qid=qid, X_val=X_val, y_val=y_val, qid_val=qid_val, sample_weight_val=weight)
    assert len(model.validation_score_) == 21
    for t, predicted in enumerate(ranker(loss=loss).fit(X, y, qid=qid).staged_predict(X_val), start=1):
        if scoring is None or loss == "lambdarank":
            k = None if scoring is None else 30
            expected = ndcg_score(y_val, predicted, qid=qid_val, k=k, sample_weight=weight) - (scoring == "loss")
            assert_allclose(model.validation_score_[t], expected, rtol=1e-10, atol=1e-10)
    assert model.n_iter_ == max(1, np.argmax(model.validation_score_))


def test_the_training_rows_may_decide():
    X, y, qid = problem()
    model = ranker(early_stopping=True, validation_fraction=None, scoring=None, n_iter_no_change=50).fit(X, y, qid=qid)
    assert len(model.validation_score_) == 0
    assert_allclose(model.train_score_[model.n_iter_], model.score(X, y, qid=qid), rtol=1e-10)


# ---- scikit-learn ----------------------------------------------------------------------------------------------------


def test_searches_pass_queries_on():
    X, y, qid = problem(repeats=False)
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = ranker().set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(estimator, {"learning_rate": [1e-6, 0.1]}, cv=GroupKFold(3), error_score="raise")
        search.fit(X, y, qid=qid, groups=qid)
        scorer = make_scorer(ndcg_score, k=5).set_score_request(qid=True)
        pipeline = make_pipeline(StandardScaler(), estimator)
        found = cross_validate(
            pipeline, X, y, cv=GroupKFold(3), scoring=scorer, params={"qid": qid, "groups": qid}, error_score="raise"
        )
    assert search.best_params_ == {"learning_rate": 0.1}
    folds = list(GroupKFold(3).split(X, y, qid))
    train, test = folds[0]
    first = ranker().fit(X[train], y[train], qid=qid[train])
    assert_allclose(search.cv_results_["split0_test_score"][1], first.score(X[test], y[test], qid=qid[test]))
    assert_allclose(found["test_score"][0], ndcg_score(y[test], first.predict(X[test]), qid=qid[test], k=5), atol=0.03)


WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": "a weight multiplies the gradients of one row; a repeated row "
    "takes part in more pairs, and in the sums over its query"
}


@parametrize_with_checks(
    [
        SGLBRanker(n_estimators=10),
        SGLBRanker(n_estimators=10, loss="rank_xendcg", posterior_sampling=True),
        SGLBRanker(n_estimators=10, early_stopping=True, validation_fraction=None),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_parameters_are_those_of_the_other_estimators():
    ours, others = SGLBRanker().get_params(), SGLBClassifier().get_params()
    own = {"truncation_level", "sigmoid", "normalize", "label_gain"}
    assert set(ours) - own == set(others) - {"class_weight"}
    changed = {"loss", "n_estimators", "posterior_sampling", "leaf_estimation"}
    assert {name for name in set(ours) - own if ours[name] != others[name]} == changed


def test_tags_say_what_targets_are():
    tags = SGLBRanker().__sklearn_tags__()
    assert tags.estimator_type is None
    assert tags.target_tags.required
    assert tags.target_tags.positive_only
    assert tags.input_tags.allow_nan


def test_frames_and_categories():
    pd = pytest.importorskip("pandas")
    X, y, qid = problem()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(d=pd.Categorical(np.where(X[:, 1] > 0, "high", "low")))
    model = ranker().fit(frame, pd.Series(y), qid=pd.Series(qid))
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    assert model.score(frame, y, qid=pd.Series(qid)) > 0.8


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"loss": "rank_xendcg", "truncation_level": 5}, "truncation_level=5 needs loss='lambdarank'"),
        ({"loss": "rank_xendcg", "sigmoid": 2.0}, "sigmoid=2.0 needs loss='lambdarank'"),
        ({"loss": "rank_xendcg", "normalize": False}, "normalize=False needs loss='lambdarank'"),
        ({"label_gain": [0, 1]}, "label_gain of length 2"),
        ({"label_gain": [0, 3, 1, 4, 5]}, "do not fall"),
        ({"scoring": "r2"}, "scoring"),
        ({"truncation_level": 0}, "truncation_level"),
        ({"sigmoid": 0.0}, "sigmoid"),
        ({"early_stopping": True, "validation_fraction": 30}, "more queries, got 30"),
        ({"loss": "squared_error"}, "loss"),
    ],
)
def test_bad_parameters_are_refused(params, match):
    X, y, qid = problem()
    with pytest.raises(ValueError, match=match):
        ranker(**params).fit(X, y, qid=qid)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"y": -1.0}, "y >= 0"),
        ({"y": 31.0}, "at most 30"),
        ({"y": np.nan}, "NaN"),
        ({"qid": [1, 2]}, "2 labels for 400 rows"),
        ({"group": [200, 200]}, "qid and group"),
        ({"qid": None, "group": [200, 100]}, "sums to 300 for 400 rows"),
        ({"qid_val": [1]}, "qid_val and group_val need X_val"),
        ({"X_val": np.zeros((2, 3))}, "X_val and y_val go together"),
        ({"X_val": np.zeros((2, 3)), "y_val": [1, 0]}, "early_stopping=True"),
    ],
)
def test_bad_data_are_refused(data, match):
    X, y, qid = problem()
    given = {"qid": qid, **data}
    if isinstance(value := given.pop("y", None), float):
        y[0] = value
    with pytest.raises(ValueError, match=match):
        ranker().fit(X, y, **given)


def test_given_validation_rows_are_checked():
    X, y, qid = problem()
    model = ranker(early_stopping=True)
    with pytest.raises(ValueError, match="y_val"):
        model.fit(X, y, qid=qid, X_val=X[:2], y_val=[-1.0, 0.0], qid_val=[0, 0])
    with pytest.raises(ValueError, match="X_val needs qid_val or group_val"):
        model.fit(X, y, qid=qid, X_val=X[:2], y_val=[1.0, 0.0])
    with pytest.raises(ValueError, match="1 labels for 2 rows"):
        model.fit(X, y, qid=qid, X_val=X[:2], y_val=[1.0, 0.0], qid_val=[0])


def test_one_query_at_most_has_ten_thousand_rows():
    X, y = np.zeros((10_001, 1)), np.zeros(10_001)
    with pytest.raises(ValueError, match="at most 10000 rows"):
        ranker().fit(X, y)


def test_targets_of_one_column_are_raveled_with_a_warning():
    X, y, qid = problem()
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = ranker().fit(X, y[:, None], qid=qid)
    assert_array_equal(model.predict(X), ranker().fit(X, y, qid=qid).predict(X))


# ---- against LightGBM ------------------------------------------------------------------------------------------------


def matched(seed):
    ours = {
        "grow_policy": "lossguide", "max_depth": None, "max_leaf_nodes": 15, "min_samples_leaf": 20,
        "max_features": 0.8,
    }  # fmt: skip
    theirs = {
        "num_leaves": 15, "min_data_in_leaf": 20, "lambda_l2": 1.0, "feature_fraction": 0.8, "learning_rate": 0.1,
        "verbose": -1, "num_threads": 1, "seed": seed,
    }  # fmt: skip
    return ranker(**ours, n_estimators=60, random_state=seed), theirs


@pytest.mark.parametrize("loss", LOSSES)
def test_order_is_as_good_as_that_of_lightgbm(loss):
    lightgbm = pytest.importorskip("lightgbm")
    path = os.environ.get("SKBOOST_LAMBDARANK_DATA")
    if not path:
        pytest.skip("SKBOOST_LAMBDARANK_DATA does not name the file of the lambdarank data")
    pd = pytest.importorskip("pandas")
    frame = pd.read_csv(path)
    X = frame.drop(columns=["relevance", "qid", "part"]).to_numpy(float)
    y, qid = frame["relevance"].to_numpy(float), frame["qid"].to_numpy()
    scores = []
    for seed in range(2):
        for train, test in GroupKFold(5, shuffle=True, random_state=seed).split(X, y, qid):
            rows = train[np.argsort(qid[train], kind="stable")]
            model, params = matched(seed)
            model.set_params(loss=loss).fit(X[rows], y[rows], qid=qid[rows])
            data = lightgbm.Dataset(X[rows], y[rows], group=np.unique(qid[rows], return_counts=True)[1])
            booster = lightgbm.train({**params, "objective": loss}, data, 60)
            scores.append([ndcg_score(y[test], m.predict(X[test]), qid=qid[test], k=5) for m in (model, booster)])
    ours, theirs = np.mean(scores, axis=0)
    assert ours > 0.995 * theirs
