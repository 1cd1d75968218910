"""Edits of fitted terms: which terms are meant, monotone versions of curves, cells that may be merged."""

import numbers

import numpy as np
from sklearn.isotonic import isotonic_regression


def resolve_items(items, names, what):
    """Return the positions of what a user names, in ascending order without repetition.

    Parameters
    ----------
    items : int, str, array-like of int or str, or array-like of bool of shape (n_names,)
        Positions (negative ones count from the end), names, or a mask.
    names : sequence of str
        Names of all items.
    what : str
        What they are, for messages: "term" or "feature".

    Returns
    -------
    list of int
        Positions.

    Raises
    ------
    ValueError
        If something named does not exist, or a mask has the wrong length.
    TypeError
        If `items` is of another kind.
    """
    names = list(names)
    if isinstance(items, (str, numbers.Integral, np.bool_)):
        items = [items]
    items = list(items.tolist() if isinstance(items, np.ndarray) else items)
    if items and all(isinstance(item, (bool, np.bool_)) for item in items):
        if len(items) != len(names):
            raise ValueError(f"A mask of {what}s must have one entry for each of {len(names)}, got {len(items)}.")
        return [position for position, chosen in enumerate(items) if chosen]
    return sorted({_position(item, names, what) for item in items})


def resolve_item(item, names, what):
    """Return the position of one item given by position or name; the arguments are those of `resolve_items`."""
    if not isinstance(item, (str, numbers.Integral)) or isinstance(item, bool):
        raise TypeError(f"A {what} is named by its position or its name, got {item!r}.")
    return _position(item, list(names), what)


def _position(item, names, what):
    if isinstance(item, str):
        if item not in names:
            shown = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
            raise ValueError(f"There is no {what} {item!r}; the {what}s are {shown or 'none'}.")
        if names.count(item) > 1:
            raise ValueError(f"{item!r} is the name of several {what}s; give the position instead.")
        return names.index(item)
    if isinstance(item, (bool, np.bool_)) or not isinstance(item, numbers.Integral):
        raise TypeError(f"A {what} is named by its position or its name, got {item!r}.")
    if not -len(names) <= item < len(names):
        raise ValueError(f"There is no {what} {int(item)}: there are {len(names)}, counted from 0.")
    return int(item) % len(names)


def isotonic(values, weights, increasing):
    """Return the weighted isotonic fit of a curve; its weighted mean is that of the curve.

    Parameters
    ----------
    values, weights : ndarray of shape (n_cells,)
        Curve and weights; cells without weight take the value of the cell before them that has some, at the start that
        of the first one.
    increasing : bool
        Direction.

    Returns
    -------
    ndarray of shape (n_cells,)
        Monotone curve.
    """
    known = np.flatnonzero(weights > 0)
    if not known.size:
        return values.copy()
    fitted = isotonic_regression(values[known], sample_weight=weights[known], increasing=increasing)
    place = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    return fitted[np.maximum(place, 0)]


def better_direction(values, weights):
    """Return whether an increasing curve fits at least as well as a decreasing one."""
    errors = [(weights * (isotonic(values, weights, direction) - values) ** 2).sum() for direction in (True, False)]
    return bool(errors[0] <= errors[1])
