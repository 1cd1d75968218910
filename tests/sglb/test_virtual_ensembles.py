"""Members of virtual ensembles, the uncertainties made of them, and what they must look like on known data."""

import math

import numpy as np
import pytest
from fit_cases import CLASSIFICATION_LOSSES, LOSSES, POLICIES, REGRESSION_LOSSES, make_data, make_estimator
from oracles import uncertainty as oracle
from sklearn.metrics import roc_auc_score

import skboost._parallel
from skboost import SGLBClassifier, SGLBRegressor
from skboost._binning import BinMapper
from skboost._losses import make_loss
from skboost._sampling import row_hashes
from skboost._uncertainty import Uncertainty
from skboost.sglb._chain import Chain, Rows, TreeRules

SHRINK = {
    "posterior": {},
    "constant": {"posterior_sampling": False, "langevin": True, "model_shrink_rate": 0.7, "diffusion_temperature": 5.0},
    "decreasing": {
        "posterior_sampling": False,
        "langevin": True,
        "model_shrink_rate": 0.5,
        "model_shrink_mode": "decreasing",
        "diffusion_temperature": 5.0,
    },
}


@pytest.fixture
def many_threads(monkeypatch):
    """Let small work use as many threads as asked."""
    monkeypatch.setattr(skboost._parallel, "UPDATES_PER_THREAD", 1)


