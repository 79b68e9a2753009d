/* How threads share out rows whose sums follow the 32-lane rule. Blocks have 256 threads. Short rows are
   given to one warp each, 8 to a block; long ones to a whole block, whose 8 warps fetch and write the row
   while its first warp alone adds it up, since lane t must add elements t, t + 32, ... in order. What is read
   more than once is held in shared memory where the GPU grants enough of it, else read again. */
#pragma once
#include "device/arithmetic.h"
#include "device/cuda/launch.h"
#include <assert.h>
#include <limits.h>

enum {
    ROW_THREADS = 256,
    ROW_WARPS = ROW_THREADS / 32,
    SHORT_ROW = 512,           /* the longest row of one warp */
    ROW_FACTS = ROW_WARPS + 2, /* numbers of a row that its warps tell one another; before what is held */
    ROW_BATCH = 8,             /* loads under way before the first is used */
    GRANTED = 48 << 10         /* bytes of shared memory that a block has without asking */
};

/* One thread's place. WARPS: of a row, 1 or ROW_WARPS. */
template <int WARPS> struct row_place {
    static const unsigned STEP = 32 * WARPS;
    __device__ static unsigned slot() /* of the rows of this block */
    {
        return threadIdx.x / STEP;
    }
    __device__ static size_t row()
    {
        return (size_t)blockIdx.x * (ROW_WARPS / WARPS) + slot();
    }
    __device__ static unsigned thread() /* of the row's STEP threads; the first 32 are the lanes */
    {
        return threadIdx.x % STEP;
    }
    /* What the row's threads wrote to shared memory is seen by all of them. */
    __device__ static void join()
    {
        if (WARPS == 1)
            __syncwarp();
        else
            __syncthreads();
    }
    __device__ static float *facts(float *shared)
    {
        return shared + slot() * ROW_FACTS;
    }
    /* Where the row holds `numbers` floats. */
    __device__ static float *held(float *shared, size_t numbers)
    {
        return shared + ROW_WARPS / WARPS * ROW_FACTS + slot() * numbers;
    }
};

/* use(j, load(j)) for j = first, first + STEP, ... below end, in that order; ROW_BATCH loads begin before the
   first use, whatever the uses write. */
template <unsigned STEP, class Load, class Use>
__device__ static inline void each_element(size_t first, size_t end, Load load, Use use)
{
    decltype(load(first)) value[ROW_BATCH];
    size_t j = first;
    for (; j + (ROW_BATCH - 1) * STEP < end; j += ROW_BATCH * STEP) {
#pragma unroll
        for (unsigned b = 0; b < ROW_BATCH; b++) value[b] = load(j + b * STEP);
#pragma unroll
        for (unsigned b = 0; b < ROW_BATCH; b++) use(j + b * STEP, value[b]);
    }
#pragma unroll
    for (unsigned b = 0; b < ROW_BATCH - 1; b++)
        if (j + b * STEP < end) value[b] = load(j + b * STEP);
#pragma unroll
    for (unsigned b = 0; b < ROW_BATCH - 1; b++)
        if (j + b * STEP < end) use(j + b * STEP, value[b]);
}

/* The tree of pl_lane_sum over a warp's lanes. Every lane adds the tree's numbers, if in the other order, so
   that all end with its sum. */
__device__ static inline float lane_sum(float lane)
{
#pragma unroll
    for (int width = PL_LANES / 2; width > 0; width /= 2) lane += __shfl_xor_sync(0xffffffffu, lane, width);
    return lane;
}

/* Whether a kernel may hold this much; asks for it where it must. */
static inline bool may_hold(const void *kernel, size_t bytes)
{
    if (bytes <= GRANTED) return true;
    if (bytes > INT_MAX) return false;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes) == cudaSuccess)
        return true;
    (void)cudaGetLastError(); /* not an error: the row is read again instead */
    return false;
}

/* Blocks for n rows. */
static inline unsigned row_blocks(size_t n, size_t rows_of_block)
{
    const size_t blocks = (n + rows_of_block - 1) / rows_of_block;
    assert(blocks <= INT_MAX);
    return (unsigned)blocks;
}

/* Launches kernel<warps, held> for n rows of `length` elements, for each of which `numbers` floats are held.
 */
#define LAUNCH_ROWS(kernel, stream, n, length, numbers, ...)                                                 \
    do {                                                                                                     \
        const size_t facts_ = ROW_FACTS * sizeof(float), held_ = (numbers) * sizeof(float);                  \
        if ((n) == 0) break;                                                                                 \
        if ((length) <= SHORT_ROW)                                                                           \
            LAUNCH((kernel<1, true>), row_blocks(n, ROW_WARPS), ROW_THREADS, ROW_WARPS *(facts_ + held_),    \
                stream, __VA_ARGS__);                                                                        \
        else if (may_hold((const void *)kernel<ROW_WARPS, true>, facts_ + held_))                            \
            LAUNCH((kernel<ROW_WARPS, true>), row_blocks(n, 1), ROW_THREADS, facts_ + held_, stream,         \
                __VA_ARGS__);                                                                                \
        else                                                                                                 \
            LAUNCH((kernel<ROW_WARPS, false>), row_blocks(n, 1), ROW_THREADS, facts_, stream, __VA_ARGS__);  \
        cuda_launched(#kernel);                                                                              \
    } while (0)
