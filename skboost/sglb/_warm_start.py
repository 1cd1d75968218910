"""What must be unchanged for a fitted chain to go on: a mixture of two fits is never made."""

import numpy as np


def check_same_chain(model, known_maps, data, loss, mapper, chain):
    """Raise ValueError unless the chain goes on from the fitted trees with the same columns, classes and target.

    Parameters
    ----------
    model : estimator
        Fitted, with ``warm_start=True``.
    known_maps : tuple
        ``category_maps`` of its fit.
    data : TrainingData
    loss : Loss
        Bound to the target.
    mapper : BinMapper
    chain : Chain
        Without trees yet.
    """
    forest = model._forest
    changed = {
        "grow_policy": chain.builder.kind != forest.kind,
        "the classes": data.classes is not None and not np.array_equal(data.classes, model.classes_),
        "loss": loss.name != model._loss.name,
        "X": not (_same_arrays(mapper.tables, model._mapper.tables) and _same_maps(data.category_maps, known_maps)),
        "y or the weights": loss.name == model._loss.name
        and not (vars(loss) == vars(model._loss) and np.array_equal(chain.base_score, forest.base_score)),
    }
    names = [name for name, differs in changed.items() if differs]
    if names:
        raise ValueError(
            f"warm_start=True continues the last fit on the same data, but changed: {', '.join(names)}. "
            "Set warm_start=False to start anew."
        )


def check_scores_known(model, validation):
    """Raise ValueError when early stopping would go on without the scores of the earlier iterations."""
    known = model.train_score_ if validation is None else model.validation_score_
    if len(known) <= model.n_iter_:
        raise ValueError(
            "warm_start=True with early_stopping=True continues a fit with early_stopping=True and the same validation "
            "rows only: the scores of its iterations are missing. Set warm_start=False to start anew."
        )


def _same_arrays(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _same_maps(one, other):
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if (a is None) != (b is None):
            return False
        if a is not None and not (np.array_equal(a[0], b[0]) and a[1] == b[1]):
            return False
    return True
