/* Row, column and element kernels have the definition's bits: every variant, every number of threads, odd
   shapes, and data with denormals, zeros of both signs, infinities and NaN. */
#include "../check.h"
#include "variants.h"
#include "device/definition.h"

enum { GUARD = 64 }; /* floats behind each output that must stay as they are */

static struct devices devices;
static uint64_t state = 2025;

/* One output of a kernel: what the definition made, and what a device makes. */
struct output {
    size_t count;
    float *expected, *made;
};

/* As a device's own memory does, `made` begins with a cache line: no other result is streamed. */
static struct output output(size_t count)
{
    struct output o = { count, allocate(count + GUARD, sizeof(float)), NULL };
    o.made = aligned_alloc(64, ((count + GUARD) * sizeof(float) + 63) / 64 * 64);
    if (!o.made) abort();
    return o;
}

/* Both begin with the same old contents. */
static void begin(struct output *o, const float *contents)
{
    for (size_t i = 0; i < o->count + GUARD; i++)
        o->expected[i] = contents && i < o->count ? contents[i] : 77.0f;
}

static void before_device(struct output *o, const float *contents)
{
    for (size_t i = 0; i < o->count + GUARD; i++) o->made[i] = contents && i < o->count ? contents[i] : 77.0f;
}

static void compare(const struct output *o, const char *what, const struct device *device, size_t n, size_t h)
{
    size_t at;
    CHECK(same_bits(o->expected, o->made, o->count, &at),
        "%s of %s, %zu x %zu, element %zu: %a, defined as %a", what, device->name, n, h, at,
        (double)o->made[at], (double)o->expected[at]);
    CHECK(same_bits(o->expected + o->count, o->made + o->count, GUARD, &at),
        "%s of %s, %zu x %zu writes past its end", what, device->name, n, h);
}

static void finish(struct output *o)
{
    free(o->expected);
    free(o->made);
}

static float *data(size_t count, enum wildness wildness)
{
    float *x = allocate(count, sizeof(float));
    fill(x, count, wildness, &state);
    return x;
}

static void norms(size_t n, size_t h, enum wildness wildness)
{
    float *x = data(n * h, wildness), *gain = data(h, wildness), *bias = data(h, TAME),
          *dy = data(n * h, wildness);
    float *residual = data(n * h, TAME), *old = data(h, TAME);
    struct output y = output(n * h), mean = output(n), rstd = output(n), again = output(n * h),
                  dx = output(n * h);
    struct output dgain = output(h), dbias = output(h);
    begin(&y, NULL), begin(&mean, NULL), begin(&rstd, NULL), begin(&again, NULL), begin(&dx, NULL);
    definition_norm_forward(n, h, x, gain, bias, y.expected, mean.expected, rstd.expected);
    definition_norm_again(n, h, x, gain, bias, mean.expected, rstd.expected, again.expected);
    definition_norm_backward(n, h, dy, x, gain, mean.expected, rstd.expected, residual, dx.expected);
    for (int i = 0; i < devices.count; i++) {
        struct device *d = devices.device[i];
        before_device(&y, NULL), before_device(&mean, NULL), before_device(&rstd, NULL),
            before_device(&again, NULL);
        d->norm_forward(d, n, h, x, gain, bias, y.made, mean.made, rstd.made);
        compare(&y, "norm_forward's y", d, n, h);
        compare(&mean, "norm_forward's mean", d, n, h);
        compare(&rstd, "norm_forward's rstd", d, n, h);
        d->norm_again(d, n, h, x, gain, bias, mean.expected, rstd.expected, again.made);
        compare(&again, "norm_again", d, n, h);
        before_device(&dx, NULL);
        d->norm_backward(d, n, h, dy, x, gain, mean.expected, rstd.expected, residual, dx.made);
        compare(&dx, "norm_backward", d, n, h);
        before_device(&dx, dy);
        d->norm_backward(d, n, h, dx.made, x, gain, mean.expected, rstd.expected, residual, dx.made);
        compare(&dx, "norm_backward in place of dy", d, n, h);
        before_device(&dx, residual);
        d->norm_backward(d, n, h, dy, x, gain, mean.expected, rstd.expected, dx.made, dx.made);
        compare(&dx, "norm_backward in place of residual", d, n, h);
    }
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        begin(&dgain, old), begin(&dbias, old);
        definition_norm_columns(
            n, h, dy, x, mean.expected, rstd.expected, dgain.expected, dbias.expected, accumulate);
        for (int i = 0; i < devices.count; i++) {
            struct device *d = devices.device[i];
            before_device(&dgain, old), before_device(&dbias, old);
            d->norm_columns(d, n, h, dy, x, mean.expected, rstd.expected, dgain.made, dbias.made, accumulate);
            compare(&dgain, "norm_columns' dgain", d, n, h);
            compare(&dbias, "norm_columns' dbias", d, n, h);
        }
    }
    finish(&y), finish(&mean), finish(&rstd), finish(&again), finish(&dx), finish(&dgain), finish(&dbias);
    free(x), free(gain), free(bias), free(dy), free(residual), free(old);
}

static void column_sums(size_t n, size_t h, enum wildness wildness)
{
    float *x = data(n * h, wildness), *old = data(h, TAME);
    struct output sum = output(h);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        begin(&sum, old);
        definition_column_sum(n, h, x, sum.expected, accumulate);
        for (int i = 0; i < devices.count; i++) {
            struct device *d = devices.device[i];
            before_device(&sum, old);
            d->column_sum(d, n, h, x, sum.made, accumulate);
            compare(&sum, "column_sum", d, n, h);
        }
    }
    finish(&sum);
    free(x), free(old);
}

