"""Bags in threads: who works, who stops whom, what is told meanwhile."""

import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from skboost import _reporting

# A stage returns to Python about this often, to see whether it is to stop.
SECONDS_PER_CHUNK = 0.05
FIRST_CHUNK = 64
SECONDS_BETWEEN_LOOKS = 0.1
STAGES = ("main effects", "pairs")


class Stopped(Exception):
    """Another bag has failed, or the user has interrupted."""


class Progress:
    """What happens while stages run: callbacks, lines of progress, the signal to stop.

    Parameters
    ----------
    name : str
        Who reports.
    n_bags : int
        Number of bags.
    verbose : int, default=0
        1: lines at the start and the end of each stage; 2: also lines in between.
    callback : callable or None, default=None
        Called as ``callback(bag, stage, step, metric)`` after every step, by one thread at a time; a true value ends
        the stage of the bag.
    """

    def __init__(self, name, n_bags, verbose=0, callback=None):
        self.stop = threading.Event()
        self._callback = callback
        self._lock = threading.Lock()
        self._reporter = BagReporter(name, n_bags, verbose)

    def start(self, stage, **facts):
        """Report that a stage begins."""
        self._reporter.start_stage(STAGES[stage], **facts)

    def run(self, loop, bag, stage):
        """Run a stage of a bag to its end.

        Parameters
        ----------
        loop : Stage
            Stage loop of the engine.
        bag, stage : int
            Which one it is.

        Raises
        ------
        Stopped
            If the stage was told to stop.
        """
        chunk = 1 if self._callback is not None else FIRST_CHUNK
        finished, n_called = False, 0
        while not finished:
            started = time.perf_counter()
            finished = loop.run(chunk)
            if self.stop.is_set():
                raise Stopped
            if self._callback is not None:
                if loop.n_steps > n_called:
                    n_called = loop.n_steps
                    if self._call(loop, bag, stage) and not finished:
                        loop.end()
                        finished = True
            elif not finished:
                elapsed = max(time.perf_counter() - started, 1e-6)
                chunk = max(1, min(4 * chunk, int(chunk * SECONDS_PER_CHUNK / elapsed)))
            with self._lock:
                self._reporter.update(bag, loop.n_steps, loop.metric, finished)

    def finish(self, bag, n_steps):
        """Report that a stage of a bag has ended that was not run here."""
        with self._lock:
            self._reporter.update(bag, n_steps, float("nan"), True)

    def _call(self, loop, bag, stage):
        with self._lock:
            return bool(self._callback(bag, stage, loop.n_steps, loop.metric))


class BagReporter(_reporting.ProgressReporter):
    """Progress lines of several bags, numbered from 1."""

    def __init__(self, name, n_bags, verbose=0, clock=time.perf_counter):
        super().__init__(name, n_bags, verbose, clock=clock)
        self._stage, self._n_done = "", 0

    def start_stage(self, stage, **facts):
        """Print the line that opens a stage."""
        self._stage, self._n_done = stage, 0
        self._started = self._last_line = self._clock()
        if self.verbose >= 1:
            words = [f"{key}={value}" for key, value in facts.items()]
            self._print(", ".join([f"start, {stage}", f"{self.n_iter} bags", *words]))

    def update(self, bag, n_steps, metric, finished):
        """Report the state of a bag: at its end, and in between at most once a second."""
        self._n_done += finished
        now = self._clock()
        if self.verbose >= 2 and (finished or now - self._last_line >= 1.0):
            words = [f"{self._stage}, bag {bag + 1}/{self.n_iter}", f"step {n_steps}"]
            if metric == metric:
                words.append(f"validation loss {metric:.6g}")
            words.append(f"elapsed {self._elapsed()}")
            self._print(", ".join([*words, "done"] if finished else words))
            self._last_line = now
        if self.verbose >= 1 and self._n_done == self.n_iter and finished:
            self._print(f"end, {self._stage}, {self._elapsed()}")

    def _elapsed(self):
        return _reporting._duration(self._clock() - self._started)


def for_each_bag(work, n_bags, n_threads, progress):
    """Call ``work(bag)`` for every bag, in threads; the first exception stops all of them and is raised.

    Parameters
    ----------
    work : callable
        Works on one bag; returns nothing.
    n_bags, n_threads : int
        Number of bags and of threads.
    progress : Progress
        Whose signal to stop the work obeys.
    """
    n_threads = min(n_threads, n_bags)
    if n_threads <= 1:
        for bag in range(n_bags):
            work(bag)
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="skboost") as pool:
        futures = [pool.submit(_work_unless_stopped, work, bag, progress.stop) for bag in range(n_bags)]
        try:
            # Short waits: an interrupt of the user reaches the main thread between two of them.
            while wait(futures, SECONDS_BETWEEN_LOOKS, FIRST_EXCEPTION).not_done and not progress.stop.is_set():
                pass
        except BaseException:
            progress.stop.set()
            raise
    errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None and not isinstance(error, Stopped):
            raise error


def _work_unless_stopped(work, bag, stop):
    if stop.is_set():
        raise Stopped
    try:
        work(bag)
    except BaseException:
        stop.set()
        raise
