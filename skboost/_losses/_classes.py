"""Log losses of classes."""

import math

import numpy as np
from scipy.special import expit, log_expit

from skboost._losses._base import LEAST_CURVATURE, LOG_ODDS_MAX, MIN_SHARE, Loss, class_weights, weighted_mean


class BinaryLogLoss(Loss):
    """Log loss of two classes; the raw score is the log-odds of class 1, predictions are both probabilities."""

    name = "log_loss"
    kind = 2
    largest_score = LOG_ODDS_MAX
    uncertainty = "classes"

    def strata(self, y):
        return y

    def base_score(self, y, sample_weight=None):
        # Two logarithms rather than that of the odds: swapping the labels negates the base score exactly.
        if sample_weight is None:
            ones = np.count_nonzero(y) / len(y)
            zeros = (len(y) - np.count_nonzero(y)) / len(y)
        else:
            ones = weighted_mean(y, sample_weight)
            zeros = weighted_mean(1.0 - np.asarray(y, dtype=np.float64), sample_weight)
        return np.array([math.log(max(ones, MIN_SHARE)) - math.log(max(zeros, MIN_SHARE))])

    def inverse_link(self, raw):
        raw = np.asarray(raw, dtype=np.float64)
        return np.stack([expit(-raw), expit(raw)], axis=-1)

    def log_inverse_link(self, raw):
        """Return the logarithms of the predictions, finite also where these round to 0."""
        raw = np.asarray(raw, dtype=np.float64)
        return np.stack([log_expit(-raw), log_expit(raw)], axis=-1)


class MultiLabelLogLoss(Loss):
    """Sum of the log losses of several labels, any of which a row may have; one log-odds per label.

    The internal target of a row is the number of its label set in `table`.

    Parameters
    ----------
    table : ndarray of shape (n_sets, n_labels)
        Label sets of zeros and ones.
    """

    name = "log_loss"
    kind = 15
    largest_score = LOG_ODDS_MAX
    uncertainty = "labels"

    def __init__(self, table):
        self.table = np.ascontiguousarray(table, dtype=np.float64)
        self.n_outputs = self.n_targets = self.table.shape[1]

    def __repr__(self):
        return f"{type(self).__name__}(n_labels={self.n_outputs})"

    def with_targets(self, table):
        return MultiLabelLogLoss(table)

    def user_target(self, y):
        return self.table[y.astype(np.intp)].astype(np.intp)

    def base_score(self, y, sample_weight=None):
        one = BinaryLogLoss()
        return np.array([one.base_score(column[y.astype(np.intp)], sample_weight)[0] for column in self.table.T])

    def inverse_link(self, raw):
        return expit(np.asarray(raw, dtype=np.float64))

    def log_inverse_link(self, raw):
        """Return the logarithms of the predictions, finite also where these round to 0."""
        return log_expit(np.asarray(raw, dtype=np.float64))


class MultinomialLogLoss(Loss):
    """Log loss of three or more classes; one raw score per class, predictions are softmax probabilities.

    The base score is centred: log shares of the classes less their mean. With many classes the second derivatives
    p (1 - p) are small, and gradient steps of the weights alone would be too short: their denominators are scaled by
    twice the value at equal shares.
    """

    name = "log_loss"
    kind = 3
    largest_score = LOG_ODDS_MAX
    uncertainty = "classes"

    def __init__(self, n_classes):
        self.n_outputs = n_classes
        share = 1 / n_classes
        self.leaf_curvature = max(2 * share * (1 - share), LEAST_CURVATURE)

    def __repr__(self):
        return f"{type(self).__name__}(n_classes={self.n_outputs})"

    def strata(self, y):
        return y

    def base_score(self, y, sample_weight=None):
        weight = class_weights(np.asarray(y), sample_weight, self.n_outputs)
        log_share = np.log(np.maximum(weight / weight.sum(), MIN_SHARE))
        return log_share - log_share.mean()

    def inverse_link(self, raw):
        raw = np.asarray(raw, dtype=np.float64)
        p = np.exp(raw - raw.max(axis=-1, keepdims=True))
        p /= _sum_of_classes(p)
        return p

    def log_inverse_link(self, raw):
        """Return the logarithms of the predictions, finite also where these round to 0."""
        raw = np.asarray(raw, dtype=np.float64)
        log_p = raw - raw.max(axis=-1, keepdims=True)
        log_p -= np.log(_sum_of_classes(np.exp(log_p)))
        return log_p


def _sum_of_classes(p):
    # Accumulation adds in class order whatever the memory layout; a plain sum does not.
    return np.add.accumulate(p, axis=-1)[..., -1:]
