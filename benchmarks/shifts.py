"""Shifted data: detection by knowledge uncertainty, quality within the domain, selective prediction.

    python benchmarks/shifts.py test --data-folder DIR --cache test.json --repeat 5 --csv test.csv
    python benchmarks/shifts.py test --data-folder DIR --cache test.json --methods sglb isolation-forest --max-rows 1500
    python benchmarks/shifts.py tune --data-folder DIR --cache tune.json --set --set learning_rate=0.05
    python benchmarks/shifts.py test --data-folder DIR --cache test.json --repeat 5 --tables-only

DIR holds a ``load.py`` whose ``load(name)`` returns (frame, target, facts), facts["shifts"] being pairs of row masks,
domain and shifted. CatBoost must be importable for the methods named after it.

test: a seed draws rows of the domain, a quarter of them for the test, and shifted rows; each method is fitted on the
other three quarters and scores both kinds of test rows. Controls are cases without a shift: an AUC away from 0.5 there
is noise or a mistake. Many shifts are defined by a column that methods see, so a value out of range gives the row away;
--hide leaves these columns out. tune: the same with shifts made of the training rows of each case alone, the ends of
their first principal component and clusters left out, so settings can be compared without a look at a row of the test.

Our methods get the parameters of ``--set`` and else the defaults; each ``--set`` is one setting, a bare one the
defaults. Models of CatBoost follow n_estimators, learning_rate and max_depth. "sglb" is one chain with ten members of
its virtual ensemble, "csglb" and "cbsglb" its cyclical schedules, "ensembleK" K separate chains, "-ve" and "-ens10" are
CatBoost's virtual and real ensembles with posterior sampling, "isolation-forest" sees the columns alone. A method that
this version does not have is not run.

Columns: auc, ROC-AUC of knowledge for shifted against test rows of the domain; auc_support and auc_members, of 1 -
support and of the members' knowledge alone; auc_total, of the total uncertainty. loss, root mean squared error of the
standardised target or log loss of the mean over the members within the domain; loss_predict, that of ``predict``. nll,
of the predicted normal distribution, or log loss. retention, f1, rejection_ratio: rows of both kinds rejected by
knowledge (_total: by total uncertainty), area under mean error against share kept (lower is better), area under F1 of
"kept is right" (within half a standard deviation), share of the best order's gain over chance. ratio, mean knowledge of
shifted rows over that of test rows. Errors are standard errors over the seeds. loss/best divides by the smallest loss
of the case.

Every case and seed has a process of its own, and finished cells are kept in the cache file, so an interrupted run goes
on where it was; a cell is known by the versions of the libraries and not by their code, so take a new file, or --again,
after a change. Processes that run side by side need files of their own, which --read puts together.
"""

import argparse
import csv
import importlib.metadata
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import numpy as np
from shift_data import CONTROLS, PSEUDO_SHIFTS, SHIFTS, make_parts, task_of
from shift_methods import METHODS, TOGETHER, NotAvailable
from shift_metrics import measure

import skboost

# Columns of the table of means: name and format.
SUMMARY = {
    "auc": ".3f", "auc_support": ".3f", "auc_members": ".3f", "auc_total": ".3f", "loss": ".4f", "loss_predict": ".4f",
    "loss/best": ".3f", "accuracy": ".4f", "nll": ".4f", "retention": ".4f", "retention_total": ".4f", "f1": ".4f",
    "f1_total": ".4f", "rejection_ratio": ".3f", "support_in": ".4f", "support_out": ".4f", "fit_seconds": ".2f",
    "predict_seconds": ".3f",
}  # fmt: skip
DETAIL = [*SUMMARY, "rejection_ratio_total", "knowledge_in", "knowledge_out", "ratio", "error_in", "error_out"]


# ---------------------------------------------------------------- cells


