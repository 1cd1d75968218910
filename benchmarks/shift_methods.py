"""Methods that shifts.py compares. Each returns {name: Scores} of the test rows, so one run can serve several names."""

import time

import numpy as np
from scipy.special import expit, softmax
from shift_data import Encoder
from shift_metrics import Scores, decompose
from sklearn.ensemble import IsolationForest

import skboost

N_MEMBERS = 10
# Parameters of our estimators that the models of CatBoost follow.
SHARED = {"n_estimators": "iterations", "learning_rate": "learning_rate", "max_depth": "depth"}
CYCLICAL = {"schedule": "cyclical"}
MASKED = {"schedule": "cyclical", "bootstrap_fraction": 0.6, "exploration_fraction": 0.8}


class NotAvailable(Exception):
    """The method does not exist for this task or this version."""


# ---------------------------------------------------------------- ours


def make_sglb(parts, seed, threads, settings):
    """Return an unfitted estimator with the settings asked for, and no other."""
    estimator = (skboost.SGLBRegressor if parts.task == "regression" else skboost.SGLBClassifier)()
    unknown = sorted(set(settings) - set(estimator.get_params()))
    if unknown:
        raise NotAvailable(f"{type(estimator).__name__} has no parameter {', '.join(unknown)}")
    return estimator.set_params(**settings, random_state=seed, n_jobs=threads)


def fitted(estimator, parts, **given):
    """Fit; returns (estimator, seconds)."""
    started = time.perf_counter()
    estimator.fit(parts.X_train, parts.y_train, **given)
    return estimator, time.perf_counter() - started


def predicted(estimator, parts, X):
    """Return expected values, or probabilities of all classes."""
    return estimator.predict(X) if parts.task == "regression" else estimator.predict_proba(X)


def noise_of(models):
    """Return the variance of the target around models that measured it, or None."""
    if all(model.get_params().get("loss") == "squared_error" for model in models):
        return float(np.mean([model.noise_variance_ for model in models]))
    return None


def virtual(name, parts, seed, threads, settings):
    """One chain and its virtual ensemble."""
    model, fit_seconds = fitted(make_sglb(parts, seed, threads, settings), parts)
    started = time.perf_counter()
    found = model.predict_uncertainty(parts.X_test, n_members=N_MEMBERS)
    scores = Scores(found.knowledge, fit_seconds, time.perf_counter() - started, found.mean)
    scores.prediction = predicted(model, parts, parts.X_test)
    scores.total, scores.support = found.total, found.support
    scores.members_knowledge = decompose(model.predict_virtual_ensembles(parts.X_test, n_members=N_MEMBERS))[1]
    if parts.task == "regression":
        noise = noise_of([model])
        scores.spread = found.total if noise is None else noise + found.knowledge
    return {name: scores}


def sglb(names, parts, seed, threads, settings):
    return virtual(names[0], parts, seed, threads, settings)


def sglb_gaussian(names, parts, seed, threads, settings):
    if parts.task != "regression":
        raise NotAvailable("regression only")
    return virtual(names[0], parts, seed, threads, {"loss": "gaussian", **settings})


def csglb(names, parts, seed, threads, settings):
    return virtual(names[0], parts, seed, threads, CYCLICAL | settings)


def cbsglb(names, parts, seed, threads, settings):
    return virtual(names[0], parts, seed, threads, MASKED | settings)


def ensemble(names, parts, seed, threads, settings):
    """Independent chains; a smaller ensemble is the beginning of a larger one."""
    sizes = {int(name.removeprefix("ensemble")): name for name in names}
    return _ensemble(parts, seed, sizes, lambda s: make_sglb(parts, s, threads, settings), parts.X_test, noise_of)


def _ensemble(parts, seed, sizes, make, X_test, noise_of, **given):
    members, models, fit_seconds, predict_seconds, answer = [], [], 0.0, 0.0, {}
    for k in range(max(sizes)):
        model, seconds = fitted(make(1000 * seed + k), parts, **given)
        models.append(model)
        fit_seconds += seconds
        started = time.perf_counter()
        members.append(predicted(model, parts, X_test))
        predict_seconds += time.perf_counter() - started
        if len(members) in sizes:
            mean, knowledge, total = decompose(np.array(members))
            scores = Scores(knowledge, fit_seconds, predict_seconds, mean, prediction=mean, total=total)
            noise = noise_of(models) if parts.task == "regression" else None
            scores.spread = None if noise is None else noise + knowledge
            answer[sizes[len(members)]] = scores
    return answer


# ---------------------------------------------------------------- others


