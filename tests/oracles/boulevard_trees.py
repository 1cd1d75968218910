"""NumPy twin of Boulevard boosting with given trees: dense kernel, hat matrix, and the recursions row by row."""

import numpy as np


def kernel(train_leaves, other_leaves, kappa):
    """Return K of shape (n_others, n_rows) from leaves of shape (n_trees, rows)."""
    K = np.zeros((other_leaves.shape[1], train_leaves.shape[1]))
    for train, other in zip(train_leaves, other_leaves, strict=True):
        counts = np.bincount(train, minlength=int(other.max()) + 1)
        K += (other[:, None] == train[None, :]) / (np.maximum(counts[other], 1) + kappa)[:, None]
    return K / len(train_leaves)


def hat_matrix(K_train, K_other, c, s, mean_intercept):
    """Return the weights of the labels in the limit's predictions, row by row."""
    n = K_train.shape[1]
    W = s * np.linalg.solve(c * np.eye(n) + K_train, K_other.T).T
    if mean_intercept:
        W += (1.0 - W.sum(axis=1, keepdims=True)) / n
    return W


def smoother(leaf, l2):
    """Return the matrix that replaces residuals by the regularised means of their leaves."""
    together = leaf[:, None] == leaf[None, :]
    return together / (together.sum(axis=1, keepdims=True) + l2)


def dropout_fit(leaves, target, learning_rate, l2):
    """Replay plain Boulevard boosting with given trees, all rows in all leaf values; return the rescaled fit."""
    trees = []
    for b, leaf in enumerate(leaves):
        offset = learning_rate * np.sum(trees, axis=0) / b if b else 0.0
        trees.append(smoother(leaf, l2) @ (target - offset))
    return (1.0 + learning_rate) * np.mean(trees, axis=0)


def parallel_fit(leaves, target, n_slots, l2):
    """Replay boosting of slots, trees in the order of rounds and, within these, of slots."""
    slots = [[] for _ in range(n_slots)]
    for b in range(len(leaves) // n_slots):
        means = [np.mean(trees, axis=0) if trees else np.zeros(len(target)) for trees in slots]
        for j in range(n_slots):
            others = sum(means[i] for i in range(n_slots) if i != j)
            tree = smoother(leaves[b * n_slots + j], l2) @ (target - others)
            if b == 0:
                means[j] = tree
            slots[j].append(tree)
    return sum(np.mean(trees, axis=0) for trees in slots)
