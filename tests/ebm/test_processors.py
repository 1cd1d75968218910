"""Whole fits in processes that believe to run on another processor: other kernels of BLAS, of NumPy and of ours."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fit_cases import EBM_LOSSES

import skboost

DIGESTS = """
import hashlib
import numpy as np
from fit_cases import EBM_LOSSES, ebm_parts, make_data, make_ebm
A = np.random.default_rng(0).normal(size=(50, 50))
print("blas", hashlib.sha256((A @ A).tobytes()).hexdigest())
for loss in EBM_LOSSES:
    X, y = make_data(loss, n=300)
    model = make_ebm(loss, interactions=4, max_rounds=20).fit(X, y)
    # The exponentials of predictions are NumPy's.
    told = {name: part for name, part in ebm_parts(model, X).items() if name not in ("predict", "knowledge")}
    for kind in ("avg_weight", "min_max", "std"):
        told[kind] = model.term_importances(kind)
    if loss != "multiclass":
        told["monotone"] = model.monotonize(0).term_scores_[0]
    digest = hashlib.sha256()
    for name in sorted(told):
        digest.update(name.encode() + np.ascontiguousarray(told[name]).tobytes())
    print(loss, digest.hexdigest())
"""


def digests(**environment):
    tests = Path(__file__).parents[1]
    roots = os.pathsep.join([str(Path(skboost.__file__).parents[1]), str(tests)])
    environment = os.environ | {"PYTHONPATH": roots} | environment
    command = [sys.executable, "-c", DIGESTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return dict(line.split() for line in done.stdout.splitlines())


def numpy_kernels(prefixes=""):
    """Names of the kernels that NumPy may choose on this processor beyond its baseline."""
    umath = pytest.importorskip("numpy._core._multiarray_umath")
    names = [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)]
    return " ".join(name for name in names if name.startswith(prefixes))


@pytest.mark.skipif(np.__config__.CONFIG["Machine Information"]["host"]["cpu"] != "x86_64", reason="names of x86")
def test_bits_do_not_depend_on_the_processor():
    # With AVX-512 the logarithms of NumPy are others, in the first intercepts of classes.
    new = digests(OPENBLAS_CORETYPE="Haswell", NPY_DISABLE_CPU_FEATURES=numpy_kernels(("X86_V4", "AVX512")))
    old = digests(
        OPENBLAS_CORETYPE="Prescott",
        OPENBLAS_NUM_THREADS="1",
        NPY_DISABLE_CPU_FEATURES=numpy_kernels(),
        SKBOOST_ISA="0",
    )
    assert set(new) == set(old) == {"blas", *EBM_LOSSES}
    if new.pop("blas") == old.pop("blas"):
        pytest.skip("this BLAS has one kernel for all processors")
    assert new == old