def value_of(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def settings_of(pairs):
    """Return the dict of one --set, in order of the names."""
    if any("=" not in pair for pair in pairs):
        raise SystemExit(f"--set takes NAME=VALUE, got {' '.join(pairs)}")
    return {name: value_of(text) for name, text in sorted(pair.split("=", 1) for pair in pairs)}


def rows_of(a):
    """Return the (method, settings) to compare, each once: some methods follow few of the settings."""
    rows = []
    for settings, method in itertools.product(a.settings, a.methods):
        follows = METHODS[method][1]
        row = method, {k: v for k, v in settings.items() if follows is None or k in follows}
        rows += [] if row in rows else [row]
    return rows


def version(method):
    if method.startswith("catboost"):
        return importlib.metadata.version("catboost")
    return importlib.metadata.version("scikit-learn") if method == "isolation-forest" else skboost.__version__


def key_in(job, method):
    """Return the name of one cell in the cache."""
    settings = " ".join(f"{k}={json.dumps(v)}" for k, v in job["settings"].items())
    where = f"{job['case']}/{job['pseudo'] or 'test'}/{job['max_rows']}+{job['max_shifted']}"
    where += f"{'/hidden' if job['hide'] else ''}/{job['seed']}"
    return f"{where}/{method} {version(method)}/{settings}"


def answers_of(jobs, a):
    """Yield (job, answer), running the jobs in a fresh interpreter one after another; {"error": ...} is an answer.

    A job that kills the interpreter, or takes too long, costs its own answer alone: the others run in a new one.
    """
    env = dict(os.environ, PYTHONWARNINGS="ignore")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        env[name] = str(a.threads)
    command = [sys.executable, os.path.abspath(__file__), "child"]
    while jobs:
        with tempfile.TemporaryFile("w+") as errors:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            process = subprocess.Popen(command, env=env, text=True, **pipes)
            with process:
                process.stdin.write(json.dumps(jobs))
                process.stdin.close()
                lines = lines_in_time(process, a.timeout)
                for line in (line for line in lines if line.startswith("RESULT ")):
                    yield jobs[0], json.loads(line[7:])
                    jobs = jobs[1:]
            if jobs:
                errors.seek(0)
                said = (errors.read().strip().splitlines() or [f"exit code {process.returncode}"])[-1][:200]
                slow = f"over {a.timeout:.0f} s"
                yield jobs[0], {"error": slow if process.returncode == -signal.SIGKILL else said}
                jobs = jobs[1:]


def lines_in_time(process, timeout):
    """Yield the lines of a process, which is killed when one takes too long."""
    while True:
        timer = threading.Timer(timeout, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        if not line:
            return
        yield line


def child(jobs):
    """Run the jobs of one case and seed and print their answers."""
    parts = None
    for job in jobs:
        try:
            if parts is None:
                given = {name: job[name] for name in ("max_rows", "max_shifted", "hide", "pseudo")}
                parts = make_parts(job["case"], job["seed"], job["folder"], **given)
            answer = answer_of(job, parts)
        except NotAvailable as reason:
            answer = {"unavailable": str(reason)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:200]}
        print("RESULT " + json.dumps(answer), flush=True)


def answer_of(job, parts):
    """Return {method: metrics} of one job."""
    function = METHODS[job["methods"][0]][0]
    found = function(job["methods"], parts, job["seed"], job["threads"], job["settings"])
    facts = {"n_train": len(parts.y_train), "n_in": int((~parts.shifted).sum()), "n_out": int(parts.shifted.sum())}
    return {name: measure(parts, scores) | facts for name, scores in found.items()}


def read_cache(*paths):
    found = {}
    for path in paths:
        if path and Path(path).exists():
            found |= json.loads(Path(path).read_text())
    return found


def write_cache(path, cache):
    Path(path + ".part").write_text(json.dumps(cache, indent=1))
    os.replace(path + ".part", path)


def run(a):
    """Run the cells that are not in the cache; returns {key: metrics} and {(method, reason): number of cells}."""
    own = read_cache(a.cache)
    known = read_cache(*a.read) | own
    failed = Counter()
    pseudos = a.pseudo if a.command == "tune" else [None]
    for place in itertools.product(a.seeds, a.cases, pseudos) if not a.tables_only else []:
        for job, answer in answers_of(jobs_of(a, *place, known), a):
            for method in job["methods"]:
                key = key_in(job, method)
                known.pop(key, None)
                if method in answer:
                    known[key] = own[key] = answer[method]
                else:
                    failed[method, ": ".join(*answer.items())] += 1
                print(key, brief(answer.get(method, answer)), file=sys.stderr, flush=True)
            if a.cache:
                write_cache(a.cache, own)
    return known, failed


def jobs_of(a, seed, case, pseudo, known):
    """Return the jobs of one case and seed whose answers are not known: methods of the same fits, with a setting."""
    jobs = {}
    for method, settings in rows_of(a):
        function = METHODS[method][0]
        group = function.__name__ if function in TOGETHER else method
        job = {"case": case, "pseudo": pseudo, "seed": seed, "methods": [], "settings": settings}
        job |= {"max_rows": a.max_rows, "max_shifted": a.max_shifted, "hide": a.hide}
        job |= {"folder": a.data_folder, "threads": a.threads}
        if method in a.again or key_in(job, method) not in known:
            jobs.setdefault((group, json.dumps(settings)), job)["methods"].append(method)
    return list(jobs.values())


def brief(answer):
    if "auc" not in answer:
        return str(answer)
    return " ".join(f"{k} {answer[k]:.4g}" for k in ("auc", "auc_support", "loss", "fit_seconds") if k in answer)


# ---------------------------------------------------------------- tables


class Table:
    """Means and standard errors over the seeds, of single cases and of groups of cases."""

    def __init__(self, a, cells):
        self.a, self.rows = a, rows_of(a)
        self.pseudos = a.pseudo if a.command == "tune" else [None]
        self.cells = {}
        for seed, case, pseudo, row in itertools.product(a.seeds, a.cases, self.pseudos, range(len(self.rows))):
            method, settings = self.rows[row]
            job = {"case": case, "pseudo": pseudo, "seed": seed, "settings": settings}
            key = key_in(job | {"max_rows": a.max_rows, "max_shifted": a.max_shifted, "hide": a.hide}, method)
            if key in cells:
                self.cells[case, pseudo, seed, row] = dict(cells[key])
        for (case, pseudo, seed, _), cell in self.cells.items():
            if "loss" in cell:
                others = (self.cells.get((case, pseudo, seed, r), {}) for r in range(len(self.rows)))
                cell["loss/best"] = cell["loss"] / min(other["loss"] for other in others if "loss" in other)

    def label(self, row):
        method, settings = self.rows[row]
        return " ".join([method, *(f"{k}={v}" for k, v in settings.items())])

    def values(self, places, row, column):
        """Return per seed the mean over (case, pseudo-shift) pairs, of the seeds that have all of `places`."""
        found = []
        for seed in self.a.seeds:
            cells = [self.cells.get((*place, seed, row), {}) for place in places]
            if all(column in cell for cell in cells):
                found.append(np.mean([cell[column] for cell in cells]))
        return found

    def places(self, cases, row, column):
        """Return the (case, pseudo-shift) pairs for which some seed has the column."""
        pairs = itertools.product(cases, self.pseudos)
        return [p for p in pairs if any(column in self.cells.get((*p, seed, row), {}) for seed in self.a.seeds)]


def mean_and_error(values, form):
    """Return "mean ± standard error" of one value per seed."""
    if not values:
        return ""
    text = format(np.mean(values), form)
    return text if len(values) < 2 else f"{text} ± {np.std(values, ddof=1) / np.sqrt(len(values)):{form}}"


def markdown(head, lines):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(line) + " |")


