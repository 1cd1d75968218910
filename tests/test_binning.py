"""BinMapper: laws that hold for any data, layouts of X, categories, and the grid of weights."""

import math
import pickle

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from skboost._binning import BinMapper, grid_weights

ATTRIBUTES = ("cuts", "n_bins", "is_categorical", "level_offset", "level_values", "level_codes")
CATEGORICAL = [False, False, True, True]


def assert_same_mapper(a, b):
    for name in ATTRIBUTES:
        left, right = getattr(a, name), getattr(b, name)
        np.testing.assert_array_equal(left, right, err_msg=name)
        assert left.dtype == right.dtype


def mixed_data(rng, n, n_levels=300):
    X = np.column_stack(
        [rng.normal(size=n), rng.integers(0, 40, n), rng.integers(0, n_levels, n), rng.integers(0, 3, n) / 2]
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


@pytest.mark.parametrize("max_bins", [2, 3, 16, 255])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_are_one_plus_the_cuts_below(max_bins, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 11)).round(2).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:5, 3] = [np.inf, -np.inf, 0.0, -0.0, np.nan]
    mapper = BinMapper(max_bins).fit(X)
    columns, rows = mapper.transform(X)
    for feature in range(11):
        cuts, x = mapper.thresholds(feature), X[:, feature]
        most = min(max_bins, len(np.unique(x[~np.isnan(x)] + 0.0))) - 1
        assert 0.98 * most <= len(cuts) <= most
        expected = np.where(np.isnan(x), 0, 1 + np.searchsorted(cuts, x))
        np.testing.assert_array_equal(columns[feature], expected)
        assert mapper.n_bins[feature] == expected.max() + 1
    np.testing.assert_array_equal(mapper.transform_columns(X), columns)
    np.testing.assert_array_equal(rows[:, :11], columns.T)
    assert rows.shape == (1500, 16)
    assert not rows[:, 11:].any()
    assert columns.flags.c_contiguous
    assert rows.flags.c_contiguous


def layouts(X):
    padded = np.full((2 * len(X), 3 * X.shape[1]), 7.0, dtype=X.dtype)
    padded[::2, ::3] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    byte_swapped = X.astype(X.dtype.newbyteorder())
    misaligned = np.frombuffer(b"\0" + X.tobytes(), dtype=np.uint8)[1:].view(X.dtype).reshape(X.shape)
    return {
        "fortran": np.asfortranarray(X),
        "strided": padded[::2, ::3],
        "reversed": X[::-1, ::-1].copy()[::-1, ::-1],
        "read-only": frozen,
        "swapped": byte_swapped,
        "misaligned": misaligned,
        "list": X.tolist(),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["fortran", "strided", "reversed", "read-only", "swapped", "misaligned", "list"])
def test_layout_has_no_influence(layout, dtype):
    X = mixed_data(np.random.default_rng(1), 700).astype(dtype)
    other = layouts(X)[layout]
    expected = BinMapper().fit(X, is_categorical=CATEGORICAL)
    got = BinMapper().fit(other, is_categorical=CATEGORICAL)
    assert_same_mapper(got, expected)
    for a, b in zip(got.transform(other), expected.transform(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_float32_equals_its_float64_values():
    X = mixed_data(np.random.default_rng(2), 3000).astype(np.float32)
    single, double = BinMapper(20).fit(X), BinMapper(20).fit(X.astype(np.float64))
    assert_same_mapper(single, double)
    np.testing.assert_array_equal(single.transform_columns(X), single.transform_columns(X.astype(np.float64)))


@pytest.mark.parametrize("n_threads", [2, 3, 5])
@pytest.mark.parametrize("n", [1, 3, 50_000])
def test_threads_have_no_influence(n, n_threads):
    rng = np.random.default_rng(3)
    X = np.column_stack([mixed_data(rng, n), rng.normal(size=(n, 17))])
    weights = rng.integers(1, 5, n).astype(float)
    categorical = np.arange(21) == 2
    one = BinMapper(50).fit(X, weights, categorical, n_threads=1)
    many = BinMapper(50).fit(X, weights, categorical, n_threads=n_threads)
    assert_same_mapper(one, many)
    for a, b in zip(one.transform(X, 1), one.transform(X, n_threads), strict=True):
        np.testing.assert_array_equal(a, b)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 400), st.sampled_from([2, 5, 30, 255]))
