"""Calibrated intervals and sets: a replica that counts, and coverage over many splits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import conformal as oracle
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.datasets import make_blobs, make_friedman1
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestRegressor

from skboost import SGLBClassifier, SGLBRegressor, VirtualEnsembleUncertainty
from skboost._random import resolve_seed
from skboost.datasets import make_heteroscedastic
from skboost.uncertainty._split import split


def parts_of(model, X, y, weight=None, *, stratified=False):
    """Return the training and the held-out rows that a fit divided the data into."""
    seed = resolve_seed(model.random_state)
    return split(X, y, weight, model.calibration_fraction, seed, stratified=stratified)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("conformity_score", ["total", "knowledge", "constant"])
@pytest.mark.parametrize("method", ["virtual", "ensemble"])
def test_intervals_match_a_replica(method, conformity_score, weighted):
    X, y = make_friedman1(150, noise=1.0, random_state=0)
    weight = np.random.default_rng(0).integers(0, 3, 150).astype(float) if weighted else None
    model = VirtualEnsembleUncertainty(
        SGLBRegressor(loss="gaussian", n_estimators=20), method=method, n_members=3, calibration_fraction=0.4,
        conformity_score=conformity_score, random_state=0,
    ).fit(X, y, sample_weight=weight)  # fmt: skip
    train, held = parts_of(model, X, y, weight)
    # The model is that of the training rows alone.
    alone = clone(model).set_params(calibration_fraction=None, conformity_score="auto")
    assert_array_equal(alone.fit(train.X, train.y, sample_weight=train.sample_weight).predict(X), model.predict(X))

    variance = np.average((train.y - model.predict(train.X)) ** 2, weights=train.sample_weight)

    def scale(rows):
        u = model.predict_uncertainty(rows)
        return {"total": u.total, "knowledge": u.knowledge + variance, "constant": np.ones(len(rows))}[
            conformity_score
        ] ** 0.5

    scores = np.abs(held.y - model.predict(held.X)) / scale(held.X)
    assert model.conformity_score_ == conformity_score
    assert model.n_calibration_ == (len(held.y) if weight is None else held.sample_weight.sum())
    for alpha in ("0.05", "0.1", "0.5"):
        q = oracle.quantile(scores, alpha, held.sample_weight)
        expected = np.transpose([model.predict(X) - q * scale(X), model.predict(X) + q * scale(X)])
        assert_allclose(model.predict_interval(X, alpha=float(alpha)), expected, rtol=1e-10)
    assert_array_equal(model.predict_interval(X), model.predict_interval(X, 0.1))


@pytest.mark.parametrize("conformity_score", ["knowledge", "constant"])
def test_intervals_do_not_depend_on_the_order_of_rows(conformity_score):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=150)
    model = VirtualEnsembleUncertainty(
        SGLBRegressor(n_estimators=30), n_members=3, calibration_fraction=0.4, conformity_score=conformity_score,
        random_state=0,
    )  # fmt: skip
    expected = clone(model).fit(X, y).predict_interval(X)
    for _ in range(5):
        order = rng.permutation(150)
        assert_array_equal(clone(model).fit(X[order], y[order]).predict_interval(X), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("conformity_score", ["lac", "aps"])
def test_sets_match_a_replica(conformity_score, weighted):
    X, y = make_blobs(150, centers=3, cluster_std=3.0, random_state=0)
    labels = np.array(["x", "a", "m"])[y]
    weight = np.random.default_rng(0).integers(0, 3, 150).astype(float) if weighted else None
    model = VirtualEnsembleUncertainty(
        SGLBClassifier(n_estimators=20), n_members=3, calibration_fraction=50, conformity_score=conformity_score,
        random_state=0,
    ).fit(X, labels, sample_weight=weight)  # fmt: skip
    _, held = parts_of(model, X, labels, weight, stratified=True)
    score_of = getattr(oracle, conformity_score)
    position = {"a": 0, "m": 1, "x": 2}
    held_scores = score_of(model.predict_proba(held.X).tolist())
    scores = [row[position[label]] for row, label in zip(held_scores, held.y, strict=True)]
    assert model.n_calibration_ == 50
    for alpha in ("0.05", "0.1", "0.5"):
        # Sums in another order: the row that defines the quantile may miss it by a rounding.
        q = oracle.quantile(scores, alpha, held.sample_weight) + 1e-14
        expected = np.array(score_of(model.predict_proba(X).tolist())) <= q
        found = model.predict_set(X, alpha=float(alpha))
        assert found.dtype == bool
        assert_array_equal(found, expected)
        assert 0 < found.mean() < 1


@pytest.mark.parametrize(
    ("inner", "method", "expected"),
    [
        (SGLBRegressor(loss="gaussian", n_estimators=20), "virtual", "total"),
        (SGLBRegressor(loss="gaussian", n_estimators=20), "ensemble", "total"),
        (SGLBRegressor(n_estimators=20), "virtual", "constant"),
        (RandomForestRegressor(n_estimators=3), "ensemble", "constant"),
        (SGLBClassifier(n_estimators=20), "virtual", "lac"),
    ],
)
def test_automatic_score(inner, method, expected):
    X, y = make_blobs(60, centers=2, random_state=0)
    model = VirtualEnsembleUncertainty(inner, method=method, n_members=2, calibration_fraction=0.3, random_state=0)
    assert model.fit(X, y).conformity_score_ == expected


class Line(RegressorMixin, BaseEstimator):
    """A fixed line with a fixed spread as its only members, whatever it is fitted to."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return 2 * X[:, 0]

    def predict_virtual_ensembles(self, X, n_members=10):
        return self.predict(X) + np.linspace(-1, 1, n_members)[:, None] * X[:, 0]


