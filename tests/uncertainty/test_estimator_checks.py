"""scikit-learn's own checks on the meta-estimator, as a regressor and as a classifier, by both methods."""

import pytest
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_estimator,
    check_inplace_ensure_writeable,
    check_param_validation,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_set_output_transform_polars,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

from skboost import SGLBClassifier, SGLBRegressor, VirtualEnsembleUncertainty

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")

REGRESSOR, CLASSIFIER = SGLBRegressor(n_estimators=30), SGLBClassifier(n_estimators=30)
VARIANTS = [
    VirtualEnsembleUncertainty(REGRESSOR),
    VirtualEnsembleUncertainty(CLASSIFIER),
    VirtualEnsembleUncertainty(SGLBRegressor(n_estimators=30, loss="gaussian"), n_members=5),
    VirtualEnsembleUncertainty(REGRESSOR, method="ensemble", n_members=2),
    VirtualEnsembleUncertainty(CLASSIFIER, method="ensemble", n_members=2),
    VirtualEnsembleUncertainty(REGRESSOR, calibration_fraction=0.2),
    VirtualEnsembleUncertainty(CLASSIFIER, calibration_fraction=0.2, conformity_score="aps"),
]


@parametrize_with_checks(VARIANTS)
def test_variants(estimator, check):
    check(estimator)


def test_literal_default():
    check_estimator(VirtualEnsembleUncertainty())


# The checks of frames also transform the bare array.
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
@pytest.mark.parametrize("estimator", VARIANTS[:2], ids=["regressor", "classifier"])
@pytest.mark.parametrize(
    "check",
    [
        check_param_validation,
        check_dataframe_column_names_consistency,
        check_inplace_ensure_writeable,
        check_set_output_transform,
        check_set_output_transform_pandas,
        check_set_output_transform_polars,
        check_transformer_get_feature_names_out,
        check_transformer_get_feature_names_out_pandas,
    ],
)
def test_checks_that_scikit_learn_keeps_for_itself(estimator, check):
    check(type(estimator).__name__, estimator)
