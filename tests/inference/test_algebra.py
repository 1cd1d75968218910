"""The closed form of Boulevard additive models against known answers, dense row space and the recursion itself."""

import itertools

import numpy as np
import pytest
from oracles import boulevard as oracle

from skboost._engine import boulevard_rows
from skboost.inference import _algebra, _stage


def make_cells(codes, sizes):
    shapes = np.array([[size, 1] for size in sizes], dtype=np.int64)
    return _stage.StageCells(np.ascontiguousarray(codes, dtype=np.uint16), shapes, np.ones_like(shapes, dtype=np.uint8))


def make_rows(y, seed=0):
    keys = np.random.default_rng(seed).integers(0, 2**63, len(y)).astype(np.uint64)
    return _stage.StageRows(keys, np.ones(len(y), dtype=np.int64), y - y.mean())


def make_rules(**changes):
    rules = {"n_rounds": 50, "learning_rate": 1.0, "subsample": 1.0, "max_leaves": 32, "min_samples_leaf": 5, "l2": 0.0}
    return _stage.StageRules(**{**rules, "structure": "random", "update": "joint", **changes})


class Fit:
    """A stage of all terms: limit, covariance and boosted shapes."""

    def __init__(self, codes, sizes, y, rules, leaves=None, seed=0):
        self.cells, self.rows = make_cells(codes, sizes), make_rows(y)
        self.n = len(y)
        self.table = boulevard_rows.contingency(self.cells.codes, self.cells.starts, self.rows.copies, 1)
        self.counts = self.table.diagonal()
        self.leaves, self.boosted = _stage.boost(self.cells, self.rows, self.table, rules, seed, 0, 1, leaves)
        self.blocks = _algebra.kernel_blocks(self.leaves, self.cells.starts, self.counts, rules.kappa)
        self.gram = _algebra.centred_table(self.table, self.n)
        self.weights = _algebra.stage_weights(
            self.blocks, self.cells.starts, self.gram, self.counts, rules.learning_rate, rules.update
        )
        self.shapes = self.weights @ _stage.cell_sums(self.cells, self.rows, self.rows.target)
        self.cov = _algebra.covariance(self.weights, self.gram)
        self.df1, self.df2 = _algebra.degrees_of_freedom(self.weights, self.gram, self.cov)
        self.errors = np.sqrt(self.cov.diagonal())


def every_cell_a_leaf(sizes, n_rounds):
    return np.tile(np.concatenate([np.arange(size) for size in sizes]).astype(np.int16), (n_rounds, 1))


def factorial(seed=0):
    """6 x 6 x 6 with two replications."""
    codes = np.repeat(np.indices((6, 6, 6)).reshape(3, -1), 2, axis=1)
    rng = np.random.default_rng(seed)
    return codes, (6, 6, 6), np.sin(codes[0]) + 0.3 * codes[1] + rng.normal(size=codes.shape[1])


def unbalanced(seed=1, n=400, correlated=True):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(3, n))
    if correlated:
        latent[1] = 0.7 * latent[0] + 0.5 * latent[1]
    sizes = (8, 7, 9)
    shares = [np.cumsum(rng.uniform(0.3, 1.0, size)) for size in sizes]
    codes = np.array([np.digitize(x, np.quantile(x, c[:-1] / c[-1])) for x, c in zip(latent, shares, strict=True)])
    return codes, sizes, np.sin(2 * latent[0]) + latent[1] + 0.5 * rng.normal(size=n)


@pytest.mark.parametrize("learning_rate", [0.3, 1.0, 4.0])
def test_balanced_factorial_gives_cell_means(learning_rate):
    codes, sizes, y = factorial()
    rules = make_rules(n_rounds=1, learning_rate=learning_rate)
    fit = Fit(codes, sizes, y, rules, every_cell_a_leaf(sizes, 1))
    means = np.concatenate([[y[code == cell].mean() - y.mean() for cell in range(6)] for code in codes])
    assert fit.shapes == pytest.approx(means, abs=1e-12)
    assert fit.cov.diagonal() == pytest.approx(np.full(18, 1 / 72 - 1 / 432), abs=1e-12)
    assert (fit.df1, fit.df2) == pytest.approx((16, 16), abs=1e-10)


