"""Imports point down: the layers of the house, read from the sources without importing them.

L6  skboost/__init__
L5  uncertainty, inspection, lightgbm, datasets, metrics
L4  sglb/_estimators, ebm/_estimators, gaussian_process, inference/_regressor   (_validation just below them)
L3  the other modules of sglb, ebm and inference, _uncertainty
L2  the other private modules at the top
L1  _engine; distributions just above it
"""

import ast
import re
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "skboost"
TOP_LAYERS = {"_version": 0, "_engine": 1, "distributions": 1.5, "_losses": 2, "_uncertainty": 2.5, "_validation": 3.5}
TOP_LAYERS |= dict.fromkeys(["gaussian_process"], 4)
TOP_LAYERS |= dict.fromkeys(["uncertainty", "inspection", "lightgbm", "datasets", "metrics"], 5)
# Rooms whose estimators lie above their other modules, and the names of the modules of the estimators.
ESTIMATOR_ROOMS = {"sglb": "_estimators", "ebm": "_estimators", "inference": "_regressor"}
RUNTIME = {"numpy", "scipy", "sklearn", "joblib", "threadpoolctl"}
OPTIONAL = {"matplotlib", "pandas", "polars", "narwhals"}
ENGINE_PYTHON = {"numpy"}
ENGINE_CYTHON = {"numpy", "libc", "libcpp", "cython", "cpython"}

CYTHON_IMPORT = re.compile(
    r"""^[ \t]*(?:
        from[ \t]+(?P<module>[\w.]+)[ \t]+c?import[ \t]*(?P<names>\([^)]*\)|[^\n#]*)
        |c?import[ \t]+(?P<plain>[\w.,\ \t]+)
    )""",
    re.MULTILINE | re.VERBOSE,
)


def layer(module):
    """Return the layer of a module by its dotted name, None if the house has no place for it."""
    parts = module.split(".")[1:]
    if not parts:
        return 6
    room = parts[0]
    if room in TOP_LAYERS:
        return TOP_LAYERS[room]
    if room in ESTIMATOR_ROOMS:
        return 4 if len(parts) == 1 or parts[1].startswith(ESTIMATOR_ROOMS[room]) else 3
    return 2 if room.startswith("_") and len(parts) == 1 else None


def same_room(module, other):
    """Return whether two modules of one layer may see each other: in one sub-package, or both private at the top."""
    room, other_room = module.split(".")[1], other.split(".")[1]
    return room == other_room or (room.startswith("_") and other_room.startswith("_"))


def dotted(path, root):
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def target(module, name, modules):
    """Return what ``from module import name`` depends on: the sub-module if there is one."""
    inner = f"{module}.{name}"
    return inner if inner in modules else module


class PythonImports(ast.NodeVisitor):
    """Collect (line, module, inside a function?) of every import and the private scikit-learn names in use."""

    def __init__(self, modules):
        self.modules = modules
        self.imports = []
        self.private = []
        self.relative = []
        self.sklearn_names = set()
        self.depth = 0

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_If(self, node):
        lazy = ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        self.depth += lazy
        self.generic_visit(node)
        self.depth -= lazy

    def visit_Import(self, node):
        for alias in node.names:
            self.imports.append((node.lineno, alias.name, self.depth > 0))
            self._note_sklearn(node.lineno, alias.name, alias.asname or alias.name.split(".")[0])

    def visit_ImportFrom(self, node):
        if node.level or any(alias.name == "*" for alias in node.names):
            self.relative.append(node.lineno)
            return
        for alias in node.names:
            self.imports.append((node.lineno, target(node.module, alias.name, self.modules), self.depth > 0))
            self._note_sklearn(node.lineno, f"{node.module}.{alias.name}", alias.asname or alias.name)

    def visit_Attribute(self, node):
        base = node.value
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and base.id in self.sklearn_names and node.attr.startswith("_"):
            self.private.append((node.lineno, ast.unparse(node)))
        self.generic_visit(node)

    def _note_sklearn(self, line, full_name, bound):
        parts = full_name.split(".")
        if parts[0] != "sklearn":
            return
        self.sklearn_names.add(bound)
        if any(part.startswith("_") for part in parts):
            self.private.append((line, full_name))


