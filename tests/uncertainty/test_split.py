"""Held-out rows: drawn by content, whatever the order, the container or the weights' spelling."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skboost.uncertainty._split import content_hashes, split


def table(n=80, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, 3)).astype(float), rng.integers(0, 3, n)


def contents(part):
    """Return the rows of a part, with their targets and weights, in an order of their own."""
    weights = np.ones(len(part.y)) if part.sample_weight is None else part.sample_weight
    return np.array(sorted(np.column_stack([part.X, part.y]).repeat(weights.astype(int), axis=0).tolist()))


@pytest.mark.parametrize("stratified", [True, False])
@pytest.mark.parametrize("fraction", [0.25, 20])
def test_parts_divide_the_rows(stratified, fraction, seed):
    X, y = table(seed=seed)
    train, held = split(X, y, None, fraction, 7, stratified=stratified)
    assert len(held.y) == 20
    assert_array_equal(np.sort(np.concatenate([train.rows, held.rows])), np.arange(80))
    for part in (train, held):
        assert_array_equal(part.X, X[part.rows])
        assert_array_equal(part.y, y[part.rows])
        assert part.sample_weight is None
    if stratified:
        assert (np.abs(np.bincount(held.y, minlength=3) - np.bincount(y) / 4) < 1).all()


@pytest.mark.parametrize("stratified", [True, False])
def test_order_of_rows_does_not_matter(stratified, seed):
    X, y = table(seed=seed)
    order = np.random.default_rng(seed + 1).permutation(80)
    for here, there in zip(
        split(X, y, None, 0.3, 5, stratified=stratified),
        split(X[order], y[order], None, 0.3, 5, stratified=stratified),
        strict=True,
    ):
        assert_array_equal(contents(here), contents(there))
    other_seed = split(X, y, None, 0.3, 6, stratified=stratified)
    assert not np.array_equal(other_seed[1].rows, split(X, y, None, 0.3, 5, stratified=stratified)[1].rows)


def test_whole_weights_are_copies(seed):
    X, y = table(seed=seed)
    weights = np.random.default_rng(seed).integers(0, 4, 80)
    weighted = split(X, y, weights, 0.3, 5, stratified=True)
    repeated = split(np.repeat(X, weights, axis=0), np.repeat(y, weights), None, 0.3, 5, stratified=True)
    for here, there in zip(weighted, repeated, strict=True):
        assert_array_equal(contents(here), contents(there))
        assert (here.sample_weight > 0).all()
    total = np.zeros(80)
    for part in weighted:
        np.add.at(total, part.rows, part.sample_weight)
    assert_array_equal(total, weights)


def test_frames_and_arrays_are_drawn_alike():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = table()
    names = ["a", "b", "c"]
    expected = split(X, y, None, 0.3, 5, stratified=True)[1].rows
    frames = [pd.DataFrame(X, columns=names, index=np.arange(80)[::-1]), pl.DataFrame(X, schema=names)]
    for other in (*frames, X.astype(np.float32), X.astype(int), np.asfortranarray(X), X.astype(object), X.tolist()):
        assert_array_equal(split(other, y, None, 0.3, 5, stratified=True)[1].rows, expected)
    for frame in frames:
        part = split(frame, y, None, 0.3, 5, stratified=True)[1]
        assert type(part.X) is type(frame)
        assert list(part.X.columns) == names


def test_texts_and_missing_values_have_contents():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "c": pd.Categorical(rng.choice(["x", "y", None], 40)),
            "t": rng.choice(["u", "v"], 40),
            "n": rng.normal(size=40),
        }
    )
    frame.loc[3, "n"] = np.nan
    hashes = content_hashes(frame)
    assert len(np.unique(hashes)) == 40
    order = rng.permutation(40)
    assert_array_equal(content_hashes(frame.iloc[order]), hashes[order])
    documents = ["one", "two", "one"]
    assert_array_equal(content_hashes(documents) == content_hashes(documents)[0], [True, False, True])


def test_equal_numbers_have_equal_hashes():
    X = np.array([[0.0, np.nan], [-0.0, -np.nan], [0.0, 1.0], [1.0, 0.0]])
    hashes = content_hashes(X)
    assert hashes[0] == hashes[1]
    assert len(np.unique(hashes)) == 3


@pytest.mark.parametrize("X", [sparse.csr_matrix(np.eye(30)), sparse.csr_array(np.eye(30)), np.zeros((30, 2, 2))])
def test_other_containers_are_drawn_by_position(X):
    train, held = split(X, np.arange(30.0), None, 0.2, 0, stratified=False)
    assert held.X.shape[0] == 6
    assert train.X.shape[0] == 24


def test_what_cannot_be_held_out():
    X = np.zeros((3, 1))
    with pytest.raises(ValueError, match=r"calibration_fraction=0\.2 can hold no row out of n_samples=1"):
        split(X[:1], [1.0], None, 0.2, 0, stratified=False)
    with pytest.raises(ValueError, match="leave one of each class to train on"):
        split(X, ["a", "b", "c"], None, 0.5, 0, stratified=True)
    for weight, total in ((None, 3), ([1, 1, 0], 2)):
        with pytest.raises(ValueError, match=f"calibration_fraction={total} must be less than the number of rows"):
            split(X, [1.0, 2.0, 3.0], weight, total, 0, stratified=False)
    for stratified in (False, True):
        with pytest.raises(ValueError, match="NaN"):
            split(X, [1.0, np.nan, 2.0], None, 1, 0, stratified=stratified)
        with pytest.raises(ValueError, match="infinity"):
            split(X, [1.0, np.inf, 2.0], None, 1, 0, stratified=stratified)
    with pytest.raises(ValueError, match="Unknown label type"):
        split(X, [1.5, 0.2, 2.0], None, 1, 0, stratified=True)
