/* What the parts of timeline.json share: timeline.c and timeline_messages.c. */
#pragma once
#include "report/result.h"
#include "schedule/dataflow.h"

/* What is written, and what its parts share. Times are whole nanoseconds, so that no rounding makes events of
 * one thread overlap. */
struct writer {
    const struct timeline *t;
    struct text out;
    double begin;                /* of the first step; seconds */
    struct made *made;           /* [2 chunks microbatches] of the step that is written, by compute_index */
    struct span *send, *receive; /* [messages of all steps] by first_message and the order on the channel */
    size_t *first_message;       /* [channels + 1] */
    long left_out;
};

/* When an output was made, and where. */
struct made {
    double end;
    int rank;
    enum compute_kind kind;
};

struct span {
    long long start, end; /* nanoseconds; both 0: no such message */
};

enum { COMPUTE_THREAD = 1, LEAST_IDLE = 1000 /* nanoseconds; what is shorter is not shown */ };

/* Numbers from 1: viewers take process 0 and thread 0 for the idle ones. The run itself comes first. */
static inline int process_of(int rank)
{
    return rank + 1;
}
static inline int process_of_run(const struct timeline *t)
{
    return t->rank_count + 1;
}
static inline int thread_of(int channel, bool is_send)
{
    return COMPUTE_THREAD + 1 + 2 * channel + !is_send;
}

long long timeline_nanoseconds(const struct writer *w, double seconds);
/* ,"NAME":microseconds */
void timeline_time(struct text *out, const char *name, long long nanoseconds);
void timeline_begin(struct writer *w, const char *phase, int process, int thread);
/* Its ts and dur. */
void timeline_span(struct writer *w, long long start, long long end);
/* "activations" or "gradients" */
const char *timeline_kind(const struct channel_plan *channel);

/* Every message at both its ends, and an arrow from one to the other. */
void timeline_messages(struct writer *w);
