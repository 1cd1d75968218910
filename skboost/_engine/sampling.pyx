"""Keys of rows by content, totals over equal keys, and draws of row copies.

Every draw is a function of (stream key, row key, copy number), so neither the order of the rows nor the number of
threads has an influence.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

import numpy as np

cdef extern from "rng.h" nogil:
    uint64_t skb_mix64(uint64_t x) noexcept
    uint64_t skb_key(uint64_t seed, uint64_t stream, uint64_t iteration, uint64_t output) noexcept

cdef extern from "sort.h" nogil:
    ctypedef union skb_cell:
        uint64_t key
        double number
    ctypedef struct skb_columns:
        skb_cell *keys
        skb_cell *spare
        double *weights
        double *spare_weights
    void skb_sort_keys(skb_columns *columns, Py_ssize_t n) noexcept

# Sums and products that wrap on purpose stay in C, where the overflow checks of the debug build do not see them.
cdef extern from *:
    """
    #include <string.h>

    #define SKB_GOLDEN 0x9e3779b97f4a7c15ULL

    static inline uint64_t skb_combine(uint64_t key, uint64_t value)
    {
        return skb_mix64(key ^ skb_mix64(value + SKB_GOLDEN));
    }

    static inline uint64_t skb_hash_copy(uint64_t stream_key, uint64_t key, uint64_t copy)
    {
        return skb_mix64(skb_mix64(key ^ stream_key) + SKB_GOLDEN * (copy + 1));
    }

    static inline uint64_t skb_load_word(const uint8_t *bytes)
    {
        uint64_t word;
        memcpy(&word, bytes, 8);
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word); /* the same hash on every machine */
    #endif
        return word;
    }
    """
    const uint64_t SKB_GOLDEN
    uint64_t skb_combine(uint64_t key, uint64_t value) noexcept nogil
    uint64_t skb_hash_copy(uint64_t stream_key, uint64_t key, uint64_t copy) noexcept nogil
    uint64_t skb_load_word(const uint8_t *bytes) noexcept nogil

cdef enum:
    HASH_GRAIN = 500_000     # codes per thread, about 0.1 ms: below it a thread costs more than it brings
    DRAW_GRAIN = 100_000     # rows per thread

cdef struct slot_t:
    uint64_t key
    double total                    # 0 marks a free slot: only positive amounts enter


def row_hashes(const uint8_t[:, ::1] codes_row, Py_ssize_t n_features, int n_threads):
    """Return a 64-bit hash of the codes of every row; the padding behind the last feature must be zero."""
    cdef Py_ssize_t n = codes_row.shape[0], stride = codes_row.shape[1], n_words = (n_features + 7) // 8, row
    if n_words * 8 > stride:
        raise ValueError("codes_row is narrower than n_features rounded up to a multiple of 8")
    hashes_array = np.full(n, SKB_GOLDEN, dtype=np.uint64)
    if n == 0 or n_words == 0:
        return hashes_array
    cdef uint64_t[::1] hashes = hashes_array
    cdef const uint8_t *codes = &codes_row[0, 0]
    n_threads = _useful_threads(n * n_features, HASH_GRAIN, n_threads)
    for row in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        hashes[row] = _hash_row(codes + row * stride, n_words)
    return hashes_array


cdef int _useful_threads(Py_ssize_t work, Py_ssize_t grain, int asked) noexcept nogil:
    return <int> max(1, min(asked, 1 + work // grain))


cdef inline uint64_t _hash_row(const uint8_t *codes, Py_ssize_t n_words) noexcept nogil:
    cdef uint64_t value = SKB_GOLDEN
    cdef Py_ssize_t word
    for word in range(n_words):
        value = skb_mix64(value ^ skb_load_word(codes + 8 * word))
    return value


def combine(const uint64_t[::1] keys, const uint64_t[::1] values):
    """Return new keys that depend on the keys and on the values."""
    cdef Py_ssize_t n = keys.shape[0], i
    if values.shape[0] != n:
        raise ValueError("keys and values differ in length")
    combined_array = np.empty(n, dtype=np.uint64)
    cdef uint64_t[::1] combined = combined_array
    with nogil:
        for i in range(n):
            combined[i] = skb_combine(keys[i], values[i])
    return combined_array


def group_totals(const uint64_t[::1] keys, amounts):
    """Return (before, total): sums of the amounts (None: 1) over the rows of equal key.

    before is the sum over the earlier rows of the group, total the sum over all of it; both are 0 for rows of amount 0,
    which stay outside their group. Amounts are at least 0 and lie on a grid on which sums are exact.
    """
    cdef Py_ssize_t n = keys.shape[0], i
    cdef const double[::1] amount = amounts
    if amounts is not None and amount.shape[0] != n:
        raise ValueError("keys and amounts differ in length")
    before_array, total_array = np.zeros(n), np.zeros(n)
    where_array = np.empty(n, dtype=np.uint64)
    cdef double[::1] before = before_array, total = total_array
    cdef uint64_t[::1] where = where_array
    cdef bint unit = amounts is None
    cdef uint64_t mask = 1
    while mask < <uint64_t> n + n // 2 + 1:
        mask *= 2
    cdef slot_t *slots = <slot_t *> calloc(mask, sizeof(slot_t))
    if slots == NULL:
        raise MemoryError
    mask -= 1
    with nogil:
        for i in range(n):
            if not unit and amount[i] == 0:
                continue
            where[i] = _find_slot(slots, mask, keys[i])
            before[i] = slots[where[i]].total
            slots[where[i]].key = keys[i]
            slots[where[i]].total += 1.0 if unit else amount[i]
        for i in range(n):
            if unit or amount[i] != 0:
                total[i] = slots[where[i]].total
        free(slots)
    return before_array, total_array


cdef inline uint64_t _find_slot(const slot_t *slots, uint64_t mask, uint64_t key) noexcept nogil:
    cdef uint64_t at = skb_mix64(key) & mask
    while slots[at].total != 0 and slots[at].key != key:
        at = (at + 1) & mask
    return at


def group_rows(const uint64_t[::1] keys):
    """Return (order, start): the rows sorted by key, and where in this order each group of equal keys starts.

    Both are int64; start has the number of rows as a further last entry. Rows of equal key stay in their order.
    """
    cdef Py_ssize_t n = keys.shape[0], i, n_groups = 0
    cdef skb_columns columns
    order_array, start_array = np.empty(n, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    cdef int64_t[::1] order = order_array, start = start_array
    if n >= 1 << 32:
        raise ValueError("more than 2**32 - 1 rows are not supported")
    cdef double *memory = <double *> malloc((4 * n + 1) * sizeof(double))
    if memory == NULL:
        raise MemoryError
    with nogil:
        columns.keys, columns.spare = <skb_cell *> memory, <skb_cell *> memory + n
        columns.weights, columns.spare_weights = memory + 2 * n, memory + 3 * n
        for i in range(n):
            columns.keys[i].key = keys[i]
            columns.weights[i] = <double> i
        skb_sort_keys(&columns, n)
        for i in range(n):
            order[i] = <int64_t> columns.weights[i]
            if i == 0 or columns.keys[i].key != columns.keys[i - 1].key:
                start[n_groups] = i
                n_groups += 1
        start[n_groups] = n
        free(memory)
    return order_array, start_array[:n_groups + 1].copy()


def copy_hashes(
    uint64_t seed,
    uint64_t stream,
    uint64_t iteration,
    const uint64_t[::1] keys,
    const int64_t[::1] first,
    const int64_t[::1] n_copies,
):
    """Return the keyed hash of every copy, the copies of a row next to each other."""
    cdef uint64_t stream_key = skb_key(seed, stream, iteration, 0)
    cdef Py_ssize_t n = keys.shape[0], i
    cdef int64_t at = 0, copy
    if first.shape[0] != n or n_copies.shape[0] != n:
        raise ValueError("keys, first and n_copies differ in length")
    hashes_array = np.empty(np.sum(n_copies), dtype=np.uint64)
    cdef uint64_t[::1] hashes = hashes_array
    with nogil:
        for i in range(n):
            for copy in range(first[i], first[i] + n_copies[i]):
                hashes[at] = skb_hash_copy(stream_key, keys[i], copy)
                at += 1
    return hashes_array


def draw_copies(
    uint64_t limit,
    uint64_t seed,
    uint64_t stream,
    uint64_t iteration,
    const uint64_t[::1] keys,
    const int64_t[::1] first,
    const int64_t[::1] n_copies,
    int n_threads,
):
    """Return how many copies of each row have a keyed hash below the limit, int32."""
    cdef uint64_t stream_key = skb_key(seed, stream, iteration, 0)
    cdef Py_ssize_t n = keys.shape[0], i
    if first.shape[0] != n or n_copies.shape[0] != n:
        raise ValueError("keys, first and n_copies differ in length")
    drawn_array = np.empty(n, dtype=np.int32)
    cdef int32_t[::1] drawn = drawn_array
    n_threads = _useful_threads(n, DRAW_GRAIN, n_threads)
    for i in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
        drawn[i] = _count_below(limit, stream_key, keys[i], first[i], n_copies[i])
    return drawn_array


cdef inline int32_t _count_below(
    uint64_t limit, uint64_t stream_key, uint64_t key, int64_t first, int64_t n_copies
) noexcept nogil:
    cdef int32_t count = 0
    cdef int64_t copy
    for copy in range(first, first + n_copies):
        count += skb_hash_copy(stream_key, key, copy) < limit
    return count
