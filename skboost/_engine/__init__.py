"""Compiled kernels and growth loops.

Arrays in, arrays out, the GIL released. Nothing here imports scikit-learn or another module of skboost outside this
package, and nothing here knows what an estimator is.
"""
