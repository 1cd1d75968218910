"""Follow a chain: scores after every iteration, progress lines, early stopping."""

import math

import numpy as np


class LossScore:
    """Minus the mean loss; higher is better."""

    def __init__(self, loss, base_score, y, weight, n_threads):
        self.loss, self.base_score, self.y, self.weight, self.n_threads = loss, base_score, y, weight, n_threads
        self._bound = None

    def __call__(self, scores):
        """Return the score of raw scores (less the base score) of shape (n_outputs, n_rows)."""
        if self._bound is None:
            # Losses that look at all rows at once sort them, which not every fit needs.
            self._bound = self.loss.for_rows(self.y, self.weight)
        return -self._bound.mean_loss(self.y, scores, self.base_score, self.weight, self.n_threads)


class ValidationRows:
    """Raw scores of held-out rows, kept up to date tree by tree."""

    def __init__(self, codes_col, n_outputs, n_threads):
        self.codes_col, self.n_threads = codes_col, n_threads
        self._acc = np.zeros((codes_col.shape[1], n_outputs))

    @property
    def scores(self):
        """Raw scores less the base score, shape (n_outputs, n_rows)."""
        return np.ascontiguousarray(self._acc.T)

    def resume(self, forest):
        """Add all trees of a forest."""
        forest.accumulate(self.codes_col, self._acc, n_threads=self.n_threads)

    def add(self, tree, shrink):
        """Shrink the scores and add one tree."""
        tree.accumulate(self.codes_col, self._acc, mul=np.array([shrink]), n_threads=self.n_threads)


class Monitor:
    """What happens between the iterations of a chain.

    Parameters
    ----------
    reporter : ProgressReporter
    train_score : callable or None
        Score of the training rows' raw scores.
    validation : ValidationRows or None
    validation_score : callable or None
    stopping : EarlyStopping or None
    period : int, default=1
        Trees between the models that early stopping scores: the length of a cycle.

    Attributes
    ----------
    train_scores, validation_scores : list of float
        One entry per model of 0, 1, 2, ... times `period` trees; empty without early stopping.
    """

    def __init__(self, reporter, train_score, validation=None, validation_score=None, stopping=None, period=1):
        self.reporter, self.train_score, self.period = reporter, train_score, period
        self.validation, self.validation_score, self.stopping = validation, validation_score, stopping
        self.train_scores, self.validation_scores = [], []

    def resume(self, train_scores, validation_scores):
        """Take over the scores of an earlier fit that this one continues."""
        self.train_scores, self.validation_scores = list(train_scores), list(validation_scores)
        for score in self.validation_scores or self.train_scores:
            self.stopping.update(score)

    def start(self, chain):
        """Score the model before the first tree."""
        if self.stopping is not None and not self.train_scores:
            self._score(chain)

    def after(self, chain):
        """Score, report, and return whether to stop."""
        if self.validation is not None:
            self.validation.add(chain.builder.tree(), chain.shrink_factors[-1])
        scored = self.stopping is not None and chain.n_iter % self.period == 0
        stop = scored and self._score(chain)
        if self.reporter.due(chain.n_iter):
            train = self.train_scores[-1] if scored else self.train_score(chain.scores)
            self.reporter.update(chain.n_iter, train, self._validation_now(scored))
        return stop

    @property
    def best_n_iter(self):
        """Number of trees of the model with the best score, at least those of one period."""
        return max(1, self.stopping.best_iteration) * self.period

    def _validation_now(self, scored):
        if self.validation is None:
            return None
        return self.validation_scores[-1] if scored else self.validation_score(self.validation.scores)

    def _score(self, chain):
        self.train_scores.append(self.train_score(chain.scores))
        if self.validation is None:
            return self.stopping.update(self.train_scores[-1])
        self.validation_scores.append(self.validation_score(self.validation.scores))
        if math.isnan(self.validation_scores[-1]):
            raise ValueError("scoring returned NaN for the validation rows.")
        return self.stopping.update(self.validation_scores[-1])


def run(chain, dynamics, n_iter, monitor):
    """Grow trees until `n_iter` or until the monitor stops."""
    monitor.start(chain)
    while chain.n_iter < n_iter and not (monitor.stopping is not None and monitor.stopping.stopped):
        chain.step(dynamics.shrink_factor(chain.n_iter, chain.rules.learning_rate))
        if monitor.after(chain):
            break
