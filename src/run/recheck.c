#include "run/recheck.h"
#include <stdlib.h>

struct recheck {
    struct recheck_request request;
    size_t boundary, layer_size, saved_size;
    float *weights, *gradients, *saved; /* [most_layers] of each */
    char *operands;                     /* [most_layers], or NULL */
    float *work_memory;
    struct layer_work work;
    float *out, *dout, *target, *loss; /* [boundary] three times, [1] */
};

static float *device_floats(struct device *device, size_t count)
{
    return device->allocate(device, checked_product(count, sizeof(float), "device memory"));
}

size_t recheck_memory(const struct model *model, int most_layers)
{
    const size_t layers = (size_t)most_layers;
    return (layers * (2 * parameters_size(model) + layer_saved_size(model)) + layer_work_size(model, false) +
               3 * boundary_size(model) + 1) *
               sizeof(float) +
           layers * operands_bytes(model);
}

/* An asynchronous device chooses its algorithms at the first use of a shape: device.arithmetic then names
 * them all. */
static void use_everything_once(struct recheck *r)
{
    struct device *device = r->request.device;
    const struct model *model = r->request.model;
    const struct layer_saved saved = layer_saved_view(model, r->saved);
    const struct layer_weights weights = { r->weights, r->operands };
    layer_parameters(device, model, 0, &weights);
    boundary_random(device, model, RANDOM_INPUT, 0, 0, saved.x);
    layer_forward(device, model, &weights, &saved, &r->work, r->out);
    for (int accumulate = 0; accumulate < 2; accumulate++)
        layer_backward(device, model, &weights, r->gradients, &saved, &r->work.kept, &r->work, r->out,
            r->dout, accumulate);
    device->synchronize(device);
}

struct recheck *recheck_create(const struct recheck_request *request)
{
    struct recheck *r = allocate(1, sizeof *r);
    const struct model *model = request->model;
    struct device *device = request->device;
    const size_t layers = (size_t)request->most_layers;
    *r = (struct recheck){ .request = *request,
        .boundary = boundary_size(model),
        .layer_size = parameters_size(model),
        .saved_size = layer_saved_size(model) };
    if (layers > 0) {
        r->weights = device_floats(device, checked_product(layers, r->layer_size, "weights"));
        r->gradients = device_floats(device, checked_product(layers, r->layer_size, "gradients"));
        r->saved = device_floats(device, checked_product(layers, r->saved_size, "saved tensors"));
        if (operands_bytes(model)) r->operands = device->allocate(device, layers * operands_bytes(model));
    }
    r->work_memory = device_floats(device, layer_work_size(model, false));
    r->work = layer_work_view(model, false, r->work_memory);
    r->out = device_floats(device, r->boundary);
    r->dout = device_floats(device, r->boundary);
    r->target = device_floats(device, r->boundary);
    r->loss = device_floats(device, 1);
    if (!device->is_host && layers > 0) use_everything_once(r);
    return r;
}

void recheck_close(struct recheck *r)
{
    if (!r) return;
    void *const memory[] = { r->weights, r->gradients, r->saved, r->operands, r->work_memory, r->out, r->dout,
        r->target, r->loss };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) r->request.device->release(r->request.device, memory[i]);
    free(r);
}

static struct layer_weights weights_of(const struct recheck *r, int place)
{
    return (struct layer_weights){ .values = r->weights + (size_t)place * r->layer_size,
        .operands = r->operands ? r->operands + (size_t)place * operands_bytes(r->request.model) : NULL };
}

static float *gradients_of(const struct recheck *r, int place)
{
    return r->gradients + (size_t)place * r->layer_size;
}

static struct layer_saved saved_of(const struct recheck *r, int place)
{
    return layer_saved_view(r->request.model, r->saved + (size_t)place * r->saved_size);
}

static void compare(
    const struct recheck_judge *judge, enum tensor_class class, int layer, int index, float *data)
{
    judge->compare(judge->context, (struct tensor){ class, layer, index }, data);
}

/* All of a layer's parameters, or their gradients, from one block. */
static void compare_parameters(const struct recheck *r, const struct recheck_judge *judge,
    enum tensor_class class, int layer, float *block)
{
    for (int p = PARAMETERS - 1; p >= 0; p--)
        compare(judge, class, layer, p, block + parameter_offset(r->request.model, (enum parameter)p));
}

