"""Prior cuts, drawn splits, the variance of leaves without training rows, and support."""

import numpy as np
import pytest
from fit_cases import LOSSES, POLICIES, assert_same_predictions, make_data, make_estimator
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skboost import SGLBClassifier, SGLBRegressor, _uncertainty
from skboost._binning import BinMapper, prior_cuts
from skboost._forest import ForestBuilder
from skboost.sglb import _support

every_policy = pytest.mark.parametrize("grow_policy", POLICIES)


def far_away(X, distance=100.0):
    return np.full_like(X, np.nanmax(X) + distance)


def members_alone(model, X):
    """Return the decomposition over the members, as it would be without the variance of empty leaves."""
    raw = model._member_raw(X, 5)[1]
    if isinstance(model, SGLBClassifier):
        return _uncertainty.binary(raw[..., 0]) if raw.shape[-1] == 1 else _uncertainty.multinomial(raw)
    if model._loss.predicts_spread:
        return _uncertainty.gaussian(*model._loss.mean_variance(raw))
    return _uncertainty.regression(model._loss.inverse_link(raw[..., 0]))


# ---- training rows, and what lies elsewhere


@every_policy
@pytest.mark.parametrize("kind", ["none", "whole", "fractional"])
@pytest.mark.parametrize("loss", LOSSES)
def test_training_rows_have_full_support_and_no_variance(loss, kind, grow_policy):
    X, y = make_data(loss, n=150)
    rng = np.random.default_rng(1)
    X[:, 3] = rng.integers(0, 6, 150)
    weight = {"none": None, "whole": rng.integers(0, 4, 150), "fractional": rng.uniform(0.01, 3, 150)}[kind]
    params = {"grow_policy": grow_policy, "categorical_features": [3], "prior_split_rate": 0.4}
    model = make_estimator(loss, n_estimators=40, **params).fit(X, y, weight)
    seen = X if kind != "whole" else X[weight > 0]
    found, alone = model.predict_uncertainty(seen, 5), members_alone(model, seen)
    assert_array_equal(found.support, 1.0)
    for name in ("mean", "knowledge", "data", "total"):
        assert_array_equal(getattr(found, name), getattr(alone, name))
    strange = model.predict_uncertainty(far_away(X), 5)
    assert strange.support.max() < 1
    assert (strange.knowledge > members_alone(model, far_away(X)).knowledge).all()
    assert (strange.knowledge >= 0).all()
    if strange.total is not None:
        assert_array_equal(strange.total, strange.data + strange.knowledge)


@every_policy
def test_rows_of_weight_zero_are_no_data(grow_policy):
    X = np.concatenate([np.linspace(0, 1, 60), np.linspace(5, 6, 20)])[:, None]
    y, weight = np.sin(X[:, 0]), np.repeat([1.0, 0.0], [60, 20])
    model = make_estimator(n_estimators=60, grow_policy=grow_policy, prior_split_rate=0.5).fit(X, y, weight)
    assert_array_equal(model.predict_uncertainty(X[:60], 5).support, 1.0)
    assert model.predict_uncertainty(X[60:], 5).support.max() < 1


@every_policy
def test_knowledge_grows_in_a_gap_and_beyond_the_data(grow_policy):
    rng = np.random.default_rng(0)
    X = np.sort(np.concatenate([rng.uniform(0, 1, 150), rng.uniform(2, 3, 150)]))[:, None]
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=300)
    params = {"grow_policy": grow_policy, "diffusion_temperature": 10.0}
    model = SGLBRegressor(n_estimators=400, random_state=0, **params).fit(X, y)
    on_data = model.predict_uncertainty(X).knowledge
    gap = model.predict_uncertainty(np.linspace(1.2, 1.8, 50)[:, None])
    beyond = model.predict_uncertainty(np.array([[-1.4], [4.4], [50.0]]))
    assert gap.support.mean() < 0.999
    assert beyond.support.max() < 1
    assert gap.knowledge.mean() > 2 * on_data.mean()
    assert beyond.knowledge.min() > 3 * on_data.mean()


@every_policy
@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_unseen_categories_and_values_missing_for_the_first_time(loss, grow_policy):
    rng = np.random.default_rng(0)
    X, y = make_data(loss, n=200, missing=0)
    X[:, 0] = rng.integers(0, 8, 200)
    model = make_estimator(
        loss, n_estimators=150, grow_policy=grow_policy, categorical_features=[0], prior_split_rate=0.3
    ).fit(X, y)
    assert_array_equal(model.predict_uncertainty(X, 5).support, 1.0)
    for column, value in [(0, 99.0), (0, np.nan), (1, np.nan)]:
        changed = X.copy()
        changed[:, column] = value
        found = model.predict_uncertainty(changed, 5)
        assert found.support.max() < 1
        assert (found.knowledge > members_alone(model, changed).knowledge).all()


