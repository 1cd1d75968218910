"""Counts of concordant pairs in exact integers: a Fenwick tree over the ranks of the risks."""

from libc.stdint cimport uint64_t

import numpy as np

cdef extern from "wide.h":
    ctypedef struct skb_wide:
        uint64_t low
        uint64_t high
    void skb_wide_add_product(skb_wide *, uint64_t, uint64_t, int) noexcept nogil


cdef inline uint64_t prefix(const uint64_t *tree, Py_ssize_t k) noexcept nogil:
    """Sum of the first k ranks."""
    cdef uint64_t total = 0
    while k > 0:
        total += tree[k]
        k &= k - 1
    return total


cdef inline void insert(uint64_t *tree, Py_ssize_t n, Py_ssize_t rank, uint64_t units) noexcept nogil:
    cdef Py_ssize_t k = rank + 1
    while k <= n:
        tree[k] += units
        k += k & -k


def pair_weights(begin, end, risk, units):
    """Return the weights of (concordant, tied, comparable) pairs as Python integers.

    Row i comes before row j when ``end[i] < begin[j]``; the pair is concordant when then ``risk[i] > risk[j]``, and its
    weight is the product of both weights.

    Parameters
    ----------
    begin, end, risk : arrays of shape (n_rows,)
        Any numbers that can be compared.
    units : array of shape (n_rows,)
        Whole-number weights whose sum is below 2^53.
    """
    cdef Py_ssize_t n = len(begin), n_risks, i, j, k, inserted
    cdef Py_ssize_t[::1] by_begin = np.argsort(begin, kind="stable"), by_end = np.argsort(end, kind="stable")
    cdef Py_ssize_t[::1] rank, first
    cdef uint64_t[::1] tree, weight
    cdef uint64_t below, upto
    cdef skb_wide concordant = skb_wide(0, 0), tied = skb_wide(0, 0), comparable = skb_wide(0, 0)
    cdef uint64_t total = 0
    if not len(end) == len(risk) == len(units) == n:
        raise ValueError("begin, end, risk and units need one entry per row")
    if n == 0:
        return 0, 0, 0
    distinct, ranks = np.unique(risk, return_inverse=True)
    rank, n_risks = ranks.reshape(-1).astype(np.intp), len(distinct)
    weight = np.asarray(units).astype(np.uint64)
    tree = np.zeros(n_risks + 1, dtype=np.uint64)
    # In the order of the ends: how many rows begin no later.
    first = np.searchsorted(np.asarray(begin)[by_begin], np.asarray(end)[by_end], side="right").astype(np.intp)
    with nogil:
        inserted = n
        for k in range(n - 1, -1, -1):
            i = by_end[k]
            while inserted > first[k]:
                inserted -= 1
                j = by_begin[inserted]
                insert(&tree[0], n_risks, rank[j], weight[j])
                total += weight[j]
            if total == 0:
                continue
            below = prefix(&tree[0], rank[i])
            upto = prefix(&tree[0], rank[i] + 1)
            skb_wide_add_product(&concordant, weight[i], below, 0)
            skb_wide_add_product(&tied, weight[i], upto - below, 0)
            skb_wide_add_product(&comparable, weight[i], total, 0)
    return as_int(concordant), as_int(tied), as_int(comparable)


cdef as_int(skb_wide value):
    return int(value.low) + (int(value.high) << 64)
