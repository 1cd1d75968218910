"""Forests on rows: margins, virtual-ensemble members and leaf indices.

A block of 256 rows is binned once into columns of codes. Then every tree gives the block its leaf positions and the
sums take one step, ``F = F * mul[t] + add[t] * value_t(x)``, in float64 and in the order of the trees. So the result of
a row depends neither on its block nor on the thread count nor on the instruction set, and the state after k trees,
copied out on the way, is the model that stopped after k trees.

The layout that all doors take is a dict of arrays made for a ``Forest`` (``skboost/_forest_layout.py``) out of arrays
in which every index is proved. Finding the leaves of a block and adding their values are separate steps, so that what
else a leaf knows can be added beside its value.
"""

from cython.parallel cimport parallel
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memset

from skboost._engine.binning cimport bin_block
from skboost._engine.layout cimport open_plan, open_source, plan_t, source_t
from skboost._engine.omp cimport skb_num_threads, skb_thread_num

cdef extern from *:
    """
    #include "isa.h"
    #define SKB_IMPL "predict_impl.h"
    #include "isa_expand.h"
    """
    const int SKB_BLOCK
    const int SKB_GROUP
    void skb_isa_init() noexcept nogil
    void skb_masks "SKB_DISPATCH(skb_masks)" (
        const void *nodes, Py_ssize_t n_nodes, const uint8_t *sets, const uint8_t *codes, int groups, uint8_t *slots,
        uint8_t *spare, uint8_t *leaf) noexcept nogil
    void skb_level_bits "SKB_DISPATCH(skb_level_bits)" (
        const void *levels, int depth, const uint8_t *sets, const uint8_t *codes, int groups, uint8_t *spare,
        uint8_t *index) noexcept nogil
    void skb_add_bytes "SKB_DISPATCH(skb_add_bytes)" (
        const uint8_t *index, const double *values, int n_values, int groups, double mul, double add,
        double *acc) noexcept nogil
    void skb_walk(
        const void *nodes, Py_ssize_t n_nodes, const uint8_t *sets, const uint8_t *codes, Py_ssize_t stride,
        Py_ssize_t n, int32_t *out) noexcept nogil
    void skb_walk_levels(
        const void *levels, int depth, const uint8_t *sets, const uint8_t *codes, Py_ssize_t stride, Py_ssize_t n,
        int32_t *out) noexcept nogil
    void skb_add_words(
        const int32_t *index, const double *values, Py_ssize_t n, double mul, double add, double *acc) noexcept nogil

skb_isa_init()


cdef enum:
    # A byte numbers the leaves; general trees with more are walked row by row, symmetric ones take a second byte.
    BYTE_LEAVES = 256
    BYTE_LEVELS = 8
    # Fewer rows than this are walked one by one, since a group of 64 costs the same for one row as for all.
    FEW_ROWS_GENERAL = 8
    FEW_ROWS_SYMMETRIC = 4
    # Estimated nanoseconds of one search, and the work below which a further thread costs more than it brings.
    COST_OF_CODE = 4
    THREAD_WORK = 100000


# What to do with the leaves.
cdef struct job_t:
    Py_ssize_t begin, end, n_members
    const double *mul              # NULL: ones
    const double *add              # NULL: ones
    const double *base             # NULL: zeros
    double *acc                    # (n, K) or NULL
    const int64_t *counts
    double *members                # (M, n, K)
    const double *empty_add        # what a leaf without rows adds to the variance, (T)
    double *support                # (2, n): number of such leaves, their variance; or NULL
    int32_t *leaves                # (n, T), apply only


# A block of rows: its codes, its sums output by output, and what one tree says about it.
cdef struct block_t:
    Py_ssize_t row, n, stride      # first row, rows, bytes from one column of codes to the next
    int groups
    bint few                       # walk the rows instead of using the block kernels
    uint8_t *codes
    double *acc
    double *n_empty                # of the rows, then their variance
    uint8_t *slots
    uint8_t *spare
    uint8_t *bytes                 # leaf positions, or the bits of low and of high levels
    int32_t *words                 # leaf positions or indices that bytes do not hold
    bint in_words
    Py_ssize_t n_values
    const double *values           # of one output of the tree, by position


cdef inline Py_ssize_t round_up(Py_ssize_t size) noexcept nogil:
    return (size + SKB_GROUP - 1) // SKB_GROUP * SKB_GROUP


cdef inline bint are_few(const plan_t *plan, Py_ssize_t n) noexcept nogil:
    return n < (FEW_ROWS_SYMMETRIC if plan.symmetric else FEW_ROWS_GENERAL)


