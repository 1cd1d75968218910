# Structs shared by the modules that grow a tree.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from skboost._engine.losses cimport loss_t
from skboost._engine.split cimport candidates_t, skb_best_t, skb_scan_t

cdef extern from "barrier.h" nogil:
    const int SKB_SPIN_MAX
    ctypedef struct skb_barrier_t:
        int n_threads
    void skb_barrier_init(skb_barrier_t *b, int n_threads) noexcept
    int skb_barrier_arrive(skb_barrier_t *b, int *spin) noexcept
    void skb_barrier_release(skb_barrier_t *b) noexcept

cdef enum:
    POLICY_SYMMETRIC = 0   # one test per level
    POLICY_DEPTHWISE = 1   # all nodes of a level
    POLICY_LOSSGUIDE = 2   # the leaf with the largest gain

cdef enum:
    BLOCK_ROWS = 1024      # rows per block of the row loops

# A node of the growing tree. Its split is known (gain > 0) or it will stay a leaf.
ctypedef struct node_t:
    int left               # child ids, -1 for a leaf
    int right
    int depth
    int feature
    int bin                # numeric: last left bin
    int missing_right
    int categorical
    int level              # symmetric: the level whose test splits this node
    int dead               # a child that was taken back
    int prior              # the split was drawn, not searched: a child may have no rows
    uint8_t left_set[32]   # categorical: codes that go left
    uint64_t weight        # what min_weight bounds
    size_t n_rows
    double score
    double gain            # of the best split found; what a node is opened by
    double prior_gain      # of the split that was drawn
    double bounds[2]       # monotone constraints: range of the value
    int64_t *hist          # histogram slot or NULL

# One histogram to build; the sibling's follows from the parent's by subtraction.
ctypedef struct item_t:
    int node
    int sibling            # -1: none
    int private            # number among the items by rows: whose private slots it uses
    int by_rows            # 1: every thread its own rows, then merged; 0: every thread its own features

# One test of a symmetric tree.
ctypedef struct level_t:
    int feature
    int bin
    int missing_right
    int categorical
    int prior
    uint8_t left_set[32]
    double gain

# Everything the threads share while one tree grows.
ctypedef struct tree_t:
    # data
    size_t n_rows
    int n_features
    size_t row_stride
    const uint8_t *codes_col
    const uint8_t *codes_row
    const int32_t *n_bins
    const uint8_t *is_categorical
    # statistics
    skb_scan_t scan
    size_t stride          # histogram entries per feature
    size_t slot_words      # int64 per histogram slot
    int64_t *packed        # (n_rows, n_words)
    const uint32_t *count_weight   # what min_weight bounds, NULL: ones
    # rules
    int policy
    int max_depth
    int max_leaves
    uint64_t min_weight
    const int8_t *monotone
    int n_groups
    const uint8_t *groups  # (n_groups, n_features)
    const int32_t *features
    int n_listed
    double prior_rate      # chance that a split is drawn
    double prior_share     # chance that its cut is one of those below
    const uint8_t *prior_bins      # (feature, 128): last left bins of the cuts that do not follow the data, or NULL
    const int32_t *n_prior_bins
    bint spread_ties       # a cut among cells without rows is drawn
    uint64_t seed
    uint64_t iteration
    # threads and rows
    int n_threads          # of this tree
    int max_threads        # of any tree; sizes of arrays by thread
    size_t row_begin[257]
    uint32_t *index
    uint32_t *buffer
    size_t *seg_start      # (node, thread)
    size_t *seg_size
    size_t *left_rows      # (batch, thread)
    uint64_t *left_weight
    # nodes
    node_t *nodes
    int n_nodes
    int node_capacity
    int64_t *totals        # (node, n_words)
    int64_t *left_totals
    uint8_t *node_groups   # (node, n_groups)
    int n_leaves
    # work lists
    int list_capacity
    int *batch
    int n_batch
    item_t *items
    int n_items
    int n_by_rows
    int *scans
    int n_scans
    int *recount
    int n_recount
    int *current
    int n_current
    int current_pos
    int *waiting
    int n_waiting
    int batch_limit
    skb_best_t *best       # (scan, feature)
    # symmetric trees
    candidates_t *level_scores     # (feature)
    uint8_t *orders        # (feature, 256)
    int *n_order
    uint8_t *has_missing
    level_t *levels
    int n_levels
    # memory
    int64_t **free_slots
    int n_free
    int n_slots
    int slots_kept         # histograms kept for subtraction at most
    int64_t **slots
    int slot_capacity
    int64_t **private_slots        # (item, thread - 1)
    int private_capacity
    uint32_t *count_scratch        # (thread, n_features * stride)
    int failed             # out of memory

