/* What the attention kernels are made of. A block of threads works on a tile of 64 tokens of one head, the
   rows (queries; for the gradients of keys and values, keys), against all tiles of 64 tokens, the others,
   that have to do with them. There are two kinds of product:

   - scores, rows by others: chains over the head's columns, which come in slices of 64 tokens by 32 columns;
   - results, rows by columns: chains over the others, in slices of a few tokens by all columns.

   A warp has 16 rows to itself, 4 threads down by 8 across. A thread has every 4th row and, of scores, every
   8th other: so it sees whole lanes of the row sums of rule 2 (other t belongs to lane t mod 32), and none is
   shared. Scores go through shared memory to become factors of results. */
#pragma once
#include "device/arithmetic.h"
#include "device/device.h"
#include <cuda_runtime.h>
#include <stddef.h>

enum {
    TILE = 64, /* tokens */
    THREADS = 128,
    THREAD_ROWS = 4,
    THREAD_OTHERS = 8,
    WARP_ROWS = 16,
    SLICE_COLUMNS = 32,
    /* From token to token of a column slice, and of the scores, in floats: 8 tokens' 16 bytes, 4 tokens' 8
       single words, meet in no bank. */
    SLICE_STRIDE = SLICE_COLUMNS + 4,
    SCORES_STRIDE = TILE + 8,
    SLICE = TILE * SLICE_STRIDE, /* floats, of either kind of slice */
    SCORES = TILE * SCORES_STRIDE,
    WIDE_COLUMNS = 128 /* of results that a block makes where a head has more */
};

/* Tokens of a slice of D columns. */
template <int D> __host__ __device__ constexpr int slice_tokens(void)
{
    return D <= 32 ? 64 : D <= 64 ? 32 : 16;
}

/* Where a thread stands in its warp. Lanes at distance 1 share others and those at distance 2 share rows:
   then 16-byte reads of shared memory serve half a warp at once, by rows as by others. */
__device__ static __forceinline__ int thread_row(void)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    return warp * WARP_ROWS + ((lane & 1) | (lane >> 3 & 2));
}

__device__ static __forceinline__ int thread_other(void)
{
    return threadIdx.x >> 1 & 7;
}

/* The lane of this warp, whose thread_other differs by `distance`: 1, 2 or 4. */
__device__ static __forceinline__ float from_other(float x, int distance)
{
    return __shfl_xor_sync(0xffffffffu, x, distance * 2);
}

/* Copies from global to shared memory that go on while the thread computes, where the hardware has them. */
__device__ static __forceinline__ void copy_quad(float *to, const float *from)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
        : "memory");
#else
    *(float4 *)to = *(const float4 *)from;
#endif
}

__device__ static __forceinline__ void copy_one(float *to, const float *from)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
        : "memory");
#else
    *to = *from;
#endif
}

