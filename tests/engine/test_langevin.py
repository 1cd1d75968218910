"""Noise: the draws are standard normal and independent, and chains of trees have the law that theory gives them."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles.chain import LeafLaw, autocorrelation, leaf_normal, noise_key, replay, row_normal
from oracles.grower import DEPTHWISE, LOSSGUIDE, STREAM_LEAF, STREAM_STRUCT, SYMMETRIC, leaf_of_rows
from oracles.problems import make_noise, make_problem, weight_arrays
from scipy import stats

from skboost._engine import langevin

N = 200_000
every_policy = pytest.mark.parametrize("policy", [SYMMETRIC, DEPTHWISE, LOSSGUIDE])
# A right program fails a check at this level once in a million runs; seeds are fixed.
LEVEL = 1e-6


def random_hashes(n, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 2**32, n, dtype=np.uint32) for _ in range(2))


def row_draws(hash0, hash1, seed=0, stream=STREAM_STRUCT, iteration=0, output=0):
    out = np.empty(len(hash0), dtype=np.float32)
    langevin.row_normals(hash0, hash1, seed, stream, iteration, output, out)
    return out


def leaf_draws(n, seed=0, stream=STREAM_LEAF, iteration=0, output=0):
    out = np.empty(n)
    langevin.leaf_normals(seed, stream, iteration, output, out)
    return out


HASHES = {
    "random": lambda n: tuple(random_hashes(n)),
    "neighbours": lambda n: (np.arange(n, dtype=np.uint32), np.zeros(n, dtype=np.uint32)),
    "neighbours in the other half": lambda n: (np.full(n, 7, dtype=np.uint32), np.arange(n, dtype=np.uint32)),
    "equal halves": lambda n: (np.arange(n, dtype=np.uint32), np.arange(n, dtype=np.uint32)),
    "high bits": lambda n: (np.arange(n, dtype=np.uint32) << 14, np.arange(n, dtype=np.uint32) << 13),
}


def assert_standard_normal(draws):
    n = len(draws)
    draws = np.asarray(draws, dtype=np.float64)
    bound = -stats.norm.ppf(LEVEL / 2)
    assert abs(draws.mean()) < bound / math.sqrt(n)
    assert abs(draws.var() - 1) < bound * math.sqrt(2 / n)
    assert abs(stats.skew(draws)) < bound * math.sqrt(6 / n)
    assert abs(stats.kurtosis(draws)) < bound * math.sqrt(24 / n)
    assert stats.kstest(draws, "norm").pvalue > LEVEL


def assert_uncorrelated(a, b):
    """The draws themselves, their sizes and their signs."""
    bound = -stats.norm.ppf(LEVEL / 2) / math.sqrt(len(a))
    for f in (np.asarray, np.square, np.sign):
        assert abs(np.corrcoef(f(a), f(b))[0, 1]) < bound


# ---------------------------------------------------------------- draws


# A fixed half keeps the radius or the angle of all rows, so only hashes that vary in both can be normal.
@pytest.mark.parametrize("kind", ["random", "equal halves", "high bits"])
def test_row_draws_are_standard_normal(kind, seed):
    for iteration in range(2):
        assert_standard_normal(row_draws(*HASHES[kind](N), seed=seed, iteration=iteration))


def test_leaf_draws_are_standard_normal(seed):
    assert_standard_normal(leaf_draws(N, seed))


@pytest.mark.parametrize("draw", ["row", "leaf"])
def test_tails(draw):
    """Expected numbers beyond 3, 4 and 5 sigma; single precision ends below 6."""
    n = 4_000_000
    draws = leaf_draws(n // 4) if draw == "leaf" else row_draws(*random_hashes(n))
    for limit in (3.0, 4.0, 4.8):
        expected = len(draws) * stats.norm.sf(limit)
        for count in (np.sum(draws > limit), np.sum(draws < -limit)):
            assert stats.poisson.cdf(count, expected) > LEVEL
            assert stats.poisson.sf(count - 1, expected) > LEVEL
    assert np.abs(draws).max() < (6.0 if draw == "row" else 9.0)
    assert np.all(np.isfinite(draws))


KEYS = [
    {"iteration": 1}, {"iteration": 2}, {"iteration": 1000}, {"output": 1}, {"output": 2}, {"output": 254},
    {"seed": 1}, {"seed": 2**63}, {"stream": 3}, {"stream": 4}, {"iteration": 1, "output": 1},
]  # fmt: skip


@pytest.mark.parametrize("other", KEYS, ids=str)
def test_draws_of_different_keys_are_independent(other):
    for kind in ("random", "equal halves"):
        hashes = HASHES[kind](N)
        assert_uncorrelated(row_draws(*hashes), row_draws(*hashes, **other))
    assert_uncorrelated(leaf_draws(N), leaf_draws(N, **other))


@pytest.mark.parametrize("kind", ["equal halves", "high bits"])
@pytest.mark.parametrize("lag", [1, 2, 3, 8, 64, 256])
def test_draws_of_neighbouring_hashes_are_independent(kind, lag):
    draws = row_draws(*HASHES[kind](N))
    assert_uncorrelated(draws[lag:], draws[:-lag])
    leaves = leaf_draws(N)
    assert_uncorrelated(leaves[lag:], leaves[:-lag])


@pytest.mark.parametrize("kind", ["neighbours", "neighbours in the other half"])
def test_one_half_of_a_hash_alone_moves_the_draw(kind):
    assert len(np.unique(row_draws(*HASHES[kind](10_000)))) > 9_900


def test_structure_and_leaf_draws_are_independent():
    hashes = HASHES["equal halves"](N)
    assert_uncorrelated(row_draws(*hashes), leaf_draws(N))


@pytest.mark.parametrize("key", [{}, {"seed": 2**64 - 1}, {"iteration": 70_000, "output": 3}, {"stream": 9}], ids=str)
def test_draws_are_those_of_box_muller(key):
    """The kernels' own logarithm and cosine against double precision; also, the draws never change between versions."""
    hash0, hash1 = (np.r_[h, np.zeros(3), np.full(3, 2**32 - 1)].astype(np.uint32) for h in random_hashes(3000))
    number = noise_key(**{"seed": 0, "stream": STREAM_STRUCT, "iteration": 0, "output": 0} | key)
    expected = [row_normal(int(a), int(b), number) for a, b in zip(hash0, hash1, strict=True)]
    assert_allclose(row_draws(hash0, hash1, **key), expected, rtol=1e-6, atol=2e-6)
    number = noise_key(**{"seed": 0, "stream": STREAM_LEAF, "iteration": 0, "output": 0} | key)
    expected = [leaf_normal(leaf, number) for leaf in range(1000)]
    assert_allclose(leaf_draws(1000, **key), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 7, 15, 16, 17, 33, 100])
