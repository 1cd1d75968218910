"""Gaussian processes that say how sure they are of a class, and Gaussian posteriors over the leaves of boosters."""

from skboost.gaussian_process._estimators import LaplaceGPClassifier
from skboost.gaussian_process._leaf_laplace import LeafLaplaceUncertainty

__all__ = ["LaplaceGPClassifier", "LeafLaplaceUncertainty"]
