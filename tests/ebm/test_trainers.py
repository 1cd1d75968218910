"""Rows or tables: the rule that chooses, and that the choice changes nothing but time."""

import numpy as np
import pytest
from fit_cases import make_data, make_ebm

from skboost._losses import make_loss
from skboost.ebm import _stages
from skboost.ebm._terms import TermBlock
from skboost.ebm._trainers import tables_pay

SQUARED, BINARY = make_loss("squared_error"), make_loss("log_loss", n_classes=2)
PLENTY = 2**40


def block(n_features, n_cells):
    return TermBlock(tuple((j,) for j in range(n_features)), ((n_cells,),) * n_features)


@pytest.mark.parametrize(
    ("n_rows", "n_features", "n_cells", "loss", "pays"),
    [
        (455, 30, 457, BINARY, False),
        (455, 30, 457, SQUARED, False),
        (5_000, 14, 1024, SQUARED, False),
        (2_000, 8, 256, BINARY, True),
        (20_000, 14, 1024, BINARY, True),
        (50_000, 8, 1024, SQUARED, True),
        (200_000, 14, 1024, SQUARED, True),
        (500_000, 8, 1024, SQUARED, True),
        (500_000, 8, 1024, BINARY, True),
        (500, 5_000, 502, SQUARED, False),
        (100_000, 5_000, 32, SQUARED, False),  # the pairs of columns alone take longer than the updates
    ],
)
def test_rule(n_rows, n_features, n_cells, loss, pays):
    assert tables_pay(n_rows, block(n_features, n_cells), 14, loss, 50_000, PLENTY) == pays


def test_more_rows_speak_for_tables_and_more_cells_against():
    for loss in (SQUARED, BINARY, make_loss("log_loss", n_classes=5)):
        by_rows = [tables_pay(n, block(10, 256), 14, loss, 50_000, PLENTY) for n in (100, 1_000, 10_000, 100_000)]
        assert by_rows == sorted(by_rows)
        assert set(by_rows) == {False, True}
        by_cells = [tables_pay(10_000, block(10, n), 14, loss, 50_000, PLENTY) for n in (16, 64, 512, 4096, 65_000)]
        assert by_cells == sorted(by_cells, reverse=True)
        assert set(by_cells) == {False, True}


def test_few_updates_and_little_memory_speak_against_tables():
    assert tables_pay(500_000, block(20, 1024), 14, SQUARED, 50_000, PLENTY)
    assert not tables_pay(500_000, block(20, 1024), 14, SQUARED, 1, PLENTY)
    assert not tables_pay(500_000, block(20, 1024), 14, SQUARED, 50_000, 10**6)


def chosen(monkeypatch, loss="squared_error", **params):
    """Return the model and the trainer it used."""
    kinds = []

    class Spy(_stages.Tables):
        def __init__(self, *args):
            super().__init__(*args)
            kinds.append(self.kind)

    with monkeypatch.context() as patch:
        patch.setattr(_stages, "Tables", Spy)
        X, y = make_data(loss, n=3000, n_features=3)
        model = make_ebm(loss, max_bins=16, smoothing_rounds=50, max_rounds=500, **params).fit(X, y)
    return model, kinds, X


def test_the_parameter_overrides_the_rule(monkeypatch):
    for params, expected in [
        ({}, "tables"),
        ({"trainer": "rows"}, "rows"),
        ({"trainer": "tables"}, "tables"),
        ({"max_table_bytes": 100}, "rows"),
        ({"trainer": "tables", "max_table_bytes": 100}, "tables"),
        ({"trainer": "tables", "exclude": "mains"}, "rows"),
    ]:
        assert chosen(monkeypatch, **params)[1] == [expected]


def test_squared_error_is_the_same_either_way(monkeypatch):
    models = [
        chosen(monkeypatch, trainer=trainer, max_table_bytes=size)[0]
        for trainer, size in [("rows", 2**30), ("tables", 2**30), ("tables", 1)]
    ]
    X = make_data("squared_error", n=3000, n_features=3)[0]
    for other in models[1:]:
        np.testing.assert_array_equal(other.best_iteration_, models[0].best_iteration_)
        np.testing.assert_allclose(other.predict(X), models[0].predict(X), atol=1e-10)
    np.testing.assert_array_equal(models[1].predict(X), models[2].predict(X))


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie", "binary", "multiclass"])
def test_other_losses_are_close_either_way(loss, monkeypatch):
    models = [chosen(monkeypatch, loss, trainer=trainer, interactions=0) for trainer in ("rows", "tables")]
    X = models[0][2]
    raw = [model._raw(X) for model, _, _ in models]
    assert np.abs(raw[0] - raw[1]).mean() < 0.1 * raw[0].std()
