"""Fits of the estimators beside the NumPy twin: same terms, deviations, intercepts and predictions to 1e-10."""

from dataclasses import replace

import numpy as np
import pytest
from oracles import ebm, ebm_fit

from skboost import EBMClassifier, EBMRegressor
from skboost._engine import interactions, terms
from skboost._random import resolve_seed

LOSSES = {"reg": "squared_error", "bin": "binary", "mc": "multinomial"}
LOSSES |= {name: name for name in ("poisson", "gamma", "tweedie")}
# Every part of the procedure takes its turn: smoothing, greedy and measuring rounds, stopping, ranked pairs.
PROCEDURE = {
    "max_bins": 20,
    "max_interaction_bins": 8,
    "learning_rate": 0.1,
    "max_rounds": 25,
    "smoothing_rounds": 4,
    "interaction_smoothing_rounds": 3,
    "greedy_ratio": 3.0,
    "early_stopping_rounds": 5,
    "interactions": 2,
}


def problem(task, n=400, seed=0, gone=0.0, n_levels=0):
    """Four columns; the first has `n_levels` levels, some of them rare, if that is not 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + (X[:, 2] > 0.3) * X[:, 3]
    if n_levels:
        share = np.linspace(1, 0.05, n_levels)
        X[:, 0] = rng.choice(n_levels, size=n, p=share / share.sum())
        signal = signal + rng.normal(size=n_levels)[X[:, 0].astype(int)]
    missing = rng.random(X.shape) < gone
    X[missing] = np.nan
    signal = signal + missing[:, 1]
    if task == "reg":
        return X, signal + 0.3 * rng.normal(size=n)
    if task == "bin":
        return X, (rng.random(n) < 1 / (1 + np.exp(-2 * signal))).astype(int)
    if task in ("poisson", "gamma", "tweedie"):
        count = rng.poisson(np.exp(signal / 2)).astype(float)
        size = rng.gamma(2.0, np.exp(signal / 2))
        return X, {"poisson": count, "gamma": size, "tweedie": size * (count > 0)}[task]
    return X, np.digitize(signal + 0.5 * rng.normal(size=n), [0.0, 1.0])


def draw_bags(n, n_bags=3, seed=1):
    """Rows that train once or twice, validate, or do nothing."""
    return np.random.default_rng(seed).choice([-1, 0, 1, 2], p=[0.2, 0.05, 0.7, 0.05], size=(n, n_bags))


def twin_of(model, task, X, y, bags, weight=None):
    """Fit the twin with the parameters, the cells and the pairs of a fitted model."""
    given = model.get_params()
    nominal = [kind == "nominal" for kind in model.feature_types_in_]
    cuts = [len(b[0]) if named else b[0] for b, named in zip(model.bins_, nominal, strict=True)]
    mains = ebm_fit.cells_of_columns(X, cuts, nominal)
    monotone = given["monotonic_cst"] or [0] * len(mains)
    mains = [ebm.Term(t.cells, t.shape, t.nominal, m) for t, m in zip(mains, monotone, strict=True)]
    names = ("learning_rate", "max_rounds", "max_leaves", "min_samples_leaf", "min_hessian", "missing")
    names += ("min_cat_samples", "cat_smooth", "gain_scale", "smoothing_rounds", "greedy_ratio", "cyclic_progress")
    names += ("early_stopping_rounds", "early_stopping_tolerance")
    rules = {name: given[name] for name in names} | {"l2": given["l2_regularization"]}
    rules = ebm.Rules(**rules, seed=resolve_seed(given["random_state"]))
    weight = np.ones(len(y)) if weight is None else weight
    parts = [(weight * np.maximum(b, 0), weight * np.maximum(-b, 0)) for b in bags.T]
    return ebm_fit.fit(
        mains,
        [coarse_map(b, named) for b, named in zip(model.bins_, nominal, strict=True)],
        LOSSES[task],
        np.searchsorted(model.classes_, y).astype(float) if hasattr(model, "classes_") else y,
        weight,
        parts,
        rules,
        replace(rules, smoothing_rounds=given["interaction_smoothing_rounds"]),
        pairs=[f for f in model.term_features_ if len(f) == 2],
        n_outputs=len(model.classes_) if task == "mc" else 1,
        purified=given["purify"],
    )


def coarse_map(resolutions, nominal):
    """Map from the cells of a main effect to those in pairs, from the two lists of cuts or levels."""
    fine, coarse = resolutions
    if nominal:
        inner = [coarse[level] for level in fine]
        return np.array([0, *inner, max(inner) + 1])
    inner = np.searchsorted(coarse, fine, side="right")
    return np.array([0, 1, *(1 + inner), len(coarse) + 2])


def assert_same_model(model, twin, X, tolerance=1e-10):
    assert model.term_features_ == twin.features
    several = len(twin.intercept) > 1
    if several:
        # Probabilities do not depend on the mean over the classes: the library stores scores of mean zero.
        twin.bagged = [scores - scores.mean(axis=1, keepdims=True) for scores in twin.bagged]
        twin.intercepts = twin.intercepts - twin.intercepts.mean(axis=1, keepdims=True)
    for t, weights in enumerate(model.bin_weights_):
        pairs = [(model.term_scores_[t], twin.mean(t)), (model.standard_deviations_[t], twin.deviation(t))]
        pairs += list(zip(model.bagged_scores_[t], twin.bagged[t], strict=True))
        for found, wanted in pairs:
            found = np.moveaxis(found, -1, 0) if several else found[None]
            where = np.broadcast_to(weights > 0, found.shape)
            np.testing.assert_allclose(found[where], wanted[where], atol=tolerance, rtol=0)
    np.testing.assert_allclose(model.intercept_, twin.intercept if several else twin.intercept[0], atol=tolerance)
    scores = twin.scores()
    found = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    if model.link_ == "log":
        found = np.log(found)
    np.testing.assert_allclose(found, scores.T if several else scores[0], atol=tolerance)


CASES = {
    "regression": ("reg", {}, {}),
    "binary": ("bin", {}, {}),
    "three classes": ("mc", {}, {}),
    "counts": ("poisson", {}, {}),
    "sizes": ("gamma", {}, {}),
    "sizes and zeros": ("tweedie", {}, {}),
    "cyclic": ("reg", {"greedy_ratio": 0.0}, {}),
    "some cyclic rounds": ("bin", {"greedy_ratio": 1.5, "cyclic_progress": 0.4}, {}),
    "five leaves": ("reg", {"max_leaves": 5}, {}),
    "shrunk leaves": ("bin", {"l2_regularization": 3.0, "min_hessian": 5.0}, {}),
    "large leaves": ("reg", {"min_samples_leaf": 60.5}, {}),
    "impure": ("reg", {"purify": False}, {}),
    "monotone": ("reg", {"monotonic_cst": [1, 0, -1, 0], "max_leaves": 3, "interactions": [(1, 3)]}, {"gone": 0.1}),
    "levels": ("reg", {"categorical_features": [0]}, {"n_levels": 14, "gone": 0.05}),
    "levels, binary": ("bin", {"categorical_features": [0], "max_leaves": 3}, {"n_levels": 14}),
    "levels, three classes": ("mc", {"categorical_features": [0]}, {"n_levels": 14}),
    "no validation": ("bin", {"early_stopping_rounds": 0, "max_rounds": 12}, {}),
}
WEIGHTED = ("regression", "binary", "three classes", "large leaves", "levels", "monotone")
CASES |= {
    f"missing {way}, {leaves} leaves": ("reg", {"missing": way, "max_leaves": leaves}, {"gone": 0.15})
    for way in ("separate", "low", "high", "gain")
    for leaves in (2, 4)
}


def fitted(task, X, y, bags, weight=None, **parameters):
    parameters = PROCEDURE | {"random_state": 3, "outer_bags": bags.shape[1], "trainer": "rows"} | parameters
    if task in ("bin", "mc"):
        return EBMClassifier(**parameters).fit(X, y, sample_weight=weight, bags=bags)
    model = EBMRegressor(loss=LOSSES[task], **parameters)
    return model.fit(X, y, sample_weight=weight, bags=bags)


@pytest.mark.parametrize(("name", "weighted"), [(name, False) for name in CASES] + [(name, True) for name in WEIGHTED])
def test_fit_on_rows(name, weighted):
    task, parameters, data = CASES[name]
    X, y = problem(task, **data)
    weight = np.random.default_rng(9).integers(1, 9, len(y)) / 4 if weighted else None
    bags = draw_bags(len(y))
    model = fitted(task, X, y, bags, weight, **parameters)
    assert_same_model(model, twin_of(model, task, X, y, bags, weight), X)


@pytest.mark.parametrize("name", [name for name, (task, *_) in CASES.items() if task == "reg"])
def test_fit_on_tables(name):
    """Squared error only: other losses follow their gradients less closely on tables."""
    _, parameters, data = CASES[name]
    X, y = problem("reg", **data)
    bags = draw_bags(len(y))
    model = fitted("reg", X, y, bags, **parameters | {"trainer": "tables"})
    assert_same_model(model, twin_of(model, "reg", X, y, bags), X)


@pytest.mark.parametrize("task", ["reg", "bin", "mc"])
def test_ranking_of_pairs(task):
    """The pairs of lowest mean rank over the bags, by the strength of four quadrants."""
    X, y = problem(task)
    bags = draw_bags(len(y))
    model = fitted(task, X, y, bags)
    twin = twin_of(model, task, X, y, bags)
    n_outputs = len(twin.intercept)
    fits = []
    for b, stages in enumerate(twin.stages):
        start = ebm_fit.start(LOSSES[task], stages[0].y, np.maximum(bags[:, b], 0.0), n_outputs)
        scores = np.repeat(start[:, None], len(y), axis=1)
        for term, tensor in zip(twin.terms[:4], stages[0].kept, strict=True):
            scores = scores + tensor[:, term.cells]
        fits.append((scores, np.maximum(bags[:, b], 0.0)))
    coarse = [coarse_map(b, False) for b in model.bins_]
    wanted = ebm_fit.rank_pairs(twin.terms[:4], coarse, fits, LOSSES[task], stages[0].y, ebm.Rules(), 2)
    assert sorted(wanted) == model.term_features_[4:]
    assert (2, 3) in wanted


# ---------------------------------------------------------------- searches


def drawn_sums(rng, shape):
    """Random sums of cells of which some are empty, the unseen ones always."""
    n_outputs = rng.integers(1, 4)
    weight = rng.poisson(rng.choice([0.7, 5, 30]), shape).astype(float)
    for axis in range(len(shape)):
        end = np.moveaxis(weight, axis, 0)
        end[-1] = 0
        end[0] *= rng.random() < 0.7
    grad = rng.normal(size=(n_outputs, *shape)) * np.sqrt(weight)
    return grad, weight * rng.uniform(0.05, 0.25, grad.shape), weight


def drawn_rules(rng):
    return {
        "min_samples_leaf": rng.choice([0.0, 4.0, 20.0]),
        "min_hessian": rng.choice([0.0, 1.0]),
        "l2_regularization": rng.choice([0.0, 2.0]),
    }


def twin_rules(rules, **others):
    rules = dict(rules)
    return ebm.Rules(l2=rules.pop("l2_regularization"), **rules, **others)


@pytest.mark.parametrize("squared", [False, True])
def test_search_of_a_line(seed, squared):
    """Values and gains; ties settled by the same draws; weights cached if `squared`.

    Two ways to part the same rows need not tie to the last bit, so empty cells are compared for `squared` only.
    """
    rng = np.random.default_rng(seed)
    ways = ("separate", "gain", "low", "high")
    for _ in range(1000):
        grad, hess, weight = drawn_sums(rng, (rng.integers(3, 12),))
        if squared:
            grad, hess = grad[:1], weight[None]
        nominal, way, leaves = bool(rng.integers(2)), rng.integers(4), int(rng.integers(2, 6))
        monotone = int(rng.integers(-1, 2)) if len(grad) == 1 and not nominal else 0
        rules = drawn_rules(rng) | {"min_cat_samples": rng.choice([0.0, 3.0]), "cat_smooth": rng.choice([1.0, 10.0])}
        key = int(rng.integers(2**62))
        found, gain = terms.search(
            grad,
            None if squared else hess,
            weight,
            nominal=nominal,
            monotone=monotone,
            max_leaves=leaves,
            missing=way,
            key=key,
            cached=squared,
            **rules,
        )
        wanted, wanted_gain = ebm.search_main(
            np.concatenate([grad, hess, weight[None]]),
            twin_rules(rules, max_leaves=leaves, missing=ways[way]),
            nominal,
            monotone,
            lambda counter, n, key=key: int(ebm_fit.uniform(key, counter) * n),
        )
        where = slice(None) if squared else weight > 0
        np.testing.assert_allclose(found[:, where], wanted[:, where], atol=1e-11)
        np.testing.assert_allclose(gain, wanted_gain, rtol=1e-9, atol=1e-11)


def test_search_of_a_pair(seed):
    """Values and gains; the same draw among trees that part the rows alike."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        grad, hess, weight = drawn_sums(rng, tuple(rng.integers(3, 11, 2)))
        rules, key = drawn_rules(rng), int(rng.integers(2**62))
        found, gain, _ = interactions.search(grad, hess, weight, key=key, **rules)
        wanted, wanted_gain = ebm.search_pair(
            np.concatenate([grad, hess, weight[None]]),
            twin_rules(rules),
            lambda counter, n, key=key: int(ebm_fit.uniform(key, counter) * n),
        )
        np.testing.assert_allclose(found, wanted, atol=1e-11)
        np.testing.assert_allclose(gain, wanted_gain, rtol=1e-9, atol=1e-11)
