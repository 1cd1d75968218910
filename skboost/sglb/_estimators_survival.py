"""What the regressor does for times that may be censored: forms of the target, survival functions, and its score."""

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skboost._losses import SurvivalLoss, number_targets
from skboost._survival import event_times, interval_concordance, time_intervals
from skboost.sglb._estimators_base import StageRegressor

LOSSES = ("cox", "aft")
# Log of the largest relative hazard: its product with any cumulative hazard above 0 leaves no survivor.
LARGEST_LOG_HAZARD = 700.0


def number_times(loss, y, name="y"):
    """Return (number of the target of each row, distinct targets) of times in one of the forms of the loss."""
    if loss == "cox":
        return number_targets(np.column_stack(event_times(y, "loss='cox'", name)))
    return number_targets(np.column_stack(time_intervals(y, "loss='aft'", name)))


def concordance(loss, y, prediction, sample_weight=None):
    """Return the concordance index of the predictions of a loss, risks or times, with times in a form of the loss."""
    if loss == "cox":
        time, event = event_times(y, "loss='cox'")
        return interval_concordance(time, np.where(event, time, np.inf), prediction, sample_weight)
    return interval_concordance(*time_intervals(y, "loss='aft'"), -prediction, sample_weight)


class StageSurvival(StageRegressor):
    """Predictions of one stage whose own score is the concordance index."""

    def __init__(self, prediction=None, loss=None):
        super().__init__(prediction)
        self.loss = loss

    def score(self, X, y, sample_weight=None):
        return concordance(self.loss, y, self.prediction, sample_weight)


class SurvivalMixin:
    """Methods of the regressor that times need."""

    def _collect(self, chain, monitor, task, record):
        state = super()._collect(chain, monitor, task, record)
        if task.loss.name == "cox":
            state["_baselines"] = self._make_baselines(state, task)
        return state

    @staticmethod
    def _make_baselines(state, task):
        """Return, for each `averaging`, (event times, cumulative hazards, raw score where they hold)."""
        forest, rows, baselines = state["_forest"], task.rows, {}
        for averaging in ("last", "mean"):
            how = {} if averaging == "last" else {"mul": np.ones(forest.n_trees), "add": state["_mean_add"]}
            raw = forest.margins(rows.codes_col, n_threads=task.n_threads, **how)[:, 0]
            times, hazard, top = task.loss.baseline(rows.y, raw, rows.weight, task.n_threads)
            steps = np.flatnonzero(np.diff(hazard, prepend=0.0) > 0)
            baselines[averaging] = times[steps], hazard[steps], top
        return baselines

    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination, or the concordance index of models of times.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Target, in the same form as for `fit`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, at least 0.

        Returns
        -------
        float
            R squared of `predict`; for loss="cox" and "aft", whose targets may be censored, the share of comparable
            pairs that `predict` orders as they ended, see :func:`skboost.metrics.concordance_index`.
        """
        check_is_fitted(self)
        if not isinstance(self._loss, SurvivalLoss):
            return super().score(X, y, sample_weight)
        return concordance(self._loss.name, y, self.predict(X), sample_weight)

    def predict_survival(self, X, times):
        """Predict the probabilities of still being without event at some times.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        times : array-like of shape (n_times,)
            Times of at least 0, in the unit of y.

        Returns
        -------
        ndarray of shape (n_samples, n_times)
            Probabilities that the event comes later than each time. loss="cox": ``exp(-H(t) r(x))`` with the relative
            risk r and Breslow's cumulative hazard H of the rows that were trained on, a step function that is constant
            after the last event; it fits the raw scores that `averaging` names. loss="aft": one less the distribution
            function of the noise.

        Raises
        ------
        ValueError
            If the model was fitted with another loss, or a time is negative or not finite.
        """
        check_is_fitted(self)
        if not isinstance(self._loss, SurvivalLoss):
            raise ValueError(f"predict_survival needs loss='cox' or loss='aft', got loss={self._loss.name!r}.")
        times = column_or_1d(np.asarray(times, dtype=np.float64))
        assert_all_finite(times, input_name="times")
        if times.size and times.min() < 0:
            raise ValueError(f"times must be at least 0, the smallest is {times.min():g}.")
        raw = self._raw(X)[:, 0]
        if self._loss.name == "aft":
            return self._loss.survival(raw, times)
        events, hazard, top = self._baselines[self.averaging]
        hazard = np.append(0.0, hazard)[np.searchsorted(events, times, side="right")]
        return np.exp(-np.exp(np.minimum(raw - top, LARGEST_LOG_HAZARD))[:, None] * hazard)
