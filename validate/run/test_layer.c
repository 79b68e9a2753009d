/* Backward in two halves has the bits of backward in one piece: I gives its dx, and W, any time later, its
   gradients, whatever was computed in between. */
#include "model/layer.h"
#include "check.h"
#include <stdlib.h>
#include <string.h>

static const struct model model = { .layers = 3,
    .hidden = 48,
    .heads = 3,
    .ffn = 200,
    .sequence = 9,
    .microbatches = 3,
    .microbatch_size = 2,
    .seed = 5 };

enum { MICROBATCHES = 3 };

/* One layer on a device, with every microbatch's slot. */
struct bench {
    struct device *device;
    struct layer_weights weights; /* their operands are NULL: fp32 */
    float *gradients, *dout, *dx;
    float *saved_memory[MICROBATCHES], *kept_memory[MICROBATCHES], *work_memory, *whole_memory;
    struct layer_saved saved[MICROBATCHES];
    struct layer_kept kept[MICROBATCHES];
    struct layer_work work, whole; /* for halves, and for B in one piece */
};

static float *floats(struct device *device, size_t count)
{
    return device->allocate(device, count * sizeof(float));
}

static void bench_open(struct bench *b, const char *kind)
{
    struct text error = { 0 };
    const struct device_request request = { .kind = kind,
        .threads = 2,
        .grain = 1,
        .microbatch_size = model.microbatch_size,
        .sequence = model.sequence,
        .hidden = model.hidden,
        .heads = model.heads,
        .ffn = model.ffn };
    if (!device_open(&request, &b->device, &error)) fail("%s", error.data);
    struct device *d = b->device;
    b->weights.values = floats(d, parameters_size(&model));
    b->gradients = floats(d, parameters_size(&model));
    b->dout = floats(d, boundary_size(&model));
    b->dx = floats(d, boundary_size(&model));
    b->work_memory = floats(d, layer_work_size(&model, true));
    b->work = layer_work_view(&model, true, b->work_memory);
    b->whole_memory = floats(d, layer_work_size(&model, false));
    b->whole = layer_work_view(&model, false, b->whole_memory);
    layer_parameters(d, &model, 1, &b->weights);
    for (int m = 0; m < MICROBATCHES; m++) {
        b->saved_memory[m] = floats(d, layer_saved_size(&model));
        b->saved[m] = layer_saved_view(&model, b->saved_memory[m]);
        b->kept_memory[m] = floats(d, layer_kept_size(&model));
        b->kept[m] = layer_kept_view(&model, b->kept_memory[m]);
        boundary_random(d, &model, RANDOM_INPUT, 1, m, b->saved[m].x);
        layer_forward(d, &model, &b->weights, &b->saved[m], &b->work, b->dx);
    }
}

static void bench_close(struct bench *b)
{
    struct device *d = b->device;
    float *const memory[] = { b->weights.values, b->gradients, b->dout, b->dx, b->work_memory,
        b->whole_memory };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) d->release(d, memory[i]);
    for (int m = 0; m < MICROBATCHES; m++) {
        d->release(d, b->saved_memory[m]);
        d->release(d, b->kept_memory[m]);
    }
    d->close(d);
}

/* A layer's dx of every microbatch, and the gradients of all. */
struct results {
    float *dx[MICROBATCHES], *gradients; /* host memory, owned */
};

static void keep_dx(struct bench *b, struct results *r, int m, const float *dx)
{
    r->dx[m] = allocate(boundary_size(&model), sizeof(float));
    b->device->download(b->device, r->dx[m], dx, boundary_size(&model) * sizeof(float));
}

static void keep_gradients(struct bench *b, struct results *r)
{
    r->gradients = allocate(parameters_size(&model), sizeof(float));
    b->device->download(b->device, r->gradients, b->gradients, parameters_size(&model) * sizeof(float));
}

/* Rubbish where nothing may be expected: NaNs, which spread to whatever reads them. */
static void spoil(struct bench *b, float *memory, size_t count)
{
    float *rubbish = allocate(count, sizeof *rubbish);
    memset(rubbish, 0xff, count * sizeof *rubbish);
    b->device->upload(b->device, memory, rubbish, count * sizeof *rubbish);
    free(rubbish);
}

static struct results in_one_piece(struct bench *b)
{
    struct results r;
    spoil(b, b->gradients, parameters_size(&model));
    spoil(b, b->whole_memory, layer_work_size(&model, false));
    for (int m = 0; m < MICROBATCHES; m++) {
        boundary_random(b->device, &model, RANDOM_TARGET, 1, m, b->dout);
        layer_backward(b->device, &model, &b->weights, b->gradients, &b->saved[m], &b->whole.kept, &b->whole,
            b->dout, b->dout, m > 0);
        keep_dx(b, &r, m, b->dout);
    }
    keep_gradients(b, &r);
    return r;
}

/* All I, the last microbatch first; then all W. The work memory is spoilt before each. */
static struct results in_halves(struct bench *b)
{
    struct results r;
    spoil(b, b->gradients, parameters_size(&model));
    for (int m = MICROBATCHES - 1; m >= 0; m--) {
        spoil(b, b->work_memory, layer_work_size(&model, true));
        spoil(b, b->kept_memory[m], layer_kept_size(&model));
        boundary_random(b->device, &model, RANDOM_TARGET, 1, m, b->kept[m].dout);
        layer_backward_input(b->device, &model, &b->weights, &b->saved[m], &b->kept[m], &b->work, b->dx);
        keep_dx(b, &r, m, b->dx);
    }
    spoil(b, b->dx, boundary_size(&model));
    for (int m = 0; m < MICROBATCHES; m++) {
        spoil(b, b->work_memory, layer_work_size(&model, true));
        layer_backward_weight(
            b->device, &model, &b->weights, b->gradients, &b->saved[m], &b->kept[m], &b->work, m > 0);
    }
    keep_gradients(b, &r);
    return r;
}

static size_t bits_differ(const float *a, const float *b, size_t count)
{
    size_t differ = 0;
    for (size_t i = 0; i < count; i++) differ += memcmp(&a[i], &b[i], sizeof *a) != 0;
    return differ;
}

static void compare(const char *kind)
{
    struct bench b;
    bench_open(&b, kind);
    struct results one = in_one_piece(&b), two = in_halves(&b);
    for (int m = 0; m < MICROBATCHES; m++) {
        const size_t differ = bits_differ(one.dx[m], two.dx[m], boundary_size(&model));
        CHECK(differ == 0, "%s: microbatch %d: %zu elements of dx differ", kind, m, differ);
        CHECK(one.dx[m][0] == one.dx[m][0], "%s: microbatch %d: dx is a NaN", kind, m);
        free(one.dx[m]);
        free(two.dx[m]);
    }
    for (int p = 0; p < PARAMETERS; p++) {
        const struct extent extent = parameter_extent(&model, (enum parameter)p);
        const size_t at = parameter_offset(&model, (enum parameter)p), count = extent.rows * extent.columns;
        const size_t differ = bits_differ(one.gradients + at, two.gradients + at, count);
        CHECK(differ == 0, "%s: %s: %zu of %zu elements differ", kind, parameter_name[p], differ, count);
        CHECK(two.gradients[at] == two.gradients[at], "%s: %s is a NaN", kind, parameter_name[p]);
    }
    free(one.gradients);
    free(two.gradients);
    bench_close(&b);
}

int main(void)
{
    compare("host");
    compare("definition");
    return check_result();
}
