"""The meta-estimator over leaves: dense formulas of fitted boosters, support, scales, what is refused, composition."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from skboost import EBMClassifier, EBMRegressor, LeafLaplaceUncertainty, SGLBClassifier, SGLBRegressor

PLAIN = {"posterior_sampling": False, "random_state": 0}
SMALL_EBM = {"max_rounds": 100, "outer_bags": 1, "validation_size": 0, "max_bins": 16, "random_state": 0}


def wave(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    f = np.sin(4 * X[:, 0]) + X[:, 1]
    return X, f, f + rng.normal(scale=0.3, size=n)


@pytest.fixture(scope="module")
def regressor():
    X, _, y = wave()
    return SGLBRegressor(n_estimators=20, max_depth=3, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def classifier():
    X, f, _ = wave()
    return SGLBClassifier(n_estimators=20, max_depth=3, random_state=0).fit(X, f > 0)


@pytest.fixture(scope="module")
def additive():
    X, _, y = wave()
    return EBMRegressor(interactions=[(0, 1)], max_interaction_bins=6, **SMALL_EBM).fit(X, y)


def tree_indicators(model, X):
    offsets = model._forest.leaf_offset
    Phi = np.zeros((len(X), offsets[-1]))
    np.put_along_axis(Phi, (model.apply(X) + offsets[:-1]).astype(int), 1.0, axis=1)
    return Phi


def dense_tree_variance(model, X, weight, rows, tau=0.5):
    """Return the latent variance with everything written out, for unit noise."""
    Phi, n_trees = tree_indicators(model, X), model.n_iter_
    n = model._forest.leaf_weight
    Lambda = tau * n_trees * np.maximum(n, 1.0) / (n.sum() / n_trees)
    Phi_rows = tree_indicators(model, rows)
    return np.diag(Phi_rows @ np.linalg.solve(Phi.T @ (weight[:, None] * Phi) + np.diag(Lambda), Phi_rows.T))


# ---- variances of fitted boosters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["cholesky", "dual"])
def test_regressor_is_the_dense_formula(regressor, solver):
    X, _, y = wave()
    rows = wave(40, 1)[0] * 2.0
    model = LeafLaplaceUncertainty(regressor, solver=solver).fit(X, y)
    v = regressor.noise_variance_
    result = model.predict_uncertainty(rows)
    assert_allclose(result.knowledge, v * dense_tree_variance(regressor, X, np.ones(len(X)), rows), rtol=1e-9)
    assert_array_equal(result.mean, regressor.predict(rows))
    assert_array_equal(model.predict(rows), regressor.predict(rows))
    assert model.noise_variance_ == v
    assert np.all(result.data == v)
    assert_array_equal(result.total, result.data + result.knowledge)
    assert (model.solver_, model.prior_scale_, model.n_leaves_) == (solver, 0.5, regressor._forest.leaf_offset[-1])


def test_classifier_is_the_dense_formula(classifier):
    X, f, _ = wave()
    rows = wave(40, 1)[0]
    model = LeafLaplaceUncertainty(classifier, prior_scale=2.0).fit(X, f > 0)
    F = classifier.decision_function(X)
    mean, variance = model.latent_mean_and_variance(rows)
    assert_allclose(variance, dense_tree_variance(classifier, X, expit(F) * expit(-F), rows, 2.0), rtol=1e-9)
    assert_array_equal(mean, classifier.decision_function(rows))
    assert_array_equal(model.predict_proba(rows), classifier.predict_proba(rows))
    result = model.predict_uncertainty(rows)
    # Averages over the posterior by many draws.
    members = expit(mean + np.sqrt(variance) * np.random.default_rng(0).normal(size=(20000, 1)))
    assert_allclose(result.mean[:, 1], members.mean(axis=0), atol=0.01)
    assert np.all(result.knowledge > 0)
    assert_array_equal(result.total, result.data + result.knowledge)
    assert model.noise_variance_ is None


def test_classes_have_a_posterior_each():
    X, f, _ = wave()
    y = np.digitize(f, [-0.5, 0.5])
    booster = SGLBClassifier(n_estimators=20, max_depth=3, random_state=0).fit(X, y)
    model = LeafLaplaceUncertainty(booster).fit(X, y)
    p = softmax(booster.decision_function(X), axis=1)
    mean, variance = model.latent_mean_and_variance(X[:30])
    for k in range(3):
        wanted = dense_tree_variance(booster, X, p[:, k] * (1 - p[:, k]), X[:30])
        assert_allclose(variance[:, k], wanted, rtol=1e-9)
    result = model.predict_uncertainty(X[:30])
    draws = mean + np.sqrt(variance) * np.random.default_rng(0).normal(size=(20000, 1, 3))
    assert_allclose(result.mean, softmax(draws, axis=2).mean(axis=0), atol=0.02)
    assert model.predict_members(X[:4], 3).shape == (3, 4, 3)
    for params in ({"centre": "map"}, {"prior_scale": "evidence"}):
        with pytest.raises(ValueError, match="needs one score per row, estimator=SGLBClassifier has 3 classes"):
            LeafLaplaceUncertainty(booster, **params).fit(X, y)


def test_last_trees_are_those_of_the_window(regressor):
    X, _, y = wave()
    model = LeafLaplaceUncertainty(regressor, n_trees=5, solver="cholesky").fit(X, y)
    first = regressor._forest.leaf_offset[15]
    Phi, n = tree_indicators(regressor, X)[:, first:], regressor._forest.leaf_weight[first:]
    H = Phi.T @ Phi + np.diag(0.5 * 5 * np.maximum(n, 1.0) / len(X))
    wanted = regressor.noise_variance_ * np.diag(Phi @ np.linalg.solve(H, Phi.T))
    assert_allclose(model.predict_uncertainty(X).knowledge, wanted, rtol=1e-9)
    whole = LeafLaplaceUncertainty(regressor, n_trees=20).fit(X, y).predict_uncertainty(X)
    assert_array_equal(whole.knowledge, LeafLaplaceUncertainty(regressor).fit(X, y).predict_uncertainty(X).knowledge)


def test_constant_prior_has_the_variance_one_over_its_scale(regressor):
    X, _, y = wave()
    weight = np.full(len(X), 1e-9)
    model = LeafLaplaceUncertainty(regressor, prior="constant", prior_scale=4.0, noise_variance=2.0)
    model.fit(X, y, sample_weight=weight)
    assert_allclose(model.predict_uncertainty(X * 3).knowledge, 2.0 / 4.0, rtol=1e-6)


def test_additive_model_has_its_cells_as_leaves(additive):
    X, _, y = wave()
    v, tau = 0.1, 0.8
    model = LeafLaplaceUncertainty(additive, prior_scale=tau, noise_variance=v, solver="cholesky").fit(X, y)
    rows = wave(40, 1)[0]
    # Two rows are in the same cell of a term exactly if the term scores agree, up to chance.
    shared = [t[:, None] == t[None, :] for t in np.round(additive.eval_terms(np.vstack([X, rows])), 14).T]
    weights = np.ones(len(X))
    kernel = np.full(shared[0].shape, 1.0 / 1e-4)
    for same in shared:
        n = np.maximum(same[:, : len(X)] @ weights, 1.0)
        kernel = kernel + same * len(X) / (tau * 3 * n)[:, None]
    n = len(X)
    K, cross = kernel[:n, :n] + np.eye(n), kernel[:n, n:]
    wanted = v * (np.diag(kernel)[n:] - np.einsum("ij,ij->j", cross, np.linalg.solve(K, cross)))
    assert_allclose(model.predict_uncertainty(rows).knowledge, wanted, rtol=1e-5)
    assert_array_equal(model.predict(rows), additive.predict(rows))


# ---- centre and scales -----------------------------------------------------------------------------------------------


def test_map_of_the_squared_error_is_ridge_regression(regressor):
    X = wave()[0]
    X_new, _, y_new = wave(80, 2)
    model = LeafLaplaceUncertainty(regressor, centre="map").fit(X_new, y_new)
    Phi, n = tree_indicators(regressor, X_new), regressor._forest.leaf_weight
    Lambda = np.diag(0.5 * 20 * np.maximum(n, 1.0) / len(X))
    base = regressor._forest.base_score[0]
    theta = np.linalg.solve(Phi.T @ Phi + Lambda, Phi.T @ (y_new - base))
    assert_allclose(model.predict(X), base + tree_indicators(regressor, X) @ theta, rtol=1e-9)
    assert_array_equal(model.predict(X), model.predict_uncertainty(X).mean)


def test_noise_variance_by_the_evidence_is_that_of_the_marginal_density():
    X, _, y = wave()
    booster = SGLBRegressor(n_estimators=10, max_depth=2, **PLAIN).fit(X, y)
    model = LeafLaplaceUncertainty(booster).fit(X, y)
    Phi, n = tree_indicators(booster, X), booster._forest.leaf_weight
    K = np.eye(len(X)) + Phi @ np.diag(len(X) / (0.5 * 10 * n)) @ Phi.T
    residual = y - booster._forest.base_score[0]
    assert model.noise_variance_ == pytest.approx(residual @ np.linalg.solve(K, residual) / len(X), rel=1e-10)


def test_one_row_per_cell_does_not_tell_noise_from_signal():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.normal(size=80)
    params = {"outer_bags": 1, "max_rounds": 20, "interactions": 0, "random_state": 0, "n_jobs": 1}
    booster = EBMRegressor(**params).fit(X, y)
    with pytest.warns(UserWarning, match=r"prior_scale to its lower end .* prior='random_walk'"):
        model = LeafLaplaceUncertainty(booster).fit(X, y)
    assert model.noise_variance_ < 1e-3
    walk = LeafLaplaceUncertainty(booster, prior="random_walk").fit(X, y)
    assert walk.noise_variance_ == pytest.approx(0.09, rel=0.4)
    LeafLaplaceUncertainty(EBMRegressor(**params, max_bins=12).fit(X, y)).fit(X, y)


def test_the_unit_of_the_target_cancels():
    X, _, y = wave()
    models = []
    for unit in (1.0, 1024.0):
        booster = SGLBRegressor(n_estimators=10, max_depth=2, **PLAIN).fit(X, y * unit)
        models.append(LeafLaplaceUncertainty(booster, prior_scale="evidence").fit(X, y * unit))
    one, other = (model.predict_uncertainty(X).knowledge for model in models)
    assert models[0].prior_scale_ == pytest.approx(models[1].prior_scale_, rel=1e-3)
    assert_allclose(other, 1024.0**2 * one, rtol=1e-3)


def test_scale_is_not_chosen_on_the_rows_of_the_trees_unless_asked(classifier):
    X, f, _ = wave()
    assert LeafLaplaceUncertainty(classifier).fit(X, f > 0).prior_scale_ == 0.5
    chosen = LeafLaplaceUncertainty(classifier, prior_scale="evidence").fit(X, f > 0)
    same = LeafLaplaceUncertainty(classifier, prior_scale="evidence", solver="cholesky").fit(X, f > 0)
    assert chosen.prior_scale_ != 0.5
    assert chosen.prior_scale_ == pytest.approx(same.prior_scale_, rel=1e-3)


def test_leaf_values_of_other_rows_mend_an_overtrained_classifier():
    X, y = make_classification(1200, n_features=8, n_informative=4, n_redundant=0, flip_y=0.3, random_state=0)
    grown, other, held = slice(0, 300), slice(300, 600), slice(600, None)
    fast = {"n_estimators": 60, "learning_rate": 0.5, "max_depth": 3, "leaf_estimation": "newton"}
    booster = SGLBClassifier(**fast, **PLAIN).fit(X[grown], y[grown])
    model = LeafLaplaceUncertainty(booster, centre="map", prior_scale="evidence").fit(X[other], y[other])
    before, after = (log_loss(y[held], m.predict_proba(X[held])) for m in (booster, model))
    assert after < before - 0.05
    # The scale that the trees' own rows ask for is far smaller, and the leaf values with it worse than the booster's.
    fooled = LeafLaplaceUncertainty(booster, centre="map", prior_scale="evidence").fit(X[grown], y[grown])
    assert fooled.prior_scale_ < 0.5 * model.prior_scale_
    assert log_loss(y[held], fooled.predict_proba(X[held])) > before + 0.05


# ---- additive models -------------------------------------------------------------------------------------------------


def gap_problem(seed):
    """Return rows of three terms, sine, line and nothing, with a gap in the first column, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(900, 3))
    X = X[(X[:, 0] < 10 / 24) | (X[:, 0] > 14 / 24)]
    return X, np.sin(6 * X[:, 0]) + X[:, 1] + rng.normal(scale=0.5, size=len(X))


