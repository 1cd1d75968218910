"""What skboost offers, collected from ``__all__`` so that a new public name is tested without anyone listing it."""

import importlib
import inspect
import pkgutil

from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import get_tags

import skboost

# Fits of every estimator stay small; a name that an estimator does not have is left out.
SMALL = {"n_estimators": 20, "max_rounds": 20, "outer_bags": 2}


def public_modules():
    """Return skboost and its public sub-modules."""
    names = [info.name for info in pkgutil.iter_modules(skboost.__path__) if not info.name.startswith("_")]
    return [skboost, *(importlib.import_module(f"skboost.{name}") for name in names)]


def public_objects():
    """Return the public classes and functions by the shortest dotted name that reaches them."""
    found = {}
    for module in public_modules():
        for name in module.__all__:
            value = getattr(module, name)
            if (inspect.isclass(value) or callable(value)) and value not in found.values():
                found[f"{module.__name__}.{name}"] = value
    return found


def public_estimators():
    """Return the public estimator classes by their dotted names."""
    return {
        name: value
        for name, value in public_objects().items()
        if inspect.isclass(value) and issubclass(value, BaseEstimator)
    }


def constructor_parameters(cls):
    """Return the parameters of the constructor without ``self``."""
    return dict(inspect.signature(cls).parameters)


def required_parameters(cls):
    """Return values for the parameters of the constructor without a default, fresh ones."""
    required = [name for name, value in constructor_parameters(cls).items() if value.default is value.empty]
    return {name: {"estimator": skboost.SGLBRegressor(n_estimators=SMALL["n_estimators"])}[name] for name in required}


def small_fit(cls, **params):
    """Return a small fitted estimator of the class, fitted on a frame so that it knows column names."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    signal = X["a"] + rng.normal(size=60)
    known = constructor_parameters(cls)
    params = {name: value for name, value in {**SMALL, "random_state": 0, **params}.items() if name in known}
    estimator = cls(**{**required_parameters(cls), **params})
    if is_classifier(estimator):
        return estimator.fit(X, (signal > 0).astype(int))
    return estimator.fit(X, signal - signal.min() if get_tags(estimator).target_tags.positive_only else signal)