def print_by_case(table, column):
    """One line per case, one column per method."""
    used = [row for row in range(len(table.rows)) if table.places(table.a.cases, row, column)]
    lines = []
    for case in table.a.cases:
        places = [table.places([case], row, column) for row in used]
        values = [table.values(p, row, column) if p else [] for p, row in zip(places, used, strict=True)]
        lines.append([case, *(mean_and_error(v, ".3f") for v in values)])
    if used:
        print(f"\n### {column} by case\n")
        markdown(["case", *(table.label(row) for row in used)], lines)


def print_means(table, title, cases):
    """One line per method that has run on all the cases: means over the cases."""
    places = {row: table.places(cases, row, "auc") for row in range(len(table.rows))}
    most = max(map(len, places.values()))
    if not most:
        return
    lines, left_out = [], []
    for row, found in places.items():
        if len(found) < most:
            left_out += [f"{table.label(row)} ({len(found)})"] if found else []
            continue
        texts = []
        for column, form in SUMMARY.items():
            whole = table.places(cases, row, column) == found
            texts.append(mean_and_error(table.values(found, row, column), form) if whole else "")
        lines.append([table.label(row), *texts])
    used = [i for i in range(1 + len(SUMMARY)) if any(line[i] for line in lines)]
    print(f"\n### {title}, {most} of {len(cases) * len(table.pseudos)}\n")
    head = ["method", *SUMMARY]
    markdown([head[i] for i in used], [[line[i] for i in used] for line in lines])
    if left_out:
        print(f"\nOf fewer cases: {', '.join(left_out)}")