@pytest.mark.parametrize("prior", ["sglb", "constant", "random_walk"])
def test_bands_of_shapes_cover_the_truth(prior):
    covered = []
    for seed in range(4):
        X, y = gap_problem(seed)
        # A few rows make the cells of the gap, without weight in the posterior.
        filler = np.full((40, 3), 0.5)
        filler[:, 0] = np.linspace(10.5 / 24, 13.5 / 24, 40)
        booster = EBMRegressor(interactions=0, **{**SMALL_EBM, "max_bins": 27, "max_rounds": 5})
        booster.fit(np.vstack([X, filler]), np.append(y, np.zeros(40)))
        model = LeafLaplaceUncertainty(booster, prior=prior, centre="map").fit(X, y)
        assert model.prior_scale_.shape == (3,)
        sd = model.shape_deviations()
        assert [s.shape for s in sd] == [scores.shape for scores in booster.term_scores_]
        theta = model._posterior.modes * model._posterior.design.scale
        start = 0
        for t, truth in enumerate((lambda x: np.sin(6 * x), lambda x: x, lambda x: 0 * x)):
            cells = booster._cells(X)[t].astype(int)
            values = np.zeros(len(sd[t]))
            used = model._posterior.design.position[start : start + len(values)]
            values[used >= 0] = theta[used[used >= 0]]
            start += len(values)
            n = np.maximum(np.bincount(cells, minlength=len(values)), 1)
            true = np.bincount(cells, truth(X[:, t]), len(values)) / n
            centred = [v - v[cells].mean() for v in (values, true)]
            seen = np.unique(cells)
            covered.append(np.abs(centred[0] - centred[1])[seen] < 1.96 * sd[t][seen])
        first = booster._cells(np.linspace(10.6 / 24, 13.4 / 24, 9)[:, None] * np.ones(3))[0]
        middle, beside = first[4], booster._cells(np.array([[9 / 24, 0.5, 0.5]]))[0][0]
        assert sd[0][middle] > 1.5 * sd[0][beside]
    assert 0.92 <= np.concatenate(covered).mean() <= 1.0


