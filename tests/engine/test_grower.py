"""Tree growth against the slow twin, and the laws that hold bit for bit."""

import ctypes
import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles.grower import DEPTHWISE, LOSSGUIDE, SYMMETRIC, leaf_of_rows
from oracles.problems import LOSSES, make_noise, make_problem, weight_arrays

import skboost

POLICIES = {"symmetric": SYMMETRIC, "depthwise": DEPTHWISE, "lossguide": LOSSGUIDE}
WEIGHTS = [None, "integer", "fractional", "class"]
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def assert_same_tree(tree, expected):
    """The twin's tree: tests, order of nodes and weights exactly, values and gains to rounding."""
    assert tree.keys() == expected.keys()
    for key, value in expected.items():
        assert tree[key].dtype == value.dtype, key
        if key == "gain":
            largest = np.abs(value).max(initial=0)
            assert_allclose(tree[key], value, rtol=1e-7, atol=1e-9 * max(1.0, largest), err_msg=key)
        elif key in ("leaf_value", "coin_value"):
            assert_allclose(tree[key], value, rtol=1e-12, atol=1e-14 * np.abs(value).max(initial=0), err_msg=key)
        else:
            assert_array_equal(tree[key], value, err_msg=key)


def assert_identical(trees, others):
    assert len(trees) == len(others)
    for tree, other in zip(trees, others, strict=True):
        for key in tree:
            assert_array_equal(tree[key], other[key], err_msg=key, strict=True)


def chain(problem, n_trees=4, n_threads=1, first=0, trainer=None, **step):
    """Grow some trees; return them and the scores of the rows."""
    trainer = trainer or problem.trainer(n_threads)
    return [trainer.grow(first + i, 3, **step) for i in range(n_trees)], trainer.scores


def compare_with_twin(problem, steps, seed=0, n_threads=1):
    """Grow the steps (arguments of grow) with engine and twin."""
    trainer, twin = problem.trainer(n_threads), problem.twin()
    for iteration, step in enumerate(steps):
        assert_same_tree(trainer.grow(iteration, seed, **step), twin.grow(iteration, seed, **step))
        assert_allclose(trainer.scores, twin.scores, rtol=1e-12, atol=1e-13)


# ---------------------------------------------------------------- against the twin


