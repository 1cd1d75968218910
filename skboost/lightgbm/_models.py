"""What `load` returns: models that predict as LightGBM does, with the methods of scikit-learn's estimators."""

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from skboost.lightgbm._loaded import LoadedModel


class LoadedRegressor(RegressorMixin, LoadedModel):
    """A regression or ranking model read by :func:`load`.

    Attributes
    ----------
    n_iter_ : int
        Number of boosting iterations, of terms in an explainable boosting machine.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, only of models that skboost wrote and that were fitted on a frame.
    feature_names_ : list of str
        Names of the columns as the file has them.
    objective_ : str
        LightGBM's name of the objective; "custom" where the file names none, and predictions are raw scores then.
    parameters_ : dict of str to str
        The parameters that the file records.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each column in the gains of all splits.

    See Also
    --------
    load : Makes it.
    """

    def predict(self, X):
        """Predict the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as in `raw_scores`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            What LightGBM's ``predict`` returns; for models of ``SGLBRegressor`` what its ``predict`` returns.
        """
        return self._shaped(self._linked(self._scores(X)))

    def predict_quantiles(self, X):
        """Predict all quantiles of a model that skboost wrote with loss="quantile".

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as in `raw_scores`.

        Returns
        -------
        ndarray of shape (n_samples, n_levels)
            Quantiles at the levels of ``SGLBRegressor``; they never decrease along a row.

        Raises
        ------
        ValueError
            If the model is another one.
        """
        if self._chain is None or self._chain.loss.name != "quantile":
            raise ValueError(
                f"predict_quantiles needs a model that skboost wrote with loss='quantile', this is {self!r}."
            )
        return self._chain.loss.inverse_link(self._scores(X))

    def predict_virtual_ensembles(self, X, n_members=None, *, return_variance=False):
        """Predict with the members of the virtual ensemble.

        Members are the models after fewer iterations, evenly spaced over the second half, as those of
        ``SGLBRegressor``, and exactly those where the file was written by :func:`dump`. Other files do not say how the
        model was shrunk from iteration to iteration, so that their members are sums of fewer trees.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as in `raw_scores`.
        n_members : int or None, default=None
            Number of members, at most ``n_iter_ // 2``. None: 10, or the ends of all cycles of a cyclical schedule.
        return_variance : bool, default=False
            Return also the members' predicted variances, of a model that :func:`dump` wrote with loss="gaussian".

        Returns
        -------
        members : ndarray of shape (n_members, n_samples) or (n_members, n_samples, n_outputs)
            Predictions of the members.
        variances : ndarray of shape (n_members, n_samples)
            Their variances; only with `return_variance`.

        Raises
        ------
        ValueError
            If `n_members` is neither None nor an integer of at least 1, or needs more iterations than there are, if
            `return_variance` is asked of another model, or if the model is an explainable boosting machine.
        """
        if return_variance and not (self._chain is not None and self._chain.loss.predicts_spread):
            raise ValueError(f"return_variance=True needs a model with loss='gaussian', this is {self!r}.")
        scores = self._members(X, n_members)[1]
        return self._chain.loss.mean_variance(scores) if return_variance else self._shaped(self._linked(scores))

    def _shaped(self, predictions):
        return predictions if self._chain is not None else self._squeezed(predictions)


class LoadedClassifier(ClassifierMixin, LoadedModel):
    """A classification model read by :func:`load`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, of models that skboost wrote; else 0, 1, ..., since files of LightGBM do not keep labels.
    n_iter_ : int
        Number of boosting iterations, of terms in an explainable boosting machine.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, only of models that skboost wrote and that were fitted on a frame.
    feature_names_ : list of str
        Names of the columns as the file has them.
    objective_ : str
        LightGBM's name of the objective.
    parameters_ : dict of str to str
        The parameters that the file records.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each column in the gains of all splits.

    See Also
    --------
    load : Makes it.
    """

    def _fill(self, parsed, chain):
        super()._fill(parsed, chain)
        self.classes_ = np.arange(max(2, parsed.n_outputs)) if chain is None else chain.classes

    def decision_function(self, X):
        """Return the raw scores, divided by the number of iterations for a random forest.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as in `raw_scores`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            One score for two classes, else one per class.
        """
        return self._squeezed(self._scores(X))

    def predict_proba(self, X):
        """Predict class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as in `raw_scores`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As LightGBM's ``predict`` returns them; those of "multiclassova" do not sum to 1.
        """
        return self._probabilities(self._scores(X))

    def predict(self, X):
        """Predict the class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as in `raw_scores`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            The class of the largest raw score; of two classes the second where the score is above 0. Of a model of
            several labels that skboost wrote, 1 where a row has the label, else 0.
        """
        scores = self._scores(X)
        if self._chain is not None and self._chain.loss.uncertainty == "labels":
            return (scores > 0).astype(np.intp)
        best = scores[:, 0] > 0 if scores.shape[1] == 1 else np.argmax(scores, axis=1)
        return self.classes_[best.astype(np.intp)]

    def predict_virtual_ensembles(self, X, n_members=None):
        """Predict class probabilities with the members of the virtual ensemble.

        Members are the models after fewer iterations, evenly spaced over the second half, as those of
        ``SGLBClassifier``, and exactly those where the file was written by :func:`dump`. Other files do not say how
        the model was shrunk from iteration to iteration, so that their members are sums of fewer trees.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as in `raw_scores`.
        n_members : int or None, default=None
            Number of members, at most ``n_iter_ // 2``. None: 10, or the ends of all cycles of a cyclical schedule.

        Returns
        -------
        ndarray of shape (n_members, n_samples, n_classes)
            Probabilities of the members.

        Raises
        ------
        ValueError
            If `n_members` is neither None nor an integer of at least 1, or needs more iterations than there are, or if
            the model is an explainable boosting machine.
        """
        return self._probabilities(self._members(X, n_members)[1])

    def _probabilities(self, scores):
        found = self._linked(scores)
        if self._chain is None and found.shape[-1] == 1:
            return np.concatenate([1.0 - found, found], axis=-1)
        return found
