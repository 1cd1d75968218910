"""Outer bags: which copies of the rows each of several models is trained on and which ones validate it."""

import numbers

import numpy as np

from skboost._random import STREAM_EBM_BAGS
from skboost._sampling import HoldOut

MOST_REPEATS = 127


class Bags:
    """Weights of the rows in each bag, made on demand: no array of all bags exists.

    ``bags[b]`` is the pair of the training and the validation weights of bag b, float64 arrays of shape (n_rows,). Sums
    of either, over any rows and in any order, are exact, and may be taken in any thread.
    """

    def __init__(self, rows, n_bags, counts):
        self.rows = rows
        self.n_bags = n_bags
        self._counts = counts

    def __len__(self):
        return self.n_bags

    def __getitem__(self, bag):
        if not 0 <= bag < self.n_bags:
            raise IndexError(bag)  # ends iteration
        n_train, n_held = self._counts(bag)
        return self.rows.copy_weight * n_train, self.rows.copy_weight * n_held


def make_bags(rows, n_bags, validation_size, seed, stratify=None, user_bags=None, classes=None):
    """Draw the bags.

    Parameters
    ----------
    rows : CanonicalRows
        Rows of the training set. With `user_bags`, these are part of the content of the rows.
    n_bags : int
        Number of bags.
    validation_size : float or int
        0: no validation rows. Below 1: share of the copies of the rows that validates, rounded down, and less where one
        copy of every class could not stay in training. From 1: number of copies that validate.
    seed : int
        Key of the draws, together with the number of the bag and the content of the rows.
    stratify : ndarray of shape (n_rows,), default=None
        What `Loss.strata` returns: class numbers, or whether targets are above 0. Each group gets its share of the
        validation copies, up to rounding, and keeps a copy in training.
    user_bags : ndarray of shape (n_rows, n_bags), default=None
        Bags instead of draws, as `check_user_bags` returns them, one row for each canonical row. Every bag must train
        on a row of each class, or on one whose target is above 0.
    classes : ndarray of shape (n_classes,), default=None
        Labels of the classes, for messages.

    Returns
    -------
    Bags
        The weights of each bag.

    Raises
    ------
    ValueError
        If `validation_size` is no such number or leaves no copy (of some group) to train on, or if a bag of the user
        trains on no row (of some class, or above 0).
    """
    if user_bags is not None:
        _check_training(user_bags, stratify, classes)
        return Bags(rows, n_bags, lambda bag: _user_counts(rows.n_copies, user_bags[:, bag].astype(np.int64)))
    n_copies = rows.n_copies
    wanted = _n_validation(validation_size, int(n_copies.sum()), stratify)
    holdout = HoldOut(wanted, rows.keys, np.zeros(len(n_copies), dtype=np.int64), n_copies, stratify)

    def counts(bag):
        n_held = holdout.draw(seed, STREAM_EBM_BAGS, bag)
        return n_copies - n_held, n_held

    return Bags(rows, n_bags, counts)


def check_user_bags(bags, n_samples, n_bags):
    """Validate bags given by the user.

    Parameters
    ----------
    bags : array-like of int of shape (n_samples, n_bags)
        k: the row is trained on k times; -k: it validates with k times its weight; 0: it is not used.
    n_samples, n_bags : int
        Shape to expect.

    Returns
    -------
    ndarray of shape (n_samples, n_bags)
        The bags, int8.

    Raises
    ------
    ValueError
        If the shape is another one or a number is beyond 127.
    TypeError
        If the numbers are no integers.
    """
    bags = np.asarray(bags)
    if bags.shape != (n_samples, n_bags):
        raise ValueError(
            f"bags must have one row for each row of X and one column for each of the outer_bags, shape "
            f"{(n_samples, n_bags)}, got {bags.shape}"
        )
    if bags.dtype.kind not in "iu":
        raise TypeError(
            f"bags must hold integers (k: train k times, -k: validate, 0: leave out), got the type {bags.dtype}"
        )
    if bags.min() < -MOST_REPEATS or bags.max() > MOST_REPEATS:
        raise ValueError(f"bags must lie between -{MOST_REPEATS} and {MOST_REPEATS}, got {bags.min()} to {bags.max()}")
    return bags.astype(np.int8)


def _user_counts(n_copies, times):
    """Copies that train and copies that validate, counted as often as the user says."""
    return np.maximum(times, 0) * n_copies, np.maximum(-times, 0) * n_copies


def _check_training(user_bags, stratify, classes):
    """Raise ValueError if some bag trains on no row, or on no row of a group that it needs."""
    trains = user_bags > 0
    empty = np.flatnonzero(~trains.any(axis=0))
    if empty.size:
        raise ValueError(f"bags leaves no row to train on in the columns {empty.tolist()}; a positive number trains.")
    for members, which, wanted in [] if stratify is None else _needed(stratify, classes):
        empty = np.flatnonzero(~trains[members].any(axis=0))
        if empty.size:
            raise ValueError(
                f"bags leaves no row {which} to train on in the columns {empty.tolist()}; every bag must train on "
                f"some row {wanted}."
            )


def _needed(stratify, classes):
    """Mask and name of each group that every bag must train on."""
    if stratify.dtype == bool:
        return [(stratify, "with y > 0", "with y > 0")]
    labels = np.unique(stratify)
    names = labels.astype(int) if classes is None else classes[labels.astype(int)]
    pairs = zip(labels, names.tolist(), strict=True)
    return [(stratify == label, f"of the class {name!r}", "of every class") for label, name in pairs]


def check_validation_size(validation_size):
    """Raise ValueError unless it is a share of the rows or a number of rows."""
    is_number = isinstance(validation_size, numbers.Real) and not isinstance(validation_size, bool)
    if not is_number or not (0 <= validation_size < 1 or (validation_size >= 1 and validation_size % 1 == 0)):
        raise ValueError(
            f"validation_size must be 0, a share of the rows below 1 or a number of rows, got {validation_size!r}"
        )


def _n_validation(validation_size, n_copies, stratify):
    """Number of copies that validate, out of n_copies."""
    check_validation_size(validation_size)
    n_groups = 1 if stratify is None else len(np.unique(stratify))
    most = n_copies - n_groups
    if validation_size < 1:
        # A share such as 0.29 of 100 rows is 29 rows, although the product is a little less.
        return min(int(validation_size * n_copies * (1 + 2.0**-40)), most)
    if validation_size > most:
        group = "with y > 0 or none with y = 0" if n_groups > 1 and stratify.dtype == bool else "of some class"
        left = "no row" if n_groups == 1 else f"no row {group}"
        raise ValueError(
            f"validation_size={validation_size} leaves {left} to train on: the training set has {n_copies} rows "
            f"(a row of weight w counts as w rows), so at most {max(most, 0)} can validate."
        )
    return int(validation_size)
