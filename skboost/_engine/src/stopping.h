/* Early stopping over points (step, metric): when the points of the last `length` steps are no better than the older ones. */
#ifndef SKB_STOPPING_H
#define SKB_STOPPING_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    int64_t step;
    double metric;
} skb_point_t;

/* A queue of points; `first` is moved only by the reader. */
typedef struct {
    skb_point_t *points;
    ptrdiff_t first, end, room;
} skb_queue_t;

typedef struct {
    int64_t length;      /* 0: never stop */
    double tolerance;    /* relative */
    double floor;        /* absolute, added */
    double best;         /* of all points, those that do not count included */
    double older;        /* best of the points that left the window */
    skb_queue_t all;     /* points of the window */
    skb_queue_t lowest;  /* those no later one of the window is as low as: metrics ascend */
} skb_stopping_t;

/* Returns 0 when memory ran out. Room is reclaimed from the front before it is doubled. */
static inline int skb_queue_push(skb_queue_t *q, skb_point_t point)
{
    if (q->end == q->room) {
        if (q->first > q->room / 2) {
            for (ptrdiff_t i = q->first; i < q->end; i++)
                q->points[i - q->first] = q->points[i];
            q->end -= q->first;
            q->first = 0;
        } else {
            ptrdiff_t room = q->room ? 2 * q->room : 256;
            skb_point_t *points = realloc(q->points, (size_t)room * sizeof *points);
            if (!points)
                return 0;
            q->points = points;
            q->room = room;
        }
    }
    q->points[q->end++] = point;
    return 1;
}

static inline void skb_stopping_free(skb_stopping_t *s)
{
    free(s->all.points);
    free(s->lowest.points);
    s->all.points = s->lowest.points = NULL;
}

/* Take a point; returns 1 to stop, 0 to go on, -1 when memory ran out. Points that do not count only lower `best`. */
static inline int skb_stopping_add(skb_stopping_t *s, int64_t step, double metric, int counts)
{
    skb_point_t point = {step, metric};
    double scale = fabs(s->best) < fabs(s->older) ? fabs(s->best) : fabs(s->older);
    double allowance = (isfinite(scale) ? s->tolerance * scale : 0.0) + s->floor;
    s->best = metric < s->best ? metric : s->best;
    if (!s->length || !counts)
        return 0;
    while (s->lowest.end > s->lowest.first && s->lowest.points[s->lowest.end - 1].metric >= metric)
        s->lowest.end--;
    if (!skb_queue_push(&s->all, point) || !skb_queue_push(&s->lowest, point))
        return -1;
    while (s->all.points[s->all.first].step <= step - s->length) {
        double left = s->all.points[s->all.first++].metric;
        s->older = left < s->older ? left : s->older;
    }
    while (s->lowest.points[s->lowest.first].step <= step - s->length)
        s->lowest.first++;
    return s->older - allowance <= s->lowest.points[s->lowest.first].metric;
}

#endif
