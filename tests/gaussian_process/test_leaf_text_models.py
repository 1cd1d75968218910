"""Leaf posteriors of models read from texts: LightGBM's leaves in dense formulas, and the model that was written."""

import numpy as np
import pytest
from lightgbm_files import model_text, oracle
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from test_lightgbm_terms import fitted as fitted_terms
from test_lightgbm_write import fitted, table

from skboost import LeafLaplaceUncertainty
from skboost.lightgbm import dumps, loads

N_ROWS = 200
SECOND = {"split_feature": "1", "leaf_count": "1 5", "leaf_value": "0.5 -0.1", "leaf_weight": "1 5"}
COUNTED = {"leaf_count": "2 4", "leaf_weight": "2 4", "leaf_value": "1 4"}


def problem(name):
    """Return a stored model, its rows, targets that suit it, the text and the leaves of LightGBM."""
    text, known = oracle(name)
    X, leaf, raw = (known[key][:N_ROWS] for key in ("X", "leaf", "raw"))
    rng = np.random.default_rng(0)
    if raw.ndim == 2:
        y = np.argmax(raw + rng.gumbel(size=raw.shape), axis=1)
    else:
        y = raw + rng.normal(size=len(raw)) if "regression" in name else (rng.random(len(raw)) < expit(raw)).astype(int)
    return loads(text), X, y, text, leaf.reshape(len(leaf), -1)


def counts_in(text, key="leaf_count"):
    lines = [line.partition("=")[2].split() for line in text.split("\n") if line.startswith(f"{key}=")]
    return [np.array(line, dtype=float) for line in lines]


def dense_variance(leaf, counts, weight, tau=0.5, fit=slice(None)):
    """Return the latent variance from leaf numbers and counts, all written out, for unit noise."""
    offset = np.cumsum([0, *map(len, counts)])
    Phi = np.zeros((len(leaf), offset[-1]))
    np.put_along_axis(Phi, leaf.astype(int) + offset[:-1], 1.0, axis=1)
    prior = np.concatenate([tau * len(counts) * np.maximum(n, 1) / n.sum() for n in counts])
    H = Phi[fit].T @ (weight[:, None] * Phi[fit]) + np.diag(prior)
    return np.diag(Phi @ np.linalg.solve(H, Phi.T))


# ---- LightGBM's models


@pytest.mark.parametrize("name", ["lgb470/regression_nan", "lgb335/regression_zero_as_missing", "lgb470/monotone"])
def test_regression_is_the_dense_formula(name):
    model, X, y, text, leaf = problem(name.replace("monotone", "regression_none"))
    laplace = LeafLaplaceUncertainty(model, noise_variance=0.7).fit(X[:120], y[:120])
    result = laplace.predict_uncertainty(X)
    wanted = dense_variance(leaf, counts_in(text), np.ones(120), fit=slice(120))
    assert_allclose(result.knowledge, 0.7 * wanted, rtol=1e-8)
    assert_array_equal(result.mean, model.predict(X))
    assert (result.data == 0.7).all()
    assert laplace.n_leaves_ == sum(map(len, counts_in(text)))


def test_log_odds_are_the_dense_formula():
    model, X, y, text, leaf = problem("lgb470/binary_categorical")
    laplace = LeafLaplaceUncertainty(model, prior_scale=2.0).fit(X, y)
    mean, variance = laplace.latent_mean_and_variance(X)
    p = model.predict_proba(X)[:, 1]
    assert_allclose(variance, dense_variance(leaf, counts_in(text), p * (1 - p), tau=2.0), rtol=1e-8)
    assert_array_equal(mean, model.decision_function(X))
    result = laplace.predict_uncertainty(X)
    assert (result.knowledge > 0).all()
    assert_array_equal(result.total, result.data + result.knowledge)


