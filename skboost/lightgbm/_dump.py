"""The doors for writing."""

from pathlib import Path

from sklearn.utils.validation import check_is_fitted

from skboost.ebm import EBMClassifier, EBMRegressor
from skboost.lightgbm._forest_trees import forest_rounds
from skboost.lightgbm._term_trees import term_rounds
from skboost.lightgbm._text import model_text
from skboost.sglb import SGLBClassifier, SGLBRegressor

_ROUNDS = {
    SGLBRegressor: forest_rounds,
    SGLBClassifier: forest_rounds,
    EBMRegressor: term_rounds,
    EBMClassifier: term_rounds,
}


def dump(estimator, path):
    """Write a fitted model to a text file that LightGBM reads.

    LightGBM adds the same numbers in the same order, so that its raw scores are those of the model to the bit where the
    model does not shrink from iteration to iteration or has ``averaging="mean"``. Shrinkage of a chain whose last state
    is used is folded into the leaves; raw scores then agree up to rounding. What the file says beyond LightGBM's needs
    lets :func:`load` return the predictions and the virtual ensemble of the model to the bit. Explainable boosting
    machines become a tree for every term, always with the same bits.

    Parameters
    ----------
    estimator : SGLBRegressor, SGLBClassifier, EBMRegressor or EBMClassifier
        Fitted model. Of a chain the predictions of its `averaging` are written.
    path : str or path-like
        File to write.

    Raises
    ------
    TypeError
        If the estimator is of another class.
    ValueError
        If LightGBM has no test for one of the splits, or class labels are neither texts nor numbers.

    See Also
    --------
    dumps : Returns the text.
    load : Reads the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from skboost import SGLBRegressor
    >>> from skboost.lightgbm import dump
    >>> X = [[float(i)] for i in range(40)]
    >>> model = SGLBRegressor(n_estimators=20, random_state=0).fit(X, range(40))
    >>> path = os.path.join(tempfile.mkdtemp(), "model.txt")
    >>> dump(model, path)
    >>> with open(path) as file:
    ...     print(file.readline().strip())
    tree
    """
    Path(path).write_bytes(dumps(estimator).encode())


def dumps(estimator):
    """Return a fitted model as a text that LightGBM reads.

    Parameters
    ----------
    estimator : SGLBRegressor, SGLBClassifier, EBMRegressor or EBMClassifier
        Fitted model. Of a chain the predictions of its `averaging` are written.

    Returns
    -------
    str
        What :func:`dump` writes, for ``lightgbm.Booster(model_str=...)``.

    Raises
    ------
    TypeError
        If the estimator is of another class.
    ValueError
        If LightGBM has no test for one of the splits, or class labels are neither texts nor numbers.

    See Also
    --------
    dump : Writes a file and says what the text holds.

    Examples
    --------
    >>> from skboost import SGLBClassifier
    >>> from skboost.lightgbm import dumps
    >>> X = [[float(i)] for i in range(40)]
    >>> model = SGLBClassifier(n_estimators=20, random_state=0).fit(X, ["low"] * 20 + ["high"] * 20)
    >>> [line for line in dumps(model).split("\\n") if line.startswith("objective")]
    ['objective=binary sigmoid:1']
    """
    for cls, rounds_of in _ROUNDS.items():
        if isinstance(estimator, cls):
            check_is_fitted(estimator)
            return model_text(*rounds_of(estimator))
    names = ", ".join(cls.__name__ for cls in _ROUNDS)
    raise TypeError(f"Only {names} can be written, got {type(estimator).__name__}.")
