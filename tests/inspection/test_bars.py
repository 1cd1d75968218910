"""Bars of importances and of one prediction, and the figure of a whole model."""

import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from drawn_model import DrawnModel, categorical, numeric, term
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from skboost.inspection import InteractionDisplay, LocalExplanationDisplay, ShapeDisplay, TermImportanceDisplay
from skboost.inspection import plot_summary as summary

pytestmark = pytest.mark.usefixtures("pyplot")

AGE = numeric("age", [40.0], 20.0, 80.0, feature=0)
CITY = categorical("city", ["Berlin", "Paris"], feature=1)
BMI = numeric("bmi", [25.0], 15.0, 40.0, feature=2)


def model(**kwargs):
    """Return a model of three features and one pair; every number is a sum of few."""
    cross = np.zeros((4, 4))
    cross[:2, :2] = [[0.25, -0.25], [-0.25, 0.25]]
    return DrawnModel(
        [
            term([AGE], [-1.0, 1.0, 0.0, 0.0], [0.1, 0.2, 0.0, 0.0]),
            term([CITY], [0.5, -0.5, 0.0, 0.125], weights=[1.0, 1.0, 0.0, 1.0]),
            term([BMI], [-3.0, 3.0, 0.0, 0.0]),
            term([AGE, BMI], cross),
        ],
        intercept=10.0,
        **kwargs,
    )


def classifier(n_classes):
    """Return a model of one feature with as many classes; class k has the score k on the upper side."""
    if n_classes == 2:
        return DrawnModel([term([AGE], [-1.0, 1.0, 0.0, 0.0])], intercept=0.5, classes=["no", "yes"], link="logit")
    values = np.zeros((4, n_classes))
    values[1] = np.arange(n_classes)
    labels = [f"c{k}" for k in range(n_classes)]
    return DrawnModel(
        [term([AGE], values, classes=labels)], intercept=np.full(n_classes, 0.25), classes=labels, link="mlogit"
    )


def frame(age=50.0, city="Paris", bmi=20.0):
    return pd.DataFrame({"age": [age], "city": [city], "bmi": [bmi]})


class Framed(DrawnModel):
    """Takes frames, as estimators do."""

    def eval_terms(self, X):
        return super().eval_terms(X.to_numpy(dtype=object))


def framed():
    plain = model()
    return Framed(plain.shapes, intercept=plain.intercept_)


def bars(display):
    return [bar.get_width() for bar in display.bars_]


def words(display):
    return [text.get_text() for text in display.ax_.get_yticklabels()]


def test_importances_are_sorted_and_pairs_have_their_colour():
    display = TermImportanceDisplay([0.1, 0.4, 0.2], ["a", "b", "a & b"], features=[(0,), (1,), (0, 1)]).plot()
    assert bars(display) == [0.4, 0.2, 0.1]
    assert words(display) == ["b", "a & b", "a"]
    np.testing.assert_array_equal(display.order_, [1, 2, 0])
    b, pair, a = (bar.get_facecolor() for bar in display.bars_)
    assert b == a != pair
    legend = display.ax_.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["feature", "pair"]
    assert [patch.get_facecolor() for patch in legend.get_patches()] == [a, pair]
    low, high = display.ax_.get_ylim()
    assert low > high


def test_equal_importances_keep_the_order_of_the_terms():
    display = TermImportanceDisplay([0.5, 1.0, 0.5, 1.0], list("abcd")).plot()
    assert words(display) == ["b", "d", "a", "c"]


def test_only_the_first_importances_are_drawn():
    display = TermImportanceDisplay(np.arange(20.0), [f"f{k}" for k in range(20)]).plot(max_terms=3)
    assert bars(display) == [19.0, 18.0, 17.0]
    assert "first 3 of 20" in display.ax_.get_title(loc="left")


def test_numbers_beside_the_bars():
    display = TermImportanceDisplay([0.123456, 1e-17, 0.0], list("abc")).plot()
    assert [text.get_text() for text in display.ax_.texts] == ["0.123", "0", "0"]
    assert display.ax_.get_xlim()[0] == 0.0


def test_a_model_of_nothing_can_be_drawn():
    zero = DrawnModel([term([AGE], np.zeros(4))])
    empty = DrawnModel([], intercept=2.0)
    for estimator in (zero, empty):
        summary(estimator).canvas.draw()
        assert TermImportanceDisplay.from_estimator(estimator).ax_.get_xlim() == (0.0, 1.0)
        assert LocalExplanationDisplay.from_estimator(zero, np.array([[50.0]])).intercept == 0.0