def test_shape_deviations_are_those_of_drawn_shapes(additive):
    X, _, y = wave()
    model = LeafLaplaceUncertainty(additive, prior_scale=1.0, random_state=0).fit(X, y)
    posterior, S = model._posterior, 4000
    delta = posterior.solvers[0].draws(S, np.random.default_rng(0)) * posterior.design.scale[:, None]
    cells = additive._cells(X)[0].astype(int)
    position = posterior.design.position[np.arange(len(additive.term_scores_[0]))]
    seen = np.unique(cells)
    centred = delta[position[seen]] - delta[position[cells]].mean(axis=0)
    wanted = np.sqrt(model.noise_variance_ * np.mean(centred**2, axis=1))
    assert_allclose(model.shape_deviations()[0][seen], wanted, rtol=4 * np.sqrt(0.5 / S))
    assert not hasattr(LeafLaplaceUncertainty(SGLBRegressor()), "shape_deviations")


# ---- away from the data ----------------------------------------------------------------------------------------------


def test_support_is_nothing_on_the_rows_and_the_prior_far_away():
    X, _, y = wave()
    booster = SGLBRegressor(n_estimators=20, max_depth=3, **PLAIN).fit(X, y)
    without = LeafLaplaceUncertainty(booster, noise_variance=0.1).fit(X, y)
    model = LeafLaplaceUncertainty(booster, noise_variance=0.1, support=True).fit(X, y)
    assert_array_equal(model.predict_uncertainty(X).knowledge, without.predict_uncertainty(X).knowledge)
    for row, axis, sign in ((0, 0, 1.0), (3, 1, -1.0), (7, 0, -1.0)):
        ray = np.repeat(X[[row]], 60, axis=0)
        ray[:, axis] = sign * (1.0 + np.geomspace(1e-3, 1e4, 60))
        more = model.predict_uncertainty(ray).knowledge - without.predict_uncertainty(ray).knowledge
        assert np.all(np.diff(more) >= 0)
        leaves = booster.apply(ray[-1:])[0] + booster._forest.leaf_offset[:-1]
        prior = 0.1 * (len(X) / (0.5 * 20 * booster._forest.leaf_weight[leaves])).sum()
        assert more[-1] == pytest.approx(prior, rel=1e-9)


