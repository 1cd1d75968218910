"""Gaussian processes that say how sure they are of a class."""

from skboost.gaussian_process._estimators import LaplaceGPClassifier

__all__ = ["LaplaceGPClassifier"]
