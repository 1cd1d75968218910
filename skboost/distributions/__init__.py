"""Predicted probability distributions: one per row, as arrays of parameters."""

from skboost.distributions._continuous import Gamma, Laplace, LogNormal, Normal
from skboost.distributions._counts import NegativeBinomial, Poisson
from skboost.distributions._mixture import Mixture

__all__ = ["Gamma", "Laplace", "LogNormal", "Mixture", "NegativeBinomial", "Normal", "Poisson"]
