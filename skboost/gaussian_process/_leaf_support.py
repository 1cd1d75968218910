"""How far rows lie outside the boxes of the data in their leaves.

The idea of splitting off from a leaf's box is that of B. Lakshminarayanan, D. M. Roy and Y. W. Teh, "Mondrian Forests
for Large-Scale Regression when Uncertainty Matters", AISTATS 2016.
"""

from dataclasses import dataclass

import numpy as np

from skboost.gaussian_process._leaf_random_trees import finite_ranges


@dataclass(frozen=True)
class LeafBoxes:
    """Bounding boxes of the rows in each leaf, over the numeric columns.

    Attributes
    ----------
    features : ndarray of int of shape (n_ordered,)
        Numeric columns with two values or more.
    rates : ndarray of shape (n_ordered,)
        Rate of splitting off per unit of distance: ``(1 + splits per tree) / range``.
    low, high : ndarray of shape (n_columns, n_ordered)
        Boxes; low above high where a leaf has no value.
    """

    features: np.ndarray
    rates: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, model, columns, matrix):
        """Return the boxes of the rows that a matrix and their columns describe."""
        low, high = finite_ranges(matrix)
        features = np.flatnonzero(model.is_ordered & (high > low))
        rates = (1.0 + model.n_splits[features] / len(model.sizes)) / (high - low)[features]
        values = matrix[:, features]
        missing = np.isnan(values)
        shape = int(model.sizes.sum()), len(features)
        lows, highs = np.full(shape, np.inf), np.full(shape, -np.inf)
        for leaves in columns.T:
            np.minimum.at(lows, leaves, np.where(missing, np.inf, values))
            np.maximum.at(highs, leaves, np.where(missing, -np.inf, values))
        return cls(features, rates, lows, highs)

    def variance(self, columns, matrix, prior_variance):
        """Return the prior variance that comes back outside the boxes.

        Parameters
        ----------
        columns : ndarray of int of shape (n_rows, n_trees)
            Columns of the rows.
        matrix : ndarray of shape (n_rows, n_features)
            The rows.
        prior_variance : ndarray of shape (n_columns,)
            Prior variance of each column; 0 where it is in the variance already.

        Returns
        -------
        ndarray of shape (n_rows,)
            Sum over the trees of prior variance times the chance ``1 - exp(-sum of rate times distance)``.
        """
        values = matrix[:, self.features]
        out = np.zeros(len(matrix))
        for leaves in columns.T:
            low, high = self.low[leaves], self.high[leaves]
            with np.errstate(invalid="ignore"):
                distance = np.maximum(low - values, values - high)
            distance = np.where((low <= high) & (distance > 0), distance, 0.0)
            out -= prior_variance[leaves] * np.expm1(-(distance @ self.rates))
        return out
