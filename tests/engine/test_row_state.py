"""Sums, steps and metrics of a bag's rows against NumPy, for every loss and for main effects and pairs."""

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles import losses as oracle

import skboost
from skboost._engine import row_state

RowState = row_state.RowState

KINDS = {
    "squared_error": (0, 1),
    "poisson": (1, 1),
    "binary": (2, 1),
    "multinomial": (3, 4),
    "gamma": (5, 1),
    "tweedie": (6, 1),
}
SIZES = (9, 40, 2, 260, 33)
# First cells of the last feature are crowded, others hold no rows.
COARSE = [None, np.r_[0, 1 + np.arange(38) // 7, 7], None, np.r_[0, 1 + np.arange(258) // 2, 130], np.r_[0:33]]
COARSE = [m if m is None else m.astype(np.uint16) for m in COARSE]
TERMS = [(0, -1), (3, -1), (1, 4), (2, -1), (3, 4), (4, -1), (4, 3)]


def make_loss(name):
    kind, n_outputs = KINDS[name]
    return SimpleNamespace(kind=kind, n_outputs=n_outputs, params=(1.5,) if name == "tweedie" else ())


def make_bag(name="squared_error", n=700, weights="ones", seed=0):
    """Return keyword arguments of RowState; a third of the rows is in no part or in both."""
    rng = np.random.default_rng([seed, n])
    cells = np.array([rng.integers(0, size, n) for size in SIZES], dtype=np.uint16)
    cells[4] = np.where(rng.random(n) < 0.6, 2, cells[4])
    n_outputs = KINDS[name][1]
    targets = {
        "binary": lambda: rng.integers(0, 2, n),
        "multinomial": lambda: rng.integers(0, n_outputs, n),
        "poisson": lambda: rng.poisson(2.0, n),
        "gamma": lambda: rng.exponential(size=n) + 0.1,
        "tweedie": lambda: rng.poisson(1.0, n) * rng.exponential(size=n),
        "squared_error": lambda: rng.normal(size=n),
    }
    weight = {
        "ones": np.ones(n),
        "whole": rng.integers(1, 5, n).astype(float),
        "fractional": rng.exponential(size=n),
    }[weights]
    part = rng.choice(4, n, p=[0.6, 0.2, 0.1, 0.1])
    return {
        "loss": make_loss(name),
        "cells": cells,
        "term_axes": TERMS,
        "n_cells": SIZES,
        "y": targets[name]().astype(float),
        "score": rng.normal(size=(n_outputs, n)),
        "train_weight": weight * np.isin(part, [0, 2]),
        "val_weight": weight * np.isin(part, [1, 2]),
        "coarse": COARSE,
    }


class Model:
    """The same in NumPy, from scratch at every question."""

    def __init__(self, name, bag):
        self.name, self.bag = name, bag
        self.score = bag["score"].copy()

    def cells_of(self, term):
        j, k = TERMS[term]
        cells = self.bag["cells"].astype(np.int64)
        if k < 0:
            return cells[j], SIZES[j]
        a, b = COARSE[j].astype(int), COARSE[k].astype(int)
        return a[cells[j]] * (b[-1] + 1) + b[cells[k]], (a[-1] + 1) * (b[-1] + 1)

    def sums(self, term):
        cell, size = self.cells_of(term)
        _, grad, hess = oracle.ALL[self.name](self.bag["y"], self.score)
        w = self.bag["train_weight"]
        return (
            np.array([np.bincount(cell, w * g, size) for g in grad]),
            np.array([np.bincount(cell, w * h, size) for h in hess]),
            np.bincount(cell, w, size),
        )

    def apply(self, term, u):
        self.score += u.reshape(len(self.score), -1)[:, self.cells_of(term)[0]]
        return self.metric()

    def metric(self):
        values = oracle.ALL[self.name](self.bag["y"], self.score)[0]
        return np.average(values, weights=self.bag["val_weight"]) * (2 if self.name == "squared_error" else 1)


def random_step(rng, n_outputs, size):
    """u with at most a few changes, or one value per cell."""
    if rng.random() < 0.3:
        return 0.1 * rng.normal(size=(n_outputs, size))
    ends = np.sort(rng.integers(0, size, rng.integers(0, 4)))
    return 0.3 * rng.normal(size=(n_outputs, len(ends) + 1))[:, np.searchsorted(ends, np.arange(size))]


def assert_same_sums(state, model, term, tolerance=1e-11):
    for found, wanted in zip(state.sums(term), model.sums(term), strict=True):
        assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("weights", ["ones", "whole", "fractional"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("n", [3, 16, 700, 2500])
def test_any_order_of_questions_and_steps(name, weights, n, seed):
    rng = np.random.default_rng([seed, n, len(name)])
    bag = make_bag(name, n, weights, seed)
    bag["train_weight"][0] = bag["val_weight"][1] = 1.0
    state, model = RowState(**bag), Model(name, bag)
    n_outputs = KINDS[name][1]
    for _ in range(60):
        term = rng.integers(len(TERMS))
        size = model.cells_of(term)[1]
        question = rng.choice(["sums", "parts", "step", "step", "refresh"], p=[0.3, 0.25, 0.2, 0.2, 0.05])
        if question == "sums":
            assert_same_sums(state, model, term)
        elif question == "parts" and TERMS[term][1] < 0:
            cuts = np.unique(rng.integers(0, size - 1, rng.choice([0, 1, 1, 1, 2, 3, 9])))
            starts = np.r_[0, cuts + 1]
            wanted = [np.add.reduceat(part, starts, axis=1) for part in model.sums(term)[:2]]
            for found, part in zip(state.part_sums(term, cuts), wanted, strict=True):
                assert_allclose(found, part, rtol=1e-11, atol=1e-10)
        elif question == "step":
            u = random_step(rng, n_outputs, size)
            assert_allclose(state.apply(term, u), model.apply(term, u), rtol=1e-11)
        elif question == "refresh":
            assert_allclose(state.refresh(), model.metric(), rtol=1e-11)
    chosen = bag["train_weight"] > 0
    wanted = model.score[:, chosen] - (bag["y"][chosen] if name == "squared_error" else 0)
    found = state.scores()
    if n_outputs > 1:
        found, wanted = found - found[0], wanted - wanted[0]
    assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n_cuts", [1, 2, 6])
def test_small_parts_beside_large_ones_keep_their_digits(n_cuts):
    """Rows that are all but certain: as differences of sums their own would have no digits."""
    bag = make_bag("binary", 3000)
    bag["score"][0, bag["cells"][0] == 8] = 35.0
    bag["y"][bag["cells"][0] == 8] = 1.0
    G, H = RowState(**bag).part_sums(0, range(8 - n_cuts, 8))
    _, grad, hess = oracle.binary(bag["y"], bag["score"])
    weight = bag["train_weight"] * (bag["cells"][0] == 8)
    assert_allclose(G[0, -1], (weight * grad[0]).sum(), rtol=1e-13)
    assert_allclose(H[0, -1], (weight * hess[0]).sum(), rtol=1e-13)
    assert 0 < H[0, -1] < 1e-12 * H.sum()


@pytest.mark.parametrize("name", ["binary", "multinomial"])
def test_many_steps_of_log_losses_do_not_drift(name):
    """Training rows keep exponentials that every step multiplies."""
    rng = np.random.default_rng(0)
    bag = make_bag(name, 200)
    state, model = RowState(**bag), Model(name, bag)
    for _ in range(4000):
        term = rng.integers(len(TERMS))
        u = random_step(rng, KINDS[name][1], model.cells_of(term)[1])
        u -= 0.1 * u.mean()
        state.apply(term, u)
        model.apply(term, u)
    wanted = model.score[:, bag["train_weight"] > 0]
    found = state.scores()
    if len(found) > 1:
        found, wanted = found - found[0], wanted - wanted[0]
    assert np.abs(wanted).max() > 3
    assert_allclose(found, wanted, atol=1e-11)
    for term in range(len(TERMS)):
        assert_same_sums(state, model, term)


@pytest.mark.parametrize("name", ["binary", "multinomial"])
def test_log_losses_of_scores_without_bounds(name):
    """Scores of hundreds are held at gradients of 0 and 1; far steps and back do not return, but stay numbers."""
    bag = make_bag(name, 200)
    bag["score"] *= 1000
    state = RowState(**bag)
    _, grad, _ = oracle.ALL[name](bag["y"], bag["score"])
    wanted = [np.bincount(bag["cells"][0], bag["train_weight"] * g, SIZES[0]) for g in grad]
    assert_allclose(state.sums(0)[0], wanted, atol=1e-12)
    far = np.where(np.arange(SIZES[0]) % 2, 3000.0, -3000.0) * np.ones((len(grad), 1))
    far[-1] *= -1
    for step in (far, -far, -far, far):
        state.apply(0, step)
        G, H, _ = state.sums(0)
        assert np.isfinite(G).all()
        assert (H >= 0).all()
        assert np.isfinite(state.scores()).all()


def test_pairs_beyond_sixteen_bits():
    """More than 65536 cells of a pair, in both losses' kinds of sums."""
    rng = np.random.default_rng(0)
    size, n = 300, 900
    for name in ("squared_error", "binary"):
        cells = rng.integers(0, size, (2, n)).astype(np.uint16)
        identity = np.arange(size, dtype=np.uint16)
        bag = make_bag(name, n) | {"cells": cells, "term_axes": [(0, 1), (1, -1)], "n_cells": [size, size]}
        state = RowState(**bag | {"coarse": [identity, identity]})
        assert state.term_sizes.tolist() == [[300, 300], [300, 1]]
        u = rng.normal(size=size * size)
        state.apply(0, u)
        score = bag["score"] + u[cells[0].astype(int) * size + cells[1]]
        grad, hess = oracle.ALL[name](bag["y"], score)[1:]
        G, H, W = state.sums(0)
        at, w = cells[0].astype(int) * size + cells[1], bag["train_weight"]
        assert_allclose(G[0], np.bincount(at, w * grad[0], size * size), rtol=1e-12, atol=1e-12)
        assert_allclose(H[0], np.bincount(at, w * hess[0], size * size), rtol=1e-12, atol=1e-12)
        assert_array_equal(W, np.bincount(at, w, size * size))


def test_many_classes():
    """So many that a tile of rows is smaller than usual."""
    n, classes = 5000, 130
    rng = np.random.default_rng(0)
    bag = make_bag(n=n) | {"loss": SimpleNamespace(kind=3, n_outputs=classes, params=())}
    bag |= {"y": rng.integers(0, classes, n).astype(float), "score": rng.normal(size=(classes, n))}
    state = RowState(**bag)
    u = rng.normal(size=(classes, 1)) * np.ones((1, SIZES[0]))
    grad, hess = oracle.multinomial(bag["y"], bag["score"] + u[:, :1])[1:]
    state.apply(0, u)
    G, H, _ = state.sums(0)
    w = bag["train_weight"]
    assert_allclose(G.sum(axis=1), grad @ w, rtol=1e-9, atol=1e-9)
    assert_allclose(H.sum(axis=1), hess @ w, rtol=1e-9)


def test_metric_is_the_excess_over_perfect_predictions():
    bag = make_bag("poisson", weights="whole")
    y = bag["y"]
    saturated = y - y * np.log(np.maximum(y, 1e-300))
    plain, excess = RowState(**bag), RowState(**bag, saturated=saturated)
    shift = np.average(saturated, weights=bag["val_weight"])
    assert_allclose(excess.refresh(), plain.refresh() - shift, rtol=1e-12)
    u = np.full((1, SIZES[0]), 0.1)
    assert_allclose(excess.apply(0, u), plain.apply(0, u) - shift, rtol=1e-12)
    assert excess.refresh() > 0


def test_no_validation_rows():
    bag = make_bag() | {"val_weight": np.zeros(700)}
    state = RowState(**bag, saturated=np.ones(700))
    assert np.isnan(state.refresh())
    assert np.isnan(state.apply(0, np.ones((1, SIZES[0]))))


@pytest.mark.parametrize("name", ["squared_error", "binary"])
def test_rows_without_weight_are_absent(name):
    """Bit for bit."""
    bag = make_bag(name, 900, "fractional")
    used = (bag["train_weight"] > 0) | (bag["val_weight"] > 0)
    less = {
        key: np.ascontiguousarray(bag[key][..., used]) for key in ("cells", "y", "score", "train_weight", "val_weight")
    }
    full, part = RowState(**bag), RowState(**bag | less)
    rng = np.random.default_rng(0)
    for _ in range(20):
        term = rng.integers(len(TERMS))
        for a, b in zip(full.sums(term), part.sums(term), strict=True):
            assert_array_equal(a, b)
        u = random_step(rng, 1, full.sums(term)[0].shape[1])
        assert full.apply(term, u) == part.apply(term, u)


@pytest.mark.parametrize("name", ["squared_error", "binary"])
def test_weights_of_one_are_no_weights(name):
    """A single weight other than 1 makes the sums multiply all rows; the bits of the others stay."""
    bag = make_bag(name, 900)
    other = bag["train_weight"].copy()
    last = np.flatnonzero(other)[-1]
    other[last] = 2.0
    plain, weighted = RowState(**bag), RowState(**bag | {"train_weight": other})
    for term in range(len(TERMS)):
        for a, b in zip(plain.sums(term)[:2], weighted.sums(term)[:2], strict=True):
            differ = np.flatnonzero((a != b).any(axis=0))
            assert len(differ) <= 1


def test_arguments_are_copied():
    bag = make_bag()
    before = {key: bag[key].copy() for key in ("cells", "y", "score", "train_weight", "val_weight")}
    state = RowState(**bag)
    G, _, _ = state.sums(0)
    state.apply(0, np.ones((1, SIZES[0])))
    state.sums(0)
    for key, value in before.items():
        assert_array_equal(bag[key], value)
        bag[key][:] = 0
    state.apply(0, -np.ones((1, SIZES[0])))
    assert_allclose(state.sums(0)[0], G, rtol=1e-12, atol=1e-12)


def test_bags_in_threads():
    """Objects share nothing."""
    bags = [make_bag("binary", 3000, seed=s) for s in range(4)]

    def work(bag, out):
        state, rng = RowState(**bag), np.random.default_rng(0)
        for _ in range(50):
            term = rng.integers(len(TERMS))
            out += [part.tobytes() for part in state.sums(term)]
            state.apply(term, random_step(rng, 1, state.sums(term)[0].shape[1]))

    alone, together = [[] for _ in bags], [[] for _ in bags]
    for bag, out in zip(bags, alone, strict=True):
        work(bag, out)
    threads = [threading.Thread(target=work, args=pair) for pair in zip(bags, together, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert alone == together


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cells": np.zeros((5, 700), dtype=np.int64)}, "cells must be uint16"),
        ({"cells": np.zeros(700, dtype=np.uint16)}, "cells must be uint16"),
        ({"cells": np.full((5, 700), 2, dtype=np.uint16)}, "feature 2 holds cells beyond"),
        ({"n_cells": (9, 40, 2, 260)}, "n_cells has 4 entries"),
        ({"n_cells": (9, 40, 2, 260, 1)}, "feature 4"),
        ({"y": np.zeros(699)}, "y must have shape"),
        ({"y": np.full(700, np.nan)}, "y holds values"),
        ({"score": np.zeros((2, 700))}, "score must have shape"),
        ({"score": np.full((1, 700), np.inf)}, "score holds values"),
        ({"train_weight": np.zeros(700)}, "train_weight must be positive"),
        ({"train_weight": np.full(700, -1.0)}, "train_weight holds negative"),
        ({"val_weight": np.full(700, np.nan)}, "val_weight holds values"),
        ({"val_weight": np.zeros((700, 1))}, "val_weight must have shape"),
        ({"term_axes": []}, "at least one term"),
        ({"term_axes": [(5, -1)]}, "one or two of 5 features"),
        ({"term_axes": [(0, -2)]}, "one or two of 5 features"),
        ({"term_axes": [(1, 1)]}, "one or two of 5 features"),
        ({"coarse": None}, "coarse has no map"),
        ({"term_axes": [(0, 1)]}, "coarse has no map for feature 0"),
        ({"coarse": [None, np.zeros(39, dtype=np.uint16), None, *COARSE[3:]]}, "coarse\\[1\\] must be uint16"),
        ({"coarse": [None, np.arange(40), None, *COARSE[3:]]}, "coarse\\[1\\] must be uint16"),
        ({"coarse": [None, np.arange(40, dtype=np.uint16)[::-1], None, *COARSE[3:]]}, "last entry"),
        ({"loss": SimpleNamespace(kind=4, n_outputs=2, params=())}, "loss kind 4"),
        ({"loss": SimpleNamespace(kind=0, n_outputs=2, params=())}, "unknown loss"),
        ({"loss": SimpleNamespace(kind=17, n_outputs=1, params=())}, "loss kind 17"),
        ({"loss": SimpleNamespace(kind=99, n_outputs=1, params=())}, "unknown loss"),
        ({"saturated": np.zeros(3)}, "saturated must have shape"),
    ],
)
def test_arguments_are_checked(change, message):
    with pytest.raises(ValueError, match=message):
        RowState(**make_bag() | change)


def test_a_stage_cannot_lose_its_rows():
    bag = make_bag()
    state = RowState(**bag)
    with pytest.raises(RuntimeError, match="initialised once"):
        state.__init__(**bag)
    with pytest.raises(ValueError, match="read-only"):
        state.term_sizes[0, 0] = 2 * 10**7


def test_pairs_of_too_many_cells_are_refused():
    wide = np.arange(1100, dtype=np.uint16)
    bag = make_bag() | {"n_cells": [1100] * 5, "term_axes": [(0, 1)], "coarse": [wide] * 5}
    with pytest.raises(ValueError, match="more than 1048576 cells"):
        RowState(**bag)


def test_questions_are_checked():
    state = RowState(**make_bag())
    for term in (-1, len(TERMS)):
        with pytest.raises(IndexError, match="no term"):
            state.sums(term)
    with pytest.raises(ValueError, match="is a pair"):
        state.part_sums(2, [1])
    for cuts in ([3, 3], [4, 2], [-1], [8]):
        with pytest.raises(ValueError, match="cuts must ascend"):
            state.part_sums(0, cuts)
    with pytest.raises(ValueError, match="reshape"):
        state.apply(0, np.ones(8))
    for question in (lambda s: s.sums(0), lambda s: s.refresh(), lambda s: s.scores(), lambda s: s.apply(0, [1.0])):
        with pytest.raises(ValueError, match="was not initialised"):
            question(RowState.__new__(RowState))


# ---------------------------------------------------------------- instruction sets

DIGEST = """
import hashlib
import numpy as np
from test_row_state import KINDS, TERMS, RowState, make_bag, random_step
digest = hashlib.sha256()
for name in KINDS:
    for weights in ("ones", "fractional"):
        state, rng = RowState(**make_bag(name, 1500, weights)), np.random.default_rng(0)
        for _ in range(40):
            term = rng.integers(len(TERMS))
            sums = state.sums(term)
            digest.update(b"".join(part.tobytes() for part in sums))
            metric = state.apply(term, random_step(rng, KINDS[name][1], sums[0].shape[1]))
            digest.update(np.float64(metric).tobytes())
            cuts = np.unique(rng.integers(0, 8, rng.integers(0, 4)))
            digest.update(b"".join(part.tobytes() for part in state.part_sums(0, cuts)))
print(digest.hexdigest())
"""


def digest_at(level):
    roots = [str(Path(skboost.__file__).parents[1]), str(Path(__file__).parent), str(Path(__file__).parents[1])]
    environment = os.environ | {"SKBOOST_ISA": level, "PYTHONPATH": os.pathsep.join(roots)}
    command = [sys.executable, "-c", DIGEST]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_bits_do_not_depend_on_the_instruction_set():
    found = digest_at("2")
    assert len(found.strip()) == len(hashlib.sha256().hexdigest())
    assert digest_at("0") == found
    assert digest_at("1") == found
