"""Pictures of fitted estimators."""

import numpy as np
import pandas as pd
import pytest

from skboost import EBMClassifier, EBMRegressor
from skboost.inspection import (
    InteractionDisplay,
    LocalExplanationDisplay,
    ShapeDisplay,
    TermImportanceDisplay,
    plot_summary,
)

pytestmark = pytest.mark.usefixtures("pyplot")

SMALL = {"outer_bags": 3, "max_rounds": 30, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.normal(50, 10, 300).round(1),
            "fare": np.exp(rng.normal(2, 1.5, 300)),
            "port": pd.Categorical(rng.choice(["a", "b", "c"], 300)),
        }
    )
    X.loc[rng.random(300) < 0.2, "age"] = np.nan
    return X


def target(X):
    age = X["age"].fillna(60.0)
    return ((age - 50) / 10 * np.log(X["fare"]) + X["port"].cat.codes.to_numpy()).to_numpy()


@pytest.fixture(scope="module", params=["regression", "binary", "multiclass", "poisson"])
def model(request, frame):
    y, pairs = target(frame), [("age", "fare"), ("age", "port")]
    if request.param in {"regression", "poisson"}:
        loss = "poisson" if request.param == "poisson" else "squared_error"
        y = np.round(np.exp(y / 10)) if loss == "poisson" else y
        return EBMRegressor(loss=loss, interactions=pairs, **SMALL).fit(frame, y)
    cuts = [0.0] if request.param == "binary" else [-1.0, 2.0]
    labels = np.array(["low", "middle", "high"])[np.searchsorted(cuts, y)]
    return EBMClassifier(interactions=pairs, **SMALL).fit(frame, labels)


def test_curves_are_those_of_the_model(model):
    for term, name in enumerate(model.term_names_[:2]):
        display = ShapeDisplay.from_estimator(model, name)
        scores = model.term_scores_[term][1:-1].reshape(len(model.term_scores_[term]) - 2, -1)
        for k, line in enumerate(display.lines_):
            values, borders, _ = line.get_data()
            np.testing.assert_array_equal(values, scores[:, k])
            np.testing.assert_array_equal(borders[1:-1], model.bins_[term][0])
            assert (borders[0], borders[-1]) == tuple(model.feature_bounds_[term])
    assert ShapeDisplay.from_estimator(model, "age").missing_ax_ is not None
    assert ShapeDisplay.from_estimator(model, "fare").missing_ax_ is None


def test_heat_maps_are_those_of_the_model(model):
    display = InteractionDisplay.from_estimator(model, ("fare", "age"))
    scores = model.term_scores_[3][1:-1, 1:-1]
    if scores.ndim == 3:
        scores = scores[..., list(model.classes_).index(display.class_label_)]
    np.testing.assert_array_equal(display.image_.get_array(), scores.T)
    x = display.image_.get_coordinates()[0, :, 0]
    np.testing.assert_array_equal(x[1:-1], model.bins_[0][1])
    assert list(display.missing_images_) == ["first"]


def test_one_prediction_adds_up(model, frame):
    row = frame.iloc[[3]]
    display = LocalExplanationDisplay.from_estimator(model, row, y="low")
    total = display.intercept + sum(bar.get_width() for bar in display.bars_)
    raw = np.asarray(model.explain_local(row)[0]["raw_score"]).ravel()
    k = int(np.argmax(raw)) if len(raw) > 1 else 0
    np.testing.assert_allclose(total, raw[k], rtol=1e-12)


def test_one_prediction_with_an_initial_score_adds_up(frame):
    y, start = target(frame), np.full(300, 5.0)
    model = EBMRegressor(interactions=0, **SMALL).fit(frame, y, init_score=start)
    display = LocalExplanationDisplay.from_estimator(model, frame.iloc[[0]], init_score=[5.0])
    total = display.intercept + sum(bar.get_width() for bar in display.bars_)
    np.testing.assert_allclose(total, model.predict(frame.iloc[[0]], init_score=[5.0])[0], rtol=1e-12)
    np.testing.assert_allclose(display.intercept, model.intercept_ + 5.0, rtol=1e-12)


def test_the_summary_of_everything(model):
    figure = plot_summary(model, coverage=0.95)
    figure.canvas.draw()
    titles = {ax.get_title(loc="left") for ax in figure.axes}
    assert {"age", "fare", "port", "Importance of terms"} <= titles
    bars = TermImportanceDisplay.from_estimator(model)
    np.testing.assert_array_equal([bar.get_width() for bar in bars.bars_], np.sort(model.term_importances())[::-1])