def test_a_draw_depends_on_its_key_alone(n):
    hash0, hash1 = (np.ascontiguousarray(h) for h in random_hashes(200))
    draws = row_draws(hash0, hash1, seed=5, iteration=3)
    at = np.random.default_rng(n).permutation(200)[:n]
    assert_array_equal(row_draws(hash0[at], hash1[at], seed=5, iteration=3), draws[at])
    assert_array_equal(leaf_draws(n, 5), leaf_draws(200, 5)[:n])


# ---------------------------------------------------------------- noise on the gradients


def one_leaf(n, target=0.0, **rules):
    """Rows of equal codes: trees of one leaf."""
    problem = make_problem(0, n=n, n_bins=(2,), noise=True, **rules)
    problem.codes[:] = 1
    problem.y, problem.base = np.full(n, float(target)), np.zeros(1)
    problem.noise = make_noise(problem.codes, problem.weights)
    return problem


def test_a_group_of_equal_rows_has_one_draw_of_its_total_weight():
    """Two groups, no signal: the gain of the split is the noise, with variance sigma^2 W in every group."""
    weights = weight_arrays(np.tile([1.0, 3.0], 20), 1.0, True)
    problem = make_problem(0, n=40, n_bins=(3,), noise=True, max_depth=1, l2=0.0)
    problem.codes[:, 0], problem.weights = np.repeat([1, 2], 20), weights
    problem.y, problem.base = np.zeros(40), np.zeros(1)
    problem.noise = make_noise(problem.codes, weights)
    trainer, gains, sigma = problem.trainer(), [], 0.7
    hashes = problem.noise["hash0"][[0, 20]].copy(), problem.noise["hash1"][[0, 20]].copy()
    for iteration in range(400):
        trainer.scores[...] = 0
        tree = trainer.grow(iteration, 1, sigma=sigma)
        a, b = sigma * math.sqrt(40) * row_draws(*hashes, seed=1, iteration=iteration).astype(float)
        gain = a * a / 40 + b * b / 40 - (a + b) ** 2 / 80
        gains.append(gain / sigma**2)
        assert_allclose(tree["gain"], [gain], rtol=1e-5, atol=1e-7)
    assert stats.kstest(gains, "chi2", args=(1,)).pvalue > 1e-4


