"""Early stopping and warm starts of the estimators, with scores recomputed from the predictions."""

import numpy as np
import pytest
from fit_cases import (
    CLASSIFICATION_LOSSES,
    LOSSES,
    POLICIES,
    REGRESSION_LOSSES,
    assert_same_model,
    assert_same_predictions,
    make_data,
    make_estimator,
)
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.metrics import get_scorer, log_loss, make_scorer

from skboost import SGLBClassifier, SGLBRegressor
from skboost.sglb._chain import Chain

STOPPING = {"early_stopping": True, "n_estimators": 60, "learning_rate": 0.3, "n_iter_no_change": 4}


def minus_loss(model, X, y, weight=None):
    """Return minus the weighted mean loss from public predictions only."""
    if hasattr(model, "classes_"):
        return -log_loss(y, model.predict_proba(X), sample_weight=weight, labels=model.classes_)
    mean = model.predict(X)
    if model.loss == "squared_error":
        losses = (y - mean) ** 2 / 2
    elif model.loss == "poisson":
        losses = mean - y * np.log(mean)
    else:
        variance = model.predict_uncertainty(X, 1).data
        # In standardised units, less constants.
        losses = 0.5 * np.log(variance / model._loss.scale**2) + (y - mean) ** 2 / (2 * variance)
    return -np.average(losses, weights=weight)


def models_of_all_lengths(model, X, y, n_iter, **fit):
    """Yield the models stopped after 1, ..., n_iter iterations without any early stopping."""
    for count in range(1, n_iter + 1):
        yield clone(model).set_params(n_estimators=count, n_iter_no_change=10**6).fit(X, y, **fit)


# ---- the values of the scores