def test_weights_equal_repeated_rows_in_any_order(seed, n, max_bins):
    rng = np.random.default_rng(seed)
    X = mixed_data(rng, n)
    weights = rng.integers(1, 7, n)
    repeated = rng.permutation(np.repeat(X, weights, axis=0))
    weighted = BinMapper(max_bins).fit(X, weights, CATEGORICAL)
    assert_same_mapper(weighted, BinMapper(max_bins).fit(repeated, None, CATEGORICAL))
    order = rng.permutation(n)
    assert_same_mapper(weighted, BinMapper(max_bins).fit(X[order], weights[order], CATEGORICAL))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 400), st.sampled_from([2, 5, 255]))
def test_row_order_has_no_influence_with_any_weights(seed, n, max_bins):
    rng = np.random.default_rng(seed)
    X, weights, order = mixed_data(rng, n), rng.gamma(0.3, size=n) + 1e-9, rng.permutation(n)
    a = BinMapper(max_bins).fit(X, weights, CATEGORICAL)
    assert_same_mapper(a, BinMapper(max_bins).fit(X[order], weights[order], CATEGORICAL))
    assert_same_mapper(a, BinMapper(max_bins).fit(X, 4 * weights, CATEGORICAL))


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        st.tuples(st.integers(1, 60), st.integers(1, 9)),
        elements=st.floats(width=32) | st.integers(-3, 3).map(float),
    ),
    st.integers(2, 20),
)
def test_any_numbers(X, max_bins):
    mapper = BinMapper(max_bins).fit(X)
    columns, rows = mapper.transform(X)
    np.testing.assert_array_equal(columns == 0, np.isnan(X).T)
    assert np.all(columns.max(axis=1) < mapper.n_bins)
    assert np.all(mapper.n_bins <= max_bins + 1)
    assert_same_mapper(pickle.loads(pickle.dumps(mapper)), mapper)
    for feature in range(X.shape[1]):
        x, codes, cuts = X[:, feature], columns[feature], mapper.thresholds(feature)
        assert np.all(np.isfinite(cuts))
        known = np.flatnonzero(~np.isnan(x))
        order = known[np.argsort(x[known])]
        assert np.all(np.diff(codes[order].astype(int)) >= 0)
        for cut, threshold in enumerate(cuts, start=1):
            np.testing.assert_array_equal(x[known] <= threshold, codes[known] <= cut)
    np.testing.assert_array_equal(rows[:, : X.shape[1]], columns.T)


def test_special_columns():
    X = np.array([[np.nan, 5.0, np.inf, -np.inf, np.nan], [np.nan, 5.0, 1.0, np.inf, 2.0]])
    mapper = BinMapper().fit(X)
    assert mapper.n_bins.tolist() == [2, 2, 3, 3, 2]
    assert mapper.transform_columns(X).tolist() == [[0, 0], [1, 1], [2, 1], [1, 2], [0, 1]]
    # A value where training saw none falls in the only value bin.
    assert mapper.transform_columns(np.full((1, 5), 3.0)).ravel().tolist() == [1, 1, 1, 2, 1]


def test_one_row():
    mapper = BinMapper().fit(np.array([[1.0, np.nan, 4.0]]), [2.0], [False, False, True])
    assert mapper.n_bins.tolist() == [2, 2, 2]
    assert mapper.transform_columns(np.array([[0.0, 0.0, 0.0], [9.0, np.nan, 4.0]])).T.tolist() == [
        [1, 1, 0],
        [1, 0, 1],
    ]


