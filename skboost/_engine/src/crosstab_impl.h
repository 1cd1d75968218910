/* Multiples of rows of a cross-table, whose entries take 1, 2, 4 or 8 bytes. */
#include <stddef.h>
#include <stdint.h>

/* sum[i] += coef[p] * row[p][i], one p after the other; four at a time spare passes over `sum`. The passes are
 * functions of their own, lest the compiler jams the loops over p and i together, which it does badly.
 */
#define SKB_ADD_MULTIPLES(name, type)                                                                         \
    static SKB_TARGET __attribute__((noinline)) void SKB_FN(name##_by_four)(                                  \
        ptrdiff_t n, const char *const *rows, const double *coef, double *restrict sum)                       \
    {                                                                                                         \
        const type *restrict x0 = (const type *)rows[0], *restrict x1 = (const type *)rows[1];                \
        const type *restrict x2 = (const type *)rows[2], *restrict x3 = (const type *)rows[3];                \
        double c0 = coef[0], c1 = coef[1], c2 = coef[2], c3 = coef[3];                                        \
        for (ptrdiff_t i = 0; i < n; i++)                                                                     \
            sum[i] = (((sum[i] + c0 * (double)x0[i]) + c1 * (double)x1[i]) + c2 * (double)x2[i]) +            \
                     c3 * (double)x3[i];                                                                      \
    }                                                                                                         \
    static SKB_TARGET __attribute__((noinline)) void SKB_FN(name##_by_one)(                                   \
        ptrdiff_t n, const char *row, double coef, double *restrict sum)                                      \
    {                                                                                                         \
        const type *restrict x = (const type *)row;                                                           \
        for (ptrdiff_t i = 0; i < n; i++)                                                                     \
            sum[i] += coef * (double)x[i];                                                                    \
    }                                                                                                         \
    static SKB_TARGET void SKB_FN(name)(ptrdiff_t n, int n_rows, const char *const *rows, const double *coef, \
                                        double *sum)                                                          \
    {                                                                                                         \
        int p = 0;                                                                                            \
        for (; p + 4 <= n_rows; p += 4)                                                                       \
            SKB_FN(name##_by_four)(n, rows + p, coef + p, sum);                                               \
        for (; p < n_rows; p++)                                                                               \
            SKB_FN(name##_by_one)(n, rows[p], coef[p], sum);                                                  \
    }

SKB_ADD_MULTIPLES(skb_add_multiples_1, uint8_t)
SKB_ADD_MULTIPLES(skb_add_multiples_2, uint16_t)
SKB_ADD_MULTIPLES(skb_add_multiples_4, int32_t)
SKB_ADD_MULTIPLES(skb_add_multiples_8, double)
#undef SKB_ADD_MULTIPLES

static SKB_TARGET void SKB_FN(skb_add_multiples)(
    int width, ptrdiff_t n, int n_rows, const char *const *rows, const double *coef, double *sum)
{
    switch (width) {
    case 1: SKB_FN(skb_add_multiples_1)(n, n_rows, rows, coef, sum); break;
    case 2: SKB_FN(skb_add_multiples_2)(n, n_rows, rows, coef, sum); break;
    case 4: SKB_FN(skb_add_multiples_4)(n, n_rows, rows, coef, sum); break;
    default: SKB_FN(skb_add_multiples_8)(n, n_rows, rows, coef, sum); break;
    }
}
