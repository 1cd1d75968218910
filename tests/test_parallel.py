"""n_jobs becomes a thread count; the work limits it."""

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from skboost import _parallel
from skboost._engine import threads
from skboost._parallel import UPDATES_PER_THREAD, cap_threads, effective_n_threads


@pytest.fixture
def pool(monkeypatch):
    """Pretend that OpenMP offers 8 threads and the process 6 physical cores."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(_parallel, "_physical_cores", lambda: 6)
    monkeypatch.setattr(_parallel, "threads", FakeThreads(8))


class FakeThreads:
    """The two answers of the engine, made up."""

    def __init__(self, n_threads, openmp=True):
        self.n_threads = n_threads
        self.openmp = openmp

    def max_threads(self):
        return self.n_threads

    def has_openmp(self):
        return self.openmp


@pytest.mark.parametrize(
    ("n_jobs", "expected"), [(None, 6), (1, 1), (3, 3), (6, 6), (20, 20), (-1, 6), (-2, 5), (-6, 1), (-7, 1), (-50, 1)]
)
def test_meaning_of_n_jobs(pool, n_jobs, expected):
    assert effective_n_threads(n_jobs) == expected


def test_zero_is_refused(pool):
    with pytest.raises(ValueError, match="n_jobs == 0"):
        effective_n_threads(0)


def test_openmp_below_the_cores_is_the_limit(monkeypatch, pool):
    monkeypatch.setattr(_parallel, "threads", FakeThreads(2))
    assert effective_n_threads(None) == 2
    assert effective_n_threads(-2) == 1


def test_the_variable_may_exceed_the_cores(monkeypatch, pool):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert effective_n_threads(None) == 8


def test_one_thread_without_openmp(monkeypatch, pool):
    monkeypatch.setattr(_parallel, "threads", FakeThreads(1, openmp=False))
    assert [effective_n_threads(n_jobs) for n_jobs in (None, 4, -1)] == [1, 1, 1]
    with pytest.raises(ValueError, match="n_jobs == 0"):
        effective_n_threads(0)


@pytest.mark.skipif(not threads.has_openmp(), reason="the engine was built without OpenMP")
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_threadpoolctl_limits_the_engine(monkeypatch, limit):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(_parallel, "_physical_cores", lambda: 64)
    with threadpool_limits(limits=limit):
        assert threads.max_threads() == limit
        assert effective_n_threads(None) == limit


def test_physical_cores_are_those_of_joblib():
    assert _parallel._physical_cores() == joblib.cpu_count(only_physical_cores=True) >= 1


@pytest.mark.parametrize(
    ("n_threads", "work", "expected"),
    [
        (8, 0, 1),
        (8, UPDATES_PER_THREAD - 1, 1),
        (8, UPDATES_PER_THREAD, 2),
        (8, 3 * UPDATES_PER_THREAD - 1, 3),
        (8, 10**12, 8),
        (1, 10**12, 1),
    ],
)
def test_work_caps_the_threads(n_threads, work, expected):
    assert cap_threads(n_threads, work) == expected


def test_counts_are_plain_integers(pool):
    assert type(effective_n_threads(np.int64(3))) is int
    assert type(effective_n_threads(np.int64(-2))) is int
