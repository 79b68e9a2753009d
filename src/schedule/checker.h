/* What the parts of the check share. */
#pragma once
#include "dataflow.h"

struct checker {
    const struct program *program;
    struct text *error;
    struct wiring wiring; /* its notes are made with the check of the computes */
    int *hand_overs;      /* [channels] of a local channel, as check_memory counts them */
};

/* The F, B or I of a compute_index. */
static inline struct compute compute_named(const struct checker *check, int64_t index)
{
    const int64_t m = check->program->microbatches, pairs = m * check->program->chunks;
    const struct compute compute = { index < pairs ? COMPUTE_F : COMPUTE_B, (int)(index % pairs / m),
        (int)(index % m) };
    return as_planned(&check->wiring, compute);
}

/* Nothing is read that is not there, nothing is written over that is still needed: slots and buffers, in the
   order of each rank's program. Each compute's and transfer's channel is the one that the placement asks for.
   The computes must have been checked. */
bool check_memory(const struct checker *check);
