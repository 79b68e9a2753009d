/* Prints the digest of every kernel's result, by the definition and by the kernels of the variant it is built
   with, for one set of inputs. portable.sh builds it with several compilers and for two machines, and
   compares what is printed. */
#include "device/arithmetic.h"
#include "device/definition.h"
#include "device/host/kernels.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    N = 34,
    H = 200,
    FFN = 330,
    HEADS = 5,
    BATCH = 2,
    SEQUENCE = N / BATCH,
    SIZE = N * 3 * H,
    THREADS = 2
};

/* Of base.c the kernels need the clock alone, and of that (in peak.c) nothing here. */
double seconds_now(void)
{
    return 0.0;
}

static uint32_t tensors;

static float *numbers(size_t count, float centre, float deviation)
{
    float *x = calloc(count, sizeof(float));
    if (!x) exit(1);
    const struct random key = {
        .seed = 42, .purpose = RANDOM_INPUT, .layer = tensors++, .centre = centre, .deviation = deviation
    };
    definition_random(&key, count, x);
    for (size_t i = 7; i < count; i += 31)
        x[i] *= i % 2 ? -0x1p-130f : 0x1p-75f; /* denormals, and products that are */
    return x;
}

static void print(const char *kernel, const char *by, const float *x, size_t count)
{
    struct digest digest;
    definition_digest(count, x, 0, &digest);
    printf("%s %s %016llx %016llx nan=%llu absmax=%a\n", kernel, by, (unsigned long long)digest.sum,
        (unsigned long long)digest.weighted, (unsigned long long)digest.nan, (double)digest.absmax);
}

static float *x, *dy, *gain, *bias, *y, *mean, *rstd, *dx, *row, *u, *w;

static void rows_and_elements(bool defined)
{
    const char *by = defined ? "definition" : "kernel";
    float loss = 0.0f;
    if (defined) {
        definition_norm_forward(N, H, x, gain, bias, y, mean, rstd);
        definition_norm_backward(N, H, dy, x, gain, mean, rstd, y, dx);
    } else {
        IN_TEAM(THREADS, KERNEL(norm_forward)(N, H, x, gain, bias, y, mean, rstd));
        IN_TEAM(THREADS, KERNEL(norm_backward)(N, H, dy, x, gain, mean, rstd, y, dx));
    }
    print("norm.y", by, y, N * H), print("norm.mean", by, mean, N), print("norm.rstd", by, rstd, N);
    print("norm.dx", by, dx, N * H);
    if (defined)
        definition_norm_columns(N, H, dy, x, mean, rstd, dx, row, false);
    else
        IN_TEAM(THREADS, KERNEL(norm_columns)(N, H, dy, x, mean, rstd, dx, row, false));
    print("norm.dgain", by, dx, H), print("norm.dbias", by, row, H);
    if (defined)
        definition_column_sum(N, H, x, row, true);
    else
        IN_TEAM(THREADS, KERNEL(column_sum)(N, H, x, row, true));
    print("column_sum", by, row, H);
    if (defined)
        definition_gelu_backward(SIZE, u, w, y, dx);
    else
        IN_TEAM(THREADS, KERNEL(gelu_backward)(SIZE, u, w, y, dx));
    print("gelu.g", by, y, SIZE), print("gelu.du", by, dx, SIZE);
    if (defined)
        definition_loss(N, H, x, dy, 1.0f / 7.0f, dx, &loss, true);
    else
        IN_TEAM(THREADS, KERNEL(loss)(N, H, x, dy, 1.0f / 7.0f, dx, &loss, true, row));
    print("loss.dout", by, dx, N * H), print("loss", by, &loss, 1);
    const struct random key = { .seed = 3, .first_index = 5, .deviation = 0.02f };
    if (defined)
        definition_random(&key, SIZE, y);
    else
        IN_TEAM(THREADS, KERNEL(random)(&key, SIZE, y));
    print("random", by, y, SIZE);
}

static void products(bool defined, const struct host_scratch *scratch)
{
    static const char *const names[] = { "gemm.nn", "gemm.nt", "gemm.tn" };
    for (enum gemm_form form = GEMM_NN; form <= GEMM_TN; form++) {
        const struct gemm g = { .form = form,
            .m = N,
            .n = FFN / 3,
            .k = H / 2,
            .a = x,
            .b = u,
            .c = y,
            .bias = bias,
            .residual = dy };
        if (defined)
            definition_gemm(&g);
        else
            KERNEL(gemm)(&g, scratch);
        print(names[form], defined ? "definition" : "kernel", y, N * (FFN / 3));
    }
    const struct attention a = { .batch = BATCH,
        .sequence = SEQUENCE,
        .hidden = H,
        .heads = HEADS,
        .qkv = u,
        .out = y,
        .maximum = mean,
        .inverse = rstd,
        .dout = dy,
        .row_dot = row,
        .dqkv = dx };
    if (defined) {
        definition_attention_forward(&a);
        definition_attention_backward(&a);
    } else {
        KERNEL(attention_forward)(&a, scratch);
        KERNEL(attention_backward)(&a, scratch);
    }
    print("attention.out", defined ? "definition" : "kernel", y, N * H);
    print("attention.dqkv", defined ? "definition" : "kernel", dx, SIZE);
}

int main(void)
{
    x = numbers(N * H, 0.0f, 1.0f), dy = numbers(N * H, 0.0f, 1.0f), gain = numbers(H, 1.0f, 0.02f);
    bias = numbers(H, 0.0f, 0.02f), u = numbers(SIZE, 0.0f, 3.0f), w = numbers(SIZE, 0.0f, 1.0f);
    y = numbers(SIZE, 0.0f, 1.0f), dx = numbers(SIZE, 0.0f, 1.0f), row = numbers(N * HEADS + H, 0.0f, 1.0f);
    mean = numbers(N * HEADS, 0.0f, 1.0f), rstd = numbers(N * HEADS, 0.0f, 1.0f);
    const struct device_request request = { .threads = THREADS,
        .microbatch_size = BATCH,
        .sequence = SEQUENCE,
        .hidden = H,
        .heads = HEADS,
        .ffn = FFN };
    const struct host_kernels *kernels = &KERNEL(host_kernels);
    const size_t own = (kernels->own_size(&request) + 63) / 64 * 64;
    const struct host_scratch scratch = {
        .threads = THREADS, .own = aligned_alloc(256, (own * THREADS + 64) / 64 * 256), .own_stride = own
    };
    rows_and_elements(true);
    products(true, &scratch);
    rows_and_elements(false);
    products(false, &scratch);
    return 0;
}
