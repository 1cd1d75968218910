"""Search of pairs against all trees one by one, its ties, and random cuts."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import pairs as oracle

import skboost
from skboost._engine import interactions


def make_sums(n_outputs, size, seed=0, empty=0.2, newton=True):
    """Return (G, H, W) of integer weights, with cells that hold none."""
    rng = np.random.default_rng([seed, n_outputs, *size])
    W = rng.integers(1, 6, size) * (rng.random(size) > empty) * 1.0
    G = rng.normal(size=(n_outputs, *size)) * W
    H = rng.uniform(0.05, 0.25, (n_outputs, *size)) * W if newton else np.broadcast_to(W, G.shape).copy()
    return G, H, W


SIZES = [(2, 2), (2, 9), (9, 2), (8, 8), (5, 17)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize(("leaf", "hessian", "l2"), [(0, 0, 0), (4, 0, 0.5), (0, 1.5, 0), (11, 0.7, 2.0)])
def test_best_of_all_trees(size, n_outputs, leaf, hessian, l2, seed):
    G, H, W = make_sums(n_outputs, size, seed)
    trees = oracle.all_trees(G, H, W, leaf, hessian, l2)
    u, gain, cut = interactions.search(
        G, H, W, min_samples_leaf=leaf, min_hessian=hessian, l2_regularization=l2, key=seed
    )
    best = max(trees.values(), default=0.0)
    assert_allclose(gain, max(best, 0.0), rtol=1e-11, atol=1e-12)
    if not gain:
        assert cut == ("whole", -1, -1)
        leaves = [np.ones(size, dtype=bool)]
    else:
        assert_allclose(trees[cut], best, rtol=1e-11)
        leaves = oracle.leaves_of(*cut, size)
    assert_allclose(u, oracle.update(G, H, leaves, l2), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("size", SIZES)
def test_weights_as_second_derivatives(size, seed):
    """Squared error: sums of one table bound leaves and divide."""
    G, H, W = make_sums(1, size, seed, newton=False)
    trees = oracle.all_trees(G, H, W, 5)
    u, gain, cut = interactions.search(G, H, None, min_samples_leaf=5)
    assert_allclose(gain, max(trees.values(), default=0.0), rtol=1e-11)
    again = interactions.search(G, H, W, min_samples_leaf=5)
    # Denominators of illegal leaves differ, and with them the rounding of the common one.
    assert_allclose(again[1], gain, rtol=1e-13)
    if gain:
        assert_allclose([trees[cut], trees[again[2]]], gain, rtol=1e-11)
        assert_allclose(u, oracle.update(G, H, oracle.leaves_of(*cut, size), 0.0), rtol=1e-12)


def test_no_legal_tree_gives_a_constant():
    G, H, W = make_sums(2, (5, 6))
    u, gain, cut = interactions.search(G, H, W, min_samples_leaf=W.sum() / 3 + 1)
    assert (gain, cut) == (0.0, ("whole", -1, -1))
    assert_allclose(u, np.broadcast_to((-G.sum((1, 2)) / H.sum((1, 2)))[:, None, None], G.shape), rtol=1e-13)
    for shape in ((1, 1, 5), (1, 5, 1), (1, 1, 1)):
        u, gain, cut = interactions.search(np.ones(shape), np.ones(shape), None)
        assert (gain, cut) == (0.0, ("whole", -1, -1))
        assert_array_equal(u, -1.0)


def test_cells_without_weight_take_the_value_of_their_leaf():
    """So the update has few change points whatever is empty."""
    G, H, W = make_sums(1, (9, 9), empty=0.5)
    G[:, [0, 8]] = H[:, [0, 8]] = W[[0, 8]] = 0
    u, gain, _ = interactions.search(G, H, W)
    assert gain > 0
    assert_array_equal(u[0, 8], u[0, 7])
    assert_array_equal(u[0, 0], u[0, 1])
    assert np.count_nonzero(np.diff(u[0], axis=0).any(axis=1)) == 1
    assert np.count_nonzero(np.diff(u[0], axis=1).any(axis=0)) == 1


def test_no_gradient_no_update():
    _, H, W = make_sums(2, (6, 6))
    u, gain, cut = interactions.search(np.zeros_like(H), H, W)
    assert (gain, cut) == (0.0, ("whole", -1, -1))
    assert_array_equal(u, 0.0)
    u, gain, _ = interactions.search(np.zeros_like(H), np.zeros_like(H), np.zeros_like(W))
    assert gain == 0
    assert_array_equal(u, 0.0)


def test_equal_trees_are_drawn_evenly():
    """The cells between two blocks of rows are empty: cuts there are equal, and so are the two orders of a tree."""
    G, W = np.zeros((1, 6, 2)), np.zeros((6, 2))
    W[[0, 5]] = 10.0
    G[0, 0, 0], G[0, 0, 1] = 10.0, -10.0
    cuts = [interactions.search(G, W[None], W, key=key)[2] for key in range(3000)]
    gains = {interactions.search(G, W[None], W, key=key)[1] for key in range(10)}
    assert len(gains) == 1
    tied = {(shape, a, 0) for shape in ("low rows",) for a in range(5)}
    assert set(cuts) == tied
    for cut in tied:
        # Binomial with mean 600 and deviation 22.
        assert abs(cuts.count(cut) - 600) < 120
    assert cuts == [interactions.search(G, W[None], W, key=key)[2] for key in range(3000)]


def parts_of(cut, W):
    """Return what a tree does to the cells with weight, without the names of its leaves."""
    return frozenset(tuple(leaf[W > 0]) for leaf in oracle.leaves_of(*cut, W.shape))


def equal_trees(cut, W):
    sizes = [range(n - 1) for n in W.shape]
    trees = [(shape, a, b) for shape in oracle.SHAPES for a in sizes[0] for b in sizes[1]]
    return {tree for tree in trees if parts_of(tree, W) == parts_of(cut, W)}


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("empty", [0.65, 0.8])
def test_trees_that_part_the_rows_alike_are_one(n_outputs, empty, seed):
    """All are drawn, by the key alone: the last bits of the sums have no say."""
    rng = np.random.default_rng(seed)
    n_equal = []
    for case in range(8):
        G, H, W = make_sums(n_outputs, (6, 7), [seed, case], empty, newton=n_outputs > 1)
        drawn = set()
        if interactions.search(G, H, W)[1] == 0:
            continue
        for key in range(120):
            cut = interactions.search(G, H, W, key=key)[2]
            for _ in range(3):
                shaken = [x * (1 + rng.uniform(-1, 1, x.shape) * 2.0**-50) for x in (G, H)]
                shaken[1] = shaken[1] if n_outputs > 1 else H
                assert interactions.search(*shaken, W, key=key)[2] == cut
            drawn.add(cut)
        wanted = equal_trees(cut, W)
        assert drawn <= wanted
        assert len(wanted) > 6 or drawn == wanted
        n_equal.append(len(wanted))
    assert max(n_equal) > 1


def test_both_orders_of_the_axes_are_one_tree():
    """Three corners hold rows: either axis may be cut first."""
    W = np.zeros((5, 4))
    W[0, 0], W[0, 3], W[4, 3] = 3.0, 4.0, 5.0
    G = W[None] * np.random.default_rng(0).normal(size=W.shape)
    cuts = [interactions.search(G, W[None], W, key=key)[2] for key in range(2400)]
    assert set(cuts) == {(shape, a, b) for shape in ("low rows", "high columns") for a in range(4) for b in range(3)}
    # Binomial with mean 100 and deviation 10.
    assert all(abs(cuts.count(cut) - 100) < 50 for cut in set(cuts))


def test_ties_of_different_parts_are_drawn_evenly(seed):
    """A symmetric table: the mirror image of the best tree is as good, whatever the rounding and the empty cells."""
    rng = np.random.default_rng(seed)
    W = np.tril(rng.integers(1, 6, (7, 7)) * (rng.random((7, 7)) > 0.4) * 1.0)
    G = np.tril(rng.normal(size=W.shape) * W)
    W, G = W + W.T, G + G.T
    found = []
    for key in range(600):
        cut = interactions.search(G[None], W[None], W, key=key)[2]
        shaken = G * (1 + rng.uniform(-1, 1, G.shape) * 2.0**-50)
        assert interactions.search(shaken[None], W[None], W, key=key)[2] == cut
        found.append(parts_of(cut, W))
    counts = sorted(found.count(parts) for parts in set(found))
    assert len(counts) == 2
    assert counts[0] > 220


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**-200, 2.0**300])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_scale_of_the_weights(scale, n_outputs):
    """Powers of two multiply everything exactly."""
    G, H, W = make_sums(n_outputs, (7, 7))
    u, gain, cut = interactions.search(G, H, W, min_samples_leaf=3, min_hessian=0.3, l2_regularization=0.5)
    options = {"min_samples_leaf": 3 * scale, "min_hessian": 0.3 * scale, "l2_regularization": 0.5 * scale}
    scaled = interactions.search(G * scale, H * scale, W * scale, **options)
    assert scaled[2] == cut
    assert_array_equal(scaled[0], u)
    assert scaled[1] == gain * scale


def test_rounding_does_not_make_leaves():
    """An empty corner holds no leaf even without leaf minimum and with weights that are no binary fractions."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        W = rng.random((12, 12)) * 0.1
        W[6:, 6:] = 0.0
        G = (rng.normal(size=W.shape) * W)[None]
        u, gain, cut = interactions.search(G, W[None], W)
        leaves = oracle.leaves_of(*cut, W.shape)
        assert gain > 0
        assert all(W[leaf].sum() > 0 for leaf in leaves)
        assert_allclose(u, oracle.update(G, W[None], leaves, 0.0), rtol=1e-12)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e308])