def test_random_trees_make_the_variance_grow_in_a_gap():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-2.0, -0.5, 200), rng.uniform(0.5, 2.0, 200)])[:, None]
    y = rng.uniform(size=400) < expit(1.5 * np.sin(2.5 * x[:, 0]))
    booster = SGLBClassifier(n_estimators=60, max_depth=3, **PLAIN).fit(x, y)
    gap, inside, outside = np.array([[0.0]]), np.array([[-1.2], [1.3]]), np.array([[3.2]])
    sd = {}
    for prior_trees in (0, 100):
        model = LeafLaplaceUncertainty(booster, prior_trees=prior_trees, random_state=0).fit(x, y)
        sd[prior_trees] = [np.sqrt(model.latent_mean_and_variance(rows)[1]).mean() for rows in (gap, inside, outside)]
    assert sd[100][0] > 2.0 * sd[100][1]
    assert sd[100][2] > 2.0 * sd[100][1]
    assert sd[100][0] > 2.0 * sd[0][0]


def test_support_counts_the_trees_that_have_seen_rows(regressor):
    X, _, y = wave()
    model = LeafLaplaceUncertainty(regressor).fit(X[:50], y[:50])
    assert np.all(model.predict_uncertainty(X[:50]).support == 1.0)
    seen = [np.isin(regressor.apply(X)[:, t], regressor.apply(X[:50])[:, t]) for t in range(20)]
    found = model.predict_uncertainty(X).support
    assert_allclose(found, np.mean(seen, axis=0))
    assert found.min() < 1.0