@every_policy
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("newton", [False, True], ids=["gradient", "newton"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("noise", [False, True], ids=["quiet", "noise"])
def test_trees_are_those_of_the_twin(policy, loss, newton, weights, noise, seed):
    unit = 1024 if weights == "fractional" else 1
    problem = make_problem(
        seed, loss, n=70, weights=weights, noise=noise, policy=policy, newton=newton, max_depth=4, min_weight=4 * unit,
        categorical=[0, 1], max_leaves=7 if policy == LOSSGUIDE else 2**30,
    )  # fmt: skip
    compare_with_twin(problem, [{"sigma": 0.4 * noise, "shrink": 0.9}] * 3, seed)


def random_rules(rng, policy, loss, newton, weights, n_bins):
    """Rules of every kind at once."""
    n_features = len(n_bins)
    rules = {
        "policy": policy, "newton": newton, "max_depth": int(rng.integers(0, 6)),
        "l2": float(rng.choice([0.01, 1, 30])),
        "min_weight": int(rng.choice([1, 2, 5, 12])) * (1024 if weights == "fractional" else 1),
        "learning_rate": float(rng.choice([0.05, 1.0])), "curvature": float(rng.choice([1.0, 0.25])),
        "categorical": np.flatnonzero(rng.random(n_features) < 0.3),
    }  # fmt: skip
    unproven = policy == SYMMETRIC and (newton or weights == "class")
    if policy == LOSSGUIDE or (rng.random() < 0.3 and not unproven):
        rules["max_leaves"] = int(rng.integers(1, 9))
    if LOSSES[loss][1] == 1 and rng.random() < 0.3:
        rules["monotone"] = rng.integers(-1, 2, n_features).astype(np.int8)
        rules["monotone"][rules["categorical"]] = 0
    if rng.random() < 0.3:
        rules["groups"] = (rng.random((int(rng.integers(1, 4)), n_features)) < 0.6).astype(np.uint8)
    return rules | random_prior(rng, n_bins, rules["categorical"])


def random_prior(rng, n_bins, categorical):
    """How often splits are drawn, the cuts that they prefer, and whether ties are spread."""
    rules = {"prior_rate": float(rng.choice([0, 0.3, 1])), "spread_ties": bool(rng.random() < 0.5)}
    if rng.random() < 0.5:
        rules |= {"prior_bins": random_prior_bins(rng, n_bins, categorical), "prior_share": float(rng.choice([0.5, 1]))}
    return rules


def random_prior_bins(rng, n_bins, categorical):
    """Some last left bins of the numeric features, padded as the engine takes them."""
    bins, count = np.zeros((len(n_bins), 128), dtype=np.uint8), np.zeros(len(n_bins), dtype=np.int32)
    for feature in set(range(len(n_bins))) - set(categorical.tolist()):
        cuts = np.arange(1, n_bins[feature] - 1)
        count[feature] = rng.integers(0, min(len(cuts), 5) + 1)
        bins[feature, : count[feature]] = np.sort(rng.choice(cuts, count[feature], False)) if count[feature] else 0
    return bins, count


def random_step(rng, problem):
    """Noise, shrinkage, columns and rows of one tree."""
    n, n_features = problem.codes.shape
    step = {
        "sigma": float(rng.choice([0, 0.3, 3])), "shrink": float(rng.choice([1, 0.9])),
        "gradient_scale": float(rng.choice([1, 5])),
    }  # fmt: skip
    if rng.random() < 0.4:
        step["features"] = np.sort(rng.choice(n_features, rng.integers(1, n_features + 1), False)).astype(np.int32)
    if rng.random() < 0.4:
        kept = rng.random(n) < 0.6
        step["units"] = np.where(kept, 1 if problem.weights is None else problem.weights["units"], 0).astype(np.uint32)
        if problem.weights is not None and problem.weights["counts"] is not None:
            step["counts"] = np.where(kept, problem.weights["counts"], 0).astype(np.uint32)
    if rng.random() < 0.4:
        step["mask"] = random_mask(rng, problem, step)
    return step


def random_mask(rng, problem, step):
    """Some copies of each row; a row of a whole-number weight is so many copies, others are one."""
    n, weights = len(problem.codes), problem.weights
    n_copies = weights["units"].astype(int) if weights is not None and weights["integer"] else np.ones(n, dtype=int)
    kept = rng.integers(0, n_copies + 1)
    units = step.get("units", np.ones(n, dtype=np.uint32) if weights is None else weights["units"])
    one = None if weights is None else weights["weight"] / n_copies
    kept_units = (units // n_copies * kept).astype(np.uint32)
    return {"kept": kept.astype(np.uint32), "units": kept_units, "counts": None, "copy_weight": one}


def fuzz(rng, n, n_bins, policy, loss, newton, weights, n_threads=1):
    rules = random_rules(rng, policy, loss, newton, weights, n_bins)
    problem = make_problem(int(rng.integers(2**31)), loss, n, n_bins, weights=weights, noise=True, **rules)
    steps = [random_step(rng, problem) for _ in range(2)]
    compare_with_twin(problem, steps, int(rng.integers(2**31)), n_threads)


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**31),
    n=st.sampled_from([1, 2, 3, 8, 17, 40, 90]),
    n_bins=st.lists(st.sampled_from([1, 2, 3, 5, 6, 20, 256]), min_size=1, max_size=6),
    policy=st.sampled_from([*POLICIES.values()]),
    loss=st.sampled_from([*LOSSES]),
    newton=st.booleans(),
    weights=st.sampled_from(WEIGHTS),
)
def test_any_rules_on_small_tables(seed, n, n_bins, policy, loss, newton, weights):
    fuzz(np.random.default_rng(seed), n, n_bins, policy, loss, newton, weights)


@every_policy
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("newton", [False, True], ids=["gradient", "newton"])
def test_any_rules_on_two_threads(policy, loss, newton, seed):
    """Threads own blocks of 1024 rows, so these tables are larger."""
    rng = np.random.default_rng([seed, policy, newton])
    fuzz(rng, 2100, (20, 3, 256, 6, 40), policy, loss, newton, WEIGHTS[rng.integers(4)], n_threads=2)


@every_policy
@pytest.mark.parametrize("constraint", ["monotone", "groups", "both"])
@pytest.mark.parametrize("newton", [False, True])
def test_constraints(policy, constraint, newton, seed):
    """Constraints that bind: the target disagrees with them."""
    rng = np.random.default_rng([seed, policy])
    for _ in range(8):
        rules = {}
        if constraint != "groups":
            rules["monotone"] = rng.integers(-1, 2, 4).astype(np.int8)
        if constraint != "monotone":
            rules["groups"] = (rng.random((3, 4)) < 0.6).astype(np.uint8)
        problem = make_problem(
            int(rng.integers(2**31)), "binary", 120, (12, 7, 30, 5), policy=policy, newton=newton, max_depth=4,
            max_leaves=2**30 if policy == SYMMETRIC else 9, min_weight=int(rng.integers(1, 6)), noise=True, **rules,
        )  # fmt: skip
        compare_with_twin(problem, [{"sigma": 0.3}] * 2)


def test_a_level_with_more_splits_than_leaves_left(seed):
    """Depthwise: the smallest gains give way; of equal ones the last node."""
    codes = np.array([[a, b] for a in (1, 2, 3, 4) for b in (1, 2)] * 5, dtype=np.uint8)
    problem = make_problem(seed, n=40, n_bins=(5, 3), max_depth=3, max_leaves=6, l2=0.0)
    problem.codes, problem.base = codes, np.zeros(1)
    problem.y = 8.0 * codes[:, 0] + codes[:, 1]
    tree, expected = problem.trainer().grow(0, 0), problem.twin().grow(0, 0)
    assert_same_tree(tree, expected)
    assert tree["feature"].tolist() == [0, 0, 0, 1, 1]
    assert tree["left"].tolist() == [1, 3, ~0, ~2, ~4]


@pytest.mark.parametrize("n_outputs", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("newton", [False, True])
@every_policy
def test_any_number_of_outputs(n_outputs, newton, policy):
    problem = make_problem(5, "multinomial", n=80, policy=policy, newton=newton, max_depth=3, max_leaves=6)
    problem.loss.n_outputs = n_outputs
    problem.y = np.random.default_rng(n_outputs).integers(0, n_outputs, 80).astype(float)
    problem.base = np.linspace(-0.2, 0.2, n_outputs)
    compare_with_twin(problem, [{}] * 2)


# ---------------------------------------------------------------- any shape


def assert_true_to_rows(problem, trainer, tree, before, shrink=1.0):
    """Scores moved by the values of the leaves that the tests lead to, and leaves weigh what their rows weigh."""
    leaf = leaf_of_rows(tree, problem.codes)
    assert leaf.min() >= 0
    assert leaf.max() < len(tree["leaf_value"])
    values = np.column_stack([tree["leaf_value"], *([tree["coin_value"]] if "coin_value" in tree else [])])
    assert_array_equal(trainer.scores, before * shrink + values[leaf].T)
    weight, step = np.ones(len(leaf)), 0.0
    if problem.weights is not None:
        weight, step = problem.weights["weight"], 2.0**-31 / problem.weights["scale"]
    expected = np.bincount(leaf, weight, len(tree["leaf_value"]))
    assert_allclose(tree["leaf_weight"], expected, rtol=1e-12, atol=step * len(leaf))
    assert np.all(np.isfinite(tree["leaf_value"]))
    assert np.all(tree["gain"] >= 0 if problem.rules.prior_rate else tree["gain"] > 0)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**31),
    n=st.sampled_from([1, 2, 5, 100, 1023, 1024, 1025, 3000]),
    n_features=st.sampled_from([1, 2, 7, 33, 65, 300]),
    kind=st.sampled_from(["random", "constant", "all missing", "distinct", "two values"]),
    policy=st.sampled_from([*POLICIES.values()]),
    loss=st.sampled_from([*LOSSES]),
    newton=st.booleans(),
    weights=st.sampled_from([*WEIGHTS, "tiny", "huge", "wild"]),
    n_threads=st.integers(1, 4),
    prior_rate=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
)
def test_any_shape_survives(seed, n, n_features, kind, policy, loss, newton, weights, n_threads, prior_rate):
    rng = np.random.default_rng(seed)
    bins = {"random": rng.integers(1, 257, n_features), "two values": np.full(n_features, 3)}
    n_bins = bins.get(kind, np.full(n_features, 256))
    problem = make_problem(
        seed, loss, n, n_bins, weights=weights if weights in WEIGHTS else None, noise=True, policy=policy,
        newton=newton, max_depth=5, max_leaves=10, l2=rng.choice([0.0, 1.0]), min_weight=int(rng.choice([1, 20])),
        categorical=np.flatnonzero(rng.random(n_features) < 0.2), prior_rate=prior_rate, spread_ties=prior_rate > 0,
    )  # fmt: skip
    if kind == "constant":
        problem.codes[:] = 7
    elif kind == "all missing":
        problem.codes[:] = 0
    elif kind == "distinct":
        problem.codes[:] = (np.arange(n)[:, None] + np.arange(n_features)) % 256
    if weights not in WEIGHTS:
        weight = {"tiny": np.full(n, 1e-12), "huge": np.full(n, 1e12), "wild": 10.0 ** rng.uniform(-9, 9, n)}[weights]
        problem.weights = weight_arrays(weight, 2.0 ** np.floor(np.log2(2.0**28 / weight.sum())), False)
        problem.rules.l2 = 1.0
    problem.noise = make_noise(problem.codes, problem.weights)
    trainer = problem.trainer(n_threads)
    for iteration in range(3):
        step = random_step(rng, problem) | {"sigma": float(rng.choice([0, 0.1]))}
        before = trainer.scores.copy()
        assert_true_to_rows(problem, trainer, trainer.grow(iteration, seed, **step), before, step["shrink"])


