/* Attention backward, without atomics: a kernel by queries makes dQ, one by keys dK and dV. Each makes the
   probabilities and their gradients afresh, from the maximum and inverse that forward kept and D, the row
   sums of dout * out. */
#pragma once
#include "device/cuda/attention_tile.cuh"
#include "device/cuda/launch.h"

/* By queries: of each tile of keys K's columns for the scores, V's for the gradients of the probabilities,
   and K's tokens for dQ. */
template <int D, bool WIDE> struct query_slices {
    const struct attention &a;
    const struct shape &shape;
    const struct work &work;
    int first, end; /* tiles */
    enum { PASSES = 1, STAGED = layout<D, WIDE>::STAGED };

    __device__ __forceinline__ int parts(int) const
    {
        return 2 * shape.slices + TILE / slice_tokens<D>();
    }

    __device__ __forceinline__ void operator()(struct cursor at, float *to) const
    {
        const float *q = a.qkv + work.qkv, *k = q + shape.out_stride, *v = k + shape.out_stride;
        const float *dout = a.dout + work.out;
        const int token = at.tile * TILE, part = at.part - 2 * shape.slices;
        if (part >= 0) {
            stage_tokens<D>(to, k, shape.qkv_stride, shape, token + part * slice_tokens<D>(), work.column);
            return;
        }
        const bool second = at.part >= shape.slices;
        const int slice = second ? at.part - shape.slices : at.part;
        stage_columns(to, second ? v : k, shape.qkv_stride, shape, token, slice);
        if (WIDE)
            stage_columns(to + SLICE, second ? dout : q, second ? shape.out_stride : shape.qkv_stride, shape,
                work.tile * TILE, slice);
    }
};

template <int D, bool WIDE> constexpr size_t by_queries_shared(void)
{
    return sizeof(float) * (2 * layout<D, WIDE>::HELD + 2 * layout<D, WIDE>::STAGED + SCORES);
}

template <int D, bool WIDE>
__global__ void __launch_bounds__(THREADS, D <= 64 ? 3 : 2)
    by_queries_kernel(struct attention a, struct shape shape)
{
    DYNAMIC_SHARED(float, shared);
    __shared__ struct work work;
    find_work(work, a, shape, true);
    __syncthreads();
    const int first_row = work.tile * TILE, held = layout<D, WIDE>::HELD;
    float *const q = WIDE ? NULL : shared, *const dout = WIDE ? NULL : shared + held;
    float *const room = shared + 2 * held, *const scores = room + 2 * layout<D, WIDE>::STAGED;
    if (!WIDE)
        for (int slice = 0; slice < shape.slices; slice++) {
            stage_columns(q + slice * SLICE, a.qkv + work.qkv, shape.qkv_stride, shape, first_row, slice);
            stage_columns(dout + slice * SLICE, a.dout + work.out, shape.out_stride, shape, first_row, slice);
        }
    const query_slices<D, WIDE> slices = { a, shape, work, 0, work.tile + 1 };
    slice_queue<query_slices<D, WIDE>> queue(slices, room);

    const int row = first_row + thread_row();
    const bool busy = first_row + (int)threadIdx.x / 32 * WARP_ROWS < shape.sequence;
    float maximum[THREAD_ROWS], inverse[THREAD_ROWS], row_dot[THREAD_ROWS];
    const int begin[THREAD_ROWS] = {};
    int end[THREAD_ROWS];
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++) {
        const bool there = row + r * 4 < shape.sequence;
        maximum[r] = there ? a.maximum[work.rows + row + r * 4] : 0.0f;
        inverse[r] = there ? a.inverse[work.rows + row + r * 4] : 0.0f;
        row_dot[r] = there ? a.row_dot[work.rows + row + r * 4] : 0.0f;
        end[r] = thread_row() + r * 4 + 1; /* on the diagonal */
    }

    float dq[THREAD_ROWS][D / 8];
    clear_results<D>(dq);
    for (int tile = 0; tile <= work.tile; tile++) {
        float p[THREAD_ROWS][THREAD_OTHERS], dp[THREAD_ROWS][THREAD_OTHERS];
        make_scores(queue, q, shape, busy, p);
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
            for (int o = 0; o < THREAD_OTHERS; o++)
                p[r][o] = pl_softmax_exponential(p[r][o] * shape.scale - maximum[r]) * inverse[r];
        make_scores(queue, dout, shape, busy, dp);
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
            for (int o = 0; o < THREAD_OTHERS; o++)
                *thread_score(scores, r, o) = p[r][o] * (dp[r][o] - row_dot[r]);
        make_results<D>(queue, scores, busy, tile == work.tile, begin, end, dq);
    }
    store_results<D>(a.dqkv + work.qkv, shape.qkv_stride, shape, work, shape.scale, dq);
}

/* By keys: of each tile of queries Q's columns for the scores, dout's tokens for dV, dout's columns for the
   gradients of the probabilities, and Q's tokens for dK. With a tile's first slice come its queries'
   maximum, inverse and D, [3][TILE]: those of the tile before were last read before the last barrier. */
