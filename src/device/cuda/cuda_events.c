/* Order and time on a GPU: events, the clock they are read on, words that tell other threads how far the work
   is, and ranges for profilers. */
#include "device/cuda/cuda_parts.h"
#include "device/cuda/kernels.h"
#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>

static struct event *event_create(struct device *device)
{
    cuda_use(cuda_of(device));
    struct event *event = allocate(1, sizeof *event);
    CUDA_CALL(cudaEventCreateWithFlags(&event->event, cudaEventDefault)); /* that is, with a time */
    return event;
}

static void event_destroy(struct device *device, struct event *event)
{
    (void)device;
    if (!event) return;
    CUDA_CALL(cudaEventDestroy(event->event));
    free(event);
}

static void event_record(struct device *device, struct event *event)
{
    CUDA_CALL(cudaEventRecord(event->event, cuda_of(device)->compute));
}

void cuda_record_on(struct event *event, cudaStream_t stream)
{
    CUDA_CALL(cudaEventRecord(event->event, stream));
}

static bool event_reached(struct device *device, struct event *event)
{
    cuda_use(cuda_of(device));
    const cudaError_t result = cudaEventQuery(event->event);
    if (result == cudaErrorNotReady) {
        cudaGetLastError(); /* no error: it shall not be found after the next launch */
        return false;
    }
    CUDA_CALL(result);
    return true;
}

/* `end` after `begin`. CUDA gives milliseconds in a float: exact to a microsecond for 16 seconds. */
static double seconds_between(cudaEvent_t begin, cudaEvent_t end)
{
    float milliseconds = 0.0f;
    CUDA_CALL(cudaEventElapsedTime(&milliseconds, begin, end));
    return 1e-3 * (double)milliseconds;
}

static double event_seconds(struct device *device, struct event *event)
{
    const struct cuda_device *self = cuda_of(device);
    cuda_use(self);
    return self->origin_seconds + seconds_between(self->origin, event->event);
}

static void event_await(struct device *device, struct event *event)
{
    CUDA_CALL(cudaStreamWaitEvent(cuda_of(device)->compute, event->event, 0));
}

static void synchronize(struct device *device)
{
    const struct opened *self = opened_of(device);
    cuda_use(&self->cuda);
    CUDA_CALL(cudaStreamSynchronize(self->cuda.compute));
    CUDA_CALL(cudaStreamSynchronize(self->cuda.beside));
    CUDA_CALL(cudaStreamSynchronize(self->beside_back));
}

/* An event on an idle stream is reached between the host's look at the clock before it is recorded and that
   after it was waited for: near the middle of the two, and the nearer the shorter they are apart. */
static void start_clock(struct device *device)
{
    enum { ROUNDS = 8 };
    struct opened *self = opened_of(device);
    synchronize(device);
    CUDA_CALL(cudaEventRecord(self->cuda.origin, self->cuda.compute));
    CUDA_CALL(cudaEventSynchronize(self->cuda.origin));
    double shortest = 0.0;
    for (int round = 0; round < ROUNDS; round++) {
        const double before = seconds_now();
        CUDA_CALL(cudaEventRecord(self->probe, self->cuda.compute));
        CUDA_CALL(cudaEventSynchronize(self->probe));
        const double trip = seconds_now() - before;
        if (round > 0 && trip >= shortest) continue;
        shortest = trip;
        self->cuda.origin_seconds = before + 0.5 * trip - seconds_between(self->cuda.origin, self->probe);
    }
}

static void store_word(struct device *device, int *word, int value)
{
    cuda_store_word(cuda_of(device)->compute, word, value);
}

static void range_push(struct device *device, const char *name)
{
    (void)device;
    nvtxRangePushA(name);
}

static void range_pop(struct device *device)
{
    (void)device;
    nvtxRangePop();
}

void cuda_event_functions(struct device *device)
{
    device->event_create = event_create;
    device->event_destroy = event_destroy;
    device->event_record = event_record;
    device->event_reached = event_reached;
    device->event_seconds = event_seconds;
    device->event_await = event_await;
    device->synchronize = synchronize;
    device->start_clock = start_clock;
    device->store_word = store_word;
    device->range_push = range_push;
    device->range_pop = range_pop;
}