@pytest.mark.parametrize("value", [0.0, 1e-40, 1e-30, 1e30, 3e38, 1e300, np.inf, -np.inf, np.nan])
@every_policy
def test_targets_of_any_size_do_not_crash(value, policy):
    problem = make_problem(1, n=50, policy=policy, max_depth=3, categorical=[1])
    problem.y = np.where(np.arange(50) % 3, value, 1.0 if value == 0 else value / 2)
    tree = problem.trainer().grow(0, 0)
    if np.isfinite(value):
        assert np.all(np.isfinite(tree["leaf_value"])) or abs(value) > 1e38


# ---------------------------------------------------------------- laws, bit for bit


def large_problem(loss="squared", policy=DEPTHWISE, n=20000, **options):
    """Enough rows for histograms by rows on 5 threads and for more than one batch of a level."""
    rules = {"policy": policy, "max_depth": 9, "min_weight": 5, "max_leaves": 40 if policy == LOSSGUIDE else 2**30}
    rules |= options.pop("rules", {})
    return make_problem(11, loss, n, (200, 4, 30, 256, 60), noise=True, categorical=[1, 2], **options, **rules)


@every_policy
@pytest.mark.parametrize(
    ("loss", "newton", "weights"),
    [("squared", False, None), ("multinomial", False, "integer"), ("binary", True, "fractional"),
     ("gaussian", False, "class"), ("gaussian, coins", True, "class"), ("multinomial", True, None)],
)  # fmt: skip
def test_threads_do_not_matter(policy, loss, newton, weights):
    problem = large_problem(loss, policy, weights=weights, rules={"newton": newton, "max_depth": 6})
    trees, scores = chain(problem, 2, sigma=0.3, shrink=0.95)
    assert max(len(tree["leaf_value"]) for tree in trees) > 10
    for n_threads in (2, 3, 5):
        others, other_scores = chain(problem, 2, n_threads, sigma=0.3, shrink=0.95)
        assert_identical(trees, others)
        assert_array_equal(scores, other_scores)


