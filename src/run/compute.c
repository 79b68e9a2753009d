/* The model's worker: F, B, I and W of a chunk's layers on the device, between slots and channel buffers. */
#include "run/arrivals.h"
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
    char *operands;             /* [layer_count][operands_bytes], or NULL */
    float *slots;               /* [slots][slot_size], laid out as memory_slot_elements says */
    size_t slot_size;
    int slot_layers;
    bool splits, has_last;
    struct layer_work work;
    float *work_memory, *out, *target, *loss; /* out, target, loss: only on the last chunk's rank */
    float *unpacked; /* [boundary] what a message holds, where its elements are not fp32; else NULL */
    struct observer *observer;
    struct arrivals *arrivals;
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

static struct layer_weights weights_of(const struct model_worker *w, int layer)
{
    const size_t local = (size_t)w->local_of[layer];
    return (struct layer_weights){ .values = w->weights + local * w->layer_size,
        .operands = w->operands ? w->operands + local * operands_bytes(w->request.model) : NULL };
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

/* --- messages --- */

/* A channel buffer as a boundary tensor is read from, or written to, where messages are fp32; else the place
   beside it, which message_in fills and message_out empties. */
static float *boundary_of(const struct model_worker *w, float *message)
{
    return message && w->unpacked ? w->unpacked : message;
}

static void message_in(const struct model_worker *w, const float *message)
{
    struct device *device = w->request.device;
    if (message && w->unpacked) device->unpack_message(device, w->boundary, message, w->unpacked);
}

/* The compute's input has come: looked at before anything is made of it. */
static void arrived(const struct model_worker *w, struct compute compute, const float *received)
{
    const struct tensor tensor = { TENSOR_ACTIVATION, 0, compute.microbatch };
    if (received) arrivals_see(w->arrivals, compute, tensor_first_index(w->request.model, tensor), received);
}

static void message_out(const struct model_worker *w, float *message)
{
    struct device *device = w->request.device;
    if (message && w->unpacked) device->pack_message(device, w->boundary, w->unpacked, message);
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

static void forward(struct worker *worker, int step, const struct operation *o, float *received, float *sent)
{
    struct model_worker *w = mine(worker);
    struct device *device = w->request.device;
    const struct model *model = w->request.model;
    const int chunk = o->compute.chunk, microbatch = o->compute.microbatch;
    const int first = w->request.partition->first[chunk], count = chunk_layers(w, chunk);
    float *const input = boundary_of(w, received), *const output = boundary_of(w, sent);
    float *const end = is_last(w, chunk) ? w->out : output;
    float *const begin = count > 0 ? saved_of(w, o->slot, 0).x : end;
    message_in(w, received);
    arrived(w, o->compute, input);

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
        const struct layer_weights weights = weights_of(w, layer);
        layer_forward(device, model, &weights, &saved, &w->work, out);
        const struct tensor tensor = { TENSOR_ACTIVATION, layer, microbatch };
        inject(w, step, tensor, microbatch, out);
        observer_see(w->observer, tensor, out, i + 1 == count);
    }
    if (is_last(w, chunk)) {
        boundary_random(device, model, RANDOM_TARGET, step, microbatch, w->target);
        observer_see(w->observer, (struct tensor){ TENSOR_TARGET, 0, microbatch }, w->target, true);
        model_loss(device, model, w->out, w->target, dout_of(w, o->slot), w->loss, microbatch > 0);
    }
    message_out(w, sent);
}

static void backward(struct worker *worker, int step, const struct operation *o, float *received, float *sent)
{
    struct model_worker *w = mine(worker);
    struct device *device = w->request.device;
    const struct model *model = w->request.model;
    const int chunk = o->compute.chunk, microbatch = o->compute.microbatch;
    const int first = w->request.partition->first[chunk], count = chunk_layers(w, chunk);
    float *const output = boundary_of(w, sent);
    float *dout = is_last(w, chunk) ? dout_of(w, o->slot) : boundary_of(w, received);
    message_in(w, received);
    arrived(w, o->compute, boundary_of(w, received));

    if (count == 0 && output && output != dout)
        device->copy(device, output, dout, w->boundary * sizeof(float));
    for (int i = count - 1; i >= 0; i--) {
        const int layer = first + i;
        const struct layer_saved saved = saved_of(w, o->slot, i);
        const struct layer_kept kept = kept_of(w, o, i);
        /* Inside the chunk the gradient of a layer's input takes the place of that of its output, which
         * nobody needs again. */
        float *const dx = i == 0 && output ? output : dout;
        const struct layer_weights weights = weights_of(w, layer);
        layer_backward(device, model, &weights, gradients_of(w, layer), &saved, &kept, &w->work, dout, dx,
            microbatch > 0);
        weight_gradients_done(w, step, layer, microbatch, gradients_of(w, layer));
        input_gradient_done(w, step, layer, microbatch, dx, i == 0);
        dout = dx;
    }
    message_out(w, sent);
}

/* Each layer's dx is the dout of the layer before it, and stays in the slot for W. */
static void input(struct worker *worker, int step, const struct operation *o, float *received, float *sent)
{
    struct model_worker *w = mine(worker);
    struct device *device = w->request.device;
    const int chunk = o->compute.chunk, microbatch = o->compute.microbatch;
    const int first = w->request.partition->first[chunk], count = chunk_layers(w, chunk);
    float *const output = boundary_of(w, sent);
    float *const dout = is_last(w, chunk) ? dout_of(w, o->slot) : boundary_of(w, received);
    message_in(w, received);
    arrived(w, o->compute, boundary_of(w, received));
    float *const begin = count > 0 ? kept_of(w, o, count - 1).dout : output;

    if (begin && begin != dout) device->copy(device, begin, dout, w->boundary * sizeof(float));
    for (int i = count - 1; i >= 0; i--) {
        const struct layer_saved saved = saved_of(w, o->slot, i);
        const struct layer_kept kept = kept_of(w, o, i);
        /* Nobody takes the gradient of the step's inputs: it is only looked at, and work->normed is free. */
        float *const dx = i > 0 ? kept_of(w, o, i - 1).dout : output ? output : w->work.normed;
        const struct layer_weights weights = weights_of(w, first + i);
        layer_backward_input(device, w->request.model, &weights, &saved, &kept, &w->work, dx);
        input_gradient_done(w, step, first + i, microbatch, dx, i == 0);
    }
    message_out(w, sent);
}

static void weight(struct worker *worker, int step, const struct operation *o, float *received, float *sent)
{
    (void)received;
    (void)sent;
    struct model_worker *w = mine(worker);
    const int chunk = o->compute.chunk, microbatch = o->compute.microbatch;
    const int first = w->request.partition->first[chunk];
    for (int i = chunk_layers(w, chunk) - 1; i >= 0; i--) {
        const int layer = first + i;
        const struct layer_saved saved = saved_of(w, o->slot, i);
        const struct layer_kept kept = kept_of(w, o, i);
        const struct layer_weights weights = weights_of(w, layer);
        layer_backward_weight(w->request.device, w->request.model, &weights, gradients_of(w, layer), &saved,
            &kept, &w->work, microbatch > 0);
        weight_gradients_done(w, step, layer, microbatch, gradients_of(w, layer));
    }
}

/* --- around the step --- */

static void begin_step(struct worker *worker, int step, const struct sink *sink)
{
    struct model_worker *w = mine(worker);
    w->request.device->check_arithmetic(w->request.device);
    observer_begin(w->observer, step, sink);
    arrivals_begin(w->arrivals, sink != NULL);
    if (sink && w->request.reporting.parameters)
        for (int i = 0; i < w->layer_count; i++)
            observer_see_parameters(w->observer, w->layers[i], weights_of(w, w->layers[i]).values);
}

static float finish_step(struct worker *worker)
{
    struct model_worker *w = mine(worker);
    float loss = NAN;
    if (w->has_last) {
        float sum;
        w->request.device->download(w->request.device, &sum, w->loss, sizeof sum);
        loss = sum * loss_scale(w->request.model);
        observer_loss(w->observer, loss);
    }
    observer_flush(w->observer);
    arrivals_fetch(w->arrivals);
    return loss;
}

static const struct tensor_digest *digests(const struct worker *worker, size_t *count)
{
    return observer_digests(((const struct model_worker *)worker)->observer, count);
}

static const struct arrival *arrivals(const struct worker *worker, size_t *count)
{
    return arrivals_list(((const struct model_worker *)worker)->arrivals, count);
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
    const size_t operands = operands_bytes(r->model);
    if (operands) w->operands = r->device->allocate(r->device, (size_t)w->layer_count * operands);
    for (int i = 0; i < w->layer_count; i++) {
        const struct layer_weights weights = weights_of(w, w->layers[i]);
        layer_parameters(r->device, r->model, w->layers[i], &weights);
    }
}

static void close_worker(struct worker *worker)
{
    struct model_worker *w = mine(worker);
    struct device *device = w->request.device;
    observer_close(w->observer);
    arrivals_close(w->arrivals);
    void *const memory[] = { w->weights, w->operands, w->gradients, w->slots, w->work_memory, w->out,
        w->target, w->loss, w->unpacked };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) device->release(device, memory[i]);
    free(w->layers);
    free(w->local_of);
    free(w);
}

