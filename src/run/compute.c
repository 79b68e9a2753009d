/* The model's worker: F, B, I and W of a chunk's layers on the device, between slots and channel buffers. */
#include "run/worker.h"
#include <math.h>
#include <stdlib.h>

struct model_worker {
    struct worker worker; /* first: a struct worker * is a pointer to all of it */
    struct pipeline_request request;
    /* Elements: parameters of a layer, saved tensors of a layer, what its I leaves for its W, a boundary
     * tensor. */
    size_t layer_size, saved_size, kept_size, boundary;
    int *layers, layer_count;   /* this rank's layers, ascending */
    int *local_of;              /* [model layers] index among them, or -1 */
    float *weights, *gradients; /* [layer_count][layer_size] */
    float *slots;               /* [slots][slot_size], laid out as memory_slot_elements says */
    size_t slot_size;
    int slot_layers;
    bool splits, has_last;
    struct layer_work work;
    float *work_memory, *out, *target, *loss; /* out, target, loss: only on the last chunk's rank */
    struct observer *observer;
};

static struct model_worker *mine(struct worker *worker)
{
    return (struct model_worker *)worker;
}

static int chunk_layers(const struct model_worker *w, int chunk)
{
    return partition_layers(w->request.partition, chunk);
}

static bool is_last(const struct model_worker *w, int chunk)
{
    return chunk == w->request.program->chunks - 1;
}

static float *weights_of(const struct model_worker *w, int layer)
{
    return w->weights + (size_t)w->local_of[layer] * w->layer_size;
}

static float *gradients_of(const struct model_worker *w, int layer)
{
    return w->gradients + (size_t)w->local_of[layer] * w->layer_size;
}

/* --- slots --- */

static float *slot_of(const struct model_worker *w, int slot)
{
    return w->slots + (size_t)slot * w->slot_size;
}

static struct layer_saved saved_of(const struct model_worker *w, int slot, int place)
{
    return layer_saved_view(w->request.model, slot_of(w, slot) + (size_t)place * w->saved_size);
}

/* The gradient of the last chunk's output, which F computes with the loss and backward reads. */
static float *dout_of(const struct model_worker *w, int slot)
{
    return slot_of(w, slot) + (size_t)w->slot_layers * (w->saved_size + (w->splits ? w->kept_size : 0));
}

/* What the place-th layer's I leaves for its W: in the slot where this rank's program splits backward. */
static struct layer_kept kept_of(const struct model_worker *w, const struct operation *o, int place)
{
    if (!w->splits) return w->work.kept;
    struct layer_kept kept = layer_kept_view(w->request.model,
        slot_of(w, o->slot) + (size_t)w->slot_layers * w->saved_size + (size_t)place * w->kept_size);
    const int chunk = o->compute.chunk;
    if (is_last(w, chunk) && place == chunk_layers(w, chunk) - 1) kept.dout = dout_of(w, o->slot);
    return kept;
}

/* --- the four kinds --- */

static void inject(struct model_worker *w, int step, struct tensor tensor, int microbatch, float *data)
{
    const struct injection *i = &w->request.injection;
    if (!i->active || i->step != step || i->microbatch != microbatch || i->tensor.class != tensor.class ||
        i->layer != tensor.layer)
        return;
    if (tensor.class == TENSOR_GRADIENT && i->tensor.index != tensor.index) return;
    w->request.device->flip_bit(w->request.device, data, i->element, i->bit);
}

/* The gradient of a layer's input has its final bits. */
static void input_gradient_done(
    struct model_worker *w, int step, int layer, int microbatch, float *dx, bool boundary)
{
    const struct tensor tensor = { TENSOR_ACTIVATION_GRADIENT, layer, microbatch };
    inject(w, step, tensor, microbatch, dx);
    observer_see(w->observer, tensor, dx, boundary);
}

/* One microbatch more is in a layer's parameters' gradients; after the last they have their final bits. */
static void weight_gradients_done(
    struct model_worker *w, int step, int layer, int microbatch, float *gradients)
{
    const struct model *model = w->request.model;
    for (int parameter = 0; parameter < PARAMETERS; parameter++)
        inject(w, step, (struct tensor){ TENSOR_GRADIENT, layer, parameter }, microbatch,
            gradients + parameter_offset(model, (enum parameter)parameter));
    if (microbatch == model->microbatches - 1) observer_see_gradients(w->observer, layer, gradients);
}