# What a step knows of the rows: loss, weights, noise, and the sums of all threads.
ctypedef struct step_t:
    loss_t loss
    int n_outputs          # those of the loss, and one more with coins
    bint newton            # a hessian per row and output
    bint metric            # a Fisher metric per row and output (in hess): noise of variance 1 / F
    const double *y
    const double *base
    const float *coin      # (n_rows) what the output after those of the loss fits (gaussian_coins_impl.h), or NULL
    double *score          # (n_outputs, n_rows)
    float *grad            # (n_outputs, n_rows) noise-free
    float *noisy           # (n_outputs, n_rows), grad itself without noise
    float *noisy_rows      # memory of noisy, or NULL
    float *hess            # (n_outputs, n_rows) or NULL
    const double *weight   # (n_rows) or NULL
    const uint32_t *copies  # (n_rows) copies of fractional weight that a row is, or NULL
    const uint32_t *tree_copies    # those of them that the structure sees
    double weight_scale    # weight * weight_scale are grid units
    bint integer_weights
    const uint32_t *units  # structure weights in grid units, or NULL
    const uint32_t *hash0
    const uint32_t *hash1
    const float *inv_root_weight
    # copies whose gradients count, of this tree; the others keep weight and noise
    const uint32_t *kept_units     # structure weights of these copies in grid units, or NULL: all
    const uint32_t *kept_copies    # their numbers where there are copies
    const uint32_t *kept           # their numbers in the leaves
    const double *copy_weight      # weight of one copy in the leaves, or NULL: ones
    float *noise_rows      # (n_outputs, n_rows) structure noise alone, memory for such trees, or NULL
    double shrink
    double gradient_scale
    double sigma
    double *row_noise      # (n_outputs) factors on sigma in the noise of rows, and in that of leaves
    double *leaf_noise
    double learning_rate
    double lambda_
    double curvature       # of gradient leaves: D = curvature * W + lambda
    double count_ratio     # largest quotient of a row's structure weight and its leaf-minimum weight
    uint64_t root_weight   # sum of the leaf-minimum weights, when the histogram does not hold it
    int granted            # threads that OpenMP gave
    uint64_t seed
    uint64_t iteration
    # per thread and output, reduced by the last thread
    float *peak            # (thread, 3 * n_outputs): noisy, clean, hess
    int64_t *sums          # (thread, 2 * n_outputs): noisy, hess
    int64_t *root_sums     # (thread, n_words)
    float *coarse          # (2 * n_outputs)
    float *inv_unit        # (2 * n_outputs)
    float *leaf_scale      # (2 * n_outputs)
    double *g_unit
    double *h_unit
    # leaves
    int n_leaves
    int *leaves
    int64_t *leaf_sums     # (thread, leaf, 2 * n_outputs + 1)
    double *leaf_value     # (leaf, n_outputs)
    double *leaf_weight
    # leaves that take a quantile of the residuals instead of a gradient step
    bint renew
    const double *levels   # (n_outputs)
    const uint32_t *own_units      # weights of all rows in grid units, or NULL: ones
    size_t *leaf_start     # (leaf) where its rows lie in the two arrays below
    double *residuals      # (n_rows)
    uint32_t *residual_units       # (n_rows)
    double *renewed        # (leaf, n_outputs)
    double *node_sums      # (node, 2)
    skb_barrier_t barrier


cdef inline bint feature_allowed(const tree_t *s, int node, int feature) noexcept nogil:
    """True when some interaction group that holds all features above this node also holds `feature`."""
    cdef int group
    if s.n_groups == 0:
        return True
    for group in range(s.n_groups):
        if s.node_groups[<size_t>node * s.n_groups + group] and s.groups[<size_t>group * s.n_features + feature]:
            return True
    return False
