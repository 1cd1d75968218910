"""Boulevard additive models in row space, with matrices of the size of the rows: slow, and written from the maths."""

import numpy as np


def indicators(codes, sizes):
    """0/1 matrix of the cells of the rows, terms side by side."""
    return np.concatenate([np.eye(size)[code] for code, size in zip(codes, sizes, strict=True)], axis=1)


def kernel(leaves, counts, kappa):
    """Mean over trees of sum_l 1_l 1_l' / (n_l + kappa), leaf by leaf."""
    total = np.zeros((len(counts), len(counts)))
    for leaf in leaves:
        for label in np.unique(leaf[leaf >= 0]):
            member = (leaf == label).astype(float)
            rows = member @ counts
            if rows > 0:
                total += np.outer(member, member) / (rows + kappa)
    return total / len(leaves)


def row_weights(codes, sizes, kernels, learning_rate):
    """Weights of the labels in the shapes of every cell, (n_cells, n_rows), by one n x n system for joint updates."""
    Z = indicators(codes, sizes)
    n = len(Z)
    J = np.eye(n) - 1 / n
    starts = np.concatenate([[0], np.cumsum(sizes)])
    full = np.zeros((starts[-1], starts[-1]))
    for t, block in enumerate(kernels):
        full[starts[t] : starts[t + 1], starts[t] : starts[t + 1]] = block
    inverse = np.linalg.inv(np.eye(n) / learning_rate + J @ Z @ full @ Z.T @ J)
    scale = (1 + learning_rate) / learning_rate
    rows = []
    for t in range(len(sizes)):
        Zt = Z[:, starts[t] : starts[t + 1]]
        block = full[starts[t] : starts[t + 1], starts[t] : starts[t + 1]]
        mean = (Zt @ block @ Zt.T).mean(axis=1)
        rows.extend(scale * inverse @ (J @ (Zt @ block[:, cell] - mean)) for cell in range(sizes[t]))
    return np.array(rows)


def boost(codes, sizes, y, leaves, learning_rate, l2=0.0, update="joint"):
    """Boosted shapes with given structures, all rows in every tree: the recursion as it is written down."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    shapes = [np.zeros(size) for size in sizes]
    for number, leaf in enumerate(leaves, start=1):
        fitted = [shape[code] for shape, code in zip(shapes, codes, strict=True)]
        new = []
        for t, (shape, code) in enumerate(zip(shapes, codes, strict=True)):
            residual = y - y.mean() - sum(fitted)
            if update == "leave_one_out":
                residual = residual + fitted[t]
            of_cell = leaf[starts[t] : starts[t + 1]]
            tree = np.zeros(sizes[t])
            for label in np.unique(of_cell[of_cell >= 0]):
                inside = of_cell[code] == label
                if inside.any():
                    tree[of_cell == label] = residual[inside].sum() / (inside.sum() + l2)
            tree -= tree[code].mean()
            new.append((number - 1) / number * shape + learning_rate / number * tree)
        shapes = new
    scale = (1 + learning_rate) / learning_rate if update == "joint" else 1.0
    return [scale * shape for shape in shapes]


def dummy_regression(codes, sizes, y):
    """Shapes, covariances per unit of noise and rank of the additive least-squares fit, every term centred."""
    Z = indicators(codes, sizes)
    n = len(Z)
    Zc = Z - Z.mean(axis=0)
    pseudo = np.linalg.pinv(Zc)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    centre = np.zeros((starts[-1], starts[-1]))
    for t, size in enumerate(sizes):
        counts = np.bincount(codes[t], minlength=size)
        centre[starts[t] : starts[t + 1], starts[t] : starts[t + 1]] = np.eye(size) - counts / n
    weights = centre @ pseudo
    return weights @ (y - y.mean()), weights @ weights.T, np.linalg.matrix_rank(Zc) + 1
