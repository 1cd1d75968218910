/* Gradients of losses whose target is the number of a row of a table, with one column per output. loss_gradients_impl.h
 * includes this file. */

static SKB_TARGET void SKB_GRAD(skb_table_gradients)(
    const skb_loss_t *loss, SKB_ROWS, SKB_OUTPUTS, SKB_REAL *restrict grad, SKB_REAL *restrict hess,
    ptrdiff_t grad_stride)
{
    double target[SKB_TILE];
    for (ptrdiff_t start = 0; start < n; start += SKB_TILE) {
        ptrdiff_t m = n - start < SKB_TILE ? n - start : SKB_TILE;
        for (int k = 0; k < loss->n_outputs; k++) {
            ptrdiff_t at = k * grad_stride + start;
            SKB_FN(skb_table_column)(loss, m, y + start, k, target);
            (loss->kind == SKB_MULTI_LABEL ? SKB_GRAD(skb_binary_gradients) : SKB_GRAD(skb_squared_gradients))(
                m, target, score + k * score_stride + start, base[k], grad + at, hess ? hess + at : NULL);
        }
    }
}
