"""From the text of a model to checked trees.

The grammar is that of the text files of LightGBM 3.3.5 and 4.x. What LightGBM itself reads without looking, a file that
contradicts itself, is refused.
"""

import itertools
import json
from dataclasses import dataclass

import numpy as np

from skboost.lightgbm._lines import Fields, Lines, fault, shown
from skboost.lightgbm._objectives import Objective, parse_objective
from skboost.lightgbm._trees import CATEGORICAL, LinearLeaves, Tree, check_children

MOST_OUTPUTS = 2**16
# LightGBM reads no more lines of a tree than it writes, the line with the number of the tree included or not.
MOST_TREE_LINES = 22
LARGEST_WHOLE = 2**63
_MISSING_UNKNOWN = 12
# Header lines whose values may hold "=".
_FREE_VALUES = {"feature_names", "monotone_constraints"}
_CATEGORIES = "pandas_categorical:"


@dataclass(frozen=True)
class ModelText:
    """A parsed model.

    Attributes
    ----------
    n_outputs : int
        Trees of an iteration.
    objective : Objective
    average_output : bool
        Whether predictions follow from the mean over the iterations.
    feature_names : list of str
    trees : list of Tree
        Iteration after iteration, output after output.
    tree_lines : list of int
        Where each tree begins.
    parameters : dict
        Text of each parameter line and the line itself, by name.
    categories : list of list, or None
        Categories of the categorical columns of the frame the model was trained on.
    """

    n_outputs: int
    objective: Objective
    average_output: bool
    feature_names: list
    trees: list
    tree_lines: list
    parameters: dict
    categories: list | None


def parse(text):
    """Return the ModelText of a text.

    Parameters
    ----------
    text : str
        The whole file.

    Raises
    ------
    ValueError
        If the text is no such model, contradicts itself or is cut off; the message names the line.
    """
    lines = Lines(text)
    header = _read_header(lines)
    n_features = header.integer("max_feature_idx", 0) + 1
    names = _words(header, "feature_names", n_features)
    _words(header, "feature_infos", n_features)
    header.integer("label_index", -(2**31))
    if "monotone_constraints" in header:
        header.integers("monotone_constraints", n_features)
    n_outputs, objective = _read_outputs(header)
    trees, starts = [], []
    while (line := lines.peek()) is not None and line.startswith("Tree="):
        starts.append(lines.number)
        trees.append(_read_tree(lines, len(trees), n_features))
    _expect(lines, "end of trees")
    if len(trees) % n_outputs:
        raise fault(lines.number - 1, f"{len(trees)} trees cannot be divided by num_tree_per_iteration={n_outputs}.")
    _check_tree_sizes(header, lines, starts, lines.number - 1)
    parameters, categories = _read_tail(lines)
    return ModelText(n_outputs, objective, "average_output" in header, names, trees, starts, parameters, categories)


# ---- header


def _read_header(lines):
    if lines.peek() != "tree":
        raise fault(1, f"a model begins with the line 'tree', found {shown(lines.peek() or '')}.")
    lines.take()
    header = Fields("the header", 1)
    while (line := lines.peek()) is not None and not line.startswith("Tree=") and line != "end of trees":
        key, equals, value = line.partition("=")
        if "=" in value and key not in _FREE_VALUES:
            raise fault(lines.number, f"a header line may hold one '=' only: {shown(line)}.")
        if line and not equals and line != "average_output":
            raise fault(lines.number, f"expected key=value, found {shown(line)}.")
        if line:
            header.add(key, value, lines.number)
        lines.take()
    if line is None:
        raise fault(lines.number - 1, "the text ends inside the header.")
    return header


def _words(header, key, length):
    value, line = header.text(key)
    words = value.split(" ")
    if len(words) != length or not all(words):
        raise fault(line, f"{key} has {len(words)} entries, max_feature_idx asks for {length}.")
    return words


