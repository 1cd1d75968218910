"""What a file of LightGBM cannot say of a chain, as one line of JSON among its parameters.

Reading trusts this line as little as the rest of the file.
"""

import copy
import json
import math
import re

import numpy as np

from skboost._losses import MultiLabelLogLoss, MultiSquaredError, make_loss
from skboost.lightgbm._chain import LAST_STATE, MEAN_STATE, NUMBERS, POSITIONS, TERMS, Chain
from skboost.lightgbm._lines import fault
from skboost.lightgbm._objectives import WRITTEN, key_of, objective_of, parse_objective

PARAMETER = "skboost"
# Losses of targets of several columns.
_OF_COLUMNS = {"several_targets": MultiSquaredError, "several_labels": MultiLabelLogLoss}
FORMAT_VERSION = 1
_LABEL_TYPES = re.compile(r"b1|[iu][1248]|f[248]|U|O")
# Raw scores at which a loss that is read must predict what the one that is written predicts.
_PROBES = np.array([-2.5, -0.75, 0.0, 0.5, 1.25, 3.0])


def description_of(chain):
    """Return the text of the parameter.

    Parameters
    ----------
    chain : Chain

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If class labels are neither texts nor numbers, or the loss cannot be read from a text.
    """
    _check_labels(chain.classes)
    maps = [None if levels is None else [levels[0].tolist(), list(levels[1])] for levels in chain.category_maps]
    state = {
        "format": FORMAT_VERSION,
        "predicts": chain.predicts,
        **_loss_state(chain.loss, chain.classes),
        "classes": None if chain.classes is None else chain.classes.tolist(),
        "label_type": None if chain.classes is None else _label_type(chain.classes.dtype),
        "class_weighted": chain.class_weighted,
        "feature_names": None if chain.feature_names is None else [str(name) for name in chain.feature_names],
        "levels": maps,
        "coding": chain.coding,
        "shrink_factors": chain.shrink_factors.tolist(),
        "coefficients": chain.coefficients.tolist(),
        "cycle_length": chain.cycle_length,
        "noise_variance": chain.noise_variance,
        "empty_scale": chain.empty_scale if chain.empty_scale is None else _plain(chain.empty_scale),
        "empty_variance": chain.empty_variance,
        "empty_leaves": [leaves.tolist() for leaves in chain.empty_leaves],
        "leaf_values": [None if values is None else values.tolist() for values in chain.leaf_values],
    }
    return json.dumps(state, separators=(",", ":"), allow_nan=True)


def _loss_state(loss, classes):
    """Return what the file keeps of a loss, after seeing that it makes a loss of the same predictions."""
    objective_of(loss)
    written = WRITTEN[key_of(loss)]
    options = {name: _plain(getattr(loss, name)) for name in written.options if getattr(loss, name, None) is not None}
    state = {name: _plain(getattr(loss, name)) for name in written.state if hasattr(loss, name)}
    found = {"loss": key_of(loss), "loss_options": options, "loss_state": state}
    try:
        other = _read_loss(json.loads(json.dumps(found)), classes, loss.n_outputs)
        fits = other.n_outputs == loss.n_outputs and all(map(np.array_equal, _probe(loss), _probe(other)))
    except (ValueError, TypeError):
        fits = False
    if not fits:
        raise ValueError(f"A model with loss={loss.name!r} and {loss.n_outputs} outputs cannot be written.")
    return found


def _plain(value):
    return value if isinstance(value, str) else np.asarray(value, dtype=np.float64).tolist()


def _probe(loss):
    """Return predictions of a loss, and units of offsets from empty leaves, at a few raw scores."""
    raw = _PROBES[(np.arange(len(_PROBES))[:, None] + np.arange(loss.n_outputs)) % len(_PROBES)]
    found = [loss.point(loss.inverse_link(raw[:, 0] if loss.n_outputs == 1 else raw))]
    if not loss.predicts_spread:
        return found
    units = [loss.offset_unit(raw)] if loss.n_outputs > 1 else []
    return [*found, *loss.mean_variance(raw if loss.n_outputs > 1 else raw[:, 0]), *units]


def _check_labels(classes):
    if classes is None:
        return
    known = isinstance(classes, np.ndarray) and _LABEL_TYPES.fullmatch(_label_type(classes.dtype))
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
    predicts = state.get("predicts")
    _require(predicts in (LAST_STATE, MEAN_STATE, TERMS), "what it predicts is unknown")
    classes = _read_classes(state.get("classes"), state.get("label_type"))
    loss = _read_loss(state, classes, parsed.n_outputs)
    _require(loss.n_outputs == parsed.n_outputs, f"loss={loss.name!r} has not the outputs of the trees")
    fits = parsed.objective == parse_objective(objective_of(loss) or "custom", loss.n_outputs)
    _require(fits, f"loss={loss.name!r} is not the objective of the file")
    columns, steps = _read_columns(state, len(parsed.feature_names)), _read_steps(state, parsed, predicts == TERMS)
    return Chain(
        predicts=predicts, loss=loss, classes=classes, **columns, **steps, **_read_noise(state, loss.n_outputs)
    )


