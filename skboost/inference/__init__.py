"""Boosting whose limit is known, so that its predictions come with standard errors."""

from skboost.inference._regressor import BoulevardRegressor

__all__ = ["BoulevardRegressor"]
