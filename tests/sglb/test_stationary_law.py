"""The law of the chain where it is known: one leaf, two leaves, one iteration, noise off.

Tolerances of variances: a chain of n states and lag-1 correlation rho has about n (1 - rho^2) / (1 + rho^2) independent
draws for the variance, so 20000 states at rho = 0.9 leave a relative standard error of 3 %. Seeds are fixed.
"""

import math

import numpy as np
import pytest
from fit_cases import POLICIES, assert_same_predictions, make_data, make_estimator
from scipy import integrate, stats
from scipy.special import expit
from skboost._engine.langevin import leaf_normals, row_normals

from skboost import SGLBClassifier, SGLBRegressor
from skboost._binning import BinMapper
from skboost._losses import make_loss
from skboost._random import STREAM_LEAF, STREAM_STRUCT
from skboost._sampling import row_hashes
from skboost.sglb._chain import Chain, Rows, TreeRules


def make_rows(X, y, weight=None):
    mapper = BinMapper().fit(X, weight)
    codes_col, codes_row = mapper.transform(X)
    hashes = row_hashes(codes_row, X.shape[1])
    return Rows(codes_col, codes_row, mapper.n_bins, mapper.is_categorical, y, weight, None, hashes)


def make_rules(**changes):
    rules = {
        "grow_policy": "symmetric", "learning_rate": 0.1, "max_depth": 1, "max_leaf_nodes": None, "min_samples_leaf": 1,
        "l2_regularization": 0.0, "n_features": None, "subsample": 1.0, "monotone": None, "groups": None,
        "newton": False, "curvature": 1.0,
    }  # fmt: skip
    return TreeRules(**{**rules, **changes})


def run_chain(rows, n_iter, *, eps=0.1, T=1.0, gamma=0.0, l2=0.0, seed=0, base=0.0, loss=None, grow_policy="symmetric"):
    """Return the scores of all rows after every iteration, shape (n_iter, n_outputs, n_rows)."""
    loss = make_loss("squared_error") if loss is None else loss
    rules = make_rules(learning_rate=eps, l2_regularization=l2, grow_policy=grow_policy)
    sigma = math.sqrt(2 / (eps * T)) if T else 0.0
    base = np.full(loss.n_outputs, base) if np.ndim(base) == 0 else base
    chain = Chain(rows, loss, base, rules, seed, 1, sigma)
    states = np.empty((n_iter, loss.n_outputs, len(rows.y)))
    for t in range(n_iter):
        chain.step(1.0 if t == 0 else 1.0 - gamma * eps)
        states[t] = chain.scores
    return states


def one_leaf(n, mean):
    rng = np.random.default_rng(1)
    y = rng.normal(size=n)
    return make_rows(np.zeros((n, 1)), y - y.mean() + mean)


def ar1(n, mean, eps, T, gamma, l2):
    """Return (rho, mean, variance) of the leaf value as the autoregressive process that the step is."""
    D = n + l2
    shrink, a = 1 - gamma * eps, n / D
    rho = shrink * (1 - eps * a)
    return rho, eps * a * mean / (1 - rho), 2 * eps / T / (D * (1 - rho**2))


# ---- one leaf --------------------------------------------------------------------------------------------------------

ONE_LEAF = [
    ({"n": 100, "mean": 1.0, "eps": 0.1, "T": 1.0, "gamma": 0.005, "l2": 0.0}, (0.89955, 0.995520, 0.0104816)),
    ({"n": 100, "mean": 1.0, "eps": 0.1, "T": 100.0, "gamma": 0.005, "l2": 0.0}, (0.89955, 0.995520, 1.048164e-4)),
    ({"n": 100, "mean": 1.0, "eps": 0.1, "T": 1.0, "gamma": 0.005, "l2": 25.0}, (0.91954, 0.994283, 0.0103596)),
    ({"n": 50, "mean": -2.0, "eps": 0.5, "T": 1.0, "gamma": 0.01, "l2": 0.0}, (0.4975, -1.990050, 0.0265783)),
]


