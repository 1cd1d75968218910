#!/usr/bin/env bash
# Build the engine with the address and undefined-behaviour sanitizers in a copy of the sources and run the tests that
# exercise it. The first report ends the run. Arguments replace the default choice of tests (paths below tests/).
#   tools/sanitize.sh
#   tools/sanitize.sh engine/test_binning.py
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}" PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH

compiler=${CC:-gcc}
copy=$PWD/build/sanitize/source
venv=$PWD/build/sanitize/venv
mkdir -p "$copy"
# The copy keeps its own build folder; modules compiled in place for the normal package must not come along.
rm -rf "$copy/skboost" "$copy/tests"
find skboost tests -name '__pycache__' -prune -o -type f -not -name '*.so' -print0 | xargs -0 cp --parents -p -t "$copy"
cp -p setup.py pyproject.toml MANIFEST.in LICENSE "$copy"
for optional in README.md; do [[ ! -e $optional ]] || cp -p "$optional" "$copy"; done

[[ -x $venv/bin/python ]] || "${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" tools/requirements.py dev | grep -v pre-commit | xargs "$venv/bin/python" -m pip install --quiet
"$venv/bin/python" -m pip install --quiet scipy scikit-learn

cd "$copy"
SKBOOST_SANITIZE=address,undefined "$venv/bin/python" setup.py --quiet build_ext --inplace

# Python itself is not sanitized: the runtime has to be loaded first, and Python's own leaks are not ours.
preload=$("$compiler" -print-file-name=libasan.so)
if (($#)); then
    tests=("${@/#/tests/}")
else
    tests=(tests/engine)
    for file in tests/test_estimator_checks.py tests/sglb; do [[ ! -e $file ]] || tests+=("$file"); done
fi
# Reports go to file descriptor 2, which pytest must not swallow; Python's own allocator would hide overruns.
LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc PYTHONPATH=$copy \
    "$venv/bin/pytest" -p no:cacheprovider --capture=sys "${tests[@]}"
