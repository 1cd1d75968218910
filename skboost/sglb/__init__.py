"""Stochastic gradient Langevin boosting."""

from skboost.sglb._estimators import SGLBClassifier, SGLBRegressor

__all__ = ["SGLBClassifier", "SGLBRegressor"]