def print_tables(a, cells, failed):
    table = Table(a, cells)
    shifts = [case for case in a.cases if case not in CONTROLS]
    for task in ("regression", "classification"):
        print_means(table, f"means over the shifts, {task}", [case for case in shifts if task_of(case) == task])
    print_means(table, "means over the shifts", shifts)
    print_means(table, "means over the controls", [case for case in a.cases if case in CONTROLS])
    for column in ("auc", "auc_support"):
        print_by_case(table, column)
    for (method, reason), number in failed.items():
        print(f"\n{method}, {number} cells, {reason}")
    if a.csv:
        write_csv(a.csv, table)


def write_csv(path, table):
    """Write mean, standard error and number of seeds of every metric of every case."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["case", "pseudo-shift", "method", "settings", "metric", "mean", "standard error", "seeds"])
        for place, row in itertools.product(itertools.product(table.a.cases, table.pseudos), range(len(table.rows))):
            method, settings = table.rows[row]
            for column in DETAIL:
                values = table.values([place], row, column)
                if values:
                    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else ""
                    known = [place[0], place[1] or "", method, json.dumps(settings), column]
                    writer.writerow([*known, float(np.mean(values)), error, len(values)])


# ---------------------------------------------------------------- command line


def parser():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="command", required=True)
    for name in ("test", "tune"):
        p = sub.add_parser(name)
        p.add_argument("--data-folder", required=True, help="folder of load.py")
        known, default = [*SHIFTS, *CONTROLS], [*SHIFTS, *CONTROLS] if name == "test" else SHIFTS
        p.add_argument("--cases", nargs="+", choices=known, default=default, metavar="SET/SHIFT")
        p.add_argument(
            "--methods", nargs="+", choices=list(METHODS), default=list(METHODS) if name == "test" else ["sglb"]
        )
        p.add_argument("--set", nargs="*", action="append", dest="settings", metavar="NAME=VALUE", help="one setting")
        p.add_argument("--max-rows", type=int, default=6000, help="rows of the domain, 0 for all")
        p.add_argument("--max-shifted", type=int, default=1500)
        p.add_argument("--hide", action="store_true", help="leave out the columns that define the shift")
        p.add_argument("--repeat", type=int, default=1, help="seeds")
        p.add_argument("--first-seed", type=int, default=0)
        p.add_argument("--threads", type=int, default=2)
        p.add_argument("--timeout", type=float, default=3600, help="seconds one job may take")
        p.add_argument("--cache", help="file of the finished cells")
        p.add_argument("--read", nargs="+", default=[], help="further such files, not written to")
        p.add_argument("--again", nargs="+", default=[], choices=list(METHODS), help="methods not taken from the files")
        p.add_argument("--tables-only", action="store_true", help="fit nothing")
        p.add_argument("--csv", help="write all metrics of all cases to this file")
    sub.choices["tune"].add_argument("--pseudo", nargs="+", choices=PSEUDO_SHIFTS, default=PSEUDO_SHIFTS)
    sub.add_parser("child", help="what the other two start; reads its jobs from standard input")
    return ap


def main():
    a = parser().parse_args()
    if a.command == "child":
        child(json.load(sys.stdin))
        return
    a.settings = [settings_of(pairs) for pairs in a.settings or [[]]]
    a.seeds = range(a.first_seed, a.first_seed + a.repeat)
    print_tables(a, *run(a))


if __name__ == "__main__":
    main()
