"""What OpenMP says about threads: the only door from Python to the runtime that the kernels use."""

from skboost._engine.omp cimport SKB_HAS_OPENMP, skb_max_threads


def max_threads():
    """Return how many threads a parallel region of the calling thread would get (1 without OpenMP)."""
    return skb_max_threads()


def has_openmp():
    """Return whether the engine was compiled with OpenMP."""
    return bool(SKB_HAS_OPENMP)
