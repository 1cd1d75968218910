"""Cyclical schedules: values, masks, members at the ends of cycles, and the laws of the constant schedule on them."""

import math
import pickle
import warnings

import numpy as np
import pytest
from fit_cases import (
    CLASSIFICATION_LOSSES,
    LOSSES,
    POLICIES,
    assert_same_model,
    assert_same_predictions,
    differ,
    make_data,
    make_estimator,
    predictions,
    threads_of_trainers,
)
from numpy.testing import assert_allclose, assert_array_equal
from oracles.chain import Copies, CyclicalTwin, gradient_scale
from oracles.grower import NO_LIMIT, Rules, Twin
from sklearn.base import clone

import skboost._parallel
from skboost import SGLBClassifier, SGLBRegressor, _uncertainty
from skboost._sampling import copy_numbers, group_weights, row_hashes
from skboost._uncertainty import cycle_member_schedule
from skboost.sglb import _chain
from skboost.sglb._cycle import CYCLE_DEFAULTS, CopyMasks, Cycle

CYCLE = {"schedule": "cyclical", "cycle_length": 6}
SETTINGS = {
    "scaled": CYCLE,
    "affine": {**CYCLE, "schedule_form": "affine", "gradient_scale_max": 4.0, "gradient_scale_min": 0.5},
    "masked": {**CYCLE, "bootstrap_fraction": 0.6},
    "masked, drawn": {**CYCLE, "bootstrap_fraction": 0.3, "subsample": 0.7, "exploration_fraction": 0.5},
    "masked, newton": {**CYCLE, "bootstrap_fraction": 0.5, "leaf_estimation": "newton"},
    "masked, quiet": {**CYCLE, "bootstrap_fraction": 0.5, "posterior_sampling": False},
}


def point_prediction(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


def cycle(length=200, high=10.0, low=1.0, form="clamp", exploration=0.8, bootstrap=None):
    return Cycle(length, high, low, form, exploration, bootstrap)


# ---- the schedule


@pytest.mark.parametrize(
    ("form", "values", "mean"),
    [
        ("clamp", {0: 10, 50: 8.5355, 100: 5, 150: 1.4645, 159: 1.0016, 160: 1, 199: 1, 200: 10, 350: 1.4645}, 5.15808),
        ("affine", {0: 10, 50: 8.6820, 100: 5.5, 150: 2.3180, 159: 1.9014, 199: 1.0006, 200: 10}, 5.5225),
    ],
)
def test_values_of_the_schedule(form, values, mean):
    found = np.array([cycle(form=form).gradient_scale(t) for t in range(400)])
    for t, value in values.items():
        assert abs(found[t] - value) < 6e-5
    assert_array_equal(found[:200], found[200:])
    assert np.all(np.diff(found[:200]) <= 0)
    assert abs(found[:200].mean() - mean) < 6e-6
    if form == "clamp":
        assert set(found[160:200]) == {1.0}
    assert_array_equal(found.astype(np.float32), found)  # no more bits than the gradients have


def test_a_cycle_of_one_iteration_stays_at_the_top():
    for form in ("clamp", "affine"):
        assert {cycle(1, 3.0, form=form).gradient_scale(t) for t in range(5)} == {3.0}


def test_masks_act_while_the_cycle_explores():
    for exploration, expected in [(0.0, 0), (0.8, 160), (0.803, 161), (1.0, 200)]:
        acting = [cycle(exploration=exploration, bootstrap=0.5).masked(t) for t in range(400)]
        assert acting == ([True] * expected + [False] * (200 - expected)) * 2
    assert not any(cycle(exploration=1.0).masked(t) for t in range(400))
    # Positions such as 45 / 50 are the same floats as the fractions that users write.
    assert sum(cycle(50, exploration=0.9, bootstrap=0.5).masked(t) for t in range(50)) == 45


@pytest.mark.parametrize("make", [SGLBRegressor, SGLBClassifier])
def test_the_defaults_that_say_nothing_are_those_of_the_constructor(make):
    params = make().get_params()
    assert {name: params[name] for name in CYCLE_DEFAULTS} == CYCLE_DEFAULTS


# ---- masks


def masks_of(fraction, n=2000, seed=5, weight=None, classes=None, hashes=None):
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 2**63, n, dtype=np.uint64) if hashes is None else hashes
    y = np.zeros(len(hashes)) if classes is None else classes
    return CopyMasks(fraction, seed, copy_numbers(hashes, y, weight), classes, weight, None, None)


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.66])
def test_share_and_independence_of_masks(fraction):
    masks = masks_of(fraction)
    drawn = np.array([masks(c, 0)["kept"] for c in range(50)])
    spread = math.sqrt(fraction * (1 - fraction))
    assert abs(drawn.mean() - fraction) < 5 * spread / math.sqrt(drawn.size)
    centred = drawn - fraction
    products = (centred[1:] * centred[:-1]).mean() / spread**2
    assert abs(products) < 5 / math.sqrt(drawn.size)
    assert np.all(np.abs(drawn.mean(axis=0) - fraction) < 6 * spread / math.sqrt(50))


