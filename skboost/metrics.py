"""Measures of what uncertainties are good for."""

from skboost._retention import (
    f1_retention_auc,
    f1_retention_curve,
    prediction_rejection_ratio,
    retention_auc,
    retention_curve,
)

__all__ = [
    "f1_retention_auc",
    "f1_retention_curve",
    "prediction_rejection_ratio",
    "retention_auc",
    "retention_curve",
]
