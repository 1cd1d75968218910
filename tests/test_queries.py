"""Queries are numbered free of order, and bad ones are refused."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skboost._queries import (
    check_label_gain,
    check_relevance,
    query_numbers,
    query_weights,
    relevance_gains,
    sort_queries,
)


@pytest.mark.parametrize(
    ("qid", "expected"),
    [
        ([7, 3, 3, 7, -1], [2, 1, 1, 2, 0]),
        (["b", "a", "b", "c", "a"], [1, 0, 1, 2, 0]),
        (np.array(["b", "a", "b", "c", "a"], dtype=object), [1, 0, 1, 2, 0]),
        ([0.5, 0.25, 0.5, 0.5, 9], [1, 0, 1, 1, 2]),
        (None, [0, 0, 0, 0, 0]),
    ],
)
def test_numbers_follow_the_sorted_labels(qid, expected):
    assert_array_equal(query_numbers(5, qid), expected)


def test_groups_are_consecutive():
    assert_array_equal(query_numbers(6, group=[2, 1, 3]), [0, 0, 1, 2, 2, 2])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"qid": [1, 2, 3], "group": [3]}, "qid and group"),
        ({"qid": [1, 2]}, "2 labels for 3 rows"),
        ({"qid": [1.0, np.nan, 2.0]}, "NaN"),
        ({"qid": np.array(["a", None, "b"], dtype=object)}, "sorted"),
        ({"group": [1, 1]}, "sums to 2 for 3 rows"),
        ({"group": [3, 0]}, "at least 1"),
        ({"group": [1.5, 1.5]}, "whole numbers"),
        ({"group": ["a"]}, "whole numbers"),
    ],
)
def test_bad_queries_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        query_numbers(3, **arguments)


def test_gains():
    assert_array_equal(relevance_gains([0, 1, 2.0, 30]), [0, 1, 3, 2.0**30 - 1])
    assert_array_equal(relevance_gains([0, 2, 1], check_label_gain([0, 5, 7])), [0, 7, 5])


@pytest.mark.parametrize(
    ("relevance", "label_gain", "match"),
    [
        ([0.0, -1.0], None, "y >= 0"),
        ([0.0, np.inf], None, "finite"),
        ([0.0, np.nan], None, "finite"),
        ([0.0, 31.0], None, "at most 30"),
        ([0.0, 3.0], [0.0, 1.0, 2.0], "from 0 to 2"),
        ([0.0, 0.5], [0.0, 1.0, 2.0], "whole numbers"),
    ],
)
def test_relevances_without_a_gain_are_refused(relevance, label_gain, match):
    with pytest.raises(ValueError, match=match):
        check_relevance(np.array(relevance), label_gain)


@pytest.mark.parametrize("label_gain", [[], [[0.0, 1.0]], [0, 1, np.nan], [0, np.inf], [-1, 0], [0, 2, 1], "ab", 3])
def test_bad_label_gains_are_refused(label_gain):
    with pytest.raises(ValueError, match="label_gain"):
        check_label_gain(label_gain)


def test_rows_of_a_query_come_in_the_order_of_their_keys():
    query, gain = np.array([1, 0, 1, 1, 0]), np.array([3.0, 1.0, 0.0, 1.0, 0.0])
    queries, rows = sort_queries(query, gain)
    assert_array_equal(rows, [4, 1, 2, 3, 0])
    assert (queries.n_rows, queries.n_queries, queries.longest) == (5, 2, 3)
    key = np.array([2, 9, 1, 1, 9], dtype=np.uint64)
    assert_array_equal(sort_queries(query, gain, key, gain)[1], [4, 1, 2, 3, 0])
    assert_array_equal(sort_queries(query, gain, key, -gain)[1], [1, 4, 3, 2, 0])


def test_a_query_has_the_mean_weight_of_its_rows():
    assert query_weights(np.array([0, 1]), None) is None
    assert_array_equal(query_weights(np.array([1, 0, 1, 0]), np.array([3.0, 1.0, 1.0, 0.5])), [0.75, 2.0])
