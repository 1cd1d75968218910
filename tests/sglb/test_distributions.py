"""Predicted distributions and uncertainties of fitted regressors with losses of whole distributions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skboost import SGLBRegressor
from skboost.distributions import Gamma, Laplace, LogNormal, Mixture, NegativeBinomial, Normal, Poisson
from skboost.sglb import _support

FAMILIES = {
    "gaussian": Normal,
    "normal": Normal,
    "lognormal": LogNormal,
    "laplace": Laplace,
    "gamma_distribution": Gamma,
    "poisson": Poisson,
    "poisson_distribution": Poisson,
    "negative_binomial": NegativeBinomial,
}
TWO_OUTPUTS = [name for name, family in FAMILIES.items() if family is not Poisson]


def make_data(loss, n=300, seed=0):
    """Return rows whose mean follows the first column and whose spread follows the second."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    mean, spread = np.exp(1 + X[:, 0]), np.exp(X[:, 1])
    draw = {
        Normal: lambda: rng.normal(mean, spread),
        Laplace: lambda: rng.laplace(mean, spread),
        LogNormal: lambda: rng.lognormal(np.log(mean), 0.4 * spread),
        Gamma: lambda: rng.gamma(2 * spread, mean / (2 * spread)),
        NegativeBinomial: lambda: rng.poisson(rng.gamma(2 * spread, mean / (2 * spread))).astype(float),
        Poisson: lambda: rng.poisson(mean).astype(float),
    }
    return X, draw[FAMILIES[loss]]()


def small(loss, **params):
    params = {"n_estimators": 40, "max_depth": 3, "min_samples_leaf": 10, "random_state": 0, "n_jobs": 1, **params}
    return SGLBRegressor(loss=loss, **params)


@pytest.mark.parametrize("loss", FAMILIES)
@pytest.mark.parametrize("averaging", ["last", "mean"])
def test_the_distribution_of_the_prediction(loss, averaging):
    X, y = make_data(loss)
    model = small(loss, averaging=averaging).fit(X, y)
    predicted = model.predict_distribution(X)
    assert type(predicted) is FAMILIES[loss]
    assert len(predicted) == len(y)
    assert_array_equal(predicted.mean, model.predict(X))


@pytest.mark.parametrize("loss", FAMILIES)
def test_the_mixture_of_the_members(loss):
    X, y = make_data(loss)
    model = small(loss).fit(X, y)
    mixture = model.predict_distribution(X, n_members=5)
    assert type(mixture) is Mixture
    assert type(mixture.components) is FAMILIES[loss]
    assert mixture.n_members == 5
    assert_array_equal(mixture.components.mean, model.predict_virtual_ensembles(X, 5))
    if loss != "poisson":
        _, variances = model.predict_virtual_ensembles(X, 5, return_variance=True)
        assert_array_equal(mixture.components.variance, variances)
        result = model.predict_uncertainty(X, 5)
        seen = result.support == 1
        assert seen.mean() > 0.3
        assert_allclose(mixture.mean[seen], result.mean[seen], rtol=1e-12)
        assert_allclose(mixture.knowledge[seen], result.knowledge[seen], rtol=1e-8, atol=1e-14)
        assert_allclose(mixture.variance[seen], result.total[seen], rtol=1e-10)
    else:
        assert model.predict_uncertainty(X, 5).data is None


@pytest.mark.parametrize("loss", TWO_OUTPUTS)
@pytest.mark.parametrize("leaf_estimation", ["gradient", "newton"])
def test_mean_and_spread_are_found(loss, leaf_estimation):
    """Better than the best constant distribution on new rows, and the spread follows its column."""
    (X, y), (X_test, y_test) = make_data(loss, 2000), make_data(loss, 1000, seed=1)
    model = small(loss, n_estimators=80, min_samples_leaf=40, leaf_estimation=leaf_estimation).fit(X, y)
    predicted = model.predict_distribution(X_test)
    constant = model._loss.distribution(np.repeat(model._record.base_score[None], 1000, axis=0))
    gain = predicted.logpdf(y_test) - constant.logpdf(y_test)
    assert gain.mean() > 4 * gain.std() / np.sqrt(1000)
    # Scales, shapes and sizes all grow with the second column.
    second = list(predicted.parameters.values())[1]
    correlation = np.corrcoef(np.log(second), X_test[:, 1])[0, 1]
    assert correlation > (0.5 if loss == "negative_binomial" else 0.8)
    assert (predicted.crps(y_test) - constant.crps(y_test)).mean() < 0