def test_structure_noise_leaves_the_leaf_values_alone():
    """Leaf values are those of noise-free sums plus leaf noise: subtract the known draws."""
    problem = make_problem(3, n=200, noise=True, max_depth=3, l2=2.0)
    tree = problem.trainer().grow(0, 9, sigma=5.0)
    leaf = leaf_of_rows(tree, problem.codes)
    grad = problem.base[0] - problem.y
    sums, weight = np.bincount(leaf, grad), np.bincount(leaf)
    noise = 5.0 * np.sqrt(weight + 2.0) * leaf_draws(len(weight), 9)
    assert_allclose(tree["leaf_value"][:, 0], -0.1 * (sums + noise) / (weight + 2.0), rtol=1e-5)
    quiet = problem.trainer().grow(0, 9)
    assert not np.array_equal(quiet["threshold"], tree["threshold"])


@pytest.mark.parametrize("loss", ["multinomial", "gaussian"])
def test_outputs_have_their_own_draws(loss):
    problem = make_problem(3, loss, n=300, noise=True, max_depth=3)
    trainer = problem.trainer()
    values = trainer.grow(0, 9, sigma=1e6)["leaf_value"]
    draws = np.stack([leaf_draws(len(values), 9, output=k) for k in range(values.shape[1])], axis=1)
    assert_array_equal(np.sign(-values), np.sign(draws))
    assert np.unique(np.sign(draws), axis=1).shape[1] == values.shape[1]


# ---------------------------------------------------------------- laws of chains


def states(problem, law, n_states, burn_in=200, seed=0):
    """Scores of the rows after every iteration of a chain with the noise and shrinkage of the law."""
    trainer, out = problem.trainer(), np.empty((n_states, len(problem.y)))
    for iteration in range(-burn_in, n_states):
        shrink = 1.0 if iteration == -burn_in else law.shrink
        trainer.grow(iteration + burn_in, seed, shrink=shrink, sigma=law.sigma)
        if iteration >= 0:
            out[iteration] = trainer.scores[0]
    return out


def assert_law(series, law):
    """Mean, variance and lag-one correlation within five standard errors of an autoregressive series."""
    n, rho = len(series), law.correlation
    mean_error = math.sqrt(law.variance / n * (1 + rho) / (1 - rho))
    variance_error = law.variance * math.sqrt(2 / n * (1 + rho**2) / (1 - rho**2))
    assert abs(series.mean() - law.mean) < 5 * mean_error
    assert abs(series.var() - law.variance) < 5 * variance_error
    assert abs(autocorrelation(series) - rho) < 5 * math.sqrt((1 - rho**2) / n) + 4 / n


# eps, T, gamma, lambda, rho, mean, variance (known numbers)
KNOWN = [
    (LeafLaw(100, 1.0, 0.1, 1.0, 0.005), 0.89955, 0.995520, 0.0104816),
    (LeafLaw(100, 1.0, 0.1, 100.0, 0.005), 0.89955, 0.995520, 1.048164e-4),
    (LeafLaw(100, 1.0, 0.1, 1.0, 0.005, 25.0), 0.91954, 0.994283, 0.0103596),
    (LeafLaw(50, -2.0, 0.5, 1.0, 0.01), 0.4975, -1.990050, 0.0265783),
]


@pytest.mark.parametrize(("law", "rho", "mean", "variance"), KNOWN)
def test_one_leaf_chain(law, rho, mean, variance):
    assert_allclose((law.correlation, law.mean, law.variance), (rho, mean, variance), rtol=1e-5)
    problem = one_leaf(int(law.weight), law.target, l2=law.l2, learning_rate=law.learning_rate)
    assert_law(states(problem, law, 20_000)[:, 0], law)


@pytest.mark.parametrize("weight", [1.0, 4.0])
@pytest.mark.parametrize("l2", [0.0, 50.0])
@every_policy
def test_two_leaf_chain(policy, weight, l2):
    """Leaves of 100 rows each; weights act as copies and l2 hardly moves the variance."""
    law = [LeafLaw(100 * weight, target, 0.5, 1.0, 0.005, l2) for target in (-3.0, 3.0)]
    problem = make_problem(0, n=200, n_bins=(3,), noise=True, max_depth=1, l2=l2, learning_rate=0.5, policy=policy)
    problem.codes[:, 0], problem.base = np.repeat([1, 2], 100), np.zeros(1)
    problem.y = np.repeat([-3.0, 3.0], 100)
    if weight != 1:
        problem.weights = weight_arrays(np.full(200, weight), 1.0, True)
    problem.noise = make_noise(problem.codes, problem.weights)
    series = states(problem, law[0], 6000)
    # Where the noise of both groups is alike no split is worth it; these steps move both leaves together.
    for leaf, column in zip(law, (series[:, 0], series[:, -1]), strict=True):
        assert abs(column.mean() - leaf.mean) < 0.1
    assert_allclose(series.var(axis=0)[[0, -1]], [leaf.variance for leaf in law], rtol=0.12)
    limit = 1 / (100 * weight)
    assert abs(law[0].variance / limit - 1) < 0.35


