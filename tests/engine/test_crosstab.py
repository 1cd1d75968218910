"""Cross-tables against sums over rows."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skboost._engine import crosstab

SIZES = np.array([3, 40, 17, 300, 2, 2])
WEIGHTS = {
    "ones": lambda rng, n: np.ones(n),
    "whole": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "scaled": lambda rng, n: 0.3 * rng.integers(1, 5, n),
    "fractional": lambda rng, n: rng.exponential(size=n),
}


def make_cells(n, seed, sizes=SIZES):
    """Return codes (n_features, n); the second feature has one cell of most rows, the fourth many empty cells."""
    rng = np.random.default_rng([seed, n])
    cells = np.array([rng.integers(0, size, n) for size in sizes], dtype=np.uint16)
    cells[1, : 2 * n // 3] = 7
    cells[3] -= cells[3] % 3
    return cells


def all_prefixes(table):
    return {(k, s): table.prefix(k, s) for k, size in enumerate(table.n_cells) for s in range(size)}


def row_sums(cells, sizes, weight, k, s):
    below = cells[k] <= s
    return [np.bincount(c[below], weight[below], size) for c, size in zip(cells, sizes, strict=True)]


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("n", [0, 1, 500])
def test_prefix_rows_are_sums_of_weights(kind, n, seed):
    cells = make_cells(n, seed)
    weight = WEIGHTS[kind](np.random.default_rng(seed), n)
    for (k, s), row in all_prefixes(crosstab.CrossTab(cells, SIZES, weight)).items():
        for got, expected in zip(row, row_sums(cells, SIZES, weight, k, s), strict=True):
            assert_allclose(got, expected, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("kind", WEIGHTS)
def test_no_bit_depends_on_the_anchors_or_threads(kind, seed):
    cells = make_cells(600, seed)
    weight = WEIGHTS[kind](np.random.default_rng(seed), 600)
    dense = crosstab.CrossTab(cells, SIZES, weight, spacing=1).build()
    expected = all_prefixes(dense)
    for options in {"spacing": 100}, {"spacing": 10**12}, {"max_bytes": 20000, "n_threads": 2}, {"max_bytes": 0}:
        table = crosstab.CrossTab(cells, SIZES, weight, **options).build()
        assert table.n_bytes < dense.n_bytes / 5
        assert not table.complete
        for at, row in all_prefixes(table).items():
            for got, want in zip(row, expected[at], strict=True):
                assert_array_equal(got, want)


def test_the_table_keeps_within_the_memory_it_may_take():
    cells, weight = make_cells(3000, 0), np.ones(3000)
    full = crosstab.CrossTab(cells, SIZES, weight, spacing=1).build()
    for share in (2, 10, 30):
        table = crosstab.CrossTab(cells, SIZES, weight, spacing=1, max_bytes=full.n_bytes // share).build()
        assert full.n_bytes / share / 4 < table.n_bytes <= full.n_bytes / share


def test_heavy_cells_have_anchors_on_both_sides():
    """So no row needs more than half the spacing in rows, and here none at all."""
    cells = np.repeat(np.arange(10), 50).astype(np.uint16)[None]
    assert crosstab.CrossTab(cells, [12], np.ones(500), spacing=49).build().complete
    assert not crosstab.CrossTab(cells, [12], np.ones(500), spacing=100).build().complete


def test_entries_are_as_narrow_as_all_cells_but_a_few_allow():
    n, sizes = 70000, [2, 6, 1000, 1000, 1000]
    i = np.arange(n)
    cells = np.array([0 * i, i % 5, i % 1000, i % 200, np.where(i < 60000, 0, i % 1000)], dtype=np.uint16)
    assert crosstab.CrossTab(cells, sizes, np.ones(n)).widths == [1, 2, 1, 2, 1]
    assert crosstab.CrossTab(cells, sizes, np.full(n, 2.5)).widths == [1, 2, 1, 2, 1]
    assert crosstab.CrossTab(cells, sizes, np.where(i < 5, 1e5, 1.0)).widths == [1, 4, 4, 4, 1]
    assert crosstab.CrossTab(cells, sizes, np.random.default_rng(0).random(n)).widths == [8] * 5


@pytest.mark.parametrize("kind", ["ones", "whole"])
def test_wide_cells_are_whole(kind, seed):
    """Entries of one byte beside cells of hundreds and thousands of rows, at any anchors."""
    rng = np.random.default_rng(seed)
    n, sizes = 3000, [300, 300, 4]
    cells = np.array([rng.integers(0, size, n) for size in sizes], dtype=np.uint16)
    cells[0, rng.random(n) < 0.5] = 11
    cells[0, rng.random(n) < 0.2] = 299
    cells[1, rng.random(n) < 0.3] = 0
    weight = WEIGHTS[kind](rng, n)
    for spacing in 1, 500, 10**9:
        table = crosstab.CrossTab(cells, sizes, weight, spacing=spacing)
        assert table.widths == [1, 1, 1]
        for k, s in (0, 10), (0, 11), (0, 298), (1, 0), (1, 150), (2, 1), (2, 3):
            for got, expected in zip(table.prefix(k, s), row_sums(cells, sizes, weight, k, s), strict=True):
                assert_array_equal(got, expected)


@pytest.mark.parametrize("largest", [255, 256, 65535, 65536, 2**31 - 1, 2**31])
def test_cells_at_the_limits_of_the_entries(largest):
    cells = np.array([[0, 0, 1], [0, 1, 1]], dtype=np.uint16)
    weight = np.array([largest - 1.0, 1.0, 3.0])
    table = crosstab.CrossTab(cells, [2, 2], weight)
    assert_array_equal(table.prefix(0, 0), [[largest, 0], [largest - 1, 1]])
    assert_array_equal(table.prefix(1, 1), [[largest, 3], [largest - 1, 4]])


def test_rows_are_counted_when_the_table_is_read():
    table = crosstab.CrossTab(make_cells(50, 0), SIZES, np.ones(50))
    assert table.n_bytes == 0
    table.prefix(0, 0)
    size = table.n_bytes
    assert size > 0
    assert table.build() is table
    assert table.n_bytes == size


def test_units_of_weights():
    assert crosstab.weight_unit([3.0, 6.0, 0.0]) == 3
    assert crosstab.weight_unit([0.1, 0.3, 0.7]) == 0.1
    assert crosstab.weight_unit([1.0, 2.5, 3.25]) == 2.0**-5
    assert crosstab.weight_unit([2.0, 4.0], n_copies=[2, 1]) == 1
    assert crosstab.weight_unit([1.0, np.pi, np.e]) is None
    assert crosstab.weight_unit([1.0, 2.0**60]) is None
    assert crosstab.weight_unit([0.0]) == 1


def test_fractional_weights_are_exact_to_the_heaviest_cell():
    """All sums are exact multiples of the unit, so sums of parts are the sum of the whole to the bit."""
    rng = np.random.default_rng(0)
    cells, weight = make_cells(400, 0), rng.exponential(size=400)
    part = np.where(rng.random(400) < 0.3, weight, 0)
    whole = crosstab.CrossTab(cells, SIZES, weight)
    parts = [crosstab.CrossTab(cells, SIZES, w, unit=whole.unit) for w in (part, weight - part)]
    for at, row in all_prefixes(whole).items():
        sums = [np.add(a, b) for a, b in zip(*(p.prefix(*at) for p in parts), strict=True)]
        for got, want in zip(sums, row, strict=True):
            assert_array_equal(got, want)


def test_threads_may_build_and_read_one_table():
    cells = make_cells(2000, 0)
    expected = all_prefixes(crosstab.CrossTab(cells, SIZES, np.ones(2000), spacing=200))
    table, found = crosstab.CrossTab(cells, SIZES, np.ones(2000), spacing=200, n_threads=2), {}
    readers = [threading.Thread(target=lambda i=i: found.update({i: all_prefixes(table)})) for i in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    for i in range(4):
        for at, row in found[i].items():
            for got, want in zip(row, expected[at], strict=True):
                assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n_cells": [3, 40, 17, 300, 2]}, "n_cells"),
        ({"n_cells": [3, 40, 17, 290, 2, 2]}, "codes beyond"),
        ({"n_cells": [3, 40, 17, 300, 2, 0]}, "n_cells"),
        ({"n_cells": [3, 40, 17, 300, 2, 70000]}, "n_cells"),
        ({"n_cells": [3.5, 40, 17, 300, 2, 2]}, "n_cells"),
        ({"weight": np.ones(49)}, "weight"),
        ({"weight": np.full(50, -1.0)}, "weight"),
        ({"weight": np.full(50, np.nan)}, "weight"),
        ({"weight": np.full(50, np.inf)}, "weight"),
        ({"weight": np.full(50, 0.3), "unit": 0.2}, "unit"),
        ({"unit": 0.0}, "unit"),
        ({"unit": np.inf}, "unit"),
        ({"spacing": 0}, "spacing"),
        ({"n_copies": np.zeros(50, dtype=int)}, "n_copies"),
        ({"n_copies": np.ones(49, dtype=int)}, "n_copies"),
        ({"cells": np.zeros((0, 50), dtype=np.uint16), "n_cells": []}, "n_cells"),
    ],
)
def test_bad_arguments(change, match):
    arguments = {"cells": make_cells(50, 0), "n_cells": SIZES, "weight": np.ones(50), **change}
    positional = [arguments.pop(name) for name in ("cells", "n_cells", "weight")]
    with pytest.raises(ValueError, match=match):
        crosstab.CrossTab(*positional, **arguments)
    with pytest.raises((TypeError, ValueError)):
        crosstab.CrossTab(None, SIZES, np.ones(3))
    table = crosstab.CrossTab(make_cells(5, 0), SIZES, np.ones(5))
    for at in (-1, 0), (6, 0), (0, 3), (0, -1):
        with pytest.raises(ValueError, match="no cell"):
            table.prefix(*at)
