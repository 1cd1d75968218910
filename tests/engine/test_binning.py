"""The compiled binning kernels against plain Python: thresholds, distinct values, the search for codes."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skboost._engine import binning

LARGEST = np.finfo(np.float64).max


def even_labels(weights, n_bins):
    """Number of the bin of each value of a run: a bin ends where it is nearest to an even share of what is left."""
    labels, left, here, label = [], sum(weights), 0.0, 0
    for j, weight in enumerate(weights):
        labels.append(label)
        here += weight
        values_left = len(weights) - 1 - j
        bins_left = n_bins - label
        if values_left and bins_left > 1 and (here + weights[j + 1] / 2 >= left / bins_left or values_left < bins_left):
            left, here, label = left - here, 0.0, label + 1
    return labels


def heavy_values(weights, max_bins):
    heavy = set()
    while True:
        light = sum(w for j, w in enumerate(weights) if j not in heavy)
        share = light / (max_bins - len(heavy))
        found = {j for j, w in enumerate(weights) if w >= share}
        if len(found) >= max_bins:
            return set()
        if found == heavy:
            return heavy
        heavy = found


def twin_labels(weights, max_bins):
    """Bin of each distinct value: a bin for each heavy one, the others dealt to the runs between them by weight."""
    heavy = heavy_values(weights, max_bins)
    runs = [list(run) for _, run in itertools.groupby(range(len(weights)), lambda j: j if j in heavy else -1)]
    light = sum(w for j, w in enumerate(weights) if j not in heavy)
    n_light = sum(run[0] not in heavy for run in runs)
    available = max_bins - len(heavy)
    least = int(available >= n_light)
    labels, seen, dealt, glued = [], 0.0, 0, False
    for run in runs:
        start = labels[-1] + (not glued) if labels else 0
        glued = False
        if run[0] in heavy:
            labels.append(start)
            continue
        seen += sum(weights[j] for j in run)
        until = int((available - least * n_light) * (seen / light) + 0.5)
        n_bins = min(least + until - dealt, len(run))
        dealt += n_bins - least
        if n_bins:
            labels += [start + label for label in even_labels([weights[j] for j in run], n_bins)]
        elif run[-1] == len(weights) - 1:
            labels += [labels[-1]] * len(run)
        else:
            labels += [start] * len(run)
            glued = True
    return labels


def twin_cuts(x, weights, max_bins, equals_up=False):
    known = ~np.isnan(x)
    x = np.clip(x[known], -LARGEST, LARGEST) + 0.0
    values = sorted(set(x.tolist()))
    totals = [math.fsum(weights[known][x == value]) for value in values]
    labels = list(range(len(values))) if len(values) <= max_bins else twin_labels(totals, max_bins)
    cuts = []
    for low, high, left, right in zip(values, values[1:], labels, labels[1:], strict=False):
        if left != right:
            middle = 0.5 * low + 0.5 * high
            if equals_up:
                cuts.append(middle if low < middle <= high else high)
            else:
                cuts.append(middle if low <= middle < high else low)
    return np.array(cuts)


def cuts_of(x, weights=None, max_bins=255, n_threads=1):
    no = np.zeros(1, dtype=np.uint8)
    cuts, n_cuts, _ = binning.find_cuts(x.reshape(len(x), -1), weights, no, max_bins, n_threads)
    assert np.all(np.isinf(cuts[0, n_cuts[0] :]))
    return cuts[0, : n_cuts[0]]


def cells_of(x, weights=None, max_bins=255, n_threads=1):
    """Cuts of a column whose values go up when they equal a cut, and the weight of each bin."""
    skip = np.zeros(1, dtype=np.uint8)
    cuts, n_cuts, totals = binning.find_cells(x.reshape(len(x), -1), weights, skip, max_bins, n_threads)
    assert np.all(np.isinf(cuts[0, n_cuts[0] :]))
    assert not totals[0, n_cuts[0] + 1 :].any()
    return cuts[0, : n_cuts[0]], totals[0, : n_cuts[0] + 1]


numbers = st.one_of(
    st.integers(-9, 9).map(float),
    st.floats(width=64, allow_nan=True, allow_infinity=True),
    st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, LARGEST, -LARGEST, 5e-324, -5e-324]),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(numbers, st.integers(1, 60)), min_size=1, max_size=120),
    st.integers(2, 12),
)
def test_cuts_follow_the_rule(rows, max_bins):
    x, weights = np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])
    expected = twin_cuts(x, weights, max_bins)
    got = cuts_of(x, weights, max_bins)
    np.testing.assert_array_equal(got, expected)
    assert len(got) < max_bins
    assert np.all(np.isfinite(got))
    assert np.all(np.diff(got) > 0)
    np.testing.assert_array_equal(cuts_of(np.repeat(x, weights.astype(int)), None, max_bins), got)
    np.testing.assert_array_equal(cuts_of(x, 2.0**-30 * weights, max_bins), got)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(numbers, st.integers(1, 60)), min_size=1, max_size=120),
    st.integers(2, 12),
)
def test_cuts_that_equal_values_go_above_follow_the_same_rule(rows, max_bins):
    x, weights = np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])
    cuts, totals = cells_of(x, weights, max_bins)
    np.testing.assert_array_equal(cuts, twin_cuts(x, weights, max_bins, equals_up=True))
    assert np.all(np.isfinite(cuts))
    known = ~np.isnan(x)
    bins = np.searchsorted(cuts, x[known], side="right")
    np.testing.assert_array_equal(totals, np.bincount(bins, weights[known], len(cuts) + 1))
    # The bins are those of the other rule.
    np.testing.assert_array_equal(bins, np.searchsorted(cuts_of(x, weights, max_bins), x[known]))
    again, totals_again = cells_of(np.repeat(x, weights.astype(int)), None, max_bins)
    np.testing.assert_array_equal(again, cuts)
    np.testing.assert_array_equal(totals_again, totals)


@pytest.mark.parametrize("max_bins", [2, 255, 256, 300, 1022, 65534])
@pytest.mark.parametrize("heavy", [False, True])
def test_more_bins_than_a_byte_numbers(max_bins, heavy):
    rng = np.random.default_rng(max_bins)
    x = np.concatenate([rng.permutation(70_000), np.repeat(rng.choice(70_000, 300), 100 * heavy)]).astype(float)
    weights = rng.integers(1, 4, len(x)).astype(float)
    cuts, totals = cells_of(x, weights, max_bins)
    np.testing.assert_array_equal(cuts, twin_cuts_of_runs(x, weights, max_bins))
    np.testing.assert_array_equal(totals, np.bincount(np.searchsorted(cuts, x, side="right"), weights))
    assert 0.98 * max_bins - 1 <= len(cuts) <= max_bins - 1


def twin_cuts_of_runs(x, weights, max_bins):
    """As twin_cuts, for many whole numbers."""
    values, where = np.unique(x, return_inverse=True)
    labels = np.array(twin_labels(np.bincount(where, weights).tolist(), max_bins))
    steps = np.flatnonzero(np.diff(labels))
    return 0.5 * values[steps] + 0.5 * values[steps + 1]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=120), st.integers(2, 12))
def test_cuts_of_known_totals(totals, max_bins):
    values, totals = np.arange(len(totals)) / 4, np.array(totals, dtype=float)
    expected = twin_cuts(values, totals, max_bins, equals_up=True)
    np.testing.assert_array_equal(binning.cuts_of_totals(values, totals, max_bins), expected)
    np.testing.assert_array_equal(cells_of(values, totals, max_bins)[0], expected)


@pytest.mark.parametrize(
    ("values", "totals", "max_bins"),
    [
        ([0, 1], [1], 2),
        ([0, 1], [1, 1], 1),
        ([1, 0], [1, 1], 2),
        ([0, 0], [1, 1], 2),
        ([0, np.inf], [1, 1], 2),
        ([0, 1], [1, 0], 2),
        ([0, 1], [1, np.nan], 2),
        ([0, 1], [np.inf, 1], 2),
    ],
)
def test_totals_that_are_none_are_refused(values, totals, max_bins):
    with pytest.raises(ValueError, match=r"max_bins is out of range|values must ascend"):
        binning.cuts_of_totals(np.array(values, dtype=float), np.array(totals, dtype=float), max_bins)
    assert len(binning.cuts_of_totals(np.empty(0), np.empty(0), 2)) == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=13, max_size=200), st.integers(8, 12))
def test_bins_are_even_and_heavy_values_alone(weights, max_bins):
    weights, x = np.array(weights, dtype=float), np.arange(len(weights)) + 0.0
    labels = np.searchsorted(cuts_of(x, weights, max_bins), x)
    heavy = heavy_values(weights.tolist(), max_bins)
    n_light_runs = np.sum(np.diff([0, *(j not in heavy for j in range(len(weights)))]) == 1)
    bins = np.bincount(labels, weights)
    assert bins.min() > 0
    if n_light_runs <= max_bins - len(heavy):
        assert all(np.sum(labels == labels[j]) == 1 for j in heavy)
    if not heavy:
        # A bin may end half a value early or late, and each value is lighter than an even share.
        assert bins.max() <= 2 * weights.sum() / max_bins


def test_many_values_of_one_weight_give_equal_bins():
    cuts = cuts_of(np.arange(25500.0))
    np.testing.assert_array_equal(cuts, np.arange(99.5, 25499, 100))


def test_a_heavy_value_leaves_the_other_bins_to_the_rest():
    x = np.concatenate([np.zeros(30000), np.arange(1, 10001)])
    cuts = cuts_of(x)
    assert len(cuts) == 254
    assert cuts[0] == 0.5
    counts = np.bincount(np.searchsorted(cuts, x))
    assert counts[0] == 30000
    assert set(counts[1:]) <= {39, 40}


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1.0, np.nextafter(1.0, 2.0)),
        (0.0, 5e-324),
        (-5e-324, 0.0),
        (5e-324, 1e-323),
        (-LARGEST, LARGEST),
        (LARGEST / 2, LARGEST),
        (np.nextafter(LARGEST, 0), LARGEST),
        (-1.0, np.inf),
        (-np.inf, np.inf),
    ],
)
def test_a_cut_is_finite_and_separates_its_neighbours(low, high):
    (cut,) = cuts_of(np.array([low, high, np.nan]))
    assert np.isfinite(cut)
    assert low <= cut < high
    (cut,) = cells_of(np.array([low, high, np.nan]))[0]
    assert np.isfinite(cut)
    assert low < cut <= high


def test_the_largest_numbers_share_a_bin_with_the_infinities():
    assert len(cuts_of(np.array([-np.inf, -LARGEST]))) == 0
    assert len(cuts_of(np.array([np.inf, LARGEST]))) == 0


def test_cuts_match_the_midpoints_of_a_large_sort():
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, 10_000) / 7.0
    values = np.unique(x)
    np.testing.assert_array_equal(cuts_of(x), 0.5 * values[:-1] + 0.5 * values[1:])


@pytest.mark.parametrize("n", [1, 7, 255, 4095, 4096, 5000])
@pytest.mark.parametrize("weighted", [False, True])
def test_distinct_values(n, weighted):
    rng = np.random.default_rng(n)
    x = np.where(rng.random(n) < 0.2, np.nan, np.round(rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n), 2))
    x[rng.random(n) < 0.05] = np.inf
    x[rng.random(n) < 0.05] = -np.inf
    weights = rng.integers(1, 9, n).astype(float) if weighted else None
    values, totals = binning.distinct_values(x, weights)
    known = ~np.isnan(x)
    expected, where = np.unique(x[known] + 0.0, return_inverse=True)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(totals, np.bincount(where, None if weights is None else weights[known]))


@pytest.mark.parametrize("n", [63, 64, 65, 4096, 20_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_that_differ_in_their_last_bits_are_sorted(n, weighted):
    rng = np.random.default_rng(n)
    x = np.where(rng.random(n) < 0.1, rng.normal(size=n), 1e15 + rng.integers(0, 3 * n, n) / 8)
    weights = rng.integers(1, 9, n).astype(float) if weighted else None
    values, totals = binning.distinct_values(x, weights)
    expected, where = np.unique(x, return_inverse=True)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(totals, np.bincount(where, weights))


def tables(cuts, n_bins, levels=(), codes=()):
    padded = np.full((1, 256), np.inf)
    padded[0, : len(cuts)] = cuts
    return (
        padded,
        np.array([n_bins], dtype=np.int32),
        np.array([len(levels) > 0], dtype=np.uint8),
        np.array([0, len(levels)]),
        np.asarray(levels, dtype=np.float64),
        np.asarray(codes, dtype=np.uint8),
    )


def codes_of(x, *table):
    return binning.transform(x.reshape(-1, 1), *table, 1, False)[0][0]


@pytest.mark.parametrize("n_cuts", [0, 1, 2, 3, 4, 7, 8, 15, 16, 100, 127, 128, 253, 254])
def test_search_counts_the_cuts_below(n_cuts):
    rng = np.random.default_rng(n_cuts)
    cuts = np.sort(rng.normal(size=n_cuts))
    x = np.concatenate([rng.normal(size=700), cuts, [np.nan, np.inf, -np.inf, LARGEST, -LARGEST, 0.0, -0.0]])
    expected = np.where(np.isnan(x), 0, 1 + np.sum(cuts < x[:, None], axis=1))
    np.testing.assert_array_equal(codes_of(x, *tables(cuts, n_cuts + 2)), expected)


def test_float32_values_meet_double_cuts():
    cut = np.float64(np.float32(0.1)) - 1e-12
    x = np.array([0.1, np.nextafter(np.float32(0.1), np.float32(0))], dtype=np.float32)
    np.testing.assert_array_equal(codes_of(x, *tables([cut], 3)), [2, 1])


@pytest.mark.parametrize("levels", [[0, 1, 2, 3], [-7, -1, 0.5, 1e300], [3], [-np.inf, 0, np.inf], range(0, 15000, 3)])
def test_levels_are_looked_up_exactly(levels):
    levels = np.asarray(levels, dtype=np.float64)
    codes = np.random.default_rng(0).integers(1, 256, len(levels))
    x = np.concatenate([levels, np.nextafter(levels, -np.inf), levels + 0.5, [np.nan, np.inf, -np.inf, 1e308, -0.0]])
    known = dict(zip(levels.tolist(), codes.tolist(), strict=True))
    expected = [known.get(value, 0) for value in x.tolist()]
    np.testing.assert_array_equal(codes_of(x, *tables([], 256, levels, codes)), expected)


def test_empty_shapes():
    nothing = tables([], 2)
    assert codes_of(np.empty(0), *nothing).shape == (0,)
    no_features = (np.empty((0, 256)), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint8), np.zeros(1, dtype=int))
    columns, rows = binning.transform(np.empty((3, 0)), *no_features, np.empty(0), np.empty(0, dtype=np.uint8), 1, True)
    assert columns.shape == (0, 3)
    assert rows.shape == (3, 0)
    cuts, n_cuts, _ = binning.find_cuts(np.empty((0, 2)), None, np.zeros(2, dtype=np.uint8), 255, 1)
    assert np.all(np.isinf(cuts))
    assert n_cuts.tolist() == [0, 0]
    assert len(binning.distinct_values(np.empty(0), None)[0]) == 0


def test_shapes_that_do_not_fit_are_refused():
    skip = np.zeros(1, dtype=np.uint8)
    for find, wrong in ((binning.find_cuts, 1), (binning.find_cuts, 256), (binning.find_cells, 1)):
        with pytest.raises(ValueError, match="max_bins is out of range"):
            find(np.zeros((3, 1)), None, skip, wrong, 1)
        with pytest.raises(ValueError, match="skip and the columns"):
            find(np.zeros((3, 2)), None, skip, 9, 1)
    with pytest.raises(ValueError, match="do not match"):
        binning.transform(np.zeros((3, 2)), *tables([], 2), 1, False)
    with pytest.raises(ValueError, match="differ in length"):
        cuts_of(np.zeros(3), np.ones(2))
