"""Members of ensembles: made by fitting, found in one fit, and what they say together."""

import inspect
import math
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from skboost import _uncertainty
from skboost._uncertainty import Uncertainty, member_schedule

# Attributes in which boosters keep the number of their stages.
STAGE_COUNTS = ("n_iter_", "n_estimators_")


# ---- pipelines -------------------------------------------------------------------------------------------------------


def final_estimator(estimator):
    """Return the last step of a pipeline, of the innermost if they are nested; other estimators as they are."""
    while isinstance(estimator, (Pipeline, FrozenEstimator)):
        estimator = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator.estimator
    return estimator


def through_steps(estimator, X):
    """Return the final estimator of a fitted pipeline and what its other steps make of X."""
    while isinstance(estimator, (Pipeline, FrozenEstimator)):
        if isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
            continue
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        estimator = estimator.steps[-1][1]
    return estimator, X


def weight_parameter(estimator):
    """Return the name under which `fit` of an estimator takes sample weights, None if it takes none."""
    prefix = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    if not hasattr(estimator, "fit"):
        return None
    parameters = inspect.signature(estimator.fit).parameters.values()
    if has_fit_parameter(estimator, "sample_weight") or any(p.kind is p.VAR_KEYWORD for p in parameters):
        return f"{prefix}sample_weight"
    return None


# ---- seeds and fits --------------------------------------------------------------------------------------------------


def seed_parameters(estimator):
    """Return the names of all parameters called random_state, those of nested estimators too."""
    return sorted(
        name for name in estimator.get_params(deep=True) if name == "random_state" or name.endswith("__random_state")
    )


def seeded_clone(estimator, generator):
    """Return a clone with an integer seed, drawn from the generator, in each parameter called random_state."""
    estimator = clone(estimator)
    seeds = {name: int(generator.randint(np.iinfo(np.int32).max)) for name in seed_parameters(estimator)}
    if seeds:
        estimator.set_params(**seeds)
    return estimator


def fit_all(estimators, X, y, fit_params, n_jobs):
    """Fit estimators to the same rows through joblib, whose backend may be set from outside; return them fitted."""
    return Parallel(n_jobs=n_jobs)(delayed(_fit)(estimator, X, y, fit_params) for estimator in estimators)


def _fit(estimator, X, y, fit_params):
    return estimator.fit(X, y, **fit_params)


def common_classes(estimators):
    """Return the sorted labels that any of the fitted classifiers knows."""
    return np.unique(np.concatenate([np.asarray(estimator.classes_) for estimator in estimators]))


def class_positions(y, classes):
    """Return the positions of labels among sorted classes."""
    y = np.asarray(y)
    unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise ValueError(f"y has classes that the fitted estimator does not know: {unknown.tolist()}.")
    return np.searchsorted(classes, y)


# ---- what members say ------------------------------------------------------------------------------------------------


def has_virtual_members(estimator, classifier):
    """Return whether an estimator, fitted or not, has members inside one fit."""
    final = final_estimator(estimator)
    return hasattr(final, "predict_virtual_ensembles") or hasattr(final, _staged(classifier))


@dataclass(frozen=True)
class VirtualEnsemble:
    """Members that are iteration prefixes of one fitted estimator.

    Attributes
    ----------
    estimator : estimator
    n_members : int
    classes : ndarray of shape (n_classes,) or None
        Labels that the columns of probabilities stand for; None for regression.
    """

    estimator: object
    n_members: int
    classes: np.ndarray | None

    def mean(self, X):
        """Return the mean prediction, what `uncertainty` has as its mean."""
        return self.uncertainty(X).mean

    def uncertainty(self, X):
        """Return the Uncertainty of rows."""
        model, X = through_steps(self.estimator, X)
        if hasattr(model, "predict_virtual_ensembles"):
            if hasattr(model, "predict_uncertainty"):
                return model.predict_uncertainty(X, n_members=self.n_members)
            return self._decompose(model.predict_virtual_ensembles(X, n_members=self.n_members))
        counts = member_schedule(_n_stages(model), self.n_members)
        stages = getattr(model, _staged(self.classes is not None))(X)
        wanted = set(counts.tolist())
        # A copy each: a booster may write its stages into one array.
        members = [np.array(stage, dtype=np.float64) for count, stage in enumerate(stages, start=1) if count in wanted]
        return self._decompose(np.stack(members), counts)

    def _decompose(self, members, counts=None):
        decompose = _uncertainty.regression if self.classes is None else _uncertainty.categorical
        return Uncertainty(*decompose(members), member_iterations=counts)