def test_classes_have_trees_of_their_own():
    model, X, y, text, leaf = problem("lgb470/multiclass3")
    laplace = LeafLaplaceUncertainty(model).fit(X, y)
    mean, variance = laplace.latent_mean_and_variance(X)
    p = softmax(model.decision_function(X), axis=1)
    for k in range(3):
        wanted = dense_variance(leaf[:, k::3], counts_in(text)[k::3], p[:, k] * (1 - p[:, k]))
        assert_allclose(variance[:, k], wanted, rtol=1e-8)
    assert_array_equal(mean, model.decision_function(X))
    result = laplace.predict_uncertainty(X)
    draws = mean + np.sqrt(variance) * np.random.default_rng(0).normal(size=(5000, 1, 3))
    assert_allclose(result.mean, softmax(draws, axis=2).mean(axis=0), atol=0.03)
    assert laplace.n_leaves_ == sum(map(len, counts_in(text)))
    for params in ({"centre": "map"}, {"prior_scale": "evidence"}):
        with pytest.raises(ValueError, match="needs one score per row, estimator=LoadedClassifier has 3 classes"):
            LeafLaplaceUncertainty(model, **params).fit(X, y)


def test_members_of_classes_are_independent():
    model, X, y, _, _ = problem("lgb470/multiclass3")
    laplace = LeafLaplaceUncertainty(model, random_state=0).fit(X, y)
    draws = laplace._posterior.members(X[:1], 4000)[:, 0]
    mean, variance = laplace.latent_mean_and_variance(X[:1])
    assert_allclose(draws.mean(axis=0), mean[0], atol=0.2 * np.sqrt(variance.max()))
    assert_allclose(draws.var(axis=0), variance[0], rtol=0.15)
    assert np.abs(np.corrcoef(draws.T) - np.eye(3)).max() < 0.08
    assert_array_equal(laplace.predict_members(X[:5], 3), laplace.predict_members(X[:5], 3))


@pytest.mark.parametrize("name", ["lgb470/regression_nan", "lgb470/binary_categorical", "lgb470/multiclass3"])
def test_both_exact_solvers_agree_and_samples_come_close(name):
    model, X, y, _, _ = problem(name)
    exact, dual, sampled = (
        LeafLaplaceUncertainty(model, solver=solver, prior_scale=0.5, n_members=1000, random_state=0).fit(X, y)
        for solver in ("cholesky", "dual", "sample")
    )
    variance = exact.latent_mean_and_variance(X)[1]
    assert_allclose(dual.latent_mean_and_variance(X)[1], variance, rtol=1e-9)
    noise = 1.0 if exact.noise_variance_ is None else sampled.noise_variance_ / exact.noise_variance_
    ratio = sampled.latent_mean_and_variance(X)[1] / (noise * variance)
    assert np.abs(ratio - 1).max() < 5 * np.sqrt(2 / 1000)


def test_one_sampled_class_makes_all_sampled():
    """Of 4 rows in 2 leaves of the first class and 4 of the others, only the first fits into max_leaves=2."""
    header = {"num_class": "3", "num_tree_per_iteration": "3", "objective": "multiclass num_class:3"}
    text = model_text(COUNTED, COUNTED, COUNTED, COUNTED, SECOND, SECOND, header=header)
    X = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    y = [0, 1, 2, 0]
    laplace = LeafLaplaceUncertainty(loads(text), max_leaves=2, n_members=7).fit(X, y)
    assert laplace.solver_ == "sample"
    assert [solver.members.shape for solver in laplace._posterior.solvers] == [(4, 7)] * 3
    with pytest.raises(ValueError, match="n_members=8 is more than the 7 members"):
        laplace.predict_members(X, 8)
    assert LeafLaplaceUncertainty(loads(text)).fit(X, y).solver_ == "dual"


def test_the_sigmoid_factor_is_part_of_the_log_odds():
    text, known = oracle("lgb470/binary_sigmoid2")
    X = known["X"][:N_ROWS]
    model = loads(text.replace("[scale_pos_weight: 1.7]", "[scale_pos_weight: 1]"))
    y = np.arange(len(X)) % 2
    mean, _ = LeafLaplaceUncertainty(model).fit(X, y).latent_mean_and_variance(X)
    assert_allclose(expit(mean), model.predict_proba(X)[:, 1], rtol=1e-12)


# ---- closed forms


def test_copies_of_a_tree_act_as_one():
    """Check 13 of T copies with a prior per leaf: 1 / (W + lambda / T)."""
    X = np.repeat([[0.0, 0], [1, 0]], [2, 4], axis=0)
    for n_copies in (1, 4):
        model = loads(model_text(*[COUNTED] * n_copies))
        result = LeafLaplaceUncertainty(model, prior_scale=0.3, noise_variance=1.0).fit(X, X[:, 0])
        # Lambda = 0.3 T n / N in each tree, so that lambda / T = 0.3 n / 6.
        assert_allclose(result.predict_uncertainty(X[[0, 2]]).knowledge, 1 / (np.array([2, 4]) * (1 + 0.3 / 6)))