@pytest.mark.parametrize(("learning_rate", "l2"), [(1.0, 3.0), (0.5, 10.0)])
def test_balanced_factorial_with_penalty_shrinks_by_the_known_factor(learning_rate, l2):
    codes, sizes, y = factorial()
    fit = Fit(codes, sizes, y, make_rules(n_rounds=1, learning_rate=learning_rate, l2=l2), every_cell_a_leaf(sizes, 1))
    e = 72 / (72 + l2)
    a = (1 + learning_rate) * e / (1 + learning_rate * e)
    means = np.concatenate([[y[code == cell].mean() - y.mean() for cell in range(6)] for code in codes])
    assert fit.shapes == pytest.approx(a * means, abs=1e-12)
    assert fit.cov.diagonal() == pytest.approx(np.full(18, a * a * (1 / 72 - 1 / 432)), abs=1e-12)
    assert fit.df1 == pytest.approx(1 + a * 15, abs=1e-10)


def test_one_eigenvalue_of_one_makes_the_recursion_exact_after_two_rounds():
    codes, sizes, y = factorial()
    fit = Fit(codes, sizes, y, make_rules(n_rounds=2), every_cell_a_leaf(sizes, 2))
    assert fit.boosted == pytest.approx(fit.shapes, abs=2e-15)
    slow = Fit(codes, sizes, y, make_rules(n_rounds=2, learning_rate=2.0), every_cell_a_leaf(sizes, 2))
    assert np.abs(slow.boosted - slow.shapes).max() > 1e-3
    three = Fit(codes, sizes, y, make_rules(n_rounds=3, learning_rate=2.0), every_cell_a_leaf(sizes, 3))
    assert three.boosted == pytest.approx(three.shapes, abs=2e-14)


def test_every_cell_a_leaf_converges_faster_than_one_over_the_rounds():
    codes, sizes, y = unbalanced()
    rules = [make_rules(n_rounds=n, learning_rate=0.7) for n in (200, 1600)]
    gaps = []
    for rule in rules:
        fit = Fit(codes, sizes, y, rule, every_cell_a_leaf(sizes, rule.n_rounds))
        gaps.append(np.abs(fit.boosted - fit.shapes).max())
    assert gaps[0] < 2e-3
    assert gaps[1] < 2e-4
    assert np.log(gaps[1] / gaps[0]) / np.log(8) < -1


def test_random_structures_with_sampled_rows_converge_to_the_limit():
    codes, sizes, y = unbalanced(n=600)
    gaps = []
    for n_rounds in (400, 6400):
        fit = Fit(codes, sizes, y, make_rules(n_rounds=n_rounds, learning_rate=0.7, subsample=0.8))
        gaps.append(np.sqrt(np.mean((fit.boosted - fit.shapes) ** 2)) / fit.errors.mean())
    assert gaps[0] < 0.15
    assert gaps[1] < 0.5 * gaps[0]


@pytest.mark.parametrize("update", _stage.UPDATES)
@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_recursion_is_that_of_the_oracle(update, l2):
    codes, sizes, y = unbalanced()
    fit = Fit(codes, sizes, y, make_rules(n_rounds=7, learning_rate=0.8, l2=l2, update=update))
    wanted = oracle.boost(codes, sizes, y, fit.leaves, 0.8, l2, update)
    assert fit.boosted == pytest.approx(np.concatenate(wanted), abs=1e-12)


@pytest.mark.parametrize("subsample", [1.0, 0.8])
def test_cell_space_equals_row_space(subsample):
    codes, sizes, y = unbalanced()
    fit = Fit(codes, sizes, y, make_rules(learning_rate=0.6, subsample=subsample, l2=1.0))
    starts = fit.cells.starts
    kernels = [
        oracle.kernel(fit.leaves[:, a:b], fit.counts[a:b], 1.0 / subsample) for a, b in itertools.pairwise(starts)
    ]
    for block, wanted in zip(fit.blocks, kernels, strict=True):
        assert block == pytest.approx(wanted, abs=1e-14)
    weights = oracle.row_weights(codes, sizes, kernels, 0.6)
    assert fit.shapes == pytest.approx(weights @ y, abs=1e-10)
    assert fit.cov == pytest.approx(weights @ weights.T, abs=1e-10)
    projection = 1 / fit.n + oracle.indicators(codes, sizes) @ weights
    assert fit.df1 == pytest.approx(np.trace(projection), abs=1e-10)
    assert fit.df2 == pytest.approx(np.sum(projection**2), abs=1e-10)


