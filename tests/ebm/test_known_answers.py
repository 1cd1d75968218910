"""What explainable boosting must find where the answer is known: shapes, pairs, kept models, routes of odd values."""

import itertools
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skboost import EBMClassifier, EBMRegressor

QUICK = {"outer_bags": 3, "max_bins": 64, "max_interaction_bins": 16, "random_state": 0}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def raw_of(model, X):
    """Raw scores as (n_rows, n_outputs)."""
    scores = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    return scores.reshape(len(X), -1)


def small_problem(task, n=400, seed=0, gone=0.1):
    """Numbers, a column of levels, missing values, a product."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 6, n)
    signal = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + (X[:, 3] == 2)
    X[rng.random(X.shape) < gone] = np.nan
    if task == "reg":
        return X, signal + 0.3 * rng.normal(size=n)
    if task == "bin":
        return X, np.where(rng.random(n) < sigmoid(2 * signal), "yes", "no")
    return X, np.digitize(signal + 0.3 * rng.normal(size=n), [-0.5, 0.5])


def small_fit(task, X, y, **parameters):
    given = QUICK | {"categorical_features": [3], "interactions": 3, "max_rounds": 100, "smoothing_rounds": 5}
    return (EBMRegressor if task == "reg" else EBMClassifier)(**given | parameters).fit(X, y)


def odd_rows(X):
    """Rows of training and rows with missing, unseen, infinite and extreme values in every combination."""
    odd = np.array(
        list(itertools.product([0.1, np.nan, np.inf, -np.inf, 1e300], [0.2, np.nan], [-0.3], [1, np.nan, 99]))
    )
    return np.vstack([X, odd])


# ---------------------------------------------------------------- sums and means


@pytest.mark.parametrize("task", ["reg", "bin", "mc"])
@pytest.mark.parametrize("purify", [True, False])
def test_terms_add_up(task, purify):
    X, y = small_problem(task)
    model = small_fit(task, X, y, purify=purify)
    rows = odd_rows(X)
    total = model.eval_terms(rows).sum(axis=1).reshape(len(rows), -1) + model.intercept_
    assert_allclose(raw_of(model, rows), total, rtol=0, atol=1e-12)


@pytest.mark.parametrize("task", ["reg", "bin", "mc"])
def test_terms_are_centred_and_pairs_pure(task):
    X, y = small_problem(task)
    model = small_fit(task, X, y)
    for features, scores, weights in zip(model.term_features_, model.term_scores_, model.bin_weights_, strict=True):
        weighted = scores * (weights[..., None] if task == "mc" else weights)
        assert weights.sum() == len(y)
        assert_allclose(weighted.sum(axis=tuple(range(weights.ndim))) / len(y), 0, atol=1e-12)
        for axis in range(len(features) if len(features) == 2 else 0):
            assert_allclose(weighted.sum(axis=axis), 0, atol=1e-10)


@pytest.mark.parametrize("task", ["reg", "bin", "mc"])
def test_mean_residual_is_zero(task):
    X, y = small_problem(task)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    model = small_fit(task, X, y).fit(X, y, sample_weight=weight)
    residual = y - model.predict(X) if task == "reg" else (y[:, None] == model.classes_) - model.predict_proba(X)
    assert_allclose(np.average(residual, axis=0, weights=weight), 0, atol=1e-12)


@pytest.mark.parametrize("task", ["reg", "bin", "mc"])
def test_purification_keeps_predictions(task):
    X, y = small_problem(task)
    pure, raw = (small_fit(task, X, y, purify=purify) for purify in (True, False))
    rows = odd_rows(X)
    assert_allclose(raw_of(pure, rows), raw_of(raw, rows), rtol=0, atol=1e-12)
    pairs = [t for t, features in enumerate(pure.term_features_) if len(features) == 2]
    assert max(np.abs(pure.term_scores_[t] - raw.term_scores_[t]).max() for t in pairs) > 1e-3


# ---------------------------------------------------------------- shapes


@pytest.fixture(scope="module")
def shapes():
    """A sum of three known functions of independent columns, and a fourth column of noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 4))
    functions = [lambda x: np.sin(2 * x), lambda x: x**2 / 2, lambda x: np.where(x > 0.5, 1.0, 0.0)]
    y = sum(f(x) for f, x in zip(functions, X.T, strict=False)) + 0.3 * rng.normal(size=len(X))
    return X, y, functions, EBMRegressor(interactions=0, outer_bags=8, random_state=0).fit(X, y)


def inner_grid(x):
    return np.linspace(*np.quantile(x, [0.01, 0.99]), 400)


