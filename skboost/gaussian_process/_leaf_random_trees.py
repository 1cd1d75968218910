"""Random trees without labels, whose empty leaves keep the variance of the prior between and beyond the data."""

from dataclasses import dataclass

import numpy as np

DEPTH = 4
N_BORDERS = 32
# Borders reach beyond the data by this share of the range on either side.
MARGIN = 0.25


@dataclass(frozen=True)
class RandomTrees:
    """Symmetric trees: the same test for all nodes of a level.

    Attributes
    ----------
    features : int64 array of shape (n_trees, DEPTH)
    borders : float64 array of shape (n_trees, DEPTH)
        A row goes right above the border; a missing value never does.
    """

    features: np.ndarray
    borders: np.ndarray

    @classmethod
    def draw(cls, n_trees, matrix, is_ordered, generator):
        """Draw trees over the ranges of the numeric columns of a matrix.

        Parameters
        ----------
        n_trees : int
            Number of trees.
        matrix : ndarray of shape (n_rows, n_features)
            Rows.
        is_ordered : bool array of shape (n_features,)
            Numeric columns.
        generator : numpy.random.Generator
            Source of the draws.

        Returns
        -------
        RandomTrees

        Raises
        ------
        ValueError
            If no numeric column has two values.
        """
        low, high = finite_ranges(matrix)
        usable = np.flatnonzero(is_ordered & (high > low))
        if not len(usable):
            raise ValueError(f"prior_trees={n_trees} needs a numeric column with two values or more.")
        features = usable[generator.integers(len(usable), size=(n_trees, DEPTH))]
        # Halves, since the range itself may overflow.
        low, half = low[features], 0.5 * high[features] - 0.5 * low[features]
        place = (1.0 + generator.integers(N_BORDERS, size=features.shape)) / (N_BORDERS + 1)
        return cls(features, low + 2.0 * half * ((1.0 + 2.0 * MARGIN) * place - MARGIN))

    @property
    def sizes(self):
        """Columns of each tree."""
        return np.full(len(self.features), 1 << DEPTH, dtype=np.int64)

    def columns(self, matrix):
        """Return the columns of rows, counted from 0, int32 of shape (n_rows, n_trees)."""
        leaf = np.zeros((len(matrix), len(self.features)), dtype=np.int32)
        for level in range(DEPTH):
            leaf |= (matrix[:, self.features[:, level]] > self.borders[:, level]).astype(np.int32) << level
        return leaf + np.arange(len(self.features), dtype=np.int32) * (1 << DEPTH)


def finite_ranges(matrix):
    """Return the smallest and largest finite value of each column, (inf, -inf) where there is none."""
    finite = np.isfinite(matrix)
    low = np.where(finite, matrix, np.inf).min(axis=0, initial=np.inf)
    return low, np.where(finite, matrix, -np.inf).max(axis=0, initial=-np.inf)
