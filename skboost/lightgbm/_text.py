"""The text of a model."""

import json
import re
from dataclasses import dataclass

import numpy as np

from skboost.lightgbm._chain import NUMBERS
from skboost.lightgbm._description import PARAMETER, description_of
from skboost.lightgbm._objectives import objective_of
from skboost.lightgbm._trees import CATEGORICAL, WORD_BITS

# LightGBM counts rows in whole numbers of 32 bits.
LARGEST_COUNT = 2**30
# What LightGBM splits names at, or refuses in them.
_NO_NAME = re.compile(r'[\s\x00-\x1f\x7f\[\]{}":,\ud800-\udfff]')


@dataclass(frozen=True)
class NodeTest:
    """The test of a node in LightGBM's terms.

    Attributes
    ----------
    threshold : float
        Of a numeric test.
    decision : int
    categories : ndarray or None
        Ascending categories that go left, of a categorical test.
    """

    threshold: float
    decision: int
    categories: np.ndarray | None


@dataclass(frozen=True)
class Shape:
    """The nodes of a tree, in lists over its nodes; node 0 is the root, a child below 0 is the leaf ``~child``."""

    feature: list
    left: list
    right: list
    tests: list
    gain: list


@dataclass(frozen=True)
class Trees:
    """Trees of one shape, one for each output.

    Attributes
    ----------
    shape : Shape
    values : float64 array of shape (n_leaves, n_outputs)
    weights : float64 array of shape (n_leaves,)
        Training weight in each leaf.
    """

    shape: Shape
    values: np.ndarray
    weights: np.ndarray


def constant(values, weight):
    """Return Trees of one leaf."""
    return Trees(Shape([], [], [], [], []), np.reshape(values, (1, -1)), np.array([float(weight)]))


def model_text(chain, cuts, rounds):
    """Return the whole text.

    Parameters
    ----------
    chain : Chain
        Description of the model.
    cuts : list of ndarray
        Ascending cuts of each column, none for categorical ones.
    rounds : list of Trees
        In the order in which LightGBM adds them.

    Returns
    -------
    str
    """
    trees = [(trees, output) for trees in rounds for output in range(chain.loss.n_outputs)]
    blocks = [_block(index, *entry) for index, entry in enumerate(trees)]
    names = _names(chain)
    categories = json.dumps(chain.pandas_categorical(), separators=(", ", ": "))
    return "\n".join(
        [
            *_header(chain, cuts, names, blocks),
            "",
            "".join(blocks) + "end of trees",
            "",
            "feature_importances:",
            *_importances(rounds, names),
            "",
            "parameters:",
            f"[{PARAMETER}: {description_of(chain)}]",
            "",
            "end of parameters",
            "",
            f"pandas_categorical:{categories}",
            "",
        ]
    )


# ---- header


def _header(chain, cuts, names, blocks):
    loss, objective = chain.loss, objective_of(chain.loss)
    return [
        "tree",
        "version=v4",
        f"num_class={loss.n_outputs}",
        f"num_tree_per_iteration={loss.n_outputs}",
        "label_index=0",
        f"max_feature_idx={len(cuts) - 1}",
        *([] if objective is None else [f"objective={objective}"]),
        f"feature_names={' '.join(names)}",
        f"feature_infos={' '.join(_feature_info(chain, *column) for column in enumerate(cuts))}",
        f"tree_sizes={' '.join(str(len(block)) for block in blocks)}",
    ]


def _names(chain):
    """Return distinct column names without what LightGBM cannot have in a name."""
    if chain.feature_names is None:
        return [f"Column_{feature}" for feature in range(len(chain.category_maps))]
    names, used = [], set()
    for feature, name in enumerate(chain.feature_names):
        clean = _NO_NAME.sub("_", str(name)) or f"Column_{feature}"
        while clean in used:
            clean = f"{clean}_{feature}"
        used.add(clean)
        names.append(clean)
    return names


