"""What a forest means, row by row and node by node, written from the definition, and random forests to try it on."""

from types import SimpleNamespace

import numpy as np

NODE_TYPES = {
    "feature": np.int32,
    "threshold": np.uint8,
    "missing_right": np.uint8,
    "cat_set": np.int32,
    "gain": np.float64,
    "left": np.int32,
    "right": np.int32,
    "table": np.int32,
}


def encode(x, mapper):
    """Return codes (n_features, n_rows) of a table of numbers."""
    codes = np.zeros(x.shape[::-1], dtype=np.uint8)
    for feature in range(x.shape[1]):
        if mapper.is_categorical[feature]:
            inside = slice(mapper.level_offset[feature], mapper.level_offset[feature + 1])
            known = dict(zip(mapper.level_values[inside], mapper.level_codes[inside], strict=True))
            codes[feature] = [known.get(float(value), 0) for value in x[:, feature]]
        else:
            below = [np.sum(mapper.cuts[feature] < float(value)) for value in x[:, feature]]
            codes[feature] = np.where(np.isnan(x[:, feature]), 0, np.array(below, dtype=np.int64) + 1)
    return codes


def goes_left(tree, node, code):
    """Return whether a code goes left at a node or level of a tree dict."""
    if tree["cat_set"][node] >= 0:
        members = tree["cat_sets"][tree["cat_set"][node]]
        return bool(members[code >> 3] >> (code & 7) & 1)
    d = int(tree["missing_right"][node])
    return (int(code) - d) % 256 <= (int(tree["threshold"][node]) - d) % 256


def leaf_of(tree, row):
    """Return the leaf index of one row of codes in one tree dict."""
    if "table" in tree:
        index = 0
        for level, feature in enumerate(tree["feature"]):
            index += (not goes_left(tree, level, row[feature])) << level
        return tree["table"][index]
    node = 0 if len(tree["feature"]) else ~0
    while node >= 0:
        node = tree["left" if goes_left(tree, node, row[tree["feature"][node]]) else "right"][node]
    return ~node


def leaves(trees, codes):
    """Return leaf indices (n_rows, n_trees) of codes (n_features, n_rows)."""
    found = [[leaf_of(tree, row) for tree in trees] for row in codes.T]
    return np.array(found, dtype=np.int32).reshape(codes.shape[1], len(trees))


def states(trees, codes, mul, add=None, start=None):
    """Return the state of the recurrence (n_trees + 1, n_rows, K) after 0, 1, ... trees."""
    n_outputs = trees[0]["leaf_value"].shape[1]
    state = np.zeros((codes.shape[1], n_outputs)) if start is None else start.copy()
    found, where = [state.copy()], leaves(trees, codes)
    for t, tree in enumerate(trees):
        state = state * mul[t] + (1.0 if add is None else add[t]) * tree["leaf_value"][where[:, t]]
        found.append(state.copy())
    return np.array(found)


def random_mapper(rng, n_features, categorical=0.3):
    """Return feature tables as a BinMapper has them, a share of them for categories."""
    is_categorical = (rng.random(n_features) < categorical).astype(np.uint8)
    cuts = np.full((n_features, 256), np.inf)
    n_bins = np.empty(n_features, dtype=np.int32)
    levels, level_codes, offset = [], [], [0]
    for feature in range(n_features):
        if is_categorical[feature]:
            values = np.unique(rng.integers(-300, 300, rng.integers(0, 200))).astype(np.float64)
            levels.append(values)
            level_codes.append(rng.integers(0, 256, len(values)).astype(np.uint8))
            n_bins[feature] = max([1, *(level_codes[-1].astype(int) + 1)])
        else:
            values = np.unique(rng.normal(size=rng.integers(0, 255)).round(2).astype(np.float32))
            cuts[feature, : len(values)] = values
            n_bins[feature] = len(values) + 2
        offset.append(offset[-1] + (len(values) if is_categorical[feature] else 0))
    return SimpleNamespace(
        cuts=cuts,
        n_bins=n_bins,
        is_categorical=is_categorical,
        level_offset=np.array(offset, dtype=np.int64),
        level_values=np.concatenate([np.empty(0), *levels]),
        level_codes=np.concatenate([np.empty(0, np.uint8), *level_codes]),
    )


def random_rows(rng, n_rows, mapper, dtype=np.float64):
    """Return rows that meet cuts exactly, known and unknown categories, infinities and missing values."""
    n_features = len(mapper.n_bins)
    x = rng.normal(size=(n_rows, n_features)).round(2).astype(np.float32).astype(dtype)
    for feature in np.flatnonzero(mapper.is_categorical):
        x[:, feature] = rng.integers(-300, 300, n_rows)
    kind = rng.random(x.shape)
    x[kind < 0.1] = np.nan
    x[(kind > 0.1) & (kind < 0.12)] = np.inf
    x[(kind > 0.12) & (kind < 0.14)] = -np.inf
    return x


def random_splits(rng, n_splits, n_features, categorical=0.3):
    """Return the arrays over nodes or levels that both kinds of tree share, and the sets."""
    cat_set = np.where(rng.random(n_splits) < categorical, 0, -1)
    n_sets = int(np.sum(cat_set == 0))
    cat_set[cat_set == 0] = rng.permutation(n_sets)
    missing_right = rng.integers(0, 2, n_splits)
    return {
        "feature": rng.integers(0, n_features, n_splits),
        "threshold": rng.integers(0, 256, n_splits),
        "missing_right": missing_right,
        "cat_set": cat_set,
        "gain": rng.random(n_splits),
        "cat_sets": rng.integers(0, 256, (n_sets, 32)).astype(np.uint8),
    }


def random_tree(rng, kind, n_leaves, n_features, n_outputs=1, categorical=0.3, shape="bushy"):
    """Return a tree dict. A symmetric tree has depth ``n_leaves.bit_length() - 1`` and up to n_leaves leaves.

    Nodes and leaves of a general tree are numbered in random order; its shape is "bushy", "deep", "left" or "right".
    """
    if kind == "symmetric":
        depth = n_leaves.bit_length() - 1
        tree = random_splits(rng, depth, n_features, categorical)
        n_leaves = int(rng.integers(1, 2**depth + 1))
        tree["table"] = rng.integers(0, n_leaves, 2**depth)
    else:
        tree = random_splits(rng, n_leaves - 1, n_features, categorical)
        tree["left"], tree["right"] = random_shape(rng, n_leaves, shape)
    tree["leaf_value"] = rng.normal(size=(n_leaves, n_outputs))
    tree["leaf_weight"] = rng.integers(0, 5, n_leaves).astype(np.float64)
    types = {name: NODE_TYPES.get(name, array.dtype) for name, array in tree.items()}
    return {name: array.astype(types[name]) for name, array in tree.items()}


def random_shape(rng, n_leaves, shape):
    """Return children of a random binary tree: node 0 is the root, all other numbers are shuffled."""
    n_nodes = n_leaves - 1
    children = np.zeros((2, n_nodes), dtype=np.int64)
    numbers = [0, *(rng.permutation(n_nodes - 1) + 1)] if n_nodes else []
    open_ends = []
    for node in numbers:
        if open_ends:
            n_open = len(open_ends)
            place = {"left": n_open - 2, "right": n_open - 1, "bushy": 0, "deep": max(0, n_open - 3)}[shape]
            place = rng.integers(place, n_open) if shape in ("bushy", "deep") else place
            children[open_ends.pop(place)] = node
        open_ends += [(0, node), (1, node)]
    for end, leaf in zip(open_ends, rng.permutation(n_leaves), strict=False):
        children[end] = ~leaf
    return children