def test_known_functions_are_found(shapes):
    X, _, functions, model = shapes
    for j, function in enumerate(functions):
        grid = np.zeros((400, 4))
        grid[:, j] = inner_grid(X[:, j])
        error = model.eval_terms(grid)[:, j] - (function(grid[:, j]) - function(X[:, j]).mean())
        assert np.abs(error).max() < 0.12
        assert np.sqrt(np.mean(error**2)) < 0.03
    assert model.term_importances()[3] < 0.03


def test_copies_of_a_feature_share_its_shape(shapes):
    X, y, _, model = shapes
    twice = np.column_stack([X[:, 0], X])
    copied = EBMRegressor(interactions=0, outer_bags=8, random_state=0).fit(twice, y)
    grid = np.zeros((400, 5))
    grid[:, :2] = inner_grid(X[:, 0])[:, None]
    both = copied.eval_terms(grid)[:, :2].sum(axis=1)
    assert np.abs(both - model.eval_terms(grid[:, 1:])[:, 0]).max() < 0.05


def test_rising_data_lose_little_by_a_constraint():
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(size=(2, 4000, 2))
    truth = lambda X: np.arctan(2 * X[:, 0]) - np.exp(X[:, 1] / 2)  # noqa: E731
    y = truth(X) + 0.3 * rng.normal(size=len(X))
    errors = []
    # Random cuts at the start are left out: what they overshoot a constraint forbids to take back.
    given = {"interactions": 0, "outer_bags": 4, "smoothing_rounds": 0, "random_state": 0}
    for directions in (None, [1, -1]):
        model = EBMRegressor(**given, monotonic_cst=directions).fit(X, y)
        errors.append(np.sqrt(np.mean((model.predict(X_test) - truth(X_test)) ** 2 + 0.3**2)))
    assert errors[1] < 1.01 * errors[0]
    assert all(np.all(sign * np.diff(s[1:-1]) >= 0) for sign, s in zip((1, -1), model.term_scores_, strict=True))


# ---------------------------------------------------------------- pairs