@every_policy
@pytest.mark.parametrize("newton", [False, True], ids=["gradient", "newton"])
def test_splits_do_not_see_coins(policy, newton):
    """Nothing is fitted before the first tree, which is that without coins; the sign of all coins changes no tree."""
    options = {"policy": policy, "newton": newton, "max_depth": 4, "max_leaves": 12, "noise": True}
    problem, plain = (make_problem(1, loss, 300, **options) for loss in ("gaussian, coins", "gaussian"))
    trees = chain(problem, 6, sigma=0.3, shrink=0.95)[0]
    first = chain(plain, 1, sigma=0.3, shrink=0.95)[0][0]
    assert_identical([first], trees[:1])
    problem.coins = -problem.coins
    for tree, other in zip(trees, chain(problem, 6, sigma=0.3, shrink=0.95)[0], strict=True):
        assert_array_equal(tree.pop("coin_value"), -other["coin_value"])
        assert_identical([tree], [other])


def test_coins_go_with_the_gaussian_loss():
    problem = make_problem(0, "gaussian, coins")
    problem.coins = problem.coins[1:]
    with pytest.raises(ValueError, match="one entry per row"):
        problem.trainer()
    problem = make_problem(0, "squared")
    problem.coins = np.ones(60, dtype=np.float32)
    with pytest.raises(ValueError, match="gaussian loss"):
        problem.trainer()