@pytest.mark.parametrize(("setting", "law"), ONE_LEAF)
def test_one_leaf_chain(setting, law):
    rho, mean, variance = ar1(**setting)
    np.testing.assert_allclose((rho, mean, variance), law, rtol=2e-5)
    setting = dict(setting)
    rows = one_leaf(setting.pop("n"), setting.pop("mean"))
    states = run_chain(rows, 20_500, **setting)[500:, 0, 0]
    standard_error = math.sqrt(variance * (1 + rho) / (1 - rho) / len(states))
    assert abs(states.mean() - mean) < 4.5 * standard_error
    np.testing.assert_allclose(states.var(), variance, rtol=0.12)
    np.testing.assert_allclose(np.corrcoef(states[1:], states[:-1])[0, 1], rho, atol=0.01)


@pytest.mark.parametrize("l2", [0.0, 25.0])
def test_one_leaf_chain_is_the_recurrence_with_known_draws(l2):
    """Every state, not the law only: shrink, gradient, then the leaf with its keyed draw."""
    n, eps, T, gamma, seed = 100, 0.1, 3.0, 0.02, 5
    rows = one_leaf(n, 1.0)
    states = run_chain(rows, 50, eps=eps, T=T, gamma=gamma, l2=l2, seed=seed)[:, 0, 0]
    value, draw, D = 0.0, np.empty(1), n + l2
    for t, state in enumerate(states):
        leaf_normals(seed, STREAM_LEAF, t, 0, draw)
        value *= 1.0 if t == 0 else 1 - gamma * eps
        G = np.sum(value - rows.y)
        value -= eps * (G + math.sqrt(2 / (eps * T)) * math.sqrt(D) * draw[0]) / D
        # Gradients are floats and lie on a grid of their largest times 2**-24 or finer.
        assert state == pytest.approx(value, abs=1e-5)


def test_one_leaf_chain_of_the_estimator():
    """Default shrinkage 1 / (2 N), base score at the mean: states of the chain through staged predictions."""
    rng = np.random.default_rng(3)
    y = rng.normal(5.0, 1.0, size=80)
    model = SGLBRegressor(
        n_estimators=20_500, noise_variance=1.0, diffusion_temperature=1.0, l2_regularization=0.0, random_state=0
    )
    X = np.zeros((80, 2))
    states = np.array([stage[0] for stage in model.fit(X, y).staged_predict(X[:1])])[500:]
    rho, _, variance = ar1(80, 0.0, 0.1, 1.0, 1 / 160, 0.0)
    standard_error = math.sqrt(variance * (1 + rho) / (1 - rho) / len(states))
    assert abs(states.mean() - y.mean()) < 4.5 * standard_error
    np.testing.assert_allclose(states.var(), variance, rtol=0.12)
    assert set(model.shrink_factors_[1:]) == {1 - 0.1 * (0.5 / 80)}
    assert model.shrink_factors_[0] == 1.0


def test_noise_variance_and_temperature_enter_as_a_quotient():
    X, y = make_data("squared_error")
    fits = [
        make_estimator(noise_variance=v, diffusion_temperature=T).fit(X, y)
        for v, T in [(1.0, 1.0), (4.0, 4.0), (0.5, 0.5)]
    ]
    for other in fits[1:]:
        assert_same_predictions(fits[0], other, X)
    louder = make_estimator(noise_variance=4.0, diffusion_temperature=1.0).fit(X, y)
    assert not np.array_equal(louder.predict(X), fits[0].predict(X))


# ---- the posterior of other losses, T = 1 and a small step -----------------------------------------------------------


def grid_moments(energy, low, high):
    """Return mean and variance of the density exp(-energy)."""
    z = np.linspace(low, high, 20_001)
    values = np.array([energy(v) for v in z])
    p = np.exp(values.min() - values)
    p /= integrate.trapezoid(p, z)
    mean = integrate.trapezoid(p * z, z)
    return mean, integrate.trapezoid(p * (z - mean) ** 2, z)


def effective_tolerance(rho, n):
    """Return five relative standard errors of a variance over n states of lag-1 correlation rho."""
    return 5 * math.sqrt(2 * (1 + rho**2) / (1 - rho**2) / n)


