"""Split conformal prediction on arrays: scores of held-out rows, their quantile, intervals and sets of classes.

A score says how badly a target fits its prediction. If the score of a new row is exchangeable with those of n held-out
rows, it is at most the ceil((n + 1)(1 - alpha))-th smallest of them with probability of at least 1 - alpha, whatever
the model is worth (V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005).
"""

import math
import numbers
from dataclasses import dataclass

import numpy as np

# The sums of weights that ranks are compared with carry rounding of this relative size.
SLACK = 1e-12


def check_alpha(alpha):
    """Return the allowed share of misses as a float, or raise ValueError."""
    if isinstance(alpha, (bool, np.bool_)) or not isinstance(alpha, numbers.Real) or not 0 < alpha < 1:
        raise ValueError(f"alpha must be a float in the range (0, 1), got {alpha!r}.")
    return float(alpha)


@dataclass(frozen=True)
class Calibration:
    """Scores of the held-out rows, ascending, with the running sums of their weights.

    Attributes
    ----------
    scores : ndarray of shape (n_rows,)
    cumulative_weight : ndarray of shape (n_rows,)
    """

    scores: np.ndarray
    cumulative_weight: np.ndarray

    @classmethod
    def of(cls, scores, weights=None):
        """Sort scores; a row of the whole-number weight w counts as w rows."""
        order = np.argsort(scores, kind="stable")
        weights = np.ones(len(scores)) if weights is None else weights
        return cls(scores[order], np.cumsum(weights[order]))

    @property
    def total_weight(self):
        """Number of held-out rows, a float; with weights, their sum."""
        return float(self.cumulative_weight[-1])

    def quantile(self, alpha):
        """Return the score that a new row, of weight 1, exceeds with probability of at most alpha.

        Parameters
        ----------
        alpha : float
            Allowed share of misses, between 0 and 1 exclusive.

        Returns
        -------
        float
            The smallest held-out score up to which lies a weight of at least ``(1 - alpha)(W + 1)``, W being the total
            weight.

        Raises
        ------
        ValueError
            If there are too few rows for this alpha: the quantile would be infinite.
        """
        alpha = check_alpha(alpha)
        total = self.total_weight + 1.0
        wanted = total - alpha * total - SLACK * total
        rank = int(np.searchsorted(self.cumulative_weight, wanted))
        if rank == len(self.scores):
            raise ValueError(
                f"Too little data to calibrate at alpha={alpha:g}: need at least {least_rows(alpha)} held-out rows, "
                f"got {self.total_weight:g}. Use a larger alpha, a larger calibration_fraction, or more data."
            )
        return float(self.scores[rank])


def least_rows(alpha):
    """Return the least number of held-out rows that allow the share alpha of misses."""
    return max(1, math.ceil(1.0 / alpha * (1.0 - SLACK)) - 1)


# ---- regression ------------------------------------------------------------------------------------------------------


def scales(kind, result, variance):
    """Return the widths of intervals up to a common factor; they know no target of the rows.

    Parameters
    ----------
    kind : {"total", "knowledge", "constant"}
        What widths follow.
    result : Uncertainty
        Of the rows.
    variance : float or None
        Positive variance that "knowledge" is added to.

    Returns
    -------
    ndarray of shape (n_samples,)
        Positive, in units of the target; 1 for "constant".

    Raises
    ------
    ValueError
        If the total uncertainty of a row is 0.
    """
    if kind == "constant":
        return np.ones(len(result.mean))
    if kind == "knowledge":
        return np.sqrt(result.knowledge + variance)
    if not (result.total > 0).all():
        raise ValueError("conformity_score='total' needs a positive total uncertainty, which is 0 for some rows.")
    return np.sqrt(result.total)


def residual_scores(y, mean, scale):
    """Return absolute residuals in units of the scale, which must be positive and must not know y."""
    return np.abs(y - mean) / scale


def intervals(mean, scale, quantile):
    """Return the targets of a score of at most the quantile as lower and upper ends, shape (n_samples, 2)."""
    return np.stack([mean - quantile * scale, mean + quantile * scale], axis=1)


# ---- classification --------------------------------------------------------------------------------------------------


def class_scores(probabilities, kind):
    """Return the score that each row would have if it were of each class.

    Parameters
    ----------
    probabilities : ndarray of shape (n_samples, n_classes)
        Predicted probabilities.
    kind : {"lac", "aps"}
        "lac": the probability of all other classes. "aps": that of all classes likelier than this one.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Scores, between 0 and 1.
    """
    if kind == "lac":
        return 1.0 - probabilities
    scores = np.empty_like(probabilities)
    for k in range(probabilities.shape[1]):
        likelier = probabilities > probabilities[:, [k]]
        scores[:, k] = np.where(likelier, probabilities, 0.0).sum(axis=1)
    return scores


def true_scores(scores, y):
    """Return the scores of the true classes, given by their positions."""
    return scores[np.arange(len(scores)), y]