cdef Py_ssize_t workspace_size(const plan_t *plan, Py_ssize_t n_rows) noexcept nogil:
    cdef Py_ssize_t fixed = SKB_GROUP + SKB_BLOCK * (8 * (plan.n_outputs + 2) + 4 + 2 + 1)
    if are_few(plan, n_rows):
        return fixed + round_up(plan.n_columns * n_rows)
    return fixed + SKB_BLOCK * (plan.n_slots + plan.n_columns)


cdef void open_block(block_t *b, const plan_t *plan, Py_ssize_t n_rows, char *memory) noexcept nogil:
    """Addresses inside memory, which is all zeros, so that rows behind the last one have codes too."""
    cdef uint8_t *p = <uint8_t *> (<uintptr_t> round_up(<Py_ssize_t> memory))
    b.acc = <double *> p
    b.n_empty = b.acc + SKB_BLOCK * plan.n_outputs
    b.words = <int32_t *> (b.n_empty + 2 * SKB_BLOCK)
    b.bytes = <uint8_t *> b.words + 4 * SKB_BLOCK
    b.spare = b.bytes + 2 * SKB_BLOCK
    b.slots = b.spare + SKB_BLOCK
    b.codes = b.slots + (0 if are_few(plan, n_rows) else SKB_BLOCK * plan.n_slots)


cdef void read_codes(const plan_t *plan, const source_t *source, Py_ssize_t row, Py_ssize_t n, Py_ssize_t stride,
                     uint8_t *out) noexcept nogil:
    """Codes of the used features, column by column; copied too, since columns a power of two apart collide in L1."""
    cdef Py_ssize_t j, feature
    for j in range(plan.n_columns):
        feature = source.columns[j]
        if source.has_codes:
            memcpy(out + j * stride, source.codes + feature * source.code_stride + row, n)
        else:
            bin_block(source.tables + j, source.x + row * source.row_stride + feature * source.feature_stride,
                      source.row_stride, source.is_float32, n, out + j * stride)


cdef inline void find_general(const plan_t *plan, Py_ssize_t tree, block_t *b) noexcept nogil:
    cdef Py_ssize_t first = plan.node_offset[tree], n_nodes = plan.node_offset[tree + 1] - first
    b.in_words = b.few or b.n_values > BYTE_LEAVES
    if b.in_words:
        skb_walk(<const void *> (plan.walk + 4 * first), n_nodes, plan.sets, b.codes, b.stride, b.n, b.words)
    else:
        skb_masks(<const void *> (plan.masks + 4 * first), n_nodes, plan.sets, b.codes, b.groups, b.slots, b.spare,
                  b.bytes)


cdef inline void find_symmetric(const plan_t *plan, Py_ssize_t tree, block_t *b, bint resolve) noexcept nogil:
    """Patterns of bits, or, beyond 8 levels, where no values are stored by pattern, and on demand, leaf indices."""
    cdef const int32_t *levels = plan.levels + 2 * plan.node_offset[tree]
    cdef const int32_t *table = plan.leaf_index + plan.leaf_offset[tree]
    cdef int depth = <int> (plan.node_offset[tree + 1] - plan.node_offset[tree]), high = max(0, depth - BYTE_LEVELS)
    cdef Py_ssize_t r
    resolve = resolve or high > 0
    b.in_words = b.few or resolve
    if b.few:
        skb_walk_levels(<const void *> levels, depth, plan.sets, b.codes, b.stride, b.n, b.words)
    else:
        skb_level_bits(<const void *> levels, depth - high, plan.sets, b.codes, b.groups, b.spare, b.bytes)
        if resolve:
            skb_level_bits(<const void *> (levels + 2 * BYTE_LEVELS), high, plan.sets, b.codes, b.groups, b.spare,
                           b.bytes + SKB_BLOCK)
            for r in range(b.n):
                b.words[r] = b.bytes[r] | <int32_t> b.bytes[SKB_BLOCK + r] << 8
    if resolve:
        for r in range(b.n):
            b.words[r] = table[b.words[r]]


cdef inline void find_leaves(const plan_t *plan, Py_ssize_t tree, block_t *b, bint resolve) noexcept nogil:
    b.n_values = plan.value_offset[tree + 1] - plan.value_offset[tree]
    b.values = plan.values + plan.value_offset[tree] * plan.n_outputs
    if plan.symmetric:
        find_symmetric(plan, tree, b, resolve)
    else:
        find_general(plan, tree, b)


