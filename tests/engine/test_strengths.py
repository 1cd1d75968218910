"""FAST strengths against cuts one by one on explicit cells, and what they must not depend on."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import pairs as oracle
from skboost._engine.strengths import strengths

import skboost

SIZE = 6


def make_rows(n_features, n_rows=300, n_outputs=1, seed=0, missing=0.1, size=SIZE):
    """Return (cells, maps, grad, hess, weight); every coarse cell but the first and last holds two cells."""
    rng = np.random.default_rng([seed, n_features, n_rows, n_outputs])
    cells = rng.integers(1, 2 * size - 3, (n_features, n_rows)).astype(np.uint16)
    cells[rng.random(cells.shape) < missing] = 0
    coarse = np.r_[0, np.repeat(np.arange(1, size - 1), 2), size - 1].astype(np.uint16)
    grad, hess = rng.normal(size=(n_outputs, n_rows)), rng.uniform(0.05, 0.25, (n_outputs, n_rows))
    return cells, [coarse] * n_features, grad, hess, rng.integers(0, 4, n_rows).astype(float)


def all_pairs(n_features):
    return [(j, k) for j in range(n_features) for k in range(j + 1, n_features)]


def expected(pair, cells, maps, nominal, grad, hess, weight, **options):
    codes = [maps[j][cells[j]] for j in pair]
    sizes = [int(maps[j].max()) + 1 for j in pair]
    hess = np.ones_like(grad) if hess is None else hess
    weight = np.ones(cells.shape[1]) if weight is None else weight
    return oracle.strength_of_rows(codes, sizes, [nominal[j] for j in pair], grad, hess, weight, **options)


@pytest.mark.parametrize("nominal", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(("n_outputs", "newton", "weighted"), [(1, 0, 0), (1, 0, 1), (1, 1, 1), (1, 1, 0), (3, 1, 1)])
def test_every_cut_of_explicit_cells(nominal, missing, n_outputs, newton, weighted, seed):
    cells, maps, grad, hess, weight = make_rows(2, 200, n_outputs, seed, missing)
    hess, weight = hess if newton else None, weight if weighted else None
    found = strengths(
        cells, maps, [(0, 1), (1, 0)], nominal, grad, hess, weight,
        min_samples_leaf=3, min_hessian=0.1, l2_regularization=0.2, cat_smooth=2.0,
    )  # fmt: skip
    options = {"min_samples_leaf": 3, "min_hessian": 0.1, "l2": 0.2, "smooth": 2.0}
    wanted = [expected(pair, cells, maps, nominal, grad, hess, weight, **options) for pair in ((0, 1), (1, 0))]
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-13)
    if not any(nominal):
        assert found[0] > 0


def test_large_tables_are_those_of_small_ones():
    """Tables of many cells are summed in one part, small ones in several."""
    cells, maps, grad, hess, weight = make_rows(2, 400, size=30)
    for nominal in ((False, False), (False, True)):
        found = strengths(cells, maps, [(0, 1)], nominal, grad, hess, weight, min_samples_leaf=1, cat_smooth=1.0)
        wanted = expected((0, 1), cells, maps, nominal, grad, hess, weight, min_samples_leaf=1, smooth=1.0)
        assert_allclose(found, wanted, rtol=1e-9)


def test_planted_pairs_come_first(seed):
    """A product, an exclusive or, and slopes that differ between levels, on top of main effects."""
    rng = np.random.default_rng(seed)
    n, n_features, m = 6000, 6, 20
    cells = rng.integers(1, m + 1, (n_features, n)).astype(np.uint16)
    maps = [np.arange(m + 2, dtype=np.uint16)] * n_features
    x = (cells - (m + 1) / 2) / m * 3.46
    slopes = rng.permutation(np.linspace(-1, 1, m))[cells[5] - 1] * 1.5
    nominal = np.arange(n_features) == 5
    planted = {(0, 1): x[0] * x[1], (1, 3): np.sign(x[1] * x[3]), (2, 5): slopes * x[2]}
    for pair, signal in planted.items():
        found = strengths(
            cells, maps, all_pairs(n_features), nominal, -(0.3 * signal + rng.normal(size=n))[None],
            min_samples_leaf=4, cat_smooth=10.0,
        )  # fmt: skip
        order = np.argsort(-found)
        assert all_pairs(n_features)[order[0]] == pair
        assert found[order[0]] > 3 * found[order[1]]


def test_levels_without_effect_are_not_favoured():
    """Pure noise: pairs with levels are as strong as others, though many more orders of their cells exist."""
    rng = np.random.default_rng(0)
    n, n_features, m = 4000, 12, 40
    cells = rng.integers(1, m + 1, (n_features, n)).astype(np.uint16)
    maps = [np.arange(m + 2, dtype=np.uint16)] * n_features
    nominal = np.arange(n_features) < 4
    pairs = np.array(all_pairs(n_features))
    found = strengths(cells, maps, pairs, nominal, rng.normal(size=(1, n)), min_samples_leaf=4, cat_smooth=10.0)
    count = nominal[pairs].sum(axis=1)
    means = [found[count == i].mean() for i in range(3)]
    assert max(means) < 1.6 * min(means)


def test_additive_targets_have_no_strong_pair():
    rng = np.random.default_rng(0)
    cells = rng.integers(1, 11, (6, 5000)).astype(np.uint16)
    residual = rng.normal(size=5000)
    for _ in range(20):
        for codes in cells:
            residual -= (np.bincount(codes, residual, 11) / np.maximum(np.bincount(codes, minlength=11), 1))[codes]
    found = strengths(cells, [np.arange(12, dtype=np.uint16)] * 6, all_pairs(6), [False] * 6, residual[None])
    assert found.max() < 3 * np.median(found)


def test_order_of_features_and_pairs_does_not_matter(seed):
    cells, maps, grad, hess, weight = make_rows(5, seed=seed)
    nominal = np.array([True, False, False, True, False])
    options = {"min_samples_leaf": 2, "cat_smooth": 1.0}
    pairs = np.array(all_pairs(5))
    found = strengths(cells, maps, pairs, nominal, grad, hess, weight, **options)
    order = np.random.default_rng(seed).permutation(5)
    place = np.argsort(order)
    again = strengths(cells[order], maps, place[pairs], nominal[order], grad, hess, weight, **options)
    assert_allclose(again, found, rtol=1e-11, atol=1e-15)
    shuffled = np.random.default_rng(seed).permutation(len(pairs))
    assert_array_equal(strengths(cells, maps, pairs[shuffled], nominal, grad, hess, weight, **options), found[shuffled])


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_threads_do_not_matter(n_outputs):
    cells, maps, grad, hess, weight = make_rows(6, 1000, n_outputs)
    args = cells, maps, all_pairs(6), [True, False] * 3, grad, hess, weight
    one = strengths(*args, min_samples_leaf=2, cat_smooth=1.0)
    for n_threads in (0, 2, 3, 100):
        assert_array_equal(strengths(*args, min_samples_leaf=2, cat_smooth=1.0, n_threads=n_threads), one)


@pytest.mark.parametrize(("n_outputs", "newton"), [(1, 0), (1, 1), (3, 1)])
@pytest.mark.parametrize("size", [SIZE, 30])
def test_rows_without_weight_do_not_matter(n_outputs, newton, size):
    """Not to the halves of the rows either, which levels need."""
    cells, maps, grad, hess, weight = make_rows(3, 400, n_outputs, size=size)
    keep, nominal = weight > 0, [True, False, False]
    found = strengths(cells, maps, all_pairs(3), nominal, grad, hess if newton else None, weight, min_samples_leaf=2)
    kept = strengths(
        np.ascontiguousarray(cells[:, keep]), maps, all_pairs(3), nominal, grad[:, keep].copy(),
        hess[:, keep].copy() if newton else None, weight[keep], min_samples_leaf=2,
    )  # fmt: skip
    assert found.min() > 0
    assert_array_equal(kept, found)


def test_missing_values_join_either_end():
    """Rows without a value of feature 0 behave like its largest values."""
    rng = np.random.default_rng(0)
    cells = rng.integers(1, 9, (2, 2000)).astype(np.uint16)
    high = cells[0] > 4
    grad = np.where(high == (cells[1] > 4), 1.0, -1.0)[None]
    cells[0, high & (rng.random(2000) < 0.5)] = 0
    maps = [np.arange(10, dtype=np.uint16)] * 2
    assert_allclose(strengths(cells, maps, [(0, 1)], [False] * 2, grad), 1 - grad.mean() ** 2, rtol=1e-12)
    # Too light for a leaf, missing rows stay at the low end.
    few = strengths(cells, maps, [(0, 1)], [False] * 2, grad, min_samples_leaf=int((cells[0] == 0).sum()) + 1)
    assert few < 0.9


def test_nothing_to_gain():
    cells, maps, grad, hess, _ = make_rows(3)
    pairs = all_pairs(3)
    assert_array_equal(strengths(cells, maps, pairs, [True] * 3, 0 * grad, hess), 0.0)
    assert_array_equal(strengths(cells, maps, pairs, [False] * 3, grad, hess, min_samples_leaf=1e9), 0.0)
    assert_array_equal(strengths(cells, maps, pairs, [False] * 3, grad, hess, 0 * grad[0]), 0.0)
    assert strengths(cells, maps, [], [False] * 3, grad, hess).shape == (0,)
    assert_array_equal(strengths(cells[:, :0].copy(), maps, pairs, [False] * 3, grad[:, :0].copy()), 0.0)
    one_cell = [np.zeros(12, dtype=np.uint16)] * 3
    assert_array_equal(strengths(cells, one_cell, pairs, [True, False, False], grad), 0.0)


def test_extreme_smoothing_of_levels():
    """The more is added to the weights, the more the order is that of sums and not of means."""
    cells, maps, grad, hess, weight = make_rows(2)
    found = [
        strengths(cells, maps, [(0, 1)], [True, True], grad, hess, weight, cat_smooth=smooth)[0]
        for smooth in (0.0, 1e12, 1e200, np.inf)
    ]
    assert np.isfinite(found).all()
    assert len(set(found[1:])) == 1
    assert found[0] != found[1]


def test_wrong_arguments_are_refused():
    cells, maps, grad, hess, weight = make_rows(3, 50)
    nominal = [False] * 3

    def call(message, **changed):
        given = {
            "cells": cells, "coarse": maps, "pairs": [(0, 1)], "is_categorical": nominal, "grad": grad, "hess": hess,
            "weight": weight,
        }  # fmt: skip
        with pytest.raises(ValueError, match=message):
            strengths(**given | changed)

    for pair in ((0, 3), (-1, 0), (1, 1)):
        call("does not name two of 3 features", pairs=[pair])
    call("3 features but 2 maps", coarse=maps[:2])
    call("beyond the maps", coarse=[maps[0][:3]] * 3)
    call("beyond the maps", coarse=[maps[0][:0]] * 3)
    call("is_categorical must have shape", is_categorical=nominal[:2])
    call("grad must have shape", grad=grad[:, :-1].copy())
    call("hess must have shape", hess=hess[:, :-1].copy())
    call("1 outputs, hess 2", hess=np.vstack([hess, hess]))
    call("need second derivatives", grad=np.vstack([grad, grad]), hess=None)
    call("weight must have shape", weight=weight[:-1].copy())
    call("mismatch", cells=cells.astype(np.int64))
    for name in ("min_samples_leaf", "min_hessian", "l2_regularization", "cat_smooth"):
        for value in (-1.0, np.nan):
            call("at least 0", **{name: value})
    wide = np.arange(65536, dtype=np.uint16)
    call("more than 2..20", coarse=[wide, wide, wide])


def digest():
    """Return a hash of strengths."""
    sha = hashlib.sha256()
    for n_outputs in (1, 3):
        for size in (6, 40):
            cells, maps, grad, hess, weight = make_rows(4, 500, n_outputs, size=size)
            args = cells, maps, all_pairs(4), [True, False, False, True], grad, hess, weight * 0.3
            sha.update(strengths(*args, min_samples_leaf=0.5, cat_smooth=1.0).tobytes())
    return sha.hexdigest()


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_instruction_sets_give_the_same_bits(level):
    here = Path(__file__)
    code = f"import runpy; print(runpy.run_path({str(here)!r})['digest']())"
    roots = [str(Path(skboost.__file__).parents[1]), str(here.parents[1])]
    environment = os.environ | {"SKBOOST_ISA": level, "PYTHONPATH": os.pathsep.join(roots)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest()
