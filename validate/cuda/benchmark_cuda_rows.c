/* What share of the rate of a copy on the device (read plus written) the row, column and element kernels
   reach: each in turn with a copy of the same size, medians of the rounds. Not a test. Arguments: rows and
   columns of the tensors (16384 8192: larger than any cache). */
#include "on_gpu.h"

enum { ROUNDS = 7, LAUNCHES = 5, TENSORS = 5 };

struct work {
    cudaStream_t stream;
    size_t n, h, count;
    float *tensor[TENSORS];                                             /* [n, h] */
    float *mean, *rstd, *row_loss, *gain, *bias, *dgain, *dbias, *loss; /* [n], [h], [1] */
    struct digest *partial, *digest;
};

static void copy(const struct work *w)
{
    CUDA_CALL(cudaMemcpyAsync(
        w->tensor[1], w->tensor[0], w->count * sizeof(float), cudaMemcpyDeviceToDevice, w->stream));
}

static void digest(const struct work *w)
{
    cuda_digest(w->stream, w->count, w->tensor[0], 0, w->partial, w->digest);
}

static void norm_forward(const struct work *w)
{
    cuda_norm_forward(w->stream, w->n, w->h, w->tensor[0], w->gain, w->bias, w->tensor[1], w->mean, w->rstd);
}

static void norm_again(const struct work *w)
{
    cuda_norm_again(w->stream, w->n, w->h, w->tensor[0], w->gain, w->bias, w->mean, w->rstd, w->tensor[1]);
}

static void norm_backward(const struct work *w)
{
    cuda_norm_backward(w->stream, w->n, w->h, w->tensor[2], w->tensor[0], w->gain, w->mean, w->rstd,
        w->tensor[3], w->tensor[4]);
}

static void norm_columns(const struct work *w)
{
    cuda_norm_columns(
        w->stream, w->n, w->h, w->tensor[2], w->tensor[0], w->mean, w->rstd, w->dgain, w->dbias, true);
}

static void column_sum(const struct work *w)
{
    cuda_column_sum(w->stream, w->n, w->h, w->tensor[0], w->dbias, true);
}

static void loss(const struct work *w)
{
    cuda_loss(
        w->stream, w->n, w->h, w->tensor[0], w->tensor[2], 0.5f, w->tensor[1], w->row_loss, w->loss, true);
}

static void gelu_forward(const struct work *w)
{
    cuda_gelu_forward(w->stream, w->count, w->tensor[0], w->tensor[1]);
}

static void gelu_backward(const struct work *w)
{
    cuda_gelu_backward(w->stream, w->count, w->tensor[0], w->tensor[2], w->tensor[1], w->tensor[4]);
}

static void random_numbers(const struct work *w)
{
    cuda_random(w->stream, &(struct random){ .seed = 1, .deviation = 0.57f }, w->count, w->tensor[1]);
}

static void round_bf16(const struct work *w)
{
    cuda_round_bf16(w->stream, w->count, w->tensor[1]);
}

/* Every tensor is a head's scores: n queries, h keys, all of them known. */
static void softmax(const struct work *w)
{
    cuda_softmax_rows(w->stream, 1, w->h + w->n, w->h, w->n, w->h, 0.125f, w->tensor[0], w->tensor[1], false,
        w->tensor[2], w->tensor[3]);
}

/* tensors: how many of the size [n, h] are read and written. */
static const struct {
    const char *name;
    void (*run)(const struct work *work);
    int tensors;
} kernels[] = { { "digest", digest, 1 }, { "norm_forward", norm_forward, 2 }, { "norm_again", norm_again, 2 },
    { "norm_backward", norm_backward, 4 }, { "norm_columns", norm_columns, 2 },
    { "column_sum", column_sum, 1 }, { "loss", loss, 3 }, { "gelu_forward", gelu_forward, 2 },
    { "gelu_backward", gelu_backward, 4 }, { "random", random_numbers, 1 }, { "round_bf16", round_bf16, 2 },
    { "softmax_rows", softmax, 2 } };

