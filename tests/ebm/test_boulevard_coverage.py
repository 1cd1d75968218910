"""How often the intervals of Boulevard fits hold what they promise, on a simulation with a known additive truth.

Limits are those of the full simulations, widened for CI by three standard errors of a coverage, a replication counting
as eight independent cells.
"""

import math
import warnings

import numpy as np
import pytest

from skboost import EBMRegressor

SIGMA = 0.5
GRID = np.linspace(0.05, 0.95, 19)
# Settings of the simulations that the limits of joint updates come from.
JOINT = {"boulevard_update": "joint", "boulevard_subsample": 0.8, "boulevard_max_leaves": 32, "boulevard_max_bins": 66}
JOINT |= {"min_samples_leaf": 5, "l2_regularization": 1.0}


def shapes_of(X, jump=True):
    third = (X[:, 2] > 0.5) if jump else 1.5 * X[:, 2]
    return np.stack([np.sin(2 * np.pi * X[:, 0]), 2 * (X[:, 1] - 0.5) ** 2, third, 0 * X[:, 3]])


def draw(n, seed, correlation=0.0, jump=True):
    rng = np.random.default_rng(seed)
    if correlation:
        from scipy.stats import norm

        root = np.linalg.cholesky(np.full((4, 4), correlation) + (1 - correlation) * np.eye(4))
        X = norm.cdf(rng.normal(size=(n, 4)) @ root.T)
    else:
        X = rng.uniform(size=(n, 4))
    parts = shapes_of(X, jump)
    return X, parts, parts.sum(axis=0) + SIGMA * rng.normal(size=n)


class Simulation:
    """Coverage per term, and what else is asked of many fits."""

    def __init__(self, n, n_replications, *, jump=True, correlation=0.0, refit=False, conditional=False, **params):
        # the kernel is a mean over trees that converges soon; what CI runs is shorter
        rounds = {} if n_replications >= 200 else {"boulevard_rounds": 100}
        wide, plain, alone, ratios, prediction, rejected, noise = [], [], [], [], [], [], []
        for seed in range(n_replications):
            X, parts, y = draw(n, seed, correlation, jump)
            model = EBMRegressor(boulevard=True, interactions=0, random_state=seed, n_jobs=1, **rounds, **params)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                model.fit(X, y)
                if refit:
                    X, parts, y = draw(n, 10_000 + seed, correlation, jump)
                    model.honest_refit(X, y)
            noise.append(model.noise_variance_)
            adjusted, shapes = model.adjusted_noise_variance_, model.shape_functions()
            truth = shapes_of(np.repeat(GRID[:, None], 4, axis=1), jump) - parts.mean(axis=1)[:, None]
            cells = [shape.cell(GRID) for shape in shapes]
            keep = [~((t == 2) & jump & (np.abs(GRID - 0.5) < 1e-9)) for t in range(4)]
            errors = [np.abs(s.values[c] - f)[k] for s, c, f, k in zip(shapes, cells, truth, keep, strict=True)]
            spread = [1.96 * s.deviations[c][k] for s, c, k in zip(shapes, cells, keep, strict=True)]
            wide.append([np.mean(e < s) for e, s in zip(errors, spread, strict=True)])
            factor = math.sqrt(model.noise_variance_ / adjusted)
            plain.append([np.mean(e < factor * s) for e, s in zip(errors, spread, strict=True)])
            Xn, _, yn = draw(500, 20_000 + seed, correlation, jump)
            ends = model.predict_interval(Xn, kind="prediction")
            prediction.append(np.mean((ends[:, 0] < yn) & (yn < ends[:, 1])))
            rejected.append(
                [model.term_tests().pvalue[3] < 0.05, _with_plain_noise(model).term_tests().pvalue[3] < 0.05]
            )
            if conditional:
                mean = model.copy().honest_refit(X, parts.sum(axis=0)).shape_functions()
                scaled = [
                    (s.values[c] - m.values[c]) / (SIGMA * s.deviations[c] / math.sqrt(adjusted))
                    for s, m, c in zip(shapes, mean, cells, strict=True)
                ]
                alone.append(np.mean(np.abs(scaled) < 1.96, axis=1))
                ratios.append(np.mean(np.square(scaled), axis=1))
        self.adjusted, self.plain = np.mean(wide, axis=0), np.mean(plain, axis=0)
        self.prediction, self.noise = np.mean(prediction), np.mean(noise)
        self.rejected, self.rejected_plain = np.mean(rejected, axis=0)
        if conditional:
            self.conditional, self.variance_ratio = np.mean(alone, axis=0), np.mean(ratios, axis=0)
        self.slack = 0.0 if n_replications >= 200 else 3 * math.sqrt(0.05 * 0.95 / (8 * n_replications))


