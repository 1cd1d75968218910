"""The trees of a fitted model as flat arrays, and everything that is computed by sending rows through them.

The state of a chain after k trees is defined by a recurrence in float64: ``F = 0``, then for each tree ``t < k``
``F = F * shrink_factors[t]`` and ``F = F + value_t(x)``; the margin is ``base_score + F``. The base score is never
shrunk. All margins here are that recurrence, so a member of a virtual ensemble equals the model that stopped there, bit
for bit.

A forest holds arrays and numbers only. What the kernels read (`layout`) is derived, checked and stored when the forest
is made; predicting changes nothing.
"""

import numpy as np

from skboost._engine import predict

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
_TREE_DTYPES = {kind: {**_NODE_DTYPES, **own, **_LEAF_DTYPES} for kind, own in _OWN_DTYPES.items()}
_OFFSETS = {
    "general": ("node_offset", "leaf_offset"),
    "symmetric": ("node_offset", "leaf_offset", "table_offset"),
}
_FOREST_DTYPES = {
    kind: {**dict.fromkeys(_OFFSETS[kind], np.int64), **dtypes, "base_score": np.float64, "shrink_factors": np.float64}
    for kind, dtypes in _TREE_DTYPES.items()
}
_BIN_ARRAYS = ("cuts", "n_bins", "is_categorical", "level_offset", "level_values", "level_codes")


