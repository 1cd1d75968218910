"""Gradient boosting that knows what it does not know."""

from skboost._uncertainty import Uncertainty
from skboost._version import __version__
from skboost.ebm import EBMClassifier, EBMRegressor
from skboost.gaussian_process import LaplaceGPClassifier, LeafLaplaceUncertainty
from skboost.inference import BoulevardRegressor
from skboost.sglb import SGLBClassifier, SGLBRanker, SGLBRegressor
from skboost.uncertainty import VirtualEnsembleUncertainty

__all__ = [
    "BoulevardRegressor",
    "EBMClassifier",
    "EBMRegressor",
    "LaplaceGPClassifier",
    "LeafLaplaceUncertainty",
    "SGLBClassifier",
    "SGLBRanker",
    "SGLBRegressor",
    "Uncertainty",
    "VirtualEnsembleUncertainty",
    "__version__",
]
