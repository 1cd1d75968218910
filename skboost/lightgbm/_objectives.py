"""Objectives of LightGBM: how their names are written, their links, and which losses have them."""

import math
import re
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

_ALIASES = {
    "regression": "regression regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse",
    "regression_l1": "regression_l1 l1 mean_absolute_error mae",
    "huber": "huber",
    "fair": "fair",
    "quantile": "quantile",
    "mape": "mape mean_absolute_percentage_error",
    "poisson": "poisson",
    "gamma": "gamma",
    "tweedie": "tweedie",
    "binary": "binary",
    "multiclass": "multiclass softmax",
    "multiclassova": "multiclassova multiclass_ova ova ovr",
    "cross_entropy": "cross_entropy xentropy",
    "cross_entropy_lambda": "cross_entropy_lambda xentlambda",
    "lambdarank": "lambdarank",
    "rank_xendcg": "rank_xendcg xendcg xe_ndcg xe_ndcg_mart xendcg_mart",
    "custom": "custom none null na",
}
_NAMES = {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()}
_LOG_LINKS = {"poisson", "gamma", "tweedie"}
_SIGMOID = re.compile(r"sigmoid:([0-9.eE+-]{1,40})")
_CLASSES = re.compile(r"num_class:([0-9]{1,6})")


@dataclass(frozen=True)
class WrittenLoss:
    """How a loss of skboost is written.

    Attributes
    ----------
    objective : str or None
        LightGBM's objective with the link of the loss. None where there is none: the file has no such line, and
        LightGBM predicts raw scores.
    of_several : str or None
        The same for several outputs, whose number is ``{n}``.
    options : tuple of str
        Parameters of the loss, attributes of it and keywords of ``make_loss``.
    state : tuple of str
        Numbers that training gives the loss and predictions depend on, attributes of it.
    """

    objective: str | None = None
    of_several: str | None = None
    options: tuple = ()
    state: tuple = ()


# A new loss is one line here. What a line forgets is noticed when a model is written.
WRITTEN = {
    "squared_error": WrittenLoss("regression"),
    "absolute_error": WrittenLoss("regression_l1"),
    "quantile": WrittenLoss("quantile", options=("levels",)),
    "huber": WrittenLoss("huber", options=("delta",)),
    "pseudo_huber": WrittenLoss(options=("delta",)),
    "expectile": WrittenLoss(options=("level",)),
    "several_targets": WrittenLoss(state=("centre", "scale")),
    "poisson": WrittenLoss("poisson"),
    "gamma": WrittenLoss("gamma"),
    "tweedie": WrittenLoss("tweedie", options=("power",)),
    "log_loss": WrittenLoss("binary sigmoid:1", "multiclass num_class:{n}"),
    "several_labels": WrittenLoss(None, "multiclassova num_class:{n} sigmoid:1"),
    "cox": WrittenLoss(),
    "aft": WrittenLoss(options=("distribution", "scale")),
    "gaussian": WrittenLoss(state=("centre", "scale")),
    "normal": WrittenLoss(state=("centre", "scale")),
    "lognormal": WrittenLoss(state=("centre", "scale")),
    "laplace": WrittenLoss(state=("centre", "scale")),
    "gamma_distribution": WrittenLoss(),
    "poisson_distribution": WrittenLoss(),
    "negative_binomial": WrittenLoss(state=("params",)),
}


def key_of(loss):
    """Return the key of a loss in the table: its name, or what it does with a target of several columns."""
    if loss.uncertainty == "labels":
        return "several_labels"
    return "several_targets" if loss.name == "squared_error" and loss.n_outputs > 1 else loss.name


def objective_of(loss):
    """Return LightGBM's objective with the link of a loss, None where it has none.

    Raises
    ------
    ValueError
        If it is not known how the loss is written.
    """
    key = key_of(loss)
    if key not in WRITTEN:
        raise ValueError(f"A model with loss={loss.name!r} cannot be written; known are {', '.join(WRITTEN)}.")
    if loss.n_outputs == 1:
        return WRITTEN[key].objective
    several = WRITTEN[key].of_several
    return None if several is None else several.format(n=loss.n_outputs)


@dataclass(frozen=True)
class Objective:
    """What a model was trained for.

    Attributes
    ----------
    name : str
        LightGBM's own name; "custom" where the file names none.
    sigmoid : float
        Factor on raw scores inside logistic functions.
    square : bool
        Whether the model predicts signed square roots ("regression sqrt").
    """

    name: str
    sigmoid: float = 1.0
    square: bool = False

    @property
    def classifies(self):
        """Whether predictions are probabilities of classes."""
        return self.name in ("binary", "multiclass", "multiclassova")

    def predictions(self, raw):
        """Return what LightGBM's ``predict`` returns for raw scores of shape (..., n_outputs), in the same shape."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.name in ("binary", "multiclassova", "cross_entropy"):
                return expit(self.sigmoid * raw)
            if self.name == "multiclass":
                odds = np.exp(raw - raw.max(axis=-1, keepdims=True))
                return odds / np.add.accumulate(odds, axis=-1)[..., -1:]
            if self.name in _LOG_LINKS:
                return np.exp(raw)
            if self.name == "cross_entropy_lambda":
                return np.log1p(np.exp(raw))
            return np.sign(raw) * raw * raw if self.square else raw


def parse_objective(text, n_outputs):
    """Return the Objective of a line.

    Parameters
    ----------
    text : str
        A name and its options, "custom" where the file has no such line.
    n_outputs : int
        Trees of an iteration.

    Raises
    ------
    ValueError
        If name or options are unknown, incomplete or contradict the number of outputs; without the line.
    """
    words = text.split() or [""]
    name, options = _NAMES.get(words[0]), words[1:]
    if name is None:
        raise ValueError(f"objective={words[0][:60]!a} is unknown.")
    sigmoid, square, n_classes = None, False, None
    for option in options:
        if name in ("binary", "multiclassova") and sigmoid is None and (match := _SIGMOID.fullmatch(option)):
            sigmoid = _positive(match[1])
        elif name in ("multiclass", "multiclassova") and n_classes is None and (match := _CLASSES.fullmatch(option)):
            n_classes = int(match[1])
        elif name == "regression" and option == "sqrt":
            square = True
        else:
            raise ValueError(f"objective={name} does not go with the option {option[:60]!a}.")
    if name in ("binary", "multiclassova") and sigmoid is None:
        raise ValueError(f"objective={name} needs the option sigmoid.")
    if name in ("multiclass", "multiclassova"):
        if n_classes != n_outputs:
            raise ValueError(f"objective={name} has the option num_class:{n_classes}, but num_class is {n_outputs}.")
    elif n_outputs != 1 and name != "custom":
        raise ValueError(f"objective={name} has one output, but num_class is {n_outputs}.")
    return Objective(name, 1.0 if sigmoid is None else sigmoid, square)


def _positive(text):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"sigmoid must be a positive number, got {text!a}.")
    return value