def test_a_mask_is_fixed_in_its_cycle_and_a_function_of_its_number():
    masks, again = masks_of(0.5), masks_of(0.5)
    first = masks(3, 40)["kept"].copy()
    assert_array_equal(masks(3, 41)["kept"], first)
    assert (masks(4, 50)["kept"] != first).any()
    assert_array_equal(masks(3, 40)["kept"], first)
    assert_array_equal(again(3, 40)["kept"], first)
    assert (masks_of(0.5, seed=6)(3, 40)["kept"] != first).any()


def test_masks_draw_copies():
    """The copies of a heavy row are drawn one by one, as those of equal rows."""
    hashes = np.repeat(np.array([11, 12], dtype=np.uint64), [1, 400])
    weight = np.array([400.0, *np.ones(400)])
    kept = masks_of(0.5, weight=weight, hashes=hashes)(0, 0)["kept"]
    rows = masks_of(0.5, hashes=np.repeat(np.array([11, 12], dtype=np.uint64), 400))(0, 0)["kept"]
    assert kept[0] == rows[:400].sum()
    assert_array_equal(kept[1:], rows[400:])
    assert 150 < kept[0] < 250


@pytest.mark.parametrize("fraction", [1e-9, 0.3])
def test_no_class_vanishes(fraction):
    rng = np.random.default_rng(2)
    classes = rng.permutation(np.repeat([0.0, 1.0, 2.0, 3.0], [300, 30, 2, 1]))
    hashes = rng.integers(0, 2**63, len(classes), dtype=np.uint64)
    weight = rng.integers(1, 4, len(classes)).astype(float)
    masks = masks_of(fraction, weight=weight, classes=classes, hashes=hashes)
    order = rng.permutation(len(classes))
    shuffled = masks_of(fraction, weight=weight[order], classes=classes[order], hashes=hashes[order])
    chosen = set()
    for c in range(30):
        kept = masks(c, 0)["kept"]
        assert set(classes[kept > 0]) == {0.0, 1.0, 2.0, 3.0}
        assert_array_equal(shuffled(c, 0)["kept"], kept[order])
        if fraction < 1e-3:
            assert kept.sum() == 4
            chosen.add(tuple(np.flatnonzero(kept)))
    assert len(chosen) != 1  # the repair is drawn too


def test_one_copy_is_left_in_regression():
    masks = masks_of(1e-9, n=5)
    assert all(masks(c, 0)["kept"].sum() == 1 for c in range(20))
    assert len({int(np.argmax(masks(c, 0)["kept"])) for c in range(20)}) > 1


def test_the_engine_gets_the_masks_of_the_cycle(monkeypatch):
    seen = []

    class Spy(_chain.Trainer):
        def grow(self, iteration, seed, shrink, sigma, scale, features, units, counts, mask):
            seen.append((iteration, scale, None if mask is None else mask["kept"].copy()))
            return super().grow(iteration, seed, shrink, sigma, scale, features, units, counts, mask)

    monkeypatch.setattr(_chain, "Trainer", Spy)
    X, y = make_data("squared_error")
    model = make_estimator(noise_variance=1.0, **SETTINGS["masked"])
    for exploration, masked in [(0.0, 0), (0.5, 3), (0.8, 5), (1.0, 6)]:
        seen.clear()
        clone(model).set_params(exploration_fraction=exploration).fit(X, y)
        assert [t for t, _, _ in seen] == list(range(12))
        assert [mask is not None for *_, mask in seen] == [t % 6 < masked for t in range(12)]
        assert_allclose([s for _, s, _ in seen], [gradient_scale(t, 6, 10, 1, "clamp") for t in range(12)], rtol=1e-7)
        for first in (0, 6):
            kept = [mask for *_, mask in seen[first : first + masked]]
            assert all(np.array_equal(mask, kept[0]) for mask in kept)
        if masked:
            assert (seen[0][2] != seen[6][2]).any()


