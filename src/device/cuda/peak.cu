/* The fp32 peak as this GPU can reach it: fused multiply-adds on registers alone. */
#include "device/arithmetic.h"
#include "device/cuda/kernels.h"
#include "device/cuda/launch.h"
#include <assert.h>

/* An fma takes 4 cycles: CHAINS independent ones a thread hide that, and so would the 8 warps a scheduler. */
enum { CHAINS = 16, UNROLL = 4, THREADS = 256, BLOCKS_PER_SM = 4 };

/* factor and term are 1, which the compiler does not know: chains count their fmas. They begin at different
   numbers, lest the compiler make one of them all, or one for all threads of a warp. FIRST: the sum of the
   first thread's. Each thread looks at its result, so none can be left out: no result is `never`. */
enum { FIRST = CHAINS * (CHAINS - 1) / 2 };
__global__ void __launch_bounds__(THREADS)
    fma_kernel(int fmas, float factor, float term, float never, float *sink)
{
    float x[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; i++) x[i] = (float)(threadIdx.x + i);
#pragma unroll UNROLL
    for (int round = 0; round < fmas / CHAINS; round++) {
#pragma unroll
        for (int i = 0; i < CHAINS; i++) x[i] = pl_fma(x[i], factor, term);
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < CHAINS; i++) {
        if (i < fmas % CHAINS) x[i] = pl_fma(x[i], factor, term);
        sum = sum + x[i];
    }
    if (sum == never || (blockIdx.x == 0 && threadIdx.x == 0)) *sink = sum - (float)FIRST;
}

/* *sink becomes `fmas`, exactly up to 2^23. */
size_t cuda_fma_loop(cudaStream_t stream, int sms, int fmas, float *sink)
{
    assert(sms > 0 && fmas >= 0);
    const int blocks = sms * BLOCKS_PER_SM;
    LAUNCH(fma_kernel, blocks, THREADS, 0, stream, fmas, 1.0f, 1.0f, -1.0f, sink);
    cuda_launched("fma");
    return (size_t)blocks * THREADS;
}
