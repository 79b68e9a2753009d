#include "run/arrivals.h"
#include <stdlib.h>

struct arrivals {
    struct device *device;
    size_t boundary, capacity, count;
    struct digest *on_device, *fetched; /* [capacity], device and host memory */
    struct arrival *list;               /* [capacity] */
    bool recording;
};

size_t arrivals_device_bytes(size_t capacity)
{
    return capacity * sizeof(struct digest);
}

struct arrivals *arrivals_create(struct device *device, size_t boundary, size_t capacity)
{
    struct arrivals *a = allocate(1, sizeof *a);
    *a = (struct arrivals){ .device = device, .boundary = boundary, .capacity = capacity };
    if (capacity == 0) return a;
    a->on_device = device->allocate(device, arrivals_device_bytes(capacity));
    a->fetched = allocate(capacity, sizeof *a->fetched);
    a->list = allocate(capacity, sizeof *a->list);
    return a;
}

void arrivals_close(struct arrivals *a)
{
    if (!a) return;
    if (a->on_device) a->device->release(a->device, a->on_device);
    free(a->fetched);
    free(a->list);
    free(a);
}

void arrivals_begin(struct arrivals *a, bool recorded)
{
    a->recording = recorded && a->capacity > 0;
    if (a->recording) a->count = 0;
}

void arrivals_see(struct arrivals *a, struct compute compute, uint64_t first_index, const float *data)
{
    if (!a->recording) return;
    if (a->count == a->capacity)
        fail("more boundary tensors arrive than the %zu that were foreseen", a->count);
    a->device->digest(a->device, a->boundary, data, first_index, &a->on_device[a->count]);
    a->list[a->count++] = (struct arrival){
        .is_gradient = compute.kind != COMPUTE_F, .chunk = compute.chunk, .microbatch = compute.microbatch
    };
}

void arrivals_fetch(struct arrivals *a)
{
    if (!a->recording || a->count == 0) return;
    a->device->download(a->device, a->fetched, a->on_device, a->count * sizeof *a->fetched);
    for (size_t i = 0; i < a->count; i++) a->list[i].digest = a->fetched[i];
    a->recording = false;
}

const struct arrival *arrivals_list(const struct arrivals *a, size_t *count)
{
    *count = a->count;
    return a->list;
}
