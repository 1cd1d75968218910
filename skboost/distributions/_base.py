"""What all predicted distributions have in common."""

import numpy as np
from sklearn.utils import check_random_state


class Distribution:
    """Base of the predicted distributions: one distribution per row, held as arrays of parameters.

    A family says its parameters, moments, ``cdf``, ``logpdf``, quantiles and mean distances; everything else follows.
    """

    # Names of the parameters in the order of the constructor, and those that must be above 0.
    _names = ()
    _positive = ()
    is_discrete = False

    def __init__(self, *values):
        arrays = [np.asarray(value, dtype=np.float64) for value in values]
        for name, array in zip(self._names, arrays, strict=True):
            if not np.isfinite(array).all():
                raise ValueError(f"{type(self).__name__} needs finite numbers as {name}.")
            if name in self._positive and not (array > 0).all():
                raise ValueError(f"{type(self).__name__} needs {name} above 0, got {array.min():g}.")
        arrays = np.broadcast_arrays(*(np.atleast_1d(array) for array in arrays))
        self._values = tuple(np.array(array) for array in arrays)
        for array in self._values:
            array.flags.writeable = False

    def __getattr__(self, name):
        # Parameters that are no properties already, as a mean may be.
        if name in type(self)._names and "_values" in vars(self):
            return self._values[self._names.index(name)]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self):
        return [*super().__dir__(), *self._names]

    def __len__(self):
        return self._values[0].shape[-1]

    def __getitem__(self, rows):
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        return type(self)(*(value[..., rows] for value in self._values))

    def __repr__(self):
        averages = ", ".join(f"{name}={value.mean():.4g}" for name, value in self.parameters.items() if value.size)
        return f"{type(self).__name__}(n={len(self)}" + (f"; averages: {averages})" if averages else ")")

    @property
    def _shape(self):
        return self._values[0].shape

    @property
    def parameters(self):
        """Arrays of the parameters by their names, read-only."""
        return dict(zip(self._names, self._values, strict=True))

    # ---- moments

    @property
    def mean(self):
        """Expected values."""
        raise NotImplementedError

    @property
    def variance(self):
        """Variances."""
        raise NotImplementedError

    @property
    def std(self):
        """Standard deviations."""
        return np.sqrt(self.variance)

    @property
    def median(self):
        """Medians: quantiles of 0.5."""
        return self.quantile(0.5)

    # ---- functions of values

    def cdf(self, y):
        """Return the probability of a value of at most y.

        Parameters
        ----------
        y : array-like
            Values that broadcast against the rows, such as one number or one per row.

        Returns
        -------
        ndarray
            Probabilities.
        """
        return self._cdf(np.asarray(y, dtype=np.float64))

    def _cdf(self, y):
        """Return cumulative probabilities of an array of values."""
        raise NotImplementedError

    def logpdf(self, y):
        """Return the logarithm of the density at y, for counts that of the probability of y.

        Parameters
        ----------
        y : array-like
            Values that broadcast against the rows.

        Returns
        -------
        ndarray
            Logarithms in nats, minus infinity where y is impossible. Minus their mean over the rows of a test set is
            the negative log-likelihood.
        """
        return self._logpdf(np.asarray(y, dtype=np.float64))

    def _logpdf(self, y):
        """Return log densities or log probabilities of an array of values."""
        raise NotImplementedError

    def quantile(self, p):
        """Return the smallest values whose cumulative probability is at least p.

        Parameters
        ----------
        p : float or array-like
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape ``p.shape + (n_rows,)``
            Quantiles; the ends of the support for 0 and 1.

        Raises
        ------
        ValueError
            If a probability lies outside [0, 1].
        """
        p = np.asarray(p, dtype=np.float64)
        if not ((p >= 0) & (p <= 1)).all():
            raise ValueError(f"p must lie in [0, 1], got {p!r}.")
        return self._quantile(p[..., None])

    def _quantile(self, p):
        """Return quantiles of probabilities that broadcast against the parameters."""
        raise NotImplementedError

    def interval(self, confidence):
        """Return the central interval of a probability.

        Parameters
        ----------
        confidence : float
            Probability in [0, 1] of a value inside; for counts at least that.

        Returns
        -------
        low, high : ndarray of shape (n_rows,)
            Quantiles of ``(1 - confidence) / 2`` and ``(1 + confidence) / 2``.

        Raises
        ------
        ValueError
            If `confidence` is no number in [0, 1].
        """
        if np.ndim(confidence) or not 0 <= confidence <= 1:
            raise ValueError(f"confidence must be a number in [0, 1], got {confidence!r}.")
        return self.quantile(0.5 - confidence / 2), self.quantile(0.5 + confidence / 2)

    def crps(self, y):
        """Return the continuous ranked probability score, the integral of (cdf(x) - [x >= y])^2 over x.

        Parameters
        ----------
        y : array-like
            Observed values that broadcast against the rows.

        Returns
        -------
        ndarray
            Scores in the unit of y, lower is better. It equals ``E|X - y| - E|X - X'| / 2`` for independent draws X and
            X' of the distribution.
        """
        return self._distance_to(np.asarray(y, dtype=np.float64)) - self._half_spread()

    def _distance_to(self, y):
        """Return E|X - y|."""
        raise NotImplementedError

    def _half_spread(self):
        """Return E|X - X'| / 2."""
        raise NotImplementedError

    def sample(self, n_samples=1, random_state=None):
        """Draw values.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws of every row.
        random_state : int, RandomState instance or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_samples, n_rows)
            Independent draws.

        Raises
        ------
        ValueError
            If `n_samples` is below 0.
        """
        if n_samples < 0:
            raise ValueError(f"n_samples must be at least 0, got {n_samples!r}.")
        return self._sample(check_random_state(random_state), (n_samples, *self._shape))

    def _sample(self, rng, shape):
        raise NotImplementedError


def take_members(distribution, members):
    """Return the distribution of some of the leading axis of the parameters."""
    return type(distribution)(*(value[members] for value in distribution._values))
