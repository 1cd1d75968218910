#!/usr/bin/env python
"""Benchmark skboost against the gradient boosting and EBM packages that are importable.

Every workload is generated from a seed, every fit runs in a fresh process, and the peers are interleaved
(A B C A B C ...) so that drift of the machine hits all of them alike. The table gives, per peer, the median
fit time, median predict time, peak memory of the fit, the test loss and the fit-time ratio to skboost (to the
fastest peer when skboost cannot be imported).

    python peers.py --list
    python peers.py --workload W1-bin W1-reg-d6 --rows 50000 200000 --repeat 3
    python peers.py --workload W2-reg --rows 200000 --trees 1000 --peers skboost catboost
    python peers.py --workload W3-bin-cheap --rows 20000 --json out.json
    python peers.py --workload W4-l31 --rows 1000000

Workloads (rows, features and trees can be overridden by flags):
    W1-reg, W1-bin          dense, 28 features, 100 trees, 31 leaves grown best-first, 255 bins, learning rate 0.1
    W1-reg-d6, W1-bin-d6    the same, depth 6 grown level by level
    W2-reg, W2-bin, W2-mc   SGLB: 40 features, 1000 trees of depth 6, Langevin noise with posterior sampling, then
                            the uncertainty of a 10-member virtual ensemble (mc: three classes)
    W3-reg, W3-bin          EBM with InterpretML's defaults but no interactions, 14 features
    W3-reg-int, W3-bin-int  the same with 10 pairwise interactions
    W3-reg-cheap, W3-bin-cheap
                            a matched fixed budget: 2 outer bags, 500 rounds, no early stopping, no interactions,
                            learning rate 0.04, 256 bins, no smoothing or greedy rounds
    W4-l31, W4-d6           prediction only: 100 trees of 31 leaves, or 1000 of depth 6, on --rows rows
    W4-ve                   prediction only: 10-member virtual ensemble of a 1000-tree depth-6 model

"fit" is the wall time of the public fit call on a C-ordered array, binning included, import and data loading
excluded. "peak" is the peak resident set of the process tree while fitting; "grow" is that peak minus the resident
set just before the fit (data and imports). Pass --no-predict to skip prediction.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time

# --------------------------------------------------------------------------------------------------------------
# skboost adapter: the only place that names skboost's API. Correct these few calls if the API differs.
# --------------------------------------------------------------------------------------------------------------


def make_skboost(spec, grow_policy=None):
    import skboost

    seed, jobs = spec["seed"], spec["threads"]
    if spec["family"] == "ebm":
        cls = skboost.EBMRegressor if spec["task"] == "reg" else skboost.EBMClassifier
        kw = {"interactions": spec["interactions"], "n_jobs": jobs, "random_state": seed}
        if spec["cheap"]:
            kw.update(max_rounds=spec["trees"], learning_rate=spec["lr"], outer_bags=spec["outer_bags"])
            kw.update(max_bins=spec["bins"], early_stopping_rounds=0, smoothing_rounds=0, greedy_ratio=0)
        return cls(**kw)
    cls = skboost.SGLBRegressor if spec["task"] == "reg" else skboost.SGLBClassifier
    kw = {
        "n_estimators": spec["trees"],
        "learning_rate": spec["lr"],
        "max_depth": spec["depth"],
        "max_leaf_nodes": spec["leaves"],
        "max_bins": spec["bins"],
        "n_jobs": jobs,
        "random_state": seed,
    }
    if spec["family"] == "sglb":  # CatBoost's SGLB grows symmetric trees
        kw.update(posterior_sampling=True, grow_policy=grow_policy or "symmetric")
    else:  # the tree shape of the other peers: best-first leaves, or full levels
        kw.update(posterior_sampling=False, langevin=False, leaf_estimation="newton", min_samples_leaf=20)
        kw.update(grow_policy=grow_policy or ("lossguide" if spec["leaves"] else "depthwise"))
    return cls(**kw)


def skboost_uncertainty(model, X, members):
    return model.predict_uncertainty(X, n_members=members)


# --------------------------------------------------------------------------------------------------------------
# Peers. Each maker returns (fitted-model factory, predict function, uncertainty function or None).
# --------------------------------------------------------------------------------------------------------------


def _proba_or_value(model, task):
    return model.predict if task == "reg" else model.predict_proba


def peer_skboost(spec):
    model = make_skboost(spec)
    return model, (lambda m, X: _proba_or_value(m, spec["task"])(X)), (lambda m, X: skboost_uncertainty(m, X, 10))


def peer_skboost_symmetric(spec):
    model = make_skboost(spec, "symmetric")
    return model, (lambda m, X: _proba_or_value(m, spec["task"])(X)), (lambda m, X: skboost_uncertainty(m, X, 10))


def peer_lightgbm(spec, **extra):
    import lightgbm as lgb

    cls = lgb.LGBMRegressor if spec["task"] == "reg" else lgb.LGBMClassifier
    leaves = spec["leaves"] or 2 ** spec["depth"]
    model = cls(
        n_estimators=spec["trees"],
        learning_rate=spec["lr"],
        num_leaves=leaves,
        max_depth=spec["depth"] or -1,
        max_bin=spec["bins"],
        n_jobs=spec["threads"],
        random_state=spec["seed"],
        reg_lambda=1.0,
        min_child_samples=20,
        verbosity=-1,
        **extra,
    )
    return model, (lambda m, X: _proba_or_value(m, spec["task"])(X)), None


def peer_lightgbm_quant(spec):
    return peer_lightgbm(spec, use_quantized_grad=True, num_grad_quant_bins=16, quant_train_renew_leaf=True)


def peer_xgboost(spec):
    import xgboost as xgb

    cls = xgb.XGBRegressor if spec["task"] == "reg" else xgb.XGBClassifier
    kw = {
        "n_estimators": spec["trees"],
        "learning_rate": spec["lr"],
        "tree_method": "hist",
        "max_bin": spec["bins"] + 1,
        "n_jobs": spec["threads"],
        "random_state": spec["seed"],
        "reg_lambda": 1.0,
    }
    if spec["leaves"]:
        kw.update(max_leaves=spec["leaves"], max_depth=spec["depth"] or 0, grow_policy="lossguide")
    else:
        kw.update(max_depth=spec["depth"], grow_policy="depthwise")
    return cls(**kw), (lambda m, X: _proba_or_value(m, spec["task"])(X)), None


def peer_hgb(spec):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    cls = HistGradientBoostingRegressor if spec["task"] == "reg" else HistGradientBoostingClassifier
    model = cls(
        max_iter=spec["trees"],
        learning_rate=spec["lr"],
        max_leaf_nodes=spec["leaves"],
        max_depth=spec["depth"],
        max_bins=spec["bins"],
        l2_regularization=1.0,
        min_samples_leaf=20,
        early_stopping=False,
        random_state=spec["seed"],
    )
    return model, (lambda m, X: _proba_or_value(m, spec["task"])(X)), None


def peer_catboost(spec, **extra):
    import catboost as cb

    cls = cb.CatBoostRegressor if spec["task"] == "reg" else cb.CatBoostClassifier
    kw = {
        "iterations": spec["trees"],
        "learning_rate": spec["lr"],
        "border_count": 254 if spec["bins"] >= 254 else spec["bins"],
        "thread_count": spec["threads"],
        "random_seed": spec["seed"],
        "verbose": False,
        "allow_writing_files": False,
    }
    if spec["leaves"]:
        kw.update(grow_policy="Lossguide", max_leaves=spec["leaves"], depth=min(spec["depth"] or 16, 16))
    else:
        kw.update(depth=spec["depth"])
    if spec["family"] == "sglb":
        kw.update(posterior_sampling=True)
    if spec["task"] == "mc":
        kw.update(loss_function="MultiClass")
    kw.update(extra)
    model = cls(**kw)

    def uncertainty(m, X):
        return m.virtual_ensembles_predict(
            X, prediction_type="TotalUncertainty", virtual_ensembles_count=10, thread_count=spec["threads"]
        )

    return model, (lambda m, X: _proba_or_value(m, spec["task"])(X, thread_count=spec["threads"])), uncertainty


def peer_catboost_full(spec):
    """CatBoost on every row: no bootstrap and no score noise, the setting closest to a plain booster."""
    return peer_catboost(spec, bootstrap_type="No", random_strength=0.0)


def peer_catboost_depthwise(spec):
    return peer_catboost(spec, grow_policy="Depthwise")


def peer_catboost_plain(spec):
    """CatBoost without Langevin noise or shrinkage: what the same trees cost without SGLB."""
    return peer_catboost(dict(spec, family="gbdt"))


def peer_interpret(spec):
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    cls = ExplainableBoostingRegressor if spec["task"] == "reg" else ExplainableBoostingClassifier
    kw = {"interactions": spec["interactions"], "n_jobs": spec["threads"], "random_state": spec["seed"]}
    if spec["cheap"]:
        kw.update(
            outer_bags=spec["outer_bags"],
            max_rounds=spec["trees"],
            learning_rate=spec["lr"],
            max_bins=spec["bins"],
            early_stopping_rounds=0,
            greedy_ratio=0.0,
            smoothing_rounds=0,
            interaction_smoothing_rounds=0,
        )
    return cls(**kw), (lambda m, X: _proba_or_value(m, spec["task"])(X)), None


def peer_ngboost(spec):
    from ngboost import NGBClassifier, NGBRegressor
    from sklearn.tree import DecisionTreeRegressor

    cls = NGBRegressor if spec["task"] == "reg" else NGBClassifier
    kw = {
        "n_estimators": spec["trees"],
        "learning_rate": spec["lr"],
        "Base": DecisionTreeRegressor(max_depth=spec["depth"] or 6),
        "verbose": False,
        "random_state": spec["seed"],
    }
    if spec["task"] == "mc":
        from ngboost.distns import k_categorical

        kw["Dist"] = k_categorical(3)
    return cls(**kw), (lambda m, X: _proba_or_value(m, spec["task"])(X)), None


def peer_hessboost(spec):
    from hessboost import DMatrix
    from hessboost.sklearn import HessboostClassifier, HessboostRegressor

    cls = HessboostRegressor if spec["task"] == "reg" else HessboostClassifier
    kw = {
        "n_estimators": spec["trees"],
        "learning_rate": spec["lr"],
        "max_bin": spec["bins"],
        "n_jobs": spec["threads"],
        "random_state": spec["seed"],
        "reg_lambda": 1.0,
        "tree_method": "hist",
    }
    if spec["leaves"]:
        kw.update(max_leaves=spec["leaves"], max_depth=spec["depth"] or 0, grow_policy="lossguide")
    else:
        kw.update(max_depth=spec["depth"], grow_policy="depthwise")
    if spec["family"] == "sglb":
        kw.update(grow_policy="symmetric", params={"posterior_sampling": True})
    uncertainty = lambda m, X: m.get_booster().predict_uncertainty(DMatrix(X), 10)  # noqa: E731
    return cls(**kw), (lambda m, X: _proba_or_value(m, spec["task"])(X)), uncertainty


PEERS = {
    "skboost": ("skboost", peer_skboost),
    "skboost-symmetric": ("skboost", peer_skboost_symmetric),
    "lightgbm": ("lightgbm", peer_lightgbm),
    "lightgbm-quant": ("lightgbm", peer_lightgbm_quant),
    "xgboost": ("xgboost", peer_xgboost),
    "sklearn-hgb": ("sklearn", peer_hgb),
    "catboost": ("catboost", peer_catboost),
    "catboost-full": ("catboost", peer_catboost_full),
    "catboost-depthwise": ("catboost", peer_catboost_depthwise),
    "catboost-plain": ("catboost", peer_catboost_plain),
    "interpret": ("interpret", peer_interpret),
    "ngboost": ("ngboost", peer_ngboost),
    "hessboost": ("hessboost", peer_hessboost),
}

GBDT_PEERS = ["skboost", "lightgbm", "lightgbm-quant", "xgboost", "sklearn-hgb", "catboost", "hessboost"]
GBDT_PEERS_D6 = [*GBDT_PEERS, "catboost-depthwise", "skboost-symmetric"]
SGLB_PEERS = ["skboost", "catboost", "catboost-full", "catboost-plain", "hessboost"]
EBM_PEERS = ["skboost", "interpret"]


def workload_table():
    w = {}
    for task in ("reg", "bin"):
        w[f"W1-{task}"] = {
            "family": "gbdt",
            "task": task,
            "rows": 200_000,
            "features": 28,
            "trees": 100,
            "leaves": 31,
            "depth": None,
            "lr": 0.1,
            "peers": GBDT_PEERS,
        }
        w[f"W1-{task}-d6"] = {
            "family": "gbdt",
            "task": task,
            "rows": 200_000,
            "features": 28,
            "trees": 100,
            "leaves": None,
            "depth": 6,
            "lr": 0.1,
            "peers": GBDT_PEERS_D6,
        }
    for task in ("reg", "bin", "mc"):
        w[f"W2-{task}"] = {
            "family": "sglb",
            "task": task,
            "rows": 200_000,
            "features": 40,
            "trees": 1000,
            "leaves": None,
            "depth": 6,
            "lr": 0.1,
            "uncertainty": True,
            "peers": SGLB_PEERS,
        }
    for task in ("reg", "bin"):
        base = {
            "family": "ebm",
            "task": task,
            "rows": 20_000,
            "features": 14,
            "trees": None,
            "leaves": None,
            "depth": None,
            "lr": None,
            "interactions": 0,
            "cheap": False,
            "outer_bags": 14,
            "peers": EBM_PEERS,
        }
        w[f"W3-{task}"] = dict(base)
        w[f"W3-{task}-int"] = dict(base, interactions=10)
        w[f"W3-{task}-cheap"] = dict(base, cheap=True, trees=500, lr=0.04, bins=256, outer_bags=2)
    pred = {
        "family": "gbdt",
        "task": "reg",
        "rows": 1_000_000,
        "fit_rows": 50_000,
        "features": 28,
        "lr": 0.1,
        "predict_only": True,
    }
    w["W4-l31"] = dict(pred, trees=100, leaves=31, depth=None, peers=GBDT_PEERS)
    w["W4-d6"] = dict(pred, trees=1000, leaves=None, depth=6, peers=GBDT_PEERS_D6)
    w["W4-ve"] = dict(
        pred,
        family="sglb",
        features=40,
        trees=1000,
        leaves=None,
        depth=6,
        uncertainty=True,
        peers=["skboost", "catboost", "hessboost"],
    )
    for v in w.values():
        v.setdefault("bins", 255)
        v.setdefault("interactions", 0)
        v.setdefault("cheap", False)
        v.setdefault("outer_bags", 0)
        v.setdefault("uncertainty", False)
        v.setdefault("predict_only", False)
    return w


WORKLOADS = workload_table()

# --------------------------------------------------------------------------------------------------------------
# Data
# --------------------------------------------------------------------------------------------------------------


def generate(rows, features, task, seed, dtype):
    """Deterministic tabular data: raw columns of mixed shape plus a quarter of columns derived from them.

    Raw columns cycle through normal, uniform, log-normal and coarsely rounded; the derived ones are products,
    differences and norms, so that trees find main effects and interactions. Returns X (C order), y.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    n_raw = max(4, features - features // 4)
    X = np.empty((rows, features), dtype=dtype)
    for j in range(n_raw):
        kind = j % 4
        if kind == 0:
            c = rng.standard_normal(rows, dtype=np.float32)
        elif kind == 1:
            c = rng.random(rows, dtype=np.float32) * 2 - 1
        elif kind == 2:
            c = np.exp(0.5 * rng.standard_normal(rows, dtype=np.float32))
        else:
            c = np.round(rng.standard_normal(rows, dtype=np.float32) * 2) / 2
        X[:, j] = c
    for k, j in enumerate(range(n_raw, features)):
        a, b = X[:, (3 * k) % n_raw], X[:, (5 * k + 1) % n_raw]
        X[:, j] = a * b if k % 3 == 0 else (a - b if k % 3 == 1 else np.sqrt(a * a + b * b))

    def score(shift):
        def c(j):
            return X[:, (j + shift) % n_raw].astype(np.float64)

        s = 0.8 * np.tanh(c(0)) + 0.7 * c(1) + 0.5 * np.log1p(np.abs(c(2))) - 0.4 * np.abs(c(3))
        s += 0.6 * np.tanh(c(0)) * c(1) + 0.5 * np.where(c(4) > 0.3, np.tanh(c(2)), -0.2)
        s += 0.4 * np.sin(2 * c(5)) + 0.3 * np.tanh(c(6) * c(1)) + 0.2 * (c(7) > 0.5)
        return s - s.mean()

    if task == "reg":
        y = score(0) + 0.7 * rng.standard_normal(rows)
    elif task == "bin":
        y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-1.5 * score(0)))).astype(np.int64)
    else:
        z = 1.5 * np.stack([score(0), score(3), score(6)], axis=1) + rng.gumbel(size=(rows, 3))
        y = z.argmax(axis=1).astype(np.int64)
    return X, y.astype(dtype) if task == "reg" else y


