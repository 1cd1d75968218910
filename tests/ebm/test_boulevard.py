"""EBMRegressor with boulevard=True: what it offers, what it refuses, and that its terms are ordinary terms."""

import itertools
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from oracles import boulevard as oracle
from scipy.stats import chi2, norm
from sklearn.base import clone

import skboost.lightgbm
from skboost import EBMClassifier, EBMRegressor
from skboost.ebm._estimators_boulevard import FOREIGN, OWN


def signal(X):
    return np.sin(2 * np.pi * X[:, 0]) + 2 * (X[:, 1] - 0.5) ** 2 + (X[:, 2] > 0.5)


def draw(n=400, seed=0, n_features=4):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, n_features))
    return X, signal(X) + 0.5 * rng.normal(size=n)


def make(**params):
    return EBMRegressor(
        **{"boulevard": True, "interactions": 0, "boulevard_rounds": 60, "random_state": 0, "n_jobs": 1, **params}
    )


@pytest.fixture(scope="module")
def mains():
    return make().fit(*draw())


@pytest.fixture(scope="module")
def with_pairs():
    return make(interactions=[(0, 1), (2, 3)], boulevard_max_interaction_bins=8).fit(*draw())


@pytest.fixture(params=["mains", "with_pairs"])
def model(request):
    return request.getfixturevalue(request.param)


# ---- terms are ordinary terms


def test_terms_add_up_and_are_centred(model):
    X, y = draw()
    assert model.eval_terms(X).sum(axis=1) + model.intercept_ == pytest.approx(model.predict(X), abs=1e-12)
    assert model.intercept_ == pytest.approx(y.mean(), abs=1e-12)
    for scores, weights in zip(model.term_scores_, model.bin_weights_, strict=True):
        assert (scores * weights).sum() == pytest.approx(0, abs=1e-9)


def test_pairs_are_pure(with_pairs):
    for scores, weights in zip(with_pairs.term_scores_[4:], with_pairs.bin_weights_[4:], strict=True):
        for axis in (0, 1):
            assert (scores * weights).sum(axis=axis) == pytest.approx(0, abs=1e-8)


def test_purification_moves_scores_only():
    X, y = draw()
    pure, raw = (
        make(interactions=[(0, 1)], boulevard_max_interaction_bins=8, purify=p).fit(X, y) for p in (True, False)
    )
    assert pure.predict(X) == pytest.approx(raw.predict(X), abs=1e-10)
    assert np.abs(pure.term_scores_[0] - raw.term_scores_[0]).max() > 1e-3
    for kind in ("confidence", "prediction", "reproduction"):
        assert pure.predict_interval(X, kind=kind) == pytest.approx(raw.predict_interval(X, kind=kind), abs=1e-8)
    assert pure.degrees_of_freedom_ == pytest.approx(raw.degrees_of_freedom_, abs=1e-8)


def test_shapes_know_their_interval(model):
    for position, (shape, ends) in enumerate(zip(model.shape_functions(), model.shape_intervals(), strict=True)):
        errors = model.standard_errors_[position]
        assert shape.deviations.shape == shape.values.shape
        assert np.sort(shape.deviations, axis=None) == pytest.approx(np.sort(errors, axis=None))
        assert (shape.interval[1] - shape.interval[0]) / 2 == pytest.approx(norm.isf(0.025) * shape.deviations)
        assert shape.interval.mean(axis=0) == pytest.approx(shape.values)
        assert np.sort(ends[0], axis=None) == pytest.approx(np.sort(shape.interval[0], axis=None))
    assert EBMRegressor(max_rounds=5, outer_bags=2).fit(*draw()).shape(0).interval is None


def test_editing_and_what_is_then_known(model):
    X, _ = draw()
    edited = model.copy().monotonize("x2", increasing=True)
    assert edited.shape("x2").interval is None
    assert edited.shape("x0").interval is not None
    assert not edited.standard_deviations_[2].any()
    smaller = model.copy().remove_terms("x1")
    assert smaller.shape("x2").interval == pytest.approx(model.shape("x2").interval)
    fewer = model.copy().remove_features("x3")
    for changed in (edited, smaller, fewer, model.copy().scale_term(0, 2.0)):
        rows = X[:, : changed.n_features_in_]
        changed.predict(rows)
        with pytest.raises(ValueError, match="edited"):
            changed.predict_interval(rows)
        with pytest.raises(ValueError, match="edited"):
            changed.term_tests()
    assert model.copy().sweep().shape_intervals()[0] == pytest.approx(model.shape_intervals()[0])


