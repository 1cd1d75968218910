"""The picture of a Gaussian process of one feature."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

from skboost import LaplaceGPClassifier, SGLBClassifier
from skboost.gaussian_process._links import LINKS
from skboost.inspection import LatentDisplay

pytestmark = pytest.mark.usefixtures("pyplot")


def rows(n=30):
    x = np.random.default_rng(0).uniform(-1, 1, n)
    return x[:, None], np.where(np.sin(4 * x) > 0, "yes", "no")


def fitted(X=None, y=None, **params):
    if X is None:
        X, y = rows()
    return LaplaceGPClassifier(4.0 * RBF(0.5), optimizer=None, **params).fit(X, y)


def edges(band):
    """Return the lower and the upper curve of a band."""
    vertices = band.get_paths()[0].vertices
    n = (len(vertices) - 3) // 2
    return vertices[1 : n + 1, 1], vertices[n + 2 : 2 * n + 2, 1][::-1]


@pytest.mark.parametrize("link", LINKS)
def test_curves_and_bands_are_those_of_the_model(link):
    model = fitted(link=link)
    display = LatentDisplay.from_estimator(model, n_points=50)
    x, mean = display.lines_[0].get_data()
    expected_mean, variance = model.latent_mean_and_variance(x[:, None])
    assert_allclose(mean, expected_mean, rtol=1e-12)
    assert_allclose(display.lines_[1].get_ydata(), model.predict_proba(x[:, None])[:, 1], rtol=1e-12)
    for band, width in zip(display.bands_, (2, 1, 2, 1), strict=True):
        ends = [mean - width * np.sqrt(variance), mean + width * np.sqrt(variance)]
        if band in display.bands_[2:]:
            ends = [LINKS[link].probability(end) for end in ends]
        for found, end in zip(edges(band), ends, strict=True):
            assert_allclose(found, end, rtol=1e-9, atol=1e-12)


def test_range_and_training_rows():
    X, y = rows()
    display = LatentDisplay.from_estimator(fitted(), n_points=11, margin=0.5)
    width = np.ptp(X)
    assert_allclose(display.lines_[0].get_xdata()[[0, -1]], [X.min() - 0.5 * width, X.max() + 0.5 * width])
    for points, label in zip(display.points_, ("no", "yes"), strict=True):
        assert_array_equal(points.get_xdata(), X[y == label, 0])
    display = LatentDisplay.from_estimator(fitted(), limits=(-3, 5), show_data=False)
    assert display.ax_.get_xlim() == (-3, 5)
    assert display.points_ == []


def test_names_and_axes(pyplot):
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        display = LatentDisplay.from_estimator(fitted(pd.DataFrame(X, columns=["age"]), y))
        assert display.probability_ax_.get_xlabel() == "age"
        assert display.probability_ax_.get_ylabel() == "probability of yes"
        assert LatentDisplay.from_estimator(fitted()).probability_ax_.get_xlabel() == "x"
        figure, ax = pyplot.subplots(1, 2)
        display = LatentDisplay.from_estimator(fitted(), ax=ax[1])
        figure.canvas.draw()
    assert display.figure_ is figure
    assert display.ax_ is ax[1]
    assert display.axes_ == [ax[1], figure.axes[2]]


def test_moments_at_hand():
    display = LatentDisplay([0.0, 1.0], [0.0, 1.0], [0.0, 4.0], link="logit").plot()
    assert_allclose(display.lines_[1].get_ydata(), [0.5, 0.647726438526], atol=1e-11)
    for bad, words in (
        (LatentDisplay([0.0, 1.0], [0.0], [1.0, 1.0]), "equally long"),
        (LatentDisplay([0.0, 1.0], [0.0, 1.0], [1.0, -1.0]), "no variance negative"),
        (LatentDisplay([0.0, 1.0], [0.0, 1.0], [1.0, 1.0], link="cauchit"), "link must be one of"),
        (LatentDisplay([0.0, 1.0], [0.0, 1.0], [1.0, 1.0], x_train=[0.0]), "given together"),
    ):
        with pytest.raises(ValueError, match=words):
            bad.plot()


def test_refusals():
    X, y = rows()
    with pytest.raises(TypeError, match="must be a fitted LaplaceGPClassifier, got SGLBClassifier"):
        LatentDisplay.from_estimator(SGLBClassifier())
    with pytest.raises(NotFittedError):
        LatentDisplay.from_estimator(LaplaceGPClassifier())
    with pytest.raises(ValueError, match="models of one feature"):
        LatentDisplay.from_estimator(fitted(np.hstack([X, X]), y))
    three = fitted(X, np.digitize(X[:, 0], [-0.3, 0.3]))
    with pytest.raises(ValueError, match="two classes, this one has 3"):
        LatentDisplay.from_estimator(three)
    assert LatentDisplay.from_estimator(three.estimators_[1]).lines_
    with pytest.raises(ValueError, match="n_points must be an integer"):
        LatentDisplay.from_estimator(fitted(), n_points=1)
    with pytest.raises(ValueError, match="finite and not empty"):
        LatentDisplay.from_estimator(fitted(), limits=(1, 1))
    with pytest.raises(TypeError, match="ax must be a Matplotlib Axes"):
        LatentDisplay.from_estimator(fitted(), ax=3)
