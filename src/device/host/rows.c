/* Kernels that sum along rows: the norms and the loss. Threads share out rows. */
#include "device/host/ahead.h"
#include "device/host/kernels.h"
#include "device/host/lanes.h"
#include "device/host/stream.h"

static float row_sum(size_t h, const float *x)
{
    struct lanes sum = { 0 };
    size_t j = 0;
    for (; j + PL_LANES <= h; j += PL_LANES)
        for (int p = 0; p < LANES_PARTS; p++) sum.part[p] += vector_load(x + j + p * LANES_WIDTH);
    float lane[PL_LANES];
    lanes_store(lane, &sum);
    for (int t = 0; j < h; t++, j++) lane[t] += x[j];
    return pl_lane_sum(lane);
}

/* The sum of (x - mean)^2. The row comes from memory in the pass before this one alone; so that memory is at
   work meanwhile, this one asks for the row after it and for y, of as many elements, which will be written
   (NULL: it will be streamed). */
static float row_square_sum(size_t h, const float *x, float mean, const float *y)
{
    struct lanes sum = { 0 };
    size_t j = 0;
    for (; j + PL_LANES <= h; j += PL_LANES) {
        ask_for(PL_LANES, x + h + j);
        if (y) ask_to_write(PL_LANES, y + j);
        for (int p = 0; p < LANES_PARTS; p++) {
            const vector d = vector_load(x + j + p * LANES_WIDTH) - mean;
            sum.part[p] += d * d;
        }
    }
    float lane[PL_LANES];
    lanes_store(lane, &sum);
    for (int t = 0; j < h; t++, j++) {
        const float d = x[j] - mean;
        lane[t] += d * d;
    }
    return pl_lane_sum(lane);
}

static void row_normalise(
    size_t h, const float *x, const float *gain, const float *bias, float mean, float rstd, float *y)
{
#pragma omp simd
    for (size_t j = 0; j < h; j++) y[j] = pl_fma(pl_normalised(x[j], mean, rstd), gain[j], bias[j]);
}

static void row_normalise_streamed(
    size_t h, const float *x, const float *gain, const float *bias, float mean, float rstd, float *y)
{
    _Alignas(64) float part[STREAM_PART];
    for (size_t j = 0; j < h; j += STREAM_PART) {
        const size_t count = h - j < STREAM_PART ? h - j : STREAM_PART;
        row_normalise(count, x + j, gain + j, bias + j, mean, rstd, part);
        stream(count, y + j, part);
    }
}

void KERNEL(norm_forward)(size_t n, size_t h, const float *x, const float *gain, const float *bias, float *y,
    float *mean, float *rstd)
{
    const bool streamed = is_streamed(n * h, h, y);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * h;
        float *const made = y + i * h;
        mean[i] = row_sum(h, row) / (float)h;
        rstd[i] = 1.0f / pl_sqrt(row_square_sum(h, row, mean[i], streamed ? NULL : made) / (float)h +
                                 PL_NORM_EPSILON);
        (streamed ? row_normalise_streamed : row_normalise)(h, row, gain, bias, mean[i], rstd[i], made);
    }
    stream_end();
#pragma omp barrier
}

void KERNEL(norm_again)(size_t n, size_t h, const float *x, const float *gain, const float *bias,
    const float *mean, const float *rstd, float *y)
{
    const bool streamed = is_streamed(n * h, h, y);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        (streamed ? row_normalise_streamed : row_normalise)(
            h, x + i * h, gain, bias, mean[i], rstd[i], y + i * h);
    }
    stream_end();
#pragma omp barrier
}

/* The row's means of dy * gain (c1) and of dy * gain * normalised (c2). residual: of as many elements, which
 * will be read next, and is asked for. */
