"""Fitted attributes that follow from others."""

import numpy as np

from skboost._categories import level_names

LINKS = {"squared_error": "identity", "poisson": "log", "gamma": "log", "tweedie": "log"}


def link_of(loss):
    """Return the name of the link of a loss."""
    return LINKS.get(loss.name, "logit" if loss.n_outputs == 1 else "mlogit")


def bins_of(mapper, feature, levels):
    """Return the cells of a column in main effects and in pairs: cuts, or a dict from levels to cells."""
    if levels is None:
        return [np.array(mapper.cuts(feature)), np.array(mapper.coarse_cuts(feature))]
    names, coarse = level_names(levels), mapper.coarse(feature)
    return [
        {name: position + 1 for position, name in enumerate(names)},
        {name: int(coarse[position + 1]) for position, name in enumerate(names)},
    ]
