"""What a forest consists of, the proof that its arrays stay inside themselves, and what the kernels read of them.

Kernels follow the indices of a layout without looking, so that a layout is made of checked arrays only.
"""

import numpy as np

from skboost import _storage
from skboost._engine import layout

FORMAT_VERSION = 1
MAX_DEPTH = 16
_BYTE_LEVELS = 8

_NODE_DTYPES = {
    "feature": np.int32,
    "threshold": np.uint8,
    "missing_right": np.uint8,
    "cat_set": np.int32,
    "gain": np.float64,
}
_OWN_DTYPES = {
    "general": {"left": np.int32, "right": np.int32},
    "symmetric": {"table": np.int32},
}
_LEAF_DTYPES = {"leaf_value": np.float64, "leaf_weight": np.float64, "cat_sets": np.uint8}
TREE_DTYPES = {kind: {**_NODE_DTYPES, **own, **_LEAF_DTYPES} for kind, own in _OWN_DTYPES.items()}
OFFSETS = {
    "general": ("node_offset", "leaf_offset"),
    "symmetric": ("node_offset", "leaf_offset", "table_offset"),
}
FOREST_DTYPES = {
    kind: {**dict.fromkeys(OFFSETS[kind], np.int64), **dtypes, "base_score": np.float64, "shrink_factors": np.float64}
    for kind, dtypes in TREE_DTYPES.items()
}


def _require(condition, message):
    if not condition:
        raise ValueError(f"Malformed forest: {message}.")


def frozen(array, dtype):
    """Return a read-only contiguous view of the array, or a copy when its type differs."""
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def exact_copy(name, array, dtype):
    """Return a copy of the wanted type, refusing types that would change a value."""
    array = np.asarray(array)
    if array.size and not np.can_cast(array.dtype, dtype, casting="safe"):
        _require(np.issubdtype(array.dtype, np.integer), f"{name} has the type {array.dtype}")
        limits = np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else None
        fits = limits is not None and array.min() >= limits.min and array.max() <= limits.max
        _require(fits, f"{name} does not fit its type")
    return np.array(array, dtype=dtype, order="C")


def offset_of(name):
    """Return the name of the offsets that divide an array over trees."""
    if name in ("leaf_value", "leaf_weight"):
        return "leaf_offset"
    return "table_offset" if name == "table" else "node_offset"


def check_kind(kind):
    """Raise ValueError for a kind of trees that does not exist."""
    if not isinstance(kind, str) or kind not in TREE_DTYPES:
        raise ValueError(f"kind must be one of {sorted(TREE_DTYPES)}, got {kind!r}.")


def read_state(state):
    """Return kind, n_outputs and the arrays, not looked at yet, of what :func:`make_state` returned."""
    _storage.check_format(state, FORMAT_VERSION, "forest")
    kind, n_outputs, arrays = state.get("kind"), state.get("n_outputs"), state.get("arrays")
    check_kind(kind)
    if not isinstance(n_outputs, int) or n_outputs < 1:
        raise ValueError(f"n_outputs must be a positive integer, got {n_outputs!r}.")
    missing = sorted(set(FOREST_DTYPES[kind]) - set(arrays if isinstance(arrays, dict) else ()))
    if missing:
        raise ValueError(f"Arrays are missing: {', '.join(missing)}.")
    return kind, n_outputs, arrays


def make_state(forest):
    """Return what is stored of a forest: a format version, numbers and text, and the arrays that define it."""
    arrays = {name: getattr(forest, name) for name in FOREST_DTYPES[forest.kind]}
    return {"format": FORMAT_VERSION, "kind": forest.kind, "n_outputs": forest.n_outputs, "arrays": arrays}


def check_forest(forest):
    """Raise ValueError unless every array has its shape and every index stays inside its tree.

    That general trees have no cycle is proved when the layout is made.
    """
    _check_shapes(forest)
    n_leaves = np.diff(forest.leaf_offset)
    _require(n_leaves.min(initial=1) >= 1, "every tree needs a leaf")
    _require(forest.feature.min(initial=0) >= 0, "feature is negative")
    _require(forest.missing_right.max(initial=0) <= 1, "missing_right is neither 0 nor 1")
    in_sets = forest.cat_set.min(initial=-1) >= -1 and forest.cat_set.max(initial=-1) < len(forest.cat_sets)
    _require(in_sets, "cat_set leads out of cat_sets")
    n_nodes = np.diff(forest.node_offset)
    if forest.kind == "general":
        _require(np.array_equal(n_leaves, n_nodes + 1), "a general tree has one leaf more than nodes")
        return
    _require(n_nodes.max(initial=0) <= MAX_DEPTH, f"a symmetric tree has more than {MAX_DEPTH} levels")
    n_entries = np.diff(forest.table_offset)
    _require(np.array_equal(n_entries, 1 << n_nodes), "a table needs 2 ** depth entries")
    in_tree = (forest.table >= 0) & (forest.table < np.repeat(n_leaves, n_entries))
    _require(in_tree.all(), "table leads out of the leaves of its tree")


