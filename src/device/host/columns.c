/* Kernels that sum down columns: each column is one chain over the rows in order. Threads share out blocks of
   columns; within a block the rows are read in turn, a few at a time so that the sums are loaded and stored
   less often. */
#include "device/host/kernels.h"
#include "device/arithmetic.h"
#include <omp.h>

enum { ROWS = 4, WIDEST = 8192 };

/* Columns of a block: a share for each thread, whole cache lines, and no more than that their sums stay in a
   second cache. Where rows are read in shorter pieces memory is slower than the first cache would gain. */
static size_t block_width(size_t columns)
{
    const size_t threads = (size_t)omp_get_num_threads(), share = (columns + threads - 1) / threads;
    const size_t lines = (share + 15) / 16 * 16;
    return lines < WIDEST ? lines : WIDEST;
}

static void begin(size_t width, float *sum, bool accumulate)
{
    if (!accumulate)
        for (size_t j = 0; j < width; j++) sum[j] = 0.0f;
}

static void norm_rows(size_t width, const float *restrict dy, const float *restrict x, float mean, float rstd,
    float *restrict dgain, float *restrict dbias)
{
#pragma omp simd
    for (size_t j = 0; j < width; j++) {
        dgain[j] = pl_fma(dy[j], pl_normalised(x[j], mean, rstd), dgain[j]);
        dbias[j] = dbias[j] + dy[j];
    }
}

/* The same for ROWS rows at a time; `stride` floats from row to row. */
static void norm_row_group(size_t width, size_t stride, const float *restrict dy, const float *restrict x,
    const float *restrict mean, const float *restrict rstd, float *restrict dgain, float *restrict dbias)
{
#pragma omp simd
    for (size_t j = 0; j < width; j++) {
        float gain = dgain[j], bias = dbias[j];
        for (size_t i = 0; i < ROWS; i++) {
            gain = pl_fma(dy[i * stride + j], pl_normalised(x[i * stride + j], mean[i], rstd[i]), gain);
            bias = bias + dy[i * stride + j];
        }
        dgain[j] = gain;
        dbias[j] = bias;
    }
}

void KERNEL(norm_columns)(size_t n, size_t h, const float *dy, const float *x, const float *mean,
    const float *rstd, float *dgain, float *dbias, bool accumulate)
{
    const size_t block = block_width(h);
#pragma omp for schedule(static)
    for (size_t first = 0; first < h; first += block) {
        const size_t width = h - first < block ? h - first : block;
        begin(width, dgain + first, accumulate);
        begin(width, dbias + first, accumulate);
        size_t i = 0;
        for (; i + ROWS <= n; i += ROWS) {
            const size_t at = i * h + first;
            norm_row_group(width, h, dy + at, x + at, mean + i, rstd + i, dgain + first, dbias + first);
        }
        for (; i < n; i++) {
            const size_t at = i * h + first;
            norm_rows(width, dy + at, x + at, mean[i], rstd[i], dgain + first, dbias + first);
        }
    }
}

static void sum_row_group(size_t width, size_t stride, const float *restrict x, float *restrict sum)
{
#pragma omp simd
    for (size_t j = 0; j < width; j++) {
        float chain = sum[j];
        for (size_t i = 0; i < ROWS; i++) chain = chain + x[i * stride + j];
        sum[j] = chain;
    }
}

void KERNEL(column_sum)(size_t n, size_t columns, const float *x, float *sum, bool accumulate)
{
    const size_t block = block_width(columns);
#pragma omp for schedule(static)
    for (size_t first = 0; first < columns; first += block) {
        const size_t width = columns - first < block ? columns - first : block;
        begin(width, sum + first, accumulate);
        size_t i = 0;
        for (; i + ROWS <= n; i += ROWS) sum_row_group(width, columns, x + i * columns + first, sum + first);
        for (; i < n; i++)
            for (size_t j = 0; j < width; j++) sum[first + j] = sum[first + j] + x[i * columns + first + j];
    }
}
