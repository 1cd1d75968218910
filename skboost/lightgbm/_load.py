"""The doors for reading."""

from pathlib import Path

from skboost.lightgbm._description import PARAMETER, chain_of
from skboost.lightgbm._lines import fault
from skboost.lightgbm._models import LoadedClassifier, LoadedRegressor
from skboost.lightgbm._reader import parse


def load(path):
    """Read a text model of LightGBM.

    Parameters
    ----------
    path : str or path-like
        File that LightGBM 3.3.5 or 4.x or :func:`dump` wrote.

    Returns
    -------
    LoadedRegressor or LoadedClassifier
        Model that predicts what LightGBM predicts.

    Raises
    ------
    ValueError
        If the file is no such model, is cut off or contradicts itself; the message names the line.

    See Also
    --------
    loads : Reads a text.

    Examples
    --------
    >>> import os, tempfile
    >>> from skboost import SGLBRegressor
    >>> from skboost.lightgbm import dump, load
    >>> X = [[float(i)] for i in range(40)]
    >>> model = SGLBRegressor(n_estimators=20, random_state=0).fit(X, range(40))
    >>> path = os.path.join(tempfile.mkdtemp(), "model.txt")
    >>> dump(model, path)
    >>> load(path)
    LoadedRegressor(objective='regression', n_iter=20, n_features_in=1)
    """
    return _load(Path(path).read_bytes())


def loads(text):
    """Read a text model of LightGBM from a string, as ``Booster.model_to_string`` returns it.

    Parameters
    ----------
    text : str or bytes
        The whole text, bytes in UTF-8.

    Returns
    -------
    LoadedRegressor or LoadedClassifier
        Model that predicts what LightGBM predicts.

    Raises
    ------
    ValueError
        If the text is no such model, is cut off or contradicts itself; the message names the line.

    See Also
    --------
    load : Reads a file.

    Examples
    --------
    >>> from skboost import SGLBClassifier
    >>> from skboost.lightgbm import dumps, loads
    >>> X = [[float(i)] for i in range(40)]
    >>> model = SGLBClassifier(n_estimators=20, random_state=0).fit(X, ["low"] * 20 + ["high"] * 20)
    >>> loaded = loads(dumps(model))
    >>> loaded.predict([[3.0], [30.0]]).tolist()
    ['low', 'high']
    >>> bool((loaded.predict_virtual_ensembles(X) == model.predict_virtual_ensembles(X)).all())
    True
    """
    return _load(text)


def _load(text):
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise fault(text.count(b"\n", 0, error.start) + 1, "the text is not in UTF-8.") from None
    elif not isinstance(text, str):
        raise TypeError(f"A model is a str or bytes, got {type(text).__name__}.")
    elif not text.isascii():
        _check_encodable(text)
    parsed = parse(text)
    chain = chain_of(parsed)
    parsed.parameters.pop(PARAMETER, None)
    classifies = parsed.objective.classifies if chain is None else chain.classes is not None
    return (LoadedClassifier if classifies else LoadedRegressor)._of(parsed, chain)


def _check_encodable(text):
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise fault(text.count("\n", 0, error.start) + 1, "the text has a character that UTF-8 cannot hold.") from None
