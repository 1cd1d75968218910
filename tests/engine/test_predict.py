"""Kernels of prediction against row-by-row traversal, and the doors in front of them."""

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import predict as oracle

import skboost
from skboost._engine import layout, predict
from skboost._forest import ForestBuilder

TESTS = Path(__file__).parents[1]
BIN_ARRAYS = ("cuts", "n_bins", "is_categorical", "level_offset", "level_values", "level_codes")


def build(kind, trees, base_score=0.0, shrink_factors=None):
    """Return the forest of tree dicts."""
    builder = ForestBuilder(kind, trees[0]["leaf_value"].shape[1] if trees else 1)
    for tree in trees:
        builder.append(tree)
    return builder.finish(base_score, np.ones(len(trees)) if shrink_factors is None else shrink_factors)


def random_trees(rng, kind, sizes, n_features=5, n_outputs=1, categorical=0.3):
    return [
        oracle.random_tree(rng, kind, size, n_features, n_outputs, categorical, rng.choice(["bushy", "deep"]))
        for size in sizes
    ]


def sums(forest, codes, **options):
    """Return the recurrence without base score, through the door of the kernel."""
    acc = np.zeros((codes.shape[1], forest.n_outputs))
    predict.accumulate(forest.layout, codes, None, forest.used_features, 0, forest.n_trees, acc=acc, **options)
    return acc


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["general", "symmetric"]),
    depths=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    n_outputs=st.integers(1, 4),
    n_rows=st.one_of(st.integers(1, 70), st.integers(1, 600)),
    dtype=st.sampled_from([np.float32, np.float64]),
    order=st.sampled_from(["C", "F", "strided"]),
)
def test_margins_and_leaves_equal_traversal(seed, kind, depths, n_outputs, n_rows, dtype, order):
    rng = np.random.default_rng(seed)
    n_rows = n_rows if max(depths) < 9 else min(n_rows, 80)
    sizes = [2**depth - (rng.integers(0, 2**depth // 2 + 1) if kind == "general" else 0) for depth in depths]
    trees = random_trees(rng, kind, sizes, n_outputs=n_outputs)
    mul, add, base = rng.uniform(0.8, 1.0, len(trees)), rng.normal(size=len(trees)), rng.normal(size=n_outputs)
    mapper = oracle.random_mapper(rng, 5)
    x = oracle.random_rows(rng, n_rows, mapper, dtype)
    codes = oracle.encode(x, mapper)
    if order == "strided":
        wide = np.zeros((2 * n_rows, 15), dtype=dtype)
        wide[::2, ::-3] = x
        x = wide[::2, ::-3]
    else:
        x = np.array(x, order=order)
    forest = build(kind, trees, base, mul)
    counts = [0, len(trees)]
    expected = base + oracle.states(trees, codes, mul)[counts]
    leaves = oracle.leaves(trees, codes)
    for source in ((x, mapper), codes):
        np.testing.assert_array_equal(forest.margins(source, counts), expected)
        np.testing.assert_array_equal(forest.apply(source), leaves)
    weighted = oracle.states(trees, codes, mul, add)[-1]
    np.testing.assert_array_equal(forest.margins((x, mapper), add=add), base + weighted)
    encoded = np.empty((len(forest.used_features), n_rows), dtype=np.uint8)
    predict.encode(forest.layout, x, tuple(getattr(mapper, name) for name in BIN_ARRAYS), encoded)
    np.testing.assert_array_equal(encoded, codes[forest.used_features])


@pytest.mark.parametrize("shape", ["bushy", "deep", "left", "right"])
@pytest.mark.parametrize("n_leaves", [1, 2, 16, 17, 32, 33, 64, 65, 255, 256, 257, 400])
def test_tree_sizes_at_which_the_kernel_changes(n_leaves, shape):
    rng = np.random.default_rng(n_leaves)
    tree = oracle.random_tree(rng, "general", n_leaves, 4, 2, shape=shape)
    codes = rng.integers(0, 256, (4, 150)).astype(np.uint8)
    forest = build("general", [tree])
    for n_rows in (150, 128, 64, 8, 7, 1):
        rows = np.ascontiguousarray(codes[:, :n_rows])
        np.testing.assert_array_equal(forest.apply(rows), oracle.leaves([tree], rows))
        np.testing.assert_array_equal(forest.margins(rows), oracle.states([tree], rows, [1.0])[1])


@pytest.mark.parametrize("depth", [0, 1, 4, 5, 6, 7, 8, 9, 15, 16])
def test_depths_at_which_the_kernel_changes(depth):
    rng = np.random.default_rng(depth)
    tree = oracle.random_tree(rng, "symmetric", 2**depth, 4, 2)
    codes = rng.integers(0, 256, (4, 300)).astype(np.uint8)
    forest = build("symmetric", [tree])
    for n_rows in (300, 128, 64, 4, 3, 1):
        rows = np.ascontiguousarray(codes[:, :n_rows])
        np.testing.assert_array_equal(forest.apply(rows), oracle.leaves([tree], rows))
        np.testing.assert_array_equal(forest.margins(rows), oracle.states([tree], rows, [1.0])[1])


@pytest.mark.parametrize("categorical", [False, True])
def test_every_code_meets_every_threshold(categorical):
    rng = np.random.default_rng(0)
    codes = np.arange(256, dtype=np.uint8)[np.newaxis]
    trees = [oracle.random_tree(rng, "general", 2, 1, categorical=float(categorical)) for _ in range(512)]
    for number, tree in enumerate(trees):
        tree["threshold"][:], tree["missing_right"][:] = number % 256, number // 256
    np.testing.assert_array_equal(build("general", trees).apply(codes), oracle.leaves(trees, codes))


@pytest.mark.parametrize("kind", ["general", "symmetric"])
def test_thread_count_does_not_change_bits(kind):
    rng = np.random.default_rng(1)
    forest = build(kind, random_trees(rng, kind, [1, 2, 32, 64, 300] * 60), 0.5, np.full(300, 0.99))
    mapper = oracle.random_mapper(rng, 5)
    x = oracle.random_rows(rng, 2001, mapper)
    codes = oracle.encode(x, mapper)
    margins, leaves = forest.margins((x, mapper)), forest.apply(codes)
    for n_threads in (2, 3, 5):
        np.testing.assert_array_equal(forest.margins((x, mapper), n_threads=n_threads), margins)
        np.testing.assert_array_equal(forest.margins(codes, n_threads=n_threads), margins)
        np.testing.assert_array_equal(forest.apply((x, mapper), n_threads=n_threads), leaves)


@pytest.mark.parametrize("kind", ["general", "symmetric"])
def test_rows_do_not_influence_each_other(kind):
    rng = np.random.default_rng(2)
    forest = build(kind, random_trees(rng, kind, [31, 8, 300], n_outputs=2))
    codes = rng.integers(0, 256, (5, 600)).astype(np.uint8)
    whole = forest.margins(codes)
    for part in (slice(0, 1), slice(255, 257), slice(100, 500), slice(590, 600)):
        np.testing.assert_array_equal(forest.margins(codes[:, part]), whole[part])


def digest():
    """Return a hash of margins and leaves of fixed forests; run in other processes by the test below."""
    result = hashlib.sha256()
    for kind in ("general", "symmetric"):
        rng = np.random.default_rng(3)
        trees = random_trees(rng, kind, [1, 2, 16, 31, 64, 100, 256, 300, 1024], n_outputs=2, categorical=0.5)
        forest = build(kind, trees, rng.normal(size=2), rng.uniform(0.5, 1.0, len(trees)))
        codes = rng.integers(0, 256, (5, 700)).astype(np.uint8)
        for n_rows in (700, 100, 2):
            result.update(forest.margins(codes[:, :n_rows], add=rng.normal(size=len(trees))).tobytes())
            result.update(forest.apply(codes[:, :n_rows]).tobytes())
    return result.hexdigest()


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_instruction_set_does_not_change_bits(level):
    command = "from engine.test_predict import digest; print(digest())"
    path = os.pathsep.join([str(TESTS), str(Path(skboost.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "SKBOOST_ISA": level, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest()


@pytest.mark.parametrize("kind", ["general", "symmetric"])
def test_ranges_of_trees_continue_each_other(kind):
    rng = np.random.default_rng(4)
    trees = random_trees(rng, kind, [4, 16, 1, 31, 512], n_outputs=3)
    mul, add = rng.uniform(0.5, 1.0, 5), rng.normal(size=5)
    forest, codes = build(kind, trees), rng.integers(0, 256, (5, 333)).astype(np.uint8)
    acc = start = rng.normal(size=(333, 3))
    acc = start.copy()
    members = np.full((3, 333, 3), np.nan)
    args = forest.layout, codes, None, forest.used_features
    predict.accumulate(*args, 0, 2, mul=mul, add=add, acc=acc)
    counts = np.array([2, 4, 4])
    predict.accumulate(*args, 2, 5, mul=mul, add=add, acc=acc, base=np.ones(3), member_counts=counts, members=members)
    expected = oracle.states(trees, codes, mul, add, start)
    np.testing.assert_array_equal(acc, expected[-1])
    np.testing.assert_array_equal(members, 1.0 + expected[counts])


@pytest.mark.parametrize("kind", ["general", "symmetric"])
def test_nothing_to_do(kind):
    rng = np.random.default_rng(5)
    forest, empty, stump = (build(kind, random_trees(rng, kind, sizes)) for sizes in ([8], [], [1]))
    mapper = oracle.random_mapper(rng, 5)
    assert forest.margins((np.empty((0, 5)), mapper)).shape == (0, 1)
    assert forest.margins(np.empty((5, 0), dtype=np.uint8), [0, 1]).shape == (2, 0, 1)
    assert forest.apply((np.empty((0, 5), dtype=np.float32), mapper)).shape == (0, 1)
    assert not empty.margins((np.zeros((3, 5)), mapper)).any()
    assert empty.apply(np.zeros((5, 3), dtype=np.uint8)).shape == (3, 0)
    value = stump.leaf_value[stump.apply(np.zeros((0, 3), dtype=np.uint8))[:, 0]]
    np.testing.assert_array_equal(stump.margins(np.zeros((0, 3), dtype=np.uint8)), value)
    np.testing.assert_array_equal(stump.margins((np.zeros((3, 0)), oracle.random_mapper(rng, 0))), value)


def test_read_only_inputs_and_concurrent_calls():
    rng = np.random.default_rng(6)
    forest = build("general", random_trees(rng, "general", [31] * 20))
    mapper = oracle.random_mapper(rng, 5)
    x = oracle.random_rows(rng, 3000, mapper)
    x.flags.writeable = False
    for name in BIN_ARRAYS:
        getattr(mapper, name).flags.writeable = False
    alone = forest.margins((x, mapper))
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(lambda _: forest.margins((x, mapper), n_threads=2), range(32)):
            np.testing.assert_array_equal(result, alone)


@pytest.fixture
def door():
    """Return a forest of two trees over features 0 to 4 with rows as codes and as numbers."""
    rng = np.random.default_rng(7)
    forest = build("general", random_trees(rng, "general", [40, 40], categorical=0.0))
    mapper = oracle.random_mapper(rng, 5, categorical=0.5)
    return forest, rng.integers(0, 256, (5, 10)).astype(np.uint8), (np.zeros((10, 5)), mapper)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acc": np.zeros((9, 1))}, "acc must have"),
        ({"acc": np.zeros((10, 2))}, "acc must have"),
        ({"mul": np.ones(3)}, "mul and add need"),
        ({"add": np.ones(1)}, "mul and add need"),
        ({"members": np.empty((2, 10, 1)), "member_counts": np.array([1])}, "members must have"),
        ({"members": np.empty((1, 9, 1)), "member_counts": np.array([1])}, "members must have"),
        ({"members": np.empty((1, 10, 1)), "member_counts": np.array([3])}, "must ascend"),
        ({"members": np.empty((2, 10, 1)), "member_counts": np.array([2, 1])}, "must ascend"),
        ({"members": np.empty((1, 10, 1)), "member_counts": np.array([1]), "base": np.ones(2)}, "base needs"),
    ],
)
def test_door_rejects_arrays_of_the_wrong_shape(door, options, message):
    forest, codes, _ = door
    with pytest.raises(ValueError, match=message):
        predict.accumulate(forest.layout, codes, None, forest.used_features, 0, 2, **options)


@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (2, 1), (0, 3)])
def test_door_rejects_ranges_outside_the_forest(door, begin, end):
    forest, codes, _ = door
    with pytest.raises(ValueError, match="begin and end"):
        predict.accumulate(forest.layout, codes, None, forest.used_features, begin, end)


def test_door_rejects_rows_that_lack_features(door):
    forest, codes, (x, mapper) = door
    with pytest.raises(ValueError, match="have 4 features"):
        forest.margins(codes[:4])
    with pytest.raises(ValueError, match="have 4 features"):
        forest.margins((x[:, :4], mapper))
    with pytest.raises(ValueError, match="lie side by side"):
        forest.margins(codes[:, ::2])
    with pytest.raises(ValueError, match="columns needs"):
        predict.accumulate(forest.layout, codes, None, np.arange(4, dtype=np.int32), 0, 2)
    with pytest.raises(ValueError, match="out must have"):
        predict.apply(forest.layout, codes, None, forest.used_features, np.empty((10, 3), dtype=np.int32))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("cuts", lambda array: array[:4]),
        ("cuts", lambda array: np.ascontiguousarray(array[:, :255])),
        ("n_bins", lambda array: array[:4]),
        ("is_categorical", lambda array: array[:4]),
        ("level_offset", lambda array: array[:5]),
        ("level_offset", lambda array: array - 1),
        ("level_offset", lambda array: array[::-1].copy()),
        ("level_values", lambda array: array[:-1]),
        ("level_codes", lambda array: array[:-1]),
    ],
)
def test_door_rejects_feature_tables_of_the_wrong_shape(door, name, change):
    forest, _, (x, mapper) = door
    setattr(mapper, name, change(getattr(mapper, name)))
    with pytest.raises(ValueError, match="of the features have the wrong"):
        forest.margins((x, mapper))


def test_trees_that_are_no_trees_are_not_laid_out():
    offsets = np.array([0, 2]), np.array([0, 3])
    zeros, walk, masks, leaves = np.zeros(2, np.int32), *np.zeros((2, 2, 4), np.int32), np.zeros(3, np.int32)
    good = np.array([1, ~0], dtype=np.int32), np.array([~2, ~1], dtype=np.int32)
    assert layout.lay_out_trees(*offsets, (zeros, zeros, *good), walk, masks, leaves) == 6
    assert leaves.tolist() == [0, 1, 2]
    for place, child in ((0, 0), (0, 2), (0, ~2), (1, 1), (1, ~3), (1, ~1)):
        left = good[0].copy()
        left[place] = child
        with pytest.raises(ValueError, match="Tree 0 does not hold each"):
            layout.lay_out_trees(*offsets, (zeros, zeros, left, good[1]), walk, masks, leaves)


@pytest.mark.parametrize("n_bins", [-(2**31), 1, 257, 2**31 - 1])
def test_door_rejects_numbers_of_cuts_beyond_the_table(door, n_bins):
    forest, _, (x, _) = door
    mapper = oracle.random_mapper(np.random.default_rng(8), 5, categorical=0.0)
    mapper.n_bins[2] = n_bins
    with pytest.raises(ValueError, match="The cuts of the features have the wrong number"):
        forest.margins((x, mapper))


def test_sums_start_where_they_are_told(door):
    forest, codes, _ = door
    np.testing.assert_array_equal(sums(forest, codes), forest.margins(codes))
