"""Compiled losses of predicted distributions: definitions, differences, expectations, limits and processors."""

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
from oracles import distribution_losses as oracle

import skboost
from skboost._engine import losses

KINDS = {"laplace": 11, "gamma_distribution": 12, "negative_binomial": 13}
FLOAT_EPS = np.finfo(np.float32).eps


def engine_loss(name, params=(0.0, 0.0)):
    return SimpleNamespace(kind=KINDS[name], n_outputs=2, params=params if name == "negative_binomial" else ())


def draw(name, rng, first, second):
    """Return targets drawn from the distributions of raw scores."""
    if name == "laplace":
        return rng.laplace(first, np.exp(second))
    m, a = np.exp(first), np.exp(second)
    if name == "gamma_distribution":
        return np.maximum(rng.gamma(a, m / a), 1e-12)
    return rng.poisson(rng.gamma(a, m / a)).astype(np.float64)


def make_rows(name, n, seed=0, spread=1.5):
    rng = np.random.default_rng([seed, n])
    score, base = rng.normal(0, spread, (2, n)), rng.normal(size=2)
    y = draw(name, rng, *np.clip(score + base[:, None] + rng.normal(0, 0.5, (2, n)), -6, 6))
    return engine_loss(name), y, score, base


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("n", [1, 7, 65, 500])
def test_gradients_and_values_match_the_definition(name, n, seed):
    loss, y, score, base = make_rows(name, n, seed)
    value, grad, fisher = oracle.ALL[name](y, score + base[:, None])
    got_grad, got_fisher = losses.gradients64(loss, y, score, base, True)
    assert_allclose(got_grad, grad, rtol=1e-9, atol=1e-11)
    assert_allclose(got_fisher[0], fisher[0], rtol=1e-13)
    # Gauss's rule approximates the information on the size.
    assert_allclose(got_fisher[1], fisher[1], rtol=0.025 if name == "negative_binomial" else 1e-10)
    assert_allclose(losses.values(loss, y, score, base), value, rtol=1e-10, atol=1e-10)
    single_grad, single_fisher = losses.gradients(loss, y, score, base, True)
    assert_array_equal(got_grad.astype(np.float32), single_grad)
    assert_array_equal(got_fisher.astype(np.float32), single_fisher)


@pytest.mark.parametrize("name", KINDS)
def test_natural_gradients_are_gradients_over_the_metric(name, seed):
    loss, y, score, base = make_rows(name, 300, seed)
    grad, fisher = losses.gradients64(loss, y, score, base, True)
    natural, metric = losses.gradients(loss, y, score, base, False)
    assert_allclose(metric, fisher, rtol=FLOAT_EPS)
    assert_allclose(natural, grad / fisher, rtol=4 * FLOAT_EPS, atol=1e-30)


def test_metrics_of_counts_have_a_floor(seed):
    _, y, score, base = make_rows("negative_binomial", 300, seed)
    grad, fisher = losses.gradients64(engine_loss("negative_binomial"), y, score, base, True)
    floor = np.array([0.4, 0.05])
    natural, metric = losses.gradients(engine_loss("negative_binomial", tuple(floor)), y, score, base, False)
    assert_allclose(metric, np.maximum(fisher, floor[:, None]), rtol=FLOAT_EPS)
    assert_allclose(natural, grad / np.maximum(fisher, floor[:, None]), rtol=4 * FLOAT_EPS)
    assert (fisher < floor[:, None]).any(axis=1).all()


