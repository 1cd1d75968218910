"""The picture of one feature's part in an additive model."""

from functools import partial

import numpy as np

from skboost.inspection import _cells, _style
from skboost.inspection._estimator import main_shape, positions, score_name

LEGEND_COLUMNS = 3
ORDERS = ("level", "value", "weight")


class ShapeDisplay:
    """Curve of a main term: what each value of a feature adds to the score.

    A numeric feature is drawn as the step function that the model is, constant inside each cell and never joined
    between cells, from the lowest to the highest observed value; a categorical one as a bar per category. The band, or
    the whisker, is one standard deviation over the outer bags to both sides; the 95 % confidence interval of every cell
    for a model fitted with ``boulevard=True``. Missing values stand apart on the right
    with their share of the training weight, and a strip below shows where the weight lies. With three or more classes
    every class has a line.

    Build it with `from_estimator`; the constructor is for shapes at hand.

    Parameters
    ----------
    shape : TermShape
        Main term, as ``estimator.shape(term)`` returns it.
    score_name : str, default="score"
        Name of the vertical axis, with its unit.
    y_limits : tuple of float or None, default=None
        Limits of the vertical axis. None takes them from the curve.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the picture.
    ax_ : matplotlib.axes.Axes
        Axes of the curve, or of the bars.
    missing_ax_ : matplotlib.axes.Axes or None
        Axes of the missing value of a numeric feature; None if no training row misses it.
    density_ax_ : matplotlib.axes.Axes or None
        Axes of the strip below; None if it is not wanted.
    axes_ : list of matplotlib.axes.Axes
        All of them.
    lines_ : list of matplotlib.patches.StepPatch
        Curves, one per class, numeric features only.
    bands_ : list of matplotlib.patches.StepPatch
        Bands of the curves, empty without deviations.
    bars_ : matplotlib.container.BarContainer or None
        Bars of a categorical feature with one score.
    points_ : list of matplotlib.container.ErrorbarContainer
        Points with whiskers: missing values, categories.

    See Also
    --------
    InteractionDisplay : The picture of a pair of features.
    plot_summary : One figure of the whole model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import EBMRegressor
    >>> from skboost.inspection import ShapeDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = EBMRegressor(interactions=0, outer_bags=2, max_rounds=50, random_state=0).fit(X, y)
    >>> display = ShapeDisplay.from_estimator(model, "bmi")
    >>> display.ax_.get_title(loc="left")
    'bmi'
    """

    def __init__(self, shape, *, score_name="score", y_limits=None):
        self.shape = shape
        self.score_name = score_name
        self.y_limits = y_limits

    @classmethod
    def from_estimator(
        cls,
        estimator,
        term,
        *,
        common_range=False,
        classes=None,
        band=True,
        show_density=True,
        coverage=1.0,
        max_categories=30,
        category_order="level",
        ax=None,
    ):
        """Draw a main term of a fitted model.

        Parameters
        ----------
        estimator : EBMRegressor or EBMClassifier
            Fitted model.
        term : int or str
            Index or name of a main term.
        common_range : bool, default=False
            Whether the vertical axis is the same for every main term of the model, so that pictures can be compared.
        classes : sequence or None, default=None
            Labels of the classes to draw, with three or more classes. None draws all of them.
        band : bool, default=True
            Whether to draw the deviations over the bags, or the confidence intervals.
        show_density : bool, default=True
            Whether to draw the strip that shows where the weight lies.
        coverage : float, default=1.0
            Share of the training weight within the horizontal axis, in (0, 1]. Below 1 the tails of the feature are
            cut, as much on both sides.
        max_categories : int, default=30
            Largest number of categories to draw; the heaviest stay.
        category_order : {"level", "value", "weight"}, default="level"
            Order of the categories: as the model keeps them, by value, or by weight, the largest first.
        ax : matplotlib.axes.Axes or None, default=None
            Axes whose place the picture takes. None makes a new figure.

        Returns
        -------
        ShapeDisplay
            The picture.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If the term does not exist or is a pair.
        """
        shape = main_shape(estimator, term)
        limits = common_limits(map(estimator.shape, positions(estimator, 1))) if common_range else None
        display = cls(shape, score_name=score_name(estimator), y_limits=limits)
        return display.plot(
            ax=ax,
            classes=classes,
            band=band,
            show_density=show_density,
            coverage=coverage,
            max_categories=max_categories,
            category_order=category_order,
        )

    def plot(
        self,
        ax=None,
        *,
        classes=None,
        band=True,
        show_density=True,
        coverage=1.0,
        max_categories=30,
        category_order="level",
    ):
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes whose place the picture takes. None makes a new figure.
        classes : sequence or None, default=None
            Labels of the classes to draw, with three or more classes. None draws all of them.
        band : bool, default=True
            Whether to draw the deviations over the bags, or the confidence intervals.
        show_density : bool, default=True
            Whether to draw the strip that shows where the weight lies.
        coverage : float, default=1.0
            Share of the training weight within the horizontal axis, in (0, 1].
        max_categories : int, default=30
            Largest number of categories to draw; the heaviest stay.
        category_order : {"level", "value", "weight"}, default="level"
            Order of the categories: as the model keeps them, by value, or by weight, the largest first.

        Returns
        -------
        ShapeDisplay
            The object itself.
        """
        if len(self.shape.axes) != 1:
            raise ValueError(f"term {self.shape.name!r} is a pair: draw it with InteractionDisplay.")
        coverage = _cells.check_coverage(coverage)
        if category_order not in ORDERS:
            raise ValueError(f"category_order must be one of {ORDERS}, got {category_order!r}.")
        if isinstance(max_categories, bool) or not isinstance(max_categories, (int, np.integer)) or max_categories < 1:
            raise ValueError(f"max_categories must be an integer of at least 1, got {max_categories!r}.")
        curves = self._curves(classes)
        self.figure_, self.ax_ = _style.figure_and_axes(ax, (6.4, 4.2), "ShapeDisplay")
        self.missing_ax_ = self.density_ax_ = self.bars_ = None
        self.lines_, self.bands_, self.points_ = [], [], []
        self._band = band and np.any(half_widths(self.shape) > 0)
        if self.shape.axes[0].kind == "categorical":
            self._plot_categories(curves, show_density, max_categories, category_order)
        else:
            self._plot_numeric(curves, show_density, coverage)
        self._finish(curves)
        return self

    def _curves(self, classes):
        """Return (label, values, deviations, colour) of each line."""
        values = np.asarray(self.shape.values, dtype=np.float64)
        deviations = half_widths(self.shape)
        if values.ndim == 1:
            if classes is not None:
                raise ValueError("classes must be None for a model with one score per row.")
            return [(None, values, deviations, _style.BLUE)]
        labels = list(self.shape.classes)
        chosen = labels if classes is None else list(classes)
        unknown = [label for label in chosen if label not in labels]
        if unknown or not chosen:
            raise ValueError(f"classes must be labels out of {labels}, got {chosen}.")
        colours = _style.class_colours(len(labels))
        places = [labels.index(label) for label in chosen]
        return [(labels[k], values[:, k], deviations[:, k], colours[k]) for k in places]

    def _plot_numeric(self, curves, show_density, coverage):
        axis, weights = self.shape.axes[0], np.asarray(self.shape.weights, dtype=np.float64)
        m = _cells.n_value_cells(self.shape)
        limits = _cells.covered_range(axis, weights[:m], coverage)
        self._panels(show_density, weights[m + 1] > 0)
        borders = _cells.cell_borders(axis, _cells.observed_range(axis))
        for name, values, deviations, colour in curves:
            if self._band:
                low, high = values[:m] - deviations[:m], values[:m] + deviations[:m]
                band = self.ax_.stairs(high, borders, baseline=low, fill=True, color=colour, alpha=0.2, linewidth=0)
                self.bands_.append(band)
            line = self.ax_.stairs(
                values[:m], borders, baseline=None, color=colour, linewidth=1.7, label=_label(name), zorder=3
            )
            self.lines_.append(line)
        self.ax_.set_xlim(_style.padded(*limits, part=0.015))
        if self.missing_ax_ is not None:
            self._plot_missing(curves, m + 1, _style.share(weights[m + 1], weights.sum()))
        bottom = self.ax_
        if show_density:
            bottom = self.density_ax_
            bars, heights = _cells.density(axis, weights[:m], limits)
            bottom.stairs(heights, bars, fill=True, color=_style.LIGHT)
        _style.name_x(bottom, _style.shorten(axis.name, 40) + _style.covers(coverage))

    def _panels(self, show_density, missing):
        """Make room below for the strip and on the right for the missing value."""
        width, height = _style.inches(self.ax_)
        heights = [1.0, min(max(0.45 / height, 0.12), 0.3)] if show_density else [1.0]
        widths = [1.0, min(max(0.5 / width, 0.09), 0.25)] if missing else [1.0]
        add = partial(lambda *_, **__: None)
        if len(heights) + len(widths) > 2:
            add = _style.divide(self.ax_, heights, widths, (0, 0), gap=0.05)
        if show_density:
            self.density_ax_ = add(1, 0, sharex=self.ax_)
            _strip(self.density_ax_)
            self.ax_.tick_params(labelbottom=False, bottom=False)
            self.ax_.spines["bottom"].set_visible(False)
        if missing:
            self.missing_ax_ = add(0, 1, sharey=self.ax_)

    def _plot_missing(self, curves, cell, percent):
        ax = self.missing_ax_
        spread = _offsets(len(curves))
        for offset, (_, values, deviations, colour) in zip(spread, curves, strict=True):
            self.points_.append(_point(ax, offset, values[cell], deviations[cell] if self._band else None, colour))
        ax.set_xlim(-0.8, 0.8)
        _style.tidy(ax)
        ax.spines[["left", "bottom"]].set_visible(False)
        ax.set_facecolor("#f7f8f9")
        ax.tick_params(labelleft=False, left=False)
        ax.set_xticks([])
        words = ax.text(
            0.0,
            -0.02,
            f"missing\n{percent}",
            transform=ax.get_xaxis_transform(),
            ha="center",
            va="top",
            fontsize=8,
            color=_style.INK,
        )
        # There is room beside the strip or the tick labels; the layout must not make more.
        words.set_in_layout(False)

    def _plot_categories(self, curves, show_density, max_categories, order):
        axis, weights = self.shape.axes[0], np.asarray(self.shape.weights, dtype=np.float64)
        m = _cells.n_value_cells(self.shape)
        cells = _chosen_categories(curves, weights[:m], max_categories, order)
        extra = [m + 1, m] if weights[m + 1] > 0 else [m]
        places = np.concatenate([np.arange(len(cells)), len(cells) + 0.4 + np.arange(len(extra))])
        self._panels(show_density, False)
        words, after = [axis.labels[cell] for cell in cells], ["missing", "unseen"][-len(extra) :]
        cells = np.concatenate([cells, extra]).astype(int)
        seen = np.concatenate([np.ones(len(cells) - 1, bool), [weights[m] > 0]])
        if len(curves) == 1:
            self._plot_bars(places, cells, seen, curves[0], len(extra))
        else:
            self._plot_points(places, cells, seen, curves)
        bottom = self.ax_
        if show_density:
            bottom = self.density_ax_
            bottom.bar(places, weights[cells], width=0.72, color=_style.LIGHT)
        _style.name_columns(bottom, places, words, _style.inches(self.ax_), after=after)
        bottom.set_xlim(places[0] - 0.6, places[-1] + 0.6)
        left_out = m - (len(cells) - len(extra))
        remark = f"   ({left_out} lighter categories not shown)" if left_out else ""
        _style.label(bottom.set_xlabel, _style.shorten(axis.name, 40) + remark)

    def _plot_bars(self, places, cells, seen, curve, n_extra):
        _, values, deviations, colour = curve
        colours = [colour] * (len(cells) - n_extra) + [_style.GREY] * n_extra
        self.bars_ = self.ax_.bar(places, values[cells], width=0.72, color=colours, alpha=0.85)
        if self._band:
            self.points_.append(
                self.ax_.errorbar(
                    places[seen],
                    values[cells][seen],
                    deviations[cells][seen],
                    fmt="none",
                    ecolor=_style.INK,
                    elinewidth=1.1,
                    capsize=2.5,
                )
            )
        # A bar of no height cannot be seen: say where the score of an unseen category is.
        for place, cell, known in zip(places, cells, seen, strict=True):
            if not known:
                self.points_.append(_point(self.ax_, place, values[cell], None, _style.GREY, hollow=True))

    def _plot_points(self, places, cells, seen, curves):
        for offset, (name, values, deviations, colour) in zip(_offsets(len(curves)) * 0.8, curves, strict=True):
            x, y, spread = places + offset, values[cells], deviations[cells]
            spread = spread[seen] if self._band else None
            self.points_.append(_point(self.ax_, x[seen], y[seen], spread, colour, name=name))
            if not seen.all():
                self.points_.append(_point(self.ax_, x[~seen], y[~seen], None, colour, hollow=True))

    def _finish(self, curves):
        ax = self.ax_
        ax.axhline(0.0, color=_style.GREY, linewidth=0.8, zorder=1)
        _style.tidy(ax)
        _style.title(ax, _style.shorten(self.shape.name, _style.title_room(ax)))
        _style.label(ax.set_ylabel, self.score_name)
        low, high = self.y_limits or curve_limits(self.shape, curves, self._band)
        if len(curves) > 1 and self.y_limits is None:
            # Room for the legend above the lines.
            high += 0.11 * (high - low) * -(-len(curves) // LEGEND_COLUMNS)
        ax.set_ylim(low, high)
        if self.density_ax_ is not None:
            ax.tick_params(labelbottom=False, bottom=False)
            ax.spines["bottom"].set_visible(False)
        if len(curves) > 1:
            ax.legend(
                fontsize=8,
                frameon=False,
                ncols=min(len(curves), LEGEND_COLUMNS),
                columnspacing=1.2,
                handletextpad=0.5,
                loc="upper center" if self.y_limits is None else "best",
            )
        self.axes_ = [panel for panel in (ax, self.missing_ax_, self.density_ax_) if panel is not None]


def half_widths(shape):
    """Return what the band extends to both sides: that of the confidence interval, else one deviation."""
    if shape.interval is not None:
        return (shape.interval[1] - shape.interval[0]) / 2
    return np.asarray(shape.deviations, dtype=np.float64)


def common_limits(shapes):
    """Return limits of the vertical axis that suit every one of some main terms."""
    limits = [curve_limits(shape) for shape in shapes]
    return min(low for low, _ in limits), max(high for _, high in limits)


def curve_limits(shape, curves=None, band=True):
    """Return limits that hold the values of all cells in use, their deviations if drawn, and zero."""
    values, deviations = np.asarray(shape.values, float), half_widths(shape)
    if curves is not None:
        values = np.stack([curve[1] for curve in curves], axis=-1)
        deviations = np.stack([curve[2] for curve in curves], axis=-1)
    if not band:
        deviations = np.zeros_like(deviations)
    low, high = (values - deviations).min(), (values + deviations).max()
    return _style.padded(min(low, 0.0), max(high, 0.0))


def _chosen_categories(curves, weights, max_categories, order):
    """Return the cells of the categories to draw in the order of the picture; ties keep the order of the levels."""
    cells = np.sort(np.argsort(-weights, kind="stable")[:max_categories])
    if order == "weight":
        return cells[np.argsort(-weights[cells], kind="stable")]
    if order == "value":
        return cells[np.argsort(-curves[0][1][cells], kind="stable")]
    return cells


def _point(ax, x, y, spread, colour, *, hollow=False, name=None):
    return ax.errorbar(
        x,
        y,
        spread,
        fmt="D" if hollow else "o",
        color=colour,
        markersize=4.5,
        markeredgewidth=1.1,
        markerfacecolor="white" if hollow else colour,
        elinewidth=1.1,
        capsize=2.5,
        zorder=4,
        label=_label(name),
    )


def _offsets(n):
    """Return the places of ``n`` points side by side around zero."""
    return (np.arange(n) - (n - 1) / 2.0) * (0.8 / max(n, 2))


def _label(name):
    return None if name is None else _style.shorten(name)


def _strip(ax):
    """Style the axes of the density strip."""
    _style.tidy(ax, grid=None)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
