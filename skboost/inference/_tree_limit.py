"""What the limit of Boulevard boosting says of its predictions: weights of the labels, traces, intervals.

At the limit a prediction is ``intercept + s u' (y - intercept)`` with ``u = (c I + K)^-1 k(x)``, linear in the labels;
its variance is the noise variance times the squared norm of the weights.
"""

import math

import numpy as np
from scipy.special import ndtri

from skboost.inference._algebra import LEAST_DEGREES
from skboost.inference._tree_solvers import ExactSolver, GradientSolver, NystromSolver

# Rows up to which the dense inverse is the quicker one, and up to which it is made at all (2 GB).
AUTO_EXACT_ROWS = 2048
MOST_EXACT_ROWS = 16384
DEFAULT_LANDMARKS = 512
# Random signs that estimate traces: errors of a few units, little beside the rows where traces are estimated.
N_PROBES = 16
# Rows whose standard errors are found together.
BLOCK_ROWS = 64
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
        self._made = self._probes = None

    def __getstate__(self):
        # These are by far the largest parts, and both are made anew when they are wanted.
        return {**vars(self), "_made": None, "_probes": None}

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
        return self.s * self._smooth(target[:, None])[:, 0]

    def _smooth(self, columns):
        """Return ``(c I + K)^-1 K columns``."""
        return columns - self.c * self._solver.solve(columns)

    def _probed(self):
        """Return random signs and their smooths, then a column of ones and its smooth."""
        if self._probes is None:
            generator = np.random.default_rng([self.seed, 1])
            columns = np.ones((self.kernel.n_rows, N_PROBES + 1))
            columns[:, :-1] = generator.choice([-1.0, 1.0], size=(N_PROBES, self.kernel.n_rows)).T
            self._probes = columns, self._smooth(columns)
        (columns, smooth), last = self._probes, N_PROBES
        return columns[:, :last], smooth[:, :last], columns[:, last:], smooth[:, last:]

    def degrees_of_freedom(self):
        """Return the trace of the hat matrix P, and of ``P P'``; for solver="cg" estimates free of bias."""
        n = self.kernel.n_rows
        signs, smooth, _, smooth_ones = self._probed()
        traces = self._solver.smoother_traces()
        if traces is None:
            traces = np.sum(signs * smooth) / N_PROBES, np.sum(smooth**2) / N_PROBES
        trace, norm = self.s * traces[0], self.s**2 * traces[1]
        if self.mean_intercept:
            # P = G + (1 - G1) 1'/n with the symmetric G = s (cI + K)^-1 K.
            ones = self.s * smooth_ones[:, 0]
            left = 1.0 - ones
            trace, norm = trace + left.mean(), norm + (2.0 * ones @ left + left @ left) / n
        return float(trace), float(norm)

    def estimate_variance(self, residual, noise_variance):
        """Return the variance of what the leaves average: the noise, and the signal that varies within leaves.

        At the limit the trees still see a part of the signal, and where it varies within a leaf the rows that happen to
        be there move its mean as noise does. The mean variance within leaves is ``r'(I - K) r / tr(I - K)`` for the
        residuals r that the trees see; what noise alone would make of it is known.

        Parameters
        ----------
        residual : ndarray of shape (n_rows,)
            Labels less the intercept and less 1/s of the fit.
        noise_variance : float

        Returns
        -------
        float
            At least the noise variance.
        """
        signs, smooth, ones, smooth_ones = self._probed()
        if self.mean_intercept:
            mean = signs.mean(axis=0)
            signs, smooth = signs - ones * mean, smooth - smooth_ones * mean
        # The fit is s times the smooth.
        left = signs - smooth
        expected = np.sum(left * (left - self.kernel.product(left))) / N_PROBES
        found = residual @ (residual - self.kernel.product(residual[:, None])[:, 0])
        room = self.kernel.n_rows - float(self.kernel.diagonal().sum())
        if not room > 0:
            return noise_variance
        return noise_variance + float(max(found - noise_variance * expected, 0.0) / room)

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
        for start in range(0, len(leaves), BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, len(leaves)))
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
        If less than one degree of freedom is left.
    """
    df1, df2 = degrees_of_freedom
    n = len(y)
    left = n - 2.0 * df1 + df2
    if not left > LEAST_DEGREES:
        raise ValueError(
            f"No degrees of freedom are left for noise_variance='auto': n_samples={n}, traces {df1:.4g} and {df2:.4g}. "
            "Give a number as noise_variance, or use a larger min_samples_leaf or a smaller max_leaf_nodes."
        )
    return float(np.sum((y - fitted) ** 2)) / left


def half_widths(kind, alpha, noise_variance, variance, ratios=None):
    """Return half the widths of intervals.

    Parameters
    ----------
    kind : {"confidence", "prediction", "reproduction", "calibrated"}
    alpha : float
        Allowed share of misses.
    noise_variance : float
        Variance of a new label.
    variance : ndarray of shape (n,)
        Variances of the predictions.
    ratios : ndarray of shape (n_held,) or None
        Of "calibrated": ascending absolute residuals of held-out rows in standard deviations of new labels.

    Returns
    -------
    ndarray of shape (n,)
    """
    if kind == "calibrated":
        return calibrated_quantile(ratios, alpha) * np.sqrt(noise_variance + variance)
    total = {"confidence": variance, "prediction": noise_variance + variance, "reproduction": 2.0 * variance}[kind]
    return -ndtri(0.5 * alpha) * np.sqrt(total)


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
