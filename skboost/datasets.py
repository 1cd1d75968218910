"""Generated data of which the truth is known: what can be learnt, what is noise, and where no data are."""

import dataclasses
import numbers

import numpy as np
from scipy import special
from sklearn import utils

from skboost import _compat

__all__ = ["GaussianGrid", "make_gap", "make_gaussian_grid", "make_heteroscedastic", "make_spiral"]

# Angle that an arm of the spiral turns through.
_SPIRAL_ANGLE = 6 * np.pi
_COUNT = _compat.Interval(numbers.Integral, 1, None, closed="left")
_NOT_NEGATIVE = _compat.Interval(numbers.Real, 0, None, closed="left")


# ---- classification --------------------------------------------------------------------------------------------------


@_compat.validate_params(
    {
        "n_samples": [_COUNT],
        "n_classes": [_compat.Interval(numbers.Integral, 2, None, closed="left")],
        "noise": [_NOT_NEGATIVE],
        "derived_features": ["boolean"],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_spiral(n_samples=1500, *, n_classes=3, noise=0.4, derived_features=False, random_state=None):
    """Make interlocked spirals whose noise grows with the distance from the centre.

    Class c of C has the points ``(-t**2 cos(t + a), t**2 sin(t + a))`` plus normal noise of standard deviation ``noise
    * t**1.5`` in both coordinates, where ``a = 2 pi c / C``, ``t = 6 pi sqrt(u)`` and u is uniform on [0, 1]. The arms
    overlap in their outer turns and end at a radius of about 355; beyond are no data. On these points knowledge and
    data uncertainty of boosted trees were first told apart [1]_.

    Parameters
    ----------
    n_samples : int, default=1500
        Number of points of each class.
    n_classes : int, default=3
        Number of arms, at least 2.
    noise : float, default=0.4
        Factor of the noise, at least 0.
    derived_features : bool, default=False
        Nine features instead of two: x, y, x + y, x - y, 2x + y, x - 2y, x + 2y, 2x - y and the radius, so that trees
        with axis-parallel splits can follow the arms.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws: for each class u, then the noise of x, then that of y. 24 gives the training points of [1]_
        and 51 its evaluation points, which are stored there in single precision.

    Returns
    -------
    X : ndarray of shape (n_classes * n_samples, 2) or (n_classes * n_samples, 9)
        Points, class after class.
    y : ndarray of shape (n_classes * n_samples,)
        Classes, numbered from 0.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    References
    ----------
    .. [1] A. Malinin, L. Prokhorenkova and A. Ustimenko, "Uncertainty in Gradient Boosting via Ensembles", ICLR 2021,
       arXiv:2006.10562; points as in its repository, yandex-research/GBDT-uncertainty.

    Examples
    --------
    >>> from skboost.datasets import make_spiral
    >>> X, y = make_spiral(100, random_state=0)
    >>> X.shape, y[[0, 100, 200]].tolist()
    ((300, 2), [0, 1, 2])
    """
    generator = utils.check_random_state(random_state)
    offsets = 2 * np.pi * np.arange(n_classes) / n_classes
    X = np.concatenate([_spiral_arm(n_samples, offset, noise, generator) for offset in offsets])
    return _spiral_features(X) if derived_features else X, np.repeat(np.arange(n_classes), n_samples)


def _spiral_arm(n_samples, offset, noise, generator):
    t = _SPIRAL_ANGLE * np.sqrt(generator.uniform(size=n_samples))
    sd = noise * t**1.5
    x = -(t**2) * np.cos(t + offset) + sd * generator.normal(size=n_samples)
    y = t**2 * np.sin(t + offset) + sd * generator.normal(size=n_samples)
    return np.column_stack([x, y])


def _spiral_features(X):
    x, y = X.T
    return np.column_stack([x, y, x + y, x - y, 2 * x + y, x - 2 * y, x + 2 * y, 2 * x - y, np.hypot(x, y)])


# ---- a density with many modes ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class GaussianGrid:
    """Equal mixture of round Gaussians on a square grid: a density that a Langevin chain finds hard to explore.

    The default is the target of the experiments with cyclical step sizes [1]_: 25 modes of variance 0.03 at {-4, -2, 0,
    2, 4} squared. A chain with small steps stays in the mode it first finds.

    Parameters
    ----------
    n_per_side : int, default=5
        The modes form a square of this side, centred at the origin.
    spacing : float, default=2.0
        Distance of neighbouring means.
    variance : float, default=0.03
        Variance of each component in both coordinates.

    References
    ----------
    .. [1] R. Zhang, C. Li, J. Zhang, C. Chen and A. G. Wilson, "Cyclical Stochastic Gradient MCMC for Bayesian Deep
       Learning", ICLR 2020, arXiv:1902.03932.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.datasets import GaussianGrid
    >>> grid = GaussianGrid()
    >>> grid.means.shape
    (25, 2)
    >>> rng = np.random.default_rng(0)
    >>> x, step = np.zeros((1, 2)), 0.01
    >>> for _ in range(100):
    ...     x = x + step * grid.gradient(x) + np.sqrt(2 * step) * rng.normal(size=x.shape)
    >>> bool(np.abs(x).max() < 1)
    True
    """

    n_per_side: int = 5
    spacing: float = 2.0
    variance: float = 0.03

    def __post_init__(self):
        if not isinstance(self.n_per_side, numbers.Integral) or self.n_per_side < 1:
            raise ValueError(f"n_per_side must be an integer of at least 1, got {self.n_per_side!r}.")
        for name in ("spacing", "variance"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a positive finite number, got {getattr(self, name)!r}.")

    @property
    def means(self):
        """Means of the components, ndarray of shape (n_per_side ** 2, 2), the second coordinate running first."""
        side = self.spacing * (np.arange(self.n_per_side) - (self.n_per_side - 1) / 2)
        return np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)

    def log_density(self, X):
        """Return the logarithm of the density, which integrates to 1.

        Parameters
        ----------
        X : array-like of shape (n_samples, 2)
            Points.

        Returns
        -------
        ndarray of shape (n_samples,)
            Logarithms of the mean of the components' densities.
        """
        log_weights = self._log_weights(self._offsets(X))
        return special.logsumexp(log_weights, axis=1) - np.log(2 * np.pi * self.variance * self.n_per_side**2)

    def gradient(self, X):
        """Return the gradient of `log_density`, the drift of a Langevin chain.

        Parameters
        ----------
        X : array-like of shape (n_samples, 2)
            Points.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Pull towards each mean, ``(mean - x) / variance``, averaged with the posterior weights of the components.
        """
        offsets = self._offsets(X)
        return np.einsum("nk,nkd->nd", special.softmax(self._log_weights(offsets), axis=1), offsets) / self.variance

    def sample(self, n_samples=1, *, random_state=None):
        """Draw independent points.

        Parameters
        ----------
        n_samples : int, default=1
            Number of points.
        random_state : int, RandomState instance or None, default=None
            Seed of the draws.

        Returns
        -------
        X : ndarray of shape (n_samples, 2)
            Points.
        y : ndarray of shape (n_samples,)
            Rows of `means` that they were drawn around.
        """
        generator = utils.check_random_state(random_state)
        means = self.means
        y = generator.randint(len(means), size=n_samples)
        return means[y] + np.sqrt(self.variance) * generator.normal(size=(n_samples, 2)), y

    def _offsets(self, X):
        X = utils.check_array(X, dtype=np.float64)
        if X.shape[1] != 2:
            raise ValueError(f"X must have two columns, got {X.shape[1]}.")
        return self.means - X[:, None, :]

    def _log_weights(self, offsets):
        return -0.5 * np.square(offsets).sum(axis=2) / self.variance


@_compat.validate_params({"n_samples": [_COUNT], "random_state": ["random_state"]}, prefer_skip_nested_validation=True)
def make_gaussian_grid(n_samples=1000, *, random_state=None):
    """Draw points from 25 Gaussians on a grid, the default `GaussianGrid`.

    The density is the mean of the normal densities of covariance 0.03 I around the points of {-4, -2, 0, 2, 4} squared
    [1]_. The mean is 0 and the covariance 8.03 I.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of points.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points.
    y : ndarray of shape (n_samples,)
        Component of each point, 0 to 24, as a row of ``GaussianGrid().means``.

    See Also
    --------
    GaussianGrid : The density and its gradient.

    References
    ----------
    .. [1] R. Zhang, C. Li, J. Zhang, C. Chen and A. G. Wilson, "Cyclical Stochastic Gradient MCMC for Bayesian Deep
       Learning", ICLR 2020, arXiv:1902.03932.

    Examples
    --------
    >>> from skboost.datasets import make_gaussian_grid
    >>> X, y = make_gaussian_grid(500, random_state=0)
    >>> X.shape, len(set(y.tolist()))
    ((500, 2), 25)
    """
    return GaussianGrid().sample(n_samples, random_state=random_state)


# ---- regression ------------------------------------------------------------------------------------------------------


@_compat.validate_params(
    {"n_samples": [_COUNT], "return_moments": ["boolean"], "random_state": ["random_state"]},
    prefer_skip_nested_validation=True,
)
def make_heteroscedastic(n_samples=200, *, return_moments=False, random_state=None):
    """Make a sine whose noise grows along the axis: a known data uncertainty.

    x is uniform on [0, 1] and y normal with mean ``2 sin(2 pi x)`` and standard deviation ``0.5 + x`` [1]_.

    Parameters
    ----------
    n_samples : int, default=200
        Number of points.
    return_moments : bool, default=False
        Return also the mean and the standard deviation of y at each point.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
        Points.
    y : ndarray of shape (n_samples,)
        Target.
    mean : ndarray of shape (n_samples,)
        Expected value of y given x; only with `return_moments`.
    sd : ndarray of shape (n_samples,)
        Standard deviation of y given x; only with `return_moments`.

    References
    ----------
    .. [1] P. W. Goldberg, C. K. I. Williams and C. M. Bishop, "Regression with Input-dependent Noise: A Gaussian
       Process Treatment", NIPS 1997.

    Examples
    --------
    >>> from skboost.datasets import make_heteroscedastic
    >>> X, y, mean, sd = make_heteroscedastic(3, return_moments=True, random_state=0)
    >>> bool((sd == 0.5 + X[:, 0]).all())
    True
    """
    generator = utils.check_random_state(random_state)
    x = generator.uniform(size=n_samples)
    mean, sd = 2 * np.sin(2 * np.pi * x), 0.5 + x
    y = mean + sd * generator.normal(size=n_samples)
    X = x[:, None]
    return (X, y, mean, sd) if return_moments else (X, y)


@_compat.validate_params(
    {
        "n_samples": [_COUNT],
        "noise": [_NOT_NEGATIVE],
        "return_function": ["boolean"],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_gap(n_samples=200, *, noise=0.1, return_function=False, random_state=None):
    """Make a curve with a hole in the data: knowledge uncertainty should be high in it.

    x is uniform on the union of [0, 1] and [2, 3], and y is ``sin(3 x) + x / 2`` plus normal noise. No point lies in
    (1, 2), where the curve dips from 0.64 to -0.23 and comes back to 0.72.

    Parameters
    ----------
    n_samples : int, default=200
        Number of points.
    noise : float, default=0.1
        Standard deviation of the noise.
    return_function : bool, default=False
        Return also the curve without noise.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
        Points.
    y : ndarray of shape (n_samples,)
        Target.
    function : callable
        Takes points of shape (n, 1), those in the gap too, and returns values of shape (n,); only with
        `return_function`.

    Examples
    --------
    >>> from skboost.datasets import make_gap
    >>> X, y, function = make_gap(5, noise=0, return_function=True, random_state=0)
    >>> bool((y == function(X)).all()), bool(((X <= 1) | (X >= 2)).all())
    (True, True)
    """
    generator = utils.check_random_state(random_state)
    x = generator.uniform(0, 2, size=n_samples)
    X = np.where(x < 1, x, x + 1)[:, None]
    y = _gap_curve(X) + noise * generator.normal(size=n_samples)
    return (X, y, _gap_curve) if return_function else (X, y)


def _gap_curve(X):
    x = np.asarray(X, dtype=np.float64)[:, 0]
    return np.sin(3 * x) + x / 2
