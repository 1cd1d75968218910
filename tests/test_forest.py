"""The forest as a record of a chain: prefixes, stages, means, storage, and the refusal of malformed arrays."""

import copy
import json
import pickle
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import predict as oracle

from skboost import _forest_layout
from skboost._forest import Forest, ForestBuilder

KINDS = ("general", "symmetric")
N_FEATURES = 6


def random_trees(rng, kind, n_trees=12, n_outputs=2, categorical=0.3):
    sizes = rng.choice([1, 2, 8, 31, 64, 300], n_trees)
    return [oracle.random_tree(rng, kind, int(size), N_FEATURES, n_outputs, categorical) for size in sizes]


def build(kind, trees, base_score, shrink_factors, head=None):
    builder = ForestBuilder.from_forest(head) if head else ForestBuilder(kind, trees[0]["leaf_value"].shape[1])
    for tree in trees:
        builder.append(tree)
    return builder.finish(base_score, shrink_factors)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def case(kind):
    """Return trees, their forest, and rows as codes and as numbers with a mapper."""
    rng = np.random.default_rng(KINDS.index(kind))
    trees = random_trees(rng, kind)
    forest = build(kind, trees, rng.normal(size=2), rng.uniform(0.8, 1.0, len(trees)))
    mapper = oracle.random_mapper(rng, N_FEATURES)
    x = oracle.random_rows(rng, 300, mapper)
    return trees, forest, oracle.encode(x, mapper), (x, mapper)


def assert_same_forest(first, second):
    assert vars(first).keys() == vars(second).keys()
    for name, value in vars(first).items():
        if name != "layout":
            np.testing.assert_array_equal(value, getattr(second, name), err_msg=name)
    assert first.layout.keys() == second.layout.keys()
    for name, value in first.layout.items():
        np.testing.assert_array_equal(value, second.layout[name], err_msg=name)


def test_members_are_the_forests_that_stopped_there(case):
    _, forest, codes, source = case
    counts = [12, 3, 0, 7, 7]
    for rows in (codes, source):
        for count, member in zip(counts, forest.margins(rows, counts), strict=True):
            np.testing.assert_array_equal(member, forest.truncate(count).margins(rows))
    np.testing.assert_array_equal(forest.margins(codes, 12)[0], forest.margins(codes))
    assert forest.margins(codes, []).shape == (0, 300, 2)


def test_stages_are_members(case):
    _, forest, codes, source = case
    members = forest.margins(codes, np.arange(1, 13))
    for rows in (codes, source):
        np.testing.assert_array_equal(np.array(list(forest.staged_margins(rows, n_threads=2))), members)
        np.testing.assert_array_equal(np.array(list(forest.staged_margins(rows, [2, 5]))), members[[1, 4]])


def test_a_stage_keeps_its_values_while_the_next_ones_come(case):
    _, forest, codes, _ = case
    stages = forest.staged_margins(codes)
    first = next(stages)
    kept = first.copy()
    next(stages)
    np.testing.assert_array_equal(first, kept)


def test_accumulating_trees_one_by_one_gives_the_margins(case):
    trees, forest, codes, source = case
    builder = ForestBuilder(forest.kind, 2)
    acc, raw = np.zeros((300, 2)), np.zeros((300, 2))
    for t, tree in enumerate(trees):
        builder.append(tree)
        builder.tree().accumulate(codes, acc, mul=forest.shrink_factors[t : t + 1])
        forest.accumulate(source, raw, t, t + 1)
    np.testing.assert_array_equal(forest.base_score + acc, forest.margins(codes))
    np.testing.assert_array_equal(acc, raw)


