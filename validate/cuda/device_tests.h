/* What the tests of the whole device share: a small device, and what a step must leave as it is. */
#pragma once
#include "on_gpu.h"
#include "device/kinds.h"

/* The double's headers can be found where a test is built for it, and only there. */
#if __has_include("cublaslt_double.h")
#define ON_DOUBLE 1
#include "cublaslt_double.h"
extern unsigned long double_allocations(void);
#else
#define ON_DOUBLE 0
#endif

static const struct device_request tiny = { .kind = "cuda",
    .threads = 1,
    .bytes = 1 << 20,
    .microbatch_size = 2,
    .sequence = 40,
    .hidden = 48,
    .heads = 3,
    .ffn = 192 };
static const char *const precisions[] = { "fp32", "tf32", "bf16" };

static inline struct device *open_device(struct device_request request)
{
    struct text error = { 0 };
    struct device *device = NULL;
    if (!cuda_device_open(&request, &device, &error)) fail("%s", error.data);
    CHECK(error.length == 0, "a device that opens says '%s'", error.data);
    return device;
}

static inline struct device *open_vendor(enum precision precision)
{
    struct device_request request = tiny;
    request.vendor = true;
    request.precision = precision;
    return open_device(request);
}

/* A copy of host memory on the device. */
static inline float *sent(struct device *device, const float *host, size_t count)
{
    float *memory = device->allocate(device, count * sizeof *memory);
    device->upload(device, memory, host, count * sizeof *memory);
    return memory;
}

static inline size_t free_memory(void)
{
    size_t unused, total;
    CUDA_CALL(cudaMemGetInfo(&unused, &total));
    return unused;
}

/* How often memory was allocated; a GPU, which tells no such thing, says how much is free. */
static inline unsigned long allocated(void)
{
#if ON_DOUBLE
    return double_allocations();
#else
    return free_memory();
#endif
}
