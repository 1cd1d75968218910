"""The picture of a Gaussian process of one feature: latent function above, probability below."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost.gaussian_process import LaplaceGPClassifier
from skboost.gaussian_process._links import LINKS
from skboost.inspection import _style

# Opacities of the bands of two deviations and of one.
BANDS = ((2.0, 0.13), (1.0, 0.22))
# Height of the rows of data points below 0 and above 1, in probabilities.
OUTSIDE = 0.07


class LatentDisplay:
    """Latent function of a binary Gaussian process of one feature, and the probability it gives.

    Above, the latent mean with bands of one and two posterior deviations: they are narrow where there are data and open
    to those of the prior away from them. Below, the probability averaged over the posterior, which is what
    ``predict_proba`` returns, and the same bands seen through the link: the range of the probability itself. Between
    the two lies the difference of not knowing a probability and knowing it to be one half. Training rows are the marks
    at the edges of the lower panel.

    Build it with `from_estimator`; the constructor is for moments at hand.

    Parameters
    ----------
    x : array-like of shape (n_points,)
        Increasing values of the feature.
    mean, variance : array-like of shape (n_points,)
        Moments of the latent function there.
    link : {"probit", "logit"}, default="probit"
        From the latent value to the probability.
    x_train : array-like of shape (n_train,) or None, default=None
        Values of the training rows. None draws no rows.
    y_train : array-like of shape (n_train,) or None, default=None
        Their labels as 0 and 1; with `x_train`.
    feature_name : str, default="x"
        Name of the horizontal axis.
    class_name : str, default="1"
        Label of the class whose probability is drawn.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the picture.
    ax_ : matplotlib.axes.Axes
        Axes of the latent function.
    probability_ax_ : matplotlib.axes.Axes
        Axes of the probability.
    axes_ : list of matplotlib.axes.Axes
        Both.
    lines_ : list of matplotlib.lines.Line2D
        Latent mean and averaged probability.
    bands_ : list of matplotlib.collections.PolyCollection
        Bands of the latent function, the wider first, then those of the probability.
    points_ : list of matplotlib.lines.Line2D
        Training rows of class 0 and of class 1, empty without them.

    See Also
    --------
    skboost.LaplaceGPClassifier : The model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skboost import LaplaceGPClassifier
    >>> from skboost.inspection import LatentDisplay
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = LaplaceGPClassifier(4.0 * RBF(0.5), optimizer=None).fit(X, np.sin(4 * X[:, 0]) > 0)
    >>> display = LatentDisplay.from_estimator(model)
    >>> len(display.bands_), display.ax_.get_ylabel()
    (4, 'latent function')
    """

    def __init__(
        self, x, mean, variance, *, link="probit", x_train=None, y_train=None, feature_name="x", class_name="1"
    ):
        self.x = x
        self.mean = mean
        self.variance = variance
        self.link = link
        self.x_train = x_train
        self.y_train = y_train
        self.feature_name = feature_name
        self.class_name = class_name

    @classmethod
    def from_estimator(cls, estimator, *, n_points=400, margin=0.2, limits=None, show_data=True, ax=None):
        """Draw a fitted model.

        Parameters
        ----------
        estimator : LaplaceGPClassifier
            Fitted on one feature and two classes.
        n_points : int, default=400
            Number of values of the feature at which the model is asked.
        margin : float, default=0.2
            How far the picture reaches beyond the training rows, as a part of their range. Not used with `limits`.
        limits : tuple of float or None, default=None
            First and last value of the feature. None takes them from the training rows.
        show_data : bool, default=True
            Whether to mark the training rows.
        ax : matplotlib.axes.Axes or None, default=None
            Axes whose place the picture takes. None makes a new figure.

        Returns
        -------
        LatentDisplay
            The picture.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        TypeError
            If the estimator is none of Gaussian process classification.
        ValueError
            If the model has another number of features or classes, or the range is empty.
        """
        x_train = _training_values(estimator)
        if isinstance(n_points, (bool, np.bool_)) or not isinstance(n_points, (int, np.integer)) or n_points < 2:
            raise ValueError(f"n_points must be an integer of at least 2, got {n_points!r}.")
        low, high = _style.padded(x_train.min(), x_train.max(), margin) if limits is None else limits
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(f"the range of the feature must be finite and not empty, got {low} to {high}.")
        x = np.linspace(low, high, n_points)
        names = getattr(estimator, "feature_names_in_", None)
        display = cls(
            x,
            # What stands behind latent_mean_and_variance: these values need no check, and no frame for their name.
            *estimator._moments(x[:, None]),
            link=estimator.link,
            x_train=x_train if show_data else None,
            y_train=estimator.y_train_ if show_data else None,
            feature_name="x" if names is None else names[0],
            class_name=str(estimator.classes_[1]),
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes whose place the picture takes. None makes a new figure.

        Returns
        -------
        LatentDisplay
            The object itself.
        """
        x, mean, deviation = self._checked()
        link = LINKS[self.link]
        self.figure_, self.ax_ = _style.figure_and_axes(ax, (6.4, 5.2), "LatentDisplay")
        add = _style.divide(self.ax_, [1.0, 1.0], [1.0], (0, 0), gap=0.1)
        self.probability_ax_ = add(1, 0, sharex=self.ax_)
        self.axes_ = [self.ax_, self.probability_ax_]
        self.lines_, self.bands_, self.points_ = [], [], []
        for panel, seen, colour in ((self.ax_, None, _style.BLUE), (self.probability_ax_, link, _style.ORANGE)):
            for width, opacity in BANDS:
                ends = mean - width * deviation, mean + width * deviation
                ends = ends if seen is None else [seen.probability(end) for end in ends]
                label = f"{width:g} deviation{'s' if width > 1 else ''}"
                band = panel.fill_between(x, *ends, color=colour, alpha=opacity, linewidth=0, label=label)
                self.bands_.append(band)
            line, label = (mean, "mean") if seen is None else (seen.average(mean, deviation**2)[1], "average")
            self.lines_ += panel.plot(x, line, color=colour, linewidth=1.8, label=label, zorder=3)
        self._draw_data()
        self._finish(x)
        return self

    def _checked(self):
        x, mean, variance = (np.asarray(part, dtype=np.float64) for part in (self.x, self.mean, self.variance))
        if x.ndim != 1 or len(x) < 2 or not x.shape == mean.shape == variance.shape:
            raise ValueError(
                f"x, mean and variance must be equally long, got {x.shape}, {mean.shape} and {variance.shape}."
            )
        if not (np.isfinite([x, mean, variance]).all() and (variance >= 0).all()):
            raise ValueError("x, mean and variance must be finite and no variance negative.")
        if self.link not in LINKS:
            raise ValueError(f"link must be one of {sorted(LINKS)}, got {self.link!r}.")
        if (self.x_train is None) != (self.y_train is None):
            raise ValueError("x_train and y_train must be given together.")
        return x, mean, np.sqrt(variance)

    def _draw_data(self):
        if self.x_train is None:
            return
        x, y = np.asarray(self.x_train), np.asarray(self.y_train)
        for label, place in ((0, -OUTSIDE), (1, 1 + OUTSIDE)):
            chosen = x[y == label]
            self.points_ += self.probability_ax_.plot(
                chosen, np.full(len(chosen), place), "|", color=_style.INK, markersize=7, markeredgewidth=0.9, alpha=0.6
            )

    def _finish(self, x):
        for panel in self.axes_:
            _style.tidy(panel)
            panel.legend(fontsize=8, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 0.99), borderpad=0.2)
        self.ax_.axhline(0.0, color=_style.GREY, linewidth=0.8, zorder=1)
        self.probability_ax_.axhline(0.5, color=_style.GREY, linewidth=0.8, zorder=1)
        self.ax_.set_xlim(x[0], x[-1])
        self.ax_.tick_params(labelbottom=False)
        self.probability_ax_.set_ylim(-2 * OUTSIDE, 1 + 2 * OUTSIDE)
        self.probability_ax_.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
        _style.label(self.ax_.set_ylabel, "latent function")
        _style.label(self.probability_ax_.set_ylabel, f"probability of {_style.shorten(self.class_name)}")
        _style.name_x(self.probability_ax_, _style.shorten(self.feature_name, 40))


def _training_values(estimator):
    """Return the values of the one feature of a fitted binary Gaussian process."""
    if not isinstance(estimator, LaplaceGPClassifier):
        raise TypeError(f"estimator must be a fitted LaplaceGPClassifier, got {type(estimator).__name__}.")
    check_is_fitted(estimator)
    X = np.asarray(estimator.X_train_)
    if X.ndim != 2 or X.shape[1] != 1:
        raise ValueError(f"LatentDisplay draws models of one feature; the training rows have the shape {X.shape}.")
    if estimator.n_classes_ != 2:
        raise ValueError(
            f"LatentDisplay draws models of two classes, this one has {estimator.n_classes_}: draw its estimators_."
        )
    return X[:, 0]
