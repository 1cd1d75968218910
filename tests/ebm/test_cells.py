"""CellMapper: the layout of cells, coarse cells as unions of cells, laws that hold for any data, stored mappers."""

import pickle

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from skboost._binning import BinMapper
from skboost.ebm._cells import CellMapper

TABLES = ("n_levels", "cut_values", "cut_offset", "coarse_cells", "cell_offset")
CATEGORICAL = [False, False, True, False]
LEVELS = [0, 0, 90, 0]


def assert_same_mapper(a, b):
    assert (a.max_bins, a.max_interaction_bins) == (b.max_bins, b.max_interaction_bins)
    for name in TABLES:
        left, right = getattr(a, name), getattr(b, name)
        np.testing.assert_array_equal(left, right, err_msg=name)
        assert left.dtype == right.dtype


def mixed_data(rng, n):
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 40, n), rng.integers(0, 90, n), rng.integers(0, 3, n) / 2])
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def fitted(rng, n=2000, max_bins=20, max_interaction_bins=8):
    X = mixed_data(rng, n)
    return X, CellMapper(max_bins, max_interaction_bins).fit(X, None, CATEGORICAL, LEVELS)


# ---- cells -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_bins", [4, 5, 20, 1024, 65536])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layout_of_the_cells(max_bins, dtype):
    rng = np.random.default_rng(0)
    X = mixed_data(rng, 3000).astype(dtype)
    X[:5, 0] = [np.inf, -np.inf, 0.0, -0.0, np.nan]
    mapper = CellMapper(max_bins).fit(X, None, CATEGORICAL, LEVELS)
    cells = mapper.transform(X)
    assert cells.dtype == np.uint16
    assert cells.shape == (4, 3000)
    assert mapper.is_categorical.tolist() == CATEGORICAL
    for feature in (0, 1, 3):
        cuts, x = mapper.cuts(feature), X[:, feature]
        n_values = len(np.unique(x[~np.isnan(x)]))
        assert len(cuts) == min(n_values, max_bins - 2) - 1
        assert mapper.n_cells[feature] == len(cuts) + 3
        np.testing.assert_array_equal(cells[feature], np.where(np.isnan(x), 0, 1 + np.searchsorted(cuts, x, "right")))
    # Levels are never merged.
    assert mapper.n_cells[2] == 92
    np.testing.assert_array_equal(cells[2], np.where(np.isnan(X[:, 2]), 0, 1 + X[:, 2]))
    assert len(mapper.cuts(2)) == len(mapper.coarse_cuts(2)) == 0


def test_known_cells():
    X = np.array([[1.0], [2.0], [2.0], [4.0], [np.nan]])
    mapper = CellMapper().fit(X)
    assert mapper.cuts(0).tolist() == [1.5, 3.0]
    assert mapper.transform(X).tolist() == [[1, 2, 2, 3, 0]]
    asked = np.array([[1.5], [3.0], [2.9], [-np.inf], [np.inf]])
    assert mapper.transform(asked).tolist() == [[2, 3, 2, 1, 3]]
    assert mapper.n_cells.tolist() == [5]


def test_cuts_are_those_of_the_bins_with_one_byte():
    """Both mappers share the rule: only values equal to a cut go another way, and no training value is one here."""
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(5000, 3)), rng.integers(1, 5, 5000)
    for max_bins in (2, 17, 255):
        bins, cells = BinMapper(max_bins).fit(X, weights), CellMapper(max_bins + 2).fit(X, weights)
        for feature in range(3):
            np.testing.assert_array_equal(cells.cuts(feature), bins.thresholds(feature))


def test_unseen_levels_have_the_last_cell():
    mapper = CellMapper().fit(np.array([[0.0], [1.0], [2.0]]), None, [True], [3])
    asked = np.array([[np.inf], [3.0], [-1.0], [0.5], [np.nan], [2.0]])
    assert mapper.transform(asked).tolist() == [[4, 4, 4, 4, 0, 3]]


def test_levels_are_counted_when_nobody_says_how_many():
    mapper = CellMapper().fit(np.array([[0.0, 1.0], [4.0, 2.0]]), None, [True, False])
    assert mapper.n_levels.tolist() == [5, -1]
    assert mapper.n_cells.tolist() == [7, 4]


@pytest.mark.parametrize("categorical", [False, True])
def test_columns_without_values_have_one_value_cell(categorical):
    X = np.full((4, 1), np.nan)
    mapper = CellMapper().fit(X, None, [categorical], [0])
    assert mapper.n_cells.tolist() == mapper.n_coarse.tolist() == [3]
    assert mapper.coarse(0).tolist() == [0, 1, 2]
    assert mapper.transform(X).tolist() == [[0] * 4]
    if not categorical:
        assert mapper.transform(np.array([[7.0], [np.inf]])).tolist() == [[1, 1]]


