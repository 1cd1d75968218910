"""What a fit prints: the text of every progress line is here."""

import time

# A line sooner than this after the one before makes the lines sparser.
SECONDS_BETWEEN_LINES = 1.0


class ProgressReporter:
    """Print the progress of a fit to standard output, each line flushed.

    Parameters
    ----------
    name : str
        Who reports, usually the class of the estimator; every line starts with it.
    n_iter : int
        Number of iterations of the finished model.
    verbose : int, default=0
        0 prints nothing; 1 a line at the start and one at the end; 2 also lines in between: every iteration at first,
        then every 2, 5, 10, 20, 50, ... as long as they come faster than one a second.
    first_iter : int, default=0
        Iterations that existed before this fit (warm start).
    clock : callable, default=time.perf_counter
        Returns seconds.
    """

    def __init__(self, name, n_iter, verbose=0, *, first_iter=0, clock=time.perf_counter):
        self.name = name
        self.n_iter = n_iter
        self.verbose = int(verbose)
        self.first_iter = first_iter
        self._clock = clock
        self._started = self._last_line = clock()
        self._step = 1

    def start(self, **facts):
        """Print the line that opens the fit, with ``facts`` such as ``n_rows=100`` as written."""
        self._started = self._last_line = self._clock()
        if self.verbose < 1:
            return
        words = [f"{key}={value}" for key, value in facts.items()]
        iterations = f"iterations {self.first_iter + 1} to {self.n_iter}"
        self._print(", ".join(["start", iterations, *words]))

    def due(self, iteration):
        """Return whether :meth:`update` would print, so that scores nobody reads need not be computed."""
        return self.verbose >= 2 and (iteration % self._step == 0 or iteration == self.n_iter)

    def update(self, iteration, train_score=None, validation_score=None):
        """Report that ``iteration`` iterations are done; higher scores are better."""
        if not self.due(iteration):
            return
        now = self._clock()
        elapsed = now - self._started
        done = max(1, iteration - self.first_iter)
        remaining = elapsed / done * (self.n_iter - iteration)
        words = [f"iteration {iteration:>{len(str(self.n_iter))}}/{self.n_iter}"]
        if train_score is not None:
            words.append(f"train score {train_score:.6g}")
        if validation_score is not None:
            words.append(f"validation score {validation_score:.6g}")
        words += [f"elapsed {_duration(elapsed)}", f"remaining {_duration(remaining)}"]
        self._print(", ".join(words))
        if now - self._last_line < SECONDS_BETWEEN_LINES:
            self._step = _sparser(self._step)
        self._last_line = now

    def finish(self, n_iter=None, note=""):
        """Print the line that closes the fit; ``n_iter`` if it stopped early, ``note`` for the reason."""
        if self.verbose < 1:
            return
        total = self.n_iter if n_iter is None else n_iter
        text = f"end, {total} iterations, {_duration(self._clock() - self._started)}"
        self._print(f"{text}, {note}" if note else text)

    def _print(self, text):
        print(f"[{self.name}] {text}", flush=True)


def _sparser(step):
    """Return the next number of the series 1, 2, 5, 10, 20, 50, ..."""
    return step * 5 // 2 if str(step).startswith("2") else step * 2


def _duration(seconds):
    """Return seconds as text: ``0.42 s``, ``17.3 s``, ``3 min 07 s`` or ``2 h 05 min``."""
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