def with_columns(problem, n_more):
    """Add columns of one value, so that histograms become too large to keep."""
    n, n_features = problem.codes.shape
    problem.codes = np.hstack([problem.codes, np.ones((n, n_more), dtype=np.uint8)])
    problem.n_bins = np.r_[problem.n_bins, np.full(n_more, 2)].astype(np.int32)
    problem.categorical = np.zeros(n_features + n_more, dtype=np.uint8)
    return problem


@pytest.mark.parametrize("n_threads", [1, 4])
def test_levels_of_more_nodes_than_a_batch(n_threads):
    """Also without subtraction: the parents' histograms were given away."""
    problem = make_problem(11, n=9000, n_bins=(256,) * 5, max_depth=15, l2=0.01, noise=True)
    trainer = problem.trainer(n_threads)
    tree = trainer.grow(0, 0, sigma=3.0)
    assert_true_to_rows(problem, trainer, tree, np.zeros_like(trainer.scores))
    assert max(level_widths(tree)) > 300
    wide = with_columns(make_problem(11, n=9000, n_bins=(256,) * 5, max_depth=15, l2=0.01), 1500)
    wide.noise = problem.noise
    assert_identical([tree], [wide.trainer(n_threads).grow(0, 0, sigma=3.0)])


def level_widths(tree):
    """Numbers of inner nodes of every level."""
    level, widths = [0], []
    while level:
        widths.append(len(level))
        level = [c for i in level for c in (tree["left"][i], tree["right"][i]) if c >= 0]
    return widths


@every_policy
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("newton", [False, True])
def test_row_order_does_not_matter(policy, weights, newton):
    problem = make_problem(
        2, "binary", 500, weights=weights, noise=True, policy=policy, newton=newton, max_depth=5, max_leaves=12,
        min_weight=6, categorical=[3],
    )  # fmt: skip
    order = np.random.default_rng(0).permutation(500)
    trees, scores = chain(problem, sigma=0.4, shrink=0.9)
    others, other_scores = chain(problem.take(order), sigma=0.4, shrink=0.9)
    assert_identical(trees, others)
    assert_array_equal(scores[:, order], other_scores)


@every_policy
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("newton", [False, True], ids=["gradient", "newton"])
@pytest.mark.parametrize("prior_rate", [0.0, 0.5], ids=["searched", "drawn"])
def test_integer_weights_are_repeated_rows(policy, loss, newton, prior_rate, seed):
    """Noise, missing values, leaf minimums, leaf numbers and all."""
    weighted = make_problem(
        seed, loss, 90, weights="integer", noise=True, policy=policy, newton=newton, max_depth=4, max_leaves=10,
        min_weight=7, categorical=[0, 3], prior_rate=prior_rate, spread_ties=prior_rate > 0,
    )  # fmt: skip
    weighted.codes[::2] = np.maximum(weighted.codes[::2], 1)
    weighted.noise = make_noise(weighted.codes, weighted.weights)
    rows = np.repeat(np.arange(90), weighted.weights["weight"].astype(int))
    rows = np.random.default_rng(seed).permutation(rows)
    repeated = weighted.take(rows)
    repeated.weights = None
    repeated.noise = make_noise(repeated.codes, None)
    trees, scores = chain(weighted, 5, sigma=0.5, shrink=0.9)
    others, other_scores = chain(repeated, 5, sigma=0.5, shrink=0.9)
    assert_identical(trees, others)
    assert_array_equal(scores[:, rows], other_scores)