def test_special_columns():
    X = np.array([[5.0, np.inf, -np.inf, 1.0], [5.0, 1.0, np.inf, np.nan]])
    mapper = CellMapper().fit(X)
    assert mapper.n_cells.tolist() == [3, 4, 4, 3]
    assert mapper.transform(X).tolist() == [[1, 1], [2, 1], [1, 2], [1, 0]]
    one = CellMapper().fit(X[:1])
    assert one.n_cells.tolist() == [3] * 4
    assert CellMapper().fit(np.empty((3, 0))).n_cells.shape == (0,)


# ---- coarse cells ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_interaction_bins", [4, 7, 64, 1024])
def test_coarse_cells_are_unions_of_cells(max_interaction_bins):
    rng = np.random.default_rng(1)
    X = mixed_data(rng, 30_000)
    mapper = CellMapper(512, max_interaction_bins).fit(X, None, CATEGORICAL, LEVELS)
    cells = mapper.transform(X)
    assert np.all(mapper.n_coarse <= np.minimum(max_interaction_bins, mapper.n_cells))
    for feature in range(4):
        coarse = mapper.coarse(feature)
        assert coarse.dtype == np.uint16
        assert len(coarse) == mapper.n_cells[feature]
        assert coarse[0] == 0
        assert coarse[-1] == mapper.n_coarse[feature] - 1
        assert sorted(set(coarse.tolist())) == list(range(mapper.n_coarse[feature]))
        if feature != 2:
            assert np.all(np.diff(coarse.astype(int)) >= 0)
            cuts, x = mapper.coarse_cuts(feature), X[:, feature]
            assert set(cuts) <= set(mapper.cuts(feature))
            expected = np.where(np.isnan(x), 0, 1 + np.searchsorted(cuts, x, "right"))
            np.testing.assert_array_equal(coarse[cells[feature]], expected)
            n_values = mapper.n_cells[feature] - 2
            assert mapper.n_coarse[feature] == min(max_interaction_bins, n_values + 2)


def test_coarse_cells_are_even():
    X = np.random.default_rng(0).normal(size=(100_000, 1))
    mapper = CellMapper(1024, 52).fit(X)
    weights = np.bincount(mapper.coarse(0)[mapper.transform(X)[0]])[1:]
    assert len(weights) == 50
    # A coarse cell ends with a cell: half of one too early or too late.
    assert np.all(np.abs(weights - 2000) <= 1.5 * 100_000 / 1022)


def test_the_lightest_levels_share_a_coarse_cell():
    x = np.repeat(np.arange(6.0), [5, 1, 7, 1, 2, 5])
    mapper = CellMapper(1024, 6).fit(x[:, None], None, [True], [6])
    assert mapper.coarse(0).tolist() == [0, 1, 4, 2, 4, 4, 3, 5]
    weighted = CellMapper(1024, 6).fit(np.arange(6.0)[:, None], [5, 1, 7, 1, 2, 5], [True], [6])
    assert_same_mapper(weighted, mapper)


def test_mapper_of_some_columns():
    X, mapper = fitted(np.random.default_rng(0))
    for chosen in ([0, 2], [3, 1], [], [2]):
        part = mapper.take(chosen)
        levels = np.array(LEVELS)[chosen]
        expected = CellMapper(20, 8).fit(X[:, chosen], None, np.array(CATEGORICAL)[chosen], levels)
        assert_same_mapper(part, expected)
        assert_same_mapper(pickle.loads(pickle.dumps(part)), expected)
        np.testing.assert_array_equal(part.transform(X[:, chosen]), mapper.transform(X)[chosen])


# ---- laws ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 500), st.sampled_from([4, 7, 32, 300]))
def test_weights_equal_repeated_rows_in_any_order(seed, n, max_bins):
    rng = np.random.default_rng(seed)
    X, weights = mixed_data(rng, n), rng.integers(1, 7, n)
    repeated = rng.permutation(np.repeat(X, weights, axis=0))
    weighted = CellMapper(max_bins, 6).fit(X, weights, CATEGORICAL, LEVELS)
    assert_same_mapper(weighted, CellMapper(max_bins, 6).fit(repeated, None, CATEGORICAL, LEVELS))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 500), st.sampled_from([4, 7, 300]))