def test_importances_of_an_estimator():
    display = TermImportanceDisplay.from_estimator(model())
    assert words(display) == ["bmi", "age", "city", "age & bmi"]
    assert bars(display) == [3.0, 1.0, 0.375, 0.25]
    assert display.ax_.get_xlabel() == "mean absolute score (weighted)"
    assert TermImportanceDisplay.from_estimator(model(), importance_type="std").ax_.get_xlabel() != ""


@pytest.mark.parametrize(
    ("values", "names"), [([1.0], ["a", "b"]), ([[1.0]], ["a"]), ([np.nan], ["a"]), ([-1.0], ["a"])]
)
def test_wrong_importances_are_refused(values, names):
    with pytest.raises(ValueError, match="importances"):
        TermImportanceDisplay(values, names).plot()


@pytest.mark.parametrize("max_terms", [0, -1, 2.0, True, None])
def test_wrong_numbers_of_bars_are_refused(pyplot, max_terms):
    for call in (
        lambda: TermImportanceDisplay([1.0], ["a"]).plot(max_terms=max_terms),
        lambda: LocalExplanationDisplay([1.0], ["a"], 0.0).plot(max_terms=max_terms),
        lambda: summary(model(), max_terms=max_terms),
    ):
        with pytest.raises(ValueError, match="max_terms"):
            call()
    assert pyplot.get_fignums() == []


def test_contributions_of_one_row():
    display = LocalExplanationDisplay.from_estimator(framed(), frame(), y=[7.5])
    assert words(display) == ["bmi = 20", "age = 50", "city = Paris", "age & bmi = 50 & 20"]
    assert bars(display) == [-3.0, 1.0, -0.5, -0.25]
    assert display.ax_.get_title(loc="left") == "Predicted 7.25, truth 7.5"
    assert display.ax_.texts[-1].get_text() == "score 7.25 = intercept 10 - terms 2.75"
    negative, positive = display.bars_[0].get_facecolor(), display.bars_[1].get_facecolor()
    assert negative != positive


def test_contributions_and_intercept_add_up_to_the_prediction():
    estimator = framed()
    display = LocalExplanationDisplay.from_estimator(estimator, frame(age=30.0), max_terms=2)
    assert words(display)[-1] == "2 other terms"
    assert sum(bars(display)) + display.intercept == estimator.predict(frame(age=30.0))[0]


def test_missing_values_are_named():
    display = LocalExplanationDisplay.from_estimator(framed(), frame(age=np.nan, city=None))
    assert words(display)[1:] == ["city = missing", "age = missing", "age & bmi = missing & 20"]


def test_arrays_are_explained_too():
    X = np.array([[50.0, 20.0]])
    estimator = DrawnModel([term([AGE], [-1, 1, 0, 0]), term([numeric("x1", [25], 0, 30, feature=1)], [2, 3, 0, 0])])
    assert words(LocalExplanationDisplay.from_estimator(estimator, X)) == ["x1 = 20", "age = 50"]


def test_lists_and_polars_frames_are_explained_too():
    polars = pytest.importorskip("polars")

    class Listed(DrawnModel):
        def eval_terms(self, X):
            return super().eval_terms(np.asarray(X, dtype=object))

    estimator = Listed(model().shapes, intercept=10.0)
    for X in ([[50.0, "Paris", 20.0]], polars.DataFrame(frame().to_dict("list"))):
        display = LocalExplanationDisplay.from_estimator(estimator, X)
        assert words(display) == ["bmi = 20", "age = 50", "city = Paris", "age & bmi = 50 & 20"]


def test_two_classes_explain_the_second():
    display = LocalExplanationDisplay.from_estimator(classifier(2), np.array([[30.0]]), y="yes")
    assert bars(display) == [-1.0]
    title = display.ax_.get_title(loc="left").replace("\n", " ")
    assert title == f"Predicted no, probability of yes {1 / (1 + np.exp(0.5)):.3g}, truth yes"
    assert display.ax_.get_xlabel() == "score (log-odds of yes)"


def test_several_classes_explain_the_predicted_or_the_chosen():
    X = np.array([[50.0]])
    display = LocalExplanationDisplay.from_estimator(classifier(3), X)
    assert bars(display) == [2.0]
    assert display.ax_.get_title(loc="left").startswith("Predicted c2, probability 0.665")
    other = LocalExplanationDisplay.from_estimator(classifier(3), X, class_label="c1")
    assert bars(other) == [1.0]
    assert other.ax_.get_title(loc="left").startswith("Predicted c2, probability of c1 0.245")
    with pytest.raises(ValueError, match="class_label must be one of"):
        LocalExplanationDisplay.from_estimator(classifier(3), X, class_label="c9")
    with pytest.raises(ValueError, match="class_label must be None"):
        LocalExplanationDisplay.from_estimator(model(), np.array([[50.0, "Paris", 20.0]], object), class_label="c1")


