/* The device of a rehearsal: memory, copies and events are those of ordinary memory, but nobody computes.
   Pages are not touched before a message is: a rehearsal may have messages of any size and many ranks on a
   host. */
#include "device/kinds.h"
#include "device/ordinary.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

enum { FRONT = 256 }; /* holds the block's size, and keeps the alignment of what follows */

static void *allocate_memory(struct device *device, size_t bytes)
{
    char *block = NULL;
    if (bytes < SIZE_MAX - 2 * FRONT) block = calloc(1, bytes + 2 * FRONT);
    if (!block) fail("device 'rehearsal': out of memory: %zu bytes", bytes);
    char *memory = block + FRONT + (FRONT - (uintptr_t)block % FRONT) % FRONT;
    memcpy(memory - sizeof bytes, &bytes, sizeof bytes);
    memcpy(memory - sizeof bytes - sizeof block, &block, sizeof block);
    ((struct ordinary_device *)device)->held += bytes;
    return memory;
}

static void release_memory(struct device *device, void *memory)
{
    if (!memory) return;
    size_t bytes;
    char *block;
    memcpy(&bytes, (char *)memory - sizeof bytes, sizeof bytes);
    memcpy(&block, (char *)memory - sizeof bytes - sizeof block, sizeof block);
    ((struct ordinary_device *)device)->held -= bytes;
    free(block);
}

static void close_device(struct device *device)
{
    free(device);
}

static _Noreturn void no_kernel(void)
{
    fail("device 'rehearsal' computes nothing: it is for `pipeleaf run` alone");
}

static void gemm(struct device *device, const struct gemm *g)
{
    (void)device, (void)g;
    no_kernel();
}

static void attention(struct device *device, const struct attention *a)
{
    (void)device, (void)a;
    no_kernel();
}

static void norm_forward(struct device *device, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, float *y, float *mean, float *rstd)
{
    (void)device, (void)n, (void)h, (void)x, (void)gain, (void)bias, (void)y, (void)mean, (void)rstd;
    no_kernel();
}

static void norm_again(struct device *device, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, const float *mean, const float *rstd, float *y)
{
    (void)device, (void)n, (void)h, (void)x, (void)gain, (void)bias, (void)y, (void)mean, (void)rstd;
    no_kernel();
}

static void norm_backward(struct device *device, size_t n, size_t h, const float *dy, const float *x,
    const float *gain, const float *mean, const float *rstd, const float *residual, float *dx)
{
    (void)device, (void)n, (void)h, (void)dy, (void)x, (void)gain, (void)mean, (void)rstd, (void)residual;
    (void)dx;
    no_kernel();
}

static void norm_columns(struct device *device, size_t n, size_t h, const float *dy, const float *x,
    const float *mean, const float *rstd, float *dgain, float *dbias, bool accumulate)
{
    (void)device, (void)n, (void)h, (void)dy, (void)x, (void)mean, (void)rstd, (void)dgain, (void)dbias;
    (void)accumulate;
    no_kernel();
}

static void column_sum(
    struct device *device, size_t n, size_t columns, const float *x, float *sum, bool accumulate)
{
    (void)device, (void)n, (void)columns, (void)x, (void)sum, (void)accumulate;
    no_kernel();
}

static void gelu_forward(struct device *device, size_t count, const float *u, float *g)
{
    (void)device, (void)count, (void)u, (void)g;
    no_kernel();
}

static void gelu_backward(
    struct device *device, size_t count, const float *u, const float *dg, float *g, float *du)
{
    (void)device, (void)count, (void)u, (void)dg, (void)g, (void)du;
    no_kernel();
}

static void loss(struct device *device, size_t n, size_t h, const float *out, const float *target,
    float inverse_count, float *dout, float *sum, bool accumulate)
{
    (void)device, (void)n, (void)h, (void)out, (void)target, (void)inverse_count, (void)dout, (void)sum;
    (void)accumulate;
    no_kernel();
}

static void random_numbers(struct device *device, const struct random *key, size_t count, float *x)
{
    (void)device, (void)key, (void)count, (void)x;
    no_kernel();
}

static void digest(
    struct device *device, size_t count, const float *x, uint64_t first_index, struct digest *result)
{
    (void)device, (void)count, (void)x, (void)first_index, (void)result;
    no_kernel();
}

static double not_measured(struct device *device)
{
    (void)device;
    return NAN;
}

bool rehearsal_device_open(const struct device_request *request, struct device **device, struct text *error)
{
    (void)request, (void)error;
    struct ordinary_device *rehearsal = allocate(1, sizeof *rehearsal);
    struct device *d = *device = &rehearsal->device;
    snprintf(d->name, sizeof d->name, "rehearsal (waits, computes nothing)");
    d->kind = "rehearsal";
    d->variant = "rehearsal";
    d->threads = 1;
    d->close = close_device;
    ordinary_functions(rehearsal);
    d->allocate = allocate_memory;
    d->release = release_memory;
    d->gemm = gemm;
    d->attention_forward = d->attention_backward = attention;
    d->norm_forward = norm_forward;
    d->norm_again = norm_again;
    d->norm_backward = norm_backward;
    d->norm_columns = norm_columns;
    d->column_sum = column_sum;
    d->gelu_forward = gelu_forward;
    d->gelu_backward = gelu_backward;
    d->loss = loss;
    d->random = random_numbers;
    d->digest = digest;
    d->measure_peak = d->measure_copy = not_measured;
    return true;
}
