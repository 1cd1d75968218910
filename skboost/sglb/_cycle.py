"""Cyclical schedules of the chain: the scale of the gradients, the masks of the exploration, the ends of the cycles.

A cycle starts with gradients scaled up, so that the chain leaves the mode it is in, and ends at the scale of the plain
chain, where its last state is a sample. Source: Tan, Huertas and Zhao, "Efficient and Effective Uncertainty
Quantification in Gradient Boosting via Cyclical Gradient MCMC", CEUR Workshop Proceedings vol. 3381, 2023.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np

from skboost._engine import sampling
from skboost._random import STREAM_MASK, STREAM_SUBSAMPLE

# Values that say nothing, of the parameters that need schedule="cyclical".
CYCLE_DEFAULTS = {
    "cycle_length": 50,
    "gradient_scale_max": 10.0,
    "gradient_scale_min": 1.0,
    "exploration_fraction": 0.8,
    "bootstrap_fraction": None,
    "schedule_form": "clamp",
}
# Steps of this size times the curvature no longer settle; from the other on they overshoot.
UNSTABLE_STEP = 2.0
OVERSHOOTING_STEP = 1.0


@dataclass(frozen=True)
class Cycle:
    """A cyclical schedule; names as in the estimators.

    Attributes
    ----------
    form : {"clamp", "affine"}
    exploration : float
        Share of a cycle in which masks act; without effect when `bootstrap` is None.
    bootstrap : float or None
        Probability of a copy to keep its gradient, None without masks.
    """

    length: int
    scale_max: float
    scale_min: float
    form: str
    exploration: float
    bootstrap: float | None

    def gradient_scale(self, iteration):
        """Return the factor on the gradients of an iteration, counted from 0.

        It is rounded to single precision, that of the gradients, where the last bit of a cosine has no say.
        """
        wave = 0.5 * (1.0 + math.cos(math.pi * (iteration % self.length) / self.length))
        if self.form == "clamp":
            return float(np.float32(max(self.scale_max * wave, self.scale_min)))
        return float(np.float32(self.scale_min + (self.scale_max - self.scale_min) * wave))

    def masked(self, iteration):
        """Return whether a mask acts in an iteration."""
        return self.bootstrap is not None and iteration % self.length / self.length < self.exploration


def resolve_cycle(params):
    """Return the Cycle that the parameters ask for, None for a constant schedule; `check_cycle` has accepted them."""
    if params.schedule == "constant":
        return None
    return Cycle(
        length=int(params.cycle_length),
        scale_max=float(params.gradient_scale_max),
        scale_min=float(params.gradient_scale_min),
        form=params.schedule_form,
        exploration=float(params.exploration_fraction),
        bootstrap=None if params.bootstrap_fraction is None else float(params.bootstrap_fraction),
    )


def check_cycle(params):
    """Raise ValueError for parameters of the schedule that contradict each other."""
    if params.schedule == "constant":
        for name, default in CYCLE_DEFAULTS.items():
            value = getattr(params, name)
            if value != default:
                raise ValueError(f"{name}={value!r} needs schedule='cyclical', got schedule='constant'.")
        return
    highest, lowest = params.gradient_scale_max, params.gradient_scale_min
    if highest < lowest:
        raise ValueError(f"gradient_scale_max={highest!r} must be at least gradient_scale_min={lowest!r}.")
    exploration = params.exploration_fraction
    if params.bootstrap_fraction is None and exploration != CYCLE_DEFAULTS["exploration_fraction"]:
        raise ValueError(
            f"exploration_fraction={exploration!r} says how long masks act; it needs bootstrap_fraction, got None."
        )
    if params.early_stopping and params.n_estimators < params.cycle_length:
        raise ValueError(
            "early_stopping=True with schedule='cyclical' scores the ends of cycles, so n_estimators must be at least "
            f"cycle_length={params.cycle_length}, got {params.n_estimators}."
        )


def check_step(cycle, rules, loss):
    """Raise ValueError where the longest step of a cycle cannot settle, and warn where it overshoots.

    Parameters
    ----------
    cycle : Cycle
    rules : TreeRules
    loss : Loss
        Bound to the target.
    """
    curvature = step_curvature(loss, rules.newton)
    step = cycle.scale_max * rules.learning_rate * curvature
    what = (
        f"gradient_scale_max={cycle.scale_max:g} times learning_rate={rules.learning_rate:g} times the curvature "
        f"{curvature:g} of loss={loss.name!r} is {step:g}"
    )
    if step >= UNSTABLE_STEP:
        raise ValueError(f"{what}; from {UNSTABLE_STEP:g} on the chain does not settle, so reduce one of the two.")
    if step > OVERSHOOTING_STEP:
        warnings.warn(f"{what}; above {OVERSHOOTING_STEP:g} its steps overshoot.", UserWarning, stacklevel=6)


def step_curvature(loss, newton):
    """Return the second derivative of a loss over the denominator of a leaf.

    It is 1 for squared error and for any Newton leaf, at most 1/4 for two classes, and tends to 1/2 for many classes at
    equal shares. Natural gradients make it 1 for "gaussian". It has no bound for "poisson": at the base score, where
    the chain starts, it is 1.
    """
    if newton or loss.name != "log_loss":
        return 1.0
    return 0.25 if loss.n_outputs == 1 else 0.5


# ---- masks -----------------------------------------------------------------------------------------------------------


class CopyMasks:
    """Masks of copies of rows: one per cycle, drawn by content; no class vanishes from a mask.

    Each copy of a row keeps its gradient with probability `fraction`, by a hash of (seed, stream, cycle, content of the
    row, copy number) below a limit. A class whose copies all lie above the limit keeps the one of the smallest hash;
    regression counts as one class.

    Parameters
    ----------
    fraction : float
        Probability, in (0, 1).
    seed : int
    copies : tuple of arrays
        keys, first, n_copies of `skboost._sampling.copy_numbers`.
    classes : ndarray of shape (n_samples,) or None
        Class of each row.
    weight : ndarray of shape (n_samples,) or None
        Weight of each row in the loss.
    units, counts : ndarray of shape (n_samples,) or None
        Structure weights on the grid of the engine, None for ones, and numbers of copies of fractional weight, None
        where there are none.
    """

    def __init__(self, fraction, seed, copies, classes, weight, units, counts):
        self.limit, self.seed, self.copies = _limit(fraction), seed, copies
        self.n_copies = copies[2]
        one_each = self.n_copies.min() == self.n_copies.max() == 1
        self.row_of_copy = None if one_each else np.repeat(np.arange(len(self.n_copies)), self.n_copies)
        self.classes = classes
        if classes is not None and not one_each:
            self.classes = classes[self.row_of_copy]
        self.copy_weight = None if weight is None else weight / self.n_copies
        self.units, self.counts = units, counts
        self._cycle, self._kept, self._mask = None, None, None

    def __call__(self, cycle, iteration, subsample=1.0):
        """Return the mask of an iteration in a cycle, both counted from 0, as the engine takes it.

        With `subsample` below 1 the structure of the tree sees only the copies drawn with that probability.
        """
        if cycle != self._cycle:
            self._kept = self._draw(cycle)
            kept = self._per_row(self._kept)
            self._cycle, self._mask = cycle, self._as_arrays(kept, kept)
        if subsample >= 1:
            return self._mask
        drawn = sampling.copy_hashes(self.seed, STREAM_SUBSAMPLE, iteration, *self.copies) < _limit(subsample)
        return self._as_arrays(self._mask["kept"], self._per_row(self._kept & drawn))

    def _draw(self, cycle):
        """Return which copies keep their gradients."""
        hashes = sampling.copy_hashes(self.seed, STREAM_MASK, cycle, *self.copies)
        kept = hashes < self.limit
        if self.classes is None:
            if not kept.any():
                kept[np.argmin(hashes)] = True
            return kept
        for label in np.setdiff1d(self.classes, self.classes[kept]):
            members = np.flatnonzero(self.classes == label)
            kept[members[np.argmin(hashes[members])]] = True
        return kept

    def _per_row(self, kept):
        if self.row_of_copy is None:
            return kept.astype(np.uint32)
        return np.bincount(self.row_of_copy[kept], minlength=len(self.n_copies)).astype(np.uint32)

    def _as_arrays(self, kept, in_structure):
        share = in_structure / self.n_copies
        units, counts = in_structure, None
        if self.units is not None:
            units = np.rint(self.units * share).astype(np.uint32)
        if self.counts is not None:
            counts = np.rint(self.counts * share).astype(np.uint32)
        return {"kept": kept, "copy_weight": self.copy_weight, "units": units, "counts": counts}


def _limit(fraction):
    return np.uint64(int(fraction * 2.0**64))
