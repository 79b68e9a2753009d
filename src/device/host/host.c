/* The host device: a variant's kernels, chosen when the device is opened, behind device.h's table. */
#include "device/host/kernels.h"
#include "device/kinds.h"
#include "device/ordinary.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct host_device {
    struct ordinary_device ordinary; /* first */
    const struct host_kernels *kernels;
    struct host_scratch scratch;
    float *row_sums; /* the loss's: one float a token */
    size_t grain;    /* elements that a thread is worth starting for */
};

/* To wake a thread and wait for it takes some microseconds, in which one core passes over about so many
 * elements. */
enum { GRAIN = 32768, FMAS_AN_ELEMENT = 64 };

/* Fastest first. */
static const struct variant {
    const struct host_kernels *kernels;
    const char *title;
} variants[] = {
#if defined(__x86_64__)
    { &host_kernels_avx512, "AVX-512" },
    { &host_kernels_avx2, "AVX2" },
    { &host_kernels_generic, "generic (fma emulated in software: slow)" },
#else
    { &host_kernels_generic, "generic" },
#endif
};

enum { VARIANTS = sizeof variants / sizeof variants[0] };

static bool runs_here(const struct variant *variant)
{
#if defined(__x86_64__)
    const char *name = variant->kernels->variant;
    const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(name, "avx2") == 0) return fma;
    if (strcmp(name, "avx512") == 0)
        return fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    (void)variant;
    return true;
}

/* The fastest that runs here, or the one that the environment asks for. */
static const struct variant *choose(struct text *error)
{
    const char *asked = getenv("PIPELEAF_INSTRUCTION_SET");
    for (int i = 0; i < VARIANTS; i++) {
        if (asked && *asked && strcmp(asked, variants[i].kernels->variant) != 0) continue;
        if (runs_here(&variants[i])) return &variants[i];
        if (!asked || !*asked) continue;
        text_add(error, "PIPELEAF_INSTRUCTION_SET=%s: this CPU does not have it;", asked);
        asked = NULL;
        break;
    }
    if (asked && *asked)
        text_add(error, "PIPELEAF_INSTRUCTION_SET=%s: there is no such instruction set;", asked);
    text_add(error, " here it can be");
    const char *before = " ";
    for (int i = 0; i < VARIANTS; i++) {
        if (!runs_here(&variants[i])) continue;
        text_add(error, "%s'%s'", before, variants[i].kernels->variant);
        before = ", ";
    }
    return NULL;
}

/* How many threads OpenMP really gives where `threads` are asked for. */
static int threads_given(int threads)
{
    int given = 1;
#pragma omp parallel num_threads(threads)
    {
#pragma omp single
        given = omp_get_num_threads();
    }
    return given;
}

static struct host_device *host(struct device *device)
{
    return (struct host_device *)device;
}

/* As many of the device's threads as there is work for: bits do not depend on it. */
static int threads_for(struct device *device, size_t elements)
{
    const size_t worth = elements / host(device)->grain;
    return worth < 1 ? 1 : worth < (size_t)device->threads ? (int)worth : device->threads;
}

static struct host_scratch scratch_for(struct device *device, size_t fmas)
{
    struct host_scratch scratch = host(device)->scratch;
    scratch.threads = threads_for(device, fmas / FMAS_AN_ELEMENT);
    scratch.meanwhile = device->meanwhile;
    scratch.meanwhile_argument = device->meanwhile_argument;
    return scratch;
}

static void close_device(struct device *device)
{
    free(host(device)->scratch.own);
    free(host(device)->row_sums);
    free(device);
}

static void meanwhile(struct device *device)
{
    if (device->meanwhile) device->meanwhile(device->meanwhile_argument);
}

static void gemm(struct device *device, const struct gemm *g)
{
    const struct host_scratch scratch = scratch_for(device, g->m * g->n * g->k);
    host(device)->kernels->gemm(g, &scratch);
    meanwhile(device);
}

static void attention_forward(struct device *device, const struct attention *a)
{
    const struct host_scratch scratch = scratch_for(device, a->batch * a->sequence * a->sequence * a->hidden);
    host(device)->kernels->attention_forward(a, &scratch);
    meanwhile(device);
}

static void attention_backward(struct device *device, const struct attention *a)
{
    const struct host_scratch scratch = scratch_for(device, a->batch * a->sequence * a->sequence * a->hidden);
    host(device)->kernels->attention_backward(a, &scratch);
    meanwhile(device);
}

static void norm_forward(struct device *device, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, float *y, float *mean, float *rstd)
{
    IN_TEAM(
        threads_for(device, n * h), host(device)->kernels->norm_forward(n, h, x, gain, bias, y, mean, rstd));
    meanwhile(device);
}

static void norm_again(struct device *device, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, const float *mean, const float *rstd, float *y)
{
    IN_TEAM(
        threads_for(device, n * h), host(device)->kernels->norm_again(n, h, x, gain, bias, mean, rstd, y));
    meanwhile(device);
}