@pytest.mark.parametrize("n_levels", [1, 2, 7, 254, 255, 256, 300])
def test_categories(n_levels):
    rng = np.random.default_rng(n_levels)
    levels = np.sort(rng.choice(np.arange(-500, 500), n_levels, replace=False)) / 4
    counts = rng.integers(1, 6, n_levels)
    x = rng.permutation(np.concatenate([np.repeat(levels, counts), [np.nan]]))
    mapper = BinMapper().fit(x[:, None], is_categorical=[True])
    if n_levels <= 255:
        expected = {level: code for code, level in enumerate(levels, start=1)}
    else:
        heaviest = sorted(sorted(range(n_levels), key=lambda k: (-counts[k], levels[k]))[:254])
        expected = dict.fromkeys(levels, 255) | {levels[k]: code for code, k in enumerate(heaviest, start=1)}
    unseen = np.array([np.inf, -np.inf, 1e300, 0.1, levels[0] - 0.25, np.nextafter(levels[-1], np.inf)])
    codes = mapper.transform_columns(np.concatenate([x, unseen])[:, None])[0]
    assert codes.tolist() == [expected.get(value, 0) for value in x] + [0] * len(unseen)
    assert mapper.n_bins[0] == min(n_levels, 255) + 1
    np.testing.assert_array_equal(mapper.levels(0)[0], levels)
    assert len(mapper.thresholds(0)) == 0


def test_pooled_categories_follow_the_weights():
    x = np.array([0.0, 1.0, 2.0, 3.0])
    mapper = BinMapper(max_bins=3).fit(x[:, None], [1.0, 5.0, 5.0, 4.0], [True])
    assert mapper.transform_columns(x[:, None])[0].tolist() == [3, 1, 2, 3]


def test_a_category_column_without_values():
    mapper = BinMapper().fit(np.full((3, 1), np.nan), is_categorical=[True])
    assert mapper.n_bins.tolist() == [1]
    assert mapper.transform_columns(np.array([[1.0], [np.nan]])).tolist() == [[0, 0]]


def test_mapper_survives_pickling():
    X = mixed_data(np.random.default_rng(5), 100)
    mapper = BinMapper(9).fit(X, is_categorical=CATEGORICAL)
    copy = pickle.loads(pickle.dumps(mapper))
    assert_same_mapper(copy, mapper)
    assert copy.max_bins == 9
    np.testing.assert_array_equal(copy.transform_columns(X), mapper.transform_columns(X))


def set_value(array, place, value):
    array = array.copy()
    array[place] = value
    return array


