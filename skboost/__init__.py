"""Gradient boosting that knows what it does not know."""

from skboost._version import __version__

__all__ = ["__version__"]