@pytest.mark.parametrize("loss", LOSSES)
def test_without_exploration_there_is_no_mask(loss):
    X, y = make_data(loss)
    never = make_estimator(loss, **CYCLE, bootstrap_fraction=0.5, exploration_fraction=0.0).fit(X, y)
    plain = make_estimator(loss, **CYCLE).fit(X, y)
    assert_same_model(never, plain, X)
    always = make_estimator(loss, **CYCLE, bootstrap_fraction=0.5, exploration_fraction=1.0).fit(X, y)
    part = make_estimator(loss, **CYCLE, bootstrap_fraction=0.5).fit(X, y)
    assert differ(always, part, X)
    assert differ(part, plain, X)


# ---- against the twin


def twin_of(model, X, y, weight):
    """Twin chain of a fitted model; missing values allowed, weights whole numbers above 0 or None."""
    record = model._record
    codes = np.ascontiguousarray(model._mapper.transform(np.asarray(X, dtype=float))[0].T)
    target = np.searchsorted(model.classes_, y).astype(float) if hasattr(model, "classes_") else np.asarray(y, float)
    internal = model._loss.to_internal(target)
    rules = Rules(
        _chain.POLICIES[model.grow_policy], model.max_depth, record.rules.max_leaf_nodes or NO_LIMIT,
        int(model.min_samples_leaf), model.l2_regularization, model.learning_rate, record.rules.newton,
        record.rules.curvature,
    )  # fmt: skip
    padded = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : codes.shape[1]] = codes
    hashes = row_hashes(padded, codes.shape[1])
    noise = {
        "hash0": hashes.astype(np.uint32),
        "hash1": (hashes >> np.uint64(32)).astype(np.uint32),
        "inv_root_weight": group_weights(hashes, weight),
    }
    arrays = None
    if weight is not None:
        arrays = {"weight": weight, "units": weight.astype(np.uint32), "scale": 1.0, "integer": True, "counts": None}
    if record.noise_scales is not None:
        noise["row_scale"], noise["leaf_scale"] = record.noise_scales
    ranks, n_copies = np.unique(internal, return_inverse=True)[1], np.ones(len(y)) if weight is None else weight
    coins = Copies.of(codes, ranks, n_copies).coins(codes) if model._loss.fits_coins else None
    twin = Twin(
        codes, model._mapper.n_bins, np.zeros(codes.shape[1], bool), model._loss, internal, record.base_score, rules,
        arrays, noise, coins,
    )  # fmt: skip
    schedule = {
        "length": model.cycle_length,
        "high": model.gradient_scale_max,
        "low": model.gradient_scale_min,
        "form": model.schedule_form,
        "exploration": model.exploration_fraction,
        "bootstrap": model.bootstrap_fraction,
        "subsample": model.subsample,
    }
    labels = internal.tolist() if hasattr(model, "classes_") else [0] * len(internal)
    return CyclicalTwin(twin, n_copies, ranks, labels, schedule)


@pytest.mark.parametrize("weighted", [False, True], ids=["rows", "weights"])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_chain_is_that_of_the_twin(loss, setting, weighted, seed):
    grow_policy = POLICIES[(LOSSES.index(loss) + list(SETTINGS).index(setting) + weighted) % 3]
    X, y = make_data(loss, seed, n=60, n_features=3)
    X = np.round(X)  # equal rows are numbered through
    weight = np.random.default_rng(seed).integers(1, 4, len(y)).astype(float) if weighted else None
    params = {"grow_policy": grow_policy, "prior_split_rate": 0.0, "n_prior_cuts": 0, **SETTINGS[setting]}
    model = make_estimator(loss, n_estimators=8, random_state=seed, **params).fit(X, y, weight)
    chain = twin_of(model, X, y, weight)
    sigma = model._record.sigma
    for t in range(8):
        chain.grow(t, model._record.seed, model.shrink_factors_[t], sigma)
    raw = chain.twin.scores[: model._loss.n_outputs].T + model._record.base_score
    assert_allclose(model._raw(X), raw, rtol=1e-9, atol=1e-10)
    assert np.ptp(raw) > 0.01