def test_an_edited_intercept_is_an_edit(mains):
    edited = pickle.loads(pickle.dumps(mains))
    edited.intercept_ += 1.0
    for call in (lambda: edited.predict_interval(draw()[0]), edited.term_tests, lambda: edited.honest_refit(*draw())):
        with pytest.raises(ValueError, match="edited"):
            call()


def test_dictionary_keeps_the_terms_only(model):
    X, _ = draw()
    again = EBMRegressor.from_dict(json.loads(json.dumps(model.to_dict())))
    assert np.array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="boulevard=True"):
        again.shape_intervals()


def test_pickle_and_copy_keep_the_law(model):
    X, _ = draw()
    for again in (pickle.loads(pickle.dumps(model)), model.copy(), clone(model).fit(*draw())):
        assert np.array_equal(again.predict_interval(X), model.predict_interval(X))


def test_lightgbm_text_predicts_the_same(mains, tmp_path):
    X, _ = draw()
    skboost.lightgbm.dump(mains, tmp_path / "model.txt")
    assert skboost.lightgbm.load(tmp_path / "model.txt").predict(X) == pytest.approx(mains.predict(X), abs=1e-10)


def test_missing_values_and_categories():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(size=500), "b": pd.Categorical(rng.choice(list("uvwxyz"), 500))})
    y = frame["a"] + frame["b"].cat.codes + 0.1 * rng.normal(size=500)
    frame.loc[::5, "a"] = np.nan
    y[::5] += 2.0
    model = make(min_samples_leaf=1).fit(frame, y)
    shape = model.shape("a")
    assert shape.value(np.nan) > shape.values[:-1].max() + 0.5
    levels = model.shape("b")
    assert np.argsort(levels.values[:6]).tolist() == list(range(6))
    # with fewer levels than leaves every level is a leaf, and the fit is least squares
    assert np.diff([levels.value(level) for level in "uvwxyz"]) == pytest.approx(np.ones(5), abs=0.1)
    pairs = make(interactions=[("a", "b")], boulevard_max_interaction_bins=8).fit(frame, y)
    assert np.isfinite(pairs.predict_interval(frame)).all()


# ---- laws


@pytest.mark.parametrize("params", [{}, {"boulevard_subsample": 0.6}, {"boulevard_structure": "honest"}])
def test_order_of_rows_and_threads_do_not_matter(params):
    X, y = draw()
    X = np.round(X, 1)  # repeated rows
    order = np.random.default_rng(3).permutation(len(y))
    one = make(interactions=1, **params).fit(X, y)
    two = make(interactions=1, n_jobs=2, **params).fit(X[order], y[order])
    assert all(map(np.array_equal, one.term_scores_, two.term_scores_))
    assert all(map(np.array_equal, one.standard_errors_, two.standard_errors_))
    assert one.term_features_ == two.term_features_


@pytest.mark.parametrize("subsample", [1.0, 0.7])
def test_whole_weights_are_copies_and_zero_is_absence(subsample):
    X, y = draw()
    times = np.random.default_rng(1).integers(0, 4, len(y))
    params = {"boulevard_subsample": subsample}
    weighted = make(**params).fit(X, y, sample_weight=times)
    repeated = make(**params).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert all(map(np.array_equal, weighted.term_scores_, repeated.term_scores_))
    assert weighted.noise_variance_ == repeated.noise_variance_
    assert np.array_equal(weighted.predict_interval(X), repeated.predict_interval(X))
    with pytest.raises(ValueError, match="sample_weight must be whole numbers"):
        make().fit(X, y, sample_weight=times + 0.5)


# ---- numbers


