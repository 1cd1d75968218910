"""SGLBRegressor: parameters, docstrings, and what regression does differently."""

import numbers

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skboost._compat import Interval, StrOptions
from skboost._losses import (
    DISTRIBUTIONS,
    LARGEST_SCALE,
    REGRESSION,
    SMALLEST_SCALE,
    MultiSquaredError,
    SurvivalLoss,
    make_loss,
    number_targets,
)
from skboost._validation import n_target_columns
from skboost.distributions import Mixture
from skboost.sglb import _support
from skboost.sglb._estimators_base import BaseSGLB, StageRegressor
from skboost.sglb._estimators_survival import LOSSES, StageSurvival, SurvivalMixin, number_times

# Parameters that are constants of a loss: their default, and the losses that have them.
LOSS_OPTIONS = {
    "quantile": (None, ("quantile", "expectile")),
    "delta": (None, ("huber", "pseudo_huber")),
    "power": (1.5, ("tweedie",)),
    "distribution": (None, ("aft",)),
    "scale": (None, ("aft",)),
}
COUNTS = ("poisson", "poisson_distribution", "negative_binomial")
POSITIVE = (*COUNTS, "gamma", "tweedie", "lognormal", "gamma_distribution", "aft")


class SGLBRegressor(SurvivalMixin, RegressorMixin, BaseSGLB):
    """Stochastic gradient Langevin boosting for regression.

    Gradient boosting of trees turned into a Markov chain: noise on the gradients and a slow shrinkage of the model
    make its states samples from a posterior. One fit gives predictions and, from the late states of the chain, a
    virtual ensemble whose spread is the model's knowledge uncertainty [1]_ [2]_.

    Parameters
    ----------
    loss : str, default="squared_error"
        What is minimised. "squared_error": the mean, of several targets at once where y has several columns.
        "absolute_error": the median. "quantile": one or several quantiles. "expectile": an expectile. "huber",
        "pseudo_huber": between mean and median. "poisson", "gamma", "tweedie": positive means with a log link.
        Losses of whole distributions, with data uncertainty: "gaussian" or "normal", "laplace", for positive targets
        "lognormal" and "gamma_distribution", for counts "poisson_distribution" and "negative_binomial".
        "cox", "aft": times that may be censored, by Cox's partial likelihood of relative risks or as accelerated
        failure times.
    quantile : float, array-like of float or None, default=None
        Level of loss="quantile" or "expectile", in (0, 1); ascending levels for several quantiles at once. None: 0.5.
    delta : float or None, default=None
        Residual from which on loss="huber" or "pseudo_huber" is linear, in units of y. None: 1.345 times the scaled
        median absolute deviation of y.
    power : float, default=1.5
        Power of the mean that the variance of loss="tweedie" follows, above 1 and below 2.
    distribution : {"normal", "logistic", "extreme"} or None, default=None
        Law of the noise z of loss="aft", where the log of a time is ``f + scale z``; "extreme" is that of the log of an
        exponential variate, which makes times Weibull variates. None: "normal".
    scale : float or None, default=None
        Factor on this noise, 1e-4 to 1e4. None: 1.
    n_estimators : int, default=1000
        Number of boosting iterations. Each grows one tree, with vector leaves when the loss has several outputs.
    learning_rate : float, default=0.1
        Step of the chain (eps), in [1e-10, 1].
    grow_policy : {"symmetric", "depthwise", "lossguide"}, default="symmetric"
        "symmetric": all nodes of a level share one test (fast to evaluate, smooth); a node that a level's test would
        leave with a child below `min_samples_leaf` stays whole in that level. "depthwise": level by level.
        "lossguide": the leaf of largest gain first.
    max_depth : int or None, default=6
        Largest depth of a tree. None means no limit; "symmetric" needs a depth between 1 and 16.
    max_leaf_nodes : int or None, default=None
        Largest number of leaves. None: no limit; 31 for "lossguide". Must be None for "symmetric".
    min_samples_leaf : float, default=1
        Least total sample weight of a leaf (before class weights).
    l2_regularization : float, default=1.0
        The lambda of the formulas, in units of weight. It is a preconditioner of the chain, not a prior: the
        stationary law does not depend on it.
    max_bins : int, default=255
        Largest number of bins of a column, 2 to 255; missing values have one more.
    max_features : int or float, default=1.0
        Columns drawn for each tree: a number, or a share in (0, 1].
    subsample : float, default=1.0
        Share of the rows drawn for the structure of each tree, in (0, 1]. Leaf values always use all rows.
    categorical_features : array-like of bool, int or str, "from_dtype" or None, default="from_dtype"
        Categorical columns as a mask, column numbers or names. "from_dtype": the columns of categorical type in a
        pandas or polars frame. None: no column. A column of more than `max_bins` categories keeps the heaviest apart
        and pools the rest.
    monotonic_cst : array-like of int, dict of str to int or None, default=None
        1 for increasing, -1 for decreasing, 0 for free; by position, or by column name. For losses with one output.
    interaction_cst : {"pairwise", "no_interactions"}, sequence of collections of int or None, default=None
        Groups of columns that may meet in one tree path, as in scikit-learn.
    posterior_sampling : bool, default=True
        Sample from a posterior: Langevin noise on, model shrink rate ``1 / (2 N)`` with N the total weight.
    langevin : bool or None, default=None
        Noise without the posterior's shrink rate. None follows `posterior_sampling`; with both off this is plain
        gradient boosting.
    diffusion_temperature : float or None, default=None
        Inverse temperature T per row: the noise on a row's gradient has standard deviation ``sqrt(2 v / (eps T))``,
        so larger is quieter; 0 means no noise. 1 samples the exact posterior. None: 100 with `posterior_sampling`,
        10000 with `langevin` alone, and no noise without either.
    model_shrink_rate : float or None, default=None
        The model is multiplied by ``1 - model_shrink_rate * eps`` before each iteration. None means 0; must be None
        with `posterior_sampling`, which sets it.
    model_shrink_mode : {"constant", "decreasing"}, default="constant"
        "decreasing" uses ``1 - model_shrink_rate / t`` in iteration t. The base score is never shrunk.
    leaf_estimation : {"gradient", "newton"}, default="gradient"
        Gradient leaves have a clean stationary law; Newton leaves are an approximation unless the second derivative
        is constant. The same for squared error.
    averaging : {"last", "mean"}, default="last"
        What predictions use: the last state of the chain, or the mean of the raw scores over the second half of the
        chain, with a cyclical schedule over the ends of the complete cycles (the last state before the first of them).
        A switch of predictions, which `set_params` may change after the fit; virtual ensembles and uncertainties do not
        depend on it. "mean" does not go with `early_stopping`, which scores the last state.
    noise_variance : float or "auto", default="auto"
        Variance of the target around the model, for loss="squared_error" with noise. "auto" measures it on held-out
        rows of a short fit without noise.
    schedule : {"constant", "cyclical"}, default="constant"
        "cyclical" multiplies the gradients by a factor that falls from `gradient_scale_max` to `gradient_scale_min` in
        every cycle [3]_; noise, weights and second derivatives keep their size. Long steps take the chain to other
        modes, and the states at the ends of the complete cycles are the members of the virtual ensemble and what
        averaging="mean" averages.
    cycle_length : int, default=50
        Iterations of a cycle (C), for schedule="cyclical".
    gradient_scale_max : float, default=10.0
        Factor at the start of a cycle, for schedule="cyclical", at most 1e6. With `learning_rate` and the curvature of
        the loss (1; 1/4 for two classes and 1/2 for more with gradient leaves) the product must be below 2 and warns
        above 1.
    gradient_scale_min : float, default=1.0
        Factor at the end of a cycle, for schedule="cyclical"; at least 1e-6 and at most `gradient_scale_max`.
    exploration_fraction : float, default=0.8
        Share of each cycle, from its start, in which the masks of `bootstrap_fraction` act, in [0, 1].
    bootstrap_fraction : float or None, default=None
        Masks for schedule="cyclical": at the start of a cycle each row is drawn with this probability, in (0, 1), and
        while the cycle explores only drawn rows have gradients; all keep weight and noise. None: no masks.
    schedule_form : {"clamp", "affine"}, default="clamp"
        Factor at the position r from 0 to 1 of a cycle, with ``c = (1 + cos(pi r)) / 2``, a for `gradient_scale_max`
        and b for `gradient_scale_min`: "clamp" is ``max(a c, b)``, "affine" is ``b + (a - b) c``.
    prior_split_rate : float or None, default=None
        Chance that a split is drawn at random instead of searched, once per level of a symmetric tree and once per node
        of others: one of the columns, one of its cuts. A drawn split may leave a child without training rows; its value
        keeps the variance of its prior, which `predict_uncertainty` adds to the knowledge of what falls there. None:
        0.15 with `posterior_sampling`, else 0.
    n_prior_cuts : int or None, default=None
        Number of cuts of every numeric column that are spread evenly over its range and beyond it, so that gaps in the
        data and what lies outside have bins of their own; at most 128. None: 32 where `prior_split_rate` is above 0,
        else 0.
    cut_margin : float or None, default=None
        How far these cuts reach beyond the data on each side, in units of their range. None: 0.5.
    early_stopping : bool, default=False
        Stop when the score has not grown for `n_iter_no_change` iterations and keep the best model. It selects an
        early state of the chain, so leave it off when the uncertainties matter. A cyclical schedule is scored at the
        ends of cycles only, and `n_iter_no_change` counts these; it needs `n_estimators` of at least `cycle_length`.
    validation_fraction : int, float or None, default=0.1
        Rows held out for early stopping: a share, or a number. None: score the training rows.
    n_iter_no_change : int, default=10
        Patience of early stopping.
    tol : float, default=1e-7
        Growth of the score that counts.
    scoring : str, callable or None, default="loss"
        Score of early stopping: "loss" for minus the mean loss, a name or callable of scikit-learn, None for the
        estimator's own score. Scorers may use predictions and the target; the X they see is a placeholder.
    warm_start : bool, default=False
        Continue the chain of the last fit up to `n_estimators`; the result equals one uninterrupted fit. Besides
        `n_estimators` only `n_jobs`, `verbose`, `averaging`, `n_iter_no_change` and `tol` may change; another change,
        of the data too, is refused by name.
    n_jobs : int or None, default=None
        Threads. None: one for each physical core that the process may use, as limited by threadpoolctl, or what
        OMP_NUM_THREADS says; -1 the same, -2 one less. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws. They are keyed by the content of the rows, so the order of the rows does not matter.
    verbose : int, default=0
        1 prints a line at the start and the end of a fit, 2 also the progress in between.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns; only when all are strings.
    n_iter_ : int
        Iterations of the fitted model.
    n_outputs_ : int
        Number of targets.
    feature_importances_ : ndarray of shape (`n_features_in_`,)
        Share of each column in the gain of all splits; sums to 1, or all 0 when nothing was split.
    train_score_, validation_score_ : ndarray of shape (n_scored,)
        Scores of the models of 0, 1, 2, ... iterations (or cycles, of a cyclical schedule), higher is better; empty
        without early stopping.
    noise_variance_ : float or ndarray of shape (n_outputs,)
        Variance v of the target around the model that scales the noise; 1 for losses that are likelihoods. For
        quantiles the variance of a fitted constant times the number of rows, under a Laplace law of unequal sides; for
        "gamma" and "tweedie" the dispersion, by Pearson's estimate.
    diffusion_temperature_ : float
        T in use, 0 when the noise is off.
    shrink_factors_ : ndarray of shape (`n_iter_`,)
        Factor on the model before each iteration.

    See Also
    --------
    SGLBClassifier : The same for classification.
    sklearn.ensemble.HistGradientBoostingRegressor : Gradient boosting without uncertainty.

    Notes
    -----
    Iteration t shrinks the model by s_t, takes gradients g there, grows the tree on ``w g + sigma sqrt(w) xi`` and
    gives the leaf of weight W and gradient sum G the step ``-eps (G + sigma sqrt(D) xi) / D`` with fresh noise and ``D
    = W + lambda``; "poisson" multiplies W by the mean of y, Newton leaves have the sum of second derivatives in its
    place, and the log deviation of "gaussian" divides by ``D - G``, at least ``D / 2``; its gradient is corrected by
    what fitting leaves of coins, as the user guide says. With ``T = 1`` the chain's stationary law is the
    posterior; larger T concentrates it. Structure noise is drawn per distinct row of bins, so whole-number weights
    equal repeated rows and the order of rows is irrelevant. One iteration costs about one addition per row and column
    and level; memory is about three bytes per row and column, besides X itself and the float copy that is made of a
    data frame.

    References
    ----------
    .. [1] A. Ustimenko and L. Prokhorenkova, "SGLB: Stochastic Gradient Langevin Boosting", ICML 2021,
       arXiv:2001.07248.
    .. [2] A. Malinin, L. Prokhorenkova and A. Ustimenko, "Uncertainty in Gradient Boosting via Ensembles", ICLR 2021,
       arXiv:2006.10562.
    .. [3] T. Tan, C. Huertas and Q. Zhao, "Efficient and Effective Uncertainty Quantification in Gradient Boosting via
       Cyclical Gradient MCMC", CEUR Workshop Proceedings vol. 3381, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import SGLBRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(400, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=400)
    >>> model = SGLBRegressor(n_estimators=100, random_state=0).fit(X, y)
    >>> result = model.predict_uncertainty(X[:5])
    >>> result.mean.shape, bool((result.knowledge >= 0).all())
    ((5,), True)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        **BaseSGLB._parameter_constraints,
        "loss": [StrOptions(set(REGRESSION))],
        "quantile": [Interval(numbers.Real, 0, 1, closed="neither"), "array-like", None],
        "delta": [Interval(numbers.Real, 0, None, closed="neither"), None],
        "power": [Interval(numbers.Real, 1, 2, closed="neither")],
        "distribution": [StrOptions(set(DISTRIBUTIONS)), None],
        "scale": [Interval(numbers.Real, SMALLEST_SCALE, LARGEST_SCALE, closed="both"), None],
        "noise_variance": [Interval(numbers.Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        *,
        loss="squared_error",
        quantile=None,
        delta=None,
        power=1.5,
        distribution=None,
        scale=None,
        n_estimators=1000,
        learning_rate=0.1,
        grow_policy="symmetric",
        max_depth=6,
        max_leaf_nodes=None,
        min_samples_leaf=1,
        l2_regularization=1.0,
        max_bins=255,
        max_features=1.0,
        subsample=1.0,
        categorical_features="from_dtype",
        monotonic_cst=None,
        interaction_cst=None,
        posterior_sampling=True,
        langevin=None,
        diffusion_temperature=None,
        model_shrink_rate=None,
        model_shrink_mode="constant",
        leaf_estimation="gradient",
        averaging="last",
        noise_variance="auto",
        schedule="constant",
        cycle_length=50,
        gradient_scale_max=10.0,
        gradient_scale_min=1.0,
        exploration_fraction=0.8,
        bootstrap_fraction=None,
        schedule_form="clamp",
        prior_split_rate=None,
        n_prior_cuts=None,
        cut_margin=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-7,
        scoring="loss",
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.loss = loss
        self.quantile = quantile
        self.delta = delta
        self.power = power
        self.distribution = distribution
        self.scale = scale
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.grow_policy = grow_policy
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.max_features = max_features
        self.subsample = subsample
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.posterior_sampling = posterior_sampling
        self.langevin = langevin
        self.diffusion_temperature = diffusion_temperature
        self.model_shrink_rate = model_shrink_rate
        self.model_shrink_mode = model_shrink_mode
        self.leaf_estimation = leaf_estimation
        self.averaging = averaging
        self.noise_variance = noise_variance
        self.schedule = schedule
        self.cycle_length = cycle_length
        self.gradient_scale_max = gradient_scale_max
        self.gradient_scale_min = gradient_scale_min
        self.exploration_fraction = exploration_fraction
        self.bootstrap_fraction = bootstrap_fraction
        self.schedule_form = schedule_form
        self.prior_split_rate = prior_split_rate
        self.n_prior_cuts = n_prior_cuts
        self.cut_margin = cut_margin
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.scoring = scoring
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss in POSITIVE
        tags.target_tags.multi_output = self.loss == "squared_error"
        return tags

    def _check_params_jointly(self):
        super()._check_params_jointly()
        for name, (default, losses) in LOSS_OPTIONS.items():
            value = getattr(self, name)
            if self.loss not in losses and value is not default and not np.array_equal(value, default):
                raise ValueError(
                    f"{name}={value!r} needs loss={' or '.join(map(repr, losses))}; it does not go with "
                    f"loss={self.loss!r}."
                )
        loss = make_loss(self.loss, **self._loss_options())
        if loss.renews_leaves:
            for name in ("bootstrap_fraction", "leaf_estimation"):
                value = getattr(self, name)
                if value not in (None, "gradient"):
                    raise ValueError(
                        f"{name}={value!r} does not go with loss={self.loss!r}, whose leaves take a quantile of their "
                        "residuals."
                    )

    def _loss_options(self):
        if self.loss == "quantile":
            if np.ndim(self.quantile) > 1:
                raise ValueError(f"quantile must be a number or a list of numbers, got {self.quantile!r}.")
            return {"levels": np.ravel(0.5 if self.quantile is None else self.quantile).tolist()}
        if self.loss == "expectile":
            if self.quantile is not None and not isinstance(self.quantile, numbers.Real):
                raise ValueError(f"loss='expectile' takes one number as quantile, got {self.quantile!r}.")
            return {"level": 0.5 if self.quantile is None else float(self.quantile)}
        if self.loss == "tweedie":
            return {"power": self.power}
        if self.loss == "aft":
            distribution = "normal" if self.distribution is None else self.distribution
            return {"distribution": distribution, "scale": 1.0 if self.scale is None else self.scale}
        return {"delta": self.delta} if self.loss in ("huber", "pseudo_huber") else {}

    def _number_target(self, y, name="y"):
        if self.loss in LOSSES and y is not None:
            return number_times(self.loss, y, name)
        if self.loss != "squared_error" or n_target_columns(y) < 2:
            return y, None
        return number_targets(check_array(y, dtype=np.float64, input_name=name, estimator=self))

    def _make_loss(self, data, table):
        if self.loss == "squared_error" and table is not None:
            return MultiSquaredError(table)
        loss = make_loss(self.loss, **self._loss_options())
        return loss if table is None else loss.with_targets(table)

    def _stage_model(self, loss, raw, classes):
        prediction = self._from_raw(raw, loss)
        return StageSurvival(prediction, loss.name) if isinstance(loss, SurvivalLoss) else StageRegressor(prediction)

    def _from_raw(self, raw, loss):
        """What `predict` shows, from raw scores of shape (..., n_samples, n_outputs)."""
        return loss.point(loss.inverse_link(raw[..., 0] if loss.n_outputs == 1 else raw))

    def predict(self, X):
        """Predict the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Expected values, or the quantile or expectile that the loss fits; of several quantiles the one next to 1/2.
            One column per column of y when y had several. Relative risks for loss="cox"; for loss="aft" the time whose
            log is the raw score: the median with normal and logistic noise, with extreme value noise the time that a
            share of 1/e outlives.
        """
        return self._from_raw(self._raw(X), self._loss)

    def predict_quantiles(self, X):
        """Predict all quantiles of a model with loss="quantile".

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_levels)
            Quantiles at the levels of `quantile`; they never decrease along a row.

        Raises
        ------
        ValueError
            If the model was fitted with another loss.
        """
        check_is_fitted(self)
        if self._loss.name != "quantile":
            raise ValueError(f"predict_quantiles needs loss='quantile', got loss={self._loss.name!r}.")
        raw = self._raw(X)
        return self._loss.inverse_link(raw)

    def staged_predict(self, X):
        """Predict with the model of 1, 2, ... iterations.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            What `predict` of a model stopped there returns; with averaging="mean" up to rounding.
        """
        for raw in self._staged_raw(X):
            yield self._from_raw(raw, self._loss)

    def predict_virtual_ensembles(self, X, n_members=None, *, return_variance=False):
        """Predict with the members of the virtual ensemble.

        Member k is the state of the chain after ``n_iter_ - (n_members - k) p`` iterations, ``p = n_iter_ // (2
        n_members)``: it is the state of the chain of the same parameters stopped there, whatever `averaging` says. With
        schedule="cyclical" the members are the states after the last iteration of the last complete cycles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_members : int or None, default=None
            Number of members, at most ``n_iter_ // 2``, or ``n_iter_ // cycle_length`` of a cyclical schedule. None:
            10, or the ends of all complete cycles.
        return_variance : bool, default=False
            Return also the members' predicted variances, for losses of whole distributions.

        Returns
        -------
        members : ndarray of shape (n_members, n_samples) or (n_members, n_samples, n_outputs)
            Predictions of the members.
        variances : ndarray of shape (n_members, n_samples)
            Their variances; only with `return_variance`.

        Raises
        ------
        ValueError
            If `n_members` is neither None nor an integer of at least 1, or needs more iterations than there are, or if
            `return_variance` is asked of another loss.
        """
        check_is_fitted(self)
        if return_variance and not self._loss.predicts_spread:
            raise ValueError(
                "return_variance=True needs a loss of a whole distribution, such as loss='gaussian', got "
                f"loss={self._loss.name!r}."
            )
        raw = self._member_raw(X, n_members)[1]
        return self._loss.mean_variance(raw) if return_variance else self._from_raw(raw, self._loss)

    def predict_distribution(self, X, n_members=None):
        """Predict the distribution of the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_members : int or None, default=None
            None: the distribution behind `predict`. A number: the equal mixture of the distributions of as many members
            of the virtual ensemble, which adds what the model does not know; its mean need not equal `predict`.

        Returns
        -------
        Distribution
            An object of `skboost.distributions` with the parameters, moments, quantiles, densities and scores of all
            rows; a `Mixture` with `n_members`. Variance from leaves without training rows, which `predict_uncertainty`
            adds, is not part of it.

        Raises
        ------
        ValueError
            If the loss of the model is not of a whole distribution (loss="poisson" is one here too), or `n_members` is
            neither None nor an integer of at least 1, or needs more iterations than there are.

        Examples
        --------
        >>> import numpy as np
        >>> from skboost import SGLBRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(300, 1))
        >>> y = rng.poisson(np.exp(2 * X[:, 0])).astype(float)
        >>> model = SGLBRegressor(loss="negative_binomial", n_estimators=50, max_depth=2, random_state=0).fit(X, y)
        >>> predicted = model.predict_distribution(X[:4])
        >>> type(predicted).__name__, predicted.quantile([0.05, 0.95]).shape
        ('NegativeBinomial', (2, 4))
        """
        check_is_fitted(self)
        if not self._loss.predicts_distribution:
            raise ValueError(
                f"predict_distribution needs a loss of a whole distribution, such as loss='gaussian', got "
                f"loss={self._loss.name!r}."
            )
        if n_members is None:
            return self._loss.distribution(self._raw(X))
        return Mixture(self._loss.distribution(self._member_raw(X, n_members)[1]))

    def predict_uncertainty(self, X, n_members=None):
        """Predict with uncertainty.

        `mean` is the mean over the members; it need not equal `predict`, which uses the state or the average of states
        that `averaging` names.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_members : int or None, default=None
            Number of members of the virtual ensemble, at most ``n_iter_ // 2``, or ``n_iter_ // cycle_length`` of a
            cyclical schedule. None: 10, or the ends of all complete cycles.

        Returns
        -------
        Uncertainty
            Variances in squared units of the target: `knowledge` is the variance of the members' predictions, `data`
            the mean of their predicted variances (None unless the loss is of a whole distribution), `total` the sum.
            `mean` and `knowledge` have one column per column of y when y had several. The knowledge of a quantile is
            that of the quantile, not of the target.

        Raises
        ------
        ValueError
            If `n_members` is neither None nor an integer of at least 1, or needs more iterations than there are.
        """
        counts, raw, variance, support = self._member_support(X, n_members)
        scale = None if self._record.noise_scales is None else self.noise_variance_
        return self._as_uncertainty(_support.decompose(self._loss, raw, variance, scale), support, counts)
