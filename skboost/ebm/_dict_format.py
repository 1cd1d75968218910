"""Pieces of the dictionary form of a model: plain numbers, texts and lists, which JSON keeps exactly.

Python writes a float into JSON with as many digits as tell it from all others, so reading gives the same bits. Numbers
that are not finite have no place in JSON; they become the texts "nan", "inf" and "-inf". Everything read is checked:
the text may be damaged or made by hand.
"""

import itertools
import math
import numbers

import numpy as np

FORMAT = "skboost.ebm"
VERSION = 1
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def malformed(what):
    """Return the error for a dictionary that is no model."""
    return ValueError(f"Malformed model dictionary: {what}.")


def require(condition, what):
    """Raise the error that names what is wrong unless the condition holds."""
    if not condition:
        raise malformed(what)


# ---- writing ---------------------------------------------------------------------------------------------------------


def plain_float(value):
    """Return a number as JSON can hold it."""
    value = float(value)
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def plain_param(value):
    """Return a constructor parameter as plain values; generators and functions have none and become None."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (list, tuple, set, range)):
        return [plain_param(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain_param(item) for key, item in value.items()}
    if isinstance(value, float):
        return plain_float(value)
    return value if isinstance(value, (bool, int, str)) else None


def plain_classes(classes):
    """Return class labels with their type."""
    return {"dtype": classes.dtype.str, "labels": [plain_param(label) for label in classes.tolist()]}


# ---- reading ---------------------------------------------------------------------------------------------------------


def read(mapping, key, kind, where="the model"):
    """Return the entry of a dict, which must be there and of a kind."""
    require(isinstance(mapping, dict), f"{where} is no dict")
    require(key in mapping, f"{where} has no {key!r}")
    value = mapping[key]
    right = isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)
    require(right, f"{key!r} of {where} has the type {type(value).__name__}")
    return value


def read_array(values, shape, what, dtype=np.float64, *, least=None):
    """Return nested lists of numbers as a finite array of a shape; None in the shape stands for any length."""
    try:
        array = np.array(values)
        require(array.size == 0 or array.dtype.kind in "iuf", f"{what} does not hold numbers only")
        require(np.isfinite(array).all(), f"{what} holds numbers that are not finite")
        with np.errstate(invalid="ignore"):
            exact = array.astype(dtype)
    except (ValueError, TypeError, OverflowError):
        raise malformed(f"{what} is no table of numbers") from None
    wanted = tuple(found if size is None else size for size, found in zip(shape, array.shape, strict=False))
    require(array.shape == wanted and len(shape) == array.ndim, f"{what} has the shape {array.shape}, not {wanted}")
    require((exact == array).all(), f"{what} holds numbers out of range")
    require(least is None or not array.size or array.min() >= least, f"{what} holds numbers below {least}")
    return exact


def read_float(value, what):
    """Return a float written by `plain_float`."""
    if isinstance(value, str):
        require(value in NOT_FINITE, f"{what} is {value!r}")
        return NOT_FINITE[value]
    require(isinstance(value, numbers.Real) and not isinstance(value, bool), f"{what} is {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise malformed(f"{what} is out of range") from None


def read_param(value):
    """Return a constructor parameter; texts for numbers that are not finite become numbers."""
    return NOT_FINITE[value] if isinstance(value, str) and value in NOT_FINITE else value


def read_classes(stored):
    """Return class labels, sorted and at least two."""
    labels = read(stored, "labels", list, "classes")
    dtype = read(stored, "dtype", str, "classes")
    require(all(isinstance(label, (bool, int, float, str)) for label in labels), "a class label is no plain value")
    try:
        dtype = np.dtype(dtype)
        require(dtype.kind in "biufUO", f"classes of the type {dtype}")
        classes = np.array(labels, dtype=dtype)
        require(classes.tolist() == labels, "the classes do not fit their type")
        ascending = all(low < high for low, high in itertools.pairwise(classes))
    except (ValueError, TypeError, OverflowError):
        raise malformed("the classes do not fit their type") from None
    require(classes.ndim == 1 and len(classes) >= 2 and ascending, "the classes do not ascend, or are fewer than two")
    return classes


def read_levels(stored, where):
    """Return the levels of a categorical column, as `skboost._categories` has them."""
    levels = [read_float(value, f"a level of {where}") for value in read(stored, "numbers", list, where)]
    texts = read(stored, "texts", list, where)
    require(all(isinstance(text, str) for text in texts), f"a level of {where} is no text")
    ascending = all(low < high for part in (levels, texts) for low, high in itertools.pairwise(part))
    require(ascending, f"the levels of {where} do not ascend")
    return np.array(levels, dtype=np.float64), tuple(texts)
