"""Lines of a fit, read from captured output with a clock moved by hand."""

import io

import pytest

from skboost._reporting import ProgressReporter, _duration, _sparser


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def run(verbose, n_iter=100, seconds=0.01, first_iter=0, **update):
    """Report a whole fit whose iterations take ``seconds`` each."""
    clock = Clock()
    reporter = ProgressReporter("Model", n_iter, verbose, first_iter=first_iter, clock=clock)
    reporter.start(n_rows=20)
    for iteration in range(first_iter + 1, n_iter + 1):
        clock.now += seconds
        reporter.update(iteration, **update)
    reporter.finish()


def iterations(text):
    """Return the iteration numbers of the lines in between."""
    return [int(line.split("iteration ")[1].split("/")[0]) for line in text.splitlines() if "remaining" in line]


def test_silent_by_default(capsys):
    run(0)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_one_prints_a_start_and_an_end_line(capsys):
    run(1)
    assert capsys.readouterr().out.splitlines() == [
        "[Model] start, iterations 1 to 100, n_rows=20",
        "[Model] end, 100 iterations, 1.00 s",
    ]


def test_two_prints_lines_that_grow_sparse(capsys):
    run(2, n_iter=130)
    out = capsys.readouterr().out
    assert iterations(out) == [1, 2, 5, 10, 20, 50, 100, 130]
    assert out.count("\n") == 10


def test_slow_iterations_all_get_a_line(capsys):
    run(2, n_iter=7, seconds=1.5)
    assert iterations(capsys.readouterr().out) == [1, 2, 3, 4, 5, 6, 7]


def test_lines_come_at_about_one_a_second(capsys):
    run(2, n_iter=10_000, seconds=1 / 64)
    numbers = iterations(capsys.readouterr().out)
    assert numbers[:7] == [1, 2, 5, 10, 20, 50, 100]
    assert numbers[7:] == list(range(200, 10_001, 200))


def test_line_holds_scores_and_times(capsys):
    run(2, n_iter=4, seconds=2.0, train_score=-0.25, validation_score=-0.5)
    assert capsys.readouterr().out.splitlines()[1] == (
        "[Model] iteration 1/4, train score -0.25, validation score -0.5, elapsed 2.00 s, remaining 6.00 s"
    )


def test_missing_scores_are_left_out(capsys):
    run(2, n_iter=4, seconds=2.0, train_score=-0.25)
    line = capsys.readouterr().out.splitlines()[1]
    assert line == "[Model] iteration 1/4, train score -0.25, elapsed 2.00 s, remaining 6.00 s"


def test_remaining_time_counts_only_iterations_of_this_fit(capsys):
    run(2, n_iter=14, first_iter=10, seconds=2.0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[Model] start, iterations 11 to 14, n_rows=20"
    assert lines[1] == "[Model] iteration 11/14, elapsed 2.00 s, remaining 6.00 s"


def test_due_announces_what_update_prints(capsys):
    clock = Clock()
    reporter = ProgressReporter("Model", 60, 2, clock=clock)
    announced = []
    for iteration in range(1, 61):
        if reporter.due(iteration):
            announced.append(iteration)
        reporter.update(iteration)
    assert iterations(capsys.readouterr().out) == announced == [1, 2, 5, 10, 20, 50, 60]
    assert not ProgressReporter("Model", 60, 1, clock=clock).due(1)


def test_end_line_tells_an_early_stop(capsys):
    reporter = ProgressReporter("Model", 60, 1, clock=Clock())
    reporter.finish(12, "the validation score no longer grew")
    assert capsys.readouterr().out == "[Model] end, 12 iterations, 0.00 s, the validation score no longer grew\n"


def test_every_line_is_flushed(monkeypatch):
    class Stream(io.StringIO):
        pending = 0
        largest = 0

        def write(self, text):
            self.pending += text.count("\n")
            self.largest = max(self.largest, self.pending)
            return super().write(text)

        def flush(self):
            self.pending = 0

    stream = Stream()
    monkeypatch.setattr("sys.stdout", stream)
    run(2, n_iter=10)
    assert stream.getvalue().count("\n") == 6
    assert (stream.largest, stream.pending) == (1, 0)


def test_steps_are_round_numbers():
    steps = [1]
    for _ in range(9):
        steps.append(_sparser(steps[-1]))
    assert steps == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"),
        (9.99, "9.99 s"),
        (9.996, "10.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (187, "3 min 07 s"),
        (3599.7, "1 h 00 min"),
        (7505, "2 h 05 min"),
    ],
)
def test_durations(seconds, text):
    assert _duration(seconds) == text
