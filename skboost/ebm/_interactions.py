"""Which terms an additive model has: what users ask for, and the ranking of pairs by FAST over the bags."""

import itertools
import math
import numbers
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from skboost._engine.losses import gradients64
from skboost._engine.strengths import strengths


@dataclass(frozen=True)
class TermPlan:
    """The terms of a model, as far as they are known before boosting.

    Attributes
    ----------
    mains : tuple of int
        Features with a main effect, ascending.
    pairs : tuple of (int, int)
        Pairs that are certain, ascending; empty where pairs are chosen by strength.
    candidates : ndarray of shape (n_candidates, 2)
        Pairs to choose from, ascending, int32; empty where there is nothing to choose.
    n_automatic : int
        Number of candidates to choose.
    """

    mains: tuple
    pairs: tuple
    candidates: np.ndarray
    n_automatic: int


def resolve_terms(interactions, exclude, names, monotone):
    """Return the plan of the terms of a model.

    Parameters
    ----------
    interactions : int, float, str, sequence of pairs, or None
        A number of pairs, a share of the number of features in (0, 1), a multiple of it such as "3x" (both rounded up),
        or the pairs themselves by column number or name. 0 and None: no pairs.
    exclude : "mains", sequence, or None
        Terms to leave out: features by number or name, pairs of these. "mains": all main effects.
    names : sequence of str
        Names of the features.
    monotone : ndarray of shape (n_features,)
        Constraints; features with one are in no pair.

    Returns
    -------
    TermPlan

    Raises
    ------
    ValueError
        If a parameter is none of these, names unknown features, asks for a pair that is excluded or has a
        monotone feature, or for a term of more than two features.
    """
    names = [str(name) for name in names]
    left_out = _resolve_exclude(exclude, names)
    mains = tuple(j for j in range(len(names)) if (j,) not in left_out)
    none = np.empty((0, 2), dtype=np.int32)
    if interactions is None or isinstance(interactions, (str, numbers.Real)):
        n_wanted = number_of_pairs(interactions, len(names))
        candidates = _candidates(left_out, monotone) if n_wanted else []
        if n_wanted < len(candidates):
            return TermPlan(mains, (), np.array(candidates, dtype=np.int32).reshape(-1, 2), n_wanted)
        return TermPlan(mains, tuple(candidates), none, 0)
    pairs = _explicit_pairs(interactions, names)
    for pair in pairs:
        _check_pair(pair, left_out, names, monotone)
    return TermPlan(mains, tuple(sorted(pairs)), none, 0)


def pair_strengths(problem, candidates, scores, weight):
    """Return the FAST strengths of pairs on the training rows of a bag.

    Parameters
    ----------
    problem : Problem
        Loss, rows, mapper and rules.
    candidates : ndarray of shape (n_candidates, 2)
        Pairs, int32.
    scores : ndarray of shape (n_outputs, n_rows)
        Raw scores of the main effects.
    weight : ndarray of shape (n_rows,)
        Training weights.

    Returns
    -------
    ndarray of shape (n_candidates,)
        Strengths: gains of one cross-shaped cut per unit of weight.
    """
    loss, rows, mapper, rules = problem.loss, problem.rows, problem.mapper, problem.rules
    grad, hess = gradients64(loss, rows.y, scores, np.zeros(loss.n_outputs), not loss.constant_hessian)
    return strengths(
        rows.cells,
        [mapper.coarse(feature) for feature in range(mapper.n_features)],
        candidates,
        mapper.is_categorical,
        grad,
        hess,
        weight,
        min_samples_leaf=rules.min_samples_leaf,
        min_hessian=rules.min_hessian,
        l2_regularization=rules.l2_regularization,
        cat_smooth=rules.cat_smooth,
    )


def rank_pairs(candidates, strengths_of_bags, n_pairs):
    """Return the pairs whose ranks, averaged over bags, are best.

    Parameters
    ----------
    candidates : ndarray of shape (n_candidates, 2)
        Pairs.
    strengths_of_bags : ndarray of shape (n_bags, n_candidates)
        Strengths; within a bag equal ones share the mean of their ranks.
    n_pairs : int
        Number of pairs to choose.

    Returns
    -------
    list of (int, int)
        Pairs, ascending. Of equal mean ranks the pairs of lower features win.
    """
    candidates = np.asarray(candidates)
    # Sums of halves of integers are exact, so equal means are equal numbers.
    ranks = rankdata(-np.asarray(strengths_of_bags), axis=1).sum(axis=0)
    best = np.lexsort((candidates[:, 1], candidates[:, 0], ranks))[:n_pairs]
    return sorted((int(j), int(k)) for j, k in candidates[best])


