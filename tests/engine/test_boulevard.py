"""Engine of Boulevard boosting: tables, draws and trees, against NumPy and the rules they keep."""

import numpy as np
import pytest
from oracles import boulevard as oracle

from skboost._engine import boulevard_rows, boulevard_trees


def problem(n=500, sizes=(7, 5), seed=0, n_outer=1):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(n_outer, size - n_outer, n) for size in sizes]).astype(np.uint16)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    keys = rng.integers(0, 2**63, n).astype(np.uint64)
    return codes, starts, keys, rng.integers(1, 4, n), rng.normal(size=n)


def test_contingency_counts_pairs_of_cells():
    codes, starts, _, copies, _ = problem(sizes=(7, 5, 9))
    Z = oracle.indicators(codes, (7, 5, 9))
    for n_threads in (1, 3):
        assert np.array_equal(boulevard_rows.contingency(codes, starts, copies, n_threads), Z.T @ (copies[:, None] * Z))


def test_residuals_and_products_are_plain():
    codes, starts, _, _, y = problem(10_000)
    scores = np.random.default_rng(1).normal(size=12)
    wanted = y - oracle.indicators(codes, (7, 5)) @ scores
    assert boulevard_rows.residuals(codes, starts, y, scores, 2) == pytest.approx(wanted, abs=1e-13)
    table = np.random.default_rng(2).normal(size=(12, 12))
    table += table.T
    assert boulevard_rows.times(table, scores) == pytest.approx(table @ scores, abs=1e-12)


@pytest.mark.parametrize("fraction", [1.0, 0.3])
@pytest.mark.parametrize("halves", [False, True])
def test_draws_have_their_rates_and_do_not_depend_on_threads_or_copies(fraction, halves):
    codes, starts, keys, copies, y = problem(20_000)
    args = (fraction, halves, 5, 1, 2)
    counts, sums = boulevard_rows.sampled_sums(codes, starts, y, keys, copies, *args, 1)
    again = boulevard_rows.sampled_sums(codes, starts, y, keys, copies, *args, 3)
    assert np.array_equal(counts, again[0])
    assert np.array_equal(sums, again[1])
    total = copies.sum()
    for t, part in enumerate((slice(0, 7), slice(7, 12))):
        share = counts[:, part].sum(axis=1) / total
        rate = fraction / 2 if halves else fraction
        assert share == pytest.approx(np.full(2, rate), abs=0.02)
        if fraction == 1 and not halves:
            assert sums[0, part] == pytest.approx(np.bincount(codes[t], copies * y, minlength=(7, 5)[t]))
            assert np.array_equal(counts[0, part], np.bincount(codes[t], copies, minlength=(7, 5)[t]))
    if fraction < 1:
        # terms, rounds, streams and seeds draw rows of their own
        for other in ((fraction, halves, 6, 1, 2), (fraction, halves, 5, 2, 2), (fraction, halves, 5, 1, 3)):
            assert not np.array_equal(counts, boulevard_rows.sampled_sums(codes, starts, y, keys, copies, *other, 1)[0])
        assert counts[0, :7].sum() != counts[0, 7:].sum()


def test_some_row_is_always_drawn():
    codes, starts, keys, copies, y = problem(3)
    counts, sums = boulevard_rows.sampled_sums(codes, starts, y, keys, copies, 1e-12, False, 0, 0, 0, 1)
    assert counts[0, :7].sum() == counts[0, 7:].sum() == 1
    assert set(sums[0][counts[0] == 1]) <= set(y)


def grow(shape, counts, sums=None, *, ordered=(1, 1), weights=None, greedy=False, seed=0, leaves=8, least=5, l2=0.0):
    shapes, starts = np.array([shape], dtype=np.int64), np.array([0, np.prod(shape)], dtype=np.int64)
    counts = np.ascontiguousarray(counts, dtype=float).ravel()
    sums = np.zeros_like(counts) if sums is None else np.ascontiguousarray(sums, dtype=float).ravel()
    weights = counts if weights is None else weights.ravel().astype(float)
    flags = np.array([ordered], dtype=np.uint8)
    args = (starts, shapes, flags, weights, counts, sums, leaves, least, l2, seed, 1, 1, 1)
    return boulevard_trees.grow(greedy, *args).reshape(shape if shape[1] > 1 else shape[0])


@pytest.mark.parametrize("seed", range(5))
def test_random_lines_are_intervals_of_enough_rows(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, 30)
    counts[-1] = 0
    leaf = grow((30, 1), counts, seed=seed)
    assert leaf[-1] == -1
    if counts[0]:
        assert np.sum(leaf == leaf[0]) == 1
    else:
        assert leaf[0] == -1
    inner = leaf[1:-1]
    assert np.count_nonzero(np.diff(inner)) == len(np.unique(inner)) - 1
    assert np.bincount(inner, counts[1:-1])[np.unique(inner)].min() >= 5
    assert len(np.unique(inner)) <= 8
    everything = grow((30, 1), np.maximum(counts, 1) * (np.arange(30) < 29), seed=seed, leaves=100, least=1)
    assert len(np.unique(everything[1:-1])) == 28


