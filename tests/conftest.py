"""Fixtures that every test may use."""

import os

# Waiting threads that spin make a shared machine crawl; read by OpenMP when it is loaded, so set before any import.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest
from threadpoolctl import threadpool_limits

import skboost

# At most this many threads in a test unless it asks for a number itself.
THREAD_CAP = 2
SEEDS_VARIABLE = "SKBOOST_TEST_SEEDS"


def chosen_seeds():
    """Return the seeds of this run: ``SKBOOST_TEST_SEEDS`` is a number, a range ``0-99``, or unset for the seed 0."""
    text = os.environ.get(SEEDS_VARIABLE, "0")
    first, _, last = text.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))
    if not seeds or not 0 <= seeds[0] <= seeds[-1] <= 99:
        raise pytest.UsageError(f"{SEEDS_VARIABLE} must be a number or a range within 0-99, got {text!r}")
    return seeds


def pytest_report_header():
    return f"skboost {skboost.__version__} from {os.path.dirname(skboost.__file__)}"


@pytest.fixture(params=chosen_seeds())
def seed(request):
    """One of the chosen seeds; a test that uses it must pass for every seed from 0 to 99."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def thread_cap():
    """Keep OpenMP and BLAS to a few threads, shared between the workers of a parallel test run."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    limit = max(1, THREAD_CAP // workers)
    with threadpool_limits(limits=limit):
        yield limit


@pytest.fixture
def pyplot():
    """``matplotlib.pyplot`` without a screen; the test is skipped without matplotlib, figures are closed afterwards."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg", force=True)
    from matplotlib import pyplot

    pyplot.close("all")
    yield pyplot
    pyplot.close("all")
