"""Pictures of uncertainty show exactly what the model says."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skboost import EBMClassifier, EBMRegressor, SGLBClassifier, SGLBRegressor, Uncertainty
from skboost.inspection import UncertaintyDisplay
from skboost.inspection._uncertainty_band import QUANTILES
from skboost.inspection._uncertainty_histogram import bins
from skboost.metrics import prediction_rejection_ratio, retention_auc, retention_curve

pytestmark = pytest.mark.usefixtures("pyplot")
draw = UncertaintyDisplay.from_estimator


class Known(BaseEstimator):
    """A regressor whose uncertainty is a formula; the last rows asked for are kept."""

    def __init__(self, spread=True, support=None):
        self.spread = spread
        self.support = support

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict_uncertainty(self, X, n_members=4):
        self.asked, self.n_members = X, n_members
        x = np.nan_to_num(np.asarray(X, dtype=float))
        mean, knowledge = x.sum(axis=1), x[:, 0] ** 2
        data = np.full(len(x), 0.25) if self.spread else None
        total = None if data is None else data + knowledge
        support = None if self.support is None else np.full(len(x), self.support)
        return Uncertainty(mean, knowledge, data, total, support, 10 * np.arange(1, n_members + 1))

    def predict_virtual_ensembles(self, X, n_members=4):
        return np.asarray(X, dtype=float).sum(axis=1) + np.arange(n_members)[:, None]


class KnownClasses(Known):
    """The same for classes: probabilities rise with the first feature."""

    def __init__(self, classes=("no", "yes"), members=True):
        self.classes = classes
        self.members = members
        self.classes_ = np.array(classes)

    def __getattribute__(self, name):
        if name == "predict_virtual_ensembles" and not self.members:
            raise AttributeError(name)
        return super().__getattribute__(name)

    def probabilities(self, X):
        p = 1 / (1 + np.exp(-np.asarray(X, dtype=float)[:, 0]))
        rest = (1 - p) / (len(self.classes) - 1)
        return np.column_stack([rest] * (len(self.classes) - 1) + [p])

    def predict_uncertainty(self, X, n_members=4):
        self.asked = X
        knowledge = np.abs(np.asarray(X, dtype=float)[:, 0])
        data = np.full(len(knowledge), 0.1)
        return Uncertainty(self.probabilities(X), knowledge, data, data + knowledge, None, np.arange(1, n_members + 1))

    def predict_virtual_ensembles(self, X, n_members=4):
        return np.stack([self.probabilities(np.asarray(X, dtype=float) + k / 10) for k in range(n_members)])


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return np.column_stack([np.append(rng.uniform(-2, -1, 20), rng.uniform(1, 2, 20)), rng.normal(size=40)])


@pytest.fixture
def frame(X):
    port = pd.Categorical(np.array(["b", "a", "c"])[np.arange(40) % 3])
    return pd.DataFrame({"age": X[:, 0], "fare": X[:, 1], "port": port})


def band_of(artist):
    """Return places, lower and upper border of a filled band."""
    vertices = artist.get_paths()[0].vertices
    x = np.unique(vertices[:, 0])
    low = np.array([vertices[vertices[:, 0] == place, 1].min() for place in x])
    return x, low, np.array([vertices[vertices[:, 0] == place, 1].max() for place in x])


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# ---- band


def test_bands_are_the_roots_of_knowledge_and_total(X):
    x = np.linspace(-3, 3, 31)
    display = draw(Known(), X[:, :1], grid=x)
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), x)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), x)
    total, knowledge = display.bands_
    for band, spread in ((knowledge, np.abs(x)), (total, np.sqrt(x**2 + 0.25))):
        places, low, high = band_of(band)
        np.testing.assert_array_equal(places, x)
        np.testing.assert_allclose(low, x - spread)
        np.testing.assert_allclose(high, x + spread)
    assert knowledge.get_facecolor().tolist() != total.get_facecolor().tolist()
    assert legend_of(display.ax_) == ["± √total", "± √knowledge", "mean of the members"]
    assert display.ax_.get_ylabel() == "prediction (units of the target)"
    assert display.knowledge_ax_ is None


def test_a_loss_without_spread_has_the_band_of_knowledge_only(X):
    display = draw(Known(spread=False), X[:, :1])
    assert legend_of(display.ax_) == ["± √knowledge", "mean of the members"]
    assert len(display.bands_) == 1


def test_the_grid_is_even_across_a_gap_and_a_little_beyond(X):
    display = draw(Known(), X, features=0, grid=50)
    x = display.lines_[0].get_xdata()
    assert len(x) == 50
    margin = 0.05 * (X[:, 0].max() - X[:, 0].min())
    np.testing.assert_allclose(x, np.linspace(X[:, 0].min() - margin, X[:, 0].max() + margin, 50))
    assert ((x > -1) & (x < 1)).sum() > 10


def test_other_features_stay_at_their_median_or_where_they_are_put(X):
    model = Known()
    display = draw(model, X, features=0)
    np.testing.assert_array_equal(model.asked[:, 1], np.median(X[:, 1]))
    assert display.ax_.get_xlabel() == "feature 0   (other features at their median)"
    display = draw(model, X, features=0, fixed={1: 7})
    np.testing.assert_array_equal(model.asked[:, 1], 7.0)
    assert display.ax_.get_xlabel() == "feature 0   (1 = 7)"


def test_rows_are_marked_or_drawn_at_their_targets(X):
    rug = draw(Known(), X, features=0).points_[0]
    np.testing.assert_array_equal(rug.get_xdata(), X[:, 0])
    y = pd.Series(X[:, 0] ** 2, name="growth (mm)")
    display = draw(Known(), X, features=0, y=y)
    np.testing.assert_array_equal(display.points_[0].get_offsets(), np.column_stack([X[:, 0], y]))
    assert display.ax_.get_ylabel() == "growth (mm)"


def test_the_legend_covers_nothing_that_is_drawn(X):
    y = np.linspace(-50, 50, 40)
    display = draw(Known(), X, features=0, y=y)
    display.figure_.canvas.draw()
    bottom = display.ax_.get_legend().get_window_extent().y0
    assert bottom > display.ax_.transData.transform((0, 50))[1]


def test_the_probability_has_the_band_of_its_members_and_knowledge_below(X):
    model, x = KnownClasses(), np.linspace(-3, 3, 21)
    display = draw(model, X[:, :1], grid=x)
    np.testing.assert_allclose(display.lines_[0].get_ydata(), 1 / (1 + np.exp(-x)))
    members = 1 / (1 + np.exp(-(x + np.arange(4)[:, None] / 10)))
    _, low, high = band_of(display.bands_[0])
    np.testing.assert_allclose([low, high], np.quantile(members, QUANTILES, axis=0))
    _, low, high = band_of(display.bands_[1])
    np.testing.assert_allclose(high, np.abs(x))
    np.testing.assert_array_equal(low, 0.0)
    assert display.bands_[1].axes is display.knowledge_ax_
    assert display.ax_.get_ylabel() == "probability of yes"
    assert display.knowledge_ax_.get_ylabel() == "knowledge\n(nats)"
    assert display.knowledge_ax_.get_xlim() == display.ax_.get_xlim()


def test_another_class_and_rows_of_it_above_the_others(X):
    y = np.where(X[:, 1] > 0, "yes", "no")
    display = draw(KnownClasses(), X, features=0, class_label="no", y=y)
    x = display.lines_[0].get_xdata()
    np.testing.assert_allclose(display.lines_[0].get_ydata(), 1 - 1 / (1 + np.exp(-x)))
    own, other = display.points_
    np.testing.assert_array_equal(own.get_xdata(), X[y == "no", 0])
    np.testing.assert_array_equal(other.get_xdata(), X[y == "yes", 0])
    assert own.get_ydata().min() > 1.0
    assert other.get_ydata().max() < 0.0


def test_without_members_there_is_knowledge_but_no_band(X):
    display = draw(KnownClasses(members=False), X[:, :1])
    assert [band.axes for band in display.bands_] == [display.knowledge_ax_]


def test_several_classes_have_a_line_each(X):
    model = KnownClasses(classes=("a", "b", "c"))
    display = draw(model, X[:, :1], y=np.array(["a", "b", "c", "a"] * 10))
    for k, line in enumerate(display.lines_):
        np.testing.assert_allclose(line.get_ydata(), model.probabilities(line.get_xdata()[:, None])[:, k])
    assert legend_of(display.ax_) == ["a", "b", "c"]
    assert [len(marks.get_xdata()) for marks in display.points_] == [20, 10, 10]
    assert len({marks.get_ydata()[0] for marks in display.points_}) == 3


class Ports(Known):
    """The port decides: 1, 2 or 3."""

    def predict_uncertainty(self, X, n_members=4):
        self.asked = X
        mean = np.array([{"a": 1.0, "b": 2.0, "c": 3.0}[port] for port in X["port"]])
        return Uncertainty(mean, (0.1 * mean) ** 2, 0 * mean, (0.1 * mean) ** 2)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_are_points_with_whiskers(frame, kind):
    X = frame if kind == "pandas" else pl.DataFrame(frame.assign(port=frame["port"].astype(str)).to_dict("list"))
    model = Ports()
    display = draw(model, X, features="port", y=np.arange(40.0))
    assert type(model.asked) is type(X)
    assert list(model.asked.columns) == ["age", "fare", "port"]
    assert model.asked["port"].dtype == X["port"].dtype
    np.testing.assert_allclose(model.asked["fare"], frame["fare"].median())
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["a", "b", "c"]
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), [1, 2, 3])
    _, _, (bars,) = display.points_[-1]
    ends = np.array(bars.get_segments())[:, :, 1]
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, [0.1, 0.2, 0.3])
    # Rows stand beside their category.
    x = display.points_[0].get_offsets()[:, 0]
    np.testing.assert_array_equal(np.floor(x), np.array([1, 0, 2])[np.arange(40) % 3])


def test_categories_of_a_classifier(frame):
    class Both(KnownClasses):
        def predict_uncertainty(self, X):
            return super().predict_uncertainty(X[["age"]])

        def predict_virtual_ensembles(self, X):
            return super().predict_virtual_ensembles(X[["age"]])

    display = draw(Both(), frame, features="port", fixed={"age": 1.0})
    p = 1 / (1 + np.exp(-1.0))
    line, _, (bars,) = display.points_[0]
    np.testing.assert_allclose(line.get_ydata(), p)
    # All members are above the mean here, so that there is no whisker below it.
    high = np.quantile(1 / (1 + np.exp(-(1 + np.arange(4) / 10))), QUANTILES[1])
    np.testing.assert_allclose(np.array(bars.get_segments())[:, :, 1], [[p, high]] * 3)
    np.testing.assert_allclose([bar.get_height() for bar in display.bars_[0]], 1.0)
    assert display.ax_.get_ylabel() == "probability of yes"


def test_the_most_frequent_category_is_the_default_and_another_can_be_fixed(frame):
    model = Ports()
    draw(model, frame, features="age", grid=5)
    assert set(model.asked["port"]) == {"b"}
    draw(model, frame, features="age", grid=5, fixed={"port": "c"})
    assert set(model.asked["port"]) == {"c"}
    assert model.asked["port"].dtype == frame["port"].dtype
    with pytest.raises(ValueError, match="fixed gives 'port' the value 'z', which no row of X has"):
        draw(model, frame, features="age", fixed={"port": "z"})


def test_many_categories_show_the_most_frequent():
    levels = np.array([f"level {k:02d}" for k in range(40)])
    X = pd.DataFrame({"port": pd.Categorical(np.repeat(levels, np.arange(40, 0, -1)))})

    class Length(Known):
        def predict_uncertainty(self, X):
            return Uncertainty(np.zeros(len(X)), np.ones(len(X)), None, None)

    display = draw(Length(), X)
    assert len(display.lines_[0].get_xdata()) == 30
    assert display.ax_.get_xlabel() == "port (10 rarer categories not shown)"


def test_missing_values_stand_nowhere(X):
    X[3, 0] = np.nan
    display = draw(Known(), X, features=0, y=np.arange(40.0))
    offsets = np.ma.filled(display.points_[0].get_offsets(), np.nan)
    assert np.isnan(offsets[3, 0])
    assert np.isfinite(offsets[np.arange(40) != 3]).all()
    assert np.isfinite(display.lines_[0].get_xdata()).all()


# ---- map


@pytest.mark.parametrize("quantity", ["knowledge", "data", "total", "mean", "support"])
def test_the_map_is_the_quantity_on_the_grid(X, quantity):
    x, y = np.linspace(-2, 2, 5), np.linspace(0, 3, 7)
    model = Known(support=0.75)
    display = draw(model, X, kind="map", grid=(x, y), quantity=quantity)
    wanted = {
        "knowledge": np.repeat([x**2], 7, axis=0),
        "data": np.full((7, 5), 0.25),
        "total": np.repeat([x**2], 7, axis=0) + 0.25,
        "mean": x + y[:, None],
        "support": np.full((7, 5), 0.75),
    }[quantity]
    np.testing.assert_allclose(display.image_.get_array(), wanted)
    corners = display.image_.get_coordinates()
    np.testing.assert_allclose((corners[0, 1:, 0] + corners[0, :-1, 0]) / 2, x)
    np.testing.assert_allclose((corners[1:, 0, 1] + corners[:-1, 0, 1]) / 2, y)
    assert display.colorbar_.ax.get_ylabel() == {
        "mean": "mean prediction (units of the target)",
        "support": "support (share of the model)",
    }.get(quantity, f"{quantity}: variance (squared units of the target)")
    assert display.image_.norm.vmin == (wanted.min() if quantity in {"mean", "support"} else 0.0)
    # Dark is where little is known.
    dark, light = (display.image_.cmap(end)[:3] for end in ((0.0, 1.0) if quantity == "support" else (1.0, 0.0)))
    assert quantity == "mean" or sum(dark) < sum(light)


def test_features_of_the_map_keep_their_order_and_names(frame):
    model = Known()
    display = draw(model, frame[["age", "fare"]].assign(year=2000.0), kind="map", features=["year", "age"], grid=4)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == (
        "year   (other features at their median)",
        "age",
    )
    # The first feature of the model is on the vertical axis here.
    ages = display.content.axes[1].places
    np.testing.assert_allclose(display.image_.get_array(), np.repeat(ages[:, None] ** 2, 4, axis=1))
    np.testing.assert_array_equal(display.points_[0].get_offsets()[:, 1], frame["age"])


def test_rows_on_the_map_have_the_colours_of_their_classes(X):
    y = np.where(X[:, 1] > 0, "yes", "no")
    display = draw(KnownClasses(), X, kind="map", y=y)
    for points, label in zip(display.points_, ["no", "yes"], strict=True):
        np.testing.assert_array_equal(points.get_offsets(), X[y == label])
    assert len({tuple(points.get_facecolor()[0]) for points in display.points_}) == 2
    assert legend_of(display.ax_) == ["no", "yes"]
    assert display.colorbar_.ax.get_ylabel() == "knowledge (nats)"


def test_the_mean_of_a_classifier_is_a_probability(X):
    display = draw(KnownClasses(), X, kind="map", quantity="mean", grid=3, class_label="no")
    x = display.content.axes[0].places
    np.testing.assert_allclose(display.image_.get_array()[0], 1 - 1 / (1 + np.exp(-x)))
    assert (display.image_.norm.vmin, display.image_.norm.vmax) == (0.0, 1.0)
    assert display.colorbar_.ax.get_ylabel() == "probability of no"


def test_nothing_unknown_is_white(X):
    display = draw(Known(spread=False), X, kind="map", grid=(np.array([-1e-300, 1e-300]), np.array([0.0, 1.0])))
    assert display.image_.norm.vmax > display.image_.norm.vmin == 0.0


# ---- histogram


def record(knowledge, **kwargs):
    knowledge = np.asarray(knowledge, dtype=float)
    return Uncertainty(np.zeros(len(knowledge)), knowledge, None, None, **kwargs)


def test_bars_are_shares_of_rows_in_common_bins():
    rng = np.random.default_rng(0)
    a, b = 10 ** rng.normal(-4, 1, 200), 10 ** rng.normal(-2, 1, 300)
    display = UncertaintyDisplay.from_uncertainty({"in-domain": record(a), "shifted": record(b)})
    assert display.ax_.get_xscale() == "log"
    edges = display.bands_[0].get_data().edges
    np.testing.assert_allclose(np.diff(np.log(edges)), np.diff(np.log(edges))[0])
    assert (edges[0], edges[-1]) == (min(a.min(), b.min()), max(a.max(), b.max()))
    for band, values in zip(display.bands_, (a, b), strict=True):
        shares, borders, _ = band.get_data()
        np.testing.assert_array_equal(borders, edges)
        np.testing.assert_allclose(shares, 100 * np.histogram(values, edges)[0] / len(values))
        assert shares.sum() == pytest.approx(100)
    assert legend_of(display.ax_) == ["in-domain (200 rows)", "shifted (300 rows)"]
    auc = roc_auc_score(np.repeat([0, 1], [200, 300]), np.append(a, b))
    assert display.ax_.get_legend().get_title().get_text() == f"ROC-AUC {auc:.3f}"
    assert display.zero_ax_ is None


def test_zeros_have_a_place_of_their_own():
    a, b = np.array([0.0, 0.0, 0.0, 1e-6]), np.array([0.0, 1e-6, 1e-3, 1.0])
    display = UncertaintyDisplay.from_uncertainty({"a": record(a), "b": record(b)})
    assert [bars[0].get_height() for bars in display.bars_] == [75.0, 25.0]
    assert [band.get_data().values.sum() for band in display.bands_] == pytest.approx([25.0, 75.0])
    assert [text.get_text() for text in display.zero_ax_.get_xticklabels()] == ["0"]
    display.figure_.canvas.draw()
    assert display.zero_ax_.get_position().x1 < display.ax_.get_position().x0
    assert display.zero_ax_.get_ylim() == display.ax_.get_ylim()


@pytest.mark.parametrize(
    ("values", "logarithmic", "low", "high"),
    [
        ([1.0, 2.0, 20.0], False, 0.0, 20.0),
        ([1.0, 40.0], True, 1.0, 40.0),
        ([0.0, 0.0], False, 0.0, 1.0),
        ([0.0, 5.0], False, 0.0, 5.0),
    ],
)
def test_a_logarithm_only_for_values_that_spread(values, logarithmic, low, high):
    edges, found = bins(np.array(values), 10)
    assert (found, edges[0], edges[-1]) == (logarithmic, low, high)


def test_little_support_is_strange():
    sets = {
        "in-domain": record(np.ones(3), support=np.array([1.0, 0.9, 0.8])),
        "shifted": record(np.ones(2), support=np.array([0.1, 0.2])),
    }
    display = UncertaintyDisplay.from_uncertainty(sets, quantity="support")
    assert display.content.roc_auc() == 1.0
    edges = display.bands_[0].get_data().edges
    assert (edges[0], edges[-1]) == (0.1, 1.0)
    assert bins(np.ones(3), 10, bounded=True)[0][0] == 0.0


def test_three_sets_have_no_area_and_the_model_is_asked(X):
    model = Known()
    display = draw(model, {"a": X, "b": X + 1, "c": X[:10]}, kind="histogram", quantity="total", n_members=7)
    assert display.ax_.get_legend().get_title().get_text() == ""
    assert legend_of(display.ax_) == ["a (40 rows)", "b (40 rows)", "c (10 rows)"]
    assert model.n_members == 7
    np.testing.assert_allclose(display.content.values["c"], X[:10, 0] ** 2 + 0.25)
    assert display.ax_.get_xlabel() == "total: variance (squared units of the target)"
    many = draw(model, dict.fromkeys("abcd", X), kind="histogram")
    assert legend_of(many.ax_) == [f"{name} (40 rows)" for name in "abcd"]


# ---- retention


def test_curves_of_model_random_and_oracle(X):
    y = X.sum(axis=1) + np.random.default_rng(0).normal(size=40) * np.abs(X[:, 0])
    weight = np.arange(1.0, 41.0)
    display = draw(Known(), X, kind="retention", y=y, sample_weight=weight)
    error = (X.sum(axis=1) - y) ** 2
    words = []
    names = ["by total", "random order", "order of the true errors"]
    for line, order, name in zip(display.lines_, [X[:, 0] ** 2, 0 * y, error], names, strict=True):
        retention, left = retention_curve(error, order, sample_weight=weight)
        np.testing.assert_allclose(line.get_xdata(), 100 * retention)
        np.testing.assert_allclose(line.get_ydata(), left)
        words.append(f"{name}, area {retention_auc(error, order, sample_weight=weight):.3g}")
    assert legend_of(display.ax_) == words
    ratio = prediction_rejection_ratio(error, X[:, 0] ** 2, sample_weight=weight)
    assert display.ax_.get_legend().get_title().get_text() == f"prediction rejection ratio {ratio:.3f}"


def test_knowledge_rejects_where_the_loss_has_no_spread(X):
    display = draw(Known(spread=False), X, kind="retention", y=np.arange(40.0))
    assert legend_of(display.ax_)[0].startswith("by knowledge")


def test_errors_of_classifiers(X):
    model = KnownClasses()
    y = np.where(X[:, 1] > 0, "yes", "no")
    u = model.predict_uncertainty(X)
    wrong = (X[:, 0] > 0) != (y == "yes")
    display = draw(model, X, kind="retention", y=y)
    np.testing.assert_array_equal(display.content.errors, wrong)
    assert display.lines_[0].get_ydata()[-1] == pytest.approx(wrong.mean())
    display = UncertaintyDisplay.from_uncertainty(
        u, kind="retention", y=y, error="log_loss", classes=model.classes_, quantity="knowledge"
    )
    assert display.lines_[0].get_ydata()[-1] == pytest.approx(log_loss(y, u.mean))


def test_a_probability_of_zero_costs_as_in_scikit_learn():
    mean = np.array([[0.0, 1.0], [0.5, 0.5]])
    u = Uncertainty(mean, np.zeros(2), np.zeros(2), np.zeros(2))
    display = UncertaintyDisplay.from_uncertainty(u, kind="retention", y=[0, 1], error="log_loss", classes=[0, 1])
    assert display.content.errors.mean() == pytest.approx(log_loss([0, 1], mean))


def test_support_rejects_where_there_is_little(X):
    support = np.linspace(0, 1, 40)
    u = Uncertainty(np.zeros(40), np.ones(40), None, None, support)
    content = UncertaintyDisplay.from_uncertainty(u, kind="retention", y=1 - support, quantity="support").content
    assert content.rejection_ratio() == pytest.approx(1.0)


def test_equal_errors_say_that_there_is_no_ratio(X):
    display = draw(Known(), X, kind="retention", y=X.sum(axis=1))
    assert "not defined" in display.ax_.get_legend().get_title().get_text()


# ---- members


def test_traces_are_the_members_at_their_iterations(X):
    display = draw(Known(), X[:3], kind="members", n_members=6, y=[1.0, 2.0, 3.0])
    for k, line in enumerate(display.lines_):
        np.testing.assert_array_equal(line.get_xdata(), [10, 20, 30, 40, 50, 60])
        np.testing.assert_allclose(line.get_ydata(), X[k].sum() + np.arange(6))
    assert [point.get_ydata()[0] for point in display.points_] == [1.0, 2.0, 3.0]
    assert legend_of(display.ax_) == ["row 0", "row 1", "row 2"]
    low, high = display.ax_.get_ylim()
    assert low < 1.0
    assert high > 3.0


def test_traces_of_a_class(frame):
    X = frame[["age"]].iloc[[5, 7]]
    display = draw(KnownClasses(), X, kind="members", class_label="no", y=["yes", "no"])
    wanted = 1 - 1 / (1 + np.exp(-(X["age"].to_numpy() + np.arange(4)[:, None] / 10)))
    np.testing.assert_allclose(np.transpose([line.get_ydata() for line in display.lines_]), wanted)
    assert legend_of(display.ax_) == ["row 5, truth yes", "row 7, truth no"]
    assert display.ax_.get_ylabel() == "probability of no"


def test_members_of_a_chain_are_as_many_as_there_are():
    X, y = np.arange(40.0)[:, None], np.arange(40.0) ** 2
    model = SGLBRegressor(n_estimators=31, random_state=0, n_jobs=1).fit(X, y)
    display = draw(model, X[:2], kind="members")
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), np.arange(17, 32))
    stages = list(model.staged_predict(X[:2]))
    np.testing.assert_array_equal(display.lines_[1].get_ydata(), [stages[k - 1][1] for k in range(17, 32)])


def test_members_of_a_cyclical_model_are_the_ends_of_its_cycles():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    model = SGLBRegressor(n_estimators=30, schedule="cyclical", cycle_length=7, random_state=0).fit(X, X[:, 0])
    display = draw(model, X[:2], kind="members")
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), [7, 14, 21, 28])


# ---- what is refused


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"kind": "bands"}, "kind must be one of"),
        ({"kind": None}, "kind must be one of"),
        ({"features": None}, "features must be given: kind='band' needs 1 of the 2 features"),
        ({"features": [0, 1]}, "features must be different and 1 in number"),
        ({"features": "age"}, "features names 'age'"),
        ({"features": 2}, "features has the position 2, X has 2 features"),
        ({"features": -1}, "features has the position -1"),
        ({"features": True}, "features must hold names or positions"),
        ({"features": 0, "fixed": {0: 1.0}}, "fixed must not hold the features that vary"),
        ({"features": 0, "fixed": {1: "much"}}, "fixed must give 'feature 1' a number"),
        ({"features": 0, "fixed": [1.0]}, "fixed must be a dict"),
        ({"features": 0, "grid": 1}, "grid must be at least 2"),
        ({"features": 0, "grid": [1.0, 1.0]}, "grid must hold at least two finite, increasing values"),
        ({"features": 0, "grid": [0.0, np.inf]}, "grid must hold"),
        ({"features": 0, "y": [1.0]}, "y must hold one target per row of X"),
        ({"features": 0, "y": np.full(40, np.nan)}, "y must be finite"),
        ({"features": 0, "class_label": 1}, "class_label must be None for a regressor"),
        ({"features": 0, "quantity": "knowledge"}, "quantity must be None for kind='band'"),
        ({"features": 0, "error": "log_loss"}, "error must be None for kind='band'"),
        ({"features": 0, "sample_weight": np.ones(40)}, "sample_weight must be None for kind='band'"),
        ({"kind": "map", "features": 0}, "features must be different and 2 in number"),
        ({"kind": "map", "features": [1, 1]}, "features must be different"),
        ({"kind": "map", "quantity": "doubt"}, "quantity must be one of"),
        ({"kind": "map", "quantity": "support"}, "quantity='support' does not exist here"),
        ({"kind": "map", "class_label": 1}, "class_label must be None with quantity='knowledge'"),
        ({"kind": "map", "grid": [[0, 1]]}, "grid must be a number of points, or values for each of the 2"),
        ({"kind": "histogram"}, "X must be a dict of two or more named sets"),
        ({"kind": "histogram", "y": [1]}, "y must be None for kind='histogram'"),
        ({"kind": "retention"}, "y must be given for kind='retention'"),
        ({"kind": "retention", "y": np.ones(40), "quantity": "mean"}, "quantity must be one of"),
        ({"kind": "retention", "y": np.ones(40), "error": "log_loss"}, "error must be one of .* for a regressor"),
        ({"kind": "retention", "y": np.ones(40), "features": 0}, "features must be None for kind='retention'"),
        ({"kind": "members"}, "X must have 1 to 12 rows"),
        ({"kind": "members", "quantity": "data"}, "quantity must be None for kind='members'"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_drawn(pyplot, X, kwargs, message):
    with pytest.raises(ValueError, match=message):
        draw(Known(), X, **kwargs)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"features": 0, "class_label": "maybe"}, r"class_label must be one of \['no', 'yes'\]"),
        ({"features": 0, "y": ["maybe"] * 40}, "y has labels that the model does not know: .*maybe"),
        ({"kind": "retention", "y": ["yes"] * 40, "error": "squared_error"}, "error must be one of .* a classifier"),
    ],
)
def test_wrong_classes_are_refused(X, kwargs, message):
    with pytest.raises(ValueError, match=message):
        draw(KnownClasses(), X, **kwargs)


def test_one_of_several_classes_must_be_chosen(X):
    model = KnownClasses(classes=("a", "b", "c"))
    for kwargs in ({"kind": "map", "quantity": "mean"}, {"kind": "members"}):
        with pytest.raises(ValueError, match="class_label must be given with more than two classes"):
            draw(model, X[:3], **kwargs)


@pytest.mark.parametrize("quantity", ["data", "total"])
def test_what_the_loss_does_not_predict_is_refused(X, quantity):
    for kwargs in ({"kind": "map"}, {"kind": "retention", "y": np.ones(40)}):
        with pytest.raises(
            ValueError, match=f"quantity='{quantity}' does not exist here: the model predicts no spread"
        ):
            draw(Known(spread=False), X, quantity=quantity, **kwargs)


def test_categories_are_no_axis_of_a_map(frame):
    with pytest.raises(ValueError, match="'port' is categorical: set it with fixed, or draw it with kind='band'"):
        draw(Ports(), frame, kind="map", features=["age", "port"])
    with pytest.raises(ValueError, match="grid must be None for the categorical feature 'port'"):
        draw(Ports(), frame, features="port", grid=5)


def test_codes_that_the_model_takes_for_categories_are_categories():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), rng.integers(0, 3, 80)])
    model = SGLBRegressor(n_estimators=20, categorical_features=[1], random_state=0, n_jobs=1).fit(X, X[:, 1])
    display = draw(model, X, features=1)
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["0.0", "1.0", "2.0"]
    asked = np.column_stack([np.full(3, np.median(X[:, 0])), [0, 1, 2]])
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), model.predict_uncertainty(asked).mean)


def test_estimators_that_cannot_say_are_refused(X):
    with pytest.raises(TypeError, match="predict_uncertainty, got StandardScaler"):
        draw(StandardScaler().fit(X), X)
    with pytest.raises(TypeError, match="Of a pipeline pass the last step"):
        draw(make_pipeline(StandardScaler(), SGLBRegressor()), X)
    with pytest.raises(TypeError, match="got SGLBRegressor"):
        draw(SGLBRegressor, X)
    for kwargs in ({"features": 0}, {"kind": "retention", "y": X[:, 0]}):
        with pytest.raises(NotFittedError):
            draw(SGLBRegressor(), X, **kwargs)


def test_members_are_refused_where_there_is_no_chain(X):
    with pytest.raises(ValueError, match="kind='members' needs an estimator with predict_virtual_ensembles"):
        draw(KnownClasses(members=False), X[:3], kind="members")

    class Separate(Known):
        def predict_uncertainty(self, X):
            return record(np.ones(len(X)))

    with pytest.raises(ValueError, match="states of one chain"):
        draw(Separate(), X[:3], kind="members")
    with pytest.raises(ValueError, match="n_members must be None for Separate"):
        draw(Separate(), X, features=0, n_members=5)


def test_other_numbers_of_features_are_refused(X):
    model = SGLBRegressor(n_estimators=20, random_state=0, n_jobs=1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="X has 1 features, but the model was fitted with 2"):
        draw(model, X[:, :1])
    with pytest.raises(ValueError, match="Expected 2D array"):
        draw(model, X[:, 0])
    with pytest.raises(ValueError, match="X must have at least one row"):
        draw(model, X[:0], features=0)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((record([1.0]),), {"kind": "band"}, "kind='band' has to ask the model: use from_estimator"),
        ((record([1.0]),), {"kind": "pie"}, "kind must be one of"),
        ((record([1.0]),), {}, "uncertainty must be a dict of two or more"),
        (({"a": record([1.0])},), {}, "uncertainty must be a dict of two or more"),
        (({"a": record([1.0]), "b": record([])},), {}, r"\['b'\] have none"),
        (({"a": record([1.0]), "b": record([1.0])},), {"y": [1]}, "y must be None for kind='histogram'"),
        (({"a": record([1.0]), "b": record([1.0])},), {"quantity": "support"}, "quantity='support' does not exist"),
        ((record([1.0]),), {"kind": "retention"}, "y must be given for kind='retention'"),
        (({"a": record([1.0])},), {"kind": "retention", "y": [1.0]}, "uncertainty must be one record"),
        ((record([1.0]),), {"kind": "retention", "y": [1.0], "classes": [0, 1]}, "classes must be None"),
        ((record([1.0]),), {"kind": "retention", "y": [1.0, 2.0]}, "y must hold one target per row"),
    ],
)
def test_wrong_records_are_refused(args, kwargs, message):
    with pytest.raises(ValueError, match=message):
        UncertaintyDisplay.from_uncertainty(*args, **kwargs)


def test_probabilities_need_the_names_of_their_classes():
    u = Uncertainty(np.full((2, 2), 0.5), np.zeros(2), np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="classes must hold the labels"):
        UncertaintyDisplay.from_uncertainty(u, kind="retention", y=[0, 1])


# ---- places and fitted models


@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
def test_axes_that_are_given_keep_to_their_place(pyplot, X, layout):
    figure, axes = pyplot.subplots(2, 3, layout=layout, figsize=(15, 8))
    y = np.where(X[:, 1] > 0, "yes", "no")
    draw(Known(), X, features=0, y=X[:, 0], ax=axes[0, 0])
    below = draw(KnownClasses(), X, features=0, y=y, ax=axes[0, 1])
    coloured = draw(KnownClasses(), X, kind="map", y=y, ax=axes[0, 2])
    sets = {"a": record([0, 1e-6, 1]), "b": record([0, 1e-3, 2])}
    zeros = UncertaintyDisplay.from_uncertainty(sets, ax=axes[1, 0])
    draw(Known(), X, kind="retention", y=y == "yes", ax=axes[1, 1])
    draw(Known(), X[:3], kind="members", ax=axes[1, 2])
    assert zeros.figure_ is figure
    figure.canvas.draw()
    assert zeros.ax_.get_position().x1 < axes[1, 1].get_position().x0
    assert below.knowledge_ax_.get_position().y0 > axes[1, 1].get_position().y1
    assert below.ax_.get_position().x0 > axes[0, 0].get_position().x1
    assert coloured.colorbar_.ax.get_position().x1 <= 1.0


def test_a_picture_can_be_drawn_again(pyplot, X):
    display = draw(KnownClasses(), X, features=0)
    lines = display.lines_[0].get_ydata()
    again = UncertaintyDisplay(display.content).plot()
    assert again.figure_ is not display.figure_
    assert display.plot() is display
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), lines)
    assert len(display.lines_) == 1
    with pytest.raises(TypeError, match="ax must be a Matplotlib Axes"):
        display.plot(ax=pyplot.figure())


SGLB = {"n_estimators": 30, "max_depth": 3, "random_state": 0, "n_jobs": 1}
EBM = {"outer_bags": 3, "max_rounds": 30, "interactions": 1, "random_state": 0, "n_jobs": 1}
MODELS = {
    "squared_error": SGLBRegressor(**SGLB),
    "gaussian": SGLBRegressor(loss="gaussian", **SGLB),
    "poisson": SGLBRegressor(loss="poisson", **SGLB),
    "binary": SGLBClassifier(**SGLB),
    "multiclass": SGLBClassifier(**SGLB),
    "ebm": EBMRegressor(**EBM),
    "ebm_poisson": EBMRegressor(loss="poisson", **EBM),
    "ebm_binary": EBMClassifier(**EBM),
    "ebm_multiclass": EBMClassifier(**EBM),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_every_picture(frame, name):
    X = frame.copy()
    X.loc[::7, "fare"] = np.nan
    score = X["age"] + X["port"].cat.codes
    if "binary" in name or "multiclass" in name:
        y = np.array(["low", "middle", "high"])[np.searchsorted([0.5] if "binary" in name else [-0.5, 1.5], score)]
    else:
        y = np.round(np.exp(score / 2)) if "poisson" in name else score.to_numpy()
    model = MODELS[name].fit(X, y)
    classifier, chosen = hasattr(model, "classes_"), {"class_label": "low"} if hasattr(model, "classes_") else {}
    for features in ("age", "port"):
        band = draw(model, X, features=features, y=y, **chosen)
        band.figure_.canvas.draw()
    for quantity in ["knowledge", "mean"] + ["total"] * (classifier or name == "gaussian"):
        label = chosen if quantity == "mean" else {}
        image = draw(model, X, kind="map", features=[0, 1], y=y, quantity=quantity, grid=9, **label)
        assert np.isfinite(image.image_.get_array()).all()
    histogram = draw(model, {"all": X, "old": X[X["age"] > 1.5]}, kind="histogram")
    u = model.predict_uncertainty(X)
    np.testing.assert_array_equal(histogram.content.values["all"], u.knowledge)
    retention = draw(model, X, kind="retention", y=y)
    wrong = u.mean.argmax(axis=1) != np.searchsorted(model.classes_, y) if classifier else (u.mean - y) ** 2
    assert retention.lines_[0].get_ydata()[-1] == pytest.approx(np.mean(wrong))
    if name.startswith("ebm"):
        with pytest.raises(ValueError, match="predict_virtual_ensembles"):
            draw(model, X[:2], kind="members", **chosen)
    else:
        members = draw(model, X[:2], kind="members", y=y[:2], **chosen)
        assert members.lines_[0].get_xdata()[-1] == 30