def test_the_twin_draws_the_same_copies():
    """The draws of the twin are written from their definition; a class of one row is repaired the same way."""
    X, y = make_data("multiclass", n=50, n_features=3)
    X = np.round(X)
    y = np.where(np.arange(50) == 7, 99, y)
    weight = np.random.default_rng(0).integers(1, 5, 50).astype(float)
    model = make_estimator("multiclass", **CYCLE, bootstrap_fraction=0.02).fit(X, y, weight)
    chain = twin_of(model, X, y, weight)
    assert isinstance(chain.copies, Copies)
    labels = np.array(chain.labels)
    masks = masks_of(
        0.02, seed=3, weight=weight, classes=labels,
        hashes=row_hashes(np.pad(chain.twin.codes, ((0, 0), (0, 5))), 3),
    )  # fmt: skip
    for c in range(20):
        kept = chain.copies.count(chain.copies.kept(0.02, 3, c, chain.labels), 50)
        assert_array_equal(masks(c, 0)["kept"], kept)
        assert kept[7] >= 1


# ---- equivalence of a scaled gradient with another chain (check 8)


@pytest.mark.parametrize("bootstrap_fraction", [None, 0.5])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("leaf_estimation", ["gradient", "newton"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_scaled_gradient_is_a_longer_and_colder_step(loss, leaf_estimation, grow_policy, bootstrap_fraction):
    """(alpha 2, eps 0.05, T 1, gamma 0.01) equals (alpha 1, eps 0.1, T 2, gamma 0.005), bit for bit."""
    X, y = make_data(loss)
    found = []
    for alpha, eps, temperature, gamma in [(2.0, 0.05, 1.0, 0.01), (1.0, 0.1, 2.0, 0.005)]:
        scales = {"gradient_scale_max": alpha, "gradient_scale_min": alpha}
        model = make_estimator(
            loss, **CYCLE, **scales, bootstrap_fraction=bootstrap_fraction, learning_rate=eps, grow_policy=grow_policy,
            diffusion_temperature=temperature, model_shrink_rate=gamma, posterior_sampling=False, langevin=True,
            leaf_estimation=leaf_estimation, **({"noise_variance": 1.0} if loss == "squared_error" else {}),
        )  # fmt: skip
        found.append(model.fit(X, y))
    assert_same_predictions(*found, X)
    if bootstrap_fraction is None:
        plain = clone(found[1]).set_params(schedule="constant", **CYCLE_DEFAULTS).fit(X, y)
        assert_array_equal(plain._raw(X), found[0]._raw(X))


# ---- members (checks 6 and 10)


@pytest.mark.parametrize("n_jobs", [1, 4])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("setting", ["scaled", "masked", "masked, drawn"])
def test_members_are_stopped_models(setting, loss, grow_policy, n_jobs, monkeypatch):
    monkeypatch.setattr(skboost._parallel, "UPDATES_PER_THREAD", 1)
    X, y = make_data(loss)
    X_new = make_data(loss, seed=1, n=50)[0]
    params = {"grow_policy": grow_policy, "n_jobs": n_jobs, **SETTINGS[setting]}
    model = make_estimator(loss, n_estimators=21, **params).fit(X, y)
    result = model.predict_uncertainty(X_new)
    assert result.member_iterations.tolist() == [6, 12, 18]
    members = model.predict_virtual_ensembles(X_new)
    for count, member in zip([6, 12, 18], members, strict=True):
        stopped = make_estimator(loss, n_estimators=count, **params).fit(X, y)
        assert_array_equal(member, point_prediction(stopped, X_new))
    for name in ("leaf_value", "feature", "threshold"):
        stopped_values = getattr(stopped._forest, name)
        assert_array_equal(getattr(model._forest, name)[: len(stopped_values)], stopped_values)
    assert_array_equal(model.predict_virtual_ensembles(X_new, 2), members[1:])
    assert_array_equal(model.predict_uncertainty(X_new, 1).member_iterations, [18])
    assert (result.knowledge > 0).any()


@pytest.mark.parametrize(
    ("n_iter", "length", "n_members", "counts"),
    [
        (2000, 200, None, range(200, 2001, 200)),
        (2000, 200, 10, range(200, 2001, 200)),
        (2000, 200, 3, [1600, 1800, 2000]),
        (2199, 200, None, range(200, 2001, 200)),
        (3, 1, None, [1, 2, 3]),
        (100, 50, 1, [100]),
    ],
)
def test_member_iterations(n_iter, length, n_members, counts):
    found = cycle_member_schedule(n_iter, length, n_members)
    assert found.dtype == np.int64
    assert found.tolist() == list(counts)


def test_more_members_than_cycles_are_refused_with_a_remedy():
    X, y = make_data("squared_error", n=40)
    model = make_estimator(**CYCLE, n_estimators=17).fit(X, y)
    for method in (model.predict_virtual_ensembles, model.predict_uncertainty):
        with pytest.raises(ValueError, match=r"n_members=3 needs 3 complete cycles .* 18 iterations; .*Reduce"):
            method(X, 3)
        for bad in (0, -1, 1.5, True, "3"):
            with pytest.raises(ValueError, match="n_members must be an integer in the range"):
                method(X, bad)
    short = make_estimator(**CYCLE, n_estimators=5).fit(X, y)
    assert np.isfinite(short.predict(X)).all()
    for n_members in (None, 1):
        with pytest.raises(ValueError, match="5 iterations and cycle_length=6; fit more iterations or shorten"):
            short.predict_uncertainty(X, n_members)


def test_a_cycle_longer_than_any_integer_is_not_complete():
    X, y = make_data("squared_error", n=40)
    model = make_estimator(**{**CYCLE, "cycle_length": 10**30}, n_estimators=5).fit(X, y)
    assert_allclose(clone(model).set_params(averaging="mean").fit(X, y).predict(X), model.predict(X), rtol=1e-12)
    with pytest.raises(ValueError, match="fit more iterations or shorten"):
        model.predict_uncertainty(X)


def test_a_single_cycle_warns():
    X, y = make_data("binary", n=40)
    model = make_estimator("binary", **CYCLE, n_estimators=11).fit(X, y)
    with pytest.warns(UserWarning, match="single complete cycle of cycle_length=6 in 11 iterations"):
        members = model.predict_virtual_ensembles(X)
    assert len(members) == 1
    with pytest.warns(UserWarning, match="fit two cycles or more") as caught:
        model.predict_uncertainty(X)
    assert caught[0].filename == __file__
    two = make_estimator("binary", **CYCLE).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two.predict_uncertainty(X)
        two.predict_uncertainty(X, 1)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_number_of_members_means_ten_of_a_constant_schedule(loss):
    X, y = make_data(loss)
    model = make_estimator(loss, n_estimators=25).fit(X, y)
    assert_array_equal(model.predict_virtual_ensembles(X), model.predict_virtual_ensembles(X, 10))
    assert model.predict_uncertainty(X, None).member_iterations.tolist() == list(range(16, 26))


# ---- averages


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_estimators", [4, 6, 20])
def test_the_mean_is_over_the_ends_of_cycles(loss, n_estimators):
    X, y = make_data(loss)
    last = make_estimator(loss, n_estimators=n_estimators, **CYCLE).fit(X, y)
    mean = make_estimator(loss, n_estimators=n_estimators, averaging="mean", **CYCLE).fit(X, y)
    states = np.array(list(last._staged_raw(X)))
    ends = states[5::6] if n_estimators >= 6 else states[-1:]
    size = np.abs(states).max()
    assert_allclose(mean._raw(X), ends.mean(axis=0), rtol=0, atol=1e-12 * size)
    stages = list(mean._staged_raw(X))
    assert len(stages) == n_estimators
    for count, stage in enumerate(stages, start=1):
        expected = states[5:count:6].mean(axis=0) if count >= 6 else states[count - 1]
        assert_allclose(stage, expected, rtol=0, atol=1e-12 * size)
    assert_array_equal(last.set_params(averaging="mean")._raw(X), mean._raw(X))


# ---- warm start and early stopping


@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("setting", ["affine", "masked", "masked, drawn"])
@pytest.mark.parametrize("loss", LOSSES)
def test_warm_start_in_the_middle_of_a_cycle(loss, setting, grow_policy):
    X, y = make_data(loss)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    model = make_estimator(loss, grow_policy=grow_policy, averaging="mean", **SETTINGS[setting])
    warm = clone(model).set_params(n_estimators=3, warm_start=True).fit(X, y, weight)
    for n_estimators in (4, 8, 20):
        warm = pickle.loads(pickle.dumps(warm)).set_params(n_estimators=n_estimators).fit(X, y, weight)
    assert_same_model(warm, clone(model).set_params(n_estimators=20).fit(X, y, weight), X)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"schedule": "constant", **CYCLE_DEFAULTS}, "schedule"),
        ({"cycle_length": 7}, "cycle_length"),
        ({"gradient_scale_max": 9.0}, "gradient_scale_max"),
        ({"gradient_scale_min": 0.5}, "gradient_scale_min"),
        ({"schedule_form": "affine"}, "schedule_form"),
        ({"exploration_fraction": 0.7}, "exploration_fraction"),
        ({"bootstrap_fraction": None}, "bootstrap_fraction"),
    ],
)
def test_warm_start_with_another_schedule_is_refused(change, named):
    X, y = make_data("squared_error")
    model = make_estimator(warm_start=True, noise_variance=1.0, **SETTINGS["masked"]).fit(X, y)
    with pytest.raises(ValueError, match=rf"but changed: {named}\."):
        model.set_params(n_estimators=20, **change).fit(X, y)
    plain = make_estimator(warm_start=True, noise_variance=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"but changed: schedule\."):
        plain.set_params(n_estimators=20, **CYCLE).fit(X, y)


