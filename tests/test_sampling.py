"""Content keys and draws of copies: exact counts, weights as repetition, freedom from row order, and the right law."""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skboost import _random
from skboost._engine import cells, sampling
from skboost._random import resolve_seed
from skboost._sampling import (
    canonical_rows,
    cell_hashes,
    copy_numbers,
    draw_copies,
    group_weights,
    mean_coins,
    row_hashes,
    split_copies,
)

MASK = 2**64 - 1


def mix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def code_rows(codes):
    rows = np.zeros((len(codes), -(-codes.shape[1] // 8) * 8), dtype=np.uint8)
    rows[:, : codes.shape[1]] = codes
    return rows


def few_distinct(rng, n):
    """Hashes, y and integer weights with many equal (codes, y)."""
    codes = rng.integers(0, 2, (n, 3)).astype(np.uint8)
    return row_hashes(code_rows(codes), 3), rng.integers(0, 2, n).astype(float), rng.integers(1, 6, n).astype(float)


def by_content(keys, amounts):
    """Sorted (key, amount) over the groups of equal key."""
    totals = collections.Counter()
    for key, amount in zip(keys.tolist(), amounts.tolist(), strict=True):
        totals[key] += amount
    return sorted(totals.items())


# ---- hashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [1, 7, 8, 9, 16, 28])
def test_hashes_match_plain_integers(n_features):
    codes = np.random.default_rng(n_features).integers(0, 256, (40, n_features)).astype(np.uint8)
    rows = code_rows(codes)
    expected = []
    for row in rows:
        value = 0x9E3779B97F4A7C15
        for start in range(0, len(row), 8):
            value = mix64(value ^ int.from_bytes(row[start : start + 8].tobytes(), "little"))
        expected.append(value)
    assert row_hashes(rows, n_features).tolist() == expected


@pytest.mark.parametrize("n_threads", [2, 3, 5])
@pytest.mark.parametrize("n", [0, 1, 200_000])
def test_hashes_do_not_depend_on_threads(n, n_threads):
    rows = code_rows(np.random.default_rng(0).integers(0, 256, (n, 13)).astype(np.uint8))
    np.testing.assert_array_equal(row_hashes(rows, 13, n_threads), row_hashes(rows, 13))


def test_hashes_of_similar_rows_look_random():
    codes = np.array(np.unravel_index(np.arange(60_000), (10, 10, 10, 60)), dtype=np.uint8).T
    hashes = row_hashes(code_rows(codes), 4)
    assert len(np.unique(hashes)) == 60_000
    bits = (hashes[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(60_000)
    correlation = np.corrcoef(bits.T) - np.eye(64)
    assert np.abs(correlation).max() < 6 / np.sqrt(60_000)


def test_narrow_rows_are_refused():
    with pytest.raises(ValueError, match="narrower"):
        row_hashes(np.zeros((3, 8), dtype=np.uint8), 9)


# ---- group weights ---------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 50))
def test_group_weights(seed, n, n_groups):
    rng = np.random.default_rng(seed)
    hashes = rng.integers(0, 2**64, n_groups, dtype=np.uint64)[rng.integers(0, n_groups, n)]
    hashes[hashes == hashes[0]] = 0  # no value of the hash is special
    for weights in (None, rng.integers(1, 100, n).astype(float)):
        totals = dict(by_content(hashes, np.ones(n) if weights is None else weights))
        expected = np.array([1 / np.sqrt(totals[key]) for key in hashes.tolist()]).astype(np.float32)
        got = group_weights(hashes, weights)
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, expected)


def test_group_weights_do_not_depend_on_row_order():
    rng = np.random.default_rng(0)
    hashes, weights = rng.integers(0, 9, 5000).astype(np.uint64), rng.gamma(0.2, size=5000) + 1e-12
    order = rng.permutation(5000)
    np.testing.assert_array_equal(group_weights(hashes, weights)[order], group_weights(hashes[order], weights[order]))


def test_rows_of_weight_zero_stay_outside_their_group():
    hashes = np.array([7, 7, 7, 8], dtype=np.uint64)
    np.testing.assert_array_equal(group_weights(hashes, np.array([0.0, 1.0, 3.0, 0.0])), [0.0, 0.5, 0.5, 0.0])


# ---- copies ----------------------------------------------------------------------------------------------------------


def test_copies_of_equal_rows_are_numbered_through():
    hashes = np.array([5, 6, 5, 5, 5], dtype=np.uint64)
    y = np.array([1.0, 1.0, 1.0, 2.0, 1.0])
    keys, first, n_copies = copy_numbers(hashes, y, np.array([2.0, 1.0, 3.0, 1.0, 1.0]))
    assert first.tolist() == [0, 0, 2, 0, 5]
    assert n_copies.tolist() == [2, 1, 3, 1, 1]
    assert keys[0] == keys[2] == keys[4]
    assert len(set(keys.tolist())) == 3
    assert copy_numbers(hashes, y)[2].tolist() == [1] * 5


def test_zero_has_one_sign():
    keys = copy_numbers(np.zeros(2, dtype=np.uint64), np.array([0.0, -0.0]))[0]
    assert keys[0] == keys[1]


def test_rows_of_fractional_weight_are_one_copy_and_known_by_their_weight():
    hashes, y = np.zeros(5, dtype=np.uint64), np.zeros(5)
    keys, first, n_copies = copy_numbers(hashes, y, np.array([0.5, 2.5, 0.5, 2.0, 1.0]))
    assert n_copies.tolist() == [1, 1, 1, 2, 1]
    assert first.tolist() == [0, 0, 1, 0, 2]
    assert keys[0] == keys[2]
    assert keys[3] == keys[4]
    assert len(set(keys.tolist())) == 3


def test_too_many_copies_become_one_per_row():
    weights = np.array([2.0**26, 1.0, 3.0])
    keys, _, n_copies = copy_numbers(np.zeros(3, dtype=np.uint64), np.zeros(3), weights)
    assert n_copies.tolist() == [1, 1, 1]
    assert len(set(keys.tolist())) == 3


# ---- rows in the order of their content ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 4095, 4096, 30_000])
@pytest.mark.parametrize("n_keys", [1, 7, 2**20])
def test_rows_are_grouped_by_key(n, n_keys):
    rng = np.random.default_rng(n)
    keys = rng.integers(0, 2**64, n_keys, dtype=np.uint64)[rng.integers(0, n_keys, n)]
    keys[: n // 3] = keys[: n // 3] >> np.uint64(40)  # keys that only differ in their last bits
    order, start = sampling.group_rows(keys)
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(start, [*np.unique(keys[order], return_index=True)[1], n])
    assert order.dtype == start.dtype == np.int64


def test_cells_are_hashed_as_by_the_engine():
    table = np.random.default_rng(0).integers(0, 1024, (5, 1000)).astype(np.uint16)
    np.testing.assert_array_equal(cell_hashes(table, 2), cells.row_hashes(table, 1))


def contents(table, y, weights, *extra):
    """Number of copies and weight of each content of a table."""
    found = {}
    for row, label in enumerate(y):
        whole = weights[row] == int(weights[row])
        key = (*table[:, row].tolist(), float(label), *(np.ravel(e[row]).tolist() for e in extra))
        copy = 1.0 if whole else weights[row]
        count, _ = found.get(str((key, copy)), (0, copy))
        found[str((key, copy))] = count + (int(weights[row]) if whole else 1), copy
    return sorted(found.values())


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.sampled_from(["none", "whole", "any"]))
def test_equal_rows_are_merged(seed, n, kind):
    rng = np.random.default_rng(seed)
    table, y = rng.integers(0, 3, (3, n)).astype(np.uint16), rng.choice([0.0, -0.0, 1.5], n)
    weights = {"none": None, "whole": rng.integers(1, 5, n), "any": rng.choice([0.5, 0.75, 1.0, 2.0, 3.0], n)}[kind]
    extra = rng.integers(0, 2, (n, 2)), rng.integers(0, 2, n) / 2
    rows = canonical_rows(cell_hashes(table), y, weights, extra)
    given_weights = np.ones(n) if weights is None else weights
    got = list(zip(rows.n_copies.tolist(), rows.copy_weight.tolist(), strict=True))
    assert sorted(got) == contents(table, y + 0.0, given_weights, *extra)
    assert np.all(np.diff(rows.keys.astype(object)) > 0)
    np.testing.assert_array_equal(np.sort(rows.order), np.arange(n))
    # Each row is where its content is.
    np.testing.assert_array_equal(np.bincount(rows.canonical, given_weights), rows.weight)
    np.testing.assert_array_equal(rows.take(table)[:, rows.canonical], table)
    np.testing.assert_array_equal(y[rows.rows][rows.canonical], y)
    np.testing.assert_array_equal(extra[0][rows.rows][rows.canonical], extra[0])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200))
def test_merged_rows_do_not_depend_on_order_or_repetition(seed, n):
    rng = np.random.default_rng(seed)
    table, y, weights = rng.integers(0, 3, (3, n)).astype(np.uint16), rng.normal(size=n), rng.integers(1, 5, n)
    score = rng.integers(0, 2, (n, 2)) / 2
    order = rng.permutation(np.repeat(np.arange(n), weights))
    a = canonical_rows(cell_hashes(table), y, weights, [score])
    b = canonical_rows(cell_hashes(table[:, order].copy()), y[order], None, [score[order]])
    for name in ("keys", "n_copies", "copy_weight"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for array in (y, score, table.T):
        np.testing.assert_array_equal(array[a.rows], array[order][b.rows])


def test_repeats_leave_room_for_their_sums():
    weights = np.random.default_rng(0).gamma(1.0, size=1000)
    rows = canonical_rows(np.arange(1000, dtype=np.uint64), np.zeros(1000), weights, (), 127)
    total = 127 * rows.copy_weight
    assert total.sum() == total[::-1].sum() == sum(total.tolist()) == 127 * rows.copy_weight.sum()
    np.testing.assert_allclose(rows.weight, weights[rows.rows], rtol=1e-6)


# ---- draws per iteration ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [2, 3, 5])
def test_draws_do_not_depend_on_threads(n_threads):
    numbers = copy_numbers(*few_distinct(np.random.default_rng(0), 500_000))
    one = draw_copies(0.4, 1, 4, 7, *numbers)
    np.testing.assert_array_equal(draw_copies(0.4, 1, 4, 7, *numbers, n_threads=n_threads), one)


@pytest.mark.parametrize("fraction", [0.01, 0.37, 0.8])
def test_draws_are_bernoulli_per_copy(fraction):
    rng = np.random.default_rng(0)
    hashes, y, weights = few_distinct(rng, 3000)
    keys, first, n_copies = copy_numbers(hashes, y, weights)
    drawn = np.array([draw_copies(fraction, 9, 4, iteration, keys, first, n_copies) for iteration in range(50)])
    assert drawn.min() >= 0
    assert np.all(drawn <= n_copies)
    total = 50 * int(n_copies.sum())
    assert stats.binomtest(int(drawn.sum()), total, fraction).pvalue > 1e-6
    # Copies are independent within a row: the spread of the counts is binomial.
    spread = np.sum((drawn - fraction * n_copies) ** 2) / (fraction * (1 - fraction) * total)
    assert abs(spread - 1) < 0.03
    # And between iterations.
    centred = drawn - fraction * n_copies
    assert abs(np.mean(centred[1:] * centred[:-1])) < 0.01


def coins_of(hashes, y, weights=None):
    return mean_coins(3, 13, hashes, y, weights)


def test_coins_are_fair_and_one_for_rows_of_one_target():
    hashes = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)
    coins = coins_of(hashes, np.zeros(20_000))
    assert coins.dtype == np.float32
    assert set(coins) == {-1.0, 1.0}
    assert abs(coins.mean()) < 4 / np.sqrt(20_000)
    np.testing.assert_array_equal(coins_of(np.repeat(hashes, 3), np.zeros(60_000)), np.repeat(coins, 3))


def test_copies_of_mixed_targets_have_coins_of_their_own():
    """Two targets in one cell: mean coins of 4000 copies each are near 0, their sums whole numbers of copies."""
    y = np.tile([0.0, 1.0], 4000)
    coins = coins_of(np.zeros(8000, dtype=np.uint64), y)
    assert len(set(coins)) == 2
    assert np.abs(coins).max() < 4 / np.sqrt(4000)
    heads = (coins[:2].astype(float) + 1) * 2000
    np.testing.assert_allclose(heads, np.rint(heads), atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_coins_treat_weights_as_repetition(seed):
    rng = np.random.default_rng(seed)
    hashes, y = rng.integers(0, 12, 60).astype(np.uint64), rng.integers(0, 3, 60).astype(float)
    weights = rng.integers(1, 5, 60)
    rows = rng.permutation(np.repeat(np.arange(60), weights))
    weighted = coins_of(hashes, y, weights.astype(float))
    np.testing.assert_array_equal(coins_of(hashes[rows], y[rows]), weighted[rows])
    assert len(set(weighted)) > 3
    for scale in (0.1, 1e-5):
        np.testing.assert_array_equal(coins_of(hashes, y, scale * (weights + 0.3)), coins_of(hashes, y))


def test_everything_is_drawn_at_fraction_one():
    keys, first, n_copies = copy_numbers(*few_distinct(np.random.default_rng(0), 50))
    drawn = draw_copies(1.0, 1, 4, 0, keys, first, n_copies)
    assert drawn.dtype == np.int32
    np.testing.assert_array_equal(drawn, n_copies)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200))
def test_draws_treat_weights_as_repetition(seed, n):
    rng = np.random.default_rng(seed)
    hashes, y, weights = few_distinct(rng, n)
    rows = rng.permutation(np.repeat(np.arange(n), weights.astype(int)))
    a, b = copy_numbers(hashes, y, weights), copy_numbers(hashes[rows], y[rows])
    left, right = draw_copies(0.5, seed, 4, 3, *a), draw_copies(0.5, seed, 4, 3, *b)
    assert by_content(a[0], left) == by_content(b[0], right)


def test_streams_seeds_and_iterations_differ():
    numbers = copy_numbers(*few_distinct(np.random.default_rng(0), 200))
    draws = {draw_copies(0.5, s, t, i, *numbers).tobytes() for s in range(3) for t in range(3) for i in range(3)}
    assert len(draws) == 27


# ---- splits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5, 0.99])
@pytest.mark.parametrize("stratified", [False, True])
def test_split_holds_out_an_exact_number(fraction, stratified):
    hashes, y, weights = few_distinct(np.random.default_rng(1), 400)
    train, held = split_copies(fraction, 3, 6, hashes, y, weights, y if stratified else None)
    np.testing.assert_array_equal(train + held, weights)
    np.testing.assert_array_equal(held, np.rint(held))
    total = weights.sum()
    assert held.sum() == min(int(fraction * total + 0.5), total - 1 - stratified)
    if stratified:
        for label in (0.0, 1.0):
            assert abs(held[y == label].sum() - fraction * weights[y == label].sum()) <= 1
            assert train[y == label].sum() >= 1


def test_split_takes_a_number_of_copies():
    hashes, y, weights = few_distinct(np.random.default_rng(1), 100)
    assert split_copies(17, 3, 6, hashes, y, weights)[1].sum() == 17


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 200), st.booleans())
def test_split_treats_weights_as_repetition(seed, n, stratified):
    rng = np.random.default_rng(seed)
    hashes, y, weights = few_distinct(rng, n)
    rows = rng.permutation(np.repeat(np.arange(n), weights.astype(int)))
    left = split_copies(0.3, seed, 6, hashes, y, weights, y if stratified else None)[1]
    right = split_copies(0.3, seed, 6, hashes[rows], y[rows], None, -y[rows] if stratified else None)[1]
    content = copy_numbers(hashes, y)[0]
    assert by_content(content, left) == by_content(content[rows], right)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 100))
