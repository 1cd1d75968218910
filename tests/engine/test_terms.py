"""Search of main effects: best trees against enumeration, missing cells, levels, monotone directions, random cuts."""

import hashlib
import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import ebm
from oracles.ebm_fit import uniform

import skboost
from skboost._engine import terms

SEPARATE, GAIN, LOW, HIGH = range(4)
MODES = {"separate": SEPARATE, "gain": GAIN, "low": LOW, "high": HIGH}
every_mode = pytest.mark.parametrize("missing", MODES)


def make_sums(n_cells, n_outputs=1, seed=0, gaps=0.2, newton=True, missing=True):
    """Return (G, H, W) with empty cells; the last cell, that of unseen levels, is one."""
    rng = np.random.default_rng([seed, n_cells, n_outputs])
    W = rng.integers(1, 20, n_cells) * (rng.random(n_cells) >= gaps) * 1.0
    W[-1] = 0
    W[0] = 7.0 if missing else 0.0
    G = rng.normal(size=(n_outputs, n_cells)) * W
    H = rng.uniform(0.1, 0.9, (n_outputs, n_cells)) * W if newton else W[None].copy()
    return G, H, W


def stacked(G, H, W):
    return np.concatenate([G, H, W[None]])


def draws(key):
    return lambda counter, n: int(uniform(key, counter) * n)


def assert_same_tree(sums, nominal=False, monotone=0, key=0, tolerance=1e-12, **rules):
    """The search and its twin find the same tree; returns it."""
    given = ebm.Rules(**{"min_samples_leaf": 4, "min_cat_samples": 0} | rules)
    wanted, wanted_gain = ebm.search_main(stacked(*sums), given, nominal, monotone, draws(key))
    u, gain = terms.search(
        *sums,
        nominal=nominal,
        monotone=monotone,
        key=key,
        max_leaves=given.max_leaves,
        missing=MODES[given.missing],
        min_samples_leaf=given.min_samples_leaf,
        min_hessian=given.min_hessian,
        l2_regularization=given.l2,
        min_cat_samples=given.min_cat_samples,
        cat_smooth=given.cat_smooth,
    )
    assert_allclose(gain, wanted_gain, rtol=tolerance, atol=tolerance)
    assert_allclose(u, wanted, rtol=tolerance, atol=tolerance)
    return u, gain


def change_points(u):
    return np.flatnonzero((u[:, 1:] != u[:, :-1]).any(axis=0)).tolist()


# ---------------------------------------------------------------- numeric terms


def exact_stump(g, w, l2, least):
    """Best cut of a line of integer sums in rational arithmetic: (gain, all cuts that reach it)."""

    def score(part):
        total, weight = sum(Fraction(int(v)) for v in g[part]), sum(int(v) for v in w[part])
        return total * total / (weight + Fraction(l2)) if weight else Fraction(0)

    gains = {}
    for cut in range(1, len(g)):
        sides = slice(None, cut), slice(cut, None)
        if min(w[s].sum() for s in sides) >= max(1, least):
            gains[cut] = sum(map(score, sides)) - score(slice(None))
    top = max(gains.values(), default=Fraction(0))
    return max(top, Fraction(0)), [cut for cut, gain in gains.items() if gain == top > 0]


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("weights", ["own", "of H"])
@pytest.mark.parametrize(("l2", "least"), [(0, 0), (3, 0), (0, 9), (1, 40)])
@pytest.mark.parametrize("n_cells", [2, 3, 4, 9, 10, 11, 33])
def test_stump_is_the_best_of_all(n_cells, l2, least, weights, cached, seed):
    G, _, W = make_sums(n_cells, seed=seed, newton=False, missing=False)
    G = np.rint(4 * G)
    gain, cuts = exact_stump(G[0, 1:-1], W[1:-1], l2, least)
    u, found = terms.search(
        G, None if weights == "of H" else W[None], W, min_samples_leaf=least, l2_regularization=l2, cached=cached
    )
    assert_allclose(found, float(gain), rtol=1e-11, atol=1e-11)
    if not cuts:
        assert change_points(u) == []
        assert_allclose(u, -G.sum() / (W.sum() + l2) if W.sum() else 0, atol=1e-15)
        return
    assert change_points(u)[0] in cuts
    low = np.arange(n_cells) <= change_points(u)[0]
    for part in (low, ~low):
        assert_allclose(u[0, part], -G[0, part].sum() / (W[part].sum() + l2), rtol=1e-12)


