"""Generated data against their formulas, known moments and a mixture density of SciPy."""

import inspect
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skboost import datasets
from skboost.datasets import GaussianGrid, make_gap, make_gaussian_grid, make_heteroscedastic, make_spiral

MAKERS = [make_spiral, make_gaussian_grid, make_heteroscedastic, make_gap]


@pytest.mark.parametrize("make", MAKERS)
def test_same_seed_same_bits(make):
    for first, again in zip(make(random_state=3), make(random_state=np.random.RandomState(3)), strict=True):
        assert_array_equal(first, again)
    assert (make(random_state=3)[0] != make(random_state=4)[0]).any()


@pytest.mark.parametrize("make", MAKERS)
def test_size_and_errors(make):
    X, y = make(7, random_state=0)
    assert X.dtype == np.float64
    assert len(X) == len(y) == (21 if make is make_spiral else 7)
    for bad in (0, -1, 1.5, "7", None):
        with pytest.raises(ValueError, match="'n_samples' parameter of make_"):
            make(bad)
    with pytest.raises(ValueError, match="'random_state' parameter"):
        make(7, random_state="seed")
    assert next(iter(inspect.signature(make).parameters)) == "n_samples"


def legacy_spiral(n, noise, seed, n_classes=3):
    """Return the points as the published notebook draws them, with rand and randn."""
    generator = np.random.RandomState(seed)
    points = []
    for c in range(n_classes):
        t = np.sqrt(generator.rand(n)) * 6 * np.pi
        x = -np.cos(t + c * 2 * np.pi / n_classes) * t**2 + generator.randn(n) * noise * t * np.sqrt(t)
        y = np.sin(t + c * 2 * np.pi / n_classes) * t**2 + generator.randn(n) * noise * t * np.sqrt(t)
        points.append(np.transpose([x, y]))
    return np.concatenate(points)


def test_spiral_has_the_points_of_the_paper():
    X, y = make_spiral(random_state=24)
    assert X.shape == (4500, 2)
    assert_array_equal(np.bincount(y), [1500, 1500, 1500])
    assert_allclose(X, legacy_spiral(1500, 0.4, 24), rtol=0, atol=1e-10)


def test_spiral_without_noise_lies_on_its_arms():
    X, y = make_spiral(200, n_classes=4, noise=0, random_state=0)
    t = np.sqrt(np.hypot(*X.T))
    assert t.max() <= 6 * np.pi
    angle = t + 2 * np.pi * y / 4
    assert_allclose(X, np.transpose([-(t**2) * np.cos(angle), t**2 * np.sin(angle)]), atol=1e-9)
    # t / 6 pi is the square root of a uniform number.
    assert stats.kstest((t / (6 * np.pi)) ** 2, "uniform").pvalue > 1e-3


def test_spiral_noise_grows_as_the_radius_to_three_quarters():
    noisy, clean = make_spiral(5000, noise=0.4, random_state=1)[0], make_spiral(5000, noise=0, random_state=1)[0]
    t = np.sqrt(np.hypot(*clean.T))
    # The classes after the first draw the same numbers, as noise=0 draws too.
    scaled = (noisy - clean) / (0.4 * t**1.5)[:, None]
    assert stats.kstest(scaled.ravel(), "norm").pvalue > 1e-3


def test_derived_features():
    X, y = make_spiral(10, random_state=0)
    nine, same_y = make_spiral(10, derived_features=True, random_state=0)
    coefficients = [(1, 0), (0, 1), (1, 1), (1, -1), (2, 1), (1, -2), (1, 2), (2, -1)]
    assert nine.shape == (30, 9)
    assert_allclose(nine[:, :8], X @ np.transpose(coefficients), rtol=1e-12, atol=1e-9)
    assert_allclose(nine[:, 8] ** 2, (X**2).sum(axis=1), rtol=1e-12)
    assert_array_equal(y, same_y)