def test_binary_posterior_of_one_leaf():
    n, ones, n_iter, eps = 40, 12, 40_000, 0.1
    y = np.repeat([0.0, 1.0], [n - ones, ones])
    rows = make_rows(np.zeros((n, 1)), y)
    states = run_chain(rows, n_iter, eps=eps, T=1.0, gamma=0.5 / n, loss=make_loss("log_loss", 2))[500:, 0, 0]
    mean, variance = grid_moments(lambda z: n * np.logaddexp(0, z) - ones * z + 0.25 * z**2, -6, 4)
    curvature = expit(mean) * expit(-mean)
    tolerance = effective_tolerance(1 - eps * curvature, n_iter)
    assert abs(states.mean() - mean) < 5 * math.sqrt(variance * 2 / (eps * curvature) / n_iter) + 0.02
    # The finite step adds eps * curvature / 2, one percent.
    np.testing.assert_allclose(states.var(), variance, rtol=tolerance + 0.02)


def test_poisson_posterior_of_one_leaf():
    n, n_iter, eps = 50, 40_000, 0.05
    y = np.random.default_rng(2).poisson(3.0, size=n).astype(float)
    loss = make_loss("poisson").bind(y)
    rows = make_rows(np.zeros((n, 1)), y)
    rules = make_rules(learning_rate=eps, curvature=loss.leaf_curvature)
    chain = Chain(rows, loss, loss.base_score(y), rules, 0, 1, math.sqrt(2 / eps))
    states = np.empty(n_iter)
    for t in range(n_iter):
        chain.step(1 - eps * 0.5 / n if t else 1.0)
        states[t] = chain.scores[0, 0]
    total, base = y.sum(), math.log(y.mean())
    prior = 0.25 * loss.leaf_curvature
    mean, variance = grid_moments(lambda f: n * np.exp(base + f) - total * f + prior * f**2, -1.5, 1.5)
    tolerance = effective_tolerance(1 - eps, n_iter)
    assert abs(states.mean() - mean) < 5 * math.sqrt(variance * 2 / eps / n_iter)
    np.testing.assert_allclose(states[200:].var(), variance, rtol=tolerance + 0.03)


