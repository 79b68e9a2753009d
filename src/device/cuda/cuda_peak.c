/* What a GPU can do at most: its rate of fp32 FMAs and of copies. Work is made longer until one launch lasts
   long enough for its start not to count, then repeated for a tenth of a second; the best counts. */
#include "device/cuda/cuda_parts.h"
#include "device/cuda/kernels.h"
#include <math.h>

#define LONG_COPY 1e-3 /* seconds */
enum { FEWEST_COPIED = 8 << 20, MOST_COPIED = 512 << 20 };

struct stopwatch {
    struct cuda_device *self;
    struct event *begin, *end;
};

static struct stopwatch stopwatch_make(struct cuda_device *self)
{
    struct device *device = &self->device;
    return (struct stopwatch){ self, device->event_create(device), device->event_create(device) };
}

static void stopwatch_free(struct stopwatch *watch)
{
    watch->self->device.event_destroy(&watch->self->device, watch->begin);
    watch->self->device.event_destroy(&watch->self->device, watch->end);
}

/* Seconds that the GPU spent between, at least a nanosecond. Waits. */
static double stopwatch_stop(struct stopwatch *watch)
{
    float milliseconds = 0.0f;
    cuda_record_on(watch->end, watch->self->compute);
    CUDA_CALL(cudaStreamSynchronize(watch->self->compute));
    CUDA_CALL(cudaEventElapsedTime(&milliseconds, watch->begin->event, watch->end->event));
    return fmax(1e-3 * (double)milliseconds, 1e-9);
}

static double time_fmas(struct stopwatch *watch, int fmas, float *sink, size_t *threads)
{
    cuda_record_on(watch->begin, watch->self->compute);
    *threads = cuda_fma_loop(watch->self->compute, watch->self->sms, fmas, sink);
    return stopwatch_stop(watch);
}

double cuda_measure_peak(struct device *device)
{
    struct cuda_device *self = cuda_of(device);
    if (self->vendor) return vendor_rate(self->vendor);
    enum { FEWEST = 256, MOST = 1 << 22 };
    float *sink = cuda_scratch(sizeof *sink);
    struct stopwatch watch = stopwatch_make(self);
    int fmas = FEWEST;
    size_t threads;
    double best = 0.0;
    time_fmas(&watch, fmas, sink, &threads); /* the first launch loads the kernel */
    while (time_fmas(&watch, fmas, sink, &threads) < 0.01 && fmas < MOST) fmas *= 2;
    for (double begin = seconds_now(); seconds_now() < begin + 0.1;) {
        const double rate = 2.0 * fmas / time_fmas(&watch, fmas, sink, &threads) * (double)threads;
        best = fmax(best, rate);
    }
    stopwatch_free(&watch);
    CUDA_CALL(cudaFree(sink));
    return best;
}

static double time_copy(struct stopwatch *watch, void *to, const void *from, size_t bytes)
{
    cuda_record_on(watch->begin, watch->self->compute);
    watch->self->device.copy(&watch->self->device, to, from, bytes);
    return stopwatch_stop(watch);
}

/* The best rate of copies of so many bytes, and in *seconds what one took, the first left out. */
static double copy_rate(struct stopwatch *watch, size_t bytes, double *seconds)
{
    void *from = cuda_scratch(bytes), *to = cuda_scratch(bytes);
    CUDA_CALL(cudaMemsetAsync(from, 0, bytes, watch->self->compute));
    time_copy(watch, to, from, bytes);
    *seconds = time_copy(watch, to, from, bytes);
    double best = *seconds;
    if (*seconds >= LONG_COPY || bytes >= MOST_COPIED)
        for (const double begin = seconds_now(); seconds_now() < begin + 0.1;)
            best = fmin(best, time_copy(watch, to, from, bytes));
    CUDA_CALL(cudaFree(to));
    CUDA_CALL(cudaFree(from));
    return 2.0 * (double)bytes / best;
}

/* Of up to half a gigabyte, which no cache holds, as far as there is memory for it. */
double cuda_measure_copy(struct device *device)
{
    struct stopwatch watch = stopwatch_make(cuda_of(device));
    double seconds = 0.0, rate = NAN;
    for (size_t bytes = FEWEST_COPIED; bytes <= MOST_COPIED && seconds < LONG_COPY; bytes *= 2) {
        size_t left, total;
        CUDA_CALL(cudaMemGetInfo(&left, &total));
        if (left / 4 < bytes) break;
        rate = copy_rate(&watch, bytes, &seconds);
    }
    stopwatch_free(&watch);
    return rate;
}
