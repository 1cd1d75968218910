"""Initial scores: arrays of raw scores, or what another fitted model predicts, taken to the scale of raw scores."""

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skboost._losses import LARGEST_TARGET, LOG_MEAN_MAX, LOG_ODDS_MAX

# Probabilities of a model may be 0 or 1, where the raw score would be infinite.
LEAST_PROBABILITY = 1e-15
# Scores of all classes may be shifted by this much, and keep ten digits.
LARGEST_SHIFT = 1e6


def resolve_init_score(init_score, X, n_rows, n_outputs, link, classes=None):
    """Return initial scores as raw scores.

    Parameters
    ----------
    init_score : array-like of shape (n_rows,) or (n_rows, n_classes), fitted estimator or None
        Raw scores, or a model: a classifier gives the link of ``predict_proba`` (``decision_function`` as it is if it
        has none), a regressor the link of ``predict``.
    X : array-like of shape (n_rows, n_features)
        Rows as passed by the user.
    n_rows, n_outputs : int
        Shape of the scores.
    link : {"identity", "log", "logit", "mlogit"}
        Link of the loss.
    classes : ndarray of shape (n_classes,), default=None
        Class labels of a classifier.

    Returns
    -------
    ndarray of shape (n_outputs, n_rows) or None
        float64 scores, contiguous; None for None.

    Raises
    ------
    ValueError
        If the scores have another shape, are not finite or too large: beyond 1e150 (identity, as targets), 30 (log,
        where means leave the range 1e-13 to 1e13 of targets) or 35 (logit, probabilities of 1e-15, beyond which the
        loss is flat). With three or more classes 35 bounds the difference from the largest score of the row, since a
        shift of all classes changes no probability, and 1e6 the shift.
    TypeError
        If `init_score` is a class instead of a model.
    """
    if init_score is None:
        return None
    model = hasattr(init_score, "predict")
    scores = _scores_of(init_score, X, link, classes) if model else init_score
    scores = check_array(scores, dtype=np.float64, ensure_2d=False, input_name="init_score")
    if scores.ndim == 2 and n_outputs == 1 and scores.shape[1] == 1:
        scores = scores[:, 0]
    wanted = (n_rows,) if n_outputs == 1 else (n_rows, n_outputs)
    if scores.shape != wanted:
        source = f"the model in init_score gives scores of shape {scores.shape}" if model else f"got {scores.shape}"
        raise ValueError(f"init_score must have the shape {wanted}: one raw score per row and output; {source}.")
    _check_size(scores, link)
    return np.ascontiguousarray(scores.reshape(n_rows, n_outputs).T)


def _check_size(scores, link):
    """Raise ValueError for scores beyond what the loss can tell apart."""
    if link == "mlogit":
        _refuse_beyond(LARGEST_SHIFT, scores.max(axis=1), "the largest score of each row", "subtract it from the row")
        behind = scores.max(axis=1, keepdims=True) - scores
        what = "the difference from the largest score of the row"
        _refuse_beyond(LOG_ODDS_MAX, behind, what, "probabilities below 1e-15 are as good as 0; clip the scores")
    elif link == "logit":
        remedy = "probabilities beyond 1e-15 are as good as 0 or 1; clip the log-odds"
        _refuse_beyond(LOG_ODDS_MAX, scores, "the log-odds", remedy)
    elif link == "log":
        remedy = "means must lie between 1e-13 and 1e13; change the unit of y or of the exposure"
        _refuse_beyond(LOG_MEAN_MAX, scores, "the logarithm of the mean", remedy)
    else:
        _refuse_beyond(LARGEST_TARGET, scores, "the score", "change the unit of y")


def _refuse_beyond(limit, values, what, remedy):
    if (size := float(np.abs(values).max(initial=0.0))) > limit:
        shown = f"{limit:g}".replace("+", "")
        raise ValueError(
            f"init_score must not be that large: {what} is at most {shown} in size, got {size:g}; {remedy}."
        )


def _scores_of(model, X, link, classes):
    if isinstance(model, type):
        raise TypeError(f"init_score must be an array or a fitted model, got the class {model.__name__}.")
    check_is_fitted(model)
    if link in ("identity", "log"):
        predictions = np.asarray(model.predict(X), dtype=np.float64)
        if link == "identity":
            return predictions
        if not np.all(predictions > 0):
            raise ValueError(
                "The model in init_score predicts values that are not positive, which have no logarithm; pass its raw "
                "scores as an array instead."
            )
        return np.log(predictions)
    known = np.asarray(getattr(model, "classes_", []))
    if not np.array_equal(known, classes):
        raise ValueError(f"The model in init_score must know the classes {classes.tolist()}, it has {known.tolist()}.")
    if not hasattr(model, "predict_proba"):
        return model.decision_function(X)
    log_proba = np.log(np.maximum(model.predict_proba(X), LEAST_PROBABILITY))
    if link == "logit":
        return log_proba[:, 1] - log_proba[:, 0]
    return log_proba - log_proba.mean(axis=1, keepdims=True)
