"""The kernels on 16-bit cells against NumPy: the map from values, hashes of rows, chosen rows."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import skboost
from skboost._engine import cells

TESTS = Path(__file__).parents[1]
MASK = 2**64 - 1
LARGEST = np.finfo(np.float64).max
SPECIAL = [np.nan, np.inf, -np.inf, LARGEST, -LARGEST, 0.0, -0.0, 5e-324]


def tables(cuts=(), n_levels=-1):
    return np.asarray(cuts, dtype=np.float64), np.array([0, len(cuts)]), np.array([n_levels])


def map_column(x, *table):
    return cells.transform(x.reshape(-1, 1), *table, 1)[0]


def expected_cells(x, cuts):
    return np.where(np.isnan(x), 0, 1 + np.searchsorted(cuts, x, side="right"))


# ---- values to cells -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_cuts", [*range(18), 31, 32, 33, 62, 100, 127, 128, 255, 256, 1021, 1022, 65533])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_are_counted_against_the_cuts(n_cuts, dtype):
    rng = np.random.default_rng(n_cuts)
    cuts = np.unique(rng.normal(size=n_cuts).astype(dtype).astype(np.float64))
    x = np.concatenate([rng.normal(size=700), cuts[:900], np.nextafter(cuts[:900], -np.inf), cuts[-9:], SPECIAL])
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    got = map_column(x, *tables(cuts))
    assert got.dtype == np.uint16
    np.testing.assert_array_equal(got, expected_cells(x, cuts))


@pytest.mark.parametrize("n", [1, 7, 8, 9, 31, 32, 33, 255, 256, 257, 512])
def test_any_number_of_rows(n):
    rng = np.random.default_rng(n)
    cuts, x = np.sort(rng.normal(size=77)), rng.normal(size=n)
    np.testing.assert_array_equal(map_column(x, *tables(cuts)), expected_cells(x, cuts))
    np.testing.assert_array_equal(
        map_column(np.floor(abs(x)), *tables(n_levels=2)), np.minimum(np.floor(abs(x)), 2) + 1
    )


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(0, 40), elements=st.floats(allow_infinity=False, allow_nan=False), unique=True),
    hnp.arrays(st.sampled_from([np.float32, np.float64]), st.integers(1, 70), elements=st.floats(width=32)),
)
def test_the_map_is_monotone_and_equals_searchsorted(cuts, x):
    cuts = np.unique(cuts + 0.0)
    got = map_column(x, *tables(cuts)).astype(int)
    np.testing.assert_array_equal(got, expected_cells(x, cuts))
    known = np.flatnonzero(~np.isnan(x))
    assert np.all(np.diff(got[known[np.argsort(x[known])]]) >= 0)


def test_a_value_equal_to_a_cut_goes_up():
    assert map_column(np.array([1.0, 2.0, 2.5, 3.0]), *tables([2.0, 3.0])).tolist() == [1, 2, 2, 3]
    assert map_column(np.array([-0.0, 0.0]), *tables([0.0])).tolist() == [2, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_levels(dtype):
    x = np.array([0, 1, 2, 3, -1, 0.5, 2.9, np.nan, np.inf, -np.inf, 1e30, -0.0], dtype=dtype)
    assert map_column(x, *tables(n_levels=3)).tolist() == [1, 2, 3, 4, 4, 4, 4, 0, 4, 4, 4, 1]
    assert map_column(x, *tables(n_levels=0)).tolist() == [1] * 7 + [0] + [1] * 4
    assert map_column(np.array([65533.0, 65534.0, 0.0]), *tables(n_levels=65534)).tolist() == [65534, 65535, 1]


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_and_threads(n_threads, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 9)).astype(dtype)
    X[:, 4] = rng.integers(0, 5, 40_000)
    cuts = [np.sort(rng.normal(size=k * k)) if k != 4 else np.empty(0) for k in range(9)]
    levels = np.where(np.arange(9) == 4, 5, -1)
    table = np.concatenate(cuts), np.cumsum([0, *map(len, cuts)]), levels
    expected = np.stack([X[:, k] + 1 if k == 4 else expected_cells(X[:, k], cuts[k]) for k in range(9)])
    padded = np.zeros((80_000, 27), dtype=dtype)
    padded[::2, ::3] = X
    frozen = np.asfortranarray(X)
    frozen.flags.writeable = False
    for source in (X, frozen, padded[::2, ::3], X[::-1, ::-1].copy()[::-1, ::-1]):
        got = cells.transform(source, *table, n_threads)
        np.testing.assert_array_equal(got, expected)
        assert got.flags.c_contiguous


def test_empty_tables():
    assert cells.transform(np.empty((0, 1)), *tables([1.0]), 1).shape == (1, 0)
    assert cells.transform(np.empty((3, 0)), np.empty(0), np.zeros(1, dtype=int), np.empty(0, dtype=int), 1).shape == (
        0,
        3,
    )


@pytest.mark.parametrize(
    ("offset", "levels", "message"),
    [
        ([0, 2, 2], [-1, -1], "do not match"),
        ([0, 2], [-1, -1], "do not match"),
        ([1, 2], [-1], "does not divide"),
        ([0, 1], [-1], "does not divide"),
        ([0, 3], [-1], "does not divide"),
        ([0, 2], [-2], "n_levels is out of range"),
        ([0, 2], [65535], "n_levels is out of range"),
    ],
)
def test_tables_that_lead_out_of_memory_are_refused(offset, levels, message):
    with pytest.raises(ValueError, match=message):
        cells.transform(np.zeros((3, 1)), np.array([1.0, 2.0]), np.array(offset), np.array(levels), 1)


def test_too_many_cuts_are_refused():
    with pytest.raises(ValueError, match="does not divide"):
        map_column(np.zeros(3), *tables(np.arange(65534.0)))
    two = np.arange(3.0), np.array([0, 4, 3]), np.array([-1, -1])
    with pytest.raises(ValueError, match="does not divide"):
        cells.transform(np.zeros((3, 2)), *two, 1)


# ---- rows ------------------------------------------------------------------------------------------------------------


def mix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 8, 14])
@pytest.mark.parametrize("n", [1, 40, 256, 300])
def test_hashes_match_plain_integers(n, n_features):
    table = np.random.default_rng(n).integers(0, 65536, (n_features, n)).astype(np.uint16)
    expected = []
    for row in table.T.tolist():
        value = 0x9E3779B97F4A7C15
        for start in range(0, n_features, 4):
            value = mix64(value ^ sum(cell << (16 * k) for k, cell in enumerate(row[start : start + 4])))
        expected.append(value)
    assert cells.row_hashes(table, 1).tolist() == expected


@pytest.mark.parametrize("n_threads", [2, 5])
def test_hashes_do_not_depend_on_threads(n_threads):
    table = np.random.default_rng(0).integers(0, 1024, (13, 100_000)).astype(np.uint16)
    np.testing.assert_array_equal(cells.row_hashes(table, n_threads), cells.row_hashes(table, 1))
    assert cells.row_hashes(table[:, :0].copy(), 1).shape == (0,)
    assert cells.row_hashes(table[:0], 1).tolist() == [0] * 100_000


def test_hashes_of_neighbouring_rows_look_random():
    table = np.array(np.unravel_index(np.arange(60_000), (10, 10, 10, 60)), dtype=np.uint16)
    hashes = cells.row_hashes(table, 1)
    assert len(np.unique(hashes)) == 60_000
    bits = (hashes[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(60_000)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_chosen_rows(n_threads):
    rng = np.random.default_rng(0)
    table = rng.integers(0, 65536, (7, 30_000)).astype(np.uint16)
    for rows in (rng.permutation(30_000), rng.integers(0, 30_000, 50_000), np.empty(0, dtype=np.int64)):
        got = cells.take_rows(table, rows, n_threads)
        np.testing.assert_array_equal(got, table[:, rows])
        assert got.flags.c_contiguous
    for bad in ([-1], [30_000]):
        with pytest.raises(ValueError, match="lead out"):
            cells.take_rows(table, np.array(bad), n_threads)


# ---- instruction sets ------------------------------------------------------------------------------------------------


def digest():
    """Return a hash of cells and row hashes of fixed data; run in other processes by the test below."""
    rng, result = np.random.default_rng(3), hashlib.sha256()
    for n_cuts in (0, 1, 3, 4, 7, 8, 100, 1021):
        cuts = np.sort(rng.normal(size=n_cuts))
        x = np.concatenate([rng.normal(size=600), cuts, SPECIAL])
        result.update(map_column(x, *tables(cuts)).tobytes())
        result.update(map_column(np.floor(x), *tables(n_levels=n_cuts)).tobytes())
    result.update(cells.row_hashes(rng.integers(0, 1024, (14, 777)).astype(np.uint16), 1).tobytes())
    return result.hexdigest()


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_instruction_set_does_not_change_bits(level):
    command = "from engine.test_cells import digest; print(digest())"
    path = os.pathsep.join([str(TESTS), str(Path(skboost.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "SKBOOST_ISA": level, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest()
