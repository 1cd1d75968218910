"""What shifts.py measures: decompositions, detection, selective prediction. ``python -m doctest`` runs the examples."""

from dataclasses import dataclass

import numpy as np
from scipy.special import entr, kl_div
from sklearn.metrics import roc_auc_score

# Largest error of an acceptable prediction, in standard deviations of the target.
ACCEPTABLE = 0.5


@dataclass
class Scores:
    """What a method says of the test rows; None where it says nothing.

    ``mean`` are expected values or probabilities of classes, of the members together; ``prediction`` those of the
    model's own predict; ``spread`` variances of the target.
    """

    knowledge: np.ndarray
    fit_seconds: float
    predict_seconds: float
    mean: np.ndarray | None = None
    prediction: np.ndarray | None = None
    total: np.ndarray | None = None
    spread: np.ndarray | None = None
    support: np.ndarray | None = None
    members_knowledge: np.ndarray | None = None


def decompose(members):
    """Return (mean, knowledge, total) of members of shape (n_members, n) or, probabilities, (n_members, n, n_classes).

    >>> decompose(np.array([[1.0], [2.0], [3.0], [4.0]]))
    (array([2.5]), array([1.25]), None)
    >>> mean, knowledge, total = decompose(np.array([[[0.9, 0.1]], [[0.1, 0.9]]]))
    >>> knowledge.round(6), total.round(6)
    (array([0.368064]), array([0.693147]))
    """
    mean = members.mean(axis=0)
    if members.ndim == 2:
        return mean, members.var(axis=0), None
    # Every term of kl_div is positive, and they add up to p log(p / mean).
    knowledge = kl_div(members, mean).sum(axis=2).mean(axis=0)
    return mean, knowledge, knowledge + entr(members).sum(axis=2).mean(axis=0)


def by_rank(values, score):
    """Return values in increasing order of score; rows of equal score share their mean.

    >>> by_rank(np.array([3.0, 1.0, 0.0]), np.array([2.0, 1.0, 1.0]))
    array([0.5, 0.5, 3. ])
    """
    group, size = np.unique(score, return_inverse=True, return_counts=True)[1:]
    return np.repeat(np.bincount(group, values) / size, size)


def retention_area(errors, score):
    """Return the area under mean error against share of rows kept, the others being answered without error.

    >>> retention_area(np.array([0.0, 0, 1, 1]), np.array([1.0, 2, 3, 4]))
    0.125
    """
    curve = np.concatenate([[0.0], np.cumsum(by_rank(errors, score)) / len(errors)])
    return float(np.trapezoid(curve, dx=1 / len(errors)))


def rejection_ratio(errors, score):
    """Return the gain of the score over a random order, as share of the gain of the order by error.

    >>> rejection_ratio(np.array([0.0, 0, 1, 1]), np.array([1.0, 2, 3, 4]))
    1.0
    """
    chance, best = errors.mean() / 2, retention_area(errors, errors)
    return float((chance - retention_area(errors, score)) / (chance - best)) if chance > best else None


def f1_area(good, score):
    """Return the area under F1 of "kept rows are good" against share of rows kept.

    >>> round(f1_area(np.array([1.0, 1, 0, 0]), np.array([1.0, 2, 3, 4])), 6)
    0.7
    """
    hits = np.cumsum(by_rank(good, score))
    curve = 2 * hits / (np.arange(1, len(good) + 1) + good.sum())
    return float(np.trapezoid(np.concatenate([[0.0], curve]), dx=1 / len(good)))


def loss_of(parts, prediction, rows):
    """Return root mean squared error or log loss over some test rows."""
    y, prediction = parts.y_test[rows], prediction[rows]
    if parts.task == "regression":
        return float(np.sqrt(np.mean((y - prediction) ** 2)))
    chosen = prediction[np.arange(len(y)), y]
    return float(-np.log(np.maximum(chosen, np.finfo(np.float64).tiny)).mean())


def measure(parts, scores):
    """Return the metrics of one method on one case as a dict of numbers; those that do not apply are left out."""
    for name, values in vars(scores).items():
        if values is not None and not np.isfinite(values).all():
            raise ValueError(f"{name} has values that are not finite")
    shifted, inside = parts.shifted, ~parts.shifted
    ranked = {"auc": scores.knowledge, "auc_members": scores.members_knowledge, "auc_total": scores.total}
    ranked["auc_support"] = None if scores.support is None else 1 - scores.support
    found = {key: float(roc_auc_score(shifted, values)) for key, values in ranked.items() if values is not None}
    level_in, level_out = (float(scores.knowledge[rows].mean()) for rows in (inside, shifted))
    found |= {"knowledge_in": level_in, "knowledge_out": level_out}
    if level_in > 0:
        found["ratio"] = level_out / level_in
    if scores.support is not None:
        found["support_in"], found["support_out"] = (float(scores.support[rows].mean()) for rows in (inside, shifted))
    found |= {"fit_seconds": scores.fit_seconds, "predict_seconds": scores.predict_seconds}
    return found | (quality(parts, scores) | selection(parts, scores) if scores.mean is not None else {})


def quality(parts, scores):
    """Return the metrics of the predictions within the domain, and the error on shifted rows."""
    inside = ~parts.shifted
    found = {"loss": loss_of(parts, scores.mean, inside), "loss_predict": loss_of(parts, scores.prediction, inside)}
    error = errors_of(parts, scores.mean)
    found |= {"error_in": float(error[inside].mean()), "error_out": float(error[parts.shifted].mean())}
    if parts.task == "classification":
        return found | {"accuracy": 1 - found["error_in"], "nll": found["loss"]}
    if scores.spread is not None:
        nll = 0.5 * (np.log(2 * np.pi * scores.spread[inside]) + error[inside] / scores.spread[inside])
        found["nll"] = float(nll.mean())
    return found


def errors_of(parts, mean):
    """Return squared errors, or 1 for a wrong class."""
    if parts.task == "regression":
        return (parts.y_test - mean) ** 2
    return (parts.y_test != mean.argmax(axis=1)).astype(float)


def selection(parts, scores):
    """Return the metrics of rejecting test rows, of the domain and shifted, by knowledge and by total uncertainty."""
    errors = errors_of(parts, scores.mean)
    good = (errors <= (ACCEPTABLE**2 if parts.task == "regression" else 0)).astype(float)
    found = {}
    for suffix, score in (("", scores.knowledge), ("_total", scores.total)):
        if score is not None:
            found["retention" + suffix] = retention_area(errors, score)
            found["rejection_ratio" + suffix] = rejection_ratio(errors, score)
            found["f1" + suffix] = f1_area(good, score)
    return {key: value for key, value in found.items() if value is not None}