@pytest.mark.parametrize("setting", ["scaled", "masked"])
@pytest.mark.parametrize("loss", LOSSES)
def test_early_stopping_scores_the_ends_of_cycles(loss, setting, monkeypatch):
    X, y = make_data(loss, n=200)
    X_val, y_val = make_data(loss, seed=1, n=60)
    steps = []
    step = _chain.Chain.step
    monkeypatch.setattr(_chain.Chain, "step", lambda self, *args: (steps.append(self.n_iter), step(self, *args)))
    stopping = {"early_stopping": True, "n_iter_no_change": 2, "tol": 0.0}
    params = {**SETTINGS[setting], "posterior_sampling": False}
    model = make_estimator(loss, n_estimators=40, **params, **stopping)
    model.fit(X, y, X_val=X_val, y_val=y_val)
    n_scored = len(model.validation_score_)
    assert len(model.train_score_) == n_scored
    assert len(steps) == (n_scored - 1) * 6 <= 36
    assert steps == list(range(len(steps)))
    best = int(np.argmax(model.validation_score_))
    assert model.n_iter_ == len(model.shrink_factors_) == 6 * max(best, 1)
    assert n_scored == min(7, best + 3)
    straight = make_estimator(loss, n_estimators=36, **params).fit(X, y)
    target = np.searchsorted(model.classes_, y_val) if hasattr(model, "classes_") else y_val
    internal, base = model._loss.to_internal(np.asarray(target, dtype=float)), straight._record.base_score
    for cycles in range(1, n_scored):
        raw = straight._forest.margins(straight._source(X_val)[0], [6 * cycles])[0] - base
        score = -model._loss.mean_loss(internal, np.ascontiguousarray(raw.T), base, None)
        assert_allclose(model.validation_score_[cycles], score, rtol=1e-12)
    assert_array_equal(straight._forest.truncate(model.n_iter_).leaf_value, model._forest.leaf_value)


