"""What the limit of Boulevard boosting says of its predictions: weights of the labels, traces, intervals.

At the limit a prediction is ``intercept + s u' (y - intercept)`` with ``u = (c I + K)^-1 k(x)``, linear in the labels;
its variance is the noise variance times the squared norm of the weights.
"""

import math

import numpy as np
from scipy.special import ndtri

from skboost.inference._tree_solvers import ExactSolver, GradientSolver, NystromSolver

# Rows up to which the dense inverse is the quicker one, and up to which it is made at all (2 GB).
AUTO_EXACT_ROWS = 2048
MOST_EXACT_ROWS = 16384
DEFAULT_LANDMARKS = 512
# Values of the leaves of a block of rows.
BLOCK_VALUES = 1 << 22
KINDS = ("confidence", "prediction", "reproduction", "calibrated")


class TreeLimit:
    """The limit of a chain.

    Parameters
    ----------
    kernel : TreeKernel
    c, s : float
        Ridge and rescale.
    mean_intercept : bool
        Whether the intercept is the mean of the labels; else it is a constant that knows no label.
    solver : {"exact", "cg", "nystrom"}
    n_landmarks : int
        Of "nystrom".
    seed : int
        Seed of random signs and landmarks.
    """

    def __init__(self, kernel, c, s, mean_intercept, solver, n_landmarks, seed):
        self.kernel, self.c, self.s, self.mean_intercept = kernel, c, s, mean_intercept
        self.solver, self.n_landmarks, self.seed = solver, n_landmarks, seed
        self._made = None

    def __getstate__(self):
        # The inverse is the largest part by far, and is made anew in no more time than a read takes.
        return {**vars(self), "_made": None}

    @property
    def _solver(self):
        if self._made is None:
            if self.solver == "exact":
                self._made = ExactSolver(self.kernel, self.c)
            elif self.solver == "cg":
                self._made = GradientSolver(self.kernel, self.c)
            else:
                self._made = NystromSolver(self.kernel, self.c, self.n_landmarks, np.random.default_rng(self.seed))
        return self._made

    def fitted(self, target):
        """Return the limit's fit at the training rows, less the intercept, to labels less the intercept."""
        return self.s * (target - self.c * self._solver.solve(target[:, None])[:, 0])

    def degrees_of_freedom(self):
        """Return the trace of the hat matrix P, and of ``P P'``; estimates for solver="cg"."""
        n = self.kernel.n_rows
        trace, norm = self._solver.smoother_traces(np.random.default_rng([self.seed, 1]))
        trace, norm = self.s * trace, self.s**2 * norm
        if not self.mean_intercept:
            return trace, norm
        # P = G + (1 - G1) 1'/n with the symmetric G = s (cI + K)^-1 K.
        ones = self.fitted(np.ones(n))
        left = 1.0 - ones
        return trace + left.mean(), norm + (2.0 * ones @ left + left @ left) / n

    def squared_norms(self, leaves):
        """Return the squared norms of the weights that rows give to the labels.

        Parameters
        ----------
        leaves : int array of shape (n_others, n_trees)
            Leaves of the rows.

        Returns
        -------
        ndarray of shape (n_others,)
        """
        out = np.empty(len(leaves))
        step = int(np.clip(BLOCK_VALUES // len(self.kernel.weight), 1, 64))
        for start in range(0, len(leaves), step):
            rows = slice(start, min(start + step, len(leaves)))
            out[rows] = np.einsum("ij,ij->j", *[self.weights(leaves[rows])] * 2)
        return out

    def weights(self, leaves):
        """Return the weights of the labels, shape (n_rows, n_others)."""
        W = self._solver.solve(self.kernel.cross(np.ascontiguousarray(leaves.T)))
        W *= self.s
        if self.mean_intercept:
            W += (1.0 - W.sum(axis=0)) / len(W)
        return W


def residual_variance(y, fitted, degrees_of_freedom):
    """Return the residual sum of squares over its expectation for a noise variance of 1.

    Raises
    ------
    ValueError
        If no degrees of freedom are left.
    """
    df1, df2 = degrees_of_freedom
    n = len(y)
    left = n - 2.0 * df1 + df2
    if not left > 1e-8 * n:
        raise ValueError(
            f"No degrees of freedom are left for noise_variance='auto': n_samples={n}, traces {df1:.4g} and {df2:.4g}. "
            "Give a number as noise_variance, or use a larger min_samples_leaf or a smaller max_leaf_nodes."
        )
    return float(np.sum((y - fitted) ** 2)) / left


def half_widths(kind, alpha, noise_variance, squared_norms, ratios=None):
    """Return half the widths of intervals.

    Parameters
    ----------
    kind : {"confidence", "prediction", "reproduction", "calibrated"}
    alpha : float
        Allowed share of misses.
    noise_variance : float
    squared_norms : ndarray of shape (n,)
        Variances of the predictions for a noise variance of 1.
    ratios : ndarray of shape (n_held,) or None
        Of "calibrated": ascending absolute residuals of held-out rows in units of `prediction_scale`.

    Returns
    -------
    ndarray of shape (n,)
    """
    if kind == "calibrated":
        return calibrated_quantile(ratios, alpha) * prediction_scale(noise_variance, squared_norms)
    z = -ndtri(0.5 * alpha)
    if kind == "prediction":
        return z * prediction_scale(noise_variance, squared_norms)
    return z * np.sqrt((2.0 if kind == "reproduction" else 1.0) * noise_variance * squared_norms)


def prediction_scale(noise_variance, squared_norms):
    """Return the standard deviation of a new label about its prediction."""
    return np.sqrt(noise_variance * (1.0 + squared_norms))


def calibrated_quantile(ratios, alpha):
    """Return the ratio that a new row exceeds with probability of at most alpha, by split conformal prediction.

    Raises
    ------
    ValueError
        If the rows are too few for alpha: the quantile would be infinite.
    """
    n_held = len(ratios)
    # The product may exceed a whole number by its rounding.
    rank = math.ceil((n_held + 1) * (1.0 - alpha) * (1.0 - 1e-12))
    if rank > n_held:
        raise ValueError(
            f"alpha={alpha:g} is too small for {n_held} held-out rows: use a larger alpha or calibration_fraction."
        )
    return float(ratios[rank - 1])
