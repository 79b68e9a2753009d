/* The reference: the same model on one device, without schedule, program or channels. It goes layer by layer,
   not microbatch by microbatch: all microbatches through layer 0, then layer 1, ...; then back. Layer
   boundaries are spilled and read back, weights are made when a layer is reached, gradients are reported and
   dropped: the device holds one layer and one microbatch. */
#pragma once
#include "model/layer.h"
#include "run/observer.h"

/* Where layer boundaries (activations and activation gradients, TENSOR_ACTIVATION and
 * TENSOR_ACTIVATION_GRADIENT) are kept between the passes. */
struct spill {
    void (*write)(void *context, struct tensor tensor, const float *data);
    void (*read)(void *context, struct tensor tensor, float *data);
    void *context;
};

/* How far a step is: a microbatch has passed a layer, forward or backward. */
struct reference_position {
    int step, layer, microbatch;
    bool backward;
    double share; /* of the step's work that is done, 0 to 1 */
};

struct reference_request {
    const struct model *model;
    const bool *begins_chunk; /* [layers + 1] layer l begins a chunk (for `boundary` output);
                                 begins_chunk[layers] is true */
    struct device *device;
    struct reporting reporting;
    int steps; /* the most steps that will be run */
    void (*passed)(void *context, const struct reference_position *position); /* or NULL */
    void *context;
};

struct reference;
struct reference *reference_create(const struct reference_request *request);
void reference_close(struct reference *reference);

/* One step through the whole model. The spill's files are new for each step. sink: NULL but in the recorded
 * step. */
struct step_record reference_step(
    struct reference *reference, int step, const struct spill *spill, const struct sink *sink);

const struct tensor_digest *reference_digests(const struct reference *reference, size_t *count);
/* Device bytes held: does not depend on the number of layers or microbatches. */
size_t reference_memory(const struct model *model);
