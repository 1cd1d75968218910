"""What must be unchanged for a fitted chain to go on: a mixture of two fits is never made.

What may change between two fits of a warm start: ``n_estimators`` (upwards), ``n_jobs``, ``verbose``, ``averaging``,
and of early stopping ``n_iter_no_change`` and ``tol``. Everything else must resolve to what it was; what changed is
named.
"""

import hashlib
from dataclasses import dataclass, fields

import numpy as np

from skboost._engine import sampling
from skboost._losses import Loss
from skboost._sampling import row_hashes
from skboost.sglb._chain import TreeRules
from skboost.sglb._cycle import Cycle
from skboost.sglb._schedule import Dynamics

# Rows whose keys are in memory at once.
BLOCK_ROWS = 1 << 16
MOST_COPIES = 2.0**53
# Parameters of the estimators behind the fields, where these differ.
RULE_NAMES = {
    "n_features": "max_features",
    "monotone": "monotonic_cst",
    "groups": "interaction_cst",
    "newton": "leaf_estimation",
    "spread_ties": "the prior cuts (n_prior_cuts, prior_split_rate)",
}
DYNAMICS_NAMES = {
    "temperature": "the noise (posterior_sampling, langevin, diffusion_temperature)",
    "shrink_rate": "the shrinkage (posterior_sampling, model_shrink_rate)",
    "decreasing": "model_shrink_mode",
}
CYCLE_NAMES = {
    "length": "cycle_length",
    "scale_max": "gradient_scale_max",
    "scale_min": "gradient_scale_min",
    "form": "schedule_form",
    "exploration": "exploration_fraction",
    "bootstrap": "bootstrap_fraction",
}


@dataclass(frozen=True, eq=False)
class ChainRecord:
    """What a chain was made from, resolved.

    Attributes
    ----------
    loss : Loss
        Bound to the target.
    base_score : ndarray of shape (n_outputs,)
    classes : ndarray or None
    max_bins : int
    tables : sequence of arrays
        Of the bin mapper.
    category_maps : tuple
    rules : TreeRules
    dynamics : Dynamics
    cycle : Cycle or None
        None for a constant schedule.
    noise_variance : float or ndarray of shape (n_outputs,)
    noise_measured : bool
        Whether it was measured on these rows.
    seed : int
    rows, validation : int or None
        Fingerprints of the training rows and of the rows that early stopping scores.
    held_out : int, float or None
        The `validation_fraction` where rows were held out.
    scoring : tuple or None
        The `scoring` of early stopping, None without.
    """

    loss: Loss
    base_score: np.ndarray
    classes: np.ndarray | None
    max_bins: int
    tables: tuple
    category_maps: tuple
    rules: TreeRules
    dynamics: Dynamics
    cycle: Cycle | None
    noise_variance: float | np.ndarray
    noise_measured: bool
    seed: int
    rows: int
    validation: int | None
    held_out: float | None
    scoring: tuple | None

    @property
    def noise_scales(self):
        """Factors on `sigma` of every output in the noise of rows and of leaves; None for ones."""
        return self.loss.noise_scales(self.noise_variance)

    @property
    def sigma(self):
        """Standard deviation of the Langevin noise on the gradient of one row."""
        variance = self.noise_variance if self.noise_scales is None else 1.0
        return self.dynamics.sigma(self.rules.learning_rate, variance)

    @property
    def empty_variance(self):
        """Prior variance of the step of a leaf without training rows, whose denominator is one row or the penalty.

        Where outputs have scales of their own it is in units of `noise_variance`.
        """
        return (self.rules.learning_rate * self.sigma) ** 2 / max(self.rules.l2_regularization, 1.0)


def check_same_chain(old, new):
    """Raise ValueError, naming all differences, unless the chain of the record `new` may go on from that of `old`."""
    names = list(_changes(old, new))
    if names:
        raise ValueError(
            f"warm_start=True continues the last fit on the same data, but changed: {', '.join(names)}. "
            "Set warm_start=False to start anew."
        )