/* A layer's kernels with both ways of beginning a gradient, in slot 0; `boundary` is scratch. */
static void use_layer_once(struct model_worker *w, float *boundary)
{
    struct device *device = w->request.device;
    const struct model *model = w->request.model;
    const int layer = w->layers[0];
    const struct layer_weights weights = weights_of(w, layer);
    const struct layer_saved saved = saved_of(w, 0, 0);
    const struct layer_kept kept =
        w->splits ? layer_kept_view(model, slot_of(w, 0) + (size_t)w->slot_layers * w->saved_size)
                  : w->work.kept;
    boundary_random(device, model, RANDOM_INPUT, 0, 0, saved.x);
    layer_forward(device, model, &weights, &saved, &w->work, boundary);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        layer_backward(device, model, &weights, gradients_of(w, layer), &saved, &kept, &w->work, boundary,
            boundary, accumulate);
        if (!w->splits) continue;
        device->copy(device, kept.dout, boundary, w->boundary * sizeof(float));
        layer_backward_input(device, model, &weights, &saved, &kept, &w->work, boundary);
        layer_backward_weight(
            device, model, &weights, gradients_of(w, layer), &saved, &kept, &w->work, accumulate);
    }
}

/* An asynchronous device may stop all its work to load a kernel or to choose an algorithm for a shape: each
   is used once before the first receive is posted. Nothing that a step reads is changed. */
