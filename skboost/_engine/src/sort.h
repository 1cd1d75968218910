/* Radix sort of 64-bit keys together with a number each. */
#ifndef SKB_SORT_H
#define SKB_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef union {
    uint64_t key;
    double number;
} skb_cell;

/* Keys with the weights that belong to them (or NULL), and room for as many more. */
typedef struct {
    skb_cell *keys, *spare;
    double *weights, *spare_weights;
} skb_columns;

/* Sort by the bits [low, high), at most 33 of them, least significant digit first. Digits in which all keys agree are
 * skipped. Keys and spare swap roles at every pass. */
static void skb_radix_passes(skb_columns *c, ptrdiff_t n, int low, int high)
{
    uint32_t count[5][2048]; /* how often each digit occurs does not depend on the order: one pass counts all digits */
    int bits = n < 4096 ? 8 : 11; /* few keys: short tables are cheaper than few passes */
    int n_digits = (high - low + bits - 1) / bits;
    uint64_t mask = (1ULL << bits) - 1;
    for (int d = 0; d < n_digits; d++)
        memset(count[d], 0, sizeof(uint32_t) << bits);
    for (ptrdiff_t i = 0; i < n; i++)
        for (int d = 0; d < n_digits; d++)
            count[d][(c->keys[i].key >> (low + d * bits)) & mask]++;
    for (int d = 0; d < n_digits; d++) {
        int shift = low + d * bits;
        uint32_t *place = count[d], sum = 0;
        const skb_cell *from = c->keys;
        skb_cell *to = c->spare;
        if (place[(from[0].key >> shift) & mask] == (uint32_t)n)
            continue;
        for (uint64_t k = 0; k <= mask; k++) {
            uint32_t here = place[k];
            place[k] = sum;
            sum += here;
        }
        if (c->weights) {
            for (ptrdiff_t i = 0; i < n; i++) {
                uint32_t at = place[(from[i].key >> shift) & mask]++;
                to[at] = from[i];
                c->spare_weights[at] = c->weights[i];
            }
            double *swap = c->weights;
            c->weights = c->spare_weights;
            c->spare_weights = swap;
        } else {
            for (ptrdiff_t i = 0; i < n; i++)
                to[place[(from[i].key >> shift) & mask]++] = from[i];
        }
        c->spare = c->keys;
        c->keys = to;
    }
}

static void skb_insertion_sort(skb_cell *keys, double *weights, ptrdiff_t n)
{
    for (ptrdiff_t i = 1; i < n; i++) {
        skb_cell key = keys[i];
        double weight = weights ? weights[i] : 0;
        ptrdiff_t j = i;
        for (; j > 0 && keys[j - 1].key > key.key; j--) {
            keys[j] = keys[j - 1];
            if (weights)
                weights[j] = weights[j - 1];
        }
        keys[j] = key;
        if (weights)
            weights[j] = weight;
    }
}

/* The upper 33 bits (sign, exponent, 21 bits of fraction) tell most numbers apart, so half the passes sort nearly all;
 * runs that agree in them are sorted by the rest. */
static void skb_sort_keys(skb_columns *c, ptrdiff_t n)
{
    const int rest = 31;
    if (n == 0)
        return;
    skb_radix_passes(c, n, rest, 64);
    for (ptrdiff_t start = 0, stop; start < n; start = stop) {
        uint64_t upper = c->keys[start].key >> rest;
        for (stop = start + 1; stop < n && c->keys[stop].key >> rest == upper;)
            stop++;
        double *weights = c->weights ? c->weights + start : NULL;
        if (stop - start < 64) {
            skb_insertion_sort(c->keys + start, weights, stop - start);
            continue;
        }
        skb_columns run = {c->keys + start, c->spare + start, weights, c->weights ? c->spare_weights + start : NULL};
        skb_radix_passes(&run, stop - start, 0, rest);
        if (run.keys != c->keys + start) {
            memcpy(c->keys + start, run.keys, (size_t)(stop - start) * sizeof(skb_cell));
            if (weights)
                memcpy(weights, run.weights, (size_t)(stop - start) * sizeof(double));
        }
    }
}

#endif
