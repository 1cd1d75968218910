"""Docstrings say what the code does: every parameter, every fitted attribute, true defaults, examples that run."""

import ast
import dataclasses
import doctest
import importlib
import inspect
import pkgutil
import re

import pytest
from public_objects import constructor_parameters, public_estimators, public_objects, small_fit

import skboost

docscrape = pytest.importorskip("numpydoc.docscrape")
validate = pytest.importorskip("numpydoc.validate")

# Checked groups: general layout, summary, parameters, returns.
CODES = re.compile("GL|SS|PR|RT")
# GL01 and GL02 want the summary below the quotes; RT02 forbids the names of several returned arrays.
NOT_OURS = {"GL01", "GL02", "RT02"}
NO_DEFAULT = inspect.Parameter.empty

OBJECTS = public_objects()
ESTIMATORS = public_estimators()
MODULES = [info.name for info in pkgutil.walk_packages(skboost.__path__, "skboost.")]


def own_members(cls):
    """Return the public methods and properties of a class that this package wrote."""
    members = {}
    for base in cls.__mro__:
        if base.__module__.startswith("sklearn") or base is object:
            continue
        for name, member in vars(base).items():
            if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                members.setdefault(name, getattr(cls, name))
    return members


def documented(text):
    """Return name -> type text, in order, of a list of numpydoc parameters; ``a, b : int`` counts as two."""
    return {name.strip(): item.type for item in text for name in item.name.split(",")}


def same_default(text, default):
    """Return whether the words after ``default=`` mean the default."""
    try:
        return ast.literal_eval(text) == default and type(ast.literal_eval(text)) is type(default)
    except (ValueError, SyntaxError):
        return text == repr(default)


def parameter_faults(parameters, types):
    """Compare the parameters of a signature with their documented names and types."""
    if list(types) != list(parameters):
        return [f"documented {list(types)}, signature {list(parameters)}"]
    faults = []
    for name, parameter in parameters.items():
        match = re.search(r"default=(.+?)\s*$", types[name])
        if parameter.default is NO_DEFAULT:
            faults += [f"{name}: documented default, but it has none"] if match else []
        elif match is None:
            faults.append(f"{name}: no default= at the end of {types[name]!r}")
        elif not same_default(match[1], parameter.default):
            faults.append(f"{name}: documented default {match[1]}, true default {parameter.default!r}")
    return faults


def attribute_faults(estimator):
    """Compare the public attributes that end with an underscore with the Attributes section."""
    cls = type(estimator)
    doc = docscrape.ClassDoc(cls)
    names = documented(doc["Attributes"])
    properties = [name for name in dir(cls) if isinstance(getattr(cls, name, None), property)]
    fitted = {
        name
        for name in [*vars(estimator), *properties]
        if name.endswith("_") and not name.startswith("_") and hasattr(estimator, name)
    }
    faults = [f"{name}: fitted but not documented" for name in sorted(fitted - set(names))]
    text = {item.name: " ".join(item.desc) for item in doc["Attributes"]}
    # What exists only under a condition says so.
    missing = [name for name in names if name.endswith("_") and name not in fitted and "only" not in text[name].lower()]
    return faults + [f"{name}: documented, absent after fit, and the text names no condition" for name in missing]


def numpydoc_faults(value, *, ignore=()):
    """Return the complaints of numpydoc in the checked groups."""
    errors = validate.validate(docscrape.get_doc_object(value))["errors"]
    return [f"{code} {text}" for code, text in errors if CODES.match(code) and code not in NOT_OURS | set(ignore)]


def object_faults(value):
    """Return every complaint about a public class or function and the public methods that are its own."""
    if not inspect.isclass(value):
        types = documented(docscrape.FunctionDoc(value)["Parameters"])
        return numpydoc_faults(value) + parameter_faults(inspect.signature(value).parameters, types)
    doc = docscrape.ClassDoc(value)
    # The fields of a dataclass may stand under Attributes, and fields need no default in their text.
    record = dataclasses.is_dataclass(value)
    faults = numpydoc_faults(value, ignore={"PR01"} if record else ())
    if record:
        names = set(documented(doc["Parameters"])) | set(documented(doc["Attributes"]))
        faults += [f"{field.name}: not documented" for field in dataclasses.fields(value) if field.name not in names]
    else:
        faults += parameter_faults(constructor_parameters(value), documented(doc["Parameters"]))
    for name, member in own_members(value).items():
        faults += [f"{name}: {fault}" for fault in numpydoc_faults(member)]
    return faults