def test_the_mean_of_states_is_one_weighted_pass(case):
    _, forest, codes, _ = case
    ones = np.ones(12)
    for counts, add in [(np.arange(7, 13), forest.mean_coefficients()), ([4, 8], forest.mean_coefficients([4, 8]))]:
        mean = forest.margins(codes, counts).mean(axis=0)
        np.testing.assert_allclose(forest.margins(codes, mul=ones, add=add), mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(forest.truncate(1).mean_coefficients(), [1.0])
    np.testing.assert_array_equal(forest.truncate(0).mean_coefficients(), [])
    np.testing.assert_allclose(forest.mean_coefficients([12])[-2:], [forest.shrink_factors[11], 1.0])
    for wrong in ([], [13], [-1]):
        with pytest.raises(ValueError, match="counts must be"):
            forest.mean_coefficients(wrong)


def test_a_resumed_builder_gives_the_uninterrupted_forest(kind, case):
    trees, forest, _, _ = case
    factors = forest.shrink_factors
    head = build(kind, trees[:5], forest.base_score, factors[:5])
    assert_same_forest(build(kind, trees[5:], forest.base_score, factors, head), forest)
    assert_same_forest(build(kind, [], forest.base_score, factors[:5], head), head)
    assert ForestBuilder.from_forest(head).n_trees == 5
    assert forest.n_trees == 12


def test_truncation_cuts_trees_and_factors_together(kind, case):
    trees, forest, codes, _ = case
    short = forest.truncate(4)
    again = build(kind, trees[:4], forest.base_score, forest.shrink_factors[:4])
    np.testing.assert_array_equal(short.shrink_factors, forest.shrink_factors[:4])
    np.testing.assert_array_equal(short.margins(codes), again.margins(codes))
    np.testing.assert_array_equal(short.apply(codes), forest.apply(codes)[:, :4])
    assert short.nbytes < forest.nbytes
    for wrong in (-1, 13):
        with pytest.raises(ValueError, match="n_trees must be"):
            forest.truncate(wrong)


def test_importances_are_shares_of_the_gain(case):
    trees, forest, _, _ = case
    gain = np.zeros(N_FEATURES + 1)
    for tree in trees:
        np.add.at(gain, tree["feature"], tree["gain"])
    np.testing.assert_allclose(forest.feature_importances(N_FEATURES + 1), gain / gain.sum())
    assert forest.feature_importances(N_FEATURES).sum() == pytest.approx(1.0)
    assert not forest.truncate(0).feature_importances(3).any()


def test_used_features_are_those_that_split(case):
    trees, forest, _, _ = case
    used = np.unique(np.concatenate([tree["feature"] for tree in trees]))
    np.testing.assert_array_equal(forest.used_features, used)
    assert repr(forest) == f"Forest({forest.kind!r}, n_outputs=2, n_trees=12)"


def test_one_output_takes_flat_leaf_values_and_a_number_as_base(kind):
    rng = np.random.default_rng(8)
    tree = random_trees(rng, kind, 1, 1, categorical=0.0)[0]
    flat = {name: array for name, array in tree.items() if name != "cat_sets"}
    flat["leaf_value"] = flat["leaf_value"].ravel()
    codes = rng.integers(0, 256, (N_FEATURES, 50)).astype(np.uint8)
    forest = build(kind, [tree], 2.0, [1.0])
    builder = ForestBuilder(kind, 1)
    builder.append(flat)
    np.testing.assert_array_equal(builder.finish(2.0, [1.0]).margins(codes), forest.margins(codes))
    assert forest.base_score.shape == (1,)


def test_copies_predict_the_same_bits(case, tmp_path):
    _, forest, codes, source = case
    joblib.dump(forest, tmp_path / "forest.joblib")
    described = forest.to_dict()
    copies = {
        "pickle": pickle.loads(pickle.dumps(forest)),
        "deepcopy": copy.deepcopy(forest),
        "mapped": joblib.load(tmp_path / "forest.joblib", mmap_mode="r"),
        "dict": Forest.from_dict(described),
        "json": Forest.from_dict(
            {**described, "arrays": {name: array.tolist() for name, array in described["arrays"].items()}}
        ),
    }
    for name in forest.to_dict()["arrays"]:
        assert isinstance(getattr(copies["mapped"], name), np.memmap), name
        assert not getattr(copies["pickle"], name).flags.writeable, name
    for name, other in copies.items():
        np.testing.assert_array_equal(other.margins(source, [12, 5]), forest.margins(codes, [12, 5]), err_msg=name)
        np.testing.assert_array_equal(other.apply(source), forest.apply(codes), err_msg=name)


def test_metadata_is_json(case):
    _, forest, _, _ = case
    described = forest.to_dict()
    arrays = described.pop("arrays")
    assert json.loads(json.dumps(described)) == {"format": 1, "kind": forest.kind, "n_outputs": 2}
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    arrays["leaf_value"][:] = 0.0
    assert forest.leaf_value.any()


def test_a_pickle_holds_what_defines_the_trees(case):
    _, forest, _, _ = case
    defining = sum(array.nbytes for array in forest.to_dict()["arrays"].values())
    assert len(pickle.dumps(forest)) < defining + 3000
    assert_same_forest(pickle.loads(pickle.dumps(forest)), forest)


def test_predicting_changes_nothing(case):
    _, forest, codes, source = case
    before = pickle.dumps(forest)
    forest.margins(source, [3, 12])
    list(forest.staged_margins(source))
    forest.apply(codes)
    assert pickle.dumps(forest) == before
    with pytest.raises(ValueError, match="read-only"):
        forest.leaf_value[0] = 1.0


def set_value(array, place, value):
    array = array.copy()
    array[place] = value
    return array


MALFORMED = [
    (KINDS, "feature", lambda a: set_value(a, 0, -1)),
    (KINDS, "feature", lambda a: a[:-1]),
    (KINDS, "feature", lambda a: a.astype(np.float64)),
    (KINDS, "threshold", lambda a: a.astype(np.int64) + 256),
    (KINDS, "threshold", lambda a: a[:, np.newaxis]),
    (KINDS, "missing_right", lambda a: set_value(a, -1, 2)),
    (KINDS, "cat_set", lambda a: set_value(a, 0, 10**6)),
    (KINDS, "cat_set", lambda a: set_value(a, 0, -2)),
    (KINDS, "cat_sets", lambda a: a[:-1]),
    (KINDS, "cat_sets", lambda a: a[:, :31]),
    (KINDS, "gain", lambda a: a[1:]),
    (KINDS, "node_offset", lambda a: set_value(a, -1, a[-1] + 1)),
    (KINDS, "node_offset", lambda a: set_value(a, 0, 1)),
    (KINDS, "node_offset", lambda a: a[:-1]),
    (KINDS, "leaf_offset", lambda a: set_value(a, 1, a[-1])),
    (KINDS, "leaf_offset", lambda a: set_value(a, 1, 0)),
    (KINDS, "leaf_value", lambda a: a[:, :1]),
    (KINDS, "leaf_value", lambda a: a.astype(str)),
    (KINDS, "leaf_weight", lambda a: a[:-1]),
    (KINDS, "base_score", lambda a: a[:1]),
    (KINDS, "shrink_factors", lambda a: a[:-1]),
    (KINDS, "shrink_factors", lambda a: a[:, np.newaxis]),
    (("symmetric",), "table", lambda a: set_value(a, -1, -1)),
    (("symmetric",), "table", lambda a: set_value(a, 0, 10**6)),
    (("symmetric",), "table_offset", lambda a: set_value(a, 1, a[1] + 1)),
    (("general",), "left", lambda a: set_value(a, 0, 0)),
    (("general",), "left", lambda a: set_value(a, -1, 10**6)),
    (("general",), "right", lambda a: set_value(a, -1, -(10**6))),
    (("general",), "right", lambda a: np.zeros_like(a)),
    (("general",), "right", lambda a: np.full_like(a, -1)),
]


@pytest.mark.parametrize(
    ("kind", "name", "change"), [(kind, name, change) for kinds, name, change in MALFORMED for kind in kinds]
)
def test_malformed_arrays_are_refused(case, name, change):
    _, forest, _, _ = case
    described = forest.to_dict()
    described["arrays"][name] = change(described["arrays"][name])
    with pytest.raises(ValueError, match=r"Malformed forest|does not hold each"):
        Forest.from_dict(described)


@pytest.mark.parametrize(
    ("kind", "name", "change"), [(kind, name, change) for kinds, name, change in MALFORMED for kind in kinds]
)
def test_tampered_pickles_are_refused(case, name, change):
    """The kernels trust the arrays, so that a pickle that leads out of them must not become a forest."""
    _, forest, _, _ = case
    tampered = copy.copy(forest)
    setattr(tampered, name, change(getattr(forest, name)))
    text = pickle.dumps(tampered)
    with pytest.raises(ValueError, match=r"Malformed forest|does not hold each"):
        pickle.loads(text)


def test_arrays_of_a_pickle_are_arrays(case):
    _, forest, _, _ = case
    for wrong in (None, forest.feature.tolist(), forest.feature.astype(object), np.array(1, dtype=np.int32)):
        tampered = copy.copy(forest)
        tampered.feature = wrong
        text = pickle.dumps(tampered)
        with pytest.raises(ValueError, match="Malformed forest: feature"):
            pickle.loads(text)


def test_arrays_of_the_other_byte_order_are_the_same(case):
    _, forest, codes, _ = case
    state = forest.__getstate__()
    swapped = {name: array.astype(array.dtype.newbyteorder()) for name, array in state["arrays"].items()}
    other = Forest.__new__(Forest)
    other.__setstate__({**state, "arrays": swapped})
    assert_same_forest(other, forest)
    np.testing.assert_array_equal(other.margins(codes), forest.margins(codes))


def test_pickles_of_another_format_say_what_to_do(case, monkeypatch):
    _, forest, _, _ = case
    monkeypatch.setattr(_forest_layout, "FORMAT_VERSION", 2)
    text = pickle.dumps(forest)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"has the format 2, this skboost reads format 1: .* or fit the model again"):
        pickle.loads(text)
    for wrong in (vars(forest), None, [], 1):
        with pytest.raises(ValueError, match="has the format None"):
            Forest.__new__(Forest).__setstate__(wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "has the format 2"),
        ({"kind": "round"}, "kind must be"),
        ({"kind": ["general"]}, "kind must be"),
        ({"n_outputs": 0}, "n_outputs must be"),
        ({"n_outputs": 2.0}, "n_outputs must be"),
        ({"arrays": {}}, "Arrays are missing"),
        ({"arrays": None}, "Arrays are missing"),
    ],
)
def test_malformed_metadata_is_refused(case, change, message):
    _, forest, _, _ = case
    with pytest.raises(ValueError, match=message):
        Forest.from_dict({**forest.to_dict(), **change})
    with pytest.raises(ValueError, match=message):
        Forest.__new__(Forest).__setstate__({**forest.__getstate__(), **change})


