"""What loaded models have in common: rows, raw scores, members, uncertainty."""

import numpy as np
from sklearn.utils import Tags, TargetTags
from sklearn.utils.validation import check_is_fitted

from skboost import _uncertainty
from skboost._categories import CATEGORY_TYPES, dtype_names, encode, is_frame
from skboost._uncertainty import Uncertainty, cycle_member_schedule, member_schedule
from skboost._validation import check_X
from skboost.lightgbm._chain import LAST_STATE, TERMS
from skboost.lightgbm._trees import ZERO_BOUND
from skboost.sglb import _support

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

    def __sklearn_clone__(self):
        # There is nothing to fit anew, as in a FrozenEstimator.
        return self

    def __repr__(self):
        shown = ("objective_", "n_iter_", "n_features_in_")
        known = [f"{name[:-1]}={getattr(self, name)!r}" for name in shown if hasattr(self, name)]
        return f"{type(self).__name__}({', '.join(known)})"

    @property
    def schedule(self):
        """Schedule of the chain, "constant" or "cyclical"."""
        return "constant" if self._chain is None or self._chain.cycle_length is None else "cyclical"

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
            return self._chain.members(self._parsed.trees, self._rows(X), [self.n_iter_])[0][0]
        raw = self._states(X)[0]
        return raw / max(self._n_rounds, 1) if self._parsed.average_output else raw

    def _members(self, X, n_members):
        """Return (counts, raw scores of members, variance from leaves without training rows, support).

        The last two are None where the file does not know them.
        """
        check_is_fitted(self)
        if self._chain is not None and self._chain.predicts == TERMS:
            raise ValueError(
                "An explainable boosting machine is no chain, and its bags are not in the file, which has no virtual "
                "ensemble therefore. Use predict_uncertainty of the machine itself."
            )
        if self._chain is not None:
            length = self._chain.cycle_length
            if length is not None:
                counts = cycle_member_schedule(self.n_iter_, length, n_members)
            else:
                counts = member_schedule(self.n_iter_, N_MEMBERS if n_members is None else n_members)
            return counts, *self._chain.members(self._parsed.trees, self._rows(X), counts)
        counts = member_schedule(self.n_iter_, N_MEMBERS if n_members is None else n_members)
        states = self._states(X, counts)
        return counts, states / counts[:, None, None] if self._parsed.average_output else states, None, None

    def predict_uncertainty(self, X, n_members=None):
        """Predict with uncertainty.

        Of a file that :func:`dump` wrote, the bits of the model that was written. Members of other files are the models
        of fewer trees, without noise between them: their spread measures how far boosting has converged at a row, and
        is no sample from a posterior. For a posterior over such a model see ``LeafLaplaceUncertainty``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as in `raw_scores`.
        n_members : int or None, default=None
            As for `predict_virtual_ensembles`.

        Returns
        -------
        Uncertainty
            Regression: variances of the members' predictions; `data` and `total` are None but for loss="gaussian".
            Classification: entropies in nats. `support` is None unless :func:`dump` wrote the file.

        Raises
        ------
        ValueError
            If `predict_virtual_ensembles` raises it, or if the model has several outputs that are no probabilities of
            classes.
        """
        counts, raw, variance, support = self._members(X, n_members)
        if variance is None:
            parts = self._decompose(raw)
        else:
            parts = _support.decompose(self._chain.loss, raw, variance, self._chain.empty_scale)
        return Uncertainty(*parts, support, counts)

    def _decompose(self, raw):
        """Return the Decomposition of raw scores of members of a model that LightGBM trained."""
        objective = self._parsed.objective
        if objective.name == "binary":
            return _uncertainty.binary(objective.sigmoid * raw[..., 0])
        if objective.name == "multiclass":
            return _uncertainty.multinomial(raw)
        if raw.shape[-1] > 1:
            raise ValueError(
                f"Outputs of objective={objective.name} have no common uncertainty: they are {raw.shape[-1]} "
                "predictions, or probabilities that do not sum to 1. Use predict_virtual_ensembles."
            )
        return _uncertainty.regression(objective.predictions(raw)[..., 0])

    def _linked(self, scores):
        """Return predictions of shape (..., n_outputs), or as the loss of the estimator that was saved has them."""
        if self._chain is None:
            return self._parsed.objective.predictions(scores)
        loss = self._chain.loss
        return loss.point(loss.inverse_link(scores[..., 0] if loss.n_outputs == 1 else scores))

    @staticmethod
    def _squeezed(scores):
        return scores[..., 0] if scores.shape[-1] == 1 else scores