@pytest.mark.parametrize("X", [np.zeros((2, 3)), np.zeros(3), np.zeros((0, 3)), 1.0])
def test_only_one_row_is_explained(X):
    with pytest.raises(ValueError, match="one row"):
        LocalExplanationDisplay.from_estimator(model(), X)


def test_the_truth_is_one_value():
    with pytest.raises(ValueError, match="y must be"):
        LocalExplanationDisplay.from_estimator(framed(), frame(), y=[1.0, 2.0])


def test_wrong_contributions_are_refused():
    with pytest.raises(ValueError, match="contributions"):
        LocalExplanationDisplay([1.0, 2.0], ["a"], 0.0).plot()


def titles(figure):
    return [text for ax in figure.axes if (text := ax.get_title(loc="left"))]


def test_summary_shows_bars_curves_and_heat_maps(pyplot):
    figure = summary(model())
    assert titles(figure) == ["Importance of terms", "bmi", "age", "city", "age & bmi"]
    notes = [text.get_text() for ax in figure.axes for text in ax.texts if "model:" in text.get_text()]
    assert "3 features, 1 pair" in notes[0]
    assert "over 4 bags" in notes[0]
    figure.canvas.draw()
    assert pyplot.get_fignums() == [figure.number]


def test_summary_takes_the_most_important_terms():
    assert titles(summary(model(), max_shapes=1, max_pairs=0)) == ["Importance of terms", "bmi"]
    assert titles(summary(model(), max_shapes=0, max_pairs=0)) == ["Importance of terms"]
    assert titles(summary(model(), max_shapes=0)) == ["Importance of terms", "age & bmi"]


def test_summary_compares_on_common_ranges():
    def ranges(**kwargs):
        figure = summary(model(), **kwargs)
        return {ax.get_title(loc="left"): ax.get_ylim() for ax in figure.axes}

    common, own = ranges(), ranges(common_range=False)
    assert common["bmi"] == common["age"] == common["city"]
    assert own["bmi"] != own["age"]


def test_summary_of_several_classes_has_one_legend():
    values = np.zeros((4, 3))
    shapes = [term([axis], values, classes=["a", "b", "c"]) for axis in (AGE, BMI)]
    figure = summary(DrawnModel(shapes, intercept=np.zeros(3), classes=["a", "b", "c"], link="mlogit"))
    assert sum(ax.get_legend() is not None for ax in figure.axes) == 1


@pytest.mark.parametrize(
    ("kwargs", "name"),
    [({"max_shapes": -1}, "max_shapes"), ({"max_pairs": 1.5}, "max_pairs"), ({"coverage": 0}, "coverage")],
)
def test_summary_refuses_wrong_options(pyplot, kwargs, name):
    with pytest.raises(ValueError, match=name):
        summary(model(), **kwargs)
    assert pyplot.get_fignums() == []


def test_summary_closes_its_figure_when_it_fails(pyplot):
    broken = model()
    broken.bag_weights_ = None
    del broken.bag_weights_
    with pytest.raises(AttributeError):
        summary(broken)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda estimator: ShapeDisplay.from_estimator(estimator, 0),
        lambda estimator: InteractionDisplay.from_estimator(estimator, 0),
        lambda estimator: TermImportanceDisplay.from_estimator(estimator),
        lambda estimator: LocalExplanationDisplay.from_estimator(estimator, np.zeros((1, 1))),
        summary,
    ],
)
def test_other_estimators_are_refused(draw):
    for estimator in (LinearRegression(), DrawnModel, None):
        with pytest.raises(TypeError, match="fitted EBMRegressor or EBMClassifier"):
            draw(estimator)

    class Unfitted(DrawnModel):
        def __sklearn_is_fitted__(self):
            return False

    with pytest.raises(NotFittedError):
        draw(Unfitted([]))


def test_drawing_changes_no_settings():
    before = dict(matplotlib.rcParams)
    summary(model())
    LocalExplanationDisplay.from_estimator(framed(), frame())
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_error_names_it():
    code = """
import sys
sys.modules["matplotlib"] = None
from skboost.inspection import TermImportanceDisplay
try:
    TermImportanceDisplay([1.0], ["a"]).plot()
except ImportError as error:
    assert str(error) == "TermImportanceDisplay needs Matplotlib; install it with pip install matplotlib.", error
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