def _read_outputs(header):
    n_outputs = header.integer("num_class", 1, MOST_OUTPUTS)
    if "num_tree_per_iteration" in header and header.integer("num_tree_per_iteration", 1) != n_outputs:
        raise fault(header.line_of("num_tree_per_iteration"), f"num_tree_per_iteration is not num_class={n_outputs}.")
    text, line = header.text("objective") if "objective" in header else ("custom", header.line)
    try:
        return n_outputs, parse_objective(text, n_outputs)
    except ValueError as error:
        raise fault(line, str(error)) from None


def _check_tree_sizes(header, lines, starts, end):
    """Refuse sizes of trees that LightGBM would trust and that are wrong."""
    if "tree_sizes" not in header:
        return
    sizes = header.integers("tree_sizes", len(starts), 1)
    for index, (first, last) in enumerate(itertools.pairwise([*starts, end])):
        found = lines.n_bytes(first, last)
        if sizes[index] not in found:
            message = f"tree_sizes gives Tree={index} {sizes[index]} bytes, it has {found[0]}."
            raise fault(header.line_of("tree_sizes"), message)


def _expect(lines, wanted):
    line = lines.take()
    if line is None:
        raise fault(len(lines), f"the text ends where '{wanted}' should be.")
    if line != wanted:
        raise fault(lines.number - 1, f"expected '{wanted}', found {shown(line)}.")


# ---- trees


def _read_tree(lines, index, n_features):
    start = lines.number
    _expect(lines, f"Tree={index}")
    fields, n_lines = Fields(f"Tree={index}", start), 0
    while (line := lines.peek()) is not None and not line.startswith("Tree=") and line != "end of trees":
        if line:
            key, equals, value = line.partition("=")
            if not equals:
                raise fault(lines.number, f"expected key=value in Tree={index}, found {shown(line)}.")
            fields.add(key, value, lines.number)
            n_lines += 1
        lines.take()
        if n_lines > MOST_TREE_LINES:
            raise fault(
                lines.number - 1, f"Tree={index} has more than {MOST_TREE_LINES} lines; LightGBM drops the rest."
            )
    if line is None:
        raise fault(len(lines), f"the text ends inside Tree={index}.")
    return _make_tree(fields, n_features)


def _make_tree(fields, n_features):
    n_leaves, n_sets = fields.integer("num_leaves", 1), fields.integer("num_cat", 0)
    leaf_value = fields.floats("leaf_value", n_leaves)
    n_nodes = n_leaves - 1
    linear = _read_linear(fields, n_leaves, n_features)
    if "shrinkage" in fields:
        fields.floats("shrinkage", 1, finite=False)
    if not n_nodes:
        return _one_leaf(fields, n_sets, leaf_value, linear)
    feature = fields.integers("split_feature", n_nodes, 0, n_features - 1)
    threshold = fields.floats("threshold", n_nodes, finite=False)
    decision = np.zeros(n_nodes, dtype=np.int64)
    if "decision_type" in fields:
        decision = fields.integers("decision_type", n_nodes, 0, 15)
    is_set = decision & CATEGORICAL != 0
    if (decision[~is_set] >= _MISSING_UNKNOWN).any():
        raise fault(fields.line_of("decision_type"), "decision_type names a missing type that does not exist.")
    left, right = (fields.integers(key, n_nodes, -n_leaves, n_nodes - 1) for key in ("left_child", "right_child"))
    try:
        check_children(left, right)
    except ValueError as error:
        raise fault(fields.line_of("left_child"), f"{fields.where} is no tree: {error}") from None
    gain = fields.lenient_floats("split_gain", n_nodes)
    rows = [fields.lenient_floats(key, n_leaves) for key in ("leaf_weight", "leaf_count")]
    boundaries, words = _read_sets(fields, n_sets)
    _check_set_numbers(fields, threshold[is_set], n_sets)
    return Tree(feature, threshold, decision, left, right, gain, leaf_value, *rows, boundaries, words, linear)