# ---- members ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["cholesky", "dual", "sample"])
def test_members_spread_as_the_variance_says(regressor, solver):
    X, _, y = wave()
    rows = X[:20] * 2.0
    model = LeafLaplaceUncertainty(regressor, solver=solver, n_members=2000, random_state=0).fit(X[:60], y[:60])
    members = model.predict_members(rows, 2000)
    ratio = np.mean((members - regressor.predict(rows)) ** 2, axis=0) / model.predict_uncertainty(rows).knowledge
    assert np.abs(ratio - 1).max() < 4 * np.sqrt(2 / 2000)
    assert_array_equal(members, model.predict_members(rows, 2000))
    if solver == "sample":
        with pytest.raises(ValueError, match="n_members=2001 is more than the 2000 members"):
            model.predict_members(rows, 2001)


def test_sampled_variance_is_near_the_exact_one(classifier):
    X, f, _ = wave()
    exact = LeafLaplaceUncertainty(classifier).fit(X, f > 0).latent_mean_and_variance(X)[1]
    models = [LeafLaplaceUncertainty(classifier, solver="sample", random_state=3).fit(X, f > 0) for _ in range(2)]
    found = [model.latent_mean_and_variance(X)[1] for model in models]
    assert_array_equal(*found)
    assert abs(np.median(found[0] / exact) - 1) < 0.2
    with pytest.raises(ValueError, match="n_members"):
        models[0].predict_members(X, 0)


# ---- weights, order, state -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"centre": "map"}, {"solver": "sample", "random_state": 0}])
def test_weights_are_copies_and_order_does_not_matter(classifier, params):
    X, f, _ = wave(60, 5)
    y = f > 0
    weight = np.random.default_rng(0).integers(0, 4, 60)
    model = LeafLaplaceUncertainty(classifier, **params)
    weighted = clone(model).set_params(estimator=classifier).fit(X, y, sample_weight=weight)
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(60), weight))
    copied = clone(model).set_params(estimator=classifier).fit(X[order], y[order])
    # Conjugate gradients end at a tolerance.
    rtol = 1e-3 if weighted.solver_ == "sample" else 1e-9
    assert_allclose(*(m.latent_mean_and_variance(X)[1] for m in (weighted, copied)), rtol=rtol)