@pytest.mark.parametrize("loss", LOSSES)
def test_scores_are_minus_the_loss_of_given_rows(loss):
    X, y = make_data(loss, n=200)
    X_val, y_val = make_data(loss, seed=1, n=80)
    weight, weight_val = np.random.default_rng(0).uniform(0.5, 2, 200), np.random.default_rng(1).uniform(0.5, 2, 80)
    params = {"early_stopping": True, "n_iter_no_change": 10**6, "n_estimators": 6}
    model = make_estimator(loss, **params).fit(X, y, weight, X_val=X_val, y_val=y_val, sample_weight_val=weight_val)
    assert len(model.train_score_) == len(model.validation_score_) == 7
    # Without early stopping the chain is the same and every stage is at hand.
    plain = [make_estimator(loss, n_estimators=k).fit(X, y, weight) for k in (2, 4, 6)]
    for k, stage in zip((2, 4, 6), plain, strict=True):
        np.testing.assert_allclose(model.train_score_[k], minus_loss(stage, X, y, weight), rtol=1e-6)
        np.testing.assert_allclose(model.validation_score_[k], minus_loss(stage, X_val, y_val, weight_val), rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_first_score_is_that_of_the_constant(loss):
    X, y = make_data(loss, n=200)
    model = make_estimator(loss, **STOPPING, validation_fraction=None).fit(X, y)
    if loss in CLASSIFICATION_LOSSES:
        share = np.unique(y, return_counts=True)[1] / len(y)
        expected = np.sum(share * np.log(share))
    elif loss == "poisson":
        expected = -(y.mean() - y.mean() * np.log(y.mean()))
    else:
        scale = model._loss.scale if loss == "gaussian" else 1.0
        expected = -(np.log(y.std() / scale) + 0.5) if loss == "gaussian" else -y.var() / 2
    np.testing.assert_allclose(model.train_score_[0], expected, rtol=1e-9)
    assert len(model.validation_score_) == 0


def test_poisson_scores_leave_out_what_depends_on_the_target_alone():
    X, y = make_data("poisson", n=200)
    model = make_estimator("poisson", early_stopping=True, validation_fraction=None, n_estimators=3).fit(X, y)
    mean = model.predict(X)
    likelihood = np.mean(y * np.log(mean) - mean - gammaln(y + 1))
    np.testing.assert_allclose(model.train_score_[model.n_iter_] - np.mean(gammaln(y + 1)), likelihood, rtol=1e-6)


def test_no_scores_without_early_stopping():
    model = make_estimator().fit(*make_data("squared_error"))
    assert len(model.train_score_) == len(model.validation_score_) == 0
    assert model.n_iter_ == 12


# ---- when to stop


def expected_stop(scores, n_iter_no_change, tol):
    """Return (number of scores seen, position of the best) by the documented rule."""
    reference, without = scores[0], 0
    for position in range(1, len(scores)):
        if scores[position] > reference + tol:
            reference, without = scores[position], 0
        else:
            without += 1
            if without == n_iter_no_change:
                return position + 1, int(np.argmax(scores[: position + 1]))
    return len(scores), int(np.argmax(scores))


@pytest.mark.parametrize("tol", [0.0, 1e-2])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_model_is_cut_at_its_best_iteration(loss, grow_policy, tol):
    X, y = make_data(loss, n=200)
    X_val, y_val = make_data(loss, seed=1, n=60)
    model = make_estimator(loss, **STOPPING, grow_policy=grow_policy, tol=tol)
    patient = clone(model).set_params(n_iter_no_change=10**6).fit(X, y, X_val=X_val, y_val=y_val)
    model.fit(X, y, X_val=X_val, y_val=y_val)
    n_seen, best = expected_stop(patient.validation_score_, 4, tol)
    assert len(patient.validation_score_) == 61
    np.testing.assert_array_equal(model.validation_score_, patient.validation_score_[:n_seen])
    assert model.n_iter_ == max(best, 1) == len(model.shrink_factors_) == model._forest.n_trees
    stopped = make_estimator(loss, **STOPPING | {"early_stopping": False, "n_estimators": max(best, 1)})
    stopped.set_params(grow_policy=grow_policy).fit(X, y)
    assert_same_model(model, stopped, X)


def test_it_does_stop():
    X, y = make_data("squared_error", n=200)
    y = np.random.default_rng(0).normal(size=200)
    model = make_estimator(**STOPPING | {"n_estimators": 500}).fit(X, y)
    assert model.n_iter_ < 50
    assert len(model.validation_score_) <= model.n_iter_ + 5


def test_a_model_is_left_when_no_iteration_helps():
    X = np.random.default_rng(0).normal(size=(100, 2))
    y = np.repeat([0.0, 1.0], 50)
    model = make_estimator(**STOPPING, diffusion_temperature=0.01).fit(X, y)
    assert model.n_iter_ >= 1
    assert np.isfinite(model.predict(X)).all()
    constant = make_estimator(**STOPPING).fit(X, np.ones(100))
    assert constant.n_iter_ == 1
    np.testing.assert_array_equal(constant.predict(X), 1.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_members_count_on_the_cut_model(loss):
    X, y = make_data(loss, n=200)
    model = make_estimator(loss, **STOPPING).fit(X, y)
    n_members = model.n_iter_ // 2
    assert model.predict_uncertainty(X, n_members).member_iterations[-1] == model.n_iter_
    with pytest.raises(ValueError, match=f"the model has {model.n_iter_}"):
        model.predict_uncertainty(X, n_members + 1)


# ---- which rows


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fraction", [0.1, 0.5, 1, 30])
def test_validation_rows_go_by_content(loss, fraction, seed):
    X, y = make_data(loss, seed, n=150)
    order = np.random.default_rng(seed).permutation(150)
    model = make_estimator(loss, **STOPPING, validation_fraction=fraction)
    one, other = clone(model).fit(X, y), clone(model).fit(X[order], y[order])
    np.testing.assert_array_equal(one.validation_score_, other.validation_score_)
    np.testing.assert_array_equal(one.train_score_, other.train_score_)
    assert_same_predictions(one, other, X)


@pytest.mark.parametrize(("fraction", "expected"), [(0.1, 20), (0.25, 50), (7, 7), (1, 1), (0.001, 1)])
def test_number_of_validation_rows(fraction, expected, monkeypatch):
    X, y = make_data("squared_error", n=200)
    seen = sizes_of_split(monkeypatch, make_estimator(**STOPPING, validation_fraction=fraction), X, y)
    assert seen == (200 - expected, expected)


def sizes_of_split(monkeypatch, model, X, y, weight=None):
    """Return the summed weights of the training and the validation rows of a fit."""
    seen = []
    original = type(model)._split_validation

    def spy(self, *args):
        task = original(self, *args)
        rows, validation = task.rows, task.validation
        seen.append((rows.total_weight, len(validation[1]) if validation[3] is None else validation[3].sum()))
        return task

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "_split_validation", spy)
        model.fit(X, y, weight)
    return seen[0]


def test_weights_are_split_as_copies(monkeypatch):
    X, y = make_data("squared_error", n=100)
    weight = np.random.default_rng(0).integers(1, 6, 100)
    train, held = sizes_of_split(monkeypatch, make_estimator(**STOPPING, validation_fraction=0.2), X, y, weight)
    assert train + held == weight.sum()
    assert held == round(0.2 * weight.sum())


def test_classes_are_held_out_in_proportion():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.repeat(["rare", "common"], [20, 380])
    shares = []
    original = SGLBClassifier._split_validation

    class Spy(SGLBClassifier):
        def _split_validation(self, *args):
            task = original(self, *args)
            rows, validation = task.rows, task.validation
            shares.append(np.bincount(validation[2].astype(int), minlength=2).tolist())
            assert set(rows.y) == {0.0, 1.0}
            return task

    for seed in range(5):
        Spy(**STOPPING, validation_fraction=0.25, random_state=seed).fit(X, y)
    assert shares == [[95, 5]] * 5


def test_held_out_rows_have_no_influence_on_the_trees():
    """Fit on the training part alone gives the same chain: same bins aside, which all rows shape."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, size=(300, 2)).astype(float)
    y = X[:, 0] + rng.normal(size=300)
    model = make_estimator(**STOPPING, noise_variance=1.0, validation_fraction=0.3)
    parts = []
    original = SGLBRegressor._split_validation

    class Spy(SGLBRegressor):
        def _split_validation(self, *args):
            task = original(self, *args)
            rows, validation = task.rows, task.validation
            parts.append((rows.y.copy(), validation[1].copy()))
            return task

    spy = Spy(**model.get_params()).fit(X, y)
    train = np.isin(y, parts[0][0])
    assert train.sum() == 210
    alone = make_estimator(**STOPPING | {"early_stopping": False, "n_estimators": spy.n_iter_}, noise_variance=1.0)
    assert_same_predictions(spy, alone.fit(X[train], y[train]), X)


def test_the_seed_decides_the_held_out_rows():
    X, y = make_data("squared_error", n=200)
    one, other = (make_estimator(**STOPPING, posterior_sampling=False, random_state=s).fit(X, y) for s in (0, 1))
    assert one.validation_score_[0] != other.validation_score_[0]


def test_no_row_to_validate_on_is_an_error():
    with pytest.raises(ValueError, match="leaves no row to validate on"):
        make_estimator(**STOPPING).fit([[1.0]], [2.0])
    make_estimator(**STOPPING, validation_fraction=None).fit([[1.0]], [2.0])


# ---- scoring


@pytest.mark.parametrize("loss", REGRESSION_LOSSES)
def test_scoring_of_regression(loss):
    X, y = make_data(loss, n=200)
    X_val, y_val = make_data(loss, seed=1, n=80)
    weight_val = np.random.default_rng(1).uniform(0.5, 2, 80)
    by_hand = make_scorer(lambda y_true, y_pred, sample_weight=None: -np.max(np.abs(y_true - y_pred)))
    cases = {None: "r2", "neg_mean_absolute_error": "neg_mean_absolute_error", by_hand: by_hand}
    for scoring, scorer in cases.items():
        params = {"early_stopping": True, "scoring": scoring, "n_iter_no_change": 10**6, "n_estimators": 5}
        model = make_estimator(loss, **params)
        model.fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=weight_val)
        scorer = get_scorer(scorer) if isinstance(scorer, str) else scorer
        stage = make_estimator(loss, n_estimators=5).fit(X, y)
        expected = scorer(stage, X_val, y_val, sample_weight=weight_val)
        np.testing.assert_allclose(model.validation_score_[5], expected, rtol=1e-9)


@pytest.mark.parametrize("loss", CLASSIFICATION_LOSSES)
def test_scoring_of_classification(loss):
    X, y = make_data(loss, n=200)
    X_val, y_val = make_data(loss, seed=1, n=80)
    names = {None: "accuracy", "neg_log_loss": "neg_log_loss", "balanced_accuracy": "balanced_accuracy"}
    names["roc_auc" if loss == "binary" else "roc_auc_ovr"] = "roc_auc" if loss == "binary" else "roc_auc_ovr"
    for scoring, name in names.items():
        params = {"early_stopping": True, "scoring": scoring, "n_iter_no_change": 10**6, "n_estimators": 5}
        model = make_estimator(loss, **params).fit(X, y, X_val=X_val, y_val=y_val)
        stage = make_estimator(loss, n_estimators=5).fit(X, y)
        np.testing.assert_allclose(model.validation_score_[5], get_scorer(name)(stage, X_val, y_val), rtol=1e-9)


def test_scoring_without_validation_rows_scores_the_training_rows():
    X, y = make_data("squared_error", n=200)
    params = {"early_stopping": True, "validation_fraction": None, "n_iter_no_change": 10**6, "n_estimators": 4}
    model = make_estimator(scoring="r2", **params).fit(X, y)
    np.testing.assert_allclose(model.train_score_[4], make_estimator(n_estimators=4).fit(X, y).score(X, y), rtol=1e-9)


def test_unknown_score_is_refused():
    with pytest.raises(ValueError, match="no such score"):
        make_estimator(**STOPPING, scoring="no such score").fit(*make_data("squared_error"))


# ---- rows given by the user


@pytest.mark.parametrize("loss", LOSSES)
def test_given_rows_are_not_trained_on(loss):
    X, y = make_data(loss, n=200)
    X_val, y_val = make_data(loss, seed=1, n=60)
    params = STOPPING | {"n_iter_no_change": 10**6, "n_estimators": 5, "tol": 0.0}
    model = make_estimator(loss, **params).fit(X, y, X_val=X_val, y_val=y_val)
    plain = make_estimator(loss, **params | {"early_stopping": False, "n_estimators": model.n_iter_}).fit(X, y)
    assert_same_model(model, plain, X)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_given_rows_are_copies(loss):
    X, y = make_data(loss, n=100)
    X_val, y_val = make_data(loss, seed=1, n=60)
    weight = np.random.default_rng(0).integers(0, 4, 60)
    model = make_estimator(loss, **STOPPING)
    one = clone(model).fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=weight)
    rows = np.repeat(np.arange(60), weight)
    other = clone(model).fit(X, y, X_val=X_val[rows], y_val=y_val[rows])
    np.testing.assert_array_equal(one.validation_score_, other.validation_score_)
    assert_same_model(one, other, X)
    unweighted = clone(model).fit(X, y, X_val=X_val, y_val=y_val)
    assert not np.array_equal(one.validation_score_[:2], unweighted.validation_score_[:2])


def test_class_weights_and_validation_rows():
    """As in HistGradientBoostingClassifier: they weigh a held-out part, given rows have the weights given with them."""
    X, y = make_data("binary", n=200)
    X_val, y_val = make_data("binary", seed=1, n=60)
    params = {"n_estimators": 4, "class_weight": {"no": 5.0, "yes": 1.0}}
    stopping = {"early_stopping": True, "n_iter_no_change": 10**6}
    model = make_estimator("binary", **params, **stopping).fit(X, y, X_val=X_val, y_val=y_val)
    stage = make_estimator("binary", **params).fit(X, y)
    np.testing.assert_allclose(model.validation_score_[4], minus_loss(stage, X_val, y_val), rtol=1e-6)
    factor = np.where(y == "no", 5.0, 1.0)
    np.testing.assert_allclose(model.train_score_[4], minus_loss(stage, X, y, factor), rtol=1e-6)
    held = make_estimator("binary", **params, **stopping, validation_fraction=0.5).fit(X, y)
    base, share = held._forest.base_score[0], np.mean(y == "yes")
    expected = -np.average(np.logaddexp(0, [base, -base]), weights=[5 * (1 - share), share])
    np.testing.assert_allclose(held.validation_score_[0], expected, rtol=0.02)


def test_bad_given_rows_are_refused():
    X, y = make_data("binary")
    model = make_estimator("binary", **STOPPING)
    cases = [
        ({"X_val": X}, "X_val and y_val go together"),
        ({"y_val": y}, "X_val and y_val go together"),
        ({"sample_weight_val": np.ones(len(y))}, "sample_weight_val needs X_val"),
        ({"X_val": X[:, :2], "y_val": y}, "2 features"),
        ({"X_val": X, "y_val": y[:5]}, "inconsistent numbers"),
        ({"X_val": X[:2], "y_val": ["yes", "perhaps"]}, "classes that are not in y"),
        ({"X_val": X, "y_val": y, "sample_weight_val": -np.ones(len(y))}, "Negative values"),
        ({"X_val": X, "y_val": y, "sample_weight_val": np.zeros(len(y))}, "zero"),
        ({"X_val": X[:0], "y_val": y[:0]}, "0 sample"),
    ]
    for fit, message in cases:
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, **fit)
        assert not hasattr(model, "n_iter_")
    with pytest.raises(ValueError, match="early_stopping=True"):
        make_estimator("binary").fit(X, y, X_val=X, y_val=y)
    with pytest.raises(ValueError, match="poisson"):
        make_estimator("poisson", **STOPPING).fit(*make_data("poisson"), X_val=X, y_val=-np.ones(len(X)))


def test_given_rows_need_a_finite_loss_but_no_more():
    """What cannot be trained on can be scored: counts that are all 0, ranges beyond single precision."""
    X, y = make_data("poisson")
    model = make_estimator("poisson", **STOPPING).fit(X, y, X_val=X[:20], y_val=np.zeros(20))
    assert np.isfinite(model.validation_score_).all()
    with pytest.raises(ValueError, match="requires y_val >= 0"):
        model.fit(X, y, X_val=X[:20], y_val=-np.ones(20))
    X, y = make_data("squared_error")
    model = make_estimator(**STOPPING).fit(X, y, X_val=X[:2], y_val=[0.0, 1e-40])
    assert np.isfinite(model.validation_score_).all()
    with pytest.raises(ValueError, match="y_val"):
        model.fit(X, y, X_val=X[:2], y_val=[1e200, 1e200])


def test_early_stopping_scores_the_last_state_so_the_mean_is_refused(monkeypatch):
    def step(self, *args, **kwargs):
        raise AssertionError("trained before everything was checked")

    monkeypatch.setattr(Chain, "step", step)
    for loss in LOSSES:
        with pytest.raises(ValueError, match=r"averaging='mean'.*early_stopping=True"):
            make_estimator(loss, early_stopping=True, averaging="mean").fit(*make_data(loss))


# ---- warm start


@pytest.mark.parametrize("setting", ["plain", "drawn", "newton", "decreasing", "stopping"])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_warm_start_equals_the_uninterrupted_fit(loss, grow_policy, setting):
    params = {
        "plain": {},
        "drawn": {"subsample": 0.6, "max_features": 0.5},
        "newton": {"leaf_estimation": "newton", "averaging": "mean"},
        "decreasing": {
            "posterior_sampling": False, "langevin": True, "model_shrink_rate": 0.5, "model_shrink_mode": "decreasing"
        },
        "stopping": {"early_stopping": True, "n_iter_no_change": 8, "tol": 0.0},
    }[setting]  # fmt: skip
    X, y = make_data(loss)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    model = make_estimator(loss, grow_policy=grow_policy, **params)
    warm = clone(model).set_params(n_estimators=3, warm_start=True).fit(X, y, weight)
    for n_estimators in (3, 4, 20):
        warm.set_params(n_estimators=n_estimators).fit(X, y, weight)
    straight = clone(model).set_params(n_estimators=20).fit(X, y, weight)
    assert_same_model(warm, straight, X)
    np.testing.assert_array_equal(warm.train_score_, straight.train_score_)
    np.testing.assert_array_equal(warm.validation_score_, straight.validation_score_)
    np.testing.assert_array_equal(warm.feature_importances_, straight.feature_importances_)


@pytest.mark.parametrize("loss", LOSSES)
def test_warm_start_with_a_random_state_instance(loss):
    X, y = make_data(loss)
    warm = make_estimator(loss, warm_start=True, n_estimators=5, random_state=np.random.RandomState(3)).fit(X, y)
    warm.set_params(n_estimators=12).fit(X, y)
    assert_same_model(warm, make_estimator(loss, random_state=np.random.RandomState(3)).fit(X, y), X)
    warm = make_estimator(loss, warm_start=True, n_estimators=5, random_state=None).fit(X, y)
    seed = warm._record.seed
    assert warm.set_params(n_estimators=12).fit(X, y)._record.seed == seed


@pytest.mark.parametrize("loss", LOSSES)
def test_warm_start_after_an_early_stop_goes_on_by_the_same_rule(loss):
    """A chain that had stopped takes up at its best iteration; more patience continues it like the patient fit."""
    X, y = make_data(loss, n=200)
    X_val, y_val = make_data(loss, seed=1, n=60)
    given = {"X_val": X_val, "y_val": y_val}
    warm = make_estimator(loss, **STOPPING, warm_start=True).fit(X, y, **given)
    cut = warm.n_iter_
    again = clone(warm).fit(X, y, **given).fit(X, y, **given)
    assert_same_model(again, warm, X)
    warm.set_params(n_iter_no_change=10**6, n_estimators=30 if cut < 30 else 60).fit(X, y, **given)
    patient = make_estimator(loss, **STOPPING | {"n_iter_no_change": 10**6, "n_estimators": warm.n_estimators}).fit(
        X, y, **given
    )
    assert_same_model(warm, patient, X)
    np.testing.assert_array_equal(warm.validation_score_, patient.validation_score_)


def test_warm_start_to_fewer_iterations_is_refused():
    X, y = make_data("squared_error")
    model = make_estimator(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=r"n_estimators=11 must be at least 12"):
        model.set_params(n_estimators=11).fit(X, y)
    assert model.n_iter_ == 12


def test_without_warm_start_a_fit_starts_over():
    X, y = make_data("squared_error")
    model = make_estimator().fit(X, y)
    assert_same_model(model.set_params(n_estimators=5).fit(X, y), make_estimator(n_estimators=5).fit(X, y), X)


def test_a_fit_with_warm_start_is_an_ordinary_first_fit():
    X, y = make_data("multiclass")
    assert_same_model(
        make_estimator("multiclass", warm_start=True).fit(X, y), make_estimator("multiclass").fit(X, y), X
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("columns", "X"),
        ("more columns", "X"),
        ("values", "X"),
        ("categories", "X"),
        ("classes", "the classes"),
        ("fewer classes", "the classes"),
        ("grow_policy", "grow_policy"),
        ("target", "y or the weights"),
    ],
)
def test_warm_start_on_something_else_is_refused(change, named):
    X, y = make_data("multiclass")
    model = make_estimator("multiclass", warm_start=True).fit(X, y)
    before = model.predict_proba(X)
    model.set_params(n_estimators=20)
    X_new = {"columns": X[:, :2], "more columns": np.concatenate([X, X], axis=1), "values": X * 100 + 7}.get(change, X)
    y_new = {"classes": y + 1, "fewer classes": np.where(y == 30, 10, y)}.get(change, y)
    if change == "target":
        y_new = np.where(np.arange(len(y)) < 15, 10, y)
    model.set_params(
        **{"categories": {"categorical_features": [0]}, "grow_policy": {"grow_policy": "lossguide"}}.get(change, {})
    )
    with pytest.raises(
        ValueError, match=f"warm_start=True continues the last fit on the same data, but changed: .*{named}"
    ):
        model.fit(X_new, y_new)
    assert model.n_iter_ == 12
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_warm_start_with_other_names_of_categories_is_refused():
    pd = pytest.importorskip("pandas")
    y = np.tile([0.0, 5.0], 40)
    frame = pd.DataFrame({"c": pd.Categorical(["a", "b"] * 40)})
    model = make_estimator(warm_start=True).fit(frame, y)
    before = model.predict(frame)
    other = pd.DataFrame({"c": pd.Categorical(["d", "e"] * 40)})
    with pytest.raises(ValueError, match="changed: X"):
        model.set_params(n_estimators=20).fit(other, y)
    np.testing.assert_array_equal(model.predict(frame), before)


@pytest.mark.parametrize("loss", ["gaussian", "squared_error", "poisson"])
def test_warm_start_with_another_loss_or_target_is_refused(loss):
    X, y = make_data("poisson")
    model = make_estimator(loss, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="changed: y or the weights"):
        model.fit(X, y + 1)
    other = {"gaussian": "poisson", "squared_error": "gaussian", "poisson": "squared_error"}[loss]
    with pytest.raises(ValueError, match="changed: loss"):
        model.set_params(loss=other).fit(X, y)


def changed_of(message):
    """Return what a refused warm start names as changed."""
    return message.partition("but changed: ")[2].removesuffix(". Set warm_start=False to start anew.")


RECORD_CHANGES = {
    "learning_rate": {"learning_rate": 0.2},
    "random_state": {"random_state": 1},
    "max_depth": {"max_depth": 3},
    "max_leaf_nodes": {"max_leaf_nodes": 5},
    "min_samples_leaf": {"min_samples_leaf": 3},
    "l2_regularization": {"l2_regularization": 2.0},
    "max_features": {"max_features": 0.5},
    "subsample": {"subsample": 0.5},
    "max_bins": {"max_bins": 7},
    "monotonic_cst": {"monotonic_cst": [1, 0, 0, 0]},
    "interaction_cst": {"interaction_cst": "pairwise"},
    "grow_policy": {"grow_policy": "lossguide"},
    "noise_variance": {"noise_variance": 3.0},
    "the noise": {"diffusion_temperature": 7.0},
}


@pytest.mark.parametrize("named", RECORD_CHANGES)
def test_warm_start_with_another_parameter_is_refused(named):
    X, y = make_data("squared_error")
    model = make_estimator(warm_start=True, grow_policy="depthwise").fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="warm_start=True continues the last fit") as error:
        model.set_params(n_estimators=20, **RECORD_CHANGES[named]).fit(X, y)
    changed = changed_of(str(error.value))
    # A cold start measures the noise variance with the rules of its trees, so that it may be named too.
    assert changed.startswith(named)
    assert model.n_iter_ == 12
    np.testing.assert_array_equal(model.predict(X), before)


def test_warm_start_with_other_dynamics_is_refused():
    X, y = make_data("binary")
    free = {"posterior_sampling": False, "langevin": True}
    model = make_estimator("binary", warm_start=True, **free, model_shrink_rate=0.1).fit(X, y)
    for change, named in [
        ({"model_shrink_rate": 0.2}, "the shrinkage"),
        ({"model_shrink_mode": "decreasing"}, "model_shrink_mode"),
        ({"langevin": False}, "the noise"),
        ({"leaf_estimation": "newton"}, "leaf_estimation"),
    ]:
        changed = clone(model).fit(X, y)
        with pytest.raises(ValueError, match="but changed") as error:
            changed.set_params(n_estimators=20, **change).fit(X, y)
        assert changed_of(str(error.value)).startswith(named)


@pytest.mark.parametrize("posterior_sampling", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_warm_start_on_other_rows_of_the_same_bins_and_mean_is_refused(loss, posterior_sampling):
    """Targets swapped between rows leave bins, classes, loss and base score as they are."""
    X, y = make_data(loss)
    model = make_estimator(loss, posterior_sampling=posterior_sampling).fit(X, y)
    model.set_params(n_estimators=20, warm_start=True)
    for y_new, weight in [(y[::-1], None), (y, np.where(np.arange(len(y)) < 1, 2.0, 1.0))]:
        with pytest.raises(ValueError, match=r"but changed: .*(the training rows|y or the weights)"):
            model.fit(X, y_new, weight)


@pytest.mark.parametrize("loss", LOSSES)
def test_warm_start_on_the_same_rows_told_otherwise(loss):
    X, y = make_data(loss)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight))
    params = {"class_weight": "balanced"} if loss in ("binary", "multiclass") else {}
    for stopping in ({}, {"early_stopping": True, "n_iter_no_change": 100, "validation_fraction": None}):
        model = make_estimator(loss, warm_start=True, **params, **stopping).fit(X, y, weight)
        model.set_params(n_estimators=20).fit(X[rows], y[rows])
        straight = make_estimator(loss, n_estimators=20, **params, **stopping).fit(X, y, weight)
        assert_same_model(model, straight, X)


@pytest.mark.parametrize("change", [{"class_weight": {"no": 2.0}}, {"class_weight": "balanced"}])
def test_warm_start_with_other_class_weights_is_refused(change):
    X, y = make_data("binary")
    model = make_estimator("binary", warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=r"y or the weights|the training rows"):
        model.set_params(n_estimators=20, **change).fit(X, y)


def test_warm_start_with_another_validation_is_refused():
    X, y = make_data("squared_error")
    X_val, y_val = make_data("squared_error", seed=1)
    params = {"warm_start": True, "early_stopping": True, "n_iter_no_change": 100}
    model = make_estimator(**params).fit(X, y)
    with pytest.raises(ValueError, match="changed: early_stopping or validation_fraction"):
        model.set_params(n_estimators=20, validation_fraction=0.3).fit(X, y)
    model = make_estimator(**params).fit(X, y)
    with pytest.raises(ValueError, match="scoring"):
        model.set_params(n_estimators=20, scoring="r2").fit(X, y)
    model = make_estimator(**params).fit(X, y, X_val=X_val, y_val=y_val)
    with pytest.raises(ValueError, match="the validation rows"):
        model.set_params(n_estimators=20).fit(X, y, X_val=X_val, y_val=y_val + 1)
    order = np.random.default_rng(0).permutation(len(y_val))
    assert model.fit(X, y, X_val=X_val[order], y_val=y_val[order]).n_iter_ > 12


def test_what_a_warm_start_may_change():
    X, y = make_data("squared_error")
    params = {"early_stopping": True, "n_iter_no_change": 100, "random_state": 0}
    model = make_estimator(warm_start=True, **params).fit(X, y)
    model.set_params(n_estimators=20, n_jobs=2, verbose=0, n_iter_no_change=90, tol=1e-6).fit(X, y)
    assert_same_model(model, make_estimator(n_estimators=20, **params).fit(X, y), X)
    model = make_estimator(warm_start=True).fit(X, y)
    model.set_params(n_estimators=20, averaging="mean").fit(X, y)
    assert_same_model(model, make_estimator(n_estimators=20, averaging="mean").fit(X, y), X)


def test_noise_variance_is_taken_over_only_where_it_was_measured():
    X, y = make_data("squared_error")
    for first in ({"posterior_sampling": False}, {"noise_variance": 5.0}):
        model = make_estimator(warm_start=True, **first).fit(X, y)
        with pytest.raises(ValueError, match="but changed"):
            model.set_params(n_estimators=20, posterior_sampling=True, noise_variance="auto").fit(X, y)
    measured = make_estimator(warm_start=True).fit(X, y)
    variance = measured.noise_variance_
    assert measured.set_params(n_estimators=20).fit(X, y).noise_variance_ == variance


def test_warm_start_needs_the_scores_of_the_earlier_iterations():
    X, y = make_data("squared_error")
    X_val, y_val = make_data("squared_error", seed=1)
    model = make_estimator(warm_start=True, validation_fraction=None).fit(X, y)
    model.set_params(early_stopping=True, n_estimators=20)
    for given in ({}, {"X_val": X_val, "y_val": y_val}):
        with pytest.raises(ValueError, match="scores of its iterations are missing"):
            model.fit(X, y, **given)
    assert model.n_iter_ == 12
    model = make_estimator(warm_start=True, validation_fraction=None, early_stopping=True).fit(X, y)
    with pytest.raises(ValueError, match="changed: the validation rows"):
        model.set_params(n_estimators=20).fit(X, y, X_val=X_val, y_val=y_val)
    model.set_params(early_stopping=False).fit(X, y)
    assert model.n_iter_ == 20
