"""Targets of survival studies in all their forms, and the concordance index against every pair."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from oracles import survival as oracle
from sklearn.exceptions import UndefinedMetricWarning

from skboost._losses import number_targets
from skboost._survival import event_times, interval_concordance, time_intervals
from skboost.metrics import concordance_index

TIME, EVENT = np.array([3.0, 0.5, 2.0, 3.0]), np.array([True, False, True, True])
STRUCTURED = np.array(list(zip(EVENT, TIME, strict=True)), dtype=[("status", bool), ("days", float)])
SIGNED = np.where(EVENT, TIME, -TIME)


@pytest.mark.parametrize(
    "y",
    [
        STRUCTURED,
        np.array(list(zip(TIME, EVENT, strict=True)), dtype=[("days", np.float32), ("status", bool)]),
        np.c_[TIME, EVENT],
        np.c_[TIME, EVENT].tolist(),
        SIGNED,
        list(SIGNED),
        SIGNED.astype(object),
    ],
    ids=["structured", "other order", "columns", "lists", "signed", "list", "objects"],
)
def test_forms_of_right_censored_targets(y):
    time, event = event_times(y, "loss='cox'")
    assert_array_equal(time, TIME)
    assert_array_equal(event, EVENT)
    assert time.dtype == np.float64
    assert event.dtype == bool


def test_forms_of_intervals():
    lower, upper = time_intervals(STRUCTURED, "loss='aft'")
    assert_array_equal(lower, TIME)
    assert_array_equal(upper, [3.0, np.inf, 2.0, 3.0])
    for y in ([[0, 2], [1, np.inf], [3, 3]], np.array([[0, 2], [1, np.inf], [3, 3.0]])):
        lower, upper = time_intervals(y, "loss='aft'")
        assert_array_equal(lower, [0, 1, 3])
        assert_array_equal(upper, [2, np.inf, 3])
    lower, upper = time_intervals(TIME, "loss='aft'")
    assert_array_equal(lower, TIME)
    assert_array_equal(upper, TIME)


@pytest.mark.parametrize(
    ("read", "y", "message"),
    [
        (event_times, [[1.0, 2.0]], "second column of y"),
        (event_times, [[-1.0, 1.0]], "at least 0 in y; the smallest is -1"),
        (event_times, np.ones((3, 3)), r"shape \(3, 3\)"),
        (event_times, np.ones((3, 2, 2)), "1d or 2d"),
        (event_times, 3.0, "1d or 2d"),
        (event_times, None, "y is needed"),
        (event_times, [1.0, np.nan], "NaN"),
        (event_times, [1.0, np.inf], "infinity"),
        (event_times, [[1.0, np.nan]], "NaN"),
        (event_times, ["a", "b"], "could not convert"),
        (event_times, np.zeros(2, dtype=[("a", float), ("b", float)]), "one boolean field"),
        (event_times, np.zeros(2, dtype=[("a", bool), ("b", bool)]), "one boolean field"),
        (event_times, np.zeros(2, dtype=[("a", bool), ("b", float), ("c", float)]), "one boolean field"),
        (event_times, np.array([(True, np.nan)], dtype=[("a", bool), ("b", float)]), "NaN"),
        (time_intervals, [[2.0, 1.0]], "in this order"),
        (time_intervals, [[-1.0, 1.0]], "above 0"),
        (time_intervals, [[0.0, 0.0]], "above 0"),
        (time_intervals, [1.0, 0.0], "above 0"),
        (time_intervals, [[np.inf, np.inf]], "infinity"),
        (time_intervals, [[1.0, np.nan]], "NaN"),
        (time_intervals, [[1.0, -np.inf]], "infinity"),
        (time_intervals, [1.0, np.inf], "infinity"),
        (time_intervals, np.ones((3, 3)), r"shape \(3, 3\)"),
        (time_intervals, np.array([(True, 0.0)], dtype=[("a", bool), ("b", float)]), "above 0"),
    ],
)
def test_bad_targets_are_refused(read, y, message):
    with pytest.raises(ValueError, match=message):
        read(y, "loss='cox'")


@pytest.mark.parametrize("read", [event_times, time_intervals])
def test_messages_say_what_asks_and_what_for(read):
    with pytest.raises(ValueError, match=r"loss='aft' requires .* y_val"):
        read(-np.ones((2, 2)), "loss='aft'", "y_val")


rows = st.lists(
    st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 4), st.integers(0, 3)), min_size=2, max_size=14
).filter(lambda table: any(row[3] for row in table))


@given(rows)
def test_concordance_looks_at_every_pair(table):
    time, event, risk, weight = np.array(table, dtype=float).T
    copies = np.repeat(np.arange(len(time)), weight.astype(int))
    for chosen, sample_weight in ((np.arange(len(time)), None), (copies, weight)):
        pairs = any(event[i] and (time[i], 0) < (time[j], 1 - event[j]) for i in chosen for j in chosen)
        y = np.c_[time, event]
        if not pairs:
            with pytest.warns(UndefinedMetricWarning, match="without comparable pairs"):
                assert np.isnan(concordance_index(y, risk, sample_weight=sample_weight))
            continue
        expected = oracle.concordance(time[chosen], event[chosen], risk[chosen])
        assert concordance_index(y, risk, sample_weight=sample_weight) == expected
        assert concordance_index(y[chosen], risk[chosen]) == expected


def test_concordance_of_intervals_compares_those_apart():
    # (0, 1] < 2 = 2 < (2, 4] < (4, inf), but 3 is not known to be before or after (2, 4].
    lower, upper = np.array([0.0, 2.0, 2.0, 2.0, 4.0, 3.0]), np.array([1.0, 2.0, 2.0, 4.0, np.inf, 3.0])
    risk = np.array([6.0, 5.0, 5.0, 4.0, 3.0, 3.5])
    assert interval_concordance(lower, upper, risk) == 1.0
    assert interval_concordance(lower, upper, -risk) == 0.0
    # The pairs of the interval and the event inside it do not count.
    assert interval_concordance(lower[[3, 5, 4]], upper[[3, 5, 4]], np.array([2.0, 9.0, 1.0])) == 1.0


def test_concordance_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    y, risk, weight = (
        np.c_[rng.exponential(size=3000), rng.integers(0, 2, 3000)],
        rng.normal(size=3000),
        rng.random(3000),
    )
    order = rng.permutation(3000)
    assert concordance_index(y, risk, sample_weight=weight) == concordance_index(
        y[order], risk[order], sample_weight=weight[order]
    )
    assert concordance_index(y, risk) == 1 - concordance_index(y, -risk)
    assert 0.45 < concordance_index(y, risk) < 0.55


def test_concordance_refuses_bad_arrays():
    y = [[1.0, 1], [2.0, 1]]
    with pytest.raises(ValueError, match="inconsistent numbers"):
        concordance_index(y, [1.0])
    with pytest.raises(ValueError, match="NaN"):
        concordance_index(y, [1.0, np.nan])
    with pytest.raises(ValueError, match="Negative values"):
        concordance_index(y, [1.0, 2.0], sample_weight=[1.0, -1.0])
    with pytest.raises(ValueError, match="concordance_index requires"):
        concordance_index([[1.0, 3.0]], [1.0])


@given(st.lists(st.tuples(st.sampled_from([-1.0, -0.0, 0.0, 2.0]), st.sampled_from([0.0, 1.0, np.inf])), min_size=1))
def test_numbers_of_targets_are_places_in_the_sorted_table(targets):
    numbers, table = number_targets(targets)
    expected, places = np.unique(np.array(targets) + 0.0, axis=0, return_inverse=True)
    assert_array_equal(table, expected)
    assert_array_equal(numbers, places.reshape(-1))
    assert numbers.dtype == np.float64
    assert table.flags.c_contiguous
