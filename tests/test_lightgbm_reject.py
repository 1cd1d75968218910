"""Malformed and hostile models are refused with the line that is wrong."""

import re
import time

import numpy as np
import pytest
from lightgbm_files import model_text, oracle, stored_json

from skboost.lightgbm import load, loads

THREE_LEAVES = {
    "num_leaves": "3", "split_feature": "0 1", "split_gain": "1 1", "threshold": "0.5 1", "decision_type": "8 8",
    "left_child": "1 -1", "right_child": "-3 -2", "leaf_value": "1 2 3",
}  # fmt: skip
CATEGORIES = {"num_cat": "1", "threshold": "0", "decision_type": "1", "cat_boundaries": "0 1", "cat_threshold": "2"}
LINEAR = {
    "is_linear": "1", "leaf_const": "1 2", "num_features": "1 0", "leaf_features": "1 ", "leaf_coeff": "0.5 ",
}  # fmt: skip


def refused(text):
    """Return the message of the refusal, which must come fast and name a line of the text."""
    start = time.process_time()
    with pytest.raises(ValueError, match=r"^Line [1-9][0-9]*: ") as caught:
        loads(text)
    assert time.process_time() - start < 1
    line = int(re.match(r"Line ([0-9]+)", str(caught.value))[1])
    assert line <= len(text.split("\n"))
    assert len(str(caught.value)) < 300
    return str(caught.value)


@pytest.mark.parametrize("case", stored_json("reject.json"), ids=lambda case: case["name"])
def test_stored_malformed_models_are_refused(case):
    refused(case["model"])
    refused(case["model"].replace("\n", "\r\n"))


def test_what_the_other_tests_break_is_sound():
    X = [[0.0, 0.0]]
    assert loads(model_text(THREE_LEAVES)).predict(X) == 1
    assert loads(model_text(CATEGORIES)).predict(X) == -2.5
    assert loads(model_text(LINEAR)).predict(X) == 1


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"num_leaves": "99999999999"}, "num_leaves holds something else"),
        ({"num_leaves": "2147483647"}, "leaf_value has 2 entries instead of 2147483647"),
        ({"num_leaves": "0"}, "num_leaves has entries outside"),
        ({"num_leaves": "-1"}, "num_leaves has entries outside"),
        ({"num_leaves": "2.0"}, "num_leaves holds something else"),
        ({"num_leaves": "2 2"}, "num_leaves has 2 entries instead of 1"),
        ({"num_leaves": None}, "has no num_leaves"),
        ({"num_cat": None}, "has no num_cat"),
        ({"num_cat": "2147483647"}, "has no cat_boundaries"),
        ({"threshold": "nan"}, "threshold has entries that are no numbers"),
        ({"threshold": "0.5x"}, "threshold holds something else"),
        ({"threshold": "1_0"}, "threshold holds something else"),
        ({"threshold": "\u0661"}, "threshold holds something else"),
        ({"threshold": "1" * 500}, "threshold holds something else"),
        ({"leaf_value": "1e999 1"}, "leaf_value has entries that are not finite"),
        ({"leaf_value": "1 inf"}, "leaf_value has entries that are not finite"),
        ({"leaf_value": "1 2 3"}, "leaf_value has 3 entries instead of 2"),
        ({"decision_type": "12"}, "missing type that does not exist"),
        ({"decision_type": "16"}, "decision_type has entries outside"),
        ({"split_gain": "1 2"}, "split_gain has 2 entries instead of 1"),
        ({"shrinkage": "x"}, "shrinkage holds something else"),
        ({"shrinkage": "1", "extra": "no\nline"}, "expected key=value in Tree=0"),
        ({"left_child": "-2", "right_child": "-2"}, "leaf 0 is the child of 0 nodes"),
        (THREE_LEAVES | {"left_child": "1 1", "right_child": "-1 -2"}, "leaf 2 is the child of 0 nodes"),
        (THREE_LEAVES | {"left_child": "-1 1", "right_child": "-2 -3"}, "1 nodes are in a ring"),
        (CATEGORIES | {"threshold": "0.5"}, "no whole number below 1"),
        (CATEGORIES | {"threshold": "-1"}, "no whole number below 1"),
        (CATEGORIES | {"threshold": "inf"}, "no whole number below 1"),
        (CATEGORIES | {"cat_boundaries": "0 2147483647"}, "cat_threshold has 1 entries instead of 2147483647"),
        (CATEGORIES | {"cat_boundaries": "1 1"}, "cat_boundaries does not ascend from 0"),
        (CATEGORIES | {"num_cat": "2", "cat_boundaries": "0 2 1"}, "cat_boundaries does not ascend from 0"),
        (CATEGORIES | {"cat_threshold": "4294967296"}, "cat_threshold has entries outside"),
        (CATEGORIES | {"cat_threshold": None}, "has no cat_threshold"),
        (LINEAR | {"is_linear": "2"}, "is_linear has entries outside"),
        (LINEAR | {"num_features": "2147483647 2147483647"}, "leaf_features has 1 entries instead of 4294967294"),
        (LINEAR | {"leaf_features": "2"}, "leaf_features has entries outside"),
        (LINEAR | {"leaf_coeff": "nan"}, "leaf_coeff has entries that are not finite"),
        (LINEAR | {"leaf_const": None}, "has no leaf_const"),
        ({"num_leaves": "1", "leaf_value": "1"}, "split_feature has entries in a tree of one leaf"),
        ({f"extra{i}": "1" for i in range(13)}, "more than 22 lines"),
    ],
)
def test_malformed_trees_are_refused(tree, message):
    assert message in refused(model_text(tree))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"num_class": "0"}, "num_class has entries outside"),
        ({"num_class": "2147483647", "num_tree_per_iteration": "2147483647"}, "num_class has entries outside"),
        ({"num_class": None}, "has no num_class"),
        ({"num_class": "2", "num_tree_per_iteration": None, "objective": None}, "1 trees cannot be divided"),
        ({"num_class": "2", "num_tree_per_iteration": "2"}, "regression has one output"),
        ({"max_feature_idx": "2147483647"}, "feature_names has 2 entries"),
        ({"max_feature_idx": "-1"}, "max_feature_idx has entries outside"),
        ({"max_feature_idx": None}, "has no max_feature_idx"),
        ({"label_index": None}, "has no label_index"),
        ({"label_index": "x"}, "label_index holds something else"),
        ({"monotone_constraints": "1"}, "monotone_constraints has 1 entries instead of 2"),
        ({"feature_names": "f0  f1"}, "feature_names has 3 entries"),
        ({"objective": "binary sigmoid:0"}, "sigmoid must be a positive number"),
        ({"objective": "binary sigmoid:1e999"}, "sigmoid must be a positive number"),
        ({"objective": "binary sigmoid:nan"}, "does not go with the option"),
        ({"objective": "poisson sqrt"}, "does not go with the option"),
        ({"objective": "multiclass num_class:3"}, "num_class:3, but num_class is 1"),
        ({"objective": "multiclass"}, "num_class:None, but num_class is 1"),
        ({"objective": ""}, "objective='' is unknown"),
        ({"tree_sizes": "1 1"}, "tree_sizes has 2 entries instead of 1"),
        ({"version": "v4\nversion=v4"}, "version occurs twice"),
        ({"version": f"v4\n{'k' * 999}=1\n{'k' * 999}=1"}, f": {'k' * 60} occurs twice"),
        ({"version": "v4\nnonsense"}, "expected key=value"),
    ],
)
def test_malformed_headers_are_refused(header, message):
    assert message in refused(model_text({}, header=header))


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("\nparameters:\n[a: 1]\n", "ends inside the parameters"),
        ("\nparameters:\n[a: 1]\n[a: 2]\nend of parameters\n", "'a' occurs twice"),
        ("\nparameters:\na: 1\nend of parameters\n", "expected [name: value]"),
        ("\nparameters:\n[a]\nend of parameters\n", "expected [name: value]"),
        ("\nparameters:\nend of parameters\n\nparameters:\nend of parameters\n", "parameters: occurs twice"),
        ("\nparser:\n", "ends before 'end of parser'"),
        ("\npandas_categorical:[[1, 2]", "is no JSON"),
        ("\npandas_categorical:" + "[" * 100_000, "is no JSON"),
        ("\npandas_categorical:" + "1" * 10_000, "is no JSON"),
        ("\npandas_categorical:{}", "no list of lists"),
        ("\npandas_categorical:[1]", "no list of lists"),
        ("\npandas_categorical:[[[1]]]", "neither texts nor numbers"),
        ("\npandas_categorical:[[1" + "0" * 400 + "]]", "no 64-bit ones"),
        ("\npandas_categorical:null\npandas_categorical:null", "pandas_categorical: occurs twice"),
        ("\npandas_categorical:null\ntrailing", "unknown section"),
        ("Tree=1", "unknown section"),
    ],
    ids=lambda text: ascii(text[:40]),
)
def test_malformed_ends_are_refused(tail, message):
    assert message in refused(model_text({}, tail=tail))


