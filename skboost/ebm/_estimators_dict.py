"""Models as plain dictionaries, and back."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skboost.ebm import _dict_format as form
from skboost.ebm._cells import FORMAT_VERSION, NUMERIC, CellMapper
from skboost.ebm._dict_format import require
from skboost.ebm._estimators_state import link_of


class DictMixin:
    """Conversion of fitted models to plain dictionaries and back."""

    def to_dict(self):
        """Return the model as a dict of plain numbers, texts and lists.

        ``json.dumps`` writes it without loss: floats come back bit for bit. It holds cuts, categories and scores in
        readable form, so that other programs can predict from it.

        Returns
        -------
        dict
            "format", "version", "estimator", "params" (a callback or a RandomState instance becomes None), "classes",
            "link", "intercept", "bagged_intercept", "bag_weights", "best_iteration", "features" (a dict per column:
            "name", "kind", "cuts" or "levels", "pair_cells": the cell in pairs of each cell, "bounds", "histogram") and
            "terms" (a dict per term: "name", "features", "scores", "weights", "bagged_scores"). Cells are in the order
            of `term_scores_`: missing first, unseen last.
        """
        check_is_fitted(self)
        classes = getattr(self, "classes_", None)
        return {
            "format": form.FORMAT,
            "version": form.VERSION,
            "estimator": type(self).__name__,
            "params": {name: form.plain_param(value) for name, value in self.get_params(deep=False).items()},
            "classes": None if classes is None else form.plain_classes(classes),
            "link": self.link_,
            "max_bins": int(self._mapper.max_bins),
            "max_interaction_bins": int(self._mapper.max_interaction_bins),
            "intercept": np.atleast_1d(self.intercept_).tolist(),
            "bagged_intercept": self.bagged_intercept_.tolist(),
            "bag_weights": self.bag_weights_.tolist(),
            "best_iteration": self.best_iteration_.tolist(),
            "named_features": hasattr(self, "feature_names_in_"),
            "features": [self._feature_dict(feature, name) for feature, name in enumerate(self._feature_names())],
            "terms": [
                {
                    "name": name,
                    "features": list(features),
                    "scores": scores.tolist(),
                    "weights": weights.tolist(),
                    "bagged_scores": bagged.tolist(),
                }
                for name, features, scores, weights, bagged in zip(
                    self.term_names_,
                    self.term_features_,
                    self.term_scores_,
                    self.bin_weights_,
                    self.bagged_scores_,
                    strict=True,
                )
            ],
        }

    def _feature_dict(self, feature, name):
        levels = self._category_maps[feature]
        described = {"name": name, "kind": self.feature_types_in_[feature]}
        if levels is None:
            described["cuts"] = self._mapper.cuts(feature).tolist()
        else:
            described["levels"] = {"numbers": [form.plain_float(x) for x in levels[0]], "texts": list(levels[1])}
        edges, weights = self.histogram_edges_[feature], self.histogram_weights_[feature]
        return {
            **described,
            "pair_cells": self._mapper.coarse(feature).tolist(),
            "bounds": [form.plain_float(bound) for bound in self.feature_bounds_[feature]],
            "histogram": None if edges is None else {"edges": edges.tolist(), "weights": weights.tolist()},
        }

    @classmethod
    def from_dict(cls, model):
        """Return the model that `to_dict` wrote.

        Parameters
        ----------
        model : dict
            What `to_dict` returned, or ``json.loads`` of its text.

        Returns
        -------
        estimator
            Fitted; its predictions are those of the model that was written, bit for bit.

        Raises
        ------
        ValueError
            If the dict is not of this format and version, belongs to another estimator, does not fit together, or
            holds parameters that `fit` would refuse whatever the data.
        """
        require(isinstance(model, dict), f"it is a {type(model).__name__}")
        if model.get("format") != form.FORMAT or model.get("version") != form.VERSION:
            raise ValueError(
                f"This dictionary has the format {model.get('format')!r}, version {model.get('version')!r}; this "
                f"skboost reads {form.FORMAT!r}, version {form.VERSION}."
            )
        if model.get("estimator") != cls.__name__:
            raise ValueError(f"This dictionary holds an {model.get('estimator')!r}, not an {cls.__name__}.")
        params = form.read(model, "params", dict)
        unknown = set(params) - set(cls().get_params(deep=False))
        require(not unknown, f"unknown parameters {sorted(map(str, unknown))}")
        estimator = cls(**{name: form.read_param(value) for name, value in params.items()})
        estimator._check_params()
        vars(estimator).update(_State(estimator, model).attributes)
        return estimator


class _State:
    """Reader of the fitted attributes."""

    def __init__(self, estimator, model):
        self.model = model
        self.attributes = {}
        classes = model.get("classes")
        require((classes is not None) == hasattr(estimator, "predict_proba"), "classes do not go with this estimator")
        if classes is not None:
            self.attributes["classes_"] = form.read_classes(classes)
        self.loss = estimator._make_loss(self.attributes.get("classes_"))
        self._read_features()
        self._read_bags(estimator)
        self._read_terms()
        link = link_of(self.loss)
        require(model.get("link") == link, f"the link is {model.get('link')!r}, not {link!r}")
        self.attributes |= {"_loss": self.loss, "_deviations": None, "_inference": None, "link_": link}

    def _read_features(self):
        features = form.read(self.model, "features", list)
        require(features, "it has no features")
        names = [form.read(feature, "name", str, "a feature") for feature in features]
        maps, cuts, coarse, bounds, edges, weights = [], [], [], [], [], []
        for name, feature in zip(names, features, strict=True):
            where = f"the feature {name!r}"
            kind = form.read(feature, "kind", str, where)
            require(kind in ("continuous", "nominal"), f"the kind of {where} is {kind!r}")
            numeric = kind == "continuous"
            maps.append(None if numeric else form.read_levels(form.read(feature, "levels", dict, where), where))
            values = form.read(feature, "cuts", list, where) if numeric else []
            cuts.append(form.read_array(values, (None,), f"'cuts' of {where}"))
            cells = form.read(feature, "pair_cells", list, where)
            coarse.append(form.read_array(cells, (None,), f"'pair_cells' of {where}", np.uint16, least=0))
            pair = form.read(feature, "bounds", list, where)
            require(len(pair) == 2, f"'bounds' of {where} are not two numbers")
            bounds.append([form.read_float(bound, f"a bound of {where}") for bound in pair])
            histogram = feature.get("histogram")
            require((histogram is not None) == numeric, f"the histogram of {where} does not go with its kind")
            edges.append(None if not numeric else _histogram_part(histogram, "edges", where))
            weights.append(None if not numeric else _histogram_part(histogram, "weights", where))
            fits = not numeric or len(edges[-1]) == len(weights[-1]) + bool(len(weights[-1]))
            require(fits, f"the histogram of {where} has edges and weights that do not match")
        self.mapper = self._mapper(maps, cuts, coarse)
        named = form.read(self.model, "named_features", bool)
        if named:
            require(len(set(names)) == len(names), "two features have the same name")
            self.attributes["feature_names_in_"] = np.array(names, dtype=object)
        self.names = names
        self.attributes |= {
            "n_features_in_": len(names),
            "feature_types_in_": ["continuous" if levels is None else "nominal" for levels in maps],
            "feature_bounds_": np.array(bounds, dtype=np.float64),
            "histogram_edges_": edges,
            "histogram_weights_": weights,
            "_category_maps": tuple(maps),
            "_mapper": self.mapper,
        }

    def _mapper(self, maps, cuts, coarse):
        """Return the mapper; it checks its tables itself."""
        n_levels = [NUMERIC if levels is None else len(levels[0]) + len(levels[1]) for levels in maps]
        sizes = {name: form.read(self.model, name, int) for name in ("max_bins", "max_interaction_bins")}
        mapper = CellMapper.__new__(CellMapper)
        mapper.__setstate__(
            {
                "format": FORMAT_VERSION,
                **sizes,
                "n_levels": np.array(n_levels, dtype=np.int64),
                "cut_values": np.concatenate(cuts),
                "cut_offset": np.cumsum([0, *map(len, cuts)], dtype=np.int64),
                "coarse_cells": np.concatenate(coarse),
                "cell_offset": np.cumsum([0, *map(len, coarse)], dtype=np.int64),
            }
        )
        return mapper

    def _read_bags(self, estimator):
        weights = form.read_array(form.read(self.model, "bag_weights", list), (None,), "'bag_weights'", least=0)
        require(weights.size and (weights > 0).all(), "'bag_weights' are not positive")
        n_outputs, self.n_bags = self.loss.n_outputs, len(weights)
        outputs = () if n_outputs == 1 else (n_outputs,)
        intercept = form.read_array(form.read(self.model, "intercept", list), (n_outputs,), "'intercept'")
        bagged = form.read(self.model, "bagged_intercept", list)
        iterations = form.read(self.model, "best_iteration", list)
        self.attributes |= {
            "bag_weights_": weights,
            "intercept_": estimator._public_intercept(intercept),
            "bagged_intercept_": form.read_array(bagged, (self.n_bags, *outputs), "'bagged_intercept'"),
            "best_iteration_": form.read_array(iterations, (2, self.n_bags), "'best_iteration'", np.int64, least=0),
        }

    def _read_terms(self):
        found = {name: [] for name in ("term_features_", "term_names_", "term_scores_", "bin_weights_")}
        found["bagged_scores_"] = []
        outputs = () if self.loss.n_outputs == 1 else (self.loss.n_outputs,)
        for term in form.read(self.model, "terms", list):
            features = tuple(form.read(term, "features", list, "a term"))
            known = all(type(j) is int and 0 <= j < len(self.names) for j in features)
            require(
                known and features and list(features) == sorted(set(features)), f"a term of the features {features}"
            )
            require(
                len(features) <= 2 and features not in found["term_features_"], f"a term of the features {features}"
            )
            name = " & ".join(self.names[j] for j in features)
            sizes = self.mapper.n_cells if len(features) == 1 else self.mapper.n_coarse
            shape = tuple(int(sizes[j]) for j in features)
            where = f"the term {name!r}"
            arrays = {
                "term_scores_": ("scores", (*shape, *outputs), None),
                "bin_weights_": ("weights", shape, 0),
                "bagged_scores_": ("bagged_scores", (self.n_bags, *shape, *outputs), None),
            }
            for attribute, (key, wanted, least) in arrays.items():
                values = form.read(term, key, list, where)
                found[attribute].append(form.read_array(values, wanted, f"{key!r} of {where}", least=least))
            require(found["bin_weights_"][-1].any(), f"'weights' of {where} are all 0")
            found["term_features_"].append(features)
            found["term_names_"].append(name)
        self.attributes |= found


def _histogram_part(histogram, key, where):
    where = f"the histogram of {where}"
    return form.read_array(form.read(histogram, key, list, where), (None,), f"{key!r} of {where}")
