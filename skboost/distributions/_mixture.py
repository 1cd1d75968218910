"""Equal mixtures of distributions: what the members of a virtual ensemble predict together."""

import numpy as np
from scipy.special import logsumexp

from skboost.distributions._base import Distribution, take_members
from skboost.distributions._counts import count_quantile

# A mixture of counts that reaches over more counts than this is scored at so many of them, evenly spread, and at a
# quarter as many in geometric progression.
MOST_COUNTS = 8192
# Counts outside these quantiles of the members do not count in scores.
TAIL = 1e-13
BLOCK_VALUES = 2_000_000


class Mixture(Distribution):
    """Equal mixtures of the distributions of several members.

    `predict_distribution` of an estimator returns one when it is asked for members: each is a state of the chain, and
    the mixture is the distribution of a new observation when one does not know which of them is right.

    Parameters
    ----------
    components : Distribution
        Distributions whose parameters have the shape (n_members, n_rows).

    Attributes
    ----------
    components : Distribution
        Those of the members.
    n_members : int
        Number of members.

    Examples
    --------
    >>> from skboost.distributions import Mixture, Normal
    >>> d = Mixture(Normal([[1.0], [3.0]], [[0.5**0.5], [0.25**0.5]]))
    >>> d.mean, d.variance, d.knowledge
    (array([2.]), array([1.375]), array([1.]))
    """

    def __init__(self, components):
        if not isinstance(components, Distribution) or isinstance(components, Mixture):
            raise TypeError(f"components must be a distribution of one family, got {type(components).__name__}.")
        if components._values[0].ndim != 2 or not len(components._values[0]):
            raise ValueError(
                "components need parameters of shape (n_members, n_rows) with at least one member, got "
                f"{components._values[0].shape}."
            )
        self.components = components

    def __getattr__(self, name):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __len__(self):
        return len(self.components)

    def __getitem__(self, rows):
        return Mixture(self.components[rows])

    def __repr__(self):
        return f"Mixture(n={len(self)}, n_members={self.n_members}, family={type(self.components).__name__})"

    @property
    def n_members(self):
        """Number of members."""
        return self.components._values[0].shape[0]

    @property
    def is_discrete(self):
        """Whether values are counts."""
        return self.components.is_discrete

    @property
    def parameters(self):
        """Arrays of the members' parameters by their names, of shape (n_members, n_rows), read-only."""
        return self.components.parameters

    @property
    def mean(self):
        """Expected values: means of the members' means."""
        return self.components.mean.mean(axis=0)

    @property
    def variance(self):
        """Variances: `knowledge` plus the mean of the members' variances."""
        return self.knowledge + self.components.variance.mean(axis=0)

    @property
    def knowledge(self):
        """Variances of the members' means."""
        return self.components.mean.var(axis=0)

    @property
    def _shape(self):
        return (len(self),)

    def _over_members(self, function, y):
        """Apply a method of the components to values that broadcast against the rows; members come first."""
        y = np.asarray(y, dtype=np.float64)
        shape = np.broadcast_shapes(y.shape, (len(self),))
        return np.stack([function(take_members(self.components, k), y) for k in range(self.n_members)]).reshape(
            self.n_members, *shape
        )

    def _cdf(self, y):
        return self._over_members(lambda member, values: member._cdf(values), y).mean(axis=0)

    def _logpdf(self, y):
        logs = self._over_members(lambda member, values: member._logpdf(values), y)
        return logsumexp(logs, axis=0) - np.log(self.n_members)

    def logpmf(self, y):
        """Return the logarithm of the probability of y, for mixtures of counts.

        Parameters
        ----------
        y : array-like
            Values that broadcast against the rows.

        Returns
        -------
        ndarray
            Logarithms in nats, minus infinity where y is no count. The same as `logpdf`.

        Raises
        ------
        ValueError
            If the components are not distributions of counts.
        """
        if not self.is_discrete:
            raise ValueError(f"logpmf needs counts; a mixture of {type(self.components).__name__} has logpdf.")
        return self.logpdf(y)

    def _quantile(self, p):
        each = self._over_members(lambda member, values: member._quantile(values), p)
        low, high = each.min(axis=0), each.max(axis=0)
        if self.is_discrete:
            return count_quantile(self._cdf, p, low - 1, high)
        return _bisect(self._cdf, p, low, high)

    def _distance_to(self, y):
        return self._over_members(lambda member, values: member._distance_to(values), y).mean(axis=0)

    def _half_spread(self):
        if self.is_discrete:
            return self._count_half_spread()
        total = self.components._half_spread().sum(axis=0)
        for k in range(self.n_members - 1):
            rest = take_members(self.components, slice(k + 1, None))
            total += take_members(self.components, slice(k, k + 1))._distance_between(rest).sum(axis=0)
        return total / self.n_members**2

    def _count_half_spread(self):
        """Return the sum of F (1 - F) over the counts."""
        low = self.components._quantile(np.full((1, 1), TAIL)).min(axis=0)
        high = self.components._quantile(np.full((1, 1), 1 - TAIL)).max(axis=0)
        stride = np.maximum(1.0, np.ceil((high - low) / MOST_COUNTS))
        n_nodes = np.ceil((high - low) / stride) + 1
        found = np.empty(len(self))
        order = np.argsort(n_nodes, kind="stable")
        start = 0
        while start < len(order):
            # Rows of similar numbers of nodes share a table.
            stop = start + 1
            while stop < len(order) and (stop + 1 - start) * n_nodes[order[stop]] * self.n_members < BLOCK_VALUES:
                stop += 1
            rows = order[start:stop]
            nodes = low[rows] + stride[rows] * np.arange(n_nodes[rows[-1]])[:, None]
            if stride[rows].max() > 1:
                # Small sizes crowd near the lower end, whatever the upper one is.
                near = np.floor(np.geomspace(np.ones(len(rows)), np.maximum(high - low, 1.0)[rows], MOST_COUNTS // 4))
                nodes = np.sort(np.concatenate([nodes, low[rows] + near]), axis=0)
            below = self[rows]._cdf(nodes)
            values = below * (1 - below)
            # The sum over the counts of an interval, its lower end included, by Euler and Maclaurin's rule.
            width = np.diff(nodes, axis=0)
            inner = 0.5 * (width * (values[:-1] + values[1:]) + np.sign(width) * (values[:-1] - values[1:]))
            found[rows] = inner.sum(axis=0) + values[-1]
            start = stop
        return found

    def _sample(self, rng, shape):
        draws = self.components._sample(rng, (shape[0], self.n_members, len(self)))
        member = rng.randint(self.n_members, size=(shape[0], 1, len(self)))
        return np.take_along_axis(draws, member, axis=1)[:, 0]


def _bisect(cdf, p, low, high):
    """Return the roots of cdf(x) = p between bounds, to the last digits of x."""
    # 0 and 1 have the ends of the support, which the members share.
    while True:
        with np.errstate(invalid="ignore"):
            middle = np.where(np.isfinite(low) & np.isfinite(high), low + 0.5 * (high - low), low)
        open_ = (middle > low) & (middle < high)
        if not open_.any():
            return high
        enough = cdf(middle) >= p
        high = np.where(open_ & enough, middle, high)
        low = np.where(open_ & ~enough, middle, low)
