/* A device whose memory is not the host's and whose work is late: two streams, each a thread that begins its
   operations after a random while; addresses that the host cannot read; events. All that channels ask of such
   a device, and two kernels for a test's messages: random and digest. */
#pragma once
#include "device/device.h"
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* An address of the device: none of the host's. */
static inline void *late_hide(void *memory)
{
    return (void *)((uintptr_t)memory ^ (uintptr_t)1 << 62);
}

struct event {
    unsigned recorded;        /* how often, by the enqueuing thread */
    _Atomic unsigned reached; /* how often, by the streams */
    _Atomic double seconds;
};

enum late_kind { LATE_RECORD, LATE_WAIT, LATE_COPY, LATE_RANDOM, LATE_DIGEST };

struct late_work {
    enum late_kind kind;
    struct event *event;
    unsigned number; /* of the record that is made or waited for */
    void *to;
    const void *from;
    size_t bytes;
    struct random key;
};

struct late_stream {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t change;
    struct late_work work[4096];
    int first, count;
    bool closing;
};

enum late_streams { LATE_COMPUTE, LATE_BESIDE, LATE_STREAMS };
static struct late_stream late[LATE_STREAMS];
static size_t late_held, late_pinned;
/* Longest that an operation waits before it begins, seconds. */
static _Atomic double late_delay = 300e-6;
/* A mistake to be found: the compute stream does not wait for copies. */
static bool late_forgets_waits;

static inline void late_pause(double seconds)
{
    const struct timespec time = { .tv_nsec = (long)(1e9 * seconds) };
    nanosleep(&time, NULL);
}

/* --- The streams --- */

static inline uint32_t late_word(const struct random *key, size_t i)
{
    uint32_t x =
        (uint32_t)i * 2654435761u ^ key->layer * 40503u ^ key->step * 0x01000193u ^ (uint32_t)key->seed;
    x ^= x >> 15;
    return x * 0x2c1b3c6du;
}

static inline void late_do(const struct late_work *w)
{
    switch (w->kind) {
    case LATE_RECORD:
        atomic_store(&w->event->seconds, seconds_now());
        atomic_store(&w->event->reached, w->number);
        break;
    case LATE_WAIT:
        while ((int)(atomic_load(&w->event->reached) - w->number) < 0) late_pause(20e-6);
        break;
    case LATE_COPY: memcpy(w->to, w->from, w->bytes); break;
    case LATE_RANDOM:
        for (size_t i = 0; i < w->bytes / 4; i++) ((uint32_t *)w->to)[i] = late_word(&w->key, i);
        break;
    case LATE_DIGEST: {
        struct digest digest = { 0 };
        const uint32_t *words = w->from;
        for (size_t i = 0; i < w->bytes / 4; i++) {
            digest.sum += words[i];
            digest.weighted += words[i] * (2 * (uint64_t)i + 1);
        }
        memcpy(w->to, &digest, sizeof digest);
        break;
    }
    }
}

