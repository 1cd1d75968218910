"""The public classifier: parameters, docstrings; a fit validates, finds hyper-parameters and posterior, and stores."""

import warnings
from numbers import Integral, Real

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, Kernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skboost._compat import Interval, StrOptions, check_parameters
from skboost._uncertainty import Uncertainty, check_n_members
from skboost._validation import unchanged_on_failure
from skboost.gaussian_process._averages import binary_decomposition, one_vs_rest_decomposition, row_blocks
from skboost.gaussian_process._checks import (
    apply_weights,
    check_combinations,
    check_n_joint,
    check_n_rows,
    check_rows,
    check_training_rows,
    encode_classes,
)
from skboost.gaussian_process._evidence import Problem, maximize_evidence, warn_of_wide_prior
from skboost.gaussian_process._links import LINKS

# A variance this far below zero, relative to the prior's, is no rounding.
ROUNDING = 1e-8


class LaplaceGPClassifier(ClassifierMixin, BaseEstimator):
    """Gaussian process classification with a Gaussian posterior.

    A latent function with a Gaussian process prior goes through a link to the probability of a class [1]_. Its
    posterior is replaced by a Gaussian: Laplace's method takes the mode, found by Newton's method, and the curvature
    there; expectation propagation matches moments. The classifier knows how far each prediction is pinned down by
    data, and its uncertainty returns to that of the prior away from them. It is for small tables: time grows with the
    cube of the number of rows, memory with the square.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        Covariance function of the prior, of ``sklearn.gaussian_process.kernels``. None is ``1.0 * RBF(1.0)`` with both
        numbers fixed. Of a kernel given here the hyper-parameters that are not fixed are learned, within their bounds.
    link : {"probit", "logit"}, default="probit"
        From the latent value to the probability: the normal distribution function, or the logistic function.
    approximation : {"laplace", "ep"}, default="laplace"
        "laplace": Gaussian at the mode. "ep": expectation propagation, for link="probit" only; takes ten times as long
        and is the more accurate one, by far when the kernel's variance is above about 10.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        Search for the hyper-parameters of the largest evidence. A callable gets ``(obj_func, initial_theta, bounds)``,
        where ``obj_func(theta, eval_gradient=True)`` is minus the log evidence with its gradient, and returns the best
        theta and its value. None leaves the kernel as it is.
    n_restarts_optimizer : int, default=0
        Further searches, from hyper-parameters drawn uniformly on the log scale between their bounds, which must be
        finite. Must be 0 with optimizer=None.
    max_iter_predict : int, default=100
        Most Newton steps, or sweeps over the rows, for one posterior.
    tol : float, default=1e-12
        Newton's method ends with a full step that changes the log joint density by at most this part of it. The sites
        of expectation propagation move in the last sweep by at most ``1e-3 * sqrt(tol)`` of the largest.
    warm_start : bool, default=False
        Within a fit, each posterior of the search starts from the one before. Saves time; the result is the same up to
        `tol`.
    copy_X_train : bool, default=True
        Keep a copy of the training rows. False keeps a reference when X needs no conversion; X must not change then.
    max_rows : int or None, default=2000
        Largest number of training rows, and of rows whose joint covariance is asked for; more are refused before
        anything is allocated. None: no limit.
    multi_class : {"one_vs_rest"}, default="one_vs_rest"
        With three or more classes, one latent function per class separates it from the others.
    random_state : int, RandomState instance or None, default=None
        Seed of the restarts; nothing else in a fit is random.
    n_jobs : int or None, default=None
        Threads over the classes, when there are three or more. None is 1, -1 all. The result does not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted class labels.
    n_classes_ : int
        Number of classes.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns; only when all are strings.
    kernel_ : Kernel
        Kernel with the hyper-parameters in use; with three or more classes a CompoundKernel of one per class.
    log_marginal_likelihood_value_ : float
        Log evidence at `kernel_`; with three or more classes the mean of `estimators_`.
    X_train_ : ndarray of shape (n_train, n_features)
        Training rows of positive weight; with approximation="ep" repeated by weight.
    y_train_ : ndarray of shape (n_train,)
        Positions of their labels in `classes_`.
    f_ : ndarray of shape (n_train,)
        Latent function at the training rows: the mode, with "ep" the posterior mean. Only with two classes.
    W_ : ndarray of shape (n_train,)
        Curvature of minus the log likelihood at the mode, with "ep" the precisions of the sites. Only with two classes.
    L_ : ndarray of shape (n_train, n_train)
        Lower Cholesky factor of ``I + W^1/2 K W^1/2``. Only with two classes.
    n_iter_ : int
        Newton steps, or sweeps, for the last posterior; the most of the classes.
    converged_ : bool
        Whether all of them ended before `max_iter_predict`.
    estimators_ : list of LaplaceGPClassifier
        One per class, class 1 being that class. Only with three or more classes.

    See Also
    --------
    SGLBClassifier : Boosting with uncertainty for tables of any size.
    sklearn.gaussian_process.GaussianProcessClassifier : Laplace's method for the logit link.

    Notes
    -----
    The prior mean is zero. Evidence, mode and predictions belong to one iterate, and Newton's steps are halved until
    the log joint density does not fall, which large prior variances need. The hyper-parameters maximise the evidence;
    maximising the joint density over latent values and hyper-parameters instead has no solution, since a growing
    variance always raises it. Laplace's method is no ground truth: it gives probabilities too close to 1/2 when the
    prior variance is large, and a fit that has learned one above 25 times the variance of the link warns.

    A row of weight w counts as w equal rows. Rows in another order give the same numbers up to rounding. One evaluation
    of the evidence takes about ``(n_iter_ + 4) n^3 / 3`` multiplications and ``(5 + p) 8 n^2`` bytes for n rows and p
    hyper-parameters.

    References
    ----------
    .. [1] C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skboost import LaplaceGPClassifier
    >>> X = np.array([[-1.0], [-0.6], [-0.2], [0.2], [0.6], [1.0]])
    >>> y = np.array([0, 0, 0, 1, 1, 1])
    >>> model = LaplaceGPClassifier(4.0 * RBF(0.5), optimizer=None).fit(X, y)
    >>> model.predict([[-0.5], [0.5]])
    array([0, 1])
    >>> result = model.predict_uncertainty([[0.5], [5.0]])
    >>> result.mean.round(2)
    array([[0.16, 0.84],
           [0.5 , 0.5 ]])
    >>> result.knowledge.round(2)
    array([0.15, 0.37])
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        "kernel": [Kernel, None],
        "link": [StrOptions(set(LINKS))],
        "approximation": [StrOptions({"laplace", "ep"})],
        "optimizer": [StrOptions({"fmin_l_bfgs_b"}), callable, None],
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "max_iter_predict": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "warm_start": ["boolean"],
        "copy_X_train": ["boolean"],
        "max_rows": [Interval(Integral, 1, None, closed="left"), None],
        "multi_class": [StrOptions({"one_vs_rest"})],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        kernel=None,
        *,
        link="probit",
        approximation="laplace",
        optimizer="fmin_l_bfgs_b",
        n_restarts_optimizer=0,
        max_iter_predict=100,
        tol=1e-12,
        warm_start=False,
        copy_X_train=True,
        max_rows=2000,
        multi_class="one_vs_rest",
        random_state=None,
        n_jobs=None,
    ):
        self.kernel = kernel
        self.link = link
        self.approximation = approximation
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter_predict = max_iter_predict
        self.tol = tol
        self.warm_start = warm_start
        self.copy_X_train = copy_X_train
        self.max_rows = max_rows
        self.multi_class = multi_class
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---- fit ---------------------------------------------------------------------------------------------------------

    def fit(self, X, y, sample_weight=None):
        """Fit hyper-parameters and posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or sequence of objects
            Training rows; anything that the kernel takes.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights, at least 0; whole numbers are numbers of copies. With approximation="ep" they must be whole.

        Returns
        -------
        LaplaceGPClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If parameters do not go together, there are more than `max_rows` rows, or `y` has one class only.
        """
        check_parameters(self)
        check_combinations(self)
        with unchanged_on_failure(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X, y, sample_weight):
        n_threads = effective_n_jobs(self.n_jobs)
        X, y = check_training_rows(self, X, y)
        X, y, weights = apply_weights(X, y, sample_weight, self.approximation)
        kernel = _default_kernel() if self.kernel is None else clone(self.kernel)
        learned = self.optimizer is not None and kernel.n_dims > 0
        repeats = weights is not None and self.approximation == "ep"
        n = int(weights.sum()) if repeats else len(X)
        check_n_rows(n, self.max_rows, kernel.n_dims if learned else 0, type(self).__name__)
        if repeats:
            X, y, weights = *(np.repeat(part, weights.astype(np.intp), axis=0) for part in (X, y)), None
        classes, codes = encode_classes(y, type(self).__name__)
        starts = self._starts(kernel) if learned else []
        self.classes_, self.n_classes_ = classes, len(classes)
        self.X_train_, self.y_train_ = np.array(X) if self.copy_X_train else X, codes
        if len(classes) == 2:
            self._fit_binary(kernel, starts, weights)
        else:
            self._fit_one_vs_rest(kernel, starts, weights, n_threads)
        return self

    def _starts(self, kernel):
        """Return the points where searches for hyper-parameters begin."""
        starts = [kernel.theta]
        if self.n_restarts_optimizer > 0:
            low, high = kernel.bounds.T
            if not np.isfinite(kernel.bounds).all():
                raise ValueError(
                    f"n_restarts_optimizer={self.n_restarts_optimizer} needs a kernel whose bounds are all finite."
                )
            generator = check_random_state(self.random_state)
            starts += [generator.uniform(low, high) for _ in range(self.n_restarts_optimizer)]
        return starts

    def _fit_binary(self, kernel, starts, weights):
        self._weights = weights
        problem = self._problem()
        if starts:
            maximize_evidence(problem, kernel, self.optimizer, starts, warm_start=self.warm_start)
        K = kernel(self.X_train_)
        posterior = problem.posterior(K)
        if not posterior.converged:
            warnings.warn(
                f"The posterior has not converged in max_iter_predict={self.max_iter_predict} steps.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if starts:
            warn_of_wide_prior(problem, K)
        self._kernel, self._posterior = kernel, posterior
        self.f_, self.W_, self.L_ = posterior.latent, posterior.precisions, posterior.factor
        self.n_iter_, self.converged_ = posterior.n_iter, posterior.converged
        self.log_marginal_likelihood_value_ = posterior.log_evidence
        vars(self).pop("estimators_", None)

    def _fit_one_vs_rest(self, kernel, starts, weights, n_threads):
        # Threads share X and leave the threads of the linear algebra alone, so that no bit depends on their number.
        self.estimators_ = Parallel(n_jobs=n_threads, require="sharedmem")(
            delayed(self._fit_class)(k, clone(kernel), starts, weights) for k in range(self.n_classes_)
        )
        self.n_iter_ = max(estimator.n_iter_ for estimator in self.estimators_)
        self.converged_ = all(estimator.converged_ for estimator in self.estimators_)
        evidences = [estimator.log_marginal_likelihood_value_ for estimator in self.estimators_]
        self.log_marginal_likelihood_value_ = float(np.mean(evidences))
        for name in ("_weights", "_kernel", "_posterior", "f_", "W_", "L_"):
            vars(self).pop(name, None)

    def _fit_class(self, k, kernel, starts, weights):
        """Return the binary classifier of one class against the others."""
        estimator = clone(self)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(estimator, name, getattr(self, name))
        estimator.classes_, estimator.n_classes_ = np.array([0, 1]), 2
        estimator.X_train_, estimator.y_train_ = self.X_train_, (self.y_train_ == k).astype(np.intp)
        estimator._fit_binary(kernel, starts, weights)
        return estimator

    def _problem(self):
        return Problem(
            X=self.X_train_,
            signs=2.0 * self.y_train_ - 1.0,
            weights=1.0 if self._weights is None else self._weights,
            link=LINKS[self.link],
            approximation=self.approximation,
            max_iter=self.max_iter_predict,
            tol=self.tol,
        )

    @property
    def kernel_(self):
        """Kernel with the hyper-parameters in use."""
        if hasattr(self, "estimators_"):
            return CompoundKernel([estimator.kernel_ for estimator in self.estimators_])
        return self._kernel

    def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
        """Return the log evidence of hyper-parameters.

        Parameters
        ----------
        theta : array-like of shape (n_params,) or None, default=None
            Logarithms of the hyper-parameters that are not fixed. With three or more classes either those of one
            kernel, used for all, or those of all kernels one after another. None: those in use, whose value is known.
        eval_gradient : bool, default=False
            Return the gradient too; needs a theta.
        clone_kernel : bool, default=True
            Leave `kernel_` alone. False sets its hyper-parameters to theta, which saves a copy but makes predictions
            and kernel disagree.

        Returns
        -------
        log_likelihood : float
            Log evidence; with three or more classes the mean over the classes.
        gradient : ndarray of shape (n_params,)
            Its gradient; only with `eval_gradient`.

        Raises
        ------
        ValueError
            If theta has the wrong length, or is None with `eval_gradient`.
        """
        check_is_fitted(self)
        if theta is None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated for theta!=None")
            return self.log_marginal_likelihood_value_
        theta = np.asarray(theta, dtype=np.float64)
        if self.n_classes_ > 2:
            return self._mean_log_marginal_likelihood(theta, eval_gradient, clone_kernel)
        kernel = self._kernel
        if theta.shape != (kernel.n_dims,):
            raise ValueError(f"theta must have the shape {(kernel.n_dims,)}, got {theta.shape}.")
        if clone_kernel:
            kernel = kernel.clone_with_theta(theta)
        else:
            kernel.theta = theta
        value, gradient, _ = self._problem().evidence(kernel, eval_gradient=eval_gradient)
        return (value, gradient) if eval_gradient else value

    def _mean_log_marginal_likelihood(self, theta, eval_gradient, clone_kernel):
        n_dims, k = self.estimators_[0].kernel_.n_dims, self.n_classes_
        shared = theta.shape == (n_dims,)
        if not shared and theta.shape != (n_dims * k,):
            raise ValueError(f"theta must have the shape {(n_dims,)} or {(n_dims * k,)}, got {theta.shape}.")
        thetas = np.tile(theta, (k, 1)) if shared else theta.reshape(k, n_dims)
        parts = [
            estimator.log_marginal_likelihood(own, eval_gradient, clone_kernel)
            for estimator, own in zip(self.estimators_, thetas, strict=True)
        ]
        if not eval_gradient:
            return float(np.mean(parts))
        gradients = np.array([gradient for _, gradient in parts]) / k
        return float(np.mean([value for value, _ in parts])), gradients.sum(axis=0) if shared else gradients.ravel()

    # ---- latent function ---------------------------------------------------------------------------------------------

    def latent_mean_and_variance(self, X):
        """Return mean and variance of the latent function.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or sequence of objects
            Rows.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Posterior mean; with three or more classes one column per class.
        variance : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Posterior variance, at most that of the prior. Its root ranks rows by how far they are from the data.
        """
        return self._moments(check_rows(self, X))

    def latent_covariance(self, X):
        """Return the joint covariance of the latent function at some rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or sequence of objects
            Rows, at most `max_rows`.

        Returns
        -------
        ndarray of shape (n_samples, n_samples) or (n_classes, n_samples, n_samples)
            Posterior covariance; with three or more classes one matrix per class, classes being independent.

        Raises
        ------
        ValueError
            If there are more than `max_rows` rows.
        """
        X = check_rows(self, X)
        check_n_joint(len(X), self.max_rows, "latent_covariance")
        return self._joint_moments(X)[1]

    def _moments(self, X):
        if self.n_classes_ > 2:
            pairs = [estimator._moments(X) for estimator in self.estimators_]
            return tuple(np.stack(columns, axis=1) for columns in zip(*pairs, strict=True))
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for rows in row_blocks(len(X), len(self.X_train_)):
            K_cross = self._kernel(self.X_train_, X[rows])
            mean[rows] = self._posterior.mean(K_cross)
            V = self._posterior.reduction(K_cross)
            variance[rows] = _positive(self._kernel.diag(X[rows]), np.einsum("ij,ij->j", V, V))
        return mean, variance

    def _means(self, X):
        """Return the latent means alone, a fraction of the work."""
        blocks = row_blocks(len(X), len(self.X_train_))
        return np.concatenate([self._posterior.mean(self._kernel(self.X_train_, X[rows])) for rows in blocks])

    def _joint_moments(self, X):
        if self.n_classes_ > 2:
            pairs = [estimator._joint_moments(X) for estimator in self.estimators_]
            return tuple(np.stack(parts) for parts in zip(*pairs, strict=True))
        K_cross = self._kernel(self.X_train_, X)
        V = self._posterior.reduction(K_cross)
        return self._posterior.mean(K_cross), self._kernel(X) - V.T @ V

    # ---- predictions -------------------------------------------------------------------------------------------------

    def decision_function(self, X):
        """Return a score per row, or per row and class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or sequence of objects
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            The latent value whose probability is the averaged one: the latent mean drawn towards 0 by its variance, so
            that it ranks rows as `predict_proba` does. Above 0 for ``classes_[1]``; with three or more classes one
            column per class against the rest, the largest for the predicted class.
        """
        mean, variance = self.latent_mean_and_variance(X)
        return LINKS[self.link].moderated(mean.ravel(), variance.ravel()).reshape(mean.shape)

    def predict(self, X):
        """Predict the class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or sequence of objects
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels of the largest probability.
        """
        check_is_fitted(self)
        if self.n_classes_ == 2:
            # The links are symmetric, so the sign of the latent mean is enough, at a fraction of the work.
            return self.classes_[(self._means(check_rows(self, X)) > 0).astype(np.intp)]
        return self.classes_[np.argmax(self.decision_function(X), axis=1)]

    def predict_proba(self, X):
        """Predict class probabilities, averaged over the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or sequence of objects
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`; with three or more classes those of class against rest, scaled to
            the sum 1.
        """
        mean, variance = self.latent_mean_and_variance(X)
        link = LINKS[self.link]
        if mean.ndim == 1:
            return np.stack(link.average(mean, variance), axis=1)
        one = link.average(mean.ravel(), variance.ravel())[1].reshape(mean.shape)
        return one / one.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X):
        """Predict logarithms of class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or sequence of objects
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithm of `predict_proba`, finite also where a probability is too small for a float.
        """
        mean, variance = self.latent_mean_and_variance(X)
        link = LINKS[self.link]
        if mean.ndim == 1:
            return np.stack(link.log_average(mean, variance), axis=1)
        one = link.log_average(mean.ravel(), variance.ravel())[1].reshape(mean.shape)
        return log_softmax(one, axis=1)

    def predict_members(self, X, n_members=10, random_state=0):
        """Predict with functions drawn from the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or sequence of objects
            Rows, at most `max_rows`: a member is one function, drawn at all rows together.
        n_members : int, default=10
            Number of members.
        random_state : int, RandomState instance or None, default=0
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_members, n_samples, n_classes)
            Class probabilities of the members, independent of each other.

        Raises
        ------
        ValueError
            If `n_members` is not an integer of at least 1, or there are more than `max_rows` rows.
        """
        n_members = check_n_members(n_members)
        X = check_rows(self, X)
        check_n_joint(len(X), self.max_rows, "predict_members")
        generator = check_random_state(random_state)
        mean, covariance = self._joint_moments(X)
        link = LINKS[self.link]
        if self.n_classes_ == 2:
            f = _draw(mean, covariance, n_members, generator)
            return np.stack([link.probability(-f), link.probability(f)], axis=2)
        f = [_draw(*moments, n_members, generator) for moments in zip(mean, covariance, strict=True)]
        log_q = link.log_probability(np.stack(f, axis=2))
        q = np.exp(log_q - log_q.max(axis=2, keepdims=True))
        return q / q.sum(axis=2, keepdims=True)

    def predict_uncertainty(self, X):
        """Predict class probabilities with uncertainty.

        With two classes everything is an exact average over the Gaussian posterior and `mean` is `predict_proba`. With
        more, latent values of the classes are drawn 256 times, the same quasi-random way for every row, and each draw
        is scaled to the sum 1; `mean` is the mean of these draws and differs a little from `predict_proba`, which
        averages first and scales then.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or sequence of objects
            Rows.

        Returns
        -------
        Uncertainty
            Entropies in nats: `data` the expected entropy of the label given the latent value, `knowledge` the mutual
            information of label and latent value, `total` their sum, the entropy of `mean`. `member_iterations` is
            None.
        """
        mean, variance = self.latent_mean_and_variance(X)
        split = binary_decomposition if mean.ndim == 1 else one_vs_rest_decomposition
        return Uncertainty(*split(LINKS[self.link], mean, variance))


def _default_kernel():
    return ConstantKernel(1.0, constant_value_bounds="fixed") * RBF(1.0, length_scale_bounds="fixed")


def _positive(prior, reduction):
    """Return posterior variances, not below zero; warn if more than rounding was below."""
    variance = prior - reduction
    if np.any(variance < -ROUNDING * prior):
        warnings.warn(
            "Posterior variances came out negative and were set to 0: is the kernel positive semi-definite?",
            UserWarning,
            stacklevel=4,
        )
    return np.maximum(variance, 0.0)


def _draw(mean, covariance, n, generator):
    """Return draws, shape (n, n_samples), of a normal law whose covariance may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return mean + generator.standard_normal((n, len(mean))) @ root.T