def _with_plain_noise(model):
    from dataclasses import replace

    again = model.copy()
    again._inference = replace(again._inference, adjusted=again._inference.noise)
    return again


def within(values, low, high, slack):
    return np.all((np.asarray(values) >= low - slack) & (np.asarray(values) <= high + slack))


SIZES = [12, pytest.param(200, marks=pytest.mark.slow)]


@pytest.mark.parametrize("n_replications", SIZES)
def test_defaults_cover(n_replications):
    found = Simulation(1000, n_replications, conditional=True)
    assert within(found.conditional, 0.93, 0.97, found.slack), found.conditional
    assert within(found.variance_ratio, 0.90, 1.12, 3 * found.slack), found.variance_ratio
    assert within(found.adjusted, 0.92, 0.97, found.slack), found.adjusted
    assert np.array_equal(found.adjusted, found.plain)
    assert within(found.prediction, 0.94, 0.96, found.slack / 3), found.prediction
    assert within(found.rejected, 0.01, 0.12, 2 * found.slack), found.rejected


@pytest.mark.parametrize("n_replications", SIZES)
def test_joint_updates_need_the_adjusted_noise(n_replications):
    found = Simulation(1000, n_replications, conditional=True, **JOINT)
    assert within(found.conditional, 0.93, 0.97, found.slack), found.conditional
    assert within(found.variance_ratio, 0.90, 1.12, 3 * found.slack), found.variance_ratio
    assert within(found.plain, 0.80, 0.91, found.slack), found.plain
    assert within(found.adjusted, 0.91, 0.98, found.slack), found.adjusted
    assert within(found.prediction, 0.94, 0.96, found.slack / 3), found.prediction
    assert within(found.rejected, 0.01, 0.12, 2 * found.slack), found.rejected
    assert found.rejected_plain > 0.5


@pytest.mark.parametrize("n_replications", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_greedy_cuts_do_not_cover_and_their_refit_does(n_replications):
    greedy = {**JOINT, "boulevard_structure": "greedy"}
    found = Simulation(1000, n_replications, **greedy)
    assert within(found.plain, 0.60, 0.78, found.slack), found.plain
    refitted = Simulation(1000, n_replications, refit=True, **greedy)
    assert within(refitted.adjusted, 0.91, 0.98, refitted.slack), refitted.adjusted
    assert within(refitted.plain, 0.80, 0.91, refitted.slack), refitted.plain


@pytest.mark.slow
def test_leave_one_out_with_refitted_greedy_cuts():
    params = {**JOINT, "boulevard_structure": "greedy", "boulevard_update": "leave_one_out"}
    found = Simulation(1000, 200, refit=True, **{**params, "l2_regularization": 0.0, "min_samples_leaf": 2})
    assert within(found.adjusted[1:], 0.92, 0.97, 0.0), found.adjusted


@pytest.mark.parametrize("n_replications", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_leave_one_out_covers_with_correlated_features_and_joint_updates_do_not(n_replications):
    found = Simulation(1000, n_replications, correlation=0.5)
    assert within(found.adjusted, 0.91, 0.97, found.slack), found.adjusted
    joint = Simulation(1000, n_replications, correlation=0.5, **JOINT)
    assert joint.adjusted.min() < 0.8


@pytest.mark.slow
def test_honest_halves_cover_and_their_test_is_conservative():
    found = Simulation(1000, 200, **{**JOINT, "boulevard_structure": "honest"})
    assert within(found.adjusted, 0.93, 0.99, 0.0), found.adjusted
    assert found.rejected <= 0.06


@pytest.mark.parametrize("params", [{}, JOINT], ids=["defaults", "joint"])
def test_noise_variance_is_nearly_unbiased(params):
    found = Simulation(2000, 6, jump=False, **params)
    # six estimates from 1700 residual degrees of freedom: standard error 1.4 %
    assert found.noise == pytest.approx(SIGMA**2, rel=0.05 + 0.03)
