"""From what boosting left in the bags to the terms of a model."""

from dataclasses import dataclass

import numpy as np

from skboost._losses import fit_intercept
from skboost.ebm._terms import (
    bag_mean,
    cell_weights,
    centre,
    centre_classes,
    clear_empty,
    contributions,
    purify,
)


@dataclass(frozen=True)
class FittedTerms:
    """Terms of a model: main effects, then pairs.

    Attributes
    ----------
    features : list of tuple of int
        Columns of every term.
    scores : list of ndarray
        Scores of the cells, outputs last if there are several.
    bagged_scores : list of ndarray
        The same of every bag along a first axis.
    weights : list of ndarray
        Weights of the cells.
    intercept : ndarray of shape (n_outputs,)
        Intercept.
    bagged_intercept : ndarray of shape (n_bags, n_outputs)
        Intercepts of the bags.
    """

    features: list
    scores: list
    bagged_scores: list
    weights: list
    intercept: np.ndarray
    bagged_intercept: np.ndarray


def finish(boosted, problem, purified):
    """Centre the terms of all bags, make pairs pure, average the bags and fit the intercept to all rows.

    Parameters
    ----------
    boosted : Boosted
        Terms of all bags; changed in place.
    problem : Problem
        Rows, cells and loss.
    purified : bool
        Whether to purify pairs.

    Returns
    -------
    FittedTerms
        Views of the arrays of `boosted` and their means.
    """
    rows, mapper = problem.rows, problem.mapper
    coarse = [mapper.coarse(feature) for feature in range(mapper.n_features)]
    mains, pairs, intercepts = boosted.mains, boosted.pairs, boosted.intercepts
    blocks = [(mains, boosted.main_scores), (pairs, boosted.pair_scores)]
    weights = [cell_weights(block, rows.cells, coarse, rows.weight) for block, _ in blocks]
    for (block, scores), weight in zip(blocks, weights, strict=True):
        centre(block, scores, weight, intercepts)
        clear_empty(block, scores, weight)
    if purified and len(pairs):
        purify(pairs, boosted.pair_scores, weights[1], mains, boosted.main_scores, coarse, intercepts)
        centre(mains, boosted.main_scores, weights[0], intercepts)
        clear_empty(mains, boosted.main_scores, weights[0])
    for array in (boosted.main_scores, boosted.pair_scores, intercepts):
        centre_classes(array)
    fitted = FittedTerms([], [], [], [], bag_mean(intercepts, boosted.bag_weights), intercepts)
    for (block, scores), weight in zip(blocks, weights, strict=True):
        one_output = scores.shape[2] == 1
        mean = bag_mean(scores, boosted.bag_weights)
        fitted.features.extend(block.features)
        fitted.scores.extend(block.views(mean[:, 0] if one_output else mean))
        fitted.bagged_scores.extend(block.views(scores[:, :, 0] if one_output else scores, leading=1))
        fitted.weights.extend(block.views(weight))
    _fit_intercept(fitted, problem, coarse)
    return fitted


def _fit_intercept(fitted, problem, coarse):
    """Add to all intercepts what makes the mean gradient of the model vanish on all rows."""
    rows, loss = problem.rows, problem.loss
    scores = np.empty((loss.n_outputs, len(rows.y)))
    scores[:] = fitted.intercept[:, None]
    if rows.init is not None:
        scores += rows.init
    for part in contributions(fitted.features, fitted.scores, rows.cells, coarse):
        scores += part.T
    shift = fit_intercept(loss, rows.y, scores, rows.weight)
    fitted.intercept[:] += shift
    fitted.bagged_intercept[:] += shift
