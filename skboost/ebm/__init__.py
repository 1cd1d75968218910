"""Explainable boosting machines: additive models of shape functions."""
