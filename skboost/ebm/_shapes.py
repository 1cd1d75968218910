"""What a term looks like: its axes with their cells, and a value for every cell.

Cells of an axis in this view: the value cells in ascending order or one per level, then the cell of other values, and
the cell of missing values last. (Stored tensors have the cell of missing values first and that of other values last.)
"""

import itertools
import numbers
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class Axis:
    """One feature of a term, cut into cells.

    First come the value cells: of a numeric axis the intervals between its edges, where a value equal to an edge lies
    above it; of a categorical axis one cell for every level (rare levels may share one in a pair). The last cell but
    one is that of categories never seen in training, empty on a numeric axis; the last one that of missing values.

    Parameters
    ----------
    feature : int
        Column number.
    name : str
        Name of the column.
    kind : {"numeric", "categorical"}
        Kind of the feature.
    edges : ndarray of shape (n_edges,)
        Ascending thresholds of a numeric axis; empty for a categorical one.
    levels : tuple of tuple
        Levels in each value cell of a categorical axis, as numbers or str; empty for a numeric one.
    lower, upper : float
        Smallest and largest finite value seen in training; NaN for a categorical axis or if there was none.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import EBMRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = EBMRegressor(interactions=0, max_rounds=10, outer_bags=2, max_bins=6).fit(X, y)
    >>> axis = model.shape("bmi").axes[0]
    >>> axis.kind, axis.n_cells, len(axis.edges)
    ('numeric', 6, 3)
    >>> axis.labels[-1]
    'missing'
    """

    feature: int
    name: str
    kind: str
    edges: np.ndarray
    levels: tuple
    lower: float
    upper: float

    def __repr__(self):
        return f"{type(self).__name__}(name={self.name!r}, kind={self.kind!r}, n_cells={self.n_cells})"

    @property
    def n_cells(self):
        """Number of cells.

        Returns
        -------
        int
            The value cells and two more.
        """
        return (len(self.edges) + 1 if self.kind == "numeric" else len(self.levels)) + 2

    @property
    def labels(self):
        """Texts for the cells.

        Returns
        -------
        tuple of str
            One per cell: intervals or levels, "other" and "missing".
        """
        if self.kind == "categorical":
            values = [", ".join(map(str, cell)) for cell in self.levels]
        elif len(self.edges):
            edges = [f"{edge:.6g}" for edge in self.edges]
            inner = [f"[{low}, {high})" for low, high in itertools.pairwise(edges)]
            values = [f"< {edges[0]}", *inner, f">= {edges[-1]}"]
        else:
            values = ["all values"]
        return (*values, "other", "missing")

    def cell(self, x):
        """Return the cell of a value.

        Parameters
        ----------
        x : scalar or array-like
            Values of the feature; NaN or None is missing.

        Returns
        -------
        int or ndarray of int
            Positions of the cells, of the shape of `x`.
        """
        cells = self._numeric_cells(x) if self.kind == "numeric" else self._categorical_cells(x)
        return int(cells) if cells.ndim == 0 else cells

    def _numeric_cells(self, x):
        values = np.asarray(x)
        if values.dtype == object:
            values = np.where(np.equal(values, None), np.nan, values)
        values = values.astype(np.float64)
        return np.where(np.isnan(values), self.n_cells - 1, np.searchsorted(self.edges, values, side="right"))

    def _categorical_cells(self, x):
        position = {level: cell for cell, levels in enumerate(self.levels) for level in levels}
        values = np.asarray(x, dtype=object)
        cells = [self._level_cell(value, position) for value in values.ravel().tolist()]
        return np.array(cells, dtype=np.intp).reshape(values.shape)

    def _level_cell(self, value, position):
        if isinstance(value, (numbers.Real, np.bool_)):
            value = float(value)
        if value is None or value != value or type(value).__name__ == "NAType":
            return self.n_cells - 1
        return position.get(value if isinstance(value, float) else str(value), self.n_cells - 2)


@dataclass(frozen=True, eq=False, repr=False)
class TermShape:
    """Shape function of one term: a value for every cell of its axes.

    Values are contributions to the raw score, centred: their weighted mean is zero. A shape is a copy, which later
    edits of the model do not change.

    Parameters
    ----------
    features : tuple of int
        Columns of the term, one or two.
    names : tuple of str
        Their names.
    axes : tuple of Axis
        One axis per feature.
    values : ndarray of shape (n_cells,) or (n_cells_0, n_cells_1), with a last axis (n_classes,) for several classes
        Contribution of each cell to the raw score. Cells in the order of the axes, the cell of missing values last.
    deviations : ndarray of the shape of `values`
        Standard deviation over the outer bags: spread between models of resampled rows, not a confidence interval.
        Standard errors for a model fitted with ``boulevard=True``.
    weights : ndarray of shape (n_cells,) or (n_cells_0, n_cells_1)
        Total sample weight of the training rows in each cell.
    classes : ndarray of shape (n_classes,) or None, default=None
        Class labels of the last axis of `values`; None for regression and two classes.
    interval : ndarray of shape (2, \\*n_cells) or None, default=None
        Lower and upper ends of the pointwise 95 % confidence interval of each cell; None unless the model was fitted
        with ``boulevard=True`` and the term has not been edited since.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import EBMRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = EBMRegressor(interactions=0, max_rounds=10, outer_bags=2, random_state=0).fit(X, y)
    >>> shape = model.shape_functions()[2]
    >>> shape.name, shape.values.shape == shape.weights.shape
    ('bmi', True)
    >>> bool(shape.value(0.1) > shape.value(-0.05))
    True
    """

    features: tuple
    names: tuple
    axes: tuple
    values: np.ndarray
    deviations: np.ndarray
    weights: np.ndarray
    classes: np.ndarray | None = None
    interval: np.ndarray | None = None

    def __repr__(self):
        return f"{type(self).__name__}(name={self.name!r}, cells={self.weights.shape})"

    @property
    def name(self):
        """Name of the term.

        Returns
        -------
        str
            Names of its features joined by " & ".
        """
        return " & ".join(self.names)

    def cell(self, *x):
        """Return the cell of values of the features.

        Parameters
        ----------
        *x : scalar or array-like
            One argument per feature of the term, of shapes that broadcast.

        Returns
        -------
        int, ndarray of int, or tuple of them
            Position on the axis, for a pair one per axis.

        Raises
        ------
        TypeError
            If the number of arguments is not that of the features.
        """
        if len(x) != len(self.axes):
            raise TypeError(f"The term {self.name!r} has {len(self.axes)} features, got values of {len(x)}.")
        cells = tuple(axis.cell(values) for axis, values in zip(self.axes, x, strict=True))
        return cells[0] if len(cells) == 1 else cells

    def value(self, *x):
        """Return the contribution of the term to the raw score.

        Parameters
        ----------
        *x : scalar or array-like
            One argument per feature of the term, of shapes that broadcast.

        Returns
        -------
        float or ndarray
            Values of the cells, with a last axis for the classes if there are several.

        Raises
        ------
        TypeError
            If the number of arguments is not that of the features.
        """
        value = self.values[self.cell(*x)]
        return float(value) if np.ndim(value) == 0 else value


def view(tensor, n_axes):
    """Return a stored tensor with its cells in the order of the axes.

    Parameters
    ----------
    tensor : ndarray of shape (n_cells_0, ..., [n_classes])
        Stored tensor: missing first, unseen last.
    n_axes : int
        Number of leading dimensions that are axes.

    Returns
    -------
    ndarray
        Copy in the order of the view.
    """
    for axis in range(n_axes):
        tensor = np.roll(tensor, -1, axis)
    return tensor.copy()
