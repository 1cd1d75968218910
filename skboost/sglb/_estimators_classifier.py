"""SGLBClassifier: parameters, docstrings, and what classification does differently."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import type_of_target

from skboost._compat import StrOptions
from skboost._losses import MultiLabelLogLoss, make_loss, number_targets
from skboost._validation import apply_class_weight, n_target_columns
from skboost.sglb import _support
from skboost.sglb._estimators_base import BaseSGLB, StageClassifier


class SGLBClassifier(ClassifierMixin, BaseSGLB):
    """Stochastic gradient Langevin boosting for classification.

    Gradient boosting of trees turned into a Markov chain: noise on the gradients and a slow shrinkage of the model
    make its states samples from a posterior. One fit gives class probabilities and, from the late states of the
    chain, a virtual ensemble that splits the total uncertainty into knowledge and data uncertainty [1]_ [2]_.

    Parameters
    ----------
    loss : {"log_loss"}, default="log_loss"
        Binary or multinomial log loss, by the number of classes. Where y is a table of zeros and ones with several
        columns, each is a label of its own: the sum of their binary log losses.
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
        1 for increasing, -1 for decreasing, 0 for free; by position, or by column name. For two classes; the
        probability of ``classes_[1]`` is constrained.
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
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights. "balanced": inverse to the total weight of the
        class. They weigh rows held out for early stopping too, but not `X_val`.
    n_jobs : int or None, default=None
        Threads. None: one for each physical core that the process may use, as limited by threadpoolctl, or what
        OMP_NUM_THREADS says; -1 the same, -2 one less. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws. They are keyed by the content of the rows, so the order of the rows does not matter.
    verbose : int, default=0
        1 prints a line at the start and the end of a fit, 2 also the progress in between.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns; only when all are strings.
    n_iter_ : int
        Iterations of the fitted model.
    n_outputs_ : int
        Number of labels where y had several columns, else 1.
    feature_importances_ : ndarray of shape (`n_features_in_`,)
        Share of each column in the gain of all splits; sums to 1, or all 0 when nothing was split.
    train_score_, validation_score_ : ndarray of shape (n_scored,)
        Scores of the models of 0, 1, 2, ... iterations (or cycles, of a cyclical schedule), higher is better; empty
        without early stopping.
    noise_variance_ : float
        Variance v of the target around the model that scales the noise; 1 for losses that are likelihoods.
    diffusion_temperature_ : float
        T in use, 0 when the noise is off.
    shrink_factors_ : ndarray of shape (`n_iter_`,)
        Factor on the model before each iteration.

    See Also
    --------
    SGLBRegressor : The same for regression.
    sklearn.ensemble.HistGradientBoostingClassifier : Gradient boosting without uncertainty.

    Notes
    -----
    Iteration t shrinks the model by s_t, takes gradients g there, grows the tree on ``w g + sigma sqrt(w) xi`` and
    gives the leaf of weight W and gradient sum G the step ``-eps (G + sigma sqrt(D) xi) / D`` with fresh noise and ``D
    = W + lambda``; Newton leaves have the sum of second derivatives in the place of W. With ``T = 1`` the chain's
    stationary law is the posterior; larger T concentrates it. Structure noise is drawn per distinct row of bins, so
    whole-number weights equal repeated rows and the order of rows is irrelevant. One iteration costs about one addition
    per row and column and level; memory is about three bytes per row and column, besides X itself and the float copy
    that is made of a data frame.

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
    >>> from sklearn.datasets import load_iris
    >>> from skboost import SGLBClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SGLBClassifier(n_estimators=60, random_state=0).fit(X, y)
    >>> result = model.predict_uncertainty(X[:5])
    >>> result.mean.shape, bool((result.total == result.data + result.knowledge).all())
    ((5, 3), True)
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        **BaseSGLB._parameter_constraints,
        "loss": [StrOptions({"log_loss"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        *,
        loss="log_loss",
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
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.loss = loss
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
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _number_target(self, y, name="y"):
        if n_target_columns(y) < 2 or type_of_target(y, name) != "multilabel-indicator":
            return y, None
        if self.class_weight is not None:
            raise ValueError(f"class_weight={self.class_weight!r} does not go with {name} of several labels.")
        return number_targets(y.toarray() if hasattr(y, "toarray") else np.asarray(y))

    def _make_loss(self, data, table):
        if table is not None:
            return MultiLabelLogLoss(table[data.classes.astype(np.intp)])
        return make_loss(self.loss, n_classes=len(data.classes))

    def _collect(self, chain, monitor, task, record):
        state = super()._collect(chain, monitor, task, record)
        state.setdefault("classes_", np.arange(task.loss.n_outputs))
        return state

    def _weights(self, data):
        if self.class_weight is None:
            return data.sample_weight, None
        weight = apply_class_weight(self.class_weight, data.y, data.classes, data.sample_weight)
        if weight is not None and (dropped := np.unique(data.y[weight == 0]).astype(np.intp)).size:
            raise ValueError(
                f"class_weight must be above zero for every class; it is 0 for {data.classes[dropped].tolist()}."
            )
        counted = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
        return weight, None if weight is None else counted

    def _stage_model(self, loss, raw, classes):
        return StageClassifier(self._proba(raw, loss), raw, classes)

    @staticmethod
    def _proba(raw, loss):
        """Probabilities of shape (..., n_classes) from raw scores of shape (..., n_outputs)."""
        return loss.inverse_link(raw[..., 0] if loss.n_outputs == 1 else raw)

    def decision_function(self, X):
        """Return the raw scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds of ``classes_[1]`` for two classes, of each label where there are several, else a score per class.
        """
        raw = self._raw(X)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def staged_decision_function(self, X):
        """Return the raw scores of the model of 1, 2, ... iterations.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Yields
        ------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            What `decision_function` of a model stopped there returns; with averaging="mean" up to rounding.
        """
        for raw in self._staged_raw(X):
            yield raw[:, 0] if raw.shape[1] == 1 else raw

    def predict_proba(self, X):
        """Predict class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, n_labels)
            Probabilities in the order of `classes_`; with several labels that of each label.
        """
        return self._proba(self._raw(X), self._loss)

    def predict_log_proba(self, X):
        """Predict logarithms of class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithm of `predict_proba`; finite also where a probability is too small for a float.
        """
        raw = self._raw(X)
        return self._loss.log_inverse_link(raw[:, 0] if self._loss.n_outputs == 1 else raw)

    def staged_predict_proba(self, X):
        """Predict class probabilities with the model of 1, 2, ... iterations.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Yields
        ------
        ndarray of shape (n_samples, n_classes)
            What `predict_proba` of a model stopped there returns; with averaging="mean" up to rounding.
        """
        for raw in self._staged_raw(X):
            yield self._proba(raw, self._loss)

    def predict(self, X):
        """Predict the class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            Class labels; with several labels 1 where a row has the label, else 0.
        """
        return self._labels(self._raw(X))

    def staged_predict(self, X):
        """Predict the class with the model of 1, 2, ... iterations.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Yields
        ------
        ndarray of shape (n_samples,)
            What `predict` of a model stopped there returns; with averaging="mean" up to rounding.
        """
        for raw in self._staged_raw(X):
            yield self._labels(raw)

    def _labels(self, raw):
        if self._loss.uncertainty == "labels":
            return (raw > 0).astype(np.intp)
        # A raw score of exactly 0 is a tie and goes to the first class, as argmax does with equal probabilities.
        return self.classes_[(raw[:, 0] > 0).astype(np.intp) if raw.shape[1] == 1 else np.argmax(raw, axis=1)]

    def predict_virtual_ensembles(self, X, n_members=None):
        """Predict class probabilities with the members of the virtual ensemble.

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

        Returns
        -------
        ndarray of shape (n_members, n_samples, n_classes)
            Probabilities of the members.

        Raises
        ------
        ValueError
            If `n_members` is neither None nor an integer of at least 1, or needs more iterations than there are.
        """
        return self._proba(self._member_raw(X, n_members)[1], self._loss)

    def predict_uncertainty(self, X, n_members=None):
        """Predict class probabilities with uncertainty.

        `mean` is the mean over the members; it need not equal `predict_proba`, which uses the state or the average of
        states that `averaging` names.

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
            Entropies in nats: `total` of the mean probabilities, `data` the mean over members, `knowledge` the
            difference (the mutual information between label and member). With several labels all have one column per
            label, and `mean` is the probability of the label.

        Raises
        ------
        ValueError
            If `n_members` is neither None nor an integer of at least 1, or needs more iterations than there are.
        """
        counts, raw, variance, support = self._member_support(X, n_members)
        return self._as_uncertainty(_support.decompose(self._loss, raw, variance), support, counts)