def _read_columns(state, n_features):
    names, levels, coding = (state.get(key) for key in ("feature_names", "levels", "coding"))
    if names is not None:
        _require(_is_list(names, n_features, str), "feature_names are no texts, one a column")
        names = np.array(names, dtype=object)
    _require(_is_list(levels, n_features, (list, type(None))), "levels are no lists, one a column")
    _require(coding in (NUMBERS, POSITIONS), "its coding is unknown")
    maps = tuple(None if entry is None else _read_levels(entry, coding) for entry in levels)
    return {"feature_names": names, "category_maps": maps, "coding": coding}


def _read_steps(state, parsed, are_terms):
    """Return what belongs to iterations and their trees, of which a sum of terms has none."""
    n_trees = len(parsed.trees) - parsed.n_outputs
    _require(n_trees >= 0, "the trees with the base scores are missing")
    n_trees = 0 if are_terms else n_trees
    n_iter, length = n_trees // parsed.n_outputs, state.get("cycle_length")
    _require(length is None or (type(length) is int and 1 <= length < 2**31), "cycle_length is no positive number")
    values, empty = state.get("leaf_values"), state.get("empty_leaves")
    _require(_is_list(values, n_trees, (list, type(None))), "leaf_values are no lists, one a tree")
    _require(_is_list(empty, n_iter, list), "empty_leaves are no lists, one an iteration")
    trees = parsed.trees[: n_iter * parsed.n_outputs : parsed.n_outputs]
    return {
        "shrink_factors": _floats(state.get("shrink_factors"), "shrink_factors", n_iter),
        "coefficients": _floats(state.get("coefficients"), "coefficients", n_iter),
        "cycle_length": length,
        "leaf_values": [None if entry is None else _floats(entry, "leaf_values") for entry in values],
        "empty_leaves": [_read_empty(*entry) for entry in zip(empty, trees, strict=True)],
    }


def _read_noise(state, n_outputs):
    empty, noise, weighted = (state.get(key) for key in ("empty_variance", "noise_variance", "class_weighted"))
    scale = state.get("empty_scale")
    if isinstance(scale, list):
        scale = _floats(scale, "empty_scale", n_outputs)
    elif scale is not None:
        scale = float(_floats([scale], "empty_scale")[0])
    _require(scale is None or np.all(np.greater_equal(scale, 0)), "empty_scale is below 0")
    empty = float(_floats([empty], "empty_variance")[0])
    _require(empty >= 0, "empty_variance is below 0")
    if noise is not None:
        noise = float(_floats([noise], "noise_variance")[0])
        _require(noise > 0, "noise_variance is not positive")
    _require(isinstance(weighted, bool), "class_weighted is neither true nor false")
    return {"empty_variance": empty, "empty_scale": scale, "noise_variance": noise, "class_weighted": weighted}


def _read_loss(state, classes, n_outputs):
    name, options, numbers = (state.get(key) for key in ("loss", "loss_options", "loss_state"))
    _require(isinstance(name, str) and name in WRITTEN, "its loss is unknown")
    classifies = name in ("log_loss", "several_labels")
    _require(classes is None or classifies, "a classifier needs loss='log_loss'")
    _require(classes is not None or not classifies, "loss='log_loss' needs classes")
    for entry, allowed in ((options, WRITTEN[name].options), (numbers, WRITTEN[name].state)):
        _require(isinstance(entry, dict) and set(entry) <= set(allowed), f"loss={name!r} has not these parameters")
        for key, value in entry.items():
            if not isinstance(value, str):
                _floats(value if isinstance(value, list) else [value], key)
    try:
        loss = _make(name, options, classes, n_outputs)
    except (ValueError, TypeError):
        _require(False, f"loss={name!r} cannot be made of its parameters")
    wanted = {key for key in WRITTEN[name].state if hasattr(loss, key)}
    wanted |= {key for key in WRITTEN[name].options if getattr(loss, key, None) is not None}
    _require(wanted == {*options, *numbers}, f"loss={name!r} has not these parameters")
    plain = not any(isinstance(value, str) for value in numbers.values())
    _require(plain, f"loss={name!r} has parameters that are no numbers")
    loss = copy.copy(loss)
    for key, value in numbers.items():
        value = np.array(value, dtype=np.float64)
        _require(value.shape == np.shape(getattr(loss, key)), f"{key} has not the shape of the outputs")
        _require(key != "scale" or (value > 0).all(), "scale is not positive")
        setattr(loss, key, value if value.ndim else float(value))
    return loss


def _make(name, options, classes, n_outputs):
    if name in _OF_COLUMNS:
        # Predictions do not depend on the table of targets.
        return _OF_COLUMNS[name](np.zeros((1, n_outputs)))
    return make_loss(name, **options, **({} if classes is None else {"n_classes": len(classes)}))


def _read_empty(leaves, tree):
    known = [leaf for leaf in leaves if type(leaf) is int and 0 <= leaf < len(tree.leaf_value)]
    _require(len(known) == len(leaves), "empty_leaves are no leaves of their trees")
    return np.array(known, dtype=np.int64)


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