def test_sums_beyond_all_bounds_do_no_harm(value):
    G, H, W = make_sums(1, (6, 6))
    for broken in (G, H):
        kept = broken[0, 2, 3]
        broken[0, 2, 3] = value
        _, gain, cut = interactions.search(G, H, W)
        assert gain >= 0
        assert cut[0] in interactions.SHAPES
        broken[0, 2, 3] = kept


@pytest.mark.parametrize("missing", [(False, False), (True, False), (False, True), (True, True)])
def test_random_cuts(missing):
    """One boundary per axis, evenly among those between cells that may hold rows."""
    G, H, W = make_sums(2, (8, 6), empty=0.1)
    for array in (G[0], G[1], H[0], H[1], W):
        array[-1] = array[:, -1] = 0.0
        if not missing[0]:
            array[0] = 0.0
        if not missing[1]:
            array[:, 0] = 0.0
    drawn = []
    for key in range(2000):
        u, gain, (shape, a, b) = interactions.search(G, H, W, key=key, random=True, l2_regularization=0.3)
        assert (gain, shape) == (0.0, "random")
        drawn.append((a, b))
        if key < 50:
            assert_allclose(u, oracle.update(G, H, oracle.quadrants_of(a, b, W.shape), 0.3), rtol=1e-12, atol=1e-15)
    rows, columns = range(0 if missing[0] else 1, 6), range(0 if missing[1] else 1, 4)
    assert set(drawn) == {(a, b) for a in rows for b in columns}
    even = 2000 / (len(rows) * len(columns))
    assert all(abs(drawn.count(cut) - even) < 6 * even**0.5 for cut in set(drawn))


