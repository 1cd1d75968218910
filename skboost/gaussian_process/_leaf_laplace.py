"""The public meta-estimator: parameters, docstrings; a fit validates, finds the posterior over leaf values, stores."""

from copy import deepcopy
from numbers import Integral, Real

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_array, check_consistent_length, column_or_1d, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skboost._compat import (
    HasMethods,
    Interval,
    StrOptions,
    check_feature_names_in,
    check_parameters,
    check_sample_weight,
    take_rows,
)
from skboost._random import resolve_seed
from skboost._uncertainty import Uncertainty, check_n_members
from skboost.gaussian_process._averages import binary_decomposition, one_vs_rest_decomposition
from skboost.gaussian_process._leaf_families import check_loss, leaf_model, thawed
from skboost.gaussian_process._leaf_fit import LeafOptions, fit_posterior
from skboost.gaussian_process._links import LINKS

# The prior scale of the law that SGLB's posterior sampling has.
SGLB_SCALE = 0.5
PARTS = ("knowledge", "data", "total", "support")


def _wraps_classifier(self):
    return is_classifier(self.estimator)


def _wraps_additive(self):
    return hasattr(thawed(self.estimator), "shape_functions")


class _Softmax:
    """The raw scores of several classes are their log probabilities already, up to a common shift."""

    @staticmethod
    def log_probability(f):
        return f


