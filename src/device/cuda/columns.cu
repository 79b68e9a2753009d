/* Kernels that sum down columns: each column is one chain over the rows in order, one thread's. A block has a
   strip of columns: all its threads fetch a tile of rows ahead into registers, and put it into shared memory
   once the chains have used the one before. */
#include "device/arithmetic.h"
#include "device/cuda/kernels.h"
#include "device/cuda/launch.h"
#include <assert.h>
#include <limits.h>

enum { THREADS = 256, WIDEST = 32 };

/* A block's strip, and what a thread fetches of it: rows row, row + step, ... of `column`. Threads lie along
   the strip's columns, their number rounded up to a power of two, then along rows: element k of a thread is
   element threadIdx.x + k * THREADS of the tile, whose rows are 1 << shift apart. */
struct strip {
    size_t first;
    unsigned width, shift, column, row, step;
};

__device__ static inline struct strip strip_of(size_t columns, unsigned widest)
{
    struct strip s;
    s.first = (size_t)blockIdx.x * widest;
    s.width = columns - s.first < widest ? (unsigned)(columns - s.first) : widest;
    s.shift = 0;
    while (1u << s.shift < s.width) s.shift++;
    s.column = threadIdx.x & ((1u << s.shift) - 1);
    s.row = threadIdx.x >> s.shift;
    s.step = THREADS >> s.shift;
    return s;
}

/* Rows of the tile that begins at row `first`, of `rows` at most. */
__device__ static inline unsigned tile_rows(size_t n, size_t first, unsigned rows)
{
    return n - first < rows ? (unsigned)(n - first) : rows;
}

enum { SUM_DEPTH = 16 }; /* elements that a thread fetches of a tile */

__device__ static inline void fetch(float next[SUM_DEPTH], const struct strip &s, size_t n, size_t columns,
    size_t first, const float *__restrict__ x)
{
    const float *from = x + (first + s.row) * columns + s.first + s.column;
#pragma unroll
    for (unsigned k = 0; k < SUM_DEPTH; k++) {
        const size_t i = first + s.row + (size_t)k * s.step;
        next[k] = i < n && s.column < s.width ? from[(size_t)k * s.step * columns] : 0.0f;
    }
}

static __global__ void __launch_bounds__(THREADS) column_sum(size_t n, size_t columns, unsigned widest,
    const float *__restrict__ x, float *__restrict__ sum, bool accumulate)
{
    __shared__ float tile[THREADS * SUM_DEPTH];
    const struct strip s = strip_of(columns, widest);
    const unsigned t = threadIdx.x, rows = s.step * SUM_DEPTH;
    float next[SUM_DEPTH], chain = 0.0f;
    if (t < s.width && accumulate) chain = sum[s.first + t];
    fetch(next, s, n, columns, 0, x);
    for (size_t first = 0; first < n; first += rows) {
#pragma unroll
        for (unsigned k = 0; k < SUM_DEPTH; k++) tile[t + k * THREADS] = next[k];
        __syncthreads();
        if (n - first > rows) fetch(next, s, n, columns, first + rows, x);
        if (t < s.width) {
            const unsigned count = tile_rows(n, first, rows);
#pragma unroll 16
            for (unsigned i = 0; i < count; i++) chain = chain + tile[(i << s.shift) + t];
        }
        __syncthreads();
    }
    if (t < s.width) sum[s.first + t] = chain;
}

enum { NORM_DEPTH = 8 };

/* What a thread fetches of a tile for the norm's columns. */
struct norm_part {
    float dy[NORM_DEPTH], x[NORM_DEPTH], mean[NORM_DEPTH], rstd[NORM_DEPTH];
};

