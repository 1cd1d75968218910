"""Explainable boosting machines beside InterpretML: accuracy on the same folds, time, memory.

    python benchmarks/ebm.py accuracy --data-folder DIR --cache theirs.json
    python benchmarks/ebm.py accuracy --data diabetes wine --settings mains --libraries skboost
    python benchmarks/ebm.py speed --cases fit-reg fit-bin --rows 20000 --repeat 3
    python benchmarks/ebm.py speed --cases step-reg --rows 500000

Both libraries must be importable by the interpreter that runs this script; every fit runs in a process of its own, the
libraries take turns.

accuracy: five folds (shuffled, stratified for classes, random_state=0), both libraries with their defaults in the named
setting and random_state=0, or the mean over the seeds 0 to N - 1 of ``--seeds N``. RMSE or log loss per fold, mean and
standard deviation over the folds, and the paired difference, ours less theirs, with its standard error. Columns of type
``category`` are categorical on both sides, all others numeric on both sides; this is declared, so neither library
guesses. DIR holds a ``load.py`` whose ``load(name)`` returns (frame, target, facts) for california, adult, bank and
bike_hour; the other data come with scikit-learn. Results of InterpretML are read from the cache file when it has them
and added to it when not.

speed: generated data of 14 features. Cases: ``fit`` without pairs, ``pairs`` with the default pairs of each library,
``same-pairs`` with the same ten pairs for both, ``step`` the time of one boosting step without pairs, bags, validation
or smoothing, from the difference of two numbers of rounds. ``reg`` is squared error, ``bin`` log loss.
"""

import argparse
import gc
import importlib.metadata
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import peers
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine, make_friedman1
from sklearn.metrics import accuracy_score, log_loss, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold

N_FOLDS = 5
LIBRARIES = {"skboost": "scikit-boost", "interpret": "interpret-core"}

# ---------------------------------------------------------------- data and estimators


def digits_parity():
    X, y = load_digits(return_X_y=True)
    return X, y % 2


BUNDLED = {
    "diabetes": ("reg", lambda: load_diabetes(return_X_y=True)),
    "friedman1": ("reg", lambda: make_friedman1(1000, n_features=10, noise=1.0, random_state=0)),
    "breast_cancer": ("bin", lambda: load_breast_cancer(return_X_y=True)),
    "wine": ("mc", lambda: load_wine(return_X_y=True)),
    "digits_odd": ("bin", digits_parity),
}
FOLDER = {"california": "reg", "bike_hour": "reg", "adult": "bin", "bank": "bin"}

# Parameters that both libraries understand; "defaults" leaves each its own number of pairs.
SETTINGS = {
    "mains": {"interactions": 0},
    "pairs": {"interactions": 10},
    "defaults": {},
    # Few bags and rounds, for data on which the validation loss creeps on for ever.
    "pairs-capped": {"interactions": 10, "outer_bags": 4, "max_rounds": 1000},
}


def load_data(name, folder, n_rows=None):
    """Return (task, X, y), of the rows that come first in a shuffle when there are more than `n_rows`."""
    if name in BUNDLED:
        task, load = BUNDLED[name]
        return task, *load()
    spec = importlib.util.spec_from_file_location("load", Path(folder) / "load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    X, y, _ = module.load(name)
    if n_rows and n_rows < len(y):
        chosen = np.random.RandomState(0).permutation(len(y))[:n_rows]
        X, y = X.iloc[chosen].reset_index(drop=True), y.iloc[chosen]
    return FOLDER[name], X, y.to_numpy()


def make_estimator(library, task, X, **parameters):
    """Return an estimator whose categorical columns are declared."""
    parameters = {"random_state": 0, **parameters}
    if library == "skboost":
        import skboost

        return (skboost.EBMRegressor if task == "reg" else skboost.EBMClassifier)(**parameters)
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    dtypes = [str(t) for t in X.dtypes] if hasattr(X, "dtypes") and hasattr(X, "columns") else [""] * X.shape[1]
    parameters.setdefault("feature_types", ["nominal" if t == "category" else "continuous" for t in dtypes])
    return (ExplainableBoostingRegressor if task == "reg" else ExplainableBoostingClassifier)(**parameters)


def version(library):
    return (
        importlib.import_module(library).__version__
        if library == "skboost"
        else importlib.metadata.version(LIBRARIES[library])
    )


def run_child(job, threads, timeout):
    """Run one job in a fresh interpreter; returns its answer or {"error": ...}."""
    env = dict(os.environ, PYTHONWARNINGS="ignore")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        env[name] = str(threads)
    command = [sys.executable, os.path.abspath(__file__), "child", json.dumps(job)]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"over {timeout:.0f} s"}
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}


