"""The public estimators of additive models: parameters, docstrings, and where the two differ."""

import numbers

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from skboost import _uncertainty
from skboost._compat import Interval, StrOptions
from skboost._losses import make_loss
from skboost.ebm._estimators_base import BaseEBM
from skboost.ebm._estimators_boulevard import CONSTRAINTS, BoulevardMixin, check_boulevard_params

DEFAULT_POWER = 1.5


class EBMRegressor(RegressorMixin, BoulevardMixin, BaseEBM):
    """Explainable boosting machine for regression.

    A sum of shape functions, one per feature and one per chosen pair of features, boosted in many small steps [1]_.
    The model can be read term by term, and its predictions are the sum of what is read.

    Parameters
    ----------
    loss : {"squared_error", "poisson", "gamma", "tweedie"}, default="squared_error"
        All but the first have a log link: "poisson" for counts and rates, "gamma" for positive targets, "tweedie" for
        targets that are positive or exactly 0.
    interactions : int, float, str, sequence of pairs or None, default=10
        Pairs of features that get a joint term: a number of pairs, a share of the number of features in (0, 1), a
        multiple of it as in "3x", or the pairs themselves by column numbers or names. Numbers of pairs choose those
        that FAST ranks highest on average over the bags [2]_. 0 and None: no pairs. Never more than there are.
    max_bins : int, default=1024
        Largest number of cells of a numeric feature, 4 to 65536; the cells of missing and of unseen values are counted.
    max_interaction_bins : int, default=64
        Largest number of cells of a feature inside pairs, 4 to 1024, counted alike. The cuts of pairs are some of the
        cuts of main effects; categories beyond the number share a cell, the lightest ones.
    exclude : "mains", sequence of int, str or pairs, or None, default=None
        Terms to leave out: features by column number or name for their main effects, pairs for automatic
        interactions. "mains": all main effects.
    categorical_features : array-like of bool, int or str, "from_dtype" or None, default="from_dtype"
        Categorical columns as a mask, column numbers or names. "from_dtype": the columns of categorical or string
        type in a pandas or polars frame, and those of object type that hold texts. None: no column. Every category has
        a cell of its own.
    monotonic_cst : array-like of int, dict of str to int or None, default=None
        1 for increasing, -1 for decreasing, 0 for free, by position or column name. For numeric features, which then
        enter no pair.
    missing : {"separate", "gain", "low", "high"}, default="separate"
        Missing values of numeric features: a leaf of their own in every tree, on the side of larger gain, or below or
        above all numbers.
    learning_rate : float, default=0.04
        Factor on every update, in (0, 1].
    max_rounds : int, default=50000
        A stage, main effects or pairs, ends after this many updates per term.
    max_leaves : int, default=2
        Leaves of the trees of main effects, at least 2. Trees of pairs have three.
    min_samples_leaf : float, default=4
        Least total sample weight of a leaf.
    min_hessian : float, default=0.0
        Least sum of second derivatives of a leaf.
    l2_regularization : float, default=0.0
        Added to the denominators of leaf values and gains.
    outer_bags : int, default=14
        Number of models, each trained on another part of the rows; the terms are their means.
    validation_size : int or float, default=0.15
        Rows that each bag leaves out of training to find the best number of updates: a share below 1, or a number. 0:
        all rows train, and nothing stops early.
    early_stopping_rounds : int, default=100
        A stage of a bag stops when this many updates per term brought no improvement, and its best model is kept; 0
        never stops early and keeps the last model.
    early_stopping_tolerance : float, default=1e-5
        Share of the validation loss by which it must improve. A millionth of the loss of the best constant is the least
        improvement that counts, unless the tolerance is negative.
    smoothing_rounds : int, default=500
        Rounds over all main effects, at the start, with trees cut at random.
    interaction_smoothing_rounds : int, default=100
        The same for pairs.
    greedy_ratio : float, default=10.0
        After the smoothing rounds each round that measures the gain of every term is followed by this many updates per
        term, always of the term of largest gain. 0: rounds over all terms in one order, which is drawn.
    cyclic_progress : float, default=0.0
        Share of the measuring rounds that update the terms too, between 0 and 1; 1 without greedy updates.
    min_cat_samples : float, default=10
        Categories of less weight are pooled when a tree is searched.
    cat_smooth : float, default=10.0
        Added to the denominator of the key by which categories are ordered.
    gain_scale : float, default=5.0
        Factor on the gain of main effects of categorical features where terms compete.
    purify : bool, default=True
        Move what a pair says of one of its features alone to that feature's main effect, exactly; predictions stay.
    power : float, default=1.5
        Power of the mean that the variance of loss="tweedie" follows, above 1 and below 2. Other losses have none.
    trainer : {"auto", "tables", "rows"}, default="auto"
        How main effects are trained: on tables of co-occurrence, whose updates do not touch the rows, or on the rows.
        "auto" takes what is expected to be faster. For squared error both give the same model up to rounding; for other
        losses tables let gradients lag behind by a few rounds. Pairs are always trained on the rows.
    max_table_bytes : int, default=1073741824
        Largest memory of all tables in bytes. "auto" trains on the rows where they do not fit.
    boulevard : bool, default=False
        Boulevard training: trees are averaged instead of added up, which gives the terms a known law, and with it
        `shape_intervals`, `predict_interval`, `term_tests` and `standard_errors_`. Squared error only; parameters of
        the other training must keep their defaults.
    boulevard_update : {"leave_one_out", "joint"}, default="leave_one_out"
        What the tree of a term is fitted to: the residuals of all other terms, or of all terms.
    boulevard_structure : {"random", "honest", "greedy"}, default="random"
        Where the cuts of trees come from: random numbers; labels of one half of the drawn rows, the leaves then
        averaging the other half; the labels that the leaves average. Intervals assume cuts that do not know these.
    boulevard_rounds : int, default=300
        Trees per term.
    boulevard_subsample : float, default=1.0
        Share of the rows that each tree draws, in (0, 1].
    boulevard_learning_rate : float, default=1.0
        Factor on trees, positive. With joint updates a larger one means less bias, less leakage between terms and
        slower averaging; leave-one-out updates need 1.
    boulevard_max_leaves : int, default=48
        Most leaves of a tree, 2 to 32000; leaves of missing values come on top.
    boulevard_max_bins : int, default=64
        Largest number of cells of a numeric feature, 4 to 65536; the cells of missing and of unseen values are counted.
    boulevard_max_interaction_bins : int, default=16
        Largest number of cells of a feature inside pairs, 4 to 256, counted alike.
    callback : callable or None, default=None
        Called as ``callback(bag, stage, step, metric)`` after every update, stage 0 for main effects and 1 for pairs,
        metric the validation loss or NaN where it is not known. A true return value ends that stage of that bag. Calls
        come from several threads, one at a time.
    n_jobs : int or None, default=None
        Threads over the bags. None: one for each physical core that the process may use, as limited by threadpoolctl,
        or what OMP_NUM_THREADS says; -1 the same, -2 one less. Terms of millions of cells use fewer, for the sake of
        memory. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws. They are keyed by the content of the rows, so the order of the rows does not matter.
    verbose : int, default=0
        1 prints a line at the start and the end of every stage, 2 also the progress in between.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns; only when all are strings.
    feature_types_in_ : list of str
        "continuous" or "nominal" for every column.
    term_features_ : list of tuple of int
        Columns of every term: main effects first, then pairs, each in ascending order.
    term_names_ : list of str
        Names of the terms, "a" or "a & b"; columns without names are called x0, x1 and so on.
    term_scores_ : list of ndarray
        Contribution of every cell of every term to the raw score. Cell 0 of an axis holds missing values, the last cell
        categories never seen; in between lie the cells of `bins_`.
    standard_deviations_ : list of ndarray
        Standard deviation of the scores over the bags.
    bagged_scores_ : list of ndarray
        Scores of every bag along a first axis.
    bin_weights_ : list of ndarray
        Total weight of the training rows in every cell.
    intercept_ : float
        Raw score of the average row.
    bagged_intercept_ : ndarray of shape (outer_bags,)
        Intercepts of the bags.
    bag_weights_ : ndarray of shape (outer_bags,)
        Total weight of the rows that each bag was trained on; a row trained on k times counts k times.
    bins_ : list of list
        For every column its cells in main effects and in pairs: ascending cuts, where cell 1 lies below the first cut
        and a value equal to a cut above it, or a dict from the categories to their cells.
    feature_bounds_ : ndarray of shape (`n_features_in_`, 2)
        Smallest and largest finite value of every numeric column, else NaN.
    histogram_edges_, histogram_weights_ : list of ndarray or None
        Histogram of every numeric column; None for a categorical one.
    best_iteration_ : ndarray of shape (n_stages, outer_bags)
        Number of updates that each stage of each bag keeps.
    link_ : str
        Link between the expected value and the raw score: "identity" or "log".
    noise_variance_ : float
        Variance of the labels around the additive function. Only with ``boulevard=True``, like all that follow.
    adjusted_noise_variance_ : float
        Noise variance that the terms see, larger with joint updates. Only with ``boulevard=True``.
    degrees_of_freedom_ : tuple of float
        Traces of P and P P', P being the matrix from labels to fitted values. Only with ``boulevard=True``.
    standard_errors_ : list of ndarray
        Standard errors of the scores of every term. Only with ``boulevard=True``.
    intercept_standard_error_ : float
        Standard error of the intercept. Only with ``boulevard=True``.
    boulevard_gap_ : float
        Mean distance of the boosted terms from their limit, in standard errors. Only with ``boulevard=True``.

    See Also
    --------
    EBMClassifier : The same for classification.
    sklearn.ensemble.HistGradientBoostingRegressor : Gradient boosting of trees, without a picture of the model.

    Notes
    -----
    The raw score is ``intercept_`` plus one number per term, read from the cell that the row falls into. Each bag draws
    its validation rows and boosts the terms in two stages: small trees on one feature at a time, then, with these held
    fixed, small trees on pairs. Terms are centred: their mean over the training rows is zero. The mean of the bags is
    the model, and their spread the source of `predict_uncertainty`. Draws are keyed by the content of the rows, so
    whole-number weights equal repeated rows and the order of rows is irrelevant.

    Trained on tables, an update costs about one addition per cell of all terms, whatever the number of rows. The tables
    are chosen where the rows outnumber the cells; their memory is bounded by `max_table_bytes`.

    References
    ----------
    .. [1] H. Nori, S. Jenkins, P. Koch and R. Caruana, "InterpretML: A Unified Framework for Machine Learning
       Interpretability", 2019, arXiv:1909.09223.
    .. [2] Y. Lou, R. Caruana, J. Gehrke and G. Hooker, "Accurate intelligible models with pairwise interactions",
       KDD 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import EBMRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = EBMRegressor(interactions=2, max_rounds=200, outer_bags=4, random_state=0).fit(X, y)
    >>> len(model.term_names_)
    12
    >>> importances = dict(zip(model.term_names_, model.term_importances()))
    >>> sorted(importances, key=importances.get)[-2:]
    ['bmi', 's5']
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        **BaseEBM._parameter_constraints,
        "loss": [StrOptions({"squared_error", "poisson", "gamma", "tweedie"})],
        "power": [Interval(numbers.Real, 1, 2, closed="neither")],
        **CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        loss="squared_error",
        interactions=10,
        max_bins=1024,
        max_interaction_bins=64,
        exclude=None,
        categorical_features="from_dtype",
        monotonic_cst=None,
        missing="separate",
        learning_rate=0.04,
        max_rounds=50000,
        max_leaves=2,
        min_samples_leaf=4,
        min_hessian=0.0,
        l2_regularization=0.0,
        outer_bags=14,
        validation_size=0.15,
        early_stopping_rounds=100,
        early_stopping_tolerance=1e-5,
        smoothing_rounds=500,
        interaction_smoothing_rounds=100,
        greedy_ratio=10.0,
        cyclic_progress=0.0,
        min_cat_samples=10,
        cat_smooth=10.0,
        gain_scale=5.0,
        purify=True,
        power=1.5,
        trainer="auto",
        max_table_bytes=2**30,
        boulevard=False,
        boulevard_update="leave_one_out",
        boulevard_structure="random",
        boulevard_rounds=300,
        boulevard_subsample=1.0,
        boulevard_learning_rate=1.0,
        boulevard_max_leaves=48,
        boulevard_max_bins=64,
        boulevard_max_interaction_bins=16,
        callback=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.loss = loss
        self.interactions = interactions
        self.max_bins = max_bins
        self.max_interaction_bins = max_interaction_bins
        self.exclude = exclude
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.missing = missing
        self.learning_rate = learning_rate
        self.max_rounds = max_rounds
        self.max_leaves = max_leaves
        self.min_samples_leaf = min_samples_leaf
        self.min_hessian = min_hessian
        self.l2_regularization = l2_regularization
        self.outer_bags = outer_bags
        self.validation_size = validation_size
        self.early_stopping_rounds = early_stopping_rounds
        self.early_stopping_tolerance = early_stopping_tolerance
        self.smoothing_rounds = smoothing_rounds
        self.interaction_smoothing_rounds = interaction_smoothing_rounds
        self.greedy_ratio = greedy_ratio
        self.cyclic_progress = cyclic_progress
        self.min_cat_samples = min_cat_samples
        self.cat_smooth = cat_smooth
        self.gain_scale = gain_scale
        self.purify = purify
        self.power = power
        self.trainer = trainer
        self.max_table_bytes = max_table_bytes
        self.boulevard = boulevard
        self.boulevard_update = boulevard_update
        self.boulevard_structure = boulevard_structure
        self.boulevard_rounds = boulevard_rounds
        self.boulevard_subsample = boulevard_subsample
        self.boulevard_learning_rate = boulevard_learning_rate
        self.boulevard_max_leaves = boulevard_max_leaves
        self.boulevard_max_bins = boulevard_max_bins
        self.boulevard_max_interaction_bins = boulevard_max_interaction_bins
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss != "squared_error"
        return tags

    def _check_params_jointly(self):
        super()._check_params_jointly()
        if self.loss != "tweedie" and self.power != DEFAULT_POWER:
            raise ValueError(f"power={self.power!r} needs loss='tweedie'; it does not go with loss={self.loss!r}.")
        check_boulevard_params(self)

    def _make_loss(self, classes):
        return make_loss(self.loss, power=self.power) if self.loss == "tweedie" else make_loss(self.loss)

    @staticmethod
    def _public_intercept(intercept):
        return float(intercept[0])

    def predict(self, X, *, init_score=None):
        """Predict the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        init_score : array-like of shape (n_samples,) or fitted estimator, default=None
            What `fit` was given, for these rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Expected values.
        """
        raw = self._raw(X, init_score)
        return self._loss.inverse_link(raw[:, 0])

    def score(self, X, y, sample_weight=None, *, init_score=None):
        """Return the coefficient of determination of the predictions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, at least 0.
        init_score : array-like of shape (n_samples,) or fitted estimator, default=None
            Raw scores that the terms add to, as in `predict`.

        Returns
        -------
        float
            1 for perfect predictions, 0 for those no better than the mean of y.
        """
        return r2_score(y, self.predict(X, init_score=init_score), sample_weight=sample_weight)

    def predict_uncertainty(self, X, *, init_score=None):
        """Predict with uncertainty, the bags being the ensemble.

        `mean` is the mean of the bags' predictions; with a log link it need not equal `predict`, the prediction of the
        mean of the bags.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        init_score : array-like of shape (n_samples,) or fitted estimator, default=None
            What `fit` was given, for these rows.

        Returns
        -------
        Uncertainty
            `knowledge` is the variance of the bags' predictions in squared units of the target; `data` and `total` are
            None, since the loss predicts no spread. For a model fitted with ``boulevard=True``, `knowledge` is the
            variance of the prediction, `data` that of the noise.
        """
        check_is_fitted(self)
        if self._inference is not None:
            return self._boulevard_uncertainty(X, init_score)
        raw = self._bagged_raw(X, init_score)
        parts = _uncertainty.regression(self._loss.inverse_link(raw[:, :, 0]))
        return _uncertainty.Uncertainty(*parts)


class EBMClassifier(ClassifierMixin, BaseEBM):
    """Explainable boosting machine for classification.

    A sum of shape functions, one per feature and one per chosen pair of features, boosted in many small steps [1]_.
    The model can be read term by term, and its raw scores are the sum of what is read. With three or more classes every
    term has a score per class.

    Parameters
    ----------
    loss : {"log_loss"}, default="log_loss"
        Binary or multinomial log loss, by the number of classes.
    interactions : int, float, str, sequence of pairs or None, default=10
        Pairs of features that get a joint term: a number of pairs, a share of the number of features in (0, 1), a
        multiple of it as in "3x", or the pairs themselves by column numbers or names. Numbers of pairs choose those
        that FAST ranks highest on average over the bags [2]_. 0 and None: no pairs. Never more than there are.
    max_bins : int, default=1024
        Largest number of cells of a numeric feature, 4 to 65536; the cells of missing and of unseen values are counted.
    max_interaction_bins : int, default=64
        Largest number of cells of a feature inside pairs, 4 to 1024, counted alike. The cuts of pairs are some of the
        cuts of main effects; categories beyond the number share a cell, the lightest ones.
    exclude : "mains", sequence of int, str or pairs, or None, default=None
        Terms to leave out: features by column number or name for their main effects, pairs for automatic
        interactions. "mains": all main effects.
    categorical_features : array-like of bool, int or str, "from_dtype" or None, default="from_dtype"
        Categorical columns as a mask, column numbers or names. "from_dtype": the columns of categorical or string
        type in a pandas or polars frame, and those of object type that hold texts. None: no column. Every category has
        a cell of its own.
    monotonic_cst : array-like of int, dict of str to int or None, default=None
        1 for increasing, -1 for decreasing, 0 for free, by position or column name. For numeric features, which then
        enter no pair, and two classes: the probability of ``classes_[1]`` is constrained.
    missing : {"separate", "gain", "low", "high"}, default="separate"
        Missing values of numeric features: a leaf of their own in every tree, on the side of larger gain, or below or
        above all numbers.
    learning_rate : float, default=0.015
        Factor on every update, in (0, 1].
    max_rounds : int, default=50000
        A stage, main effects or pairs, ends after this many updates per term.
    max_leaves : int, default=2
        Leaves of the trees of main effects, at least 2. Trees of pairs have three.
    min_samples_leaf : float, default=4
        Least total sample weight of a leaf.
    min_hessian : float, default=0.0001
        Least sum of second derivatives of a leaf.
    l2_regularization : float, default=0.0
        Added to the denominators of leaf values and gains.
    outer_bags : int, default=14
        Number of models, each trained on another part of the rows; the terms are their means.
    validation_size : int or float, default=0.15
        Rows that each bag leaves out of training to find the best number of updates: a share below 1, or a number. 0:
        all rows train, and nothing stops early.
    early_stopping_rounds : int, default=100
        A stage of a bag stops when this many updates per term brought no improvement, and its best model is kept; 0
        never stops early and keeps the last model.
    early_stopping_tolerance : float, default=1e-5
        Share of the validation loss by which it must improve. A millionth of the loss of the best constant is the least
        improvement that counts, unless the tolerance is negative.
    smoothing_rounds : int, default=75
        Rounds over all main effects, at the start, with trees cut at random.
    interaction_smoothing_rounds : int, default=75
        The same for pairs.
    greedy_ratio : float, default=10.0
        After the smoothing rounds each round that measures the gain of every term is followed by this many updates per
        term, always of the term of largest gain. 0: rounds over all terms in one order, which is drawn.
    cyclic_progress : float, default=0.0
        Share of the measuring rounds that update the terms too, between 0 and 1; 1 without greedy updates.
    min_cat_samples : float, default=10
        Categories of less weight are pooled when a tree is searched.
    cat_smooth : float, default=10.0
        Added to the denominator of the key by which categories are ordered.
    gain_scale : float, default=5.0
        Factor on the gain of main effects of categorical features where terms compete.
    purify : bool, default=True
        Move what a pair says of one of its features alone to that feature's main effect, exactly; predictions stay.
    trainer : {"auto", "tables", "rows"}, default="auto"
        How main effects are trained: on tables of co-occurrence, whose updates do not touch the rows, or on the rows.
        "auto" takes what is expected to be faster. For squared error both give the same model up to rounding; for other
        losses tables let gradients lag behind by a few rounds. Pairs are always trained on the rows.
    max_table_bytes : int, default=1073741824
        Largest memory of all tables in bytes. "auto" trains on the rows where they do not fit.
    boulevard : bool, default=False
        Only False: the law of Boulevard training is known for regression with squared error, see `EBMRegressor`.
    callback : callable or None, default=None
        Called as ``callback(bag, stage, step, metric)`` after every update, stage 0 for main effects and 1 for pairs,
        metric the validation loss or NaN where it is not known. A true return value ends that stage of that bag. Calls
        come from several threads, one at a time.
    n_jobs : int or None, default=None
        Threads over the bags. None: one for each physical core that the process may use, as limited by threadpoolctl,
        or what OMP_NUM_THREADS says; -1 the same, -2 one less. Terms of millions of cells use fewer, for the sake of
        memory. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws. They are keyed by the content of the rows, so the order of the rows does not matter.
    verbose : int, default=0
        1 prints a line at the start and the end of every stage, 2 also the progress in between.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns; only when all are strings.
    feature_types_in_ : list of str
        "continuous" or "nominal" for every column.
    term_features_ : list of tuple of int
        Columns of every term: main effects first, then pairs, each in ascending order.
    term_names_ : list of str
        Names of the terms, "a" or "a & b"; columns without names are called x0, x1 and so on.
    term_scores_ : list of ndarray
        Contribution of every cell of every term to the raw score. Cell 0 of an axis holds missing values, the last cell
        categories never seen; in between lie the cells of `bins_`. With three or more classes the last axis is that
        of the classes, over which scores sum to zero.
    standard_deviations_ : list of ndarray
        Standard deviation of the scores over the bags.
    bagged_scores_ : list of ndarray
        Scores of every bag along a first axis.
    bin_weights_ : list of ndarray
        Total weight of the training rows in every cell.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Raw scores of the average row.
    bagged_intercept_ : ndarray of shape (outer_bags,) or (outer_bags, n_classes)
        Intercepts of the bags.
    bag_weights_ : ndarray of shape (outer_bags,)
        Total weight of the rows that each bag was trained on; a row trained on k times counts k times.
    bins_ : list of list
        For every column its cells in main effects and in pairs: ascending cuts, where cell 1 lies below the first cut
        and a value equal to a cut above it, or a dict from the categories to their cells.
    feature_bounds_ : ndarray of shape (`n_features_in_`, 2)
        Smallest and largest finite value of every numeric column, else NaN.
    histogram_edges_, histogram_weights_ : list of ndarray or None
        Histogram of every numeric column; None for a categorical one.
    best_iteration_ : ndarray of shape (n_stages, outer_bags)
        Number of updates that each stage of each bag keeps.
    link_ : str
        Link between the expected value and the raw score: "logit" for two classes, "mlogit" for
        more.

    See Also
    --------
    EBMRegressor : The same for regression.
    sklearn.ensemble.HistGradientBoostingClassifier : Gradient boosting of trees, without a picture of the model.

    Notes
    -----
    The raw score is ``intercept_`` plus one number per term, read from the cell that the row falls into. Each bag draws
    its validation rows and boosts the terms in two stages: small trees on one feature at a time, then, with these held
    fixed, small trees on pairs. Terms are centred: their mean over the training rows is zero. The mean of the bags is
    the model, and their spread the source of `predict_uncertainty`. Draws are keyed by the content of the rows, so
    whole-number weights equal repeated rows and the order of rows is irrelevant.

    Trained on tables, an update costs about one addition per cell of all terms, whatever the number of rows. The tables
    are chosen where the rows outnumber the cells; their memory is bounded by `max_table_bytes`.

    References
    ----------
    .. [1] H. Nori, S. Jenkins, P. Koch and R. Caruana, "InterpretML: A Unified Framework for Machine Learning
       Interpretability", 2019, arXiv:1909.09223.
    .. [2] Y. Lou, R. Caruana, J. Gehrke and G. Hooker, "Accurate intelligible models with pairwise interactions",
       KDD 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skboost import EBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = EBMClassifier(interactions=0, max_rounds=200, outer_bags=4, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    >>> model.shape("mean texture").values.shape == model.shape("mean texture").weights.shape
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        **BaseEBM._parameter_constraints,
        "loss": [StrOptions({"log_loss"})],
    }

    def __init__(
        self,
        *,
        loss="log_loss",
        interactions=10,
        max_bins=1024,
        max_interaction_bins=64,
        exclude=None,
        categorical_features="from_dtype",
        monotonic_cst=None,
        missing="separate",
        learning_rate=0.015,
        max_rounds=50000,
        max_leaves=2,
        min_samples_leaf=4,
        min_hessian=1e-4,
        l2_regularization=0.0,
        outer_bags=14,
        validation_size=0.15,
        early_stopping_rounds=100,
        early_stopping_tolerance=1e-5,
        smoothing_rounds=75,
        interaction_smoothing_rounds=75,
        greedy_ratio=10.0,
        cyclic_progress=0.0,
        min_cat_samples=10,
        cat_smooth=10.0,
        gain_scale=5.0,
        purify=True,
        trainer="auto",
        max_table_bytes=2**30,
        boulevard=False,
        callback=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.loss = loss
        self.interactions = interactions
        self.max_bins = max_bins
        self.max_interaction_bins = max_interaction_bins
        self.exclude = exclude
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.missing = missing
        self.learning_rate = learning_rate
        self.max_rounds = max_rounds
        self.max_leaves = max_leaves
        self.min_samples_leaf = min_samples_leaf
        self.min_hessian = min_hessian
        self.l2_regularization = l2_regularization
        self.outer_bags = outer_bags
        self.validation_size = validation_size
        self.early_stopping_rounds = early_stopping_rounds
        self.early_stopping_tolerance = early_stopping_tolerance
        self.smoothing_rounds = smoothing_rounds
        self.interaction_smoothing_rounds = interaction_smoothing_rounds
        self.greedy_ratio = greedy_ratio
        self.cyclic_progress = cyclic_progress
        self.min_cat_samples = min_cat_samples
        self.cat_smooth = cat_smooth
        self.gain_scale = gain_scale
        self.purify = purify
        self.trainer = trainer
        self.max_table_bytes = max_table_bytes
        self.boulevard = boulevard
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_params_jointly(self):
        super()._check_params_jointly()
        if self.boulevard:
            raise ValueError(
                "EBMClassifier has no boulevard=True: the law of the fit is known for the identity link and squared "
                "error only. The spread of the outer bags, standard_deviations_, is a heuristic."
            )

    def _make_loss(self, classes):
        return make_loss(self.loss, n_classes=len(classes))

    @staticmethod
    def _public_intercept(intercept):
        return intercept.copy()

    def decision_function(self, X, *, init_score=None):
        """Return the raw scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        init_score : array-like of shape (n_samples,) or (n_samples, n_classes), or fitted estimator, default=None
            What `fit` was given, for these rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds of ``classes_[1]`` for two classes, else a score per class.
        """
        raw = self._raw(X, init_score)
        return self._one_or_many(raw)

    def predict_proba(self, X, *, init_score=None):
        """Predict class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        init_score : array-like of shape (n_samples,) or (n_samples, n_classes), or fitted estimator, default=None
            What `fit` was given, for these rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        raw = self.decision_function(X, init_score=init_score)
        return self._loss.inverse_link(raw)

    def predict_log_proba(self, X, *, init_score=None):
        """Predict logarithms of class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        init_score : array-like of shape (n_samples,) or (n_samples, n_classes), or fitted estimator, default=None
            What `fit` was given, for these rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithm of `predict_proba`; finite also where a probability is too small for a float.
        """
        raw = self.decision_function(X, init_score=init_score)
        return self._loss.log_inverse_link(raw)

    def predict(self, X, *, init_score=None):
        """Predict the class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        init_score : array-like of shape (n_samples,) or (n_samples, n_classes), or fitted estimator, default=None
            What `fit` was given, for these rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels.
        """
        raw = self._raw(X, init_score)
        # A raw score of exactly 0 is a tie and goes to the first class, as argmax does with equal probabilities.
        return self.classes_[(raw[:, 0] > 0).astype(np.intp) if raw.shape[1] == 1 else np.argmax(raw, axis=1)]

    def score(self, X, y, sample_weight=None, *, init_score=None):
        """Return the accuracy of the predicted classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, at least 0.
        init_score : array-like of shape (n_samples,) or (n_samples, n_classes), or fitted estimator, default=None
            Raw scores that the terms add to, as in `predict`.

        Returns
        -------
        float
            Share of the rows, by weight, whose class is predicted.
        """
        return accuracy_score(y, self.predict(X, init_score=init_score), sample_weight=sample_weight)

    def predict_uncertainty(self, X, *, init_score=None):
        """Predict class probabilities with uncertainty, the bags being the ensemble.

        `mean` is the mean of the bags' probabilities; it need not equal `predict_proba`, the probabilities of the mean
        of the bags.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        init_score : array-like of shape (n_samples,) or (n_samples, n_classes), or fitted estimator, default=None
            What `fit` was given, for these rows.

        Returns
        -------
        Uncertainty
            Entropies in nats: `total` of the mean probabilities, `data` the mean over bags, `knowledge` the difference
            (the mutual information between label and bag).
        """
        raw = self._bagged_raw(X, init_score)
        parts = _uncertainty.binary(raw[:, :, 0]) if raw.shape[2] == 1 else _uncertainty.multinomial(raw)
        return _uncertainty.Uncertainty(*parts)