def loss(task, y, p):
    import numpy as np

    if task == "reg":
        return float(np.sqrt(np.mean((np.asarray(p, dtype=np.float64).ravel() - y) ** 2)))
    p = np.clip(np.asarray(p, dtype=np.float64), 1e-15, 1.0)
    return float(-np.mean(np.log(p[np.arange(len(y)), y.astype(int)])))


# --------------------------------------------------------------------------------------------------------------
# Child process: one fit of one peer
# --------------------------------------------------------------------------------------------------------------


def _status_kb(field, pid="self"):
    try:
        with open(f"/proc/{pid}/status") as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def _reset_peak():
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        return True
    except OSError:
        return False


class _TreeMemory(threading.Thread):
    """Samples the summed proportional set size of this process's descendants (worker processes of a fit)."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak_kb, self._stop_event = 0, threading.Event()

    @staticmethod
    def _children():
        parents = {}
        for p in os.listdir("/proc"):
            if p.isdigit():
                try:
                    with open(f"/proc/{p}/stat") as f:
                        parents[int(p)] = int(f.read().rsplit(")", 1)[1].split()[1])
                except OSError:
                    continue
        me, found, frontier = os.getpid(), [], [os.getpid()]
        while frontier:
            frontier = [p for p, q in parents.items() if q in frontier and p != me]
            found += frontier
        return found

    def run(self):
        while not self._stop_event.wait(0.2):
            try:
                kids = self._children()
            except OSError:
                return
            total = 0
            for k in kids:
                try:
                    with open(f"/proc/{k}/smaps_rollup") as f:
                        for line in f:
                            if line.startswith("Pss:"):
                                total += int(line.split()[1])
                except OSError:
                    continue
            self.peak_kb = max(self.peak_kb, total)

    def stop(self):
        self._stop_event.set()
        return self.peak_kb


def child(spec):
    import numpy as np

    X = np.load(spec["dir"] + "/X.npy")
    y = np.load(spec["dir"] + "/y.npy")
    model, predict, uncertainty = PEERS[spec["peer"]][1](spec)
    out = {"peer": spec["peer"]}
    gc.collect()
    before = _status_kb("VmRSS")
    reset = _reset_peak()
    sampler = _TreeMemory() if spec["family"] == "ebm" else None
    if sampler:
        sampler.start()
    t0, c0 = time.perf_counter(), time.process_time()
    model.fit(X, y)
    out["fit"] = time.perf_counter() - t0
    out["fit_cpu"] = time.process_time() - c0
    kids = sampler.stop() if sampler else 0
    out["peak_mb"] = (_status_kb("VmHWM") + kids) / 1024
    out["grow_mb"] = out["peak_mb"] - before / 1024 if reset else float("nan")
    del X, y
    if not spec["no_predict"]:
        Xt = np.load(spec["dir"] + "/Xt.npy")
        yt = np.load(spec["dir"] + "/yt.npy")
        predict(model, Xt[:1000])  # thread pools and lazy set-up
        gc.collect()
        before_p = _status_kb("VmRSS")
        _reset_peak()
        times = []
        while len(times) < 3 and sum(times) < 3.0:
            t0 = time.perf_counter()
            p = predict(model, Xt)
            times.append(time.perf_counter() - t0)
        out["predict"] = min(times)
        out["pred_grow_mb"] = (_status_kb("VmHWM") - before_p) / 1024
        out["loss"] = loss(spec["task"], yt, p)
        del p
        if spec["uncertainty"] and uncertainty is not None:
            times = []
            while len(times) < 3 and sum(times) < 3.0:
                t0 = time.perf_counter()
                uncertainty(model, Xt)
                times.append(time.perf_counter() - t0)
            out["uncertainty"] = min(times)
    print("RESULT " + json.dumps(out), flush=True)


# --------------------------------------------------------------------------------------------------------------
# Parent
# --------------------------------------------------------------------------------------------------------------


def importable(module):
    code = f"import {module}"
    if module == "interpret":
        code = "import interpret.glassbox"
    r = subprocess.run([sys.executable, "-c", code], capture_output=True)
    return r.returncode == 0


def version(module):
    code = f"import {module}; print(getattr({module}, '__version__', '?'))"
    r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return r.stdout.strip() or "?"


def run_child(spec, threads, timeout):
    env = dict(os.environ)
    for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
        env[v] = str(threads)
    env["PYTHONWARNINGS"] = "ignore"
    cmd = [sys.executable, os.path.abspath(__file__), "--child", json.dumps(spec)]
    try:
        r = subprocess.run(cmd, env=env, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"over {timeout} s"}
    for line in r.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    tail = (r.stderr.strip().splitlines() or ["no output"])[-1]
    return {"error": tail[:200]}


def med(runs, key):
    v = [r[key] for r in runs if key in r]
    return statistics.median(v) if v else None


def fmt(v, digits=3):
    return "-" if v is None else f"{v:.{digits}f}"


def print_table(title, peers, runs, uncertainty):
    reference = "skboost" if any("fit" in r for r in runs.get("skboost", [])) else None
    fits = {p: med(runs[p], "fit") for p in peers}
    known = {p: f for p, f in fits.items() if f is not None}
    if reference is None and known:
        reference = min(known, key=known.get)
    preds = {p: med(runs[p], "predict") for p in peers}
    print(f"\n### {title}\n")
    head = [
        "peer",
        "fit s",
        "fit spread",
        "cpu s",
        "predict s",
        "peak MB",
        "grow MB",
        "test loss",
        f"fit / {reference}",
        f"predict / {reference}",
    ]
    if uncertainty:
        head.insert(5, "uncertainty s")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for p in peers:
        err = next((r["error"] for r in runs[p] if "error" in r), None)
        if fits[p] is None:
            print(f"| {p} | failed: {err} |" + " |" * (len(head) - 2))
            continue
        all_fits = [r["fit"] for r in runs[p] if "fit" in r]
        ratio = fits[p] / fits[reference] if fits.get(reference) else None
        pr = preds[p] / preds[reference] if preds.get(p) and preds.get(reference) else None
        row = [
            p,
            fmt(fits[p]),
            f"{min(all_fits):.3f}-{max(all_fits):.3f}",
            fmt(med(runs[p], "fit_cpu")),
            fmt(preds[p]),
            fmt(med(runs[p], "peak_mb"), 0),
            fmt(med(runs[p], "grow_mb"), 0),
            fmt(med(runs[p], "loss"), 5),
            fmt(ratio, 2),
            fmt(pr, 2),
        ]
        if uncertainty:
            row.insert(5, fmt(med(runs[p], "uncertainty")))
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--workload", nargs="+", default=["W1-bin"], help="names, or a prefix such as W1")
    ap.add_argument("--rows", nargs="+", type=int, help="training rows (W4: rows to predict)")
    ap.add_argument("--features", type=int)
    ap.add_argument("--trees", type=int, help="trees, or EBM rounds in the cheap setting")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--peers", nargs="+", choices=sorted(PEERS), help="default: every peer of the workload")
    ap.add_argument("--repeat", type=int, default=3)
    ap.add_argument("--test-rows", type=int, default=50_000)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    ap.add_argument("--timeout", type=float, default=1800, help="seconds one fit may take")
    ap.add_argument("--no-predict", action="store_true")
    ap.add_argument("--json", help="write every single run to this file")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--child", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.child:
        child(json.loads(a.child))
        return
    if a.list:
        for k, v in WORKLOADS.items():
            print(f"{k:14s} rows {v['rows']}, features {v['features']}, trees {v['trees']}, peers {v['peers']}")
        return
    names = []
    for w in a.workload:
        hit = [w] if w in WORKLOADS else [k for k in WORKLOADS if k.startswith(w)]
        if not hit:
            ap.error(f"no workload {w}; see --list")
        names += [h for h in hit if h not in names]
    wanted = sorted({p for n in names for p in (a.peers or WORKLOADS[n]["peers"])})
    have = {m: importable(m) for m in {PEERS[p][0] for p in wanted}}
    print(
        f"python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, {a.threads} threads, "
        f"seed {a.seed}, {a.dtype}"
    )
    print(
        "versions: "
        + ", ".join(f"{m} {version(m)}" for m in sorted(have) if have[m])
        + "".join(f"; {m} not importable" for m in sorted(have) if not have[m])
    )
    results = []
    for name in names:
        w = WORKLOADS[name]
        for rows in a.rows or [w["rows"]]:
            spec = {k: v for k, v in w.items() if k != "peers"}
            spec.update(name=name, threads=a.threads, seed=a.seed, no_predict=a.no_predict)
            if a.trees:
                spec["trees"] = a.trees
            if a.features:
                spec["features"] = a.features
            fit_rows = w["fit_rows"] if w["predict_only"] else rows
            test_rows = rows if w["predict_only"] else a.test_rows
            spec["rows"] = fit_rows
            peers = [p for p in (a.peers or w["peers"]) if have[PEERS[p][0]]]
            with tempfile.TemporaryDirectory(prefix="peers-") as d:
                import numpy as np

                X, y = generate(fit_rows + test_rows, spec["features"], spec["task"], a.seed, a.dtype)
                np.save(d + "/X.npy", X[:fit_rows])
                np.save(d + "/y.npy", y[:fit_rows])
                np.save(d + "/Xt.npy", X[fit_rows:])
                np.save(d + "/yt.npy", y[fit_rows:])
                del X, y
                gc.collect()
                runs = {p: [] for p in peers}
                for r in range(a.repeat):
                    for p in peers:
                        if any("error" in q for q in runs[p]):
                            continue
                        out = run_child(dict(spec, peer=p, dir=d), a.threads, a.timeout)
                        runs[p].append(out)
                        results.append(dict(out, workload=name, rows=rows, repeat=r, peer=p, spec=spec))
                        print(
                            f"  [{name} {rows} #{r}] {p}: "
                            + (
                                out.get("error")
                                or f"fit {out['fit']:.3f} predict {out.get('predict', float('nan')):.3f}"
                                f" loss {out.get('loss', float('nan')):.5f}"
                            ),
                            file=sys.stderr,
                            flush=True,
                        )
            what = (
                f"{rows} rows to predict (fitted on {fit_rows})"
                if w["predict_only"]
                else f"{rows} rows, {test_rows} test rows"
            )
            print_table(
                f"{name}: {what}, {spec['features']} features, {spec['trees'] or 'default'} trees/rounds, "
                f"{a.threads} threads, median of {a.repeat}",
                peers,
                runs,
                spec["uncertainty"],
            )
            if a.json:
                with open(a.json, "w") as f:
                    json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