def _changes(old, new):
    same_loss = old.loss.name == new.loss.name
    same_classes = np.array_equal(old.classes, new.classes)
    same_columns = _same_arrays(old.tables, new.tables) and _same_maps(old.category_maps, new.category_maps)
    same_target = old.loss.same_as(new.loss) and np.array_equal(old.base_score, new.base_score)
    if not same_classes:
        yield "the classes"
    if not same_loss:
        yield "loss"
    if not same_columns:
        same = old.max_bins == new.max_bins
        yield "X, categorical_features or the prior cuts (n_prior_cuts, cut_margin)" if same else "max_bins"
    if old.held_out != new.held_out:
        # Other rows are left to train on then, so that nothing can be said of the target.
        yield "early_stopping or validation_fraction"
    elif same_loss and not same_target:
        yield "y or the weights"
    elif same_columns and same_target and old.rows != new.rows:
        yield "the training rows (X, y or the weights)"
    # Constants that follow from the target say nothing new.
    yield from _changed_fields(old.rules, new.rules, RULE_NAMES, skipped=() if same_target else ("curvature",))
    yield from _changed_fields(
        old.dynamics, new.dynamics, DYNAMICS_NAMES, skipped=() if same_target else ("shrink_rate",)
    )
    if (old.cycle is None) != (new.cycle is None):
        yield "schedule"
    elif old.cycle is not None:
        yield from _changed_fields(old.cycle, new.cycle, CYCLE_NAMES, skipped=())
    if same_target and not np.array_equal(old.noise_variance, new.noise_variance):
        yield "noise_variance"
    if old.seed != new.seed:
        yield "random_state"
    if old.scoring is not None and new.scoring is not None:
        if old.scoring != new.scoring:
            yield "scoring"
        if same_columns and same_target and old.validation != new.validation:
            yield "the validation rows"


def _changed_fields(old, new, names, skipped):
    for field in fields(old):
        if field.name not in skipped and not np.array_equal(getattr(old, field.name), getattr(new, field.name)):
            yield names.get(field.name, field.name)


def check_scores_known(model, monitor):
    """Raise ValueError when early stopping would go on without the scores of the earlier iterations."""
    known = model.train_score_ if monitor.validation is None else model.validation_score_
    if len(known) <= model.n_iter_ // monitor.period:
        raise ValueError(
            "warm_start=True with early_stopping=True continues a fit with early_stopping=True and the same validation "
            "rows only: the scores of its iterations are missing. Set warm_start=False to start anew."
        )


# ---- fingerprints ----------------------------------------------------------------------------------------------------


def rows_fingerprint(rows):
    """Return a number that depends on codes, targets and weights of training rows but not on their order.

    It is a wrapping sum of keys over copies of rows, so that whole-number weights have that of repeated rows.
    """
    copies = rows.weight if rows.leaf_weight is None else rows.leaf_weight
    total = 0
    for part in _blocks(len(rows.y)):
        codes = rows.codes_row[part]
        hashes = row_hashes(codes, len(rows.n_bins)) if rows.hashes is None else rows.hashes[part]
        total += _sum_of_keys(hashes, rows.y[part], _part(rows.weight, part), _part(copies, part))
    return total % 2**64


def validation_fingerprint(codes_col, y, weight, table=None):
    """Return the same of rows that are known column by column; targets may be numbers of rows of a table."""
    n_features, total = len(codes_col), 0
    if table is not None:
        total = int.from_bytes(hashlib.blake2b(table.tobytes(), digest_size=8).digest(), "little")
    for part in _blocks(len(y)):
        codes = np.zeros((len(y[part]), -(-n_features // 8) * 8), dtype=np.uint8)
        codes[:, :n_features] = codes_col[:, part].T
        total += _sum_of_keys(row_hashes(codes, n_features), y[part], _part(weight, part), _part(weight, part))
    return total % 2**64


def _sum_of_keys(hashes, y, weight, copies):
    keys = sampling.combine(hashes, _bits(y))
    if weight is None:
        return int(keys.sum())
    copies = np.where((copies == np.floor(copies)) & (copies < MOST_COPIES), copies, 1.0)
    # The weight of one copy is part of the content unless it is 1.
    keys = np.where(weight == copies, keys, sampling.combine(keys, _bits(weight / copies)))
    return int((keys * copies.astype(np.uint64)).sum())


def _blocks(n_rows):
    return (slice(start, min(start + BLOCK_ROWS, n_rows)) for start in range(0, n_rows, BLOCK_ROWS))


def _part(values, part):
    return None if values is None else values[part]


def _bits(values):
    """Bits of float64 values, -0 written as 0."""
    return np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)


def _same_arrays(one, other):
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _same_maps(one, other):
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if (a is None) != (b is None):
            return False
        if a is not None and not (np.array_equal(a[0], b[0]) and a[1] == b[1]):
            return False
    return True