static inline void *late_run(void *stream)
{
    struct late_stream *s = stream;
    uint64_t random = (uintptr_t)s;
    pthread_mutex_lock(&s->mutex);
    for (;;) {
        while (!s->count && !s->closing) pthread_cond_wait(&s->change, &s->mutex);
        if (!s->count) break;
        const struct late_work work = s->work[s->first];
        pthread_mutex_unlock(&s->mutex);
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (random >> 63 || late_delay > 0.01)
            late_pause(late_delay * (double)(random >> 40 & 0xffff) / 65536.0);
        late_do(&work);
        pthread_mutex_lock(&s->mutex);
        s->first = (s->first + 1) % (int)(sizeof s->work / sizeof *s->work);
        s->count--;
        pthread_cond_broadcast(&s->change);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

static inline void late_enqueue(enum late_streams stream, struct late_work work)
{
    struct late_stream *s = &late[stream];
    const int room = (int)(sizeof s->work / sizeof *s->work);
    pthread_mutex_lock(&s->mutex);
    while (s->count == room) pthread_cond_wait(&s->change, &s->mutex);
    s->work[(s->first + s->count++) % room] = work;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->mutex);
}

/* Operations that have not ended; one that is just ending may be among them. */
static inline int late_pending(enum late_streams stream)
{
    pthread_mutex_lock(&late[stream].mutex);
    const int count = late[stream].count;
    pthread_mutex_unlock(&late[stream].mutex);
    return count;
}

static inline void late_drain(enum late_streams stream)
{
    struct late_stream *s = &late[stream];
    pthread_mutex_lock(&s->mutex);
    while (s->count) pthread_cond_wait(&s->change, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

/* --- The table --- */

static inline void *late_allocate(struct device *device, size_t bytes)
{
    (void)device;
    size_t *memory = aligned_alloc(256, 256 + (bytes + 255) / 256 * 256);
    if (!memory) fail("out of memory");
    *memory = bytes;
    late_held += bytes;
    memset((char *)memory + 256, 0, bytes);
    return late_hide((char *)memory + 256);
}

static inline void late_release(struct device *device, void *memory)
{
    (void)device;
    size_t *start = (size_t *)((char *)late_hide(memory) - 256);
    late_held -= *start;
    free(start);
}

static inline void *late_allocate_pinned(struct device *device, size_t bytes)
{
    (void)device;
    late_pinned++;
    return allocate(bytes, 1);
}

static inline void late_release_pinned(struct device *device, void *memory)
{
    (void)device;
    late_pinned--;
    free(memory);
}

static inline struct event *late_event_create(struct device *device)
{
    (void)device;
    return allocate(1, sizeof(struct event));
}

static inline void late_event_destroy(struct device *device, struct event *event)
{
    (void)device;
    free(event);
}

static inline void late_record_on(enum late_streams stream, struct event *event)
{
    late_enqueue(stream, (struct late_work){ LATE_RECORD, .event = event, .number = ++event->recorded });
}

static inline void late_await_on(enum late_streams stream, struct event *event)
{
    late_enqueue(stream, (struct late_work){ LATE_WAIT, .event = event, .number = event->recorded });
}

static inline void late_event_record(struct device *device, struct event *event)
{
    (void)device;
    late_record_on(LATE_COMPUTE, event);
}

static inline bool late_event_reached(struct device *device, struct event *event)
{
    (void)device;
    return atomic_load(&event->reached) == event->recorded;
}

static inline double late_event_seconds(struct device *device, struct event *event)
{
    (void)device;
    assert(late_event_reached(device, event));
    return atomic_load(&event->seconds);
}

static inline void late_event_await(struct device *device, struct event *event)
{
    (void)device;
    if (!late_forgets_waits) late_await_on(LATE_COMPUTE, event);
}

static inline bool late_is_device(const void *memory)
{
    return (uintptr_t)memory >> 62 != 0;
}

static inline void late_copy_beside(
    struct device *device, void *to, const void *from, size_t bytes, struct event *after, struct event *done)
{
    (void)device;
    assert(late_is_device(to) != late_is_device(from));
    if (after) late_await_on(LATE_BESIDE, after);
    late_enqueue(LATE_BESIDE,
        (struct late_work){ LATE_COPY, .to = late_is_device(to) ? late_hide(to) : to,
            .from = late_is_device(from) ? late_hide((void *)(uintptr_t)from) : from, .bytes = bytes });
    late_record_on(LATE_BESIDE, done);
}

static inline void late_synchronize(struct device *device)
{
    (void)device;
    late_drain(LATE_COMPUTE);
    late_drain(LATE_BESIDE);
}

static inline void late_random(struct device *device, const struct random *key, size_t count, float *x)
{
    (void)device;
    late_enqueue(
        LATE_COMPUTE, (struct late_work){ LATE_RANDOM, .to = late_hide(x), .bytes = 4 * count, .key = *key });
}

static inline void late_digest(
    struct device *device, size_t count, const float *x, uint64_t first_index, struct digest *result)
{
    (void)device, (void)first_index;
    assert(first_index == 0);
    late_enqueue(LATE_COMPUTE, (struct late_work){ LATE_DIGEST, .to = late_hide(result),
                                   .from = late_hide((void *)(uintptr_t)x), .bytes = 4 * count });
}

static inline void late_download(struct device *device, void *host, const void *from, size_t bytes)
{
    late_synchronize(device);
    memcpy(host, late_hide((void *)(uintptr_t)from), bytes);
}

static struct device late_device = {
    .name = "late",
    .kind = "late",
    .variant = "none",
    .threads = 1,
    .allocate = late_allocate,
    .release = late_release,
    .allocate_pinned = late_allocate_pinned,
    .release_pinned = late_release_pinned,
    .copy_beside = late_copy_beside,
    .download = late_download,
    .event_create = late_event_create,
    .event_destroy = late_event_destroy,
    .event_record = late_event_record,
    .event_reached = late_event_reached,
    .event_seconds = late_event_seconds,
    .event_await = late_event_await,
    .synchronize = late_synchronize,
    .random = late_random,
    .digest = late_digest,
};

static inline void late_open(void)
{
    for (int s = 0; s < LATE_STREAMS; s++) {
        pthread_mutex_init(&late[s].mutex, NULL);
        pthread_cond_init(&late[s].change, NULL);
        if (pthread_create(&late[s].thread, NULL, late_run, &late[s])) fail("no thread");
    }
}

static inline void late_close(void)
{
    for (int s = 0; s < LATE_STREAMS; s++) {
        pthread_mutex_lock(&late[s].mutex);
        late[s].closing = true;
        pthread_cond_broadcast(&late[s].change);
        pthread_mutex_unlock(&late[s].mutex);
        pthread_join(late[s].thread, NULL);
    }
}
