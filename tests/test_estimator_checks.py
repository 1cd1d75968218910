"""scikit-learn's own checks: no failure and no expected failure, noise and bags on."""

import pytest
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_estimator,
    check_inplace_ensure_writeable,
    check_param_validation,
    parametrize_with_checks,
)

from skboost import (
    BoulevardRegressor,
    EBMClassifier,
    EBMRegressor,
    LaplaceGPClassifier,
    SGLBClassifier,
    SGLBRegressor,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
    # Thirty rounds on tables of a few rows are far from the limit, and say so.
    pytest.mark.filterwarnings("ignore:After boulevard_rounds=30"),
]

VARIANTS = [
    SGLBRegressor(n_estimators=30),
    SGLBClassifier(n_estimators=30),
    SGLBRegressor(n_estimators=30, loss="gaussian"),
    SGLBRegressor(n_estimators=30, loss="poisson"),
    SGLBRegressor(n_estimators=20, loss="absolute_error"),
    SGLBRegressor(n_estimators=20, loss="quantile", quantile=[0.1, 0.5, 0.9], grow_policy="lossguide"),
    SGLBRegressor(n_estimators=20, loss="huber"),
    SGLBRegressor(n_estimators=20, loss="pseudo_huber", leaf_estimation="newton"),
    SGLBRegressor(n_estimators=60, loss="expectile", quantile=0.8),
    SGLBRegressor(n_estimators=20, loss="gamma"),
    SGLBRegressor(n_estimators=20, loss="tweedie", power=1.2, leaf_estimation="newton"),
    SGLBRegressor(n_estimators=30, loss="cox"),
    SGLBRegressor(n_estimators=30, loss="aft", distribution="logistic", leaf_estimation="newton"),
    SGLBRegressor(n_estimators=30, loss="normal", leaf_estimation="newton"),
    SGLBRegressor(n_estimators=30, loss="lognormal"),
    SGLBRegressor(n_estimators=30, loss="laplace"),
    SGLBRegressor(n_estimators=30, loss="gamma_distribution"),
    SGLBRegressor(n_estimators=30, loss="poisson_distribution"),
    SGLBRegressor(n_estimators=30, loss="negative_binomial"),
    SGLBRegressor(n_estimators=30, grow_policy="depthwise", leaf_estimation="newton"),
    SGLBClassifier(n_estimators=30, grow_policy="lossguide", leaf_estimation="newton", averaging="mean"),
    SGLBRegressor(n_estimators=30, posterior_sampling=False, max_features=0.5, subsample=0.8),
    SGLBClassifier(n_estimators=30, early_stopping=True, diffusion_temperature=1.0),
    EBMRegressor(max_rounds=30, outer_bags=3, trainer="tables"),
    EBMRegressor(max_rounds=30, outer_bags=3, trainer="rows", interactions="2x", n_jobs=2),
    EBMClassifier(max_rounds=30, outer_bags=3, trainer="tables", interactions=0),
    EBMClassifier(max_rounds=30, outer_bags=3, trainer="rows", greedy_ratio=0.0, max_leaves=3),
    EBMRegressor(max_rounds=30, outer_bags=1, validation_size=0, loss="poisson"),
    EBMClassifier(max_rounds=30, outer_bags=1, validation_size=0, purify=False),
    EBMRegressor(max_rounds=30, outer_bags=2, loss="gamma", validation_size=0.3, missing="gain"),
    EBMRegressor(max_rounds=30, outer_bags=2, loss="tweedie", exclude="mains"),
    EBMRegressor(boulevard=True, boulevard_rounds=30, boulevard_max_bins=20, interactions=0),
    EBMRegressor(boulevard=True, boulevard_max_interaction_bins=6, boulevard_update="joint", interactions=2, n_jobs=2),
    EBMRegressor(
        boulevard=True, boulevard_rounds=30, boulevard_structure="honest", boulevard_subsample=0.8, interactions=0
    ),
    LaplaceGPClassifier(link="logit"),
    LaplaceGPClassifier(approximation="ep", max_iter_predict=30),
    BoulevardRegressor(n_estimators=30, structure="honest", solver="cg", dropout=0.3),
    BoulevardRegressor(n_estimators=10, method="parallel", structure="greedy", solver="nystrom"),
    BoulevardRegressor(n_estimators=30, calibration_fraction=0.2, noise_variance="held_out"),
]
DEFAULTS = [
    SGLBRegressor(),
    SGLBClassifier(),
    EBMRegressor(),
    EBMClassifier(),
    LaplaceGPClassifier(),
    BoulevardRegressor(),
]


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