# ---- the recurrence by hand


@pytest.mark.parametrize("kind", ["symmetric", "general"])
def test_variance_of_three_trees_by_hand(kind):
    """eps 0.1, T 1, v 1, D0 1: an empty leaf adds 0.2; trees 1 and 3 have one on the left, all shrink by 0.9."""
    builder = ForestBuilder(kind, 1)
    for empty in (True, False, True):
        test = {"feature": [0], "threshold": [1], "missing_right": [0], "cat_set": [-1], "gain": [1.0]}
        children = {"table": [0, 1]} if kind == "symmetric" else {"left": [-1], "right": [-2]}
        builder.append(test | children | {"leaf_value": [0.0, 1.0], "leaf_weight": [0.0 if empty else 3.0, 5.0]})
    forest = builder.finish(0.0, [1.0, 0.9, 0.9])
    for n_rows in (1, 2, 300):
        codes = np.resize(np.array([[1, 2]], dtype=np.uint8), (1, n_rows))
        margins, variance, support = forest.support(codes, [1, 3], 0.2)
        assert_allclose(variance[::2], 0.2 * 0.9**2 * 0.9**2 + 0.2, rtol=1e-15)
        assert_allclose(variance[::2], 0.33122, rtol=1e-12)
        assert_allclose(support[::2], 1 / 3)
        assert_array_equal(variance[1::2], 0)
        assert_array_equal(support[1::2], 1)
        assert_array_equal(margins, forest.margins(codes, [1, 3]))


@every_policy
@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_variance_and_support_are_sums_over_the_leaves(loss, grow_policy):
    X, y = make_data(loss)
    X_new = np.concatenate([X, X * 3, far_away(X)])
    model = make_estimator(loss, n_estimators=50, grow_policy=grow_policy, learning_rate=0.3, prior_split_rate=0.5)
    model.fit(X, y)
    forest, leaves = model._forest, model.apply(X_new)
    empty = np.stack([forest.leaf_weight[forest.leaf_offset[t] + leaves[:, t]] == 0 for t in range(50)], axis=1)
    each = 0.3**2 * 2 * model.noise_variance_ / (0.3 * model.diffusion_temperature_) / 1.0
    expected = np.zeros(len(X_new))
    for t, factor in enumerate(model.shrink_factors_):
        expected = expected * factor**2 + each * empty[:, t]
    for rows in (slice(None), slice(3), slice(-3, None)):
        _, variance, support = forest.support((X_new[rows], model._mapper), [50], model._empty_variance)
        assert_allclose(variance, expected[rows], rtol=1e-12)
        assert_allclose(support, 1 - empty[rows].mean(axis=1), rtol=1e-12)
    assert 0 < empty.mean() < 1


@pytest.mark.parametrize(("l2", "D0"), [(0.0, 1.0), (0.5, 1.0), (7.0, 7.0)])
def test_prior_variance_of_a_leaf_follows_the_penalty(l2, D0):
    X, y = make_data("squared_error")
    model = make_estimator(l2_regularization=l2, noise_variance=3.0, diffusion_temperature=5.0).fit(X, y)
    assert model._empty_variance == pytest.approx(0.1**2 * 2 * 3.0 / (0.1 * 5.0) / D0, rel=1e-12)


# ---- switched off


@every_policy
@pytest.mark.parametrize("loss", LOSSES)
def test_without_drawn_splits_there_are_no_empty_leaves(loss, grow_policy):
    X, y = make_data(loss)
    off = make_estimator(loss, grow_policy=grow_policy, prior_split_rate=0).fit(X, y)
    same = make_estimator(loss, grow_policy=grow_policy, prior_split_rate=0, n_prior_cuts=0).fit(X, y)
    cuts = make_estimator(loss, grow_policy=grow_policy, prior_split_rate=0, n_prior_cuts=20).fit(X, y)
    assert_same_predictions(off, same, X)
    assert_array_equal(off._mapper.cuts, BinMapper().fit(X).cuts)
    for model in (off, cuts):
        assert model._forest.leaf_weight.min() > 0
        assert_array_equal(model.predict_uncertainty(far_away(X), 5).support, 1.0)
    # with few distinct values all old cuts remain, so that only cuts among cells without rows may move
    assert_allclose(cuts._forest.leaf_weight.sum(), len(X) * cuts.n_iter_)
    assert cuts._mapper.n_bins.min() > off._mapper.n_bins.max() or cuts._mapper.n_bins.max() == 256


