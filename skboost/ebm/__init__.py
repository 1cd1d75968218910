"""Explainable boosting machines: additive models of shape functions."""

__all__ = []