def test_state_survives_copies(regressor):
    X, _, y = wave()
    model = LeafLaplaceUncertainty(regressor, support=True, prior_trees=5, random_state=0).fit(X, y)
    wanted = model.predict_uncertainty(X).knowledge
    for other in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        assert_array_equal(other.predict_uncertainty(X).knowledge, wanted)
    before = vars(model).copy()
    with pytest.raises(ValueError, match="max_leaves=1"):
        model.set_params(max_leaves=1, solver="dual").fit(X, y)
    assert vars(model).keys() == before.keys()
    assert model._posterior is before["_posterior"]


def test_fitted_is_used_and_unfitted_is_fitted(regressor):
    X, _, y = wave()
    assert LeafLaplaceUncertainty(regressor).fit(X, y).estimator_ is regressor
    frozen = clone(LeafLaplaceUncertainty(FrozenEstimator(regressor)))
    assert frozen.fit(X, y).estimator_ is regressor
    inner = SGLBRegressor(n_estimators=10)
    models = [LeafLaplaceUncertainty(inner, random_state=1).fit(X, y) for _ in range(2)]
    assert not hasattr(inner, "n_iter_")
    assert_array_equal(*(model.transform(X) for model in models))
    assert clone(LeafLaplaceUncertainty(regressor)).fit(X, y).estimator_ is not regressor


def test_columns_of_transform(regressor, classifier):
    X, f, y = wave()
    model = LeafLaplaceUncertainty(regressor).fit(X, y)
    assert is_regressor(model)
    assert not hasattr(model, "predict_proba")
    assert list(model.get_feature_names_out()) == ["mean", "knowledge", "data", "total", "support"]
    result = model.predict_uncertainty(X)
    assert_array_equal(model.transform(X)[:, 1], result.knowledge)
    assert_array_equal(model.score_samples(X), -result.knowledge)
    assert model.score(X, y) == regressor.score(X, y)
    model = LeafLaplaceUncertainty(classifier).fit(X, f > 0)
    assert is_classifier(model)
    names = ["mean_False", "mean_True", "knowledge", "data", "total", "support"]
    assert list(model.get_feature_names_out()) == names
    assert model.transform(X).shape == (150, 6)
    assert model.score(X, f > 0) == classifier.score(X, f > 0)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["cholesky", "dual"])
def test_large_matrices_are_refused_before_they_are_made(regressor, solver, monkeypatch):
    X, _, y = wave()
    kind = {"cholesky": "CholeskySolver", "dual": "DualSolver"}[solver]

    def fail(*args):
        raise AssertionError("made")

    monkeypatch.setattr(f"skboost.gaussian_process._leaf_solvers.{kind}.__init__", fail)
    with pytest.raises(ValueError, match=rf"solver='{solver}' .* > max_leaves=20 \(about .* GB\)"):
        LeafLaplaceUncertainty(regressor, solver=solver, max_leaves=20).fit(X, y)
    assert LeafLaplaceUncertainty(regressor, max_leaves=20).fit(X, y).solver_ == "sample"
    with pytest.raises(ValueError, match="max_leaves=20"):
        LeafLaplaceUncertainty(regressor, max_leaves=20, prior_scale="evidence").fit(X, y)


