"""The names that users import, and the shape of every constructor."""

import importlib.metadata
import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from public_objects import constructor_parameters, public_estimators, public_modules, required_parameters
from sklearn.base import ClassifierMixin, clone

import skboost

ESTIMATORS = public_estimators()
GUIDE = Path(__file__).parents[1] / "doc" / "user_guide" / "parameters.rst"
# The one argument of a constructor that may be given by position.
POSITIONAL = {"estimator", "kernel"}

BY_EVIDENCE = object()
SGLB_PARAMETERS = {
    "loss": {"SGLBRegressor": "squared_error", "SGLBClassifier": "log_loss"},
    "quantile": {"SGLBRegressor": None},
    "delta": {"SGLBRegressor": None},
    "power": {"SGLBRegressor": 1.5},
    "distribution": {"SGLBRegressor": None},
    "scale": {"SGLBRegressor": None},
    "n_estimators": 1000,
    "learning_rate": 0.1,
    "grow_policy": "symmetric",
    "max_depth": 6,
    "max_leaf_nodes": None,
    "min_samples_leaf": 1,
    "l2_regularization": 1.0,
    "max_bins": 255,
    "max_features": 1.0,
    "subsample": 1.0,
    "categorical_features": "from_dtype",
    "monotonic_cst": None,
    "interaction_cst": None,
    "posterior_sampling": True,
    "langevin": None,
    "diffusion_temperature": None,
    "model_shrink_rate": None,
    "model_shrink_mode": "constant",
    "leaf_estimation": "gradient",
    "averaging": BY_EVIDENCE,
    "noise_variance": {"SGLBRegressor": "auto"},
    "schedule": "constant",
    "cycle_length": 50,
    "gradient_scale_max": 10.0,
    "gradient_scale_min": 1.0,
    "exploration_fraction": 0.8,
    "bootstrap_fraction": None,
    "schedule_form": "clamp",
    "prior_split_rate": BY_EVIDENCE,
    "n_prior_cuts": BY_EVIDENCE,
    "cut_margin": BY_EVIDENCE,
    "early_stopping": False,
    "validation_fraction": 0.1,
    "n_iter_no_change": 10,
    "tol": 1e-7,
    "scoring": "loss",
    "warm_start": False,
    "class_weight": {"SGLBClassifier": None},
    "n_jobs": None,
    "random_state": None,
    "verbose": 0,
}
EBM_PARAMETERS = {
    "loss": {"EBMRegressor": "squared_error", "EBMClassifier": "log_loss"},
    "interactions": 10,
    "max_bins": 1024,
    "max_interaction_bins": 64,
    "exclude": None,
    "categorical_features": "from_dtype",
    "monotonic_cst": None,
    "missing": "separate",
    "learning_rate": {"EBMRegressor": 0.04, "EBMClassifier": 0.015},
    "max_rounds": 50000,
    "max_leaves": 2,
    "min_samples_leaf": 4,
    "min_hessian": {"EBMRegressor": 0.0, "EBMClassifier": 1e-4},
    "l2_regularization": 0.0,
    "outer_bags": 14,
    "validation_size": 0.15,
    "early_stopping_rounds": 100,
    "early_stopping_tolerance": 1e-5,
    "smoothing_rounds": {"EBMRegressor": 500, "EBMClassifier": 75},
    "interaction_smoothing_rounds": {"EBMRegressor": 100, "EBMClassifier": 75},
    "greedy_ratio": 10.0,
    "cyclic_progress": 0.0,
    "min_cat_samples": 10,
    "cat_smooth": 10.0,
    "gain_scale": 5.0,
    "purify": True,
    "power": {"EBMRegressor": 1.5},
    "trainer": "auto",
    "max_table_bytes": 2**30,
    "boulevard": False,
    "boulevard_update": {"EBMRegressor": "leave_one_out"},
    "boulevard_structure": {"EBMRegressor": "random"},
    "boulevard_rounds": {"EBMRegressor": 300},
    "boulevard_subsample": {"EBMRegressor": 1.0},
    "boulevard_learning_rate": {"EBMRegressor": 1.0},
    "boulevard_max_leaves": {"EBMRegressor": 48},
    "boulevard_max_bins": {"EBMRegressor": 64},
    "boulevard_max_interaction_bins": {"EBMRegressor": 16},
    "callback": None,
    "n_jobs": None,
    "random_state": None,
    "verbose": 0,
}
EBM_METHODS = ["fit", "predict", "score", "eval_terms", "predict_uncertainty", "predict_with_uncertainty"]
EBM_METHODS += ["shape_functions", "shape", "term_importances", "explain_global", "explain_local"]
EBM_METHODS += ["monotonize", "remove_terms", "remove_features", "scale_term", "sweep", "copy", "to_dict", "from_dict"]
SHAPE_FIELDS = ["features", "names", "axes", "values", "deviations", "weights", "classes", "interval"]
AXIS_FIELDS = ["feature", "name", "kind", "edges", "levels", "lower", "upper"]

SGLB_METHODS = ["fit", "predict", "score", "staged_predict", "apply"]
SGLB_METHODS += ["predict_virtual_ensembles", "predict_uncertainty"]
CLASSIFIER_METHODS = [
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "staged_predict_proba",
    "staged_decision_function",
]
UNCERTAINTY_FIELDS = ["mean", "knowledge", "data", "total", "support", "member_iterations"]


