#include "run/reference.h"
#include <stdlib.h>

enum { DIGESTS_AT_ONCE = 256 };

struct reference {
    struct reference_request request;
    struct layer_weights weights; /* of the layer that is being computed, */
    float *gradients;             /* as these */
    float *saved_memory, *work_memory;
    struct layer_saved saved;
    struct layer_work work;
    float *out, *gradient, *loss; /* [boundary], [boundary], [1] */
    float *host;                  /* [boundary] on its way to or from the spill */
    struct observer *observer;
};

static float *device_floats(struct device *device, size_t count)
{
    return device->allocate(device, checked_product(count, sizeof(float), "device memory"));
}

size_t reference_memory(const struct model *model)
{
    return (2 * parameters_size(model) + layer_saved_size(model) + layer_work_size(model, false) +
               2 * boundary_size(model) + 1) *
               sizeof(float) +
           operands_bytes(model) + observer_device_bytes(DIGESTS_AT_ONCE);
}

/* An asynchronous device chooses its algorithms at the first use of a shape: so that what the output says of
   them is complete before the first step, both ways of beginning a gradient are used once. */
static void use_everything_once(struct reference *r)
{
    struct device *device = r->request.device;
    const struct model *model = r->request.model;
    layer_parameters(device, model, 0, &r->weights);
    boundary_random(device, model, RANDOM_INPUT, 0, 0, r->saved.x);
    layer_forward(device, model, &r->weights, &r->saved, &r->work, r->out);
    for (int accumulate = 0; accumulate < 2; accumulate++)
        layer_backward(device, model, &r->weights, r->gradients, &r->saved, &r->work.kept, &r->work, r->out,
            r->gradient, accumulate);
    device->synchronize(device);
}

struct reference *reference_create(const struct reference_request *request)
{
    struct reference *r = allocate(1, sizeof *r);
    r->request = *request;
    const struct model *model = request->model;
    struct device *device = request->device;
    r->weights.values = device_floats(device, parameters_size(model));
    if (operands_bytes(model)) r->weights.operands = device->allocate(device, operands_bytes(model));
    r->gradients = device_floats(device, parameters_size(model));
    r->saved_memory = device_floats(device, layer_saved_size(model));
    r->work_memory = device_floats(device, layer_work_size(model, false));
    r->saved = layer_saved_view(model, r->saved_memory);
    r->work = layer_work_view(model, false, r->work_memory);
    r->out = device_floats(device, boundary_size(model));
    r->gradient = device_floats(device, boundary_size(model));
    r->loss = device_floats(device, 1);
    r->host = allocate(boundary_size(model), sizeof *r->host);
    const size_t step_digests = (size_t)model->layers * (2 * (size_t)model->microbatches + PARAMETERS) + 1;
    r->observer = observer_create(
        device, model, &request->reporting, DIGESTS_AT_ONCE, step_digests * (size_t)request->steps);
    if (!device->is_host) use_everything_once(r);
    return r;
}

void reference_close(struct reference *r)
{
    if (!r) return;
    observer_close(r->observer);
    void *const memory[] = { r->weights.values, r->weights.operands, r->gradients, r->saved_memory,
        r->work_memory, r->out, r->gradient, r->loss };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) r->request.device->release(r->request.device, memory[i]);
    free(r->host);
    free(r);
}

static void put(struct reference *r, const struct spill *spill, struct tensor tensor, const float *from)
{
    r->request.device->download(
        r->request.device, r->host, from, boundary_size(r->request.model) * sizeof(float));
    spill->write(spill->context, tensor, r->host);
}

static void get(struct reference *r, const struct spill *spill, struct tensor tensor, float *to)
{
    spill->read(spill->context, tensor, r->host);
    r->request.device->upload(
        r->request.device, to, r->host, boundary_size(r->request.model) * sizeof(float));
}

/* The input of a layer: the step's, or the output of the layer before. */
static void load_input(struct reference *r, const struct spill *spill, int step, int layer, int microbatch)
{
    if (layer == 0)
        boundary_random(r->request.device, r->request.model, RANDOM_INPUT, step, microbatch, r->saved.x);
    else
        get(r, spill, (struct tensor){ TENSOR_ACTIVATION, layer - 1, microbatch }, r->saved.x);
}