/* The copies this thread started have landed; a barrier then shows them to the others. */
__device__ static __forceinline__ void copies_landed(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* Floats of shared memory in a kernel for heads of up to D columns. WIDE: a head's columns do not stay there,
   and where they are more than D, several blocks share the results. */
template <int D, bool WIDE> struct layout {
    enum {
        HELD = WIDE ? 0 : D / SLICE_COLUMNS * SLICE, /* the block's rows of one tensor, which stay */
        STAGED = WIDE ? 2 * SLICE : SLICE            /* a slice of others, and of rows that do not stay */
    };
};

/* The sizes that all blocks share. */
struct shape {
    int sequence, size; /* tokens; columns of a head */
    int tiles, slices;  /* of the sequence, of a head's columns */
    int chunks;         /* blocks that share the columns of a tile's results: 1, unless a head has more than
                           WIDE_COLUMNS */
    bool quads;         /* rows of heads begin at 16 bytes and hold whole groups of four floats */
    float scale;
    size_t qkv_stride, out_stride; /* from token to token, in floats */
};

/* Starts copying TOKENS by COLUMNS elements of a head, whose token t's columns begin at from + t * stride,
   from this token and column on, to `to`, [TOKENS][STRIDE]. What is not there is left as it was. */
template <int TOKENS, int COLUMNS, int STRIDE>
__device__ static __forceinline__ void stage(
    float *to, const float *from, size_t stride, const struct shape &shape, int token, int column)
{
    enum { PIECES = COLUMNS / 4, AT_ONCE = THREADS / PIECES }; /* of a token; tokens */
    static_assert(TOKENS * STRIDE <= SLICE && STRIDE % 4 == 0, "room for them, at 16 bytes");
    const int first = threadIdx.x / PIECES, c = threadIdx.x % PIECES * 4;
    if (THREADS % PIECES != 0 && first == AT_ONCE) return;
    const int left = shape.sequence - token, end = left < TOKENS ? left : TOKENS;
    const int there = shape.size - (column + c); /* of the thread's columns */
    const float *source = from + (size_t)(token + first) * stride + column + c;
    float *target = to + first * STRIDE + c;
    if (shape.quads) {
#pragma unroll
        for (int t = 0; t < TOKENS; t += AT_ONCE) {
            if (there > 0 && first + t < end) copy_quad(target + t * STRIDE, source);
            source += AT_ONCE * stride;
        }
    } else {
#pragma unroll 1
        for (int t = 0; first + t < end; t += AT_ONCE) {
#pragma unroll 1
            for (int e = 0; e < (there < 4 ? there : 4); e++) copy_one(target + t * STRIDE + e, source + e);
            source += AT_ONCE * stride;
        }
    }
}

__device__ static __forceinline__ void stage_columns(
    float *to, const float *from, size_t stride, const struct shape &shape, int token, int slice)
{
    stage<TILE, SLICE_COLUMNS, SLICE_STRIDE>(to, from, stride, shape, token, slice * SLICE_COLUMNS);
}

template <int D>
__device__ static __forceinline__ void stage_tokens(
    float *to, const float *from, size_t stride, const struct shape &shape, int token, int column)
{
    stage<slice_tokens<D>(), D, D>(to, from, stride, shape, token, column);
}

/* The slices that a block computes with come one after the other, each copied while the one before is
   computed with: `parts` slices a tile, tiles first .. end - 1, in each pass. */
struct cursor {
    int pass, tile, part;
};

template <class Load> struct slice_queue {
    const Load &load; /* load(cursor, to) starts copying a slice of Load::STAGED floats; load.parts(pass) */
    float *room;      /* for two */
    struct cursor next;
    int turn;

    __device__ __forceinline__ slice_queue(const Load &load_, float *room_)
        : load(load_), room(room_), next{ 0, load_.first, 0 }, turn(1)
    {
        start();
    }

    __device__ __forceinline__ void start(void)
    {
        turn ^= 1;
        if (next.pass == Load::PASSES) return;
        load(next, room + turn * Load::STAGED);
        if (++next.part < load.parts(next.pass)) return;
        next.part = 0;
        if (++next.tile < load.end) return;
        next.tile = load.first;
        next.pass++;
    }

    /* The next slice, for all threads to read until they take another. */
    __device__ __forceinline__ const float *take(void)
    {
        copies_landed();
        __syncthreads(); /* it is there, and the slice before it is no longer read */
        const float *landed = room + turn * Load::STAGED;
        start();
        return landed;
    }
};

/* sum[r][o] continues its chain over the first `steps` columns of two slices. */
__device__ static __forceinline__ void continue_scores(
    const float *rows, const float *others, int steps, float (&sum)[THREAD_ROWS][THREAD_OTHERS])
{
    const float *a = rows + thread_row() * SLICE_STRIDE, *b = others + thread_other() * SLICE_STRIDE;
    int c = 0;
#pragma unroll 1
    for (; c + 4 <= steps; c += 4) {
        float4 x[THREAD_ROWS];
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++) x[r] = *(const float4 *)(a + r * 4 * SLICE_STRIDE + c);
#pragma unroll
        for (int o = 0; o < THREAD_OTHERS; o++) {
            const float4 y = *(const float4 *)(b + o * 8 * SLICE_STRIDE + c);
#pragma unroll
            for (int r = 0; r < THREAD_ROWS; r++) {
                sum[r][o] = pl_fma(x[r].x, y.x, sum[r][o]);
                sum[r][o] = pl_fma(x[r].y, y.y, sum[r][o]);
                sum[r][o] = pl_fma(x[r].z, y.z, sum[r][o]);
                sum[r][o] = pl_fma(x[r].w, y.w, sum[r][o]);
            }
        }
    }
    for (; c < steps; c++) {
#pragma unroll
        for (int o = 0; o < THREAD_OTHERS; o++)
#pragma unroll
            for (int r = 0; r < THREAD_ROWS; r++)
                sum[r][o] = pl_fma(a[r * 4 * SLICE_STRIDE + c], b[o * 8 * SLICE_STRIDE + c], sum[r][o]);
    }
}

/* The chains of scores over the whole head: `slices` slices of the others from the queue, those of the rows
   `resident`, or, where resident is NULL, behind those of the others. A warp that has no rows only keeps
   step. */
template <class Queue>
__device__ static __forceinline__ void make_scores(Queue &queue, const float *resident,
    const struct shape &shape, bool busy, float (&sum)[THREAD_ROWS][THREAD_OTHERS])
{
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
        for (int o = 0; o < THREAD_OTHERS; o++) sum[r][o] = 0.0f;
    for (int slice = 0; slice < shape.slices; slice++) {
        const float *others = queue.take();
        const float *rows = resident ? resident + slice * SLICE : others + SLICE;
        const int left = shape.size - slice * SLICE_COLUMNS;
        if (busy) continue_scores(rows, others, left < SLICE_COLUMNS ? left : SLICE_COLUMNS, sum);
    }
}

/* Rows' scores to shared memory; and a thread's own back. Only their warp reads them. */
__device__ static __forceinline__ float *thread_score(float *scores, int r, int o)
{
    return scores + (thread_row() + r * 4) * SCORES_STRIDE + thread_other() + o * 8;
}

/* sum[r][c], c in groups of four columns every 32, continues its chain over a slice of tokens, the others
   first .. first + slice_tokens - 1 of the tile. MASKED: only others begin[r] .. end[r] - 1 (of the tile)
   take part in row r. */
