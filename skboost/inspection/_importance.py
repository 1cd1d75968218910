"""The picture of how much each term of an additive model does."""

import numpy as np

from skboost.inspection import _style
from skboost.inspection._estimator import check_additive

ROUNDING = 1e-12
MEASURES = {
    "avg_weight": "mean absolute score (weighted)",
    "min_max": "largest minus smallest score",
    "std": "standard deviation of the score (weighted)",
}


class TermImportanceDisplay:
    """Bars of the importance of the terms, the largest first.

    Main terms and pairs have different colours.

    Build it with `from_estimator`; the constructor is for importances at hand.

    Parameters
    ----------
    importances : array-like of shape (n_terms,)
        Importance of each term, not negative, in units of the score.
    names : sequence of str of length n_terms
        Names of the terms.
    features : sequence of tuple or None, default=None
        Features of each term; terms of two features are drawn as pairs. None draws all as main terms.
    measure : str, default="importance"
        Name of the horizontal axis.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the picture.
    ax_ : matplotlib.axes.Axes
        Axes of the bars.
    bars_ : matplotlib.container.BarContainer
        Bars from the largest, at the top, to the smallest.
    order_ : ndarray of shape (n_shown,)
        Index of the term of each bar.

    See Also
    --------
    plot_summary : One figure of the whole model.

    Examples
    --------
    >>> from skboost.inspection import TermImportanceDisplay
    >>> display = TermImportanceDisplay([0.1, 0.4, 0.2], ["age", "bmi", "age & bmi"], features=[(0,), (1,), (0, 1)])
    >>> display.plot().order_
    array([1, 2, 0])
    """

    def __init__(self, importances, names, *, features=None, measure="importance"):
        self.importances = importances
        self.names = names
        self.features = features
        self.measure = measure

    @classmethod
    def from_estimator(cls, estimator, *, importance_type="avg_weight", max_terms=15, ax=None):
        """Draw the importances of the terms of a fitted model.

        Parameters
        ----------
        estimator : EBMRegressor or EBMClassifier
            Fitted model.
        importance_type : {"avg_weight", "min_max", "std"}, default="avg_weight"
            Measure, as of ``estimator.term_importances``.
        max_terms : int, default=15
            Largest number of bars.
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw into. None makes a new figure.

        Returns
        -------
        TermImportanceDisplay
            The picture.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        """
        check_additive(estimator)
        display = cls(
            estimator.term_importances(importance_type),
            estimator.term_names_,
            features=estimator.term_features_,
            measure=MEASURES.get(importance_type, importance_type),
        )
        return display.plot(ax=ax, max_terms=max_terms)

    def plot(self, ax=None, *, max_terms=15):
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw into. None makes a new figure.
        max_terms : int, default=15
            Largest number of bars.

        Returns
        -------
        TermImportanceDisplay
            The object itself.
        """
        values = np.asarray(self.importances, dtype=np.float64)
        if values.ndim != 1 or len(values) != len(self.names):
            raise ValueError(f"importances must have one number per name, got {values.shape} and {len(self.names)}.")
        if not np.isfinite(values).all() or (values < 0).any():
            raise ValueError("importances must be finite and not negative.")
        max_terms = check_max_terms(max_terms)
        # Of equal terms the earlier stands higher.
        self.order_ = np.argsort(-values, kind="stable")[:max_terms]
        n = len(self.order_)
        self.figure_, self.ax_ = _style.figure_and_axes(ax, (6.4, 1.2 + 0.26 * max(n, 3)), "TermImportanceDisplay")
        pairs = np.array([self.features is not None and len(self.features[t]) == 2 for t in self.order_], dtype=bool)
        colours = np.where(pairs, _style.ORANGE, _style.BLUE)
        places = np.arange(n)
        self.bars_ = self.ax_.barh(places, values[self.order_], height=0.68, color=colours, alpha=0.9)
        largest = values.max(initial=0.0)
        # What rounding has left of a zero is written as zero.
        numbers = [_style.number(value if value > ROUNDING * largest else 0, 3) for value in values[self.order_]]
        self.ax_.bar_label(self.bars_, numbers, padding=3, fontsize=8, color=_style.INK)
        name_bars(self.ax_, [term_label(self.names[t]) for t in self.order_])
        _style.tidy(self.ax_, grid="x")
        self.ax_.tick_params(axis="y", left=False)
        self.ax_.set_xlim(0.0, 1.15 * largest or 1.0)
        _style.label(self.ax_.set_xlabel, self.measure)
        rest = f"   (first {n} of {len(values)})" if n < len(values) else ""
        _style.title(self.ax_, f"Importance of terms{rest}")
        if pairs.any() and not pairs.all():
            key_of_colours(self.ax_, {"feature": _style.BLUE, "pair": _style.ORANGE})
        return self


def check_max_terms(max_terms):
    """Return ``max_terms`` as an int, or raise ValueError."""
    if isinstance(max_terms, (bool, np.bool_)) or not isinstance(max_terms, (int, np.integer)) or max_terms < 1:
        raise ValueError(f"max_terms must be an integer of at least 1, got {max_terms!r}.")
    return int(max_terms)


def term_label(name, length=30):
    """Return the name of a term short enough for the side of a picture."""
    parts = str(name).split(" & ")
    return _style.shorten_pair(parts, length) if len(parts) == 2 else _style.shorten(name, length)


def name_bars(ax, words):
    """Name horizontal bars, the first at the top."""
    ax.set_yticks(np.arange(len(words)), words)
    ax.set_ylim(len(words) - 0.4, -0.6)


def key_of_colours(ax, colours):
    """Add a legend that explains colours of bars, in the empty corner at the lower right."""
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, alpha=0.9, label=name) for name, colour in colours.items()]
    ax.legend(handles=handles, fontsize=8, frameon=False, loc="lower right")