# ---------------------------------------------------------------- accuracy


def fit_fold(job):
    """Fit one fold; returns loss, accuracy (classes), seconds and what was trained."""
    task, X, y = load_data(job["data"], job["folder"], job["rows"])
    splitter = (KFold if task == "reg" else StratifiedKFold)(N_FOLDS, shuffle=True, random_state=0)
    train, test = list(splitter.split(X, y))[job["fold"]]
    rows = (lambda index: X.iloc[index]) if hasattr(X, "iloc") else (lambda index: X[index])
    given = SETTINGS[job["setting"]] | {"n_jobs": job["threads"], "random_state": job["seed"]}
    model = make_estimator(job["library"], task, X, **given)
    started, started_cpu = time.perf_counter(), time.process_time()
    model.fit(rows(train), y[train])
    answer = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - started_cpu}
    answer["n_pairs"] = sum(len(features) == 2 for features in model.term_features_)
    if task == "reg":
        return answer | {"loss": root_mean_squared_error(y[test], model.predict(rows(test)))}
    p = model.predict_proba(rows(test))
    accuracy = accuracy_score(y[test], np.asarray(model.classes_)[p.argmax(axis=1)])
    return answer | {"loss": log_loss(y[test], p, labels=model.classes_), "accuracy": accuracy}


def read_cache(path):
    return json.loads(Path(path).read_text()) if path and Path(path).exists() else {}


def write_cache(path, cache):
    Path(path + ".part").write_text(json.dumps(cache, indent=1))
    os.replace(path + ".part", path)


def accuracy(a):
    cache = read_cache(a.cache)
    table = []
    for data, setting in itertools.product(a.data, a.settings):
        runs = {library: [] for library in a.libraries}
        for fold, seed, library in itertools.product(range(N_FOLDS), range(a.seeds), a.libraries):
            name = f"{data}:{a.rows}" if a.rows and data in FOLDER else data
            key = f"{library} {version(library)}/{name}/{setting}/{fold}" + (f"/{seed}" if seed else "")
            answer = cache.get(key) if library != "skboost" else None
            if answer is None or "error" in answer:
                job = {"do": "fold", "data": data, "setting": setting, "fold": fold, "seed": seed, "library": library}
                job |= {"folder": a.data_folder, "threads": a.threads, "rows": a.rows}
                answer = run_child(job, a.threads, a.timeout)
                print(key, answer, file=sys.stderr, flush=True)
                if a.cache and library != "skboost":
                    cache[key] = answer
                    write_cache(a.cache, cache)
            runs[library].append(answer)
            if "error" in answer and not a.keep_going:
                break
        table.append((data, setting, {library: folds_of(answers, a.seeds) for library, answers in runs.items()}))
    print_accuracy(table, a.libraries)


def folds_of(answers, n_seeds):
    """Return one answer per fold, means over the seeds; the answer that failed if one did."""
    failed = [answer for answer in answers if "error" in answer]
    if failed:
        return failed[:1]
    keys = [k for k in ("loss", "accuracy", "n_pairs", "seconds") if answers and k in answers[0]]
    groups = [answers[i : i + n_seeds] for i in range(0, len(answers), n_seeds)]
    return [{k: float(np.mean([answer[k] for answer in group])) for k in keys} for group in groups]


def summary(folds, key="loss"):
    """Return "mean (sd)" over the folds, or why there is none."""
    errors = [f["error"] for f in folds if "error" in f]
    if errors or len(folds) < N_FOLDS:
        return errors[0] if errors else "incomplete"
    values = [f[key] for f in folds] if key in folds[0] else None
    return "" if values is None else f"{np.mean(values):.5g} ({np.std(values, ddof=1):.2g})"