template <int D, bool MASKED>
__device__ static __forceinline__ void continue_results(const float *scores, const float *slice, int first,
    const int (&begin)[THREAD_ROWS], const int (&end)[THREAD_ROWS], float (&sum)[THREAD_ROWS][D / 8])
{
    const float *a = scores + thread_row() * SCORES_STRIDE + first, *b = slice + thread_other() * 4;
#pragma unroll 1
    for (int t = 0; t < slice_tokens<D>(); t += 4) {
        float4 quad[THREAD_ROWS];
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++) quad[r] = *(const float4 *)(a + r * 4 * SCORES_STRIDE + t);
#pragma unroll
        for (int e = 0; e < 4; e++) {
#pragma unroll
            for (int h = 0; h < D / 32; h++) {
                const float4 y = *(const float4 *)(b + (t + e) * D + h * 32);
#pragma unroll
                for (int r = 0; r < THREAD_ROWS; r++) {
                    const float x = e == 0 ? quad[r].x : e == 1 ? quad[r].y : e == 2 ? quad[r].z : quad[r].w;
                    const int other = first + t + e;
                    float *const s = sum[r] + h * 4;
                    const bool used = !MASKED || (other >= begin[r] && other < end[r]);
                    s[0] = used ? pl_fma(x, y.x, s[0]) : s[0];
                    s[1] = used ? pl_fma(x, y.y, s[1]) : s[1];
                    s[2] = used ? pl_fma(x, y.z, s[2]) : s[2];
                    s[3] = used ? pl_fma(x, y.w, s[3]) : s[3];
                }
            }
        }
    }
}

/* The results' chains over a tile of others, whose slices come from the queue. */
template <int D, class Queue>
__device__ static __forceinline__ void make_results(Queue &queue, const float *scores, bool busy, bool masked,
    const int (&begin)[THREAD_ROWS], const int (&end)[THREAD_ROWS], float (&sum)[THREAD_ROWS][D / 8])
{
    for (int first = 0; first < TILE; first += slice_tokens<D>()) {
        const float *slice =
            queue.take(); /* its barrier also stands between the scores' writing and reading */
        if (!busy) continue;
        if (masked)
            continue_results<D, true>(scores, slice, first, begin, end, sum);
        else
            continue_results<D, false>(scores, slice, first, begin, end, sum);
    }
}

template <int D> __device__ static __forceinline__ void clear_results(float (&sum)[THREAD_ROWS][D / 8])
{
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
        for (int c = 0; c < D / 8; c++) sum[r][c] = 0.0f;
}

/* Which tile, columns and head are this block's, and where the head's tensors lie. Tiles of a head follow
   each other, the longest first. It lies in shared memory: read where it is needed, it takes no registers
   from the products. */
struct work {
    int tile, column; /* column: of the results, the first of this block's */
    size_t qkv, out;  /* of the head's first token: distance from the tensors' beginning */
    size_t rows;      /* likewise in maximum, inverse and row_dot */
};

/* For all threads of the block to call; the others see it after the next barrier. */
__device__ static __forceinline__ void find_work(
    struct work &work, const struct attention &a, const struct shape &shape, bool last_longest)
{
    if (threadIdx.x != 0) return;
    unsigned index = blockIdx.x;
    work.tile = (int)(index % (unsigned)shape.tiles);
    if (last_longest) work.tile = shape.tiles - 1 - work.tile;
    index /= (unsigned)shape.tiles;
    work.column = (int)(index % (unsigned)shape.chunks) * WIDE_COLUMNS;
    index /= (unsigned)shape.chunks;
    const size_t head = index % a.heads, batch = index / a.heads;
    work.qkv = batch * a.sequence * shape.qkv_stride + head * shape.size;
    work.out = batch * a.sequence * shape.out_stride + head * shape.size;
    work.rows = (size_t)index * a.sequence;
}

/* Writes factor * sum to the block's rows and columns; to + t * stride is where token t's columns
 * begin. */
template <int D>
__device__ static __forceinline__ void store_results(float *to, size_t stride, const struct shape &shape,
    const struct work &work, float factor, const float (&sum)[THREAD_ROWS][D / 8])
{
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++) {
        const int row = work.tile * TILE + thread_row() + r * 4;
        if (row >= shape.sequence) continue;
#pragma unroll
        for (int h = 0; h < D / 32; h++) {
            const int c = work.column + h * 32 + thread_other() * 4;
            float *target = to + (size_t)row * stride + c;
            const float4 quad = make_float4(sum[r][h * 4] * factor, sum[r][h * 4 + 1] * factor,
                sum[r][h * 4 + 2] * factor, sum[r][h * 4 + 3] * factor);
            if (shape.quads) {
                if (c < shape.size) *(float4 *)target = quad;
            } else {
                if (c < shape.size) target[0] = quad.x;
                if (c + 1 < shape.size) target[1] = quad.y;
                if (c + 2 < shape.size) target[2] = quad.z;
                if (c + 3 < shape.size) target[3] = quad.w;
            }
        }
    }
}