def test_plain_boosting_has_no_prior_unless_asked():
    X, y = make_data("squared_error")
    plain = make_estimator(posterior_sampling=False).fit(X, y)
    assert plain._forest.leaf_weight.min() > 0
    asked = make_estimator(posterior_sampling=False, n_estimators=40, prior_split_rate=0.5).fit(X, y)
    found = asked.predict_uncertainty(far_away(X), 5)
    assert found.support.max() < 1
    assert_array_equal(found.knowledge, members_alone(asked, far_away(X)).knowledge)  # no noise, no variance


def test_a_margin_without_cuts_is_refused():
    X, y = make_data("squared_error")
    for params in ({"prior_split_rate": 0}, {"n_prior_cuts": 0}, {"posterior_sampling": False}):
        with pytest.raises(ValueError, match=r"cut_margin=0\.2 needs prior cuts.*n_prior_cuts or prior_split_rate"):
            make_estimator(cut_margin=0.2, **params).fit(X, y)


# ---- drawn splits


@pytest.mark.parametrize("grow_policy", ["symmetric", "depthwise"])
def test_all_splits_may_be_drawn(grow_policy):
    """Features are uniform; cuts are prior ones with chance 1/2, else any; the missing bin alone has chance 1/16."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(2000, 5)), rng.normal(size=2000)
    model = SGLBRegressor(
        n_estimators=600, max_depth=1, grow_policy=grow_policy, prior_split_rate=1, n_prior_cuts=10, max_bins=20,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    forest, n_values = model._forest, int(model._mapper.n_bins[0]) - 1
    extent = np.stack([X.min(axis=0), X.max(axis=0)], axis=1)
    assert len(forest.feature) == 600
    assert stats.chisquare(np.bincount(forest.feature, minlength=5)).pvalue > 0.001
    alone = (forest.threshold == n_values) & (forest.missing_right == 1)
    assert stats.binomtest(int(alone.sum()), 600, 1 / 16).pvalue > 0.001
    thresholds = np.stack([model._mapper.thresholds(j) for j in range(5)])
    cut = thresholds[forest.feature[~alone], forest.threshold[~alone] - 1]
    is_prior = [value in prior_cuts(*extent[j], 10, 0.5) for value, j in zip(cut, forest.feature[~alone], strict=True)]
    assert thresholds.shape[1] == n_values - 1 == 29
    assert stats.binomtest(sum(is_prior), len(cut), 0.5 + 0.5 * 10 / 29).pvalue > 0.001
    assert stats.binomtest(int(forest.missing_right[~alone].sum()), int((~alone).sum())).pvalue > 0.001


@every_policy
def test_share_of_drawn_splits(grow_policy):
    """On columns of which one alone has a signal, splits on the others are drawn."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 20))
    y = 10 * (X[:, 0] > 0.5)
    model = SGLBRegressor(
        n_estimators=400, max_depth=1, grow_policy=grow_policy, prior_split_rate=0.3, random_state=0,
        learning_rate=0.001, noise_variance=1e-6, diffusion_temperature=1e6,
    ).fit(X, y)  # fmt: skip
    drawn = int((model._forest.feature > 0).sum())
    assert stats.binomtest(drawn, 400, 0.3 * 19 / 20).pvalue > 0.001


@every_policy
def test_drawn_splits_keep_constraints(grow_policy):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 3))
    y = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=400)
    params = {"grow_policy": grow_policy, "prior_split_rate": 0.6, "n_estimators": 120, "l2_regularization": 0.0}
    model = make_estimator(monotonic_cst=[1, -1, 0], diffusion_temperature=0.5, **params).fit(X, y)
    line = np.linspace(-2, 3, 200)
    for column, sign in ((0, 1), (1, -1)):
        for _ in range(20):
            probe = np.tile(rng.uniform(-1, 2, 3), (200, 1))
            probe[:, column] = line
            assert (sign * np.diff(model.predict(probe)) >= -1e-12).all()
    model = make_estimator(interaction_cst=[{0}, {1, 2}], **params).fit(X, y)
    forest = model._forest
    for t in range(forest.n_trees):
        used = set(forest.feature[forest.node_offset[t] : forest.node_offset[t + 1]])
        if grow_policy == "symmetric":
            assert used <= {0} or used <= {1, 2}
    effect = model.predict(X[:1] * [0, 1, 1] + [0.9, 0, 0]) - model.predict(X[:1] * [0, 1, 1] + [0.1, 0, 0])
    other = model.predict(X[1:2] * [0, 1, 1] + [0.9, 0, 0]) - model.predict(X[1:2] * [0, 1, 1] + [0.1, 0, 0])
    assert_allclose(effect, other, atol=1e-9)


