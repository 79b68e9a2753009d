/* The rate at which the kernels of rows, columns and elements move their tensors, as a share of that of a
   plain loop over as many, read and written, in the same memory. Tensors are of 64 MiB, so that no cache
   holds them. */
#include "benchmark.h"

enum {
    TOKENS = 16384,
    HIDDEN = 1024,
    COUNT = TOKENS * HIDDEN,
    MOST_READ = 3,
    MOST_WRITTEN = 2,
    BLOCK = 1 << 14
};

/* Tensors [TOKENS, HIDDEN], and what else kernels take; all owned. */
struct tensors {
    float *read[MOST_READ], *written[MOST_WRITTEN];
    float *gain, *bias, *mean, *rstd, *sum; /* [HIDDEN] twice, [TOKENS] twice, [1] */
    struct digest *digest;
};

/* --- the bound: so many tensors read, so many written --- */

struct traffic {
    const struct tensors *tensors;
    int reads, writes;
    uint32_t result; /* of all loops, so that none is left out */
};

/* The exclusive or of what is read, written or returned: no operation of floats, for that could not be
   reordered. */
static inline uint32_t move(int reads, int writes, const struct tensors *t, size_t begin)
{
    const uint32_t *restrict a = (const void *)(t->read[0] + begin),
                             *restrict b = (const void *)(t->read[1] + begin),
                             *restrict c = (const void *)(t->read[2] + begin);
    uint32_t *restrict x = (void *)(t->written[0] + begin), *restrict y = (void *)(t->written[1] + begin);
    uint32_t all = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        const uint32_t v = a[i] ^ (reads > 1 ? b[i] : 0) ^ (reads > 2 ? c[i] : 0);
        if (writes > 0) x[i] = v;
        if (writes > 1) y[i] = v;
        if (writes == 0) all ^= v;
    }
    return all;
}

static uint32_t move_block(const struct traffic *m, size_t begin)
{
    switch (4 * m->reads + m->writes) {
    case 4: return move(1, 0, m->tensors, begin);
    case 5: return move(1, 1, m->tensors, begin);
    case 8: return move(2, 0, m->tensors, begin);
    case 9: return move(2, 1, m->tensors, begin);
    case 10: return move(2, 2, m->tensors, begin);
    case 13: return move(3, 1, m->tensors, begin);
    }
    fail("a benchmark's mistake: %d tensors read, %d written", m->reads, m->writes);
}

static double bytes(const struct traffic *m)
{
    return (double)sizeof(float) * COUNT * (m->reads + m->writes);
}

static double memory_rate(struct device *device, void *argument, double seconds)
{
    struct traffic *const m = argument;
    const double begin = seconds_now();
    double passes = 0, now;
    do {
        uint32_t all = 0;
#pragma omp parallel for num_threads(device->threads) reduction(^ : all) schedule(static)
        for (size_t at = 0; at < COUNT; at += BLOCK) all ^= move_block(m, at);
        m->result ^= all;
        passes++;
        now = seconds_now();
    } while (now - begin < seconds);
    return passes * bytes(m) / (now - begin);
}

/* --- the kernels --- */

static void norm_forward(struct device *d, void *argument)
{
    const struct tensors *t = argument;
    d->norm_forward(d, TOKENS, HIDDEN, t->read[0], t->gain, t->bias, t->written[0], t->mean, t->rstd);
}

static void norm_again(struct device *d, void *argument)
{
    const struct tensors *t = argument;
    d->norm_again(d, TOKENS, HIDDEN, t->read[0], t->gain, t->bias, t->mean, t->rstd, t->written[0]);
}

static void norm_backward(struct device *d, void *argument)
{
    const struct tensors *t = argument;
    d->norm_backward(
        d, TOKENS, HIDDEN, t->read[0], t->read[1], t->gain, t->mean, t->rstd, t->read[2], t->written[0]);
}

static void norm_columns(struct device *d, void *argument)
{
    const struct tensors *t = argument;
    d->norm_columns(d, TOKENS, HIDDEN, t->read[0], t->read[1], t->mean, t->rstd, t->gain, t->bias, false);
}

static void column_sum(struct device *d, void *argument)
{
    const struct tensors *t = argument;
    d->column_sum(d, TOKENS, HIDDEN, t->read[0], t->bias, false);
}

static void gelu_forward(struct device *d, void *argument)
{
    const struct tensors *t = argument;
    d->gelu_forward(d, COUNT, t->read[0], t->written[0]);
}

static void gelu_backward(struct device *d, void *argument)
{
    const struct tensors *t = argument;
    d->gelu_backward(d, COUNT, t->read[0], t->read[1], t->written[0], t->written[1]);
}

static void loss(struct device *d, void *argument)
{
    const struct tensors *t = argument;
    d->loss(d, TOKENS, HIDDEN, t->read[0], t->read[1], 1.0f / COUNT, t->written[0], t->sum, false);
}

static void digest(struct device *d, void *argument)
{
    const struct tensors *t = argument;
    d->digest(d, COUNT, t->read[0], 0, t->digest);
}

static const struct kernel {
    const char *name;
    int reads, writes;
    void (*work)(struct device *device, void *tensors);
} kernels[] = { { "norm forward", 1, 1, norm_forward }, { "norm again", 1, 1, norm_again },
    { "norm backward", 3, 1, norm_backward }, { "norm columns", 2, 0, norm_columns },
    { "column sum", 1, 0, column_sum }, { "gelu forward", 1, 1, gelu_forward },
    { "gelu backward", 2, 2, gelu_backward }, { "loss", 2, 1, loss }, { "digest", 1, 0, digest } };

int main(int argument_count, char **arguments)
{
    const struct command command = read_command(argument_count, arguments);
    struct results results = { 0 };
    print_heading("Tensors of 16384 x 1024", "GB/s", "memory");
    for (int i = 0; i < command.count; i++) {
        const struct device_request request = {
            .microbatch_size = 1, .sequence = TOKENS, .hidden = HIDDEN, .heads = 16, .ffn = 4 * HIDDEN
        };
        struct device *device = open_device(request, command.threads[i]);
        struct tensors t = { .gain = numbers(device, HIDDEN),
            .bias = numbers(device, HIDDEN),
            .mean = numbers(device, TOKENS),
            .rstd = numbers(device, TOKENS),
            .sum = numbers(device, 1),
            .digest = device->allocate(device, sizeof(struct digest)) };
        for (int x = 0; x < MOST_READ; x++) t.read[x] = numbers(device, COUNT);
        for (int x = 0; x < MOST_WRITTEN; x++) t.written[x] = numbers(device, COUNT);
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
            struct traffic traffic = { &t, kernels[k].reads, kernels[k].writes, 0 };
            char what[64];
            snprintf(
                what, sizeof what, "%s, %d read, %d written", kernels[k].name, traffic.reads, traffic.writes);
            measure_against((struct bound){ memory_rate, &traffic }, &results, device, what, bytes(&traffic),
                kernels[k].work, &t);
        }
        void *const all[] = { t.gain, t.bias, t.mean, t.rstd, t.sum, t.digest, t.read[0], t.read[1],
            t.read[2], t.written[0], t.written[1] };
        for (size_t x = 0; x < sizeof all / sizeof *all; x++) device->release(device, all[x]);
        device->close(device);
    }
    write_results(&results, "rows", command.json);
    return 0;
}
