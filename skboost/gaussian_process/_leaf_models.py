"""Fitted boosters as linear models over the leaves of their trees, or over the cells of their terms.

One class per family reads a fitted estimator; whatever follows sees a `LeafModel` only. A tree, or a term, puts each
row into one of its leaves, and every leaf of every tree is a column of 0/1: a row has a 1 in one column per tree.
"""

import numpy as np
from scipy.sparse import block_diag, csr_array, diags_array, eye_array, kron
from scipy.special import expit, softmax

from skboost._validation import check_X
from skboost.ebm._terms import term_cells

LOSSES = ("squared_error", "log_loss")


class LeafModel:
    """A fitted booster over the columns of its leaves.

    Attributes
    ----------
    estimator : estimator
        The booster.
    sizes : int64 array of shape (n_trees,)
        Columns of each tree or term.
    weights : float64 array of shape (n_columns,) or None
        Training weight in each leaf; None where the model does not know it.
    base : float64 array of shape (n_outputs,)
        Raw score without leaves.
    is_ordered : bool array of shape (n_features,)
        False for categorical features.
    n_splits : int64 array of shape (n_features,) or None
        Splits of the trees on each feature; None for terms.
    noise_variance : float or None
        That of the chain, if the model has one.
    axes : list of list of (int, bool), or None
        Cells and order of each axis of each term; None for trees.
    parts : list of LeafModel or None
        Models of one raw score each, where they do not share their trees.
    one_of_several : bool
        Whether this is the model of one of several classes.
    """

    additive = one_of_several = False
    n_splits = noise_variance = axes = parts = None

    def __init__(self, estimator):
        self.estimator = estimator
        self.is_ordered = ~np.asarray(estimator._mapper.is_categorical, dtype=bool)

    @property
    def n_outputs(self):
        """Raw scores per row."""
        return len(self.base)

    @property
    def classifier(self):
        """Whether raw scores are log-odds or logits; otherwise they are predictions."""
        return hasattr(self.estimator, "classes_")

    def raw(self, X):
        """Return the raw scores of rows, shape (n_rows, n_outputs)."""
        return self.estimator._raw(X)

    def curvatures(self, X, weight):
        """Return minus the second derivatives of the log likelihood at the scores of rows, one array per raw score."""
        if not self.classifier:
            return [weight]
        raw = self.raw(X)
        if self.n_outputs == 1:
            return [weight * expit(raw[:, 0]) * expit(-raw[:, 0])]
        p = softmax(raw, axis=1)
        return list((weight[:, None] * p * (1.0 - p)).T)

    def columns(self, X):
        """Return the columns of rows, int32 of shape (n_rows, n_trees)."""
        raise NotImplementedError

    def matrix(self, X):
        """Return the numbers that thresholds apply to, float64 of shape (n_rows, n_features)."""
        return np.asarray(check_X(self.estimator, X), dtype=np.float64)


class ForestLeaves(LeafModel):
    """Leaves of Langevin boosting, of all trees or of the last ones."""

    def __init__(self, estimator, n_trees):
        super().__init__(estimator)
        loss, forest = estimator._loss, estimator._forest
        if loss.n_outputs > 1 and (loss.name == "squared_error" or loss.uncertainty == "labels"):
            raise ValueError(
                f"estimator={type(estimator).__name__} has a target of several columns; leaf posteriors are of one."
            )
        if n_trees is not None and n_trees > forest.n_trees:
            raise ValueError(f"n_trees={n_trees} is more than the {forest.n_trees} trees of estimator.")
        self.first = 0 if n_trees is None else forest.n_trees - n_trees
        offset = forest.leaf_offset[self.first :] - forest.leaf_offset[self.first]
        self.starts, self.sizes = offset[:-1].astype(np.int32), np.diff(offset)
        self.weights = forest.leaf_weight[forest.leaf_offset[self.first] :].astype(np.float64)
        self.base = np.array(forest.base_score)
        splits = forest.feature[forest.node_offset[self.first] :]
        self.n_splits = np.bincount(splits, minlength=estimator.n_features_in_)
        if estimator._record.dynamics.noisy:
            self.noise_variance = float(estimator.noise_variance_)

    def columns(self, X):
        return self.estimator.apply(X)[:, self.first :] + self.starts


class TermCells(LeafModel):
    """Cells of the terms of an additive model, which were made without looking at labels."""

    additive = True

    def __init__(self, estimator):
        super().__init__(estimator)
        self.features = [tuple(term) for term in estimator.term_features_]
        pairs = list(zip(self.features, estimator.term_scores_, strict=True))
        self.shapes = [scores.shape[: len(term)] for term, scores in pairs]
        self.sizes = np.array([int(np.prod(shape)) for shape in self.shapes], dtype=np.int64)
        self.starts = np.cumsum(np.append(0, self.sizes))[:-1]
        self.weights = np.concatenate([np.empty(0), *(np.ravel(cells) for cells in estimator.bin_weights_)])
        self.base = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
        terms = zip(self.features, self.shapes, strict=True)
        self.axes = [[(n, bool(self.is_ordered[j])) for j, n in zip(term, shape, strict=True)] for term, shape in terms]

    def columns(self, X):
        cells, coarse = self.estimator._cells(X), self.estimator._coarse()
        out = np.empty((cells.shape[1], len(self.features)), dtype=np.int32)
        for t, (term, shape) in enumerate(zip(self.features, self.shapes, strict=True)):
            index = tuple(axis.astype(np.intp) for axis in term_cells(term, cells, coarse))
            out[:, t] = self.starts[t] + np.ravel_multi_index(index, shape)
        return out


# ---- differences between neighbouring cells --------------------------------------------------------------------------


def walk_precision(axes):
    """Return the precision of a random walk over the cells of a term, and its eigenvalues.

    Neighbours along an ordered axis differ by steps of variance 1. Cells without neighbours, those of missing values,
    of unseen levels and of categories, have variance 1 themselves. A pair adds the precisions of its axes.

    Parameters
    ----------
    axes : list of (int, bool)
        Cells, and whether they are ordered, of each axis.

    Returns
    -------
    precision : csr_array of shape (n_cells, n_cells)
    eigenvalues : ndarray of shape (n_cells,)
        In no particular order.
    """
    precision, eigenvalues = csr_array((1, 1)), np.zeros(1)
    for n, ordered in axes:
        block, values = _walk_axis(n, ordered)
        size = precision.shape[0]
        precision = kron(precision, eye_array(n)) + kron(eye_array(size), block)
        eigenvalues = np.add.outer(eigenvalues, values).ravel()
    return csr_array(precision), eigenvalues


def _walk_axis(n, ordered):
    if not ordered:
        return eye_array(n), np.ones(n)
    m = n - 2  # between the cells of missing values and of unseen levels
    degree = np.full(m, 2.0)
    degree[[0, -1]] = 1.0 if m > 1 else 0.0
    path = diags_array([np.full(m - 1, -1.0), degree, np.full(m - 1, -1.0)], offsets=[-1, 0, 1]) if m > 1 else None
    path = csr_array((1, 1)) if path is None else path
    values = 2.0 - 2.0 * np.cos(np.pi * np.arange(m) / m)
    return block_diag([eye_array(1), path, eye_array(1)]), np.concatenate([[1.0], values, [1.0]])