def test_random_lines_do_not_look_at_labels_and_differ_between_seeds():
    counts = np.full(30, 4)
    first = grow((30, 1), counts, seed=1)
    assert np.array_equal(first, grow((30, 1), counts, np.arange(30), seed=1))
    assert not np.array_equal(first, grow((30, 1), counts, seed=2))


def test_random_cuts_are_uniform():
    counts = np.zeros(12)
    counts[1:11] = 10
    cuts = np.zeros(9)
    for seed in range(4000):
        cuts += np.diff(grow((12, 1), counts, seed=seed, leaves=2, least=1)[1:11]) != 0
    assert cuts.sum() == 4000
    assert cuts == pytest.approx(np.full(9, 4000 / 9), abs=4.5 * np.sqrt(4000 / 9))


def test_categories_are_grouped_at_random():
    counts = np.zeros(12)
    counts[1:11] = 10
    together = np.zeros((10, 10))
    for seed in range(2000):
        leaf = grow((12, 1), counts, ordered=(0, 0), seed=seed, leaves=2, least=10)[1:11]
        together += leaf[:, None] == leaf
    off = together[~np.eye(10, dtype=bool)] / 2000
    assert off == pytest.approx(np.full(90, off.mean()), abs=0.05)


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_cut_into_boxes_of_enough_rows(greedy, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 8, (9, 7)).astype(float)
    counts[-1] = counts[:, -1] = 0
    counts[:, 0] = 0  # the second feature is never missing
    leaf = grow((9, 7), counts, counts * rng.normal(size=(9, 7)), greedy=greedy, seed=seed)
    assert (leaf[-1] == -1).all()
    assert (leaf[:, [0, -1]] == -1).all()
    labels = np.unique(leaf[leaf >= 0])
    for label in labels:
        rows, columns = np.nonzero(leaf == label)
        box = leaf[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert (box == label).all()
        assert counts[leaf == label].sum() >= 5
        assert (rows == 0).all() or (rows > 0).all()  # missing values apart
    assert 3 <= len(labels) <= 8


def test_greedy_lines_take_the_best_cuts():
    rng = np.random.default_rng(0)
    counts, sums = np.zeros(22), np.zeros(22)
    counts[1:21], sums[1:21] = rng.integers(1, 9, 20), rng.normal(size=20) * 5

    def gain(at, l2=2.0):
        low, high = slice(1, at), slice(at, 21)
        parts = [sums[part].sum() ** 2 / (counts[part].sum() + l2) for part in (low, high, slice(1, 21))]
        right = min(counts[low].sum(), counts[high].sum()) >= 5
        return parts[0] + parts[1] - parts[2] if right else -np.inf

    leaf = grow((22, 1), counts, sums, greedy=True, leaves=2, l2=2.0)
    best = max(range(2, 21), key=gain)
    assert np.flatnonzero(np.diff(leaf[1:21]))[0] + 2 == best
    # categories are cut in the order of their means: the best of all two-part groupings
    leaf = grow((22, 1), counts, sums, ordered=(0, 0), greedy=True, leaves=2, least=0)[1:21]
    order = np.argsort(sums[1:21] / counts[1:21])
    assert np.count_nonzero(np.diff(leaf[order])) == 1
    assert len(np.unique(grow((22, 1), counts, counts, greedy=True, leaves=8)[1:21])) == 1  # nothing to gain


@pytest.mark.parametrize("n_cells", [4, 40])
def test_kernel_of_intervals_and_of_groups(n_cells):
    rng = np.random.default_rng(0)
    groups = rng.integers(-1, 6, (30, n_cells)).astype(np.int16)
    intervals = np.sort(rng.integers(0, 6, (30, n_cells)), axis=1).astype(np.int16)
    intervals[:, 0] = -1
    counts = rng.integers(0, 9, n_cells).astype(float)
    for leaves in (groups, intervals, np.concatenate([groups, intervals])):
        found = boulevard_trees.kernel(leaves, counts, 0.7)
        assert found == pytest.approx(oracle.kernel(leaves, counts, 0.7), abs=1e-14)
        assert np.array_equal(found, found.T)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("starts", lambda a: a[:-1]),
        ("starts", lambda a: a - 1),
        ("copies", lambda a: a[:-1]),
        ("codes", lambda a: a + np.uint16(50)),
    ],
)
def test_bad_arrays_of_rows_raise(name, change):
    codes, starts, _, copies, _ = problem()
    args = {"codes": codes, "starts": starts, "copies": copies}
    args[name] = np.ascontiguousarray(change(args[name]))
    with pytest.raises(ValueError):  # noqa: PT011 (any of several texts)
        boulevard_rows.contingency(args["codes"], args["starts"], args["copies"], 1)


def test_bad_arrays_of_trees_raise():
    counts = np.ones(10)
    with pytest.raises(ValueError, match="max_leaves"):
        grow((10, 1), counts, leaves=1)
    with pytest.raises(ValueError, match="one entry per cell"):
        grow((10, 1), counts, sums=np.ones(9))
    with pytest.raises(ValueError, match="describe terms"):
        grow((1, 1), np.ones(1))
    with pytest.raises(ValueError, match="one entry per cell"):
        boulevard_trees.kernel(np.zeros((2, 3), np.int16), np.ones(2), 0.0)
