"""Text models of LightGBM, read and written."""

from skboost.lightgbm._dump import dump, dumps
from skboost.lightgbm._load import load, loads
from skboost.lightgbm._models import LoadedClassifier, LoadedRegressor

__all__ = [
    "LoadedClassifier",
    "LoadedRegressor",
    "dump",
    "dumps",
    "load",
    "loads",
]