def test_split_does_not_depend_on_row_order_with_any_weights(seed, n):
    rng = np.random.default_rng(seed)
    hashes, y, _ = few_distinct(rng, n)
    weights, order = rng.choice([0.5, 1.0, 2.0, 2.5, 3.0], n), rng.permutation(n)
    left, right = (split_copies(0.3, seed, 6, hashes[o], y[o], weights[o])[1] for o in (np.arange(n), order))
    content = copy_numbers(hashes, y)[0]
    assert by_content(content, left) == by_content(content[order], right)


def test_split_has_an_iteration():
    arguments = few_distinct(np.random.default_rng(1), 400)
    draws = [split_copies(0.3, 3, 6, *arguments, iteration=iteration)[1] for iteration in (0, 1, 2, 1)]
    np.testing.assert_array_equal(split_copies(0.3, 3, 6, *arguments)[1], draws[0])
    np.testing.assert_array_equal(draws[1], draws[3])
    assert len({held.tobytes() for held in draws}) == 3
    assert len({held.sum() for held in draws}) == 1


def test_split_is_uniform_over_copies():
    hashes, y, weights = few_distinct(np.random.default_rng(1), 60)
    held = np.array([split_copies(0.2, seed, 6, hashes, y, weights)[1] for seed in range(400)])
    rate = held.mean(axis=0) / weights
    # Copies of a row are drawn without replacement, so a binomial spread is an upper bound.
    assert np.all(np.abs(rate - 0.2) < 5 * np.sqrt(0.2 * 0.8 / (400 * weights)))


