"""The doors for writing, and the text of a model."""

import json
import re
from pathlib import Path

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost.lightgbm._chain import NUMBERS, PARAMETER, POSITIONS, Chain, objective_of
from skboost.lightgbm._forest_trees import Shape, Translator
from skboost.lightgbm._trees import CATEGORICAL, WORD_BITS
from skboost.sglb import SGLBClassifier, SGLBRegressor

# Larger category numbers would make long sets; the positions of the levels stand for them.
LARGEST_CATEGORY = 2**16 - 1
# LightGBM counts rows in whole numbers of 32 bits.
LARGEST_COUNT = 2**30
# What LightGBM splits names at, or refuses in them.
_NO_NAME = re.compile(r'[\s\x00-\x1f\x7f\[\]{}":,\ud800-\udfff]')


def dump(estimator, path):
    """Write a fitted model to a text file that LightGBM reads.

    LightGBM adds the same numbers in the same order, so that its raw scores are those of the model to the bit where the
    model does not shrink from iteration to iteration or has ``averaging="mean"``. Shrinkage of a chain whose last state
    is used is folded into the leaves; raw scores then agree up to rounding. What the file says beyond LightGBM's needs
    lets :func:`load` return the predictions and the virtual ensemble of the model to the bit.

    Parameters
    ----------
    estimator : SGLBRegressor or SGLBClassifier
        Fitted model. The predictions written are those of its `averaging`.
    path : str or path-like
        File to write.

    Raises
    ------
    TypeError
        If the estimator is of another class.
    ValueError
        If LightGBM has no test for one of the splits.

    See Also
    --------
    dumps : Returns the text.
    load : Reads the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from skboost import SGLBRegressor
    >>> from skboost.lightgbm import dump
    >>> X = [[float(i)] for i in range(40)]
    >>> model = SGLBRegressor(n_estimators=20, random_state=0).fit(X, range(40))
    >>> path = os.path.join(tempfile.mkdtemp(), "model.txt")
    >>> dump(model, path)
    >>> with open(path) as file:
    ...     print(file.readline().strip())
    tree
    """
    Path(path).write_bytes(dumps(estimator).encode())


def dumps(estimator):
    """Return a fitted model as a text that LightGBM reads.

    Parameters
    ----------
    estimator : SGLBRegressor or SGLBClassifier
        Fitted model. The predictions written are those of its `averaging`.

    Returns
    -------
    str
        What :func:`dump` writes, for ``lightgbm.Booster(model_str=...)``.

    Raises
    ------
    TypeError
        If the estimator is of another class.
    ValueError
        If LightGBM has no test for one of the splits.

    See Also
    --------
    dump : Writes a file and says what the text holds.

    Examples
    --------
    >>> from skboost import SGLBClassifier
    >>> from skboost.lightgbm import dumps
    >>> X = [[float(i)] for i in range(40)]
    >>> model = SGLBClassifier(n_estimators=20, random_state=0).fit(X, ["low"] * 20 + ["high"] * 20)
    >>> [line for line in dumps(model).split("\\n") if line.startswith("objective")]
    ['objective=binary sigmoid:1']
    """
    if not isinstance(estimator, (SGLBRegressor, SGLBClassifier)):
        raise TypeError(f"Only SGLBRegressor and SGLBClassifier can be written, got {type(estimator).__name__}.")
    check_is_fitted(estimator)
    chain, shapes = make_chain(estimator)
    blocks = list(_tree_blocks(estimator._forest, chain, shapes))
    categories = json.dumps(chain.pandas_categorical(), separators=(", ", ": "))
    return "\n".join(
        [
            *_header(estimator, chain, blocks),
            "",
            "".join(blocks) + "end of trees",
            "",
            "feature_importances:",
            *_importances(estimator._forest, _names(chain)),
            "",
            "parameters:",
            f"[{PARAMETER}: {chain.to_json()}]",
            "",
            "end of parameters",
            "",
            f"pandas_categorical:{categories}",
            "",
        ]
    )


