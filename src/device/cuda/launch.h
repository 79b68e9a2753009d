/* How a kernel is launched, and how it gets dynamic shared memory: the two places where CUDA C++ is not C++.
   In a build without nvcc (validate/double, which runs the kernels on the CPU) both have other definitions.
 */
#pragma once
#include <cuda_runtime.h>

#if defined(__CUDACC__)
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                               \
    kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#endif
