"""Gradients and values of queries against their definitions, known answers and LightGBM's own numbers."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm_files import FOLDER
from numpy.testing import assert_allclose, assert_array_equal
from oracles import ranking as oracle
from skboost._engine.ranking import Queries, exponential_gains, uniforms

import skboost

THREE = np.array([2.0, 1.0, 0.0]), np.array([0.5, -0.2, 1.0])
CASES = {
    "rank_norm": {},
    "rank_nonorm": {"normalize": False},
    "rank_trunc3": {"truncation": 3},
    "rank_sig2_trunc5": {"sigmoid": 2.0, "truncation": 5},
    "rank_ties": {},
}


def offsets_of(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


def queries_of(sizes, gain, rows=None):
    rows = np.arange(len(gain), dtype=np.intp) if rows is None else rows
    return Queries(rows, offsets_of(sizes), np.ascontiguousarray(gain[rows]))


def lambdarank(queries, score, truncation=30, sigmoid=1.0, normalize=True, n_threads=1):
    grad, hess = np.full((2, queries.n_rows), np.nan, dtype=np.float32)
    ideal = queries.ideal_dcg(truncation)
    inverse = np.divide(1, ideal, out=np.zeros(len(ideal)), where=ideal > 0)
    queries.lambdarank(score, inverse, truncation, sigmoid, normalize, grad, hess, n_threads)
    return grad, hess


def xendcg(queries, score, draws, n_threads=1):
    grad, hess = np.full((2, queries.n_rows), np.nan, dtype=np.float32)
    queries.xendcg(score, draws, grad, hess, n_threads)
    return grad, hess


def problem(sizes, seed=0, spread=1.0, levels=5):
    rng = np.random.default_rng(seed)
    n = int(np.sum(sizes))
    return exponential_gains(rng.integers(0, levels, n).astype(float)), rng.normal(0, spread, n)


# ---- known answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "options", "grad"),
    [
        (np.zeros(3), {}, (-0.342288, 0.092863, 0.249425)),
        (THREE[1], {}, (-0.407396, -0.053959, 0.461355)),
        (THREE[1], {"normalize": False}, (-0.213742, -0.081900, 0.295642)),
        (THREE[1], {"normalize": False, "truncation": 1}, (-0.229731, -0.128087, 0.357819)),
    ],
)
def test_lambdarank_of_three_rows(score, options, grad):
    queries = queries_of([3], exponential_gains(THREE[0]))
    found, hess = lambdarank(queries, score, **options)
    assert_allclose(found, grad, atol=6e-7)
    assert abs(found.sum()) < 1e-7
    if not options and not score.any():
        assert_allclose(hess, (0.171144, 0.066455, 0.124712), atol=6e-7)


def test_the_largest_gain_of_three_rows():
    queries = queries_of([3], exponential_gains(THREE[0]))
    assert_allclose(queries.ideal_dcg(30), 3 + 1 / np.log2(3))
    assert_allclose(queries.ideal_dcg(1), 3)
    assert queries.ideal_dcg(0) == 0


def test_xendcg_of_three_rows():
    queries = queries_of([3], exponential_gains(THREE[0]))
    grad, hess = xendcg(queries, THREE[1], np.full(3, 0.5))
    assert_allclose(grad, (-0.257116, -0.092732, 0.349848), atol=6e-7)
    assert_allclose(hess, (0.216852, 0.132955, 0.249415), atol=6e-7)


@pytest.mark.parametrize("case", [*CASES, "rank_w"])
def test_lambdarank_is_that_of_lightgbm(case):
    with np.load(FOLDER / "objective_gradients.npz") as file:
        sizes, y, score = file["rank_group"], file["rank_y"], file["rank_score"]
        weight = file["rank_w"] if case == "rank_w" else 1.0
        expected = file[f"{case}_g"], file[f"{case}_h"]
    score = np.zeros_like(score) if case == "rank_ties" else score
    found = lambdarank(queries_of(sizes, exponential_gains(y)), score, **CASES.get(case, {}))
    for ours, theirs in zip(found, expected, strict=True):
        known = ~np.isnan(theirs)
        assert known.sum() > 100
        # Their logistic function comes from a table.
        assert_allclose((ours * weight)[known], theirs[known], atol=2e-5)


def test_xendcg_is_that_of_lightgbm():
    with np.load(FOLDER / "objective_gradients.npz") as file:
        sizes, y, score = file["rank_group"], file["rank_y"], file["rank_score"]
    with np.load(FOLDER / "xendcg_gradients.npz") as file:
        expected = file["g"], file["h"]
    draws = np.concatenate([oracle.lcg_draws(size, query) for query, size in enumerate(sizes)])
    found = xendcg(queries_of(sizes, exponential_gains(y)), score, draws)
    for ours, theirs in zip(found, expected, strict=True):
        known = ~np.isnan(theirs)
        assert known.sum() > 70
        assert_allclose(ours[known], theirs[known], atol=1e-7)


# ---- definitions -----------------------------------------------------------------------------------------------------

query_cases = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 3.0, 0.5, 7.0]), st.sampled_from([0.0, -1.5, 0.25, 2.0]) | st.floats(-9, 9)),
    min_size=1,
    max_size=70,
)


@given(
    table=query_cases,
    truncation=st.integers(1, 40),
    sigmoid=st.sampled_from([0.1, 1.0, 3.0]),
    normalize=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_lambdarank_is_the_sum_over_pairs(table, truncation, sigmoid, normalize):
    gain, score = np.array(table).T.copy()
    options = {"truncation": truncation, "sigmoid": sigmoid, "normalize": normalize}
    found = lambdarank(queries_of([len(gain)], gain), score, **options)
    expected = oracle.lambdarank(gain, score, **options)
    for ours, theirs in zip(found, expected, strict=True):
        assert_allclose(ours, theirs, rtol=3e-7, atol=3e-7 * max(1.0, np.abs(theirs).max()))


@given(table=query_cases, seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_xendcg_is_its_expansion(table, seed):
    gain, score = np.array(table).T.copy()
    draws = np.random.default_rng(seed).random(len(gain))
    found = xendcg(queries_of([len(gain)], gain), score, draws)
    expected = oracle.xendcg(gain, score, draws)
    for ours, theirs in zip(found, expected, strict=True):
        assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_many_queries_are_so_many_times_one(seed):
    sizes = np.random.default_rng(seed).integers(1, 90, 40)
    gain, score = problem(sizes, seed)
    query = np.repeat(np.arange(len(sizes)), sizes)
    found = lambdarank(queries_of(sizes, gain), score)
    for ours, theirs in zip(found, oracle.per_query(query, oracle.lambdarank, gain, score), strict=True):
        assert_allclose(ours, theirs, atol=1e-6)
    draws = uniforms(np.arange(len(score), dtype=np.uint64), 1, 2, 3)
    expected = oracle.per_query(query, oracle.xendcg, gain, score, draws)
    for ours, theirs in zip(xendcg(queries_of(sizes, gain), score, draws), expected, strict=True):
        assert_allclose(ours, theirs, atol=1e-6)


def test_gradients_of_xendcg_are_those_of_its_cross_entropy():
    # The leading term r - P is the gradient of the loss; the expansion keeps its sign at equal scores.
    gain, score = problem([12])
    queries, step = queries_of([12], gain), 1e-5
    for row in range(12):
        up, down = score.copy(), score.copy()
        up[row] += step
        down[row] -= step
        slope = (queries.cross_entropy(up) - queries.cross_entropy(down)) / (2 * step)
        share = (gain + 0.5) / (gain + 0.5).sum()
        assert_allclose(slope, (oracle.softmax(score) - share)[row], atol=1e-9)


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 3.0]), st.sampled_from([-1.0, 0.0, -0.0, 2.0])), min_size=1, max_size=6
    ),
    st.integers(1, 7),
)
@settings(max_examples=60, deadline=None)
def test_the_discounted_gain_is_the_mean_over_orders_of_ties(table, k):
    gain, score = np.array(table).T.copy()
    queries = queries_of([len(gain)], gain)
    assert_allclose(queries.dcg(score, k), oracle.mean_dcg(gain, score, k), rtol=1e-13)
    assert_allclose(queries.ideal_dcg(k), oracle.ideal_dcg(gain, k), rtol=1e-13)
    assert_allclose(queries.cross_entropy(score), oracle.cross_entropy(gain, score), rtol=1e-13)


@pytest.mark.parametrize("n", [47, 48, 49, 63, 64, 65, 300, 5000])
def test_long_queries_are_sorted_and_keep_their_order_in_ties(n, seed):
    rng = np.random.default_rng(seed)
    gain = rng.integers(0, 4, n).astype(float)
    score = np.where(rng.random(n) < 0.7, np.round(rng.normal(size=n)), rng.normal(size=n))
    queries = queries_of([n], gain)
    assert_allclose(queries.dcg(score, n), _mean_dcg(gain, score), rtol=1e-12)
    found = lambdarank(queries, score, truncation=3, normalize=False)
    for ours, theirs in zip(found, oracle.lambdarank(gain, score, truncation=3, normalize=False), strict=True):
        assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def _mean_dcg(gain, score):
    discounts = oracle.discount(np.arange(len(gain)))
    order = np.argsort(-score, kind="stable")
    levels = np.unique(-score[order], return_inverse=True)[1]
    mean = np.bincount(levels, gain[order]) / np.bincount(levels)
    return (mean[levels] * discounts).sum()


# ---- edges -----------------------------------------------------------------------------------------------------------


def test_queries_of_one_row_and_queries_without_gain_contribute_nothing():
    gain = np.array([3.0, 0.0, 0.0, 0.0, 1.0])
    queries = queries_of([1, 3, 1], gain)
    for out in lambdarank(queries, np.array([1.0, 0.0, 2.0, 0.5, 3.0])):
        assert_array_equal(out, 0)
    grad, hess = xendcg(queries, np.zeros(5), np.full(5, 0.5))
    assert_array_equal(grad[[0, 4]], 0)
    assert_array_equal(hess[[0, 4]], 0)


def test_equal_gains_give_no_gradient():
    grad, hess = lambdarank(queries_of([9], np.full(9, 3.0)), np.linspace(-1, 1, 9))
    assert_array_equal(grad, 0)
    assert_array_equal(hess, 0)


@pytest.mark.parametrize("size", [1e-300, 50.0, 700.0, 1e4, 1e300])
def test_extreme_scores_give_finite_numbers(size):
    gain, score = problem([40, 7, 1, 100])
    queries = queries_of([40, 7, 1, 100], gain)
    draws = np.full(len(score), 0.5)
    for out in (*lambdarank(queries, score * size), *xendcg(queries, score * size, draws)):
        assert np.isfinite(out).all()
    assert (lambdarank(queries, score * size)[1] >= 0).all()
    assert np.isfinite(queries.cross_entropy(np.clip(score * size, -1e100, 1e100))).all()


def test_scores_far_apart_have_the_gradients_of_the_definition():
    gain, score = problem([30], spread=300.0)
    for sigmoid in (1.0, 2.0):
        found = lambdarank(queries_of([30], gain), score, sigmoid=sigmoid)
        with np.errstate(over="ignore"):
            expected = oracle.lambdarank(gain, score, sigmoid=sigmoid)
        for ours, theirs in zip(found, expected, strict=True):
            assert_allclose(ours, theirs, rtol=1e-6, atol=1e-12)


def test_second_derivatives_may_be_left_out():
    gain, score = problem([20, 30])
    queries = queries_of([20, 30], gain)
    grad = np.empty(50, dtype=np.float32)
    queries.lambdarank(score, 1 / queries.ideal_dcg(30), 30, 1.0, True, grad, None)
    assert_array_equal(grad, lambdarank(queries, score)[0])
    queries.xendcg(score, np.full(50, 0.5), grad, None)
    assert_array_equal(grad, xendcg(queries, score, np.full(50, 0.5))[0])


def test_no_rows():
    queries = Queries(np.empty(0, np.intp), np.zeros(1, np.intp), np.empty(0))
    for out in lambdarank(queries, np.empty(0)):
        assert out.shape == (0,)
    assert queries.dcg(np.empty(0), 3).shape == (0,)


@pytest.mark.parametrize(
    ("rows", "offsets", "gain"),
    [
        ([0, 0], [0, 2], [1.0, 1.0]),
        ([0, 2], [0, 2], [1.0, 1.0]),
        ([0, -1], [0, 2], [1.0, 1.0]),
        ([0, 1], [0, 3], [1.0, 1.0]),
        ([0, 1], [0, 3, 2], [1.0, 1.0]),
        ([0, 1], [1, 2], [1.0, 1.0]),
        ([0, 1], [], [1.0, 1.0]),
        ([0, 1], [0, 2], [1.0]),
        ([0, 1], [0, 2], [1.0, -1.0]),
        ([0, 1], [0, 2], [1.0, np.nan]),
        ([0, 1], [0, 2], [1.0, np.inf]),
    ],
)
def test_rows_that_are_no_queries_are_refused(rows, offsets, gain):
    with pytest.raises(ValueError, match=r"offsets|permutation|gains"):
        Queries(np.array(rows, dtype=np.intp), np.array(offsets, dtype=np.intp), np.array(gain))


def test_arrays_of_other_lengths_are_refused():
    gain, score = problem([5])
    queries, grad = queries_of([5], gain), np.empty(5, dtype=np.float32)
    with pytest.raises(ValueError, match="scores"):
        queries.dcg(score[:4], 3)
    with pytest.raises(ValueError, match="inv_ideal"):
        queries.lambdarank(score, np.ones(2), 3, 1.0, True, grad, grad)
    with pytest.raises(ValueError, match="length"):
        queries.lambdarank(score, np.ones(1), 3, 1.0, True, grad[:4], None)
    with pytest.raises(ValueError, match="length"):
        queries.xendcg(score, score, grad, grad[:4])
    with pytest.raises(ValueError, match="draws"):
        queries.xendcg(score, score[:4], grad, None)
    for bad in (-1.0, 1001.0, np.nan):
        with pytest.raises(ValueError, match="relevances"):
            exponential_gains(np.array([1.0, bad]))


def test_gains_are_exact_for_whole_numbers():
    whole = np.arange(31.0)
    assert_array_equal(exponential_gains(whole), 2**whole - 1)
    between = np.linspace(0, 30, 997)
    assert_allclose(exponential_gains(between), np.expm1(between * np.log(2)), rtol=1e-14, atol=1e-15)


def test_uniforms_are_functions_of_their_keys():
    keys = np.arange(20_000, dtype=np.uint64)
    draws = uniforms(keys, 1, 2, 3)
    assert_array_equal(uniforms(keys[::-1].copy(), 1, 2, 3), draws[::-1])
    assert draws.min() > 0
    assert draws.max() < 1
    assert_allclose(np.histogram(draws, 10, (0, 1))[0], 2000, atol=6 * np.sqrt(1800))
    for other in (uniforms(keys, 2, 2, 3), uniforms(keys, 1, 3, 3), uniforms(keys, 1, 2, 4)):
        assert abs(np.corrcoef(draws, other)[0, 1]) < 0.03


# ---- bits ------------------------------------------------------------------------------------------------------------


def outputs(n_threads=1):
    """Return every output for queries of many lengths."""
    sizes = np.arange(1, 90)
    gain, score = problem(sizes, 3)
    queries = queries_of(sizes, gain)
    draws = uniforms(np.arange(len(score), dtype=np.uint64), 1, 2, 3)
    return [
        *lambdarank(queries, score, n_threads=n_threads),
        *lambdarank(queries, 400 * score, n_threads=n_threads),
        *xendcg(queries, score, draws, n_threads),
        queries.dcg(score, 10, n_threads),
        queries.ideal_dcg(10, n_threads),
        queries.cross_entropy(score, n_threads),
        exponential_gains(np.linspace(0, 30, 1000)),
        draws,
    ]


def digest():
    sha = hashlib.sha256()
    for out in outputs():
        sha.update(out.tobytes())
    return sha.hexdigest()


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_instruction_sets_give_the_same_bits(level):
    here = Path(__file__)
    code = f"import runpy; print(runpy.run_path({str(here)!r})['digest']())"
    roots = [str(Path(skboost.__file__).parents[1]), str(here.parents[1])]
    environment = os.environ | {"SKBOOST_ISA": level, "PYTHONPATH": os.pathsep.join(roots)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest()


def test_threads_give_the_same_bits():
    for one, many in zip(outputs(1), outputs(4), strict=True):
        assert_array_equal(one, many)


def test_the_order_of_queries_and_of_their_rows_gives_the_same_bits(seed):
    # Scores are distinct, so that only the order of positions, which is the caller's, breaks no tie.
    sizes = np.random.default_rng(seed).integers(2, 60, 30)
    gain, score = problem(sizes, seed)
    before = lambdarank(queries_of(sizes, gain), score)
    order = np.random.default_rng(seed).permutation(len(gain))
    place = np.argsort(order).astype(np.intp)
    after = lambdarank(queries_of(sizes, gain[order], place), score[order])
    for one, other in zip(before, after, strict=True):
        assert_array_equal(one[order], other)