def test_multiclass_posterior_of_one_leaf():
    """Difference of two scores at equal class counts: precision W / 6 each way, from the Hessian of softmax."""
    n, n_iter, eps = 300, 20_000, 0.1
    y = np.repeat([0.0, 1.0, 2.0], n // 3)
    rows = make_rows(np.zeros((n, 1)), y)
    loss = make_loss("log_loss", 3)
    states = run_chain(rows, n_iter, eps=eps, T=1.0, gamma=0.5 / n, loss=loss)[500:, :, 0]
    tolerance = effective_tolerance(1 - eps / 3, n_iter)
    for k, j in [(0, 1), (1, 2), (0, 2)]:
        # Hessian (n / 3) (I - 11' / 3) plus the prior's 1/2 on the plane of sum zero.
        variance = 2 / (n / 3 + 0.5)
        difference = states[:, k] - states[:, j]
        np.testing.assert_allclose(difference.var(), variance, rtol=tolerance + 0.05)
        assert abs(difference.mean()) < 5 * math.sqrt(variance * 2 * 3 / eps / n_iter)


def test_gaussian_posterior_of_one_leaf():
    """Mean and log deviation have the posterior of large samples: variances s^2 / n and 1 / (2 n)."""
    n, n_iter, eps = 400, 20_000, 0.05
    y = np.random.default_rng(4).normal(3.0, 2.0, size=n)
    loss = make_loss("gaussian").bind(y)
    internal = loss.to_internal(y)
    rows = make_rows(np.zeros((n, 1)), internal)
    states = run_chain(rows, n_iter, eps=eps, T=1.0, gamma=0.5 / n, loss=loss, base=loss.base_score(internal))[
        500:, :, 0
    ]
    tolerance = effective_tolerance(1 - eps, n_iter)
    np.testing.assert_allclose(states[:, 0].var(), internal.var() / n, rtol=tolerance + 0.04)
    np.testing.assert_allclose(states[:, 1].var(), 1 / (2 * n), rtol=tolerance + 0.04)


# ---- two leaves ------------------------------------------------------------------------------------------------------

TWO_LEAVES = [
    ({"eps": 0.1, "T": 1.0}, 1, 0.0, 0.010526),
    ({"eps": 0.1, "T": 1.0}, 1, 50.0, 0.010345),
    ({"eps": 0.1, "T": 200.0}, 1, 0.0, 5.263e-5),
    ({"eps": 0.5, "T": 1.0}, 1, 0.0, 0.013333),
    ({"eps": 0.1, "T": 1.0}, 4, 0.0, 0.002632),
    ({"eps": 0.1, "T": 1.0}, 4, 200.0, 0.002586),
]


def two_leaf_rows(weight=1):
    x = np.repeat([0.0, 1.0], 100)
    y = np.random.default_rng(1).normal(size=200) + 2 * x
    return make_rows(x[:, None], y, None if weight == 1 else np.full(200, float(weight)))


@pytest.mark.parametrize(("dynamics", "weight", "l2", "variance"), TWO_LEAVES)
def test_two_leaf_chain(dynamics, weight, l2, variance):
    rows = two_leaf_rows(weight)
    states = run_chain(rows, 20_500, l2=l2, **dynamics)[500:, 0]
    for leaf in (states[:, 0], states[:, -1]):
        np.testing.assert_allclose(leaf.var(), variance, rtol=0.12)
    assert abs(np.corrcoef(states[:, 0], states[:, -1])[0, 1]) < 0.1


def test_variance_does_not_depend_on_lambda():
    rows = one_leaf(100, 1.0)
    first, second = (run_chain(rows, 30_000, l2=l2, seed=3)[500:, 0, 0].var() for l2 in (0.0, 50.0))
    # Theory puts them 1.7 % apart; the draws are shared, so most of the sampling error cancels.
    assert second == pytest.approx(first, rel=0.05)
    assert first != second


# ---- weights ---------------------------------------------------------------------------------------------------------


def test_weights_act_as_copies_in_the_law():
    rng = np.random.default_rng(0)
    y = rng.normal(size=50)
    weighted = make_rows(np.zeros((50, 1)), y, np.full(50, 2.0))
    copied = make_rows(np.zeros((100, 1)), np.repeat(y, 2))
    one, other = (run_chain(rows, 200, T=1.0, gamma=0.005)[:, 0, 0] for rows in (weighted, copied))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("langevin", [True, False])
@pytest.mark.parametrize("grow_policy", POLICIES)
def test_weights_act_as_copies_in_the_fit(langevin, grow_policy):
    X, y = make_data("squared_error")
    params = {"posterior_sampling": False, "langevin": langevin, "grow_policy": grow_policy}
    weighted = make_estimator(**params).fit(X, y, np.full(len(y), 2))
    copied = make_estimator(**params).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert_same_predictions(weighted, copied, X)


# ---- Newton leaves and noise off -------------------------------------------------------------------------------------


@pytest.mark.parametrize("grow_policy", POLICIES)
def test_newton_leaves_equal_gradient_leaves_for_squared_error(grow_policy):
    X, y = make_data("squared_error")
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    fits = [
        make_estimator(leaf_estimation=leaf, grow_policy=grow_policy).fit(X, y, weight)
        for leaf in ("gradient", "newton")
    ]
    assert_same_predictions(*fits, X)


@pytest.mark.parametrize("loss", ["squared_error", "gaussian", "binary", "multiclass", "poisson"])
@pytest.mark.parametrize("grow_policy", POLICIES)
def test_temperature_zero_is_plain_boosting(loss, grow_policy):
    X, y = make_data(loss)
    silent = make_estimator(
        loss, posterior_sampling=False, langevin=True, diffusion_temperature=0.0, model_shrink_rate=0.0,
        grow_policy=grow_policy,
    ).fit(X, y)  # fmt: skip
    plain = make_estimator(loss, posterior_sampling=False, grow_policy=grow_policy).fit(X, y)
    assert_same_predictions(silent, plain, X)
    assert plain.diffusion_temperature_ == 0.0
    assert set(plain.shrink_factors_) == {1.0}
    again = make_estimator(loss, posterior_sampling=False, grow_policy=grow_policy, random_state=1).fit(X, y)
    assert_same_predictions(again, plain, X)


def test_plain_boosting_of_one_binary_column_by_hand():
    """eps = 1/2, lambda = 0: every iteration halves the residual mean of both sides."""
    x = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 1.0])[:, None]
    y = np.array([0.0, 2.0, 8.0, 12.0, 10.0, 10.0])
    model = SGLBRegressor(
        posterior_sampling=False,
        learning_rate=0.5,
        l2_regularization=0.0,
        min_samples_leaf=1,
        n_estimators=6,
        max_depth=1,
    ).fit(x, y)
    for k, stage in enumerate(model.staged_predict(x), start=1):
        np.testing.assert_allclose(stage, 7 + (np.where(x[:, 0] == 0, 1, 10) - 7) * (1 - 0.5**k), rtol=1e-6)


