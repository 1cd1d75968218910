"""Heat map of a quantity over two features."""

from dataclasses import dataclass

import numpy as np

from skboost.inspection import _style, _uncertainty_model
from skboost.inspection._uncertainty_band import faintness, others_remark
from skboost.inspection._uncertainty_table import Table, check_grid

N_POINTS = 100
QUANTITIES = (*_uncertainty_model.QUANTITIES, "mean")
# Grey for amounts, light at 0, so that coloured points stand out; all can be read with any colour vision.
AMOUNT, SUPPORT, LEVEL, PROBABILITY = "Greys", "Greys_r", "viridis", "RdBu_r"


@dataclass(frozen=True, eq=False)
class Map:
    """Contents of kind="map".

    Attributes
    ----------
    axes : tuple of two GridAxis
        Features along the horizontal and the vertical axis.
    values : ndarray of shape (n_vertical, n_horizontal)
        The quantity at the points of the grid.
    quantity : str
        Its name.
    label : str
        Its name with the unit.
    y : ndarray of shape (n_rows,) or None
        Targets of the rows, positions of classes for a classifier.
    classes : sequence or None
        Labels of the classes.
    others : str
        Where the other features stand, a remark.
    """

    axes: tuple
    values: np.ndarray
    quantity: str
    label: str
    y: np.ndarray | None
    classes: object
    others: str

    @classmethod
    def from_estimator(
        cls, estimator, X, *, features=None, y=None, quantity=None, fixed=None, class_label=None, grid=None,
        n_members=None,
    ):  # fmt: skip
        """Ask the model over the grid of two features."""
        quantity = "knowledge" if quantity is None else quantity
        _uncertainty_model.check_quantity(quantity, QUANTITIES)
        classes = getattr(estimator, "classes_", None)
        if class_label is not None and quantity != "mean":
            raise ValueError(f"class_label must be None with quantity={quantity!r}: it chooses the class of 'mean'.")
        shown = _uncertainty_model.chosen_class(classes, class_label) if quantity == "mean" else None
        table = Table(estimator, X)
        positions = table.find(features, 2, "map")
        for feature in positions:
            if table.is_categorical[feature]:
                raise ValueError(
                    f"features must be numeric for kind='map', {table.names[feature]!r} is categorical: set it with "
                    "fixed, or draw it with kind='band'."
                )
        axes = [
            table.axis(feature, values, n_points)
            for feature, (values, n_points) in zip(positions, check_grid(grid, N_POINTS, 2), strict=True)
        ]
        y_points = _uncertainty_model.targets(y, table.n_rows, classes)
        second, first = np.indices([len(axis.places) for axis in axes[::-1]]).reshape(2, -1)
        rows = table.rows(dict(zip(positions, zip(axes, (first, second), strict=True), strict=True)), fixed)
        u = estimator.predict_uncertainty(rows, **_uncertainty_model.members_argument(estimator, n_members))
        values = np.asarray(_uncertainty_model.column_of(u, quantity))
        values = values[:, shown] if values.ndim == 2 else values
        target = _uncertainty_model.name_of(y)
        if quantity == "mean":
            label = _uncertainty_model.in_units("mean prediction", target)
            label = label if shown is None else f"probability of {_style.shorten(classes[shown])}"
        else:
            label = _uncertainty_model.quantity_name(quantity, classes is not None, target)
        return cls(
            tuple(axes), values.reshape([len(axis.places) for axis in axes[::-1]]), quantity, label, y_points, classes,
            others_remark(table.n_features - 2, fixed),
        )  # fmt: skip

    def draw(self, display, ax):
        """Draw into new axes or those given."""
        display.figure_, display.ax_ = _style.figure_and_axes(ax, (6.2, 4.6), "UncertaintyDisplay")
        ax = display.ax_
        width, _ = _style.inches(ax)
        widths = [1.0, min(max(0.14 / width, 0.03), 0.08)]
        if display.figure_.get_layout_engine() is None:
            # Nobody makes room for the numbers of the colour bar.
            widths.append(min(0.55 / width, 0.3))
        bar = _style.divide(ax, [1.0], widths, (0, 0), gap=0.04)(0, 1)
        x, y = self.axes
        display.image_ = ax.pcolormesh(
            x.places, y.places, self.values, shading="nearest", cmap=self._cmap(), norm=self._norm(), rasterized=True,
            linewidth=0,
        )  # fmt: skip
        self._draw_points(display)
        self._draw_colorbar(display, bar)
        ax.tick_params(labelsize=8.5, color=_style.LIGHT, labelcolor=_style.INK)
        ax.spines[:].set(color=_style.LIGHT, linewidth=0.8)
        ax.set_xlim(x.places[0], x.places[-1])
        ax.set_ylim(y.places[0], y.places[-1])
        _style.name_x(ax, _style.shorten(x.name, 40) + self.others)
        _style.label(ax.set_ylabel, _style.shorten(y.name, 40))
        mean = "Mean prediction" if self.classes is None else "Probability"
        what = mean if self.quantity == "mean" else self.quantity.capitalize()
        _style.title(ax, what)
        self._place_legend(ax, len(what))

    def _cmap(self):
        # Dark is where little is known, in every picture.
        if self.quantity != "mean":
            return SUPPORT if self.quantity == "support" else AMOUNT
        return LEVEL if self.classes is None else PROBABILITY

    def _norm(self):
        """Return a scale from 0, from 0 to 1 for probabilities, up to 1 for support; other means have their range."""
        from matplotlib.colors import Normalize

        if self.quantity == "support":
            return Normalize(_uncertainty_model.least_support(self.values), 1.0)
        if self.quantity == "mean" and self.classes is not None:
            return Normalize(0.0, 1.0)
        if self.quantity == "mean":
            return Normalize(*_style.padded(self.values.min(), self.values.max(), part=0.0))
        return Normalize(0.0, float(self.values.max()) or 1.0)

    def _draw_points(self, display):
        x, y = (axis.observed for axis in self.axes)
        style = {"s": 14, "linewidth": 0.5, "edgecolor": "white", "zorder": 3, "rasterized": True}
        style["alpha"] = max(faintness(len(x)), 0.35)
        if self.y is None or self.classes is None:
            display.points_.append(display.ax_.scatter(x, y, color=_style.ORANGE, **style))
            return
        words = _uncertainty_model.class_words(self.classes)
        for k, (colour, label) in enumerate(zip(_style.class_colours(max(len(words), 2)), words, strict=False)):
            own = self.y == k
            display.points_.append(display.ax_.scatter(x[own], y[own], color=colour, label=label, **style))

    def _place_legend(self, ax, length):
        """Add a legend of the classes beside the title if it fits there, below the axes if not."""
        handles, labels = ax.get_legend_handles_labels()
        if not handles:
            return
        room = _style.inches(ax)[0] - 0.1 * length
        style = {"fontsize": 8, "frameon": False, "markerscale": 1.5, "handletextpad": 0.1, "columnspacing": 0.8}
        style |= {"borderpad": 0.0, "borderaxespad": 0.3}
        if sum(0.4 + _style.LETTER * len(label) for label in labels) < room:
            ax.legend(ncols=len(labels), loc="lower right", bbox_to_anchor=(1.0, 1.0), **style)
        else:
            columns = int(_style.inches(ax)[0] / (0.4 + _style.LETTER * max(map(len, labels))))
            ax.legend(ncols=max(columns, 1), loc="upper center", bbox_to_anchor=(0.5, -0.16), **style)

    def _draw_colorbar(self, display, ax):
        display.colorbar_ = display.figure_.colorbar(display.image_, cax=ax)
        display.colorbar_.outline.set(edgecolor=_style.LIGHT, linewidth=0.8)
        ax.tick_params(labelsize=8, color=_style.LIGHT, labelcolor=_style.INK)
        _style.label(display.colorbar_.set_label, self.label)
