#include "run/observer.h"
#include "device/definition.h"
#include <stdlib.h>

struct observer {
    struct device *device;
    const struct model *model;
    struct reporting reporting;
    struct digest *on_device; /* [capacity], device memory */
    struct digest *fetched;   /* [capacity], host memory */
    size_t capacity, pending; /* digests on the device, not yet fetched */
    struct tensor_digest *table;
    size_t count, expected;
    int step;
    const struct sink *sink;
    float *staging; /* the largest tensor, host memory; only where something is written and the device's
                       memory is not the host's */
};

size_t observer_device_bytes(size_t capacity)
{
    return capacity * sizeof(struct digest);
}

struct observer *observer_create(struct device *device, const struct model *model,
    const struct reporting *reporting, size_t capacity, size_t expected)
{
    struct observer *o = allocate(1, sizeof *o);
    *o = (struct observer){
        .device = device, .model = model, .reporting = *reporting, .capacity = capacity, .expected = expected
    };
    o->on_device = device->allocate(device, observer_device_bytes(capacity));
    o->fetched = allocate(capacity, sizeof *o->fetched);
    o->table = allocate(expected, sizeof *o->table);
    const bool writes = reporting->activations != DATA_NONE || reporting->gradients || reporting->parameters;
    if (writes && !device->is_host) {
        size_t largest = boundary_size(model);
        for (int p = 0; p < PARAMETERS; p++) {
            const struct extent extent = parameter_extent(model, (enum parameter)p);
            if (extent.rows * extent.columns > largest) largest = extent.rows * extent.columns;
        }
        o->staging = allocate(largest, sizeof *o->staging);
    }
    return o;
}

void observer_close(struct observer *o)
{
    if (!o) return;
    o->device->release(o->device, o->on_device);
    free(o->fetched);
    free(o->table);
    free(o->staging);
    free(o);
}

void observer_begin(struct observer *o, int step, const struct sink *sink)
{
    o->step = step;
    o->sink = sink;
}

static bool is_digested(const struct observer *o, enum tensor_class class)
{
    switch (class) {
    case TENSOR_ACTIVATION:
    case TENSOR_ACTIVATION_GRADIENT: return o->reporting.digest_activations;
    case TENSOR_GRADIENT: return o->reporting.digest_gradients;
    default: return false;
    }
}

static bool is_written(const struct observer *o, enum tensor_class class, bool boundary)
{
    switch (class) {
    case TENSOR_ACTIVATION:
    case TENSOR_ACTIVATION_GRADIENT:
        return o->reporting.activations == DATA_FULL ||
               (o->reporting.activations == DATA_BOUNDARY && boundary);
    case TENSOR_GRADIENT: return o->reporting.gradients;
    default: return o->reporting.parameters;
    }
}

static void add_line(struct observer *o, struct tensor tensor)
{
    if (o->count == o->expected) fail("more digests than the %zu that were foreseen", o->expected);
    o->table[o->count++] = (struct tensor_digest){ .step = o->step, .tensor = tensor };
}

void observer_see(struct observer *o, struct tensor tensor, const float *data, bool boundary)
{
    const size_t elements = tensor_elements(o->model, tensor);
    if (is_digested(o, tensor.class)) {
        if (o->pending == o->capacity) observer_flush(o);
        o->device->digest(
            o->device, elements, data, tensor_first_index(o->model, tensor), &o->on_device[o->pending++]);
        add_line(o, tensor);
    }
    if (o->sink && is_written(o, tensor.class, boundary)) {
        if (o->staging) o->device->download(o->device, o->staging, data, elements * sizeof(float));
        o->sink->tensor(o->sink->context, tensor, o->staging ? o->staging : data);
    }
}

void observer_see_gradients(struct observer *o, int layer, const float *gradients)
{
    for (int p = 0; p < PARAMETERS; p++)
        observer_see(o, (struct tensor){ TENSOR_GRADIENT, layer, p },
            gradients + parameter_offset(o->model, (enum parameter)p), false);
}

void observer_see_parameters(struct observer *o, int layer, const float *parameters)
{
    if (!o->sink) return;
    for (int p = 0; p < PARAMETERS; p++)
        observer_see(o, (struct tensor){ TENSOR_PARAMETER, layer, p },
            parameters + parameter_offset(o->model, (enum parameter)p), false);
}

void observer_flush(struct observer *o)
{
    if (o->pending == 0) return;
    o->device->download(o->device, o->fetched, o->on_device, o->pending * sizeof *o->fetched);
    /* The loss, the only line that is not fetched, is added after a flush: the pending ones are the last
     * lines. */
    for (size_t i = 0; i < o->pending; i++) o->table[o->count - o->pending + i].digest = o->fetched[i];
    o->pending = 0;
}

void observer_loss(struct observer *o, float loss)
{
    observer_flush(o);
    add_line(o, (struct tensor){ TENSOR_LOSS, 0, 0 });
    definition_digest(1, &loss, 0, &o->table[o->count - 1].digest);
}

const struct tensor_digest *observer_digests(const struct observer *o, size_t *count)
{
    *count = o->count;
    return o->table;
}
