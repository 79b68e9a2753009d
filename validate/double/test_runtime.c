/* The double's CUDA runtime, as C sees it: devices, memory, copies, events and errors answer as the real
   one's documentation says, and what a step must not do is counted. */
#include "../check.h"
#include "counters.h"
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static cudaStream_t new_stream(void)
{
    cudaStream_t stream = NULL;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "a stream");
    return stream;
}

static void devices(void)
{
    int count = 0, device = -1, value = 0;
    char bus[2][32];
    struct cudaDeviceProp one, two;
    CHECK(cudaGetDeviceCount(&count) == cudaSuccess && count == 2, "%d devices", count);
    CHECK(cudaGetDevice(&device) == cudaSuccess && device == 0, "device %d", device);
    CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice && cudaGetLastError() == cudaErrorInvalidDevice,
        "device 2 of 2");
    CHECK(cudaGetLastError() == cudaSuccess, "an error is given once");
    CHECK(cudaGetDeviceProperties(&one, 0) == cudaSuccess && cudaGetDeviceProperties(&two, 1) == cudaSuccess,
        "both");
    CHECK(strcmp(one.name, "CPU double of a GPU") == 0, "%s", one.name);
    CHECK(memcmp(&one.uuid, &two.uuid, sizeof one.uuid) != 0, "each has its own UUID");
    CHECK(one.major == 9 && one.minor == 0 && one.multiProcessorCount > 0 && one.warpSize == 32, "%d.%d",
        one.major, one.minor);
    CHECK(cudaDeviceGetPCIBusId(bus[0], 32, 0) == cudaSuccess &&
              cudaDeviceGetPCIBusId(bus[1], 32, 1) == cudaSuccess && strcmp(bus[0], bus[1]) != 0,
        "each has its own bus");
    CHECK(
        cudaDeviceGetAttribute(&value, cudaDevAttrClockRate, 0) == cudaSuccess && value > 0, "%d kHz", value);
    CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) == cudaSuccess &&
              value == 227 << 10,
        "%d bytes", value);
    CHECK(cudaRuntimeGetVersion(&value) == cudaSuccess && value == CUDART_VERSION, "%d", value);
}

static void memory(void)
{
    size_t free_bytes = 0, total = 0, now = 0;
    float *y = NULL, *pinned = NULL, *alias = NULL, *more = NULL;
    CHECK(cudaMemGetInfo(&free_bytes, &total) == cudaSuccess && total == (size_t)64 << 20 &&
              free_bytes == total,
        "%zu of %zu free", free_bytes, total);
    const unsigned long before = double_allocations();
    CHECK(cudaMalloc((void **)&y, 1000 * sizeof *y) == cudaSuccess && (size_t)y % 256 == 0, "aligned");
    CHECK(
        cudaMemGetInfo(&now, &total) == cudaSuccess && now == free_bytes - 1000 * sizeof *y, "%zu free", now);
    CHECK(cudaMalloc((void **)&more, total) == cudaErrorMemoryAllocation, "more than there is");
    CHECK(strcmp(cudaGetErrorString(cudaGetLastError()), "out of memory") == 0, "the error's text");
    CHECK(
        cudaHostAlloc((void **)&pinned, 1000 * sizeof *pinned, cudaHostAllocMapped) == cudaSuccess, "pinned");
    CHECK(double_allocations() == before + 2, "%lu counted", double_allocations() - before);
    CHECK(cudaHostGetDevicePointer((void **)&alias, pinned, 0) == cudaSuccess && alias, "mapped");
    CHECK(cudaHostGetDevicePointer((void **)&alias, y, 0) == cudaErrorInvalidValue, "not pinned");
    CHECK(cudaFree(pinned) == cudaErrorInvalidValue && cudaFreeHost(y) == cudaErrorInvalidValue,
        "each kind its own");
    CHECK(cudaFree(y + 1) == cudaErrorInvalidValue, "not the beginning");
    CHECK(cudaFree(y) == cudaSuccess && cudaFreeHost(pinned) == cudaSuccess && cudaFree(NULL) == cudaSuccess,
        "freed");
    CHECK(cudaFree(y) == cudaErrorInvalidValue, "freed twice");
    cudaGetLastError();
    CHECK(cudaMemGetInfo(&now, &total) == cudaSuccess && now == total, "all free again");
}