@every_policy
def test_leaves_without_second_derivative_keep_monotone_constraints(grow_policy):
    """Where all rows are sure and there is no penalty a Newton leaf takes no step, which may lie outside its bounds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.where(X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=80) > 0, "yes", "no")
    line = np.linspace(-8, 8, 200)
    params = {"grow_policy": grow_policy, "leaf_estimation": "newton", "l2_regularization": 0.0, "n_estimators": 30}
    params |= {"prior_split_rate": 1.0, "n_prior_cuts": 4, "learning_rate": 0.5, "max_depth": 5}
    for seed in range(6):
        model = SGLBClassifier(monotonic_cst=[1, -1, 0], diffusion_temperature=1, random_state=seed, **params).fit(X, y)
        for column, sign in ((0, 1), (1, -1)):
            for _ in range(5):
                probe = np.tile(rng.uniform(-2, 2, 3), (200, 1))
                probe[:, column] = line
                margin = sign * model.decision_function(probe)
                assert (np.diff(margin) >= -1e-12 * np.abs(margin).max()).all()


def test_cuts_among_cells_without_rows_are_spread():
    """A signal between two clusters: the lowest cut without a prior, any of those that part them with one."""
    X = np.repeat([0.0, 1.0], 50)[:, None]
    y = X[:, 0]
    seen = set()
    params = {"n_estimators": 1, "max_depth": 1, "posterior_sampling": False, "n_prior_cuts": 32}
    for seed in range(40):
        model = SGLBRegressor(random_state=seed, **params).fit(X, y)
        seen.add(float(model._mapper.thresholds(0)[model._forest.threshold[0] - 1]))
    assert min(seen) >= 0
    assert max(seen) < 1
    assert len(seen) >= 10


# ---- prior cuts of the bin mapper


def test_prior_cuts_are_spread_over_the_widened_range():
    X = np.array([[0.0, 7.0, np.nan], [1.0, 7.0, np.nan], [np.nan, 7.0, np.nan], [np.inf, 7.0, np.nan]])
    mapper = BinMapper(n_prior_cuts=5, cut_margin=0.5).fit(X)
    # a cut at the middle of 0 and 1, one between 1 and infinity, and five from -0.5 to 1.5, of which 0.5 is there
    assert_allclose([c for c in mapper.thresholds(0) if c < 1e300], [-0.5, 0.0, 0.5, 1.0, 1.5])
    assert len(mapper.thresholds(0)) == 6
    assert_array_equal(mapper.thresholds(1), [np.nextafter(7, 0), 7])
    assert len(mapper.thresholds(2)) == 0
    codes = mapper.transform_columns(np.array([[0.0, 6.9, 1], [0.0, 7, 1], [0.0, 7.1, 1]]))
    assert_array_equal(codes[1], [1, 2, 3])


@pytest.mark.parametrize(("max_bins", "n_prior_cuts"), [(255, 128), (255, 32), (255, 1), (2, 128), (100, 100)])
def test_cells_never_exceed_a_byte(max_bins, n_prior_cuts):
    X = np.random.default_rng(0).normal(size=(3000, 2))
    mapper = BinMapper(max_bins, n_prior_cuts).fit(X)
    assert mapper.n_bins.max() <= 256
    assert len(mapper.thresholds(0)) == min(max_bins, 255 - n_prior_cuts) - 1 + n_prior_cuts


@pytest.mark.parametrize(("low", "high"), [(-1e308, 1e308), (0.0, 5e-324), (1e308, 1.7e308), (1.0, np.nextafter(1, 2))])
@pytest.mark.parametrize("margin", [0.0, 0.5, 1e300])
def test_prior_cuts_are_finite_and_ascend(low, high, margin):
    for n_cuts in (1, 2, 7, 128):
        cuts = prior_cuts(low, high, n_cuts, margin)
        assert np.isfinite(cuts).all()
        assert (cuts[1:] > cuts[:-1]).all()
        assert 1 <= len(cuts) <= n_cuts


# ---- decompositions with an offset


def quadrature(margins, variance, n_nodes=200):
    """Total entropy and mean entropy of log-odds with a normal offset."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    weights = weights / weights.sum()
    z = margins[:, None] + nodes * np.sqrt(variance)
    p = 1 / (1 + np.exp(-z))

    def entropy(p):
        return -(p * np.log(p) + (1 - p) * np.log1p(-p))

    return entropy((p @ weights).mean()), (entropy(np.clip(p, 1e-300, 1 - 1e-16)) @ weights).mean()