__device__ static inline void fetch_norm(struct norm_part *next, const struct strip &s, size_t n, size_t h,
    size_t first, const float *__restrict__ dy, const float *__restrict__ x, const float *__restrict__ mean,
    const float *__restrict__ rstd)
{
#pragma unroll
    for (unsigned k = 0; k < NORM_DEPTH; k++) {
        const size_t i = first + s.row + (size_t)k * s.step;
        const bool wanted = i < n && s.column < s.width;
        const size_t at = wanted ? i * h + s.first + s.column : 0, row = wanted ? i : 0;
        next->dy[k] = dy[at];
        next->x[k] = x[at];
        next->mean[k] = mean[row];
        next->rstd[k] = rstd[row];
    }
}

/* The first warp has the chains of dgain, the second those of dbias. */
static __global__ void __launch_bounds__(THREADS) norm_columns(size_t n, size_t h, unsigned widest,
    const float *__restrict__ dy, const float *__restrict__ x, const float *__restrict__ mean,
    const float *__restrict__ rstd, float *__restrict__ dgain, float *__restrict__ dbias, bool accumulate)
{
    __shared__ float dy_tile[THREADS * NORM_DEPTH], normalised_tile[THREADS * NORM_DEPTH];
    const struct strip s = strip_of(h, widest);
    const unsigned t = threadIdx.x, rows = s.step * NORM_DEPTH, lane = t % 32;
    const bool has_gain = t / 32 == 0 && lane < s.width, has_bias = t / 32 == 1 && lane < s.width;
    struct norm_part next;
    float chain = 0.0f;
    if (has_gain && accumulate) chain = dgain[s.first + lane];
    if (has_bias && accumulate) chain = dbias[s.first + lane];
    if (n > 0) fetch_norm(&next, s, n, h, 0, dy, x, mean, rstd);
    for (size_t first = 0; first < n; first += rows) {
#pragma unroll
        for (unsigned k = 0; k < NORM_DEPTH; k++) {
            dy_tile[t + k * THREADS] = next.dy[k];
            normalised_tile[t + k * THREADS] = pl_normalised(next.x[k], next.mean[k], next.rstd[k]);
        }
        __syncthreads();
        if (n - first > rows) fetch_norm(&next, s, n, h, first + rows, dy, x, mean, rstd);
        const unsigned count = tile_rows(n, first, rows);
        if (has_gain) {
#pragma unroll 16
            for (unsigned i = 0; i < count; i++) {
                const unsigned at = (i << s.shift) + lane;
                chain = pl_fma(dy_tile[at], normalised_tile[at], chain);
            }
        }
        if (has_bias) {
#pragma unroll 16
            for (unsigned i = 0; i < count; i++) chain = chain + dy_tile[(i << s.shift) + lane];
        }
        __syncthreads();
    }
    if (has_gain) dgain[s.first + lane] = chain;
    if (has_bias) dbias[s.first + lane] = chain;
}

/* Columns of a block: fewer where there are few, so that more SMs take part, but 32 bytes of a row at least,
   which is what memory delivers. */
static unsigned strip_width(size_t columns)
{
    return columns >= 4096 ? WIDEST : columns >= 2048 ? WIDEST / 2 : WIDEST / 4;
}

static unsigned strips(size_t columns, unsigned widest)
{
    const size_t blocks = (columns + widest - 1) / widest;
    assert(blocks <= INT_MAX);
    return (unsigned)blocks;
}

void cuda_norm_columns(cudaStream_t stream, size_t n, size_t h, const float *dy, const float *x,
    const float *mean, const float *rstd, float *dgain, float *dbias, bool accumulate)
{
    const unsigned widest = strip_width(h);
    if (h == 0) return;
    LAUNCH(norm_columns, strips(h, widest), THREADS, 0, stream, n, h, widest, dy, x, mean, rstd, dgain, dbias,
        accumulate);
    cuda_launched("norm_columns");
}

void cuda_column_sum(
    cudaStream_t stream, size_t n, size_t columns, const float *x, float *sum, bool accumulate)
{
    const unsigned widest = strip_width(columns);
    if (columns == 0) return;
    LAUNCH(column_sum, strips(columns, widest), THREADS, 0, stream, n, columns, widest, x, sum, accumulate);
    cuda_launched("column_sum");
}