def test_a_forest_meets_a_mapper_of_fewer_features(case):
    _, forest, codes, (x, mapper) = case
    fewer = SimpleNamespace(**vars(mapper))
    fewer.cuts, fewer.n_bins, fewer.is_categorical = mapper.cuts[:5], mapper.n_bins[:5], mapper.is_categorical[:5]
    fewer.level_offset = mapper.level_offset[:6]
    assert forest.used_features[-1] == 5
    message = "The forest uses feature 5, the bin mapper has 5 features"
    for call in (forest.margins, forest.apply, lambda source: next(forest.staged_margins(source))):
        with pytest.raises(ValueError, match=message):
            call((x, fewer))
        with pytest.raises(ValueError, match="The forest uses feature 5, the rows have 5 features"):
            call((x[:, :5], mapper))
    for call in (forest.margins, forest.apply):
        with pytest.raises(ValueError, match="The forest uses feature 5, the rows have 5 features"):
            call(codes[:5])


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="kind must be"):
        ForestBuilder("round", 1)
    with pytest.raises(ValueError, match="kind must be"):
        Forest("round", 1, {})


def test_two_roots_that_feed_each_other_are_a_cycle():
    rng = np.random.default_rng(9)
    tree = oracle.random_tree(rng, "general", 4, 2, categorical=0.0)
    tree["left"][:], tree["right"][:] = [~0, 2, 1], [~1, ~2, ~3]
    with pytest.raises(ValueError, match="Tree 0 does not hold each"):
        build("general", [tree], 0.0, [1.0])


