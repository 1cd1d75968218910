"""The posterior over leaf values: likelihoods of rows that share all leaves, the mode, the evidence and its maximum."""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.optimize
from scipy.special import expit, log_expit
from sklearn.exceptions import ConvergenceWarning

from skboost.gaussian_process._leaf_priors import LeafPrior, make_design
from skboost.gaussian_process._leaf_solvers import SOLVERS

MOST_STEPS = 100
MOST_HALVINGS = 60
TOLERANCE = 1e-12
# Where the logarithm of a prior scale is looked for: of one scale, and of one for each term, where a term that says
# nothing is shrunk to nothing.
ONE_SCALE = (-4.0, 7.0)
TERM_SCALE = (-4.0, 12.0)
SCALE_TOLERANCE = 1e-4
# Ratio to the lower end at which a scale lies on it.
AT_END = 1.01


# ---- likelihoods -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SquaredLikelihood:
    """Normal targets of unit noise variance, summed over rows with the same leaves.

    Attributes
    ----------
    weight, target : ndarray of shape (n_patterns,)
        Sums of the weights, and of weight times target.
    square : float
        Sum of weight times squared target.
    """

    weight: np.ndarray
    target: np.ndarray
    square: float

    # The density is quadratic, so one step of Newton's method is the last.
    quadratic = True

    def density(self, f):
        """Return minus half the weighted sum of squared residuals."""
        return -0.5 * (self.square - 2.0 * (self.target @ f) + self.weight @ (f * f))

    def derivatives(self, f):
        """Return the gradient and minus the second and third derivative of `density`, by pattern."""
        return self.target - self.weight * f, self.weight, np.zeros_like(f)


@dataclass(frozen=True)
class LogitLikelihood:
    """Labels given their log-odds, summed over rows with the same leaves.

    Attributes
    ----------
    weight, ones : ndarray of shape (n_patterns,)
        Weight of all rows, and of those of class 1.
    """

    weight: np.ndarray
    ones: np.ndarray

    quadratic = False

    def density(self, f):
        """Return the log likelihood."""
        return self.ones @ log_expit(f) + (self.weight - self.ones) @ log_expit(-f)

    def derivatives(self, f):
        """Return the gradient and minus the second and third derivative of `density`, by pattern."""
        one, zero = expit(f), expit(-f)
        curvature = self.weight * one * zero
        return self.ones * zero - (self.weight - self.ones) * one, curvature, curvature * (zero - one)


# ---- mode ------------------------------------------------------------------------------------------------------------


