"""What `load` returns: models that predict as LightGBM does, with the methods of scikit-learn's estimators."""

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, TargetTags
from sklearn.utils.validation import check_is_fitted

from skboost._categories import CATEGORY_TYPES, dtype_names, encode, is_frame
from skboost._uncertainty import cycle_member_schedule, member_schedule
from skboost._validation import check_X
from skboost.lightgbm._chain import LAST_STATE, TERMS
from skboost.lightgbm._trees import ZERO_BOUND

N_MEMBERS = 10


class LoadedModel:
    """Common part of the loaded models; `load` makes them, there is nothing to fit."""

    @classmethod
    def _of(cls, parsed, chain):
        """Return the model of a ModelText and, for a text that `dump` wrote, of its Chain."""
        model = cls()
        model._fill(parsed, chain)
        return model

    def _fill(self, parsed, chain):
        self._parsed = parsed
        self._chain = chain
        self.n_features_in_ = len(parsed.feature_names)
        self.feature_names_ = list(parsed.feature_names)
        self.objective_ = parsed.objective.name
        self.n_iter_ = len(parsed.trees) // parsed.n_outputs - (chain is not None)
        self.parameters_ = {key: value for key, (value, _) in parsed.parameters.items()}
        self._category_maps = (None,) * self.n_features_in_
        if chain is not None:
            self._category_maps = chain.category_maps
            if chain.feature_names is not None:
                self.feature_names_in_ = chain.feature_names

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_iter_")

    def __sklearn_tags__(self):
        tags = Tags(estimator_type=None, target_tags=TargetTags(required=False))
        tags.input_tags.allow_nan = True
        return tags

    def __repr__(self):
        shown = ("objective_", "n_iter_", "n_features_in_")
        known = [f"{name[:-1]}={getattr(self, name)!r}" for name in shown if hasattr(self, name)]
        return f"{type(self).__name__}({', '.join(known)})"

    def fit(self, X, y):
        """Raise NotImplementedError: a loaded model predicts only.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Target.

        Raises
        ------
        NotImplementedError
            Always. That there is a `fit` lets scikit-learn see an estimator, for example in a ``FrozenEstimator``.
        """
        raise NotImplementedError(f"{type(self).__name__} was read from a text and cannot be fitted; fit a new model.")

    @property
    def feature_importances_(self):
        """Share of each column in the gains of all splits, float64 of shape (n_features,); zeros without gains."""
        total = np.zeros(self.n_features_in_)
        for tree in self._parsed.trees:
            total += np.bincount(tree.feature, np.maximum(tree.gain, 0), len(total))
        whole = total.sum()
        return total / whole if whole > 0 else total

    def raw_scores(self, X):
        """Return the sums over the trees, the bits of LightGBM's ``predict(X, raw_score=True)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. Categories of an array are the numbers the model was trained with; categorical columns of a pandas
            or polars frame are looked up among the categories in the file.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Of a random forest ("average_output") it is the sum, not the mean, as in LightGBM.
        """
        return self._squeezed(self._states(X)[0])

    def apply(self, X):
        """Return the leaf that each row falls into, for every tree.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_trees)
            Leaf numbers, int32, the trees in the order of the file.
        """
        X = self._rows(X)
        leaves = np.empty((len(X), len(self._parsed.trees)), dtype=np.int32)
        for index, tree in enumerate(self._parsed.trees):
            leaves[:, index] = tree.leaves(X)
        return leaves

    # ---- rows

    def _rows(self, X):
        """Return the float64 matrix that trees read."""
        check_is_fitted(self)
        if self._chain is not None:
            # Terms have a cell for categories never seen, apart from that of missing values.
            unknown = np.inf if self._chain.predicts == TERMS else np.nan
            return self._chain.recode(check_X(self, X, unknown).astype(np.float64))
        if is_frame(X):
            X = self._frame_to_matrix(X)
        X = check_X(self, X).astype(np.float64)
        # LightGBM's doors for matrices read numbers this close to zero as zeros.
        X[np.abs(X) <= ZERO_BOUND] = 0.0
        return X

    def _frame_to_matrix(self, X):
        categorical = np.flatnonzero(np.isin(dtype_names(X), CATEGORY_TYPES))
        known = self._parsed.categories or []
        if len(categorical) != len(known):
            raise ValueError(f"X has {len(categorical)} categorical columns, the model was trained with {len(known)}.")
        maps, orders = [None] * X.shape[1], {}
        for feature, levels in zip(categorical, known, strict=True):
            # The encoder numbers the levels that are numbers first, the file has them in any order.
            is_text = np.array([isinstance(level, str) for level in levels], dtype=bool)
            orders[feature] = np.argsort(is_text, kind="stable").astype(np.float64)
            numbers = np.array([float(level) for level in levels if not isinstance(level, str)])
            maps[feature] = numbers, tuple(level for level in levels if isinstance(level, str))
        matrix, _ = encode(self, X, categorical, maps)
        for feature, order in orders.items():
            found = np.flatnonzero(~np.isnan(matrix[:, feature]))
            matrix[found, feature] = order[matrix[found, feature].astype(np.intp)]
        return matrix

    # ---- scores

    @property
    def _n_rounds(self):
        return len(self._parsed.trees) // self._parsed.n_outputs

    def _states(self, X, counts=None):
        """Return sums over the first iterations of the file, or over all, of shape (n_counts, n_rows, n_outputs)."""
        X, n_outputs = self._rows(X), self._parsed.n_outputs
        counts = [self._n_rounds] if counts is None else counts
        total, states = np.zeros((len(X), n_outputs)), np.zeros((len(counts), len(X), n_outputs))
        for index, tree in enumerate(self._parsed.trees):
            with np.errstate(over="ignore", invalid="ignore"):
                total[:, index % n_outputs] += tree.values(X, tree.leaves(X))
            states[np.equal(counts, index // n_outputs + 1)] = total
        return states

    def _scores(self, X):
        """Return what the link takes: sums, means over the iterations of a random forest, or the state of a chain."""
        check_is_fitted(self)
        if self._chain is not None and self._chain.predicts == LAST_STATE:
            return self._chain.states(self._parsed.trees, self._rows(X), [self.n_iter_])[0]
        raw = self._states(X)[0]
        return raw / max(self._n_rounds, 1) if self._parsed.average_output else raw

    def _member_scores(self, X, n_members):
        check_is_fitted(self)
        if self._chain is not None and self._chain.predicts == TERMS:
            raise ValueError("An explainable boosting machine is no chain: its file has no virtual ensemble.")
        if self._chain is not None:
            length = self._chain.cycle_length
            if length is not None:
                counts = cycle_member_schedule(self.n_iter_, length, n_members)
            else:
                counts = member_schedule(self.n_iter_, N_MEMBERS if n_members is None else n_members)
            return self._chain.states(self._parsed.trees, self._rows(X), counts)
        counts = member_schedule(self.n_iter_, N_MEMBERS if n_members is None else n_members)
        states = self._states(X, counts)
        return states / counts[:, None, None] if self._parsed.average_output else states

    def _linked(self, scores):
        """Return predictions of shape (..., n_outputs), or as the loss of the estimator that was saved has them."""
        if self._chain is None:
            return self._parsed.objective.predictions(scores)
        loss = self._chain.loss
        return loss.inverse_link(scores[..., 0] if loss.n_outputs == 1 else scores)

    @staticmethod
    def _squeezed(scores):
        return scores[..., 0] if scores.shape[-1] == 1 else scores


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
            What LightGBM's ``predict`` returns; for models of ``SGLBRegressor`` one column for every loss, as there.
        """
        return self._shaped(self._linked(self._scores(X)))

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
        scores = self._member_scores(X, n_members)
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
        ndarray of shape (n_samples,)
            The class of the largest raw score; of two classes the second where the score is above 0.
        """
        scores = self._scores(X)
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
        return self._probabilities(self._member_scores(X, n_members))

    def _probabilities(self, scores):
        found = self._linked(scores)
        if self._chain is None and found.shape[-1] == 1:
            return np.concatenate([1.0 - found, found], axis=-1)
        return found
