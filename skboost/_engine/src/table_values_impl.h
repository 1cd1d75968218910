/* Values of losses whose target is the number of a row of a table: the sum over its columns. losses_impl.h includes this
 * file. */

static SKB_TARGET void SKB_FN(skb_table_values)(const skb_loss_t *loss, SKB_ROWS, SKB_OUTPUTS, double *restrict out)
{
    double target[SKB_TILE], one[SKB_TILE];
    for (ptrdiff_t start = 0; start < n; start += SKB_TILE) {
        ptrdiff_t m = n - start < SKB_TILE ? n - start : SKB_TILE;
        for (ptrdiff_t i = 0; i < m; i++)
            out[start + i] = 0.0;
        for (int k = 0; k < loss->n_outputs; k++) {
            SKB_FN(skb_table_column)(loss, m, y + start, k, target);
            (loss->kind == SKB_MULTI_LABEL ? SKB_FN(skb_binary_values) : SKB_FN(skb_squared_values))(
                m, target, score + k * score_stride + start, base[k], one);
            for (ptrdiff_t i = 0; i < m; i++)
                out[start + i] += one[i];
        }
    }
}