def test_fit_equals_dense_algebra_of_its_structures():
    """Intervals of rows, from matrices of the size of the rows."""
    X, y = draw(150)
    model = make(boulevard_update="joint", boulevard_max_bins=10, boulevard_learning_rate=0.8).fit(X, y)
    codes, sizes = model._cells(X).astype(int), [len(scores) for scores in model.term_scores_]
    starts, leaves = np.concatenate([[0], np.cumsum(sizes)]), model._inference.leaves[0]
    counts = np.concatenate(model.bin_weights_)
    kernels = [oracle.kernel(leaves[:, a:b], counts[a:b], 0.0) for a, b in itertools.pairwise(starts)]
    weights = 1 / 150 + oracle.indicators(codes, sizes) @ oracle.row_weights(codes, sizes, kernels, 0.8)
    fitted = weights @ y
    assert model.predict(X) == pytest.approx(fitted, abs=1e-10)
    df1, df2 = np.trace(weights), (weights**2).sum()
    noise = ((y - fitted) ** 2).sum() / (150 - 2 * df1 + df2)
    assert model.noise_variance_ == pytest.approx(noise, rel=1e-10)
    adjusted = noise + (fitted.var() - noise * df2 / 150) / 1.8**2
    assert model.adjusted_noise_variance_ == pytest.approx(adjusted, rel=1e-10)
    spread = (weights**2).sum(axis=1)
    for kind, variance in {
        "confidence": adjusted * spread,
        "prediction": noise + adjusted * spread,
        "reproduction": 2 * adjusted * spread,
    }.items():
        ends = model.predict_interval(X, alpha=0.1, kind=kind)
        assert ends.mean(axis=1) == pytest.approx(fitted, abs=1e-10)
        assert np.diff(ends)[:, 0] / 2 == pytest.approx(norm.isf(0.05) * np.sqrt(variance), rel=1e-9)
    knowledge = model.predict_uncertainty(X)
    assert knowledge.knowledge == pytest.approx(adjusted * spread, rel=1e-9)
    assert knowledge.data == pytest.approx(np.full(150, noise))
    assert np.array_equal(knowledge.total, knowledge.data + knowledge.knowledge)
    assert model.predict_with_uncertainty(X)[:, 1] == pytest.approx(np.sqrt(adjusted * spread), rel=1e-9)


@pytest.mark.parametrize(("update", "purify"), [("joint", True), ("leave_one_out", False), ("leave_one_out", True)])
def test_law_of_pairs_and_purified_mains_by_pushing_unit_labels_through(update, purify):
    """A refit to the same rows is linear in the labels; unit labels give its matrix, and that the covariance."""
    X, y = draw(36)
    params = {"boulevard_update": update, "purify": purify, "boulevard_max_bins": 9, "boulevard_rounds": 9}
    model = make(interactions=[(0, 1), (2, 3)], boulevard_max_interaction_bins=5, **params).fit(X, y)
    columns, fitted = [], []
    for row in range(36):
        again = model.copy().honest_refit(X, np.eye(36)[row])
        columns.append(np.concatenate([scores.ravel() for scores in again.term_scores_]))
        fitted.append(again.predict(X))
    weights, hat = np.transpose(columns), np.transpose(fitted)
    assert model._inference.cov == pytest.approx(weights @ weights.T, abs=1e-10)
    assert np.concatenate([scores.ravel() for scores in model.term_scores_]) == pytest.approx(weights @ y, abs=1e-10)
    assert model.degrees_of_freedom_ == pytest.approx((np.trace(hat), (hat**2).sum()), abs=1e-8)
    half = np.diff(model.predict_interval(X))[:, 0] / 2
    wanted = norm.isf(0.025) * np.sqrt(model.adjusted_noise_variance_ * (hat**2).sum(axis=1))
    assert half == pytest.approx(wanted, rel=1e-8)


def test_term_tests_are_the_mean_squares(mains):
    tests = mains.term_tests()
    assert tests.term.tolist() == ["x0", "x1", "x2", "x3"]
    for t in range(4):
        share = mains.bin_weights_[t] / 400
        cov = (
            mains.adjusted_noise_variance_ * mains._inference.cov[mains._inference.block(t), mains._inference.block(t)]
        )
        e = np.linalg.eigvalsh(np.sqrt(share)[:, None] * cov * np.sqrt(share))
        a, dof = (e**2).sum() / e.sum(), e.sum() ** 2 / (e**2).sum()
        statistic = (share * mains.term_scores_[t] ** 2).sum() / a
        assert tests.statistic[t] == pytest.approx(statistic)
        assert tests.dof[t] == pytest.approx(dof)
        assert tests.pvalue[t] == pytest.approx(chi2.sf(statistic, dof), abs=1e-12)
    assert tests.pvalue[0] < 1e-10
    assert tests.pvalue[3] > 0.01