@pytest.mark.parametrize("text", ["", "\n", "trees\n", "tree", "\0", "tree\n" * 3])
def test_texts_that_are_no_models_are_refused(text):
    refused(text)


def test_trees_have_their_numbers():
    text = model_text({}, {})
    assert "expected 'Tree=1'" in refused(text.replace("Tree=1", "Tree=2"))
    assert "num_leaves occurs twice" in refused(text.replace("Tree=1\n", ""))


def test_bytes_that_are_no_utf8_are_refused(tmp_path):
    text = model_text({}).encode()
    path = tmp_path / "model.txt"
    path.write_bytes(text.replace(b"f0 f1", b"f0 \xff"))
    with pytest.raises(ValueError, match="Line 8: the text is not in UTF-8"):
        load(path)
    assert "Line 8" in refused(text.decode().replace("f0 f1", "f0 \ud800"))
    with pytest.raises(TypeError, match="got int"):
        loads(1)


def test_every_truncation_is_refused():
    text, _ = oracle("lgb470/poisson")
    end = text.index("end of trees") + len("end of trees")
    rng = np.random.default_rng(0)
    for cut in [*rng.integers(0, end, 100), end - 1]:
        refused(text[:cut])
    for cut in rng.integers(text.index("parameters:"), text.index("end of parameters"), 20):
        refused(text[:cut])


def test_a_chain_of_nodes_is_read_in_linear_time():
    n = 20_000
    tree = {
        "num_leaves": str(n + 1), "split_feature": " ".join(["0"] * n), "split_gain": None, "decision_type": None,
        "threshold": " ".join(map(str, range(n, 0, -1))), "left_child": " ".join([*map(str, range(1, n)), "-1"]),
        "right_child": " ".join(map(str, range(-2, -n - 2, -1))), "leaf_value": " ".join(map(str, range(n + 1))),
    }  # fmt: skip
    start = time.process_time()
    model = loads(model_text(tree))
    np.testing.assert_array_equal(model.predict([[0.0, 0], [n - 0.5, 0], [n + 0.5, 0]]), [0, 2, 1])
    assert time.process_time() - start < 5
    ring = dict(tree, left_child=" ".join([*map(str, range(1, n)), "1"]))
    assert "is no tree" in refused(model_text(ring))
