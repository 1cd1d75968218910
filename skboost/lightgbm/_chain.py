"""What a file of LightGBM cannot say of a chain, kept as one line of JSON among its parameters.

Leaves in the trees of a file are folded: multiplied by what the later shrinkage leaves of them. The states of the chain
follow from the leaves as they were before, the shrink factors and the base score.
"""

import json
import math
import re
from dataclasses import dataclass

import numpy as np

from skboost._categories import level_names
from skboost._losses import Gaussian, Loss, make_loss
from skboost.lightgbm._lines import fault
from skboost.lightgbm._objectives import parse_objective

PARAMETER = "skboost"
FORMAT_VERSION = 1
# Categories of a model fitted on an array are in the file by their numbers, else by their positions among the levels.
NUMBERS, POSITIONS = "numbers", "positions"
# Larger numbers of categories would make long sets.
LARGEST_CATEGORY = 2**16 - 1
LAST_STATE, MEAN_STATE, TERMS = "last", "mean", "terms"
_LABEL_TYPES = re.compile(r"b1|[iu][1248]|f[248]|U|O")
_OBJECTIVES = {"squared_error": "regression", "poisson": "poisson", "gamma": "gamma", "tweedie": "tweedie"}
# LightGBM has no name for the last two, whose raw scores it predicts.
_REGRESSION_LOSSES = {"gaussian", *_OBJECTIVES, "cox", "aft"}


def objective_of(loss):
    """Return LightGBM's objective with the link of a loss, None where it has none."""
    if loss.name == "log_loss":
        return "binary sigmoid:1" if loss.n_outputs == 1 else f"multiclass num_class:{loss.n_outputs}"
    return _OBJECTIVES.get(loss.name)


def coding_of(category_maps, feature_names):
    """Return what stands for categories in the file: numbers if LightGBM can take all of them and there is no frame."""
    return NUMBERS if feature_names is None and all(map(_codes_itself, category_maps)) else POSITIONS


def _codes_itself(levels):
    if levels is None:
        return True
    known, texts = levels
    return not texts and bool(((known >= 0) & (known <= LARGEST_CATEGORY) & (known == np.floor(known))).all())


@dataclass(frozen=True)
class Chain:
    """The chain, or the terms, behind a file that skboost wrote.

    Attributes
    ----------
    predicts : {"last", "mean", "terms"}
        What predictions use: the last state of the chain, the sums over the file, which are the mean of states, or the
        sums of a model that is no chain but a sum of terms.
    loss : Loss
        Knows the link.
    classes : ndarray of shape (n_classes,) or None
        Labels of a classifier.
    feature_names : ndarray of str, shape (n_features,), or None
    category_maps : tuple of length n_features
        As of ``skboost._validation.TrainingData``.
    coding : {"numbers", "positions"}
        What stands for a category in the file.
    shrink_factors, coefficients : float64 arrays of shape (n_iter,)
        Factor on the sum of the earlier trees; factor between the leaves of the chain and those in the file.
    cycle_length : int or None
        Iterations of a cycle of a cyclical schedule.
    leaf_values : list of float64 arrays, or None
        Leaves before folding, in the order of the trees; None stands for those in the file.
    """

    predicts: str
    loss: Loss
    classes: np.ndarray | None
    feature_names: np.ndarray | None
    category_maps: tuple
    coding: str
    shrink_factors: np.ndarray
    coefficients: np.ndarray
    cycle_length: int | None
    leaf_values: list

    def recode(self, X):
        """Return the matrix that the trees of the file read, of one with positions among the levels."""
        if self.coding == NUMBERS:
            for feature, levels in enumerate(self.category_maps):
                if levels is not None:
                    known = np.isfinite(X[:, feature])
                    X[known, feature] = levels[0][X[known, feature].astype(np.intp)]
        return X

    def states(self, trees, X, counts):
        """Return the states of the chain after ascending counts of iterations, of shape (n_counts, n_rows, n_outputs).

        The steps are those of ``skboost._forest``, in its order.
        """
        n_outputs = self.loss.n_outputs
        base = np.array([tree.leaf_value[0] for tree in trees[-n_outputs:]])
        total, states = np.zeros((len(X), n_outputs)), np.empty((len(counts), len(X), n_outputs))
        states[np.equal(counts, 0)] = base
        for n_iter, factor in enumerate(self.shrink_factors, start=1):
            with np.errstate(over="ignore", invalid="ignore"):
                total *= factor
                for output in range(n_outputs):
                    index = (n_iter - 1) * n_outputs + output
                    values = self.leaf_values[index]
                    total[:, output] += (trees[index].leaf_value if values is None else values)[trees[index].leaves(X)]
                states[np.equal(counts, n_iter)] = base + total
        return states

    def to_json(self):
        """Return the text of the parameter.

        Raises
        ------
        ValueError
            If class labels are neither texts nor numbers.
        """
        _check_labels(self.classes)
        maps = [None if levels is None else [levels[0].tolist(), list(levels[1])] for levels in self.category_maps]
        state = {
            "format": FORMAT_VERSION,
            "predicts": self.predicts,
            "loss": self.loss.name,
            "scale": [self.loss.centre, self.loss.scale] if self.loss.name == "gaussian" else None,
            "classes": None if self.classes is None else self.classes.tolist(),
            "label_type": None if self.classes is None else _label_type(self.classes.dtype),
            "feature_names": None if self.feature_names is None else [str(name) for name in self.feature_names],
            "levels": maps,
            "coding": self.coding,
            "shrink_factors": self.shrink_factors.tolist(),
            "coefficients": self.coefficients.tolist(),
            "cycle_length": self.cycle_length,
            "leaf_values": [None if values is None else values.tolist() for values in self.leaf_values],
        }
        return json.dumps(state, separators=(",", ":"), allow_nan=True)

    def pandas_categorical(self):
        """Return the categories of the categorical columns for LightGBM, None where it needs none."""
        levels = [level_names(levels) for levels in self.category_maps if levels is not None]
        return levels if levels and self.coding == POSITIONS else None