static void forward(struct worker *worker, int step, const struct operation *o, float *input, float *output)
{
    struct model_worker *w = mine(worker);
    struct device *device = w->request.device;
    const struct model *model = w->request.model;
    const int chunk = o->compute.chunk, microbatch = o->compute.microbatch;
    const int first = w->request.partition->first[chunk], count = chunk_layers(w, chunk);
    float *const end = is_last(w, chunk) ? w->out : output;
    float *const begin = count > 0 ? saved_of(w, o->slot, 0).x : end;

    if (chunk == 0) {
        boundary_random(device, model, RANDOM_INPUT, step, microbatch, begin);
        observer_see(w->observer, (struct tensor){ TENSOR_INPUT, 0, microbatch }, begin, true);
    } else if (begin != input) { /* a chunk without layers may hand on the very buffer of a local channel */
        device->copy(device, begin, input, w->boundary * sizeof(float));
    }
    for (int i = 0; i < count; i++) {
        const int layer = first + i;
        const struct layer_saved saved = saved_of(w, o->slot, i);
        float *const out = i + 1 < count ? saved_of(w, o->slot, i + 1).x : end;
        layer_forward(device, model, weights_of(w, layer), &saved, &w->work, out);
        const struct tensor tensor = { TENSOR_ACTIVATION, layer, microbatch };
        inject(w, step, tensor, microbatch, out);
        observer_see(w->observer, tensor, out, i + 1 == count);
    }
    if (is_last(w, chunk)) {
        boundary_random(device, model, RANDOM_TARGET, step, microbatch, w->target);
        observer_see(w->observer, (struct tensor){ TENSOR_TARGET, 0, microbatch }, w->target, true);
        const float inverse = 1.0f / (float)loss_elements(model);
        device->loss(device, model_tokens(model), (size_t)model->hidden, w->out, w->target, inverse,
            dout_of(w, o->slot), w->loss, microbatch > 0);
    }
}

static void backward(struct worker *worker, int step, const struct operation *o, float *input, float *output)
{
    struct model_worker *w = mine(worker);
    struct device *device = w->request.device;
    const struct model *model = w->request.model;
    const int chunk = o->compute.chunk, microbatch = o->compute.microbatch;
    const int first = w->request.partition->first[chunk], count = chunk_layers(w, chunk);
    float *dout = is_last(w, chunk) ? dout_of(w, o->slot) : input;

    if (count == 0 && output && output != dout)
        device->copy(device, output, dout, w->boundary * sizeof(float));
    for (int i = count - 1; i >= 0; i--) {
        const int layer = first + i;
        const struct layer_saved saved = saved_of(w, o->slot, i);
        const struct layer_kept kept = kept_of(w, o, i);
        /* Inside the chunk the gradient of a layer's input takes the place of that of its output, which
         * nobody needs again. */
        float *const dx = i == 0 && output ? output : dout;
        layer_backward(device, model, weights_of(w, layer), gradients_of(w, layer), &saved, &kept, &w->work,
            dout, dx, microbatch > 0);
        weight_gradients_done(w, step, layer, microbatch, gradients_of(w, layer));
        input_gradient_done(w, step, layer, microbatch, dx, i == 0);
        dout = dx;
    }
}

/* Each layer's dx is the dout of the layer before it, and stays in the slot for W. */
static void input(struct worker *worker, int step, const struct operation *o, float *received, float *output)
{
    struct model_worker *w = mine(worker);
    struct device *device = w->request.device;
    const int chunk = o->compute.chunk, microbatch = o->compute.microbatch;
    const int first = w->request.partition->first[chunk], count = chunk_layers(w, chunk);
    float *const dout = is_last(w, chunk) ? dout_of(w, o->slot) : received;
    float *const begin = count > 0 ? kept_of(w, o, count - 1).dout : output;

    if (begin && begin != dout) device->copy(device, begin, dout, w->boundary * sizeof(float));
    for (int i = count - 1; i >= 0; i--) {
        const struct layer_saved saved = saved_of(w, o->slot, i);
        const struct layer_kept kept = kept_of(w, o, i);
        /* Nobody takes the gradient of the step's inputs: it is only looked at, and work->normed is free. */
        float *const dx = i > 0 ? kept_of(w, o, i - 1).dout : output ? output : w->work.normed;
        layer_backward_input(device, w->request.model, weights_of(w, first + i), &saved, &kept, &w->work, dx);
        input_gradient_done(w, step, first + i, microbatch, dx, i == 0);
    }
}

static void weight(struct worker *worker, int step, const struct operation *o, float *received, float *output)
{
    (void)received;
    (void)output;
    struct model_worker *w = mine(worker);
    const int chunk = o->compute.chunk, microbatch = o->compute.microbatch;
    const int first = w->request.partition->first[chunk];
    for (int i = chunk_layers(w, chunk) - 1; i >= 0; i--) {
        const int layer = first + i;
        const struct layer_saved saved = saved_of(w, o->slot, i);
        const struct layer_kept kept = kept_of(w, o, i);
        layer_backward_weight(w->request.device, w->request.model, weights_of(w, layer),
            gradients_of(w, layer), &saved, &kept, &w->work, microbatch > 0);
        weight_gradients_done(w, step, layer, microbatch, gradients_of(w, layer));
    }
}

