/* The definition as a device, on one thread: any run can be tried on it, slowly. */
#include "device/definition.h"
#include "device/kinds.h"
#include "device/ordinary.h"
#include <stdlib.h>
#include <stdio.h>

static void close_device(struct device *device)
{
    free(device);
}

static void gemm(struct device *device, const struct gemm *g)
{
    (void)device;
    definition_gemm(g);
}

static void attention_forward(struct device *device, const struct attention *a)
{
    (void)device;
    definition_attention_forward(a);
}

static void attention_backward(struct device *device, const struct attention *a)
{
    (void)device;
    definition_attention_backward(a);
}

static void norm_forward(struct device *device, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, float *y, float *mean, float *rstd)
{
    (void)device;
    definition_norm_forward(n, h, x, gain, bias, y, mean, rstd);
}

static void norm_again(struct device *device, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, const float *mean, const float *rstd, float *y)
{
    (void)device;
    definition_norm_again(n, h, x, gain, bias, mean, rstd, y);
}

static void norm_backward(struct device *device, size_t n, size_t h, const float *dy, const float *x,
    const float *gain, const float *mean, const float *rstd, const float *residual, float *dx)
{
    (void)device;
    definition_norm_backward(n, h, dy, x, gain, mean, rstd, residual, dx);
}

static void norm_columns(struct device *device, size_t n, size_t h, const float *dy, const float *x,
    const float *mean, const float *rstd, float *dgain, float *dbias, bool accumulate)
{
    (void)device;
    definition_norm_columns(n, h, dy, x, mean, rstd, dgain, dbias, accumulate);
}

static void column_sum(
    struct device *device, size_t n, size_t columns, const float *x, float *sum, bool accumulate)
{
    (void)device;
    definition_column_sum(n, columns, x, sum, accumulate);
}

static void gelu_forward(struct device *device, size_t count, const float *u, float *g)
{
    (void)device;
    definition_gelu_forward(count, u, g);
}

static void gelu_backward(
    struct device *device, size_t count, const float *u, const float *dg, float *g, float *du)
{
    (void)device;
    definition_gelu_backward(count, u, dg, g, du);
}

static void loss(struct device *device, size_t n, size_t h, const float *out, const float *target,
    float inverse_count, float *dout, float *sum, bool accumulate)
{
    (void)device;
    definition_loss(n, h, out, target, inverse_count, dout, sum, accumulate);
}

static void random_numbers(struct device *device, const struct random *key, size_t count, float *x)
{
    (void)device;
    definition_random(key, count, x);
}

static void digest(
    struct device *device, size_t count, const float *x, uint64_t first_index, struct digest *result)
{
    (void)device;
    definition_digest(count, x, first_index, result);
}

/* The rate of the definition's own GEMM: there is nothing faster here. */
static double measure_peak(struct device *device)
{
    enum { SIZE = 64 };
    float *memory = device->allocate(device, 3 * SIZE * SIZE * sizeof(float));
    const struct gemm g = { .form = GEMM_NN,
        .m = SIZE,
        .n = SIZE,
        .k = SIZE,
        .a = memory,
        .b = memory + SIZE * SIZE,
        .c = memory + 2 * SIZE * SIZE };
    const double begin = seconds_now();
    double operations = 0.0, seconds = 0.0;
    while (seconds < 0.1) {
        definition_gemm(&g);
        operations += 2.0 * SIZE * SIZE * SIZE;
        seconds = seconds_now() - begin;
    }
    device->release(device, memory);
    return operations / seconds;
}

bool definition_device_open(const struct device_request *request, struct device **device, struct text *error)
{
    (void)request;
    (void)error;
    struct ordinary_device *definition = allocate(1, sizeof *definition);
    struct device *d = *device = &definition->device;
    snprintf(d->name, sizeof d->name, "definition (plain loops: slow), 1 thread");
    d->kind = "definition";
    d->variant = "definition";
    d->threads = 1;
    d->close = close_device;
    ordinary_functions(definition);
    d->gemm = gemm;
    d->attention_forward = attention_forward;
    d->attention_backward = attention_backward;
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
    d->measure_peak = measure_peak;
    return true;
}
