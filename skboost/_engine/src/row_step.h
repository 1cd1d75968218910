/* What a step adds to the scores of rows. */
#ifndef SKB_ROW_STEP_H
#define SKB_ROW_STEP_H

#define SKB_MAX_CUTS 2

/* Of one output: value[j] up to cut[j], value[n_cuts] above; n_cuts < 0: table[cell]. */
typedef struct {
    int n_cuts;
    int cut[SKB_MAX_CUTS];
    double value[SKB_MAX_CUTS + 1];
    const double *table;
} skb_row_step_t;

#endif