def test_texts_without_counts_take_those_of_the_rows():
    X = np.repeat([[0.0, 0], [1, 0]], [2, 4], axis=0)
    bare = LeafLaplaceUncertainty(loads(model_text({})), noise_variance=1.0).fit(X, X[:, 0])
    counted = LeafLaplaceUncertainty(loads(model_text(COUNTED)), noise_variance=1.0).fit(X, X[:, 0])
    assert_allclose(bare.predict_uncertainty(X).knowledge, counted.predict_uncertainty(X).knowledge, rtol=1e-12)


def test_trees_of_one_leaf_are_constants():
    one = {"num_leaves": "1", "leaf_value": "7"} | dict.fromkeys(
        ["split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child"], ""
    )
    X = np.repeat([[0.0, 0], [1, 0]], [2, 4], axis=0)
    with_it, without = (
        LeafLaplaceUncertainty(loads(model_text(*trees)), noise_variance=1.0).fit(X, X[:, 0])
        for trees in ([one, COUNTED], [COUNTED])
    )
    assert_allclose(with_it.predict_uncertainty(X).knowledge, without.predict_uncertainty(X).knowledge)
    assert with_it._posterior.model.base == [10.0]  # 7 and the mean (2 * 1 + 4 * 4) / 6 of the first tree that splits
    with pytest.raises(ValueError, match="nothing to fit"):
        LeafLaplaceUncertainty(loads(model_text(one)), noise_variance=1.0).fit(X, X[:, 0])


@pytest.mark.parametrize("name", ["regression_none", "binary_categorical"])
def test_boosting_starts_from_the_mean_of_the_first_tree(name):
    """LightGBM 4 writes the value of the root, where the first step has mean 0 but for what smooths categories."""
    model, X, y, text, _ = problem(f"lgb470/{name}")
    start = float(text.partition("internal_value=")[2].split()[0])
    found = LeafLaplaceUncertainty(model).fit(X, y)._posterior.model.base
    assert_allclose(found, start, rtol=1e-5 if name == "regression_none" else 0.03)


def test_most_probable_leaves_and_evidence():
    model, X, y, text, leaf = problem("lgb470/regression_none")
    laplace = LeafLaplaceUncertainty(model, centre="map", prior_scale=0.5, noise_variance=1.0).fit(X, y)
    offset = np.cumsum([0, *map(len, counts_in(text))])
    Phi = np.zeros((len(leaf), offset[-1]))
    np.put_along_axis(Phi, leaf.astype(int) + offset[:-1], 1.0, axis=1)
    prior = np.concatenate([0.5 * len(leaf.T) * np.maximum(n, 1) / n.sum() for n in counts_in(text)])
    base = laplace._posterior.model.base[0]
    theta = np.linalg.solve(Phi.T @ Phi + np.diag(prior), Phi.T @ (y - base))
    assert_allclose(laplace.predict(X), base + Phi @ theta, rtol=1e-8)
    found = LeafLaplaceUncertainty(model, prior_scale="evidence").fit(X, y)
    assert np.exp(-4) <= found.prior_scale_ <= np.exp(7)
    assert 0.3 < found.noise_variance_ < 3


def test_last_trees():
    model, X, y, text, leaf = problem("lgb470/regression_none")
    result = LeafLaplaceUncertainty(model, n_trees=5, noise_variance=1.0).fit(X, y).predict_uncertainty(X)
    assert_allclose(result.knowledge, dense_variance(leaf[:, -5:], counts_in(text)[-5:], np.ones(len(X))), rtol=1e-8)
    with pytest.raises(ValueError, match=f"n_trees=99 is more than the {leaf.shape[1]} trees of estimator"):
        LeafLaplaceUncertainty(model, n_trees=99, noise_variance=1.0).fit(X, y)


