/* Nodes as the kernels of prediction read them, and how general trees come into that order.
 *
 * node    column, test, then what the kernel needs; test >= 0 is (threshold - d) | d << 8, test < 0 is ~row of cat_sets
 */
#ifndef SKB_FOREST_LAYOUT_H
#define SKB_FOREST_LAYOUT_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct { int32_t column, test, child[2]; } skb_walk_node_t;      /* child >= 0: node, < 0: ~leaf position */
typedef struct { int32_t column, test, slot, first_right; } skb_mask_node_t;
typedef struct { int32_t column, test; } skb_level_t;
typedef struct { int32_t child, parent, side, slot; } skb_visit_t;

/* Numbers nodes in preorder and leaves from left to right. The stack needs n_nodes + 2 entries, seen 2 * n_nodes + 1.
 * Returns the number of slots the tree needs, or -1 for what is no binary tree with each node and each leaf once. */
static inline int skb_lay_out_tree(ptrdiff_t n_nodes, const int32_t *column, const int32_t *test, const int32_t *left,
                                   const int32_t *right, skb_visit_t *stack, uint8_t *seen, void *walk_out,
                                   void *masks_out, int32_t *leaf_index)
{
    skb_walk_node_t *walk = walk_out;
    skb_mask_node_t *masks = masks_out;
    int32_t node = 0, position = 0, n_slots = 2;
    ptrdiff_t top = 1;
    memset(seen, 0, (size_t)(2 * n_nodes + 1));
    stack[0] = (skb_visit_t){n_nodes ? 0 : ~0, -1, 0, 0};
    while (top) {
        skb_visit_t v = stack[--top];
        int32_t leaf = ~v.child;
        if (v.child >= 0 ? v.child >= n_nodes || seen[v.child] : leaf > n_nodes || seen[n_nodes + leaf])
            return -1;
        if (v.parent >= 0)
            walk[v.parent].child[v.side] = v.child >= 0 ? node : ~position;
        if (v.side)
            masks[v.parent].first_right = position;
        if (v.child < 0) {
            seen[n_nodes + leaf] = 1;
            leaf_index[position++] = leaf;
            continue;
        }
        int32_t below = (v.slot | 1) + 1;
        seen[v.child] = 1;
        walk[node].column = masks[node].column = column[v.child];
        walk[node].test = masks[node].test = test[v.child];
        masks[node].slot = v.slot;
        n_slots = below + 2 > n_slots ? below + 2 : n_slots;
        stack[top++] = (skb_visit_t){right[v.child], node, 1, below + 1};
        stack[top++] = (skb_visit_t){left[v.child], node++, 0, below};
    }
    if (position != n_nodes + 1)
        return -1;
    return n_nodes < 256 ? n_slots : 2;
}
#endif
