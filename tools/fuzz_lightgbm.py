"""Mutate text models of LightGBM and see that the reader refuses or predicts, quickly and in little memory.

    python tools/fuzz_lightgbm.py [--mutations N] [--seed S] [--models FOLDER]

Every mutant either gives a ValueError that names a line of it, or a model whose predictions have the right shape and
whose leaves exist. A mutant that does neither is printed as the Python expression that makes it, and the run fails.
"""

import argparse
import faulthandler
import json
import random
import re
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

from skboost import EBMRegressor, SGLBClassifier, SGLBRegressor
from skboost.lightgbm import dumps, loads

MODELS = Path(__file__).parents[1] / "tests" / "data" / "lightgbm"
SPECIAL = ["", "-1", "0", "1", "-0", "31", "32", "2147483647", "-2147483648", "4294967295", "99999999999", "1e999"]
SPECIAL += [
    "-1e999",
    "1e308",
    "5e-324",
    "nan",
    "inf",
    "-inf",
    "0.5",
    "1 1",
    "x",
    "1_0",
    "+1",
    "\u0661",
    "\0",
    "=",
    "9" * 400,
]
ROWS = [np.nan, 0.0, -0.0, 1e-36, 1.0, -0.5, 2.9, 31.0, 32.0, -1e300, 1e300, np.inf, -np.inf]
NUMBER = re.compile(r"-?[0-9][-+.0-9e]*|nan|inf")
# A mutant of the stored models takes a few milliseconds; sums of all rows and outputs stay far below the limit.
SECONDS = 5.0
HANG_SECONDS = 120
BYTES_PER_CHARACTER = 200
BYTES = 64 * 2**20


def read_models(folder):
    """Return the texts of the models below a folder, by name."""
    models = {str(path.relative_to(folder)): path.read_bytes().decode() for path in sorted(Path(folder).rglob("*.txt"))}
    handmade = Path(folder) / "handmade.json"
    if handmade.exists():
        models |= {case["name"]: case["model"] for case in json.loads(handmade.read_text())}
    return models | written_models()


def written_models():
    """Return the texts of small models of skboost, whose parameters describe a chain or terms."""
    X = np.arange(80.0).reshape(40, 2) % 7
    params = {"n_estimators": 4, "max_depth": 2, "categorical_features": [1], "random_state": 0}
    regressor = SGLBRegressor(loss="gaussian", **params).fit(X, X[:, 0] - X[:, 1])
    classifier = SGLBClassifier(grow_policy="depthwise", **params).fit(X, np.array(list("abc"))[np.arange(40) % 3])
    targets = SGLBRegressor(**params).fit(X, np.column_stack([X[:, 0], 3 * X[:, 1]]))
    params = {"max_rounds": 4, "outer_bags": 2, "interactions": 1, "categorical_features": [1], "random_state": 0}
    terms = EBMRegressor(**params).fit(X, X[:, 0] - X[:, 1])
    models = {"gaussian": regressor, "labels": classifier, "targets": targets, "terms": terms}
    return {name: dumps(model) for name, model in models.items()}


# ---- mutations: functions of a text and a generator of random numbers


def change_character(text, rng):
    """Replace, insert or delete a character."""
    at = rng.randrange(len(text) + 1)
    new = rng.choice(["", "\n", " ", "=", "-", "9", "[", "\r", "\0", "\u00e9", chr(rng.randrange(32, 127))])
    return text[:at] + new + text[at + rng.randrange(2) :]


def change_number(text, rng):
    """Replace a number by a special one, or move a whole number by one."""
    spans = [match.span() for match in NUMBER.finditer(text)]
    if not spans:
        return text
    start, end = rng.choice(spans)
    old = text[start:end]
    if old.lstrip("-").isdigit() and len(old) < 20 and rng.random() < 0.5:
        new = str(int(old) + rng.choice([-1, 1]))
    else:
        new = rng.choice(SPECIAL)
    return text[:start] + new + text[end:]


def change_lines(text, rng):
    """Delete, repeat or exchange lines."""
    lines = text.split("\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[first]
    elif kind == 1:
        lines.insert(second, lines[first])
    elif kind == 2:
        lines[first], lines[second] = lines[second], lines[first]
    else:
        lines[first : first + 1] = [lines[first]] * rng.choice([2, 100])
    return "\n".join(lines)


def exchange_values(text, rng):
    """Give a line the value of another one."""
    lines = text.split("\n")
    keyed = [index for index, line in enumerate(lines) if "=" in line]
    if len(keyed) > 1:
        first, second = rng.sample(keyed, 2)
        lines[first] = lines[first].partition("=")[0] + "=" + lines[second].partition("=")[2]
    return "\n".join(lines)


def exchange_entries(text, rng):
    """Exchange two entries of a line, which keeps its length."""
    lines = text.split("\n")
    several = [index for index, line in enumerate(lines) if "=" in line and " " in line.strip()]
    if several:
        index = rng.choice(several)
        key, _, value = lines[index].partition("=")
        entries = value.split(" ")
        first, second = rng.randrange(len(entries)), rng.randrange(len(entries))
        entries[first], entries[second] = entries[second], entries[first]
        lines[index] = f"{key}={' '.join(entries)}"
    return "\n".join(lines)


def cut(text, rng):
    """Leave out the end or a part."""
    start = rng.randrange(len(text) + 1)
    return text[:start] if rng.random() < 0.5 else text[:start] + text[start + rng.randrange(200) :]


def repeat(text, rng):
    """Repeat a part many times."""
    start = rng.randrange(len(text) + 1)
    part = text[start : start + rng.randrange(1, 50)]
    return text[:start] + part * rng.choice([2, 10, 1000]) + text[start:]


def drop_sizes(text, rng):
    """Leave out the sizes of the trees, which most other changes make wrong."""
    return re.sub(r"\ntree_sizes=[^\n]*", "", text)


MUTATIONS = [
    change_character,
    change_number,
    change_number,
    change_lines,
    exchange_values,
    exchange_entries,
    cut,
    repeat,
]


def mutant(models, seed):
    """Return the mutant of a seed: one to four changes, without the sizes of the trees in most cases."""
    rng = random.Random(seed)
    names = sorted(models)
    described = [name for name in names if "[skboost: " in models[name]]
    text = models[rng.choice(described if described and rng.random() < 0.2 else names)]
    if rng.random() < 0.8:
        text = drop_sizes(text, rng)
    for _ in range(rng.randrange(1, 5)):
        text = rng.choice(MUTATIONS)(text, rng)
    if rng.random() < 0.1:
        other = models[rng.choice(sorted(models))]
        text = text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other)) :]
    return text


