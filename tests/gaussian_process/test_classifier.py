"""The estimator: parameters, limits, several classes, weights, members, persistence, agreement of its methods."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from gp_problems import difference, two_features
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Kernel,
    PairwiseKernel,
    WhiteKernel,
)
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import LaplaceGPClassifier, Uncertainty
from skboost.gaussian_process._evidence import Problem

KERNEL = 4.0 * RBF(0.8)
SETTINGS = [{"link": "probit"}, {"link": "logit"}, {"approximation": "ep"}]
ALL = pytest.mark.parametrize("setting", SETTINGS, ids=["probit", "logit", "ep"])


def fitted(n=40, kernel=KERNEL, optimizer=None, **params):
    return LaplaceGPClassifier(kernel, optimizer=optimizer, **params).fit(*two_features(n))


def three_classes(n=45):
    X, _ = two_features(n, seed=3)
    return X, np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * np.sin(5 * X[:, 1]), [-0.5, 0.5])]


class Counting(RBF):
    """RBF that counts how often it is asked for a matrix."""

    calls = 0

    def __call__(self, *args, **kwargs):
        Counting.calls += 1
        return super().__call__(*args, **kwargs)


class Letters(Kernel):
    """Kernel of texts: the number of letters that two of them share, scaled."""

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        K = np.array([[len(set(a) & set(b)) for b in Y] for a in X], dtype=float)
        return (K, np.empty((len(X), len(Y), 0))) if eval_gradient else K

    def diag(self, X):
        return np.array([len(set(text)) for text in X], dtype=float)

    def is_stationary(self):
        return False

    @property
    def requires_vector_input(self):
        return False


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"approximation": "ep", "link": "logit"}, ["approximation='ep'", "link='logit'"]),
        ({"optimizer": None, "n_restarts_optimizer": 2}, ["n_restarts_optimizer=2", "optimizer=None"]),
        ({"kernel": CompoundKernel([RBF(), RBF()])}, ["kernel cannot be a CompoundKernel"]),
        ({"kernel": RBF(1.0, (1e-3, np.inf)), "n_restarts_optimizer": 1}, ["n_restarts_optimizer=1", "finite"]),
        ({"n_jobs": 0}, ["n_jobs == 0"]),
        ({"link": "cloglog"}, ["link"]),
        ({"tol": 0.0}, ["tol"]),
        ({"max_rows": 0}, ["max_rows"]),
        ({"multi_class": "one_vs_one"}, ["multi_class"]),
        ({"optimizer": "adam"}, ["optimizer"]),
    ],
)
def test_bad_parameters_are_refused_by_name(params, words):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the words are checked)
        LaplaceGPClassifier(**params).fit(*two_features(10))
    assert all(word in str(error.value) for word in words)


def test_row_limit_comes_before_the_gram_matrix():
    X, y = two_features(30)
    Counting.calls = 0
    with pytest.raises(ValueError, match=r"n=30 > max_rows=20 .*SGLBClassifier"):
        LaplaceGPClassifier(Counting(), max_rows=20).fit(X, y)
    assert Counting.calls == 0
    with pytest.raises(ValueError, match=r"n=51200 > max_rows=2000 \(about 147 GB\)"):
        LaplaceGPClassifier(1.0 * RBF()).fit(np.zeros((51200, 1)), np.arange(51200) % 2)
    LaplaceGPClassifier(Counting(), max_rows=30, optimizer=None).fit(X, y)
    assert Counting.calls > 0
    LaplaceGPClassifier(max_rows=None).fit(X, y)


def test_row_limit_counts_what_is_fitted():
    X, y = two_features(30)
    weights = np.where(np.arange(30) < 10, 3.0, 0.0)
    LaplaceGPClassifier(max_rows=10).fit(X, y, weights)
    with pytest.raises(ValueError, match="n=30 > max_rows=29"):
        LaplaceGPClassifier(max_rows=29, approximation="ep").fit(X, y, weights)


def test_joint_covariances_have_the_row_limit_too():
    model = fitted(20, max_rows=20)
    for method in (model.latent_covariance, model.predict_members):
        with pytest.raises(ValueError, match=rf"{method.__name__} needs .* n=21 > max_rows=20"):
            method(np.zeros((21, 2)))
    assert model.predict_proba(np.zeros((21, 2))).shape == (21, 2)


def test_bad_input_gets_the_errors_of_scikit_learn():
    X, y = two_features(20)
    with pytest.raises(ValueError, match="could not convert string to float"):
        LaplaceGPClassifier().fit(np.array([["a", "b"]] * 20), y)
    with pytest.raises(ValueError, match="contains NaN"):
        LaplaceGPClassifier().fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="Unknown label type"):
        LaplaceGPClassifier().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="one class only: 1"):
        LaplaceGPClassifier().fit(X, np.ones(20, dtype=int))
    with pytest.raises(ValueError, match="one class only: 0"):
        LaplaceGPClassifier().fit(X, y, sample_weight=1 - y)
    with pytest.raises(ValueError, match="X has 3 features, but LaplaceGPClassifier is expecting 2"):
        fitted().predict(np.zeros((2, 3)))
    for method in ("predict", "predict_proba", "predict_uncertainty", "latent_mean_and_variance", "predict_members"):
        with pytest.raises(NotFittedError):
            getattr(LaplaceGPClassifier(), method)(X)
    with pytest.raises(ValueError, match="n_members must be an integer"):
        fitted().predict_members(X, n_members=0)


def test_fractional_weights_do_not_go_with_expectation_propagation():
    X, y = two_features(20)
    with pytest.raises(ValueError, match=r"sample_weight must be whole numbers with approximation='ep'"):
        LaplaceGPClassifier(approximation="ep").fit(X, y, np.full(20, 0.5))


# ---- predictions -----------------------------------------------------------------------------------------------------


@ALL
def test_methods_agree(setting):
    X, _ = two_features(40)
    model = fitted(**setting)
    test = np.random.default_rng(5).normal(size=(50, 2), scale=2)
    mean, variance = model.latent_mean_and_variance(test)
    p = model.predict_proba(test)
    result = model.predict_uncertainty(test)
    assert isinstance(result, Uncertainty)
    assert result.support is None
    assert result.member_iterations is None
    assert_allclose(result.mean, p, rtol=1e-14)
    assert_array_equal(result.total, result.data + result.knowledge)
    assert_array_equal(model.predict(test), (mean > 0).astype(int))
    assert_array_equal(model.predict(test), p.argmax(axis=1))
    assert_allclose(model.predict_log_proba(test), np.log(p), rtol=1e-12, atol=1e-14)
    order = np.argsort(model.decision_function(test))
    assert (np.diff(p[order, 1]) >= 0).all()
    covariance = model.latent_covariance(test)
    assert_allclose(covariance.diagonal(), variance, rtol=1e-9, atol=1e-12)
    assert_allclose(covariance, covariance.T, atol=1e-12)
    assert np.linalg.eigvalsh(covariance).min() > -1e-12
    assert (variance <= 4.0 + 1e-12).all()
    K = model.kernel_(X)
    assert_allclose(model.L_ @ model.L_.T, np.eye(40) + np.sqrt(model.W_)[:, None] * K * np.sqrt(model.W_), atol=1e-12)
    assert_allclose(model.latent_mean_and_variance(X)[0], model.f_, rtol=1e-9, atol=1e-10)


def test_probit_probability_is_the_closed_form():
    model = fitted()
    test = np.random.default_rng(5).normal(size=(50, 2))
    mean, variance = model.latent_mean_and_variance(test)
    assert_allclose(model.predict_proba(test)[:, 1], ndtr(mean / np.sqrt(1 + variance)), rtol=1e-14)


@ALL
def test_far_away_the_prior_returns(setting):
    result = fitted(**setting).predict_uncertainty([[1e3, 1e3]])
    mean, variance = fitted(**setting).latent_mean_and_variance([[1e3, 1e3]])
    assert mean[0] == 0.0
    assert variance[0] == pytest.approx(4.0, abs=1e-12)
    assert_array_equal(result.mean[0], [0.5, 0.5])
    expected = 0.231138302111 if setting.get("link") == "logit" else 0.373262125205
    assert result.knowledge[0] == pytest.approx(expected, abs=1e-11)


def test_zero_latent_variance_is_no_division_by_zero():
    X, y = two_features(20)
    model = LaplaceGPClassifier(DotProduct(sigma_0=0.0), optimizer=None).fit(X, y)
    result = model.predict_uncertainty([[0.0, 0.0]])
    assert_array_equal(result.mean, [[0.5, 0.5]])
    assert result.knowledge[0] == 0.0


def test_kernels_on_texts():
    words, y = np.array(["abc", "abd", "bcd", "xyz", "xyw", "yzw"]), [0, 0, 0, 1, 1, 1]
    model = LaplaceGPClassifier(Letters()).fit(words, y)
    assert_array_equal(model.predict(["ab", "zw"]), [0, 1])
    assert model.predict_proba(["ab"]).shape == (1, 2)
    three = LaplaceGPClassifier(Letters()).fit(words, list("aabbcc"))
    assert three.predict_uncertainty(["ab", "zw"]).mean.shape == (2, 3)


def test_blocks_of_rows_change_nothing(monkeypatch):
    model, test = fitted(), np.random.default_rng(5).normal(size=(33, 2))
    whole = *model.latent_mean_and_variance(test), model.predict(test)
    monkeypatch.setattr("skboost.gaussian_process._averages.BLOCK_VALUES", 200)
    for one, other in zip(whole, (*model.latent_mean_and_variance(test), model.predict(test)), strict=True):
        assert_allclose(other, one, rtol=1e-12, atol=1e-14)


def test_a_kernel_that_is_none_warns():
    class Wrong(RBF):
        def diag(self, X):
            return np.full(len(X), 0.01)

    model = LaplaceGPClassifier(Wrong(), optimizer=None).fit(*two_features(20))
    with pytest.warns(UserWarning, match="positive semi-definite"):
        model.predict_proba(np.zeros((1, 2)))


# ---- evidence --------------------------------------------------------------------------------------------------------


def test_default_kernel_is_fixed():
    model = LaplaceGPClassifier().fit(*two_features(20))
    assert model.kernel_ == ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    assert model.kernel_.n_dims == 0


@pytest.mark.parametrize("setting", SETTINGS, ids=["probit", "logit", "ep"])
def test_search_finds_a_maximum_within_bounds(setting):
    X, y = two_features(60)
    kernel = ConstantKernel(1.0, (0.1, 20.0)) * RBF(1.0, (0.1, 10.0))
    model = LaplaceGPClassifier(kernel, **setting).fit(X, y)
    theta = model.kernel_.theta
    best, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert best == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-11)
    assert_allclose(gradient, 0.0, atol=1e-4)
    for step in 0.1 * np.vstack([np.eye(2), -np.eye(2)]):
        assert model.log_marginal_likelihood(theta + step) < best
    assert clone(kernel) == kernel
    assert_array_equal(kernel.theta, [0.0, 0.0])


def test_log_marginal_likelihood_and_the_kernel():
    model = fitted(kernel=2.0 * RBF(0.7), optimizer="fmin_l_bfgs_b")
    before, theta = model.kernel_.theta.copy(), np.log([3.0, 0.5])
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert_array_equal(model.kernel_.theta, before)
    assert_allclose(gradient, difference(model.log_marginal_likelihood, theta, 1e-5), atol=1e-8)
    assert model.log_marginal_likelihood() == model.log_marginal_likelihood_value_
    assert model.log_marginal_likelihood(theta, clone_kernel=False) == pytest.approx(value, abs=1e-13)
    assert_array_equal(model.kernel_.theta, theta)
    with pytest.raises(ValueError, match="theta!=None"):
        model.log_marginal_likelihood(eval_gradient=True)
    with pytest.raises(ValueError, match=r"theta must have the shape \(2,\)"):
        model.log_marginal_likelihood([0.0])


def test_callable_optimizer_gets_what_it_needs():
    seen = []

    def optimizer(obj_func, initial_theta, bounds):
        value, gradient = obj_func(initial_theta)
        assert obj_func(initial_theta, eval_gradient=False) == pytest.approx(value, abs=1e-12)
        seen.append((initial_theta.copy(), bounds.shape, gradient.shape))
        return initial_theta + 0.25, value - 1.0

    kernel = 2.0 * RBF(0.7)
    model = LaplaceGPClassifier(kernel, optimizer=optimizer).fit(*two_features(20))
    assert_allclose(model.kernel_.theta, kernel.theta + 0.25)
    assert_array_equal(seen[0][0], kernel.theta)
    assert seen[0][1:] == ((2, 2), (2,))


@pytest.mark.filterwarnings("ignore:The optimum of the hyper-parameter")
def test_bounds_that_leave_nothing_to_search():
    X, y = two_features(40)
    model = LaplaceGPClassifier(RBF(0.5, (0.5, 0.5))).fit(X, y)
    fixed = LaplaceGPClassifier(RBF(0.5, "fixed")).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), fixed.predict_proba(X))


@pytest.mark.parametrize("approximation", ["laplace", "ep"])
def test_kernels_that_are_none_are_named(approximation):
    X, y = two_features(80)
    kernel = PairwiseKernel(metric="sigmoid", gamma=3.0, gamma_bounds="fixed")
    with pytest.raises(np.linalg.LinAlgError, match="the kernel is not positive semi-definite"):
        LaplaceGPClassifier(kernel, approximation=approximation).fit(X, y)


def test_restarts_are_drawn_within_the_bounds_and_the_best_wins():
    starts = []

    def optimizer(obj_func, initial_theta, bounds):
        starts.append(initial_theta.copy())
        return initial_theta, obj_func(initial_theta, eval_gradient=False)

    kernel = ConstantKernel(1.0, (0.5, 5.0)) * RBF(1.0, (0.1, 3.0))
    model = LaplaceGPClassifier(kernel, optimizer=optimizer, n_restarts_optimizer=30, random_state=0)
    model.fit(*two_features(20))
    drawn = np.array(starts[1:])
    assert drawn.shape == (30, 2)
    low, high = kernel.bounds.T
    assert ((drawn >= low) & (drawn <= high)).all()
    # Uniform on the log scale: both halves of each range are met.
    assert (((drawn > (low + high) / 2).mean(axis=0) > 0.2) & ((drawn > (low + high) / 2).mean(axis=0) < 0.8)).all()
    values = [model.log_marginal_likelihood(theta) for theta in starts]
    assert_array_equal(model.kernel_.theta, starts[int(np.argmax(values))])


def test_warnings_of_a_search():
    X, y = two_features(40)
    with pytest.warns(ConvergenceWarning, match=r"k2__length_scale lies close to the upper bound 0\.2"):
        LaplaceGPClassifier(ConstantKernel(1.0, "fixed") * RBF(0.1, (0.05, 0.2))).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="not converged in max_iter_predict=1"):
        model = LaplaceGPClassifier(KERNEL, optimizer=None, max_iter_predict=1).fit(X, y)
    assert not model.converged_
    separable = np.linspace(-1, 1, 20)[:, None]
    kernel = ConstantKernel(1.0, (1.0, 400.0)) * RBF(1.0, "fixed")
    with (
        pytest.warns(ConvergenceWarning, match="upper bound 400"),
        pytest.warns(UserWarning, match=r"prior variance 400.*approximation='ep'"),
    ):
        LaplaceGPClassifier(kernel).fit(separable, separable[:, 0] > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LaplaceGPClassifier(400.0 * RBF(1.0), optimizer=None).fit(separable, separable[:, 0] > 0)


@pytest.mark.parametrize("setting", [{"link": "probit"}, {"approximation": "ep"}], ids=["laplace", "ep"])
def test_warm_start_gives_the_same_model_in_fewer_steps(setting, monkeypatch):
    steps = []

    def counted(*args, method=Problem.posterior, **kwargs):
        posterior = method(*args, **kwargs)
        steps.append(posterior.n_iter)
        return posterior

    monkeypatch.setattr(Problem, "posterior", counted)
    cold, n_cold = fitted(optimizer="fmin_l_bfgs_b", **setting), sum(steps)
    steps.clear()
    warm, n_warm = fitted(optimizer="fmin_l_bfgs_b", warm_start=True, **setting), sum(steps)
    assert n_warm < 0.9 * n_cold
    assert_allclose(warm.kernel_.theta, cold.kernel_.theta, rtol=0, atol=1e-4)
    assert warm.log_marginal_likelihood_value_ == pytest.approx(cold.log_marginal_likelihood_value_, abs=1e-8)


# ---- several classes -------------------------------------------------------------------------------------------------


@ALL
def test_several_classes(setting):
    X, y = three_classes()
    model = LaplaceGPClassifier(KERNEL, optimizer=None, **setting).fit(X, y)
    test = np.random.default_rng(5).normal(size=(30, 2))
    p, scores = model.predict_proba(test), model.decision_function(test)
    assert_array_equal(model.classes_, ["a", "b", "c"])
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    assert_array_equal(model.predict(test), model.classes_[p.argmax(axis=1)])
    assert_array_equal(model.predict(test), model.classes_[scores.argmax(axis=1)])
    assert_allclose(model.predict_log_proba(test), np.log(p), rtol=1e-12, atol=1e-14)
    one = np.stack([part.predict_proba(test)[:, 1] for part in model.estimators_], axis=1)
    assert_allclose(p, one / one.sum(axis=1, keepdims=True), rtol=1e-14)
    mean, variance = model.latent_mean_and_variance(test)
    assert mean.shape == variance.shape == (30, 3)
    for k, label in enumerate(model.classes_):
        alone = LaplaceGPClassifier(KERNEL, optimizer=None, **setting).fit(X, y == label)
        assert_allclose(alone.latent_mean_and_variance(test), (mean[:, k], variance[:, k]), rtol=1e-10, atol=1e-12)
        assert_array_equal(model.estimators_[k].predict(test), alone.predict(test).astype(int))
    assert model.latent_covariance(test).shape == (3, 30, 30)
    result = model.predict_uncertainty(test)
    assert np.abs(result.mean - p).max() < 0.06
    assert_array_equal(result.total, result.data + result.knowledge)
    assert (result.total <= np.log(3)).all()
    assert not hasattr(model, "f_")


def test_evidence_of_several_classes():
    X, y = three_classes()
    kernel = ConstantKernel(1.0, (0.1, 10)) * RBF(1.0, (0.1, 10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LaplaceGPClassifier(kernel).fit(X, y)
    assert isinstance(model.kernel_, CompoundKernel)
    assert model.kernel_.theta.shape == (6,)
    values = [part.log_marginal_likelihood_value_ for part in model.estimators_]
    assert model.log_marginal_likelihood_value_ == pytest.approx(np.mean(values), rel=1e-14)
    assert model.log_marginal_likelihood(model.kernel_.theta) == pytest.approx(np.mean(values), rel=1e-12)
    for theta in (np.log([2.0, 0.7]), np.log([2.0, 0.7, 1.0, 1.2, 0.5, 0.6])):
        value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
        assert value == pytest.approx(model.log_marginal_likelihood(theta), rel=1e-13)
        assert_allclose(gradient, difference(model.log_marginal_likelihood, theta, 1e-5), atol=1e-8)
    with pytest.raises(ValueError, match=r"shape \(2,\) or \(6,\)"):
        model.log_marginal_likelihood(np.zeros(3))


def test_iris():
    X, y = load_iris(return_X_y=True)
    model = LaplaceGPClassifier(10.0 * RBF(1.0), optimizer=None)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    assert cross_val_score(model, X, y, cv=folds).mean() == pytest.approx(0.96, abs=1e-9)
    assert -cross_val_score(model, X, y, cv=folds, scoring="neg_log_loss").mean() == pytest.approx(0.210, abs=5e-4)


def test_number_of_threads_changes_no_bit():
    X, y = three_classes()
    kernel = ConstantKernel(1.0, (0.1, 50)) * RBF(1.0, (0.05, 10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [
            LaplaceGPClassifier(kernel, n_restarts_optimizer=1, random_state=3, n_jobs=n).fit(X, y)
            for n in (None, 2, 3)
        ]
    for model in models[1:]:
        assert_array_equal(model.kernel_.theta, models[0].kernel_.theta)
        assert_array_equal(model.predict_proba(X), models[0].predict_proba(X))


def test_refit_with_another_number_of_classes_leaves_no_mixture():
    X, y = three_classes()
    model = LaplaceGPClassifier(KERNEL, optimizer=None)
    two = model.fit(X, y == "a").predict_proba(X)
    assert model.fit(X, y).predict_proba(X).shape == (45, 3)
    assert not hasattr(model, "L_")
    assert_array_equal(model.fit(X, y == "a").predict_proba(X), two)
    assert not hasattr(model, "estimators_")


# ---- weights ---------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_copies_and_zero_is_absence(setting, n_classes):
    X, y = two_features(30) if n_classes == 2 else three_classes(30)
    weights = np.random.default_rng(1).integers(0, 4, 30)
    rows = np.repeat(np.arange(30), weights)
    test = np.random.default_rng(5).normal(size=(20, 2))
    weighted = LaplaceGPClassifier(KERNEL, optimizer=None, **setting).fit(X, y, weights)
    copies = LaplaceGPClassifier(KERNEL, optimizer=None, **setting).fit(X[rows], y[rows])
    assert_allclose(weighted.predict_proba(test), copies.predict_proba(test), rtol=0, atol=1e-11)
    assert weighted.log_marginal_likelihood_value_ == pytest.approx(copies.log_marginal_likelihood_value_, rel=1e-11)


def test_weights_hold_in_the_evidence_and_the_search():
    X, y = two_features(30)
    weights = np.random.default_rng(1).integers(1, 4, 30)
    rows = np.repeat(np.arange(30), weights)
    kernel = ConstantKernel(1.0, (0.1, 20)) * RBF(1.0)
    weighted, copies = LaplaceGPClassifier(kernel).fit(X, y, weights), LaplaceGPClassifier(kernel).fit(X[rows], y[rows])
    assert_allclose(weighted.kernel_.theta, copies.kernel_.theta, atol=1e-4)
    theta = np.log([3.0, 0.5])
    one, other = (model.log_marginal_likelihood(theta, eval_gradient=True) for model in (weighted, copies))
    assert one[0] == pytest.approx(other[0], rel=1e-12)
    assert_allclose(one[1], other[1], rtol=1e-10)


def test_weights_of_one_are_no_weights():
    X, y = two_features(30)
    one, other = (LaplaceGPClassifier().fit(X, y, weights) for weights in (None, np.ones(30)))
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))


# ---- members ---------------------------------------------------------------------------------------------------------


def test_members_have_the_law_of_the_posterior():
    model, test = fitted(link="logit"), np.random.default_rng(5).normal(size=(5, 2), scale=1.5)
    members = model.predict_members(test, n_members=20000)
    assert members.shape == (20000, 5, 2)
    assert_allclose(members.sum(axis=2), 1.0, rtol=1e-14)
    assert_allclose(members.mean(axis=0), model.predict_proba(test), atol=0.01)
    f = np.log(members[:, :, 1]) - np.log(members[:, :, 0])
    mean, _ = model.latent_mean_and_variance(test)
    assert_allclose(f.mean(axis=0), mean, atol=0.06)
    assert_allclose(np.cov(f.T), model.latent_covariance(test), atol=0.15)
    # Mutual information of the members is the knowledge.
    entropy = -np.sum(members * np.log(members), axis=2).mean(axis=0)
    result = model.predict_uncertainty(test)
    assert_allclose(entropy, result.data, atol=0.01)


def test_members_by_seed_and_at_equal_rows():
    model, test = fitted(), np.array([[0.1, 0.2], [0.1, 0.2], [0.5, -1.0]])
    one = model.predict_members(test, 4)
    assert_array_equal(model.predict_members(test, 4, random_state=0), one)
    assert not np.allclose(model.predict_members(test, 4, random_state=1), one)
    assert_allclose(one[:, 0], one[:, 1], atol=1e-6)
    X, y = three_classes()
    members = LaplaceGPClassifier(KERNEL, optimizer=None).fit(X, y).predict_members(X[:7], 500)
    assert members.shape == (500, 7, 3)
    assert_allclose(members.sum(axis=2), 1.0, rtol=1e-13)


# ---- persistence and composition -------------------------------------------------------------------------------------


@ALL
def test_pickle_copy_clone_and_refit(setting):
    X, y = two_features(30)
    kernel = ConstantKernel(1.0, (0.1, 20)) * RBF(1.0, (0.1, 10))
    model = LaplaceGPClassifier(kernel, n_restarts_optimizer=1, random_state=0, **setting).fit(X, y)
    expected = model.predict_uncertainty(X)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), clone(model).fit(X, y), model.fit(X, y)):
        result = other.predict_uncertainty(X)
        assert_array_equal(result.mean, expected.mean)
        assert_array_equal(result.knowledge, expected.knowledge)
        assert other.log_marginal_likelihood(np.zeros(2)) == model.log_marginal_likelihood(np.zeros(2))


def test_copy_of_the_training_rows():
    X, y = two_features(20)
    assert not np.shares_memory(LaplaceGPClassifier().fit(X, y).X_train_, X)
    assert np.shares_memory(LaplaceGPClassifier(copy_X_train=False).fit(X, y).X_train_, X)


def test_composition():
    X, y = two_features(60)
    frame = pd.DataFrame(X, columns=["a", "b"])
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LaplaceGPClassifier(optimizer=None)),
        {"laplacegpclassifier__kernel": [RBF(0.1), RBF(1.0)], "laplacegpclassifier__link": ["probit", "logit"]},
        scoring="neg_log_loss",
        cv=3,
    ).fit(frame, y)
    assert search.best_params_["laplacegpclassifier__kernel"] == RBF(1.0)
    model = LaplaceGPClassifier().fit(frame, y)
    assert_array_equal(model.feature_names_in_, ["a", "b"])
    nested = LaplaceGPClassifier(2.0 * RBF(1.0) + WhiteKernel(0.1)).set_params(kernel__k2__noise_level=0.3)
    assert nested.kernel.k2.noise_level == 0.3


def test_a_failed_fit_leaves_the_last_model():
    X = np.linspace(0, 1, 20)[:, None] * [1, 2]
    y = (X[:, 0] > 0.5).astype(int)
    model = LaplaceGPClassifier(optimizer=None).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="class"):
        model.fit(X[:, :1], np.zeros(20))
    np.testing.assert_array_equal(model.predict_proba(X), before)