template <int D, bool WIDE> struct key_slices {
    const struct attention &a;
    const struct shape &shape;
    const struct work &work;
    float *statistics;
    int first, end; /* tiles */
    enum { PASSES = 1, STAGED = layout<D, WIDE>::STAGED };

    __device__ __forceinline__ int parts(int) const
    {
        return 2 * (shape.slices + TILE / slice_tokens<D>());
    }

    __device__ __forceinline__ void operator()(struct cursor at, float *to) const
    {
        const float *q = a.qkv + work.qkv, *k = q + shape.out_stride, *v = k + shape.out_stride;
        const float *dout = a.dout + work.out;
        const int token = at.tile * TILE;
        const bool second = at.part >= shape.slices + TILE / slice_tokens<D>();
        const int slice = second ? at.part - shape.slices - TILE / slice_tokens<D>() : at.part;
        if (slice >= shape.slices) {
            stage_tokens<D>(to, second ? q : dout, second ? shape.qkv_stride : shape.out_stride, shape,
                token + (slice - shape.slices) * slice_tokens<D>(), work.column);
            return;
        }
        stage_columns(
            to, second ? dout : q, second ? shape.out_stride : shape.qkv_stride, shape, token, slice);
        if (WIDE) stage_columns(to + SLICE, second ? v : k, shape.qkv_stride, shape, work.tile * TILE, slice);
        if (at.part > 0) return;
        const int t = threadIdx.x % TILE;
        if (threadIdx.x >= TILE || token + t >= shape.sequence) return;
        float *const place = statistics + t;
        copy_one(place, a.maximum + work.rows + token + t);
        copy_one(place + TILE, a.inverse + work.rows + token + t);
        copy_one(place + 2 * TILE, a.row_dot + work.rows + token + t);
    }
};

template <int D, bool WIDE> constexpr size_t by_keys_shared(void)
{
    return by_queries_shared<D, WIDE>() + sizeof(float) * 3 * TILE;
}

template <int D, bool WIDE>
__global__ void __launch_bounds__(THREADS, D <= 64 ? 3 : 2)
    by_keys_kernel(struct attention a, struct shape shape)
{
    DYNAMIC_SHARED(float, shared);
    __shared__ struct work work;
    find_work(work, a, shape, false);
    __syncthreads();
    const int first_row = work.tile * TILE, held = layout<D, WIDE>::HELD;
    float *const k = WIDE ? NULL : shared, *const v = WIDE ? NULL : shared + held;
    float *const room = shared + 2 * held, *const scores = room + 2 * layout<D, WIDE>::STAGED;
    float *const statistics = scores + SCORES;
    const float *const query = statistics + thread_other();
    if (!WIDE)
        for (int slice = 0; slice < shape.slices; slice++) {
            stage_columns(k + slice * SLICE, a.qkv + work.qkv + shape.out_stride, shape.qkv_stride, shape,
                first_row, slice);
            stage_columns(v + slice * SLICE, a.qkv + work.qkv + 2 * shape.out_stride, shape.qkv_stride, shape,
                first_row, slice);
        }
    const key_slices<D, WIDE> slices = { a, shape, work, statistics, work.tile, shape.tiles };
    slice_queue<key_slices<D, WIDE>> queue(slices, room);

    const bool busy = first_row + (int)threadIdx.x / 32 * WARP_ROWS < shape.sequence;
    float dk[THREAD_ROWS][D / 8], dv[THREAD_ROWS][D / 8];
    clear_results<D>(dk);
    clear_results<D>(dv);
    for (int tile = work.tile; tile < shape.tiles; tile++) {
        /* Queries of the tile that see the key: from itself on, as far as there are any. */
        const bool masked = tile == work.tile || tile == shape.tiles - 1;
        int begin[THREAD_ROWS], end[THREAD_ROWS];
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++) {
            begin[r] = tile == work.tile ? thread_row() + r * 4 : 0;
            end[r] = shape.sequence - tile * TILE;
        }
        float sum[THREAD_ROWS][THREAD_OTHERS];
        make_scores(queue, k, shape, busy, sum);
#pragma unroll
        for (int o = 0; o < THREAD_OTHERS; o++) {
            const float maximum = query[o * 8], inverse = query[TILE + o * 8];
#pragma unroll
            for (int r = 0; r < THREAD_ROWS; r++)
                *thread_score(scores, r, o) =
                    pl_softmax_exponential(sum[r][o] * shape.scale - maximum) * inverse;
        }
        make_results<D>(queue, scores, busy, masked, begin, end, dv);
        make_scores(queue, v, shape, busy, sum);
#pragma unroll
        for (int o = 0; o < THREAD_OTHERS; o++) {
            const float row_dot = query[2 * TILE + o * 8];
#pragma unroll
            for (int r = 0; r < THREAD_ROWS; r++) {
                float *const p = thread_score(scores, r, o); /* becomes the score's gradient */
                *p = *p * (sum[r][o] - row_dot);
            }
        }
        make_results<D>(queue, scores, busy, masked, begin, end, dk);
    }
    float *const dqkv = a.dqkv + work.qkv;
    store_results<D>(dqkv + a.hidden, shape.qkv_stride, shape, work, shape.scale, dk);
    store_results<D>(dqkv + 2 * a.hidden, shape.qkv_stride, shape, work, 1.0f, dv);
}