@pytest.mark.parametrize(("name", "value"), [("n_classes", 1), ("noise", -0.1), ("derived_features", 2)])
def test_spiral_names_a_bad_parameter(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of make_spiral"):
        make_spiral(10, **{name: value})


def test_gaussian_grid_means():
    means = GaussianGrid().means
    assert {tuple(mean) for mean in means} == {(a, b) for a in (-4, -2, 0, 2, 4) for b in (-4, -2, 0, 2, 4)}
    assert_array_equal(
        GaussianGrid(n_per_side=2, spacing=1).means, [[-0.5, -0.5], [-0.5, 0.5], [0.5, -0.5], [0.5, 0.5]]
    )


@pytest.mark.parametrize("grid", [GaussianGrid(), GaussianGrid(3, 0.7, 0.5)])
def test_log_density_is_that_of_the_mixture(grid):
    X = np.random.default_rng(0).uniform(-5, 5, size=(50, 2))
    parts = [stats.multivariate_normal(mean, grid.variance * np.eye(2)).pdf(X) for mean in grid.means]
    near = np.mean(parts, axis=0) > 1e-200
    assert near.sum() > 20
    assert_allclose(grid.log_density(X)[near], np.log(np.mean(parts, axis=0))[near], rtol=1e-12)
    # Far away the densities underflow, their logarithm does not: the nearest corner decides.
    far = np.array([[100.0, 100.0]])
    corner = np.square(far - grid.means.max(axis=0)).sum()
    expected = -0.5 * corner / grid.variance - np.log(2 * np.pi * grid.variance * len(grid.means))
    assert_allclose(grid.log_density(far), expected, rtol=1e-12)


def test_density_integrates_to_one():
    side = np.linspace(-6, 6, 601)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    assert_allclose(np.exp(GaussianGrid().log_density(points)).sum() * (side[1] - side[0]) ** 2, 1, rtol=1e-10)


def test_gradient_is_the_derivative():
    grid = GaussianGrid(4, 1.0, 0.2)
    X = np.random.default_rng(0).uniform(-3, 3, size=(40, 2))
    h = 1e-5
    numeric = [(grid.log_density(X + h * e) - grid.log_density(X - h * e)) / (2 * h) for e in np.eye(2)]
    assert_allclose(grid.gradient(X), np.transpose(numeric), atol=1e-7)
    # At a mean of the default grid the others are 2 / sqrt(0.03) = 11.5 standard deviations away.
    assert_allclose(GaussianGrid().gradient(GaussianGrid().means), 0, atol=1e-25)


def test_sampler_has_the_known_moments():
    X, y = make_gaussian_grid(50_000, random_state=0)
    counts = np.bincount(y, minlength=25)
    assert stats.chisquare(counts).pvalue > 1e-3
    # Standard errors of the mean and of the variance at 50,000 draws: 0.0127 and 0.030; four of them.
    assert_allclose(X.mean(axis=0), 0, atol=0.051)
    assert_allclose(np.cov(X.T), 8.03 * np.eye(2), atol=0.15)
    inner = (X - GaussianGrid().means[y]) / np.sqrt(0.03)
    assert stats.kstest(inner.ravel(), "norm").pvalue > 1e-3


@pytest.mark.parametrize(
    ("params", "name"),
    [({"n_per_side": 0}, "n_per_side"), ({"n_per_side": 2.0}, "n_per_side"), ({"spacing": 0}, "spacing"),
     ({"variance": -1}, "variance"), ({"variance": np.nan}, "variance")],
)  # fmt: skip
def test_gaussian_grid_names_a_bad_parameter(params, name):
    with pytest.raises(ValueError, match=name):
        GaussianGrid(**params)


def test_gaussian_grid_refuses_points_of_another_dimension():
    for method in (GaussianGrid().log_density, GaussianGrid().gradient):
        with pytest.raises(ValueError, match="two columns, got 3"):
            method(np.zeros((4, 3)))
        with pytest.raises(ValueError, match="NaN"):
            method([[0.0, np.nan]])


def test_heteroscedastic_moments():
    X, y, mean, sd = make_heteroscedastic(20_000, return_moments=True, random_state=0)
    assert X.shape == (20_000, 1)
    assert_allclose(mean, 2 * np.sin(2 * np.pi * X[:, 0]), rtol=1e-12)
    assert_allclose(sd, 0.5 + X[:, 0], rtol=1e-12)
    assert stats.kstest(X[:, 0], "uniform").pvalue > 1e-3
    assert stats.kstest((y - mean) / sd, "norm").pvalue > 1e-3
    for first, again in zip(make_heteroscedastic(20_000, random_state=0), (X, y), strict=True):
        assert_array_equal(first, again)


def test_gap():
    X, y, function = make_gap(20_000, noise=0.2, return_function=True, random_state=0)
    x = X[:, 0]
    left = x < 1.5
    assert 0 <= x.min() <= x[left].max() <= 1
    assert 2 <= x[~left].min() <= x.max() <= 3
    assert stats.kstest(x[left], "uniform").pvalue > 1e-3
    assert stats.kstest(x[~left] - 2, "uniform").pvalue > 1e-3
    assert stats.binomtest(int(left.sum()), 20_000).pvalue > 1e-3
    assert_allclose(function([[1.5]]), np.sin(4.5) + 0.75, rtol=1e-15)
    assert stats.kstest((y - function(X)) / 0.2, "norm").pvalue > 1e-3
    assert pickle.loads(pickle.dumps(function)) is function
    assert len(make_gap(5)) == 2
    with pytest.raises(ValueError, match="'noise' parameter of make_gap"):
        make_gap(5, noise=-1)


def test_every_maker_is_tested():
    assert {make.__name__ for make in MAKERS} == {name for name in datasets.__all__ if name.startswith("make_")}