def _feature_info(chain, feature, cuts):
    """Return what LightGBM wants to be told of a column; predictions do not use it."""
    if levels := chain.category_maps[feature]:
        codes = levels[0] if chain.coding == NUMBERS else range(len(levels[0]) + len(levels[1]))
        return ":".join(["-1", *(str(int(code)) for code in codes)])
    return f"[{float(cuts[0])!r}:{float(cuts[-1])!r}]" if len(cuts) else "none"


def _importances(rounds, names):
    features = [feature for trees in rounds for feature in trees.shape.feature * trees.values.shape[1]]
    counts = np.bincount(np.array(features, dtype=np.int64), minlength=len(names))
    return [f"{names[feature]}={counts[feature]}" for feature in np.argsort(-counts, kind="stable") if counts[feature]]


# ---- trees


def _block(index, trees, output):
    shape, values, weights = trees.shape, trees.values[:, output], trees.weights
    counts = _counts(weights)
    inner = _sums(shape, np.column_stack([weights, counts, counts * values]))
    sets = [test.categories for test in shape.tests if test.categories is not None]
    lines = [
        f"Tree={index}",
        f"num_leaves={len(values)}",
        f"num_cat={len(sets)}",
        f"split_feature={_join(shape.feature)}",
        f"split_gain={' '.join(f'{gain:g}' for gain in shape.gain)}",
        f"threshold={_join(_thresholds(shape.tests))}",
        f"decision_type={_join(test.decision for test in shape.tests)}",
        f"left_child={_join(shape.left)}",
        f"right_child={_join(shape.right)}",
        f"leaf_value={_join(values.tolist())}",
        f"leaf_weight={_join(weights.tolist())}",
        f"leaf_count={_join(counts.astype(np.int64).tolist())}",
        f"internal_value={' '.join(f'{value:g}' for value in inner[:, 2] / inner[:, 1])}",
        f"internal_weight={' '.join(f'{weight:g}' for weight in inner[:, 0])}",
        f"internal_count={_join(inner[:, 1].astype(np.int64).tolist())}",
        *_set_lines(sets),
        "is_linear=0",
        "shrinkage=1",
        "",
        "",
        "",
    ]
    return "\n".join(lines)


def _join(values):
    return " ".join(map(repr, values))


def _thresholds(tests):
    """Return thresholds, whole numbers that count the sets at categorical nodes."""
    n_sets = 0
    for test in tests:
        if test.decision & CATEGORICAL:
            yield n_sets
            n_sets += 1
        else:
            yield test.threshold


def _set_lines(sets):
    if not sets:
        return []
    words = []
    for categories in sets:
        bits = np.zeros(categories.max(initial=0) // WORD_BITS + 1, dtype=np.int64)
        np.bitwise_or.at(bits, categories // WORD_BITS, 1 << categories % WORD_BITS)
        words.append(bits.tolist())
    boundaries = np.cumsum([0, *map(len, words)]).tolist()
    return [f"cat_boundaries={_join(boundaries)}", f"cat_threshold={_join(word for part in words for word in part)}"]


def _counts(weights):
    """Return whole numbers in the proportions of the weights; at least 1, since TreeSHAP divides by them."""
    total = weights.sum()
    if total > LARGEST_COUNT or (weights != np.rint(weights)).any():
        weights = weights * (LARGEST_COUNT / total)
    return np.maximum(np.rint(weights), 1)


def _sums(shape, leaves):
    """Return the sums of the rows of an array over the leaves below every node."""
    sums = np.zeros((len(shape.feature), leaves.shape[1]))
    order, stack = [], [0] if shape.feature else []
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(child for child in (shape.left[node], shape.right[node]) if child >= 0)
    for node in reversed(order):
        for child in (shape.left[node], shape.right[node]):
            sums[node] += sums[child] if child >= 0 else leaves[~child]
    return sums
