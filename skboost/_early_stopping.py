"""When to stop: scores go in, the decision and the best iteration come out."""

import math


class EarlyStopping:
    """Stop when the score has not grown for a number of iterations.

    The scores are those of the model of 0, 1, 2, ... iterations, in this order, so that the position of a score is the
    number of iterations of its model. A chain that continues (warm start) is fed its old scores again.

    Parameters
    ----------
    n_iter_no_change : int
        Stop after this many scores in a row, at least 1, that do not improve.
    tol : float
        A score improves when it exceeds the last improved score by more than ``tol``. Small steps add up: they are
        measured from the last improvement, not from the score before.

    Attributes
    ----------
    best_iteration : int
        Number of iterations of the model with the highest score so far, the smallest one of equals.
    best_score : float
        Its score; minus infinity before the first one.
    stopped : bool
        Whether the last ``n_iter_no_change`` scores brought no improvement.
    """

    def __init__(self, n_iter_no_change, tol):
        if n_iter_no_change < 1:
            raise ValueError(f"n_iter_no_change must be at least 1, got {n_iter_no_change!r}.")
        if not tol >= 0:
            raise ValueError(f"tol must be at least 0, got {tol!r}.")
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.best_iteration = 0
        self.best_score = -math.inf
        self._n_scores = 0
        self._reference = -math.inf
        self._without_change = 0

    @property
    def stopped(self):
        return self._without_change >= self.n_iter_no_change

    def update(self, score):
        """Take the next score, higher is better, and return whether to stop.

        A score that is not a number is no improvement.
        """
        if score > self.best_score:
            self.best_score = score
            self.best_iteration = self._n_scores
        if score > self._reference + self.tol:
            self._reference = score
            self._without_change = 0
        elif self._n_scores > 0:
            # The model without iterations is where improvements start from, not a failed attempt.
            self._without_change += 1
        self._n_scores += 1
        return self.stopped