static void use_everything_once(struct model_worker *w)
{
    struct device *device = w->request.device;
    const struct model *model = w->request.model;
    float *boundary = device_floats(device, w->boundary);
    void *message = device->allocate(device, message_bytes(model));
    struct digest *digest = device->allocate(device, sizeof *digest);
    if (w->layer_count > 0) use_layer_once(w, boundary);
    if (w->has_last)
        for (int accumulate = 0; accumulate < 2; accumulate++)
            model_loss(device, model, w->out, w->target, boundary, w->loss, accumulate);
    device->pack_message(device, w->boundary, boundary, message);
    device->unpack_message(device, w->boundary, message, boundary);
    device->digest(device, w->boundary, boundary, 0, digest);
    device->flip_bit(device, boundary, 0, 0);
    device->zero(device, boundary, w->boundary * sizeof(float));
    device->synchronize(device);
    device->release(device, digest);
    device->release(device, message);
    device->release(device, boundary);
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
        .arrivals = arrivals,
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
    if (model->bf16) w->unpacked = device_floats(device, w->boundary);
    if (w->has_last) {
        w->out = device_floats(device, w->boundary);
        w->target = device_floats(device, w->boundary);
        w->loss = device_floats(device, 1);
    }
    const size_t count = memory_step_digests(model, (size_t)w->layer_count, &request->reporting);
    w->observer =
        observer_create(device, model, &request->reporting, count, (count + 1) * (size_t)request->steps);
    w->arrivals =
        arrivals_create(device, w->boundary, memory_arrivals(program, request->rank, &request->reporting));
    if (!device->is_host) use_everything_once(w);
    return &w->worker;
}
