"""Compiled losses against their definitions, and the exactness of their means."""

import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import losses as oracle

import skboost
from skboost._engine import losses

KINDS = {
    "squared_error": (0, 1),
    "poisson": (1, 1),
    "binary": (2, 1),
    "multinomial": (3, 4),
    "gaussian": (4, 2),
    "gamma": (5, 1),
    "tweedie": (6, 1),
}
ONE_SECOND_DERIVATIVE = [name for name in KINDS if name != "gaussian"]
FLOAT_EPS = np.finfo(np.float32).eps


def engine_loss(name, n_outputs=None, power=1.5):
    kind, outputs = KINDS[name]
    params = (power,) if name == "tweedie" else ()
    return SimpleNamespace(kind=kind, n_outputs=n_outputs or outputs, params=params)


def make_rows(name, n, seed=0, spread=2.0, n_outputs=None):
    """Return (loss, y, score, base) with targets in the domain of the loss."""
    rng = np.random.default_rng([seed, n])
    loss = engine_loss(name, n_outputs)
    targets = {
        "squared_error": rng.normal,
        "poisson": lambda size: rng.poisson(2.0, size),
        "binary": lambda size: rng.integers(0, 2, size),
        "multinomial": lambda size: rng.integers(0, loss.n_outputs, size),
        "gaussian": rng.normal,
        "gamma": lambda size: rng.gamma(2.0, 1.5, size),
        "tweedie": lambda size: rng.gamma(2.0, 1.5, size) * rng.integers(0, 2, size),
    }
    y = targets[name](size=n).astype(np.float64)
    score = rng.normal(0, spread, (loss.n_outputs, n))
    return loss, y, score, rng.normal(size=loss.n_outputs)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("n", [1, 7, 64, 65, 1000, 1024])
