# Two commands set up everything on a fresh machine with Python and a C compiler:
#   make demo    run examples/quickstart.py, which prints a table and saves quickstart.png here
#   make test    run the test suite against the installed package
# Also: make wheel (build/wheel), make lint, make doc (doc/_build/html), make clean. PYTHON=... chooses the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

export OMP_WAIT_POLICY ?= PASSIVE
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1
unexport PYTHONPATH

SOURCES := setup.py pyproject.toml $(wildcard README.md LICENSE MANIFEST.in) \
	$(shell find skboost -name '*.py' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pyi' -o -name '*.h' -o -name py.typed)
# A folder changes when a file in it comes or goes.
FOLDERS := $(shell find skboost -type d -not -name '__pycache__')

.PHONY: demo test wheel lint doc clean

demo: $(VENV)/.plot
	$(BIN)/python examples/quickstart.py

# From tests/ the uncompiled ./skboost cannot be imported; SKBOOST_TEST_INSTALLED makes a test check that it was not.
# ARGS goes to pytest: make test ARGS="-k weight".
test: $(VENV)/.test
	cd tests && SKBOOST_TEST_INSTALLED=1 MPLBACKEND=Agg ../$(BIN)/pytest -n auto -c ../pyproject.toml --rootdir=.. . $(ARGS)

doc: $(VENV)/.doc
	MPLBACKEND=Agg $(BIN)/sphinx-build -W --keep-going -q -b html doc doc/_build/html

lint: $(VENV)/.lint
	PATH="$(CURDIR)/$(VENV)/lint/bin:$$PATH" && ruff check . \
		&& find skboost \( -name '*.pyx' -o -name '*.pxd' \) -print0 | xargs -0 cython-lint \
		&& find skboost \( -name '*.pyx' -o -name '*.pxd' \) -print0 | xargs -0 double-quote-cython-strings

wheel: build/wheel/.built

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One compilation serves every environment. Files left in build/ from earlier would go into the wheel although
# their source is gone; compiled modules stay, so that only changed ones are compiled again.
build/wheel/.built: $(SOURCES) $(FOLDERS) | $(BIN)/python
	mkdir -p build && find build -path 'build/lib.*' -type f -not -name '*.so' -delete
	rm -rf build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	touch $@

# An extra of the package: the wheel itself anew, then what the extra asks for.
$(VENV)/.plot $(VENV)/.test $(VENV)/.doc: $(VENV)/.%: build/wheel/.built
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps build/wheel/*.whl
	$(BIN)/python -m pip install --quiet "$$(echo build/wheel/*.whl)[$*]"
	touch $@

$(VENV)/.lint: pyproject.toml tools/requirements.py | $(BIN)/python
	$(PYTHON) -m venv $(VENV)/lint
	$(BIN)/python tools/requirements.py lint | xargs $(VENV)/lint/bin/python -m pip install --quiet
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info quickstart.png
	rm -rf doc/_build doc/api/generated doc/auto_examples doc/sg_execution_times.rst
	find skboost tests examples doc -name '__pycache__' -type d -prune -exec rm -rf {} +
	find skboost -name '*.so' -delete
