"""Stochastic gradient Langevin boosting."""

from skboost.sglb._estimators_classifier import SGLBClassifier
from skboost.sglb._estimators_ranker import SGLBRanker
from skboost.sglb._estimators_regressor import SGLBRegressor

__all__ = ["SGLBClassifier", "SGLBRanker", "SGLBRegressor"]