cdef inline void add_values(const plan_t *plan, const job_t *job, Py_ssize_t tree, block_t *b) noexcept nogil:
    cdef double mul = job.mul[tree] if job.mul != NULL else 1.0
    cdef double add = job.add[tree] if job.add != NULL else 1.0
    cdef const double *values
    cdef int k
    for k in range(plan.n_outputs):
        values = b.values + k * b.n_values
        if b.in_words:
            skb_add_words(b.words, values, b.n, mul, add, b.acc + k * SKB_BLOCK)
        else:
            skb_add_bytes(b.bytes, values, <int> b.n_values, b.groups, mul, add, b.acc + k * SKB_BLOCK)


cdef inline void add_empty(const plan_t *plan, const job_t *job, Py_ssize_t tree, block_t *b) noexcept nogil:
    """Count the leaves without training rows that the rows fall into, and add their variance."""
    cdef const double *empty = plan.empty + plan.value_offset[tree]
    cdef double add = job.empty_add[tree]
    if b.in_words:
        skb_add_words(b.words, empty, b.n, 1.0, 1.0, b.n_empty)
        skb_add_words(b.words, empty, b.n, 1.0, add, b.n_empty + SKB_BLOCK)
    else:
        skb_add_bytes(b.bytes, empty, <int> b.n_values, b.groups, 1.0, 1.0, b.n_empty)
        skb_add_bytes(b.bytes, empty, <int> b.n_values, b.groups, 1.0, add, b.n_empty + SKB_BLOCK)


cdef void load_sums(int n_outputs, const double *start, block_t *b) noexcept nogil:
    cdef Py_ssize_t r
    cdef int k
    for k in range(n_outputs):
        memset(b.acc + k * SKB_BLOCK, 0, 8 * b.groups * SKB_GROUP)
        if start != NULL:
            for r in range(b.n):
                b.acc[k * SKB_BLOCK + r] = start[(b.row + r) * n_outputs + k]


cdef void store_sums(int n_outputs, const double *base, const block_t *b, double *out) noexcept nogil:
    """Rows of the block to their places in out (n_rows, K), with the base score when there is one."""
    cdef Py_ssize_t r
    cdef int k
    out += b.row * n_outputs
    for k in range(n_outputs):
        if base == NULL:
            for r in range(b.n):
                out[r * n_outputs + k] = b.acc[k * SKB_BLOCK + r]
        else:
            for r in range(b.n):
                out[r * n_outputs + k] = base[k] + b.acc[k * SKB_BLOCK + r]


cdef void sum_block(const plan_t *plan, const source_t *source, const job_t *job, block_t *b) noexcept nogil:
    cdef Py_ssize_t tree, member = 0, size = source.n_rows * plan.n_outputs
    load_sums(plan.n_outputs, job.acc, b)
    memset(b.n_empty, 0, 2 * SKB_BLOCK * sizeof(double))
    for tree in range(job.begin, job.end + 1):
        while member < job.n_members and job.counts[member] == tree:
            store_sums(plan.n_outputs, job.base, b, job.members + member * size)
            member += 1
        if tree < job.end:
            find_leaves(plan, tree, b, False)
            add_values(plan, job, tree, b)
            if job.support != NULL and plan.has_empty[tree]:
                add_empty(plan, job, tree, b)
    if job.support != NULL:
        memcpy(job.support + b.row, b.n_empty, b.n * sizeof(double))
        memcpy(job.support + source.n_rows + b.row, b.n_empty + SKB_BLOCK, b.n * sizeof(double))
    if job.acc != NULL:
        store_sums(plan.n_outputs, NULL, b, job.acc)


cdef void leaf_block(const plan_t *plan, const job_t *job, block_t *b) noexcept nogil:
    cdef Py_ssize_t tree, r, n_trees = plan.n_trees
    cdef const int32_t *leaf_index
    cdef int32_t *out
    for tree in range(n_trees):
        out = job.leaves + b.row * n_trees + tree
        leaf_index = plan.leaf_index + plan.leaf_offset[tree]
        find_leaves(plan, tree, b, True)
        if plan.symmetric:
            for r in range(b.n):
                out[r * n_trees] = b.words[r]
        elif b.in_words:
            for r in range(b.n):
                out[r * n_trees] = leaf_index[b.words[r]]
        else:
            for r in range(b.n):
                out[r * n_trees] = leaf_index[b.bytes[r]]