@pytest.mark.parametrize("name", KINDS)
def test_gradients_are_central_differences_of_the_values(name, seed):
    """Richardson's extrapolation: the error is of the fourth order in the step."""
    loss, y, score, base = make_rows(name, 200, seed, spread=1.0)
    if name == "laplace":  # no row near its kink
        y = np.where(np.abs(y - score[0] - base[0]) < 0.1, y + 0.3, y)
    grad, _ = losses.gradients64(loss, y, score, base, True)
    for k in range(2):
        slopes = []
        for step in (1e-3, 2e-3):
            shift = step * np.eye(2)[k]
            up, down = (losses.values(loss, y, score, base + sign * shift) for sign in (1, -1))
            slopes.append((up - down) / (2 * step))
        assert_allclose(grad[k], (4 * slopes[0] - slopes[1]) / 3, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("raw", [(0.4, 0.3), (-2.0, -1.0), (1.5, 2.5)])
def test_information_is_the_variance_of_the_gradient(name, raw):
    """Monte Carlo: the gradient at the true parameters has mean 0 and the Fisher information as its variance."""
    n = 400_000
    y = draw(name, np.random.default_rng(0), np.full(n, raw[0]), np.full(n, raw[1]))
    grad, fisher = losses.gradients64(engine_loss(name), y, np.zeros((2, n)), np.array(raw), True)
    error = grad.std(axis=1) / math.sqrt(n)
    assert (np.abs(grad.mean(axis=1)) < 4.5 * error).all()
    square = grad**2
    error = square.std(axis=1) / math.sqrt(n)
    assert (np.abs(square.mean(axis=1) - fisher[:, 0]) < 4.5 * error + 0.02 * fisher[:, 0]).all()
    # Orthogonal parameters.
    product = grad[0] * grad[1]
    assert abs(product.mean()) < 4.5 * product.std() / math.sqrt(n)


def test_known_values():
    args = engine_loss("gamma_distribution"), np.array([2.0]), np.zeros((2, 1)), np.log([1.5, 3.0])
    grad, fisher = losses.gradients64(*args, True)
    assert_allclose(grad[:, 0], [-1, -0.390530], atol=1e-6)
    assert_allclose(fisher[:, 0], [3, 0.554407], atol=1e-6)
    constant = 0.5 * math.log(2 * math.pi) + math.log(2.0)
    assert_allclose(losses.values(*args) + constant, 1.227411, atol=1e-6)


@pytest.mark.parametrize("size", [1e2, 1e5, 1e8, 1e11])
@pytest.mark.parametrize("mean", [0.05, 3.0, 400.0])
def test_nearly_poisson_counts_keep_their_digits(mean, size):
    y = np.floor(mean + np.sqrt(mean) * np.array([-1.0, 0.0, 2.0, 5.0])).clip(0)
    args = engine_loss("negative_binomial"), y, np.zeros((2, 4)), np.log([mean, size])
    grad, fisher = losses.gradients64(*args, True)
    assert_allclose(grad[0], (mean - y) / (1 + mean / size), rtol=1e-10, atol=1e-10 * mean)
    d = (y - mean) / size
    beyond = 4 * (np.abs(d) * (1 + y) * (1 + mean)).max() / size
    leading = ((y - mean) ** 2 - y) / (2 * size)
    assert_allclose(grad[1], leading, rtol=1e-3, atol=beyond + 1e-15)
    q = mean / (mean + size)
    assert_allclose(fisher[1], size * q * q / (2 * (size + 1)), rtol=0.03 + 2 * q)
    excess = losses.values(*args) - (mean - y * math.log(mean))
    assert_allclose(
        excess, -leading, rtol=1e-3, atol=(np.abs(d) * (1 + y) * (1 + mean)).max() * 4 / size + 1e-12 * mean
    )


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("k", [0, 1])
def test_outputs_on_a_log_scale_continue_as_straight_lines(name, side, k):
    if name == "laplace" and k == 0:
        pytest.skip("the median is on no log scale")
    _, y, _, _ = make_rows(name, 40)
    end = 20.0 if name == "laplace" else 30.0
    at = side * (end + np.array([0.0, 1.0, 2.0, 10.0]))
    grads, values = [], []
    for f in at:
        args = engine_loss(name), y, np.zeros((2, 40)), np.where(np.arange(2) == k, f, 0.3)
        grads.append(losses.gradients64(*args, True)[0][k])
        values.append(losses.values(*args))
    for i in range(3):
        assert_array_equal(grads[i + 1], grads[0])
        rise = (values[i + 1] - values[i]) / (at[i + 1] - at[i])
        scale = np.abs(grads[0]).max() + np.abs(values[0]).max()
        assert_allclose(rise, grads[0], rtol=1e-9, atol=1e-12 * scale)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("size", [20.0, 30.0, 745.0, 1e4])
def test_extreme_scores_stay_finite(name, size):
    _, y, _, _ = make_rows(name, 64)
    y[:3] = [1e-200, 1e140, 1.0] if name == "gamma_distribution" else [0.0, 1e140, 1.0]
    rng = np.random.default_rng(1)
    for signs in (rng.choice([-1.0, 1.0], (2, 64)), np.ones((2, 64)), -np.ones((2, 64))):
        for hessian in (False, True):
            grad, hess = losses.gradients(engine_loss(name), y, size * signs, np.zeros(2), hessian)
            assert np.isfinite(grad).all()
            assert np.isfinite(hess).all()
            assert (hess >= 0).all()
        assert np.isfinite(losses.values(engine_loss(name), y, size * signs, np.zeros(2))).all()


@pytest.mark.parametrize("name", KINDS)
def test_information_lies_between_its_limits(name):
    """Of a log scale or shape: never above 1, and for a shape never below 1/2."""
    second = np.linspace(-40, 40, 400)
    first = np.resize([-20.0, -3.0, 0.0, 5.0, 20.0], 400)
    _, fisher = losses.gradients64(engine_loss(name), np.ones(400), np.stack([first, second]), np.zeros(2), True)
    assert (fisher[1] <= 1 + 1e-9).all()
    assert (fisher[1] >= {"laplace": 1.0, "gamma_distribution": 0.5}.get(name, 0.0)).all()


@pytest.mark.parametrize("name", KINDS)
def test_a_row_knows_nothing_of_the_others(name):
    loss, y, score, base = make_rows(name, 200)
    order = np.random.default_rng(2).permutation(200)[:77]
    part = y[order], np.ascontiguousarray(score[:, order]), base
    for hessian in (False, True):
        whole = losses.gradients(loss, y, score, base, hessian)
        for all_rows, some in zip(whole, losses.gradients(loss, *part, hessian), strict=True):
            assert_array_equal(all_rows[:, order], some)
    assert_array_equal(losses.values(loss, y, score, base)[order], losses.values(loss, *part))


def test_laplace_does_not_choose_a_side_at_its_median():
    grad, _ = losses.gradients(engine_loss("laplace"), np.array([0.5]), np.zeros((2, 1)), np.array([0.5, 0.0]), False)
    assert_array_equal(grad[:, 0], [0, 1])


@pytest.mark.parametrize("name", KINDS)
def test_wrong_outputs_are_refused(name):
    _, y, score, base = make_rows(name, 5)
    loss = SimpleNamespace(kind=KINDS[name], n_outputs=1, params=())
    with pytest.raises(ValueError, match="unknown loss"):
        losses.values(loss, y, score[:1], base[:1])


def digest():
    """Return a hash of every output."""
    sha = hashlib.sha256()
    for name in KINDS:
        for n, spread in ((1, 1.0), (333, 1.5), (1024, 40.0)):
            args = make_rows(name, n, spread=spread)
            outs = *losses.gradients(*args, False), *losses.gradients(*args, True), *losses.gradients64(*args, True)
            for out in (*outs, losses.values(*args)):
                sha.update(out.tobytes())
    return sha.hexdigest()


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_instruction_sets_give_the_same_bits(level):
    here = Path(__file__)
    code = f"import runpy; print(runpy.run_path({str(here)!r})['digest']())"
    roots = [str(Path(skboost.__file__).parents[1]), str(here.parents[1])]
    environment = os.environ | {"SKBOOST_ISA": level, "PYTHONPATH": os.pathsep.join(roots)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest()