def test_random_cuts_of_an_axis_without_boundary():
    W = np.zeros((3, 6))
    W[1, 1:5] = [1.0, 2.0, 3.0, 4.0]
    G = W[None] * np.arange(6)
    u, _, (_, a, b) = interactions.search(G, W[None], W, random=True)
    assert a == -1
    assert 1 <= b <= 3
    assert_array_equal(u[0, 0], u[0, 1])
    u, _, _ = interactions.search(G[:, :, 1:4].copy() * 0, W[None, :, 1:4].copy() * 0, None, random=True)
    assert_array_equal(u, 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((1, 2, 2)), np.ones((1, 2, 3)), None), "one shape"),
        ((np.ones((1, 0, 2)), np.ones((1, 0, 2)), None), "one shape"),
        ((np.ones((0, 2, 2)), np.ones((0, 2, 2)), None), "one shape"),
        ((np.ones((1, 2, 2)), np.ones((1, 2, 2)), np.ones((2, 3))), "W must have the shape"),
        ((np.ones((2, 2, 2)), np.ones((2, 2, 2)), None), "weights of their own"),
    ],
)
def test_wrong_tables_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        interactions.search(*arguments)


@pytest.mark.parametrize("name", ["min_samples_leaf", "min_hessian", "l2_regularization"])
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_wrong_options_are_refused(name, value):
    with pytest.raises(ValueError, match="at least 0"):
        interactions.search(np.ones((1, 2, 2)), np.ones((1, 2, 2)), None, **{name: value})


def digest():
    """Return a hash of outputs of this module's functions."""
    sha = hashlib.sha256()
    for size in ((63, 63), (5, 17), (30, 8), (2, 3)):
        for n_outputs in (1, 3):
            for seed in range(3):
                G, H, W = make_sums(n_outputs, size, seed)
                H *= np.pi
                for random in (False, True):
                    u, gain, cut = interactions.search(G, H, W * 0.1, min_hessian=0.2, key=seed, random=random)
                    sha.update(u.tobytes() + np.float64(gain).tobytes() + repr(cut).encode())
    return sha.hexdigest()


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_instruction_sets_give_the_same_bits(level):
    here = Path(__file__)
    code = f"import runpy; print(runpy.run_path({str(here)!r})['digest']())"
    roots = [str(Path(skboost.__file__).parents[1]), str(here.parents[1])]
    environment = os.environ | {"SKBOOST_ISA": level, "PYTHONPATH": os.pathsep.join(roots)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest()
