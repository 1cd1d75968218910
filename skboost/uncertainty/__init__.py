"""Uncertainty of any estimator: ensembles, virtual and real, and calibrated intervals."""

from skboost.uncertainty._virtual_ensemble import VirtualEnsembleUncertainty

__all__ = ["VirtualEnsembleUncertainty"]