def number_of_pairs(interactions, n_features):
    """Return the number of pairs that a number, share or multiple asks for; raise ValueError where it is no such."""
    if interactions is None:
        return 0
    if isinstance(interactions, numbers.Integral) and not isinstance(interactions, (bool, np.bool_)):
        if interactions < 0:
            raise ValueError(f"interactions as a number of pairs must be at least 0, got {interactions}.")
        return int(interactions)
    if isinstance(interactions, numbers.Real) and not isinstance(interactions, (bool, np.bool_)):
        if not 0 < interactions < 1:
            raise ValueError(
                f"interactions as a float is a share of the number of features in (0, 1), got {interactions}; give an "
                "int for a number of pairs."
            )
        return _round_up(float(interactions) * n_features)
    factor = _factor(interactions) if isinstance(interactions, str) else None
    if factor is None:
        raise ValueError(
            "interactions must be a number of pairs, a share of the number of features, a multiple of it such as '3x', "
            f"a sequence of pairs, or None, got {interactions!r}."
        )
    return _round_up(factor * n_features)


def _factor(text):
    """Return a of the text "ax", None for any other text."""
    try:
        factor = float(text.removesuffix("x")) if text.endswith("x") else -1.0
    except ValueError:
        return None
    return factor if 0 <= factor < math.inf else None


def _round_up(x):
    # A tenth of thirty features are three, whatever the rounding of 0.1.
    return math.ceil(x - 1e-9)


def _candidates(left_out, monotone):
    free = [j for j, direction in enumerate(monotone) if not direction]
    return [pair for pair in itertools.combinations(free, 2) if pair not in left_out]


def _explicit_pairs(interactions, names):
    """Return a set of pairs in ascending order each."""
    pairs = set()
    for term in _members(interactions, "interactions", "pairs"):
        features = _resolve_features(term, "interactions", names)
        if len(features) > 2:
            raise ValueError(f"interactions: the term {term!r} has {len(features)} features; terms have at most two.")
        if len(features) < 2:
            raise ValueError(f"interactions must hold pairs such as (0, 1) of two different features, got {term!r}.")
        pairs.add(features)
    return pairs


def _check_pair(pair, left_out, names, monotone):
    title = " & ".join(names[j] for j in pair)
    if pair in left_out:
        raise ValueError(f"interactions asks for the pair {title!r}, which exclude leaves out.")
    if constrained := [names[j] for j in pair if monotone[j]]:
        raise ValueError(
            f"interactions: the pair {title!r} has the monotone feature {constrained[0]!r}; no pair keeps a constraint "
            "of monotonic_cst."
        )


def _resolve_exclude(exclude, names):
    """Return the set of terms to leave out, ascending tuples of one or two features."""
    if exclude is None:
        return set()
    if isinstance(exclude, str):
        if exclude != "mains":
            raise ValueError(f"exclude as a string must be 'mains', got {exclude!r}.")
        return {(j,) for j in range(len(names))}
    terms = set()
    for term in _members(exclude, "exclude", "features and pairs"):
        alone = isinstance(term, (str, numbers.Integral))
        features = _resolve_features((term,) if alone else term, "exclude", names)
        if len(features) > 2:
            raise ValueError(f"exclude: the term {term!r} has {len(features)} features; terms have at most two.")
        terms.add(features)
    return terms


def _members(terms, parameter, what):
    try:
        return list(terms)
    except TypeError:
        raise ValueError(f"{parameter} must be a sequence of {what}, got {terms!r}.") from None


def _resolve_features(term, parameter, names):
    """Return the different features of a term, ascending, from numbers and names."""
    if isinstance(term, (str, bytes)) or not hasattr(term, "__iter__"):
        raise ValueError(f"{parameter}: a term is a tuple of features such as (0, 1), got {term!r}.")
    features = [_resolve_feature(feature, parameter, names) for feature in term]
    if not features or len(set(features)) < len(features):
        raise ValueError(f"{parameter}: a term has different features, at least one, got {term!r}.")
    return tuple(sorted(features))


def _resolve_feature(feature, parameter, names):
    if isinstance(feature, str):
        found = [j for j, name in enumerate(names) if name == feature]
        if len(found) != 1:
            problem = "is not a feature" if not found else "is the name of several features, give its number"
            raise ValueError(f"{parameter}: {feature!r} {problem}; the features are {_shortened(names)}.")
        return found[0]
    if isinstance(feature, numbers.Integral) and not isinstance(feature, (bool, np.bool_)):
        if not -len(names) <= feature < len(names):
            raise ValueError(f"{parameter}: there is no feature {feature}, the model has {len(names)}.")
        return int(feature) % len(names)
    raise ValueError(f"{parameter} names features by column number or name, got {feature!r}.")


def _shortened(names):
    return str(names) if len(names) <= 10 else f"{names[:10]} and {len(names) - 10} more"
