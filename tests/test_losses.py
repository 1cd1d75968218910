"""Losses in Python: domains, optimal constants, links, and what weights and units do to them."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import losses as oracle

from skboost import _losses
from skboost._engine import losses as engine
from skboost._losses import _intercept

NAMES = {
    "squared_error": ("squared_error", None),
    "poisson": ("poisson", None),
    "gaussian": ("gaussian", None),
    "binary": ("log_loss", 2),
    "multinomial": ("log_loss", 4),
    "gamma": ("gamma", None),
    "tweedie": ("tweedie", None),
}
LOG_LINKS = ["poisson", "gamma", "tweedie"]


def make_target(name, n, seed=0):
    rng = np.random.default_rng([seed, n])
    if name == "poisson":
        return rng.poisson(1.5, n).astype(float)
    if name in ("gamma", "tweedie"):
        return rng.gamma(2.0, 1.5, n) * (rng.integers(0, 2, n) if name == "tweedie" else 1.0)
    if name in ("binary", "multinomial"):
        # Every class occurs.
        n_classes = NAMES[name][1]
        return rng.permutation(np.r_[np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]).astype(float)
    return rng.normal(3.0, 5.0, n)


def bound_loss(name, y, sample_weight=None):
    """Return the loss as an estimator uses it, and the target that the engine sees."""
    loss = _losses.make_loss(*NAMES[name]).bind(y, sample_weight)
    return loss, loss.to_internal(y)


@pytest.mark.parametrize("name", NAMES)
def test_base_score_follows_the_textbook(name, seed):
    y = make_target(name, 400, seed)
    loss = _losses.make_loss(*NAMES[name])
    assert loss.base_score(y).shape == (loss.n_outputs,)
    assert_allclose(loss.base_score(y), oracle.base_score(name, y, NAMES[name][1]), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_base_score_minimises_the_mean_loss(name, seed):
    y, weight = make_target(name, 300, seed), np.random.default_rng(seed).random(300)
    loss, target = bound_loss(name, y, weight)
    base, score = loss.base_score(target, weight), np.zeros((loss.n_outputs, 300))
    best = loss.mean_loss(target, score, base, weight)
    for k in range(loss.n_outputs):
        for step in (-0.01, 0.01):
            moved = base.copy()
            moved[k] += step
            assert loss.mean_loss(target, score, moved, weight) > best
    grad, _ = loss.gradients(target, score, base, hessian=True)
    assert_allclose(grad.astype(float) @ weight, 0, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_constants_know_no_order_and_take_weights_as_repetitions(name, seed):
    rng = np.random.default_rng(seed)
    y, weight, order = make_target(name, 500, seed), rng.integers(1, 5, 500).astype(float), rng.permutation(500)
    loss, target = bound_loss(name, y, weight)
    base = loss.base_score(target, weight)
    cases = [(y[order], weight[order]), (np.repeat(y, weight.astype(int)), None), (y, weight * 0.25)]
    cases.append((np.append(y, y[:9]), np.append(weight, np.zeros(9))))
    for other_y, other_weight in cases:
        other, other_target = bound_loss(name, other_y, other_weight)
        assert vars(other) == vars(loss)
        assert_array_equal(other.base_score(other_target, other_weight), base)


@pytest.mark.parametrize("name", NAMES)
def test_fractional_weights_know_no_order(name, seed):
    rng = np.random.default_rng(seed)
    y, weight, order = make_target(name, 500, seed), rng.random(500), rng.permutation(500)
    loss, target = bound_loss(name, y, weight)
    other, other_target = bound_loss(name, y[order], weight[order])
    assert vars(other) == vars(loss)
    assert_array_equal(other.base_score(other_target, weight[order]), loss.base_score(target, weight))


def test_multinomial_base_score_is_centred():
    base = _losses.make_loss("log_loss", 3).base_score(np.repeat([0.0, 1.0, 2.0], [3, 2, 1]))
    assert_allclose(base, [0.501359, 0.095894, -0.597253], atol=1e-6)


def test_swapping_labels_negates_the_binary_base_score():
    y, weight = make_target("binary", 101), np.random.default_rng(0).random(101)
    loss = _losses.make_loss("log_loss", 2)
    assert_array_equal(loss.base_score(1 - y, weight), -loss.base_score(y, weight))


def test_class_without_rows_has_a_finite_base_score():
    for n_classes in (2, 5):
        base = _losses.make_loss("log_loss", n_classes).base_score(np.ones(10))
        assert np.isfinite(base).all()
        probability = _losses.make_loss("log_loss", n_classes).inverse_link(base[0] if n_classes == 2 else base)
        assert_allclose(probability, np.eye(n_classes)[1], atol=1e-14)


@pytest.mark.parametrize("factor", [2.0**-30, 1024.0])
def test_gaussian_follows_units_that_are_powers_of_two_exactly(factor, seed):
    y = make_target("gaussian", 200, seed)
    loss, target = bound_loss("gaussian", y)
    scaled, scaled_target = bound_loss("gaussian", y * factor)
    assert_array_equal(scaled_target, target)
    raw = np.random.default_rng(seed).normal(size=(50, 2))
    mean, variance = loss.mean_variance(raw)
    scaled_mean, scaled_variance = scaled.mean_variance(raw)
    assert_array_equal(scaled_mean, mean * factor)
    assert_array_equal(scaled_variance, variance * factor**2)


def test_gaussian_base_score_predicts_mean_and_variance(seed):
    y, weight = make_target("gaussian", 200, seed), np.random.default_rng(seed).random(200)
    loss, target = bound_loss("gaussian", y, weight)
    mean, variance = loss.mean_variance(loss.base_score(target, weight))
    assert_allclose(mean, np.average(y, weights=weight), rtol=1e-11)
    assert_allclose(variance, np.average((y - mean) ** 2, weights=weight), rtol=1e-10)
    assert_array_equal(loss.inverse_link(loss.base_score(target, weight)), mean)
    assert 0.5 < np.std(target) < 2.1


def test_gaussian_value_is_the_negative_log_likelihood():
    y = make_target("gaussian", 100)
    loss, target = bound_loss("gaussian", y)
    base, score = loss.base_score(target), np.random.default_rng(0).normal(size=(2, 100)) / 4
    mean, variance = loss.mean_variance((base[:, None] + score).T)
    expected = np.mean((y - mean) ** 2 / variance + np.log(2 * np.pi * variance)) / 2
    # Constants of the target alone are left out.
    constant = np.log(loss.scale) + 0.5 * np.log(2 * np.pi)
    assert_allclose(loss.mean_loss(target, score, base) + constant, expected, rtol=1e-12)


@pytest.mark.parametrize("level", [0.0, 3.7, -1e12, 1e-250])
def test_constant_target_has_a_small_positive_spread(level):
    y = np.full(20, level)
    loss, target = bound_loss("gaussian", y)
    assert_array_equal(target, 0)
    mean, variance = loss.mean_variance(loss.base_score(target))
    assert mean == level
    assert 0 <= np.sqrt(variance) <= 1e-7 * max(abs(level), 1)
    assert loss.scale > 0


def test_nearly_constant_target_is_not_taken_for_noise():
    y = 1e6 + np.array([0.0, 1e-6, 2e-6, 3e-6])
    loss, target = bound_loss("gaussian", y)
    assert 0.5 < np.std(target) < 2.1
    assert loss.scale < 1e-5


def test_links():
    raw = np.array([-800.0, -1.0, 0.0, 2.0, 800.0])
    assert_array_equal(_losses.make_loss("squared_error").inverse_link(raw), raw)
    assert_allclose(_losses.make_loss("poisson").inverse_link(raw[1:4]), np.exp(raw[1:4]))
    assert np.isfinite(_losses.make_loss("poisson").inverse_link(raw)).all()
    probability = _losses.make_loss("log_loss", 2).inverse_link(raw)
    assert probability.shape == (5, 2)
    assert_allclose(probability[:, 1], [0, 0.268941, 0.5, 0.880797, 1], atol=1e-6)
    assert_allclose(probability.sum(axis=1), 1, rtol=1e-15)
    members = _losses.make_loss("log_loss", 2).inverse_link(np.zeros((3, 4)))
    assert members.shape == (3, 4, 2)


def test_softmax_ignores_shifts_and_memory_layout(seed):
    loss = _losses.make_loss("log_loss", 12)
    raw = np.round(np.random.default_rng(seed).normal(0, 5, (40, 12)) * 256) / 256
    p = loss.inverse_link(raw)
    assert_allclose(p, np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True), rtol=1e-13)
    assert_array_equal(loss.inverse_link(raw + 2.0**30), p)
    assert_array_equal(loss.inverse_link(np.asfortranarray(raw)), p)
    assert_array_equal(np.vstack([loss.inverse_link(row) for row in raw]), p)
    assert_array_equal(loss.inverse_link(np.array([1e4] + [-1e4] * 11)), np.eye(12)[0])


def test_link_inverts_the_base_score():
    for name in ("binary", "multinomial", "squared_error", *LOG_LINKS):
        y = make_target(name, 300)
        loss, target = bound_loss(name, y)
        base = loss.base_score(target)
        prediction = loss.inverse_link(base if loss.n_outputs > 1 else base[0])
        share = [np.mean(y == k) for k in range(loss.n_outputs if loss.n_outputs > 1 else 2)]
        assert_allclose(prediction, share if loss.name == "log_loss" else np.mean(y), rtol=1e-13)


@pytest.mark.parametrize("name", LOG_LINKS)
@pytest.mark.parametrize(
    ("y", "weight", "message"),
    [
        ([1.0, -0.5], None, "smallest target is -0.5"),
        ([0.0, 0.0], None, "all targets are 0"),
        ([0.0, 1.0], [1, 0], "all targets are 0"),
        ([1e15, 1e15], None, "weighted mean of y between 1e-13 and 1e13"),
    ],
)
def test_log_links_refuse_targets_outside_their_domain(name, y, weight, message):
    if name == "gamma" and "are 0" in message:
        message = "y > 0; the smallest target is 0"
    with pytest.raises(ValueError, match=f"loss='{name}'.*{message}"):
        _losses.make_loss(name).check_target(np.array(y), weight)


def test_targets_inside_the_domain_pass():
    _losses.make_loss("poisson").check_target(np.array([0.0, 2.5, -1.0]), np.array([1, 1, 0]))
    _losses.make_loss("tweedie").check_target(np.array([0.0, 2.5, -1.0]), np.array([1, 1, 0]))
    _losses.make_loss("gamma").check_target(np.array([1.0, 2.5, 0.0]), np.array([1, 1, 0]))
    _losses.make_loss("squared_error").check_target(np.array([-1.0, 2.0]))
    _losses.make_loss("gaussian").check_target(np.array([-1.0, 2.0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absolute",), "loss must be one of .*'squared_error'.*got 'absolute'"),
        (("log_loss",), "at least 2 classes, got None"),
        (("log_loss", 1), "at least 2 classes, got 1"),
        (("poisson", 3), "knows no classes"),
        (("tweedie", None, 1.0), "power between 1 and 2, both excluded, got 1.0"),
        (("tweedie", None, 2), "power between 1 and 2"),
        (("tweedie", None, float("nan")), "power between 1 and 2"),
    ],
)
def test_unknown_losses_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        _losses.make_loss(*arguments[:2], **dict(zip(["power"], arguments[2:], strict=False)))


@pytest.mark.parametrize("name", NAMES)
def test_losses_describe_themselves(name):
    y = make_target(name, 50)
    loss, _ = bound_loss(name, y)
    assert loss.name == NAMES[name][0]
    assert vars(pickle.loads(pickle.dumps(loss))) == vars(loss)
    assert repr(loss).startswith(type(loss).__name__ + "(")
    assert loss.constant_hessian == (name == "squared_error")


@pytest.mark.parametrize("name", ["squared_error", "binary", "multinomial"])
def test_leaf_curvature_bounds_the_second_derivative(name, seed):
    y = make_target(name, 500, seed)
    loss, target = bound_loss(name, y)
    score = np.random.default_rng(seed).normal(0, 2, (loss.n_outputs, 500))
    _, hess = loss.gradients(target, score, np.zeros(loss.n_outputs), hessian=True)
    assert hess.max() <= loss.leaf_curvature


def test_leaf_curvature_of_poisson_is_known_once_bound():
    assert _losses.make_loss("poisson").leaf_curvature == 1.0
    assert _losses.make_loss("poisson").bind(np.array([1.0, 2.0, 6.0])).leaf_curvature == 3.0


def test_what_losses_say_of_themselves():
    losses = {name: _losses.make_loss(*NAMES[name]) for name in NAMES}
    noisy = [name for name, loss in losses.items() if loss.needs_noise_variance]
    assert noisy == ["squared_error", "gamma", "tweedie"]
    assert [name for name, loss in losses.items() if loss.predicts_spread] == ["gaussian"]
    assert [name for name, loss in losses.items() if loss.predicts_distribution] == ["poisson", "gaussian"]


@pytest.mark.parametrize("name", ["binary", "multinomial"])
def test_log_probabilities_are_finite_where_probabilities_vanish(name):
    loss = _losses.make_loss(*NAMES[name])
    raw = np.linspace(-2000, 2000, 81)
    raw = raw if name == "binary" else np.stack([raw, -raw, np.zeros(81), raw / 2], axis=1)
    log_p, p = loss.log_inverse_link(raw), loss.inverse_link(raw)
    assert np.isfinite(log_p).all()
    assert (p == 0).any()
    assert_allclose(np.exp(log_p), p, rtol=1e-12, atol=1e-300)
    assert_allclose(log_p[p > 1e-300], np.log(p[p > 1e-300]), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("poisson", [1.0, -0.5], "requires y_val >= 0; the smallest target is -0.5"),
        ("poisson", [1.0, 1e200], "y_val"),
        ("gamma", [1.0, 0.0], "requires y_val > 0; the smallest target is 0"),
        ("tweedie", [1.0, -1.0], "requires y_val >= 0; the smallest target is -1"),
        ("squared_error", [1e200, 1e200], "y_val"),
        ("gaussian", [1e141], "y_val"),
    ],
)
def test_the_domain_is_checked_by_name(name, y, message):
    with pytest.raises(ValueError, match=message):
        _losses.make_loss(name).check_domain(np.array(y), "y_val")


@pytest.mark.parametrize(("name", "y"), [("poisson", [0, 0]), ("squared_error", [0, 1e-40]), ("gaussian", [0, 1e-200])])
def test_the_domain_is_wider_than_what_can_be_trained_on(name, y):
    loss, y = _losses.make_loss(name), np.array(y, dtype=float)
    loss.check_domain(y)
    with pytest.raises(ValueError, match=name):
        loss.check_target(y)


def test_poisson_bounds_the_weighted_mean():
    loss, y = _losses.make_loss("poisson"), np.array([1e-20, 1.0])
    loss.check_target(y, np.array([1.0, 1.0]))
    with pytest.raises(ValueError, match="weighted mean of y"):
        loss.check_target(y, np.array([1e20, 1.0]))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "gaussian"])
def test_saturated_is_the_loss_of_the_perfect_prediction(name, seed):
    y = make_target(name, 200, seed)
    loss, target = bound_loss(name, y)
    if name in LOG_LINKS:
        with np.errstate(divide="ignore"):
            perfect = np.maximum(np.log(target), -_losses.LOG_MEAN_MAX)[None]
    elif loss.name == "log_loss":
        classes = np.arange(max(loss.n_outputs, 2))
        perfect = np.where(classes[:, None] == target, 50.0, -50.0)[-loss.n_outputs :]
    else:
        perfect = target[None]
    values = engine.values(loss, target, perfect, np.zeros(loss.n_outputs))
    tolerance = 1e-6 if name == "tweedie" else 1e-10
    assert_allclose(loss.saturated(target), values, rtol=1e-12, atol=tolerance)
    for other in (perfect - 0.1, perfect + 0.1):
        assert (engine.values(loss, target, other, np.zeros(loss.n_outputs)) >= loss.saturated(target) - 1e-12).all()


def test_nothing_saturates_the_gaussian_loss():
    assert_array_equal(_losses.make_loss("gaussian").saturated(np.ones(2)), -np.inf)


FITTED = [name for name in NAMES if name != "gaussian"]


def offset_of(loss, n, seed, spread=2.0):
    return np.random.default_rng([seed, 7]).normal(1.0, spread, (loss.n_outputs, n))


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("spread", [0.1, 1.0, 2.5])
def test_fitted_intercept_is_the_root_of_the_mean_gradient(name, spread, seed):
    y, weight = make_target(name, 400, seed), np.random.default_rng(seed).random(400)
    loss, target = bound_loss(name, y, weight)
    offset = offset_of(loss, 400, seed, spread)
    constant = _losses.fit_intercept(loss, target, offset, weight)
    assert constant.shape == (loss.n_outputs,)
    grad, _ = engine.gradients64(loss, target, offset, constant, True)
    assert np.abs(grad @ weight).max() <= 1e-11 * (np.abs(grad) @ weight).max()
    if loss.n_outputs > 1:
        assert_allclose(constant.sum(), 0, atol=1e-13)


@pytest.mark.parametrize("name", FITTED)
def test_fitted_intercept_without_offset_is_the_base_score(name, seed):
    y = make_target(name, 300, seed)
    loss, target = bound_loss(name, y)
    base = loss.base_score(target)
    assert_array_equal(_losses.fit_intercept(loss, target), base)
    assert_allclose(
        _losses.fit_intercept(loss, target, np.full((loss.n_outputs, 300), 0.75)) - base,
        0.0 if loss.n_outputs > 1 else -0.75,
        rtol=1e-10,
        atol=1e-10,
    )


@pytest.mark.parametrize("name", FITTED)
def test_fitted_intercept_knows_no_order_and_takes_weights_as_repetitions(name, seed):
    rng = np.random.default_rng(seed)
    y, weight = make_target(name, 200, seed), rng.integers(0, 4, 200).astype(float)
    loss, target = bound_loss(name, y, weight)
    offset = offset_of(loss, 200, seed)
    expected = _losses.fit_intercept(loss, target, offset, weight)
    rows = rng.permutation(np.repeat(np.arange(200), weight.astype(int)))
    assert_array_equal(_losses.fit_intercept(loss, target[rows], offset[:, rows], None), expected)


@pytest.mark.parametrize("name", LOG_LINKS)
def test_closed_form_of_the_intercept_of_log_links(name, seed):
    """Powers of the offset: sum w exp((2 - p) o) e^c = sum w y exp((1 - p) o) with p = 1, 2, 1.5."""
    y, weight = make_target(name, 300, seed), np.random.default_rng(seed).random(300)
    loss = _losses.make_loss(name)
    offset, power = offset_of(loss, 300, seed, 0.5), {"poisson": 1, "gamma": 2, "tweedie": 1.5}[name]
    above, below = weight @ (y * np.exp((1 - power) * offset[0])), weight @ np.exp((2 - power) * offset[0])
    assert_allclose(_losses.fit_intercept(loss, y, offset, weight), [np.log(above / below)], rtol=1e-11, atol=1e-12)


def test_intercept_of_one_class_stays_finite():
    for n_classes in (2, 3):
        loss = _losses.make_loss("log_loss", n_classes)
        constant = _losses.fit_intercept(loss, np.ones(40), offset_of(loss, 40, 0))
        assert np.isfinite(constant).all()
        raw = constant[0] if n_classes == 2 else constant
        assert_allclose(loss.inverse_link(raw)[..., 1], 1, atol=1e-12)


# ---- intercepts for large offsets ------------------------------------------------------------------------------------

LARGE = [50.0, 400.0, 1000.0, 1e6, 1e12]


@pytest.mark.parametrize("name", ["binary", *LOG_LINKS])
@pytest.mark.parametrize("size", [*LARGE, 1e300])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_intercept_cancels_a_constant_offset_of_any_size(name, size, sign):
    y = make_target(name, 60)
    loss, target = bound_loss(name, y)
    found = _losses.fit_intercept(loss, target, np.full((1, 60), sign * size))
    assert_allclose(found, loss.base_score(target) - sign * size, rtol=1e-15, atol=1e-12)


@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_intercepts_of_classes_cancel_a_constant_offset_of_any_size(size, sign):
    loss, y = _losses.make_loss("log_loss", 3), np.repeat([0.0, 1.0, 2.0], [10, 20, 30])
    offset = np.zeros((3, 60))
    offset[0] = sign * size
    found = _losses.fit_intercept(loss, y, offset)
    expected = loss.base_score(y) - sign * size * np.array([2 / 3, -1 / 3, -1 / 3])
    assert_allclose(found, expected, rtol=1e-14, atol=1e-11)
    assert_allclose(found.sum(), 0, atol=1e-15 * size)


@pytest.mark.parametrize("size", [40.0, 300.0, 5000.0])
def test_intercept_of_opposite_offsets_has_a_closed_form(size):
    """Half of the offsets at each end: the end with the weight decides, (1 / 2) sigmoid(c + size) = share."""
    loss, offset = _losses.make_loss("log_loss", 2), np.tile([size, -size], 20)[None]
    for n_ones in (4, 15, 30):
        y = (np.arange(40) < n_ones).astype(float)
        share = n_ones / 40
        inside = 2 * share if share < 0.5 else 2 * share - 1
        expected = np.log(inside / (1 - inside)) + (-size if share < 0.5 else size)
        assert_allclose(_losses.fit_intercept(loss, y, offset), [expected], rtol=1e-12)


@pytest.mark.parametrize("spread", [30.0, 100.0, 500.0])
@pytest.mark.parametrize("n_classes", [3, 6])
def test_intercepts_of_classes_balance_wide_offsets(spread, n_classes, seed):
    rng = np.random.default_rng([seed, n_classes])
    loss, y = _losses.make_loss("log_loss", n_classes), np.arange(200.0) % n_classes
    offset, weight = rng.normal(0, spread, (n_classes, 200)), rng.random(200)
    constant = _losses.fit_intercept(loss, y, offset, weight)
    p = loss.inverse_link((offset + constant[:, None]).T)
    share = np.array([weight[y == k].sum() for k in range(n_classes)]) / weight.sum()
    assert_allclose(weight @ p / weight.sum(), share, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_intercept_stays_finite_for_offsets_that_decide_everything(n_classes):
    """Such as the scores of a chain that ran away: no constant balances them, in doubles."""
    loss, y = _losses.make_loss("log_loss", n_classes), np.arange(120.0) % n_classes
    offset = 10.0 ** np.random.default_rng(0).uniform(280, 305, (loss.n_outputs, 120))
    assert np.isfinite(_losses.fit_intercept(loss, y, offset)).all()


def test_offsets_of_rows_without_weight_do_not_count():
    y, offset, weight = np.array([0.0, 1.0, 1.0, 0.0]), np.array([[3.0, 3.0, 3.0, 1e200]]), np.array([1.0, 1, 1, 0])
    for loss in (_losses.make_loss("log_loss", 2), _losses.make_loss("poisson")):
        expected = _losses.fit_intercept(loss, y[:3], offset[:, :3])
        assert_array_equal(_losses.fit_intercept(loss, y, offset, weight), expected)


def test_elimination_solves_positive_definite_systems(seed):
    root = np.random.default_rng(seed).normal(size=(12, 12))
    matrix, solution = root @ root.T + np.eye(12), np.arange(12.0)
    assert_allclose(_intercept._solve(matrix, matrix @ solution), solution, rtol=1e-9, atol=1e-9)


def test_strata_are_classes_and_positive_targets():
    y = np.array([0.0, 2.0, 1.0])
    for name in ("poisson", "tweedie"):
        assert_array_equal(_losses.make_loss(name).strata(y), [False, True, True])
        assert _losses.make_loss(name).strata(y + 1) is None
    assert_array_equal(_losses.make_loss("log_loss", 3).strata(y), y)
    assert_array_equal(_losses.make_loss("log_loss", 2).strata(y[::2]), y[::2])
    assert _losses.make_loss("gamma").strata(y + 1) is None
    assert _losses.make_loss("squared_error").strata(y) is None


def test_tweedie_knows_its_power():
    loss = _losses.make_loss("tweedie", power=1.7)
    assert (loss.power, loss.params, repr(loss)) == (1.7, (1.7,), "Tweedie(power=1.7)")
    assert _losses.make_loss("tweedie").power == 1.5
