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


def reordered(table, *orders):
    """Return (G, H, W) with rows and columns in other orders."""
    rows, columns = np.ix_(*orders)
    return tuple(array[..., rows, columns] for array in table)


def leading_order(table, smooth, rounds=8):
    """Return the order of the rows by the leading pattern of their mean gradients, found by power iteration."""
    G, H, W = table
    with np.errstate(all="ignore"):
        size = np.nansum(np.where(W + smooth > 0, G**2 / (H + smooth), 0), axis=(1, 2))
    v = np.zeros((len(G), G.shape[2]))
    v[size.argmax()] = np.where(2 * W.sum(axis=0).cumsum() <= W.sum(), -1.0, 1.0)
    for i in range(rounds):
        u = _ratio(np.einsum("kab,kb->a", G, v), np.einsum("kab,kb->a", H, v**2) + smooth)
        if i == rounds - 1:
            break
        v = _ratio(np.einsum("kab,a->kb", G, u), np.einsum("kab,a->kb", H, u**2) + smooth)
        if np.abs(v).max() == 0:
            break
        v /= np.abs(v).max()
    return np.argsort(u, kind="stable")


def _ratio(a, b):
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def strength_of_rows(codes, sizes, levels, G, H, w, min_samples_leaf=0.0, min_hessian=0.0, l2=0.0, smooth=0.0):
    """Return the strength of a pair of axes from rows; G and H, of shape (n_outputs, n_rows), are unweighted."""

    def table(rows):
        arrays = [np.zeros((len(G), *sizes)), np.zeros((len(G), *sizes)), np.zeros(sizes)]
        for i in rows:
            cell = codes[0][i], codes[1][i]
            arrays[0][(slice(None), *cell)] += w[i] * G[:, i]
            arrays[1][(slice(None), *cell)] += w[i] * H[:, i]
            arrays[2][cell] += w[i]
        return arrays

    def best(found, axis_orders, share):
        options = share * min_samples_leaf, share * min_hessian, l2
        return max(
            strength(*reordered(found, first, second), *options) * found[2].sum()
            for first in axis_orders[0]
            for second in axis_orders[1]
        )

    rows = np.flatnonzero(w)
    whole, halves = table(rows), [table(rows[i::2]) for i in (0, 1)]
    plain = []
    for axis in (0, 1):
        plain.append([np.arange(sizes[axis])])
        missing = np.take(whole[2], 0, axis=axis).sum()
        if not levels[axis] and missing > 0 and missing >= min_samples_leaf:
            plain[axis].append(np.roll(np.arange(sizes[axis]), -1))
    gain = best(whole, plain, 1.0)
    if any(levels):
        for i in (0, 1):
            other, learned = halves[1 - i], list(plain)
            if levels[0]:
                learned[0] = [leading_order(other, smooth)]
            if levels[1]:
                swapped = [np.swapaxes(array, -1, -2) for array in other]
                learned[1] = [leading_order(swapped, smooth)]
            gain += best(halves[i], learned, 0.5) - best(halves[i], plain, 0.5)
    return max(gain, 0.0) / w.sum()