class Odds(ClassifierMixin, BaseEstimator):
    """Fixed probabilities of two classes, whatever it is fitted to."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0.5).astype(int)]

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])

    def predict_virtual_ensembles(self, X, n_members=10):
        return np.repeat(self.predict_proba(X)[None], n_members, axis=0)


def test_a_perfect_fit_of_the_training_rows_leaves_a_scale():
    X = np.zeros((40, 1))
    model = VirtualEnsembleUncertainty(Line(), calibration_fraction=0.5, conformity_score="knowledge", random_state=0)
    assert_array_equal(model.fit(X, np.zeros(40)).predict_interval(X), 0)


N_TEST = 400


def mean_coverage(model, draw, covered, n_splits):
    """Return the share of new rows that are covered, on average over independent data sets."""
    shares = []
    for split_number in range(n_splits):
        X, y = draw(split_number)
        fitted = clone(model).set_params(random_state=split_number).fit(X[:-N_TEST], y[:-N_TEST])
        shares.append(np.mean(covered(fitted, X[-N_TEST:], y[-N_TEST:])))
    return np.mean(shares)


def in_interval(model, X, y):
    lower, upper = model.predict_interval(X, alpha=0.1).T
    return (lower <= y) & (y <= upper)


def in_set(model, X, y):
    return model.predict_set(X, alpha=0.1)[np.arange(len(y)), np.searchsorted(model.classes_, y)]


def test_intervals_cover():
    """99 held-out rows cover 90 / 100 on average.

    The share of one split has the standard deviation sqrt(0.09 / 101 + 0.09 / 400) = 0.033, the mean of 120 splits
    0.003: 0.01 are more than three of them.
    """
    inner = GradientBoostingRegressor(n_estimators=6, max_depth=2)
    model = VirtualEnsembleUncertainty(inner, n_members=3, calibration_fraction=99, conformity_score="knowledge")
    coverage = mean_coverage(model, lambda k: make_heteroscedastic(160 + N_TEST, random_state=k), in_interval, 120)
    assert 0.89 < coverage < 0.91


@pytest.mark.parametrize(("n_held", "expected"), [(9, 9 / 10), (14, 14 / 15)])
def test_few_held_out_rows_cover_with_the_known_probability(n_held, expected):
    """The probability is ceil(0.9 (n + 1)) / (n + 1); a rank too low would cover 8/10 and 13/15.

    The standard deviation of one split is at most 0.1, of the mean of 300 splits 0.006.
    """

    def draw(k):
        rng = np.random.default_rng([n_held, k])
        X = rng.uniform(0, 1, (n_held + 5 + N_TEST, 1))
        return X, 2 * X[:, 0] + rng.standard_cauchy(len(X))

    model = VirtualEnsembleUncertainty(Line(), calibration_fraction=n_held, conformity_score="knowledge")
    assert abs(mean_coverage(model, draw, in_interval, 300) - expected) < 0.02


def test_least_sets_cover():
    """As `test_intervals_cover`, with probabilities that are true."""

    def draw(k):
        rng = np.random.default_rng(k)
        X = rng.uniform(0, 1, (140 + N_TEST, 1))
        return X, (rng.uniform(size=len(X)) < X[:, 0]).astype(int)

    model = VirtualEnsembleUncertainty(Odds(), calibration_fraction=99)
    assert 0.89 < mean_coverage(model, draw, in_set, 150) < 0.91


def test_adaptive_sets_cover_at_least():
    def draw(k):
        return make_blobs(160 + N_TEST, centers=[[0, 0], [2, 0], [0, 2], [2, 2]], random_state=k)

    inner = GradientBoostingClassifier(n_estimators=6, max_depth=2)
    model = VirtualEnsembleUncertainty(inner, n_members=2, calibration_fraction=99, conformity_score="aps")
    # The standard error of 15 splits is 0.009.
    assert 0.87 < mean_coverage(model, draw, in_set, 15) < 0.97


def test_too_few_rows_for_alpha():
    X, y = make_friedman1(60, random_state=0)
    model = VirtualEnsembleUncertainty(SGLBRegressor(n_estimators=20), calibration_fraction=18, random_state=0).fit(
        X, y
    )
    model.predict_interval(X, alpha=0.06)
    with pytest.raises(ValueError, match=r"alpha=0\.05: need at least 19 held-out rows, got 18"):
        model.predict_interval(X, alpha=0.05)
    with pytest.raises(ValueError, match="alpha must be a float in the range"):
        model.predict_interval(X, alpha=1)


def test_uncalibrated_models_say_what_to_do():
    X, y = make_blobs(60, centers=2, random_state=0)
    for inner, method in (
        (SGLBRegressor(n_estimators=20), "predict_interval"),
        (SGLBClassifier(n_estimators=20), "predict_set"),
    ):
        model = VirtualEnsembleUncertainty(inner).fit(X, y)
        with pytest.raises(ValueError, match=f"{method} needs held-out rows: set calibration_fraction"):
            getattr(model, method)(X)


def test_frames_with_texts_and_missing_values():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": pd.Categorical(rng.choice(["u", "v", None], 90)), "x": rng.normal(size=90)})
    frame.loc[::7, "x"] = np.nan
    y = np.where(frame["c"] == "u", 1.0, 0.0) + 0.1 * rng.normal(size=90)
    model = VirtualEnsembleUncertainty(SGLBRegressor(n_estimators=30), calibration_fraction=0.4, random_state=0)
    model.fit(frame, pd.Series(y, index=np.arange(90)[::-1]))
    order = rng.permutation(90)
    again = clone(model).fit(frame.iloc[order], y[order])
    assert_array_equal(again.predict_interval(frame), model.predict_interval(frame))
    assert model.feature_names_in_.tolist() == ["c", "x"]