# ---- what must hold


def require(condition, message):
    """Raise AssertionError unless a condition holds."""
    if not condition:
        raise AssertionError(message)


def check(text):
    """Return whether a text is read; raise AssertionError where it neither predicts nor is refused as it should."""
    try:
        model = loads(text)
    except ValueError as error:
        match = re.match(r"Line ([0-9]+): ", str(error))
        require(match, f"the refusal names no line: {error}")
        require(1 <= int(match[1]) <= text.count("\n") + 1, f"the refusal names a line that is not there: {error}")
        require(len(str(error)) < 1000, "the refusal is too long")
        return False
    X = np.repeat(np.array(ROWS)[:, np.newaxis], model.n_features_in_, axis=1)
    X = np.concatenate([X, np.random.default_rng(0).choice(ROWS, size=X.shape)])
    raw, leaves = model.raw_scores(X), model.apply(X)
    require(raw.dtype == np.float64 and len(raw) == len(X), "raw scores have the wrong form")
    sizes = np.array([len(tree.leaf_value) for tree in model._parsed.trees])
    require(leaves.shape == (len(X), len(sizes)), "leaves have the wrong shape")
    require(((leaves >= 0) & (leaves < sizes)).all(), "a leaf does not exist")
    require(len(model.predict(X)) == len(X), "predictions have the wrong shape")
    if hasattr(model, "predict_proba"):
        require(model.predict_proba(X).shape == (len(X), len(model.classes_)), "probabilities have the wrong shape")
    if model.n_iter_ >= 4 and not is_terms(model):
        require(len(model.predict_virtual_ensembles(X, n_members=2)) == 2, "members are missing")
        check_uncertainty(model, X)
    require(model.feature_importances_.shape == (model.n_features_in_,), "importances have the wrong shape")
    return True


def check_uncertainty(model, X):
    """Raise AssertionError where uncertainty has the wrong form; outputs without one and overflows are refused."""
    try:
        found = model.predict_uncertainty(X, n_members=2)
    except ValueError:
        return
    require(len(found.knowledge) == len(X), "knowledge has the wrong shape")
    require(not (found.knowledge < 0).any(), "knowledge is negative")
    if found.support is not None:
        require(((found.support >= 0) & (found.support <= 1)).all(), "support is no share")


def is_terms(model):
    """Return whether a model is a sum of terms, which has no members."""
    return model._chain is not None and model._chain.predicts == "terms"


def check_limits(text):
    """Return what `check` returns; raise AssertionError where it takes too much time or memory."""
    tracemalloc.reset_peak()
    before, start = tracemalloc.get_traced_memory()[0], time.process_time()
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        read = check(text)
    faulthandler.cancel_dump_traceback_later()
    seconds, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1] - before
    require(seconds < SECONDS, f"it took {seconds:.1f} seconds")
    require(peak < BYTES + BYTES_PER_CHARACTER * len(text), f"it took {peak} bytes for {len(text)} characters")
    return read


def run(models, mutations, seed):
    """Return (mutants that were read, list of (seed, what is wrong))."""
    n_read, faults = 0, []
    tracemalloc.start()
    try:
        for number in range(seed, seed + mutations):
            try:
                n_read += check_limits(mutant(models, number))
            except Exception as error:
                faults.append((number, f"{type(error).__name__}: {error}"))
    finally:
        faulthandler.cancel_dump_traceback_later()
        tracemalloc.stop()
    return n_read, faults


def main():
    """Run from the command line; the exit status is 1 where a mutant fails."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mutations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="first seed; every mutant has the next one")
    parser.add_argument("--models", default=MODELS, help="folder of text models to start from")
    arguments = parser.parse_args()
    models = read_models(arguments.models)
    n_read, faults = run(models, arguments.mutations, arguments.seed)
    for seed, what in faults:
        print(f"mutant(read_models({str(arguments.models)!r}), {seed}): {what}")
    print(f"{arguments.mutations} mutants of {len(models)} models: {n_read} read, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
