"""Training problems for the tree engine and its twin, built from one description."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from skboost._engine.grower import Trainer

from oracles.grower import NO_LIMIT, SYMMETRIC, Rules, Twin


def class_of(rng, signal):
    return np.digitize(signal + 0.3 * rng.normal(size=len(signal)), [-0.5, 0.5]).astype(float)


def normal_of(rng, signal):
    return signal + np.exp(0.3 * signal) * rng.normal(size=len(signal))


# name: kind, outputs, a function (rng, signal) -> target
LOSSES = {
    "squared": (0, 1, lambda rng, signal: signal + 0.3 * rng.normal(size=len(signal))),
    "binary": (2, 1, lambda rng, signal: (rng.random(len(signal)) < 1 / (1 + np.exp(-2 * signal))).astype(float)),
    "multinomial": (3, 3, class_of),
    "gaussian": (4, 2, normal_of),
    "gaussian, coins": (4, 2, normal_of),
}


@dataclass
class Problem:
    """Arguments of the twin and of the engine."""

    codes: np.ndarray
    n_bins: np.ndarray
    categorical: np.ndarray
    loss: SimpleNamespace
    y: np.ndarray
    base: np.ndarray
    rules: Rules
    weights: dict | None = None
    noise: dict | None = None
    coins: np.ndarray | None = None

    def twin(self):
        return Twin(
            self.codes, self.n_bins, self.categorical, self.loss, self.y, self.base, self.rules, self.weights,
            self.noise, self.coins,
        )  # fmt: skip

    def trainer(self, n_threads=1):
        n, n_features = self.codes.shape
        codes_row = np.zeros((n, (n_features + 7) // 8 * 8), dtype=np.uint8)
        codes_row[:, :n_features] = self.codes
        return Trainer(
            np.ascontiguousarray(self.codes.T), codes_row, self.n_bins, self.categorical, self.loss, self.y, self.base,
            vars(self.rules), self.weights, self.noise, n_threads, self.coins,
        )  # fmt: skip

    def take(self, rows):
        """Return the problem on some rows (repeated or permuted); noise arrays go along with their rows."""

        def taken(arrays):
            if arrays is None:
                return None
            return {k: np.ascontiguousarray(v[rows]) if isinstance(v, np.ndarray) else v for k, v in arrays.items()}

        return Problem(
            np.ascontiguousarray(self.codes[rows]), self.n_bins, self.categorical, self.loss, self.y[rows], self.base,
            self.rules, taken(self.weights), taken(self.noise),
            None if self.coins is None else self.coins[rows],
        )  # fmt: skip


def make_codes(rng, n, n_bins, missing=0.15):
    """Codes below n_bins, uniform, with a share of the missing code in half of the columns."""
    codes = np.stack([rng.integers(min(1, b - 1), b, n) for b in n_bins], axis=1)
    for feature in range(0, len(n_bins), 2):
        codes[rng.random(n) < missing, feature] = 0
    return codes.astype(np.uint8)


def make_problem(seed, loss="squared", n=60, n_bins=(9, 4, 30, 12), categorical=(), weights=None, noise=False, **rules):
    """Return a random problem; weights: None, "integer", "fractional", "class"; rules: fields of Rules."""
    rng = np.random.default_rng([seed, n])
    n_bins = np.array(n_bins, dtype=np.int32)
    codes = make_codes(rng, n, n_bins)
    kind, outputs, target = LOSSES[loss]
    signal = sum(np.sin(codes[:, f] * (1.0 + f)) for f in range(min(3, len(n_bins)))) / 1.5
    signal = signal - signal.mean()
    is_categorical = np.zeros(len(n_bins), dtype=np.uint8)
    is_categorical[list(categorical)] = 1
    settings = Rules(**rules)
    if settings.policy == SYMMETRIC:
        settings.max_depth = min(settings.max_depth, 16)
    weight_arrays = make_weights(rng, n, weights)
    return Problem(
        codes, n_bins, is_categorical, SimpleNamespace(kind=kind, n_outputs=outputs, params=()), target(rng, signal),
        rng.normal(0, 0.1, outputs), settings, weight_arrays, make_noise(codes, weight_arrays) if noise else None,
        rng.choice([-1, 1, 1 / 3], n).astype(np.float32) if loss.endswith("coins") else None,
    )  # fmt: skip


def make_weights(rng, n, kind):
    """Weights on the grid of the engine; the leaf minimum of "class" weights counts the rows' own weights."""
    if kind is None:
        return None
    integer = rng.integers(1, 5, n).astype(float)
    if kind == "integer":
        return weight_arrays(integer, 1.0, True)
    if kind == "fractional":
        return weight_arrays(rng.random(n) * 3 + 0.01, 2.0**10, False)
    return weight_arrays(integer * rng.choice([0.3, 2.7], n), 2.0**12, False, integer.astype(np.uint32))


def weight_arrays(weight, scale, integer, counts=None):
    units = np.maximum(np.rint(weight * scale), 1).astype(np.uint32)
    return {"weight": weight, "units": units, "scale": scale, "integer": integer, "counts": counts}


def content_keys(codes):
    """Return (hash0, hash1), a pair of 32-bit keys of every row; equal rows have equal keys."""
    multiplier = np.random.default_rng(7).integers(1, 2**63, codes.shape[1], dtype=np.uint64) | np.uint64(1)
    mixed = (codes.astype(np.uint64) + np.uint64(1)) * multiplier
    key = np.bitwise_xor.reduce(mixed ^ (mixed >> np.uint64(29)), axis=1) * np.uint64(0x9E3779B97F4A7C15)
    key ^= key >> np.uint64(32)
    return (key & np.uint64(0xFFFFFFFF)).astype(np.uint32), (key >> np.uint64(32)).astype(np.uint32)


def make_noise(codes, weights):
    """Noise arrays keyed by row content; groups of equal rows weigh the sum of their weights."""
    weight = np.ones(len(codes)) if weights is None else weights["weight"]
    group = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    hash0, hash1 = content_keys(codes)
    inverse_root = 1 / np.sqrt(np.bincount(group, weights=weight)[group])
    return {"hash0": hash0, "hash1": hash1, "inv_root_weight": inverse_root.astype(np.float32)}


__all__ = ["LOSSES", "NO_LIMIT", "Problem", "make_codes", "make_noise", "make_problem", "weight_arrays"]
