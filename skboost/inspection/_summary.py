"""One figure of a whole additive model."""

from textwrap import wrap

import numpy as np

from skboost.inspection import _cells, _style
from skboost.inspection._estimator import check_additive, positions, score_name
from skboost.inspection._importance import TermImportanceDisplay, check_max_terms
from skboost.inspection._interaction import InteractionDisplay
from skboost.inspection._shape import ShapeDisplay, common_limits

PANEL = (3.1, 2.5)  # inches of one curve or heat map
BARS_WIDTH = 4.6  # inches
NOTES_HEIGHT = 1.4  # inches
NOTES_WIDTH = 48  # letters
NAME = 24  # letters
MOST_COLUMNS = 3
MOST_CATEGORIES = 15


def plot_summary(
    estimator,
    *,
    max_shapes=6,
    max_pairs=3,
    max_terms=15,
    common_range=True,
    coverage=1.0,
    importance_type="avg_weight",
    title=None,
):
    """Draw a whole model in one figure: importances, the curves of the main terms, heat maps of the pairs.

    Parameters
    ----------
    estimator : EBMRegressor or EBMClassifier
        Fitted model.
    max_shapes : int, default=6
        Largest number of curves; the most important main terms are drawn.
    max_pairs : int, default=3
        Largest number of heat maps; the most important pairs are drawn.
    max_terms : int, default=15
        Largest number of bars.
    common_range : bool, default=True
        Whether all curves share their vertical range and all heat maps their colours, so that sizes can be compared.
    coverage : float, default=1.0
        Share of the training weight within each horizontal axis, in (0, 1]. Below 1 the tails of numeric features are
        cut, as much on both sides.
    importance_type : {"avg_weight", "min_max", "std"}, default="avg_weight"
        Measure of importance, as of ``estimator.term_importances``.
    title : str or None, default=None
        Title of the figure. None names the class of the estimator.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    ValueError
        If a number is out of its range.

    See Also
    --------
    ShapeDisplay : One curve.
    InteractionDisplay : One heat map.
    TermImportanceDisplay : The bars.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import EBMRegressor
    >>> from skboost.inspection import plot_summary
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = EBMRegressor(interactions=2, outer_bags=2, max_rounds=50, random_state=0).fit(X, y)
    >>> figure = plot_summary(model, max_shapes=4)
    """
    pyplot = _style.matplotlib_pyplot("plot_summary")
    check_additive(estimator)
    coverage = _cells.check_coverage(coverage)
    max_terms = check_max_terms(max_terms)
    for name, value in (("max_shapes", max_shapes), ("max_pairs", max_pairs)):
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 0:
            raise ValueError(f"{name} must be an integer of at least 0, got {value!r}.")
    importances = np.asarray(estimator.term_importances(importance_type), dtype=np.float64)
    order = np.argsort(-importances, kind="stable")
    mains = _drawn(estimator, order, 1, max_shapes)
    pairs = _drawn(estimator, order, 2, max_pairs)
    page = Page(pyplot, len(mains), len(pairs), min(len(order), max_terms))
    try:
        TermImportanceDisplay.from_estimator(
            estimator, importance_type=importance_type, max_terms=max_terms, ax=page.bars
        )
        _style.title(page.bars, "Importance of terms")
        _draw_shapes(page, mains, common_range, coverage)
        _draw_pairs(page, pairs, common_range, coverage)
        page.write(title or type(estimator).__name__, _notes(estimator, coverage))
    except BaseException:
        pyplot.close(page.figure)
        raise
    return page.figure


def _drawn(estimator, order, n_features, most):
    """Return the shapes of the first terms of a kind in order of importance."""
    kind = set(positions(estimator, n_features))
    chosen = [int(position) for position in order if position in kind][:most]
    return [estimator.shape(position) for position in chosen]


