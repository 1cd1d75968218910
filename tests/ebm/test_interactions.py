"""Parsing of wanted terms, and the ranking of pairs."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import pairs as oracle

from skboost import _losses
from skboost.ebm._cells import CellMapper
from skboost.ebm._interactions import pair_strengths, rank_pairs, resolve_terms

NAMES = ["age", "income", "sex", "city"]
ALL = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def plan(interactions=0, exclude=None, names=NAMES, monotone=None):
    size = len(names)
    monotone = np.zeros(size, dtype=np.int8) if monotone is None else np.asarray(monotone)
    return resolve_terms(interactions, exclude, names, monotone)


@pytest.mark.parametrize("nothing", [0, None, "0x", [], (), np.empty((0, 2), dtype=int), np.int64(0)])
def test_no_pairs(nothing):
    found = plan(nothing)
    assert (found.mains, found.pairs, found.n_automatic, len(found.candidates)) == ((0, 1, 2, 3), (), 0, 0)


@pytest.mark.parametrize(
    ("interactions", "wanted"),
    [
        (1, 1), (np.int32(5), 5), (0.25, 1), (0.26, 2), (0.5, 2), (np.float64(0.9), 4), ("1x", 4), ("0.3x", 2),
        ("1.25x", 5), (".5x", 2),
    ],
)  # fmt: skip
def test_numbers_of_pairs(interactions, wanted):
    found = plan(interactions)
    assert (found.pairs, found.n_automatic) == ((), wanted)
    assert found.candidates.dtype == np.int32
    assert_array_equal(found.candidates, ALL)


@pytest.mark.parametrize("interactions", [6, 7, 1000, "2x", "1e3x"])
def test_never_more_pairs_than_there_are(interactions):
    """Where all are taken none needs to be ranked."""
    found = plan(interactions)
    assert found.pairs == tuple(ALL)
    assert (found.n_automatic, len(found.candidates)) == (0, 0)


def test_rounding_of_shares_adds_no_pair():
    names = [f"x{j}" for j in range(30)]
    for tenth in range(1, 10):
        assert plan(tenth / 10, names=names).n_automatic == 3 * tenth
        assert plan(f"{tenth / 10}x", names=names).n_automatic == 3 * tenth


@pytest.mark.parametrize(
    "interactions",
    [
        [(0, 1), (2, 3)], [(3, 2), (1, 0)], [("age", "income"), ("city", "sex")], [(0, "income"), (-1, -2)],
        np.array([[2, 3], [0, 1]]), [[0, 1], [2, 3], [1, 0], ("sex", 3)], {(0, 1), (2, 3)}, (("age", 1), (2, 3)),
        iter([(0, 1), (2, 3)]), [np.array([0, 1]), np.array(["sex", "city"])],
    ],
)  # fmt: skip
def test_explicit_pairs(interactions):
    found = plan(interactions)
    assert found.pairs == ((0, 1), (2, 3))
    assert (found.n_automatic, len(found.candidates)) == (0, 0)


@pytest.mark.parametrize(
    ("exclude", "mains", "candidates"),
    [
        ("mains", (), ALL),
        (["age", 2], (1, 3), ALL),
        ([("age",), -1], (1, 2), ALL),
        ([(1, 0), ("city", "sex")], (0, 1, 2, 3), ALL[1:-1]),
        ([0, (0, 1), "age"], (1, 2, 3), ALL[1:]),
        (np.array([0, 1]), (2, 3), ALL),
        ([], (0, 1, 2, 3), ALL),
    ],
)
def test_excluded_terms(exclude, mains, candidates):
    found = plan(3, exclude)
    assert found.mains == mains
    assert_array_equal(found.candidates, candidates)


def test_monotone_features_are_in_no_automatic_pair():
    found = plan(2, monotone=[0, 1, 0, 0])
    assert_array_equal(found.candidates, [(0, 2), (0, 3), (2, 3)])
    assert plan("1x", monotone=[1, 1, 0, -1]).pairs == ()


@pytest.mark.parametrize(
    ("interactions", "message"),
    [
        (-1, "at least 0, got -1"),
        (1.0, r"share of the number of features in \(0, 1\), got 1.0"),
        (2.5, "give an int"),
        (-0.5, "share"),
        (0.0, "share"),
        (np.nan, "share"),
        (True, "a number of pairs, a share"),
        (np.bool_(True), "a number of pairs|sequence of pairs"),
        ("five", "a number of pairs, a share.*got 'five'"),
        ("3", "got '3'"),
        ("x", "got 'x'"),
        ("-1x", "got '-1x'"),
        ("nanx", "got 'nanx'"),
        ("infx", "got 'infx'"),
        ("", "got ''"),
        (object(), "sequence of pairs"),
        ([0, 1], r"tuple of features such as \(0, 1\), got 0"),
        (["age", "sex"], "tuple of features .* got 'age'"),
        (("age", "sex"), "tuple of features"),
        ([(0, 1, 2)], r"\(0, 1, 2\) has 3 features; terms have at most two"),
        ([(0,)], r"must hold pairs such as \(0, 1\) of two different features, got \(0,\)"),
        ([()], "different features, at least one"),
        ([(1, 1)], "different features"),
        ([(1, "income")], "different features"),
        ([(0, -4)], "different features"),
        ([(0, 4)], "no feature 4, the model has 4"),
        ([(0, -5)], "no feature -5"),
        ([("age", "wealth")], r"'wealth' is not a feature; the features are \['age', 'income', 'sex', 'city'\]"),
        ([(0, 1.0)], "column number or name, got 1.0"),
        ([(0, True)], "column number or name, got True"),
        ([(0, None)], "column number or name, got None"),
        ([(0, [1])], "column number or name"),
        ([None], "tuple of features"),
        ({0: 1}, "tuple of features"),
    ],
)
def test_nonsense_as_interactions_is_refused(interactions, message):
    with pytest.raises(ValueError, match=f"interactions.*({message})"):
        plan(interactions)


@pytest.mark.parametrize(
    ("exclude", "message"),
    [
        ("main", "as a string must be 'mains', got 'main'"),
        (0, "sequence of features and pairs, got 0"),
        ([(0, 1, 2)], "has 3 features"),
        ([4], "no feature 4"),
        (["wealth"], "'wealth' is not a feature"),
        ([()], "at least one"),
        ([(1, 1)], "different features"),
        ([0.5], "tuple of features"),
        ([True], "column number or name, got True"),
    ],
)
def test_nonsense_as_exclude_is_refused(exclude, message):
    with pytest.raises(ValueError, match=f"exclude.*{message}"):
        plan(2, exclude)


def test_contradictions_are_refused():
    with pytest.raises(ValueError, match=r"interactions asks for the pair 'age & sex', which exclude leaves out"):
        plan([(2, 0)], [("age", "sex")])
    with pytest.raises(ValueError, match=r"'income & city' has the monotone feature 'city'.*monotonic_cst"):
        plan([(1, 3)], monotone=[1, 0, 0, -1])
    with pytest.raises(ValueError, match="'a' is the name of several features, give its number"):
        plan([("a", "b")], names=["a", "b", "a"])
    assert plan([(0, "b")], names=["a", "b", "a"]).pairs == ((0, 1),)


def test_messages_show_few_names():
    with pytest.raises(ValueError, match="and 90 more"):
        plan([(0, "y")], names=[f"x{j}" for j in range(100)])


def test_ranking_by_mean_rank():
    candidates = np.array(ALL, dtype=np.int32)
    strong = np.array([[6, 5, 4, 3, 2, 1], [1, 6, 5, 4, 3, 2], [2, 6, 1, 5, 4, 3]], dtype=float)
    assert rank_pairs(candidates, strong, 1) == [(0, 2)]
    # Mean ranks: 4, 1.33, 3.67, 2.67, 3.67, 4.67; the last pair is the better of the two by its features.
    assert rank_pairs(candidates, strong, 2) == [(0, 2), (1, 2)]
    assert rank_pairs(candidates, strong, 3) == [(0, 2), (0, 3), (1, 2)]
    assert rank_pairs(candidates, strong, 6) == ALL
    assert all(type(j) is int for pair in rank_pairs(candidates, strong, 6) for j in pair)


def test_equal_strengths_go_by_features():
    candidates = np.array(ALL, dtype=np.int32)
    assert rank_pairs(candidates, np.zeros((5, 6)), 3) == ALL[:3]
    strong = np.array([[0, 0, 0, 1, 1, 0.0]])
    assert rank_pairs(candidates, strong, 3) == [(0, 1), (1, 2), (1, 3)]
    shuffled = [4, 2, 0, 5, 1, 3]
    assert rank_pairs(candidates[shuffled], strong[:, shuffled], 3) == [(0, 1), (1, 2), (1, 3)]


def test_bags_of_large_strengths_do_not_decide_alone():
    candidates = np.array(ALL[:2], dtype=np.int32)
    assert rank_pairs(candidates, np.array([[1e9, 1], [1, 2], [1, 2]]), 1) == [(0, 2)]


def make_problem(name, n=600, seed=0):
    """Return what pair_strengths reads of a problem: three numeric columns and one of levels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 5, n)
    X[rng.random(n) < 0.1, 0] = np.nan
    mapper = CellMapper(32, 8).fit(X, None, np.array([False, False, False, True]), [0, 0, 0, 5])
    signal = X[:, 1] * X[:, 2]
    y = {
        "squared_error": signal + rng.normal(size=n),
        "poisson": rng.poisson(np.exp(0.5 * signal)).astype(float),
        "binary": (signal + rng.normal(size=n) > 0).astype(float),
        "multinomial": np.digitize(signal + rng.normal(size=n), [-1, 1]).astype(float),
    }[name]
    loss = {"binary": ("log_loss", 2), "multinomial": ("log_loss", 3)}.get(name, (name, None))
    rules = SimpleNamespace(min_samples_leaf=4.0, min_hessian=0.01, l2_regularization=0.1, cat_smooth=10.0)
    rows = SimpleNamespace(cells=mapper.transform(X), y=y)
    return SimpleNamespace(loss=_losses.make_loss(*loss), rows=rows, mapper=mapper, rules=rules)