@pytest.mark.parametrize("variance", [1e-4, 0.01, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("margins", [[0.0], [2.0, 2.5, 1.0], [-4.0, -3.0]])
def test_binary_decomposition_meets_the_quadrature(variance, margins):
    found = _support.binary(np.array(margins)[:, None], np.array([variance]))
    total, data = quadrature(np.array(margins), variance)
    # sixteen points see a little less of the tails than the normal law has
    assert found.total[0] == pytest.approx(total, rel=0.005 + 0.008 * variance)
    assert found.data[0] == pytest.approx(data, rel=0.005 + 0.008 * variance)
    assert found.knowledge[0] == pytest.approx(total - data, rel=0.06, abs=1e-12)


@pytest.mark.parametrize("variance", [0.01, 0.5, 2.0])
def test_multinomial_decomposition_meets_sampling(variance):
    rng = np.random.default_rng(0)
    margins = np.array([[[0.0, 1.0, -1.0]], [[0.5, 0.5, 0.0]]])
    found = _support.multinomial(margins, np.array([variance]))
    z = margins[:, 0, None, :] + np.sqrt(variance) * rng.normal(size=(1, 100_000, 3))
    p = np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)
    mean = p.mean(axis=(0, 1))
    total, data = -(mean * np.log(mean)).sum(), -(p * np.log(p)).sum(axis=2).mean()
    assert_allclose(found.mean[0], mean, atol=0.02)
    assert found.total[0] == pytest.approx(total, rel=0.02)
    assert found.knowledge[0] == pytest.approx(total - data, rel=0.2)


def test_no_variance_changes_no_bit():
    rng = np.random.default_rng(0)
    for decompose, plain, shape in (
        (_support.binary, _uncertainty.binary, (4, 50)),
        (_support.multinomial, _uncertainty.multinomial, (4, 50, 3)),
        (_support.regression, _uncertainty.regression, (4, 50)),
        (_support.log_link, _uncertainty.regression, (4, 50)),
    ):
        members = np.exp(rng.normal(size=shape))
        variance = np.where(np.arange(50) % 3 == 0, 0.7, 0.0)
        found, expected = decompose(members, variance), plain(members)
        for a, b in zip(found, expected, strict=True):
            if b is not None:
                assert_array_equal(a[variance == 0], b[variance == 0])
        assert (found.knowledge[variance > 0] > expected.knowledge[variance > 0]).all()


@pytest.mark.parametrize("variance", [1e-6, 0.1, 1.0, 3.0])
def test_log_link_has_the_moments_of_log_normal_factors(variance):
    means = np.array([1.0, 2.0, 4.0])
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    weights = weights / weights.sum()
    values = means[:, None] * np.exp(nodes * np.sqrt(variance))
    mean = (values @ weights).mean()
    found = _support.log_link(means[:, None], np.array([variance]))
    assert found.mean[0] == pytest.approx(mean, rel=1e-9)
    assert found.knowledge[0] == pytest.approx((values**2 @ weights).mean() - mean**2, rel=1e-6)
    huge = _support.log_link(np.full((2, 1), 1e10), np.array([1e9]))
    assert np.isfinite(huge.mean).all()
    assert np.isfinite(huge.knowledge).all()


def test_support_variance_has_the_unit_of_the_target():
    for loss in ("squared_error", "gaussian"):
        X, y = make_data(loss)
        probe = far_away(X)
        one = make_estimator(loss, n_estimators=40).fit(X, y).predict_uncertainty(probe, 5)
        other = make_estimator(loss, n_estimators=40).fit(X, y * 1024).predict_uncertainty(probe, 5)
        assert_array_equal(other.support, one.support)
        assert_allclose(other.knowledge, one.knowledge * 1024**2, rtol=1e-12)
