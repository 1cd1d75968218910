"""The trees of a fitted model as flat arrays, and everything that is computed by sending rows through them.

The state of a chain after k trees is defined by a recurrence in float64: ``F = 0``, then for each tree ``t < k``
``F = F * shrink_factors[t]`` and ``F = F + value_t(x)``; the margin is ``base_score + F``. The base score is never
shrunk. All margins here are that recurrence, so a member of a virtual ensemble equals the model that stopped there, bit
for bit.

A forest holds arrays and numbers only. What the kernels read (`layout`) is derived, checked and stored when the forest
is made; predicting changes nothing. What defines the forest is stored, and checked again when it is read.
"""

import numpy as np

from skboost import _storage
from skboost._engine import predict
from skboost._forest_layout import (
    FOREST_DTYPES,
    OFFSETS,
    TREE_DTYPES,
    check_forest,
    check_kind,
    exact_copy,
    frozen,
    make_layout,
    make_state,
    offset_of,
    read_state,
)

_BIN_ARRAYS = ("cuts", "n_bins", "is_categorical", "level_offset", "level_values", "level_codes")


def squared_decay(shrink_factors):
    """Return what is left, after all trees, of a variance that each tree has added.

    Parameters
    ----------
    shrink_factors : float64 array of shape (n_trees,)
        Factors on the sum of the earlier trees.

    Returns
    -------
    ndarray of shape (n_trees,)
    """
    squares = shrink_factors[1:] ** 2
    return np.append(np.cumprod(squares[::-1])[::-1], 1.0) if len(shrink_factors) else np.empty(0)


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
        check_kind(kind)
        self._fill(kind, n_outputs, {name: frozen(arrays[name], dtype) for name, dtype in FOREST_DTYPES[kind].items()})

    def _fill(self, kind, n_outputs, arrays):
        self.kind = kind
        self.n_outputs = int(n_outputs)
        vars(self).update(arrays)
        check_forest(self)
        self.used_features = frozen(np.unique(self.feature), np.int32)
        self.layout = make_layout(self)

    def __getstate__(self):
        return make_state(self)

    def __setstate__(self, state):
        kind, n_outputs, arrays = read_state(state)
        types = FOREST_DTYPES[kind].items()
        arrays = {name: _storage.stored_array("forest", name, arrays[name], dtype) for name, dtype in types}
        self._fill(kind, n_outputs, arrays)

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

    def support(self, source, counts, empty_variance, *, n_threads=1):
        """Return margins after several counts of trees, and what leaves without training rows say of each row.

        Such a leaf keeps the variance of its prior, which shrinks with the model: ``V = V * shrink_factors[t] ** 2``,
        then ``V = V + empty_variance`` where the leaf of tree t is empty.

        Parameters
        ----------
        source : tuple (X, bin_mapper) or ndarray
            As in :meth:`margins`.
        counts : array-like of int
            Numbers of trees, ascending; the last one is n_trees.
        empty_variance : float
            Prior variance of a leaf's step.
        n_threads : int, default=1
            Upper limit on the threads; the result does not depend on it.

        Returns
        -------
        margins : ndarray of shape (n_counts, n_rows, n_outputs)
            As :meth:`margins` returns.
        variance : ndarray of shape (n_rows,)
            V after all trees.
        support : ndarray of shape (n_rows,)
            Share of the trees whose leaf held training rows.
        """
        x, bins, n_rows = _open(source)
        margins = np.empty((len(counts), n_rows, self.n_outputs))
        rows, found = (x, bins, self.used_features), None
        if self.layout["empty"] is not None:
            found = np.empty((2, n_rows)), empty_variance * squared_decay(self.shrink_factors)
        counts = np.asarray(counts, dtype=np.int64)
        self._accumulate(rows, 0, self.n_trees, None, None, None, counts, margins, n_threads, found)
        if found is None:
            return margins, np.zeros(n_rows), np.ones(n_rows)
        return margins, found[0][1], 1.0 - found[0][0] / self.n_trees

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

    def with_values(self, leaf_value):
        """Return a forest of one output with another value in every leaf and the base score 0."""
        arrays = {name: getattr(self, name) for name in FOREST_DTYPES[self.kind]}
        return Forest(self.kind, 1, {**arrays, "leaf_value": leaf_value.reshape(-1, 1), "base_score": np.zeros(1)})

    def truncate(self, n_trees):
        """Return the forest of the first trees with their shrink factors; its arrays are copies."""
        if not 0 <= n_trees <= self.n_trees:
            raise ValueError(f"n_trees must be between 0 and {self.n_trees}, got {n_trees}.")
        arrays = {name: getattr(self, name) for name in FOREST_DTYPES[self.kind]}
        ends = {name: getattr(self, name)[n_trees] for name in OFFSETS[self.kind]}
        for name in arrays:
            if name in OFFSETS[self.kind]:
                arrays[name] = arrays[name][: n_trees + 1].copy()
            elif name == "shrink_factors":
                arrays[name] = arrays[name][:n_trees].copy()
            elif name not in ("base_score", "cat_sets"):
                arrays[name] = arrays[name][: ends[offset_of(name)]].copy()
        return Forest(self.kind, self.n_outputs, arrays)

    def feature_importances(self, n_features):
        """Return the share of each feature in the gain of all splits; zeros when nothing was split."""
        gain = np.bincount(self.feature, weights=self.gain, minlength=n_features)
        total = gain.sum()
        return gain / total if total > 0 else np.zeros(n_features)

    def to_dict(self):
        """Return a dict of a format version, JSON-able metadata and, under "arrays", what defines the forest."""
        state = make_state(self)
        state["arrays"] = {name: np.array(array) for name, array in state["arrays"].items()}
        return state

    @classmethod
    def from_dict(cls, state):
        """Return the forest that :meth:`to_dict` described; the arrays are copied.

        Raises
        ------
        ValueError
            If the format version is unknown, an array is missing or malformed.
        """
        kind, n_outputs, arrays = read_state(state)
        copies = {name: exact_copy(name, arrays[name], dtype) for name, dtype in FOREST_DTYPES[kind].items()}
        return cls(kind, n_outputs, copies)

    def _accumulate(self, rows, begin, end, mul, add, acc, counts, members, n_threads, support=None):
        """Call the kernel; rows is (x, bins, columns), support what it writes to and the variance by tree."""
        found, empty_add = support or (None, None)
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
            empty_add=empty_add,
            support=found,
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
        check_kind(kind)
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
        for name in TREE_DTYPES[self.kind]:
            parts = [tree[name] for tree in trees]
            if head is not None:
                parts.insert(0, getattr(head, name))
            if not parts:
                parts.append(_empty(self.kind, self.n_outputs, name))
            arrays[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
        arrays["cat_set"] = _shifted_sets(arrays["cat_set"], head, trees)
        for offset, name in (("node_offset", "feature"), ("leaf_offset", "leaf_value"), ("table_offset", "table")):
            if offset in OFFSETS[self.kind]:
                start = np.zeros(1, dtype=np.int64) if head is None else getattr(head, offset)
                sizes = np.array([len(tree[name]) for tree in trees], dtype=np.int64)
                arrays[offset] = np.concatenate([start, start[-1] + np.cumsum(sizes)])
        return Forest(self.kind, self.n_outputs, arrays)


def _tree_arrays(kind, n_outputs, tree):
    """Return the arrays of one tree with their types and shapes."""
    arrays = {name: np.asarray(tree[name], dtype) for name, dtype in TREE_DTYPES[kind].items() if name != "cat_sets"}
    arrays["leaf_value"] = arrays["leaf_value"].reshape(-1, n_outputs)
    sets = tree.get("cat_sets")
    arrays["cat_sets"] = np.asarray([] if sets is None else sets, np.uint8).reshape(-1, 32)
    return arrays


def _empty(kind, n_outputs, name):
    tail = {"leaf_value": (n_outputs,), "cat_sets": (32,)}.get(name, ())
    return np.empty((0, *tail), dtype=TREE_DTYPES[kind][name])


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