@pytest.mark.parametrize("name", ["squared_error", "poisson", "binary", "multinomial"])
def test_strengths_of_a_problem(name):
    problem = make_problem(name)
    loss, y = problem.loss, problem.rows.y
    rng = np.random.default_rng(1)
    scores = loss.base_score(y)[:, None] + rng.normal(0, 0.1, (loss.n_outputs, len(y)))
    weight = rng.integers(0, 3, len(y)).astype(float)
    candidates = np.array(ALL, dtype=np.int32)
    found = pair_strengths(problem, candidates, scores, weight)
    assert ALL[found.argmax()] == (1, 2)
    grad, hess = loss.gradients(y, scores, np.zeros(loss.n_outputs), hessian=True)
    maps = [problem.mapper.coarse(j) for j in range(4)]
    for strength, pair in zip(found, ALL, strict=True):
        codes = [maps[j][problem.rows.cells[j]] for j in pair]
        sizes = [int(maps[j][-1]) + 1 for j in pair]
        options = {"min_samples_leaf": 4, "min_hessian": 0.01, "l2": 0.1, "smooth": 10.0}
        levels = [j == 3 for j in pair]
        wanted = oracle.strength_of_rows(
            codes, sizes, levels, grad.astype(float), hess.astype(float), weight, **options
        )
        # The gradients of the reference are single precision.
        assert_allclose(strength, wanted, rtol=1e-5, atol=1e-8)