@every_mode
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("max_leaves", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("n_cells", [3, 4, 8, 41])
def test_trees_match_the_twin(missing, n_outputs, max_leaves, n_cells, seed):
    sums = make_sums(n_cells, n_outputs, seed)
    assert_same_tree(sums, missing=missing, max_leaves=max_leaves)
    assert_same_tree(sums, missing=missing, max_leaves=max_leaves, min_samples_leaf=23, l2=0.7, min_hessian=3.0)


@every_mode
@pytest.mark.parametrize("max_leaves", [2, 4])
def test_what_is_cached_changes_nothing(missing, max_leaves, seed):
    G, _, W = make_sums(57, seed=seed, newton=False)
    rules = {"missing": MODES[missing], "max_leaves": max_leaves, "min_samples_leaf": 11, "l2_regularization": 0.5}
    plain = terms.search(G, W[None], W, **rules)
    for H in (None, W[None].copy()):
        u, gain = terms.search(G, H, W, cached=True, **rules)
        assert_array_equal(u, plain[0])
        assert_allclose(gain, plain[1], rtol=1e-12)


def test_missing_is_a_leaf_of_its_own_however_light():
    G, H, W = make_sums(12, gaps=0)
    W[0] = H[0, 0] = 0.5
    G[0, 0] = -3.0
    u, gain = terms.search(G, H, W, min_samples_leaf=4)
    assert u[0, 0] == 6.0
    rest, rest_gain = terms.search(*(a.copy() for a in (G, H, np.r_[0, W[1:]])), min_samples_leaf=4)
    assert_array_equal(u[0, 1:], rest[0, 1:])
    assert gain > rest_gain


@pytest.mark.parametrize(("missing", "end"), [("low", 1), ("high", 10)])
def test_missing_takes_part_in_the_line(missing, end):
    """The missing cell has the gradient of one end, so it joins that end where it lies there."""
    W = np.r_[5.0, np.full(10, 10.0), 0]
    G = np.zeros((1, 12))
    G[0, 0], G[0, end] = -50.0, -100.0
    u, _ = terms.search(G, None, W, missing=MODES[missing])
    assert u[0, 0] == u[0, end] == 10.0
    u, _ = terms.search(G, None, W, missing=MODES["high" if missing == "low" else "low"])
    assert u[0, 0] != u[0, end]
    u, _ = terms.search(G, None, W, missing=GAIN)
    assert u[0, 0] == u[0, end] == 10.0


@every_mode
def test_one_value_cell_and_missing(missing):
    """Nothing but missing against the rest is left to cut."""
    G, W = np.array([[-6.0, 4.0, 0.0]]), np.array([3.0, 8.0, 0.0])
    u, gain = terms.search(G, None, W, missing=MODES[missing])
    assert_array_equal(u, [[2.0, -0.5, -0.5]])
    assert_allclose(gain, 12 + 2 - 4 / 11)


def test_cells_without_rows_copy_their_neighbours():
    G, H, W = make_sums(30, seed=5, gaps=0.6, missing=False)
    W[[1, 28]] = G[0, [1, 28]] = H[0, [1, 28]] = 0
    u, gain = terms.search(G, H, W, max_leaves=4)
    assert gain > 0
    assert u[0, 0] == u[0, 1]
    assert u[0, -1] == u[0, -2]
    assert len(change_points(u)) == 3


def test_empty_cells_are_never_leaves():
    """Sums over cells without rows are exactly 0, so no rounding of sums makes a leaf of them."""
    rng = np.random.default_rng(0)
    for n in range(3, 80):
        W = rng.random(n) * (rng.random(n) < 0.3)
        W[[0, -1]] = 0
        G = rng.normal(size=(1, n)) * W
        u, _ = terms.search(G, None, W, max_leaves=n, min_samples_leaf=0.0, cached=bool(n % 2))
        for group in np.split(np.arange(n), np.add(change_points(u), 1)):
            assert W[group].sum() > 0 or not W.any()


@pytest.mark.parametrize("nominal", [False, True])
def test_small_leaves_beside_large_ones_keep_their_digits(nominal):
    """As differences of sums over the line they would have none."""
    rng = np.random.default_rng(0)
    W = np.r_[0, np.full(20, 1e6), 5.0, 0]
    H = np.r_[0, 1e6 * rng.random(20), 1e-8, 0][None]
    G = np.r_[0, 1e6 * rng.normal(size=20), -1.0, 0][None]
    u, _ = terms.search(G, H, W, nominal=nominal, max_leaves=4)
    assert_allclose(u[0, 21], 1e8, rtol=1e-14)


def test_equal_cuts_are_drawn_evenly():
    """Two full cells apart: every boundary between them is as good."""
    W = np.array([0, 4.0, 0, 0, 0, 4.0, 0])
    G = np.array([[0, 8.0, 0, 0, 0, -8.0, 0]])
    counts = np.bincount(
        [change_points(terms.search(G, None, W, key=k * 7919)[0])[0] for k in range(4000)], minlength=6
    )
    assert counts[[0, 5]].sum() == 0
    assert np.abs(counts[1:5] - 1000).max() < 150


def test_equal_sides_of_the_missing_cell_are_drawn_evenly():
    W, G = np.array([2.0, 4.0, 4.0, 0]), np.array([[0.0, 8.0, -8.0, 0]])
    left = [terms.search(G, None, W, missing=GAIN, key=k * 104729)[0] for k in range(2000)]
    assert abs(sum(u[0, 0] == u[0, 1] for u in left) - 1000) < 150
    assert all(u[0, 0] in (u[0, 1], u[0, 2]) for u in left)


def test_nothing_to_gain():
    W = np.r_[3.0, np.full(8, 5.0), 0]
    for G, value in ((np.zeros((1, 10)), 0.0), (-W[None] / 2, 0.5)):
        for rules in ({}, {"nominal": True}, {"max_leaves": 5, "missing": GAIN}):
            u, gain = terms.search(G, None, W, **rules)
            assert gain == 0.0
            assert_array_equal(u, value)
    u, gain = terms.search(np.zeros((2, 10)), np.zeros((2, 10)), np.zeros(10))
    assert gain == 0.0
    assert_array_equal(u, 0.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e308])
