"""What a fit of a Gaussian process refuses, and how it reads its rows."""

import numpy as np
from sklearn.gaussian_process.kernels import CompoundKernel
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from skboost import _compat


def check_combinations(estimator):
    """Raise ValueError for parameters that do not go together."""
    if isinstance(estimator.kernel, CompoundKernel):
        raise ValueError("kernel cannot be a CompoundKernel")
    if estimator.approximation == "ep" and estimator.link != "probit":
        raise ValueError(
            f"approximation='ep' needs link='probit', whose moments are known, got link={estimator.link!r}."
        )
    if estimator.optimizer is None and estimator.n_restarts_optimizer > 0:
        raise ValueError(f"n_restarts_optimizer={estimator.n_restarts_optimizer} has no meaning with optimizer=None.")


def check_training_rows(estimator, X, y):
    """Return validated rows and labels."""
    X, y = validate_data(estimator, X, y, **_x_checks(estimator))
    check_classification_targets(y)
    return X, y


def check_rows(estimator, X):
    """Return validated rows for a prediction of a fitted estimator."""
    check_is_fitted(estimator)
    return validate_data(estimator, X, reset=False, **_x_checks(estimator))


def _x_checks(estimator):
    """Kernels on vectors get numbers; kernels on other things get them as they are."""
    vectors = estimator.kernel is None or estimator.kernel.requires_vector_input
    return {"dtype": np.float64} if vectors else {"dtype": None, "ensure_2d": False}


def apply_weights(X, y, sample_weight, approximation):
    """Return rows of positive weight, their labels, and their weights; expectation propagation repeats rows."""
    if sample_weight is None:
        return X, y, None
    weights = _compat.check_sample_weight(sample_weight, X)
    kept = weights > 0
    if not kept.all():
        X, y, weights = X[kept], y[kept], weights[kept]
    if np.all(weights == 1):
        return X, y, None
    if approximation == "laplace":
        return X, y, weights
    if not np.all(weights == np.floor(weights)):
        raise ValueError("sample_weight must be whole numbers with approximation='ep': a weight there is a repetition.")
    return X, y, weights


def encode_classes(y, name):
    """Return the sorted labels and the position of each row's label."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"{name} needs at least two classes, but y has one class only: {classes.tolist()[0]!r}")
    return classes, codes


def check_n_rows(n, max_rows, n_free, name):
    """Raise ValueError if n training rows are more than max_rows, before anything of their square is allocated."""
    if max_rows is None or n <= max_rows:
        return
    gigabytes = (5 + n_free) * 8.0 * n * n / 1e9
    raise ValueError(
        f"{name} needs time in proportion to n^3; got n={n} > max_rows={max_rows} (about {gigabytes:.3g} GB). "
        "Subsample, raise max_rows, or use SGLBClassifier, whose time is in proportion to n."
    )


def check_n_joint(n, max_rows, method):
    """Raise ValueError if a joint covariance of n rows is asked for, more than max_rows."""
    if max_rows is not None and n > max_rows:
        raise ValueError(
            f"{method} needs the joint covariance of all rows; got n={n} > max_rows={max_rows} (about "
            f"{3 * 8.0 * n * n / 1e9:.3g} GB). Ask for fewer rows, or raise max_rows."
        )
