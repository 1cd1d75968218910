"""Prediction along one feature, with what is not known about it."""

from dataclasses import dataclass

import numpy as np

from skboost.inspection import _style, _uncertainty_model
from skboost.inspection._uncertainty_table import GridAxis, Table, check_grid

N_POINTS = 400
# Members within these quantiles are shown; the outermost of few members mean little.
QUANTILES = (0.1, 0.9)
MEMBERS_WORDS = "80 % of the members"
# Height of a line of marks of rows, on the scale of probabilities.
RUG = 0.05


@dataclass(frozen=True, eq=False)
class Band:
    """Contents of kind="band".

    Attributes
    ----------
    axis : GridAxis
        Feature along the horizontal axis.
    mean : ndarray of shape (n_points,) or (n_points, n_classes)
        Mean of the members.
    knowledge : ndarray of shape (n_points,)
        Knowledge uncertainty.
    total : ndarray of shape (n_points,) or None
        Total uncertainty.
    members : ndarray of shape (2, n_points, n_classes) or None
        Quantiles of the members' probabilities, for a classifier whose members can be asked.
    y : ndarray of shape (n_rows,) or None
        Targets of the rows, positions of classes for a classifier.
    classes : sequence or None
        Labels of the classes.
    shown : tuple of int
        Positions of the classes to draw.
    target : str or None
        Name of the target.
    others : str
        Where the other features stand, a remark.
    """

    axis: GridAxis
    mean: np.ndarray
    knowledge: np.ndarray
    total: np.ndarray | None
    members: np.ndarray | None
    y: np.ndarray | None
    classes: object
    shown: tuple
    target: str | None
    others: str

    @classmethod
    def from_estimator(
        cls, estimator, X, *, features=None, y=None, fixed=None, class_label=None, grid=None, n_members=None
    ):
        """Ask the model along one feature."""
        classes = getattr(estimator, "classes_", None)
        table = Table(estimator, X)
        (feature,) = table.find(features, 1, "band")
        if grid is not None and table.is_categorical[feature]:
            raise ValueError(f"grid must be None for the categorical feature {table.names[feature]!r}.")
        ((values, n_points),) = check_grid(grid, N_POINTS, 1)
        axis = table.axis(feature, values, n_points)
        if classes is not None and class_label is None and len(classes) > 2:
            shown = tuple(range(len(classes)))
        else:
            shown = (_uncertainty_model.chosen_class(classes, class_label),)
        points = _uncertainty_model.targets(y, table.n_rows, classes)
        rows = table.rows({feature: (axis, np.arange(len(axis.places)))}, fixed)
        keywords = _uncertainty_model.members_argument(estimator, n_members)
        u = estimator.predict_uncertainty(rows, **keywords)
        members = None
        if classes is not None and _uncertainty_model.has_members(estimator):
            members = np.quantile(estimator.predict_virtual_ensembles(rows, **keywords), QUANTILES, axis=0)
        return cls(
            axis, np.asarray(u.mean), np.asarray(u.knowledge), u.total, members, points, classes, shown,
            _uncertainty_model.name_of(y), others_remark(table.n_features - 1, fixed),
        )  # fmt: skip

    def draw(self, display, ax):
        """Draw into new axes or those given; return figure and axes."""
        display.figure_, display.ax_ = _style.figure_and_axes(ax, (6.4, 4.2), "UncertaintyDisplay")
        if self.classes is None:
            self._draw_regression(display)
            bottom = display.ax_
        else:
            bottom = self._draw_classes(display)
        self._finish(display, bottom)

    # ---- regression

    def _draw_regression(self, display):
        ax, knowledge = display.ax_, np.sqrt(self.knowledge)
        total = None if self.total is None else np.sqrt(self.total)
        self._draw_targets(display)
        if self.axis.labels is None:
            spreads = [] if total is None else [(total, _style.BLUE, 0.16, "total")]
            for spread, colour, alpha, name in [*spreads, (knowledge, _style.ORANGE, 0.55, "knowledge")]:
                band = ax.fill_between(
                    self.axis.places, self.mean - spread, self.mean + spread, color=colour, alpha=alpha, linewidth=0,
                    label=f"± √{name}", zorder=3,
                )  # fmt: skip
                display.bands_.append(band)
            display.lines_ += ax.plot(
                self.axis.places, self.mean, color=_style.BLUE, linewidth=1.3, label="mean of the members", zorder=4
            )
        else:
            if total is not None:
                display.points_.append(self._whiskers(ax, total, _style.BLUE, "total", 1.3))
            display.points_.append(
                self._whiskers(ax, knowledge, _style.ORANGE, "knowledge", max(3.0, min(8.0, 120.0 / len(self.mean))))
            )
            display.lines_ += ax.plot(
                self.axis.places, self.mean, "o", color=_style.INK, markersize=4, label="mean of the members", zorder=5
            )
        _style.label(ax.set_ylabel, self.target or _uncertainty_model.in_units("prediction", None))
        _style.tidy(ax)

    def _whiskers(self, ax, spread, colour, name, width):
        return ax.errorbar(
            self.axis.places, self.mean, spread, fmt="none", ecolor=colour, elinewidth=width, capsize=0, zorder=4,
            label=f"± √{name}",
        )  # fmt: skip

    def _draw_targets(self, display):
        if self.y is None:
            self._draw_rug(display, slice(None), 0.015, _style.GREY, transform=display.ax_.get_xaxis_transform())
            return
        x = self._spread_places()
        display.points_.append(
            display.ax_.scatter(
                x, self.y, s=9, color=_style.GREY, alpha=faintness(len(x)), linewidth=0, rasterized=True, zorder=2,
                label="rows",
            )
        )  # fmt: skip

    def _spread_places(self):
        """Return the places of the rows, those of categories side by side so that not all are on one line."""
        if self.axis.labels is None:
            return self.axis.observed
        golden = np.arange(len(self.axis.observed)) * 0.6180339887498949 % 1.0
        return self.axis.observed + 0.1 + 0.3 * golden

    def _draw_rug(self, display, rows, height, colour, **keywords):
        """Mark where rows are, as small strokes at one height."""
        x = self._spread_places()[rows]
        display.points_ += display.ax_.plot(
            x, np.full(len(x), height), "|", color=colour, markersize=6, markeredgewidth=0.7, zorder=5,
            alpha=faintness(len(x)), rasterized=True, **keywords,
        )  # fmt: skip

    # ---- classification

    def _draw_classes(self, display):
        add = _style.divide(display.ax_, [1.0, 0.36], [1.0], (0, 0), gap=0.09)
        ax, display.knowledge_ax_ = display.ax_, add(1, 0, sharex=display.ax_)
        colours = _style.class_colours(len(self.classes))
        for k in self.shown:
            colour = _style.BLUE if len(self.shown) == 1 else colours[k]
            self._draw_class(display, k, colour)
        lowest = self._draw_labels(display, colours)
        ax.set_ylim(lowest - RUG / 2, 1.0 + RUG)
        ax.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
        name = "probability" + (f" of {_style.shorten(self.classes[self.shown[0]])}" if len(self.shown) == 1 else "")
        _style.label(ax.set_ylabel, name)
        _style.tidy(ax)
        ax.tick_params(labelbottom=False, bottom=False)
        self._draw_knowledge(display)
        return display.knowledge_ax_

    def _draw_class(self, display, k, colour):
        ax, x, mean = display.ax_, self.axis.places, self.mean[:, k]
        one = len(self.shown) == 1
        label = "mean of the members" if one else _uncertainty_model.class_words(self.classes)[k]
        if self.axis.labels is not None:
            spread = None
            if self.members is not None:
                # The mean may lie outside the quantiles: then there is no whisker on that side.
                spread = np.maximum([mean - self.members[0, :, k], self.members[1, :, k] - mean], 0.0)
            offset = 0.0 if one else 0.12 * (self.shown.index(k) - (len(self.shown) - 1) / 2)
            display.points_.append(
                ax.errorbar(
                    x + offset, mean, spread, fmt="o", color=colour, markersize=4.5, elinewidth=1.4, capsize=2.5,
                    label=label, zorder=4,
                )
            )  # fmt: skip
            return
        if self.members is not None:
            low, high = self.members[:, :, k]
            display.bands_.append(
                ax.fill_between(
                    x, low, high, color=colour, alpha=0.25, linewidth=0, label=MEMBERS_WORDS if one else None, zorder=3
                )
            )
        display.lines_ += ax.plot(x, mean, color=colour, linewidth=1.6, label=label, zorder=4)

    def _draw_labels(self, display, colours):
        """Mark the rows of the class above, the others below; of several classes all below, one under the other.

        Returns the height of the lowest marks.
        """
        if self.y is None:
            self._draw_rug(display, slice(None), -RUG / 2, _style.GREY)
        elif len(self.shown) == 1:
            own = self.y == self.shown[0]
            self._draw_rug(display, own, 1.0 + RUG / 2, _style.BLUE)
            self._draw_rug(display, ~own, -RUG / 2, _style.GREY)
        else:
            step = RUG * min(1.0, 4 / len(self.shown))
            for place, k in enumerate(self.shown):
                self._draw_rug(display, self.y == k, -RUG / 2 - step * place, colours[k])
            return -RUG / 2 - step * (len(self.shown) - 1)
        return -RUG / 2

    def _draw_knowledge(self, display):
        ax, x = display.knowledge_ax_, self.axis.places
        if self.axis.labels is None:
            band = ax.fill_between(x, 0.0, self.knowledge, color=_style.ORANGE, alpha=0.75, linewidth=0)
            display.bands_.append(band)
        else:
            display.bars_.append(ax.bar(x, self.knowledge, width=0.5, color=_style.ORANGE, alpha=0.85))
        ax.set_ylim(0.0, 1.1 * self.knowledge.max() or 1.0)
        ax.locator_params(axis="y", nbins=3)
        _style.tidy(ax)
        _style.label(ax.set_ylabel, "knowledge\n(nats)")

    # ---- both

    def _finish(self, display, bottom):
        ax = display.ax_
        name = _style.shorten(self.axis.name, 60) + self.others
        if self.axis.labels is None:
            ax.set_xlim(self.axis.places[0], self.axis.places[-1])
            _style.name_x(bottom, name)
        else:
            _style.name_columns(bottom, self.axis.places, self.axis.labels, _style.inches(display.ax_))
            ax.set_xlim(-0.6, len(self.axis.places) - 0.4)
            _style.label(bottom.set_xlabel, name)
        _style.title(ax, "Prediction and its uncertainty")
        legend_above(ax)


