/* Kernels that sum along rows: the norms and the loss. Threads share out rows. A norm passes over a row two
   or three times, of which the first brings it from memory; the others find it in the caches, and memory
   would wait for them. So the passes of rows one after another go side by side, PART columns at a time: the
   first of one row, the second of the row before. */
#include "device/host/kernels.h"
#include "device/host/lanes.h"
#include "device/host/stream.h"
#include <assert.h>
#include <omp.h>

enum { PART = STREAM_PART };
static_assert(PART % PL_LANES == 0, "only a row's last part ends within the lanes");

/* Columns of the part that begins at column j. */
static size_t part_columns(size_t h, size_t j)
{
    return h - j < PART ? h - j : PART;
}

/* A thread's rows: [begin, end). */
struct rows {
    size_t begin, end;
};

static struct rows rows_of_thread(size_t n)
{
    const size_t threads = (size_t)omp_get_num_threads(), thread = (size_t)omp_get_thread_num();
    return (struct rows){ part_begin(n, threads, thread), part_begin(n, threads, thread + 1) };
}

/* A sum's whole lanes over a part of x. */
static void add_sum(size_t count, const float *x, struct lanes *sum)
{
    struct lanes all = *sum;
    for (size_t j = 0; j + PL_LANES <= count; j += PL_LANES)
        for (int p = 0; p < LANES_PARTS; p++) all.part[p] += vector_load(x + j + p * LANES_WIDTH);
    *sum = all;
}

/* The sum of the row, whose whole lanes are there. */
static float end_sum(size_t h, const float *x, const struct lanes *sum)
{
    float lane[PL_LANES];
    lanes_store(lane, sum);
    size_t j = h / PL_LANES * PL_LANES;
    for (int t = 0; j < h; t++, j++) lane[t] += x[j];
    return pl_lane_sum(lane);
}

/* The same of (x - mean)^2. */
static void add_squares(size_t count, const float *x, float mean, struct lanes *sum)
{
    struct lanes all = *sum;
    for (size_t j = 0; j + PL_LANES <= count; j += PL_LANES)
        for (int p = 0; p < LANES_PARTS; p++) {
            const vector d = vector_load(x + j + p * LANES_WIDTH) - mean;
            all.part[p] += d * d;
        }
    *sum = all;
}

static float end_squares(size_t h, const float *x, float mean, const struct lanes *sum)
{
    float lane[PL_LANES];
    lanes_store(lane, sum);
    size_t j = h / PL_LANES * PL_LANES;
    for (int t = 0; j < h; t++, j++) {
        const float d = x[j] - mean;
        lane[t] += d * d;
    }
    return pl_lane_sum(lane);
}

static void normalise(size_t count, const float *x, const float *gain, const float *bias, float mean,
    float rstd, bool streamed, float *y)
{
    _Alignas(64) float part[PART];
    float *const to = streamed ? part : y;
#pragma omp simd
    for (size_t j = 0; j < count; j++) to[j] = pl_fma(pl_normalised(x[j], mean, rstd), gain[j], bias[j]);
    if (streamed) stream(count, y, part);
}

void KERNEL(norm_forward)(size_t n, size_t h, const float *x, const float *gain, const float *bias, float *y,
    float *mean, float *rstd)
{
    const bool streamed = is_streamed(n * h, h, y);
    const struct rows rows = rows_of_thread(n);
    if (rows.begin < rows.end)
        for (size_t i = rows.begin; i < rows.end + 2; i++) {
            const bool sums = i < rows.end;                          /* row i */
            const bool squares = i > rows.begin && i - 1 < rows.end; /* the row before */
            const bool normalises = i > rows.begin + 1;              /* and the one before that */
            const size_t at = i * h;
            struct lanes sum = { 0 }, square_sum = { 0 };
            for (size_t j = 0; j < h; j += PART) {
                const size_t count = part_columns(h, j), a = at + j, b = a - h, c = b - h;
                if (normalises)
                    normalise(count, x + c, gain + j, bias + j, mean[i - 2], rstd[i - 2], streamed, y + c);
                if (sums) add_sum(count, x + a, &sum);
                if (squares) add_squares(count, x + b, mean[i - 1], &square_sum);
            }
            if (sums) mean[i] = end_sum(h, x + at, &sum) / (float)h;
            if (squares)
                rstd[i - 1] = 1.0f / pl_sqrt(end_squares(h, x + at - h, mean[i - 1], &square_sum) / (float)h +
                                             PL_NORM_EPSILON);
        }
    stream_end();
#pragma omp barrier
}