@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_warm_start_with_early_stopping_equals_the_uninterrupted_fit(loss):
    X, y = make_data(loss)
    params = {**SETTINGS["masked"], "early_stopping": True, "n_iter_no_change": 3, "tol": 0.0}
    warm = make_estimator(loss, warm_start=True, n_estimators=8, **params).fit(X, y)
    assert warm.n_iter_ == 6
    for n_estimators in (8, 13, 33):
        warm.set_params(n_estimators=n_estimators).fit(X, y)
    straight = make_estimator(loss, n_estimators=33, **params).fit(X, y)
    assert_same_model(warm, straight, X)
    assert_array_equal(warm.train_score_, straight.train_score_)
    assert_array_equal(warm.validation_score_, straight.validation_score_)


def test_progress_lines_show_the_score_of_their_iteration(capsys):
    X, y = make_data("squared_error")
    params = {**CYCLE, "posterior_sampling": False, "verbose": 2}
    make_estimator(**params, early_stopping=True, validation_fraction=None, n_estimators=8).fit(X, y)
    stopping = capsys.readouterr().out
    make_estimator(**params, n_estimators=6).fit(X, y)
    plain = capsys.readouterr().out
    scores = [[line.split("train score ")[1].split(",")[0] for line in text.splitlines() if "train score" in line]
              for text in (stopping, plain)]  # fmt: skip
    assert scores[0] == scores[1]
    assert len(scores[0]) == 4  # iterations 1, 2, 4 and 6
    assert len(set(scores[0])) == 4
    assert "iterations 1 to 6" in stopping
    assert "stopped early" not in stopping


