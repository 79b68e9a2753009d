#include "device/cuda/kernels.h"

void cuda_launched(const char *kernel)
{
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess)
        fail("launch of kernel %s: %s (%s)", kernel, cudaGetErrorString(error), cudaGetErrorName(error));
}