def print_accuracy(table, libraries):
    head = ["data", "setting"]
    head += [f"{library} {what}" for library in libraries for what in ("loss", "accuracy", "pairs", "seconds")]
    print(",".join([*head, "ours - theirs", "standard error", "in errors"]))
    for data, setting, found in table:
        cells = [data, setting]
        for library in libraries:
            folds = found[library]
            whole = len(folds) == N_FOLDS and not any("error" in f for f in folds)
            cells += [summary(folds), summary(folds, "accuracy") if whole else ""]
            cells += [f"{np.mean([f[k] for f in folds]):.3g}" if whole else "" for k in ("n_pairs", "seconds")]
        cells += paired(found)
        print(",".join(cells))


def paired(found):
    """Return mean, standard error and their ratio of the differences per fold, ours less theirs."""
    if set(found) != set(LIBRARIES) or any("error" in f for folds in found.values() for f in folds):
        return ["", "", ""]
    ours, theirs = ([f["loss"] for f in found[library]] for library in LIBRARIES)
    if len(ours) != N_FOLDS or len(theirs) != N_FOLDS:
        return ["", "", ""]
    difference = np.subtract(ours, theirs)
    error = difference.std(ddof=1) / np.sqrt(N_FOLDS)
    return [f"{difference.mean():.3g}", f"{error:.2g}", f"{difference.mean() / error:.2f}"]


# ---------------------------------------------------------------- speed


CASES = {"fit": {"interactions": 0}, "pairs": {}, "same-pairs": {}, "step": {"interactions": 0}}
SAME_PAIRS = [(0, 1), (0, 2), (1, 2), (1, 6), (2, 4), (3, 5), (4, 5), (0, 7), (5, 8), (6, 9)]
PLAIN = {"outer_bags": 1, "validation_size": 0, "early_stopping_rounds": 0, "smoothing_rounds": 0, "greedy_ratio": 0}


def measured_fit(job, X, y, **parameters):
    """Fit once; returns the model, and seconds and growth of memory in MB, worker processes included."""
    kind, task = job["case"].rsplit("-", 1)
    parameters = {**CASES[kind], "n_jobs": job["threads"], **parameters}
    if kind == "same-pairs":
        parameters["interactions"] = SAME_PAIRS
    if job["library"] == "interpret" and not job["declare_types"]:
        parameters["feature_types"] = None
    model = make_estimator(job["library"], task, X, **parameters)
    gc.collect()
    before = peers._status_kb("VmRSS")
    peers._reset_peak()
    sampler = peers._TreeMemory()
    sampler.start()
    started = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - started
    grow = (peers._status_kb("VmHWM") + sampler.stop() - before) / 1024
    return model, {"seconds": seconds, "grow_mb": grow}


def speed_child(job):
    data = np.load(job["file"])
    X, y, X_test, y_test = (data[name] for name in ("X", "y", "X_test", "y_test"))
    kind, task = job["case"].rsplit("-", 1)
    if kind == "step":
        rounds = job["rounds"][job["library"]]
        # The first fit pays for imports, threads and fresh pages, and does not count.
        runs = [rounds[0], rounds[0], rounds[1]]
        _, few, many = (measured_fit(job, X, y, max_rounds=r, max_bins=job["max_bins"], **PLAIN)[1] for r in runs)
        steps = (rounds[1] - rounds[0]) * X.shape[1]
        return {"us_per_step": 1e6 * (many["seconds"] - few["seconds"]) / steps, "few": few, "many": many}
    # Threads and lazy imports are warm before the fit that counts.
    make_estimator(job["library"], task, X, max_rounds=2, interactions=0, n_jobs=job["threads"]).fit(X[:500], y[:500])
    model, answer = measured_fit(job, X, y)
    answer["loss"] = (
        root_mean_squared_error(y_test, model.predict(X_test))
        if task == "reg"
        else log_loss(y_test, model.predict_proba(X_test))
    )
    return answer