# ---- laws


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_order_of_rows(loss, setting, seed):
    X, y = make_data(loss, seed)
    X = np.round(X)
    order = np.random.default_rng(seed).permutation(len(y))
    for weight in (
        None,
        np.random.default_rng(seed).integers(1, 4, len(y)),
        np.random.default_rng(seed).random(len(y)),
    ):
        model = make_estimator(loss, random_state=seed, **SETTINGS[setting])
        one = clone(model).fit(X, y, weight)
        other = clone(model).fit(X[order], y[order], None if weight is None else weight[order])
        assert_same_predictions(one, other, X)


@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_number_of_threads(loss, grow_policy, monkeypatch):
    seen = threads_of_trainers(monkeypatch)
    X, y = make_data(loss, n=3000)
    models = [
        make_estimator(loss, n_jobs=n_jobs, grow_policy=grow_policy, n_estimators=7, **SETTINGS["masked"]).fit(X, y)
        for n_jobs in (1, 3)
    ]
    assert len(set(seen)) > 1 or not skboost._parallel.effective_n_threads(3) > 1
    assert_same_predictions(*models, X)


@pytest.mark.parametrize("loss", CLASSIFICATION_LOSSES)
def test_a_class_of_one_row_is_learnt(loss):
    """Its row is in every mask, so that its gradient pulls in every iteration."""
    X, y = make_data(loss, n=80)
    labels = np.unique(y)
    y = np.where(y == labels[0], labels[1], y)
    y[17] = labels[0]
    X[17] = 50.0
    params = {**CYCLE, "bootstrap_fraction": 0.01, "exploration_fraction": 1.0, "posterior_sampling": False}
    model = make_estimator(loss, min_samples_leaf=1, n_estimators=60, **params).fit(X, y)
    assert model.predict(X[17:18]) == labels[0]


# ---- steps that cannot settle


@pytest.mark.parametrize(
    ("loss", "leaf_estimation", "curvature"),
    [
        ("squared_error", "gradient", 1.0),
        ("gaussian", "gradient", 1.0),
        ("poisson", "gradient", 1.0),
        ("binary", "gradient", 0.25),
        ("multiclass", "gradient", 0.5),
        ("binary", "newton", 1.0),
        ("multiclass", "newton", 1.0),
        ("poisson", "newton", 1.0),
        ("gaussian", "newton", 1.0),
    ],
)
def test_steps_that_cannot_settle(loss, leaf_estimation, curvature, monkeypatch):
    X, y = make_data(loss, n=40)
    model = make_estimator(loss, leaf_estimation=leaf_estimation, n_estimators=2, **CYCLE, learning_rate=0.125)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(gradient_scale_max=8.0 / curvature).fit(X, y)
    with pytest.warns(UserWarning, match="above 1 its steps overshoot") as caught:
        model.set_params(gradient_scale_max=15.9 / curvature).fit(X, y)
    assert caught[0].filename == __file__
    assert np.isfinite(model._raw(X)).all()
    monkeypatch.setattr(_chain.Chain, "step", None)
    with pytest.raises(ValueError, match=rf"gradient_scale_max=.* learning_rate=0.125 .* curvature {curvature:g} "):
        model.set_params(gradient_scale_max=16.0 / curvature).fit(X, y)