def _one_leaf(fields, n_sets, leaf_value, linear):
    for key in ("split_feature", "threshold", "decision_type", "left_child", "right_child"):
        if key in fields and fields.text(key)[0].strip(" "):
            raise fault(fields.line_of(key), f"{key} has entries in a tree of one leaf.")
    if n_sets:
        raise fault(fields.line_of("num_cat"), "num_cat must be 0 in a tree of one leaf.")
    whole, real, none = np.empty(0, dtype=np.int64), np.empty(0), np.zeros(1)
    boundaries = np.zeros(1, dtype=np.int64)
    return Tree(whole, real, whole, whole, whole, real, leaf_value, none, none, boundaries, whole, linear)


def _read_sets(fields, n_sets):
    if not n_sets:
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
    line = fields.line_of("cat_boundaries")
    boundaries = fields.integers("cat_boundaries", n_sets + 1, 0)
    if boundaries[0] != 0 or (np.diff(boundaries) < 0).any():
        raise fault(line, "cat_boundaries does not ascend from 0.")
    return boundaries, fields.integers("cat_threshold", boundaries[-1], 0, 2**32 - 1)


def _check_set_numbers(fields, numbers, n_sets):
    fits = (numbers >= 0) & (numbers < n_sets) & (numbers == np.floor(numbers))
    if not fits.all():
        raise fault(fields.line_of("threshold"), f"threshold of a categorical node is no whole number below {n_sets}.")


def _read_linear(fields, n_leaves, n_features):
    if "is_linear" not in fields or not fields.integer("is_linear", 0, 1):
        return None
    constant = fields.floats("leaf_const", n_leaves)
    sizes = fields.integers("num_features", n_leaves, 0)
    offset = np.concatenate([[0], np.cumsum(sizes)])
    feature = fields.integers("leaf_features", offset[-1], 0, n_features - 1)
    return LinearLeaves(constant, offset, feature, fields.floats("leaf_coeff", offset[-1]))


# ---- what follows the trees


def _read_tail(lines):
    """Return the parameter lines and the categories."""
    parameters, categories, seen = {}, None, set()
    while (line := lines.take()) is not None:
        section = line.partition(":")[0] + ":"
        if not line:
            continue
        if section in seen:
            raise fault(lines.number - 1, f"{section} occurs twice.")
        seen.add(section)
        if line == "feature_importances:":
            while lines.peek():
                lines.take()
        elif line == "parameters:":
            parameters = _read_parameters(lines)
        elif line == "parser:":
            _skip_to(lines, "end of parser")
        elif line.startswith(_CATEGORIES):
            categories = _read_categories(line, lines.number - 1)
        else:
            raise fault(lines.number - 1, f"unknown section {shown(line)}.")
    return parameters, categories


def _read_parameters(lines):
    parameters = {}
    while (line := lines.take()) != "end of parameters":
        if line is None:
            raise fault(len(lines), "the text ends inside the parameters.")
        if not line:
            continue
        key, colon, value = line[1:-1].partition(": ")
        if not (line.startswith("[") and line.endswith("]") and colon):
            raise fault(lines.number - 1, f"expected [name: value], found {shown(line)}.")
        if key in parameters:
            raise fault(lines.number - 1, f"the parameter {shown(key)} occurs twice.")
        parameters[key] = value, lines.number - 1
    return parameters


def _skip_to(lines, end):
    while (line := lines.take()) != end:
        if line is None:
            raise fault(len(lines), f"the text ends before '{end}'.")


def _read_categories(line, number):
    try:
        found = json.loads(line[len(_CATEGORIES) :])
    except (ValueError, RecursionError):
        raise fault(number, "pandas_categorical is no JSON.") from None
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(levels, list) for levels in found):
        raise fault(number, "pandas_categorical is no list of lists.")
    if not all(isinstance(level, (str, int, float)) for levels in found for level in levels):
        raise fault(number, "pandas_categorical has categories that are neither texts nor numbers.")
    if any(isinstance(level, int) and abs(level) > LARGEST_WHOLE for levels in found for level in levels):
        raise fault(number, "pandas_categorical has whole numbers that are no 64-bit ones.")
    return found
