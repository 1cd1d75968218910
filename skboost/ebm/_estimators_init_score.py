"""Initial scores: arrays of raw scores, or what another fitted model predicts, taken to the scale of raw scores."""

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

# Probabilities of a model may be 0 or 1, where the raw score would be infinite.
LEAST_PROBABILITY = 1e-15


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
    return np.ascontiguousarray(scores.reshape(n_rows, n_outputs).T)


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