/* Bytes a second. */
static double rate(
    const struct work *w, void (*run)(const struct work *), int tensors, cudaEvent_t from, cudaEvent_t to)
{
    float milliseconds;
    CUDA_CALL(cudaEventRecord(from, w->stream));
    for (int i = 0; i < LAUNCHES; i++) run(w);
    CUDA_CALL(cudaEventRecord(to, w->stream));
    CUDA_CALL(cudaEventSynchronize(to));
    CUDA_CALL(cudaEventElapsedTime(&milliseconds, from, to));
    return (double)tensors * LAUNCHES * (double)w->count * sizeof(float) / (1e-3 * (double)milliseconds);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static float *floats(size_t count)
{
    float *memory;
    CUDA_CALL(cudaMalloc((void **)&memory, count * sizeof *memory));
    return memory;
}

int main(int argc, char **argv)
{
    struct work w = { .stream = gpu_stream(), .n = 16384, .h = 8192 };
    if (argc == 3) {
        w.n = strtoull(argv[1], NULL, 10);
        w.h = strtoull(argv[2], NULL, 10);
    }
    if ((argc != 1 && argc != 3) || w.n < 1 || w.h < 1) fail("usage: %s [ROWS COLUMNS]", argv[0]);
    w.count = checked_product(w.n, w.h, "the tensor");
    for (int t = 0; t < TENSORS; t++) {
        w.tensor[t] = floats(w.count + 2 * (w.n + w.h)); /* more than any kernel writes there */
        cuda_random(
            w.stream, &(struct random){ .seed = (uint64_t)t, .deviation = 0.57f }, w.count, w.tensor[t]);
    }
    w.mean = floats(w.n), w.rstd = floats(w.n), w.row_loss = floats(w.n);
    w.gain = floats(w.h), w.bias = floats(w.h), w.dgain = floats(w.h), w.dbias = floats(w.h),
    w.loss = floats(1);
    cuda_random(w.stream, &(struct random){ .deviation = 0.02f, .centre = 1.0f }, w.h, w.gain);
    cuda_random(w.stream, &(struct random){ .deviation = 0.02f }, w.h, w.bias);
    CUDA_CALL(cudaMemsetAsync(w.dgain, 0, w.h * sizeof(float), w.stream));
    CUDA_CALL(cudaMemsetAsync(w.dbias, 0, w.h * sizeof(float), w.stream));
    CUDA_CALL(cudaMemsetAsync(w.loss, 0, sizeof(float), w.stream));
    CUDA_CALL(cudaMalloc((void **)&w.partial, CUDA_DIGEST_PARTS * sizeof *w.partial));
    CUDA_CALL(cudaMalloc((void **)&w.digest, sizeof *w.digest));
    norm_forward(&w); /* mean and rstd for the others */

    cudaEvent_t from, to;
    CUDA_CALL(cudaEventCreate(&from));
    CUDA_CALL(cudaEventCreate(&to));
    printf("%zu x %zu; medians of %d rounds, each beside a copy of the moment\n", w.n, w.h, ROUNDS);
    printf("%-14s %9s %9s %6s\n", "kernel", "GB/s", "copy", "share");
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        double own[ROUNDS], copied[ROUNDS], share[ROUNDS];
        rate(&w, kernels[k].run, kernels[k].tensors, from, to);
        for (int round = 0; round < ROUNDS; round++) {
            copied[round] = rate(&w, copy, 2, from, to);
            own[round] = rate(&w, kernels[k].run, kernels[k].tensors, from, to);
            share[round] = own[round] / copied[round];
        }
        printf("%-14s %9.1f %9.1f %6.3f\n", kernels[k].name, median(own) / 1e9, median(copied) / 1e9,
            median(share));
        fflush(stdout);
    }
    return 0;
}
