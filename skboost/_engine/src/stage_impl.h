/* Vector loops over the cells of one update. */

/* Bits: 1 some value is not 0, 2 some value is not finite. */
static SKB_TARGET int SKB_FN(skb_inspect)(ptrdiff_t n, const double *restrict u)
{
    uint64_t any = 0, special = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, u + i, sizeof bits);
        bits &= 0x7fffffffffffffffu;
        any |= bits;
        /* the exponent of infinities and NaN carries into the sign */
        special |= bits + 0x0010000000000000u;
    }
    return (any != 0) | (int)(special >> 63) << 1;
}

/* u *= rate; model += u */
static SKB_TARGET void SKB_FN(skb_take_step)(ptrdiff_t n, double rate, double *restrict u, double *restrict model)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        u[i] *= rate;
        model[i] += u[i];
    }
}
