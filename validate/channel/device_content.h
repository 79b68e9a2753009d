/* Messages that a device makes and knows again by itself, in the order of its stream: random tensors, and the
   digests of what came and of what should have come, compared at the end of a step. */
#pragma once
#include "traffic.h"
#include "channel/watchdog.h"
#include <string.h>

enum { MOST_MESSAGES = 512 };

struct device_content {
    struct device *device;
    float *scratch;                  /* device memory, of a message */
    struct digest *found, *expected; /* device memory, [MOST_MESSAGES] */
    bool checked[MOST_MESSAGES];
    struct message messages[MOST_MESSAGES];
    uint64_t random; /* of the rank's own */
    struct progress *progress;
    unsigned long wrong; /* messages, so far */
};

static inline void device_fill(void *context, const struct message *message, float *buffer, size_t bytes)
{
    struct device_content *c = context;
    const struct random key = { .seed = 1 + (uint64_t)message->channel,
        .layer = (uint32_t)message->nth,
        .step = (uint32_t)message->step,
        .deviation = 1 };
    c->device->random(c->device, &key, bytes / 4, buffer);
}

static inline void device_check(void *context, const struct message *message, float *buffer, size_t bytes)
{
    struct device_content *c = context;
    const int n = message->number;
    c->checked[n] = true;
    c->messages[n] = *message;
    c->device->digest(c->device, bytes / 4, buffer, 0, &c->found[n]);
    device_fill(context, message, c->scratch, bytes);
    c->device->digest(c->device, bytes / 4, c->scratch, 0, &c->expected[n]);
    c->progress->count++;
}

/* Kernels, and from time to time the host comes late. */
static inline void device_compute(void *context)
{
    struct device_content *c = context;
    const struct message none = { 0 };
    for (int i = below(&c->random, 3); i > 0; i--) device_fill(context, &none, c->scratch, 4);
    const double seconds = below(&c->random, 8) == 0 ? 1e-6 * below(&c->random, 400) : 0,
                 start = seconds_now();
    while (seconds_now() - start < seconds) continue;
}

static inline void device_content_open(
    struct device_content *c, struct device *device, size_t bytes, uint64_t seed, struct progress *progress)
{
    *c = (struct device_content){ .device = device, .random = seed, .progress = progress };
    c->scratch = device->allocate(device, bytes);
    c->found = device->allocate(device, MOST_MESSAGES * sizeof *c->found);
    c->expected = device->allocate(device, MOST_MESSAGES * sizeof *c->expected);
}

/* After a step. How many messages were not what they should be. */
static inline unsigned long device_content_judge(struct device_content *c)
{
    struct digest found[MOST_MESSAGES], expected[MOST_MESSAGES];
    c->device->synchronize(c->device);
    c->device->download(c->device, found, c->found, sizeof found);
    c->device->download(c->device, expected, c->expected, sizeof expected);
    unsigned long wrong = 0;
    for (int i = 0; i < MOST_MESSAGES; i++) {
        if (!c->checked[i]) continue;
        wrong += found[i].sum != expected[i].sum || found[i].weighted != expected[i].weighted || found[i].nan;
        c->checked[i] = false;
    }
    c->wrong += wrong;
    return wrong;
}

static inline void device_content_close(struct device_content *c)
{
    c->device->release(c->device, c->scratch);
    c->device->release(c->device, c->found);
    c->device->release(c->device, c->expected);
}