def python_facts(text, modules):
    visitor = PythonImports(modules)
    visitor.visit(ast.parse(text))
    return visitor


def cython_imports(text, modules):
    """Yield (line, module) of the import and cimport statements of a Cython file."""
    text = re.sub(r'""".*?"""', lambda match: "\n" * match.group().count("\n"), text, flags=re.DOTALL)
    for match in CYTHON_IMPORT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["plain"]:
            for name in match["plain"].split(","):
                yield line, name.split()[0]
        else:
            for name in match["names"].strip("()").split(","):
                if name.strip():
                    yield line, target(match["module"], name.split()[0], modules)


def edge_fault(module, other, modules):
    """Return why ``module`` may not import ``other``, a module of this package, or None."""
    if other not in modules:
        return f"imports {other}, which does not exist"
    if module.startswith("skboost._engine"):
        return None if other.startswith("skboost._engine") else f"imports {other}: the engine knows only itself"
    here, there = layer(module), layer(other)
    if other == module or here is None or there is None or there < here:
        return None
    if there == here and same_room(module, other):
        return None
    return f"(L{here}) imports {other} (L{there}): imports point down"


def package_fault(module, package, lazy, *, cython):
    """Return why ``module`` may not import a package from outside, or None."""
    if package in sys.stdlib_module_names:
        return None
    if module.startswith("skboost._engine"):
        allowed = ENGINE_CYTHON if cython else ENGINE_PYTHON
        return None if package in allowed else f"imports {package}: not in the engine"
    if package in RUNTIME or (package in OPTIONAL and (lazy or module == "skboost._compat")):
        return None
    return f"imports {package} " + ("outside a function" if package in OPTIONAL else "which is no dependency")


def find_cycle(edges):
    """Return a list of modules that import each other in a ring, or None."""
    done, path = set(), []

    def walk(module):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        path.append(module)
        found = next(filter(None, map(walk, sorted(edges.get(module, ())))), None)
        path.pop()
        done.add(module)
        return found

    return next(filter(None, map(walk, sorted(edges))), None)


def violations(root):
    """Return every broken rule of the package at ``root`` as a line of text."""
    files = sorted(path for path in root.rglob("*") if path.suffix in {".py", ".pyx", ".pxd"})
    modules = {dotted(path, root) for path in files}
    faults, edges = [], {}
    for path in files:
        module, cython = dotted(path, root), path.suffix != ".py"

        def report(line, fault, path=path):
            faults.append(f"{path.relative_to(root.parent)}:{line}: {fault}")

        if layer(module) is None:
            report(1, f"{module} has no layer: give it one in tests/test_layering.py and doc/developing")
        if cython:
            imports = [(line, name, False) for line, name in cython_imports(path.read_text(), modules)]
        else:
            facts = python_facts(path.read_text(), modules)
            imports = facts.imports
            for line in facts.relative:
                report(line, "relative or star import")
            for line, name in facts.private:
                if module != "skboost._compat":
                    report(line, f"{name}: private scikit-learn names belong in _compat")
        for line, name, lazy in imports:
            if name.startswith("."):
                report(line, "relative import")
            elif name.split(".")[0] == "skboost":
                fault = edge_fault(module, name, modules)
                if name != module:
                    edges.setdefault(module, set()).add(name)
            else:
                fault = package_fault(module, name.split(".")[0], lazy, cython=cython)
            if not name.startswith(".") and fault:
                report(line, f"{module} {fault}")
    cycle = find_cycle(edges)
    # An upward import closes a ring by itself; one fault is enough.
    return faults or ([f"cycle: {' -> '.join(cycle)}"] if cycle else [])


def test_imports_point_down():
    assert SOURCES.is_dir()
    assert violations(SOURCES) == []


