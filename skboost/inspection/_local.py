"""The picture of one prediction of an additive model."""

from textwrap import wrap

import numpy as np

from skboost.inspection import _style
from skboost.inspection._estimator import check_additive, class_labels, score_name
from skboost.inspection._importance import check_max_terms, name_bars


class LocalExplanationDisplay:
    """Signed contributions of the terms to the prediction for one row.

    The intercept and the bars add up to the score from which the prediction is made: an additive model is its own
    explanation. Terms beyond the first are summed into one bar.

    Build it with `from_estimator`; the constructor is for contributions at hand.

    Parameters
    ----------
    contributions : array-like of shape (n_terms,)
        What each term adds to the score.
    labels : sequence of str of length n_terms
        Label of each term, with the values of its features.
    intercept : float
        Score without any term.
    header : str, default=""
        Title: prediction and truth. A line below it gives the intercept and the sum of the terms.
    score_name : str, default="score"
        Name of the horizontal axis, with its unit.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the picture.
    ax_ : matplotlib.axes.Axes
        Axes of the bars.
    bars_ : matplotlib.container.BarContainer
        Bars from the top: the largest terms by absolute contribution, then the sum of all others if there are any.
    order_ : ndarray of shape (n_shown,)
        Index of the term of each of the first bars.

    See Also
    --------
    TermImportanceDisplay : The same over all rows.

    Examples
    --------
    >>> from skboost.inspection import LocalExplanationDisplay
    >>> display = LocalExplanationDisplay([0.5, -1.0], ["age = 50", "bmi = 21"], 2.0, header="prediction 1.5")
    >>> display.plot().order_
    array([1, 0])
    """

    def __init__(self, contributions, labels, intercept, *, header="", score_name="score"):
        self.contributions = contributions
        self.labels = labels
        self.intercept = intercept
        self.header = header
        self.score_name = score_name

    @classmethod
    def from_estimator(cls, estimator, X, y=None, *, class_label=None, init_score=None, max_terms=12, ax=None):
        """Explain the prediction of a fitted model for one row.

        Parameters
        ----------
        estimator : EBMRegressor or EBMClassifier
            Fitted model.
        X : array-like or frame of shape (1, n_features)
            The row: ``X.iloc[[i]]`` of a frame, ``X[[i]]`` of an array.
        y : object, default=None
            True target of the row, shown in the title: a number, a label, or a sequence of one.
        class_label : object, default=None
            Class whose score is explained, with three or more classes. None chooses the predicted class.
        init_score : array-like or estimator, default=None
            Initial score of the row, as ``predict`` takes it. It is shown as part of the intercept.
        max_terms : int, default=12
            Largest number of terms with a bar of their own.
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw into. None makes a new figure.

        Returns
        -------
        LocalExplanationDisplay
            The picture.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If ``X`` does not hold exactly one row.
        """
        check_additive(estimator)
        if len(np.shape(X)) != 2 or np.shape(X)[0] != 1:
            raise ValueError(f"X must be one row of shape (1, n_features), got shape {np.shape(X)}: pass X.iloc[[i]].")
        row = Row(estimator, X, y, class_label, init_score)
        display = cls(row.contributions, row.labels(), row.intercept, header=row.header(), score_name=row.score_name)
        return display.plot(ax=ax, max_terms=max_terms)

    def plot(self, ax=None, *, max_terms=12):
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw into. None makes a new figure.
        max_terms : int, default=12
            Largest number of terms with a bar of their own.

        Returns
        -------
        LocalExplanationDisplay
            The object itself.
        """
        values = np.asarray(self.contributions, dtype=np.float64)
        if values.ndim != 1 or len(values) != len(self.labels):
            raise ValueError(f"contributions must have one number per label, got {values.shape}, {len(self.labels)}.")
        max_terms = check_max_terms(max_terms)
        self.order_ = np.argsort(-np.abs(values), kind="stable")[:max_terms]
        rest = np.setdiff1d(np.arange(len(values)), self.order_)
        heights, words = list(values[self.order_]), [self.labels[t] for t in self.order_]
        colours = [_style.ORANGE if value > 0 else _style.BLUE for value in heights]
        if len(rest):
            heights.append(values[rest].sum())
            words.append(f"{len(rest)} other term" + "s" * (len(rest) > 1))
            colours.append(_style.LIGHT)
        self.figure_, self.ax_ = _style.figure_and_axes(ax, (7.0, 1.5 + 0.28 * len(heights)), "LocalExplanationDisplay")
        self.bars_ = self.ax_.barh(np.arange(len(heights)), heights, height=0.68, color=colours, alpha=0.9)
        self.ax_.bar_label(self.bars_, [_signed(value) for value in heights], padding=3, fontsize=8, color=_style.INK)
        name_bars(self.ax_, words)
        self.ax_.axvline(0.0, color=_style.GREY, linewidth=0.8)
        _style.tidy(self.ax_, grid="x")
        self.ax_.tick_params(axis="y", left=False)
        self.ax_.spines["left"].set_visible(False)
        self.ax_.margins(x=0.2)
        _style.label(self.ax_.set_xlabel, self.score_name)
        self._write_header(values.sum())
        return self

    def _write_header(self, total):
        intercept = float(self.intercept)
        # The labels of the bars will take a part of the width.
        lines = wrap(self.header, int(0.9 * _style.title_room(self.ax_)))
        self.ax_.set_title("\n".join(lines), loc="left", fontsize=10.5, color=_style.INK, fontweight="bold", pad=20)
        self.ax_.annotate(
            f"score {_style.number(intercept + total)} = intercept {_style.number(intercept)} "
            f"{'-' if total < 0 else '+'} terms {_style.number(abs(total))}",
            (0.0, 1.0),
            xycoords="axes fraction",
            xytext=(0, 5),
            textcoords="offset points",
            va="bottom",
            fontsize=8.5,
            color=_style.GREY,
        )


class Row:
    """One row of features and what a model makes of it.

    Parameters
    ----------
    estimator : EBMRegressor or EBMClassifier
        Fitted model.
    X : array-like or frame of shape (1, n_features)
        The row.
    y : object
        True target, None if unknown.
    class_label : object
        Class to explain, None for the predicted one.
    init_score : array-like or estimator or None
        Initial score of the row.
    """

    def __init__(self, estimator, X, y, class_label, init_score):
        self.estimator, self.X, self.y = estimator, X, y
        self.classes = class_labels(estimator)
        given = {} if init_score is None else {"init_score": init_score}
        self.prediction = estimator.predict(X, **given)[0]
        self.score_name = score_name(estimator)
        terms = np.asarray(estimator.eval_terms(X), dtype=np.float64)[0]
        intercept = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
        self.explained = None if self.classes is None else self.classes[-1]
        k = 0
        if terms.ndim == 2:
            self.explained = self.prediction if class_label is None else class_label
            if self.explained not in self.classes:
                raise ValueError(f"class_label must be one of {self.classes}, got {class_label!r}.")
            k = self.classes.index(self.explained)
            terms = terms[:, k]
            self.score_name = f"score of {_style.shorten(self.explained)} (log-probability up to a constant)"
        elif class_label is not None:
            raise ValueError("class_label must be None for a model with one score per row.")
        self.contributions, self.intercept = terms, float(intercept[k])
        self.probability = None
        if self.classes is not None:
            self.probability = estimator.predict_proba(X, **given)[0, self.classes.index(self.explained)]
            if init_score is not None:
                score = np.asarray(estimator.decision_function(X, **given), dtype=np.float64)[0]
                self.intercept = float(np.atleast_1d(score)[k] - terms.sum())
        elif init_score is not None:
            score = np.log(self.prediction) if getattr(estimator, "link_", "identity") == "log" else self.prediction
            self.intercept = float(score - terms.sum())

    def labels(self):
        """Return the label of each term: its name and the values of its features."""
        names = getattr(self.estimator, "feature_names_in_", None)
        words = []
        for term, features in enumerate(self.estimator.term_features_):
            values = [self._value(feature) for feature in features]
            if len(features) == 1:
                name = self.estimator.term_names_[term]
                words.append(f"{_style.shorten(name, 30)} = {values[0]}")
            else:
                pair = [names[f] for f in features] if names is not None else self._names(term, features)
                words.append(f"{_style.shorten_pair(pair, 30)} = {values[0]} & {values[1]}")
        return words

    def _names(self, term, features):
        parts = str(self.estimator.term_names_[term]).split(" & ")
        return parts if len(parts) == len(features) else [f"feature {f}" for f in features]

    def _value(self, feature):
        X = np.asarray(self.X, dtype=object) if isinstance(self.X, (list, tuple)) else self.X
        column = X.iloc[:, feature] if hasattr(X, "iloc") else X[:, feature]
        return value_text(np.asarray(column, dtype=object).ravel()[0])

    def header(self):
        """Return the prediction, and the truth if it is known."""
        if self.classes is None:
            text = f"Predicted {_style.number(self.prediction)}"
            truth = None if self.y is None else value_text(single(self.y))
        else:
            explained = _style.shorten(self.explained)
            of = "" if self.prediction == self.explained else f" of {explained}"
            text = f"Predicted {_style.shorten(self.prediction)}, probability{of} {self.probability:.3g}"
            truth = None if self.y is None else _style.shorten(single(self.y))
        return text if truth is None else f"{text}, truth {truth}"


def single(y):
    """Return the only element of a sequence, or the object itself."""
    if isinstance(y, str) or np.ndim(y) == 0:
        return y
    values = np.asarray(y, dtype=object).ravel()
    if len(values) != 1:
        raise ValueError(f"y must be the target of the one row in X, got {len(values)} values.")
    return values[0]


def value_text(value):
    """Return a value of a feature as text.

    Examples
    --------
    >>> from skboost.inspection._local import value_text
    >>> value_text(1.23456), value_text(None), value_text("north"), value_text(True)
    ('1.235', 'missing', 'north', 'True')
    """
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return "missing"
    if isinstance(value, (bool, np.bool_, str)):
        return _style.shorten(value, 16)
    if isinstance(value, (int, float, np.number)):
        return _style.number(value)
    return _style.shorten(value, 16)


def _signed(value):
    text = _style.number(value, 3)
    return text if value <= 0 or text == "0" else f"+{text}"