def test_row_order_and_the_unit_of_weights_have_no_influence(seed, n, max_bins):
    rng = np.random.default_rng(seed)
    X, weights, order = mixed_data(rng, n), rng.gamma(0.3, size=n) + 1e-9, rng.permutation(n)
    a = CellMapper(max_bins, 6).fit(X, weights, CATEGORICAL, LEVELS)
    assert_same_mapper(a, CellMapper(max_bins, 6).fit(X[order], weights[order], CATEGORICAL, LEVELS))
    assert_same_mapper(a, CellMapper(max_bins, 6).fit(X, 4 * weights, CATEGORICAL, LEVELS))


@pytest.mark.parametrize("n_threads", [2, 5])
@pytest.mark.parametrize("n", [1, 3, 60_000])
def test_threads_have_no_influence(n, n_threads):
    rng = np.random.default_rng(3)
    X, weights = mixed_data(rng, n), rng.integers(1, 5, n).astype(float)
    one = CellMapper().fit(X, weights, CATEGORICAL, LEVELS, 1)
    assert_same_mapper(one, CellMapper().fit(X, weights, CATEGORICAL, LEVELS, n_threads))
    np.testing.assert_array_equal(one.transform(X, 1), one.transform(X, n_threads))


def test_layout_has_no_influence():
    X = mixed_data(np.random.default_rng(1), 700)
    expected = CellMapper(50).fit(X, None, CATEGORICAL, LEVELS)
    frozen = np.asfortranarray(X)
    frozen.flags.writeable = False
    for other in (frozen, X[::-1, ::-1].copy()[::-1, ::-1], X.astype(X.dtype.newbyteorder()), X.tolist()):
        assert_same_mapper(CellMapper(50).fit(other, None, np.array(CATEGORICAL), LEVELS), expected)
        np.testing.assert_array_equal(expected.transform(other), expected.transform(X))


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        st.tuples(st.integers(1, 60), st.integers(1, 5)),
        elements=st.floats(width=32) | st.integers(-3, 3).map(float),
    ),
    st.integers(4, 20),
    st.integers(4, 9),
)
def test_any_numbers(X, max_bins, max_interaction_bins):
    mapper = CellMapper(max_bins, max_interaction_bins).fit(X)
    cells = mapper.transform(X)
    np.testing.assert_array_equal(cells == 0, np.isnan(X).T)
    assert_same_mapper(pickle.loads(pickle.dumps(mapper)), mapper)
    assert np.all(mapper.n_cells <= max_bins)
    assert np.all(cells.max(axis=1) < mapper.n_cells - 1)
    for feature in range(X.shape[1]):
        x = X[:, feature]
        known = np.flatnonzero(~np.isnan(x))
        order = known[np.argsort(x[known])]
        assert np.all(np.diff(cells[feature, order].astype(int)) >= 0)
        # No value cell is empty.
        assert known.size == 0 or set(cells[feature, known]) == set(range(1, mapper.n_cells[feature] - 1))


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max_bins", "max_interaction_bins"])
@pytest.mark.parametrize("value", [3, 65537, -1])
def test_impossible_numbers_of_cells_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must lie between 4 and 65536, got {value}"):
        CellMapper(**{name: value})


def test_too_many_levels_are_refused():
    X = np.arange(65_535.0)[:, None]
    assert CellMapper().fit(X[:-1], None, [True], [65_534]).transform(X[-2:]).tolist() == [[65_534, 65_535]]
    for n_levels in (None, [65_535]):
        with pytest.raises(ValueError, match="feature 0 has 65535 categories, but at most 65534"):
            CellMapper().fit(X, None, [True], n_levels)


def test_positions_outside_the_levels_are_refused():
    for bad in (3.0, -1.0):
        with pytest.raises(ValueError, match=r"feature 1 holds positions outside \[0, 3\)"):
            CellMapper().fit(np.array([[0.0, bad]]), None, [False, True], [0, 3])


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="two dimensions, got 1"):
        CellMapper().fit(np.zeros(3))
    with pytest.raises(ValueError, match=r"is_categorical must have shape \(2,\), got \(3,\)"):
        CellMapper().fit(np.zeros((3, 2)), None, [0, 0, 1])
    with pytest.raises(ValueError, match="do not match the columns"):
        CellMapper().fit(np.zeros((3, 2))).transform(np.zeros((3, 3)))


# ---- stored mappers --------------------------------------------------------------------------------------------------


def set_value(array, place, value):
    array = array.copy()
    array[place] = value
    return array


