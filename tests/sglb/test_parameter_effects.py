"""Every parameter does what it says: a changed value changes the model, and limits are kept."""

import numpy as np
import pytest
from fit_cases import LOSSES, POLICIES, assert_same_predictions, differ, make_data, make_estimator

from skboost import SGLBRegressor
from skboost.sglb._chain import Chain

# ---- no parameter is accepted and ignored

CHANGES = {
    "loss": {"loss": "poisson"},
    "n_estimators": {"n_estimators": 11},
    "learning_rate": {"learning_rate": 0.2},
    "grow_policy": {"grow_policy": "lossguide"},
    "max_depth": {"max_depth": 2},
    "max_leaf_nodes": {"grow_policy": "depthwise", "max_leaf_nodes": 3},
    "min_samples_leaf": {"min_samples_leaf": 20},
    "l2_regularization": {"l2_regularization": 30.0},
    "max_bins": {"max_bins": 5},
    "max_features": {"max_features": 0.5},
    "subsample": {"subsample": 0.5},
    "categorical_features": {"categorical_features": [0]},
    "monotonic_cst": {"monotonic_cst": [-1, 0, 0, 0]},
    "interaction_cst": {"interaction_cst": "no_interactions"},
    "posterior_sampling": {"posterior_sampling": False},
    "langevin": {"posterior_sampling": False, "langevin": True},
    "diffusion_temperature": {"diffusion_temperature": 1.0},
    "model_shrink_rate": {"posterior_sampling": False, "model_shrink_rate": 0.5},
    "model_shrink_mode": {
        "posterior_sampling": False,
        "model_shrink_rate": 0.5,
        "model_shrink_mode": "decreasing",
    },
    "leaf_estimation": {"leaf_estimation": "newton"},
    "averaging": {"averaging": "mean"},
    "prior_split_rate": {"prior_split_rate": 0.5},
    "n_prior_cuts": {"n_prior_cuts": 5},
    "cut_margin": {"cut_margin": 3.0},
    "noise_variance": {"noise_variance": 100.0},
    "schedule": {"schedule": "cyclical"},
    "cycle_length": {"schedule": "cyclical", "cycle_length": 5},
    "gradient_scale_max": {"schedule": "cyclical", "gradient_scale_max": 5.0},
    "gradient_scale_min": {"schedule": "cyclical", "cycle_length": 5, "gradient_scale_min": 2.0},
    "exploration_fraction": {
        "schedule": "cyclical",
        "cycle_length": 5,
        "bootstrap_fraction": 0.5,
        "exploration_fraction": 0.3,
    },
    "bootstrap_fraction": {"schedule": "cyclical", "bootstrap_fraction": 0.5},
    "schedule_form": {"schedule": "cyclical", "cycle_length": 5, "schedule_form": "affine"},
    "early_stopping": {"early_stopping": True},
    "validation_fraction": {"early_stopping": True, "validation_fraction": 0.4},
    "n_iter_no_change": {
        "early_stopping": True,
        "n_iter_no_change": 1,
        "n_estimators": 200,
        "max_features": 0.25,
    },
    "tol": {"early_stopping": True, "tol": 10.0, "n_iter_no_change": 3, "n_estimators": 60, "learning_rate": 0.02},
    "scoring": {"early_stopping": True, "scoring": None},
    "class_weight": {"class_weight": {"no": 3.0}},
    "random_state": {"random_state": 1},
}
# What these do needs a second fit, is printed, or must not change the result; tests of their own below.
ELSEWHERE = {"warm_start", "verbose", "n_jobs"}
# Constants of losses, with the loss that has them.
CONSTANTS = {
    "quantile": {"loss": "quantile", "quantile": 0.8},
    "delta": {"loss": "huber", "delta": 0.1},
    "power": {"loss": "tweedie", "power": 1.1},
    "distribution": {"loss": "aft", "distribution": "extreme"},
    "scale": {"loss": "aft", "scale": 0.4},
}


@pytest.mark.parametrize("loss", ["squared_error", "binary"])
def test_the_table_of_changes_has_every_parameter(loss):
    assert set(make_estimator(loss).get_params()) <= set(CHANGES) | ELSEWHERE | set(CONSTANTS)


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_changed_constant_of_a_loss_changes_the_model(name):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(80, 2)), rng.gamma(2.0, size=80)
    params = {"n_estimators": 20, "random_state": 0} | CONSTANTS[name]
    base = {key: value for key, value in params.items() if key != name}
    changed, unchanged = (SGLBRegressor(**options).fit(X, y).predict(X) for options in (params, base))
    assert not np.array_equal(changed, unchanged)


