/* A device that has memory and events, and nothing else: all that channels ask of one. An event can be held
   back, as that of an asynchronous device whose kernel still runs. */
#pragma once
#include "device/device.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct event {
    double seconds;
    atomic_bool held;
};

static atomic_bool
    fake_hold_events; /* events recorded while it is set are not reached before it is cleared */
static size_t fake_held;

static void *fake_allocate(struct device *device, size_t bytes)
{
    (void)device;
    size_t *memory = aligned_alloc(256, 256 + (bytes + 255) / 256 * 256);
    if (!memory) fail("out of memory");
    *memory = bytes;
    fake_held += bytes;
    return (char *)memory + 256;
}

static void fake_release(struct device *device, void *memory)
{
    (void)device;
    size_t *start = (size_t *)((char *)memory - 256);
    fake_held -= *start;
    free(start);
}

static size_t fake_bytes_held(const struct device *device)
{
    (void)device;
    return fake_held;
}

static struct event *fake_event_create(struct device *device)
{
    (void)device;
    return allocate(1, sizeof(struct event));
}

static void fake_event_destroy(struct device *device, struct event *event)
{
    (void)device;
    free(event);
}

static void fake_event_record(struct device *device, struct event *event)
{
    (void)device;
    event->seconds = seconds_now();
    atomic_store(&event->held, atomic_load(&fake_hold_events));
}

static bool fake_event_reached(struct device *device, struct event *event)
{
    (void)device;
    return !atomic_load(&event->held) || !atomic_load(&fake_hold_events);
}

static double fake_event_seconds(struct device *device, struct event *event)
{
    (void)device;
    return event->seconds;
}

static struct device fake_device = {
    .name = "fake",
    .kind = "fake",
    .variant = "none",
    .threads = 1,
    .is_host = true,
    .allocate = fake_allocate,
    .release = fake_release,
    .held = fake_bytes_held,
    .event_create = fake_event_create,
    .event_destroy = fake_event_destroy,
    .event_record = fake_event_record,
    .event_reached = fake_event_reached,
    .event_seconds = fake_event_seconds,
};