def test_fractional_rows_go_to_one_side():
    hashes, y, _ = few_distinct(np.random.default_rng(1), 100)
    weights = np.full(100, 0.25)
    train, held = split_copies(0.3, 1, 6, hashes, y, weights)
    assert np.count_nonzero(held) == 30
    np.testing.assert_array_equal((train == 0.25) ^ (held == 0.25), True)


def test_split_of_too_few_copies_holds_out_none():
    hashes = np.arange(3, dtype=np.uint64)
    for n, labels in ((1, None), (3, np.arange(3))):
        train, held = split_copies(0.5, 1, 6, hashes[:n], np.zeros(n), None, labels)
        assert train.tolist() == [1.0] * n
        assert not held.any()
    # Two copies suffice, even for a fraction that rounds to none.
    assert split_copies(0.01, 1, 6, hashes[:1], np.zeros(1), np.array([2.0]))[1].tolist() == [1.0]


def test_rows_of_weight_zero_are_on_no_side():
    hashes, y, weights = few_distinct(np.random.default_rng(1), 60)
    y[0], weights[0] = 7.0, 0.0
    train, held = split_copies(0.3, 1, 6, hashes, y, weights, y)
    assert train[0] == held[0] == 0
    for got, expected in zip(
        (train, held), split_copies(0.3, 1, 6, hashes[1:], y[1:], weights[1:], y[1:]), strict=True
    ):
        np.testing.assert_array_equal(got[1:], expected)