def test_gradients_and_values_match_the_definition(name, n, seed):
    loss, y, score, base = make_rows(name, n, seed)
    value, grad, hess = oracle.ALL[name](y, score + base[:, None])
    got_grad, got_hess = losses.gradients(loss, y, score, base, True)
    assert got_grad.dtype == got_hess.dtype == np.float32
    assert_allclose(got_grad, grad, rtol=FLOAT_EPS, atol=1e-15)
    assert_allclose(got_hess, hess, rtol=FLOAT_EPS, atol=1e-15)
    assert_allclose(losses.values(loss, y, score, base), value, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("n", [1, 65, 1000])
def test_double_gradients_round_to_the_single_ones(name, n, seed):
    loss, y, score, base = make_rows(name, n, seed)
    _, grad, hess = oracle.ALL[name](y, score + base[:, None])
    got_grad, got_hess = losses.gradients64(loss, y, score, base, True)
    assert got_grad.dtype == got_hess.dtype == np.float64
    assert_allclose(got_grad, grad, rtol=1e-12, atol=1e-13)
    assert_allclose(got_hess, hess, rtol=1e-13, atol=1e-15)
    single_grad, single_hess = losses.gradients(loss, y, score, base, True)
    assert_array_equal(got_grad.astype(np.float32), single_grad)
    assert_array_equal(got_hess.astype(np.float32), single_hess)


@pytest.mark.parametrize("name", ONE_SECOND_DERIVATIVE)
def test_double_gradients_without_hessian(name):
    loss, y, score, base = make_rows(name, 300)
    grad, hess = losses.gradients64(loss, y, score, base, False)
    assert hess is None
    assert_array_equal(grad, losses.gradients64(loss, y, score, base, True)[0])


def test_double_gradients_of_the_gaussian_loss_need_its_metric():
    with pytest.raises(ValueError, match="only together with second derivatives"):
        losses.gradients64(*make_rows("gaussian", 3), False)


@pytest.mark.parametrize("name", ONE_SECOND_DERIVATIVE)
def test_double_gradients_are_central_differences_to_ten_digits(name, seed):
    """Richardson's extrapolation of central differences: the error is of the fourth order in the step."""
    loss, y, score, base = make_rows(name, 200, seed, spread=1.0)
    grad, _ = losses.gradients64(loss, y, score, base, True)
    for k in range(loss.n_outputs):
        slopes = []
        for step in (1e-3, 2e-3):
            shift = step * np.eye(loss.n_outputs)[k]
            up, down = (losses.values(loss, y, score, base + sign * shift) for sign in (1, -1))
            slopes.append((up - down) / (2 * step))
        assert_allclose(grad[k], (4 * slopes[0] - slopes[1]) / 3, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("power", [1.01, 1.3, 1.5, 1.9, 1.99])
def test_tweedie_of_any_power(power, seed):
    _, y, score, base = make_rows("tweedie", 300, seed)
    loss = engine_loss("tweedie", power=power)
    value, grad, hess = oracle.tweedie(y, score + base[:, None], power)
    got_grad, got_hess = losses.gradients64(loss, y, score, base, True)
    assert_allclose(got_grad, grad, rtol=1e-12, atol=1e-13)
    assert_allclose(got_hess, hess, rtol=1e-12)
    assert_allclose(losses.values(loss, y, score, base), value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie"])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_losses_of_log_means_continue_as_straight_lines(name, side):
    loss, y, _, _ = make_rows(name, 50)
    at = side * np.array([30.0, 31.0, 32.0, 40.0])
    grads, values = [], []
    for f in at:
        args = loss, y, np.full((1, 50), f), np.zeros(1)
        grads.append(losses.gradients64(*args, True)[0][0])
        values.append(losses.values(*args))
    for i in range(3):
        assert_array_equal(grads[i + 1], grads[0])
        rise = (values[i + 1] - values[i]) / (at[i + 1] - at[i])
        assert_allclose(rise, grads[0], rtol=1e-10, atol=1e-9 * np.abs(grads[0]).max())


@pytest.mark.parametrize("name", ONE_SECOND_DERIVATIVE)
def test_without_hessian_the_gradient_is_the_same(name):
    loss, y, score, base = make_rows(name, 300)
    grad, hess = losses.gradients(loss, y, score, base, False)
    assert hess is None
    assert_array_equal(grad, losses.gradients(loss, y, score, base, True)[0])


def test_gaussian_without_hessian_gives_the_natural_gradient_and_the_metric(seed):
    loss, y, score, base = make_rows("gaussian", 300, seed)
    _, grad, metric = oracle.gaussian_natural(y, score + base[:, None])
    got_grad, got_metric = losses.gradients(loss, y, score, base, False)
    assert_allclose(got_grad, grad, rtol=FLOAT_EPS, atol=1e-15)
    assert_allclose(got_metric, metric, rtol=FLOAT_EPS)


@pytest.mark.parametrize("name", KINDS)
def test_gradients_are_central_differences_of_the_values(name, seed):
    loss, y, score, base = make_rows(name, 200, seed, spread=1.0)
    grad, hess = losses.gradients(loss, y, score, base, True)
    for k in range(loss.n_outputs):
        step = np.zeros_like(score)
        step[k] = 1e-4
        up, down = (losses.values(loss, y, score + sign * step, base) for sign in (1, -1))
        here = losses.values(loss, y, score, base)
        assert_allclose(grad[k], (up - down) / 2e-4, rtol=1e-6, atol=2e-7)
        if name != "gaussian":
            assert_allclose(hess[k], (up - 2 * here + down) / 1e-8, rtol=2e-5, atol=1e-6)
            assert (hess[k] >= 0).all()


def test_gaussian_second_derivative_is_the_mean_observed_one():
    """Fisher information is the expectation of the observed second derivative under the predicted distribution."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    mean, log_sd, step = 0.7, -0.4, 1e-3
    y = mean + math.exp(log_sd) * nodes
    loss, base, score = engine_loss("gaussian"), np.array([mean, log_sd]), np.zeros((2, 20))
    _, fisher = losses.gradients(loss, y, score, base, True)
    for k in range(2):
        values = [losses.values(loss, y, score, base + shift * step * np.eye(2)[k]) for shift in (-1, 0, 1)]
        observed = (values[0] - 2 * values[1] + values[2]) / step**2
        assert_allclose(observed @ weights / weights.sum(), fisher[k, 0], rtol=1e-5)


def single(name, y, *score, hessian=True):
    """Return (value, gradient, second derivative) of one row."""
    loss = engine_loss(name, len(score))
    args = loss, np.array([float(y)]), np.array(score, dtype=float)[:, None], np.zeros(len(score))
    grad, hess = losses.gradients(*args, hessian)
    return losses.values(*args)[0], grad[:, 0], hess[:, 0]


def test_known_values():
    value, grad, hess = single("poisson", 2, 0.3)
    assert_allclose([value, grad[0], hess[0]], [0.749859, -0.650141, 1.349859], atol=1e-6)
    value, grad, hess = single("gamma", 2, 0.3)
    assert_allclose([value, grad[0], hess[0]], [1.781636, -0.481636, 1.481636], atol=1e-6)
    value, grad, hess = single("tweedie", 2, 0.3)
    assert_allclose([value, grad[0], hess[0]], [5.766500, -0.559582, 1.441625], atol=1e-6)
    assert_allclose(np.ravel(np.hstack(single("tweedie", 0, 0.0))), [2, 1, 0.5])
    value, grad, hess = single("binary", 1, -40.0)
    assert_allclose([value, grad[0], hess[0]], [40, -1, 4.248354e-18], rtol=1e-6)
    _, grad, hess = single("multinomial", 2, 1.0, 2.0, 3.0)
    assert_allclose(grad, [0.090031, 0.244728, -0.334759], atol=1e-6)
    assert_allclose(hess, [0.081925, 0.184836, 0.222695], atol=1e-6)
    value, grad, _ = single("gaussian", 1, 0.3, 0.2)
    assert_allclose(value + 0.5 * math.log(2 * math.pi), 1.283167, atol=1e-6)
    assert_allclose(grad, [-0.469224, 0.671543], atol=1e-6)
    _, natural, metric = single("gaussian", 1, 0.3, 0.2, hessian=False)
    assert_allclose(natural, [-0.7, 0.335772], atol=1e-6)
    assert_allclose(metric, [math.exp(-0.4), 2.0], rtol=1e-6)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", [30.0, 745.0, 1e4])
def test_extreme_scores_stay_finite(name, size):
    loss, y, _, _ = make_rows(name, 64)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], (loss.n_outputs, 64))
    for hessian in (False, True):
        grad, hess = losses.gradients(loss, y, size * signs, np.zeros(loss.n_outputs), hessian)
        assert np.isfinite(grad).all()
        assert hess is None or (np.isfinite(hess).all() and (hess >= 0).all())
    assert np.isfinite(losses.values(loss, y, size * signs, np.zeros(loss.n_outputs))).all()


def test_small_gradients_keep_their_digits():
    """Confident and right: the gradient is tiny, not the difference of two numbers near 1."""
    for f in (20.0, 36.9, 37.1, 80.0):
        assert_allclose(single("binary", 1, f)[1][0], -math.exp(-f), rtol=1e-6)
        assert_allclose(single("binary", 0, -f)[1][0], math.exp(-f), rtol=1e-6)
        assert_allclose(single("binary", 1, f)[0], math.log1p(math.exp(-f)), rtol=1e-14)


def test_swapping_labels_mirrors_the_binary_loss():
    loss, y, score, base = make_rows("binary", 500, spread=20)
    grad, hess = losses.gradients(loss, y, score, base, True)
    mirrored = losses.gradients(loss, 1 - y, -score, -base, True)
    assert_array_equal(grad, -mirrored[0])
    assert_array_equal(hess, mirrored[1])


def test_squared_error_ignores_a_common_shift_of_target_and_base():
    loss, y, score, _ = make_rows("squared_error", 200)
    y = np.round(y * 1024) / 1024
    near = losses.gradients(loss, y, score, np.array([0.5]), False)[0]
    far = losses.gradients(loss, y + 2.0**30, score, np.array([0.5 + 2.0**30]), False)[0]
    assert_array_equal(near, far)


def test_multinomial_ignores_a_shift_of_all_classes():
    loss, y, score, base = make_rows("multinomial", 200)
    score = np.round(score * 1024) / 1024
    near = losses.gradients(loss, y, score, 0 * base, True)
    far = losses.gradients(loss, y, score - 2.0**20, 0 * base, True)
    assert_array_equal(near, far)


@pytest.mark.parametrize("n_outputs", [2, 3, 64, 65, 150])
def test_any_number_of_classes(n_outputs):
    loss, y, score, base = make_rows("multinomial", 100, n_outputs=n_outputs)
    value, grad, hess = oracle.multinomial(y, score + base[:, None])
    got_grad, got_hess = losses.gradients(loss, y, score, base, True)
    assert_allclose(got_grad, grad, rtol=FLOAT_EPS, atol=1e-15)
    assert_allclose(got_hess, hess, rtol=FLOAT_EPS, atol=1e-15)
    assert_allclose(losses.values(loss, y, score, base), value, rtol=1e-13)
    assert_allclose(grad.sum(axis=0), 0, atol=1e-14)


@pytest.mark.parametrize("name", KINDS)
def test_a_row_knows_nothing_of_the_others(name):
    loss, y, score, base = make_rows(name, 200)
    whole = losses.gradients(loss, y, score, base, True)
    values = losses.values(loss, y, score, base)
    order = np.random.default_rng(2).permutation(200)[:77]
    part = losses.gradients(loss, y[order], np.ascontiguousarray(score[:, order]), base, True)
    assert_array_equal(whole[0][:, order], part[0])
    assert_array_equal(whole[1][:, order], part[1])
    assert_array_equal(values[order], losses.values(loss, y[order], np.ascontiguousarray(score[:, order]), base))


@pytest.mark.parametrize("name", KINDS)
def test_values_do_not_depend_on_threads(name):
    loss, y, score, base = make_rows(name, 50_000)
    assert_array_equal(losses.values(loss, y, score, base, 1), losses.values(loss, y, score, base, 3))


@pytest.mark.parametrize("name", KINDS)
def test_no_rows(name):
    loss, y, score, base = make_rows(name, 0)
    assert losses.gradients(loss, y, score, base, True)[0].shape == (loss.n_outputs, 0)
    assert losses.values(loss, y, score, base).shape == (0,)
    assert math.isnan(losses.weighted_mean_loss(loss, y, score, base, None, 2))


def test_wrong_arguments_are_refused():
    loss, y, score, base = make_rows("multinomial", 10)
    with pytest.raises(ValueError, match="score must have shape"):
        losses.values(loss, y[:-1], score, base)
    with pytest.raises(ValueError, match="score must have shape"):
        losses.gradients(loss, y, score, base[:-1], True)
    with pytest.raises(ValueError, match="10 values but 9 weights"):
        losses.weighted_mean(y, np.ones(9))
    for unknown in ({"kind": 9}, {"kind": -1}, {"kind": 0, "params": (1.0,) * 5}):
        with pytest.raises(ValueError, match="unknown loss"):
            losses.values(SimpleNamespace(**{"n_outputs": 4, "params": ()} | unknown), y, score, base)
    for kind, params in ((6, ()), (6, (1.0,)), (6, (2.0,)), (6, (math.nan,)), (4, ())):
        with pytest.raises(ValueError, match="unknown loss"):
            losses.gradients64(SimpleNamespace(kind=kind, n_outputs=1, params=params), y, score[:1], base[:1], True)


SKLEARN_LOSSES = {
    "squared_error": ("HalfSquaredError", {}),
    "poisson": ("HalfPoissonLoss", {}),
    "binary": ("HalfBinomialLoss", {}),
    "multinomial": ("HalfMultinomialLoss", {"n_classes": 4}),
    "gamma": ("HalfGammaLoss", {}),
    "tweedie": ("HalfTweedieLoss", {"power": 1.5}),
}


@pytest.mark.parametrize("name", SKLEARN_LOSSES)
def test_scikit_learn_agrees(name, seed):
    module = pytest.importorskip("sklearn._loss.loss")
    class_name, parameters = SKLEARN_LOSSES[name]
    theirs = getattr(module, class_name)(**parameters)
    loss, y, score, base = make_rows(name, 300, seed)
    raw = (score + base[:, None]).T
    raw = np.ascontiguousarray(raw[:, 0] if loss.n_outputs == 1 else raw)
    grad, hess = theirs.gradient_hessian(y_true=y, raw_prediction=raw)
    got_grad, got_hess = losses.gradients(loss, y, score, base, True)
    assert_allclose(got_grad, np.atleast_2d(grad.T), rtol=2 * FLOAT_EPS, atol=1e-14)
    if name != "squared_error":
        assert_allclose(got_hess, np.atleast_2d(hess.T), rtol=2 * FLOAT_EPS, atol=1e-14)
    assert_allclose(
        losses.values(loss, y, score, base), theirs.loss(y_true=y, raw_prediction=raw), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_loss_knows_no_order_and_no_threads(name, weighted, seed):
    loss, y, score, base = make_rows(name, 70_000, seed)
    rng = np.random.default_rng(seed)
    weights = rng.random(70_000) if weighted else None
    order = rng.permutation(70_000)
    expected = losses.weighted_mean_loss(loss, y, score, base, weights, 1)
    for n_threads in (2, 3):
        assert losses.weighted_mean_loss(loss, y, score, base, weights, n_threads) == expected
    shuffled = weights[order] if weighted else None
    assert losses.weighted_mean_loss(loss, y[order], score[:, order].copy(), base, shuffled, 2) == expected
    assert_allclose(expected, np.average(losses.values(loss, y, score, base), weights=weights), rtol=1e-11)


@pytest.mark.parametrize("name", KINDS)
def test_integer_weights_equal_repeated_rows(name, seed):
    loss, y, score, base = make_rows(name, 3000, seed)
    weights = np.random.default_rng(seed).integers(0, 5, 3000)
    rows = np.repeat(np.arange(3000), weights)
    repeated = losses.weighted_mean_loss(loss, y[rows], score[:, rows].copy(), base, None, 1)
    assert losses.weighted_mean_loss(loss, y, score, base, weights.astype(float), 1) == repeated
    assert losses.weighted_mean_loss(loss, y, score, base, weights * 2.0**-7, 1) == repeated


def test_weighted_mean_is_exact_to_the_last_bit(seed):
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=500) * 2.0**40) / 2.0**40 * 1e3
    weights = rng.integers(1, 2**20, 500).astype(float)
    assert losses.weighted_mean(values, None) == pytest.approx(oracle.weighted_mean(values), rel=2e-16, abs=1e-14)
    for scale in (2.0**-600, 2.0**-40, 1.0, 2.0**900):
        on_grid = np.rint(values) * scale
        assert losses.weighted_mean(on_grid, weights) == oracle.weighted_mean(on_grid, weights)


def test_weighted_mean_of_few_values():
    assert losses.weighted_mean(np.array([-3.0]), None) == -3.0
    assert losses.weighted_mean(np.array([0.0, -0.0]), None) == 0.0
    assert losses.weighted_mean(np.array([0.1, 0.1, 0.1]), None) == 0.1
    assert losses.weighted_mean(np.array([5e-324, 5e-324]), None) in (0.0, 5e-324)
    assert math.isnan(losses.weighted_mean(np.array([1.0, 2.0]), np.zeros(2)))
    assert losses.weighted_mean(np.array([1.0, np.inf]), None) == math.inf


def test_rows_without_weight_do_not_touch_the_mean():
    values, weights = np.array([0.1, 0.7, 1e300]), np.array([1.0, 2.0, 0.0])
    assert losses.weighted_mean(values, weights) == losses.weighted_mean(values[:2], weights[:2])


def test_one_huge_value_leaves_the_others_their_digits():
    values = np.full(1000, 0.1)
    values[3] = 1e6
    assert_allclose(losses.weighted_mean(values, None), oracle.weighted_mean(values), rtol=1e-13)


ELEMENTARY = {
    "exp": (math.exp, lambda rng: rng.uniform(-700, 700, 5000)),
    "log": (math.log, lambda rng: np.concatenate([np.exp(rng.uniform(-700, 700, 5000)), rng.uniform(0.5, 2, 5000)])),
    "log1p": (math.log1p, lambda rng: np.concatenate([np.exp(rng.uniform(-700, 0, 5000)), rng.uniform(0, 1, 5000)])),
}


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_are_accurate(name, seed):
    function, draw = ELEMENTARY[name]
    x = draw(np.random.default_rng(seed))
    expected = np.array([function(v) for v in x])
    # One unit for ours, one for the library's own rounding.
    assert (np.abs(losses.elementary(name, x) - expected) <= 2 * np.spacing(np.abs(expected))).all()


def test_elementary_functions_at_special_points():
    assert_array_equal(losses.elementary("exp", np.array([0.0, -0.0])), 1.0)
    assert np.isfinite(losses.elementary("exp", np.array([1e300, -1e300]))).all()
    assert_array_equal(losses.elementary("log", np.array([1.0, 2.0, 0.5])), [0.0, math.log(2), -math.log(2)])
    assert_array_equal(losses.elementary("log1p", np.array([0.0, 1e-300])), [0.0, 1e-300])
    assert losses.elementary("exp", np.empty(0)).shape == (0,)


def digest():
    """Return a hash of every output of this module's functions."""
    sha = hashlib.sha256()
    for name in KINDS:
        for n, spread in ((1, 1.0), (333, 2.0), (1024, 50.0)):
            loss, y, score, base = make_rows(name, n, spread=spread)
            double = losses.gradients64(loss, y, score, base, True)
            for out in (*double, *losses.gradients(loss, y, score, base, False)):
                sha.update(b"" if out is None else out.tobytes())
            for out in losses.gradients(loss, y, score, base, True):
                sha.update(out.tobytes())
            sha.update(losses.values(loss, y, score, base).tobytes())
            mean = losses.weighted_mean_loss(loss, y, score, base, np.arange(n) + 0.3, 1)
            sha.update(np.float64(mean).tobytes())
    for name, (_, draw) in ELEMENTARY.items():
        sha.update(losses.elementary(name, draw(np.random.default_rng(0))).tobytes())
    return sha.hexdigest()


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_instruction_sets_give_the_same_bits(level):
    here = Path(__file__)
    code = f"import runpy; print(runpy.run_path({str(here)!r})['digest']())"
    roots = [str(Path(skboost.__file__).parents[1]), str(here.parents[1])]
    environment = os.environ | {"SKBOOST_ISA": level, "PYTHONPATH": os.pathsep.join(roots)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest()
