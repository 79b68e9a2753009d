/* What a compute does, apart from when it is done: pipeline.c waits, posts and records, a worker computes
   (compute.c) or pretends to (rehearsal.c). */
#pragma once
#include "run/pipeline.h"

struct worker {
    /* By kind: one action of the step, from the channel buffer `input` into the channel buffer `output`; NULL
       where the operation has none. */
    void (*compute[COMPUTE_KINDS])(
        struct worker *worker, int step, const struct operation *operation, float *input, float *output);
    /* Before the step's first operation, and after its last: the loss, NaN where the rank has none. */
    void (*begin)(struct worker *worker, int step, const struct sink *sink);
    float (*finish)(struct worker *worker);
    const struct tensor_digest *(*digests)(const struct worker *worker, size_t *count);
    /* What arrived in the recorded step; NULL where the worker looks at nothing. */
    const struct arrival *(*arrivals)(const struct worker *worker, size_t *count);
    void (*close)(struct worker *worker);
};

/* The model's worker: slots, weights, layers. */
struct worker *compute_create(const struct pipeline_request *request);