def planted(kind, n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X[:, 5] = rng.integers(0, 5, n)
    if kind == "product":
        return (1, 4), X, X[:, 1] * X[:, 4]
    if kind == "exclusive or":
        return (0, 3), X, np.sign(X[:, 0]) * np.sign(X[:, 3])
    return (2, 5), X, np.array([1.0, -1.0, 0.5, -0.5, 0.0])[X[:, 5].astype(int)] * X[:, 2]


@pytest.mark.parametrize("kind", ["product", "exclusive or", "levels"])
def test_planted_pair_is_chosen(kind):
    pair, X, signal = planted(kind)
    rng = np.random.default_rng(1)
    given = QUICK | {"interactions": 1, "categorical_features": [5], "max_rounds": 200, "smoothing_rounds": 10}
    y = signal + X[:, 0] + 0.3 * rng.normal(size=len(X))
    assert EBMRegressor(**given).fit(X, y).term_features_[-1] == pair
    y = rng.random(len(X)) < sigmoid(2 * signal + X[:, 0])
    assert EBMClassifier(**given).fit(X, y).term_features_[-1] == pair
    order = rng.permutation(5)
    place = [*np.argsort(order), 5]
    moved = EBMRegressor(**given).fit(X[:, [*order, 5]], signal + X[:, 0] + 0.3 * rng.normal(size=len(X)))
    assert moved.term_features_[-1] == tuple(sorted(place[j] for j in pair))


def test_equal_pairs_are_taken_in_order():
    """Columns that are copies: all pairs of one kind are equally strong."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2000))
    X = np.column_stack([a, a, b, b])
    model = EBMRegressor(**QUICK | {"interactions": 1, "max_rounds": 50}, validation_size=0).fit(X, a * b)
    assert model.term_features_[-1] == (0, 2)


# ---------------------------------------------------------------- the kept model


class Record:
    """Callback that keeps (step, metric) of every bag and stage."""

    def __init__(self):
        self.found = {}

    def __call__(self, bag, stage, step, metric):
        self.found.setdefault((stage, bag), []).append((step, metric))

    def best(self, stage, bag):
        """The last step of the lowest metric."""
        steps, metrics = np.array(self.found[stage, bag]).T
        known = np.flatnonzero(metrics == np.nanmin(metrics))
        return int(steps[known[-1]])


@pytest.mark.parametrize("task", ["reg", "bin", "mc"])
@pytest.mark.parametrize("trainer", ["rows", "tables"])
def test_best_step_is_kept(task, trainer):
    X, y = small_problem(task)
    record = Record()
    stopping = {"early_stopping_rounds": 20, "max_rounds": 2000, "trainer": trainer}
    model = small_fit(task, X, y, callback=record, **stopping)
    wanted = [[record.best(stage, bag) for bag in range(3)] for stage in (0, 1)]
    assert_array_equal(model.best_iteration_, wanted)
    again = small_fit(task, X, y, **stopping | {"max_rounds": 4000})
    assert_array_equal(raw_of(again, X), raw_of(model, X))
    patient = small_fit(task, X, y, **stopping | {"early_stopping_tolerance": -0.01})
    assert (patient.best_iteration_[0] >= model.best_iteration_[0]).all()


def test_tracked_metric_is_that_of_the_rows():
    """The validation loss of the last step, recomputed from the model that ends there."""
    X, y = small_problem("reg", gone=0.0)
    bags = np.where(np.random.default_rng(2).random((len(y), 1)) < 0.3, -1, 1)
    for trainer, stop in itertools.product(("rows", "tables"), (40, 77, 150)):
        record = Record()

        def stopped(bag, stage, step, metric, record=record, stop=stop):
            record(bag, stage, step, metric)
            return step >= stop

        model = EBMRegressor(
            **QUICK | {"outer_bags": 1, "interactions": 0, "smoothing_rounds": 0},
            trainer=trainer,
            early_stopping_rounds=0,
            callback=stopped,
        ).fit(X, y, bags=bags)
        # The fit moves the mean of all residuals to zero afterwards.
        residual = y - model.predict(X)
        train, held = bags[:, 0] > 0, bags[:, 0] < 0
        step, metric = record.found[0, 0][-1]
        assert step == stop
        before = residual - residual[train].mean()
        assert_allclose(metric, np.mean(before[held] ** 2), rtol=1e-9)


def test_separable_validation_rows_stop():
    """The loss falls for ever by more than the relative tolerance; the absolute floor ends it."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.r_[rng.uniform(0, 1, 300), rng.uniform(2, 3, 300)], rng.normal(size=600)])
    y = X[:, 0] > 1.5
    record = Record()
    model = EBMClassifier(
        **QUICK | {"interactions": 0, "outer_bags": 1}, learning_rate=0.1, early_stopping_rounds=50, callback=record
    ).fit(X, y)
    steps, metrics = np.array(record.found[0, 0]).T
    steps, metrics = steps[np.isfinite(metrics)], metrics[np.isfinite(metrics)]
    null, window = np.log(2), 50 * 2
    small = metrics < 1e-6 * null
    reached = steps[np.argmax(small)] if small.any() else steps[-1]
    assert steps[-1] <= reached + 2 * window + 1
    assert steps[-1] < 5000
    assert metrics[-1] < 1e-4 * null
    assert model.score(X, y) == 1


def test_without_validation_all_rounds_are_used():
    X, y = small_problem("reg")
    model = small_fit("reg", X, y, validation_size=0, max_rounds=30)
    assert_array_equal(model.best_iteration_, [[4 * 30] * 3, [3 * 30] * 3])


@pytest.mark.parametrize("trainer", ["rows", "tables"])
def test_constant_target_stops_at_once(trainer):
    X, _ = small_problem("reg")
    record = Record()
    model = small_fit("reg", X, np.full(len(X), 2.5), trainer=trainer, max_rounds=10_000, callback=record)
    assert model.intercept_ == 2.5
    assert all(np.all(scores == 0) for scores in model.term_scores_)
    assert_array_equal(model.predict(odd_rows(X)), 2.5)
    assert max(len(found) for found in record.found.values()) < 100 if record.found else True


# ---------------------------------------------------------------- routes of values


def test_values_go_to_their_cells():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    X[:50, 0] = np.nan
    X[:, 1] = rng.integers(0, 4, 500)
    y = np.nan_to_num(X[:, 0], nan=3.0) + X[:, 1]
    model = EBMRegressor(**QUICK | {"interactions": 0, "max_bins": 12, "categorical_features": [1]}).fit(X, y)
    cuts, scores = model.bins_[0][0], model.term_scores_[0]
    assert len(scores) == len(cuts) + 3
    on_cuts = np.column_stack([cuts, np.zeros(len(cuts))])
    below = np.column_stack([np.nextafter(cuts, -np.inf), np.zeros(len(cuts))])
    assert_array_equal(model.eval_terms(on_cuts)[:, 0], scores[2:-1])
    assert_array_equal(model.eval_terms(below)[:, 0], scores[1:-2])
    special = np.array([[np.nan, np.nan], [-np.inf, 9], [np.inf, -1], [-1e308, 2.5], [1e308, 0]])
    found = model.eval_terms(special)
    assert_array_equal(found[:, 0], scores[[0, 1, -2, 1, -2]])
    levels = model.term_scores_[1]
    assert levels[0] == levels[-1] == 0
    assert_array_equal(found[:, 1], levels[[0, -1, -1, -1, model.bins_[1][0][0.0]]])
    assert scores[0] > 1


def test_columns_without_content_have_zero_terms():
    X, y = small_problem("reg")
    X = np.column_stack([X, np.full(len(X), np.nan), np.full(len(X), 7.0)])
    model = small_fit("reg", X, y, interactions=[(0, 1), (0, 4), (4, 5)])
    for features, scores in zip(model.term_features_, model.term_scores_, strict=True):
        if features in ((4,), (5,), (4, 5)):
            assert not scores.any()
    rows = np.vstack([X[:2], X[:2]])
    rows[2:, 4:] = [[1.0, np.nan], [-np.inf, 9.0]]
    assert np.isfinite(model.predict(rows)).all()


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize("task", ["reg", "bin", "mc"])
def test_whole_weights_are_repeated_rows(task):
    X, y = small_problem(task)
    count = np.random.default_rng(4).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), count)
    repeated = np.random.default_rng(5).permutation(repeated)
    weighted = small_fit(task, X, y).fit(X, y, sample_weight=count)
    copied = small_fit(task, X[repeated], y[repeated])
    assert_array_equal(raw_of(weighted, odd_rows(X)), raw_of(copied, odd_rows(X)))
    for a, b in zip(weighted.standard_deviations_, copied.standard_deviations_, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("task", ["reg", "bin"])
def test_scale_of_the_weights_does_not_matter(task):
    """Powers of two change no bit where leaves have no least weight."""
    X, y = small_problem(task)
    weight = np.random.default_rng(6).integers(1, 64, len(y)) / 32
    free = {"min_samples_leaf": 0, "min_cat_samples": 0, "min_hessian": 0, "cat_smooth": 0}
    bags = np.where(np.random.default_rng(7).random((len(y), 3)) < 0.2, -1, 1)
    models = [small_fit(task, X, y, **free).fit(X, y, sample_weight=c * weight, bags=bags) for c in (1.0, 4.0)]
    assert_allclose(raw_of(models[1], X), raw_of(models[0], X), rtol=0, atol=1e-12)


# ---------------------------------------------------------------- bags


def test_bags_are_the_ensemble():
    X, y = small_problem("reg")
    model = small_fit("reg", X, y)
    for scores, mean, spread in zip(model.bagged_scores_, model.term_scores_, model.standard_deviations_, strict=True):
        assert_allclose(mean, np.average(scores, axis=0, weights=model.bag_weights_), atol=1e-13)
        assert_allclose(spread, scores.std(axis=0), atol=1e-6)
    single = small_fit("reg", X, y, outer_bags=1)
    assert not any(spread.any() for spread in single.standard_deviations_)
    assert not single.predict_uncertainty(X).knowledge.any()


def test_knowledge_is_less_where_the_data_are():
    """Few rows above 2: the bags disagree there."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.uniform(0, 2, 3000), rng.uniform(2, 4, 30)][:, None]
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=len(X))
    model = EBMRegressor(interactions=0, random_state=0).fit(X, y)
    inside, outside = np.linspace(0.1, 1.9, 50)[:, None], np.linspace(2.2, 3.9, 50)[:, None]
    found = [model.predict_uncertainty(rows).knowledge.mean() for rows in (inside, outside)]
    assert found[1] > 3 * found[0]


# ---------------------------------------------------------------- speed


def stage_seconds(n, trainer, rounds):
    """Time of the boosting of one bag without validation: what many rounds take over few."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + 0.3 * rng.normal(size=n)
    plain = {"outer_bags": 1, "validation_size": 0, "smoothing_rounds": 0, "interactions": 0, "max_bins": 128}
    times = []
    for max_rounds in rounds:
        model = EBMRegressor(**plain, max_rounds=max_rounds, trainer=trainer, greedy_ratio=0, n_jobs=1, random_state=0)
        started = time.perf_counter()
        model.fit(X, y)
        times.append(time.perf_counter() - started)
    return (times[1] - times[0]) / (rounds[1] - rounds[0])


@pytest.mark.slow
def test_rounds_on_tables_do_not_feel_the_rows():
    few = min(stage_seconds(100_000, "tables", (100, 3100)) for _ in range(3))
    many = min(stage_seconds(200_000, "tables", (100, 3100)) for _ in range(3))
    on_rows = min(stage_seconds(200_000, "rows", (5, 35)) for _ in range(3))
    assert many < 1.3 * few
    assert on_rows > 5 * many
