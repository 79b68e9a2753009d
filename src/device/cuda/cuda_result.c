/* How a CUDA call that fails is said; launches are in launched.c. */
#include "device/cuda/cuda_device.h"

void cuda_result(cudaError_t result, const char *call, const char *file, int line)
{
    if (result == cudaSuccess) return;
    fail("%s:%d: %s: %s (%s)", file, line, call, cudaGetErrorString(result), cudaGetErrorName(result));
}
