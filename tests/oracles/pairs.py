"""Trees on a pair and FAST strengths from their definitions, cut by cut on explicit cells.

G and H have the shape (n_outputs, size0, size1), W (size0, size1).
"""

import numpy as np

SHAPES = ("low rows", "high rows", "low columns", "high columns")


def leaves_of(shape, a, b, size):
    """Return the masks of the three leaves of a tree."""
    rows, columns = np.indices(size)
    low_row, low_column = rows <= a, columns <= b
    half, other = {
        "low rows": (low_row, low_column),
        "high rows": (~low_row, low_column),
        "low columns": (low_column, low_row),
        "high columns": (~low_column, low_row),
    }[shape]
    return half & other, half & ~other, ~half


def quadrants_of(a, b, size):
    rows, columns = np.indices(size)
    low_row, low_column = rows <= a, columns <= b
    return low_row & low_column, low_row & ~low_column, ~low_row & low_column, ~low_row & ~low_column


def is_legal(H, W, leaf, min_samples_leaf, min_hessian):
    least = max(min_hessian, np.finfo(float).tiny)
    return W[leaf].sum() >= min_samples_leaf and (H[:, leaf].sum(axis=1) >= least).all()


def score(G, H, leaf, l2):
    return sum(g[leaf].sum() ** 2 / (h[leaf].sum() + l2) for g, h in zip(G, H, strict=True))


def gain(G, H, leaves, l2):
    everything = np.ones(G.shape[1:], dtype=bool)
    return sum(score(G, H, leaf, l2) for leaf in leaves) - score(G, H, everything, l2)


def update(G, H, leaves, l2):
    u = np.zeros(G.shape)
    for leaf in leaves:
        for k in range(len(G)):
            h = H[k][leaf].sum()
            u[k][leaf] = -G[k][leaf].sum() / (h + l2) if h > 0 else 0.0
    return u


def all_trees(G, H, W, min_samples_leaf=0.0, min_hessian=0.0, l2=0.0):
    """Return {(shape, a, b): gain} of all legal trees."""
    size, found = G.shape[1:], {}
    for shape in SHAPES:
        for a in range(size[0] - 1):
            for b in range(size[1] - 1):
                leaves = leaves_of(shape, a, b, size)
                if all(is_legal(H, W, leaf, min_samples_leaf, min_hessian) for leaf in leaves):
                    found[shape, a, b] = gain(G, H, leaves, l2)
    return found


def strength(G, H, W, min_samples_leaf=0.0, min_hessian=0.0, l2=0.0):
    """Return the largest gain of four legal quadrants over the total weight, 0 without a legal cut."""
    size, best = G.shape[1:], 0.0
    for a in range(size[0] - 1):
        for b in range(size[1] - 1):
            leaves = quadrants_of(a, b, size)
            if all(is_legal(H, W, leaf, min_samples_leaf, min_hessian) for leaf in leaves):
                best = max(best, gain(G, H, leaves, l2))
    return best / W.sum()
