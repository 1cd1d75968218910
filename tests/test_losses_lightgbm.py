"""Gradients of the pointwise losses against those that LightGBM 4.7 computed, to its single precision."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skboost import _losses
from skboost._engine import losses as engine

ORACLE = np.load(Path(__file__).parent / "data" / "lightgbm" / "objective_gradients.npz")
# LightGBM multiplies the second derivative by exp(poisson_max_delta_step).
DAMPED = np.exp(0.7)
CASES = {
    "l2": (_losses.make_loss("squared_error"), 1.0),
    "poisson": (_losses.make_loss("poisson"), DAMPED),
    "gamma": (_losses.make_loss("gamma"), 1.0),
    "tweedie1.3": (_losses.make_loss("tweedie", power=1.3), 1.0),
    "binary": (_losses.make_loss("log_loss", 2), 1.0),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_pointwise_losses(name, weighted):
    loss, factor = CASES[name]
    case = f"{name}_w" if weighted else name
    y, score = ORACLE[f"{case}_y"].astype(float), ORACLE["score"].astype(float)[None]
    grad, hess = (part[0] for part in engine.gradients64(loss, y, np.ascontiguousarray(score), np.zeros(1), True))
    weight = ORACLE["w"] if weighted else 1.0
    known = np.isfinite(ORACLE[f"{case}_g"])
    assert known.sum() > 50
    assert_allclose((weight * grad)[known], ORACLE[f"{case}_g"][known], rtol=1e-6, atol=1e-7)
    assert_allclose((factor * weight * hess)[known], ORACLE[f"{case}_h"][known], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_huber(weighted):
    """The gradient is LightGBM's; its second derivative is 1, ours that of the touching quadratic."""
    case = "huber1_w" if weighted else "huber1"
    y, score = ORACLE[f"{case}_y"].astype(float), np.ascontiguousarray(ORACLE["score"].astype(float)[None])
    grad, hess = engine.gradients64(_losses.make_loss("huber", delta=1.0), y, score, np.zeros(1), True)
    known = np.isfinite(ORACLE[f"{case}_g"])
    weight = ORACLE["w"] if weighted else np.ones(len(y))
    assert_allclose((weight * grad[0])[known], ORACLE[f"{case}_g"][known], rtol=1e-6, atol=1e-7)
    near = np.abs(score[0] - y) <= 1
    assert_allclose((weight * hess[0])[known & near], ORACLE[f"{case}_h"][known & near], rtol=1e-6)


def test_multinomial():
    """LightGBM multiplies the second derivative of each of K classes by K / (K - 1)."""
    score = np.ascontiguousarray(ORACLE["multiclass_score"].astype(float).T)
    grad, hess = engine.gradients64(
        _losses.make_loss("log_loss", 3), ORACLE["multiclass_y"].astype(float), score, np.zeros(3), True
    )
    known = np.isfinite(ORACLE["multiclass_g"])
    assert_allclose(grad.T[known], ORACLE["multiclass_g"][known], rtol=2e-6, atol=1e-7)
    assert_allclose(1.5 * hess.T[known], ORACLE["multiclass_h"][known], rtol=2e-6, atol=1e-7)
