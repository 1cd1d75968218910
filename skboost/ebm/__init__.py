"""Explainable boosting machines: additive models of shape functions."""

from skboost.ebm._estimators import EBMClassifier, EBMRegressor
from skboost.ebm._shapes import Axis, TermShape

__all__ = ["Axis", "EBMClassifier", "EBMRegressor", "TermShape"]
