/* Attention forward: a block for each tile of queries. The maximum must be known before the first exponential
   is summed, and the denominator before the first probability is rounded, so keys are gone over three times:
   scores three times, values once. */
#pragma once
#include "device/cuda/attention_tile.cuh"
#include "device/cuda/launch.h"

template <int D, bool WIDE> struct forward_slices {
    const struct attention &a;
    const struct shape &shape;
    const struct work &work;
    int first, end; /* tiles */
    enum { PASSES = 3, STAGED = layout<D, WIDE>::STAGED };

    __device__ __forceinline__ int parts(int pass) const
    {
        return shape.slices + (pass == 2 ? TILE / slice_tokens<D>() : 0);
    }

    __device__ __forceinline__ void operator()(struct cursor at, float *to) const
    {
        const float *qkv = a.qkv + work.qkv;
        const int token = at.tile * TILE, part = at.part - shape.slices;
        if (part >= 0) {
            stage_tokens<D>(to, qkv + 2 * shape.out_stride, shape.qkv_stride, shape,
                token + part * slice_tokens<D>(), work.column);
            return;
        }
        stage_columns(to, qkv + shape.out_stride, shape.qkv_stride, shape, token, at.part);
        if (WIDE) stage_columns(to + SLICE, qkv, shape.qkv_stride, shape, work.tile * TILE, at.part);
    }
};

template <int D, bool WIDE> constexpr size_t forward_shared(void)
{
    return sizeof(float) * (layout<D, WIDE>::HELD + 2 * layout<D, WIDE>::STAGED + SCORES);
}

template <int D, bool WIDE>
__global__ void __launch_bounds__(THREADS, D <= 64 ? 4 : 3)
    forward_kernel(struct attention a, struct shape shape)
{
    DYNAMIC_SHARED(float, shared);
    __shared__ struct work work;
    find_work(work, a, shape, true);
    __syncthreads();
    const int first_row = work.tile * TILE;
    float *const q = WIDE ? NULL : shared;
    float *const room = shared + layout<D, WIDE>::HELD, *const scores = room + 2 * layout<D, WIDE>::STAGED;
    if (!WIDE)
        for (int slice = 0; slice < shape.slices; slice++)
            stage_columns(q + slice * SLICE, a.qkv + work.qkv, shape.qkv_stride, shape, first_row, slice);
    const forward_slices<D, WIDE> slices = { a, shape, work, 0, work.tile + 1 };
    slice_queue<forward_slices<D, WIDE>> queue(slices, room);

    const int row = first_row + thread_row(), other = thread_other();
    const bool busy = first_row + (int)threadIdx.x / 32 * WARP_ROWS < shape.sequence;
    float sum[THREAD_ROWS][THREAD_OTHERS];

    float maximum[THREAD_ROWS];
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++) maximum[r] = -INFINITY;
    for (int tile = 0; tile <= work.tile; tile++) {
        make_scores(queue, q, shape, busy, sum);
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
            for (int o = 0; o < THREAD_OTHERS; o++)
                maximum[r] = tile * TILE + other + o * 8 <= row + r * 4
                                 ? pl_max(sum[r][o] * shape.scale, maximum[r])
                                 : maximum[r];
    }
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++) {
#pragma unroll
        for (int distance = 4; distance > 0; distance /= 2)
            maximum[r] = pl_max(from_other(maximum[r], distance), maximum[r]);
        maximum[r] += 0.0f; /* -0 and +0 are one */
    }

    /* Of the 32 lanes of a row this thread has those of its others: other, other + 8, other + 16, other + 24.
     */
    float lane[THREAD_ROWS][4];
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
        for (int l = 0; l < 4; l++) lane[r][l] = 0.0f;
    for (int tile = 0; tile <= work.tile; tile++) {
        make_scores(queue, q, shape, busy, sum);
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
            for (int o = 0; o < THREAD_OTHERS; o++) {
                const float e = pl_softmax_exponential(sum[r][o] * shape.scale - maximum[r]);
                lane[r][o % 4] =
                    tile * TILE + other + o * 8 <= row + r * 4 ? lane[r][o % 4] + e : lane[r][o % 4];
            }
    }
    float inverse[THREAD_ROWS];
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++) {
        /* The tree of pl_lane_sum; its sums of two are the same bits whichever thread is asked. */
        float denominator = (lane[r][0] + lane[r][2]) + (lane[r][1] + lane[r][3]);
#pragma unroll
        for (int distance = 4; distance > 0; distance /= 2) denominator += from_other(denominator, distance);
        inverse[r] = 1.0f / denominator;
        if (other == 0 && row + r * 4 < shape.sequence && work.column == 0) {
            a.maximum[work.rows + row + r * 4] = maximum[r];
            a.inverse[work.rows + row + r * 4] = inverse[r];
        }
    }

    float out[THREAD_ROWS][D / 8];
    clear_results<D>(out);
    const int begin[THREAD_ROWS] = {};
    int end[THREAD_ROWS];
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++) end[r] = thread_row() + r * 4 + 1; /* on the diagonal */
    for (int tile = 0; tile <= work.tile; tile++) {
        make_scores(queue, q, shape, busy, sum);
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
            for (int o = 0; o < THREAD_OTHERS; o++)
                *thread_score(scores, r, o) =
                    pl_softmax_exponential(sum[r][o] * shape.scale - maximum[r]) * inverse[r];
        make_results<D>(queue, scores, busy, tile == work.tile, begin, end, out);
    }
    store_results<D>(a.out + work.out, shape.out_stride, shape, work, 1.0f, out);
}