def failed_examples(module):
    """Run the examples in the docstrings of a module; return how many failed and the report."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    report = []
    for example in doctest.DocTestFinder().find(module):
        runner.run(example, out=report.append)
    return runner.summarize(verbose=False).failed, "".join(report)


@pytest.mark.parametrize("name", OBJECTS)
def test_public_object_is_documented(name):
    assert object_faults(OBJECTS[name]) == []


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fitted_attributes_are_documented(name):
    assert attribute_faults(small_fit(ESTIMATORS[name])) == []


@pytest.mark.parametrize("name", ["skboost", *MODULES])
def test_examples_in_docstrings_run(name):
    failed, report = failed_examples(importlib.import_module(name))
    assert failed == 0, report


class Good:
    """Keep two numbers.

    Parameters
    ----------
    rate : float, default=0.5
        Step.
    mode : {"a", "b"}, default="a"
        Way.

    Attributes
    ----------
    rate_ : float
        Step in use.
    extra_ : float
        Only with mode "b".

    Examples
    --------
    >>> 1 + 1
    2
    """

    def __init__(self, *, rate=0.5, mode="a"):
        self.rate = rate
        self.mode = mode

    def fit(self, X):
        """Store the step.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Features.

        Returns
        -------
        Good
            The object itself.
        """
        self.rate_ = self.rate
        return self


def variant(**changes):
    """Return the class above with words of its docstrings replaced."""
    doc, fit_doc = Good.__doc__, Good.fit.__doc__
    for old, new in changes.pop("replace"):
        assert old in doc + fit_doc
        doc, fit_doc = doc.replace(old, new), fit_doc.replace(old, new)

    def fit(self, X):
        return Good.fit(self, X)

    fit.__doc__ = fit_doc
    return type("Good", (Good,), {"__doc__": doc, "fit": fit, "__module__": __name__, **changes})


def test_a_good_docstring_passes():
    assert object_faults(Good) == []
    assert attribute_faults(Good().fit(None)) == []


@pytest.mark.parametrize(
    ("replace", "fault"),
    [
        (("default=0.5", "default=0.1"), "rate: documented default 0.1"),
        (("default=0.5", "default=1"), "rate: documented default 1"),
        (('default="a"', "optional"), "mode: no default="),
        (('    mode : {"a", "b"}, default="a"\n        Way.\n', ""), "documented ['rate']"),
        (("    rate : float, default=0.5", "    speed : float, default=0.5"), "documented ['speed', 'mode']"),
        (("Keep two numbers.", "Keep two numbers"), "SS03"),
        (("Step.", "Step"), "PR09"),
        (("Features.", ""), "fit: PR07"),
        (("The object itself.", ""), "fit: RT03"),
    ],
)
def test_a_wrong_docstring_is_found(replace, fault):
    assert any(fault in found for found in object_faults(variant(replace=[replace])))


@pytest.mark.parametrize(
    ("replace", "fault"),
    [
        (("    rate_ : float\n        Step in use.\n", ""), "rate_: fitted but not documented"),
        (("Only with", "With"), "extra_: documented, absent"),
    ],
)
def test_a_wrong_attribute_list_is_found(replace, fault):
    assert [fault in found for found in attribute_faults(variant(replace=[replace])().fit(None))] == [True]


def test_a_missing_docstring_is_found():
    def predict(self, X):
        return X

    assert any("predict: GL08" in found for found in object_faults(variant(replace=[], predict=predict)))


def test_a_wrong_example_is_found():
    module = type(doctest)("examples", ">>> 1 + 1\n3\n")
    assert failed_examples(module)[0] == 1
