"""SGLBRanker: parameters, docstrings, and what learning to rank does differently."""

import numbers

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.validation import check_is_fitted

from skboost._compat import Interval, StrOptions
from skboost._losses import RANKING, number_targets
from skboost._ndcg import ndcg_score
from skboost._queries import query_keys, query_numbers
from skboost._random import STREAM_VALIDATION
from skboost._sampling import split_copies
from skboost.sglb._estimators_base import BaseSGLB

# Parameters of "lambdarank" and their defaults.
LAMBDARANK_OPTIONS = {"truncation_level": 30, "sigmoid": 1.0, "normalize": True}


class SGLBRanker(BaseSGLB):
    """Stochastic gradient Langevin boosting for ranking.

    Gradient boosting of trees whose scores order the rows of a query: documents found by a search, offers to a
    customer. Only scores of one query are compared. Langevin noise is off by default, which leaves plain gradient
    boosting; with it the members of the virtual ensemble show how sure the scores are.

    Parameters
    ----------
    loss : {"lambdarank", "rank_xendcg"}, default="lambdarank"
        "lambdarank": logistic losses of pairs, weighted by the change of the NDCG when the two rows swap places [1]_.
        "rank_xendcg": cross entropy between the softmax of the scores of a query and its randomly perturbed shares of
        the gain [2]_, faster for long queries.
    truncation_level : int, default=30
        For loss="lambdarank": each pair has at least one row among so many first places, and the NDCG is that of as
        many places. Somewhat above the number of places that matter.
    sigmoid : float, default=1.0
        For loss="lambdarank": scale of the scores in the logistic function.
    normalize : bool, default=True
        For loss="lambdarank": divide pairs by ``0.01 +`` the difference of their scores and scale the gradients of a
        query with the total S to ``log2(1 + S)``, so that queries with many pairs do not outweigh the others.
    label_gain : array-like of shape (n_labels,), default=None
        Gains of the relevances 0, 1, 2, ..., not negative and not falling; relevances must be whole numbers then. None:
        ``2 ** relevance - 1``, for relevances up to 30.
    n_estimators : int, default=100
        Number of boosting iterations. Each grows one tree.
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
        Share of the rows, not of the queries, drawn for the structure of each tree, in (0, 1]. Gradients and leaf
        values always use all rows.
    categorical_features : array-like of bool, int or str, "from_dtype" or None, default="from_dtype"
        Categorical columns as a mask, column numbers or names. "from_dtype": the columns of categorical type in a
        pandas or polars frame. None: no column. A column of more than `max_bins` categories keeps the heaviest apart
        and pools the rest.
    monotonic_cst : array-like of int, dict of str to int or None, default=None
        1 for scores that increase with a column, -1 for decreasing ones, 0 for free; by position, or by column name.
    interaction_cst : {"pairwise", "no_interactions"}, sequence of collections of int or None, default=None
        Groups of columns that may meet in one tree path, as in scikit-learn.
    posterior_sampling : bool, default=False
        Langevin noise on, model shrink rate ``1 / (2 N)`` with N the total weight. Neither loss is a likelihood, so the
        members of the virtual ensemble are samples around the model rather than from a posterior.
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
    leaf_estimation : {"newton", "gradient"}, default="newton"
        Newton leaves divide by the sum of second derivatives; gradient leaves by the weight times the mean second
        derivative at equal scores.
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
        Factor at the start of a cycle, for schedule="cyclical", at most 1e6. The product with `learning_rate` must be
        below 2 and warns above 1.
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
        Whole queries held out for early stopping: a share of them, or a number. None: score the training rows.
    n_iter_no_change : int, default=10
        Patience of early stopping.
    tol : float, default=1e-7
        Growth of the score that counts.
    scoring : {"loss"} or None, default="loss"
        Score of early stopping. "loss": minus the mean loss, which for "lambdarank" is 1 less the NDCG of the first
        `truncation_level` places. None: the NDCG of all places, as `score`.
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
    n_outputs_ : int
        1.
    n_iter_ : int
        Iterations of the fitted model.
    feature_importances_ : ndarray of shape (`n_features_in_`,)
        Share of each column in the gain of all splits; sums to 1, or all 0 when nothing was split.
    train_score_, validation_score_ : ndarray of shape (n_scored,)
        Scores of the models of 0, 1, 2, ... iterations (or cycles, of a cyclical schedule), higher is better; empty
        without early stopping.
    noise_variance_ : float
        1, as nothing is known of the noise of relevances.
    diffusion_temperature_ : float
        T in use, 0 when the noise is off.
    shrink_factors_ : ndarray of shape (`n_iter_`,)
        Factor on the model before each iteration.

    See Also
    --------
    skboost.metrics.ndcg_score : The measure of rankings.
    SGLBRegressor : Scores that mean something across queries.

    Notes
    -----
    Queries are recognised by `qid`, in any order of rows, or are blocks of `group` rows. Equal scores (all are, before
    the first tree) are ordered by a hash of the binned columns, then by relevance, the lowest first: never by the order
    of rows, on which nothing depends. The random numbers of "rank_xendcg" follow from the seed and from what a row and
    its query contain.

    A weight multiplies the gradients of its row, so a weight of 2 is not the same as a repeated row, which would take
    part in more pairs. Weight 0 is absence. A query of one row, or without gain, contributes nothing to "lambdarank".

    Queries for fits and scores in a search are passed on by metadata routing, see the examples. The `groups` of
    ``GroupKFold`` are then the same labels.

    References
    ----------
    .. [1] C. J. C. Burges, "From RankNet to LambdaRank to LambdaMART: An Overview", Microsoft Research Technical Report
       MSR-TR-2010-82, 2010.
    .. [2] S. Bruch, "An Alternative Cross Entropy Loss for Learning-to-Rank", WWW 2021, arXiv:1911.09798.
    .. [3] T. Tan, C. Huertas and Q. Zhao, "Efficient and Effective Uncertainty Quantification in Gradient Boosting via
       Cyclical Gradient MCMC", CEUR Workshop Proceedings vol. 3381, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost import SGLBRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(600, 3)), rng.integers(0, 40, 600)
    >>> y = np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=600) + 1), 0, 4)
    >>> model = SGLBRanker(n_estimators=50, random_state=0).fit(X, y, qid=qid)
    >>> model.score(X, y, qid=qid) > 0.9
    True

    With a search:

    >>> import sklearn
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     ranker = SGLBRanker(n_estimators=20, random_state=0)
    ...     ranker = ranker.set_fit_request(qid=True).set_score_request(qid=True)
    ...     search = GridSearchCV(ranker, {"max_depth": [2, 4]}, cv=GroupKFold(3))
    ...     search = search.fit(X, y, qid=qid, groups=qid)
    >>> bool(search.best_score_ > 0.8)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's protocol)
        **BaseSGLB._parameter_constraints,
        "loss": [StrOptions(set(RANKING))],
        "truncation_level": [Interval(numbers.Integral, 1, None, closed="left")],
        "sigmoid": [Interval(numbers.Real, 1e-6, 1e6, closed="both")],
        "normalize": ["boolean"],
        "label_gain": ["array-like", None],
        "scoring": [StrOptions({"loss"}), None],
    }

    def __init__(
        self,
        *,
        loss="lambdarank",
        truncation_level=30,
        sigmoid=1.0,
        normalize=True,
        label_gain=None,
        n_estimators=100,
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
        posterior_sampling=False,
        langevin=None,
        diffusion_temperature=None,
        model_shrink_rate=None,
        model_shrink_mode="constant",
        leaf_estimation="newton",
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
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.loss = loss
        self.truncation_level = truncation_level
        self.sigmoid = sigmoid
        self.normalize = normalize
        self.label_gain = label_gain
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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        return tags

    def fit(
        self,
        X,
        y,
        sample_weight=None,
        *,
        qid=None,
        group=None,
        X_val=None,
        y_val=None,
        sample_weight_val=None,
        qid_val=None,
        group_val=None,
    ):
        """Fit the chain.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows. NaN is a missing value; infinities fall in the end bins.
        y : array-like of shape (n_samples,)
            Relevance of each row in its query, at least 0.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, at least 0. They multiply the gradients of the rows; rows of weight 0 are dropped first.
        qid : array-like of shape (n_samples,), default=None
            Labels of the queries, numbers or texts, in any order of rows.
        group : array-like of shape (n_queries,), default=None
            Numbers of rows of queries that lie one after another. With neither `qid` nor `group` all rows are one
            query. At most 10,000 rows per query.
        X_val : array-like of shape (n_val, n_features), default=None
            Rows for early stopping instead of a part of X. Needs ``early_stopping=True``.
        y_val : array-like of shape (n_val,), default=None
            Their relevances.
        sample_weight_val : array-like of shape (n_val,), default=None
            Their weights; a query counts with the mean weight of its rows.
        qid_val : array-like of shape (n_val,), default=None
            Labels of their queries.
        group_val : array-like of shape (n_val_queries,), default=None
            Numbers of rows of their queries, instead of `qid_val`.

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of its range, two parameters contradict each other, or the data are not usable.
            Nothing is fitted then.
        """
        if X_val is None and not (qid_val is None and group_val is None):
            raise ValueError("qid_val and group_val need X_val and y_val.")
        has_queries, has_queries_val = (a is not None or b is not None for a, b in ((qid, group), (qid_val, group_val)))
        if self.early_stopping and y_val is not None and has_queries and not has_queries_val:
            raise ValueError("X_val needs qid_val or group_val, as X has queries.")
        y = _Judged(y, qid, group)
        y_val = None if y_val is None else _Judged(y_val, qid_val, group_val)
        return super().fit(X, y, sample_weight, X_val=X_val, y_val=y_val, sample_weight_val=sample_weight_val)

    def _check_params_jointly(self):
        super()._check_params_jointly()
        if self.loss != "lambdarank":
            for name, default in LAMBDARANK_OPTIONS.items():
                value = getattr(self, name)
                if value != default:
                    raise ValueError(
                        f"{name}={value!r} needs loss='lambdarank'; it does not go with loss={self.loss!r}."
                    )

    def _number_target(self, y, name="y"):
        """Number the pairs (query, relevance) of the rows."""
        if y.relevance is None:
            return None, None
        relevance = column_or_1d(y.relevance, warn=True)
        assert_all_finite(relevance, input_name=name)
        relevance = relevance.astype(np.float64)
        query = query_numbers(len(relevance), y.qid, y.group)
        return number_targets(np.column_stack([query, relevance]))

    def _make_loss(self, data, table):
        options = {}
        if self.loss == "lambdarank":
            options = {"truncation": self.truncation_level, "sigmoid": self.sigmoid, "normalize": self.normalize}
        return RANKING[self.loss](table, self.label_gain, **options)

    def _draw_validation(self, task):
        """Draw whole queries, each as likely as any other, by what they contain."""
        query, relevance = task.loss.columns(task.data.y)
        fraction, n_queries = self.validation_fraction, int(query.max()) + 1
        if isinstance(fraction, numbers.Integral) and fraction >= n_queries:
            raise ValueError(
                f"early_stopping=True with validation_fraction={fraction} needs more queries, got {n_queries}."
            )
        held = split_copies(
            fraction if isinstance(fraction, numbers.Integral) else float(fraction),
            task.seed, STREAM_VALIDATION, query_keys(query, relevance, task.rows.hashes), np.zeros(n_queries),
        )[1][query]  # fmt: skip
        weight = np.ones(len(query)) if task.data.sample_weight is None else task.data.sample_weight
        return weight * (1 - held), weight * held

    def _score_function(self, base_score, classes, n_threads, loss, internal, target, weight):
        if target is None or self.scoring == "loss":
            return super()._score_function(base_score, classes, n_threads, loss, internal, target, weight)
        return lambda scores: loss.mean_ndcg(internal, scores, weight, n_threads=n_threads)

    def predict(self, X):
        """Predict scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores, larger for rows that belong further up. Only their order within a query means something.
        """
        return self._raw(X)[:, 0]

    def staged_predict(self, X):
        """Predict with the model of 1, 2, ... iterations.

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
            yield raw[:, 0]

    def score(self, X, y, qid=None, sample_weight=None):
        """Return the normalised discounted cumulative gain of all places, the mean over queries.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their relevances.
        qid : array-like of shape (n_samples,), default=None
            Labels of their queries. None: all rows are one query.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a query counts with the mean of them.

        Returns
        -------
        float
            Between 0 and 1, by the gains of `label_gain`; see `skboost.metrics.ndcg_score`.
        """
        return ndcg_score(y, self.predict(X), qid=qid, label_gain=self.label_gain, sample_weight=sample_weight)

    def predict_virtual_ensembles(self, X, n_members=None):
        """Predict scores with the members of the virtual ensemble.

        Member k is the state of the chain after ``n_iter_ - (n_members - k) p`` iterations, ``p = n_iter_ // (2
        n_members)``, whatever `averaging` says. With schedule="cyclical" the members are the states after the last
        iteration of the last complete cycles.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_members : int or None, default=None
            Number of members, at most ``n_iter_ // 2``, or ``n_iter_ // cycle_length`` of a cyclical schedule. None:
            10, or the ends of all complete cycles.

        Returns
        -------
        ndarray of shape (n_members, n_samples)
            Scores of the members.

        Raises
        ------
        ValueError
            If `n_members` is neither None nor an integer of at least 1, or needs more iterations than there are.
        """
        return self._member_raw(X, n_members)[1][..., 0]

    def predict_uncertainty(self, X, n_members=None):
        """Refuse: scores of rankings have no decomposition of uncertainty.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_members : int or None, default=None
            Number of members of the virtual ensemble.

        Raises
        ------
        ValueError
            Always: scores mean something only relative to those of the same query. Compare the orders of the members
            of `predict_virtual_ensembles` instead.
        """
        check_is_fitted(self)
        raise ValueError(
            f"predict_uncertainty has no decomposition for loss={self._loss.name!r}, whose scores are on no scale; "
            "compare the orders of the members of predict_virtual_ensembles instead."
        )


class _Judged:
    """Relevances with what says to which queries they belong, on their way through ``fit``."""

    def __init__(self, relevance, qid, group):
        self.relevance, self.qid, self.group = relevance, qid, group