@pytest.mark.parametrize(
    ("booster", "params", "message"),
    [
        (SGLBRegressor(loss="poisson"), {}, "loss='poisson'"),
        (SGLBRegressor(loss="gaussian"), {}, "loss='gaussian'"),
        (EBMRegressor(loss="gamma"), {}, "loss='gamma'"),
        (SGLBClassifier(class_weight="balanced"), {}, "class_weight='balanced'"),
        (SGLBClassifier(), {"noise_variance": 1.0}, "noise_variance=1.0 needs a regressor"),
        (SGLBRegressor(), {"solver": "sample", "prior_scale": "evidence"}, "prior_scale='evidence'.*solver='sample'"),
        (EBMRegressor(), {"prior": "random_walk", "solver": "dual"}, "prior='random_walk' needs solver='cholesky'"),
        (SGLBRegressor(), {"n_trees": 5, "centre": "map"}, "n_trees=5 does not go with centre='map'"),
        (SGLBRegressor(), {"n_trees": 5, "prior_scale": "evidence"}, "n_trees=5 .* prior_scale='evidence'"),
        (SGLBRegressor(), {"prior_scale": -1.0}, "'prior_scale' parameter"),
        (SGLBRegressor(), {"centre": "mean"}, "'centre' parameter"),
    ],
)
def test_refused_before_the_booster_is_fitted(booster, params, message, monkeypatch):
    monkeypatch.setattr(type(booster), "fit", lambda *args, **kwargs: pytest.fail("fitted"))
    X, f, y = wave(30)
    with pytest.raises(ValueError, match=message):
        LeafLaplaceUncertainty(booster, **params).fit(X, f > 0 if is_classifier(booster) else y)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("regressor", {"prior": "random_walk"}, "prior='random_walk' needs an additive model, got estimator=SGLBReg"),
        ("regressor", {"n_trees": 21}, "n_trees=21 is more than the 20 trees"),
        ("additive", {"support": True}, "support=True needs a model of trees, got estimator=EBMRegressor"),
        ("additive", {"prior_trees": 3}, "prior_trees=3 needs a model of trees"),
        ("additive", {"n_trees": 3}, "n_trees=3 does not go with estimator=EBMRegressor"),
        ("additive", {"solver": "sample"}, "prior_scale='auto'.*solver='sample'"),
        ("additive", {"solver": "dual", "prior_scale": "evidence"}, "prior_scale='evidence'.*solver='dual'"),
    ],
)
def test_refused_with_the_model(name, params, message, request):
    X, _, y = wave()
    with pytest.raises(ValueError, match=message):
        LeafLaplaceUncertainty(request.getfixturevalue(name), **params).fit(X, y)


def test_refused_data_and_families(regressor, classifier):
    X, f, y = wave()
    with pytest.raises(ValueError, match="classes that the fitted estimator does not know"):
        LeafLaplaceUncertainty(classifier).fit(X, np.where(f > 0, 2, 1))
    with pytest.raises(ValueError, match="NaN"):
        LeafLaplaceUncertainty(regressor).fit(X, np.where(f > 0, np.nan, y))
    with pytest.raises(ValueError, match="inconsistent"):
        LeafLaplaceUncertainty(regressor).fit(X, y[:-1])
    with pytest.raises(ValueError, match="3 features"):
        LeafLaplaceUncertainty(regressor).fit(np.ones((150, 3)), y)
    with pytest.raises(ValueError, match="estimator=GradientBoostingRegressor is no booster"):
        LeafLaplaceUncertainty(GradientBoostingRegressor(n_estimators=2).fit(X, y)).fit(X, y)
    plain = SGLBRegressor(n_estimators=5, **PLAIN).fit(X, y)
    with pytest.raises(ValueError, match="n_trees=3 needs noise_variance"):
        LeafLaplaceUncertainty(plain, n_trees=3).fit(X, y)
    assert LeafLaplaceUncertainty(plain, n_trees=3, noise_variance=0.1).fit(X, y).noise_variance_ == 0.1


def test_binary_additive_model_by_the_evidence():
    X, f, _ = wave()
    booster = EBMClassifier(interactions=0, **SMALL_EBM).fit(X, f > 0)
    model = LeafLaplaceUncertainty(booster, prior="random_walk").fit(X, f > 0)
    assert model.prior_scale_.shape == (2,)
    assert np.all(model.predict_uncertainty(X).knowledge > 0)
    y = np.digitize(f, [-0.5, 0.5])
    booster = EBMClassifier(interactions=0, **SMALL_EBM).fit(X, y)
    assert LeafLaplaceUncertainty(booster).fit(X, y).prior_scale_ == 0.5


def test_a_model_without_terms_knows_its_intercept():
    X, _, y = wave()
    booster = EBMRegressor(exclude="mains", interactions=0, **SMALL_EBM).fit(X, y)
    for prior in ("sglb", "random_walk"):
        model = LeafLaplaceUncertainty(booster, prior=prior, noise_variance=0.6).fit(X, y)
        assert_allclose(model.predict_uncertainty(X).knowledge, 0.6 / (len(X) + 1e-4), rtol=1e-9)


def test_predictions_are_made_in_blocks(regressor, monkeypatch):
    X, _, y = wave()
    model = LeafLaplaceUncertainty(regressor, centre="map", support=True).fit(X, y)
    wanted = model.transform(X)
    monkeypatch.setattr("skboost.gaussian_process._averages.BLOCK_VALUES", 150)
    assert_allclose(model.transform(X), wanted, rtol=1e-10)
