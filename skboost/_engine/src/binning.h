/* Values to codes, and the thresholds that separate codes. Compiled without finite-math flags: NaN is meaningful here.
 *
 * Thresholds: radix sort of order-preserving integer keys, runs of equal values with their weight, then cuts between
 * neighbouring distinct values. All weights lie on a power-of-two grid, so every sum below is exact and depends
 * neither on the order of the rows nor on whether a row of weight 2 is written twice.
 */
#ifndef SKB_BINNING_H
#define SKB_BINNING_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sort.h"

#define SKB_BLOCK 256 /* rows that are mapped together: the block stays in the first-level cache */

static inline double skb_load(const char *x, int is_float32)
{
    return is_float32 ? (double)*(const float *)x : *(const double *)x;
}

/* ---- values to codes -------------------------------------------------------------------------------------------- */

/* One block, one search step for all values before the next step: the loads of different values overlap, and no step
 * branches. n_cuts <= 255 bounds the first step. NaN is above no cut and gets code 0. */
static void skb_search_block(const double *restrict cuts, int n_cuts, const double *restrict x, int n,
                             uint8_t *restrict out)
{
    uint32_t below[SKB_BLOCK];
    uint32_t step = 1;
    while ((int)(2 * step - 1) < n_cuts)
        step *= 2;
    for (int i = 0; i < n; i++)
        below[i] = cuts[step - 1] < x[i] ? step : 0;
    for (step /= 2; step; step /= 2)
        for (int i = 0; i < n; i++)
            below[i] += cuts[below[i] + step - 1] < x[i] ? step : 0;
    for (int i = 0; i < n; i++)
        out[i] = (uint8_t)(x[i] == x[i] ? below[i] + 1 : 0);
}

static void skb_bin_numeric(const double *cuts, int n_cuts, const char *x, ptrdiff_t stride, int is_float32,
                            ptrdiff_t n, uint8_t *out)
{
    double block[SKB_BLOCK];
    for (ptrdiff_t start = 0; start < n; start += SKB_BLOCK) {
        int size = n - start < SKB_BLOCK ? (int)(n - start) : SKB_BLOCK;
        const char *from = x + start * stride;
        if (is_float32)
            for (int i = 0; i < size; i++)
                block[i] = (double)*(const float *)(from + i * stride);
        else
            for (int i = 0; i < size; i++)
                block[i] = *(const double *)(from + i * stride);
        skb_search_block(cuts, n_cuts, block, size, out + start);
    }
}

/* Index of value among the ascending levels, or -1. Levels that are consecutive integers hit at the first guess. */
static inline ptrdiff_t skb_find_level(const double *levels, ptrdiff_t n_levels, double value)
{
    double offset = value - levels[0];
    if (offset >= 0 && offset < (double)n_levels && levels[(ptrdiff_t)offset] == value)
        return (ptrdiff_t)offset;
    ptrdiff_t low = 0, count = n_levels;
    while (count > 0) {
        ptrdiff_t half = count / 2;
        if (levels[low + half] < value) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low < n_levels && levels[low] == value ? low : -1;
}

static void skb_bin_categorical(const double *levels, const uint8_t *level_codes, ptrdiff_t n_levels, const char *x,
                                ptrdiff_t stride, int is_float32, ptrdiff_t n, uint8_t *out)
{
    if (n_levels == 0) {
        memset(out, 0, (size_t)n);
        return;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        ptrdiff_t level = skb_find_level(levels, n_levels, skb_load(x + i * stride, is_float32));
        out[i] = level < 0 ? 0 : level_codes[level];
    }
}

/* Eight columns of a block of codes -> eight neighbouring bytes of each row; width < 8 in the last group, rest zero. */
static void skb_scatter_rows(const uint8_t *columns, ptrdiff_t column_stride, int width, int n, uint8_t *rows,
                             ptrdiff_t row_stride)
{
    if (width == 8) {
        for (int i = 0; i < n; i++)
            for (int k = 0; k < 8; k++)
                rows[i * row_stride + k] = columns[k * column_stride + i];
        return;
    }
    for (int i = 0; i < n; i++) {
        memset(rows + i * row_stride, 0, 8);
        for (int k = 0; k < width; k++)
            rows[i * row_stride + k] = columns[k * column_stride + i];
    }
}

/* ---- distinct values -------------------------------------------------------------------------------------------- */

/* Integer with the order of the number. -0 equals 0; numbers beyond the limit count as the limit. */
static inline uint64_t skb_key_of(double value, double limit)
{
    skb_cell cell;
    cell.number = value > limit ? limit : value < -limit ? -limit : value + 0.0;
    return cell.key ^ ((uint64_t)((int64_t)cell.key >> 63) | (1ULL << 63));
}

static inline double skb_value_of(uint64_t key)
{
    skb_cell cell;
    cell.key = key ^ (((key >> 63) - 1) | (1ULL << 63));
    return cell.number;
}

/* Keys of the values of a column that are not missing, with their weights if there are any; returns how many. A cut
 * lies between two numbers and must be finite, so numeric columns set limit = DBL_MAX; categories set infinity. */
static ptrdiff_t skb_gather_keys(const char *x, ptrdiff_t stride, int is_float32, ptrdiff_t n, const double *weights,
                                 double limit, skb_cell *keys, double *kept_weights)
{
    ptrdiff_t kept = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double value = skb_load(x + i * stride, is_float32);
        keys[kept].key = skb_key_of(value, limit);
        if (weights)
            kept_weights[kept] = weights[i];
        kept += value == value;
    }
    return kept;
}

