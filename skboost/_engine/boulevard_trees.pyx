"""Trees on the cells of a term for Boulevard boosting: structures, leaf values, the kernel they average to.

A term has one or two axes of cells. On each axis the first cell holds missing values and the last one levels never
seen; both stay outside all leaves, -1, where no row has them. Missing values have leaves of their own. Ordered axes are
cut between neighbours, others in an order that is drawn (random structures) or by mean value (greedy ones).
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int16_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

cdef extern from "rng.h" nogil:
    uint64_t skb_key(uint64_t seed, uint64_t stream, uint64_t iteration, uint64_t output) noexcept
    double skb_uniform(uint64_t key, uint64_t counter) noexcept

cdef enum:
    GRAIN = 2000            # cells per thread, about 50 us: below it a thread costs more than it brings
    MOST_LEAVES = 32000
    PATIENCE = 4            # draws without a cut, per wanted leaf, after which a random tree of two axes is complete

# A gain below this share of the root's sum of squares is rounding.
cdef double LEAST_GAIN = 1e-12

cdef struct box_t:
    int first[2]
    int last[2]
    double gain
    int axis
    int at

cdef struct tree_t:
    int length[2]
    int *order[2]       # stored cell at each position of an axis
    double *count       # prefix sums of shape (length[0] + 1, length[1] + 1)
    double *total
    box_t *boxes
    int n_boxes
    int most
    double min_leaf
    double l2


def grow(
    bint greedy,
    const int64_t[::1] starts,
    const int64_t[:, ::1] shapes,
    const uint8_t[:, ::1] ordered,
    const double[::1] weights,
    const double[::1] counts,
    const double[::1] sums,
    int max_leaves,
    double min_leaf,
    double l2,
    uint64_t seed,
    uint64_t stream,
    uint64_t iteration,
    int n_threads,
):
    """Grow a tree on every term; return the leaf of every cell, int16, -1 for cells outside.

    `weights` are the rows of all cells, `counts` and `sums` those that the tree may see; `sums` matter to greedy trees
    only. The shape of a term with one axis ends in 1.
    """
    cdef Py_ssize_t n_terms = shapes.shape[0], t
    cdef int failed = 0
    check_terms(starts, shapes, ordered, (weights, counts, sums))
    if not 2 <= max_leaves <= MOST_LEAVES:
        raise ValueError(f"max_leaves must lie between 2 and {MOST_LEAVES}, got {max_leaves}")
    leaves = np.full(starts[n_terms], -1, dtype=np.int16)
    n_threads = <int> max(1, min(n_threads, 1 + starts[n_terms] // GRAIN))
    cdef int16_t[::1] leaf = leaves
    for t in prange(n_terms, nogil=True, num_threads=n_threads, schedule="dynamic"):
        failed += grow_term(greedy, &shapes[t, 0], &ordered[t, 0], &weights[starts[t]], &counts[starts[t]],
                            &sums[starts[t]], max_leaves, min_leaf, l2, skb_key(seed, stream, iteration, t),
                            &leaf[starts[t]])
    if failed:
        raise MemoryError
    return leaves


cdef check_terms(starts, shapes, ordered, arrays):
    """Raise ValueError unless the arrays have the cells of the terms."""
    starts, shapes = np.asarray(starts), np.asarray(shapes)
    n_cells = starts[len(starts) - 1]
    right = shapes.ndim == 2 and shapes.shape[1] == 2 and ordered.shape[0] == shapes.shape[0]
    right = right and ordered.shape[1] == 2 and len(starts) == len(shapes) + 1 and starts[0] == 0
    right = right and (shapes[:, 0] >= 2).all() and ((shapes[:, 1] == 1) | (shapes[:, 1] >= 2)).all()
    if not (right and np.array_equal(np.diff(starts), shapes.prod(axis=1))):
        raise ValueError("starts, shapes and ordered do not describe terms")
    if any(array.shape[0] != n_cells for array in arrays):
        raise ValueError("an array does not have one entry per cell")


cdef int grow_term(
    bint greedy,
    const int64_t *shape,
    const uint8_t *ordered,
    const double *weight,
    const double *count,
    const double *total,
    int max_leaves,
    double min_leaf,
    double l2,
    uint64_t key,
    int16_t *leaf,
) noexcept nogil:
    cdef tree_t tree
    cdef int n0 = <int> shape[0], n1 = <int> shape[1], k, i, j
    cdef Py_ssize_t most = min(max_leaves, n0 * <Py_ssize_t> n1) + 4
    cdef uint64_t counter = 0
    cdef char *memory = <char *> malloc(most * sizeof(box_t) + 2 * (n0 + 1) * <Py_ssize_t> (n1 + 1) * sizeof(double)
                                        + 4 * (n0 + n1) * sizeof(double))
    cdef double *means
    if memory == NULL:
        return 1
    tree.boxes = <box_t *> memory
    tree.count = <double *> (memory + most * sizeof(box_t))
    tree.total = tree.count + (n0 + 1) * (n1 + 1)
    means = tree.total + (n0 + 1) * (n1 + 1)
    tree.order[0] = <int *> (means + n0 + n1)
    tree.order[1] = tree.order[0] + n0
    tree.most, tree.min_leaf, tree.l2 = max_leaves, min_leaf, l2
    for k in range(2):
        counter = lay_out_axis(&tree, k, shape, ordered[k], weight, count, total, greedy, key, counter, means)
    prefix_sums(&tree, n1, count, total)
    first_boxes(&tree)
    if greedy:
        cut_by_gain(&tree)
    elif n1 == 1:
        cut_line_at_random(&tree, key, counter, <uint8_t *> means)
    else:
        cut_at_random(&tree, key, counter)
    for k in range(tree.n_boxes):
        for i in range(tree.boxes[k].first[0], tree.boxes[k].last[0]):
            for j in range(tree.boxes[k].first[1], tree.boxes[k].last[1]):
                leaf[tree.order[0][i] * n1 + tree.order[1][j]] = <int16_t> k
    free(memory)
    return 0


# ---- axes ------------------------------------------------------------------------------------------------------------


cdef double slice_sum(int axis, int cell, const int64_t *shape, const double *values) noexcept nogil:
    """Return the sum of a slice across an axis."""
    cdef Py_ssize_t n1 = shape[1], i
    cdef double total = 0.0
    if axis == 0:
        for i in range(n1):
            total += values[cell * n1 + i]
    else:
        for i in range(shape[0]):
            total += values[i * n1 + cell]
    return total


cdef uint64_t lay_out_axis(
    tree_t *tree,
    int axis,
    const int64_t *shape,
    bint is_ordered,
    const double *weight,
    const double *count,
    const double *total,
    bint greedy,
    uint64_t key,
    uint64_t counter,
    double *means,
) noexcept nogil:
    """Write the order of the cells of an axis, missing values first; return the next counter of draws."""
    cdef int size = <int> shape[axis], n = 0, cell, i, j, other
    cdef int *order = tree.order[axis]
    cdef int first = 0
    cdef double rows, mean
    if size == 1:
        order[0] = 0
        tree.length[axis] = 1
        return counter
    if slice_sum(axis, 0, shape, weight) > 0:
        order[n] = 0
        n += 1
        first = 1
    for cell in range(1, size - 1):
        order[n] = cell
        n += 1
    if slice_sum(axis, size - 1, shape, weight) > 0:
        order[n] = size - 1
        n += 1
    tree.length[axis] = n
    if is_ordered:
        return counter
    if not greedy:
        for i in range(n - 1, first, -1):
            j = first + <int> (skb_uniform(key, counter) * (i - first + 1))
            counter += 1
            other = order[i]
            order[i] = order[j]
            order[j] = other
        return counter
    for i in range(first, n):
        cell = order[i]
        rows = slice_sum(axis, cell, shape, count)
        mean = slice_sum(axis, cell, shape, total) / rows if rows > 0 else 0.0
        j = i
        while j > first and means[j - 1] > mean:
            means[j] = means[j - 1]
            order[j] = order[j - 1]
            j -= 1
        means[j] = mean
        order[j] = cell
    return counter


cdef void prefix_sums(tree_t *tree, int n1, const double *count, const double *total) noexcept nogil:
    cdef int i, j, cell
    cdef Py_ssize_t width = tree.length[1] + 1, at
    cdef double rows, values
    for j in range(width):
        tree.count[j] = 0.0
        tree.total[j] = 0.0
    for i in range(tree.length[0]):
        rows = values = 0.0
        at = (i + 1) * width
        tree.count[at] = 0.0
        tree.total[at] = 0.0
        for j in range(tree.length[1]):
            cell = tree.order[0][i] * n1 + tree.order[1][j]
            rows += count[cell]
            values += total[cell]
            tree.count[at + j + 1] = tree.count[at - width + j + 1] + rows
            tree.total[at + j + 1] = tree.total[at - width + j + 1] + values


cdef double box_sum(const tree_t *tree, const double *prefix, const box_t *box) noexcept nogil:
    cdef Py_ssize_t width = tree.length[1] + 1
    return (prefix[box.last[0] * width + box.last[1]] - prefix[box.first[0] * width + box.last[1]]
            - prefix[box.last[0] * width + box.first[1]] + prefix[box.first[0] * width + box.first[1]])


cdef void first_boxes(tree_t *tree) noexcept nogil:
    """Start with the values, and the missing values of either axis apart."""
    cdef int k, part
    cdef int n_parts[2]
    cdef int edges[2][3]
    cdef int i, j
    cdef box_t *box
    for k in range(2):
        edges[k][0] = 0
        if tree.length[k] > 1 and tree.order[k][0] == 0:
            edges[k][1], edges[k][2], n_parts[k] = 1, tree.length[k], 2
        else:
            edges[k][1], n_parts[k] = tree.length[k], 1
    tree.n_boxes = 0
    for part in range(n_parts[0] * n_parts[1]):
        i, j = part // n_parts[1], part % n_parts[1]
        box = &tree.boxes[tree.n_boxes]
        box.first[0], box.last[0] = edges[0][i], edges[0][i + 1]
        box.first[1], box.last[1] = edges[1][j], edges[1][j + 1]
        tree.n_boxes += 1


cdef void cut_box(tree_t *tree, int k, int axis, int at) noexcept nogil:
    """Cut box k before a position of an axis; the upper part becomes the last box."""
    tree.boxes[tree.n_boxes] = tree.boxes[k]
    tree.boxes[k].last[axis] = at
    tree.boxes[tree.n_boxes].first[axis] = at
    tree.n_boxes += 1


cdef bint both_hold(const tree_t *tree, const box_t *box, int axis, int at) noexcept nogil:
    """Return whether both parts of a cut hold enough rows, at least one each."""
    cdef box_t part = box[0]
    cdef double rows = box_sum(tree, tree.count, box), below
    part.last[axis] = at
    below = box_sum(tree, tree.count, &part)
    return below > 0 and rows - below > 0 and below >= tree.min_leaf and rows - below >= tree.min_leaf


# ---- random cuts -----------------------------------------------------------------------------------------------------


cdef void cut_line_at_random(tree_t *tree, uint64_t key, uint64_t counter, uint8_t *scratch) noexcept nogil:
    """Try all places of a term of one axis in a random order."""
    cdef box_t whole = tree.boxes[tree.n_boxes - 1]
    cdef box_t piece = whole
    cdef int n = whole.last[0] - whole.first[0] - 1, i, j, at, low, high
    cdef int n_kept = tree.n_boxes
    cdef int *places = <int *> scratch
    cdef uint8_t *cut = scratch + (n + 1) * sizeof(int)
    for i in range(n):
        places[i] = whole.first[0] + 1 + i
        cut[i] = 0
    for i in range(n):
        if n_kept >= tree.most:
            break
        j = i + <int> (skb_uniform(key, counter) * (n - i))
        counter += 1
        at = places[j]
        places[j] = places[i]
        low, high = at - 1, at + 1
        while low > whole.first[0] and not cut[low - whole.first[0] - 1]:
            low -= 1
        while high < whole.last[0] and not cut[high - whole.first[0] - 1]:
            high += 1
        piece.first[0], piece.last[0] = low, high
        if both_hold(tree, &piece, 0, at):
            cut[at - whole.first[0] - 1] = 1
            n_kept += 1
    for i in range(n):
        if cut[i]:
            cut_box(tree, tree.n_boxes - 1, 0, whole.first[0] + 1 + i)


cdef void cut_at_random(tree_t *tree, uint64_t key, uint64_t counter) noexcept nogil:
    """Cut boxes, drawn by their numbers of rows, at random places of random axes."""
    cdef int failures = 0, k, axis, at, n
    cdef double left, rows = 0.0
    cdef box_t *box
    for k in range(tree.n_boxes):
        rows += box_sum(tree, tree.count, &tree.boxes[k])
    while tree.n_boxes < tree.most and failures < PATIENCE * tree.most:
        left = skb_uniform(key, counter) * rows
        k = 0
        while k < tree.n_boxes - 1:
            left -= box_sum(tree, tree.count, &tree.boxes[k])
            if left < 0:
                break
            k += 1
        box = &tree.boxes[k]
        axis = skb_uniform(key, counter + 1) < 0.5
        n = box.last[axis] - box.first[axis] - 1
        at = box.first[axis] + 1 + <int> (skb_uniform(key, counter + 2) * n)
        counter += 3
        if n > 0 and both_hold(tree, box, axis, at):
            cut_box(tree, k, axis, at)
        else:
            failures += 1


# ---- greedy cuts -----------------------------------------------------------------------------------------------------


cdef void find_best(const tree_t *tree, box_t *box) noexcept nogil:
    """Store the best cut of a box, of gain -inf if there is none."""
    cdef box_t part
    cdef double rows = box_sum(tree, tree.count, box), total = box_sum(tree, tree.total, box), below, sum_below, gain
    cdef int axis, at
    box.gain, box.axis, box.at = -INFINITY, 0, 0
    if rows <= 0:
        return
    for axis in range(2):
        part = box[0]
        for at in range(box.first[axis] + 1, box.last[axis]):
            part.last[axis] = at
            below = box_sum(tree, tree.count, &part)
            if below <= 0 or rows - below <= 0 or below < tree.min_leaf or rows - below < tree.min_leaf:
                continue
            sum_below = box_sum(tree, tree.total, &part)
            gain = (sum_below * sum_below / (below + tree.l2)
                    + (total - sum_below) * (total - sum_below) / (rows - below + tree.l2)
                    - total * total / (rows + tree.l2))
            if gain > box.gain:
                box.gain, box.axis, box.at = gain, axis, at


cdef void cut_by_gain(tree_t *tree) noexcept nogil:
    """Cut the box of largest gain until no cut gains."""
    cdef int k, best
    cdef double least = 0.0, total, rows
    for k in range(tree.n_boxes):
        find_best(tree, &tree.boxes[k])
        total, rows = box_sum(tree, tree.total, &tree.boxes[k]), box_sum(tree, tree.count, &tree.boxes[k])
        least += total * total / rows if rows > 0 else 0.0
    least *= LEAST_GAIN
    while tree.n_boxes < tree.most:
        best = 0
        for k in range(1, tree.n_boxes):
            if tree.boxes[k].gain > tree.boxes[best].gain:
                best = k
        if not (tree.boxes[best].gain > least and tree.boxes[best].gain > 0):
            break
        cut_box(tree, best, tree.boxes[best].axis, tree.boxes[best].at)
        find_best(tree, &tree.boxes[best])
        find_best(tree, &tree.boxes[tree.n_boxes - 1])


# ---- values and kernel -----------------------------------------------------------------------------------------------


def update(
    const int16_t[::1] leaf,
    const int64_t[::1] starts,
    const double[::1] weights,
    const double[::1] counts,
    const double[::1] sums,
    double l2,
    double keep,
    double step,
    double[::1] scores,
):
    """Replace the scores of every term by ``keep * scores + step * tree``, in place.

    The trees have the given leaves and the values ``sum / (count + l2)``, and are centred: their mean over all rows,
    `weights` in every cell, is 0.
    """
    cdef Py_ssize_t t, cell, n_terms = starts.shape[0] - 1, m = leaf.shape[0]
    cdef double mean, rows
    same = weights.shape[0] == m and counts.shape[0] == m and sums.shape[0] == m and scores.shape[0] == m
    if not same or n_terms < 0 or starts[0] != 0 or starts[n_terms] != m or (np.diff(starts) < 1).any():
        raise ValueError("an array does not have one entry per cell")
    cdef int n_leaves = max(0, int(np.max(leaf, initial=-1)) + 1)
    cdef double[::1] n_of = np.zeros(n_leaves), value = np.zeros(n_leaves)
    for t in range(n_terms):
        n_of[:] = 0
        value[:] = 0
        with nogil:
            for cell in range(starts[t], starts[t + 1]):
                if leaf[cell] >= 0:
                    n_of[leaf[cell]] += counts[cell]
                    value[leaf[cell]] += sums[cell]
            for cell in range(n_leaves):
                value[cell] = value[cell] / (n_of[cell] + l2) if n_of[cell] > 0 else 0.0
            mean = rows = 0.0
            for cell in range(starts[t], starts[t + 1]):
                rows += weights[cell]
                if leaf[cell] >= 0:
                    mean += weights[cell] * value[leaf[cell]]
            mean /= rows
            for cell in range(starts[t], starts[t + 1]):
                scores[cell] = keep * scores[cell] + step * ((value[leaf[cell]] if leaf[cell] >= 0 else 0.0) - mean)


def kernel(const int16_t[:, ::1] leaves, const double[::1] weights, double kappa):
    """Return the mean over trees of ``sum_l 1_l 1_l' / (n_l + kappa)``, (n_cells, n_cells), for one term.

    `leaves` holds the leaf of every cell in every tree, -1 for none; n_l are the rows of a leaf by `weights`.
    """
    cdef Py_ssize_t n_trees = leaves.shape[0], m = leaves.shape[1], b, i, j
    cdef int n_leaves = max(1, int(np.max(leaves, initial=-1)) + 1), k
    if weights.shape[0] != m:
        raise ValueError("weights needs one entry per cell")
    result = np.zeros((m, m))
    corners_array = np.zeros((m + 1, m + 1))
    cdef double[:, ::1] table = result, corners = corners_array
    cdef double[::1] rows = np.zeros(n_leaves)
    cdef int64_t[:, ::1] found = np.zeros((3, n_leaves), dtype=np.int64)    # first cell, last cell, number of cells
    cdef int64_t[::1] following = np.zeros(m, dtype=np.int64)                   # next cell of the same leaf
    with nogil:
        for b in range(n_trees):
            for k in range(n_leaves):
                found[2, k] = 0
                rows[k] = 0.0
            for i in range(m):
                k = leaves[b, i]
                if k >= 0:
                    if found[2, k] == 0:
                        found[0, k] = i
                    else:
                        following[found[1, k]] = i
                    found[1, k] = i
                    found[2, k] += 1
                    rows[k] += weights[i]
            for k in range(n_leaves):
                if found[2, k] > 0 and rows[k] > 0:
                    add_leaf(found[0, k], found[1, k], found[2, k], &following[0], 1.0 / (rows[k] + kappa), corners,
                             table)
        for i in range(m):
            for j in range(m):
                corners[i, j] += corners[i, j - 1] if j > 0 else 0.0
        for i in range(m):
            for j in range(i, m):
                if i > 0:
                    corners[i, j] += corners[i - 1, j]
                table[i, j] = (table[i, j] + corners[i, j]) / n_trees
                table[j, i] = table[i, j]
            for j in range(i):
                corners[i, j] += corners[i - 1, j]
    return result


cdef void add_leaf(
    Py_ssize_t first,
    Py_ssize_t last,
    int64_t n_cells,
    const int64_t *following,
    double value,
    double[:, ::1] corners,
    double[:, ::1] table,
) noexcept nogil:
    """Add a leaf: neighbouring cells by the corners of their square, others one by one."""
    cdef Py_ssize_t i, j, _a, _b
    if last - first + 1 == n_cells:
        corners[first, first] += value
        corners[first, last + 1] -= value
        corners[last + 1, first] -= value
        corners[last + 1, last + 1] += value
        return
    i = first
    for _a in range(n_cells):
        j = first
        for _b in range(n_cells):
            table[i, j] += value
            j = following[j]
        i = following[i]