def test_steps_below_the_limit_do_settle():
    """One leaf under squared error: F <- F - a (F - y) converges for a step a below 2."""
    X = np.repeat([[0.0], [1.0]], 25, axis=0)
    y = 4 * X[:, 0] - 1
    scales = {"gradient_scale_max": 19.0, "gradient_scale_min": 19.0}
    model = make_estimator(n_estimators=200, posterior_sampling=False, l2_regularization=0.0, **CYCLE, **scales)
    with pytest.warns(UserWarning, match="is 1.9; above 1 its steps overshoot"):
        model.set_params(learning_rate=0.1).fit(X, y)
    assert_allclose(model.predict(X), y, atol=1e-6)
    # The error of the first leaves, a factor 1 - 1.9 per iteration.
    first = next(model.staged_predict(X))
    assert_allclose(first - y, (1 - 1.9) * (y.mean() - y), rtol=1e-6)


# ---- what cycles are for


def spiral(rng, n):
    """Three noisy arms, features the coordinates and the radius."""
    arm = np.repeat(np.arange(3), n)
    t = 6 * np.pi * np.sqrt(rng.random(3 * n))
    angle = t + 2 * np.pi * arm / 3
    points = np.c_[-(t**2) * np.cos(angle), t**2 * np.sin(angle)] + 0.4 * t[:, None] ** 1.5 * rng.normal(
        size=(3 * n, 2)
    )
    return np.c_[points, np.hypot(*points.T)], arm


def test_cycles_spread_the_members():
    """Ends of cycles differ more than late states of a plain chain, inside and outside; in the data masks add to it."""
    X, y = spiral(np.random.default_rng(0), 300)
    angle = np.linspace(0, 2 * np.pi, 300)
    outside = np.c_[550 * np.cos(angle), 550 * np.sin(angle), np.full(300, 550.0)]
    found = []
    for params in ({}, {"schedule": "cyclical"}, {"schedule": "cyclical", "bootstrap_fraction": 0.66}):
        model = SGLBClassifier(n_estimators=400, learning_rate=0.05, max_depth=4, random_state=0, **params).fit(X, y)
        found.append(
            [_uncertainty.multinomial(model._member_raw(rows, 8)[1]).knowledge.mean() for rows in (X, outside)]
        )
    plain, cyclical, masked = np.array(found)
    assert np.all(cyclical > 2 * plain)
    assert masked[0] > cyclical[0]


hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(
    loss=st.sampled_from(LOSSES),
    length=st.integers(1, 9),
    exploration=st.sampled_from([0.0, 0.4, 1.0]),
    fraction=st.sampled_from([1e-9, 0.5, 1 - 1e-9]),
    subsample=st.sampled_from([0.4, 1.0]),
    form=st.sampled_from(["clamp", "affine"]),
    averaging=st.sampled_from(["last", "mean"]),
    weights=st.sampled_from(["none", "whole", "fractional", "both"]),
    case=st.integers(0, 1000),
)
def test_any_schedule_gives_a_finite_model(
    loss, length, exploration, fraction, subsample, form, averaging, weights, case
):  # fmt: skip
    X, y = make_data(loss, case, n=30)
    rng = np.random.default_rng(case)
    whole, real = rng.integers(1, 5, 30).astype(float), rng.uniform(0.1, 3, 30)
    mixed = np.where(rng.random(30) < 0.5, whole, real)
    weight = {"none": None, "whole": whole, "fractional": real, "both": mixed}[weights]
    model = make_estimator(
        loss, schedule="cyclical", cycle_length=length, exploration_fraction=exploration, bootstrap_fraction=fraction,
        subsample=subsample, schedule_form=form, averaging=averaging, grow_policy=POLICIES[case % 3],
    )  # fmt: skip
    if loss in CLASSIFICATION_LOSSES and case % 2:
        model.set_params(class_weight="balanced")
    told = predictions(model.fit(X, y, weight), X)
    assert all(np.isfinite(values).all() for name, values in told.items() if name != "predict")
    if 12 // length >= 2:
        ends = range(length, 13, length)
        assert model.predict_uncertainty(X).member_iterations.tolist() == list(ends)