def test_split_keeps_a_copy_of_every_class():
    rng = np.random.default_rng(2)
    labels = np.array(["rare"] * 2 + ["common"] * 98 + ["single"])
    hashes = rng.integers(0, 2**63, 101).astype(np.uint64)
    train, held = split_copies(0.9, 1, 6, hashes, np.zeros(101), None, labels)
    assert held.sum() == 91
    assert all(train[labels == label].sum() >= 1 for label in ("rare", "common", "single"))


# ---- seeds -----------------------------------------------------------------------------------------------------------


def test_an_int_gives_one_seed_and_consumes_nothing():
    np.random.seed(0)  # noqa: NPY002 - the global generator is what must stay untouched
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    seeds = [resolve_seed(state) for state in (0, 1, np.int64(1), 2, 2**32 - 1)]
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert seeds[1] == seeds[2]
    assert len(set(seeds)) == 4
    assert all(isinstance(seed, int) and 0 <= seed < 2**64 for seed in seeds)
    assert resolve_seed(0) == 15793235383387715774


def test_generators_are_advanced():
    state = np.random.RandomState(0)
    first, second = resolve_seed(state), resolve_seed(state)
    assert first != second
    assert resolve_seed(np.random.RandomState(0)) == first
    assert resolve_seed(None) != resolve_seed(None)


@pytest.mark.parametrize("bad", ["a", 1.5, -1])
def test_other_random_states_are_refused(bad):
    with pytest.raises(ValueError, match=r"(?i)seed"):
        resolve_seed(bad)


def test_streams_have_distinct_numbers():
    streams = {name: value for name, value in vars(_random).items() if name.startswith("STREAM_")}
    assert len(set(streams.values())) == len(streams) > 6