def legend_above(ax, header=None):
    """Add a legend at the top of the axes, which grow by the room it needs, so that it covers nothing."""
    handles, labels = ax.get_legend_handles_labels()
    if len(handles) < 2:
        return
    width, height = _style.inches(ax)
    columns = len(handles)
    while columns > 1 and sum(0.5 + 0.06 * len(label) for label in labels[:columns]) > width:
        columns -= 1
    n_lines = -(-len(handles) // columns) + (header is not None)
    low, high = ax.get_ylim()
    ticks = [tick for tick in ax.get_yticks() if low <= tick <= high]
    part = min((0.2 * n_lines + 0.05) / height, 0.5)
    ax.set_ylim(low, high + (high - low) * part / (1.0 - part))
    ax.set_yticks(ticks)
    legend = ax.legend(
        fontsize=8, frameon=False, ncols=columns, loc="upper left", columnspacing=1.3, handletextpad=0.5, borderpad=0.1,
        title=header, title_fontsize=8, alignment="left",
    )  # fmt: skip
    legend.get_title().set_color(_style.INK)


def others_remark(n_others, fixed):
    """Return where the features that do not vary stand, as a remark behind the name of an axis."""
    if n_others == 0:
        return ""
    given = [f"{_style.shorten(name)} = {_style.shorten(value)}" for name, value in (fixed or {}).items()]
    if n_others > len(given):
        given.append("other features at their median")
    return f"   ({', '.join(given)})"


def faintness(n_points):
    """Return an opacity at which many points still show where they are dense."""
    return float(np.clip(30.0 / np.sqrt(max(n_points, 1)) / 2.0, 0.12, 0.7))