MALFORMED = {
    "levels of another type": ("n_levels", lambda a: a.astype(np.int32)),
    "levels below none": ("n_levels", lambda a: set_value(a, 0, -2)),
    "too many levels": ("n_levels", lambda a: set_value(a, 2, 65_535)),
    "a level too many": ("n_levels", lambda a: set_value(a, 2, 91)),
    "a numeric column made categorical": ("n_levels", lambda a: set_value(a, 0, 18)),
    "a categorical column made numeric": ("n_levels", lambda a: set_value(a, 2, -1)),
    "a feature too few in n_levels": ("n_levels", lambda a: a[:-1]),
    "flat levels": ("n_levels", lambda a: a[:, np.newaxis]),
    "cuts of another type": ("cut_values", lambda a: a.astype(np.float32)),
    "a cut too few": ("cut_values", lambda a: a[:-1]),
    "a table of cuts": ("cut_values", lambda a: a[np.newaxis]),
    "cuts that descend": ("cut_values", lambda a: set_value(a, 0, a[1])),
    "a cut that is no number": ("cut_values", lambda a: set_value(a, 3, np.nan)),
    "an infinite cut": ("cut_values", lambda a: set_value(a, 0, -np.inf)),
    "offsets that start late": ("cut_offset", lambda a: set_value(a, 0, 1)),
    "offsets that end late": ("cut_offset", lambda a: set_value(a, -1, a[-1] + 1)),
    "offsets that descend": ("cut_offset", lambda a: set_value(a, 1, -1)),
    "an offset too few": ("cut_offset", lambda a: a[:-1]),
    "no offset": ("cut_offset", lambda a: a[:0]),
    "a cut of the neighbour": ("cut_offset", lambda a: set_value(a, 1, a[1] + 1)),
    "offsets that are a list": ("cut_offset", lambda a: a.tolist()),
    "a cell of the neighbour": ("cell_offset", lambda a: set_value(a, 1, a[1] + 1)),
    "cells that start late": ("cell_offset", lambda a: set_value(a, 0, 1)),
    "a coarse cell too few": ("coarse_cells", lambda a: a[:-1]),
    "coarse cells of another type": ("coarse_cells", lambda a: a.astype(np.uint8)),
    "a coarse cell behind the last": ("coarse_cells", lambda a: set_value(a, 3, 60_000)),
    "a first coarse cell that is not 0": ("coarse_cells", lambda a: set_value(a, 0, 1)),
    "a value among the missing": ("coarse_cells", lambda a: set_value(a, 1, 0)),
    "a last coarse cell with values": ("coarse_cells", lambda a: set_value(a, -1, a[-2])),
    "coarse cells that descend": ("coarse_cells", lambda a: set_value(a, 2, 5)),
    "a gap in the coarse cells": ("coarse_cells", lambda a: np.where(a == 2, 3, a).astype(a.dtype)),
    "impossible max_bins": ("max_bins", lambda _: 65_537),
    "fewer max_bins than cells": ("max_bins", lambda _: 19),
    "max_bins that is no number": ("max_bins", lambda _: "20"),
    "fewer max_interaction_bins than cells": ("max_interaction_bins", lambda _: 7),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_tampered_pickles_are_refused(name):
    """The kernels trust the tables, so that a pickle that leads out of them must not become a mapper."""
    mapper = fitted(np.random.default_rng(5))[1]
    attribute, change = MALFORMED[name]
    setattr(mapper, attribute, change(getattr(mapper, attribute)))
    text = pickle.dumps(mapper)
    with pytest.raises(ValueError, match="Malformed cell mapper"):
        pickle.loads(text)


def test_stored_mappers_are_the_same(tmp_path):
    X, mapper = fitted(np.random.default_rng(5))
    copy = pickle.loads(pickle.dumps(mapper))
    assert_same_mapper(copy, mapper)
    joblib.dump(mapper, tmp_path / "mapper.joblib")
    mapped = joblib.load(tmp_path / "mapper.joblib", mmap_mode="r")
    assert_same_mapper(mapped, mapper)
    assert isinstance(mapped.coarse_cells, np.memmap)
    np.testing.assert_array_equal(mapped.transform(X), mapper.transform(X))


def test_mappers_without_tables_are_saved_too():
    assert vars(pickle.loads(pickle.dumps(CellMapper(9, 5)))) == {"max_bins": 9, "max_interaction_bins": 5}
    mapper = fitted(np.random.default_rng(5))[1]
    del mapper.cut_values
    text = pickle.dumps(mapper)
    with pytest.raises(ValueError, match="Malformed cell mapper: cut_values"):
        pickle.loads(text)


def test_pickles_of_another_format_say_what_to_do():
    state = CellMapper().fit(np.zeros((2, 2))).__getstate__()
    for wrong in ({**state, "format": 2}, {"max_bins": 9}, None):
        with pytest.raises(ValueError, match=r"cell mapper .* this skboost reads format 1: .* or fit the model again"):
            CellMapper.__new__(CellMapper).__setstate__(wrong)
