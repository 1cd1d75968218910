"""Predictions of the members of a virtual ensemble for a few rows, along the iterations."""

from dataclasses import dataclass

import numpy as np

from skboost.inspection import _style, _uncertainty_model

MAX_ROWS = 12
MAX_MEMBERS = 500


@dataclass(frozen=True, eq=False)
class Members:
    """Contents of kind="members".

    Attributes
    ----------
    iterations : ndarray of shape (n_members,)
        Iterations of each member.
    predictions : ndarray of shape (n_members, n_rows)
        Predictions, or probabilities of a class.
    names : list of str
        Names of the rows.
    y : ndarray of shape (n_rows,) or None
        Targets of the rows of a regressor.
    label : str
        Name of the predictions with their unit.
    """

    iterations: np.ndarray
    predictions: np.ndarray
    names: list
    y: np.ndarray | None
    label: str

    @classmethod
    def from_estimator(cls, estimator, X, *, y=None, class_label=None, n_members=None):
        """Ask the members about the rows."""
        if not _uncertainty_model.has_members(estimator):
            raise ValueError(
                f"kind='members' needs an estimator with predict_virtual_ensembles; {type(estimator).__name__} has no "
                "such method: its members are no states of one chain."
            )
        shape = X.shape if hasattr(X, "shape") else np.shape(X)
        n_rows = shape[0] if len(shape) == 2 else 0
        if not 1 <= n_rows <= MAX_ROWS:
            raise ValueError(f"X must have 1 to {MAX_ROWS} rows for kind='members', got {n_rows}: pass X[:5], say.")
        classes = getattr(estimator, "classes_", None)
        shown = _uncertainty_model.chosen_class(classes, class_label)
        targets = _uncertainty_model.targets(y, n_rows, classes)
        cyclical = getattr(estimator, "schedule", "constant") == "cyclical"  # whose default is all there are
        if n_members is None and not cyclical and hasattr(estimator, "n_iter_"):
            n_members = int(np.clip(estimator.n_iter_ // 2, 1, MAX_MEMBERS))
        keywords = _uncertainty_model.members_argument(estimator, n_members)
        iterations = estimator.predict_uncertainty(X, **keywords).member_iterations
        if iterations is None:
            raise ValueError("kind='members' needs members that are states of one chain, not separate models.")
        predictions = np.asarray(estimator.predict_virtual_ensembles(X, **keywords))
        names = row_names(X, n_rows)
        target = _uncertainty_model.name_of(y)
        if classes is None:
            label = _uncertainty_model.in_units("prediction", target)
        else:
            label = f"probability of {_style.shorten(classes[shown])}"
            predictions = predictions[:, :, shown]
            if targets is not None:
                words = _uncertainty_model.class_words(classes)
                names = [f"{name}, truth {words[k]}" for name, k in zip(names, targets, strict=True)]
                targets = None
        return cls(np.asarray(iterations), predictions, names, targets, label)

    def draw(self, display, ax):
        """Draw into new axes or those given."""
        display.figure_, display.ax_ = _style.figure_and_axes(ax, (6.6, 4.0), "UncertaintyDisplay")
        ax = display.ax_
        for k, colour in enumerate(_style.class_colours(max(len(self.names), 2))[: len(self.names)]):
            display.lines_ += ax.plot(
                self.iterations, self.predictions[:, k], color=colour, linewidth=1.3, label=self.names[k], zorder=3,
                marker="o" if len(self.iterations) <= 25 else None, markersize=3,
            )  # fmt: skip
            if self.y is not None:
                display.points_ += ax.plot(
                    [1.0], [self.y[k]], "<", color=colour, markersize=6, transform=ax.get_yaxis_transform(),
                    clip_on=False, zorder=4,
                )  # fmt: skip
        _style.tidy(ax)
        if len(self.iterations) > 1:
            ax.set_xlim(self.iterations[0], self.iterations[-1])
        if self.y is not None:
            low, high = min(self.predictions.min(), self.y.min()), max(self.predictions.max(), self.y.max())
            ax.set_ylim(_style.padded(low, high))
        _style.label(ax.set_xlabel, "iterations of the member")
        _style.label(ax.set_ylabel, self.label)
        _style.title(ax, "Members of the virtual ensemble" + ("" if self.y is None else "; ◂ true value"))
        # Beside the lines, among which there is seldom a free place, if somebody makes room there.
        beside = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)}
        style = {"loc": "best"} if display.figure_.get_layout_engine() is None else beside
        ax.legend(fontsize=8, frameon=False, handletextpad=0.6, **style)


def row_names(X, n_rows):
    """Return a name of each row: its label in the index of a frame, or its number."""
    index = X.index if hasattr(X, "iloc") else range(n_rows)
    return [f"row {_style.shorten(label)}" for label in index]