def _check_shapes(forest):
    n_trees = forest.n_trees
    _require(forest.n_outputs >= 1, "n_outputs is not positive")
    for name in OFFSETS[forest.kind]:
        offset = getattr(forest, name)
        # The message is made on failure only: a forest is also made for each new tree while a model is validated.
        if offset.shape != (n_trees + 1,) or offset[0] != 0 or (offset[1:] < offset[:-1]).any():
            raise ValueError(f"Malformed forest: {name} does not ascend from 0 over {n_trees} trees.")
    for name in TREE_DTYPES[forest.kind]:
        array = getattr(forest, name)
        length = len(array) if name == "cat_sets" else int(getattr(forest, offset_of(name))[-1])
        expected = {"leaf_value": (length, forest.n_outputs), "cat_sets": (length, 32)}.get(name, (length,))
        if array.shape != expected:
            raise ValueError(f"Malformed forest: {name} has the shape {array.shape} instead of {expected}.")
    _require(forest.shrink_factors.ndim == 1, "shrink_factors has more than one dimension")
    _require(forest.base_score.shape == (forest.n_outputs,), "base_score has the wrong length")


def _columns_and_tests(forest):
    """Return each node's position among the used features and its test as the kernels read it."""
    column = np.searchsorted(forest.used_features, forest.feature).astype(np.int32)
    # uint8 arithmetic wraps as the kernel's does.
    numeric = (forest.threshold - forest.missing_right).astype(np.int32) | forest.missing_right.astype(np.int32) << 8
    return column, np.where(forest.cat_set >= 0, ~forest.cat_set, numeric)


def _common_layout(forest, n_values, value_rows):
    """Return what both kinds share; value_rows are rows of leaf_value, tree after tree."""
    value_offset = np.concatenate([[0], np.cumsum(n_values)])
    values = forest.leaf_value[value_rows]
    if forest.n_outputs > 1:
        # Output by output inside each tree: the kernel adds one output of all rows after the other.
        tree = np.repeat(np.arange(forest.n_trees), n_values)
        inside = np.arange(len(value_rows)) - value_offset[tree]
        start = value_offset[tree] * forest.n_outputs + inside
        planes = np.empty(values.size)
        for k in range(forest.n_outputs):
            planes[start + k * n_values[tree]] = values[:, k]
        values = planes
    return {
        "symmetric": forest.kind == "symmetric",
        "n_outputs": forest.n_outputs,
        "n_slots": 0,
        "features": forest.used_features,
        "node_offset": forest.node_offset,
        "value_offset": frozen(value_offset, np.int64),
        "values": frozen(values.ravel(), np.float64),
        "sets": frozen(forest.cat_sets.ravel(), np.uint8),
        **_empty_leaves(forest, value_rows, value_offset),
    }


def _empty_leaves(forest, value_rows, value_offset):
    """Return which values belong to leaves without training rows, and which trees have some; None where none has."""
    is_empty = forest.leaf_weight == 0
    if not is_empty.any():
        return {"empty": None, "has_empty": None}
    empty = is_empty[value_rows].astype(np.float64)
    n_empty = np.diff(np.concatenate([[0.0], np.cumsum(empty)])[value_offset])
    return {"empty": frozen(empty, np.float64), "has_empty": frozen(n_empty > 0, np.uint8)}


def make_layout(forest):
    """Return the dict of arrays that the doors of ``skboost._engine.predict`` take."""
    return _symmetric_layout(forest) if forest.kind == "symmetric" else _general_layout(forest)


def _general_layout(forest):
    n_nodes, n_leaves = len(forest.feature), len(forest.leaf_weight)
    column, test = _columns_and_tests(forest)
    walk, masks = np.empty((n_nodes, 4), np.int32), np.empty((n_nodes, 4), np.int32)
    leaf_index = np.empty(n_leaves, dtype=np.int32)
    n_slots = layout.lay_out_trees(
        forest.node_offset, forest.leaf_offset, (column, test, forest.left, forest.right), walk, masks, leaf_index
    )
    per_tree = np.diff(forest.leaf_offset)
    arrays = _common_layout(forest, per_tree, np.repeat(forest.leaf_offset[:-1], per_tree) + leaf_index)
    arrays.update(
        n_slots=n_slots,
        walk=frozen(walk.ravel(), np.int32),
        masks=frozen(masks.ravel(), np.int32),
        leaf_index=frozen(leaf_index, np.int32),
        leaf_offset=forest.leaf_offset,
    )
    return arrays


def _symmetric_layout(forest):
    """Tables of values up to 8 levels; behind them the kernel goes through the table of leaves."""
    column, test = _columns_and_tests(forest)
    n_leaves, n_entries = np.diff(forest.leaf_offset), np.diff(forest.table_offset)
    shallow = np.diff(forest.node_offset) <= _BYTE_LEVELS
    n_values = np.where(shallow, n_entries, n_leaves)
    rows = np.empty(n_values.sum(), dtype=np.int64)
    by_entry = np.repeat(shallow, n_values)
    of_leaf = np.repeat(forest.leaf_offset[:-1], n_entries) + forest.table
    rows[by_entry] = of_leaf[np.repeat(shallow, n_entries)]
    rows[~by_entry] = np.flatnonzero(np.repeat(~shallow, n_leaves))
    arrays = _common_layout(forest, n_values, rows)
    arrays.update(
        levels=frozen(np.column_stack([column, test]).ravel(), np.int32),
        leaf_index=forest.table,
        leaf_offset=forest.table_offset,
    )
    return arrays
