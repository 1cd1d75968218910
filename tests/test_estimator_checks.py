"""scikit-learn's own checks: no failure and no expected failure, noise on."""

import pytest
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_estimator,
    check_inplace_ensure_writeable,
    check_param_validation,
    parametrize_with_checks,
)

from skboost import SGLBClassifier, SGLBRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")

VARIANTS = [
    SGLBRegressor(n_estimators=30),
    SGLBClassifier(n_estimators=30),
    SGLBRegressor(n_estimators=30, loss="gaussian"),
    SGLBRegressor(n_estimators=30, loss="poisson"),
    SGLBRegressor(n_estimators=30, grow_policy="depthwise", leaf_estimation="newton"),
    SGLBClassifier(n_estimators=30, grow_policy="lossguide", leaf_estimation="newton", averaging="mean"),
    SGLBRegressor(n_estimators=30, posterior_sampling=False, max_features=0.5, subsample=0.8),
    SGLBClassifier(n_estimators=30, early_stopping=True, diffusion_temperature=1.0),
]
DEFAULTS = [SGLBRegressor(), SGLBClassifier()]


@parametrize_with_checks(VARIANTS)
def test_variants(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", DEFAULTS, ids=repr)
def test_literal_defaults(estimator):
    check_estimator(estimator)


@pytest.mark.parametrize("estimator", DEFAULTS, ids=repr)
@pytest.mark.parametrize(
    "check", [check_param_validation, check_dataframe_column_names_consistency, check_inplace_ensure_writeable]
)
def test_checks_that_scikit_learn_keeps_for_itself(estimator, check):
    check(type(estimator).__name__, estimator)