def sglb_estimators():
    return [cls for cls in ESTIMATORS.values() if cls.__name__ in {"SGLBRegressor", "SGLBClassifier"}]


def ebm_estimators():
    return [cls for cls in ESTIMATORS.values() if cls.__name__ in {"EBMRegressor", "EBMClassifier"}]


def contract_of(cls, table):
    """Return the parameters that a table of several estimators promises of one."""
    contract = {}
    for key, default in table.items():
        if not isinstance(default, dict):
            contract[key] = default
        elif cls.__name__ in default:
            contract[key] = default[cls.__name__]
    return contract


@pytest.mark.parametrize("module", public_modules(), ids=lambda module: module.__name__)
def test_all_lists_exactly_the_public_names(module):
    assert len(set(module.__all__)) == len(module.__all__)
    bound = {name for name, value in vars(module).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert bound <= set(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert [name for name in module.__all__ if name.startswith("_")] in ([], ["__version__"])


def test_version_is_that_of_the_installed_distribution():
    try:
        installed = importlib.metadata.version("scikit-boost")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("skboost is not installed")
    assert skboost.__version__ == installed


@pytest.mark.skipif("SKBOOST_TEST_INSTALLED" not in os.environ, reason="the installed package is not asked for")
def test_the_installed_package_is_tested():
    assert "site-packages" in Path(skboost.__file__).parts


def test_import_works_without_the_optional_packages():
    # An entry None makes an import fail as if the package were absent.
    code = "import sys; sys.modules.update(dict.fromkeys(['matplotlib', 'pandas', 'polars'])); import skboost"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_constructor_takes_keywords_and_stores_them_untouched(name):
    cls = ESTIMATORS[name]
    parameters = constructor_parameters(cls)
    by_position = [key for key, value in parameters.items() if value.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert set(by_position) <= POSITIONAL
    values = {key: object() for key in parameters}
    estimator = cls(**values)
    assert vars(estimator) == values
    assert {key: getattr(estimator, key) for key in parameters} == values


@pytest.mark.parametrize("name", ESTIMATORS)
def test_clone_of_the_defaults_has_the_defaults(name):
    parameters = constructor_parameters(ESTIMATORS[name])
    defaults = {key: value.default for key, value in parameters.items()}
    required = required_parameters(ESTIMATORS[name])
    params = clone(ESTIMATORS[name](**required)).get_params(deep=False)
    assert all(isinstance(params.pop(key), type(value)) and defaults.pop(key) for key, value in required.items())
    assert params == defaults


@pytest.mark.parametrize("cls", sglb_estimators())
def test_sglb_parameters_keep_the_contract(cls):
    parameters = constructor_parameters(cls)
    contract = contract_of(cls, SGLB_PARAMETERS)
    assert list(parameters) == [key for key in contract if key in parameters]
    defaults = {key: repr(value.default) for key, value in parameters.items() if contract[key] is not BY_EVIDENCE}
    assert defaults == {key: repr(contract[key]) for key in defaults}


@pytest.mark.parametrize("cls", sglb_estimators())
def test_sglb_methods_keep_the_contract(cls):
    wanted = SGLB_METHODS + (CLASSIFIER_METHODS if issubclass(cls, ClassifierMixin) else [])
    assert [name for name in wanted if not callable(getattr(cls, name, None))] == []
    for name in ("predict_virtual_ensembles", "predict_uncertainty"):
        assert inspect.signature(getattr(cls, name)).parameters["n_members"].default is None


@pytest.mark.parametrize("cls", ebm_estimators())
def test_ebm_parameters_keep_the_contract(cls):
    contract = contract_of(cls, EBM_PARAMETERS)
    found = {key: value.default for key, value in constructor_parameters(cls).items()}
    assert list(found) == list(contract)
    assert {key: repr(value) for key, value in found.items()} == {key: repr(value) for key, value in contract.items()}


@pytest.mark.parametrize("cls", ebm_estimators())
def test_ebm_methods_keep_the_contract(cls):
    wanted = EBM_METHODS + (CLASSIFIER_METHODS[:3] if issubclass(cls, ClassifierMixin) else [])
    assert [name for name in wanted if not callable(getattr(cls, name, None))] == []
    assert list(inspect.signature(cls.fit).parameters) == ["self", "X", "y", "sample_weight", "bags", "init_score"]
    for name in ("predict", "predict_uncertainty", "predict_with_uncertainty"):
        parameter = inspect.signature(getattr(cls, name)).parameters["init_score"]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY


def test_shapes_keep_the_contract():
    for cls, names in ((skboost.ebm.TermShape, SHAPE_FIELDS), (skboost.ebm.Axis, AXIS_FIELDS)):
        assert cls.__dataclass_params__.frozen
        assert [field.name for field in fields(cls)] == names


def test_uncertainty_fields_keep_the_contract():
    cls = skboost.Uncertainty
    assert is_dataclass(cls)
    assert cls.__dataclass_params__.frozen
    assert [field.name for field in fields(cls)] == UNCERTAINTY_FIELDS


@pytest.mark.parametrize("cls", sglb_estimators())
def test_table_of_the_guide_names_every_parameter(cls):
    in_table = set(re.findall(r"^   \* - ``(\w+)``", GUIDE.read_text(), re.MULTILINE))
    everywhere = set().union(*map(constructor_parameters, sglb_estimators()))
    assert set(constructor_parameters(cls)) - in_table == set()
    assert in_table - everywhere == set()