class Page:
    """The figure of a summary: bars and notes on the left, a grid of curves and heat maps on the right.

    Parameters
    ----------
    pyplot : module
        ``matplotlib.pyplot``.
    n_mains, n_pairs, n_bars : int
        Numbers of curves, heat maps and bars.
    """

    def __init__(self, pyplot, n_mains, n_pairs, n_bars):
        self.columns = min(MOST_COLUMNS, max(n_mains, n_pairs))
        rows = [-(-count // max(self.columns, 1)) for count in (n_mains, n_pairs)]
        bars_height = 1.0 + 0.25 * max(n_bars, 4)
        height = max(PANEL[1] * sum(rows), bars_height + NOTES_HEIGHT)
        widths = [BARS_WIDTH, PANEL[0] * self.columns] if self.columns else [BARS_WIDTH]
        self.figure = pyplot.figure(figsize=(sum(widths), height + 0.4), layout="constrained")
        self.figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03)
        outer = self.figure.add_gridspec(1, len(widths), width_ratios=widths, wspace=0.03)
        left = outer[0].subgridspec(2, 1, height_ratios=[bars_height, height - bars_height])
        self.bars, self._text = self.figure.add_subplot(left[0]), self.figure.add_subplot(left[1])
        self._text.set_axis_off()
        self.shapes, self.pairs = [], []
        if self.columns:
            grid = outer[1].subgridspec(sum(rows), self.columns, hspace=0.08, wspace=0.06)
            cells = [grid[k, column] for k in range(sum(rows)) for column in range(self.columns)]
            self.shapes = [self.figure.add_subplot(cell) for cell in cells[:n_mains]]
            first = rows[0] * self.columns
            self.pairs = [self.figure.add_subplot(cell) for cell in cells[first : first + n_pairs]]

    def write(self, title, notes):
        """Write the title of the figure and the notes below the bars."""
        self.figure.suptitle(
            _style.shorten(title, 100), x=0.01, ha="left", fontsize=13, fontweight="bold", color=_style.INK
        )
        lines = [line for note in notes for line in wrap(note, NOTES_WIDTH, subsequent_indent="   ")]
        text = self._text.text(
            0.0,
            0.0,
            "\n".join(lines),
            transform=self._text.transAxes,
            va="bottom",
            fontsize=8.5,
            color=_style.GREY,
            linespacing=1.5,
        )
        text.set_in_layout(False)


def _draw_shapes(page, shapes, common, coverage):
    limits = common_limits(shapes) if common and shapes else None
    for k, (ax, shape) in enumerate(zip(page.shapes, shapes, strict=True)):
        display = ShapeDisplay(shape, score_name="score" if k % page.columns == 0 else "", y_limits=limits)
        display.plot(ax=ax, coverage=coverage, max_categories=MOST_CATEGORIES)
        # One legend explains the colours of all panels, and the title names the feature.
        if k and ax.get_legend() is not None:
            ax.get_legend().remove()
        left_out = _cells.n_value_cells(shape) - MOST_CATEGORIES if shape.axes[0].kind == "categorical" else 0
        display.density_ax_.set_xlabel(f"({left_out} more)" if left_out > 0 else "")


def _draw_pairs(page, shapes, common, coverage):
    used = [np.abs(shape.values[np.asarray(shape.weights) > 0]).max(initial=0.0) for shape in shapes]
    limit = (max(used, default=0.0) or None) if common else None
    for ax, shape in zip(page.pairs, shapes, strict=True):
        display = InteractionDisplay(shape, score_name="").plot(ax=ax, coverage=coverage, limit=limit)
        # The notes tell the coverage.
        bottom = display.missing_images_["second"].axes if "second" in display.missing_images_ else ax
        bottom.set_xlabel(_style.shorten(shape.names[0], NAME))
        ax.set_ylabel(_style.shorten(shape.names[1], NAME))


def _notes(estimator, coverage):
    """Return what a reader has to know about the figure."""
    n_mains, n_pairs = (len(positions(estimator, n)) for n in (1, 2))
    notes = [f"model: {n_mains} feature{'s' * (n_mains != 1)}, {n_pairs} pair{'s' * (n_pairs != 1)}"]
    notes.append(f"scale: {score_name(estimator)}")
    n_bags = len(np.atleast_1d(estimator.bag_weights_))
    if n_bags > 1:
        notes.append(f"bands: one standard deviation over {n_bags} bags")
    if n_pairs:
        notes.append("pale cells: no training rows")
    if coverage < 1.0:
        notes.append(f"axes of features: {100 * coverage:.3g} % of the training weight")
    return notes