@pytest.mark.parametrize("learning_rate", [1.0, 0.5])
def test_leave_one_out_with_every_cell_a_leaf(learning_rate):
    codes, sizes, y = unbalanced()
    rules = make_rules(n_rounds=1, learning_rate=learning_rate, update="leave_one_out")
    fit = Fit(codes, sizes, y, rules, every_cell_a_leaf(sizes, 1))
    shapes, cov, rank = oracle.dummy_regression(codes, sizes, y)
    same = np.allclose(fit.shapes, shapes, atol=1e-10)
    assert same == (learning_rate == 1.0)
    if same:
        assert fit.cov == pytest.approx(cov, abs=1e-10)
        assert fit.df1 == pytest.approx(rank, abs=1e-8)


def test_joint_limit_of_large_learning_rates_is_least_squares():
    codes, sizes, y = unbalanced()
    wanted = oracle.dummy_regression(codes, sizes, y)[0]
    errors = []
    for learning_rate in (1e3, 1e6):
        rules = make_rules(n_rounds=1, learning_rate=learning_rate)
        errors.append(np.abs(Fit(codes, sizes, y, rules, every_cell_a_leaf(sizes, 1)).shapes - wanted).max())
    assert errors[0] < 0.1
    assert errors[1] == pytest.approx(errors[0] / 1e3, rel=0.1)


def test_two_stages_are_one_linear_smoother():
    codes, sizes, y = unbalanced()
    first = Fit(codes[:2], sizes[:2], y, make_rules(learning_rate=0.7))
    n_first = first.cells.n_cells
    both = make_cells(codes, sizes)
    table = boulevard_rows.contingency(both.codes, both.starts, first.rows.copies, 1)
    gram = _algebra.centred_table(table, first.n)
    residual = first.rows.target - oracle.indicators(codes[:2], sizes[:2]) @ first.shapes
    second = Fit(codes[2:], sizes[2:], residual, make_rules(learning_rate=0.7), seed=1)
    weights = _algebra.stack_stages(first.weights, second.weights, gram)
    shapes = weights @ _stage.cell_sums(both, first.rows, first.rows.target)
    assert shapes == pytest.approx(np.concatenate([first.shapes, second.shapes]), abs=1e-12)
    assert shapes[:n_first] == pytest.approx(first.shapes, abs=1e-13)
    # every column of the weights, against unit labels pushed through both stages
    labels = np.random.default_rng(5).normal(size=(len(y), 3))
    labels -= labels.mean(axis=0)
    Z1, Z2 = oracle.indicators(codes[:2], sizes[:2]), oracle.indicators(codes[2:], sizes[2:])
    mains = first.weights @ Z1.T @ labels
    pairs = second.weights @ Z2.T @ (labels - Z1 @ mains)
    assert weights @ np.concatenate([Z1.T, Z2.T]) @ labels == pytest.approx(np.concatenate([mains, pairs]), abs=1e-11)


@pytest.mark.parametrize("update", _stage.UPDATES)
def test_invariants(update):
    codes, sizes, y = unbalanced()
    fit = Fit(codes, sizes, y, make_rules(update=update, subsample=0.7))
    for shapes in (fit.shapes, fit.boosted):
        for part in fit.cells.blocks:
            assert fit.counts[part] @ shapes[part] == pytest.approx(0, abs=1e-11)
    eigenvalues = np.linalg.eigvalsh(fit.cov)
    assert eigenvalues.min() > -1e-12 * eigenvalues.max()


