#!/usr/bin/env bash
# Run the estimator checks on several versions of scikit-learn, each in an environment of its own below build/.
#   tools/sklearn_matrix.sh                 the newest release of every supported minor version
#   tools/sklearn_matrix.sh 1.6.1 1.9.1     these versions
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}" PIP_DISABLE_PIP_VERSION_CHECK=1 SKBOOST_TEST_INSTALLED=1
unset PYTHONPATH

versions=("$@")
((${#versions[@]})) || versions=(1.6.1 1.7.2 1.8.0 1.9.1)

make wheel
root=$PWD
failed=()
for version in "${versions[@]}"; do
    venv=$root/build/venv-sklearn-$version
    printf '\n== scikit-learn %s\n' "$version"
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps build/wheel/*.whl
    "$venv/bin/python" -m pip install --quiet "$(echo build/wheel/*.whl)[test]" "scikit-learn==$version"
    "$venv/bin/python" -c "import sklearn; assert sklearn.__version__ == '$version', sklearn.__version__"
    (cd tests && "$venv/bin/pytest" -n auto -c ../pyproject.toml --rootdir=.. test_estimator_checks.py test_public_api.py) ||
        failed+=("$version")
done
if ((${#failed[@]})); then
    echo "failed on scikit-learn ${failed[*]}" >&2
    exit 1
fi
