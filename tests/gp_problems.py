"""Problems with known answers: the oracle, and small tables."""

import os
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

# The stored part has every tenth test row and those of the largest errors. The variable may name the whole file.
ORACLE = os.environ.get("SKBOOST_LAPLACE_ORACLE", Path(__file__).parent / "data" / "laplace_oracle.npz")


def load_oracle():
    """Return the arrays of the oracle by name."""
    with np.load(ORACLE) as file:
        return {name: file[name] for name in file.files}


def fixed_kernel(oracle):
    """Return the kernel of the oracle's section with fixed hyper-parameters."""
    return (ConstantKernel() * RBF() + ConstantKernel()).clone_with_theta(oracle["fixed_theta"])


def learned_kernel(theta):
    """Return variance times RBF with the logarithms of both."""
    return (ConstantKernel() * RBF()).clone_with_theta(theta)


def two_features(n, seed=0):
    """Return rows, labels 0 and 1 with overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    score = np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * rng.normal(size=n)
    return X, (score > 0).astype(int)


def moments(posterior, K_cross, prior_variance):
    """Return latent mean and variance."""
    V = posterior.reduction(K_cross)
    return posterior.mean(K_cross), prior_variance - np.sum(V * V, axis=0)


def difference(function, theta, step):
    """Return central differences of a function of a vector."""
    steps = step * np.eye(len(theta))
    return np.array([(function(theta + h) - function(theta - h)) / (2 * step) for h in steps])