@pytest.mark.parametrize("loss", ["squared_error", "binary", "gaussian", "poisson", "multiclass"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_value_changes_the_model(name, loss):
    params = dict(CHANGES[name])
    base = {key: value for key, value in params.items() if key != name}
    names = make_estimator(loss).get_params()
    several = loss in ("gaussian", "multiclass")
    if name not in names or (name == "loss" and loss != "squared_error"):
        return
    if (name == "noise_variance" and loss != "squared_error") or (name == "monotonic_cst" and several):
        return  # refused, see above
    if name == "leaf_estimation" and loss == "squared_error":
        return  # the same by definition, see the tests of the stationary law
    if name == "class_weight" and loss == "multiclass":
        params = {"class_weight": {10: 3.0}}
    if name == "scoring":
        params["scoring"] = "accuracy" if loss in ("binary", "multiclass") else "neg_max_error"
    X, y = make_data("poisson" if name == "loss" else loss, n=200)
    one, other = make_estimator(loss, **base).fit(X, y), make_estimator(**{"loss": loss, **params}).fit(X, y)
    if name == "scoring":
        assert not np.array_equal(one.validation_score_, other.validation_score_)
    else:
        assert differ(one, other, X)


def test_verbose(capsys):
    X, y = make_data("squared_error")
    printed = []
    for verbose in (0, 1, 2, True):
        make_estimator(verbose=verbose).fit(X, y)
        printed.append(capsys.readouterr().out)
    assert printed[0] == ""
    assert printed[1].count("\n") == 2
    assert printed[2].count("\n") > 2
    assert "train score" in printed[2]
    assert "[SGLBRegressor] start" in printed[1]
    make_estimator(verbose=2, early_stopping=True).fit(X, y)
    assert "validation score" in capsys.readouterr().out


def test_verbose_does_not_change_the_model():
    X, y = make_data("multiclass")
    one, other = (make_estimator("multiclass", verbose=verbose).fit(X, y) for verbose in (0, 2))
    assert_same_predictions(one, other, X)


def test_number_of_jobs_reaches_the_chain(monkeypatch):
    import skboost._parallel

    monkeypatch.setattr(skboost._parallel, "UPDATES_PER_THREAD", 1)
    seen = []
    original = Chain.__init__

    def spy(self, rows, loss, base_score, rules, seed, n_threads, *args, **kwargs):
        seen.append(n_threads)
        original(self, rows, loss, base_score, rules, seed, n_threads, *args, **kwargs)

    monkeypatch.setattr(Chain, "__init__", spy)
    for n_jobs in (1, 3):
        make_estimator(n_jobs=n_jobs, noise_variance=1.0).fit(*make_data("squared_error"))
    assert seen == [1, 3]


# ---- limits are kept


def tree_leaves(model):
    """Yield (leaf of each row, leaf weights) of every tree."""
    forest = model._forest
    for t in range(forest.n_trees):
        yield forest.leaf_weight[forest.leaf_offset[t] : forest.leaf_offset[t + 1]]


def weights_of_leaves(model, X, weight):
    """Yield the summed weight of the rows of every leaf of every tree."""
    for leaves, stored in zip(model.apply(X).T, tree_leaves(model), strict=True):
        yield np.bincount(leaves, weights=weight, minlength=len(stored))


@pytest.mark.parametrize("noise", [{}, {"diffusion_temperature": 0.01}, {"posterior_sampling": False}])
@pytest.mark.parametrize("kind", ["none", "whole", "fractional"])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", ["squared_error", "multiclass", "gaussian"])
def test_leaf_minimum_in_sample_weight(loss, grow_policy, kind, noise, seed):
    X, y = make_data(loss, seed, n=150)
    rng = np.random.default_rng(seed)
    weight = {"none": np.ones(150), "whole": rng.integers(1, 6, 150), "fractional": rng.uniform(0.1, 3, 150)}[kind]
    for minimum in (1, 4.5, 13, 0.3, weight.sum() / 2, weight.sum() * 2):
        model = make_estimator(loss, min_samples_leaf=minimum, grow_policy=grow_policy, **noise)
        model.fit(X, y, None if kind == "none" else weight)
        for leaf_weight, stored in zip(weights_of_leaves(model, X, weight), tree_leaves(model), strict=True):
            np.testing.assert_allclose(leaf_weight, stored, rtol=1e-6)
            held = leaf_weight[leaf_weight > 0]
            assert len(held) == 1 or held.min() >= minimum * (1 - 1e-7)
            assert len(held) == len(leaf_weight) or model._record.rules.prior_split_rate > 0
            if minimum > weight.sum():
                assert len(leaf_weight) == 1


@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("weighted", [False, True])
def test_leaf_minimum_ignores_class_weights(grow_policy, weighted, seed):
    X, y = make_data("multiclass", seed, n=200)
    weight = np.random.default_rng(seed).integers(1, 4, 200) if weighted else None
    counted = np.ones(200) if weight is None else weight
    for class_weight in ("balanced", {10: 0.01, 20: 1.0, 30: 50.0}):
        params = {"class_weight": class_weight, "grow_policy": grow_policy, "min_samples_leaf": 15}
        model = make_estimator("multiclass", **params).fit(X, y, weight)
        sizes = [size[size > 0] for size in weights_of_leaves(model, X, counted)]
        assert min(size.min() for size in sizes) >= 15
        assert max(len(size) for size in sizes) > 1


@pytest.mark.parametrize("grow_policy", POLICIES)
def test_leaf_minimum_is_reached_exactly(grow_policy):
    """A minimum of 10 allows leaves of weight 10; one above the weight of the smaller side allows no split."""
    X = np.repeat([0.0, 1.0], [10, 30])[:, None]
    y = X[:, 0] * 5
    for weight, smaller in [(None, 10.0), (np.full(40, 2.0), 20.0), (np.full(40, 0.1), 1.0), (np.full(40, 0.3), 3.0)]:
        for minimum, n_leaves in [(smaller, 2), (smaller * (1 + 1e-6), 1), (smaller * (1 - 1e-6), 2)]:
            model = SGLBRegressor(
                n_estimators=1, min_samples_leaf=minimum, grow_policy=grow_policy, posterior_sampling=False
            ).fit(X, y, weight)
            assert len(model._forest.leaf_weight) == n_leaves, (smaller, minimum)


@pytest.mark.parametrize("noise", [{"diffusion_temperature": 0.01}, {"diffusion_temperature": 100.0}])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", ["squared_error", "poisson", "binary"])
def test_monotonic_constraints(loss, grow_policy, noise, seed):
    X, y = make_data(loss, seed, n=250)
    leaf_estimation = "newton" if seed % 2 else "gradient"
    params = {"grow_policy": grow_policy, "leaf_estimation": leaf_estimation, "n_estimators": 30, **noise}
    model = make_estimator(loss, monotonic_cst=[1, -1, 0, 0], **params).fit(X, y)
    free = make_estimator(loss, **params).fit(X, y)
    violated = 0
    grid = np.sort(np.unique(X[:, :2][~np.isnan(X[:, :2])]))
    for feature, sign in [(0, 1), (1, -1)]:
        for row in X[:40]:
            line = np.tile(row, (len(grid), 1))
            line[:, feature] = grid
            for stage in list(model._staged_raw(line))[::7]:
                assert (sign * np.diff(stage[:, 0]) >= -1e-12).all()
            violated += (sign * np.diff(free._raw(line)[:, 0]) < 0).any()
    assert violated > 0


def test_monotonic_constraints_of_a_classifier_bind_the_second_class():
    X, y = make_data("binary", n=250)
    model = make_estimator("binary", monotonic_cst=[-1, 0, 0, 0], n_estimators=30).fit(X, y)
    line = np.zeros((50, 4))
    line[:, 0] = np.linspace(-3, 3, 50)
    assert (np.diff(model.predict_proba(line)[:, 1]) <= 0).all()


def test_monotonic_constraints_by_name():
    pd = pytest.importorskip("pandas")
    X, y = make_data("squared_error", n=200)
    frame = pd.DataFrame(X, columns=list("abcd"))
    one = make_estimator(monotonic_cst={"b": -1}).fit(frame, y)
    other = make_estimator(monotonic_cst=[0, -1, 0, 0]).fit(frame, y)
    assert_same_predictions(one, other, frame)


def interactions(predict, base, first, second):
    """Return mixed second differences of a function in two columns; zero where these never meet in a path."""
    corners = []
    for a in (0, 1):
        for b in (0, 1):
            rows = base[0].copy()
            if a:
                rows[:, first] = base[1][:, first]
            if b:
                rows[:, second] = base[1][:, second]
            corners.append(predict(rows))
    return corners[3] - corners[2] - corners[1] + corners[0]


@pytest.mark.parametrize("noise", [{"diffusion_temperature": 0.1}, {"diffusion_temperature": 100.0}])
@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_interaction_constraints(loss, grow_policy, noise, seed):
    rng = np.random.default_rng(seed)
    X, _ = make_data(loss, seed, n=250)
    signal = X[:, 0] * X[:, 1] * 2 + X[:, 2] * X[:, 3]
    from fit_cases import make_target

    y = make_target(loss, rng, np.nan_to_num(signal))
    base = X[rng.permutation(250)], X[rng.permutation(250)]
    allowed = {
        "no_interactions": set(),
        "pairwise": {(i, j) for i in range(4) for j in range(i + 1, 4)},
        ((0, 1), (2, 3)): {(0, 1), (2, 3)},
        ((0, 1),): {(0, 1), (2, 3)},
        ((0, 1), (1, 2), (3,)): {(0, 1), (1, 2)},
    }
    for groups, pairs in allowed.items():
        cst = groups if isinstance(groups, str) else [set(group) for group in groups]
        model = make_estimator(loss, interaction_cst=cst, grow_policy=grow_policy, n_estimators=15, **noise).fit(X, y)
        found = set()
        for i in range(4):
            for j in range(i + 1, 4):
                if np.abs(interactions(model._raw, base, i, j)).max() > 1e-9:
                    found.add((i, j))
        assert found <= pairs, (cst, found)
        if pairs and groups != "no_interactions":
            assert found
        if groups == "pairwise":
            assert all(len(used) <= 2 for used in columns_of_paths(model))


def columns_of_paths(model):
    """Yield the set of columns of every path of every tree (of whole trees when they are symmetric)."""
    forest = model._forest
    for t in range(forest.n_trees):
        start, stop = forest.node_offset[t : t + 2]
        feature = forest.feature[start:stop]
        if forest.kind == "symmetric":
            yield set(feature.tolist())
            continue
        stack = [(0, frozenset())] if len(feature) else []
        while stack:
            node, used = stack.pop()
            used = used | {int(feature[node])}
            for child in (forest.left[start + node], forest.right[start + node]):
                if child >= 0:
                    stack.append((child, used))
                else:
                    yield used


@pytest.mark.parametrize("grow_policy", POLICIES)
@pytest.mark.parametrize(
    ("max_features", "expected"), [(0.5, 3), (1, 1), (2, 2), (0.01, 1), (6, 6), (100, 6), (1.0, 6)]
)
def test_columns_per_tree(grow_policy, max_features, expected):
    X, _ = make_data("squared_error", n=300, n_features=6)
    y = np.nansum(np.sin(3 * X), axis=1)
    params = {"max_features": max_features, "grow_policy": grow_policy, "max_depth": 8, "n_estimators": 40}
    model = make_estimator(**params).fit(X, y)
    forest = model._forest
    used = [
        set(forest.feature[forest.node_offset[t] : forest.node_offset[t + 1]].tolist()) for t in range(forest.n_trees)
    ]
    assert max(map(len, used)) <= expected
    assert set.union(*used) == set(range(6))
    if expected == 6:
        assert max(map(len, used)) > 3


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_numpy_floats_are_floats(kind):
    X, y = make_data("squared_error", n=200, n_features=6)
    params = {"max_features": 0.5, "subsample": 0.5, "learning_rate": 0.125, "min_samples_leaf": 2.5}
    params |= {"l2_regularization": 0.5, "early_stopping": True, "validation_fraction": 0.25}
    one = make_estimator(**params).fit(X, y)
    other = make_estimator(**{name: v if v is True else kind(v) for name, v in params.items()}).fit(X, y)
    assert_same_predictions(one, other, X)


def test_depth_and_leaves(seed):
    X, y = make_data("squared_error", seed, n=400)
    for max_depth in (1, 2, 5):
        for grow_policy in POLICIES:
            model = make_estimator(max_depth=max_depth, grow_policy=grow_policy, min_samples_leaf=1).fit(X, y)
            sizes = [len(leaves) for leaves in tree_leaves(model)]
            assert max(sizes) <= 2**max_depth
            assert max(sizes) > 2 ** (max_depth - 1)
            assert depth(model) <= max_depth
    for max_leaf_nodes in (2, 3, 7, 40):
        for grow_policy in ("depthwise", "lossguide"):
            params = {"max_leaf_nodes": max_leaf_nodes, "grow_policy": grow_policy, "min_samples_leaf": 1}
            for max_depth in (None, 3):
                model = make_estimator(max_depth=max_depth, **params).fit(X, y)
                sizes = [len(leaves) for leaves in tree_leaves(model)]
                assert max(sizes) == min(max_leaf_nodes, 2 ** (max_depth or 30))
    sizes = [len(leaves) for leaves in tree_leaves(make_estimator(grow_policy="lossguide", max_depth=None).fit(X, y))]
    assert max(sizes) == 31


def depth(model):
    """Return the largest number of splits on a path."""
    forest = model._forest
    if forest.kind == "symmetric":
        return int(np.diff(forest.node_offset).max())
    deepest = 0
    for start, stop in zip(forest.node_offset[:-1], forest.node_offset[1:], strict=True):
        stack = [(0, 1)] if stop > start else []
        while stack:
            node, level = stack.pop()
            deepest = max(deepest, level)
            children = forest.left[start + node], forest.right[start + node]
            stack += [(child, level + 1) for child in children if child >= 0]
    return deepest


@pytest.mark.parametrize("max_depth", [None, 40])
def test_deep_chains_of_nodes(max_depth):
    """One leaf may be split again and again: with growing targets the path is as long as the rows allow."""
    X = np.arange(60.0)[:, None]
    y = 3.0 ** np.arange(60)
    for grow_policy in ("depthwise", "lossguide"):
        model = SGLBRegressor(
            n_estimators=2, max_depth=max_depth, max_leaf_nodes=60, min_samples_leaf=1, l2_regularization=0.0,
            grow_policy=grow_policy, posterior_sampling=False,
        ).fit(X, y)  # fmt: skip
        assert depth(model) > 8
        assert depth(model) <= (max_depth or 59)


@pytest.mark.parametrize("max_depth", [15, 16])
def test_the_deepest_symmetric_trees(max_depth):
    X = np.random.default_rng(0).normal(size=(300, 20))
    y = X.sum(axis=1)
    model = make_estimator(max_depth=max_depth, min_samples_leaf=1, n_estimators=3, l2_regularization=0.0).fit(X, y)
    assert depth(model) <= max_depth
    assert depth(model) > 6
    stopped = make_estimator(max_depth=max_depth, min_samples_leaf=1, n_estimators=2, l2_regularization=0.0).fit(X, y)
    np.testing.assert_array_equal(model.predict_virtual_ensembles(X, 1)[0], model.predict(X))
    np.testing.assert_array_equal(list(model.staged_predict(X))[1], stopped.predict(X))


@pytest.mark.parametrize("max_bins", [2, 3, 17, 255])
def test_number_of_bins(max_bins):
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(size=2000), rng.integers(0, 5, 2000), rng.integers(0, 300, 2000)], axis=1).astype(float)
    y = np.sin(X[:, 0]) + X[:, 1]
    model = make_estimator(max_bins=max_bins, categorical_features=[2], n_prior_cuts=0).fit(X, y)
    assert (model._mapper.n_bins - 1).tolist() == [max_bins, min(max_bins, 5), max_bins]
    assert len(np.unique(model._mapper.transform(X)[0][0])) == max_bins