def _check_labels(classes):
    if classes is None:
        return
    known = _LABEL_TYPES.fullmatch(_label_type(classes.dtype))
    if not known or not all(isinstance(label, (str, int, float)) for label in classes.tolist()):
        raise ValueError(f"Class labels must be texts or numbers to be written, got {classes!r}.")


def _label_type(dtype):
    return dtype.kind if dtype.kind in "UO" else f"{dtype.kind}{dtype.itemsize}"


# ---- reading: the text is as untrusted as the rest of the file


def chain_of(parsed):
    """Return the Chain that the parameters of a ModelText describe, None where they describe none.

    Raises
    ------
    ValueError
        If the description is malformed or does not fit the trees; the message names the line.
    """
    if PARAMETER not in parsed.parameters:
        return None
    text, line = parsed.parameters[PARAMETER]
    try:
        chain = _read_state(json.loads(text), parsed)
        _check_trees(chain, parsed)
    except (ValueError, OverflowError, RecursionError) as error:
        message = str(error) if type(error) is _MismatchError else "it is malformed"
        raise fault(line, f"the parameter {PARAMETER!r} does not describe the model: {message}.") from None
    return chain


class _MismatchError(ValueError):
    """What is wrong with a description."""


def _require(condition, message):
    if not condition:
        raise _MismatchError(message)


def _read_state(state, parsed):
    _require(isinstance(state, dict), "it is no JSON object")
    version = state.get("format")
    _require(version == FORMAT_VERSION, f"this skboost reads its format {FORMAT_VERSION}, not another one")
    n_features, n_trees = len(parsed.feature_names), len(parsed.trees) - parsed.n_outputs
    _require(n_trees >= 0, "the trees with the base scores are missing")
    predicts = state.get("predicts")
    _require(predicts in (LAST_STATE, MEAN_STATE, TERMS), "what it predicts is unknown")
    if predicts == TERMS:
        n_trees = 0
    n_iter = n_trees // parsed.n_outputs
    classes = _read_classes(state.get("classes"), state.get("label_type"))
    names = state.get("feature_names")
    if names is not None:
        _require(_is_list(names, n_features, str), "feature_names are no texts, one a column")
        names = np.array(names, dtype=object)
    levels = state.get("levels")
    _require(_is_list(levels, n_features, (list, type(None))), "levels are no lists, one a column")
    coding, length = state.get("coding"), state.get("cycle_length")
    _require(coding in (NUMBERS, POSITIONS), "its coding is unknown")
    _require(length is None or (type(length) is int and 1 <= length < 2**31), "cycle_length is no positive number")
    maps = tuple(None if entry is None else _read_levels(entry, coding) for entry in levels)
    values = state.get("leaf_values")
    _require(_is_list(values, n_trees, (list, type(None))), "leaf_values are no lists, one a tree")
    values = [None if entry is None else _floats(entry, "leaf_values") for entry in values]
    factors, coefficients = (_floats(state.get(key), key, n_iter) for key in ("shrink_factors", "coefficients"))
    loss = _read_loss(state, classes)
    _require(loss.n_outputs == parsed.n_outputs, f"loss={loss.name!r} has not the outputs of the trees")
    fits = parsed.objective == parse_objective(objective_of(loss) or "custom", loss.n_outputs)
    _require(fits, f"loss={loss.name!r} is not the objective of the file")
    return Chain(predicts, loss, classes, names, maps, coding, factors, coefficients, length, values)