def test_l2_is_no_prior():
    """Stationary variances with lambda 0 and 50 are the same up to the step size."""
    variances = []
    for l2 in (0.0, 50.0):
        law = LeafLaw(100, 0.0, 0.1, 1.0, 0.005, l2)
        variances.append(states(one_leaf(100, 0.0, l2=l2), law, 20_000)[:, 0].var())
    assert abs(variances[0] / variances[1] - 1) < 0.1


@pytest.mark.parametrize("l2", [0.0, 7.0])
@pytest.mark.parametrize("weights", [None, "fractional"])
def test_size_of_leaf_noise(l2, weights):
    """Over 2000 seeds the variance of a value is 2 eps / (T D)."""
    problem = one_leaf(30, 0.0, l2=l2)
    if weights:
        problem.weights = weight_arrays(np.linspace(0.2, 3.0, 30), 2.0**12, False)
        problem.noise = make_noise(problem.codes, problem.weights)
    total = 30 if weights is None else problem.weights["weight"].sum()
    values = []
    for seed in range(2000):
        trainer = problem.trainer()
        values.append(trainer.grow(0, seed, sigma=math.sqrt(2 / 0.1))["leaf_value"][0, 0])
    expected = 2 * 0.1 / (total + l2)
    assert abs(np.var(values) / expected - 1) < 0.13
    assert stats.kstest(np.array(values) / math.sqrt(expected), "norm").pvalue > 1e-3


def test_gradient_and_newton_leaves_are_one_for_squared_error():
    for policy in (SYMMETRIC, DEPTHWISE, LOSSGUIDE):
        pair = [
            make_problem(5, n=300, noise=True, policy=policy, newton=newton, max_leaves=9, min_weight=4).trainer()
            for newton in (False, True)
        ]
        for iteration in range(5):
            trees = [trainer.grow(iteration, 2, sigma=0.4, shrink=0.95) for trainer in pair]
            for key in ("feature", "threshold", "missing_right", "leaf_weight", "leaf_value"):
                assert_array_equal(trees[0][key], trees[1][key])
        assert_array_equal(pair[0].scores, pair[1].scores)


def test_weights_are_copies_in_law():
    """A leaf of 25 rows of weight 4 has the law of 100 rows."""
    law = LeafLaw(100, 1.0, 0.1, 1.0, 0.005)
    problem = one_leaf(25, 1.0, l2=0.0)
    problem.weights = weight_arrays(np.full(25, 4.0), 1.0, True)
    problem.noise = make_noise(problem.codes, problem.weights)
    assert_law(states(problem, law, 20_000)[:, 0], law)


# ---------------------------------------------------------------- shrinkage and gradient scale


@every_policy
def test_scores_follow_the_recurrence(policy):
    problem = make_problem(7, "multinomial", 200, noise=True, policy=policy, max_leaves=8, max_depth=4)
    trainer = problem.trainer()
    shrinks = [1.0, 0.9, 1.0, 0.5, 0.999, 0.25]
    trees, seen = [], []
    for iteration, shrink in enumerate(shrinks):
        trees.append(trainer.grow(iteration, 1, shrink=shrink, sigma=0.2))
        seen.append(trainer.scores.copy())
    for scores, expected in zip(seen, replay(trees, shrinks, leaf_of_rows, problem.codes, 3), strict=True):
        assert_array_equal(scores, expected)


@every_policy
def test_scaled_gradients_equal_a_larger_step_and_temperature(policy):
    """Gradients times 2, step eps, T against step 2 eps, 2 T: the same chain, bit for bit."""
    chains = []
    for scale, eps, temperature in ((2.0, 0.0625, 1.0), (1.0, 0.125, 2.0)):
        problem = make_problem(7, n=200, noise=True, policy=policy, max_leaves=8, learning_rate=eps)
        trainer = problem.trainer()
        for iteration in range(10):
            sigma = math.sqrt(2 / (eps * temperature))
            trainer.grow(iteration, 1, shrink=1 - 2.0**-10, sigma=sigma, gradient_scale=scale)
        chains.append(trainer.scores)
    assert_array_equal(*chains)
