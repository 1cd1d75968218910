"""Initial scores of large size: limits, shifts of all classes, models within the limits, words about divergence."""

import warnings

import numpy as np
import pytest

from skboost import EBMClassifier, EBMRegressor
from skboost.ebm._estimators_init_score import resolve_init_score

SMALL = {
    "max_rounds": 10,
    "outer_bags": 2,
    "smoothing_rounds": 2,
    "interaction_smoothing_rounds": 2,
    "interactions": 1,
    "random_state": 0,
}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = X[:, 0] + RNG.normal(size=120) * 0.1
TWO, THREE = (Y > 0).astype(int), np.arange(120) % 3


def resolve(scores, link, n_outputs=1):
    return resolve_init_score(scores, None, len(scores), n_outputs, link)


@pytest.mark.parametrize(("link", "limit"), [("identity", 1e150), ("log", 30.0), ("logit", 35.0)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_scores_are_bounded_by_the_link(link, limit, sign):
    np.testing.assert_array_equal(resolve(np.array([0.0, sign * limit]), link), [[0.0, sign * limit]])
    with pytest.raises(ValueError, match=r"init_score must not be that large.*is at most"):
        resolve(np.array([0.0, np.nextafter(sign * limit, sign * np.inf)]), link)


def test_scores_of_classes_are_bounded_relative_to_the_row():
    scores = np.array([[-800.0, -805.0, -835.0], [900.0, 890.0, 900.0]])
    np.testing.assert_array_equal(resolve(scores, "mlogit", 3), scores.T)
    for bad, message in (
        ([[0.0, 0.0, 35.5]], "difference from the largest score of the row is at most 35 in size, got 35.5"),
        ([[0.0, -36.0, 0.0]], "got 36"),
        ([[2e6, 2e6, 2e6]], "the largest score of each row is at most 1e06 in size, got 2e06".replace("06", r"\+?06")),
    ):
        with pytest.raises(ValueError, match=f"init_score.*{message}"):
            resolve(np.array(bad), "mlogit", 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(bad):
    for link in ("identity", "log", "logit"):
        with pytest.raises(ValueError, match="init_score contains"):
            resolve(np.array([0.0, bad]), link)


@pytest.mark.parametrize(
    ("model", "y", "scores"),
    [
        (EBMClassifier(**SMALL), TWO, np.full(120, 1000.0)),
        (EBMClassifier(**SMALL), TWO, np.where(np.arange(120) % 2, -100.0, 100.0)),
        (EBMClassifier(**SMALL), THREE, np.c_[np.full(120, 100.0), np.zeros((120, 2))]),
        (EBMRegressor(**SMALL, loss="poisson"), np.exp(Y), np.full(120, 800.0)),
        (EBMRegressor(**SMALL), Y, np.full(120, 1e300)),
    ],
)
def test_scores_beyond_the_limit_are_refused_before_training(model, y, scores):
    with pytest.raises(ValueError, match="init_score must not be that large"):
        model.fit(X, y, init_score=scores)
    assert not hasattr(model, "intercept_")


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie", "log_loss"])
@pytest.mark.parametrize("shift", [-29.0, 29.0])
def test_a_constant_init_score_shifts_the_intercept_only(loss, shift):
    y = TWO if loss == "log_loss" else np.exp(Y)
    make = EBMClassifier if loss == "log_loss" else EBMRegressor
    params = SMALL if loss == "log_loss" else {**SMALL, "loss": loss}
    bags = np.where(np.random.default_rng(1).random((120, 2)) < 0.2, -1, 1)
    plain = make(**params).fit(X, y, bags=bags)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shifted = make(**params).fit(X, y, bags=bags, init_score=np.full(120, shift))
    np.testing.assert_allclose(shifted.intercept_, plain.intercept_ - shift, rtol=1e-9)


def test_log_likelihoods_of_a_row_may_be_far_from_zero():
    scores = 4 * np.random.default_rng(2).normal(size=(120, 3))
    bags = np.where(np.random.default_rng(1).random((120, 2)) < 0.2, -1, 1)
    plain, moved = (EBMClassifier(**SMALL).fit(X, THREE, bags=bags, init_score=s) for s in (scores, scores - 700.0))
    expected = plain.predict_proba(X, init_score=scores)
    np.testing.assert_allclose(moved.predict_proba(X, init_score=scores - 700.0), expected, rtol=1e-8)
    np.testing.assert_allclose(expected.mean(axis=0), 1 / 3, rtol=1e-9)


@pytest.mark.parametrize("min_hessian", [0.0, 1e-4])
@pytest.mark.parametrize("kind", ["alternating", "noise", "right", "wrong"])
@pytest.mark.parametrize("task", ["binary", "multinomial", "poisson"])
def test_far_scores_give_sane_models_or_a_warning(task, kind, min_hessian):
    sizes = {
        "alternating": np.where(np.arange(120) % 2, -1.0, 1.0),
        "noise": np.clip(np.random.default_rng(3).normal(size=120), -1, 1),
        "right": np.where(TWO, 1.0, -1.0),
        "wrong": np.where(TWO, -1.0, 1.0),
    }[kind]
    y, limit = {"binary": (TWO, 35.0), "multinomial": (THREE, 17.5), "poisson": (np.exp(Y), 30.0)}[task]
    scores = limit * (np.c_[sizes, -sizes, 0 * sizes] if task == "multinomial" else sizes)
    make = EBMRegressor(loss="poisson") if task == "poisson" else EBMClassifier()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = make.set_params(**SMALL, min_hessian=min_hessian).fit(X, y, init_score=scores)
    size = max(np.abs(tensor).max() for tensor in model.bagged_scores_)
    assert size <= 70 or any("diverged" in str(w.message) for w in told)
    predicted = model.predict(X, init_score=scores) if task == "poisson" else model.predict_proba(X, init_score=scores)
    assert np.isfinite(predicted).all()


@pytest.mark.parametrize(
    ("estimator", "y", "init"),
    [(EBMRegressor, Y, Y + 3.0), (EBMClassifier, TWO, X[:, 1] * 2), (EBMClassifier, THREE, X * 2)],
    ids=["regression", "binary", "classes"],
)
def test_scores_and_explanations_start_from_them(estimator, y, init):
    model = estimator(**SMALL).fit(X, y, init_score=init)
    predicted = model.predict(X, init_score=init)
    right = 1 - np.var(y - predicted) / np.var(y) if estimator is EBMRegressor else np.mean(predicted == y)
    assert model.score(X, y, init_score=init) == pytest.approx(right, abs=1e-9)
    assert model.score(X, y) != model.score(X, y, init_score=init)
    for row, one in enumerate(model.explain_local(X[:5], y[:5], init_score=init[:5])):
        whole = np.asarray(one["scores"]).sum(axis=0) + one["intercept"] + init[row]
        np.testing.assert_allclose(one["raw_score"], np.ravel(whole)[0] if init.ndim == 1 else whole, atol=1e-12)
