"""One table says how losses are written: the links agree, and what the table forgets is noticed."""

from types import SimpleNamespace

import numpy as np
import pytest
from test_lightgbm_write import fitted, table

from skboost._losses import make_loss
from skboost.lightgbm import dumps, loads
from skboost.lightgbm._objectives import WRITTEN, WrittenLoss, objective_of, parse_objective

# Of one output, and of three.
LINES = {
    "squared_error": ("regression", None),
    "absolute_error": ("regression_l1", None),
    "quantile": ("quantile", None),
    "huber": ("huber", None),
    "pseudo_huber": (None, None),
    "expectile": (None, None),
    "poisson": ("poisson", None),
    "gamma": ("gamma", None),
    "tweedie": ("tweedie", None),
    "log_loss": ("binary sigmoid:1", "multiclass num_class:3"),
    "several_labels": (None, "multiclassova num_class:3 sigmoid:1"),
    "several_targets": ("regression", None),
    "cox": (None, None),
    "aft": (None, None),
    "gaussian": (None, None),
    "negative_binomial": (None, None),
}


def stub(name, n_outputs):
    """Return what the table looks at."""
    names = {"several_labels": "log_loss", "several_targets": "squared_error"}
    uncertainty = "labels" if name == "several_labels" else "regression"
    return SimpleNamespace(name=names.get(name, name), n_outputs=n_outputs, uncertainty=uncertainty)


@pytest.mark.parametrize("name", LINES)
def test_losses_have_the_objectives_of_their_links(name):
    found = tuple(objective_of(stub(name, n)) for n in (1, 3))
    assert found == LINES[name]


@pytest.mark.parametrize("name", WRITTEN)
def test_objectives_are_read_again(name):
    for n_outputs in (1, 3):
        if line := objective_of(stub(name, n_outputs)):
            assert parse_objective(line, n_outputs).name == line.split(" ")[0]


@pytest.mark.parametrize("name", [name for name in WRITTEN if not name.startswith("several")])
def test_lightgbm_predicts_what_the_loss_predicts(name):
    losses = [make_loss(name, n_classes=n) for n in (2, 3)] if name == "log_loss" else [make_loss(name)]
    for loss in losses:
        raw = np.random.default_rng(0).uniform(-3, 3, (20, loss.n_outputs))
        line = objective_of(loss)
        if line is None:
            continue
        found = parse_objective(line, loss.n_outputs).predictions(raw)
        wanted = loss.inverse_link(raw[:, 0] if loss.n_outputs == 1 else raw)
        wanted = wanted[:, 1:] if line.startswith("binary") else wanted.reshape(found.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_losses_that_the_table_does_not_have_are_refused_by_name(monkeypatch):
    model = fitted("poisson", n_estimators=2)
    monkeypatch.delitem(WRITTEN, "poisson")
    with pytest.raises(ValueError, match="loss='poisson' cannot be written; known are squared_error, "):
        dumps(model)


@pytest.mark.parametrize("written", [WrittenLoss(), WrittenLoss(state=("centre",)), WrittenLoss(options=("scale",))])
def test_what_a_line_of_the_table_forgets_is_noticed(monkeypatch, written):
    X, y = table()
    model = fitted("gaussian", X, 8 * y, n_estimators=2)
    monkeypatch.setitem(WRITTEN, "gaussian", written)
    with pytest.raises(ValueError, match="loss='gaussian' and 2 outputs cannot be written"):
        dumps(model)


def test_options_come_back():
    model = fitted(n_estimators=2)
    model._loss = make_loss("tweedie", power=1.25)
    assert loads(dumps(model))._chain.loss.power == 1.25
