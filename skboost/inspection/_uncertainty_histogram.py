"""Histograms of a quantity on two or more sets of rows."""

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score

from skboost.inspection import _style, _uncertainty_model
from skboost.inspection._uncertainty_band import legend_above

MIN_BINS, MAX_BINS = 10, 40
# Positive values over more than this factor are binned by their logarithms.
LOG_FROM = 30.0


@dataclass(frozen=True, eq=False)
class Histogram:
    """Contents of kind="histogram".

    Attributes
    ----------
    values : dict of str to ndarray
        The quantity for the rows of each set.
    quantity : str
        Its name.
    label : str
        Its name with the unit.
    """

    values: dict
    quantity: str
    label: str

    @classmethod
    def from_estimator(cls, estimator, X, *, quantity=None, n_members=None):
        """Ask the model about each set of rows."""
        if not isinstance(X, dict) or len(X) < 2:
            raise ValueError(
                "X must be a dict of two or more named sets of rows for kind='histogram', as in "
                "{'in-domain': X_test, 'shifted': X_new}."
            )
        keywords = _uncertainty_model.members_argument(estimator, n_members)
        found = {name: estimator.predict_uncertainty(rows, **keywords) for name, rows in X.items()}
        return cls.from_uncertainty(found, quantity=quantity)

    @classmethod
    def from_uncertainty(cls, uncertainty, *, quantity=None):
        """Take the quantity out of records."""
        if not isinstance(uncertainty, dict) or len(uncertainty) < 2:
            raise ValueError("uncertainty must be a dict of two or more named records for kind='histogram'.")
        quantity = "knowledge" if quantity is None else quantity
        _uncertainty_model.check_quantity(quantity)
        values = {str(name): _uncertainty_model.column_of(u, quantity) for name, u in uncertainty.items()}
        empty = [name for name, column in values.items() if len(column) == 0]
        if empty:
            raise ValueError(f"every set must have at least one row; {empty} have none.")
        is_classifier = any(np.ndim(u.mean) == 2 for u in uncertainty.values())
        return cls(values, quantity, _uncertainty_model.quantity_name(quantity, is_classifier))

    def roc_auc(self):
        """Return how often a row of the second set is less certain than one of the first; None for more sets."""
        if len(self.values) != 2:
            return None
        first, second = self.values.values()
        sign = -1.0 if self.quantity == "support" else 1.0
        return float(roc_auc_score(np.repeat([0, 1], [len(first), len(second)]), sign * np.append(first, second)))

    def draw(self, display, ax):
        """Draw into new axes or those given."""
        display.figure_, display.ax_ = _style.figure_and_axes(ax, (6.4, 3.8), "UncertaintyDisplay")
        ax, together = display.ax_, np.concatenate(list(self.values.values()))
        smallest = min(map(len, self.values.values()))
        n_bins = int(np.clip(3 * np.cbrt(smallest), MIN_BINS, MAX_BINS))
        edges, logarithmic = bins(together, n_bins, bounded=self.quantity == "support")
        if logarithmic:
            ax.set_xscale("log")
            if (together == 0).any():
                self._draw_zeros(display)
        colours = _style.class_colours(max(len(self.values), 2))
        # The areas of many sets would hide one another: these are named by their outlines.
        opacity, named = (0.25, 0) if len(self.values) <= 3 else (0.05, 1)
        words = _style.shorten_all(list(self.values))
        for name, values, colour in zip(words, self.values.values(), colours, strict=False):
            shares = 100.0 * np.histogram(values, edges)[0] / len(values)
            labels = [None, None]
            labels[named] = f"{name} ({len(values):,} rows)"
            display.bands_.append(ax.stairs(shares, edges, fill=True, color=colour, alpha=opacity, label=labels[0]))
            display.lines_.append(ax.stairs(shares, edges, color=colour, linewidth=1.4, label=labels[1]))
        self._finish(display, edges)

    def _draw_zeros(self, display):
        """Give the rows without any uncertainty a place of their own: a logarithmic axis has none for 0."""
        add = _style.divide(display.ax_, [1.0], [0.08 + 0.03 * len(self.values), 1.0], (0, 1), gap=0.01)
        display.zero_ax_ = ax = add(0, 0, sharey=display.ax_)
        colours = _style.class_colours(max(len(self.values), 2))
        for k, (values, colour) in enumerate(zip(self.values.values(), colours, strict=False)):
            display.bars_.append(
                ax.bar(k, 100.0 * np.mean(values == 0), width=0.85, color=colour, alpha=0.45, edgecolor=colour)
            )
        ax.set_xlim(-0.8, len(self.values) - 0.2)
        _style.tidy(ax)
        ax.set_xticks([(len(self.values) - 1) / 2], ["0"])

    def _finish(self, display, edges):
        ax, left = display.ax_, display.ax_ if display.zero_ax_ is None else display.zero_ax_
        _style.tidy(ax)
        ax.set_xlim(edges[0], edges[-1])
        ax.set_ylim(bottom=0.0)
        if left is not ax:
            ax.tick_params(labelleft=False, left=False)
            ax.spines["left"].set_visible(False)
        _style.label(left.set_ylabel, "share of rows (%)")
        _style.label(ax.set_xlabel, self.label)
        _style.title(left, f"{self.quantity.capitalize()} by data set")
        auc = self.roc_auc()
        legend_above(ax, None if auc is None else f"ROC-AUC {auc:.3f}")


def bins(values, n_bins, *, bounded=False):
    """Return the borders of common bins, and whether they are even in the logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> from skboost.inspection._uncertainty_histogram import bins
    >>> edges, logarithmic = bins(np.array([0.0, 1e-6, 1.0]), 10)
    >>> logarithmic, float(edges[0]), float(edges[-1])
    (True, 1e-06, 1.0)
    """
    if bounded:
        return np.linspace(_uncertainty_model.least_support(values), 1.0, n_bins + 1), False
    positive = values[values > 0]
    if len(positive) and positive.max() > LOG_FROM * positive.min():
        low, high = positive.min(), positive.max()
        edges = np.geomspace(low, high, n_bins + 1)
        edges[[0, -1]] = low, high  # rounding must lose no row
        return edges, True
    high = float(values.max())
    return np.linspace(0.0, high if high > 0 else 1.0, n_bins + 1), False