@every_policy
def test_drawn_copies_of_a_weighted_row_are_drawn_rows(policy, seed):
    """Sub-sampling: a row of weight w of which k copies are drawn equals w rows of which k are drawn."""
    rng = np.random.default_rng([seed, 5])
    weighted = make_problem(seed, n=80, weights="integer", policy=policy, max_depth=4, max_leaves=8, min_weight=3)
    weighted.codes[rng.random(80) < 0.3, 0] = 0
    weight = weighted.weights["weight"].astype(int)
    rows = np.repeat(np.arange(80), weight)
    repeated = weighted.take(rows)
    repeated.weights = None
    one, many = weighted.trainer(), repeated.trainer()
    for iteration in range(4):
        drawn = (rng.random(len(rows)) < 0.4).astype(np.uint32)
        units = np.bincount(rows, drawn, 80).astype(np.uint32)
        assert_identical([one.grow(iteration, 0, units=units)], [many.grow(iteration, 0, units=drawn)])
    assert_array_equal(one.scores[:, rows], many.scores)


@every_policy
def test_more_trees_do_not_change_earlier_ones(policy):
    problem = make_problem(4, "binary", 300, noise=True, policy=policy, max_depth=4, max_leaves=9)
    few, few_scores = chain(problem, 3, sigma=0.3, shrink=0.9)
    trainer = problem.trainer()
    many, _ = chain(problem, 3, trainer=trainer, sigma=0.3, shrink=0.9)
    assert_array_equal(trainer.scores, few_scores)
    more, _ = chain(problem, 3, first=3, trainer=trainer, sigma=0.3, shrink=0.9)
    assert_identical(few, many)
    resumed = problem.trainer()
    resumed.scores[...] = few_scores
    assert_identical(chain(problem, 3, first=3, trainer=resumed, sigma=0.3, shrink=0.9)[0], more)


@every_policy
def test_powers_of_two_scale_through(policy):
    """y and noise times 2^10: the same tests, values times 2^10."""
    problem = make_problem(8, n=300, noise=True, policy=policy, max_depth=4, max_leaves=9)
    scaled = problem.take(np.arange(300))
    scaled.y, scaled.base = problem.y * 1024, problem.base * 1024
    trees, scores = chain(problem, sigma=0.3, shrink=0.9)
    others, other_scores = chain(scaled, sigma=0.3 * 1024, shrink=0.9)
    assert_array_equal(scores * 1024, other_scores)
    for tree, other in zip(trees, others, strict=True):
        assert_array_equal(tree["leaf_value"] * 1024, other["leaf_value"])
        assert_array_equal(tree["feature"], other["feature"])


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
sys.path.insert(0, sys.argv[2])
import hashlib
from oracles.problems import make_problem
from skboost._engine import langevin
digest = hashlib.sha256()
for policy in (0, 1, 2):
    for loss, newton, weights in (("squared", False, None), ("binary", True, "integer"), ("multinomial", True, None),
                                  ("multinomial", False, "class"), ("gaussian", False, "fractional")):
        problem = make_problem(1, loss, 1500, (200, 4, 30, 256), noise=True, policy=policy, newton=newton,
                               weights=weights, max_depth=5, max_leaves=20, min_weight=5, categorical=[1, 2],
                               prior_rate=0.4 * (loss != "squared"), spread_ties=loss != "squared")
        trainer = problem.trainer()
        for iteration in range(3):
            tree = trainer.grow(iteration, 1, sigma=0.3, shrink=0.9)
            for key in sorted(tree):
                digest.update(tree[key].tobytes())
        digest.update(trainer.scores.tobytes())
