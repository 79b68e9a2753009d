/* The first kernel that a device is given: it does nothing, and shows whether there is code for the device.
 */
#include "device/cuda/launch.h"
#include "device/cuda/cuda_parts.h"

static __global__ void do_nothing(int) {}

cudaError_t cuda_first_launch(cudaStream_t stream)
{
    LAUNCH(do_nothing, 1, 32, 0, stream, 0);
    const cudaError_t launched = cudaGetLastError();
    return launched == cudaSuccess ? cudaStreamSynchronize(stream) : launched;
}
