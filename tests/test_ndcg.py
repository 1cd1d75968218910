"""The measure of rankings has the values of its definition; neither ties nor the order of rows matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles import ranking as oracle
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import make_scorer
from sklearn.metrics import ndcg_score as sklearn_ndcg_score

from skboost.metrics import ndcg_score

tables = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([-1.0, 0.0, 0.5, 2.0])), min_size=1, max_size=14
)


def test_by_hand():
    # Gains 3, 0, 1 at the places 3, 2, 1 of the best order 3, 1, 0.
    first = (1 + 3 / 2) / (3 + 1 / np.log2(3))
    assert ndcg_score([2, 0, 1], [0.1, 0.2, 0.3]) == pytest.approx(first)
    assert ndcg_score([2, 0, 1, 1, 0], [0.1, 0.2, 0.3, 5, 4], qid=[4, 4, 4, 2, 2]) == pytest.approx((first + 1) / 2)
    assert ndcg_score([2, 0, 1], [0.1, 0.2, 0.3], k=1) == pytest.approx(1 / 3)
    assert ndcg_score([2, 0, 1], [0.1, 0.2, 0.3], k=1, label_gain=[0, 2, 8]) == pytest.approx(2 / 8)


@given(tables, st.integers(1, 6) | st.none())
@settings(max_examples=60, deadline=None)
def test_it_is_the_mean_of_what_scikit_learn_finds_for_the_gains(table, k):
    qid, y, score = (np.array(column) for column in zip(*table, strict=True))
    expected = []
    for label in np.unique(qid):
        gain = 2.0 ** y[qid == label] - 1
        if len(gain) == 1 or not gain.any():
            expected.append(1.0)
        else:
            expected.append(sklearn_ndcg_score([gain], [score[qid == label]], k=k))
    assert_allclose(ndcg_score(y, score, qid=qid, k=k), np.mean(expected), rtol=1e-12)


def test_ties_are_the_mean_over_all_orders():
    gain, score = np.array([3.0, 0, 1, 0, 7]), np.array([1.0, 1, 0, 0, 0])
    expected = oracle.mean_dcg(gain, score, 3) / oracle.ideal_dcg(gain, 3)
    assert ndcg_score(np.log2(gain + 1), score, k=3) == pytest.approx(expected, rel=1e-12)


@given(tables, st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_order_of_rows_and_the_labels_of_queries_are_irrelevant(table, seed):
    qid, y, score = (np.array(column) for column in zip(*table, strict=True))
    order = np.random.default_rng(seed).permutation(len(y))
    found = ndcg_score(y, score, qid=qid, sample_weight=y + 0.3)
    names = np.array(["d", "b", "a", "c"])
    assert ndcg_score(y[order], score[order], qid=names[qid[order]], sample_weight=y[order] + 0.3) == found


def test_a_query_counts_with_the_mean_weight_of_its_rows():
    y, score, qid = [1, 0, 1, 0], [2, 1, 1, 2], ["a", "a", "b", "b"]
    good, bad = 1.0, 1 / np.log2(3)
    found = ndcg_score(y, score, qid=qid, sample_weight=[1, 3, 1, 0.5])
    assert found == pytest.approx((2 * good + 0.75 * bad) / 2.75)
    # Rows without weight are not there: the first query has no gain left.
    assert ndcg_score(y, score, qid=qid, sample_weight=[0, 3, 1, 1]) == pytest.approx((3 + bad) / 4)
    assert ndcg_score(y, score, qid=qid, sample_weight=[0, 0, 1, 1]) == pytest.approx(bad)


def test_queries_without_gain_count_one():
    assert ndcg_score([0, 0, 0], [1, 2, 3]) == 1.0
    assert ndcg_score([0], [1]) == 1.0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"y_score": [1.0, 2.0, 3.0]}, "inconsistent"),
        ({"y_score": [1.0, np.nan]}, "NaN"),
        ({"y_true": [1.0, np.nan]}, "NaN"),
        ({"y_true": [1.0, -1.0]}, "y_true >= 0"),
        ({"y_true": [1.0, 31.0]}, "at most 30"),
        ({"label_gain": [0.0]}, "label_gain"),
        ({"qid": [1]}, "inconsistent"),
        ({"k": 0}, "k must"),
        ({"k": 1.5}, "k must"),
        ({"sample_weight": [1.0, -1.0]}, "[Nn]egative"),
        ({"sample_weight": [0.0, 0.0]}, "weight"),
        ({"y_true": [], "y_score": []}, "at least one row"),
    ],
)
def test_bad_input_is_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        ndcg_score(**{"y_true": [1.0, 0.0], "y_score": [1.0, 2.0], **arguments})


def test_it_makes_a_scorer_that_takes_queries():
    class Fixed(RegressorMixin, BaseEstimator):
        def predict(self, X):
            return X[:, 0]

    X, y, qid = np.array([[1.0], [2.0], [1.0], [2.0]]), [1, 0, 0, 1], [0, 0, 1, 1]
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(ndcg_score).set_score_request(qid=True)
        assert scorer(Fixed(), X, y, qid=qid) == pytest.approx((1 + 1 / np.log2(3)) / 2)