def test_sums_beyond_numbers_do_no_harm(bad):
    G, H, W = make_sums(20)
    G[0, 4], G[0, 9] = bad, -bad
    for rules in ({}, {"nominal": True}, {"max_leaves": 9, "missing": GAIN}, {"monotone": 1}):
        u, gain = terms.search(G, H, W, **rules)
        assert u.shape == (1, 20)
        assert 0 <= gain < np.inf


# ---------------------------------------------------------------- nominal terms


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("max_leaves", [2, 3, 6])
@pytest.mark.parametrize("rare", [0, 9, 15, 25])
@pytest.mark.parametrize("n_cells", [2, 3, 4, 12, 60])
def test_levels_match_the_twin(n_outputs, max_leaves, rare, n_cells, seed):
    sums = make_sums(n_cells, n_outputs, seed)
    for key in range(3):
        assert_same_tree(sums, nominal=True, max_leaves=max_leaves, min_cat_samples=rare, cat_smooth=5.0, key=key)


def test_levels_are_split_wherever_they_lie():
    """The best two groups of levels are neighbours in the order of their means."""
    rng = np.random.default_rng(1)
    W = np.r_[0, rng.integers(5, 30, 9), 0].astype(float)
    G = rng.normal(size=(1, 11)) * W
    u, gain = terms.search(G, None, W, nominal=True)
    best = 0.0
    for code in range(1, 2**8):
        left = np.flatnonzero([code >> i & 1 for i in range(9)]) + 1
        right = np.setdiff1d(np.arange(1, 10), left)
        score = sum(G[0, part].sum() ** 2 / W[part].sum() for part in (left, right))
        best = max(best, score - G.sum() ** 2 / W.sum())
    assert_allclose(gain, best, rtol=1e-12)
    assert len(np.unique(u[0, 1:])) == 2


