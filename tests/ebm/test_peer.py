"""InterpretML beside the twin of the tests, and beside the library: one model where nothing is left to chance.

Needs interpret-core. Its arithmetic is switched to double precision and its shuffling is switched off; both are options
for its developers. Columns have few distinct values, so that both libraries give every value a cell of its own.
"""

import itertools

import numpy as np
import pytest
from oracles import ebm, ebm_fit
from oracles.chain import noise_key

import skboost
from skboost._random import resolve_seed

pytest.importorskip("interpret", reason="interpret-core is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

N_FEATURES = 4
PLAIN = {"early_stopping_rounds": 0, "smoothing_rounds": 0, "interaction_smoothing_rounds": 0, "greedy_ratio": 0.0}
PLAIN |= {"max_rounds": 20, "learning_rate": 0.1, "min_samples_leaf": 4, "min_hessian": 0.0, "missing": "separate"}
PLAIN |= {"max_leaves": 2, "cyclic_progress": 0.0, "early_stopping_tolerance": 1e-5}
LOSSES = {"reg": "squared_error", "bin": "binary", "mc": "multinomial"}
N_OUTPUTS = {"reg": 1, "bin": 1, "mc": 3}


@pytest.fixture(autouse=True)
def plain_arithmetic():
    from interpret import develop
    from interpret.utils._native import Native

    options = {"acceleration": Native.AccelerationFlags_NONE}
    options |= dict.fromkeys(("randomize_initial_feature_order", "randomize_greedy_feature_order"), False)
    before = {name: develop.get_option(name) for name in options}
    for name, option in options.items():
        develop.set_option(name, option)
    yield
    for name, option in before.items():
        develop.set_option(name, option)


def problem(task, n=600, missing=0.0, few=False):
    """Columns of up to 38 values (six if `few`), an interaction, and for `missing` > 0 missing values that matter."""
    rng = np.random.default_rng(0)
    X = np.round(np.clip(3 * rng.normal(size=(n, N_FEATURES)), -9, 9)) + rng.choice([0.0, 0.25], size=(n, N_FEATURES))
    if few:
        X = rng.integers(-3, 3, size=X.shape) * 2.0
    signal = np.sin(X[:, 0] / 2) + X[:, 1] ** 2 / 20 + (X[:, 2] > 1) * X[:, 3] / 3
    gone = rng.random(X.shape) < missing
    X[gone] = np.nan
    signal = signal + gone[:, 0]
    if task == "reg":
        return X, signal + 0.3 * rng.normal(size=n)
    if task == "bin":
        return X, (rng.random(n) < 1 / (1 + np.exp(-2 * signal))).astype(int)
    return X, np.digitize(signal + 0.5 * rng.normal(size=n), [0.0, 1.0])


def peer_fit(task, X, y, *, nominal=(), pairs=0, bags=None, weight=None, monotone=None, **rules):
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kinds = ["nominal" if j in nominal else "continuous" for j in range(X.shape[1])]
    n_bags = 1 if bags is None else bags.shape[1]
    model = (ExplainableBoostingRegressor if task == "reg" else ExplainableBoostingClassifier)(
        feature_types=kinds,
        outer_bags=n_bags,
        validation_size=0 if bags is None else 0.2,
        interactions=pairs,
        monotone_constraints=monotone,
        n_jobs=1,
        random_state=0,
        max_interaction_bins=1024,
        **rules,
    )
    return model.fit(named_levels(X, nominal), y, sample_weight=weight, bags=bags)


def named_levels(X, nominal):
    """Return the columns with texts in place of the nominal ones, in the same order of levels."""
    table = X.astype(object)
    for j in nominal:
        table[:, j] = [f"level {int(4 * v + 100):03d}" if v == v else None for v in X[:, j]]
    return table


def twin_fit(model, task, X, y, *, nominal=(), pairs=0, bags=None, weight=None, monotone=None, **rules):
    """Fit the twin on the cells of the peer; its pair cells are those of its mains."""
    is_nominal = [j in nominal for j in range(X.shape[1])]
    codes = X.copy()
    for j in nominal:
        codes[:, j] = np.where(np.isnan(X[:, j]), np.nan, np.unique(X[:, j], return_inverse=True)[1])
    cuts = [len(b[0]) if named else np.asarray(b[0]) for b, named in zip(model.bins_, is_nominal, strict=True)]
    mains = ebm_fit.cells_of_columns(codes, cuts, is_nominal)
    if monotone is not None:
        mains = [ebm.Term(t.cells, t.shape, t.nominal, m) for t, m in zip(mains, monotone, strict=True)]
    coarse = [np.arange(t.shape[0]) for t in mains]
    weight = np.ones(len(y)) if weight is None else weight
    bags = np.ones((len(y), 1)) if bags is None else bags
    parts = [(weight * np.maximum(b, 0), weight * np.maximum(-b, 0)) for b in bags.T]
    rules = ebm.Rules(**{k: v for k, v in rules.items() if k != "interaction_smoothing_rounds"}, shuffle=False)
    y = np.asarray(y, dtype=float)
    return ebm_fit.fit(
        mains, coarse, LOSSES[task], y, weight, parts, rules, pairs=pairs, n_outputs=N_OUTPUTS[task], purified=False
    )


def assert_same_terms(model, twin, task, tolerance=1e-9):
    assert [tuple(f) for f in model.term_features_] == twin.features
    for t, (scores, spread, weights) in enumerate(
        zip(model.term_scores_, model.standard_deviations_, model.bin_weights_, strict=True)
    ):
        for found, wanted in ((scores, twin.mean(t)), (spread, twin.deviation(t))):
            found = np.moveaxis(found, -1, 0) if task == "mc" else found[None]
            where = np.broadcast_to(weights > 0, found.shape)
            np.testing.assert_allclose(found[where], wanted[where], atol=tolerance, rtol=0)
    intercept = np.atleast_1d(model.intercept_)
    wanted = twin.intercept
    if task == "mc":
        intercept, wanted = intercept - intercept.mean(), wanted - wanted.mean()
    np.testing.assert_allclose(intercept, wanted, atol=tolerance)


# ---------------------------------------------------------------- the twin

PAIRS = [(0, 1), (1, 2), (2, 3)]
CASES = {
    "regression": ("reg", {}),
    "binary": ("bin", {}),
    "three classes": ("mc", {}),
    "five leaves": ("reg", {"max_leaves": 5}),
    "weights": ("reg", {"weighted": True}),
    "pairs": ("reg", {"pairs": PAIRS}),
    "pairs, binary": ("bin", {"pairs": PAIRS}),
    "pairs, three classes": ("mc", {"pairs": PAIRS[1:]}),
    "hessian": ("bin", {"min_hessian": 20.0}),
    "large leaves": ("reg", {"min_samples_leaf": 150}),
    "monotone": ("reg", {"monotone": [1, 0, 1, -1], "max_leaves": 3}),
    "nominal": ("reg", {"nominal": (0, 1)}),
    "nominal, binary": ("bin", {"nominal": (0, 1), "max_leaves": 3}),
    "nominal, pairs": ("reg", {"nominal": (0,), "pairs": PAIRS}),
    "nominal, missing": ("reg", {"nominal": (0, 1), "gone": 0.1}),
    "no legal split beside missing": ("reg", {"gone": 0.15, "min_samples_leaf": 400}),
    "monotone, missing": ("reg", {"gone": 0.15, "monotone": [1, 0, 1, -1], "max_leaves": 3}),
}
for way, leaves in itertools.product(("separate", "low", "high", "gain"), (2, 4)):
    CASES[f"missing {way}, {leaves} leaves"] = "reg", {"gone": 0.15, "missing": way, "max_leaves": leaves}
    CASES[f"missing {way}, {leaves} leaves, pairs"] = (
        "bin",
        CASES[f"missing {way}, {leaves} leaves"][1] | {"pairs": PAIRS},
    )


def case(name):
    """Return (task, X, y, arguments of both fits)."""
    task, rules = CASES[name]
    rules = PLAIN | rules
    X, y = problem(task, missing=rules.pop("gone", 0.0))
    if rules.pop("weighted", False):
        # The peer counts rows in a leaf, so that no leaf is small enough to tell rows from weights.
        rules |= {"weight": np.random.default_rng(3).uniform(0.5, 2, len(y)), "min_samples_leaf": 0}
    return task, X, y, rules


@pytest.mark.parametrize("name", CASES)
def test_twin_boosts_like_the_peer(name):
    task, X, y, rules = case(name)
    model = peer_fit(task, X, y, **rules)
    assert_same_terms(model, twin_fit(model, task, X, y, **rules), task)


@pytest.mark.parametrize("task", LOSSES)
@pytest.mark.parametrize(("greedy", "progress"), [(0.0, 0.0), (5.0, 0.0), (1.5, 0.4), (2.0, 1.0)])
def test_twin_stops_and_bags_like_the_peer(task, greedy, progress):
    """Three bags with unused and repeated rows, early stopping, greedy rounds, pairs ranked over the bags."""
    # No cell of a pair is empty in a bag: a cut between empty cells would be a tie, settled by chance.
    X, y = problem(task, few=True)
    rng = np.random.default_rng(5)
    bags = rng.choice([-1, 0, 1, 2], p=[0.2, 0.05, 0.7, 0.05], size=(len(y), 3)).astype(np.int8)
    rules = PLAIN | {"greedy_ratio": greedy, "cyclic_progress": progress, "max_rounds": 300, "early_stopping_rounds": 5}
    # A negative tolerance has no floor, which the peer does not have either. The peer counts rows in a leaf.
    rules |= {"early_stopping_tolerance": -1e-6, "min_samples_leaf": 0, "bags": bags}
    pairs = 2 if task != "mc" else [(2, 3)]
    model = peer_fit(task, X, y, pairs=pairs, **rules)
    twin = twin_fit(model, task, X, y, pairs=pairs, **rules)
    assert [[len(s.log) for s in stages] for stages in twin.stages] == model.best_iteration_.T.tolist()
    assert_same_terms(model, twin, task)


def test_strength_is_that_of_the_peer():
    """Theirs of squared error is twice the gain per unit of weight."""
    from interpret.utils import measure_interactions

    X, y = problem("reg")
    kinds = ["continuous"] * N_FEATURES
    found = dict(measure_interactions(X, y, interactions=6, feature_types=kinds, init_score=np.full(len(y), y.mean())))
    cuts = [np.unique(x) for x in X.T]
    mains = ebm_fit.cells_of_columns(X, [(c[1:] + c[:-1]) / 2 for c in cuts])
    for (a, b), wanted in found.items():
        pair = ebm.pair_of(mains[a], mains[b], [np.arange(mains[j].shape[0]) for j in (a, b)])
        sums = pair.sums((y.mean() - y)[None], np.ones((1, len(y))), np.ones(len(y)))
        np.testing.assert_allclose(2 * ebm.strength(sums, ebm.Rules()), wanted, rtol=1e-9)


# ---------------------------------------------------------------- the library


def our_order(n_terms, stage):
    order = list(range(n_terms))
    ebm_fit.shuffle(order, noise_key(resolve_seed(0), ebm_fit.STREAM_ORDER, stage, 0))
    return order


def our_fit(task, X, y, *, nominal=(), pairs=0, weight=None, monotone=None, bags=None, **rules):
    model = (skboost.EBMRegressor if task == "reg" else skboost.EBMClassifier)(
        outer_bags=1,
        validation_size=0 if bags is None else 0.2,
        interactions=pairs,
        monotonic_cst=monotone,
        categorical_features=list(nominal) or None,
        trainer="rows",
        purify=False,
        max_interaction_bins=1024,
        random_state=0,
        **rules,
    )
    return model.fit(X, y, sample_weight=weight, bags=bags)


@pytest.mark.parametrize("name", CASES)
def test_library_is_the_peer_without_chance(name):
    """The peer gets columns and pairs in the order in which ours are visited."""
    task, X, y, rules = case(name)
    ours = our_fit(task, X, y, **rules)
    order = our_order(N_FEATURES, 0)
    place = {j: k for k, j in enumerate(order)}
    rules |= {"nominal": tuple(place[j] for j in rules.get("nominal", ()))}
    if "monotone" in rules:
        rules |= {"monotone": [rules["monotone"][j] for j in order]}
    if "pairs" in rules:
        pairs = rules["pairs"]
        rules |= {"pairs": [tuple(place[j] for j in pairs[k]) for k in our_order(len(pairs), 1)]}
    theirs = peer_fit(task, X[:, order], y, **rules)
    table = named_levels(X[:, order], rules["nominal"])
    if task == "reg":
        found, wanted = ours.predict(X), theirs.predict(table)
    else:
        found, wanted = ours.predict_proba(X), theirs.predict_proba(table)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