static void norm_backward(struct device *device, size_t n, size_t h, const float *dy, const float *x,
    const float *gain, const float *mean, const float *rstd, const float *residual, float *dx)
{
    IN_TEAM(threads_for(device, n * h),
        host(device)->kernels->norm_backward(n, h, dy, x, gain, mean, rstd, residual, dx));
    meanwhile(device);
}

static void norm_columns(struct device *device, size_t n, size_t h, const float *dy, const float *x,
    const float *mean, const float *rstd, float *dgain, float *dbias, bool accumulate)
{
    IN_TEAM(threads_for(device, n * h),
        host(device)->kernels->norm_columns(n, h, dy, x, mean, rstd, dgain, dbias, accumulate));
    meanwhile(device);
}

static void column_sum(
    struct device *device, size_t n, size_t columns, const float *x, float *sum, bool accumulate)
{
    IN_TEAM(
        threads_for(device, n * columns), host(device)->kernels->column_sum(n, columns, x, sum, accumulate));
    meanwhile(device);
}

static void gelu_forward(struct device *device, size_t count, const float *u, float *g)
{
    IN_TEAM(threads_for(device, count), host(device)->kernels->gelu_forward(count, u, g));
    meanwhile(device);
}

static void gelu_backward(
    struct device *device, size_t count, const float *u, const float *dg, float *g, float *du)
{
    IN_TEAM(threads_for(device, count), host(device)->kernels->gelu_backward(count, u, dg, g, du));
    meanwhile(device);
}

static void loss(struct device *device, size_t n, size_t h, const float *out, const float *target,
    float inverse_count, float *dout, float *sum, bool accumulate)
{
    struct host_device *self = host(device);
    IN_TEAM(threads_for(device, n * h),
        self->kernels->loss(n, h, out, target, inverse_count, dout, sum, accumulate, self->row_sums));
    meanwhile(device);
}

static void random_numbers(struct device *device, const struct random *key, size_t count, float *x)
{
    IN_TEAM(threads_for(device, count), host(device)->kernels->random(key, count, x));
    meanwhile(device);
}

static void digest(
    struct device *device, size_t count, const float *x, uint64_t first_index, struct digest *result)
{
    IN_TEAM(threads_for(device, count), host(device)->kernels->digest(count, x, first_index, result));
    meanwhile(device);
}

static double measure_now(struct device *device, double seconds)
{
    double rate = 0.0;
    IN_TEAM(device->threads, host(device)->kernels->peak(seconds, &rate));
    return rate;
}

static double measure_peak(struct device *device)
{
    enum { TRIALS = 5 };
    double best = 0.0;
    for (int trial = 0; trial < TRIALS; trial++) {
        const double rate = measure_now(device, 0.02);
        if (rate > best) best = rate;
    }
    return best;
}

static void set_functions(struct device *device)
{
    device->close = close_device;
    device->gemm = gemm;
    device->attention_forward = attention_forward;
    device->attention_backward = attention_backward;
    device->norm_forward = norm_forward;
    device->norm_again = norm_again;
    device->norm_backward = norm_backward;
    device->norm_columns = norm_columns;
    device->column_sum = column_sum;
    device->gelu_forward = gelu_forward;
    device->gelu_backward = gelu_backward;
    device->loss = loss;
    device->random = random_numbers;
    device->digest = digest;
    device->measure_peak = measure_peak;
    device->measure_now = measure_now;
}

/* a * b floats, aligned to 256 bytes: the device's own memory, which held does not count. */
static float *floats(size_t a, size_t b)
{
    const size_t bytes =
        checked_product(checked_product(a, b, "scratch memory"), sizeof(float), "scratch memory");
    float *memory = ordinary_block(bytes);
    if (!memory) fail("out of memory: %zu bytes of scratch memory", bytes);
    return memory;
}

bool host_device_open(const struct device_request *request, struct device **device, struct text *error)
{
    const struct variant *variant = choose(error);
    if (!variant) return false;
    const int threads = request->threads, given = threads_given(threads);
    if (given != threads) {
        text_add(error,
            "device 'host': %d threads were asked for but OpenMP gives %d; see OMP_THREAD_LIMIT and "
            "OMP_DYNAMIC",
            threads, given);
        return false;
    }
    struct host_device *self = allocate(1, sizeof *self);
    struct device *d = *device = &self->ordinary.device;
    self->kernels = variant->kernels;
    snprintf(
        d->name, sizeof d->name, "host, %s, %d thread%s", variant->title, threads, threads == 1 ? "" : "s");
    d->kind = "host";
    d->variant = variant->kernels->variant;
    d->threads = threads;
    ordinary_functions(&self->ordinary);
    set_functions(d);

    struct host_scratch *scratch = &self->scratch;
    scratch->threads = threads;
    scratch->own_stride =
        (self->kernels->own_size(request) + 63) / 64 * 64; /* so that no two share a cache line */
    scratch->own = floats(scratch->own_stride, (size_t)threads);
    self->grain = request->grain > 0 ? (size_t)request->grain : GRAIN;
    self->row_sums = floats((size_t)request->microbatch_size, (size_t)request->sequence);
    return true;
}