def test_rare_levels_stay_together_on_the_better_side():
    W = np.array([0, 2.0, 20, 20, 2, 3, 0])
    G = np.array([[0, -8.0, -60, 60, -6, 9, 0]])
    u, _ = terms.search(G, None, W, nominal=True, min_cat_samples=10)
    assert u[0, 1] == u[0, 2] == u[0, 4] == u[0, 5] > 0 > u[0, 3]
    u, _ = terms.search(-G, None, W, nominal=True, min_cat_samples=10)
    assert u[0, 1] == u[0, 2] == u[0, 4] == u[0, 5] < 0 < u[0, 3]
    u, gain = terms.search(G, None, W, nominal=True, min_cat_samples=25)
    assert gain == 0.0
    assert_allclose(u, -G.sum() / W.sum())


def test_levels_that_a_bag_lacks_stay_neutral():
    """They go with the rare ones, or else get what one leaf over all levels would get."""
    W = np.array([0, 20.0, 0, 20, 2, 0])
    G = np.array([[0, -60.0, 0, 80, -6, 0]])
    u, _ = terms.search(G, None, W, nominal=True, min_cat_samples=10)
    assert u[0, 2] == u[0, 4] == u[0, 1]
    u, _ = terms.search(G, None, W, nominal=True)
    assert_allclose(u[0, 2], -G.sum() / W.sum())


def test_missing_is_a_level():
    W, G = np.array([20.0, 20, 20, 20, 0]), np.array([[-60.0, 50, -70, 60, 0]])
    for missing in MODES.values():
        u, _ = terms.search(G, None, W, nominal=True, missing=missing)
        assert u[0, 0] == u[0, 2] > 0 > u[0, 1] == u[0, 3]


# ---------------------------------------------------------------- monotone terms


@every_mode
@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("max_leaves", [2, 3, 5, 9])
def test_every_tree_follows_its_direction(missing, direction, max_leaves, seed):
    for case in range(12):
        sums = make_sums(24, seed=100 * seed + case)
        u, _ = assert_same_tree(sums, monotone=direction, missing=missing, max_leaves=max_leaves, min_samples_leaf=8)
        assert (direction * np.diff(u[0, 1:]) >= 0).all()


def test_a_direction_that_the_data_follow_costs_nothing():
    W = np.r_[0, np.full(20, 5.0), 0]
    G = -W[None] * np.r_[0, np.linspace(-1, 1, 20) ** 3, 0]
    for leaves in (2, 4):
        free = terms.search(G, None, W, max_leaves=leaves)
        bound = terms.search(G, None, W, max_leaves=leaves, monotone=1)
        assert_allclose(bound[0], free[0], rtol=1e-12)
        assert_allclose(bound[1], free[1], rtol=1e-12)
        assert terms.search(G, None, W, max_leaves=leaves, monotone=-1)[1] == 0.0


# ---------------------------------------------------------------- random cuts


