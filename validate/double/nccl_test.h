/* What the tests of the double's NCCL share: two streams, and three arrays in the device's memory. */
#pragma once
#include "../check.h"
#include "base/base.h"
#include "nccl_double.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000 };
static cudaStream_t first, second;
static float *one, *two, *three; /* [COUNT] of device memory */

#define DONE(call) CHECK((call) == 0, "%s", ncclGetLastError(NULL))

static inline void set(float *memory, float value)
{
    float image[COUNT];
    for (int i = 0; i < COUNT; i++) image[i] = value + (float)i;
    DONE(cudaMemcpyAsync(memory, image, sizeof image, cudaMemcpyHostToDevice, second));
    DONE(cudaStreamSynchronize(second));
}

static inline bool holds(const float *memory, float value, int count)
{
    float image[COUNT];
    DONE(cudaMemcpyAsync(image, memory, (size_t)count * sizeof *image, cudaMemcpyDeviceToHost, second));
    DONE(cudaStreamSynchronize(second));
    for (int i = 0; i < count; i++)
        if (image[i] != value + (float)i) return false;
    return true;
}

static inline bool is_nan(const float *memory)
{
    float image[COUNT];
    DONE(cudaMemcpyAsync(image, memory, sizeof image, cudaMemcpyDeviceToHost, second));
    DONE(cudaStreamSynchronize(second));
    return isnan(image[0]) && isnan(image[COUNT - 1]);
}

/* Whether the stream is still busy after this time. */
static inline bool busy_for(cudaStream_t stream, double seconds)
{
    const double start = seconds_now();
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        if (seconds_now() - start > seconds) return true;
        usleep(100);
    }
    return false;
}

static inline void open_device(void)
{
    DONE(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    DONE(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    DONE(ncclMemAlloc((void **)&one, COUNT * sizeof *one));
    DONE(ncclMemAlloc((void **)&two, COUNT * sizeof *two));
    DONE(ncclMemAlloc((void **)&three, COUNT * sizeof *three));
}

static inline int close_device(void)
{
    CHECK(double_nccl_communicators() == 0, "%d communicators are left", double_nccl_communicators());
    DONE(ncclMemFree(one));
    DONE(ncclMemFree(two));
    DONE(ncclMemFree(three));
    DONE(cudaStreamDestroy(first));
    DONE(cudaStreamDestroy(second));
    return check_result();
}