def _staged(classifier):
    return "staged_predict_proba" if classifier else "staged_predict"


def _n_stages(model):
    for name in STAGE_COUNTS:
        if isinstance(count := getattr(model, name, None), (int, np.integer)):
            return int(count)
    raise ValueError(
        f"method='virtual' does not know the number of iterations of {type(model).__name__}, which has no attribute "
        f"{' or '.join(STAGE_COUNTS)}; use method='ensemble'."
    )


@dataclass(frozen=True)
class FittedEnsemble:
    """Members that are independently fitted estimators.

    Attributes
    ----------
    estimators : list of estimators
    classes : ndarray of shape (n_classes,) or None
        Labels that the columns of probabilities stand for; None for regression.
    own_parts : bool
        Whether `own_uncertainty` of the members adds to what their predictions say.
    """

    estimators: list
    classes: np.ndarray | None
    own_parts: bool

    def mean(self, X):
        """Return the mean prediction, what `uncertainty` has as its mean."""
        return self._between(X).mean

    def uncertainty(self, X):
        """Return the Uncertainty of rows.

        By the law of total variance, or the chain rule of entropy, knowledge is the spread between the members plus the
        mean of what each of them knows that it does not know.
        """
        between = self._between(X)
        if not self.own_parts:
            return Uncertainty(*between)
        own = [own_uncertainty(member, X) for member in self.estimators]
        within = np.mean([part.knowledge for part in own], axis=0)
        knowledge = between.knowledge + within
        if self.classes is not None:
            data = np.maximum(between.data - within, 0.0)
        else:
            data = None if own[0].data is None else np.mean([part.data for part in own], axis=0)
        total = None if data is None else data + knowledge
        support = None if own[0].support is None else np.mean([part.support for part in own], axis=0)
        return Uncertainty(between.mean, knowledge, data, total, support)

    def _between(self, X):
        if self.classes is not None:
            members = [aligned_probabilities(member, X, self.classes) for member in self.estimators]
            return _uncertainty.categorical(np.stack(members))
        members = [np.asarray(member.predict(X), dtype=np.float64) for member in self.estimators]
        return _uncertainty.regression(np.stack(members))


def aligned_probabilities(estimator, X, classes):
    """Return probabilities in columns of the given classes, 0 for those that the estimator has not seen."""
    known = np.asarray(estimator.classes_)
    probabilities = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    if np.array_equal(known, classes):
        return probabilities
    aligned = np.zeros((len(probabilities), len(classes)))
    aligned[:, np.searchsorted(classes, known)] = probabilities
    return aligned


def own_uncertainty(estimator, X):
    """Return what a fitted estimator alone says of rows beyond its prediction, None if it says nothing.

    Of a chain this is its last state, the one that predicts, as its only member. Of other models it is the data
    uncertainty of regression, their knowledge being that of members of another kind.
    """
    model, X = through_steps(estimator, X)
    if not hasattr(model, "predict_uncertainty"):
        return None
    if "n_members" in inspect.signature(model.predict_uncertainty).parameters:
        return model.predict_uncertainty(X, n_members=1)
    result = model.predict_uncertainty(X)
    if result.mean.ndim == 2 or result.data is None:
        return None
    return Uncertainty(result.mean, np.zeros_like(result.knowledge), result.data, result.data)


def residual_variance(members, train):
    """Return the mean squared residual of the training rows, 1 where it is 0."""
    squares = np.square(np.asarray(train.y, dtype=np.float64) - members.mean(train.X))
    weights = np.ones(len(squares)) if train.sample_weight is None else train.sample_weight
    # fsum rounds once, so that the order of the rows has no influence.
    return math.fsum(squares * weights) / math.fsum(weights) or 1.0