def make_catboost(parts, seed, threads, settings, loss="RMSE"):
    """Return an unfitted model of CatBoost that samples from a posterior, as many and as deep trees as ours."""
    import catboost

    ours = make_sglb(parts, seed, threads, {}).get_params() | settings
    given = {theirs: ours[name] for name, theirs in SHARED.items()}
    given |= {"posterior_sampling": True, "random_seed": seed, "thread_count": threads}
    given |= {"verbose": False, "allow_writing_files": False}
    if parts.task == "regression":
        return catboost.CatBoostRegressor(loss_function=loss, **given)
    loss = "Logloss" if parts.n_classes == 2 else "MultiClass"
    return catboost.CatBoostClassifier(loss_function=loss, **given)


def categories_as_text(X):
    """Return (frame, categorical columns) in the form CatBoost wants: text, missing values a category."""
    categorical = [c for c in X.columns if X[c].dtype == "category"]
    return X.assign(
        **{c: X[c].astype(object).where(X[c].notna(), "missing").astype(str) for c in categorical}
    ), categorical


def with_text(parts):
    """Return (parts, test frame, categorical columns) for CatBoost."""
    X_train, categorical = categories_as_text(parts.X_train)
    text = type(parts)(
        parts.task, X_train, parts.y_train, categories_as_text(parts.X_test)[0], parts.y_test, parts.shifted
    )
    return text, categorical


def catboost_virtual(names, parts, seed, threads, settings, loss="RMSE"):
    """One model of CatBoost and its virtual ensemble."""
    text, categorical = with_text(parts)
    model, fit_seconds = fitted(make_catboost(parts, seed, threads, settings, loss), text, cat_features=categorical)
    started = time.perf_counter()
    raw = model.virtual_ensembles_predict(
        text.X_test, prediction_type="VirtEnsembles", virtual_ensembles_count=N_MEMBERS, thread_count=threads
    ).transpose(1, 0, 2)
    mean, knowledge, total = decompose(catboost_members(parts, raw))
    scores = Scores(knowledge, fit_seconds, time.perf_counter() - started, mean, total=total)
    scores.prediction = predicted(model, parts, text.X_test)
    if loss == "RMSEWithUncertainty":
        scores.prediction = scores.prediction[:, 0]
        scores.total = scores.spread = knowledge + raw[:, :, 1].mean(axis=0)
    return {names[0]: scores}


def catboost_members(parts, raw):
    """Return predictions of the members from the raw scores that CatBoost gives."""
    if parts.task == "regression":
        return raw[:, :, 0]
    if raw.shape[2] > 1:
        return softmax(raw, axis=2)
    return np.concatenate([expit(-raw), expit(raw)], axis=2)


def catboost_gaussian(names, parts, seed, threads, settings):
    if parts.task != "regression":
        raise NotAvailable("regression only")
    return catboost_virtual(names, parts, seed, threads, settings, "RMSEWithUncertainty")


def catboost_ensemble(names, parts, seed, threads, settings):
    text, categorical = with_text(parts)
    sizes = {int(name.removeprefix("catboost-ens")): name for name in names}

    def make(s):
        return make_catboost(parts, s, threads, settings)

    return _ensemble(text, seed, sizes, make, text.X_test, lambda models: None, cat_features=categorical)


def isolation_forest(names, parts, seed, threads, settings):
    """Strangeness of the rows alone; predicts nothing."""
    encoder = Encoder(parts.X_train)
    started = time.perf_counter()
    forest = IsolationForest(random_state=seed, n_jobs=threads).fit(encoder.transform(parts.X_train))
    fitted_at = time.perf_counter()
    strange = -forest.score_samples(encoder.transform(parts.X_test))
    return {names[0]: Scores(strange, fitted_at - started, time.perf_counter() - fitted_at)}


# Name: (function, parameters of --set that it follows, None = all). Names of one function run in one process when
# the function builds them from the same fits.
METHODS = {
    "sglb": (sglb, None),
    "sglb-gaussian": (sglb_gaussian, None),
    "csglb": (csglb, None),
    "cbsglb": (cbsglb, None),
    "ensemble3": (ensemble, None),
    "ensemble5": (ensemble, None),
    "ensemble10": (ensemble, None),
    "catboost-ve": (catboost_virtual, SHARED),
    "catboost-ve-gaussian": (catboost_gaussian, SHARED),
    "catboost-ens10": (catboost_ensemble, SHARED),
    "isolation-forest": (isolation_forest, {}),
}
TOGETHER = {ensemble, catboost_ensemble}