class Forest:
    """Trees with vector leaves, one per boosting iteration.

    Parameters
    ----------
    kind : {"general", "symmetric"}
        General trees split each node on its own; all nodes of one level of a symmetric tree share a split.
    n_outputs : int
        Length of a leaf's value.
    arrays : dict of str to ndarray
        The array attributes below except `layout` and `used_features`; they are not copied when their types fit.

    Attributes
    ----------
    base_score : float64 array of shape (n_outputs,)
        Added last and never shrunk.
    shrink_factors : float64 array of shape (n_trees,)
        Factor on the sum of the earlier trees.
    node_offset : int64 array of shape (n_trees + 1,)
        Range of each tree in the arrays over internal nodes (general) or over levels (symmetric).
    feature, threshold, missing_right, cat_set, gain : arrays over nodes or levels
        A row goes left when ``uint8(code - missing_right) <= uint8(threshold - missing_right)``, or, when ``cat_set``
        is not -1, when its code is in that row of `cat_sets`.
    left, right : int32 arrays over nodes, general trees only
        A child >= 0 is a node of the same tree, a child < 0 is its leaf ``~child``. Node 0 is the root.
    table : int32 array, symmetric trees only
        For each tree ``2 ** depth`` leaf indices. Bit l of the index is set when the row goes right at level l.
    table_offset : int64 array of shape (n_trees + 1,), symmetric trees only
        Range of each tree in `table`.
    leaf_offset : int64 array of shape (n_trees + 1,)
        Range of each tree in the arrays over leaves.
    leaf_value : float64 array of shape (n_leaves, n_outputs)
        Step of a leaf, learning rate included, shrinkage not.
    leaf_weight : float64 array of shape (n_leaves,)
        Training weight in each leaf.
    cat_sets : uint8 array of shape (n_sets, 32)
        Sets of codes; bit ``b & 7`` of byte ``b >> 3`` is code b.
    used_features : int32 array
        Features that split anywhere, ascending.
    layout : dict
        What the kernels of ``skboost._engine.predict`` read.

    Raises
    ------
    ValueError
        If an array has the wrong shape or an index leads out of range or into a cycle.
    """

    def __init__(self, kind, n_outputs, arrays):
        if kind not in _TREE_DTYPES:
            raise ValueError(f"kind must be one of {sorted(_TREE_DTYPES)}, got {kind!r}.")
        self.kind = kind
        self.n_outputs = int(n_outputs)
        for name, dtype in _FOREST_DTYPES[kind].items():
            setattr(self, name, _frozen(arrays[name], dtype))
        self.validate()
        self.used_features = _frozen(np.unique(self.feature), np.int32)
        self.layout = _symmetric_layout(self) if kind == "symmetric" else _general_layout(self)

    def __repr__(self):
        return f"Forest({self.kind!r}, n_outputs={self.n_outputs}, n_trees={self.n_trees})"

    @property
    def n_trees(self):
        """Number of trees, which is the number of boosting iterations."""
        return len(self.shrink_factors)

    @property
    def nbytes(self):
        """Bytes in all arrays, the derived ones included."""
        held = {id(value): value for value in [*vars(self).values(), *self.layout.values()]}
        return sum(value.nbytes for value in held.values() if isinstance(value, np.ndarray))

    def validate(self):
        """Raise ValueError unless every array has its shape and every index stays inside its tree.

        That general trees have no cycle is proved when the layout is made.
        """
        _check_shapes(self)
        n_leaves = np.diff(self.leaf_offset)
        _require(n_leaves.min(initial=1) >= 1, "every tree needs a leaf")
        _require(self.feature.min(initial=0) >= 0, "feature is negative")
        _require(self.missing_right.max(initial=0) <= 1, "missing_right is neither 0 nor 1")
        in_sets = self.cat_set.min(initial=-1) >= -1 and self.cat_set.max(initial=-1) < len(self.cat_sets)
        _require(in_sets, "cat_set leads out of cat_sets")
        n_nodes = np.diff(self.node_offset)
        if self.kind == "general":
            _require(np.array_equal(n_leaves, n_nodes + 1), "a general tree has one leaf more than nodes")
            return
        _require(n_nodes.max(initial=0) <= MAX_DEPTH, f"a symmetric tree has more than {MAX_DEPTH} levels")
        n_entries = np.diff(self.table_offset)
        _require(np.array_equal(n_entries, 1 << n_nodes), "a table needs 2 ** depth entries")
        in_tree = (self.table >= 0) & (self.table < np.repeat(n_leaves, n_entries))
        _require(in_tree.all(), "table leads out of the leaves of its tree")

    def margins(self, source, counts=None, *, mul=None, add=None, n_threads=1):
        """Return raw scores after all trees, or after each of several counts of trees, from one pass over the rows.

        Parameters
        ----------
        source : tuple (X, bin_mapper) or ndarray
            Rows as float32 or float64 numbers of any strides with the mapper that was fitted on the training data, or
            uint8 codes of shape (n_features, n_rows).
        counts : array-like of int, default=None
            Numbers of trees, in any order.
        mul, add : float64 arrays of shape (n_trees,), default=None
            The step is ``F = F * mul[t] + add[t] * value_t(x)``. None: the shrink factors, and ones.
        n_threads : int, default=1
            Upper limit on the threads; the result does not depend on it.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs), or (n_counts, n_rows, n_outputs) when counts are given
        """
        asked = np.atleast_1d(np.asarray(self.n_trees if counts is None else counts, dtype=np.int64))
        order = np.argsort(asked, kind="stable")
        x, bins, n_rows = _open(source)
        members = np.empty((len(asked), n_rows, self.n_outputs))
        rows = x, bins, self.used_features
        self._accumulate(rows, 0, asked.max(initial=0), mul, add, None, asked[order], members, n_threads)
        if counts is None:
            return members[0]
        if np.array_equal(order, np.arange(len(order))):
            return members
        return members[np.argsort(order)]

    def staged_margins(self, source, counts=None, *, n_threads=1):
        """Yield the raw scores of shape (n_rows, n_outputs) after each of ascending counts of trees.

        Rows are binned once; each step adds the new trees only. counts defaults to 1, 2, ..., n_trees.
        """
        x, bins, n_rows = _open(source)
        columns = self.used_features
        if bins is not None:
            codes = np.empty((len(columns), n_rows), dtype=np.uint8)
            predict.encode(self.layout, x, bins, codes, n_threads)
            x, bins, columns = codes, None, np.arange(len(columns), dtype=np.int32)
        acc = np.zeros((n_rows, self.n_outputs))
        begin = 0
        for count in range(1, self.n_trees + 1) if counts is None else counts:
            margins = np.empty((1, n_rows, self.n_outputs))
            self._accumulate((x, bins, columns), begin, count, None, None, acc, np.array([count]), margins, n_threads)
            begin = count
            yield margins[0]

    def accumulate(self, source, acc, begin=0, end=None, *, mul=None, add=None, n_threads=1):
        """Apply the trees ``begin <= t < end`` in place to acc, float64 sums of shape (n_rows, n_outputs).

        The base score stays out of it. Other parameters as in :meth:`margins`.
        """
        x, bins, _ = _open(source)
        end = self.n_trees if end is None else end
        self._accumulate((x, bins, self.used_features), begin, end, mul, add, acc, None, None, n_threads)

    def apply(self, source, *, n_threads=1):
        """Return the leaf index, inside each tree, of every row: int32 of shape (n_rows, n_trees)."""
        x, bins, n_rows = _open(source)
        leaves = np.empty((n_rows, self.n_trees), dtype=np.int32)
        predict.apply(self.layout, x, bins, self.used_features, leaves, n_threads)
        return leaves

    def mean_coefficients(self, counts=None):
        """Return the factors ``add`` that make one pass with ``mul`` of ones the mean of several states of the chain.

        Parameters
        ----------
        counts : array-like of int, default=None
            Numbers of trees of the averaged states, each at most n_trees; a state may be repeated. None: the second
            half of the chain, the last ``max(1, n_trees // 2)`` states.

        Returns
        -------
        ndarray of shape (n_trees,)
            Entry t is the mean over the states k of the product of ``shrink_factors[t + 1:k]``, zero where ``k <= t``.
        """
        n_trees = self.n_trees
        if counts is None:
            counts = np.arange(n_trees - max(1, n_trees // 2) + 1, n_trees + 1)
        counts = np.asarray(counts, dtype=np.int64)
        if not len(counts) or counts.min() < 0 or counts.max() > n_trees:
            raise ValueError(f"counts must be between 0 and {n_trees}.")
        ends_here = np.bincount(counts, minlength=n_trees + 1)[1:].tolist()
        factors = [*self.shrink_factors[1:].tolist(), 0.0]
        total, totals = 0.0, []
        for ends, factor in zip(reversed(ends_here), reversed(factors[:n_trees]), strict=True):
            total = ends + factor * total
            totals.append(total)
        return np.array(totals[::-1]) / len(counts)

    def truncate(self, n_trees):
        """Return the forest of the first trees with their shrink factors; its arrays are copies."""
        if not 0 <= n_trees <= self.n_trees:
            raise ValueError(f"n_trees must be between 0 and {self.n_trees}, got {n_trees}.")
        arrays = {name: getattr(self, name) for name in _FOREST_DTYPES[self.kind]}
        ends = {name: getattr(self, name)[n_trees] for name in _OFFSETS[self.kind]}
        for name in arrays:
            if name in _OFFSETS[self.kind]:
                arrays[name] = arrays[name][: n_trees + 1].copy()
            elif name == "shrink_factors":
                arrays[name] = arrays[name][:n_trees].copy()
            elif name not in ("base_score", "cat_sets"):
                arrays[name] = arrays[name][: ends[_offset_of(name)]].copy()
        return Forest(self.kind, self.n_outputs, arrays)

    def feature_importances(self, n_features):
        """Return the share of each feature in the gain of all splits; zeros when nothing was split."""
        gain = np.bincount(self.feature, weights=self.gain, minlength=n_features)
        total = gain.sum()
        return gain / total if total > 0 else np.zeros(n_features)

    def to_dict(self):
        """Return a dict of a format version, JSON-able metadata and, under "arrays", what defines the forest."""
        arrays = {name: np.array(getattr(self, name)) for name in _FOREST_DTYPES[self.kind]}
        return {"format": FORMAT_VERSION, "kind": self.kind, "n_outputs": self.n_outputs, "arrays": arrays}

    @classmethod
    def from_dict(cls, state):
        """Return the forest that :meth:`to_dict` described; the arrays are copied.

        Raises
        ------
        ValueError
            If the format version is unknown, an array is missing or malformed.
        """
        if state.get("format") != FORMAT_VERSION:
            raise ValueError(f"This is format {state.get('format')!r}; format {FORMAT_VERSION} is known.")
        kind, n_outputs, arrays = state.get("kind"), state.get("n_outputs"), state.get("arrays", {})
        if kind not in _TREE_DTYPES:
            raise ValueError(f"kind must be one of {sorted(_TREE_DTYPES)}, got {kind!r}.")
        if not isinstance(n_outputs, int) or n_outputs < 1:
            raise ValueError(f"n_outputs must be a positive integer, got {n_outputs!r}.")
        missing = sorted(set(_FOREST_DTYPES[kind]) - set(arrays))
        if missing:
            raise ValueError(f"Arrays are missing: {', '.join(missing)}.")
        copies = {name: _exact_copy(name, arrays[name], dtype) for name, dtype in _FOREST_DTYPES[kind].items()}
        return cls(kind, n_outputs, copies)

    def _accumulate(self, rows, begin, end, mul, add, acc, counts, members, n_threads):
        """Call the kernel; rows is (x, bins, columns)."""
        predict.accumulate(
            self.layout,
            *rows,
            begin,
            end,
            mul=self.shrink_factors if mul is None else mul,
            add=add,
            base=self.base_score,
            acc=acc,
            member_counts=counts,
            members=members,
            n_threads=n_threads,
        )


class ForestBuilder:
    """Collects trees one by one; the arrays of a forest are made once, by :meth:`finish`.

    Parameters
    ----------
    kind : {"general", "symmetric"}
    n_outputs : int
    """

    def __init__(self, kind, n_outputs):
        if kind not in _TREE_DTYPES:
            raise ValueError(f"kind must be one of {sorted(_TREE_DTYPES)}, got {kind!r}.")
        self.kind = kind
        self.n_outputs = int(n_outputs)
        self._head = None
        self._trees = []

    @classmethod
    def from_forest(cls, forest):
        """Return a builder that starts with the trees of a forest, for a warm start."""
        builder = cls(forest.kind, forest.n_outputs)
        builder._head = forest
        return builder

    @property
    def n_trees(self):
        """Number of trees so far."""
        return (self._head.n_trees if self._head else 0) + len(self._trees)

    def append(self, tree):
        """Add one tree.

        Parameters
        ----------
        tree : dict of str to array
            The arrays of `Forest` over nodes, leaves and sets, indices counted inside the tree: feature, threshold,
            missing_right, cat_set, gain, left and right or table, leaf_value of shape (n_leaves, n_outputs) or
            (n_leaves,), leaf_weight, and cat_sets, which may be absent. The builder keeps the arrays themselves.
        """
        self._trees.append(_tree_arrays(self.kind, self.n_outputs, tree))

    def tree(self, index=-1):
        """Return one of the appended trees as a forest of its own, with base score 0 and shrink factor 1."""
        return self._build(None, [self._trees[index]], np.zeros(self.n_outputs), np.ones(1))

    def finish(self, base_score, shrink_factors):
        """Return the forest.

        Parameters
        ----------
        base_score : array-like of shape (n_outputs,) or float
        shrink_factors : array-like of shape (n_trees,)
            Those of the forest this builder started from included.
        """
        base_score = np.broadcast_to(np.asarray(base_score, dtype=np.float64), (self.n_outputs,)).copy()
        return self._build(self._head, self._trees, base_score, np.array(shrink_factors, dtype=np.float64))

    def _build(self, head, trees, base_score, shrink_factors):
        arrays = {"base_score": base_score, "shrink_factors": shrink_factors}
        for name in _TREE_DTYPES[self.kind]:
            parts = [tree[name] for tree in trees]
            if head is not None:
                parts.insert(0, getattr(head, name))
            if not parts:
                parts.append(_empty(self.kind, self.n_outputs, name))
            arrays[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
        arrays["cat_set"] = _shifted_sets(arrays["cat_set"], head, trees)
        for offset, name in (("node_offset", "feature"), ("leaf_offset", "leaf_value"), ("table_offset", "table")):
            if offset in _OFFSETS[self.kind]:
                start = np.zeros(1, dtype=np.int64) if head is None else getattr(head, offset)
                sizes = np.array([len(tree[name]) for tree in trees], dtype=np.int64)
                arrays[offset] = np.concatenate([start, start[-1] + np.cumsum(sizes)])
        return Forest(self.kind, self.n_outputs, arrays)


def _require(condition, message):
    if not condition:
        raise ValueError(f"Malformed forest: {message}.")


def _frozen(array, dtype):
    """Return a read-only contiguous view of the array, or a copy when its type differs."""
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def _exact_copy(name, array, dtype):
    """Return a copy of the wanted type, refusing types that would change a value."""
    array = np.asarray(array)
    if array.size and not np.can_cast(array.dtype, dtype, casting="safe"):
        _require(np.issubdtype(array.dtype, np.integer), f"{name} has the type {array.dtype}")
        limits = np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else None
        fits = limits is not None and array.min() >= limits.min and array.max() <= limits.max
        _require(fits, f"{name} does not fit its type")
    return np.array(array, dtype=dtype, order="C")


def _offset_of(name):
    """Return the name of the offsets that divide an array over trees."""
    if name in ("leaf_value", "leaf_weight"):
        return "leaf_offset"
    return "table_offset" if name == "table" else "node_offset"


def _check_shapes(forest):
    n_trees = forest.n_trees
    for name in _OFFSETS[forest.kind]:
        offset = getattr(forest, name)
        # The message is made on failure only: a forest is also made for each new tree while a model is validated.
        if offset.shape != (n_trees + 1,) or offset[0] != 0 or (offset[1:] < offset[:-1]).any():
            raise ValueError(f"Malformed forest: {name} does not ascend from 0 over {n_trees} trees.")
    for name in _TREE_DTYPES[forest.kind]:
        array = getattr(forest, name)
        length = len(array) if name == "cat_sets" else int(getattr(forest, _offset_of(name))[-1])
        expected = {"leaf_value": (length, forest.n_outputs), "cat_sets": (length, 32)}.get(name, (length,))
        if array.shape != expected:
            raise ValueError(f"Malformed forest: {name} has the shape {array.shape} instead of {expected}.")
    _require(forest.shrink_factors.ndim == 1, "shrink_factors has more than one dimension")
    _require(forest.base_score.shape == (forest.n_outputs,), "base_score has the wrong length")


def _tree_arrays(kind, n_outputs, tree):
    """Return the arrays of one tree with their types and shapes."""
    arrays = {name: np.asarray(tree[name], dtype) for name, dtype in _TREE_DTYPES[kind].items() if name != "cat_sets"}
    arrays["leaf_value"] = arrays["leaf_value"].reshape(-1, n_outputs)
    sets = tree.get("cat_sets")
    arrays["cat_sets"] = np.asarray([] if sets is None else sets, np.uint8).reshape(-1, 32)
    return arrays


def _empty(kind, n_outputs, name):
    tail = {"leaf_value": (n_outputs,), "cat_sets": (32,)}.get(name, ())
    return np.empty((0, *tail), dtype=_TREE_DTYPES[kind][name])


def _shifted_sets(cat_set, head, trees):
    """Return rows of the common cat_sets for set indices that count inside each new tree."""
    n_sets = np.array([len(tree["cat_sets"]) for tree in trees], dtype=np.int64)
    if not n_sets.any():
        return cat_set
    n_old = 0 if head is None else len(head.feature)
    first = np.cumsum(n_sets) - n_sets + (0 if head is None else len(head.cat_sets))
    new = cat_set[n_old:]
    shift = np.repeat(first, [len(tree["cat_set"]) for tree in trees])
    return np.concatenate([cat_set[:n_old], np.where(new >= 0, new + shift, -1).astype(np.int32)])


def _open(source):
    """Return x, the arrays of the mapper or None for codes, and the number of rows."""
    if not isinstance(source, tuple):
        return source, None, source.shape[1]
    x, mapper = source
    if x.dtype not in (np.float32, np.float64) or not x.flags.aligned:
        x = np.asarray(x, dtype=np.float64, order="K").copy()
    return x, tuple(getattr(mapper, name) for name in _BIN_ARRAYS), x.shape[0]


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
        "value_offset": _frozen(value_offset, np.int64),
        "values": _frozen(values.ravel(), np.float64),
        "sets": _frozen(forest.cat_sets.ravel(), np.uint8),
    }


def _general_layout(forest):
    n_nodes, n_leaves = len(forest.feature), len(forest.leaf_weight)
    column, test = _columns_and_tests(forest)
    walk, masks = np.empty((n_nodes, 4), np.int32), np.empty((n_nodes, 4), np.int32)
    leaf_index = np.empty(n_leaves, dtype=np.int32)
    n_slots = predict.lay_out_trees(
        forest.node_offset, forest.leaf_offset, (column, test, forest.left, forest.right), walk, masks, leaf_index
    )
    per_tree = np.diff(forest.leaf_offset)
    layout = _common_layout(forest, per_tree, np.repeat(forest.leaf_offset[:-1], per_tree) + leaf_index)
    layout.update(
        n_slots=n_slots,
        walk=_frozen(walk.ravel(), np.int32),
        masks=_frozen(masks.ravel(), np.int32),
        leaf_index=_frozen(leaf_index, np.int32),
        leaf_offset=forest.leaf_offset,
    )
    return layout


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
    layout = _common_layout(forest, n_values, rows)
    layout.update(
        levels=_frozen(np.column_stack([column, test]).ravel(), np.int32),
        leaf_index=forest.table,
        leaf_offset=forest.table_offset,
    )
    return layout