static void row_gradient_means(size_t h, const float *dy, const float *x, const float *gain, float mean,
    float rstd, const float *residual, float *c1, float *c2)
{
    struct lanes plain = { 0 }, weighted = { 0 };
    size_t j = 0;
    for (; j + PL_LANES <= h; j += PL_LANES) {
        ask_for(PL_LANES, residual + j);
        for (int p = 0; p < LANES_PARTS; p++) {
            const size_t at = j + (size_t)p * LANES_WIDTH;
            const vector scaled = vector_load(dy + at) * vector_load(gain + at);
            plain.part[p] += scaled;
            weighted.part[p] += scaled * ((vector_load(x + at) - mean) * rstd);
        }
    }
    float plain_lane[PL_LANES], weighted_lane[PL_LANES];
    lanes_store(plain_lane, &plain);
    lanes_store(weighted_lane, &weighted);
    for (int t = 0; j < h; t++, j++) {
        const float scaled = dy[j] * gain[j];
        plain_lane[t] += scaled;
        weighted_lane[t] += scaled * pl_normalised(x[j], mean, rstd);
    }
    *c1 = pl_lane_sum(plain_lane) / (float)h;
    *c2 = pl_lane_sum(weighted_lane) / (float)h;
}

/* The row's mean and rstd, and its means of the gradient. */
struct row_facts {
    float mean, rstd, c1, c2;
};

/* dx may be dy or residual. */
static void row_gradient(size_t h, const float *dy, const float *x, const float *gain, struct row_facts row,
    const float *residual, float *dx)
{
#pragma omp simd
    for (size_t j = 0; j < h; j++) {
        dx[j] = pl_norm_gradient(
            dy[j] * gain[j], pl_normalised(x[j], row.mean, row.rstd), row.c1, row.c2, row.rstd, residual[j]);
    }
}

/* Asks for the row after it. */
static void row_gradient_streamed(size_t h, const float *dy, const float *x, const float *gain,
    struct row_facts row, const float *residual, float *dx)
{
    _Alignas(64) float part[STREAM_PART];
    for (size_t j = 0; j < h; j += STREAM_PART) {
        const size_t count = h - j < STREAM_PART ? h - j : STREAM_PART;
        ask_for(count, dy + h + j);
        ask_for(count, x + h + j);
        row_gradient(count, dy + j, x + j, gain + j, row, residual + j, part);
        stream(count, dx + j, part);
    }
}

/* In place the caches hold what is overwritten. */
void KERNEL(norm_backward)(size_t n, size_t h, const float *dy, const float *x, const float *gain,
    const float *mean, const float *rstd, const float *residual, float *dx)
{
    const bool streamed = dx != dy && dx != residual && is_streamed(n * h, h, dx);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        const size_t at = i * h;
        struct row_facts row = { .mean = mean[i], .rstd = rstd[i] };
        row_gradient_means(h, dy + at, x + at, gain, row.mean, row.rstd, residual + at, &row.c1, &row.c2);
        (streamed ? row_gradient_streamed : row_gradient)(
            h, dy + at, x + at, gain, row, residual + at, dx + at);
    }
    stream_end();
#pragma omp barrier
}

/* The sum of (out - target)^2 / 2; dout as well. */
static float row_loss(size_t h, const float *out, const float *target, float inverse_count, float *dout)
{
    struct lanes sum = { 0 };
    size_t j = 0;
    for (; j + PL_LANES <= h; j += PL_LANES) {
        for (int p = 0; p < LANES_PARTS; p++) {
            const size_t at = j + (size_t)p * LANES_WIDTH;
            const vector d = vector_load(out + at) - vector_load(target + at);
            sum.part[p] += d * d * 0.5f;
            vector_store(dout + at, d * inverse_count);
        }
    }
    float lane[PL_LANES];
    lanes_store(lane, &sum);
    for (int t = 0; j < h; t++, j++) {
        const float d = out[j] - target[j];
        lane[t] += d * d * 0.5f;
        dout[j] = d * inverse_count;
    }
    return pl_lane_sum(lane);
}

void KERNEL(loss)(size_t n, size_t h, const float *out, const float *target, float inverse_count, float *dout,
    float *loss, bool accumulate, float *row_sums)
{
#pragma omp for schedule(static)
    for (size_t i = 0; i < n; i++)
        row_sums[i] = row_loss(h, out + i * h, target + i * h, inverse_count, dout + i * h);
#pragma omp single
    {
        float chain = accumulate ? *loss : 0.0f;
        for (size_t i = 0; i < n; i++) chain = chain + row_sums[i];
        *loss = chain;
    }
}
