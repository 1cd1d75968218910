"""Pictures of main terms show exactly what the model holds."""

import matplotlib
import numpy as np
import pytest
from drawn_model import DrawnModel, categorical, numeric, term

from skboost.inspection import ShapeDisplay
from skboost.inspection._shape import common_limits

pytestmark = pytest.mark.usefixtures("pyplot")

EDGES, VALUES = [1.0, 2.5, 4.0], [0.5, -1.0, 0.25, 2.0]
DEVIATIONS = [0.1, 0.2, 0.3, 0.4]


def age(missing_weight=0.0, **kwargs):
    weights = [10.0, 30.0, 20.0, 40.0, 0.0, missing_weight]
    return term([numeric("age", EDGES, 0.0, 10.0)], [*VALUES, 0.0, -0.75], [*DEVIATIONS, 0.0, 0.15], weights, **kwargs)


def colours(missing_weight=25.0):
    axis = categorical("colour", ["blue", "green", "red"], feature=1)
    weights = [50.0, 5.0, 20.0, 0.0, missing_weight]
    return term([axis], [1.0, -2.0, 0.5, 0.0, 0.75], [0.1, 0.2, 0.3, 0.0, 0.05], weights)


def species():
    values = np.array([[0.5, -0.5, 0.0], [-1.0, 0.25, 0.75], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    return term([numeric("petal", [3.0], 1.0, 6.0)], values, 0.1 * np.abs(values), classes=["a", "b", "c"])


def errorbar_data(container):
    """Return places, heights and half-widths of points with whiskers."""
    line, _, bars = container
    segments = np.array(bars[0].get_segments()) if bars else np.empty((0, 2, 2))
    half = (segments[:, 1, 1] - segments[:, 0, 1]) / 2
    return line.get_xdata(), line.get_ydata(), half


def test_the_curve_is_constant_in_cells_from_the_lowest_to_the_highest_value():
    display = ShapeDisplay(age()).plot()
    values, edges, _ = display.lines_[0].get_data()
    np.testing.assert_array_equal(values, VALUES)
    np.testing.assert_array_equal(edges, [0.0, *EDGES, 10.0])
    assert len(display.lines_) == 1


def test_the_band_is_one_deviation_to_both_sides():
    display = ShapeDisplay(age()).plot()
    high, edges, low = display.bands_[0].get_data()
    np.testing.assert_array_equal(high, np.add(VALUES, DEVIATIONS))
    np.testing.assert_array_equal(low, np.subtract(VALUES, DEVIATIONS))
    np.testing.assert_array_equal(edges, [0.0, *EDGES, 10.0])


@pytest.mark.parametrize(
    ("shape", "kwargs"), [(age(), {"band": False}), (term([numeric("x", EDGES, 0, 10)], [*VALUES, 0, 0]), {})]
)
def test_no_band_without_deviations_or_when_not_wanted(shape, kwargs):
    assert ShapeDisplay(shape).plot(**kwargs).bands_ == []


def test_missing_values_stand_apart_with_their_share():
    display = ShapeDisplay(age(missing_weight=25.0)).plot()
    x, y, half = errorbar_data(display.points_[0])
    np.testing.assert_array_equal(y, [-0.75])
    np.testing.assert_allclose(half, [0.15])
    assert [text.get_text() for text in display.missing_ax_.texts] == ["missing\n20 %"]
    assert display.missing_ax_ in display.axes_
    assert display.missing_ax_.get_ylim() == display.ax_.get_ylim()
    display.figure_.canvas.draw()
    assert display.missing_ax_.get_position().x0 > display.ax_.get_position().x1
    assert x == [0.0]


def test_no_panel_for_missing_values_that_no_row_has():
    display = ShapeDisplay(age()).plot()
    assert display.missing_ax_ is None
    assert display.points_ == []


def test_the_strip_holds_the_weight_and_shares_the_axis():
    display = ShapeDisplay(age()).plot()
    strip = display.density_ax_
    heights, bars, _ = strip.patches[0].get_data()
    assert heights.sum() == pytest.approx(100.0)
    # Weight 40 in the cell from 4 to 10, spread evenly.
    width = bars[1] - bars[0]
    np.testing.assert_allclose(heights[bars[:-1] >= 4.0], 40.0 * width / 6.0)
    assert strip.get_xlim() == display.ax_.get_xlim()
    assert strip.get_xlabel() == "age"
    display.figure_.canvas.draw()
    assert strip.get_position().y1 < display.ax_.get_position().y0


def test_without_the_strip_the_curve_names_its_axis():
    display = ShapeDisplay(age()).plot(show_density=False)
    assert display.density_ax_ is None
    assert display.axes_ == [display.ax_]
    assert display.ax_.get_xlabel() == "age"


def test_coverage_cuts_tails_of_the_axis_but_not_the_curve():
    display = ShapeDisplay(age()).plot(coverage=0.8)
    values, edges, _ = display.lines_[0].get_data()
    np.testing.assert_array_equal(values, VALUES)
    np.testing.assert_array_equal(edges, [0.0, *EDGES, 10.0])
    low, high = display.ax_.get_xlim()
    # A tenth of the weight lies below 1 and a tenth above 4 + 6 * 30 / 40.
    margin = 0.015 * (8.5 - 1.0)
    np.testing.assert_allclose([low, high], [1.0 - margin, 8.5 + margin])
    assert "80 %" in display.density_ax_.get_xlabel()


def test_the_vertical_axis_holds_curve_band_and_missing_value():
    low, high = ShapeDisplay(age(missing_weight=1.0)).plot().ax_.get_ylim()
    assert low < -1.2
    assert high > 2.4


def test_bars_of_categories_with_whiskers():
    display = ShapeDisplay(colours()).plot()
    assert [bar.get_height() for bar in display.bars_] == [1.0, -2.0, 0.5, 0.75, 0.0]
    words = [text.get_text() for text in display.density_ax_.get_xticklabels()]
    assert words == ["blue", "green", "red", "missing", "unseen"]
    segments = np.array(display.points_[0][2][0].get_segments())
    np.testing.assert_allclose((segments[:, 1, 1] - segments[:, 0, 1]) / 2, [0.1, 0.2, 0.3, 0.05])
    assert [bar.get_height() for bar in display.density_ax_.patches] == [50.0, 5.0, 20.0, 25.0, 0.0]


def test_categories_without_missing_values_and_with_unseen_ones():
    display = ShapeDisplay(colours(missing_weight=0.0)).plot()
    words = [text.get_text() for text in display.density_ax_.get_xticklabels()]
    assert words == ["blue", "green", "red", "unseen"]
    # The score of an unseen category is marked, for a bar of height 0 would not be seen.
    _, y, _ = errorbar_data(display.points_[-1])
    np.testing.assert_array_equal(y, [0.0])


@pytest.mark.parametrize(
    ("order", "words"),
    [("level", ["blue", "green", "red"]), ("value", ["blue", "red", "green"]), ("weight", ["blue", "red", "green"])],
)
def test_order_of_categories(order, words):
    display = ShapeDisplay(colours()).plot(category_order=order)
    assert [text.get_text() for text in display.density_ax_.get_xticklabels()][:3] == words


def test_only_the_heaviest_categories_are_drawn():
    display = ShapeDisplay(colours()).plot(max_categories=2)
    assert [bar.get_height() for bar in display.bars_] == [1.0, 0.5, 0.75, 0.0]
    assert "1 lighter categories not shown" in display.density_ax_.get_xlabel()


def test_one_line_per_class():
    shape = species()
    display = ShapeDisplay(shape).plot()
    assert len(display.lines_) == 3
    for k, line in enumerate(display.lines_):
        np.testing.assert_array_equal(line.get_data().values, shape.values[:2, k])
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["a", "b", "c"]
    colours = [line.get_edgecolor() for line in display.lines_]
    assert len(set(colours)) == 3


def test_chosen_classes_keep_their_colours():
    everything, some = ShapeDisplay(species()).plot(), ShapeDisplay(species()).plot(classes=["c"])
    np.testing.assert_array_equal(some.lines_[0].get_data().values, species().values[:2, 2])
    assert some.lines_[0].get_edgecolor() == everything.lines_[2].get_edgecolor()


def test_categories_of_several_classes_are_points():
    values = np.arange(12.0).reshape(4, 3)
    shape = term([categorical("c", ["x", "y"])], values, 0.1 + 0 * values, [1.0, 1.0, 0.0, 2.0], ["a", "b", "c"])
    display = ShapeDisplay(shape).plot()
    assert display.bars_ is None
    for k in range(3):
        _, y, half = errorbar_data(display.points_[2 * k])
        np.testing.assert_array_equal(y, values[[0, 1, 3], k])
        np.testing.assert_allclose(half, 0.1)
        _, y, _ = errorbar_data(display.points_[2 * k + 1])
        np.testing.assert_array_equal(y, values[[2], k])


def test_very_many_classes_have_colours_of_their_own():
    values = np.zeros((4, 12))
    shape = term([numeric("x", [0.0], -1, 1)], values, classes=list(range(12)))
    lines = ShapeDisplay(shape).plot().lines_
    assert len({line.get_edgecolor() for line in lines}) == 12


def test_from_estimator_takes_indices_and_names():
    model = DrawnModel([age(), colours()])
    for key in (0, "age", -2, np.int64(0)):
        assert ShapeDisplay.from_estimator(model, key).shape is model.shapes[0]
    assert ShapeDisplay.from_estimator(model, "colour").ax_.get_ylabel() == "score (units of the target)"
    binary = DrawnModel([age()], classes=["no", "yes"], link="logit")
    assert ShapeDisplay.from_estimator(binary, 0).ax_.get_ylabel() == "score (log-odds of yes)"


def test_a_common_range_holds_every_main_term():
    model = DrawnModel([age(), colours()])
    displays = [ShapeDisplay.from_estimator(model, t, common_range=True) for t in range(2)]
    assert displays[0].ax_.get_ylim() == displays[1].ax_.get_ylim() == common_limits(model.shapes)
    assert ShapeDisplay.from_estimator(model, 0).ax_.get_ylim() != displays[0].ax_.get_ylim()


@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
def test_axes_that_are_given_keep_to_their_place(pyplot, layout):
    figure, (left, right) = pyplot.subplots(1, 2, layout=layout, figsize=(9, 4))
    display = ShapeDisplay(age(missing_weight=5.0)).plot(ax=left)
    ShapeDisplay(colours()).plot(ax=right)
    assert display.ax_ is left
    assert display.figure_ is figure
    figure.canvas.draw()
    assert max(ax.get_position().x1 for ax in display.axes_) < right.get_position().x0
    boxes = [ax.get_position() for ax in display.axes_]
    for i, first in enumerate(boxes):
        for second in boxes[i + 1 :]:
            assert not (first.x0 < second.x1 and second.x0 < first.x1 and first.y0 < second.y1 and second.y0 < first.y1)


def test_axes_placed_by_hand_are_divided_too(pyplot):
    ax = pyplot.figure().add_axes([0.1, 0.2, 0.5, 0.6])
    display = ShapeDisplay(age(missing_weight=5.0)).plot(ax=ax)
    boxes = [panel.get_position() for panel in display.axes_]
    np.testing.assert_allclose(min(box.x0 for box in boxes), 0.1)
    np.testing.assert_allclose(max(box.x1 for box in boxes), 0.6)
    np.testing.assert_allclose(min(box.y0 for box in boxes), 0.2)
    np.testing.assert_allclose(max(box.y1 for box in boxes), 0.8)
    assert display.density_ax_.get_position().y1 < display.ax_.get_position().y0
    assert display.missing_ax_.get_position().x0 > display.ax_.get_position().x1


@pytest.mark.parametrize(
    ("edges", "lower", "upper"),
    [
        ([], 3.0, 3.0),
        ([], np.nan, np.nan),
        ([], -np.inf, np.inf),
        ([0.0], -np.inf, np.inf),
        ([0.0, 1.0], -np.inf, 2.0),
        ([1e300], -1e300, 1.5e300),
        ([1000.0000001], 1000.0, 1000.0000002),
    ],
)
def test_strange_ranges_can_be_drawn(edges, lower, upper):
    values = np.zeros(len(edges) + 3)
    weights = np.r_[np.zeros(len(edges) + 1), 0.0, 4.0]
    display = ShapeDisplay(term([numeric("x", edges, lower, upper)], values, weights=weights)).plot()
    display.figure_.canvas.draw()
    assert np.isfinite(display.ax_.get_xlim()).all()
    edges = display.lines_[0].get_data().edges
    assert (np.diff(edges) >= 0).all()
    # A constant column has a line of some length too.
    assert edges[-1] > edges[0]
    assert len(display.points_) == 1


def test_long_and_odd_names_are_drawn():
    name = "the annual income in $ of a household\nafter tax, $ " + "x" * 200
    levels = [name + str(k) for k in range(40)]
    for axis, n in ((numeric(name, [0.0], -1, 1), 4), (categorical(name, levels), 42)):
        display = ShapeDisplay(term([axis], np.zeros(n))).plot()
        display.figure_.canvas.draw()
        assert len(display.ax_.get_title(loc="left")) < 80


@pytest.mark.parametrize(
    ("kwargs", "name"),
    [
        ({"coverage": 0.0}, "coverage"),
        ({"coverage": 1.5}, "coverage"),
        ({"coverage": "all"}, "coverage"),
        ({"coverage": True}, "coverage"),
        ({"category_order": "score"}, "category_order"),
        ({"max_categories": 0}, "max_categories"),
        ({"max_categories": 2.5}, "max_categories"),
        ({"classes": ["a"]}, "classes"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_drawn(pyplot, kwargs, name):
    with pytest.raises(ValueError, match=name):
        ShapeDisplay(colours()).plot(**kwargs)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("classes", [["a", "z"], []])
def test_unknown_classes_are_refused(classes):
    with pytest.raises(ValueError, match="classes must be labels out of"):
        ShapeDisplay(species()).plot(classes=classes)


def test_pairs_are_refused():
    pair = term([age().axes[0], colours().axes[0]], np.zeros((6, 5)))
    with pytest.raises(ValueError, match="InteractionDisplay"):
        ShapeDisplay(pair).plot()
    with pytest.raises(ValueError, match="InteractionDisplay"):
        ShapeDisplay.from_estimator(DrawnModel([age(), pair]), "age & colour")


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        ("agee", ValueError, "no term 'agee'; the terms are 'age', 'colour'"),
        (2, ValueError, "no term 2: there are 2"),
        (1.0, TypeError, "by its position or its name"),
        (True, TypeError, "by its position or its name"),
        (None, TypeError, "by its position or its name"),
    ],
)
def test_unknown_terms_are_refused(key, error, message):
    with pytest.raises(error, match=message):
        ShapeDisplay.from_estimator(DrawnModel([age(), colours()]), key)


def test_axes_must_be_axes(pyplot):
    with pytest.raises(TypeError, match="ax must be a Matplotlib Axes"):
        ShapeDisplay(age()).plot(ax=pyplot.figure())


def test_drawing_changes_no_settings():
    before = dict(matplotlib.rcParams)
    ShapeDisplay(age(missing_weight=3.0)).plot()
    assert dict(matplotlib.rcParams) == before
