"""Losses by name."""

from skboost._losses._classes import BinaryLogLoss, MultinomialLogLoss
from skboost._losses._distributions import (
    GammaDistribution,
    Laplace,
    LogNormal,
    NegativeBinomial,
    Normal,
    PoissonDistribution,
)
from skboost._losses._gaussian import Gaussian
from skboost._losses._location import AbsoluteError, Expectile, Huber, PseudoHuber, Quantile, SquaredError
from skboost._losses._log_link import Gamma, Poisson, Tweedie
from skboost._losses._survival import AcceleratedFailureTime, Cox

REGRESSION = {
    "squared_error": SquaredError,
    "absolute_error": AbsoluteError,
    "huber": Huber,
    "pseudo_huber": PseudoHuber,
    "quantile": Quantile,
    "expectile": Expectile,
    "poisson": Poisson,
    "gamma": Gamma,
    "tweedie": Tweedie,
    "gaussian": Gaussian,
    "normal": Normal,
    "lognormal": LogNormal,
    "laplace": Laplace,
    "gamma_distribution": GammaDistribution,
    "poisson_distribution": PoissonDistribution,
    "negative_binomial": NegativeBinomial,
    "cox": Cox,
    "aft": AcceleratedFailureTime,
}


def make_loss(name, n_classes=None, **options):
    """Return the loss of a name.

    Parameters
    ----------
    name : str
        Value of the estimators' parameter ``loss``: a key of `REGRESSION`, or "log_loss".
    n_classes : int, default=None
        Number of classes, at least 2; for "log_loss" only.
    **options : dict
        Constants of the loss, arguments of its class.

    Returns
    -------
    Loss
    """
    if name == "log_loss":
        if n_classes is None or n_classes < 2:
            raise ValueError(f"loss='log_loss' needs at least 2 classes, got {n_classes}.")
        return BinaryLogLoss() if n_classes == 2 else MultinomialLogLoss(n_classes)
    if name not in REGRESSION:
        raise ValueError(f"loss must be one of {[*REGRESSION, 'log_loss']}, got {name!r}.")
    if n_classes is not None:
        raise ValueError(f"loss={name!r} knows no classes.")
    return REGRESSION[name](**options)
