"""From ``n_jobs`` and the size of the work to one thread count.

The kernels take a thread count as a plain integer and never ask where it came from. Everything that decides it is here:
what ``n_jobs`` means, and how much work a thread must have to be worth waking.
"""

import os
from functools import cache

import joblib

from skboost._engine import threads

# About 0.1 ms of histogram work: below it a thread costs more than it brings.
UPDATES_PER_THREAD = 100_000


def effective_n_threads(n_jobs=None):
    """Return the number of threads that ``n_jobs`` asks for.

    Parameters
    ----------
    n_jobs : int or None, default=None
        None is the default of OpenMP, which ``threadpoolctl`` and ``OMP_NUM_THREADS`` set, and, unless
        ``OMP_NUM_THREADS`` is set, at most one thread per physical core that this process may use. A positive number
        is taken as it is. A negative number counts down from the value of None as in joblib: -1 is all of them, -2 all
        but one, and never less than one.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    ValueError
        If ``n_jobs`` is 0.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 has no meaning; use None, a positive number, or a negative one as in joblib.")
    if not threads.has_openmp():
        return 1
    if n_jobs is None:
        return default_n_threads()
    if n_jobs < 0:
        return max(1, default_n_threads() + 1 + int(n_jobs))
    return int(n_jobs)


def default_n_threads():
    """Return the thread count of ``n_jobs=None``."""
    if os.environ.get("OMP_NUM_THREADS"):
        # A user who sets the variable may exceed the cores on purpose.
        return threads.max_threads()
    return min(threads.max_threads(), _physical_cores())


def cap_threads(n_threads, work):
    """Return at most ``n_threads``, and no more than the work feeds.

    Parameters
    ----------
    n_threads : int
        Upper limit, from :func:`effective_n_threads`.
    work : int
        Size of the work in histogram updates, rows times features.

    Returns
    -------
    int
        1 below ``UPDATES_PER_THREAD`` updates, so that small fits open no parallel region, then one more for each
        further ``UPDATES_PER_THREAD``.
    """
    return max(1, min(n_threads, 1 + work // UPDATES_PER_THREAD))


@cache
def _physical_cores():
    """Return the physical cores this process may use, affinity and container limits included (slow to ask)."""
    return joblib.cpu_count(only_physical_cores=True)