class LeafLaplaceUncertainty(MetaEstimatorMixin, TransformerMixin, BaseEstimator):
    """Uncertainty of a fitted booster from a Gaussian posterior over its leaf values.

    With its trees fixed, a booster is a linear model with a column of 0/1 for every leaf, and Laplace's method gives a
    normal posterior over the leaf values: exact for the squared error, at the curvature of the log loss otherwise. One
    fit after the booster's gives each prediction a variance, without members. An additive model has the cells of its
    terms as leaves.

    Parameters
    ----------
    estimator : estimator
        SGLBRegressor, SGLBClassifier, EBMRegressor or EBMClassifier with loss="squared_error" or "log_loss", or a model
        of LightGBM that ``skboost.lightgbm.load`` returned, with one of the objectives "regression", "binary" and
        "multiclass". A fitted one is used as it is; one that is not fitted is cloned, and fitted to the rows of `fit`.
        ``clone``, and so cross-validation, turns the first into the second, unless it is wrapped in a FrozenEstimator;
        loaded models are what they are.
    prior : {"sglb", "constant", "random_walk"}, default="sglb"
        Prior precision of a leaf. "sglb": ``prior_scale * T * n_j / N`` for T trees and a leaf with n_j of the N
        training rows, at least one, the stationary law of SGLB. "constant": ``prior_scale * T``, so that the prior
        variance of a score is ``1 / prior_scale``. "random_walk", of additive models only: ``prior_scale * T`` for the
        step between neighbouring cells; cells of missing values and of categories have it for themselves.
    prior_scale : float, "auto" or "evidence", default="auto"
        Scale of the precision, tau; larger is surer. "auto": 1/2, the value of SGLB's posterior sampling; for additive
        models with one score per row by the evidence, one scale for each term. "evidence": by the evidence of the rows
        given to `fit`, one scale for all trees. Of rows that the trees have been grown on, the evidence chooses far too
        small a scale; give it others.
    centre : {"model", "map"}, default="model"
        What the posterior is centred on: the booster's own prediction, or the most probable leaf values. "map" makes a
        new model of the same trees, and pays with rows that they have not seen.
    n_trees : int or None, default=None
        Only the last so many trees; None takes all. The variance is then that given the other trees.
    solver : {"auto", "cholesky", "dual", "sample"}, default="auto"
        "cholesky" factors the matrix over the leaves, "dual" that over the rows, both exact. "sample" draws `n_members`
        posterior members by conjugate gradients and takes their mean square, with a relative standard error of
        ``sqrt(2 / n_members)``. "auto": the smaller of the exact ones, "sample" if it is above `max_leaves`.
    n_members : int, default=100
        Members of solver="sample".
    support : bool, default=False
        Add the prior variance of each leaf, times the chance that a prior cut separates the row from the box of the
        leaf's rows. Restores the prior far from the data. Not for additive models.
    prior_trees : int, default=0
        So many random trees of depth 4, with borders uniform over the widened range of the columns, beside those of the
        model. Their empty leaves make the variance grow in gaps. Not for additive models.
    noise_variance : float or "auto", default="auto"
        Noise variance of the squared error. "auto": that of the chain if the model is one, else by the evidence. Must
        be "auto" for classifiers.
    max_leaves : int or None, default=5000
        Largest side of the matrix that an exact solver factors, in leaves that hold rows, or in rows that differ in
        their leaves; more are refused before it is allocated. None: no limit.
    random_state : int, RandomState instance or None, default=None
        Seed of members and random trees, and of an `estimator` that is not fitted and has none.

    Attributes
    ----------
    estimator_ : estimator
        The fitted booster.
    classes_ : ndarray of shape (n_classes,)
        Class labels; only of classifiers.
    prior_scale_ : float or ndarray of shape (n_terms,)
        Scale in use, one per term where the evidence has chosen so.
    noise_variance_ : float or None
        Noise variance in use; None for classifiers.
    solver_ : {"cholesky", "dual", "sample"}
        Solver in use.
    n_leaves_ : int
        Columns of the linear model, those of all classes where each has its own trees.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns; only when the booster has seen some.

    See Also
    --------
    LaplaceGPClassifier : The same with a kernel instead of trees.
    VirtualEnsembleUncertainty : Uncertainty from members.

    Notes
    -----
    With the indicators Phi, the curvatures W and the prior precisions Lambda the covariance of scores is
    ``Phi* (Phi' W Phi + Lambda)^-1 Phi*'``. For the squared error precisions are in units of one over the noise
    variance, so that the unit of the target cancels. With three or more classes each class has its own posterior, with
    ``W = p (1 - p)``, independent of the others; centre="map" and the evidence need one score per row.

    For n rows that differ, T trees and L leaves in use, "cholesky" takes about ``n T^2 + L^3 / 3`` multiplications and
    ``32 L^2`` bytes, "dual" ``n^3 / 3`` and ``32 n^2``, "sample" ``2 n T`` for each member and each of about a hundred
    iterations, and ``8 L`` bytes for each member. A prediction takes ``L^2``, ``n^2``, or ``n_members T`` for each row.

    Trees grown on labels put thresholds between data and leave no leaf empty, so that the variance need not grow in a
    gap between the data; `support` and `prior_trees` are remedies, and so are prior splits of the booster. The chain of
    SGLB with a `diffusion_temperature` of T samples a posterior narrower by T than this one, which is at 1.

    Models of LightGBM have trees of their own for each class. Their texts do not know the score that boosting started
    from, which is taken to be the mean of the first tree; it matters for centre="map" and the evidence only. Bagging,
    GOSS and the row weights of LightGBM are not in the text: weights of `fit` are to be those of the training.

    A row of weight w counts as w equal rows. Rows in another order give the same numbers up to rounding, with "sample"
    up to the 1e-4 at which conjugate gradients end; the same seed gives the same bits with the same BLAS and number of
    its threads. An `init_score` that a booster was fitted with is not known to it afterwards, and so not here either.

    References
    ----------
    .. [1] A. Ustimenko and L. Prokhorenkova, "SGLB: Stochastic Gradient Langevin Boosting", ICML 2021.
    .. [2] A. Ustimenko, A. Beliakov and L. Prokhorenkova, "Gradient Boosting Performs Gaussian Process Inference",
       ICLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import LeafLaplaceUncertainty, SGLBRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 1))
    >>> y = np.sin(6 * X[:, 0]) + rng.normal(scale=0.2, size=300)
    >>> booster = SGLBRegressor(n_estimators=100, posterior_sampling=False, max_depth=3).fit(X[:200], y[:200])
    >>> model = LeafLaplaceUncertainty(booster, prior_scale="evidence", support=True, random_state=0)
    >>> result = model.fit(X[200:], y[200:]).predict_uncertainty([[0.5], [3.0]])
    >>> bool(result.knowledge[1] > 10 * result.knowledge[0])
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        "estimator": [HasMethods(["fit", "predict"])],
        "prior": [StrOptions({"sglb", "constant", "random_walk"})],
        "prior_scale": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto", "evidence"})],
        "centre": [StrOptions({"model", "map"})],
        "n_trees": [Interval(Integral, 1, None, closed="left"), None],
        "solver": [StrOptions({"auto", "cholesky", "dual", "sample"})],
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "support": ["boolean"],
        "prior_trees": [Interval(Integral, 0, None, closed="left")],
        "noise_variance": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "max_leaves": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator,
        *,
        prior="sglb",
        prior_scale="auto",
        centre="model",
        n_trees=None,
        solver="auto",
        n_members=100,
        support=False,
        prior_trees=0,
        noise_variance="auto",
        max_leaves=5000,
        random_state=None,
    ):
        self.estimator = estimator
        self.prior = prior
        self.prior_scale = prior_scale
        self.centre = centre
        self.n_trees = n_trees
        self.solver = solver
        self.n_members = n_members
        self.support = support
        self.prior_trees = prior_trees
        self.noise_variance = noise_variance
        self.max_leaves = max_leaves
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), deepcopy(get_tags(self.estimator))
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        tags.target_tags.multi_output = False
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        return tags

    # ---- fit ---------------------------------------------------------------------------------------------------------

    def fit(self, X, y, sample_weight=None):
        """Find the posterior over the leaf values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The booster's training rows, or better others, as the booster takes them.
        y : array-like of shape (n_samples,)
            Their target.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights, at least 0; whole numbers are numbers of copies.

        Returns
        -------
        LeafLaplaceUncertainty
            The fitted estimator.

        Raises
        ------
        ValueError
            If the booster's family or loss is not known, parameters do not go together, or an exact solver would factor
            a matrix of more than `max_leaves` rows. A failed fit leaves the estimator as it was.
        """
        check_parameters(self)
        self._check_params_jointly()
        if y is None:
            raise ValueError(f"This {type(self).__name__} requires y to be passed, but the target y is None.")
        seed = resolve_seed(self.random_state)
        estimator = self._fitted_estimator(X, y, sample_weight, seed)
        model = leaf_model(estimator, self.n_trees)
        options = self._options(model, seed)
        X, y, weight = self._rows(model, X, y, sample_weight)
        posterior = fit_posterior(model, X, y, weight, options)
        tau = posterior.tau
        known = ("n_features_in_", "feature_names_in_", "classes_")
        state = {name: getattr(estimator, name) for name in known if hasattr(estimator, name)}
        state |= {
            "estimator_": estimator,
            "prior_scale_": float(tau[0]) if options.prior_scale is not None or len(tau) == 1 else tau,
            "noise_variance_": posterior.noise_variance,
            "solver_": posterior.solver,
            "n_leaves_": posterior.n_leaves,
            "_posterior": posterior,
        }
        for name in {"classes_", "feature_names_in_"} & set(vars(self)):
            delattr(self, name)
        vars(self).update(state)
        return self

    def _check_params_jointly(self):
        inner = thawed(self.estimator)
        check_loss(inner)
        if is_classifier(inner) and self.noise_variance != "auto":
            raise ValueError(
                f"noise_variance={self.noise_variance!r} needs a regressor, got estimator={type(inner).__name__}; use "
                "noise_variance='auto'."
            )
        if self.solver == "sample" and self.prior_scale == "evidence":
            raise ValueError(
                "prior_scale='evidence' needs a determinant, which solver='sample' does not have; use another solver "
                "or a number as prior_scale."
            )
        if self.prior == "random_walk" and self.solver in ("dual", "sample"):
            raise ValueError(f"prior='random_walk' needs solver='cholesky' or 'auto', got solver={self.solver!r}.")
        if self.n_trees is not None and (self.centre == "map" or self.prior_scale == "evidence"):
            name = "centre='map'" if self.centre == "map" else "prior_scale='evidence'"
            raise ValueError(f"n_trees={self.n_trees} does not go with {name}, which fits all leaf values anew.")

    def _fitted_estimator(self, X, y, sample_weight, seed):
        """Return the booster, fitted to the rows if it was not."""
        inner = thawed(self.estimator)
        try:
            check_is_fitted(inner)
        except NotFittedError:
            weight = {} if sample_weight is None else {"sample_weight": sample_weight}
            estimator = clone(inner)
            if self.random_state is not None and getattr(estimator, "random_state", 0) is None:
                estimator.set_params(random_state=seed % 2**31)
            return estimator.fit(X, y, **weight)
        return inner

    def _options(self, model, seed):
        """Return the options of the fit, after refusing what does not go with the model."""
        kind, one_score = type(model.estimator).__name__, model.n_outputs == 1
        if not one_score and (self.centre == "map" or self.prior_scale == "evidence"):
            name = "centre='map'" if self.centre == "map" else "prior_scale='evidence'"
            raise ValueError(f"{name} needs one score per row, estimator={kind} has {model.n_outputs} classes.")
        if not model.additive and self.prior == "random_walk":
            raise ValueError(f"prior='random_walk' needs an additive model, got estimator={kind}.")
        if model.additive and (self.support or self.prior_trees):
            name = "support=True" if self.support else f"prior_trees={self.prior_trees}"
            raise ValueError(f"{name} needs a model of trees, got estimator={kind}; use prior='random_walk'.")
        by_evidence = self.prior_scale == "evidence"
        if self.prior_scale == "auto" and model.additive and one_score:
            if self.solver in ("dual", "sample"):
                raise ValueError(
                    f"prior_scale='auto' chooses a scale for each term of estimator={kind} by the evidence, which "
                    f"needs solver='cholesky' or 'auto', got solver={self.solver!r}; give a number as prior_scale."
                )
            by_evidence = True
        if by_evidence and model.additive and self.solver == "dual":
            raise ValueError(
                f"prior_scale='evidence' has a scale for each term of estimator={kind}, which needs "
                "solver='cholesky' or 'auto', got solver='dual'."
            )
        noise = model.noise_variance if self.noise_variance == "auto" else float(self.noise_variance)
        if self.n_trees is not None and noise is None and not model.classifier:
            raise ValueError(
                f"n_trees={self.n_trees} needs noise_variance as a number: estimator={kind} has none, and the last "
                "trees alone do not tell it."
            )
        scale = SGLB_SCALE if self.prior_scale == "auto" else self.prior_scale
        return LeafOptions(
            prior=self.prior,
            prior_scale=None if by_evidence else float(scale),
            noise_variance=None if model.classifier else noise,
            at_mode=self.centre == "map",
            solver=self.solver,
            n_members=int(self.n_members),
            support=bool(self.support),
            prior_trees=int(self.prior_trees),
            max_leaves=self.max_leaves,
            seed=seed,
        )

    def _rows(self, model, X, y, sample_weight):
        """Return the rows of positive weight, their targets or positions of classes, and their weights."""
        X, y = indexable(X, y)
        check_consistent_length(X, y)
        y = column_or_1d(y, warn=True)
        weight = check_sample_weight(sample_weight, y)
        if model.classifier:
            classes = np.asarray(model.estimator.classes_)
            unknown = np.setdiff1d(y, classes)
            if unknown.size:
                raise ValueError(f"y has classes that the fitted estimator does not know: {unknown.tolist()}.")
            y = np.searchsorted(classes, y)
        else:
            y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if (weight > 0).all():
            return X, y, weight
        kept = np.flatnonzero(weight > 0)
        return take_rows(X, kept), y[kept], weight[kept]

    # ---- predictions -------------------------------------------------------------------------------------------------

    def predict(self, X):
        """Predict with the booster, or with the most probable leaf values.

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
        if self._posterior.modes is None:
            return self.estimator_.predict(X)
        mean = self._posterior.mean(X)[:, 0]
        return self.classes_[(mean > 0).astype(np.intp)] if hasattr(self, "classes_") else mean

    @available_if(_wraps_classifier)
    def predict_proba(self, X):
        """Predict class probabilities with the booster, or with the most probable leaf values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`. They are those of one score; `predict_uncertainty` has those that
            are averaged over the posterior.
        """
        check_is_fitted(self)
        if self._posterior.modes is None:
            return self.estimator_.predict_proba(X)
        return _probabilities(self._posterior.mean(X))

    def latent_mean_and_variance(self, X):
        """Return mean and variance of the raw scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Predictions, log-odds, or with three or more classes a score for each.
        variance : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Posterior variance. Its root ranks rows by how strange they are better than entropies do.
        """
        check_is_fitted(self)
        mean, variance, _ = self._posterior.moments(X)
        return (mean[:, 0], variance[:, 0]) if mean.shape[1] == 1 else (mean, variance)

    def predict_uncertainty(self, X):
        """Predict with uncertainty.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        Uncertainty
            Regression: `knowledge` the posterior variance, `data` the noise variance, the same for all rows.
            Classification: entropies in nats over the normal scores, `mean` averaged over them; with three or more
            classes by 256 quasi-random draws of all scores. `support` is the share of trees whose leaf holds rows of
            the fit.
        """
        check_is_fitted(self)
        mean, variance, support = self._posterior.moments(X)
        if not self._posterior.model.classifier:
            knowledge = variance[:, 0]
            data = np.full_like(knowledge, self.noise_variance_)
            return Uncertainty(mean[:, 0], knowledge, data, data + knowledge, support)
        if mean.shape[1] == 1:
            return Uncertainty(*binary_decomposition(LINKS["logit"], mean[:, 0], variance[:, 0]), support)
        return Uncertainty(*one_vs_rest_decomposition(_Softmax, mean, variance), support)

    def predict_members(self, X, n_members=10):
        """Predict with functions drawn from the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_members : int, default=10
            Number of members; with solver="sample" at most the parameter of that name.

        Returns
        -------
        ndarray of shape (n_members, n_samples) or (n_members, n_samples, n_classes)
            Predictions, or class probabilities, of independent members; the same in every call. They are without the
            term of `support`, which belongs to no function.

        Raises
        ------
        ValueError
            If `n_members` is not an integer of at least 1, or there are not so many.
        """
        n_members = check_n_members(n_members)
        check_is_fitted(self)
        if self.solver_ == "sample" and n_members > self._posterior.solvers[0].members.shape[1]:
            raise ValueError(
                f"n_members={n_members} is more than the {self._posterior.solvers[0].members.shape[1]} members that "
                "solver='sample' has drawn; fit with a larger n_members."
            )
        raw = self._posterior.members(X, n_members)
        return _probabilities(raw) if self._posterior.model.classifier else raw[..., 0]

    @available_if(_wraps_additive)
    def shape_deviations(self):
        """Return standard deviations of the shapes of an additive model.

        Terms are known only up to constants, which others can take up; what is known is a shape less its mean over the
        rows of `fit`, and its deviation is returned here.

        Returns
        -------
        list of ndarray
            For each term an array of the shape of its ``term_scores_``, in units of the raw score.
        """
        check_is_fitted(self)
        scores = self.estimator_.term_scores_
        variances = (self._posterior.centred_variances(term) for term in range(len(scores)))
        return [np.sqrt(variance).reshape(tensor.shape) for variance, tensor in zip(variances, scores, strict=True)]

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

    # ---- transformer -------------------------------------------------------------------------------------------------

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
            ``support``.
        """
        result = self.predict_uncertainty(X)
        return np.column_stack([result.mean, *(getattr(result, name) for name in PARTS)])

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
        means = [f"mean_{label}" for label in self.classes_] if hasattr(self, "classes_") else ["mean"]
        return np.array([*means, *PARTS], dtype=object)


def _probabilities(raw):
    """Return class probabilities for raw scores of any leading axes."""
    if raw.shape[-1] > 1:
        return softmax(raw, axis=-1)
    return np.concatenate([expit(-raw), expit(raw)], axis=-1)