MALFORMED = {
    "cuts of another type": ("cuts", lambda a: a.astype(np.float32)),
    "a column of cuts too few": ("cuts", lambda a: np.ascontiguousarray(a[:, :255])),
    "a feature too few in cuts": ("cuts", lambda a: a[:-1]),
    "a flat table of cuts": ("cuts", lambda a: a.ravel()),
    "cuts that descend": ("cuts", lambda a: set_value(a, (0, 0), a[0, 1])),
    "a cut that is no number": ("cuts", lambda a: set_value(a, (0, 1), np.nan)),
    "an infinite cut": ("cuts", lambda a: set_value(a, (0, 0), -np.inf)),
    "a cut behind the last": ("cuts", lambda a: set_value(a, (0, 200), 1e300)),
    "a padding that is no number": ("cuts", lambda a: set_value(a, (2, 0), np.nan)),
    "a cut of a categorical column": ("cuts", lambda a: set_value(a, (2, 0), 1.0)),
    "more bins than cuts": ("n_bins", lambda a: set_value(a, 0, a[0] + 1)),
    "far more bins": ("n_bins", lambda a: set_value(a, 0, 10**6)),
    "no bins": ("n_bins", lambda a: set_value(a, 0, 0)),
    "a negative number of bins": ("n_bins", lambda a: set_value(a, 2, -5)),
    "fewer bins than codes": ("n_bins", lambda a: set_value(a, 2, a[2] - 1)),
    "bins of another type": ("n_bins", lambda a: a.astype(np.int64)),
    "bins that are a list": ("n_bins", lambda a: a.tolist()),
    "a feature too few in n_bins": ("n_bins", lambda a: a[:-1]),
    "a third kind of column": ("is_categorical", lambda a: set_value(a, 0, 2)),
    "a numeric column made categorical": ("is_categorical", lambda a: set_value(a, 0, 1)),
    "a feature too few in is_categorical": ("is_categorical", lambda a: a[:-1]),
    "offsets that start late": ("level_offset", lambda a: set_value(a, 0, 1)),
    "offsets that end late": ("level_offset", lambda a: set_value(a, -1, a[-1] + 1)),
    "offsets that descend": ("level_offset", lambda a: set_value(a, 3, -1)),
    "an offset too few": ("level_offset", lambda a: a[:-1]),
    "levels of a numeric column": ("level_offset", lambda a: set_value(a, 1, 1)),
    "a level too few": ("level_values", lambda a: a[:-1]),
    "equal levels": ("level_values", lambda a: set_value(a, 1, a[0])),
    "a level that is no number": ("level_values", lambda a: set_value(a, 0, np.nan)),
    "a code too few": ("level_codes", lambda a: a[:-1]),
    "a level with the code of missing": ("level_codes", lambda a: set_value(a, 0, 0)),
    "a code beyond the last bin": ("level_codes", lambda a: set_value(a, 0, 255)),
    "impossible max_bins": ("max_bins", lambda _: 256),
    "fewer max_bins than bins": ("max_bins", lambda _: 3),
    "max_bins that is no number": ("max_bins", lambda _: "9"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_tampered_pickles_are_refused(name):
    """The kernels trust the tables, so that a pickle that leads out of them must not become a mapper."""
    X = mixed_data(np.random.default_rng(5), 100)
    mapper = BinMapper(9).fit(X, is_categorical=CATEGORICAL)
    attribute, change = MALFORMED[name]
    setattr(mapper, attribute, change(getattr(mapper, attribute)))
    text = pickle.dumps(mapper)
    with pytest.raises(ValueError, match="Malformed bin mapper"):
        pickle.loads(text)


def test_mappers_without_tables_are_saved_too():
    assert vars(pickle.loads(pickle.dumps(BinMapper(9, 3, 0.25)))) == {
        "max_bins": 9,
        "n_prior_cuts": 3,
        "cut_margin": 0.25,
    }
    mapper = BinMapper().fit(np.arange(4.0).reshape(2, 2))
    del mapper.cuts
    text = pickle.dumps(mapper)
    with pytest.raises(ValueError, match="Malformed bin mapper: cuts"):
        pickle.loads(text)


def test_pickles_of_another_format_say_what_to_do():
    state = BinMapper().fit(np.arange(4.0).reshape(2, 2)).__getstate__()
    for wrong in ({**state, "format": 2}, {"max_bins": 9}, None):
        with pytest.raises(ValueError, match=r"this skboost reads format 1: .* or fit the model again"):
            BinMapper.__new__(BinMapper).__setstate__(wrong)


def test_mapped_tables_stay_mapped(tmp_path):
    X = mixed_data(np.random.default_rng(5), 100)
    mapper = BinMapper(9).fit(X, is_categorical=CATEGORICAL)
    joblib.dump(mapper, tmp_path / "mapper.joblib")
    mapped = joblib.load(tmp_path / "mapper.joblib", mmap_mode="r")
    assert_same_mapper(mapped, mapper)
    assert all(isinstance(getattr(mapped, name), np.memmap) for name in ATTRIBUTES)
    np.testing.assert_array_equal(mapped.transform_columns(X), mapper.transform_columns(X))


@pytest.mark.parametrize("max_bins", [1, 256])
def test_impossible_numbers_of_bins_are_refused(max_bins):
    with pytest.raises(ValueError, match=f"between 2 and 255, got {max_bins}"):
        BinMapper(max_bins)


def test_wrong_dimensions_are_refused():
    with pytest.raises(ValueError, match="two dimensions, got 1"):
        BinMapper().fit(np.zeros(3))


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 50), elements=st.floats(0, 1e12, allow_subnormal=False)),
    st.randoms(use_true_random=False),
)
def test_sums_of_grid_weights_are_exact(weights, random):
    grid = grid_weights(weights)
    np.testing.assert_array_equal(grid == 0, weights == 0)
    assert np.all(np.abs(grid - weights) <= len(weights) * weights.max() * 2.0**-51)
    shuffled = grid.tolist()
    random.shuffle(shuffled)
    assert sum(shuffled) == math.fsum(grid)


@given(hnp.arrays(np.int64, st.integers(1, 50), elements=st.integers(0, 10**12)))
def test_whole_weights_are_on_the_grid(weights):
    np.testing.assert_array_equal(grid_weights(weights), weights)
