"""Which family of models over leaves an estimator belongs to, and which estimators are refused."""

from sklearn.frozen import FrozenEstimator

from skboost.gaussian_process._leaf_models import LOSSES, ForestLeaves, TermCells
from skboost.gaussian_process._leaf_text_models import check_text, text_model


def leaf_model(estimator, n_trees):
    """Return the LeafModel of a fitted estimator.

    Parameters
    ----------
    estimator : estimator
        Fitted booster.
    n_trees : int or None
        Only so many trees, the last ones; None takes all.

    Returns
    -------
    LeafModel

    Raises
    ------
    ValueError
        If the estimator is of no known family, or `n_trees` does not go with it.
    """
    if hasattr(estimator, "_parsed"):
        return text_model(estimator, n_trees)
    if hasattr(estimator, "_forest"):
        return ForestLeaves(estimator, n_trees)
    if hasattr(estimator, "term_features_") and hasattr(estimator, "bin_weights_"):
        if n_trees is not None:
            raise ValueError(
                f"n_trees={n_trees} does not go with estimator={type(estimator).__name__}, whose terms are sums over "
                "all its trees; use n_trees=None."
            )
        return TermCells(estimator)
    raise ValueError(
        f"estimator={type(estimator).__name__} is no booster whose leaves are known here: SGLBRegressor, "
        "SGLBClassifier, EBMRegressor, EBMClassifier, or a model that skboost.lightgbm.load returns."
    )


def thawed(estimator):
    """Return the estimator inside of frozen ones."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def check_loss(estimator):
    """Raise ValueError for a loss without the curvature that a Gaussian posterior takes."""
    if hasattr(estimator, "_parsed"):
        check_text(estimator)
        return
    loss = getattr(estimator, "loss", None)
    if loss not in LOSSES:
        raise ValueError(
            f"estimator={type(estimator).__name__} has loss={loss!r}, but leaf posteriors are known for "
            f"loss={LOSSES[0]!r} and loss={LOSSES[1]!r} only."
        )
    if getattr(estimator, "class_weight", None) is not None:
        raise ValueError(
            f"estimator={type(estimator).__name__} has class_weight={estimator.class_weight!r}, which changes what a "
            "row counts for; fit it with class_weight=None and sample weights, and give these to fit as well."
        )
