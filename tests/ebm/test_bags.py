"""Outer bags: exact counts, classes, weights as repetition, freedom from row order, bags of the user, refusals."""

import collections
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skboost import EBMRegressor
from skboost._sampling import canonical_rows, cell_hashes
from skboost.ebm._bags import check_user_bags, make_bags

SEED = 3


def table(rng, n, n_values=3):
    """Cells, classes and whole weights with many equal rows."""
    cells = rng.integers(0, n_values, (4, n)).astype(np.uint16)
    return cells, rng.integers(0, 2, n).astype(float), rng.integers(1, 6, n).astype(float)


def rows_of(cells, y, weights=None, *extra):
    return canonical_rows(cell_hashes(cells), y, weights, extra)


# ---- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("validation_size", [0.0, 0.15, 0.5, 0.99, 1, 17, 17.0])
def test_number_of_validation_copies_is_exact(validation_size, stratified):
    cells, y, weights = table(np.random.default_rng(0), 300)
    rows = rows_of(cells, y, weights)
    labels = y[rows.rows]
    bags = make_bags(rows, 5, validation_size, SEED, labels if stratified else None)
    total = int(weights.sum())
    wanted = int(validation_size) if validation_size >= 1 else int(validation_size * total)
    assert len(bags) == 5
    for train, held in bags:
        assert train.dtype == held.dtype == np.float64
        np.testing.assert_array_equal(train + held, rows.weight)
        np.testing.assert_array_equal(held, np.rint(held))
        assert held.sum() == wanted
        for label in (0.0, 1.0) if stratified else ():
            share = wanted * rows.weight[labels == label].sum() / total
            assert abs(held[labels == label].sum() - share) < 1


def test_a_share_that_is_a_whole_number_of_rows_stays_one():
    rows = rows_of(np.arange(100, dtype=np.uint16)[np.newaxis], np.zeros(100))
    assert 0.29 * 100 < 29
    for share, count in ((0.29, 29), (0.57, 57), (0.58, 58), (0.155, 15), (0.009, 0), (0.01, 1)):
        assert make_bags(rows, 1, share, SEED)[0][1].sum() == count


def test_bags_differ_and_repeat():
    cells, y, _ = table(np.random.default_rng(0), 200, 60_000)
    rows = rows_of(cells, y)
    bags, again, other = (
        make_bags(rows, 20, 0.3, SEED),
        make_bags(rows, 3, 0.3, SEED),
        make_bags(rows, 3, 0.3, SEED + 1),
    )
    assert len({held.tobytes() for _, held in [*bags, *other]}) == 23
    for bag in (2, 0, 1, 2):
        np.testing.assert_array_equal(again[bag][1], bags[bag][1])
    with pytest.raises(IndexError):
        bags[20]
    with pytest.raises(IndexError):
        bags[-1]


def test_bags_may_be_made_in_threads():
    cells, y, weights = table(np.random.default_rng(0), 20_000, 50)
    rows = rows_of(cells, y, weights)
    bags = make_bags(rows, 8, 0.3, SEED, y[rows.rows])
    expected = [bags[bag] for bag in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for got, wanted in zip(pool.map(bags.__getitem__, range(8)), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_every_copy_is_as_likely_as_the_others():
    cells, y, weights = table(np.random.default_rng(1), 60)
    rows = rows_of(cells, y, weights)
    held = np.array([held for _, held in make_bags(rows, 400, 0.25, SEED)])
    # Hypergeometric counts of each row.
    n, k = int(rows.weight.sum()), int(0.25 * rows.weight.sum())
    spread = [stats.hypergeom(n, int(w), k).var() for w in rows.weight]
    deviation = (held.mean(axis=0) - rows.weight * k / n) / np.sqrt(np.array(spread) / 400)
    assert np.abs(deviation).max() < 4.5
    assert np.isclose(np.mean(held.var(axis=0) / spread), 1, atol=0.1)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 200), st.booleans())
