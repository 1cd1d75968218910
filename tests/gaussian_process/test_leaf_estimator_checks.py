"""scikit-learn's own checks on the meta-estimator over leaves, which fits a booster that is not fitted."""

import pytest
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

from skboost import EBMClassifier, EBMRegressor, LeafLaplaceUncertainty, SGLBClassifier, SGLBRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")

ADDITIVE = {"max_rounds": 30, "outer_bags": 1, "max_bins": 16, "interactions": 0}
VARIANTS = [
    LeafLaplaceUncertainty(SGLBRegressor(n_estimators=30)),
    LeafLaplaceUncertainty(SGLBClassifier(n_estimators=30), solver="sample", n_members=20),
    LeafLaplaceUncertainty(EBMRegressor(**ADDITIVE), prior="random_walk", prior_scale=1.0, centre="map"),
    LeafLaplaceUncertainty(EBMClassifier(**ADDITIVE), prior_scale=1.0),
]


@parametrize_with_checks(VARIANTS)
def test_variants(estimator, check):
    check(estimator)


# The checks of frames also transform the bare array.
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize("estimator", VARIANTS[:2], ids=["regressor", "classifier"])
@pytest.mark.parametrize(
    "check",
    [
        check_param_validation,
        check_dataframe_column_names_consistency,
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
    ],
)
def test_checks_that_scikit_learn_keeps_for_itself(estimator, check):
    check(type(estimator).__name__, estimator)
