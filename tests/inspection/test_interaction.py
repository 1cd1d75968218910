"""Pictures of pairs show exactly what the model holds."""

import numpy as np
import pytest
from drawn_model import DrawnModel, categorical, numeric, term

from skboost.inspection import InteractionDisplay

pytestmark = pytest.mark.usefixtures("pyplot")

AGE = numeric("age", [1.0, 2.5], 0.0, 10.0, feature=0)
BMI = numeric("bmi", [20.0], 15.0, 40.0, feature=2)
COLOUR = categorical("colour", ["blue", "green", "red"], feature=1)


def tensor(rows, columns):
    return np.random.default_rng(0).normal(size=(rows, columns))


def pair(axes=(AGE, BMI), *, missing=(False, False), empty=(), classes=None):
    values = tensor(*(axis.n_cells for axis in axes))
    weights = np.ones(values.shape)
    weights[-2], weights[:, -2] = 0.0, 0.0
    if not missing[0]:
        weights[-1] = 0.0
    if not missing[1]:
        weights[:, -1] = 0.0
    for cell in empty:
        weights[cell] = 0.0
    if classes is not None:
        values = np.stack([values * (k + 1) for k in range(len(classes))], axis=-1)
    return term(axes, values, weights=weights, classes=classes)


def corners(mesh):
    """Return the borders of the columns and of the rows of a heat map."""
    grid = mesh.get_coordinates()
    return grid[0, :, 0], grid[:, 0, 1]


def test_the_image_is_the_tensor_with_its_true_borders():
    shape = pair()
    display = InteractionDisplay(shape).plot()
    np.testing.assert_array_equal(display.image_.get_array(), shape.values[:-2, :-2].T)
    x, y = corners(display.image_)
    np.testing.assert_array_equal(x, [0.0, 1.0, 2.5, 10.0])
    np.testing.assert_array_equal(y, [15.0, 20.0, 40.0])
    assert display.ax_.get_xlabel() == "age"
    assert display.ax_.get_ylabel() == "bmi"
    assert display.ax_.get_xlim() == (0.0, 10.0)


def test_colours_are_symmetric_around_zero():
    shape = pair()
    norm = InteractionDisplay(shape).plot().image_.norm
    assert norm.vmax == -norm.vmin == np.abs(shape.values[:-2, :-2]).max()
    assert InteractionDisplay(shape).plot(limit=7).image_.norm.vmax == 7
    zero = term([AGE, BMI], np.zeros((5, 4)))
    assert InteractionDisplay(zero).plot().image_.norm.vmin < 0


def test_cells_without_weight_are_pale_grey_or_like_others():
    shape = pair(empty=[(1, 0)])
    empty = np.array([[False, True, False], [False, False, False]])
    masked = InteractionDisplay(shape).plot(empty="mask").image_.get_array().mask
    np.testing.assert_array_equal(masked, empty)
    for choice, opacity in (("fade", np.where(empty, 0.4, 1.0)), ("show", None)):
        image = InteractionDisplay(shape).plot(empty=choice).image_
        np.testing.assert_array_equal(image.get_array(), shape.values[:-2, :-2].T)
        assert not np.ma.is_masked(image.get_array())
        np.testing.assert_array_equal(image.get_alpha(), opacity)


def test_cells_without_weight_do_not_set_the_colours():
    values = np.zeros((5, 4))
    values[0, 0], values[1, 1] = 9.0, 0.5
    weights = np.zeros((5, 4))
    weights[:3, :2] = 1.0
    weights[0, 0] = 0.0
    display = InteractionDisplay(term([AGE, BMI], values, weights=weights))
    assert [display.plot(empty=empty).image_.norm.vmax for empty in ("fade", "mask", "show")] == [0.5, 0.5, 9.0]


def test_missing_values_have_a_column_and_a_row():
    shape = pair(missing=(True, True))
    display = InteractionDisplay(shape).plot()
    assert sorted(display.missing_images_) == ["both", "first", "second"]
    assert not any(np.ma.is_masked(image.get_array()) for image in display.missing_images_.values())
    first, second = display.missing_images_["first"], display.missing_images_["second"]
    np.testing.assert_array_equal(first.get_array(), shape.values[-1:, :-2].T)
    np.testing.assert_array_equal(second.get_array(), shape.values[:-2, -1:].T)
    np.testing.assert_array_equal(display.missing_images_["both"].get_array(), shape.values[-1:, -1:])
    np.testing.assert_array_equal(corners(first)[1], [15.0, 20.0, 40.0])
    np.testing.assert_array_equal(corners(second)[0], [0.0, 1.0, 2.5, 10.0])
    assert first.norm is display.image_.norm
    display.figure_.canvas.draw()
    assert first.axes.get_position().x0 > display.ax_.get_position().x1
    assert second.axes.get_position().y1 < display.ax_.get_position().y0
    assert second.axes.get_xlabel() == "age"