@pytest.mark.parametrize("loss", [name for name in FAMILIES if name != "poisson"])
def test_uncertainty_adds_up(loss):
    X, y = make_data(loss)
    model = small(loss, prior_split_rate=0.5).fit(X, y)
    far = np.concatenate([X[:50], 5 * np.ones((5, 3))])
    result = model.predict_uncertainty(far, n_members=5)
    assert_array_equal(result.total, result.data + result.knowledge)
    assert (result.knowledge >= 0).all()
    assert (result.data > 0).all()
    assert result.support[-1] < 1


def test_offsets_of_logs_have_the_moments_of_log_normal_factors():
    """Against draws: a member's mean times exp(z), with the variance that belongs to it."""
    rng = np.random.default_rng(0)
    means, size, v = rng.gamma(3.0, 1.0, (4, 2)), 2.5, np.array([0.3, 0.0])
    parts = _support.distribution_of_log(means, means + means**2 / size, v, has_mean=True)
    moved = means[:, None] * np.exp(np.sqrt(v) * rng.normal(size=(200_000, 2)))
    assert_allclose(parts.mean, moved.mean(axis=(0, 1)), rtol=0.01)
    assert_allclose(parts.knowledge, moved.var(axis=(0, 1)), rtol=0.03)
    assert_allclose(parts.data, (moved + moved**2 / size).mean(axis=(0, 1)), rtol=0.02)
    assert_array_equal(parts.total, parts.data + parts.knowledge)
    quadratic = _support.distribution_of_log(means, means**2 / size, v, has_mean=False)
    assert_allclose(quadratic.data, (moved**2 / size).mean(axis=(0, 1)), rtol=0.02)


@pytest.mark.parametrize("loss", ["squared_error", "gamma", "tweedie", "absolute_error"])
def test_losses_without_a_distribution_are_refused_by_name(loss):
    X, y = make_data("gamma_distribution", 60)
    model = small(loss, n_estimators=4).fit(X, y)
    with pytest.raises(ValueError, match=f"predict_distribution needs .* got loss='{loss}'"):
        model.predict_distribution(X)


def test_counts_far_above_the_predictions_do_not_throw_the_model_about():
    """One huge count in a leaf of its own: steps of logs of means and sizes are bounded."""
    X, y = make_data("negative_binomial")
    y[7] = 1e6
    model = small("negative_binomial", min_samples_leaf=1, n_estimators=100).fit(X, y)
    predicted = model.predict_distribution(X)
    assert np.isfinite(predicted.logpdf(y)).all()
    assert predicted.mean.max() < 1e8


@pytest.mark.parametrize("loss", ["lognormal", "laplace", "gamma_distribution", "negative_binomial"])
def test_warm_starts_pickles_and_threads_change_nothing(loss):
    X, y = make_data(loss)
    whole = small(loss).fit(X, y)
    part = small(loss, n_estimators=15, warm_start=True, n_jobs=2).fit(X, y)
    part.set_params(n_estimators=40).fit(X, y)
    assert_array_equal(part.predict_distribution(X).logpdf(y), whole.predict_distribution(X).logpdf(y))


@pytest.mark.parametrize("loss", ["lognormal", "laplace", "gamma_distribution", "negative_binomial"])
def test_weights_are_repetitions_and_order_does_not_matter(loss):
    X, y = make_data(loss, 120)
    rng = np.random.default_rng(3)
    weight, order = rng.integers(0, 4, 120), rng.permutation(120)
    shown = small(loss).fit(X, y, sample_weight=weight).predict_distribution(X)
    again = small(loss).fit(X[order], y[order], sample_weight=weight[order]).predict_distribution(X)
    repeated = small(loss).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict_distribution(X)
    for other in (again, repeated):
        for name, values in shown.parameters.items():
            assert_array_equal(values, other.parameters[name])