def _read_loss(state, classes):
    name = state.get("loss")
    if classes is not None:
        _require(name == "log_loss", "a classifier needs loss='log_loss'")
        return make_loss(name, n_classes=len(classes))
    _require(isinstance(name, str) and name in _REGRESSION_LOSSES, "its loss is unknown")
    if name != "gaussian":
        return make_loss(name)
    centre, scale = _floats(state.get("scale"), "scale", 2).tolist()
    _require(scale > 0, "scale is not positive")
    return Gaussian(centre, scale)


def _read_classes(labels, label_type):
    if labels is None:
        return None
    _require(isinstance(labels, list) and len(labels) >= 2, "classes are no list of two labels or more")
    _require(all(isinstance(label, (str, int, float)) for label in labels), "a class is neither text nor number")
    _require(isinstance(label_type, str) and _LABEL_TYPES.fullmatch(label_type), "label_type is unknown")
    if label_type == "U":
        _require(all(isinstance(label, str) for label in labels), "a class is no text")
    else:
        _require(label_type == "O" or not any(isinstance(label, str) for label in labels), "a class is no number")
    with np.errstate(over="ignore"):
        classes = np.array(labels, dtype=label_type if label_type != "U" else None)
    _require(classes.tolist() == labels, "its classes are not of their type")
    return classes


def _read_levels(entry, coding):
    _require(len(entry) == 2 and _is_list(entry[1], None, str), "levels are no pairs of numbers and texts")
    _require(isinstance(entry[0], list) and all(_is_number(level) for level in entry[0]), "a level is no number")
    known = np.array([float(level) for level in entry[0]], dtype=np.float64)
    _require(coding == POSITIONS or not entry[1], "texts have no numbers to be coded by")
    return known, tuple(entry[1])


def _is_list(value, length, kind):
    fits = isinstance(value, list) and (length is None or len(value) == length)
    return fits and all(isinstance(entry, kind) for entry in value)


def _is_number(value):
    return type(value) in (int, float) and not (type(value) is float and math.isnan(value))


def _floats(value, name, length=None):
    """Return finite numbers as a float64 array."""
    fits = isinstance(value, list) and (length is None or len(value) == length) and all(map(_is_number, value))
    _require(fits, f"{name} are no numbers, or not as many as needed")
    numbers = np.array([float(entry) for entry in value], dtype=np.float64)
    _require(np.isfinite(numbers).all(), f"{name} are not finite")
    return numbers


def _check_trees(chain, parsed):
    """Refuse a description whose leaves, folded, are not those of the trees: other trees were added or changed."""
    n_outputs, trees = parsed.n_outputs, parsed.trees
    _require(not parsed.average_output, "it is no random forest")
    _require(all(tree.linear is None for tree in trees), "its leaves are not linear")
    bases = trees[:n_outputs] if chain.predicts == TERMS else trees[-n_outputs:]
    _require(all(len(tree.leaf_value) == 1 for tree in bases), "the trees with the base scores are missing")
    for index, values in enumerate(chain.leaf_values):
        coefficient, folded = chain.coefficients[index // n_outputs], trees[index].leaf_value
        if values is None:
            _require(coefficient == 1, "leaf_values are missing")
        else:
            fits = len(values) == len(folded) and np.array_equal(coefficient * values, folded)
            _require(fits, f"the leaves of Tree={index} are not those that were written")