/* --- around the step --- */

static void begin_step(struct worker *worker, int step, const struct sink *sink)
{
    struct model_worker *w = mine(worker);
    w->request.device->check_arithmetic(w->request.device);
    observer_begin(w->observer, step, sink);
    if (sink && w->request.reporting.parameters)
        for (int i = 0; i < w->layer_count; i++)
            observer_see_parameters(w->observer, w->layers[i], weights_of(w, w->layers[i]));
}

static float finish_step(struct worker *worker)
{
    struct model_worker *w = mine(worker);
    float loss = NAN;
    if (w->has_last) {
        float sum;
        w->request.device->download(w->request.device, &sum, w->loss, sizeof sum);
        loss = sum * (1.0f / (float)loss_elements(w->request.model));
        observer_loss(w->observer, loss);
    }
    observer_flush(w->observer);
    return loss;
}

static const struct tensor_digest *digests(const struct worker *worker, size_t *count)
{
    return observer_digests(((const struct model_worker *)worker)->observer, count);
}

/* --- set-up --- */

static float *device_floats(struct device *device, size_t count)
{
    return device->allocate(device, checked_product(count, sizeof(float), "device memory"));
}

static void make_layers(struct model_worker *w)
{
    const struct pipeline_request *r = &w->request;
    w->layer_count = (int)memory_layers(r->partition, r->program, r->rank);
    w->layers = allocate((size_t)w->layer_count, sizeof *w->layers);
    w->local_of = allocate((size_t)r->model->layers, sizeof *w->local_of);
    for (int i = 0; i < r->model->layers; i++) w->local_of[i] = -1;
    int count = 0;
    for (int chunk = 0; chunk < r->program->chunks; chunk++)
        if (r->program->rank_of[chunk] == r->rank)
            for (int layer = r->partition->first[chunk]; layer < r->partition->first[chunk + 1]; layer++) {
                w->local_of[layer] = count;
                w->layers[count++] = layer;
            }
    w->weights = device_floats(r->device, (size_t)w->layer_count * w->layer_size);
    w->gradients = device_floats(r->device, (size_t)w->layer_count * w->layer_size);
    for (int i = 0; i < w->layer_count; i++)
        layer_parameters(r->device, r->model, w->layers[i], weights_of(w, w->layers[i]));
}

static void close_worker(struct worker *worker)
{
    struct model_worker *w = mine(worker);
    struct device *device = w->request.device;
    observer_close(w->observer);
    float *const memory[] = { w->weights, w->gradients, w->slots, w->work_memory, w->out, w->target,
        w->loss };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) device->release(device, memory[i]);
    free(w->layers);
    free(w->local_of);
    free(w);
}

struct worker *compute_create(const struct pipeline_request *request)
{
    struct model_worker *w = allocate(1, sizeof *w);
    const struct model *model = request->model;
    const struct program *program = request->program;
    struct device *device = request->device;
    w->worker = (struct worker){ .compute = { [COMPUTE_F] = forward,
                                     [COMPUTE_B] = backward,
                                     [COMPUTE_I] = input,
                                     [COMPUTE_W] = weight },
        .begin = begin_step,
        .finish = finish_step,
        .digests = digests,
        .close = close_worker };
    w->request = *request;
    w->layer_size = parameters_size(model);
    w->saved_size = layer_saved_size(model);
    w->kept_size = layer_kept_size(model);
    w->boundary = boundary_size(model);
    w->splits = memory_splits(program, request->rank);
    w->has_last = program->rank_of[program->chunks - 1] == request->rank;
    w->slot_layers = memory_slot_layers(request->partition, program, request->rank);
    w->slot_size = memory_slot_elements(model, request->partition, program, request->rank);
    make_layers(w);
    w->slots = device_floats(device,
        checked_product((size_t)program->rank[request->rank].slots, w->slot_size, "activation slots"));
    w->work_memory = device_floats(device, layer_work_size(model, w->splits));
    w->work = layer_work_view(model, w->splits, w->work_memory);
    if (w->has_last) {
        w->out = device_floats(device, w->boundary);
        w->target = device_floats(device, w->boundary);
        w->loss = device_floats(device, 1);
    }
    const size_t count = memory_step_digests(model, (size_t)w->layer_count, &request->reporting);
    w->observer =
        observer_create(device, model, &request->reporting, count, (count + 1) * (size_t)request->steps);
    return &w->worker;
}