HOUSE = {
    "__init__.py": "from skboost._version import __version__\nfrom skboost.sglb import Booster\n",
    "_version.py": "__version__ = '1'\n",
    "_compat.py": "from sklearn.utils._tags import Tags\nimport narwhals\nimport sklearn\nsklearn.__version__\n",
    "_validation.py": "from skboost import _binning, _compat\n",
    "_binning.py": "import numpy as np\nfrom skboost._engine import binning\nfrom skboost._random import key\n",
    "_random.py": "import hashlib\n",
    "_uncertainty.py": "from skboost._engine.binning import f\n\n\ndef to_frame():\n    import pandas\n",
    "_engine/__init__.py": "",
    "_engine/binning.pyx": "from libc.math cimport exp\ncimport cython\nfrom skboost._engine.omp cimport (a,\n    b)\n",
    "_engine/omp.pxd": 'cdef extern from "x.h":\n    int a()\n',
    "sglb/__init__.py": "from skboost.sglb._estimators import Booster\n",
    "sglb/_chain.py": "from skboost import _binning\nfrom skboost.sglb._schedule import rate\n",
    "sglb/_schedule.py": "",
    "sglb/_estimators.py": "import sklearn.base\nfrom skboost import _validation\nfrom skboost.sglb import _chain\n",
    "ebm/__init__.py": "",
    "ebm/_stages.py": "import skboost._binning\n",
    "uncertainty/__init__.py": "from skboost.sglb import Booster\n",
    "lightgbm.py": "from skboost.sglb._estimators import Booster\n",
}


def build(folder, extra):
    root = folder / "skboost"
    for name, text in {**HOUSE, **extra}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_house_in_order_passes(tmp_path):
    assert violations(build(tmp_path, {})) == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("_binning.py", "from skboost.sglb import _chain\n", "imports point down"),
        ("_binning.py", "import skboost.sglb._chain\n", "imports point down"),
        ("_binning.py", "def f():\n    from skboost.sglb import Booster\n", "imports point down"),
        ("_binning.py", "from skboost import __version__\n", "imports point down"),
        ("_binning.py", "from skboost import _validation\n", "imports point down"),
        ("sglb/_chain.py", "from skboost.sglb._estimators import Booster\n", "imports point down"),
        ("sglb/_chain.py", "from skboost.ebm import _stages\n", "imports point down"),
        ("ebm/__init__.py", "from skboost.sglb import Booster\n", "imports point down"),
        ("sglb/_estimators.py", "from skboost.uncertainty import Virtual\n", "imports point down"),
        ("lightgbm.py", "from skboost.uncertainty import Virtual\n", "imports point down"),
        ("_random.py", "from skboost._binning import x\n", "cycle: skboost._binning -> skboost._random"),
        ("_random.py", "from skboost._missing import x\n", "which does not exist"),
        ("_random.py", "from . import _binning\n", "relative"),
        ("_random.py", "from numpy import *\n", "star"),
        ("_random.py", "import pandas\n", "outside a function"),
        ("_random.py", "class A:\n    import matplotlib.pyplot as plt\n", "outside a function"),
        ("_random.py", "def f():\n    import catboost\n", "no dependency"),
        ("_random.py", "from sklearn.utils._param_validation import Interval\n", "belong in _compat"),
        ("_random.py", "from sklearn.base import _fit_context\n", "belong in _compat"),
        ("_random.py", "import sklearn._loss\n", "belong in _compat"),
        ("_random.py", "import sklearn\nsklearn.__version__\n", "belong in _compat"),
        ("_random.py", "import sklearn.utils as u\nu.validation._num_samples(1)\n", "belong in _compat"),
        ("_random.py", "def f():\n    from sklearn import utils\n    return utils._x\n", "belong in _compat"),
        ("_engine/__init__.py", "from skboost import _binning\n", "knows only itself"),
        ("_engine/__init__.py", "import scipy\n", "not in the engine"),
        ("_engine/binning.pyx", "from skboost._binning import x\n", "knows only itself"),
        ("_engine/binning.pyx", "from sklearn.utils._typedefs cimport float64_t\n", "not in the engine"),
        ("_engine/binning.pyx", "cimport cython, openmp\n", "not in the engine"),
        ("_engine/binning.pyx", "def f():\n    import scipy.special\n", "not in the engine"),
        ("_engine/binning.pyx", "from . cimport omp\n", "relative"),
        ("_engine/omp.pxd", "from skboost._engine.binning cimport f\n", "cycle"),
        ("helpers/__init__.py", "", "has no layer"),
    ],
)
def test_a_wrong_edge_is_found(tmp_path, name, text, fault):
    found = violations(build(tmp_path, {name: text}))
    assert len(found) == 1
    assert fault in found[0]
