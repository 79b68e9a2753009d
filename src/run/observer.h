/* What is looked at while a step runs: each tensor is digested where it lies, and in the recorded step given
   to the sink. Used by the pipeline and by the reference alike, so that both report the same things in the
   same way. */
#pragma once
#include "device/device.h"
#include "run/record.h"

enum extent_of_data { DATA_NONE, DATA_BOUNDARY, DATA_FULL };

/* What the deck's &output asks for. Where a class is not digested it is not written either. */
struct reporting {
    bool digest_activations, digest_gradients;
    enum extent_of_data activations; /* full tensors of the recorded step: none, at chunk boundaries, all */
    bool gradients, parameters;      /* full tensors of the recorded step */
};

struct observer;

/* capacity: the most tensors digested between two calls of observer_flush. expected: the number of digests of
   the whole run, for which memory is set aside now. The device and the model must outlive the observer. */
struct observer *observer_create(struct device *device, const struct model *model,
    const struct reporting *reporting, size_t capacity, size_t expected);
void observer_close(struct observer *observer);
size_t observer_device_bytes(size_t capacity);

/* The step that begins; sink is NULL but in the recorded step. */
void observer_begin(struct observer *observer, int step, const struct sink *sink);
/* Looks at a tensor in device memory. boundary: it lies at the boundary of a chunk. */
void observer_see(struct observer *observer, struct tensor tensor, const float *data, bool boundary);
/* All parameters' gradients of a layer, from one block. */
void observer_see_gradients(struct observer *observer, int layer, const float *gradients);
/* All parameters of a layer: given to the sink where asked for, never digested. */
void observer_see_parameters(struct observer *observer, int layer, const float *parameters);
/* Fetches the digests seen since the last flush from the device. */
void observer_flush(struct observer *observer);
/* The loss of the step, from host memory. */
void observer_loss(struct observer *observer, float loss);

/* The digests of all steps so far, in the order seen; owned by the observer. */
const struct tensor_digest *observer_digests(const struct observer *observer, size_t *count);
