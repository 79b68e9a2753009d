/* One chunk of a recorded step computed again, from what was recorded at its boundaries. Like the reference
   it knows no schedule, program or channels: its loop is chunk by chunk, then microbatch by microbatch. The
   device holds the weights of one chunk and the saved tensors of one microbatch. */
#pragma once
#include "model/layer.h"
#include "model/tensor.h"

/* What was recorded, and what becomes of a comparison with it. All tensors lie in device memory. */
struct recheck_judge {
    /* Puts a recorded boundary tensor into `to`. False where it cannot be had: then the rest of the chunk is
       not computed. */
    bool (*load)(void *context, struct tensor tensor, float *to);
    /* `data` was computed again: compares it with what was recorded. Where that differs and its own bits are
       known to be the run's it replaces *data, so that what follows from it is judged by itself. */
    void (*compare)(void *context, struct tensor tensor, float *data);
    /* `data` is what should have arrived at the chunk: its input, or (is_gradient) the gradient of its
     * output. */
    void (*arrived)(void *context, bool is_gradient, int microbatch, const float *data);
    void (*loss)(void *context, float loss); /* of the last chunk */
    void *context;
};

struct recheck_request {
    const struct model *model;
    struct device *device;
    int most_layers; /* of any chunk that will be computed */
};

struct recheck;
struct recheck *recheck_create(const struct recheck_request *request);
void recheck_close(struct recheck *recheck);
/* Device bytes held. */
size_t recheck_memory(const struct model *model, int most_layers);

/* Layers first .. end-1, which may be none; of the chunk that is the model's last (is_last) also the loss.
   Tensors are judged in the order of dataflow within each microbatch, the parameters' gradients at the end. A
   chunk that is not the model's first (is_first) takes its input from another, even where no layer lies
   before it. */
struct recheck_chunk {
    int first, end;
    bool is_first, is_last;
};
void recheck_run(
    struct recheck *recheck, int step, const struct recheck_chunk *chunk, const struct recheck_judge *judge);