def test_plain_boosting_of_two_classes_by_hand():
    x = np.repeat([0.0, 1.0], 10)[:, None]
    y = np.repeat([0, 1, 0, 1], [8, 2, 2, 8])
    model = SGLBClassifier(
        posterior_sampling=False, learning_rate=0.5, l2_regularization=1.0, n_estimators=5, max_depth=1
    )
    margin = 0.0
    for stage in model.fit(x, y).staged_decision_function(x):
        margin -= 0.5 * (10 * expit(margin) - 8) / (10 + 1)
        np.testing.assert_allclose(stage, np.where(x[:, 0] == 0, -margin, margin), rtol=1e-5)


# ---- structure noise and leaf noise ----------------------------------------------------------------------------------


def eight_cells(n_per_cell=8):
    """Three binary columns whose order of importance no noise changes."""
    cells = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T.astype(float)
    X = np.repeat(cells, n_per_cell, axis=0)
    return X, X @ [1000.0, 100.0, 10.0]


def test_leaf_noise_is_independent_of_the_seed_of_another_fit_and_normal():
    X, y = eight_cells()
    eps, l2, T = 0.1, 0.0, 1.0
    params = {
        "n_estimators": 1, "max_depth": 3, "l2_regularization": l2, "noise_variance": 1.0, "diffusion_temperature": T,
        "learning_rate": eps, "min_samples_leaf": 1, "prior_split_rate": 0,
    }  # fmt: skip
    one, other = (
        [SGLBRegressor(**params, random_state=s).fit(X, y) for s in seeds] for seeds in (range(130), range(130, 260))
    )
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a._forest.feature, b._forest.feature)
        np.testing.assert_array_equal(a._forest.table, b._forest.table)
    sigma, D = math.sqrt(2 / (eps * T)), 8 + l2
    difference = np.concatenate(
        [(a._forest.leaf_value - b._forest.leaf_value)[:, 0] for a, b in zip(one, other, strict=True)]
    )
    standardised = difference * math.sqrt(D) / (eps * sigma * math.sqrt(2))
    assert len(standardised) == 1040
    assert stats.kstest(standardised, "norm").pvalue > 0.01
    assert abs(standardised.mean()) < 4 / math.sqrt(1040)
    assert standardised.std() == pytest.approx(1, abs=4 / math.sqrt(2 * 1040))


def test_structure_draws_are_independent_of_leaf_draws():
    n = 20_000
    halves = np.random.default_rng(0).integers(0, 2**32, size=(2, n), dtype=np.uint32)
    rows, leaves = np.empty(n, dtype=np.float32), np.empty(n)
    row_normals(*halves, 7, STREAM_STRUCT, 0, 0, rows)
    leaf_normals(7, STREAM_LEAF, 0, 0, leaves)
    assert abs(np.corrcoef(rows, leaves)[0, 1]) < 5 / math.sqrt(n)
    for draws in (rows, leaves):
        assert stats.kstest(draws.astype(float), "norm").pvalue > 0.01


