"""Models read from texts of LightGBM as linear models over the leaves of their trees."""

import numpy as np
from scipy.special import softmax

from skboost.gaussian_process._leaf_models import LOSSES, LeafModel

OBJECTIVES = ("regression", "binary", "multiclass")
# Parameters of LightGBM that change what a row of a class counts for, and their values without effect.
CLASS_WEIGHTS = {"scale_pos_weight": ("1", "1.0"), "is_unbalance": ("0", "false")}


class TextLeaves(LeafModel):
    """Leaves of the trees of one raw score.

    Trees of one leaf are constants, and so is the mean of the first tree, into which LightGBM puts the score it starts
    from. Texts that skboost wrote have their base score in a tree of its own.

    Parameters
    ----------
    estimator : LoadedRegressor or LoadedClassifier
        Model that `check_text` has let pass.
    n_trees : int or None
        Only so many trees, the last ones; None takes all.
    output : int
        Which raw score.
    """

    def __init__(self, estimator, n_trees, output):
        parsed, chain = estimator._parsed, estimator._chain
        self.estimator, self.output = estimator, output
        trees = parsed.trees[output :: parsed.n_outputs]
        if chain is not None:
            base, trees = trees[-1].leaf_value[0], trees[:-1]
            self.noise_variance = chain.noise_variance
        else:
            base = sum(tree.leaf_value[0] for tree in trees if len(tree.leaf_value) == 1)
            trees = [tree for tree in trees if len(tree.leaf_value) > 1]
            base += _mean_value(trees[0]) if trees else 0.0
        self.sigmoid = parsed.objective.sigmoid
        self.base = np.array([self.sigmoid * base])
        if n_trees is not None and n_trees > len(trees):
            raise ValueError(f"n_trees={n_trees} is more than the {len(trees)} trees of estimator.")
        self.trees = trees if n_trees is None else trees[len(trees) - n_trees :]
        self.sizes = np.array([len(tree.leaf_value) for tree in self.trees], dtype=np.int64)
        self.starts = np.cumsum(np.append(0, self.sizes))[:-1].astype(np.int32)
        self.weights = self._weights("leaf_count" if chain is None else "leaf_weight")
        self.n_splits = self._splits(lambda tree: np.ones(len(tree.feature), dtype=bool))
        if chain is None:
            self.is_ordered = self._splits(lambda tree: tree.decision & 1 == 1) == 0
        else:
            self.is_ordered = np.array([levels is None for levels in chain.category_maps])

    def _weights(self, name):
        """Return the training weight in each leaf, None where the text does not say."""
        weights = [getattr(tree, name) for tree in self.trees]
        return np.concatenate([np.empty(0), *weights]) if all(part.any() for part in weights) else None

    def _splits(self, chosen):
        """Return how many of the chosen nodes of each tree split each column."""
        features = [tree.feature[chosen(tree)] for tree in self.trees]
        features = np.concatenate([np.empty(0, dtype=np.int64), *features])
        return np.bincount(features, minlength=self.estimator.n_features_in_)

    def raw(self, X):
        return self.sigmoid * self.estimator._scores(X)[:, [self.output]]

    def columns(self, X):
        rows = self.estimator._rows(X)
        out = np.empty((len(rows), len(self.trees)), dtype=np.int32)
        for t, tree in enumerate(self.trees):
            out[:, t] = self.starts[t] + tree.leaves(rows)
        return out

    def matrix(self, X):
        return self.estimator._rows(X)

    def curvatures(self, X, weight):
        if self.one_of_several:
            p = softmax(self.estimator._scores(X), axis=1)[:, self.output]
            return [weight * p * (1.0 - p)]
        return super().curvatures(X, weight)

    @property
    def one_of_several(self):
        return self.estimator._parsed.n_outputs > 1


class TextClasses(LeafModel):
    """A model with trees of its own for each of several classes.

    Attributes
    ----------
    parts : list of TextLeaves
        One for each class.
    """

    def __init__(self, estimator, n_trees):
        self.estimator = estimator
        self.parts = [TextLeaves(estimator, n_trees, output) for output in range(estimator._parsed.n_outputs)]
        self.base = np.concatenate([part.base for part in self.parts])

    def raw(self, X):
        return self.estimator._scores(X)


def text_model(estimator, n_trees):
    """Return the LeafModel of a model that was read from a text, as `leaf_model` does."""
    return TextClasses(estimator, n_trees) if estimator._parsed.n_outputs > 1 else TextLeaves(estimator, n_trees, 0)


def check_text(estimator):
    """Raise ValueError, naming the reason, for a text that is no sum of trees with a known curvature of the loss."""
    parsed, chain, name = estimator._parsed, estimator._chain, type(estimator).__name__
    if chain is not None and chain.predicts == "terms":
        raise ValueError(
            f"estimator={name} is an explainable boosting machine, whose cells are not in its text; give the machine."
        )
    if parsed.average_output:
        raise ValueError(f"estimator={name} averages its trees, a random forest; leaf posteriors are of sums.")
    if any(tree.linear is not None for tree in parsed.trees):
        raise ValueError(f"estimator={name} has linear trees; leaf posteriors are of constant leaves.")
    if chain is not None:
        if chain.loss.name == "squared_error" and parsed.n_outputs > 1:
            raise ValueError(f"estimator={name} has several targets; leaf posteriors are of one.")
        if chain.loss.uncertainty == "labels":
            raise ValueError(f"estimator={name} has several labels; leaf posteriors are of one.")
        if chain.loss.name not in LOSSES:
            raise ValueError(
                f"estimator={name} has loss={chain.loss.name!r}, but leaf posteriors are known for "
                f"loss={LOSSES[0]!r} and loss={LOSSES[1]!r} only."
            )
        if chain.class_weighted:
            raise ValueError(f"estimator={name} was fitted with class_weight, which changes what a row counts for.")
        return
    objective = f"{parsed.objective.name} sqrt" if parsed.objective.square else parsed.objective.name
    if objective not in OBJECTIVES:
        raise ValueError(
            f"estimator={name} has objective={objective!r}, but leaf posteriors are known for "
            f"{', '.join(map(repr, OBJECTIVES))} only."
        )
    for key, neutral in CLASS_WEIGHTS.items():
        if estimator.parameters_.get(key, neutral[0]) not in neutral:
            raise ValueError(
                f"estimator={name} was trained with {key}={estimator.parameters_[key][:40]}, which changes what a row "
                "counts for."
            )


def _mean_value(tree):
    """Return the mean leaf of a tree in units of curvature, where the first step of boosting has mean 0."""
    for weights in (tree.leaf_weight, tree.leaf_count):
        if weights.sum() > 0 and (weights >= 0).all():
            return float(weights @ tree.leaf_value / weights.sum())
    return float(tree.leaf_value.mean())
