"""The chain, or the sum of terms, behind a file that skboost wrote.

Leaves in the trees of a file are folded: multiplied by what the later shrinkage leaves of them. The states of the chain
follow from the leaves as they were before, the shrink factors and the base score.
"""

from dataclasses import dataclass

import numpy as np

from skboost._categories import level_names
from skboost._forest import squared_decay
from skboost._losses import Loss

# Categories of a model fitted on an array are in the file by their numbers, else by their positions among the levels.
NUMBERS, POSITIONS = "numbers", "positions"
# Larger numbers of categories would make long sets.
LARGEST_CATEGORY = 2**16 - 1
LAST_STATE, MEAN_STATE, TERMS = "last", "mean", "terms"


def coding_of(category_maps, feature_names):
    """Return what stands for categories in the file: numbers if LightGBM can take all of them and there is no frame."""
    return NUMBERS if feature_names is None and all(map(_codes_itself, category_maps)) else POSITIONS


def _codes_itself(levels):
    if levels is None:
        return True
    known, texts = levels
    return not texts and bool(((known >= 0) & (known <= LARGEST_CATEGORY) & (known == np.floor(known))).all())


@dataclass(frozen=True)
class Chain:
    """The chain, or the terms, behind a file that skboost wrote.

    Attributes
    ----------
    predicts : {"last", "mean", "terms"}
        What predictions use: the last state of the chain, the sums over the file, which are the mean of states, or the
        sums of a model that is no chain but a sum of terms.
    loss : Loss
        Knows the link.
    classes : ndarray of shape (n_classes,) or None
        Labels of a classifier.
    feature_names : ndarray of str, shape (n_features,), or None
    category_maps : tuple of length n_features
        As of ``skboost._validation.TrainingData``.
    coding : {"numbers", "positions"}
        What stands for a category in the file.
    shrink_factors, coefficients : float64 arrays of shape (n_iter,)
        Factor on the sum of the earlier trees; factor between the leaves of the chain and those in the file.
    cycle_length : int or None
        Iterations of a cycle of a cyclical schedule.
    leaf_values : list of float64 arrays, or None
        Leaves before folding, in the order of the trees; None stands for those in the file.
    empty_leaves : list of int64 arrays
        Leaves without training rows in the trees of each iteration.
    empty_variance : float
        Prior variance of the step of such a leaf.
    empty_scale : float, ndarray of shape (n_outputs,) or None
        Its unit, as of ``skboost.sglb._support.decompose``.
    noise_variance : float or None
        Noise variance of a chain of one output whose gradients had noise.
    class_weighted : bool
        Whether the classes had weights of their own.
    """

    predicts: str
    loss: Loss
    classes: np.ndarray | None
    feature_names: np.ndarray | None
    category_maps: tuple
    coding: str
    shrink_factors: np.ndarray
    coefficients: np.ndarray
    cycle_length: int | None
    leaf_values: list
    empty_leaves: list
    empty_variance: float = 0.0
    empty_scale: float | np.ndarray | None = None
    noise_variance: float | None = None
    class_weighted: bool = False

    def recode(self, X):
        """Return the matrix that the trees of the file read, of one with positions among the levels."""
        if self.coding == NUMBERS:
            for feature, levels in enumerate(self.category_maps):
                if levels is not None:
                    known = np.isfinite(X[:, feature])
                    X[known, feature] = levels[0][X[known, feature].astype(np.intp)]
        return X

    def members(self, trees, X, counts):
        """Return states of the chain, and what leaves without training rows say of each row.

        The steps are those of ``skboost._forest``, in its order.

        Parameters
        ----------
        trees : list of Tree
            Trees of the file.
        X : float64 array of shape (n_rows, n_features)
            What they read.
        counts : array-like of int
            Ascending counts of iterations.

        Returns
        -------
        states : ndarray of shape (n_counts, n_rows, n_outputs)
        variance, support : ndarray of shape (n_rows,)
            As of ``skboost._forest.Forest.support``, after all iterations.
        """
        n_outputs, n_iter = self.loss.n_outputs, len(self.shrink_factors)
        base = np.array([tree.leaf_value[0] for tree in trees[-n_outputs:]])
        total, states = np.zeros((len(X), n_outputs)), np.empty((len(counts), len(X), n_outputs))
        variance, n_empty = np.zeros(len(X)), np.zeros(len(X))
        steps = self.empty_variance * squared_decay(self.shrink_factors)
        states[np.equal(counts, 0)] = base
        for count, factor in enumerate(self.shrink_factors, start=1):
            with np.errstate(over="ignore", invalid="ignore"):
                total *= factor
                for index in range((count - 1) * n_outputs, count * n_outputs):
                    # The trees of an iteration differ in their values only.
                    leaves = trees[index].leaves(X)
                    values = self.leaf_values[index]
                    total[:, index % n_outputs] += (trees[index].leaf_value if values is None else values)[leaves]
                states[np.equal(counts, count)] = base + total
            empty = np.isin(leaves, self.empty_leaves[count - 1])
            n_empty += empty
            variance[empty] += steps[count - 1]
        return states, variance, 1.0 - n_empty / max(n_iter, 1)

    def pandas_categorical(self):
        """Return the categories of the categorical columns for LightGBM, None where it needs none."""
        levels = [level_names(levels) for levels in self.category_maps if levels is not None]
        return levels if levels and self.coding == POSITIONS else None
