/* Tests of CUDA kernels against the definition: arrays on the GPU, and one stream. The same tests run on a
   real GPU and, without one, on the double of validate/double. */
#pragma once
#include "../check.h"
#include "../device/variants.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/kernels.h"
#include "device/definition.h"

static inline cudaStream_t gpu_stream(void)
{
    static cudaStream_t stream;
    if (!stream) CUDA_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

/* GPU memory with one guard element (12345) behind it, and a copy of `host` (NULL: NaNs) in it. */
static inline float *gpu_floats(const float *host, size_t count)
{
    float *memory, *image = allocate(count + 1, sizeof *image);
    for (size_t i = 0; i < count; i++) image[i] = host ? host[i] : NAN;
    image[count] = 12345.0f;
    CUDA_CALL(cudaMalloc((void **)&memory, (count + 1) * sizeof *memory));
    CUDA_CALL(
        cudaMemcpyAsync(memory, image, (count + 1) * sizeof *memory, cudaMemcpyHostToDevice, gpu_stream()));
    CUDA_CALL(cudaStreamSynchronize(gpu_stream()));
    free(image);
    return memory;
}

/* Its content, waiting for all work so far; checks the guard element; frees the GPU memory. */
static inline void gpu_take(float *memory, float *host, size_t count)
{
    float *image = allocate(count + 1, sizeof *image);
    CUDA_CALL(
        cudaMemcpyAsync(image, memory, (count + 1) * sizeof *memory, cudaMemcpyDeviceToHost, gpu_stream()));
    CUDA_CALL(cudaStreamSynchronize(gpu_stream()));
    CHECK(image[count] == 12345.0f, "%zu elements: written past the end", count);
    memcpy(host, image, count * sizeof *host);
    free(image);
    CUDA_CALL(cudaFree(memory));
}
