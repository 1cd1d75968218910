"""Losses. A new one is a class in the file of its family, a kind in ``_engine/losses``, and a line in ``_make``."""

from skboost._losses._base import (
    LARGEST_TARGET,
    LOG_MEAN_MAX,
    LOG_ODDS_MAX,
    LOG_SD_MAX,
    Loss,
    class_weights,
    mean_and_deviation,
    number_targets,
    weighted_mean,
    weighted_quantile,
)
from skboost._losses._classes import BinaryLogLoss, MultiLabelLogLoss, MultinomialLogLoss
from skboost._losses._distributions import (
    GammaDistribution,
    Laplace,
    LogNormal,
    NegativeBinomial,
    Normal,
    PoissonDistribution,
)
from skboost._losses._gaussian import Gaussian
from skboost._losses._intercept import fit_intercept
from skboost._losses._location import (
    AbsoluteError,
    Expectile,
    Huber,
    MultiSquaredError,
    PseudoHuber,
    Quantile,
    SquaredError,
)
from skboost._losses._log_link import Gamma, Poisson, Tweedie
from skboost._losses._make import REGRESSION, make_loss
from skboost._losses._ranking import RANKING, LambdaRank, RankingLoss, XeNDCG
from skboost._losses._survival import (
    DISTRIBUTIONS,
    LARGEST_SCALE,
    SMALLEST_SCALE,
    AcceleratedFailureTime,
    Cox,
    SurvivalLoss,
)

__all__ = [
    "DISTRIBUTIONS",
    "LARGEST_SCALE",
    "LARGEST_TARGET",
    "LOG_MEAN_MAX",
    "LOG_ODDS_MAX",
    "LOG_SD_MAX",
    "RANKING",
    "REGRESSION",
    "SMALLEST_SCALE",
    "AbsoluteError",
    "AcceleratedFailureTime",
    "BinaryLogLoss",
    "Cox",
    "Expectile",
    "Gamma",
    "GammaDistribution",
    "Gaussian",
    "Huber",
    "LambdaRank",
    "Laplace",
    "LogNormal",
    "Loss",
    "MultiLabelLogLoss",
    "MultiSquaredError",
    "MultinomialLogLoss",
    "NegativeBinomial",
    "Normal",
    "Poisson",
    "PoissonDistribution",
    "PseudoHuber",
    "Quantile",
    "RankingLoss",
    "SquaredError",
    "SurvivalLoss",
    "Tweedie",
    "XeNDCG",
    "class_weights",
    "fit_intercept",
    "make_loss",
    "mean_and_deviation",
    "number_targets",
    "weighted_mean",
    "weighted_quantile",
]