/* Sorted keys -> ascending distinct values (into values) and the weight of each (over the keys themselves). */
static ptrdiff_t skb_run_lengths(skb_cell *keys, const double *weights, ptrdiff_t n, skb_cell *values)
{
    ptrdiff_t m = 0;
    for (ptrdiff_t i = 0; i < n;) {
        uint64_t key = keys[i].key;
        double total = 0;
        for (; i < n && keys[i].key == key; i++)
            total += weights ? weights[i] : 1.0;
        values[m].number = skb_value_of(key);
        keys[m++].number = total; /* m <= i: this key has been read */
    }
    return m;
}

/* ---- cuts ------------------------------------------------------------------------------------------------------- */

/* What the search for cuts is asked for. */
typedef struct {
    int max_bins;  /* largest number of bins, at least 2 */
    int equals_up; /* a value equal to a cut belongs to the bin above it (else: below it) */
} skb_cut_rule;

/* A finite number c that separates low from high, the midpoint wherever rounding allows: low <= c < high, or
 * low < c <= high when equal values go up. */
static inline double skb_between(double low, double high, int equals_up)
{
    double middle = 0.5 * low + 0.5 * high; /* does not overflow */
    if (equals_up)
        return middle > low && middle <= high ? middle : high;
    return middle >= low && middle < high ? middle : low;
}

/* A value at least as heavy as an even share of the light ones gets a bin of its own; fewer bins and less weight remain
 * for the others, so the share only shrinks until no further value reaches it. Fewer than max_bins values can reach it,
 * but for the rounding of the division; then none counts as heavy. */
static double skb_heavy_share(const skb_cell *weights, ptrdiff_t m, int max_bins)
{
    double share = 0;
    for (ptrdiff_t previous = -1;;) {
        double light = 0;
        ptrdiff_t heavy = 0;
        for (ptrdiff_t j = 0; j < m; j++) {
            int is_heavy = previous >= 0 && weights[j].number >= share;
            heavy += is_heavy;
            light += is_heavy ? 0.0 : weights[j].number;
        }
        if (heavy >= max_bins)
            return DBL_MAX;
        if (heavy == previous)
            return share;
        previous = heavy;
        share = light / (double)(max_bins - heavy);
    }
}

/* Cuts inside the light values [start, stop): n_bins of nearly equal weight, each as near as possible to an even share
 * of what its predecessors left. */
static int skb_even_cuts(const skb_cell *values, const skb_cell *weights, ptrdiff_t start, ptrdiff_t stop, double total,
                         int n_bins, int equals_up, double *cuts)
{
    int n_cuts = 0;
    double bin = 0, share = total / n_bins;
    for (ptrdiff_t j = start; j < stop - 1 && n_bins > 1; j++) {
        bin += weights[j].number;
        if (bin + 0.5 * weights[j + 1].number >= share || stop - 1 - j < n_bins) {
            cuts[n_cuts++] = skb_between(values[j].number, values[j + 1].number, equals_up);
            total -= bin;
            bin = 0;
            share = total / --n_bins;
        }
    }
    return n_cuts;
}