void KERNEL(norm_again)(size_t n, size_t h, const float *x, const float *gain, const float *bias,
    const float *mean, const float *rstd, float *y)
{
    const bool streamed = is_streamed(n * h, h, y);
    const struct rows rows = rows_of_thread(n);
    for (size_t i = rows.begin; i < rows.end; i++)
        for (size_t j = 0; j < h; j += PART)
            normalise(part_columns(h, j), x + i * h + j, gain + j, bias + j, mean[i], rstd[i], streamed,
                y + i * h + j);
    stream_end();
#pragma omp barrier
}

/* The sums of dy * gain and of dy * gain * normalised. */
struct gradient_sums {
    struct lanes plain, weighted;
};

static void add_gradient(size_t count, const float *dy, const float *x, const float *gain, float mean,
    float rstd, struct gradient_sums *sums)
{
    struct gradient_sums all = *sums;
    for (size_t j = 0; j + PL_LANES <= count; j += PL_LANES)
        for (int p = 0; p < LANES_PARTS; p++) {
            const size_t at = j + (size_t)p * LANES_WIDTH;
            const vector scaled = vector_load(dy + at) * vector_load(gain + at);
            all.plain.part[p] += scaled;
            all.weighted.part[p] += scaled * ((vector_load(x + at) - mean) * rstd);
        }
    *sums = all;
}

/* A row's mean and rstd, and its means of dy * gain (c1) and of dy * gain * normalised (c2). */
struct row_facts {
    float mean, rstd, c1, c2;
};

static struct row_facts end_gradient(size_t h, const float *dy, const float *x, const float *gain, float mean,
    float rstd, const struct gradient_sums *sums)
{
    float plain[PL_LANES], weighted[PL_LANES];
    lanes_store(plain, &sums->plain);
    lanes_store(weighted, &sums->weighted);
    size_t j = h / PL_LANES * PL_LANES;
    for (int t = 0; j < h; t++, j++) {
        const float scaled = dy[j] * gain[j];
        plain[t] += scaled;
        weighted[t] += scaled * pl_normalised(x[j], mean, rstd);
    }
    return (struct row_facts){ mean, rstd, pl_lane_sum(plain) / (float)h, pl_lane_sum(weighted) / (float)h };
}

static void norm_gradient(size_t count, const float *dy, const float *x, const float *gain,
    struct row_facts row, const float *residual, bool streamed, float *dx)
{
    _Alignas(64) float part[PART];
    float *const to = streamed ? part : dx; /* which may be dy or residual */
#pragma omp simd
    for (size_t j = 0; j < count; j++)
        to[j] = pl_norm_gradient(
            dy[j] * gain[j], pl_normalised(x[j], row.mean, row.rstd), row.c1, row.c2, row.rstd, residual[j]);
    if (streamed) stream(count, dx, part);
}

/* In place the caches hold what is overwritten. */
void KERNEL(norm_backward)(size_t n, size_t h, const float *dy, const float *x, const float *gain,
    const float *mean, const float *rstd, const float *residual, float *dx)
{
    const bool streamed = dx != dy && dx != residual && is_streamed(n * h, h, dx);
    const struct rows rows = rows_of_thread(n);
    struct row_facts before = { 0 };
    if (rows.begin < rows.end)
        for (size_t i = rows.begin; i < rows.end + 1; i++) {
            const bool sums = i < rows.end;             /* row i */
            const bool differentiates = i > rows.begin; /* the row before */
            const size_t at = i * h;
            struct gradient_sums all = { 0 };
            for (size_t j = 0; j < h; j += PART) {
                const size_t count = part_columns(h, j), a = at + j, b = a - h;
                if (differentiates)
                    norm_gradient(count, dy + b, x + b, gain + j, before, residual + b, streamed, dx + b);
                if (sums) add_gradient(count, dy + a, x + a, gain + j, mean[i], rstd[i], &all);
            }
            if (sums) before = end_gradient(h, dy + at, x + at, gain, mean[i], rstd[i], &all);
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
