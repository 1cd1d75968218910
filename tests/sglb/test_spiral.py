"""Known answers of the experiments with cyclical schedules: a density of 25 modes, and the spiral."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from skboost import SGLBClassifier, VirtualEnsembleUncertainty
from skboost.datasets import GaussianGrid, make_spiral
from skboost.sglb._cycle import Cycle


@pytest.mark.parametrize(("scale_max", "fewest", "most"), [(1.0, 1, 1), (10.0, 12, 20)])
def test_cycles_visit_the_modes_of_a_density(scale_max, fewest, most):
    """Ten chains of 50,000 steps, matched noise: one mode without cycles, more than half of 25 with them."""
    grid, rng, step = GaussianGrid(), np.random.default_rng(1), 0.01
    cycle = Cycle(50_000 // 30, scale_max, 1.0, "clamp", 0.8, None)
    x, kept = rng.uniform(-10, 10, size=(10, 2)), []
    for t in range(30 * cycle.length):
        x = x + step * cycle.gradient_scale(t) * grid.gradient(x) + np.sqrt(2 * step) * rng.normal(size=x.shape)
        if (t + 1) % cycle.length == 0:
            kept.append(x)
    distance = np.linalg.norm(np.array(kept)[:, :, None] - grid.means, axis=3)
    near = distance.min(axis=2) < 3 * np.sqrt(grid.variance)
    modes = [len(set(distance[near[:, c], c].argmin(axis=1))) for c in range(10)]
    assert fewest <= np.median(modes) <= most


def nine_features(X):
    x, y = X.T
    return np.column_stack([x, y, x + y, x - y, 2 * x + y, x - 2 * y, x + 2 * y, 2 * x - y, np.hypot(x, y)])


@pytest.mark.slow
@pytest.mark.parametrize(("prior_split_rate", "least_auc"), [(0, 0.7), (None, 0.8)])
def test_knowledge_on_the_spiral(prior_split_rate, least_auc):
    """1500 points per class, T 10: in and out of domain, one chain, cycles and ten models.

    Trees here have vector leaves; one tree per class, each with its own structure, gave .89 without prior splits.
    """
    X, y = make_spiral(1500, random_state=0)
    X_test, y_test = make_spiral(1500, random_state=1)
    side = np.linspace(-600, 600, 100)
    plane = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    far = np.array([np.hypot(*(X - point).T).min() > 30 for point in plane])
    radius = np.hypot(*plane[far].T)
    common = {
        "max_depth": 6, "diffusion_temperature": 10.0, "l2_regularization": 3.0, "max_bins": 128, "random_state": 0,
        "prior_split_rate": prior_split_rate, "grow_policy": "depthwise",
    }  # fmt: skip
    chain = SGLBClassifier(n_estimators=2000, learning_rate=0.05, **common)
    cycles = SGLBClassifier(n_estimators=2000, learning_rate=0.05, schedule="cyclical", cycle_length=200, **common)
    models = VirtualEnsembleUncertainty(
        SGLBClassifier(n_estimators=1000, **common), method="ensemble", n_members=10, random_state=0
    )
    found = {}
    for name, model in (("chain", chain), ("cycles", cycles), ("models", models)):
        model.fit(nine_features(X), y)
        inside = model.predict_uncertainty(nine_features(X_test))
        outside = model.predict_uncertainty(nine_features(plane[far]))
        accuracy = np.mean(inside.mean.argmax(axis=1) == y_test)
        auc = roc_auc_score(np.repeat([0, 1], [len(X_test), far.sum()]), np.r_[inside.knowledge, outside.knowledge])
        found[name] = inside.knowledge.mean(), outside.knowledge[radius >= 400].mean(), auc, accuracy
        print(name, "knowledge in {:.4f}, out {:.4f}, AUC {:.3f}, accuracy {:.3f}".format(*found[name]))
    assert min(values[3] for values in found.values()) > 0.85
    assert found["models"][1] > 2.5 * found["models"][0]
    assert found["models"][2] > least_auc
    assert found["chain"][1] > 1.3 * found["chain"][0]
    assert found["cycles"][1] > found["chain"][1]
