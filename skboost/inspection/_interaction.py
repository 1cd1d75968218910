"""The picture of two features' joint part in an additive model."""

from numbers import Real

import numpy as np

from skboost.inspection import _cells, _style
from skboost.inspection._estimator import pair_shape, score_name

NO_WEIGHT = "#d9dce1"
EMPTY = ("fade", "mask", "show")
FADED = 0.4  # opacity of cells without weight
EXTRA = 0.075  # size of the row or column of missing values relative to the value cells


class InteractionDisplay:
    """Heat map of a pair term: what two features add to the score beyond the sum of their own curves.

    Cells keep their true, uneven borders. Colours are symmetric around zero, so that white means no effect. Cells
    without training weight are pale: their values are what neighbouring cells left there. Missing values have a column
    and a row of their own, on the right and at the bottom, if any training row misses the feature.

    Build it with `from_estimator`; the constructor is for shapes at hand.

    Parameters
    ----------
    shape : TermShape
        Pair term, as ``estimator.shape(term)`` returns it.
    score_name : str, default="score"
        Name of the colour scale, with its unit.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the picture.
    ax_ : matplotlib.axes.Axes
        Axes of the heat map.
    axes_ : list of matplotlib.axes.Axes
        The heat map, then the panels of missing values, then the colour bar.
    image_ : matplotlib.collections.QuadMesh
        Value cells: the first feature along the horizontal axis, the second along the vertical one.
    missing_images_ : dict of str to matplotlib.collections.QuadMesh
        Panels of missing values: "first" where the first feature is missing, "second", "both".
    colorbar_ : matplotlib.colorbar.Colorbar
        Colour bar.
    class_label_ : object
        Class that is drawn, None for a model with one score per row.

    See Also
    --------
    ShapeDisplay : The picture of one feature.
    plot_summary : One figure of the whole model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import EBMRegressor
    >>> from skboost.inspection import InteractionDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = EBMRegressor(interactions=[("bmi", "bp")], outer_bags=2, max_rounds=50, random_state=0).fit(X, y)
    >>> display = InteractionDisplay.from_estimator(model, ("bmi", "bp"))
    >>> display.ax_.get_title(loc="left")
    'bmi & bp'
    """

    def __init__(self, shape, *, score_name="score"):
        self.shape = shape
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls, estimator, term, *, class_label=None, empty="fade", coverage=1.0, limit=None, cmap="RdBu_r", ax=None
    ):
        """Draw a pair term of a fitted model.

        Parameters
        ----------
        estimator : EBMRegressor or EBMClassifier
            Fitted model.
        term : int, str or tuple
            Index or name of a pair term, or its two features by name or by index, in any order.
        class_label : object, default=None
            Class to draw, with three or more classes. None chooses the class on which the pair has most effect.
        empty : {"fade", "mask", "show"}, default="fade"
            How cells without training weight look: pale, grey whatever their value, or like all others.
        coverage : float, default=1.0
            Share of the training weight within each numeric axis, in (0, 1]. Below 1 the tails are cut, as much on
            both sides.
        limit : float or None, default=None
            Score of the strongest colours. None takes the largest absolute value of a cell that is drawn.
        cmap : str or matplotlib.colors.Colormap, default="RdBu_r"
            Colours, diverging around their middle.
        ax : matplotlib.axes.Axes or None, default=None
            Axes whose place the picture takes. None makes a new figure.

        Returns
        -------
        InteractionDisplay
            The picture.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If the term does not exist or is of one feature.
        """
        display = cls(pair_shape(estimator, term), score_name=score_name(estimator))
        return display.plot(ax=ax, class_label=class_label, empty=empty, coverage=coverage, limit=limit, cmap=cmap)

    def plot(self, ax=None, *, class_label=None, empty="fade", coverage=1.0, limit=None, cmap="RdBu_r"):
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes whose place the picture takes. None makes a new figure.
        class_label : object, default=None
            Class to draw, with three or more classes. None chooses the class on which the pair has most effect.
        empty : {"fade", "mask", "show"}, default="fade"
            How cells without training weight look: pale, grey whatever their value, or like all others.
        coverage : float, default=1.0
            Share of the training weight within each numeric axis, in (0, 1].
        limit : float or None, default=None
            Score of the strongest colours. None takes the largest absolute value of a cell that is drawn.
        cmap : str or matplotlib.colors.Colormap, default="RdBu_r"
            Colours, diverging around their middle.

        Returns
        -------
        InteractionDisplay
            The object itself.
        """
        if len(self.shape.axes) != 2:
            raise ValueError(f"term {self.shape.name!r} is of one feature: draw it with ShapeDisplay.")
        coverage = _cells.check_coverage(coverage)
        if limit is not None and not (isinstance(limit, Real) and np.isfinite(limit) and limit > 0):
            raise ValueError(f"limit must be a positive number or None, got {limit!r}.")
        if empty not in EMPTY:
            raise ValueError(f"empty must be one of {EMPTY}, got {empty!r}.")
        scores, self.class_label_ = self._scores(class_label)
        used = np.asarray(self.shape.weights) > 0
        if empty == "mask":
            scores = np.ma.masked_where(~used, scores)
        self._opacity = np.where(used, 1.0, FADED) if empty == "fade" else np.ones(used.shape)
        self.figure_, self.ax_ = _style.figure_and_axes(ax, (5.6, 4.4), "InteractionDisplay")
        marginals = [_cells.marginal_weights(self.shape, axis) for axis in (0, 1)]
        missing = [bool(weights[-1] > 0) for weights in marginals]
        axes = self.shape.axes
        borders = [_borders(axis, len(weights) - 2) for axis, weights in zip(axes, marginals, strict=True)]
        limits = [_limits(axis, weights[:-2], coverage) for axis, weights in zip(axes, marginals, strict=True)]
        # Colours are for what the data say: cells without weight may have any value.
        counted = scores if empty == "show" else np.ma.masked_where(~used, scores)
        norm = _norm(counted, borders, limits, missing, limit)
        style = {"cmap": cmap, "norm": norm, "rasterized": True, "linewidth": 0}
        add = self._panels(missing)
        self.image_ = self._mesh(self.ax_, *borders, scores, np.s_[:-2, :-2], style)
        panels = self._plot_missing(add, missing, borders, scores, style)
        self._plot_colorbar(add(0, -1))
        self._finish(limits, panels, coverage)
        self.axes_ = [self.ax_, *panels.values(), self.colorbar_.ax]
        return self

    def _scores(self, class_label):
        """Return the tensor to draw, first feature along the rows, and its class."""
        values = np.asarray(self.shape.values, dtype=np.float64)
        if values.ndim == 2:
            if class_label is not None:
                raise ValueError("class_label must be None for a model with one score per row.")
            return values, None
        labels = list(self.shape.classes)
        if class_label is None:
            weights = np.asarray(self.shape.weights, dtype=np.float64)[..., None]
            k = int(np.argmax((np.abs(values) * weights).sum(axis=(0, 1))))
        elif class_label in labels:
            k = labels.index(class_label)
        else:
            raise ValueError(f"class_label must be one of {labels}, got {class_label!r}.")
        return values[..., k], labels[k]

    def _panels(self, missing):
        """Make room for missing values and the colour bar; return a function that adds axes in the grid."""
        width, _ = _style.inches(self.ax_)
        widths = [1.0, *([EXTRA] if missing[0] else []), min(max(0.14 / width, 0.03), 0.08)]
        heights = [1.0, *([EXTRA] if missing[1] else [])]
        bar = len(widths) - 1
        if self.figure_.get_layout_engine() is None:
            # Nobody makes room for the numbers of the colour bar.
            widths.append(min(0.55 / width, 0.3))
        add = _style.divide(self.ax_, heights, widths, (0, 0), gap=0.035)
        return lambda row, column, **kwargs: add(row, column % (bar + 1), **kwargs)

    def _mesh(self, ax, x, y, scores, part, style):
        """Draw a part of the tensor, its first axis along x."""
        ax.set_facecolor(NO_WEIGHT)
        opacity = self._opacity[part].T
        # One opacity for all cells keeps vector files small.
        return ax.pcolormesh(x, y, scores[part].T, alpha=None if (opacity == 1.0).all() else opacity, **style)

    def _plot_missing(self, add, missing, borders, scores, style):
        (x, y), unit, panels = borders, np.array([0.0, 1.0]), {}
        parts = {
            "first": (missing[0], (0, 1), (unit, y), np.s_[-1:, :-2], {"sharey": self.ax_}),
            "second": (missing[1], (1, 0), (x, unit), np.s_[:-2, -1:], {"sharex": self.ax_}),
            "both": (all(missing), (1, 1), (unit, unit), np.s_[-1:, -1:], {}),
        }
        self.missing_images_ = {}
        for name, (wanted, place, corners, part, shared) in parts.items():
            if wanted:
                panels[name] = ax = add(*place, **shared)
                self.missing_images_[name] = self._mesh(ax, *corners, scores, part, style)
                ax.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
                ax.spines[:].set(color=_style.LIGHT, linewidth=0.8)
        if missing[0]:
            ax = panels["both" if missing[1] else "first"]
            ax.set_xticks([0.5], ["missing"], rotation=90)
            ax.tick_params(labelbottom=True, labelsize=8, labelcolor=_style.INK)
        if missing[1]:
            panels["second"].set_yticks([0.5], ["missing"])
            panels["second"].tick_params(labelleft=True, labelsize=8, labelcolor=_style.INK)
        return panels

    def _plot_colorbar(self, ax):
        self.colorbar_ = self.figure_.colorbar(self.image_, cax=ax)
        self.colorbar_.outline.set(edgecolor=_style.LIGHT, linewidth=0.8)
        ax.tick_params(labelsize=8, color=_style.LIGHT, labelcolor=_style.INK)
        _style.label(self.colorbar_.set_label, self.score_name)

    def _finish(self, limits, panels, coverage):
        ax, bottom = self.ax_, panels.get("second", self.ax_)
        ax.set_xlim(limits[0])
        ax.set_ylim(limits[1])
        for panel in {ax, bottom}:
            panel.tick_params(labelsize=8.5, color=_style.LIGHT, labelcolor=_style.INK)
            panel.spines[:].set(color=_style.LIGHT, linewidth=0.8)
        if bottom is not ax:
            ax.tick_params(bottom=False, labelbottom=False)
            bottom.tick_params(bottom=True, labelbottom=True)
        first, second = self.shape.axes
        # What holds for both axes is written once.
        remarks = [_style.covers(coverage) if axis.kind == "numeric" else "" for axis in (first, second)]
        _style.name_x(bottom, _style.shorten(first.name, 40) + remarks[0])
        room = max(10, int(_style.inches(ax)[1] / 0.09) - len(remarks[1]) * (not remarks[0]))
        _style.label(ax.set_ylabel, _style.shorten(second.name, room) + ("" if remarks[0] else remarks[1]))
        self._name_categories(bottom)
        what = "" if self.class_label_ is None else f"   (class {_style.shorten(self.class_label_)})"
        room = max(_style.title_room(ax) - len(what), 12)
        _style.title(ax, _style.shorten_pair(self.shape.names, room) + what)

    def _name_categories(self, bottom):
        first, second = self.shape.axes
        width, height = _style.inches(self.ax_)
        if second.kind == "categorical":
            n = self.shape.values.shape[1] - 2
            step = _style.every(n, height * 0.8)
            words = _style.shorten_all(second.labels[:n:step], 16)
            self.ax_.set_yticks(np.arange(n)[::step], words)
            width -= max(map(len, words)) * _style.LETTER
        if first.kind == "categorical":
            n = self.shape.values.shape[0] - 2
            step = _style.every(n, width)
            _style.name_columns(bottom, np.arange(n)[::step], first.labels[:n:step], (width, height))


def _borders(axis, n):
    """Return the borders of the value cells: their true places, or one unit per category."""
    if axis.kind == "categorical":
        return np.arange(n + 1) - 0.5
    return _cells.cell_borders(axis, _cells.observed_range(axis))


def _limits(axis, weights, coverage):
    if axis.kind == "categorical":
        return -0.5, len(weights) - 0.5
    return _cells.covered_range(axis, weights, coverage)


def _norm(scores, borders, limits, missing, limit):
    """Return a scale of colours symmetric around zero that suits the cells in sight."""
    from matplotlib.colors import Normalize

    if limit is None:
        in_sight = [
            np.append((b[1:] > low) & (b[:-1] < high) & (b[1:] > b[:-1]), [False, has])
            for b, (low, high), has in zip(borders, limits, missing, strict=True)
        ]
        drawn = scores[np.ix_(*in_sight)]
        limit = float(np.ma.abs(drawn).max()) if np.ma.count(drawn) else 0.0
    # A term of zeros is white all over.
    return Normalize(-limit, limit) if limit > 0 else Normalize(-1.0, 1.0)