def speed(a):
    results = []
    print("case,rows,library,best,median,spread,grow MB,loss,ratio of medians")
    for case, rows in itertools.product(a.cases, a.rows):
        kind, task = case.rsplit("-", 1)
        X, y = peers.generate(rows + 20_000, a.features, task, 0, np.float64)
        with tempfile.TemporaryDirectory(prefix="ebm-") as folder:
            file = os.path.join(folder, "data.npz")
            np.savez(file, X=X[:rows], y=y[:rows], X_test=X[rows:], y_test=y[rows:])
            runs = {library: [] for library in a.libraries}
            for _, library in itertools.product(range(a.repeat), a.libraries):
                job = {"do": "speed", "case": case, "library": library, "file": file, "threads": a.threads}
                job |= {"declare_types": a.declare_types, "max_bins": a.max_bins}
                job["rounds"] = {"skboost": a.our_rounds, "interpret": a.their_rounds}
                answer = run_child(job, a.threads, a.timeout)
                print(case, rows, library, answer, file=sys.stderr, flush=True)
                runs[library].append(answer)
                results.append(job | {"rows": rows, "answer": answer})
        print_speed(case, rows, runs, "us_per_step" if kind == "step" else "seconds")
    if a.json:
        Path(a.json).write_text(json.dumps(results, indent=1))


def print_speed(case, rows, runs, key):
    medians = {}
    for library, answers in runs.items():
        good = [r for r in answers if "error" not in r]
        if not good:
            print(f"{case},{rows},{library},failed: {answers[0]['error']}")
            continue
        values = [r[key] for r in good]
        medians[library] = np.median(values)
        others = [np.median([r[k] for r in good]) if k in good[0] else np.nan for k in ("grow_mb", "loss")]
        ratio = medians[library] / medians["skboost"] if "skboost" in medians else np.nan
        text = [f"{min(values):.4g}", f"{medians[library]:.4g}", f"{min(values):.4g}-{max(values):.4g}"]
        text += [f"{others[0]:.0f}", f"{others[1]:.5f}", f"{ratio:.2f}"]
        print(",".join([case, str(rows), library, *text]), flush=True)


# ---------------------------------------------------------------- command line


def parser():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = ap.add_subparsers(dest="command", required=True)
    for name in ("accuracy", "speed"):
        p = sub.add_parser(name)
        p.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
        p.add_argument("--threads", type=int, default=2)
        p.add_argument("--timeout", type=float, default=3600, help="seconds one process may take")
    p = sub.choices["accuracy"]
    p.add_argument("--data", nargs="+", choices=[*BUNDLED, *FOLDER], default=list(BUNDLED))
    p.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=["mains", "pairs", "defaults"])
    p.add_argument("--data-folder", help="folder of load.py, for the data that do not come with scikit-learn")
    p.add_argument("--rows", type=int, help="most rows of the data in the folder")
    p.add_argument("--seeds", type=int, default=1, help="fits per fold")
    p.add_argument("--cache", help="file of the other library's results")
    p.add_argument("--keep-going", action="store_true", help="run the other folds after one has failed")
    p = sub.choices["speed"]
    names = [f"{kind}-{task}" for kind in CASES for task in ("reg", "bin")]
    p.add_argument("--cases", nargs="+", choices=names, default=["fit-reg", "fit-bin"])
    p.add_argument("--rows", nargs="+", type=int, default=[20_000])
    p.add_argument("--features", type=int, default=14)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--declare-types", action="store_true", help="spare InterpretML the detection of column types")
    p.add_argument("--max-bins", type=int, default=1024, help="of the step cases")
    p.add_argument("--our-rounds", nargs=2, type=int, default=[2000, 52000], help="of the step cases")
    p.add_argument("--their-rounds", nargs=2, type=int, default=[10, 1510], help="of the step cases")
    p.add_argument("--json", help="write every single run to this file")
    sub.add_parser("child").add_argument("job")
    return ap


def main():
    a = parser().parse_args()
    if a.command == "child":
        job = json.loads(a.job)
        print("RESULT " + json.dumps((fit_fold if job["do"] == "fold" else speed_child)(job)), flush=True)
    else:
        (accuracy if a.command == "accuracy" else speed)(a)


if __name__ == "__main__":
    main()