print(langevin.instruction_set(), digest.hexdigest())
"""


def test_instruction_sets_do_not_matter():
    tests = Path(__file__).parents[1]
    root = Path(skboost.__file__).parents[1]
    seen = {}
    for level in "012":
        answer = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tests), str(root)],
            env={**os.environ, "SKBOOST_ISA": level}, capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        seen[answer[0]] = answer[1]
    assert "0" in seen
    assert len(set(seen.values())) == 1


# ---------------------------------------------------------------- threads that do not come


def test_fewer_threads_than_asked_then_all_of_them():
    """Arrays that grew under one thread have to serve five."""
    name = ctypes.util.find_library("gomp")
    if name is None:
        pytest.skip("needs libgomp")
    library = ctypes.CDLL(name)
    problem = large_problem(rules={"max_depth": 10, "min_weight": 1})
    trees, _ = chain(problem, 3)
    trainer = problem.trainer(5)
    levels = library.omp_get_max_active_levels()
    library.omp_set_max_active_levels(0)
    try:
        others, _ = chain(problem, 1, trainer=trainer)
    finally:
        library.omp_set_max_active_levels(levels)
    others += chain(problem, 2, first=1, trainer=trainer)[0]
    assert_identical(trees, others)


# ---------------------------------------------------------------- what one call leaves for the next


@every_policy
def test_a_tree_without_noise_after_one_with_noise(policy):
    problem = make_problem(3, n=200, noise=True, policy=policy, max_depth=4, max_leaves=9)
    silent = make_problem(3, n=200, policy=policy, max_depth=4, max_leaves=9)
    trainer = problem.trainer()
    for _ in range(2):
        trainer.scores[...] = 0
        assert_identical([trainer.grow(0, 1)], [silent.trainer().grow(0, 1)])
        trainer.grow(1, 1, sigma=2.0)


@pytest.mark.parametrize("weights", ["integer", "class"])
def test_drawn_rows_are_those_of_one_tree(weights):
    problem = make_problem(6, n=150, weights=weights, max_depth=3, min_weight=4)
    trainer = problem.trainer()
    for kept in (np.arange(150) % 2, np.arange(150) < 3):
        units = (problem.weights["units"] * kept).astype(np.uint32)
        counts = None if weights == "integer" else (problem.weights["counts"] * kept).astype(np.uint32)
        trainer.grow(0, 0, units=units, counts=counts)
        trainer.scores[...] = 0
        assert_identical([trainer.grow(1, 0)], [problem.trainer().grow(1, 0)])


@every_policy
def test_rows_that_were_not_drawn_go_where_the_tree_sends_them(policy):
    """Also when a node has no drawn row with a missing value, but rows that were not drawn do miss it."""
    for seed in range(15):
        rng = np.random.default_rng(seed)
        problem = make_problem(seed, n=200, n_bins=(6, 6), policy=policy, max_depth=5, max_leaves=12, min_weight=2)
        problem.y += problem.codes[:, 0] % 3
        trainer = problem.trainer()
        units = ((rng.random(200) < 0.4) & (problem.codes[:, 0] > 0)).astype(np.uint32)
        tree = trainer.grow(0, 1, units=units)
        assert_true_to_rows(problem, trainer, tree, np.zeros((1, 200)))


# ---------------------------------------------------------------- refusals


def test_wrong_arguments_are_refused():
    problem = make_problem(0, n=50, weights="integer")
    trainer = problem.trainer()
    units = problem.weights["units"]
    with pytest.raises(ValueError, match="row hashes"):
        trainer.grow(0, 0, sigma=1.0)
    for features in ([1, 0], [0, 0], [-1, 0], [0, 4], []):
        with pytest.raises(ValueError, match="ascending"):
            trainer.grow(0, 0, features=np.array(features, dtype=np.int32))
    with pytest.raises(ValueError, match="one entry per row"):
        trainer.grow(0, 0, units=units[:-1])
    with pytest.raises(ValueError, match="counts"):
        trainer.grow(0, 0, units=units, counts=units)
    with pytest.raises(ValueError, match="counts"):
        trainer.grow(0, 0, counts=units)
    with pytest.raises(ValueError, match="counts"):
        make_problem(0, n=50, weights="class").trainer().grow(0, 0, units=units)
    with pytest.raises(ValueError, match="sum"):
        trainer.grow(0, 0, units=np.full(50, 2**28, dtype=np.uint32))
    with pytest.raises(ValueError, match="monotone"):
        make_problem(0, "gaussian", monotone=np.zeros(4, dtype=np.int8)).trainer()
    with pytest.raises(ValueError, match="groups"):
        make_problem(0, groups=np.ones((1, 3), dtype=np.uint8)).trainer()
    broken = make_problem(0, n=50, weights="integer")
    broken.weights["weight"] = broken.weights["weight"][1:]
    with pytest.raises(ValueError, match="one entry per row"):
        broken.trainer()
    with pytest.raises(ValueError, match="n_bins"):
        make_problem(0, n_bins=(9, 257, 3, 3)).trainer()