def test_a_deeper_symmetric_tree_than_the_limit_is_refused():
    rng = np.random.default_rng(10)
    tree = oracle.random_tree(rng, "symmetric", 2**17, 2, categorical=0.0)
    with pytest.raises(ValueError, match="more than 16 levels"):
        build("symmetric", [tree], 0.0, [1.0])


@settings(max_examples=200, deadline=None)
@given(data=st.data(), kind=st.sampled_from(KINDS), seed=st.integers(0, 1000))
def test_damaged_arrays_are_refused_or_harmless(data, kind, seed):
    rng = np.random.default_rng(seed)
    described = build(kind, random_trees(rng, kind, 3), np.zeros(2), np.ones(3)).to_dict()
    arrays = described["arrays"]
    name = data.draw(st.sampled_from(sorted(name for name in arrays if arrays[name].dtype.kind in "iu")))
    array = arrays[name].reshape(-1)
    for _ in range(data.draw(st.integers(1, 3))):
        if len(array):
            value = data.draw(st.integers(-5, 300))
            array[data.draw(st.integers(0, len(array) - 1))] = value % 256 if array.dtype == np.uint8 else value
    restored = Forest.__new__(Forest)
    try:
        forest = Forest.from_dict(described)
    except ValueError:
        with pytest.raises(ValueError, match=r"Malformed forest|does not hold each"):
            restored.__setstate__(described)
        return
    restored.__setstate__(described)
    assert_same_forest(restored, forest)
    codes = rng.integers(0, 256, (int(forest.used_features.max(initial=0)) + 1, 70)).astype(np.uint8)
    n_leaves = np.diff(forest.leaf_offset)
    for n_rows in (70, 2):
        leaves = forest.apply(codes[:, :n_rows])
        assert ((leaves >= 0) & (leaves < n_leaves)).all()
        assert np.isfinite(forest.margins(codes[:, :n_rows])).all()