def point_prediction(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


# ---- members are stopped models


@pytest.mark.parametrize("n_jobs", [1, 4])
@pytest.mark.parametrize("shrink", SHRINK)
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_members_are_stopped_models(loss, grow_policy, shrink, n_jobs, many_threads):
    X, y = make_data(loss)
    X_new = make_data(loss, seed=1, n=50)[0]
    params = {"grow_policy": grow_policy, "n_jobs": n_jobs, "max_features": 0.75, "subsample": 0.7, **SHRINK[shrink]}
    model = make_estimator(loss, n_estimators=21, **params).fit(X, y)
    counts = model.predict_uncertainty(X_new, 5).member_iterations
    assert counts.tolist() == [13, 15, 17, 19, 21]
    members = model.predict_virtual_ensembles(X_new, 5)
    for count, member in zip(counts, members, strict=True):
        stopped = make_estimator(loss, n_estimators=count, **params).fit(X, y)
        np.testing.assert_array_equal(member, point_prediction(stopped, X_new))
        np.testing.assert_array_equal(stopped.shrink_factors_, model.shrink_factors_[:count])
    assert (members[0] != members[-1]).any()


@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_members_in_decreasing_mode_after_many_iterations(loss):
    X, y = make_data(loss)
    model = make_estimator(loss, n_estimators=100, **SHRINK["decreasing"]).fit(X, y)
    assert model.shrink_factors_[:3].tolist() == [1.0, 0.5, 0.75]
    stopped = make_estimator(loss, n_estimators=55, **SHRINK["decreasing"]).fit(X, y)
    assert model.predict_uncertainty(X, 10).member_iterations[0] == 55
    np.testing.assert_array_equal(model.predict_virtual_ensembles(X, 10)[0], point_prediction(stopped, X))


@pytest.mark.parametrize("loss", LOSSES)
def test_stages_are_stopped_models(loss):
    X, y = make_data(loss)
    for averaging in ("last", "mean"):
        model = make_estimator(loss, averaging=averaging).fit(X, y)
        stages = list(model.staged_predict(X))
        assert len(stages) == model.n_iter_ == 12
        for count in (1, 2, 5, 12):
            stopped = make_estimator(loss, n_estimators=count, averaging=averaging).fit(X, y)
            if averaging == "last" or hasattr(model, "classes_"):
                np.testing.assert_array_equal(stages[count - 1], stopped.predict(X))
            else:
                # Sums of states on the one side, one weighted pass on the other.
                scale = np.abs(stopped.predict(X)).max()
                np.testing.assert_allclose(stages[count - 1], stopped.predict(X), rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("loss", ["squared_error", "multiclass"])
def test_stages_of_the_mean_are_means_of_states_in_one_pass(loss, monkeypatch):
    X, y = make_data(loss)
    model = make_estimator(loss, n_estimators=301, averaging="mean", max_depth=2).fit(X, y)
    last = np.array(list(model.set_params(averaging="last")._staged_raw(X)))
    model.set_params(averaging="mean")
    binned, transform = [], BinMapper.transform_columns

    def spy(self, *args):
        binned.append(1)
        return transform(self, *args)

    monkeypatch.setattr(BinMapper, "transform_columns", spy)
    monkeypatch.setattr(type(model._forest), "margins", None)
    stages = list(model._staged_raw(X))
    monkeypatch.undo()
    assert len(binned) == 1
    assert len(stages) == 301
    for n_iter, stage in enumerate(stages, start=1):
        expected = last[n_iter - max(1, n_iter // 2) : n_iter].mean(axis=0)
        np.testing.assert_allclose(stage, expected, rtol=0, atol=1e-12 * np.abs(last).max())
    np.testing.assert_allclose(stages[-1], model._raw(X), rtol=0, atol=1e-12 * np.abs(last).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_averaging_is_a_switch_of_predictions(loss):
    X, y = make_data(loss)
    model, mean = make_estimator(loss).fit(X, y), make_estimator(loss, averaging="mean").fit(X, y)
    np.testing.assert_array_equal(model.set_params(averaging="mean")._raw(X), mean._raw(X))
    model.set_params(averaging="median")
    for method in (model.predict, lambda X: list(model.staged_predict(X))):
        with pytest.raises(ValueError, match=r"'averaging' parameter .* must be 'last' or 'mean', got 'median'"):
            method(X)


def test_a_loss_set_after_the_fit_changes_no_prediction():
    X, y = make_data("gaussian")
    model = make_estimator("gaussian").fit(X, y).set_params(loss="squared_error")
    assert len(model.predict_virtual_ensembles(X, 2, return_variance=True)) == 2
    other = make_estimator("squared_error").fit(X, y).set_params(loss="gaussian")
    with pytest.raises(
        ValueError,
        match=r"return_variance=True needs a loss of a whole distribution, .*, got loss='squared_error'",
    ):
        other.predict_virtual_ensembles(X, 2, return_variance=True)


@pytest.mark.parametrize("loss", ["binary", "multiclass"])
def test_log_probabilities_are_finite(loss):
    X = np.arange(60.0)[:, None]
    y = np.repeat([30, 10, 20], 20) if loss == "multiclass" else np.repeat([0, 1], 30)
    params = {"posterior_sampling": False, "leaf_estimation": "newton", "l2_regularization": 0.0, "learning_rate": 1.0}
    model = make_estimator(loss, n_estimators=900, **params).fit(X, y)
    log_p, p = model.predict_log_proba(X), model.predict_proba(X)
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p), p, rtol=1e-12, atol=1e-300)
    assert log_p.min() < -700 or p.min() > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_last_member_is_predict(loss):
    X, y = make_data(loss)
    model = make_estimator(loss).fit(X, y)
    for n_members in (1, 3, 6):
        np.testing.assert_array_equal(model.predict_virtual_ensembles(X, n_members)[-1], point_prediction(model, X))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_iter", [1, 2, 7, 12])
def test_averaging_is_the_mean_of_the_second_half(loss, n_iter):
    X, y = make_data(loss)
    last = make_estimator(loss, n_estimators=n_iter).fit(X, y)
    mean = make_estimator(loss, n_estimators=n_iter, averaging="mean").fit(X, y)
    states = np.array(list(last._staged_raw(X)))
    np.testing.assert_allclose(mean._raw(X), states[-max(1, n_iter // 2) :].mean(axis=0), rtol=1e-12, atol=1e-12)
    # The members stay states of the chain.
    if n_iter > 1:
        np.testing.assert_array_equal(mean.predict_virtual_ensembles(X, 1), last.predict_virtual_ensembles(X, 1))


@pytest.mark.parametrize(
    ("n_iter", "n_members", "counts"),
    [
        (100, 10, range(55, 101, 5)),
        (60, 10, range(33, 61, 3)),
        (21, 10, range(12, 22)),
        (20, 10, range(11, 21)),
        (2, 1, [2]),
    ],
)
def test_member_iterations(n_iter, n_members, counts):
    X, y = make_data("squared_error", n=40)
    model = make_estimator(n_estimators=n_iter).fit(X, y)
    result = model.predict_uncertainty(X, n_members)
    assert result.member_iterations.tolist() == list(counts)
    stages = np.array(list(model.staged_predict(X)))[np.array(counts) - 1]
    np.testing.assert_array_equal(model.predict_virtual_ensembles(X, n_members), stages)


def test_more_members_than_the_chain_has_are_refused_with_the_count_needed():
    X, y = make_data("squared_error", n=40)
    model = make_estimator(n_estimators=19).fit(X, y)
    for method in (model.predict_virtual_ensembles, model.predict_uncertainty):
        with pytest.raises(ValueError, match="n_members=10 needs at least 20 iterations, the model has 19"):
            method(X)


# ---- shapes


@pytest.mark.parametrize("loss", REGRESSION_LOSSES)
def test_shapes_of_regression(loss):
    X, y = make_data(loss, n=50)
    model = make_estimator(loss).fit(X, y)
    assert model.predict(X).shape == (50,)
    assert model.predict_virtual_ensembles(X, 6).shape == (6, 50)
    result = model.predict_uncertainty(X, 6)
    assert isinstance(result, Uncertainty)
    assert result.mean.shape == result.knowledge.shape == (50,)
    np.testing.assert_array_equal(result.support, 1.0)  # rows of the fit
    assert (result.data is None) == (result.total is None) == (loss != "gaussian")
    assert all(stage.shape == (50,) for stage in model.staged_predict(X))


@pytest.mark.parametrize(("loss", "n_classes"), [("binary", 2), ("multiclass", 3)])
def test_shapes_of_classification(loss, n_classes):
    X, y = make_data(loss, n=50)
    model = make_estimator(loss).fit(X, y)
    assert model.predict_virtual_ensembles(X, 6).shape == (6, 50, n_classes)
    result = model.predict_uncertainty(X, 6)
    assert result.mean.shape == (50, n_classes)
    assert result.knowledge.shape == result.data.shape == result.total.shape == (50,)
    assert model.decision_function(X).shape == ((50,) if n_classes == 2 else (50, 3))
    assert set(model.predict(X)) <= set(model.classes_)


def test_variances_of_members():
    X, y = make_data("gaussian")
    model = make_estimator("gaussian").fit(X, y)
    means, variances = model.predict_virtual_ensembles(X, 4, return_variance=True)
    np.testing.assert_array_equal(means, model.predict_virtual_ensembles(X, 4))
    assert variances.shape == means.shape == (4, len(X))
    assert (variances > 0).all()
    assert np.unique(variances).size > 4
    result = model.predict_uncertainty(X, 4)
    np.testing.assert_allclose(result.data, variances.mean(axis=0), rtol=1e-13)
    for loss in ("squared_error", "poisson"):
        other = make_estimator(loss).fit(*make_data(loss))
        with pytest.raises(ValueError, match="return_variance=True needs a loss of a whole distribution"):
            other.predict_virtual_ensembles(X, 4, return_variance=True)


# ---- decomposition


def expected_parts(model, X, n_members):
    """Return the oracle's (mean, knowledge, data or None) of every row from the members of the raw scores."""
    raw = model._member_raw(X, n_members)[1]
    for row in range(len(X)):
        members = raw[:, row]
        if model._loss.name == "gaussian":
            yield oracle.gaussian(*model._loss.mean_variance(members))[:3]
        elif raw.shape[2] > 1:
            yield oracle.classification(members.tolist())[:3]
        elif hasattr(model, "classes_"):
            yield oracle.binary(members[:, 0])[:3]
        else:
            yield *oracle.regression(model._loss.inverse_link(members[:, 0])), None


@pytest.mark.parametrize("temperature", [1.0, 1e6])
@pytest.mark.parametrize("loss", LOSSES)
def test_decomposition_of_the_members(loss, temperature):
    X, y = make_data(loss, n=60)
    model = make_estimator(loss, diffusion_temperature=temperature).fit(X, y)
    result = model.predict_uncertainty(X, 6)
    for row, (mean, knowledge, data) in enumerate(expected_parts(model, X, 6)):
        np.testing.assert_allclose(result.mean[row], mean, rtol=1e-12)
        np.testing.assert_allclose(result.knowledge[row], knowledge, rtol=1e-9, atol=1e-18)
        if data is not None:
            np.testing.assert_allclose(result.data[row], data, rtol=1e-12)
    assert (result.knowledge >= 0).all()
    if result.data is not None:
        np.testing.assert_array_equal(result.total, result.data + result.knowledge)
    np.testing.assert_allclose(
        result.mean, model.predict_virtual_ensembles(X, 6).mean(axis=0), rtol=1e-12, err_msg="mean of the members"
    )


@pytest.mark.parametrize("loss", CLASSIFICATION_LOSSES)
def test_entropies_are_bounded(loss):
    X, y = make_data(loss)
    result = make_estimator(loss, n_estimators=60, learning_rate=1.0, diffusion_temperature=0.1).fit(X, y)
    result = result.predict_uncertainty(X)
    n_classes = result.mean.shape[1]
    assert (result.data >= 0).all()
    assert (result.total <= math.log(n_classes) + 1e-12).all()
    np.testing.assert_allclose(result.mean.sum(axis=1), 1, rtol=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_single_member_knows_all(loss):
    X, y = make_data(loss)
    assert not make_estimator(loss).fit(X, y).predict_uncertainty(X, 1).knowledge.any()


@pytest.mark.parametrize("loss", LOSSES)
def test_uncertainty_of_a_row_depends_on_no_other_row(loss):
    X, y = make_data(loss)
    model = make_estimator(loss).fit(X, y)
    together = model.predict_uncertainty(X, 3)
    for row in (0, 17, len(X) - 1):
        alone = model.predict_uncertainty(X[row : row + 1], 3)
        assert alone.knowledge[0] == together.knowledge[row]
        np.testing.assert_array_equal(alone.mean[0], together.mean[row])


def test_members_that_are_not_finite_are_refused():
    X, y = make_data("squared_error")
    model = make_estimator().fit(X, y)
    broken = model._forest.to_dict()
    broken["arrays"]["leaf_value"][...] = np.nan
    model._forest = type(model._forest).from_dict(broken)
    with pytest.raises(ValueError, match="not finite"):
        model.predict_uncertainty(X, 2)


# ---- equivalences


def plain_rows(loss, y_name):
    X, y = make_data(y_name, n=150)
    mapper = BinMapper().fit(X)
    codes_col, codes_row = mapper.transform(X)
    y = np.unique(y, return_inverse=True)[1].astype(float) if y_name in CLASSIFICATION_LOSSES else y
    loss = loss.bind(y)
    hashes = row_hashes(codes_row, X.shape[1])
    return loss, Rows(
        codes_col, codes_row, mapper.n_bins, mapper.is_categorical, loss.to_internal(y), None, None, hashes
    )


@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize(
    ("loss", "y_name"),
    [
        (make_loss("squared_error"), "squared_error"),
        (make_loss("log_loss", 2), "binary"),
        (make_loss("log_loss", 3), "multiclass"),
        (make_loss("gaussian"), "gaussian"),
        (make_loss("poisson"), "poisson"),
    ],
)
def test_a_scaled_gradient_is_a_longer_and_colder_step(loss, y_name, grow_policy, newton):
    """(alpha 2, eps 0.05, T 1, gamma 0.01) equals (alpha 1, eps 0.1, T 2, gamma 0.005), bit for bit."""
    if newton and loss.constant_hessian:
        pytest.skip("Newton leaves are gradient leaves here")
    loss, rows = plain_rows(loss, y_name)
    base = loss.base_score(rows.y)
    found = []
    for alpha, eps, T in [(2.0, 0.05, 1.0), (1.0, 0.1, 2.0)]:
        rules = TreeRules(grow_policy, eps, 4, None, 3, 1.0, None, 1.0, None, None, newton, loss.leaf_curvature)
        chain = Chain(rows, loss, base, rules, 11, 1, math.sqrt(2 / (eps * T)))
        for t in range(15):
            chain.step(1.0 if t == 0 else 1 - 0.0005, alpha)
        found.append((chain.scores.copy(), chain.finish()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    for name in ("feature", "threshold", "leaf_value", "leaf_weight"):
        np.testing.assert_array_equal(getattr(found[0][1], name), getattr(found[1][1], name))
    np.testing.assert_array_equal(found[0][1].gain, 4 * found[1][1].gain)
    assert np.ptp(found[0][0]) > 0.1


def test_translation_of_the_target():
    X, y = make_data("squared_error")
    y = np.round(y * 1024) / 1024  # stays exact after the shift
    for loss in ("squared_error", "gaussian"):
        one = make_estimator(loss, n_estimators=40).fit(X, y)
        other = make_estimator(loss, n_estimators=40).fit(X, y + 1e6)
        np.testing.assert_allclose(other.predict(X), one.predict(X) + 1e6, rtol=1e-11)
        np.testing.assert_allclose(
            other.predict_uncertainty(X).knowledge, one.predict_uncertainty(X).knowledge, rtol=1e-6
        )


@pytest.mark.parametrize("scale", [1024.0, 2.0**-30, 2.0**100])
@pytest.mark.parametrize("noise_variance", [0.5, "auto"])
def test_scale_of_the_target(scale, noise_variance):
    X, y = make_data("squared_error")
    scaled = noise_variance if noise_variance == "auto" else noise_variance * scale**2
    one = make_estimator(n_estimators=20, noise_variance=noise_variance).fit(X, y)
    other = make_estimator(n_estimators=20, noise_variance=scaled).fit(X, y * scale)
    assert other.noise_variance_ == one.noise_variance_ * scale**2
    np.testing.assert_array_equal(other.predict(X), one.predict(X) * scale)
    np.testing.assert_array_equal(
        other.predict_uncertainty(X).knowledge, one.predict_uncertainty(X).knowledge * scale**2
    )


def test_scale_of_the_target_of_the_gaussian_loss():
    X, y = make_data("gaussian")
    one, other = (make_estimator("gaussian", n_estimators=20).fit(X, y * scale) for scale in (1.0, 1024.0))
    np.testing.assert_array_equal(other.predict(X), one.predict(X) * 1024)
    first, second = one.predict_uncertainty(X), other.predict_uncertainty(X)
    np.testing.assert_array_equal(second.knowledge, first.knowledge * 1024**2)
    np.testing.assert_array_equal(second.data, first.data * 1024**2)


def test_swapped_labels_swap_the_probabilities_of_plain_boosting():
    X, y = make_data("binary")
    params = {"posterior_sampling": False}
    one = make_estimator("binary", **params).fit(X, y == "yes")
    other = make_estimator("binary", **params).fit(X, y == "no")
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X)[:, ::-1])


# ---- real ensembles and data with a known gap


def spread_of_fits(make, X, y, X_new, n_fits=10):
    """Return (members of n_fits independent fits, knowledge in nats or units of y squared)."""
    members = np.array([point_prediction(make(seed).fit(X, y), X_new) for seed in range(n_fits)])
    if members.ndim == 2:
        return members, members.var(axis=0)
    mean = members.mean(axis=0)
    entropy = [-np.sum(p * np.log(np.maximum(p, 1e-300)), axis=-1) for p in (mean, members)]
    return members, entropy[0] - entropy[1].mean(axis=0)


def test_knowledge_grows_in_a_gap_of_the_data():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(0, 1, 150), rng.uniform(2, 3, 150)])[:, None]
    y = np.sin(4 * X[:, 0]) + 0.2 * rng.normal(size=300)
    gap = np.linspace(1.2, 1.8, 50)[:, None]

    def make(seed):
        return SGLBRegressor(n_estimators=300, min_samples_leaf=5, diffusion_temperature=1.0, random_state=seed)

    knowledge = spread_of_fits(make, X, y, np.concatenate([gap, X]))[1]
    assert knowledge[:50].mean() > knowledge[50:].mean()


def make_spiral(seed, n_per_class=1500, noise=0.4):
    """Three arms of points, nine columns of sums and differences of the two coordinates."""
    rng = np.random.RandomState(seed)  # the published data are drawn like this
    points, labels = [], []
    for label in range(3):
        t = 6 * np.pi * np.sqrt(rng.rand(n_per_class))
        turn = 2 * np.pi * label / 3
        x = -(t**2) * np.cos(t + turn) + noise * t**1.5 * rng.randn(n_per_class)
        y = t**2 * np.sin(t + turn) + noise * t**1.5 * rng.randn(n_per_class)
        points.append(np.stack([x, y], axis=1))
        labels.append(np.full(n_per_class, label))
    return np.concatenate(points), np.concatenate(labels)


def spiral_columns(points):
    x, y = points.T
    return np.stack([x, y, x + y, x - y, 2 * x + y, x - 2 * y, x + 2 * y, 2 * x - y, np.hypot(x, y)], axis=1)


@pytest.mark.slow
def test_knowledge_on_the_spiral():
    train, labels = make_spiral(24)
    inside, inside_labels = make_spiral(51)
    grid = np.stack(np.meshgrid(*[np.linspace(-600, 600, 60)] * 2), axis=-1).reshape(-1, 2)
    distance = np.sqrt(((grid[:, None] - train[None]) ** 2).sum(axis=2)).min(axis=1)
    outside = grid[distance > 30]
    X_new = spiral_columns(np.concatenate([inside, outside]))
    far = np.concatenate([np.zeros(len(inside), dtype=bool), np.hypot(*outside.T) >= 400])
    is_in = np.arange(len(X_new)) < len(inside)
    X = spiral_columns(train)

    # As the reference sampler: nodes split on their own, down to single rows, and steps of -0.1 G / (W + 3). Leaves
    # of three classes divide by 4/9 W + lambda, so both numbers are multiplied by that.
    unit = 4 / 9
    params = {"grow_policy": "depthwise", "max_bins": 128, "min_samples_leaf": 1, "l2_regularization": 3.0 * unit}
    params["diffusion_temperature"] = 10.0

    def make(seed):
        return SGLBClassifier(n_estimators=1000, learning_rate=0.1 * unit, random_state=seed, **params)

    members, knowledge = spread_of_fits(make, X, labels, X_new)
    assert knowledge[far].mean() / knowledge[is_in].mean() > 2.5
    assert roc_auc_score(~is_in, knowledge) > 0.8
    assert np.mean(members.mean(axis=0)[is_in].argmax(axis=1) == inside_labels) > 0.85
    virtual = SGLBClassifier(n_estimators=2000, learning_rate=0.05 * unit, random_state=0, **params).fit(X, labels)
    virtual_knowledge = virtual.predict_uncertainty(X_new).knowledge
    assert virtual_knowledge[far].mean() / virtual_knowledge[is_in].mean() > 1.3
    assert roc_auc_score(~is_in, knowledge) >= roc_auc_score(~is_in, virtual_knowledge)