def test_weights_are_repetition_and_order_has_no_influence(seed, n, stratified):
    rng = np.random.default_rng(seed)
    cells, y, weights = table(rng, n)
    repeated = rng.permutation(np.repeat(np.arange(n), weights.astype(int)))
    a, b = rows_of(cells, y, weights), rows_of(cells[:, repeated].copy(), y[repeated])
    for name in ("keys", "n_copies", "copy_weight", "weight"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    left = make_bags(a, 2, 0.3, seed, y[a.rows] if stratified else None)
    right = make_bags(b, 2, 0.3, seed, -y[repeated][b.rows] if stratified else None)
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 100))
def test_order_has_no_influence_with_any_weights(seed, n):
    rng = np.random.default_rng(seed)
    cells, y, _ = table(rng, n)
    weights, order = rng.choice([0.3, 1.0, 2.0, 2.7, 3.0], n), rng.permutation(n)
    a, b = rows_of(cells, y, weights), rows_of(cells[:, order].copy(), y[order], weights[order])
    for one, other in zip(make_bags(a, 3, 0.4, seed), make_bags(b, 3, 0.4, seed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sums_of_fractional_weights_are_exact():
    rng = np.random.default_rng(0)
    cells, y, _ = table(rng, 3000, 60_000)
    weights = rng.gamma(0.3, size=3000) + 1e-9
    rows = rows_of(cells, y, weights)
    np.testing.assert_allclose(rows.weight, weights[rows.rows], rtol=1e-6, atol=1e-11)
    for train, held in make_bags(rows, 3, 0.2, SEED):
        np.testing.assert_array_equal((train == 0) ^ (held == 0), True)
        np.testing.assert_array_equal(train + held, rows.weight)
        assert np.count_nonzero(held) == 600
        assert train.sum() == train[::-1].sum() == sum(train.tolist()) == rows.weight.sum() - held.sum()


def test_every_class_keeps_a_copy():
    labels = np.array([0.0] * 2 + [1.0] * 97 + [2.0])
    rows = rows_of(np.arange(100, dtype=np.uint16)[np.newaxis], labels)
    stratify = labels[rows.rows]
    for validation_size, count in ((0.5, 50), (0.999, 97), (97, 97)):
        for train, held in make_bags(rows, 10, validation_size, SEED, stratify):
            assert held.sum() == count
            assert all(train[stratify == label].sum() >= 1 for label in range(3))
            assert held[stratify == 2].sum() == 0


@pytest.mark.parametrize("validation_size", [0.5, 0.99, 98])
def test_a_single_positive_target_is_always_trained_on(validation_size):
    y = np.r_[3.0, np.zeros(99)]
    rows = rows_of(np.arange(100, dtype=np.uint16)[np.newaxis], y)
    positive = y[rows.rows] > 0
    for train, held in make_bags(rows, 20, validation_size, SEED, positive):
        assert train[positive].sum() == 1
        assert held.sum() == (validation_size if validation_size > 1 else min(98, int(100 * validation_size)))
    with pytest.raises(ValueError, match=r"validation_size=99 leaves no row with y > 0 or none with y = 0.*at most 98"):
        make_bags(rows, 1, 99, SEED, positive)


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_few_positive_targets_can_be_fitted(loss):
    X, y = np.random.default_rng(0).normal(size=(120, 3)), np.r_[1.0, np.zeros(119)]
    model = EBMRegressor(loss=loss, outer_bags=6, validation_size=0.5, random_state=0, max_rounds=5).fit(X, y)
    assert np.isfinite(model.bagged_intercept_).all()
    if loss == "poisson":
        np.testing.assert_allclose(model.predict(X).sum(), 1, rtol=1e-9)
    bags = np.ones((120, 2), dtype=int)
    bags[0, 1] = -1
    with pytest.raises(ValueError, match=r"bags leaves no row with y > 0 to train on in the columns \[1\]"):
        EBMRegressor(loss=loss, outer_bags=2).fit(X, y, bags=bags)


def test_few_rows():
    rows = rows_of(np.zeros((1, 1), dtype=np.uint16), np.zeros(1))
    for validation_size in (0, 0.15, 0.99):
        train, held = make_bags(rows, 1, validation_size, SEED)[0]
        assert (train.tolist(), held.tolist()) == ([1.0], [0.0])
    rows = rows_of(np.zeros((1, 2), dtype=np.uint16), np.zeros(2))
    train, held = make_bags(rows, 1, 0.5, SEED)[0]
    assert (train.tolist(), held.tolist()) == ([1.0], [1.0])


@pytest.mark.parametrize(
    ("validation_size", "stratified", "message"),
    [
        (10, False, "validation_size=10 leaves no row to train on: the training set has 10 rows.*at most 9"),
        (11, False, "validation_size=11 leaves no row to train on"),
        (9, True, "validation_size=9 leaves no row of some class to train on.*at most 8"),
        (-0.1, False, "must be 0, a share of the rows below 1 or a number of rows, got -0.1"),
        (-1, False, "got -1"),
        (1.5, False, r"got 1\.5"),
        (np.nan, False, "got nan"),
        (np.inf, False, "got inf"),
        (True, False, "got True"),
        ("0.1", False, "got '0.1'"),
    ],
)
def test_impossible_validation_sizes_are_refused(validation_size, stratified, message):
    y = np.arange(10.0) % 2
    rows = rows_of(np.arange(10, dtype=np.uint16)[np.newaxis], y)
    with pytest.raises(ValueError, match=message):
        make_bags(rows, 2, validation_size, SEED, y[rows.rows] if stratified else None)


# ---- bags of the user ------------------------------------------------------------------------------------------------


def test_bags_of_the_user_are_followed():
    cells, y, weights = table(np.random.default_rng(2), 80)
    bags = np.random.default_rng(3).integers(-2, 4, (80, 3))
    checked = check_user_bags(bags, 80, 3)
    assert checked.dtype == np.int8
    rows = rows_of(cells, y, weights, checked)
    made = make_bags(rows, 3, 0.15, SEED, None, checked[rows.rows])
    for bag, (train, held) in enumerate(made):
        expected = collections.Counter(), collections.Counter()
        content = list(zip(cells.T.tolist(), y, bags.tolist(), strict=True))
        for row, (key, times) in enumerate(zip(map(str, content), bags[:, bag], strict=True)):
            expected[int(times < 0)][key] += abs(times) * weights[row]
        for got, wanted in zip((train, held), expected, strict=True):
            keys = [str(content[row]) for row in rows.rows]
            assert len(set(keys)) == len(keys)
            assert dict(zip(keys, got, strict=True)) == {key: wanted[key] for key in keys}


def test_equal_rows_in_other_bags_stay_apart():
    cells, y = np.zeros((1, 4), dtype=np.uint16), np.zeros(4)
    assert len(rows_of(cells, y).keys) == 1
    rows = rows_of(cells, y, None, np.array([[1, 0], [1, 0], [-1, 1], [1, 1]]))
    assert sorted(rows.n_copies.tolist()) == [1, 1, 2]


@pytest.mark.parametrize(
    ("bags", "error", "message"),
    [
        (np.ones((4, 2), dtype=int), ValueError, r"shape \(3, 2\), got \(4, 2\)"),
        (np.ones((3, 1), dtype=int), ValueError, r"one column for each of the outer_bags, shape \(3, 2\)"),
        (np.ones(3, dtype=int), ValueError, r"got \(3,\)"),
        (np.ones((3, 2)), TypeError, "must hold integers.*float64"),
        (np.ones((3, 2), dtype=bool), TypeError, "must hold integers.*bool"),
        ([["a", "b"]] * 3, TypeError, "must hold integers"),
        ([[1, 128]] * 3, ValueError, "between -127 and 127, got 1 to 128"),
        ([[1, -128]] * 3, ValueError, "between -127 and 127"),
    ],
)
def test_bags_that_are_none_are_refused(bags, error, message):
    with pytest.raises(error, match=message):
        check_user_bags(bags, 3, 2)


def test_bags_that_train_on_nothing_are_refused():
    y = np.array([0.0, 1.0, 1.0])
    rows = rows_of(np.arange(3, dtype=np.uint16)[np.newaxis], y)
    bags = np.array([[1, -1, 1], [1, 0, -1], [-1, -1, 0]])[rows.rows]
    with pytest.raises(ValueError, match=r"no row to train on in the columns \[1\]"):
        make_bags(rows, 3, 0, SEED, None, bags)
    assert len(make_bags(rows, 2, 0, SEED, y[rows.rows], bags[:, :1].repeat(2, axis=1))) == 2
    with pytest.raises(ValueError, match=r"no row of the class 1 to train on in the columns \[1\]"):
        make_bags(rows, 2, 0, SEED, y[rows.rows], bags[:, [0, 2]])
    labels = np.array(["no", "yes"])
    with pytest.raises(ValueError, match=r"no row of the class 'yes' to train on in the columns \[1\].*every class"):
        make_bags(rows, 2, 0, SEED, y[rows.rows], bags[:, [0, 2]], labels)


def test_bags_of_the_user_need_a_positive_target_but_no_zero():
    y = np.array([0.0, 2.5, 1.0])
    rows = rows_of(np.arange(3, dtype=np.uint16)[np.newaxis], y)
    positive = y[rows.rows] > 0
    bags = np.array([[1, 1, -1], [-1, -1, 1], [0, -1, 1]])[rows.rows]
    with pytest.raises(ValueError, match=r"no row with y > 0 to train on in the columns \[0, 1\].*some row with y > 0"):
        make_bags(rows, 3, 0, SEED, positive, bags)
    train, _ = make_bags(rows, 1, 0, SEED, positive, bags[:, 2:])[0]
    assert sorted(y[rows.rows][train > 0]) == [1.0, 2.5]