def make_chain(estimator):
    """Return the Chain of a fitted estimator and the Shape of each of its trees."""
    forest = estimator._forest
    averaging = estimator._check_averaging()
    coefficients = estimator._mean_add if averaging == "mean" else forest.mean_coefficients([forest.n_trees])
    maps, names = estimator._category_maps, getattr(estimator, "feature_names_in_", None)
    coding = NUMBERS if names is None and all(map(_codes_itself, maps)) else POSITIONS
    translator = Translator(forest, estimator._mapper, maps, coding)
    shapes = [translator.shape(tree) for tree in range(forest.n_trees)]
    leaf_values = []
    for tree, (shape, coefficient) in enumerate(zip(shapes, coefficients, strict=True)):
        values = _leaf_rows(forest.leaf_value, forest, tree, shape).T
        leaf_values += [None] * len(values) if coefficient == 1 else list(values)
    cycle = estimator._record.cycle
    chain = Chain(
        loss=estimator._loss,
        classes=getattr(estimator, "classes_", None),
        feature_names=names,
        category_maps=maps,
        coding=coding,
        shrink_factors=forest.shrink_factors,
        coefficients=coefficients,
        averaging=averaging,
        cycle_length=None if cycle is None else cycle.length,
        leaf_values=leaf_values,
    )
    return chain, shapes


def _leaf_rows(array, forest, tree, shape):
    """Return the rows of an array over leaves that belong to a tree, in the order of its shape."""
    return array[slice(*forest.leaf_offset[tree : tree + 2])][shape.leaves]


def _codes_itself(levels):
    """Return whether LightGBM can take the numbers of the levels for categories."""
    if levels is None:
        return True
    known, texts = levels
    return not texts and bool(((known >= 0) & (known <= LARGEST_CATEGORY) & (known == np.floor(known))).all())


# ---- header


def _header(estimator, chain, blocks):
    loss, mapper = estimator._loss, estimator._mapper
    objective = objective_of(loss)
    return [
        "tree",
        "version=v4",
        f"num_class={loss.n_outputs}",
        f"num_tree_per_iteration={loss.n_outputs}",
        "label_index=0",
        f"max_feature_idx={mapper.n_features - 1}",
        *([] if objective is None else [f"objective={objective}"]),
        f"feature_names={' '.join(_names(chain))}",
        f"feature_infos={' '.join(_feature_info(chain, mapper, feature) for feature in range(mapper.n_features))}",
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


def _feature_info(chain, mapper, feature):
    """Return what LightGBM wants to be told of a column; predictions do not use it."""
    if levels := chain.category_maps[feature]:
        codes = levels[0] if chain.coding == NUMBERS else range(len(levels[0]) + len(levels[1]))
        return ":".join(["-1", *(str(int(code)) for code in codes)])
    cuts = mapper.thresholds(feature)
    return f"[{float(cuts[0])!r}:{float(cuts[-1])!r}]" if len(cuts) else "none"


def _importances(forest, names):
    counts = np.bincount(forest.feature, minlength=len(names))
    return [f"{names[feature]}={counts[feature]}" for feature in np.argsort(-counts, kind="stable") if counts[feature]]


# ---- trees


def _tree_blocks(forest, chain, shapes):
    """Yield the texts of all trees: every iteration has one for each output, the last one holds the base scores."""
    index = 0
    for tree, shape in enumerate(shapes):
        values = chain.coefficients[tree] * _leaf_rows(forest.leaf_value, forest, tree, shape)
        weights = _leaf_rows(forest.leaf_weight, forest, tree, shape)
        for output in range(forest.n_outputs):
            yield _block(index, shape, values[:, output], weights)
            index += 1
    total = np.array([_leaf_rows(forest.leaf_weight, forest, 0, shapes[0]).sum() if shapes else 1.0])
    for base in forest.base_score:
        yield _block(index, Shape([], [], [], [], [], [0]), np.array([base]), total)
        index += 1


def _block(index, shape, values, weights):
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
