"""The kernel of an ensemble of trees: the mean over trees of 1 / (rows of the leaf + kappa) where rows share a leaf."""

from dataclasses import dataclass

import numpy as np

from skboost._engine.leaf_kernel import leaf_sums, leaf_values

# Sums of a block of columns over all leaves: 2 MB.
CACHED_VALUES = 1 << 18


@dataclass(frozen=True)
class TreeKernel:
    """Kernel between training rows, and between these and others.

    Attributes
    ----------
    leaves : uint8 or uint16 array of shape (n_trees, n_rows)
        Leaf of every training row in every tree.
    offset : int64 array of shape (n_trees + 1,)
        Range of the leaves of each tree among all leaves.
    weight : float64 array of shape (n_leaves,)
        ``1 / (n_trees * (rows + kappa))``, 0 for leaves without training rows.
    n_threads : int
        No influence on results.
    """

    leaves: np.ndarray
    offset: np.ndarray
    weight: np.ndarray
    n_threads: int = 1

    @classmethod
    def of(cls, leaves, leaf_rows, offset, kappa, n_threads=1):
        """Return the kernel of leaves that hold so many training rows, `leaf_rows` of shape (n_leaves,)."""
        weight = np.divide(1.0, len(leaves) * (leaf_rows + kappa), out=np.zeros(len(leaf_rows)), where=leaf_rows > 0)
        return cls(leaves, np.ascontiguousarray(offset, dtype=np.int64), weight, n_threads)

    @property
    def n_rows(self):
        """Number of training rows."""
        return self.leaves.shape[1]

    @property
    def n_trees(self):
        """Number of trees."""
        return len(self.leaves)

    def product(self, columns):
        """Return ``K columns`` for columns of shape (n_rows, n_columns), 2 n_rows n_trees additions for each."""
        out = np.empty(columns.shape)
        for block in self._blocks(columns.shape[1]):
            sums = leaf_sums(self.leaves, self.offset, np.ascontiguousarray(columns[:, block]), self.n_threads)
            sums *= self.weight[:, None]
            out[:, block] = leaf_values(self.leaves, self.offset, sums, self.n_threads)
        return out

    def cross(self, leaves):
        """Return the kernel between the training rows and others.

        Parameters
        ----------
        leaves : int array of shape (n_trees, n_others)
            Leaves of the other rows.

        Returns
        -------
        ndarray of shape (n_rows, n_others)
        """
        out = np.empty((self.n_rows, leaves.shape[1]))
        for block in self._blocks(leaves.shape[1]):
            at = leaves[:, block] + self.offset[:-1, None]
            values = np.zeros((len(self.weight), at.shape[1]))
            values[at, np.arange(at.shape[1])] = self.weight[at]
            out[:, block] = leaf_values(self.leaves, self.offset, values, self.n_threads)
        return out

    def columns(self, rows):
        """Return the columns of the kernel matrix that belong to some training rows."""
        return self.cross(self.leaves[:, rows].astype(np.int64))

    def _blocks(self, n_columns):
        """Return slices of so many columns that their values of all leaves stay in the cache."""
        step = int(np.clip(CACHED_VALUES // len(self.weight), 2, 16))
        return [slice(start, min(start + step, n_columns)) for start in range(0, n_columns, step)]

    def diagonal(self):
        """Return the diagonal of the kernel matrix."""
        return leaf_values(self.leaves, self.offset, self.weight[:, None], self.n_threads)[:, 0]

    def matrix(self):
        """Return the kernel matrix of the training rows, shape (n_rows, n_rows)."""
        out = np.empty((self.n_rows, self.n_rows))
        for block in self._blocks(self.n_rows):
            out[:, block] = self.columns(block)
        return out