def test_far_from_the_data_the_prior_comes_back():
    model, X, y, _, _ = problem("lgb470/regression_none")
    inside = (np.abs(X) < 100).all(axis=1)
    X, y = X[inside], y[inside]
    laplace = LeafLaplaceUncertainty(model, support=True, noise_variance=1.0).fit(X, y)
    plain = LeafLaplaceUncertainty(model, noise_variance=1.0).fit(X, y)
    assert_allclose(laplace.predict_uncertainty(X).knowledge, plain.predict_uncertainty(X).knowledge, rtol=1e-12)
    ray = np.outer([3, 10, 100, 1e4], np.sign(X[0]))
    knowledge = laplace.predict_uncertainty(ray).knowledge
    assert (np.diff(knowledge) >= 0).all()
    assert (knowledge > plain.predict_uncertainty(ray).knowledge).all()
    grown = LeafLaplaceUncertainty(model, prior_trees=20, noise_variance=1.0, random_state=0).fit(X, y)
    assert grown.predict_uncertainty(ray).knowledge[-1] > plain.predict_uncertainty(ray).knowledge[-1]


def test_categories_have_no_boxes():
    model, X, y, _, _ = problem("lgb470/binary_categorical")
    laplace = LeafLaplaceUncertainty(model, support=True).fit(X, y)
    assert laplace._posterior.model.is_ordered.tolist() == [False, False, False, True]


# ---- models that skboost wrote


@pytest.mark.parametrize("policy", ["symmetric", "lossguide"])
@pytest.mark.parametrize("loss", ["squared_error", "binary", "multiclass"])
@pytest.mark.parametrize("averaging", ["last", "mean"])
def test_a_written_model_has_the_posterior_of_the_model(loss, policy, averaging):
    X, y = table()
    model = fitted(loss, grow_policy=policy, averaging=averaging, prior_split_rate=0.0, n_estimators=8)
    labels = y if loss == "squared_error" else model.predict(X)
    # A symmetric tree has one split a level for the model, and many nodes in the text: the boxes wear off sooner.
    params = {"max_leaves": None, "support": policy != "symmetric"}
    one, other = (LeafLaplaceUncertainty(booster, **params).fit(X, labels) for booster in (model, loads(dumps(model))))
    assert one.noise_variance_ == other.noise_variance_
    (mean, variance), (other_mean, other_variance) = (m.latent_mean_and_variance(3 * X) for m in (one, other))
    assert_array_equal(mean, other_mean)
    assert_allclose(other_variance, variance, rtol=1e-8)


# ---- refusals and composition


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lgb470/rf_regression", "averages its trees, a random forest"),
        ("lgb470/rf_binary", "averages its trees, a random forest"),
        ("lgb335/linear_tree", "has linear trees"),
        ("lgb470/poisson", "objective='poisson'"),
        ("lgb470/l2_sqrt", "objective='regression sqrt'"),
        ("lgb470/l1", "objective='regression_l1'"),
        ("lgb470/multiclassova3", "objective='multiclassova'"),
        ("lgb470/lambdarank", "objective='lambdarank'"),
        ("lgb470/custom_objective", "objective='custom'"),
        ("lgb470/cross_entropy", "objective='cross_entropy'"),
        ("lgb470/binary_sigmoid2", "trained with scale_pos_weight="),
    ],
)
def test_models_without_a_known_curvature_are_refused(name, message):
    model = loads(oracle(name)[0])
    X = np.zeros((4, model.n_features_in_))
    with pytest.raises(ValueError, match=f"^estimator=Loaded(Regressor|Classifier) .*{message}"):
        LeafLaplaceUncertainty(model).fit(X, [0, 1, 0, 1])


def test_written_models_without_a_known_curvature_are_refused():
    X, y = table()
    for model, message in [
        (fitted("poisson"), "loss='poisson'"),
        (fitted("gaussian"), "loss='gaussian'"),
        (fitted("binary", class_weight="balanced"), "fitted with class_weight"),
        (fitted_terms(max_rounds=2, interactions=0), "an explainable boosting machine"),
    ]:
        with pytest.raises(ValueError, match=message):
            LeafLaplaceUncertainty(loads(dumps(model))).fit(X, y)


def test_clones_and_cross_validation_keep_the_loaded_model():
    model, X, y, _, _ = problem("lgb470/binary_categorical")
    laplace = LeafLaplaceUncertainty(model)
    assert clone(laplace).estimator is model
    assert cross_val_score(laplace, X, y, cv=2).min() > 0.5
