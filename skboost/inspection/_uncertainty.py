"""Pictures of what a model does not know."""

import inspect

from skboost.inspection._uncertainty_band import Band
from skboost.inspection._uncertainty_histogram import Histogram
from skboost.inspection._uncertainty_map import Map
from skboost.inspection._uncertainty_members import Members
from skboost.inspection._uncertainty_model import check_uncertain
from skboost.inspection._uncertainty_retention import Retention

KINDS = {"band": Band, "map": Map, "histogram": Histogram, "retention": Retention, "members": Members}


class UncertaintyDisplay:
    """Pictures of the uncertainty of a model, of five kinds.

    "band"
        The prediction along one feature. Regression: a line with a band of one standard deviation of knowledge inside
        one of total uncertainty. Classification: the probability with the band that holds 80 % of the members, where
        the members can be asked, and the knowledge below. A categorical feature has a point for each category.
    "map"
        A quantity over two numeric features, the rows on top of it.
    "histogram"
        A quantity on two or more sets of rows; with two, how well it tells them apart (ROC-AUC). Values that spread
        over more than a factor of 30 have a logarithmic axis, and zeros then a place of their own.
    "retention"
        The error that is left when the most uncertain rows are rejected, between random rejection and an oracle that
        knows the errors, with the areas and the prediction rejection ratio of `skboost.metrics`.
    "members"
        Predictions of the members of a virtual ensemble for a few rows, along the iterations.

    Regression is drawn in units of the target, or their squares for a variance; classification in nats.

    Build it with `from_estimator` or `from_uncertainty`; the constructor is for contents that these have made.

    Parameters
    ----------
    content : object
        What is drawn, as the attribute `content` of another display.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        Figure of the picture.
    ax_ : matplotlib.axes.Axes
        Main axes.
    knowledge_ax_ : matplotlib.axes.Axes or None
        Axes of the knowledge below, only for kind="band" and a classifier.
    zero_ax_ : matplotlib.axes.Axes or None
        Axes of the zeros, only for kind="histogram" with a logarithmic axis.
    lines_ : list of matplotlib artists
        Lines: means, curves, outlines of histograms, traces.
    bands_ : list of matplotlib artists
        Filled areas; for a regressor with kind="band" total, where it exists, and then knowledge.
    bars_ : list of matplotlib.container.BarContainer
        Bars of zeros or of knowledge by category.
    points_ : list of matplotlib artists
        Rows, true values, points with whiskers.
    image_ : matplotlib.collections.QuadMesh or None
        Heat map, only for kind="map".
    colorbar_ : matplotlib.colorbar.Colorbar or None
        Its colours, only for kind="map".

    See Also
    --------
    ShapeDisplay : A term of an additive model with its deviation over the bags.
    skboost.metrics.prediction_rejection_ratio : The number below the picture of retention.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skboost import SGLBRegressor
    >>> from skboost.inspection import UncertaintyDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = SGLBRegressor(loss="gaussian", n_estimators=40, random_state=0).fit(X, y)
    >>> display = UncertaintyDisplay.from_estimator(model, X, kind="band", features="bmi", y=y)
    >>> display.ax_.get_xlabel(), len(display.bands_)
    ('bmi   (other features at their median)', 2)
    """

    def __init__(self, content):
        self.content = content

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        kind="band",
        features=None,
        y=None,
        quantity=None,
        class_label=None,
        fixed=None,
        grid=None,
        error=None,
        sample_weight=None,
        n_members=None,
        ax=None,
    ):
        """Draw the uncertainty of a fitted model.

        An argument that the kind has no use for must be None.

        Parameters
        ----------
        estimator : estimator
            Fitted model whose ``predict_uncertainty`` returns an `Uncertainty`.
        X : array-like or frame of shape (n_samples, n_features), or dict of such
            Rows. "band" and "map": those that show where the data are, usually the training rows; range and medians
            come from them. "histogram": a dict of two or more named sets, the one in the domain of the training first.
            "retention": rows with known targets, not those of the training. "members": at most 12 rows.
        kind : {"band", "map", "histogram", "retention", "members"}, default="band"
            Kind of picture.
        features : int, str or sequence of these, default=None
            One feature for "band", two for "map", by name or position. None: all, if they are as many as that.
        y : array-like of shape (n_samples,), default=None
            Targets of the rows. Needed by "retention"; shown by "band", "map" (classes only) and "members". The name of
            a pandas series names the axis.
        quantity : {"knowledge", "data", "total", "support", "mean"}, default=None
            What to draw with "map" and "histogram" (None: "knowledge") and to reject by with "retention" (None:
            "total", or "knowledge" where it is None). "mean" is for "map" only.
        class_label : object, default=None
            Class whose probability is drawn with "band", "members", and "map" of the "mean". None: the second of two
            classes; of more classes all with "band".
        fixed : dict of int or str to object, default=None
            Values of features that do not vary, with "band" and "map". All others stay at their median, or their most
            frequent category.
        grid : int, array-like or pair of array-likes, default=None
            Number of points along each numeric feature (None: 400 for "band", 100 for "map"), from 5 % of the range
            below the rows to 5 % above; or the values themselves, for "map" those of both features.
        error : {"squared_error", "zero_one", "log_loss"}, default=None
            Error of a row with "retention". None: "squared_error" for regressors and "zero_one", whether the most
            probable class is wrong, for classifiers.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows with "retention".
        n_members : int, default=None
            Members to ask, where ``predict_uncertainty`` takes their number. None: as many as it takes by default; for
            "members" half the iterations, at most 500, or the ends of all complete cycles of a cyclical schedule.
        ax : matplotlib.axes.Axes or None, default=None
            Axes whose place the picture takes. None makes a new figure.

        Returns
        -------
        UncertaintyDisplay
            The picture.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        TypeError
            If the estimator has no ``predict_uncertainty``.
        ValueError
            If the kind, the quantity, a feature or a class does not exist, an argument is missing or does not go with
            the kind, or the estimator is not fitted.
        """
        content = content_class(kind)
        check_uncertain(estimator)
        options = {
            "features": features, "y": y, "quantity": quantity, "class_label": class_label, "fixed": fixed,
            "grid": grid, "error": error, "sample_weight": sample_weight, "n_members": n_members,
        }  # fmt: skip
        options = wanted(content.from_estimator, kind, options)
        return cls(content.from_estimator(estimator, X, **options)).plot(ax=ax)

    @classmethod
    def from_uncertainty(
        cls,
        uncertainty,
        *,
        kind="histogram",
        y=None,
        quantity=None,
        error=None,
        classes=None,
        sample_weight=None,
        ax=None,
    ):
        """Draw uncertainties that have been predicted already.

        An argument that the kind has no use for must be None.

        Parameters
        ----------
        uncertainty : Uncertainty, or dict of str to Uncertainty
            One record for "retention"; two or more with their names for "histogram".
        kind : {"histogram", "retention"}, default="histogram"
            Kind of picture; the others ask the model and need `from_estimator`.
        y : array-like of shape (n_samples,), default=None
            Targets of the rows, needed by "retention".
        quantity : {"knowledge", "data", "total", "support"}, default=None
            As for `from_estimator`.
        error : {"squared_error", "zero_one", "log_loss"}, default=None
            As for `from_estimator`.
        classes : array-like of shape (n_classes,), default=None
            Labels of the columns of the probabilities, ``estimator.classes_``. Needed by "retention" for a classifier.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows with "retention".
        ax : matplotlib.axes.Axes or None, default=None
            Axes whose place the picture takes. None makes a new figure.

        Returns
        -------
        UncertaintyDisplay
            The picture.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If the kind or the quantity does not exist, or an argument is missing or does not go with the kind.
        """
        content = content_class(kind)
        if not hasattr(content, "from_uncertainty"):
            raise ValueError(f"kind={kind!r} has to ask the model: use from_estimator.")
        options = {"y": y, "quantity": quantity, "error": error, "classes": classes, "sample_weight": sample_weight}
        options = wanted(content.from_uncertainty, kind, options)
        return cls(content.from_uncertainty(uncertainty, **options)).plot(ax=ax)

    def plot(self, ax=None):
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes whose place the picture takes. None makes a new figure.

        Returns
        -------
        UncertaintyDisplay
            The object itself.
        """
        self.lines_, self.bands_, self.bars_, self.points_ = [], [], [], []
        self.knowledge_ax_ = self.zero_ax_ = self.image_ = self.colorbar_ = None
        self.content.draw(self, ax)
        return self


def content_class(kind):
    """Return the class of the contents of a kind."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind must be one of {tuple(KINDS)}, got {kind!r}.")
    return KINDS[kind]


def wanted(function, kind, options):
    """Return the options that a function takes, or raise ValueError if one that it does not take was given."""
    known = inspect.signature(function).parameters
    for name, value in options.items():
        if value is not None and name not in known:
            raise ValueError(f"{name} must be None for kind={kind!r}, which has no use for it.")
    return {name: value for name, value in options.items() if name in known}
