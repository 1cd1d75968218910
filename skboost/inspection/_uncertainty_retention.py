"""Error that is left when the most uncertain rows are rejected."""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from skboost import _retention
from skboost.inspection import _style, _uncertainty_model

ERRORS = {
    "squared_error": "mean squared error",
    "zero_one": "share of wrong predictions (1 - accuracy)",
    "log_loss": "log loss (nats)",
}


@dataclass(frozen=True, eq=False)
class Retention:
    """Contents of kind="retention".

    Attributes
    ----------
    errors : ndarray of shape (n_rows,)
        Error of each row.
    uncertainty : ndarray of shape (n_rows,)
        Larger where the model is less sure.
    sample_weight : array-like of shape (n_rows,) or None
        Weights of the rows.
    quantity : str
        Name of the uncertainty.
    label : str
        Name of the error with its unit.
    """

    errors: np.ndarray
    uncertainty: np.ndarray
    sample_weight: object
    quantity: str
    label: str

    @classmethod
    def from_estimator(cls, estimator, X, *, y=None, quantity=None, error=None, sample_weight=None, n_members=None):
        """Ask the model about the rows and compare with their targets."""
        keywords = _uncertainty_model.members_argument(estimator, n_members)
        classes = getattr(estimator, "classes_", None)
        check_arguments(y, quantity, error, classes is not None)
        u = estimator.predict_uncertainty(X, **keywords)
        return cls.from_uncertainty(
            u, y=y, quantity=quantity, error=error, classes=classes, sample_weight=sample_weight
        )

    @classmethod
    def from_uncertainty(cls, uncertainty, *, y=None, quantity=None, error=None, classes=None, sample_weight=None):
        """Compare a record with the targets of its rows."""
        if not hasattr(uncertainty, "knowledge"):
            raise ValueError(f"uncertainty must be one record for kind='retention', got {type(uncertainty).__name__}.")
        mean = np.asarray(uncertainty.mean, dtype=np.float64)
        is_classifier = mean.ndim == 2
        check_arguments(y, quantity, error, is_classifier)
        if is_classifier != (classes is not None):
            raise ValueError(
                "classes must hold the labels of the columns of the probabilities, estimator.classes_."
                if is_classifier
                else "classes must be None for a regressor."
            )
        if quantity is None:
            quantity = "knowledge" if uncertainty.total is None else "total"
        column = _uncertainty_model.column_of(uncertainty, quantity)
        errors = errors_of(mean, _uncertainty_model.targets(y, len(mean), classes), error)
        name = error or ("zero_one" if is_classifier else "squared_error")
        label = ERRORS[name]
        if name == "squared_error":
            label = _uncertainty_model.in_units(label, _uncertainty_model.name_of(y), squared=True)
        return cls(errors, -column if quantity == "support" else column, sample_weight, quantity, label)

    def curves(self):
        """Return (name, retention, error, area) of the model, of random rejection and of the oracle."""
        found = []
        for name, order in ((self.quantity, self.uncertainty), ("random", 0 * self.errors), ("oracle", self.errors)):
            curve = _retention.retention_curve(self.errors, order, sample_weight=self.sample_weight)
            area = _retention.retention_auc(self.errors, order, sample_weight=self.sample_weight)
            found.append((name, *curve, area))
        return found

    def rejection_ratio(self):
        """Return the prediction rejection ratio, NaN where it is not defined."""
        with warnings.catch_warnings():
            # The picture then says so.
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            return _retention.prediction_rejection_ratio(
                self.errors, self.uncertainty, sample_weight=self.sample_weight
            )

    def draw(self, display, ax):
        """Draw into new axes or those given."""
        curves, ratio = self.curves(), self.rejection_ratio()
        display.figure_, display.ax_ = _style.figure_and_axes(ax, (6.0, 4.2), "UncertaintyDisplay")
        ax = display.ax_
        styles = [
            {"color": _style.BLUE, "linewidth": 1.9, "zorder": 4},
            {"color": _style.GREY, "linewidth": 1.3, "linestyle": "--"},
            {"color": _style.ORANGE, "linewidth": 1.5, "linestyle": (0, (5, 1.5, 1, 1.5)), "zorder": 3},
        ]
        names = {"random": "random order", "oracle": "order of the true errors"}
        for (name, retention, error, area), style in zip(curves, styles, strict=True):
            label = f"{names.get(name, f'by {name}')}, area {short(area)}"
            display.lines_ += ax.plot(100.0 * retention, error, label=label, **style)
        _style.tidy(ax)
        ax.set_xlim(0.0, 100.0)
        ax.set_ylim(bottom=0.0)
        _style.label(ax.set_xlabel, "rows kept (%), the surest first")
        _style.label(ax.set_ylabel, self.label + "\nrejected rows count as 0")
        words = "not defined: all errors are equal" if np.isnan(ratio) else f"{ratio:.3f}"
        _style.title(ax, "Error after rejecting the most uncertain rows")
        legend = ax.legend(
            fontsize=8, frameon=False, loc="upper left", title=f"prediction rejection ratio {words}", title_fontsize=8,
            alignment="left",
        )  # fmt: skip
        legend.get_title().set_color(_style.INK)


def short(value):
    """Return a number with three digits, without an exponent if it is large."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def check_arguments(y, quantity, error, is_classifier):
    """Raise ValueError for what does not go with a retention curve."""
    if y is None:
        raise ValueError("y must be given for kind='retention': the targets of the rows, to know the errors.")
    if quantity is not None:
        _uncertainty_model.check_quantity(quantity)
    allowed = ("zero_one", "log_loss") if is_classifier else ("squared_error",)
    if error is not None and error not in allowed:
        who = "a classifier" if is_classifier else "a regressor"
        raise ValueError(f"error must be one of {allowed} for {who}, got {error!r}.")


def errors_of(mean, y, error):
    """Return the error of each row; `y` holds positions of classes where `mean` holds probabilities."""
    if mean.ndim == 1:
        return (mean - y) ** 2
    if error == "log_loss":
        # As scikit-learn does: a probability of 0 costs much, but not everything.
        own = mean[np.arange(len(y)), y] / mean.sum(axis=1)
        return -np.log(np.clip(own, np.finfo(np.float64).eps, 1.0))
    return (mean.argmax(axis=1) != y).astype(np.float64)
