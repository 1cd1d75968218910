"""Measures of what uncertainties are good for, of how well risks order times, and of rankings."""

from skboost._ndcg import ndcg_score
from skboost._retention import (
    f1_retention_auc,
    f1_retention_curve,
    prediction_rejection_ratio,
    retention_auc,
    retention_curve,
)
from skboost._survival import concordance_index

__all__ = [
    "concordance_index",
    "f1_retention_auc",
    "f1_retention_curve",
    "ndcg_score",
    "prediction_rejection_ratio",
    "retention_auc",
    "retention_curve",
]
