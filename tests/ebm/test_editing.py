"""Which terms an edit means, and monotone versions of curves."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from skboost.ebm._editing import better_direction, isotonic, resolve_item, resolve_items

NAMES = ["a", "b", "a & b"]


@pytest.mark.parametrize(
    ("items", "found"),
    [
        ("b", [1]),
        (2, [2]),
        (-1, [2]),
        ([2, 0, 2], [0, 2]),
        (["a & b", "a"], [0, 2]),
        ([0, "b"], [0, 1]),
        ([], []),
        (np.array([1, 2]), [1, 2]),
        (np.array(["b"]), [1]),
        ([True, False, True], [0, 2]),
        ([False, False, False], []),
        (np.array([False, True, False]), [1]),
        ((True, True, True), [0, 1, 2]),
        (np.int64(1), [1]),
    ],
)
def test_items(items, found):
    assert resolve_items(items, NAMES, "term") == found


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ("c", ValueError, "no term 'c'; the terms are 'a', 'b'"),
        (3, ValueError, "no term 3: there are 3"),
        (-4, ValueError, "no term -4"),
        ([True, False], ValueError, "mask of terms must have one entry for each of 3, got 2"),
        ([1.0], TypeError, "position or its name, got 1.0"),
        ([True, 2], TypeError, "position or its name, got True"),
        (True, ValueError, "mask of terms"),
        ([None], TypeError, "got None"),
    ],
)
def test_items_that_do_not_exist(items, error, message):
    with pytest.raises(error, match=message):
        resolve_items(items, NAMES, "term")


@pytest.mark.parametrize("item", [None, 1.5, [0], True])
def test_one_item_is_a_position_or_a_name(item):
    with pytest.raises(TypeError, match="A feature is named by"):
        resolve_item(item, NAMES, "feature")
    assert resolve_item("b", NAMES, "feature") == 1
    assert resolve_item(-3, NAMES, "feature") == 0


def test_isotonic_curves():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=30), rng.uniform(0.1, 2, size=30)
    for increasing in (True, False):
        fitted = isotonic(values, weights, increasing)
        expected = IsotonicRegression(increasing=increasing).fit(np.arange(30), values, weights).predict(np.arange(30))
        np.testing.assert_allclose(fitted, expected, atol=1e-14)
        np.testing.assert_allclose(weights @ fitted, weights @ values, atol=1e-12)


def test_isotonic_curves_skip_cells_without_weight():
    values, weights = np.array([9.0, 1, 7, 2, -5, 3]), np.array([0.0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(isotonic(values, weights, True), [1, 1, 1, 2, 2, 3])
    np.testing.assert_array_equal(isotonic(values, np.zeros(6), True), values)


def test_direction_by_fit():
    weights = np.ones(5)
    assert better_direction(np.array([0.0, 1, 3, 2, 4]), weights)
    assert not better_direction(np.array([4.0, 2, 3, 1, 0]), weights)
    assert better_direction(np.zeros(5), weights)