static void copies(void)
{
    const size_t bytes = 1000 * sizeof(float);
    float *y, *pinned, *pageable = malloc(bytes);
    const cudaStream_t stream = new_stream();
    cudaMalloc((void **)&y, bytes);
    cudaHostAlloc((void **)&pinned, bytes, cudaHostAllocDefault);
    for (int i = 0; i < 1000; i++) pinned[i] = pageable[i] = (float)i;
    const enum cudaMemcpyKind up = cudaMemcpyHostToDevice, down = cudaMemcpyDeviceToHost;

    const unsigned long waits = double_synchronizations();
    CHECK(cudaMemcpyAsync(y, pinned, bytes, up, stream) == cudaSuccess, "up");
    CHECK(cudaMemcpyAsync(y + 500, y, bytes / 2, cudaMemcpyDeviceToDevice, stream) == cudaSuccess, "along");
    CHECK(cudaMemcpyAsync(pinned, y, bytes, down, stream) == cudaSuccess, "down");
    CHECK(double_synchronizations() == waits, "copies of pinned memory do not wait");
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess && double_synchronizations() == waits + 1, "that did");
    for (int i = 0; i < 1000; i++)
        CHECK(pinned[i] == (float)(i % 500), "element %d: %g", i, (double)pinned[i]);
    CHECK(cudaMemcpyAsync(pageable, y, bytes, down, stream) == cudaSuccess, "to pageable memory");
    CHECK(double_synchronizations() == waits + 2 && pageable[999] == 499.0f, "waits");

    CHECK(cudaMemcpyAsync(y, pinned, bytes, down, stream) == cudaErrorInvalidValue, "the wrong way");
    CHECK(cudaMemcpyAsync(y, pinned, bytes, cudaMemcpyHostToHost, stream) == cudaErrorInvalidValue,
        "the device is no host");
    CHECK(cudaMemcpyAsync(pinned, y, bytes, cudaMemcpyDeviceToDevice, stream) == cudaErrorInvalidValue,
        "nor the host a device");
    CHECK(cudaMemcpyAsync(y + 1, pinned, bytes, up, stream) == cudaErrorInvalidValue, "past the end");
    CHECK(cudaMemcpyAsync(pinned, y, bytes + 1, down, stream) == cudaErrorInvalidValue, "past both ends");
    CHECK(cudaMemsetAsync(y, 0, bytes + 1, stream) == cudaErrorInvalidValue, "set past the end");
    CHECK(cudaMemsetAsync(pageable, 0, bytes, stream) == cudaErrorInvalidValue, "set pageable memory");
    cudaGetLastError();
    const unsigned long defaults = double_default_stream_uses();
    CHECK(cudaMemcpy(pinned, y, bytes, cudaMemcpyDefault) == cudaSuccess, "default kind");
    CHECK(double_default_stream_uses() > defaults, "cudaMemcpy uses the default stream");
    cudaFree(y);
    cudaFreeHost(pinned);
    free(pageable);
    cudaStreamDestroy(stream);
}

static void events(void)
{
    cudaEvent_t first, second, untimed;
    float milliseconds = -1;
    const cudaStream_t stream = new_stream();
    cudaEventCreate(&first);
    cudaEventCreateWithFlags(&second, cudaEventDefault);
    cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming);
    CHECK(cudaEventQuery(first) == cudaSuccess, "never recorded: nothing to wait for");
    CHECK(cudaEventElapsedTime(&milliseconds, first, second) == cudaErrorInvalidResourceHandle,
        "never recorded");
    CHECK(cudaEventRecord(first, stream) == cudaSuccess && cudaEventRecord(second, stream) == cudaSuccess,
        "record");
    CHECK(cudaEventRecord(untimed, stream) == cudaSuccess, "record");
    CHECK(cudaEventElapsedTime(&milliseconds, first, second) == cudaErrorNotReady, "lazily, none has come");
    CHECK(cudaEventSynchronize(second) == cudaSuccess && cudaEventQuery(first) == cudaSuccess, "in order");
    CHECK(cudaEventElapsedTime(&milliseconds, first, second) == cudaSuccess && milliseconds >= 0, "%g",
        (double)milliseconds);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess && cudaStreamQuery(stream) == cudaSuccess, "all done");
    CHECK(cudaEventElapsedTime(&milliseconds, first, untimed) == cudaErrorInvalidResourceHandle,
        "without times");
    CHECK(cudaStreamDestroy(stream) == cudaSuccess, "destroyed");
    CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle, "no such stream");
    CHECK(cudaEventRecord(first, stream) == cudaErrorInvalidResourceHandle, "no such stream");
    cudaGetLastError();
    cudaEventDestroy(first);
    cudaEventDestroy(second);
    cudaEventDestroy(untimed);
}

int main(void)
{
    setenv("DOUBLE_DEVICES", "2", 1);
    setenv("DOUBLE_MEMORY_MIB", "64", 1);
    setenv("DOUBLE_ORDER", "lazy", 1);
    devices();
    memory();
    copies();
    events();
    return check_result();
}