cdef void run_team(const plan_t *plan, const source_t *source, const job_t *job, char *memory) noexcept nogil:
    """This thread's blocks: a static range, right for any team that OpenMP gives. memory has room for each thread."""
    cdef Py_ssize_t thread = skb_thread_num(), team = skb_num_threads(), n_rows = source.n_rows, i
    cdef Py_ssize_t blocks = (n_rows + SKB_BLOCK - 1) // SKB_BLOCK
    cdef block_t b
    open_block(&b, plan, n_rows, memory + thread * workspace_size(plan, n_rows))
    for i in range(blocks * thread // team, blocks * (thread + 1) // team):
        b.row = i * SKB_BLOCK
        b.n = min(n_rows - b.row, SKB_BLOCK)
        b.groups = <int> (round_up(b.n) // SKB_GROUP)
        b.few = are_few(plan, b.n)
        b.stride = b.n if b.few else SKB_BLOCK
        read_codes(plan, source, b.row, b.n, b.stride, b.codes)
        if job.leaves != NULL:
            leaf_block(plan, job, &b)
        else:
            sum_block(plan, source, job, &b)


cdef void encode_team(const plan_t *plan, const source_t *source, uint8_t *out) noexcept nogil:
    cdef Py_ssize_t thread = skb_thread_num(), team = skb_num_threads(), n_rows = source.n_rows, i
    cdef Py_ssize_t blocks = (n_rows + SKB_BLOCK - 1) // SKB_BLOCK
    for i in range(blocks * thread // team, blocks * (thread + 1) // team):
        read_codes(plan, source, i * SKB_BLOCK, min(n_rows - i * SKB_BLOCK, SKB_BLOCK), n_rows, out + i * SKB_BLOCK)


cdef int useful_threads(const plan_t *plan, const source_t *source, Py_ssize_t n_trees, int asked) noexcept nogil:
    cdef Py_ssize_t per_row = n_trees * plan.n_outputs + plan.n_columns * (1 if source.has_codes else COST_OF_CODE)
    cdef Py_ssize_t by_work = 1 + source.n_rows * per_row // THREAD_WORK
    return <int> max(1, min(asked, min(by_work, (source.n_rows + SKB_BLOCK - 1) // SKB_BLOCK)))


cdef int run(const plan_t *plan, const source_t *source, const job_t *job, Py_ssize_t n_trees, int n_threads) except -1:
    cdef int n_used = useful_threads(plan, source, n_trees, n_threads)
    cdef bytearray owner = bytearray(workspace_size(plan, source.n_rows) * n_used)
    cdef char *memory = owner
    if n_used == 1:
        with nogil:
            run_team(plan, source, job, memory)
    else:
        with nogil, parallel(num_threads=n_used):
            run_team(plan, source, job, memory)
    return 0


cdef int open_steps(const double[::1] mul, const double[::1] add, Py_ssize_t n_trees, job_t *job) except -1:
    if (mul is not None and mul.shape[0] != n_trees) or (add is not None and add.shape[0] != n_trees):
        raise ValueError(f"mul and add need one entry for each of the {n_trees} trees.")
    if n_trees:
        job.mul = &mul[0] if mul is not None else NULL
        job.add = &add[0] if add is not None else NULL
    return 0


cdef int open_sums(double[:, ::1] acc, Py_ssize_t n_rows, int n_outputs, job_t *job) except -1:
    if acc.shape[0] != n_rows or acc.shape[1] != n_outputs:
        raise ValueError(f"acc must have the shape ({n_rows}, {n_outputs}).")
    if n_rows:
        job.acc = &acc[0, 0]
    return 0


cdef int open_members(const int64_t[::1] counts, double[:, :, ::1] members, const double[::1] base, Py_ssize_t n_rows,
                      int n_outputs, job_t *job) except -1:
    cdef Py_ssize_t i, previous = job.begin
    if members.shape[0] != counts.shape[0] or members.shape[1] != n_rows or members.shape[2] != n_outputs:
        raise ValueError(f"members must have the shape ({counts.shape[0]}, {n_rows}, {n_outputs}).")
    if base is not None and base.shape[0] != n_outputs:
        raise ValueError(f"base needs one entry for each of the {n_outputs} outputs.")
    for i in range(counts.shape[0]):
        if counts[i] < previous or counts[i] > job.end:
            raise ValueError(f"member_counts must ascend within {job.begin} and {job.end}.")
        previous = counts[i]
    if counts.shape[0] and n_rows:
        job.n_members, job.counts, job.members = counts.shape[0], &counts[0], &members[0, 0, 0]
        job.base = &base[0] if base is not None else NULL
    return 0


cdef int open_support(const double[::1] empty_add, double[:, ::1] support, Py_ssize_t n_rows, const plan_t *plan,
                      job_t *job) except -1:
    if plan.empty == NULL:
        raise ValueError("No leaf of the forest is without training rows.")
    if empty_add.shape[0] != plan.n_trees or support.shape[0] != 2 or support.shape[1] != n_rows:
        raise ValueError(f"empty_add and support must have the shapes ({plan.n_trees},) and (2, {n_rows}).")
    if n_rows:
        job.empty_add, job.support = &empty_add[0], &support[0, 0]
    return 0


def accumulate(dict layout, x, tuple bins, columns, Py_ssize_t begin, Py_ssize_t end, *, mul=None, add=None, base=None,
               acc=None, member_counts=None, members=None, empty_add=None, support=None, int n_threads=1):
    """Apply ``F = F * mul[t] + add[t] * value_t(x)`` for the trees ``begin <= t < end`` to every row.

    Parameters
    ----------
    layout : dict
        Layout of a ``Forest``.
    x : ndarray
        float32 or float64 (n_rows, n_features) of any strides, or uint8 codes (n_features, n_rows).
    bins : tuple or None
        Arrays of a ``BinMapper``: cuts, n_bins, is_categorical, level_offset, level_values, level_codes. None: x holds
        codes.
    columns : int32 array
        Feature in x of each column of the layout.
    begin, end : int
        Range of trees.
    mul, add : float64 array of shape (n_trees,), or None
        None stands for ones.
    base : float64 array of shape (n_outputs,), or None
        Added last, and only to what is written to members.
    acc : float64 array of shape (n_rows, n_outputs), or None
        Start and, changed in place, end of the recurrence. None: start at zero.
    member_counts : int64 array, or None
        Ascending counts of trees, from tree 0, within begin and end.
    members : float64 array of shape (n_members, n_rows, n_outputs), or None
        OUT: base plus the state of the recurrence after so many trees.
    empty_add : float64 array of shape (n_trees,), or None
        What a leaf without training rows adds to the variance of a row.
    support : float64 array of shape (2, n_rows), or None
        OUT: number of leaves without training rows that the row falls into, and the sum of their `empty_add`. The
        layout must know of such leaves.
    n_threads : int
        Upper limit; small inputs stay in the calling thread.
    """
    cdef plan_t plan
    cdef source_t source
    cdef job_t job
    open_plan(layout, &plan)
    owner = open_source(x, bins, columns, &plan, &source)
    if not 0 <= begin <= end <= plan.n_trees:
        raise ValueError(f"begin and end must ascend within 0 and {plan.n_trees}.")
    memset(&job, 0, sizeof(job_t))
    job.begin, job.end = begin, end
    open_steps(mul, add, plan.n_trees, &job)
    if acc is not None:
        open_sums(acc, source.n_rows, plan.n_outputs, &job)
    if members is not None:
        open_members(member_counts, members, base, source.n_rows, plan.n_outputs, &job)
    if support is not None:
        open_support(empty_add, support, source.n_rows, &plan, &job)
    if source.n_rows:
        run(&plan, &source, &job, end - begin, n_threads)
    del owner


def apply(dict layout, x, tuple bins, columns, int32_t[:, ::1] out, int n_threads=1):
    """Write the leaf, counted inside each tree, of every row to out (n_rows, n_trees); see accumulate for the rest."""
    cdef plan_t plan
    cdef source_t source
    cdef job_t job
    open_plan(layout, &plan)
    owner = open_source(x, bins, columns, &plan, &source)
    if out.shape[0] != source.n_rows or out.shape[1] != plan.n_trees:
        raise ValueError(f"out must have the shape ({source.n_rows}, {plan.n_trees}).")
    if source.n_rows and plan.n_trees:
        memset(&job, 0, sizeof(job_t))
        job.leaves = &out[0, 0]
        run(&plan, &source, &job, plan.n_trees, n_threads)
    del owner


def encode(dict layout, x, tuple bins, uint8_t[:, ::1] out, int n_threads=1):
    """Write the codes of the used features to out (n_columns, n_rows); see accumulate for the rest."""
    cdef plan_t plan
    cdef source_t source
    cdef uint8_t *codes
    open_plan(layout, &plan)
    owner = open_source(x, bins, layout["features"], &plan, &source)
    if out.shape[0] != plan.n_columns or out.shape[1] != source.n_rows:
        raise ValueError(f"out must have the shape ({plan.n_columns}, {source.n_rows}).")
    if source.n_rows and plan.n_columns:
        codes = &out[0, 0]
        with nogil, parallel(num_threads=useful_threads(&plan, &source, 0, n_threads)):
            encode_team(&plan, &source, codes)
    del owner