static void make_weights(
    struct recheck *r, const struct recheck_chunk *chunk, const struct recheck_judge *judge)
{
    for (int layer = chunk->first; layer < chunk->end; layer++) {
        const struct layer_weights weights = weights_of(r, layer - chunk->first);
        layer_parameters(r->request.device, r->request.model, layer, &weights);
        compare_parameters(r, judge, TENSOR_PARAMETER, layer, weights.values);
    }
}

/* The chunk's input into `x`: the step's, or what the layer before recorded. */
static bool load_input(struct recheck *r, int step, const struct recheck_chunk *chunk, int microbatch,
    const struct recheck_judge *judge, float *x)
{
    if (chunk->first == 0) {
        boundary_random(r->request.device, r->request.model, RANDOM_INPUT, step, microbatch, x);
        if (chunk->is_first) compare(judge, TENSOR_INPUT, 0, microbatch, x);
    } else if (!judge->load(
                   judge->context, (struct tensor){ TENSOR_ACTIVATION, chunk->first - 1, microbatch }, x)) {
        return false;
    }
    if (!chunk->is_first) judge->arrived(judge->context, false, microbatch, x);
    return true;
}

/* The gradient of the chunk's output, of which `out` is computed, into r->dout: the loss's, or what the layer
   behind recorded. */
static bool load_gradient(struct recheck *r, int step, const struct recheck_chunk *chunk, int microbatch,
    const struct recheck_judge *judge)
{
    const struct model *model = r->request.model;
    if (chunk->end == model->layers) {
        boundary_random(r->request.device, model, RANDOM_TARGET, step, microbatch, r->target);
        if (chunk->is_last) compare(judge, TENSOR_TARGET, 0, microbatch, r->target);
        model_loss(r->request.device, model, r->out, r->target, r->dout, r->loss, microbatch > 0);
    } else if (!judge->load(judge->context,
                   (struct tensor){ TENSOR_ACTIVATION_GRADIENT, chunk->end, microbatch }, r->dout)) {
        return false;
    }
    if (!chunk->is_last) judge->arrived(judge->context, true, microbatch, r->dout);
    return true;
}

static bool run_microbatch(struct recheck *r, int step, const struct recheck_chunk *chunk, int microbatch,
    const struct recheck_judge *judge)
{
    const struct model *model = r->request.model;
    struct device *device = r->request.device;
    const int count = chunk->end - chunk->first;
    float *const begin = count > 0 ? saved_of(r, 0).x : r->out;
    if (!load_input(r, step, chunk, microbatch, judge, begin)) return false;
    for (int i = 0; i < count; i++) {
        const struct layer_saved saved = saved_of(r, i);
        const struct layer_weights weights = weights_of(r, i);
        float *const out = i + 1 < count ? saved_of(r, i + 1).x : r->out;
        layer_forward(device, model, &weights, &saved, &r->work, out);
        compare(judge, TENSOR_ACTIVATION, chunk->first + i, microbatch, out);
    }
    if (!load_gradient(r, step, chunk, microbatch, judge)) return false;
    for (int i = count - 1; i >= 0; i--) {
        const struct layer_saved saved = saved_of(r, i);
        const struct layer_weights weights = weights_of(r, i);
        layer_backward(device, model, &weights, gradients_of(r, i), &saved, &r->work.kept, &r->work, r->dout,
            r->dout, microbatch > 0);
        compare(judge, TENSOR_ACTIVATION_GRADIENT, chunk->first + i, microbatch, r->dout);
    }
    return true;
}

void recheck_run(
    struct recheck *r, int step, const struct recheck_chunk *chunk, const struct recheck_judge *judge)
{
    r->request.device->check_arithmetic(r->request.device);
    make_weights(r, chunk, judge);
    for (int microbatch = 0; microbatch < r->request.model->microbatches; microbatch++)
        if (!run_microbatch(r, step, chunk, microbatch, judge)) return;
    if (chunk->is_last) {
        float sum;
        r->request.device->download(r->request.device, &sum, r->loss, sizeof sum);
        judge->loss(judge->context, sum * loss_scale(r->request.model));
    }
    for (int layer = chunk->end - 1; layer >= chunk->first; layer--)
        compare_parameters(r, judge, TENSOR_GRADIENT, layer, gradients_of(r, layer - chunk->first));
}