@pytest.mark.parametrize("nominal", [False, True])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("max_leaves", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("n_cells", [2, 3, 4, 19])
def test_random_updates_match_the_twin(n_cells, max_leaves, n_outputs, nominal, seed):
    rules = ebm.Rules(max_leaves=max_leaves, l2=0.3)
    for missing in (False, True):
        sums = make_sums(n_cells, n_outputs, seed, missing=missing)
        for key in range(5):
            cuts, u = terms.random_update(*sums, nominal=nominal, max_leaves=max_leaves, l2_regularization=0.3, key=key)
            wanted = ebm.random_cuts(stacked(*sums), max_leaves, lambda counter, key=key: uniform(key, counter))
            assert cuts.tolist() == wanted
            assert_allclose(u, ebm.cut_main(stacked(*sums), wanted, rules), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("max_leaves", [2, 4])
def test_every_boundary_is_drawn_alike(missing, max_leaves):
    """Boundaries lie between the cells that may hold rows, empty ones too."""
    sums = make_sums(9, missing=missing, gaps=0.5)
    drawn = [terms.random_update(*sums, max_leaves=max_leaves, key=k * 15485863)[0] for k in range(3000)]
    assert all(len(set(cuts)) == max_leaves - 1 for cuts in drawn)
    counts = np.bincount(np.concatenate(drawn), minlength=9)
    possible = np.arange(0 if missing else 1, 7)
    assert counts.sum() == counts[possible].sum()
    share = 3000 * (max_leaves - 1) / len(possible)
    assert np.abs(counts[possible] - share).max() < 5 * np.sqrt(share)


@pytest.mark.parametrize("direction", [1, -1])
def test_random_cuts_against_the_direction_are_dropped(direction):
    whole = 0
    for key in range(60):
        G, H, W = make_sums(16, seed=key)
        cuts, u = terms.random_update(G, H, W, max_leaves=3, monotone=direction, key=key)
        values = u[0, 1:] if cuts[:1] == [0] else u[0]
        assert (direction * np.diff(values) >= 0).all()
        if len(np.unique(u)) == 1:
            whole += 1
            assert_allclose(u, -G.sum() / H.sum(), rtol=1e-12)
    assert 10 < whole < 55


# ---------------------------------------------------------------- bad input, instruction sets


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W": np.ones(3)}, "W"),
        ({"G": np.ones((1, 1)), "H": np.ones((1, 1)), "W": np.ones(1)}, "G must have"),
        ({"H": np.ones((2, 12))}, "H must have"),
        ({"monotone": 2}, "monotone"),
        ({"monotone": 1, "nominal": True}, "monotone"),
        ({"max_leaves": 0}, "max_leaves"),
        ({"missing": 4}, "missing"),
        ({"G": np.ones((2, 12)), "H": None}, "one output"),
    ],
)
def test_shapes_and_rules_are_checked(change, message):
    given = dict(zip("GHW", make_sums(12), strict=True)) | change
    with pytest.raises(ValueError, match=message):
        terms.search(given.pop("G"), given.pop("H"), given.pop("W"), **given)


DIGEST = """
import hashlib
import numpy as np
from skboost._engine import terms
digest = hashlib.sha256()
rng = np.random.default_rng(0)
for n in [2, 3, 4, 7, 8, 9, 10, 11, 17, 100, 1023]:
    for C in (1, 3):
        W = rng.integers(0, 30, n) * 1.0
        G, H = rng.normal(size=(C, n)) * W, rng.random((C, n)) * W
        for nominal in (False, True):
            for missing in range(4):
                rules = dict(nominal=nominal, missing=missing, max_leaves=4, min_samples_leaf=4, min_cat_samples=9)
                u, gain = terms.search(G, H, W, **rules)
                digest.update(u.tobytes() + np.float64(gain).tobytes())
                if C == 1:
                    for cached in (False, True):
                        u, gain = terms.search(G, None, W, cached=cached and not nominal, **rules)
                        digest.update(u.tobytes() + np.float64(gain).tobytes())
                    if not nominal:
                        digest.update(terms.search(G, H, W, monotone=1, **rules)[0].tobytes())
print(digest.hexdigest())
"""


def digest_at(level):
    environment = os.environ | {"SKBOOST_ISA": level, "PYTHONPATH": str(Path(skboost.__file__).parents[1])}
    command = [sys.executable, "-c", DIGEST]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_bits_do_not_depend_on_the_instruction_set():
    found = digest_at("2")
    assert len(found.strip()) == len(hashlib.sha256().hexdigest())
    assert digest_at("0") == found
    assert digest_at("1") == found


@pytest.mark.parametrize(
    "limit", ["min_samples_leaf", "min_hessian", "l2_regularization", "min_cat_samples", "cat_smooth"]
)
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_limits_that_make_no_sense_are_refused(limit, value):
    with pytest.raises(ValueError, match="finite and at least 0"):
        terms.search(np.ones((1, 5)), np.ones((1, 5)), np.ones(5), **{limit: value})