def test_structure_noise_decides_between_equal_columns():
    """Which of two equally good columns splits first depends on the noise alone; without noise it is the first."""
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 10)
    y = X.sum(axis=1)
    params = {"n_estimators": 1, "max_depth": 1, "l2_regularization": 0.0, "posterior_sampling": False}

    def first_columns(**noise):
        fits = [SGLBRegressor(**params, **noise, random_state=seed).fit(X, y) for seed in range(60)]
        return sum(int(fit._forest.feature[0]) for fit in fits)

    assert 10 < first_columns(langevin=True, noise_variance=1.0, diffusion_temperature=1.0) < 50
    assert first_columns(langevin=False) == 0


def test_structure_noise_of_a_row_grows_with_the_root_of_its_weight():
    """On a column without signal the gain of the only split is noise^2 (1 / W1 + 1 / W2), weights or not."""
    n, sigma2 = 40, 2 / 0.1
    X, y = np.repeat([0.0, 1.0], n // 2)[:, None], np.zeros(n)
    params = {"n_estimators": 1, "max_depth": 1, "l2_regularization": 0.0, "noise_variance": 1.0, "prior_split_rate": 0}
    for weight in (None, np.full(n, 3.0), np.full(n, 2.5)):
        fits = [
            SGLBRegressor(**params, diffusion_temperature=1.0, random_state=s).fit(X, y, weight) for s in range(1000)
        ]
        gain = np.array([fit._forest.gain.sum() for fit in fits])
        # A difference of two means with unit information: sigma^2 times a chi-square of one degree of freedom.
        assert stats.kstest(gain / sigma2, stats.chi2(1).cdf).pvalue > 0.01


@pytest.mark.parametrize(("weight", "l2"), [(None, 0.0), (None, 15.0), (3.0, 0.0)])
def test_size_of_leaf_noise(weight, l2):
    """2000 seeds, one iteration: the leaf has variance 2 eps / (T D)."""
    n, eps, T = 20, 0.2, 5.0
    rows = make_rows(np.zeros((n, 1)), np.zeros(n), None if weight is None else np.full(n, weight))
    values = [run_chain(rows, 1, eps=eps, T=T, l2=l2, seed=seed)[0, 0, 0] for seed in range(2000)]
    D = n * (weight or 1) + l2
    # Four standard errors of a variance over 2000 draws.
    assert np.var(values) == pytest.approx(2 * eps / (T * D), rel=0.13)
    assert abs(np.mean(values)) < 4.5 * math.sqrt(2 * eps / (T * D) / 2000)


# ---- another implementation ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_chain_variance_equals_catboosts():
    catboost = pytest.importorskip("catboost")
    rows = two_leaf_rows()
    x, y = np.repeat([0.0, 1.0], 100)[:, None], rows.y
    n, eps = 20_500, 0.1
    theirs = catboost.CatBoostRegressor(
        loss_function="RMSE", iterations=n, learning_rate=eps, langevin=True, diffusion_temperature=1,
        model_shrink_rate=0.0025, leaf_estimation_method="Gradient", leaf_estimation_iterations=1, random_strength=0,
        l2_leaf_reg=0, depth=1, boost_from_average=False, bootstrap_type="No", random_seed=0, verbose=False,
        allow_writing_files=False, thread_count=2, score_function="L2",
    ).fit(x, y)  # fmt: skip
    points = np.array([[0.0], [1.0]])
    # Prefixes of the final trees carry the later shrinkage; divide it out.
    factor = (1 - 0.0025 * eps) ** (np.arange(1, n + 1) - n)
    theirs = np.array(list(theirs.staged_predict(points)))[500:] * factor[500:, None]
    ours = SGLBRegressor(
        n_estimators=n, learning_rate=eps, posterior_sampling=False, langevin=True, model_shrink_rate=0.0025,
        l2_regularization=0.0, noise_variance=1.0, diffusion_temperature=1.0, max_depth=1, random_state=0,
    ).fit(x, y)  # fmt: skip
    ours = np.array(list(ours.staged_predict(points)))[500:]
    assert theirs.var(axis=0).mean() == pytest.approx(ours.var(axis=0).mean(), rel=0.08)
    np.testing.assert_allclose(theirs.mean(axis=0), ours.mean(axis=0), atol=0.03)
