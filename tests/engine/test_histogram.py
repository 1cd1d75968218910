"""Histogram, leaf-sum and partition kernels against integer arithmetic, in all shapes that they special-case."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from oracles.histogram import grid_of_sums, histogram, quantised
from oracles.problems import make_codes, make_problem

from skboost._engine import histogram as kernels
from skboost._engine import partition

GUARD = -987654321987654321


class Rows:
    """Random codes with packed sums in all layouts, an index, and a guarded histogram."""

    def __init__(self, n_features, words, stride, n=150, seed=0):
        rng = np.random.default_rng([seed, n_features, words, stride])
        self.n, self.n_features, self.words, self.stride = n, n_features, words, stride
        self.n_bins = min(stride, 256) - rng.integers(0, min(stride, 9), n_features)
        self.codes = make_codes(rng, n, self.n_bins)
        self.col = np.ascontiguousarray(self.codes.T)
        self.row_stride = (n_features + 7) // 8 * 8
        self.row = np.zeros((n, self.row_stride), dtype=np.uint8)
        self.row[:, :n_features] = self.codes
        self.high = rng.integers(-(2**22), 2**22, (n, words))
        self.low = rng.integers(-(2**22), 2**22, (n, words))
        self.packed = np.ascontiguousarray((self.high << 32) + self.low)
        self.chosen = np.flatnonzero(rng.random(n) < 0.6).astype(np.uint32)
        self.hist = np.full((n_features, stride, words), GUARD)

    def clear(self, features):
        for f in features:
            self.hist[f, : self.n_bins[f]] = 0

    def check(self, rows, features):
        """The sums of these rows and features are right, everything else is untouched."""
        expected = np.full_like(self.hist, GUARD)
        for f in features:
            for word in range(self.words):
                packed = histogram(self.codes[rows, f], self.packed[rows, word], self.n_bins[f])
                high = histogram(self.codes[rows, f], self.high[rows, word], self.n_bins[f])
                low = histogram(self.codes[rows, f], self.low[rows, word], self.n_bins[f])
                assert_array_equal(packed, (high << 32) + low)
                expected[f, : self.n_bins[f], word] = packed
        assert_array_equal(self.hist, expected)


SHAPES = [
    *[(f, words, 264) for f in (1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 16, 31, 33) for words in (1, 2)],
    *[(f, words, 264) for f in (64, 65, 96, 97, 100) for words in (1, 2)],
    *[(f, words, stride) for f in (1, 6, 13) for words in (1, 2, 3, 4, 7) for stride in (3, 16, 40, 256)],
    (70, 3, 24),
    (5, 255, 8),
]


@pytest.mark.parametrize(("n_features", "words", "stride"), SHAPES)
def test_row_kernel(n_features, words, stride):
    rows = Rows(n_features, words, stride)
    rows.clear(range(n_features))
    kernels.build(rows.row, rows.chosen, rows.packed, np.arange(0, n_features, dtype=np.int32), rows.hist, False)
    rows.check(rows.chosen, range(n_features))


@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 1), (3, 9), (5, 70), (64, 100), (99, 100), (1, 100)])
@pytest.mark.parametrize("words", [1, 2, 3])
def test_row_kernel_on_a_range_of_features(first, last, words):
    rows = Rows(100, words, 264, n=70)
    rows.clear(range(first, last))
    kernels.build(rows.row, rows.chosen, rows.packed, np.arange(first, last, dtype=np.int32), rows.hist, False)
    rows.check(rows.chosen, range(first, last))


@pytest.mark.parametrize("n_features", [65, 100])
def test_row_kernel_tiles_over_many_rows(n_features):
    """More rows than a chunk of the tiled loop holds."""
    rng = np.random.default_rng(0)
    n, bins = 4500, 5
    codes = rng.integers(0, bins, (n, n_features)).astype(np.uint8)
    row = np.zeros((n, 104), dtype=np.uint8)
    row[:, :n_features] = codes
    packed = rng.integers(-(2**40), 2**40, n)
    hist = np.zeros((n_features, 264, 1), dtype=np.int64)
    everything = np.arange(n, dtype=np.uint32), packed[:, None], np.arange(n_features, dtype=np.int32)
    kernels.build(row, *everything, hist, False)
    hist = hist[:, :, 0]
    for code in range(bins):
        assert_array_equal(hist[:, code], ((codes == code) * packed[:, None]).sum(axis=0))
    assert not hist[:, bins:].any()


@pytest.mark.parametrize(("n_features", "words", "stride"), SHAPES[::3])
@pytest.mark.parametrize("every", [1, 3])
def test_kernels_on_listed_features(n_features, words, stride, every):
    features = np.arange(n_features - 1, -1, -every, dtype=np.int32)[::-1].copy()
    rows = Rows(n_features, words, stride)
    rows.clear(features)
    kernels.build(rows.row, rows.chosen, rows.packed, features, rows.hist)
    rows.check(rows.chosen, features)
    first, last = 11, 140
    rows.hist[...] = GUARD
    rows.clear(features)
    kernels.build_columns(rows.col, first, last, rows.packed, features, rows.hist)
    rows.check(np.arange(first, last), features)


@pytest.mark.parametrize("weighted", [True, False])
def test_weight_kernel(weighted):
    rows = Rows(9, 1, 40)
    weight = np.random.default_rng(1).integers(0, 2**20, rows.n).astype(np.uint32)
    features = np.array([0, 4, 8], dtype=np.int32)
    hist = np.zeros((9, 40), dtype=np.uint32)
    kernels.build_weights(rows.row, rows.chosen, weight if weighted else None, features, hist)
    values = weight if weighted else np.ones(rows.n, dtype=np.int64)
    for f in range(9):
        expected = histogram(rows.codes[rows.chosen, f], values[rows.chosen], 40) if f in features else 0
        assert_array_equal(hist[f], expected)


def test_sibling_by_subtraction():
    rows = Rows(6, 2, 40)
    left = rows.codes[:, 0] < 17
    parts = []
    for chosen in (np.arange(rows.n), np.flatnonzero(left), np.flatnonzero(~left)):
        hist = np.zeros((6, 40, 2), dtype=np.int64)
        kernels.build(rows.row, chosen.astype(np.uint32), rows.packed, np.arange(6, dtype=np.int32), hist, False)
        parts.append(hist)
    parent, small, large = parts
    merged = small.copy()
    kernels.merge(merged.ravel(), large.ravel())
    assert_array_equal(merged, parent)
    kernels.merge(parent.ravel(), small.ravel(), subtract=True)
    assert_array_equal(parent, large)


EDGES = [0, 1, -1, 2**30, -(2**30), 2**31 - 1, -(2**31), 12345, -54321]


def test_both_halves_of_a_word_come_back():
    for high in EDGES:
        for low in EDGES:
            word = kernels.pack(high, low)
            if -(2**63) <= (high << 32) + low < 2**63:
                assert word == (high << 32) + low
                assert kernels.unpack(word) == (high, low)


# ---------------------------------------------------------------- the same sums seen through a tree


def only_feature(problem, feature):
    """Let trees use one feature while the histograms of all are built."""
    n_features = len(problem.n_bins)
    problem.rules.groups = (np.arange(n_features) == feature).astype(np.uint8)[None]
    return problem


@pytest.mark.parametrize("n_features", [1, 2, 5, 8, 33, 65, 100])
@pytest.mark.parametrize("loss", ["squared", "gaussian", "multinomial"])
@pytest.mark.parametrize("newton", [False, True])
def test_every_feature_gets_its_sums(n_features, loss, newton):
    n_bins = np.random.default_rng(n_features).integers(3, 20, n_features)
    for feature in {0, n_features // 2, n_features - 1}:
        problem = make_problem(n_features, loss, n=40, n_bins=n_bins, newton=newton, max_depth=2, min_weight=3)
        only_feature(problem, feature)
        tree, expected = problem.trainer().grow(0, 0), problem.twin().grow(0, 0)
        assert_array_equal(tree["feature"], expected["feature"])
        assert_array_equal(tree["threshold"], expected["threshold"])
        np.testing.assert_allclose(tree["gain"], expected["gain"], rtol=1e-9)


@pytest.mark.parametrize("n_bins", [2, 3, 9, 120, 241, 248, 249, 256])
def test_histograms_of_any_number_of_bins(n_bins):
    problem = make_problem(n_bins, n=300, n_bins=[n_bins, 3, n_bins], max_depth=3)
    tree, expected = problem.trainer().grow(0, 0), problem.twin().grow(0, 0)
    for key in ("feature", "threshold", "missing_right", "leaf_weight"):
        assert_array_equal(tree[key], expected[key])


def test_sums_stay_within_their_words():
    """Gradients of one sign and one size fill the grid to its end; so does one gradient that dwarfs all others."""
    rng = np.random.default_rng(0)
    for values in (np.ones(4096), np.r_[1e6, np.ones(4095)], np.full(4096, 1e-30), np.r_[3e37, np.full(4095, 1e-3)]):
        problem = make_problem(0, n=4096, n_bins=[20], max_depth=1, l2=0.0)
        problem.codes[:] = rng.integers(1, 20, (4096, 1))
        problem.y, problem.base = -values, np.zeros(1)
        scale = grid_of_sums(values.astype(np.float32), np.ones(4096, dtype=np.int64))
        assert 2**28 < quantised(values.astype(np.float32), scale, np.ones(4096), True).sum() < 2**31
        tree, expected = problem.trainer().grow(0, 0), problem.twin().grow(0, 0)
        assert_array_equal(tree["threshold"], expected["threshold"])
        np.testing.assert_allclose(tree["leaf_value"], expected["leaf_value"], rtol=1e-13)


# ---------------------------------------------------------------- partition


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 32, 33, 100, 1000])
@pytest.mark.parametrize("feature", [0, 1, 2])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_partition_is_stable_and_complete(n, feature, share):
    rng = np.random.default_rng([n, feature])
    codes = rng.integers(0, 256, (3, n)).astype(np.uint8)
    left_codes = (rng.random(256) < share).astype(np.uint8)
    for rows in (np.arange(n), np.flatnonzero(rng.random(n) < 0.5)):
        index = rows.astype(np.uint32)
        goes_left = left_codes[codes[feature, rows]] == 1
        assert partition.partition(codes, feature, index, left_codes) == goes_left.sum()
        assert_array_equal(index, np.concatenate([rows[goes_left], rows[~goes_left]]))


def test_partition_without_bytes_around_the_column():
    """A single short column leaves no room for wide loads."""
    for n in range(1, 40):
        codes = np.arange(n, dtype=np.uint8)[None].copy()
        left_codes = (np.arange(256) % 3 == 0).astype(np.uint8)
        index = np.arange(n, dtype=np.uint32)
        count = partition.partition(codes, 0, index, left_codes)
        assert_array_equal(index, [*range(0, n, 3), *[r for r in range(n) if r % 3]])
        assert count == len(range(0, n, 3))