@pytest.mark.parametrize("update", ["joint", "leave_one_out"])
@pytest.mark.parametrize("structure", ["random", "honest"])
@pytest.mark.parametrize("column", [7.0, np.nan])
def test_a_column_without_variation_is_not_significant(column, structure, update):
    X, y = draw()
    X = np.column_stack([X[:, :2], np.full(len(X), column)])
    model = make(boulevard_structure=structure, boulevard_update=update).fit(X, y)
    tests = model.term_tests()
    assert tests.pvalue[0] < 1e-6
    assert (tests.statistic[2], tests.dof[2], tests.pvalue[2]) == (0.0, 0.0, 1.0)
    assert not model.term_scores_[2].any()
    assert not model.standard_errors_[2].any()


def test_leaves_too_large_to_cut_have_no_gap_and_no_effect():
    X, y = draw(5)
    model = make(boulevard_structure="honest", min_samples_leaf=4).fit(X, y)
    assert model.boulevard_gap_ == 0
    assert (model.term_tests().pvalue == 1).all()


def test_averages_far_from_their_limit_warn():
    X, y = draw()
    X = np.tile(X[:, :1], (1, 6))
    with pytest.warns(UserWarning, match=r"standard errors from the limit .* boulevard_structure='random'"):
        make(boulevard_structure="honest", boulevard_max_bins=16).fit(X, y)
    make(boulevard_max_bins=16).fit(X, y)


def test_simultaneous_bands_hold_the_whole_curve(mains):
    pointwise, simultaneous = mains.shape_intervals(), mains.shape_intervals(kind="simultaneous")
    fit = mains._inference
    draws = np.random.default_rng(9)
    for t in range(4):
        used = mains.bin_weights_[t] > 0
        ratio = (simultaneous[t][1] - simultaneous[t][0])[used] / (pointwise[t][1] - pointwise[t][0])[used]
        assert ratio == pytest.approx(np.full(used.sum(), ratio[0]))
        assert 1.3 < ratio[0] < 2
        cov = fit.cov[fit.block(t), fit.block(t)][np.ix_(used, used)]
        curves = draws.multivariate_normal(np.zeros(used.sum()), cov, 4000, check_valid="ignore")
        largest = np.abs(curves / np.sqrt(cov.diagonal())).max(axis=1)
        assert np.mean(largest < ratio[0] * norm.isf(0.025)) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize(
    ("bad", "message"), [(np.nan, "contains NaN"), (np.inf, "infinity"), ("a", "could not convert")]
)
def test_labels_of_calibration_are_validated(mains, bad, message):
    X, y = draw()
    y = np.array([bad, *y[1:]], dtype=object)
    with pytest.raises(ValueError, match=message):
        mains.predict_interval(X, kind="prediction", calibration=(X, y))


def test_calibrated_intervals_cover_the_calibration_rows(mains):
    X, y = draw(200, seed=5)
    y = y + np.random.default_rng(0).standard_t(2, 200)
    ends = mains.predict_interval(X, 0.1, "prediction", calibration=(X, y))
    assert np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])) == pytest.approx(181 / 200)
    assert np.isinf(mains.predict_interval(X, 0.05, "prediction", calibration=(X[:18], y[:18]))).all()
    assert np.isfinite(mains.predict_interval(X, 0.05, "prediction", calibration=(X[:19], y[:19]))).all()


# ---- refit


def test_refit_replays_the_structures(with_pairs):
    X, y = draw()
    assert with_pairs.copy().honest_refit(X, y).predict(X) == pytest.approx(with_pairs.predict(X), abs=1e-12)
    Xn, yn = draw(3000, seed=1)
    again = with_pairs.copy()
    assert again.honest_refit(Xn, yn) is again
    assert again.intercept_ == pytest.approx(yn.mean())
    assert again.bin_weights_[0].sum() == 3000
    assert np.array_equal(again._inference.leaves[0], with_pairs._inference.leaves[0])
    assert np.abs(again.predict(X) - with_pairs.predict(X)).max() > 0.01
    assert again.eval_terms(Xn).sum(axis=1) + again.intercept_ == pytest.approx(again.predict(Xn), abs=1e-12)