typedef struct skb_run {
    ptrdiff_t start, stop; /* a run of light values; a heavy one stands at stop unless stop is the end */
    double weight;
} skb_run;

static int skb_light_runs(const skb_cell *weights, ptrdiff_t m, double share, skb_run *runs)
{
    int n_runs = 0;
    skb_run run = {0, 0, 0.0};
    for (ptrdiff_t j = 0; j < m; j++) {
        if (weights[j].number >= share) {
            run.stop = j;
            runs[n_runs++] = run;
            run = (skb_run){j + 1, j + 1, 0.0};
        } else {
            run.weight += weights[j].number;
        }
    }
    run.stop = m;
    runs[n_runs++] = run;
    return n_runs;
}

/* More distinct values than bins. The bins that the heavy values leave are dealt to the runs of light values between
 * them: one for each run while they suffice, the others by weight. A run that gets none joins a heavy neighbour. There are
 * fewer than max_bins heavy values, so at most max_bins runs. */
static int skb_weighted_cuts(const skb_cell *values, const skb_cell *weights, ptrdiff_t m, const skb_cut_rule *rule,
                             skb_run *runs, double *cuts)
{
    int max_bins = rule->max_bins, up = rule->equals_up;
    int n_runs = skb_light_runs(weights, m, skb_heavy_share(weights, m, max_bins), runs);
    int n_filled = 0, n_cuts = 0;
    double light = 0, seen = 0;
    for (int r = 0; r < n_runs; r++) {
        n_filled += runs[r].stop > runs[r].start;
        light += runs[r].weight;
    }
    int available = max_bins - (n_runs - 1);
    int least = available >= n_filled;
    int spare = available - least * n_filled, dealt = 0;
    for (int r = 0; r < n_runs; r++) {
        ptrdiff_t start = runs[r].start, stop = runs[r].stop;
        if (stop > start) {
            seen += runs[r].weight;
            int until = (int)(spare * (seen / light) + 0.5);
            int n_bins = least + until - dealt;
            if (n_bins > stop - start)
                n_bins = (int)(stop - start); /* what this run cannot use goes to the next */
            dealt += n_bins - least;
            n_cuts += skb_even_cuts(values, weights, start, stop, runs[r].weight, n_bins, up, cuts + n_cuts);
            if (n_bins == 0 && stop == m)
                cuts[--n_cuts] = INFINITY; /* the last run joins the heavy value before it */
            else if (n_bins > 0 && stop < m)
                cuts[n_cuts++] = skb_between(values[stop - 1].number, values[stop].number, up);
        }
        if (stop < m - 1)
            cuts[n_cuts++] = skb_between(values[stop].number, values[stop + 1].number, up);
    }
    return n_cuts;
}

/* Cuts between m ascending distinct values of positive weight; runs has room for max_bins entries. */
static int skb_find_cuts(const skb_cell *values, const skb_cell *weights, ptrdiff_t m, const skb_cut_rule *rule,
                         skb_run *runs, double *cuts)
{
    if (m > rule->max_bins)
        return skb_weighted_cuts(values, weights, m, rule, runs, cuts);
    for (ptrdiff_t j = 0; j < m - 1; j++)
        cuts[j] = skb_between(values[j].number, values[j + 1].number, rule->equals_up);
    return m > 0 ? (int)(m - 1) : 0;
}

/* Weight of each of the n_cuts + 1 bins; values equal to a cut count for the bin above it. */
static void skb_bin_totals(const skb_cell *values, const skb_cell *weights, ptrdiff_t m, const double *cuts, int n_cuts,
                           double *totals)
{
    int bin = 0;
    memset(totals, 0, ((size_t)n_cuts + 1) * sizeof(double));
    for (ptrdiff_t j = 0; j < m; j++) {
        while (bin < n_cuts && cuts[bin] <= values[j].number)
            bin++;
        totals[bin] += weights[j].number;
    }
}

#endif
