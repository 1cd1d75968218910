"""The evidence as a function of the kernel's hyper-parameters, and the search for its maximum."""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning

from skboost.gaussian_process._ep import ep_gradient, expectation_propagation
from skboost.gaussian_process._laplace import laplace, laplace_gradient

# The largest change of a site in a last sweep: log Z is stationary in the sites, so it is then settled far beyond tol.
SITE_TOLERANCE = 1e-3
# L-BFGS-B stops by the gradient, not by a change of the evidence that is small because the path was.
OPTIMIZER_OPTIONS = {"ftol": 1e-14, "gtol": 1e-6}
# A Laplace posterior is too wide beyond this many times the variance of the link (see the user guide).
LARGEST_PRIOR_VARIANCE = 25.0
# Relative distance to a bound, in log space, at which the optimum counts as lying on it; scikit-learn's.
AT_BOUND = 1e-2


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that the evidence depends on besides the kernel.

    Attributes
    ----------
    X : ndarray or sequence of length n
        Training rows, as the kernel takes them.
    signs : ndarray of shape (n,)
        Labels, -1 or +1.
    weights : ndarray of shape (n,) or float
        Positive weights of the rows.
    link : Probit or Logit
        Link.
    approximation : {"laplace", "ep"}
        What finds the posterior.
    max_iter : int
        Most Newton steps, or sweeps.
    tol : float
        Relative tolerance of Newton's method.
    """

    X: object
    signs: np.ndarray
    weights: object
    link: type
    approximation: str
    max_iter: int
    tol: float

    def posterior(self, K, start=None):
        """Return the posterior for a Gram matrix."""
        if self.approximation == "ep":
            tol = SITE_TOLERANCE * np.sqrt(self.tol)
            return expectation_propagation(K, self.signs, max_iter=self.max_iter, tol=tol, start=start)
        return laplace(K, self.signs, self.weights, self.link, max_iter=self.max_iter, tol=self.tol, start=start)

    def gradient(self, posterior, K, dK):
        """Return the gradient of the log evidence."""
        return ep_gradient(posterior, dK) if self.approximation == "ep" else laplace_gradient(posterior, K, dK)

    def evidence(self, kernel, *, eval_gradient=False, start=None):
        """Return log evidence, its gradient or None, and the start for a problem close by."""
        if not eval_gradient:
            posterior = self.posterior(kernel(self.X), start)
            return posterior.log_evidence, None, posterior.start
        K, dK = kernel(self.X, eval_gradient=True)
        posterior = self.posterior(K, start)
        return posterior.log_evidence, self.gradient(posterior, K, dK), posterior.start


def maximize_evidence(problem, kernel, optimizer, thetas, *, warm_start=False):
    """Set the kernel's hyper-parameters to those of the largest evidence found.

    Parameters
    ----------
    problem : Problem
        Training rows and approximation.
    kernel : Kernel
        Kernel with free hyper-parameters; changed in place.
    optimizer : "fmin_l_bfgs_b" or callable
        As `LaplaceGPClassifier` takes it.
    thetas : sequence of ndarray of shape (p,)
        Points to start from, logarithms of the hyper-parameters.
    warm_start : bool, default=False
        Whether each evaluation starts from the posterior of the one before.
    """
    bounds, last = kernel.bounds, [None]

    def objective(theta, eval_gradient=True):
        kernel.theta = theta
        value, gradient, start = problem.evidence(
            kernel, eval_gradient=eval_gradient, start=last[0] if warm_start else None
        )
        last[0] = start
        return (-value, -gradient) if eval_gradient else -value

    optima = [_minimize(objective, theta, bounds, optimizer) for theta in thetas]
    kernel.theta = min(optima, key=lambda optimum: optimum[1])[0]
    _warn_at_bounds(kernel)


def _minimize(objective, theta, bounds, optimizer):
    if callable(optimizer):
        return optimizer(objective, theta, bounds=bounds)
    result = scipy.optimize.minimize(
        objective, theta, method="L-BFGS-B", jac=True, bounds=bounds, options=OPTIMIZER_OPTIONS
    )
    # Status 2 ends a line search that finds no better point: at an optimum that is known to rounding, this is one.
    status = result.get("status", 0)  # none where the bounds leave nothing to search
    if status == 1 or (status == 2 and np.max(np.abs(_projected(result, bounds))) > 1e-3):
        warnings.warn(
            f"The search for the kernel's hyper-parameters has not converged: {result.message}",
            ConvergenceWarning,
            stacklevel=5,
        )
    return result.x, result.fun


def _projected(result, bounds):
    """Return the gradient at the result without what would lead out of the bounds."""
    return result.x - np.clip(result.x - result.jac, bounds[:, 0], bounds[:, 1])


def _warn_at_bounds(kernel):
    """Warn of hyper-parameters whose optimum is an end of their range."""
    names = [
        parameter.name if parameter.n_elements == 1 else f"{parameter.name}[{element}]"
        for parameter in kernel.hyperparameters
        if not parameter.fixed
        for element in range(parameter.n_elements)
    ]
    ends = kernel.bounds
    for name, value, bound in zip(names, kernel.theta, ends, strict=True):
        for side, end in zip(("lower", "upper"), bound, strict=True):
            if np.isclose(value, end, rtol=AT_BOUND):
                warnings.warn(
                    f"The optimum of the hyper-parameter {name} lies close to the {side} bound {np.exp(end):.6g}. "
                    "Widening its bounds may find a larger evidence.",
                    ConvergenceWarning,
                    stacklevel=5,
                )


def warn_of_wide_prior(problem, K):
    """Warn where Laplace's method chose, and is known to misjudge, a large prior variance."""
    variance = float(np.mean(K.diagonal()))
    if problem.approximation == "laplace" and variance > LARGEST_PRIOR_VARIANCE * problem.link.variance:
        warnings.warn(
            f"The chosen kernel has the prior variance {variance:.3g}. At such variances Laplace's method gives "
            "probabilities too close to 1/2 and an evidence too large: use link='probit' with approximation='ep', or "
            "bound the variance of the kernel.",
            UserWarning,
            stacklevel=4,
        )
