"""Sums over leaves and values of leaves against loops, for both sizes of codes, and what the doors refuse."""

import numpy as np
import pytest
from skboost._engine.leaf_kernel import leaf_sums, leaf_values


def problem(dtype, seed, n_trees=7, n_rows=600, n_columns=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 300 if dtype == np.uint16 else 200, n_trees)
    codes = np.stack([rng.integers(0, size, n_rows) for size in sizes]).astype(dtype)
    return codes, np.r_[0, np.cumsum(sizes)], rng.integers(-50, 50, (n_rows, n_columns)).astype(float)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_sums_and_values_are_those_of_loops(dtype, seed):
    codes, offset, columns = problem(dtype, seed)
    sums = np.zeros((offset[-1], columns.shape[1]))
    for tree, leaf in enumerate(codes):
        np.add.at(sums, offset[tree] + leaf, columns)
    np.testing.assert_array_equal(leaf_sums(codes, offset, columns), sums)
    values = sum(sums[offset[tree] + leaf] for tree, leaf in enumerate(codes))
    np.testing.assert_array_equal(leaf_values(codes, offset, sums), values)


def test_the_number_of_threads_has_no_influence(seed):
    codes, offset, _ = problem(np.uint8, seed, n_trees=40, n_rows=5001)
    columns = np.random.default_rng(seed).normal(size=(5001, 5))
    one, many = leaf_sums(codes, offset, columns, 1), leaf_sums(codes, offset, columns, 3)
    np.testing.assert_array_equal(one, many)
    np.testing.assert_array_equal(leaf_values(codes, offset, one, 1), leaf_values(codes, offset, one, 3))


def test_nothing_gives_zeros():
    codes, offset = np.zeros((2, 0), dtype=np.uint8), np.array([0, 1, 3])
    np.testing.assert_array_equal(leaf_sums(codes, offset, np.zeros((0, 2))), np.zeros((3, 2)))
    assert leaf_values(codes, offset, np.zeros((3, 2))).shape == (0, 2)
    codes = np.zeros((2, 4), dtype=np.uint8)
    assert leaf_sums(codes, offset, np.zeros((4, 0))).shape == (3, 0)
    no_tree = np.zeros((0, 4), dtype=np.uint8)
    assert leaf_sums(no_tree, np.zeros(1, dtype=np.int64), np.ones((4, 2))).shape == (0, 2)
    np.testing.assert_array_equal(leaf_values(no_tree, np.zeros(1, dtype=np.int64), np.ones((0, 2))), np.zeros((4, 2)))


@pytest.mark.parametrize(
    ("codes", "offset", "rows", "message"),
    [
        ([[0, 3]], [0, 3], 2, "lead out"),
        ([[0, 1]], [0, 2, 3], 2, "offset"),
        ([[0, 1]], [1, 3], 2, "offset"),
        ([[0, 0], [0, 0]], [0, 1, 1], 2, "offset"),
        ([[0, 1]], [0, 2], 3, "one row per"),
    ],
)
def test_indices_out_of_range_are_refused(codes, offset, rows, message):
    codes, offset = np.array(codes, dtype=np.uint8), np.array(offset)
    with pytest.raises(ValueError, match=message):
        leaf_sums(codes, offset, np.zeros((rows, 1)))
    if message != "one row per":
        with pytest.raises(ValueError, match=message):
            leaf_values(codes, offset, np.zeros((offset[-1], 1)))
    with pytest.raises(ValueError, match=r"one row per leaf|lead out|offset"):
        leaf_values(codes, offset, np.zeros((offset[-1] + 1, 1)))