def find_mode(likelihood, base, Z, penalty, solver):
    """Return the most probable whitened leaf values, by Newton's method with a line search.

    Parameters
    ----------
    likelihood : SquaredLikelihood or LogitLikelihood
        Log-concave.
    base : float
        Score without leaves.
    Z : csr_array of shape (n_patterns, n_used)
        Whitened indicators.
    penalty : csr_array or None
        Precision of the whitened values, None for the identity.
    solver : type
        Solver class.

    Returns
    -------
    t : ndarray of shape (n_used,)
        The mode.
    f : ndarray of shape (n_patterns,)
        Scores there.
    density : float
        Log joint density up to constants.
    solver : object
        Solver at the curvature there.
    """
    Z_t, gram = Z.T.tocsr(), solver.gram(Z)
    t, f = np.zeros(Z.shape[1]), np.full(Z.shape[0], base)
    pull = np.zeros_like(t)
    density = likelihood.density(f)
    for _ in range(MOST_STEPS):
        gradient, curvature, _ = likelihood.derivatives(f)
        system = solver(Z, curvature, penalty, gram)
        step = system.solve(Z_t @ gradient - pull)
        f_step, length = Z @ step, 1.0
        for _ in range(MOST_HALVINGS):
            new_t = t + length * step
            new_pull = new_t if penalty is None else penalty @ new_t
            new_density = likelihood.density(f + length * f_step) - 0.5 * (new_t @ new_pull)
            close = abs(new_density - density) <= TOLERANCE * max(1.0, abs(new_density))
            if new_density >= density or close:
                break
            length *= 0.5
        t, pull, density = new_t, new_pull, new_density
        f = base + Z @ t
        if likelihood.quadratic:
            return t, f, density, system
        if close and length == 1.0:
            return t, f, density, solver(Z, likelihood.derivatives(f)[1], penalty, gram)
    warnings.warn(
        f"Newton's method for leaf values did not converge in {MOST_STEPS} steps; a larger prior_scale makes the "
        "problem easier.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return t, f, density, solver(Z, likelihood.derivatives(f)[1], penalty, gram)


# ---- evidence --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvidenceProblem:
    """Everything that the evidence depends on besides the prior scales.

    Attributes
    ----------
    likelihood : SquaredLikelihood or LogitLikelihood
        Of the patterns.
    base : float
        Score without leaves; 0 for the squared error, whose targets are residuals from it.
    columns : ndarray of int of shape (n_patterns, n_trees)
        Columns of the patterns.
    prior : LeafPrior
        Of all columns.
    used : ndarray of int
        Columns in use.
    solver : str
        Exact solver.
    noise_variance : float or None
        Of the squared error; None chooses it by the evidence too.
    """

    likelihood: object
    base: float
    columns: np.ndarray
    prior: LeafPrior
    used: np.ndarray
    solver: str
    noise_variance: float | None

    def log_evidence(self, log_tau, gradient=False):
        """Return the log evidence for scales, and its gradient in their logarithms on request ("cholesky" only)."""
        tau = np.exp(np.atleast_1d(log_tau))
        design, prior = make_design(self.prior, tau, self.used), self.prior
        if prior.walk is None:
            prior = prior.take(self.used)
        Z, penalty = design.whitened(self.columns), prior.whitened(tau, design.scale)
        t, f, density, solver = find_mode(self.likelihood, self.base, Z, penalty, SOLVERS[self.solver])
        log_det = solver.log_det()
        if penalty is not None:
            log_det -= prior.log_det(tau) + 2.0 * np.log(design.scale).sum()
        v = self.variance_at(density)
        value = density / v - 0.5 * log_det
        if isinstance(self.likelihood, SquaredLikelihood):
            value -= 0.5 * self.likelihood.weight.sum() * np.log(2.0 * np.pi * v)
        if not gradient:
            return float(value)
        third = self.likelihood.derivatives(f)[2]
        return float(value), _evidence_gradient(prior, tau, design.scale, Z, t, solver, third, v)

    def variance_at(self, density):
        """Return the noise variance, by the evidence if none is given; 1 for the log loss."""
        if isinstance(self.likelihood, LogitLikelihood):
            return 1.0
        if self.noise_variance is not None:
            return self.noise_variance
        # A target that the leaves fit exactly has a positive density at the mode through rounding only.
        return max(-2.0 * density / self.likelihood.weight.sum(), np.finfo(np.float64).tiny)

    def best_scales(self):
        """Return the scales of largest evidence, shape (n_groups,)."""
        tau = self._best_scales()
        if self.noise_variance is None and self.likelihood.quadratic and tau.min() < np.exp(TERM_SCALE[0]) * AT_END:
            warnings.warn(
                f"The evidence takes prior_scale to its lower end {np.exp(TERM_SCALE[0]):.3g}, and with it all of the "
                "noise for signal: too few rows share leaves or cells to tell them apart, and variances are far too "
                "small. Fit the model with fewer bins, or use prior='random_walk', or numbers as noise_variance and "
                "prior_scale.",
                UserWarning,
                stacklevel=4,
            )
        return tau

    def _best_scales(self):
        if self.prior.n_groups == 1:
            bounds = TERM_SCALE if self.prior.ridge.any() else ONE_SCALE
            found = scipy.optimize.minimize_scalar(
                lambda log_tau: -self.log_evidence(log_tau),
                bounds=bounds,
                method="bounded",
                options={"xatol": SCALE_TOLERANCE},
            )
            return np.exp(np.atleast_1d(found.x))

        def minus(log_tau):
            value, slope = self.log_evidence(log_tau, gradient=True)
            return -value, -slope

        found = scipy.optimize.minimize(
            minus,
            np.zeros(self.prior.n_groups),
            jac=True,
            method="L-BFGS-B",
            bounds=[TERM_SCALE] * self.prior.n_groups,
        )
        if found.status == 1:
            warnings.warn(
                f"The search for prior scales did not converge: {found.message}. Give a number as prior_scale.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return np.exp(found.x)


def _evidence_gradient(prior, tau, scale, Z, t, solver, third, v):
    """Return the gradient: the explicit dependence on the prior, and that of the curvature through the mode."""
    covariance = solver.solve(np.eye(len(scale)))
    of_prior, of_posterior = prior.derivative_traces(tau, covariance * np.outer(scale, scale))
    theta = scale * t
    pulls = np.stack([prior.apply_derivative(tau, g, theta) for g in range(prior.n_groups)], axis=1)
    explicit = 0.5 * (of_prior - of_posterior - theta @ pulls / v)
    if not third.any():
        return explicit
    through_mode = 0.5 * Z.multiply(Z @ covariance).sum(axis=1) * third
    # `third` is minus the third derivative; the mode moves by -H^-1 dLambda theta.
    return explicit + through_mode @ (Z @ (covariance @ (scale[:, None] * pulls)))