@pytest.mark.parametrize(
    "params",
    [
        {"boulevard_rounds": 61},
        {"boulevard_rounds": 2},
        {"boulevard_update": "joint", "boulevard_learning_rate": 2.0},
        {"l2_regularization": 9.0, "boulevard_subsample": 0.5},
        {"purify": False},
    ],
)
@pytest.mark.filterwarnings("ignore:.* cells of main effects hold none")
def test_refit_has_the_parameters_of_the_fit(with_pairs, params):
    X, y = draw(seed=5)
    wanted = pickle.loads(pickle.dumps(with_pairs)).honest_refit(X, y)
    model = pickle.loads(pickle.dumps(with_pairs)).set_params(**params).honest_refit(X, y)
    for ours, theirs in zip(model.shape_intervals(), wanted.shape_intervals(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert model.boulevard_gap_ == wanted.boulevard_gap_


def test_refit_warns_of_cells_without_rows(mains):
    X, y = draw(300, seed=1)
    X[:, 0] *= 0.5
    with pytest.warns(UserWarning, match="none of the new rows"):
        mains.copy().honest_refit(X, y)


def test_greedy_warns_and_its_refit_does_not():
    X, y = draw()
    with pytest.warns(UserWarning, match="boulevard_structure='greedy'.*lower bounds"):
        model = make(boulevard_structure="greedy").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.honest_refit(*draw(4000, seed=1))


def test_few_rounds_of_joint_updates_warn():
    with pytest.warns(UserWarning, match="boulevard_rounds=2 .* standard errors"):
        make(boulevard_update="joint", boulevard_rounds=2, boulevard_learning_rate=3.0).fit(*draw())


# ---- parameters do what they say


@pytest.mark.parametrize(
    "params",
    [
        {"boulevard_update": "joint"},
        {"boulevard_structure": "honest"},
        {"boulevard_rounds": 61},
        {"boulevard_subsample": 0.9},
        {"boulevard_max_leaves": 12},
        {"boulevard_max_bins": 32},
        {"min_samples_leaf": 30},
        {"l2_regularization": 3.0},
        {"random_state": 1},
    ],
)
def test_every_parameter_matters(mains, params):
    assert np.abs(make(**params).fit(*draw()).predict(draw()[0]) - mains.predict(draw()[0])).max() > 1e-6


def test_the_learning_rate_matters_to_joint_updates():
    X, y = draw()
    fits = [make(boulevard_update="joint", boulevard_learning_rate=rate).fit(X, y).predict(X) for rate in (1.0, 0.9)]
    assert np.abs(np.subtract(*fits)).max() > 1e-3


@pytest.mark.parametrize("rate", [0.5, 3])
def test_leave_one_out_updates_have_one_learning_rate(rate):
    with pytest.raises(ValueError, match=f"boulevard_update='leave_one_out' needs .* boulevard_learning_rate={rate}"):
        make(boulevard_learning_rate=rate).fit(*draw())


def test_pairs_are_those_of_the_interaction():
    X, y = draw(2000)
    y = y + 2.0 * ((X[:, 1] > 0.5) ^ (X[:, 3] > 0.5))
    model = make(interactions=1).fit(X, y)
    assert model.term_features_[-1] == (1, 3)
    assert model.term_tests().pvalue[-1] < 1e-10
    narrow = make(interactions=1, boulevard_max_interaction_bins=4).fit(X, y)
    assert narrow.term_scores_[-1].shape == (4, 4)
    alone = make(interactions=1, exclude="mains").fit(X, y)
    assert len(alone.term_features_) == 1
    assert np.isfinite(alone.predict_interval(X)).all()


def test_no_terms_at_all():
    X, y = draw()
    model = make(exclude="mains").fit(X, y)
    assert model.term_features_ == []
    assert model.predict(X) == pytest.approx(np.full(400, y.mean()))
    assert model.noise_variance_ == pytest.approx(y.var(ddof=1))
    half = np.diff(model.predict_interval(X))[:, 0] / 2
    assert half == pytest.approx(np.full(400, norm.isf(0.025) * np.sqrt(y.var(ddof=1) / 400)))


def test_verbose_tells_of_both_stages(capsys):
    make(interactions=1, verbose=1).fit(*draw())
    out = capsys.readouterr().out
    assert "start, main effects" in out
    assert "end, pairs" in out


def test_a_fit_without_boulevard_forgets_the_law(mains):
    model = mains.copy().set_params(boulevard=False, boulevard_rounds=300, max_rounds=5, outer_bags=2).fit(*draw())
    assert not hasattr(model, "noise_variance_")
    assert not hasattr(model, "standard_errors_")
    with pytest.raises(ValueError, match="boulevard=True"):
        model.shape_intervals()


# ---- refusals

OTHER_VALUES = {"monotonic_cst": [1, 0, 0, 0], "missing": "low", "trainer": "rows", "callback": print}


@pytest.mark.parametrize("name", FOREIGN)
def test_parameters_of_the_other_training_are_refused(name):
    value = OTHER_VALUES.get(name, 1 if name in ("outer_bags", "cyclic_progress") else 20)
    value = {"learning_rate": 0.5, "validation_size": 0.3, "max_leaves": 3}.get(name, value)
    with pytest.raises(ValueError, match=rf"{name}=.*boulevard=True"):
        make(**{name: value}).fit(*draw())


@pytest.mark.parametrize("name", OWN)
def test_own_parameters_need_boulevard(name):
    value = {"boulevard_update": "joint", "boulevard_structure": "greedy"}.get(name, 0.5)
    value = 50 if isinstance(EBMRegressor().get_params()[name], int) else value
    with pytest.raises(ValueError, match=f"{name}=.*boulevard=True"):
        EBMRegressor(**{name: value}).fit(*draw())


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_other_losses_are_refused(loss):
    X, y = draw()
    with pytest.raises(ValueError, match=r"boulevard=True.*loss"):
        make(loss=loss).fit(X, np.exp(y))


def test_classifier_refuses_with_the_reason():
    X, y = draw()
    with pytest.raises(ValueError, match=r"boulevard=True.*identity link"):
        EBMClassifier(boulevard=True).fit(X, y > 0)


def test_arguments_of_fit_are_refused():
    X, y = draw()
    with pytest.raises(ValueError, match=r"init_score.*boulevard=True"):
        make().fit(X, y, init_score=y)
    with pytest.raises(ValueError, match=r"bags.*boulevard=True"):
        make().fit(X, y, bags=np.ones((400, 14), dtype=int))


def test_fits_without_residual_degrees_of_freedom_are_refused():
    X = np.arange(5.0)[:, None]
    with pytest.raises(ValueError, match="n_samples=5"):
        make(min_samples_leaf=0).fit(X, X[:, 0])


def test_too_many_cells_are_refused_before_training():
    with pytest.raises(ValueError, match=r"max_table_bytes.*boulevard_max_bins"):
        make(max_table_bytes=10_000).fit(*draw())
    with pytest.raises(ValueError, match="max_table_bytes"):
        make(interactions=6, boulevard_max_interaction_bins=256).fit(*draw(3000))


@pytest.mark.parametrize("alpha", [0, 1, -0.1, "a", True])
def test_alpha_must_be_a_probability(mains, alpha):
    with pytest.raises(ValueError, match="alpha"):
        mains.shape_intervals(alpha)
    with pytest.raises(ValueError, match="alpha"):
        mains.predict_interval(draw()[0], alpha)


def test_unknown_kinds_are_refused(mains):
    X, y = draw()
    with pytest.raises(ValueError, match="kind"):
        mains.shape_intervals(kind="wide")
    with pytest.raises(ValueError, match="kind"):
        mains.predict_interval(X, kind="wide")
    with pytest.raises(ValueError, match="calibration"):
        mains.predict_interval(X, calibration=(X, y))


def test_a_target_without_noise():
    X, _ = draw()
    model = make().fit(X, np.full(400, 3.0))
    assert model.noise_variance_ == 0
    assert model.predict_interval(X) == pytest.approx(np.full((400, 2), 3.0))
    assert (model.term_tests().pvalue == 1).all()
