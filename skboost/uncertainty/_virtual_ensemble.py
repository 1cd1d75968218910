"""A meta-estimator that gives any booster uncertainty, and calibrated intervals on request."""

import numbers
from copy import deepcopy

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skboost._compat import (
    HasMethods,
    Interval,
    RealNotInt,
    StrOptions,
    check_feature_names_in,
    check_method_params,
    check_parameters,
    take_rows,
)
from skboost._random import resolve_seed
from skboost.sglb import SGLBRegressor
from skboost.uncertainty import _conformal, _members
from skboost.uncertainty._split import Part, split

# What `fit` sets; a second fit may know less than the first.
FITTED = {"estimator_", "estimators_", "classes_", "n_features_in_", "feature_names_in_", "conformity_score_"}
FITTED |= {"n_calibration_", "_members", "_parts", "_columns", "_calibration", "_scale_variance"}
PARTS = ("knowledge", "data", "total", "support")
REGRESSION_SCORES = {"total", "knowledge", "constant"}
CLASSIFICATION_SCORES = {"lac", "aps"}


def _wraps_classifier(self):
    return is_classifier(self._inner())


def _wraps_regressor(self):
    return is_regressor(self._inner())


def _first_row(X):
    return take_rows(indexable(X)[0], [0])


class VirtualEnsembleUncertainty(MetaEstimatorMixin, TransformerMixin, BaseEstimator):
    """Uncertainty of any booster, and calibrated intervals or sets of classes on request.

    Members are either iteration prefixes of one fit, a virtual ensemble, or independent fits with different seeds.
    Where they disagree the model does not know [1]_. It is a regressor or a classifier as its inner estimator is, and a
    transformer whose columns hand the uncertainties to the next step of a pipeline.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Regressor or classifier, or a Pipeline that ends in one. None: ``SGLBRegressor()``. It is cloned, not fitted.
    method : {"virtual", "ensemble"}, default="virtual"
        "virtual": one fit, members are states of it, for SGLB estimators and for GradientBoosting and
        HistGradientBoosting of scikit-learn (any estimator with ``predict_virtual_ensembles``, or with
        ``staged_predict`` or ``staged_predict_proba`` and a number of stages). "ensemble": `n_members` fits, for any
        estimator with a parameter ``random_state`` somewhere. Fits that the seed does not change agree everywhere.
    n_members : int, default=10
        Number of members, at least 1. A virtual ensemble needs ``2 * n_members`` iterations, or ``n_members`` complete
        cycles of a cyclical schedule.
    calibration_fraction : float, int or None, default=None
        Rows held out to calibrate `predict_interval` and `predict_set`: a share in (0, 1), or a number. They are not
        trained on, also later. Draws depend on the content of the rows, not on their order (of sparse rows on their
        order alone), and keep the shares of classes. None: no calibration, all rows train.
    conformity_score : {"auto", "total", "knowledge", "constant", "lac", "aps"}, default="auto"
        What is calibrated. Regression: absolute residuals in units of a scale, which is the width of intervals up to a
        factor. "total": ``sqrt(total)``, for models that predict data uncertainty. "knowledge": ``sqrt(knowledge + v)``
        with v the mean squared residual of the training rows. "constant": 1. Classification: "lac", the smallest sets:
        1 minus the probability of the class. "aps", sets that adapt to the row: the probability of all likelier classes
        [2]_. "auto": "total" where data uncertainty is predicted, else "constant"; "lac" for classifiers. Another value
        needs `calibration_fraction`.
    n_jobs : int or None, default=None
        Fits at the same time, through joblib, whose backend may be set from outside. For method="ensemble" only; one
        fit is as parallel as the estimator makes it. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Source of the integer seeds set in all parameters of the estimator that are called ``random_state``, and of the
        draw of calibration rows. None: a virtual ensemble keeps the seeds of the estimator, an ensemble draws new ones.

    Attributes
    ----------
    estimator_ : estimator
        The fit; only with method="virtual".
    estimators_ : list of estimators
        The fitted members; only with method="ensemble".
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted; only for classifiers.
    n_features_in_ : int
        Number of columns; only when the inner estimator knows it.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns; only when the inner estimator knows them.
    conformity_score_ : str
        Score in use; only with `calibration_fraction`.
    n_calibration_ : float
        Number of held-out rows, or the sum of their weights; only with `calibration_fraction`.

    See Also
    --------
    SGLBRegressor : Boosting whose virtual ensembles sample a posterior.
    SGLBClassifier : The same for classification.

    Notes
    -----
    With M members of means m_i and, where the model predicts them, variances v_i, ``knowledge`` is the variance of the
    m_i and ``data`` the mean of the v_i; classification splits the entropy of the mean probabilities likewise, in nats.
    What a member knows by itself not to know, as SGLB estimators do of rows that no training row resembles, is added to
    ``knowledge`` as its mean over the members, and ``support`` is the mean of theirs.

    Intervals are split conformal: the score s of a row does not know the calibration targets, q is the
    ``ceil((n + 1)(1 - alpha))``-th smallest score of n held-out rows, and the interval holds the targets of a score of
    at most q. A new row exchangeable with the held-out ones is covered with probability of at least ``1 - alpha``, and
    at most ``1 - alpha + 1 / (n + 1)`` without ties, on average over calibration sets and rows, not at each x. A row of
    the whole-number weight w counts as w rows.

    Training costs one fit, or `n_members` of them; predictions cost as many passes as there are members, less for
    virtual ensembles of SGLB estimators, which need one.

    References
    ----------
    .. [1] A. Malinin, L. Prokhorenkova and A. Ustimenko, "Uncertainty in Gradient Boosting via Ensembles", ICLR 2021,
       arXiv:2006.10562.
    .. [2] Y. Romano, M. Sesia and E. J. Candes, "Classification with Valid and Adaptive Coverage", NeurIPS 2020,
       arXiv:2006.02544. Here without randomisation: the scores are those of u = 0, so no set is empty.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from skboost import VirtualEnsembleUncertainty
    >>> from skboost.datasets import make_gap
    >>> X, y = make_gap(300, random_state=0)
    >>> model = VirtualEnsembleUncertainty(
    ...     HistGradientBoostingRegressor(), calibration_fraction=0.3, random_state=0
    ... ).fit(X, y)
    >>> model.predict_uncertainty(X[:4])
    Uncertainty(n_samples=4, n_members=10; averages: knowledge=...)
    >>> model.predict_interval(X[:4], alpha=0.1).shape
    (4, 2)
    >>> model.get_feature_names_out().tolist()
    ['mean', 'knowledge']
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        "estimator": [HasMethods(["fit", "predict"]), None],
        "method": [StrOptions({"virtual", "ensemble"})],
        "n_members": [Interval(numbers.Integral, 1, None, closed="left")],
        "calibration_fraction": [
            Interval(RealNotInt, 0, 1, closed="neither"),
            Interval(numbers.Integral, 1, None, closed="left"),
            None,
        ],
        "conformity_score": [StrOptions({"auto"} | REGRESSION_SCORES | CLASSIFICATION_SCORES)],
        "n_jobs": [numbers.Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        method="virtual",
        n_members=10,
        calibration_fraction=None,
        conformity_score="auto",
        n_jobs=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.method = method
        self.n_members = n_members
        self.calibration_fraction = calibration_fraction
        self.conformity_score = conformity_score
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _inner(self):
        return SGLBRegressor() if self.estimator is None else self.estimator

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), deepcopy(get_tags(self._inner()))
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.target_tags.multi_output = tags.target_tags.two_d_labels = False
        tags.target_tags.single_output = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        return tags

    def get_metadata_routing(self):
        """Return the metadata routing: parameters of `fit` go to the `fit` of the inner estimator.

        Returns
        -------
        MetadataRouter
            What scikit-learn asks for.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self._inner(), method_mapping=mapping)

    # ---- fit

    def fit(self, X, y, sample_weight=None, **fit_params):
        """Fit the members, and calibrate with `calibration_fraction`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows; whatever the inner estimator takes.
        y : array-like of shape (n_samples,)
            Target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, at least 0, passed to the inner estimator. In the calibration a row of the whole-number weight w
            counts as w rows, which may be divided between both parts.
        **fit_params : dict
            Further arguments of the inner `fit`. With ``enable_metadata_routing=True`` they are routed by request.

        Returns
        -------
        VirtualEnsembleUncertainty
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of its range, parameters contradict each other or the inner estimator, or there is too
            little data. A failed fit leaves the estimator as it was.
        """
        check_parameters(self)
        inner = self._inner()
        self._check_params_jointly(inner)
        if y is None:
            raise ValueError(f"This {type(self).__name__} requires y to be passed, but the target y is None.")
        shape = np.asarray(y).shape
        if len(shape) > 1 and shape[1] > 1:
            raise ValueError(f"y must have one column, got shape {shape}; fit one estimator for each target.")
        train, held = Part(X, y, sample_weight, None), None
        if self.calibration_fraction is not None:
            seed, stratified = resolve_seed(self.random_state), is_classifier(inner)
            X, y = indexable(X, y)
            train, held = split(X, y, sample_weight, self.calibration_fraction, seed, stratified=stratified)
            fit_params = check_method_params(X, fit_params, indices=train.rows)
        members = self._fit_members(inner, train, self._inner_params(inner, train.sample_weight, fit_params))
        state = self._describe(members, train.X)
        if held is not None:
            state |= self._calibrate(members, train, held)
        for name in FITTED & set(vars(self)):
            delattr(self, name)
        vars(self).update(state)
        return self

    def _check_params_jointly(self, inner):
        kind, classifier = type(inner).__name__, is_classifier(inner)
        if not (classifier or is_regressor(inner)):
            raise ValueError(f"estimator must be a regressor or a classifier, got {kind}.")
        if self.method == "virtual":
            if self.n_jobs is not None:
                raise ValueError(
                    f"n_jobs={self.n_jobs} needs method='ensemble': method='virtual' is one fit, whose threads the "
                    "estimator sets itself."
                )
            if not _members.has_virtual_members(inner, classifier):
                raise ValueError(
                    f"estimator={kind} has no virtual ensemble for method='virtual': neither predict_virtual_ensembles "
                    f"nor {'staged_predict_proba' if classifier else 'staged_predict'}. Use method='ensemble'."
                )
        elif classifier and not hasattr(inner, "predict_proba"):
            raise ValueError(f"estimator={kind} has no predict_proba, which method='ensemble' needs of a classifier.")
        elif not _members.seed_parameters(inner):
            raise ValueError(
                f"estimator={kind} has no parameter random_state, so method='ensemble' would fit the same model "
                "n_members times. Make its members differ, as in BaggingRegressor(estimator, n_estimators=1), or use "
                "method='virtual'."
            )
        self._check_conformity_score(classifier)

    def _check_conformity_score(self, classifier):
        if self.conformity_score == "auto":
            return
        if self.calibration_fraction is None:
            raise ValueError(
                f"conformity_score={self.conformity_score!r} needs calibration_fraction, got calibration_fraction=None."
            )
        allowed = CLASSIFICATION_SCORES if classifier else REGRESSION_SCORES
        if self.conformity_score not in allowed:
            raise ValueError(
                f"conformity_score={self.conformity_score!r} does not go with an estimator that is a "
                f"{'classifier' if classifier else 'regressor'}; use 'auto' or one of {sorted(allowed)}."
            )

    def _inner_params(self, inner, sample_weight, fit_params):
        """Return the arguments of the inner fit besides X and y."""
        if get_config()["enable_metadata_routing"]:
            return dict(process_routing(self, "fit", sample_weight=sample_weight, **fit_params)["estimator"]["fit"])
        if sample_weight is None:
            return dict(fit_params)
        name = _members.weight_parameter(inner)
        if name is None:
            final = type(_members.final_estimator(inner)).__name__
            raise ValueError(f"sample_weight was passed, but fit of estimator={final} takes no weights.")
        return {**fit_params, name: sample_weight}

    def _fit_members(self, inner, train, fit_params):
        generator = None
        if self.method == "ensemble" or self.random_state is not None:
            generator = check_random_state(self.random_state)
        if self.method == "virtual":
            estimator = clone(inner) if generator is None else _members.seeded_clone(inner, generator)
            estimator.fit(train.X, train.y, **fit_params)
            classes = _members.common_classes([estimator]) if is_classifier(inner) else None
            return _members.VirtualEnsemble(estimator, self.n_members, classes)
        estimators = [_members.seeded_clone(inner, generator) for _ in range(self.n_members)]
        estimators = _members.fit_all(estimators, train.X, train.y, fit_params, self.n_jobs)
        classes = _members.common_classes(estimators) if is_classifier(inner) else None
        own = _members.own_uncertainty(estimators[0], _first_row(train.X))
        return _members.FittedEnsemble(estimators, classes, own_parts=own is not None)

    def _describe(self, members, X):
        """Return the fitted attributes; one row tells which uncertainties there are and that n_members is possible."""
        result = members.uncertainty(_first_row(X))
        means = ["mean"] if members.classes is None else [f"mean_{label}" for label in members.classes]
        parts = [name for name in PARTS if getattr(result, name) is not None]
        state = {"_members": members, "_parts": parts, "_columns": np.array([*means, *parts], dtype=object)}
        if self.method == "virtual":
            first = state["estimator_"] = members.estimator
        else:
            state["estimators_"] = members.estimators
            first = members.estimators[0]
        if members.classes is not None:
            state["classes_"] = members.classes
        known = ("n_features_in_", "feature_names_in_")
        return state | {name: getattr(first, name) for name in known if hasattr(first, name)}

    def _calibrate(self, members, train, held):
        if members.classes is not None:
            kind = "lac" if self.conformity_score == "auto" else self.conformity_score
            positions = _members.class_positions(held.y, members.classes)
            variance = None
            scores = _conformal.true_scores(_conformal.class_scores(members.mean(held.X), kind), positions)
        else:
            result = members.uncertainty(held.X)
            kind = self._resolve_scale(result)
            variance = _members.residual_variance(members, train) if kind == "knowledge" else None
            scale = _conformal.scales(kind, result, variance)
            scores = _conformal.residual_scores(np.asarray(held.y, dtype=np.float64), result.mean, scale)
        calibration = _conformal.Calibration.of(scores, held.sample_weight)
        return {
            "conformity_score_": kind,
            "n_calibration_": calibration.total_weight,
            "_calibration": calibration,
            "_scale_variance": variance,
        }

    def _resolve_scale(self, result):
        if self.conformity_score == "auto":
            return "constant" if result.total is None else "total"
        if self.conformity_score == "total" and result.total is None:
            raise ValueError(
                "conformity_score='total' needs an estimator that predicts data uncertainty, such as "
                "SGLBRegressor(loss='gaussian'); use 'knowledge' or 'constant'."
            )
        return self.conformity_score

    # ---- predictions

    def predict(self, X):
        """Predict the mean of the members, or the class of the largest mean probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Expected values, or class labels.
        """
        check_is_fitted(self)
        mean = self._members.mean(X)
        return mean if self._members.classes is None else self.classes_[np.argmax(mean, axis=1)]

    @available_if(_wraps_classifier)
    def predict_proba(self, X):
        """Predict class probabilities, the mean of the members'.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        check_is_fitted(self)
        return self._members.mean(X)

    def predict_uncertainty(self, X):
        """Predict with uncertainty.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        Uncertainty
            Regression: variances in squared units of the target, ``data`` and ``total`` None unless the inner estimator
            predicts variances. Classification: entropies in nats. ``mean`` is what `predict` or `predict_proba` return.
        """
        check_is_fitted(self)
        return self._members.uncertainty(X)

    def score_samples(self, X):
        """Return minus the knowledge uncertainty: lower is stranger, as for detectors of outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            At most 0.
        """
        return -self.predict_uncertainty(X).knowledge

    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination of `predict`, or its accuracy.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Target.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        float
            At most 1; higher is better.
        """
        metric = r2_score if is_regressor(self) else accuracy_score
        return metric(y, self.predict(X), sample_weight=sample_weight)

    # ---- transformer

    def transform(self, X):
        """Return mean and uncertainties as columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_columns)
            ``mean``, or one column of mean probabilities per class, then ``knowledge``, ``data``, ``total`` and
            ``support``. Those that the fitted model does not have, None in `predict_uncertainty`, are left out.
        """
        result = self.predict_uncertainty(X)
        return np.column_stack([result.mean, *(getattr(result, name) for name in self._parts)])

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns of `transform`.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Checked against the names seen in `fit`, not used otherwise.

        Returns
        -------
        ndarray of shape (n_columns,)
            ``mean``, or for each class ``mean_`` and its label, then the names of the uncertainties; dtype object.
        """
        check_is_fitted(self)
        check_feature_names_in(self, input_features, generate_names=False)
        return self._columns.copy()

    # ---- calibrated predictions

    @available_if(_wraps_regressor)
    def predict_interval(self, X, alpha=0.1):
        """Predict intervals that miss the target with probability of at most alpha.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        alpha : float, default=0.1
            Allowed share of misses, between 0 and 1 exclusive.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Lower and upper ends, ``mean -+ q * scale``, in units of the target.

        Raises
        ------
        ValueError
            If `alpha` is out of its range or smaller than the held-out rows allow, or if the estimator is not
            calibrated.
        """
        quantile = self._quantile(alpha, "predict_interval")
        result = self._members.uncertainty(X)
        scale = _conformal.scales(self.conformity_score_, result, self._scale_variance)
        return _conformal.intervals(result.mean, scale, quantile)

    @available_if(_wraps_classifier)
    def predict_set(self, X, alpha=0.1):
        """Predict sets of classes that miss the true class with probability of at most alpha.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        alpha : float, default=0.1
            Allowed share of misses, between 0 and 1 exclusive.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            True for the classes in the set, bool, in the order of `classes_`. With "lac" a set may be empty.

        Raises
        ------
        ValueError
            If `alpha` is out of its range or smaller than the held-out rows allow, or if the estimator is not
            calibrated.
        """
        quantile = self._quantile(alpha, "predict_set")
        return _conformal.class_scores(self._members.mean(X), self.conformity_score_) <= quantile

    def _quantile(self, alpha, method):
        check_is_fitted(self)
        if not hasattr(self, "_calibration"):
            raise ValueError(
                f"{method} needs held-out rows: set calibration_fraction, for instance to 0.2, and fit again."
            )
        return self._calibration.quantile(alpha)