@pytest.mark.parametrize(
    ("missing", "names"), [((False, False), []), ((True, False), ["first"]), ((False, True), ["second"])]
)
def test_panels_only_for_features_that_rows_miss(missing, names):
    display = InteractionDisplay(pair(missing=missing)).plot()
    assert sorted(display.missing_images_) == names
    assert len(display.axes_) == 2 + len(names)


def test_categories_name_their_columns_and_rows():
    display = InteractionDisplay(pair((COLOUR, AGE))).plot()
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["blue", "green", "red"]
    np.testing.assert_array_equal(corners(display.image_)[0], [-0.5, 0.5, 1.5, 2.5])
    display = InteractionDisplay(pair((AGE, COLOUR))).plot()
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["blue", "green", "red"]


def test_several_classes_show_one():
    shape = pair(classes=["a", "b", "c"])
    display = InteractionDisplay(shape).plot()
    # The last class has three times the values of the first.
    assert display.class_label_ == "c"
    assert "class c" in display.ax_.get_title(loc="left")
    display = InteractionDisplay(shape).plot(class_label="a")
    np.testing.assert_array_equal(display.image_.get_array(), shape.values[:-2, :-2, 0].T)


def test_coverage_cuts_the_axes():
    display = InteractionDisplay(pair()).plot(coverage=0.5)
    low, high = display.ax_.get_xlim()
    assert 0.0 < low < high < 10.0
    np.testing.assert_array_equal(corners(display.image_)[0], [0.0, 1.0, 2.5, 10.0])


@pytest.mark.parametrize("key", [1, "age & bmi", ("age", "bmi"), ("bmi", "age"), (0, 2), [2, 0]])
def test_from_estimator_finds_the_pair(key):
    main = term([AGE], np.zeros(5))
    model = DrawnModel([main, pair()])
    assert InteractionDisplay.from_estimator(model, key).shape is model.shapes[1]


@pytest.mark.parametrize("key", [("age", "colour"), ("age",), (0, 2, 3), ("age", "age")])
def test_unknown_pairs_are_refused(key):
    with pytest.raises(ValueError, match="its pairs are 'age & bmi'"):
        InteractionDisplay.from_estimator(DrawnModel([pair()]), key)


def test_main_terms_are_refused():
    main = term([AGE], np.zeros(5))
    with pytest.raises(ValueError, match="ShapeDisplay"):
        InteractionDisplay(main).plot()
    with pytest.raises(ValueError, match="ShapeDisplay"):
        InteractionDisplay.from_estimator(DrawnModel([main]), "age")


@pytest.mark.parametrize(
    ("kwargs", "name"),
    [
        ({"limit": 0.0}, "limit"),
        ({"limit": np.nan}, "limit"),
        ({"limit": "1"}, "limit"),
        ({"coverage": 2}, "coverage"),
        ({"empty": True}, "empty"),
        ({"class_label": 1}, "class_label"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_drawn(pyplot, kwargs, name):
    with pytest.raises(ValueError, match=name):
        InteractionDisplay(pair()).plot(**kwargs)
    assert pyplot.get_fignums() == []


def test_an_unknown_class_is_refused():
    with pytest.raises(ValueError, match="class_label must be one of"):
        InteractionDisplay(pair(classes=["a", "b", "c"])).plot(class_label="d")


@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
def test_axes_that_are_given_keep_to_their_place(pyplot, layout):
    figure, axes = pyplot.subplots(1, 2, layout=layout, figsize=(10, 4))
    displays = [InteractionDisplay(pair(missing=(True, True))).plot(ax=ax) for ax in axes]
    figure.canvas.draw()
    # Numbers and names of the axes and of the colour bar included.
    renderer = figure.canvas.get_renderer()
    right = max(ax.get_tightbbox(renderer).x1 for ax in displays[0].axes_)
    left = min(ax.get_tightbbox(renderer).x0 for ax in displays[1].axes_)
    assert right < left


def test_many_categories_on_both_axes():
    axes = [categorical(name, [f"level {k} of many" for k in range(90)], feature=f) for f, name in enumerate("ab")]
    display = InteractionDisplay(pair(axes, missing=(True, True))).plot()
    display.figure_.canvas.draw()
    assert display.image_.get_array().shape == (90, 90)
    assert 5 < len(display.ax_.get_yticks()) < 90
