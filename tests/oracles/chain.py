"""Laws of Langevin boosting on fixed trees, and the recurrence of the shrunk scores: no shared code with skboost."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LeafLaw:
    """Stationary law of one leaf under squared loss, an autoregression of order one.

    Attributes
    ----------
    weight, target : float
        Weight sum W of the leaf and its weighted mean target, less the base score.
    learning_rate, temperature, shrink_rate, l2 : float
        eps, T (inverse temperature per row), gamma and lambda.
    """

    weight: float
    target: float
    learning_rate: float
    temperature: float
    shrink_rate: float
    l2: float = 0.0

    @property
    def shrink(self):
        return 1.0 - self.shrink_rate * self.learning_rate

    @property
    def sigma(self):
        """Standard deviation of the noise on the gradient of one row."""
        return np.sqrt(2.0 / (self.learning_rate * self.temperature))

    @property
    def correlation(self):
        """Of two states one iteration apart: shrink first, then a step along the gradient at the shrunk state."""
        return self.shrink * (1.0 - self.learning_rate * self.weight / (self.weight + self.l2))

    @property
    def mean(self):
        step = self.learning_rate * self.weight / (self.weight + self.l2)
        return step * self.target / (1.0 - self.correlation)

    @property
    def variance(self):
        noise = self.learning_rate**2 * self.sigma**2 / (self.weight + self.l2)
        return noise / (1.0 - self.correlation**2)


def replay(trees, shrinks, leaf_of_rows, codes, n_outputs=1):
    """Scores after every iteration: F <- F * s_t + value of the leaf, in float64, first to last."""
    scores = np.zeros((n_outputs, len(codes)))
    history = []
    for tree, shrink in zip(trees, shrinks, strict=True):
        scores = scores * shrink + tree["leaf_value"][leaf_of_rows(tree, codes)].T
        history.append(scores.copy())
    return history


def autocorrelation(series):
    """Correlation of a series with itself one step later."""
    centred = series - series.mean()
    return float(np.sum(centred[1:] * centred[:-1]) / np.sum(centred**2))