def test_standard_errors_fall_with_the_rows():
    errors = []
    for n in (200, 1600):
        codes, sizes, y = unbalanced(n=n)
        errors.append(Fit(codes, sizes, y, make_rules(n_rounds=200)).errors.mean())
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("structure", _stage.STRUCTURES)
def test_result_does_not_depend_on_threads_or_copies(structure):
    codes, sizes, y = unbalanced(n=20_000)
    cells, rows = make_cells(codes, sizes), make_rows(np.round(y, 3))
    table = boulevard_rows.contingency(cells.codes, cells.starts, rows.copies, 1)
    assert np.array_equal(table, boulevard_rows.contingency(cells.codes, cells.starts, rows.copies, 2))
    rules = make_rules(n_rounds=5, subsample=0.5, structure=structure)
    one, two = (_stage.boost(cells, rows, table, rules, 3, 0, n) for n in (1, 2))
    assert np.array_equal(one[0], two[0])
    assert np.array_equal(one[1], two[1])


@pytest.mark.parametrize("update", _stage.UPDATES)
def test_many_terms_that_say_the_same_do_not_blow_up_the_first_rounds(update):
    rng = np.random.default_rng(0)
    latent = rng.normal(size=200)
    columns = latent + 0.2 * rng.normal(size=(30, 200))
    codes = np.array([np.digitize(x, np.quantile(x, np.arange(1, 8) / 8)) for x in columns])
    fit = Fit(codes, (8,) * 30, latent + rng.normal(size=200), make_rules(n_rounds=300, update=update))
    assert 10 < _stage.largest_eigenvalue(fit.table, 200) <= 30
    assert np.abs(fit.boosted).max() < 10 * np.abs(fit.shapes).max()


def test_largest_eigenvalue_is_that_of_the_projections():
    codes, sizes, _ = unbalanced()
    fit = Fit(codes, sizes, np.arange(400.0), make_rules(n_rounds=1))
    Z = oracle.indicators(codes, sizes)
    Z -= Z.mean(axis=0)
    wanted = np.linalg.eigvalsh(Z / fit.counts @ Z.T).max()
    assert _stage.largest_eigenvalue(fit.table, 400) == pytest.approx(wanted, rel=0.01)
    codes, sizes, y = factorial()
    assert _stage.first_divisor(Fit(codes, sizes, y, make_rules()).table, 432, make_rules(learning_rate=2.0)) == 0
    assert _stage.first_divisor(Fit(codes, sizes, y, make_rules()).table, 432, make_rules(learning_rate=4.0)) == 1


def test_collinear_terms_have_the_solution_of_least_norm():
    codes, sizes, y = unbalanced()
    codes, sizes = np.stack([codes[0], codes[0]]), (sizes[0], sizes[0])
    rules = make_rules(n_rounds=1, update="leave_one_out")
    fit = Fit(codes, sizes, y, rules, every_cell_a_leaf(sizes, 1))
    assert fit.shapes[: sizes[0]] == pytest.approx(fit.shapes[sizes[0] :], abs=1e-8)
    assert fit.shapes == pytest.approx(oracle.dummy_regression(codes, sizes, y)[0], abs=1e-8)


@pytest.mark.parametrize("left", [0.0, 1e-3, 0.4])
def test_a_part_of_a_degree_of_freedom_is_none(left):
    with pytest.raises(ValueError, match="residual degrees of freedom"):
        _algebra.noise_variance(1.0, 50, 50.0, 50.0 + left)
    assert _algebra.noise_variance(3.0, 2, 1.0 + 1e-15, 1.0) == pytest.approx(3.0)


def test_noise_variance_needs_residual_degrees_of_freedom():
    assert _algebra.noise_variance(30.0, 20, 6.0, 7.0) == 2.0
    with pytest.raises(ValueError, match="n_samples=20"):
        _algebra.noise_variance(0.0, 20, 20.0, 20.0)
    assert _algebra.adjusted_noise_variance(1.0, 5.0, 100, 10.0, 1.0, "joint") == pytest.approx(1 + 4.9 / 4)
    assert _algebra.adjusted_noise_variance(1.0, 0.01, 100, 10.0, 1.0, "joint") == 1.0
    assert _algebra.adjusted_noise_variance(1.0, 5.0, 100, 10.0, 1.0, "leave_one_out") == 1.0