@pytest.mark.parametrize("fraction", [0.3, 0.9])
def test_subsample_shapes_the_trees_but_not_the_leaves(fraction):
    """Leaf values use all rows: a depth-1 tree of plain boosting has the residual means of its two sides."""
    X = make_data("squared_error", n=300, missing=0)[0]
    y = np.random.default_rng(1).normal(size=300)
    params = {"posterior_sampling": False, "l2_regularization": 0.0, "n_estimators": 1, "max_depth": 1}
    params["learning_rate"] = 1.0
    trees = set()
    for seed in range(10):
        model = make_estimator(subsample=fraction, random_state=seed, **params).fit(X, y)
        leaf = model.apply(X)[:, 0]
        for side in (0, 1):
            np.testing.assert_allclose(model.predict(X)[leaf == side], y[leaf == side].mean(), rtol=1e-5)
        trees.add(float(model._forest.gain[0]))
    assert len(trees) == 10


def test_importances_are_shares_of_gain():
    X, y = make_data("squared_error", n=300)
    model = make_estimator().fit(X, y)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert (model.feature_importances_[:2] > model.feature_importances_[2:].max()).all()
    constant = make_estimator().fit(np.zeros((30, 2)), np.arange(30.0))
    np.testing.assert_array_equal(constant.feature_importances_, 0)
