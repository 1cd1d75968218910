"""Priors over leaf values, and the whitened indicator matrix of rows in their units.

A prior is ``Lambda = tau_g Q + ridge``: a precision Q, diagonal or of a random walk, scaled group by group, and a fixed
part. Precisions are in units of one over the noise variance, which is 1 for the log loss.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import block_diag, csr_array, diags_array

from skboost.gaussian_process._leaf_models import walk_precision

INTERCEPT_PRECISION = 1e-4
# Keeps the level of a random walk from being free.
WALK_PRECISION = 1e-3


@dataclass(frozen=True)
class LeafPrior:
    """Normal prior of mean zero over leaf values.

    Attributes
    ----------
    diagonal : ndarray of shape (n_columns,)
        Diagonal of Q.
    eigenvalues : ndarray of shape (n_columns,)
        Those of Q; of a diagonal Q the diagonal.
    group : ndarray of int of shape (n_columns,)
        Which scale each column has.
    ridge : ndarray of shape (n_columns,)
        The fixed part.
    n_groups : int
        Number of scales.
    walk : csr_array of shape (n_columns, n_columns) or None
        Q, if it is not diagonal.
    """

    diagonal: np.ndarray
    eigenvalues: np.ndarray
    group: np.ndarray
    ridge: np.ndarray
    n_groups: int
    walk: csr_array | None = None

    def take(self, kept):
        """Return the prior of some columns; of a diagonal prior only."""
        parts = (part[kept] for part in (self.diagonal, self.eigenvalues, self.group, self.ridge))
        return LeafPrior(*parts, self.n_groups)

    def precisions(self, tau):
        """Return the diagonal of Lambda, shape (n_columns,), for scales of shape (n_groups,)."""
        return tau[self.group] * self.diagonal + self.ridge

    def whitened(self, tau, scale):
        """Return ``S Lambda S`` for the diagonal S, None where it is the identity."""
        if self.walk is None:
            return None
        rows = diags_array(scale * tau[self.group])
        return csr_array(rows @ self.walk @ diags_array(scale) + diags_array(scale**2 * self.ridge))

    def apply_derivative(self, tau, group, theta):
        """Return ``dLambda / dlog tau_g`` times a vector."""
        product = self.diagonal * theta if self.walk is None else self.walk @ theta
        return np.where(self.group == group, tau[group] * product, 0.0)

    def derivative_traces(self, tau, inverse):
        """Return ``tr(Lambda^-1 dLambda_g)`` and ``tr(inverse dLambda_g)``, each of shape (n_groups,)."""
        scaled = tau[self.group] * self.eigenvalues
        prior = np.bincount(self.group, scaled / (scaled + self.ridge), self.n_groups)
        if self.walk is None:
            rows = np.diagonal(inverse) * self.diagonal
        else:
            walk = self.walk.tocoo()
            rows = np.bincount(walk.coords[0], walk.data * inverse[walk.coords], len(inverse))
        return prior, np.bincount(self.group, tau[self.group] * rows, self.n_groups)

    def log_det(self, tau):
        """Return ``log det Lambda``."""
        return float(np.log(tau[self.group] * self.eigenvalues + self.ridge).sum())


def make_prior(model, sizes, kind, weights, by_term):
    """Return the prior over the columns of a model.

    Parameters
    ----------
    model : LeafModel
        The model; an additive one has one more column, its intercept.
    sizes : ndarray of int of shape (n_trees,)
        Columns of each tree, those of random trees at the end.
    kind : {"sglb", "constant", "random_walk"}
        "sglb": ``T n_j / N`` for T trees and a leaf with n_j of the N training rows, the stationary law of SGLB with
        equally likely structures. "constant": T. "random_walk": T times that of `walk_precision`.
    weights : ndarray of shape (n_columns,)
        Training weight of each leaf, the intercept left out.
    by_term : bool
        Whether each term has its own scale.

    Returns
    -------
    LeafPrior
    """
    n_trees = len(sizes)
    by_term = by_term and n_trees > 0
    group = np.repeat(np.arange(n_trees) if by_term else np.zeros(n_trees, dtype=np.intp), sizes)
    ridge, walk = np.zeros(len(group)), None
    if kind == "sglb":
        starts = np.cumsum(np.append(0, sizes))[:-1]
        total = np.add.reduceat(weights, starts) if n_trees else np.empty(0)
        # An empty leaf is as uncertain as one with a single row.
        diagonal = n_trees * np.maximum(weights, 1.0) / np.repeat(np.maximum(total, 1.0), sizes)
        eigenvalues = diagonal
    elif kind == "constant" or not n_trees:
        diagonal = eigenvalues = np.full(len(group), float(n_trees))
    else:
        blocks, values = zip(*(walk_precision(axes) for axes in model.axes), strict=True)
        walk = csr_array(n_trees * block_diag(blocks))
        eigenvalues = n_trees * np.concatenate(values)
        diagonal, ridge = walk.diagonal(), np.full(len(group), WALK_PRECISION)
    if model.additive:
        diagonal, eigenvalues, group = np.append(diagonal, 0.0), np.append(eigenvalues, 0.0), np.append(group, 0)
        ridge = np.append(ridge, INTERCEPT_PRECISION)
        if walk is not None:
            walk = csr_array(block_diag([walk, csr_array((1, 1))]))
    return LeafPrior(diagonal, eigenvalues, group.astype(np.intp), ridge, n_trees if by_term else 1, walk)


@dataclass(frozen=True)
class Design:
    """Columns in use, with their prior deviations.

    Attributes
    ----------
    position : int32 array of shape (n_columns,)
        Where a column is among those in use, -1 for one that no row of the fit falls into and that no other depends on.
    scale : ndarray of shape (n_used,)
        Prior deviation in the diagonal sense, ``diag(Lambda)^-1/2``.
    spare : ndarray of shape (n_columns,)
        Prior variance of a column that is not in use, else 0.
    """

    position: np.ndarray
    scale: np.ndarray
    spare: np.ndarray

    def whitened(self, columns):
        """Return the indicators of rows in units of the prior, csr of shape (n_rows, n_used)."""
        position = self.position[columns]
        used = position >= 0
        indices = position[used]
        indptr = np.append(0, np.cumsum(used.sum(axis=1)))
        return csr_array((self.scale[indices], indices, indptr), shape=(len(columns), len(self.scale)))

    def spare_variance(self, columns):
        """Return the variance that columns not in use add, shape (n_rows,)."""
        return self.spare[columns].sum(axis=1)

    def squared_norms(self, columns):
        """Return the prior variance of rows under a diagonal prior, shape (n_rows,)."""
        variance = self.spare.copy()
        used = self.position >= 0
        variance[used] = self.scale[self.position[used]] ** 2
        return variance[columns].sum(axis=1)


def used_columns(columns, n_columns, prior):
    """Return the columns in use, ascending: those with rows under a diagonal prior, else all."""
    if prior.walk is not None:
        return np.arange(n_columns)
    return np.flatnonzero(np.bincount(columns.ravel(), minlength=n_columns))


def make_design(prior, tau, used):
    """Return the Design for given scales and the prior of the columns in use."""
    n_columns = len(prior.group)
    precisions = prior.precisions(tau)
    position = np.full(n_columns, -1, dtype=np.int32)
    position[used] = np.arange(len(used), dtype=np.int32)
    spare = np.where(position < 0, 1.0 / precisions, 0.0)
    return Design(position, 1.0 / np.sqrt(precisions[used]), spare)