static void gelus(size_t n, size_t h, enum wildness wildness)
{
    const size_t count = n * h;
    float *u = data(count, wildness), *dg = data(count, TAME);
    for (size_t i = 0; i < count; i++) u[i] *= 8.0f;
    struct output g = output(count), du = output(count);
    begin(&g, NULL), begin(&du, NULL);
    definition_gelu_backward(count, u, dg, g.expected, du.expected);
    for (int i = 0; i < devices.count; i++) {
        struct device *d = devices.device[i];
        before_device(&g, NULL);
        d->gelu_forward(d, count, u, g.made);
        compare(&g, "gelu_forward", d, n, h);
        before_device(&g, NULL), before_device(&du, NULL);
        d->gelu_backward(d, count, u, dg, g.made, du.made);
        compare(&g, "gelu_backward's g", d, n, h);
        compare(&du, "gelu_backward's du", d, n, h);
        before_device(&g, NULL), before_device(&du, dg);
        d->gelu_backward(d, count, u, du.made, g.made, du.made);
        compare(&du, "gelu_backward in place of dg", d, n, h);
    }
    finish(&g), finish(&du);
    free(u), free(dg);
}

static void losses(size_t n, size_t h, enum wildness wildness)
{
    float *out = data(n * h, wildness), *target = data(n * h, TAME);
    struct output dout = output(n * h), loss = output(1);
    const float old = 0.3f;
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        begin(&dout, NULL), begin(&loss, &old);
        definition_loss(n, h, out, target, 1.0f / 3.0f, dout.expected, loss.expected, accumulate);
        for (int i = 0; i < devices.count; i++) {
            struct device *d = devices.device[i];
            before_device(&dout, NULL), before_device(&loss, &old);
            d->loss(d, n, h, out, target, 1.0f / 3.0f, dout.made, loss.made, accumulate);
            compare(&dout, "loss's dout", d, n, h);
            compare(&loss, "loss", d, n, h);
        }
    }
    finish(&dout), finish(&loss);
    free(out), free(target);
}

static void randoms(size_t count)
{
    /* Not a multiple of 4; across 2^34, where the counter's first word wraps; and far out. */
    static const uint64_t first[] = { 0, 1, 7, (1ull << 34) - 9, (1ull << 40) + 2 };
    struct output x = output(count);
    for (size_t f = 0; f < sizeof first / sizeof first[0]; f++) {
        const struct random key = { .seed = 0x123456789abcdef0u + f,
            .purpose = f % 2 ? RANDOM_INPUT : 3,
            .layer = 5,
            .step = 70000,
            .first_index = first[f],
            .centre = f % 2 ? 0.0f : 1.0f,
            .deviation = 0.02f };
        begin(&x, NULL);
        definition_random(&key, count, x.expected);
        for (int i = 0; i < devices.count; i++) {
            struct device *d = devices.device[i];
            before_device(&x, NULL);
            d->random(d, &key, count, x.made);
            compare(&x, "random", d, count, (size_t)first[f]);
        }
    }
    finish(&x);
}

static void digests(size_t count, enum wildness wildness)
{
    float *x = data(count, wildness);
    static const uint64_t first[] = { 0, 5, (1ull << 32) - 700, 3ull << 33 };
    for (size_t f = 0; f < sizeof first / sizeof first[0]; f++) {
        struct digest expected, made;
        definition_digest(count, x, first[f], &expected);
        for (int i = 0; i < devices.count; i++) {
            struct device *d = devices.device[i];
            memset(&made, 0x55, sizeof made);
            d->digest(d, count, x, first[f], &made);
            CHECK(memcmp(&made, &expected, sizeof made) == 0, "digest of %zu elements from %llu on %s", count,
                (unsigned long long)first[f], d->name);
        }
    }
    free(x);
}

int main(void)
{
    static const size_t columns[] = { 1, 2, 3, 5, 17, 31, 32, 33, 96, 100, 257, 1024 };
    static const size_t rows[] = { 1, 2, 3, 4, 7, 18 };
    const struct device_request request = {
        .microbatch_size = 3, .sequence = 6, .hidden = 1024, .heads = 4, .ffn = 4096
    };
    devices = open_devices(request, (const int[]){ 1, 2, 3, 0 });
    CHECK(devices.count >= 3, "%d devices", devices.count);
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            for (enum wildness wildness = TAME; wildness <= BROKEN; wildness++) {
                norms(rows[r], columns[c], wildness);
                column_sums(rows[r], columns[c], wildness);
                gelus(rows[r], columns[c], wildness);
                losses(rows[r], columns[c], wildness);
            }
        }
    }
    /* More columns than a block has. */
    column_sums(9, 20011, WILD);
    norms(6, 20011, TAME);
    gelus(3, 4097, WILD);
    /* Large enough to be streamed, in rows of whole cache lines and in others; a last block that is not one.
       Tame, since a wild row as long as these is all NaN. */
    norms(8070, 1040, TAME);
    norms(8400, 1002, TAME);
    gelus(1, (8 << 20) + 77, WILD);
    static const size_t counts[] = { 1, 2, 3, 4, 5, 63, 64, 65, 1000, 1024, 1025, 10007 };
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        randoms(counts[c]);
        for (enum wildness wildness = TAME; wildness <= BROKEN; wildness++) digests(counts[c], wildness);
    }
    close_devices(&devices);
    return check_result();
}
