/* Trees on a pair that part its weight alike: cells without weight belong to any leaf, so a cut may move across a strip
 * of them, and the axes may be cut in the other order. Only weights above 0 decide, no sum is rounded. */
#ifndef SKB_PAIR_PARTITION_H
#define SKB_PAIR_PARTITION_H

#include <stddef.h>
#include <stdint.h>

#define SKB_PAIR_SHAPES 4 /* low rows, high rows, low columns, high columns: the half that is cut again */

/* First and last cell of each axis. */
typedef struct {
    int from[2], to[2];
} skb_box_t;

/* Per shape the cuts from..to of each axis that give one and the same parts; none where from > to. */
typedef struct {
    skb_box_t cuts[SKB_PAIR_SHAPES];
} skb_equal_trees_t;

static int skb_row_is_empty(const double *W, int n1, int row, const skb_box_t *box)
{
    const double *w = W + (size_t)row * n1;
    for (int b = box->from[1]; b <= box->to[1]; b++)
        if (w[b] > 0.0)
            return 0;
    return 1;
}

static int skb_column_is_empty(const double *W, int n1, int column, const skb_box_t *box)
{
    for (int a = box->from[0]; a <= box->to[0]; a++)
        if (W[(size_t)a * n1 + column] > 0.0)
            return 0;
    return 1;
}

/* Shrink a box to the cells with weight; returns 0 where there are none. */
static int skb_shrink_box(const double *W, int n1, skb_box_t *box)
{
    while (box->from[0] <= box->to[0] && skb_row_is_empty(W, n1, box->from[0], box))
        box->from[0]++;
    if (box->from[0] > box->to[0])
        return 0;
    while (skb_row_is_empty(W, n1, box->to[0], box))
        box->to[0]--;
    while (skb_column_is_empty(W, n1, box->from[1], box))
        box->from[1]++;
    while (skb_column_is_empty(W, n1, box->to[1], box))
        box->to[1]--;
    return 1;
}

/* The cuts of a shape that have one of the leaves as the half that stays whole and the others as the parts of its other
 * half. At most one choice of these leaves fits. */
static skb_box_t skb_cuts_of_shape(int shape, const skb_box_t *leaf)
{
    const int axis = shape / 2, other = 1 - axis;
    skb_box_t cuts = {{0, 0}, {-1, -1}};
    for (int i = 0; i < 6; i++) {
        const skb_box_t *whole = leaf + i / 2;
        const skb_box_t *low = leaf + (i / 2 + 1 + i % 2) % 3, *high = leaf + (i / 2 + 2 - i % 2) % 3;
        int from, to;
        if (shape % 2 == 0) {
            from = low->to[axis] > high->to[axis] ? low->to[axis] : high->to[axis];
            to = whole->from[axis] - 1;
        } else {
            from = whole->to[axis];
            to = (low->from[axis] < high->from[axis] ? low->from[axis] : high->from[axis]) - 1;
        }
        if (from > to || low->to[other] >= high->from[other])
            continue;
        cuts.from[axis] = from, cuts.to[axis] = to;
        cuts.from[other] = low->to[other], cuts.to[other] = high->from[other] - 1;
        break;
    }
    return cuts;
}

/* All trees that part the weights W (n0, n1) like the one given, at least that one. */
static void skb_find_equal_trees(const double *W, int n0, int n1, int shape, int a, int b, skb_equal_trees_t *out)
{
    const int axis = shape / 2, other = 1 - axis, last[2] = {n0 - 1, n1 - 1}, cut[2] = {a, b};
    skb_box_t leaf[3];
    int known = 1;
    for (int i = 0; i < 3; i++) {
        int low_half = (shape % 2 == 0) == (i < 2);
        leaf[i].from[axis] = low_half ? 0 : cut[axis] + 1;
        leaf[i].to[axis] = low_half ? cut[axis] : last[axis];
        leaf[i].from[other] = i == 1 ? cut[other] + 1 : 0;
        leaf[i].to[other] = i == 0 ? cut[other] : last[other];
        known = known && skb_shrink_box(W, n1, leaf + i);
    }
    for (int i = 0; i < SKB_PAIR_SHAPES; i++) {
        if (known)
            out->cuts[i] = skb_cuts_of_shape(i, leaf);
        else if (i == shape)
            out->cuts[i] = (skb_box_t){{a, b}, {a, b}};
        else
            out->cuts[i] = (skb_box_t){{0, 0}, {-1, -1}};
    }
}

static int skb_has_tree(const skb_equal_trees_t *trees, int shape, int a, int b)
{
    const skb_box_t *c = trees->cuts + shape;
    return c->from[0] <= a && a <= c->to[0] && c->from[1] <= b && b <= c->to[1];
}

static int64_t skb_count_of_shape(const skb_box_t *c)
{
    return c->from[0] > c->to[0] ? 0 : (int64_t)(c->to[0] - c->from[0] + 1) * (c->to[1] - c->from[1] + 1);
}

static int64_t skb_count_trees(const skb_equal_trees_t *trees)
{
    int64_t n = 0;
    for (int i = 0; i < SKB_PAIR_SHAPES; i++)
        n += skb_count_of_shape(trees->cuts + i);
    return n;
}

/* Number `wanted` of the trees in the order of their shapes, cuts of axis 0 and cuts of axis 1. */
static void skb_take_tree(const skb_equal_trees_t *trees, int64_t wanted, int *shape, int *a, int *b)
{
    for (*shape = 0; *shape < SKB_PAIR_SHAPES - 1; ++*shape) {
        int64_t n = skb_count_of_shape(trees->cuts + *shape);
        if (wanted < n)
            break;
        wanted -= n;
    }
    const skb_box_t *c = trees->cuts + *shape;
    int columns = c->to[1] - c->from[1] + 1;
    *a = c->from[0] + (int)(wanted / columns);
    *b = c->from[1] + (int)(wanted % columns);
}
#endif
