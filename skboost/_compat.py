"""The only place that names private or version-dependent parts of scikit-learn (1.6 to 1.9)."""

import inspect

import numpy as np
from sklearn.utils import _safe_indexing as take_rows
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    RealNotInt,
    StrOptions,
    validate_parameter_constraints,
    validate_params,
)
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _check_monotonic_cst, _check_sample_weight

__all__ = [
    "HasMethods",
    "Interval",
    "RealNotInt",
    "StrOptions",
    "check_feature_names_in",
    "check_method_params",
    "check_monotonic_cst",
    "check_parameters",
    "check_sample_weight",
    "take_rows",
    "validate_params",
]

# Since 1.9 scikit-learn refuses weights that are all zero unless told otherwise; here the refusal has one wording.
_ALLOW_ALL_ZERO = (
    {"allow_all_zero_weights": True}
    if "allow_all_zero_weights" in inspect.signature(_check_sample_weight).parameters
    else {}
)


def check_parameters(estimator):
    """Raise InvalidParameterError for parameters outside their constraints; NumPy's floats count as floats."""
    params = estimator.get_params(deep=False)
    params = {name: float(value) if isinstance(value, np.floating) else value for name, value in params.items()}
    validate_parameter_constraints(estimator._parameter_constraints, params, caller_name=type(estimator).__name__)


def check_sample_weight(sample_weight, X):
    """Return validated float64 weights of the rows of X.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,), number or None
        Weights, at least 0.
    X : array-like of shape (n_samples, n_features)
        Only its number of rows is used.

    Returns
    -------
    ndarray of shape (n_samples,)
        Weights, all 1 for None.

    Raises
    ------
    ValueError
        If weights are negative, not finite, all zero, or of the wrong shape.
    """
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True, **_ALLOW_ALL_ZERO)
    if not np.any(weights):
        raise ValueError("sample_weight must contain at least one non-zero number: all weights are zero.")
    return weights


def check_monotonic_cst(estimator, monotonic_cst):
    """Return monotonic constraints as int8 of shape (n_features,); the estimator knows its columns already."""
    return np.ascontiguousarray(_check_monotonic_cst(estimator, monotonic_cst), dtype=np.int8)