/* A backward pass makes the layer's activations again, and is twice as long without that. */
static void passed(const struct reference *r, int step, bool backward, int layer, int microbatch)
{
    const struct model *model = r->request.model;
    if (!r->request.passed) return;
    const double all = (double)model->layers * model->microbatches,
                 done = (double)(backward ? model->layers - 1 - layer : layer) * model->microbatches +
                        microbatch + 1;
    const struct reference_position position = { .step = step,
        .layer = layer,
        .microbatch = microbatch,
        .backward = backward,
        .share = (backward ? all + 3 * done : done) / (4 * all) };
    r->request.passed(r->request.context, &position);
}

static void forward_pass(struct reference *r, int step, const struct spill *spill)
{
    const struct model *model = r->request.model;
    for (int layer = 0; layer < model->layers; layer++) {
        layer_parameters(r->request.device, model, layer, &r->weights);
        observer_see_parameters(r->observer, layer, r->weights.values);
        for (int microbatch = 0; microbatch < model->microbatches; microbatch++) {
            load_input(r, spill, step, layer, microbatch);
            if (layer == 0)
                observer_see(r->observer, (struct tensor){ TENSOR_INPUT, 0, microbatch }, r->saved.x, true);
            layer_forward(r->request.device, model, &r->weights, &r->saved, &r->work, r->out);
            const struct tensor tensor = { TENSOR_ACTIVATION, layer, microbatch };
            observer_see(r->observer, tensor, r->out, r->request.begins_chunk[layer + 1]);
            put(r, spill, tensor, r->out);
            passed(r, step, false, layer, microbatch);
        }
    }
}

/* From the outputs of the last layer to their gradients, and the step's loss. */
static float loss_pass(struct reference *r, int step, const struct spill *spill)
{
    const struct model *model = r->request.model;
    struct device *device = r->request.device;
    for (int microbatch = 0; microbatch < model->microbatches; microbatch++) {
        get(r, spill, (struct tensor){ TENSOR_ACTIVATION, model->layers - 1, microbatch }, r->out);
        boundary_random(device, model, RANDOM_TARGET, step, microbatch, r->saved.y);
        observer_see(r->observer, (struct tensor){ TENSOR_TARGET, 0, microbatch }, r->saved.y, true);
        model_loss(device, model, r->out, r->saved.y, r->gradient, r->loss, microbatch > 0);
        put(r, spill, (struct tensor){ TENSOR_ACTIVATION_GRADIENT, model->layers, microbatch }, r->gradient);
    }
    float sum;
    device->download(device, &sum, r->loss, sizeof sum);
    return sum * loss_scale(model);
}

static void backward_pass(struct reference *r, int step, const struct spill *spill)
{
    const struct model *model = r->request.model;
    for (int layer = model->layers - 1; layer >= 0; layer--) {
        layer_parameters(r->request.device, model, layer, &r->weights);
        for (int microbatch = 0; microbatch < model->microbatches; microbatch++) {
            load_input(r, spill, step, layer, microbatch);
            layer_forward(r->request.device, model, &r->weights, &r->saved, &r->work, NULL);
            get(r, spill, (struct tensor){ TENSOR_ACTIVATION_GRADIENT, layer + 1, microbatch }, r->gradient);
            layer_backward(r->request.device, model, &r->weights, r->gradients, &r->saved, &r->work.kept,
                &r->work, r->gradient, r->gradient, microbatch > 0);
            const struct tensor tensor = { TENSOR_ACTIVATION_GRADIENT, layer, microbatch };
            observer_see(r->observer, tensor, r->gradient, r->request.begins_chunk[layer]);
            if (layer > 0) put(r, spill, tensor, r->gradient);
            passed(r, step, true, layer, microbatch);
        }
        observer_see_gradients(r->observer, layer, r->gradients);
    }
}

struct step_record reference_step(
    struct reference *r, int step, const struct spill *spill, const struct sink *sink)
{
    struct step_record record = { .step = step, .start = seconds_now() };
    r->request.device->check_arithmetic(r->request.device);
    observer_begin(r->observer, step, sink);
    forward_pass(r, step, spill);
    record.loss = loss_pass(r, step, spill);
    observer_loss(r->observer, record.loss);
    backward_pass(r, step, spill);
    observer_flush(r->observer);
    record.seconds = seconds_now() - record.start;
    record.busy = record.seconds;
    return record;
}

const struct tensor_digest *reference_digests(const struct reference *r, size_t *count)
{
    return observer_digests(r->observer, count);
}
